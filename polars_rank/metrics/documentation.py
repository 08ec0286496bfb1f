"""Docstrings of metrics: written out in full, and read back in parts."""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple

#: Parameters that mean the same wherever they stand.
COMMON = {
    "k": "Cutoff, at least 1; None for the whole list.",
    "rel": "The lowest relevant label; None for the threshold of the call.",
    "gain": "`linear`, `exp2`, a mapping `{grade: gain}`, or a function Expr -> Expr.",
    "discount": "`log2`, `log(base)`, `jarvelin(base)`, `reciprocal`, or a function Expr -> Expr.",
    "max_grade": "The label that is worth 1; one above it counts as it.",
    "min_grade": "The label that is worth 0; one below it counts as it, one between as its share.",
    "click": "The column that says whether a document was clicked: a condition, or a count from 0.",
    "dwell": "The column of seconds, from 0, that the user stayed with a document; null without a "
    "click.",
    "time": "The column of seconds, from 0, from the query to the click on a document, a number.",
    "size": "How many documents the collection has; None for the rows of the list.",
}

_ENTRY = re.compile(r"^(\w[\w, ]*)\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE)


class Description(NamedTuple):
    """What the docstring of a metric says; a part that it does not have is empty."""

    definition: str
    #: LaTeX, in one line and without dollars.
    formula: str
    #: What the letters of the formula stand for.
    letters: str
    parameters: dict[str, str]
    values: str
    source: str


def completed(text: str, signature: inspect.Signature) -> str:
    """Return a docstring with its parameters, those that many metrics share among them."""
    before, heading, after = text.partition("Returns\n-------")
    before, _, own = before.partition("Parameters\n----------\n")
    said = dict(_ENTRY.findall(own))
    told = {name for names in said for name in names.split(", ")}
    entries = {
        name: f"    {COMMON[name]}\n"
        for name in signature.parameters
        if name in COMMON and name not in told
    }
    order = [*signature.parameters]
    both = sorted(
        {**said, **entries}.items(), key=lambda item: order.index(item[0].partition(",")[0])
    )
    if not both:
        return text
    section = "".join(f"{name}\n{said}" for name, said in both)
    return f"{before}Parameters\n----------\n{section}\n{heading}{after}"


def described(build: Any) -> Description:
    """Read the completed docstring of a function that makes a metric, if Python has kept it."""
    text, *sections = re.split(r"^(\w+)\n-+\n", inspect.getdoc(build) or "", flags=re.MULTILINE)
    titled = dict(zip(sections[::2], sections[1::2], strict=True))
    definition, *others = map(_line, text.strip().split("\n\n"))
    formula = others.pop(0).strip("$ ") if others and others[0].startswith("$$") else ""
    parameters = {
        name: _line(said)
        for names, said in _ENTRY.findall(titled.get("Parameters", ""))
        for name in names.split(", ")
    }
    values = titled.get("Returns", "").partition("\n")[2]  # after the type
    source = titled.get("References", "")
    return Description(
        definition, formula, " ".join(others), parameters, _line(values), _line(source)
    )


def displayed(formula: str) -> str:
    """Return a formula as a block of Markdown."""
    # Behind a bracket, an underscore that touches the next sign may begin emphasis.
    return re.sub(r"(?<=[})])_(?=\S)", "_ ", f"$$\n{formula}\n$$")


def _line(text: str) -> str:
    return " ".join(text.split())
