"""Damaged files and full disks: a clear error, no wrong value, and no incomplete output."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Barrier
from types import ModuleType
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal
from polars_rank.datasets import search_log
from polars_rank.errors import SourceError

# The outputs of all writers.
from polars_rank.io.outputs import discard_all, new_file

METRICS = ["ndcg@3", "ap", "rr"]
UNREADABLE = (SourceError, pl.exceptions.PolarsError, OSError)
posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")


@cache
def a_log(queries: int = 50, **options: object) -> pl.DataFrame:
    return search_log(queries, 10, runs=1, **options).drop("run").collect()


def evaluated(log: pl.LazyFrame) -> pl.DataFrame:
    return pr.evaluate(log, METRICS).collect(engine="streaming")


def run(*arguments: object) -> Any:
    """Run the command line in this process."""
    testing = needs.package("click.testing", "cli")
    from polars_rank.cli.program import app

    return testing.CliRunner().invoke(app, [*map(str, arguments)])


#: A column and its type in the second of two files.
CASTS = [
    *(("query", pl.Int32), ("query", pl.UInt64), ("doc", pl.Int16), ("score", pl.Float32)),
    *(("label", pl.Float64), ("label", pl.Int64)),
]
CATEGORIES = [pl.Categorical, pl.Enum([f"q{n:09}" for n in range(50)])]


def test_types_that_fit_are_cast(tmp_path: Path) -> None:
    log = a_log().with_columns(pl.col("doc") % 10_000, pl.col("score").round())
    texts, first = a_log(string_ids=True), pl.col("query") < 25
    parts = [(log, log.filter(first), log.filter(~first).cast({name: to})) for name, to in CASTS]
    first = pl.col("query") < "q000000025"
    parts += [
        (texts, texts.filter(first), texts.filter(~first).cast({"query": to})) for to in CATEGORIES
    ]
    for log, *both in parts:
        expected = pr.evaluate(log, METRICS)
        for order in (1, -1) if log is not texts else (1,):
            for name, frame in zip("ab", both[::order], strict=True):
                frame.write_parquet(tmp_path / f"{name}.parquet")
            assert_frame_equal(evaluated(pr.scan_log(tmp_path)), expected)


def test_types_that_do_not_fit(tmp_path: Path) -> None:
    a_log().write_parquet(tmp_path / "a.parquet")
    lists = pl.col("score").implode().over("query", mapping_strategy="join")
    for change, said in (
        (
            pl.col("query").cast(pl.String),
            r"'query': String in '.*b\.parquet', but Int64 in '.*a\.",
        ),
        (pl.col("label").cast(pl.String), r"'label': String in '.*b\.parquet'"),
        (lists, r"'score': List"),
        (pl.lit(1).alias("new"), r"'new' is in '.*b\.parquet', but not in '.*a\.parquet'"),
    ):
        a_log().with_columns(change).write_parquet(tmp_path / "b.parquet")
        with pytest.raises(SourceError, match=said):
            pr.scan_log(tmp_path)
    assert "new" not in pr.scan_log(tmp_path, extra_columns="ignore").collect_schema()


def test_partitions_whose_types_differ(tmp_path: Path) -> None:
    for day, dtype in (("1", pl.Int32), ("2", pl.Int64)):
        (tmp_path / f"day={day}").mkdir()
        a_log().cast({"query": dtype}).write_parquet(tmp_path / f"day={day}" / "log.parquet")
    log = pr.scan_log(tmp_path, by="day")
    assert pr.evaluate(log, "rr", by="day").collect()["day"].to_list() == [1, 2]


def test_columns_in_another_order_and_some_rows(tmp_path: Path) -> None:
    log = a_log()
    log.write_parquet(tmp_path / "a.parquet")
    log.select(reversed(log.columns)).write_parquet(tmp_path / "b.parquet")
    paths = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    found = pr.scan_log(paths, n_rows=log.height + 1).select(log.columns).collect()
    assert_frame_equal(found, pl.concat([log, log.head(1)]), check_row_order=False)


@pytest.mark.filterwarnings("ignore:no document has")
def test_odd_contents(tmp_path: Path) -> None:
    log, path = a_log(), tmp_path / "log.parquet"
    for frame, expected in (
        *(
            (log.with_columns(pl.lit(None, dtype).alias(column)), (50, 0.0, 0.0, 0.0))
            for dtype in (pl.Null, pl.Float64)
            for column in ("score", "label")
        ),
        (pl.DataFrame({"query": 1, "doc": 1, "score": 0.5, "label": 1}), (1, 1.0, 1.0, 1.0)),
        (log.clear(), (0, None, None, None)),
    ):
        frame.write_parquet(path)
        assert evaluated(pr.scan_log(path)).rows() == [expected]
    log.with_columns(label=None).write_parquet(tmp_path / "a.parquet")
    log.with_columns(pl.col("query") + 50).write_parquet(path)
    assert evaluated(pr.scan_log(tmp_path))["queries"].item() == 100


@pytest.fixture
def few_open_files() -> Iterator[int]:
    """A limit on the open files of this process; each thread may open one file."""
    resource = pytest.importorskip("resource", reason="no limit of open files")
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = max(map(int, os.listdir("/dev/fd"))) + 50 + pl.thread_pool_size()
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, allowed[1]))
    yield limit
    resource.setrlimit(resource.RLIMIT_NOFILE, allowed)


def test_more_files_than_a_process_may_open(tmp_path: Path, few_open_files: int) -> None:
    files = few_open_files + 1
    for query in range(files):
        rows = {"query": [query] * 2, "doc": [1, 2], "score": [0.9, 0.1], "label": [0, 1]}
        pl.DataFrame(rows).write_parquet(tmp_path / f"{query:05}.parquet")
    assert pr.evaluate(pr.scan_log(tmp_path), "rr").collect().rows() == [(files, 1 / 2)]


def test_new_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a"
    with pytest.raises(KeyError), new_file(target) as part:  # noqa: PT012
        part.write_text("half", "utf-8")
        assert not target.exists()
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with new_file(target) as part:
        part.write_text("whole", "utf-8")
    assert target.read_text("utf-8") == "whole"
    target.unlink()
    with pytest.raises(SourceError, match="already exists"), new_file(target) as part:
        part.write_text("late", "utf-8")
        target.write_text("early", "utf-8")
    assert target.read_text("utf-8") == "early"
    with new_file(target, overwrite=True) as part:
        part.write_text("told to", "utf-8")
    assert target.read_text("utf-8") == "told to"
    assert list(tmp_path.iterdir()) == [target]
    for name, said in (("no/a", "does not exist"), ("", "is a directory")):
        with pytest.raises(SourceError, match=said), new_file(tmp_path / name):
            pass


@contextlib.contextmanager
def full_disk(place: Path) -> Iterator[None]:
    """Make a folder a small file system; if that is not allowed, limit the size of files."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)]
    mounted = False
    with contextlib.suppress(OSError):
        mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    if mounted:
        try:
            yield
            discard_all()  # as at the end of the process
            assert list(place.iterdir()) == []
        finally:
            subprocess.run(["umount", "-l", str(place)], check=True)
        return
    resource = pytest.importorskip("resource", reason="no way to fill a disk")
    allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 * 1024, allowed[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, allowed)


def _verdicts() -> pl.DataFrame:
    verdict = pr.check(pr.summarize(pr.per_query(a_log(), "ap")), ["ap >= 0"], on_fail="return")
    return pl.concat([verdict] * 2_000)


@posix
def test_every_writer_reports_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, log = tmp_path / "disk", tmp_path / "log.parquet"
    place.mkdir()
    writers: tuple[Callable[[Path], object], ...] = (
        lambda path: pr.trec.write_run(a_log(2_000), path),
        lambda path: pr.trec.write_qrels(a_log(2_000), path),
        lambda path: pr.stats.write_junit(_verdicts(), path),
        lambda path: pr.stats.write_markdown(_verdicts(), path),
    )
    for write in writers:
        with full_disk(place), pytest.raises(SourceError, match=r"cannot write '.*disk/a'"):
            write(place / "a")
    a_log(5_000).sample(fraction=1, shuffle=True, seed=1).write_parquet(log)
    for temporary, output in ((tmp_path, place / "lists"), (place, tmp_path / "lists")):
        monkeypatch.setattr(tempfile, "tempdir", str(temporary))
        command = ["per-query", log, "-m", "ndcg@10 ap ndcg rbp", "-o", f"{output}.parquet"]
        with full_disk(place):
            ended = run(*command, "--memory", "1MB")
        assert (ended.exit_code, ended.stdout) == (2, "")
        if temporary == place:
            assert f"temporary files in '{place}'" in ended.stderr and "TMPDIR" in ended.stderr
        else:
            assert f"cannot write '{output}.parquet'" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert sorted(file.name for file in tmp_path.iterdir()) == ["disk", "log.parquet"]
    assert list(place.iterdir()) == []


@pytest.mark.parametrize("overwrite", [False, True])
def test_two_threads_write_one_file(tmp_path: Path, overwrite: bool) -> None:
    target, both = tmp_path / "a", Barrier(2, timeout=60)

    def write(text: str) -> str | None:
        try:
            with new_file(target, overwrite=overwrite) as part:
                part.write_text(text, "utf-8")
                both.wait()
        except pr.errors.SourceError:
            return None
        return text

    with ThreadPoolExecutor(2) as threads:
        done = [text for text in threads.map(write, ["one", "other"]) if text is not None]
    assert len(done) == (2 if overwrite else 1)
    assert target.read_text("utf-8") in done
    assert list(tmp_path.iterdir()) == [target]


@posix
def test_run_again_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, output = tmp_path / "log.parquet", tmp_path / "lists.parquet"
    frame = a_log(30_000)
    frame.write_parquet(log)
    arguments = ["per-query", log, "-m", "ap rr", "-o", output]
    arguments += ["--layout", "shuffled"]
    slow = {"TMPDIR": str(tmp_path), "POLARS_MAX_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "polars_rank", *map(str, arguments)],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **slow},
    )  # fmt: skip
    while process.poll() is None and not any(
        file.name.endswith(".part") for file in tmp_path.iterdir()
    ):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not output.exists()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert run(*arguments).exit_code == 0
    assert_frame_equal(
        pl.read_parquet(output), pr.per_query(frame, ["ap", "rr"]), check_row_order=False
    )


def test_another_thread_may_be_importing_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", ModuleType("numpy"))  # which has no names yet
    log = pl.DataFrame({"query": [1, 1], "doc": ["a", "b"], "score": [2, 1], "label": [0, 1]})
    assert pr.evaluate(log, "rr", rel=1)["rr"].item() == 1 / 2
