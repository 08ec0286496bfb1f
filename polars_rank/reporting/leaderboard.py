"""The leaderboard of a report of more than two runs, and its result in one sentence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import DataError, RankWarning
from polars_rank.frames.tables import collected
from polars_rank.metrics.names import output_name
from polars_rank.reporting.formats import listed, text
from polars_rank.stats.leaderboards import leaderboard
from polars_rank.stats.letters import groups_of

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
        """The runs that cannot be told apart from the best one."""
        return [row["run"] for row in self.rows if row["best"]]

    @property
    def result(self) -> str:
        """The best runs and those that are worse, as a sentence."""
        groups = groups_of([row["letters"] for row in self.rows])
        names = [text(row["run"]) for row in self.rows]
        best = [place for place, row in enumerate(self.rows) if row["best"]]
        others = [place for place, row in enumerate(self.rows) if not row["best"]]
        alike = all(groups[i] & groups[j] for i in best for j in best)
        if not others and alike:
            return f"The {len(names)} runs cannot be told apart."
        sentence = f"Best: {listed([names[place] for place in best])}"
        if len(best) > 1:
            sentence += " (cannot be told apart" + ("" if alike else f" from {names[0]}") + ")"
        worse = [i for i in others if not any(groups[i] & groups[j] for j in best)]
        than_first = [i for i in others if i not in worse]
        of_all = {1: names[0], 2: "both"}.get(len(best), "all of them")
        for places, of in ((worse, of_all), (than_first, names[0])):
            if places:
                verb = "is" if len(places) == 1 else "are"
                of_places = listed([names[place] for place in places])
                sentence += f"; {of_places} {verb} worse than {of}"
        return sentence + "."


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
    result = {}
    for metric in question.means:
        undefined = question.undefined_of(metric)
        try:
            with warnings.catch_warnings():  # the other statistics give the same warnings
                warnings.simplefilter("ignore", RankWarning)
                table = collected(
                    leaderboard(
                        evidence.values, [metric], run=question.run, query=question.queries,
                        **overall.statistics_options | {"undefined": undefined},
                    )
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
        result[name] = Board(name, rows)
    return result
