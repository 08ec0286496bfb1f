"""Files: logs whose files differ in their types, and results that are written whole or not."""

from __future__ import annotations

import atexit
import os
import secrets
from contextlib import contextmanager
from glob import glob
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import SourceError
from polars_rank.logs.ids import common_value_type

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: With these options of `scan_parquet`, the caller says how files may differ.
_SAYS_HOW = {"schema", "cast_options", "missing_columns", "extra_columns"}

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
    >>> from polars_rank.logs.files import new_file
    >>> with TemporaryDirectory() as folder:
    ...     with new_file(Path(folder, "a.txt")) as part:
    ...         _ = part.write_text("whole")
    ...     print(Path(folder, "a.txt").read_text())
    whole
    """
    target = Path(path)
    there = SourceError(
        f"'{target}' is there already; choose another name, or say that it may be replaced "
        "(overwrite=True, --force)"
    )
    if target.is_dir():
        message = f"'{target}' is a directory; name a file in it"
        raise SourceError(message)
    if target.exists() and not overwrite:
        raise there
    if not target.parent.is_dir():
        message = f"there is no directory '{target.parent}'; create it first"
        raise SourceError(message)
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    _PARTS.add(part)
    try:
        yield part
        try:
            _publish(part, target, overwrite=overwrite)
        except FileExistsError:
            raise there from None
    finally:
        part.unlink(missing_ok=True)
        _PARTS.discard(part)


# For one Ctrl-C, Polars and Python raise a KeyboardInterrupt each: the second one may cut the
# `finally` above short.
@atexit.register
def discard_parts() -> None:
    """Remove the files that are not whole yet, as before the process ends."""
    while _PARTS:
        _PARTS.pop().unlink(missing_ok=True)


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


def scan_parquet(paths: Sequence[str | os.PathLike[str]], options: dict[str, Any]) -> pl.LazyFrame:
    """Scan Parquet files; those whose column types differ are cast to types that hold both.

    Parameters
    ----------
    paths
        Files, directories, patterns or URLs.
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
        For a pattern without files, a file that is no Parquet, and files with different columns
        or with types that have nothing in common, such as numbers and strings.
    """
    given = [os.fspath(path) for path in paths]
    files = [file for path in given for file in _files(path)]
    if len(files) <= 1 or _SAYS_HOW & options.keys() or any("://" in file for file in files):
        return pl.scan_parquet(given, **options)
    schemas = map(_schema, files)
    runs = [
        (schema, [file for file, _ in run])
        for schema, run in groupby(zip(files, schemas, strict=True), key=lambda pair: pair[1])
    ]
    if len(runs) == 1:
        return pl.scan_parquet(given, **options)
    common = _common_schema(runs)
    whole = dict(options)
    rows, index = whole.pop("n_rows", None), whole.pop("row_index_name", None)
    offset = whole.pop("row_index_offset", 0)
    whole.setdefault("hive_partitioning", any(Path(path).is_dir() for path in given))
    # Files that follow each other and are alike are one scan: the order of rows stays.
    scans = [
        pl.scan_parquet(run, **whole).cast(
            {name: common[name] for name, dtype in schema.items() if dtype != common[name]}
        )
        for schema, run in runs
    ]
    # Columns may stand in another order.
    order = scans[0].collect_schema().names()
    log = pl.concat([scan.select(order) for scan in scans], how="vertical_relaxed")
    log = log if rows is None else log.head(rows)
    return log if index is None else log.with_row_index(index, offset)


def _files(name: str) -> list[str]:
    """Return the local files that a path or pattern stands for."""
    if "://" in name:
        return [name]
    local = Path(name).expanduser()
    if local.is_dir():
        return sorted(str(file) for file in local.rglob("*.parquet"))
    if local.exists():
        return [str(local)]
    files = sorted(glob(str(local), recursive=True))  # noqa: PTH207  (patterns may be absolute)
    if not files:
        message = f"no file matches {name!r}; check the pattern"
        raise SourceError(message)
    return files


def _schema(file: str) -> pl.Schema:
    try:
        return pl.Schema(pl.read_parquet_schema(file))
    except (OSError, pl.exceptions.PolarsError) as error:
        message = f"'{file}' cannot be read as Parquet: {error}; is it whole?"
        raise SourceError(message) from error


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
                    f"'{lacks}'; pass missing_columns='insert' or extra_columns='ignore', or "
                    "evaluate the files apart"
                )
                raise SourceError(message)
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
