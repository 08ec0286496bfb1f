"""Intervals, tests and effective sample sizes of estimates from clicks."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from polars_rank._params import OWN, Names, names
from polars_rank.errors import DataError, warn
from polars_rank.evaluation.means import ratio
from polars_rank.stats.intervals import special

if TYPE_CHECKING:
    from collections.abc import Sequence

#: With a lower effective sample size, 95% intervals are likely too narrow. In simulations, they
#: contain the true value in 90% of logs if the size is 10 to 20, and in 40% to 55% of logs if it is
#: below 5 (tests/benchmarks/clicks_coverage.md).
MIN_SAMPLE_SIZE = 30


#: Column of the effective number of rankings or clusters.
EFFECTIVE = OWN + "effective"
#: A variance below this share of its terms may be a rounding error.
_ROUNDING = 1e-14


class Result(NamedTuple):
    """The bounds of an interval and a p-value; None where they are unknown."""

    low: float | None
    high: float | None
    p_value: float | None


def ratio_variance(
    spread: pl.Expr, terms: pl.Expr, divisor: pl.Expr, divisor_squares: pl.Expr
) -> pl.Expr:
    """Return the variance of a ratio of sums Σv / Σd = m; null for one effective unit.

    The arguments are Σ(v - md)² over the sampling units, the sum of its terms, Σd and Σd². The
    variance is n / (n - 1) · Σ(v - md)² / (Σd)² with the effective number of units n (Kish, 1965).
    """
    number = ratio(divisor**2, divisor_squares)
    known = pl.when(spread > _ROUNDING * terms).then(spread).otherwise(0.0)
    return pl.when(number > 1).then(known / divisor**2 * number / (number - 1))


def interval(value: pl.Expr, variance: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the bounds of the normal 95% interval; null if the variance is 0 or unknown."""
    width = pl.when(variance > 0).then(NormalDist().inv_cdf(0.975) * variance.sqrt())
    return value - width, value + width


def t_test(
    value: float | None, variance: float | None, units: float | None, confidence: float
) -> Result:
    """Return the bounds of the t interval and the p-value of the two-sided t test of value = 0.

    With a variance of 0, the bounds are unknown, and the p-value is 1 or unknown.
    """
    if value is None or variance is None or units is None:
        return Result(None, None, None)
    if not variance:
        return Result(None, None, None if value else 1.0)
    degrees, error = units - 1, variance**0.5
    width = float(special().stdtrit(degrees, (1 + confidence) / 2)) * error
    p_value = 2 * float(special().stdtr(degrees, -abs(value) / error))
    return Result(value - width, value + width, p_value)


def concentration(weights: pl.Expr, squares: pl.Expr, highest: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the effective sample size (Kish, 1965) and the share of the largest weight.

    The arguments are the sum of the weights, the sum of their squares, and the largest weight.
    """
    return ratio(weights**2, squares), ratio(highest, weights)


def check_weights(
    groups: pl.DataFrame, by: Sequence[str], number: str, variances: Sequence[str]
) -> pl.DataFrame:
    """Return the groups without `EFFECTIVE`; raise `DataError` for weights that overflow.

    Warn of small samples: the effective sample size or the effective number of units is below 30.
    Warn of columns `variances` that are 0. The column `number` has the number of rankings.
    """
    overflow = groups.filter(~pl.col("effective_sample_size").is_finite())
    if not overflow.is_empty():
        raise DataError(
            f"weights are so large that their squares overflow{first_group(overflow, by)}; clip "
            "the weights, or check the propensities"
        )
    filled = groups.filter(pl.col(number) > 0)
    size = pl.min_horizontal(pl.col("effective_sample_size", EFFECTIVE).fill_null(0.0))
    small = filled.filter(size < MIN_SAMPLE_SIZE)
    if not small.is_empty():
        small = small.with_columns(size.alias("size")).sort("size")
        warn(
            f"the effective sample size is {small['size'][0]:.3g}, below "
            f"{MIN_SAMPLE_SIZE}{first_group(small, by)}: the estimate depends on few weights and "
            "its interval is likely too narrow; use a log with more clicks, clip the weights, or "
            "evaluate a policy closer to the logged one"
        )
    equal = filled.filter(pl.any_horizontal(pl.col(variances) == 0))
    if not equal.is_empty():
        warn(
            f"all rankings or clusters have the same value{first_group(equal, by)}: the variance "
            "is 0 and the interval is unknown; use a log with more clicks"
        )
    return groups.drop(EFFECTIVE)


def first_group(rows: pl.DataFrame, by: Sequence[str]) -> str:
    """Return the group of the first row as the end of a message; empty without groups."""
    return f", e.g. in {rows.select(by).row(0, named=True)}" if by else ""


def cluster_columns(cluster: Names | None) -> dict[str, str]:
    """Return internal names of the columns of clusters → the user's names."""
    return {f"{OWN}cluster {index}": name for index, name in enumerate(names("cluster", cluster))}
