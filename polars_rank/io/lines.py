"""Lines of text files, with their numbers and files.

This module reads the files instead of Polars, so that errors name the file and the line.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from glob import glob
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank._params import OWN
from polars_rank.errors import ArgumentError, SourceError, hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

Paths: TypeAlias = "str | Path | Sequence[str | Path]"

#: Columns of the line, its number from 1, and its file.
LINE, NUMBER, PATH = (OWN + name for name in ("line", "number", "path"))

_SCHEMA = pl.Schema({LINE: pl.String(), NUMBER: pl.get_index_type(), PATH: pl.String()})

#: Bytes read at a time, about the size of a processor's cache.
CHUNK_BYTES = 1 << 20

_BOM = b"\xef\xbb\xbf"  # some editors write it before the first line
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_CORRUPT = (OSError, EOFError, zlib.error, lzma.LZMAError)


def _open_zstd(path: str) -> Any:
    import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)

    return pa.input_stream(path, compression="zstd")


#: Functions that open compressed files, by their first bytes.
_OPENERS: dict[bytes, Callable[[str], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _open_zstd,
}


def text_files(paths: Paths) -> list[str]:
    """Return the files of paths and patterns, in order.

    Parameters
    ----------
    paths
        A file, a pattern such as "runs/*.txt", a URL, or several of them. A path that exists is
        never a pattern.

    Raises
    ------
    ArgumentError
        If `paths` is empty.
    SourceError
        If a file does not exist or is a directory.
    """
    names = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not names:
        message = "`path` is empty; name at least one file"
        raise ArgumentError(message, "path")
    return [file for name in names for file in _matches(str(name))]


def _matches(name: str) -> list[str]:
    if "://" in name:
        return [name]  # in an object store, where Polars expands patterns
    path = Path(name).expanduser()
    if path.is_dir():
        message = f"{name!r} is a directory; name its files, for example {str(path / '*')!r}"
        raise SourceError(message)
    files = [str(path)] if path.exists() else sorted(glob(str(path), recursive=True))  # noqa: PTH207
    if not files:
        siblings = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        message = f"file {name!r} not found.{hint(path.name, siblings)}"
        raise SourceError(message)
    return files


def scan_lines(files: Sequence[str], *, chunk_bytes: int = CHUNK_BYTES) -> pl.LazyFrame:
    """Return a LazyFrame of the lines of text files in UTF-8.

    Parameters
    ----------
    files
        Local files, which may be compressed (gzip, bzip2, xz, zstd), and URLs.
    chunk_bytes
        Number of uncompressed bytes of a local file to read at a time.

    Returns
    -------
    LazyFrame
        Columns `LINE` (without the line break), `NUMBER`, and `PATH`, in order.

    Raises
    ------
    SourceError
        When the LazyFrame is collected, if a local file is damaged or not UTF-8. The message has
        the file, and the number of the line if it is known.
    """
    local = [file for file in files if "://" not in file]
    if len(local) == len(files):
        return _scan_local(local, chunk_bytes)
    return pl.concat(
        _scan_remote(file) if "://" in file else _scan_local([file], chunk_bytes) for file in files
    )


def _scan_remote(url: str) -> pl.LazyFrame:
    lines = pl.scan_lines(
        url, name=LINE, row_index_name=NUMBER, row_index_offset=1, include_file_paths=PATH
    )
    return lines.select(pl.col(LINE).str.strip_prefix(_BOM.decode()), NUMBER, PATH)


def _scan_local(files: Sequence[str], chunk_bytes: int) -> pl.LazyFrame:
    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001  (only a suggestion)
    ) -> Iterator[pl.DataFrame]:
        for lines in (lines for file in files for lines in _lines(file, chunk_bytes)):
            rows = lines if predicate is None else lines.filter(predicate)
            if n_rows is not None:
                rows = rows.head(n_rows)
                n_rows -= rows.height
            yield rows if with_columns is None else rows.select(with_columns)
            if n_rows == 0:
                return

    return register_io_source(read, schema=_SCHEMA, explain_name="LINES")


def _lines(file: str, chunk_bytes: int) -> Iterator[pl.DataFrame]:
    """Yield the lines of a file in batches."""
    count = 0
    for chunk in _chunks(file, chunk_bytes):
        text = _text(chunk, file, count)
        lines = pl.Series(LINE, [text]).str.split("\n").explode(empty_as_null=False)
        frame = lines.to_frame().with_row_index(NUMBER, count + 1)
        yield frame.select(LINE, NUMBER, pl.lit(file).alias(PATH))
        count += frame.height


def _chunks(file: str, chunk_bytes: int) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks of complete lines, without the last line break."""
    incomplete: list[bytes] = []  # the start of a line whose end is in the next chunk
    with reading(file) as stream:
        while chunk := _read(stream, file, chunk_bytes):
            lines, end, rest = chunk.rpartition(b"\n")
            if end:
                yield b"".join([*incomplete, lines])
                incomplete = []
            incomplete.append(rest)
    if any(incomplete):
        yield b"".join(incomplete)


def reading(file: str) -> IO[bytes]:
    """Return a stream of the uncompressed bytes of a local file."""
    try:
        with Path(file).open("rb") as plain:
            start = plain.read(8)
        if start.startswith(_UTF_16):
            message = f"{file} is in UTF-16; save it as UTF-8"
            raise SourceError(message)
        opener = next((own for magic, own in _OPENERS.items() if start.startswith(magic)), None)
        stream: IO[bytes] = Path(file).open("rb") if opener is None else opener(file)  # noqa: SIM115
    except OSError as error:
        raise _unreadable(file, error) from error
    return stream


def _read(stream: IO[bytes], file: str, size: int) -> bytes:
    try:
        return stream.read(size)
    except _CORRUPT as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: Exception) -> SourceError:
    return SourceError(f"cannot read {file}: {error}; check that the file is complete")


def _text(chunk: bytes, file: str, before: int) -> str:
    """Return lines as text; `before` is the number of lines before them."""
    chunk = chunk.removeprefix(_BOM) if before == 0 else chunk
    at, problem = chunk.find(b"\0"), "a zero byte, so it is not text"
    if at < 0:
        try:
            return chunk.decode().replace("\r\n", "\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            at, problem = error.start, f"the byte 0x{chunk[error.start]:02x}, so it is not UTF-8"
    line = before + 1 + chunk.count(b"\n", 0, at)
    message = f"line {line} of {file} has {problem}; save the file as text in UTF-8"
    raise SourceError(message)
