"""What is in the tables that the library returns: their columns, metrics and keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import check_there
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.frames.tables import collected
from polars_rank.metrics.names import output_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: What `summarize`, `compare`, `tie_bands` and `judgment_bounds` return beside their keys.
RESULTS = frozenset({
    *("metric", "queries", "undefined", "mean", "std", "std_error", "low", "high"),
    *("baseline_mean", "difference", "relative_difference", "p_value", "p_corrected"),
    *("effect_size", "wins", "ties", "losses", "missing", "warning"),
    *("best", "expected", "worst", "tied_lists", "tied_documents", "lower", "upper", "judged"),
})  # fmt: skip


def check_columns(schema: pl.Schema, columns: Iterable[str], made_by: str) -> None:
    """Raise `SchemaError` for a table of another kind than the one that is drawn."""
    missing = [name for name in columns if name not in schema]
    if missing:
        message = (
            f"the table has no column {missing[0]!r}; give it what {made_by} returns. It has "
            f"{', '.join(map(repr, schema)) or 'none'}"
        )
        raise SchemaError(message)


def keys_of(schema: pl.Schema, runs: Sequence[str]) -> list[str]:
    """Return the columns that split a table, other than those of runs."""
    own = {*RESULTS, *runs}
    return [name for name in schema if name not in own and not re.fullmatch(r"q[\d.]+", name)]


def column_of(schema: pl.Schema, metric: Any, taken: Sequence[str]) -> str:
    """Return the column of the metric of a table: that named, or the only one of floats."""
    if metric is not None:
        name = metric if isinstance(metric, str) else output_name(metric)
        check_there("metric", name, schema)
        if not (schema[name].is_numeric() or schema[name] == pl.Null):
            message = f"the column {name!r} (`metric`) must be numeric; found {schema[name]}"
            raise SchemaError(message, "metric")
        return name
    found = [name for name, dtype in schema.items() if dtype.is_float() and name not in taken]
    if len(found) == 1:
        return found[0]
    message = f"name the column to draw with `metric`; those of floats are {found}"
    raise ArgumentError(message, "metric") if found else SchemaError(message, "metric")


def chosen(rows: pl.LazyFrame, metrics: Any) -> pl.LazyFrame:
    """Return the rows of some metrics, by their names or as metrics; None for all."""
    if metrics is None:
        return rows
    several = [metrics] if isinstance(metrics, (str, pl.Expr)) else [*metrics]
    wanted = [each if isinstance(each, str) else output_name(each) for each in several]
    there = metrics_of(rows)
    for name in wanted:
        if name not in there:
            message = f"the table has no metric {name!r}; it has {there}"
            raise ArgumentError(message)
    return rows.filter(pl.col("metric").is_in(wanted))


def only_metric(rows: pl.LazyFrame, metric: Any) -> tuple[str, pl.LazyFrame]:
    """Return the name of the metric to draw, and its rows."""
    rows = chosen(rows, metric)
    there = metrics_of(rows)
    if len(there) > 1:
        message = f"a chart is of one metric; name it with `metric`; the table has {there}"
        raise ArgumentError(message, "metric")
    return (there[0] if there else "metric"), rows


def metrics_of(rows: pl.LazyFrame) -> list[str]:
    """Return the names of the metrics of a table with a row for each."""
    return collected(rows.select(pl.col("metric").unique(maintain_order=True)))["metric"].to_list()
