"""`compare`: differences between runs, with confidence intervals and significance tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import polars as pl

from polars_rank._params import OWN, Names, free, integer, names, one_of, share, whole_number
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError, number_of, warn
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats import moment_math
from polars_rank.stats.baselines import OF_BASELINE, against_baseline, groups_of_moments
from polars_rank.stats.covariates import (
    check_covariate,
    with_covariate,
    with_known_mean,
)
from polars_rank.stats.differences import (
    COLUMNS,
    DISCORDANT,
    EFFECTIVE,
    ERROR,
    MANY,
    MEAN_DIFFERENCE,
    RANK_TESTS,
    result_of,
    with_tests,
)
from polars_rank.stats.hypotheses import Hypothesis, warn_of_skewed
from polars_rank.stats.intervals import (
    FEW,
    MANY_MISSING,
    Alternative,
    is_uneven,
    special,
    warn_of_effective,
    warn_of_equal,
    warn_of_range,
    warn_of_uneven,
)
from polars_rank.stats.moment_tables import (
    UNITS,
    is_moments,
    paired_sums,
    regrouped,
)
from polars_rank.stats.per_query_tables import (
    first_few,
    only_metrics,
    refuse_definitions,
    refuse_with_moments,
    row_labels,
    variables,
    with_definitions,
)
from polars_rank.stats.prediction_estimates import (
    HUMAN_UNITS,
    differs,
    warn_of_sampling,
)
from polars_rank.stats.predictions import (
    OF_DIFFERENCE,
    SAMPLED_BY,
    check_predictions,
    predicted_values,
    with_predictions,
)
from polars_rank.stats.run_pairs import Pairs
from polars_rank.stats.sequences import (
    IntervalOfDifference,
    check_bounded,
    of_differences,
    sequence_of,
    sums_in_order,
    warn_of_early,
)
from polars_rank.stats.significance import (
    Correction,
    Test,
    Testing,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics

_OF_RUN, _CHOSEN, _UNEVEN = OWN + "of run", OWN + "chosen", OWN + "uneven"
_CHANGES, _SHARES, _UNITS = OWN + "changes", OWN + "shares", OWN + "units"
_EQUAL = OWN + "equal"


@framed_table
def compare(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    baseline: Any,
    run: str = "run",
    by: Names | None = None,
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    test: Test = "auto",
    correction: Correction = "holm",
    alternative: Alternative = "two-sided",
    margin: float = 0.0,
    relative_margin: float | None = None,
    confidence: float = 0.95,
    interval: IntervalOfDifference = "auto",
    bounds: Sequence[float] | None = None,
    order: str | None = None,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
    predictions: Any = None,
    probability: str | None = None,
    covariate: str | None = None,
    covariate_mean: float | None = None,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> pl.LazyFrame:
    r"""Compare runs with a baseline over the queries that they have in common.

    $$d_q = x_q - b_q, \qquad t = \frac{\bar d}{s_d / \sqrt n}$$

    Parameters
    ----------
    values
        Per-query values of several runs, as `per_query` returns them: one row per query and run,
        one column per metric, null where a metric is undefined. For the tests "auto", "t" and
        "sign", also the result of `moments` with the same `run` and `baseline`.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. None for all columns of floats.
    baseline
        The run that the others are compared with.
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
        Column of query weights, 0 or more. Only for the tests "auto" and "t".
    cluster
        Columns that identify the sampling unit if it is not the query, e.g. user. Only for the
        tests "auto" and "t". A query with a null cluster in the run forms its own cluster.
    test
        Significance test:

        - "auto": for metrics whose values are all 0 or 1 in the table, such as the hit rate,
          Tango's score test, which is McNemar's test for a margin of 0; otherwise "t". With
          weights or clusters, n is the effective number of units, as if all queries of a cluster
          had the same values: if they do not, "t" is narrower;
        - "t": paired t test. Null if all differences are equal, but not 0;
        - "randomization": Fisher's test with random signs, exact for up to 16 queries. It assumes
          that differences with mean 0 are symmetric. With exponential differences, simulations
          had a p-value below 0.05 in 10% of the cases with 10 queries, in 6% with 100;
        - "bootstrap": studentized Poisson bootstrap. Null if too many resamples have no variance;
        - "wilcoxon": signed-rank test;
        - "sign": sign test.
    correction
        Correction of the p-values for the number of rows in the result: "holm", "bh" (Benjamini
        and Hochberg's false discovery rate), "bonferroni" or "none".
    alternative
        Alternative hypothesis: the run is "greater" or "less" than the baseline, "two-sided", or
        "equivalent": the difference is between -`margin` and `margin`, by two one-sided tests.
    margin
        Margin of the alternatives "greater", "less" and "equivalent", 0 or above. With "greater",
        the null hypothesis is that the run is worse than the baseline by at least `margin`
        (non-inferiority); with "less", that it is greater by at least `margin`; with "equivalent",
        that it is one of both.
    relative_margin
        The margin as a share of the baseline's mean, between 0 and 1, instead of `margin`. The
        p-value is that of the paired t test of d + rb or d - rb (with -r if the baseline's mean is
        negative), which accounts for the estimated mean of the baseline. Null if that mean may be
        0. Only for the tests "auto" and "t", without `predictions` and `covariate`.
    confidence
        Confidence level, between 0 and 1. A one-sided alternative has one-sided intervals. With
        "equivalent", intervals have the level 2 * `confidence` - 1, such as 90%: the run is
        equivalent if and only if the interval is between the margins.
    interval
        Number of looks at the data that intervals and p-values are for:

        - "auto": one look; the method is that of `test`;
        - "sequence": any number of looks while new queries arrive, as in a nightly gate. With
          probability `confidence`, the intervals of all looks contain the true difference, and
          with probability 1 - `confidence` or less, a p-value is ever that small if the null
          hypothesis is true. The same queries evaluated again are not new queries. Only for the
          tests "auto" and "t", which are then the same, also for values of 0 or 1. It holds
          asymptotically, if the mean difference is about normal at the first look: a `RankWarning`
          says if there are too few queries. With `bounds`, it holds for any number of queries.
    bounds
        Lowest and highest possible value of all metrics, as (0, 1). With `interval` "sequence", the
        method is then the empirical Bernstein sequence, for differences within
        (low - high, high - low). Needs per-query values of metrics that are means, without weights
        and clusters. Relative differences and effect sizes have no interval.
    order
        Column by which queries arrived, such as their time or night, in the rows of the run. Needed
        with `bounds`, because the interval depends on the order. It must not depend on the values,
        and earlier queries must keep their place when new ones arrive. Queries with the same
        `order` are in the order of a hash of the query.
    undefined, conventions
        How undefined values count, and metric definitions to use, as in `evaluate`. If both runs
        have the same queries, the difference is the difference of the means of `evaluate`. None:
        those that the column `conventions` of the table names, as `per_query` returns it; else the
        default.
    predictions
        Per-query values of the same metrics and rankings from predicted labels, for all queries,
        where `values` has those from human labels, for a random sample of the queries. The result
        then estimates the differences over all queries, with the columns `predicted`,
        `judge_weight` and `effective_queries`. People must have judged all documents that the
        metric reads. Only for the tests "auto" and "t". The t distribution has n - 2 degrees of
        freedom for n human queries. The number of units of Tango's test is `effective_queries`,
        computed with half a query more on which the judge is too low, and half a query on which
        it is too high: few queries without errors do not show that the judge makes none.
    probability
        Column of `values` with the probability with which a query was chosen for people to judge.
        With it, "auto" is "t" for all metrics. None: all queries were equally likely.
    covariate
        Column of a number that is known before the experiment, such as the query's metric last
        month, and is the same in all runs: an error if it is null. The differences are adjusted
        for it by regression (CUPED), which reduces their variance. Only for the tests "auto" and
        "t", without `by`. For `moments`, the covariate that they were computed with.
    covariate_mean
        Mean of the covariate over all queries, of which those in the table are a random sample,
        such as the metric of all of last month's queries; with `weight`, the weighted mean. The
        adjustment is to this mean. None: the mean over the table. Both runs have the same queries,
        so that the difference is then not changed, and the interval is about queries with the
        covariates of the table: it is too narrow for all queries, as a `RankWarning` says.
    n_resamples
        Number of resamples of the randomization test and the bootstrap.
    seed
        Random seed. The same seed gives the same result for any order of rows.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group, metric and run other than the baseline, in this
        order. A run without rankings in a group of the baseline has a row with 0 `queries`. The
        columns are those of `by`, and

        - `metric`, and the column of the run;
        - `mean`, `difference`, `relative_difference`, `baseline_mean`: means over the queries in
          both runs, and the difference divided by the absolute value of the baseline's mean;
        - `relative_low`, `relative_high`: confidence interval of the relative difference, Fieller's
          with the t distribution; null if the baseline's mean may be 0;
        - `effect_size`: Cohen's dz, the mean difference divided by its standard deviation; null if
          that is 0;
        - `effect_low`, `effect_high`: confidence interval of the effect size (delta method);
        - `skewness`: skewness of the differences, which makes t unreliable for few queries;
        - `wins`, `ties`, `losses`: number of queries in which the run is better than the baseline,
          equal, and worse. For metrics such as `fall_out`, a lower value is better;
        - `queries`, `used`: number of queries in both runs, and of these with a difference that
          counts;
        - `effective`: with weights or clusters, the effective number of units: (Σw)² / Σw² for
          units of weight w, which is lower than their number if weights are unequal;
        - `predicted`, `judge_weight`, `effective_queries`: with `predictions`, the number of other
          queries, the weight λ of their values, and the number of human queries alone that would
          give the same standard error. Relative differences and effect sizes have no interval;
        - `variance_reduction`: with `covariate`, 1 - the ratio of the squared standard errors with
          and without adjustment. Means are adjusted, and relative differences and effect sizes
          have no interval;
        - `missing`, `undefined`: number of queries in only one of the runs, and with an undefined
          value in either;
        - `empty`: number of the run's rankings without a retrieved document, if the table has the
          column `num_retrieved`, as `per_query(by=...)` returns it;
        - `warning`: for "wilcoxon" and "sign" only, a text or null;
        - `interval`: method of `low` and `high`: "tango" (for the score test), "randomization"
          (the differences that the test does not reject), "bootstrap", "t", "sequence", or
          "empirical_bernstein";
        - `confidence`: confidence level of the intervals, which are two-sided for "equivalent";
        - `low_corrected`, `high_corrected`: confidence interval of the difference that is corrected
          for the number of rows: Bonferroni's, which is conservative for "holm", or Benjamini and
          Yekutieli's for "bh";
        - `low`, `high`: confidence interval of the difference; null for one unit, with
          `predictions` also for two if `judge_weight` is above 0, or if all differences are equal
          and the interval is not Tango's; with `bounds`, never null for these reasons;
        - `p_value`, `p_corrected`: null for fewer than two queries without `bounds`, and with
          `predictions` if there are too few for an interval. For a sequence, the smallest α at
          which the interval of level 1 - α excludes the null hypothesis (always valid).

        For a geometric mean, the test is about the logarithms, and the interval treats the
        baseline's mean as known.

    Raises
    ------
    DataError
        A query occurs twice in a run, its weights differ between runs, the baseline does not
        exist, there is no other run, or values are outside `bounds`. Raised when the result is
        collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        The result may mislead: more than 5% of the queries of a run or of the baseline are not in
        both; moments of groups with the same queries are pooled; a run has mostly empty rankings;
        all differences are equal; the mean of a covariate is that over the table, or far from it;
        there are fewer than 30 effective units with weights or clusters; there are more than
        1,000 queries for "wilcoxon" or "sign", or fewer than 30 for "bootstrap"; a bootstrap is
        null; a sequence without `bounds` has fewer than 30 units, fewer than 30 queries that
        differ, or fewer than 25 · G² units for a skewness of G; an interval of a bootstrap or of
        fewer than 30 units exceeds [-1, 1] for a metric in [0, 1]; or t tests claim equivalence
        for fewer than 25 · G² units for a skewness of G.

    Notes
    -----
    Wilcoxon's test and the sign test are not about the mean. With many queries and skewed
    differences they reject the null hypothesis far too often (Ihemelandu & Ekstrand, 2023).
    Prefer "t", or "randomization" for few queries.

    One-sided t tests, and thus tests of equivalence, need more queries than two-sided ones if the
    differences are skewed: samples without the rare, high values seem to exclude a high mean. In
    simulations with the difference at the margin, 12% of samples of 20 exponential differences,
    and 7% of 200, had an equivalence p-value below 0.05; of lognormal differences, 18% and 10%.

    The interval is about all queries like these, of which those in the table are a sample. If the
    same queries occur several times, for example on several days, they are not new queries: average
    each query's values first, or use ``query=["query", "day"]`` and ``cluster="query"``. The
    interval is then about all queries like these, on these days. With the day in `query`, repeated
    queries are not detected.

    An interval for one look, computed every night, misses the true difference on some night far
    more often than 1 - `confidence`. A sequence is wider: by half at 1,000 queries, where it is
    narrowest relative to "t". Its parameters depend on `confidence`, which must be the same at all
    looks.

    References
    ----------
    Smucker, Allan & Carterette, A comparison of statistical significance tests for information
    retrieval evaluation, 2007.
    Ihemelandu & Ekstrand, Inference at scale: significance testing for large search and
    recommendation experiments, 2023.
    Schuirmann, A comparison of the two one-sided tests procedure and the power approach for
    assessing the equivalence of average bioavailability, 1987.
    Tango, Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design, 1998.
    Fieller, Some problems in interval estimation, 1954.
    Kish, Survey sampling, 1965.
    Benjamini & Yekutieli, False discovery rate-adjusted multiple confidence intervals, 2005.
    Deng, Xu, Kohavi & Walker, Improving the sensitivity of online controlled experiments by
    utilizing pre-experiment data, 2013.
    Angelopoulos, Duchi & Zrnic, PPI++: Efficient prediction-powered inference, 2023.
    Waudby-Smith et al., Time-uniform central limit theory and asymptotic confidence sequences,
    2021.
    Waudby-Smith & Ramdas, Estimating means of bounded random variables by betting, 2024.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({
    ...     "run": ["a"] * 4 + ["b"] * 4,
    ...     "query": [1, 2, 3, 4] * 2,
    ...     "rr": [0.5, 0.5, 1.0, 0.0, 1.0, 0.5, 1.0, 0.5],
    ... })
    >>> comparison = pr.compare(values, baseline="a")
    >>> comparison.select("run", "mean", "difference", "wins", "ties", "p_value")
    shape: (1, 6)
    ┌─────┬──────┬────────────┬──────┬──────┬─────────┐
    │ run ┆ mean ┆ difference ┆ wins ┆ ties ┆ p_value │
    │ --- ┆ ---  ┆ ---        ┆ ---  ┆ ---  ┆ ---     │
    │ str ┆ f64  ┆ f64        ┆ i64  ┆ i64  ┆ f64     │
    ╞═════╪══════╪════════════╪══════╪══════╪═════════╡
    │ b   ┆ 0.75 ┆ 0.25       ┆ 2    ┆ 2    ┆ 0.18169 │
    └─────┴──────┴────────────┴──────┴──────┴─────────┘
    """
    one_of("test", test, get_args(Test))
    one_of("correction", correction, get_args(Correction))
    one_of("interval", interval, get_args(IntervalOfDifference))
    share("confidence", confidence)
    hypothesis = Hypothesis.of(alternative, margin, relative_margin, confidence)
    whole_number("n_resamples", n_resamples)
    integer("seed", seed)
    special()
    check_predictions(predictions, probability)
    check_covariate(
        covariate, covariate_mean, {"by": bool(by), "predictions": predictions is not None}
    )
    schema = schema_of(values)
    is_predicted = predictions is not None or OF_DIFFERENCE in schema
    sequence = sequence_of(
        schema, interval, bounds, order, confidence, alternative,
        weight=weight, cluster=cluster, covariate=covariate,
    )  # fmt: skip
    if sequence is not None and is_predicted:
        raise ArgumentError("`predictions` does not support `interval` 'sequence'")
    _check_test(
        test, weight=weight is not None, cluster=cluster is not None, predictions=is_predicted,
        covariate=covariate is not None, relative_margin=relative_margin is not None,
        interval=sequence is not None,
    )  # fmt: skip
    values, definitions = with_definitions(values, conventions, undefined)
    testing = Testing(test, alternative, confidence, n_resamples, seed, of_differences(sequence))
    needs_values = test not in ("auto", "t", "sign") or (test == "sign" and margin != 0)

    hypothesis.check_margin(
        predictions=is_predicted, covariate=covariate is not None, bounds=bounds is not None
    )
    if is_moments(schema):
        refuse_definitions(undefined, conventions)
        given = {
            "weight": weight, "cluster": cluster, "predictions": predictions is not None,
            "probability": probability,
        }  # fmt: skip
        refuse_with_moments({**given, f"test={test!r}": needs_values})
        groups = groups_of_moments(schema, by, run, baseline)
        moments = regrouped(only_metrics(values, metrics), [*groups, run])
        weighted = not {*UNITS}.isdisjoint(schema)
    else:
        pairs = Pairs.of(
            values, by=by, run=run, query=query, baseline=baseline, metrics=metrics, weight=weight,
            cluster=cluster,
        )  # fmt: skip
        groups = [*pairs.by]
        free([*groups, run], COLUMNS)
        keys = {
            **pairs.columns, "order": names("order", order),
            "covariate": names("covariate", covariate),
            "probability": names("probability", probability),
        }  # fmt: skip
        selected = variables(schema, metrics, definitions, keys, undefined=undefined)
        moments = paired_sums(
            values, selected, pairs, definitions, values=needs_values,
            sequence=sums_in_order(testing.sequence, pairs.query, pairs.query_types),
        )  # fmt: skip
        moments = check_bounded(moments, values, selected, sequence)
        if predictions is not None:
            moments = with_predictions(
                moments, values, predicted_values(predictions, definitions, conventions, undefined),
                selected, pairs.columns, weight=weight, probability=probability, pairs=pairs,
            )  # fmt: skip
        if covariate is not None:
            moments = with_covariate(moments, values, selected, pairs, covariate)
        weighted = pairs.is_weighted
    if covariate is not None:
        moments = with_known_mean(moments, covariate, covariate_mean)
    compared = against_baseline(moments, groups, run, baseline)
    tested = with_tests(compared, testing, correction, hypothesis)
    results = tested.with_columns(**_doubts(schema_of(compared)))
    beside = [_SHARES, _UNITS, _EQUAL, _UNEVEN, _CHANGES, _OF_RUN, OF_BASELINE, _CHOSEN]
    result = result_of(results, [*groups, "metric", run], test, weighted=weighted, also=beside)
    alpha = hypothesis.alpha(confidence)
    return _with_warnings(result, groups, run, test, weighted=weighted, alpha=alpha).drop(beside)


def _check_test(test: str, **given: bool) -> None:
    """Raise `ArgumentError` for a parameter that the test does not support."""
    for name, is_given in given.items():
        if is_given and test not in ("auto", "t"):
            raise ArgumentError(f"`{name}` needs `test` 'auto' or 't'; found {test!r}")


def _doubts(schema: pl.Schema) -> dict[str, pl.Expr]:
    """Return the columns of tested moments that warnings read, from the schema of the moments."""
    chosen = pl.lit(value=False)
    if OF_DIFFERENCE in schema:
        chosen = differs(OF_DIFFERENCE, by_probability=SAMPLED_BY in schema)
    mean, error = pl.col(MEAN_DIFFERENCE), pl.col(ERROR)
    shares = (pl.col("aggregate") == "mean") & moment_math.shares()
    uneven = is_uneven(error, pl.col(DISCORDANT) - mean**2, pl.col(EFFECTIVE))
    return {
        _SHARES: shares & pl.col("baseline_mean").is_between(0, 1),
        _UNITS: pl.col(HUMAN_UNITS),
        # Counts such as the number of relevant documents are equal in all runs.
        _EQUAL: (error == 0) & ((pl.col("aggregate") != "sum") | (mean != 0)),
        _UNEVEN: uneven & (pl.col("interval") == "tango"),
        _CHANGES: pl.col("wins") + pl.col("losses"),
        _OF_RUN: pl.col("queries"),
        _CHOSEN: chosen,
    }


def _with_warnings(
    result: pl.LazyFrame,
    groups: Sequence[str],
    run: str,
    test: str,
    *,
    weighted: bool,
    alpha: float | None,
) -> pl.LazyFrame:
    """Return the result with warnings; `alpha` is the level of tests of equivalence, if any."""

    def check(table: pl.DataFrame) -> pl.DataFrame:
        _warn_of_missing(table, [*groups, run])
        if test in RANK_TESTS and (table.get_column("queries") > MANY).any():
            warn(
                f"{test!r} is not a test of means: with more than {MANY:,} queries and skewed "
                "differences it rejects the null hypothesis far too often; use test='t'"
            )
        _warn_of_few(table, test)
        if weighted:
            warn_of_effective(table, table.get_column("queries") > 0)
            warn_of_uneven(table, table.get_column(_UNEVEN), "`test` 't'")
        warn_of_early(table, _UNITS, _CHANGES)
        method = table.get_column("interval")
        needs_variance = (method != "tango") & (method != "empirical_bernstein")
        without_interval = table.get_column(_EQUAL) & needs_variance
        warn_of_equal(table, without_interval, "differences")
        warn_of_sampling(table, table.get_column(_CHOSEN))
        if alpha is not None:
            warn_of_skewed(table, [*groups, "metric", run], table.get_column(_UNITS), alpha)
        return table

    return result.map_batches(check)


def _warn_of_missing(table: pl.DataFrame, keys: Sequence[str]) -> None:
    """Warn of runs with few or no queries in common with the baseline."""
    queries, labels = table.get_column("queries"), row_labels(table, keys)
    if (queries == 0).any():
        alone = [labels[place] for place in (queries == 0).arg_true()]
        warn(f"no query in common with the baseline: {first_few(alone)}")
    many = pl.Series([False] * table.height, dtype=pl.Boolean)
    for name in (_OF_RUN, OF_BASELINE):
        of_run = table.get_column(name)
        many |= (queries > 0) & (of_run - queries > MANY_MISSING * of_run)
    if many.any():
        missing = table.get_column("missing")
        some = [f"{labels[place]} ({missing[place]:,} missing)" for place in many.arg_true()]
        warn(
            f"more than {MANY_MISSING:.0%} of the queries of a run or of the baseline are not in "
            f"both, and are not compared: {first_few(some)}"
        )


def _warn_of_few(table: pl.DataFrame, test: str) -> None:
    """Warn of intervals and tests with too few units."""
    units, difference, low, high = (
        table.get_column(name) for name in (_UNITS, "difference", "low", "high")
    )
    some = (units > 1) & difference.is_not_null() & ~table.get_column(_EQUAL)
    if test == "bootstrap":
        if few := int((some & (units < FEW)).sum()):
            warn(
                f"{test!r} has fewer than {FEW} queries in {number_of(few, 'row')}; use test='t' "
                "or 'randomization'"
            )
        if unknown := int((some & table.get_column("p_value").is_null()).sum()):
            warn(
                f"{test!r} is null in {number_of(unknown, 'row')}: too many resamples have no "
                "variance, because few queries differ or all differ by the same amount; use "
                "test='t' or 'randomization'"
            )
    beyond = ((low < -1) & low.is_finite()) | ((high > 1) & high.is_finite())
    wide = (units < FEW) | (test == "bootstrap")
    warn_of_range(table, wide & table.get_column(_SHARES) & beyond, -1)
