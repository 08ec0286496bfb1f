"""Choices that a definition can differ in by one change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Values of choices that tools are known to have.
ALTERNATIVES: dict[str, tuple[Any, ...]] = {
    "gain": ("linear", "exp2", "binary"),
    "gain_from": (None, 0, 1),
    "discount": ("log2", "jarvelin", "log", "reciprocal", "log2(rank + 2)"),
    "ideal": ("judged", "retrieved", "cut", "all", "full"),
    "norm": ("R", "min", "retrieved", "hits", "k"),
    "depth": ("k", "retrieved"),
    "rel": (1, 2),
    "ties": ("input", "reversed", "doc", "doc_ascending", "best", "worst", "expected"),
    "undefined": ("zero", "one", "null", "skip"),
    "unjudged": ("nonrelevant", "removed"),
    "duplicates": ("error", "max", "first", "credited", "uncredited"),
    "float32_scores": (False, True),
    "decimals": (None, 2, 3, 4, 5, 6),
}


def changes(
    choices: Mapping[str, Any], alternatives: Mapping[str, Sequence[Any]] = ALTERNATIVES
) -> Iterator[dict[str, Any]]:
    """Yield each single change of choices, as the choice and its new value."""
    for choice, values in alternatives.items():
        if choice in choices:
            yield from ({choice: each} for each in values if each != choices[choice])
