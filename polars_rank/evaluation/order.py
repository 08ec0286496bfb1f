"""The order of the documents in a ranking: by score, then by the rule for ties.

If possible, score and rule for ties are packed into one integer, because a sort by one key takes
half the time.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Required, TypedDict

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import ArgumentError
from polars_rank.frames.ids import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.columns import Columns
    from polars_rank.conventions import Duplicates, Ties
    from polars_rank.definitions import Ordering


class Order(TypedDict, total=False):
    """The order of a ranking, as the arguments of `Expr.sort_by`."""

    by: Required[Sequence[pl.Expr]]
    descending: Sequence[bool]
    nulls_last: Sequence[bool]
    maintain_order: bool


#: Whether one copy of a document has only a score, and another one only a label.
CONFLICT = OWN + "score and label apart"


def position(order: Order) -> pl.Expr:
    """Return the position of each row in an order, from 1."""
    return pl.int_range(pl.len()).sort_by(**order).arg_sort() + 1


def first_position(condition: pl.Expr, order: Order) -> pl.Expr:
    """Return the position of the first row in an order that meets a condition, null if none does.

    The condition must not be null. `arg_max` would return the last row of some groups in which all
    rows meet it.
    """
    return condition.sort_by(**order).arg_true().first().cast(pl.Float64) + 1


def rank_order(ordering: Ordering, columns: Columns, *, only_label: bool = False) -> Order:
    """Return the order of one ranking: by score, then by the rule for ties.

    With `only_label`, metrics read only labels and scores, so documents with equal labels and
    scores may have any order.
    """
    ties, doc = ordering.ties, columns.doc
    if ties == "expected":
        raise ArgumentError(
            "`ties='expected'` is a mean over many orders; it is available in per_query and "
            "evaluate. Use 'doc', 'best' or 'worst' here"
        )
    ties = ties or ("worst" if doc is None else "doc")
    if ties in ("doc", "doc_ascending") and doc is None:
        raise ArgumentError(
            f"is {ties!r}, but the frame has no document column; name it with `doc`, "
            "or choose 'worst', 'best' or 'input'",
            "ties",
        )
    packed = packed_key(ties, columns, only_label=only_label, text_ids=ordering.text_ids)
    if packed is not None:
        return Order(by=[packed.number], descending=[True])
    score, label = columns.number(columns.score), columns.number(columns.label)
    by_score = (score, True, True)
    if columns.schema[columns.score].is_float():
        # A sort by two keys with `nulls_last` takes 1.5 times as long. No score is -inf.
        by_score = (score.fill_null(-math.inf), True, False)
    by_doc = []
    if doc is not None:
        # Within groups, Polars compares the codes of categoricals, which depend on the row order.
        text = ordering.text_ids or isinstance(columns.schema[doc], pl.Categorical)
        key = as_text(doc, columns.schema[doc]) if text else pl.col(doc)
        by_doc = [(key, ties != "doc_ascending", False)]
    best = ties == "best"
    # Unjudged documents count as label 0, and rank below judged documents with label 0.
    by_label = [(label.fill_null(0), best, best), (label, best, best)]
    others = [*(by_label if ties in ("best", "worst") else []), *by_doc] if ties != "input" else []
    by, descending, nulls_last = zip(by_score, *others, strict=True)
    is_input = ties == "input"
    return Order(by=by, descending=descending, nulls_last=nulls_last, maintain_order=is_input)


def best_of_each(columns: Columns, duplicates: Duplicates) -> Order:
    """Return an order in which the rows of a document are adjacent, the row to keep first."""
    doc, by_score = str(columns.doc), columns.number(columns.score)
    if duplicates == "first":
        return Order(by=[pl.col(doc)], nulls_last=[True], maintain_order=True)
    ids, score = _id_bits(columns), _score_bits(columns)
    if ids is None or score is None:
        return Order(
            by=[pl.col(doc), by_score],
            descending=[False, True],
            nulls_last=[True, True],
            maintain_order=True,
        )
    narrow = max(ids.width, score.width) == 32
    key_type, shift = (pl.Int64, 32) if narrow else (pl.Int128, 64)
    # From 0 to the size of the range of an id, so that the ranges of two ids do not overlap.
    below = 2 ** (shift - 1) - 1 - score.number.cast(key_type)
    packed = ids.number.cast(key_type) * 2**shift + below
    known = pl.when(pl.col(doc).is_not_null()).then(packed)
    return Order(by=[known], nulls_last=[True], maintain_order=True)


class _Bits(NamedTuple):
    """A column as integers in the same order, and their number of bits."""

    number: pl.Expr
    width: int
    signed: bool = True


_INTEGERS_32 = {pl.Int8, pl.Int16, pl.Int32, pl.UInt8, pl.UInt16, pl.UInt32}
#: Integers of at most 64 bits, whose sums fit into 128 bits.
INTEGERS: set[type[pl.DataType]] = _INTEGERS_32 | {pl.Int64, pl.UInt64}

#: Integer of a missing score, one below the integers of finite scores, by the width of floats.
_MISSING_SCORE = {32: 2**23 - 2**31, 64: 2**52 - 2**63}


class PackedKey(NamedTuple):
    """Score and rule for ties as one integer per document; the highest comes first."""

    number: pl.Expr
    #: Int64 or Int128.
    dtype: type[pl.DataType]
    #: The key is the score as an integer times 2^width, plus a number of at least `lowest`.
    width: int = 0
    lowest: int = 0
    #: A second key for documents with equal first keys, descending unless `ascending`.
    second: pl.Expr | None = None
    ascending: bool = False


def packed_key(
    ties: Ties, columns: Columns, *, only_label: bool, text_ids: bool, row: str | None = None
) -> PackedKey | None:
    """Return the order of one ranking as one integer, or None if that is impossible.

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
    if (score := _score_bits(columns)) is None:
        return None
    dtype, width = (pl.Int64, 32) if max(score.width, second.width) == 32 else (pl.Int128, 64)
    first, number = score.number.cast(dtype) * 2**width, second.number.cast(dtype)
    lowest_number = -(2 ** (width - 1)) if second.signed else 0
    if ties in ("doc_ascending", "worst", "input"):
        # -number - 1 has as many bits as the number; the negative of the lowest integer has more.
        number = ~number
        lowest_number = lowest_number if second.signed else -(2**width)
    return PackedKey(first + number, dtype, width, lowest_number)


def key_of_columns(ordering: Ordering, columns: Columns, row: str) -> PackedKey | None:
    """Return the order of one ranking as one integer, or as an integer and ids that are text."""
    text_ids, ties = ordering.text_ids, ordering.ties or ("worst" if columns.doc is None else "doc")
    if columns.doc is None and ties in ("doc", "doc_ascending"):
        return None
    key = packed_key(ties, columns, only_label=True, text_ids=text_ids, row=row)
    score = _score_bits(columns)
    if columns.schema[columns.label] in (pl.UInt64, pl.Int128, pl.UInt128):
        return None
    if key is not None or ties not in ("doc", "doc_ascending") or score is None:
        return key
    doc, dtype = str(columns.doc), columns.schema[str(columns.doc)]
    text = isinstance(dtype, (pl.String, pl.Categorical))
    if not text and not (text_ids and dtype.is_integer()):
        return None
    second, ascending = as_text(doc, dtype), ties == "doc_ascending"
    return PackedKey(score.number.cast(pl.Int64), pl.Int64, second=second, ascending=ascending)


class LabelCodes:
    """Labels as integers of 64 bits in the same order; missing labels have the lowest code."""

    missing = -(2**63)

    def __init__(self, dtype: pl.DataType) -> None:
        self._dtype = dtype

    def of(self, label: pl.Expr) -> pl.Expr:
        """Return the codes of labels."""
        if self._dtype == pl.Int64:
            label = label.clip(lower_bound=self.missing + 1)
        if self._dtype.is_integer():
            return label.cast(pl.Int64).fill_null(self.missing)
        bits = label.cast(pl.Float64).reinterpret(dtype=pl.Int64)
        return pl.when(bits < 0).then(self.missing - bits).otherwise(bits).fill_null(self.missing)

    def label(self, code: pl.Expr, *, filled: bool) -> pl.Expr:
        """Return the labels of codes; a missing label is null, or 0 if it is `filled`."""
        label = code
        if not self._dtype.is_integer():
            bits = pl.when(code < 0).then(self.missing - code).otherwise(code)
            label = bits.reinterpret(dtype=pl.Float64)
        return pl.when(self.is_known(code)).then(label).otherwise(0 if filled else None)

    def is_known(self, code: pl.Expr) -> pl.Expr:
        """Return whether the labels of codes are not missing."""
        return code != self.missing

    def at_least(self, code: pl.Expr, lowest: float) -> pl.Expr:
        """Return whether the labels of codes are not missing, and at least a number."""
        return code >= _code_of(lowest, is_integer=self._dtype.is_integer())


@lru_cache
def _code_of(lowest: float, *, is_integer: bool) -> int:
    """Return the lowest code of the labels that are at least a number."""
    if is_integer:
        bounds = LabelCodes.missing + 1, 2**63 - 1
        return max(bounds[0], math.ceil(min(lowest, bounds[1])))
    return int(pl.select(LabelCodes(pl.Float64()).of(pl.lit(float(lowest)))).item())


def _id_bits(columns: Columns) -> _Bits | None:
    doc = str(columns.doc)
    dtype = columns.schema[doc]
    if dtype not in INTEGERS:
        return None
    # Ids are null only in the row of a ranking without documents.
    width = 32 if dtype in _INTEGERS_32 else 64
    return _Bits(pl.col(doc).fill_null(0), width, dtype.is_signed_integer())


def _label_bits(columns: Columns) -> _Bits | None:
    """Return the label as an integer; that of unjudged documents is just below label 0."""
    dtype, label = columns.schema[columns.label], pl.col(columns.label)
    if dtype in _INTEGERS_32:
        narrow = dtype in {pl.Int8, pl.UInt8, pl.Int16, pl.UInt16}
        judged = label.is_not_null().cast(pl.Int64)
        return _Bits(label.fill_null(0).cast(pl.Int64) * 2 + judged, 32 if narrow else 64)
    bits = _float_bits(label, dtype)
    if bits is None:
        return None
    # Numbers of 0 or more move up by one, to make room for missing labels.
    above = bits.number + (bits.number >= 0).cast(pl.Int32 if bits.width == 32 else pl.Int64)
    return _Bits(above.fill_null(0), bits.width)


def _score_bits(columns: Columns) -> _Bits | None:
    """Return the score as an integer; that of missing scores is just below the lowest."""
    bits = _float_bits(pl.col(columns.score), columns.schema[columns.score])
    if bits is None:
        return None
    return _Bits(bits.number.fill_null(_MISSING_SCORE[bits.width]), bits.width)


def _float_bits(number: pl.Expr, dtype: pl.DataType) -> _Bits | None:
    """Return a float as an integer in the same order, or None for other types.

    The bits of negative floats are in reverse order, so they are mirrored. -0.0 becomes 0.0.
    """
    if dtype not in (pl.Float32, pl.Float64):
        return None
    bits_type, width = (pl.Int32, 32) if dtype == pl.Float32 else (pl.Int64, 64)
    bits = number.reinterpret(dtype=bits_type)
    return _Bits(pl.when(bits < 0).then(-(2 ** (width - 1)) - bits).otherwise(bits), width)
