"""Statistics of agreement as plain loops over documents, for comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

#: The labels of a document, by judge.
Labels = Mapping[str, float]


def ratio(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None


def beyond_chance(observed: float | None, expected: float | None) -> float | None:
    return None if not expected or observed is None else 1 - observed / expected


def distances() -> dict[str, Callable[[float, float], float]]:
    return {
        "nominal": lambda a, b: float(a != b),
        "linear": lambda a, b: abs(a - b),
        "quadratic": lambda a, b: (a - b) ** 2,
    }


def mean(values: Sequence[float]) -> float | None:
    return ratio(sum(values), len(values))


def of_pair(documents: Sequence[Labels], first: str, second: str, grades: Sequence[float]) -> dict:
    """Return the statistics of a pair of judges; the first one is the reference."""
    both = [
        {first: each[first], second: each[second]}
        for each in documents
        if first in each and second in each
    ]
    pairs = [(each[first], each[second]) for each in both]
    result = of_all(both, grades)
    shares = Counter(a for a, _ in pairs)
    result["agreement_constant"] = ratio(max(shares.values(), default=0), len(pairs))
    for name, distance in distances().items():
        observed = mean([distance(a, b) for a, b in pairs])
        expected = mean([distance(a, b) for a, _ in pairs for _, b in pairs])
        suffix = "" if name == "nominal" else f"_{name}"
        result[f"kappa{suffix}"] = beyond_chance(observed, expected)
    hits = sum(a >= 1 and b >= 1 for a, b in pairs)
    result["precision"] = ratio(hits, sum(b >= 1 for _, b in pairs))
    result["recall"] = ratio(hits, sum(a >= 1 for a, _ in pairs))
    result["bias"] = mean([b - a for a, b in pairs])
    return result


def of_all(documents: Sequence[Labels], grades: Sequence[float]) -> dict:
    """Return the statistics of all judges together."""
    units = [[*each.values()] for each in documents if len(each) > 1]
    every = [label for unit in units for label in unit]
    number = Counter(every)

    def within(distance: Callable[[float, float], float], unit: list[float]) -> float:
        return mean([distance(a, b) for a, b in permutations(unit, 2)])

    def ordinal(a: float, b: float) -> float:
        low, high = sorted((a, b))
        between = sum(number[grade] for grade in grades if low <= grade <= high)
        return (between - (number[a] + number[b]) / 2) ** 2

    share = {grade: mean([unit.count(grade) / len(unit) for unit in units]) for grade in grades}
    result = {"agreement": mean([within(lambda a, b: float(a == b), unit) for unit in units])}
    result["agreement_constant"] = max(share.values()) if units else None
    for name, distance in {
        "nominal": distances()["nominal"],
        "ordinal": ordinal,
        "interval": distances()["quadratic"],
    }.items():
        observed = ratio(sum(len(unit) * within(distance, unit) for unit in units), len(every))
        expected = mean([distance(a, b) for a, b in permutations(every, 2)])
        result[f"alpha_{name}"] = beyond_chance(observed, expected)
    q, largest = len(grades), max(grades) - min(grades)
    for name, key in (("nominal", "ac1"), ("linear", "ac2_linear"), ("quadratic", "ac2_quadratic")):
        distance = distances()[name]
        most = {"nominal": 1, "linear": largest, "quadratic": largest**2}[name]
        if q == 1 or not units:
            result[key] = None
            continue
        weights = sum(1 - distance(a, b) / most for a in grades for b in grades)
        chance = weights / (q * (q - 1)) * sum(each * (1 - each) for each in share.values())
        observed = mean([within(distance, unit) for unit in units]) / most
        result[key] = beyond_chance(observed, 1 - chance)
    result["fleiss_kappa"] = None
    if units:
        result["fleiss_kappa"] = beyond_chance(
            mean([within(distances()["nominal"], unit) for unit in units]),
            sum(share[a] * share[b] for a in grades for b in grades if a != b),
        )
    return result
