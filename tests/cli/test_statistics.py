"""The commands for per-query values, compared with the library, and exit codes of gates."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from commands import run

import polars_rank as pr
from polars_rank.datasets import search_log

METRICS = ["ndcg@10", "ap"]
ASKED = ["-m", "ndcg@10 ap"]
COMMANDS = {
    "summarize": [],
    "compare": ["--baseline", "old"],
    "leaderboard": [],
    "check": ["--rule", "ndcg@10 >= 0.1"],
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    user = (pl.col("query") % 40).alias("user")
    traffic = (pl.col("query") % 3 + 1).alias("traffic")
    search_log(80, 10, seed=1, runs=["old", "new"]).with_columns(user, traffic).sink_parquet(path)
    return path


@pytest.fixture(scope="module")
def lists(log: Path) -> pl.DataFrame:
    keep = ["country", "user", "traffic"]
    return pr.per_query(pl.read_parquet(log), METRICS, by="run", keep=keep)


def actual(*arguments: object) -> pl.DataFrame:
    """Return the table that a command prints."""
    code, out, err = run(*arguments, "--format", "json")
    assert (code, err) == (0, "")
    return pl.DataFrame(json.loads(out), infer_schema_length=None)


def test_failures_are_first_with_a_reason(lists: pl.DataFrame, tmp_path: Path) -> None:
    """Losses of 0.2 and 0.3 are shown; differences of -0.1 and 0.1 are not."""
    place, base = pl.int_range(pl.len()) % 2, 0.4 + pl.int_range(pl.len()) % 3 / 10
    old = pl.DataFrame({"query": range(20)}).select("query", rr=base, ap=base)
    change = [pl.col("rr") - 0.3 + 0.1 * place, pl.col("ap") - 0.1 + 0.2 * place]
    loss = pl.concat([
        old.with_columns(run=pl.lit("old")), old.with_columns(*change, run=pl.lit("new"))
    ])  # fmt: skip
    loss.write_parquet(tmp_path / "loss.parquet")
    rules = ("queries >= 2", "difference(ap) >= 0", "difference(rr) >= 0")
    gate = ["check", "--values", tmp_path / "loss.parquet", "--baseline", "old"]
    code, out, err = run(
        *gate, *(p for rule in rules for p in ("--rule", rule)), "--format", "json"
    )
    rows = [(row["rule"], row["verdict"], row["reason"]) for row in json.loads(out)]
    assert rows == [
        ("difference(rr) >= 0", "fail", "worse"), ("difference(ap) >= 0", "undecided", "unclear"),
        ("queries >= 2", "pass", None),
    ]  # fmt: skip
    assert (code, err) == (1, "2 of 3 checks failed\n")


def test_a_check_of_all_metrics_shows_each_subject_once(log: Path, tmp_path: Path) -> None:
    junit = tmp_path / "gate.xml"
    arguments = ["check", log, "-m", "ndcg@10 ap rr", "--baseline", "old", "--slices", "country",
                 "--rule", "queries >= 5", "--junit", junit]  # fmt: skip
    code, out, err = run(*arguments, "--format", "json")
    where = [row["where"] for row in json.loads(out)]
    assert len(where) == len(set(where)) == 1 + 6
    assert (code, err) == (1, "1 of 7 checks failed\n")
    names = [case.get("name") for case in ElementTree.parse(junit).iter("testcase")]
    assert len(set(names)) == 7


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_table_names_its_conventions(log: Path, tmp_path: Path, ending: str) -> None:
    table = tmp_path / f"values.{ending}"
    code, _, err = run(
        "per-query", log, "-m", "ndcg@3", "--by", "run", "--conventions", "lightgbm", "-o", table,
    )  # fmt: skip
    assert code == 0, err
    means = pr.evaluate(pl.read_parquet(log), "ndcg@3", by="run", conventions="lightgbm")
    summary = actual("summarize", "--values", table)
    assert summary["mean"].to_list() == pytest.approx(means["ndcg@3"].to_list())
    code, _, err = run("summarize", "--values", table, "--conventions", "polars_rank")
    assert (code, err) == (
        2, "Error: --conventions cannot be used with --values, which has per-query values\n"
    )  # fmt: skip


def test_without_runs(tmp_path: Path) -> None:
    table = pl.DataFrame({"query": [1, 2, 3], "run": ["a", "b", "b"], "rr": [1.0, 0.5, 0.0]})
    table.write_parquet(tmp_path / "table.parquet")
    by_run = actual("summarize", "--values", tmp_path / "table.parquet")
    assert by_run.select("run", "mean").rows() == [("a", 1.0), ("b", 0.25)]
    code, out, err = run(
        "summarize", "--values", tmp_path / "table.parquet", "--run", "", "--format", "json"
    )
    assert (code, err) == (0, "")
    table.drop("run").write_parquet(tmp_path / "table.parquet")
    whole = actual("summarize", "--values", tmp_path / "table.parquet")
    assert whole["mean"].to_list() == [0.5]
    assert whole.to_dicts() == json.loads(out)


GATES = {
    # RR of a: 1, 1/2, 1/2, 1, three times; its interval is 0.75 ± 0.17.
    "rr >= 0.2": (["pass"], 0, 0),
    "rr >= 0.7": (["undecided"], 1, 0),
    "rr >= 1.3": (["fail"], 1, 1),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.csv"
    pl.DataFrame({"query": range(12), "rr": [1.0, 0.5, 0.5, 1.0] * 3}).write_csv(path)
    return path


@pytest.mark.parametrize("rule", GATES)
def test_exit_codes_of_a_gate(table: Path, rule: str) -> None:
    verdicts, strict, lenient = GATES[rule]
    for options, expected in (
        ([], strict), (["--undecided", "fail"], strict), (["--undecided", "pass"], lenient),
    ):  # fmt: skip
        code, out, err = run(
            "check", "--values", table, "--rule", rule, "--format", "json", *options
        )
        assert [row["verdict"] for row in json.loads(out)] == verdicts
        assert (code, err) == (expected, "1 of 1 checks failed\n" if expected else "")


def test_a_lost_group_fails_a_gate(lists: pl.DataFrame, tmp_path: Path) -> None:
    """The new run has no query in the US: the gate fails although undecided rules pass."""
    lost = lists.filter((pl.col("run") == "old") | (pl.col("country") != "US"))
    lost.write_parquet(tmp_path / "lost.parquet")
    junit, markdown = tmp_path / "gate.xml", tmp_path / "gate.md"
    code, _, err = run(
        "check", "--values", tmp_path / "lost.parquet", "-m", "ap", "--baseline", "old", "--slices", "country",
        "--rule", "difference(ap) >= -9 where(country=US)", "--undecided", "pass",
        "--junit", junit, "--markdown", markdown,
    )  # fmt: skip
    assert (code, err.splitlines()[-1]) == (1, "1 of 1 checks failed")
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "0")
    assert markdown.read_text("utf-8").splitlines()[2].startswith("| fail | ")


def test_rules_of_a_file(table: Path, tmp_path: Path) -> None:
    pytest.importorskip("tomllib")
    file = tmp_path / "gate.toml"
    text = '[[rules]]\nrule = "rr >= 0.7"\n[[rules]]\nrule = "rr > 0"\nwhere = {run = "a"}\n'
    pl.read_csv(table).with_columns(run=pl.lit("a")).write_csv(table)
    file.write_text('undecided = "pass"\n' + text, "utf-8")
    code, out, _ = run(
        "check", "--values", table, "--rules", file, "--rule", "queries >= 4", "--format", "csv"
    )
    assert (code, [line.split(",")[0] for line in out.splitlines()]) == (
        0, ["rule", "rr >= 0.7", "rr > 0", "queries >= 4"]
    )  # fmt: skip
    assert run("check", "--values", table, "--rules", file, "--undecided", "fail")[0] == 1
    file.write_text(text, "utf-8")
    assert run("check", "--values", table, "--rules", file)[0] == 1
    file.write_text(text.replace('"a"', '"gone"'), "utf-8")
    assert run("check", "--values", table, "--rules", file, "--undecided", "pass")[0] == 1
    file.write_text('undecided = "perhaps"\n' + text, "utf-8")
    code, _, err = run("check", "--values", table, "--rules", file)
    assert (code, "perhaps" in err) == (2, True)


def test_reports(table: Path, tmp_path: Path) -> None:
    junit, markdown = tmp_path / "gate.xml", tmp_path / "gate.md"
    markdown.touch()  # as the summary of a job on a build server
    arguments = ["check", "--values", table, "--rule", "rr >= 0.2", "--rule", "rr >= 0.7", "--rule", "rr > 2",
                 "--junit", junit, "--markdown", markdown]  # fmt: skip
    assert run(*arguments)[0] == 1
    (suite,) = ElementTree.parse(junit).getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "3", "failures": "2", "skipped": "0"
    }  # fmt: skip
    assert [line.split(" | ")[0] for line in markdown.read_text("utf-8").splitlines()[2:]] == [
        "| fail", "| undecided", "| pass"
    ]  # fmt: skip
    before = junit.read_bytes(), markdown.read_bytes()
    code, out, err = run(*arguments, "--undecided", "pass")
    assert (code, out, "already exists" in err) == (2, "", True)
    assert (junit.read_bytes(), markdown.read_bytes()) == before
    assert run(*arguments, "--undecided", "pass", "--overwrite")[0] == 1
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "1")
    code, _, err = run(
        "check", "--values", table, "--rule", "rr > 0", "--junit", table, "--overwrite"
    )
    assert (code, "is an input; write to another file" in err) == (2, True)
    assert {file.name for file in tmp_path.iterdir()} == {"table.csv", "gate.xml", "gate.md"}


def test_rows_at_fault_are_shown(tmp_path: Path) -> None:
    table = pl.DataFrame({"query": [1, 1, 2], "run": ["a", "a", "b"], "rr": [1.0, 0.5, 0.0]})
    table.write_parquet(tmp_path / "table.parquet")
    code, out, err = run("compare", "--values", tmp_path / "table.parquet", "--baseline", "a")
    assert (code, out) == (2, "")
    assert "duplicate rankings" in err and "in 2 rows, e.g. {'run': 'a', 'query': 1}" in err
