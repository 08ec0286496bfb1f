"""`collapse`: rankings of documents from rankings of chunks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import polars as pl

from polars_rank._params import Names, free, one_of
from polars_rank.checks import FAILED, failed, raise_failed
from polars_rank.columns import RUN, Columns
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.log import with_known_runs
from polars_rank.evaluation.log_checks import row_checks
from polars_rank.frames.batches import by_ranking
from polars_rank.frames.ids import common_type
from polars_rank.frames.tables import framed_by_query, schema_of

How: TypeAlias = Literal["max", "first", "sum", "mean"]

_HOW: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "max": pl.Expr.max,
    "first": lambda values: values.drop_nulls().first(),
    "sum": lambda values: pl.when(values.count() > 0).then(values.cast(pl.Float64).sum()),
    "mean": lambda values: values.cast(pl.Float64).mean(),
}


@framed_by_query
def collapse(
    frame: pl.LazyFrame,
    *,
    doc: str,
    how: How = "max",
    label_how: How = "max",
    exclude_self: bool = False,
    query: Names = "query",
    score: str = "score",
    label: str = "label",
    run: str | None = RUN,
    by: Names | None = None,
) -> pl.LazyFrame:
    r"""Convert rankings of chunks to rankings of documents.

    $$\mathrm{score}(d) = \max_{c \in d} \mathrm{score}(c)$$

    or, by `how`, the first score, the sum or the mean of the retrieved chunks of a document.

    Examples
    --------
    >>> chunks = pl.DataFrame({
    ...     "query": 1, "document_id": ["a", "b", "a"], "score": [0.9, 0.8, 0.7],
    ...     "label": [0, 1, 2],
    ... })
    >>> documents = pr.collapse(chunks, doc="document_id")
    >>> documents
    shape: (2, 5)
    ┌───────┬─────────────┬───────┬───────┬────────┐
    │ query ┆ document_id ┆ score ┆ label ┆ chunks │
    │ ---   ┆ ---         ┆ ---   ┆ ---   ┆ ---    │
    │ i32   ┆ str         ┆ f64   ┆ i64   ┆ u32    │
    ╞═══════╪═════════════╪═══════╪═══════╪════════╡
    │ 1     ┆ a           ┆ 0.9   ┆ 2     ┆ 2      │
    │ 1     ┆ b           ┆ 0.8   ┆ 1     ┆ 1      │
    └───────┴─────────────┴───────┴───────┴────────┘
    >>> pr.evaluate(documents, "ndcg@10", doc="document_id")
    shape: (1, 2)
    ┌─────────┬─────────┐
    │ queries ┆ ndcg@10 │
    │ ---     ┆ ---     │
    │ u32     ┆ f64     │
    ╞═════════╪═════════╡
    │ 1       ┆ 1.0     │
    └─────────┴─────────┘

    Parameters
    ----------
    frame
        Long table with one row per chunk of a ranking. A chunk without a score was not retrieved.
    doc
        Column of the document that a chunk belongs to.
    how
        Score of a document: the "max", "sum" or "mean" of the scores of its retrieved chunks, or
        the score of the "first" of them in the order of rows.
    label_how
        Label of a document: the "max" (default: a document is as relevant as its best chunk),
        "sum" or "mean" of the labels of its judged chunks, retrieved or not, or the "first" of
        them in the order of rows.
    exclude_self
        Whether to drop documents whose id is that of the query, as in searches for similar
        documents.
    query
        Column or columns that identify the query.
    score
        Column of the score, higher is better.
    label
        Column of the relevance label. The result has it if the table has it.
    run
        Column of the run. Default: "run" if the table has it.
    by
        Columns to group by.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`, ranking by ranking and by score descending: one row per document of a ranking,
        with the `by`, `run`, `query` and `doc` columns, its score and label, and `chunks`, the
        number of its retrieved chunks. All other columns are dropped. A document without retrieved
        chunks has a null score, one without judged chunks a null label.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        For null queries or documents, and NaN or infinite scores or labels. A lazy result raises
        it when it is collected.
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    "sum" favors long documents, because every retrieved chunk counts; "max" and "first" do not. A
    ranking whose documents are all dropped remains as a row without a document, so that it counts
    in means.

    References
    ----------
    Dai & Callan, Deeper text understanding for IR with contextual neural language modeling, 2019
    (FirstP, MaxP, SumP).
    """
    for name, value in (("how", how), ("label_how", label_how)):
        one_of(name, value, (*_HOW,))
    roles = {"run": run, "by": by, "query": query, "doc": doc, "score": score, "label": label}
    columns = Columns.find(schema_of(frame), roles, optional=(RUN, "label"))
    rules = {score: how, **({label: label_how} if columns.label else {})}
    log, columns = columns.labeled(frame)
    log = with_known_runs(log, columns)
    pair = columns.pair
    free([*pair, score, label], ["chunks"], "doc")
    checks = row_checks(columns)
    values = [columns.number(name).alias(name) for name in rules]
    selected: list[str | pl.Expr] = [*pair, *values, failed(checks, "row")]
    own = _is_own(columns) if exclude_self else None
    keys = Keys.of(columns)

    def collapsed(rows: pl.LazyFrame, keys: list[str]) -> pl.LazyFrame:
        if own is not None:
            rows = rows.with_columns(pl.when(~own).then(pl.col(name)) for name in (doc, *rules))
        documents = rows.group_by(*dict.fromkeys([*keys, *pair])).agg(
            *(_HOW[rule](pl.col(name)).alias(name) for name, rule in rules.items()),
            pl.col(score).count().alias("chunks"),
            pl.col(FAILED).max(),
        )
        if own is None:
            return documents
        alone = pl.len().over(keys) == 1
        return documents.filter(pl.col(doc).is_not_null() | alone)

    def in_order(documents: pl.LazyFrame, keys: list[str]) -> pl.LazyFrame:
        descending = [False] * len(keys) + [True, True]
        return documents.sort([*keys, score, doc], descending=descending, nulls_last=True)

    if keys.are_adjacent(log):
        rows = keys.rows(log, selected)
        documents = by_ranking(
            rows, keys.group, lambda rows: in_order(collapsed(rows, keys.group), keys.group)
        )
        documents = raise_failed(documents, checks, log=log)
        documents = documents if keys.number is not None else documents.set_sorted(columns.keys)
    else:
        documents = collapsed(log.select(selected), columns.keys)
        documents = in_order(raise_failed(documents, checks, log=log), columns.keys)
    return documents.select(*pair, *rules, "chunks")


def _is_own(columns: Columns) -> pl.Expr:
    """Return whether the query of a document is the same document."""
    doc = str(columns.doc)
    if len(columns.query) > 1:
        raise ArgumentError(
            "compares documents with one column of the query; pass one", "exclude_self"
        )
    query = columns.query[0]
    dtype = common_type(columns.schema[query], columns.schema[doc])
    if dtype is None:
        raise SchemaError(
            f"`exclude_self` compares column {query!r}, which is {columns.schema[query]}, with "
            f"{doc!r}, which is {columns.schema[doc]}; cast one of them"
        )
    return (pl.col(query).cast(dtype) == pl.col(doc).cast(dtype)).fill_null(value=False)
