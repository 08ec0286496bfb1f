"""`merge`: results of the parts of a log, such as days, added up to the result of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

import polars as pl

from polars_rank._params import public
from polars_rank.errors import ArgumentError, DataError, SchemaError, short
from polars_rank.frames.engines import Mergeable, engine_of
from polars_rank.frames.tables import collected, is_table, lazy, schema_of
from polars_rank.stats.moments import of_moments

if TYPE_CHECKING:
    from polars_rank.frames.tables import E, Table


@overload
def merge(tables: pl.LazyFrame | Iterable[pl.LazyFrame]) -> pl.LazyFrame: ...


@overload
def merge(tables: E | Iterable[E]) -> E: ...


@overload
def merge(tables: Table | Iterable[Table]) -> pl.DataFrame: ...


@overload
def merge(tables: Iterable[pl.LazyFrame | Table]) -> pl.LazyFrame | pl.DataFrame: ...


@public
def merge(tables: Any) -> Any:
    """Merge moments of parts into those of the whole.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> monday = pl.DataFrame({"query": [1, 2], "rr": [1.0, 0.5]})
    >>> tuesday = pl.DataFrame({"query": [3], "rr": [0.0]})
    >>> week = pr.merge([pr.moments(monday), pr.moments(tuesday)])
    >>> pr.summarize(week).get_column("mean").item()
    0.5

    Parameters
    ----------
    tables
        Results of `moments`, one for each part. Or one table with the rows of several results.
        Results of `merge` can be merged again.

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
    A ranking must not be in several parts.
    """
    single = is_table(tables) or engine_of(tables) is not None
    if not single and (not isinstance(tables, Iterable) or isinstance(tables, str)):
        raise ArgumentError(f"`tables` must be a table or a list of tables; found {short(tables)}")
    parts = [tables] if single else [*tables]
    if not parts:
        raise ArgumentError("`tables` is empty; pass at least one result of `moments`")
    engine, *others = {engine_of(each): None for each in parts}
    if others:
        raise ArgumentError(
            "`tables`: cannot merge Spark DataFrames with other tables; pass their .toArrow()"
        )
    if engine is not None:
        state = _state([engine.schema_of(each) for each in parts])
        return engine.run(lambda _: state, engine.concat(parts), {})
    frames = [lazy(each, "tables") for each in parts]
    result = _state([schema_of(each) for each in frames])(pl.concat(frames))
    return result if any(isinstance(each, pl.LazyFrame) for each in parts) else collected(result)


def _state(schemas: Sequence[pl.Schema]) -> Mergeable:
    """Return how tables with these schemas are merged; raise if they are no results, or differ."""
    state, *_ = [_of_results(schema) for schema in schemas]
    for schema in schemas:
        if schema != schemas[0]:
            differ = sorted({*schema.items()} ^ {*schemas[0].items()}, key=str)
            found = ", ".join(dict.fromkeys(repr(name) for name, _ in differ))
            raise DataError(
                "the tables (`tables`) have different columns, such as groups, metrics, weights or "
                f"clusters: {found or 'another order'}; compute all with the same parameters and "
                "version of polars_rank"
            )
    return state


def _of_results(schema: pl.Schema) -> Mergeable:
    state = of_moments(schema)
    if state is None:
        raise SchemaError("the tables (`tables`) must be results of `moments` or `merge`")
    return state
