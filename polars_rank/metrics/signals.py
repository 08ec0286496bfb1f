"""Columns of what users did, as numbers: clicks and other conditions or counts, and times."""

from __future__ import annotations

import math
from functools import partial

import polars as pl

from polars_rank._params import check_name, check_number
from polars_rank.errors import ArgumentError, DataError, number_of


def numbers(parameter: str, column: str) -> pl.Expr:
    """Return a column as numbers; what other tools write as NaN is null.

    Polars refuses to add to what is no number, as a Duration, which it would cast to its ticks.
    """
    _check_name(parameter, column)
    return (pl.col(column) + 0.0).cast(pl.Float64).fill_nan(None)


def negative(parameter: str, column: str) -> dict[str, pl.Expr]:
    """Return what is wrong with a number below 0 → whether it is one."""
    problem = f"below 0 in the column {column!r} ({parameter}); use null for 'unknown'"
    return {problem: pl.col(column).cast(pl.Float64) < 0}


def checked_numbers(parameter: str, column: str) -> pl.Expr:
    """Return the same where nobody can look at the log before: evaluated, it raises.

    `SchemaError` for what is no number, `DataError` for one below 0.
    """
    _check_name(parameter, column)
    checked = partial(_checked, parameter, column)
    return pl.col(column).map_batches(checked, return_dtype=pl.Float64, is_elementwise=True)


def _checked(parameter: str, column: str, values: pl.Series) -> pl.Series:
    check_number(parameter, column, values.dtype)
    known = values.cast(pl.Float64)
    below = (known < 0).sum()
    if below:
        (problem,), rows = negative(parameter, column), number_of(known.len(), "row")
        message = f"{problem} ({below:,} of {rows} looked at; e.g. {known.min()!r})"
        raise DataError(message)
    nan = known > math.inf  # nothing else is, in the order of Polars
    return known.set(nan, None) if nan.any() else known


def _check_name(parameter: str, column: str) -> None:
    if not isinstance(column, str):
        message = f"`{parameter}` must be the name of a column; found {column!r}"
        raise ArgumentError(message, parameter)
    check_name(column)
