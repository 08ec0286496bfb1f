"""Python -OO drops docstrings: values, verdicts and parameters are the same without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import needs
from metric_texts import MetricTexts
from commands import run
import polars_rank as pr

# The registry of metrics, to test each of them.
from polars_rank.metrics.metric import REGISTER

RULES = ["ndcg@10 >= 0.1", "ndcg@10 >= 0.9", "fall_out@5 <= 0.9"]
PROGRAM = """
import json, sys, warnings
with warnings.catch_warnings(action="error"):
    import polars_rank as pr
from polars_rank.metrics.metric import REGISTER

assert sys.flags.optimize == 2 and not pr.evaluate.__doc__
try:
    pr.report(pr.datasets.search_log(9), "ndcg")
except pr.errors.RankError as error:
    refused = str(error)
from click.testing import CliRunner
from polars_rank.cli.program import app
RULES = sys.argv[1:]
log = pr.datasets.search_log(40, runs=["bm25", "neural"]).collect()
lists = pr.per_query(log, ["ndcg@10", "fall_out@5"], by="run")
summary = pr.summarize(lists)
print(json.dumps({
    "means": pr.evaluate(log, ["ndcg@10", "fall_out@5"], by="run").rows(),
    "verdicts": pr.check(summary, RULES, on_fail="return")["verdict"].to_list(),
    "lower": [name for name, each in REGISTER.items() if each.lower_is_better],
    "parameters": pr.list_metrics()["parameters"].to_list(),
    "explained": pr.explain("ndcg@10", pr.conventions.LIGHTGBM),
    "refused": refused,
    "help": CliRunner().invoke(app, ["evaluate", "--help"]).stdout,
}))
"""


def bare(*arguments: str) -> str:
    """Return what Python -OO prints."""
    ended = subprocess.run(
        [sys.executable, "-OO", *arguments],
        capture_output=True,
        encoding="utf-8",
        check=False,
        # Otherwise, bytecode without docstrings would be written to the same folder.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_numbers_verdicts_and_parameters_are_the_same_without_docstrings() -> None:
    needs.package("click", "cli")
    found = json.loads(bare("-c", PROGRAM, *RULES))
    log = pr.datasets.search_log(40, runs=["bm25", "neural"]).collect()
    lists = pr.per_query(log, ["ndcg@10", "fall_out@5"], by="run")
    means = pr.evaluate(log, ["ndcg@10", "fall_out@5"], by="run").rows()
    assert found["means"] == [list(row) for row in means]
    summary = pr.summarize(lists)
    verdicts = pr.check(summary, RULES, on_fail="return")["verdict"].to_list()
    assert found["verdicts"] == verdicts and {"pass", "fail"} <= {*verdicts}
    assert found["lower"] == [name for name, each in REGISTER.items() if each.lower_is_better]
    assert found["parameters"] == pr.list_metrics()["parameters"].to_list()
    explained = pr.explain("ndcg@10", pr.conventions.LIGHTGBM).splitlines()
    assert explained[1].startswith("- definition: ")
    assert found["explained"].splitlines() == [explained[0], *explained[2:]]
    assert "run Python without -OO" in found["refused"]  # Altair needs its docstrings
    assert found["help"] == run("evaluate", "--help")[1]


def test_lower_is_better_where_the_docstring_says_so() -> None:
    for name, build in REGISTER.items():
        assert ("Lower is better." in MetricTexts.of(build).values) == build.lower_is_better, name
    assert sum(build.lower_is_better for build in REGISTER.values()) == 8
