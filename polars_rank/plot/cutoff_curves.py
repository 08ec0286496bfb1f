"""Curves of means over queries, by cutoff and by recall, and of cumulated gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, free, public, share, whole_number
from polars_rank.columns import RUN
from polars_rank.conventions import POLARS_RANK, counted_as, named, read_metrics
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import curves
from polars_rank.evaluation.evaluate import per_query
from polars_rank.evaluation.parameters import check_single, run_of, several
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.metrics import terms as t
from polars_rank.metrics.discounted_gain import cg, dcg, ideal_dcg
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name
from polars_rank.metrics.precision_variants import interpolated_precision
from polars_rank.metrics.terms import Value
from polars_rank.plot.drawing import (
    ROWS,
    altair,
    axis,
    confidence_text,
    counted,
    cutoffs,
    layered,
    lines,
    looks,
    mean_title,
    means,
    non_empty,
    tooltip,
    undefined_note,
    with_field,
)
from polars_rank.plot.runs import LABEL, NEUTRAL, Runs, groups, labeled, run_columns
from polars_rank.plot.statistics_tables import column_of
from polars_rank.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

    import altair as alt

    from polars_rank.conventions import Conventions
    from polars_rank.discounts import Discount
    from polars_rank.evaluation.parameters import EvaluateOptions
    from polars_rank.gains import Gain
    from polars_rank.plot.runs import Colors

#: Columns of the mean and of that of the ideal ranking.
_Y, _IDEAL = OWN + "y", OWN + "ideal"
#: Methods of intervals as in subtitles.
_METHODS = {"t": "Student's t", "wilson": "Wilson's"}


@public
def at_k(
    frame: Any,
    metric: str | Metric | None = None,
    *,
    ks: Iterable[int] | None = None,
    baseline: Any = None,
    confidence: float = 0.95,
    colors: Colors | None = None,
    **options: Unpack[EvaluateOptions],
) -> alt.LayerChart:
    """Draw the mean of a metric by cutoff k, with a line and confidence band per run.

    Parameters
    ----------
    frame
        A log, or the table that `rank_curve` returns (without intervals).
    metric
        For a log, a metric with a cutoff, which is omitted here: "ndcg" (default), `pr.recall()`.
        For a table, one of its columns.
    ks
        Cutoffs. Default: 1 to 20 for a log, all cutoffs of a table. For a log, cutoffs beyond the
        longest ranking are omitted.
    baseline
        The run that is drawn first, in gray.
    confidence
        Confidence level of the intervals of `summarize`, between 0 and 1.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.
    **options
        For a log, other parameters of `per_query`, such as names of columns, `ties`, `undefined`
        and `conventions`.

    Returns
    -------
    altair.LayerChart

    Raises
    ------
    ArgumentError
        If the metric has a cutoff, or `options` is used with a table.
    DataError
        If there is nothing to draw.

    Notes
    -----
    Undefined values count as in `evaluate`.

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> chart = pr.plot.at_k(log, "ndcg", ks=range(1, 11), baseline="bm25")
    >>> chart.save("ndcg.png")  # doctest: +SKIP
    """
    altair()
    log = lazy(frame, collects=True)
    schema = schema_of(log)
    if "k" in schema and "queries" in schema:
        columns = run_columns(schema, options.pop("run", RUN))
        _only_of_logs(options)
        free(columns, ["k", "queries"], "run")
        name = column_of(schema, metric, ("k", "queries", *columns))
        kept = log if ks is None else log.filter(pl.col("k").is_in([*ks]))
        value = pl.col(name).cast(pl.Float64)
        table = collected(
            kept.select(*groups(columns), "queries", x="k", y=value, low=NOTHING, high=NOTHING)
        )
        subtitle = [f"mean of {counted(table.get_column('queries'))}"]
    else:
        measure = _measure("ndcg" if metric is None else metric, options.get("conventions"))
        points = [whole_number("ks", k) for k in (range(1, 21) if ks is None else ks)]
        name = output_name(measure)
        longest = _longest(log, options)
        within = [k for k in points if k <= longest] or points[:1]
        at = {k: measure.at(k) for k in within}
        table, subtitle = _estimated(log, at, confidence, options)
    return by_cutoff(table, name, subtitle, baseline=baseline, colors=colors)


def by_cutoff(
    table: pl.DataFrame,
    name: str,
    subtitle: list[str],
    *,
    baseline: Any = None,
    colors: Colors | None = None,
) -> alt.LayerChart:
    """Return the chart of means "y" by cutoff "x", with intervals from "low" to "high"."""
    table, runs = labeled(
        non_empty(table, "y", name), baseline=baseline, colors=colors, needed=True
    )
    x = cutoffs("cutoff k", table.get_column("x"))
    y = means(mean_title(f"{name}@k"), table)
    title = f"{mean_title(name, capital=True)} by cutoff"
    return _lines(table, runs, x, y, title, subtitle, ("k", "d"))


@public
def gain(
    frame: Any,
    *,
    k: int = 10,
    discount: bool | Discount = False,
    gain: Gain | None = None,
    baseline: Any = None,
    colors: Colors | None = None,
    **options: Unpack[EvaluateOptions],
) -> alt.LayerChart:
    """Draw cumulated gain by rank, next to that of the ideal ranking (dashed).

    Parameters
    ----------
    frame
        A log.
    k
        Last rank of the chart, or that of the longest ranking if it is shorter.
    discount
        False for cumulated gain (CG), True for DCG with 1 / log2(rank + 1), or a discount such as
        `pr.discounts.reciprocal`.
    gain
        Gain of a label, as in `pr.dcg`. Default: as in the conventions.
    baseline
        The run that is drawn first, in gray.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.
    **options
        Other parameters of `evaluate`, such as names of columns, `ties` and `conventions`.

    Returns
    -------
    altair.LayerChart
        A line per run for the mean over queries, and a dashed line for the ideal order of all
        judged documents: one if it is the same for all runs, else one per run.

    Raises
    ------
    DataError
        If there is nothing to draw.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> chart = pr.plot.gain(log, k=10, discount=True, baseline="bm25")
    >>> chart.save("dcg.svg")  # doctest: +SKIP
    """
    altair()
    log = lazy(frame, collects=True)
    columns = _columns(log, options)
    gain_option: dict[str, Any] = {} if gain is None else {"gain": gain}
    cumulated = discount is False
    discount_option: dict[str, Any] = (
        {} if discount is True else {"discount": _undiscounted if cumulated else discount}
    )
    measure = cg(**gain_option) if cumulated else dcg(**gain_option, **discount_option)
    k = min(whole_number("k", k), _longest(log, options))
    both = [measure.alias(_Y), ideal_dcg(**gain_option, **discount_option).alias(_IDEAL)]
    curve = curves.rank_curve(log, both, range(1, k + 1), **_by(columns, options))
    rows = curve.select(
        *groups(columns), "queries", x="k", y=_Y, ideal=_IDEAL, low=NOTHING, high=NOTHING
    )
    name = ("CG" if cumulated else "DCG") + "@k"
    table = non_empty(collected(rows), "y", name)
    table, runs = labeled(table, baseline=baseline, colors=colors, needed=True)
    _check_rows(table)
    x = cutoffs("rank k", range(1, k + 1))
    y = axis("Y", "y", f"mean {name}", scale={"zero": True})
    tips = tooltip(("x", "rank", "d"), ("y", name, ".4f"), ("ideal", "ideal", ".4f"), of=runs)
    title = "cumulated gain" if cumulated else "discounted cumulated gain"
    return layered(
        table,
        [*_ideal(table, runs, x, with_field(y, "ideal")), *lines(table, runs, x, y, tips)],
        title=f"{title.capitalize()} by rank",
        subtitle=[_description(measure.at(k), options, table.get_column("queries"))],
    )


@public
def interpolated(
    frame: Any,
    *,
    recalls: Iterable[float] | None = None,
    baseline: Any = None,
    confidence: float = 0.95,
    colors: Colors | None = None,
    **options: Unpack[EvaluateOptions],
) -> alt.LayerChart:
    """Draw interpolated precision by recall: the mean over queries at eleven points of recall.

    trec_eval calls this metric `iprec_at_recall`.

    Parameters
    ----------
    frame
        A log.
    recalls
        Points of recall, from 0 to 1. Default: 0, 0.1, ..., 1.
    baseline
        The run that is drawn first, in gray.
    confidence
        Confidence level of the intervals of `summarize`, between 0 and 1.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.
    **options
        Other parameters of `per_query`, such as names of columns, `ties`, `rel` and `undefined`.

    Returns
    -------
    altair.LayerChart

    Raises
    ------
    DataError
        If there is nothing to draw.

    References
    ----------
    Harman, Overview of the second Text REtrieval Conference, 1993.

    Examples
    --------
    >>> chart = pr.plot.interpolated(pr.datasets.search_log(200), baseline="bm25")
    >>> chart.save("precision.png")  # doctest: +SKIP
    """
    altair()
    points = [tenth / 10 for tenth in range(11)] if recalls is None else [*recalls]
    if not points:
        raise ArgumentError("`recalls` is empty; pass at least one recall from 0 to 1")
    for point in points:
        share("recalls", point, ends=True)
    requested = {point: interpolated_precision(recall=point) for point in points}
    log = lazy(frame, collects=True)
    table, subtitle = _estimated(log, requested, confidence, options)
    name = "interpolated precision"
    table, runs = labeled(
        non_empty(table, "y", name), baseline=baseline, colors=colors, needed=True
    )
    x = axis("X", "x", "recall", format=".1f", scale={"domain": [0, 1]}, grid=True)
    y = axis("Y", "y", f"mean {name}", scale={"zero": True})
    title = "Interpolated precision by recall"
    return _lines(table, runs, x, y, title, subtitle, ("recall", ".2f"))


#: Options that change a value and are shown in the subtitle.
_CHOICES = ("rel", "ties", "unjudged", "query_set")
#: Parameters that vary along a curve.
_CURVE_PARAMETERS = ("k", "recall")
#: A missing bound of an interval.
NOTHING = pl.lit(None, dtype=pl.Float64)
#: Ideal curves with smaller differences have the same judgments.
_MAX_ROUNDING = 1e-9


def _undiscounted(rank: pl.Expr) -> pl.Expr:
    return rank * 0 + 1.0


def _longest(log: pl.LazyFrame, options: Mapping[str, Any]) -> int:
    """Return the largest number of retrieved documents of a ranking, at least 1."""
    of_rankings = {name: value for name, value in options.items() if name != "undefined"}
    by = _by(_columns(log, options), of_rankings)
    counts = per_query(log, Metric(_retrieved, {}), **by)
    return int(collected(counts.select(pl.col("_retrieved").max())).item() or 1)


def _retrieved() -> Value:
    return t.num_retrieved()


def _measure(metric: str | Metric, conventions: Conventions | str | None) -> Metric:
    requested = read_metrics(metric, conventions, "metric")
    if len(requested) != 1:
        raise ArgumentError(f"a chart shows one metric; found {metric!r} (`metric`)")
    return curves.curve_of(requested[0], "metric")


def _ideal(table: pl.DataFrame, runs: Runs, x: Any, y: Any) -> list[Any]:
    """Return the dashed lines of ideal rankings: one line if they are equal for all runs."""
    alt = altair()
    spread = table.group_by("x").agg(pl.col("ideal").max() - pl.col("ideal").min())
    alike = not (spread.get_column("ideal") > _MAX_ROUNDING).any()
    best = table.filter(pl.col("run") == runs.labels[0]) if alike else table
    best = best.select("run", "x", "ideal")
    color = {"color": alt.ColorValue(NEUTRAL)} if alike else looks(runs, "color")
    line = alt.Chart(best).mark_line(strokeWidth=1.5, strokeDash=[4, 3])
    end = best.sort("ideal").tail(1)
    label = alt.Chart(end).mark_text(align="right", dy=-9, fontSize=11, color=LABEL)
    return [
        line.encode(x=x, y=y, detail=alt.Detail(field="run", type="nominal"), **color),
        label.encode(x=x, y=y, text=alt.TextValue("ideal")),
    ]


def _lines(
    table: pl.DataFrame, runs: Runs, x: Any, y: Any, title: str, subtitle: list[str],
    of_x: tuple[str, str],
) -> alt.LayerChart:  # fmt: skip
    """Return the chart of means by "x"."""
    _check_rows(table)
    tips = tooltip(
        ("x", *of_x), ("y", y["title"], ".4f"), ("low", "low", ".4f"), ("high", "high", ".4f"),
        ("queries", "queries", ",d"), of=runs, data=table,
    )  # fmt: skip
    rows = table.select("run", "x", "y", "low", "high", "queries").sort("run", "x")
    return layered(rows, lines(rows, runs, x, y, tips), title=title, subtitle=subtitle)


def _estimated(
    log: pl.LazyFrame,
    metrics: Mapping[Any, Metric],
    confidence: float,
    options: Mapping[str, Any],
) -> tuple[pl.DataFrame, list[str]]:
    """Return the mean of each metric with its interval, by run; and the subtitle."""
    share("confidence", confidence)
    if not metrics:
        raise ArgumentError("nothing to draw: `ks` is empty; pass at least one cutoff")
    columns, requested = _columns(log, options), [*metrics.values()]
    conventions = named(options.get("conventions", POLARS_RANK))
    counting = conventions.but(undefined=options.get("undefined"))
    by = _by(columns, {**options, "undefined": "null"})
    values = collected(per_query(log, requested, **by))
    fills = {output_name(each): counted_as(each, counting) for each in requested}
    parts = values.partition_by(columns) if columns else [values]
    undefined = max(max(part.select(*fills).null_count().row(0)) for part in parts or [values])
    # Names that are no metrics: null values do not count in `summarize`.
    names = {name: f"point {place}" for place, name in enumerate(fills)}
    counted_values = values.with_columns(
        pl.col(name).fill_null(fill) for name, fill in fills.items() if isinstance(fill, float)
    ).rename(names)
    summary = summarize(
        counted_values, [*names.values()], run=columns[0] if columns else None,
        query=options.get("query", "query"), confidence=confidence, details=True,
    )  # fmt: skip
    point = pl.col("metric").replace_strict(dict(zip(names.values(), metrics, strict=True)))
    table = summary.select(*groups(columns), "queries", "low", "high", x=point, y="mean")
    fill = fills[output_name(requested[-1])]
    methods = [_METHODS[each] for each in _METHODS if each in summary.get_column("method")]
    return table, [
        _description(requested[-1], options, table.get_column("queries"))
        + undefined_note(undefined, fill if isinstance(fill, float) else None),
        f"{confidence_text([confidence])} of the mean ({', '.join(methods)})" if methods else "",
    ]


def _columns(log: pl.LazyFrame, options: Mapping[str, Any]) -> list[str]:
    """Return the run column of the result, or none."""
    if "by" in options:
        raise ArgumentError(
            "charts do not support `by`; use `run` for the column with a line per value"
        )
    check_single(options, "label", "a chart has a line per run")
    run = options.get("run", RUN)
    scores = several("score", options.get("score", "score"))
    if scores is not None:
        return [str(run_of(schema_of(log), run, scores, ()))]
    return run_columns(schema_of(log), run)


def _by(columns: list[str], options: Mapping[str, Any]) -> dict[str, Any]:
    return {**options, "run": next(iter(columns), None)}


def _description(metric: Metric, options: Mapping[str, Any], queries: pl.Series) -> str:
    """Return the metric with its parameters, its conventions, and the number of queries."""
    conventions = named(options.get("conventions", POLARS_RANK))
    applied = conventions.apply(metric)
    arguments = {
        key: value for key, value in applied.arguments.items() if key not in _CURVE_PARAMETERS
    }
    written = str(Metric(applied.function, arguments))
    preset = "" if conventions.name == POLARS_RANK.name else f" · {conventions.name} conventions"
    choices = "".join(
        f" · {name}={options[name]}" for name in _CHOICES if options.get(name) is not None
    )
    return f"{written}{preset}{choices} · mean of {counted(queries)}"


def _only_of_logs(options: Mapping[str, Any]) -> None:
    if options:
        raise ArgumentError(
            f"`{next(iter(options))}` applies to a log; the table already has means",
        )


def _check_rows(table: pl.DataFrame) -> None:
    if table.height > ROWS:
        raise ArgumentError(
            f"the chart would have {table.height:,} points, more than {ROWS:,}; use fewer "
            "`ks`, such as 1, 2, 5, 10, 20, 50, 100"
        )
