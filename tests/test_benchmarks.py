"""The benchmark command runs, its contenders agree, and what cannot run is said."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("numpy", reason="the logs are made with it (extra `bench`)")
ROOT = Path(__file__).parents[1]
LIGHT = ["polars_rank", *(name for name in ("duckdb", "numba") if importlib.util.find_spec(name))]


def benchmark(folder: Path, *options: str) -> tuple[str, list[dict]]:
    command = [sys.executable, "-m", "tests.benchmarks", "--runs", "1", "--data", str(folder)]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, json.loads((folder / "benchmark.json").read_text())


def test_contenders_agree(tmp_path):
    text, runs = benchmark(tmp_path, "--rows", "2_000", "--contenders", ",".join(LIGHT))
    assert [run["problem"] for run in runs] == [""] * len(LIGHT)
    assert len(runs[0]["means"]) == 20
    for run in runs:
        assert run["means"] == pytest.approx(runs[0]["means"], abs=1e-9)
        assert run["peak"] > 0
    assert "**2,000 rows**" in text
    assert text == (tmp_path / "benchmark.md").read_text("utf-8") + text.splitlines()[-1] + "\n"


def test_a_slow_or_missing_contender(tmp_path):
    options = ["--rows", "2_000", "--limit-rows", "1_000", "--metrics", "ndcg@10"]
    text, runs = benchmark(tmp_path, *options, "--contenders", "polars_rank,pytrec_eval,torchmetrics")
    at = {(run["contender"], run["rows"]) for run in runs}
    assert {("polars_rank", 1_000), ("polars_rank", 2_000), ("pytrec_eval", 1_000)} <= at
    assert ("pytrec_eval", 2_000) not in at
    if importlib.util.find_spec("torchmetrics") is None:
        assert "torchmetrics (not installed: " in text


@pytest.mark.parametrize("layout", ["adjacent", "shuffled"])
def test_layout_and_ids_change_no_mean(tmp_path, layout):
    options = ["--rows", "2_000", "--contenders", "polars_rank"]
    _, (plain,) = benchmark(tmp_path, *options)
    _, (other,) = benchmark(tmp_path, *options, "--layout", layout, "--ids", "string")
    assert other["means"] == pytest.approx(plain["means"], abs=1e-9)
