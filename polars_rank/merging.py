"""`merge`: results of the parts of a log, such as days, added up to the result of the whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, overload

import polars as pl

from polars_rank._params import public
from polars_rank.catalog import exposures
from polars_rank.errors import ArgumentError, DataError, SchemaError, short
from polars_rank.frames.tables import (
    collected,
    is_spark,
    is_table,
    lazy,
    run_on_spark,
    schema_of,
)
from polars_rank.stats import moment_tables, moments

if TYPE_CHECKING:
    from polars_rank.frames.tables import Spark, Table


class Mergeable(Protocol):
    """A result that is computed from sums over parts of a log."""

    def add_up(self, log: pl.LazyFrame, /) -> pl.LazyFrame:
        """Return the sums over a part."""

    def merge(self, parts: pl.LazyFrame, /) -> pl.LazyFrame:
        """Return the sums over several parts."""

    def finish(self, sums: pl.LazyFrame, /) -> pl.LazyFrame:
        """Return the result from the sums."""


@overload
def merge(tables: pl.LazyFrame | Iterable[pl.LazyFrame]) -> pl.LazyFrame: ...


@overload
def merge(tables: Spark | Iterable[Spark]) -> Spark: ...


@overload
def merge(tables: Table | Iterable[Table]) -> pl.DataFrame: ...


@overload
def merge(tables: Iterable[pl.LazyFrame | Table]) -> pl.LazyFrame | pl.DataFrame: ...


@public
def merge(tables: Any) -> Any:
    """Merge moments or exposures of parts into those of the whole.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> monday = pl.DataFrame({"query": [1, 2], "rr": [1.0, 0.5]})
    >>> tuesday = pl.DataFrame({"query": [3], "rr": [0.0]})
    >>> week = pr.merge([pr.moments(monday), pr.moments(tuesday)])
    >>> pr.summarize(week).get_column("mean").item()
    0.5
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2, 2], "doc": ["a", "b", "a", "c"],
    ...     "score": [2.0, 1.0, 2.0, 1.0],
    ... })
    >>> pr.merge([pr.catalog.exposure(log.filter(query=day)) for day in (1, 2)])
    shape: (3, 4)
    ┌─────┬─────────────┬──────────┬───────┐
    │ doc ┆ impressions ┆ exposure ┆ share │
    │ --- ┆ ---         ┆ ---      ┆ ---   │
    │ str ┆ u32         ┆ f64      ┆ f64   │
    ╞═════╪═════════════╪══════════╪═══════╡
    │ a   ┆ 2           ┆ 2.0      ┆ 0.5   │
    │ b   ┆ 1           ┆ 1.0      ┆ 0.25  │
    │ c   ┆ 1           ┆ 1.0      ┆ 0.25  │
    └─────┴─────────────┴──────────┴───────┘

    Parameters
    ----------
    tables
        Results of `moments`, or of `catalog.exposure`, one for each part. Or one table with the
        rows of several results. Results of `merge` can be merged again.

    Returns
    -------
    LazyFrame or DataFrame
        The same columns, for the whole log; up to rounding. A LazyFrame if any of the tables is
        one.

    Raises
    ------
    DataError
        Moments of a part are merged twice, or parts have different columns. Raised when the result
        is collected.
    SchemaError
        The tables are not such results.

    Notes
    -----
    A ranking must not be in several parts. Exposures of a part that is merged twice are not found.

    Groups remain apart: to add up the exposures of runs, drop the column of the run.
    """
    given = [tables] if is_table(tables) or is_spark(tables) else tables
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise ArgumentError(f"`tables` must be a table or a list of tables; found {short(tables)}")
    parts = [*given]
    if not parts:
        raise ArgumentError("`tables` is empty; pass at least one result of `moments`")
    if any(map(is_spark, parts)):
        if not all(map(is_spark, parts)):
            raise ArgumentError(
                "`tables`: cannot merge Spark DataFrames with other tables; pass their .toArrow()"
            )
        return run_on_spark(merge, parts)
    frames = [lazy(each, "tables") for each in parts]
    result = merged(frames)
    return result if any(isinstance(each, pl.LazyFrame) for each in parts) else collected(result)


#: Tables that can be merged: how the schema shows them, and how equal schemas are merged.
_KINDS = (
    (moment_tables.is_moments, moments.merged),
    (exposures.is_exposures, exposures.merged),
)


def merged(frames: Sequence[pl.LazyFrame]) -> pl.LazyFrame:
    """Return the result of the whole, given the results of parts."""
    schemas = [schema_of(each) for each in frames]
    add_up, *_ = [_added_up(schema) for schema in schemas]
    for schema in schemas:
        if schema != schemas[0]:
            differ = sorted({*schema.items()} ^ {*schemas[0].items()}, key=str)
            found = ", ".join(dict.fromkeys(repr(name) for name, _ in differ))
            raise DataError(
                "the tables (`tables`) have different columns, such as groups, metrics, weights or "
                f"clusters: {found or 'another order'}; compute all with the same parameters"
            )
    return add_up(frames)


def _added_up(schema: pl.Schema) -> Callable[[Sequence[pl.LazyFrame]], pl.LazyFrame]:
    """Return the function that merges tables of a schema."""
    for is_kind, add_up in _KINDS:
        if is_kind(schema):
            return add_up
    raise SchemaError(
        "the tables (`tables`) must be results of `moments`, `catalog.exposure` or `merge`"
    )
