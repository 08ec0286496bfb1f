"""Recall of approximate search against its latency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import public
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot import drawing as draw
from polars_rank.plot.chart_tables import result
from polars_rank.plot.run_styles import groups, labeled, run_columns

if TYPE_CHECKING:
    import altair as alt

    from polars_rank.plot.run_styles import Colors

_COLUMNS = ("k", "recall", "low", "high", "queries", "latency_mean", "latency_p95")
#: The ratio of latencies from which their axis is logarithmic.
_WIDE = 10
#: Pixels at the ends of their axis.
_ROOM = 70


@public
def fidelity(
    table: Any, *, run: str | None = "run", colors: Colors | None = None
) -> alt.LayerChart:
    """Draw the recall of settings of approximate search against their mean latency.

    Examples
    --------
    >>> exact = pl.DataFrame({"query": range(40), "doc": "a", "score": 1.0})
    >>> doc = pl.when(pl.col("query") < pl.col("latency") * 9).then(pl.lit("a"))
    >>> settings = pl.DataFrame({"run": ["ef=10", "ef=50"], "latency": [3.0, 4.0]})
    >>> approximate = settings.join(exact, how="cross").with_columns(
    ...     doc=doc.otherwise(pl.lit("b"))
    ... )
    >>> table = pr.diagnostics.fidelity(exact, approximate, 1, details=True)
    >>> chart = pr.plot.fidelity(table)
    >>> chart.save("fidelity.png")  # doctest: +SKIP

    Parameters
    ----------
    table
        The table that `fidelity` returns with ``details=True``, with latencies.
    run
        Column of the setting. None if there is only one.
    colors
        Mapping from series to colors, such as `{10: "#0072B2"}` for a cutoff.

    Returns
    -------
    altair.LayerChart
        A line per cutoff and group, with a point and an interval per setting, and its name. The
        axis of latencies is logarithmic if the highest is more than 10 times the lowest.

    Raises
    ------
    SchemaError
        If the table has no intervals or no latencies.
    DataError
        If there is nothing to draw.
    """
    draw.altair()
    rows = lazy(table, "table")
    schema = schema_of(rows)
    function = "pr.diagnostics.fidelity(..., details=True) of runs with latencies"
    rows, of_runs = result(rows, _COLUMNS, function), run_columns(schema, run)
    others = [name for name in [*schema][: [*schema].index("k")] if name not in of_runs]
    setting = pl.col(of_runs[0]).cast(pl.String).fill_null("null") if of_runs else pl.lit("")
    points = rows.drop_nulls("latency_mean").cast({"k": pl.Int64}).select(
        *groups([*others, "k"]), "low", "high", "queries", setting.alias("setting"),
        k="k", x="latency_mean", y="recall", p95="latency_p95",
    )  # fmt: skip
    data, runs = labeled(draw.non_empty(collected(points), "y", "recall"), None, colors)
    # The name of a setting is at its highest point.
    is_highest = pl.col("y") == pl.col("y").max().over("setting")
    data = data.sort("run", "x").with_columns(pl.when(is_highest).then("setting").alias("name"))
    (low, high), ks = data.get_column("x").sort()[[0, -1]], data.get_column("k").unique()
    # There is room for the names of settings, to the left of their points.
    scale: dict[str, Any] = {"nice": False, "padding": _ROOM, "zero": False}
    scale |= {"type": "log"} if high > _WIDE * low > 0 else {}
    x = draw.axis("X", "x", "mean latency", scale=scale)
    y = draw.means(f"recall@{ks[0] if len(ks) == 1 else 'k'}", data)
    tips = draw.tooltip(
        ("setting", "setting"), ("y", "recall", ".4f"), *draw.INTERVAL,
        ("x", "mean latency", ".4~g"), ("p95", "95th percentile", ".4~g"), of=runs, data=data,
    )  # fmt: skip
    text = draw.altair().Text(field="name", type="nominal")
    left = {"dx": -8, "dy": -5, "align": "right"}
    names = draw.layer("text", left, where="isValid(datum.name)", x=x, y=y, text=text)
    note = " · a line for each k" if len(ks) > 1 else ""
    return draw.layered(
        data, [*draw.lines(data, runs, x, y, tips), names], title="Recall and latency of settings",
        subtitle=[f"{draw.counted(data.get_column('queries'))}{note} · confidence interval"],
    )  # fmt: skip
