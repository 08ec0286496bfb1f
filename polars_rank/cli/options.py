"""Options that several commands share: one alias each, with one name and one meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from polars_rank import conventions as definitions
from polars_rank import trec
from polars_rank.cli import completion, formats, sources
from polars_rank.errors import ArgumentError, hint
from polars_rank.evaluation import parameters
from polars_rank.io import parquet
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.names import metric as read_metric
from polars_rank.metrics.names import split
from polars_rank.stats import intervals, significance

T = TypeVar("T")

#: Panels of the help.
INPUT, COLUMNS, DEFINITIONS, ENGINE, OUTPUT = (
    "Input", "Columns", "Definitions", "Engine", "Output"
)  # fmt: skip


def chosen(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a dataclass, filled with the arguments of a command that its fields name."""
    names = [each.name for each in fields(kind)]  # type: ignore[arg-type]
    return kind(**{name: values[name] for name in names if name in values})


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
N = Annotated[int, typer.Option(help="Number of queries to show at either end, per run.")]
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
Resamples = Annotated[int, typer.Option(help="Number of resamples.")]
Queries = Annotated[int, typer.Option(help="Number of queries.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
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
Qrels = Annotated[list[Path], file("TREC judgments of LOG.", INPUT)]
Items = Annotated[Path | None, file("Attributes of documents: one row per document.", INPUT)]
History = Annotated[
    Path | None, file("What users have seen: one row per query and document.", INPUT)
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
    parquet.Layout | None,
    typer.Option(help="Order of rows in the log (default: detect).", rich_help_panel=INPUT),
]
Memory = Annotated[
    str | None,
    typer.Option(
        help='Memory for sorting a shuffled log, e.g. "2GB".', rich_help_panel=INPUT,
        metavar="SIZE",
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
Progress = Annotated[bool, typer.Option(help="Show a progress bar in a terminal.")]

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
        metavar="[METRIC=]zero|skip|one|null",
        help="Value of undefined metrics, for all or for one metric (default: zero).",
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
            message = f"`ks` must be whole numbers or ranges, e.g. 1-20; found {text!r}"
            raise ArgumentError(message, "ks")
        numbers += range(int(first), int(last or first) + 1)
    return numbers


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
            raise ArgumentError(message + hint(metric, REGISTER), "undefined")
        values[metric or "*"] = value
    return values["*"] if [*values] == ["*"] else values or None


def _is_metric(name: str) -> bool:
    try:
        read_metric(name)
    except ArgumentError:
        return False
    return True
