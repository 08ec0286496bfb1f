"""Progress bars of the rows that a lazy plan has read."""

from __future__ import annotations

import atexit
import sys
import time
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING
from weakref import WeakSet

import polars as pl

from polars_rank._polars import keeps_all_rows
from polars_rank.errors import missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds until a bar appears, between its updates, and without new rows until it closes.
_DELAY, _INTERVAL, _IDLE = 2.0, 0.2, 5.0

_BARS: WeakSet[_Bar] = WeakSet()
_TERMINAL = Lock()  # only one bar is drawn at a time


def watcher(total: int | None = None) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
    """Return a function that adds a progress bar to logs, which appears while they are collected.

    The bar is drawn on standard error if that is a terminal and the work takes some time. It shows
    the number of rows read, rows per second, and the remaining time. Logs of the function share
    one bar.

    Examples
    --------
    >>> from polars_rank._progress import watcher
    >>> watcher(total=2)(pl.LazyFrame({"query": [1, 2]})).collect().height
    2

    Parameters
    ----------
    total
        Number of rows, if known.

    Returns
    -------
    Callable
        A function from a LazyFrame to one with the same rows and columns, which does not know that
        its rows are sorted; use `set_sorted`. Selections and filters are still pushed into the
        scan; rows that the scan skips are not counted.

    Raises
    ------
    MissingExtraError
        Without the extra "cli".
    """
    try:
        import rich.progress  # noqa: F401, PLC0415  (an extra)
    except ImportError as error:
        raise missing_extra(extra="cli", cause=error) from error
    if sys.stderr is None or not sys.stderr.isatty():
        return lambda log: log
    bar = _Bar(total)

    def count(rows: pl.DataFrame) -> pl.DataFrame:
        if rows.height:
            bar.add(rows.height)
        return rows

    return lambda log: log.map_batches(
        count, predicate_pushdown=True, projection_pushdown=True, slice_pushdown=True,
        validate_output_schema=False, streamable=True,
    )  # fmt: skip


@atexit.register
def close() -> None:
    """Close all bars, which restores the cursor."""
    for bar in list(_BARS):
        bar.ended.set()
        if bar.thread is not None:
            bar.thread.join()


def known_rows(log: pl.LazyFrame) -> int | None:
    """Return the number of rows of Parquet files and frames in memory, otherwise None.

    Examples
    --------
    >>> from polars_rank._progress import known_rows
    >>> known_rows(pl.LazyFrame({"query": [1, 2]}))
    2
    >>> known_rows(pl.LazyFrame({"query": [1, 2]}).filter(pl.col("query") > 1))
    """
    if not keeps_all_rows(log):
        return None
    return int(log.select(pl.len()).collect(engine="streaming").item())


class _Bar:
    """A progress bar, drawn by its own thread.

    A lazy plan does not signal its end. The bar closes when all rows have been read, when no row
    has been read for a while, or when the interpreter exits. The next row opens a new bar.
    """

    def __init__(self, total: int | None) -> None:
        self.total, self.rows, self.latest = total, 0, 0.0
        self.lock, self.ended = Lock(), Event()
        self.thread: Thread | None = None
        _BARS.add(self)

    def add(self, rows: int) -> None:
        with self.lock:
            self.latest = time.monotonic()
            if self.thread is None or self.ended.is_set():
                self.rows, self.ended = 0, Event()
                self.thread = Thread(target=self.draw, args=[self.ended], daemon=True)
                self.thread.start()
            self.rows += rows
            if self.rows == self.total:
                self.ended.set()

    def draw(self, ended: Event) -> None:
        from rich import progress as rich  # noqa: PLC0415  (an extra)
        from rich.console import Console  # noqa: PLC0415

        if ended.wait(_DELAY):
            return
        of = "" if self.total is None else f" of {self.total:,}"
        bar = rich.Progress(
            rich.BarColumn(None), rich.TextColumn("{task.completed:,}" + of + " rows"),
            rich.TextColumn("{task.description}"), rich.TimeRemainingColumn(),
            console=Console(stderr=True), auto_refresh=False, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        task = bar.add_task("", total=self.total)
        with _TERMINAL, bar:
            while not ended.wait(_INTERVAL) and time.monotonic() - self.latest < _IDLE:
                speed = f"{bar.tasks[0].speed or 0:,.0f} rows/s"
                bar.update(task, completed=self.rows, description=speed, refresh=True)
        ended.set()
