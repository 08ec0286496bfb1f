"""Result tables: lists of columns, from which the table, its documentation and rules follow."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl

from polars_rank._params import F
from polars_rank.errors import in_this_context
from polars_rank.stats._arrays import np

#: Number of groups and runs that a message names.
_EXAMPLES = 5

#: The kinds of numbers that decide rules: a count or a bound decides by itself, an estimate by its
#: interval; other columns cannot be in rules.
COUNT, BOUND, ESTIMATE, OTHER = "count", "bound", "estimate", "other"


class ResultColumn(NamedTuple):
    """A column of a result: its name, what it says, and how it follows from the estimates."""

    name: str
    text: str
    #: The values of the estimates; None if the rows of the result have them by name.
    value: Callable[[Any], Any] | None = None
    dtype: pl.DataType = pl.Float64()
    #: How rules use the column.
    kind: str = OTHER
    #: The columns of the confidence interval of an estimate.
    bounds: tuple[str, str] | None = None
    #: The format of its numbers for readers.
    format: Literal["number", "signed", "percent", "p_value"] = "number"
    #: Whether only `details=True` shows the column.
    is_detail: bool = False
    #: Whether tables in a terminal leave the column out.
    is_minor: bool = False
    #: The feature of a call with which the column exists; None for always.
    only: str | None = None


def schema_of_result(columns: Iterable[ResultColumn]) -> dict[str, pl.DataType]:
    """Return the types of result columns."""
    return {each.name: each.dtype for each in columns}


def series_of(column: ResultColumn, result: Any) -> pl.Series:
    """Return a column of a result, with null for NaN."""
    name, dtype = column.name, column.dtype
    values = [row[name] for row in result] if column.value is None else column.value(result)
    if not dtype.is_numeric():
        return pl.Series(name, values, dtype)
    return pl.Series(name, np.asarray(values, dtype=float), nan_to_null=True).cast(dtype)


def returns(columns: Iterable[ResultColumn]) -> list[str]:
    """Return the list of columns for the section Returns of a docstring."""
    plain = [f"- `{each.name}`: {each.text};" for each in columns if not each.is_detail]
    more = [f"- `{each.name}`: {each.text};" for each in columns if each.is_detail]
    if more:
        plain[-1] = plain[-1][:-1] + "."
        plain += ["", "With ``details=True``, also", "", *more]
    plain[-1] = plain[-1][:-1] + "."
    return plain


_PLACE = re.compile(r"^( *)\{columns\}$", re.MULTILINE)


def returning(columns: Sequence[ResultColumn]) -> Callable[[F], F]:
    """Return a decorator that writes the list of columns where a docstring has {columns}."""

    def decorate(function: F) -> F:
        if function.__doc__:  # python -OO removes docstrings

            def lines(place: re.Match[str]) -> str:
                return "\n".join(place[1] + line if line else "" for line in returns(columns))

            function.__doc__ = _PLACE.sub(lines, function.__doc__)
        return function

    return decorate


def labels(names: Sequence[str], keys: Iterable[Sequence[Any]]) -> list[str]:
    """Return the values of some columns as text, for messages."""
    return [
        ", ".join(f"{name} = {value!r}" for name, value in zip(names, key, strict=True))
        for key in keys
    ]


def deferred(function: Callable[[], pl.DataFrame], schema: Mapping[str, Any]) -> pl.LazyFrame:
    """Return a table that a function computes when it is collected; NumPy's NaN is unknown."""

    def result() -> pl.DataFrame:
        with np.errstate(all="ignore"):
            return function()

    return pl.defer(in_this_context(result), schema=pl.Schema(schema))


def first_few(labels: Iterable[str]) -> str:
    """Return the first few different labels as text, with the number of others."""
    different = list(dict.fromkeys(labels))
    more = len(different) - _EXAMPLES
    return "; ".join(different[:_EXAMPLES]) + (f"; and {more:,} more" if more > 0 else "")
