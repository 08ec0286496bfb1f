"""Means and comparisons of the runs of a report."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank.errors import RankWarning
from polars_rank.frames.tables import collected
from polars_rank.stats.all_pairs import compare_all
from polars_rank.stats.comparison import compare
from polars_rank.stats.run_pairs import is_run
from polars_rank.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polars_rank.reporting.question import Question

#: Maximum number of runs for all pairwise comparisons.
MAX_RUNS = 10


class Values(NamedTuple):
    """Per-query values, and those of predicted labels, from which estimates are computed."""

    table: pl.LazyFrame
    predictions: pl.LazyFrame | None = None

    @property
    def of_all_queries(self) -> pl.LazyFrame:
        """The values of all queries: by predicted labels, if there are some."""
        return self.table if self.predictions is None else self.predictions


class Estimates(NamedTuple):
    """The means of runs and their comparisons; None if a table does not apply."""

    summary: pl.DataFrame
    comparison: pl.DataFrame | None
    pairs: pl.DataFrame | None


def estimates(values: Values, question: Question) -> Estimates:
    """Return the means and comparisons over all groups."""
    summary = means(values, question)
    runs = runs_of(summary, question)
    compared = comparisons(values, question)
    return Estimates(summary, compared, all_pairs(values, question, runs))


def means(values: Values, question: Question, by: Sequence[str] = ()) -> pl.DataFrame:
    """Return the means of each run and group."""
    return collected(
        summarize(
            values.table, question.metrics, run=question.run, by=by, query=question.queries,
            predictions=values.predictions, **question.statistics_options,
        )
    )  # fmt: skip


def comparisons(values: Values, question: Question, by: Sequence[str] = ()) -> pl.DataFrame | None:
    """Return the comparisons with the baseline, if there is one."""
    if question.baseline is None:
        return None
    query = [name for name in question.queries if name not in by]
    return collected(
        compare(
            values.table, question.metrics, baseline=question.baseline, run=str(question.run),
            by=by, query=query, predictions=values.predictions, **question.statistics_options,
        )
    )  # fmt: skip


def all_pairs(values: Values, question: Question, runs: Sequence[Any]) -> pl.DataFrame | None:
    """Return all pairwise comparisons if there is no baseline, and no predicted labels."""
    if question.baseline is not None or question.predicted_label is not None:
        return None
    if not 1 < len(runs) <= MAX_RUNS or not question.means:
        return None
    return collected(
        compare_all(
            values.table, question.means, run=str(question.run), query=question.queries,
            **question.statistics_options,
        )
    )  # fmt: skip


def runs_of(summary: pl.DataFrame, question: Question) -> list[Any]:
    """Return the runs, with the baseline first."""
    if question.run is None:
        return [None]
    column = summary.get_column(question.run)
    others = column.filter(~is_baseline(column, question)).unique().sort().to_list()
    return [*([] if question.baseline is None else [question.baseline]), *others]


def is_baseline(runs: pl.Series, question: Question) -> pl.Series:
    """Return which of the runs are the baseline."""
    frame = runs.to_frame()
    return frame.select(is_run(runs.name, runs.dtype, question.baseline)).to_series() & (
        question.baseline is not None
    )


@contextmanager
def no_warnings() -> Iterator[None]:
    """Ignore warnings that the evaluation of the metrics also gives."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        yield
