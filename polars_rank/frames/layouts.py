"""How rows of rankings are ordered (sorted by keys, adjacent, or shuffled), and their numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypeVar

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank._polars import FewRows, frame_of, is_sorted_by, rows_of_scan, source_of_rows
from polars_rank.frames.batches import BATCH_ROWS, all_batches, requested
from polars_rank.frames.tables import FEW_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Layout: TypeAlias = Literal["sorted", "adjacent", "shuffled"]

K = TypeVar("K", pl.Expr, pl.Series)

#: Number of first rows that are read to recognize a shuffled log.
GLIMPSE_ROWS = 100_000

#: Logs with fewer rows are sorted in memory without a check.
_MANY_ROWS = 1_000_000


class Lengths(NamedTuple):
    """Numbers of rows, of rankings, and of the rows of the longest ranking."""

    keys: list[str]
    rows: int
    rankings: int
    longest: int


def lengths_of(log: pl.LazyFrame, keys: Sequence[str]) -> Lengths | None:
    """Return upper bounds of the lengths of rankings, or None if they are unknown.

    They are known for results of `scan_log` that are in order, with or without filters.
    """
    if isinstance(log, FewRows):
        return None
    lengths: Lengths | None = getattr(source_of_rows(log, keys), "lengths", None)
    return None if lengths is None or not {*lengths.keys} <= {*keys} else lengths


def is_read_before(log: pl.LazyFrame, keys: Sequence[str]) -> bool:
    """Return whether the rows of a log may be read before its evaluation, to choose a plan.

    They may be if there are many rows of Parquet files or of a DataFrame.
    """
    if isinstance(log, FewRows):
        return False
    frame = frame_of(log, keys)
    if frame is not None:
        return frame.height > FEW_ROWS
    return _is_sorted_in_memory(log, keys) or is_large_scan(log, keys)


def in_order(log: pl.LazyFrame, keys: Sequence[str]) -> tuple[pl.LazyFrame, Lengths | None]:
    """Return the rows of a log sorted by the keys, and the lengths of rankings.

    If the rows are not sorted, they are sorted in memory. Otherwise, only the keys are read.
    """
    is_shuffled = _is_sorted_in_memory(log, keys)
    layout, lengths = ("shuffled", None) if is_shuffled else inspect_rows(log, keys)
    if layout != "sorted":
        log = log.sort(keys, maintain_order=True).collect(engine="streaming").lazy()
        _, lengths = inspect_rows(log, keys)
    return log.set_sorted([*keys]), lengths


def _is_sorted_in_memory(log: pl.LazyFrame, keys: Sequence[str]) -> bool:
    return getattr(source_of_rows(log, keys), "sorts", False)


def inspect_rows(
    log: pl.LazyFrame, keys: Sequence[str], number: int | None = None
) -> tuple[Layout, Lengths | None]:
    """Return the layout of a log, and lengths if the rows of rankings are adjacent.

    `number` is the number of rows if it is known. This reads the key columns once.
    """
    # If the first rows are shuffled, so is the log, and the others need not be read.
    layout, lengths = _inspect_all(log.head(GLIMPSE_ROWS), keys)
    if lengths is None or lengths.rows < GLIMPSE_ROWS:
        return layout, lengths
    return _inspect_all(log, keys, number)


def _inspect_all(
    log: pl.LazyFrame, keys: Sequence[str], number: int | None = None
) -> tuple[Layout, Lengths | None]:
    # Internal names, because columns of a log may have any name.
    names = [f"key {index}" for index in range(len(keys))]
    rows = log.select(pl.col(key).alias(name) for key, name in zip(keys, names, strict=True))
    if number is None:
        number = rows.select(pl.len()).collect(engine="streaming").item()
    row, pairs = pl.col("row"), [(pl.col(name), pl.col(name).shift(1)) for name in names]
    # The first row of each sequence of rows with equal keys.
    starts = rows.with_row_index("row").filter(
        pl.any_horizontal(key.ne_missing(previous) for key, previous in pairs) | (row == 0)
    )
    schema = log.collect_schema()
    # Polars and this check may order structs differently.
    structs = any(isinstance(schema[key], pl.Struct) for key in keys)
    summary = starts.select(
        pl.len().alias("rankings"),
        (pl.lit(value=True) if structs else falls(pairs)).sum().alias("falls"),
        pl.any_horizontal(pl.col(names).is_null()).sum().alias("nulls"),
        row.diff().max().fill_null(0).alias("longest"),
        row.max().fill_null(0).alias("last"),
    ).collect(engine="streaming")
    rankings, fallen_rows, null_rows, longest, last = summary.row(0)
    lengths = Lengths([*keys], number, rankings, max(longest, number - last))
    if fallen_rows == null_rows == 0:
        return "sorted", lengths
    hashes = starts.select(pl.struct(names).hash().n_unique())
    is_adjacent = hashes.collect(engine="streaming").item() == rankings
    return ("adjacent", lengths) if is_adjacent else ("shuffled", None)


def falls(pairs: Sequence[tuple[K, K]]) -> K:
    """Return whether the keys of a row are lower than the keys of the previous row.

    `pairs` are the key columns and their values in the previous row. Keys are compared in order,
    the next one if all others are equal. The result is null for nulls that decide.
    """
    *others, (last, previous) = pairs
    lower: Any = last < previous
    for key, before in reversed(others):
        lower = (key < before) | (key.eq_missing(before) & lower)
    return lower  # type: ignore[no-any-return]  # operators of expressions and of Series


def is_large_scan(log: pl.LazyFrame, keys: Sequence[str]) -> bool:
    """Return whether a log is a scan of many rows of Parquet files, which may be sorted by keys."""
    return (rows_of_scan(log, keys) or 0) >= _MANY_ROWS


def sorted_by(log: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
    """Return the rows of a log sorted by the keys.

    A sort in Polars holds all rows in memory, even if they are sorted already. For a scan of
    Parquet files, collecting the result therefore reads the keys first. If they are sorted, the
    rows are read batch by batch. The result is marked as sorted.
    """
    if isinstance(log, FewRows):
        return log.sort(keys, maintain_order=True)
    if is_sorted_by(log, keys):
        return log
    if not is_large_scan(log, keys):
        return log.sort(keys, maintain_order=True)
    schema = log.collect_schema()

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        columns = [*schema] if columns is None else columns
        plan = log if predicate is None else log.filter(predicate)
        rows, _ = in_order(plan.select([*dict.fromkeys([*columns, *keys])]), keys)
        batches = all_batches(rows, chunk_size=size or BATCH_ROWS)
        yield from requested(batches, columns, n_rows=n_rows)

    rows = register_io_source(read, schema=schema, explain_name="ROWS IN ORDER")
    return rows.set_sorted([*keys])
