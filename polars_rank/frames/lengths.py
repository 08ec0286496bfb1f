"""Lengths of the rankings of a table that are known before the table is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from polars_rank._polars import FewRows, source_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Minimum number of rows for plans that depend on the lengths of rankings to save time.
MANY_ROWS = 50_000


class Lengths(NamedTuple):
    """Numbers of rows, of rankings, and of the rows of the longest ranking."""

    keys: list[str]
    rows: int
    rankings: int
    longest: int


def source_name(kind: str, lengths: Lengths | None, source: object) -> str:
    """Return the name of a source in a plan; `lengths_of` reads the lengths from it."""
    if lengths is None:
        return f"{kind} {source}"
    return f"{kind} {json.dumps(lengths._asdict())} {source}"


def lengths_of(log: pl.LazyFrame, keys: Sequence[str]) -> Lengths | None:
    """Return upper bounds of the lengths of rankings, or None if they are unknown.

    Lengths are known for most results of `scan_log`, with or without filters, and for tables in
    memory, if the table has many rows.
    """
    if isinstance(log, FewRows):
        return None
    source = source_of_rows(log, keys)
    if source is None:
        return None
    if source.startswith("DF ["):
        return counted(log, keys)
    start = source.find("{")
    if not source.startswith("PYTHON[LOG") or start < 0:
        return None
    lengths = Lengths(**json.JSONDecoder().raw_decode(source[start:])[0])
    known = {*lengths.keys} <= {*keys} and lengths.rows >= MANY_ROWS
    return lengths if known else None


def counted(log: pl.LazyFrame, keys: Sequence[str]) -> Lengths | None:
    """Return the lengths of rankings, which reads the keys once; None for few rows."""
    rows = log.select(pl.len()).collect(engine="in-memory").item()
    if rows < MANY_ROWS:
        return None
    number = pl.len().alias("number")
    counts = log.select(keys).group_by(keys).agg(number).select("number")
    counted = counts.select(rankings=pl.len(), longest=pl.col("number").max())
    return Lengths([*keys], rows, *counted.collect(engine="streaming").row(0))
