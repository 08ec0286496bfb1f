"""How long the rankings of a table are, where that is known before it is read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._polars import source_of_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Rows of a table in memory whose rankings are worth counting.
_MANY_ROWS = 20_000


@dataclass(frozen=True)
class Lengths:
    """How many rankings there are, and how many rows they and the longest of them have."""

    keys: list[str]
    rows: int
    rankings: int
    longest: int


def source_name(kind: str, lengths: Lengths | None, source: object) -> str:
    """Return the name of a source as plans show it, from which `lengths_of` reads the lengths."""
    return (
        f"{kind} {source}" if lengths is None else f"{kind} {json.dumps(asdict(lengths))} {source}"
    )


def lengths_of(log: pl.LazyFrame, keys: Sequence[str]) -> Lengths | None:
    """Return how long the rankings of a log can be, if that is known.

    It is known of files that `scan_log` has looked at, whatever filters do to their rows, and of
    tables in memory.
    """
    source = source_of_rows(log, keys)
    if source is None:
        return None
    if source.startswith("DF ["):
        return _counted(log, keys)
    start = source.find("{")
    if not source.startswith("PYTHON[LOG") or start < 0:
        return None
    lengths = Lengths(**json.JSONDecoder().raw_decode(source[start:])[0])
    return lengths if {*lengths.keys} <= {*keys} else None


def _counted(log: pl.LazyFrame, keys: Sequence[str]) -> Lengths | None:
    rows = log.select(pl.len()).collect(engine="in-memory").item()
    if rows < _MANY_ROWS:
        return None
    number = pl.len().alias("number")
    counts = log.select(keys).group_by(keys).agg(number).select("number")
    counted = counts.select(rankings=pl.len(), longest=pl.col("number").max())
    return Lengths([*keys], rows, *counted.collect(engine="streaming").row(0))
