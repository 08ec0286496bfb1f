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


pytestmark = pytest.mark.filterwarnings("ignore:.* intervals exceed")

#: Warnings about few queries, in which an interval may exceed the range of the metric.
_OF_FEW = re.compile("intervals exceed|intervals are unreliable|fewer than 30 effective")

METRICS = ["ndcg@10", "ap"]
ASKED = ["-m", "ndcg@10 ap"]
COMMANDS = {
    "summarize": [],
    "compare": ["--baseline", "old"],
    "leaderboard": [],
    "slices": ["--baseline", "old", "--slices", "country"],
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
    assert (code, [line for line in err.splitlines() if not _OF_FEW.search(line)]) == (
        0,
        [],
    )
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
              "--interval", "normal", "--confidence", 0.9),
        pr.summarize(lists, METRICS, weight="traffic", cluster="user",
                     interval="normal", confidence=0.9),
    )  # fmt: skip
    same(
        actual("summarize", *given, *ASKED, "--interval", "bootstrap", "--n-resamples", 50,
              "--seed", 3, "--quantiles", "0.1 0.5", "--undefined", "skip"),
        pr.summarize(lists, METRICS, interval="bootstrap", n_resamples=50, seed=3,
                     quantiles=[0.1, 0.5], undefined="skip"),
    )  # fmt: skip


@log_or_table
def test_compare(given: list[object], lists: pl.DataFrame, tmp_path: Path) -> None:
    lists = as_read(given, lists)
    same(
        actual("compare", *given, *ASKED, "--baseline", "old"),
        pr.compare(lists, metrics=METRICS, baseline="old"),
    )
    # One side of the interval is infinite, which JSON cannot write.
    output = tmp_path / "out.parquet"
    code, _, _ = run(
        "compare", *given, *ASKED, "--baseline", "new", "--test", "randomization", "--n-resamples",
        99, "--seed", 2, "--alternative", "less", "--margin", 0.01, "--correction", "bh",
        "--undefined", "one", "-o", output,
    )  # fmt: skip
    assert code == 0
    expected = pr.compare(
        lists, metrics=METRICS, baseline="new", test="randomization", n_resamples=99, seed=2,
        alternative="less", margin=0.01, correction="bh", undefined="one",
    )  # fmt: skip
    assert_frame_equal(pl.read_parquet(output), expected, abs_tol=1e-12)


@log_or_table
def test_sequences(given: list[object], lists: pl.DataFrame) -> None:
    """An interval for any number of looks is about differences, and of `check` about means too."""
    sequence: dict[str, Any] = {"interval": "sequence", "bounds": (0, 1), "order": "traffic"}
    lists = as_read(given, lists)
    same(
        actual("compare", *given, *ASKED, "--baseline", "old", "--interval", "sequence"),
        pr.compare(lists, metrics=METRICS, baseline="old", interval="sequence"),
    )
    options = ["--interval", "sequence", "--bounds", "0 1", "--order", "traffic"]
    differences = pr.compare(lists, metrics="ap", baseline="old", **sequence)
    same(actual("compare", *given, "-m", "ap", "--baseline", "old", *options), differences)
    means = pr.summarize(lists, "ap", **sequence)
    same(actual("summarize", *given, "-m", "ap", *options), means)
    rules = ["ap >= 0.01", "difference(ap) >= -0.9"]
    gate = [part for rule in rules for part in ("--rule", rule)]
    same(
        actual("check", *given, "--baseline", "old", *options, *gate),
        pr.check([means.filter(run="new"), differences], rules),
    )


@log_or_table
def test_covariate(given: list[object], lists: pl.DataFrame) -> None:
    same(
        actual(
            "compare", *given, "-m", "ap", "--baseline", "old", "--covariate", "traffic",
            "--covariate-mean", 2,
        ),
        pr.compare(
            as_read(given, lists), "ap", baseline="old", covariate="traffic", covariate_mean=2
        ),
    )  # fmt: skip


@log_or_table
@pytest.mark.parametrize(("option", "margin"), [("--margin", 0.05), ("--relative-margin", 0.2)])
def test_equivalence(given: list[object], lists: pl.DataFrame, option: str, margin: float) -> None:
    lists = as_read(given, lists)
    parameters: dict[str, Any] = {option[2:].replace("-", "_"): margin}
    parameters |= {"baseline": "old", "alternative": "equivalent"}
    directed = ["--baseline", "old", "--alternative", "equivalent", option, margin]
    expected = pr.compare(lists, metrics="ap", **parameters)
    same(actual("compare", *given, "-m", "ap", *directed), expected)
    same(
        actual("slices", *given, "-m", "ap", "--slices", "country", *directed),
        pr.slices(lists, "ap", slices="country", **parameters),
    )
    low = expected["low"].min()
    rule = f"difference(ap) >= {low - 1e-6}"
    verdict = actual("check", *given, "--rule", rule, *directed).row(0, named=True)
    assert (verdict["verdict"], verdict["low"]) == ("pass", pytest.approx(low, abs=1e-9))


@log_or_table
def test_slices(given: list[object], lists: pl.DataFrame) -> None:
    expected = [
        pr.slices(
            lists, metric, slices=["country", "traffic"], baseline="old", pairs=True, min_queries=2
        )
        for metric in METRICS
    ]
    columns = ["--slices", "country traffic", "--pairs", "--min-queries", 2]
    same(actual("slices", *given, *ASKED, "--baseline", "old", *columns), pl.concat(expected))
    units: dict[str, Any] = {"weight": "traffic", "cluster": "user"}
    weighed = pr.slices(lists, "ap", slices="country", baseline="old", **units)
    options = ["--slices", "country", "--weight", "traffic", "--cluster", "user"]
    same(actual("slices", *given, "-m", "ap", "--baseline", "old", *options), weighed)


@pytest.mark.filterwarnings("ignore:.* intervals are unreliable")
@log_or_table
def test_check(given: list[object], lists: pl.DataFrame) -> None:
    """Of a mean, the new run's alone; of a difference, all and each country's."""
    rules = ["ndcg@10 >= 0.01", "difference(ndcg@10) >= -9", "queries >= 2"]
    new = lists.filter(run="new")
    both = [
        pr.compare(lists, metrics=["ndcg@10"], baseline="old"),
        # Small slices would be undecided; there are 80 queries of six countries.
        pr.slices(lists, "ndcg@10", slices="country", baseline="old", min_queries=2),
    ]
    summary = pr.summarize(new, ["ndcg@10"])
    expected = pl.concat(
        pr.check(tables, [rule], on_fail="return")
        for rule, tables in zip(rules, ([summary], both, [summary, *both]), strict=True)
    )
    assert expected.height == 1 + (1 + 6) + (1 + 6)  # six countries
    options = [part for rule in rules for part in ("--rule", rule)]
    gate = ["check", *given, "--baseline", "old", "--slices", "country", "--min-queries", 2,
            *options]  # fmt: skip
    same(actual(*gate), expected)


@log_or_table
@pytest.mark.filterwarnings("ignore:fewer than 30 effective", "ignore:.*intervals are unreliable")
def test_check_with_weights_and_clusters(given: list[object], lists: pl.DataFrame) -> None:
    """They count for the means, the differences and the slices."""
    units: dict[str, Any] = {"weight": "traffic", "cluster": "user"}
    rule = "difference(ap) >= -9"
    new = pr.summarize(lists.filter(run="new"), ["ap"], **units)
    both = [
        pr.compare(lists, metrics=["ap"], baseline="old", **units),
        pr.slices(lists, "ap", slices="country", baseline="old", min_queries=2, **units),
    ]
    expected = pr.check([new, *both], [rule, "ap >= 0.01"], on_fail="return")
    found = actual(
        "check", *given, "--baseline", "old", "--slices", "country", "--min-queries", 2,
        "--weight", "traffic", "--cluster", "user", "--rule", rule, "--rule", "ap >= 0.01",
    )  # fmt: skip
    same(found, expected)


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
    conventions = pr.conventions.LIGHTGBM
    asked = ["-m", "ndcg@3", "--conventions", "lightgbm", "--by", "country"]
    lists = pr.per_query(frame, "ndcg@3", by=["run", "country"], conventions=conventions)
    summary = actual("summarize", log, *asked)
    same(summary, pr.summarize(lists, by="country", conventions=conventions))
    means = pr.evaluate(frame, "ndcg@3", by=["country", "run"], conventions=conventions)
    assert_frame_equal(
        summary.select("country", "run", "mean"),
        means.select("country", "run", pl.col("ndcg@3").alias("mean")),
        abs_tol=1e-12,
    )
    same(
        actual("compare", log, *asked, "--baseline", "old"),
        pr.compare(lists, by="country", baseline="old", conventions=conventions),
    )


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_table_names_its_conventions(log: Path, tmp_path: Path, ending: str) -> None:
    table = tmp_path / f"values.{ending}"
    code, _, err = run(
        "evaluate", log, "-m", "ndcg@3", "--by", "run", "--conventions", "lightgbm",
        "--per-query", "-o", table,
    )  # fmt: skip
    assert code == 0, err
    frame = pl.read_parquet(log)
    means = pr.evaluate(frame, "ndcg@3", by="run", conventions="lightgbm")["ndcg@3"].to_list()
    summary = actual("summarize", table)
    assert summary["mean"].to_list() == pytest.approx(means)
    assert not summary.equals(actual("summarize", table, "--conventions", "polars_rank"))


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


def test_values_without_a_column_query(log: Path, tmp_path: Path) -> None:
    """Commands find the column that identifies rows, as the functions do."""
    table = tmp_path / "values.parquet"
    names = pl.read_parquet(log).with_columns(user=pl.format("u{}", "query"))
    values = pr.per_query(names, "ap", by="run", query="user", keep="country")
    values.write_parquet(table)
    arguments = ["--values", table, "-m", "ap", "--baseline", "old"]
    expected = pr.compare(values, "ap", baseline="old")
    same(actual("compare", *arguments), expected)
    by_country = pr.compare(values, "ap", baseline="old", by="country")
    same(actual("compare", *arguments, "--by", "country"), by_country)
    slices = pr.slices(values, "ap", slices="country", baseline="old")
    same(actual("slices", *arguments, "--slices", "country"), slices)
    for kind in ("differences", "scatter"):
        named = arguments if kind == "differences" else arguments[:4]
        chart = tmp_path / f"{kind}.json"
        code, _, err = run("plot", kind, *named, "--by", "country", "-o", chart)
        assert code == 0, err
    values.with_columns(session=pl.col("user").str.reverse()).write_parquet(table)
    code, _, err = run("compare", *arguments)
    assert code == 2
    assert "several columns identify the rows of each run" in err
    assert "'user', 'session'" in " ".join(err.split())


def test_the_column_of_runs_is_not_a_group(log: Path) -> None:
    code, _, err = run("summarize", log, "-m", "ap", "--by", "run")
    assert code == 2
    expected = "is the column of runs; name it with `--run`, and leave it out of `--by`"
    assert expected in " ".join(err.split())


def test_without_runs(tmp_path: Path) -> None:
    table = pl.DataFrame({"query": [1, 2, 3], "run": ["a", "b", "b"], "rr": [1.0, 0.5, 0.0]})
    table.write_parquet(tmp_path / "table.parquet")
    by_run = actual("summarize", tmp_path / "table.parquet", "--interval", "none")
    assert by_run.select("run", "mean").rows() == [("a", 1.0), ("b", 0.25)]
    pooled = ["--interval", "none", "--run", ""]
    code, out, err = run("summarize", tmp_path / "table.parquet", *pooled, "--format", "json")
    assert (code, err) == (0, "")
    table.drop("run").write_parquet(tmp_path / "table.parquet")
    whole = actual("summarize", tmp_path / "table.parquet", "--interval", "none")
    assert whole["mean"].to_list() == [0.5]
    assert whole.to_dicts() == json.loads(out)


def test_trec_files(tmp_path: Path) -> None:
    qrels, bm25, new = (tmp_path / name for name in ("qrels", "bm25.run", "new.run"))
    qrels.write_text("q1 0 a 1\nq1 0 b 0\nq2 0 a 2\nq2 0 b 0\n")
    bm25.write_text("q1 Q0 b 1 2.0 bm25\nq1 Q0 a 2 1.0 bm25\nq2 Q0 a 1 1.0 bm25\n")
    new.write_text("q1 Q0 a 1 2.0 new\nq2 Q0 a 2 1.0 new\n")
    table = actual("compare", bm25, new, "--qrels", qrels, "-m", "rr",
                  "--baseline", "bm25")  # fmt: skip
    row = table.select("run", "baseline_mean", "mean", "wins", "ties", "losses").row(0)
    assert row == ("new", (1 / 2 + 1) / 2, 1.0, 1, 1, 0)


def test_moments_of_days(lists: pl.DataFrame, tmp_path: Path) -> None:
    for day in range(3):
        part = lists.filter(pl.col("query") % 3 == day)
        pr.stats.write_moments(
            pr.stats.moments(part, METRICS, run="run", baseline="old"), tmp_path / f"{day}.parquet"
        )
    days = tmp_path / "*.parquet"
    same(actual("summarize", days), pr.summarize(lists, METRICS))
    same(
        actual("compare", days, "-m", "ap", "--baseline", "old"),
        pr.compare(lists, metrics="ap", baseline="old"),
    )
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
        "| pass", "| undecided", "| fail"
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
        (["summarize", "TABLE", "--quantiles", "half"], "`--quantiles` must be numbers"),
        (["summarize", "TABLE", "--bounds", "0"], "`--bounds` needs `--interval` 'sequence'"),
        (
            [
                "check",
                "LOG",
                "-m",
                "ap",
                "--rule",
                "ap >= 0",
                "--baseline",
                "old",
                "--slices",
                "country",
                "--interval",
                "sequence",
            ],
            "--slices does not support --interval sequence",
        ),
        (["summarize", "TABLE", "--ties", "best"], "--ties is for logs"),
        (["summarize", "TABLE", "--memory", "1GB"], "--memory is for logs"),
        (["summarize", "TABLE", "-m", "ap"], "per-query values in a column 'ap'"),
        (["summarize", "TABLE", "--interval", "z"], "--interval"),
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
        (["compare", "LOG", "-m", "ap"], "Missing option '--baseline'"),
        (["compare", "LOG", "-m", "ap", "--baseline", "odl"], "available: 'new', 'old'"),
        (["compare", "TABLE", "--baseline", "old"], "column 'run' (`--run`) not found"),
        (["compare", "LOG", "-m", "ap", "--baseline", "old", "--margin", "1"], "`--margin`"),
        (["slices", "LOG", "-m", "ap", "--baseline", "old"], "Missing option '--slices'"),
        (
            ["slices", "LOG", "-m", "ap", "--baseline", "old", "--slices", "county"],
            "Did you mean 'country'",
        ),
        (["check", "LOG"], "give a rule, e.g."),
        (["check", "LOG", "--rule", "ap is good"], "invalid rule"),
        (["check", "LOG", "--rule", "queries > 1"], "a log needs metrics"),
        (["check", "LOG", "--rule", "difference(ap) > 0"], "--baseline"),
        (
            ["check", "LOG", "--rule", "contribution(ap) > 0", "--baseline", "old"],
            "'difference(ap)' is the difference in a slice",
        ),
        (
            [
                "check",
                "LOG",
                "--rule",
                "ap > 0 where(country=US)",
                "--baseline",
                "old",
                "--slices",
                "country",
            ],
            "with --by instead of --slices",
        ),
        (["check", "LOG", "--rule", "ap > 0", "--slices", "country"], "--baseline"),
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
    assert "2 rows: duplicate rankings" in err


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
    some = lists.filter(pl.col("query") < 40).with_columns(p=pl.lit(0.5))
    some.write_parquet(human)
    lists.select("run", "query", pl.col(METRICS) ** 2).write_parquet(predicted)
    options = ["--values", human, "--predictions", predicted, *ASKED, "--baseline", "old"]
    predictions = pl.read_parquet(predicted)
    for given in ({}, {"probability": "p"}):
        extra = [each for name, value in given.items() for each in (f"--{name}", value)]
        expected = pr.compare(some, METRICS, baseline="old", predictions=predictions, **given)
        same(actual("compare", *options, *extra), expected)
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
        pr.per_query(both, METRICS, by="run", labels=["human", "llm"]).filter(judge=judge)
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
    options = ["--n-resamples", 500, "--cluster", "user", "--weight", "traffic"]
    table = pr.stats.leaderboard(lists, METRICS, n_resamples=500, cluster="user", weight="traffic")
    same(actual("leaderboard", log, *ASKED, *options), table)
    by_country = pr.stats.leaderboard(lists, METRICS, by="country")
    same(actual("leaderboard", log, *ASKED, "--by", "country"), by_country)
    # A table with one row per task and run.
    tasks = lists.with_columns(task=pl.col("query") % 12).group_by("task", "run")
    tasks.agg(pl.col(METRICS).mean()).write_parquet(tmp_path / "tasks.parquet")
    of_tasks = ["leaderboard", "--values", tmp_path / "tasks.parquet", "--by", "task"]
    assert actual(*of_tasks, "--population", "tasks")["tasks"].to_list() == [12] * 4


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
    assert actual(*command[:-1])["letters"].to_list() == ["a", "a", "b", "a", "b", "c"]
    _, out, _ = run(*command, "markdown")
    assert out.splitlines() == [
        "| run | rr | ap |",
        "| --- | ---: | ---: |",
        "| x_1 | **0.500**<sup>a</sup> | 0.004<sup>c</sup> |",
        r"| b\|m | 0.490<sup>a</sup> | 0.008<sup>b</sup> |",
        "| c | 0.300<sup>b</sup> | **0.012**<sup>a</sup> |",
        "",
        "Means on 40 queries; best in bold. Runs that share no letter differ significantly "
        "(simultaneous 95% intervals of all pairs).",
    ]
    junk = pl.read_parquet(tmp_path / "values.parquet").rename({"rr": "fall_out@5", "ap": "x"})
    junk.write_parquet(tmp_path / "junk.parquet")
    _, out, _ = run("leaderboard", "--values", tmp_path / "junk.parquet", "--format", "markdown")
    assert out.startswith("| run | fall_out@5 (lower is better) | x (higher is better) |")
    _, out, _ = run(*command, "latex")
    assert r"x\_1 & \textbf{0.500}\textsuperscript{a} & 0.004\textsuperscript{c} \\" in out
