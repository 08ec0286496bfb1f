"""The values of a retriever on a golden file, and how they differ from those of a baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl
from polars import col

from polars_rank.conventions import Conventions
from polars_rank.definitions import Definition
from polars_rank.evaluation.evaluate import per_query
from polars_rank.gates.baseline import JUDGED, Baseline, today
from polars_rank.gates.golden import ALL, Golden, Results
from polars_rank.metrics.names import output_name
from polars_rank.stats.comparison import compare

#: Decimals of values: rounding errors must not decide.
DECIMALS = 9
#: Whether nothing was retrieved, for queries without a relevant document; and whether something
#: was retrieved, for the others.
ABSTAINED, ANSWERED = "abstained", "answered"
#: The column of forbidden documents, whose metrics are of all queries.
FORBIDDEN = "forbidden"
#: The metric that texts are about, if it was computed.
MAIN = "ndcg@10"
#: The end of the names of the values of a baseline.
BEFORE = "_before"


def main_metric(metrics: Sequence[str]) -> str:
    """Return the metric that texts are about."""
    return MAIN if MAIN in metrics else metrics[0]


@dataclass(frozen=True)
class Measures:
    """The values of each query, averaged over repetitions."""

    golden: Golden
    runs: Sequence[Results]
    expressions: Sequence[pl.Expr]
    conventions: Conventions

    @cached_property
    def repetitions(self) -> list[pl.DataFrame]:
        """The values of each result file."""
        return [self._values(each).with_columns(repetition=n) for n, each in enumerate(self.runs)]

    @property
    def metrics(self) -> list[str]:
        """The names of the metrics."""
        columns = self.repetitions[0].columns
        return [name for name in columns if name not in ("query", "repetition")]

    @property
    def has_ties(self) -> bool:
        """Whether documents of a query have equal scores."""
        pairs = (each.run.select("query", "score") for each in self.runs)
        return any(each.is_duplicated().any() for each in pairs)

    @property
    def definitions(self) -> dict[str, str]:
        """What each metric means, to find out whether a baseline means the same."""
        every = [Definition.of(each, self.conventions) for each in self.expressions]
        texts = {each.name: ", ".join(map("=".join, each.items().items())) for each in every}
        return {name: texts[name] for name in self.metrics}

    def _values(self, run: Results) -> pl.DataFrame:
        """Return the values of one result file; null where a metric does not count."""
        conventions = self.conventions
        queries, answerable = self.golden.queries.select("query"), self.golden.answerable
        # A query without documents has a row, so that it can be abstained from.
        others = queries.join(run.log, on="query", how="anti")
        log = pl.concat([run.log, others], how="diagonal")
        is_answerable = col("query").is_in(answerable["query"].implode())
        # Metrics of all queries, and of those with an answer.
        parts: dict[bool, list[pl.Expr]] = {True: [], False: []}
        for each in self.expressions:
            is_of_answers = output_name(each).startswith((ABSTAINED, ANSWERED))
            parts[is_of_answers or FORBIDDEN in each.meta.root_names()].append(each)
        of_answers, of_rankings = parts.values()
        values = queries
        if of_rankings and answerable.height:
            part = log.filter(is_answerable)
            found = per_query(part, of_rankings, run=None, conventions=conventions)
            values = values.join(found, on="query", how="left")
        if of_answers:
            every = conventions.but(query_set="all")
            found = per_query(log, of_answers, run=None, conventions=every)
            # A query that failed was not abstained from; what it would retrieve is unknown.
            is_failed = col("query").is_in(pl.Series([*run.failed], dtype=pl.String).implode())
            failed = {
                output_name(each): None if FORBIDDEN in each.meta.root_names() else 0.0
                for each in of_answers
            }
            found = found.with_columns(
                pl.when(is_failed & col(name).is_not_null()).then(value).otherwise(name).alias(name)
                for name, value in failed.items()
            )
            values = values.join(found, on="query", how="left")
        return values

    @cached_property
    def values(self) -> pl.DataFrame:
        """The values with the category of each query, sorted by query."""
        means = pl.concat(self.repetitions).group_by("query").agg(col(self.metrics).mean())
        means = means.with_columns(col(self.metrics).round(DECIMALS))
        return self.golden.queries.select("query", "category").join(means, on="query").sort("query")

    @cached_property
    def means(self) -> pl.DataFrame:
        """The means of all queries and of each category."""
        means = _means(self.values, self.metrics)
        return means.with_columns(col("mean", "low", "high").round(DECIMALS))

    def as_baseline(self, corpus: str | None) -> Baseline:
        """Return the values as a baseline."""
        rows = self._rows.select("query", JUDGED, *self.metrics, "docs")
        return Baseline(
            rows, self.definitions, self.golden.fingerprint, corpus, len(self.runs),
            today().isoformat(),
        )  # fmt: skip

    @cached_property
    def _rows(self) -> pl.DataFrame:
        """The queries with their values and first documents."""
        queries, first = self.golden.queries.rename({"judged": JUDGED}), self.runs[0]
        tops = first.run.group_by("query", maintain_order=True).agg(docs=col("doc").head(10))
        parts = [self.values.drop("category"), tops]
        if self.golden.spans is not None:  # with the chunks that contain them
            relevant = first.log.filter(col("label") > 0).group_by("query")
            queries = queries.drop("relevant")
            parts.insert(0, relevant.agg(relevant=col("doc").sort()))
        for each in parts:
            queries = queries.join(each, on="query", how="left", maintain_order="left")
        marks = ["forbidden_docs"] if self.golden.has_forbidden else []
        columns = ["query", "category", "text", "relevant", *marks, JUDGED, *self.metrics, "docs"]
        return queries.select(columns).with_columns(col("docs", "relevant").fill_null([]))

    def queries(self, before: Baseline | None) -> pl.DataFrame:
        """Return the values of each query with its first documents, and those of the baseline."""
        found = self._rows.drop(JUDGED)
        if before is None:
            return found
        names = before.compared(self.definitions)
        common = before.common(self.golden).select("query", *names, "docs")
        return found.join(common, on="query", how="left", suffix=BEFORE)


@dataclass(frozen=True)
class Change:
    """The differences from a baseline, on the queries with the same labels."""

    metrics: list[str]
    #: Of each metric, the values now and before (`BEFORE`), where a query counts in both.
    pairs: pl.DataFrame

    @classmethod
    def of(cls, measures: Measures, baseline: Baseline, metrics: list[str]) -> Change | None:
        """Return the change of metrics with the same definition; None if there is none."""
        common = baseline.common(measures.golden).select("query", *metrics)
        both = measures.values.select("query", "category", *metrics).join(
            common, on="query", suffix=BEFORE
        )
        names = [(name, name + BEFORE) for name in metrics]
        pairs = both.with_columns(
            pl.when(pl.all_horizontal(col(*pair).is_not_null())).then(each).alias(each)
            for pair in names for each in pair
        )  # fmt: skip
        return None if pairs.is_empty() or not metrics else cls(metrics, pairs)

    def _values(self, *, before: bool) -> pl.DataFrame:
        values = (col(name + BEFORE * before).alias(name) for name in self.metrics)
        return self.pairs.select("query", "category", *values)

    @cached_property
    def comparison(self) -> pl.DataFrame:
        """The result of `compare`, also by category."""
        runs = {"run": self._values(before=False), "baseline": self._values(before=True)}
        both = pl.concat(table.with_columns(run=pl.lit(name)) for name, table in runs.items())
        categories = "category" if both["category"].count() else None
        rows = compare(both, self.metrics, baseline="baseline", slices=categories, details=True)
        # Small categories have no interval, and no verdict.
        is_kept = col("slice").is_null() | col("low").is_not_null() if categories else True
        return rows.filter(col("queries") > 0, is_kept).drop("run", "baseline")

    @cached_property
    def differences(self) -> pl.DataFrame:
        """The differences of the means, also as shares of those of the baseline."""
        now, before = (_means(self._values(before=each), self.metrics) for each in (False, True))
        both = now.join(before, on=["category", "metric"], nulls_equal=True, suffix=BEFORE)
        exact = col("mean") - col("mean" + BEFORE)
        difference = exact.round(DECIMALS)
        # Of a mean of 0, nothing can be lost.
        share = (exact / col("mean" + BEFORE).abs()).fill_nan(0).round(DECIMALS)
        return both.select(
            "category", "metric", "queries", difference=difference, low=difference,
            high=difference, relative_difference=share, relative_low=share, relative_high=share,
        )  # fmt: skip

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


def _means(values: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """Return the means over all queries and of each category, one row per metric.

    They are the numbers of these queries, so that their interval is a point.
    """
    long = values.unpivot(metrics, index="category", variable_name="metric", value_name="mean")
    count = col("mean").count().cast(pl.Int64).alias("queries")
    number = [col("mean").mean(), count]
    whole = long.group_by("metric", maintain_order=True).agg(number)
    parts = long.filter(col("category").is_not_null())
    parts = parts.group_by("category", "metric", maintain_order=True).agg(number)
    table = pl.concat([whole, parts.sort("category", maintain_order=True)], how="diagonal")
    return table.filter(col("queries") > 0).with_columns(low="mean", high="mean")


def means_by_category(measures: Measures, change: Change | None) -> pl.DataFrame:
    """Return the means of all queries and of each category, and the differences."""
    values = measures.values
    counts = values.group_by("category").len("queries").drop_nulls().sort("category")
    whole = pl.DataFrame({"category": [None], "queries": [values.height]}, counts.schema)
    parts = [(measures.means, "mean", "{}")]
    if change is not None:
        parts.append((change.differences, "difference", "difference({})"))
    rows = pl.concat([whole, counts])
    for numbers, value, name in parts:
        wide = numbers.pivot("metric", index="category", values=value)
        wide = wide.rename({each: name.format(each) for each in wide.columns[1:]})
        rows = rows.join(wide, on="category", how="left", nulls_equal=True)
    return rows.with_columns(col("category").fill_null(ALL))
