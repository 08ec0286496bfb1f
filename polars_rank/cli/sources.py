"""Input tables in any format, which is detected from the file name or the first bytes."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import partial
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank.columns import IDS, RUNS
from polars_rank.errors import ArgumentError, SourceError, number_of
from polars_rank.io import inputs, outputs
from polars_rank.io.copies import held, origin
from polars_rank.io.files import find_files, scan_files
from polars_rank.io.lines import check_utf8, plain_text, reading, scan_ndjson, text_files
from polars_rank.io.trec import scan_run
from polars_rank.metrics.names import is_metric

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence


Kind: TypeAlias = Literal["parquet", "csv", "tsv", "ndjson", "ipc", "trec"]

#: The file name that means standard input.
STANDARD_INPUT = "-"

_ENDINGS: dict[str, Kind] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    **dict.fromkeys((".arrow", ".arrows", ".feather", ".ipc"), "ipc"),
}
_COMPRESSED = {".gz", ".zst", ".bz2", ".xz"}

#: First bytes of Arrow streams, and of other binary formats.
_ARROW_STREAM = b"\xff\xff\xff\xff"
_MAGIC: dict[bytes, Kind] = {b"PAR1": "parquet", b"ARROW1": "ipc", _ARROW_STREAM: "ipc"}

#: Prefixes of files without data that Spark and other tools write next to the files of a log.
_METADATA_PREFIXES = (
    *("_SUCCESS", "_metadata", "_common_metadata"), *("_committed_", "_started_", "_delta_log"),
)  # fmt: skip

#: Number of bytes from which the format is detected.
_DETECTION_BYTES = 1 << 16


def _csv(files: list[str], ids: Collection[str], separator: str = ",") -> pl.LazyFrame:
    """Scan CSV files; ids are text, and other types are inferred from all rows."""
    files = [plain_text(file) for file in files]
    scan = partial(pl.scan_csv, files, separator=separator, glob=False)
    try:
        names = scan(infer_schema=False).collect_schema().names()
        if any(_NOT_UTF8 in name for name in names):
            _check_fields(files, separator)
        texts = {name: pl.String for name in names if name in ids or name.lower() in RUNS | IDS}
        schema = scan(
            infer_schema_length=None, infer_schema_files=len(files), schema_overrides=texts
        ).collect_schema()
        # With a schema, Polars does not infer types again each time that it reads the files.
        log = scan(infer_schema=False, schema_overrides=schema)
        # Polars reads the missing fields of a short row as nulls, so the last column has nulls.
        last = log.select(pl.last().null_count()).collect(engine="streaming").item()
    except pl.exceptions.PolarsError:
        _check_fields(files, separator)
        raise
    if last:
        _check_fields(files, separator)
    log = held(log, files)
    inferred_text = [
        name for name, dtype in schema.items() if dtype == pl.String and name not in texts
    ]
    if not inferred_text:
        return log
    found = log.select(map(_has_numbers, inferred_text)).collect(engine="streaming")
    return log.cast({name: pl.Float64 for name, is_number in found.row(0, named=True).items()
                     if is_number})  # fmt: skip


def _has_numbers(name: str) -> pl.Expr:
    """Return whether Polars inferred text for a column without values, or of numbers and "nan"."""
    text = pl.col(name)
    number = text.cast(pl.Float64, strict=False)
    has_others = (~number.is_finite()).any()
    return (text.count() == 0) | (has_others & (number.count() == text.count()))


def _check_fields(files: list[str], separator: str) -> None:
    """Raise `SourceError` for a line that is not UTF-8, or a row without the header's fields."""
    import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)
    from pyarrow import csv  # noqa: PLC0415  (as above)

    invalid_rows: list[Any] = []

    def collect(row: Any) -> str:
        invalid_rows.append(row)
        return "skip"

    for file in (file for file in files if "://" not in file):
        check_utf8(file)
        # If the file is not CSV, the caller raises the error of Polars.
        with reading(file) as stream, suppress(pa.ArrowInvalid):
            for _ in csv.open_csv(
                stream,
                csv.ReadOptions(use_threads=False, autogenerate_column_names=True),
                csv.ParseOptions(
                    delimiter=separator, newlines_in_values=True, invalid_row_handler=collect
                ),
                csv.ConvertOptions(
                    check_utf8=False, include_columns=["f0"], column_types={"f0": pa.binary()}
                ),
            ):
                if invalid_rows:
                    break
        if invalid_rows:
            row = invalid_rows[0]
            raise SourceError(
                f"row {row.number} of {origin(file)} has {number_of(row.actual_columns, 'field')}, "
                f"but the header has {row.expected_columns}: {row.text!r}; check that the row is "
                "complete, and that fields with separators are in quotes"
            )


def _ipc(files: list[str]) -> pl.LazyFrame:
    """Scan Arrow files, or read Arrow streams."""
    if all("://" not in file and _begins_with(file, _ARROW_STREAM) for file in files):
        return pl.concat(pl.read_ipc_stream(file).lazy() for file in files)
    return pl.scan_ipc(files, glob=False)


#: Formats → functions that scan files, with the columns of ids.
_SCANS: dict[Kind, Callable[[list[str], Collection[str]], pl.LazyFrame]] = {
    "csv": _csv,
    "tsv": partial(_csv, separator="\t"),
    "ndjson": lambda files, _: scan_ndjson(files, infer_schema_length=None),
    "ipc": lambda files, _: _ipc(files),
    "trec": lambda files, _: scan_run(files),
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
        raise ArgumentError(
            f"--{name.replace('_', '-')} needs Parquet files; found {', '.join(paths)}"
        )
    return _SCANS[kind](text_files(paths), ids)


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
        if not exists and not matches and is_metric(path):
            raise SourceError(
                f"file {path!r} not found; to name several metrics, quote them: "
                f'--metrics "ndcg@10 {path}"'
            )
        files += matches or [path]
    files = [path for path in files if not Path(path).name.startswith(_METADATA_PREFIXES)] or files
    folders = {Path(path) for path in files if "://" not in path and Path(path).is_dir()}
    return [path for path in files if folders.isdisjoint(Path(path).parents)]


def kind_of(paths: Sequence[str]) -> Kind:
    """Return the format of files; raise `ArgumentError` for files of different formats."""
    kinds = {_kind(path) for path in expand(paths)}
    if len(kinds) > 1:
        raise ArgumentError(f"files of different formats: {', '.join(expand(paths))}")
    return kinds.pop() if kinds else "parquet"


def is_pipe(path: str) -> bool:
    """Return whether a path is standard input, or a pipe such as <(...) in a shell."""
    return path == STANDARD_INPUT or inputs.is_pipe(path)


def readable(path: str) -> str:
    """Return a file that can be read several times; pipes and files of web servers are copied."""
    if path != STANDARD_INPUT:
        return inputs.readable(path)
    if sys.stdin is None:
        raise ArgumentError("standard input (-) is closed; pipe a file into the command")
    return inputs.copy_of_pipe(sys.stdin.buffer, "standard-input", "standard input")


def refuse_to_replace(output: Path | None, paths: Iterable[str]) -> None:
    """Raise `SourceError` if the output is an input file, or is in an input directory."""
    if output is None or not output.is_file():
        return
    paths = [path for path in paths if "://" not in path and not is_pipe(path)]
    outputs.refuse_to_replace(output, (file for path in expand(paths) for file in _files_in(path)))


def _files_in(path: str) -> Iterable[Path]:
    """Return the files in a directory; for any other path, return the path itself."""
    return Path(path).rglob("*") if Path(path).is_dir() else [Path(path)]


def _kind(path: str) -> Kind:
    """Return the format of a file, a directory, a pattern or a URL."""
    known = _ENDINGS.get(_ending(path))
    if known is not None:
        return known
    if "://" in path:
        return "parquet"
    if Path(path).is_dir():
        _check_parquet(Path(path))
        return "parquet"
    (first, *_) = text_files(path)
    return _ENDINGS.get(_ending(first)) or _detected(first)


def _check_parquet(folder: Path) -> None:
    """Raise `ArgumentError` for a directory of files in another format than Parquet."""
    endings = {file.suffix.lower() for file in folder.rglob("*") if _ending(str(file)) in _ENDINGS}
    others = sorted(endings - {".parquet"})
    if others and ".parquet" not in endings:
        raise ArgumentError(
            f"no .parquet files in the directory '{folder}'; name its files, e.g. "
            f"'{folder / '*'}{others[0]}'"
        )


def _detected(file: str) -> Kind:
    """Return the format of a file from its first bytes; raise `ArgumentError` if it is unknown."""
    with reading(file) as stream:
        start = stream.read(_DETECTION_BYTES)
    for magic, kind in _MAGIC.items():
        if start.startswith(magic):
            return kind
    text = start.decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
    line = text.partition("\n")[0]
    fields = line.split()
    if line.startswith("{"):
        return "ndjson"
    if len(fields) >= len(_RUN) and _is_number(fields[3]) and _is_number(fields[4]):
        return "trec"
    # The last field of judgments is a number; the last field of a header is not.
    if len(fields) == len(_QRELS) and _is_number(fields[3]):
        advice = "looks like TREC judgments; use --qrels"
    elif line.startswith("["):
        advice = "is a JSON array; write it as NDJSON, with one row per line"
    elif "\t" in line or "," in line:
        return "tsv" if "\t" in line else "csv"
    else:
        advice = "has an unknown format; name it with --input-format"
    raise ArgumentError(f"{origin(file)} {advice}")


#: Polars replaces bytes in names of columns that are not UTF-8 with this character.
_NOT_UTF8 = "\ufffd"

#: Fields of a line in TREC runs and in judgments.
_RUN = ("query", "iteration", "doc", "rank", "score", "run")
_QRELS = ("query", "subtopic", "doc", "label")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _begins_with(file: str, magic: bytes) -> bool:
    with Path(file).open("rb") as stream:
        return stream.read(len(magic)) == magic


def _ending(path: str) -> str:
    name = Path(path)
    return Path(name.stem if name.suffix.lower() in _COMPRESSED else name).suffix.lower()
