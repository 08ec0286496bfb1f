"""What the command reads: Parquet logs, and tables in other formats, told by their ending."""

from __future__ import annotations

from glob import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import ArgumentError
from polars_rank.logs.files import find_files, scan_files
from polars_rank.logs.lines import text_files
from polars_rank.logs.parquet import scan_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from polars_rank.columns import Names
    from polars_rank.logs.parquet import Layout


def _csv(files: list[str], separator: str = ",") -> pl.LazyFrame:
    # All rows decide the types: an id or a label further down may be of another one.
    return pl.scan_csv(files, separator=separator, infer_schema_length=None, glob=False)


def _tsv(files: list[str]) -> pl.LazyFrame:
    return _csv(files, "\t")


def _ndjson(files: list[str]) -> pl.LazyFrame:
    # Unlike the others, it takes every name as a pattern.
    names = [file if "://" in file else escape(file) for file in files]
    return pl.scan_ndjson(names, infer_schema_length=None)


def _ipc(files: list[str]) -> pl.LazyFrame:
    return pl.scan_ipc(files, glob=False)


#: Readers of what is no Parquet, by the ending of a name, without the one of its compression.
_READERS: dict[str, Callable[[list[str]], pl.LazyFrame]] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".ndjson": _ndjson,
    ".jsonl": _ndjson,
    ".arrow": _ipc,
    ".feather": _ipc,
    ".ipc": _ipc,
}
_PACKED = {".gz", ".zst"}


def scan(
    paths: Sequence[str],
    *,
    query: Names,
    by: Names,
    layout: Layout | None,
    memory: str | None,
    progress: bool,
) -> pl.LazyFrame:
    """Scan a log in any format; options as of `scan_log`, for Parquet only."""
    reader = _reader(paths)
    if reader is None:
        return scan_log(
            paths, query=query, by=by, layout=layout or "auto", memory=memory, progress=progress
        )
    for option, value in (("--layout", layout), ("--memory", memory)):
        if value is not None:
            message = f"{option} is for Parquet logs only; found {', '.join(paths)}"
            raise ArgumentError(message)
    return reader(text_files(paths))


def scan_table(paths: Sequence[str]) -> pl.LazyFrame:
    """Scan a table in any format, whose rows may stand in any order."""
    reader = _reader(paths)
    return scan_files(find_files(paths), {}) if reader is None else reader(text_files(paths))


def _reader(paths: Sequence[str]) -> Callable[[list[str]], pl.LazyFrame] | None:
    """Return what reads the files; None for Parquet."""
    readers = {_READERS.get(_ending(path)) for path in paths}
    if len(readers) > 1:
        message = f"the files of a log must be of one format; found {', '.join(paths)}"
        raise ArgumentError(message)
    (reader,) = readers
    if reader is None:
        for path in paths:
            _check_parquet(path)
    return reader


def _check_parquet(path: str) -> None:
    """Raise `ArgumentError` for a file that never was Parquet."""
    if "://" in path or not Path(path).is_file():
        return
    with Path(path).open("rb") as file:
        start = file.read(4)
    if start[:3] != b"PAR":
        message = (
            f"{path} is no Parquet file; give TREC files with --run and --qrels, and other "
            f"formats with names that end in {', '.join(_READERS)}"
        )
        raise ArgumentError(message)


def refuse_to_replace(output: Path | None, inputs: Iterable[str | Path]) -> None:
    """Raise `ArgumentError` if the output is one of the files that are read."""
    if output is None or not output.exists():
        return
    for path in inputs:
        if any(output.samefile(file) for file in _files(str(path))):
            message = f"{output} is read by this command, and would be replaced; name another file"
            raise ArgumentError(message)


def _files(path: str) -> Iterable[Any]:
    if "://" in path:
        return []
    if Path(path).is_dir():
        return (file for file in Path(path).rglob("*") if file.is_file())
    return text_files(path)


def _ending(path: str) -> str:
    name = Path(path)
    return Path(name.stem if name.suffix.lower() in _PACKED else name).suffix.lower()
