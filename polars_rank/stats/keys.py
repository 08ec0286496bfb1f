"""Random numbers that belong to a query: the same wherever and whenever it is looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Sequence

_ODD, _TEXT_SEED = 0xD6E8FEB86659FD93, 0x9E3779B97F4A7C15


def query_key(names: Sequence[str], dtypes: Sequence[pl.DataType]) -> pl.Expr:
    """Return 64 bits for each query, which depend on its id alone.

    Integers of any width are their own key, and so are durations. All else is hashed by Polars, as
    text where it has one, with fixed seeds; only a release of Polars with another hash function
    would change it.
    """
    key = pl.lit(0, dtype=pl.UInt64)
    for name, dtype in zip(names, dtypes, strict=True):
        key = _mixed(key) + _bits(pl.col(name), dtype)
    return key


def _bits(column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    if dtype == pl.UInt64:
        return column.fill_null(2**64 - 1)
    if dtype.is_integer() or dtype == pl.Duration:
        return column.cast(pl.Int64).reinterpret(signed=False).fill_null(2**64 - 1)
    has_text = not (dtype.is_nested() or dtype == pl.Binary)
    return (column.cast(pl.String) if has_text else column).hash(_TEXT_SEED)


def _mixed(bits: pl.Expr) -> pl.Expr:
    """Return the bits so changed that keys of several columns do not add up to the same."""
    bits = (bits ^ (bits // 2**32)) * pl.lit(_ODD, dtype=pl.UInt64)
    return bits ^ (bits // 2**29)
