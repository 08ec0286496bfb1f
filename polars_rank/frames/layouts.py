"""The layout of the rows of rankings: sorted by their keys, adjacent, or shuffled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank._polars import FewRows, is_sorted_by, rows_of_scan
from polars_rank.errors import SourceError
from polars_rank.frames.batches import BATCH_ROWS, first

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Layout: TypeAlias = Literal["sorted", "adjacent", "shuffled"]

#: Number of rows by which a shuffled log is recognized.
GLIMPSE_ROWS = 100_000

#: Below this number of rows, a sort in memory needs little of it.
_MANY_ROWS = 1_000_000


def find_layout(log: pl.LazyFrame, keys: Sequence[str]) -> Layout:
    """Return the layout of the rows of rankings, by one pass over the key columns."""
    number = log.select(pl.len()).collect(engine="streaming").item()
    return inspect_rows(log, number, keys).layout


class Rows(NamedTuple):
    """The layout of rows, and the number and lengths of rankings."""

    layout: Layout
    rankings: int = 0
    #: Number of rows of the longest ranking except the last, and the first row of the last one.
    longest: int = 0
    last: int = 0


def inspect_rows(log: pl.LazyFrame, number: int, keys: Sequence[str]) -> Rows:
    """Return the layout of a number of rows, and the number and lengths of rankings."""
    # The first rows of a shuffled log are shuffled, so that the others need not be read.
    head = _inspect_all(log.head(GLIMPSE_ROWS), keys)
    if head.layout == "shuffled" or number <= GLIMPSE_ROWS:
        return head
    return _inspect_all(log, keys)


def _inspect_all(log: pl.LazyFrame, keys: Sequence[str]) -> Rows:
    # The columns are renamed, because those of a log may have any name.
    names_of = {key: (f"key {index}", f"before {index}") for index, key in enumerate(keys)}
    shifted = log.select(
        column
        for key, (here, before) in names_of.items()
        for column in (pl.col(key).alias(here), pl.col(key).shift(1).alias(before))
    )
    pairs = [(pl.col(here), pl.col(before)) for here, before in names_of.values()]
    # One row per run of equal keys: its first row.
    pieces = shifted.with_row_index("row").filter(
        pl.any_horizontal(key.ne_missing(previous) for key, previous in pairs)
        | (pl.col("row") == 0)
    )
    nulls = pl.any_horizontal(key.is_null() for key, _ in pairs)
    schema = log.collect_schema()
    # Polars and this check may order structs differently.
    structs = any(isinstance(schema[key], pl.Struct) for key in keys)
    before = {here: pl.col(name) for here, name in names_of.values()}
    fallen = pl.lit(value=True) if structs else falls(before)
    row = pl.col("row")
    summary = pieces.select(
        pl.len().alias("pieces"),
        fallen.sum().alias("falls"),
        nulls.sum().alias("nulls"),
        row.diff().max().fill_null(0).alias("longest"),
        row.max().fill_null(0).alias("last"),
    ).collect(engine="streaming")
    rankings, fallen_rows, null_rows, longest, last = summary.row(0)
    if fallen_rows == null_rows == 0:
        return Rows("sorted", rankings, longest, last)
    n_unique = (
        pieces.select(pl.struct(key for key, _ in pairs).hash().n_unique())
        .collect(engine="streaming")
        .item()
    )
    return Rows("adjacent" if rankings == n_unique else "shuffled", rankings, longest, last)


def falls(before: Mapping[str, pl.Expr]) -> pl.Expr:
    """Return whether the keys of a row are lower than those of the row before.

    `before` maps the key columns to their values in that row. A key decides if the keys before it
    are equal.
    """
    lower = pl.lit(value=False)
    for name, previous in reversed([*before.items()]):
        key = pl.col(name)
        lower = (key < previous) | (key.eq_missing(previous) & lower)
    return lower.fill_null(value=False)


def sorted_by(log: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
    """Return the rows of a log sorted by the keys.

    The sort of Polars holds all rows, also if they are sorted. So if a log is scanned from Parquet
    files, its keys are read first, when the result is collected. If they are sorted, its rows are
    read batch by batch. The result is then declared to be sorted.
    """
    if isinstance(log, FewRows):
        return log.sort(keys, maintain_order=True)
    if is_sorted_by(log, keys):
        return log
    if (rows_of_scan(log, keys) or 0) < _MANY_ROWS:
        return log.sort(keys, maintain_order=True)
    schema = log.collect_schema()

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        columns = [*schema] if with_columns is None else with_columns
        plan = log if predicate is None else log.filter(predicate)
        number = plan.select(pl.len()).collect(engine="streaming").item()
        layout = inspect_rows(plan, number, keys).layout
        rows = plan.select([*dict.fromkeys([*columns, *keys])])
        rows = rows if layout == "sorted" else rows.sort(keys, maintain_order=True)
        n_read = 0
        batches = rows.collect_batches(
            chunk_size=batch_size or BATCH_ROWS, maintain_order=True, engine="streaming"
        )
        for batch in first(batches, n_rows):
            n_read += batch.height
            yield batch[columns]
        # If Polars panics, its batches end without an error.
        if n_rows is None and n_read != number:
            raise SourceError(f"{n_read:,} of {number:,} rows of the log were read; scan it again")

    rows = register_io_source(read, schema=schema, explain_name="ROWS IN ORDER")
    return rows.set_sorted([*keys])
