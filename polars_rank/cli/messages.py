"""What the command says when something goes wrong: one message, and how the program ends."""

from __future__ import annotations

import os
import re
import sys
import traceback
import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NoReturn

import polars as pl
import typer

from polars_rank import _progress as bars
from polars_rank.cli import BROKEN_PIPE, BUG, INTERRUPTED, MISUSED
from polars_rank.errors import ArgumentError, DataError, RankError, RankWarning, SourceError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Where the context of the program says whether errors are to show where they come from.
DEBUG = "polars_rank.debug"
#: Where it says of what it has warned.
_SAID = "polars_rank.said"

#: A parameter as messages of the library name it: `doc`, doc=..., doc=None, doc='id', by=
_PARAMETER = re.compile(
    r"`(?P<name>\w+)`|\b(?P<said>\w+)="
    r"(?P<value>\.\.\.|\[\.\.\.\]|True|None|\d+(?=\W|$)|'[^']*'|(?=[,; ]))"
)
#: Python in messages of the library: what is in Polars or in this package, methods, and calls.
_PYTHON = (
    r"(?:\b(?:pl|pr|con|spark)\.(?!parquet|pq|[ct]sv|(?:nd)?json|arrow|feather|ipc|html|toml)\w+"
    r"|(?<![\w.])\.\w+(?=\())(?:\.\w+|\((?:[^()]|\([^()]*\))*\))*"
)
#: What says how to mend it in Python: an example, one of several ways, a whole remedy.
_IN_PYTHON = [
    re.compile(rf",? as (?:in |with )?{_PYTHON}(?: does)?"),
    re.compile(rf",? or [^,;]*?{_PYTHON}[^,;]*"),
    re.compile(rf"(?:; |(?<=[.?]) )[^;]*?{_PYTHON}[^;]*"),
]
#: Parameters that options are called otherwise for.
_RENAMED = {
    "run": ("run_column",),
    "ks": ("ks", "to"),
    "by=": ("run_column", "by"),  # the remedy for a column that tells runs apart
    "overwrite": ("force",),
    "metric": ("metrics",),
    "columns": ("columns", "slices"),
    "a": ("conventions",),
    "b": ("versus",),
}


@contextmanager
def one_message(ctx: typer.Context, *files: str) -> Iterator[None]:
    """End the program with one clear message where something goes wrong; of Polars, with files."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", RankWarning)
            warnings.showwarning = lambda message, category, *_, **__: _warn(ctx, message, category)
            yield
            sys.stdout.flush()
    except BrokenPipeError:  # whoever reads our output has had enough
        let_go_of_output()
        raise typer.Exit(BROKEN_PIPE) from None
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    except (typer.Exit, typer.BadParameter):
        raise
    except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001  (all there may be)
        if ctx.meta.get(DEBUG):
            bars.close()
            traceback.print_exc()
        message, code = _told(error, files)
        say(f"Error: {as_options(message, ctx)}")
        raise typer.Exit(code) from None
    finally:
        bars.close()


def _told(error: BaseException, files: Iterable[str]) -> tuple[str, int]:
    """Return what to say of an error, and the exit code."""
    if isinstance(error, DataError):
        return str(_explained(error)), MISUSED
    if isinstance(error, SourceError):  # a server may have answered with a page
        return " ".join(str(error).split()), MISUSED
    if isinstance(error, RankError):
        return str(error), MISUSED
    if isinstance(error, (pl.exceptions.PolarsError, OSError)):
        message = " ".join(str(error).partition("\n\n")[0].split())  # the plan comes behind
        read = ", ".join(file for file in files if file not in message)
        return f"{message}; reading {read}" if read else message, MISUSED
    if isinstance(error, pl.exceptions.PanicException):  # not an Exception
        return f"Polars failed ({error}); are the files whole?", MISUSED
    fault = f"{type(error).__name__}: {error}"
    return f"a fault of polars-rank itself, {fault}; add --debug to see where, and report it", BUG


def as_options(message: str, ctx: typer.Context) -> str:
    """Return a message of the library in the words of the command's options, without Python."""
    options = {
        each.name: max(each.opts, key=len) for each in ctx.command.params if each.name in ctx.params
    }

    def option(found: re.Match[str]) -> str:
        name, value = found["name"] or found["said"], found["value"]
        names = _RENAMED.get(f"{name}=" if found["said"] else name) or _RENAMED.get(name, (name,))
        known = (each for each in names if each in options)
        flag = options.get(next(known, ""), "")
        if not flag.startswith("--"):
            return found[0]
        if value in (None, "", "True"):
            return f"`{flag}`" if value is None else flag
        return f'{flag} ""' if value == "None" else f"{flag} {value.strip(chr(39) + '[]')}"

    def in_words(part: str) -> str:
        words = _PARAMETER.sub(option, part)
        for python in _IN_PYTHON:
            words = python.sub("", words)
        return words

    # What stands in braces is a row of the log.
    parts = re.split(r"(\{[^}]*\})", message)
    return "".join(part if part[:1] == "{" else in_words(part) for part in parts)


def say(message: str) -> None:
    """Write a message where it is no data."""
    bars.close()
    with suppress(OSError):  # the terminal may be closed
        typer.echo(message, err=True)


def misused(message: str) -> NoReturn:
    """End the program for options that do not go together."""
    raise ArgumentError(message)


def _warn(ctx: typer.Context, message: Warning | str, category: type[Warning]) -> None:
    kind = "Warning" if issubclass(category, RankWarning) else category.__name__
    what, _, _ = str(message).partition("; as in ")
    said = ctx.meta.setdefault(_SAID, set())
    if what not in said:  # of every part of a log, there may be the same with another example
        said.add(what)
        say(f"{kind}: {as_options(str(message), ctx)}")


def _explained(error: DataError) -> DataError:
    """Return the error with counts and a row, if what was read can be read again."""
    with suppress(RankError, pl.exceptions.PolarsError, OSError):
        return error.explained()
    return error


def let_go_of_output() -> None:
    """Let what is still to be written go nowhere, so that the end of the process is quiet."""
    with suppress(OSError, ValueError):
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
