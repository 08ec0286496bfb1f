"""Scans of Parquet files that fail if a file is damaged or has changed since the scan."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import polars.selectors as cs

from polars_rank._polars import NUMBERED
from polars_rank.errors import SourceError
from polars_rank.frames.stores import scan_store, store_error
from polars_rank.io.files import DAMAGE, Files, damaged, find_files, scan_files
from polars_rank.io.inputs import first_names, origin
from polars_rank.io.outputs import write_problem

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

#: Options of `scan_parquet` that apply to the log, not to each of its files.
_LOG_OPTIONS = {
    *("n_rows", "row_index_name", "row_index_offset", "include_file_paths"),
    *("hive_partitioning", "hive_schema", "try_parse_hive_dates", "glob"),
}


@dataclass(frozen=True)
class Source:
    """A scan of Parquet files, and the number of rows that it must return."""

    log: pl.LazyFrame
    schema: pl.Schema
    rows: int
    files: _KnownFiles

    def __str__(self) -> str:
        """Return the names of the first files."""
        return ", ".join(first_names(self.files.files.names))

    @classmethod
    def scan(cls, paths: Iterable[str | os.PathLike[str]], options: dict[str, Any]) -> Source:
        """Return the scan of paths; this reads the metadata of the files."""
        names = find_files(paths)
        files = _KnownFiles.of(names, options)
        with files.unchanged():
            log = scan_files(files.files, options)
            # Numbers of rankings in a file may no longer match its rows.
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
            Plan that reads `log`.
        size
            Approximate number of rows in a batch.
        rows
            Number of rows of the plan. Default: the number of rows of the log.

        Yields
        ------
        DataFrame
            The rows.

        Raises
        ------
        SourceError
            After the last batch, if a file is damaged or has changed.
        """
        expected = self.rows if rows is None else rows
        n_read = 0
        with self.files.unchanged():
            for batch in plan.collect_batches(
                chunk_size=size, maintain_order=True, engine="streaming"
            ):
                n_read += batch.height
                yield batch
            # If Polars panics, its batches end without an error.
            self.check(n_read, expected)

    def check(self, n_read: int, expected: int) -> None:
        """Raise `SourceError` unless all rows were read."""
        if n_read != expected:
            raise self.files.damage_error() or self.files.incomplete_error(
                f"{n_read:,} of {expected:,} rows were read"
            )

    def count(self, plan: pl.LazyFrame) -> int:
        """Return the number of rows of a plan over the log."""
        with self.files.unchanged():
            return _count(plan)


@dataclass(frozen=True)
class _KnownFiles:
    """Files with the sizes and times that they had when they were scanned."""

    files: Files
    #: Sizes in bytes and times of the last change in nanoseconds; None for a URL.
    stamps: list[tuple[int, int] | None]
    #: Options of `scan_parquet` for one file.
    options: dict[str, Any]

    @classmethod
    def of(cls, files: Files, options: dict[str, Any]) -> _KnownFiles:
        stamps = [None if files.remote else _stamp(file) for file in files.names]
        of_file = {name: value for name, value in options.items() if name not in _LOG_OPTIONS}
        return cls(files, stamps, of_file)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Raise `SourceError` if a file is damaged, or changes before the block ends."""
        self.check()
        try:
            yield
        except DAMAGE as error:
            if write_problem(error) is not None:
                raise  # the disk for temporary files is full
            in_store = store_error(error, self.files.names) if self.files.remote else None
            if in_store is not None:
                raise in_store from error
            damage = self.damage_error()
            if damage is None and isinstance(error, Exception) and "parquet: " not in str(error):
                raise  # an error with another cause, such as a filter
            raise damage or self.incomplete_error(str(error)) from error
        self.check()

    def check(self) -> None:
        for file, stamp in zip(self.files.names, self.stamps, strict=True):
            if stamp is not None and _stamp(file) != stamp:
                raise SourceError(
                    f"'{origin(file)}' has changed since it was scanned; scan it again"
                )

    def damage_error(self) -> SourceError | None:
        """Return the error for the first file that cannot be read, if there is one.

        Files are read one by one, because Polars does not name the damaged file.
        """
        self.check()
        errors = ((file, self.read_error(file)) for file in self.files.names)
        return next((damaged(file, error) for file, error in errors if error is not None), None)

    def incomplete_error(self, problem: str) -> SourceError:
        """Return the error for missing rows if every single file can be read."""
        first, *others = map(origin, self.files.names)
        one_of = f"'{first}' or one of {len(others):,} other files" if others else f"'{first}'"
        remedy = "scan it again if it was replaced" if self.files.remote else "write it again"
        return SourceError(f"cannot read all of {one_of}: {problem}; {remedy}")

    def read_error(self, file: str) -> BaseException | None:
        """Return the error of Polars for all columns of one file, or None."""
        try:
            scan = (
                scan_store([file], self.options)
                if self.files.remote
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
        raise SourceError(
            f"cannot read '{origin(file)}': {error.strerror}; check that it still exists"
        ) from error
    return status.st_size, status.st_mtime_ns


def _count(plan: pl.LazyFrame) -> int:
    rows: int = plan.select(pl.len()).collect(engine="streaming").item()
    return rows
