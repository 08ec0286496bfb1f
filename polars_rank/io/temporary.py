"""Temporary files and folders, which are removed even if the process is killed."""

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
from typing import TYPE_CHECKING

import polars as pl

from polars_rank.errors import SourceError

try:
    import fcntl
except ImportError:  # not available on Windows
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Identifies the running system: a folder on a network file system may belong to another machine,
#: whose lock is invisible here. Only Linux has this file.
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")

#: Name of a link to an incomplete output file.
_LINK = "incomplete-output"

#: Errors of the file system that only occur in writing.
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS}

#: Temporary files and folders of this process, with the descriptors that lock folders.
_TEMPORARY: dict[Path, int | None] = {}

#: Folders of blocks that failed: a thread of Polars that still writes may create them again.
_FAILED: set[Path] = set()

#: Incomplete output files of this process, with the temporary folders that have links to them.
_LINKS: dict[Path, Path] = {}


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
    >>> from polars_rank.io.temporary import temporary_folder
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
        if folder in _TEMPORARY:  # in a child process it is not
            _FAILED.add(folder)
        raise
    finally:
        discard(folder)


@contextmanager
def written_to(folder: Path) -> Iterator[None]:
    """Raise `SourceError` if the block cannot write to a temporary folder."""
    try:
        yield
    except (OSError, pl.exceptions.PolarsError) as error:
        problem = write_problem(error)
        if problem is None:
            raise
        raise _not_written(folder.parent, problem) from error


def new_folder() -> Path:
    """Return a new temporary folder, and remove folders of processes that were killed.

    The folder exists until the process ends.
    """
    try:
        place = Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise SourceError(
            f"{error.strerror}; free space there, or set the environment variable TMPDIR to a "
            "folder that can be written"
        ) from error
    try:
        _remove_abandoned(place)
        folder, descriptor = _locked(Path(tempfile.mkdtemp(prefix="polars_rank.", dir=place)))
    except OSError as error:
        raise _not_written(place, str(error.strerror)) from error
    _TEMPORARY[folder] = descriptor
    return folder


def register(part: Path) -> None:
    """Register an incomplete output file, which this or the next process removes.

    A link to the file is in a temporary folder, which can be locked. Output folders are often on
    network file systems, where locks may not work.
    """
    _TEMPORARY[part] = None
    with suppress(OSError, SourceError):  # the output can be written without it
        _LINKS[part] = new_folder()
        (_LINKS[part] / _LINK).symlink_to(part.absolute())


def discard(path: Path) -> None:
    """Remove a temporary file or folder, unless it belongs to a parent process."""
    if path not in _TEMPORARY:
        return
    with suppress(OSError):
        _remove(path)
    descriptor = _TEMPORARY.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)
    if path in _LINKS:
        discard(_LINKS.pop(path))


# At exit, because `finally` may not run: after Ctrl-C, Polars and Python each raise a
# KeyboardInterrupt, and Polars keeps generators alive whose batches are no longer read.
@atexit.register
def discard_all() -> None:
    """Remove all temporary files and folders of this process."""
    for path in [*_TEMPORARY]:
        discard(path)
    while _FAILED:
        _remove(_FAILED.pop())


if hasattr(os, "register_at_fork"):  # a child process must not remove what its parent uses
    os.register_at_fork(after_in_child=_TEMPORARY.clear)
    os.register_at_fork(after_in_child=_FAILED.clear)


def write_problem(error: BaseException) -> str | None:
    """Return the problem of the file system if an error occurred in writing, otherwise None.

    Examples
    --------
    >>> from polars_rank.io.temporary import write_problem
    >>> write_problem(OSError(28, "No space left on device"))
    'No space left on device'
    >>> write_problem(FileNotFoundError(2, "No such file or directory"))
    """
    number = getattr(error, "errno", None)
    if number is None:  # errors of Polars only have a text
        match = re.search(r"\(os error (\d+)\)", str(error))
        number = match and int(match[1])
    return os.strerror(number) if number in _WRITE_ERRORS else None


def _not_written(place: Path, problem: str) -> SourceError:
    return SourceError(
        f"cannot write temporary files in '{place}': {problem}; free space there, or set the "
        "environment variable TMPDIR to a folder on another disk"
    )


def _locked(folder: Path) -> tuple[Path, int | None]:
    """Lock a new folder, rename it, and return it with the descriptor of the lock.

    The system releases the lock when the process ends, even if it is killed.
    """
    prefix = _prefix()
    if fcntl is None or prefix is None:
        return folder, None
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # a file system without locks
        os.close(descriptor)
        return folder, None
    # Renamed after locking, because other processes remove unlocked folders with the prefix.
    return folder.rename(folder.with_name(prefix + os.urandom(8).hex())), descriptor


def _remove_abandoned(place: Path) -> None:
    """Remove folders of ended processes of this user and system, and incomplete output files."""
    prefix = _prefix()
    if fcntl is None or prefix is None:
        return
    folders: list[str] = []
    with suppress(OSError), os.scandir(place) as entries:  # listing may be denied
        folders += (entry.path for entry in entries if entry.name.startswith(prefix))
    for folder in folders:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(descriptor).st_uid == os.getuid():
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    for link in Path(folder).rglob(_LINK):
                        link.readlink().unlink(missing_ok=True)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(descriptor)


def _prefix() -> str | None:
    """Return the prefix of locked folders, or None if the system cannot be identified."""
    try:
        return f"polars_rank-{_BOOT_ID.read_text('ascii').strip()}-"
    except OSError:
        return None


def _remove(path: Path) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for _ in range(20):  # a thread of Polars may still be writing
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(0.05)
