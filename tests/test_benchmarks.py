"""The benchmark command runs, and its contenders agree."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import needs
import pytest

needs.package("numpy", "test")
from tests.bench import contenders

ROOT = Path(__file__).parents[1]
LIGHT = [
    "polars_rank",
    "scan_parquet",
    "dataframe",
    "polars",
    "clickhouse",
    "duckdb",
    "datafusion",
    "numba",
]
LIGHT = [x for x in LIGHT if importlib.util.find_spec(contenders.CONTENDERS[x].package)]


def test_programs_can_be_imported() -> None:
    needs.package("scipy", "stats")
    for path in (ROOT / "tests" / "bench").glob("*.py"):
        importlib.import_module(f"tests.bench.{path.stem}")


def test_contenders_agree(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.bench", "--runs", "1", "--data", str(tmp_path)]
    command += ["--rows", "2_000", "--contenders", ",".join(LIGHT)]
    env = {**os.environ, "NUMBA_DISABLE_JIT": "1"}  # compiling takes longer than all the rest
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    runs = json.loads((tmp_path / "benchmark.json").read_text("utf-8"))
    assert [run["problem"] for run in runs] == [""] * len(LIGHT)
    assert len(runs[0]["means"]) == 20
    for run in runs:
        assert run["means"] == pytest.approx(runs[0]["means"], abs=1e-9)
        assert run["peak"] > 0
    assert "100 documents, 2,000 rows" in done.stdout
