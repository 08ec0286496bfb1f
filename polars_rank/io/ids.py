"""Common types of the ids and values of two tables."""

from __future__ import annotations

import polars as pl

_TEXT = (pl.String, pl.Categorical, pl.Enum)


def common_type(left: pl.DataType, right: pl.DataType) -> pl.DataType | None:
    """Return the type in which ids of two types are compared, or None if they never match."""
    if pl.Null in (left, right):
        return left if right == pl.Null else right
    if left == right:
        return left
    if left.is_integer() and right.is_integer():
        return _supertype(left, right)
    return pl.String() if isinstance(left, _TEXT) and isinstance(right, _TEXT) else None


def common_value_type(left: pl.DataType, right: pl.DataType) -> pl.DataType | None:
    """Return a type for the values of both types, or None; numbers do not become text."""
    common = common_type(left, right)
    numbers = all(dtype.is_numeric() or dtype == pl.Boolean for dtype in (left, right))
    if common is not None or not (numbers or (left.is_temporal() and right.is_temporal())):
        return common
    return _supertype(left, right)


def _supertype(left: pl.DataType, right: pl.DataType) -> pl.DataType | None:
    empty = [pl.DataFrame(schema={"column": dtype}) for dtype in (left, right)]
    try:
        return pl.concat(empty, how="vertical_relaxed").schema["column"]
    except pl.exceptions.PolarsError:
        return None
