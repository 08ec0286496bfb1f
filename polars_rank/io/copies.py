"""Temporary copies of inputs, and links to inputs, that Polars cannot read as they are."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING

from polars_rank.io.temporary import discard, new_folder, written_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

#: Number of bytes to read at a time.
_CHUNK_BYTES = 1 << 20

#: Maximum number of files in messages.
_MAX_NAMES = 5


class Copy(str):
    """Path of a temporary copy, which is removed when the last reference to this object goes."""

    __slots__ = ("__weakref__", "origin")

    #: The copied input: a path, a URL, or "standard input".
    origin: str

    @classmethod
    def of(cls, chunks: Iterable[bytes], name: str, origin: str) -> Copy:
        """Return a file with a name and its content."""
        folder = new_folder()
        copy = cls(folder / name)
        copy.origin = origin
        weakref.finalize(copy, discard, folder)
        with written_to(folder), Path(copy).open("wb") as file:
            file.writelines(chunks)
        return copy

    @classmethod
    def link(cls, path: str) -> Copy:
        """Return a link to a file or directory whose name is not UTF-8, as Polars needs it."""
        folder = new_folder()
        suffix = Path(path).suffix
        link = cls(folder / f"input{suffix if is_utf8(suffix) else ''}")
        link.origin = os.fsencode(path).decode(errors="replace")
        weakref.finalize(link, discard, folder)
        Path(link).symlink_to(Path(path).absolute())
        return link


def is_utf8(name: str) -> bool:
    """Return whether the bytes of a name are UTF-8; Python has surrogates for other bytes."""
    return not any("\ud800" <= each <= "\udfff" for each in name)


def chunks_of(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a stream in chunks."""
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk


def origin(file: str) -> str:
    """Return the name of a file for messages; for copies the name of the input."""
    return file.origin if isinstance(file, Copy) else file


def first_names(files: Sequence[str]) -> list[str]:
    """Return the names of the first files for messages, and the number of others."""
    first, others = files[:_MAX_NAMES], files[_MAX_NAMES:]
    return [*map(origin, first), *([f"{len(others):,} others"] if others else [])]


def held(plan: pl.LazyFrame, files: Sequence[str]) -> pl.LazyFrame:
    """Return a plan that refers to the copies among its files, so that they are not removed."""
    copies = [file for file in files if isinstance(file, Copy)]
    if not copies:
        return plan

    def unchanged(rows: pl.DataFrame, _: list[Copy] = copies) -> pl.DataFrame:
        return rows

    return plan.map_batches(unchanged, streamable=True)
