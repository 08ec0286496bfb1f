"""Options that several commands share, and groups of them.

A group is a dataclass whose fields are options. `@takes(Files, Columns)` adds the options of groups
to a command, which receives their values as keyword arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import typer

from polars_rank import conventions as definitions
from polars_rank._params import number_in
from polars_rank.cli import completion, sources, writing
from polars_rank.errors import ArgumentError, hint
from polars_rank.evaluation import parameters
from polars_rank.frames import layouts
from polars_rank.io import trec
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.names import is_metric, split

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

#: Panels of the help in their order, after options without a panel.
_PANELS = INPUT, COLUMNS, DEFINITIONS, ENGINE, OUTPUT = (
    "Input", "Columns", "Definitions", "Engine", "Output"
)  # fmt: skip


def from_arguments(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a dataclass whose fields have the values of the arguments with the same names."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: values[name] for name in names if name in values})


def takes(*groups: type) -> Callable[[F], F]:
    """Return a decorator that adds the options of groups to a command with `**options`.

    An option that the command itself has replaces that of a group.
    """

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
                for each in fields(group) if each.name not in own.parameters
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


def output_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a command that are parameters of `put`."""
    return {each.name: values[each.name] for each in fields(TableOutput) if each.name in values}


def split_names(texts: Iterable[str]) -> list[str]:
    """Split names at spaces and commas, but not inside brackets.

    Examples
    --------
    >>> split_names(["country, device", "day"])
    ['country', 'device', 'day']
    """
    return split(" ".join(texts), lists=False)


def split_metrics(texts: Iterable[str]) -> list[str]:
    """Split names of metrics, but not at commas between cutoffs.

    Examples
    --------
    >>> split_metrics(["ndcg(gain='exp2', depth='retrieved')@10, ap", "p@5,10"])
    ["ndcg(gain='exp2', depth='retrieved')@10", 'ap', 'p@5,10']
    """
    return split(" ".join(texts))


def number_or_text(text: str) -> float | str:
    """Return the number that a text is, or the text.

    Examples
    --------
    >>> number_or_text("0.02"), number_or_text("2%")
    (0.02, '2%')
    """
    value = number_in(text)
    return text if value is None else value


def option(help: str, panel: str | None = None, *names: str, **settings: Any) -> Any:
    """Return an option in a panel of the help."""
    return typer.Option(*names, help=help, rich_help_panel=panel, **settings)


def file(help: str, panel: str | None = None, *names: str) -> Any:
    """Return an option that names files."""
    return option(help, panel, *names, metavar="PATH")


def column(help: str, panel: str | None = None) -> Any:
    """Return an option that names a column of the log; completion lists the columns."""
    return option(help, panel, metavar="NAME", autocompletion=completion.columns)


def columns(help: str, panel: str | None = None) -> Any:
    """Return an option that names several columns of the log; its value is a list of them."""
    return option(
        help, panel, metavar="NAME", autocompletion=completion.columns, callback=split_names
    )


def run_name(help: str, panel: str | None = None) -> Any:
    """Return an option that names a run of the log; completion lists the runs."""
    return option(help, panel, metavar="NAME", autocompletion=completion.runs)


Metrics = Annotated[
    list[str],
    option('Metrics, e.g. "ndcg@10 ap rr".', None, "--metrics", "-m",
           autocompletion=completion.metrics, callback=split_metrics),
]  # fmt: skip
By = Annotated[list[str], columns("Columns to group by.")]
Baseline = Annotated[str, run_name("Run to compare the others with.")]
AnyBaseline = Annotated[str | None, run_name("Run to compare the others with.")]
BaselineOrPairs = Annotated[
    str | None, run_name("Run to compare the others with (default: all pairs).")
]
Slices = Annotated[list[str], columns("Columns whose values are slices.")]
Keep = Annotated[list[str], columns("Columns of the query to show, e.g. its text.")]
N = Annotated[
    int, option("How many of the largest gains and of the largest losses to show per run.")
]
Confidence = Annotated[float, option("Confidence level.")]
Cluster = Annotated[
    list[str], columns("Columns that identify the sampling unit if it is not the query, e.g. user.")
]
Margin = Annotated[
    str,
    option(
        "Size of a difference that does not matter: a number, or a percentage of the baseline's "
        'mean, e.g. "2%".',
        metavar="NUMBER|PERCENT",
    ),
]  # fmt: skip
Correction = Annotated[
    bool, option("Correct intervals and p-values for the number of rows (default).")
]
Repeated = Annotated[
    bool,
    option("Allow for looking again as new queries arrive: wider intervals.", None, "--repeated"),
]
Details = Annotated[
    bool, option("Add columns about the estimates, such as standard errors.", None, "--details")
]
Queries = Annotated[int, option("Number of queries.")]
Candidates = Annotated[
    list[str],
    option(
        """Method of fusion whose weights are tuned, e.g. "sum(normalize='min_max')"; or several """
        "methods (repeatable).",
        metavar="METHOD",
    ),
]
Step = Annotated[
    float | None,
    option("Step of the weights of runs (default: 0.1 for one method, none for several)."),
]
FusedScore = Annotated[str, column("Column of the score, higher is better.", COLUMNS)]
Seed = Annotated[int, option("Random seed.")]
MinQueries = Annotated[int, option("Minimum number of queries of a slice with an interval.")]
Rule = Annotated[
    list[str], option('Rule to check, e.g. "ndcg@10 >= 0.4" (repeatable).', metavar="RULE")
]
Rules = Annotated[Path | None, file("TOML file of rules.")]
Undecided = Annotated[
    Literal["pass", "fail"] | None,
    option("Verdict when the interval contains the threshold (default: fail)."),
]
Align = Annotated[
    parameters.Align | None, option("Queries to average over if runs have different queries.")
]
Ks = Annotated[list[str], option('Cutoffs, e.g. "1 5 10" or "1-20".', metavar="K")]

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG",
        help="Parquet, CSV, NDJSON or Arrow files, directories, glob patterns or URLs; TREC runs "
        "with --qrels; - for standard input.",
    ),
]
LogsOrValues = Annotated[
    list[str], typer.Argument(metavar="LOG", help="Log, per-query values, or moments.")
]
Values = Annotated[list[str], file("Per-query values, instead of LOG.", INPUT)]
Predictions = Annotated[
    list[str], file("Per-query values of all queries from predicted labels.", INPUT)
]
Qrels = Annotated[list[str], file("TREC judgments of LOG.", INPUT)]
Items = Annotated[str | None, file("Attributes of documents: one row per document.", INPUT)]
History = Annotated[
    str | None,
    file("Documents that each user has already seen: one row per query and document.", INPUT),
]
Fractional = Annotated[bool, option("Allow fractions as labels in --qrels.", INPUT, "--fractional")]
Negative = Annotated[trec.Negative, option("Meaning of labels below 0 in --qrels.", INPUT)]
InputFormat = Annotated[
    sources.Kind | None, option("Input format (default: by file name or content).", INPUT)
]
Layout = Annotated[
    layouts.Layout | None, option("Order of rows in the log (default: detect).", INPUT)
]
Memory = Annotated[
    str | None,
    option('Memory for sorting a shuffled log, e.g. "2GB" (default: 500 MB).', INPUT,
           metavar="SIZE"),
]  # fmt: skip
MissingColumns = Annotated[
    Literal["raise", "insert"],
    option(
        "If a Parquet file lacks columns of the first file: insert nulls, or raise an error.", INPUT
    ),
]
ExtraColumns = Annotated[
    Literal["raise", "ignore"],
    option(
        "If a Parquet file has columns that the first file lacks: ignore them, or raise an error.",
        INPUT,
    ),
]
Progress = Annotated[bool, option("Show a progress bar in a terminal (default).")]

Query = Annotated[list[str], columns("Columns of the query (default: query).", COLUMNS)]
Doc = Annotated[str | None, column('Column of the document (default: doc); "" for none.', COLUMNS)]
Score = Annotated[
    list[str],
    columns('Column of the score; "-price" if lower is better; several are runs.', COLUMNS),
]
Position = Annotated[
    str | None, column("Column of the position (1 = first), instead of a score.", COLUMNS)
]
Label = Annotated[list[str], columns("Column of the label; several are judges.", COLUMNS)]
OneLabel = Annotated[str, column("Column of the label.", COLUMNS)]
PredictedLabel = Annotated[
    str | None,
    column("Column of predicted labels of all queries, beside those of people.", COLUMNS),
]
Run = Annotated[str | None, column('Column of the run (default: run); "" for none.', COLUMNS)]
Weight = Annotated[str | None, column("Column of query weights.", COLUMNS)]

Conventions = Annotated[
    str,
    option(
        'Metric definitions to use, e.g. "trec_eval" or "LightGBM", or a TOML file.', DEFINITIONS,
        autocompletion=completion.presets,
    ),
]  # fmt: skip
Ties = Annotated[
    definitions.Ties | None, option("Order of documents with tied scores.", DEFINITIONS)
]
Rel = Annotated[float | None, option("Lowest relevant label (default: 1).", DEFINITIONS)]
Unjudged = Annotated[
    definitions.Unjudged | None, option("Treatment of documents without a label.", DEFINITIONS)
]
QuerySet = Annotated[
    definitions.QuerySet | None, option("Queries to count (default: all).", DEFINITIONS)
]
Undefined = Annotated[
    list[str],
    option(
        "What undefined metrics count as, all or one (default: see the metric). "
        rf"\[choices: {', '.join(get_args(definitions.Undefined))}]",
        DEFINITIONS, metavar="[METRIC=]VALUE",
    ),
]  # fmt: skip
Duplicates = Annotated[
    definitions.Duplicates | None,
    option("Treatment of duplicate documents (default: error).", DEFINITIONS),
]

Engine = Annotated[
    Literal["polars", "spark"],
    option("Polars on this machine, or Spark (extra spark) for tables and Parquet files.", ENGINE),
]
Master = Annotated[
    str | None,
    option("Spark master, e.g. local[4] or spark://host:7077 (default: local[*]).", ENGINE,
           metavar="URL"),
]  # fmt: skip
Remote = Annotated[
    str | None,
    option("Spark Connect server, e.g. sc://host:15002, instead of --master.", ENGINE,
           metavar="URL"),
]  # fmt: skip

Format = Annotated[
    writing.Format | None,
    option("Output format (default: by the ending of --output, or table).", OUTPUT),
]
Output = Annotated[Path | None, file("Write to a file.", OUTPUT, "--output", "-o")]
ParquetOutput = Annotated[Path, file("Write to this Parquet file.", OUTPUT, "--output", "-o")]
Overwrite = Annotated[bool, option("Overwrite an existing output file.", OUTPUT, "--overwrite")]
KeepFormulas = Annotated[
    bool,
    option(
        "In CSV, keep text that spreadsheets run as formulas (default: prefix an apostrophe).",
        OUTPUT, "--keep-formulas",
    ),
]  # fmt: skip
Wide = Annotated[bool, option("Show all columns in a terminal.", OUTPUT, "--wide")]


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
    """Names of the columns of the log."""

    query: Query = field(default_factory=list)
    doc: Doc = None
    score: Score = field(default_factory=lambda: ["score"])
    position: Position = None
    label: Label = field(default_factory=lambda: ["label"])
    run: Run = None


@dataclass(frozen=True, kw_only=True)
class ColumnsOfRuns:
    """Names of the columns of a log of several runs."""

    run: Run = None
    query: Query = field(default_factory=list)
    doc: Doc = None
    score: FusedScore = "score"
    label: OneLabel = "label"


@dataclass(frozen=True, kw_only=True)
class Attributes:
    """Tables of document attributes, and of documents that users have already seen."""

    items: Items = None
    history: History = None


@dataclass(frozen=True, kw_only=True)
class Definitions:
    """The definitions of metrics."""

    conventions: Conventions = "polars_rank"
    ties: Ties = None
    rel: Rel = None
    unjudged: Unjudged = None
    query_set: QuerySet = None
    undefined: Undefined = field(default_factory=list)
    duplicates: Duplicates = None


@dataclass(frozen=True, kw_only=True)
class Statistics:
    """Per-query values of runs, and the units and groups of statistics."""

    values: Values = field(default_factory=list)
    by: By = field(default_factory=list)
    weight: Weight = None
    cluster: Cluster = field(default_factory=list)
    confidence: Confidence = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimates(Statistics):
    """Statistics that can have slices and predictions."""

    slices: Slices = field(default_factory=list)
    repeated: Repeated = False
    predicted_label: PredictedLabel = None
    predictions: Predictions = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Engines:
    """The engine that evaluates the log."""

    engine: Engine = "polars"
    master: Master = None
    remote: Remote = None


@dataclass(frozen=True, kw_only=True)
class FileOutput:
    """How to write a table."""

    format: Format = None
    output: Output = None
    overwrite: Overwrite = False
    keep_formulas: KeepFormulas = False


@dataclass(frozen=True, kw_only=True)
class TableOutput(FileOutput):
    """How to write a table, or show it in a terminal."""

    wide: Wide = False


def cutoffs(texts: Iterable[str]) -> list[int]:
    """Return the cutoffs in a list of numbers and ranges.

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
    """Return the number in an option; raise `ArgumentError` if the text is not a number."""
    value = number_in(text)
    if value is None:
        raise ArgumentError(f"`{name}` must be numbers; found {text!r}")
    return value


def candidates_of(methods: Sequence[str]) -> str | list[str]:
    """Return one method, whose weights are tuned, or several."""
    return methods[0] if len(methods) == 1 else [*methods]


def undefined_of(texts: Iterable[str]) -> str | Mapping[str, str] | None:
    """Return the treatment of undefined values: one for all metrics, or one per metric.

    Examples
    --------
    >>> undefined_of([]), undefined_of(["skip"]), undefined_of(["one", "ap=skip"])
    (None, 'skip', {'*': 'one', 'ap': 'skip'})
    """
    values = {}
    for text in split_names(texts):
        metric, _, value = text.rpartition("=")
        if metric and not is_metric(metric):
            raise ArgumentError(
                f"`undefined` must name a metric, e.g. ap=skip; found {metric!r}."
                f"{hint(metric, REGISTER)}"
            )
        values[metric or "*"] = value
    return values["*"] if [*values] == ["*"] else values or None
