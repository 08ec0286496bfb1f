"""Text files: which there are, and their lines, each with its number and its file.

Files are read here and not by Polars, so that what is wrong with one is an error that names it,
and so that a line at fault is known by its number.
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

#: The line, its number from 1, and the file that it stands in.
LINE, NUMBER, PATH = (OWN + name for name in ("line", "number", "path"))

_SCHEMA = pl.Schema({LINE: pl.String(), NUMBER: pl.get_index_type(), PATH: pl.String()})

#: Bytes read at a time: about what the cache of a processor holds.
CHUNK_BYTES = 1 << 20

_BOM = b"\xef\xbb\xbf"  # some editors put it before the first line
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_CORRUPT = (OSError, EOFError, zlib.error, lzma.LZMAError)


def _open_zstd(path: str) -> Any:
    import pyarrow as pa  # noqa: PLC0415  (slow to import, seldom needed)

    return pa.input_stream(path, compression="zstd")


#: What compressed files begin with, whatever they are called.
_OPENERS: dict[bytes, Callable[[str], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
    b"\x28\xb5\x2f\xfd": _open_zstd,
}


def text_files(paths: Paths) -> list[str]:
    """Return the files that paths and patterns stand for, in order.

    Parameters
    ----------
    paths
        A file, a pattern such as "runs/*.txt", a URL, or several. A name that is there is that
        file, also if it looks like a pattern.

    Raises
    ------
    ArgumentError
        If there are no paths.
    SourceError
        If there is no such file, or it is a directory.
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not given:
        message = "`path` must name at least one file; found none"
        raise ArgumentError(message, "path")
    return [file for name in given for file in _matches(str(name))]


def _matches(name: str) -> list[str]:
    if "://" in name:
        return [name]  # on object storage, which Polars looks into
    path = Path(name).expanduser()
    if path.is_dir():
        message = f"{name!r} is a directory; name the files in it, as in {str(path / '*')!r}"
        raise SourceError(message)
    files = [str(path)] if path.exists() else sorted(glob(str(path), recursive=True))  # noqa: PTH207
    if not files:
        beside = [file.name for file in path.parent.iterdir()] if path.parent.is_dir() else []
        message = f"there is no file {name!r}.{hint(path.name, beside)}"
        raise SourceError(message)
    return files


def scan_lines(files: Sequence[str], *, chunk_bytes: int = CHUNK_BYTES) -> pl.LazyFrame:
    """Scan the lines of text files in UTF-8, without reading them yet.

    Parameters
    ----------
    files
        Paths of local files, plain or compressed (gzip, bzip2, xz, zstd), and URLs that Polars
        can read.
    chunk_bytes
        Number of uncompressed bytes of a local file to read at a time.

    Returns
    -------
    LazyFrame
        Columns `LINE`, without what ends it, `NUMBER` and `PATH`; lines in their order.

    Raises
    ------
    SourceError
        When the frame is collected: if a local file cannot be read to its end, or is not text in
        UTF-8. The error names the file, and the line if it is known.
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
        batch_size: int | None,  # noqa: ARG001  (a suggestion)
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
    """Read a file, some lines at a time."""
    count = 0
    for chunk in _chunks(file, chunk_bytes):
        text = _text(chunk, file, count)
        lines = pl.Series(LINE, [text]).str.split("\n").explode(empty_as_null=False)
        frame = lines.to_frame().with_row_index(NUMBER, count + 1)
        yield frame.select(LINE, NUMBER, pl.lit(file).alias(PATH))
        count += frame.height


def _chunks(file: str, chunk_bytes: int) -> Iterator[bytes]:
    """Read the bytes of a file, cut where lines end, without the end of the last of them."""
    held: list[bytes] = []
    with reading(file) as stream:
        while chunk := _some(stream, file, chunk_bytes):
            whole, end, rest = chunk.rpartition(b"\n")
            if end:
                yield b"".join([*held, whole])
                held = []
            held.append(rest)
    if any(held):
        yield b"".join(held)


def reading(file: str) -> IO[bytes]:
    """Open a local file, plain or compressed, for the bytes that were compressed."""
    try:
        with Path(file).open("rb") as plain:
            start = plain.read(8)
        if start.startswith(_UTF_16):
            message = f"{file} is text in UTF-16; save it as UTF-8"
            raise SourceError(message)
        opener = next((own for magic, own in _OPENERS.items() if start.startswith(magic)), None)
        stream: IO[bytes] = Path(file).open("rb") if opener is None else opener(file)  # noqa: SIM115
    except OSError as error:
        raise _unreadable(file, error) from error
    return stream


def _some(stream: IO[bytes], file: str, size: int) -> bytes:
    try:
        return stream.read(size)
    except _CORRUPT as error:
        raise _unreadable(file, error) from error


def _unreadable(file: str, error: Exception) -> SourceError:
    return SourceError(f"{file} cannot be read to its end: {error}; is it whole?")


def _text(chunk: bytes, file: str, before: int) -> str:
    """Return some lines as text; `before` says how many come before them."""
    chunk = chunk.removeprefix(_BOM) if before == 0 else chunk
    at, problem = chunk.find(b"\0"), "a zero byte, which is in no text"
    if at < 0:
        try:
            return chunk.decode().replace("\r\n", "\n").removesuffix("\r")
        except UnicodeDecodeError as error:
            at, problem = error.start, f"the byte 0x{chunk[error.start]:02x}, which is not UTF-8"
    line = before + 1 + chunk.count(b"\n", 0, at)
    message = f"line {line} of {file} holds {problem}; save the file as text in UTF-8"
    raise SourceError(message)
