"""What the command says when something goes wrong: one message, and how the program ends."""

from __future__ import annotations

import warnings
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, NoReturn

import polars as pl
import typer

from polars_rank import progress as bars
from polars_rank.cli import INTERRUPTED, MISUSED
from polars_rank.errors import ArgumentError, DataError, RankError, RankWarning

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def one_message(*files: str) -> Iterator[None]:
    """End the program with one clear message where something goes wrong; of Polars, with files."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            yield
    except BrokenPipeError:  # whoever reads our output has had enough
        raise
    except DataError as error:
        _end(str(_explained(error)))
    except RankError as error:
        _end(str(error))
    except (pl.exceptions.PolarsError, OSError) as error:
        message = str(error).partition("\n\nThis error occurred")[0]
        read = [file for file in files if file not in message]
        _end(f"{message}; reading {', '.join(read)}" if read else message)
    except pl.exceptions.PanicException as error:  # not an Exception
        _end(f"Polars failed ({error}); are the files whole?")
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    finally:
        bars.close()


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    bars.close()
    kind = "Warning" if issubclass(category, RankWarning) else category.__name__
    typer.echo(f"{kind}: {message}", err=True)


def _explained(error: DataError) -> DataError:
    """Return the error with counts and a row, if what was read can be read again."""
    with suppress(RankError, pl.exceptions.PolarsError, OSError):
        return error.explained()
    return error


def _end(message: str) -> NoReturn:
    bars.close()
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(MISUSED)


def misused(message: str) -> NoReturn:
    """End the program for options that do not go together."""
    raise ArgumentError(message)
