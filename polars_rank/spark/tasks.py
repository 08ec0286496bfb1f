"""Tasks of Spark's workers, which evaluate chunks of complete rankings with Polars."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import polars as pl
import pyarrow as pa

from polars_rank.errors import DataError
from polars_rank.spark.dataframes import to_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polars_rank.errors import Finding
    from polars_rank.spark.query_chunks import Chunks

#: Number of rows at which parts are merged.
_MERGE_ROWS = 10_000
#: Maximum number of rows in one cell of `PARTS`.
_CELL_ROWS = 100_000

#: Table that workers exchange: parts in Polars' IPC format, number of rows read, and findings.
PARTS = pa.schema([("part", pa.binary()), ("rows", pa.int64()), ("findings", pa.binary())])


@dataclass
class Findings:
    """Problems of rows in several chunks, which are raised as one error at the end."""

    rows: int = 0
    by_problem: dict[str, Finding] = field(default_factory=dict)

    def call(
        self, function: Callable[[pl.DataFrame], pl.DataFrame], rows: pl.DataFrame
    ) -> pl.DataFrame | None:
        """Return the result of a function for a chunk, or None if rows are invalid."""
        self.rows += rows.height
        try:
            return function(rows)
        except DataError as error:
            if not error.findings:
                raise
            self.add(error.findings)
            return None

    def add(self, findings: Iterable[Finding]) -> None:
        """Add findings; counts of the same problem are summed."""
        for each in findings:
            known = self.by_problem.get(each.problem, each)
            count = each.count + (known.count if known is not each else 0)
            self.by_problem[each.problem] = replace(known, count=count)

    def check(self, where: str = "") -> None:
        """Raise one `DataError` for all findings, if there are any."""
        if self.by_problem:
            rows = [
                each if each.rows is None else replace(each, rows=self.rows)
                for each in self.by_problem.values()
            ]
            error = DataError.of(rows)
            raise DataError(str(error) + where)


@dataclass(frozen=True)
class RankingsTask:
    """A function of complete rankings that returns rows for each of them."""

    function: Callable[[pl.DataFrame], pl.DataFrame]
    chunks: Chunks
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the result."""
        findings = Findings()
        for rankings in self.chunks(batches):
            result = findings.call(self.function, rankings)
            if result is not None and not findings.by_problem:
                yield from to_batches(result, self.schema)
        findings.check(" (in one of Spark's tasks; other tasks may have more)")


@dataclass(frozen=True)
class CheckTask:
    """A check of a small table, which raises an error or returns no rows."""

    check: Callable[[pl.DataFrame], None]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Check the rows of all batches."""
        tables = [pl.DataFrame(batch) for batch in batches]
        if tables:
            self.check(pl.concat(tables))
        yield from ()


@dataclass(frozen=True)
class PartsTask:
    """A function of rankings that returns a part of the result, to be merged with other parts."""

    function: Callable[[pl.DataFrame], pl.DataFrame]
    merged: Callable[[pl.DataFrame], pl.DataFrame]
    chunks: Chunks

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the merged part of all rankings, and the findings."""
        findings = Findings()
        parts: list[pl.DataFrame] = []
        limit = _MERGE_ROWS
        for rankings in self.chunks(batches):
            part = findings.call(self.function, rankings)
            parts += [] if part is None else [part]
            if sum(part.height for part in parts) >= limit:
                parts = [self.merged(pl.concat(parts))]
                limit = max(_MERGE_ROWS, 2 * parts[0].height)
        yield packed(self.merged(pl.concat(parts)) if parts else None, findings)


@dataclass(frozen=True)
class MergeTask:
    """A function that merges the parts of all workers into the result."""

    merged: Callable[[pl.DataFrame], pl.DataFrame]
    finished: Callable[[pl.DataFrame], pl.DataFrame] | None
    schema: pa.Schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the result."""
        findings = Findings()
        parts = []
        for batch in batches:
            for row in batch.to_pylist():
                findings.rows += row["rows"]
                findings.add(pickle.loads(row["findings"]))  # noqa: S301  (from our workers)
                parts += [] if row["part"] is None else [pl.read_ipc(row["part"])]
        findings.check()
        whole = self.merged(pl.concat(parts))
        yield from to_batches(self.finished(whole) if self.finished else whole, self.schema)


def packed(part: pl.DataFrame | None, findings: Findings | None = None) -> pa.RecordBatch:
    """Return a part as rows of `PARTS`; the first row has the findings."""
    rows = []
    for start in range(0, 1 if part is None else max(part.height, 1), _CELL_ROWS):
        of_row = Findings() if start or findings is None else findings
        pickled = pickle.dumps([*of_row.by_problem.values()])
        cell = None
        if part is not None:
            cell = part.slice(start, _CELL_ROWS).write_ipc(None).getvalue()
        rows.append({"part": cell, "rows": of_row.rows, "findings": pickled})
    return pa.RecordBatch.from_pylist(rows, schema=PARTS)
