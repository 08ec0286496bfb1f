"""Generated logs of any size in flat memory, equal for all layouts and id types."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

SHARES = [0.60, 0.20, 0.12, 0.05, 0.03]  # of the labels 0 to 4
BARREN = 0.02  # share of rankings without a relevant document
ROW_GROUP = 2**18
# Eight digits, so that document ids sort alike as integers and as strings. The stride shares no
# factor with the number of ids, so the ids of a list differ; they come in no order.
FIRST_DOC, DOCS, STRIDE = 10_000_000, 90_000_000, 55_623_059


class Log(NamedTuple):
    """What a generated log looks like, where it is kept, and the memory given to read it."""

    folder: str = str(Path(tempfile.gettempdir(), "polars_rank_benchmarks"))
    rows: int = 10_000_000
    list_length: int = 100
    layout: str = "sorted"
    ids: str = "int"
    ties: float = 0.1  # share of scores rounded to one decimal
    memory: str | None = None

    @property
    def title(self) -> str:
        """The length of rankings, and what differs from the default."""
        parts = [f"{self.list_length:,} documents"]
        parts += [f"{count(self.rows)} rows"] * (self.rows != Log().rows)
        parts += [self.layout] * (self.layout != Log().layout)
        parts += [f"{self.ids} ids"] * (self.ids != Log().ids)
        return ", ".join(parts)

    @property
    def path(self) -> Path:
        size = f"{self.rows}-by-{self.list_length}"
        return Path(self.folder) / f"{size}-{self.layout}-{self.ids}-{self.ties:g}.parquet"


def count(rows: int) -> str:
    return f"{rows / 1e6:g} million" if rows >= 1e6 else f"{rows:,}"


def write(log: Log) -> None:
    """Write the log, unless it is there; a half-written one never carries its name."""
    import pyarrow.parquet as pq

    if log.path.exists():
        return
    log.path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = log.path.with_suffix(".unfinished")
    tables = row_groups(log)
    first = next(tables)
    with pq.ParquetWriter(unfinished, first.schema, compression="zstd") as writer:
        writer.write_table(first)
        for table in tables:
            writer.write_table(table)
    unfinished.replace(log.path)


def row_groups(log: Log) -> Iterator[Any]:
    """Arrow tables. A row is a function of its number, so a layout is an order of numbers."""
    import numpy as np
    import polars as pl

    random = np.random.default_rng(0)
    # What grows with the log: an id for each query, and for a shuffled log four bytes per row.
    queries = np.arange(log.rows // log.list_length)
    order = None
    if log.layout == "adjacent":
        random.shuffle(queries)
    if log.layout == "shuffled":
        order = np.arange(log.rows, dtype=np.uint32)
        random.shuffle(order)
    for start in range(0, log.rows, ROW_GROUP):
        row = np.arange(start, min(start + ROW_GROUP, log.rows), dtype=np.uint64)
        row = row if order is None else order[row].astype(np.uint64)
        query, position = np.divmod(row, np.uint64(log.list_length))
        label = np.searchsorted(np.cumsum(SHARES[:-1]), uniform(row, 1), side="right")
        label[uniform(query, 2) < BARREN] = 0
        noise = uniform(row, 3)
        odds = noise / (1 - noise) * np.exp(label / 2)
        score = odds / (1 + odds)
        tied = uniform(row, 4) < log.ties
        score[tied] = np.ceil(score[tied] * 10) / 10
        doc = (uniform(query, 5) * DOCS).astype(np.uint64) + position * np.uint64(STRIDE)
        frame = pl.DataFrame(
            {
                "query": queries[query],
                "doc": (FIRST_DOC + doc % np.uint64(DOCS)).astype(np.int32),
                "score": score.astype(np.float32),
                "label": label.astype(np.int8),
            }
        )
        if log.ids == "string":
            digits = {name: frame[name].cast(pl.String).str.zfill(8) for name in ("query", "doc")}
            frame = frame.with_columns(**{name: "id" + ids for name, ids in digits.items()})
        yield frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def uniform(number: Any, stream: int) -> Any:
    """A random number in [0, 1) for each whole number: the mixing steps of SplitMix64."""
    import numpy as np

    mixed = (number * np.uint64(8) + np.uint64(stream)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


if __name__ == "__main__":
    write(Log(**json.loads(sys.argv[1])))
