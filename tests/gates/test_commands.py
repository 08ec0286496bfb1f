"""The commands `init` and `gate`: exit codes, files, and rules in polars-rank.toml."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import needs
import pytest

needs.package("scipy", "stats")
needs.package("click", "cli")

from commands import run  # noqa: E402

GATE = ("gate", "golden.jsonl", "results.jsonl")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder after `init`, which is the working directory."""
    monkeypatch.chdir(tmp_path)
    assert run("init")[0] == 0
    return tmp_path


def change(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new), "utf-8")


def worsen(folder: Path) -> None:
    """Remove a relevant document from the results."""
    change(folder / "results.jsonl", '"password", ', "")


def test_the_example_passes_and_fails_without_a_relevant_document(folder: Path) -> None:
    code, shown, errors = run(*GATE)
    assert (code, shown.splitlines()[0]) == (0, "PASSED: 2 rules")
    assert "Warning" not in errors
    worsen(folder)
    code, shown, _ = run(*GATE)
    assert (code, shown.splitlines()[0]) == (1, "FAILED: 1 of 2 rules")
    assert "recall@5 >= 0.9 0.75 4 " in " ".join(shown.split())
    assert "reset a password  account  0.000" in shown


def test_init_keeps_existing_files(folder: Path) -> None:
    (folder / "results.jsonl").write_text("mine", "utf-8")
    (folder / "polars-rank.toml").unlink()
    code, shown, _ = run("init")
    assert code == 0
    assert "Kept   results.jsonl" in shown
    assert "Wrote  polars-rank.toml" in shown
    assert (folder / "results.jsonl").read_text("utf-8") == "mine"
    assert (folder / ".github/workflows/retrieval.yml").exists()


@pytest.mark.parametrize(
    ("command", "folder", "text"),
    [
        ("init", "file", "File exists: 'file'"),
        ("init", "file/in", "'file/in'"),
        ("init", "made", "'made/golden.jsonl' is a directory"),
        ("demo", "file", "File exists: 'file'"),
    ],
)
def test_files_and_folders_where_init_and_demo_write_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, folder: str, text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine", "utf-8")
    Path("made/golden.jsonl").mkdir(parents=True)
    code, _, errors = run(command, folder)
    assert code == 2
    assert text in errors.replace("\\", "/")
    assert Path("file").read_text("utf-8") == "mine"


def test_a_baseline_is_written_on_request_and_then_compared(folder: Path) -> None:
    assert "No baseline 'baseline.jsonl'" in run(*GATE)[2]
    assert not (folder / "baseline.jsonl").exists()
    assert run(*GATE, "--update-baseline")[0] == 0
    change(folder / "polars-rank.toml", "# max_drop = 0.05", "max_drop = 0.05")
    assert run(*GATE)[0] == 0
    change(folder / "results.jsonl", '"business", "free"', '"x", "business"')
    code, shown, _ = run(*GATE)
    assert code == 1
    assert "difference(ndcg@10) >= -0.05" in shown
    assert "Queries that lost most in mrr@10" in shown


def test_a_loss_is_accepted_with_a_reason(folder: Path) -> None:
    assert run(*GATE, "--update-baseline")[0] == 0
    before = (folder / "baseline.jsonl").read_text("utf-8")
    worsen(folder)
    code, _, errors = run(*GATE, "--update-baseline")
    assert code == 1
    assert "--accept-loss" in errors
    assert (folder / "baseline.jsonl").read_text("utf-8") == before
    assert run(*GATE, "--update-baseline", "--accept-loss", "smaller index")[0] == 0
    head = json.loads((folder / "baseline.jsonl").read_text("utf-8").splitlines()[0])
    assert head["accepted"][0]["reason"] == "smaller index"


def test_reports_for_pull_requests_and_build_servers(folder: Path) -> None:
    worsen(folder)
    files = ("--markdown", "gate.md", "--junit", "gate.xml", "--json", "gate.json")
    assert run(*GATE, *files)[0] == 1
    shown = (folder / "gate.md").read_text("utf-8")
    assert shown.startswith("### Retrieval gate: FAILED: 1 of 2 rules\n")
    assert "| reset a password | account | 0.000 |" in shown
    suite = ET.parse(folder / "gate.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    found = json.loads((folder / "gate.json").read_text("utf-8"))
    assert (found["format_version"], found["passed"]) == (1, False)
    assert [row["verdict"] for row in found["verdicts"]] == ["fail", "pass"]
    assert run(*GATE, "--markdown", "gate.md")[0] == 2
    assert run(*GATE, "--markdown", "gate.md", "--overwrite")[0] == 1


def test_several_results_are_repetitions(folder: Path) -> None:
    (folder / "again.jsonl").write_text((folder / "results.jsonl").read_text("utf-8"), "utf-8")
    worsen(folder)
    code, shown, _ = run(*GATE, "again.jsonl")
    assert code == 1
    assert "0.875" in shown
    assert "2 repetitions" in shown


def test_a_corpus_names_unknown_ids(folder: Path) -> None:
    (folder / "corpus.jsonl").write_text('{"_id": "password"}\n', "utf-8")
    change(folder / "golden.jsonl", '"export"', '"exprot"')
    assert "'exprot'" in run(*GATE, "--corpus", "corpus.jsonl")[2]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("golden.jsonl", "none.jsonl"), "none.jsonl"),
        (("golden.jsonl", "polars-rank.toml"), "polars-rank.toml"),
        ((*GATE[1:], "--baseline", "none.jsonl"), "'none.jsonl' does not exist"),
        ((*GATE[1:], "--accept-loss", "because"), "needs --update-baseline"),
        ((*GATE[1:], "--rules", "none.toml"), "none.toml"),
    ],
)
def test_invalid_usage_exits_with_2(folder: Path, arguments: Any, text: str) -> None:
    code, _, errors = run("gate", *arguments)
    assert code == 2
    assert text in errors


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ("[rules]", "must have the table [gate]"),
        ("[gate]\nmaxdrop = 1", "no parameter `maxdrop`. Did you mean `max_drop`"),
        ('[gate.floors]\n"recal@5" = 1', "recal"),
        ('[gate.floors]\n"recall@5" = "high"', "`floors['recall@5']` must be a number"),
        ("[gate.latency]\np95 = 1", "no column 'latency'"),
    ],
)
def test_invalid_rules_exit_with_2(folder: Path, rules: str, text: str) -> None:
    (folder / "polars-rank.toml").write_text(rules, "utf-8")
    code, _, errors = run(*GATE)
    assert code == 2
    assert text in errors


def test_missing_results_exit_with_2(folder: Path) -> None:
    lines = (folder / "results.jsonl").read_text("utf-8").splitlines(keepends=True)
    (folder / "results.jsonl").write_text("".join(lines[1:]), "utf-8")
    code, _, errors = run(*GATE)
    assert code == 2
    assert "1 of 5 queries have no result: 'reset a password'" in errors
    assert "--missing zero" in errors
    assert run(*GATE, "--missing", "zero")[0] == 1


def test_reports_replace_neither_inputs_nor_each_other(folder: Path) -> None:
    before = (folder / "golden.jsonl").read_text("utf-8")
    code, _, errors = run(*GATE, "--json", "golden.jsonl", "--overwrite")
    assert code == 2
    assert "is an input" in errors
    assert (folder / "golden.jsonl").read_text("utf-8") == before
    code, _, errors = run(*GATE, "--json", "report", "--markdown", "report")
    assert code == 2
    assert "need different files" in errors
    assert not (folder / "report").exists()


@pytest.mark.parametrize(
    ("options", "output"),
    [
        ((), "results.jsonl"),
        ((), "polars-rank.toml"),
        (("--rules", "other.toml"), "other.toml"),
        (("--rules", "other.toml"), "in-rules.jsonl"),
        (("--rules", "other.toml"), "in-rules.toml"),
        (("--corpus", "corpus.jsonl"), "corpus.jsonl"),
        (("--corpus", "corpus.jsonl"), "link.jsonl"),
        (("--corpus", "link.jsonl"), "corpus.jsonl"),
        (("--conventions", "in-rules.toml"), "in-rules.toml"),
        ((), "baseline.jsonl"),
    ],
)
def test_no_input_is_replaced(folder: Path, options: tuple[str, ...], output: str) -> None:
    ids = "".join(json.dumps({"id": name}) + "\n" for name in ("password", "address"))
    for name in ("corpus.jsonl", "in-rules.jsonl"):
        (folder / name).write_text(ids, "utf-8")
    (folder / "link.jsonl").symlink_to("corpus.jsonl")
    (folder / "in-rules.toml").write_text('base = "trec_eval"\n', "utf-8")
    rules = '[gate]\ncorpus = "in-rules.jsonl"\nconventions = "in-rules.toml"\n'
    (folder / "other.toml").write_text(rules, "utf-8")
    assert run(*GATE, "--update-baseline")[0] == 0
    before = (folder / output).read_bytes()
    for report in ("--json", "--junit", "--markdown"):
        code, _, errors = run(*GATE, *options, report, output, "--overwrite")
        assert code == 2
        assert f"'{output}' is an input; write to another file" in errors
    assert (folder / output).read_bytes() == before


def test_a_report_does_not_replace_the_baseline_that_is_written(folder: Path) -> None:
    code, _, errors = run(*GATE, "--update-baseline", "--json", "./baseline.jsonl", "--overwrite")
    assert code == 2
    assert "--json, --baseline need different files" in errors
    assert not (folder / "baseline.jsonl").exists()


@pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
@pytest.mark.parametrize("baseline", ["pipe", "/dev/stdout"])
def test_a_pipe_as_the_baseline_ends(folder: Path, baseline: str) -> None:
    os.mkfifo(folder / "pipe")
    done = subprocess.run(
        [sys.executable, "-m", "polars_rank", *GATE, "--baseline", baseline, "--update-baseline"],
        capture_output=True, encoding="utf-8", timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    assert f"the baseline '{baseline}' is not a regular file" in done.stderr


@pytest.mark.parametrize("name", ["baseline", "corpus"])
@pytest.mark.parametrize("value", ["3", "''"])
def test_paths_in_rules_must_be_text(folder: Path, name: str, value: str) -> None:
    (folder / "polars-rank.toml").write_text(f"[gate]\n{name} = {value}\n", "utf-8")
    code, _, errors = run(*GATE)
    assert code == 2
    assert f"'{name}' in 'polars-rank.toml' must be a path; found {value}" in errors
