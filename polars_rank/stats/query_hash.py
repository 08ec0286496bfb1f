"""Hashes of queries, which are the same on every machine and in every run."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

_TEXT_SEED = 0x9E3779B97F4A7C15


def query_key(names: Sequence[str], schema: pl.Schema) -> pl.Expr:
    """Return 64 bits for each query, which depend on its id only.

    Integers and durations are their own keys. Polars hashes everything else, as text if possible,
    with fixed seeds, so that only another hash function in Polars would change the keys.
    """
    bits = (_bits(pl.col(name), schema[name]) for name in names)
    # Mixing makes the sum depend on the order of the columns.
    return reduce(lambda key, more: mixed(key) + more, bits)


def _bits(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if dtype == pl.UInt64:
        return column.fill_null(2**64 - 1)
    if dtype.is_integer() or dtype == pl.Duration:
        return column.cast(pl.Int64).reinterpret(signed=False).fill_null(2**64 - 1)
    has_text = not (dtype.is_nested() or dtype == pl.Binary)
    return (column.cast(pl.String) if has_text else column).hash(_TEXT_SEED)


def mixed(bits: Any) -> Any:
    """Map 64 bits one to one to 64 other bits, in an expression or a NumPy array.

    This is the output function of the generator splitmix64 (Steele, Lea & Flood, 2014).
    """
    bits = bits ^ bits // 2**30
    bits *= 0xBF58476D1CE4E5B9
    bits ^= bits // 2**27
    bits *= 0x94D049BB133111EB
    bits ^= bits // 2**31
    return bits
