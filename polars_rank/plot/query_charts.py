"""Charts of per-query values: distributions, and differences from the baseline by query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import polars as pl

from polars_rank._params import OWN, one_of, public, whole_number
from polars_rank.columns import RUN, Columns
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.log_checks import with_run_warning
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.metrics.names import direction_note
from polars_rank.plot import drawing as draw
from polars_rank.plot.run_styles import HIGHER, LOWER, NEUTRAL, Runs, groups, label_of, labeled
from polars_rank.stats.value_columns import Variable, check_run, is_run, unknown_run, variables
from polars_rank.stats.values import UNDEFINED, Values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import altair as alt

    from polars_rank._params import Names
    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.run_styles import Colors

Kind: TypeAlias = Literal["histogram", "ecdf"]

#: The value of a ranking, whether it is undefined, and the same of the baseline.
_VALUE, _UNDEFINED = OWN + "value", OWN + "undefined"
_BASELINE, _EITHER = OWN + "baseline", OWN + "either undefined"
_DIFFERENCE, _CELL = OWN + "difference", OWN + "cell"
#: Rounding error of a value on the edge of two cells.
_TINY = 1e-9
#: Maximum number of queries that are drawn one by one; more are counted in cells.
_MAX_POINTS = 1_000
#: Maximum number of runs of a subtitle.
_MAX_COUNTS = 4
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
    data = _Rankings.of(values, metric, run)
    name = draw.metric_title(data.metric.name)
    spread = data.statistics(data.rows, pl.col(_VALUE))
    undefined = draw.undefined_note(max(spread.get_column("undefined"), default=0))
    subtitle = [f"{draw.counted(spread.get_column('queries'))}{undefined} · vertical line: mean"]
    spread, runs = labeled(spread, baseline, colors)
    max_cells = draw.ROWS // (2 * len(runs.labels)) - 1
    if kind == "histogram" and bins > max_cells:
        raise ArgumentError(
            f"must be at most {max_cells:,} for {len(runs.labels)} runs; found {bins:,}", "bins"
        )
    ends = min(spread.get_column("low")), max(spread.get_column("high"))
    if ends[0] >= 0 and ends[1] <= 1:
        ends = 0.0, 1.0
    elif ends[0] == ends[1]:
        ends = ends[0] - 0.5, ends[1] + 0.5
    counts = _cell_counts(data, ends, bins if kind == "histogram" else max_cells)
    scale = {"domain": [*ends], "nice": False}
    x = draw.axis("X", "x", name, scale=scale, grid=kind == "ecdf")
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


def _cell_counts(data: _Rankings, ends: tuple[float, float], cells: int) -> pl.DataFrame:
    """Return the number of values of each run in each cell, and the largest of them."""
    low, high = ends
    place = (pl.col(_VALUE) - low) / (high - low) * cells
    cell = (place + _TINY).floor().clip(0, cells - 1).cast(pl.Int64).alias("cell")
    known = data.rows.filter(pl.col(_VALUE).is_not_null())
    counts = known.group_by(*groups(data.run), cell).agg(number=pl.len(), x=pl.col(_VALUE).max())
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
    data = _Rankings.of(values, metric, run, query)
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
        parts = [pl.col(each).cast(pl.String).fill_null("null") for each in data.query]
        names = pl.concat_str(parts, separator=" · ")
        columns = {"y": difference, "query": names, "number": pl.lit(1)}
        bars = pairs.filter(difference.is_not_null()).select(*groups(data.run), **columns)
        bars = bars.sort("query")
    else:
        highest = max(map(abs, [*spread.get_column("low"), *spread.get_column("high")]))
        width = 2 * (highest or 1.0) / ((draw.ROWS // 2) // len(runs.labels) - 1)
        # One bar per cell of differences; 0 has its own cell.
        cell = ((difference.abs() / width - _TINY).ceil() * difference.sign()).cast(pl.Int64)
        known = pairs.filter(difference.is_not_null())
        by_cell = known.group_by(*groups(data.run), cell.alias(_CELL))
        bars = by_cell.agg(number=pl.len(), y=difference.mean()).drop(_CELL)
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
        [*_difference_layers(runs, x, y, tips, colors_of_change), zero],
        title=f"{name}{direction}: {others} vs. {label_of(baseline)}, per query",
        subtitle=_difference_counts(spread),
    )


def _pairs(data: _Rankings, baseline: Any) -> pl.DataFrame:
    """Return the values of all other runs, paired with those of the baseline."""
    (run,), rows = data.run, data.rows
    check_run("baseline", baseline, run, rows.schema[run])
    if data.names and baseline not in data.names:
        raise unknown_run(run, data.names, "baseline", baseline)
    is_baseline = is_run(run, rows.schema[run], baseline)
    base = rows.filter(is_baseline).drop(run).rename({_VALUE: _BASELINE, _UNDEFINED: _EITHER})
    paired = rows.filter(~is_baseline).join(
        base, on=data.query, how="inner", nulls_equal=True, maintain_order="left"
    )
    if not paired.height:
        raise DataError("nothing to draw: no query has a ranking in both runs")
    return paired.with_columns(
        (pl.col(_VALUE) - pl.col(_BASELINE)).alias(_DIFFERENCE),
        pl.any_horizontal(_UNDEFINED, _EITHER).alias(_UNDEFINED),
    )


def _difference_layers(
    runs: Runs, x: Any, y: Any, tips: list[Any], colors: tuple[str, str]
) -> list[Any]:
    """Return a line per run, or areas of the higher and the lower queries of one run."""
    if runs.several:
        look = draw.looks(runs, *_LINES, legend=True)
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


def _difference_counts(spread: pl.DataFrame) -> list[str]:
    """Return the numbers of higher, equal and lower queries by run, and the number of queries."""
    rows = spread.sort("run").iter_rows(named=True)
    subtitle = [
        f"{row['run']}: {row['higher']:,} higher, {row['equal']:,} equal, {row['lower']:,} lower"
        f" · mean difference {row['mean']:+.4f}"
        for row in rows
    ]
    others = len(subtitle) - _MAX_COUNTS
    other_runs = [f"and {others} more runs"] if others > 0 else []
    undefined = draw.undefined_note(max(spread.get_column("undefined")))
    queries = draw.counted(spread.get_column("queries"))
    return [*subtitle[:_MAX_COUNTS], *other_runs, queries + undefined]


class _Rankings(NamedTuple):
    """The values of one metric, and the keys of rankings."""

    rows: pl.DataFrame
    metric: Variable
    run: list[str]
    query: Sequence[str]
    #: The runs.
    names: list[Any]

    @classmethod
    def of(cls, values: Any, metric: Any, run: str | None, query: Names | None = None) -> _Rankings:
        """Return the values of a per-query table, after checks of its columns.

        `query` is None if the queries do not matter; otherwise runs are compared.
        """
        table = lazy(values, "values")
        schema = schema_of(table)
        optional = (RUN, "query") if query is None else ()
        columns = Columns.find(schema, {"run": run, "query": query}, optional=optional)
        metrics = None if metric is None else [metric]
        requested = variables(schema, metrics, "metric", columns.parameters)
        if len(requested) > 1:
            names = ", ".join(repr(each.name) for each in requested)
            raise ArgumentError(f"a chart shows one metric; set `metric` to one of {names}")
        table = with_run_warning(table, table, run, columns)
        source = Values(table, requested, (), columns.run, columns.query)
        _, (group,) = source.facts_and_groups()
        if query is not None:
            group.check_unique()
        name = requested[0].name
        value, undefined = pl.col(name).alias(_VALUE), pl.col(UNDEFINED + name).alias(_UNDEFINED)
        rows = group.frame.select(*source.keys, value, undefined)
        return cls(rows, requested[0], [*columns.roles[RUN]], columns.query, [*group.rows])

    def statistics(self, rows: pl.DataFrame, value: pl.Expr, **more: pl.Expr) -> pl.DataFrame:
        """Return statistics of values by run, with runs under internal names.

        Raises
        ------
        DataError
            If there are no values.
        """
        facts = {
            "queries": pl.len(), "counted": value.count(), "undefined": pl.col(_UNDEFINED).sum(),
            "low": value.min(), "high": value.max(), "mean": value.mean(), **more,
        }  # fmt: skip
        by = groups(self.run)
        table = rows.group_by(by).agg(**facts).sort(pl.first()) if by else rows.select(**facts)
        return draw.non_empty(table, "low", f"value of {self.metric.name!r}")
