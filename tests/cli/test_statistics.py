"""The commands for per-query values, compared with the library, and exit codes of gates."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from commands import run
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
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


def same(table: pl.DataFrame, expected: pl.DataFrame) -> None:
    assert_frame_equal(
        table.cast({c: t for c, t in expected.schema.items() if c in table.columns}),
        expected,
        abs_tol=1e-12,
    )


#: All commands read what they are given in one way: `summarize` has it in every form.
log_or_table = pytest.mark.parametrize("given", ["log", "parquet"], indirect=True)


@pytest.fixture(params=["log", "csv log", "parquet", "csv", "option"])
def given(request: Any, log: Path, lists: pl.DataFrame, tmp_path: Path) -> list[object]:
    """The same values, as a log, as a table, and as a table told to be one."""
    path = tmp_path / ("table." + ("csv" if "csv" in request.param else "parquet"))
    table = (
        pl.read_parquet(log) if "log" in request.param else lists.sample(fraction=1, shuffle=True)
    )
    getattr(table, f"write_{path.suffix[1:]}")(path)
    return ["--values", path] if request.param == "option" else [path]


def as_read(given: list[object], lists: pl.DataFrame) -> pl.DataFrame:
    """The values with the ids that the command reads, which in CSV are text; draws depend on it."""
    of_text = str(given[-1]).endswith(".csv")
    return lists.cast({"query": pl.String, "user": pl.String}) if of_text else lists


def test_summarize(given: list[object], lists: pl.DataFrame) -> None:
    lists = as_read(given, lists)
    same(actual("summarize", *given, *ASKED), pr.summarize(lists, METRICS))
    same(
        actual("summarize", *given, *ASKED, "--weight", "traffic", "--cluster", "user",
               "--confidence", 0.9, "--repeated", "--details"),
        pr.summarize(lists, METRICS, weight="traffic", cluster="user", confidence=0.9,
                     repeated=True, details=True),
    )  # fmt: skip
    of_slices = pr.summarize(lists, METRICS, slices="country")
    same(actual("summarize", *given, *ASKED, "--slices", "country"), of_slices)


@log_or_table
def test_compare(given: list[object], lists: pl.DataFrame) -> None:
    lists = as_read(given, lists)
    same(
        actual("compare", *given, *ASKED, "--baseline", "old"),
        pr.compare(lists, METRICS, baseline="old"),
    )
    same(
        actual("compare", *given, *ASKED, "--baseline", "new", "--margin", "2%", "--no-correction",
               "--slices", "country traffic", "--min-queries", 2, "--details"),
        pr.compare(lists, METRICS, baseline="new", margin="2%", correction=False,
                   slices=["country", "traffic"], min_queries=2, details=True),
    )  # fmt: skip
    same(
        actual("compare", *given, "-m", "ap", "--baseline", "new", "--repeated"),
        pr.compare(lists, "ap", baseline="new", repeated=True),
    )
    same(
        actual("compare", *given, "-m", "ap", "--margin", 0.3, "--weight", "traffic", "--cluster",
               "user"),
        pr.compare(lists, "ap", margin=0.3, weight="traffic", cluster="user"),
    )  # fmt: skip


def test_all_pairs(log: Path, lists: pl.DataFrame, tmp_path: Path) -> None:
    third = lists.filter(run="old").with_columns(pl.col(METRICS) ** 2, run=pl.lit("third"))
    pl.concat([lists, third]).write_parquet(tmp_path / "three.parquet")
    pairs = actual("compare", tmp_path / "three.parquet", "-m", "ap")
    assert pairs.select("run", "baseline").rows() == [
        ("old", "new"), ("third", "new"), ("third", "old")
    ]  # fmt: skip
    same(pairs, pr.compare(pl.concat([lists, third]), "ap"))


@log_or_table
def test_check(given: list[object], lists: pl.DataFrame) -> None:
    """Rules on means apply to the new run, and all rules to the slices, too."""
    rules = ["ndcg@10 >= 0.01", "difference(ndcg@10) >= -9", "queries >= 2"]
    options = ["--baseline", "old", *(part for rule in rules for part in ("--rule", rule))]
    # There are 80 queries of six countries, so that slices are small.
    of_slices = ["--slices", "country", "--min-queries", 2]
    units: dict[str, Any] = {"weight": "traffic", "cluster": "user"}
    of_units = ["--weight", "traffic", "--cluster", "user"]
    for rows, more, number in (({"slices": "country"}, of_slices, 1 + 6), (units, of_units, 1)):
        tables = [
            pr.summarize(lists, "ndcg@10", details=True, **rows).filter(run="new"),
            pr.compare(lists, "ndcg@10", baseline="old", min_queries=2, details=True, **rows),
        ]
        expected = pr.check(tables, rules, on_fail="return")
        assert expected.height == 3 * number
        same(actual("check", *given, *options, *more), expected)


def test_rules_on_means_of_slices_need_no_baseline(lists: pl.DataFrame, tmp_path: Path) -> None:
    lists.filter(run="new").drop("run").write_parquet(tmp_path / "new.parquet")
    rules = ["--rule", "ap >= 0.01 where(country=US)"]
    found = actual("check", tmp_path / "new.parquet", *rules, "--slices", "country")
    assert found.select("where", "verdict").rows() == [("country=US", "pass")]


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
    gate = ["check", tmp_path / "loss.parquet", "--baseline", "old"]
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


def test_groups_and_conventions_of_a_log(log: Path) -> None:
    frame = pl.read_parquet(log)
    asked = ["-m", "ndcg@3", "--conventions", "lightgbm", "--by", "country"]
    lists = pr.per_query(frame, "ndcg@3", by=["run", "country"], conventions="lightgbm")
    summary = actual("summarize", log, *asked)
    same(summary, pr.summarize(lists, by="country"))
    means = pr.evaluate(frame, "ndcg@3", by=["country", "run"], conventions="lightgbm")
    assert_frame_equal(
        summary.select("country", "run", "mean"),
        means.select("country", "run", pl.col("ndcg@3").alias("mean")),
        abs_tol=1e-12,
    )
    same(
        actual("compare", log, *asked, "--baseline", "old"),
        pr.compare(lists, by="country", baseline="old"),
    )


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_table_names_its_conventions(log: Path, tmp_path: Path, ending: str) -> None:
    table = tmp_path / f"values.{ending}"
    code, _, err = run(
        "per-query", log, "-m", "ndcg@3", "--by", "run", "--conventions", "lightgbm", "-o", table,
    )  # fmt: skip
    assert code == 0, err
    means = pr.evaluate(pl.read_parquet(log), "ndcg@3", by="run", conventions="lightgbm")
    summary = actual("summarize", table)
    assert summary["mean"].to_list() == pytest.approx(means["ndcg@3"].to_list())
    code, _, err = run("summarize", table, "--conventions", "polars_rank")
    assert (code, err) == (
        2, "Error: --conventions is for logs; the input has per-query values\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [
        ["--undefined", "skip"], ["--undefined", "one"], ["--undefined", "rr=skip"],
        ["--conventions", "ours.toml"], ["--conventions", "ours.toml", "--undefined", "zero"],
    ],
)  # fmt: skip
def test_undefined_values_count_as_in_evaluate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ours.toml").write_text('undefined = "skip"\n')
    # RR of the queries: 1, 1/2, undefined.
    rows = {"query": [1, 2, 2, 3], "doc": [1, 1, 2, 1], "score": [1, 2, 1, 1]}
    pl.DataFrame(rows).with_columns(label=pl.Series([1, 0, 1, 0])).write_parquet("log.parquet")
    asked = ["log.parquet", "-m", "rr ap", *options]
    means = actual("evaluate", *asked).row(0, named=True)
    assert means["rr"] in (1.5 / 2, 1.5 / 3, 2.5 / 3)
    found = actual("summarize", *asked)
    assert dict(found.select("metric", "mean").rows()) == pytest.approx(
        {"rr": means["rr"], "ap": means["ap"]}
    )


def test_other_columns(log: Path, tmp_path: Path) -> None:
    names = {"run": "day", "query": "q", "doc": "d", "score": "s", "label": "grade"}
    frame = pl.read_parquet(log).with_columns(run=(pl.col("run") == "new").cast(pl.Int64) + 1)
    frame.rename(names).write_parquet(tmp_path / "log.parquet")
    options = [part for name, column in names.items() if name != "run"
               for part in (f"--{name}", column)]  # fmt: skip
    options += ["--run", "day", "--rel", 2, "--ties", "best"]
    lists = pr.per_query(frame, "ap", by="run", rel=2, ties="best")
    same(
        actual("compare", tmp_path / "log.parquet", "-m", "ap", *options, "--baseline", 1),
        pr.compare(lists, baseline=1).rename({"run": "day"}),
    )
    code, _, err = run("compare", tmp_path / "log.parquet", "-m", "ap", *options, "--baseline", "x")
    assert (code, err) == (
        2, "Error: --baseline must be a value of the column 'day', of type Int64\n"
    )  # fmt: skip


def test_values_with_another_column_of_queries(log: Path, tmp_path: Path) -> None:
    table = tmp_path / "values.parquet"
    names = pl.read_parquet(log).with_columns(user=pl.format("u{}", "query"))
    values = pr.per_query(names, "ap", by="run", query="user", keep="country")
    values.write_parquet(table)
    arguments = ["--values", table, "-m", "ap", "--baseline", "old"]
    code, _, err = run("compare", *arguments)
    assert (code, "column 'query' (`--query`) not found" in err) == (2, True)
    arguments += ["--query", "user"]
    expected = pr.compare(values, "ap", baseline="old", query="user", by="country")
    same(actual("compare", *arguments, "--by", "country"), expected)


def test_the_column_of_runs_may_be_named_as_a_group(log: Path) -> None:
    arguments = ["summarize", log, "-m", "ap", "--format", "csv"]
    assert run(*arguments, "--by", "run") == run(*arguments)


def test_without_runs(tmp_path: Path) -> None:
    table = pl.DataFrame({"query": [1, 2, 3], "run": ["a", "b", "b"], "rr": [1.0, 0.5, 0.0]})
    table.write_parquet(tmp_path / "table.parquet")
    by_run = actual("summarize", tmp_path / "table.parquet")
    assert by_run.select("run", "mean").rows() == [("a", 1.0), ("b", 0.25)]
    code, out, err = run("summarize", tmp_path / "table.parquet", "--run", "", "--format", "json")
    assert (code, err) == (0, "")
    table.drop("run").write_parquet(tmp_path / "table.parquet")
    whole = actual("summarize", tmp_path / "table.parquet")
    assert whole["mean"].to_list() == [0.5]
    assert whole.to_dicts() == json.loads(out)


def test_trec_files(tmp_path: Path) -> None:
    qrels, bm25, new = (tmp_path / name for name in ("qrels", "bm25.run", "new.run"))
    qrels.write_text("q1 0 a 1\nq1 0 b 0\nq2 0 a 2\nq2 0 b 0\n")
    bm25.write_text("q1 Q0 b 1 2.0 bm25\nq1 Q0 a 2 1.0 bm25\nq2 Q0 a 1 1.0 bm25\n")
    new.write_text("q1 Q0 a 1 2.0 new\nq2 Q0 a 2 1.0 new\n")
    table = actual("compare", bm25, new, "--qrels", qrels, "-m", "rr",
                  "--baseline", "bm25")  # fmt: skip
    row = table.select("run", "baseline_mean", "mean", "wins", "losses", "queries").row(0)
    assert row == ("new", (1 / 2 + 1) / 2, 1.0, 1, 0, 2)


def test_moments_of_days(lists: pl.DataFrame, tmp_path: Path) -> None:
    for day in range(3):
        part = lists.filter(pl.col("query") % 3 == day)
        pr.moments(part, METRICS).write_parquet(tmp_path / f"{day}.parquet")
    days = tmp_path / "*.parquet"
    same(actual("summarize", days), pr.summarize(lists, METRICS))
    same(
        actual("compare", days, "-m", "ap", "--baseline", "old", "--repeated"),
        pr.compare(lists, metrics="ap", baseline="old", repeated=True),
    )
    same(actual("leaderboard", days, "-m", "ap"), pr.leaderboard(lists, "ap"))
    assert run("check", days, "--baseline", "old", "--rule", "difference(ap) >= -1")[0] == 0


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
        code, out, err = run("check", table, "--rule", rule, "--format", "json", *options)
        assert [row["verdict"] for row in json.loads(out)] == verdicts
        assert (code, err) == (expected, "1 of 1 checks failed\n" if expected else "")


def test_a_lost_group_fails_a_gate(lists: pl.DataFrame, tmp_path: Path) -> None:
    """The new run has no query in the US: the gate fails although undecided rules pass."""
    lost = lists.filter((pl.col("run") == "old") | (pl.col("country") != "US"))
    lost.write_parquet(tmp_path / "lost.parquet")
    junit, markdown = tmp_path / "gate.xml", tmp_path / "gate.md"
    code, _, err = run(
        "check", tmp_path / "lost.parquet", "-m", "ap", "--baseline", "old", "--slices", "country",
        "--rule", "difference(ap) >= -9 where(country=US)", "--undecided", "pass",
        "--junit", junit, "--markdown", markdown,
    )  # fmt: skip
    assert (code, err.splitlines()[-1]) == (1, "1 of 1 checks failed")
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "0")
    assert markdown.read_text().splitlines()[2].startswith("| fail | ")


def test_rules_of_a_file(table: Path, tmp_path: Path) -> None:
    pytest.importorskip("tomllib")
    file = tmp_path / "gate.toml"
    text = '[[rules]]\nrule = "rr >= 0.7"\n[[rules]]\nrule = "rr > 0"\nwhere = {run = "a"}\n'
    pl.read_csv(table).with_columns(run=pl.lit("a")).write_csv(table)
    file.write_text('undecided = "pass"\n' + text)
    code, out, _ = run("check", table, "--rules", file, "--rule", "queries >= 4", "--format", "csv")
    assert (code, [line.split(",")[0] for line in out.splitlines()]) == (
        0, ["rule", "rr >= 0.7", "rr > 0", "queries >= 4"]
    )  # fmt: skip
    assert run("check", table, "--rules", file, "--undecided", "fail")[0] == 1
    file.write_text(text)
    assert run("check", table, "--rules", file)[0] == 1
    file.write_text(text.replace('"a"', '"gone"'))
    assert run("check", table, "--rules", file, "--undecided", "pass")[0] == 1
    file.write_text('undecided = "perhaps"\n' + text)
    code, _, err = run("check", table, "--rules", file)
    assert (code, "perhaps" in err) == (2, True)


def test_reports(table: Path, tmp_path: Path) -> None:
    junit, markdown = tmp_path / "gate.xml", tmp_path / "gate.md"
    markdown.touch()  # as the summary of a job on a build server
    arguments = ["check", table, "--rule", "rr >= 0.2", "--rule", "rr >= 0.7", "--rule", "rr > 2",
                 "--junit", junit, "--markdown", markdown]  # fmt: skip
    assert run(*arguments)[0] == 1
    (suite,) = ElementTree.parse(junit).getroot()
    assert {name: suite.get(name) for name in ("tests", "failures", "skipped")} == {
        "tests": "3", "failures": "2", "skipped": "0"
    }  # fmt: skip
    assert [line.split(" | ")[0] for line in markdown.read_text().splitlines()[2:]] == [
        "| fail", "| undecided", "| pass"
    ]  # fmt: skip
    before = junit.read_bytes(), markdown.read_bytes()
    code, out, err = run(*arguments, "--undecided", "pass")
    assert (code, out, "already exists" in err) == (2, "", True)
    assert (junit.read_bytes(), markdown.read_bytes()) == before
    assert run(*arguments, "--undecided", "pass", "--overwrite")[0] == 1
    (suite,) = ElementTree.parse(junit).getroot()
    assert (suite.get("failures"), suite.get("skipped")) == ("1", "1")
    code, _, err = run("check", table, "--rule", "rr > 0", "--junit", table, "--overwrite")
    assert (code, "is an input; write to another file" in err) == (2, True)
    assert {file.name for file in tmp_path.iterdir()} == {"table.csv", "gate.xml", "gate.md"}


def test_verdicts_to_a_file(table: Path, tmp_path: Path) -> None:
    output = tmp_path / "verdicts.parquet"
    code, out, err = run("check", table, "--rule", "rr > 2", "-o", output)
    assert (code, out) == (1, "")
    assert err == f"Wrote {output}\n1 of 1 checks failed\n"
    assert pl.read_parquet(output)["verdict"].to_list() == ["fail"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["summarize", "LOG"], "a log needs metrics"),
        (["summarize", "LOG", "-m", "ndgc@10"], "Did you mean 'ndcg'"),
        (["summarize", "-m", "ap"], "missing argument LOG"),
        (["summarize", "LOG", "--values", "LOG"], "instead of a log; give one of the two"),
        (["summarize", "--qrels", "LOG"], "--qrels needs a LOG"),
        (["summarize", "--values", "LOG"], "so it is a log with one row per document"),
        (["summarize", "no.parquet", "-m", "ap"], "'no.parquet' not found"),
        (["summarize", "LOG", "-m", "ap", "--cluster", "doc"], "'doc'"),
        (
            ["summarize", "LOG", "-m", "ap", "--weight", "wieght"],
            "column 'wieght' (`--weight`) not found",
        ),
        (["summarize", "LOG", "-m", "ap", "--run", "runs"], "column 'runs' (`--run`) not found"),
        (
            ["summarize", "LOG", "-m", "ap", "--label", "grade"],
            "column 'grade' (`--label`) not found",
        ),
        (["summarize", "TABLE", "--ties", "best"], "--ties is for logs"),
        (["summarize", "TABLE", "--memory", "1GB"], "--memory is for logs"),
        (["summarize", "TABLE", "--undefined", "one"], "--undefined is for logs"),
        (["summarize", "LOG", "-m", "ap", "--undefined", "rr=one"], "'rr' (`--undefined`) is not"),
        (["summarize", "TABLE", "-m", "ap"], "per-query values in a column 'ap'"),
        (["summarize", "TABLE", "-o", "out.xlsx"], "must end in .txt, .csv"),
        (
            ["summarize", "LOG", "-m", "ndcg@10", "ap"],
            "file 'ap' not found; to name several metrics, quote them: --metrics \"ndcg@10 ap\"",
        ),
        (
            ["compare", "LOG", "-m", "ap", "--run", "query", "--baseline", "1"],
            "column 'query' is used for both `--run` and `--query`",
        ),
        (
            ["compare", "TABLE", "--run", "query", "--baseline", "1"],
            "column 'query' is used for both `--run` and `--query`",
        ),
        (["compare", "LOG", "-m", "ap", "--baseline", "odl"], "available: 'new', 'old'"),
        (["compare", "TABLE", "--baseline", "old"], "column 'run' (`--run`) not found"),
        (["compare", "LOG", "-m", "ap", "--baseline", "old", "--margin", "two"], "`--margin` must"),
        (
            ["compare", "LOG", "-m", "ap", "--baseline", "old", "--slices", "county"],
            "Did you mean 'country'",
        ),
        (["check", "LOG"], "give a rule, e.g."),
        (["check", "LOG", "--rule", "ap is good"], "invalid rule"),
        (["check", "LOG", "--rule", "queries > 1"], "a log needs metrics"),
        (["check", "LOG", "--rule", "difference(ap) > 0"], "--baseline"),
        (
            ["check", "LOG", "--rule", "contribution(ap) > 0", "--baseline", "old"],
            "'contribution', which has no confidence interval",
        ),
        (["check", "TABLE", "-m", "rr", "--rule", "ap > 0"], "in a column 'ap'"),
        (["check", "LOG", "--rules", "no.toml"], "in 'no.toml'"),
        (
            ["check", "LOG", "--rule", "ap > 0", "--junit", "no/gate.xml"],
            "directory 'no' does not exist",
        ),
    ],
)
def test_invalid_usage_prints_one_message_and_exits_with_2(
    log: Path, table: Path, arguments: list[str], message: str
) -> None:
    paths = {"LOG": log, "TABLE": table}
    code, out, err = run(*[paths.get(argument, argument) for argument in arguments])
    plain = " ".join(err.replace("│", " ").split())
    assert message in plain
    assert (code, out, "Traceback" in err) == (2, "", False)


def test_rows_at_fault_are_shown(tmp_path: Path) -> None:
    table = pl.DataFrame({"query": [1, 1, 2], "run": ["a", "a", "b"], "rr": [1.0, 0.5, 0.0]})
    table.write_parquet(tmp_path / "table.parquet")
    code, out, err = run("compare", tmp_path / "table.parquet", "--baseline", "a")
    assert (code, out) == (2, "")
    assert "duplicate rankings" in err and "in 2 rows, e.g. {'run': 'a', 'query': 1}" in err


@pytest.mark.parametrize("command", COMMANDS)
def test_an_output_never_replaces_an_input(log: Path, tmp_path: Path, command: str) -> None:
    copy = tmp_path / "log.parquet"
    copy.write_bytes(log.read_bytes())
    arguments = [command, copy, "-m", "ndcg@10", *COMMANDS[command], "--overwrite", "-o"]
    code, out, err = run(*arguments, copy)
    assert (code, out, copy.read_bytes()) == (2, "", log.read_bytes())
    assert "is an input; write to another file" in err
    assert run(*arguments, tmp_path / "out.csv")[0] == 0
    assert pl.read_csv(tmp_path / "out.csv").height > 0


def test_predictions(lists: pl.DataFrame, tmp_path: Path) -> None:
    human, predicted = tmp_path / "human.parquet", tmp_path / "predicted.parquet"
    some = lists.filter(pl.col("query") < 40)
    some.write_parquet(human)
    lists.select("run", "query", pl.col(METRICS) ** 2).write_parquet(predicted)
    options = ["--values", human, "--predictions", predicted, *ASKED, "--baseline", "old"]
    predictions = pl.read_parquet(predicted)
    expected = pr.compare(some, METRICS, baseline="old", predictions=predictions)
    same(actual("compare", *options), expected)
    rule = ["--rule", "difference(ap) >= -0.9", "--rule", "predicted(ap) >= 1"]
    assert set(actual("check", *options, *rule)["verdict"]) == {"pass"}


def test_predicted_labels(log: Path, tmp_path: Path) -> None:
    rows = pl.read_parquet(log).with_columns(pl.col("label").fill_null(0))
    both = rows.with_columns(
        human=pl.when(pl.col("query") < 40).then("label"),
        llm=(pl.col("label") + pl.struct("query", "doc").hash(1) % 2).cast(pl.Float64),
    )
    both.write_parquet(path := tmp_path / "both.parquet")
    values, predictions = (
        pr.per_query(both, METRICS, by="run", label=["human", "llm"])
        .filter(judge=judge)
        .drop("judge")
        for judge in ("human", "llm")
    )
    options = [path, *ASKED, "--label", "human", "--predicted-label", "llm", "--baseline", "old"]
    expected = pr.compare(values, METRICS, baseline="old", predictions=predictions)
    same(actual("compare", *options), expected)
    code, _, err = run("compare", *options, "--predictions", path)
    assert (code, "one of --predicted-label and --predictions" in err) == (2, True)


def test_human_labels_that_are_incomplete_or_missing(log: Path, tmp_path: Path) -> None:
    human = pl.when(pl.col("query") < 40, pl.col("doc") % 4 > 0).then("label")
    both = pl.read_parquet(log).with_columns(human=human, llm="label", none=pl.lit(None, pl.Int8))
    both.write_parquet(path := tmp_path / "both.parquet")
    judged = pr.judged(10, depth="retrieved")
    labeled = both.filter(pl.col("human").is_not_null().any().over("query"))
    share = pr.per_query(labeled, judged, by="run", label="human")[str(judged)].mean()
    for command, options in COMMANDS.items():
        if command == "leaderboard":  # all pairs of runs have no estimates from predictions
            continue
        given = [path, "-m", "ndcg@10", "--label", "human", "--predicted-label", "llm", *options]
        code, _, err = run(command, *given)
        text = f"{int(1000 * share) / 10}% for ndcg@10 (judged@10, with unjudged documents in "
        assert (code, err.count(text)) == (0, 1), err
    for column, option in (("none", "--label"), ("llm", "--predicted-label")):
        columns = ["--label", column, "--predicted-label", "none" if column == "llm" else "llm"]
        code, _, err = run("compare", path, *ASKED, "--baseline", "old", *columns)
        assert (code, f"column 'none' (`{option}`) has no labels" in err) == (2, True), err


def test_a_leaderboard(log: Path, lists: pl.DataFrame, tmp_path: Path) -> None:
    options = ["--cluster", "user", "--weight", "traffic", "--details"]
    table = pr.leaderboard(lists, METRICS, cluster="user", weight="traffic", details=True)
    same(actual("leaderboard", log, *ASKED, *options), table)
    by_country = pr.leaderboard(lists, METRICS, by="country")
    same(actual("leaderboard", log, *ASKED, "--by", "country"), by_country)
    # A table with one row per task and run.
    tasks = lists.with_columns(query=pl.lit(1), task=pl.col("query") % 12)
    means = tasks.group_by("task", "query", "run").agg(pl.col(METRICS).mean())
    means.write_parquet(tmp_path / "tasks.parquet")
    of_tasks = ["leaderboard", "--values", tmp_path / "tasks.parquet", "--by", "task"]
    board = actual(*of_tasks, "--population", "tasks", "--details")
    assert board["tasks"].to_list() == [12] * 4


def test_leaderboards_of_papers(tmp_path: Path) -> None:
    noise = pl.int_range(40, eager=True) % 2 * 0.2 - 0.1
    pl.concat(
        pl.DataFrame(
            {
                "run": run,
                "query": range(40),
                "rr": rr + noise.shuffle(n),
                "ap": 0.004 * ap + noise.shuffle(9 - n) / 100,
            }
        )
        for n, (run, rr, ap) in enumerate([("x_1", 0.5, 1), ("b|m", 0.49, 2), ("c", 0.3, 3)])
    ).write_parquet(tmp_path / "values.parquet")
    command = ["leaderboard", "--values", tmp_path / "values.parquet", "-m", "rr ap", "--format"]
    _, out, _ = run(*command, "markdown")
    assert out.splitlines() == [
        "| run | rr | ap |",
        "| --- | ---: | ---: |",
        "| x_1 | **0.500** | 0.004 |",
        r"| b\|m | 0.490 | 0.008 |",
        "| c | 0.300 | **0.012** |",
        "",
        "Means on 40 queries; best in bold.",
    ]
    _, out, _ = run(*command, "latex")
    assert out.splitlines()[5:8] + out.splitlines()[-1:] == [
        r"x\_1 & \textbf{0.500}\textsuperscript{a} & 0.004\textsuperscript{c} \\",
        r"b\textbar{}m & 0.490\textsuperscript{a} & 0.008\textsuperscript{b} \\",
        r"c & 0.300\textsuperscript{b} & \textbf{0.012}\textsuperscript{a} \\",
        "% Means on 40 queries; best in bold. Runs that share no letter differ significantly "
        "(simultaneous 95% intervals of all pairs).",
    ]
    junk = pl.read_parquet(tmp_path / "values.parquet").rename({"rr": "fall_out@5", "ap": "x"})
    junk.write_parquet(tmp_path / "junk.parquet")
    _, out, _ = run("leaderboard", "--values", tmp_path / "junk.parquet", "--format", "markdown")
    assert out.startswith("| run | fall_out@5 (lower is better) | x (higher is better) |")


def test_few_tasks_have_no_letters(tmp_path: Path) -> None:
    rows = [(run, task, task, rr + task / 10) for run, rr in (("a", 0.1), ("b", 0.5))
            for task in range(3)]  # fmt: skip
    schema = ["run", "query", "task", "rr"]
    pl.DataFrame(rows, schema, orient="row").write_parquet(tmp_path / "values.parquet")
    of_tasks = ["leaderboard", "--values", tmp_path / "values.parquet", "--by", "task"]
    _, out, _ = run(*of_tasks, "--population", "tasks", "--format", "latex")
    assert r"b & \textbf{0.600} \\" in out
    assert out.endswith("There are too few tasks to tell runs apart.\n")
