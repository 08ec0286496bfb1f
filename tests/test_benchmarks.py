"""The benchmark command runs, its contenders agree, and the guide has the numbers of simulations."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import needs
import pytest

needs.package("numpy", "test")
import numpy as np

from tests.bench import contenders

ROOT = Path(__file__).parents[1]
LIGHT = ["polars_rank", "polars", "clickhouse", "duckdb", "datafusion", "numba"]
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


def cells(name: str, *starts: str) -> list[float]:
    """Return the numbers of the first row that starts with these cells, on a page of results."""
    text = (ROOT / "tests" / "bench" / f"{name}.md").read_text(encoding="utf-8")
    row = re.search(rf"^{re.escape('| ' + ' | '.join(starts) + ' |')}(.*)\|$", text, re.MULTILINE)
    return [float(each) for each in re.findall(r"\d+(?:\.\d+)?", row[1])]


def test_numbers_of_simulations_in_the_guide_are_those_of_the_results() -> None:
    guide = ROOT / "examples" / "guide"
    text = (guide / "statistics.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (100 of [\d,]+) \| (.*) \|$", text, re.MULTILINE)
    assert len(rows) == 2
    for sampled, shown in rows:
        found = [cells("sampling", sampled, run, "hit_rate@10") for run in ("power", "bold")]
        assert shown == " | ".join(f"{a:.3f} and {b:.3f}" for a, b in zip(*found, strict=True))
    logs = [("noise", "40"), ("noise", "200"), ("similar runs", "40"), ("similar runs", "200")]
    tuned, plain = zip(*(cells("fusion", *each, "5")[2:4] for each in logs), strict=True)
    text = " ".join(text.split())
    assert f"in {tuned[0]:.0f}% of logs" in text and round(tuned[0]) == round(tuned[1])
    assert f"in {tuned[2]:.0f}% to {tuned[3]:.0f}% if the runs differed" in text
    assert f"without the correction, in {plain[1]:.0f}% and {plain[3]:.0f}%" in text
    five, ten = (cells("fusion", "independent values", "200", each)[2] for each in ("5", "10"))
    assert f"{five:.0f}% of the intervals contained the mean, and {ten:.0f}% with 10" in text
    nightly = " ".join((guide / "tasks" / "nightly.md").read_text(encoding="utf-8").split())
    rows = [(kind, "0.00") for kind in ("exponential", "2% lose 1")]
    rows += [("normal", each) for each in ("0.00", "0.16", "0.32")]
    most = max(cells("levels", *row, "repeated, cluster='day'")[0] for row in rows)
    assert f"at most {100 * most:g}% had an interval that missed" in nightly
    share, *_ = cells("levels", "normal", "0.32", "repeated, cluster=None")
    assert f"{100 * share:g}% of those whose nights differ did" in nightly
    (*_, median) = cells("levels", "normal, a loss of 0.1", "0.00", "repeated, cluster='day'")
    assert f"shows after {median:g} nights (median" in nightly


def test_numbers_of_many_days_in_the_guide_are_those_of_the_results() -> None:
    tasks = ROOT / "examples" / "guide" / "tasks"
    nightly = " ".join((tasks / "nightly.md").read_text(encoding="utf-8").split())
    spark = (tasks / "spark.md").read_text(encoding="utf-8")
    measured = (ROOT / "tests" / "bench" / "days.md").read_text(encoding="utf-8")
    peaks = [
        f"{int(mb.replace(',', '')) / 1000:.1f} GB"
        for mb in re.findall(r"(?:integers|characters) \| ([\d,]+) \|", measured)
    ]
    assert (
        f"10 million values of two runs (30 days) take {peaks[0]}, 30 million take {peaks[1]}"
        in nightly
    )
    assert f"with ids of 40 characters take {peaks[2]}" in nightly
    assert f"`compare` of 10 million values takes {peaks[0]}" in spark
    ratios = [float(each) for each in re.findall(r"@10 \| (\d\.\d+) \|", measured)]
    assert len(ratios) == 2 and all(abs(each - 1) < 0.01 for each in ratios)


def test_ordinary_intervals_of_every_night_miss_as_often_as_the_guide_says() -> None:
    text = (ROOT / "examples" / "guide" / "tasks" / "nightly.md").read_text(encoding="utf-8")
    low, high = re.search(r"in (\d+)% to (\d+)% of simulated\s+years", text).groups()
    nights = np.arange(1, 366)
    means = np.random.default_rng(0).normal(size=(2_000, 365)).cumsum(axis=1) / nights
    missed = (np.abs(means) * np.sqrt(nights) > 1.96).any(axis=1).mean()
    assert int(low) < 100 * missed < int(high)
