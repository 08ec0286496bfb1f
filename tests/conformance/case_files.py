"""The files examples/conformance/*.json of the cases, and the pages of the guide about them.

Values of presets are by polars_rank, those of changes of its defaults by the reference in plain
Python, and those of tools from tests/fixtures/tools.json.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

# The cases and choices that the files list.
from polars_rank._pages import FORMAT_VERSION
from polars_rank.conformance.cases import CASES, Case
from polars_rank.conformance.reference import METRICS
from polars_rank.conventions import PRESETS, Conventions

from .case_pages import RECORDED, label, scorecard, sections
from .named import (
    DEFAULT,
    Value,
    change_name,
    changed_value,
    changes_of,
    choices_for,
    is_same,
    preset_values,
    words,
)
from tests.recorded.tools import PEERS, full_name

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "examples" / "conformance"
#: `examples/guide/formats.md` is the promise.
FORMAT = 1
#: What tools decide differently, by the first part of the names of cases.
TOPICS = {
    "plain": "Rankings without ties, copies and gaps, on which only formulas differ.",
    "ties": "The order of documents with equal scores.",
    "unjudged": "Retrieved documents without a label.",
    "copies": "Documents that occur more than once in a ranking.",
    "grades": "Labels that are negative, fractional or large.",
    "short": "Rankings with fewer documents than the cutoff.",
    "empty": "Queries without relevant documents, retrieved documents or judgments.",
    "unretrieved": "Relevant documents that were not retrieved.",
    "cutoff": "The first k documents, and what is below them.",
    "gain": "The gain of a label in DCG and NDCG.",
    "discount": "The discount of a rank in DCG and NDCG.",
    "ideal": "The documents of the ideal ranking in NDCG.",
    "divisor": "The divisor of average precision.",
    "threshold": "The lowest label that is relevant.",
    "float32": "Scores that are equal as 32-bit floats.",
    "ids": "Document ids that break ties: they are compared as text, byte by byte.",
    "scores": "Scores that are negative or zero.",
    "order": "Rows that are not sorted by score.",
}
NAMES = [DEFAULT.name, *(preset.name for preset in PRESETS)]


def groups(case: Case, name: str) -> list[dict[str, Any]]:
    """Return the values of a metric, each with the conventions and the tools that have it."""
    found: list[dict[str, Any]] = []

    def add(own: Value, part: str, who: str, tolerance: float = 1e-12) -> None:
        for group in found:
            if is_same(group["value"], own, tolerance):
                group[part].append(who)
                return
        found.append({"value": own, "conventions": [], "tools": [], part: [who]})

    for preset in NAMES:
        values = preset_values(preset)
        if (case.name, name) in values:
            add(values[case.name, name], "conventions", preset)
    choices = choices_for(name)
    for change in changes_of(case.topic, choices):
        add(changed_value(case, choices, change), "conventions", change_name(change))
    for tool, peer in PEERS.items():
        values = RECORDED["values"].get(tool, {}).get(case.name, {})
        if name in values:
            add(values[name], "tools", label(tool), peer.tolerance)
    return found


def separated(case: Case, name: str) -> list[str]:
    """Return the changes of the topic that give a metric another value than the default."""
    choices = choices_for(name)
    default = changed_value(case, choices, {})
    return [
        change_name(change)
        for change in changes_of(case.topic, choices)
        if not is_same(default, changed_value(case, choices, change))
    ]


def shown(case: Case) -> dict[str, list[dict[str, Any]]]:
    """Return the metrics on which conventions differ, and one on which they agree."""
    found = {name: groups(case, name) for name in (full_name(metric, case) for metric in METRICS)}
    counts = {name: sum(bool(of["conventions"]) for of in each) for name, each in found.items()}
    agreed = [name for name, count in counts.items() if count == 1][:1]
    return {name: each for name, each in found.items() if counts[name] > 1 or name in agreed}


def topic_file(topic: str) -> dict[str, Any]:
    """Return the content of the file of a topic."""
    changes = [each for metric in METRICS for each in changes_of(topic, choices_for(metric))]
    return {
        FORMAT_VERSION: FORMAT,
        "topic": topic,
        "text": TOPICS[topic],
        "changes": {
            change_name(change): "; ".join(
                f"{key}: {words(key, each)}" for key, each in change.items()
            )
            for change in changes
        },
        "cases": [_case(case) for case in CASES if case.topic == topic],
    }


def _case(case: Case) -> dict[str, Any]:
    metrics = shown(case)
    return {
        "name": case.name,
        "text": case.text,
        "k": case.k,
        "ranking": [{"doc": doc, "score": _number(score)} for doc, score in case.rows],
        "judgments": {doc: _number(label) for doc, label in case.judgments.items()},
        "separates": sorted({each for name in metrics for each in separated(case, name)}),
        "metrics": {
            name: [
                {key: _number(part) for key, part in group.items() if key != "tools" or part}
                for group in each
            ]
            for name, each in metrics.items()
        },
    }


def _number(value: Value) -> Value:
    """Return a number with 15 digits, and as an integer if it is one."""
    if not isinstance(value, float):
        return value
    short = float(f"{value:.15g}")
    return int(short) if short.is_integer() and str(short) != "-0.0" else short


def conventions_file() -> dict[str, Any]:
    """Return the choices of each preset for each metric that differ from the defaults."""
    found: dict[str, Any] = {}
    defaults = {metric: _with_cutoff(metric, DEFAULT) for metric in METRICS}
    for preset in (DEFAULT, *PRESETS):
        known = {name.partition("@")[0] for _, name in preset_values(preset.name)}
        own = {
            metric: _with_cutoff(metric, preset).items() for metric in METRICS if metric in known
        }
        found[preset.name] = {
            metric: dict(
                each for each in choices if preset is DEFAULT or _differs(each, defaults[metric])
            )
            for metric, choices in own.items()
        }
    return {FORMAT_VERSION: FORMAT, "conventions": found}


def _differs(choice: tuple[str, Any], defaults: dict[str, Any]) -> bool:
    return defaults.get(choice[0]) != choice[1]


def _with_cutoff(metric: str, preset: Conventions) -> dict[str, Any]:
    """Return the choices of a preset for a metric with a cutoff, without the cutoff."""
    choices = choices_for(metric if metric == "r_precision" else f"{metric}@1", preset.name)
    return {choice: each for choice, each in choices.items() if choice != "k"}


def text_of(value: Any, indent: str = "") -> str:
    """Return JSON with one line for each list or object that fits into 100 characters."""
    line = json.dumps(value, ensure_ascii=False)
    if len(indent) + len(line) <= 98 or not isinstance(value, (dict, list)):
        return line
    deeper = indent + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {text_of(each, deeper)}" for key, each in value.items()]
    elif all(isinstance(each, str) for each in value):
        parts = []
        for text in (json.dumps(each, ensure_ascii=False) for each in value):
            if parts and len(parts[-1]) + len(text) <= 90:
                parts[-1] += f", {text}"
            else:
                parts.append(text)
    else:
        parts = [text_of(each, deeper) for each in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{deeper}" + f",\n{deeper}".join(parts) + f"\n{indent}{last}"


@cache
def topics() -> dict[str, Any]:
    """Return the contents of the files of all topics."""
    return {topic: topic_file(topic) for topic in TOPICS}


def files() -> dict[Path, str]:
    """Return the texts of all files."""
    data = {"conventions": conventions_file(), **topics()}
    return {FOLDER / f"{name}.json": text_of(each) + "\n" for name, each in data.items()}


def pages() -> dict[str, dict[str, str]]:
    """Return the generated parts of pages of the guide."""
    return {"cases": {"cases": sections(topics())}, "scorecard": scorecard()}
