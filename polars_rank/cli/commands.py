"""`polars-rank`: the program and its commands."""

import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from polars_rank.cli import BROKEN_PIPE, MISUSED
from polars_rank.cli.changes import movers
from polars_rank.cli.config import options_for
from polars_rank.cli.evaluating import curve, estimate, evaluate, explain, metrics
from polars_rank.cli.inspecting import inspect
from polars_rank.cli.making import convert, generate
from polars_rank.cli.messages import let_go_of_output, one_message, say
from polars_rank.cli.pictures import plot
from polars_rank.cli.reports import demo, report
from polars_rank.cli.statistics import check, compare, slices, summarize
from polars_rank.errors import RankError

#: The last lines of the program's help.
_CODES = (
    "Exit codes: 0 success; 1 a rule of check failed; 2 invalid usage or input; 70 internal error; "
    "130 Ctrl-C; 141 closed pipe; 143 SIGTERM."
)
#: Names of values in the help, by their type in Python.
_METAVARS = {str: "NAME", Path: "PATH", int: "NUMBER", float: "NUMBER"}


def _named(parameters: list[Any]) -> list[Any]:
    """Return parameters whose types are not shown where they say nothing: flags and arguments."""
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None  # noqa: ARG005
        elif parameter.is_flag:
            parameter.metavar = ""
    return parameters


class Program(TyperGroup):
    """The program; it exits with one message, also if options cannot be parsed."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the program."""
        return _named(super().get_params(ctx))

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and end the process; or return, with `standalone_mode=False`."""
        ends = options.pop("standalone_mode", True)
        options["standalone_mode"] = False
        if not ends:
            return super().main(*args, **options)
        try:
            code = super().main(*args, **options)
        except SystemExit as end:  # Click and Rich exit with 1 if a pipe is closed
            code = end.code
            if code == 1:
                let_go_of_output()
                code = BROKEN_PIPE
        except RankError as error:  # in a file of options
            say(f"Error: {error}")
            code = MISUSED
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            code = _usage_error(error)
        sys.exit(code)


class Command(TyperCommand):
    """A command; it exits with one message if it fails."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the arguments and options of the command."""
        return _named(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with one_message(ctx):
            return super().invoke(ctx)


def _usage_error(error: Any) -> int:
    """Print what is wrong with the command line, or the help if it is empty."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        path = "polars-rank" if error.ctx is None else error.ctx.command_path
        message = error.format_message().replace("Value error, ", "")
        stop = "" if message.endswith((".", "?")) else "."
        say(f"Error: {message}{stop} Try: {path} --help")
    return MISUSED


app = typer.Typer(
    cls=Program, epilog=_CODES, no_args_is_help=True, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def _version(wanted: bool) -> None:  # noqa: FBT001  (typer calls it)
    if wanted:
        typer.echo(installed("polars_rank"))
        raise typer.Exit


@app.callback(help="Evaluate search and recommendation rankings.")
def program(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help=r"TOML file of options (default: \[tool.polars-rank] of pyproject.toml).",
            metavar="PATH",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,  # noqa: ARG001
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Read options from a file for the command."""
    name = str(ctx.invoked_subcommand)
    command = ctx.command.commands[name]  # type: ignore[attr-defined]
    ctx.default_map = {name: options_for(command, config)}


def _set_metavars(function: Any) -> None:
    """Name the values of options by their types, unless they have a name."""
    for hint in get_type_hints(function, include_extras=True).values():
        annotated, *options = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        kinds = {annotated, *get_args(annotated)} & {*_METAVARS}
        for option in options:
            if kinds and option.metavar is None:
                option.metavar = _METAVARS[kinds.pop()]


for panel, functions in {
    "Evaluation": (evaluate, estimate, curve, explain, metrics, inspect),
    "Statistics": (summarize, compare, slices, movers, check),
    "Charts and reports": (plot, report, demo),
    "Files": (generate, convert),
}.items():
    for function in functions:
        _set_metavars(function)
        needs_arguments = function not in (metrics, demo)
        app.command(cls=Command, rich_help_panel=panel, no_args_is_help=needs_arguments)(function)
