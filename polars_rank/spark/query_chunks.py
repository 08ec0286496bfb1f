"""Chunks of complete queries for workers, with about half a million rows.

No query is in two chunks, so a worker needs memory for one chunk, or for the longest bucket of
queries. Rows arrive packed into cells of about a thousand rows: Spark moves and sorts a cell as
fast as a row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl
import pyarrow as pa

from polars_rank._params import OWN

#: Column of the original order of rows.
PLACE = OWN + "place"

#: Rows packed into cells in Arrow's format, with the bucket of their queries.
CELLS = pa.schema([("bucket", pa.int32()), ("rows", pa.binary())])


def packed_cells(
    schema: pl.Schema,
    batches: Iterable[pa.RecordBatch],
    *,
    packed_bytes: int = 16 << 20,
    cell_bytes: int = 32 << 10,
) -> Iterator[pa.RecordBatch]:
    """Yield rows packed into cells, so that Spark moves and sorts cells instead of rows.

    The first column of the batches is the bucket; the others have the schema `schema`. About
    `packed_bytes` are packed at a time, into cells of about `cell_bytes`, sorted by bucket.
    """
    waiting: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        waiting += [batch] if batch.num_rows else []
        size += batch.nbytes
        if size >= packed_bytes and waiting:
            yield _cells(schema, waiting, cell_bytes)
            waiting, size = [], 0
    if waiting:
        yield _cells(schema, waiting, cell_bytes)


def _cells(schema: pl.Schema, batches: list[pa.RecordBatch], cell_bytes: int) -> pa.RecordBatch:
    bucket = OWN + "bucket"
    received = pa.Table.from_batches(batches).rename_columns([bucket, *schema])
    rows = pl.DataFrame(received).cast(schema).sort(bucket)
    runs = rows.get_column(bucket).rle().struct.unnest()
    table = rows.drop(bucket).rechunk().to_arrow(compat_level=pl.CompatLevel.oldest())
    (whole,) = table.to_batches()
    most = max(1, cell_bytes * whole.num_rows // max(whole.nbytes, 1))
    buckets, cells, start = [], [], 0
    for length, value in runs.iter_rows():
        for begin in range(start, start + length, most):
            some = min(most, start + length - begin)
            buckets.append(value)
            cells.append(whole.slice(begin, some).serialize().to_pybytes())
        start += length
    return pa.RecordBatch.from_arrays([buckets, cells], schema=CELLS)


def chunks_of(
    schema: pl.Schema, batches: Iterable[pa.RecordBatch], *, chunk_rows: int = 500_000
) -> Iterator[pl.DataFrame]:
    """Yield chunks of complete buckets, from cells that are sorted by bucket, or of any rows.

    The rows are packed into cells if the schema has the column `PLACE`. A chunk has about
    `chunk_rows`.
    """
    waiting: list[pa.RecordBatch] = []
    rows = last = 0
    parts = _unpacked(schema, batches) if PLACE in schema else enumerate(batches)
    for bucket, part in parts:
        if rows >= chunk_rows and bucket != last:
            yield _chunk(schema, waiting)
            waiting, rows = [], 0
        waiting.append(part)
        rows, last = rows + part.num_rows, bucket
    if waiting:
        yield _chunk(schema, waiting)


def _unpacked(
    schema: pl.Schema, batches: Iterable[pa.RecordBatch]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the bucket and the rows of each cell."""
    of_cell = schema.to_frame().to_arrow(compat_level=pl.CompatLevel.oldest()).schema
    for batch in batches:
        for bucket, cell in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            yield bucket, pa.ipc.read_record_batch(cell.as_buffer(), of_cell)


def _chunk(schema: pl.Schema, parts: list[pa.RecordBatch]) -> pl.DataFrame:
    rows = pl.DataFrame(pa.Table.from_batches(parts).rename_columns([*schema]))
    return rows.sort(PLACE).drop(PLACE) if PLACE in schema else rows
