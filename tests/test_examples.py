"""Every example runs, and says something."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from strategies import make_fewer_queries

FOLDER = Path(__file__).parents[1] / "examples"
#: Those that need another engine or processes, and the tests that run them.
ELSEWHERE = {
    "on_spark": "tests/spark",
    "ray_data": "tests/peers",
    "process_pool": "test_a_pool_of_processes_runs",
}

EXAMPLES = sorted(path for path in FOLDER.glob("*.py") if path.stem not in ELSEWHERE)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_runs(
    example: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example)])
    monkeypatch.syspath_prepend(example.parent)
    make_fewer_queries(monkeypatch)  # what examples say of them is not looked at
    with pl.Config():
        runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out
    assert list(tmp_path.iterdir()) == []


def test_a_pool_of_processes_runs(tmp_path: Path) -> None:
    """Its processes import the example as the main module, so that it has one of its own."""
    command = [sys.executable, "-W", "error", str(FOLDER / "process_pool.py")]
    # The frames that it prints have lines that are not in the encoding of pipes on Windows.
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, env=env
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout
    assert list(tmp_path.iterdir()) == []


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 8
