"""Options that several commands have, and how a command is made of them."""
# ruff: noqa: TC003  (typer reads types off signatures, which must exist then)

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, get_type_hints

import typer

from polars_rank.cli.config import from_file
from polars_rank.cli.formats import Format, choose, put
from polars_rank.cli.messages import DEBUG, as_options, one_message, say
from polars_rank.cli.sources import Kind, refuse_to_replace
from polars_rank.conventions import PRESETS, Queries, Unjudged
from polars_rank.errors import ArgumentError, hint
from polars_rank.evaluation import Align
from polars_rank.logs.files import new_file
from polars_rank.logs.parquet import Layout
from polars_rank.logs.trec import Negative
from polars_rank.measures.catalogue import metrics as catalogue
from polars_rank.measures.metric import REGISTER
from polars_rank.measures.names import find
from polars_rank.ranking import Duplicates, Ties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import AbstractContextManager

    import polars as pl

#: Functions, with examples of the commands that they are made.
Commands: TypeAlias = "Mapping[Callable[..., None], Sequence[str]]"

#: The command that runs.
_RUNNING: ContextVar[typer.Context] = ContextVar("running")

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
Relevant = Annotated[
    float | None,
    typer.Option(help="The lowest relevant label; 1 by default.", rich_help_panel=DEFINITIONS),
]
UnjudgedOption = Annotated[
    Unjudged | None,
    typer.Option(
        "--unjudged", help="What documents without a label are.", rich_help_panel=DEFINITIONS
    ),
]
QueriesOption = Annotated[
    Queries | None,
    typer.Option(
        "--queries", help="Which queries count; all by default.", rich_help_panel=DEFINITIONS
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


def add(app: typer.Typer, panel: str, commands: Commands) -> None:
    """Add functions to the program, each with the examples that its help shows."""
    for function, examples in commands.items():
        made = grouped(function)
        _, *parameters = inspect.signature(made).parameters.values()
        needs = any(each.default is each.empty or each.name == "logs" for each in parameters)
        epilog = "\n\n".join(f"Example: {example}" for example in examples)
        app.command(rich_help_panel=panel, no_args_is_help=needs, epilog=epilog)(made)


def grouped(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer, whose parameters that are dataclasses are their fields.

    So that several commands have the same options without writing them down again. It ends with
    one message where something goes wrong.
    """
    given = _hints(function)
    groups: dict[str, type[Any]] = {
        name: kind for name, kind in given.items() if isinstance(kind, type) and is_dataclass(kind)
    }

    def run(ctx: typer.Context, **options: Any) -> None:
        del options["debug"]
        made = {
            name: kind(**{field.name: options.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        files = [file for each in made.values() for file in getattr(each, "files", ())]
        token = _RUNNING.set(ctx)
        try:
            with one_message(ctx, *files):
                function(**made, **options)
        finally:
            _RUNNING.reset(token)

    own = [
        _parameter(name, given[name], parameter.default)
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in groups
    ]
    shared = [
        _parameter(each.name, _hints(kind)[each.name], _default(each))
        for kind in groups.values()
        for each in fields(kind)
    ]
    # The help shows first what only this command has.
    parameters = [
        _parameter("ctx", typer.Context, inspect.Parameter.empty),
        *own,
        *shared,
        _parameter("debug", Debug, default=False),
    ]
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def run(words: Sequence[str]) -> None:
    """Run another command of the program; end this one if that fails."""
    program = _RUNNING.get().find_root().command
    code = program.main(words, prog_name="polars-rank", standalone_mode=False)
    if code:
        raise typer.Exit(code)


def until_the_end(resource: AbstractContextManager[Any]) -> Any:
    """Enter a context that is left when the command ends."""
    return _RUNNING.get().with_resource(resource)


def in_options(message: str) -> str:
    """Return a message of the library in the words of the options of this command."""
    return as_options(message, _RUNNING.get())


def is_said(name: str) -> bool:
    """Return whether an option stands on the command line, rather than in a file."""
    source = _RUNNING.get().get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _hints(thing: Any) -> dict[str, Any]:
    hints = get_type_hints(thing, include_extras=True)
    hints.pop("return", None)
    return hints


def _default(field: Field[Any]) -> Any:
    if field.default_factory is not MISSING:
        return field.default_factory()
    return inspect.Parameter.empty if field.default is MISSING else field.default


def _parameter(name: str, kind: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=kind)


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
        function, parameters = find(metric)
        if metric and (function is None or parameters):
            message = f"--undefined must name a metric, as in ap=skip; found {metric!r}."
            raise ArgumentError(message + hint(metric, REGISTER))
        found[metric or "*"] = value
    return found["*"] if [*found] == ["*"] else found or None
