"""Messages of commands: errors with their exit codes, warnings, and printed text."""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from contextlib import contextmanager, suppress
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Any, NoReturn

import click
import polars as pl

from polars_rank import _progress as bars
from polars_rank.cli import BROKEN_PIPE, INTERRUPTED, MISUSED
from polars_rank.errors import (
    ArgumentError,
    DataError,
    RankError,
    RankWarning,
    SourceError,
    UnmatchedIds,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def one_message(ctx: click.Context) -> Iterator[None]:
    """Print one message and exit if the command fails; print each warning once."""
    warned: set[str] = set()  # Polars may warn for each part of a log, with a different example

    def warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        kind = "Warning" if issubclass(category, RankWarning) else category.__name__
        text = in_options(message, ctx)
        without_example = text.partition("; as in ")[0]
        if without_example not in warned:
            warned.add(without_example)
            say(f"{kind}: {text}")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RankWarning)
            warnings.simplefilter("error", UnmatchedIds)
            warnings.showwarning = warn
            yield
            with printing():
                sys.stdout.flush()
    except (click.exceptions.Exit, click.ClickException):
        raise
    except BaseException as error:  # noqa: BLE001  (also internal errors, panics of Polars, Ctrl-C)
        raise click.exceptions.Exit(exit_code(error, ctx)) from None
    finally:
        bars.close()


def exit_code(error: BaseException, ctx: click.Context | None = None) -> int:
    """Print one message about the error that ends a command, and return the exit code.

    It is not 1, which means that a rule failed.
    """
    if isinstance(error, click.Abort):
        error = error.__cause__ or error
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):  # the reader of standard output has closed it
        discard_output()
    if isinstance(error, BrokenPipeError) or isinstance(error.__cause__, BrokenPipeError):
        return BROKEN_PIPE  # or the reader of --output has closed it
    options = {"debug": "--debug" in sys.argv} if ctx is None else ctx.find_root().params
    if options.get("debug"):
        bars.close()
        traceback.print_exception(error)
    say(f"Error: {_message(error, ctx)}")
    return MISUSED


def _message(error: BaseException, ctx: click.Context | None) -> str:
    """Return the message of an error."""
    if isinstance(error, DataError):
        with suppress(RankError, pl.exceptions.PolarsError, OSError):  # of input read again
            error = error.explained()
    if isinstance(error, (RankError, UnmatchedIds)):
        text = in_options(error, ctx)  # a server may have answered with an HTML page
        return " ".join(text.split()) if isinstance(error, SourceError) else text
    if isinstance(error, (pl.exceptions.PolarsError, OSError)):
        message = " ".join(str(error).partition("\n\n")[0].split())  # without the query plan
    elif isinstance(error, pl.exceptions.PanicException):  # not an Exception
        return f"Polars failed ({error}); check that the files are complete"
    elif isinstance(error, MemoryError):
        message = "not enough memory"
    else:
        fault = f"{type(error).__name__}: {error}"
        return f"internal error: {fault}; please report it with the output of --debug"
    files = [] if ctx is None or ctx.obj is None else ctx.obj.files
    read = ", ".join(file for file in files if file not in message)
    return f"{message}; reading {read}" if read else message


def in_options(problem: object, ctx: click.Context | None) -> str:
    """Return the message of an error or a warning with options in place of parameters."""
    if ctx is None or not isinstance(problem, (RankError, RankWarning)):
        return str(problem)
    options = {str(each.name): max(each.opts, key=len) for each in ctx.command.params}

    def written(match: re.Match[str]) -> str:
        if match["role"]:
            return f"--fields {match['role']}={'' if match['field'] == 'None' else match['field']}"
        name = match["name"] or match["passed"]
        if name is None:  # values of rows
            return match[0]
        # A function that the command's calls may have `metrics` for its `metric`, or the reverse.
        others = (f"{name}s", name.removesuffix("s"))
        option = options.get(name) or next(filter(None, map(options.get, others)), "")
        if not option.startswith("--"):
            return match[0]
        return f"`{option}`" if match["name"] else f"pass {option} {match['value']}"

    return re.sub(_PARAMETERS_AND_ROWS, written, str(problem))


#: Parameters in a message, and values of rows, which may look like parameters.
_PARAMETERS_AND_ROWS = (
    r"fields=\{'(?P<role>\w+)': '?(?P<field>[^'}]*)'?\}"
    r"|\{.*?\}|`(?P<name>\w+)`|\bpass (?P<passed>\w+)='(?P<value>[^']*)'"
)


def say(message: str) -> None:
    """Print a message on standard error."""
    bars.close()
    with suppress(OSError):  # the terminal may be closed
        click.echo(message, err=True)


def show(text: str = "") -> None:
    """Print a text on standard output; in files and pipes it is UTF-8, as tables are."""
    with printing():
        click.echo(text if sys.stdout.isatty() else text.encode("utf-8", "surrogateescape"))


@contextmanager
def printing() -> Iterator[None]:
    """Raise `SourceError` if standard output cannot be written, except for a broken pipe."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        problem = "it is closed" if isinstance(error, UnsupportedOperation) else error.strerror
        raise SourceError(f"cannot write to standard output: {problem}") from error


def misused(message: str) -> NoReturn:
    """Raise `ArgumentError` for an invalid use of options."""
    raise ArgumentError(message)


def discard_output() -> None:
    """Discard unwritten output, which would raise another error at the end of the process."""
    with suppress(OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
