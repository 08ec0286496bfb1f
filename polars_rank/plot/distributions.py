"""Distributions of a metric over queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import one_of, public, whole_number
from polars_rank.errors import ArgumentError
from polars_rank.plot import drawing as draw
from polars_rank.plot.runs import groups, labeled
from polars_rank.plot.values import TINY, VALUE, Values

if TYPE_CHECKING:
    import altair as alt

    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors, Runs

Kind: TypeAlias = Literal["histogram", "ecdf"]

_LINES = ("color", "strokeDash")


@public
def distribution(
    values: Any,
    metric: str | Metric | None = None,
    *,
    kind: Kind = "histogram",
    run: str | None = "run",
    baseline: Any = None,
    bins: int = 20,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw the distribution of a metric over queries, by run.

    Examples
    --------
    >>> values = pr.per_query(pr.datasets.search_log(200), "ndcg@10", by="run")
    >>> chart = pr.plot.distribution(values, kind="ecdf", baseline="bm25")
    >>> chart.save("ndcg.png")  # doctest: +SKIP

    Parameters
    ----------
    values
        Per-query values, as `per_query` returns them.
    metric
        The column to draw; None if there is only one metric.
    kind
        Kind of chart: "histogram" (default), or "ecdf" for the cumulative share of queries.
    run
        Column of the run. None for one series.
    baseline
        Run that the others are compared with, drawn first, in gray.
    bins
        Number of bins of a histogram. They have equal width, from 0 to 1 for values in this range,
        otherwise from the smallest to the largest value.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        A vertical line marks the mean of each run. All points of an ECDF are exact; with more than
        a few hundred distinct values, some are omitted.

    Raises
    ------
    DataError
        If there is nothing to draw.
    """
    draw.altair()
    one_of("kind", kind, ("histogram", "ecdf"))
    whole_number("bins", bins)
    data = Values.of(values, metric, run)
    name = draw.metric_title(data.metric.name)
    spread = data.statistics(data.rows, pl.col(VALUE))
    undefined = draw.undefined_note(max(spread.get_column("undefined"), default=0))
    subtitle = [f"{draw.counted(spread.get_column('queries'))}{undefined} · vertical line: mean"]
    spread, runs = labeled(spread, baseline=baseline, colors=colors, needed=True)
    max_cells = draw.ROWS // (2 * len(runs.labels)) - 1
    if kind == "histogram" and bins > max_cells:
        raise ArgumentError(
            f"`bins` must be at most {max_cells:,} for {len(runs.labels)} runs; found {bins:,}"
        )
    ends = min(spread.get_column("low")), max(spread.get_column("high"))
    if ends[0] >= 0 and ends[1] <= 1:
        ends = 0.0, 1.0
    elif ends[0] == ends[1]:
        ends = ends[0] - 0.5, ends[1] + 0.5
    counts = _counts(data, ends, bins if kind == "histogram" else max_cells)
    x = draw.axis(
        "X", "x", name, scale={"domain": [*ends], "nice": False}, grid=kind == "ecdf"
    )  # fmt: skip
    if kind == "ecdf":
        table, layers = _ecdf(counts, spread, runs, name, ends, x)
        title = f"Cumulative distribution of {name} over queries"
    else:
        table, layers = _histogram(counts, spread, runs, ends, bins, x)
        title = f"Distribution of {name} over queries"
    means = spread.select("run", "counted", x="mean").filter(pl.col("x").is_not_null())
    tips = draw.tooltip(("x", draw.mean_title(name), ".4f"), ("counted", "queries", ",d"), of=runs)
    look = draw.looks(runs, *_LINES)
    rule = draw.layer("rule", {"strokeWidth": 1.5}, data=means, x=x, tooltip=tips, **look)
    return draw.layered(table, [*layers, rule], title=title, subtitle=subtitle)


def _counts(data: Values, ends: tuple[float, float], cells: int) -> pl.DataFrame:
    """Return the number of values of each run in each cell, and the largest of them."""
    low, high = ends
    place = (pl.col(VALUE) - low) / (high - low) * cells
    cell = (place + TINY).floor().clip(0, cells - 1).cast(pl.Int64).alias("cell")
    known = data.rows.filter(pl.col(VALUE).is_not_null())
    counts = known.group_by(*groups(data.run), cell).agg(number=pl.len(), x=pl.col(VALUE).max())
    return labeled(counts)[0]


def _histogram(
    counts: pl.DataFrame, spread: pl.DataFrame, runs: Runs, ends: tuple[float, float], bins: int,
    x: Any,
) -> tuple[pl.DataFrame, list[Any]]:  # fmt: skip
    low, width = ends[0], (ends[1] - ends[0]) / bins
    cells = pl.DataFrame({"cell": range(bins)}, schema={"cell": pl.Int64})
    start = low + pl.col("cell") * width
    number = pl.col("number").fill_null(0)
    table = (
        spread.select("run", "counted")
        .join(cells, how="cross")
        .join(counts.drop("x"), on=["run", "cell"], how="left")
        .select("run", x=start, end=start + width, number=number, y=number / pl.col("counted"))
    )
    last = table.filter(pl.col("x") == pl.col("x").max()).with_columns(x="end")
    table = pl.concat([table, last]).sort("run", "x")  # the last step needs an end

    color = draw.looks(runs, "color")
    y = draw.axis("Y", "y", "share of queries", format="%", scale={"domainMin": 0, "nice": True})
    tips = draw.tooltip(
        ("x", "from", ".4~g"), ("end", "below", ".4~g"), ("number", "queries", ",d"),
        ("y", "share", ".2%"), of=runs,
    )  # fmt: skip
    bar = {"x": x, "x2": "end", "y": y, "y2": 0, "tooltip": tips}
    if runs.several:
        steps = {"x": x, "y": y}
        area = {"interpolate": "step-after", "opacity": 0.12, "strokeWidth": 0}
        layers = [
            draw.layer("line", draw.STEPS, **steps, **draw.looks(runs, *_LINES, legend=True)),
            draw.layer("rect", {"opacity": 0}, **bar),
        ]
        if len(runs.labels) <= draw.FILLED:
            layers.insert(0, draw.layer("area", area, **steps, y2=0, **color))
        return table, layers
    return table, [draw.layer("rect", {"opacity": 0.75, "strokeWidth": 0}, **bar, **color)]


def _ecdf(
    counts: pl.DataFrame, spread: pl.DataFrame, runs: Runs, name: str, ends: tuple[float, float],
    x: Any,
) -> tuple[pl.DataFrame, list[Any]]:  # fmt: skip
    whole = spread.select("run", "counted")
    cumulative = (
        counts.sort("run", "x")
        .with_columns(pl.col("number").cum_sum().over("run"))
        .join(whole, on="run")
        .select("run", "x", y=pl.col("number") / pl.col("counted"))
    )
    first, last = (
        whole.select("run", x=pl.lit(at), y=pl.lit(share))
        for at, share in zip(ends, (0.0, 1.0), strict=True)
    )
    table = pl.concat([first, cumulative, last]).sort("run", "x", "y")
    y = draw.axis("Y", "y", "cumulative share of queries", format="%", scale={"domain": [0, 1]})
    tips = draw.tooltip(("x", name, ".4f"), ("y", "cumulative share", ".2%"), of=runs)
    return table, [
        draw.layer("line", draw.STEPS, x=x, y=y, **draw.looks(runs, *_LINES, legend=True)),
        draw.layer("point", draw.HOVER, x=x, y=y, tooltip=tips),
    ]
