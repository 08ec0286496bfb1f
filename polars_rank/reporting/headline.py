"""The headline of a report: which run is better, by how much, and whether it is significant."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import number_of
from polars_rank.metrics.names import direction_note, lower_is_better, output_name
from polars_rank.reporting.estimates import ranked
from polars_rank.reporting.formats import listed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank.reporting.evidence import Evidence
    from polars_rank.reporting.question import Question


#: Kinds of choices in sentences.
_WORDS = {"unjudged": "unjudged documents", "undefined": "undefined values"}


@dataclass(frozen=True)
class Comparison:
    """The comparison of two runs by the first metric."""

    run: Any
    other: Any
    row: Mapping[str, Any]
    #: The means of the run and of the other run, as in the table of means.
    after: float | None
    before: float | None

    @property
    def verdict(self) -> str:
        """The verdict of `compare`."""
        return str(self.row["verdict"])

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
        numbers = (self.row[name] for name in ("difference", "wins", "losses"))
        return self.verdict == "unclear" and not any(numbers)


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
    #: The number of comparisons for which p-values and intervals are corrected.
    tests: int
    #: The means of the metric by run, best first.
    means: list[dict[str, Any]]


def headline(evidence: Evidence, question: Question) -> Headline:
    """Return the headline, about the first metric.

    It has the comparisons with the baseline, the best run first, or of the best run with others.
    """
    metric, lower = output_name(question.first), lower_is_better(question.first)
    means = ranked(evidence.summary, question).rows(named=True)
    comparisons, tests = [], 0
    if evidence.comparison is not None:
        tests = evidence.comparison.get_column("p_value").count()
        run = str(question.run)
        mean_of = {row[run]: row["mean"] for row in means}
        comparisons = [
            Comparison(
                row[run], row["baseline"], row, mean_of.get(row[run]), mean_of.get(row["baseline"])
            )
            for row in evidence.comparison.filter(metric=metric).iter_rows(named=True)
        ]
        if question.baseline is None:  # the pairs of the best run are the first ones
            comparisons = [each for each in comparisons if each.run == comparisons[0].run]
        else:
            sign = 1 if lower else -1
            comparisons.sort(key=lambda each: sign * (each.row["difference"] or 0.0))
    first = comparisons[0] if comparisons else None
    direction = direction_note(question.first)
    return Headline(metric, lower, direction, first, comparisons[1:], tests, means)


def robustness_text(table: pl.DataFrame | None, first: Headline, question: Question) -> str | None:
    """Return what becomes of the verdict of a headline under other choices, in words."""
    if table is None or first.comparison is None:
        return None
    rows = table.filter(pl.col(str(question.run)).eq_missing(pl.lit(first.comparison.run)))
    text, *labels = rows.item(0, "headline").split("; the labels", 1)
    word, _, reasons = text.partition(": ")
    rows = rows.drop_nulls("changes")
    choices = pl.col("choice").replace(_WORDS).unique(maintain_order=True)
    changed, every = (
        listed(part.select(choices).to_series().to_list())
        for part in (rows.filter("changes"), rows[1:])
    )
    others = number_of(rows.height - 1, "other choice")
    sentence = {
        "broken": f"A run looks broken: {reasons}.",
        "depends on": f"The verdict depends on {changed} ({others} tried).",
        "holds": f"The verdict holds with {others} of {every}.",
        "unclear": f"The verdict remains unclear with {others} of {every}.",
    }[word]
    return " ".join([sentence, *(f"The labels{each}." for each in labels)])
