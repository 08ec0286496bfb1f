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
    parts of findings, after their kind, and `preset` one of those that fit. A `metric` that is found
    by its values alone takes seconds, unless cases are `few`.
    """

    function: Callable[..., Any]
    signature: str
    expected: dict[str, Any]
    options: dict[str, Any]


FUNCTIONS: list[Refereed] = []


def found(
    signature: str, *texts: str, name: str = "", options: Any = None, **expected: Any
) -> Callable[[Any], Any]:
    """Return a decorator of a function that `referee` calls with a signature."""

    def added(function: Any) -> Any:
        function.__name__ = name or function.__name__
        expected["texts"] = texts
        FUNCTIONS.append(Refereed(function, signature, expected, dict(options or {})))
        return function

    return added


def dcg(gains: Sequence[float]) -> float:
    return sum(gain / log2(rank + 1) for rank, gain in enumerate(gains, 1))


def ndcg(gains: Sequence[float], judged: Any, k: int | None) -> float:
    best = dcg(sorted(judged, reverse=True)[:k])
    return dcg(gains[:k]) / best if best else 0.0


def unique(docs: list[str]) -> list[str]:
    return [*dict.fromkeys(docs)]


def precisions(hits: Sequence[bool]) -> list[float]:
    """Return the precision at each hit."""
    return [sum(hits[:rank]) / rank for rank, hit in enumerate(hits, 1) if hit]


def first(hits: Any) -> float:
    return next((1 / rank for rank, hit in enumerate(hits, 1) if hit), 0.0)


def ranked(run: Mapping[str, float]) -> list[str]:
    return sorted(run, key=lambda doc: (run[doc], doc.encode()), reverse=True)


# Metrics of tools.


def trec_eval_ndcg(qrel: Mapping[str, int], run: Mapping[str, float], k: int) -> float:
    """As `ndcg_cut` of trec_eval 10 (m_ndcg_cut.c, form_res_rels.c)."""
    gains = [max(qrel.get(doc, 0), 0) for doc in ranked(run)]
    return ndcg(gains, [max(label, 0) for label in qrel.values()], k)


def trec_eval_map(qrel: Mapping[str, int], run: Mapping[str, float]) -> float:
    """As `map` of trec_eval 10 (m_map.c)."""
    hits = [qrel.get(doc, 0) >= 1 for doc in ranked(run)]
    return sum(precisions(hits)) / max(sum(label >= 1 for label in qrel.values()), 1)


@found(
    "{grades}, {run}, k=k", preset="ranx",
    conventions={"tied scores: in the order of the rows", "lowest label with a gain: 1"},
)  # fmt: skip
def ranx_ndcg(qrels: Any, run: Mapping[str, Mapping[str, float]], k: int) -> Mapping[str, float]:
    """As `ndcg` of ranx 0.3.21 (metrics/ndcg.py), which drops labels below 1."""
    values = {}
    for query, scores in run.items():
        grades = {doc: label for doc, label in qrels[query].items() if label >= 1}
        docs = sorted(scores, key=lambda doc: -scores[doc])
        values[query] = ndcg([grades.get(doc, 0) for doc in docs], grades.values(), k)
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
        means = {score: labels[scores == score].mean() for score in scores}
        values.append(ndcg([means[score] for score in sorted(scores)[::-1]], labels, k))
    return float(np.mean(values))


@found(
    "ids, relevant, k=k", preset="sentence-transformers", defects={"range"},
    conventions={CREDITED, SKIPPED},
)  # fmt: skip
def sentence_transformers_ndcg(top_hits: list[str], relevant_docs: set[str], k: int) -> Any:
    """As InformationRetrievalEvaluator, which evaluates the queries with relevant documents only."""
    hits = [doc in relevant_docs for doc in top_hits]
    return ndcg(hits, [1] * len(relevant_docs), k) if relevant_docs else None


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
    hits, relevant = [doc in targets for doc in predictions[:k]], {*targets}
    copies = sum(hits) - len(relevant & {*predictions[:k]})
    return ndcg(hits, [1] * min(len(hits), len(relevant) + copies), k)


@found(
    "relevant, ids, k=k", preset="LightGBM",
    conventions={MIN, UNCREDITED, "undefined values: counts as 1"},
)  # fmt: skip
def ml_metrics_apk(actual: list[str], predicted: list[str], k: int = 10) -> float:
    """As `apk` of ml_metrics 0.1.4 (average_precision.py)."""
    docs = predicted[:k]
    hits = [doc in actual and doc not in docs[:place] for place, doc in enumerate(docs)]
    return sum(precisions(hits)) / min(len(actual), k) if actual else 1.0


@found(
    "labels, k=k", "discount of Järvelin and Kekäläinen (2002), or it is off by one",
    definition={"discount": "1 / log2(rank), and 1 at rank 1"},
)  # fmt: skip
def cute_ranking_ndcg_at_k(r: Any, k: int, method: int = 0) -> float:
    """As `ndcg_at_k` of cute-ranking 0.0.3 (core.py)."""
    dcg, best = (sum(labels[:1]) + sum(
        label / log2(rank) for rank, label in enumerate(labels[1:k], 2)
    ) for labels in ([*r], sorted(r, reverse=True)))  # fmt: skip
    return dcg / best if best else 0.0


@found("labels, scores, k=k", definition={"gain": "2^label - 1"}, defects={"mixture"})
def ranking_metrics_ndcg_score(y_true: Any, y_score: Any, k: int = 10) -> float:
    """As `ndcg_score` of ranking-metrics 0.1.1 (ndcgs.py), which needs arrays.

    Ties are in the reverse of the order of the rows, and negative labels are removed.
    """
    y_true, y_score = y_true[y_true >= 0], y_score[y_true >= 0]
    gains = 2.0**y_true - 1
    return ndcg(gains[np.argsort(y_score)[::-1]], gains, k)


# Metrics that people write, most of them with defects.


@found(
    "ids, relevant, k=k", "crash: ZeroDivisionError: float division by zero",
    defects={"crash", "range", "mixture"},
)  # fmt: skip
def ndcg_with_log_of_index(retrieved: list[str], relevant: set[str], k: int) -> float:
    """The index starts at 0: the first discount is 1 / log2(1)."""
    return sum(1 / log2(index + 1) for index, doc in enumerate(retrieved[:k]) if doc in relevant)


@found("ids, relevant, k=k", "discount: 1 / log2(rank + 2); in trec_eval 10: 1 / log2(rank + 1)")
def ndcg_off_by_one(retrieved: list[str], relevant: set[str], k: int) -> float:
    hits = [doc in relevant for doc in unique(retrieved)]
    return dcg([0, *hits[:k]]) / (dcg([0, *[1] * min(k, len(relevant))]) or 1)


@found(
    "ids, relevant", metric="average_precision",
    definition={"norm": "number of relevant documents among the first k"},
)  # fmt: skip
def average_precision_of_hits(retrieved: list[str], relevant: set[str]) -> float:
    """1.0 for one hit of three relevant documents."""
    found = precisions([doc in relevant for doc in unique(retrieved)])
    return sum(found) / max(len(found), 1)


def recall_by_division(retrieved: list[str], relevant: set[str], k: int) -> float:
    """Copies count again, and a query without relevant documents divides by zero."""
    return sum(doc in relevant for doc in retrieved[:k]) / len(relevant)


def ndcg_correct(grades: Mapping[str, float], run: Mapping[str, float], k: int) -> float:
    print("what a function prints does not break the report")
    return trec_eval_ndcg(grades, run, k)


@found("ids, relevant, k=k", "number: array([0., 0.])", preset="trec_eval 10", defects={"number"})
def precision(retrieved: list[str], relevant: set[str], k: int) -> Any:
    value = sum(doc in relevant for doc in unique(retrieved)[:k]) / k
    return [np.float32(value)] if value else np.zeros(2)


@found("{grades}, {run}", findings=0)
def map(qrels: Any, run: Any) -> dict[str, float]:
    """As pytrec_eval, which returns a mapping without queries of one file only."""
    return {q: trec_eval_map(qrels[q], run[q]) for q in run if run[q] and qrels[q]}


@found(
    "run, grades", "refusal: refuses empty: ValueError: nothing was retrieved",
    "crash: ValueError: ", defects={"crash"},
)  # fmt: skip
def reciprocal_rank(run: dict[str, float], grades: dict[str, float]) -> float:
    """An error with a message is a refusal."""
    if not run:
        raise ValueError("nothing was retrieved")
    best = max(label for label in grades.values() if label > 0)
    return first(grades.get(doc, 0) >= 1 for doc in ranked(run)) or 0.0 * best


@found(
    "ids, relevant, k", ": NotImplementedError: not implemented",
    options={"signature": "ids, relevant, k"}, defects={"refusal"},
)  # fmt: skip
def ndcg_of_two(retrieved: list[str], relevant: set[str], k: int) -> float:
    """It refuses most cases."""
    if len(retrieved) != 2:
        raise NotImplementedError("not implemented")
    return ndcg([doc in relevant for doc in retrieved], [1] * len(relevant), k)


@found(
    "ids, grades, k", "mixture: the cases of unjudged, copies",
    options={"signature": "ids, grades, k"}, defects={"mixture"},
)  # fmt: skip
def precision_by_half(retrieved: list[str], qrels: dict[str, float], k: int) -> float:
    """Precision is halved where a document is unjudged or occurs twice: one defect."""
    docs = unique(retrieved)
    value = sum(qrels.get(doc, 0) >= 1 for doc in docs[:k]) / k
    return value / (1 + (len(docs) < len(retrieved) or not {*docs} <= {*qrels}))


@found("ids, grades, k=k", defects={"mixture"})
def ndcg_of_either(retrieved: list[str], relevant: Any, k: int) -> float:
    grades = relevant if isinstance(relevant, dict) else dict.fromkeys(relevant, 1)
    return trec_eval_ndcg(grades, {doc: -n for n, doc in enumerate(retrieved)}, k)


@found("hits, scores")
def average_precision(y_true: Any, y_score: Any) -> float:
    hits = np.array(y_true)[np.argsort(-np.array(y_score), kind="stable")]
    return sum(precisions(hits)) / max(sum(y_true), 1)


# fmt: off
found("ids, relevant", "number: nan", name="mrr_without_value", defects={"number"})(
    lambda retrieved, relevant: first(doc in relevant for doc in retrieved) or float("nan"))
found("ids, relevant", "'no relevant documents'", "no value, where the", name="hit_rate",
      defects={"number"})(
    lambda retrieved, relevant:
        1.0 if relevant & {*retrieved} else None if relevant else "no relevant documents")
# The run is not sorted.
found("grades, run, k=k", "order: the value depends on the order of the input",
      name="precision_in_order_of_rows", defects={"order", "mixture"})(
    lambda qrels, run, k: sum(qrels.get(doc, 0) >= 1 for doc in [*run][:k]) / k)
found("ids, relevant, k=k", name="quality", metric="precision@k", few=True)(
    lambda a, b, k: sum(doc in b for doc in unique(a)[:k]) / k)
found("ids, relevant", "mixture: no definition explains the value", name="evaluate",
      metric="unknown metric", defects={"mixture"}, few=True)(
    lambda retrieved, relevant: 0.123 + len(retrieved) / 1_000)
# A mapping of judgments would work, and its documents with the label 0 would be relevant.
found("ids, relevant, k=k", name="hit_rate_of_ids")(
    lambda recommended, actual, k=10: any(doc in actual for doc in recommended[:k]))
found("[relevant], [ids], k=k", name="mapk")(
    lambda actual, predicted, k=10:
        np.mean([ml_metrics_apk(*each, k) for each in zip(actual, predicted, strict=True)]))
found("ids, grades", "relevant: label above 0", name="mrr_of_positive")(
    lambda retrieved, qrels: first(qrels.get(doc, 0) > 0 for doc in retrieved))
found("ids, grades, k=k", "gain: 1 for labels above 0, otherwise 0", name="ndcg_of_positive")(
    lambda retrieved, qrels, k: ndcg([qrels.get(doc, 0) > 0 for doc in unique(retrieved)],
                                     [label > 0 for label in qrels.values()], k))
ndcg_of_negative = found(
    "ids, grades, k=k", "negative labels: not by the definition of the other labels",
    name="ndcg_of_negative")(
    lambda retrieved, qrels, k:
        ndcg([qrels.get(doc, 0) for doc in unique(retrieved)], qrels.values(), k))
found("hits, k=k", name="precision_at_k", findings=0)(lambda labels, k: sum(labels[:k]) / k)
# A function that expects one relevant id finds none in a set.
found("ids, relevant", "mixture: no definition explains the value", name="hit_ratio",
      options={"signature": "ids, relevant"}, defects={"mixture"})(
    lambda ranklist, item: float(item in ranklist))
