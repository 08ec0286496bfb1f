"""Output files, which appear only when complete and never replace an input."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._polars import files
from polars_rank.errors import SourceError
from polars_rank.frames.tables import unreadable
from polars_rank.io.inputs import check_path
from polars_rank.io.temporary import discard, register, temporary_folder, write_problem

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


#: Files that are being written, with the threads that write them.
_TARGETS: set[tuple[int, Path]] = set()


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
    with _written(name):
        is_stream = _is_stream(Path(name))
    if is_stream:
        with temporary_folder() as folder:
            with _reading():
                yield folder / "out"
            with _written(name), (folder / "out").open("rb") as file, Path(name).open("ab") as copy:
                shutil.copyfileobj(file, copy)
        return
    with _written(name):
        target = _target(name)
    refuse_to_replace(name, inputs)
    written = get_ident(), target
    if written in _TARGETS:
        raise SourceError(f"'{name}' is written twice; name different files")
    exists = SourceError(f"'{name}' already exists; use `overwrite` to replace it")
    if target.exists() and not overwrite:
        raise exists
    part = target.with_name(f".{target.name[:50]}.{os.urandom(4).hex()}.part")
    register(part)
    _TARGETS.add(written)
    try:
        with _written(name):
            # Nobody else may read the content of a file that replaces a private one.
            mode = 0o600 if target.exists() else 0o666
            os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode))
            with _reading():
                yield part
            published = _publish(part, target, overwrite=overwrite)
        if not published:
            raise exists
    finally:
        _TARGETS.remove(written)
        discard(part)


def refuse_to_replace(path: str | os.PathLike[str], inputs: Iterable[object]) -> None:
    """Raise `SourceError` if an output is the file of one of the inputs."""
    if not Path(path).is_file():
        return
    status = Path(path).stat()
    for name in (name for each in inputs for name in _names(each)):
        try:
            same = os.path.samestat(status, Path(name.removeprefix("file://")).stat())
        except (OSError, ValueError):  # the file does not exist, or the name is a URL
            continue
        if same:
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
    absolute = path.absolute()
    if str(absolute) in ("/dev/stdout", "/dev/stderr"):
        return True
    if str(absolute.parent) in ("/dev/fd", "/proc/self/fd"):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def _target(name: str) -> Path:
    """Return the file that a path refers to; raise `SourceError` if it cannot be a file."""
    target = Path(os.path.realpath(name))
    folder = target.parent if Path(name).is_symlink() else Path(name).parent
    if target.is_dir():
        message = f"'{name}' is a directory; name a file in it"
    elif not target.parent.is_dir():
        message = f"directory '{folder}' does not exist; create it first"
    elif target.is_symlink():
        message = f"'{name}' is a symbolic link that refers to itself; name another file"
    elif target.exists() and not target.is_file():
        message = f"'{name}' is neither a file nor a pipe; name a file"
    else:
        return target
    raise SourceError(message)


def _publish(part: Path, target: Path, *, overwrite: bool) -> bool:
    """Rename the file; return False if the target exists by now and must not be replaced."""
    if overwrite:
        if target.exists():
            previous = target.stat()
            with suppress(PermissionError, AttributeError):  # Windows has no owners
                os.chown(part, previous.st_uid, previous.st_gid)
            part.chmod(stat.S_IMODE(previous.st_mode))
        part.replace(target)
        return True
    try:
        os.link(part, target)  # unlike a rename, this fails if the file exists by now
    except FileExistsError:
        return False
    except OSError:  # a file system without hard links
        if target.exists():
            return False
        part.replace(target)
    return True


@contextmanager
def _written(name: str) -> Iterator[None]:
    """Raise `SourceError` if the output cannot be written."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        problem, remedy = write_problem(error), "free space, or write to another folder"
        if problem is None and isinstance(error, OSError):
            problem, remedy = error.strerror or str(error), "write to another folder"
        if problem is None:
            raise
        raise SourceError(f"cannot write '{name}': {problem}; {remedy}") from error


@contextmanager
def _reading() -> Iterator[None]:
    """Raise `SourceError` if a file that the output is computed from cannot be read."""
    try:
        yield
    except OSError as error:
        if write_problem(error) is not None:
            raise
        raise unreadable(error) from error
