"""`power`: how many queries a difference needs to be significant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polars_rank.frames.tables import framed_table
from polars_rank.stats.pilots import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

    import polars as pl

    from polars_rank._params import Names
    from polars_rank.conventions import Conventions, Undefined
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.intervals import Alternative


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
    margin: float = 0.0,
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
        The difference of means to detect, above 0. None for the observed difference. With the
        alternative "equivalent", the true difference that is assumed, from 0 to below `margin`;
        None for 0.
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
        "two-sided", or "greater" or "less", which give the same result, or "equivalent", for the
        two one-sided tests of `compare`. The power of a test of non-inferiority for runs with the
        same mean is that of "greater" with `difference` as its margin.
    margin
        Margin of the alternative "equivalent".
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
        - `needed_low`, `needed_high`: interval of `needed` with the level `confidence`, because
          these queries are a sample. With `difference`, or for "equivalent", only the standard
          deviation is uncertain. Without, the ratio of difference and standard deviation is, and
          `needed_high` is null if its interval contains 0;
        - `detectable`: smallest difference that these queries detect with the given power; for
          "equivalent", smallest margin.

        Columns from `power` on are null if the standard deviation or the target is 0 up to
        rounding, or if there are fewer than two queries.

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

    The interval of the standard deviation is the chi-square interval, with fewer degrees of
    freedom for differences with more kurtosis than normal ones: the kurtosis is estimated from
    the shares of ties, the skewness, and the range of the metric. In simulations with 50 to 1,000
    queries, the interval contained the true value in 94% to 100% of the samples for nDCG,
    reciprocal ranks, and normal, exponential and mostly equal values, and in 76% to 88% for
    lognormal values. For a binary metric that differs in 5% of 50 queries, it did so in 85%; in 7%,
    all differences were equal, so that there was no interval.

    A difference of a binary metric increases the standard deviation, because at least that share
    of the queries must differ. If few queries differ in `values`, or if `margin` is large relative
    to the rates, the score test of `compare` therefore has less power than planned: in simulations
    with a metric that differs in 5% of 50 queries, 50% instead of 80%.

    References
    ----------
    Phillips, Power of the two one-sided tests procedure in bioequivalence, 1990.
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
    plan = Plan.of(
        values, metrics, baseline=baseline, difference=difference, run=run, by=by, query=query,
        weight=weight, cluster=cluster, power=power, confidence=confidence,
        alternative=alternative, margin=margin, undefined=undefined, conventions=conventions,
    )  # fmt: skip
    return plan.solved()
