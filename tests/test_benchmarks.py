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
import numpy as np
from bench import __main__ as command
from bench import contenders, memory
from bench.logs import Log, write

ROOT = Path(__file__).parents[1]
LIGHT = ["polars_rank", "polars", "clickhouse", "duckdb", "datafusion", "numba"]
LIGHT = [x for x in LIGHT if importlib.util.find_spec(contenders.CONTENDERS[x].package)]


def benchmark(folder: Path, *options: str) -> tuple[str, list[dict[str, Any]]]:
    command = [sys.executable, "-m", "tests.bench", "--runs", "1", "--data", str(folder)]
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
