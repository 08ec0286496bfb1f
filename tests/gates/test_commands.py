"""The commands `init` and `gate`: exit codes, files, and rules in polars-rank.toml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import needs
import pytest
from rows import check_each

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


def read(name: str) -> str:
    return Path(name).read_text("utf-8")


def change(name: str, old: str, new: str) -> None:
    text = read(name)
    assert old in text
    Path(name).write_text(text.replace(old, new), "utf-8")


def worsen() -> None:
    """Remove a relevant document from the results."""
    change("results.jsonl", '"password", ', "")


def test_init_keeps_existing_files(folder: Path) -> None:
    Path("results.jsonl").write_text("mine", "utf-8")
    Path("polars-rank.toml").unlink()
    code, shown, _ = run("init")
    assert code == 0
    assert "Kept   results.jsonl" in shown
    assert "Wrote  polars-rank.toml" in shown
    assert read("results.jsonl") == "mine"
    assert Path(".github/workflows/retrieval.yml").exists()
    Path("file").write_text("mine", "utf-8")
    Path("made/golden.jsonl").mkdir(parents=True)
    for words, text in {
        "init file": "File exists: 'file'",
        "init file/in": "'file/in'",
        "init made": "'made/golden.jsonl' is a directory",
        "demo file": "File exists: 'file'",
    }.items():
        code, _, errors = run(*words.split())
        assert (code, text in errors.replace("\\", "/")) == (2, True), words
    assert read("file") == "mine"


def test_the_example_passes_and_fails_without_a_relevant_document(folder: Path) -> None:
    code, shown, errors = run(*GATE)
    assert (code, shown.splitlines()[0]) == (0, "PASSED: 3 rules")
    assert "Warning" not in errors
    Path("again.jsonl").write_text(read("results.jsonl"), "utf-8")
    worsen()
    # Reports are for pull requests and build servers.
    files = ("--markdown", "gate.md", "--junit", "gate.xml", "--json", "gate.json")
    code, shown, _ = run(*GATE, *files)
    assert (code, shown.splitlines()[0]) == (1, "FAILED: 1 of 3 rules")
    assert "recall@5 >= 0.9 0.75 4 " in " ".join(shown.split())
    assert "reset a password  account  0.000" in shown
    assert read("gate.md").startswith("### Retrieval gate: FAILED: 1 of 3 rules\n")
    assert "| reset a password | account | 0.000 |" in read("gate.md")
    suite = ET.parse("gate.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    found = json.loads(read("gate.json"))
    assert (found["format_version"], found["passed"]) == (1, False)
    assert [row["verdict"] for row in found["verdicts"]] == ["fail", "pass", "pass"]
    assert run(*GATE, "--markdown", "gate.md")[0] == 2
    assert run(*GATE, "--markdown", "gate.md", "--overwrite")[0] == 1
    # A forbidden document, which is the first of its query.
    change("results.jsonl", '"business", "free"', '"retired", "business"')
    code, shown, _ = run(*GATE)
    assert "forbidden@10 <= 0 0.2 5 " in " ".join(shown.split())
    # Several results are repetitions.
    code, shown, _ = run(*GATE, "again.jsonl")
    assert (code, "0.875" in shown, "2 repetitions" in shown) == (1, True, True)


def test_a_baseline_is_written_on_request_and_then_compared(folder: Path) -> None:
    assert "No baseline 'baseline.jsonl'" in run(*GATE)[2]
    assert not Path("baseline.jsonl").exists()
    assert run(*GATE, "--update-baseline")[0] == 0
    change("polars-rank.toml", "# max_drop = 0.05", "max_drop = 0.05")
    assert run(*GATE)[0] == 0
    change("results.jsonl", '"business", "free"', '"x", "business"')
    code, shown, _ = run(*GATE)
    assert code == 1
    assert "difference(ndcg@10) >= -0.05" in shown
    assert "Queries that lost most in mrr@10" in shown
    # A loss is accepted with a reason.
    before = read("baseline.jsonl")
    worsen()
    code, _, errors = run(*GATE, "--update-baseline")
    assert (code, "--accept-loss" in errors) == (1, True)
    assert read("baseline.jsonl") == before
    assert run(*GATE, "--update-baseline", "--accept-loss", "smaller index")[0] == 0
    head = json.loads(read("baseline.jsonl").splitlines()[0])
    assert head["accepted"][0]["reason"] == "smaller index"


def test_invalid_usage_exits_with_2(folder: Path) -> None:
    def check(*words: str, text: str) -> None:
        code, _, errors = run("gate", *words)
        assert (code, text in errors) == (2, True), errors

    files = GATE[1:]
    rows: list[tuple[Any, str]] = [
        (("golden.jsonl", "none.jsonl"), "none.jsonl"),
        (("golden.jsonl", "polars-rank.toml"), "polars-rank.toml"),
        ((*files, "--baseline", "none.jsonl"), "'none.jsonl' does not exist"),
        ((*files, "--accept-loss", "because"), "needs --update-baseline"),
        ((*files, "--rules", "none.toml"), "none.toml"),
        ((*files, "--json", "out", "--markdown", "out"), "need different files"),
        ((*files, "--update-baseline", "--json", "./baseline.jsonl", "--overwrite"),
         "--json, --baseline need different files"),
        ((*files, "--baseline", ".github", "--update-baseline"), "is not a regular file"),
    ]  # fmt: skip
    check_each(lambda words, text: check(*words, text=text), rows)
    assert not Path("out").exists()
    assert not Path("baseline.jsonl").exists()

    def check_rules(rules: str, text: str) -> None:
        Path("polars-rank.toml").write_text(rules, "utf-8")
        check(*files, text=text)

    path = "in 'polars-rank.toml' must be a path; found"
    check_each(check_rules, [
        ("[rules]", "must have the table [gate]"),
        ("[gate]\nmaxdrop = 1", "no parameter `maxdrop`. Did you mean `max_drop`"),
        ("[gate]\nresults = 1", "'results' in 'polars-rank.toml' is an argument of the command"),
        ('[gate.floors]\n"recal@5" = 1', "recal"),
        ('[gate.floors]\n"recall@5" = "high"', "`floors['recall@5']` must be a number"),
        ("[gate.latency]\np95 = 1", "no column 'latency'"),
        *((f"[gate]\n{name} = {value}\n", f"'{name}' {path} {value}")
          for name in ("baseline", "corpus") for value in ("3", "''")),
    ])  # fmt: skip


def test_missing_results_and_unknown_ids(folder: Path) -> None:
    Path("corpus.jsonl").write_text('{"_id": "password"}\n', "utf-8")
    change("golden.jsonl", '"export"', '"exprot"')
    assert "'exprot'" in run(*GATE, "--corpus", "corpus.jsonl")[2]
    lines = read("results.jsonl").splitlines(keepends=True)
    Path("results.jsonl").write_text("".join(lines[1:]), "utf-8")
    code, _, errors = run(*GATE)
    assert code == 2
    assert "1 of 5 queries have no result: 'reset a password'" in errors
    assert "--missing zero" in errors
    assert run(*GATE, "--missing", "zero")[0] == 1


def test_no_input_is_replaced(folder: Path) -> None:
    ids = "".join(json.dumps({"id": name}) + "\n" for name in ("password", "address"))
    for name in ("corpus.jsonl", "in-rules.jsonl"):
        Path(name).write_text(ids, "utf-8")
    Path("link.jsonl").symlink_to("corpus.jsonl")
    Path("in-rules.toml").write_text('base = "trec_eval"\n', "utf-8")
    rules = '[gate]\ncorpus = "in-rules.jsonl"\nconventions = "in-rules.toml"\n'
    Path("other.toml").write_text(rules, "utf-8")
    assert run(*GATE, "--update-baseline")[0] == 0

    def check(options: str, output: str, report: str) -> None:
        before = Path(output).read_bytes()
        code, _, errors = run(*GATE, *options.split(), report, output, "--overwrite")
        assert code == 2
        assert f"'{output}' is an input; write to another file" in errors
        assert Path(output).read_bytes() == before

    check_each(check, [
        ("", "golden.jsonl", "--json"),
        ("", "results.jsonl", "--junit"),
        ("", "polars-rank.toml", "--markdown"),
        ("--rules other.toml", "other.toml", "--json"),
        ("--rules other.toml", "in-rules.jsonl", "--json"),
        ("--rules other.toml", "in-rules.toml", "--json"),
        ("--corpus corpus.jsonl", "corpus.jsonl", "--json"),
        ("--corpus corpus.jsonl", "link.jsonl", "--json"),
        ("--corpus link.jsonl", "corpus.jsonl", "--json"),
        ("--conventions in-rules.toml", "in-rules.toml", "--json"),
        ("", "baseline.jsonl", "--json"),
    ])  # fmt: skip
