"""Values of the cases of polars_rank.conformance under named conventions.

A convention is a preset, whose values polars_rank computes, or a change of choices, whose values the
reference in plain Python computes.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import polars as pl
import polars_rank as pr

# The cases and choices that the pages list.
from polars_rank.conformance.cases import CASES, Case
from polars_rank.definitions import ALTERNATIVES, TEXTS, Definition, value_text
from polars_rank.conformance.reference import METRICS, RefusedError, value
from polars_rank.conventions import PRESETS, named
from polars_rank.metrics.compared import COMPARED
from polars_rank.metrics.names import read

from tests.recorded.tools import full_name

#: A value of a metric: a number, None if the query does not count, or "error".
Value = float | str | None
#: Choices that differ from those of a convention.
Change = Mapping[str, Any]

DEFAULT = pr.conventions.POLARS_RANK

#: Choices of what the reference is given.
INPUTS: dict[str, dict[str, str]] = {
    "order": {"rows": "rows in their order; scores are ignored", "ascending": "lowest score first"},
    "scores": {"positive": "documents with a score of 0 or less are not relevant"},
    "judgments": {"retrieved": "of retrieved documents only; others are not known"},
    "labels": {"truncated": "truncated to integers"},
    "duplicates": {"separate": "each copy is a document of its own"},
}
#: The choices that the cases of each topic are about, the most important one first.
CHOICES: dict[str, tuple[str, ...]] = {
    "plain": ("decimals", "ideal", "norm"),
    "ties": ("ties",),
    "unjudged": ("unjudged",),
    "copies": ("duplicates",),
    "grades": ("gain_from", "labels", "gain"),
    "short": ("depth", "norm"),
    "empty": ("undefined", "query_set"),
    "unretrieved": ("judgments", "ideal", "norm"),
    "cutoff": ("depth", "ideal", "norm"),
    "gain": ("gain",),
    "discount": ("discount",),
    "ideal": ("ideal",),
    "divisor": ("norm",),
    "threshold": ("rel", "labels"),
    "float32": ("float32_scores",),
    "ids": ("ties",),
    "scores": ("scores", "ties"),
    "order": ("order",),
}
#: Two changes at once, as in functions written by hand.
PAIRS: dict[str, tuple[Change, ...]] = {
    "copies": ({"duplicates": "credited", "ideal": "retrieved"},),
    "unretrieved": (
        {"ideal": "retrieved", "undefined": "one"},
        {"ideal": "retrieved", "undefined": "null"},
    ),
    "cutoff": ({"ideal": "cut", "undefined": "one"}, {"ideal": "cut", "undefined": "null"}),
}
_VALUES: dict[str, tuple[Any, ...]] = {
    **{choice: tuple(values) for choice, values in INPUTS.items()},
    **ALTERNATIVES,
    "duplicates": (*ALTERNATIVES["duplicates"], *INPUTS["duplicates"]),
    "query_set": ("all", "judged", "retrieved", "both"),
    "decimals": (2, 4),
}


@cache
def choices_for(name: str, preset: str = DEFAULT.name) -> dict[str, Any]:
    """Return the choices of a preset for a metric, with the name of its function."""
    metric = read(name, preset)
    definition = Definition.of(metric, named(preset) if preset != DEFAULT.name else DEFAULT)
    return {"metric": metric.function.__name__, **definition.choices()}


def changes_of(topic: str, choices: Change) -> Iterator[dict[str, Any]]:
    """Yield the changes that a topic is about, of those that choices of a metric have."""
    own = {"order", "scores", "judgments", "labels", "decimals"} | choices.keys()
    for choice in CHOICES[topic]:
        for each in _VALUES[choice]:
            # The depth of NDCG is None where that of precision is k.
            is_same = each == choices.get(choice) or (choice, each) == ("depth", "k")
            if choice in own and not is_same:
                yield {choice: each}
    yield from (dict(pair) for pair in PAIRS.get(topic, ()) if pair.keys() <= own)


def changed_value(case: Case, choices: Change, change: Change) -> Value:
    """Return the value of a case by the reference, under choices and a change of them."""
    rows, judgments = [*case.rows], dict(case.judgments)
    if change.get("duplicates") == "separate":
        names = [f"{doc}#{at}" for at, (doc, _) in enumerate(rows)]
        copies = {name: doc for name, (doc, _) in zip(names, rows) if doc in judgments}
        missing = judgments.keys() - dict(rows).keys()
        labels = {name: judgments[doc] for name, doc in copies.items()}
        judgments = {**labels, **{doc: judgments[doc] for doc in missing}}
        rows = [(name, score) for name, (_, score) in zip(names, rows)]
    if change.get("judgments") == "retrieved":
        judgments = {doc: judgments.get(doc, 0.0) for doc, _ in rows}
    if change.get("labels") == "truncated":
        judgments = {doc: float(int(label)) for doc, label in judgments.items()}
    if change.get("scores") == "positive":
        low = {doc for doc, score in rows if score <= 0}
        judgments = {doc: 0.0 if doc in low else label for doc, label in judgments.items()}
    if change.get("order") == "rows":
        rows = [(doc, -float(at)) for at, (doc, _) in enumerate(rows)]
    if change.get("order") == "ascending":
        rows = [(doc, -score) for doc, score in rows]
    both = {**choices, **change}
    needed = {"judged": [judgments], "retrieved": [rows], "both": [judgments, rows]}
    if not all(needed.get(both["query_set"], [])):
        return None
    try:
        return value(both["metric"], rows, judgments, both)
    except RefusedError:
        return "error"


def frame(*cases: Case) -> pl.DataFrame:
    """Return cases as a log, with a row without a document for a case without rows."""
    rows: list[tuple[str, str | None, float | None, float | None]] = []
    for case in cases:
        missing = case.judgments.keys() - dict(case.rows).keys()
        rows += [(case.name, doc, score, case.judgments.get(doc)) for doc, score in case.rows]
        rows += [(case.name, doc, None, case.judgments[doc]) for doc in sorted(missing)]
        rows += [(case.name, None, None, None)] * (not case.rows and not case.judgments)
    schema = {"query": pl.String, "doc": pl.String, "score": pl.Float64, "label": pl.Float64}
    return pl.DataFrame(rows, schema, orient="row")


@cache
def preset_values(preset: str) -> dict[tuple[str, str], Value]:
    """Return the values by polars_rank with a preset, by case and metric.

    Metrics are those that tests compare with the tool, and all without a preset.
    """
    conventions = {each.name: each for each in (DEFAULT, *PRESETS)}[preset]
    compared = COMPARED.get(preset, ())
    metrics = [
        name for name in METRICS
        if preset == DEFAULT.name or read(name, preset).function.__name__ in compared
    ]  # fmt: skip
    copies = [case for case in CASES if len(dict(case.rows)) < len(case.rows)]
    cutoffs = dict.fromkeys(case.k for case in CASES)
    logs = [
        *([case] for case in copies),
        *([case for case in CASES if case.k == k and case not in copies] for k in cutoffs),
    ]
    found: dict[tuple[str, str], Value] = {}
    for cases in logs:
        names = [full_name(metric, cases[0]) for metric in metrics]
        found |= {(case.name, name): None for case in cases for name in names}
        if not names:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                table = pr.per_query(frame(*cases), names, conventions=conventions)
        except pr.errors.DataError:
            found |= {(case.name, name): "error" for case in cases for name in names}
            continue
        found |= {(row["query"], name): row[name] for row in table.to_dicts() for name in names}
    return found


def is_same(one: Value, other: Value, tolerance: float = 1e-12) -> bool:
    """Return whether two values are equal, numbers within a tolerance."""
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    return one == other


def change_name(change: Change) -> str:
    """Return the name of a change, such as "ties=input"."""
    return ", ".join(f"{choice}={each}" for choice, each in change.items())


def words(choice: str, each: Any) -> str:
    """Return the value of a choice in words."""
    if choice == "query_set":
        return "all queries" if each == "all" else f"queries {TEXTS[choice][each]}"
    if choice == "gain_from":
        return "of all labels" if each is None else f"of labels of {each} or more"
    if choice == "float32_scores":
        return "compared as 32-bit floats" if each else "compared as 64-bit floats"
    if choice == "decimals":
        return f"rounded to {each} decimals"
    if choice == "depth":
        retrieved = "as many documents as are retrieved, at most k"
        return retrieved if each == "retrieved" else "k documents, even if fewer are retrieved"
    text = {**TEXTS.get(choice, {}), **INPUTS.get(choice, {})}.get(each)
    return text or value_text(choice, each)
