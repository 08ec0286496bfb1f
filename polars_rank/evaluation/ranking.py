"""`rank`: from the long table to the ranked table. Only this module decides about order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from polars_rank._params import OWN, Names, one_of, threshold
from polars_rank.columns import DOC, Columns, Score, scored
from polars_rank.conventions import DUPLICATES, TIES, Duplicates, Ties
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.checks import (
    FAILED,
    duplicate_check,
    failed,
    failed_in_ranking,
    raise_failed,
    row_checks,
)
from polars_rank.frames.tables import framed, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

RANKED = ("rank", "ideal_rank", "relevant", "hits")


class Order(NamedTuple):
    """The order of a ranking, as `sort_by` and `arg_sort_by` accept it."""

    by: Sequence[pl.Expr]
    descending: Sequence[bool]
    nulls_last: Sequence[bool]
    maintain_order: bool

    def position(self) -> pl.Expr:
        """Return the position of each row in this order, from 1."""
        order = pl.arg_sort_by(
            self.by,
            descending=self.descending,
            nulls_last=self.nulls_last,
            maintain_order=self.maintain_order,
        )
        return order.arg_sort() + 1

    def sort(self, rows: pl.Expr) -> pl.Expr:
        """Return the rows of one ranking in this order."""
        return rows.sort_by(
            self.by,
            descending=self.descending,
            nulls_last=self.nulls_last,
            maintain_order=self.maintain_order,
        )


def rank_order(
    ties: Ties | None, columns: Columns, *, only_label: bool = False, text_ids: bool = False
) -> Order:
    """Return the order of one ranking: by score, then by the rule for ties.

    With `only_label`, metrics read only the labels and scores of documents, so that documents with
    equal labels and scores may come in any order. With `text_ids`, ids are compared as text.
    """
    if ties == "expected":
        message = (
            "`ties='expected'` is a mean over many orders; it is available in per_query and "
            "evaluate. Use 'doc', 'best' or 'worst' here"
        )
        raise ArgumentError(message, "ties")
    doc = columns.doc
    ties = ties or ("worst" if doc is None else "doc")
    if ties in ("doc", "doc_ascending") and doc is None:
        message = (
            f"`ties` is {ties!r}, but the frame has no document column; name it with `doc`, "
            "or choose 'worst', 'best' or 'input'"
        )
        raise ArgumentError(message, "ties", "doc")
    packed = packed_key(ties, columns, only_label=only_label, text_ids=text_ids)
    if packed is not None:
        return Order([packed.number], [True], [False], maintain_order=False)
    score, label = columns.number(columns.score), columns.number(columns.label)
    by_score = (score, True, True)
    if columns.schema[columns.score].is_float():
        # `nulls_last` makes a sort by two keys 1.5 times slower; no score is -inf.
        by_score = (score.fill_null(-math.inf), True, False)
    by_doc = []
    if doc is not None:
        # Within groups, `arg_sort_by` compares the codes of categoricals: they depend on row order.
        text = text_ids or columns.schema[doc] == pl.Categorical
        key = as_text(doc, columns.schema[doc]) if text else pl.col(doc)
        by_doc = [(key, ties != "doc_ascending", False)]
    best = ties == "best"
    # Unjudged documents come with the zeros, and below the judged ones among these.
    by_label = [(label.fill_null(0), best, best), (label, best, best)]
    keys = {
        "doc": [by_score, *by_doc],
        "doc_ascending": [by_score, *by_doc],
        "best": [by_score, *by_label, *by_doc],
        "worst": [by_score, *by_label, *by_doc],
        "input": [by_score],
    }[ties]
    by, descending, nulls_last = zip(*keys, strict=True)
    return Order(by, descending, nulls_last, ties == "input")


def best_of_each(columns: Columns, duplicates: Duplicates) -> Order:
    """Return an order in which rows of a document are adjacent, with the one to keep first."""
    doc, by_score = str(columns.doc), columns.number(columns.score)
    if duplicates == "first":
        return Order([pl.col(doc)], [False], [True], maintain_order=True)
    ids, score = (
        _id_bits(columns),
        _float_bits(columns.score, columns.schema[columns.score], -math.inf),
    )
    if ids is None or score is None:
        return Order([pl.col(doc), by_score], [False, True], [True, True], maintain_order=True)
    narrow = max(ids.width, score.width) == 32
    key_type, shift = (pl.Int64, 32) if narrow else (pl.Int128, 64)
    # From 0 to the end of the range of an id, so that ranges of two ids do not overlap.
    below = 2 ** (shift - 1) - 1 - score.number.cast(key_type)
    packed = ids.number.cast(key_type) * 2**shift + below
    known = pl.when(pl.col(doc).is_not_null()).then(packed)
    return Order([known], [False], [True], maintain_order=True)


def as_text(doc: str, dtype: pl.DataType) -> pl.Expr:
    """Return document ids as text; bytes and structs as they are."""
    return pl.col(doc) if dtype in (pl.Binary, pl.Struct) else pl.col(doc).cast(pl.String)


class _Bits(NamedTuple):
    """A column as integers of the same order, with their number of bits."""

    number: pl.Expr
    width: int
    signed: bool = True


_INTEGERS_32 = {pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32}
_INTEGERS_64 = {pl.Int64, pl.UInt64}

#: The bits of -inf as a signed number, by the width of the float.
_INFINITE = {32: -(2**23), 64: -(2**52)}


class PackedKey(NamedTuple):
    """Score and rule for ties as one integer per document; higher is better."""

    number: pl.Expr
    #: Int64 or Int128.
    dtype: type[pl.DataType]
    #: The lowest key of a retrieved document; documents that are not retrieved have lower keys.
    lowest_retrieved: int
    #: A second key for documents with equal first keys: the higher value comes first, or the lower
    #: one if `ascending`.
    second: pl.Expr | None = None
    ascending: bool = False

    def reads(self, column: str) -> bool:
        """Return whether the key depends on a column."""
        return column in self.number.meta.root_names()


def packed_key(
    ties: Ties,
    columns: Columns,
    *,
    only_label: bool,
    text_ids: bool,
    row: str | None = None,
) -> PackedKey | None:
    """Return the order of one ranking as one key, or None: one key sorts in half the time.

    `row` is the column that numbers the rows of the log, if there is one.
    """
    second: _Bits | None = None
    if ties == "input" and row is not None:
        second = _Bits(pl.col(row), 32, signed=False)
    elif ties in ("doc", "doc_ascending"):
        second = None if text_ids else _id_bits(columns)
    elif ties in ("best", "worst") and (only_label or columns.doc is None):
        second = _label_bits(columns)
    if second is None:
        return None
    score = _float_bits(columns.score, columns.schema[columns.score], -math.inf)
    if score is None:
        return None
    dtype, width = (pl.Int64, 32) if max(score.width, second.width) == 32 else (pl.Int128, 64)
    first, number = score.number.cast(dtype) * 2**width, second.number.cast(dtype)
    descending = ties in ("doc", "best")
    # A missing score has the bits of -inf, which are one below those of the lowest score.
    lowest_bits = -(2 ** (score.width - 1)) - _INFINITE[score.width] + 1
    lowest_second = -(2 ** (width - 1)) if second.signed else (0 if descending else 1 - 2**width)
    key = first + number if descending else first - number
    return PackedKey(key, dtype, lowest_bits * 2**width + lowest_second)


def key_of_columns(
    ties: Ties | None, columns: Columns, *, text_ids: bool, row: str
) -> PackedKey | None:
    """Return the order of one ranking as one key, or as one key and ids that are text."""
    ties = ties or ("worst" if columns.doc is None else "doc")
    if columns.doc is None and ties in ("doc", "doc_ascending"):
        return None
    key = packed_key(ties, columns, only_label=True, text_ids=text_ids, row=row)
    score = _float_bits(columns.score, columns.schema[columns.score], -math.inf)
    if columns.schema[columns.label] in (pl.UInt64, pl.Int128, pl.UInt128):
        return None
    if key is not None or ties not in ("doc", "doc_ascending") or score is None:
        return key
    doc, dtype = str(columns.doc), columns.schema[str(columns.doc)]
    if dtype not in (pl.String, pl.Categorical) and not (text_ids and dtype.is_integer()):
        return None
    lowest = -(2 ** (score.width - 1)) - _INFINITE[score.width] + 1
    number, ascending = score.number.cast(pl.Int64), ties == "doc_ascending"
    return PackedKey(number, pl.Int64, lowest, as_text(doc, dtype), ascending)


def _id_bits(columns: Columns) -> _Bits | None:
    doc = str(columns.doc)
    dtype = columns.schema[doc]
    if dtype not in _INTEGERS_32 | _INTEGERS_64:
        return None
    # Only the row of a ranking without documents has no id.
    width = 32 if dtype in _INTEGERS_32 else 64
    return _Bits(pl.col(doc).fill_null(0), width, dtype.is_signed_integer())


def _label_bits(columns: Columns) -> _Bits | None:
    """Return the label; unjudged documents are just below 0."""
    dtype, label = columns.schema[columns.label], pl.col(columns.label)
    if dtype in _INTEGERS_32:
        narrow = dtype in {pl.Int8, pl.UInt8, pl.Int16, pl.UInt16}
        judged = label.is_not_null().cast(pl.Int64)
        return _Bits(label.fill_null(0).cast(pl.Int64) * 2 + judged, 32 if narrow else 64)
    return _float_bits(columns.label, dtype, None)


def _float_bits(name: str, dtype: pl.DataType, missing: float | None) -> _Bits | None:
    """Return the bits of a float as an integer of the same order.

    The bits of negative floats are in reverse order, so they are mirrored; -0.0 becomes 0.0. If no
    value for missing floats is given, they become the number just below 0.
    """
    if dtype not in (pl.Float32, pl.Float64):
        return None
    bits_type, width = (pl.Int32, 32) if dtype == pl.Float32 else (pl.Int64, 64)
    known = pl.col(name) if missing is None else pl.col(name).fill_null(missing)
    bits = known.reinterpret(dtype=bits_type)
    ordered = pl.when(bits < 0).then(-(2 ** (width - 1)) - bits).otherwise(bits)
    if missing is None:
        # All numbers from 0 on move up by one, which leaves room for missing floats.
        ordered = (ordered + (ordered >= 0).cast(bits_type)).fill_null(0)
    return _Bits(ordered, width)


def is_relevant(label: pl.Expr, threshold: float) -> pl.Expr:
    """Return whether a document is relevant; an unjudged one is not."""
    return (label >= threshold).fill_null(value=False)


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
    position = pl.col("rank")
    by_label = Order([label, position], [True, False], [True, True], maintain_order=False)
    ranked = (
        log.with_columns(failed(checks, "row"))
        .with_columns(
            order.position().over(columns.keys).alias("rank"),
            pl.when(_is_document(columns)).then(is_relevant(label, lowest)).alias("relevant"),
            failed_in_ranking(checks).over(columns.keys),
        )
        .with_columns(
            pl.when(judged).then(by_label.position().over(columns.keys)).alias("ideal_rank"),
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
