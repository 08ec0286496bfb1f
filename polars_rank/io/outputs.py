"""Files that are written: outputs, which appear only when complete, and temporary files.

An output never replaces an input.
"""

from __future__ import annotations

import atexit
import errno
import os
import re
import shutil
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._polars import files
from polars_rank.errors import ArgumentError, SourceError
from polars_rank.frames.tables import unreadable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from contextlib import AbstractContextManager

#: Errors of the file system that only occur in writing.
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}

#: What users can do if temporary files cannot be written.
_TEMPORARY_REMEDY = (
    "free space there, or set the environment variable TMPDIR to a folder on another disk"
)

#: Temporary files and folders of this process; files with the thread and the output they become.
_TEMPORARY: dict[Path, tuple[int, Path] | None] = {}


@contextmanager
def new_file(
    path: str | os.PathLike[str], *, overwrite: bool = False, inputs: Iterable[object] = ()
) -> Iterator[Path]:
    """Yield a temporary path to write to, whose file becomes `path` when the block ends.

    If the block raises, the temporary file is removed and `path` is unchanged. Pass the open file
    to sinks of Polars, not its path: after an error, they may still create a file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from polars_rank.io.outputs import new_file
    >>> with TemporaryDirectory() as folder:
    ...     with new_file(Path(folder, "a.txt")) as part:
    ...         _ = part.write_text("whole")
    ...     print(Path(folder, "a.txt").read_text())
    whole

    Parameters
    ----------
    path
        File to write. A symbolic link is followed. The content is copied to a pipe or a device,
        such as ``/dev/stdout``, instead of replacing it.
    overwrite
        Replace an existing file. The owner and the permissions of the file stay the same.
    inputs
        Files that must not be replaced, and plans that read such files. Other values are ignored.

    Yields
    ------
    Path
        A hidden file in the same directory; for a pipe or a device, a file in a temporary folder.

    Raises
    ------
    SourceError
        If the file exists, or appears while the block runs; if it is an input, or another output
        that is being written; or if it cannot be written.
    """
    name = os.fspath(path)
    check_path(name)
    if "://" in name:
        raise SourceError(f"cannot write '{name}': only local files are written; name a file")
    part = None
    try:
        with _writing(f"'{name}'", "free space, or write to another folder"):
            if _is_stream(Path(name)):
                part = new_folder()
                with written_to(part), _reading():
                    yield part / "out"
                with (part / "out").open("rb") as file, Path(name).open("ab") as copy:
                    shutil.copyfileobj(file, copy)
                return
            target = Path(os.path.realpath(name))
            if target.exists() and not target.is_file():
                raise SourceError(f"'{name}' is a directory or a device; name a file")
            if not target.parent.is_dir():
                raise SourceError(f"directory '{target.parent}' does not exist; create it first")
            refuse_to_replace(name, inputs)
            written = get_ident(), target
            if written in _TEMPORARY.values():
                raise SourceError(f"'{name}' is written twice; name different files")
            exists = SourceError(f"'{name}' already exists; use `overwrite` to replace it")
            if target.exists() and not overwrite:
                raise exists
            part = target.with_name(f".{target.name[:50]}.{os.urandom(4).hex()}.part")
            _TEMPORARY[part] = written
            # Nobody else may read the content of a file that replaces a private one.
            mode = 0o600 if target.exists() else 0o666
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
            with _reading():
                yield part
            if not _publish(part, target, overwrite=overwrite):
                raise exists
    except OSError as error:
        problem = error.strerror or str(error)
        raise SourceError(f"cannot write '{name}': {problem}; write to another folder") from error
    finally:
        if part is not None:
            discard(part)


def refuse_to_replace(path: str | os.PathLike[str], inputs: Iterable[object]) -> None:
    """Raise `SourceError` if an output is the file of one of the inputs."""
    if not Path(path).is_file():
        return
    for name in (name for each in inputs for name in _names(each)):
        is_same = False
        with suppress(OSError, ValueError):  # the file does not exist, or the name is a URL
            is_same = Path(path).samefile(name.removeprefix("file://"))
        if is_same:
            raise SourceError(f"'{path}' is an input; write to another file")


def _names(each: object) -> list[str]:
    """Return the names of the files of an input."""
    if isinstance(each, (str, os.PathLike)):
        return [os.fspath(each)]
    if isinstance(each, pl.LazyFrame):
        with suppress(OSError, pl.exceptions.PolarsError):  # the reader will raise the error
            return files(each)
    return []


def _is_stream(path: Path) -> bool:
    """Return whether a path is a pipe, a device, or an open file of this process."""
    is_open_file = str(path.absolute()).startswith(("/dev/std", "/dev/fd/", "/proc/self/fd/"))
    return is_open_file or path.is_fifo() or path.is_char_device()


def _publish(part: Path, target: Path, *, overwrite: bool) -> bool:
    """Rename the file; return False if the target exists by now and must not be replaced."""
    if not overwrite:
        try:
            os.link(part, target)  # unlike a rename, this fails if the file exists by now
        except FileExistsError:
            return False
        except OSError:  # a file system without hard links
            if target.exists():
                return False
        else:
            return True
    if target.exists():
        previous = target.stat()
        with suppress(PermissionError, AttributeError):  # Windows has no owners
            os.chown(part, previous.st_uid, previous.st_gid)
        shutil.copymode(target, part)
    part.replace(target)
    return True


@contextmanager
def _reading() -> Iterator[None]:
    """Raise `SourceError` if a file that the output is computed from cannot be read."""
    try:
        yield
    except OSError as error:
        if write_problem(error) is not None:
            raise
        raise unreadable(error) from error


@contextmanager
def _writing(what: str, remedy: str) -> Iterator[None]:
    """Raise `SourceError` if the disk is full or does not take files of this size."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        problem = write_problem(error)
        if problem is None:
            raise
        raise SourceError(f"cannot write {what}: {problem}; {remedy}") from error


def write_problem(error: BaseException) -> str | None:
    """Return the problem of the file system if an error occurred in writing, otherwise None.

    Examples
    --------
    >>> from polars_rank.io.outputs import write_problem
    >>> write_problem(OSError(28, "No space left on device"))
    'No space left on device'
    >>> write_problem(FileNotFoundError(2, "No such file or directory"))
    """
    number = getattr(error, "errno", None)
    if number is None:  # errors of Polars only have a text
        match = re.search(r"\(os error (\d+)\)", str(error))
        number = match and int(match[1])
    return os.strerror(number) if number in _WRITE_ERRORS else None


def check_path(name: str, parameter: str = "path") -> None:
    """Raise an error for an empty name or a name with a null character."""
    if not name:
        raise ArgumentError("has an empty path; name a file, or '.' for this directory", parameter)
    if "\0" in name:
        raise SourceError(f"{name!r} contains a null character, which no file name can have")


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Yield a new folder in `tempfile.gettempdir()`, which is removed with its files.

    Yields
    ------
    Path
        The folder, which exists until the block ends or the process exits.

    Raises
    ------
    SourceError
        If the folder cannot be created, or if the block fails because the disk is full.

    Examples
    --------
    >>> from polars_rank.io.outputs import temporary_folder
    >>> with temporary_folder() as folder:
    ...     _ = (folder / "a.txt").write_text("temporary")
    >>> folder.exists()
    False
    """
    folder = new_folder()
    try:
        with written_to(folder):
            yield folder
    except BaseException:
        _remove(folder)  # and at exit, because a thread of Polars may create it again
        raise
    discard(folder)


def written_to(folder: Path) -> AbstractContextManager[None]:
    """Raise `SourceError` if the block cannot write to a temporary folder."""
    return _writing(f"temporary files in '{folder.parent}'", _TEMPORARY_REMEDY)


def new_folder() -> Path:
    """Return a new temporary folder, which exists until the process ends."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="polars_rank."))
    except OSError as error:
        where = f" in '{tempfile.tempdir}'" if tempfile.tempdir else ""
        raise SourceError(
            f"cannot write temporary files{where}: {error.strerror}; {_TEMPORARY_REMEDY}"
        ) from error
    _TEMPORARY[folder] = None
    return folder


def discard(path: Path) -> None:
    """Remove a temporary file or folder, unless it belongs to a parent process."""
    _remove(path)
    _TEMPORARY.pop(path, None)


# At exit, because `finally` may not run: after Ctrl-C, Polars and Python each raise a
# KeyboardInterrupt, and Polars keeps generators alive whose batches are no longer read.
@atexit.register
def discard_all() -> None:
    """Remove all temporary files and folders of this process."""
    for path in [*_TEMPORARY]:
        discard(path)


if hasattr(os, "register_at_fork"):  # a child process must not remove what its parent uses
    os.register_at_fork(after_in_child=_TEMPORARY.clear)


def _remove(path: Path) -> None:
    if path not in _TEMPORARY:
        return
    for _ in range(20):  # a thread of Polars may still be writing
        shutil.rmtree(path, ignore_errors=True)
        if not path.is_dir():
            break
        time.sleep(0.05)
    with suppress(OSError):
        path.unlink(missing_ok=True)
