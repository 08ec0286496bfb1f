"""Batches of rows that end where lists do, and the numbers of lists beside them.

Where the rows of each list stand together, in whatever order the lists come, numbers are sorted
keys: by them, Polars aggregates list by list and forgets what has passed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._polars import key_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polars_rank.errors import DataError

#: Rows taken at a time: large enough that Python's part is nothing, small enough for a cache.
BATCH_ROWS = 100_000

#: The column that numbers lists: the number of the row's list, and the hash of its keys.
NUMBERED = pl.Struct({"number": pl.UInt32, "keys": pl.UInt64})


def together(rows: pl.DataFrame, keys: Sequence[str]) -> bool:
    """Return whether the rows of each list stand together."""
    runs = _runs(rows, keys)
    starts = rows.select(keys).filter(runs.ne_missing(runs.shift(1)))
    return starts.is_unique().all()


def whole_lists(batches: Iterator[pl.DataFrame], keys: Sequence[str]) -> Iterator[pl.DataFrame]:
    """Cut batches where lists end; the list that a batch breaks off goes with the next one."""
    held: list[pl.DataFrame] = []
    for batch in batches:
        if batch.is_empty():
            continue
        runs = _runs(batch, keys)
        last_starts = int(runs.search_sorted(runs[-1], side="left"))
        if last_starts == 0 and held and _same_list(held[-1], batch, keys):
            held.append(batch)
            continue
        yield pl.concat([*held, batch.head(last_starts)], rechunk=False)
        held = [batch.slice(last_starts)]
    if held:
        yield pl.concat(held, rechunk=False)


def numbered(
    pieces: Iterator[pl.DataFrame],
    keys: Sequence[str],
    number: str,
    torn: DataError | None = None,
) -> Iterator[pl.DataFrame]:
    """Number the lists; with `torn`, raise it at the end if one came in two places.

    To know that, 8 bytes are kept for each list.
    """
    count = 0
    seen: list[pl.Series] = []
    for piece in pieces:
        if piece.is_empty():
            continue
        runs = _runs(piece, keys)
        starts = (
            piece.filter(runs.ne_missing(runs.shift(1)))
            .select(key_hash({key: key for key in keys}))
            .to_series()
        )
        if torn is not None:
            seen.append(starts)
        numbers = (runs + count).cast(pl.UInt32).alias("number")
        hashes = starts.gather(runs).alias("keys")
        yield piece.with_columns(pl.struct(numbers, hashes).alias(number))
        count += starts.len()
    if torn is not None and seen and pl.concat(seen).n_unique() < count:
        raise torn


def first(batches: Iterator[pl.DataFrame], n_rows: int | None) -> Iterator[pl.DataFrame]:
    """Yield the first rows of batches, or all."""
    for batch in batches:
        if n_rows is None:
            yield batch
            continue
        yield batch.head(n_rows)
        n_rows -= min(n_rows, batch.height)
        if n_rows == 0:
            return


def _runs(batch: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    key = pl.col(keys[0]) if len(keys) == 1 else pl.struct(keys)
    return batch.select(key.rle_id()).to_series()


def _same_list(before: pl.DataFrame, after: pl.DataFrame, keys: Sequence[str]) -> bool:
    return before.select(keys).row(-1) == after.select(keys).row(0)
