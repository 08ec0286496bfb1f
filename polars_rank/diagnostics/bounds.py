"""Bounds of metrics: over orders of tied documents, and over labels of unjudged documents."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank import terms as t
from polars_rank._params import free, number
from polars_rank.conventions import read_metrics
from polars_rank.definitions import Definition
from polars_rank.diagnostics.judgment_extremes import (
    Extremes,
    label_of_relevant,
    without_negative_gains,
)
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import plan
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.means import Means, ratio, to_rows
from polars_rank.frames.tables import framed
from polars_rank.metrics.expectations import FIRST, LAST, has_expectation
from polars_rank.metrics.incomplete_judgments import judged
from polars_rank.metrics.metric import Metric, cutoff
from polars_rank.metrics.names import Metrics, output_name
from polars_rank.terms import where

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Unpack

    from polars_rank.evaluation.log import EvaluateOptions


#: Counts of tied and retrieved documents per ranking.
_TIES = {
    "tied rankings": lambda: where(t.top(LAST > FIRST).count() > 0, 1, 0),
    "tied": lambda: t.top(LAST > FIRST).count(),
    "retrieved": lambda: t.num_retrieved(),  # noqa: PLW0108  (the metric of this name is a sum)
}


@framed
def tie_bands(
    frame: pl.LazyFrame, /, metrics: Metrics, **options: Unpack[EvaluateOptions]
) -> pl.LazyFrame:
    """Compute the lowest, expected and highest mean of metrics over orders of tied documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "a", "b"], "score": [2, 2, 1, 1],
    ...     "label": [0, 1, 0, 1],
    ... })
    >>> pr.diagnostics.tie_bands(df, ["rr", "p@1"])
    shape: (2, 6)
    ┌────────┬──────┬──────────┬──────┬───────────────┬────────────────┐
    │ metric ┆ low  ┆ expected ┆ high ┆ tied_rankings ┆ tied_documents │
    │ ---    ┆ ---  ┆ ---      ┆ ---  ┆ ---           ┆ ---            │
    │ str    ┆ f64  ┆ f64      ┆ f64  ┆ f64           ┆ f64            │
    ╞════════╪══════╪══════════╪══════╪═══════════════╪════════════════╡
    │ rr     ┆ 0.75 ┆ 0.875    ┆ 1.0  ┆ 0.5           ┆ 0.5            │
    │ p@1    ┆ 0.5  ┆ 0.75     ┆ 1.0  ┆ 0.5           ┆ 0.5            │
    └────────┴──────┴──────────┴──────┴───────────────┴────────────────┘

    Parameters
    ----------
    frame
        The long table, one row per document.
    metrics
        Metrics, by name or as expressions.
    **options
        Options of `evaluate`, such as `run`, `by` and `weight`, except `ties`. `weight` also
        applies to the shares of ties.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per group and metric, with the columns of `by`
        and `run`, and

        - `metric`;
        - `low`, `high`: lower and higher mean of two orders: the higher or the lower label first
          among tied documents;
        - `expected`: mean over all orders; null if no closed form is known;
        - `tied_rankings`: share of rankings with tied documents;
        - `tied_documents`: share of retrieved documents that are tied; null if nothing is
          retrieved.

    References
    ----------
    McSherry & Najork, Computing information retrieval performance measures efficiently in the
    presence of tied scores, 2008.
    """
    given = read_metrics(metrics, options.get("conventions"))
    if "ties" in options:
        raise ArgumentError("is not supported: all orders of tied documents count", "ties")
    log = Log.of(frame, given, **options)
    every = [
        _named(ties, index, column, conventions=column.conventions.but(ties=ties))
        for ties in ("worst", "best", "expected")
        for index, column in enumerate(log.definitions)
        if ties != "expected" or has_expectation(column.metric)
    ]
    worst = log.conventions.but(ties="worst")
    shares = [Definition.of(Metric(value, {}, name), worst) for name, value in _TIES.items()]
    names = {f"worst {index}": output_name(metric) for index, metric in enumerate(given)}
    wide = _means(replace(log, definitions=[*every, *shares]), names)
    known = {column.name for column in every}
    rows = {
        output_name(metric): {
            "low": pl.min_horizontal(f"worst {index}", f"best {index}"),
            "expected": pl.col(name) if (name := f"expected {index}") in known else _NOTHING,
            "high": pl.max_horizontal(f"worst {index}", f"best {index}"),
            "tied_rankings": pl.col("tied rankings"),
            "tied_documents": ratio(pl.col("tied"), pl.col("retrieved")),
        }
        for index, metric in enumerate(given)
    }
    return _long(wide, log.columns.by, rows)


@framed
def judgment_bounds(
    frame: pl.LazyFrame,
    /,
    metrics: Metrics,
    *,
    grade: float | None = None,
    **options: Unpack[EvaluateOptions],
) -> pl.LazyFrame:
    """Compute the lowest and highest mean of metrics over labels of unjudged documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [None, 1, 0, None]
    ... })
    >>> pr.diagnostics.judgment_bounds(df, ["p@2", "recall@2"])
    shape: (2, 4)
    ┌──────────┬─────┬──────┬────────┐
    │ metric   ┆ low ┆ high ┆ judged │
    │ ---      ┆ --- ┆ ---  ┆ ---    │
    │ str      ┆ f64 ┆ f64  ┆ f64    │
    ╞══════════╪═════╪══════╪════════╡
    │ p@2      ┆ 0.5 ┆ 1.0  ┆ 0.5    │
    │ recall@2 ┆ 0.5 ┆ 1.0  ┆ 0.5    │
    └──────────┴─────┴──────┴────────┘

    Parameters
    ----------
    frame
        The long table, one row per document.
    metrics
        Metrics, by name or as expressions. They must have bounds: CG, DCG, NDCG, RBP, ERR, pFound,
        and metrics of hits such as precision, recall, F, AP, RR and the hit rate.
    grade
        Label of an unjudged document if it is relevant, 0 or more, such as the highest grade of the
        scale. None for the lowest relevant label of each metric.
    **options
        Options of `evaluate`, such as `run`, `by` and `weight`, except `unjudged`. `label`
        is a single column.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per group and metric, with the columns of `by`
        and `run`, and

        - `metric`;
        - `low`, `high`: lowest and highest mean over the labels of unjudged documents;
        - `judged`: share of judged documents up to the metric's cutoff, or in whole rankings.

    Raises
    ------
    ArgumentError
        For metrics without known bounds, such as bpref, combinations of metrics, and expressions.
    DataError
        For NDCG, if judged documents have negative gains.

    Notes
    -----
    The unjudged documents of a query are all documents without a label that any ranking of this
    query in the table retrieved, whatever its group: a relevant document that only another run
    retrieved, or that is below the cutoff, reduces recall, AP and NDCG. Without document ids, those
    of different rankings count as different documents. Each of them is relevant, with the label
    `grade`, or not relevant, as in `evaluate`; labels between them, which can increase NDCG beyond
    the bounds, are not considered. Documents that no ranking retrieved are judged.

    The bounds of a mean are reached by labels of the documents. The same label counts in all runs,
    so two runs need not reach their bounds at the same time: if the bounds of two runs do not
    overlap, no labels reverse their order; if they overlap, some may.

    Labels decide which rankings count in a mean if `undefined` is "skip" or `query_set` is
    "judged"; the bounds are over all of these means. With `undefined="null"`, they are null if a
    ranking is undefined with some labels.

    Of all labelings with m relevant documents in the ranking, down to the cutoff, a metric is
    highest if these are the first m unjudged documents and no other one is relevant, and lowest if
    they are the last m and all others are relevant, or the reverse for metrics of which a lower
    value is better. So each ranking is evaluated twice for each number m. Without a cutoff, the
    time grows with the square of the length of rankings. The log is sorted unless the rows of each
    query, of all runs, are adjacent.

    References
    ----------
    Moffat & Zobel, Rank-biased precision for measurement of retrieval effectiveness, 2008.
    """
    given = read_metrics(metrics, options.get("conventions"))
    if "unjudged" in options:
        raise ArgumentError("is not supported: unjudged documents are relevant or not", "unjudged")
    applied: dict[str, Any] = {**options, "unjudged": "nonrelevant"}
    log = Log.of(frame, given, **applied)
    label = None if grade is None else number("grade", grade)
    if label is not None and label < 0:
        raise ArgumentError(f"must be 0 or more; found {grade!r}", "grade")
    columns = log.definitions
    extremes = Extremes(log, [label_of_relevant(column, label) for column in columns])
    checked = [
        _named("checked", index, column, metric=without_negative_gains(column.metric))
        for index, column in enumerate(columns)
    ]
    shares = [
        _named("judged", index, column, metric=judged(cutoff(metric)))
        for index, (metric, column) in enumerate(zip(given, columns, strict=True))
    ]
    names = {f"checked {index}": output_name(metric) for index, metric in enumerate(given)}
    wide = _means(replace(log, definitions=[*checked, *shares]), names)
    ends = extremes.means()
    if log.columns.by:
        on = log.columns.by
        wide = wide.join(ends, on=on, how="left", nulls_equal=True, maintain_order="left")
    else:
        wide = pl.concat([wide, ends], how="horizontal")
    rows = {
        output_name(metric): {name: pl.col(f"{name} {index}") for name in ("low", "high", "judged")}
        for index, metric in enumerate(given)
    }
    return _long(wide, log.columns.by, rows)


_NOTHING = pl.lit(None, dtype=pl.Float64)


def _means(log: Log, names: Mapping[str, str]) -> pl.LazyFrame:
    """Return the means of columns of the per-query table.

    `names` maps a column of each of the user's metrics to its name.
    """
    # No warnings about missing labels, which are the subject here, or about several runs.
    means = Means.of(log)._replace(warns=False)
    rankings = plan.per_query(log)
    means.check_numbers(rankings, names)
    return means.finish(means.add_up(rankings))


def _named(kind: str, index: int, column: Definition, **changes: Any) -> Definition:
    name, changed = f"{kind} {index}", replace(column, **changes)
    return replace(changed, name=name, metric=changed.metric.alias(name))


def _long(
    wide: pl.LazyFrame, groups: Sequence[str], rows: Mapping[str, Mapping[str, pl.Expr]]
) -> pl.LazyFrame:
    """Return one row per group and metric."""
    free(groups, ["metric", *next(iter(rows.values()))])
    named = [{"metric": pl.lit(name), **values} for name, values in rows.items()]
    return to_rows(wide, groups, named)
