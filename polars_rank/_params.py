"""Checks of parameters, and the errors that they raise."""

from __future__ import annotations

import math
from operator import index
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank.errors import ArgumentError, SchemaError, hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


#: The maximum number of documents of a ranking, which Polars counts by 32 bits.
_LARGEST = 2**32 - 1


def one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise `ArgumentError` unless `value` is one of the allowed values."""
    if not any(value is choice or (type(value) is str and value == choice) for choice in allowed):
        choices = ", ".join(map(repr, allowed))
        close = hint(str(value), [str(choice) for choice in allowed])
        message = f"`{name}` must be one of {choices}; found {value!r}.{close}"
        raise ArgumentError(message, name)


def is_number(value: object) -> bool:
    """Return whether a value is a finite number that Float64 can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer above all floats
        return False


def number(name: str, value: Any, what: str = "") -> float:
    """Return a finite number; raise `ArgumentError` for anything else."""
    if not is_number(value):
        message = f"`{name}` must be a number{what and f', {what}'}; found {value!r}"
        raise ArgumentError(message, name)
    return float(value)


def share(name: str, value: float, low: float = 0, high: float = 1, *, ends: bool = False) -> None:
    """Raise `ArgumentError` unless `value` is a number between `low` and `high`.

    `ends` is whether `low` and `high` themselves are allowed.
    """
    if not is_number(value) or not low <= value <= high or (not ends and value in (low, high)):
        range_ = f"from {low} to {high}" if ends else f"between {low} and {high}"
        message = f"`{name}` must be a number {range_}; found {value!r}"
        raise ArgumentError(message, name)


def positive(name: str, value: float) -> None:
    """Raise `ArgumentError` unless `value` is a finite number above 0."""
    if not is_number(value) or not value > 0:
        message = f"`{name}` must be a number above 0; found {value!r}"
        raise ArgumentError(message, name)


def threshold(name: str, value: float) -> float:
    """Return the lowest relevant label; raise `ArgumentError` unless it is a finite number."""
    number(name, value, "the lowest relevant label")
    return value


def whole_number(name: str, value: Any) -> int:
    """Return a cutoff; raise `ArgumentError` unless it is a positive integer."""
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if not whole or not 1 <= index(value) <= _LARGEST:
        message = f"`{name}` must be an integer from 1 to {_LARGEST}; found {value!r}"
        if not whole or index(value) < 1:
            message = f"`{name}` must be a positive integer; found {value!r}"
        raise ArgumentError(message, name)
    return index(value)


Names: TypeAlias = "str | Sequence[str]"

#: Kinds of columns: numbers, one id per row, and any values that Polars can compare.
Kind: TypeAlias = Literal["number", "id", "value"]

#: The remedy for a table with one row per query.
_FROM_LISTS = "use from_lists to turn one row per query into one row per document"


#: The prefix of internal columns, which users' columns must not have.
OWN = "polars_rank:"


def names(parameter: str, value: Names | None) -> tuple[str, ...]:
    """Return one name, several or none as a tuple; raise `ArgumentError` for anything else."""
    if value is None:
        return ()
    given = (value,) if isinstance(value, str) else tuple(value)
    for name in given:
        if not isinstance(name, str):
            message = f"`{parameter}` must be the name of a column; found {name!r}"
            raise ArgumentError(message, parameter)
        if given.count(name) > 1:
            message = f"`{parameter}` has the column {name!r} twice"
            raise ArgumentError(message, parameter)
    return given


def free(columns: Sequence[str], added: Iterable[str], parameter: str = "by") -> None:
    """Raise `ArgumentError` if a parameter names a column that the result adds."""
    for name in added:
        if name in columns:
            message = f"column {name!r} (`{parameter}`) has the name of a result column; rename it"
            raise ArgumentError(message, parameter)


def check_apart(parameter: str, keys: Sequence[str], groups: Sequence[str]) -> None:
    """Raise `ArgumentError` unless a parameter names columns that are not in `by`."""
    if not keys or set(keys) & set(groups):
        message = f"`{parameter}` must name columns that are not in `by`; found {keys}"
        raise ArgumentError(message, parameter, "by")


def find_columns(
    schema: pl.Schema,
    parameters: Mapping[str, Names],
    *,
    numbers: Sequence[str] = (),
    ids: Sequence[str] = (),
    table: str = "",
) -> dict[str, tuple[str, ...]]:
    """Return the columns of each parameter; raise `SchemaError` if one is missing.

    An optional parameter without a column is (), not None. The columns of the parameters in
    `numbers` must be numeric, those in `ids` must be ids.
    """
    found = {
        parameter: names(parameter, (value,) if value is None else value)
        for parameter, value in parameters.items()
    }
    kinds: dict[str, Kind] = {**dict.fromkeys(numbers, "number"), **dict.fromkeys(ids, "id")}
    for parameter, columns in found.items():
        for column in columns:
            check_column(parameter, column, schema, kinds.get(parameter), table)
    return found


def check_column(
    parameter: str, column: str, schema: pl.Schema, kind: Kind | None = None, table: str = ""
) -> None:
    """Raise `SchemaError` unless the column of a parameter exists and is of a kind."""
    if not isinstance(column, str):
        message = f"`{parameter}` must be the name of a column; found {column!r}"
        raise ArgumentError(message, parameter)
    if column not in schema:
        columns = ", ".join(repr(name) for name in schema if not name.startswith(OWN))
        message = (
            f"column {column!r} (`{parameter}`) not found; available{table and f' in {table}'}: "
            f"{columns or 'no columns'}.{hint(column, schema)}"
        )
        raise SchemaError(message, parameter)
    check_name(column)
    if kind is not None:
        check_type(parameter, column, schema[column], kind)


def check_name(column: str) -> None:
    """Raise `SchemaError` for a column name that Polars reads as a pattern."""
    if column == "*" or (column[:1], column[-1:]) == ("^", "$"):
        message = f"column {column!r} has a name that Polars reads as a pattern; rename it"
        raise SchemaError(message)


def check_type(parameter: str, column: str, dtype: pl.DataType, kind: Kind) -> None:
    """Raise `SchemaError` unless a column is of a kind."""
    if kind == "number":
        if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
            return
        problem, remedy = f"must be numeric; found {dtype}", "cast it to Float64"
        if dtype == pl.Duration:
            remedy = "convert it to seconds"
        elif dtype.is_temporal():
            remedy += ", or replace it with a test such as .is_not_null()"
    elif dtype == pl.Object:
        problem = "has the type Object, which Polars cannot compare"
        remedy = "convert it to text"
    elif kind == "id" and dtype.is_nested() and not isinstance(dtype, pl.Struct):
        problem, remedy = f"must have one id per row; found {dtype}", "use a column of ids"
    else:
        return
    if isinstance(dtype, (pl.List, pl.Array)):
        remedy = _FROM_LISTS
    message = f"column {column!r} (`{parameter}`) {problem}; {remedy}"
    raise SchemaError(message, parameter)
