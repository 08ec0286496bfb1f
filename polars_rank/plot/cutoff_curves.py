"""The curve of means over queries by cutoff."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, free, public, share, whole_number
from polars_rank.columns import RUN
from polars_rank.conventions import POLARS_RANK, named, read_metrics
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import curves
from polars_rank.evaluation.evaluate import per_query
from polars_rank.evaluation.log import groups_of
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name
from polars_rank.metrics.sets import num_retrieved
from polars_rank.plot import drawing as draw
from polars_rank.plot.chart_tables import NOTHING, column_of
from polars_rank.plot.run_styles import groups, labeled, run_columns
from polars_rank.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Unpack

    import altair as alt

    from polars_rank.evaluation.log import EvaluateOptions
    from polars_rank.plot.run_styles import Colors

#: Methods of intervals as in subtitles.
_METHODS = {"t": "Student's t", "clopper-pearson": "exact", "bounded": "for any distribution"}


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

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> chart = pr.plot.at_k(log, "ndcg", ks=range(1, 11), baseline="bm25")
    >>> chart.save("ndcg.png")  # doctest: +SKIP

    Parameters
    ----------
    frame
        A log, or the table that `rank_curve` returns (without intervals).
    metric
        Metric, without its cutoff, such as "ndcg" (default for a log) or `pr.recall()`. For a
        table, one of its columns.
    ks
        Cutoffs of the metric. Default: 1 to 20 for a log, all cutoffs of a table. For a log,
        cutoffs beyond the longest ranking are omitted.
    baseline
        Run that the others are compared with, drawn first, in gray.
    confidence
        Confidence level. It is that of the intervals of `summarize`.
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
    """
    draw.altair()
    log = lazy(frame, collects=True)
    schema = schema_of(log)
    if "k" in schema and "queries" in schema:
        columns = run_columns(schema, options.pop("run", RUN))
        if options:
            raise ArgumentError(
                f"`{next(iter(options))}` applies to a log; the table already has means"
            )
        free(columns, ["k", "queries"], "run")
        name = column_of(schema, metric, ("k", "queries", *columns))
        kept = log if ks is None else log.filter(pl.col("k").is_in([*ks]))
        value = pl.col(name).cast(pl.Float64)
        table = collected(
            kept.select(*groups(columns), "queries", x="k", y=value, low=NOTHING, high=NOTHING)
        )
        subtitle = [f"mean of {draw.counted(table.get_column('queries'))}"]
    else:
        metric = "ndcg" if metric is None else metric
        requested = read_metrics(metric, options.get("conventions"), "metric")
        if len(requested) != 1:
            raise ArgumentError(f"a chart shows one metric; found {metric!r} (`metric`)")
        measure = curves.curve_of(requested[0], "metric")
        points = [whole_number("ks", k) for k in (range(1, 21) if ks is None else ks)]
        name = output_name(measure)
        of_rankings = {key: value for key, value in options.items() if key != "undefined"}
        length = num_retrieved().alias(f"{OWN}length")
        counts = per_query(log, length, **_with_run(log, of_rankings))
        longest = int(collected(counts.select(pl.last().max())).item() or 1)
        within = [k for k in points if k <= longest] or points[:1]
        table, subtitle = _estimated(log, {k: measure.at(k) for k in within}, confidence, options)
    return by_cutoff(table, name, subtitle, baseline=baseline, colors=colors)


def by_cutoff(
    table: pl.DataFrame, name: str, subtitle: list[str], *, baseline: Any, colors: Colors | None
) -> alt.LayerChart:
    """Return the chart of means "y" by cutoff "x", with intervals from "low" to "high"."""
    table, runs = labeled(draw.non_empty(table, "y", name), baseline, colors)
    x = draw.cutoffs("cutoff k", table.get_column("x"))
    y = draw.means(draw.mean_title(f"{name}@k"), table)
    if table.height > draw.ROWS:
        raise ArgumentError(
            f"the chart would have {table.height:,} points, more than {draw.ROWS:,}; use fewer "
            "`ks`, such as 1, 2, 5, 10, 20, 50, 100"
        )
    tips = draw.tooltip(
        ("x", "k", "d"), ("y", y["title"], ".4f"), *draw.INTERVAL, of=runs, data=table
    )  # fmt: skip
    rows = table.select("run", "x", "y", "low", "high", "queries").sort("run", "x")
    title = f"{draw.mean_title(name, capital=True)} by cutoff"
    return draw.layered(rows, draw.lines(rows, runs, x, y, tips), title=title, subtitle=subtitle)


#: Options that change a value and are shown in the subtitle.
_CHOICES = ("rel", "ties", "unjudged", "query_set")


def _estimated(
    log: pl.LazyFrame, metrics: Mapping[int, Metric], confidence: float, options: Mapping[str, Any]
) -> tuple[pl.DataFrame, list[str]]:
    """Return the mean of each metric with its interval, by run; and the subtitle."""
    share("confidence", confidence)
    if not metrics:
        raise ArgumentError("nothing to draw: `ks` is empty; pass at least one cutoff")
    options, requested = _with_run(log, options), [*metrics.values()]
    run = options["run"]
    values = collected(per_query(log, requested, **options))
    names = [output_name(each) for each in requested]
    parts = [values] if run is None else values.partition_by(run)
    undefined = max(max(part.select(names).null_count().row(0)) for part in parts or [values])
    summary = summarize(
        values, names, run=run,
        query=options.get("query", "query"), confidence=confidence, details=True,
    )  # fmt: skip
    point = pl.col("metric").replace_strict(dict(zip(names, metrics, strict=True)))
    table = summary.select(
        *groups([] if run is None else [run]), "queries", "low", "high", x=point, y="mean"
    )
    methods = [_METHODS[each] for each in _METHODS if each in summary.get_column("method")]
    level = f"{draw.confidence_text([confidence])} of the mean ({', '.join(methods)})"
    what = _description(requested[-1], options, table.get_column("queries"))
    return table, [what + draw.undefined_note(undefined), level if methods else ""]


def _with_run(log: pl.LazyFrame, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options with the run column of the result, if there is one."""
    if "by" in options:
        raise ArgumentError(
            "charts do not support `by`; use `run` for the column with a line per value"
        )
    return {**options, "run": next(iter(groups_of(schema_of(log), options).roles[RUN]), None)}


def _description(metric: Metric, options: Mapping[str, Any], queries: pl.Series) -> str:
    """Return the metric with its parameters, its conventions, and the number of queries."""
    conventions = named(options.get("conventions", POLARS_RANK))
    applied = conventions.apply(metric)
    arguments = {key: value for key, value in applied.arguments.items() if key != "k"}
    written = str(Metric(applied.function, arguments))
    preset = "" if conventions.name == POLARS_RANK.name else f" · {conventions.name} conventions"
    choices = "".join(
        f" · {name}={options[name]}" for name in _CHOICES if options.get(name) is not None
    )
    return f"{written}{preset}{choices} · mean of {draw.counted(queries)}"
