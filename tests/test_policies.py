"""Files for people and agents who work on the project: what they name exists."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import needs
import polars_rank as pr
import pytest

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
PAGES = ("AGENTS.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "SECURITY.md")
FORMS = sorted(GITHUB.glob("ISSUE_TEMPLATE/[0-9]*.yml"))
GUIDE = ROOT / "examples" / "guide"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def read_yaml(path: Path) -> Any:
    return needs.package("yaml", "test").safe_load(path.read_text("utf-8"))


def named(page: str) -> list[str]:
    """Return the words in backticks, and those of commands."""
    text = (GITHUB / page).read_text("utf-8")
    return [word for code in re.findall(r"`+([^`]+)`+", text) for word in code.split()]


@pytest.mark.parametrize("page", PAGES)
def test_files_tests_and_lists_exist(page: str) -> None:
    for word in named(page):
        if re.match(r"(polars_rank|tests|examples|\.github|\.ci)/", word):
            path, *names = word.split("::")
            assert (ROOT / path).exists(), word
            for name in names:
                assert re.search(rf"(def|class) {name}\b", (ROOT / path).read_text("utf-8")), word


def test_contributing_has_its_lists() -> None:
    text = (GITHUB / "CONTRIBUTING.md").read_text("utf-8")
    sections = re.findall(r"^## Add an? (.*)", text, re.MULTILINE)
    assert sections == [
        "metric", "preset", "conformance case", "chart", "reader", "result column",
    ]  # fmt: skip
    assert text.count("| missing | fails |") == len(sections)


def test_the_citation_is_of_this_version() -> None:
    citation = read_yaml(GITHUB / "CITATION.cff")
    assert (citation["version"], citation["license"]) == (pr.__version__, PROJECT["license"])
    assert citation["authors"] == PROJECT["authors"]
    assert {"cff-version", "message", "title"} <= citation.keys()


def test_a_script_fills_in_the_citation() -> None:
    script = runpy.run_path(str(ROOT / ".ci" / "citation.py"))
    text = (GITHUB / "CITATION.cff").read_text("utf-8")
    assert script["filled"](text, script["addresses"]()) == text, "run `python .ci/citation.py`"
    fields = {
        "version": "1.2.3",
        "doi": "10.1/a",
        "repository-code": "",
        "url": "https://b.example",
    }
    new = script["filled"](text, fields)
    assert 'in Polars"\nversion: 1.2.3\ndoi: 10.1/a\nurl: https://b.example\nlicense' in new
    assert script["filled"](new, script["addresses"]()) == text


def test_the_page_on_stability_has_the_supported_versions() -> None:
    page = " ".join((GUIDE / "stability.md").read_text("utf-8").split())
    (polars,) = (each for each in PROJECT["dependencies"] if each.startswith("polars>"))
    lowest, below = re.findall(r"[\d.]+", polars)
    assert f"Python {PROJECT['requires-python'].removeprefix('>=')} and later" in page
    assert f"Polars from {lowest} up to, but without, {below}.0" in page


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_for_issues_is_complete(form: Path) -> None:
    content = read_yaml(form)
    assert {"name", "description", "body"} <= content.keys()
    fields = [each for each in content["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in fields}) == len(fields) > 1
    assert all(each["type"] in ("input", "textarea") for each in fields)
    assert all(each["attributes"]["label"] for each in fields)
    assert any(each.get("validations", {}).get("required") for each in fields)


def test_the_workflow_runs_both_commands_of_the_readme() -> None:
    """As the workflow selects the commands, and changes them for Windows."""
    workflow = read_yaml(GITHUB / "workflows" / "tests.yml")
    linux, other = (workflow["jobs"][name]["steps"] for name in ("linux", "readme"))
    assert linux[-1]["run"] == ".ci/run" and (ROOT / ".ci" / "run").is_file()
    script = other[-1]["run"]
    pattern = re.search(r"grep '(.*)' README.md", script)
    assert pattern is not None
    commands = re.findall(f"{pattern[1]}.*", (ROOT / "README.md").read_text("utf-8"), re.MULTILINE)
    for old, new in re.findall(r"-e 's\|(.*?)\|(.*?)\|g?'", script):
        commands = [re.sub(old, new, command) for command in commands]
    demo, tests = commands
    assert demo.startswith("python -m venv .venv && .venv/Scripts/pip ") and "demo" in demo
    assert tests.endswith(".venv-test/Scripts/python -m pytest -q -n auto")
    assert "/bin/" not in demo + tests


def test_pages_for_language_models_exist() -> None:
    links = re.findall(r"\]\(([^)]+)\)", (GUIDE / "llms.txt").read_text("utf-8"))
    sources = {link: GUIDE / link.replace(".html", ".md") for link in links}
    del sources["reference/index.html"]  # generated when the site is built
    sources["SKILL.md"] = ROOT / "polars_rank" / "skills" / "polars-rank" / "SKILL.md"
    assert [link for link, source in sources.items() if not source.is_file()] == []


@pytest.mark.parametrize("module", ["clicks", "catalog", "judges"])
def test_experimental_modules_say_so(module: str) -> None:
    assert "Experimental" in (getattr(pr, module).__doc__ or "")
    pages = [path.read_text("utf-8") for path in (GUIDE / "tasks").glob("*.md")]
    using = [page for page in pages if re.search(rf"^[^`\n]*\bpr\.{module}\.", page, re.MULTILINE)]
    assert using
    assert all(f"`pr.{module}` is experimental" in page for page in using)


def test_no_names_differ_in_case_only() -> None:
    """File systems of macOS and Windows would have one file for both."""
    names = [path.relative_to(ROOT).as_posix() for folder in ("polars_rank", "tests", "examples")
             for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]  # fmt: skip
    assert len({name.lower() for name in names}) == len(names)
