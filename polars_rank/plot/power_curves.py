"""Power by the number of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import positive, public
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.plot import drawing as draw
from polars_rank.plot.runs import groups, labeled_pairs
from polars_rank.plot.statistics_tables import name_of
from polars_rank.stats._arrays import numpy
from polars_rank.stats.designs import Design
from polars_rank.stats.planning import Power, planned

if TYPE_CHECKING:
    import altair as alt

    from polars_rank._params import Names
    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors, Runs

#: Points of a curve.
_POINTS = 60
#: The range of the axis: from this part of the fewest queries, and to this multiple of the most.
_FIRST, _LAST = 1 / 8, 2
#: Curves end at this multiple of the queries of the table, even if more are needed.
_MOST = 1_000
#: Fewer units than this have no variance.
_FEWEST = 2


@public
def power(
    values: Any,
    metric: str | Metric | None = None,
    *,
    baseline: Any = None,
    difference: float | None = None,
    run: str = "run",
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw the power to detect a difference by the number of queries, one curve for each run.

    Examples
    --------
    >>> values = pr.per_query(pr.datasets.search_log(200), "ndcg@10", by="run")
    >>> chart = pr.plot.power(values, baseline="bm25", difference=0.02)
    >>> chart.save("power.png")  # doctest: +SKIP

    Parameters
    ----------
    values
        Per-query values of several runs, as for `power`.
    metric
        The metric; None if there is only one.
    baseline
        Run that the others are compared with. Default: all pairs of runs.
    difference
        The difference of means to detect, above 0. Default: the observed one.
    run
        Column of the run.
    query
        Column or columns that identify the query.
    weight
        Column of weights, 0 or more, such as the traffic of the query.
    cluster
        Columns that identify the sampling unit, such as the user.
    power
        Power that is drawn as a dashed line. It is between 1 - `confidence` and 1.
    confidence
        Confidence level. It is that of the bands; 1 minus it is the significance level of the test.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        The points are the power of the queries in `values`. The bands are confidence intervals:
        `values` are a sample of queries, and the queries that `power` needs are uncertain as
        `needed_low` and `needed_high` of `power` show.

    Raises
    ------
    DataError
        If there is nothing to draw: all differences are equal, or the difference to detect is 0.
    MissingExtraError
        scipy is not installed (extra "stats").
    """
    draw.altair()
    design = Design.of(power, confidence)
    if difference is not None:
        positive("difference", difference)
    table = lazy(values, "values")
    if metric is not None:
        Columns.find(schema_of(table), {"metric": name_of(metric)})
    source, rows_of = planned(
        table, None if metric is None else [metric], baseline, is_pairs=True, query=query, run=run,
        by=None, weight=weight, cluster=cluster, predictions=None,
    )  # fmt: skip
    with numpy().errstate(all="ignore"):
        plan = Power(rows_of(), design, difference)
    keys = plan.rows.keys
    names = list(dict.fromkeys(key.metric for key in keys))
    if len(names) > 1:
        raise ArgumentError(f"a chart shows one metric; set `metric` to one of {names}")
    if len({key.group for key in keys}) > 1:
        raise ArgumentError(
            f"a chart shows the values of one judge; filter the table to one value of {source.by}"
        )
    points = _points(plan)
    if not points.height:
        raise DataError(
            "nothing to draw: all differences are equal, or there is none to detect; set "
            "`difference`"
        )
    drawn = [keys[place] for place in points.get_column("place")]
    compared = pl.DataFrame({"run": [key.run for key in drawn]}).select(groups(["run"]))
    data, runs, versus = labeled_pairs(
        pl.concat([points.drop("place"), compared], how="horizontal"),
        pl.Series([key.baseline for key in drawn]), colors,
    )  # fmt: skip
    data = data.sort("run", "x")
    size = "the observed difference" if difference is None else f"a difference of {difference:g}"
    return draw.layered(
        data,
        _layers(data, runs, power),
        title=f"Power to detect {size} in {draw.metric_title(names[0])}"
        + ("" if versus is None else f" from {versus}"),
        subtitle=[
            f"points: the queries of the table · dashed line: power of {100 * power:g}%",
            f"bands: {draw.confidence_text([confidence])}s"
            if len(runs.labels) <= draw.FILLED
            else "",
        ],
    )


def _points(plan: Power) -> pl.DataFrame:
    """Return the power of each row, and its interval, by the number of queries."""
    queries = [int(each) for each in plan.queries]
    needed = [each["needed"] for each in plan.solutions]
    ends = [min(each, _MOST * max(queries)) for each in (*needed, *queries) if each]
    first, last = max(min(ends) * _FIRST, 2.0), max(ends) * _LAST
    ratio = (last / first) ** (1 / (_POINTS - 1))
    numbers = {round(first * ratio**step) for step in range(_POINTS)}
    rows = []
    for place, own in enumerate(queries):
        effects = plan.effects(place)
        for number in sorted({*numbers, own}) if effects else ():
            units = number * float(plan.units[place]) / own
            if units >= _FEWEST:
                powers = [plan.design.power_of(units, each) for each in effects or ()]
                rows.append((place, number, *powers, number == own))
    columns = ["place", "x", "high", "y", "low", "own"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def _layers(data: pl.DataFrame, runs: Runs, power: float) -> list[Any]:
    x = draw.axis("X", "x", "queries", format=",d", scale={"type": "log", "nice": False})
    y = draw.axis("Y", "y", "power", format="%", scale={"domain": [0, 1]})
    tips = draw.tooltip(
        ("x", "queries", ",d"), ("y", "power", ".1%"), ("low", "low", ".1%"),
        ("high", "high", ".1%"), of=runs,
    )  # fmt: skip
    own = {"filled": True, "size": 70, "opacity": 1}
    at = {"x": x, "y": y, "tooltip": tips}
    return [
        draw.layer("rule", draw.DASHED, data=pl.DataFrame({"y": [power]}), y=y),
        *draw.lines(data, runs, x, y, tips),
        draw.layer("point", own, where="datum.own", **at, **draw.looks(runs, "color")),
    ]
