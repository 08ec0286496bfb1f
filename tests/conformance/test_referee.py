"""The referee finds the definitions and the defects of functions, as tools and people write them."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import needs
import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from commands import run
from polars_rank.conformance import referee as module
from polars_rank.conformance.functions import Description, Outcome, Signature, read_answer

from tests.conformance import tools

FOLDER = Path(__file__).parents[2] / "examples"


def found(result: Any, severity: str) -> dict[str, list[str]]:
    """Return the texts of findings by kind."""
    texts: dict[str, list[str]] = {}
    for row in result.findings.filter(severity=severity).iter_rows(named=True):
        texts.setdefault(row["kind"], []).append(row["text"])
    return texts


def conventions(result: Any) -> set[str]:
    """Return the choices that differ from those of trec_eval 10."""
    return {
        text.partition("; in trec_eval")[0] for text in found(result, "convention")["convention"]
    }


MIN = "divisor: the smaller of k and the number of relevant documents"
CREDITED = "duplicate documents: each copy counts again"
UNCREDITED = "duplicate documents: copies keep their rank and are not relevant"

#: Functions, with how they are called, a preset that fits best, their conventions, and their
#: defects.
TOOLS: dict[Callable[..., Any], tuple[str, str, set[str], set[str]]] = {
    tools.ranx_ndcg: (
        "{grades}, {run}, k=k", "ranx",
        {"tied scores: in the order of the rows", "lowest label with a gain: 1"}, set(),
    ),
    tools.sklearn_ndcg_score: (
        "[labels], [scores], k=k", "scikit-learn", {"tied scores: exact mean over all orders"}, set(),
    ),
    tools.sentence_transformers_ndcg: (
        "ids, relevant, k=k", "sentence-transformers",
        {CREDITED, "undefined values: excluded from the mean"}, {"range"},
    ),
    tools.sentence_transformers_map: (
        "ids, relevant, k=k", "sentence-transformers",
        {MIN, CREDITED, "undefined values: excluded from the mean"}, {"range"},
    ),
    tools.mlflow_ndcg_at_k: (
        "ids, relevant, k=k", "Elasticsearch",
        {
            "duplicate documents: each copy counts as another document with the same label",
            "divisor: the smaller of k and the number of retrieved documents",
            "undefined values: counts as 1 if nothing was retrieved either, otherwise as 0",
        },
        set(),
    ),
    tools.ml_metrics_apk: (
        "relevant, ids, k=k", "LightGBM", {MIN, UNCREDITED, "undefined values: counts as 1"}, set(),
    ),
    tools.recmetrics_apk: (
        "relevant, ids, k=k", "torchmetrics",
        {"divisor: number of relevant documents among the first k"}, {"mixture"},
    ),
    tools.evret_ndcg: ("ids, relevant, k=k", "trec_eval 10", set(), {"mixture"}),
}  # fmt: skip


@pytest.mark.parametrize("function", TOOLS, ids=lambda each: each.__name__)
def test_definitions_of_tools(function: Callable[..., Any]) -> None:
    signature, preset, choices, defects = TOOLS[function]
    result = pr.referee(function)
    assert result.signature == signature
    assert preset in result.presets
    assert {*found(result, "defect")} == defects
    # Several definitions may explain a part of a mixture.
    assert (
        conventions(result) == choices
        if "mixture" not in defects
        else (conventions(result) >= choices)
    )
    assert result.passed is not bool(defects)


@pytest.mark.parametrize(
    "function", [tools.trec_eval_ndcg, tools.trec_eval_map, tools.ndcg_correct],
    ids=lambda each: each.__name__,
)  # fmt: skip
def test_a_correct_function_has_no_findings(
    function: Callable[..., Any], capsys: pytest.CaptureFixture
) -> None:
    result = pr.referee(function)
    assert result.findings.is_empty()
    assert result.passed and result.differs == 0
    assert result.presets[0] == "trec_eval 10"
    assert capsys.readouterr().out == ""


def test_a_discount_that_is_off_by_one_or_of_2002() -> None:
    result = pr.referee(tools.cute_ranking_ndcg_at_k)
    assert result.signature == "labels, k=k"
    assert result.definition["discount"] == "1 / log2(rank), and 1 at rank 1"
    texts = " ".join(found(result, "convention")["convention"])
    assert "discount of Järvelin and Kekäläinen (2002), or it is off by one" in texts
    texts = " ".join(found(pr.referee(tools.ndcg_off_by_one), "convention")["convention"])
    assert "discount: 1 / log2(rank + 2); in trec_eval 10: 1 / log2(rank + 1). It is off" in texts
    assert (
        "ZeroDivisionError: float division by zero"
        in (found(pr.referee(tools.ndcg_with_log_of_index), "defect")["crash"])
    )


def test_arrays_are_passed_where_lists_fail() -> None:
    """The order of ties depends on NumPy's sort, and negative labels are removed."""
    result = pr.referee(tools.ranking_metrics_ndcg_score)
    assert result.signature == "labels, scores, k=k"
    assert result.definition["gain"] == "2^label - 1"
    assert {*found(result, "defect")} == {"mixture"}


def test_copies_that_count_twice_are_out_of_range() -> None:
    result = pr.referee(tools.recall_by_division)
    row = result.findings.row(0, named=True)
    assert (row["kind"], row["text"]) == ("range", "value above 1 for copies")
    assert (row["case"], row["given"]) == ("copies/relevant-twice", 2.0)
    assert found(result, "defect")["crash"] == ["ZeroDivisionError: division by zero"]
    assert [*result.findings["kind"]] == ["range", "crash", "convention"]


def test_a_divisor_of_hits() -> None:
    result = pr.referee(tools.average_precision_of_hits)
    assert result.metric == "average_precision"
    assert result.definition["norm"] == "number of relevant documents among the first k"
    assert result.passed


def test_the_order_of_the_input_and_a_second_call() -> None:
    result = pr.referee(tools.precision_in_order_of_rows)
    assert found(result, "defect")["order"] == ["the value depends on the order of the input"]
    calls = []

    def recall(retrieved: list[str], relevant: set[str]) -> float:
        calls.append(1)
        return tools.recall_by_division([*dict.fromkeys(retrieved)], relevant, 99) / len(calls)

    result = pr.referee(recall, signature="ids, relevant")
    assert "another value in a second call" in found(result, "defect")["order"]


def test_nan_and_other_results_are_no_numbers() -> None:
    assert found(pr.referee(tools.mrr_without_value), "defect")["number"] == ["nan"]

    def hit_rate(retrieved: list[str], relevant: set[str]) -> Any:
        hit = float(bool(relevant & {*retrieved}))
        return hit if hit else None if relevant else "no relevant documents"

    texts = found(pr.referee(hit_rate), "defect")["number"]
    assert texts == ["'no relevant documents'", "no value, where the metric has one"]

    def precision(retrieved: list[str], relevant: set[str], k: int) -> Any:
        value = sum(doc in relevant for doc in [*dict.fromkeys(retrieved)][:k]) / k
        return [np.float32(value)] if value else np.zeros(2)

    result = pr.referee(precision)
    assert found(result, "defect")["number"] == ["array([0., 0.])"]
    assert result.presets[0] == "trec_eval 10"


def test_a_function_that_hangs_is_interrupted() -> None:
    began = time.monotonic()
    result = pr.referee(tools.precision_that_hangs, signature="ids, relevant, k", timeout=0.2)
    assert found(result, "defect") == {"hang": ["no answer within 0.2 seconds"]}
    assert time.monotonic() - began < 10

    def recall(retrieved: list[str], relevant: set[str]) -> float:
        while True:
            pass

    result = pr.referee(recall, timeout=0.05)
    assert {*found(result, "defect")} == {"hang"}
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
    assert found(result, "defect")["hang"][0] == "no answer within 0.05 seconds"
    assert time.monotonic() - began < 10
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


@pytest.mark.usefixtures("few")
def test_a_process_of_a_function_that_catches_every_exception_is_killed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    began = time.monotonic()
    result = pr.referee(f"{tmp_path / 'slow.py'}:recall", signature="ids, relevant, k", timeout=0.5)
    assert found(result, "defect")["hang"][0] == "no answer within 0.5 seconds"
    assert time.monotonic() - began < 30


def raising(error: BaseException) -> Callable[..., Any]:
    def method(*_: object) -> Any:
        raise error

    return method


def odd(**methods: Any) -> Any:
    return type("Odd", (), methods)()


#: What a function returns or raises for a ranking without documents, and the text of the finding.
ODD: dict[str, tuple[Callable[[], Any], str, str]] = {
    "float": (lambda: odd(__float__=raising(ValueError("no"))), "number", "Odd"),
    "an exit": (raising(SystemExit(3)), "crash", "SystemExit: 3"),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_results_whose_methods_raise_are_findings(name: str) -> None:
    make, kind, text = ODD[name]

    def recall(retrieved: list[str], relevant: set[str], k: int) -> Any:
        if not retrieved:
            return make()
        return len({*retrieved[:k]} & relevant) / len(relevant) if relevant else 0.0

    assert found(pr.referee(recall), "defect") == {kind: [text]}


def test_queries_of_one_file_may_be_left_out() -> None:
    """As pytrec_eval, which returns a mapping without the query."""

    def map(qrels: Any, run: Any) -> dict[str, float]:
        return {q: tools.trec_eval_map(qrels[q], run[q]) for q in run if run[q] and qrels[q]}

    assert pr.referee(map).findings.is_empty()


def test_an_error_with_a_message_is_a_refusal() -> None:
    def reciprocal_rank(run: dict[str, float], grades: dict[str, float]) -> float:
        if not run:
            raise ValueError("nothing was retrieved")
        best = max(label for label in grades.values() if label > 0)
        ranked = sorted(run, key=lambda doc: (run[doc], doc), reverse=True)
        return next((1 / n for n, d in enumerate(ranked, 1) if grades.get(d, 0) >= 1), 0.0 * best)

    result = pr.referee(reciprocal_rank)
    texts = found(result, "convention")["refusal"]
    assert texts == ["refuses empty: ValueError: nothing was retrieved"]
    assert [text.partition(":")[0] for text in found(result, "defect")["crash"]] == ["ValueError"]


def test_a_function_that_refuses_most_cases_is_not_tested() -> None:
    def ndcg(retrieved: list[str], relevant: set[str], k: int) -> float:
        if len(retrieved) != 2:
            raise NotImplementedError("not implemented")
        scores = {doc: -rank for rank, doc in enumerate(retrieved)}
        return tools.trec_eval_ndcg(dict.fromkeys(relevant, 1), scores, k)

    result = pr.referee(ndcg, signature="ids, relevant, k")
    refused, number = result.findings.filter(kind="refusal")["cases"].item(), result.cases.height
    assert 2 * refused > number and not result.passed
    (text,) = found(result, "defect")["refusal"]
    assert text.endswith(": NotImplementedError: not implemented")

    def never(retrieved: list[str], relevant: set[str], k: int) -> float:
        raise NotImplementedError("not implemented")

    for signature in (None, "ids, relevant, k"):
        with pytest.raises(pr.errors.ArgumentError, match="returns no numbers: NotImpl.*: not imp"):
            pr.referee(never, metric="ndcg", signature=signature)


@pytest.mark.parametrize("lowest", [1, 0.001])
def test_a_recall_that_is_the_hit_rate(lowest: float) -> None:
    """Its own cases contradict every convention that would make some of its values those of recall."""

    def recall(retrieved: list[str], qrels: dict[str, float], k: int) -> float:
        return float(any(qrels.get(doc, 0) >= lowest for doc in retrieved[:k]))

    result = pr.referee(recall)
    assert result.metric == "recall@k" and not result.passed
    assert "recall@k closest to " in str(result)
    assert conventions(result) == {UNCREDITED}
    number = result.cases.height
    text = f"hit_rate@k explains the values of all {number} cases; recall@k does not"
    assert found(result, "defect") == {"mixture": [text]}
    assert "unjudged" not in result.definition
    row = result.findings.row(0, named=True)
    # Of three relevant documents, two are among the first three.
    assert (row["case"], row["given"], row["expected"]) == ("plain/three-grades", 1, 2 / 3)
    assert pr.referee(recall, metric="hit_rate").passed


@pytest.mark.parametrize(
    ("name", "metric", "other"),
    [
        ("recall", "recall@k", "precision@k"),
        ("ndcg", "ndcg@k", "precision@k"),
        ("hit_rate", "hit_rate@k", "precision@k"),
        ("mrr", "reciprocal_rank@k", "precision@k"),
    ],
)
def test_a_function_with_the_name_of_another_metric(name: str, metric: str, other: str) -> None:
    def function(retrieved: list[str], relevant: set[str], k: int) -> float:
        return sum(doc in relevant for doc in dict.fromkeys(retrieved[:k])) / k

    function.__name__ = name
    (text,) = found(pr.referee(function), "defect")["mixture"]
    assert text == f"{other} explains the values of all 47 cases; {metric} does not"


def test_defects_of_several_topics_are_one() -> None:
    """Precision is halved where a document is unjudged or occurs twice."""

    def precision(retrieved: list[str], qrels: dict[str, float], k: int) -> float:
        docs = [*dict.fromkeys(retrieved)]
        value = sum(qrels.get(doc, 0) >= 1 for doc in docs[:k]) / k
        return value / (1 + (len(docs) < len(retrieved) or not {*docs} <= {*qrels}))

    result = pr.referee(precision, signature="ids, grades, k")
    assert "precision@k closest to " in str(result)
    (text,) = found(result, "defect")["mixture"]
    assert re.fullmatch("the cases of unjudged, copies(, .*)? follow another definition.*", text)


def test_a_metric_is_found_by_its_values() -> None:
    def quality(a: list[str], b: set[str], k: int) -> float:
        return sum(doc in b for doc in [*dict.fromkeys(a)][:k]) / k

    result = pr.referee(quality)
    assert (result.metric, result.signature) == ("precision@k", "ids, relevant, k=k")


def test_a_function_that_reads_ids_only_gets_a_set() -> None:
    """A mapping of judgments would work, and its documents with the label 0 would be relevant."""

    def hit_rate(recommended: list[str], actual: set[str], k: int = 10) -> bool:
        return any(doc in actual for doc in recommended[:k])

    result = pr.referee(hit_rate)
    assert (result.signature, result.passed) == ("ids, relevant, k=k", True)

    def ndcg(retrieved: list[str], relevant: Any, k: int) -> float:
        grades = relevant if isinstance(relevant, dict) else dict.fromkeys(relevant, 1)
        return tools.trec_eval_ndcg(grades, {doc: -n for n, doc in enumerate(retrieved)}, k)

    assert pr.referee(ndcg).signature == "ids, grades, k=k"


def test_means_over_queries_of_lists() -> None:
    def mapk(actual: list[list[str]], predicted: list[list[str]], k: int = 10) -> float:
        values = [tools.ml_metrics_apk(*each, k) for each in zip(actual, predicted, strict=True)]
        return float(np.mean(values))

    result = pr.referee(mapk)
    assert (result.signature, result.passed) == ("[relevant], [ids], k=k", True)


def test_labels_above_0_are_relevant_or_have_a_gain() -> None:
    def reciprocal_rank(retrieved: list[str], qrels: dict[str, float]) -> float:
        return next((1 / n for n, d in enumerate(retrieved, 1) if qrels.get(d, 0) > 0), 0.0)

    result = pr.referee(reciprocal_rank)
    assert "relevant: label above 0" in conventions(result) and result.passed

    def ndcg(retrieved: list[str], qrels: dict[str, float], k: int) -> float:
        hits = [float(qrels.get(doc, 0) > 0) for doc in [*dict.fromkeys(retrieved)]]
        ideal = tools.discounted(sorted((x > 0 for x in qrels.values()), reverse=True)[:k])
        return tools.discounted(hits[:k]) / ideal if ideal else 0.0

    result = pr.referee(ndcg)
    assert "gain: 1 for labels above 0, otherwise 0" in conventions(result) and result.passed


def test_the_same_problem_is_one_finding() -> None:
    def ndcg(retrieved: list[str], qrels: dict[str, float], k: int) -> Any:
        return [qrels[doc] for doc in retrieved[:k]] if len(retrieved) > 3 else 0.5

    texts = found(pr.referee(ndcg, signature="ids, grades, k"), "defect")
    assert texts["crash"] == ["KeyError: 'u'"] and texts["number"] == ["[1, 0, 3]"]


def test_labels_of_0_and_1() -> None:
    def precision_at_k(labels: list[int], k: int) -> float:
        return sum(labels[:k]) / k

    result = pr.referee(precision_at_k)
    assert (result.signature, result.findings.height) == ("hits, k=k", 0)

    def average_precision(y_true: Any, y_score: Any) -> float:
        hits = np.array(y_true)[np.argsort(-np.array(y_score), kind="stable")]
        precision = np.cumsum(hits) / np.arange(1, hits.size + 1)
        return float((precision * hits).sum() / max(hits.sum(), 1))

    result = pr.referee(average_precision)
    assert (result.signature, result.passed) == ("hits, scores", True)


def test_a_function_without_a_hit_has_no_definition() -> None:
    """A function that expects one relevant id finds none in a set."""

    def hit_ratio(ranklist: list[str], item: str) -> float:
        return float(item in ranklist)

    result = pr.referee(hit_ratio)
    assert not result.passed
    result = pr.referee(hit_ratio, signature="ids, relevant")
    assert found(result, "defect")["mixture"] == ["no definition explains the value"]


def test_negative_labels_are_a_convention() -> None:
    def ndcg(retrieved: list[str], qrels: dict[str, float], k: int) -> float:
        ideal = tools.discounted(sorted(qrels.values(), reverse=True)[:k])
        docs = [*dict.fromkeys(retrieved)]
        return tools.discounted([qrels.get(doc, 0) for doc in docs[:k]]) / ideal if ideal else 0.0

    result = pr.referee(ndcg)
    assert result.passed
    texts = found(result, "convention")["convention"]
    assert texts[0] == "negative labels: not by the definition of the other labels"
    assert not pr.referee(ndcg, expect="trec_eval").passed


def test_a_program_that_ends_does_not_hang() -> None:
    texts = found(pr.referee(command=[sys.executable, "-c", "exit(3)"]), "defect")
    assert {*texts} == {"crash"} and "not tried after 5 calls" in texts["crash"][1]


def test_a_function_without_a_definition() -> None:
    def evaluate(retrieved: list[str], relevant: set[str]) -> float:
        return 0.123 + len(retrieved) / 1_000

    result = pr.referee(evaluate)
    assert result.metric == "unknown metric" and not result.passed
    assert found(result, "defect") == {"mixture": ["no definition explains the value"]}
    assert result.findings["expected"].to_list() == [None]


def test_partial_functions_and_arrays_of_one_number() -> None:
    def recall(k: int, retrieved: list[str], relevant: set[str]) -> Any:
        hits = {*retrieved[:k]} & {*relevant}
        return np.array([len(hits) / len(relevant) if relevant else 0.0])

    result = pr.referee(partial(recall, 3), signature="ids, relevant", metric="recall@3")
    assert (result.name, result.passed) == ("recall", True)


@pytest.mark.parametrize(
    ("name", "expected"),
    {
        "ndcg": ("ndcg", None), "compute_ndcg_at_k": ("ndcg", None), "ndcg10": ("ndcg", 10),
        "calculateNDCG": ("ndcg", None), "mapk": ("average_precision", None),
        "apk": ("average_precision", None), "avg_precision": ("average_precision", None),
        "average_precision_at_5": ("average_precision", 5), "recall_score": ("recall", None),
        "mrr@10": ("reciprocal_rank", 10), "precisionAtK": ("precision", None),
        "f1_score_at_k": ("f1", None), "evaluate": None, "p_value": None,
    }.items(),
)  # fmt: skip
def test_metrics_of_names(name: str, expected: tuple[str, int | None] | None) -> None:
    assert module.guessed(name) == expected


def test_expected_conventions_make_others_defects() -> None:
    assert pr.referee(tools.trec_eval_ndcg, expect="trec_eval").passed
    result = pr.referee(tools.trec_eval_ndcg, expect="lightgbm")
    assert not result.passed
    texts = found(result, "defect")["convention"]
    assert "gain: the label; in LightGBM: 2^label - 1" in texts
    assert pr.referee(tools.sklearn_ndcg_score, expect="sklearn").passed  # although it refuses


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "pass either `function` or `command`"),
        ({"function": 3}, "`function` must be a function or its import path; found 3"),
        ({"function": len, "metric": "err"}, "`metric` must be one of cg, dcg, ndcg"),
        ({"function": len, "signature": "ids, k"}, "needs retrieved documents"),
        ({"function": len, "signature": "docs"}, "found 'docs'. Arguments are ids: list of"),
        ({"function": len, "signature": "[ids}, relevant"}, "found '[ids}'"),
        ({"function": len, "timeout": 0}, "`timeout` must be a number above 0"),
        (
            {"function": lambda a, b: "x"},
            "`function` <lambda>(a, b) returns no numbers: 'x' (called with ids, grades); state",
        ),
        (
            {"function": lambda: 1, "signature": "ids, relevant"},
            "takes 0 positional arguments but 2 were given (called with ids, relevant)",
        ),
        ({"command": ""}, "`command` must be a program with its arguments; found ''"),
        ({"command": "node 'a"}, "`command` must be a program with its arguments; found"),
    ],
)
def test_invalid_arguments(arguments: dict[str, Any], message: str) -> None:
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


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave one case without documents."""
    names = ("plain/", "copies/", "ties/grades", "gain/", "empty/nothing-retrieved")
    cases = [each for each in module.CASES if each.name.startswith(names)]
    monkeypatch.setattr(module, "CASES", cases)


@pytest.mark.parametrize(
    ("body", "kind", "message"),
    [
        ("pass", None, ""),
        ("sys.exit('no documents')", "crash", "ended with code 1: no documents"),
        ("os._exit(3)", "crash", "the process ended with code 3"),
        ("time.sleep(60)", "hang", "no answer within 2 seconds"),
        ("print('warning: empty')", "number", "not an answer: 'warning: empty'"),
        ("answer = {'value': float('nan')}", "number", "nan"),
        ("answer = {'value': '__import__(\"os\")'}", "number", "__import__"),
        ("answer = {'value': 10**400}", "number", "0000"),
        ("answer = {'value': [0.5, 0.5]}", "number", "[0.5, 0.5]"),
        ("print('[' * 100_000)", "number", "not an answer: '[["),
    ],
)
def test_answers_of_programs(tmp_path: Path, body: str, kind: str | None, message: str) -> None:
    result = pr.referee(command=program(tmp_path, body), metric="ndcg", timeout=2)
    assert [*found(result, "defect")] == ([kind] if kind else [])
    assert result.presets[0] == "trec_eval 10"
    if kind:
        assert message in found(result, "defect")[kind][0]
    else:
        assert result.findings.is_empty() and result.differs == 0


@pytest.mark.usefixtures("few")
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_a_program_is_ended_with_its_children(tmp_path: Path) -> None:
    body = "open('PID', 'w').write(str(subprocess.Popen(['sleep', '60']).pid)); time.sleep(60)"
    command = program(tmp_path, body.replace("PID", str(tmp_path / "pid")))
    result = pr.referee(command=command, metric="ndcg", timeout=2)
    assert [*found(result, "defect")] == ["hang"]
    stat = Path("/proc", (tmp_path / "pid").read_text(), "stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


@pytest.mark.usefixtures("few")
def test_a_program_that_never_answers(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    began = time.monotonic()
    result = pr.referee(command=command, metric="ndcg", timeout=0.2)
    texts = found(result, "defect")["hang"]
    assert texts[0] == "no answer within 0.2 seconds"
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


def is_running(number: int) -> bool:
    stat = Path("/proc", str(number), "stat")
    with suppress(OSError):
        return stat.read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.parametrize(
    ("kind", "sent"),
    [*itertools.product(["program", "function"], ["SIGINT", "SIGTERM"])],
)
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
    assert read_answer(b'{"id": 2, "value": 0.5}\n', 2) == Outcome("value", 0.5)
    assert read_answer(b'{"id": 2, "value": null}\n', 2) == Outcome("none")
    assert read_answer(b'{"id": 1, "value": 0.5}\n', 2).kind == "noise"
    assert read_answer(b'{"id": 2}\n', 2).kind == "noise"


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
    assert run("referee", target, "--junit", "a.xml", "--overwrite")[0] == 0
    assert run("referee", target, "--expect", "ranx")[0] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["my_eval:ndcg", "--command", "node"], "pass either FUNCTION"),
        (["my_eval:ndcg"], "cannot import `function`: No module"),
        (["my_eval"], "must be written like 'my_eval:ndcg'"),
        (["json:ndcg"], "'json' (`function`) has no function 'ndcg'"),
        (["no.py:ndcg"], "the file 'no.py' (`function`) does not exist"),
    ],
)
def test_functions_that_cannot_be_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, errors = run("referee", *arguments)
    assert code == 2
    assert message in errors.replace("ModuleNotFoundError: ", "").replace("\n", " ")


def test_a_program_in_javascript(tmp_path: Path) -> None:
    node = needs.program("node", package="nodejs")
    result = pr.referee(command=[node, str(FOLDER / "metrics.js")], metric="ndcg")
    assert result.findings.is_empty() and result.presets[0] == "trec_eval 10"
    text = (FOLDER / "metrics.js").read_text(encoding="utf-8")
    wrong = text.replace("Math.log2(index + 2)", "Math.log2(index + 3)").replace(
        "ideal ? ", "true ? "
    )
    assert wrong.count("index + 3") == 1 and "true ?" in wrong
    (tmp_path / "wrong.js").write_text(wrong, encoding="utf-8")
    result = pr.referee(command=[node, str(tmp_path / "wrong.js")], metric="ndcg")
    assert result.definition["discount"] == "1 / log2(rank + 2)"
    # JSON has no NaN: JavaScript writes null, which is no value.
    assert "undefined values: excluded from the mean" in conventions(result)


def test_texts() -> None:
    result = pr.referee(tools.recall_by_division)
    text = str(result)
    assert text.startswith("recall_by_division: 2 defects, 1 convention\nrecall@k as trec_eval 10,")
    assert '{"ids": ["a", "a", "b"], "relevant": ["a"], "k": 3}' in text
    assert max(map(len, text.splitlines())) <= 80
    assert "### recall_by_division: 2 defects" in result._repr_markdown_()
    assert "`" not in result.page.junit()
    assert result.cases.filter(~pl.col("explained"))["outcome"].unique().to_list() == ["crash"]
