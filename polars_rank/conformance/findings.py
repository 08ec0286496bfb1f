"""What a referee finds about a function: its definition, defects and conventions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

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
class Result:
    """The definition of a function, and the findings about it."""

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
