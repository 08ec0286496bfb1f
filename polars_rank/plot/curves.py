"""Curves of means over queries: at every cutoff, of cumulated gain, at points of recall."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import one_of, share, whole_number
from polars_rank.columns import RUN
from polars_rank.conventions import POLARS_RANK, named, read_metrics
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import curves
from polars_rank.evaluation.evaluate import per_query
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.metrics.gains import cg, dcg, ideal_dcg
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name
from polars_rank.metrics.points import interpolated_precision
from polars_rank.plot.drawing import (
    ROWS,
    altair,
    axis,
    counted,
    cutoffs,
    layered,
    lines,
    looks,
    means,
    something,
    told_undefined,
    tooltip,
    with_field,
)
from polars_rank.plot.runs import NEUTRAL, Runs, groups, labelled, run_columns
from polars_rank.plot.tables import column_of
from polars_rank.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import altair as alt

    from polars_rank.conventions import Conventions
    from polars_rank.discounts import Discount
    from polars_rank.gains import Gain
    from polars_rank.plot.runs import Colors
    from polars_rank.stats.intervals import Interval

_INTERVALS = {
    "t": "Student's t",
    "normal": "normal",
    "bootstrap": "bootstrap",
    "studentized": "studentized bootstrap",
    "sequence": "confidence sequence",
}


def at_k(
    frame: Any,
    metric: str | Metric | None = None,
    *,
    ks: Iterable[int] | None = None,
    run: str | None = RUN,
    baseline: Any = None,
    interval: Interval = "t",
    confidence: float = 0.95,
    colors: Colors | None = None,
    **options: Any,
) -> alt.LayerChart:
    """Mean of a metric at every cutoff k: a line per run, with its intervals as a band.

    Parameters
    ----------
    frame
        A log; or the table that `rank_curve` returns, which has no intervals.
    metric
        A metric that takes a cutoff, without one: "ndcg" (the default for a log), `pr.recall()`;
        of a table, one of its columns.
    ks
        Cutoffs; of a log, 1 to 20 unless said otherwise, of a table all.
    run
        The column that tells runs apart; None for one line of all. "run" if there is such a column.
    baseline
        The run that is drawn first, and grey.
    interval, confidence
        As for `summarize`; interval="none" for lines alone.
    colors
        Colours of runs: `{"bm25": "#0072B2"}`.
    **options
        Of a log, options of `per_query`: names of columns, `ties`, `undefined`, `conventions`, ...

    Returns
    -------
    altair.LayerChart

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `evaluate` and `summarize`; also for a metric with a cutoff, and where there is
        nothing to draw.
    MissingExtraError
        Without altair (extra "plot"), or what the interval needs (extra "stats").

    Notes
    -----
    An undefined list counts as in `evaluate`.

    Examples
    --------
    >>> log = pr.datasets.search_log(50)
    >>> chart = pr.plot.at_k(log, "ndcg", ks=range(1, 11), baseline="bm25")
    >>> chart.save("ndcg.png")  # doctest: +SKIP
    """
    altair()
    log = lazy(frame)
    schema = schema_of(log)
    if "k" in schema and "queries" in schema:
        _only_of_logs(options)
        columns = run_columns(schema, run, "k", "queries")
        name = column_of(schema, metric, ("k", "queries", *columns))
        kept = log if ks is None else log.filter(pl.col("k").is_in([*ks]))
        value = pl.col(name).cast(pl.Float64)
        table = collected(
            kept.select(*groups(columns), "queries", x="k", y=value, low=NOTHING, high=NOTHING)
        )
        told = [f"mean of {counted(table.get_column('queries'))}"]
    else:
        measure = _measure("ndcg" if metric is None else metric, options.get("conventions"))
        points = [whole_number("ks", k) for k in (range(1, 21) if ks is None else ks)]
        name = output_name(measure)
        at = {k: measure.at(k) for k in points}
        table, told = _estimated(log, at, run, interval, confidence, options)
    table, runs = labelled(
        something(table, "y", name), baseline=baseline, colors=colors, needed=True
    )
    x = cutoffs("cutoff k", table.get_column("x"))
    y = means(f"mean {name}@k", table)
    return _lines(table, runs, x, y, f"{name} at every cutoff", told, ("k", "d"))


def gain(
    frame: Any,
    *,
    k: int = 20,
    discount: bool | Discount = False,
    gain: Gain | None = None,
    run: str | None = RUN,
    baseline: Any = None,
    colors: Colors | None = None,
    **options: Any,
) -> alt.LayerChart:
    """Cumulated gain against rank, with and without discount, beside that of the ideal list.

    Parameters
    ----------
    frame
        A log.
    k
        The last rank.
    discount
        False for cumulated gain (CG), True for DCG with 1 / log2(rank + 1), or a discount such as
        `pr.discounts.reciprocal`.
    gain
        What a label is worth, as for `pr.dcg`; None for what the conventions say.
    run, baseline, colors
        As for `at_k`.
    **options
        Options of `evaluate`: names of columns, `ties`, `conventions`, ...

    Returns
    -------
    altair.LayerChart
        The mean over queries for each run, and dashed that of the ideal order of all judged
        documents; one ideal line for runs that have the same.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `at_k`.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.

    Examples
    --------
    >>> chart = pr.plot.gain(pr.datasets.search_log(50), k=10, discount=True)
    >>> chart.save("dcg.svg")  # doctest: +SKIP
    """
    altair()
    log = lazy(frame)
    columns = _columns(log, run, options)
    worth: dict[str, Any] = {} if gain is None else {"gain": gain}
    weigh: dict[str, Any] = {} if discount is True else {"discount": discount or _undiscounted}
    measure = dcg(**worth, **weigh) if discount else cg(**worth)
    both = [measure.alias("y"), ideal_dcg(**worth, **weigh).alias("ideal")]
    curve = curves.rank_curve(
        log, both, range(1, whole_number("k", k) + 1), **_by(columns, options)
    )
    rows = curve.select(*groups(columns), "queries", "y", "ideal", x="k", low=NOTHING, high=NOTHING)
    name = ("DCG" if discount else "CG") + "@k"
    table = something(collected(rows), "y", name)
    table, runs = labelled(table, baseline=baseline, colors=colors, needed=True)
    _check_rows(table)
    x = cutoffs("rank k", range(1, k + 1))
    y = axis("Y", "y", f"mean {name}", scale={"zero": True})
    tips = tooltip(("x", "rank", "d"), ("y", name, ".4f"), ("ideal", "ideal", ".4f"), of=runs)
    what = "discounted cumulated gain" if discount else "cumulated gain"
    return layered(
        table,
        [*_ideal(table, runs, x, with_field(y, "ideal")), *lines(table, runs, x, y, tips)],
        title=f"{what.capitalize()} by rank",
        told=[_said(measure.at(k), options, table.get_column("queries"))],
    )


def interpolated(
    frame: Any,
    *,
    recalls: Iterable[float] | None = None,
    run: str | None = RUN,
    baseline: Any = None,
    interval: Interval = "t",
    confidence: float = 0.95,
    colors: Colors | None = None,
    **options: Any,
) -> alt.LayerChart:
    """Interpolated precision against recall: the mean over queries at eleven points of recall.

    What trec_eval calls `iprec_at_recall`.

    Parameters
    ----------
    frame
        A log.
    recalls
        Points of recall, from 0 to 1; None for 0, 0.1, ..., 1.
    run, baseline, interval, confidence, colors
        As for `at_k`.
    **options
        Options of `per_query`: names of columns, `ties`, `relevant`, `undefined`, ...

    Returns
    -------
    altair.LayerChart

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `at_k`.

    References
    ----------
    Harman, Overview of the second Text REtrieval Conference, 1993.

    Examples
    --------
    >>> chart = pr.plot.interpolated(pr.datasets.search_log(50), baseline="bm25")
    >>> chart.save("precision.png")  # doctest: +SKIP
    """
    altair()
    points = [tenth / 10 for tenth in range(11)] if recalls is None else [*recalls]
    asked = {point: interpolated_precision(recall=point) for point in points}
    table, told = _estimated(lazy(frame), asked, run, interval, confidence, options)
    name = "interpolated precision"
    table, runs = labelled(
        something(table, "y", name), baseline=baseline, colors=colors, needed=True
    )
    x = axis("X", "x", "recall", format=".1f", scale={"domain": [0, 1]}, grid=True)
    y = axis("Y", "y", f"mean {name}", scale={"zero": True})
    title = "Interpolated precision at recall"
    return _lines(table, runs, x, y, title, told, ("recall", ".2f"))


#: Options that change a number, and are said.
_CHOICES = ("rel", "ties", "unjudged", "query_set")
#: Parameters in which the points of a curve differ.
_OF_POINTS = ("k", "recall")
#: Where no interval is known.
NOTHING = pl.lit(None, dtype=pl.Float64)
#: Ideal lists that differ by less have the same judgments.
_ALIKE = 1e-9


def _undiscounted(rank: pl.Expr) -> pl.Expr:
    return rank * 0 + 1.0


def _measure(metric: str | Metric, conventions: Conventions | str | None) -> Metric:
    asked = read_metrics(metric, conventions)
    if len(asked) != 1:
        message = f"a chart is of one metric; found {metric!r}"
        raise ArgumentError(message)
    return curves.curve_of(asked[0])


def _ideal(table: pl.DataFrame, runs: Runs, x: Any, y: Any) -> list[Any]:
    """Return the dashed lines of the ideal lists: one, where all runs have the same."""
    alt = altair()
    spread = table.group_by("x").agg(pl.col("ideal").max() - pl.col("ideal").min())
    alike = not (spread.get_column("ideal") > _ALIKE).any()
    best = table.filter(pl.col("run") == runs.labels[0]) if alike else table
    best = best.select("run", "x", "ideal")
    color = {"color": alt.ColorValue(NEUTRAL)} if alike else looks(runs, "color")
    line = alt.Chart(best).mark_line(strokeWidth=1.5, strokeDash=[4, 3])
    end = best.sort("ideal").tail(1)
    word = alt.Chart(end).mark_text(align="right", dy=-9, fontSize=11, color=NEUTRAL)
    return [
        line.encode(x=x, y=y, detail=alt.Detail(field="run", type="nominal"), **color),
        word.encode(x=x, y=y, text=alt.TextValue("ideal")),
    ]


def _lines(
    table: pl.DataFrame, runs: Runs, x: Any, y: Any, title: str, told: list[str],
    of_x: tuple[str, str],
) -> alt.LayerChart:  # fmt: skip
    """Return means by "x" as lines, with what is known of each."""
    _check_rows(table)
    known = table.get_column("low").is_not_null().any()
    ends = [("low", "low", ".4f"), ("high", "high", ".4f")] if known else []
    tips = tooltip(
        ("x", *of_x), ("y", y["title"], ".4f"), *ends, ("queries", "queries", ",d"), of=runs
    )
    rows = table.select("run", "x", "y", "low", "high", "queries").sort("run", "x")
    return layered(rows, lines(rows, runs, x, y, tips), title=title, told=told)


def _estimated(
    log: pl.LazyFrame,
    metrics: Mapping[Any, Metric],
    run: str | None,
    interval: Interval,
    confidence: float,
    options: dict[str, Any],
) -> tuple[pl.DataFrame, list[str]]:
    """Return the mean of each metric with its interval, by run; and what is to be said of it."""
    one_of("interval", interval, (*_INTERVALS, "none"))
    share("confidence", confidence)
    if not metrics:
        message = "there is nothing to draw: `ks` is empty; give at least one cutoff"
        raise ArgumentError(message, "ks")
    columns = _columns(log, run, options)
    asked = [*metrics.values()]
    agreed = named(options.get("conventions", POLARS_RANK))
    undefined = options.pop("undefined", None)
    lists = per_query(log, asked, **_by(columns, options))
    summary = summarize(
        lists, asked, by=columns, query=options.get("query", "query"), undefined=undefined,
        conventions=agreed, interval=interval, confidence=confidence,
    )  # fmt: skip
    at = {output_name(metric): point for point, metric in metrics.items()}
    point = pl.col("metric").replace_strict(at)
    found = collected(
        summary.select(*groups(columns), "queries", "undefined", "low", "high", x=point, y="mean")
    )
    said = [
        _said(asked[-1], options, found.get_column("queries"))
        + _undefined(found.get_column("undefined").max(), undefined, agreed, asked[-1])
    ]
    if interval != "none":
        said.append(f"band: {100 * confidence:g} % interval of the mean ({_INTERVALS[interval]})")
    return found, said


def _columns(log: pl.LazyFrame, run: str | None, options: Mapping[str, Any]) -> list[str]:
    """Return the columns of the result that tell runs apart: one or none."""
    if "by" in options:
        message = "`by` does not go with a chart; name the column that splits it with run=..."
        raise ArgumentError(message, "by")
    return ["run"] if options.get("scores") else run_columns(schema_of(log), run)


def _by(columns: list[str], options: Mapping[str, Any]) -> dict[str, Any]:
    return {**options, "by": None if options.get("scores") else columns or None}


def _said(metric: Metric, options: Mapping[str, Any], queries: pl.Series) -> str:
    """Say of which metric, by whose conventions and over how many queries."""
    agreed = named(options.get("conventions", POLARS_RANK))
    applied = agreed.apply(metric)
    arguments = {key: value for key, value in applied.arguments.items() if key not in _OF_POINTS}
    written = str(Metric(applied.function, arguments))
    whose = "" if agreed.name == POLARS_RANK.name else f" as {agreed.name} has it"
    chosen = "".join(
        f" · {name}={options[name]}" for name in _CHOICES if options.get(name) is not None
    )
    return f"{written}{whose}{chosen} · mean of {counted(queries)}"


def _undefined(number: Any, undefined: Any, agreed: Any, metric: Metric) -> str:
    rule = agreed.but(undefined=undefined).counts_as(metric)
    return told_undefined(int(number or 0), rule)


def _only_of_logs(options: Mapping[str, Any]) -> None:
    if options:
        message = f"`{next(iter(options))}` goes with a log; the table has its means already"
        raise ArgumentError(message, next(iter(options)))


def _check_rows(table: pl.DataFrame) -> None:
    if table.height > ROWS:
        message = (
            f"the chart would have {table.height:,} points, more than {ROWS:,}; give fewer "
            "`ks`, such as 1, 2, 5, 10, 20, 50, 100"
        )
        raise ArgumentError(message, "ks")
