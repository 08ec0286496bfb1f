"""Lines of text files, plain and compressed."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import polars as pl
import pyarrow as pa
import pytest
from rows import check_each

from polars_rank.errors import SourceError

# All readers of text files use it.
from polars_rank.io.text_files import LINE, NUMBER, PATH, scan_lines

Engine = Literal["in-memory", "streaming"]
ENGINES: tuple[Engine, ...] = ("in-memory", "streaming")

LINES = [f"{i // 10} doc{i * 7919 % 100_003} caf\u00e9" for i in range(400)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()


def zstd(text: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as packed:
        packed.write(text)
    return sink.getvalue().to_pybytes()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "gzip in pieces": lambda text: gzip.compress(text[:5000]) + gzip.compress(text[5000:]),
    "zstd": zstd,
    "\\r\\n": lambda text: text.replace(b"\n", b"\r\n"),
    "no last end": lambda text: text[:-1],
    "byte order mark": lambda text: b"\xef\xbb\xbf" + text,
}


@pytest.mark.parametrize(
    ("packer", "engine"),
    [("plain", "in-memory"), *((packer, "streaming") for packer in PACKERS)],
)
def test_long_files_however_packed(tmp_path: Path, packer: str, engine: Engine) -> None:
    files = [str(tmp_path / name) for name in "ab"]
    for file in files:
        Path(file).write_bytes(PACKERS[packer](TEXT))
    lines = pl.concat(map(scan_lines, files))
    rows = [(line, number, file) for file in files for number, line in enumerate(LINES, 1)]
    assert lines.collect(engine=engine).rows() == rows
    assert lines.head(3).collect(engine=engine).rows() == rows[:3]
    assert lines.head(450).select(NUMBER).collect(engine=engine).to_series().to_list() == [
        number for _, number, _ in rows[:450]
    ]
    some = lines.filter(pl.col(LINE).str.starts_with("7 ")).select(NUMBER, PATH)
    assert some.collect(engine=engine).rows() == [
        (number, file) for line, number, file in rows if line.startswith("7 ")
    ]


#: What breaks a file, and what the error says.
BROKEN: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "latin-1": (lambda text: text.replace(LINES[396].encode(), LINES[396].encode("latin-1")),
                "line 397 of FILE has the byte 0xe9"),
    "UTF-16": (lambda text: text.decode().encode("utf-16"), "FILE is in UTF-16"),
    "UTF-16, unmarked": (lambda text: text.decode().encode("utf-16-le"),
                         "line 1 of FILE has (the byte 0xe9, so it is not UTF-8|a zero byte)"),
    "carriage returns": (lambda text: text.replace(b"\n", b"\r"),
                         "line 1 of FILE has a carriage return"),
    "a carriage return": (lambda text: text.replace(b"\n", b"\r", 9).replace(b"\r", b"\n", 8),
                          "line 9 of FILE has a carriage return; end lines with LF or CRLF"),
    "half a gzip": (lambda text: gzip.compress(text)[:-1000],
                    "cannot read FILE: .*; check that the file is complete"),
    "gzip less 3 bytes": (lambda text: gzip.compress(text)[:-3], "cannot read FILE"),
    "half a zstd": (lambda text: zstd(text)[:-1000], "cannot read FILE"),
    "corrupt gzip": (lambda text: gzip.compress(text)[:15] + b"\xff" * 20, "cannot read FILE"),
}  # fmt: skip


def test_files_that_are_not_whole_or_no_text(tmp_path: Path) -> None:
    def check(broken: str, breaks: Callable[[bytes], bytes], message: str) -> None:
        file = tmp_path / broken.replace(" ", "")
        file.write_bytes(breaks(TEXT))
        for engine in ENGINES:
            with pytest.raises(SourceError, match=message.replace("FILE", re.escape(str(file)))):
                scan_lines(str(file)).collect(engine=engine)

    check_each(check, [(broken, *row) for broken, row in BROKEN.items()])
