"""`per_query` and `evaluate`: from the long table to numbers, as one lazy plan."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_rank.columns import Columns, Names, same_kind, schema_of
from polars_rank.conventions import POLARS_RANK, Conventions, Queries, Undefined, Unjudged
from polars_rank.errors import ArgumentError
from polars_rank.lists import PRESENCE, per_list
from polars_rank.metrics.metric import Metric
from polars_rank.naming import output_name, resolve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from polars_rank.ranking import Duplicates, Ties

Metrics: TypeAlias = "str | pl.Expr | Iterable[str | pl.Expr]"


def per_query(
    frame: Any,
    metrics: Metrics,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: str = "score",
    label: str = "label",
    by: Names | None = None,
    ties: Ties | None = None,
    relevant: float | None = None,
    unjudged: Unjudged | None = None,
    queries: Queries | None = None,
    duplicates: Duplicates = "error",
    conventions: Conventions = POLARS_RANK,
    progress: bool = False,
) -> Any:
    """Evaluate every list: one row per query, one column per metric.

    Parameters
    ----------
    frame
        The long table: a LazyFrame, a DataFrame or a pyarrow table, one row per document of
        a list.
    metrics
        A name ("ndcg@10", "ap", "P_5", "ndcg(gain='exp2')@10"), a metric (`pr.ndcg(10)`), any
        expression over the ranked table, or several of them.
    query, doc, score, label
        Names of the columns; `query` may be several. Without a column "doc", or with
        `doc=None`, documents have no ids. A null score means judged but not retrieved, a null
        label retrieved but not judged.
    by
        Columns that split the table: a list is the rows that share (by..., query).
    ties
        How tied scores are ordered; see `rank`. Or "expected": the mean over all orders of tied
        documents (McSherry & Najork, 2008), exact and without drawing orders, for metrics of
        which a closed form is known; the others are an `ArgumentError`.
    relevant
        The lowest label that is relevant; 1 unless the conventions say otherwise.
    unjudged
        Whether retrieved documents without a label are "nonrelevant" (the default) or "removed"
        from the list before ranks are given.
    queries
        Which lists count: "all" (the default), those with a "judged" document (as
        `trec_eval -c`), with a "retrieved" one, or with "both".
    duplicates
        What to do with a document that stands twice in a list: "error", "max" or "first".
    conventions
        Whose definitions to follow where nothing else is said, such as `pr.TREC_EVAL`.
    progress
        Show a progress bar on a terminal when it takes longer than two seconds (extra "cli").

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: the `by` and `query` columns and a column per metric; null where a metric
        is undefined for the list. Rows are in the order of those keys, or in the log's own
        order where `scan_log` found that the rows of a list stand together.

    Raises
    ------
    SchemaError
        For a missing or not numeric column.
    DataError
        For a null query, NaN or infinite scores or labels, duplicate documents, labels too
        large for a gain; lazily, when the result is collected.
    ArgumentError
        For an unknown metric or a parameter out of its range.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "b"], "score": [0.9, 0.1, 0.5], "label": [0, 1, 0]
    ... })
    >>> pr.per_query(df, ["rr", "p@1"])
    shape: (2, 3)
    ┌───────┬──────┬─────┐
    │ query ┆ rr   ┆ p@1 │
    │ ---   ┆ ---  ┆ --- │
    │ str   ┆ f64  ┆ f64 │
    ╞═══════╪══════╪═════╡
    │ a     ┆ 0.5  ┆ 0.0 │
    │ b     ┆ null ┆ 0.0 │
    └───────┴──────┴─────┘
    """
    agreed = conventions.but(ties=ties, relevant=relevant, unjudged=unjudged, queries=queries)
    wanted = _wanted(metrics, agreed)

    def plan(log: pl.LazyFrame) -> pl.LazyFrame:
        columns = Columns.find(
            schema_of(log), query=query, doc=doc, score=score, label=label, by=by
        )
        _check_names(wanted, columns.keys)
        lists = per_list(
            log, wanted, columns, columns.keys, agreed, duplicates=duplicates, progress=progress
        )
        return lists if agreed.queries == "all" else _counted(lists, agreed.queries)

    return same_kind(frame, plan)


def evaluate(
    frame: Any,
    metrics: Metrics,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: str = "score",
    label: str = "label",
    by: Names | None = None,
    ties: Ties | None = None,
    relevant: float | None = None,
    unjudged: Unjudged | None = None,
    queries: Queries | None = None,
    duplicates: Duplicates = "error",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions = POLARS_RANK,
    progress: bool = False,
) -> Any:
    """Evaluate a log: the mean of each metric over the queries, per group.

    Parameters
    ----------
    frame, metrics, query, doc, score, label, by, ties, relevant, unjudged, queries, duplicates
        As for `per_query`; the `by` columns are the groups.
    conventions, progress
        As for `per_query`.
    undefined
        What a metric counts as where it is undefined for a list: "zero" (as in trec_eval and
        scikit-learn), "one" (as in LightGBM), "skip" to leave the list out of that mean,
        "null" to make the mean null; or a mapping from metrics to these. "zero" unless the
        conventions say otherwise.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group in sorted order, with the `by` columns, `queries` (how
        many lists) and a column per metric. With `queries` other than "all" also
        `queries_judged` and `queries_retrieved`, how many there are of each. Without `by` one
        row, also for an empty log: `queries` = 0 and null means.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `per_query`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "b"], "score": [0.9, 0.1, 0.5], "label": [0, 1, 0]
    ... })
    >>> pr.evaluate(df, ["rr", "p@1"], undefined="skip")
    shape: (1, 3)
    ┌─────────┬─────┬─────┐
    │ queries ┆ rr  ┆ p@1 │
    │ ---     ┆ --- ┆ --- │
    │ u32     ┆ f64 ┆ f64 │
    ╞═════════╪═════╪═════╡
    │ 2       ┆ 0.5 ┆ 0.0 │
    └─────────┴─────┴─────┘
    """
    agreed = conventions.but(
        ties=ties, relevant=relevant, unjudged=unjudged, queries=queries, undefined=undefined
    )
    wanted = _wanted(metrics, agreed)

    def plan(log: pl.LazyFrame) -> pl.LazyFrame:
        columns = Columns.find(
            schema_of(log), query=query, doc=doc, score=score, label=label, by=by
        )
        _check_names(wanted, [*columns.keys, "queries"])
        lists = per_list(
            log, wanted, columns, [*columns.by], agreed, duplicates=duplicates, progress=progress
        )
        counts = [pl.len().alias("queries")]
        if agreed.queries != "all":
            # Every list is looked at, to say how many there are of each kind.
            kinds = {
                "queries": _COUNTED[agreed.queries],
                "queries_judged": _JUDGED,
                "queries_retrieved": _FOUND,
            }
            counts = [kind.sum().alias(name) for name, kind in kinds.items()]
        means = [*counts, *(_mean(metric, agreed) for metric in wanted)]
        if not columns.by:
            return lists.select(means)
        return lists.group_by(columns.by).agg(means).sort(columns.by)

    return same_kind(frame, plan)


#: Which lists count.
_JUDGED, _FOUND = map(pl.col, PRESENCE)
_COUNTED = {"judged": _JUDGED, "retrieved": _FOUND, "both": _JUDGED & _FOUND}


def _wanted(metrics: Metrics, conventions: Conventions) -> list[pl.Expr]:
    return [
        conventions.apply(metric) if isinstance(metric, Metric) else metric
        for metric in resolve(metrics)
    ]


def _counted(lists: pl.LazyFrame, queries: Queries) -> pl.LazyFrame:
    return lists.filter(_COUNTED[queries]).drop(PRESENCE)


def _mean(metric: pl.Expr, conventions: Conventions) -> pl.Expr:
    name = output_name(metric)
    value = pl.col(name)
    if conventions.queries != "all":
        value = value.filter(_COUNTED[conventions.queries])
    undefined = counted_as(metric, conventions)
    if isinstance(undefined, float):
        value = value.fill_null(undefined)
    mean = _AGGREGATES[metric.aggregate if isinstance(metric, Metric) else "mean"](value)
    if undefined == "null":
        return pl.when(value.null_count() == 0).then(mean).alias(name)
    return mean


_AGGREGATES: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "mean": pl.Expr.mean,
    "sum": pl.Expr.sum,
    "geometric": lambda value: value.mean().exp(),
}


def counted_as(metric: pl.Expr, conventions: Conventions) -> float | Undefined:
    """Return the value that an undefined one is replaced by in the mean, or "skip" or "null"."""
    name = metric.function.__name__ if isinstance(metric, Metric) else output_name(metric)
    undefined = conventions.counts_as(name)
    if undefined not in ("zero", "one"):
        return undefined
    value = 1.0 if undefined == "one" else 0.0
    if isinstance(metric, Metric) and metric.aggregate == "geometric":  # of logarithms
        return math.log(max(value, metric.arguments.get("floor", 1e-5)))
    return value


def _check_names(metrics: list[pl.Expr], taken: list[str]) -> None:
    for metric in metrics:
        if output_name(metric) in taken:
            message = (
                f"a metric is called {output_name(metric)!r}, which is a column of the result "
                "already; use .alias()"
            )
            raise ArgumentError(message)
