"""A log in Parquet files that is read whole, as it was when it was scanned, or not at all."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl
import polars.selectors as cs

from polars_rank.errors import SourceError
from polars_rank.frames.pieces import NUMBERED
from polars_rank.frames.stores import scan_store, store_error
from polars_rank.io.files import DAMAGE, Files, damaged, find_files, scan_files

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

#: Size in bytes and time of the last change in nanoseconds; None of a URL.
_Stamp: TypeAlias = "tuple[int, int] | None"

#: How many files a plan names.
_SHOWN = 5

#: These options of `scan_parquet` are about the log as a whole, not about one of its files.
_OF_THE_WHOLE = {
    *("n_rows", "row_index_name", "row_index_offset", "include_file_paths"),
    *("hive_partitioning", "hive_schema", "try_parse_hive_dates", "glob"),
}


@dataclass(frozen=True)
class Source:
    """Parquet files, and what reading them must find again."""

    log: pl.LazyFrame
    schema: pl.Schema
    rows: int
    files: _Known

    def __str__(self) -> str:
        """Return the names of the files, as plans show them; of many, the first."""
        first, others = self.files.found.names[:_SHOWN], self.files.found.names[_SHOWN:]
        return ", ".join([*first, *([f"{len(others):,} others"] if others else [])])

    @classmethod
    def scan(cls, paths: Iterable[str | os.PathLike[str]], options: dict[str, Any]) -> Source:
        """Find the files; read their schemas and how many rows they say that they have."""
        files = _Known.of(find_files(paths), options)
        with files.unchanged():
            log = scan_files(files.found, options)
            # Numbers of lists that were written with a log say nothing of it any more.
            stale = [name for name, dtype in log.collect_schema().items() if dtype == NUMBERED]
            log = log.drop(stale) if stale else log
            return cls(log, log.collect_schema(), _count(log), files)

    def batches(
        self, plan: pl.LazyFrame, size: int, rows: int | None = None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows of a plan over the log, in order.

        Parameters
        ----------
        plan
            Made of `log`.
        size
            Rows of a batch, about.
        rows
            How many there must be: those of the log, if nothing else is said.

        Yields
        ------
        DataFrame
            The rows.

        Raises
        ------
        SourceError
            For a file that is damaged or has changed, if all batches are taken.
        """
        expected = self.rows if rows is None else rows
        came = 0
        with self.files.unchanged():
            for batch in plan.collect_batches(
                chunk_size=size, maintain_order=True, engine="streaming"
            ):
                came += batch.height
                yield batch
            # Where Polars panics, its batches just end.
            self.check(came, expected)

    def check(self, came: int, expected: int) -> None:
        """Raise `SourceError` unless as many rows came as there are."""
        if came != expected:
            raise self.files.fault() or self.files.not_whole(
                f"{came:,} of {expected:,} rows were read"
            )

    def count(self, plan: pl.LazyFrame) -> int:
        """Return how many rows a plan over the log has."""
        with self.files.unchanged():
            return _count(plan)


@dataclass(frozen=True)
class _Known:
    """Files as they were found, and as they must be whenever they are read."""

    found: Files
    stamps: list[_Stamp]
    options: dict[str, Any]

    @classmethod
    def of(cls, found: Files, options: dict[str, Any]) -> _Known:
        stamps = [None if found.remote else _stamp(file) for file in found.names]
        each = {name: value for name, value in options.items() if name not in _OF_THE_WHOLE}
        return cls(found, stamps, each)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise `SourceError` for a file that changes before the block ends, or is damaged."""
        self.check()
        try:
            yield
        except DAMAGE as error:
            store = store_error(error, self.found.names) if self.found.remote else None
            if store is not None:
                raise store from error
            fault = self.fault()
            if fault is None and isinstance(error, Exception) and "parquet: " not in str(error):
                raise  # of something else, such as a full disk or a filter
            raise fault or self.not_whole(str(error)) from error
        self.check()

    def check(self) -> None:
        for file, stamp in zip(self.found.names, self.stamps, strict=True):
            if stamp is not None and _stamp(file) != stamp:
                message = f"'{file}' has changed since it was scanned; scan it again"
                raise SourceError(message)

    def fault(self) -> SourceError | None:
        """Return the error for the first file that has changed or cannot be read, if there is one.

        Files are read one by one: of several at once, Polars does not say which it was.
        """
        self.check()
        found = ((file, self.damage(file)) for file in self.found.names)
        return next((damaged(file, error) for file, error in found if error is not None), None)

    def not_whole(self, problem: str) -> SourceError:
        """Return the error for rows that did not come, though each file can be read."""
        first, *others = self.found.names
        one_of = f"'{first}' or one of {len(others):,} other files" if others else f"'{first}'"
        remedy = "scan it again, if it was replaced" if self.found.remote else "write it anew"
        return SourceError(f"{one_of} cannot be read whole: {problem}; {remedy}")

    def damage(self, file: str) -> BaseException | None:
        """Return what Polars raises when it reads all columns of one file; None if it can."""
        try:
            scan = (
                scan_store([file], self.options)
                if self.found.remote
                else pl.scan_parquet(file, glob=False, **self.options)
            )
            scan.select(cs.all().count()).collect(engine="streaming")
        except DAMAGE as error:
            return error
        return None


def _stamp(file: str) -> tuple[int, int]:
    try:
        status = Path(file).stat()
    except OSError as error:
        message = f"'{file}' cannot be read: {error.strerror}; is it still there?"
        raise SourceError(message) from error
    return status.st_size, status.st_mtime_ns


def _count(plan: pl.LazyFrame) -> int:
    rows: int = plan.select(pl.len()).collect(engine="streaming").item()
    return rows
