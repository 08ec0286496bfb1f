"""Short rankings: one row per ranking, one column per position.

A document is one whole number: its place in the order, and its label. A sorting network of
`max_horizontal` and `min_horizontal` puts the columns of a ranking in order; a second one puts its
labels in ideal order. Nothing is sorted, exploded or gathered per ranking, so that rankings of 5 to
20 documents take a third of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import reduce

import polars as pl

from polars_rank._params import OWN
from polars_rank.columns import Columns
from polars_rank.evaluation.checks import FAILED, Check, failed
from polars_rank.evaluation.ranking import PackedKey
from polars_rank.frames.lengths import Lengths
from polars_rank.metrics.wide_terms import (
    HERE,
    IDEAL,
    LABEL,
    LONGEST,
    RANK,
    RETRIEVED_LABEL,
    WideTerms,
    at,
)

#: Whether a document is in a ranking more than once.
REPEATED = pl.col(OWN + "repeated")

#: Lower than any label that Float64 tells apart.
_NO_LABEL = -(2**63)
#: The key of a position beyond the end of a ranking: lower than any other, and without a label.
_NO_DOCUMENT = -(2**127) + 2**63
#: Higher than the key of any document: that of a row that fails a check, whose number is added.
_FAILED = 2**127 - 2**16

#: Rows from which on it pays to plan so many columns.
_MANY_ROWS = 50_000

_KEY, _CODE, _IDEAL = OWN + "order", OWN + "code", OWN + "ideal code"
_DOCUMENT, _ROWS, _LOWER = OWN + "doc", OWN + "rows", OWN + "lower"


def per_ranking(
    rows: pl.LazyFrame,
    columns: Columns,
    order: PackedKey,
    terms: WideTerms,
    *,
    group: Sequence[str],
    carried: Sequence[pl.Expr],
    checks: Sequence[Check],
    lowest: float,
) -> pl.LazyFrame:
    """Return one row per ranking: what is carried, the columns of terms, and `FAILED`.

    Parameters
    ----------
    rows
        The rows of the log under canonical names, ranking by ranking.
    columns
        What those names are.
    order
        The order of the documents of a ranking.
    terms
        What the metrics read.
    group
        The columns that tell rankings apart.
    carried
        Aggregations that give one value per ranking.
    checks
        The checks of rows and rankings.
    lowest
        The lowest relevant label.
    """
    positions = range(terms.length)
    packed = order.dtype == pl.Int64  # there is room for the label in the key
    key, code = order.number.cast(pl.Int128), _code(columns)
    if packed:
        key = key * 2**64 + code.cast(pl.Int128)
    number = pl.col(FAILED)
    cells = {_KEY: pl.when(number == 0).then(key).otherwise(number.cast(pl.Int128) + _FAILED)}
    missing = {_KEY: pl.lit(_NO_DOCUMENT, dtype=pl.Int128)}
    if not packed:
        cells[_CODE], missing[_CODE] = code, pl.lit(_NO_LABEL, dtype=pl.Int64)
    conditions, of_ranking = _of_ranking(checks)
    repeated = None
    if any(check.condition.meta.eq(REPEATED) for check in checks):
        cells[_DOCUMENT] = pl.col("doc")
        repeated = _repeated(terms.length)
        missing[_DOCUMENT] = columns.schema["doc"].min()
    rankings = (
        rows.with_columns(expression.alias(name) for name, expression in cells.items())
        .group_by(group, maintain_order=True)
        .agg(*carried, *conditions, *cells, pl.len().alias(_ROWS))
    )
    table = rankings.with_columns(
        _filled(pl.col(name).list.get(i, null_on_oob=True), missing.get(name)).alias(at(name, i))
        for name in cells
        for i in positions
    ).drop(*cells)
    if packed:
        table = table.with_columns(
            pl.col(at(_KEY, i)).cast(pl.Int64, wrap_numerical=True).alias(at(_CODE, i))
            for i in positions
        )
    table = table.with_columns(pl.col(at(_CODE, i)).alias(at(_IDEAL, i)) for i in positions)
    for layer in network(terms.length):
        if packed:
            table = table.with_columns(e for a, b in layer for e in _exchanged(_KEY, a, b))
        else:
            table = table.with_columns(
                (pl.col(at(_KEY, a)) < pl.col(at(_KEY, b))).alias(at(_LOWER, a)) for a, b in layer
            ).with_columns(
                e for a, b in layer for e in (*_exchanged(_KEY, a, b), *_followed(_CODE, a, b))
            )
    if packed:
        table = table.with_columns(
            pl.col(at(_KEY, i)).cast(pl.Int64, wrap_numerical=True).alias(at(_CODE, i))
            for i in positions
        )
    for name in (_IDEAL, _DOCUMENT) if repeated is not None else (_IDEAL,):
        table = _in_order(table, name, terms.length)
    lowest_key = order.lowest_retrieved * 2**64 - 2**63 if packed else order.lowest_retrieved
    retrieved = [pl.col(at(_KEY, i)) >= pl.lit(lowest_key, dtype=pl.Int128) for i in positions]
    whole = columns.schema[columns.label].is_integer()
    labels = [_label(pl.col(at(_CODE, i)), whole=whole) for i in positions]
    first = pl.col(at(_KEY, 0))
    table = table.with_columns(
        *(label.alias(at(LABEL, i)) for i, label in enumerate(labels)),
        *(_label(pl.col(at(_IDEAL, i)), whole=whole).alias(at(IDEAL, i)) for i in positions),
        *(
            pl.when(each).then(pl.lit(i + 1, dtype=pl.UInt32)).alias(at(RANK, i))
            for i, each in enumerate(retrieved)
        ),
        *(
            _label(pl.col(at(_CODE, i)), whole=whole, among=retrieved[i]).alias(
                at(RETRIEVED_LABEL, i)
            )
            for i in positions
        ),
        *((pl.col(_ROWS) > i).alias(at(HERE, i)) for i in positions),
        (pl.when(first >= _FAILED).then(first - _FAILED).otherwise(0).cast(pl.UInt16)).alias(
            FAILED
        ),
        (pl.lit(value=False) if repeated is None else repeated).alias(REPEATED.meta.output_name()),
    )
    failing = pl.max_horizontal(FAILED, failed(of_ranking, "ranking"))
    table = table.with_columns(failing.alias(FAILED))
    for layer in terms.layers(lowest):
        table = table.with_columns(layer) if layer else table
    return table


def presence(length: int) -> tuple[pl.Expr, pl.Expr]:
    """Return whether a ranking has a judged document, and how many it has that are retrieved."""
    retrieved = (pl.col(at(RANK, i)).is_not_null().cast(pl.UInt8) for i in range(length))
    return pl.col(at(IDEAL, 0)).is_not_null(), reduce(pl.Expr.__add__, retrieved).cast(pl.UInt32)


def is_short(lengths: Lengths) -> bool:
    """Return whether rankings are evaluated faster with a column per position.

    Columns take time for the longest ranking; rows take time for each ranking and each row.
    """
    longest = lengths.longest
    columns = 0.02 * longest + 0.0015 * longest**2
    rows = 0.9 + 0.085 * lengths.rows / max(lengths.rankings, 1)
    return lengths.rows >= _MANY_ROWS and longest <= LONGEST and columns < rows


def _of_ranking(checks: Sequence[Check]) -> tuple[list[pl.Expr], list[Check]]:
    """Return the conditions of rankings as aggregations, and the checks over their columns.

    A condition that is a column is not aggregated.
    """
    conditions, found = [], []
    for index, check in enumerate(checks):
        condition = check.condition
        if check.scope == "ranking" and not condition.meta.is_column():
            conditions.append(condition.alias(f"{OWN}condition {index}"))
            condition = pl.col(f"{OWN}condition {index}")
        found.append(replace(check, condition=condition))
    return conditions, found


def _filled(value: pl.Expr, missing: pl.Expr | None) -> pl.Expr:
    return value if missing is None else value.fill_null(missing)


def _code(columns: Columns) -> pl.Expr:
    """Return the label as a whole number of the same order, the lowest where there is none."""
    label = columns.number(columns.label)
    if columns.schema[columns.label].is_integer():
        whole = label.cast(pl.Int64)
        if columns.schema[columns.label] == pl.Int64:
            whole = whole.clip(lower_bound=_NO_LABEL + 1)
        return whole.fill_null(_NO_LABEL)
    bits = label.cast(pl.Float64).reinterpret(dtype=pl.Int64)
    return pl.when(bits < 0).then(_NO_LABEL - bits).otherwise(bits).fill_null(_NO_LABEL)


def _label(code: pl.Expr, *, whole: bool, among: pl.Expr | None = None) -> pl.Expr:
    """Return the label of a code, of some documents only."""
    known = code != _NO_LABEL
    known = known if among is None else known & among
    if whole:
        return pl.when(known).then(code)
    bits = pl.when(code < 0).then(_NO_LABEL - code).otherwise(code)
    return pl.when(known).then(bits.reinterpret(dtype=pl.Float64))


def _exchanged(name: str, a: int, b: int) -> Iterator[pl.Expr]:
    """Return the higher of two columns in the place of the first, the lower in the other's."""
    pair = at(name, a), at(name, b)
    yield pl.max_horizontal(pair).alias(pair[0])
    yield pl.min_horizontal(pair).alias(pair[1])


def _followed(name: str, a: int, b: int) -> Iterator[pl.Expr]:
    """Return two columns, exchanged where the first has the lower key."""
    lower, (first, second) = pl.col(at(_LOWER, a)), (at(name, a), at(name, b))
    yield pl.when(lower).then(pl.col(second)).otherwise(pl.col(first)).alias(first)
    yield pl.when(lower).then(pl.col(first)).otherwise(pl.col(second)).alias(second)


def _in_order(table: pl.LazyFrame, name: str, length: int) -> pl.LazyFrame:
    """Return the table with its columns of a name in descending order."""
    for layer in network(length):
        table = table.with_columns(e for a, b in layer for e in _exchanged(name, a, b))
    return table


def _repeated(length: int) -> pl.Expr:
    """Return whether two documents have one id, which stand side by side."""
    docs = [pl.col(at(_DOCUMENT, i)) for i in range(length)]
    same = [(docs[i] == docs[i + 1]) & (pl.col(_ROWS) > i + 1) for i in range(length - 1)]
    return reduce(pl.Expr.__or__, same, pl.lit(value=False))


def network(length: int) -> list[list[tuple[int, int]]]:
    """Return the pairs of positions that sort columns when they are compared, in layers.

    This is the odd-even merge sort of Batcher (1968), of any length.
    """
    layers, width = [], 1
    while width < length:
        step = width
        while step >= 1:
            layers.append(
                [
                    (i + j, i + j + step)
                    for j in range(step % width, length - step, 2 * step)
                    for i in range(min(step, length - j - step))
                    if (i + j) // (2 * width) == (i + j + step) // (2 * width)
                ]
            )
            step //= 2
        width *= 2
    return layers
