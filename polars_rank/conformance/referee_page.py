"""What a referee finds about a function, as a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from polars_rank._pages import Page, Paged, PageTable, Verdict
from polars_rank.definitions import TITLES
from polars_rank.errors import number_of

#: The number of presets that are named.
_NAMED = 3
#: Kinds of findings, from what hurts most, in words.
KINDS = {
    "range": "out of range", "crash": "crash", "hang": "hang", "number": "not a number",
    "order": "order", "mixture": "mixture", "refusal": "refusal", "convention": "convention",
}  # fmt: skip


class RefereeFinding(NamedTuple):
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


@dataclass(frozen=True, repr=False)
class Referee(Paged):
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

    @property
    def page(self) -> Page:
        """The page that is printed, which is also written as Markdown, JSON and JUnit XML."""
        counts = [
            number_of(self.findings.filter(severity=each).height, each)
            for each in ("defect", "convention")
        ]
        rows = [*self.findings.iter_rows(named=True)]
        title = f"{self.name}: {', '.join(counts)}"
        named = [_sentence(row) for row in rows if row["severity"] == "defect"]
        left = f"; {number_of(self.left_out, 'case')} left out" if self.left_out else ""
        choices = (f"- {TITLES.get(key, key)}: {text}" for key, text in self.definition.items())
        texts = [(row["severity"].upper(), _sentence(row), *self._example(row)) for row in rows]
        table = pl.DataFrame(texts, ["severity", "finding", "example", "arguments"], orient="row")
        return Page(
            title,
            [_definition(self), *choices, f"- called with: {self.signature}{left}"],
            [PageTable(table, paragraphs=2, folds=True)] if rows else [],
            summary="; ".join([title, *named[:_NAMED]]),
            data={
                "passed": self.passed, "name": self.name, "metric": self.metric,
                "signature": self.signature, "definition": self.definition,
                "presets": self.presets, "findings": self.findings,
            },
            cases=[*self._cases(rows)],
            suite=self.name,
        )  # fmt: skip

    def _example(self, row: Mapping[str, Any]) -> tuple[str, str]:
        """Return the example of a finding, and the arguments of the function."""
        if not row["case"]:
            return "", ""
        other = "and" if row["kind"] == "order" else "instead of"
        values = [
            f"{name} {row[key]:.6g}"
            for key, name in (("given", "returns"), ("expected", other))
            if row[key] is not None
        ]
        others = f" (and {row['cases'] - 1} more)" if row["cases"] > 1 else ""
        arguments = self.cases.filter(case=row["case"])["arguments"].item()
        returned = f": {' '.join(values)}" if values else ""
        return f"{row['case']}{others}{returned}", arguments

    def _cases(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[Verdict]:
        """Yield a test case for each kind of finding."""
        for kind, name in KINDS.items():
            own = [row for row in rows if row["kind"] == kind]
            is_failed = any(row["severity"] == "defect" for row in own)
            text = "\n".join(f"{_sentence(row)}; {self._example(row)[0]}" for row in own)
            message = own[0]["text"] if own else ""
            verdict = "fail" if is_failed else "pass"
            yield Verdict(name, self.metric, verdict, message, text)


def _definition(result: Referee) -> str:
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


def _sentence(row: Mapping[str, Any]) -> str:
    """Return a finding in words."""
    return (
        str(row["text"]) if row["kind"] == "convention" else f"{KINDS[row['kind']]}: {row['text']}"
    )
