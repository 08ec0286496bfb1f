"""What a report shows: per-query values, made once and kept in a file, and all that follows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.diagnostics.inspection import found_in, label_counts
from polars_rank.errors import DataError
from polars_rank.evaluation.evaluate import per_query
from polars_rank.frames.tables import collected
from polars_rank.reporting.documents import Moved, chosen_lists
from polars_rank.stats.all_pairs import compare_all
from polars_rank.stats.comparison import compare
from polars_rank.stats.gates import check
from polars_rank.stats.pairs import is_run
from polars_rank.stats.slicing import slices
from polars_rank.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from polars_rank.reporting.question import Question
    from polars_rank.stats.gates import Rule

#: Above this number of runs, not every one is compared with every other.
MANY_RUNS = 10


_NO_VALUE = dict.fromkeys(("value", "low", "high"), pl.lit(None, pl.Float64))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The tables of a report; None where there is nothing to say."""

    #: Per-query values, in a file.
    lists: pl.LazyFrame
    #: The baseline first, then the others in order; one null where there are no runs.
    runs: list[Any]
    summary: pl.DataFrame
    comparison: pl.DataFrame | None
    pairs: pl.DataFrame | None
    groups: pl.DataFrame | None
    slices: pl.DataFrame | None
    verdicts: pl.DataFrame | None
    found: pl.DataFrame
    labels: pl.DataFrame
    moved: list[Moved]


def gathered(frame: pl.LazyFrame, question: Question, path: Path) -> Evidence:
    """Evaluate the log, write its per-query values to `path`, and gather all tables."""
    by = question.by if question.options.get("scores") else question.splits
    plan = per_query(frame, question.metrics, by=by, keep=question.kept, **question.options)
    try:
        plan.sink_parquet(path)
    except DataError as error:
        raise error.explained() from None
    lists = pl.scan_parquet(path, glob=False)
    run = [] if question.run is None else [question.run]
    summary = _summary(lists, question, run)
    runs = _runs(summary, question)
    groups = _summary(lists, question, question.splits) if question.by else None
    comparison = _comparison(lists, question, [])
    by_group = _comparison(lists, question, question.by) if question.by else comparison
    sliced = _slices(lists, question)
    judged = summary if groups is None else groups
    return Evidence(
        lists=lists,
        runs=runs,
        summary=summary,
        comparison=comparison,
        pairs=_pairs(lists, question, runs),
        groups=_beside(groups, by_group, question),
        slices=None if sliced is None else pl.concat(sliced, how="diagonal_relaxed"),
        verdicts=_verdicts(question, judged, by_group, sliced or []),
        found=collected(found_in(question.log, question.columns, question.agreed.rel, run)),
        labels=collected(label_counts(question.log, question.columns, run)),
        moved=chosen_lists(lists, question, runs),
    )


def _summary(lists: pl.LazyFrame, question: Question, by: Sequence[str]) -> pl.DataFrame:
    return collected(
        summarize(
            lists, question.metrics, by=by, query=question.queries,
            confidence=question.confidence, **question.counted,
        )
    )  # fmt: skip


def _runs(summary: pl.DataFrame, question: Question) -> list[Any]:
    """Return the runs, the baseline first."""
    if question.run is None:
        return [None]
    there = summary.get_column(question.run)
    others = there.filter(~_is_baseline(there, question)).unique().sort().to_list()
    return [*([] if question.baseline is None else [question.baseline]), *others]


def _is_baseline(runs: pl.Series, question: Question) -> pl.Series:
    frame = runs.to_frame()
    return frame.select(is_run(runs.name, runs.dtype, question.baseline)).to_series() & (
        question.baseline is not None
    )


def _comparison(lists: pl.LazyFrame, question: Question, by: Sequence[str]) -> pl.DataFrame | None:
    if question.baseline is None:
        return None
    query = [name for name in question.queries if name not in by]
    return collected(
        compare(
            lists, run=str(question.run), baseline=question.baseline, metrics=question.metrics,
            by=by, query=query, confidence=question.confidence, **question.counted,
        )
    )  # fmt: skip


def _pairs(lists: pl.LazyFrame, question: Question, runs: Sequence[Any]) -> pl.DataFrame | None:
    """Return every run beside every other, where none is the baseline."""
    if question.baseline is not None or not 1 < len(runs) <= MANY_RUNS or not question.means:
        return None
    return collected(
        compare_all(
            lists, run=str(question.run), metrics=question.means, query=question.queries,
            confidence=question.confidence, **question.counted,
        )
    )  # fmt: skip


def _slices(lists: pl.LazyFrame, question: Question) -> list[pl.DataFrame] | None:
    """Return the slices of each metric: differences from the baseline, or means without one."""
    if not question.slices:
        return None
    if question.baseline is not None:
        options: dict[str, Any] = {
            "columns": question.slices, "run": str(question.run), "baseline": question.baseline,
            "query": question.queries, "confidence": question.confidence, **question.counted,
        }  # fmt: skip
        return [collected(slices(lists, each, **options)) for each in question.means]
    run = [] if question.run is None else [question.run]
    tables = []
    for column in question.slices:
        table = _summary(lists, question, [*run, column])
        value = pl.col(column).cast(pl.String)
        tables.append(
            table.select(*run, pl.lit(column).alias("column"), value.alias("value"),
                         "metric", "queries", "mean", "low", "high")
        )  # fmt: skip
    return tables


def _beside(
    groups: pl.DataFrame | None, comparison: pl.DataFrame | None, question: Question
) -> pl.DataFrame | None:
    """Return the means of groups with their differences from the baseline beside them.

    A run without rankings in a group has no mean there, but a row.
    """
    if groups is None or comparison is None:
        return groups
    keys = [*question.splits, "metric"]
    gone = comparison.filter(queries=0).join(groups, on=keys, how="anti", nulls_equal=True)
    groups = pl.concat([groups, gone.select(*keys, "queries", "undefined")], how="diagonal_relaxed")
    groups = groups.sort(question.splits, maintain_order=True)
    found = comparison.select(
        *keys, "difference", "relative_difference", "p_corrected",
        pl.col("low").alias("difference_low"), pl.col("high").alias("difference_high"),
    )  # fmt: skip
    return groups.join(found, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _verdicts(
    question: Question,
    summary: pl.DataFrame,
    comparison: pl.DataFrame | None,
    sliced: Sequence[pl.DataFrame],
) -> pl.DataFrame | None:
    """Return the verdicts on the rules; with a baseline, those on means are about other runs."""
    if question.rules is None:
        return None
    if comparison is not None:
        summary = summary.filter(~_is_baseline(summary.get_column(str(question.run)), question))
    if summary.is_empty():  # a gate must not open because nothing was measured
        return pl.DataFrame({"rule": [rule.text for rule in question.rules]}).with_columns(
            where=pl.lit(""), queries=pl.lit(0), verdict=pl.lit("fail"), **_NO_VALUE
        )
    if comparison is not None:
        return check([summary, comparison, *sliced], question.rules, on_fail="return")
    tables = [summary, *sliced]
    several = [check(_about(rule, tables), [rule], on_fail="return") for rule in question.rules]
    return pl.concat(several).unique(["rule", "where"], keep="first", maintain_order=True)


def _about(rule: Rule, tables: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Return the tables that a rule is about: rules on a mean are about slices by name only."""
    of_mean = rule.column in ((None, "mean") if rule.metric else ("mean",))
    return [*tables[:1]] if of_mean and {*rule.where} <= {*tables[0].columns} else [*tables]
