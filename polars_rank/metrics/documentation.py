"""Docstrings of metrics: completed with what metrics share, and split into parts."""

from __future__ import annotations

import inspect
import json
import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

#: An entry in the section of parameters: names and an indented description.
ENTRY = re.compile(r"^(\*{0,2}\w[\w, ]*)\n((?:    .*\n|\n(?=    ))+)", re.MULTILINE)

#: Descriptions of parameters that mean the same in all metrics.
COMMON: dict[str, str] = json.loads(Path(__file__).with_name("parameters.json").read_text("utf-8"))


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
