"""Options that several commands have, and how a command is made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from polars_rank.cli.config import from_file
from polars_rank.cli.formats import Format, choose, put
from polars_rank.cli.messages import DEBUG, say
from polars_rank.cli.sources import Kind, refuse_to_replace
from polars_rank.conventions import PRESETS, Duplicates, QuerySet, Ties, Unjudged
from polars_rank.errors import ArgumentError, hint
from polars_rank.evaluation.parameters import Align
from polars_rank.io.files import new_file
from polars_rank.io.parquet import Layout
from polars_rank.metrics.catalog import list_metrics as catalogue
from polars_rank.metrics.metric import REGISTER
from polars_rank.metrics.names import metric as read_metric
from polars_rank.trec import Negative

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl

#: Panels of the help, in which options stand that belong together.
INPUT, COLUMNS, DEFINITIONS, OUTPUT = "Input", "Columns", "Definitions", "Output"


def _metrics(incomplete: str) -> Iterator[str]:
    """Complete the last of several names of metrics."""
    before, _, begun = incomplete.rpartition(" ")
    names = (name for name in catalogue()["metric"] if name.startswith(begun))
    return (f"{before} {name}".strip() for name in names)


def _presets(incomplete: str) -> list[str]:
    names = [preset.name.lower().replace(" ", "_") for preset in PRESETS]
    return [name for name in names if name.startswith(incomplete.lower())]


def _debug(ctx: typer.Context, value: bool) -> None:  # noqa: FBT001  (typer calls it)
    ctx.meta[DEBUG] = value or ctx.meta.get(DEBUG, False)


Config = Annotated[
    Path | None,
    typer.Option(
        help=r"A TOML file of options; \[tool.polars-rank] of pyproject.toml by default.",
        is_eager=True,
        callback=from_file,
        rich_help_panel=INPUT,
    ),
]
Debug = Annotated[
    bool,
    typer.Option("--debug", help="Show where an error comes from.", is_eager=True, callback=_debug),
]
Metrics = Annotated[
    list[str],
    typer.Option("--metrics", "-m", help='Names, as in "ndcg@10 ap rr".', autocompletion=_metrics),
]
RunColumn = Annotated[
    str | None,
    typer.Option(
        help='Column that tells runs apart; "" for none; run by default.', rich_help_panel=COLUMNS
    ),
]
By = Annotated[list[str] | None, typer.Option(help="Columns to group by, beside the run.")]
Baseline = Annotated[str, typer.Option(help="The run that the others are compared with.")]
Confidence = Annotated[float, typer.Option(help="How likely the interval has the true mean.")]
Weight = Annotated[
    str | None, typer.Option(help="Column of each query's weight.", rich_help_panel=COLUMNS)
]
AlignOption = Annotated[
    Align | None,
    typer.Option("--align", help="Of runs with different queries: average over these."),
]
Logs = Annotated[
    list[str],
    typer.Argument(
        metavar="LOG",
        help="Parquet files, directories, patterns or URLs; or CSV, NDJSON or Arrow files; or "
        "TREC runs, with --qrels; - for standard input.",
    ),
]
Qrels = Annotated[
    list[Path],
    typer.Option(help="TREC judgments of the LOG or --run.", rich_help_panel=INPUT),
]
Run = Annotated[
    list[Path], typer.Option(help="TREC runs, instead of a LOG.", rich_help_panel=INPUT)
]
Fractional = Annotated[
    bool,
    typer.Option("--fractional", help="Labels of --qrels may be fractions.", rich_help_panel=INPUT),
]
NegativeOption = Annotated[
    Negative,
    typer.Option("--negative", help="What labels below 0 in --qrels are.", rich_help_panel=INPUT),
]
KindOption = Annotated[
    Kind | None,
    typer.Option(
        "--input-format",
        help="The format of what is read; by default, by its name or first bytes.",
        rich_help_panel=INPUT,
    ),
]
LayoutOption = Annotated[
    Layout | None,
    typer.Option(
        "--layout", help="How the rows of a log lie; found out by default.", rich_help_panel=INPUT
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(help='For shuffled logs: memory to sort in, as "2GB".', rich_help_panel=INPUT),
]
MissingColumns = Annotated[
    Literal["raise", "insert"],
    typer.Option(
        "--missing-columns",
        help="Where a Parquet file lacks columns of the first: nulls instead.",
        rich_help_panel=INPUT,
    ),
]
ExtraColumns = Annotated[
    Literal["raise", "ignore"],
    typer.Option(
        "--extra-columns",
        help="Where a Parquet file has columns that the first has not.",
        rich_help_panel=INPUT,
    ),
]
Query = Annotated[
    list[str],
    typer.Option(help="Columns of the query; query by default.", rich_help_panel=COLUMNS),
]
Doc = Annotated[
    str | None,
    typer.Option(
        help='Column of the document; "" for none; doc by default.', rich_help_panel=COLUMNS
    ),
]
Score = Annotated[
    str,
    typer.Option(
        help='Column of the score; "-price" where lower is better.', rich_help_panel=COLUMNS
    ),
]
Position = Annotated[
    str | None,
    typer.Option(
        help="Column of the position, instead of a score; 1 is first.", rich_help_panel=COLUMNS
    ),
]
Label = Annotated[str, typer.Option(help="Column of the label.", rich_help_panel=COLUMNS)]
ConventionsOption = Annotated[
    str | None,
    typer.Option(
        "--conventions",
        help='Whose definitions to follow, as "trec_eval" or "LightGBM"; or a TOML file of them.',
        rich_help_panel=DEFINITIONS,
        autocompletion=_presets,
    ),
]
TiesOption = Annotated[
    Ties | None,
    typer.Option("--ties", help="The order of tied scores.", rich_help_panel=DEFINITIONS),
]
Rel = Annotated[
    float | None,
    typer.Option(help="The lowest relevant label; 1 by default.", rich_help_panel=DEFINITIONS),
]
UnjudgedOption = Annotated[
    Unjudged | None,
    typer.Option(
        "--unjudged", help="What documents without a label are.", rich_help_panel=DEFINITIONS
    ),
]
QuerySetOption = Annotated[
    QuerySet | None,
    typer.Option(
        "--query-set", help="Which queries count; all by default.", rich_help_panel=DEFINITIONS
    ),
]
UndefinedOption = Annotated[
    list[str] | None,
    typer.Option(
        "--undefined",
        metavar="[METRIC=]zero|skip|one|null",
        help="What undefined values count as, of all metrics or of one; zero by default.",
        rich_help_panel=DEFINITIONS,
    ),
]
DuplicatesOption = Annotated[
    Duplicates,
    typer.Option(
        "--duplicates",
        help="What to do with documents that repeat in a list.",
        rich_help_panel=DEFINITIONS,
    ),
]
Progress = Annotated[bool, typer.Option(help="Show a bar on a terminal when it takes long.")]
FormatOption = Annotated[
    Format | None,
    typer.Option(
        "--format",
        help="By default, what --output ends in, or table.",
        rich_help_panel=OUTPUT,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write to a file.", rich_help_panel=OUTPUT),
]
Force = Annotated[
    bool,
    typer.Option(
        "--force", help="Replace the output if it is there already.", rich_help_panel=OUTPUT
    ),
]


@dataclass(frozen=True, kw_only=True)
class Written:
    """Where the result goes."""

    format: FormatOption = None
    output: Output = None
    force: Force = False

    @property
    def shape(self) -> Format:
        """The format, given or by the name of the output."""
        return choose(self.format, self.output)

    def text(self, text: str) -> None:
        """Write words."""
        if self.output is None:
            typer.echo(text)
        else:
            with new_file(self.output, overwrite=self.force) as part:
                part.write_text(text + "\n", "utf-8")
            say(f"Wrote {self.output}")

    def put(self, result: pl.LazyFrame, inputs: Iterable[str | Path] = ()) -> None:
        """Write the result, or show it."""
        self.spare(inputs)
        put(result, self.format, self.output, force=self.force)

    def spare(self, inputs: Iterable[str | Path]) -> None:
        """Raise `ArgumentError` if the output would replace what is read."""
        if self.force:
            refuse_to_replace(self.output, inputs)


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
            message = f"--undefined must name a metric, as in ap=skip; found {metric!r}."
            raise ArgumentError(message + hint(metric, REGISTER))
        found[metric or "*"] = value
    return found["*"] if [*found] == ["*"] else found or None


def _is_metric(name: str) -> bool:
    try:
        read_metric(name)
    except ArgumentError:
        return False
    return True
