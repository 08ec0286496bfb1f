"""Options that several commands have, and how what they say is read."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, Field, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from polars_rank.cli.formats import Format
from polars_rank.conventions import Queries, Undefined, Unjudged
from polars_rank.evaluation import Align
from polars_rank.logs.parquet import Layout
from polars_rank.logs.trec import Negative
from polars_rank.ranking import Duplicates, Ties

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Qrels = Annotated[list[Path], typer.Option(help="TREC judgments, instead of a log.")]
Run = Annotated[list[Path], typer.Option(help="TREC run, instead of a log.")]
Fractional = Annotated[
    bool, typer.Option("--fractional", help="Labels of --qrels may be fractions.")
]
NegativeOption = Annotated[
    Negative, typer.Option("--negative", help="What labels below 0 in --qrels are.")
]
TiesOption = Annotated[Ties | None, typer.Option("--ties", help="The order of tied scores.")]
UndefinedOption = Annotated[
    Undefined | None,
    typer.Option("--undefined", help="What undefined values count as; zero by default."),
]
QueriesOption = Annotated[
    Queries | None, typer.Option("--queries", help="Which queries count; all by default.")
]
UnjudgedOption = Annotated[
    Unjudged | None, typer.Option("--unjudged", help="What documents without a label are.")
]
DuplicatesOption = Annotated[
    Duplicates,
    typer.Option("--duplicates", help="What to do with documents that repeat in a list."),
]
AlignOption = Annotated[
    Align | None,
    typer.Option("--align", help="Of runs with different queries: average over these."),
]
LayoutOption = Annotated[
    Layout | None,
    typer.Option("--layout", help="How the rows of a log lie; found out by default."),
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it is there already.")]
Progress = Annotated[bool, typer.Option(help="Show a bar on a terminal when it takes long.")]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="By default, what --output ends in, or table.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")]


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer, whose parameters that are dataclasses are their fields.

    So that several commands have the same options without writing them down again.
    """
    given = _hints(command)
    groups: dict[str, type[Any]] = {
        name: kind for name, kind in given.items() if isinstance(kind, type) and is_dataclass(kind)
    }

    def run(**options: Any) -> None:
        made = {
            name: kind(**{field.name: options.pop(field.name) for field in fields(kind)})
            for name, kind in groups.items()
        }
        command(**made, **options)

    own = [
        _parameter(name, given[name], parameter.default)
        for name, parameter in inspect.signature(command).parameters.items()
        if name not in groups
    ]
    shared = [
        _parameter(each.name, _hints(kind)[each.name], _default(each))
        for kind in groups.values()
        for each in fields(kind)
    ]
    # The help shows first what only this command has.
    parameters = [*own, *shared]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def _hints(thing: Any) -> dict[str, Any]:
    hints = get_type_hints(thing, include_extras=True)
    hints.pop("return", None)
    return hints


def _default(field: Field[Any]) -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


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
