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

#: The number of plans that are kept.
_NUMBER = 64
#: Types of options whose text is their value.
_PLAIN = frozenset({str, int, float, bool, type(None)})
#: Types of other options that do not change, such as metrics. Classes are added where they are
#: defined.
IMMUTABLE: set[type] = set()


#: The number of plans so far that remember what they find in their table.
_REMEMBERING = [0]


def remembers_rows() -> None:
    """Declare that the plan that is being built remembers what it finds in its table."""
    _REMEMBERING[0] += 1


class _Source:
    """A source of rows whose table can be replaced."""

    def __init__(self) -> None:
        self.table = pl.DataFrame()
        self.is_read = False

    def rows(self) -> Iterator[pl.DataFrame]:
        """Yield the table."""
        self.is_read = True
        yield self.table


class Plans:
    """Plans by what they depend on. A plan is in use by one call at a time."""

    def __init__(self) -> None:
        self._kept: dict[Hashable, tuple[_Source, pl.LazyFrame]] = {}
        self._lock = Lock()

    def run(
        self,
        key: Hashable,
        plan: Callable[[pl.LazyFrame], pl.LazyFrame],
        run: Callable[[pl.LazyFrame], pl.DataFrame],
        table: pl.DataFrame,
    ) -> pl.DataFrame:
        """Return the result of a plan for a table.

        The plan is kept unless building it reads the table or issues a warning, or unless the plan
        remembers rows.
        """
        plans = self._kept
        with self._lock:
            kept = plans.pop(key, None)
        if kept is None:
            source, before = _Source(), (errors.number_of_warnings(), _REMEMBERING[0])
            source.table = table
            result = plan(rows_of_source(reading_of(source.rows), table))
            after = errors.number_of_warnings(), _REMEMBERING[0]
            again = not source.is_read and before == after
        else:
            source, result = kept
            source.table, again = table, True
        try:
            return run(result)
        finally:
            source.table = pl.DataFrame()
            if again:
                with self._lock:
                    plans[key] = source, result
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
    kept: list[object] = []
    if options.get("progress") or not _is_constant([*options.values()], kept):
        return None
    identities = tuple(map(_Identity, kept))
    return function, tuple(table.schema.items()), declared_order(table), repr(options), identities


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


class _Identity:
    """An object that equals only itself, and stays in memory with the plan."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.value is other.value
