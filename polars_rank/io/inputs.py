"""Paths of inputs, which are read several times."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from polars_rank.errors import SourceError
from polars_rank.io.outputs import check_path

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Errors for patterns and URLs. Windows raises EINVAL.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL)

#: Maximum number of files in messages.
_MAX_NAMES = 5

#: Names of copied inputs, such as "standard input", by the path of the copy.
COPIES: dict[str, str] = {}


def origin(file: str) -> str:
    """Return the name of a file for messages; for copies the name of the input."""
    return COPIES.get(file, file)


def first_names(files: Sequence[str]) -> list[str]:
    """Return the names of the first files for messages, and the number of others."""
    first, others = files[:_MAX_NAMES], files[_MAX_NAMES:]
    return [*map(origin, first), *([f"{len(others):,} others"] if others else [])]


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
        The path, with the home directory instead of "~".

    Raises
    ------
    SourceError
        For a pipe, which can be read only once, and for a name that is not UTF-8.
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
    if any("\ud800" <= each <= "\udfff" for each in name):  # bytes that are not UTF-8
        raise SourceError(f"the name of {name!r} is not UTF-8; rename the file")
    return name
