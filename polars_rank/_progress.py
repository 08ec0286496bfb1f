"""A progress bar for long evaluations: rows as they stream by, of a total that is known."""

from __future__ import annotations

import atexit
import sys
import time
from threading import Lock, Thread
from typing import TYPE_CHECKING
from weakref import WeakSet

import polars as pl

from polars_rank._polars import keeps_all_rows
from polars_rank.errors import missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable

#: Seconds: work that is done before needs no bar; between two looks; without rows until it closes.
DELAY, INTERVAL, IDLE = 2.0, 0.2, 5.0

_BARS: WeakSet[_Bar] = WeakSet()
_SCREEN = Lock()  # one bar at a time


def watch(log: pl.LazyFrame, total: int | None = None) -> pl.LazyFrame:
    """Return the same log; collecting it shows how many of its rows have gone by.

    The bar is drawn on standard error, only if that is a terminal, and only when the work takes
    longer than about two seconds. It shows rows done of the total, rows per second, the time
    left, and the memory of the process at its peak.

    Parameters
    ----------
    log
        Any LazyFrame. That it is sorted must be said again of the result, with `set_sorted`.
    total
        How many rows it has, where that is known.

    Returns
    -------
    LazyFrame
        The same rows and columns. Selections and filters are still pushed into the scan; rows
        that it leaves out are not counted.

    Raises
    ------
    MissingExtraError
        Without the extra "cli".

    Examples
    --------
    >>> from polars_rank._progress import watch
    >>> watch(pl.LazyFrame({"query": [1, 2]}), total=2).collect().height
    2
    """
    return watcher(total)(log)


def watcher(total: int | None = None) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
    """Return a `watch` with one bar for all that it is given, as for the parts of a log."""
    add = counter(total)
    if add is None:
        return lambda log: log

    def count(rows: pl.DataFrame) -> pl.DataFrame:
        add(rows.height)
        return rows

    return lambda log: log.map_batches(
        count,
        predicate_pushdown=True,
        projection_pushdown=True,
        slice_pushdown=True,
        validate_output_schema=False,
        streamable=True,
    )


def counter(total: int | None = None) -> Callable[[int], None] | None:
    """Return what draws a bar of the rows that it is told of; None where there is no terminal."""
    try:
        import rich.progress  # noqa: F401, PLC0415  (an extra)
    except ImportError as error:
        raise missing_extra(extra="cli", cause=error) from error
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    return _Bar(total).add


def close() -> None:
    """Take all bars off the screen now, as when a run was interrupted."""
    for bar in list(_BARS):
        bar.close()


def known_rows(log: pl.LazyFrame) -> int | None:
    """Return the number of rows where that costs nothing: of Parquet files and frames in memory.

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
    """Return the words beside the bar.

    Examples
    --------
    >>> from polars_rank._progress import figures
    >>> figures(3_000_000, 10_000_000, 2.0).split(" · ")[:3]
    ['3,000,000 of 10,000,000 rows', '1.5 M rows/s', '0:05 left']
    """
    rate = rows / max(seconds, 1e-9)
    words = [f"{rows:,} rows" if total is None else f"{rows:,} of {total:,} rows"]
    words.append(f"{rate / 1e6:.1f} M rows/s")
    if total is not None and rows:
        minutes, left = divmod(round((total - rows) / rate), 60)
        words.append(f"{minutes}:{left:02} left")
    memory = _peak_memory()
    return " · ".join([*words, *([] if memory is None else [f"{memory / 1e6:,.0f} MB"])])


class _Bar:
    """Counts rows, and draws the count from a thread of its own.

    A lazy plan does not tell when its run ends: a bar closes when all rows have come, when none
    has for a while, or when the interpreter ends. The next row opens it again, from 0.
    """

    def __init__(self, total: int | None) -> None:
        self.total = total
        self.rows = 0
        self.began = self.latest = 0.0
        self.open = False
        self.lock = Lock()
        self.thread: Thread | None = None
        _BARS.add(self)

    def add(self, rows: int) -> None:
        if not rows:
            return
        with self.lock:
            self.latest = time.monotonic()
            if not self.open or self.whole:
                self.rows, self.began = 0, self.latest
            self.rows += rows
            if not self.open:
                self.open = True
                self.thread = Thread(target=self.draw, daemon=True)
                self.thread.start()

    @property
    def whole(self) -> bool:
        return self.total is not None and self.rows >= self.total

    def close(self) -> None:
        self.open = False
        if self.thread is not None:
            self.thread.join()

    def draw(self) -> None:
        while self.goes_on() and time.monotonic() - self.began < DELAY:
            time.sleep(INTERVAL)
        if self.open and _SCREEN.acquire(blocking=False):
            try:
                self.show()
            finally:
                _SCREEN.release()

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
        atexit.register(progress.stop)  # the terminal gets its cursor back in any case
        with progress:
            while self.goes_on():
                words = figures(self.rows, self.total, time.monotonic() - self.began)
                progress.update(task, completed=self.rows, figures=words, refresh=True)
                time.sleep(INTERVAL)
        atexit.unregister(progress.stop)

    def goes_on(self) -> bool:
        with self.lock:
            idle = time.monotonic() - self.latest > IDLE
            self.open = self.open and not self.whole and not idle
            return self.open


def _peak_memory() -> int | None:
    """Return the most memory the process has had, in bytes; None where it cannot be told."""
    try:
        import resource  # noqa: PLC0415  (not on Windows)
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
