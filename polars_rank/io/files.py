"""Files: those that paths stand for, and results and temporary files that leave nothing behind."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from glob import escape, glob
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from polars_rank.errors import ArgumentError, SourceError
from polars_rank.frames.stores import scan_store
from polars_rank.io.ids import common_value_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: With these options of `scan_parquet`, the caller says how files may differ.
_SAYS_HOW = {"schema", "cast_options", "missing_columns", "extra_columns"}

#: What Polars raises when it reads a damaged file; its panic is no `Exception`.
DAMAGE = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)

#: Files and folders that go when the process ends.
_PARTS: set[Path] = set()


@contextmanager
def new_file(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """Give a temporary name beside `path` to write to; the file gets its name when it is whole.

    When the block raises, the temporary file is removed and `path` is as it was.

    Parameters
    ----------
    path
        The file to be.
    overwrite
        Replace it if it is there already.

    Yields
    ------
    Path
        A hidden name in the same directory.

    Raises
    ------
    SourceError
        If the file is there already, also if it came while this one was written, or if there
        is no such directory.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from polars_rank.io.files import new_file
    >>> with TemporaryDirectory() as folder:
    ...     with new_file(Path(folder, "a.txt")) as part:
    ...         _ = part.write_text("whole")
    ...     print(Path(folder, "a.txt").read_text())
    whole
    """
    target = Path(path)
    there = SourceError(f"'{target}' already exists; use `overwrite` to replace it", "overwrite")
    if target.is_dir():
        message = f"'{target}' is a directory; name a file in it"
        raise SourceError(message)
    if target.exists() and not overwrite:
        raise there
    if not target.parent.is_dir():
        message = f"there is no directory '{target.parent}'; create it first"
        raise SourceError(message)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    with _removed(part):
        yield part
        try:
            _publish(part, target, overwrite=overwrite)
        except FileExistsError:
            raise there from None


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Give a new folder where `tempfile.gettempdir()` says; it is removed with what is in it.

    Yields
    ------
    Path
        The folder, until the block ends or the process does.

    Examples
    --------
    >>> from polars_rank.io.files import temporary_folder
    >>> with temporary_folder() as folder:
    ...     _ = (folder / "a.txt").write_text("while it lasts")
    >>> folder.exists()
    False
    """
    folder = Path(tempfile.mkdtemp(prefix="polars_rank-"))
    with _removed(folder):
        yield folder


@contextmanager
def _removed(path: Path) -> Iterator[None]:
    _PARTS.add(path)
    try:
        yield
    finally:
        _remove(path)
        _PARTS.discard(path)


# For one Ctrl-C, Polars and Python raise a KeyboardInterrupt each: the second one may cut the
# `finally` above short. And Polars keeps a generator whose batches nobody takes any more.
@atexit.register
def discard_parts() -> None:
    """Remove the files that are not whole yet and temporary folders, before the process ends."""
    while _PARTS:
        _remove(_PARTS.pop())


def _remove(path: Path) -> None:
    if not path.is_dir():
        path.unlink(missing_ok=True)
        return
    for _ in range(20):  # a thread of Polars may go on writing for a moment
        shutil.rmtree(path, ignore_errors=True)
        if not path.exists():
            return
        time.sleep(0.05)


def _publish(part: Path, target: Path, *, overwrite: bool) -> None:
    if not overwrite:
        try:
            os.link(part, target)  # unlike a rename, this fails if another process was faster
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            if target.exists():
                raise FileExistsError from None
        else:
            return
    part.replace(target)


@dataclass(frozen=True)
class Files:
    """The files that paths stand for, in order, or URLs as they were given."""

    names: list[str]
    remote: bool = False
    #: Whether directories below those that were given are named as in "day=1".
    partitioned: bool = False
    #: What the directories above are named so, which says nothing about this log.
    above: frozenset[str] = field(default_factory=frozenset)


def find_files(paths: Iterable[str | os.PathLike[str]]) -> Files:
    """Return the Parquet files that paths stand for.

    Parameters
    ----------
    paths
        Files, directories, patterns or URLs. A name that is there is that file or directory,
        also if it looks like a pattern. Of a directory, the files that end in ".parquet", also
        in directories below; but none whose name begins with "." or "_", as those do that are
        not written yet, and the notes of Spark. Nor does a pattern stand for those, unless its
        own name begins so.

    Returns
    -------
    Files
        The files; those of a directory or pattern in the order of their names. A file that
        several paths stand for is there once, where it comes first.

    Raises
    ------
    ArgumentError
        If there are no paths.
    SourceError
        If there is no such file, or nothing in a directory or for a pattern.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from polars_rank.io.files import find_files
    >>> with TemporaryDirectory() as folder:
    ...     for name in ("b.parquet", "a[1].parquet", ".c.parquet.part", "_SUCCESS"):
    ...         Path(folder, name).touch()
    ...     print([Path(name).name for name in find_files([folder]).names])
    ['a[1].parquet', 'b.parquet']
    """
    given = [os.fspath(path) for path in paths]
    if not given:
        message = "`paths` is empty; name at least one Parquet file, directory or glob"
        raise ArgumentError(message, "paths")
    if any("://" in path for path in given):
        return Files([*dict.fromkeys(given)], remote=True)
    local = [str(Path(path).expanduser()) for path in given]
    folders = [Path(path) for path in local if Path(path).is_dir()]
    below = {
        key
        for folder in folders
        for file in _in_folder(str(folder))
        for key in _partition_keys(Path(file).parent.relative_to(folder))
    }
    above = {key for folder in folders for key in _partition_keys(folder)}
    files: dict[str, str] = {}
    for path in local:
        for file in _files(path):
            files.setdefault(os.path.realpath(file), file)
    return Files([*files.values()], partitioned=bool(below), above=frozenset(above - below))


def scan_files(files: Files, options: dict[str, Any]) -> pl.LazyFrame:
    """Scan Parquet files; those whose column types differ are cast to types that hold both.

    Parameters
    ----------
    files
        What `find_files` found.
    options
        Of `polars.scan_parquet`. With `schema`, `cast_options`, `missing_columns` or
        `extra_columns`, differences between files are left to Polars; so are those of URLs.

    Returns
    -------
    LazyFrame
        One scan where all files have one schema, otherwise several, one below the other.

    Raises
    ------
    SourceError
        For a file that is no Parquet, and files with different columns or with types that have
        nothing in common, such as numbers and strings.
    """
    if files.remote:
        return scan_store(files.names, options)
    if len(files.names) == 1 or _SAYS_HOW & options.keys():
        return _scan(files, files.names, options)
    schemas = map(_schema, files.names)
    runs = [
        (schema, [file for file, _ in run])
        for schema, run in groupby(zip(files.names, schemas, strict=True), key=lambda pair: pair[1])
    ]
    if len(runs) == 1:
        return _scan(files, files.names, options)
    common = _common_schema(runs)
    whole = dict(options)
    rows, index = whole.pop("n_rows", None), whole.pop("row_index_name", None)
    offset = whole.pop("row_index_offset", 0)
    # Files that follow each other and are alike are one scan: the order of rows stays.
    scans = [
        _scan(files, run, whole).cast(
            {name: common[name] for name, dtype in schema.items() if dtype != common[name]}
        )
        for schema, run in runs
    ]
    # Columns may stand in another order.
    order = scans[0].collect_schema().names()
    log = pl.concat([scan.select(cs.by_name(order)) for scan in scans], how="vertical_relaxed")
    log = log if rows is None else log.head(rows)
    return log if index is None else log.with_row_index(index, offset)


def _scan(files: Files, names: list[str], options: dict[str, Any]) -> pl.LazyFrame:
    """Scan files as Polars scans the directories that they are in."""
    given = {"hive_partitioning": files.partitioned, **options, "glob": False}
    if not (given["hive_partitioning"] and files.above):
        return pl.scan_parquet(names, **given)
    if given.get("hive_schema"):
        given["hive_schema"] = {**dict.fromkeys(files.above, pl.String), **given["hive_schema"]}
    own = pl.scan_parquet(names[0], glob=False, hive_partitioning=False).collect_schema()
    return pl.scan_parquet(names, **given).drop(files.above - {*own}, strict=False)


def _files(path: str) -> list[str]:
    if Path(path).is_dir():
        files = _in_folder(path)
        problem = f"the directory {path!r} holds no .parquet file"
    elif Path(path).exists():
        return [path]
    else:
        matches = _matches(path)
        files = [
            file
            for match in matches
            for file in (_in_folder(match) if Path(match).is_dir() else [match])
        ]
        problem = (
            f"no file matches {path!r}; check the pattern"
            if any(sign in path for sign in "*?[")
            else f"there is no file or directory {path!r}"
        )
    if not files:
        raise SourceError(problem)
    return files


def _matches(pattern: str) -> list[str]:
    """Return what a pattern stands for that is not hidden, unless the pattern asks for that."""
    found = sorted(glob(pattern, recursive=True))  # noqa: PTH207  (patterns may be absolute)
    parts = Path(pattern).parts
    fixed = next((i for i, part in enumerate(parts) if any(sign in part for sign in "*?[")), 0)
    if any(map(_is_hidden, parts[fixed:])):
        return found
    return [match for match in found if not any(map(_is_hidden, Path(match).parts[fixed:]))]


def _in_folder(folder: str) -> list[str]:
    """Return the files of a directory that are not hidden."""
    # Unlike those of `pathlib`, this pattern follows links, and leaves out what begins with ".".
    found = glob(f"{escape(folder)}/**/*.parquet", recursive=True)  # noqa: PTH207
    return sorted(
        file
        for file in found
        if Path(file).is_file() and not any(map(_is_hidden, Path(file).relative_to(folder).parts))
    )


def _is_hidden(name: str) -> bool:
    """Return whether a file or directory holds no rows, or none that are whole yet."""
    return name.startswith("_") and "=" not in name


def _partition_keys(path: Path) -> set[str]:
    return {part.split("=")[0] for part in path.parts if "=" in part}


def _schema(file: str) -> pl.Schema:
    try:
        return pl.scan_parquet(file, glob=False, hive_partitioning=False).collect_schema()
    except DAMAGE as error:
        raise damaged(file, error) from error


def damaged(file: str, error: BaseException) -> SourceError:
    """Return the error for a file that Polars cannot read."""
    return SourceError(f"'{file}' cannot be read as Parquet: {error}; is it whole?")


def _common_schema(runs: list[tuple[pl.Schema, list[str]]]) -> pl.Schema:
    """Return the types that hold those of all files; raise if there are none."""
    (first, (first_file, *_)), *others = runs
    common = first
    for schema, (file, *_) in others:
        for name in [*first, *schema]:
            if name not in schema or name not in first:
                has, lacks = (first_file, file) if name in first else (file, first_file)
                message = (
                    f"the files have different columns: {name!r} is in '{has}', but not in "
                    f"'{lacks}'; set `missing_columns` to 'insert' or `extra_columns` to 'ignore', "
                    "or evaluate the files apart"
                )
                raise SourceError(message, "missing_columns", "extra_columns")
            dtype = common_value_type(common[name], schema[name])
            if dtype is None:
                message = (
                    f"the files have different types in the column {name!r}: {schema[name]} in "
                    f"'{file}', but {common[name]} in '{first_file}'; cast the column in one of "
                    "them"
                )
                raise SourceError(message)
            common = pl.Schema({**common, name: dtype})
    return common
