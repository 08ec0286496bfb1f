"""The interval of an estimate from weights, and on how few weights it depends."""

from __future__ import annotations

import warnings
from statistics import NormalDist
from typing import TYPE_CHECKING

import polars as pl

from polars_rank.errors import RankWarning
from polars_rank.evaluation.means import ratio

if TYPE_CHECKING:
    from collections.abc import Sequence

#: With a lower effective sample size, 95% intervals are likely too narrow: in simulations they
#: contain the truth in 0.90 of logs at 10 to 20, and in 0.40 to 0.55 of logs below 5
#: (tests/benchmarks/clicks_coverage.md).
FEW = 30


def interval(value: pl.Expr, variance: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the bounds of the normal interval of 95 %."""
    width = NormalDist().inv_cdf(0.975) * variance.sqrt()
    return value - width, value + width


def concentration(weights: pl.Expr, squares: pl.Expr, highest: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return how many equal weights would say as much (Kish, 1965), and the share of the greatest.

    Of the sum of the weights, that of their squares, and the highest.
    """
    return ratio(weights**2, squares), ratio(highest, weights)


def warn_of_few(groups: pl.DataFrame, by: Sequence[str], number: str) -> None:
    """Warn of estimates that depend on few weights, or on few of what the column counts."""
    size = pl.min_horizontal(pl.col("effective_sample_size").fill_null(0.0), number)
    few = groups.filter((pl.col(number) > 0) & (size < FEW)).select(*by, size.alias("size"))
    if few.is_empty():
        return
    first = few.sort("size").row(0, named=True)
    found = first.pop("size")
    where = f", as in {first}" if by else ""
    message = (
        f"the effective sample size is {found:.3g}, below {FEW}{where}: few weights decide the "
        "estimate, and its interval is likely too narrow; take a log of more clicks, clip the "
        "weights, or evaluate a policy nearer to the logged one"
    )
    warnings.warn(message, RankWarning, stacklevel=2)
