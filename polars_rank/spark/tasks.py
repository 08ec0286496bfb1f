"""What a worker does: batches of Arrow in, chunks of whole lists to Polars, batches out."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from io import BytesIO
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from polars_rank.errors import DataError
from polars_rank.spark.tables import sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polars_rank.errors import Finding
    from polars_rank.spark.chunks import Chunks

#: Rows of parts that wait until they are merged.
_WAITING_ROWS = 10_000
#: Rows of parts in one cell of the table that travels.
_CELL_ROWS = 100_000

#: The table that travels between workers: parts in Polars' own format, rows that were read, and
#: what is wrong with them.
PARTS = pa.schema([("part", pa.binary()), ("rows", pa.int64()), ("findings", pa.binary())])


@dataclass
class Findings:
    """What is wrong with the rows of many chunks, which are all looked at before it is said."""

    rows: int = 0
    by_problem: dict[str, Finding] = field(default_factory=dict)

    def tried(
        self, function: Callable[[pl.DataFrame], pl.DataFrame], rows: pl.DataFrame
    ) -> pl.DataFrame | None:
        """Return what a function gives of a chunk; None where its rows are at fault."""
        self.rows += rows.height
        try:
            return function(rows)
        except DataError as error:
            if not error.findings:
                raise
            self.add(error.findings)
            return None

    def add(self, findings: Iterable[Finding]) -> None:
        """Count what was found in other rows."""
        for each in findings:
            known = self.by_problem.get(each.problem, each)
            count = each.count + (known.count if known is not each else 0)
            self.by_problem[each.problem] = replace(known, count=count)

    def check(self, where: str = "") -> None:
        """Raise the one error for all that was found."""
        if self.by_problem:
            rows = [
                each if each.rows is None else replace(each, rows=self.rows)
                for each in self.by_problem.values()
            ]
            raise DataError(str(DataError.of(rows)) + where)


@dataclass(frozen=True)
class OfLists:
    """A function of whole lists, which gives rows of each."""

    function: Callable[[pl.DataFrame], pl.DataFrame]
    chunks: Chunks
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the result."""
        found = Findings()
        for lists in self.chunks(batches):
            result = found.tried(self.function, lists)
            if result is not None and not found.by_problem:
                yield from sent(result, self.schema)
        found.check(" (in one of Spark's tasks; there may be more in others)")


@dataclass(frozen=True)
class OfParts:
    """A function of some lists, which gives few rows that can be merged with those of others."""

    function: Callable[[pl.DataFrame], pl.DataFrame]
    merged: Callable[[pl.DataFrame], pl.DataFrame]
    chunks: Chunks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of all lists that come, merged, and what is wrong with some of them."""
        found = Findings()
        parts: list[pl.DataFrame] = []
        enough = _WAITING_ROWS
        for lists in self.chunks(batches):
            part = found.tried(self.function, lists)
            parts += [] if part is None else [part]
            if sum(part.height for part in parts) >= enough:
                parts = [self.merged(pl.concat(parts))]
                enough = max(_WAITING_ROWS, 2 * parts[0].height)
        yield packed(self.merged(pl.concat(parts)) if parts else None, found)


@dataclass(frozen=True)
class OfAll:
    """The result from the parts of all workers."""

    merged: Callable[[pl.DataFrame], pl.DataFrame]
    finished: Callable[[pl.DataFrame], pl.DataFrame] | None
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the result."""
        found = Findings()
        parts = []
        for batch in batches:
            for row in batch.to_pylist():
                found.rows += row["rows"]
                found.add(pickle.loads(row["findings"]))  # noqa: S301  (a worker wrote it)
                parts += [] if row["part"] is None else [pl.read_ipc(row["part"])]
        found.check()
        whole = self.merged(pl.concat(parts))
        yield from sent(self.finished(whole) if self.finished else whole, self.schema)


def packed(part: pl.DataFrame | None, found: Findings | None = None) -> pa.RecordBatch:
    """Return rows of any types as cells of bytes, and what was found in the first."""
    found = found or Findings()
    rows = []
    for start in range(0, 1 if part is None else max(part.height, 1), _CELL_ROWS):
        first = Findings() if start else found
        findings = pickle.dumps([*first.by_problem.values()])
        cell = None if part is None else _bytes(part.slice(start, _CELL_ROWS))
        rows.append({"part": cell, "rows": first.rows, "findings": findings})
    return pa.RecordBatch.from_pylist(rows, schema=PARTS)


def _bytes(part: pl.DataFrame) -> bytes:
    file = BytesIO()
    part.write_ipc(file)
    return file.getvalue()
