"""The command `plot`: charts of logs, per-query values and tables of other commands."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import typer

from polars_rank import plot as charts
from polars_rank._params import one_of
from polars_rank.cli import options as o
from polars_rank.cli.logs import changed_conventions
from polars_rank.cli.messages import misused, say
from polars_rank.cli.per_query import PerQuery, Source
from polars_rank.diagnostics.bounds import judgment_bounds, tie_bands
from polars_rank.frames.tables import schema_of
from polars_rank.fusion.tuning import tune_fusion
from polars_rank.io.outputs import new_file
from polars_rank.plot.drawing import styled
from polars_rank.stats.comparison import compare
from polars_rank.stats.leaderboards import leaderboard
from polars_rank.stats.summary import summarize

#: Names of the functions of `pr.plot`, with hyphens instead of underscores.
KINDS = (
    "at-k", "pr-curve", "click-through", "bounds", "distribution", "differences", "intervals",
    "slices", "over-time", "leaderboard", "power", "fusion",
)  # fmt: skip

#: Supported endings of --output.
_ENDINGS = (".png", ".svg", ".html", ".json")
#: Colors of the background, without and with --dark.
_BACKGROUND = {False: "white", True: "#16181d"}

_NO_METRIC = "name a metric, e.g. --metrics ndcg@10"

#: The panel of the help for options that not all kinds of charts have.
OPTIONS = "Options of single kinds"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """Options of charts."""

    baseline: o.AnyBaseline = None
    by: o.By = field(default_factory=list)
    confidence: o.Confidence = 0.95
    ks: o.Ks = field(default_factory=lambda: ["1-20"])
    k: Annotated[int, o.option("click-through: last rank.", OPTIONS)] = 10
    n: Annotated[int, o.option("slices: number of slices to show.", OPTIONS)] = 40
    ecdf: Annotated[
        bool, o.option("distribution: show the cumulative share.", OPTIONS, "--ecdf")
    ] = False
    bins: Annotated[int, o.option("distribution: number of bins.", OPTIONS)] = 20
    of: Annotated[
        Literal["ties", "judgments"],
        o.option("bounds: effect of tied or of unjudged documents.", OPTIONS),
    ] = "ties"
    grade: Annotated[
        float | None, o.option("bounds: label of relevant unjudged documents.", OPTIONS)
    ] = None
    slices: o.Slices = field(default_factory=list)
    min_queries: o.MinQueries = 30
    ranks: Annotated[bool, o.option("leaderboard: show ranks.", OPTIONS, "--ranks")] = False
    time: Annotated[str, o.column("over-time: column of the time.", OPTIONS)] = "day"
    difference: Annotated[
        float | None, o.option("power: difference to detect (default: observed).", OPTIONS)
    ] = None
    power: Annotated[float, o.option("power: probability of a significant result.", OPTIONS)] = 0.8
    click: Annotated[str, o.column("click-through: column of clicks.", OPTIONS)] = "click"
    candidates: o.Candidates = field(default_factory=lambda: ["rrf"])
    step: o.Step = None


@o.takes(Chart, o.Files, o.Columns, o.Attributes, o.Definitions)
def plot(
    ctx: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="Kind of chart.",
            autocompletion=lambda incomplete: [
                kind for kind in KINDS if kind.startswith(incomplete)
            ],
        ),
    ],
    output: Annotated[
        Path, o.file("Write to this .png, .svg, .html or .json file.", o.OUTPUT, "--output", "-o")
    ],
    logs: o.LogsOrValues = [],
    values: o.Values = [],
    metrics: o.Metrics = [],
    run: o.Run = None,
    dark: Annotated[bool, o.option("Dark background.", o.OUTPUT, "--dark")] = False,
    overwrite: o.Overwrite = False,
    **options: Any,
) -> None:
    """Draw a chart of a log or of the result of another command.

    Kinds for logs: at-k, pr-curve, click-through, bounds, fusion.

    Kinds for logs and per-query values: distribution, differences, intervals, slices, over-time,
    leaderboard, power.

    For example:
      polars-rank plot at-k log.parquet -m ndcg -o ndcg.png
      polars-rank plot differences log.parquet -m ap --baseline bm25 -o ap.svg
    """
    arguments = {**locals(), **options}
    source = Source.of(arguments)
    kind = kind.replace("_", "-")
    one_of("kind", kind, KINDS)
    ending = output.suffix.lower()
    if ending not in _ENDINGS:
        known = ", ".join(_ENDINGS)
        misused(f"--output must end in {known}; found '{output}'")
    picture = _draw(kind, source.opened, o.from_arguments(Chart, arguments))
    with new_file(output, overwrite=overwrite) as part:
        scale = {"scale_factor": 2} if ending == ".png" else {}
        picture = styled(picture, dark=dark).properties(background=_BACKGROUND[dark])
        picture.save(str(part), format=ending[1:], **scale)
    say(f"Wrote {output}")


def _draw(kind: str, source: Source, chart: Chart) -> Any:
    """Return the chart of a log, of per-query values, or of a table of another command."""
    schema = schema_of(source.table())
    run = source.run_column(schema)
    if kind in _OF_TABLES and {*_OF_TABLES[kind][0]} <= {*schema}:
        options: dict[str, Any] = {"run": run, "baseline": chart.baseline}
        if kind == "slices":
            options = {"run": run, "metric": _metric(source), "n": chart.n}
        if kind == "over-time":
            options["time"] = chart.time
        if kind == "leaderboard":
            options = {"run": run, "metric": _metric(source), "kind": _board_kind(chart)}
        return _OF_TABLES[kind][1](source.table(), **options)
    if kind in _OF_LOGS:
        log = source.scan()
        return _OF_LOGS[kind](log, run, source, chart)
    if kind == "over-time" and chart.time not in schema:
        misused(f"column {chart.time!r} (--time) not found; available: {', '.join(schema)}")
    data = source.read(
        by=[*chart.by, *([chart.time] if kind == "over-time" else [])],
        kept={"slices": chart.slices},
        paired=kind in ("differences", "slices", "leaderboard", "power"),
    ).in_memory()  # fmt: skip
    return _OF_VALUES[kind](data, chart)


def _at_k(log: pl.LazyFrame, _: str | None, source: Source, chart: Chart) -> Any:
    return charts.at_k(
        log, _metric(source) or misused(_NO_METRIC), ks=o.cutoffs(chart.ks),
        baseline=chart.baseline, confidence=chart.confidence, **_options(source),
    )  # fmt: skip


def _pr_curve(log: pl.LazyFrame, run: str | None, source: Source, chart: Chart) -> Any:
    return charts.pr_curve(
        log, run=run, by=chart.by, baseline=chart.baseline, rel=source.rel,
        score=source.columns["score"], label=source.columns["label"],
    )  # fmt: skip


def _click_through(log: pl.LazyFrame, run: str | None, source: Source, chart: Chart) -> Any:
    return charts.click_through(
        log, position=source.position or "position", click=chart.click, k=chart.k, run=run,
        baseline=chart.baseline, confidence=chart.confidence,
    )  # fmt: skip


def _bounds(log: pl.LazyFrame, run: str | None, source: Source, chart: Chart) -> Any:
    bounds, without = (tie_bands, "ties") if chart.of == "ties" else (judgment_bounds, "unjudged")
    options = {name: value for name, value in _options(source).items() if name != without}
    options |= {"grade": chart.grade} if chart.of == "judgments" else {}
    table = bounds(log, source.metrics or misused(_NO_METRIC), **options)
    return charts.bounds(table, run=run, baseline=chart.baseline)


def _fusion(log: pl.LazyFrame, run: str | None, source: Source, chart: Chart) -> Any:
    metric = _metric(source) or misused(_NO_METRIC)
    if run is None:
        misused("a chart of a fusion needs the column of the run; name it with --run")
    options = {
        **source.columns, "run": run, "conventions": changed_conventions(source.definitions),
    }  # fmt: skip
    del options["position"]
    candidates = o.candidates_of(chart.candidates)
    tuning, curve = (
        tune_fusion(log, metric, candidates, step=chart.step, curve=each, **options)
        for each in (False, True)
    )
    return charts.fusion(curve, tuning)


def _distribution(data: PerQuery, chart: Chart) -> Any:
    return charts.distribution(
        data.table, _metric(data), kind="ecdf" if chart.ecdf else "histogram",
        bins=chart.bins, run=data.run, baseline=chart.baseline,
    )  # fmt: skip


def _differences(data: PerQuery, chart: Chart) -> Any:
    return charts.differences(
        data.table, _metric(data), baseline=_baseline(data, chart), **_of_pairs(data)
    )


def _intervals(data: PerQuery, chart: Chart) -> Any:
    table = _means(data, chart) if chart.baseline is None else _compared(data, chart)
    return charts.intervals(table, run=data.run)


def _slices(data: PerQuery, chart: Chart) -> Any:
    if not chart.slices:
        misused("name the columns of slices with --slices")
    table = _compared(data, chart, slices=chart.slices, min_queries=chart.min_queries)
    return charts.slices(table, _metric(data), run=data.run, n=chart.n)


def _over_time(data: PerQuery, chart: Chart) -> Any:
    if _metric(data) is None:
        misused(_NO_METRIC)
    return charts.over_time(
        _means(data, chart), time=chart.time, run=data.run, baseline=chart.baseline
    )


def _leaderboard(data: PerQuery, chart: Chart) -> Any:
    if data.metrics is None:
        misused(_NO_METRIC)
    table = leaderboard(
        data.table, data.metrics, confidence=chart.confidence, details=True, **data.columns
    )
    return charts.leaderboard(table, _metric(data), kind=_board_kind(chart), run=str(data.run))


def _board_kind(chart: Chart) -> Literal["means", "ranks"]:
    return "ranks" if chart.ranks else "means"


def _power(data: PerQuery, chart: Chart) -> Any:
    return charts.power(
        data.table, _metric(data), baseline=_baseline(data, chart), difference=chart.difference,
        power=chart.power, confidence=chart.confidence, **_of_pairs(data),
    )  # fmt: skip


def _means(data: PerQuery, chart: Chart) -> pl.LazyFrame:
    """Return the means of each run and group."""
    result: pl.LazyFrame = summarize(
        data.table, data.metrics, confidence=chart.confidence, details=True, **data.columns
    )
    return result


def _compared(data: PerQuery, chart: Chart, **options: Any) -> pl.LazyFrame:
    """Return the comparison of each run with the baseline."""
    result: pl.LazyFrame = compare(
        data.table, data.metrics, baseline=_baseline(data, chart), confidence=chart.confidence,
        details=True, **data.columns, **options,
    )  # fmt: skip
    return result


def _of_pairs(data: PerQuery) -> dict[str, Any]:
    """Return the columns of runs and queries, as parameters of charts of pairs of values."""
    return {"run": str(data.run), "query": [*data.query, *data.by]}


_OF_LOGS: dict[str, Callable[..., Any]] = {
    "at-k": _at_k, "pr-curve": _pr_curve, "click-through": _click_through, "bounds": _bounds,
    "fusion": _fusion,
}  # fmt: skip
_OF_VALUES: dict[str, Callable[..., Any]] = {
    "distribution": _distribution, "differences": _differences, "intervals": _intervals,
    "slices": _slices, "over-time": _over_time, "leaderboard": _leaderboard, "power": _power,
}  # fmt: skip
#: Kinds that also draw tables of other commands, recognized by these columns.
_OF_TABLES: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "at-k": (("k", "queries"), charts.at_k),
    "pr-curve": (("threshold", "precision", "recall"), charts.pr_curve),
    "bounds": (("metric", "tied_rankings"), charts.bounds),
    "intervals": (("metric", "low", "high"), charts.intervals),
    "slices": (("contribution", "low", "high"), charts.slices),
    "over-time": (("metric", "low", "high"), charts.over_time),
    "leaderboard": (("metric", "rank_low", "best"), charts.leaderboard),
}


def _options(source: Source) -> dict[str, Any]:
    return {**source.columns, **source.attributes, **source.definitions}


def _metric(source: Source | PerQuery) -> str | None:
    """Return the metric of --metrics, or None; raise `ArgumentError` for several."""
    metrics = source.metrics or []
    if len(metrics) > 1:
        misused(f"a chart shows one metric; found {', '.join(metrics)}")
    return metrics[0] if metrics else None


def _baseline(data: PerQuery, chart: Chart) -> Any:
    if chart.baseline is None:
        misused("name the run to compare with: --baseline")
    return data.value(chart.baseline)
