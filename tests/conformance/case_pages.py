"""The pages of the guide about cases on which tools differ, and about the tools."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

# The cases that the pages list.
from polars_rank.conformance.cases import CASES, Case

from .named import (
    CHOICES,
    DEFAULT,
    Change,
    Value,
    changed_value,
    changes_of,
    choices_for,
    is_same,
    words,
)
from tests import recorded
from tests.recorded.tools import PEERS, full_name

RECORDED = recorded.read("tools")
TOOLS = {name: tool for name, tool in PEERS.items() if name in RECORDED["versions"]}

#: What tools without document ids know.
LISTS = {"judgments": "retrieved", "duplicates": "separate"}
#: Inputs that are used as they are.
AS_GIVEN = {
    "order": "highest score first",
    "scores": "any number",
    "judgments": "known",
    "labels": "used as they are",
}
#: The choices that the scorecard shows, by topic. Only metrics that the first one affects count.
SHOWN: dict[str, tuple[str, ...]] = {
    **{
        topic: choices[:1]
        for topic, choices in CHOICES.items()
        if topic not in ("plain", "cutoff", "ids")
    },
    "grades": ("gain_from", "labels"),
    "empty": ("undefined", "query_set"),
}
OTHER = "another convention"
#: Metrics in the order in which the page of cases prefers them.
PREFERRED = ("ndcg", "average_precision", "precision", "recall", "reciprocal_rank", "dcg")


def sections(topics: Mapping[str, Any]) -> str:
    """Return the sections of cases."""
    parts = []
    for topic, data in topics.items():
        parts.append(f"## {topic.capitalize()}\n\n{data['text']}\n")
        parts += [_section(case, data["changes"]) for case in data["cases"]]
    return "\n".join(parts)


def _section(case: Mapping[str, Any], changes: Mapping[str, str]) -> str:
    ranking = ", ".join(f"{row['doc']} {row['score']:.12g}" for row in case["ranking"])
    labels = ", ".join(f"{doc} {label:g}" for doc, label in case["judgments"].items())
    cutoff = "No cutoff" if case["k"] is None else f"Cutoff: {case['k']}"
    rows = [
        f"| {'' if at else f'`{name}`'} | {shown(group['value'])} | {names} | {_tools(group)} |\n"
        for name in _clearest(case, changes)
        for at, (group, names) in enumerate(_rows(case["metrics"][name], changes))
    ]
    return (
        f"### {case['name']}\n\n{textwrap.fill(case['text'], 110)}\n\n"
        f"Scores: {ranking or 'none'}. Labels: {labels or 'none'}. {cutoff}.\n\n"
        f"| metric | value | conventions | tools |\n| --- | --- | --- | --- |\n{''.join(rows)}"
    )


def _rows(groups: Any, changes: Mapping[str, str]) -> Iterator[tuple[Any, str]]:
    """Yield the values that the defaults, a change or a tool has, with the names of the changes."""
    for group in groups:
        names = [each for each in group["conventions"] if each in changes or each == DEFAULT.name]
        if names or "tools" in group:
            yield group, ", ".join(each if each == DEFAULT.name else f"`{each}`" for each in names)


def _clearest(case: Mapping[str, Any], changes: Mapping[str, str]) -> list[str]:
    """Return the one or two metrics with most values under the defaults and changes."""
    counts = {
        name: sum(bool(names) for _, names in _rows(groups, changes))
        for name, groups in case["metrics"].items()
        if name.partition("@")[0] in PREFERRED
    }
    first, *others = sorted(
        counts, key=lambda name: (-counts[name], PREFERRED.index(name.partition("@")[0]))
    )
    return [first, *(name for name in others[:1] if counts[name] > 1)]


def _tools(group: Mapping[str, Any]) -> str:
    labels = group.get("tools", ())
    return ", ".join(name for name in TOOLS if label(name) in labels)


def label(tool: str) -> str:
    """Return the name of a tool and the version that was run."""
    return f"{tool.removesuffix(' 9').removesuffix(' 10')} {RECORDED['versions'][tool]}"


def shown(value: Value) -> str:
    """Return a value with six decimals."""
    if value is None:
        return "does not count"
    return value if isinstance(value, str) else f"{value:.6f}".rstrip("0").rstrip(".")


class Row(NamedTuple):
    """A value of a tool, and the choices that should have it, apart from what it is given."""

    tolerance: float
    case: Case
    value: Value
    choices: dict[str, Any]
    given: dict[str, str]

    def expected(self, change: Change) -> Value:
        """Return the value under the conventions and a change of them."""
        return changed_value(self.case, self.choices, {**self.given, **change})

    def follows(self, change: Change) -> bool:
        """Return whether the tool has the value under the conventions and a change of them."""
        return is_same(self.value, self.expected(change), self.tolerance)


@cache
def rows_of(name: str, metric: str) -> list[Row]:
    """Return the values of a metric of a tool."""
    tool, found = TOOLS[name], []
    for case in CASES:
        values, own = RECORDED["values"][name].get(case.name, {}), full_name(metric, case)
        if own in values:
            base = full_name(tool.base.get(metric, metric), case)
            choices = choices_for(base, tool.preset or DEFAULT.name)
            given = LISTS if tool.takes == "lists" else {}
            found.append(Row(tool.tolerance, case, values[own], choices, given))
    return found


def followed(name: str, metric: str, topic: str) -> str | None:
    """Return the convention of a metric of a tool in words, or None if it has none."""
    rows = [each for each in rows_of(name, metric) if each.case.topic == topic]
    rows = [each for each in rows if each.value != "error"]
    known = {**AS_GIVEN, **rows[0].choices, **rows[0].given} if rows else {}
    if SHOWN[topic][0] not in known:
        return None
    # Queries without judgments or retrieved documents cannot be lists.
    choices = [each for each in SHOWN[topic] if not (rows[0].given and each == "query_set")]
    for change in ({}, *changes_of(topic, rows[0].choices)):
        if all(row.follows(change) for row in rows):
            parts = {choice: {**known, **change}[choice] for choice in choices}
            return "; ".join(
                each if each == AS_GIVEN.get(choice, ...) else words(choice, each)
                for choice, each in parts.items()
            )
    return OTHER


def scorecard() -> dict[str, str]:
    """Return the parts of the page of tools."""
    lists, ranks, dictionaries = (
        _listed([name for name, tool in TOOLS.items() if tool.takes == kind])
        for kind in ("lists", "ranks", "dictionaries")
    )
    bases = _listed([
        f"{' and '.join(f'`{base}`' for base in tool.base.values())} for {name}"
        for name, tool in TOOLS.items() if not tool.preset
    ])  # fmt: skip
    tools = (
        f"These versions were run: {_listed([*map(label, TOOLS)])}.\n\n"
        f"- {lists} read scores and labels without document ids, so that the caller decides about "
        "unjudged documents and ids.\n"
        f"- {ranks} read documents that the caller has ranked. LlamaIndex and Haystack have no "
        "cutoff: they are given the first k documents.\n"
        f"- {dictionaries} read dictionaries, in which a document occurs once.\n"
    )
    differences = (
        "Where a tool has another value than its preset, apart from inputs that one of them refuses. "
        "Tools without document ids are compared on the documents that they are given, and tools "
        f"without a preset with {bases}.\n\n"
        "| case | metric | tool | value | value of the preset |\n| --- | --- | --- | --- | --- |\n"
    )
    conventions = [line for topic in SHOWN for line in _conventions(topic)]
    return {
        "tools": _filled(tools),
        "conventions": "\n".join(
            ["| topic | convention | tools |\n| --- | --- | --- |", *conventions]
        ),
        "refused": "\n".join(["| tool | cases |\n| --- | --- |", *_refused()]),
        "differences": _filled(differences) + "\n".join(_differences()),
    }


def _filled(text: str) -> str:
    """Return text with lines of up to 110 characters, except for headings and tables."""
    parts = re.split(r"(\n\n|\n(?=- ))", text)
    return "".join(
        part if part.lstrip().startswith(("#", "|")) or not part.strip() else textwrap.fill(
            " ".join(part.split()), 110, break_on_hyphens=False, break_long_words=False,
            subsequent_indent="  " * part.startswith("- "),
        )
        for part in parts
    )  # fmt: skip


def _listed(names: list[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _conventions(topic: str) -> Iterator[str]:
    """Yield a row for each convention that tools follow in a topic."""
    tools: dict[str, list[str]] = {}
    for name, tool in TOOLS.items():
        texts = {metric: followed(name, metric, topic) for metric in tool.metrics}
        every = [metric for metric, text in texts.items() if text is not None]
        for each in dict.fromkeys(texts[metric] for metric in every):
            own = [metric for metric in every if texts[metric] == each]
            tools.setdefault(each, []).append(name + _only(own, every))
    ordered = sorted(tools, key=lambda text: (text == OTHER, -len(tools[text])))
    for at, text in enumerate(ordered):
        yield f"| {'' if at else topic} | {text} | {', '.join(tools[text])} |"


def _only(metrics: list[str], every: list[str]) -> str:
    """Return which of the metrics are meant, in parentheses; nothing if all are."""
    others = [each for each in every if each not in metrics]
    if not others:
        return ""
    if len(others) < len(metrics):
        return f" (except {', '.join(others)})"
    return f" ({', '.join(metrics)})"


def _refused() -> Iterator[str]:
    """Yield a row for each tool that refuses cases; topics are those of which it refuses all."""
    sizes = Counter(case.topic for case in CASES)
    for name, tool in TOOLS.items():
        metrics: dict[str, list[str]] = {}
        for metric, row in _values(name):
            if row.value == "error":
                metrics.setdefault(row.case.name, []).append(metric)
        cases: dict[str, list[str]] = {}
        for case, own in metrics.items():
            cases.setdefault(_only(own, [*tool.metrics]), []).append(case)
        parts = []
        for only, own in cases.items():
            counts = Counter(case.partition("/")[0] for case in own)
            whole = [topic for topic, count in counts.items() if count == sizes[topic]]
            few = [case for case in own if case.partition("/")[0] not in whole]
            parts.append(", ".join([*(f"all of {topic}" for topic in whole), *few]) + only)
        if parts:
            yield f"| {name} | {'; '.join(parts)} |"


def _values(name: str) -> Iterator[tuple[str, Row]]:
    """Yield the values of a tool, by metric."""
    return ((metric, row) for metric in TOOLS[name].metrics for row in rows_of(name, metric))


def _differences() -> Iterator[str]:
    """Yield a row for each number of a tool that its preset does not have."""
    for name in TOOLS:
        found: dict[tuple[str, str, str], list[str]] = {}
        for metric, row in _values(name):
            preset = row.expected({})
            if "error" not in (row.value, preset) and not row.follows({}):
                values = row.case.name, shown(row.value), shown(preset)
                found.setdefault(values, []).append(metric)
        for (case, theirs, ours), metrics in found.items():
            yield f"| {case} | {', '.join(metrics)} | {name} | {theirs} | {ours} |"
