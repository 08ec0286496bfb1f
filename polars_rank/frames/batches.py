"""Batches of complete rankings, and a column that numbers the rankings.

If the rows of each ranking are adjacent, the numbers are sorted, whatever the order of rankings.
Polars aggregates by a sorted key one ranking after the other, in flat memory. Windows and joins
hold all rows in memory; in batches of complete rankings, they hold the rows of one batch.
"""

from __future__ import annotations

from functools import partial, reduce
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any, Literal

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank._params import OWN
from polars_rank._polars import key_hash
from polars_rank.errors import SourceError, in_this_context

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from polars_rank.errors import DataError

#: Rows of a batch: enough to make Python's overhead negligible, few enough for the CPU cache.
BATCH_ROWS = 100_000
#: Rankings of a batch in which each row holds the lists of one ranking.
_BATCH_RANKINGS = 2_000
#: Maximum number of scans that are merged.
_MAX_MERGED = 50

#: Without the elimination of common subexpressions, which may fail in the in-memory engine.
_OPTIMIZATIONS = pl.QueryOptFlags(comm_subexpr_elim=False)

#: Column that marks the end of the rows.
_END = OWN + "end"


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
        continues = last_start == 0 and bool(incomplete)
        if continues and incomplete[-1].select(keys).row(-1) == batch.select(keys).row(0):
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
    rows: pl.LazyFrame, keys: Sequence[str], plan: Callable[[pl.LazyFrame], pl.LazyFrame]
) -> pl.LazyFrame:
    """Return the result of a plan that computes each ranking from its own rows.

    Polars must know that the rows are sorted by the keys. The plan runs in memory for each batch of
    complete rankings, so its windows and joins hold the rows of one batch only.
    """
    names = rows.collect_schema().names()
    others = [name for name in names if name not in keys]
    rankings = rows.group_by(keys, maintain_order=True).agg(others)
    return in_batches(rankings, lambda batch: plan(batch.explode(others).select(names)))


def by_query(
    tables: Sequence[pl.LazyFrame],
    query: Sequence[str],
    plan: Callable[[pl.LazyFrame, pl.LazyFrame], pl.LazyFrame],
    how: Literal["left", "full"],
) -> pl.LazyFrame:
    """Return the result of a plan that reads the rows of a query in two tables.

    The tables have one row per query, with lists of rows as `Keys.lists` returns them. The plan
    runs in batches of complete queries: of the first table, or with "full" of both.
    """
    # Names of columns and of their lists, which differ because both tables have documents.
    sides = [
        {name: f"{OWN}{side} {name}" for name in table.collect_schema() if name not in query}
        for side, table in enumerate(tables)
    ]

    def of_batch(batch: pl.LazyFrame) -> pl.LazyFrame:
        left, right = (
            batch.select(*query, *side.values())
            .explode([*side.values()], keep_nulls=False)
            .select(*query, *(pl.col(own).alias(name) for name, own in side.items()))
            for side in sides
        )
        return plan(left, right)

    left, right = (table.rename(side) for table, side in zip(tables, sides, strict=True))
    pairs = left.join(right, on=query, how=how, coalesce=True, nulls_equal=True)
    return in_batches(pairs, of_batch)


def by_group(
    rows: pl.LazyFrame, groups: Sequence[str], plan: Callable[[pl.LazyFrame], pl.LazyFrame]
) -> pl.LazyFrame:
    """Return the results of a plan for the rows of each group, one group after the other.

    The rows of each group must be adjacent, and hold one ranking each, as those of `Keys.lists`.
    The plan reads them once, without the columns of groups, which the result has again.
    """
    types, own = rows.select(groups).collect_schema(), rows.drop(groups).collect_schema()
    schema = pl.Schema({**types, **plan(rows.drop(groups)).collect_schema()})

    def results() -> Iterator[pl.DataFrame]:
        parts = (
            part
            for batch in all_batches(rows, chunk_size=_BATCH_RANKINGS)
            for part in batch.partition_by(groups, maintain_order=True)
        )
        for _, of_group in groupby(parts, lambda part: part.select(groups).row(0)):
            others = iter(of_group)
            first = next(others)
            source = _source(partial(chain, [first], others), own, "ROWS OF A GROUP")
            for batch in all_batches(plan(source)):
                yield first.select(groups).head(1).join(batch, how="cross")

    return _source(results, schema, "GROUP BY GROUP")


def merged(rows: pl.LazyFrame, group: str, keys: Sequence[str]) -> pl.LazyFrame:
    """Return the rows of groups, each of which is sorted by the keys, sorted by the keys.

    Groups are read side by side, each by its own scan. Many groups are sorted in memory.
    """
    column = pl.col(group)

    def batches() -> Iterator[pl.DataFrame]:
        values = rows.select(column.unique()).collect(engine="streaming").to_series().sort()
        parts = [
            rows.filter(
                column.is_null() if value is None else column == pl.lit(value, values.dtype)
            )
            for value in values
        ]
        if not 0 < len(parts) <= _MAX_MERGED:
            parts = [rows.sort(keys, maintain_order=True)]
        # As a common subplan, the scan would hold the rows that another group has not yet read.
        options = pl.QueryOptFlags(comm_subplan_elim=False)
        yield from all_batches(
            reduce(
                lambda left, right: left.merge_sorted(right, [*keys], maintain_order=True), parts
            ),
            optimizations=options,
        )

    return _source(batches, rows.collect_schema(), "MERGED GROUPS").set_sorted([*keys])


def all_batches(plan: pl.LazyFrame, **options: Any) -> Iterator[pl.DataFrame]:
    """Yield the rows of a plan, in order; raise `SourceError` if not all were read.

    If Polars panics, its batches end without an error, and without the last row.
    """
    with_end = pl.concat([plan, pl.LazyFrame({_END: [True]})], how="diagonal")
    at_end = False
    for batch in with_end.collect_batches(maintain_order=True, engine="streaming", **options):
        at_end = bool(batch.item(-1, _END))
        yield batch.drop(_END).head(batch.height - at_end)
    if not at_end:
        raise SourceError("not all rows were read; read them again")


def added_up(rows: pl.LazyFrame, keys: Sequence[str], sums: Sequence[pl.Expr]) -> pl.LazyFrame:
    """Return sums of rows by keys, with memory for one sum per key.

    With many keys, a group-by of Polars holds the sums of each batch until all rows are read. This
    function adds up the sums of batches as they arrive.
    """
    parts = in_batches(rows, lambda batch: batch.group_by(keys).agg(sums))
    schema = parts.collect_schema()

    def totals() -> Iterator[pl.DataFrame]:
        totals = Totals(keys, [pl.DataFrame(schema=schema)])
        # Unlike `collect_batches`, this raises if Polars panics.
        parts.sink_batches(totals.add, maintain_order=False, engine="streaming")
        yield totals.table()

    return _source(totals, schema, "SUMS OF BATCHES")


def deferred(plan: Callable[[], pl.LazyFrame], schema: pl.Schema, name: str) -> pl.LazyFrame:
    """Return the rows of a plan that is chosen when the result is collected."""
    plan = in_this_context(plan)
    return _source(lambda: all_batches(plan()), schema, name)


def _source(
    batches: Callable[[], Iterator[pl.DataFrame]], schema: pl.Schema, name: str
) -> pl.LazyFrame:
    """Return a plan that reads the batches of a Python function."""
    return register_io_source(reading_of(batches), schema=schema, explain_name=name)


def reading_of(batches: Callable[[], Iterator[pl.DataFrame]]) -> Callable[..., Any]:
    """Return a Python source of the rows and columns of batches that Polars requests."""

    def read(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _size: int | None
    ) -> Iterator[pl.DataFrame]:
        yield from requested(batches(), columns, predicate, n_rows)

    return read


class Totals:
    """Sums by keys, to which the sums of batches are added."""

    def __init__(self, keys: Sequence[str], parts: Iterable[pl.DataFrame]) -> None:
        self.keys = keys
        #: The totals, and the sums of the batches that were added since.
        self.parts: list[pl.DataFrame] = [*parts]

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
