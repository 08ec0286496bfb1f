"""A metric over time."""

from __future__ import annotations

from datetime import time as clock
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.columns import RUN
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot.drawing import (
    ROWS,
    altair,
    axis,
    counted,
    escaped,
    layered,
    lines,
    means,
    something,
    tooltip,
)
from polars_rank.plot.runs import groups, harmless_texts, labelled, run_columns
from polars_rank.plot.tables import check_columns, column_of, keys_of, only_metric
from polars_rank.plot.thinning import thinned

if TYPE_CHECKING:
    import altair as alt

    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors, Runs

#: Days whose ticks say the hour, those of which each has a tick, and those that say no year.
_FEW, _DAYS, _YEAR = 3, 10, 366
#: Points of a step that are kept at most.
_KEPT = 4


def over_time(
    table: Any,
    metric: str | Metric | None = None,
    *,
    time: str = "day",
    run: str | None = RUN,
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """A metric over time, with its interval or confidence sequence as a band.

    Parameters
    ----------
    table
        What `summarize` returns by time (and run), whatever its `interval`; or `evaluate`, which
        has no interval.
    metric
        The metric to draw; None if there is one only.
    time
        The column of time: dates, times, numbers, or text in ISO's form of dates.
    run, baseline, colors
        As for `pr.plot.at_k`.

    Returns
    -------
    altair.LayerChart
        Of more points than fit, those are kept that are first, last, highest and lowest in each of
        equal steps of time.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `pr.plot.intervals`.

    Examples
    --------
    >>> from datetime import date
    >>> log = pr.datasets.search_log(50).with_columns(
    ...     day=pl.lit(date(2026, 1, 1)).dt.offset_by(pl.format("{}d", pl.col("query") % 5))
    ... )
    >>> lists = pr.per_query(log, "ndcg@10", by=["run", "day"])
    >>> chart = pr.plot.over_time(pr.summarize(lists, by=["run", "day"]))
    >>> chart.save("days.png")  # doctest: +SKIP
    """
    altair()
    rows = lazy(table)
    schema = schema_of(rows)
    check_columns(schema, (time, "queries"), f"pr.summarize(by={time!r})")
    columns = run_columns(schema, run, time)
    nothing = pl.lit(None, dtype=pl.Float64)
    ends, value = {"low": nothing, "high": nothing}, ""
    if "metric" in schema:
        check_columns(schema, ("mean", "low", "high"), "pr.summarize")
        (name, rows), value = only_metric(rows, metric), "mean"
        ends = {"low": pl.col("low"), "high": pl.col("high")}
        others = [key for key in keys_of(schema, columns) if key != time]
    else:
        name = value = column_of(schema, metric, ("queries", time, *columns))
        others = []
    picked = collected(
        rows.select(*groups(columns), "queries", x=time, y=pl.col(value).cast(pl.Float64), **ends)
    )
    found = picked.filter(pl.col("x").is_not_null())
    found, runs = labelled(
        harmless_texts(something(found, "y", name)), baseline=baseline, colors=colors, needed=True
    )
    if found.select(pl.struct("x", "run").is_duplicated().any()).item():
        message = f"there are several rows for one {time!r}; split the chart with `run`" + (
            f", or choose one value of {others}" if others else ""
        )
        raise ArgumentError(message, "run")
    found, kind = _timely(found)
    found = _fitting(found, runs, kind).sort("run", "x")
    known = found.get_column("low").is_not_null().any()
    bounds = [("low", "low", ".4f"), ("high", "high", ".4f")] if known else []
    tips = [
        _moment(kind, time),
        *tooltip(
            ("y", f"mean {name}", ".4f"), *bounds, ("queries", "queries", ",d"), of=runs
        ),
    ]  # fmt: skip
    x = axis("X", "x", time, type=kind, **_ticks(found, kind))
    y = means(f"mean {name}", found)
    told = f"{counted(found.get_column('queries'))} per point"
    without = picked.height - picked.get_column("x").count()
    left_out = f"{counted([without], 'rows')} without a {time} left out" if without else ""
    return layered(
        found,
        lines(found, runs, x, y, tips),
        title=f"{name} over time",
        told=[told + (" · band: interval, from low to high" if known else ""), left_out],
        width=560,
    )


def _timely(found: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return the table with times as charts take them, and of what kind they are."""
    dtype, x = found.schema["x"], pl.col("x")
    if isinstance(dtype, pl.Datetime):
        return found.with_columns(x.dt.replace_time_zone(None).cast(pl.Datetime("ms"))), "temporal"
    if dtype == pl.Date:
        return found.with_columns(x.cast(pl.Datetime("ms"))), "temporal"
    if dtype.is_numeric():
        return found, "quantitative"
    text = found.with_columns(x.cast(pl.String))
    date = text.get_column("x").str.to_date("%Y-%m-%d", strict=False)
    if not date.null_count():
        return text.with_columns(date.cast(pl.Datetime("ms")).alias("x")), "temporal"
    return text, "ordinal"


def _fitting(found: pl.DataFrame, runs: Runs, kind: str) -> pl.DataFrame:
    if found.height <= ROWS:
        return found
    if kind == "ordinal":
        message = (
            f"the chart would have {found.height:,} points, more than {ROWS:,}; make dates of the "
            "column of time, as with .str.to_date()"
        )
        raise ArgumentError(message)
    x = pl.col("x").to_physical().cast(pl.Float64)
    place = (x - x.min()) / (x.max() - x.min())
    steps = max(1, ROWS // (_KEPT * len(runs.labels)))
    marked = found.lazy().with_columns(place=place)
    few = thinned(marked, ["run"], pl.col("place"), order="x", ys=["y"], steps=steps)
    return collected(few.drop("place"), few=True)


def _ticks(found: pl.DataFrame, kind: str) -> dict[str, Any]:
    """Return how times are written: whole numbers as such, days of up to a year as "Jan 31"."""
    times = found.get_column("x")
    if times.dtype.is_integer():
        return {"format": "d", "tickMinStep": 1}
    if kind != "temporal":
        return {}
    days = (max(times) - min(times)).days
    if days > _YEAR:
        return {}
    if days <= _FEW and (times.dt.time() != clock(0)).any():
        return {"format": "%b %d %H:%M", "tickCount": 6}
    return {"format": "%b %d", **({"tickCount": "day"} if days <= _DAYS else {})}


def _moment(kind: str, title: str) -> Any:
    alt = altair()
    known = {"format": "%Y-%m-%d %H:%M"} if kind == "temporal" else {}
    return alt.Tooltip(field="x", type=kind, title=escaped(title), **known)
