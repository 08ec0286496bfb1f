"""`power`: how many queries a difference needs to be significant."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

import polars as pl

from polars_rank._params import OWN, Names, free, one_of, positive, share
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError, DataError
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats import moment_math
from polars_rank.stats.comparison import against_baseline, groups_of_moments
from polars_rank.stats.intervals import Alternative, stats
from polars_rank.stats.moment_tables import (
    DIFFERENCE,
    UNITS,
    is_moments,
    paired_sums,
    regrouped,
)
from polars_rank.stats.per_query_tables import (
    only_metrics,
    refuse_definitions,
    refuse_with_moments,
    variables,
    with_definitions,
    without,
)
from polars_rank.stats.run_pairs import Pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics

COLUMNS = (
    *("metric", "queries", "effective", "difference", "std", "target", "power", "needed"),
    "smallest",
)
_AGGREGATE, _ERROR, _EFFECTIVE = OWN + "aggregate", OWN + "error", OWN + "effective"


@framed_table
def power(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    baseline: Any,
    difference: float | None = None,
    run: str = "run",
    by: Names | None = None,
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    power: float = 0.8,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
) -> pl.LazyFrame:
    r"""Compute the power of the paired t test, and the number of queries that it needs.

    $$P(|T| > t_{1 - \alpha/2, n-1}), \qquad T \sim t_{n-1}(\sqrt n \, |d| / s_d)$$

    T has the noncentral t distribution, with the observed standard deviation of the differences.
    With weights or clusters, n is the effective number of units, and s is √n times the standard
    error; `needed` assumes the same weights and cluster sizes as in `values`.

    Parameters
    ----------
    values
        Per-query values or moments of several runs. Their differences should be about as large as
        in the planned experiment.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. None for all columns of floats.
    baseline
        The run that the others are compared with.
    difference
        The difference of means to detect, above 0. None for the observed difference.
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
        Column of query weights, 0 or more.
    cluster
        Columns that identify the sampling unit if it is not the query, as in `compare`.
    power
        Probability of a significant result, between 1 - `confidence` and 1.
    confidence
        1 - the significance level of the test, between 0 and 1.
    alternative
        "two-sided", or "greater" or "less", which give the same result.
    undefined, conventions
        How undefined values count, and metric definitions to use, as in `evaluate`. None: those
        that the column `conventions` of the table names, as `per_query` returns it; else the
        default.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group, metric and run other than the baseline, with the
        columns of `by`, and

        - `metric`, the column of the run;
        - `queries`: number of queries that count in both runs;
        - `effective`: with weights or clusters, the effective number of units, as in `compare`;
        - `difference`, `std`: observed mean and standard deviation of the differences;
        - `target`: the difference to detect;
        - `power`: probability that these queries detect it;
        - `needed`: number of queries that detect it with the given power; null above 2^62;
        - `smallest`: smallest difference that these queries detect with the given power.

        The last three are null if the standard deviation or the target is 0 up to rounding, or if
        there are fewer than two queries.

    Raises
    ------
    DataError
        A query occurs twice in a run, the baseline does not exist, there is no other run, or a
        metric is a sum or a geometric mean. Raised when the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        Moments of groups with the same queries are pooled, which count as new queries.

    Notes
    -----
    The power to detect the observed difference follows from the p-value and adds no information.
    Set `difference` to the smallest difference that would matter.

    References
    ----------
    Sakai, Laboratory Experiments in Information Retrieval, 2018, chapter 6.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({
    ...     "run": ["a"] * 4 + ["b"] * 4, "query": [1, 2, 3, 4] * 2,
    ...     "rr": [0.5, 0.5, 1.0, 0.0, 1.0, 0.5, 1.0, 0.5],
    ... })
    >>> power = pr.stats.power(values, baseline="a", difference=0.1)
    >>> power.select("std", "target", "needed")
    shape: (1, 3)
    ┌──────────┬────────┬────────┐
    │ std      ┆ target ┆ needed │
    │ ---      ┆ ---    ┆ ---    │
    │ f64      ┆ f64    ┆ i64    │
    ╞══════════╪════════╪════════╡
    │ 0.288675 ┆ 0.1    ┆ 68     │
    └──────────┴────────┴────────┘
    """
    share("power", power)
    share("confidence", confidence)
    alpha = 1 - confidence
    if power <= alpha:
        raise ArgumentError(
            f"`power` must be above 1 - `confidence` = {alpha:g}, the power for no difference; "
            f"found {power!r}"
        )
    one_of("alternative", alternative, get_args(Alternative))
    if difference is not None:
        positive("difference", difference)
    stats()
    tail = alpha / 2 if alternative == "two-sided" else alpha
    values, definitions = with_definitions(values, conventions, undefined)

    schema = schema_of(values)
    if is_moments(schema):
        refuse_definitions(undefined, conventions)
        refuse_with_moments({"weight": weight, "cluster": cluster})
        groups = groups_of_moments(schema, by, run, baseline)
        moments = regrouped(only_metrics(values, metrics), [*groups, run])
        weighted = not {*UNITS}.isdisjoint(schema)
    else:
        pairs = Pairs.of(
            values, by=by, run=run, query=query, baseline=baseline, metrics=metrics, weight=weight,
            cluster=cluster,
        )  # fmt: skip
        weighted = pairs.is_weighted
        groups = [*pairs.by]
        selected = variables(schema, metrics, definitions, pairs.columns, undefined=undefined)
        moments = paired_sums(values, selected, pairs, definitions)
    free([*groups, run], COLUMNS)
    size = pl.col(DIFFERENCE + "mean").abs()
    target = pl.when(size <= moment_math.rounding(DIFFERENCE)).then(0.0).otherwise(size)
    if difference is not None:
        target = pl.lit(difference, dtype=pl.Float64)
    observed = against_baseline(moments, groups, run, baseline).select(
        *groups, "metric", run, pl.col("aggregate").alias(_AGGREGATE),
        moment_math.std_error(DIFFERENCE).alias(_ERROR),
        moment_math.effective(DIFFERENCE).alias(_EFFECTIVE),
        pl.col(DIFFERENCE + "counted").alias("queries"),
        *([moment_math.effective(DIFFERENCE).alias("effective")] if weighted else []),
        pl.col(DIFFERENCE + "mean").alias("difference"),
        moment_math.std(DIFFERENCE).alias("std"),
        target.alias("target"),
    )  # fmt: skip
    return _with_power(observed, power, tail, two_sided=alternative == "two-sided")


def _with_power(
    observed: pl.LazyFrame, power: float, tail: float, *, two_sided: bool
) -> pl.LazyFrame:
    hidden = (_AGGREGATE, _ERROR, _EFFECTIVE)
    schema = {
        name: dtype for name, dtype in observed.collect_schema().items() if name not in hidden
    }
    added = {"power": pl.Float64(), "needed": pl.Int64(), "smallest": pl.Float64()}

    def solve(rows: pl.DataFrame) -> pl.DataFrame:
        kinds = zip(rows.get_column("metric"), rows.get_column(_AGGREGATE), strict=True)
        for name, aggregate in kinds:
            if aggregate != "mean":
                raise DataError(f"the metric {name!r} is a {aggregate}, not a mean over queries")
        names = (_EFFECTIVE, _ERROR, "target", "queries")
        columns = (rows.get_column(name).to_list() for name in names)
        solved = [
            _solved(n, error * math.sqrt(n), target, queries / n, power, tail, two_sided=two_sided)
            if error and target
            else (None, None, None)
            for n, error, target, queries in zip(*columns, strict=True)
        ]
        series = [
            pl.Series(name, [each[index] for each in solved], dtype)
            for index, (name, dtype) in enumerate(added.items())
        ]
        return without(rows, *hidden).hstack(series)

    return observed.map_batches(solve, schema={**schema, **added})


def _solved(
    units: float, std: float, target: float, queries: float, power: float, tail: float, *,
    two_sided: bool,
) -> tuple[float, int | None, float]:  # fmt: skip
    """Return the power, the queries needed and the smallest difference.

    `queries` is the number of queries per unit.
    """
    from scipy.optimize import brentq  # noqa: PLC0415  (an extra)

    def of(n: float, size: float) -> float:
        return t_power(n, size, tail, two_sided=two_sided)

    effect, least = target / std, 2.0
    most = least
    while of(most, effect) < power and most < _MAX_QUERIES:
        least, most = most, most * 2
    needed: int | None = None
    if of(most, effect) >= power:
        exact = most if most == least else brentq(lambda n: of(n, effect) - power, least, most)
        needed = math.ceil(exact * queries - _SLACK)
    largest = 1.0
    while of(units, largest) < power:
        largest *= 2
    smallest = brentq(lambda size: of(units, size) - power, 0, largest, xtol=1e-15, rtol=1e-14)
    return of(units, effect), needed, smallest * std


#: Rounding error of a whole number of queries.
_SLACK = 1e-9
#: More queries than this do not fit the column `needed`.
_MAX_QUERIES = 2.0**62

#: Above it, scipy's series may not converge, and the normal part of T is negligible.
_LARGE = 5_000


def t_power(queries: float, effect: float, tail: float, *, two_sided: bool) -> float:
    """Return the power of the t test for an effect (difference / standard deviation)."""
    distributions = stats()
    degrees, noncentral = queries - 1, effect * math.sqrt(queries)
    critical = distributions.t.isf(tail, degrees)
    if noncentral > _LARGE:
        return float(distributions.chi2.cdf(degrees * (noncentral / critical) ** 2, degrees))
    likely = float(distributions.nct.sf(critical, degrees, noncentral))
    if two_sided:
        other = float(distributions.nct.cdf(-critical, degrees, noncentral))
        likely += 0.0 if math.isnan(other) else other  # scipy returns NaN for tiny values
    return likely
