"""Precision and recall at each score threshold, metrics at each cutoff, and grouped AUC."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, free, whole_number
from polars_rank.checks import Check, failed, raise_failed
from polars_rank.columns import RUN, Columns, is_relevant
from polars_rank.conventions import lowest_relevant, read_metrics, undefined_of_renamed
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.evaluate import evaluate, per_query
from polars_rank.evaluation.log import groups_of, per_ranking, with_known_runs
from polars_rank.evaluation.log_checks import row_checks, unnamed_checks
from polars_rank.evaluation.means import grouped, ratio, to_rows
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import Metrics
from polars_rank.metrics.pairwise import roc_auc
from polars_rank.metrics.sets import num_retrieved

if TYPE_CHECKING:
    from typing import Unpack

    from polars_rank.evaluation.log import EvaluateOptions, RankingOptions


#: The columns of a precision-recall curve.
_POINTS = (
    *("threshold", "found", "hits", "precision", "recall", "f1"),
    *("auc", "average_precision", "best_f1", "no_skill"),
)
_RELEVANT, _DOC, _ALL = OWN + "relevant", OWN + "doc", OWN + "all"


@framed
def pr_curve(
    frame: pl.LazyFrame,
    *,
    run: str | None = "run",
    by: Names | None = None,
    score: str = "score",
    label: str = "label",
    rel: float | None = None,
    query: Names | None = "query",
    doc: str | None = "doc",
) -> pl.LazyFrame:
    r"""Return precision and recall at every score threshold, for each run.

    At threshold t, the documents with score >= t are found. Tied scores are one point.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "score": [0.6, 0.5, 0.1, 0.1, 0.1], "label": [1, 1, 0, 0, 1],
    ... })
    >>> pr.pr_curve(df).select("threshold", "precision", "recall", "auc")
    shape: (3, 4)
    ┌───────────┬───────────┬──────────┬──────────┐
    │ threshold ┆ precision ┆ recall   ┆ auc      │
    │ ---       ┆ ---       ┆ ---      ┆ ---      │
    │ f64       ┆ f64       ┆ f64      ┆ f64      │
    ╞═══════════╪═══════════╪══════════╪══════════╡
    │ 0.6       ┆ 1.0       ┆ 0.333333 ┆ 0.933333 │
    │ 0.5       ┆ 1.0       ┆ 0.666667 ┆ 0.933333 │
    │ 0.1       ┆ 0.6       ┆ 1.0      ┆ 0.933333 │
    └───────────┴───────────┴──────────┴──────────┘

    Parameters
    ----------
    frame
        Long table: a LazyFrame, a DataFrame, or any other table with Arrow's C stream.
    run
        Column of the run. None for one curve of all runs.
    by
        Columns to group by. Each group has its own curves.
    score
        Column of the score, higher is better. Documents with a null score (not retrieved) are never
        found, but they count in recall.
    label
        Column of the relevance label. Null (unjudged) is not relevant. Rows without score and
        label, as of a query without documents, do not count.
    rel
        Lowest relevant label. Default: 1.
    query
        Column or columns that identify the query. Default: "query" if the table has it. It does not
        change any number, since all rows count; with `query` and `doc`, a `RankWarning` reports
        documents that occur more than once in a ranking, and rankings with several runs.
    doc
        Column of the document. Default: "doc" if the table has it.

    Returns
    -------
    LazyFrame or DataFrame
        One row per group, run and threshold, the highest threshold first: the columns of `by` and
        `run`, `threshold`, `found` (number of documents at or above it), `hits` (number of relevant
        documents among these), `precision`, `recall`, `f1`. The other columns describe the whole
        curve: `auc` (trapezoids, from precision 1 at recall 0), `average_precision` (steps),
        `best_f1`, and `no_skill` (the share of relevant documents, which is the precision of a
        random order). If no document is relevant, recall, F1, `auc` and `average_precision` are
        null.

    References
    ----------
    Davis & Goadrich, The relationship between precision-recall and ROC curves, 2006.
    """
    lowest = lowest_relevant(rel)

    roles = {"run": run, "by": by, "query": query, "doc": doc, "score": score, "label": label}
    columns = Columns.find(schema_of(frame), roles, optional=(RUN, "query", "doc"))
    if not columns.query and doc == "doc":  # without queries, a document may occur several times
        columns = columns._replace(doc=None)
    groups = list(columns.by)
    free(groups, _POINTS)
    documents = _documents(with_known_runs(frame, columns), columns, lowest)
    points = (
        documents.group_by(*groups, "threshold")
        .agg(pl.len().alias("found"), pl.col("hits").sum())
        .sort(*groups, "threshold", descending=[False] * len(groups) + [True], nulls_last=True)
    )
    return _curve(points, groups)


def _documents(frame: pl.LazyFrame, columns: Columns, lowest: float) -> pl.LazyFrame:
    """Return the groups and thresholds of documents, and whether they are relevant.

    Collecting the result checks the rows.
    """
    log = frame.filter(pl.any_horizontal(pl.col(columns.score, columns.label).is_not_null()))
    values = {
        "threshold": columns.number(columns.score),
        "hits": is_relevant(columns.number(columns.label), lowest),
    }
    checks = row_checks(columns._replace(query=(), doc=None))
    checks += unnamed_checks(columns)
    if columns.doc is not None:
        message = (
            f"column {columns.doc!r} (`doc`) has duplicates: a document occurs more than once in a "
            "ranking, and all its rows count; name all columns that identify a ranking with `run`, "
            "`by` or `query`, drop the duplicates, or pass doc=None"
        )
        repeated = pl.col(_DOC).n_unique() < pl.len()
        checks.append(Check("ranking", repeated, message, warns=True))
    if all(check.scope == "row" for check in checks):
        rows = log.select(*columns.by, failed(checks, "row"), **values)
        return raise_failed(rows, checks, log=frame)
    if not columns.keys:  # all rows are one ranking
        log = log.with_columns(pl.lit(0).alias(_ALL))
        columns = columns._replace(query=(_ALL,), schema=schema_of(log))
    inputs = values | {OWN + name: pl.col(name) for name in columns.unnamed}
    if columns.doc is not None:
        inputs[_DOC] = pl.col(columns.doc)
    rankings, keys = per_ranking(log, columns, inputs, [pl.col(*values)], checks, sort=False)
    groups = [pl.col(keys.names[name]).alias(name) for name in columns.by]
    return rankings.select(*groups, *values).explode(*values)


@framed
def rank_curve(
    frame: pl.LazyFrame, /, metrics: Metrics, ks: Iterable[int], **options: Unpack[EvaluateOptions]
) -> pl.LazyFrame:
    """Return the means of metrics at every cutoff, one row per k.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> pr.rank_curve(df, "recall", [1, 2, 3])
    shape: (3, 3)
    ┌─────┬─────────┬────────┐
    │ k   ┆ queries ┆ recall │
    │ --- ┆ ---     ┆ ---    │
    │ i64 ┆ u32     ┆ f64    │
    ╞═════╪═════════╪════════╡
    │ 1   ┆ 1       ┆ 0.5    │
    │ 2   ┆ 1       ┆ 0.5    │
    │ 3   ┆ 1       ┆ 1.0    │
    └─────┴─────────┴────────┘

    Parameters
    ----------
    frame
        Long table: a LazyFrame, a DataFrame, or any other table with Arrow's C stream.
    metrics
        Metrics, by name or as expressions. They have no cutoff: "ndcg", `pr.recall()`.
    ks
        Cutoffs of the metrics. For example, `range(1, 21)`.
    **options
        Options of `evaluate`, such as `run`, `by`, `ties` and `undefined`.

    Returns
    -------
    LazyFrame or DataFrame
        One row per group and k: the `by` and `run` columns, `k`, `queries`, and one column per
        metric. Lazy if `frame` is lazy.

    Raises
    ------
    ArgumentError
        For a metric that has a cutoff already, or does not accept one.
    """
    if not isinstance(ks, Iterable):
        raise ArgumentError(f"must be several cutoffs, such as range(1, 21); found {ks!r}", "ks")
    cutoffs = [whole_number("ks", k) for k in ks]
    if not cutoffs:
        raise ArgumentError("is empty; pass at least one cutoff", "ks")
    curves = [
        curve_of(expression) for expression in read_metrics(metrics, options.get("conventions"))
    ]
    at = [curve.at(k).alias(f"{curve.output_name}:{k}") for k in cutoffs for curve in curves]
    by = groups_of(schema_of(frame), options).by
    free(by, ["k", "queries"])

    options["undefined"] = undefined_of_renamed(
        options.get("undefined"), curves, lambda name: [f"{name}:{k}" for k in cutoffs]
    )
    wide = evaluate(frame, at, **options)
    names_at = {curve.output_name: f"{curve.output_name}:" for curve in curves}
    rows = [
        {
            "k": pl.lit(k, dtype=pl.Int64),
            "queries": pl.col("queries"),
            **{name: pl.col(f"{at}{k}") for name, at in names_at.items()},
        }
        for k in cutoffs
    ]
    return to_rows(wide, by, rows)


def _curve(points: pl.LazyFrame, groups: list[str]) -> pl.LazyFrame:
    """Return the points of curves from counts at each threshold, the highest first."""

    def of_curve(expression: pl.Expr) -> pl.Expr:
        return expression.over(groups) if groups else expression

    hits, retrieved, relevant = pl.col("hits"), pl.col("found"), pl.col(_RELEVANT)
    precision, recall = pl.col("precision"), pl.col("recall")
    step = recall - of_curve(recall.shift(1, fill_value=0.0))
    height = (precision + of_curve(precision.shift(1, fill_value=1.0))) / 2
    whole_curve = {
        "auc": (step * height).sum(),
        "average_precision": (step * precision).sum(),
        "best_f1": pl.col("f1").max(),
    }
    return (
        points.with_columns(
            of_curve(hits.sum()).alias(_RELEVANT),
            of_curve(hits.sum() / retrieved.sum()).alias("no_skill"),
        )
        .with_columns(of_curve(pl.col("hits", "found").cum_sum()))
        .filter(pl.col("threshold").is_not_null())
        .with_columns(
            (hits / retrieved).alias("precision"),
            ratio(hits, relevant).alias("recall"),
            pl.when(relevant > 0).then(2 * hits / (retrieved + relevant)).alias("f1"),
        )
        .with_columns(
            pl.when(relevant > 0).then(of_curve(value)).alias(name)
            for name, value in whole_curve.items()
        )
        .select(*groups, *_POINTS)
    )


def curve_of(expression: pl.Expr, parameter: str = "metrics") -> Metric:
    """Return a metric without a cutoff; raise `ArgumentError` for anything else."""
    if isinstance(expression, Metric) and "k" not in expression.arguments:
        return expression
    raise ArgumentError(
        f"must be metrics without a cutoff, such as 'ndcg'; found {expression}", parameter
    )


_AUC, _SHOWN = OWN + "auc", OWN + "shown"


@framed
def grouped_auc(frame: pl.LazyFrame, /, **options: Unpack[RankingOptions]) -> pl.LazyFrame:
    r"""Return the grouped AUC (GAUC): the mean AUC of rankings, weighted by impressions.

    $$\mathrm{GAUC} = \frac{\sum_q n_q \cdot \mathrm{AUC}_q}{\sum_q n_q}$$

    over the rankings that have an AUC, where n_q is the number of retrieved documents.

    Examples
    --------
    >>> df = pl.DataFrame(
    ...     {
    ...         "query": ["a", "a", "b", "b", "b"],
    ...         "score": [0.9, 0.1, 0.9, 0.5, 0.1],
    ...         "label": [1, 0, 0, 1, 0],
    ...     }
    ... )
    >>> pr.grouped_auc(df)["gauc"].item()  # (2 x 1 + 3 x 1/2) / 5
    0.7

    Parameters
    ----------
    frame
        Long table: a LazyFrame, a DataFrame, or any other table with Arrow's C stream.
    **options
        Options of `evaluate` without `weight`, such as `run`, `by`, `query` and `rel`.

    Returns
    -------
    LazyFrame or DataFrame
        One row per group, sorted: the `by` and `run` columns, `queries` (the number of rankings
        with an AUC), `impressions` (the number of their documents) and `gauc`, in [0, 1]; null if
        no ranking has both relevant and nonrelevant documents. Lazy if `frame` is lazy.

    See Also
    --------
    roc_auc : The AUC of each ranking. Ties count one half, whatever the value of `ties`.

    References
    ----------
    Zhu et al., Optimized cost per click in Taobao display advertising, 2017.
    """
    shown = num_retrieved().alias(_SHOWN)
    rankings = per_query(frame, [roc_auc().alias(_AUC), shown], **options)
    auc, size = pl.col(_AUC), pl.col(_SHOWN)
    counted = size.filter(auc.is_not_null())
    means = [
        counted.len().alias("queries"),
        counted.sum().cast(pl.Int64).alias("impressions"),
        ratio((auc * size).sum(), counted.sum()).alias("gauc"),
    ]
    added = ["queries", "impressions", "gauc"]
    groups = groups_of(schema_of(frame), options).by
    free(groups, added)
    return grouped(rankings, groups, means)
