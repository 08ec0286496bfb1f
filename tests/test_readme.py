"""The code in README.md runs as it stands: Python, and commands of polars-rank."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from commands import run
from strategies import make_fewer_queries

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


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
        for line in block.splitlines()
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


def test_commands_name_extras_that_exist():
    named = {each for found in re.findall(r"\.\[([\w,]+)\]'", README) for each in found.split(",")}
    assert {"cli", "report", "test"} <= named
    pyproject = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    for extra in named:
        assert re.search(rf"^{extra} = \[", pyproject, re.MULTILINE)


def test_pictures_are_there():
    pictures = re.findall(r"!\[.+\]\((.+)\)", README)
    assert len(pictures) == 2
    for picture in pictures:
        assert (Path(__file__).parents[1] / picture).read_bytes().startswith(b"\x89PNG")
