"""Docstrings of metrics: completed with what metrics share, and split into parts."""

from __future__ import annotations

import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

#: An entry in the section of parameters: names and an indented description.
ENTRY = re.compile(r"^(\*{0,2}\w[\w, ]*)\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE)

#: Descriptions of parameters that mean the same in all metrics.
COMMON = {
    "k": "Cutoff, a positive integer. None: the whole ranking.",
    "rel": "Lowest relevant label. None: the `rel` of `evaluate`, 1 by default.",
    "gain": 'Gain of a label: "linear", "exp2", "binary", a mapping `{grade: gain}`, or a function '
    "Expr -> Expr.",
    "discount": 'Discount of a rank: "log2", "log", "jarvelin", "reciprocal", or a function '
    "Expr -> Expr.",
    "max_grade": "Label with gain 1. Higher labels count as `max_grade`.",
    "min_grade": "Label with gain 0. Lower labels count as `min_grade`.",
    "alpha": "Redundancy: the share of a subtopic's gain that a document covering it takes from "
    "later ones, from 0 to 1.",
    "beta": "Persistence: probability that the user continues to the next document, in (0, 1).",
    "subtopics": "Column of lists of the subtopics to which a document is relevant.",
    "grades": "Column of lists of grades, one for each element of `subtopics`. None: grade 1.",
    "weights": "Column of lists of weights, one for each element of `subtopics`; a subtopic has "
    "one weight per query. None: equal weights.",
    "depth": 'Divisor: "k", or "retrieved" for the smaller of k and the number of documents.',
    "irrelevant": "Value for a ranking without relevant documents, retrieved or not (of cumulated "
    'gain: without a gain above 0): "null" for null, None for 0.',
    "category": "Column of the category of the document, or of lists of its categories. Null: "
    "unknown.",
    "size": "Number of documents in the collection. None: the number of rows of the ranking.",
}


class DocstringParts(NamedTuple):
    """The parts of a metric's docstring; a missing part is empty."""

    definition: str
    #: LaTeX on one line, without the dollar signs.
    formula: str
    source: str


def completed(definition: Any) -> str:
    """Return the docstring of a metric with all parameters, and with what its properties imply."""
    text = inspect.cleandoc(definition.function.__doc__ or "")
    before, heading, after = text.partition("Returns\n-------\n")
    if not heading:
        return text
    before, _, own = before.partition("Parameters\n----------\n")
    own_entries = dict(ENTRY.findall(own))
    names_of = {name: names for names in own_entries for name in names.split(", ")}
    entries: dict[str, str] = {}
    for name in inspect.signature(definition).parameters:
        names = names_of.get(name, name)
        if names in own_entries:
            entries[names] = own_entries[names]
        elif name in COMMON:
            entries[name] = f"    {COMMON[name]}\n"
    if entries:
        section = "".join(f"{names}\n{entry}" for names, entry in entries.items())
        before += f"Parameters\n----------\n{section}\n"
    values, others = re.split(r"(?=\n\n\w+\n---)|\Z", after, maxsplit=1)
    kind, _, values = values.partition("\n")
    values = " ".join([_line(values), *_implied(definition)])
    values = textwrap.fill(values, 92, break_long_words=False, break_on_hyphens=False)
    values = textwrap.indent(values, "    ")
    return f"{before}{heading}{kind}\n{values}{others}"


def _implied(definition: Any) -> Iterator[str]:
    """Yield sentences about the values of a metric that follow from its properties."""
    if definition.lower_is_better:
        yield "Lower is better."
    if definition.aggregate == "sum":
        yield "`evaluate` returns the sum."
    if definition.undefined is None:
        yield "Never null."
    elif definition.aggregate == "geometric":
        yield f"Undefined if {definition.undefined}."
    else:
        counted = "do not count" if definition.skipped else "count as 0"
        yield f"Undefined if {definition.undefined}; by default, such rankings {counted}."
    if definition.order_matters == "never":
        yield "The `ties` rule of `evaluate` has no effect."
        return
    cutoff = ", which has no effect without k" if definition.order_matters == "cutoff" else ""
    expected = "" if definition.expected else '; "expected" is not supported'
    if definition.binary and definition.expected:
        expected = '; by "expected", the value is the probability of 1'
    yield f"Tied scores follow the `ties` rule of `evaluate`{cutoff}{expected}."


def described(build: Any) -> DocstringParts:
    """Return the parts of a metric's docstring; all are empty under `python -OO`."""
    text = inspect.cleandoc(build.function.__doc__ or "")
    definition, *others = map(_line, text.split("\n\n"))
    formula = others[0].strip("$ ") if others and others[0].startswith("$$") else ""
    source, *_ = re.split(r"\n\n\w+\n---", text.partition("References\n----------\n")[2])
    return DocstringParts(definition, formula, _line(source))


def _line(text: str) -> str:
    return " ".join(text.split())
