"""Functions that evaluate a log with each peer, ranking by ranking if it returns only means."""

from __future__ import annotations

import contextlib
import functools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import polars as pl

#: The values of a peer: by its name of the metric, then by query.
Values = dict[str, dict[str, float]]


def pytrec_eval(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate with pytrec_eval, without queries that have no label of at least 0: it crashes."""
    import pytrec_eval as peer

    judgments, run = _judgments(log), _run(log)
    judgments = {q: labels for q, labels in judgments.items() if max(labels.values()) >= 0}
    found = peer.RelevanceEvaluator(judgments, set(names)).evaluate(run)
    return {name: {query: values[name] for query, values in found.items()} for name in names}


def ir_measures(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate with ir_measures, without NumQ and NumRel of queries that are not in the run."""
    import ir_measures as peer

    measures = {peer.parse_measure(name): name for name in names}
    judgments, run = _judgments(log), _run(log)
    judgments = {q: labels for q, labels in judgments.items() if max(labels.values()) >= 0}
    found: Values = {name: {} for name in names}
    for value in peer.iter_calc(list(measures), judgments, run):
        if value.query_id not in run and value.measure.NAME in ("NumQ", "NumRel"):
            continue
        found[measures[value.measure]][value.query_id] = value.value
    return found


def ir_accuracy(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate Accuracy with ir_measures, without rankings for which it divides by zero."""
    found: Values = {name: {} for name in names}
    for (query,), rows in log.group_by("query"):
        for name in names:
            with contextlib.suppress(ZeroDivisionError):
                found[name] |= {
                    q: value for q, value in ir_measures(rows, [name])[name].items() if q == query
                }
    return found


def pyndeval(
    log: pl.DataFrame, names: Sequence[str], *, rel: int = 1, alpha: float = 0.5, beta: float = 0.5
) -> Values:
    """Evaluate with pyndeval, with the grades of subtopics if there is a column of them."""
    import pyndeval as peer

    options = {"relevance_level": rel, "alpha": alpha, "beta": beta}
    found = peer.RelevanceEvaluator(_diverse(log), names, **options).evaluate(
        log.select("query", "doc", "score").drop_nulls().sort("query").iter_rows()
    )
    return {name: {query: values[name] for query, values in found.items()} for name in names}


def diverse_ir_measures(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate with ir_measures, name by name, for the queries of the run."""
    return {name: _diverse_ir_measures(log, [name])[name] for name in names}


def _diverse_ir_measures(log: pl.DataFrame, names: Sequence[str]) -> Values:
    import ir_measures as peer

    measures = {peer.parse_measure(name): name for name in names}
    judgments = [
        peer.GenericQrel(query, doc, label, subtopic)
        for query, subtopic, doc, label in _diverse(log)
    ]
    run = _run(log)
    found: Values = {name: {} for name in names}
    for value in peer.iter_calc(list(measures), judgments, run):
        if value.query_id in run:
            found[measures[value.measure]][value.query_id] = value.value
    return found


def ranx(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate with ranx, which supports only queries that have judgments and retrieved documents.

    Its bpref is NaN if no document is judged not relevant. Rankings without relevant documents are
    removed for bpref, because they make it wrong for later rankings.
    """
    if "bpref" in names and len(names) > 1:
        solvable = log.filter(pl.col("label").max().over("query") >= 1)
        others = [name for name in names if name != "bpref"]
        return {**ranx(log, others), **ranx(solvable, ["bpref"])}
    import ranx as peer

    judgments, run = _judgments(log), _run(log)
    both = judgments.keys() & run.keys()
    ranked = peer.Run({query: run[query] for query in both})
    peer.evaluate(peer.Qrels({query: judgments[query] for query in both}), ranked, list(names))
    return {
        name: {query: v for query, v in ranked.scores[name].items() if not math.isnan(v)}
        for name in names
    }


def by_list(evaluate: Callable[[list[float], list[float], str], float | None]) -> Callable:
    """Convert a function of scores, labels and a name to a function of a log and names."""

    @functools.wraps(evaluate)
    def values(log: pl.DataFrame, names: Sequence[str]) -> Values:
        found: Values = {name: {} for name in names}
        for query, scores, labels in _lists(log):
            for name in names:
                value = evaluate(scores, labels, name)
                if value is not None:
                    found[name][query] = value
        return found

    return values


@by_list
def scikit_learn(scores: list[float], labels: list[float], name: str) -> float | None:
    """Evaluate with scikit-learn, without rankings of a single document, which it rejects.

    Average precision without relevant documents is omitted: scikit-learn has two values for it.
    """
    from sklearn import metrics

    function, parameters = called(name)
    if len(scores) == 1:
        return None
    if function in ("ndcg_score", "dcg_score"):
        return getattr(metrics, function)([labels], [scores], **parameters)
    relevant = [int(label >= 1) for label in labels]
    if function == "average_precision_score" and not any(relevant):
        return None
    if function in ("matthews_corrcoef", "accuracy_score", "precision_score", "recall_score"):
        least = sorted(scores, reverse=True)[: parameters["k"]][-1]
        more = (
            {"zero_division": 0} if function.endswith(("precision_score", "recall_score")) else {}
        )
        return getattr(metrics, function)(relevant, [int(s >= least) for s in scores], **more)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # all or none of the documents are relevant
        if function in ("roc_auc_score", "average_precision_score"):
            return getattr(metrics, function)(relevant, scores, **parameters)
        return getattr(metrics, function)([relevant], [scores], **parameters)


@by_list
def torchmetrics(scores: list[float], labels: list[float], name: str) -> float:
    """Evaluate with torchmetrics; all its functions except NDCG need binary labels."""
    import torch
    from torchmetrics.functional import retrieval

    function, parameters = called(name)
    graded = function == "retrieval_normalized_dcg"
    target = torch.tensor(labels if graded else [int(label >= 1) for label in labels])
    prediction = torch.tensor(scores, dtype=torch.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return float(getattr(retrieval, function)(prediction, target, **parameters))


def lightgbm(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate with LightGBM, with scores as the initial scores of an untrained model."""
    import lightgbm as peer
    import numpy as np

    cutoffs = [int(name.partition("@")[2]) for name in names if "@" in name]
    metrics = sorted({name.partition("@")[0] for name in names})
    found: Values = {name: {} for name in names}
    for query, scores, labels in _lists(log):
        data = peer.Dataset(
            np.zeros((len(scores), 1)),
            label=labels,
            group=[len(scores)],
            init_score=scores,
            params={"verbosity": -1, "feature_pre_filter": False},
        )
        options = {"objective": "none", "metric": metrics, "eval_at": cutoffs, "verbosity": -1}
        for _, name, value, _ in peer.Booster({**options, "num_threads": 1}, data).eval_train():
            if name in found:
                found[name][query] = float(value)
    return found


def xgboost(log: pl.DataFrame, names: Sequence[str]) -> Values:
    """Evaluate with XGBoost, with scores as the base margin of a model without trees."""
    import numpy as np
    import xgboost as peer

    found: Values = {name: {} for name in names}
    for query, scores, labels in _lists(log):
        data = peer.DMatrix(np.zeros((len(scores), 1)), label=labels)
        data.set_group([len(scores)])
        data.set_base_margin(np.asarray(scores, dtype=np.float32))
        options = {"objective": "rank:pairwise", "eval_metric": list(names), "nthread": 1}
        line = peer.Booster({**options, "verbosity": 0}, [data]).eval_set([(data, "")])
        for part in line.split("\t")[1:]:
            name, _, value = part.removeprefix("-").rpartition(":")
            if name in found:
                found[name][query] = float(value)
    return found


@by_list
def catboost(scores: list[float], labels: list[float], name: str) -> float:
    """Evaluate with CatBoost's `eval_metric`."""
    from catboost.utils import eval_metric

    return eval_metric(labels, scores, name, group_id=[0] * len(scores))[0]


def called(name: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the parameters of a call such as "ndcg_score(k=5)"."""
    function, _, arguments = name.partition("(")
    return function, eval(f"dict({arguments.removesuffix(')')})")


def _judgments(log: pl.DataFrame) -> dict[str, dict[str, int]]:
    return _nested(log, "label")


def _run(log: pl.DataFrame) -> dict[str, dict[str, float]]:
    return _nested(log, "score")


def _nested(log: pl.DataFrame, column: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for query, doc, value in log.select("query", "doc", column).drop_nulls().iter_rows():
        found.setdefault(query, {})[doc] = value
    return found


def _diverse(log: pl.DataFrame) -> list[tuple[str, str, str, int]]:
    """Return (query, subtopic, doc, grade); a document without subtopics has grade 0 for "a"."""
    if "grades" not in log.columns:
        log = log.with_columns(grades=pl.lit(1).repeat_by(pl.col("subtopics").list.len()))
    judged = log.filter(pl.col("label").is_not_null()).select("query", "subtopics", "doc", "grades")
    return [
        (query, subtopic, doc, grade)
        for query, subtopics, doc, grades in judged.iter_rows()
        for subtopic, grade in zip(subtopics or ["a"], grades or [0], strict=True)
    ]


def _lists(log: pl.DataFrame) -> Iterator[tuple[str, list[float], list[float]]]:
    for (query,), rows in log.group_by("query", maintain_order=True):
        yield query, rows["score"].to_list(), rows["label"].to_list()
