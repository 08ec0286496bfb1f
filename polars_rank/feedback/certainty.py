"""What is told of an estimate from weights: its interval, and how few weights it hangs on."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING

from polars_rank.aggregation import ratio

if TYPE_CHECKING:
    import polars as pl


def interval(value: pl.Expr, variance: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return the bounds of the normal interval of 95 %."""
    width = NormalDist().inv_cdf(0.975) * variance.sqrt()
    return value - width, value + width


def concentration(weights: pl.Expr, squares: pl.Expr, highest: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return how many equal weights would say as much (Kish, 1965), and the share of the greatest.

    Of the sum of the weights, that of their squares, and the highest.
    """
    return ratio(weights**2, squares), ratio(highest, weights)
