"""Charts with a row per mean: intervals, slices, bounds, leaderboards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import polars as pl

from polars_rank._params import OWN, one_of, public, whole_number
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.metrics.names import direction_note, direction_of
from polars_rank.plot import drawing as draw
from polars_rank.plot.chart_tables import NOTHING, keys_of, only_metric, result, rows_of_metrics
from polars_rank.plot.run_styles import (
    NEUTRAL,
    PALETTE,
    check_baseline,
    grouped,
    groups,
    labeled,
    run_columns,
    run_labels,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import altair as alt

    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.run_styles import Colors, Runs

    _Columns: TypeAlias = list[str | pl.Expr]

#: Maximum number of rows of a chart.
_MAX_ROWS = 60
#: Pixels between the runs of a row.
_STEP = 16
_KEY = OWN + "key "
#: Columns of results that charts need not have.
_OPTIONAL = ("queries", "confidence", "p_value", "verdict")
#: Values of slices that look like the labels of other rows.
_QUOTED = {"null": '"null"', "overall": '"overall"'}
#: Offset of a mark from the middle of its row, without a scale, which charts would share.
_BELOW: dict[str, Any] = {"yOffset": {"expr": "datum.place"}}

#: What a leaderboard shows.
BoardKind: TypeAlias = Literal["means", "ranks"]
_BOARD_COLUMNS = ("rank", "rank_low", "rank_high", "best", "mean", "low", "high")
#: Pixels of a run of a leaderboard.
_BOARD_STEP = 22


@public
def intervals(
    table: Any,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    *,
    run: str | None = "run",
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw a forest plot of means, or of differences between runs, with intervals.

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> values = pr.per_query(log, ["ndcg@10", "rr"], by="run").collect()
    >>> means = pr.plot.intervals(pr.summarize(values), baseline="bm25")
    >>> chart = means | pr.plot.intervals(pr.compare(values, baseline="bm25"))
    >>> chart.save("runs.png")  # doctest: +SKIP

    Parameters
    ----------
    table
        The table that `summarize` or `compare` returns.
    metrics
        Metrics, by name or as expressions. Default: all of the table.
    run
        Column of the run. None for one series.
    baseline
        Run that the others are compared with, drawn first, in gray. For means only: a table of
        differences has the column "baseline".
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        A row per metric, group and slice, in the order of the table, with a point and a line per
        run, or per pair of runs if there are several baselines. Hollow points have no interval. In
        a chart of differences, the dashed line marks 0.

    Raises
    ------
    SchemaError
        If the table has no means or differences, or no intervals.
    DataError
        If there is nothing to draw.
    """
    draw.altair()
    rows = lazy(table, "table")
    is_difference = "difference" in schema_of(rows)
    value = "difference" if is_difference else "mean"
    required = ("metric", value, "low", "high", *(["baseline"] if is_difference else []))
    rows = result(rows, required, "pr.summarize or pr.compare", optional=_OPTIONAL)
    rows = rows_of_metrics(rows, metrics)
    columns: _Columns = [pl.col(value).alias("x"), "low", "high", *_OPTIONAL]
    data, runs, versus = _labeled(rows, run, columns, baseline, colors, is_pair=is_difference)
    names = data.get_column("metric").unique().to_list()
    from_ = "" if versus is None else f" from {versus}"
    title = f"Differences{from_}" if is_difference else "Means"
    if len(names) == 1:
        difference = f"Difference in {draw.aggregate_title(names[0])}{from_}"
        title = difference if is_difference else draw.mean_title(names[0], capital=True)
    return _forest(
        data, runs, zero=is_difference, of_x=value + from_,
        title=f"{title}, with {draw.confidence_text(data.get_column('confidence'))}s",
        subtitle=[draw.counted(data.get_column("queries")) + _without_interval(data)],
    )  # fmt: skip


@public
def slices(
    table: Any,
    metric: str | Metric | None = None,
    *,
    n: int = 40,
    run: str | None = "run",
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Draw a forest plot of the difference in each slice, with intervals.

    Examples
    --------
    >>> log = pr.datasets.search_log(400)
    >>> values = pr.per_query(log, "ndcg@10", by="run", keep="country")
    >>> table = pr.compare(values, baseline="bm25", slices="country")
    >>> chart = pr.plot.slices(table)
    >>> chart.save("countries.png")  # doctest: +SKIP

    Parameters
    ----------
    table
        The table that `compare` returns with `slices`.
    metric
        The metric to draw; None if there is only one.
    n
        Number of slices to draw, at most 59: those with the largest absolute contributions.
    run
        Column of the run. None for one series.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart
        A row for the overall difference, and a row per slice, sorted by difference. Hollow points
        have too few queries for an interval.

    Raises
    ------
    DataError
        If there is nothing to draw.
    """
    draw.altair()
    whole_number("n", n)
    if n >= _MAX_ROWS:
        raise ArgumentError(f"must be at most {_MAX_ROWS - 1}; found {n:,}", "n")
    required = (
        "slice", "value", "metric", "baseline", "difference", "low", "high", "contribution",
    )  # fmt: skip
    rows = result(lazy(table, "table"), required, "pr.compare(slices=...)", optional=_OPTIONAL)
    name, rows = only_metric(rows, metric)
    drawn = pl.col("difference").alias("x")
    columns: _Columns = [drawn, "low", "high", "slice", "contribution", *_OPTIONAL]
    data, runs, versus = _labeled(rows, run, columns, None, colors, is_pair=True)
    is_slice = pl.col("slice").is_not_null()
    largest = (
        data.filter(is_slice)
        .group_by("label", maintain_order=True)
        .agg(pl.col("contribution").abs().max())
        .sort("contribution", descending=True, nulls_last=True, maintain_order=True)
    )
    kept = largest.get_column("label").head(n)
    order = pl.col("x").mean().over("label")
    data = data.filter(~is_slice | pl.col("label").is_in(kept.implode())).sort(
        is_slice, order, "label", descending=[False, True, False], nulls_last=True,
        maintain_order=True,
    )  # fmt: skip
    queries = draw.counted(data.filter(is_slice).get_column("queries"))
    level = draw.confidence_text(data.get_column("confidence"))
    omitted = f"{n} of {largest.height:,} slices, by absolute contribution"
    names = "all runs" if runs.several else runs.labels[0]
    of_runs = f": {names}" + (f" vs. {versus}" if versus is not None else "")
    metric_name = draw.aggregate_title(name)
    return _forest(
        data, runs, zero=True, of_x=f"difference in {metric_name}",
        title=f"Difference in {metric_name} by slice{of_runs if runs.named else ''}",
        subtitle=[
            f"slices of {queries} · {level}s{_without_interval(data)}",
            omitted if largest.height > n else "",
        ],
    )  # fmt: skip


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

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> table = pr.diagnostics.tie_bands(log, ["ndcg@10", "rr"], by="run")
    >>> chart = pr.plot.bounds(table, baseline="bm25")
    >>> chart.save("ties.png")  # doctest: +SKIP

    Parameters
    ----------
    table
        The table that `tie_bands` or `judgment_bounds` returns.
    metrics
        Metrics, by name or as expressions. Default: all of the table.
    run
        Column of the run. None for one series.
    baseline
        Run that the others are compared with, drawn first, in gray.
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
    """
    draw.altair()
    rows = lazy(table, "table")
    schema = schema_of(rows)
    is_tie_band = "tied_documents" in schema
    title, note = "Bounds for unjudged documents", "labels of unjudged documents"
    share, expected = "judged", NOTHING
    if is_tie_band:
        title, note = "Means over orders of tied documents", "orders · point: mean over all orders"
        share, expected = "tied_documents", pl.col("expected")
    required = ("metric", "low", "high", share, *(["expected"] if is_tie_band else []))
    function = "pr.diagnostics.tie_bands or pr.diagnostics.judgment_bounds"
    rows = rows_of_metrics(result(rows, required, function), metrics)
    columns: _Columns = ["low", "high", expected.alias("x"), pl.col(share).alias("share")]
    data, runs, _ = _labeled(rows, run, columns, baseline, colors)
    x = draw.axis("X", "low", "mean", grid=True, scale={"zero": False})
    data, y, height = _rows(data, runs)
    tips = draw.tooltip(
        *_row_fields(data), ("low", "low", ".4f"), ("x", "expected", ".4f"),
        ("high", "high", ".4f"), ("share", share.replace("_", " "), ".1%"), of=runs, data=data,
    )  # fmt: skip
    both = {"y": y, "tooltip": tips, **draw.looks(runs, "color")}
    of_points = draw.looks(runs, "color", "shape", legend=_within(data, runs))
    bar, tick = {"strokeWidth": 9, "opacity": 0.4}, {"thickness": 2, "size": 15, "opacity": 1}
    point = {"filled": True, "size": 46, "opacity": 1, **_BELOW}
    middle, high = draw.with_field(x, "x"), draw.with_field(x, "high")
    layers = [
        draw.layer("rule", {**bar, **_BELOW}, x=x, x2="high", **both),
        draw.layer("tick", {**tick, **_BELOW}, x=x, **both),
        draw.layer("tick", {**tick, **_BELOW}, x=high, **both),
        draw.layer("point", point, where="isValid(datum.x)", x=middle, **{**both, **of_points}),
    ]
    subtitle = [f"bar: lowest to highest mean over {note}"]
    return draw.layered(data, layers, title=title, subtitle=subtitle, height=height)


def _labeled(
    rows: pl.LazyFrame, run: str | None, columns: _Columns, baseline: Any, colors: Colors | None,
    *, is_pair: bool = False,
) -> tuple[pl.DataFrame, Runs, str | None]:  # fmt: skip
    """Return rows with their labels, the runs, and the only baseline of differences."""
    schema, versus = schema_of(rows), None
    of_runs = run_columns(schema, run)
    texts = [pl.col(key).cast(pl.String).fill_null("null") for key in keys_of(schema, of_runs)]
    if "slice" in schema:
        value = pl.col("value").cast(pl.String).replace(_QUOTED).fill_null("null")
        several = pl.col("slice").drop_nulls().n_unique() > 1
        part = pl.when(several).then(pl.format("{}: {}", "slice", value)).otherwise(value)
        texts.append(pl.when(pl.col("slice").is_null()).then(pl.lit("overall")).otherwise(part))
    keys = [f"{_KEY}{place}" for place in range(len(texts))]
    compared = [*of_runs, "baseline"] if is_pair else of_runs
    named = (text.alias(name) for text, name in zip(texts, keys, strict=True))
    data = collected(rows.select(*columns, "metric", *groups(compared), *named))
    draw.non_empty(data, data.columns[0], "mean")
    if is_pair:
        column = grouped(data.columns)[-1]
        known = run_labels(data.get_column(column).unique()).to_list()
        check_baseline(baseline, known)
        versus = known[0] if len(known) == 1 else None
        data = data.drop(column) if versus is not None or not of_runs else data
        data, runs = labeled(data, None, colors, separator=" vs. ")
    else:
        data, runs = labeled(data, baseline, colors)
    # The label is the metric, if there are several, and the keys; or else the run.
    one_metric = data.get_column("metric").n_unique() == 1
    parts = ([] if one_metric and (keys or runs.named) else ["metric"]) + keys
    label = pl.concat_str(parts or ["run"], separator=" · ")
    return data.with_columns(label.alias("label")).drop(keys), runs, versus


def _without_interval(data: pl.DataFrame) -> str:
    """Return a note on hollow points; empty if there are none."""
    without = data.select((pl.col("x").is_not_null() & pl.col("low").is_null()).any()).item()
    return " · hollow: no interval" if without else ""


def _forest(
    data: pl.DataFrame, runs: Runs, *, zero: bool, of_x: str, title: str, subtitle: Sequence[str]
) -> alt.LayerChart:  # fmt: skip
    """Return a chart with a row per label, and a point and an interval per run."""
    value, form = ("difference", "+.4f") if zero else ("mean", ".4f")
    numbers = [("x", value, form), ("low", "low", form), ("high", "high", form)]
    tips = draw.tooltip(
        *_row_fields(data), *numbers, draw.INTERVAL[-1], ("contribution", "contribution", form),
        ("p_value", "p-value", ".4~g"), ("verdict", "verdict"), of=runs, data=data,
    )  # fmt: skip
    x = draw.axis("X", "x", of_x, grid=True, scale={"zero": zero})
    data, y, height = _rows(data.drop("confidence"), runs)
    both = {"y": y, "tooltip": tips, **draw.looks(runs, "color")}
    shapes = draw.looks(runs, "color", "shape")
    of_points = draw.looks(runs, "color", "shape", legend=_within(data, runs))
    point = {"filled": True, "size": 64, "opacity": 1, **_BELOW}
    hollow = {**point, "filled": False, "strokeWidth": 1.5}
    line, low = {"strokeWidth": 2, **_BELOW}, draw.with_field(x, "low")
    known = draw.HAS_INTERVAL
    layers = [
        draw.layer("rule", line, where=known, x=low, x2="high", **both),
        draw.layer("point", hollow, where=f"!({known})", x=x, **{**both, **shapes}),
        draw.layer("point", point, where=known, x=x, **{**both, **of_points}),
    ]
    if zero:
        layers.insert(0, draw.layer("rule", draw.DASHED, data=pl.DataFrame({"x": [0.0]}), x=x))
    return draw.layered(data, layers, title=title, subtitle=subtitle, height=height)


def _row_fields(data: pl.DataFrame) -> list[tuple[str, str]]:
    """Return the tooltip fields that identify a row: the metric and, if different, the label."""
    of_run = any(data.get_column("label").equals(data.get_column(n)) for n in ("metric", "run"))
    return [("metric", "metric"), *([] if of_run else [("label", "row")])]


def _within(data: pl.DataFrame, runs: Runs) -> bool:
    """Return whether a row has several runs, rather than one row per run."""
    return runs.several and not data.get_column("label").equals(data.get_column("run"))


def _rows(data: pl.DataFrame, runs: Runs) -> tuple[pl.DataFrame, Any, float]:
    """Return the table with the offset of each run in its row, the axis of rows, and its height."""
    labels = data.get_column("label").unique(maintain_order=True).to_list()
    step, height = (_STEP, _STEP * len(runs.labels) + 14) if _within(data, runs) else (0, 26)
    middle = (len(runs.labels) - 1) / 2
    below = {run: step * (place - middle) for place, run in enumerate(runs.labels)}
    place = pl.col("run").replace_strict(below, return_dtype=pl.Float64)
    y = draw.axis("Y", "label", None, type="nominal", grid=False, sort=labels, labelPadding=8)
    return data.with_columns(place=place), y, _height(len(labels), height)


def _height(rows: int, height: float) -> float:
    """Return the height of a chart with rows of a height; raise if there are too many."""
    if rows > _MAX_ROWS:
        raise ArgumentError(
            f"the chart would have {rows:,} rows, more than {_MAX_ROWS}; filter the table"
        )
    return max(56, height * rows)


@public
def leaderboard(
    table: Any, metric: str | Metric | None = None, *, kind: BoardKind = "means", run: str = "run"
) -> alt.LayerChart:
    """Draw a leaderboard: means or ranks of runs with intervals, best first.

    Examples
    --------
    >>> log = pr.datasets.search_log(200, runs=["bm25", "dense", "hybrid"])
    >>> values = pr.per_query(log, "ndcg@10", by="run").collect()
    >>> board = pr.leaderboard(values)
    >>> ranks = pr.plot.leaderboard(board, kind="ranks")
    >>> chart = pr.plot.leaderboard(board) | ranks
    >>> chart.save("leaderboard.png")  # doctest: +SKIP

    Parameters
    ----------
    table
        The table that `leaderboard` returns.
    metric
        Metric of the table to draw. Not needed for a table with one metric.
    kind
        What to draw:

        - "means": means, with the interval of each run on its own;
        - "ranks": ranks, with the simultaneous intervals `rank_low` to `rank_high`.
    run
        Column of the run.

    Returns
    -------
    altair.LayerChart
        A row per run. Runs than which no run is significantly better are shaded and colored.

    Raises
    ------
    ArgumentError
        If the table has several metrics and `metric` is not set, or it has more than 60 runs.
    DataError
        If there is nothing to draw, such as ranks of few queries.
    """
    draw.altair()
    one_of("kind", kind, get_args(BoardKind))
    rows = lazy(table, "table")
    schema = schema_of(rows)
    rows = result(rows, ("metric", *_BOARD_COLUMNS), "pr.leaderboard", optional=_OPTIONAL[:2])
    name, rows = only_metric(rows, metric)
    is_rank = kind == "ranks"
    names = str(Columns.find(schema, {"run": run}, optional=()).run)
    data = collected(rows.select(pl.col(names).alias("run"), *_BOARD_COLUMNS, *_OPTIONAL[:2]))
    draw.non_empty(data, "rank_low" if is_rank else "mean", kind)
    height = _height(data.height, _BOARD_STEP)
    data = data.with_columns(
        run_labels(data.get_column("run")), pl.col("best").fill_null(value=False)
    )
    x, low, high = draw.axis("X", "mean", "mean", grid=True, scale={"zero": False}), "low", "high"
    direction, level = direction_note(name), draw.confidence_text(data.get_column("confidence"))
    # The ranks show the direction if the name of the metric does not.
    means = data.sort("rank", maintain_order=True).get_column("mean").drop_nulls()
    if not direction_of(name) and len(means) and means[0] < means[-1]:
        direction = " (lower is better)"
    title = f"{draw.mean_title(name, capital=True)}{direction}, with {level}s"
    if is_rank:
        x = draw.with_field(draw.cutoffs("rank", range(1, data.height + 1), grid=True), "rank")
        low, high = "rank_low", "rank_high"
        title = f"Ranks by {draw.aggregate_title(name)}{direction}, with simultaneous {level}s"
    order = data.get_column("run").to_list()
    bands = {"type": "band", "paddingInner": 0, "paddingOuter": 0}
    y = draw.axis(
        "Y", "run", None, type="nominal", grid=False, sort=order, labelPadding=8, scale=bands
    )
    *low_and_high, queries = draw.INTERVAL
    tips = draw.tooltip(
        ("run", "run"), ("mean", "mean", ".4f"), *low_and_high, ("rank", "rank", ",d"),
        ("rank_low", "best rank", ",d"), ("rank_high", "worst rank", ",d"), queries, data=data,
    )  # fmt: skip
    both = {"y": y, "tooltip": tips}
    both["color"] = draw.altair().ColorValue(
        NEUTRAL, condition={"test": "datum.best", "value": PALETTE[0]}
    )
    shade = {"x": 0, "x2": "width", "color": PALETTE[0], "opacity": 0.1}
    ends = {"x": draw.with_field(x, low), "x2": high}
    layers = [
        draw.layer("rect", shade, where="datum.best", y=y),
        draw.layer("rule", {"strokeWidth": 2}, where=draw.HAS_INTERVAL, **ends, **both),
        draw.layer("point", {"filled": True, "size": 64, "opacity": 1}, x=x, **both),
    ]
    shaded = "shaded: no run is significantly better" if data.get_column("best").any() else ""
    notes = filter(None, (draw.counted(data.get_column("queries")), shaded))
    return draw.layered(data, layers, title=title, subtitle=[" · ".join(notes)], height=height)
