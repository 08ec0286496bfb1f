"""The definition that explains most values of a function, the simplest first."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any, NamedTuple

from polars_rank.conformance.cases import Case
from polars_rank.conformance.functions import Outcome, Signature
from polars_rank.conformance.reference import RefusedError, value
from polars_rank.conventions import POLARS_RANK, PRESETS, RANX, SKLEARN, TREC_EVAL, Conventions
from polars_rank.definitions import ALTERNATIVES, Definition, changes, one_metric

Choices = Mapping[str, Any]

#: Presets in the order in which they are tried, and named if several fit.
_KNOWN = (TREC_EVAL, RANX, SKLEARN, POLARS_RANK, *PRESETS)
#: Choices of functions that the reference does not have: each copy is one more judged document, and
#: 1 only where nothing was retrieved either.
SEPARATE, EMPTY = "separate", "empty"
#: The lowest label above 0.
ABOVE_0 = math.ulp(0.0)
#: Values of choices, with those that only functions written by hand are known to have.
_OWN = {"duplicates": SEPARATE, "undefined": EMPTY, "rel": ABOVE_0, "gain": "positive"}
_ALTERNATIVES = {
    choice: (*values, _OWN[choice]) if choice in _OWN else values
    for choice, values in ALTERNATIVES.items()
}
#: Choices that change means over queries, not values of one query.
_OF_MEANS = ("query_set", "counts")


class Asked(NamedTuple):
    """A case, as far as the arguments express it, and what the function returned."""

    case: Case
    outcome: Outcome


def same(one: float | None, other: float | None) -> bool:
    """Return whether two values are equal, up to the precision of 32-bit floats."""
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9)


def copied(case: Case) -> bool:
    """Return whether a document occurs more than once."""
    return len({doc for doc, _ in case.rows}) < len(case.rows)


def _separated(case: Case) -> Case:
    """Return a case whose copies are other documents with the same label."""
    rows, judgments = [], {**case.judgments}
    for place, (doc, score) in enumerate(case.rows):
        copies = sum(other == doc for other, _ in case.rows[:place])
        name = doc + "\0" * copies
        rows.append((name, score))
        if doc in judgments:
            judgments[name] = judgments[doc]
    return replace(case, rows=tuple(rows), judgments=judgments)


def _choices(metric: str, conventions: Conventions) -> dict[str, Any]:
    """Return the choices of conventions that matter for one query."""
    found = Definition.of(one_metric(metric, conventions.name), conventions).choices()
    own = {key: each for key, each in found.items() if key not in ("k", *_OF_MEANS)}
    if own["undefined"] == "null":  # the value of one query is the same
        own["undefined"] = "skip"
    return {**own, "decimals": None}


@cache
def _of_presets(metric: str) -> Mapping[str, Choices]:
    """Return the choices of presets by name."""
    return {each.name: _choices(metric, each) for each in _KNOWN}


class Fit:
    """Definitions of a metric, compared with what a function returned."""

    def __init__(
        self, metric: str, asked: Sequence[Asked], base: Conventions, signature: Signature
    ) -> None:
        self.metric: str = metric
        self.asked: Sequence[Asked] = asked
        self.signature: Signature = signature
        self.base: Mapping[str, Any] = _choices(metric, base)
        #: The choices of the conventions that are tried first, by name.
        self.starts: Mapping[str, Choices] = {base.name: self.base, **_of_presets(metric)}
        #: The name of the metric without parameters, as the reference has it.
        self.function: str = one_metric(metric, base.name).function.__name__
        self._known: dict[tuple[int, frozenset[Any]], float | RefusedError | None] = {}

    def expected(self, place: int, choices: Choices) -> float | RefusedError | None:
        """Return the value of a case under a definition, or the error."""
        key = place, frozenset(choices.items())
        if key not in self._known:
            case = self.asked[place].case
            own = {**choices, "k": case.k}
            if own["undefined"] == EMPTY:
                is_empty = not case.rows and not any(label > 0 for label in case.judgments.values())
                own["undefined"] = "one" if is_empty else "zero"
            if own["duplicates"] == SEPARATE:
                case = _separated(case)
            try:
                found = value(self.function, case.rows, case.judgments, own)
            except RefusedError as error:
                self._known[key] = error
            except OverflowError:
                self._known[key] = math.inf
            else:
                self._known[key] = found
        return self._known[key]

    def explains(self, place: int, choices: Choices) -> bool:
        """Return whether a definition gives what the function returned."""
        case, (kind, given, _) = self.asked[place]
        if kind == "none" and self.signature.has("grades") and not (case.rows and case.judgments):
            return True  # many tools leave out queries that are in one of two files only
        expected = self.expected(place, choices)
        if kind == "refused" or isinstance(expected, RefusedError):
            return kind == "refused" and isinstance(expected, RefusedError)
        return kind in ("value", "none") and same(given, expected)

    def explained(self, choices: Choices) -> frozenset[int]:
        """Return the places of the cases that a definition explains."""
        return frozenset(place for place in range(len(self.asked)) if self.explains(place, choices))

    def score(self, choices: Choices) -> float:
        """Return how many cases a definition explains, less for each difference from the base."""
        differences = sum(bool(each != choices[key]) for key, each in self.base.items())
        return len(self.explained(choices)) - differences / 2

    def best(self, *, pairs: bool = True) -> dict[str, Any]:
        """Return the choices that explain most, with the fewest differences from the base.

        Single changes are made as long as they help; then pairs, if `pairs` is true.
        """
        starts: list[Choices] = [self.base, *self.starts.values()]
        start: Choices = max(starts, key=lambda each: len(self.explained(each)))
        found = {**start}
        while (better := self._better(found, pairs=pairs)) is not None:
            found = better
        while (simpler := self._simpler(found)) != found:
            found = simpler
        return found

    def _better(self, choices: Choices, *, pairs: bool) -> dict[str, Any] | None:
        """Return the choices after the single change, or else the pair, that explains most more."""
        explained = self.explained(choices)
        left = [
            place for place, (case, outcome) in enumerate(self.asked)
            if place not in explained
            and (outcome.kind in ("value", "none") or (outcome.kind == "refused" and copied(case)))
        ]  # fmt: skip
        singles = [*self._changes(choices)] if left else []
        two = combinations(singles if pairs else (), 2)
        apart = (pair for pair in two if not {*pair[0]} & {*pair[1]})
        for several in (([each] for each in singles), apart):
            best, most = None, len(explained)
            for parts in several:
                changed = {**choices, **{key: each for part in parts for key, each in part.items()}}
                if any(self.explains(place, changed) for place in left):
                    count = len(self.explained(changed))
                    best, most = (changed, count) if count > most else (best, most)
            if best is not None:
                return best
        return None

    def _changes(self, choices: Choices) -> Iterator[dict[str, Any]]:
        """Yield the single changes that can show in the values of one query."""
        hidden: list[tuple[str, Any]] = [("undefined", "null")]  # as "skip"
        if not self.signature.has("ids", "run"):
            hidden += [("ties", "doc"), ("ties", "doc_ascending")]
        if not self.signature.has("grades", "labels"):
            hidden += [("rel", ABOVE_0), ("rel", 2), ("gain", "positive")]  # the labels are 1
        if self.function == "ndcg":
            hidden.append(("discount", "log"))  # the base of the logarithm cancels out
        for each in changes(choices, _ALTERNATIVES):
            (change,) = each.items()
            if change not in hidden:
                yield each

    def _simpler(self, choices: dict[str, Any]) -> dict[str, Any]:
        """Return the choices with those of the base where this explains the same cases."""
        explained = self.explained(choices)
        for key, each in self.base.items():
            changed = {**choices, key: each}
            if self.explained(changed) >= explained:
                choices = changed
        return choices

    def closest(self) -> tuple[list[str], frozenset[int]]:
        """Return the names of the presets that explain most cases, and these cases."""
        explained = {name: self.explained(each) for name, each in self.starts.items()}
        most = max(explained.values(), key=len)
        return [name for name, cases in explained.items() if cases == most], most

    def alternatives(self, choices: Choices, key: str) -> list[Any]:
        """Return the values of a choice that explain the same cases; none if all values do."""
        explained = self.explained(choices)
        others = [change[key] for change in self._changes(choices) if key in change]
        equal = [each for each in others if self.explained({**choices, key: each}) >= explained]
        return [choices[key], *equal] if len(equal) < len(others) else []
