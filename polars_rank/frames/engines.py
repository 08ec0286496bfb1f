"""How functions are computed from parts of a table, and the engines that compute the parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    import polars as pl

Plan: TypeAlias = "Callable[[pl.LazyFrame], pl.LazyFrame]"


class Mergeable(NamedTuple):
    """A result that is computed from sums over parts of a table.

    Examples
    --------
    >>> import polars as pl
    >>> from polars_rank.frames.engines import Mergeable
    >>> total = Mergeable((), pl.LazyFrame.sum, pl.LazyFrame.sum, lambda sums: sums)
    >>> total(pl.LazyFrame({"clicks": [1, 2]})).collect().item()
    3

    Parameters
    ----------
    together
        Columns that determine the part of a row: rows with the same values are in the same part.
    add_up
        Returns the sums over a part.
    merge
        Returns the sums over several parts, given a table with the sums of each.
    finish
        Returns the result from the sums over all parts.
    """

    together: Sequence[str]
    add_up: Plan
    merge: Plan
    finish: Plan

    def __call__(self, table: pl.LazyFrame) -> pl.LazyFrame:
        """Return the result of a table that is one part."""
        return self.finish(self.add_up(table))


class Separable(NamedTuple):
    """A result whose rows are computed from the rows with the same values in some columns.

    Parameters
    ----------
    together
        These columns, such as the query.
    function
        Returns the rows for a part of a table.
    check
        Raises an error for the whole table, or returns no rows. Default: no check.
    whole
        Returns the rows for the whole table, checked. Default: `function`.
    """

    together: Sequence[str]
    function: Plan
    check: Mergeable | None = None
    whole: Plan | None = None

    def __call__(self, table: pl.LazyFrame) -> pl.LazyFrame:
        """Return the result of a table that is one part."""
        return (self.whole or self.function)(table)


#: What a function of a table returns: its result, or how it is computed from parts.
Computation: TypeAlias = "pl.LazyFrame | Separable | Mergeable"


class EngineFrame(Protocol):
    """A DataFrame of an engine, such as a Spark DataFrame."""

    def mapInArrow(self, func: Any, schema: Any) -> Any:  # noqa: N802  (Spark's own name)
        """Return the result of a function that is called with batches of rows."""


#: Functions that import an engine, by the package of its class `DataFrame`. An engine is a module
#: with the functions of `polars_rank.spark`, which evaluates its own DataFrames lazily, in parts.
#: Engines are registered by the package `polars_rank`, because they import what they run.
ENGINES: dict[str, Callable[[], Any]] = {}


def engine_of(frame: Any) -> Any:
    """Return the engine of a DataFrame; None for tables of Polars and tables in Arrow's format."""
    for kind in type(frame).__mro__:
        for package, load in ENGINES.items():
            if kind.__name__ == "DataFrame" and kind.__module__.startswith(f"{package}."):
                return load()
    return None
