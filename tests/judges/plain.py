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


def differs(a: float, b: float) -> float:
    return float(a != b)


def square(a: float, b: float) -> float:
    return (a - b) ** 2


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
    for name, distance in {"kappa": differs, "kappa_quadratic": square}.items():
        observed = mean([distance(a, b) for a, b in pairs])
        expected = mean([distance(a, b) for a, _ in pairs for _, b in pairs])
        result[name] = beyond_chance(observed, expected)
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

    observed = ratio(sum(len(unit) * within(ordinal, unit) for unit in units), len(every))
    expected = mean([ordinal(a, b) for a, b in permutations(every, 2)])
    q, largest = len(grades), square(max(grades), min(grades))
    ac2 = None
    if q > 1 and units:
        share = {grade: mean([unit.count(grade) / len(unit) for unit in units]) for grade in grades}
        weights = sum(1 - square(a, b) / largest for a in grades for b in grades)
        chance = weights / (q * (q - 1)) * sum(each * (1 - each) for each in share.values())
        ac2 = beyond_chance(mean([within(square, unit) for unit in units]) / largest, 1 - chance)
    return {
        "agreement": mean([1 - within(differs, unit) for unit in units]),
        "alpha_ordinal": beyond_chance(observed, expected),
        "ac2_quadratic": ac2,
    }
