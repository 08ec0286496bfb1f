"""Estimates and how far to trust them: intervals, slices, means over time, bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.arguments import whole_number
from polars_rank.columns import collected, lazy, schema_of
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.measures.names import output_name
from polars_rank.reporting.plot.curves import column_of
from polars_rank.reporting.plot.drawing import (
    ROWS,
    altair,
    axis,
    by_run,
    counted,
    layered,
    lines,
    something,
    tooltip,
    with_field,
)
from polars_rank.reporting.plot.runs import NEUTRAL, RUN, Colors, Runs, labelled, run_column
from polars_rank.reporting.plot.thinning import thinned

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import altair as alt

    from polars_rank.measures.metric import Metric

#: Rows of a forest plot, at most.
_FOREST = 60
#: What `summarize`, `compare`, `tie_bands` and `judgment_bounds` return beside their keys.
_RESULTS = frozenset({
    *("metric", "queries", "undefined", "mean", "std", "std_error", "low", "high"),
    *("baseline_mean", "difference", "relative_difference", "p_value", "p_corrected"),
    *("effect_size", "wins", "ties", "losses", "missing", "warning"),
    *("best", "expected", "worst", "tied_lists", "tied_documents", "lower", "upper", "judged"),
})  # fmt: skip


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
        differences, the dashed line is that of no difference. Of more than 60 rows, the first.

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
    value = "difference" if "difference" in schema else "mean"
    _check_columns(schema, ("metric", value, "low", "high"), "pr.summarize or pr.compare")
    more = [name for name in ("p_corrected",) if name in schema]
    keys, column = _keys(schema, run)
    kept = rows.select(*keys, *column, "metric", "low", "high", "queries", *more, x=value)
    found = something(collected(_chosen(kept, metrics)), "x", value)
    found, runs = labelled(found, column, baseline=baseline, colors=colors)
    found = _rows_of(found, keys, runs)
    differs = value == "difference"
    title = "Differences" if differs else "Means"
    from_ = "" if baseline is None or not differs else f" from {baseline}"
    tips = [
        ("queries", "queries", ",d"),
        *([("p_corrected", "p (corrected)", ".4~g")] if more else []),
    ]
    return _forest(
        found, runs, f"{value}{from_}", f"{title}{from_}, with intervals",
        [counted(found.get_column("queries"))], tips, zero=differs,
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
    if most > _FOREST:
        message = f"`most` must be at most {_FOREST}; found {most:,}"
        raise ArgumentError(message)
    rows = lazy(table)
    schema = schema_of(rows)
    wanted = ("column", "value", "difference", "low", "high", "contribution", "small", "metric")
    _check_columns(schema, wanted, "pr.slices")
    column = [name for name in [run_column(schema, run)] if name]
    found = collected(
        rows.select(*column, *wanted, "queries", "p_corrected").rename({"difference": "x"})
    )
    found = something(found, "x", "difference")
    several = found.get_column("column").n_unique() > 1
    name = pl.format("{}: {}", "column", "value") if several else pl.col("value")
    found = found.with_columns(name.alias("label"))
    order = found.group_by("label", maintain_order=True).agg(pl.col("contribution").abs().max())
    largest = order.sort("contribution", descending=True, nulls_last=True).head(most)
    there = order.height
    found = found.filter(pl.col("label").is_in(largest.get_column("label").to_list()))
    found, runs = labelled(found, column, baseline=baseline, colors=colors)
    metric = found.get_column("metric")[0]
    left_out = f"{most} of {there:,} slices, with the largest contributions" if there > most else ""
    small = found.get_column("small").any()
    from_ = "" if baseline is None else f" from {baseline}"
    tips = [
        ("queries", "queries", ",d"), ("contribution", "contribution", "+.4f"),
        ("p_corrected", "p (corrected)", ".4~g"),
    ]  # fmt: skip
    return _forest(
        found, runs, f"difference of {metric}{from_}", f"{metric}: difference by slice",
        [
            f"slices of {counted(found.get_column('queries'))}"
            + (" · hollow: too small to tell" if small else ""),
            left_out,
        ],
        tips, zero=True,
    )  # fmt: skip


def over_time(
    table: Any,
    metric: str | Metric | None = None,
    *,
    time: str = "day",
    run: str | None = RUN,
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """A metric over time, with its interval or confidence sequence as a band.

    Parameters
    ----------
    table
        What `summarize` returns by time (and run), whatever its `interval`; or `evaluate`, which
        has no interval.
    metric
        The metric to draw; None if there is one only.
    time
        The column of time: dates, times, numbers, or text in ISO's form of dates.
    run, baseline, colors
        As for `pr.plot.at_k`.

    Returns
    -------
    altair.LayerChart
        Of more points than fit, those are kept that are first, last, highest and lowest in each of
        equal steps of time.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `pr.plot.intervals`.

    Examples
    --------
    >>> from datetime import date
    >>> log = pr.datasets.search_log(50).with_columns(
    ...     day=pl.lit(date(2026, 1, 1)).dt.offset_by(pl.format("{}d", pl.col("query") % 5))
    ... )
    >>> lists = pr.per_query(log, "ndcg@10", by=["run", "day"])
    >>> chart = pr.plot.over_time(pr.summarize(lists, by=["run", "day"]))
    >>> chart.save("days.png")  # doctest: +SKIP
    """
    altair()
    rows = lazy(table)
    schema = schema_of(rows)
    _check_columns(schema, (time,), f"pr.summarize(by={time!r})")
    column = [name for name in [run_column(schema, run, time)] if name]
    keys = [pl.col(name) for name in column]
    if "metric" in schema:
        _check_columns(schema, ("mean", "low", "high"), "pr.summarize")
        name, rows = _only_metric(rows, metric)
        picked = rows.select(*keys, "queries", "low", "high", x=time, y="mean")
    else:
        name = column_of(schema, metric, ("queries", time, *column))
        nothing = pl.lit(None, pl.Float64)
        picked = rows.select(
            *keys, "queries", low=nothing, high=nothing, x=time, y=pl.col(name).cast(pl.Float64)
        )
    found = something(collected(picked.filter(pl.col("x").is_not_null())), "y", name)
    twice = found.select(pl.struct("x", *column).is_duplicated().any()).item()
    if twice:
        others = sorted(set(schema) - _RESULTS - {time, *column, name})
        message = (
            f"there are several rows for one {time!r}; split the chart with run=..., or leave all "
            f"but one value of {others} with .filter(...)"
        )
        raise ArgumentError(message)
    found, runs = labelled(found, column, baseline=baseline, colors=colors, needed=True)
    found, kind = _timely(found)
    found = _fitting(found, runs, kind).select("run", "x", "y", "low", "high", "queries")
    x = axis("X", "x", time, type=kind, **({"format": "d"} if _whole(found) else {}))
    y = axis("Y", "y", f"mean {name}", scale={"zero": False})
    known = found.get_column("low").is_not_null().any()
    tips: list[Any] = [
        *(tooltip(("run", "run")) if column else []),
        _moment(kind, time),
        *tooltip(
            ("y", f"mean {name}", ".4f"),
            *([("low", "low", ".4f"), ("high", "high", ".4f")] if known else []),
            ("queries", "queries", ",d"),
        ),
    ]  # fmt: skip
    of_each = f"{counted(found.get_column('queries'))} per point"
    return layered(
        found.sort("run", "x"), lines(found, runs, x, y, tips), title=f"{name} over time",
        told=[of_each + (" · band: interval, from low to high" if known else "")], width=560,
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
    >>> table = pr.tie_bands(pr.datasets.search_log(50), ["ndcg@10", "rr"], by="run")
    >>> pr.plot.bounds(table).save("ties.png")  # doctest: +SKIP
    """
    alt = altair()
    rows = lazy(table)
    schema = schema_of(rows)
    of_ties = "worst" in schema
    low, high = ("worst", "best") if of_ties else ("lower", "upper")
    _check_columns(schema, ("metric", low, high), "pr.tie_bands or pr.judgment_bounds")
    keys, column = _keys(schema, run)
    share = "tied_documents" if of_ties else "judged"
    point = pl.col("expected") if of_ties else pl.lit(None, pl.Float64)
    kept = rows.select(*keys, *column, "metric", share=share, low=low, high=high, x=point)
    found = something(collected(_chosen(kept, metrics)), "high", high)
    found, runs = labelled(found, column, baseline=baseline, colors=colors)
    found = _rows_of(found, keys, runs)
    channels = by_run(runs, legend=_has_legend(found, runs))
    x = axis("X", "low", "mean", grid=True, scale={"zero": False})
    y, offset, height = _places(found, runs)
    about = ("share", "tied documents" if of_ties else "judged", ".1%")
    tips = tooltip(
        ("label", "metric"), *_run_tip(runs), ("low", low, ".4f"),
        *([("x", "expected", ".4f")] if of_ties else []), ("high", high, ".4f"), about,
    )  # fmt: skip
    both = {"y": y, **offset, "color": channels["color"], "tooltip": tips}
    layers = [
        alt.Chart().mark_rule(strokeWidth=9, opacity=0.4).encode(x=x, x2="high", **both),
        *(
            alt.Chart().mark_tick(thickness=2, size=15, opacity=1).encode(
                x=with_field(x, field), **both
            )
            for field in ("low", "high")
        ),
        alt.Chart().transform_filter("isValid(datum.x)").mark_point(
            filled=True, size=46, opacity=1
        ).encode(x=with_field(x, "x"), **both, shape=channels["shape"]),
    ]  # fmt: skip
    title = "Bounds over the orders of tied documents" if of_ties else "Bounds by judgments"
    told = (
        "bar: worst to best order · point: mean of all orders"
        if of_ties
        else "bar: unjudged documents not relevant, to relevant"
    )
    rows = found.select("label", "run", "low", "high", "x", "share")
    return layered(rows, layers, title=title, told=[told], height=height)


def _forest(
    found: pl.DataFrame, runs: Runs, of_x: str, title: str, told: Sequence[str],
    more: Sequence[tuple[str, str, str]], *, zero: bool,
) -> alt.LayerChart:  # fmt: skip
    """Return a row for each label: a point with its interval for each run."""
    alt = altair()
    channels = by_run(runs, legend=_has_legend(found, runs))
    x = axis("X", "x", of_x, grid=True, scale={"zero": zero})
    y, offset, height = _places(found, runs)
    number = "+.4f" if zero else ".4f"
    tips = tooltip(
        ("label", "row"), *_run_tip(runs), ("x", of_x, number), ("low", "low", number),
        ("high", "high", number), *more,
    )  # fmt: skip
    rows = found.select(
        "label",
        "run",
        "x",
        "low",
        "high",
        *(name for name, *_ in more),
        *(["small"] if "small" in found.columns else []),
    )
    both = {"y": y, **offset, "color": channels["color"], "tooltip": tips}
    fill = {} if "small" not in found.columns else {
        "fillOpacity": alt.condition("datum.small", alt.value(0), alt.value(1))
    }  # fmt: skip
    layers = [
        alt.Chart().transform_filter("isValid(datum.low) && isValid(datum.high)").mark_rule(
            strokeWidth=2
        ).encode(x=with_field(x, "low"), x2="high", **both),
        alt.Chart().mark_point(filled=True, size=64, opacity=1).encode(
            x=x, **both, shape=channels["shape"], **fill
        ),
    ]  # fmt: skip
    if zero:
        nothing = alt.Chart(pl.DataFrame({"x": [0.0]}))
        layers.insert(0, nothing.mark_rule(strokeDash=[4, 3], color=NEUTRAL).encode(x=x))
    return layered(rows, layers, title=title, told=told, height=height)


def _places(found: pl.DataFrame, runs: Runs) -> tuple[Any, dict[str, Any], float]:
    """Return the channel of the rows, that of the runs within, and the height of all."""
    alt = altair()
    labels = found.get_column("label").unique(maintain_order=True).to_list()
    within = _has_legend(found, runs)
    y = axis("Y", "label", None, type="nominal", grid=False, sort=labels, labelPadding=8)
    offset: dict[str, Any] = {}
    if within:
        scale = alt.Scale(domain=[*runs.labels], paddingOuter=0.4)
        offset = {"yOffset": alt.YOffset(field="run", type="nominal", scale=scale, sort=None)}
    each = 16 * len(runs.labels) + 14 if within else 26
    return y, offset, max(56, each * len(labels))


def _has_legend(found: pl.DataFrame, runs: Runs) -> bool:
    """Return whether runs are told by colour: not where each of them is a row."""
    return runs.several and found.get_column("label").to_list() != found.get_column("run").to_list()


def _rows_of(found: pl.DataFrame, keys: Sequence[str], runs: Runs) -> pl.DataFrame:
    """Return the table with what its rows are called, and no more of them than can be read."""
    parts = [pl.col("metric"), *(pl.col(key).cast(pl.String).fill_null("null") for key in keys)]
    if found.get_column("metric").n_unique() == 1 and keys:
        parts = parts[1:]
    label = pl.concat_str(parts, separator=" · ")  # noqa: RUF001
    if found.get_column("metric").n_unique() == 1 and not keys and runs.labels != ("",):
        label = pl.col("run")
    found = found.with_columns(label.alias("label"))
    labels = found.get_column("label").unique(maintain_order=True)
    if labels.len() > _FOREST:
        message = (
            f"the chart would have {labels.len():,} rows, more than {_FOREST}; leave some out with "
            ".filter(...), or choose metrics=[...]"
        )
        raise ArgumentError(message)
    return found


def _keys(schema: pl.Schema, run: str | None) -> tuple[list[str], list[str]]:
    """Return the columns that split the table: those other than that of runs, and that."""
    column = [name for name in [run_column(schema, run)] if name]
    keys = [n for n in schema if n not in _RESULTS and n not in column and not _quantile(n)]
    return keys, column


def _quantile(name: str) -> bool:
    return name.startswith("q0") or name in ("q1",)


def _chosen(rows: pl.LazyFrame, metrics: Any) -> pl.LazyFrame:
    if metrics is None:
        return rows
    several = [metrics] if isinstance(metrics, (str, pl.Expr)) else [*metrics]
    wanted = [each if isinstance(each, str) else output_name(each) for each in several]
    there = collected(rows.select(pl.col("metric").unique(maintain_order=True)))
    for name in wanted:
        if name not in there.get_column("metric"):
            message = f"the table has no metric {name!r}; it has {there['metric'].to_list()}"
            raise ArgumentError(message)
    return rows.filter(pl.col("metric").is_in(wanted))


def _only_metric(rows: pl.LazyFrame, metric: Any) -> tuple[str, pl.LazyFrame]:
    """Return the name of the metric to draw, and its rows."""
    chosen = _chosen(rows, metric)
    names = collected(chosen.select(pl.col("metric").unique(maintain_order=True)))
    there = names.get_column("metric").to_list()
    if len(there) > 1:
        message = f"name the metric to draw; the table has {there}"
        raise ArgumentError(message)
    return (there[0] if there else "metric"), chosen


def _check_columns(schema: pl.Schema, columns: Iterable[str], made_by: str) -> None:
    missing = [name for name in columns if name not in schema]
    if missing:
        message = (
            f"the table has no column {missing[0]!r}; give it what {made_by} returns. It has "
            f"{', '.join(map(repr, schema))}"
        )
        raise SchemaError(message)


def _timely(found: pl.DataFrame) -> tuple[pl.DataFrame, str]:
    """Return the table with times as charts take them, and of what kind they are."""
    dtype = found.schema["x"]
    if isinstance(dtype, pl.Datetime) and dtype.time_zone is not None:
        return found.with_columns(pl.col("x").dt.replace_time_zone(None)), "temporal"
    if isinstance(dtype, (pl.Date, pl.Datetime)):
        return found.with_columns(pl.col("x").cast(pl.Datetime("ms"))), "temporal"
    if dtype.is_numeric():
        return found, "quantitative"
    text = found.with_columns(pl.col("x").cast(pl.String))
    date = text.get_column("x").str.to_date("%Y-%m-%d", strict=False)
    if date.null_count() == 0:
        return text.with_columns(date.cast(pl.Datetime("ms")).alias("x")), "temporal"
    return text, "ordinal"


def _fitting(found: pl.DataFrame, runs: Runs, kind: str) -> pl.DataFrame:
    if found.height <= ROWS:
        return found
    if kind == "ordinal":
        message = f"the chart would have {found.height:,} points, more than {ROWS:,}; use dates"
        raise ArgumentError(message)
    place = pl.col("x").to_physical().cast(pl.Float64)
    x = (place - place.min()) / (place.max() - place.min())
    marked = found.with_columns(x.alias("place"))
    steps = ROWS // (4 * len(runs.labels))
    few = thinned(marked.lazy(), ["run"], pl.col("place"), order="x", ys=["y"], steps=steps)
    return collected(few, few=True)


def _whole(found: pl.DataFrame) -> bool:
    return found.schema["x"].is_integer()


def _moment(kind: str, title: str) -> Any:
    alt = altair()
    return alt.Tooltip(field="x", type=kind, title=title)


def _run_tip(runs: Runs) -> list[tuple[str, str]]:
    return [("run", "run")] if runs.labels != ("",) else []
