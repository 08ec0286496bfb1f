"""The Typer application: its commands, help texts, and errors about usage."""

import re
import sys
from collections.abc import Callable
from copy import copy
from importlib.metadata import version as installed
from inspect import getdoc
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from polars_rank.cli import BROKEN_PIPE, MISUSED
from polars_rank.cli.config import MAY_BE_EMPTY, options_for
from polars_rank.cli.evaluating import curve, estimate, evaluate, explain, metrics
from polars_rank.cli.fusing import fuse, tune_fusion
from polars_rank.cli.generating import convert, generate
from polars_rank.cli.inspecting import inspect
from polars_rank.cli.leaderboards import leaderboard
from polars_rank.cli.messages import discard_output, one_message, printing, say, show
from polars_rank.cli.movers import movers
from polars_rank.cli.plotting import plot
from polars_rank.cli.reports import demo, report
from polars_rank.cli.statistics import check, compare, summarize
from polars_rank.errors import RankError

#: The last lines of the help.
_EXIT_CODES = (
    "Exit codes: 0 success; 1 a rule of check failed; 2 invalid usage or input; 70 internal error; "
    "130 Ctrl-C; 141 closed pipe; 143 SIGTERM."
)
#: Types of options → names of their values in the help.
_METAVARS = {str: "NAME", Path: "PATH", int: "NUMBER", float: "NUMBER"}


class _Help:
    """A command whose help fits in a terminal with 80 columns."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        parameters = [_in_help(parameter) for parameter in self.get_params(ctx)]  # type: ignore[attr-defined]
        page = copy(self)
        page.get_params = lambda ctx: parameters  # type: ignore[attr-defined]  # noqa: ARG005
        super(_Help, page).format_help(ctx, formatter)  # type: ignore[misc]


def _in_help(parameter: Any) -> Any:
    """Return a parameter as the help shows it, without types that add no information."""
    shown = copy(parameter)
    if shown.param_type_name == "argument":
        shown.display_type_rich = lambda ctx: None  # noqa: ARG005
    elif shown.is_flag:
        shown.metavar = ""
        if shown.secondary_opts:  # a column of negations would leave less space for the texts
            shown.opts = [shown.opts[0].replace("--", "--[no-]", 1)]
            shown.secondary_opts = []
            shown.show_default = False
    return shown


class Program(_Help, TyperGroup):
    """The program. It exits with one message, even if the options cannot be parsed."""

    def main(self, *args: Any, **options: Any) -> Any:
        """Run a command and end the process; return with `standalone_mode=False`."""
        standalone = options.pop("standalone_mode", True)
        options["standalone_mode"] = False
        if not standalone:
            return super().main(*args, **options)
        try:
            with printing():  # the help, or the version
                code = super().main(*args, **options)
        except SystemExit as end:  # Click and Rich exit with 1 if a pipe is closed
            code = end.code
            if code == 1:
                discard_output()
                code = BROKEN_PIPE
        except RankError as error:  # invalid options in a file, or standard output is closed
            say(f"Error: {error}")
            code = MISUSED
        except Exception as error:
            if not hasattr(error, "format_message"):
                raise
            code = _usage_error(error)
        sys.exit(code)


class Command(_Help, TyperCommand):
    """A command, which exits with one message if it fails."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; raise an error for an empty one, which would be ignored."""
        parameters: list[Any] = self.get_params(ctx)
        options = {
            name: option
            for option in parameters
            for name in option.opts
            if option.param_type_name == "option" and not option.is_flag
        }
        for before, text in pairwise(["", *args]):
            if text and not (text.endswith("=") and text[:-1] in options):
                continue
            name = text[:-1] or before  # of "--by=" or "--by", ""
            if name not in options:
                ctx.fail("an argument is empty; name a file, or omit it")
            if options[name].name not in MAY_BE_EMPTY:
                ctx.fail(f"{name} is empty; give it a value, or omit it")
        return super().parse_args(ctx, args)

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
    cls=Program, epilog=_EXIT_CODES, no_args_is_help=True, pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)  # fmt: skip


def _version(show_version: bool) -> None:  # noqa: FBT001  (typer calls it)
    if show_version:
        show(installed("polars_rank"))
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
    """Set the defaults of the command from the file of options."""
    name = str(ctx.invoked_subcommand)
    command = ctx.command.commands[name]  # type: ignore[attr-defined]
    ctx.default_map = {name: options_for(command, config)}


def _describe_values(function: Any) -> None:
    """Name the values of options after their types, unless they have a name, and list choices."""
    for hint in get_type_hints(function, include_extras=True).values():
        annotated, *options = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        types = [annotated, *get_args(annotated)]
        choices = [get_args(each) for each in types if get_origin(each) is Literal]
        metavars = [_METAVARS[each] for each in types if each in _METAVARS]
        for option in options:
            if option.metavar is None and choices:
                # In the help text, long lists of choices wrap between words.
                option.metavar = "CHOICE"
                option.help += rf" \[choices: {', '.join(choices[0])}]"
            elif option.metavar is None and metavars:
                option.metavar = metavars[0]


def _help(function: Any) -> str:
    """Return the docstring as a help text: one line per paragraph and per example."""
    paragraphs = re.sub(r"(?<=\S)\n(?=\S)", " ", getdoc(function) or "")
    return re.sub(r"\n +", "\n$ ", paragraphs)


_PANELS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Evaluation": (evaluate, estimate, curve, explain, metrics, inspect),
    "Statistics": (summarize, compare, leaderboard, movers, check, tune_fusion),
    "Charts and reports": (plot, report, demo),
    "Files": (generate, convert, fuse),
}
for panel, functions in _PANELS.items():
    for function in functions:
        _describe_values(function)
        app.command(
            function.__name__.replace("_", "-"), cls=Command, help=_help(function),
            rich_help_panel=panel, no_args_is_help=function not in (metrics, demo),
        )(function)  # fmt: skip
