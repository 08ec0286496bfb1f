"""The benchmark command runs, its contenders agree, and what cannot run is said."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest

needs.package("numpy", "test")
from benchmarks import __main__ as command
from benchmarks import contenders, memory
from benchmarks.logs import Log, write

ROOT = Path(__file__).parents[1]
LIGHT = ["polars_rank", "polars", "clickhouse", "duckdb", "datafusion", "numba"]
LIGHT = [x for x in LIGHT if importlib.util.find_spec(contenders.CONTENDERS[x].package)]


def benchmark(folder: Path, *options: str) -> tuple[str, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "tests.benchmarks", "--runs", "1", "--data", str(folder)]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}  # compiling takes longer than all the rest
    done = subprocess.run(
        [*command, *options], cwd=ROOT, env=env, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "benchmark.json").read_text("utf-8"))


def test_contenders_agree(tmp_path: Path) -> None:
    text, runs = benchmark(tmp_path, "--rows", "2_000", "--contenders", ",".join(LIGHT))
    assert [run["problem"] for run in runs] == [""] * len(LIGHT)
    assert len(runs[0]["means"]) == 20
    for run in runs:
        assert run["means"] == pytest.approx(runs[0]["means"], abs=1e-9)
        assert run["peak"] > 0
    assert "**2,000 rows**" in text


def test_the_pages_of_all_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.package("duckdb", "test")
    names = {name for cases in command.CASES.values() for _, some in cases for name in some}
    assert names <= {*contenders.CONTENDERS}
    pages = [Path("README.md"), Path("examples/guide/performance.md")]
    (tmp_path / "examples/guide").mkdir(parents=True)
    for page in pages:
        shutil.copy(ROOT / page, tmp_path / page)

    def generate(log: Log) -> Log:
        write(log)  # here, where nothing is measured, without a process of its own
        return log

    def run(*options: str) -> list[str]:
        options = ("--data", str(tmp_path / "data"), "--project", str(tmp_path), *options)
        monkeypatch.setattr(sys, "argv", ["", *options])
        command.main()
        return [(tmp_path / page).read_text("utf-8") for page in pages]

    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(command, "generate", generate)
    log, shuffled = Log(list_length=10), Log(list_length=10, layout="shuffled")
    cases = {"Engines": [(log, ["polars_rank", "duckdb"]), (shuffled, ["polars_rank", "duckdb"])]}
    monkeypatch.setattr(command, "CASES", cases)
    monkeypatch.setattr(memory, "TASKS", dict([next(iter(memory.TASKS.items()))]))
    readme, guide = run("--scale", "0.0002", "--runs", "1")
    assert "DuckDB 2" in readme and "DuckDB" in guide
    assert "| 10 documents, 2,000 rows, shuffled |" in guide and "| `evaluate` |" in guide
    assert run("--parts") == [readme, guide]
    for page, text in zip(pages, (readme, guide)):
        generated = r"(<!-- \w+: generated .*? -->).*?(<!-- end)"
        before = (ROOT / page).read_text("utf-8")
        without = [re.sub(generated, r"\1\2", each, flags=re.DOTALL) for each in (before, text)]
        assert without[0] == without[1]


def test_a_missing_contender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    log = json.dumps(Log()._asdict())
    assert contenders.main("duckdb", log, log)["problem"].startswith("not installed: ")


@pytest.mark.parametrize("ids", ["int", "string"])
@pytest.mark.parametrize("layout", ["sorted", "adjacent", "shuffled"])
def test_a_log_holds_the_same_lists_in_every_form(tmp_path: Path, layout: str, ids: str) -> None:
    log = Log(str(tmp_path), 2_000, 20, layout, ids, ties=0.3)
    frame, plain = (read(each) for each in (log, log._replace(layout="sorted", ids="int")))
    pieces = frame["query"].rle_id().n_unique()
    assert frame["query"].is_sorted() == (layout == "sorted")
    assert pieces > 1_000 if layout == "shuffled" else pieces == 100
    assert frame.select(pl.struct("query", "doc").n_unique()).item() == 2_000
    values, expected = (pr.evaluate(each, ["ndcg@10", "ap"]).row(0) for each in (frame, plain))
    assert values == pytest.approx(expected, abs=1e-12)


def read(log: Log) -> pl.DataFrame:
    write(log)
    return pl.read_parquet(log.path)


def test_the_table_of_memory_has_all_functions_that_read_a_log_or_values() -> None:
    assert memory.measured_functions() == memory.public_functions()


def test_the_table_of_memory(tmp_path: Path) -> None:
    lines = memory.table(tmp_path, [2_000], "`summarize`").splitlines()
    assert lines[0] == "| function | memory grows with | 0.002 million rows, MB |"
    assert lines[2].startswith("| `summarize` of `per_query` | queries | ")
