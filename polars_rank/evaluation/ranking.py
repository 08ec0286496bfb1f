"""`rank`: from the long table to the ranked table. The only code that cares about order."""

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
    repeats,
    row_checks,
)
from polars_rank.frames.tables import framed, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

RANKED = ("rank", "ideal_rank", "relevant", "hits")


class Order(NamedTuple):
    """A sort within one list, as `sort_by` and `arg_sort_by` take it."""

    by: Sequence[pl.Expr]
    descending: Sequence[bool]
    nulls_last: Sequence[bool]
    maintain_order: bool

    def position(self) -> pl.Expr:
        """Return the place of each row in this order, from 1."""
        order = pl.arg_sort_by(
            self.by,
            descending=self.descending,
            nulls_last=self.nulls_last,
            maintain_order=self.maintain_order,
        )
        return order.arg_sort() + 1

    def sort(self, rows: pl.Expr) -> pl.Expr:
        """Return the rows of one list in this order."""
        return rows.sort_by(
            self.by,
            descending=self.descending,
            nulls_last=self.nulls_last,
            maintain_order=self.maintain_order,
        )


def rank_order(
    ties: Ties | None, columns: Columns, *, only_label: bool = False, text_ids: bool = False
) -> Order:
    """Return the order of one list: by score, then by the rule for ties.

    With `only_label`, nothing is read of a document but its label and its score, so that those
    alike in both may stand in any order. With `text_ids`, document ids are compared as text.
    """
    if ties == "expected":
        message = (
            "`ties` is 'expected', which is a mean over many orders and no order itself; use it "
            "with per_query or evaluate, and 'doc', 'best' or 'worst' here"
        )
        raise ArgumentError(message, "ties")
    one_of("ties", ties, (None, *TIES))
    doc = columns.doc
    ties = ties or default_ties(columns)
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
        # Asking for nulls last makes a sort by two keys half as slow again; no score is -inf.
        by_score = (score.fill_null(-math.inf), True, False)
    by_doc = []
    if doc is not None:
        # Within groups, `arg_sort_by` compares the codes of categoricals: they depend on row order.
        text = text_ids or columns.schema[doc] == pl.Categorical
        key = as_text(doc, columns.schema[doc]) if text else pl.col(doc)
        by_doc = [(key, ties != "doc_ascending", False)]
    best = ties == "best"
    # An unjudged document ranks with the zeros; among those, the judged one is the better.
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
    """Return an order in which the rows of one document stand together, the one to keep first."""
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
    # The rest of an id's range, from 0, so that no id's rows go over to those of another.
    below = 2 ** (shift - 1) - 1 - score.number.cast(key_type)
    packed = ids.number.cast(key_type) * 2**shift + below
    known = pl.when(pl.col(doc).is_not_null()).then(packed)
    return Order([known], [False], [True], maintain_order=True)


def as_text(doc: str, dtype: pl.DataType) -> pl.Expr:
    """Return document ids as text; bytes and structs as they are."""
    return pl.col(doc) if dtype in (pl.Binary, pl.Struct) else pl.col(doc).cast(pl.String)


class _Bits(NamedTuple):
    """A column as whole numbers of the same order, within so many bits."""

    number: pl.Expr
    width: int
    signed: bool = True


_INTEGERS_32 = {pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32}
_INTEGERS_64 = {pl.Int64, pl.UInt64}

#: The bits of -inf as a signed number, by the width of the float.
_INFINITE = {32: -(2**23), 64: -(2**52)}


class PackedKey(NamedTuple):
    """Score and tie rule of a document as one whole number, higher being better."""

    number: pl.Expr
    #: Int64 or Int128.
    dtype: type[pl.DataType]
    #: The lowest number that a retrieved document can have; all others have a lower one.
    lowest_retrieved: int
    #: What decides between documents of one number, if that is not known to be enough: the higher
    #: value comes first, or the lower one.
    second: pl.Expr | None = None
    ascending: bool = False

    def reads(self, column: str) -> bool:
        """Return whether the key is made of a column."""
        return column in self.number.meta.root_names()


def packed_key(
    ties: Ties,
    columns: Columns,
    *,
    only_label: bool,
    text_ids: bool,
    row: str | None = None,
) -> PackedKey | None:
    """Return the order of one ranking as one key, if there is one: it sorts in half the time.

    `row` is the column that numbers the rows of the log, if there is one.
    """
    second: _Bits | None = None
    if ties == "input" and row is not None:
        second = _Bits(pl.col(row), 32, signed=False)
    elif ties in ("doc", "doc_ascending"):
        second = None if text_ids else _id_bits(columns)
    elif ties in ("best", "worst") and (only_label or columns.doc is None):
        second = _label_bits(columns)
    score = _float_bits(columns.score, columns.schema[columns.score], -math.inf)
    if second is None or score is None:
        return None
    dtype, width = (pl.Int64, 32) if max(score.width, second.width) == 32 else (pl.Int128, 64)
    first, number = score.number.cast(dtype) * 2**width, second.number.cast(dtype)
    descending = ties in ("doc", "best")
    # A missing score has the bits of -inf, just below those of the lowest score.
    lowest_bits = -(2 ** (score.width - 1)) - _INFINITE[score.width] + 1
    lowest_second = -(2 ** (width - 1)) if second.signed else (0 if descending else 1 - 2**width)
    key = first + number if descending else first - number
    return PackedKey(key, dtype, lowest_bits * 2**width + lowest_second)


def key_of_columns(
    ties: Ties | None, columns: Columns, *, text_ids: bool, row: str
) -> PackedKey | None:
    """Return the order of one ranking as one key, or as one and document ids that are text."""
    ties = ties or default_ties(columns)
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


def default_ties(columns: Columns) -> Ties:
    """Return the rule for ties where none is given."""
    return "doc" if columns.doc is not None else "worst"


def _id_bits(columns: Columns) -> _Bits | None:
    doc = str(columns.doc)
    dtype = columns.schema[doc]
    if dtype not in _INTEGERS_32 | _INTEGERS_64:
        return None
    # Only the row of an empty list has no document.
    width = 32 if dtype in _INTEGERS_32 else 64
    return _Bits(pl.col(doc).fill_null(0), width, dtype.is_signed_integer())


def _label_bits(columns: Columns) -> _Bits | None:
    """Return the label, those of unjudged documents just below 0."""
    dtype, label = columns.schema[columns.label], pl.col(columns.label)
    if dtype in _INTEGERS_32:
        narrow = dtype in {pl.Int8, pl.UInt8, pl.Int16, pl.UInt16}
        judged = label.is_not_null().cast(pl.Int64)
        return _Bits(label.fill_null(0).cast(pl.Int64) * 2 + judged, 32 if narrow else 64)
    return _float_bits(columns.label, dtype, None)


def _float_bits(name: str, dtype: pl.DataType, missing: float | None) -> _Bits | None:
    """Return the bits of a float, read as a whole number.

    They are in order but for the negative ones, which are turned round: -0.0 becomes the number
    of 0.0, and without a value for what is missing, that becomes the number just below.
    """
    if dtype not in (pl.Float32, pl.Float64):
        return None
    bits_type, width = (pl.Int32, 32) if dtype == pl.Float32 else (pl.Int64, 64)
    known = pl.col(name) if missing is None else pl.col(name).fill_null(missing)
    bits = known.reinterpret(dtype=bits_type)
    ordered = pl.when(bits < 0).then(-(2 ** (width - 1)) - bits).otherwise(bits)
    if missing is None:
        # Room for the number between: all above it move up by one.
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
    """Return the ranked table: the same rows with `rank`, `ideal_rank`, `relevant`, `hits`.

    Parameters
    ----------
    frame
        The long table, one row per document of a list: a LazyFrame, or a DataFrame or any other
        table with Arrow's C stream, or a Spark DataFrame.
    query, doc, score, label
        Names of its columns; `query` may be several. Without a column "doc", or with
        `doc=None`, documents have no ids. A null score means judged but not retrieved, a null
        label retrieved but not judged. `score` may be an expression, and "-name" is that of a
        column in which lower is better; integers and decimals are compared exactly.
    position
        In place of `score`: the column of the position at which a document was shown, 1 first.
    by
        Columns that split the table: a list is the rows that share (by..., query).
    ties
        How tied scores are ordered: "doc" by document id descending (the default where there
        are documents), "doc_ascending", "best" or "worst" the higher or the lower label first
        ("worst" is the default without documents), "input" as the rows come.
    rel
        The lowest label that is relevant.
    duplicates
        What to do with a document that stands twice in a list: "error", or keep the row with
        the highest score ("max") or the one that comes first ("first").

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`, rows in the same order (those of Spark in none), with

        - `rank`: 1, 2, ... by score descending; null where the score is null;
        - `ideal_rank`: 1, 2, ... by label descending, equal labels by rank; null where the
          label is null;
        - `relevant`: label >= threshold; false where the label is null, null in the row of an
          empty list, which has no document;
        - `hits`: relevant documents at this rank or above; null where the rank is null.

    Raises
    ------
    SchemaError
        For a missing or not numeric column, or one that has the name of a new column.
    DataError
        For a null query, NaN or infinite scores or labels, duplicate documents; lazily, when
        the result is collected.
    ArgumentError
        For a parameter out of its range.

    Notes
    -----
    With every rule for ties but "input", the order of the rows changes no value.

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

    log, by_score = scored(frame, score, position)
    columns = Columns.find(schema_of(log), query=query, doc=doc, score=by_score, label=label, by=by)
    for role, name in (("score", by_score), ("label", label)):
        if name != role and role in columns.schema:
            other = "another expression" if name.startswith(OWN) else repr(name)
            message = (
                f"`{role}` names {other}, but the frame also has a column {role!r}, which metrics "
                "would read on the ranked table; drop it or rename it"
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
        shown = shown.clip(upper_bound=2**63 - 1).cast(pl.Int64)  # of the least number, one less
    return ranked.with_columns(shown).rename({by_score: "score"})


def _is_document(columns: Columns) -> pl.Expr:
    """Return whether a row is a document's; with ids, one without an id is of an empty list."""
    return pl.lit(value=True) if columns.doc is None else pl.col(columns.doc).is_not_null()


def _ranked(
    log: pl.LazyFrame, columns: Columns, order: Order, lowest: float, duplicates: Duplicates
) -> pl.LazyFrame:
    log = _without_duplicates(log, columns, duplicates)
    checks = row_checks(columns)
    if columns.doc is not None:
        checks.append(duplicate_check(columns, repeats(columns.doc)))
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
        # Not by the names of the log's columns, which Polars may read as patterns.
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
