"""The values of a retriever on a golden file, their means, and how they differ from a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, cast

import polars as pl
from polars import col

from polars_rank._params import OWN
from polars_rank.conventions import Conventions, read_metrics
from polars_rank.errors import ArgumentError, number_of
from polars_rank.evaluation.evaluate import per_query
from polars_rank.gating import rules
from polars_rank.gating.baseline import JUDGED, Baseline, definitions, today
from polars_rank.gating.inputs import ALL, Golden, Results
from polars_rank.metrics.names import bounds_of, lower_is_better, output_name
from polars_rank.stats.estimate import FEW_QUERIES
from polars_rank.stats.rules import Rule

#: Whether nothing was retrieved, for queries without a relevant document; and whether something
#: was retrieved, for the others.
ABSTAINED, ANSWERED = "abstained", "answered"
#: The metric that texts are about, if it was computed.
MAIN = "ndcg@10"
#: What a loss that a baseline would find depends on.
ASSUMPTION = ", if the differences from a later run vary as much as the values do"
#: The end of the names of the values of a baseline.
BEFORE = "_before"
#: Columns of the tables of a gate.
_COLUMNS = {"query", "category", "relevant", "text", "docs", "run", "repetition", "metric"}


def expressions(
    metrics: Any, bounds: Mapping[str, Sequence[rules.Bound]], conventions: Conventions
) -> list[pl.Expr]:
    """Return the metrics, and those of rules that are not among them."""
    chosen = read_metrics(metrics, conventions)
    for name in map(output_name, chosen):
        _check_name(name)
    known = {*map(output_name, chosen), ABSTAINED, ANSWERED}
    for parameter, each in bounds.items():
        others = dict.fromkeys(bound.metric for bound in each if bound.metric not in {"", *known})
        chosen += read_metrics([*others], conventions, parameter) if others else []
        known |= others.keys()
    return chosen


def _check_name(metric: str) -> None:
    """Raise `ArgumentError` for the name of another column, or one that rules misread."""
    is_taken = metric in _COLUMNS or metric.endswith(BEFORE) or metric.startswith(OWN)
    with suppress(ArgumentError):
        if not is_taken and Rule.read(f"{metric} >= 0").metric == metric:
            return
    raise ArgumentError(
        f"metric {metric!r} has the name of another column of the result, or of a part of a rule; "
        "rename it with .alias()"
    )


class Evaluation:
    """The values of each query, averaged over repetitions."""

    def __init__(
        self, golden: Golden, runs: Sequence[Results], metrics: Sequence[pl.Expr],
        conventions: Conventions,
    ) -> None:  # fmt: skip
        self.golden: Golden = golden
        self.runs: Sequence[Results] = runs
        self.conventions: Conventions = conventions
        if golden.answerable.height < golden.queries.height:
            known = {*map(output_name, metrics)}
            more = [name for name in (ABSTAINED, ANSWERED) if name not in known]
            metrics = [*metrics, *(read_metrics(more, conventions) if more else ())]
        self.expressions: Sequence[pl.Expr] = metrics
        computed = definitions(metrics, conventions)
        self.repetitions: list[pl.DataFrame] = [
            self._values(each).with_columns(repetition=n) for n, each in enumerate(runs)
        ]
        self.metrics: list[str] = [
            name for name in self.repetitions[0].columns if name not in ("query", "repetition")
        ]
        self.definitions: dict[str, str] = {name: computed[name] for name in self.metrics}

    def with_ties(self, ties: str) -> Evaluation:
        """Return the evaluation in another order of tied documents, as if it were defined so."""
        conventions = self.conventions.but(ties=ties)
        other = Evaluation(self.golden, self.runs, self.expressions, conventions)
        other.definitions = self.definitions
        return other

    def _values(self, run: Results) -> pl.DataFrame:
        """Return the values of one result file; null where a metric does not count."""
        conventions = self.conventions
        queries, answerable = self.golden.queries.select("query"), self.golden.answerable
        log = run.run.join(self.golden.judgments, on=["query", "doc"], how="full", coalesce=True)
        # A query without documents has a row, so that it can be abstained from.
        log = pl.concat([log, queries.join(log, on="query", how="anti")], how="diagonal")
        is_answerable = col("query").is_in(answerable["query"].implode())
        # Metrics of queries with and without an answer, and the others.
        parts: dict[bool, list[pl.Expr]] = {True: [], False: []}
        for each in self.expressions:
            parts[output_name(each).startswith((ABSTAINED, ANSWERED))].append(each)
        of_answers, others = parts.values()
        values = queries
        if others and answerable.height:
            part = log.filter(is_answerable)
            found = per_query(part, others, run=None, conventions=conventions)
            values = values.join(found, on="query", how="left")
        if of_answers:
            every = conventions.but(query_set="all")
            found = per_query(log, of_answers, run=None, conventions=every)
            # A query that failed was not abstained from.
            is_failed = col("query").is_in(pl.Series(run.failed, dtype=pl.String).implode())
            names = [output_name(each) for each in of_answers]
            failed = pl.when(is_failed & col(names).is_not_null()).then(0.0).otherwise(col(names))
            values = values.join(found.with_columns(failed.name.keep()), on="query", how="left")
        return values

    @cached_property
    def values(self) -> pl.DataFrame:
        """The values with the category of each query, sorted by query."""
        means = pl.concat(self.repetitions).group_by("query").agg(col(self.metrics).mean())
        means = means.with_columns(col(self.metrics).round(rules.DECIMALS))
        return self.golden.queries.select("query", "category").join(means, on="query").sort("query")

    @cached_property
    def means(self) -> pl.DataFrame:
        """The means of all queries and of each category."""
        return rules.means(self.values, self.metrics)

    def as_baseline(self, corpus: str | None) -> Baseline:
        """Return the values as a baseline."""
        judged = self.golden.queries.select("query", pl.col("judged").alias(JUDGED))
        rows = self.values.drop("category").join(judged, on="query")
        rows = rows.join(self.runs[0].tops(), on="query", how="left")
        return Baseline(
            rows.with_columns(col("docs").fill_null([])), self.definitions,
            self.golden.fingerprint, corpus, len(self.runs), today().isoformat(),
        )  # fmt: skip


class Change:
    """The difference of an evaluation from a baseline, on the queries with the same labels."""

    def __init__(self, evaluation: Evaluation, before: Baseline) -> None:
        self.baseline: Baseline = before
        self.metrics: list[str] = before.compared(evaluation.definitions)
        common = before.common(evaluation.golden)
        self.now: pl.DataFrame = evaluation.values.join(common, on="query", how="semi")
        self.before: pl.DataFrame = self.now.select("query", "category").join(
            common.select("query", *self.metrics), on="query"
        )
        self.is_empty: bool = self.now.is_empty() or not self.metrics

    @cached_property
    def comparison(self) -> pl.DataFrame:
        """The result of `compare`."""
        return rules.compared(self.now, self.before, self.metrics)

    @cached_property
    def differences(self) -> pl.DataFrame:
        """The differences of the means."""
        return rules.differences(*(rules.means(e, self.metrics) for e in (self.now, self.before)))

    @property
    def whole(self) -> pl.DataFrame:
        """The rows of the comparison that are about all queries."""
        rows = self.comparison
        return rows.filter(col("slice").is_null()) if "slice" in rows.columns else rows

    @property
    def stale(self) -> Iterator[str]:
        """Yield the metrics of which the baseline hides a loss."""
        better = self.whole.filter(verdict="better").select("metric", col("difference").abs())
        texts = [f"{metric} by {difference:.3f}" for metric, difference in better.rows()]
        if texts:
            yield (
                f"the run is clearly better than the baseline, in {', '.join(texts)}: the baseline "
                "is stale and hides a loss of this size; update it with --update-baseline"
            )


@dataclass
class Outcome:
    """The verdicts of a gate, with the values behind them."""

    verdicts: pl.DataFrame
    table: pl.DataFrame
    queries: pl.DataFrame
    metrics: list[str]
    warnings: list[str]
    notes: list[str]
    robustness: str

    @property
    def passed(self) -> bool:
        """Whether no rule fails."""
        return "fail" not in self.verdicts["verdict"]

    @property
    def failed(self) -> list[str]:
        """The rules that fail."""
        rows = self.verdicts.filter(verdict="fail").iter_rows(named=True)
        return [f"{row['rule']} ({row['where']})" if row["where"] else row["rule"] for row in rows]


def notes(
    evaluation: Evaluation,
    change: Change | None,
    drops: Sequence[rules.Bound],
    margins: Sequence[rules.Bound],
) -> Iterator[str]:
    """Yield what was evaluated, what the queries can resolve, and the noise of repetitions."""
    main = main_metric(evaluation.metrics)
    quantile, values = NormalDist().inv_cdf, evaluation.values[main].drop_nulls()
    std, mean = (cast("float", each or 0.0) for each in (values.std(), values.mean()))
    error = round(std, rules.DECIMALS) / max(len(values), 1) ** 0.5
    # A guard fails if the difference is beyond the margin by half of its interval. All intervals
    # hold together: for other data, this is Bonferroni's.
    half, assumption = quantile(1 - 0.025 / len(evaluation.metrics)) * error, ASSUMPTION
    if len(values) < FEW_QUERIES and bounds_of(main) is None:
        half = math.inf
    if change is not None and not change.is_empty:
        rows = change.whole.filter(col("std_error") > 0, metric=main).fill_null(math.inf)
        for row in rows.iter_rows(named=True):
            error, mean, assumption = row["std_error"], row["baseline_mean"], ""
            half = abs(row["low" if lower_is_better(main) else "high"] - row["difference"])
    text = number_of(evaluation.golden.queries.height, "query", "queries")
    if error:
        margin = [0.0, *(each.value for each in margins if each.metric in ("", main))][-1]
        limits = [x.value for x in drops if x.category is None and x.metric in ("", main)]
        loss = min([margin + half, *limits]) + quantile(0.8) * error
        is_possible = loss < (math.inf if lower_is_better(main) else mean)
        found = f"a loss of {loss:.2g} in {main} is found"
        text += f": {found if is_possible else f'too few to find a loss in {main}'}"
        text += f" with 80% probability{assumption}"
    yield text
    if len(evaluation.runs) > 1:
        every = pl.concat(evaluation.repetitions)
        spread = every.group_by("repetition").agg(col(evaluation.metrics).mean())[main].std()
        changed = every.group_by("query").agg(col(main).n_unique() > 1)[main]
        yield (
            f"{len(evaluation.runs)} repetitions: the standard deviation of the mean {main} is "
            f"{spread:.3f}, and {number_of(int(changed.sum()), 'query', 'queries')} differ in it"
        )
    if change is not None:
        before = change.baseline
        written = f"{number_of(before.age, 'day')} ago" if before.age > 0 else f"on {before.date}"
        written = written if before.age else "today"
        number = number_of(before.rows.height, "query", "queries")
        yield f"baseline of {number}, written {written}"


def main_metric(metrics: Sequence[str]) -> str:
    """Return the metric that texts are about."""
    return MAIN if MAIN in metrics else metrics[0]


def table(evaluation: Evaluation, change: Change | None) -> pl.DataFrame:
    """Return the means of all queries and of each category, and the differences."""
    values = evaluation.values
    counts = values.group_by("category").len("queries").drop_nulls().sort("category")
    whole = pl.DataFrame({"category": [None], "queries": [values.height]}, counts.schema)
    parts = [_wide(evaluation.means, "mean", "{}")]
    if change is not None and not change.is_empty:
        parts.append(_wide(change.differences, "difference", "difference({})"))
    rows = pl.concat([whole, counts])
    for part in parts:
        rows = rows.join(part, on="category", how="left", nulls_equal=True)
    return rows.with_columns(col("category").fill_null(ALL))


def _wide(numbers: pl.DataFrame, value: str, name: str) -> pl.DataFrame:
    metrics = numbers["metric"].unique(maintain_order=True)
    return numbers.group_by("category", maintain_order=True).agg(
        col(value).filter(metric=each).first().alias(name.format(each)) for each in metrics
    )


def queries(evaluation: Evaluation, before: Baseline | None) -> pl.DataFrame:
    """Return the values of each query with its first documents, and those of the baseline."""
    found = (
        evaluation.golden.queries.drop("judged")
        .join(evaluation.values.drop("category"), on="query", how="left")
        .join(evaluation.runs[0].tops(), on="query", how="left")
        .with_columns(col("docs").fill_null([]))
    )
    if before is not None:
        common = before.common(evaluation.golden).select(
            "query", *before.compared(evaluation.definitions), "docs"
        )
        found = found.join(common, on="query", how="left", suffix=BEFORE)
    return found
