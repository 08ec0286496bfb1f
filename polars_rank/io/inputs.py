"""Inputs that can be read only once: pipes, standard input, and files of web servers."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from polars_rank.errors import ArgumentError, SourceError
from polars_rank.io.copies import Copy, chunks_of, is_utf8

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Errors for patterns and URLs. Windows raises EINVAL.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL)


def readable(
    path: str | os.PathLike[str],
    options: Mapping[str, Any] | None = None,
    parameter: str = "path",
) -> str:
    """Return the path of a file that can be read several times.

    Parameters
    ----------
    path
        A file, a pattern, or a URL.
    options
        Options of a web server; see `download`.
    parameter
        Name of the parameter in errors.

    Returns
    -------
    str
        A `Copy` of a pipe or of a file of a web server (http, https), or a link if the name is not
        UTF-8; otherwise the path, with the home directory instead of "~".
    """
    name = os.fspath(path)
    if is_of_web_server(name):
        from polars_rank.io.web_servers import download  # noqa: PLC0415  (slow to import)

        return download(name, options)
    check_path(name, parameter)
    name = os.path.expanduser(name)  # noqa: PTH111  (unlike Path's, it accepts unknown users)
    try:
        if not _is_pipe(name):
            return name if is_utf8(name) else Copy.link(name)
        with Path(name).open("rb") as stream:
            return copy_of_pipe(stream, Path(name).name, name)
    except OSError as error:
        if error.errno in _NO_FILE:
            return name
        raise SourceError(f"cannot read '{name}': {error.strerror}") from error


def is_of_web_server(name: str) -> bool:
    """Return whether a name is an http or https URL."""
    return name.partition("://")[0].lower() in ("http", "https")


def check_path(name: str, parameter: str = "path") -> None:
    """Raise an error for an empty name or a name with a null character."""
    if not name:
        raise ArgumentError(
            f"`{parameter}` has an empty path; name a file, or '.' for this directory"
        )
    if "\0" in name:
        raise SourceError(f"{name!r} contains a null character, which no file name can have")


def copy_of_pipe(stream: IO[bytes], name: str, origin: str) -> Copy:
    """Return a copy of a pipe or of standard input."""
    if stream.isatty():
        raise SourceError(f"{origin} is this terminal; pipe a file into the program")
    copy = Copy.of(chunks_of(stream), name, origin)
    if not Path(copy).stat().st_size:
        raise SourceError(f"{origin} is empty; check the program that writes to the pipe")
    return copy


def is_pipe(path: str) -> bool:
    """Return whether a path is a pipe, such as <(...) in a shell, a socket, or a terminal."""
    try:
        return _is_pipe(path)
    except (OSError, ValueError):  # reading the file raises the error
        return False


def _is_pipe(path: str) -> bool:
    mode = Path(path).stat().st_mode
    if stat.S_ISCHR(mode):
        with Path(path).open("rb", buffering=0) as device:
            return device.isatty()
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
