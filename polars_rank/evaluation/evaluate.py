"""`per_query` and `evaluate`: metrics of each ranking, and their means."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Unpack

import polars as pl
from polars import selectors

from polars_rank._params import OWN, Names
from polars_rank.columns import RUN, Label, Score
from polars_rank.conventions import POLARS_RANK, ConventionsLike, Definitions
from polars_rank.definitions import Definition
from polars_rank.errors import recorded_warnings
from polars_rank.evaluation import plan
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.means import COUNTED, Means, with_empty_warning
from polars_rank.frames.engines import Mergeable, Separable
from polars_rank.frames.tables import collected, framed
from polars_rank.metrics.names import Metrics, listed

#: The column of values under a definition.
VALUE = OWN + "value"


@framed
def evaluate(
    frame: pl.LazyFrame,
    /,
    metrics: Metrics,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: Score = "score",
    label: Label = "label",
    position: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    weight: str | None = None,
    conventions: ConventionsLike = POLARS_RANK,
    progress: bool = False,
    **definitions: Unpack[Definitions],
) -> Mergeable:
    """Return the mean of each metric over the queries, for each group.

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

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking: a LazyFrame, a DataFrame, any other table
        with Arrow's C stream, such as those of pyarrow, pandas and DuckDB, which is read into
        memory and must fit there, or a Spark DataFrame.
    metrics
        Metrics, by name or as expressions.
    query
        Column or columns that identify the query.
    doc
        Column of the document. If it is None, or "doc" is missing, documents have no ids.
    score
        Column of the score, higher is better. "-distance" if lower is better, or an expression.
    label
        Column of the relevance label.
    position
        Column of the position, 1 first; replaces `score`.
    run
        Column of the run. Default: "run" if the table has it.
    by
        Columns to group by. A ranking consists of the rows with the same `by`, `run` and `query`.
    weight
        Column of weights, 0 or more, such as the traffic of the query. It has one value per
        ranking. Means do not depend on the order of rows as long as the weights sum to less than
        2^33, about 8.6 billion; above, their last digits may.
    conventions
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields.
    progress
        Whether to show a progress bar in a terminal.
    **definitions
        Fields of `Conventions`, which take precedence over `conventions`. For example
        `ties="expected"`, `rel=2`, `unjudged="removed"`, `query_set="judged"`, `duplicates="max"`
        or `undefined="skip"`.

    Returns
    -------
    LazyFrame or DataFrame
        One row per group, sorted: the `by` columns, the `run` column, `queries` (the number of
        rankings), and one column per metric: the mean of the column of `per_query`, except for
        counts, such as `num_retrieved`, which are sums, and `log_average_precision` and
        `log_bpref`, which are geometric means. Lazy if `frame` is lazy; a Spark DataFrame if
        `frame` is one. With a `query_set` other than "all", also `queries_judged` and
        `queries_retrieved`. Without groups, one row, even for an empty log (0 queries, null means).

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        For null queries, NaN or infinite scores, labels or weights, duplicate documents, and copies
        of a document whose labels contradict each other. A lazy result raises it when it is
        collected.
    ArgumentError
        For an unknown metric or an invalid parameter.

    Warns
    -----
    RankWarning
        The runs have different numbers of queries. Each mean is over the run's own queries.

    See Also
    --------
    per_query : The values behind the means. Its notes describe Spark and large logs.
    summarize : Means with confidence intervals, and the number of undefined rankings.
    """
    log = Log.of(
        frame, listed(metrics), query=query, doc=doc, score=score, label=label, position=position,
        run=run, by=by, weight=weight, conventions=conventions, progress=progress, **definitions,
    )  # fmt: skip
    log.check_names(["queries"])
    means = Means.of(log)

    def add_up(part: pl.LazyFrame) -> pl.LazyFrame:
        rankings = plan.per_query(log.on(part))
        means.check_numbers(rankings)
        return means.add_up(rankings)

    return Mergeable(log.columns.query, add_up, means.merge, means.finish)


@framed
def per_query(
    frame: pl.LazyFrame,
    /,
    metrics: Metrics,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: Score = "score",
    label: Label = "label",
    position: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    keep: Names | None = None,
    conventions: ConventionsLike = POLARS_RANK,
    progress: bool = False,
    **definitions: Unpack[Definitions],
) -> Separable:
    """Return one row per ranking and one column per metric.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "b"], "score": [0.9, 0.1, 0.5], "label": [0, 1, 0]
    ... })
    >>> pr.per_query(df, ["rr", "p@1"], undefined="null")
    shape: (2, 3)
    ┌───────┬──────┬─────┐
    │ query ┆ rr   ┆ p@1 │
    │ ---   ┆ ---  ┆ --- │
    │ str   ┆ f64  ┆ f64 │
    ╞═══════╪══════╪═════╡
    │ a     ┆ 0.5  ┆ 0.0 │
    │ b     ┆ null ┆ 0.0 │
    └───────┴──────┴─────┘

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking: a LazyFrame, a DataFrame, any other table
        with Arrow's C stream, such as those of pyarrow, pandas and DuckDB, which is read into
        memory and must fit there, or a Spark DataFrame.
    metrics
        Metrics, by name or as expressions.
    query
        Column or columns that identify the query.
    doc
        Column of the document. If it is None, or "doc" is missing, documents have no ids.
    score
        Column of the score, higher is better. "-distance" if lower is better, or an expression.
    label
        Column of the relevance label.
    position
        Column of the position, 1 first; replaces `score`.
    run
        Column of the run. Default: "run" if the table has it.
    by
        Columns to group by. A ranking consists of the rows with the same `by`, `run` and `query`.
    keep
        Columns to keep in the result.
    conventions
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields.
    progress
        Whether to show a progress bar in a terminal.
    **definitions
        Fields of `Conventions`, which take precedence over `conventions`. With `undefined="null"`
        or "skip", undefined values are null; by default, they are those of which `evaluate` takes
        the mean.

    Returns
    -------
    LazyFrame or DataFrame
        The `by`, `run`, `query` and `keep` columns and one column per metric. The mean of a column
        is that of `evaluate` without `weight`, except for metrics that `evaluate` adds up, and for
        logarithms, of which it returns the geometric mean. Values of a Boolean expression are 0 and
        1. Lazy if `frame` is lazy; a Spark DataFrame if `frame` is one. Rows are sorted by their
        keys, or in the order of the log if `scan_log` found the rows of each ranking adjacent.
        Spark returns rows in no particular order.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        For null queries, NaN or infinite scores or labels, duplicate documents, and labels too
        large for a gain. A lazy result raises it when it is collected.
    ArgumentError
        For an unknown metric or an invalid parameter.

    Notes
    -----
    **Warnings.** Both functions warn of runs most of whose rankings have no retrieved document; on
    Spark, only `evaluate` does. `evaluate` also warns if no document of a group has a label, if a
    metric is undefined for all rankings, and if all documents of each ranking have the same score.

    **Large logs.** Polars counts rows up to 2^32. Evaluate larger logs in parts, with one file of
    per-query values for each.

    **Spark.** Nothing runs before an action. Each task evaluates whole queries: the rankings of one
    query must fit into the memory of a task. Each task also holds one bucket: 1/1,024 of the rows,
    or 1/(4 × shuffle partitions) with more than 256 partitions. Parameters are checked at once; the
    text of an error in an action contains the text of the `DataError`. `ties="input"` is the order
    in which Spark reads the rows.
    """
    log = Log.of(
        frame, listed(metrics), query=query, doc=doc, score=score, label=label, position=position,
        run=run, by=by, keep=keep, conventions=conventions, progress=progress, **definitions,
    )  # fmt: skip
    log.check_names()

    def table(part: pl.LazyFrame) -> pl.LazyFrame:
        return per_query_table(log.on(part))

    return Separable(
        log.columns.query, table, whole=lambda part: per_query_table(log.on(part), warns=True)
    )


def per_query_table(log: Log, *, warns: bool = False) -> pl.LazyFrame:
    """Return the result of `per_query`, with its warnings or without them."""
    names = [each.name for each in log.definitions]
    keys = [*log.columns.keys, *log.columns.roles.get("keep", ())]
    query_set = log.conventions.query_set
    rankings = plan.per_query(log)
    if query_set != "all":
        rankings = rankings.filter(COUNTED[query_set])
    if warns:
        rankings = with_empty_warning(rankings, log)
    values = [each.counted.alias(each.name) for each in log.definitions]
    conditions = selectors.by_name(*names) & selectors.boolean()
    return rankings.select(*keys, *values).with_columns(conditions.cast(pl.Float64))


def values_under(log: Log, definitions: Sequence[Definition]) -> list[pl.DataFrame]:
    """Return the keys and the column `VALUE` of the rankings that count, under each definition.

    The log is read once for each order of documents. Only the first definitions may warn.
    """
    # By these choices, other documents are judged and retrieved, so that other queries count.
    treatments = [(each.conventions.unjudged, each.conventions.duplicates) for each in definitions]
    columns = [replace(each, name=f"{VALUE} {place}") for place, each in enumerate(definitions)]
    tables: dict[tuple[str, str], pl.DataFrame] = {}
    for treatment in dict.fromkeys(treatments):
        alike = [each for each, own in zip(columns, treatments, strict=True) if own == treatment]
        with recorded_warnings() if tables else nullcontext():
            part = plan.per_query(replace(log, definitions=alike))
        tables[treatment] = collected(part)
    keys = [*log.columns.keys, *log.columns.roles.get("keep", ())]
    return [
        tables[treatment]
        .filter(COUNTED.get(each.conventions.query_set, pl.lit(value=True)))
        .select(*keys, each.counted.cast(pl.Float64).alias(VALUE))
        for each, treatment in zip(columns, treatments, strict=True)
    ]
