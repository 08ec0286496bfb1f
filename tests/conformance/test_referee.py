"""The referee finds the definitions and the defects of functions, as tools and people write them."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from commands import run
from polars_rank.conformance import referee as module

# Guesses of signatures, and answers of programs, are tested for what no function here does.
from polars_rank.conformance.functions import Description, Outcome, Signature, read_answer

from tests.conformance import functions as tools
from tests.conformance.functions import FUNCTIONS, UNCREDITED, Refereed


def lines(result: Any, *severities: str) -> list[str]:
    """Return the kinds and texts of findings."""
    rows = result.findings.filter(pl.col("severity").is_in(severities or ["defect", "convention"]))
    return [f"{row['kind']}: {row['text']}" for row in rows.iter_rows(named=True)]


def kinds(result: Any) -> set[str]:
    """Return the kinds of defects."""
    return {*result.findings.filter(severity="defect")["kind"]}


def conventions(result: Any) -> set[str]:
    """Return the choices that differ from those of trec_eval 10."""
    texts = result.findings.filter(kind="convention", severity="convention")["text"]
    return {text.partition("; in trec_eval")[0] for text in texts}


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave one case without documents."""
    names = ("plain/", "copies/", "ties/grades", "gain/", "empty/nothing-retrieved")
    cases = [each for each in module.CASES if each.name.startswith(names)]
    monkeypatch.setattr(module, "CASES", cases)


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda each: each.function.__name__)
def test_functions(case: Refereed, request: pytest.FixtureRequest) -> None:
    expected = dict(case.expected)
    if expected.pop("few", False):
        request.getfixturevalue("few")
    result = pr.referee(case.function, **case.options)
    assert result.signature == case.signature
    defects = expected.pop("defects", set())
    assert kinds(result) == defects and result.passed is not bool(defects), lines(result)
    for text in expected.pop("texts"):
        assert any(text in line for line in lines(result)), (text, lines(result))
    if "conventions" in expected:
        assert conventions(result) == expected.pop("conventions")
    assert expected.pop("preset", result.presets[0]) in result.presets
    assert expected.pop("definition", {}).items() <= result.definition.items()
    assert expected.pop("metric", result.metric) == result.metric
    assert expected.pop("findings", result.findings.height) == result.findings.height
    assert not expected


def test_a_correct_function_has_no_findings(capsys: pytest.CaptureFixture) -> None:
    for function in (tools.trec_eval_ndcg, tools.trec_eval_map, tools.ndcg_correct):
        result = pr.referee(function)
        assert result.findings.is_empty() and result.passed and result.differs == 0
        assert result.presets[0] == "trec_eval 10"
    assert capsys.readouterr().out == ""


def test_rows_and_texts_of_findings() -> None:
    result = pr.referee(tools.recall_by_division)
    row = result.findings.row(0, named=True)
    assert (row["kind"], row["text"]) == ("range", "value above 1 for copies")
    assert (row["case"], row["given"]) == ("copies/relevant-twice", 2.0)
    assert lines(result)[1] == "crash: ZeroDivisionError: division by zero"
    assert [*result.findings["kind"]] == ["range", "crash", "convention"]
    text = str(result)
    assert text.startswith("recall_by_division: 2 defects, 1 convention\nrecall@k as trec_eval 10,")
    assert '{"ids": ["a", "a", "b"], "relevant": ["a"], "k": 3}' in text
    assert max(map(len, text.splitlines())) <= 80
    assert "<b>recall_by_division: 2 defects" in result._repr_html_()
    assert "`" not in result.page.junit()
    assert result.cases.filter(~pl.col("explained"))["outcome"].unique().to_list() == ["crash"]


def test_another_value_in_a_second_call() -> None:
    calls = []

    def recall(retrieved: list[str], relevant: set[str]) -> float:
        calls.append(1)
        return tools.recall_by_division([*dict.fromkeys(retrieved)], relevant, 99) / len(calls)

    result = pr.referee(recall, signature="ids, relevant")
    assert "order: another value in a second call" in lines(result)


def test_a_function_that_hangs_is_interrupted() -> None:
    def precision(retrieved: list[str], relevant: set[str], k: int) -> float:
        while not retrieved:
            pass
        return sum(doc in relevant for doc in [*dict.fromkeys(retrieved)][:k]) / k

    began = time.monotonic()
    result = pr.referee(precision, signature="ids, relevant, k", timeout=0.2)
    assert lines(result, "defect") == ["hang: no answer within 0.2 seconds"]
    assert time.monotonic() - began < 10

    def recall(retrieved: list[str], relevant: set[str]) -> float:
        while True:
            pass

    result = pr.referee(recall, timeout=0.05)
    assert kinds(result) == {"hang"}
    assert "recall: no definition explains any of" in str(result)


SLOW = """
import time

def recall(retrieved, relevant, k):
    while retrieved:
        try:
            time.sleep(60)
        except BaseException:
            pass
    return 0.0
"""


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="timers of POSIX")
@pytest.mark.parametrize("kind", ["call", "result"])
def test_a_function_that_catches_the_interruption_is_interrupted_again(kind: str) -> None:
    def sleep(place: str) -> float:
        try:
            time.sleep(60 if kind == place else 0)
        except BaseException:  # noqa: BLE001
            time.sleep(60)
        return 1.0

    class Slow:
        def __float__(self) -> float:
            return sleep("result")

    def recall(retrieved: list[str], relevant: set[str], k: int) -> Any:
        sleep("call")
        return Slow()

    began = time.monotonic()
    result = pr.referee(recall, signature="ids, relevant, k", timeout=0.05)
    assert lines(result, "defect")[0] == "hang: no answer within 0.05 seconds"
    assert time.monotonic() - began < 10
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.usefixtures("few")
def test_a_process_of_a_function_that_catches_every_exception_is_killed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    began = time.monotonic()
    result = pr.referee(f"{tmp_path / 'slow.py'}:recall", signature="ids, relevant, k", timeout=0.5)
    assert lines(result, "defect")[0] == "hang: no answer within 0.5 seconds"
    assert time.monotonic() - began < 30


class Odd:
    def __float__(self) -> float:
        raise ValueError("no")


@pytest.mark.parametrize("text", ["number: Odd", "crash: SystemExit: 3"])
def test_results_whose_methods_raise_are_findings(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def recall(retrieved: list[str], relevant: set[str], k: int) -> Any:
        if not retrieved:
            return Odd() if text == "number: Odd" else sys.exit(3)
        return len({*retrieved[:k]} & relevant) / len(relevant) if relevant else 0.0

    (line,) = lines(pr.referee(recall), "defect")
    assert line.startswith(text.partition(": ")[0]) and text.rpartition(" ")[2] in line


def test_a_function_that_never_has_a_value() -> None:
    def never(retrieved: list[str], relevant: set[str], k: int) -> float:
        raise NotImplementedError("not implemented")

    for signature in (None, "ids, relevant, k"):
        with pytest.raises(pr.errors.ArgumentError, match="returns no numbers: NotImpl.*: not imp"):
            pr.referee(never, metric="ndcg", signature=signature)


def test_a_recall_that_is_the_hit_rate() -> None:
    """Its own cases contradict every convention that would make some of its values those of recall."""

    def recall(retrieved: list[str], qrels: dict[str, float], k: int) -> float:
        return float(any(qrels.get(doc, 0) > 0 for doc in retrieved[:k]))

    result = pr.referee(recall)
    assert result.metric == "recall@k" and not result.passed
    assert "recall@k closest to " in str(result)
    assert conventions(result) == {UNCREDITED}
    number = result.cases.height
    text = f"hit_rate@k explains the values of all {number} cases; recall@k does not"
    assert lines(result, "defect") == [f"mixture: {text}"]
    assert "unjudged" not in result.definition
    row = result.findings.row(0, named=True)
    # Of three relevant documents, two are among the first three.
    assert (row["case"], row["given"], row["expected"]) == ("plain/three-grades", 1, 2 / 3)
    assert pr.referee(recall, metric="hit_rate").passed


def test_partial_functions_and_arrays_of_one_number() -> None:
    def recall(k: int, retrieved: list[str], relevant: set[str]) -> Any:
        hits = {*retrieved[:k]} & {*relevant}
        return np.array([len(hits) / len(relevant) if relevant else 0.0])

    result = pr.referee(partial(recall, 3), signature="ids, relevant", metric="recall@3")
    assert (result.name, result.passed) == ("recall", True)


def test_metrics_of_names() -> None:
    expected = {
        "ndcg": ("ndcg", None), "compute_ndcg_at_k": ("ndcg", None), "ndcg10": ("ndcg", 10),
        "calculateNDCG": ("ndcg", None), "mapk": ("average_precision", None),
        "apk": ("average_precision", None), "avg_precision": ("average_precision", None),
        "average_precision_at_5": ("average_precision", 5), "recall_score": ("recall", None),
        "mrr@10": ("reciprocal_rank", 10), "precisionAtK": ("precision", None),
        "f1_score_at_k": ("f1", None), "evaluate": None, "p_value": None,
    }  # fmt: skip
    assert {name: module.guessed(name) for name in expected} == expected


def test_expected_conventions_make_others_defects() -> None:
    assert pr.referee(tools.trec_eval_ndcg, expect="trec_eval").passed
    result = pr.referee(tools.trec_eval_ndcg, expect="lightgbm")
    assert not result.passed
    assert "convention: gain: the label; in LightGBM: 2^label - 1" in lines(result, "defect")
    assert not pr.referee(tools.ndcg_of_negative, expect="trec_eval").passed
    assert pr.referee(tools.sklearn_ndcg_score, expect="sklearn").passed  # although it refuses


INVALID: list[tuple[dict[str, Any], str]] = [
    ({}, "pass either `function` or `command`"),
    ({"function": 3}, "`function` must be a function or its import path; found 3"),
    ({"function": len, "metric": "err"}, "`metric` must be one of cg, dcg, ndcg"),
    ({"function": len, "signature": "ids, k"}, "needs retrieved documents"),
    ({"function": len, "signature": "docs"}, "found 'docs'. Arguments are ids: list of"),
    ({"function": len, "signature": "[ids}, relevant"}, "found '[ids}'"),
    ({"function": len, "timeout": 0}, "`timeout` must be a number above 0"),
    ({"function": lambda a, b: "x"},
     "`function` <lambda>(a, b) returns no numbers: 'x' (called with ids, grades); state"),
    ({"function": lambda: 1, "signature": "ids, relevant"},
     "takes 0 positional arguments but 2 were given (called with ids, relevant)"),
    ({"command": ""}, "`command` must be a program with its arguments; found ''"),
    ({"command": "node 'a"}, "`command` must be a program with its arguments; found"),
]  # fmt: skip


def test_invalid_arguments() -> None:
    for arguments, message in INVALID:
        with pytest.raises(pr.errors.ArgumentError, match=re.escape(message)):
            pr.referee(**arguments)


def test_signatures_of_names() -> None:
    def first(*parameters: str) -> str:
        return str(next(Description("", parameters, parameters).signatures()))

    assert first("y_true", "y_score", "k") == "grades, ids, k=k"
    assert first("predicted_ids", "actual", "cutoff") == "ids, grades, cutoff=k"
    assert first("qrels", "run") == "grades, run"
    assert first("relevances", "top_k") == "labels, top_k=k"

    def ndcg(*, retrieved_ids: list[str], gold: set[str]) -> None: ...

    assert str(next(Description.of(ndcg).signatures())) == "retrieved_ids=ids, gold=grades"
    assert str(Signature.read("x=[ids], {relevant}")) == "x=[ids], {relevant}"


# Functions and programs in other processes.


PROGRAM = """
import json, os, subprocess, sys, time
from math import log2

for line in sys.stdin:
    request = json.loads(line)
    ids, grades = request["ids"], request["grades"]
    ranked = [doc for _, doc in sorted(zip(request["scores"], ids), reverse=True)]
    dcg, best = (
        sum(max(gain, 0) / log2(rank + 2) for rank, gain in enumerate(gains[: request["k"]]))
        for gains in ([grades.get(doc, 0) for doc in ranked], sorted(grades.values())[::-1])
    )
    answer = {"value": dcg / best if best else 0}
    if len({*ids}) < len(ids):
        answer = {"error": "a document is repeated"}
    if not ids:
        BODY
    print(json.dumps({"id": request["id"], **answer}), flush=True)
"""


def program(tmp_path: Path, body: str) -> list[str]:
    """Return the command of a program that runs a statement if there are no documents."""
    path = tmp_path / "program.py"
    path.write_text(PROGRAM.replace("BODY", body), encoding="utf-8")
    return [sys.executable, "-I", str(path)]


ANSWERS = [
    ("pass", None, ""),
    ("sys.exit('no documents')", "crash", "ended with code 1: no documents"),
    ("os._exit(3)", "crash", "the process ended with code 3"),
    ("print('warning: empty')", "number", "not an answer: 'warning: empty'"),
    ("answer = {'value': float('nan')}", "number", "nan"),
    ("answer = {'value': '__import__(\"os\")'}", "number", "__import__"),
    ("answer = {'value': 10**400}", "number", "0000"),
    ("answer = {'value': [0.5, 0.5]}", "number", "[0.5, 0.5]"),
    ("print('[' * 100_000)", "number", "not an answer: '[["),
]


@pytest.mark.usefixtures("few")
def test_answers_of_programs(tmp_path: Path) -> None:
    for body, kind, message in ANSWERS:
        result = pr.referee(command=program(tmp_path, body), metric="ndcg", timeout=9)
        assert kinds(result) == ({kind} if kind else set()), body
        assert result.presets[0] == "trec_eval 10"
        if kind:
            assert message in lines(result, "defect")[0], body
        else:
            assert result.findings.is_empty() and result.differs == 0


def is_running(number: int) -> bool:
    stat = Path("/proc", str(number), "stat")
    with suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.mark.usefixtures("few")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_program_is_ended_with_its_children(tmp_path: Path) -> None:
    body = "open('PID', 'w').write(str(subprocess.Popen(['sleep', '60']).pid)); time.sleep(60)"
    command = program(tmp_path, body.replace("PID", str(tmp_path / "pid")))
    result = pr.referee(command=command, metric="ndcg", timeout=2)
    assert lines(result, "defect")[0] == "hang: no answer within 2 seconds"
    assert not is_running(int((tmp_path / "pid").read_text()))


@pytest.mark.usefixtures("few")
def test_a_program_that_never_answers() -> None:
    for code, timeout, first in (
        ("import time; time.sleep(60)", 0.2, "hang: no answer within 0.2 seconds"),
        ("exit(3)", 2, "crash: "),
    ):
        began = time.monotonic()
        result = pr.referee(command=[sys.executable, "-c", code], metric="ndcg", timeout=timeout)
        texts = lines(result, "defect")
        assert texts[0].startswith(first)
        assert "not tried after 5 calls without an answer" in texts[1]
        assert time.monotonic() - began < 10


def test_a_program_without_a_value(tmp_path: Path) -> None:
    body = "import json, sys\nfor line in sys.stdin:\n"
    body += "    print(json.dumps({'id': json.loads(line)['id'], **ANSWER}), flush=True)\n"
    for answer, text in (
        ("{'error': 'not implemented'}", "not implemented"), ("{'value': None}", "null"),
    ):  # fmt: skip
        path = tmp_path / "program.py"
        path.write_text(body.replace("ANSWER", answer))
        command = [sys.executable, str(path)]
        with pytest.raises(pr.errors.ArgumentError, match=f"`command` returns no numbers: {text}"):
            pr.referee(command=command, metric="ndcg")
    assert run("referee", "--command", " ".join(command), "--metric", "ndcg")[0] == 2


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(("kind", "sent"), [("program", "SIGINT"), ("function", "SIGTERM")])
def test_no_process_stays_after_a_signal(tmp_path: Path, kind: str, sent: str) -> None:
    pid, path = tmp_path / "pid", tmp_path / "slow.py"
    text = f"import os\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\n{SLOW}"
    path.write_text(text + "\nif __name__ == '__main__':\n    recall([1], {1}, 1)\n")
    command = ["--command", f"{sys.executable} {path}", "--metric", "ndcg"]
    target = command if kind == "program" else [f"{path}:recall"]
    process = subprocess.Popen(
        [sys.executable, "-m", "polars_rank", "referee", *target, "--timeout", "60"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    end = time.monotonic() + 60
    while not (pid.exists() and pid.read_text()) and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(getattr(signal, sent))
    assert process.wait(30) == {"SIGINT": 130, "SIGTERM": 143}[sent]
    end = time.monotonic() + 10
    while is_running(int(pid.read_text())) and time.monotonic() < end:
        time.sleep(0.02)
    assert not is_running(int(pid.read_text()))


def test_a_program_that_does_not_exist() -> None:
    with pytest.raises(pr.errors.SourceError, match="cannot run `command` 'no-such-program'"):
        pr.referee(command="no-such-program --metric", metric="ndcg")


def test_answers_of_another_request() -> None:
    for answer, outcome in (
        (b'{"id": 2, "value": 0.5}\n', Outcome("value", 0.5)),
        (b'{"id": 2, "value": null}\n', Outcome("none")),
    ):
        assert read_answer(answer, 2) == outcome
    assert {read_answer(x, 2).kind for x in (b'{"id": 1, "value": 0.5}', b'{"id": 2}')} == {"noise"}


MY_EVAL = """
import os

def recall(retrieved, relevant, k):
    print("a line that is no answer")
    os.write(1, b"another one\\n")
    if not retrieved:
        os._exit(3)
    if len(retrieved) == 2:
        return 1 / 0
    return len({*retrieved[:k]} & {*relevant}) / len(relevant)
"""


@pytest.mark.usefixtures("few")
def test_the_command_runs_a_function_in_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my_eval.py").write_text(MY_EVAL)
    reports = ["--junit", "a.xml", "--markdown", "a.md"]
    code, output, errors = run("referee", "my_eval:recall", *reports)
    assert (code, errors) == (1, "")
    assert max(map(len, output.splitlines())) <= 80
    assert "DEFECT  crash: the process ended with code 3" in output
    assert "DEFECT  crash: ZeroDivisionError: division by zero" in output
    suite = ET.parse("a.xml").getroot()[0]
    assert suite[0][0].attrib == {"name": "format_version", "value": "1"}
    assert (suite.get("tests"), suite.get("failures")) == ("8", "1")
    assert "| DEFECT | crash: ZeroDivisionError" in Path("a.md").read_text()
    code, output, _ = run("referee", "my_eval.py:recall", "--signature", "ids, relevant, k")
    assert code == 1 and "- called with: ids, relevant, k;" in output


def test_a_function_without_defects_ends_with_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    target = f"{tools.__file__}:trec_eval_ndcg"
    code, output, _ = run("referee", target, "--junit", "a.xml")
    assert code == 0
    assert "trec_eval_ndcg: 0 defects, 0 conventions\nndcg@k as trec_eval 10 in all" in output
    code, output, errors = run("referee", target, "--junit", "a.xml")
    message = "Error: 'a.xml' already exists; use `--overwrite` to replace it\n"
    assert (code, output, errors) == (2, "", message)
    assert run("referee", target, "--junit", "a.xml", "--overwrite", "--expect", "ranx")[0] == 1


NOT_IMPORTED = [
    (["my_eval:ndcg", "--command", "node"], "pass either FUNCTION"),
    (["my_eval:ndcg"], "cannot import `function`: No module"),
    (["my_eval"], "must be written like 'my_eval:ndcg'"),
    (["json:ndcg"], "'json' (`function`) has no function 'ndcg'"),
    (["no.py:ndcg"], "the file 'no.py' (`function`) does not exist"),
]


def test_functions_that_cannot_be_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for arguments, message in NOT_IMPORTED:
        code, _, errors = run("referee", *arguments)
        assert code == 2
        assert message in errors.replace("ModuleNotFoundError: ", "").replace("\n", " ")
