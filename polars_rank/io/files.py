"""Paths of input files; Parquet files of paths, directories and patterns; TOML files."""

from __future__ import annotations

import errno
import os
import stat
import tomllib
from dataclasses import dataclass
from glob import escape, glob
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from polars_rank.errors import ArgumentError, SourceError
from polars_rank.frames.ids import common_value_type
from polars_rank.frames.stores import is_pattern, scan_store
from polars_rank.io.outputs import check_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

#: Errors for patterns and URLs. Windows raises EINVAL.
_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.EINVAL)

#: Maximum number of files in messages.
_MAX_NAMES = 5

#: Names of copied inputs, such as "standard input", by the path of the copy.
COPIES: dict[str, str] = {}

#: Options of `scan_parquet` that allow files to have different schemas.
_SCHEMA_OPTIONS = {"schema", "cast_options", "missing_columns", "extra_columns"}

#: Errors of Polars for a damaged file. A panic is not an `Exception`.
DAMAGE = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)


def origin(file: str) -> str:
    """Return the name of a file for messages; for copies the name of the input."""
    return COPIES.get(file, file)


def first_names(files: Sequence[str]) -> list[str]:
    """Return the names of the first files for messages, and the number of others."""
    first, others = files[:_MAX_NAMES], files[_MAX_NAMES:]
    return [*map(origin, first), *([f"{len(others):,} others"] if others else [])]


def is_utf8(text: str) -> bool:
    """Return whether the bytes of a text are UTF-8; Python has surrogates for other bytes."""
    return not any("\ud800" <= each <= "\udfff" for each in text)


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
    if not is_utf8(name):
        raise SourceError(f"the name of {name!r} is not UTF-8; rename the file")
    return name


@dataclass(frozen=True)
class Files:
    """Local files in order, or URLs, which may contain patterns."""

    names: list[str]
    remote: bool = False
    #: Whether the files are in hive partitions, which are directories such as "day=1".
    partitioned: bool = False
    #: Keys of hive partitions above the given paths; these are not columns of the log.
    above: frozenset[str] = frozenset()


def find_files(paths: Iterable[str | os.PathLike[str]]) -> Files:
    """Return the Parquet files of paths, directories, and patterns.

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

    Parameters
    ----------
    paths
        Files, directories, patterns, or URLs. A path that exists is never a pattern. A directory
        means all files in it and its subdirectories whose names end in ".parquet". Names that
        begin with "." or "_", such as incomplete files and Spark's metadata, are skipped in
        directories, and in patterns that do not begin so themselves.

    Returns
    -------
    Files
        The files. Files of a directory or pattern are sorted by name. A file that several paths
        match occurs once, where it comes first.

    Raises
    ------
    ArgumentError
        If `paths` or a path is empty.
    SourceError
        If a file does not exist, or a directory or pattern has no files.
    """
    given = dict.fromkeys(os.fspath(path) for path in paths)
    if not given:
        raise ArgumentError(
            "is empty; name at least one Parquet file, directory, or pattern", "paths"
        )
    names = [readable(name, "paths") for name in given]
    if any("://" in name for name in names):
        return Files(names, remote=True)
    local = [str(Path(name)) for name in names]
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
            place = os.path.realpath(file)
            if place not in files:
                files[place] = readable(file)
    return Files([*files.values()], partitioned=bool(below), above=frozenset(above - below))


def scan_files(files: Files, options: dict[str, Any]) -> pl.LazyFrame:
    """Return a scan of Parquet files, cast to common types if files have different types.

    Parameters
    ----------
    files
        Result of `find_files`.
    options
        Options of `polars.scan_parquet`. With `schema`, `cast_options`, `missing_columns`, or
        `extra_columns`, and for URLs, Polars handles differences between files.

    Returns
    -------
    LazyFrame
        One scan if all files have the same schema, otherwise a concatenation of several.

    Raises
    ------
    SourceError
        If a file is not Parquet, or if files have different columns, or types without a common
        type, such as numbers and strings.
    """
    if files.remote:
        return scan_store(files.names, options)
    if len(files.names) == 1 or _SCHEMA_OPTIONS & options.keys():
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
    # Consecutive files with the same schema are one scan, which keeps the order of rows.
    scans = [
        _scan(files, run, whole).cast(
            {name: common[name] for name, dtype in schema.items() if dtype != common[name]}
        )
        for schema, run in runs
    ]
    # The files may have their columns in different orders.
    order = scans[0].collect_schema().names()
    log = pl.concat([scan.select(cs.by_name(order)) for scan in scans], how="vertical_relaxed")
    log = log if rows is None else log.head(rows)
    return log if index is None else log.with_row_index(index, offset)


def read_toml(path: str | os.PathLike[str], what: str) -> dict[str, Any]:
    """Return the content of a TOML file of options, conventions or rules."""
    check_path(os.fspath(path), what)
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: not TOML or not UTF-8
        problem = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise SourceError(f"cannot read the {what} in {os.fspath(path)!r}: {problem}") from error


def _scan(files: Files, names: list[str], options: dict[str, Any]) -> pl.LazyFrame:
    """Return a scan with the same columns as Polars' scan of the files' directories."""
    options = {"hive_partitioning": files.partitioned, **options, "glob": False}
    if not (options["hive_partitioning"] and files.above):
        return pl.scan_parquet(names, **options)
    if options.get("hive_schema"):
        above = dict.fromkeys(files.above, pl.String)
        options["hive_schema"] = {**above, **options["hive_schema"]}
    for name in sorted(files.above & {*_schema(names[0])}):
        raise SourceError(
            f"column {name!r} is in '{names[0]}', but Polars would read it from the folder "
            f"'{name}=...' above; rename the folder, or set `hive_partitioning` to False"
        )
    return pl.scan_parquet(names, **options).drop(files.above, strict=False)


def _files(path: str) -> list[str]:
    """Return the files of a path; raise `SourceError` if there are none."""
    matches = [path]
    if not Path(path).exists():
        matches = sorted(glob(path, recursive=True))  # noqa: PTH207  (patterns may be absolute)
        # Hidden files only if the pattern has a hidden part.
        parts = Path(path).parts
        first = next((i for i, part in enumerate(parts) if is_pattern(part)), 0)
        if not any(map(_is_hidden, parts[first:])):
            matches = [m for m in matches if not any(map(_is_hidden, Path(m).parts[first:]))]
    files = [
        file
        for match in matches
        for file in (_in_folder(match) if Path(match).is_dir() else [match])
    ]
    if files:
        return files
    if Path(path).is_dir():
        raise SourceError(f"directory {path!r} has no .parquet files")
    if is_pattern(path):
        raise SourceError(f"no file matches {path!r}; check the pattern")
    raise SourceError(f"file or directory {path!r} not found")


def _in_folder(folder: str) -> list[str]:
    # Unlike `Path.glob`, this follows links and skips names that begin with ".".
    matches = glob(f"{escape(folder)}/**/*.parquet", recursive=True)  # noqa: PTH207
    return sorted(
        file
        for file in matches
        if Path(file).is_file() and not any(map(_is_hidden, Path(file).relative_to(folder).parts))
    )


def _is_hidden(name: str) -> bool:
    """Return whether a file or directory is metadata or incomplete; hive partitions are not."""
    return name.startswith("_") and "=" not in name


def _partition_keys(path: Path) -> set[str]:
    return {part.split("=")[0] for part in path.parts if "=" in part}


def _schema(file: str) -> pl.Schema:
    try:
        return pl.scan_parquet(file, glob=False, hive_partitioning=False).collect_schema()
    except DAMAGE as error:
        raise damaged(file, error) from error


def damaged(file: str, error: BaseException, form: str = "Parquet") -> SourceError:
    """Return the error for a file that Polars cannot read."""
    schema = isinstance(error, pl.exceptions.SchemaError)
    remedy = "" if schema else f"; check that it is {form} and complete"
    return SourceError(f"cannot read '{origin(file)}' as {form}: {error}{remedy}")


def _common_schema(runs: list[tuple[pl.Schema, list[str]]]) -> pl.Schema:
    """Return the common schema of all files; raise `SourceError` if there is none."""
    (first, (first_file, *_)), *others = runs
    common = first
    for schema, (file, *_) in others:
        for name in [*first, *schema]:
            if name not in schema or name not in first:
                has, lacks = (first_file, file) if name in first else (file, first_file)
                raise SourceError(
                    f"files have different columns: {name!r} is in '{origin(has)}', but not in "
                    f"'{origin(lacks)}'; set `missing_columns` to 'insert' or `extra_columns` to "
                    "'ignore', or evaluate the files separately"
                )
            dtype = common_value_type(common[name], schema[name])
            if dtype is None:
                raise SourceError(
                    f"files have different types in column {name!r}: {schema[name]} in "
                    f"'{origin(file)}', but {common[name]} in '{origin(first_file)}'; cast the "
                    "column in one of them"
                )
            common = pl.Schema({**common, name: dtype})
    return common
