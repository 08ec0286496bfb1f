"""The tables of a report, computed from per-query values that are stored in a file once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count as numbers
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import selectors

from polars_rank._params import OWN
from polars_rank.diagnostics.log_facts import facts, label_counts, log_counts
from polars_rank.diagnostics.robust_verdicts import RESULT, lowest_of, robustness_of
from polars_rank.errors import DataError, number_of, recorded_warnings, warn
from polars_rank.evaluation.evaluate import per_query
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.means import grouped
from polars_rank.frames.tables import collected, schema_of
from polars_rank.gates.verdicts import check
from polars_rank.metrics.incomplete_judgments import judged
from polars_rank.metrics.metric import Metric, cutoff
from polars_rank.metrics.names import lower_is_better, output_name
from polars_rank.reporting.page_formats import count
from polars_rank.reporting.query_changes import selected_queries
from polars_rank.reporting.question import DEFINED, names_of
from polars_rank.stats.comparison import compare
from polars_rank.stats.summary import summarize
from polars_rank.stats.value_columns import is_run
from polars_rank.stats.verdict_files import TYPES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from polars_rank.reporting.question import Question

_RANKINGS, _CLUSTERS = OWN + "rankings", OWN + "clusters"
#: Maximum number of runs for all pairwise comparisons.
_MAX_RUNS = 10
#: Cutoffs of curves, in addition to that of the metric.
_CUTOFFS = (1, 3, 5, 10, 20)
#: The column of the share of the first documents that have a label.
JUDGED = OWN + "share of judged"
#: Columns of slices in tables of means and of comparisons.
_OF_SLICES = ("slice", "value", "contribution")
_OPPOSITE = {"better": "worse", "worse": "better"}


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
    # Beside differences, means of slices are for rules only.
    of_slices = question.slices if question.baseline is None or question.rules else ()
    summary, *slices = _divided(computed(summarize, values, overall, slices=of_slices))
    summary = _with_undefined(summary, values, question)
    runs = runs_of(summary, question)
    comparison = None
    if question.baseline is not None:
        compared = computed(compare, values, overall, slices=question.slices)
        comparison, *differences = _divided(compared)
        slices += differences
    elif 1 < len(runs) <= _MAX_RUNS:
        comparison = _oriented(computed(compare, values, overall), summary, question)
    groups, by_group = _groups(values, question)
    columns = question.columns
    contents = collected(log_counts(question.log, columns, question.conventions.rel, question.runs))
    labels = collected(label_counts(question.log, columns, question.runs))
    known = labels.get_column("label").drop_nulls().cast(pl.Float64)
    lowest = lowest_of(question.first, question.conventions)
    verdicts = _verdicts(
        question,
        [summary if groups is None else groups, *slices],
        comparison if by_group is None else by_group,
    )
    return Evidence(
        values=values, runs=runs, cluster=overall.cluster, repeated=repeated, summary=summary,
        comparison=comparison, slices=slices[-1] if slices else None,
        groups=_with_differences(groups, by_group, question), verdicts=verdicts,
        contents=contents, only_relevant=not known.is_empty() and bool((known >= lowest).all()),
        robustness=_robustness(frame, overall), curves=_curves(frame, contents, overall),
        labels=labels, moved=selected_queries(values, question, runs),
    )  # fmt: skip


def counted(values: pl.LazyFrame) -> pl.LazyFrame:
    """Return the values without the columns of `DEFINED` and `JUDGED`."""
    return values.drop(selectors.starts_with(DEFINED, JUDGED))


def computed(
    function: Callable[..., pl.LazyFrame], values: pl.LazyFrame, question: Question,
    by: Sequence[str] = (), slices: Sequence[str] = (),
) -> pl.DataFrame:  # fmt: skip
    """Return the result of `summarize` or `compare` for runs and groups, and for slices."""
    options: dict[str, Any] = {
        "run": question.run, "by": by, "slices": slices or None, "details": True,
        "query": [name for name in question.queries if name not in by],
        "weight": question.weight, "cluster": question.cluster or None,
    }  # fmt: skip
    if function is compare:
        options["baseline"] = question.baseline
    return collected(function(counted(values), question.metrics, **options)).drop("undefined")


def _divided(table: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the rows of all queries, and those of slices if there are some."""
    if "slice" not in table.columns:
        return [table]
    is_whole = pl.col("slice").is_null()
    return [table.filter(is_whole).drop(_OF_SLICES, strict=False), table.filter(~is_whole)]


def _oriented(pairs: pl.DataFrame, summary: pl.DataFrame, question: Question) -> pl.DataFrame:
    """Return pairs with the better run by the first metric as the run, the best runs first."""
    run = str(question.run)
    best_first = ranked(summary, question).get_column(run)
    place, other_place = (
        pl.col(name).replace_strict(best_first, range(len(best_first)))
        for name in (run, "baseline")
    )
    exchanged = (run, "baseline"), ("mean", "baseline_mean"), ("wins", "losses")
    negated = ("low", "high"), ("low_uncorrected", "high_uncorrected"), ("difference",) * 2
    difference, mean = pl.col("difference"), pl.col("mean")
    opposite = {
        **{name: pl.col(other) for pair in exchanged for name, other in (pair, pair[::-1])},
        **{name: -pl.col(other) for pair in negated for name, other in (pair, pair[::-1])},
        "verdict": pl.col("verdict").replace(_OPPOSITE),
        "relative_difference": pl.when(mean != 0).then(-difference / mean.abs()),
        **dict.fromkeys(("relative_low", "relative_high"), pl.lit(None)),
    }
    return pairs.with_columns(
        pl.when(place > other_place).then(value).otherwise(name).alias(name)
        for name, value in opposite.items()
    ).sort(place, other_place, maintain_order=True)


def ranked(summary: pl.DataFrame, question: Question) -> pl.DataFrame:
    """Return the means of the first metric, the best first."""
    return summary.filter(pl.col("metric") == output_name(question.first)).sort(
        "mean", descending=not lower_is_better(question.first), nulls_last=True, maintain_order=True
    )


def _with_undefined(
    summary: pl.DataFrame, values: pl.LazyFrame, question: Question
) -> pl.DataFrame:
    """Return means with the numbers of undefined values, some of which may count."""
    run, metrics = question.runs, names_of(question.metrics)
    undefined = [pl.col(DEFINED + name).is_null().sum().alias(name) for name in metrics]
    counts = collected(grouped(values, run, undefined))
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
    runs, baseline = summary.get_column(question.run).unique().sort().to_list(), question.baseline
    return runs if baseline is None else [baseline, *(run for run in runs if run != baseline)]


def has_repeated_queries(values: pl.LazyFrame, question: Question) -> bool:
    """Return whether queries in several groups are the sampling units over all groups.

    Warn if groups have queries in common.
    """
    if not question.by:
        return False
    query, cluster = [*question.columns.query], [*question.cluster]
    by_run = values.group_by([*question.runs, *query]).agg(
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


def _robustness(frame: pl.LazyFrame, question: Question) -> pl.DataFrame | None:
    """Return the comparisons by the first metric under other choices, and warn of broken runs."""
    metric = question.first
    # A column of the result may have the name of the column of runs.
    if question.baseline is None or question.run in RESULT:
        lowest = lowest_of(metric, question.conventions)
        log = Log(question.log, question.columns)
        for text in facts(log, lowest, cutoff(metric)).warnings:
            warn(text)
        return None
    query = [*question.columns.query]
    if question.by:  # a struct, because groups may be null and queries may not
        known = schema_of(frame)
        groups = next(name for n in numbers() if (name := f"groups {n}") not in known)
        frame = frame.with_columns(pl.struct(question.by).alias(groups))
        query = [groups, *query]
    options = {"position": None, **question.options, "query": query}
    del options["progress"]
    statistics = {
        "baseline": question.baseline, "weight": question.weight,
        "cluster": question.cluster or None, "margin": 0, "confidence": question.confidence,
    }  # fmt: skip
    return collected(robustness_of(frame, question.metrics, None, options, statistics))


def _curves(frame: pl.LazyFrame, contents: pl.DataFrame, question: Question) -> pl.DataFrame | None:
    """Return the means of metrics at several cutoffs, up to the length of the longest ranking."""
    longest = int(contents.select(pl.col("longest").max()).item() or 0)
    cuts = [
        (metric, k)
        for metric in question.metrics
        if isinstance(metric, Metric) and metric.has_cutoff
        for k in sorted({*_CUTOFFS, metric.arguments.get("k") or 1})
        if k <= longest
    ]
    if not cuts:
        return None
    at = {f"curve {number}": cut for number, cut in enumerate(cuts)}
    requested = [metric.at(k).alias(name) for name, (metric, k) in at.items()]
    counts_as = {name: question.conventions.counts_as(metric) for name, (metric, _) in at.items()}
    options = {**question.options, "conventions": question.counting_where(counts_as)}
    values = per_query(
        frame, requested, by=question.splits, keep=question.kept(slices=False), **options
    )
    with recorded_warnings():  # the evaluation of the metrics warns of unreliable intervals
        means = computed(summarize, values, replace(question, metrics=requested))
    column = pl.col("metric")
    return means.with_columns(
        metric=column.replace_strict([*at], [output_name(metric) for metric, _ in at.values()]),
        k=column.replace_strict([*at], [k for _, k in at.values()]),
    )


def _groups(
    values: pl.LazyFrame, question: Question
) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    """Return the means of groups, and their comparisons with the baseline.

    A run without rankings in a group of the baseline has a row without a mean.
    """
    if not question.by:
        return None, None
    groups = computed(summarize, values, question, question.by)
    if question.baseline is None:
        return groups, None
    comparison = computed(compare, values, question, question.by)
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
        *keys, "difference", "p_value", "verdict", difference_low="low", difference_high="high"
    )
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
        run, tables = str(question.run), [*tables, compared]
        is_baseline = is_run(run, compared.schema[run], question.baseline)
        tables = [each.filter(~is_baseline) for each in tables]
    if tables[0].is_empty():  # a gate must not pass because nothing was measured
        nothing = ("", None, None, None, 0, "fail", "no queries")
        rows = [(str(rule), *nothing) for rule in question.rules]
        return pl.DataFrame(rows, TYPES, orient="row")
    return check(tables, question.rules, on_fail="return")
