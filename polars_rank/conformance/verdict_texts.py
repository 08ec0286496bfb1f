"""What a referee finds about a function, as text, Markdown, HTML, JUnit and a badge."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap
from typing import Any, NamedTuple

import polars as pl

from polars_rank import _texts
from polars_rank._formats import FORMAT_VERSION, JUNIT
from polars_rank.conformance.choices import title
from polars_rank.errors import number_of

_WIDTH = 80
#: The number of presets that are named.
_NAMED = 3
#: Kinds of findings, from what hurts most, in words.
KINDS = {
    "range": "out of range",
    "crash": "crash",
    "hang": "hang",
    "number": "not a number",
    "order": "order",
    "mixture": "mixture",
    "refusal": "refusal",
    "convention": "convention",
}


class Finding(NamedTuple):
    """A defect, or a convention that differs from the expected one."""

    #: "defect" or "convention".
    severity: str
    kind: str
    text: str
    #: An example, and the number of cases.
    case: str | None
    cases: int
    given: float | None = None
    expected: float | None = None


#: Types of the columns of findings.
SCHEMA: dict[str, type[pl.DataType]] = {
    **dict.fromkeys(("severity", "kind", "text", "case"), pl.String),
    "cases": pl.UInt32, "given": pl.Float64, "expected": pl.Float64,
}  # fmt: skip


@dataclass(frozen=True)
class Referee:
    """The definition of a metric function, and what is wrong with it.

    Attributes
    ----------
    name
        Name of the function, or the command.
    metric
        Metric that it computes.
    signature
        How it was called.
    definition
        Choices that the cases show, in words.
    presets
        Names of the presets that explain most cases.
    differs
        Number of cases in which the function differs from these presets.
    findings
        One row per finding, what hurts most first.
    cases
        One row per case: its arguments, what the function returned, and the value of the
        definition.
    left_out
        Number of cases that the signature cannot express, or that repeat another one.
    """

    name: str
    metric: str
    signature: str
    definition: Mapping[str, str]
    presets: Sequence[str]
    differs: int
    findings: pl.DataFrame
    cases: pl.DataFrame
    left_out: int

    @property
    def passed(self) -> bool:
        """Whether there is no defect."""
        return self.findings.filter(severity="defect").is_empty()

    def __str__(self) -> str:
        return plain(self)

    def _repr_html_(self) -> str:
        return html(self)


def headline(result: Referee) -> str:
    """Return how many defects and conventions there are."""
    counts = [
        number_of(result.findings.filter(severity=each).height, each)
        for each in ("defect", "convention")
    ]
    return f"{_texts.visible(result.name)}: {', '.join(counts)}"


def definition(result: Referee) -> str:
    """Return which definition a function has."""
    named = result.presets[:_NAMED]
    others = len(result.presets) - len(named)
    names = " and ".join([", ".join(named), *([number_of(others, "other")] if others else [])])
    count = number_of(result.cases.height, "case")
    if not result.cases["explained"].any():
        return f"{result.metric}: no definition explains any of {count}"
    if not result.differs:
        return f"{result.metric} as {names} in all {count}"
    # No definition explains all values, or presets explain few.
    is_close = result.differs <= result.cases.height / 2
    is_close &= result.cases.filter(outcome="value", explained=False).is_empty()
    return (
        f"{result.metric} {'as' if is_close else 'closest to'} {names}; differs in "
        f"{result.differs} of {count}"
    )


def details(result: Referee) -> Iterator[str]:
    """Yield the choices that the cases show, and how the function was called."""
    yield from (f"{title(key)}: {text}" for key, text in result.definition.items())
    left = f"; {number_of(result.left_out, 'case')} left out" if result.left_out else ""
    yield f"called with: {result.signature}{left}"


def plain(result: Referee) -> str:
    """Return the whole text, what hurts most first."""
    lines = [headline(result), *wrap(definition(result), _WIDTH)]
    for each in details(result):
        lines += wrap(each, _WIDTH, initial_indent="- ", subsequent_indent="  ")
    for row in result.findings.iter_rows(named=True):
        lines.append("")
        text = f"{row['severity'].upper()}  {sentence(row)}"
        lines += wrap(text, _WIDTH, subsequent_indent="  ")
        if row["case"]:
            arguments = result.cases.filter(case=row["case"])["arguments"].item()
            for each in (_example(row), _texts.visible(arguments)):
                lines += wrap(each, _WIDTH, initial_indent="  ", subsequent_indent="  ")
    return "\n".join(lines)


def sentence(row: dict[str, Any]) -> str:
    """Return a finding in words."""
    text = _texts.visible(row["text"])
    return text if row["kind"] == "convention" else f"{KINDS[row['kind']]}: {text}"


def _example(row: dict[str, Any]) -> str:
    """Return the example of a finding."""
    other = "and" if row["kind"] == "order" else "instead of"
    values = [
        f"{name} {row[key]:.6g}"
        for key, name in (("given", "returns"), ("expected", other))
        if row[key] is not None
    ]
    others = f" (and {row['cases'] - 1} more)" if row["cases"] > 1 else ""
    return f"{row['case']}{others}" + (f": {' '.join(values)}" if values else "")


def markdown(result: Referee) -> str:
    """Return a comment for a pull request."""
    lines = [f"### {_texts.markdown(headline(result))}", "", _texts.markdown(definition(result))]
    lines += ["", *(f"- {_texts.markdown(each)}" for each in details(result))]
    if result.findings.height:
        names = ("", "finding", "case", "cases", "returned", "expected")
        lines += ["", f"| {' | '.join(names)} |", "| --- | --- | --- | ---: | ---: | ---: |"]
    for row in result.findings.iter_rows(named=True):
        numbers = ["" if row[key] is None else f"{row[key]:.6g}" for key in ("given", "expected")]
        cells = [row["severity"], sentence(row), row["case"] or "", str(row["cases"]), *numbers]
        lines.append("| " + " | ".join(map(_texts.markdown, cells)) + " |")
    return "\n".join(lines) + "\n"


def html(result: Referee) -> str:
    """Return HTML for notebooks."""
    notes = "".join(f"<li>{escape(each)}</li>" for each in (definition(result), *details(result)))
    table = result.findings._repr_html_()
    return f"<p><b>{escape(headline(result))}</b></p><ul>{notes}</ul>{table}"


def junit(result: Referee) -> str:
    """Return JUnit XML: a test case for each kind of finding."""
    from xml.etree import ElementTree as ET  # noqa: PLC0415  (slow to import, rarely needed)

    rows = [*result.findings.iter_rows(named=True)]
    tests = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    failed = [kind for kind, own in tests.items() if any(r["severity"] == "defect" for r in own)]
    root = ET.Element("testsuites")
    counts = {"tests": str(len(tests)), "failures": str(len(failed))}
    suite = ET.SubElement(root, "testsuite", {"name": _texts.visible(result.name), **counts})
    properties = ET.SubElement(suite, "properties")
    ET.SubElement(properties, "property", name=FORMAT_VERSION, value=str(JUNIT))
    for kind, own in tests.items():
        case = ET.SubElement(suite, "testcase", classname=result.metric, name=KINDS[kind])
        text = "\n".join(f"{sentence(row)}; {_example(row)}" for row in own)
        if kind in failed:
            ET.SubElement(case, "failure", message=_texts.visible(own[0]["text"])).text = text
        elif own:
            ET.SubElement(case, "system-out").text = text
    ET.indent(root)
    found: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return found.decode()


def badge(result: Referee) -> str:
    """Return the JSON of a badge, as badge services read it."""
    defects = result.findings.filter(severity="defect").height
    message = number_of(defects, "defect") if defects else f"as {result.presets[0]}"
    color = "red" if defects else "brightgreen"
    found = {"schemaVersion": 1, "label": result.metric, "message": message, "color": color}
    return json.dumps(found) + "\n"
