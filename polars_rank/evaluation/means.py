"""Means of metrics per group, from the per-query table.

Parts of the per-query table are summed, the sums of several parts are merged, and means are
computed from the merged sums. A log on one machine is one part; Spark has one part per task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import run_number
from polars_rank.checks import Check, failed, raise_failed, with_check
from polars_rank.conventions import QuerySet, Undefined
from polars_rank.definitions import Definition
from polars_rank.errors import ArgumentError, SchemaError, of_all_runs, warning
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.stages import JUDGED, MATCHED, RETRIEVED, TIED
from polars_rank.metrics.metric import Aggregate, Metric

_ROW, _EXECUTION = OWN + "row", OWN + "execution of the plan"

#: A number next to which a Float64 is rounded to a multiple of 2^-20.
_SHIFT = 1.5 * 2.0**32

#: The query sets of which rankings without documents are part.
_WITH_EMPTY = ("judged", "all")
_EMPTY = "most rankings have no retrieved document; check that the log is complete"

#: Conditions for the rankings that count, by query set.
COUNTED = {
    "judged": pl.col(JUDGED),
    "retrieved": pl.col(RETRIEVED) > 0,
    "both": pl.col(JUDGED) & (pl.col(RETRIEVED) > 0),
}


#: Numbers of rankings with judged, with retrieved, and with judged retrieved documents, and whether
#: no document has a label.
_COUNTS = [pl.col(JUDGED).sum(), (pl.col(RETRIEVED) > 0).sum(), pl.col(MATCHED).sum()]
_NO_LABELS = (pl.col(JUDGED) == 0) & (pl.col("queries") > 0)


class Means(NamedTuple):
    """The computation of means in three steps: `add_up`, `merge`, `finish`.

    Each step returns a table with one row per group.
    """

    log: Log
    sums: Sequence[MetricSum]
    runs: Sequence[str]
    #: The column of labels in messages, if metrics read it.
    label: str | None
    #: Whether to warn if no retrieved document is judged.
    checks_ids: bool = True

    @classmethod
    def of(cls, log: Log) -> Means:
        """Return the means of the metrics of a log."""
        for column in log.definitions:
            if not isinstance(column.metric, Metric) and not _is_scalar(column.metric):
                raise ArgumentError(
                    f"metric {column.name!r} (`metrics`) must aggregate to one value per ranking, "
                    f"such as a sum; found {column.metric}"
                )
        query_set = log.conventions.query_set
        sums = [MetricSum.of(each, query_set, log.weight) for each in log.definitions]
        label = repr(log.given["label"]) if log.reads_labels else None
        return cls(log, sums, log.runs, label)

    @property
    def by(self) -> Sequence[str]:
        """The columns of groups."""
        return self.log.columns.by

    @property
    def query_set(self) -> QuerySet:
        """The rankings that count."""
        return self.log.conventions.query_set

    @property
    def tied(self) -> bool:
        """Whether the rankings have the column `TIED`."""
        return self.log.breaks_ties_by_id

    def check_numbers(self, rankings: pl.LazyFrame, names: Mapping[str, str] | None = None) -> None:
        """Raise `SchemaError` if the values of a user's expression have no mean.

        `names` maps columns to the names of metrics in errors. Default: all columns, under their
        own names.
        """
        names = {each.name: each.name for each in self.sums} if names is None else names
        own = [each for each in self.sums if not each.is_number and each.name in names]
        schema = rankings.collect_schema() if own else {}
        for each in own:
            dtype = schema[each.name]
            summable = dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)
            if not summable and (each.weighted or not dtype.is_temporal()):
                raise SchemaError(
                    f"metric {names[each.name]!r} must be numeric to have a mean; found {dtype}; "
                    "cast it to Float64, or use per_query"
                )

    def add_up(self, rankings: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over a part of the rankings."""
        queries = pl.len() if self.query_set == "all" else COUNTED[self.query_set].sum()
        counts = [queries.alias("queries"), *_COUNTS]
        if self.tied:
            counts.append(pl.col(TIED).min())
        sums = [each for metric in self.sums for each in metric.sums]
        terms = [each for metric in self.sums for each in metric.terms]
        return grouped(rankings.with_columns(terms), self.by, [*counts, *sums])

    def merge(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over all parts."""
        names = ["queries", JUDGED, RETRIEVED, MATCHED]
        sums = [each for metric in self.sums for each in metric.merge()]
        tied = [pl.col(TIED).min()] if self.tied else []
        return grouped(parts, self.by, [pl.col(names).sum(), *tied, *sums])

    def finish(self, sums: pl.LazyFrame) -> pl.LazyFrame:
        """Return the means from the sums over all rankings, sorted by group."""
        counts = [pl.col("queries")]
        if self.query_set != "all":
            counts += [
                pl.col(JUDGED).alias("queries_judged"), pl.col(RETRIEVED).alias("queries_retrieved")
            ]  # fmt: skip
        values = [metric.mean for metric in self.sums]
        checks = self._checks
        if not checks:
            return sums.select(*self.by, *counts, *values)
        keys = {name: name for name in (*self.by, "queries")}
        table = sums.select(*self.by, *counts, *values, failed(checks, "group"))
        return raise_failed(table, checks, keys=keys)

    @property
    def _checks(self) -> list[Check]:
        """The checks of groups."""
        checks = []
        if self.by:
            message = (
                f"{', '.join(map(repr, self.by))} (`by`) is null for judged documents that were "
                "not retrieved, so that they belong to no group; pr.join_judgments(rankings, "
                "judgments) adds the judged documents to each group, or fill the column in for all "
                "rows of a query"
            )
            checks.append(Check("group", self._stray, message))
        if self.label is not None:
            message = (
                f"no document has a label (column {self.label}), so metrics are 0 or undefined; "
                "check that the labels were joined by the right keys"
            )
            checks += [Check("group", _NO_LABELS, message, warns=True), *self._undefined_checks]
        if self.label is not None and self.checks_ids:
            message = (
                f"no retrieved document has a label (column {self.label}), although other "
                "documents have one; check that the ids of rankings and judgments match"
            )
            judged, retrieved, matched = (
                self._of_groups(pl.col(name), pl.Expr.sum, self.runs)
                for name in (JUDGED, RETRIEVED, MATCHED)
            )
            unmatched = (judged > 0) & (retrieved > 0) & (matched == 0)
            checks.append(Check("group", unmatched, message, warns=True))
        if self.runs and self.query_set in _WITH_EMPTY:
            queries, retrieved = (
                self._of_groups(pl.col(name).cast(pl.Int64), pl.Expr.sum, self.runs)
                for name in ("queries", RETRIEVED)
            )
            checks.append(Check("group", 2 * retrieved < queries, _EMPTY, warns=True))
        if self.tied:
            message = (
                "in each ranking, all documents have the same score, so their ids decide the order "
                "and the values of metrics; check the scores, or pass ties='expected' for the mean "
                "over all orders"
            )
            tied = self._of_groups(pl.col(TIED), pl.Expr.min, self.runs)
            checks.append(Check("group", tied.fill_null(value=False), message, warns=True))
        if self.runs:
            given = self.log.given
            score = given["position"] or given["score"]
            needed = given["label"] if self.query_set == "judged" else score
            column = pl.col(needed.removeprefix("-")) if isinstance(needed, str) else needed
            counted = f"log.drop_nulls({column.meta.root_names()})"
            counted = "log" if self.query_set == "all" else counted
            others = [name for name in self.by if name not in self.runs]
            query = [*others, *self.log.columns.query]
            different = self._of_groups(pl.col("queries"), pl.Expr.n_unique, others)
            message = (
                "the runs were evaluated on different numbers of queries; to keep the queries that "
                f"all runs have, pass {of_all_runs('log', counted, self.runs, query)}"
            )
            checks.append(Check("group", different > 1, message, warns=True))
        return checks

    def _of_groups(
        self, value: pl.Expr, aggregate: Callable[[pl.Expr], pl.Expr], same: Sequence[str]
    ) -> pl.Expr:
        """Return an aggregate of the groups that have the same values in some columns of `by`."""
        if {*self.by} <= {*same}:  # one row; an aggregate would need another pass over it
            return value
        return aggregate(value).over(same) if same else aggregate(value)

    @property
    def _undefined_checks(self) -> list[Check]:
        """The checks that metrics whose undefined values are replaced are defined somewhere."""
        queries = self._of_groups(pl.col("queries"), pl.Expr.sum, [])
        checks = []
        for each in self.sums:
            if isinstance(each.counts_as, float):
                nulls = self._of_groups(pl.col(each.columns[2]), pl.Expr.sum, [])
                reason = "" if each.undefined_if is None else f": {each.undefined_if}"
                message = (
                    f"metric {each.name!r} is undefined for all rankings{reason}; each counts as "
                    f"{each.counts_as:g} (`undefined`); check the labels (column {self.label}), or "
                    "pass `rel`"
                )
                nowhere = (nulls == queries) & (queries > 0)
                checks.append(Check("group", nowhere, message, warns=True))
        return checks

    @property
    def _stray(self) -> pl.Expr:
        """Whether a group has judged documents only, and lacks a value of `by`."""
        unknown = pl.any_horizontal(pl.col(name).is_null() for name in self.by)
        return unknown & (pl.col(JUDGED) > 0) & (pl.col(RETRIEVED) == 0)


class MetricSum(NamedTuple):
    """The sum of one metric over rankings: mean or total, weight, and number of nulls."""

    name: str
    aggregate: Aggregate
    #: Columns that are added up. Aggregations would compute what they share more than once.
    terms: Sequence[pl.Expr]
    #: Aggregations of the rankings of a part.
    sums: Sequence[pl.Expr]
    #: Names of these aggregations: the value, its weight, and the number of nulls.
    columns: Sequence[str]
    #: The result, a mean or a total, as an expression over these columns.
    mean: pl.Expr
    #: The value of undefined rankings, or "skip" or "null".
    counts_as: float | Undefined
    weighted: bool
    #: Whether the values are known to be numbers.
    is_number: bool
    #: When the metric is undefined, in words.
    undefined_if: str | None = None

    @classmethod
    def of(cls, definition: Definition, query_set: QuerySet, weight: str | None) -> MetricSum:
        """Return the sum of a metric."""
        name, undefined = definition.name, definition.counts_as
        is_metric = isinstance(definition.metric, Metric)
        aggregate = definition.conventions.aggregate(definition.metric)
        function = definition.metric.definition if isinstance(definition.metric, Metric) else None
        reason = None if function is None else function.undefined
        values, weights = pl.col(name), None if weight is None else pl.col(weight).cast(pl.Float64)
        is_exact = is_metric and aggregate != "sum"
        if isinstance(undefined, float) and not (is_exact and undefined == 0 and weights is None):
            values = values.fill_null(undefined)  # a sum skips nulls, so they may count as 0
        summed = values if weights is None else values * weights
        counted = partial(_counted, query_set)
        columns = [f"{OWN}{part} {name}" for part in ("value", "weight", "nulls", "coarse", "rest")]
        terms = _named(columns[3:], *_split(summed)) if is_exact else []
        total = _sum(*map(counted, map(pl.col, columns[3:]))) if is_exact else counted(summed).sum()
        known = counted(pl.col(name))
        number = known.len() if isinstance(undefined, float) else known.count()
        if weights is not None:
            number = _sum(*_split(counted(pl.when(values.is_not_null()).then(weights))))
        if aggregate != "sum":
            # Users' own expressions may be dates, which have a mean but no sum.
            is_date = not is_metric and weights is None
            total = counted(values).mean() if is_date else ratio(total, number)
        sums = _named(columns[:3], total, number, known.null_count())
        mean, nulls = pl.col(columns[0]), pl.col(columns[2])
        mean = mean.exp() if aggregate == "geometric" else mean
        mean = pl.when(nulls == 0).then(mean) if undefined == "null" else mean
        return cls(
            name, aggregate, terms, sums, columns[:3], mean.alias(name), undefined,
            weighted=weights is not None, is_number=is_metric, undefined_if=reason,
        )  # fmt: skip

    def merge(self) -> list[pl.Expr]:
        """Return aggregations of the sums of several parts."""
        value, weight, nulls = map(pl.col, self.columns)
        is_sum = self.aggregate == "sum"
        total = value.sum() if is_sum else ratio((value * weight).sum(), weight.sum())
        return _named(self.columns, total, weight.sum(), nulls.sum())


def _split(values: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return parts of values that add up to them, whose sums do not depend on the order of rows.

    The multiples of 2^-20 are added without rounding if they sum to less than 2^33. What is left
    is so small that the rounding of its sum almost never shows in the result.
    """
    coarse = (values + _SHIFT) - _SHIFT
    return coarse, values - coarse


def _sum(coarse: pl.Expr, rest: pl.Expr) -> pl.Expr:
    """Return the sum of values from their parts; the rest of an infinite value is NaN."""
    return coarse.sum() + rest.sum().fill_nan(0.0)


def _counted(query_set: QuerySet, values: pl.Expr) -> pl.Expr:
    return values if query_set == "all" else values.filter(COUNTED[query_set])


def _named(names: Sequence[str], *values: pl.Expr) -> list[pl.Expr]:
    return [value.alias(name) for name, value in zip(names, values, strict=True)]


def _is_scalar(expression: pl.Expr) -> bool:
    try:
        return expression.meta.is_scalar()
    except pl.exceptions.PolarsError:  # depends on types that are still unknown
        return True


def with_empty_warning(rankings: pl.LazyFrame, log: Log) -> pl.LazyFrame:
    """Return the rankings; collecting them warns of runs most of whose rankings are empty.

    Batches are counted as they pass, and the check follows the last one: an aggregation beside the
    rankings would hold them in memory.
    """
    runs = log.runs
    if not runs or log.conventions.query_set not in _WITH_EMPTY:
        return rankings
    counts: dict[int, list[pl.DataFrame]] = {}  # of batches, by execution of the plan

    def count(batch: pl.DataFrame) -> pl.DataFrame:
        if not batch.is_empty():
            of_runs = batch.group_by(runs).agg(
                pl.len().cast(pl.Int64).alias("queries"),
                (pl.col(RETRIEVED) > 0).sum().cast(pl.Int64),
            )
            counts.setdefault(batch.item(0, _EXECUTION), []).append(of_runs)
        return batch.drop(_EXECUTION)

    issue = warning()

    def check(_: pl.DataFrame) -> None:
        if not counts:
            return
        newest = [*counts.values()][-1]  # another may have ended early
        counts.clear()
        of_runs = pl.concat(newest).group_by(runs).agg(pl.col("queries", RETRIEVED).sum())
        found = of_runs.filter(2 * pl.col(RETRIEVED) < pl.col("queries"))
        if not found.is_empty():
            where = found.select(*runs, "queries").row(0, named=True)
            issue(f"{_EMPTY}; as in {where}")

    counted = rankings.with_columns(run_number().alias(_EXECUTION)).map_batches(
        count, schema=rankings.collect_schema(), streamable=True
    )
    return with_check(counted, pl.LazyFrame({_ROW: [0]}), check, last=True)


def grouped(rankings: pl.LazyFrame, by: Sequence[str], values: Sequence[pl.Expr]) -> pl.LazyFrame:
    """Return one row per group in sorted order, or one row of all rankings."""
    return rankings.group_by(by).agg(values).sort(by) if by else rankings.select(values)


def to_rows(
    wide: pl.LazyFrame,
    keys: Sequence[str | pl.Expr],
    rows: Iterable[Mapping[str, pl.Expr]],
    beside: Sequence[str | pl.Expr] = (),
) -> pl.LazyFrame:
    """Return several rows for each row of a wide table.

    Each element of `rows` maps the names of columns to the values of one new row. The columns
    `keys` come before these columns, the columns `beside` after them.
    """
    structs = [pl.struct(value.alias(name) for name, value in row.items()) for row in rows]
    nested = wide.select(*keys, pl.concat_list(structs).alias(_ROW), *beside)
    return nested.explode(_ROW).unnest(_ROW)


def ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return part / whole, or null if the whole is not above 0."""
    return pl.when(whole > 0).then(part / whole)
