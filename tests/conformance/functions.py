"""Metrics of tools for one query, as these tools compute them, and metrics with usual defects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

import numpy as np


def discounted(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


def trec_eval_ndcg(qrel: Mapping[str, int], run: Mapping[str, float], k: int) -> float:
    """As `ndcg_cut` of trec_eval 10 (m_ndcg_cut.c, form_res_rels.c)."""
    ranked = sorted(run, key=lambda doc: (run[doc], doc.encode()), reverse=True)
    gains = [max(qrel.get(doc, 0), 0) for doc in ranked[:k]]
    best = sorted((label for label in qrel.values() if label > 0), reverse=True)[:k]
    return discounted(gains) / discounted(best) if best else 0.0


def trec_eval_map(qrel: Mapping[str, int], run: Mapping[str, float]) -> float:
    """As `map` of trec_eval 10 (m_map.c)."""
    ranked = sorted(run, key=lambda doc: (run[doc], doc.encode()), reverse=True)
    hits, total = 0, 0.0
    for rank, doc in enumerate(ranked, 1):
        if qrel.get(doc, 0) >= 1:
            hits += 1
            total += hits / rank
    relevant = sum(label >= 1 for label in qrel.values())
    return total / relevant if relevant else 0.0


def ranx_ndcg(
    qrels: Mapping[str, Mapping[str, int]], run: Mapping[str, Mapping[str, float]], k: int
) -> Mapping[str, float]:
    """As `ndcg` of ranx 0.3.21 (metrics/ndcg.py), which drops labels below 1."""
    values = {}
    for query, scores in run.items():
        grades = {doc: label for doc, label in qrels[query].items() if label >= 1}
        ranked = sorted(scores, key=lambda doc: -scores[doc])
        best = discounted(sorted(grades.values(), reverse=True)[:k])
        values[query] = discounted([grades.get(doc, 0) for doc in ranked[:k]]) / (best or 1)
    return values


def sklearn_ndcg_score(y_true: Any, y_score: Any, *, k: int | None = None) -> float:
    """As `ndcg_score` of scikit-learn 1.9 (metrics/_ranking.py), which averages tied labels."""
    y_true, y_score = np.asarray(y_true), np.asarray(y_score)
    if y_true.shape[1] < 2:
        raise ValueError(f"at least two documents are needed; got {y_true.shape[1]}")
    if y_true.min() < 0:
        raise ValueError("labels must not be negative")
    values = []
    for labels, scores in zip(y_true, y_score, strict=True):
        discounts = 1 / np.log2(np.arange(len(labels)) + 2)
        discounts[k:] = 0
        dcg, first = 0.0, 0
        for score in np.unique(scores)[::-1]:
            tied = labels[scores == score]
            dcg += tied.mean() * discounts[first : first + len(tied)].sum()
            first += len(tied)
        best = float((np.sort(labels)[::-1] * discounts).sum())
        values.append(dcg / best if best else 0.0)
    return float(np.mean(values))


def sentence_transformers_ndcg(top_hits: list[str], relevant_docs: set[str], k: int) -> Any:
    """As InformationRetrievalEvaluator of sentence-transformers, which leaves out queries.

    It evaluates the queries with relevant documents only.
    """
    if not relevant_docs:
        return None
    predicted = [int(doc in relevant_docs) for doc in top_hits[:k]]
    return discounted(predicted) / discounted(([1] * len(relevant_docs))[:k])


def sentence_transformers_map(top_hits: list[str], relevant_docs: set[str], k: int) -> Any:
    """As `map_at_k` of InformationRetrievalEvaluator."""
    if not relevant_docs:
        return None
    hits, total = 0, 0.0
    for rank, doc in enumerate(top_hits[:k], 1):
        if doc in relevant_docs:
            hits += 1
            total += hits / rank
    return total / min(k, len(relevant_docs))


def mlflow_ndcg_at_k(predictions: list[str], targets: list[str], k: int) -> float:
    """As `ndcg_at_k` of MLflow 3 (metrics/metric_definitions.py).

    A copy of a relevant document is one more relevant document, and the ideal ranking is as long
    as the ranking.
    """
    if not predictions or not targets:
        return float(not predictions and not targets)
    top, relevant = predictions[:k], {*targets}
    copies = sum(doc in top[:place] and doc in relevant for place, doc in enumerate(top))
    best = [1] * min(len(top), len(relevant) + copies)
    return discounted([int(doc in relevant) for doc in top]) / discounted(best)


def ml_metrics_apk(actual: list[str], predicted: list[str], k: int = 10) -> float:
    """As `apk` of ml_metrics 0.1.4 (average_precision.py)."""
    if not actual:
        return 1.0
    hits, total = 0, 0.0
    for place, doc in enumerate(predicted[:k]):
        if doc in actual and doc not in predicted[:place]:
            hits += 1
            total += hits / (place + 1)
    return total / min(len(actual), k)


def recmetrics_apk(actual: list[str], predicted: list[str], k: int = 10) -> float:
    """As `_apk` of recmetrics (metrics.py at 07487ef).

    Copies are no hits, but the precision at each hit counts them.
    """
    predicted = predicted[:k]
    hits, total = 0, 0.0
    for place, doc in enumerate(predicted):
        if doc in actual and doc not in predicted[:place]:
            hits += 1
            total += sum(each in actual for each in predicted[: place + 1]) / (place + 1)
    return total / hits if hits else 0


def cute_ranking_ndcg_at_k(r: Any, k: int, method: int = 0) -> float:
    """As `ndcg_at_k` of cute-ranking 0.0.3 (core.py)."""

    def dcg(labels: Any) -> float:
        labels = np.asarray(labels, dtype=float)[:k]
        if not labels.size:
            return 0.0
        if method == 0:
            return labels[0] + np.sum(labels[1:] / np.log2(np.arange(2, labels.size + 1)))
        return np.sum(labels / np.log2(np.arange(2, labels.size + 2)))

    best = dcg(sorted(r, reverse=True))
    return dcg(r) / best if best else 0.0


def evret_ndcg(retrieved_doc_ids: list[str], expected_answers: Any, k: int) -> float:
    """As `NDCG` of evret 0.0.3 (metrics/ndcg.py), which cuts values off at 1."""
    relevant = {*expected_answers}
    if not relevant or not retrieved_doc_ids:
        return 0.0
    dcg = discounted([float(doc in relevant) for doc in retrieved_doc_ids[:k]])
    return max(0.0, min(1.0, dcg / discounted([1.0] * min(k, len(relevant)))))


def ranking_metrics_ndcg_score(y_true: Any, y_score: Any, k: int = 10) -> float:
    """As `ndcg_score` of ranking-metrics 0.1.1 (ndcgs.py), which needs arrays.

    Ties are in the reverse of the order of the rows, and negative labels are removed.
    """
    is_judged = y_true >= 0
    y_true, y_score = y_true[is_judged], y_score[is_judged]

    def dcg(scores: Any) -> float:
        labels = np.take(y_true, np.argsort(scores)[::-1][:k])
        return np.sum((2.0**labels - 1) / np.log2(np.arange(len(labels)) + 2))

    best = dcg(y_true)
    return dcg(y_score) / best if best != 0 else 0


# Metrics that people write, with defects.


def ndcg_with_log_of_index(retrieved: list[str], relevant: set[str], k: int) -> float:
    """The index starts at 0: the first discount is 1 / log2(1)."""
    return sum(1 / log2(index + 1) for index, doc in enumerate(retrieved[:k]) if doc in relevant)


def ndcg_off_by_one(retrieved: list[str], relevant: set[str], k: int) -> float:
    """The discount is 1 / log2(rank + 2)."""
    first = [*dict.fromkeys(retrieved)][:k]
    best = sum(1 / log2(rank + 2) for rank in range(1, min(k, len(relevant)) + 1))
    dcg = sum(1 / log2(rank + 2) for rank, doc in enumerate(first, 1) if doc in relevant)
    return dcg / best if best else 0.0


def average_precision_of_hits(retrieved: list[str], relevant: set[str]) -> float:
    """1.0 for one hit of three relevant documents."""
    precisions, hits = [], 0
    for rank, doc in enumerate(dict.fromkeys(retrieved), 1):
        if doc in relevant:
            hits += 1
            precisions.append(hits / rank)
    return sum(precisions) / len(precisions) if precisions else 0.0


def recall_by_division(retrieved: list[str], relevant: set[str], k: int) -> float:
    """Copies count again, and a query without relevant documents divides by zero."""
    return sum(doc in relevant for doc in retrieved[:k]) / len(relevant)


def precision_in_order_of_rows(qrels: Mapping[str, int], run: Mapping[str, float], k: int) -> float:
    """The run is not sorted."""
    return sum(qrels.get(doc, 0) >= 1 for doc in [*run][:k]) / k


def mrr_without_value(retrieved: list[str], relevant: set[str]) -> float:
    """NaN without a hit."""
    ranks = [rank for rank, doc in enumerate(retrieved, 1) if doc in relevant]
    return 1 / ranks[0] if ranks else float("nan")


def precision_that_hangs(retrieved: list[str], relevant: set[str], k: int) -> float:
    while not retrieved:
        pass
    return sum(doc in relevant for doc in [*dict.fromkeys(retrieved)][:k]) / k


def ndcg_correct(grades: Mapping[str, float], run: Mapping[str, float], k: int) -> float:
    print("what a function prints does not break the report")
    return trec_eval_ndcg(grades, run, k)
