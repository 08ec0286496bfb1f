"""Power by the number of queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, public
from polars_rank.errors import ArgumentError, DataError
from polars_rank.frames.tables import collected, lazy
from polars_rank.plot.drawing import (
    FILLED,
    altair,
    axis,
    confidence_text,
    layered,
    lines,
    looks,
    metric_title,
    tooltip,
)
from polars_rank.plot.runs import NEUTRAL, groups, label_of, labeled
from polars_rank.stats.pilots import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import altair as alt

    from polars_rank._params import Names
    from polars_rank.conventions import Conventions, Undefined
    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors, Runs
    from polars_rank.stats.designs import Design
    from polars_rank.stats.intervals import Alternative
    from polars_rank.stats.pilots import Pilot

#: Points of a curve.
_POINTS = 60
#: The range of the axis: from this part of the fewest queries, and to this multiple of the most.
_FIRST, _LAST = 1 / 8, 2
#: Curves end at this multiple of the queries of the table, even if more are needed.
_MOST = 1_000
#: Fewer units than this have no variance.
_FEWEST = 2
_PLACE = OWN + "place"


@public
def power(
    values: Any,
    metric: str | Metric | None = None,
    *,
    baseline: Any,
    difference: float | None = None,
    run: str = "run",
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
    margin: float = 0.0,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw the power to detect a difference by the number of queries, one curve for each run.

    Parameters
    ----------
    values
        Per-query values or moments of several runs, as for `stats.power`.
    metric
        The metric; None if there is only one.
    baseline
        The run that the others are compared with.
    difference
        The difference of means to detect, above 0. None for the observed difference. With the
        alternative "equivalent", the true difference, from 0 to below `margin`; None for 0.
    run
        Column of runs.
    query
        Columns that identify the query. If there is no column "query": the one column that
        identifies the rows of each run, besides runs, metrics, counts and constant columns.
    weight
        Column of query weights, 0 or more.
    cluster
        Columns that identify the sampling unit if it is not the query, e.g. user.
    power
        Power that is drawn as a dashed line, between 1 - `confidence` and 1.
    confidence
        1 - the significance level of the test, and confidence level of the bands.
    alternative, margin
        Alternative hypothesis, and the margin of "equivalent".
    undefined, conventions
        How undefined values count, and metric definitions to use, as in `evaluate`.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        The points are the power of the queries in `values`. The bands are confidence intervals:
        `values` are a sample of queries, and the queries that `power` needs are uncertain as
        `needed_low` and `needed_high` of `stats.power` show.

    Raises
    ------
    DataError
        If there is nothing to draw: all differences are equal, or the difference to detect is 0.
    MissingExtraError
        scipy is not installed (extra "stats").

    Examples
    --------
    >>> values = pr.per_query(pr.datasets.search_log(200), "ndcg@10", by="run")
    >>> chart = pr.plot.power(values, baseline="bm25", difference=0.02)
    >>> chart.save("power.png")  # doctest: +SKIP
    """
    altair()
    plan = Plan.of(
        lazy(values, "values"), None if metric is None else [metric], "metric", baseline=baseline,
        difference=difference, run=run, by=None, query=query, weight=weight, cluster=cluster,
        power=power, confidence=confidence, alternative=alternative, margin=margin,
        undefined=undefined, conventions=conventions,
    )  # fmt: skip
    observed = collected(plan.observed)
    names = observed.get_column("metric").unique(maintain_order=True).to_list()
    if len(names) > 1:
        raise ArgumentError(f"a chart shows one metric; set `metric` to one of {names}")
    pilots = plan.pilots(observed)
    if not any(pilots):
        raise DataError(
            "nothing to draw: all differences from the baseline are equal, or there is none to "
            "detect; set `difference`"
        )
    data, runs = labeled(_curves(plan, pilots, observed, run), colors=colors)
    data = data.sort("run", "x")
    has_bands = len(runs.labels) <= FILLED
    return layered(
        data,
        _layers(data, runs, power),
        title=_title(plan.design, metric_title(names[0]), label_of(baseline), difference),
        subtitle=[
            f"points: the queries of the table · dashed line: power of {100 * power:g}%",
            f"bands: {confidence_text([confidence])}s" if has_bands else "",
        ],
    )


def _curves(
    plan: Plan, pilots: Sequence[Pilot | None], observed: pl.DataFrame, run: str
) -> pl.DataFrame:
    """Return the power of each run, and its interval, by the number of queries."""
    queries = observed.get_column("queries").to_list()
    needed = [plan.solution(pilot)["needed"] for pilot in pilots]
    most = max(queries)
    ends = [min(each, _MOST * most) for each in (*needed, *queries) if each]
    first, last = max(min(ends) * _FIRST, 2.0), max(ends) * _LAST
    ratio = (last / first) ** (1 / (_POINTS - 1))
    numbers = {round(first * ratio**step) for step in range(_POINTS)}
    rows = []
    for place, (pilot, own) in enumerate(zip(pilots, queries, strict=True)):
        if pilot is None:
            continue
        for number in sorted({*numbers, own}):
            units = number / pilot.queries_per_unit
            if units >= _FEWEST:
                powers = [plan.design.power_of(units, *case) for case in plan.cases(pilot)]
                rows.append((place, number, *powers, number == own))
    columns = [_PLACE, "x", "high", "y", "low", "own"]
    table = pl.DataFrame(rows, schema=columns, orient="row")
    of_runs = observed.select(*groups([run])).with_columns(pl.int_range(pl.len()).alias(_PLACE))
    return table.join(of_runs, on=_PLACE).drop(_PLACE)


def _title(design: Design, metric: str, baseline: str, difference: float | None) -> str:
    if design.margin is not None:
        return f"Power to show that {metric} is within {design.margin:g} of {baseline}"
    size = "the observed difference" if difference is None else f"a difference of {difference:g}"
    return f"Power to detect {size} in {metric} from {baseline}"


def _layers(data: pl.DataFrame, runs: Runs, power: float) -> list[Any]:
    alt = altair()
    x = axis("X", "x", "queries", format=",d", scale={"type": "log", "nice": False})
    y = axis("Y", "y", "power", format="%", scale={"domain": [0, 1]})
    tips = tooltip(
        ("x", "queries", ",d"), ("y", "power", ".1%"), ("low", "low", ".1%"),
        ("high", "high", ".1%"), of=runs,
    )  # fmt: skip
    level = alt.Chart(pl.DataFrame({"y": [power]})).mark_rule(strokeDash=[4, 3], color=NEUTRAL)
    own = alt.Chart().transform_filter("datum.own").mark_point(filled=True, size=70, opacity=1)
    return [
        level.encode(y=y),
        *lines(data, runs, x, y, tips),
        own.encode(x=x, y=y, tooltip=tips, **looks(runs, "color")),
    ]
