"""The evaluation of candidates for a fusion: means per fold, the choice, held-out values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.checks import raise_failed
from polars_rank.conventions import Conventions
from polars_rank.errors import DataError, number_of
from polars_rank.evaluation.evaluate import per_query
from polars_rank.fusion.candidates import Choices
from polars_rank.fusion.fuse import Runs, checks_of_log, fuse
from polars_rank.fusion.methods import POINTS, RANK, WEIGHT, total
from polars_rank.fusion.plan import LABEL, Plan
from polars_rank.io.parquet import memory_bytes
from polars_rank.metrics.names import lower_is_better, output_name
from polars_rank.stats.query_hash import mixed, query_key
from polars_rank.stats.value_columns import Variable

if TYPE_CHECKING:
    from polars_rank.columns import Columns
    from polars_rank.fusion.parameters import Fusion

CANDIDATE, PROCEDURE, TUNED, UNWEIGHTED = "candidate", "procedure", "tuned", "unweighted"

#: Approximate bytes of memory for each row of a candidate while it is evaluated.
_ROW_BYTES = 300
_FOLD, _KEY, _SUM, _COUNT, _DOCUMENT, _RUN, _BEST = (
    OWN + name for name in ("fold", "key", "sum", "count", "document", "run", "best")
)


class Points(NamedTuple):
    """The points that runs give to documents, which do not depend on weights."""

    plan: Plan
    #: Ranks and points with the numbers of documents, by which they are sorted, and of runs.
    rows: pl.DataFrame
    #: The documents, sorted by query.
    documents: pl.DataFrame

    def fused(self, weights: Mapping[int, Sequence[float]]) -> pl.DataFrame:
        """Return the documents of candidates with weights of runs, by candidate and query."""
        score, rows = self.plan.columns.score, self.rows.lazy()
        plans = []
        for of_runs in weights.values():
            weight = pl.lit(pl.Series(of_runs, dtype=pl.Float64)).gather(_RUN)
            weighted = rows.with_columns(weight.alias(WEIGHT.meta.output_name()))
            plans.append(self.plan.scores(weighted, _DOCUMENT))
        return pl.concat(
            self.documents.select(
                pl.lit(number, pl.UInt32).alias(CANDIDATE), pl.all(),
                scores.to_series().alias(score),
            )
            for number, scores in zip(weights, pl.collect_all(plans), strict=True)
        )  # fmt: skip


@dataclass(frozen=True)
class Log:
    """The rows of one group of a table, and the candidates for them.

    The columns are those of rankings in the group: it has no keys of groups.
    """

    columns: Columns
    run: str
    metric: pl.Expr
    choices: Choices
    cluster: tuple[str, ...]
    conventions: Conventions
    rows: pl.DataFrame = field(default_factory=pl.DataFrame)
    _last_points: dict[Fusion, Points] = field(default_factory=dict, init=False)

    @property
    def keys(self) -> list[str]:
        """The columns that identify a query."""
        return [*self.columns.keys]

    @property
    def names(self) -> dict[str, Any]:
        """The options that name the columns of documents."""
        return {
            "query": self.keys, "doc": self.columns.doc, "score": self.columns.score,
            "label": self.columns.label,
        }  # fmt: skip

    @cached_property
    def variable(self) -> Variable:
        """The metric as a column of per-query values."""
        return Variable(output_name(self.metric), lower_is_better(self.metric))

    def values_of(self, documents: pl.DataFrame, by: str) -> pl.DataFrame:
        """Return the metric of each ranking. Documents are sorted by `by` and query."""
        ranked = documents.lazy().set_sorted([by, *self.keys])
        return per_query(
            ranked, self.metric, by=by, **self.names, conventions=self.conventions
        ).collect()

    @cached_property
    def runs(self) -> list[str]:
        """The names of the runs."""
        names = self.rows.select(pl.col(self.run).cast(pl.String).unique()).to_series()
        runs = names.drop_nulls().sort().to_list()
        reserved = [run for run in (TUNED, UNWEIGHTED) if run in runs]
        if reserved:
            raise DataError(
                f"column {self.run!r} (`run`) has a run {reserved[0]!r}, which is the name "
                "of a procedure of the result; rename the run"
            )
        for weights in ({}, *(each.weights for each in self.choices.methods)):
            Runs(self.run, [*(weights or ())], None)(names.to_frame())
        return runs

    @cached_property
    def candidates(self) -> list[Fusion]:
        """The candidates."""
        return self.choices.list(self.runs)

    @cached_property
    def both(self) -> pl.DataFrame:
        """The documents of the runs and of their fusion without weights, after checks."""
        label = self.columns.label
        both = fuse(
            self.rows, self.choices.unweighted(self.runs), run=self.run, **self.names,
            name=OWN + "fused", keep_runs=True,
        )  # fmt: skip
        if both.get_column(label).null_count() == both.height:
            raise DataError(f"column {label!r} (`label`) has no labels; join the judgments first")
        return both.with_columns(pl.col(label).cast(pl.Float64))

    @cached_property
    def queries(self) -> pl.DataFrame:
        """The keys of the queries."""
        return self.both.select(self.keys).unique().sort(self.keys)

    @cached_property
    def clusters(self) -> pl.DataFrame:
        """The clusters of queries; raise `DataError` if a query is in several."""
        of_queries = self.rows.select([*dict.fromkeys([*self.keys, *self.cluster])]).unique()
        several = of_queries.filter(pl.struct(self.keys).is_duplicated()).sort(self.keys)
        if not several.is_empty():
            raise DataError(
                f"{number_of(several.select(self.keys).n_unique(), 'query', 'queries')} in "
                f"several clusters (`cluster`), as {several.row(0, named=True)}; a query has one "
                "cluster in all rows"
            )
        return of_queries

    def single_runs(self) -> pl.DataFrame:
        """Return the documents of the runs, each with all queries and all judged documents.

        A run that has no rows for a query has retrieved nothing for it.
        """
        columns = self.columns
        is_fused = pl.col(self.run) == OWN + "fused"
        kept = self.both.filter(~is_fused)
        pairs = self.queries.join(pl.DataFrame({self.run: self.runs}), how="cross")
        keys = [*self.keys, self.run]
        missing = pairs.join(kept, on=keys, how="anti", nulls_equal=True)
        judged = self.both.filter(is_fused & pl.col(columns.label).is_not_null())
        added = missing.join(
            judged.select(*self.keys, str(columns.doc), columns.label), on=self.keys,
            how="left", nulls_equal=True,
        )  # fmt: skip
        rows = pl.concat([kept, added], how="diagonal").rename({self.run: PROCEDURE})
        return rows.sort(PROCEDURE, *self.keys)

    def documents(self, numbers: Sequence[int]) -> Iterator[pl.DataFrame]:
        """Yield batches of the documents of fused rankings, with the numbers of candidates.

        The number after that of the last candidate is that of the fusion without weights.
        """
        every = [*self.candidates, self.choices.unweighted(self.runs)]
        members: dict[Fusion, list[int]] = {}
        for number in numbers:
            members.setdefault(replace(every[number], weights=None), []).append(number)
        for fusion, group in members.items():
            points = self._points(fusion)
            size = max(1, memory_bytes(None) // (_ROW_BYTES * max(1, points.documents.height)))
            for start in range(0, len(group), size):
                batch = {number: every[number].weights for number in group[start : start + size]}
                yield points.fused({
                    number: [1.0 if weights is None else weights[run] for run in self.runs]
                    for number, weights in batch.items()
                })  # fmt: skip

    def _points(self, fusion: Fusion) -> Points:
        """Return the points for parameters without weights. The last ones are kept."""
        if fusion in self._last_points:
            return self._last_points[fusion]
        self._last_points.clear()
        columns = self.columns
        pair = [*self.keys, str(columns.doc)]
        checks = checks_of_log(columns, self.run, fusion)
        plan = Plan(fusion, columns, self.run, None, checks, keeps_runs=False)
        scored = plan.scored(self.rows.lazy().select(plan.inputs)).collect()
        checked = raise_failed(
            plan.combined(scored.lazy(), self.keys), checks,
            log=self.rows.lazy(), keys={key: key for key in columns.pair},
        )  # fmt: skip
        label = LABEL.cast(pl.Float64).alias(columns.label)
        documents = checked.select(*pair, label).sort(pair).with_row_index(_DOCUMENT).collect()
        run = pl.col(self.run).replace_strict(
            self.runs, range(len(self.runs)), return_dtype=pl.UInt32
        )
        numbers = documents.lazy().select(*pair, _DOCUMENT)
        rows = (
            scored.lazy()
            .select(*pair, run.alias(_RUN), RANK, POINTS)
            .join(numbers, on=pair, nulls_equal=True)
            .drop(pair)
            .sort(_DOCUMENT, _RUN)
        )
        points = Points(plan, rows.collect(), documents.drop(_DOCUMENT))
        self._last_points[fusion] = points
        return points

    def values(self, numbers: Sequence[int]) -> Iterator[pl.DataFrame]:
        """Yield batches of per-query values of candidates."""
        for documents in self.documents(numbers):
            yield self.values_of(documents, CANDIDATE)


@dataclass(frozen=True)
class Folds:
    """The folds of the queries of a log, and the candidates chosen without each of them."""

    log: Log
    count: int

    @cached_property
    def of_queries(self) -> pl.DataFrame:
        """The queries with their folds; queries of a cluster are in the same fold."""
        log, queries = self.log, self.log.queries
        hashes = _hash(queries, log.columns.query)
        if log.cluster:
            queries = queries.join(log.clusters, on=log.keys, nulls_equal=True)
            has_cluster = pl.all_horizontal(pl.col(each).is_not_null() for each in log.cluster)
            of_cluster = _hash(queries, log.cluster)
            hashes = pl.when(has_cluster).then(of_cluster).otherwise(hashes)
        folds = queries.select(*log.keys, (hashes.rank("dense") - 1).cast(pl.UInt32).alias(_KEY))
        units = folds.get_column(_KEY).n_unique()
        if units < self.count:
            unit = "cluster" if log.cluster else "query"
            plural = "clusters" if log.cluster else "queries"
            raise DataError(
                f"`folds` is {self.count}, but there are only {number_of(units, unit, plural)}; "
                "choose fewer folds, or tune on more queries"
            )
        return folds.select(*log.keys, (pl.col(_KEY) % self.count).alias(_FOLD))

    @cached_property
    def sums(self) -> Mapping[int, Mapping[int, tuple[float, int]]]:
        """The sum and the number of the values of each candidate in each fold."""
        log, sums = self.log, dict[int, dict[int, tuple[float, int]]]()
        for values in log.values(range(len(log.candidates))):
            value = log.variable.value
            table = (
                values.join(self.of_queries, on=log.keys, nulls_equal=True)
                .group_by(CANDIDATE, _FOLD)
                .agg(total(value).alias(_SUM), value.count().alias(_COUNT))
            )
            parts = table.select(CANDIDATE, _FOLD, _SUM, _COUNT)
            for number, fold, of_values, count in parts.iter_rows():
                sums.setdefault(number, {})[fold] = of_values, count
        return sums

    def best(self, without: int | None = None) -> int:
        """Return the candidate with the best mean over all folds but one; ties: the first one."""
        means = {}
        for number in range(len(self.log.candidates)):
            parts = [part for fold, part in self.sums.get(number, {}).items() if fold != without]
            if count := sum(each for _, each in parts):
                means[number] = math.fsum(total for total, _ in parts) / count
        if not means:
            raise DataError("`metric` is undefined for all queries of a training set; judge more")
        lower = self.log.variable.lower_is_better
        return min(means, key=lambda number: (means[number] if lower else -means[number], number))

    @cached_property
    def chosen(self) -> list[int]:
        """The candidate chosen for each fold, on the queries of the others."""
        return [self.best(without=fold) for fold in range(self.count)]

    @cached_property
    def winner(self) -> int:
        """The candidate chosen on all queries."""
        return self.best()

    def held_out(self) -> pl.DataFrame:
        """Return per-query values of all procedures; those of "tuned" are held out."""
        log = self.log
        unweighted = len(log.candidates)
        values = pl.concat(log.values([*sorted({*self.chosen}), unweighted]))
        choice = pl.DataFrame(
            {_FOLD: range(self.count), CANDIDATE: self.chosen},
            {_FOLD: pl.UInt32, CANDIDATE: pl.UInt32},
        )
        keys = log.keys
        tuned = values.join(
            self.of_queries.join(choice, on=_FOLD), on=[*keys, CANDIDATE], nulls_equal=True
        )
        parts = {TUNED: tuned, UNWEIGHTED: values.filter(pl.col(CANDIDATE) == unweighted)}
        named = [
            part.select(pl.lit(name).alias(PROCEDURE), pl.exclude(CANDIDATE, _FOLD))
            for name, part in parts.items()
        ]
        singles = log.values_of(log.single_runs(), PROCEDURE)
        return pl.concat([*named, singles.select(named[0].columns)])

    def corrected(self, values: pl.DataFrame, best: str | None = None) -> pl.DataFrame:
        """Return per-query values for intervals that account for training queries in common.

        The means of two folds are correlated, as the queries of each fold take part in the choice
        for the other one. With the correlation 1 / folds, the variance of their mean is that of
        independent values times 1 + (folds - 1) / folds. The deviations of "tuned" from its mean,
        or from its mean difference from the run `best`, are multiplied by the root of that.
        """
        variable, keys = self.log.variable, self.log.keys
        name = variable.name
        is_tuned, baseline = pl.col(PROCEDURE) == TUNED, pl.lit(0.0)
        tuned = values.filter(is_tuned).with_columns(variable.value)
        if best is not None:
            of_best = values.filter(pl.col(PROCEDURE) == best)
            of_best = of_best.select(*keys, variable.value.alias(_BEST))
            tuned = tuned.join(of_best, on=keys, how="left", nulls_equal=True)
            baseline = pl.col(_BEST)
        difference = pl.col(name) - baseline
        factor = math.sqrt(1 + (self.count - 1) / self.count)
        deviation = factor * (difference - difference.mean())
        tuned = tuned.with_columns((baseline + difference.mean() + deviation).alias(name))
        others = values.filter(~is_tuned).with_columns(pl.col(name).cast(pl.Float64))
        return pl.concat([tuned.select(values.columns), others])

    def documents(self) -> pl.DataFrame:
        """Return the documents of all procedures; "tuned" has the candidate of all queries."""
        log, unweighted = self.log, len(self.log.candidates)
        fused = [
            documents.with_columns(pl.lit(name).alias(PROCEDURE)).drop(CANDIDATE)
            for name, number in ((TUNED, self.winner), (UNWEIGHTED, unweighted))
            for documents in log.documents([number])
        ]
        return pl.concat([*fused, log.single_runs().select(fused[0].columns)])


def _hash(queries: pl.DataFrame, names: Sequence[str]) -> pl.Expr:
    key = query_key(names, [queries.schema.get(name) or pl.Null() for name in names])
    hashes: pl.Expr = mixed(key)
    return hashes
