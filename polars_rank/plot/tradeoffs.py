"""Two metrics, one against the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import check_column, public
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot.drawing import (
    altair,
    confidence_text,
    counted,
    layered,
    looks,
    means,
    metric_title,
    non_empty,
    tooltip,
    with_field,
)
from polars_rank.plot.runs import NEUTRAL, groups, label_of, labeled, run_columns
from polars_rank.plot.statistics_tables import (
    check_metric,
    keys_of,
    metrics_of,
    name_of,
    result,
    rows_of_metrics,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import altair as alt

    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors, Runs


@public
def tradeoff(
    table: Any,
    x: str | Metric | None = None,
    y: str | Metric | None = None,
    *,
    run: str | None = "run",
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw one metric against another, with one point per run.

    Parameters
    ----------
    table
        The table that `summarize` returns; or a table with one row per run and one column per
        metric, without intervals, such as that of `evaluate`.
    x, y
        The metrics. Default for a table of `summarize` with two metrics: x is the first.
    run
        Column of runs; None for one point. A table without the column "run" has one point.
    baseline
        The run that is drawn first, in gray, with dashed lines at its values.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        A point per run, with its confidence intervals as lines. Runs without a value of one of the
        metrics are omitted.

    Raises
    ------
    ArgumentError
        If there are several rows for one run.
    DataError
        If there is nothing to draw.

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> values = pr.per_query(log, ["ndcg@10", "recall@5"], by="run")
    >>> summary = pr.summarize(values)
    >>> chart = pr.plot.tradeoff(summary, "recall@5", "ndcg@10", baseline="bm25")
    >>> chart.save("tradeoff.png")  # doctest: +SKIP
    """
    altair()
    rows = lazy(table, "table")
    schema = schema_of(rows)
    columns = run_columns(schema, run)
    function = "pr.summarize" if "metric" in schema else "pr.evaluate"
    rows = result(rows, ("queries",), function, optional=("confidence",))
    if "metric" in schema:
        rows = result(rows, ("mean", "low", "high"), function)
        x, y = _two_metrics(rows, x, y)
        rows, others = rows_of_metrics(rows, [x, y]), keys_of(schema, columns)
        ends = ("low", "mean", "high")
        across, up = (
            [pl.col(end).filter(pl.col("metric") == name) for end in ends] for name in (x, y)
        )
    else:
        x, y = (_column(parameter, each, schema) for parameter, each in (("x", x), ("y", y)))
        others, nothing = [], pl.lit(None, dtype=pl.Float64)
        across, up = ([nothing, pl.col(name).cast(pl.Float64), nothing] for name in (x, y))
    facts = _points(across, up)
    by_run = rows.group_by(groups(columns)).agg(**facts) if columns else rows.select(**facts)
    values = collected(by_run)
    if (values.get_column("rows") > 1).any():
        raise ArgumentError(
            "several rows for one run; set `run`"
            + (f", or filter the table to one value of {others}" if others else ""),
        )
    level = confidence_text(values.get_column("confidence"))
    data, runs = labeled(
        values.drop("rows", "confidence"), baseline=baseline, colors=colors, needed=True
    )
    data = data.filter(pl.col("x").is_not_null(), pl.col("y").is_not_null()).sort("run")
    non_empty(data, "x", f"{x!r} and {y!r}")
    drawn = None if baseline is None else label_of(baseline)
    if drawn not in data.get_column("run"):
        drawn = None
    has_bounds = data.get_column("low").is_not_null().any()
    omitted = values.height - data.height
    notes = [
        counted(data.get_column("queries")),
        f"lines: {level}s" if has_bounds else "",
        "" if drawn is None else f"dashed lines: {drawn}",
    ]
    return layered(
        data,
        _layers(data, runs, x, y, drawn),
        title=f"{metric_title(y)} and {metric_title(x)}",
        subtitle=[
            " · ".join(filter(None, notes)),
            f"{counted([omitted], 'runs')} without both metrics omitted" if omitted else "",
        ],
        width=340,
        height=340,
    )


def _two_metrics(rows: pl.LazyFrame, x: Any, y: Any) -> list[str]:
    """Return the names of the two metrics to draw, completing those that are not given."""
    available = metrics_of(rows)
    requested = [None if each is None else name_of(each) for each in (x, y)]
    for parameter, name in zip("xy", requested, strict=True):
        if name is not None:
            check_metric(parameter, name, available)
    others = [each for each in available if each not in requested]
    if requested.count(None) not in (0, len(others)):
        raise ArgumentError(f"set `x` and `y` to two of the metrics; available: {available}")
    return [others.pop(0) if each is None else each for each in requested]


def _column(parameter: str, metric: str | Metric | None, schema: pl.Schema) -> str:
    """Return the column of a metric."""
    if metric is None:
        raise ArgumentError(f"set `{parameter}` to a column of the table; available: {[*schema]}")
    name = name_of(metric)
    check_column(parameter, name, schema, "number")
    return name


def _points(across: Sequence[pl.Expr], up: Sequence[pl.Expr]) -> dict[str, pl.Expr]:
    """Return the columns of a point, from the low end, the value and the high end of each axis."""
    columns = ("x_low", "x", "x_high", "low", "y", "high")
    values = {name: each.first() for name, each in zip(columns, (*across, *up), strict=True)}
    rows = pl.max_horizontal(across[1].len(), up[1].len())
    first = {name: pl.col(name).first() for name in ("queries", "confidence")}
    return {**values, "rows": rows, **first}


def _layers(data: pl.DataFrame, runs: Runs, x: str, y: str, baseline: str | None) -> list[Any]:
    alt = altair()
    across = means(metric_title(x), data, ("x_low", "x", "x_high"), kind="X", grid=True)
    up = means(metric_title(y), data)
    bounds = [
        (name, f"{metric}, {end}", ".4f")
        for metric, ends in ((x, ("x_low", "x_high")), (y, ("low", "high")))
        for name, end in zip(ends, ("low", "high"), strict=True)
    ]
    tips = tooltip(
        ("x", x, ".4f"), ("y", y, ".4f"), *bounds, ("queries", "queries", ",d"), of=runs, data=data
    )  # fmt: skip
    line = alt.Chart().mark_rule(strokeWidth=2)
    color = looks(runs, "color")
    points = alt.Chart().mark_point(filled=True, size=90, opacity=1)
    layers = [
        line.transform_filter("isValid(datum.x_low) && isValid(datum.x_high)").encode(
            x=with_field(across, "x_low"), x2=alt.X2(field="x_high"), y=up, tooltip=tips, **color
        ),
        line.transform_filter("isValid(datum.low) && isValid(datum.high)").encode(
            x=across, y=with_field(up, "low"), y2=alt.Y2(field="high"), tooltip=tips, **color
        ),
        points.encode(x=across, y=up, tooltip=tips, **looks(runs, "color", "shape", legend=True)),
    ]
    if baseline is None:
        return layers
    of_baseline = alt.Chart(data.filter(pl.col("run") == baseline))
    dashed = of_baseline.mark_rule(strokeDash=[4, 3], color=NEUTRAL)
    return [dashed.encode(x=across), dashed.encode(y=up), *layers]
