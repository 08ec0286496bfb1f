"""Text files: lines with their numbers, which errors name, and tables in CSV and JSON lines."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import zlib
from contextlib import contextmanager, suppress
from functools import partial
from glob import escape, glob
from os import PathLike
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import scan_of_files
from polars_rank.columns import IDS, RUNS
from polars_rank.errors import RankError, SourceError, hint, number_of, short
from polars_rank.frames.batches import reading_of
from polars_rank.frames.stores import store_error
from polars_rank.io.inputs import Copy, held, origin, readable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Paths: TypeAlias = "str | PathLike[str] | Sequence[str | PathLike[str]]"

#: Columns of the line, its number from 1, and its file.
LINE, NUMBER, PATH = (OWN + name for name in ("line", "number", "path"))

_SCHEMA = pl.Schema({LINE: pl.String(), NUMBER: pl.get_index_type(), PATH: pl.String()})

#: Number of bytes to read at a time, about the size of a CPU cache.
CHUNK_BYTES = 1 << 20

#: First bytes of Arrow streams.
ARROW_STREAM = b"\xff\xff\xff\xff"
#: Polars replaces bytes in names of columns that are not UTF-8 with this character.
_NOT_UTF8 = "\ufffd"

_BOM = "\ufeff"  # byte order mark, which some editors write before the first line
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_CORRUPT = (OSError, EOFError, zlib.error, lzma.LZMAError)

#: Number of fields of a line of a run before the tag.
_BEFORE_TAG = 5

#: First bytes of files that Polars cannot decompress: bzip2 and xz.
_UNKNOWN_TO_POLARS = (b"BZh", b"\xfd7zXZ\x00")


def _open_zstd(file: IO[bytes]) -> Any:
    import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)

    return pa.input_stream(file, compression="zstd")


#: Functions that decompress files, by their first bytes.
_OPENERS: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _open_zstd,
}


def text_files(name: str) -> list[str]:
    """Return the files of a path, which may be a pattern such as "runs/*.txt", or a URL.

    A path that exists is never a pattern.

    Raises
    ------
    ArgumentError
        If the path is empty.
    SourceError
        If a file does not exist or is a directory.
    """
    name = readable(name)
    if isinstance(name, Copy) or "://" in name:
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
    return [readable(file) for file in files]


def scan_lines(file: str) -> pl.LazyFrame:
    """Return a LazyFrame of the lines of a text file in UTF-8.

    Lines end with LF, CRLF, or CR.

    Parameters
    ----------
    file
        A local file, which may be compressed (gzip, bzip2, xz, zstd), or a URL of an object store,
        which may have patterns.

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
    counts: dict[str, int] = {}  # lines by file
    for path, text in _texts(file):
        before = counts.get(path, 0)
        start = text if before else text.removeprefix(_BOM)
        lines = pl.Series(LINE, [start]).str.split("\n").explode(empty_as_null=False)
        frame = lines.to_frame().with_row_index(NUMBER, before + 1)
        yield frame.select(LINE, NUMBER, pl.lit(path).alias(PATH))
        counts[path] = before + frame.height


def numbered_lines(file: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file with their numbers from 1."""
    number = 0
    for _, text in _texts(file):
        for line in (text if number else text.removeprefix(_BOM)).split("\n"):
            yield (number := number + 1), line


def tagged(file: str) -> str | None:
    """Return the text after the fifth field of the first line of a file if all lines end with it.

    Only the bytes are compared, so that this takes little time.
    """
    end = tag = b""
    with suppress(RankError, UnicodeDecodeError):  # reading the lines raises the error
        for chunk in _chunks(file) if "://" not in file else ():
            if not end:
                fields = chunk.partition(b"\n")[0].removeprefix(_BOM.encode()).split()
                tag = b" ".join(fields[_BEFORE_TAG:])
                end = chunk.partition(b"\n")[0][-len(tag) - 1 :]
                if not tag or end[1:] != tag:
                    return None
            if not chunk.endswith(end) or chunk.count(end + b"\n") != chunk.count(b"\n"):
                return None
        return tag.decode() or None
    return None


def _stored_texts(url: str) -> Iterator[tuple[str, str]]:
    """Yield the lines of objects with their URLs, joined by line breaks."""
    plan = pl.scan_lines(url, name=LINE, include_file_paths=PATH)
    try:
        for batch in plan.collect_batches(maintain_order=True, engine="streaming"):
            for (path,), rows in batch.group_by(PATH, maintain_order=True):
                text: str = rows.get_column(LINE).str.join("\n").item()
                yield str(path), text.replace("\r", "\n")
    except (OSError, pl.exceptions.PolarsError) as error:
        raise store_error(error, [url]) or _unreadable(url, error) from error


def _texts(file: str) -> Iterator[tuple[str, str]]:
    """Yield lines with their files, in chunks without the last line break."""
    if "://" in file:
        yield from _stored_texts(file)
        return
    before = 0
    for chunk in _chunks(file):
        yield origin(file), _text(chunk, file, before)
        before += chunk.count(b"\n") + 1


def _chunks(file: str) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks of complete lines, which end with LF, except the last."""
    incomplete: list[bytes] = []  # the start of a line whose end is in the next chunk
    with reading(file) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            while chunk.endswith(b"\r") and (following := stream.read(1)):
                chunk += following  # may complete CRLF
            if b"\r" in chunk:
                chunk = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
            lines, end, rest = chunk.rpartition(b"\n")
            if end:
                yield b"".join([*incomplete, lines])
                incomplete = []
            incomplete.append(rest)
    if any(incomplete):
        yield b"".join(incomplete)


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
            if start.startswith(_UTF_16):
                raise SourceError(f"{origin(file)} is in UTF-16; save it as UTF-8")
            plain.seek(0)
            opener = next((own for magic, own in _OPENERS.items() if start.startswith(magic)), None)
            if opener is None:
                yield plain
            else:
                with opener(plain) as stream:
                    yield stream
    except _CORRUPT as error:
        raise _unreadable(file, error) from error


def _plain_text(file: str) -> str:
    """Return a text file that Polars can read.

    If the file is compressed with bzip2 or xz, or if its lines end with CR, the result is a copy.
    """
    if "://" in file:
        return file
    with reading(file) as stream:
        end = re.search(rb"\r\n?|\n", stream.read(CHUNK_BYTES))
    with Path(file).open("rb") as packed:
        known = not packed.read(8).startswith(_UNKNOWN_TO_POLARS)
    if known and (end is None or end[0] != b"\r"):
        return file
    lines = (chunk + b"\n" for chunk in _chunks(file))
    return Copy.of(lines, Path(file).name, origin(file))


def scan_ndjson(files: Sequence[str], **options: Any) -> pl.LazyFrame:
    """Scan NDJSON files with any compression; `files` are names, not patterns."""
    plain = [_plain_text(file) for file in files]
    # Unlike other functions, Polars' function expands patterns in all names.
    names = [file if "://" in file else escape(file) for file in plain]
    return held(pl.scan_ndjson(names, **options), plain)


def _unreadable(file: str, error: Exception) -> SourceError:
    return SourceError(f"cannot read {origin(file)}: {error}; check that the file is complete")


def _text(chunk: bytes, file: str, before: int) -> str:
    """Return lines as text; `before` is the number of lines before them in the file."""
    at, problem = chunk.find(b"\0"), "a zero byte, so it is not text"
    if at < 0:
        try:
            return chunk.decode()
        except UnicodeDecodeError as error:
            at, problem = error.start, f"the byte 0x{chunk[error.start]:02x}, so it is not UTF-8"
    line = before + 1 + chunk.count(b"\n", 0, at)
    raise SourceError(
        f"line {line} of {origin(file)} has {problem}; save the file as text in UTF-8"
    )


def scan_csv(
    files: list[str], is_id: Callable[[str], bool], separator: str = ",", *, alone: bool = False
) -> pl.LazyFrame:
    """Scan CSV files; ids are text, and other types are inferred from all rows.

    `alone` says whether a row may have only its first field.
    """
    files = [_plain_text(file) for file in files]
    scan = partial(pl.scan_csv, files, separator=separator, glob=False)
    try:
        names = scan(infer_schema=False).collect_schema().names()
        if any(_NOT_UTF8 in name for name in names):
            _check_fields(files, separator, alone=alone)
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
        _check_fields(files, separator, alone=alone)
        raise _invalid_csv(files, separator, error) from error
    if nulls.item(0, -1):
        _check_fields(files, separator, alone=alone)
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


def _check_fields(files: list[str], separator: str, *, alone: bool) -> None:
    """Raise `SourceError` for a line that is not UTF-8, or a row without the header's fields."""
    import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)
    from pyarrow import csv  # noqa: PLC0415  (as above)

    invalid_rows: list[Any] = []

    def collect(row: Any) -> str:
        if not (alone and row.actual_columns == 1):
            invalid_rows.append(row)
        return "skip"

    for file in (file for file in files if "://" not in file):
        for _ in _texts(file):  # not UTF-8
            pass
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


def _invalid_csv(files: list[str], separator: str, error: Exception) -> SourceError:
    """Return the error for text files that are not CSV, with a line that has a stray quote."""
    problem, _, _ = str(error).partition("\n")
    stray = re.compile(rf'[^{separator}"]"[^{separator}"]|"[^{separator}"]*$')
    for file in files:
        for number, line in numbered_lines(file) if "://" not in file else ():
            if line.count('"') % 2 or stray.search(line):
                return SourceError(
                    f"cannot read {origin(file)} as CSV: line {number} has a stray quote: "
                    f"{short(line)}; put fields with quotes in quotes, and double these"
                )
    return SourceError(f"cannot read {', '.join(map(origin, files))} as CSV: {problem}")


def scan_ipc(files: list[str]) -> pl.LazyFrame:
    """Scan Arrow files, or read Arrow streams."""
    starts = set()
    for file in (file for file in files if "://" not in file):
        with reading(file) as stream:
            starts.add(stream.read(len(ARROW_STREAM)))
    if starts == {ARROW_STREAM}:
        return pl.concat(pl.read_ipc_stream(file).lazy() for file in files)
    return pl.scan_ipc(files, glob=False)
