"""The headline of a report: which run is better, by how much, and whether it is significant."""

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

#: The result of a comparison: significantly better or worse, not significant, or not testable.
Standing: TypeAlias = Literal["better", "worse", "open", "unknown"]


@dataclass(frozen=True)
class Comparison:
    """The comparison of two runs by the first metric."""

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
    """The headline of a report."""

    metric: str
    lower: bool
    #: The comparison that is shown first; None if there is nothing to compare.
    comparison: Comparison | None
    others: list[Comparison]
    #: The means of the metric by run, best first.
    means: list[Mapping[str, Any]]


def headline(evidence: Evidence, question: Question) -> Headline:
    """Return the headline, about the first metric."""
    metric, lower = output_name(question.first), lower_is_better(question.first)
    means = evidence.summary.filter(pl.col("metric") == metric).sort(
        "mean", descending=not lower, nulls_last=True, maintain_order=True
    )
    comparisons = _comparisons(evidence, question, metric, lower=lower)
    return Headline(metric, lower, *comparisons, [*means.iter_rows(named=True)])


def standing(row: Mapping[str, Any], confidence: float, *, lower: bool) -> Standing:
    """Return the result of a comparison."""
    p_value = row["p_corrected"] if "p_corrected" in row else row["p_value"]
    if p_value is None or row["difference"] is None:
        return "unknown"
    if p_value >= 1 - confidence or not row["difference"]:
        return "open"
    return "better" if (row["difference"] > 0) is not lower else "worse"


def _comparisons(
    evidence: Evidence, question: Question, metric: str, *, lower: bool
) -> tuple[Comparison | None, list[Comparison]]:
    """Return the comparison that is shown first, and the others."""
    if evidence.comparison is not None:
        table, base = evidence.comparison, "baseline_mean"
    elif evidence.pairs is not None:
        table, base = evidence.pairs, "other_mean"
    else:
        return None, []
    rows = table.filter(pl.col("metric") == metric)
    comparisons = [
        Comparison(
            row[str(question.run)],
            row.get("other", question.baseline),
            standing(row, question.confidence, lower=lower),
            row,
            row[base],
        )
        for row in rows.iter_rows(named=True)
    ]
    if evidence.comparison is None:
        comparisons = _of_the_best(comparisons, lower=lower)
    ordered = sorted(comparisons, key=lambda each: _gain(each, lower=lower), reverse=True)
    if evidence.comparison is None:
        ordered.reverse()  # the best run vs. the second best
    return (ordered[0], ordered[1:]) if ordered else (None, [])


def _of_the_best(comparisons: list[Comparison], *, lower: bool) -> list[Comparison]:
    """Return the comparisons of the best run with the others."""
    reversed_comparisons = [
        _reversed(each) if _gain(each, lower=lower) < 0 else each for each in comparisons
    ]
    means = {each.run: each.after for each in reversed_comparisons if each.after is not None}
    if not means:
        return []
    best = (min if lower else max)(means, key=lambda run: means[run])
    return [each for each in reversed_comparisons if each.run == best]


def reversed_row(row: Mapping[str, Any], run: str | None) -> dict[str, Any]:
    """Return the row of a pair with the two runs exchanged."""
    low, high, difference = (
        None if row[name] is None else -row[name] for name in ("low", "high", "difference")
    )
    exchanged = {"mean": row["other_mean"], "other_mean": row["mean"]}
    if run is not None:
        exchanged |= {run: row["other"], "other": row[run]}
    return {**row, **exchanged, "difference": difference, "low": high, "high": low}


def _reversed(comparison: Comparison) -> Comparison:
    row = reversed_row(comparison.row, None)
    opposite: dict[Standing, Standing] = {"better": "worse", "worse": "better"}
    return Comparison(
        comparison.other,
        comparison.run,
        opposite.get(comparison.standing, comparison.standing),
        row,
        comparison.after,
    )


def _gain(comparison: Comparison, *, lower: bool) -> float:
    difference = comparison.row["difference"]
    if difference is None:
        return 0.0
    return float(-difference if lower else difference)
