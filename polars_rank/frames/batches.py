"""Batches of complete rankings, and a column that numbers the rankings.

If the rows of each ranking are adjacent, the numbers are sorted, whatever the order of rankings.
Polars aggregates by a sorted key one ranking after the other, in flat memory. Windows and joins
hold all rows in memory; in batches of complete rankings, they hold the rows of one batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank._polars import key_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from polars_rank.errors import DataError

#: Rows of a batch: enough to make Python's overhead negligible, few enough for the CPU cache.
BATCH_ROWS = 100_000

#: Without the elimination of common subexpressions, which may fail in the in-memory engine.
_OPTIMIZATIONS = pl.QueryOptFlags(comm_subexpr_elim=False)

#: Type of the column that numbers rankings: the number, and a hash of the keys of the ranking.
NUMBERED = pl.Struct({"number": pl.UInt32, "keys": pl.UInt64})


def is_adjacent(rows: pl.DataFrame, keys: Sequence[str]) -> bool:
    """Return whether the rows of each ranking are adjacent."""
    runs = _runs(rows, keys)
    starts = rows.select(keys).filter(runs.ne_missing(runs.shift(1)))
    return starts.is_unique().all()


def complete_rankings(
    batches: Iterator[pl.DataFrame], keys: Sequence[str]
) -> Iterator[pl.DataFrame]:
    """Yield the rows in batches of complete rankings."""
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

    If the rows of a ranking are not adjacent, raise the error `not_adjacent`, if there is one,
    after the last batch. This check keeps 8 bytes per ranking in memory.
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


def in_batches(table: pl.LazyFrame, plan: Callable[[pl.LazyFrame], pl.LazyFrame]) -> pl.LazyFrame:
    """Return the result of a plan that computes each row from one row of the table.

    The plan runs in memory for each batch of the streaming engine.
    """

    def of_batch(batch: pl.DataFrame) -> pl.DataFrame:
        return plan(batch.lazy()).collect(engine="in-memory", optimizations=_OPTIMIZATIONS)

    schema = plan(table).collect_schema()
    return table.map_batches(of_batch, schema=schema, validate_output_schema=False, streamable=True)


def by_ranking(
    rows: pl.LazyFrame,
    keys: Sequence[str],
    plan: Callable[[pl.LazyFrame], pl.LazyFrame],
) -> pl.LazyFrame:
    """Return the result of a plan that computes each ranking from its own rows.

    Polars must know that the rows are sorted by the keys. The plan runs in memory for each batch of
    complete rankings, so its windows and joins hold the rows of one batch only.
    """
    names = rows.collect_schema().names()
    others = [name for name in names if name not in keys]
    rankings = rows.group_by(keys, maintain_order=True).agg(others)
    return in_batches(rankings, lambda batch: plan(batch.explode(others).select(names)))


def added_up(rows: pl.LazyFrame, keys: Sequence[str], sums: Sequence[pl.Expr]) -> pl.LazyFrame:
    """Return sums of rows by keys, with memory for one sum per key.

    With many keys, a group-by of Polars holds the sums of each batch until all rows are read. This
    function adds up the sums of batches as they arrive.
    """
    parts = in_batches(rows, lambda batch: batch.group_by(keys).agg(sums))
    schema = parts.collect_schema()

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        _batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        totals = Totals(keys, [pl.DataFrame(schema=schema)])
        # Unlike `collect_batches`, this raises if Polars panics.
        parts.sink_batches(totals.add, maintain_order=False, engine="streaming")
        yield from requested(iter([totals.table()]), with_columns, predicate, n_rows)

    return register_io_source(read, schema=schema, explain_name="SUMS OF BATCHES")


class Totals:
    """Sums by keys, to which the sums of batches are added."""

    def __init__(self, keys: Sequence[str], parts: Iterable[pl.DataFrame]) -> None:
        self.keys = keys
        #: The totals, and the sums of the batches that were added since.
        self.parts = [*parts]

    def add(self, part: pl.DataFrame) -> None:
        """Add the sums of a batch."""
        self.parts.append(part)
        # Totals are updated when as many new rows as totals have arrived.
        if sum(part.height for part in self.parts[1:]) > max(self.parts[0].height, BATCH_ROWS):
            self.parts = [self.table()]

    def table(self) -> pl.DataFrame:
        """Return the sums of all batches."""
        return pl.concat(self.parts).group_by(self.keys).sum()


def requested(
    batches: Iterator[pl.DataFrame],
    columns: Sequence[str] | None,
    predicate: pl.Expr | None = None,
    n_rows: int | None = None,
) -> Iterator[pl.DataFrame]:
    """Yield the rows and columns of batches that Polars requests from a Python source."""
    for batch in batches:
        rows = batch if predicate is None else batch.filter(predicate)
        if n_rows is not None:
            rows = rows.head(n_rows)
            n_rows -= rows.height
        # Not `select`, which reads some names as patterns.
        yield rows if columns is None else rows[[*columns]]
        if n_rows == 0:
            return


def _runs(batch: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    key = pl.col(keys[0]) if len(keys) == 1 else pl.struct(keys)
    return batch.select(key.rle_id()).to_series()


def _same_ranking(before: pl.DataFrame, after: pl.DataFrame, keys: Sequence[str]) -> bool:
    return before.select(keys).row(-1) == after.select(keys).row(0)
