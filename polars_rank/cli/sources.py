"""Input tables in any format, which is detected from the file name or the first bytes."""

from __future__ import annotations

import os
import sys
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

import polars as pl

from polars_rank.errors import ArgumentError, SourceError
from polars_rank.io import inputs, outputs
from polars_rank.io.files import find_files, scan_files
from polars_rank.io.formats import Start, scan_run
from polars_rank.io.inputs import Copy, origin
from polars_rank.io.text_files import scan_csv, scan_ipc, scan_ndjson, text_files
from polars_rank.io.trec_lines import layout_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


Kind: TypeAlias = Literal["parquet", "csv", "tsv", "ndjson", "ipc", "trec"]

#: The file name that means standard input.
STANDARD_INPUT = "-"

_ENDINGS: dict[str, Kind] = {
    ".parquet": "parquet", ".pq": "parquet", ".csv": "csv", ".tsv": "tsv", ".ndjson": "ndjson",
    ".jsonl": "ndjson", **dict.fromkeys((".arrow", ".arrows", ".feather", ".ipc"), "ipc"),
}  # fmt: skip
_COMPRESSED = {".gz", ".zst", ".bz2", ".xz"}


#: Prefixes of files without data that Spark and other tools write next to the files of a log.
_METADATA_PREFIXES = (
    *("_SUCCESS", "_metadata", "_common_metadata"), *("_committed_", "_started_", "_delta_log"),
)  # fmt: skip


#: Formats → functions that scan files, with the columns of ids.
_SCANS: dict[Kind, Callable[[list[str], Collection[str]], pl.LazyFrame]] = {
    "csv": lambda files, ids: scan_csv(files, ids.__contains__),
    "tsv": lambda files, ids: scan_csv(files, ids.__contains__, "\t"),
    "ndjson": lambda files, _: scan_ndjson(files, infer_schema_length=None),
    "ipc": lambda files, _: scan_ipc(files),
    "trec": lambda files, _: scan_run(files, "trec"),
}


def scan_table(
    paths: Sequence[str], kind: Kind | None, differing: Mapping[str, str], ids: Collection[str]
) -> pl.LazyFrame:
    """Scan a table in any format, with rows in any order; `ids` are read as text."""
    paths = expand(paths)
    kind = kind or kind_of(paths)
    if kind == "parquet":
        return scan_files(find_files(paths), {**differing})
    for name in differing:
        option = f"--{name.replace('_', '-')}"
        raise ArgumentError(f"{option} needs Parquet files; found {', '.join(paths)}")
    return _SCANS[kind]([file for path in paths for file in text_files(path)], ids)


def expand(paths: Sequence[str]) -> list[str]:
    """Expand patterns to files and directories; URLs are unchanged.

    Files in one of the directories are excluded. Files without data, such as _SUCCESS, are
    excluded as well, because patterns match them, also those that the shell has expanded.
    """
    files: list[str] = []
    for path in paths:
        local = os.path.expanduser(path)  # noqa: PTH111  (unlike Path's, it accepts unknown users)
        exists = "://" in path or Path(local).exists()
        matches = [] if exists else sorted(glob(local, recursive=True))  # noqa: PTH207
        files += matches or [path]
    files = [path for path in files if not Path(path).name.startswith(_METADATA_PREFIXES)] or files
    folders = {Path(path) for path in files if "://" not in path and Path(path).is_dir()}
    return [path for path in files if folders.isdisjoint(Path(path).parents)]


def kind_of(paths: Sequence[str]) -> Kind:
    """Return the format of files; raise `ArgumentError` for files of different formats."""
    kinds = {*map(_kind, files := expand(paths))}
    if len(kinds) > 1:
        raise ArgumentError(f"files of different formats: {', '.join(files)}")
    return kinds.pop() if kinds else "parquet"


def readable(path: str) -> str:
    """Return a file that can be read several times; standard input is copied."""
    if path != STANDARD_INPUT:
        return inputs.readable(path)
    if sys.stdin is None or sys.stdin.isatty():
        raise SourceError("standard input (-) is closed or a terminal; pipe a file into it")
    copy = Copy.of(sys.stdin.buffer, "standard-input", "standard input")
    if not Path(copy).stat().st_size:
        raise SourceError("standard input is empty; check the program that writes to the pipe")
    return copy


def refuse_to_replace(output: Path | None, paths: Iterable[str]) -> None:
    """Raise `SourceError` if the output is an input file, or is in an input directory."""
    if output is None or not output.is_file():
        return
    paths = [path for path in paths if "://" not in path and path != STANDARD_INPUT]
    files = [*map(Path, expand(paths))]
    files += [file for path in files for file in path.rglob("*")]
    outputs.refuse_to_replace(output, files)


def _kind(path: str) -> Kind:
    """Return the format of a file, a directory, a pattern or a URL."""
    if _ending(path) in _ENDINGS or "://" in path:
        return _ENDINGS.get(_ending(path), "parquet")
    if Path(path).is_dir():
        return "parquet"
    (first, *_) = text_files(path)
    return _ENDINGS.get(_ending(first)) or _detected(first)


def _detected(file: str) -> Kind:
    """Return the format of a file from its beginning; raise `ArgumentError` if it is unknown."""
    start = Start.of(file, "run")
    form = start.format()
    if form in ("parquet", "ipc", "trec") and start.line:
        return cast("Kind", form)
    if start.line.startswith("{"):
        return "ndjson"
    is_other = layout_of(start.line, "judgments") or start.line.startswith("[")
    if not is_other and ("\t" in start.line or "," in start.line):
        return "tsv" if "\t" in start.line else "csv"
    raise ArgumentError(
        f"{origin(file)} has an unknown format; name it with --input-format, or pass "
        "judgments as --judgments and results as --run-file"
    )


def _ending(path: str) -> str:
    name = Path(path)
    return Path(name.stem if name.suffix.lower() in _COMPRESSED else name).suffix.lower()
