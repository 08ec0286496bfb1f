"""Intervals and tests of proportions, and of differences between paired proportions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from polars_rank.stats.intervals import special

if TYPE_CHECKING:
    from polars_rank.stats.intervals import Alternative

#: Bisections of an interval of width 2, to the last digit of a double.
_STEPS = 60


def wilson(mean: pl.Expr, n: pl.Expr, width: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return Wilson's interval of a proportion (1927); `width` is a quantile."""
    shrunk = (mean + width**2 / (2 * n)) / (1 + width**2 / n)
    spread = (mean * (1 - mean) / n + width**2 / (4 * n * n)).clip(0.0).sqrt()
    half = width * spread / (1 + width**2 / n)
    return (shrunk - half).clip(0.0), (shrunk + half).clip(None, 1.0)


def clopper_pearson(mean: float, n: float, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a proportion (Clopper and Pearson, 1934).

    `n` may be an effective number, which is not whole: the bounds are quantiles of beta
    distributions.
    """
    quantile = special().betaincinv
    successes, tail = mean * n, (1 - confidence) / 2
    failures = n - successes
    low = float(quantile(successes, failures + 1, tail)) if successes > 0 else 0.0
    high = float(quantile(successes + 1, failures, 1 - tail)) if failures > 0 else 1.0
    return low, high


def tango(wins: float, losses: float, n: float, width: float) -> tuple[float, float]:
    """Return Tango's score interval (1998) of the difference of paired proportions.

    `wins` and `losses` are the numbers of pairs with a difference of 1 and of -1, out of n.
    `width` is a normal quantile.
    """
    difference = (wins - losses) / n
    bounds = []
    for sign in (-1.0, 1.0):
        inside, outside = difference, sign
        for _ in range(_STEPS):
            middle = (inside + outside) / 2
            if abs(score(wins, losses, n, middle)) > width:
                outside = middle
            else:
                inside = middle
        bounds.append(inside)
    return bounds[0], bounds[1]


def score(wins: float, losses: float, n: float, difference: float) -> float:
    """Return Tango's score statistic for a difference of paired proportions.

    For a difference of 0, this is the statistic of McNemar's test.
    """
    distance = wins - losses - n * difference
    # The likeliest probability of a loss, given the difference.
    linear = -wins - losses + (2 * n - wins + losses) * difference
    root = math.sqrt(max(linear**2 + 8 * n * losses * difference * (1 - difference), 0.0))
    loss = (root - linear) / (4 * n)
    variance = n * (2 * loss + difference * (1 - difference))
    if variance <= 0:
        return math.copysign(math.inf, distance) if distance else 0.0
    return distance / math.sqrt(variance)


def score_test(
    wins: float, losses: float, n: float, null: float, alternative: Alternative
) -> float:
    """Return the p-value of the score test of a difference of paired proportions."""
    statistic = score(wins, losses, n, null)
    if alternative == "two-sided":
        return 2 * float(special().ndtr(-abs(statistic)))
    return float(special().ndtr(statistic if alternative == "less" else -statistic))
