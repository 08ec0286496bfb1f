"""The command that draws: charts of logs, of per-query values, and of tables of other commands."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import polars as pl
import typer

from polars_rank import plot as charts
from polars_rank._params import one_of
from polars_rank.cli import options as o
from polars_rank.cli.lists import Lists, Source, distinct
from polars_rank.cli.messages import misused, say
from polars_rank.cli.sources import refuse_to_replace
from polars_rank.diagnostics.bounds import judgment_bounds, tie_bands
from polars_rank.frames.tables import schema_of
from polars_rank.io.files import new_file
from polars_rank.metrics.names import split
from polars_rank.stats.comparison import compare
from polars_rank.stats.slicing import slices
from polars_rank.stats.summary import summarize

#: Named as the functions of `pr.plot`, whose underscores will do as well.
KINDS = (
    "at-k", "gain", "pr-curve", "interpolated", "click-through", "bounds",
    "distribution", "differences", "scatter", "intervals", "slices", "over-time",
)  # fmt: skip

#: Formats of pictures, by the ending of a name.
_ENDINGS = (".png", ".svg", ".html", ".json")
_PAPER = {False: "white", True: "#16181d"}

OPTIONS = "Of some kinds"


@dataclass(frozen=True)
class Picture:
    """What is drawn, beside the log and its metrics."""

    baseline: str | None
    x: str | None
    y: str | None
    by: list[str]
    k: int
    ks: list[str]
    discount: bool
    ecdf: bool
    of: Literal["ties", "judgments"]
    columns: list[str]
    time: str
    click: str
    confidence: float


def plot(
    ctx: typer.Context,
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help=f"What is drawn: {', '.join(KINDS)}.",
            autocompletion=lambda incomplete: [
                each for each in KINDS if each.startswith(incomplete)
            ],
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="The .png, .svg, .html or .json file.", rich_help_panel=o.OUTPUT
        ),
    ],
    logs: o.LogsOrLists = [],
    lists: o.Lists = [],
    metrics: o.Metrics = [],
    run: o.Run = None,
    baseline: o.AnyBaseline = None,
    by: o.By = [],
    confidence: o.Confidence = 0.95,
    ks: o.Ks = ["1-20"],
    k: Annotated[
        int, typer.Option(help="gain, click-through: the last rank.", rich_help_panel=OPTIONS)
    ] = 20,
    discount: Annotated[
        bool, typer.Option("--discount", help="gain: discounted, DCG.", rich_help_panel=OPTIONS)
    ] = False,
    ecdf: Annotated[
        bool,
        typer.Option(
            "--ecdf", help="distribution: the shares at or below a value.", rich_help_panel=OPTIONS
        ),
    ] = False,
    of: Annotated[
        Literal["ties", "judgments"],
        typer.Option(help="bounds: by tied or by unjudged documents.", rich_help_panel=OPTIONS),
    ] = "ties",
    columns: Annotated[
        list[str],
        typer.Option(help="slices: columns whose values are slices.", rich_help_panel=OPTIONS),
    ] = [],
    x: Annotated[
        str | None, typer.Option(help="scatter: the run on the x axis.", rich_help_panel=OPTIONS)
    ] = None,
    y: Annotated[
        str | None, typer.Option(help="scatter: the run on the y axis.", rich_help_panel=OPTIONS)
    ] = None,
    time: Annotated[
        str, typer.Option(help="over-time: the column of time.", rich_help_panel=OPTIONS)
    ] = "day",
    click: Annotated[
        str, typer.Option(help="click-through: the column of clicks.", rich_help_panel=OPTIONS)
    ] = "click",
    qrels: o.Qrels = [],
    fractional: o.Fractional = False,
    negative: o.Negative = "unjudged",
    input_format: o.InputFormat = None,
    layout: o.Layout = None,
    memory: o.Memory = None,
    missing_columns: o.MissingColumns = "raise",
    extra_columns: o.ExtraColumns = "raise",
    query: o.Query = [],
    doc: o.Doc = None,
    score: o.Score = "score",
    position: o.Position = None,
    label: o.Label = "label",
    progress: o.Progress = True,
    conventions: o.Conventions = "polars_rank",
    ties: o.Ties = None,
    rel: o.Rel = None,
    unjudged: o.Unjudged = None,
    query_set: o.QuerySet = None,
    undefined: o.Undefined = [],
    duplicates: o.Duplicates = "error",
    dark: Annotated[
        bool, typer.Option("--dark", help="Dark background.", rich_help_panel=o.OUTPUT)
    ] = False,
    overwrite: o.Overwrite = False,
) -> None:
    """Draw a chart of a log, of per-query values, or of a table of another command.

    Of logs: at-k, gain, pr-curve, interpolated, click-through, bounds. Of logs and per-query
    values: distribution, differences, scatter, intervals, slices, over-time.

    Example: polars-rank plot at-k log.parquet --metrics ndcg -o ndcg.png

    Example: polars-rank plot differences log.parquet -m ap --baseline bm25 -o ap.svg
    """
    arguments = locals()
    source = Source.of(arguments)
    kind = kind.replace("_", "-")
    one_of("kind", kind, KINDS)
    ending = output.suffix.lower()
    if ending not in _ENDINGS:
        known = ", ".join(_ENDINGS)
        misused(f"the name of --output must end in {known}; found '{output}'")
    refuse_to_replace(output, source.files)
    chart = _chart(kind, source.opened, o.chosen(Picture, arguments))
    look = {**charts.style(dark=dark), "background": _PAPER[dark]}
    with new_file(output, overwrite=overwrite) as part:
        sized = {"scale_factor": 2} if ending == ".png" else {}
        inline = {"inline": True} if ending == ".html" else {}
        chart.configure(**look).save(str(part), format=ending[1:], **sized, **inline)
    say(f"Wrote {output}")


def _chart(kind: str, source: Source, picture: Picture) -> Any:
    """Return the chart of what was given."""
    schema = schema_of(source.table())
    run = source.run_column(schema)
    if kind in _OF_TABLES and {*_OF_TABLES[kind][0]} <= {*schema}:
        options = {"by" if kind == "pr-curve" else "run": run}
        if kind == "over-time":
            options["time"] = picture.time
        return _OF_TABLES[kind][1](source.table(), baseline=picture.baseline, **options)
    if kind in _OF_LOGS:
        log = source.scan([] if run is None else [run])
        return _OF_LOGS[kind](log, run, source, picture)
    if kind == "over-time" and picture.time not in schema:
        misused(f"there is no column {picture.time!r} of time; name it with --time")
    groups = [*o.split_names(picture.by), *([picture.time] if kind == "over-time" else [])]
    lists = source.read(
        by=groups, kept={"columns": o.split_names(picture.columns)},
        paired=kind in ("differences", "scatter", "slices"),
    ).held()  # fmt: skip
    return _OF_LISTS[kind](lists, picture)


def _at_k(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    return charts.at_k(
        log, _one(source), ks=o.cutoffs(picture.ks), run=run, baseline=picture.baseline,
        confidence=picture.confidence, **_options(source),
    )  # fmt: skip


def _gain(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    return charts.gain(
        log, k=picture.k, discount=picture.discount, run=run, baseline=picture.baseline,
        **_options(source),
    )  # fmt: skip


def _pr_curve(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    relevant = source.rel
    return charts.pr_curve(
        log, by=run, baseline=picture.baseline, score=source.score, label=source.label,
        rel=relevant,
    )  # fmt: skip


def _interpolated(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    return charts.interpolated(
        log, run=run, baseline=picture.baseline, confidence=picture.confidence, **_options(source)
    )


def _click_through(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    return charts.click_through(
        log, position=source.position or "position", click=picture.click, k=picture.k, run=run,
        baseline=picture.baseline, confidence=picture.confidence,
    )  # fmt: skip


def _bounds(log: pl.LazyFrame, run: str | None, source: Source, picture: Picture) -> Any:
    bounds, without = (tie_bands, "ties") if picture.of == "ties" else (judgment_bounds, "unjudged")
    options = {name: value for name, value in _options(source).items() if name != without}
    table = bounds(log, _names(source), by=run, **options)
    return charts.bounds(table, run=run, baseline=picture.baseline)


def _distribution(lists: Lists, picture: Picture) -> Any:
    return charts.distribution(
        lists.table, _first(lists), kind="ecdf" if picture.ecdf else "histogram", run=lists.run,
        baseline=picture.baseline, **lists.counted,
    )  # fmt: skip


def _differences(lists: Lists, picture: Picture) -> Any:
    return charts.differences(
        lists.table, _first(lists), baseline=_baseline(lists, picture), run=str(lists.run),
        query=[*lists.query, *lists.by], **lists.counted,
    )  # fmt: skip


def _scatter(lists: Lists, picture: Picture) -> Any:
    x, y = (None if each is None else lists.value(each) for each in (picture.x, picture.y))
    return charts.scatter(
        lists.table, _first(lists), x=x, y=y, run=str(lists.run),
        query=[*lists.query, *lists.by], **lists.counted,
    )  # fmt: skip


def _intervals(lists: Lists, picture: Picture) -> Any:
    options = {"query": lists.query, "confidence": picture.confidence, **lists.counted}
    if picture.baseline is None:
        table = summarize(lists.table, lists.metrics, by=lists.groups, **options)
        return charts.intervals(table, run=lists.run)
    by = [name for name in lists.by if name != lists.run]
    baseline = _baseline(lists, picture)
    table = compare(
        lists.table, run=str(lists.run), baseline=baseline, metrics=lists.metrics, by=by, **options
    )
    return charts.intervals(table, run=lists.run, baseline=baseline)


def _slices(lists: Lists, picture: Picture) -> Any:
    baseline = _baseline(lists, picture)
    asked = o.split_names(picture.columns) or misused("name the columns of slices with --columns")
    table = slices(
        lists.table, _named(lists), columns=asked, run=str(lists.run), baseline=baseline,
        query=distinct([*lists.query, *lists.by]), confidence=picture.confidence, **lists.counted,
    )  # fmt: skip
    return charts.slices(table, run=lists.run, baseline=baseline)


def _over_time(lists: Lists, picture: Picture) -> Any:
    table = summarize(
        lists.table, [_named(lists)], by=lists.groups, query=lists.query,
        confidence=picture.confidence, **lists.counted,
    )  # fmt: skip
    return charts.over_time(table, time=picture.time, run=lists.run, baseline=picture.baseline)


_OF_LOGS: dict[str, Callable[..., Any]] = {
    "at-k": _at_k, "gain": _gain, "pr-curve": _pr_curve, "interpolated": _interpolated,
    "click-through": _click_through, "bounds": _bounds,
}  # fmt: skip
_OF_LISTS: dict[str, Callable[..., Any]] = {
    "distribution": _distribution, "differences": _differences, "scatter": _scatter,
    "intervals": _intervals, "slices": _slices, "over-time": _over_time,
}  # fmt: skip
#: Kinds that also draw tables of other commands, told by these columns.
_OF_TABLES: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "at-k": (("k", "queries"), charts.at_k),
    "pr-curve": (("threshold", "precision", "recall"), charts.pr_curve),
    "bounds": (("metric", "tied_lists"), charts.bounds),
    "intervals": (("metric", "low", "high"), charts.intervals),
    "slices": (("contribution", "low", "high"), charts.slices),
    "over-time": (("metric", "low", "high"), charts.over_time),
}


def _options(source: Source) -> dict[str, Any]:
    return {**source.columns, **source.definitions}


def _names(source: Source) -> list[str]:
    return split(" ".join(source.metrics)) or misused("name the metric, as in --metrics ndcg@10")


def _one(source: Source) -> str:
    first, *others = _names(source)
    if others:
        misused(f"the chart is of one metric; found {first} and {', '.join(others)}")
    return first


def _first(lists: Lists) -> str | None:
    """Return the metric to draw; None where only one can be meant."""
    if lists.metrics and len(lists.metrics) > 1:
        misused(f"the chart is of one metric; found {', '.join(lists.metrics)}")
    return None if lists.metrics is None else lists.metrics[0]


def _named(lists: Lists) -> str:
    return _first(lists) or misused("name the metric, as in --metrics ndcg@10")


def _baseline(lists: Lists, picture: Picture) -> Any:
    if picture.baseline is None:
        misused("name the run to compare with, with --baseline")
    return lists.value(picture.baseline)
