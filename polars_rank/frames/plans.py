"""Plans of small tables that are built once and run for many tables.

Building the plan of a small table takes longer than running it. A plan depends on the function, on
its options, and on the schema and the declared order of the table, but not on the rows: it scans a
source whose table is replaced for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from threading import Lock
from typing import Any

import polars as pl

from polars_rank import errors
from polars_rank._polars import declared_order, rows_of_source
from polars_rank.frames.batches import reading_of
from polars_rank.frames.engines import Plan

#: The number of plans that are kept.
_NUMBER = 64
#: Types of options whose text is their value.
_PLAIN = frozenset({str, int, float, bool, type(None)})
#: Types of other options that do not change, such as metrics. Classes are added where they are
#: defined.
IMMUTABLE: set[type] = set()


class _Source:
    """A source of rows whose table can be replaced."""

    def __init__(self, table: pl.DataFrame) -> None:
        self.table = table
        self.is_read = False

    def rows(self) -> Iterator[pl.DataFrame]:
        """Yield the table."""
        self.is_read = True
        yield self.table


class Plans:
    """Plans by what they depend on. A plan is in use by one call at a time."""

    def __init__(self) -> None:
        #: The source and the result of plans, and the functions that built them: their options
        #: stay in memory, so that no other object gets the same id.
        self._kept: dict[Hashable, tuple[_Source, pl.LazyFrame, Plan]] = {}
        self._lock = Lock()

    def run(
        self,
        key: Hashable,
        plan: Plan,
        run: Callable[[pl.LazyFrame], pl.DataFrame],
        table: pl.DataFrame,
    ) -> pl.DataFrame:
        """Return the result of a plan for a table.

        The plan is kept unless building it reads the table or makes it unfit for other rows.
        """
        plans = self._kept
        with self._lock:
            kept = plans.pop(key, None)
        if kept is None:
            source, is_reusable = _Source(table), errors.REUSABLE.get()
            errors.REUSABLE.set(True)
            result = plan(rows_of_source(reading_of(source.rows), table))
            again = errors.REUSABLE.get() and not source.is_read
            errors.REUSABLE.set(is_reusable and again)
        else:
            source, result, plan = kept
            source.table, again = table, True
        try:
            return run(result)
        finally:
            source.table = pl.DataFrame()
            if again:
                with self._lock:
                    plans[key] = source, result, plan
                    if len(plans) > _NUMBER:
                        del plans[next(iter(plans))]

    def clear(self) -> None:
        """Forget all plans, also those in use."""
        self._kept = {}


#: The plans of this process.
PLANS = Plans()


def key_of(
    function: Callable[..., Any], table: pl.DataFrame, options: Mapping[str, Any]
) -> Hashable | None:
    """Return what a plan depends on; None if an option may change without a new value."""
    objects: list[object] = []
    records = options.get("progress") or errors.RECORD.get() is not None
    if records or not _is_constant([*options.values()], objects):
        return None
    schema, ids = tuple(table.schema.items()), tuple(map(id, objects))
    return function, schema, declared_order(table), repr(options), ids


def _is_constant(value: Any, objects: list[object]) -> bool:
    """Return whether a value cannot change; append the objects whose text is not their value."""
    kind = type(value)
    if kind is list or kind is tuple:
        return all(_is_constant(each, objects) for each in value)
    if kind is dict:
        return _is_constant([*value.keys(), *value.values()], objects)
    if kind in IMMUTABLE:
        objects.append(value)
        return True
    return kind in _PLAIN
