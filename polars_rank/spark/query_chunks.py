"""Chunks of complete queries for workers, with about half a million rows.

No query is in two chunks, so a worker needs memory for one chunk, or for the longest query or
bucket. Rows arrive sorted by query, or packed into cells of about a thousand rows: Spark moves and
sorts a cell as fast as a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl
import pyarrow as pa

from polars_rank._params import OWN

#: A function from Spark's batches to chunks.
Chunks: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pl.DataFrame]]

#: Approximate number of rows of a chunk.
CHUNK_ROWS = 500_000

#: Rows packed into cells in Arrow's format, with the bucket of their queries.
CELLS = pa.schema([("bucket", pa.int32()), ("rows", pa.binary())])


@dataclass(frozen=True)
class Sorted:
    """Chunks of rows that are sorted by query; without queries, chunks of any rows.

    The first columns of the batches are `columns`; the others were used for sorting.
    """

    columns: Sequence[str]
    query: Sequence[str]
    chunk_rows: int = CHUNK_ROWS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """Yield the chunks."""
        waiting: list[pl.DataFrame] = []
        limit = self.chunk_rows
        for batch in batches:
            arrays = batch.columns[: len(self.columns)]
            waiting.append(pl.DataFrame(pa.Table.from_arrays(arrays, names=list(self.columns))))
            if sum(rows.height for rows in waiting) >= limit:
                rows = pl.concat(waiting)
                of_last = 0  # rows of the last query, which may continue in the next batch
                if self.query:
                    runs = rows.select(pl.struct(self.query).rle_id()).to_series()
                    of_last = int((runs == runs[-1]).sum())
                if of_last < rows.height:
                    yield rows.head(rows.height - of_last)
                waiting = [rows.tail(of_last)]
                limit = max(self.chunk_rows, 2 * of_last)  # do not rescan a long query too often
        if waiting:
            yield pl.concat(waiting)


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
class Unpacked:
    """Chunks of complete buckets, from cells that are sorted by bucket.

    The last column is the original order of the rows.
    """

    schema: pl.Schema
    chunk_rows: int = CHUNK_ROWS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """Yield the chunks."""
        schema = self.schema.to_frame().to_arrow(compat_level=pl.CompatLevel.oldest()).schema
        waiting: list[pa.RecordBatch] = []
        rows = last = 0
        for batch in batches:
            cells = batch.column(1)
            for index, bucket in enumerate(batch.column(0).to_pylist()):
                if rows >= self.chunk_rows and bucket != last:
                    yield self._rows(waiting)
                    waiting, rows = [], 0
                cell = pa.ipc.read_record_batch(cells[index].as_buffer(), schema)
                waiting.append(cell)
                rows, last = rows + cell.num_rows, bucket
        if waiting:
            yield self._rows(waiting)

    def _rows(self, cells: list[pa.RecordBatch]) -> pl.DataFrame:
        rows = pl.DataFrame(pa.Table.from_batches(cells))
        *columns, place = rows.columns
        return rows.sort(place).select(columns)
