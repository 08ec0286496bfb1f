"""Functions for `referee`, with what it finds: as tools compute metrics, and with usual defects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log2
from typing import Any, NamedTuple

import numpy as np

MIN = "divisor: the smaller of k and the number of relevant documents"
CREDITED = "duplicate documents: each copy counts again"
UNCREDITED = "duplicate documents: copies keep their rank and are not relevant"
SKIPPED = "undefined values: excluded from the mean"


class Refereed(NamedTuple):
    """A function, how it should be called, what else `referee` should find, and its options.

    `defects` are the kinds of all defects, none by default, `conventions` all conventions, `texts`
    parts of findings, after their kind, and `preset` one of those that fit.
    """

    function: Callable[..., Any]
    signature: str
    expected: dict[str, Any]
    options: dict[str, Any]


FUNCTIONS: list[Refereed] = []


def found(signature: str, *, options: Mapping[str, Any] | None = None, **expected: Any) -> Any:
    """Return a decorator of a function that `referee` calls with a signature."""

    def added(function: Callable[..., Any]) -> Callable[..., Any]:
        FUNCTIONS.append(Refereed(function, signature, expected, dict(options or {})))
        return function

    return added


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


@found(
    "{grades}, {run}, k=k", preset="ranx",
    conventions={"tied scores: in the order of the rows", "lowest label with a gain: 1"},
)  # fmt: skip
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


@found(
    "[labels], [scores], k=k", preset="scikit-learn",
    conventions={"tied scores: exact mean over all orders"},
)  # fmt: skip
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


@found(
    "ids, relevant, k=k", preset="sentence-transformers", defects={"range"},
    conventions={CREDITED, SKIPPED},
)  # fmt: skip
def sentence_transformers_ndcg(top_hits: list[str], relevant_docs: set[str], k: int) -> Any:
    """As InformationRetrievalEvaluator of sentence-transformers, which leaves out queries.

    It evaluates the queries with relevant documents only.
    """
    if not relevant_docs:
        return None
    predicted = [int(doc in relevant_docs) for doc in top_hits[:k]]
    return discounted(predicted) / discounted(([1] * len(relevant_docs))[:k])


@found(
    "ids, relevant, k=k", preset="Elasticsearch",
    conventions={
        "duplicate documents: each copy counts as another document with the same label",
        "divisor: the smaller of k and the number of retrieved documents",
        "undefined values: counts as 1 if nothing was retrieved either, otherwise as 0",
    },
)  # fmt: skip
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


@found(
    "relevant, ids, k=k", preset="LightGBM",
    conventions={MIN, UNCREDITED, "undefined values: counts as 1"},
)  # fmt: skip
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


@found("relevant, ids, k=k", preset="torchmetrics", defects={"mixture"})
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


@found(
    "labels, k=k", definition={"discount": "1 / log2(rank), and 1 at rank 1"},
    texts=["discount of Järvelin and Kekäläinen (2002), or it is off by one"],
)  # fmt: skip
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


@found("labels, scores, k=k", definition={"gain": "2^label - 1"}, defects={"mixture"})
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


@found(
    "ids, relevant, k=k", defects={"crash", "range", "mixture"},
    texts=["crash: ZeroDivisionError: float division by zero"],
)  # fmt: skip
def ndcg_with_log_of_index(retrieved: list[str], relevant: set[str], k: int) -> float:
    """The index starts at 0: the first discount is 1 / log2(1)."""
    return sum(1 / log2(index + 1) for index, doc in enumerate(retrieved[:k]) if doc in relevant)


@found(
    "ids, relevant, k=k",
    texts=["discount: 1 / log2(rank + 2); in trec_eval 10: 1 / log2(rank + 1). It is off"],
)  # fmt: skip
def ndcg_off_by_one(retrieved: list[str], relevant: set[str], k: int) -> float:
    """The discount is 1 / log2(rank + 2)."""
    first = [*dict.fromkeys(retrieved)][:k]
    best = sum(1 / log2(rank + 2) for rank in range(1, min(k, len(relevant)) + 1))
    dcg = sum(1 / log2(rank + 2) for rank, doc in enumerate(first, 1) if doc in relevant)
    return dcg / best if best else 0.0


@found(
    "ids, relevant", metric="average_precision",
    definition={"norm": "number of relevant documents among the first k"},
)  # fmt: skip
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


@found(
    "grades, run, k=k", defects={"order", "mixture"},
    texts=["order: the value depends on the order of the input"],
)  # fmt: skip
def precision_in_order_of_rows(qrels: Mapping[str, int], run: Mapping[str, float], k: int) -> float:
    """The run is not sorted."""
    return sum(qrels.get(doc, 0) >= 1 for doc in [*run][:k]) / k


@found("ids, relevant", defects={"number"}, texts=["number: nan"])
def mrr_without_value(retrieved: list[str], relevant: set[str]) -> float:
    """NaN without a hit."""
    ranks = [rank for rank, doc in enumerate(retrieved, 1) if doc in relevant]
    return 1 / ranks[0] if ranks else float("nan")


def ndcg_correct(grades: Mapping[str, float], run: Mapping[str, float], k: int) -> float:
    print("what a function prints does not break the report")
    return trec_eval_ndcg(grades, run, k)


@found(
    "ids, relevant", defects={"number"}, texts=["'no relevant documents'", "no value, where the"]
)
def hit_rate(retrieved: list[str], relevant: set[str]) -> Any:
    hit = float(bool(relevant & {*retrieved}))
    return hit if hit else None if relevant else "no relevant documents"


@found(
    "ids, relevant, k=k", preset="trec_eval 10", defects={"number"},
    texts=["number: array([0., 0.])"],
)  # fmt: skip
def precision(retrieved: list[str], relevant: set[str], k: int) -> Any:
    value = sum(doc in relevant for doc in [*dict.fromkeys(retrieved)][:k]) / k
    return [np.float32(value)] if value else np.zeros(2)


@found("{grades}, {run}", findings=0)
def map(qrels: Any, run: Any) -> dict[str, float]:
    """As pytrec_eval, which returns a mapping without queries of one file only."""
    return {q: trec_eval_map(qrels[q], run[q]) for q in run if run[q] and qrels[q]}


@found(
    "run, grades", defects={"crash"},
    texts=["refusal: refuses empty: ValueError: nothing was retrieved", "crash: ValueError: "],
)  # fmt: skip
def reciprocal_rank(run: dict[str, float], grades: dict[str, float]) -> float:
    """An error with a message is a refusal."""
    if not run:
        raise ValueError("nothing was retrieved")
    best = max(label for label in grades.values() if label > 0)
    ranked = sorted(run, key=lambda doc: (run[doc], doc), reverse=True)
    return next((1 / n for n, d in enumerate(ranked, 1) if grades.get(d, 0) >= 1), 0.0 * best)


@found(
    "ids, relevant, k", options={"signature": "ids, relevant, k"}, defects={"refusal"},
    texts=[": NotImplementedError: not implemented"],
)  # fmt: skip
def ndcg_of_two(retrieved: list[str], relevant: set[str], k: int) -> float:
    """It refuses most cases."""
    if len(retrieved) != 2:
        raise NotImplementedError("not implemented")
    scores = {doc: -rank for rank, doc in enumerate(retrieved)}
    return trec_eval_ndcg(dict.fromkeys(relevant, 1), scores, k)


@found(
    "ids, grades, k", options={"signature": "ids, grades, k"}, defects={"mixture"},
    texts=["mixture: the cases of unjudged, copies"],
)  # fmt: skip
def precision_by_half(retrieved: list[str], qrels: dict[str, float], k: int) -> float:
    """Precision is halved where a document is unjudged or occurs twice: one defect."""
    docs = [*dict.fromkeys(retrieved)]
    value = sum(qrels.get(doc, 0) >= 1 for doc in docs[:k]) / k
    return value / (1 + (len(docs) < len(retrieved) or not {*docs} <= {*qrels}))


@found("ids, relevant, k=k", metric="precision@k")
def quality(a: list[str], b: set[str], k: int) -> float:
    """The metric is found by its values, which takes seconds."""
    return sum(doc in b for doc in [*dict.fromkeys(a)][:k]) / k


@found("ids, relevant, k=k")
def hit_rate_of_ids(recommended: list[str], actual: set[str], k: int = 10) -> bool:
    """A mapping of judgments would work, and its documents with the label 0 would be relevant."""
    return any(doc in actual for doc in recommended[:k])


@found("ids, grades, k=k", defects={"mixture"})
def ndcg_of_either(retrieved: list[str], relevant: Any, k: int) -> float:
    grades = relevant if isinstance(relevant, dict) else dict.fromkeys(relevant, 1)
    return trec_eval_ndcg(grades, {doc: -n for n, doc in enumerate(retrieved)}, k)


@found("[relevant], [ids], k=k")
def mapk(actual: list[list[str]], predicted: list[list[str]], k: int = 10) -> float:
    values = [ml_metrics_apk(*each, k) for each in zip(actual, predicted, strict=True)]
    return float(np.mean(values))


@found("ids, grades", texts=["relevant: label above 0"])
def mrr_of_positive(retrieved: list[str], qrels: dict[str, float]) -> float:
    return next((1 / n for n, d in enumerate(retrieved, 1) if qrels.get(d, 0) > 0), 0.0)


@found("ids, grades, k=k", texts=["gain: 1 for labels above 0, otherwise 0"])
def ndcg_of_positive(retrieved: list[str], qrels: dict[str, float], k: int) -> float:
    hits = [float(qrels.get(doc, 0) > 0) for doc in [*dict.fromkeys(retrieved)]]
    ideal = discounted(sorted((x > 0 for x in qrels.values()), reverse=True)[:k])
    return discounted(hits[:k]) / ideal if ideal else 0.0


@found("ids, grades, k=k", texts=["negative labels: not by the definition of the other labels"])
def ndcg_of_negative(retrieved: list[str], qrels: dict[str, float], k: int) -> float:
    ideal = discounted(sorted(qrels.values(), reverse=True)[:k])
    docs = [*dict.fromkeys(retrieved)]
    return discounted([qrels.get(doc, 0) for doc in docs[:k]]) / ideal if ideal else 0.0


@found(
    "ids, grades, k", options={"signature": "ids, grades, k"},
    defects={"crash", "number", "mixture"}, texts=["crash: KeyError: 'u'", "number: [1, 0, 3]"],
)  # fmt: skip
def ndcg_of_labels(retrieved: list[str], qrels: dict[str, float], k: int) -> Any:
    """The same problem in several cases is one finding."""
    return [qrels[doc] for doc in retrieved[:k]] if len(retrieved) > 3 else 0.5


@found("hits, k=k", findings=0)
def precision_at_k(labels: list[int], k: int) -> float:
    return sum(labels[:k]) / k


@found("hits, scores")
def average_precision(y_true: Any, y_score: Any) -> float:
    hits = np.array(y_true)[np.argsort(-np.array(y_score), kind="stable")]
    share = np.cumsum(hits) / np.arange(1, hits.size + 1)
    return float((share * hits).sum() / max(hits.sum(), 1))


@found(
    "ids, relevant", options={"signature": "ids, relevant"}, defects={"mixture"},
    texts=["mixture: no definition explains the value"],
)  # fmt: skip
def hit_ratio(ranklist: list[str], item: str) -> float:
    """A function that expects one relevant id finds none in a set."""
    return float(item in ranklist)


@found(
    "ids, relevant", metric="unknown metric", defects={"mixture"},
    texts=["mixture: no definition explains the value"],
)  # fmt: skip
def evaluate(retrieved: list[str], relevant: set[str]) -> float:
    """It takes seconds, as all metrics are tried."""
    return 0.123 + len(retrieved) / 1_000
