"""Paths of inputs; temporary copies of inputs that Polars cannot read as they are, and links."""

from __future__ import annotations

import errno
import os
import stat
import weakref
from pathlib import Path
from typing import TYPE_CHECKING

from polars_rank.errors import SourceError
from polars_rank.io.outputs import check_path, discard, new_folder, written_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import polars as pl

#: Errors for patterns and URLs. Windows raises EINVAL.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL)

#: Maximum number of files in messages.
_MAX_NAMES = 5


class Copy(str):
    """Path of a temporary copy, which is removed when the last reference to this object goes."""

    __slots__ = ("__weakref__", "origin")

    #: The copied input: a path or "standard input".
    origin: str

    @classmethod
    def of(cls, chunks: Iterable[bytes], name: str, origin: str) -> Copy:
        """Return a file with a name and its content."""
        folder = new_folder()
        copy = cls(folder / name)
        copy.origin = origin
        weakref.finalize(copy, discard, folder)
        with written_to(folder), Path(copy).open("wb") as file:
            file.writelines(chunks)
        return copy

    @classmethod
    def link(cls, path: str) -> Copy:
        """Return a link to a file or directory whose name is not UTF-8, as Polars needs it."""
        folder = new_folder()
        suffix = Path(path).suffix
        link = cls(folder / f"input{suffix if is_utf8(suffix) else ''}")
        link.origin = os.fsencode(path).decode(errors="replace")
        weakref.finalize(link, discard, folder)
        Path(link).symlink_to(Path(path).absolute())
        return link


def is_utf8(name: str) -> bool:
    """Return whether the bytes of a name are UTF-8; Python has surrogates for other bytes."""
    return not any("\ud800" <= each <= "\udfff" for each in name)


def origin(file: str) -> str:
    """Return the name of a file for messages; for copies the name of the input."""
    return file.origin if isinstance(file, Copy) else file


def first_names(files: Sequence[str]) -> list[str]:
    """Return the names of the first files for messages, and the number of others."""
    first, others = files[:_MAX_NAMES], files[_MAX_NAMES:]
    return [*map(origin, first), *([f"{len(others):,} others"] if others else [])]


def held(plan: pl.LazyFrame, files: Sequence[str]) -> pl.LazyFrame:
    """Return a plan that refers to the copies among its files, so that they are not removed."""
    copies = [file for file in files if isinstance(file, Copy)]
    if not copies:
        return plan

    def unchanged(rows: pl.DataFrame, _: list[Copy] = copies) -> pl.DataFrame:
        return rows

    return plan.map_batches(unchanged, streamable=True)


def readable(path: str | os.PathLike[str], parameter: str = "path") -> str:
    """Return the path of a file that can be read several times.

    Parameters
    ----------
    path
        A file, a pattern, or a URL.
    parameter
        Name of the parameter in errors.

    Returns
    -------
    str
        The path, with the home directory instead of "~"; a link if the name is not UTF-8.

    Raises
    ------
    SourceError
        For a pipe, which can be read only once.
    """
    name = os.fspath(path)
    check_path(name, parameter)
    name = os.path.expanduser(name)  # noqa: PTH111  (unlike Path's, it accepts unknown users)
    try:
        mode = Path(name).stat().st_mode
    except OSError as error:
        if error.errno in _NO_FILE:
            return name
        raise SourceError(f"cannot read '{name}': {error.strerror}") from error
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode):
        raise SourceError(
            f"'{name}' is a pipe or a device, but files are read several times; write a file, or "
            "pipe it into a command that reads standard input (-)"
        )
    return name if is_utf8(name) else Copy.link(name)
