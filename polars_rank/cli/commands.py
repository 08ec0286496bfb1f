"""`polars-rank`: its commands, each of which is a few calls of the library."""
# ruff: noqa: FBT002  (typer reads switches and types off signatures)

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from polars_rank.cli import (
    BROKEN_PIPE,
    MISUSED,
    evaluating,
    inspecting,
    making,
    pictures,
    reports,
    statistics,
)
from polars_rank.cli.messages import let_go_of_output, say
from polars_rank.cli.options import Debug
from polars_rank.cli.running import add
from polars_rank.errors import RankError

#: What ends the help of the program.
_CODES = (
    "Exit codes: 0 when all went well; 1 where a rule of check fails; 2 for wrong usage or input, "
    "which one message on standard error explains; 70 for a fault of the program; 130 for Ctrl-C, "
    "141 for a closed pipe, 143 for SIGTERM."
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


app = typer.Typer(
    cls=Program,
    help="Ranking metrics of search and recommendation logs.",
    epilog=_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:  # noqa: FBT001  (typer calls it)
    if wanted:
        typer.echo(version("polars_rank"))
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
    _debug: Debug = False,
) -> None:
    pass


add(app, "Logs", evaluating.COMMANDS)
add(app, "Logs", inspecting.COMMANDS)
add(app, "Statistics", statistics.COMMANDS)
add(app, "Pictures and reports", {**pictures.COMMANDS, **reports.COMMANDS})
add(app, "Files", making.COMMANDS)
