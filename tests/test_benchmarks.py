"""The benchmark command runs, its contenders agree, and what cannot run is said."""

from __future__ import annotations

import importlib.util
import json
import os
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
from benchmarks import memory
from benchmarks.logs import Log, write

ROOT = Path(__file__).parents[1]
LIGHT = ["polars_rank", *(name for name in ("duckdb", "numba") if importlib.util.find_spec(name))]
LIGHT += ["clickhouse"] * bool(importlib.util.find_spec("chdb"))


def benchmark(folder: Path, *options: str) -> tuple[str, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "tests.benchmarks", "--runs", "1", "--data", str(folder)]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}  # compiling takes longer than all the rest
    done = subprocess.run(
        [*command, *options], cwd=ROOT, env=env, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "benchmark.json").read_text())


def test_contenders_agree(tmp_path: Path) -> None:
    text, runs = benchmark(tmp_path, "--rows", "2_000", "--contenders", ",".join(LIGHT))
    assert [run["problem"] for run in runs] == [""] * len(LIGHT)
    assert len(runs[0]["means"]) == 20
    for run in runs:
        assert run["means"] == pytest.approx(runs[0]["means"], abs=1e-9)
        assert run["peak"] > 0
    assert "**2,000 rows**" in text
    assert (tmp_path / "benchmark.md").read_text("utf-8") in text


def test_a_slow_or_missing_contender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    needs.package("duckdb", "test")

    def generate(log: Log) -> Log:
        write(log)  # here, where nothing is measured, without a process of its own
        return log

    options = "--runs 1 --rows 2_000 --limit-rows 1_000 --metrics ndcg@10 --contenders"
    names = "duckdb,pytrec_eval,torchmetrics"
    monkeypatch.setattr(sys, "argv", ["", *options.split(), names, "--data", str(tmp_path)])
    monkeypatch.setattr(command, "generate", generate)
    monkeypatch.chdir(ROOT)
    command.main()
    text, runs = capsys.readouterr().out, json.loads((tmp_path / "benchmark.json").read_text())
    at = {(run["contender"], run["rows"]) for run in runs}
    assert {("duckdb", 1_000), ("duckdb", 2_000), ("pytrec_eval", 1_000)} <= at
    assert ("pytrec_eval", 2_000) not in at
    if importlib.util.find_spec("torchmetrics") is None:
        assert "torchmetrics (not installed: " in text


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
