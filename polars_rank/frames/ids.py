"""Common types of ids and of values in two tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import polars as pl

from polars_rank.errors import SchemaError

_TEXT = (pl.String, pl.Categorical, pl.Enum)


def is_text(dtype: pl.DataType) -> bool:
    """Return whether ids are text: strings, enums, or categoricals of any `pl.Categories`."""
    return isinstance(dtype, _TEXT)


def as_text(doc: str, dtype: pl.DataType) -> pl.Expr:
    """Return document ids as text; bytes and structs are not converted."""
    return pl.col(doc) if dtype in (pl.Binary, pl.Struct) else pl.col(doc).cast(pl.String)


def common_type(left: pl.DataType, right: pl.DataType) -> pl.DataType | None:
    """Return the type in which ids of two types are compared, or None if they never match."""
    if pl.Null in (left, right):
        return left if right == pl.Null else right
    if left == right:
        return left
    if left.is_integer() and right.is_integer():
        return _supertype(left, right)
    return pl.String() if is_text(left) and is_text(right) else None


def key_types(
    left: Mapping[str, pl.DataType],
    right: Mapping[str, pl.DataType],
    keys: Iterable[str],
    tables: tuple[str, str],
) -> dict[str, pl.DataType]:
    """Return the types in which the keys of two tables are compared.

    Raise `SchemaError` if the ids of a key never match. `tables` are the names of the tables in
    messages.
    """
    types = {}
    for key in keys:
        dtype = common_type(left[key], right[key])
        if dtype is None:
            raise SchemaError(
                f"column {key!r} is {left[key]} in {tables[0]} and {right[key]} in {tables[1]}, so "
                "no rows would match; cast one of them, such as the second with "
                f".cast({{{key!r}: pl.{left[key]}}})"
            )
        types[key] = dtype
    return types


def common_value_type(left: pl.DataType, right: pl.DataType) -> pl.DataType | None:
    """Return a type that holds the values of both types, or None. Text is not one for numbers."""
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
