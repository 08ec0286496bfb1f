"""The keys of rankings, and the check that the rows of each ranking are adjacent.

Polars' hint `set_sorted` and the numbers that `scan_log` adds declare that rows are adjacent. Both
persist after users modify the log. If they are wrong, one ranking would be evaluated as several.
Therefore, each row is compared with the previous row: first within each batch, then the last row of
each batch with the first row of the next. Batches may arrive in any order.

The comparison is a Python function, because no plan makes it in flat memory: for expressions that
read another row, such as `shift`, the streaming engine buffers rows while the rest of the plan is
busy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl
from polars import selectors as cs

from polars_rank._params import OWN
from polars_rank._polars import NUMBERED, FewRows, is_sorted_by, key_hash, run_number
from polars_rank.errors import DataError
from polars_rank.frames.layouts import falls, is_large_scan, sorted_by
from polars_rank.frames.tables import number_column, own_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polars_rank.columns import Columns

_RANKING, _KEYS = OWN + "ranking", OWN + "keys"
ROW, RUN = OWN + "row number", OWN + "run of the plan"


class Keys(NamedTuple):
    """The keys of rankings: columns of the log, or the numbers that `scan_log` added."""

    #: The columns by which rows are sorted, and their internal names.
    order: list[str]
    group: list[str]
    #: The key columns of the result, with their internal names.
    names: dict[str, str]
    #: The column of the log with the number of each row's ranking.
    number: str | None = None
    #: Whether `<` compares keys. Polars sorts structs, but does not compare them.
    comparable: bool = True

    @classmethod
    def of(cls, columns: Columns) -> Keys:
        """Return the keys of a log with these columns."""
        number = number_column(columns.keys)
        keys = {key: f"{OWN}key {index}" for index, key in enumerate(columns.keys)}
        if number in columns.schema:
            if columns.schema[number] != NUMBERED:
                raise own_name(number)
            return cls([_RANKING], [_RANKING], keys, number)
        structs = any(columns.schema[key] == pl.Struct for key in columns.keys)
        return cls(columns.keys, list(keys.values()), keys, comparable=not structs)

    def are_adjacent(self, log: pl.LazyFrame) -> bool:
        """Return whether the rows of rankings are declared to be adjacent and need no sort."""
        if self.number is not None:
            return True
        return not isinstance(log, FewRows) and is_sorted_by(log, self.order)

    @property
    def carried(self) -> list[pl.Expr]:
        """The keys of a ranking by which its rows are not grouped, as aggregations."""
        return [pl.col(name).first() for name in self.names.values() if name not in self.group]

    @property
    def named(self) -> list[pl.Expr]:
        """The keys of a ranking under the user's names."""
        return [pl.col(own).alias(name) for name, own in self.names.items()]

    def rows(
        self,
        log: pl.LazyFrame,
        columns: Sequence[pl.Expr | str],
        change: Callable[[pl.LazyFrame], pl.LazyFrame] | None = None,
        *,
        sort: bool = True,
    ) -> pl.LazyFrame:
        """Return keys and columns of a log, ranking by ranking, under internal names.

        The log is sorted by keys unless the rows of rankings are declared to be adjacent. If they
        are not, collecting the result raises `DataError`. `change` is applied to the ordered log,
        and must keep its order. With `sort=False`, the rows keep the order of the log.
        """
        names = {**self.names, **dict(zip(self.order, self.group, strict=True))}
        keys = [pl.col(name).alias(own) for name, own in names.items()]
        if self.number is None:
            log = ordered = sorted_by(log, self.order) if sort else log
        else:
            number, hashed = map(pl.col(self.number).struct.field, ("number", "keys"))
            ordered = log.with_columns(number.alias(_RANKING)).set_sorted(_RANKING)
            keys.append(hashed.alias(_KEYS))
        rows = (ordered if change is None else change(ordered)).select(*keys, *columns)
        if not sort:
            return rows
        if not self.comparable or not self.are_adjacent(log):
            return rows.set_sorted(self.group)
        # The number tells apart rows of different executions of the plan.
        numbered = rows.with_row_index(ROW).with_columns(run_number().alias(RUN))
        return (
            numbered.map_batches(Neighbors(self), validate_output_schema=False, streamable=True)
            .drop(ROW, RUN, *([] if self.number is None else [_KEYS]))
            .set_sorted(self.group)
        )

    def lists(
        self, log: pl.LazyFrame, columns: Sequence[str], *, sort: bool = False
    ) -> pl.LazyFrame | None:
        """Return keys and lists of columns, one row per ranking, sorted by the keys.

        Return None if the log may be unsorted. With `sort`, a large scan is sorted if it has to be.
        """
        large = sort and is_large_scan(log, self.order)
        if self.number is not None or not (large or self.are_adjacent(log)):
            return None
        values = cs.by_name(columns)
        lists = self.rows(log, [values]).group_by(self.group, maintain_order=True).agg(values)
        return lists.select(*self.named, values).set_sorted([*self.names])


class Neighbors:
    """Compares each row of a plan with the previous row, in batches that arrive in any order."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.names: list[str] = [
            *keys.names.values(),
            *([] if keys.number is None else [_RANKING, _KEYS]),
        ]
        #: Rows at the boundaries of batches, by execution and row number: the first row of a batch
        #: or the last row of the previous batch, whichever arrives first, until the other arrives.
        self.ends: dict[tuple[int, int], pl.DataFrame] = {}

    def __call__(self, batch: pl.DataFrame) -> pl.DataFrame:
        """Return the batch; raise `DataError` for a row that is out of order."""
        if batch.is_empty():
            return batch
        rows = batch[self.names]
        self.compare(rows)
        run, start = batch.item(0, RUN), batch.item(0, ROW)
        # A copy: a slice would keep the whole batch in memory.
        ends = pl.concat([rows[:1], rows[-1:]], rechunk=True)
        first, last = ends[:1], ends[1:]
        if start > 0 and (before := self.neighbor(run, start, first)) is not None:
            self.compare(pl.concat([before, first]))
        if (after := self.neighbor(run, start + batch.height, last)) is not None:
            self.compare(pl.concat([last, after]))
        return batch

    def neighbor(self, run: int, row: int, end: pl.DataFrame) -> pl.DataFrame | None:
        """Return the row on the other side of a boundary between batches, if it has arrived."""
        other = self.ends.setdefault((run, row), end)  # atomic, so threads need no lock
        return None if other is end else self.ends.pop((run, row))

    def compare(self, rows: pl.DataFrame) -> None:
        """Raise `DataError` for a row that cannot follow the previous row."""
        after, before, changed = rows[1:], rows[:-1], rows.clear()
        if self.keys.number is None:
            strays = falls([*zip(after.iter_columns(), before.iter_columns(), strict=True)])
        else:  # rows that do not continue the numbers of rankings, or have other keys
            number, previous = after[_RANKING], before[_RANKING]
            strays = (number < previous) | ((number == previous) & (after[_KEYS] != before[_KEYS]))
            has_changed = pl.col(_KEYS) != key_hash(self.keys.names)
            changed = rows.filter(has_changed.fill_null(value=True))
        if changed.is_empty() and not strays.any():
            return
        stray = pl.concat([changed, after.filter(strays)]).row(0, named=True)
        where = {name: stray[own] for name, own in self.keys.names.items()}
        remedy = f"drop the columns that begin with {OWN!r} and sort by the keys"
        message = (
            "the rows are not in the order that scan_log or set_sorted declared, so the rows of a "
            "ranking may not be adjacent; scan all files in one scan_log, or"
            if changed.is_empty()
            else f"the keys {[*self.keys.names]} have changed since scan_log numbered the rankings;"
        )
        raise DataError(f"{message} {remedy}; in the ranking {where}")
