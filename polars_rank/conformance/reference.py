"""Metrics of one query in plain Python, under the choices of any tool.

It has the choices of the library, and choices of tools that the library does not have: copies of a
document that count again ("credited") or count as not relevant ("uncredited"), ties in the reverse
of their order ("reversed"), an ideal ranking of the first k retrieved documents ("cut"), a gain of
1 for all labels above 0 ("positive"), a discount that is off by one ("log2(rank + 2)"), and rounded
values ("decimals").
"""

from __future__ import annotations

import math
import struct
from itertools import chain, groupby, permutations, product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Row = tuple[str, float]
    Labels = Sequence[float | None]
    Judgments = Mapping[str, float]
    Choices = Mapping[str, Any]

GAINS: dict[str, Callable[[float], float]] = {
    "linear": lambda label: label,
    "exp2": lambda label: 2.0**label - 1,
    "binary": lambda label: float(label >= 1),
    "positive": lambda label: float(label > 0),
}
DISCOUNTS: dict[str, Callable[[int], float]] = {
    "log2": lambda rank: 1 / math.log2(rank + 1),
    "log": lambda rank: 1 / math.log(rank + 1),
    "jarvelin": lambda rank: 1 / math.log2(max(rank, 2)),
    "reciprocal": lambda rank: 1 / rank,
    "log2(rank + 2)": lambda rank: 1 / math.log2(rank + 2),
}


class RefusedError(ValueError):
    """Error for input that has no value under the choices, such as copies of a document."""


def value(metric: str, rows: Sequence[Row], judgments: Judgments, choices: Choices) -> float | None:
    """Return the value of a metric for one query, or None where it does not count.

    `rows` are the documents and scores in the order of the input.
    """
    function = _METRICS[metric]
    orders = _orders(rows, judgments, choices)
    found = [function(_labels(order, judgments, choices), judgments, choices) for order in orders]
    defined = [each for each in found if each is not None]
    mean = math.fsum(defined) / len(defined) if len(defined) == len(found) else None
    if mean is None:
        mean = {"zero": 0.0, "one": 1.0}.get(choices.get("undefined", "zero"))
    decimals = choices.get("decimals")
    return mean if mean is None or decimals is None else round(mean, decimals)


def _orders(rows: Sequence[Row], judgments: Judgments, choices: Choices) -> Iterator[list[str]]:
    """Yield the documents by rank: once, or in each order of tied documents."""
    ties, copies = choices.get("ties", "doc"), choices.get("duplicates", "error")
    narrow = struct.Struct("f") if choices.get("float32_scores") else struct.Struct("d")
    scored = [(doc, narrow.unpack(narrow.pack(score))[0]) for doc, score in rows]
    if choices.get("unjudged") == "removed":
        scored = [(doc, score) for doc, score in scored if doc in judgments]
    if len({doc for doc, _ in scored}) < len(scored):
        if copies == "error":
            raise RefusedError("a document occurs more than once")
        if copies == "max":
            scored.sort(key=lambda row: -row[1])
        if copies in ("max", "first"):
            kept = dict(reversed(scored))
            scored = [(doc, kept.pop(doc)) for doc, _ in scored if doc in kept]
    sign = {"best": -1, "worst": 1}.get(ties, 0)
    if ties == "reversed":
        scored.reverse()
    elif ties not in ("input", "expected"):
        scored.sort(key=lambda row: row[0], reverse=ties != "doc_ascending")
        scored.sort(key=lambda row: sign * judgments.get(row[0], 0))
    scored.sort(key=lambda row: -row[1])
    groups = [[doc for doc, _ in group] for _, group in groupby(scored, key=lambda row: row[1])]
    orders = [permutations(group) if ties == "expected" else [group] for group in groups]
    for order in product(*orders):
        yield [*chain.from_iterable(order)]


def _labels(order: Sequence[str], judgments: Judgments, choices: Choices) -> list[float | None]:
    """Return the labels by rank, None for unjudged documents."""
    labels = [judgments.get(doc) for doc in order]
    if choices.get("duplicates") == "uncredited":
        return [None if doc in order[:at] else labels[at] for at, doc in enumerate(order)]
    return labels


def _gain(label: float | None, choices: Choices) -> float:
    lowest = choices.get("gain_from")
    if label is None or (lowest is not None and label < lowest):
        return 0.0
    return GAINS[choices.get("gain", "linear")](label)


def _discounted(labels: Labels, choices: Choices) -> float:
    discount = DISCOUNTS[choices.get("discount", "log2")]
    return math.fsum(_gain(label, choices) * discount(rank) for rank, label in enumerate(labels, 1))


def _cg(labels: Labels, _: Judgments, choices: Choices) -> float | None:
    return math.fsum(_gain(label, choices) for label in labels[: choices.get("k")])


def _dcg(labels: Labels, judgments: Judgments, choices: Choices) -> float | None:
    without_gain = all(_gain(label, choices) <= 0 for label in judgments.values())
    if choices.get("irrelevant") == "null" and without_gain:
        return None
    return _discounted(labels[: choices.get("k")], choices)


def _ndcg(labels: Labels, judgments: Judgments, choices: Choices) -> float | None:
    k, ideal = choices.get("k"), choices.get("ideal", "judged")
    pool = {
        "retrieved": [label for label in labels if label is not None],
        "cut": [label for label in labels[:k] if label is not None],
    }.get(ideal, [*judgments.values()])
    best = sorted(pool, reverse=True)[: None if ideal == "all" else k]
    if choices.get("depth") == "retrieved":
        best = best[: len(labels)]
    if ideal == "full":
        if all(_gain(label, choices) <= 0 for label in pool):
            return None
        n = len(labels)
        best = [1.0] * (n if k is None else min(k, n) if choices.get("depth") else k)
    whole = _discounted(best, choices)
    return _discounted(labels[:k], choices) / whole if whole > 0 else None


def _hits(labels: Labels, choices: Choices) -> list[bool]:
    """Return whether each of the first k documents is relevant."""
    rel = choices.get("rel", 1)
    return [label is not None and label >= rel for label in labels[: choices.get("k")]]


def _relevant(judgments: Judgments, choices: Choices) -> int:
    return sum(_hits([*judgments.values()], {**choices, "k": None}))


def _average_precision(labels: Labels, judgments: Judgments, choices: Choices) -> float | None:
    top, total, k = _hits(labels, choices), _relevant(judgments, choices), choices.get("k")
    parts = [sum(top[:rank]) / rank for rank, hit in enumerate(top, 1) if hit]
    divisor = {
        "R": total, "min": min(k or total, total), "retrieved": min(len(top), total),
        "hits": len(parts) or 1, "k": k or len(top),
    }[choices.get("norm", "R")]  # fmt: skip
    return math.fsum(parts) / divisor if total and divisor else None


def _reciprocal_rank(labels: Labels, judgments: Judgments, choices: Choices) -> float | None:
    ranks = (1 / rank for rank, hit in enumerate(_hits(labels, choices), 1) if hit)
    return next(ranks, 0.0) if _relevant(judgments, choices) else None


def _precision(labels: Labels, judgments: Judgments, choices: Choices) -> float | None:
    k, n = choices.get("k"), len(labels)
    if k is not None and choices.get("short") == "null" and n < k:
        return None
    if choices.get("irrelevant") == "null" and not _relevant(judgments, choices):
        return None
    length = n if k is None else min(k, n) if choices.get("depth") == "retrieved" else k
    return sum(_hits(labels, choices)) / length if length else None


def _recall(labels: Labels, judgments: Judgments, choices: Choices) -> float | None:
    total = _relevant(judgments, choices)
    return sum(_hits(labels, choices)) / total if total else None


def _recall_capped(labels: Labels, judgments: Judgments, choices: Choices) -> float | None:
    total = _relevant(judgments, choices)
    return sum(_hits(labels, choices)) / min(total, choices.get("k") or total) if total else None


def _hit_rate(labels: Labels, judgments: Judgments, choices: Choices) -> float | None:
    return float(any(_hits(labels, choices))) if _relevant(judgments, choices) else None


def _f1(labels: Labels, judgments: Judgments, choices: Choices) -> float | None:
    precision, recall = (each(labels, judgments, choices) for each in (_precision, _recall))
    if not precision or not recall:
        return None if recall is None else 0.0
    return 2 * precision * recall / (precision + recall)


def _r_precision(labels: Labels, judgments: Judgments, choices: Choices) -> float | None:
    total = _relevant(judgments, choices)
    return sum(_hits(labels, {**choices, "k": total})) / total if total else None


_GRADED = (_cg, _dcg, _ndcg)
_RANKED = (_average_precision, _reciprocal_rank)
_COUNTED = (_precision, _recall, _recall_capped, _hit_rate, _f1, _r_precision)
_METRICS = {each.__name__.removeprefix("_"): each for each in (*_GRADED, *_RANKED, *_COUNTED)}
METRICS = (*_METRICS,)
#: Metrics that read grades, not only which documents are relevant.
GRADED = tuple(each.__name__.removeprefix("_") for each in _GRADED)
