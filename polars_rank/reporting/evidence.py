"""The tables of a report, computed from per-query values that are stored in a file once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import selectors

from polars_rank import catalog
from polars_rank._params import OWN
from polars_rank.diagnostics.bounds import known_bounds
from polars_rank.diagnostics.log_counts import label_counts, log_counts
from polars_rank.errors import DataError
from polars_rank.evaluation.evaluate import per_query
from polars_rank.evaluation.means import NUM_RETRIEVED
from polars_rank.evaluation.per_ranking import TIES
from polars_rank.frames.tables import collected, schema_of
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name
from polars_rank.reporting.estimates import (
    Estimates,
    Values,
    all_pairs,
    comparisons,
    estimates,
    is_baseline,
    means,
    no_warnings,
    runs_of,
    within_range,
)
from polars_rank.reporting.fusion import Fusion, fusion_of
from polars_rank.reporting.judge import Judge, judge_of
from polars_rank.reporting.query_changes import QueryChange, queries_of_slices, selected_queries
from polars_rank.reporting.units import units_of
from polars_rank.stats.gates import check
from polars_rank.stats.per_query_tables import with_undefined
from polars_rank.stats.slicing import slices
from polars_rank.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from polars_rank.reporting.question import Question
    from polars_rank.reporting.units import Units
    from polars_rank.stats.gates import Rule

_GROUPS = OWN + "groups"
#: Cutoffs of curves, in addition to that of the metric.
_CUTOFFS = (1, 3, 5, 10, 20)
#: Columns of means that decide rules, in addition to the mean and its bounds.
_OF_INTERVALS = selectors.by_name(
    "confidence", "interval", "used", "effective", "skewness", require_all=False
)
#: Columns of intervals of a comparison.
_BOUNDS = ("low", "high", "low_corrected", "high_corrected")
_NO_VALUE = dict.fromkeys(("value", "low", "high"), pl.lit(None, pl.Float64))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The tables of a report; None if a table does not apply."""

    #: Per-query values, in a file; with predicted labels, those by labels of people.
    values: pl.LazyFrame
    #: Per-query values by predicted labels, in the same file.
    predictions: pl.LazyFrame | None
    judge: Judge | None
    fusion: Fusion | None
    #: The baseline, then the other runs, sorted; a single None if there are no runs.
    runs: list[Any]
    #: The sampling units of the tables over all groups.
    units: Units
    summary: pl.DataFrame
    comparison: pl.DataFrame | None
    pairs: pl.DataFrame | None
    groups: pl.DataFrame | None
    slices: pl.DataFrame | None
    verdicts: pl.DataFrame | None
    contents: pl.DataFrame
    #: Whether no judged document has a label below the lowest relevant one, as for purchases.
    only_relevant: bool
    #: Bounds of the means of the first metric over labels of unjudged documents.
    bounds: pl.DataFrame | None
    labels: pl.DataFrame
    #: Means of metrics with a cutoff by run, `metric` and `k`, with intervals.
    curves: pl.DataFrame | None
    #: Means by time, and by run if the moments have runs.
    over_time: pl.DataFrame | None
    #: The summary of the catalog by run, if there are attributes of documents.
    catalog: pl.DataFrame | None
    moved: list[QueryChange]
    #: The queries of slices by column, value and run, as `queries_of_slices` returns them.
    slice_queries: dict[tuple[str, Any, Any], dict[str, list[dict[str, Any]]]]

    @property
    def estimates(self) -> Estimates:
        """The means and comparisons over all groups."""
        return Estimates(self.summary, self.comparison, self.pairs)


def gather(frame: pl.LazyFrame, question: Question, path: Path) -> Evidence:
    """Evaluate the log, write per-query values to `path`, and return all tables."""
    values = _written(frame, question, path)
    units = units_of(values.of_all_queries, question)
    overall = replace(question, cluster=units.cluster)
    run = [] if question.run is None else [question.run]
    summary, compared, pairs = estimates(values, overall)
    runs = runs_of(summary, question)
    groups = means(values, question, question.by) if question.by else None
    by_group = comparisons(values, question, question.by) if question.by else compared
    slice_tables = _slices(values, overall)
    tables_of_means = summary if groups is None else groups
    columns = question.columns_of_all_queries
    contents = collected(log_counts(question.log, columns, question.definitions.rel, run))
    labels = collected(label_counts(question.log, columns, run))
    only_relevant = _has_only_relevant(labels, question)
    return Evidence(
        values=values.table,
        predictions=values.predictions,
        judge=judge_of(values, overall),
        fusion=fusion_of(question, runs, units.cluster),
        runs=runs,
        units=units,
        summary=summary,
        comparison=compared,
        pairs=pairs,
        groups=_with_differences(groups, by_group, question),
        slices=None if slice_tables is None else pl.concat(slice_tables, how="diagonal_relaxed"),
        verdicts=_verdicts(question, tables_of_means, by_group, slice_tables or []),
        contents=contents,
        only_relevant=only_relevant,
        bounds=None if only_relevant else _bounds(frame, question, contents),
        curves=_curves(frame, values.table, contents, overall),
        over_time=_over_time(question),
        catalog=_catalog(question, run),
        labels=labels,
        moved=selected_queries(values.table, question, runs),
        slice_queries=queries_of_slices(values.table, question, runs),
    )


def _written(frame: pl.LazyFrame, question: Question, path: Path) -> Values:
    """Write the per-query values to a file; return them by labels of people and predicted ones."""
    both = question.both_labels
    options: dict[str, Any] = {
        "by": question.grouped_by, "keep": question.kept, **question.options
    }  # fmt: skip
    if both is None:
        plan = per_query(frame, question.metrics, **options)
    else:
        plan = both.per_query(frame, **options)
    try:
        with path.open("wb") as file:
            plan.sink_parquet(file)
    except DataError as error:
        raise error.explained() from None
    values = pl.scan_parquet(path, glob=False)
    if both is None:
        return Values(values)
    both.check(values, question.queries)
    return Values(*both.split(values))


def compared_again(evidence: Evidence, question: Question) -> Evidence:
    """Return the evidence with the comparisons of another question."""
    overall = replace(question, cluster=evidence.units.cluster)
    values = Values(evidence.values, evidence.predictions)
    with no_warnings():
        return replace(
            evidence,
            comparison=comparisons(values, overall),
            pairs=all_pairs(values, overall, evidence.runs),
        )


def _slices(values: Values, question: Question) -> list[pl.DataFrame] | None:
    """Return the slices of each metric: differences from the baseline, or means without one."""
    if not question.slices:
        return None
    if question.baseline is not None:
        options: dict[str, Any] = {
            "slices": question.slices, "run": str(question.run), "baseline": question.baseline,
            "query": question.queries, "predictions": values.predictions,
            **question.statistics_options,
        }  # fmt: skip
        of_metrics = [(each, question.undefined_of(each)) for each in question.means]
        return [
            within_range(
                collected(slices(values.table, metric, **{**options, "undefined": undefined})),
                values, question,
            )
            for metric, undefined in of_metrics
        ]  # fmt: skip
    run = [] if question.run is None else [question.run]
    tables = []
    for column in question.slices:
        table = means(values, question, [column])
        value = pl.col(column).cast(pl.String)
        tables.append(
            table.select(pl.lit(column).alias("column"), value.alias("value"), "metric", *run,
                         "queries", "mean", "low", "high", _OF_INTERVALS)
        )  # fmt: skip
    return tables


def _has_only_relevant(labels: pl.DataFrame, question: Question) -> bool:
    """Return whether all labels are relevant; False with predicted labels."""
    known = labels.get_column("label").drop_nulls().cast(pl.Float64)
    if question.predicted_label is not None or known.is_empty():
        return False
    first, rel = question.first, question.definitions.of(question.first).rel
    own = first.arguments.get("rel") if isinstance(first, Metric) else None
    lowest = rel if own is None else own
    # The rule of OpenSearch makes only labels above 0 relevant.
    relevant = known > 0 if isinstance(lowest, str) else known >= lowest
    return bool(relevant.all())


def _bounds(frame: pl.LazyFrame, question: Question, contents: pl.DataFrame) -> pl.DataFrame | None:
    """Return bounds of the first metric by run if runs have unjudged documents."""
    unjudged = contents.get_column("unjudged").sum()
    if question.run is None or not unjudged or question.definitions.unjudged == "removed":
        return None
    if question.predicted_label is not None:  # most queries have no labels of people
        return None
    options = {name: value for name, value in question.options.items() if name != "unjudged"}
    query = [*question.columns.query]
    if question.by:  # a struct, because groups may be null and queries may not
        frame = frame.with_columns(pl.struct(question.by).alias(_GROUPS))
        query = [_GROUPS, *query]
    undefined = question.undefined_of(question.first)
    options |= {"query": query, "undefined": undefined, "weight": question.weight}
    by = None if options.get("scores") else question.run
    with no_warnings():
        return known_bounds(frame, question.first, by=by, **options)


def _curves(
    frame: pl.LazyFrame, values: pl.LazyFrame, contents: pl.DataFrame, question: Question
) -> pl.DataFrame | None:
    """Return the means of metrics at several cutoffs, up to the length of the longest ranking."""
    # Per-query values count the retrieved documents if there are runs or groups.
    counts = contents.lazy().select("longest")
    if NUM_RETRIEVED in values.collect_schema():
        counts = values.select(NUM_RETRIEVED)
    longest = collected(counts.max()).item() or 0
    at: dict[str, tuple[str, int]] = {}
    requested: list[pl.Expr] = []
    undefined = {}
    conventions = with_undefined(question.conventions, question.undefined)
    for metric in question.means:
        if not isinstance(metric, Metric) or not metric.has_cutoff:
            continue
        for k in sorted({*_CUTOFFS, metric.arguments.get("k") or 1}):
            if k <= longest:
                name = f"curve {len(requested)}"
                at[name] = output_name(metric), k
                requested.append(metric.at(k).alias(name))
                undefined[name] = conventions.counts_as(metric)
    if not requested:
        return None
    both = question.both_labels
    options = dict(question.options) if both is None else both.applied(question.options)
    values_at = per_query(
        frame, requested, by=question.grouped_by, keep=question.kept_units, **options
    )
    at_cutoffs = Values(values_at) if both is None else Values(*both.split(values_at))
    other = replace(question, metrics=requested, undefined=undefined)
    with no_warnings():
        table = means(at_cutoffs, other)
    column = pl.col("metric")
    return table.with_columns(
        metric=column.replace_strict({name: metric for name, (metric, _) in at.items()}),
        k=column.replace_strict({name: k for name, (_, k) in at.items()}),
    )


def _catalog(question: Question, run: Sequence[str]) -> pl.DataFrame | None:
    """Return the coverage of the catalog and the exposure of its documents by run."""
    items, columns = question.options.get("items"), question.columns
    if items is None:
        return None
    ties = question.definitions.ties
    return collected(
        catalog.summary(
            question.log, question.depth, items=items, query=question.queries,
            doc=str(columns.doc), score=columns.score, by=run,
            ties=ties if ties in TIES else "doc",
        )
    )  # fmt: skip


def _over_time(question: Question) -> pl.DataFrame | None:
    """Return the means of earlier logs by time, and by run if the moments have runs."""
    if question.moments is None:
        return None
    run = question.run if question.run in schema_of(question.moments) else None
    by = [question.time]
    return collected(summarize(question.moments, run=run, by=by, confidence=question.confidence))


def _with_differences(
    groups: pl.DataFrame | None, comparison: pl.DataFrame | None, question: Question
) -> pl.DataFrame | None:
    """Return the means of groups joined with their differences from the baseline.

    A run without rankings in a group has a row without a mean.
    """
    if groups is None or comparison is None:
        return groups
    keys = [*question.splits, "metric"]
    without_rankings = comparison.filter(queries=0).join(
        groups, on=keys, how="anti", nulls_equal=True
    )
    groups = pl.concat(
        [groups, without_rankings.select(*keys, "queries", "undefined")], how="diagonal_relaxed"
    )
    groups = groups.sort(question.splits, maintain_order=True)
    differences = comparison.select(
        *keys, "difference", "relative_difference", "p_corrected",
        *(pl.col(name).alias(f"difference_{name}") for name in _BOUNDS),
    )  # fmt: skip
    return groups.join(differences, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _verdicts(
    question: Question,
    summary: pl.DataFrame,
    comparison: pl.DataFrame | None,
    slice_tables: Sequence[pl.DataFrame],
) -> pl.DataFrame | None:
    """Return the verdicts of rules. With a baseline, rules on means exclude it."""
    if question.rules is None:
        return None
    if comparison is not None:
        summary = summary.filter(~is_baseline(summary.get_column(str(question.run)), question))
    if summary.is_empty():  # a gate must not pass because nothing was measured
        return pl.DataFrame({"rule": [rule.text for rule in question.rules]}).with_columns(
            where=pl.lit(""), queries=pl.lit(0), verdict=pl.lit("fail"), **_NO_VALUE
        )
    if comparison is not None:
        return check([summary, comparison, *slice_tables], question.rules, on_fail="return")
    tables = [summary, *slice_tables]
    verdicts_by_rule = [
        check(_tables_of_rule(rule, tables), [rule], on_fail="return") for rule in question.rules
    ]
    return pl.concat(verdicts_by_rule).unique(["rule", "where"], keep="first", maintain_order=True)


def _tables_of_rule(rule: Rule, tables: Sequence[pl.DataFrame]) -> list[pl.DataFrame]:
    """Return the tables that a rule applies to; a rule on means needs `where` for slices."""
    return [*tables[:1]] if rule.is_of_mean and {*rule.where} <= {*tables[0].columns} else [*tables]
