"""The leaderboard of a report of more than two runs, and its result in one sentence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import DataError
from polars_rank.frames.tables import collected
from polars_rank.metrics.names import output_name
from polars_rank.reporting.estimates import Values, no_warnings
from polars_rank.reporting.formats import listed, text
from polars_rank.stats.leaderboards import leaderboard

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank.reporting.evidence import Evidence
    from polars_rank.reporting.question import Question

#: Minimum number of runs of a leaderboard.
_MIN_RUNS = 3


@dataclass(frozen=True)
class Board:
    """The leaderboard of a metric."""

    metric: str
    #: The rows of the runs, best first, with the run in the key "run".
    rows: list[dict[str, Any]]

    @property
    def best(self) -> list[Any]:
        """The runs that no run is significantly better than."""
        return [row["run"] for row in self.rows if row["best"]]

    @property
    def result(self) -> str:
        """The best runs, as a sentence."""
        best, number = [text(run) for run in self.best], len(self.rows)
        if len(best) == number:
            return f"The {number} runs cannot be told apart."
        if len(best) == 1 and self.rows[0]["rank_high"] == 1:
            return f"Best: {best[0]}, which is better than all others."
        alike = ", which cannot be told apart" if len(best) > 1 else ""
        return f"Best: {listed(best)}{alike}; each other run is worse than at least one run."


def boards(evidence: Evidence, question: Question) -> Mapping[str, Board]:
    """Return the leaderboard of each metric that is a mean, if there are more than two runs.

    Means and their intervals are those of the other sections. With predicted labels, runs are not
    ranked: the labels of people alone have other means.
    """
    if question.run is None or len(evidence.runs) < _MIN_RUNS:
        return {}
    if question.predicted_label is not None:
        return {}
    overall = replace(question, cluster=evidence.units.cluster)
    values = Values(evidence.values).counted.table
    result: dict[str, Board] = {}
    for metric in question.metrics:
        try:
            with no_warnings():
                table = collected(
                    leaderboard(
                        values, [metric], run=question.run, query=question.queries,
                        **overall.statistics_options,
                    ).drop_nulls("best")  # few queries give no ranks
                )  # fmt: skip
        except DataError:  # no query has a value in all runs, as the table of means shows
            continue
        name = output_name(metric)
        means = {
            row[question.run]: {each: row[each] for each in ("mean", "low", "high")}
            for row in evidence.summary.filter(pl.col("metric") == name).iter_rows(named=True)
        }
        rows = [
            {**row, "run": row[question.run], **means[row[question.run]]}
            for row in table.iter_rows(named=True)
        ]
        result |= {name: Board(name, rows)} if rows else {}
    return result
