"""Options that several commands share: one alias each, with one name and one meaning.

Options that belong together are the fields of a group, a dataclass. `@takes(Files, Columns)` adds
the options of groups to a command, which receives their values as keyword arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import typer

from polars_rank import conventions as definitions
from polars_rank import trec
from polars_rank.cli import completion, formats, sources
from polars_rank.errors import ArgumentError, hint
from polars_rank.evaluation import parameters
from polars_rank.frames import layouts
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.names import metric as read_metric
from polars_rank.metrics.names import split
from polars_rank.stats import intervals, significance

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

#: Panels of the help, in its order; others come first.
_PANELS = INPUT, COLUMNS, DEFINITIONS, ENGINE, OUTPUT = (
    "Input", "Columns", "Definitions", "Engine", "Output"
)  # fmt: skip


def chosen(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a dataclass, filled with the arguments of a command that its fields name."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: values[name] for name in names if name in values})


def takes(*groups: type) -> Callable[[F], F]:
    """Return a decorator that adds the options of groups to a command with `**options`."""

    def decorate(command: F) -> F:
        own = signature(command, eval_str=True)
        parameters = [
            each.replace(kind=Parameter.KEYWORD_ONLY)
            for each in own.parameters.values()
            if each.kind is not each.VAR_KEYWORD
        ]
        for group in groups:
            types = get_type_hints(group, include_extras=True)
            parameters += [
                Parameter(each.name, Parameter.KEYWORD_ONLY, default=_default(each),
                          annotation=types[each.name])
                for each in fields(group)
            ]  # fmt: skip
        parameters.sort(key=_place)
        command.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return decorate


def _place(parameter: Parameter) -> int:
    """Return the place of an option in the help, by its panel."""
    option = getattr(parameter.annotation, "__metadata__", [None])[0]
    panel = getattr(option, "rich_help_panel", None)
    return _PANELS.index(panel) if panel in _PANELS else -1


def _default(option: Any) -> Any:
    return option.default if option.default_factory is MISSING else option.default_factory()


def shown(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return how a table is written or shown, as parameters of `put`."""
    return {each.name: values[each.name] for each in fields(Shown) if each.name in values}


def file(help: str, panel: str | None = None, *names: str) -> Any:
    """Return an option that names files."""
    return typer.Option(*names, help=help, rich_help_panel=panel, metavar="PATH")


def column(help: str, panel: str | None = None) -> Any:
    """Return an option that names columns of the log, which completion offers."""
    return typer.Option(
        help=help, rich_help_panel=panel, metavar="NAME", autocompletion=completion.columns
    )


def run_name(help: str, panel: str | None = None) -> Any:
    """Return an option that names a run of the log, which completion offers."""
    return typer.Option(
        help=help, rich_help_panel=panel, metavar="NAME", autocompletion=completion.runs
    )


Metrics = Annotated[
    list[str],
    typer.Option(
        "--metrics", "-m", help='Metrics, e.g. "ndcg@10 ap rr".', autocompletion=completion.metrics
    ),
]
By = Annotated[list[str], column("Columns to group by.")]
Baseline = Annotated[str, run_name("Run to compare the others with.")]
AnyBaseline = Annotated[str | None, run_name("Run to compare the others with.")]
Slices = Annotated[list[str], column("Columns whose values are slices.")]
Keep = Annotated[list[str], column("Columns of the query to show, e.g. its text.")]
N = Annotated[
    int,
    typer.Option(help="How many of the largest gains and of the largest losses to show per run."),
]
Confidence = Annotated[float, typer.Option(help="Confidence level.")]
Cluster = Annotated[
    list[str],
    column("Columns that identify the sampling unit if it is not the query, e.g. user."),
]
Interval = Annotated[intervals.Interval, typer.Option(help="Method for confidence intervals.")]
Test = Annotated[significance.Test, typer.Option(help="Significance test.")]
Correction = Annotated[
    significance.Correction, typer.Option(help="Correction of p-values for multiple comparisons.")
]
Alternative = Annotated[
    intervals.Alternative,
    typer.Option(help="Alternative hypothesis about the run, relative to the baseline."),
]
Margin = Annotated[
    float, typer.Option(help="Non-inferiority margin, with --alternative greater or less.")
]
Resamples = Annotated[int, typer.Option(help="Number of resamples.")]
Queries = Annotated[int, typer.Option(help="Number of queries.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
Pairs = Annotated[bool, typer.Option("--pairs", help="Add slices by pairs of columns.")]
MinQueries = Annotated[int, typer.Option(help="Minimum number of queries to test a slice.")]
Rule = Annotated[
    list[str],
    typer.Option(help='Rule to check, e.g. "ndcg@10 >= 0.4" (repeatable).', metavar="RULE"),
]
Rules = Annotated[Path | None, file("TOML file of rules.")]
Undecided = Annotated[
    Literal["pass", "fail"] | None,
    typer.Option(help="Verdict when the interval contains the threshold (default: fail)."),
]
Align = Annotated[
    parameters.Align | None,
    typer.Option(help="Queries to average over if runs have different queries."),
]
Ks = Annotated[list[str], typer.Option(help='Cutoffs, e.g. "1 5 10" or "1-20".', metavar="K")]

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG",
        help="Parquet, CSV, NDJSON or Arrow files, directories, glob patterns or URLs; TREC runs "
        "with --qrels; - for standard input.",
    ),
]
LogsOrValues = Annotated[
    list[str],
    typer.Argument(metavar="LOG", help="Log, per-query values, or moments."),
]
Values = Annotated[list[str], file("Per-query values, instead of LOG.", INPUT)]
Qrels = Annotated[list[str], file("TREC judgments of LOG.", INPUT)]
Items = Annotated[str | None, file("Attributes of documents: one row per document.", INPUT)]
History = Annotated[
    str | None,
    file("Documents that each user has already seen: one row per query and document.", INPUT),
]
Fractional = Annotated[
    bool,
    typer.Option("--fractional", help="Allow fractions as labels in --qrels.",
                 rich_help_panel=INPUT),
]  # fmt: skip
Negative = Annotated[
    trec.Negative, typer.Option(help="Meaning of labels below 0 in --qrels.", rich_help_panel=INPUT)
]
InputFormat = Annotated[
    sources.Kind | None,
    typer.Option(help="Input format (default: by file name or content).", rich_help_panel=INPUT),
]
Layout = Annotated[
    layouts.Layout | None,
    typer.Option(help="Order of rows in the log (default: detect).", rich_help_panel=INPUT),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help='Memory for sorting a shuffled log, e.g. "2GB" (default: 500 MB).',
        rich_help_panel=INPUT, metavar="SIZE",
    ),
]  # fmt: skip
MissingColumns = Annotated[
    Literal["raise", "insert"],
    typer.Option(
        help="If a Parquet file lacks columns of the first file: insert nulls, or raise an error.",
        rich_help_panel=INPUT,
    ),
]
ExtraColumns = Annotated[
    Literal["raise", "ignore"],
    typer.Option(
        help="If a Parquet file has columns that the first file lacks: ignore them, or raise an "
        "error.",
        rich_help_panel=INPUT,
    ),
]
Progress = Annotated[bool, typer.Option(help="Show a progress bar in a terminal (default).")]

Query = Annotated[list[str], column("Columns of the query (default: query).", COLUMNS)]
Doc = Annotated[str | None, column('Column of the document (default: doc); "" for none.', COLUMNS)]
Score = Annotated[str, column('Column of the score; "-price" if lower is better.', COLUMNS)]
Scores = Annotated[list[str], column("Columns of scores, one run each.", COLUMNS)]
Position = Annotated[
    str | None, column("Column of the position (1 = first), instead of a score.", COLUMNS)
]
Label = Annotated[str, column("Column of the label.", COLUMNS)]
Run = Annotated[str | None, column('Column of the run (default: run); "" for none.', COLUMNS)]
Weight = Annotated[str | None, column("Column of query weights.", COLUMNS)]

Conventions = Annotated[
    str,
    typer.Option(
        help='Metric definitions to use, e.g. "trec_eval" or "LightGBM", or a TOML file.',
        rich_help_panel=DEFINITIONS,
        autocompletion=completion.presets,
    ),
]
Ties = Annotated[
    definitions.Ties | None,
    typer.Option(help="Order of documents with tied scores.", rich_help_panel=DEFINITIONS),
]
Rel = Annotated[
    float | None,
    typer.Option(help="Lowest relevant label (default: 1).", rich_help_panel=DEFINITIONS),
]
Unjudged = Annotated[
    definitions.Unjudged | None,
    typer.Option(help="Treatment of documents without a label.", rich_help_panel=DEFINITIONS),
]
QuerySet = Annotated[
    definitions.QuerySet | None,
    typer.Option(help="Queries to count (default: all).", rich_help_panel=DEFINITIONS),
]
Undefined = Annotated[
    list[str],
    typer.Option(
        metavar="[METRIC=]VALUE",
        help="Value of undefined metrics, for all or for one metric (default: zero). "
        rf"\[choices: {', '.join(get_args(definitions.Undefined))}]",
        rich_help_panel=DEFINITIONS,
    ),
]
Duplicates = Annotated[
    definitions.Duplicates,
    typer.Option(help="Treatment of duplicate documents.", rich_help_panel=DEFINITIONS),
]

Engine = Annotated[
    Literal["polars", "spark"],
    typer.Option(
        help="Polars on this machine, or Spark (extra spark) for tables and Parquet files.",
        rich_help_panel=ENGINE,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Spark master, e.g. local[4] or spark://host:7077 (default: local[*]).",
        rich_help_panel=ENGINE,
        metavar="URL",
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        help="Spark Connect server, e.g. sc://host:15002, instead of --master.",
        rich_help_panel=ENGINE,
        metavar="URL",
    ),
]

Format = Annotated[
    formats.Format | None,
    typer.Option(
        help="Output format (default: by the ending of --output, or table).", rich_help_panel=OUTPUT
    ),
]
Output = Annotated[Path | None, file("Write to a file.", OUTPUT, "--output", "-o")]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Overwrite an existing output file.", rich_help_panel=OUTPUT),
]
Wide = Annotated[
    bool,
    typer.Option("--wide", help="Show all columns in a terminal.", rich_help_panel=OUTPUT),
]

ExcludeSeen = Annotated[
    bool,
    typer.Option(
        "--exclude-seen",
        help="Drop documents of --history from rankings and judgments.",
        rich_help_panel=INPUT,
    ),
]


@dataclass(frozen=True, kw_only=True)
class Files:
    """How to read the log."""

    qrels: Qrels = field(default_factory=list)
    fractional: Fractional = False
    negative: Negative = "unjudged"
    input_format: InputFormat = None
    layout: Layout = None
    memory: Memory = None
    missing_columns: MissingColumns = "raise"
    extra_columns: ExtraColumns = "raise"
    progress: Progress = True


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of the log."""

    query: Query = field(default_factory=list)
    doc: Doc = None
    score: Score = "score"
    position: Position = None
    label: Label = "label"


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """Tables with attributes of documents and with the documents that users have seen."""

    items: Items = None
    history: History = None
    exclude_seen: ExcludeSeen = False


@dataclass(frozen=True, kw_only=True)
class Definitions:
    """The definitions of metrics."""

    conventions: Conventions = "polars_rank"
    ties: Ties = None
    rel: Rel = None
    unjudged: Unjudged = None
    query_set: QuerySet = None
    undefined: Undefined = field(default_factory=list)
    duplicates: Duplicates = "error"


@dataclass(frozen=True, kw_only=True)
class Engines:
    """Where the log is evaluated."""

    engine: Engine = "polars"
    master: Master = None
    remote: Remote = None


@dataclass(frozen=True, kw_only=True)
class Written:
    """How a table is written."""

    format: Format = None
    output: Output = None
    overwrite: Overwrite = False


@dataclass(frozen=True, kw_only=True)
class Shown(Written):
    """How a table is written, or shown in a terminal."""

    wide: Wide = False


def split_names(texts: Iterable[str]) -> list[str]:
    """Split names at spaces and commas, but not inside brackets.

    Examples
    --------
    >>> split_names(["ndcg(gain='exp2', depth='retrieved')@10, ap", "rr"])
    ["ndcg(gain='exp2', depth='retrieved')@10", 'ap', 'rr']
    """
    return split(" ".join(texts), lists=False)


def cutoffs(texts: Iterable[str]) -> list[int]:
    """Return the cutoffs that numbers and ranges name.

    Examples
    --------
    >>> cutoffs(["1-3, 10"])
    [1, 2, 3, 10]
    """
    numbers: list[int] = []
    for text in split_names(texts):
        first, _, last = text.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            raise ArgumentError(f"`ks` must be whole numbers or ranges, e.g. 1-20; found {text!r}")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def number(name: str, text: str) -> float:
    """Return a number of an option; raise `ArgumentError` for other text."""
    try:
        return float(text)
    except ValueError:
        raise ArgumentError(f"`{name}` must be numbers from 0 to 1; found {text!r}") from None


def undefined_of(texts: Iterable[str]) -> str | Mapping[str, str] | None:
    """Return what undefined values count as, for all metrics or for each named one.

    Examples
    --------
    >>> undefined_of([]), undefined_of(["skip"]), undefined_of(["one", "ap=skip"])
    (None, 'skip', {'*': 'one', 'ap': 'skip'})
    """
    values = {}
    for text in split_names(texts):
        metric, _, value = text.rpartition("=")
        if metric and not _is_metric(metric):
            message = f"`undefined` must name a metric, e.g. ap=skip; found {metric!r}."
            raise ArgumentError(message + hint(metric, REGISTER))
        values[metric or "*"] = value
    return values["*"] if [*values] == ["*"] else values or None


def _is_metric(name: str) -> bool:
    try:
        read_metric(name)
    except ArgumentError:
        return False
    return True
