"""Options that several commands have: each is one alias with one name and one meaning."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import typer

from polars_rank import conventions as definitions
from polars_rank import trec
from polars_rank.cli import formats, sources
from polars_rank.errors import ArgumentError, hint
from polars_rank.evaluation import parameters
from polars_rank.io import parquet
from polars_rank.metrics.catalog import list_metrics
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.names import metric as read_metric
from polars_rank.stats import intervals, significance

T = TypeVar("T")

#: Panels of the help.
INPUT, COLUMNS, DEFINITIONS, ENGINE, OUTPUT = (
    "Input", "Columns", "Definitions", "Engine", "Output"
)  # fmt: skip


def chosen(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a dataclass of those arguments of a command that have the names of its fields."""
    return kind(**{each.name: values[each.name] for each in fields(kind)})  # type: ignore[arg-type]


def _metrics(incomplete: str) -> Iterator[str]:
    """Complete the last of several names of metrics."""
    before, _, begun = incomplete.rpartition(" ")
    names = (name for name in list_metrics()["metric"] if name.startswith(begun))
    return (f"{before} {name}".strip() for name in names)


def _presets(incomplete: str) -> list[str]:
    names = [preset.name.lower().replace(" ", "_") for preset in definitions.PRESETS]
    return [name for name in names if name.startswith(incomplete.lower())]


Metrics = Annotated[
    list[str],
    typer.Option("--metrics", "-m", help='Names, as in "ndcg@10 ap rr".', autocompletion=_metrics),
]
By = Annotated[list[str], typer.Option(help="Columns to group by.")]
Baseline = Annotated[str, typer.Option(help="The run that the others are compared with.")]
AnyBaseline = Annotated[str | None, typer.Option(help="The run that the others are compared with.")]
Slices = Annotated[list[str], typer.Option(help="Columns whose values are slices.")]
Confidence = Annotated[float, typer.Option(help="Confidence level.")]
Cluster = Annotated[
    list[str],
    typer.Option(help="Columns that identify the sampling unit if it is not the query, e.g. user."),
]
Interval = Annotated[intervals.Interval, typer.Option(help="The kind of interval.")]
Test = Annotated[significance.Test, typer.Option(help="The test of the differences.")]
Correction = Annotated[
    significance.Correction, typer.Option(help="Correction of p-values for multiple comparisons.")
]
Resamples = Annotated[int, typer.Option(help="Number of resamples.")]
Queries = Annotated[int, typer.Option(help="Number of queries.")]
Seed = Annotated[int, typer.Option(help="Random seed.")]
MinQueries = Annotated[int, typer.Option(help="Fewest queries of a slice that is tested.")]
Rule = Annotated[list[str], typer.Option(help='A rule, as in "ndcg@10 >= 0.4"; may repeat.')]
Rules = Annotated[Path | None, typer.Option(help="A TOML file of rules.")]
Undecided = Annotated[
    Literal["pass", "fail"] | None,
    typer.Option(help="Verdict when the interval contains the threshold (default: fail)."),
]
Align = Annotated[
    parameters.Align | None,
    typer.Option(help="Queries to average over if runs have different queries."),
]
Ks = Annotated[list[str], typer.Option(help='Cutoffs, as in "1 5 10" or "1-20".')]

Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG",
        help="Parquet files, directories, patterns or URLs; or CSV, NDJSON or Arrow files; or "
        "TREC runs, with --qrels; - for standard input.",
    ),
]
LogsOrLists = Annotated[
    list[str],
    typer.Argument(metavar="LOG", help="A log; or per-query values; or moments."),
]
Lists = Annotated[
    list[str], typer.Option(help="Per-query values, instead of a LOG.", rich_help_panel=INPUT)
]
Qrels = Annotated[
    list[Path], typer.Option(help="TREC judgments of the LOG.", rich_help_panel=INPUT)
]
Fractional = Annotated[
    bool,
    typer.Option("--fractional", help="Labels of --qrels may be fractions.", rich_help_panel=INPUT),
]
Negative = Annotated[
    trec.Negative, typer.Option(help="What labels below 0 in --qrels are.", rich_help_panel=INPUT)
]
InputFormat = Annotated[
    sources.Kind | None,
    typer.Option(
        help="Format of the input (default: by name or first bytes).", rich_help_panel=INPUT
    ),
]
Layout = Annotated[
    parquet.Layout | None,
    typer.Option(help="Order of the rows of the log (default: detect it).", rich_help_panel=INPUT),
]
Memory = Annotated[
    str | None,
    typer.Option(help='Memory for sorting a shuffled log, as "2GB".', rich_help_panel=INPUT),
]
MissingColumns = Annotated[
    Literal["raise", "insert"],
    typer.Option(
        help="If a Parquet file lacks columns of the first: insert nulls.", rich_help_panel=INPUT
    ),
]
ExtraColumns = Annotated[
    Literal["raise", "ignore"],
    typer.Option(
        help="If a Parquet file has columns that the first lacks: ignore them.",
        rich_help_panel=INPUT,
    ),
]
Progress = Annotated[bool, typer.Option(help="Show a progress bar on a terminal.")]

Query = Annotated[
    list[str],
    typer.Option(help="Columns of the query (default: query).", rich_help_panel=COLUMNS),
]
Doc = Annotated[
    str | None,
    typer.Option(
        help='Column of the document (default: doc); "" for none.', rich_help_panel=COLUMNS
    ),
]
Score = Annotated[
    str,
    typer.Option(
        help='Column of the score; "-price" where lower is better.', rich_help_panel=COLUMNS
    ),
]
Scores = Annotated[
    list[str],
    typer.Option(help="Columns of scores, each of which is a run.", rich_help_panel=COLUMNS),
]
Position = Annotated[
    str | None,
    typer.Option(
        help="Column of the position, instead of a score; 1 is first.", rich_help_panel=COLUMNS
    ),
]
Label = Annotated[str, typer.Option(help="Column of the label.", rich_help_panel=COLUMNS)]
Run = Annotated[
    str | None,
    typer.Option(help='Column of the run (default: run); "" for none.', rich_help_panel=COLUMNS),
]
Weight = Annotated[
    str | None, typer.Option(help="Column of each query's weight.", rich_help_panel=COLUMNS)
]

Conventions = Annotated[
    str,
    typer.Option(
        help='Metric definitions to use, as "trec_eval" or "LightGBM"; or a TOML file of them.',
        rich_help_panel=DEFINITIONS,
        autocompletion=_presets,
    ),
]
Ties = Annotated[
    definitions.Ties | None,
    typer.Option(help="The order of tied scores.", rich_help_panel=DEFINITIONS),
]
Rel = Annotated[
    float | None,
    typer.Option(help="Lowest relevant label (default: 1).", rich_help_panel=DEFINITIONS),
]
Unjudged = Annotated[
    definitions.Unjudged | None,
    typer.Option(help="What documents without a label are.", rich_help_panel=DEFINITIONS),
]
QuerySet = Annotated[
    definitions.QuerySet | None,
    typer.Option(help="Which queries count (default: all).", rich_help_panel=DEFINITIONS),
]
Undefined = Annotated[
    list[str],
    typer.Option(
        metavar="[METRIC=]zero|skip|one|null",
        help="What undefined values count as, for all metrics or for one (default: zero).",
        rich_help_panel=DEFINITIONS,
    ),
]
Duplicates = Annotated[
    definitions.Duplicates,
    typer.Option(
        help="What to do with documents that a ranking repeats.", rich_help_panel=DEFINITIONS
    ),
]

Engine = Annotated[
    Literal["polars", "spark"],
    typer.Option(
        help="Polars on this machine; or Spark (extra spark), which reads a table or Parquet.",
        rich_help_panel=ENGINE,
    ),
]
Master = Annotated[
    str | None,
    typer.Option(
        help="Spark master, as local[4], spark://host:7077 or sc://host:15002 (default: local[*]).",
        rich_help_panel=ENGINE,
    ),
]
Remote = Annotated[
    str | None,
    typer.Option(
        help="A Spark Connect server, as sc://host:15002, instead of --master.",
        rich_help_panel=ENGINE,
    ),
]

Format = Annotated[
    formats.Format | None,
    typer.Option(help="Output format (default: by --output, or table).", rich_help_panel=OUTPUT),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write to a file.", rich_help_panel=OUTPUT),
]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace an existing output.", rich_help_panel=OUTPUT),
]


def split_names(texts: Iterable[str]) -> list[str]:
    """Split names at spaces and commas, but not inside brackets.

    Examples
    --------
    >>> split_names(["ndcg(gain='exp2', depth='retrieved')@10, ap", "rr"])
    ["ndcg(gain='exp2', depth='retrieved')@10", 'ap', 'rr']
    """
    names, depth = [""], 0
    for character in " ".join(texts):
        depth += (character == "(") - (character == ")")
        if depth <= 0 and (character.isspace() or character == ","):
            names.append("")
        else:
            names[-1] += character
    return [name for name in names if name]


def cutoffs(texts: Iterable[str]) -> list[int]:
    """Return cutoffs and those in ranges of them.

    Examples
    --------
    >>> cutoffs(["1-3, 10"])
    [1, 2, 3, 10]
    """
    found: list[int] = []
    for text in split_names(texts):
        first, _, last = text.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            message = f"`ks` must be whole numbers or ranges of them, as 1-20; found {text!r}"
            raise ArgumentError(message, "ks")
        found += range(int(first), int(last or first) + 1)
    return found


def undefined_of(texts: Iterable[str]) -> str | Mapping[str, str] | None:
    """Return what undefined values count as: of all metrics, or of each that is named.

    Examples
    --------
    >>> undefined_of([]), undefined_of(["skip"]), undefined_of(["one", "ap=skip"])
    (None, 'skip', {'*': 'one', 'ap': 'skip'})
    """
    found = {}
    for text in split_names(texts):
        metric, _, value = text.rpartition("=")
        if metric and not _is_metric(metric):
            message = f"`undefined` must name a metric, as in ap=skip; found {metric!r}."
            raise ArgumentError(message + hint(metric, REGISTER), "undefined")
        found[metric or "*"] = value
    return found["*"] if [*found] == ["*"] else found or None


def _is_metric(name: str) -> bool:
    try:
        read_metric(name)
    except ArgumentError:
        return False
    return True
