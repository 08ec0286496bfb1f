"""Inputs on which tools differ: one query each, as plain rows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

#: A case is a line with its name, its cutoff, its rows and its judgments, and lines of text. Most
#: labels are 0 or 1, so that gains do not matter.
_TEXT = Path(__file__).with_name("cases.txt").read_text("utf-8")


@dataclass(frozen=True)
class Case:
    """One query, with what tools do with it.

    Parameters
    ----------
    name
        Name of the case, such as "ties/relevant-second".
    topic
        What tools decide differently: the first part of the name.
    text
        What the case shows, in a few sentences.
    rows
        Retrieved documents with their scores, in the order of the input.
    judgments
        Documents with their labels.
    k
        Cutoff of metrics that have one, or None.
    """

    name: str
    topic: str
    text: str
    rows: tuple[tuple[str, float], ...]
    judgments: dict[str, float]
    k: int | None = None

    @property
    def subject(self) -> str:
        """What tools decide differently: negative labels, or the topic."""
        return "negative labels" if min(self.judgments.values(), default=0) < 0 else self.topic

    @property
    def unlabeled(self) -> Case:
        """The case with the label 0 for all judged documents."""
        return replace(self, judgments=dict.fromkeys(self.judgments, 0.0))


def _case(text: str) -> Case:
    """Return a case from its line of rows and judgments, and its lines of text."""
    head, _, sentences = text.partition("\n")
    name, _, tables = head.partition(":")
    name, _, k = name.partition(" @")
    rows, judgments = (
        tuple((doc, float(number)) for doc, number in map(str.split, filter(str.strip, pairs)))
        for pairs in (part.split(",") for part in tables.split("|"))
    )
    topic, _, _ = name.partition("/")
    words = " ".join(sentences.split())
    return Case(name, topic, words, rows, dict(judgments), int(k) if k else None)


CASES = tuple(map(_case, re.split(r"\n+(?=\S)", _TEXT.strip())))
