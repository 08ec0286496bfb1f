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
from polars_rank.checks import Check, failed, raise_failed
from polars_rank.conventions import QuerySet, Undefined
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.attributes import UNKNOWN, UNKNOWN_NAME, unknown_check
from polars_rank.evaluation.parameters import Align, Evaluation, MetricColumn
from polars_rank.evaluation.stages import JUDGED, MATCHED, RETRIEVED, TIED
from polars_rank.metrics.metric import Aggregate, Metric

#: Column of the number of runs in which a query counts.
_RUNS = OWN + "runs"
#: Columns of the number of queries that count in any run, of their weight, and of the weight of
#: those that count in the run.
_EVERY, _WEIGHT_OF_EVERY, _WEIGHT = OWN + "every", OWN + "weight of every", OWN + "weight"

_ROW = OWN + "row"

#: A number next to which a Float64 is rounded to a multiple of 2^-20.
_SHIFT = 1.5 * 2.0**32

#: The column of the per-query table with the number of retrieved documents.
NUM_RETRIEVED = "num_retrieved"

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

    Each step returns a table with one row per group. With `align`, one part must have all rankings
    of a query.
    """

    sums: Sequence[MetricSum]
    by: Sequence[str]
    query_set: QuerySet = "all"
    runs: Sequence[str] = ()
    #: The key columns that are not runs.
    query: Sequence[str] = ()
    align: Align | None = None
    weight: str | None = None
    #: Whether the rankings have the column `UNKNOWN`.
    unknown: bool = False
    #: The column of labels in messages, if metrics read it.
    label: str | None = None
    #: Whether the rankings have the column `TIED`.
    tied: bool = False
    #: Whether to warn if no retrieved document is judged.
    checks_ids: bool = True
    #: The columns that identify the rows of sums.
    keys: Sequence[str] = ()

    @classmethod
    def of(cls, evaluation: Evaluation) -> Means:
        """Return the means of an evaluation."""
        by, query_set = evaluation.by, evaluation.conventions.query_set
        runs = evaluation.runs
        if evaluation.align is not None and not runs:
            raise ArgumentError(
                "`align` needs a column of runs; name it with `run`, such as run='model'"
            )
        for column in evaluation.metrics:
            if not isinstance(column.metric, Metric) and not _is_scalar(column.metric):
                raise ArgumentError(
                    f"metric {column.name!r} (`metrics`) must aggregate to one value per ranking, "
                    f"such as a sum; found {column.metric}"
                )
        sums = [
            MetricSum.of(column, query_set, evaluation.weight, evaluation.align)
            for column in evaluation.metrics
        ]
        query = [name for name in (*by, *evaluation.query) if name not in runs]
        keys = [*by, *([_RUNS] if evaluation.align == "common" else [])]
        unknown = evaluation.items is not None
        return cls(
            sums, by, query_set, runs, query, evaluation.align, evaluation.weight, unknown,
            repr(evaluation.label) if evaluation.reads_labels else None,
            evaluation.breaks_ties_by_id, keys=keys,
        )  # fmt: skip

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
        if self.align is not None:
            rankings = rankings.with_columns(self._of_queries)
        queries = pl.len() if self.query_set == "all" else COUNTED[self.query_set].sum()
        counts = [queries.alias("queries"), *_COUNTS]
        if self.unknown:
            counts.append(pl.col(UNKNOWN).sum())
        if self.align == "all":
            counts.append(pl.col(_EVERY, _WEIGHT_OF_EVERY, _WEIGHT).sum())
        if self.tied:
            counts.append(pl.col(TIED).min())
        sums = [each for metric in self.sums for each in metric.sums]
        terms = [each for metric in self.sums for each in metric.terms]
        return grouped(rankings.with_columns(terms), self.keys, [*counts, *sums])

    @property
    def _of_queries(self) -> list[pl.Expr]:
        """The columns of each ranking by which runs are aligned."""
        counts = COUNTED.get(self.query_set, pl.col(JUDGED).is_not_null())
        if self.align == "common":
            return [counts.sum().over(self.query).alias(_RUNS)]
        # The weight of a query in one run, such as its traffic, is its weight in the others.
        weight = pl.lit(1.0) if self.weight is None else pl.col(self.weight).cast(pl.Float64)
        if self.weight is not None:
            weight = weight.filter(counts).mean().over(self.query)
        first = counts & (counts.cum_sum().over(self.query) == 1)
        weights = {_WEIGHT_OF_EVERY: first, _WEIGHT: counts}
        return [
            first.alias(_EVERY),
            *(pl.when(some).then(weight).alias(name) for name, some in weights.items()),
        ]

    def merge(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over all parts."""
        names = ["queries", JUDGED, RETRIEVED, MATCHED, *([UNKNOWN] if self.unknown else [])]
        names += [_EVERY, _WEIGHT_OF_EVERY, _WEIGHT] if self.align == "all" else []
        sums = [each for metric in self.sums for each in metric.merge()]
        tied = [pl.col(TIED).min()] if self.tied else []
        return grouped(parts, self.keys, [pl.col(names).sum(), *tied, *sums])

    def finish(self, sums: pl.LazyFrame) -> pl.LazyFrame:
        """Return the means from the sums over all rankings, sorted by group."""
        if self.align == "common":
            in_all = pl.col(_RUNS) == pl.struct(self.runs).n_unique()
            sums = sums.filter(in_all | self._stray)  # stray rows raise an error
        elif self.align == "all":
            sums = self.merge(pl.concat([sums, self._missing(sums)], how="diagonal_relaxed"))
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
        if self.unknown:
            keys[UNKNOWN_NAME] = UNKNOWN
            counts.append(pl.col(UNKNOWN))
        table = sums.select(*self.by, *counts, *values, failed(checks, "group"))
        means = raise_failed(table, checks, keys=keys)
        return means.drop(UNKNOWN) if self.unknown else means

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
        if self.tied:
            message = (
                "in each ranking, all documents have the same score, so their ids decide the order "
                "and the values of metrics; check the scores, or pass ties='expected' for the mean "
                "over all orders"
            )
            tied = self._of_groups(pl.col(TIED), pl.Expr.min, self.runs)
            checks.append(Check("group", tied.fill_null(value=False), message, warns=True))
        if self.unknown:
            checks.append(unknown_check("group"))
        if self.runs and self.align is None:
            others = [name for name in self.by if name not in self.runs]
            different = self._of_groups(pl.col("queries"), pl.Expr.n_unique, others)
            message = (
                "the runs were evaluated on different numbers of queries; use align='common' for "
                "the queries that all runs have, or align='all' to count missing queries as "
                "undefined"
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
        judged, retrieved = pl.col(JUDGED), pl.col(RETRIEVED)
        if self.align == "common":  # several rows of a group
            judged, retrieved = judged.sum().over(self.by), retrieved.sum().over(self.by)
        return unknown & (judged > 0) & (retrieved == 0)

    def _missing(self, sums: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over missing rankings, which count as undefined."""
        others = [name for name in self.by if name not in self.runs]
        of_every = pl.col(_EVERY, _WEIGHT_OF_EVERY).sum()
        number = pl.col(_EVERY) - pl.col("queries").fill_null(0)
        weight = pl.col(_WEIGHT_OF_EVERY) - pl.col(_WEIGHT).fill_null(0.0)
        weight = pl.when(number > 0).then(weight).otherwise(0.0)
        values = [each for metric in self.sums for each in metric.undefined(number, weight)]
        return (
            sums.select(self.runs)
            .unique()
            .join(grouped(sums, others, [of_every]), how="cross")
            .join(
                sums.select(*self.by, "queries", _WEIGHT), on=self.by, how="left", nulls_equal=True
            )
            .select(*self.by, number.alias("queries"), *values)
        )


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
    #: The value of missing rankings, or "skip" or "null".
    counts_as_missing: float | Undefined
    weighted: bool
    #: Whether the values are known to be numbers.
    is_number: bool
    #: When the metric is undefined, in words.
    undefined_if: str | None = None

    @classmethod
    def of(
        cls,
        column: MetricColumn,
        query_set: QuerySet,
        weight: str | None,
        align: Align | None = None,
    ) -> MetricSum:
        """Return the sum of a metric."""
        name, undefined = column.name, column.counts_as
        is_metric = isinstance(column.metric, Metric)
        aggregate = column.conventions.aggregate(column.metric)
        definition = column.metric.definition if isinstance(column.metric, Metric) else None
        reason = None if definition is None else definition.undefined
        values, weights = pl.col(name), None if weight is None else pl.col(weight).cast(pl.Float64)
        is_exact = is_metric and aggregate != "sum"
        if isinstance(undefined, float) and not (is_exact and undefined == 0 and weights is None):
            values = values.fill_null(undefined)  # a sum skips nulls, so they may count as 0
        summed = values if weights is None else values * weights
        counted = _all if query_set == "all" else partial(_filtered, COUNTED[query_set])
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
            column.counts_as_missing if align == "all" else "skip",
            weighted=weights is not None, is_number=is_metric, undefined_if=reason,
        )  # fmt: skip

    def merge(self) -> list[pl.Expr]:
        """Return aggregations of the sums of several parts."""
        value, weight, nulls = map(pl.col, self.columns)
        total = value.sum() if self.aggregate == "sum" else weighted_mean(value, weight)
        return _named(self.columns, total, weight.sum(), nulls.sum())

    def undefined(self, number: pl.Expr, weight: pl.Expr) -> list[pl.Expr]:
        """Return the sums over undefined rankings, given their number and their weight."""
        if not isinstance(self.counts_as_missing, float):
            return _named(self.columns, pl.lit(None, pl.Float64), weight * 0, number)
        value = pl.lit(self.counts_as_missing)
        total = value * weight if self.aggregate == "sum" else value
        return _named(self.columns, total, weight, number)


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


def _all(values: pl.Expr) -> pl.Expr:
    return values


def _filtered(condition: pl.Expr, values: pl.Expr) -> pl.Expr:
    return values.filter(condition)


def _named(names: Sequence[str], *values: pl.Expr) -> list[pl.Expr]:
    return [value.alias(name) for name, value in zip(names, values, strict=True)]


def _is_scalar(expression: pl.Expr) -> bool:
    try:
        return expression.meta.is_scalar()
    except pl.exceptions.PolarsError:  # depends on types that are still unknown
        return True


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


def weighted_mean(value: pl.Expr, weight: pl.Expr) -> pl.Expr:
    """Return Σwx / Σw, or null if the weights sum to 0."""
    return ratio((value * weight).sum(), weight.sum())


def ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return part / whole, or null if the whole is not above 0."""
    return pl.when(whole > 0).then(part / whole)
