"""What contradicts the headline: other metrics, groups and slices, and rules that fail."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polars_rank.metrics.names import output_name
from polars_rank.reporting.formats import listed, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polars_rank.reporting.evidence import Evidence
    from polars_rank.reporting.headline import Comparison, Headline
    from polars_rank.reporting.question import Question


def contradictions(
    evidence: Evidence, question: Question, headline: Headline, failed_rules: Sequence[str]
) -> str:
    """Return what contradicts the comparison of a headline, in words; empty if nothing does.

    These are significant differences of the same runs in the other direction, or in any direction
    if the headline is undecided.
    """
    comparison = headline.comparison
    if comparison is None:
        return ""
    parts = []
    for result in ("worse", "better"):
        rows = [
            (name, row["metric"])
            for name, row in _differences(evidence, question, comparison)
            if comparison.verdict != result == row["verdict"]
        ]
        # If a metric is worse in all queries, its parts say no more.
        whole = {metric for name, metric in rows if name == metric}
        names = [name for name, metric in rows if name == metric or metric not in whole]
        if names:
            parts.append(f"{result} in {listed(names)}")
    if failed_rules:
        verb = "a rule fails" if len(failed_rules) == 1 else f"{len(failed_rules)} rules fail"
        parts.append(f"{verb}: {listed(failed_rules)}")
    return ", and ".join(parts)


def _differences(
    evidence: Evidence, question: Question, comparison: Comparison
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the names and rows of other differences of the two runs of the headline."""
    run, first = str(question.run), output_name(question.first)
    compared = evidence.comparison
    for row in [] if compared is None else compared.rows(named=True):
        runs = row[run], row["baseline"]
        if runs == (comparison.run, comparison.other) and row["metric"] != first:
            yield row["metric"], row
    if question.baseline is None:
        return
    parts = [] if evidence.groups is None else evidence.groups.rows(named=True)
    for row in parts:
        if row[run] == comparison.run and row["difference"] is not None:
            group = ", ".join(f"{name}={text(row[name])}" for name in question.by)
            yield _named(row, group, question), row
    parts = [] if evidence.slices is None else evidence.slices.rows(named=True)
    for row in parts:
        if row[run] == comparison.run:
            yield _named(row, f"{row['slice']}={text(row['value'])}", question), row


def _named(row: Mapping[str, Any], part: str, question: Question) -> str:
    """Return the name of a part of the queries, with the metric unless it is the first one."""
    is_first = row["metric"] == output_name(question.first)
    return part if is_first else f"{row['metric']} for {part}"
