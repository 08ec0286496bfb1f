"""The command for charts of logs, per-query values, and the tables of other commands."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import typer

from polars_rank import plot as charts
from polars_rank._params import one_of
from polars_rank.cli import options as o
from polars_rank.cli.messages import misused, say
from polars_rank.cli.per_query import PerQuery, Source
from polars_rank.cli.sources import refuse_to_replace
from polars_rank.cli.statistics import in_slices, means_of
from polars_rank.diagnostics.bounds import judgment_bounds, tie_bands
from polars_rank.frames.tables import schema_of
from polars_rank.io.outputs import new_file
from polars_rank.metrics.names import split
from polars_rank.stats.comparison import compare

#: Names of the functions of `pr.plot`, with hyphens or underscores.
KINDS = (
    "at-k", "gain", "pr-curve", "interpolated", "click-through", "bounds",
    "distribution", "differences", "scatter", "intervals", "slices", "over-time",
    "tradeoff",
)  # fmt: skip

#: Formats of pictures, by the ending of a name.
_ENDINGS = (".png", ".svg", ".html", ".json")
_PAPER = {False: "white", True: "#16181d"}

OPTIONS = "Options of single kinds"


def _single(help: str, *names: str, metavar: str | None = None) -> Any:
    """Return an option of single kinds of charts."""
    return typer.Option(*names, help=help, rich_help_panel=OPTIONS, metavar=metavar)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Options of the chart."""

    baseline: o.AnyBaseline = None
    by: o.By = field(default_factory=list)
    confidence: o.Confidence = 0.95
    interval: o.Interval = "t"
    ks: o.Ks = field(default_factory=lambda: ["1-20"])
    k: Annotated[int, _single("gain, click-through: last rank.")] = 10
    n: Annotated[int, _single("slices: number of slices to show.")] = 40
    discount: Annotated[bool, _single("gain: discounted gain (DCG).", "--discount")] = False
    recalls: Annotated[
        list[str], _single('interpolated: levels of recall, e.g. "0 0.5 1".', metavar="NUMBER")
    ] = field(default_factory=list)
    ecdf: Annotated[bool, _single("distribution: show the cumulative share.", "--ecdf")] = False
    bins: Annotated[int, _single("distribution: number of bins.")] = 20
    of: Annotated[
        Literal["ties", "judgments"], _single("bounds: effect of tied or of unjudged documents.")
    ] = "ties"
    grade: Annotated[
        float | None, _single("bounds: label of unjudged documents for the upper bound.")
    ] = None
    slices: o.Slices = field(default_factory=list)
    pairs: o.Pairs = False
    min_queries: o.MinQueries = 30
    x: Annotated[
        str | None, o.run_name("scatter: run on the x axis; tradeoff: metric.", OPTIONS)
    ] = None
    y: Annotated[
        str | None, o.run_name("scatter: run on the y axis; tradeoff: metric.", OPTIONS)
    ] = None
    time: Annotated[str, o.column("over-time: column of the time.", OPTIONS)] = "day"
    click: Annotated[str, o.column("click-through: column of clicks.", OPTIONS)] = "click"


@o.takes(Picture, o.Files, o.Columns, o.Attributes, o.Definitions)
def plot(
    ctx: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="Kind of chart.",
            autocompletion=lambda incomplete: [
                each for each in KINDS if each.startswith(incomplete)
            ],
        ),
    ],
    output: Annotated[
        Path,
        o.file("Write to this .png, .svg, .html or .json file.", o.OUTPUT, "--output", "-o"),
    ],
    logs: o.LogsOrValues = [],
    values: o.Values = [],
    metrics: o.Metrics = [],
    run: o.Run = None,
    dark: Annotated[
        bool, typer.Option("--dark", help="Dark background.", rich_help_panel=o.OUTPUT)
    ] = False,
    overwrite: o.Overwrite = False,
    **options: Any,
) -> None:
    """Draw a chart of a log or of the result of another command.

    Kinds for logs: at-k, gain, pr-curve, interpolated, click-through, bounds.

    Kinds for logs and per-query values: distribution, differences, scatter, intervals, slices,
    over-time, tradeoff.

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
    refuse_to_replace(output, source.files)
    chart = _chart(kind, source.opened, o.chosen(Picture, arguments))
    with new_file(output, overwrite=overwrite) as part:
        sized = {"scale_factor": 2} if ending == ".png" else {}
        chart = charts.style(chart, dark=dark).properties(background=_PAPER[dark])
        chart.save(str(part), format=ending[1:], **sized)
    say(f"Wrote {output}")


def _chart(kind: str, source: Source, picture: Picture) -> Any:
    """Return the chart of a log, of per-query values, or of a table."""
    schema = schema_of(source.table())
    run = source.run_column(schema)
    if kind in _OF_TABLES and {*_OF_TABLES[kind][0]} <= {*schema}:
        options: dict[str, Any] = {"run": run}
        if kind == "slices":
            options["n"] = picture.n
        if kind == "over-time":
            options["time"] = picture.time
        if kind == "tradeoff":
            options |= {"x": picture.x, "y": picture.y}
        return _OF_TABLES[kind][1](source.table(), baseline=picture.baseline, **options)
    if kind in _OF_LOGS:
        log = source.scan([] if run is None else [run])
        return _OF_LOGS[kind](log, run, source, picture)
    if kind == "over-time" and picture.time not in schema:
        misused(f"column {picture.time!r} (--time) not found; available: {', '.join(schema)}")
    groups = [*o.split_names(picture.by), *([picture.time] if kind == "over-time" else [])]
    data = source.read(
        by=groups, kept={"slices": o.split_names(picture.slices)},
        paired=kind in ("differences", "scatter", "slices"),
    ).held()  # fmt: skip
    return _OF_VALUES[kind](data, picture)


def _at_k(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    return charts.at_k(
        log, _one(source), ks=o.cutoffs(picture.ks), run=run, baseline=picture.baseline,
        confidence=picture.confidence, interval=picture.interval, **_options(source),
    )  # fmt: skip


def _gain(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    return charts.gain(
        log, k=picture.k, discount=picture.discount, run=run, baseline=picture.baseline,
        **_options(source),
    )  # fmt: skip


def _pr_curve(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    return charts.pr_curve(
        log, run=run, by=o.split_names(picture.by), baseline=picture.baseline, score=source.score,
        label=source.label, rel=source.rel,
    )  # fmt: skip


def _interpolated(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    recalls = [o.number("recalls", each) for each in o.split_names(picture.recalls)]
    return charts.interpolated(
        log, recalls=recalls or None, run=run, baseline=picture.baseline,
        confidence=picture.confidence, interval=picture.interval, **_options(source),
    )  # fmt: skip


def _click_through(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    return charts.click_through(
        log, position=source.position or "position", click=picture.click, k=picture.k, run=run,
        baseline=picture.baseline, confidence=picture.confidence,
    )  # fmt: skip


def _bounds(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    bounds, without = (tie_bands, "ties") if picture.of == "ties" else (judgment_bounds, "unjudged")
    options = {name: value for name, value in _options(source).items() if name != without}
    options |= {"grade": picture.grade} if picture.of == "judgments" else {}
    table = bounds(log, _names(source), by=run, **options)
    return charts.bounds(table, run=run, baseline=picture.baseline)


def _distribution(data: PerQuery, picture: Picture) -> Any:
    return charts.distribution(
        data.table, _first(data), kind="ecdf" if picture.ecdf else "histogram",
        bins=picture.bins, run=data.run, baseline=picture.baseline, **data.counted,
    )  # fmt: skip


def _differences(data: PerQuery, picture: Picture) -> Any:
    return charts.differences(
        data.table, _first(data), baseline=_baseline(data, picture), run=str(data.run),
        query=data.keys(), **data.counted,
    )  # fmt: skip


def _scatter(data: PerQuery, picture: Picture) -> Any:
    x, y = (None if each is None else data.value(each) for each in (picture.x, picture.y))
    return charts.scatter(
        data.table, _first(data), x=x, y=y, run=str(data.run),
        query=data.keys(), **data.counted,
    )  # fmt: skip


def _intervals(data: PerQuery, picture: Picture) -> Any:
    if picture.baseline is None:
        table = means_of(data, confidence=picture.confidence, interval=picture.interval)
        return charts.intervals(table, run=data.run)
    baseline = _baseline(data, picture)
    table = compare(
        data.table, data.metrics, baseline=baseline, run=str(data.run), by=data.by,
        query=data.query, confidence=picture.confidence, **data.counted,
    )  # fmt: skip
    return charts.intervals(table, run=data.run, baseline=baseline)


def _slices(data: PerQuery, picture: Picture) -> Any:
    baseline = _baseline(data, picture)
    columns = o.split_names(picture.slices) or misused("name the columns of slices with --slices")
    table = in_slices(
        data, columns, str(picture.baseline), pairs=picture.pairs, min_queries=picture.min_queries,
        confidence=picture.confidence,
    )  # fmt: skip
    return charts.slices(table, run=data.run, baseline=baseline, n=picture.n)


def _over_time(data: PerQuery, picture: Picture) -> Any:
    _named(data)
    table = means_of(data, confidence=picture.confidence, interval=picture.interval)
    return charts.over_time(
        table, time=picture.time, run=data.run, baseline=picture.baseline
    )  # fmt: skip


def _tradeoff(data: PerQuery, picture: Picture) -> Any:
    table = means_of(data, confidence=picture.confidence, interval=picture.interval)
    return charts.tradeoff(
        table, picture.x, picture.y, run=data.run, baseline=picture.baseline
    )  # fmt: skip


_OF_LOGS: dict[str, Callable[..., Any]] = {
    "at-k": _at_k, "gain": _gain, "pr-curve": _pr_curve, "interpolated": _interpolated,
    "click-through": _click_through, "bounds": _bounds,
}  # fmt: skip
_OF_VALUES: dict[str, Callable[..., Any]] = {
    "distribution": _distribution, "differences": _differences, "scatter": _scatter,
    "intervals": _intervals, "slices": _slices, "over-time": _over_time,
    "tradeoff": _tradeoff,
}  # fmt: skip
#: Kinds that also draw tables of other commands, recognized by these columns.
_OF_TABLES: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "at-k": (("k", "queries"), charts.at_k),
    "pr-curve": (("threshold", "precision", "recall"), charts.pr_curve),
    "bounds": (("metric", "tied_rankings"), charts.bounds),
    "intervals": (("metric", "low", "high"), charts.intervals),
    "slices": (("contribution", "low", "high"), charts.slices),
    "over-time": (("metric", "low", "high"), charts.over_time),
    "tradeoff": (("metric", "low", "high"), charts.tradeoff),
}


def _options(source: Source) -> dict[str, Any]:
    return {**source.columns, **source.attributes, **source.definitions}


def _names(source: Source) -> list[str]:
    return split(" ".join(source.metrics)) or misused("name a metric, e.g. --metrics ndcg@10")


def _one(source: Source) -> str:
    first, *others = _names(source)
    if others:
        misused(f"a chart shows one metric; found {first} and {', '.join(others)}")
    return first


def _first(data: PerQuery) -> str | None:
    """Return the metric to draw; None if the table has only one."""
    if data.metrics and len(data.metrics) > 1:
        misused(f"a chart shows one metric; found {', '.join(data.metrics)}")
    return None if data.metrics is None else data.metrics[0]


def _named(data: PerQuery) -> str:
    return _first(data) or misused("name a metric, e.g. --metrics ndcg@10")


def _baseline(data: PerQuery, picture: Picture) -> Any:
    if picture.baseline is None:
        misused("name the run to compare with: --baseline")
    return data.value(picture.baseline)
