"""Lengths of the rankings of a table that are known before the table is evaluated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from polars_rank._polars import FewRows, ManyRows, source_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence


class Lengths(NamedTuple):
    """Numbers of rows, of rankings, and of the rows of the longest ranking."""

    keys: list[str]
    rows: int
    rankings: int
    longest: int


def lengths_of(log: pl.LazyFrame, keys: Sequence[str]) -> Lengths | None:
    """Return upper bounds of the lengths of rankings, or None if they are unknown.

    Lengths are known for most results of `scan_log`, with or without filters. Rankings of a large
    DataFrame are counted. A LazyFrame is never collected.
    """
    if isinstance(log, FewRows):
        return None
    source = source_of_rows(log, keys)
    if isinstance(log, ManyRows):
        return None if source is None else counted(log, keys)
    lengths: Lengths | None = getattr(source, "lengths", None)
    return None if lengths is None or not {*lengths.keys} <= {*keys} else lengths


def counted(log: pl.LazyFrame, keys: Sequence[str]) -> Lengths:
    """Return the lengths of rankings, which reads the keys."""
    number = pl.len().alias("number")
    counts = log.select(keys).group_by(keys).agg(number).select("number")
    summary = counts.select(
        rows=pl.col("number").sum(), rankings=pl.len(), longest=pl.col("number").max()
    )
    rows, rankings, longest = summary.collect(engine="streaming").row(0)
    return Lengths([*keys], rows, rankings, longest or 0)
