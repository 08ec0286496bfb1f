"""Every example runs, and says something."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

#: Those that need another engine, and the tests that run them.
ELSEWHERE = {"on_spark": "tests/spark", "ray_data": "tests/conformance"}

EXAMPLES = sorted(
    path
    for path in Path(__file__).parent.parent.joinpath("examples").glob("*.py")
    if path.stem not in ELSEWHERE
)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_runs(example: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", str(example)]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=os.environ
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout
    assert list(tmp_path.iterdir()) == []


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 8
