"""Two runs compared by query: sorted differences, and a scatter plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, public
from polars_rank.plot.drawing import (
    ROWS,
    altair,
    axis,
    counted,
    layered,
    looks,
    metric_title,
    tooltip,
    undefined_note,
    with_field,
)
from polars_rank.plot.runs import NEUTRAL, Runs, groups, label_of, labeled
from polars_rank.plot.values import BASELINE, DIFFERENCE, TINY, VALUE, Values, extent

if TYPE_CHECKING:
    import altair as alt

    from polars_rank._params import Names
    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors

#: Maximum number of queries that are drawn one by one; more are counted in cells.
_MAX_POINTS = 1_000
#: Cells per side of a scatter plot of many queries.
_CELLS_PER_SIDE = 40
_CELL = OWN + "cell"
#: Area of the point of a single query, and of the point of the most queries.
_MIN_AREA, _MAX_AREA = 36, 300


@public
def differences(
    values: Any,
    metric: str | Metric | None = None,
    *,
    baseline: Any,
    run: str = "run",
    query: Names = "query",
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw the difference from the baseline for each query, in descending order.

    Parameters
    ----------
    values
        Per-query values of several runs, as `per_query` returns them.
    metric
        The column to draw; None if there is only one metric.
    baseline
        The run that the others are compared with.
    run
        Column of runs.
    query
        Columns that identify the query. Queries that one of the runs does not have are omitted.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        A bar per query, green if the run is better and red if it is worse; with more than a
        thousand queries, a bar for queries with nearly the same difference, whose width is their
        number. With several runs, a line per run.

    Raises
    ------
    DataError
        If there is nothing to draw.

    Examples
    --------
    >>> values = pr.per_query(pr.datasets.search_log(200), "ndcg@10", by="run")
    >>> chart = pr.plot.differences(values, "ndcg@10", baseline="bm25")
    >>> chart.save("differences.png")  # doctest: +SKIP
    """
    alt = altair()
    data = Values.of(values, metric, run, query)
    name = metric_title(data.metric.name)
    data.check_runs({"baseline": baseline})
    pairs = data.pairs(baseline)
    spread, runs = labeled(data.statistics_of(pairs), colors=colors)
    single = spread.get_column("counted").sum() <= _MAX_POINTS
    if single:
        bars = _queries(pairs, data)
    else:
        highest = max(map(abs, [*spread.get_column("low"), *spread.get_column("high")]))
        bars = _cells(pairs, data, highest, (ROWS // 2) // len(runs.labels))
    bars = _bar_positions(labeled(bars)[0])
    x = axis(
        "X", "start", "queries, sorted by difference", format=",d", scale={"nice": False},
        tickMinStep=1,
    )  # fmt: skip
    signed = "datum.value ? format(datum.value, '+.2~f') : '0'"
    y = axis("Y", "y", f"difference in {name}", labelExpr=signed)
    tips = tooltip(
        ("query", "query") if single else ("number", "queries", ",d"),
        ("y", "difference", "+.4f"),
        of=runs,
    )
    zero = alt.Chart(pl.DataFrame({"y": [0.0]})).mark_rule(color=NEUTRAL).encode(y=y)
    others = "all runs" if runs.several else runs.labels[0]
    return layered(
        bars,
        [*_layers(runs, x, y, tips, data.colors_of_change), zero],
        title=f"{name}{data.direction}: {others} vs. {label_of(baseline)}, per query",
        subtitle=_counts(spread),
    )


def _queries(pairs: pl.DataFrame, values: Values) -> pl.DataFrame:
    """Return one bar per query."""
    return (
        pairs.filter(pl.col(DIFFERENCE).is_not_null())
        .select(*groups(values.run), y=DIFFERENCE, query=values.query_name, number=pl.lit(1))
        .sort("query")
    )


def _cells(pairs: pl.DataFrame, values: Values, highest: float, cells: int) -> pl.DataFrame:
    """Return one bar per cell of differences; 0 has its own cell."""
    width = 2 * (highest or 1.0) / (cells - 1)
    difference = pl.col(DIFFERENCE)
    cell = ((difference.abs() / width - TINY).ceil() * difference.sign()).cast(pl.Int64)
    return (
        pairs.filter(difference.is_not_null())
        .group_by(*groups(values.run), cell.alias(_CELL))
        .agg(pl.len().alias("number"), difference.mean().alias("y"))
        .drop(_CELL)
    )


def _bar_positions(bars: pl.DataFrame) -> pl.DataFrame:
    """Return the positions of bars, the highest first, with the end of the last."""
    after = pl.col("number").cum_sum().over("run")
    row = bars.sort("run", "y", descending=[False, True], maintain_order=True).with_columns(
        start=after - pl.col("number"), end=after
    )
    last = row.filter(pl.col("end") == pl.col("end").max().over("run")).with_columns(start="end")
    return pl.concat([row, last]).sort("run", "start", "end")


def _layers(runs: Runs, x: Any, y: Any, tips: list[Any], colors: tuple[str, str]) -> list[Any]:
    """Return a line per run, or areas of the higher and the lower queries of one run."""
    alt = altair()
    if runs.several:
        line = alt.Chart().mark_line(interpolate="step-after", strokeWidth=2)
        points = alt.Chart().mark_point(opacity=0, size=60)
        return [
            line.encode(x=x, y=y, **looks(runs, "color", "strokeDash", legend=True)),
            points.encode(x=x, y=y, tooltip=tips),
        ]
    area = alt.Chart().mark_area(interpolate="step-after", opacity=0.85, strokeWidth=0)
    parts = [
        area.transform_calculate(part=f"{end}(datum.y, 0)").encode(
            x=x, y=with_field(y, "part"), y2=alt.Y2Datum(0), color=alt.ColorValue(color)
        )
        for end, color in zip(("max", "min"), colors, strict=True)
    ]
    under_the_pointer = alt.Chart().mark_rect(opacity=0)
    bar = {"x": x, "x2": alt.X2(field="end"), "y": y, "y2": alt.Y2Datum(0)}
    return [*parts, under_the_pointer.encode(**bar, tooltip=tips)]


def _counts(spread: pl.DataFrame) -> list[str]:
    """Return the numbers of higher, equal and lower queries by run, and the number of queries."""
    rows = spread.sort("run").iter_rows(named=True)
    subtitle = [
        f"{row['run']}: {row['higher']:,} higher, {row['equal']:,} equal, {row['lower']:,} lower"
        f" · mean difference {row['mean']:+.4f}"
        for row in rows
    ]
    few = 4
    other_runs = [f"and {len(subtitle) - few} more runs"] if len(subtitle) > few else []
    undefined = undefined_note(max(spread.get_column("undefined")))
    return [*subtitle[:few], *other_runs, counted(spread.get_column("queries")) + undefined]


@public
def scatter(
    values: Any,
    metric: str | Metric | None = None,
    *,
    x: Any = None,
    y: Any = None,
    run: str = "run",
    query: Names = "query",
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw a scatter plot of two runs, with one point per query.

    Parameters
    ----------
    values
        Per-query values of several runs, as `per_query` returns them.
    metric
        The column to draw; None if there is only one metric.
    x, y
        The runs. Default for a table with two runs: x is the first of the sorted runs.
    run
        Column of runs.
    query
        Columns that identify the query. Queries that one of the runs does not have are omitted.
    colors
        Mapping from runs to colors, such as `{"neural": "#0072B2"}`. Points have the color of y.

    Returns
    -------
    altair.LayerChart
        A point per query, or for queries with the same two values, a point whose area increases
        with their number; with more than a thousand queries, 40 x 40 cells, whose opacity
        increases with the number of queries. On the dashed line, both runs have the same value;
        the halves are shaded green where y is better and red where it is worse.

    Raises
    ------
    DataError
        If there is nothing to draw.

    Examples
    --------
    >>> values = pr.per_query(pr.datasets.search_log(200), "ndcg@10", by="run")
    >>> chart = pr.plot.scatter(values, "ndcg@10", x="bm25", y="neural")
    >>> chart.save("runs.png")  # doctest: +SKIP
    """
    alt = altair()
    data = Values.of(values, metric, run, query)
    name = metric_title(data.metric.name)
    first, second = data.two_runs(x, y)
    pairs = data.pairs(first, second)
    spread, _ = labeled(data.statistics_of(pairs))
    low, high = extent(*spread.select("least", "most").row(0))
    a, b = label_of(first), label_of(second)
    color = Runs.of([a, b], a, colors).colors[-1]
    across = axis(
        "X", "x", f"{name} of {a}", grid=True, scale={"domain": [low, high], "nice": False}
    )
    up = axis(
        "Y", "y", f"{name} of {b}", scale={"domain": [low, high], "nice": False}, labelPadding=12
    )
    both = pairs.filter(pl.col(DIFFERENCE).is_not_null())
    if spread.get_column("counted")[0] <= _MAX_POINTS:
        marks = _points(both.select(query=data.query_name, x=BASELINE, y=VALUE))
        tips = tooltip(
            ("query", "query"), ("number", "queries", ",d"), ("x", a, ".4f"), ("y", b, ".4f")
        )
        mark = alt.Chart().mark_point(filled=True, opacity=0.5, color=color)
        size = _size(max(marks.get_column("number"), default=1))
        cells = [mark.encode(x=across, y=up, size=size, tooltip=tips)]
    else:
        marks = _grid(both, low, high)
        tips = tooltip(
            ("x", f"{a} from", ".3f"), ("x2", "below", ".3f"), ("y", f"{b} from", ".3f"),
            ("y2", "below", ".3f"), ("number", "queries", ",d"),
        )  # fmt: skip
        mark = alt.Chart().mark_rect(strokeWidth=0, color=color)
        shade = _shade(max(marks.get_column("number")), color)
        cells = [mark.encode(
            x=across, x2=alt.X2(field="x2"), y=up, y2=alt.Y2(field="y2"), opacity=shade,
            tooltip=tips,
        )]  # fmt: skip
    line = alt.Chart(pl.DataFrame({"x": [low, high], "y": [low, high]}))
    diagonal = line.mark_line(strokeDash=[4, 3], color=NEUTRAL, strokeWidth=1.5)
    return layered(
        marks,
        [
            *_shaded_halves(low, high, across, up, data.colors_of_change),
            *cells,
            diagonal.encode(x=across, y=up),
        ],
        title=f"{name}{data.direction}: {b} vs. {a}",
        subtitle=_counts(spread),
        width=340,
        height=340,
    )


def _points(queries: pl.DataFrame) -> pl.DataFrame:
    """Return one row per point with the number of its queries and the name of the first."""
    points = queries.group_by("x", "y").agg(
        number=pl.len(), query=pl.col("query").min(), rest=pl.len() - 1
    )
    more = pl.format("{} and {} more", "query", "rest")
    name = pl.when(pl.col("rest") > 0).then(more).otherwise("query")
    points = points.select("x", "y", "number", query=name)
    # Large points are behind small ones.
    return points.sort("number", "x", "y", descending=[True, False, False])


def _size(most: int) -> Any:
    """Return the channel of the area of points, with a legend if any has several queries."""
    alt = altair()
    scale = {"type": "sqrt", "domain": [1, max(2, most)], "range": [_MIN_AREA, _MAX_AREA]}
    legend = _legend([*_powers(most // 2), most], symbolFillColor=NEUTRAL) if most > 1 else None
    return alt.Size(
        field="number", type="quantitative", title="queries", scale=scale, legend=legend
    )  # fmt: skip


def _shaded_halves(low: float, high: float, x: Any, y: Any, colors: tuple[str, str]) -> list[Any]:
    """Return the shaded areas above and below the diagonal."""
    alt = altair()
    ends = pl.DataFrame({"x": [low, high], "y": [low, high]})
    return [
        alt.Chart(ends)
        .mark_area(opacity=0.1, strokeWidth=0, color=color)
        .encode(x=x, y=y, y2=alt.Y2Datum(end))
        for end, color in zip((high, low), colors, strict=True)
    ]


def _grid(both: pl.DataFrame, low: float, high: float) -> pl.DataFrame:
    """Return the number of queries in each cell of the two values."""
    width = (high - low) / _CELLS_PER_SIDE

    def cell(column: str) -> pl.Expr:
        return ((pl.col(column) - low) / width + TINY).floor().clip(0, _CELLS_PER_SIDE - 1)

    counts = both.group_by(i=cell(BASELINE), j=cell(VALUE)).agg(pl.len().alias("number"))
    x, y = low + pl.col("i") * width, low + pl.col("j") * width
    return counts.sort("i", "j").select("number", x=x, x2=x + width, y=y, y2=y + width)


def _shade(most: int, color: str) -> Any:
    """Return the opacity channel for the number of queries, which suits any background."""
    alt = altair()
    scale = {"type": "log", "domain": [1, max(2, most)], "range": [0.15, 1]}
    legend = _legend(_powers(most), symbolFillColor=color, symbolType="square", symbolSize=160)
    return alt.Opacity(
        field="number", type="quantitative", title="queries", scale=scale, legend=legend
    )  # fmt: skip


def _powers(most: int) -> list[int]:
    """Return the powers of ten up to a number."""
    return [10**power for power in range(12) if 10**power <= most]


def _legend(values: list[int], **symbol: Any) -> dict[str, Any]:
    """Return the legend of numbers of queries, on one line above the chart."""
    return {
        "orient": "top", "direction": "horizontal", "titleOrient": "left", "offset": 8,
        "titleFontSize": 11, "titleFontWeight": 500, "labelFontSize": 11, "format": ",d",
        "values": values, "symbolStrokeWidth": 0, **symbol,
    }  # fmt: skip
