"""Columns of the log beyond labels and scores: clicks, times, lists, attributes of documents."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import polars as pl

from polars_rank._params import check_name, check_type
from polars_rank.errors import ArgumentError, DataError, number_of
from polars_rank.metrics.nodes import Column


def numbers(parameter: str, column: str) -> pl.Expr:
    """Return a column as Float64, with NaN as null.

    Adding 0.0 makes Polars reject other types, such as a Duration, which it would cast to ticks.
    """
    return (named(parameter, column) + 0.0).cast(pl.Float64).fill_nan(None)


def named(parameter: str, column: str) -> pl.Expr:
    """Return the column that a parameter names."""
    _check_name(parameter, column)
    return pl.col(column)


def invalid_values(column: Column) -> dict[str, pl.Expr]:
    """Return the checks for values that a metric cannot read: messages and conditions."""
    if column.kind == "as is":
        return {}
    check = no_count if column.kind == "count" else negative
    problems = check(column.parameter, column.name)
    if column.high is not None:
        problems |= too_high(column.parameter, column.name, column.high)
    return problems


def negative(parameter: str, column: str) -> dict[str, pl.Expr]:
    """Return the check for numbers below 0: its message and its condition."""
    problem = f"column {column!r} (`{parameter}`) has negative values; use null for unknown"
    return {problem: pl.col(column).cast(pl.Float64) < 0}


def no_count(parameter: str, column: str) -> dict[str, pl.Expr]:
    """Return the checks for numbers that are not counts: their messages and conditions."""
    problem = f"column {column!r} (`{parameter}`) must be Boolean or a count; found other numbers"
    return {
        **negative(parameter, column),
        problem: _is_fractional(pl.col(column).cast(pl.Float64)),
    }


def _is_fractional(number: Any) -> Any:
    """Return whether a number has a fractional part; false for NaN."""
    return (number != number.floor()) | number.is_infinite()


def too_high(parameter: str, column: str, high: float) -> dict[str, pl.Expr]:
    """Return the check for numbers above a bound: its message and its condition."""
    problem = f"column {column!r} (`{parameter}`) has values above {high:g}; use shares from 0 to 1"
    number = pl.col(column).cast(pl.Float64)
    return {problem: (number > high) & number.is_not_nan()}


def checked_numbers(parameter: str, column: str, *, whole: bool = False) -> pl.Expr:
    """Return a column as Float64 in an expression that checks the values when it is evaluated.

    It raises `SchemaError` for a column that is not numeric, and `DataError` for a number below 0,
    or if it must be whole and is not.
    """
    checked = partial(_check_values, parameter, column, whole=whole)
    return named(parameter, column).map_batches(
        checked, return_dtype=pl.Float64, is_elementwise=True
    )


def _check_values(parameter: str, column: str, values: pl.Series, *, whole: bool) -> pl.Series:
    check_type(parameter, column, values.dtype, "number")
    known = values.cast(pl.Float64)
    problems = (no_count if whole else negative)(parameter, column)
    conditions = [known < 0, *([_is_fractional(known)] if whole else [])]
    for problem, condition in zip(problems, conditions, strict=True):
        invalid = known.filter(condition)
        if len(invalid):
            rows = number_of(known.len(), "row")
            raise DataError(
                f"{problem} ({len(invalid):,} of {rows} checked; e.g. {invalid.min()!r})"
            )
    nan = known > math.inf  # Polars orders NaN above infinity
    return known.set(nan, None) if nan.any() else known


def _check_name(parameter: str, column: str) -> None:
    if not isinstance(column, str):
        raise ArgumentError(f"`{parameter}` must be the name of a column; found {column!r}")
    check_name(column)
