"""Means and comparisons of the runs of a report."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import selectors

from polars_rank._params import OWN
from polars_rank.errors import RankWarning, number_of, warn
from polars_rank.frames.tables import collected
from polars_rank.metrics.names import lower_is_better, output_name
from polars_rank.reporting.question import names_of
from polars_rank.stats.comparison import compare
from polars_rank.stats.run_pairs import is_run
from polars_rank.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polars_rank.reporting.question import Question

#: Columns of slices in tables of means and of comparisons.
_OF_SLICES = ("slice", "value", "contribution")
#: Maximum number of runs for all pairwise comparisons.
_MAX_RUNS = 10
#: Prefix of columns of values that are null where a metric is undefined, whatever it counts as.
DEFINED = OWN + "defined "
#: The column of the share of the first documents that have a label.
JUDGED = OWN + "share of judged"
_ADDED = selectors.starts_with(DEFINED, JUDGED)
_OPPOSITE = {"better": "worse", "worse": "better"}
#: Columns of which those of the opposite comparison are the negative numbers.
_NEGATED = {
    "difference": "difference", "low": "high", "high": "low",
    "low_uncorrected": "high_uncorrected", "high_uncorrected": "low_uncorrected",
}  # fmt: skip


def counted(values: pl.LazyFrame) -> pl.LazyFrame:
    """Return the values without the columns of `DEFINED` and `JUDGED`."""
    return values.drop(_ADDED)


def estimates(
    values: pl.LazyFrame, question: Question
) -> tuple[pl.DataFrame, pl.DataFrame | None, list[pl.DataFrame]]:
    """Return the means and comparisons over all groups, and those of slices.

    Comparisons are those with the baseline, or of all pairs, with the better run by the first
    metric as the run.
    """
    # Beside differences, means of slices are for rules only.
    of_slices = question.slices if question.baseline is None or question.rules else ()
    summary, slices = _divided(means(values, question, slices=of_slices))
    summary = _with_undefined(summary, values, question)
    tables = [slices]
    comparison = None
    if question.baseline is not None:
        comparison, slices = _divided(comparisons(values, question, slices=question.slices))
        tables.append(slices)
    elif 1 < len(runs_of(summary, question)) <= _MAX_RUNS:
        comparison = _oriented(comparisons(values, question), summary, question)
    return summary, comparison, [each for each in tables if each is not None]


def means(
    values: pl.LazyFrame, question: Question, by: Sequence[str] = (), slices: Sequence[str] = ()
) -> pl.DataFrame:
    """Return the means of each run and group, and of its slices."""
    table = summarize(counted(values), question.metrics, **_options(question, by, slices))
    return collected(table).drop("undefined")


def comparisons(
    values: pl.LazyFrame, question: Question, by: Sequence[str] = (), slices: Sequence[str] = ()
) -> pl.DataFrame:
    """Return the comparisons with the baseline, or of all pairs without one."""
    options = {"baseline": question.baseline, **_options(question, by, slices)}
    table = compare(counted(values), question.metrics, **options)
    return collected(table).drop("undefined")


def _options(question: Question, by: Sequence[str], slices: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that `summarize` and `compare` have in common."""
    return {
        "run": question.run, "by": by, "slices": slices or None, "details": True,
        "query": [name for name in question.queries if name not in by],
        "weight": question.weight, "cluster": question.cluster or None,
    }  # fmt: skip


def _divided(table: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame | None]:
    """Return the rows of all queries, and those of slices if there are some."""
    if "slice" not in table.columns:
        return table, None
    is_whole = pl.col("slice").is_null()
    return table.filter(is_whole).drop(_OF_SLICES, strict=False), table.filter(~is_whole)


def _oriented(pairs: pl.DataFrame, summary: pl.DataFrame, question: Question) -> pl.DataFrame:
    """Return pairs with the better run by the first metric as the run, the best runs first."""
    run = str(question.run)
    best_first = ranked(summary, question).get_column(run)
    order = {name: place for place, name in enumerate(best_first)}
    rows = [
        row if order[row[run]] < order[row["baseline"]] else _exchanged(row, run)
        for row in pairs.iter_rows(named=True)
    ]
    rows.sort(key=lambda row: (order[row[run]], order[row["baseline"]]))
    return pl.DataFrame(rows, pairs.schema)


def _exchanged(row: Mapping[str, Any], run: str) -> dict[str, Any]:
    """Return the row of a pair with the two runs exchanged."""
    exchanged = {
        **row, run: row["baseline"], "baseline": row[run], "mean": row["baseline_mean"],
        "baseline_mean": row["mean"], "wins": row["losses"], "losses": row["wins"],
        "verdict": _OPPOSITE.get(row["verdict"], row["verdict"]),
        "relative_difference": None, "relative_low": None, "relative_high": None,
    }  # fmt: skip
    for name, other in _NEGATED.items():
        exchanged[name] = None if row[other] is None else -row[other]
    if row["mean"] and row["difference"] is not None:
        exchanged["relative_difference"] = exchanged["difference"] / abs(row["mean"])
    return exchanged


def ranked(summary: pl.DataFrame, question: Question) -> pl.DataFrame:
    """Return the means of the first metric, the best first."""
    return summary.filter(pl.col("metric") == output_name(question.first)).sort(
        "mean", descending=not lower_is_better(question.first), nulls_last=True, maintain_order=True
    )


def _with_undefined(
    summary: pl.DataFrame, values: pl.LazyFrame, question: Question
) -> pl.DataFrame:
    """Return means with the numbers of undefined values, some of which may count."""
    run, metrics = [] if question.run is None else [question.run], names_of(question.metrics)
    undefined = values.select(
        *run, *(pl.col(DEFINED + name).is_null().alias(name) for name in metrics)
    )
    counts = collected(undefined.group_by(run).sum() if run else undefined.sum())
    counts = counts.unpivot(metrics, index=run, variable_name="metric", value_name="undefined")
    for metric in question.metrics:
        name = output_name(metric)
        number = sum(counts.filter(pl.col("metric") == name).get_column("undefined"))
        if number and question.conventions.counts_as(metric) == "null":
            warn(
                f"{name} is undefined for {number_of(number, 'ranking')}, which the report leaves "
                "out; `evaluate` returns null for their mean"
            )
    return summary.join(
        counts, on=[*run, "metric"], how="left", nulls_equal=True, maintain_order="left"
    )


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
