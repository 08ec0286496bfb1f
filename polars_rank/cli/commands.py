"""`polars-rank`: its commands, each of which is a few calls of the library."""

import sys
from importlib.metadata import version as installed
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from polars_rank.cli import BROKEN_PIPE, MISUSED
from polars_rank.cli.config import options_for
from polars_rank.cli.evaluating import curve, estimate, evaluate, explain, metrics
from polars_rank.cli.inspecting import inspect
from polars_rank.cli.making import convert, generate
from polars_rank.cli.messages import let_go_of_output, one_message, say
from polars_rank.cli.pictures import plot
from polars_rank.cli.reports import demo, report
from polars_rank.cli.statistics import check, compare, slices, summarize
from polars_rank.errors import RankError

#: What ends the help of the program.
_CODES = (
    "Exit codes: 0 for success; 1 if a rule of check fails; 2 for wrong usage or input, which one "
    "message on standard error explains; 70 for an internal error; 130 for Ctrl-C, 141 for a "
    "closed pipe, 143 for SIGTERM."
)


class Program(TyperGroup):
    """The program, which ends with one message also where options cannot be read."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and end the process; or return, with `standalone_mode=False`."""
        ends = options.pop("standalone_mode", True)
        options["standalone_mode"] = False
        if not ends:
            return super().main(*args, **options)
        try:
            code = super().main(*args, **options)
        except SystemExit as end:  # of Click and of Rich, which end with 1 where a pipe is closed
            code = end.code
            if code == 1:
                let_go_of_output()
                code = BROKEN_PIPE
        except RankError as error:  # of a file of options
            say(f"Error: {error}")
            code = MISUSED
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            code = _explained(error)
        sys.exit(code)


class Command(TyperCommand):
    """A command, which ends with one message if it fails."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with one_message(ctx):
            return super().invoke(ctx)


def _explained(error: Any) -> int:
    """Say what cannot be read of the command line; or give the help, where nothing is said."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        path = "polars-rank" if error.ctx is None else error.ctx.command_path
        message = error.format_message().replace("Value error, ", "")
        stop = "" if message.endswith((".", "?")) else "."
        say(f"Error: {message}{stop} Try: {path} --help")
    return MISUSED


app = typer.Typer(cls=Program, epilog=_CODES, no_args_is_help=True, pretty_exceptions_enable=False)


def _version(wanted: bool) -> None:  # noqa: FBT001  (typer calls it)
    if wanted:
        typer.echo(installed("polars_rank"))
        raise typer.Exit


@app.callback(help="Ranking metrics of search and recommendation logs.")
def program(
    ctx: typer.Context,
    config: Annotated[
        Path | None,
        typer.Option(
            help=r"A TOML file of options (default: \[tool.polars-rank] of pyproject.toml)."
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,  # noqa: ARG001
    version: Annotated[  # noqa: ARG001
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Read the options of a file, for the command that is run."""
    name = str(ctx.invoked_subcommand)
    command = ctx.command.commands[name]  # type: ignore[attr-defined]
    ctx.default_map = {name: options_for(command, config)}


for panel, functions in {
    "Logs": (evaluate, estimate, curve, explain, metrics, inspect),
    "Statistics": (summarize, compare, slices, check),
    "Pictures and reports": (plot, report, demo),
    "Files": (generate, convert),
}.items():
    for function in functions:
        needs_arguments = function not in (metrics, demo)
        app.command(cls=Command, rich_help_panel=panel, no_args_is_help=needs_arguments)(function)
