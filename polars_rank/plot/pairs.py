"""Two runs, query by query: their differences in order, and one against the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.conventions import POLARS_RANK
from polars_rank.frames.tables import collected
from polars_rank.plot.drawing import (
    ROWS,
    altair,
    axis,
    counted,
    layered,
    looks,
    told_undefined,
    tooltip,
)
from polars_rank.plot.runs import NEUTRAL, Runs, groups, label_of, labelled
from polars_rank.plot.values import BASELINE, DIFFERENCE, TINY, VALUE, Values, extent

if TYPE_CHECKING:
    from collections.abc import Mapping

    import altair as alt

    from polars_rank._params import Names
    from polars_rank.conventions import Conventions, Undefined
    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors

#: Queries that are drawn one by one; more are counted in cells.
_SINGLE = 1_000
#: Cells on each side of a scatter of many queries.
_SIDE = 40
_CELL = OWN + "cell"


def differences(
    lists: Any,
    metric: str | Metric | None = None,
    *,
    baseline: Any,
    run: str = "run",
    query: Names = "query",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Differences from the baseline, query by query, from the greatest gain to the greatest loss.

    Parameters
    ----------
    lists
        What `per_query` returns of several runs.
    metric
        The column to draw; None if there is one only.
    baseline, run, query
        As for `compare`; only queries that both runs have are drawn.
    undefined, conventions
        As for `summarize`: as what an undefined value counts.
    colors
        As for `pr.plot.at_k`.

    Returns
    -------
    altair.LayerChart
        A bar per query; of more than a thousand, a bar for those queries that have nearly the
        same difference, as wide as they are many. Of several runs, a line each.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `pr.plot.distribution` and `compare`.

    Notes
    -----
    The table is read twice.

    Examples
    --------
    >>> lists = pr.per_query(pr.datasets.search_log(50), "ndcg@10", by="run").collect()
    >>> chart = pr.plot.differences(lists, "ndcg@10", baseline="bm25")
    >>> chart.save("differences.png")  # doctest: +SKIP
    """
    alt = altair()
    found = Values.of(lists, metric, run, query, undefined, conventions)
    pairs = found.beside(baseline)
    spread, runs = labelled(found.paired(pairs, f"the run {baseline!r} and another"), colors=colors)
    single = spread.get_column("counted").sum() <= _SINGLE
    if single:
        plan = _queries(pairs, found)
    else:
        highest = max(map(abs, [*spread.get_column("low"), *spread.get_column("high")]))
        plan = _cells(pairs, found, highest, (ROWS // 2) // len(runs.labels))
    bars = _in_a_row(labelled(collected(plan))[0])
    x = axis("X", "start", "queries, by difference", format=",d", scale={"nice": False})
    y = axis("Y", "y", f"difference of {found.name}", format="+.2~f")
    tips = tooltip(
        ("query", "query") if single else ("number", "queries", ",d"),
        ("y", "difference", "+.4f"),
        of=runs,
    )
    zero = alt.Chart(pl.DataFrame({"y": [0.0]})).mark_rule(color=NEUTRAL).encode(y=y)
    which = "all runs" if runs.several else runs.labels[0]
    return layered(
        bars,
        [*_waterfall(runs, x, y, tips), zero],
        title=f"{found.name} of {which} against {label_of(baseline)}, query by query",
        told=_outcomes(spread, found.rule),
    )


def _queries(pairs: pl.LazyFrame, found: Values) -> pl.LazyFrame:
    """Return a bar for each query."""
    return (
        pairs.filter(pl.col(DIFFERENCE).is_not_null())
        .select(*groups(found.run), y=DIFFERENCE, query=found.query_name, number=pl.lit(1))
        .sort("query")
    )


def _cells(pairs: pl.LazyFrame, found: Values, highest: float, cells: int) -> pl.LazyFrame:
    """Return a bar for the queries of each cell of differences; 0 is a cell of its own."""
    width = 2 * (highest or 1.0) / (cells - 1)
    difference = pl.col(DIFFERENCE)
    cell = ((difference.abs() / width - TINY).ceil() * difference.sign()).cast(pl.Int64)
    return (
        pairs.filter(difference.is_not_null())
        .group_by(*groups(found.run), cell.alias(_CELL))
        .agg(pl.len().alias("number"), difference.mean().alias("y"))
        .drop(_CELL)
    )


def _in_a_row(bars: pl.DataFrame) -> pl.DataFrame:
    """Return bars one after the other, the highest first; with the end of the last."""
    after = pl.col("number").cum_sum().over("run")
    row = bars.sort("run", "y", descending=[False, True], maintain_order=True).with_columns(
        start=after - pl.col("number"), end=after
    )
    last = row.filter(pl.col("end") == pl.col("end").max().over("run")).with_columns(start="end")
    return pl.concat([row, last]).sort("run", "start", "end")


def _waterfall(runs: Runs, x: Any, y: Any, tips: list[Any]) -> list[Any]:
    alt = altair()
    if runs.several:
        line = alt.Chart().mark_line(interpolate="step-after", strokeWidth=2)
        points = alt.Chart().mark_point(opacity=0, size=60)
        return [
            line.encode(x=x, y=y, **looks(runs, "color", "strokeDash", legend=True)),
            points.encode(x=x, y=y, tooltip=tips),
        ]
    bar = {"x": x, "y": y, "y2": alt.Y2Datum(0)}
    area = alt.Chart().mark_area(interpolate="step-after", opacity=0.8, strokeWidth=0)
    under_the_pointer = alt.Chart().mark_rect(opacity=0)
    return [
        area.encode(**bar, color=alt.ColorValue(runs.colors[0])),
        under_the_pointer.encode(**bar, x2=alt.X2(field="end"), tooltip=tips),
    ]


def _outcomes(spread: pl.DataFrame, rule: str) -> list[str]:
    """Say for each run, of a few, on how many queries it is higher; and how many there are."""
    rows = spread.sort("run").iter_rows(named=True)
    told = [
        f"{row['run']}: {row['wins']:,} higher, {row['ties']:,} the same, {row['losses']:,} lower"
        f" · mean {row['mean']:+.4f}"
        for row in rows
    ]
    few = 4
    more = [f"and {len(told) - few} more runs"] if len(told) > few else []
    undefined = told_undefined(max(spread.get_column("undefined")), rule)
    return [*told[:few], *more, counted(spread.get_column("queries")) + undefined]


def scatter(
    lists: Any,
    metric: str | Metric | None = None,
    *,
    x: Any = None,
    y: Any = None,
    run: str = "run",
    query: Names = "query",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """One run against another, query by query.

    Parameters
    ----------
    lists
        What `per_query` returns of several runs.
    metric
        The column to draw; None if there is one only.
    x, y
        The runs; of two runs that there are, the first in order is x unless said otherwise.
    run, query
        As for `compare`; only queries that both runs have are drawn.
    undefined, conventions
        As for `summarize`: as what an undefined value counts.
    colors
        As for `pr.plot.at_k`: the points have the colour of y, beside x as the baseline.

    Returns
    -------
    altair.LayerChart
        A point per query; of more than a thousand, 40 x 40 cells, the stronger in colour the more
        queries are in them. On the dashed line, both runs are alike.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `pr.plot.distribution` and `compare`.

    Examples
    --------
    >>> lists = pr.per_query(pr.datasets.search_log(50), "ndcg@10", by="run").collect()
    >>> chart = pr.plot.scatter(lists, "ndcg@10", x="bm25", y="neural")
    >>> chart.save("runs.png")  # doctest: +SKIP
    """
    alt = altair()
    found = Values.of(lists, metric, run, query, undefined, conventions)
    first, second = found.two(x, y)
    pairs = found.beside(first, second)
    spread, _ = labelled(found.paired(pairs, f"the run {first!r} and the run {second!r}"))
    low, high = extent(*spread.select("least", "most").row(0))
    a, b = label_of(first), label_of(second)
    color = Runs.of([a, b], a, colors).colors[-1]
    across = axis(
        "X", "x", f"{found.name} of {a}", grid=True, scale={"domain": [low, high], "nice": False}
    )
    up = axis("Y", "y", f"{found.name} of {b}", scale={"domain": [low, high], "nice": False})
    both = pairs.filter(pl.col(DIFFERENCE).is_not_null())
    if spread.get_column("counted")[0] <= _SINGLE:
        plan = both.select(query=found.query_name, x=BASELINE, y=VALUE)
        data = collected(plan).sort("x", "y", "query")
        tips = tooltip(("query", "query"), ("x", a, ".4f"), ("y", b, ".4f"))
        mark = alt.Chart().mark_point(filled=True, size=36, opacity=0.5, color=color)
        cells = mark.encode(x=across, y=up, tooltip=tips)
    else:
        data = _grid(both, low, high)
        tips = tooltip(
            ("x", f"{a} from", ".3f"), ("x2", "below", ".3f"), ("y", f"{b} from", ".3f"),
            ("y2", "below", ".3f"), ("number", "queries", ",d"),
        )  # fmt: skip
        mark = alt.Chart().mark_rect(strokeWidth=0, color=color)
        shade = _shade(max(data.get_column("number")), color)
        cells = mark.encode(
            x=across, x2=alt.X2(field="x2"), y=up, y2=alt.Y2(field="y2"), opacity=shade,
            tooltip=tips,
        )  # fmt: skip
    line = alt.Chart(pl.DataFrame({"x": [low, high], "y": [low, high]}))
    alike = line.mark_line(strokeDash=[4, 3], color=NEUTRAL, strokeWidth=1.5)
    return layered(
        data,
        [cells, alike.encode(x=across, y=up)],
        title=f"{found.name} of {b} against {a}",
        told=_outcomes(spread, found.rule),
        width=340,
        height=340,
    )


def _grid(both: pl.LazyFrame, low: float, high: float) -> pl.DataFrame:
    """Return how many queries there are in each cell of the two values."""
    width = (high - low) / _SIDE

    def cell(column: str) -> pl.Expr:
        return ((pl.col(column) - low) / width + TINY).floor().clip(0, _SIDE - 1)

    counts = both.group_by(i=cell(BASELINE), j=cell(VALUE)).agg(pl.len().alias("number"))
    x, y = low + pl.col("i") * width, low + pl.col("j") * width
    return collected(counts).sort("i", "j").select("number", x=x, x2=x + width, y=y, y2=y + width)


def _shade(most: int, color: str) -> Any:
    """Return the channel of the number of queries: an opacity, for any background."""
    alt = altair()
    powers = [10**power for power in range(12) if 10**power <= most]
    legend = {
        "format": ",~s", "labelFontSize": 11, "titleFontSize": 11, "symbolType": "square",
        "symbolSize": 160, "symbolFillColor": color, "symbolStrokeWidth": 0, "values": powers,
    }  # fmt: skip
    scale = {"type": "log", "domain": [1, max(2, most)], "range": [0.15, 1]}
    return alt.Opacity(
        field="number", type="quantitative", title="queries", scale=scale, legend=legend
    )  # fmt: skip
