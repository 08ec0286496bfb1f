"""`compare_all`: all pairwise comparisons of runs, with one error rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import polars as pl

from polars_rank._params import OWN, Names, integer, one_of, share, whole_number
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError, DataError, number_of, warn
from polars_rank.evaluation.checks import with_check
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats.intervals import (
    ONE_UNIT,
    special,
    warn_of_effective,
    warn_of_equal,
    warn_of_partial,
)
from polars_rank.stats.moment_tables import is_moments
from polars_rank.stats.per_query_tables import (
    refuse_definitions,
    refuse_with_moments,
    with_definitions,
)
from polars_rank.stats.resampling import numpy
from polars_rank.stats.run_matrices import RUN_NUMBER, elements
from polars_rank.stats.run_sources import run_matrices, run_moments
from polars_rank.stats.simultaneous import max_t_tests, tukey_tests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.pair_moments import RunMoments
    from polars_rank.stats.run_matrices import GroupSums, RunMatrices
    from polars_rank.stats.simultaneous import Array, PairTests

Method: TypeAlias = Literal["max_t", "tukey"]

#: Polars prints the first four and the last four columns of a wide table: what users read first.
COLUMNS = (
    *("metric", "other", "difference", "mean", "other_mean", "missing", "queries", "effective"),
    *("confidence", "low", "high", "p_value"),
)
_COUNTS = ("missing", "queries")
_FIRST, _SECOND, _PLACE = OWN + "first", OWN + "second", OWN + "place"
_EQUAL, _PARTIAL, _RUNS = OWN + "equal", OWN + "partial", OWN + "runs"


@framed_table
def compare_all(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    run: str = "run",
    by: Names | None = None,
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    method: Method = "max_t",
    confidence: float = 0.95,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> pl.LazyFrame:
    r"""Compare all pairs of runs, with one error rate for all pairs of a metric and group.

    $$t_{ij} = \frac{\bar x_i - \bar x_j}{s_{ij} / \sqrt n}, \qquad
    \Pr(\max_{i < j} |t^*_{ij}| \le c) = 1 - \alpha, \qquad
    \bar x_i - \bar x_j \pm c \, s_{ij} / \sqrt n$$

    s_ij is the standard deviation of the difference over the n queries that all runs have. The
    distribution of the maximum is that of t* with random signs of the queries, which are the same
    for all runs. The probability of a p-value below α for any pair without a difference, and of an
    interval that does not contain its difference, is at most α for all pairs of a metric and group
    together, so no correction is needed.

    Parameters
    ----------
    values
        Per-query values of several runs, as `per_query` returns them: one row per query and run,
        one column per metric, null where a metric is undefined. For "max_t", also the result of
        `moments` with the same `run` and `all_pairs=True`, or of `merge`.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. None for all columns of floats.
    run
        Column of runs.
    by
        Columns that split the table into groups.
    query
        Columns that identify the query. If there is no column "query": the one column that
        identifies the rows of each run, besides runs, groups, metrics, counts and constant
        columns; if there is none or several, name the columns. To find it among several columns,
        the table is read once more.
    weight
        Column of query weights, 0 or more. A query has one weight in all runs.
    cluster
        Columns that identify the sampling unit if it is not the query, e.g. user. A query with a
        null cluster forms its own cluster.
    method
        - "max_t": the maximum of the t statistics, with a variance for each pair of runs. P-values
          are from step-down tests (Romano and Wolf, 2005), and intervals from the quantile of the
          maximum, so that a p-value can be below α although the interval contains 0. For moments,
          for more than 10,000 queries or clusters, and if their weights or sizes differ, the runs
          are drawn from a normal distribution with their covariance, and the statistics transformed
          to the t distribution;
        - "tukey": Tukey's honestly significant difference. It assumes that all differences have the
          same variance; otherwise, it does not hold its level: with ten runs whose standard
          deviations are 1 to 10, 12% of simulated results had a p-value below 0.05 by chance.
    confidence
        Confidence level of all intervals together, between 0 and 1.
    undefined, conventions
        How undefined values count, and metric definitions to use, as in `evaluate`. None: those
        that the column `conventions` of the table names, as `per_query` returns it; else the
        default.
    n_resamples
        Number of resamples for three or more runs. The smallest p-value is 1 / (1 + n_resamples).
        If there are fewer choices of signs, all are used: 2^(n - 1) for n queries or clusters.
    seed
        Random seed. The same seed gives the same result for any order of rows.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group, metric and pair of runs, with the columns of `by`,
        and

        - `metric`, the column of the run, `other`;
        - `difference`, `mean`, `other_mean`: `difference` is `mean` - `other_mean`;
        - `missing`, `queries`: number of queries without and with a value in all runs of the
          group. Only the latter are compared. A pair with a run that has no rankings in the group
          has 0 `queries`;
        - `effective`: with `weight` or `cluster`, Kish's effective number of queries or clusters,
          (Σw)² / Σw²;
        - `confidence`: confidence level of the intervals;
        - `low`, `high`, `p_value`: confidence interval of the difference, and p-value; null for
          fewer than two queries, clusters or effective units. If the difference is the same in all
          queries, the interval is null, and the p-value 1 if all differences are 0, otherwise null.

    Raises
    ------
    ArgumentError
        A metric is a sum or a geometric mean (for moments, a DataError).
    SchemaError
        Moments have no sums of all pairs of runs.
    DataError
        A query occurs twice in a run, its weights or clusters differ between runs, or there is
        only one run. Raised when the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        More than 5% of the queries have a value in some of the runs only, and are not compared (not
        from moments, which do not tell them from undefined values); the differences of a pair are
        equal in all queries, or there are too few queries or resamples, so that its interval is
        null; there are fewer than 30 effective units with `weight` or `cluster`; or moments of
        groups with the same queries are pooled.

    Notes
    -----
    For two runs, this is the paired t test. With three or more runs, five queries or fewer have no
    p-value below 0.05 and no 95% interval. With skewed differences and few queries, the error rate
    is above α, as that of the t test: with ten runs of exponential values, 12% for 30 queries. From
    moments, few queries have p-values and intervals, but for normal values and 10 queries, the
    error rate of ten runs is 8%.

    With `weight` or `cluster`, the units are clusters or weighted queries, and standard errors are

    $$\sqrt{\frac{n}{n - 1} \sum_u (y_{ui} - y_{uj})^2} \Big/ \sum w, \qquad
    y_{ui} = \sum_{q \in u} w_q (x_{qi} - \bar x_i)$$

    with the effective number of units n.

    References
    ----------
    Romano & Wolf, Stepwise multiple testing as formalized data snooping, 2005.
    Kish, Survey sampling, 1965.
    Carterette, Multiple testing in statistical analysis of systems-based information retrieval
    experiments, 2012.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({
    ...     "run": ["a"] * 8 + ["b"] * 8 + ["c"] * 8, "query": [*range(8)] * 3,
    ...     "rr": [0.2, 0.3, 0.4, 0.5, 0.2, 0.3, 0.1, 0.5]
    ...     + [0.3, 0.3, 0.5, 0.5, 0.5, 0.3, 0.3, 0.5]
    ...     + [0.9, 0.9, 1.0, 0.5, 1.0, 0.8, 0.5, 1.0],
    ... })
    >>> comparisons = pr.stats.compare_all(values)
    >>> comparisons.select("run", "other", "difference", pl.col("p_value").round(4))
    shape: (3, 4)
    ┌─────┬───────┬────────────┬─────────┐
    │ run ┆ other ┆ difference ┆ p_value │
    │ --- ┆ ---   ┆ ---        ┆ ---     │
    │ str ┆ str   ┆ f64        ┆ f64     │
    ╞═════╪═══════╪════════════╪═════════╡
    │ b   ┆ a     ┆ 0.0875     ┆ 0.0388  │
    │ c   ┆ a     ┆ 0.5125     ┆ 0.0078  │
    │ c   ┆ b     ┆ 0.425      ┆ 0.0078  │
    └─────┴───────┴────────────┴─────────┘
    """
    one_of("method", method, get_args(Method))
    share("confidence", confidence)
    whole_number("n_resamples", n_resamples)
    integer("seed", seed)
    special()
    if method == "tukey" and (weight is not None or cluster is not None):
        raise ArgumentError("`weight` and `cluster` need `method` 'max_t'; found 'tukey'")
    values, definitions = with_definitions(values, conventions, undefined)

    if is_moments(schema_of(values)):
        refuse_definitions(undefined, conventions)
        tukey = method == "tukey"
        refuse_with_moments({"weight": weight, "cluster": cluster, "method='tukey'": tukey})
        moments = run_moments(values, metrics, by, run)
        return _AllPairs(moments, method, confidence, n_resamples, seed).table()
    matrices = run_matrices(
        values, metrics, definitions, undefined, run=run, by=by, query=query, weight=weight,
        cluster=cluster, added=COLUMNS,
    )  # fmt: skip
    return _AllPairs(matrices, method, confidence, n_resamples, seed).table()


@dataclass(frozen=True)
class _AllPairs:
    """Comparisons of all pairs of runs."""

    source: RunMatrices | RunMoments
    method: Method
    confidence: float
    n_resamples: int
    seed: int

    def table(self) -> pl.LazyFrame:
        """Return one row per group, metric and pair of runs."""
        groups, run = self.source.groups, self.source.run
        runs = self.source.run_numbers().cache()
        given = schema_of(self.source.rows)
        schema = pl.Schema(
            {
                **{name: given[name] for name in groups},
                "metric": pl.String(),
                **dict.fromkeys((_SECOND, _FIRST), schema_of(runs)[RUN_NUMBER]),
                **{name: _type(name) for name in COLUMNS[2:]},
                _EQUAL: pl.Boolean(),
                _PARTIAL: pl.Int64(),
                _PLACE: pl.Int64(),
            }
        )
        lists = self.source.lists(runs)
        numbered = lists.map_batches(lambda table: self._pairs(table, schema), schema=schema)
        named = numbered.join(runs.rename({RUN_NUMBER: _SECOND}), on=_SECOND).join(
            runs.rename({RUN_NUMBER: _FIRST, run: "other"}), on=_FIRST
        )
        columns = [name for name in COLUMNS[1:] if name != "effective" or self.source.is_weighted]
        ordered = named.sort(*groups, _PLACE)
        checked = ordered.map_batches(self._with_warnings).select(*groups, "metric", run, *columns)
        facts = runs.select(pl.len().alias(_RUNS), pl.col(run).first())
        return with_check(checked, facts, self._check_runs)

    def _check_runs(self, facts: pl.DataFrame) -> None:
        if facts.get_column(_RUNS)[0] == 1:
            run = self.source.run
            name = facts.get_column(run)[0]
            raise DataError(f"the column {run!r} has only the run {name!r}; pass several runs")

    def _pairs(self, lists: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
        """Return the rows of all pairs, with the numbers of the runs."""
        np = numpy()
        runs = int(elements(lists.get_column(RUN_NUMBER)).max(initial=0)) + 1
        keys, results = [], []
        with np.errstate(all="ignore"):  # values are checked, and unknown results are NaN
            for each in self.source.sums(lists):
                keys.append(each.key)
                results.append(self._results(each, runs))
        pairs = runs * (runs - 1) // 2
        rows = len(results) * pairs
        names = (*self.source.groups, "metric")
        constants = {name: [key[place] for key in keys] for place, name in enumerate(names)}
        columns = [
            *(
                pl.Series(name, values, schema[name]).gather(np.arange(rows) // (pairs or 1))
                for name, values in constants.items()
            ),
            *(
                pl.Series(name, _joined([each[name] for each in results]), nan_to_null=True)
                for name in schema
                if name not in constants and name != _PLACE
            ),
            pl.Series(_PLACE, np.arange(rows)),
        ]
        return pl.DataFrame({each.name: each.cast(schema[each.name]) for each in columns})

    def _results(self, group: GroupSums, runs: int) -> dict[str, Array]:
        """Return the columns of all pairs of a group; without rankings, a run has 0 queries."""
        np = numpy()
        sums, tests = group.sums, self._tested(group)
        effective = np.nan if sums.effective is None else sums.effective
        of_pairs = {
            _EQUAL: tests.equal,
            "difference": tests.differences,
            "mean": sums.means[tests.second],
            "other_mean": sums.means[tests.first],
            "missing": np.full(len(tests.first), group.missing),
            "queries": np.full(len(tests.first), group.queries),
            "effective": np.full(len(tests.first), effective),
            _PARTIAL: np.full(len(tests.first), group.partial),
            "low": tests.low,
            "high": tests.high,
            "p_value": tests.p_values,
        }
        first, second = np.triu_indices(runs, 1)
        first_run, second_run = group.runs[tests.first], group.runs[tests.second]
        places = np.searchsorted(first * runs + second, first_run * runs + second_run)
        absent = {
            _EQUAL: False, _PARTIAL: 0, "missing": group.missing + group.queries, "queries": 0,
        }  # fmt: skip
        columns = {name: np.full(len(first), absent.get(name, np.nan)) for name in of_pairs}
        for name, values in of_pairs.items():
            columns[name][places] = values
        confidence = np.full(len(first), self.confidence)
        return {**columns, _FIRST: first, _SECOND: second, "confidence": confidence}

    def _tested(self, group: GroupSums) -> PairTests:
        if self.method == "tukey":
            return tukey_tests(group.sums, group.values, self.confidence)
        return max_t_tests(
            group.sums, group.units, confidence=self.confidence, n_resamples=self.n_resamples,
            seed=self.seed,
        )  # fmt: skip

    def _with_warnings(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows; warn of results that are unknown or unreliable."""
        warn_of_partial(rows, rows.get_column(_PARTIAL))
        known = rows.get_column("queries") > 1
        if self.source.is_weighted:
            warn_of_effective(rows, rows.get_column("queries") > 0)
            known &= rows.get_column("effective") > ONE_UNIT
        equal, p_values = rows.get_column(_EQUAL), rows.get_column("p_value")
        warn_of_equal(rows, known & equal, "differences")
        unbounded = known & ~equal & p_values.is_not_null() & rows.get_column("low").is_null()
        if count := int(unbounded.sum()):
            warn(
                "there are too few queries or resamples for the interval of "
                f"{number_of(count, 'row')} at the confidence level {self.confidence}"
            )
        return rows


def _type(name: str) -> pl.DataType:
    return pl.Int64() if name in _COUNTS else pl.Float64()


def _joined(arrays: list[Array]) -> Array:
    return numpy().concatenate(arrays) if arrays else numpy().empty(0)
