"""`rank`: from the long table to the ranked table."""

from __future__ import annotations

import polars as pl

from polars_rank._params import OWN, Names, one_of, threshold
from polars_rank.columns import DOC, RANKED, Columns, Score, scored
from polars_rank.conventions import DUPLICATES, TIES, Duplicates, Ties
from polars_rank.errors import SchemaError
from polars_rank.evaluation.checks import (
    FAILED,
    duplicate_check,
    failed,
    failed_in_ranking,
    raise_failed,
    row_checks,
)
from polars_rank.evaluation.order import Order, is_relevant, position, rank_order
from polars_rank.frames.tables import framed, schema_of


@framed
def rank(
    frame: pl.LazyFrame,
    *,
    query: Names = "query",
    doc: str | None = DOC,
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    by: Names | None = None,
    ties: Ties | None = None,
    rel: float = 1,
    duplicates: Duplicates = "error",
) -> pl.LazyFrame:
    """Return the ranked table: the log with `rank`, `ideal_rank`, `relevant` and `hits`.

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking: a LazyFrame, a DataFrame, or any other
        table with Arrow's C stream, such as those of pyarrow, pandas and DuckDB; or a Spark
        DataFrame.
    query
        Column of the query, or several columns that identify it.
    doc
        Column of the document id. If it is None, or "doc" by default and the table has no such
        column, documents have no ids: ties cannot be broken by id, and duplicates are not found.
    score
        Column of the score, higher is better. "-distance" ranks by a column in which lower is
        better. An expression computes it from other columns. Null: judged but not retrieved.
    label
        Column of the relevance label, a number. Null: retrieved but not judged. Not needed if no
        metric reads labels, as for metrics of clicks.
    position
        Column of the position at which a document was shown, 1 first; replaces `score`.
    by
        Column or columns that split the table, such as the run: a ranking consists of the rows
        with the same `by` and `query`.
    ties
        Order of documents with equal scores: "doc" (id descending; the default if there are
        ids), "doc_ascending", "best" or "worst" (higher or lower label first; "worst" is the
        default without ids), or "input" (order of rows).
    rel
        Lowest relevant label. Default: 1.
    duplicates
        Treatment of a document that occurs more than once in a ranking: "error" (default), "max"
        keeps the row with the highest score, "first" the first row.

    Returns
    -------
    LazyFrame or DataFrame
        The rows in the same order (Spark: in no particular order), with these columns added. Lazy
        if `frame` is lazy; a Spark DataFrame if `frame` is one.

        - `rank`: 1, 2, ... by score descending; null if the score is null.
        - `ideal_rank`: 1, 2, ... by label descending, equal labels by rank; null if the label is
          null.
        - `relevant`: whether the label is at least `rel`; false if the label is null; null for the
          row of a ranking without documents.
        - `hits`: the number of relevant documents at this rank or above; null if the rank is null.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type, or has the name of an added column.
    DataError
        For null queries, NaN or infinite scores or labels, and duplicate documents. A lazy result
        raises it when it is collected.
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    Unless `ties` is "input", the order of rows does not affect any value. Integers and decimals
    are compared exactly.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [0.1, 0.9, None], "label": [1, 0, 2]})
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
    """
    threshold("rel", rel)
    one_of("ties", ties, (None, *TIES))

    log, by_score = scored(frame, score, position)
    columns = Columns.find(schema_of(log), query=query, doc=doc, score=by_score, label=label, by=by)
    for role, name in (("score", by_score), ("label", label)):
        if name != role and role in columns.schema:
            other = "another expression" if name.startswith(OWN) else repr(name)
            message = (
                f"`{role}` is {other}, but the frame also has a column {role!r}, which metrics "
                "would read in the ranked table; drop it or rename it"
            )
            raise SchemaError(message, role)
    there = [name for name in RANKED if name in columns.schema]
    if there:
        message = (
            f"the frame already has the columns {there}, which the ranked table adds; "
            "drop or rename them"
        )
        raise SchemaError(message)
    ranked = _ranked(log, columns, rank_order(ties, columns), rel, duplicates)
    if isinstance(score, str) and score == by_score:
        return ranked
    shown = pl.col(by_score)
    negated = position or (score[1:] if isinstance(score, str) and score != by_score else None)
    if negated is not None and columns.schema[negated] == pl.Int64:
        # The negative of the lowest Int64 is beyond its range.
        shown = shown.clip(upper_bound=2**63 - 1).cast(pl.Int64)
    return ranked.with_columns(shown).rename({by_score: "score"})


def _is_document(columns: Columns) -> pl.Expr:
    """Return whether a row has a document; with ids, a row without an id has none."""
    return pl.lit(value=True) if columns.doc is None else pl.col(columns.doc).is_not_null()


def _ranked(
    log: pl.LazyFrame, columns: Columns, order: Order, lowest: float, duplicates: Duplicates
) -> pl.LazyFrame:
    log = _without_duplicates(log, columns, duplicates)
    checks = row_checks(columns)
    if columns.doc is not None:
        checks.append(duplicate_check(columns, columns.doc))
    label = columns.number(columns.label)
    retrieved, judged = pl.col(columns.score).is_not_null(), label.is_not_null()
    by_label = Order(by=[label, pl.col("rank")], descending=[True, False], nulls_last=[True, True])
    ranked = (
        log.with_columns(failed(checks, "row"))
        .with_columns(
            position(order).over(columns.keys).alias("rank"),
            pl.when(_is_document(columns)).then(is_relevant(label, lowest)).alias("relevant"),
            failed_in_ranking(checks).over(columns.keys),
        )
        .with_columns(
            pl.when(judged).then(position(by_label).over(columns.keys)).alias("ideal_rank"),
            pl.col("relevant").cum_sum().over(columns.keys, order_by="rank").alias("hits"),
        )
        .with_columns(
            pl.when(retrieved).then(pl.col("rank", "hits")),
        )
        # Polars may read the names of the log's columns as patterns.
        .select(pl.exclude(FAILED, *RANKED), *RANKED, FAILED)
    )
    return raise_failed(ranked, checks, log=log, keys={key: key for key in columns.keys})


def _without_duplicates(log: pl.LazyFrame, columns: Columns, keep: Duplicates) -> pl.LazyFrame:
    """Keep one row of each document in each ranking: the first, or the one of highest score."""
    one_of("duplicates", keep, DUPLICATES)
    if columns.doc is None or keep == "error":
        return log
    if keep == "max":
        log = log.sort(columns.score, descending=True, nulls_last=True, maintain_order=True)
    return log.unique([*columns.keys, columns.doc], keep="first", maintain_order=True)
