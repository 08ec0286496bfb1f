"""Tests and intervals in plain NumPy and Python, for comparison."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

#: Number of draws. A share of 2.5% has a standard error of 0.00016, and of 50% one of 0.0005.
DRAWS = 1_000_000


def dirichlet_means(
    values: Sequence[float], end: float, weights: Sequence[float] | None = None, draws: int = DRAWS
) -> np.ndarray:
    """Return draws of the mean of values and of an end of their range, with random weights.

    They are those of a Dirichlet distribution with parameters of 1, times the weight of each value;
    the end has the largest weight.
    """
    random = np.random.default_rng(7)
    every = [*(weights or [1.0] * len(values))]
    total, sums = np.zeros(draws), np.zeros(draws)
    for value, weight in zip([*values, end], [*every, max(every)], strict=True):
        drawn = random.standard_exponential(draws) * weight
        total += drawn
        sums += drawn * value
    return sums / total


def ratio_score(pairs: Sequence[tuple[int, int]], ratio: float) -> float:
    """Return the score statistic of paired values of 0 and 1 for p_run = ratio · p_baseline.

    The probabilities of both, of wins, of losses and of neither are those of the largest likelihood
    under this hypothesis, by a search in nested grids.
    """
    n, both = len(pairs), pairs.count((1, 1))
    wins, losses, neither = pairs.count((1, 0)), pairs.count((0, 1)), pairs.count((0, 0))

    def log_likelihood(p_both: float, p_loss: float) -> float:
        p_win = ratio * (p_both + p_loss) - p_both  # p_run = p_both + p_win
        p = (p_both, p_win, p_loss, 1 - p_both - p_win - p_loss)
        found = 0.0
        for count, each in zip((both, wins, losses, neither), p, strict=True):
            if each < 0 or (count and not each):
                return -math.inf
            found += count * math.log(each) if count else 0.0
        return found

    center, width = (0.5, 0.5), 0.5
    for _ in range(40):
        steps = [each * width / 5 for each in range(-5, 6)]
        grid = [(max(center[0] + i, 0.0), max(center[1] + j, 0.0)) for i in steps for j in steps]
        center = max(grid, key=lambda point: log_likelihood(*point))
        width *= 0.6
    p_both, p_loss = center
    p_base = p_both + p_loss
    p_win = ratio * p_base - p_both
    variance = n * (
        ratio * p_base * (1 - ratio * p_base) + ratio**2 * p_base * (1 - p_base)
        - 2 * ratio * (p_both - ratio * p_base * p_base)
    )  # fmt: skip
    assert p_win >= 0
    return (both + wins - ratio * (both + losses)) / math.sqrt(variance)
