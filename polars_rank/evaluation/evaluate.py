"""`per_query` and `evaluate`: from a log to numbers, as one lazy plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import Names
from polars_rank.columns import DOC, Score
from polars_rank.conventions import (
    POLARS_RANK,
    Conventions,
    Duplicates,
    QuerySet,
    Ties,
    Undefined,
    Unjudged,
)
from polars_rank.evaluation import plan
from polars_rank.evaluation.means import COUNTED, NUM_RETRIEVED, Means
from polars_rank.evaluation.parameters import Align, Evaluation
from polars_rank.frames.tables import framed
from polars_rank.metrics.names import Metrics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@framed
def per_query(
    frame: pl.LazyFrame,
    metrics: Metrics,
    *,
    query: Names = "query",
    doc: str | None = DOC,
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    scores: Sequence[str] | None = None,
    by: Names | None = None,
    ties: Ties | None = None,
    rel: float | None = None,
    unjudged: Unjudged | None = None,
    query_set: QuerySet | None = None,
    duplicates: Duplicates = "error",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    keep: Names | None = None,
    conventions: Conventions | str = POLARS_RANK,
    progress: bool = False,
) -> pl.LazyFrame:
    """Evaluate every list: one row per query, one column per metric.

    Parameters
    ----------
    frame
        The long table, one row per document of a list: a LazyFrame, or a DataFrame or any other
        table with Arrow's C stream, such as one of pyarrow, pandas or DuckDB; or a Spark
        DataFrame, classic or Connect. See the notes.
    metrics
        A name ("ndcg@10", "ap", "P_5", "ndcg(gain='exp2')@10"), a metric (`pr.ndcg(10)`), any
        expression over the ranked table, or several of them.
    query, doc, score, label
        Names of the columns; `query` may be several. Without a column "doc", or with
        `doc=None`, documents have no ids. A null score means judged but not retrieved, a null
        label retrieved but not judged. Where no metric reads labels, as those of clicks do not,
        there need be no column "label".
    by
        Columns that split the table: a list is the rows that share (by..., query).
    ties
        How tied scores are ordered; see `rank`. Or "expected": the mean over all orders of tied
        documents (McSherry & Najork, 2008), exact and without drawing orders, for metrics of
        which a closed form is known; the others are an `ArgumentError`.
    rel
        The lowest label that is relevant; 1 unless the conventions say otherwise.
    unjudged
        Whether retrieved documents without a label are "nonrelevant" (the default) or "removed"
        from the list before ranks are given.
    query_set
        Which lists count: "all" (the default), those with a "judged" document (as
        `trec_eval -c`), with a "retrieved" one, or with "both".
    duplicates
        What to do with a document that stands twice in a list: "error", "max" or "first".
    undefined
        What stands where a metric is undefined for a list: "null" (the default), or what
        `evaluate` would count it as: "zero", "one", or a mapping to these from names of metrics
        ("ndcg", for all cutoffs) or of their columns ("ndcg@10"), with "*" for the rest. Polars'
        own mean skips the nulls, where `evaluate` by default counts them as 0.
    keep
        Columns of the log that are the same in all rows of a list, to be kept in its row.
    conventions
        Whose definitions to follow where nothing else is said, such as "trec_eval" or
        `pr.conventions.TREC_EVAL`.
    progress
        Show a progress bar on a terminal when it takes longer than two seconds (extra "cli").

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: the `by`, `query` and `keep` columns and a column per metric; null where a
        metric is undefined for the list. With `by` or `scores` also `num_retrieved` before the
        metrics, unless another column has that name: how many documents of the list are
        retrieved, an integer. The statistics do not take it as a metric; they warn of runs that
        retrieved nothing. Rows are in the order of those keys, or in the log's own
        order where `scan_log` found that the rows of a list stand together; those of Spark are
        in no particular order.

    Raises
    ------
    SchemaError
        For a missing or not numeric column.
    DataError
        For a null query, NaN or infinite scores or labels, duplicate documents, labels too
        large for a gain, for metrics of clicks a `position` that comes twice in a list; lazily,
        when the result is collected.
    ArgumentError
        For an unknown metric or a parameter out of its range.

    Notes
    -----
    Of a Spark DataFrame the result is one, too, and nothing runs before an action does. Workers
    evaluate whole queries, some at a time: the lists of one query must fit into a task, and so must
    a 1,024th of all rows, or a quarter of one of `spark.sql.shuffle.partitions` if there are more
    than 256. Options are checked at once; what is wrong with rows is told by an error of the
    action, in whose text is that of `DataError`. `ties="input"` is the order in which Spark reads
    the rows.

    If no document of the log or of a group has a label, metrics of labels are 0 or undefined:
    `evaluate` warns. `per_query` does not, because it sees one ranking at a time.

    Polars counts the rows of a plan up to 2^32: evaluate larger logs in parts, with `moments` and
    `merge`.

    What another engine has still to compute or to read, such as a DuckDB query or a pyarrow
    RecordBatchReader, is read batch by batch, in flat memory, if the rows of each list come
    together: say so in the query, as in "ORDER BY query". (Of a Dataset, pyarrow itself reads
    ahead; for files of Parquet see `scan_log`.) If they do not, or the plan reads the
    log more than once, as for metrics with different orders of documents, all rows are held in
    memory. To know that no list came in two places, 8 bytes are kept of each; if one did, the
    engine is asked again. A stream that can be read only once is then a `DataError`.

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
    evaluation = Evaluation.of(
        metrics,
        query=query,
        doc=doc,
        score=score,
        label=label,
        position=position,
        scores=scores,
        by=by,
        ties=ties,
        rel=rel,
        unjudged=unjudged,
        query_set=query_set,
        duplicates=duplicates,
        undefined=undefined,
        keep=keep,
        conventions=conventions,
        progress=progress,
    )
    evaluation.check_names()
    names = [column.name for column in evaluation.metrics]
    keys = [*evaluation.by, *evaluation.query, *evaluation.keep]
    query_set = evaluation.conventions.query_set
    # Rankings of groups, such as runs, are compared: statistics warn if a run retrieved nothing.
    counted = bool(evaluation.by) and NUM_RETRIEVED not in {*keys, *names}
    presence = counted or query_set != "all"
    rankings = plan.per_query(frame, evaluation, presence=presence)
    if query_set != "all":
        rankings = rankings.filter(COUNTED[query_set])
    if presence:
        number = [pl.col(plan.RETRIEVED).alias(NUM_RETRIEVED)] if counted else []
        rankings = rankings.select(*keys, *number, *names)
    if undefined is None:
        return rankings
    return rankings.with_columns(
        pl.col(column.name).fill_null(column.counts_as)
        for column in evaluation.metrics
        if isinstance(column.counts_as, float)
    )


@framed
def evaluate(
    frame: pl.LazyFrame,
    metrics: Metrics,
    *,
    query: Names = "query",
    doc: str | None = DOC,
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    scores: Sequence[str] | None = None,
    by: Names | None = None,
    ties: Ties | None = None,
    rel: float | None = None,
    unjudged: Unjudged | None = None,
    query_set: QuerySet | None = None,
    duplicates: Duplicates = "error",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    weight: str | None = None,
    align: Align | None = None,
    conventions: Conventions | str = POLARS_RANK,
    progress: bool = False,
) -> pl.LazyFrame:
    """Evaluate a log: the mean of each metric over the queries, per group.

    Parameters
    ----------
    frame, metrics, query, doc, score, label, position, scores, by
        As for `per_query`; the `by` columns are the groups.
    ties, rel, unjudged, query_set, duplicates
        As for `per_query`.
    conventions, progress
        As for `per_query`.
    undefined
        What a metric counts as where it is undefined for a list: "zero" (as in trec_eval and
        scikit-learn), "one" (as in LightGBM), "skip" to leave the list out of that mean,
        "null" to make the mean null; or a mapping to these from names of metrics or of their
        columns, as for `per_query`. "zero" unless the conventions say otherwise; but an
        expression of your own that is null for a list is skipped, and so is a metric of clicks
        where nothing was clicked, unless `undefined` is given.

    weight
        The column of each query's weight, such as its traffic, the same in all rows of a list:
        finite, not negative. Means are weighted by it; sums are sums of weighted values.
    align
        Of runs with different queries (`by` has a column "run", "model" or the like): average
        over the queries that all of them have ("common"), or over all that any of them has
        ("all"), those that a run lacks counting as undefined. Without it, a `RankWarning` says
        where means stand side by side that are over different queries.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group in sorted order, with the `by` columns, `queries` (how
        many lists) and a column per metric. With `query_set` other than "all" also
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
    evaluation = Evaluation.of(
        metrics,
        query=query,
        doc=doc,
        score=score,
        label=label,
        position=position,
        scores=scores,
        by=by,
        ties=ties,
        rel=rel,
        unjudged=unjudged,
        query_set=query_set,
        duplicates=duplicates,
        undefined=undefined,
        weight=weight,
        align=align,
        conventions=conventions,
        progress=progress,
    )
    evaluation.check_names(["queries"])
    means = Means.of(evaluation)
    rankings = plan.per_query(frame, evaluation, presence=means.presence)
    means.check_numbers(rankings)
    return means.finish(means.add_up(rankings))
