"""How the rows of whole queries come to a worker: in chunks of half a million rows or so.

No query is in two chunks, so memory is that of a chunk, or of the longest query or bucket; nothing
is done row by row in Python. Rows come sorted by query, or packed: Spark moves and sorts a cell of
a thousand rows at the cost of one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import polars as pl
import pyarrow as pa

from polars_rank._params import OWN
from polars_rank.spark.tables import arrived

#: What makes chunks of the batches that Spark hands over.
Chunks: TypeAlias = Callable[[Iterable[pa.RecordBatch]], Iterator[pl.DataFrame]]

#: Rows of a chunk, about.
CHUNK_ROWS = 500_000

#: Rows on their way to the worker of their bucket: cells of Arrow's own format.
CELLS = pa.schema([("bucket", pa.int32()), ("rows", pa.binary())])


@dataclass(frozen=True)
class Sorted:
    """Chunks of rows that come sorted by query: none ends within one, if there are queries.

    The first columns of the batches are the ones named; others were for the order of rows.
    """

    columns: Sequence[str]
    query: Sequence[str]
    chunk_rows: int = CHUNK_ROWS

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pl.DataFrame]:
        """Yield the chunks."""
        waiting: list[pl.DataFrame] = []
        enough = self.chunk_rows
        for batch in batches:
            arrays = batch.columns[: len(self.columns)]
            waiting.append(arrived(pa.Table.from_arrays(arrays, names=list(self.columns))))
            if sum(rows.height for rows in waiting) >= enough:
                rows = pl.concat(waiting)
                held = _of_last(rows, self.query)
                if held < rows.height:
                    yield rows.head(rows.height - held)
                waiting = [rows.tail(held)]
                enough = max(self.chunk_rows, 2 * held)  # not to look at a long query too often
        if waiting:
            yield pl.concat(waiting)


@dataclass(frozen=True)
class Packed:
    """Rows as cells, so that Spark moves and sorts some thousand cells and not each row.

    The first column of the batches is the bucket, the others are those of the schema.
    """

    schema: pl.Schema
    #: Bytes of rows that are sorted into buckets at once, and of one cell of a bucket, about.
    packed_bytes: int = 16 << 20
    cell_bytes: int = 32 << 10

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield cells of the rows, bucket by bucket of some megabytes at once."""
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
        given = pa.Table.from_batches(batches).rename_columns([bucket, *self.schema])
        rows = arrived(given).cast(self.schema).sort(bucket)
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
    """Chunks of the rows in cells that come sorted by bucket; all of a bucket are in one of them.

    The last column only says in which order rows were, if they are `placed`.
    """

    schema: pl.Schema
    placed: bool
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
        rows = arrived(pa.Table.from_batches(cells))
        if not self.placed:
            return rows
        *columns, place = rows.columns
        return rows.sort(place).select(columns)


def _of_last(rows: pl.DataFrame, query: Sequence[str]) -> int:
    """Return how many rows at the end are of one query, of which there may be more to come."""
    if not query:
        return 0
    runs = rows.select(pl.struct(query).rle_id()).to_series()
    return int((runs == runs[-1]).sum())
