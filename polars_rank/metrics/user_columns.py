"""Columns of the log beyond labels and scores: numbers, lists, attributes of documents."""

from __future__ import annotations

import polars as pl

from polars_rank.metrics.nodes import Column


def invalid_values(column: Column) -> dict[str, pl.Expr]:
    """Return the checks for values that a metric cannot read: messages and conditions."""
    if column.kind == "as is":
        return {}
    check = no_count if column.kind == "count" else negative
    problems = check(column.parameter, column.name)
    if column.high is not None:
        problem = f"values above {column.high:g}; use shares from 0 to 1"
        number = pl.col(column.name).cast(pl.Float64)
        is_high = (number > column.high) & number.is_not_nan()
        problems[f"column {column.name!r} (`{column.parameter}`) has {problem}"] = is_high
    return problems


def negative(parameter: str, column: str) -> dict[str, pl.Expr]:
    """Return the check for numbers below 0: its message and its condition."""
    problem = f"column {column!r} (`{parameter}`) has negative values; use null for unknown"
    return {problem: pl.col(column).cast(pl.Float64) < 0}


def no_count(parameter: str, column: str) -> dict[str, pl.Expr]:
    """Return the checks for numbers that are not counts: their messages and conditions."""
    problem = f"column {column!r} (`{parameter}`) must be Boolean or a count; found other numbers"
    number = pl.col(column).cast(pl.Float64)
    is_fractional = (number != number.floor()) | number.is_infinite()  # false for NaN
    return {**negative(parameter, column), problem: is_fractional}
