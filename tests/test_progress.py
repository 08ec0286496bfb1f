"""The progress bar: equal results, streaming plans, and output only on terminals."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

# A scan with a progress bar, as the command line has it.
from polars_rank.io.parquet import scanned_log
from polars_rank.datasets import search_log

needs.package("rich", "cli")

# The bar itself, which is on terminals only.
from polars_rank import _progress as progress  # noqa: E402

METRICS = ["ndcg@10", "ap", "rr"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch, terminal: None) -> list[progress._Bar]:
    """The bars that a test creates."""
    made = []

    class Bar(progress._Bar):
        def __init__(self, total: int | None) -> None:
            super().__init__(total)
            made.append(self)

    monkeypatch.setattr(progress, "_Bar", Bar)
    return made


def write(path: Path, layout: str) -> pl.DataFrame:
    log = search_log(300, 20, runs=1, seed=3).collect()
    order = {
        "sorted": pl.col("query"),
        "adjacent": pl.col("query").hash(seed=1),
        "shuffled": pl.struct("query", "doc").hash(seed=1),
    }
    log = log.sort(order[layout])
    log.write_parquet(path)
    return log


@pytest.mark.parametrize(
    ("layout", "memory"), [("sorted", "1GB"), ("adjacent", "1MB"), ("shuffled", "1MB")]
)
def test_of_a_log_counts_each_row_once(
    tmp_path: Path, bars: list[progress._Bar], layout: str, memory: str
) -> None:
    log = write(tmp_path / "log.parquet", layout)
    scan = scanned_log(
        tmp_path / "log.parquet", {}, {"query": "query", "run": "run"}, layout="auto",
        memory=memory, progress=True,
    )  # fmt: skip
    plan = pr.evaluate(scan, METRICS)
    assert_frame_equal(plan.collect(engine="streaming"), pr.evaluate(log, METRICS))
    assert sorted({(bar.rows, bar.total) for bar in bars} - {(0, log.height)}) == [
        (log.height,) * 2
    ]


@pytest.mark.parametrize(
    ("evaluate", "engine"), [(pr.evaluate, "in-memory"), (pr.per_query, "streaming")]
)
def test_of_an_evaluation(bars: list[progress._Bar], evaluate, engine: str) -> None:
    log = search_log(300, 20, seed=3).collect()
    plan = evaluate(log.lazy(), METRICS, by="run", progress=True)
    expected = evaluate(log, METRICS, by="run")
    assert_frame_equal(plan.collect(engine=engine), expected, check_row_order=False)
    assert [(bar.rows, bar.total) for bar in bars][:1] == [(log.height,) * 2]


def test_is_not_there_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: False, raising=False)
    log = pl.LazyFrame({"query": [1]})
    assert progress.watcher()(log) is log


def test_selections_and_filters_are_pushed_into_the_scan(tmp_path: Path, terminal: None) -> None:
    whole = write(tmp_path / "log.parquet", "sorted")
    scan = pl.scan_parquet(tmp_path / "log.parquet")
    plan = progress.watcher()(scan).filter(pl.col("label") > 2).select("query", "label").explain()
    assert "PROJECT 2/9 COLUMNS" in plan and "SELECTION" in plan
    assert progress.known_rows(scan) == progress.known_rows(whole.lazy()) == whole.height
    assert progress.known_rows(scan.filter(pl.col("query") == 1)) is None


def test_a_second_run_counts_from_0(bars: list[progress._Bar]) -> None:
    log = progress.watcher(3)(pl.LazyFrame({"query": [1, 2, 3]}))
    for _ in range(2):
        log.collect()
        progress.close()
    assert bars[0].rows == 3


SCRIPT = """
    import sys
    import time
    import polars as pl
    from polars_rank import _progress as progress

    def slow(rows):
        time.sleep(1)
        return rows

    for progress._DELAY, end in ((2, progress.close), (0, progress.close), (0, sys.exit)):
        log = progress.watcher(2000)(pl.LazyFrame({"query": range(1000)}))
        log.map_batches(slow).collect()
        if end is progress.close:
            end()
        print("end", file=sys.stderr, flush=True)
    end()
"""


@pytest.mark.skipif(os.name != "posix", reason="a terminal of POSIX")
def test_on_a_terminal() -> None:
    """The bar appears after the delay, and stays until the plan or the process ends."""
    import pty

    main, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SCRIPT)],
        stderr=terminal,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "80"},
    )
    os.close(terminal)
    seen = b""
    while chunk := _read(main):
        seen += chunk
    os.close(main)
    assert process.wait() == 0
    early, closed, *ended = seen.split(b"end\r\n")
    assert b"rows" not in early
    for drawn in (closed, b"".join(ended)):
        assert b"1,000 of 2,000 rows" in drawn
        assert b"0 rows/s" in drawn
        assert drawn.count(b"\x1b[?25l") == drawn.count(b"\x1b[?25h")  # the cursor is back


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # what Linux says when the other end is closed
        return b""
