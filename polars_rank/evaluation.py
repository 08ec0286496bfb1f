"""`per_query` and `evaluate`: from the long table to numbers, as one lazy plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from polars_rank.aggregation import COUNTED, PRESENCE, aggregated
from polars_rank.columns import Columns, Names, same_kind, schema_of
from polars_rank.conventions import POLARS_RANK, Conventions, Queries, Undefined, Unjudged
from polars_rank.errors import ArgumentError
from polars_rank.measures.metric import Metric
from polars_rank.measures.names import output_name, resolve
from polars_rank.plan import Wanted, per_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import polars as pl

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
    request = Request(query, doc, score, label, by, agreed, duplicates, progress)
    asked = resolve(metrics)

    def plan(log: pl.LazyFrame) -> pl.LazyFrame:
        columns = request.columns(log)
        check_names(asked, columns.keys)
        lists = request.lists(log, columns, wanted(asked, agreed), keep=columns.keys)
        if agreed.queries == "all":
            return lists
        return lists.filter(COUNTED[agreed.queries]).drop(PRESENCE)

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
        conventions say otherwise; but an expression of your own that is null for a list is
        skipped, unless `undefined` is given.

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
    if isinstance(undefined, str):
        agreed = agreed.but(own=undefined)
    request = Request(query, doc, score, label, by, agreed, duplicates, progress)
    asked = resolve(metrics)

    def plan(log: pl.LazyFrame) -> pl.LazyFrame:
        columns = request.columns(log)
        check_names(asked, [*columns.keys, "queries"])
        lists = request.lists(log, columns, wanted(asked, agreed))
        return aggregated(lists, asked, columns.by, agreed)

    return same_kind(frame, plan)


@dataclass(frozen=True)
class Request:
    """What an evaluation is asked beside its metrics."""

    query: Names = "query"
    doc: str | None = "doc"
    score: str = "score"
    label: str = "label"
    by: Names | None = None
    conventions: Conventions = POLARS_RANK
    duplicates: Duplicates = "error"
    progress: bool = False

    @classmethod
    def of(cls, *, conventions: Conventions = POLARS_RANK, **options: Any) -> Request:
        """Return what the options of `evaluate` ask for."""
        choices = ("ties", "relevant", "unjudged", "queries", "undefined")
        made = {name: options.pop(name, None) for name in choices}
        return cls(conventions=conventions.but(**made), **options)

    def columns(self, log: pl.LazyFrame) -> Columns:
        """Return the columns of the log, checked."""
        return Columns.find(
            schema_of(log),
            query=self.query,
            doc=self.doc,
            score=self.score,
            label=self.label,
            by=self.by,
        )

    def lists(
        self,
        log: pl.LazyFrame,
        columns: Columns,
        metrics: Sequence[Wanted],
        keep: Sequence[str] | None = None,
    ) -> pl.LazyFrame:
        """Return a row for each list; with `PRESENCE` where not all of them count."""
        return per_list(
            log,
            metrics,
            columns,
            columns.by if keep is None else keep,
            duplicates=self.duplicates,
            presence=self.conventions.queries != "all",
            progress=self.progress,
        )


def wanted(metrics: Sequence[pl.Expr], conventions: Conventions) -> list[Wanted]:
    """Return each metric with the conventions' parameters, and what else they say of it."""
    return [
        Wanted(
            conventions.apply(metric) if isinstance(metric, Metric) else metric,
            conventions.of(metric),
        )
        for metric in metrics
    ]


def check_names(metrics: Iterable[pl.Expr], taken: Iterable[str]) -> None:
    """Raise `ArgumentError` if a metric has the name of another column of the result."""
    for metric in metrics:
        if output_name(metric) in taken:
            message = (
                f"a metric is called {output_name(metric)!r}, which is a column of the result "
                "already; use .alias()"
            )
            raise ArgumentError(message)
