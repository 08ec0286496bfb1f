"""How the lists of a log are told apart, and whether its rows stand list by list.

That they do is said by hints of Polars and by the numbers that `scan_log` gives lists. Both
outlive what users do to a log, and where they are not true a list would be taken for several. So
each row is compared with the one before it: batch by batch, in the order in which batches happen
to come, and then the last row of each with the first of the next.

The plan itself cannot compare them in flat memory. For an expression that reads another row, such
as `shift`, Polars sends rows two ways, takes in what comes as fast as it comes, and holds it back
for as long as the rest of the plan is busy.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import key_hash
from polars_rank.errors import DataError
from polars_rank.frames.tables import number_column_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank.columns import Columns

_LIST, _KEYS = OWN + "list", OWN + "keys"
ROW, RUN = OWN + "row number", OWN + "run of the plan"


@dataclass(frozen=True)
class Keys:
    """How lists are told apart: by their keys, or by the number that `scan_log` gave them."""

    order: list[str]  # columns of the log that stand in order
    group: list[str]  # the same under our names
    names: dict[str, str]  # columns of the result and our names for them
    number: str | None = None  # the column of the log that says which list a row belongs to
    comparable: bool = True  # structs have an order to sort by, but none to compare by

    @classmethod
    def of(cls, columns: Columns) -> Keys:
        """Return how the lists of a log with these columns are told apart."""
        number = number_column_in(columns.schema, columns.keys)
        keys = {key: f"{OWN}key {index}" for index, key in enumerate(columns.keys)}
        if number is not None:
            return cls([_LIST], [_LIST], keys, number)
        structs = any(columns.schema[key] == pl.Struct for key in columns.keys)
        return cls(columns.keys, list(keys.values()), keys, comparable=not structs)

    def in_order(self, log: pl.LazyFrame) -> pl.LazyFrame:
        """Return the log list by list: sorted by keys, or as it was numbered."""
        if self.number is None:
            return log.sort(self.order, maintain_order=True)
        number = pl.col(self.number).struct.field("number")
        return log.with_columns(number.alias(_LIST)).set_sorted(_LIST)

    @property
    def named(self) -> list[pl.Expr]:
        """The columns that tell lists apart, under our own names, as `checked` reads them."""
        names = {**self.names, **dict(zip(self.order, self.group, strict=True))}
        named = [pl.col(name).alias(own) for name, own in names.items()]
        if self.number is not None:
            # The hash of the row's keys as they were numbered.
            named.append(pl.col(self.number).struct.field("keys").alias(_KEYS))
        return named

    @property
    def carried(self) -> list[pl.Expr]:
        """The keys of a list that are not those by which rows are grouped."""
        return [pl.col(name).first() for name in self.names.values() if name not in self.group]

    def checked(self, rows: pl.LazyFrame) -> pl.LazyFrame:
        """Return rows of a log in order, sorted by list; collecting them raises if they are not."""
        if not self.comparable:
            return rows.set_sorted(self.group)
        # Rows of another run of the plan are not neighbours of these.
        run = pl.lit(0).map_batches(_any_number, return_dtype=pl.UInt64, returns_scalar=True)
        numbered = rows.with_row_index(ROW).with_columns(run.alias(RUN))
        return (
            numbered.map_batches(self.neighbours(), validate_output_schema=False, streamable=True)
            .drop(ROW, RUN, *([] if self.number is None else [_KEYS]))
            .set_sorted(self.group)
        )

    def neighbours(self) -> Neighbours:
        """Return what compares each row with the one before."""
        if self.number is None:
            return Neighbours(
                falls({key: pl.col(key).shift(1) for key in self.group}),
                self.names,
                [*self.names.values()],
            )
        return Neighbours(self._by_number(), self.names, [*self.names.values(), _LIST, _KEYS])

    def _by_number(self) -> pl.Expr:
        """Return whether a row stands where its list cannot be, or has other keys than its list."""
        number, keys = pl.col(_LIST), pl.col(_KEYS)
        same = number == number.shift(1)
        strayed = (number < number.shift(1)) | (same & (keys != keys.shift(1)))
        different = keys != key_hash(self.names)
        return strayed.fill_null(value=False) | different.fill_null(value=True)


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


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Compares each row of a plan with the one before, in batches that come in any order."""

    strays: pl.Expr
    keys: Mapping[str, str]
    names: list[str]
    #: By run and row number: the first row of a batch, or the last one of that before it,
    #: whichever came first, until the other comes.
    ends: dict[tuple[int, int], pl.DataFrame] = field(default_factory=dict)

    def __call__(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Return the batch; raise `DataError` for a row that cannot stand where it does."""
        if batch.is_empty():
            return batch
        rows = batch[self.names]
        self.compare(rows)
        run, start = batch.item(0, RUN), batch.item(0, ROW)
        # A copy, where a slice would keep the batch in memory.
        ends = pl.concat([rows[:1], rows[-1:]], rechunk=True)
        first, last = ends[:1], ends[1:]
        if start > 0 and (before := self.neighbour(run, start, first)) is not None:
            self.compare(pl.concat([before, first]))
        if (after := self.neighbour(run, start + batch.height, last)) is not None:
            self.compare(pl.concat([last, after]))
        return batch

    def neighbour(self, run: int, row: int, end: pl.DataFrame) -> pl.DataFrame | None:
        """Return what stands on the other side of where this row begins, if it has come."""
        other = self.ends.setdefault((run, row), end)  # at once, whatever other threads do
        return None if other is end else self.ends.pop((run, row))

    def compare(self, rows: pl.DataFrame) -> None:
        """Raise `DataError` for a row that cannot stand behind the one before."""
        if not rows.select(self.strays.any()).item():
            return
        stray = rows.filter(self.strays).row(0, named=True)
        where = {name: stray[own] for name, own in self.keys.items()}
        message = (
            "rows do not stand list by list any more, as scan_log numbered them or as set_sorted "
            f"said; scan all files in one scan_log, or drop the columns that begin with {OWN!r} "
            f"and sort by the keys; in the list {where}"
        )
        raise DataError(message)


def _any_number(_: pl.Series) -> pl.Series:
    """Return a number that no other run of any plan has."""
    return pl.Series([secrets.randbits(64)], dtype=pl.UInt64)
