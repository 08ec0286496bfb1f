"""The action of GitHub that `init` writes: its shell lines, with a `gh` that answers from a file."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import needs
import pytest

needs.package("scipy", "stats")
needs.package("click", "cli")

from commands import run  # noqa: E402

#: The interface of comments of GitHub: a list of comments, a new one, and a change of one.
GH = """
import json, os, re, sys
from pathlib import Path

store = Path(os.environ["STORE"])
comments = json.loads(store.read_text("utf-8"))
words = sys.argv[1:]
if os.environ.get("FORBIDDEN"):
    sys.exit("HTTP 403")
assert words.pop(0) == "api" and os.environ["GH_TOKEN"]
if "--jq" in words:
    assert words[1] == "repos/me/app/issues/7/comments"
    assert words[-1] == ".[] | select(.body | startswith(env.MARKER)) | .id"
    marker = os.environ["MARKER"]
    print(*(each["id"] for each in comments if each["body"].startswith(marker)), sep="\\n")
else:
    flag, method, path, field, body = words
    assert (flag, field, body[:6]) == ("--method", "-F", "body=@")
    text = Path(body[6:]).read_text("utf-8")
    if method == "POST":
        assert path == "repos/me/app/issues/7/comments"
        comments.append({"id": 10 + len(comments), "body": text})
    else:
        assert method == "PATCH"
        number = int(path.removeprefix("repos/me/app/issues/comments/"))
        next(each for each in comments if each["id"] == number)["body"] = text
    store.write_text(json.dumps(comments), "utf-8")
"""


class Step(NamedTuple):
    """The condition of a step, its variables and its lines."""

    condition: str
    variables: dict[str, str]
    lines: str


def steps(text: str) -> list[Step]:
    """Return the steps of an action that run lines."""
    found = []
    for step in re.split(r"^    - ", text.partition("  steps:\n")[2], flags=re.MULTILINE)[1:]:
        lines = re.search(r"^(?: {6})?run: (?:\|\n((?: {8}.*\n|\n)+)|(.*))", step, re.MULTILINE)
        assert lines is not None and "shell: bash" in step
        condition = re.search(r"^(?: {6})?if: (?:>-\n)?((?:.*'\n|.*\n)(?: {8}.*\n)*)", step, re.M)
        variables = dict(re.findall(r'^ {8}([A-Z_]+): "?(.*?)"?$', step, re.MULTILINE))
        found.append(
            Step(
                " ".join(condition[1].split()) if condition else "",
                variables,
                textwrap.dedent(lines[1] or lines[2]),
            )
        )
    return found


class Runner:
    """A job that runs the steps of the action, as GitHub runs them."""

    def __init__(self, folder: Path) -> None:
        self.bash = needs.program("bash", package="bash")
        self.steps = steps(Path(".github/actions/gate/action.yml").read_text("utf-8"))
        self.summary, self.store = folder / "summary.md", folder / "comments.json"
        self.store.write_text("[]", "utf-8")
        programs = folder / "bin"
        programs.mkdir()
        (folder / "gh.py").write_text(GH, "utf-8")
        for name, words in {
            "gh": f'"{folder / "gh.py"}" "$@"', "polars-rank": '-m polars_rank "$@"',
            "pip": """-c 'import sys; print("pip", sys.argv[1:])' "$@" """,
        }.items():  # fmt: skip
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {words}\n', "utf-8")
            (programs / name).chmod(0o755)
        self.environment = {
            **os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(Path(__file__).parents[2]), "RUNNER_TEMP": str(folder),
            "GITHUB_STEP_SUMMARY": str(self.summary), "GITHUB_REPOSITORY": "me/app",
            "STORE": str(self.store),
        }  # fmt: skip

    def run(self, step: Step, **variables: str) -> subprocess.CompletedProcess[str]:
        given = {
            "inputs.golden": "golden.jsonl", "inputs.results": "results.jsonl", "inputs.name": "gate",
            "inputs.arguments": "", "inputs.package": "polars_rank[cli,stats]",
            "github.token": "secret", "github.event.pull_request.number": "7",
        } | {f"inputs.{name}": value for name, value in variables.items()}  # fmt: skip
        environment = dict(self.environment)
        for name, text in step.variables.items():
            environment[name] = re.sub(r"\$\{\{ (\S+) \}\}", lambda found: given[found[1]], text)
        script = self.store.with_name("step.sh")
        script.write_text(step.lines, "utf-8")
        return subprocess.run(
            [self.bash, "--noprofile", "--norc", "-eo", "pipefail", script],
            env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip

    @property
    def comments(self) -> list[str]:
        return [each["body"] for each in json.loads(self.store.read_text("utf-8"))]


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert run("init")[0] == 0
    return Runner(tmp_path)


def test_the_summary_is_written_and_the_code_is_that_of_the_gate(runner: Runner) -> None:
    install, gate, _ = runner.steps
    assert install.condition == "inputs.package != ''"
    assert runner.run(install).stdout == "pip ['install', 'polars_rank[cli,stats]']\n"
    assert runner.run(gate).returncode == 0
    page = runner.summary.read_text("utf-8")
    assert page.startswith("### Retrieval gate: PASSED: 3 rules\n")
    results = Path("results.jsonl")
    results.write_text(results.read_text("utf-8").replace('"password", ', ""), "utf-8")
    code = runner.run(gate)
    assert (code.returncode, "FAILED: 1 of 3 rules" in code.stdout) == (1, True)
    both = runner.summary.read_text("utf-8")
    assert both.startswith(page + "### Retrieval gate: FAILED: 1 of 3 rules\n")
    # Two files of results, an option, and an error, of which there is no page.
    Path("again.jsonl").write_bytes(results.read_bytes())
    code = runner.run(gate, results="results.jsonl again.jsonl", arguments="--metrics mrr@10")
    assert (code.returncode, "2 repetitions" in code.stdout) == (1, True)
    code = runner.run(gate, golden="none.jsonl")
    assert (code.returncode, "none.jsonl" in code.stderr) == (2, True)
    last = "### Retrieval gate: error, see the log (exit code 2)\n"
    assert runner.summary.read_text("utf-8").endswith(last)


def test_one_comment_is_written_and_then_updated(runner: Runner) -> None:
    _, gate, comment = runner.steps
    assert comment.condition == (
        "always() && steps.gate.outcome != 'skipped' && inputs.comment == 'true' "
        "&& github.event.pull_request.number"
    )
    runner.store.write_text(json.dumps([{"id": 3, "body": "Nice!"}]), "utf-8")
    runner.run(gate)
    assert runner.run(comment).returncode == 0
    assert runner.run(comment).returncode == 0
    passed = "<!-- polars-rank gate -->\n### Retrieval gate: PASSED: 3 rules\n"
    nice, first = runner.comments
    assert nice == "Nice!" and first.startswith(passed)
    Path("results.jsonl").write_text("{}", "utf-8")
    runner.run(gate)
    runner.run(comment)
    assert runner.comments == [
        "Nice!",
        passed[:26] + "### Retrieval gate: error, see the log (exit code 2)\n",
    ]
    runner.run(comment, name="other gate")
    assert len(runner.comments) == 3 and "<!-- polars-rank other gate -->" in runner.comments[2]
    # Without the permission, the step fails, which is no failure of the job.
    runner.environment["FORBIDDEN"] = "1"
    assert runner.run(comment).returncode != 0
    assert "continue-on-error: true" in Path(".github/actions/gate/action.yml").read_text("utf-8")


def test_the_workflow_uses_the_action(runner: Runner) -> None:
    written = Path(".github/actions/gate/action.yml").read_text("utf-8")
    own = Path(__file__).parents[2] / ".github" / "actions" / "gate" / "action.yml"
    assert own.read_text("utf-8") == written, "copy polars_rank/cli/templates/action.yml"
    workflow = Path(".github/workflows/retrieval.yml").read_text("utf-8")
    assert "uses: ./.github/actions/gate\n" in workflow and "pull-requests: write\n" in workflow
    yaml = needs.package("yaml", "docs")
    inputs = yaml.safe_load(written)["inputs"]
    [used] = [step for step in yaml.safe_load(workflow)["jobs"]["gate"]["steps"] if "with" in step][
        1:
    ]
    assert {*used["with"]} <= {*inputs}
    texts = re.findall(r"\$\{\{ inputs\.(\w+) \}\}", written)
    assert {*texts, "comment"} == {*inputs}
