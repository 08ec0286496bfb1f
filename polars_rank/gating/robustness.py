"""Whether the result of a gate holds: in other orders of ties, and without a few queries."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from typing import NamedTuple

import polars as pl
from polars import col

from polars_rank.columns import Columns
from polars_rank.conventions import Conventions
from polars_rank.diagnostics.broken_runs import Problem, contents
from polars_rank.diagnostics.choices import TRIMMED, headline
from polars_rank.gating import rules
from polars_rank.gating.evaluation import Change, Evaluation, main_metric
from polars_rank.gating.inputs import Golden, Results
from polars_rank.metrics.metric import cutoff


class Bounds(NamedTuple):
    """The bounds of all rules."""

    floors: Sequence[rules.Bound]
    latency: Sequence[rules.Bound]
    drops: Sequence[rules.Bound]
    margins: Sequence[rules.Bound]

    def verdicts(self, evaluation: Evaluation, change: Change | None) -> pl.DataFrame:
        """Return the verdicts of the rules, failures first."""
        tables = [*rules.checked(evaluation.means, self.floors, "{} >= {:.12g}")]
        if self.latency:
            tables += rules.latencies([each.latency for each in evaluation.runs], self.latency)
        if change is not None and not change.is_empty:
            drops = rules.of_metrics(self.drops, change.differences)
            tables += rules.checked(change.differences, drops, "difference({}) >= {:.12g}", -1)
            tables += rules.guards(change.comparison, self.margins)
        return rules.sorted_verdicts(tables)


def robustness(
    verdicts: pl.DataFrame,
    bounds: Bounds,
    evaluation: Evaluation,
    change: Change | None,
    problems: Sequence[Problem],
) -> str:
    """Return what becomes of the result of a gate, as `diagnostics.robustness` does."""
    failed = "fail" in verdicts["verdict"]
    changed = [
        name
        for name, other, of_other in _others(evaluation, change)
        if ("fail" in bounds.verdicts(other, of_other)["verdict"]) != failed
    ]
    verdict = "unclear" if verdicts.is_empty() else "clear"
    return headline(verdict, [*dict.fromkeys(changed)], [each.name for each in problems])


def _others(
    evaluation: Evaluation, change: Change | None
) -> Iterator[tuple[str, Evaluation, Change | None]]:
    """Yield the evaluation and the change under other choices."""
    if any(each.run.select("query", "score").is_duplicated().any() for each in evaluation.runs):
        for ties in ("best", "worst"):
            other = evaluation.with_ties(ties)
            yield "ties", other, None if change is None else Change(other, change.baseline)
    if change is not None and not change.is_empty:
        other_change = _without_outliers(change)
        left = other_change.now["category"].n_unique()
        if other_change.now.height and left == change.now["category"].n_unique():
            yield "outliers", evaluation, other_change


def _without_outliers(change: Change) -> Change:
    """Return the change of the queries without those that differ most from the baseline."""
    name = main_metric(change.metrics)
    pairs = change.now.join(change.before, on="query", suffix="_before")
    differences = (col(name) - col(f"{name}_before")).abs()
    number = math.ceil(TRIMMED * pairs.height)
    outliers = pairs.sort(differences, "query", descending=[True, False], nulls_last=True)
    other = copy(change)
    for table in ("now", "before"):
        kept = getattr(change, table).join(outliers.head(number), on="query", how="anti")
        setattr(other, table, kept)
    for cached in ("comparison", "differences"):
        vars(other).pop(cached, None)
    return other


def problems_of(
    golden: Golden, runs: Sequence[Results], metrics: Sequence[pl.Expr], conventions: Conventions
) -> list[Problem]:
    """Return why results look broken."""
    cutoffs = [k for k in map(cutoff, metrics) if k is not None]
    found: dict[str, Problem] = {}
    for each in runs:
        log = each.run.join(golden.judgments, on=["query", "doc"], how="full", coalesce=True).lazy()
        roles = {name: name for name in ("query", "doc", "score", "label")}
        columns = Columns.find(log.collect_schema(), roles)
        known = contents(log, columns, conventions.rel, min(cutoffs, default=None))
        for problem in (problem for listed in known.problems.values() for problem in listed):
            # The results say for which queries nothing was retrieved; others have failed.
            if problem.name != "queries missing" or each.failed:
                found.setdefault(problem.name, problem)
    return [*found.values()]
