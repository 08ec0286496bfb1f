"""A metric over time."""

from __future__ import annotations

from datetime import time as clock
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import public
from polars_rank.errors import ArgumentError, number_of
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot import drawing as draw
from polars_rank.plot.chart_tables import NOTHING, column_of, keys_of, only_metric, result
from polars_rank.plot.run_styles import groups, labeled, run_columns

if TYPE_CHECKING:
    import altair as alt

    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.run_styles import Colors, Runs

#: Maximum days for ticks with the hour, for one tick per day, and for ticks without the year.
_FEW, _DAYS, _YEAR = 3, 10, 366
#: Maximum number of points that are kept per step.
_KEPT = 4


@public
def over_time(
    table: Any,
    metric: str | Metric | None = None,
    *,
    time: str = "day",
    run: str | None = "run",
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw the mean of a metric over time, with a confidence band.

    Examples
    --------
    >>> from datetime import date
    >>> number = pl.format("{}d", pl.col("query") % 5)
    >>> day = pl.lit(date(2026, 1, 1)).dt.offset_by(number)
    >>> log = pr.datasets.search_log(500).with_columns(day=day)
    >>> values = pr.per_query(log, "ndcg@10", by=["run", "day"])
    >>> summary = pr.summarize(values, by="day")
    >>> chart = pr.plot.over_time(summary, baseline="bm25")
    >>> chart.save("days.png")  # doctest: +SKIP

    Parameters
    ----------
    table
        The table that `summarize` returns by time, or the table of `evaluate`, without intervals.
    metric
        The metric to draw; None if there is only one.
    time
        Column of dates, datetimes, numbers, or text with ISO 8601 dates.
    run
        Column of the run. None for one series.
    baseline
        Run that the others are compared with, drawn first, in gray.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        If the table has too many rows, only the first, last, highest and lowest points of each time
        step are kept; other points would not be visible.

    Raises
    ------
    ArgumentError
        If there are several rows for one time and run.
    DataError
        If there is nothing to draw.
    """
    draw.altair()
    rows = lazy(table, "table")
    schema = schema_of(rows)
    columns = run_columns(schema, run, time=time)
    rows = result(rows, ("queries",), f"pr.summarize(by={time!r})", optional=("confidence",))
    if "metric" in schema:
        rows = result(rows, ("mean", "low", "high"), "pr.summarize")
        (name, rows), value = only_metric(rows, metric), "mean"
        others = [key for key in keys_of(schema, columns) if key != time]
    else:
        name = value = column_of(schema, metric, ("queries", time, *columns))
        rows, others = rows.with_columns(low=NOTHING, high=NOTHING), []
    y = pl.col(value).cast(pl.Float64).alias("y")
    selected = collected(
        rows.select(*groups(columns), "queries", "confidence", "low", "high", y, x=time)
    )
    level = draw.confidence_text(selected.get_column("confidence"))
    data = selected.filter(pl.col("x").is_not_null()).drop("confidence")
    data, runs = labeled(draw.non_empty(data, "y", name), baseline, colors)
    if data.select(pl.struct("x", "run").is_duplicated().any()).item():
        raise ArgumentError(
            f"several rows for one value of {time!r}; set `run`"
            + (f", or filter the table to one value of {others}" if others else "")
        )
    data, kind = _with_times(data)
    data = _thinned(data, runs, kind).sort("run", "x")
    has_bounds = data.get_column("low").is_not_null().any()
    form = {"format": "%Y-%m-%d %H:%M"} if kind == "temporal" else {}
    tips = [
        draw.altair().Tooltip(field="x", type=kind, title=draw.escaped(time), **form),
        *draw.tooltip(("y", draw.mean_title(name), ".4f"), *draw.INTERVAL, of=runs, data=data),
    ]
    x = draw.axis("X", "x", time, type=kind, **_ticks(data, kind))
    means = draw.means(draw.mean_title(name), data)
    note = f"{draw.counted(data.get_column('queries'))} per point"
    without = selected.height - selected.get_column("x").count()
    omitted = f"{number_of(without, 'row')} with null {time} omitted" if without else ""
    return draw.layered(
        data,
        draw.lines(data, runs, x, means, tips),
        title=f"{draw.mean_title(name, capital=True)} over time",
        subtitle=[note + (f" · {level}" if has_bounds else ""), omitted],
        width=560,
    )


def _with_times(data: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return the table with times in Altair's types, and the type."""
    times, kind = data.get_column("x"), "temporal"
    if times.dtype.is_numeric():
        return data, "quantitative"
    if times.dtype == pl.Datetime:
        times = times.dt.replace_time_zone(None)
    elif times.dtype != pl.Date:
        text = times.cast(pl.String)
        dates = text.str.to_date("%Y-%m-%d", strict=False)
        times, kind = (text, "ordinal") if dates.null_count() else (dates, kind)
    return data.with_columns(times if kind == "ordinal" else times.cast(pl.Datetime("ms"))), kind


def _thinned(data: pl.DataFrame, runs: Runs, kind: str) -> pl.DataFrame:
    if data.height <= draw.ROWS:
        return data
    if kind == "ordinal":
        raise ArgumentError(
            f"the chart would have {data.height:,} points, more than {draw.ROWS:,}; convert the "
            "time column to dates, e.g. with .str.to_date()"
        )
    x = pl.col("x").to_physical().cast(pl.Float64)
    marked = data.lazy().with_columns(place=(x - x.min()) / (x.max() - x.min()))
    steps = max(1, draw.ROWS // (_KEPT * len(runs.labels)))
    few = draw.thinned(marked, ["run"], pl.col("place"), order="x", ys=["y"], steps=steps)
    return collected(few.drop("place"), few=True)


def _ticks(data: pl.DataFrame, kind: str) -> dict[str, Any]:
    """Return the format of ticks, such as "Jan 3" for a range of up to a year."""
    times = data.get_column("x")
    if times.dtype.is_integer():
        return {"format": "d", "tickMinStep": 1}
    if kind != "temporal":
        return {}
    days = (max(times) - min(times)).days
    if days > _YEAR:
        return {}
    if days <= _FEW and (times.dt.time() != clock(0)).any():
        return {"format": "%b %-d %H:%M", "tickCount": 6}
    return {"format": "%b %-d", **({"tickCount": "day"} if days <= _DAYS else {})}
