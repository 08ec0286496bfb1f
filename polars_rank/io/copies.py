"""Temporary copies of inputs that Polars cannot read as they are."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import IO, TYPE_CHECKING

from polars_rank.io.temporary import discard, new_folder, written_to

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

#: Bytes that are read at a time.
_CHUNK_BYTES = 1 << 20

#: Number of files in messages.
_SHOWN = 5


class Copy(str):
    """Path of a temporary copy, which is removed when nothing refers to this object any more."""

    __slots__ = ("__weakref__", "origin")

    #: The path, the URL, or "standard input" that the file is a copy of.
    origin: str

    @classmethod
    def of(cls, chunks: Iterable[bytes], name: str, origin: str) -> Copy:
        """Return a file of this name with these bytes."""
        folder = new_folder()
        copy = cls(folder / name)
        copy.origin = origin
        weakref.finalize(copy, discard, folder)
        with written_to(folder), Path(copy).open("wb") as file:
            file.writelines(chunks)
        return copy


def chunks_of(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the rest of a stream."""
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk


def origin(file: str) -> str:
    """Return the name of a file for messages: that of the input if it is a copy."""
    return file.origin if isinstance(file, Copy) else file


def first_names(files: Sequence[str]) -> list[str]:
    """Return the names of the first files for messages, and the number of others."""
    first, others = files[:_SHOWN], files[_SHOWN:]
    return [*map(origin, first), *([f"{len(others):,} others"] if others else [])]


def held(plan: pl.LazyFrame, files: Sequence[str]) -> pl.LazyFrame:
    """Return a plan that keeps the copies among its files; Polars itself only knows their names."""
    copies = [file for file in files if isinstance(file, Copy)]
    if not copies:
        return plan

    def unchanged(rows: pl.DataFrame, _: list[Copy] = copies) -> pl.DataFrame:
        return rows

    return plan.map_batches(unchanged, streamable=True)
