"""Intervals and effective sample sizes of estimates from weighted clicks."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, names
from polars_rank.errors import DataError, warn
from polars_rank.evaluation.means import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

#: With a lower effective sample size, 95% intervals are likely too narrow. In simulations, they
#: contain the true value in 90% of logs if the size is 10 to 20, and in 40% to 55% of logs if it is
#: below 5 (tests/benchmarks/clicks_coverage.md).
MIN_SAMPLE_SIZE = 30


def interval(value: pl.Expr, variance: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the bounds of the normal 95% interval."""
    width = NormalDist().inv_cdf(0.975) * variance.sqrt()
    return value - width, value + width


def concentration(weights: pl.Expr, squares: pl.Expr, highest: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the effective sample size (Kish, 1965) and the share of the largest weight.

    The arguments are the sum of the weights, the sum of their squares, and the largest weight.
    """
    return ratio(weights**2, squares), ratio(highest, weights)


def check_weights(groups: pl.DataFrame, by: Sequence[str], number: str) -> pl.DataFrame:
    """Return the groups; raise `DataError` for weights whose squares overflow.

    Warn of small samples: the effective sample size, or the count in the column `number`, is below
    30.
    """
    overflow = groups.filter(~pl.col("effective_sample_size").is_finite())
    if not overflow.is_empty():
        raise DataError(
            f"weights are so large that their squares overflow{first_group(overflow, by)}; clip "
            "the weights, or check the propensities"
        )
    size = pl.min_horizontal(pl.col("effective_sample_size").fill_null(0.0), number)
    small = groups.filter((pl.col(number) > 0) & (size < MIN_SAMPLE_SIZE))
    if small.is_empty():
        return groups
    small = small.with_columns(size.alias("size")).sort("size")
    warn(
        f"the effective sample size is {small['size'][0]:.3g}, below "
        f"{MIN_SAMPLE_SIZE}{first_group(small, by)}: the estimate depends on few weights and its "
        "interval is likely too narrow; use a log with more clicks, clip the weights, or evaluate "
        "a policy closer to the logged one"
    )
    return groups


def first_group(rows: pl.DataFrame, by: Sequence[str]) -> str:
    """Return the group of the first row as the end of a message; empty without groups."""
    return f", e.g. in {rows.select(by).row(0, named=True)}" if by else ""


def cluster_columns(cluster: Names | None) -> dict[str, str]:
    """Return internal names of the columns of clusters → the user's names."""
    return {f"{OWN}cluster {index}": name for index, name in enumerate(names("cluster", cluster))}
