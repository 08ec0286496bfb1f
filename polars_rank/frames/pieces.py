"""Batches of complete rankings, and a column that numbers the rankings.

If the rows of each ranking are adjacent, in any order of rankings, the numbers are sorted keys.
With sorted keys, Polars aggregates one ranking after the other, in flat memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._polars import key_hash

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polars_rank.errors import DataError

#: Rows of a batch: enough to make Python's overhead negligible, few enough for a cache.
BATCH_ROWS = 100_000

#: Type of the column that numbers rankings: the number, and the hash of the ranking's keys.
NUMBERED = pl.Struct({"number": pl.UInt32, "keys": pl.UInt64})


def is_adjacent(rows: pl.DataFrame, keys: Sequence[str]) -> bool:
    """Return whether the rows of each ranking are adjacent."""
    runs = _runs(rows, keys)
    starts = rows.select(keys).filter(runs.ne_missing(runs.shift(1)))
    return starts.is_unique().all()


def complete_rankings(
    batches: Iterator[pl.DataFrame], keys: Sequence[str]
) -> Iterator[pl.DataFrame]:
    """Yield the rows in batches that end with a ranking."""
    incomplete: list[pl.DataFrame] = []  # the last ranking, which may continue in the next batch
    for batch in batches:
        if batch.is_empty():
            continue
        runs = _runs(batch, keys)
        last_start = int(runs.search_sorted(runs[-1], side="left"))
        if last_start == 0 and incomplete and _same_ranking(incomplete[-1], batch, keys):
            incomplete.append(batch)
            continue
        yield pl.concat([*incomplete, batch.head(last_start)], rechunk=False)
        incomplete = [batch.slice(last_start)]
    if incomplete:
        yield pl.concat(incomplete, rechunk=False)


def numbered(
    batches: Iterator[pl.DataFrame],
    keys: Sequence[str],
    number: str,
    not_adjacent: DataError | None = None,
) -> Iterator[pl.DataFrame]:
    """Yield batches with the column `number`, which numbers the rankings.

    With `not_adjacent`, raise that error at the end if the rows of a ranking were not adjacent.
    This keeps 8 bytes per ranking.
    """
    count = 0
    seen: list[pl.Series] = []
    for batch in batches:
        if batch.is_empty():
            continue
        runs = _runs(batch, keys)
        starts = (
            batch.filter(runs.ne_missing(runs.shift(1)))
            .select(key_hash({key: key for key in keys}))
            .to_series()
        )
        if not_adjacent is not None:
            seen.append(starts)
        numbers = (runs + count).cast(pl.UInt32).alias("number")
        hashes = starts.gather(runs).alias("keys")
        yield batch.with_columns(pl.struct(numbers, hashes).alias(number))
        count += starts.len()
    if not_adjacent is not None and seen and pl.concat(seen).n_unique() < count:
        raise not_adjacent


def first(batches: Iterator[pl.DataFrame], n_rows: int | None) -> Iterator[pl.DataFrame]:
    """Yield the first `n_rows` rows of batches, or all rows."""
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


def _same_ranking(before: pl.DataFrame, after: pl.DataFrame, keys: Sequence[str]) -> bool:
    return before.select(keys).row(-1) == after.select(keys).row(0)
