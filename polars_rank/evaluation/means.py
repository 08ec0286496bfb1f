"""Means of metrics per group, from the per-query table.

Parts of the per-query table are summed, the sums of several parts are merged, and means are
computed from the merged sums. A log on one machine is one part; Spark has one part per task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import run_number, source_of_rows
from polars_rank.checks import Check, failed, raise_failed, with_check
from polars_rank.conventions import QuerySet
from polars_rank.definitions import Definition
from polars_rank.errors import ArgumentError, SchemaError, of_all_runs, warning
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.stages import JUDGED, MATCHED, RETRIEVED, TIED
from polars_rank.metrics.metric import Metric

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


#: Numbers of rankings with judged, with retrieved, and with judged retrieved documents.
_COUNTS = [pl.col(JUDGED).sum(), (pl.col(RETRIEVED) > 0).sum(), pl.col(MATCHED).sum()]


class Means(NamedTuple):
    """The computation of means in three steps: `add_up`, `merge`, `finish`.

    Each step returns a table with one row per group.
    """

    log: Log
    sums: Sequence[MetricSum]
    #: Whether to warn about missing labels and about runs with different queries.
    warns: bool = True

    @classmethod
    def of(cls, log: Log) -> Means:
        """Return the means of the metrics of a log."""
        for column in log.definitions:
            if not isinstance(column.metric, Metric) and not _is_scalar(column.metric):
                raise ArgumentError(
                    f"metric {column.name!r} (`metrics`) must aggregate to one value per ranking, "
                    f"such as a sum; found {column.metric}"
                )
        return cls(log, [MetricSum.of(each, log) for each in log.definitions])

    def check_numbers(self, rankings: pl.LazyFrame, names: Mapping[str, str] | None = None) -> None:
        """Raise `SchemaError` if the values of a user's expression have no mean.

        `names` maps columns to the names of metrics in errors. Default: all columns, under their
        own names.
        """
        own = [each.name for each in self.log.definitions if not isinstance(each.metric, Metric)]
        schema = rankings.collect_schema() if own else {}
        shown = {name: name for name in own} if names is None else names
        for name in filter(shown.__contains__, own):
            dtype = schema[name]
            summable = dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)
            if not summable and (self.log.weight is not None or not dtype.is_temporal()):
                raise SchemaError(
                    f"metric {shown[name]!r} must be numeric to have a mean; found {dtype}; "
                    "cast it to Float64, or use per_query"
                )

    def add_up(self, rankings: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over a part of the rankings."""
        query_set = self.log.conventions.query_set
        queries = pl.len() if query_set == "all" else COUNTED[query_set].sum()
        sums = [each for metric in self.sums for each in metric.sums]
        values = [queries.alias("queries"), *_COUNTS, *self._tied, *sums]
        return grouped(rankings, self.log.columns.by, values)

    def merge(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over all parts."""
        names = ["queries", JUDGED, RETRIEVED, MATCHED]
        sums = [each for metric in self.sums for each in metric.merge()]
        return grouped(parts, self.log.columns.by, [pl.col(names).sum(), *self._tied, *sums])

    @property
    def _tied(self) -> list[pl.Expr]:
        return [pl.col(TIED).min()] if self.log.breaks_ties_by_id else []

    def finish(self, sums: pl.LazyFrame) -> pl.LazyFrame:
        """Return the means from the sums over all rankings, sorted by group."""
        by, checks = self.log.columns.by, self._checks
        counts = {"queries": "queries"}
        if self.log.conventions.query_set != "all":
            counts |= {"queries_judged": JUDGED, "queries_retrieved": RETRIEVED}
        columns = [pl.col(own).alias(name) for name, own in counts.items()]
        means = [metric.mean for metric in self.sums]
        table = sums.select(*by, *columns, *means, failed(checks, "group"))
        return raise_failed(table, checks, keys={name: name for name in (*by, "queries")})

    @property
    def _checks(self) -> list[Check]:
        """The checks of groups."""
        log, checks, by = self.log, [], self.log.columns.by
        query_set, runs = log.conventions.query_set, log.runs if self.warns else []
        if by:
            message = (
                f"{', '.join(map(repr, by))} (`by`) is null for judged documents that were "
                "not retrieved, so that they belong to no group; pr.join_judgments(rankings, "
                "judgments) adds the judged documents to each group, or fill the column in for all "
                "rows of a query"
            )
            unknown = pl.any_horizontal(pl.col(name).is_null() for name in by)
            stray = unknown & (pl.col(JUDGED) > 0) & (pl.col(RETRIEVED) == 0)
            checks.append(Check("group", stray, message))
        if self.warns and any(each.reads_labels for each in log.definitions):
            label = repr(log.given["label"])
            message = (
                f"no document has a label (column {label}), so metrics are 0 or undefined; "
                "check that the labels were joined by the right keys"
            )
            no_labels = (pl.col(JUDGED) == 0) & (pl.col("queries") > 0)
            checks.append(Check("group", no_labels, message, warns=True))
            checks += self._undefined_checks(label)
            message = (
                f"no retrieved document has a label (column {label}), although other "
                "documents have one; check that the ids of rankings and judgments match"
            )
            judged, retrieved, matched = (
                self._of_groups(pl.col(name), pl.Expr.sum, runs)
                for name in (JUDGED, RETRIEVED, MATCHED)
            )
            unmatched = (judged > 0) & (retrieved > 0) & (matched == 0)
            if not getattr(source_of_rows(log.table, []), "checks_ids", False):
                checks.append(Check("group", unmatched, message, warns=True))
        if runs and query_set in _WITH_EMPTY:
            queries, retrieved = (
                self._of_groups(pl.col(name).cast(pl.Int64), pl.Expr.sum, runs)
                for name in ("queries", RETRIEVED)
            )
            checks.append(Check("group", 2 * retrieved < queries, _EMPTY, warns=True))
        if log.breaks_ties_by_id:
            message = (
                "in each ranking, all documents have the same score, so their ids decide the order "
                "and the values of metrics; check the scores, or pass ties='expected' for the mean "
                "over all orders"
            )
            tied = self._of_groups(pl.col(TIED), pl.Expr.min, runs)
            checks.append(Check("group", tied.fill_null(value=False), message, warns=True))
        if runs:
            score = log.given["position"] or log.given["score"]
            needed = log.given["label"] if query_set == "judged" else score
            column = pl.col(needed.removeprefix("-")) if isinstance(needed, str) else needed
            counted = f"log.drop_nulls({column.meta.root_names()})"
            counted = "log" if query_set == "all" else counted
            others = [name for name in by if name not in runs]
            query = [*others, *log.columns.query]
            different = self._of_groups(pl.col("queries"), pl.Expr.n_unique, others)
            message = (
                "the runs were evaluated on different numbers of queries; to keep the queries that "
                f"all runs have, pass {of_all_runs('log', counted, runs, query)}"
            )
            checks.append(Check("group", different > 1, message, warns=True))
        return checks

    def _of_groups(
        self, value: pl.Expr, aggregate: Callable[[pl.Expr], pl.Expr], same: Sequence[str]
    ) -> pl.Expr:
        """Return an aggregate of the groups that have the same values in some columns of `by`."""
        if {*self.log.columns.by} <= {
            *same
        }:  # one row; an aggregate would need another pass over it
            return value
        return aggregate(value).over(same) if same else aggregate(value)

    def _undefined_checks(self, label: str) -> Iterator[Check]:
        """Yield the checks that metrics are defined somewhere if undefined values are replaced."""
        queries = self._of_groups(pl.col("queries"), pl.Expr.sum, [])
        for metric, each in zip(self.sums, self.log.definitions, strict=True):
            if isinstance(each.counts_as, float):
                nulls = self._of_groups(metric.columns[2], pl.Expr.sum, [])
                leaf = each.metric.definition if isinstance(each.metric, Metric) else None
                reason = "" if leaf is None or leaf.undefined is None else f": {leaf.undefined}"
                message = (
                    f"metric {each.name!r} is undefined for all rankings{reason}; each counts as "
                    f"{each.counts_as:g} (`undefined`); check the labels (column {label}), or "
                    "pass `rel`"
                )
                nowhere = (nulls == queries) & (queries > 0)
                yield Check("group", nowhere, message, warns=True)


class MetricSum(NamedTuple):
    """The sum of one metric over rankings: mean or total, weight, and number of nulls."""

    #: Whether the result is a total.
    is_total: bool
    #: Aggregations of the rankings of a part: the value, its weight, and the number of nulls.
    sums: Sequence[pl.Expr]
    #: The result, a mean or a total, as an expression over these columns.
    mean: pl.Expr

    @classmethod
    def of(cls, definition: Definition, log: Log) -> MetricSum:
        """Return the sum of a metric of a log."""
        name, undefined, weight = definition.name, definition.counts_as, log.weight
        is_metric = isinstance(definition.metric, Metric)
        aggregate = definition.conventions.aggregate(definition.metric)
        values, weights = pl.col(name), None if weight is None else pl.col(weight).cast(pl.Float64)
        is_exact = is_metric and aggregate != "sum"
        if isinstance(undefined, float) and not (is_exact and undefined == 0 and weights is None):
            values = values.fill_null(undefined)  # a sum skips nulls, so they may count as 0
        summed = values if weights is None else values * weights
        counted = partial(_counted, log.conventions.query_set)
        columns = [f"{OWN}{part} {name}" for part in ("value", "weight", "nulls")]
        total = _sum(counted(summed)) if is_exact else counted(summed).sum()
        known = counted(pl.col(name))
        number = known.len() if isinstance(undefined, float) else known.count()
        if weights is not None:
            number = _sum(counted(pl.when(values.is_not_null()).then(weights)))
        if aggregate != "sum":
            # Users' own expressions may be dates, which have a mean but no sum.
            is_date = not is_metric and weights is None
            total = counted(values).mean() if is_date else ratio(total, number)
        sums = _named(columns, total, number, known.null_count())
        mean, nulls = pl.col(columns[0]), pl.col(columns[2])
        mean = mean.exp() if aggregate == "geometric" else mean
        mean = pl.when(nulls == 0).then(mean) if undefined == "null" else mean
        return cls(aggregate == "sum", sums, mean.alias(name))

    @property
    def columns(self) -> list[pl.Expr]:
        """The columns with the results of `sums`."""
        return [pl.col(each.meta.output_name()) for each in self.sums]

    def merge(self) -> list[pl.Expr]:
        """Return aggregations of the sums of several parts."""
        value, weight, nulls = self.columns
        total = value.sum() if self.is_total else ratio((value * weight).sum(), weight.sum())
        return [total, weight.sum(), nulls.sum()]


def _sum(values: pl.Expr) -> pl.Expr:
    """Return the sum of values, which does not depend on the order of rows.

    The multiples of 2^-20 are added without rounding if they sum to less than 2^33. What is left
    is so small that the rounding of its sum almost never shows in the result. The rest of an
    infinite value is NaN.
    """
    values = values.cast(pl.Float64)  # of conditions
    coarse = (values + _SHIFT) - _SHIFT
    return coarse.sum() + (values - coarse).sum().fill_nan(0.0)


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
