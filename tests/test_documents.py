"""Examples run; files of the project name what exists, and its versions and licenses agree."""

from __future__ import annotations

import inspect
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from calls import FUNCTIONS
from polars_rank.metrics.documentation import ENTRY  # an entry of a section of a docstring
from strategies import make_fewer_queries

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
GUIDE = ROOT / "examples" / "guide"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
#: Examples that need another engine, a browser or processes, and the tests that run them.
ELSEWHERE = {
    "on_spark": "tests/spark",
    "pictures": "tests/browser",
    "ray_data": "tests/peers",
    "process_pool": "test_a_pool_of_processes_runs",
}
EXAMPLES = [path for path in sorted(ROOT.glob("examples/*.py")) if path.stem not in ELSEWHERE]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_examples_run(
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
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / "process_pool.py")]
    # The frames that it prints have lines that are not in the encoding of pipes on Windows.
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, env=env
    )
    assert ended.returncode == 0 and ended.stdout, ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_docstrings_describe_each_parameter_once() -> None:
    wrong = {}
    for name, function in FUNCTIONS.items():
        text = (inspect.getdoc(function) or "").partition("Parameters\n----------\n")[2]
        section = re.split(r"\n\n(?=[A-Z][\w ]+\n---)", text)[0]
        entries = [each for names, _ in ENTRY.findall(section + "\n") for each in names.split(", ")]
        described = [entry.lstrip("*") for entry in entries]
        parameters = {*inspect.signature(function).parameters}
        missing = parameters ^ {*described} if inspect.isroutine(function) and described else set()
        if missing - {"definitions", "options"} or len(described) != len({*described}):
            wrong[name] = described
    assert wrong == {}


def read_yaml(path: Path) -> Any:
    return needs.package("yaml", "test").safe_load(path.read_text("utf-8"))


def test_links_and_names_of_files_lead_somewhere() -> None:
    """Links of pages, and what files for developers name in backticks."""
    wrong = []
    pages = ROOT / "README.md", GUIDE / "llms.txt", *GUIDE.rglob("*.md"), *GITHUB.glob("*.md")
    for page in pages:
        text = re.sub(r"```.*?```", "", page.read_text("utf-8"), flags=re.DOTALL)
        for link in re.findall(r"\]\(([^)#\s]+)", text):
            folder = ROOT if link.startswith("polars_rank/") else page.parent
            folder = ROOT / "polars_rank/skills/polars-rank" if link == "SKILL.md" else folder
            target = folder / link.replace(".html", ".md")
            generated = re.search("reference/|charts/", link) and page.is_relative_to(GUIDE)
            if not (re.match(r"\w+:", link) or generated or target.exists()):
                wrong.append((page.name, link))
    for page in GITHUB.glob("*.md"):
        for code in re.findall(r"`+([^`]+)`+", page.read_text("utf-8")):
            for word in re.findall(
                r"(?:^|\s)((?:polars_rank|tests|examples|\.github|\.ci)/\S*)", code
            ):
                path, *names = word.split("::")
                text = (ROOT / path).read_text("utf-8") if names and (ROOT / path).exists() else ""
                known = [re.search(rf"(def|class) {name}\b", text) for name in names]
                if not ((ROOT / path).exists() and all(known)):
                    wrong.append((page.name, word))
    assert wrong == []


def test_versions_and_licenses_agree() -> None:
    citation = read_yaml(GITHUB / "CITATION.cff")
    assert (citation["version"], citation["license"]) == (pr.__version__, PROJECT["license"])
    assert citation["authors"] == PROJECT["authors"]
    assert {"cff-version", "message", "title"} <= citation.keys()


def test_a_script_fills_in_the_citation() -> None:
    script = runpy.run_path(str(ROOT / ".ci" / "citation.py"))
    text = (GITHUB / "CITATION.cff").read_text("utf-8")
    assert script["filled"](text, script["addresses"]()) == text, "run `python .ci/citation.py`"
    addresses = {"repository-code": "", "url": "https://b.example"}
    new = script["filled"](text, {"version": "1.2.3", "doi": "10.1/a", **addresses})
    assert 'in Polars"\nversion: 1.2.3\ndoi: 10.1/a\nurl: https://b.example\nlicense' in new
    assert script["filled"](new, script["addresses"]()) == text
