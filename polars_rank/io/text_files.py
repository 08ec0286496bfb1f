"""Text files: lines with their numbers, which errors name, and tables in CSV and JSON lines."""

from __future__ import annotations

import csv
import gzip
import zlib
from contextlib import contextmanager, suppress
from functools import partial
from glob import glob
from io import TextIOWrapper
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import scan_of_files
from polars_rank.columns import IDS, RUNS
from polars_rank.errors import SourceError, hint, number_of
from polars_rank.frames.batches import reading_of
from polars_rank.frames.stores import store_error
from polars_rank.io.files import origin, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Paths: TypeAlias = "str | PathLike[str] | Sequence[str | PathLike[str]]"

#: Columns of the line, its number from 1, and its file.
LINE, NUMBER, PATH = (OWN + name for name in ("line", "number", "path"))

_SCHEMA = pl.Schema({LINE: pl.String(), NUMBER: pl.get_index_type(), PATH: pl.String()})

#: Polars replaces bytes in names of columns that are not UTF-8 with this character.
_NOT_UTF8 = "\ufffd"

_BOM = "\ufeff"  # byte order mark, which some editors write before the first line
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
#: Files that are not read, by their first bytes.
_REFUSED = {
    b"\xff\xff\xff\xff": "is an Arrow stream; write an Arrow file or Parquet",
    b"\xff\xfe": "is in UTF-16; save it as UTF-8",
    b"\xfe\xff": "is in UTF-16; save it as UTF-8",
    b"BZh": "is compressed with bzip2; decompress it first, or compress it with gzip",
    b"\xfd7zXZ\x00": "is compressed with xz; decompress it first, or compress it with gzip",
}
#: Characters that lines do not contain, and what to do.
_NO_TEXT = {
    "\0": "a zero byte, so it is not text; save the file as text in UTF-8",
    "\r": "a carriage return; end lines with LF or CRLF",
}


def text_files(name: str) -> list[str]:
    """Return the files of a path, which may be a pattern such as "runs/*.txt", or a URL.

    A path that exists is never a pattern.

    Raises
    ------
    ArgumentError
        If the path is empty.
    SourceError
        If a file does not exist, is a directory, or has a format that is not read.
    """
    name = readable(name)
    if "://" in name:
        return [name]  # in an object store, Polars expands patterns
    path = Path(name)
    if path.is_dir():
        raise SourceError(
            f"{name!r} is a directory; name its files, for example {str(path / '*')!r}"
        )
    files = [str(path)] if path.exists() else sorted(glob(str(path), recursive=True))  # noqa: PTH207
    if not files:
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        raise SourceError(f"file {name!r} not found.{hint(path.name, siblings)}")
    for file in (file for file in files if Path(file).is_file()):
        with reading(file):  # refuses some formats
            pass
    return [readable(file) for file in files]


def scan_lines(file: str) -> pl.LazyFrame:
    """Return a LazyFrame of the lines of a text file in UTF-8.

    Lines end with LF or CRLF.

    Parameters
    ----------
    file
        A local file, which may be compressed (gzip, zstd), or a URL of an object store, which may
        have patterns.

    Returns
    -------
    LazyFrame
        Columns `LINE` (without the line break), `NUMBER`, and `PATH`, in order.

    Raises
    ------
    SourceError
        When the LazyFrame is collected, if a file is damaged or not UTF-8. The message has the
        file, and the number of the line if it is known.
    """
    lines = reading_of(partial(_lines, file))
    return scan_of_files(lines, [file], schema=_SCHEMA, explain_name="LINES")


def _lines(file: str) -> Iterator[pl.DataFrame]:
    """Yield the lines of a file, or of the files of a pattern in an object store, in batches."""
    if "://" not in file:
        with reading(file):  # refuses UTF-16, which Polars may read as UTF-8 with zero bytes
            pass
    counts: dict[str, int] = {}  # lines by file
    plan = pl.scan_lines(file, name=LINE, include_file_paths=PATH, glob="://" in file)
    try:
        for batch in plan.collect_batches(maintain_order=True, engine="streaming"):
            for lines in batch.partition_by(PATH, maintain_order=True):
                path = origin(lines.item(0, PATH))
                before = counts.get(path, 0)
                counts[path] = before + lines.height
                text = lines.select(pl.col(LINE).str.strip_prefix(_BOM))
                rows = text.with_row_index(NUMBER, before + 1)
                rows = rows.select(LINE, NUMBER, pl.lit(path).alias(PATH))
                invalid = rows.filter(pl.col(LINE).str.contains("[\0\r]"))
                for line, number, _ in invalid.head(1).iter_rows():
                    problem = next(each for char, each in _NO_TEXT.items() if char in line)
                    raise SourceError(f"line {number} of {path} has {problem}")
                yield rows
    except (OSError, pl.exceptions.PolarsError) as error:
        raise store_error(error, [file]) or _unreadable(file, error) from error


def numbered_lines(file: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers from 1."""
    for lines in _lines(file):
        yield from zip(lines[NUMBER], lines[LINE], strict=True)


@contextmanager
def reading(file: str) -> Iterator[IO[bytes]]:
    """Open a stream of the uncompressed bytes of a local file.

    Raises
    ------
    SourceError
        If the file cannot be read, when it is opened or in the block.
    """
    try:
        with Path(file).open("rb") as plain:
            start = plain.read(8)
            for magic, problem in _REFUSED.items():
                if start.startswith(magic):
                    raise SourceError(f"{origin(file)} {problem}")
            plain.seek(0)
            stream: Any = plain
            if start.startswith(_GZIP):
                stream = gzip.GzipFile(fileobj=plain)
            elif start.startswith(_ZSTD):
                import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)

                stream = pa.input_stream(plain, compression="zstd")
            yield stream
    except (OSError, EOFError, zlib.error) as error:
        raise _damaged(file, error) from error


def _damaged(file: str, error: Exception) -> SourceError:
    return SourceError(f"cannot read {origin(file)}: {error}; check that the file is complete")


def _unreadable(file: str, error: Exception) -> SourceError:
    """Return the error for a text file that Polars cannot read, with a line that is not UTF-8."""
    if "://" not in file:
        with reading(file) as stream:
            for number, line in enumerate(stream, 1):
                try:
                    line.decode()
                except UnicodeDecodeError as invalid:
                    byte = f"0x{line[invalid.start]:02x}"
                    return SourceError(
                        f"line {number} of {origin(file)} has the byte {byte}, so it is not UTF-8; "
                        "save the file as text in UTF-8"
                    )
    return _damaged(file, error)


def scan_csv(
    files: list[str], is_id: Callable[[str], bool], separator: str = ",", *, alone: bool = False
) -> pl.LazyFrame:
    """Scan CSV files; ids are text, and other types are inferred from all rows.

    Separators are semicolons if the header has no comma. `alone` says whether a row may have only
    its first field.
    """
    scan = partial(pl.scan_csv, files, separator=separator, glob=False)
    try:
        names = scan(infer_schema=False).collect_schema().names()
        if separator == "," and len(names) == 1 and ";" in names[0]:
            return scan_csv(files, is_id, ";", alone=alone)
        if any(_NOT_UTF8 in name or "\r" in name for name in names):
            _check_lines(files)
        texts = {name: pl.String for name in names if is_id(name) or name.lower() in RUNS | IDS}
        schema = scan(
            infer_schema_length=None, infer_schema_files=len(files), schema_overrides=texts
        ).collect_schema()
        # With a schema, Polars does not infer types again each time that it reads the files.
        log = scan(infer_schema=False, schema_overrides=schema)
        # Polars reads the missing fields of a short row as nulls, so the last column has nulls.
        # All columns are read, because rows with too many fields are errors only then.
        nulls = log.select(pl.all().null_count()).collect(engine="streaming")
    except pl.exceptions.PolarsError as error:
        _check_lines(files)
        _check_fields(files, separator, alone=alone)
        names_of_files, problem = ", ".join(map(origin, files)), str(error).partition("\n")[0]
        raise SourceError(f"cannot read {names_of_files} as CSV: {problem}") from error
    if nulls.item(0, -1):
        _check_fields(files, separator, alone=alone)
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


def _check_lines(files: list[str]) -> None:
    """Raise `SourceError` for a line that is not UTF-8, or has a carriage return."""
    for file in (file for file in files if "://" not in file):
        for _ in _lines(file):
            pass


def _check_fields(files: list[str], separator: str, *, alone: bool) -> None:
    """Raise `SourceError` for a row without the header's fields."""
    unquoted = pl.col(LINE).str.replace_all('"[^"]*"', "")
    number = unquoted.str.count_matches(separator, literal=True)
    is_open = unquoted.str.contains('"', literal=True)  # a field with several lines
    for file in (file for file in files if "://" not in file):
        lines = pl.scan_lines(file, name=LINE, glob=False)
        differ = ((number != number.first()) | is_open).any()
        if not lines.select(differ).collect(engine="streaming").item():
            continue
        # If the file is not CSV, the caller raises the error of Polars.
        with reading(file) as stream, suppress(csv.Error):
            rows = csv.reader(TextIOWrapper(stream, "utf-8-sig", newline=""), delimiter=separator)
            expected = 0
            for place, row in enumerate(rows, 1):
                expected = expected or len(row)
                if len(row) not in (expected, 0) and not (alone and len(row) == 1):
                    raise SourceError(
                        f"row {place} of {origin(file)} has {number_of(len(row), 'field')}, but "
                        f"the header has {expected}: {separator.join(row)!r}; check that the row "
                        "is complete, and that fields with separators are in quotes"
                    )
