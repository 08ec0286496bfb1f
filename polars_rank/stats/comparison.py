"""`compare`: differences between runs, with confidence intervals and significance tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import polars as pl
from polars import selectors

from polars_rank._params import OWN, Names, free, integer, one_of, share, whole_number
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError, DataError, SchemaError, number_of, warn
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats import moment_math
from polars_rank.stats.covariates import (
    MEAN,
    REDUCTION,
    check_covariate,
    with_adjustment,
    with_covariate,
    with_known_mean,
)
from polars_rank.stats.hypotheses import Hypothesis
from polars_rank.stats.intervals import (
    FEW,
    Alternative,
    is_uneven,
    special,
    warn_of_effective,
    warn_of_equal,
    warn_of_range,
    warn_of_uneven,
)
from polars_rank.stats.moment_tables import (
    COMPANIONS,
    DIFFERENCE,
    KINDS,
    QUERY_KEYS,
    UNITS,
    VALUES,
    check_groups,
    is_moments,
    paired_sums,
    regrouped,
    scaled,
)
from polars_rank.stats.per_query_tables import (
    EMPTY,
    first_few,
    in_order,
    key_columns,
    only_metrics,
    refuse_definitions,
    refuse_with_moments,
    row_labels,
    variables,
    warn_of_empty,
    with_definitions,
    without,
)
from polars_rank.stats.predictions import (
    ESTIMATE_COLUMNS,
    OF_DIFFERENCE,
    PREDICTED,
    SAMPLED_BY,
    check_predictions,
    differs,
    estimate,
    predicted_values,
    warn_of_sampling,
    with_estimate,
    with_predictions,
)
from polars_rank.stats.run_pairs import Pairs, is_run, unknown_run
from polars_rank.stats.significance import (
    Correction,
    Sample,
    Test,
    Testing,
    corrected,
    corrected_confidence,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics

#: Polars prints the first four and the last four columns of a wide table: what users read first.
COLUMNS = (
    *("metric", "mean", "difference", "relative_difference", "relative_low", "relative_high"),
    *("baseline_mean", "effect_size", "effect_low", "effect_high", "skewness"),
    *("wins", "ties", "losses", "queries", "used", "effective", *ESTIMATE_COLUMNS),
    *("variance_reduction", "missing"),
    *("undefined", EMPTY),
    *("warning", "interval", "confidence", "low_corrected", "high_corrected"),
    *("low", "high", "p_value", "p_corrected"),
)
#: Above this number of queries, Wilcoxon's test and the sign test are unreliable.
MANY = 1_000
#: Above this share of queries without a counterpart in the other run, `compare` warns.
_MANY_MISSING = 0.05

_MEAN, _ERROR = OWN + "mean", OWN + "error"
_EFFECTIVE, _DISCORDANT, _WIDTH = OWN + "effective", OWN + "discordant", OWN + "width"
_OF_RUN, _OF_BASELINE = OWN + "of run", OWN + "of baseline"
_BASELINE_BINARY, _CHOSEN = OWN + "baseline binary", OWN + "chosen"
_UNEVEN = OWN + "uneven"
_SHARES, _UNITS, _EQUAL = OWN + "shares", OWN + "units", OWN + "equal"
_IS_BASELINE = OWN + "is baseline"


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

        - "auto": for metrics whose values are 0 or 1, such as the hit rate, Tango's score test,
          which is McNemar's test for a margin of 0; otherwise "t". With weights or clusters, n is
          the effective number of units, as if all queries of a cluster had the same values: if
          they do not, "t" is narrower;
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
        p-value is that of the paired t test of d + rb or d - rb, which accounts for the estimated
        mean of the baseline. Null if that mean may be 0. Only for the tests "auto" and "t",
        without `predictions` and `covariate`.
    confidence
        Confidence level, between 0 and 1. A one-sided alternative has one-sided intervals. With
        "equivalent", intervals have the level 2 * `confidence` - 1, such as 90%: the run is
        equivalent if and only if the interval is between the margins.
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
        metric reads. Only for the tests "auto" and "t".
    probability
        Column of `values` with the probability with which a query was chosen for people to judge.
        None: all queries were equally likely.
    covariate
        Column of a number that is known before the experiment, such as the query's metric last
        month, and is the same in all runs: an error if it is null. The differences are adjusted
        for it by regression (CUPED), which reduces their variance. Only for the tests "auto" and
        "t", without `by`. For `moments`, the covariate that they were computed with.
    covariate_mean
        Mean of the covariate over all queries, of which those in the table are a random sample,
        such as the metric of all of last month's queries; with `weight`, the weighted mean. The
        adjustment is to this mean. The mean over the table instead would reduce nothing: both
        runs have the same queries.
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
          both runs, and the difference relative to the baseline's mean;
        - `relative_low`, `relative_high`: confidence interval of the relative difference, Fieller's
          with the t distribution; null if the baseline's mean may be 0;
        - `effect_size`: Cohen's dz, the mean difference divided by its standard deviation; null if
          that is 0;
        - `effect_low`, `effect_high`: confidence interval of the effect size (delta method);
        - `skewness`: skewness of the differences, which makes t unreliable for few queries;
        - `wins`, `ties`, `losses`: number of queries with a higher, equal and lower value than in
          the baseline;
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
          (the differences that the test does not reject), "bootstrap", or "t";
        - `confidence`: confidence level of the intervals, which are two-sided for "equivalent";
        - `low_corrected`, `high_corrected`: confidence interval of the difference that is corrected
          for the number of rows: Bonferroni's, which is conservative for "holm", or Benjamini and
          Yekutieli's for "bh";
        - `low`, `high`: confidence interval of the difference; null for one unit, or if all
          differences are equal and the interval is not Tango's;
        - `p_value`, `p_corrected`: null for fewer than two queries.

        For a geometric mean, the test is about the logarithms, and the interval treats the
        baseline's mean as known.

    Raises
    ------
    DataError
        A query occurs twice in a run, its weights differ between runs, the baseline does not
        exist, or there is no other run. Raised when the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        The result may mislead: more than 5% of the queries of a run or of the baseline are not in
        both; moments of groups with the same queries are pooled; a run has mostly empty rankings;
        all differences are equal; `covariate_mean` equals the mean over the table, or is far from
        it; there are fewer than 30 effective units with weights or clusters; there are more than
        1,000 queries for "wilcoxon" or "sign", or fewer than 30 for "bootstrap"; a bootstrap is
        null; or an interval of a bootstrap or of fewer than 30 units exceeds [-1, 1] for a metric
        in [0, 1].

    Notes
    -----
    Wilcoxon's test and the sign test are not about the mean. With many queries and skewed
    differences they reject the null hypothesis far too often (Ihemelandu & Ekstrand, 2023).
    Prefer "t", or "randomization" for few queries.

    The interval is about all queries like these, of which those in the table are a sample. If the
    same queries occur several times, for example on several days, they are not new queries: average
    each query's values first, or use ``query=["query", "day"]`` and ``cluster="query"``. The
    interval is then about all queries like these, on these days. With the day in `query`, repeated
    queries are not detected.

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
    share("confidence", confidence)
    hypothesis = Hypothesis.of(alternative, margin, relative_margin, confidence)
    whole_number("n_resamples", n_resamples)
    integer("seed", seed)
    special()
    if test not in ("auto", "t") and (weight is not None or cluster is not None):
        raise ArgumentError(f"`weight` and `cluster` need `test` 'auto' or 't'; found {test!r}")
    check_predictions(predictions, probability)
    if predictions is not None and test not in ("auto", "t"):
        raise ArgumentError(f"`predictions` needs `test` 'auto' or 't'; found {test!r}")
    others = {"by": by, "predictions": predictions is not None}
    check_covariate(covariate, covariate_mean, test, others)
    values, definitions = with_definitions(values, conventions, undefined)
    testing = Testing(test, alternative, confidence, n_resamples, seed)
    needs_values = test not in ("auto", "t", "sign") or (test == "sign" and margin != 0)

    schema = schema_of(values)
    estimated = predictions is not None or OF_DIFFERENCE in schema
    hypothesis.check_margin(test, predictions=estimated, covariate=covariate is not None)
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
        keys = {**pairs.columns, "covariate": [] if covariate is None else [covariate]}
        selected = variables(schema, metrics, definitions, keys, undefined=undefined)
        moments = paired_sums(values, selected, pairs, definitions, values=needs_values)
        if predictions is not None:
            moments = with_predictions(
                moments, values, predicted_values(predictions, definitions, conventions, undefined),
                selected, pairs.columns, weight=weight, probability=probability, pairs=pairs,
            )  # fmt: skip
        if covariate is not None:
            moments = with_covariate(moments, values, selected, pairs, covariate)
        weighted = pairs.is_weighted
    if covariate is not None and covariate_mean is not None:
        moments = with_known_mean(moments, covariate, covariate_mean)
    compared = against_baseline(moments, groups, run, baseline)
    results = with_tests(compared, testing, correction, hypothesis)
    shares = (pl.col("aggregate") == "mean") & moment_math.shares()
    results = results.with_columns(
        (shares & pl.col("baseline_mean").is_between(0, 1)).alias(_SHARES),
        pl.col(_EFFECTIVE).alias(_UNITS),
        # Counts such as the number of relevant documents are equal in all runs.
        ((pl.col(_ERROR) == 0) & ((pl.col("aggregate") != "sum") | (pl.col(_MEAN) != 0))).alias(
            _EQUAL
        ),
        (
            is_uneven(pl.col(_ERROR), pl.col(_DISCORDANT) - pl.col(_MEAN) ** 2, pl.col(_EFFECTIVE))
            & (pl.col("interval") == "tango")
        ).alias(_UNEVEN),
        pl.col("queries").alias(_OF_RUN),
        (
            differs(OF_DIFFERENCE, by_probability=SAMPLED_BY in schema_of(results))
            if OF_DIFFERENCE in schema_of(results)
            else pl.lit(value=False)
        ).alias(_CHOSEN),
    )
    beside = [_SHARES, _UNITS, _EQUAL, _UNEVEN, _OF_RUN, _OF_BASELINE, _CHOSEN]
    result = result_of(results, [*groups, "metric", run], test, weighted=weighted, also=beside)
    return _with_warnings(result, groups, run, test, weighted=weighted).drop(beside)


def groups_of_moments(schema: pl.Schema, by: Names | None, run: str, baseline: Any) -> list[str]:
    """Return the columns of `by`; raise unless the moments have differences in these groups."""
    if "baseline" not in schema:
        raise SchemaError(
            "the moments have no differences from a baseline; compute them with "
            f"run={run!r} and baseline={baseline!r}"
        )
    groups = [*key_columns(schema, by=by, run=run)["by"]]
    check_groups(schema, [*groups, run])
    return groups


def against_baseline(
    table: pl.LazyFrame,
    groups: Sequence[str],
    run: str,
    baseline: Any,
    *,
    empty_by: Sequence[str] | None = None,
    repeated: Sequence[str] = ("metric",),
) -> pl.LazyFrame:
    """Return the moments of the other runs, with the number of the baseline's rankings.

    A run without rankings in a group of the baseline has a row of zeros. Rows are in the order of
    groups, metrics and runs. For `empty_by` and `repeated` see `warn_of_empty`.
    """
    schema = schema_of(table)
    marked = table.with_columns(is_run(run, schema[run], baseline).alias(_IS_BASELINE))

    def others(rows: pl.DataFrame) -> pl.DataFrame:
        _check_runs(rows, run, baseline)
        warn_of_empty(rows, [*groups, run] if empty_by is None else empty_by, repeated)
        return rows

    checked = marked.map_batches(others).cache()
    with_mark = pl.Schema({**schema, _IS_BASELINE: pl.Boolean()})
    checked = pl.concat([checked, _rows_of_zeros(checked, with_mark, groups, run)])
    of_baseline = {"queries": _OF_BASELINE, "binary": _BASELINE_BINARY}
    rows = checked.with_columns(
        pl.col(name).filter(pl.col(_IS_BASELINE)).first().over(*groups, "metric").alias(other)
        for name, other in of_baseline.items()
    ).with_columns(
        pl.col(_OF_BASELINE).fill_null(0), pl.col(_BASELINE_BINARY).fill_null(value=False)
    )
    rows = rows.filter(~pl.col(_IS_BASELINE))
    return in_order(rows, groups, [run]).drop(_IS_BASELINE)


def _rows_of_zeros(
    table: pl.LazyFrame, schema: pl.Schema, groups: Sequence[str], run: str
) -> pl.LazyFrame:
    """Return a row of zeros for each group and metric of the baseline that a run does not have."""
    others = table.filter(~pl.col(_IS_BASELINE))
    of_baseline = table.filter(_IS_BASELINE).drop(run)
    rows = of_baseline.join(others.select(run).unique(), how="cross").join(
        others.select(*groups, "metric", run),
        on=[*groups, "metric", run],
        how="anti",
        nulls_equal=True,
    )
    kept = {*groups, *KINDS, *UNITS, "baseline", run}
    means = {each + "mean" for each in ("", DIFFERENCE, *COMPANIONS)}
    empty = {
        name: pl.lit(None if name in means or not dtype.is_numeric() else 0, dtype=dtype)
        for name, dtype in schema.items()
        if name not in kept
    }
    empty |= {name: pl.lit(value=False) for name in (_IS_BASELINE, "binary")}
    empty |= {name: pl.lit([], dtype=schema[name]) for name in _LIST_COLUMNS if name in schema}
    return rows.with_columns(value.alias(name) for name, value in empty.items()).select(*schema)


def _check_runs(rows: pl.DataFrame, run: str, baseline: Any) -> None:
    if not rows.height:
        return
    is_baseline = rows.get_column(_IS_BASELINE)
    values = rows.get_column(run).unique().sort()
    if not is_baseline.any():
        raise unknown_run(run, values.to_list(), "baseline", baseline)
    if is_baseline.all():
        raise DataError(
            f"the column {run!r} has only the run {values[0]!r}; put the per-query values of all "
            "runs in one table"
        )
    made_with = rows.get_column("baseline")[0]
    if made_with != str(baseline):
        raise DataError(
            f"the moments were computed with the baseline {made_with!r}; found `baseline` "
            f"{baseline!r}"
        )


def with_tests(
    table: pl.LazyFrame,
    testing: Testing,
    correction: Correction,
    hypothesis: Hypothesis,
    *,
    at_least: int = 0,
) -> pl.LazyFrame:
    """Return the moments with p-values and confidence intervals of the mean difference.

    Rows with fewer queries than `at_least` are not tested.
    """
    known = (pl.col("counts_as") != "null") | (pl.col("pair_undefined") == 0)
    known &= pl.col("pairs") >= at_least
    table = _with_estimates(table)
    mean, nulls = pl.col(DIFFERENCE + "mean"), hypothesis.nulls()
    # The mean square of differences of -1, 0 and 1 is the share of those that are not 0.
    square = pl.col(DIFFERENCE + "squares") / pl.col(DIFFERENCE + "weight") + mean * mean
    is_binary = pl.col("binary") & pl.col(_BASELINE_BINARY)
    table = table.with_columns(
        pl.when(known).then(_ERROR).alias(_ERROR),
        pl.when(is_binary).then(square).alias(_DISCORDANT),
        # A mean that differs from the null hypothesis by a rounding error is equal to it.
        pl.coalesce(
            *(
                pl.when((mean - null).abs() <= moment_math.rounding(DIFFERENCE)).then(null)
                for null in nulls.values()
            ),
            mean,
        ).alias(_MEAN),
        **nulls,
        **hypothesis.distances(_ERROR),
    )
    schema = {
        **{name: dtype for name, dtype in schema_of(table).items() if name not in _LIST_COLUMNS},
        **_TESTED,
    }

    def test(rows: pl.DataFrame) -> pl.DataFrame:
        tested = _tested(rows, testing, correction, hypothesis)
        series = [pl.Series(name, tested[name], dtype) for name, dtype in _TESTED.items()]
        return without(rows, *_LIST_COLUMNS).hstack(series)

    return table.map_batches(test, schema=schema)


def _with_estimates(table: pl.LazyFrame) -> pl.LazyFrame:
    """Add the standard error and the effective number of units of the difference.

    With predictions, the means are estimates, too: the baseline's is that of the run less the
    difference, so that each of them has its own weight of the judge.
    """
    schema = schema_of(table)
    if MEAN in schema:
        return with_adjustment(table, DIFFERENCE, _ERROR, _EFFECTIVE)
    if OF_DIFFERENCE not in schema:
        return table.with_columns(
            moment_math.std_error(DIFFERENCE).alias(_ERROR),
            moment_math.effective(DIFFERENCE).alias(_EFFECTIVE),
        )
    by_probability = SAMPLED_BY in schema
    table = with_estimate(
        table, OF_DIFFERENCE, DIFFERENCE, _ERROR, _EFFECTIVE, by_probability=by_probability
    )
    mean = estimate(PREDICTED, by_probability=by_probability).mean
    return table.with_columns(
        mean.alias("run_mean"), (mean - pl.col(DIFFERENCE + "mean")).alias("baseline_mean")
    )


#: The columns of tests.
_TESTED = {
    **dict.fromkeys(
        ("p_value", "p_corrected", "low", "high", "low_corrected", "high_corrected"), pl.Float64()
    ),
    "confidence": pl.Float64(),
    "interval": pl.String(),
    _WIDTH: pl.Float64(),
}


def _tested(
    rows: pl.DataFrame, testing: Testing, correction: Correction, hypothesis: Hypothesis
) -> dict[str, list[Any]]:
    """Return the columns of tests; `_WIDTH` is the half-width of t intervals."""
    samples, confidence = _samples(rows), testing.confidence
    results = hypothesis.results(rows, samples, testing)
    p_values = [each.p_value for each in results]
    level = corrected_confidence(p_values, correction, confidence)
    bounds = [each.bounds(confidence) for each in results]
    wider = [each.bounds(level) for each in results]
    return {
        "p_value": p_values,
        "p_corrected": corrected(p_values, correction),
        "low": [low for low, _ in bounds],
        "high": [high for _, high in bounds],
        "low_corrected": [low for low, _ in wider],
        "high_corrected": [high for _, high in wider],
        "confidence": [hypothesis.level(confidence)] * len(samples),
        "interval": [each.interval for each in results],
        _WIDTH: [testing.t_width(each, confidence) if each.std_error else None for each in samples],
    }


_LIST_COLUMNS = (VALUES, QUERY_KEYS)


def _samples(rows: pl.DataFrame) -> list[Sample]:
    def column(name: str) -> list[Any]:
        return rows.get_column(name).to_list()

    known = (
        *(column(_MEAN), column(_ERROR), column(_EFFECTIVE)),
        *(column("wins"), column("losses"), column(_DISCORDANT)),
    )
    if VALUES not in rows.columns:
        return list(map(Sample, *known))
    values, keys = ([each.to_numpy() for each in rows.get_column(name)] for name in _LIST_COLUMNS)
    return list(map(Sample, *known, values, keys))


def result_of(
    table: pl.LazyFrame,
    keys: Sequence[str],
    test: str,
    *,
    weighted: bool,
    also: Sequence[str] = (),
) -> pl.LazyFrame:
    """Return the result of `compare` from tested moments, with their columns `also`."""
    aggregate, mean = pl.col("aggregate"), pl.col("run_mean")
    base, weight = pl.col("baseline_mean"), DIFFERENCE + "weight"
    known = (pl.col("counts_as") != "null") | (pl.col("pair_undefined") == 0)

    def change(value: pl.Expr) -> pl.Expr:
        of_geometric_means = base.exp() * (value.exp() - 1)
        return (
            pl.when(aggregate == "geometric")
            .then(of_geometric_means)
            .otherwise(scaled(value, weight))
        )

    values = {
        "baseline_mean": scaled(base, weight),
        "mean": scaled(mean, weight),
        "difference": change(pl.col(DIFFERENCE + "mean")),
        **{name: change(pl.col(name)) for name in ("low", "high")},
        **{name: change(pl.col(name)) for name in ("low_corrected", "high_corrected")},
        **_relative_bounds(),
        **_effect(),
        "skewness": moment_math.skewness(DIFFERENCE),
    }
    effective = [pl.col(_EFFECTIVE).alias("effective")] if weighted else []
    if REDUCTION in schema_of(table):
        effective.append(pl.col(REDUCTION))
    if {OF_DIFFERENCE, REDUCTION} & {*schema_of(table)}:
        unknown = ("relative_low", "relative_high", "effect_low", "effect_high")
        values |= dict.fromkeys(unknown, pl.lit(None, pl.Float64))
    if OF_DIFFERENCE in schema_of(table):
        effective += [pl.col(name) for name in ESTIMATE_COLUMNS]
    result = table.select(
        *keys,
        *(pl.when(known).then(value).alias(name) for name, value in values.items()),
        *("interval", "confidence", "p_value", "p_corrected", "wins", "ties", "losses"),
        pl.col("pairs").alias("queries"),
        pl.col(DIFFERENCE + "counted").alias("used"),
        *effective,
        (pl.col("queries") + pl.col(_OF_BASELINE) - 2 * pl.col("pairs")).alias("missing"),
        pl.col("pair_undefined").alias("undefined"),
        selectors.by_name(EMPTY, require_all=False),
        *also,
    ).with_columns(
        relative_difference=pl.when(pl.col("baseline_mean") != 0).then(
            pl.col("difference") / pl.col("baseline_mean")
        )
    )
    if test in _RANK_TESTS:
        many = f"{test!r} is unreliable with more than {MANY:,} queries; use test='t'"
        result = result.with_columns(
            warning=pl.when(pl.col("queries") > MANY).then(pl.lit(many)).otherwise(None)
        )
    order = (name for name in COLUMNS if name not in keys)
    return result.select(*keys, selectors.by_name(*order, require_all=False), *also)


def _relative_bounds() -> dict[str, pl.Expr]:
    """Return Fieller's interval of the relative difference.

    The ratio r of the means d and b is inside if |d - r·b| is at most q standard errors, which is
    a quadratic inequality in r.
    """
    difference, base, q = pl.col(DIFFERENCE + "mean"), pl.col("baseline_mean"), pl.col(_WIDTH)
    covariance = moment_math.covariance(DIFFERENCE, *COMPANIONS, DIFFERENCE)
    squares = base * base - q * q * moment_math.variance("baseline_", DIFFERENCE)
    products = difference * base - q * q * covariance
    constant = difference * difference - q * q * pl.col(_ERROR) ** 2
    root = (products * products - squares * constant).clip(0.0).sqrt()
    exists = (squares > 0) & (pl.col(_ERROR) > 0)
    geometric = pl.col("aggregate") == "geometric"
    bounds = {"low": (products - root) / squares, "high": (products + root) / squares}
    return {
        f"relative_{side}": _one_sided(
            side, pl.when(geometric).then(pl.col(side).exp() - 1).when(exists).then(bound)
        )
        for side, bound in bounds.items()
    }


def _effect() -> dict[str, pl.Expr]:
    """Return the effect size and its interval.

    The variance of the ratio of mean and standard deviation (delta method) depends on the skewness
    and the kurtosis; the kurtosis is that of a gamma distribution with this skewness.
    """
    spread, skewness = moment_math.std(DIFFERENCE), moment_math.skewness(DIFFERENCE)
    effect = pl.when(spread > 0).then(pl.col(DIFFERENCE + "mean") / spread)
    of_spread = effect * effect * (2 + 1.5 * skewness * skewness) / 4
    error = pl.col(_ERROR) / spread * (1 - skewness * effect + of_spread).sqrt()
    half = pl.col(_WIDTH) * error
    return {
        "effect_size": effect,
        "effect_low": _one_sided("low", effect - half),
        "effect_high": _one_sided("high", effect + half),
    }


def _one_sided(side: str, bound: pl.Expr) -> pl.Expr:
    """Return a bound, infinite where the interval of the difference has no such bound."""
    of_difference = pl.col(side)
    return (
        pl.when(of_difference.is_infinite() & bound.is_not_null())
        .then(of_difference)
        .otherwise(bound)
    )


_RANK_TESTS = ("wilcoxon", "sign")


def _with_warnings(
    result: pl.LazyFrame, groups: Sequence[str], run: str, test: str, *, weighted: bool
) -> pl.LazyFrame:
    def check(table: pl.DataFrame) -> pl.DataFrame:
        _warn_of_missing(table, [*groups, run])
        if test in _RANK_TESTS and (table.get_column("queries") > MANY).any():
            warn(
                f"{test!r} is not a test of means: with more than {MANY:,} queries and skewed "
                "differences it rejects the null hypothesis far too often; use test='t'"
            )
        _warn_of_few(table, test)
        if weighted:
            warn_of_effective(table, table.get_column("queries") > 0)
            warn_of_uneven(table, table.get_column(_UNEVEN), "`test` 't'")
        without_interval = table.get_column(_EQUAL) & (table.get_column("interval") != "tango")
        warn_of_equal(table, without_interval, "differences")
        warn_of_sampling(table, table.get_column(_CHOSEN))
        return table

    return result.map_batches(check)


def _warn_of_missing(table: pl.DataFrame, names: Sequence[str]) -> None:
    """Warn of runs with few or no queries in common with the baseline."""
    queries, labels = table.get_column("queries"), row_labels(table, names)
    if (queries == 0).any():
        alone = [labels[place] for place in (queries == 0).arg_true()]
        warn(f"no query in common with the baseline: {first_few(alone)}")
    many = pl.Series([False] * table.height, dtype=pl.Boolean)
    for name in (_OF_RUN, _OF_BASELINE):
        of_run = table.get_column(name)
        many |= (queries > 0) & (of_run - queries > _MANY_MISSING * of_run)
    if many.any():
        missing = table.get_column("missing")
        some = [f"{labels[place]} ({missing[place]:,} missing)" for place in many.arg_true()]
        warn(
            f"more than {_MANY_MISSING:.0%} of the queries of a run or of the baseline are not in "
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
