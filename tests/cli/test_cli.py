"""The command line: outputs in all formats, terminals of any width, warnings and completion."""

from __future__ import annotations

import io
import json
import math
import os
import re
import subprocess
import warnings
from pathlib import Path
from threading import Thread
from typing import Any

import polars as pl
import pytest
from commands import invoke, on_terminal, run
from polars.testing import assert_frame_equal
from rows import check_each

import polars_rank as pr
from polars_rank import cli

# Widths of terminals, and formats that the command chooses by them.
from polars_rank._pages import width
from polars_rank.cli.writing import choose, json_rows, put

LONG = "https://example.org/" + "path/" * 30 + "end"
IDS = ["a|b", "x\ty\x1b[31m", "文書", LONG, "[bold]id[/bold]", "\\sum_{i}^2 & 5%"]
LOG = pl.DataFrame({
    "query": IDS, "doc": 1, "score": 1.0, "label": [1, 0, 1, 1, 1, 1], "run": "bm25"
})  # fmt: skip
LISTS = ["per-query", "log.parquet", "-m", "rr p@1", "--run", ""]
MEANS = ["evaluate", "log.parquet", "-m", "rr"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    LOG.write_parquet("log.parquet")


def read(name: str) -> str:
    return Path(name).read_text("utf-8")


def test_data_is_the_same_in_pipes_and_files() -> None:
    expected = pr.per_query(LOG, ["rr", "p@1"], run=None).sort("query")

    def check(form: str) -> None:
        done = invoke(*LISTS, "--format", form)
        assert (done.exit_code, done.stderr) == (0, "")
        found = getattr(pl, f"read_{form}")(io.BytesIO(done.stdout_bytes))
        assert_frame_equal(found.sort("query"), expected)
        assert run(*LISTS, "-o", f"out.{form}")[0] == 0
        assert Path(f"out.{form}").read_bytes() == done.stdout_bytes

    check_each(check, [(form,) for form in ("csv", "json", "ndjson", "parquet")])
    for name, same, options in (
        ("A.CSV", "csv", []),
        ("a", "txt", []),
        ("a.dat", "csv", ["--format", "csv"]),
    ):
        run(*MEANS, "-o", f"a.{same}", "--overwrite")
        assert run(*MEANS, "-o", name, *options)[0] == 0
        assert read(name) == read(f"a.{same}")
    assert read("a").split()[:3] == ["run", "queries", "rr"]


def test_infinite_numbers_are_not_null() -> None:
    table = pl.DataFrame({"x": [-math.inf, None, 0.5]})
    for form in ("json", "ndjson", "csv"):
        put(table.lazy(), form, {"output": f"out.{form}"}, {"json": json_rows})
    rows = [{"x": "-Infinity"}, {"x": None}, {"x": 0.5}]
    assert json.loads(read("out.json")) == rows
    assert [json.loads(line) for line in read("out.ndjson").splitlines()] == rows
    assert pl.read_csv("out.csv")["x"].to_list() == [-math.inf, None, 0.5]


def test_text_that_spreadsheets_run_is_prefixed_in_csv() -> None:
    runs = ["=HYPERLINK(1)", "+a", "-a", "@a", "-1.5", "a=b"]
    log = pl.DataFrame({"=run": runs, "query": 1, "doc": "a", "score": 1.0, "label": 1})
    log.cast({"=run": pl.Categorical}).write_parquet("log.parquet")

    def written(*options: str) -> list[str]:
        _, out, _ = run(*MEANS, "--by", "=run", "--format", "csv", *options)
        run(*MEANS, "--by", "=run", "-o", "out.csv", "--overwrite", *options)
        assert sorted(read("out.csv").splitlines()) == sorted(out.splitlines())
        return sorted(line.removesuffix(",1,1.0") for line in out.splitlines())

    prefixed = ["'=HYPERLINK(1)", "'+a", "'-a", "'@a", "-1.5", "a=b"]
    assert written() == sorted([*prefixed, "'=run,queries,rr"])
    assert written("--keep-formulas") == sorted([*runs, "=run,queries,rr"])


def test_ids_stay_text() -> None:
    """Nothing in an id moves a cursor, opens a tag, or ends a cell."""
    _, out, _ = run(*LISTS)
    lines = out.splitlines()
    assert len(lines) == 1 + len(IDS)
    assert "\x1b" not in out
    for text in (r"x\ty\x1b[31m", "[bold]id[/bold]", LONG):
        assert text in out
    # Numbers stand below each other, whatever the width of the letters before them.
    assert len({width(line[: line.rindex("  ")]) for line in lines[1:]}) == 1
    _, out, _ = run(*LISTS, "--format", "markdown")
    head, rule, *rows = out.splitlines()
    assert (head, rule) == ("| query | rr | p@1 |", "| --- | ---: | ---: |")
    assert r"| a\|b | 1.0000 | 1.0000 |" in rows
    assert all(row.replace(r"\|", "").count("|") == 4 for row in rows)
    assert run(*LISTS, "-o", "t.md")[0] == 0
    assert read("t.md") == out


# --- terminals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 260])
def test_text_is_shortened_but_not_numbers(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    shown = on_terminal(monkeypatch, columns, *LISTS)
    assert (LONG in shown, "https://exam" in shown) == (columns == 260, True)
    lines = shown.splitlines()
    heads = 2 if columns == 60 else 1  # the cutoff is below its metric
    assert len(lines) == heads + len(IDS) and max(map(width, lines)) <= columns
    assert shown.count("1.0000") == 2 * 5
    assert LONG in on_terminal(monkeypatch, 60, *LISTS, "--wide")


def test_a_comparison_shows_its_first_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal and in a pipe; with --wide, a table has all columns."""
    log = pr.datasets.search_log(40, runs=["bm25", "neural"])
    log.sink_parquet("runs.parquet")
    options = ["compare", "runs.parquet", "-m", "ndcg@10", "--baseline", "bm25"]
    in_a_pipe = run(*options)[1].splitlines()
    wide = run(*options, "--wide", "--margin", "2%")[1]
    assert all(name in wide for name in ("baseline_mean", "relative [low, high]", "%]"))
    for columns in (80, 300):
        *table, hint = on_terminal(monkeypatch, columns, *options).splitlines()
        assert re.fullmatch(r"\d+ columns hidden; use --wide to show all columns.", hint)
        assert table == in_a_pipe
    head, row, below = table
    names = ["metric", "run", "mean", "difference", "[low, high]", "p_value", "verdict", "method"]
    assert re.split(r"\s{2,}", head) == names
    assert row.startswith("ndcg@10  neural  0.") and len(row) <= 80
    assert below == "40 queries; intervals and p-values are not corrected"
    # It fits whatever the column of the run is called, and with slices.
    log.rename({"run": "retriever_and_reranker"}).sink_parquet("runs.parquet")
    options += ["--run", "retriever_and_reranker"]
    for more in [], ["--slices", "country"]:
        shown = on_terminal(monkeypatch, 80, *options, *more)
        assert "[low, high]" in shown
        assert max(map(len, shown.splitlines())) <= 80


def test_tables_of_text_fold_to_80_columns_in_pipes(monkeypatch: pytest.MonkeyPatch) -> None:
    _, out, _ = run("metrics", "novelty")
    assert max(map(width, out.splitlines())) <= 80
    assert "…" not in out
    assert max(map(width, run("metrics", "novelty", "--wide")[1].splitlines())) > 80
    # A column of the log may have the name of one that tables of other commands leave out.
    LOG.with_columns(metric=1, queries=1, wins=3).write_parquet("log.parquet")
    words = run(*MEANS, "--by", "metric run wins")[1].split()
    assert words == [
        *("metric", "run", "wins", "queries", "rr"),
        *("1", "bm25", "3", "6", "0.8333"),
    ]
    monkeypatch.setattr("sys.stdout", type("", (io.StringIO,), {"isatty": lambda self: True})())
    with pytest.raises(pr.errors.ArgumentError, match="pipe it, or use --output"):
        choose("parquet", None)


def test_metrics_are_listed_and_filtered(monkeypatch: pytest.MonkeyPatch) -> None:
    every = pr.list_metrics()
    assert len(run("metrics", "--wide")[1].splitlines()) == 1 + every.height
    assert json.loads(run("metrics", "--format", "json")[1]) == every.to_dicts()
    table = pl.read_csv(run("metrics", "reciprocal rank", "--format", "csv")[1].encode())
    assert 0 < table.height < every.height
    assert "reciprocal_rank" in table["metric"].to_list()
    code, _, err = run("metrics", "ndgc")
    assert (code, "no metric contains 'ndgc'. Did you mean 'ndcg'" in err) == (2, True)
    assert "rbp" in on_terminal(monkeypatch, 200, "metrics", "rank-biased precision")


# --- files ----------------------------------------------------------------------------------------


def test_an_output_never_replaces_an_input() -> None:
    Path("link.parquet").symlink_to("log.parquet")
    Path("qrels").write_text("q1 0 a 1\n", "utf-8")
    Path("run").write_text("q1 Q0 b 1 2.0 bm25\n", "utf-8")
    LOG.write_csv("log.csv")
    pl.DataFrame({"query": [1, 2], "run": ["a", "b"], "rr": [1.0, 0.5]}).write_csv("values.csv")

    def check(line: str, output: str) -> None:
        before = Path(output).read_bytes()
        code, out, err = run(*line.split(), "--overwrite", "-o", output)
        assert (code, out, Path(output).read_bytes()) == (2, "", before)
        assert f"'{output}' is an input; write to another file" in err

    logs = ("log.parquet", "link.parquet", ".", "*.parquet")
    check_each(check, [
        *((f"evaluate {log} -m rr", "log.parquet") for log in logs),
        ("evaluate log.csv -m rr", "log.csv"),
        *(("evaluate run --judgments qrels -m rr", name) for name in ("run", "qrels")),
        ("summarize --values values.csv", "values.csv"),
        ("join-spans run --gold log.parquet", "log.parquet"),
        ("identify log.parquet -m rr --per-query values.csv", "values.csv"),
    ])  # fmt: skip
    Path("means.csv").write_text("mine", "utf-8")
    code, _, err = run(*MEANS, "-o", "means.csv")
    assert (code, "already exists" in err, read("means.csv")) == (2, True, "mine")
    assert run(*MEANS, "-o", "means.csv", "--overwrite")[0] == 0
    assert pl.read_csv("means.csv").columns == ["run", "queries", "rr"]


@pytest.mark.skipif(os.name != "posix", reason="pipes and working folders of POSIX")
def test_outputs_that_are_no_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Standard output by its name, and a pipe, as those that a shell gives for >(...)."""
    done = invoke(*LISTS, "--format", "csv", "-o", "-")
    assert (done.exit_code, done.stdout) == (0, run(*LISTS, "--format", "csv")[1])
    assert not Path("-").exists()
    os.mkfifo("pipe")
    reader = subprocess.Popen(["cat", "pipe"], stdout=subprocess.PIPE)
    assert run(*LISTS, "--format", "csv", "-o", "pipe")[0] == 0
    assert reader.communicate()[0] == done.stdout_bytes
    assert Path("pipe").is_fifo()
    # A reader closes a pipe that does not hold the output, so that the command waits for it.
    rows = {"query": range(50_000), "doc": 1, "score": 1.0, "label": 1}
    pl.DataFrame(rows).write_parquet("long.parquet")
    Thread(target=lambda: Path("pipe").open("rb").close(), daemon=True).start()
    many = ["per-query", "long.parquet", "-m", "rr", "--format", "csv", "-o", "pipe"]
    assert run(*many) == (141, "", "")
    # The working folder was deleted.
    log = tmp_path / "log.parquet"
    (tmp_path / "folder").mkdir()
    monkeypatch.chdir(tmp_path / "folder")
    (tmp_path / "folder").rmdir()
    evaluate = ["evaluate", log, "-m", "rr", "--format", "csv"]
    assert run(*evaluate) == (0, f"run,queries,rr\nbm25,6,{5 / 6}\n", "")
    assert run(*evaluate, "-o", tmp_path / "rr.csv")[0] == 0
    problem = "Error: cannot write 'rr.csv': No such file or directory; write to another folder\n"
    assert run(*evaluate, "-o", "rr.csv") == (2, "", problem)
    assert run(*MEANS) == (2, "", "Error: file or directory 'log.parquet' not found\n")


def test_failed_plans_leave_no_file(tmp_path: Path) -> None:
    """Polars may create the file of a sink after its plan failed, if the sink gets a path."""

    def broken(_: pl.DataFrame) -> pl.DataFrame:
        raise ValueError("broken")

    plan = pl.LazyFrame({"a": [1]}).map_batches(broken, schema={"a": pl.Int64}, streamable=True)
    for form in ("parquet", "csv", "ndjson") * 30:
        with pytest.raises(ValueError, match="broken"):
            put(plan, form, {"output": tmp_path / "out"}, {})
    assert [file.name for file in tmp_path.iterdir()] == ["log.parquet"]


# --- warnings, completion and exit codes ----------------------------------------------------------


def test_a_warning_is_one_line_and_is_given_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polars runs a plan in parts, each of which may find the same."""
    log = pr.datasets.search_log(3_000).rename({"run": "model"}).drop("doc")
    log.sink_parquet("runs.parquet")
    code, _, err = run("summarize", "runs.parquet", "-m", "rr")
    assert (code, err.count("\n")) == (0, 1)
    assert "if it identifies rankings, pass --run model; if not, drop or rename it; as in" in err
    assert run("summarize", "runs.parquet", "-m", "rr", "--run", "model")[::2] == (0, "")

    def evaluate(*arguments: Any, **options: Any) -> Any:
        warnings.warn("part of it", pr.errors.RankWarning)
        return pr.evaluate(*arguments, **options)

    monkeypatch.setattr("polars_rank.cli.calls.public", lambda _: evaluate)
    code, out, err = run(*MEANS)
    assert (code, out[:4], err) == (0, "run ", "Warning: part of it\n")


def test_completion() -> None:
    """For three shells."""
    for shell in ("bash", "zsh", "fish"):
        assert "polars-rank" in invoke(env={"_POLARS_RANK_COMPLETE": f"{shell}_source"}).stdout
    line = {"_POLARS_RANK_COMPLETE": "bash_complete", "COMP_CWORD": "3"}
    words = "polars-rank evaluate --ties wor"
    assert "plain,worst" in invoke(env={**line, "COMP_WORDS": words}).stdout.split()
    assert invoke("evaluate", env={"_POLARS_RANK_COMPLETE": "unknown"}).exit_code == 2


def test_the_help_names_the_exit_codes_and_the_version() -> None:
    text = " ".join(run("--help")[1].split())
    for code in (cli.FAILED, cli.MISUSED, cli.INTERRUPTED, cli.BROKEN_PIPE, 143):
        assert f" {code} " in text
    assert run("--version")[:2] == (0, f"{pr.__version__}\n")
