"""The skill for coding agents: its lines run as written, and print what it shows.

Run `PYTHONPATH=tests python -m tests.test_skill` in the root of the project to update the output.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from importlib.resources import files
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest
from test_guide import executed

SKILL = Path(str(files("polars_rank").joinpath("skills", "polars-rank", "SKILL.md")))
#: The tasks of the skill by their titles.
TASKS = {
    section.partition("\n")[0]: section
    for section in re.split(r"^## ", SKILL.read_text("utf-8"), flags=re.MULTILINE)
    if "polars-rank init" in section or "pr.compare(" in section
}


def write_results() -> None:
    """Write a golden file and the results of two retrievers, of which the new one is better."""
    log = pr.datasets.search_log(120, 20, runs=["old", "new"], seed=1).collect()
    names = {"query": pl.format("q{}", "query"), "doc": pl.format("d{}", "doc")}
    log = log.sort("query", "score", descending=[False, True]).with_columns(**names)
    relevant = pl.col("doc").filter(pl.col("label") >= 2).unique(maintain_order=True)
    _write("golden", log.group_by("query", maintain_order=True).agg(relevant=relevant))
    for run in ("old", "new"):
        found = log.filter(pl.col("score").is_not_null(), run=run)
        _write(run, found.group_by("query", maintain_order=True).agg(results="doc"))


def _write(name: str, table: pl.DataFrame) -> None:
    text = "".join(json.dumps(row) + "\n" for row in table.iter_rows(named=True))
    Path(f"{name}.jsonl").write_text(text, "utf-8")


def ran(title: str) -> str:
    """Run a task in the current directory, and return it with what it prints."""
    if "old.jsonl" in TASKS[title]:
        write_results()
    page = Path("task.md")
    page.write_text(TASKS[title], "utf-8")
    return executed(page)


@pytest.mark.parametrize("title", TASKS)
def test_a_task_runs_as_written(
    title: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ran(title) == TASKS[title], "run `PYTHONPATH=tests python -m tests.test_skill`"


def test_there_are_three_tasks_and_a_header() -> None:
    assert [*TASKS] == ["From a golden file to a table", "Compare two retrievers", "Gate a build"]
    header = re.match(r"---\nname: ([a-z-]+)\ndescription: (.+)\n---\n", SKILL.read_text("utf-8"))
    assert header is not None and header[1] == SKILL.parent.name and len(header[2]) <= 1024


def main() -> None:
    start = os.getcwd()
    text = SKILL.read_text("utf-8")
    for title, section in TASKS.items():
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                text = text.replace(section, ran(title))
            finally:
                os.chdir(start)
    SKILL.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
