"""`rank`: the ranked table of a log."""

from __future__ import annotations

from dataclasses import replace
from typing import Unpack

import polars as pl

from polars_rank._params import OWN, Names
from polars_rank._polars import NumberedRows
from polars_rank.columns import RANKED, RUN, Label, Score
from polars_rank.conventions import POLARS_RANK, ConventionsLike, Definitions
from polars_rank.errors import SchemaError
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.ranked import Reads, in_rank_order, ranked_table
from polars_rank.frames.batches import in_batches
from polars_rank.frames.tables import framed_by_query

#: Column of the number of a row of the log.
_PLACE = OWN + "place in the log"


@framed_by_query
def rank(
    frame: pl.LazyFrame,
    /,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: Score = "score",
    label: Label = "label",
    position: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    conventions: ConventionsLike = POLARS_RANK,
    **definitions: Unpack[Definitions],
) -> pl.LazyFrame:
    """Return the ranked table: the log with `rank`, `ideal_rank`, `relevant` and `hits`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [0.1, 0.9, None], "label": [1, 0, 2],
    ... })
    >>> pr.rank(df).select("score", "rank", "ideal_rank", "relevant", "hits")
    shape: (3, 5)
    ┌───────┬──────┬────────────┬──────────┬──────┐
    │ score ┆ rank ┆ ideal_rank ┆ relevant ┆ hits │
    │ ---   ┆ ---  ┆ ---        ┆ ---      ┆ ---  │
    │ f64   ┆ u32  ┆ u32        ┆ bool     ┆ u32  │
    ╞═══════╪══════╪════════════╪══════════╪══════╡
    │ 0.1   ┆ 2    ┆ 2          ┆ true     ┆ 1    │
    │ 0.9   ┆ 1    ┆ 3          ┆ false    ┆ 0    │
    │ null  ┆ null ┆ 1          ┆ true     ┆ null │
    └───────┴──────┴────────────┴──────────┴──────┘

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking: a LazyFrame, a DataFrame, any other table
        with Arrow's C stream, such as those of pyarrow, pandas and DuckDB, or a Spark DataFrame.
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
    conventions
        Metric definitions to use. The ranked table follows `ties`, `rel`, `unjudged`, `duplicates`,
        `float32_scores` and `text_ids`; parameters and exceptions of metrics do not affect it.
    **definitions
        Fields of `Conventions`, which take precedence over `conventions`. For example
        `ties="input"`.

    Returns
    -------
    LazyFrame or DataFrame
        The rows in the same order (Spark: in no particular order), with these columns added. Lazy
        if `frame` is lazy; a Spark DataFrame if `frame` is one.

        - `rank`: 1, 2, ... by score descending; null if the score is null.
        - `ideal_rank`: 1, 2, ... by label descending, equal labels by rank; null if the label is
          null.
        - `relevant`: whether the label is at least `rel`; false if the label is null; null for
          the row of a ranking without documents.
        - `hits`: the number of relevant documents at this rank or above; null if the rank is null.
        - `score` and `label`: copies of the columns if these have other names.

        Documents that are dropped or removed are not retrieved, but their rows remain, because a
        ranking that loses all its documents still counts. With `unjudged="removed"`, scores of
        unjudged documents are null. If the conventions compare 32-bit scores, scores are Float32.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type, or has the name of an added column.
    DataError
        For null queries, NaN or infinite scores or labels, and duplicate documents (see
        `duplicates`). A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter, and for conventions with `ties="expected"`, which is a mean over
        many orders.

    Notes
    -----
    Metrics as expressions over the ranked table equal those of `per_query` with the same options
    and ``undefined="null"``, unless the conventions change a parameter of the metric or have an
    exception for it: a metric is null where it is undefined, and the mean of such a column leaves
    the query out. `evaluate` counts it as `undefined` says, by default mostly as 0.

    Unless `ties` is "input", the order of rows does not affect any value. Integers and decimals
    are compared exactly.
    """
    log = Log.of(
        frame, query=query, doc=doc, score=score, label=label, position=position, run=run, by=by,
        conventions=conventions, **definitions,
    )  # fmt: skip
    columns = log.columns
    for role, name in (("score", columns.score), ("label", label)):
        if name != role and role in columns.schema:
            other = "another expression" if name.startswith(OWN) else repr(name)
            raise SchemaError(
                f"`{role}` is {other}, but the frame also has a column {role!r}, which metrics "
                "would read in the ranked table; drop it or rename it"
            )
    there = [name for name in RANKED if name in columns.schema]
    if there:
        raise SchemaError(
            f"the frame already has the columns {there}, which the ranked table adds; "
            "drop or rename them"
        )
    # Unlike an evaluation, a ranked table has one order: "expected" is an error.
    log = replace(log, ordering=log.ordering._replace(ties=log.conventions.ties))
    # Metrics as expressions read these names.
    named = {"score": columns.score, "label": label}
    copies = {role: pl.col(name) for role, name in named.items()
              if name != role and not name.startswith(OWN)}  # fmt: skip
    table = _ranked(log).with_columns(**copies)
    if not columns.score.startswith(OWN):
        return table
    negated = position or (score[1:] if isinstance(score, str) else None)
    if negated is not None and columns.schema[negated] == pl.Int64:
        # The negative of the lowest Int64 is beyond its range.
        exact = pl.col(columns.score).clip(upper_bound=2**63 - 1).cast(pl.Int64)
        table = table if log.ordering.float32_scores else table.with_columns(exact)
    return table.rename({columns.score: "score"})


def _ranked(log: Log) -> pl.LazyFrame:
    """Return the table in its order with the columns of the ranked table, checked."""
    columns, keys, ordering = log.columns, log.keys, log.ordering
    own = {name: f"{OWN}column {index}" for index, name in enumerate(columns.schema)}
    # Polars reads some names as patterns, which columns without a role may have.
    named = {*columns.pair, columns.score, columns.label, *columns.unnamed, keys.number}
    renamed = {name: each for name, each in own.items() if name not in named}
    read = {each: pl.col(renamed.get(name, name)) for name, each in own.items()}
    table = log.table.rename(renamed).with_row_index(_PLACE)
    adjacent = keys.are_adjacent(log.table)
    log = replace(log, table=table, others={**log.others, **read, _PLACE: pl.col(_PLACE)})
    reads, score = Reads.of_all(log), ordering.score(columns).alias(columns.score)

    def in_order(rankings: pl.LazyFrame) -> pl.LazyFrame:
        return ranked_table(log, rankings, reads).sort(_PLACE)

    rankings = log.checked(in_rank_order(log, reads))
    rows = in_batches(rankings, in_order) if adjacent else in_order(rankings)
    ranked = rows.select(
        *(pl.col(each).alias(name) for name, each in own.items()), *RANKED
    ).with_columns(
        pl.when(columns.is_document).then("relevant").alias("relevant"),
        *([score] if ordering.float32_scores or ordering.unjudged == "removed" else []),
    )
    if keys.number is not None:
        return NumberedRows.of(ranked)
    return ranked.set_sorted(columns.keys) if adjacent else ranked
