"""The code in README.md runs as it stands: Python, and commands of polars-rank."""

import os
import re
import runpy
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import needs
import polars_rank as pr
import pytest
from commands import run
from strategies import make_fewer_queries

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


def test_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_fewer_queries(monkeypatch)
    names: dict[str, object] = {}
    for block in blocks("python"):
        exec(compile(block, "README.md", "exec"), names)
    assert {"log.parquet", "per_query.parquet"} <= {path.name for path in tmp_path.iterdir()}
    # And the commands, on the log that the code has written.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    commands = [
        line
        for block in blocks("sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("polars-rank")
    ]
    assert commands
    first, *others = commands
    done = subprocess.run(
        first, shell=True, env={**os.environ, "PATH": path}, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    for command in others:  # a new process for each would take seconds
        program, *arguments = shlex.split(command)
        code, _, errors = run(*arguments)
        assert (program, code) == ("polars-rank", 0), errors


def test_commands_name_extras_and_groups_that_exist():
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    lists = re.findall(r"[.k]\[([\w,]+)\]'", README)
    extras = {each for found in lists for each in found.split(",")}
    groups = {*re.findall(r"--group (\w+)", README)}
    assert {"all"} <= extras <= {*pyproject["project"]["optional-dependencies"]}
    assert {"test", "docs"} <= groups <= {*pyproject["dependency-groups"]}


def test_commands_print_what_is_shown(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    parts = [part for block in blocks("console") for part in re.findall(r"\$ (.*)\n([^$]*)", block)]
    assert len(parts) >= 4
    for command, shown in parts:
        program, *arguments = shlex.split(command)
        code, output, errors = run(*arguments)
        assert (program, code) == ("polars-rank", 0), errors
        start, more, _ = shown.partition("...\n")
        assert output.startswith(start) if more else output == shown or not shown


def test_the_number_of_metrics_is_that_of_the_library():
    (metrics,) = re.findall(r"\*\*(\d+) metrics\*\*", README)
    assert int(metrics) == pr.list_metrics().height


@pytest.fixture(scope="module")
def hook():
    needs.package("hatchling", "test")
    return runpy.run_path(str(ROOT / ".ci" / "hatch_build.py"))


def test_a_package_index_shows_no_broken_links_and_pictures(hook):
    """The index has no files beside the README."""
    for repository in ("", "https://forge.example/owner/polars_rank"):
        text = hook["readme"](README, repository, "v1.2.3")
        assert "](examples" in README and not re.search(r"\]\((?!https:)", text)
        assert len(text) > 0.8 * len(README)
        assert (f"[performance]({repository}/blob/v1.2.3/examples/" in text) == bool(repository)
        assert text.count("![") == (2 if repository else 0)


def test_an_index_links_to_known_addresses_only(hook):
    assert hook["urls"]("", "") == {}
    assert hook["urls"]("", "https://docs.example") == {"Documentation": "https://docs.example"}
    links = hook["urls"]("https://forge.example/a", "")
    assert links["Changelog"] == "https://forge.example/a/blob/main/CHANGELOG.md"
    assert [*links] == ["Repository", "Changelog", "Issues"]
