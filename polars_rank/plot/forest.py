"""Forest plots: means, differences and slices with their intervals; bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, whole_number
from polars_rank.columns import RUN
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot.drawing import (
    altair,
    axis,
    counted,
    layered,
    looks,
    something,
    tooltip,
    with_field,
)
from polars_rank.plot.runs import NEUTRAL, groups, harmless_texts, label_of, labelled, run_columns
from polars_rank.plot.tables import check_columns, chosen, keys_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import altair as alt

    from polars_rank.metrics.metric import Metric
    from polars_rank.plot.runs import Colors, Runs

#: Rows of a chart that can be read.
_MOST = 60
#: Pixels between runs in a row.
_STEP = 16
_KEY = OWN + "key "
#: What puts a mark beside the middle of its row: no scale, which charts would share.
_BELOW: dict[str, Any] = {"yOffset": {"expr": "datum.place"}}


def intervals(
    table: Any,
    *,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    run: str | None = RUN,
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Means, or differences from a baseline, with their intervals: a forest plot.

    Parameters
    ----------
    table
        What `summarize` or `compare` returns, or the row of `slices`.
    metrics
        Metrics of the table to draw; None for all.
    run, baseline, colors
        As for `pr.plot.at_k`.

    Returns
    -------
    altair.LayerChart
        A row per metric and group, in the order of the table, with a point and a line per run; of
        differences, the dashed line is that of no difference.

    Raises
    ------
    SchemaError
        For a table without means, or differences, and intervals.
    DataError, ArgumentError
        For a run or a metric that is not there, and where there is nothing to draw.
    MissingExtraError
        Without altair (extra "plot").

    Examples
    --------
    >>> lists = pr.per_query(pr.datasets.search_log(50), ["ndcg@10", "rr"], by="run").collect()
    >>> chart = pr.plot.intervals(pr.summarize(lists, by="run")) | pr.plot.intervals(
    ...     pr.compare(lists, baseline="bm25"), baseline="bm25"
    ... )
    >>> chart.save("runs.png")  # doctest: +SKIP
    """
    altair()
    rows = lazy(table)
    schema = schema_of(rows)
    if {"column", "value", "contribution"} <= set(schema):
        return slices(rows, run=run, baseline=baseline, colors=colors)
    differ = "difference" in schema
    value = "difference" if differ else "mean"
    check_columns(schema, ("metric", value, "low", "high"), "pr.summarize or pr.compare")
    more = ["p_corrected"] if "p_corrected" in schema else []
    rows = chosen(rows, metrics).rename({value: "x"})
    columns = ["x", "low", "high", "queries", *more]
    found, runs = _rows(rows, schema, run, columns, baseline, colors, there=not differ)
    only = found.get_column("metric").unique().to_list()
    from_ = "" if baseline is None or not differ else f" from {label_of(baseline)}"
    title = ("Differences" if differ else "Means") + from_
    if len(only) == 1:
        title = f"Difference of {only[0]}{from_}" if differ else f"Mean {only[0]}"
    tips = tooltip(
        *_of_row(found),
        ("x", value, "+.4f" if differ else ".4f"),
        ("low", "low", "+.4f" if differ else ".4f"),
        ("high", "high", "+.4f" if differ else ".4f"),
        ("queries", "queries", ",d"),
        *((name, "p, corrected", ".4~g") for name in more),
        of=runs,
    )
    return _forest(
        found, runs, tips, zero=differ, of_x=value + from_, title=f"{title}, with intervals",
        told=[counted(found.get_column("queries"))],
    )  # fmt: skip


def slices(
    table: Any,
    *,
    most: int = 40,
    run: str | None = RUN,
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Differences in every slice with their intervals: a forest plot.

    Parameters
    ----------
    table
        What `slices` returns.
    most
        How many slices to draw, up to 60: those with the largest contributions, up or down.
    run, baseline, colors
        As for `pr.plot.at_k`.

    Returns
    -------
    altair.LayerChart
        A row per slice in the order of the table, those that pull the difference down most first;
        hollow points are slices too small to tell, which have no interval.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `pr.plot.intervals`.

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> lists = pr.per_query(log, "ndcg@10", by=["run", "country"]).collect()
    >>> table = pr.slices(lists, "ndcg@10", columns="country", baseline="bm25")
    >>> pr.plot.slices(table).save("countries.png")  # doctest: +SKIP
    """
    altair()
    whole_number("most", most)
    if most > _MOST:
        message = f"`most` must be at most {_MOST}; found {most:,}"
        raise ArgumentError(message, "most")
    rows = lazy(table)
    schema = schema_of(rows)
    wanted = ("column", "value", "metric", "difference", "low", "high", "contribution", "small")
    check_columns(schema, wanted, "pr.slices")
    columns = run_columns(schema, run)
    found = collected(
        rows.select(*groups(columns), *wanted, "queries", "p_corrected").rename({"difference": "x"})
    )
    found = harmless_texts(something(found, "x", "difference"))
    several = found.get_column("column").n_unique() > 1
    value = pl.col("value").replace("null", '"null"').fill_null("null")
    name = pl.format("{}: {}", "column", value) if several else value
    found, runs = labelled(
        found.with_columns(name.alias("label")), baseline=baseline, colors=colors
    )
    largest = (
        found.group_by("label", maintain_order=True)
        .agg(pl.col("contribution").abs().max())
        .sort("contribution", descending=True, nulls_last=True, maintain_order=True)
    )
    found = found.join(largest.head(most).select("label"), on="label", maintain_order="left")
    metric = found.get_column("metric")[0]
    tips = tooltip(
        ("label", "slice"), ("x", "difference", "+.4f"), ("low", "low", "+.4f"),
        ("high", "high", "+.4f"), ("queries", "queries", ",d"),
        ("contribution", "contribution", "+.4f"), ("p_corrected", "p, corrected", ".4~g"),
        of=runs,
    )  # fmt: skip
    told = [f"slices of {counted(found.get_column('queries'))}"]
    if found.get_column("small").any():
        told[0] += " · hollow: too small to tell"
    if largest.height > most:
        told.append(f"{most} of {largest.height:,} slices: the largest contributions, up or down")
    from_ = "" if baseline is None else f" from {label_of(baseline)}"
    return _forest(
        found, runs, tips, zero=True, of_x=f"difference of {metric}{from_}",
        title=f"Difference of {metric} by slice", told=told,
    )  # fmt: skip


def bounds(
    table: Any,
    *,
    metrics: str | Metric | Iterable[str | Metric] | None = None,
    run: str | None = RUN,
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """How far a value may be off: by the order of ties, by documents that nobody judged.

    Parameters
    ----------
    table
        What `tie_bands` or `judgment_bounds` returns.
    metrics
        Metrics of the table to draw; None for all.
    run, baseline, colors
        As for `pr.plot.at_k`.

    Returns
    -------
    altair.LayerChart
        A bar from the worst to the best value, with a tick at the expected one where it is known;
        or from the lower to the upper one.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `pr.plot.intervals`.

    Examples
    --------
    >>> table = pr.diagnostics.tie_bands(pr.datasets.search_log(50), ["ndcg@10", "rr"], by="run")
    >>> pr.plot.bounds(table).save("ties.png")  # doctest: +SKIP
    """
    alt = altair()
    rows = lazy(table)
    schema = schema_of(rows)
    of_ties = "worst" in schema
    low, high = ("worst", "best") if of_ties else ("lower", "upper")
    check_columns(
        schema, ("metric", low, high), "pr.diagnostics.tie_bands or pr.diagnostics.judgment_bounds"
    )
    share = "tied_documents" if of_ties else "judged"
    point = pl.col("expected") if of_ties else pl.lit(None, dtype=pl.Float64)
    rows = chosen(rows, metrics).with_columns(
        pl.col(low).alias("low"), pl.col(high).alias("high"), pl.col(share).alias("share"), x=point
    )
    found, runs = _rows(rows, schema, run, ["low", "high", "x", "share"], baseline, colors)
    x = axis("X", "low", "mean", grid=True, scale={"zero": False})
    found = _placed(found, runs)
    y, height = _rows_axis(found, runs)
    tips = tooltip(
        *_of_row(found),
        ("low", low, ".4f"),
        *([("x", "expected", ".4f")] if of_ties else []),
        ("high", high, ".4f"),
        ("share", "tied documents" if of_ties else "judged", ".1%"),
        of=runs,
    )
    both = {"y": y, "tooltip": tips}
    color = looks(runs, "color")
    of_points = looks(runs, "color", "shape", legend=_within(found, runs))
    bar = alt.Chart().mark_rule(strokeWidth=9, opacity=0.4, **_BELOW)
    tick = alt.Chart().mark_tick(thickness=2, size=15, opacity=1, **_BELOW)
    known = alt.Chart().transform_filter("isValid(datum.x)")
    layers = [
        bar.encode(x=x, x2=alt.X2(field="high"), **both, **color),
        tick.encode(x=x, **both, **color),
        tick.encode(x=with_field(x, "high"), **both, **color),
        known.mark_point(filled=True, size=46, opacity=1, **_BELOW).encode(
            x=with_field(x, "x"), **both, **of_points
        ),
    ]
    title = "Means over the orders of tied documents" if of_ties else "Bounds by judgments"
    told = "bar: worst to best order · point: mean of all orders"
    if not of_ties:
        told = "bar: unjudged documents taken as not relevant, to taken as relevant"
    return layered(found, layers, title=title, told=[told], height=height)


def _rows(
    rows: pl.LazyFrame, schema: pl.Schema, run: str | None, columns: Sequence[str], baseline: Any,
    colors: Colors | None, *, there: bool = True,
) -> tuple[pl.DataFrame, Runs]:  # fmt: skip
    """Return the columns with what each row is called, and the runs, `there` with the baseline."""
    of_runs = run_columns(schema, run)
    keys = keys_of(schema, of_runs)
    picked = rows.select(
        *groups(of_runs),
        *(pl.col(key).cast(pl.String).fill_null("null").alias(_KEY + key) for key in keys),
        "metric",
        *columns,
    )
    found, runs = labelled(
        harmless_texts(something(collected(picked), columns[0], "mean")),
        baseline=baseline,
        colors=colors,
        needed=there,
    )
    one_metric = found.get_column("metric").n_unique() == 1
    parts = ([] if one_metric and (keys or runs.named) else ["metric"]) + [_KEY + k for k in keys]
    label = pl.concat_str(parts or ["run"], separator=" · ")
    found = found.with_columns(label.alias("label")).drop(_KEY + key for key in keys)
    number = found.get_column("label").n_unique()
    if number > _MOST:
        message = (
            f"the chart would have {number:,} rows, more than {_MOST}; leave some out, or "
            "choose some `metrics`"
        )
        raise ArgumentError(message, "metrics")
    return found, runs


def _of_row(found: pl.DataFrame) -> list[tuple[str, str]]:
    """Return what a row is, for a tooltip: where it is no metric, the metric as well."""
    if found.get_column("label").equals(found.get_column("metric")):
        return [("metric", "metric")]
    is_run = found.get_column("label").equals(found.get_column("run"))
    return [("metric", "metric"), *([] if is_run else [("label", "row")])]


def _forest(
    found: pl.DataFrame, runs: Runs, tips: list[Any], *, zero: bool, of_x: str, title: str,
    told: Sequence[str],
) -> alt.LayerChart:  # fmt: skip
    """Return a row for each label: a point with its interval for each run."""
    alt = altair()
    x = axis("X", "x", of_x, grid=True, scale={"zero": zero})
    found = _placed(found, runs)
    y, height = _rows_axis(found, runs)
    both = {"y": y, "tooltip": tips}
    of_points = looks(runs, "color", "shape", legend=_within(found, runs))
    known = alt.Chart().transform_filter("isValid(datum.low) && isValid(datum.high)")
    line = known.mark_rule(strokeWidth=2, **_BELOW).encode(**both, **looks(runs, "color"))
    layers = [line.encode(x=with_field(x, "low"), x2=alt.X2(field="high"))]
    points = alt.Chart().mark_point(filled=True, size=64, opacity=1, **_BELOW)
    points = points.encode(x=x, **both, **of_points)
    if "small" in found.columns:
        look = {"filled": False, "size": 64, "opacity": 1, "strokeWidth": 1.5}
        hollow = alt.Chart().mark_point(**look, **_BELOW)
        hollow = hollow.encode(x=x, **both, **looks(runs, "color", "shape"))
        layers.append(hollow.transform_filter("datum.small"))
        points = points.transform_filter("!datum.small")
    layers.append(points)
    if zero:
        none = alt.Chart(pl.DataFrame({"x": [0.0]}))
        layers.insert(0, none.mark_rule(strokeDash=[4, 3], color=NEUTRAL).encode(x=x))
    return layered(found, layers, title=title, told=told, height=height)


def _within(found: pl.DataFrame, runs: Runs) -> bool:
    """Return whether runs stand within a row: not where each of them is one."""
    return runs.several and not found.get_column("label").equals(found.get_column("run"))


def _placed(found: pl.DataFrame, runs: Runs) -> pl.DataFrame:
    """Return the table with how far each run stands below the middle of its row, in pixels."""
    middle = (len(runs.labels) - 1) / 2
    below = {
        run: _STEP * (place - middle) if _within(found, runs) else 0.0
        for place, run in enumerate(runs.labels)
    }
    return found.with_columns(place=pl.col("run").replace_strict(below, return_dtype=pl.Float64))


def _rows_axis(found: pl.DataFrame, runs: Runs) -> tuple[Any, float]:
    """Return the axis of rows, and the height of all."""
    labels = found.get_column("label").unique(maintain_order=True).to_list()
    look: dict[str, Any] = {"grid": False, "sort": labels, "labelPadding": 8}
    each = _STEP * len(runs.labels) + 14 if _within(found, runs) else 26
    return axis("Y", "label", None, type="nominal", **look), max(56, each * len(labels))
