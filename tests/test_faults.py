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
from polars_rank.io.files import find_files, scan_files
from polars_rank.io.outputs import new_file
from polars_rank.io.outputs import discard_all

METRICS = ["ndcg@3", "ap", "rr"]
UNREADABLE = (pr.errors.SourceError, pl.exceptions.PolarsError, OSError)

posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits of POSIX")


@cache
def a_log(queries: int = 50, **options: object) -> pl.DataFrame:
    return search_log(queries, 10, runs=1, **options).drop("run").collect()


def evaluated(log: pl.LazyFrame) -> pl.DataFrame:
    return pr.evaluate(log, METRICS).collect(engine="streaming")


def start(*arguments: object, **options: object) -> subprocess.Popen[str]:
    needs.package("click", "cli")
    return subprocess.Popen(
        [sys.executable, "-m", "polars_rank", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **options,
    )


def run(*arguments: object) -> Any:
    """Run the command line in this process."""
    testing = needs.package("click.testing", "cli")
    from polars_rank.cli.program import app

    return testing.CliRunner().invoke(app, [*map(str, arguments)])


# Broken files


@pytest.mark.parametrize("kept", [0, 3, 0.5, 0.99])
def test_truncated(tmp_path: Path, kept: float) -> None:
    path = tmp_path / "log.parquet"
    a_log().write_parquet(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(kept if kept > 1 else kept * len(whole))])
    with pytest.raises(pr.errors.SourceError, match="cannot read"):
        pr.scan_log(path)


def test_one_of_several_is_truncated(tmp_path: Path) -> None:
    for name in "abc":
        a_log().write_parquet(tmp_path / f"{name}.parquet")
    path = tmp_path / "b.parquet"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(pr.errors.SourceError, match=r"cannot read .*b\.parquet"):
        pr.scan_log(tmp_path)


@pytest.mark.parametrize("column", ["query", "label"])
@pytest.mark.parametrize("group", [0, 1, 2])
def test_corrupt_row_group(tmp_path: Path, group: int, column: str) -> None:
    path = tmp_path / "log.parquet"
    log = a_log(300)
    log.write_parquet(path, row_group_size=log.height // 3 + 1)
    described = pq.ParquetFile(path).metadata.row_group(group)
    chunks = [described.column(i) for i in range(described.num_columns)]
    chunk = next(chunk for chunk in chunks if chunk.path_in_schema == column)
    start_of = chunk.dictionary_page_offset or chunk.data_page_offset
    with path.open("r+b") as file:
        file.seek(start_of)
        file.write(b"\xff" * chunk.total_compressed_size)
    with pytest.raises(UNREADABLE):
        evaluated(pr.scan_log(path))


@pytest.mark.parametrize("layout", ["sorted", "shuffled"])
def test_a_file_disappears(tmp_path: Path, layout: str) -> None:
    for name in "abc":
        a_log().with_columns(query=pl.format("{}-{}", pl.lit(name), "query")).sort(
            "query"
        ).write_parquet(tmp_path / f"{name}.parquet")
    log = pr.scan_log(tmp_path / "*.parquet", layout=layout)
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(UNREADABLE, match=r"b\.parquet|No such file"):
        evaluated(log)


# Files that differ


@pytest.mark.parametrize(
    ("column", "other"),
    [
        ("query", pl.Int32),
        ("query", pl.UInt64),
        ("doc", pl.Int16),
        ("score", pl.Float32),
        ("label", pl.Float64),
        ("label", pl.Int64),
    ],
)
def test_types_that_fit_are_cast(tmp_path: Path, column: str, other: pl.DataType) -> None:
    log = a_log().with_columns(pl.col("doc") % 10_000, pl.col("score").round())
    both = [
        log.filter(pl.col("query") < 25),
        log.filter(pl.col("query") >= 25).cast({column: other}),
    ]
    expected = pr.evaluate(log, METRICS)
    for order in (1, -1):
        for name, frame in zip("ab", both[::order], strict=True):
            frame.write_parquet(tmp_path / f"{name}.parquet")
        assert_frame_equal(evaluated(pr.scan_log(tmp_path)), expected)


@pytest.mark.parametrize("other", [pl.Categorical, pl.Enum([f"q{n:09}" for n in range(50)])])
def test_strings_and_categories_fit(tmp_path: Path, other: pl.DataType) -> None:
    log = a_log(string_ids=True)
    parts = [
        log.filter(pl.col("query") < "q000000025"),
        log.filter(pl.col("query") >= "q000000025"),
    ]
    parts[0].write_parquet(tmp_path / "a.parquet")
    parts[1].cast({"query": other}).write_parquet(tmp_path / "b.parquet")
    assert_frame_equal(evaluated(pr.scan_log(tmp_path)), pr.evaluate(log, METRICS))
    plan = pr.scan_log(tmp_path).show_graph(
        engine="streaming", plan_stage="physical", raw_output=True, show=False
    )
    assert "in-memory-map" not in plan


def test_hive_partitions_whose_types_differ(tmp_path: Path) -> None:
    for day, dtype in (("1", pl.Int32), ("2", pl.Int64)):
        (tmp_path / f"day={day}").mkdir()
        a_log().cast({"query": dtype}).write_parquet(tmp_path / f"day={day}" / "log.parquet")
    log = pr.scan_log(tmp_path, by="day")
    assert pr.evaluate(log, "rr", by="day").collect()["day"].to_list() == [1, 2]


def test_columns_in_another_order_and_some_rows(tmp_path: Path) -> None:
    log = a_log()
    log.write_parquet(tmp_path / "a.parquet")
    log.select(reversed(log.columns)).write_parquet(tmp_path / "b.parquet")
    options = {"n_rows": log.height + 1, "row_index_name": "row"}
    scan = scan_files(find_files([tmp_path / "a.parquet", tmp_path / "b.parquet"]), options)
    assert_frame_equal(scan.collect(), pl.concat([log, log.head(1)]).with_row_index("row"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            pl.col("query").cast(pl.String),
            r"'query': String in '.*b\.parquet', but Int64 in '.*a\.",
        ),
        (pl.col("label").cast(pl.String), r"'label': String in '.*b\.parquet'"),
        (pl.col("score").implode().over("query", mapping_strategy="join"), r"'score': List"),
        (pl.lit(1).alias("new"), r"'new' is in '.*b\.parquet', but not in '.*a\.parquet'"),
    ],
)
def test_types_that_do_not_fit(tmp_path: Path, change: pl.Expr, message: str) -> None:
    a_log().write_parquet(tmp_path / "a.parquet")
    a_log().with_columns(change).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(pr.errors.SourceError, match=message):
        pr.scan_log(tmp_path)


def test_differences_may_be_left_to_polars(tmp_path: Path) -> None:
    a_log().write_parquet(tmp_path / "a.parquet")
    a_log().with_columns(new=1).write_parquet(tmp_path / "b.parquet")
    log = pr.scan_log(tmp_path, extra_columns="ignore")
    assert "new" not in log.collect_schema()


# Odd sizes and contents


@pytest.mark.parametrize("dtype", [pl.Null, pl.Float64])
@pytest.mark.parametrize("column", ["score", "label"])
def test_columns_of_nulls(tmp_path: Path, column: str, dtype: pl.DataType) -> None:
    a_log().with_columns(pl.lit(None, dtype).alias(column)).write_parquet(tmp_path / "a.parquet")
    with (
        pytest.warns(pr.errors.RankWarning, match="no document has")
        if column == "label"
        else contextlib.nullcontext()
    ):
        found = evaluated(pr.scan_log(tmp_path / "a.parquet"))
    assert found.rows() == [(50, 0.0, 0.0, 0.0)]  # undefined or without a hit, in every ranking


def test_nulls_of_no_type_beside_labels(tmp_path: Path) -> None:
    a_log().with_columns(label=None).write_parquet(tmp_path / "a.parquet")
    a_log().with_columns(pl.col("query") + 50).write_parquet(tmp_path / "b.parquet")
    assert evaluated(pr.scan_log(tmp_path))["queries"].item() == 100


def test_one_row(tmp_path: Path) -> None:
    row = {"query": 1, "doc": 1, "score": 0.5, "label": 1}
    pl.DataFrame(row).write_parquet(tmp_path / "log.parquet")
    assert evaluated(pr.scan_log(tmp_path)).rows() == [(1, 1.0, 1.0, 1.0)]


def test_no_rows(tmp_path: Path) -> None:
    a_log().clear().write_parquet(tmp_path / "log.parquet")
    assert evaluated(pr.scan_log(tmp_path)).rows() == [(0, None, None, None)]


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


@pytest.mark.parametrize("pattern", ["", "*.parquet", "**/*.parquet"])
def test_nothing_there(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(pr.errors.SourceError, match="no file matches|no .parquet file|no .parquet"):
        pr.scan_log(tmp_path / pattern)


# Writing


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
    assert list(tmp_path.iterdir()) == [target]


def test_new_file_does_not_replace_what_came_meanwhile(tmp_path: Path) -> None:
    target = tmp_path / "a"
    with pytest.raises(pr.errors.SourceError, match="already exists"), new_file(target) as part:
        part.write_text("late", "utf-8")
        target.write_text("early", "utf-8")
    assert target.read_text("utf-8") == "early"
    with new_file(target, overwrite=True) as part:
        part.write_text("told to", "utf-8")
    assert target.read_text("utf-8") == "told to"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize(("name", "message"), [("no/a", "does not exist"), ("", "is a directory")])
def test_new_file_in_no_place(tmp_path: Path, name: str, message: str) -> None:
    with pytest.raises(pr.errors.SourceError, match=message), new_file(tmp_path / name):
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


@posix
@pytest.mark.parametrize("what", ["output", "spilling"])
def test_disk_full(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    log, place = tmp_path / "log.parquet", tmp_path / "disk"
    a_log(5_000).sample(fraction=1, shuffle=True, seed=1).write_parquet(log)
    place.mkdir()
    output = (place if what == "output" else tmp_path) / "lists.parquet"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path if what == "output" else place))
    arguments = ["per-query", log, "-m", "ndcg@10 ap ndcg rbp", "-o", output]
    with full_disk(place):
        ended = run(*arguments, "--memory", "1MB")
    assert (ended.exit_code, ended.stdout) == (2, "")
    failed = {"output": f"cannot write '{output}'", "spilling": f"temporary files in '{place}'"}[
        what
    ]
    assert failed in ended.stderr
    assert ("TMPDIR" in ended.stderr) == (what == "spilling")
    assert "Traceback" not in ended.stderr
    assert list(place.iterdir()) == []
    assert sorted(file.name for file in tmp_path.iterdir()) == ["disk", "log.parquet"]


def _verdicts() -> pl.DataFrame:
    verdict = pr.check(pr.summarize(pr.per_query(a_log(), "ap")), ["ap >= 0"], on_fail="return")
    return pl.concat([verdict] * 2_000)


WRITERS: dict[str, Callable[[Path], object]] = {
    "write_run": lambda path: pr.trec.write_run(a_log(2_000), path),
    "write_qrels": lambda path: pr.trec.write_qrels(a_log(2_000), path),
    "write_junit": lambda path: pr.stats.write_junit(_verdicts(), path),
    "write_markdown": lambda path: pr.stats.write_markdown(_verdicts(), path),
}


@posix
@pytest.mark.parametrize("writer", WRITERS)
def test_every_writer_reports_a_full_disk(tmp_path: Path, writer: str) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    with full_disk(place), pytest.raises(pr.errors.SourceError, match=r"cannot write '.*disk/a'"):
        WRITERS[writer](place / "a")
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


def test_two_processes_write_one_output(tmp_path: Path) -> None:
    log, output = tmp_path / "log.parquet", tmp_path / "lists.parquet"
    frame = a_log(300)
    frame.write_parquet(log)
    code = """
import sys
from polars_rank.io.outputs import new_file
with new_file(sys.argv[1]) as part:
    part.write_text("late")
    print("written", flush=True)
    input()
"""
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(output)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "written\n"
    assert run("per-query", log, "-m", "ap rr", "-o", output).exit_code == 0
    _, err = other.communicate("\n")
    assert other.returncode == 1
    assert "already exists" in err
    assert_frame_equal(pl.read_parquet(output), pr.per_query(frame, ["ap", "rr"]))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["lists.parquet", "log.parquet"]


@posix
def test_run_again_after_a_kill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, output = tmp_path / "log.parquet", tmp_path / "lists.parquet"
    frame = a_log(30_000)
    frame.write_parquet(log)
    arguments = ["per-query", log, "-m", "ap rr", "-o", output]
    arguments += ["--layout", "shuffled"]
    slow = {"TMPDIR": str(tmp_path), "POLARS_MAX_THREADS": "1"}
    process = start(*arguments, env={**os.environ, **slow})
    while process.poll() is None and not any(
        file.name.endswith(".part") for file in tmp_path.iterdir()
    ):
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.communicate()
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
