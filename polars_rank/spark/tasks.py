"""Tasks of Spark's workers, which evaluate chunks of complete rankings with Polars."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import polars as pl
import pyarrow as pa

from polars_rank.errors import DataError
from polars_rank.frames.tables import evaluated
from polars_rank.spark.dataframes import to_batches

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from polars_rank.errors import Finding
    from polars_rank.frames.engines import Plan

    Chunks: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pl.DataFrame]]

#: Number of rows at which parts are merged.
_MERGE_ROWS = 10_000
#: Maximum number of rows in one cell of `PARTS`.
_CELL_ROWS = 100_000

#: Table that workers exchange: pickled findings, and slices of parts.
PARTS = pa.schema([("part", pa.binary())])


@dataclass
class Findings:
    """Problems of rows in several chunks, which are raised as one error at the end."""

    rows: int = 0
    by_problem: dict[str, Finding] = field(default_factory=dict)

    def evaluated(self, function: Plan, rows: pl.DataFrame) -> pl.DataFrame | None:
        """Return the result of a function for a chunk, or None if rows are invalid."""
        self.rows += rows.height
        try:
            return evaluated(function, rows)
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


def results(
    function: Plan, chunks: Chunks, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that a function returns for complete rankings."""
    findings = Findings()
    for rankings in chunks(batches):
        result = findings.evaluated(function, rankings)
        if result is not None and not findings.by_problem:
            yield from to_batches(result, schema)
    findings.check(" (in one of Spark's tasks; other tasks may have more)")


def parts(
    add_up: Plan, merge: Plan, chunks: Chunks, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the merged part of all rankings of a task, and the findings."""
    findings = Findings()
    parts: list[pl.DataFrame] = []
    limit = _MERGE_ROWS
    for rankings in chunks(batches):
        part = findings.evaluated(add_up, rankings)
        parts += [] if part is None else [part]
        if sum(part.height for part in parts) >= limit:
            parts = [evaluated(merge, pl.concat(parts))]
            limit = max(_MERGE_ROWS, 2 * parts[0].height)
    yield packed(evaluated(merge, pl.concat(parts)) if parts else None, findings)


def merged(
    merge: Plan, finish: Plan, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the result, merged from the parts of all tasks."""
    findings = Findings()
    parts = []
    for batch in batches:
        for cell in batch.column(0).to_pylist():
            found = pickle.loads(cell)  # noqa: S301  (from our workers)
            if isinstance(found, Findings):
                findings.rows += found.rows
                findings.add(found.by_problem.values())
            else:
                parts.append(found)
    findings.check()
    whole = evaluated(merge, pl.concat(parts))
    yield from to_batches(evaluated(finish, whole), schema)


def packed(part: pl.DataFrame | None, findings: Findings) -> pa.RecordBatch:
    """Return findings and slices of a part as rows of `PARTS`."""
    slices = [] if part is None else [*part.iter_slices(_CELL_ROWS)] or [part]
    cells = [pickle.dumps(each) for each in (findings, *slices)]
    return pa.RecordBatch.from_pydict({"part": cells}, schema=PARTS)
