"""`system_agreement`: how far judges agree on the order of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import Names, free, integer, names, share, whole_number
from polars_rank.columns import Columns
from polars_rank.errors import DataError, number_of, warn
from polars_rank.frames.tables import framed, schema_of
from polars_rank.judges.bootstrap import FEW, Bootstrap, clusters, noted, warn_of_few
from polars_rank.judges.labels import check_judges
from polars_rank.stats._arrays import Array, np
from polars_rank.stats.comparison import Comparison
from polars_rank.stats.result_columns import deferred
from polars_rank.stats.rows import rows_of_pairs
from polars_rank.stats.value_columns import Variable, check_run
from polars_rank.stats.values import Group, Values

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics

#: The correlations, in the order of results.
CORRELATIONS = ("tau_b", "tau_ap")
#: Means that differ by less, relative to the largest mean, are tied: they differ by rounding.
_TIE = 1e-12
#: Number of pairs of runs that are compared at once.
_CELLS = 2**22
_WINNERS = ("same_winner", "opposite_winner")
#: The columns of the result after those of `by`.
_SCHEMA = {
    **dict.fromkeys(("metric", "judge", "reference", "statistic"), pl.String()),
    **dict.fromkeys(("value", "low", "high"), pl.Float64()),
    **dict.fromkeys(("runs", "queries"), pl.Int64()),
    "note": pl.String(),
}
#: A larger share of the reference's queries without values of both judges leads to a warning.
_MOST_DROPPED = 0.05
#: Number of groups that a warning names.
_EXAMPLES = 5


@framed
def system_agreement(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    judge: str = "judge",
    reference: Any,
    run: str = "run",
    query: Names = "query",
    by: Names | None = None,
    weight: str | None = None,
    cluster: Names | None = None,
    confidence: float = 0.95,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> pl.LazyFrame:
    r"""Compute how far judges agree on the order of runs, with confidence intervals.

    The means of the runs are those of the queries for which all runs have a value from both judges.
    For n runs, the AP correlation of the judge's order with the reference is

    $$\tau_{AP} = \frac{2}{n - 1} \sum_{i=2}^{n} \frac{C_i}{i - 1} - 1$$

    where $C_i$ is the number of runs above the run at rank i of the judge's order that the
    reference also has above it.

    Examples
    --------
    >>> values = pl.DataFrame({
    ...     "run": ["a", "b", "c"] * 80,
    ...     "query": [query for query in range(40) for _ in range(3)] * 2,
    ...     "judge": ["human"] * 120 + ["llm"] * 120,
    ...     "rr": [0.2, 0.5, 1, 0.3, 0.5, 0.5] * 20
    ...     + [0.2, 1, 0.5, 0.3, 0.5, 0.5] * 20,
    ... })
    >>> table = pr.judges.system_agreement(values, reference="human")
    >>> table.select("statistic", "value")
    shape: (4, 2)
    ┌─────────────────┬──────────┐
    │ statistic       ┆ value    │
    │ ---             ┆ ---      │
    │ str             ┆ f64      │
    ╞═════════════════╪══════════╡
    │ tau_b           ┆ 0.333333 │
    │ tau_ap          ┆ 0.0      │
    │ same_winner     ┆ 0.666667 │
    │ opposite_winner ┆ 0.333333 │
    └─────────────────┴──────────┘

    Parameters
    ----------
    values
        Per-query values of several runs under several judges, as `per_query` returns them with
        `by="judge"`: one row per query, run and judge, one column per metric.
    metrics
        Metrics, by name or as expressions. Default: all columns of floats. If a lower value of a
        metric is better, the run with the lowest mean is the best.
    judge
        Column of the judge.
    reference
        The judge with which the others are compared.
    run
        Column of the run.
    query
        Column or columns that identify the query.
    by
        Columns to group by.
    weight
        Column of weights, 0 or more, such as the traffic of the query.
    cluster
        Columns that identify the sampling unit, such as the user.
    confidence
        Confidence level. It is also that of the comparisons of pairs of runs.
    n_resamples
        Number of bootstrap resamples.
    seed
        Random seed.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`, in the order of `by`, metrics and judges. One row for each group,
        metric, judge other than the reference, and statistic, with the columns of `by` and

        - `metric`; `judge`, `reference`: the judges, as text;
        - `statistic`, `value`: see below;
        - `low`, `high`: the bounds of the confidence interval; null for the shares of pairs;
        - `runs`, `queries`: the numbers of runs and of queries that are compared;
        - `note`: why a value or a bound is null, or in how many resamples the value is undefined.

        The statistics are

        - `tau_b`: Kendall's tau_b, for ties in both orders;
        - `tau_ap`: the AP correlation of the judge's order with the reference: errors among the
          first runs count more. With tied runs, it is the mean over all their orders;
        - `same_winner`, `opposite_winner`: the shares of all pairs of runs in which `compare` finds
          a better run from the values of each judge, and it is the same run, or the other one. In
          the remaining pairs, the values of a judge do not show which run is better.

    Raises
    ------
    DataError
        There are no values of `reference` or of another judge; a run of a group has values of only
        one of two judges; a query occurs twice, or has different weights or clusters. Raised when
        the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        More than 5% of the reference's queries are not compared, because a run has no value of the
        other judge; the other judge's further queries do not matter. Or there are fewer than 30
        queries or clusters, for which the intervals are too narrow. Issued when the result is
        collected.

    Notes
    -----
    The bootstrap draws queries or clusters with Poisson weights, the same for both judges and all
    runs; bounds are quantiles of the resampled values. Each resample adds noise to the means, so
    that agreement is lower in resamples than in the table if runs are close to each other, and the
    intervals are wide. With more than 16,384 queries, it draws groups of queries that are formed at
    random. In simulations with 5 to 20 runs and 50 to 200 queries, 95% intervals contained the
    value for many queries in 94% to 100% of cases. Means that are equal up to rounding are tied.

    Pairs of runs are compared as `compare` compares all pairs of one metric, over the queries that
    count for both judges.

    References
    ----------
    Kendall, The treatment of ties in ranking problems, 1945; Yilmaz, Aslam & Robertson, A new rank
    correlation coefficient for information retrieval, 2008; Urbano & Marrero, The treatment of ties
    in AP correlation, 2017; Faggioli et al., Perspectives on large language models for relevance
    judgment, 2023.
    """
    share("confidence", confidence)
    whole_number("n_resamples", n_resamples)
    bootstrap = Bootstrap(n_resamples, integer("seed", seed), confidence)
    schema = schema_of(values)
    groups = names("by", by)
    roles = {"judge": judge, "run": run, "query": query, "weight": weight, "cluster": cluster}
    Columns.find(schema, {**roles, "by": by}, optional=())
    check_run("reference", reference, judge, schema[judge])
    source = Values.of(
        values, metrics, run=run, query=query, by=(*groups, judge), weight=weight, cluster=cluster
    )
    free(groups, _SCHEMA)
    # A column "judge" may be another one than that of the judges.
    source = replace(source, by=(*groups, judge))
    types = {**{name: schema[name] for name in groups}, **_SCHEMA}

    def result() -> pl.DataFrame:
        rows = _Agreement(source, reference, bootstrap).rows()
        return pl.DataFrame([*rows], schema=types, orient="row")

    return deferred(result, types)


@dataclass
class _Agreement:
    """The runs of several judges, and how far the judges agree on them."""

    #: The values; the last column of `by` is that of the judges.
    source: Values
    reference: Any
    bootstrap: Bootstrap
    #: What most queries are missing of.
    dropped: list[str] = field(default_factory=list)
    fewest: int = FEW

    @property
    def judge(self) -> str:
        """The column of the judges."""
        return self.source.by[-1]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of all groups, metrics and judges; warn of few and of lost queries."""
        groups = [group for group in self.source.facts_and_groups()[1] if group.frame.height]
        by_key: dict[tuple[Any, ...], dict[Any, Group]] = {}
        for group in groups:
            group.check_unique()
            by_key.setdefault(group.key[:-1], {})[group.key[-1]] = group
        judges = self._judges({group.key[-1] for group in groups})
        for key, of_judges in by_key.items():
            self._check_runs(key, of_judges)
            for variable in self.source.metrics:
                for judge in judges:
                    yield from self._rows_of_judge(key, variable, judge, of_judges)
        if self.dropped:
            more = len(self.dropped) - _EXAMPLES
            warn(
                f"queries with values of the judge {self.reference!r} are not compared, because a "
                f"run has no value of one of the judges: {'; '.join(self.dropped[:_EXAMPLES])}"
                + (f"; and {more:,} more" if more > 0 else "")
            )
        warn_of_few(self.fewest, "clusters" if self.source.cluster else "queries")

    def _judges(self, found: set[Any]) -> list[Any]:
        """Return the judges other than the reference, in sorted order."""
        if None in found:
            raise DataError(
                f"column {self.judge!r} (`judge`) has nulls; drop these rows, or fill in a name"
            )
        judges = pl.Series([*found], dtype=self.source.schema[self.judge]).sort().to_list()
        if judges:
            check_judges(self.judge, judges, self.reference)
        return [each for each in judges if each != self.reference]

    def _check_runs(self, key: tuple[Any, ...], of_judges: Mapping[Any, Group]) -> None:
        """Raise `DataError` if a run of a group has values of only one of two judges."""
        if self.reference not in of_judges:
            return
        expected = of_judges[self.reference].rows
        for judge, group in of_judges.items():
            if lone := [*({*expected} ^ {*group.rows})]:
                example = next(run for run in (*expected, *group.rows) if run in lone)
                where = dict(zip(self.source.by[:-1], key, strict=True))
                raise DataError(
                    f"{number_of(len(lone), 'run')}{f' in {where}' if where else ''}, e.g. "
                    f"{example!r}, with values of only one of the judges {self.reference!r} and "
                    f"{judge!r}; drop them, or compute the values for both judges"
                )

    def _rows_of_judge(
        self, key: tuple[Any, ...], variable: Variable, judge: Any, of_judges: Mapping[Any, Group]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a judge."""
        some = next(iter(of_judges.values()))
        runs, nothing = len(some.rows), some.frame.clear()
        counts = pl.col(variable.name).is_not_null()
        if self.source.weight is not None:
            counts &= pl.col(self.source.weight) > 0
        order = [str(self.source.run), *self.source.query]
        known = [
            of_judges[name].frame.filter(counts).sort(order) if name in of_judges else nothing
            for name in (self.reference, judge)
        ]
        of_query = pl.len().over(self.source.query)
        common = pl.concat(known).filter(of_query == 2 * runs)
        queries = common.height // (2 * runs)
        total = known[0].select(self.source.query).n_unique()
        if total - queries > _MOST_DROPPED * total:
            where = zip([*self.source.by, "metric"], [*key, judge, variable.name], strict=True)
            text = ", ".join(f"{name} = {value!r}" for name, value in where)
            self.dropped.append(f"{text} ({total - queries:,} of {total:,})")
        for statistic, value, low, high, note in self._statistics(common, variable, runs):
            names_ = (*key, variable.name, str(judge), str(self.reference), statistic)
            yield (*names_, value, low, high, runs, queries, note)

    def _statistics(
        self, common: pl.DataFrame, variable: Variable, runs: int
    ) -> Iterator[tuple[Any, ...]]:
        """Yield each statistic with its value, bounds and note.

        `common` has the same queries for each judge and run, in this order.
        """
        if not common.height or runs < 2:
            note = "there is only one run"
            if not common.height:
                positive = "" if self.source.weight is None else " and a weight above 0"
                note = f"no query has values of both judges for all runs{positive}"
            yield from ((name, None, None, None, note) for name in (*CORRELATIONS, *_WINNERS))
            return
        group = Group(self.source, (), common)
        blocks = np.arange(common.height).reshape(2 * runs, -1)
        texts = common.select(self.judge, str(self.source.run))[blocks[:, 0]].rows()
        for block, text in zip(blocks, texts, strict=True):
            group.check_equal(blocks[0], block, texts[0], text)
        weights = np.ones(len(blocks[0])) if group.weights is None else group.weights[blocks[0]]
        values = group.column(variable.name)[blocks] * weights
        units = blocks[0] if group.units is None else group.units[blocks[0]]
        keys, cluster = clusters(units, 2 * runs + 1)
        sums = np.zeros((len(keys), 2 * runs + 1))
        np.add.at(sums, cluster, np.vstack([values, weights]).T)
        if len(blocks[0]) > 1:
            self.fewest = min(self.fewest, len(keys))
        estimates = self.bootstrap.estimates(
            keys, sums, lambda sums: correlations(sums, lower_is_better=variable.lower_is_better)
        )
        for name, numbers in zip(CORRELATIONS, estimates.T.tolist(), strict=True):
            yield name, *noted(numbers, "all runs are tied under one of the judges")
        shares, note = self._winners(common, variable)
        for name, value in zip(_WINNERS, shares, strict=True):
            yield name, value, None, None, note

    def _winners(
        self, common: pl.DataFrame, variable: Variable
    ) -> tuple[Sequence[float | None], str]:
        """Return the shares of pairs of runs with the same and opposite winners, and a note."""
        source = replace(self.source, table=common.lazy(), metrics=[variable], by=(self.judge,))
        rows = rows_of_pairs(source)
        comparison = Comparison(rows, self.bootstrap.confidence)
        p_values, sign = comparison.p_values, np.sign(rows.estimate.mean)
        signs = np.where(p_values < 1 - comparison.confidence, sign, 0 * p_values).reshape(2, -1)
        if unknown := int(np.isnan(signs).any(axis=0).sum()):
            return (None, None), f"no interval for {number_of(unknown, 'pair')} of runs"
        product = signs[0] * signs[1]
        shares = (product > 0).mean(), (product < 0).mean()
        return [*map(float, shares)], "shares of pairs have no interval"


def correlations(sums: Array, *, lower_is_better: bool = False) -> Mapping[str, Array]:
    """Return the correlations of sums over queries; NaN if they are undefined.

    The last axis has the sums of the runs under the reference, those of the same runs under the
    judge, and the sum of weights.
    """
    rows = sums.reshape(-1, sums.shape[-1])
    runs = rows.shape[1] // 2
    result = np.full((len(CORRELATIONS), len(rows)), np.nan)
    known = np.flatnonzero(rows[:, -1] > 0)
    step = max(1, _CELLS // runs**2)
    for start in range(0, len(known), step):
        block = known[start : start + step]
        means = rows[block, :-1] / rows[block, -1:]
        better = -means if lower_is_better else means
        reference, judge = _signs(better[:, :runs]), _signs(better[:, runs:])
        with np.errstate(invalid="ignore"):  # 0 / 0 is undefined
            result[:, block] = _tau_b(reference, judge), _tau_ap(reference, judge)
    shaped = (values.reshape(sums.shape[:-1]) for values in result)
    return dict(zip(CORRELATIONS, shaped, strict=True))


def _signs(means: Array) -> Array:
    """Return for each pair of runs 1 if the second is better, -1 if it is worse, 0 for ties."""
    order = np.argsort(-means, axis=1, kind="stable")
    ordered = np.take_along_axis(means, order, axis=1)
    differ = -np.diff(ordered, axis=1) > _TIE * abs(means).max(axis=1, keepdims=True)
    levels = np.zeros(means.shape, dtype=np.int64)
    np.put_along_axis(levels, order[:, 1:], differ.cumsum(axis=1), axis=1)
    return np.sign(levels[:, :, None] - levels[:, None, :])


def _tau_b(reference: Array, judge: Array) -> Array:
    """Return Kendall's tau_b."""
    difference = (reference * judge).sum(axis=(1, 2))
    untied = [np.count_nonzero(each, axis=(1, 2)).astype(float) for each in (reference, judge)]
    return difference / np.sqrt(untied[0] * untied[1])


def _tau_ap(reference: Array, judge: Array) -> Array:
    """Return the mean of the AP correlation over all orders of tied runs.

    A run at rank i has the share of concordant runs among the i - 1 above it. Each rank of its ties
    is equally likely; runs that are tied with it are concordant in half of the orders.
    """
    runs = judge.shape[1]
    harmonic = np.concatenate([[0.0], (1 / np.arange(1.0, runs + 1)).cumsum()])
    is_above = judge > 0
    first = is_above.sum(axis=2) + 1  # the best rank of the runs that are tied with a run
    tied = runs + 1 - first - (judge < 0).sum(axis=2)
    last = harmonic[first + tied - 2]
    concordant = ((1 + reference) / 2 * is_above).sum(axis=2)
    of_above = concordant * (last - harmonic[np.maximum(first - 2, 0)]) / tied
    of_ties = (tied - 1 - (first - 1) * (last - harmonic[first - 1])) / (2 * tied)
    return 2 * (of_above + of_ties).sum(axis=1) / (runs - 1) - 1
