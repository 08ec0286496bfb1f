"""Intervals of weighted estimates, and warnings for a small effective sample size."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import polars as pl

from polars_rank.errors import DataError, warn
from polars_rank.evaluation.means import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

#: With a lower effective sample size, 95% intervals are likely too narrow: in simulations they
#: contain the true value in 0.90 of logs at 10 to 20, and in 0.40 to 0.55 of logs below 5
#: (tests/benchmarks/clicks_coverage.md).
FEW = 30


def interval(value: pl.Expr, variance: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the bounds of the normal 95% interval."""
    width = NormalDist().inv_cdf(0.975) * variance.sqrt()
    return value - width, value + width


def concentration(weights: pl.Expr, squares: pl.Expr, highest: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the effective sample size (Kish, 1965) and the share of the largest weight.

    The arguments are the sum of the weights, the sum of their squares, and the largest weight.
    """
    return ratio(weights**2, squares), ratio(highest, weights)


def check_weights(groups: pl.DataFrame, by: Sequence[str], number: str) -> None:
    """Raise `DataError` for weights whose squares overflow; warn of few weights.

    Few are an effective sample size, or a count in the column `number`, below 30.
    """
    overflow = groups.filter(~pl.col("effective_sample_size").is_finite())
    if not overflow.is_empty():
        where = f", e.g. in {overflow.select(by).row(0, named=True)}" if by else ""
        raise DataError(
            f"weights are so large that their squares overflow{where}; clip the weights, or check "
            "the propensities"
        )
    size = pl.min_horizontal(pl.col("effective_sample_size").fill_null(0.0), number)
    few = groups.filter((pl.col(number) > 0) & (size < FEW)).select(*by, size.alias("size"))
    if few.is_empty():
        return
    first = few.sort("size").row(0, named=True)
    smallest = first.pop("size")
    where = f", e.g. in {first}" if by else ""
    warn(
        f"the effective sample size is {smallest:.3g}, below {FEW}{where}: the estimate depends on "
        "few weights and its interval is likely too narrow; use a log with more clicks, clip the "
        "weights, or evaluate a policy closer to the logged one"
    )
