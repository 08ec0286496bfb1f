"""Forest plots: means, differences and slices with intervals; bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, public, whole_number
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot.drawing import (
    aggregate_title,
    altair,
    axis,
    confidence_text,
    counted,
    layered,
    looks,
    mean_title,
    non_empty,
    tooltip,
    with_field,
)
from polars_rank.plot.runs import (
    NEUTRAL,
    grouped,
    groups,
    harmless_texts,
    label_of,
    labeled,
    run_columns,
)
from polars_rank.plot.statistics_tables import (
    bounds_of,
    keys_of,
    result,
    rows_of_metrics,
    with_corrected_bounds,
    with_level,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import altair as alt

    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors, Runs

#: Maximum number of rows of a chart.
_MAX_ROWS = 60
#: Pixels between the runs of a row.
_STEP = 16
_KEY = OWN + "key "
_CORRECTED = "intervals corrected for multiple comparisons"
#: Offset of a mark from the middle of its row, without a scale, which charts would share.
_BELOW: dict[str, Any] = {"yOffset": {"expr": "datum.place"}}


@public
def intervals(
    table: Any,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    *,
    run: str | None = "run",
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw a forest plot of means, or of differences from a baseline, with intervals.

    Parameters
    ----------
    table
        The table that `summarize`, `compare` or `slices` returns.
    metrics
        Metrics of the table to draw. Default: all.
    run
        Column of runs; None for one series. A table without the column "run" has one series.
    baseline
        For means, the run that is drawn first, in gray; for differences, the run that is named in
        the title.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        A row per metric and group, in the order of the table, with a point and a line per run. In
        a chart of differences, the dashed line marks 0, and the lines are the intervals
        `low_corrected` to `high_corrected`.

    Raises
    ------
    SchemaError
        If the table has no means or differences, or no intervals.
    DataError
        If there is nothing to draw.

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> values = pr.per_query(log, ["ndcg@10", "rr"], by="run").collect()
    >>> means = pr.plot.intervals(pr.summarize(values), baseline="bm25")
    >>> comparison = pr.compare(values, baseline="bm25")
    >>> chart = means | pr.plot.intervals(comparison, baseline="bm25")
    >>> chart.save("runs.png")  # doctest: +SKIP
    """
    altair()
    rows = lazy(table, "table")
    schema = schema_of(rows)
    if {"column", "value", "contribution"} <= set(schema):
        return slices(rows, run=run, baseline=baseline, colors=colors)
    is_difference = "difference" in schema
    value = "difference" if is_difference else "mean"
    rows = result(rows, ("metric", value, "low", "high"), "pr.summarize or pr.compare")
    more = ["p_corrected"] if "p_corrected" in schema else []
    rows = with_level(rows_of_metrics(rows, metrics))
    names = [*bounds_of(schema), "queries", "confidence", *more]
    columns = {"x": pl.col(value), **{name: pl.col(name) for name in names}}
    data, runs = _rows(
        rows, schema, run, columns, baseline, colors, needed_baseline=not is_difference
    )
    data, is_corrected = with_corrected_bounds(data)
    names = data.get_column("metric").unique().to_list()
    from_ = "" if baseline is None or not is_difference else f" from {label_of(baseline)}"
    title = ("Differences" if is_difference else "Means") + from_
    if len(names) == 1:
        name = names[0]
        difference = f"Difference in {aggregate_title(name)}{from_}"
        title = difference if is_difference else mean_title(name, capital=True)
    tips = tooltip(
        *_row_fields(data),
        ("x", value, "+.4f" if is_difference else ".4f"),
        ("low", "low", "+.4f" if is_difference else ".4f"),
        ("high", "high", "+.4f" if is_difference else ".4f"),
        ("queries", "queries", ",d"),
        *((name, "corrected p-value", ".4~g") for name in more),
        of=runs,
    )
    return _forest(
        data, runs, tips, zero=is_difference, of_x=value + from_,
        title=f"{title}, with {confidence_text(data.get_column('confidence'))}s",
        subtitle=[counted(data.get_column("queries")) + f" · {_CORRECTED}" * is_corrected],
    )  # fmt: skip


@public
def slices(
    table: Any,
    *,
    n: int = 40,
    run: str | None = "run",
    baseline: Any = None,
    overall: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw a forest plot of the difference in each slice, with intervals.

    Parameters
    ----------
    table
        The table that `slices` returns.
    n
        Number of slices to draw, at most 60: those with the largest absolute contributions.
    run
        Column of runs; None for one series. A table without the column "run" has one series.
    baseline
        The run that is named in the title.
    overall
        The table that `compare` returns, for the interval of the row "overall".
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        A row for the overall difference, and a row per slice, sorted by difference. The lines are
        the intervals `low_corrected` to `high_corrected`. Hollow points are slices with too few
        queries for an interval.

    Raises
    ------
    DataError
        If there is nothing to draw.

    Examples
    --------
    >>> log = pr.datasets.search_log(400)
    >>> values = pr.per_query(log, "ndcg@10", by="run", keep="country")
    >>> table = pr.slices(values, "ndcg@10", slices="country", baseline="bm25")
    >>> chart = pr.plot.slices(table, baseline="bm25")
    >>> chart.save("countries.png")  # doctest: +SKIP
    """
    altair()
    whole_number("n", n)
    if n > _MAX_ROWS:
        raise ArgumentError(f"`n` must be at most {_MAX_ROWS}; found {n:,}")
    rows = lazy(table, "table")
    schema = schema_of(rows)
    required = ("column", "value", "metric", "difference", "low", "high", "contribution", "small")
    rows = result(rows, required, "pr.slices")
    columns = run_columns(schema, run)
    data = collected(
        with_level(rows)
        .select(
            *groups(columns), *dict.fromkeys([*required, *bounds_of(schema)]), "queries",
            "p_corrected", "confidence",
        )
        .rename({"difference": "x"})
    )  # fmt: skip
    data, is_corrected = with_corrected_bounds(harmless_texts(non_empty(data, "x", "difference")))
    several = data.get_column("column").n_unique() > 1
    value = pl.col("value").replace("null", '"null"').fill_null("null")
    name = pl.format("{}: {}", "column", value) if several else value
    whole, _ = labeled(_overall(data, overall, columns))
    data, runs = labeled(data.with_columns(name.alias("label")), baseline=baseline, colors=colors)
    largest = (
        data.group_by("label", maintain_order=True)
        .agg(pl.col("contribution").abs().max())
        .sort("contribution", descending=True, nulls_last=True, maintain_order=True)
    )
    data = data.join(largest.head(n).select("label"), on="label", maintain_order="left")
    order = pl.col("x").mean().over("label")
    data = data.sort(order, "label", descending=[True, False], nulls_last=True, maintain_order=True)
    metric = aggregate_title(data.get_column("metric")[0])
    tips = tooltip(
        ("label", "slice"), ("x", "difference", "+.4f"), ("low", "low", "+.4f"),
        ("high", "high", "+.4f"), ("queries", "queries", ",d"),
        ("contribution", "contribution", "+.4f"), ("p_corrected", "corrected p-value", ".4~g"),
        of=runs,
    )  # fmt: skip
    level = confidence_text(data.get_column("confidence"))
    subtitle = [f"slices of {counted(data.get_column('queries'))} · {level}s"]
    if is_corrected:
        subtitle.append(_CORRECTED)
    if data.get_column("small").any():
        subtitle[0] += " · hollow: too few queries for an interval"
    if largest.height > n:
        subtitle.append(f"{n} of {largest.height:,} slices, by absolute contribution")
    names = "all runs" if runs.several else runs.labels[0]
    versus = "" if baseline is None else f" vs. {label_of(baseline)}"
    of_runs = f": {names}{versus}" if runs.named else ""
    return _forest(
        pl.concat([whole, data], how="diagonal_relaxed"), runs, tips, zero=True,
        of_x=f"difference in {metric}", title=f"Difference in {metric} by slice{of_runs}",
        subtitle=subtitle,
    )  # fmt: skip


def _overall(data: pl.DataFrame, overall: Any, columns: list[str]) -> pl.DataFrame:
    """Return the overall difference of each run, which the contributions of a column add up to."""
    first = data.filter(pl.col("column") == pl.col("column").first(), pl.col("queries") > 0)
    keys = ["metric", *grouped(data.columns)]
    rows = first.group_by(keys, maintain_order=True).agg(
        pl.col("contribution").sum(),
        pl.col("contribution").sum().alias("x"),
        pl.col("queries").sum(),
    )
    if overall is not None:
        known = result(lazy(overall, "overall"), ("metric", "low", "high"), "pr.compare", "overall")
        schema = schema_of(known)
        ends = collected(known.select(*groups(columns), "metric", *bounds_of(schema)))
        ends, _ = with_corrected_bounds(ends)
        rows = rows.join(ends, on=keys, how="left", nulls_equal=True, maintain_order="left")
    return rows.with_columns(label=pl.lit("overall"), small=pl.lit(value=False))


@public
def bounds(
    table: Any,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    *,
    run: str | None = "run",
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw the range of means over orders of ties, or over labels of unjudged documents.

    Parameters
    ----------
    table
        The table that `tie_bands` or `judgment_bounds` returns.
    metrics
        Metrics of the table to draw. Default: all.
    run
        Column of runs; None for one series. A table without the column "run" has one series.
    baseline
        The run that is drawn first, in gray.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        A bar from the low to the high bound. For ties, a point marks the expected value.

    Raises
    ------
    DataError
        If there is nothing to draw.

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> table = pr.diagnostics.tie_bands(log, ["ndcg@10", "rr"], by="run")
    >>> chart = pr.plot.bounds(table, baseline="bm25")
    >>> chart.save("ties.png")  # doctest: +SKIP
    """
    alt = altair()
    rows = lazy(table, "table")
    schema = schema_of(rows)
    is_tie_band = "tied_documents" in schema
    share = "tied_documents" if is_tie_band else "judged"
    rows = result(
        rows,
        ("metric", "low", "high", share, *(["expected"] if is_tie_band else [])),
        "pr.diagnostics.tie_bands or pr.diagnostics.judgment_bounds",
    )
    point = pl.col("expected") if is_tie_band else pl.lit(None, dtype=pl.Float64)
    rows = rows_of_metrics(rows, metrics)
    columns = {"low": pl.col("low"), "high": pl.col("high"), "x": point, "share": pl.col(share)}
    data, runs = _rows(rows, schema, run, columns, baseline, colors)
    x = axis("X", "low", "mean", grid=True, scale={"zero": False})
    data = _with_offsets(data, runs)
    y, height = _rows_axis(data, runs)
    tips = tooltip(
        *_row_fields(data),
        ("low", "low", ".4f"),
        *([("x", "expected", ".4f")] if is_tie_band else []),
        ("high", "high", ".4f"),
        ("share", "tied documents" if is_tie_band else "judged", ".1%"),
        of=runs,
    )
    both = {"y": y, "tooltip": tips}
    color = looks(runs, "color")
    of_points = looks(runs, "color", "shape", legend=_within(data, runs))
    bar = alt.Chart().mark_rule(strokeWidth=9, opacity=0.4, **_BELOW)
    tick = alt.Chart().mark_tick(thickness=2, size=15, opacity=1, **_BELOW)
    with_interval = alt.Chart().transform_filter("isValid(datum.x)")
    layers = [
        bar.encode(x=x, x2=alt.X2(field="high"), **both, **color),
        tick.encode(x=x, **both, **color),
        tick.encode(x=with_field(x, "high"), **both, **color),
        with_interval.mark_point(filled=True, size=46, opacity=1, **_BELOW).encode(
            x=with_field(x, "x"), **both, **of_points
        ),
    ]
    title = (
        "Means over orders of tied documents" if is_tie_band else "Bounds for unjudged documents"
    )
    note = "bar: lowest to highest mean over orders · point: mean over all orders"
    if not is_tie_band:
        note = "bar: lowest to highest mean over labels of unjudged documents"
    return layered(data, layers, title=title, subtitle=[note], height=height)


def _rows(
    rows: pl.LazyFrame, schema: pl.Schema, run: str | None, columns: Mapping[str, pl.Expr],
    baseline: Any, colors: Colors | None, *, needed_baseline: bool = True,
) -> tuple[pl.DataFrame, Runs]:  # fmt: skip
    """Return the columns with the label of each row, and the runs."""
    of_runs = run_columns(schema, run)
    keys = keys_of(schema, of_runs)
    selected = rows.select(
        *groups(of_runs),
        *(pl.col(key).cast(pl.String).fill_null("null").alias(_KEY + key) for key in keys),
        "metric",
        **columns,
    )
    (first, *_) = columns
    data, runs = labeled(
        harmless_texts(non_empty(collected(selected), first, "mean")),
        baseline=baseline,
        colors=colors,
        needed=needed_baseline,
    )
    one_metric = data.get_column("metric").n_unique() == 1
    parts = ([] if one_metric and (keys or runs.named) else ["metric"]) + [_KEY + k for k in keys]
    label = pl.concat_str(parts or ["run"], separator=" · ")
    data = data.with_columns(label.alias("label")).drop(_KEY + key for key in keys)
    number = data.get_column("label").n_unique()
    if number > _MAX_ROWS:
        raise ArgumentError(
            f"the chart would have {number:,} rows, more than {_MAX_ROWS}; filter the table or "
            "select `metrics`"
        )
    return data, runs


def _row_fields(data: pl.DataFrame) -> list[tuple[str, str]]:
    """Return the tooltip fields that identify a row: the metric and, if different, the label."""
    if data.get_column("label").equals(data.get_column("metric")):
        return [("metric", "metric")]
    is_run = data.get_column("label").equals(data.get_column("run"))
    return [("metric", "metric"), *([] if is_run else [("label", "row")])]


def _forest(
    data: pl.DataFrame, runs: Runs, tips: list[Any], *, zero: bool, of_x: str, title: str,
    subtitle: Sequence[str],
) -> alt.LayerChart:  # fmt: skip
    """Return a chart with a row per label, and a point and an interval per run."""
    alt = altair()
    x = axis("X", "x", of_x, grid=True, scale={"zero": zero})
    data = _with_offsets(data.drop("confidence"), runs)
    y, height = _rows_axis(data, runs)
    both = {"y": y, "tooltip": tips}
    of_points = looks(runs, "color", "shape", legend=_within(data, runs))
    with_interval = alt.Chart().transform_filter("isValid(datum.low) && isValid(datum.high)")
    line = with_interval.mark_rule(strokeWidth=2, **_BELOW).encode(**both, **looks(runs, "color"))
    layers = [line.encode(x=with_field(x, "low"), x2=alt.X2(field="high"))]
    points = alt.Chart().mark_point(filled=True, size=64, opacity=1, **_BELOW)
    points = points.encode(x=x, **both, **of_points)
    if "small" in data.columns:
        look = {"filled": False, "size": 64, "opacity": 1, "strokeWidth": 1.5}
        hollow = alt.Chart().mark_point(**look, **_BELOW)
        hollow = hollow.encode(x=x, **both, **looks(runs, "color", "shape"))
        layers.append(hollow.transform_filter("datum.small"))
        points = points.transform_filter("!datum.small")
    layers.append(points)
    if zero:
        none = alt.Chart(pl.DataFrame({"x": [0.0]}))
        layers.insert(0, none.mark_rule(strokeDash=[4, 3], color=NEUTRAL).encode(x=x))
    return layered(data, layers, title=title, subtitle=subtitle, height=height)


def _within(data: pl.DataFrame, runs: Runs) -> bool:
    """Return whether a row has several runs, rather than one row per run."""
    return runs.several and not data.get_column("label").equals(data.get_column("run"))


def _with_offsets(data: pl.DataFrame, runs: Runs) -> pl.DataFrame:
    """Return the table with the offset of each run from the middle of its row, in pixels."""
    middle = (len(runs.labels) - 1) / 2
    below = {
        run: _STEP * (place - middle) if _within(data, runs) else 0.0
        for place, run in enumerate(runs.labels)
    }
    return data.with_columns(place=pl.col("run").replace_strict(below, return_dtype=pl.Float64))


def _rows_axis(data: pl.DataFrame, runs: Runs) -> tuple[Any, float]:
    """Return the axis of rows and its height."""
    labels = data.get_column("label").unique(maintain_order=True).to_list()
    look: dict[str, Any] = {"grid": False, "sort": labels, "labelPadding": 8}
    each = _STEP * len(runs.labels) + 14 if _within(data, runs) else 26
    return axis("Y", "label", None, type="nominal", **look), max(56, each * len(labels))
