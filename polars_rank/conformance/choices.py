"""Choices of a metric's definition: from conventions, their alternatives, and in words."""

from __future__ import annotations

import math
from inspect import Parameter
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.metrics.metric import parameters_of, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polars_rank.conventions import Conventions
    from polars_rank.metrics.metric import Metric

_TEXT_IDS = pl.String()

#: Values of choices in words. Other values are shown as written. Choices that only the reference
#: in plain Python, or only functions of users have are at the end of their list.
TEXTS: dict[str, dict[Any, str]] = {
    "ties": {
        None: "by document id, descending; without ids, lowest label first",
        "doc": "by document id, descending",
        "doc_ascending": "by document id, ascending",
        "best": "highest label first",
        "worst": "lowest label first",
        "input": "in the order of the rows",
        "expected": "exact mean over all orders",
        "reversed": "in the reverse of the order of the rows",
    },
    "query_set": {
        "all": "all",
        "judged": "with at least one judged document, retrieved or not",
        "retrieved": "with at least one retrieved document",
        "both": "with at least one judged and at least one retrieved document",
    },
    "unjudged": {
        "nonrelevant": "not relevant, without gain; they keep their rank",
        "removed": "removed before documents are ranked",
    },
    "duplicates": {
        "error": "an error",
        "max": "the row with the highest score is kept",
        "first": "the first row is kept",
        "credited": "each copy counts again",
        "uncredited": "copies keep their rank and are not relevant",
        "separate": "each copy counts as another document with the same label",
    },
    "undefined": {
        "skip": "excluded from the mean",
        "null": "makes the mean null",
        "zero": "counts as 0",
        "one": "counts as 1",
        "empty": "counts as 1 if nothing was retrieved either, otherwise as 0",
    },
    "aggregate": {
        "mean": "mean over queries",
        "sum": "sum over queries",
        "geometric": "geometric mean over queries",
    },
    "gain": {
        "linear": "the label",
        "exp2": "2^label - 1",
        "binary": "1 for labels of 1 or more, otherwise 0",
        "positive": "1 for labels above 0, otherwise 0",
    },
    "discount": {
        "log2": "1 / log2(rank + 1)",
        "log": "1 / ln(rank + 1)",
        "jarvelin": "1 / log2(rank), and 1 at rank 1",
        "reciprocal": "1 / rank",
        "log2(rank + 2)": "1 / log2(rank + 2)",
    },
    "ideal": {
        "judged": "of all judged documents, retrieved or not",
        "all": "of all judged documents, retrieved or not, without the cutoff",
        "retrieved": "of the retrieved documents only",
        "full": "k documents with gain 1, even if fewer are judged",
        "cut": "of the first k retrieved documents only",
    },
    "norm": {
        "R": "number of relevant documents",
        "min": "the smaller of k and the number of relevant documents",
        "retrieved": "the smallest of k and the numbers of relevant and retrieved documents",
        "hits": "number of relevant documents among the first k",
        "full": "the value of documents that are each relevant to every subtopic",
        "none": "none",
        "ndeval": (
            "the value of documents that are each relevant to every subtopic; none at cutoff 1"
        ),
        "k": "k",
    },
    "depth": {
        None: "k",
        "k": "k",
        "retrieved": "the smaller of k and the number of retrieved documents",
    },
    "float32_scores": {False: "compared as 64-bit floats", True: "compared as 32-bit floats"},
    "text_ids": {False: "compared by their type", True: "compared as text"},
    "gain_from": {None: "any"},
    "decimals": {None: "not rounded"},
    "rounding": {
        "up": "number of hits is recall x R + 0.9, truncated",
        "nearest": "number of hits is recall x R, rounded",
    },
}

#: Choices in words, where their names are not.
TITLES = {
    "ties": "tied scores",
    "rel": "relevant",
    "k": "cutoff",
    "unjudged": "unjudged documents",
    "duplicates": "duplicate documents",
    "undefined": "undefined values",
    "query_set": "queries",
    "float32_scores": "scores",
    "text_ids": "document ids",
    "decimals": "values of queries",
    "gain_from": "lowest label with a gain",
    "irrelevant": "without relevant documents",
    "short": "rankings shorter than k",
    "norm": "divisor",
    "depth": "divisor",
    "ideal": "ideal ranking",
    "rounding": "recall level",
    "subtopics": "column of subtopics",
    "grades": "column of grades of subtopics",
    "weights": "column of weights of subtopics",
}


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


def choices_of(metric: Metric, conventions: Conventions, ids: pl.DataType | None) -> dict[str, Any]:
    """Return the choices of conventions for a metric, in the order in which they are switched.

    `ids` is the type of document ids, if there are any.
    """
    accepted = parameters_of(metric)
    conventions = conventions.of(metric)
    free = {key: value for key, value in accepted.items() if key not in metric.arguments}
    own = f"{metric.function.__name__}."
    parameters = {
        **{key: value for key, value in conventions.parameters.items() if key in free},
        **{
            key.removeprefix(own): value
            for key, value in conventions.parameters.items()
            if key.startswith(own)
        },
    }
    return {
        "float32_scores": conventions.float32_scores,
        "ties": conventions.ties or ("worst" if ids is None else "doc"),
        **({} if ids in (None, pl.String) else {"text_ids": conventions.text_ids}),
        "unjudged": conventions.unjudged,
        "duplicates": conventions.duplicates,
        **({"rel": conventions.rel} if "rel" in free else {}),
        **{
            key: metric.but(**{key: parameters.get(key, value)}).arguments[key]
            for key, value in free.items()
            if key not in ("k", "rel") and value is not Parameter.empty
        },
        **({"gain_from": conventions.gain_from} if "gain" in accepted else {}),
        "undefined": conventions.counts_as(metric),
        "query_set": conventions.query_set,
        **({"counts": conventions.counts} if metric.aggregate == "sum" else {}),
    }


def reference_choices(
    metric: Metric, conventions: Conventions, ids: pl.DataType | None = _TEXT_IDS
) -> dict[str, Any]:
    """Return the choices of conventions, as `reference.value` takes them."""
    choices = {**choices_of(metric, conventions.of(metric), ids), **metric.arguments}
    for key in choices.keys() & {"gain", "discount"}:
        name = value_text(key, choices[key])
        if name in TEXTS[key]:  # other functions remain
            choices[key] = name
    return choices


def title(choice: str) -> str:
    """Return the name of a choice in words."""
    return TITLES.get(choice, choice)


def words(choice: str, value: Any) -> str:
    """Return the value of a choice in words."""
    if choice == "rel":
        return f"label {threshold_text(value)}"
    if choice == "decimals" and value is not None:
        return f"rounded to {value} decimals"
    return TEXTS.get(choice, {}).get(value) or value_text(choice, value)


def change_text(choice: str, value: Any) -> str:
    """Return a choice and its value in words."""
    return f"{title(choice)}: {words(choice, value)}"


def value_text(choice: str, value: Any) -> str:
    """Return the value of a choice as text: a name such as "exp2", or a threshold in words."""
    if choice == "rel":
        return threshold_text(value).removeprefix("of ")
    return written(value).strip("'")


def threshold_text(lowest: float) -> str:
    """Return a threshold in words: "of 1 or more", or "above 0.5" for the next float after 0.5."""
    below = math.nextafter(lowest, -math.inf)
    if len(repr(below)) < len(repr(lowest)):
        return f"above {int(below) if below.is_integer() else below}"
    return f"of {lowest} or more"
