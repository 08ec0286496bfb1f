"""What a report says first: which run is better, by how much, and whether that is sure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank.metrics.names import output_name
from polars_rank.reporting.question import lower_is_better

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank.reporting.evidence import Evidence
    from polars_rank.reporting.question import Question

#: How a run stands beside another: surely better or worse, perhaps neither, or too little to tell.
Standing: TypeAlias = Literal["better", "worse", "open", "unknown"]


@dataclass(frozen=True)
class Finding:
    """One run beside another, by the metric that decides."""

    run: Any
    other: Any
    standing: Standing
    row: Mapping[str, Any]
    before: float | None

    @property
    def after(self) -> float | None:
        """The mean of the run."""
        mean: float | None = self.row["mean"]
        return mean


@dataclass(frozen=True)
class Headline:
    """The first words of a report."""

    metric: str
    lower: bool
    #: The run that is shown first, beside another; None where there is nothing to compare.
    finding: Finding | None
    others: list[Finding]
    #: The means of the metric by run, the best first.
    means: list[Mapping[str, Any]]


def headline(evidence: Evidence, question: Question) -> Headline:
    """Return what is to be said of the first metric."""
    metric, lower = output_name(question.first), lower_is_better(question.first)
    means = evidence.summary.filter(pl.col("metric") == metric).sort(
        "mean", descending=not lower, nulls_last=True, maintain_order=True
    )
    found = _found(evidence, question, metric, lower=lower)
    return Headline(metric, lower, *found, [*means.iter_rows(named=True)])


def standing(row: Mapping[str, Any], confidence: float, *, lower: bool) -> Standing:
    """Return how the run of a row stands beside the other one."""
    p_value = row["p_corrected"] if "p_corrected" in row else row["p_value"]
    if p_value is None or row["difference"] is None:
        return "unknown"
    if p_value >= 1 - confidence or not row["difference"]:
        return "open"
    return "better" if (row["difference"] > 0) is not lower else "worse"


def _found(
    evidence: Evidence, question: Question, metric: str, *, lower: bool
) -> tuple[Finding | None, list[Finding]]:
    """Return the finding that comes first, and the others."""
    if evidence.comparison is not None:
        table, base = evidence.comparison, "baseline_mean"
    elif evidence.pairs is not None:
        table, base = evidence.pairs, "other_mean"
    else:
        return None, []
    rows = table.filter(pl.col("metric") == metric)
    found = [
        Finding(
            row[str(question.run)],
            row.get("other", question.baseline),
            standing(row, question.confidence, lower=lower),
            row,
            row[base],
        )
        for row in rows.iter_rows(named=True)
    ]
    if evidence.comparison is None:
        found = _of_the_best(found, lower=lower)
    ordered = sorted(found, key=lambda each: _gain(each, lower=lower), reverse=True)
    if evidence.comparison is None:
        ordered.reverse()  # the best run beside the one that comes next
    return (ordered[0], ordered[1:]) if ordered else (None, [])


def _of_the_best(found: list[Finding], *, lower: bool) -> list[Finding]:
    """Return the pairs of the best run, seen from its side."""
    turned = [_turned(each) if _gain(each, lower=lower) < 0 else each for each in found]
    means = {each.run: each.after for each in turned if each.after is not None}
    if not means:
        return []
    best = (min if lower else max)(means, key=lambda run: means[run])
    return [each for each in turned if each.run == best]


def _turned(finding: Finding) -> Finding:
    row = dict(finding.row)
    low, high = row["low"], row["high"]
    row.update(
        mean=row["other_mean"],
        difference=-row["difference"],
        low=None if high is None else -high,
        high=None if low is None else -low,
    )
    turned: dict[Standing, Standing] = {"better": "worse", "worse": "better"}
    return Finding(
        finding.other,
        finding.run,
        turned.get(finding.standing, finding.standing),
        row,
        finding.after,
    )


def _gain(finding: Finding, *, lower: bool) -> float:
    difference = finding.row["difference"]
    if difference is None:
        return 0.0
    return float(-difference if lower else difference)
