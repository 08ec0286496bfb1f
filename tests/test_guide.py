"""The code of the guide and of the skill for agents runs, and prints what the pages show.

Run `PYTHONPATH=tests python -m tests.test_guide` in the root of the project to update the printed
output on all pages.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest
from commands import run

# Metrics that pages define are removed.
from polars_rank.metrics.metric import REGISTER

GUIDE = Path(__file__).parents[1] / "examples" / "guide"
#: A block of code; the name of the file that a reader saves it in; the output below it.
BLOCK = re.compile(
    r"^```(?:\{code-block\} )?(?P<language>\w+)\n(?::caption: (?P<file>\S+)\n\n)?(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
SKILL = Path(str(files("polars_rank").joinpath("skills", "polars-rank", "SKILL.md")))
#: Pages of pairs of code, which peers/test_coming_from.py runs.
ELSEWHERE = ("coming_from.md",)
PAGES = {
    path.relative_to(GUIDE).with_suffix("").as_posix(): path
    for path in sorted(GUIDE.rglob("*.md"))
    if "```python" in path.read_text(encoding="utf-8") and path.name not in ELSEWHERE
}
#: The tasks of the skill by their titles.
TASKS = {
    section.partition("\n")[0]: section
    for section in re.split(r"^## ", SKILL.read_text("utf-8"), flags=re.MULTILINE)
    if "polars-rank init" in section or "pr.compare(" in section
}
#: Pages that need a server or packages that are not in the group "test": see stores/test_guide.py
#: and peers/test_guide.py.
STORES = "tasks/stores"
PACKAGES = {
    "tasks/inside_tools": ["sentence_transformers", "ir_measures", "mteb", "mlflow"],
    "tasks/latex": ["great_tables"],
    "tasks/lightgbm": ["lightgbm"],
    "tasks/spark": ["pyspark"],
    "tasks/training": ["lightgbm", "xgboost", "catboost"],
}
#: Spark's workers run on this Python, and its driver needs no network.
SPARK = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def executed(path: Path) -> str:
    """Run the code of a page in the current directory; return the page with what it prints."""
    text = path.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "__main__"}

    def replaced(block: re.Match[str]) -> str:
        language, code = block["language"], block["code"]
        if block["file"]:
            Path(block["file"]).parent.mkdir(parents=True, exist_ok=True)
            Path(block["file"]).write_text(code, encoding="utf-8")
        line = text.count("\n", 0, block.start("code"))
        printed = io.StringIO()
        if language == "python":
            with contextlib.redirect_stdout(printed):
                exec(compile("\n" * line + code, str(path), "exec"), names)
        elif language in ("sh", "yaml"):
            lines = re.sub(r">-\n +|\n {10}", " ", code)  # folded lines of YAML
            for command in re.findall(
                r"(?:^|run: +)(polars-rank (?:\\\n|.)*)", lines, re.MULTILINE
            ):
                _, *arguments = shlex.split(command.replace("\\\n", " "))
                status, output, errors = run(*arguments)
                # A gate that fails is an answer, and its table says so.
                fails = {"check": "fail", "gate": "FAIL", "referee": "DEFECT"}
                is_gate = arguments[0] in fails and fails[arguments[0]] in output
                assert status == 0 or is_gate, errors
                printed.write(output)
        output = "\n".join(line.rstrip() for line in printed.getvalue().splitlines()).strip("\n")
        whole, shown = block.group(), block["output"]
        if shown is None:
            assert not output or language != "python", f"{path}:{line}: the output is not shown"
            return whole
        return whole[: block.start("output") - block.start()] + output + "\n```\n"

    with pytest.MonkeyPatch.context() as changed:
        changed.syspath_prepend(os.getcwd())
        known, imported = {*REGISTER}, {*sys.modules}
        try:
            return BLOCK.sub(replaced, text)
        finally:  # remove the metrics that the page defines
            for name in REGISTER.keys() - known:
                module = REGISTER.pop(name).function.__module__
                if module not in imported:
                    sys.modules.pop(module, None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for setting in SPARK.items():
        monkeypatch.setenv(*setting)
    return tmp_path


def write_results() -> None:
    """Write a golden file and the results of two retrievers, of which the new one is better."""
    log = pr.datasets.search_log(120, 20, runs=["old", "new"], seed=1).collect()
    names = {"query": pl.format("q{}", "query"), "doc": pl.format("d{}", "doc")}
    log = log.sort("query", "score", descending=[False, True]).with_columns(**names)
    relevant = pl.col("doc").filter(pl.col("label") >= 2).unique(maintain_order=True)
    log.group_by("query", maintain_order=True).agg(relevant=relevant).write_ndjson("golden.jsonl")
    for run in ("old", "new"):
        found = log.filter(pl.col("score").is_not_null(), run=run)
        results = found.group_by("query", maintain_order=True).agg(results="doc")
        results.write_ndjson(f"{run}.jsonl")


def ran(title: str) -> str:
    """Run a task in the current directory, and return it with what it prints."""
    if "old.jsonl" in TASKS[title]:
        write_results()
    page = Path("task.md")
    page.write_text(TASKS[title], "utf-8")
    return executed(page)


def check_page(name: str) -> None:
    text = PAGES[name].read_text(encoding="utf-8")
    assert executed(PAGES[name]) == text, "run `PYTHONPATH=tests python -m tests.test_guide`"


@pytest.mark.parametrize("name", [name for name in PAGES if name not in (*PACKAGES, STORES)])
def test_code_runs_and_prints_what_the_page_shows(name: str, folder: Path) -> None:
    check_page(name)


def test_code_of_other_pages_can_be_read() -> None:
    for name in (*PACKAGES, STORES):
        for block in BLOCK.finditer(PAGES[name].read_text(encoding="utf-8")):
            if block["language"] == "python":
                compile(block["code"], name, "exec")


@pytest.mark.parametrize("title", TASKS)
def test_a_task_of_the_skill_runs_as_written(title: str, folder: Path) -> None:
    assert ran(title) == TASKS[title], "run `PYTHONPATH=tests python -m tests.test_guide`"


def test_the_skill_has_a_header_and_three_tasks() -> None:
    header = re.match(r"---\nname: ([a-z-]+)\ndescription: (.+)\n---\n", SKILL.read_text("utf-8"))
    assert header is not None and header[1] == SKILL.parent.name and len(header[2]) <= 1024
    assert len(TASKS) == 3


def main() -> None:
    """Write the printed output to the pages that can run here, and to the skill."""
    os.environ.update(SPARK)
    start, skill = os.getcwd(), SKILL.read_text("utf-8")
    for name in (*PAGES, *TASKS):
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            try:
                if name in TASKS:
                    skill = skill.replace(TASKS[name], ran(name))
                else:
                    with object_store() if name == STORES else contextlib.nullcontext():
                        PAGES[name].write_text(executed(PAGES[name]), encoding="utf-8")
            except ImportError as error:
                print(f"{name}: {error}")
            finally:
                os.chdir(start)
    SKILL.write_text(skill, "utf-8")


if __name__ == "__main__":
    from stores.test_guide import object_store

    main()
