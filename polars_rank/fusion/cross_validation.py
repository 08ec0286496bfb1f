"""The evaluation of candidates for a fusion: means per fold, the choice, held-out values."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.checks import raise_failed
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError, DataError, number_of
from polars_rank.evaluation.evaluate import per_query
from polars_rank.fusion.combination import LABEL, Combination
from polars_rank.fusion.fuse import check_runs, checks_of_log
from polars_rank.fusion.methods import POINTS, RANK, WEIGHT, total
from polars_rank.io.parquet import memory_bytes
from polars_rank.metrics.names import lower_is_better, output_name
from polars_rank.stats.query_hash import mixed, query_key

if TYPE_CHECKING:
    from polars_rank.columns import Columns
    from polars_rank.fusion.methods import Fusion

CANDIDATE, PROCEDURE, TUNED, UNWEIGHTED = "candidate", "procedure", "tuned", "unweighted"

#: Approximate bytes of memory for each row of a candidate while it is evaluated.
_ROW_BYTES = 300
#: The maximum number of candidates.
_MOST = 1000
_FOLD, _KEY, _SUM, _COUNT, _DOCUMENT, _RUN = (
    OWN + name for name in ("fold", "key", "sum", "count", "document", "run")
)


@dataclass(frozen=True)
class CrossValidation:
    """The rows of one group of a log, the candidates for them, and the folds of their queries.

    The columns are those of rankings in the group: it has no keys of groups.
    """

    columns: Columns
    run: str
    metric: pl.Expr
    methods: Sequence[Fusion]
    #: The number of steps of weights from 0 to 1; None if no weights are tuned.
    steps: int | None
    cluster: tuple[str, ...]
    folds: int
    conventions: Conventions
    rows: pl.DataFrame = field(default_factory=pl.DataFrame)
    #: The points of the last method.
    _last_points: dict[Fusion, tuple[Combination, pl.DataFrame, pl.DataFrame]] = field(
        default_factory=dict, init=False
    )

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

    @property
    def value(self) -> pl.Expr:
        """The metric as a column of per-query values."""
        return pl.col(output_name(self.metric)).cast(pl.Float64)

    @cached_property
    def runs(self) -> list[str]:
        """The names of the runs."""
        names = self.rows.get_column(self.run).unique().cast(pl.String)
        runs = names.drop_nulls().sort().to_list()
        reserved = [run for run in (TUNED, UNWEIGHTED) if run in runs]
        if reserved:
            raise DataError(
                f"column {self.run!r} (`run`) has a run {reserved[0]!r}, which is the name "
                "of a procedure of the result; rename the run"
            )
        for weights in ({}, *(each.weights for each in self.methods)):
            check_runs(self.run, runs, weights or ())
        return runs

    @cached_property
    def candidates(self) -> list[Fusion]:
        """The candidates; raise if they are too many, or if a run has no weight."""
        tuned = [self.steps is not None and each.has_free_weights for each in self.methods]
        weights = (
            1 if self.steps is None else math.comb(self.steps + len(self.runs) - 1, self.steps)
        )
        count = sum(weights if is_tuned else 1 for is_tuned in tuned)
        if count > _MOST:
            remedy = "pass fewer methods"
            if len(self.methods) <= _MOST:
                remedy = f"choose a larger `step` for {len(self.runs)} runs"
            raise ArgumentError(f"{count:,} candidates are more than {_MOST:,}; {remedy}")
        candidates: list[Fusion] = []
        for index, (method, is_tuned) in enumerate(zip(self.methods, tuned, strict=True)):
            if is_tuned and self.steps is not None:
                for steps in combinations_with_replacement(self.runs, self.steps):
                    shares = {run: steps.count(run) / self.steps for run in self.runs}
                    candidates.append(replace(method, weights=shares))
                continue
            missing = [run for run in self.runs if run not in (method.weights or self.runs)]
            if missing:
                raise DataError(
                    f"`candidates`[{index}] has no weight for the run {missing[0]!r}; add it to "
                    "its `weights`, or drop the rows of the run"
                )
            candidates.append(method)
        return candidates

    @cached_property
    def unweighted(self) -> Fusion:
        """The first method, with the same weight for each run."""
        method = self.methods[0]
        weights = dict.fromkeys(self.runs, 1.0) if method.rule.needs_weights else None
        return replace(method, weights=weights)

    @cached_property
    def clusters(self) -> pl.DataFrame:
        """The clusters of queries; raise `DataError` if a query is in several."""
        of_queries = self.rows.select([*dict.fromkeys([*self.keys, *self.cluster])]).unique()
        several = of_queries.filter(pl.struct(self.keys).is_duplicated()).sort(pl.all())
        if not several.is_empty():
            raise DataError(
                f"{number_of(several.select(self.keys).n_unique(), 'query', 'queries')} in "
                f"several clusters (`cluster`), as {several.row(0, named=True)}; a query has one "
                "cluster in all rows"
            )
        return of_queries

    @cached_property
    def folds_of_queries(self) -> pl.DataFrame:
        """The queries with their folds; queries of a cluster are in the same fold."""
        queries = self.rows.select(self.keys).unique()
        hashes = mixed(query_key(self.columns.query, queries.schema))
        if self.cluster:
            queries = queries.join(self.clusters, on=self.keys, nulls_equal=True)
            has_cluster = pl.all_horizontal(pl.col(each).is_not_null() for each in self.cluster)
            of_cluster = mixed(query_key(self.cluster, queries.schema))
            hashes = pl.when(has_cluster).then(of_cluster).otherwise(hashes)
        folds = queries.select(*self.keys, (hashes.rank("dense") - 1).cast(pl.UInt32).alias(_KEY))
        units = folds.get_column(_KEY).n_unique()
        if units < self.folds:
            names = ("cluster", "clusters") if self.cluster else ("query", "queries")
            raise DataError(
                f"`folds` is {self.folds}, but there are only {number_of(units, *names)}; choose "
                "fewer folds, or tune on more queries"
            )
        return folds.select(*self.keys, (pl.col(_KEY) % self.folds).alias(_FOLD))

    def values_of(self, documents: pl.DataFrame, by: str) -> pl.DataFrame:
        """Return the metric of each ranking, with clusters of queries.

        Documents are sorted by `by` and query.
        """
        ranked = documents.lazy().set_sorted([by, *self.keys])
        options: dict[str, Any] = {"conventions": self.conventions, **self.names}
        values = per_query(ranked, self.metric, by=by, **options).collect()
        if not self.cluster:
            return values
        return values.join(self.clusters, on=self.keys, how="left", nulls_equal=True)

    def values(self, numbers: Sequence[int]) -> Iterator[pl.DataFrame]:
        """Yield batches of per-query values of candidates, by their numbers.

        The number after that of the last candidate is that of the fusion without weights.
        """
        every = [*self.candidates, self.unweighted]
        members: dict[Fusion, list[int]] = {}
        for number in numbers:
            members.setdefault(replace(every[number], weights=None), []).append(number)
        for fusion, group in members.items():
            combination, rows, documents = self._points(fusion)
            size = max(1, memory_bytes(None) // (_ROW_BYTES * max(1, documents.height)))
            for start in range(0, len(group), size):
                batch, plans = group[start : start + size], []
                for number in batch:
                    of_run = every[number].weights or dict.fromkeys(self.runs, 1.0)
                    weights = pl.Series([of_run[run] for run in self.runs], dtype=pl.Float64)
                    weight = pl.lit(weights).gather(_RUN).alias(WEIGHT.meta.output_name())
                    plans.append(combination.scores(rows.lazy().with_columns(weight), _DOCUMENT))
                fused = pl.concat(
                    documents.select(
                        pl.lit(number, pl.UInt32).alias(CANDIDATE), pl.all(),
                        scores.to_series().alias(self.columns.score),
                    )
                    for number, scores in zip(batch, pl.collect_all(plans), strict=True)
                )  # fmt: skip
                yield self.values_of(fused, CANDIDATE)

    def _points(self, fusion: Fusion) -> tuple[Combination, pl.DataFrame, pl.DataFrame]:
        """Return the points that runs give to documents, and the documents, sorted by query.

        Rows of points have the numbers of the document, by which they are sorted, and of the run.
        They do not depend on weights. Those of the last method are kept.
        """
        if fusion in self._last_points:
            return self._last_points[fusion]
        self._last_points.clear()
        columns, log = self.columns, self.rows.lazy()
        pair = [*self.keys, str(columns.doc)]
        checks = checks_of_log(columns, self.run, fusion)
        combination = Combination(fusion, columns, self.run, None, checks, keeps_runs=False)
        distinct = combination.distinct(log.select(combination.inputs), self.keys)
        scored = combination.scored(distinct, self.keys).collect().lazy()
        where = {key: key for key in columns.pair}
        checked = raise_failed(combination.combined(scored, self.keys), checks, log=log, keys=where)
        label = LABEL.cast(pl.Float64).alias(columns.label)
        documents = checked.select(*pair, label).sort(pair).with_row_index(_DOCUMENT).collect()
        run = pl.col(self.run).replace_strict(
            self.runs, range(len(self.runs)), return_dtype=pl.UInt32
        )
        rows = (
            scored.select(*pair, run.alias(_RUN), RANK, POINTS)
            .join(documents.lazy().select(*pair, _DOCUMENT), on=pair, nulls_equal=True)
            .drop(pair)
            .sort(_DOCUMENT, _RUN)
        )
        self._last_points[fusion] = combination, rows.collect(), documents.drop(_DOCUMENT)
        return self._points(fusion)

    def single_runs(self) -> pl.DataFrame:
        """Return the documents of the runs, each with all queries and all judged documents.

        A run that has no rows for a query has retrieved nothing for it.
        """
        columns, keys = self.columns, self.keys
        pair, label, score = [*keys, str(columns.doc)], pl.col(columns.label), pl.col(columns.score)
        rows = self.rows.select(
            pl.col(self.run).cast(pl.String).alias(PROCEDURE), *pair,
            *(columns.number(each).cast(pl.Float64).alias(each)
              for each in (columns.score, columns.label)),
        )  # fmt: skip
        judged = rows.drop_nulls(columns.label).group_by(pair).agg(label.max())
        retrieved = rows.drop_nulls(columns.score).group_by(PROCEDURE, *pair).agg(score.max())
        every = rows.select(keys).unique().join(pl.DataFrame({PROCEDURE: self.runs}), how="cross")
        every = every.join(judged, on=keys, how="left", nulls_equal=True)
        both = retrieved.join(
            every, on=[PROCEDURE, *pair], how="full", coalesce=True, nulls_equal=True
        )
        return both.sort(PROCEDURE, *keys)

    @cached_property
    def sums(self) -> pl.DataFrame:
        """The sum and the number of the values of each candidate in each fold."""
        sums = [total(self.value).alias(_SUM), self.value.count().alias(_COUNT)]
        return pl.concat(
            values.join(self.folds_of_queries, on=self.keys, nulls_equal=True)
            .group_by(CANDIDATE, _FOLD)
            .agg(sums)
            for values in self.values(range(len(self.candidates)))
        )

    def best(self, without: int | None = None) -> int:
        """Return the candidate with the best mean over all folds but one; ties: the first one."""
        number = pl.col(_COUNT).sum()
        means = (
            self.sums.filter(pl.col(_FOLD) != (self.folds if without is None else without))
            .group_by(CANDIDATE)
            .agg(pl.when(number > 0).then(total(pl.col(_SUM)) / number).alias("mean"))
            .drop_nulls()
            .sort("mean", CANDIDATE, descending=[not lower_is_better(self.metric), False])
        )
        if means.is_empty():
            raise DataError("`metric` is undefined for all queries of a training set; judge more")
        return int(means.item(0, CANDIDATE))

    @cached_property
    def chosen(self) -> list[int]:
        """The candidate chosen for each fold, on the queries of the others."""
        return [self.best(without=fold) for fold in range(self.folds)]

    def held_out(self) -> pl.DataFrame:
        """Return per-query values of all procedures; those of "tuned" are held out."""
        unweighted = len(self.candidates)
        values = pl.concat(self.values([*sorted({*self.chosen}), unweighted]))
        choice = pl.DataFrame(
            {_FOLD: range(self.folds), CANDIDATE: self.chosen},
            {_FOLD: pl.UInt32, CANDIDATE: pl.UInt32},
        )
        tuned = values.join(
            self.folds_of_queries.join(choice, on=_FOLD), on=[*self.keys, CANDIDATE],
            nulls_equal=True,
        )  # fmt: skip
        parts = {TUNED: tuned, UNWEIGHTED: values.filter(pl.col(CANDIDATE) == unweighted)}
        named = [
            part.select(pl.lit(name).alias(PROCEDURE), pl.exclude(CANDIDATE, _FOLD))
            for name, part in parts.items()
        ]
        singles = self.values_of(self.single_runs(), PROCEDURE)
        return pl.concat([*named, singles.select(named[0].columns)])

    def corrected(self, values: pl.DataFrame, best: str | None = None) -> pl.DataFrame:
        """Return per-query values for intervals that account for training queries in common.

        The means of two folds are correlated, as the queries of each fold take part in the choice
        for the other one. With the correlation 1 / folds, the variance of their mean is that of
        independent values times 1 + (folds - 1) / folds. The deviations of "tuned" from its mean,
        or from its mean difference from the run `best`, are multiplied by the root of that.
        """
        is_tuned, base = pl.col(PROCEDURE) == TUNED, pl.lit(0.0)
        if best is not None:
            base = self.value.filter(pl.col(PROCEDURE) == best).first().over(self.keys)
        difference = self.value - base
        mean = difference.filter(is_tuned).mean()
        factor = math.sqrt(1 + (self.folds - 1) / self.folds)
        corrected = base + mean + factor * (difference - mean)
        every = pl.when(is_tuned).then(corrected).otherwise(self.value)
        return values.with_columns(every.alias(output_name(self.metric)))
