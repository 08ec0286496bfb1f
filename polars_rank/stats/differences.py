"""Tests, intervals and effect sizes of differences from a baseline, from moments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl
from polars import selectors

from polars_rank._params import OWN
from polars_rank.frames.tables import schema_of
from polars_rank.stats import moment_math
from polars_rank.stats.baselines import LIST_COLUMNS, OF_BASELINE
from polars_rank.stats.covariates import (
    MEAN,
    REDUCTION,
    with_adjustment,
)
from polars_rank.stats.hypotheses import Hypothesis
from polars_rank.stats.moment_tables import (
    COMPANIONS,
    DIFFERENCE,
    VALUES,
    scaled,
)
from polars_rank.stats.per_query_tables import (
    EMPTY,
    without,
)
from polars_rank.stats.prediction_estimates import (
    ESTIMATE_COLUMNS,
    HUMAN_UNITS,
    PROPORTION_UNITS,
    estimate,
    with_estimate,
)
from polars_rank.stats.predictions import (
    OF_DIFFERENCE,
    PREDICTED,
    SAMPLED_BY,
)
from polars_rank.stats.sequences import (
    SEQUENCE_SUMS,
)
from polars_rank.stats.significance import (
    Correction,
    Sample,
    Testing,
    corrected,
    corrected_confidence,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


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
#: Tests that are not about means.
RANK_TESTS = ("wilcoxon", "sign")

#: Columns of tested moments: the mean difference, its standard error and effective number of units,
#: and the share of differences that are not 0.
MEAN_DIFFERENCE, ERROR = OWN + "mean", OWN + "error"
EFFECTIVE, DISCORDANT = OWN + "effective", OWN + "discordant"
_WIDTH = OWN + "width"


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
    of_moments = schema_of(table)  # resolving the schema of a wide plan takes long
    table = _with_estimates(table, of_moments)
    mean, nulls = pl.col(DIFFERENCE + "mean"), hypothesis.nulls()
    # The mean square of differences of -1, 0 and 1 is the share of those that are not 0.
    square = pl.col(DIFFERENCE + "squares") / pl.col(DIFFERENCE + "weight") + mean * mean
    table = table.with_columns(
        pl.when(known).then(ERROR).alias(ERROR),
        pl.when("binary").then(pl.max_horizontal(square, mean.abs())).alias(DISCORDANT),
        pl.when(pl.col("binary") & (testing.test == "auto"))
        .then(PROPORTION_UNITS)
        .otherwise(EFFECTIVE)
        .alias(EFFECTIVE),
        # A mean that differs from the null hypothesis by a rounding error is equal to it.
        pl.coalesce(
            *(
                pl.when((mean - null).abs() <= moment_math.rounding(DIFFERENCE)).then(null)
                for null in nulls.values()
            ),
            mean,
        ).alias(MEAN_DIFFERENCE),
        *([pl.when(known).then(SEQUENCE_SUMS)] if SEQUENCE_SUMS in of_moments else ()),
        **nulls,
        **hypothesis.distances(ERROR),
    )
    schema = {
        **{name: dtype for name, dtype in schema_of(table).items() if name not in LIST_COLUMNS},
        **_TESTED,
    }

    def test(rows: pl.DataFrame) -> pl.DataFrame:
        tested = _tested(rows, testing, correction, hypothesis)
        series = [pl.Series(name, tested[name], dtype) for name, dtype in _TESTED.items()]
        return without(rows, *LIST_COLUMNS).hstack(series)

    return table.map_batches(test, schema=schema)


def _with_estimates(table: pl.LazyFrame, schema: pl.Schema) -> pl.LazyFrame:
    """Add the standard error and the effective number of units of the difference.

    With predictions, the means are estimates, too: the baseline's is that of the run less the
    difference, so that each of them has its own weight of the judge.
    """
    of_units = moment_math.effective(DIFFERENCE)
    if MEAN in schema:
        units = dict.fromkeys((HUMAN_UNITS, PROPORTION_UNITS), of_units)
        return with_adjustment(table, DIFFERENCE, ERROR, EFFECTIVE).with_columns(**units)
    if OF_DIFFERENCE not in schema:
        units = dict.fromkeys((EFFECTIVE, HUMAN_UNITS, PROPORTION_UNITS), of_units)
        return table.with_columns(moment_math.std_error(DIFFERENCE).alias(ERROR), **units)
    by_probability = SAMPLED_BY in schema
    table = with_estimate(
        table, OF_DIFFERENCE, DIFFERENCE, ERROR, EFFECTIVE, by_probability=by_probability
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
    """Return the columns of tests; `_WIDTH` is the half-width of intervals in standard errors."""
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
        _WIDTH: [testing.width(each) for each in samples],
    }


def _samples(rows: pl.DataFrame) -> list[Sample]:
    def column(name: str) -> list[Any]:
        return rows.get_column(name).to_list()

    counts = zip(column("wins"), column("losses"), column("lower_is_better"), strict=True)
    signs = [(losses, wins) if lower else (wins, losses) for wins, losses, lower in counts]
    known = (
        *(column(MEAN_DIFFERENCE), column(ERROR), column(EFFECTIVE)),
        *([above for above, _ in signs], [below for _, below in signs], column(DISCORDANT)),
    )
    if SEQUENCE_SUMS in rows.columns:
        samples = map(Sample, *known)
        return [
            each._replace(sums=sums)
            for each, sums in zip(samples, column(SEQUENCE_SUMS), strict=True)
        ]
    if VALUES not in rows.columns:
        return list(map(Sample, *known))
    values, keys = ([each.to_numpy() for each in rows.get_column(name)] for name in LIST_COLUMNS)
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
    schema = schema_of(table)
    effective = [pl.col(HUMAN_UNITS).alias("effective")] if weighted else []
    if REDUCTION in schema:
        effective.append(pl.col(REDUCTION))
    if {OF_DIFFERENCE, REDUCTION} & {*schema}:
        unknown = ("relative_low", "relative_high", "effect_low", "effect_high")
        values |= dict.fromkeys(unknown, pl.lit(None, pl.Float64))
    if OF_DIFFERENCE in schema:
        effective += [pl.col(name) for name in ESTIMATE_COLUMNS]
    result = table.select(
        *keys,
        *(pl.when(known).then(value).alias(name) for name, value in values.items()),
        *("interval", "confidence", "p_value", "p_corrected", "wins", "ties", "losses"),
        pl.col("pairs").alias("queries"),
        pl.col(DIFFERENCE + "counted").alias("used"),
        *effective,
        (pl.col("queries") + pl.col(OF_BASELINE) - 2 * pl.col("pairs")).alias("missing"),
        pl.col("pair_undefined").alias("undefined"),
        selectors.by_name(EMPTY, require_all=False),
        *also,
    ).with_columns(
        relative_difference=pl.when(pl.col("baseline_mean") != 0).then(
            pl.col("difference") / pl.col("baseline_mean").abs()
        )
    )
    if test in RANK_TESTS:
        many = f"{test!r} is unreliable with more than {MANY:,} queries; use test='t'"
        result = result.with_columns(
            warning=pl.when(pl.col("queries") > MANY).then(pl.lit(many)).otherwise(None)
        )
    order = (name for name in COLUMNS if name not in keys)
    return result.select(*keys, selectors.by_name(*order, require_all=False), *also)


def _relative_bounds() -> dict[str, pl.Expr]:
    """Return Fieller's interval of the relative difference.

    The ratio r of the means d and b > 0 is inside if |d - r·b| is at most q standard errors, which
    is a quadratic inequality in r. For b < 0, it is the ratio of d and -b.
    """
    difference, q = pl.col(DIFFERENCE + "mean"), pl.col(_WIDTH)
    base, sign = pl.col("baseline_mean").abs(), pl.col("baseline_mean").sign()
    covariance = sign * moment_math.covariance(DIFFERENCE, *COMPANIONS, DIFFERENCE)
    squares = base * base - q * q * moment_math.variance("baseline_", DIFFERENCE)
    products = difference * base - q * q * covariance
    constant = difference * difference - q * q * pl.col(ERROR) ** 2
    root = (products * products - squares * constant).clip(0.0).sqrt()
    exists = (squares > 0) & (pl.col(ERROR) > 0)
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
    error = pl.col(ERROR) / spread * (1 - skewness * effect + of_spread).sqrt()
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
