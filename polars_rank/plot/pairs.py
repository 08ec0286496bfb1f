"""Differences from the baseline by query, sorted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, public
from polars_rank.errors import DataError
from polars_rank.metrics.names import direction_note
from polars_rank.plot import drawing as draw
from polars_rank.plot.runs import (
    HIGHER,
    LOWER,
    NEUTRAL,
    Runs,
    groups,
    harmless_text,
    label_of,
    labeled,
)
from polars_rank.plot.values import IS_UNDEFINED, TINY, VALUE, Values
from polars_rank.stats.run_pairs import is_run
from polars_rank.stats.value_columns import check_run, unknown_run

if TYPE_CHECKING:
    import altair as alt

    from polars_rank._params import Names
    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors

#: Maximum number of queries that are drawn one by one; more are counted in cells.
_MAX_POINTS = 1_000
_CELL, _DIFFERENCE = OWN + "cell", OWN + "difference"
_BASELINE, _EITHER = OWN + "baseline", OWN + "either undefined"


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

    Examples
    --------
    >>> values = pr.per_query(pr.datasets.search_log(200), "ndcg@10", by="run")
    >>> chart = pr.plot.differences(values, "ndcg@10", baseline="bm25")
    >>> chart.save("differences.png")  # doctest: +SKIP

    Parameters
    ----------
    values
        Per-query values of several runs, as `per_query` returns them.
    metric
        The column to draw; None if there is only one metric.
    baseline
        Run that the others are compared with.
    run
        Column of the run.
    query
        Column or columns that identify the query. Queries that one of the runs does not have are
        omitted.
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
    """
    draw.altair()
    data = Values.of(values, metric, run, query)
    name = draw.metric_title(data.metric.name)
    pairs = _pairs(data, baseline)
    difference = pl.col(_DIFFERENCE)
    statistics = data.statistics(
        pairs, difference, higher=(difference > 0).sum(), equal=(difference == 0).sum(),
        lower=(difference < 0).sum(),
    )  # fmt: skip
    spread, runs = labeled(statistics, colors=colors)
    single = spread.get_column("counted").sum() <= _MAX_POINTS
    if single:
        parts = [pl.col(each).cast(pl.String).fill_null("null") for each in data.group.source.query]
        names = harmless_text(pl.concat_str(parts, separator=" · "))
        columns = {"y": difference, "query": names, "number": pl.lit(1)}
        bars = pairs.filter(difference.is_not_null()).select(*groups(data.run), **columns)
        bars = bars.sort("query")
    else:
        highest = max(map(abs, [*spread.get_column("low"), *spread.get_column("high")]))
        bars = _cells(pairs, data, highest, (draw.ROWS // 2) // len(runs.labels))
    after = pl.col("number").cum_sum().over("run")
    bars = labeled(bars)[0].sort("run", "y", descending=[False, True], maintain_order=True)
    bars = bars.with_columns(start=after - pl.col("number"), end=after)
    last = bars.filter(pl.col("end") == pl.col("end").max().over("run")).with_columns(start="end")
    bars = pl.concat([bars, last]).sort("run", "start", "end")
    x = draw.axis(
        "X", "start", "queries, sorted by difference", format=",d", scale={"nice": False},
        tickMinStep=1,
    )  # fmt: skip
    signed = "datum.value ? format(datum.value, '+.2~f') : '0'"
    y = draw.axis("Y", "y", f"difference in {name}", labelExpr=signed)
    tips = draw.tooltip(
        ("query", "query") if single else ("number", "queries", ",d"),
        ("y", "difference", "+.4f"),
        of=runs,
    )
    zero = draw.layer("rule", {"color": NEUTRAL}, data=pl.DataFrame({"y": [0.0]}), y=y)
    others = "all runs" if runs.several else runs.labels[0]
    direction = direction_note(metric if isinstance(metric, pl.Expr) else data.metric.name)
    colors_of_change = (LOWER, HIGHER) if data.metric.lower_is_better else (HIGHER, LOWER)
    return draw.layered(
        bars,
        [*_layers(runs, x, y, tips, colors_of_change), zero],
        title=f"{name}{direction}: {others} vs. {label_of(baseline)}, per query",
        subtitle=_counts(spread),
    )


def _pairs(data: Values, baseline: Any) -> pl.DataFrame:
    """Return the values of all other runs, paired with those of the baseline."""
    (run,), rows, names = data.run, data.rows, [*data.group.rows]
    check_run("baseline", baseline, run, rows.schema[run])
    if names and baseline not in names:
        raise unknown_run(run, names, "baseline", baseline)
    is_baseline = is_run(run, rows.schema[run], baseline)
    base = rows.filter(is_baseline).drop(run).rename({VALUE: _BASELINE, IS_UNDEFINED: _EITHER})
    paired = rows.filter(~is_baseline).join(
        base, on=data.group.source.query, how="inner", nulls_equal=True, maintain_order="left"
    )
    if not paired.height:
        raise DataError("nothing to draw: no query has a ranking in both runs")
    return paired.with_columns(
        (pl.col(VALUE) - pl.col(_BASELINE)).alias(_DIFFERENCE),
        pl.any_horizontal(IS_UNDEFINED, _EITHER).alias(IS_UNDEFINED),
    )


def _cells(pairs: pl.DataFrame, values: Values, highest: float, cells: int) -> pl.DataFrame:
    """Return one bar per cell of differences; 0 has its own cell."""
    width = 2 * (highest or 1.0) / (cells - 1)
    difference = pl.col(_DIFFERENCE)
    cell = ((difference.abs() / width - TINY).ceil() * difference.sign()).cast(pl.Int64)
    return (
        pairs.filter(difference.is_not_null())
        .group_by(*groups(values.run), cell.alias(_CELL))
        .agg(pl.len().alias("number"), difference.mean().alias("y"))
        .drop(_CELL)
    )


def _layers(runs: Runs, x: Any, y: Any, tips: list[Any], colors: tuple[str, str]) -> list[Any]:
    """Return a line per run, or areas of the higher and the lower queries of one run."""
    if runs.several:
        look = draw.looks(runs, "color", "strokeDash", legend=True)
        return [
            draw.layer("line", draw.STEPS, x=x, y=y, **look),
            draw.layer("point", draw.HOVER, x=x, y=y, tooltip=tips),
        ]
    area = {"interpolate": "step-after", "opacity": 0.85, "strokeWidth": 0}
    part = draw.with_field(y, "part")
    parts = [
        draw.layer("area", area, x=x, y=part, y2=0, color=color).transform_calculate(
            part=f"{end}(datum.y, 0)"
        )
        for end, color in zip(("max", "min"), colors, strict=True)
    ]
    under_the_pointer = draw.layer("rect", {"opacity": 0}, x=x, x2="end", y=y, y2=0, tooltip=tips)
    return [*parts, under_the_pointer]


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
    undefined = draw.undefined_note(max(spread.get_column("undefined")))
    return [*subtitle[:few], *other_runs, draw.counted(spread.get_column("queries")) + undefined]
