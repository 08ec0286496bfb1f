"""Means and comparisons of the runs of a report."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from polars import selectors

from polars_rank.errors import RankWarning
from polars_rank.frames.tables import collected
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name
from polars_rank.stats.all_pairs import compare_all
from polars_rank.stats.comparison import compare
from polars_rank.stats.run_pairs import is_run
from polars_rank.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polars_rank.reporting.question import Question

#: Columns of bounds of means and of differences.
_BOUNDS = ("low", "high", "low_corrected", "high_corrected")
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
    table = collected(
        summarize(
            values.table, question.metrics, run=question.run, by=by, query=question.queries,
            predictions=values.predictions, **question.statistics_options,
        )
    )  # fmt: skip
    return within_range(table, values, question)


def comparisons(values: Values, question: Question, by: Sequence[str] = ()) -> pl.DataFrame | None:
    """Return the comparisons with the baseline, if there is one."""
    if question.baseline is None:
        return None
    query = [name for name in question.queries if name not in by]
    table = collected(
        compare(
            values.table, question.metrics, baseline=question.baseline, run=str(question.run),
            by=by, query=query, predictions=values.predictions, **question.statistics_options,
        )
    )  # fmt: skip
    return within_range(table, values, question)


def all_pairs(values: Values, question: Question, runs: Sequence[Any]) -> pl.DataFrame | None:
    """Return all pairwise comparisons if there is no baseline, and no predicted labels."""
    if question.baseline is not None or question.predicted_label is not None:
        return None
    if not 1 < len(runs) <= MAX_RUNS or not question.means:
        return None
    table = collected(
        compare_all(
            values.table, question.means, run=str(question.run), query=question.queries,
            **question.statistics_options,
        )
    )  # fmt: skip
    return within_range(table, values, question)


def within_range(table: pl.DataFrame, values: Values, question: Question) -> pl.DataFrame:
    """Return a table of means or of differences, with its bounds clipped to the metrics' ranges.

    The range includes all values, which some labels and treatments of duplicates put outside of the
    range of the definition.
    """
    known = {
        output_name(each): (each.definition.low, each.definition.high)
        for each in question.means
        if isinstance(each, Metric) and each.definition is not None
    }
    bounds = selectors.by_name(*_BOUNDS, require_all=False)
    for metric, (least, most) in known.items():
        if least is None or most is None:
            continue
        ends = [pl.min(metric).alias("min"), pl.max(metric).alias("max")]
        tables = [each for each in values if each is not None]
        found = collected(pl.concat(each.select(ends) for each in tables))
        low = min([least, *found.get_column("min").drop_nulls()])
        high = max([most, *found.get_column("max").drop_nulls()])
        if "difference" in table.columns:
            low, high = low - high, high - low
        clipped = pl.when(pl.col("metric") == metric).then(bounds.clip(low, high))
        table = table.with_columns(clipped.otherwise(bounds))
    return table


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
