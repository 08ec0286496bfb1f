"""The command `check`: exit codes, order of verdicts, rules in files, and reports."""

from __future__ import annotations

import json
import os
from pathlib import Path
from threading import Thread
from xml.etree import ElementTree

import polars as pl
import pytest
from commands import run
from rows import check_each

import polars_rank as pr

# RR: 1, 1/2, 1/2, 1, three times; the interval of its mean is 0.75 ± 0.17.
CHECK = ["check", "--values", "table.csv"]
PASS, UNDECIDED, FAIL = "rr >= 0.2", "rr >= 0.7", "rr >= 1.3"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table = pl.DataFrame({"query": range(12), "run": "a", "rr": [1.0, 0.5, 0.5, 1.0] * 3})
    table.write_csv("table.csv")


def with_rules(*rules: str) -> list[str]:
    return [word for rule in rules for word in ("--rule", rule)]


def suite(file: str) -> list[str | None]:
    (found,) = ElementTree.parse(file).getroot()
    return [found.get(name) for name in ("tests", "failures", "skipped")]


def test_exit_codes() -> None:
    def check(rule: str, verdict: str, undecided: str, expected: int) -> None:
        options = ["--undecided", undecided] if undecided else []
        code, out, err = run(*CHECK, "--rule", rule, "--format", "json", *options)
        assert [row["verdict"] for row in json.loads(out)] == [verdict]
        assert (code, err) == (expected, "1 of 1 checks failed\n" if expected else "")

    check_each(check, [
        (PASS, "pass", "", 0),
        (UNDECIDED, "undecided", "", 1),
        (UNDECIDED, "undecided", "fail", 1),
        (UNDECIDED, "undecided", "pass", 0),
        (FAIL, "fail", "pass", 1),
    ])  # fmt: skip


def test_failures_are_first_with_a_reason() -> None:
    """Losses of 0.2 and 0.3 are shown; differences of -0.1 and 0.1 are not."""
    place, base = pl.int_range(pl.len()) % 2, 0.4 + pl.int_range(pl.len()) % 3 / 10
    old = pl.DataFrame({"query": range(20)}).select("query", rr=base, ap=base)
    change = [pl.col("rr") - 0.3 + 0.1 * place, pl.col("ap") - 0.1 + 0.2 * place]
    new = old.with_columns(*change, run=pl.lit("new"))
    pl.concat([old.with_columns(run=pl.lit("old")), new]).write_csv("loss.csv")
    rules = with_rules("queries >= 2", "difference(ap) >= 0", "difference(rr) >= 0")
    gate = ["check", "--values", "loss.csv", "--baseline", "old", *rules]
    code, out, err = run(*gate, "--format", "json")
    assert [(row["rule"], row["verdict"], row["reason"]) for row in json.loads(out)] == [
        ("difference(rr) >= 0", "fail", "worse"), ("difference(ap) >= 0", "undecided", "unclear"),
        ("queries >= 2", "pass", None),
    ]  # fmt: skip
    assert (code, err) == (1, "2 of 3 checks failed\n")
    # As a table, what passes is one line, and counts have no decimals.
    shown = run(*CHECK, *with_rules("queries >= 30", "rr >= 0", "rr > 0", FAIL))[1].splitlines()
    assert [line.split("  ")[0] for line in shown] == ["rule", "queries >= 30", FAIL, "2 pass"]
    assert [line.split()[3:5] for line in shown[1:3]] == [["run=a", "12"], ["run=a", "0.7500"]]
    assert len(run(*CHECK, "--wide", *with_rules(PASS, FAIL))[1].splitlines()) == 1 + 2


def test_all_metrics_and_slices() -> None:
    log = pr.datasets.search_log(80, 10, seed=1, runs=["old", "new"])
    log.sink_parquet("log.parquet")
    compared = ["-m", "ndcg@10 ap rr", "--baseline", "old", "--slices", "country"]
    check = ["check", "log.parquet", *compared, "--rule", "queries >= 5", "--junit", "gate.xml"]
    code, out, err = run(*check, "--format", "json")
    where = [row["where"] for row in json.loads(out)]
    assert len(where) == len({*where}) == 1 + 6  # each subject once
    assert (code, err) == (1, "1 of 7 checks failed\n")
    names = [case.get("name") for case in ElementTree.parse("gate.xml").iter("testcase")]
    assert len({*names}) == 7


def test_rules_of_a_file() -> None:
    text = f'[[rules]]\nrule = "{UNDECIDED}"\n[[rules]]\nrule = "rr > 0"\nwhere = {{run = "a"}}\n'

    def ended(text: str, *options: str) -> int:
        Path("gate.toml").write_text(text, "utf-8")
        return run(*CHECK, "--rules", "gate.toml", *options)[0]

    lenient = 'undecided = "pass"\n'
    assert ended(lenient + text) == 0
    assert ended(lenient + text, "--undecided", "fail") == 1
    assert ended(lenient + text, "--rule", "queries >= 13") == 1
    assert ended(text) == 1
    assert ended(text.replace('"a"', '"gone"'), "--undecided", "pass") == 1
    assert ended('undecided = "perhaps"\n' + text) == 2


def test_reports() -> None:
    Path("gate.md").touch()  # as the summary of a job on a build server
    files = ["--junit", "gate.xml", "--markdown", "gate.md"]
    check = [*CHECK, *with_rules(PASS, UNDECIDED, "rr > 2"), *files]
    assert run(*check)[0] == 1
    assert suite("gate.xml") == ["3", "2", "0"]
    rows = Path("gate.md").read_text("utf-8").splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| fail", "| undecided", "| pass"]
    code, out, err = run(*check, "--undecided", "pass")
    assert (code, out, "already exists" in err) == (2, "", True)
    assert suite("gate.xml") == ["3", "2", "0"]
    assert run(*check, "--undecided", "pass", "--overwrite")[0] == 1
    assert suite("gate.xml") == ["3", "1", "1"]
    # They replace neither inputs nor each other.
    Path("mine.toml").write_text('base = "trec_eval"', "utf-8")
    log = pl.DataFrame({"query": [1], "doc": [1], "score": [1.0], "label": [1]})
    log.write_parquet("log.parquet")
    of_log = ["check", "log.parquet", "--rule", "rr >= 2", "--conventions", "mine.toml"]
    twice, an_input = "'out.md' is written twice; name different files", "is an input; write to"

    def refused(words: list[str], message: str) -> None:
        code, _, err = run(*words, "--overwrite")
        assert (code, message in err) == (2, True), err

    check_each(refused, [
        ([*CHECK, "--rule", PASS, "--junit", "out.md", "--markdown", "out.md"], twice),
        ([*CHECK, "--rule", PASS, "--junit", "out.md", "-o", "out.md"], twice),
        ([*CHECK, "--rule", PASS, "--junit", "table.csv"], f"'table.csv' {an_input}"),
        ([*of_log, "--junit", "mine.toml"], f"'mine.toml' {an_input}"),
    ])  # fmt: skip
    names = {"table.csv", "gate.xml", "gate.md", "mine.toml", "log.parquet"}
    assert {file.name for file in Path().iterdir()} == names
    if os.name == "posix":  # a report may go to a pipe
        os.mkfifo("pipe")
        read: list[str] = []
        reader = Thread(target=lambda: read.append(Path("pipe").read_text("utf-8")), daemon=True)
        reader.start()
        assert run(*CHECK, "--rule", PASS, "--junit", "pipe")[0] == 0
        reader.join(timeout=60)
        assert read[0].endswith("</testsuites>")
