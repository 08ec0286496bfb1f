"""Inputs on which tools differ: one query each, as plain rows."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One query, with what tools do with it.

    Parameters
    ----------
    name
        Name of the case, such as "ties-at-cutoff".
    topic
        What tools decide differently: "ties", "unjudged", "copies", ...
    text
        What the case shows, in a sentence or two.
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


def _case(name: str, text: str, ranking: str, judged: str, k: int | None = None) -> Case:
    """Return a case from texts such as "a 0.9, b 0.5"; its topic is the name up to "/"."""
    rows, judgments = (
        tuple((doc, float(number)) for doc, number in map(str.split, filter(None, text.split(","))))
        for text in (ranking, judged)
    )
    return Case(name, name.partition("/")[0], text, rows, dict(judgments), k)


CASES = (
    _case(
        "plain/three-grades",
        "Nothing that tools do differently but gain, discount and divisor.",
        "a 4, b 3, c 2, d 1",
        "a 1, b 0, c 3, d 2, e 0",
        k=3,
    ),
    _case(
        "ties/relevant-second",
        "Two documents have one score, and the second row is relevant.",
        "b 2, a 2, c 1",
        "a 1, b 0, c 0",
        k=1,
    ),
    _case(
        "copies/relevant-twice",
        "A relevant document occurs twice.",
        "a 3, a 2, b 1",
        "a 1, b 0",
        k=3,
    ),
    _case("empty/nothing-relevant", "No document is relevant.", "a 2, b 1", "a 0, b 0", k=2),
)
