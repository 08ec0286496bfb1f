"""The help of all commands: its texts, its options, and the examples in it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from commands import invoke, run
from help_texts import written

import polars_rank as pr

# The application, for calls in this process.
from polars_rank.cli import options
from polars_rank.cli.program import TOPICS, app

COMMANDS = app.rows()
FILE = Path(options.__file__).with_name("help.json")
#: Parameters with other names as options, or of which the command has the value.
OTHERS = {
    "check": {"on_fail", "details"}, "explain": {"metric", "a", "b"},
    "gate": {"judgments", "run", "floors", "max_drop", "margin", "latency"},
    "referee": {"function"}, "report": {"path"},
}  # fmt: skip

#: A function for `referee`.
NDCG = """
from math import log2

def ndcg(grades, run):
    ranked = sorted(run, key=lambda doc: (run[doc], doc), reverse=True)
    dcg, best = (
        sum(max(gain, 0) / log2(rank + 2) for rank, gain in enumerate(gains))
        for gains in ([grades.get(doc, 0) for doc in ranked], sorted(grades.values())[::-1])
    )
    return dcg / best if best else 0.0
"""


def page(name: str, columns: int = 80) -> str:
    done = invoke(*name.split(), "--help", env={"COLUMNS": str(columns)})
    assert done.exit_code == 0
    return done.stdout


def test_the_file_of_texts_is_that_of_the_docstrings() -> None:
    """With POLARS_RANK_SNAPSHOTS=1, the file is written anew, to be looked at in the diff."""
    if os.environ.get("POLARS_RANK_SNAPSHOTS"):
        FILE.write_text(written(), "utf-8")
    assert FILE.read_text("utf-8") == written()


def test_the_program_names_its_commands_and_exit_codes() -> None:
    shown = page("")
    for name in app.rows():
        assert re.search(rf"^  {name}  +[A-Z].*", shown, re.MULTILINE)
    assert "Exit codes: 0" in " ".join(shown.split())


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_a_command(name: str) -> None:
    """It fits, and has each option, or the help of a topic has it; those of examples are first."""
    shown = page(name)
    lines = shown.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 50
    assert any(line.startswith(f"  $ polars-rank {name}") for line in lines)
    topics = re.findall(r"polars-rank help (\w+)$", shown, re.MULTILINE)
    shown += "".join(run("help", topic)[1] for topic in topics)
    parameters = COMMANDS[name].parameters()
    for option in parameters:
        if isinstance(option, options.Option):
            assert re.match(r"[A-Z\"][^`]{10,}$", option.help or ""), option.name
            assert re.search(rf"^  .*{option.opts[-1][2:]}\b", shown, re.MULTILINE), option.name
    listed = re.findall(r"^  (?:-\w, )?(--\S+)", shown, re.MULTILINE)
    used = re.findall(r" (-\w|--[\w-]+)", " ".join(COMMANDS[name].examples))
    aliases = {each: option.opts[-1] for option in parameters for each in option.opts}
    first = [*dict.fromkeys(aliases[each] for each in used)]
    assert [each for each in listed if each in first][: len(first)] == first
    # The options are the parameters of the function, if the command does nothing else.
    row = COMMANDS[name]
    if name not in ("convert", "demo", "init", "metrics"):
        known = [*options.parameters_of(row.function)][bool(row.reads) :]
        if row.reads == "values":
            known += [each for each in [*options.parameters_of("per_query")][1:] if each != "keep"]
        names = {each.name for each in parameters} | {"metrics"}
        assert {*known} - OTHERS.get(name, set()) <= names


def test_help_of_commands_and_topics() -> None:
    for topic in TOPICS:
        code, out, err = run("help", topic)
        assert (code, err) == (0, "")
        assert max(map(len, out.splitlines())) <= 80
    assert run("help", "per-query")[1] == page("per-query")
    assert run("help")[1] == page("")


def test_the_help_imports_only_what_it_needs() -> None:
    program = (
        "import sys\nfrom polars_rank.cli.program import app\n"
        "for words in ['--help'], ['evaluate', '--help']:\n"
        "    app(words, standalone_mode=False)\n"
        "slow = ('scipy', 'altair', 'jinja2', 'polars_rank.stats.comparison', 'polars_rank.plot',"
        " 'polars_rank.reporting.page')\n"
        "print([each for each in slow if each in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_examples_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\nq2 0 b 1\n", "utf-8")
    (tmp_path / "run.txt").write_text("q1 Q0 a 1 2.0 bm25\nq2 Q0 b 1 1.0 bm25\n", "utf-8")
    day = pl.date(2026, 1, 1).dt.offset_by(pl.format("{}d", pl.col("query") % 5)).alias("day")
    log = pr.datasets.search_log(200).with_columns(day)
    part = log.select("run", "query", "doc", "score", start=0, end=9).drop_nulls()
    part.sink_parquet("chunks.parquet")
    part.unique(["query", "doc"]).drop("run", "score").sink_parquet("spans.parquet")
    assert run("generate", "log.parquet", "--queries", 20)[0] == 0
    log.sink_parquet("log.parquet")
    (tmp_path / "my_eval.py").write_text(NDCG)
    for name in [each for each in COMMANDS if each not in ("demo", "report")]:  # which are slow
        for example in re.findall(r"^ +\$ (.*)$", page(name), re.MULTILINE):
            program, *arguments = shlex.split(example)
            # On few queries: these are the words of the help, not its data.
            few = {"generate": ["--queries", "200", "--overwrite"]}
            code, out, err = run(*arguments, *few.get(name, []))
            assert (program, code, "Error" in err) == ("polars-rank", 0, False), (example, err)
            assert out.strip() or "Wrote" in err
            log.sink_parquet("log.parquet")
