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

#: Seconds between updates of a bar, and seconds without new rows after which it closes.
_INTERVAL, _IDLE = 0.2, 5.0

_BARS: WeakSet[_Bar] = WeakSet()
_TERMINAL = Lock()  # only one bar is drawn at a time


def watch(log: pl.LazyFrame, total: int | None = None, *, delay: float = 2.0) -> pl.LazyFrame:
    """Return the log with a progress bar that appears while it is collected.

    The bar is drawn on standard error if that is a terminal and the work takes longer than
    `delay`. It shows the number of rows read, rows per second, and the remaining time.

    Examples
    --------
    >>> from polars_rank._progress import watch
    >>> watch(pl.LazyFrame({"query": [1, 2]}), total=2).collect().height
    2

    Parameters
    ----------
    log
        Any LazyFrame. The result does not know that its rows are sorted; use `set_sorted`.
    total
        Number of rows, if known.
    delay
        Seconds until the bar appears.

    Returns
    -------
    LazyFrame
        The same rows and columns. Selections and filters are still pushed into the scan; rows
        that the scan skips are not counted.

    Raises
    ------
    MissingExtraError
        Without the extra "cli".
    """
    return watcher(total, delay=delay)(log)


def watcher(
    total: int | None = None, *, delay: float = 2.0
) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
    """Return a function like `watch` whose calls share one progress bar."""
    try:
        import rich.progress  # noqa: F401, PLC0415  (an extra)
    except ImportError as error:
        raise missing_extra(extra="cli", cause=error) from error
    if sys.stderr is None or not sys.stderr.isatty():
        return lambda log: log
    bar = _Bar(total, delay)

    def count(rows: pl.DataFrame) -> pl.DataFrame:
        bar.add(rows.height)
        return rows

    return lambda log: log.map_batches(
        count,
        predicate_pushdown=True,
        projection_pushdown=True,
        slice_pushdown=True,
        validate_output_schema=False,
        streamable=True,
    )


def close() -> None:
    """Close all bars."""
    for bar in list(_BARS):
        bar.close()


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
    rows: int = log.select(pl.len()).collect(engine="streaming").item()
    return rows


def figures(rows: int, total: int | None, seconds: float) -> str:
    """Return the text next to the bar.

    Examples
    --------
    >>> from polars_rank._progress import figures
    >>> figures(3_000_000, 10_000_000, 2.0)
    '3,000,000 of 10,000,000 rows · 1.5 M rows/s · 0:05 left'
    >>> figures(39_104, None, 4.0)
    '39,104 rows · 9,776 rows/s'
    """
    rate = rows / max(seconds, 1e-9)
    texts = [f"{rows:,} rows" if total is None else f"{rows:,} of {total:,} rows"]
    texts.append(f"{rate / 1e6:.1f} M rows/s" if rate >= 1e5 else f"{rate:,.0f} rows/s")
    if total is not None and rows:
        minutes, seconds_left = divmod(round((total - rows) / rate), 60)
        texts.append(f"{minutes}:{seconds_left:02} left")
    return " · ".join(texts)


class _Bar:
    """A progress bar, drawn by its own thread.

    A lazy plan does not signal its end. The bar closes when all rows have been read, when no row
    has been read for a while, or when the interpreter exits. The next row opens a new bar.
    """

    def __init__(self, total: int | None, delay: float) -> None:
        self.total = total
        self.delay = delay
        self.rows = 0
        self.start = self.latest = 0.0
        self.open = False
        #: Set to close the bar: its thread then stops waiting.
        self.ended = Event()
        self.lock = Lock()
        self.thread: Thread | None = None
        _BARS.add(self)

    def add(self, rows: int) -> None:
        if not rows:
            return
        with self.lock:
            self.latest = time.monotonic()
            if not self.open or self.complete:
                self.rows, self.start = 0, self.latest
                self.ended.clear()
            self.rows += rows
            if self.complete:
                self.ended.set()
            if not self.open:
                self.open = True
                self.thread = Thread(target=self.draw, daemon=True)
                self.thread.start()

    @property
    def complete(self) -> bool:
        return self.total is not None and self.rows >= self.total

    def close(self) -> None:
        self.open = False
        self.ended.set()
        if self.thread is not None:
            self.thread.join()

    def draw(self) -> None:
        while self.is_active() and time.monotonic() - self.start < self.delay:
            self.ended.wait(_INTERVAL)
        if self.open and _TERMINAL.acquire(blocking=False):
            try:
                self.show()
            finally:
                _TERMINAL.release()

    def show(self) -> None:
        from rich.console import Console  # noqa: PLC0415  (an extra)
        from rich.progress import BarColumn, Progress, TextColumn  # noqa: PLC0415

        progress = Progress(
            BarColumn(),
            TextColumn("{task.fields[figures]}"),
            console=Console(stderr=True),
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        task = progress.add_task("", total=self.total, figures="")
        atexit.register(progress.stop)  # restores the cursor, however the process ends
        with progress:
            while self.is_active():
                text = figures(self.rows, self.total, time.monotonic() - self.start)
                progress.update(task, completed=self.rows, figures=text, refresh=True)
                self.ended.wait(_INTERVAL)
        atexit.unregister(progress.stop)

    def is_active(self) -> bool:
        with self.lock:
            idle = time.monotonic() - self.latest > _IDLE
            self.open = self.open and not self.complete and not idle
            return self.open
