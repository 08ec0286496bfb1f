"""The tables of a report, computed from per-query values that are stored in a file once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count as numbers
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.diagnostics.broken_runs import contents as contents_of
from polars_rank.diagnostics.choices import RESULT, lowest_of, robustness_of
from polars_rank.diagnostics.log_counts import label_counts, log_counts
from polars_rank.errors import DataError, number_of, warn
from polars_rank.evaluation.evaluate import per_query
from polars_rank.frames.tables import collected, schema_of
from polars_rank.metrics.incomplete_judgments import judged
from polars_rank.metrics.metric import Metric, cutoff
from polars_rank.metrics.names import output_name
from polars_rank.reporting.estimates import (
    DEFINED,
    JUDGED,
    comparisons,
    estimates,
    is_baseline,
    means,
    no_warnings,
    runs_of,
)
from polars_rank.reporting.formats import count
from polars_rank.reporting.query_changes import selected_queries
from polars_rank.stats.gates import check

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from polars_rank.reporting.question import Question

_RANKINGS, _CLUSTERS = OWN + "rankings", OWN + "clusters"
#: Cutoffs of curves, in addition to that of the metric.
_CUTOFFS = (1, 3, 5, 10, 20)
#: The columns of verdicts on nothing.
_NOTHING = {
    "where": pl.lit(""), "queries": pl.lit(0), "verdict": pl.lit("fail"),
    "reason": pl.lit("no queries"),
    **dict.fromkeys(("value", "low", "high"), pl.lit(None, pl.Float64)),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The tables of a report; None if a table does not apply."""

    #: Per-query values, in a file.
    values: pl.LazyFrame
    #: The baseline, then the other runs, sorted; a single None if there are no runs.
    runs: list[Any]
    #: The columns of sampling units of tables over all groups, if units are not rankings.
    cluster: Sequence[str]
    #: Whether the units are queries that are in several groups.
    repeated: bool
    #: The means, and the comparisons with the baseline or of all pairs of runs, over all groups.
    summary: pl.DataFrame
    comparison: pl.DataFrame | None
    #: The slices: differences from the baseline, or means without one.
    slices: pl.DataFrame | None
    groups: pl.DataFrame | None
    verdicts: pl.DataFrame | None
    contents: pl.DataFrame
    #: Whether no judged document has a label below the lowest relevant one, as for purchases.
    only_relevant: bool
    labels: pl.DataFrame
    #: The comparisons by the first metric under other choices.
    robustness: pl.DataFrame | None
    #: Means of metrics with a cutoff by run, `metric` and `k`, with intervals.
    curves: pl.DataFrame | None
    moved: list[dict[str, Any]]


def gather(frame: pl.LazyFrame, question: Question, path: Path) -> Evidence:
    """Evaluate the log, write per-query values to `path`, and return all tables."""
    values = _written(frame, question, path)
    repeated = has_repeated_queries(values, question)
    overall = replace(question, cluster=question.columns.query) if repeated else question
    run = [] if question.run is None else [question.run]
    summary, comparison, slices = estimates(values, overall)
    runs = runs_of(summary, question)
    groups, by_group = _groups(values, question)
    columns = question.columns
    contents = collected(log_counts(question.log, columns, question.conventions.rel, run))
    labels = collected(label_counts(question.log, columns, run))
    return Evidence(
        values=values,
        runs=runs,
        cluster=overall.cluster,
        repeated=repeated,
        summary=summary,
        comparison=comparison,
        slices=slices[-1] if slices else None,
        groups=_with_differences(groups, by_group, question),
        verdicts=_verdicts(
            question,
            [summary if groups is None else groups, *slices],
            comparison if by_group is None else by_group,
        ),
        contents=contents,
        only_relevant=_has_only_relevant(labels, question),
        robustness=_robustness(frame, overall),
        curves=_curves(frame, contents, overall),
        labels=labels,
        moved=selected_queries(values, question, runs),
    )


def has_repeated_queries(values: pl.LazyFrame, question: Question) -> bool:
    """Return whether queries in several groups are the sampling units over all groups.

    Warn if groups have queries in common.
    """
    if not question.by:
        return False
    query, cluster = [*question.columns.query], [*question.cluster]
    run = [] if question.run is None else [question.run]
    by_run = values.group_by([*run, *query]).agg(
        pl.len().alias(_RANKINGS), number_of_clusters(cluster).alias(_CLUSTERS)
    )
    several = pl.col(_RANKINGS) > 1
    by_query = by_run.group_by(query).agg(
        several.any().alias(_RANKINGS), (several & (pl.col(_CLUSTERS) > 1)).any().alias(_CLUSTERS)
    )
    totals = by_query.select(pl.len().alias("all"), pl.col(_RANKINGS, _CLUSTERS).sum())
    queries, repeated, spread = collected(totals).row(0)
    verb = "is" if repeated == 1 else "are"
    groups = (
        f"{count(repeated)} of {number_of(queries, 'query', 'queries')} {verb} in several groups of"
        f" {', '.join(question.by)}"
    )
    if repeated and not cluster:
        warn(
            f"{groups}. Means over all groups are of all rankings, but their intervals and "
            f"p-values count each query once: they are about other queries like these "
            f"{count(queries)}, for the same groups"
        )
        return True
    if spread:
        warn(
            f"{groups} and in several clusters: intervals and p-values over all groups count them "
            "as different queries and may be too narrow"
        )
    return False


def number_of_clusters(cluster: Sequence[str]) -> pl.Expr:
    """Return the number of clusters of rankings; a null is a cluster of its own."""
    if not cluster:
        return pl.len()
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in cluster)
    return pl.struct(cluster).filter(known).n_unique() + (~known).sum()


def _written(frame: pl.LazyFrame, question: Question, path: Path) -> pl.LazyFrame:
    """Write the per-query values to a file, and return them."""
    defined = [each.alias(DEFINED + output_name(each)) for each in question.metrics]
    defined.append(judged(question.depth, depth="retrieved").alias(JUDGED))
    options: dict[str, Any] = {
        "by": question.splits, "keep": question.kept(slices=True), **question.options,
        "conventions": question.counting_where(dict.fromkeys(map(output_name, defined), "null")),
    }  # fmt: skip
    plan = per_query(frame, [*question.metrics, *defined], **options)
    try:
        with path.open("wb") as file:
            plan.sink_parquet(file)
    except DataError as error:
        raise error.explained() from None
    return pl.scan_parquet(path, glob=False)


def _has_only_relevant(labels: pl.DataFrame, question: Question) -> bool:
    """Return whether all labels are relevant."""
    known = labels.get_column("label").drop_nulls().cast(pl.Float64)
    if known.is_empty():
        return False
    first, rel = question.first, question.conventions.of(question.first).rel
    own = first.arguments.get("rel") if isinstance(first, Metric) else None
    lowest = rel if own is None else own
    return bool((known >= lowest).all())


def _of_all_groups(frame: pl.LazyFrame, question: Question) -> tuple[pl.LazyFrame, dict[str, Any]]:
    """Return a log whose groups are parts of the query, and its columns and conventions."""
    query = [*question.columns.query]
    if question.by:  # a struct, because groups may be null and queries may not
        known = schema_of(frame)
        groups = next(name for n in numbers() if (name := f"groups {n}") not in known)
        frame = frame.with_columns(pl.struct(question.by).alias(groups))
        query = [groups, *query]
    options = {"position": None, **question.options, "query": query, "weight": question.weight}
    del options["progress"]
    return frame, options


def _robustness(frame: pl.LazyFrame, question: Question) -> pl.DataFrame | None:
    """Return the comparisons by the first metric under other choices, and warn of broken runs."""
    metric = question.first
    if (
        question.baseline is None or question.run in RESULT
    ):  # a column of the result has the name of the run's
        lowest = lowest_of(metric, question.conventions)
        for text in contents_of(question.log, question.columns, lowest, cutoff(metric)).warnings:
            warn(text)
        return None
    log, options = _of_all_groups(frame, question)
    weight = options.pop("weight")
    statistics = {
        "baseline": question.baseline, "weight": weight, "cluster": question.cluster or None,
        "margin": 0, "confidence": question.confidence,
    }  # fmt: skip
    return collected(robustness_of(log, question.metrics, None, options, statistics))


def _curves(frame: pl.LazyFrame, contents: pl.DataFrame, question: Question) -> pl.DataFrame | None:
    """Return the means of metrics at several cutoffs, up to the length of the longest ranking."""
    longest = int(contents.select(pl.col("longest").max()).item() or 0)
    at: dict[str, tuple[str, int]] = {}
    requested: list[pl.Expr] = []
    counts_as = {}
    for metric in question.metrics:
        if not isinstance(metric, Metric) or not metric.has_cutoff:
            continue
        for k in sorted({*_CUTOFFS, metric.arguments.get("k") or 1}):
            if k <= longest:
                name = f"curve {len(requested)}"
                at[name] = output_name(metric), k
                requested.append(metric.at(k).alias(name))
                counts_as[name] = question.conventions.counts_as(metric)
    if not requested:
        return None
    options = {**question.options, "conventions": question.counting_where(counts_as)}
    # Means and ranges are both computed from these values.
    values_at = collected(
        per_query(frame, requested, by=question.splits, keep=question.kept(slices=False), **options)
    ).lazy()
    with no_warnings():
        table = means(values_at, replace(question, metrics=requested))
    column = pl.col("metric")
    return table.with_columns(
        metric=column.replace_strict({name: metric for name, (metric, _) in at.items()}),
        k=column.replace_strict({name: k for name, (_, k) in at.items()}),
    )


def _groups(
    values: pl.LazyFrame, question: Question
) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    """Return the means of groups, and their comparisons with the baseline.

    A run without rankings in a group of the baseline has a row without a mean.
    """
    if not question.by:
        return None, None
    groups = means(values, question, question.by)
    if question.baseline is None:
        return groups, None
    comparison = comparisons(values, question, question.by)
    keys = [*question.splits, "metric"]
    lost = comparison.filter(queries=0).join(groups, on=keys, how="anti", nulls_equal=True)
    groups = pl.concat([groups, lost.select(*keys, "queries")], how="diagonal_relaxed")
    return groups.sort(question.splits, maintain_order=True), comparison


def _with_differences(
    groups: pl.DataFrame | None, comparison: pl.DataFrame | None, question: Question
) -> pl.DataFrame | None:
    """Return the means of groups joined with their differences from the baseline."""
    if groups is None or comparison is None:
        return groups
    keys = [*question.splits, "metric"]
    differences = comparison.select(
        *keys, "difference", "p_value", "verdict",
        *(pl.col(name).alias(f"difference_{name}") for name in ("low", "high")),
    )  # fmt: skip
    return groups.join(differences, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _verdicts(
    question: Question, tables: list[pl.DataFrame], compared: pl.DataFrame | None
) -> pl.DataFrame | None:
    """Return the verdicts of rules about groups, or else all queries, and about slices.

    With a baseline, rules on means exclude it.
    """
    if question.rules is None:
        return None
    if question.baseline is not None and compared is not None:
        run = str(question.run)
        tables = [
            each.filter(~is_baseline(each.get_column(run), question))
            for each in (*tables, compared)
        ]
    if tables[0].is_empty():  # a gate must not pass because nothing was measured
        rules = pl.DataFrame({"rule": [rule.text for rule in question.rules]})
        return rules.with_columns(**_NOTHING)
    return check(tables, question.rules, on_fail="return")
