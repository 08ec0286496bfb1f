"""Fusion in plain Python, from dictionaries."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

#: Run, query, document, and score; None if the document was not retrieved.
Row = tuple[str, Any, str, float | None]
_SUMS = {"rrf", "sum", "weighted_sum", "rbc", "borda", "weighted_borda"}


def fused(rows: Iterable[Row], method: str, **options: Any) -> dict[tuple[Any, str], float]:
    """Return the fused score of each retrieved document of each query."""
    queries: dict[Any, dict[str, dict[str, float | None]]] = {}
    for run, query, doc, score in rows:
        queries.setdefault(query, {}).setdefault(run, {})[doc] = score
    return {
        (query, doc): score
        for query, runs in queries.items()
        for doc, score in _of_query(runs, method, **options).items()
    }


def _of_query(
    runs: Mapping[str, Mapping[str, float | None]],
    method: str,
    *,
    weights: Mapping[str, float] | None = None,
    missing: str | None = None,
    normalize: str | None = None,
    **options: Any,
) -> dict[str, float]:
    rankings = {}
    for run, scores in runs.items():
        retrieved = [(score, doc) for doc, score in scores.items() if score is not None]
        rankings[run] = sorted(retrieved, reverse=True)
    candidates = {doc for ranking in rankings.values() for _, doc in ranking}
    results = {}
    points = {
        run: _points(ranking, method, len(candidates), normalize, **options)
        for run, ranking in rankings.items()
    }
    for doc in candidates:
        values = {}
        for run, ranking in rankings.items():
            value = points[run].get(doc)
            if value is None:
                value = _of_missing(
                    method, normalize, missing, len(candidates), len(ranking), points[run].values()
                )
            if value is not None:
                values[run] = value
        given = [1.0 if weights is None else weights[run] for run in values]
        results[doc] = _combined([*values.values()], given, method, **options)
    return results


def _points(
    ranking: Sequence[tuple[float, str]],
    method: str,
    candidates: int,
    normalize: str | None,
    *,
    k: float = 60,
    phi: float = 0,
    **_: Any,
) -> dict[str, float]:
    scores, n = [score for score, _ in ranking], len(ranking)
    points = {}
    for index, (score, doc) in enumerate(ranking):
        low, high, rank = min(scores), max(scores), index + 1
        value = score
        if method == "rrf":
            value = 1 / (k + rank)
        elif method.endswith("isr"):
            value = 1 / rank**2
        elif method == "rbc":
            value = (1 - phi) * phi**index
        elif method.endswith("borda"):
            value = candidates - index
        elif normalize == "rank":
            value = 1 - index / n
        elif normalize == "borda":
            value = 1 - index / candidates
        elif normalize == "max":
            value = score / high
        elif normalize is not None and low == high:
            value = 0 if normalize == "zscore" else 1
        elif normalize == "min_max":
            value = (score - low) / (high - low)
        elif normalize == "sum":
            value = (score - low) / math.fsum(other - low for other in scores)
        elif normalize == "zscore":
            value = (score - statistics.fmean(scores)) / statistics.pstdev(scores)
        points[doc] = value
    return points


def _of_missing(
    method: str, normalize: str | None, missing: str | None, candidates: int, n: int, points: Any
) -> float | None:
    if method.endswith("borda"):
        return (candidates - n + 1) / 2
    if normalize == "borda":
        return (candidates - n + 1) / 2 / candidates
    if missing == "zero" or (missing is None and method == "arithmetic_mean"):
        return 0.0
    return min(points, default=None) if missing == "lowest" else None


def _combined(
    values: Sequence[float], weights: Sequence[float], method: str, gamma: float = 0, **_: Any
) -> float:
    count, weighted = len(values), math.fsum(map(float.__mul__, weights, map(float, values)))
    positive = [(w, v) for w, v in zip(weights, values, strict=True) if v > 0 and w > 0]
    total = math.fsum(w for w, _ in positive)
    if method in _SUMS:
        return weighted
    if method == "geometric_mean":
        logs = math.fsum(w * math.log(v) for w, v in positive)
        return math.exp(logs / total) if positive else 0.0
    if method == "harmonic_mean":
        return total / math.fsum(w / v for w, v in positive) if positive else 0.0
    return {
        "mnz": lambda: weighted * count,
        "gmnz": lambda: weighted * count**gamma,
        "wmnz": lambda: math.fsum(values) * math.fsum(weights),
        "mixed": lambda: weighted * math.sqrt(count),
        "anz": lambda: weighted / count,
        "min": lambda: min(values),
        "max": lambda: max(values),
        "median": lambda: statistics.median(values),
        "arithmetic_mean": lambda: weighted / math.fsum(weights) if any(weights) else 0.0,
        "isr": lambda: weighted * count,
        "log_isr": lambda: weighted * math.log(count),
        "logn_isr": lambda: weighted * math.log(count + 0.01),
    }[method]()
