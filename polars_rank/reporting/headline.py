"""The headline of a report: which run is better, by how much, and whether it is significant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank.metrics.names import direction_note, lower_is_better, output_name
from polars_rank.stats.decisions import is_skewed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.reporting.estimates import Estimates
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
    #: The means of the run and of the other run, as in the table of means.
    after: float | None
    before: float | None
    #: Whether the p-value is of a t test of differences that are too skewed for it.
    is_skewed: bool = False

    @property
    def relative(self) -> float | None:
        """The difference relative to the mean of the other run over the queries of both."""
        if "relative_difference" in self.row:
            share: float | None = self.row["relative_difference"]
            return share
        difference, other = self.row["difference"], self.row["other_mean"]
        return difference / other if difference is not None and other else None

    @property
    def is_of_means(self) -> bool:
        """Whether the difference is that of the two means: not over other queries or labels."""
        if self.after is None or self.before is None:
            return False
        change = self.after - self.before
        return math.isclose(change, self.row["difference"], rel_tol=1e-9, abs_tol=1e-12)

    @property
    def is_equal(self) -> bool:
        """Whether the runs have equal values in all queries."""
        differing = self.row.get("wins"), self.row.get("losses")
        return self.standing == "open" and differing == (0, 0) and not self.row["difference"]

    @property
    def missing_result(self) -> str:
        """Why there is no result: "undefined", "few" queries, or the "same" difference in all."""
        effective = self.row.get("effective")
        too_few = 2 if self.row.get("judge_weight") else 1
        if self.row["queries"] <= too_few or (effective is not None and effective <= too_few):
            return "few"
        return "undefined" if self.row["difference"] is None else "same"


@dataclass(frozen=True)
class Headline:
    """The headline of a report."""

    metric: str
    lower: bool
    #: What the name of the metric is followed by: which direction is better, if it may surprise.
    direction: str
    #: The comparison that is shown first; None if there is nothing to compare.
    comparison: Comparison | None
    others: list[Comparison]
    #: The number of tests for which p-values and intervals are corrected.
    tests: int
    #: The means of the metric by run, best first.
    means: list[Mapping[str, Any]]


def headline(estimates: Estimates, question: Question) -> Headline:
    """Return the headline, about the first metric."""
    metric, lower = output_name(question.first), lower_is_better(question.first)
    means = estimates.summary.filter(pl.col("metric") == metric).sort(
        "mean", descending=not lower, nulls_last=True, maintain_order=True
    )
    rows: list[Mapping[str, Any]] = [*means.iter_rows(named=True)]
    comparisons = _comparisons(estimates, question, metric, rows, lower=lower)
    tests = number_of_tests(estimates.comparison)
    return Headline(metric, lower, direction_note(question.first), *comparisons, tests, rows)


def number_of_tests(table: pl.DataFrame | None) -> int:
    """Return the number of rows for which a table's p-values and intervals are corrected."""
    if table is None or "p_corrected" not in table.columns:
        return 0
    return table.get_column("p_corrected").count()


def with_corrected_bounds(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a row with the interval that is corrected for the number of tests, if it has one."""
    if "low_corrected" not in row:
        return row
    return {**row, "low": row["low_corrected"], "high": row["high_corrected"]}


def standing(row: Mapping[str, Any], confidence: float, *, lower: bool) -> Standing:
    """Return the result of a comparison."""
    p_value = row["p_corrected"] if "p_corrected" in row else row["p_value"]
    if p_value is None or row["difference"] is None:
        return "unknown"
    if p_value >= 1 - confidence or not row["difference"]:
        return "open"
    return "better" if (row["difference"] > 0) is not lower else "worse"


def _comparisons(
    estimates: Estimates,
    question: Question,
    metric: str,
    means: Sequence[Mapping[str, Any]],
    *,
    lower: bool,
) -> tuple[Comparison | None, list[Comparison]]:
    """Return the comparison that is shown first, and the others."""
    table = estimates.pairs if estimates.comparison is None else estimates.comparison
    if table is None:
        return None, []
    rows = table.filter(pl.col("metric") == metric)
    mean_of = {row[str(question.run)]: row["mean"] for row in means}
    comparisons = [
        _comparison(row, question, mean_of, lower=lower)
        for row in map(with_corrected_bounds, rows.iter_rows(named=True))
    ]
    if estimates.comparison is None:
        comparisons = _of_the_best(comparisons, lower=lower)
    ordered = sorted(comparisons, key=lambda each: _gain(each, lower=lower), reverse=True)
    if estimates.comparison is None:
        ordered.reverse()  # the best run vs. the second best
    return (ordered[0], ordered[1:]) if ordered else (None, [])


def _comparison(
    row: Mapping[str, Any],
    question: Question,
    means: Mapping[Any, float | None],
    *,
    lower: bool,
) -> Comparison:
    """Return the comparison of a row, without a conclusion if its differences are too skewed."""
    result = standing(row, question.confidence, lower=lower)
    skewed = result in ("better", "worse") and is_skewed(row, "difference")
    run, other = row[str(question.run)], row.get("other", question.baseline)
    result = "open" if skewed else result
    return Comparison(run, other, result, row, means.get(run), means.get(other), is_skewed=skewed)


def _of_the_best(comparisons: list[Comparison], *, lower: bool) -> list[Comparison]:
    """Return the comparisons of the best run with the others."""
    reversed_comparisons = [
        _reversed(each) if _gain(each, lower=lower) < 0 else each for each in comparisons
    ]
    means = {each.run: each.row["mean"] for each in reversed_comparisons}
    means = {run: mean for run, mean in means.items() if mean is not None}
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
        comparison.before,
        comparison.after,
        comparison.is_skewed,
    )


def _gain(comparison: Comparison, *, lower: bool) -> float:
    difference = comparison.row["difference"]
    if difference is None:
        return 0.0
    return float(-difference if lower else difference)
