"""Commands: how they are made of functions, and what a function may know of the one that runs."""

from __future__ import annotations

import inspect
from contextvars import ContextVar
from dataclasses import MISSING, Field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, get_type_hints

import typer

from polars_rank.cli.messages import as_options, one_message
from polars_rank.cli.options import Debug

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager

#: Functions, with examples of the commands that they are made.
Commands: TypeAlias = "Mapping[Callable[..., None], Sequence[str]]"

#: The command that runs.
_RUNNING: ContextVar[typer.Context] = ContextVar("running")


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
        _parameter(each.name, hints[each.name], _default(each))
        for kind, hints in ((kind, _hints(kind)) for kind in groups.values())
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


def run_command(words: Sequence[str]) -> None:
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


def given(*names: str) -> list[str]:
    """Return what stands in options of these names, in those that the command has."""
    values = [_RUNNING.get().params.get(name) or [] for name in names]
    return [text for value in values for text in ([value] if isinstance(value, str) else value)]


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
