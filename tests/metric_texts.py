"""Parts of the docstrings of metrics that the guide shows."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

# Descriptions of parameters, as docstrings have them.
from polars_rank.metrics.documentation import ENTRY, completed


class MetricTexts(NamedTuple):
    """Texts about a metric, each on one line."""

    #: The meaning of the letters in the formula.
    letters: str
    parameters: dict[str, str]
    values: str

    @classmethod
    def of(cls, build: Any) -> MetricTexts:
        text, *sections = re.split(r"^(\w+)\n-+\n", completed(build), flags=re.MULTILINE)
        section_of = dict(zip(sections[::2], sections[1::2], strict=True))
        others = [line(each) for each in text.strip().split("\n\n")[1:]]
        parameters = {
            name: line(entry)
            for names, entry in ENTRY.findall(section_of.get("Parameters", ""))
            for name in names.split(", ")
        }
        letters = " ".join(each for each in others if not each.startswith("$$"))
        return cls(letters, parameters, line(section_of["Returns"].partition("\n")[2]))


def line(text: str) -> str:
    return " ".join(text.split())
