"""Chunks of complete queries for workers, with about half a million rows.

No query is in two chunks, so a worker needs memory for one chunk, or for the longest bucket of
queries. Rows arrive packed into cells of about a thousand rows: Spark moves and sorts a cell as
fast as a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import polars as pl
import pyarrow as pa

from polars_rank._params import OWN

#: Column of the original order of rows.
PLACE = OWN + "place"

#: Rows packed into cells in Arrow's format, with the bucket of their queries.
CELLS = pa.schema([("bucket", pa.int32()), ("rows", pa.binary())])


@dataclass(frozen=True)
class Packed:
    """Rows packed into cells, so that Spark moves and sorts cells instead of rows.

    The first column of the batches is the bucket; the others have the schema `schema`.
    """

    schema: pl.Schema
    #: Approximate bytes of rows that are packed at a time, and of one cell.
    packed_bytes: int = 16 << 20
    cell_bytes: int = 32 << 10

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the cells, sorted by bucket among the rows that are packed at a time."""
        waiting: list[pa.RecordBatch] = []
        size = 0
        for batch in batches:
            waiting += [batch] if batch.num_rows else []
            size += batch.nbytes
            if size >= self.packed_bytes and waiting:
                yield self._cells(waiting)
                waiting, size = [], 0
        if waiting:
            yield self._cells(waiting)

    def _cells(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        bucket = OWN + "bucket"
        received = pa.Table.from_batches(batches).rename_columns([bucket, *self.schema])
        rows = pl.DataFrame(received).cast(self.schema).sort(bucket)
        runs = rows.get_column(bucket).rle().struct.unnest()
        table = rows.drop(bucket).rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
        (whole,) = table.to_batches()
        most = max(1, self.cell_bytes * whole.num_rows // max(whole.nbytes, 1))
        buckets, cells, start = [], [], 0
        for length, value in runs.iter_rows():
            for begin in range(start, start + length, most):
                some = min(most, start + length - begin)
                buckets.append(value)
                cells.append(whole.slice(begin, some).serialize().to_pybytes())
            start += length
        return pa.RecordBatch.from_arrays([buckets, cells], schema=CELLS)


@dataclass(frozen=True)
class Chunks:
    """Chunks of complete buckets, from cells that are sorted by bucket, or of any rows.

    The rows are packed into cells if the schema has the column `PLACE`.
    """

    schema: pl.Schema
    #: Approximate number of rows of a chunk.
    chunk_rows: int = 500_000

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """Yield the chunks."""
        waiting: list[pa.RecordBatch] = []
        rows = last = 0
        for bucket, part in self._parts(batches):
            if rows >= self.chunk_rows and bucket != last:
                yield self._chunk(waiting)
                waiting, rows = [], 0
            waiting.append(part)
            rows, last = rows + part.num_rows, bucket
        if waiting:
            yield self._chunk(waiting)

    def _parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        if PLACE not in self.schema:
            yield from enumerate(batches)
            return
        schema = self.schema.to_frame().to_arrow(compat_level=pl.CompatLevel.oldest()).schema
        for batch in batches:
            for bucket, cell in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                yield bucket, pa.ipc.read_record_batch(cell.as_buffer(), schema)

    def _chunk(self, parts: list[pa.RecordBatch]) -> pl.DataFrame:
        rows = pl.DataFrame(pa.Table.from_batches(parts).rename_columns([*self.schema]))
        return rows.sort(PLACE).drop(PLACE) if PLACE in self.schema else rows
