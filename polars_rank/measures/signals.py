"""Columns of what users did, as numbers: clicks and other conditions or counts, and times."""

from __future__ import annotations

import polars as pl

from polars_rank.errors import ArgumentError


def numbers(parameter: str, column: str) -> pl.Expr:
    """Return a column as numbers; what other tools write as NaN is null.

    Polars refuses to add to what is no number, as a Duration, which it would cast to its ticks.
    """
    if not isinstance(column, str):
        message = f"`{parameter}` must be the name of a column; found {column!r}"
        raise ArgumentError(message)
    return (pl.col(column) + 0.0).cast(pl.Float64).fill_nan(None)
