"""Columns, metrics and keys of the tables that the library returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, SchemaError, hint
from polars_rank.frames.tables import collected, schema_of
from polars_rank.frames.typed_results import NUMBER, TEXT, typed
from polars_rank.metrics.names import listed, output_name
from polars_rank.stats.comparison import COMPARISON
from polars_rank.stats.leaderboards import LEADERBOARD
from polars_rank.stats.result_columns import schema_of_result
from polars_rank.stats.summary import SUMMARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Columns of `summarize`, `compare`, `tie_bands` and `judgment_bounds` other than their keys.
_RESULTS = frozenset({
    "metric", "baseline", *schema_of_result((*SUMMARY, *COMPARISON)),
    "expected", "tied_rankings", "tied_documents", "judged",
})  # fmt: skip
#: Types of the columns of results that charts read; the others are numbers.
_TYPES = {
    **schema_of_result((*SUMMARY, *COMPARISON, *LEADERBOARD)), "metric": TEXT, "baseline": TEXT
}  # fmt: skip

#: A missing bound of an interval.
NOTHING = pl.lit(None, dtype=pl.Float64)


def result(
    rows: pl.LazyFrame, columns: Iterable[str], function: str, optional: Iterable[str] = ()
) -> pl.LazyFrame:
    """Return the table of a function, with its types; raise `SchemaError` for another table.

    Optional columns that the table does not have are null.
    """
    schema = schema_of(rows)
    missing = [name for name in columns if name not in schema]
    if missing:
        raise SchemaError(
            f"column {missing[0]!r} (`table`) not found; pass the table that {function} "
            f"returns; available: {', '.join(map(repr, schema)) or 'none'}"
        )
    types = {name: _TYPES.get(name, NUMBER) for name in (*columns, *optional)}
    nothing = (pl.lit(None, types[name]).alias(name) for name in optional if name not in schema)
    return typed(rows, "table", types).with_columns(nothing)


def keys_of(schema: pl.Schema, runs: Sequence[str]) -> list[str]:
    """Return the group columns of a table, other than those of runs."""
    return [name for name in schema if name not in {*_RESULTS, *runs}]


def column_of(schema: pl.Schema, metric: Any, taken: Sequence[str]) -> str:
    """Return the column of the metric, by name or as the only float column."""
    if metric is not None:
        name = metric if isinstance(metric, str) else output_name(metric)
        Columns.find(schema, {"metrics": name}, parameters={"metrics": "metric"})
        return name
    floats = [name for name, dtype in schema.items() if dtype.is_float() and name not in taken]
    if len(floats) == 1:
        return floats[0]
    message = f"set `metric` to the column to draw; float columns: {floats}"
    raise ArgumentError(message) if floats else SchemaError(message)


def rows_of_metrics(rows: pl.LazyFrame, metrics: Any, parameter: str = "metrics") -> pl.LazyFrame:
    """Return the rows of some metrics, given by name or as metrics; None for all."""
    if metrics is None:
        return rows
    metrics = listed(metrics, parameter)
    requested = [each if isinstance(each, str) else output_name(each) for each in metrics]
    available = _metrics_of(rows)
    for name in requested:
        if name not in available:
            raise ArgumentError(
                f"metric {name!r} (`{parameter}`) not found; available: "
                f"{', '.join(map(repr, available))}.{hint(name, available)}"
            )
    return rows.filter(pl.col("metric").is_in(requested))


def only_metric(rows: pl.LazyFrame, metric: Any) -> tuple[str, pl.LazyFrame]:
    """Return the name of the metric to draw, and its rows."""
    rows = rows_of_metrics(rows, metric, "metric")
    available = _metrics_of(rows)
    if len(available) > 1:
        raise ArgumentError(f"a chart shows one metric; set `metric` to one of {available}")
    return (available[0] if available else "metric"), rows


def _metrics_of(rows: pl.LazyFrame) -> list[str]:
    """Return the names of the metrics of a table with one row per metric."""
    return collected(rows.select(pl.col("metric").unique(maintain_order=True)))["metric"].to_list()
