"""Confidence intervals and p-values of estimates; each interval is the inversion of its test."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from polars_rank.stats import bounded
from polars_rank.stats._arrays import Array, np, special
from polars_rank.stats.estimate import (
    ONE_UNIT,
    Estimate,
    Facts,
    degrees_of_freedom,
    quantile,
    two_sided,
)

#: Steps to the end of an interval, the distance at which it is reached, and the largest distance.
_STEPS, _CLOSE, _FAR = 80, 1e-14, 50.0
#: Doublings of the distance at which a relative difference is looked for.
_DOUBLINGS = 40
#: Number of units at which a confidence sequence is narrowest.
_NARROWEST_AT = 1_000

#: Methods of intervals: the t distribution with Hall's correction, the exact interval of a
#: proportion, Tango's of a difference of paired proportions, a bound for any distribution on the
#: range of the metric, a confidence sequence, and none.
T, EXACT, TANGO, BOUNDED = "t", "clopper-pearson", "tango", "bounded"
SEQUENCE, NONE = "sequence", "none"


@dataclass(frozen=True)
class Inference:
    """Estimates as arrays, with the range of each, and the method of its interval."""

    estimate: Estimate
    method: Array
    #: The range of each estimate, infinite if it is unknown, and the lowest value of the metric.
    low: Array
    high: Array
    start: Array

    @classmethod
    def of(
        cls, estimate: Estimate, facts: Sequence[Facts], *, is_difference: bool, is_weighted: bool,
        known: Array = True, is_repeated: bool = False,
    ) -> Inference:  # fmt: skip
        """Return the estimates with their methods; only the rows `known` have an interval.

        With few units, the bound for any distribution replaces t; without a known range, means
        have the interval of t, and differences have none.
        """
        e = estimate
        is_binary = np.array([each.is_binary for each in facts], dtype=bool) & (not is_weighted)
        ends = [each.ends(is_difference=is_difference) for each in facts]
        low, high = np.array(ends, dtype=float).reshape(-1, 2).T
        start = np.array([each.low if each.bounds is None else each.bounds[0] for each in facts])
        if is_difference:
            # All differences of equal runs are 0, whatever the range.
            equal = (e.error == 0) & (e.mean == 0) & np.isinf(high)
            high = np.where(equal, [each.range for each in facts], high)
            low = np.where(equal, -high, low)
        has_sample = np.array([each is not None for each in e.sample], dtype=bool)
        several = known & (e.effective > ONE_UNIT) & (e.n > 1)
        varies, is_few = several & (e.error > 0), e.is_few
        method = np.where(varies, T, NONE).astype(object)
        if is_difference:
            method[several & is_few] = NONE
            method[varies & is_binary & ~is_few] = TANGO
        method[several & (is_few | (e.error == 0)) & np.isfinite(high) & has_sample] = BOUNDED
        if not is_difference:
            method[several & is_binary & (np.isinf(e.share_degrees) | (method != BOUNDED))] = EXACT
        if is_repeated:
            method = np.where(varies & ~is_few & (method != NONE), SEQUENCE, NONE)
        return cls(estimate, method, low, high, start)

    def __getitem__(self, rows: Array) -> Inference:
        return Inference(**{name: each[rows] for name, each in vars(self).items()})

    def at(self, alpha: Array) -> Inference:
        """Return the methods at levels: rows whose interval would leave the range are bounded."""
        rows = self.method == T
        alpha = np.broadcast_to(np.asarray(alpha, dtype=float), rows.shape)
        method = self.method.copy()
        if rows.any():
            low, high = _t_bounds(self[rows], alpha[rows])
            has_sample = np.array([each is not None for each in self.estimate.sample[rows]])
            leaves = (low < self.low[rows]) | (high > self.high[rows])
            method[rows] = np.where(leaves & has_sample, BOUNDED, T)
        return replace(self, method=method)

    def bounds(self, alpha: Array) -> tuple[Array, Array]:
        """Return the interval of each row at the level 1 - `alpha`; NaN if there is none.

        The methods are those of `at` for these levels.
        """
        low, high = self._by_method(_BOUNDS, alpha)
        return np.maximum(low, self.low), np.minimum(high, self.high)

    def p_values(self, base: float = math.nan) -> Array:
        """Return the two-sided p-values for the value 0; NaN if there is no interval.

        The methods are those of `at` for the levels of the intervals. `base` is the α for which a
        confidence sequence is narrowest.
        """
        p_values: Array = self._by_method(_TESTS, base)[0]
        return p_values

    def relative_bounds(self, alpha: Array) -> tuple[Array, Array]:
        """Return the intervals of differences relative to the size of the baseline's mean.

        A ratio r is inside if the test of `bounds` does not reject that difference - r · baseline
        has the mean 0. NaN if all ratios on a side are inside: the baseline's mean may be 0.
        """
        ratio = self.estimate.ratio
        known = np.isfinite(ratio)
        low, high = np.full((2, len(ratio)), np.nan)
        alpha = np.broadcast_to(np.asarray(alpha, dtype=float), known.shape)[known]
        low[known], high[known] = self[known]._by_method(_RATIOS, ratio[known], alpha)
        return low, high

    def _by_method(self, functions: Mapping[str, Any], *numbers: Array) -> Array:
        """Return two numbers for each row by the function of its method; NaN if it has none.

        A function that returns one number for each row has it twice.
        """
        found = np.full((2, len(self.method)), np.nan)
        given = [
            np.broadcast_to(np.asarray(each, dtype=float), found.shape[1:]) for each in numbers
        ]
        for method, function in functions.items():
            rows = self.method == method
            if rows.any():
                found[:, rows] = function(self[rows], *(each[rows] for each in given))
        return found


def _ratios(rows: Inference, ratio: Array, alpha: Array) -> list[Array]:
    """Return the bounds of ratios by tests of single ratios."""
    found = []
    first = 2 * rows.estimate.error / np.abs(rows.estimate.base)
    for side in (-1, 1):
        step = side * first
        for _ in range(_DOUBLINGS):
            kept = rows._by_method(_DISTANCES, ratio + step, alpha)[0] >= 0
            if not kept.any():
                break
            step = np.where(kept, 2 * step, step)
        end = _ends(lambda q: rows._by_method(_DISTANCES, q, alpha)[0], ratio, ratio + step)
        found.append(np.where(kept, np.nan, end))
    return found


def _ends(distance: Callable[[Array], Array], inside: Array, outside: Array) -> Array:
    """Return where distances fall to 0 between points inside of intervals and points outside.

    Secants are close (Illinois method), and bisections bound the number of steps.
    """
    ends = [inside, outside]
    values = [np.clip(distance(each), -_FAR, _FAR) for each in ends]
    last, middle = np.full(inside.shape, -1), inside
    for step in range(_STEPS):
        share = values[0] / (values[0] - values[1])
        share = np.where(np.isfinite(share) & (step % 4 < 3), share, 0.5)
        middle = ends[0] + share * (ends[1] - ends[0])
        found = np.clip(distance(middle), -_FAR, _FAR)
        is_close = (np.abs(found) <= _CLOSE) | (np.abs(ends[1] - ends[0]) <= _CLOSE)
        if is_close.all():
            break
        side = (found < 0).astype(int)
        for place in (0, 1):
            moved = side == place
            ends[place] = np.where(moved, middle, ends[place])
            halved = np.where(side == last, values[place] / 2, values[place])
            values[place] = np.where(moved, found, halved)
        last = side
    return middle


def _hall(acceleration: Array, q: Array) -> Array:
    """Return Hall's transformation of a quantile (1992), which corrects for the skewness."""
    flat = np.abs(acceleration) < 1e-9
    a = np.where(flat, 1.0, acceleration)
    return np.where(flat, q, (np.cbrt(1 + 6 * a * (q - a)) - 1) / (2 * a))


def _t_bounds(rows: Inference, alpha: Array) -> tuple[Array, Array]:
    """Return on each side the wider of the bounds of t and of Hall."""
    e = rows.estimate
    q = quantile(e.degrees, 1 - alpha / 2)
    below = np.fmax(q, _hall(e.acceleration, q))
    above = np.fmin(-q, _hall(e.acceleration, -q))
    return e.mean - below * e.error, e.mean - above * e.error


def _t_size(rows: Inference) -> Array:
    """Return the statistic whose quantile of t is the bound on the side of 0."""
    e = rows.estimate
    statistic, a = e.mean / e.error, e.acceleration
    size, turned = np.abs(statistic), a * np.where(statistic < 0, -1.0, 1.0)
    flat = np.abs(turned) < 1e-9
    safe = np.where(flat, 1.0, turned)
    of_hall = np.where(flat, size, safe + ((1 + 2 * safe * size) ** 3 - 1) / (6 * safe))
    return np.maximum(np.fmin(size, of_hall), 0.0)


def _t_p_values(rows: Inference, _: Array) -> Array:
    return two_sided(rows.estimate.degrees, _t_size(rows))


def _contrast(rows: Inference, ratio: Array) -> Inference:
    """Return the estimates of difference - ratio · |baseline|."""
    e = rows.estimate
    q = ratio * np.sign(e.base)
    squares, cubes, fourth = (
        sum(math.comb(degree, i) * (-q) ** i * e.products[:, start + i] for i in range(degree + 1))
        for degree, start in ((2, 0), (3, 3), (4, 7))
    )
    error = np.sqrt(np.maximum(squares, 0.0) * e.effective / (e.effective - 1)) / e.weight
    made = replace(
        e, mean=e.mean - q * e.base, error=error, acceleration=cubes / squares**1.5 / 6,
        degrees=degrees_of_freedom(squares**2 / fourth, e.effective, e.units),
    )  # fmt: skip
    return replace(rows, estimate=made)


def _t_distance(rows: Inference, ratio: Array, alpha: Array) -> Array:
    made = _contrast(rows, ratio)
    return quantile(made.estimate.degrees, 1 - alpha / 2) - _t_size(made)


def _exact_bounds(rows: Inference, alpha: Array) -> tuple[Array, Array]:
    """Return the interval of a proportion by Clopper and Pearson (1934).

    Of clusters, the number of queries is that of independent ones with the same standard error, as
    by Korn and Graubard (1998): bounds are quantiles of beta distributions.
    """
    e = rows.estimate
    lost = special.ndtri(1 - alpha / 2) / quantile(e.share_degrees, 1 - alpha / 2)
    n, share = e.share_units * lost**2, np.clip(e.mean, 0.0, 1.0)
    hits, misses = n * share, n * (1 - share)
    # Sums of values of 0 and 1 are whole numbers, up to rounding.
    hits, misses = (
        np.where(np.abs(k - np.rint(k)) < 1e-9 * n, np.rint(k), k) for k in (hits, misses)
    )
    return 1 - exact_bound(misses, hits, alpha / 2), exact_bound(hits, misses, alpha / 2)


def exact_bound(hits: Array, misses: Array, tail: Array) -> Array:
    """Return the upper bound of Clopper and Pearson of a proportion at the level 1 - `tail`."""
    high = special.betaincinv(hits + 1, np.maximum(misses, 1e-300), 1 - tail)
    return np.where(np.isnan(hits + misses), np.nan, np.where(misses > 0, high, 1.0))


def _counts(rows: Inference) -> tuple[Array, Array, Array]:
    """Return the numbers of queries, of wins, and of losses."""
    e = rows.estimate
    n, discordant = e.share_units, np.maximum(e.square, np.abs(e.mean))
    wins, losses = (n * np.maximum(discordant + sign * e.mean, 0.0) / 2 for sign in (1, -1))
    return n, wins, losses


def _score(distance: Array, variance: Array) -> Array:
    certain = np.where(distance == 0, 0.0, np.copysign(np.inf, distance))
    return np.where(variance > 0, distance / np.sqrt(variance), certain)


def _tango_score(rows: Inference, difference: Array) -> Array:
    """Return Tango's score statistic (1998) for a difference of paired proportions."""
    (n, wins, losses) = _counts(rows)
    # The likeliest probability of a loss, given the difference.
    linear = -wins - losses + (2 * n - wins + losses) * difference
    root = np.sqrt(np.maximum(linear**2 + 8 * n * losses * difference * (1 - difference), 0.0))
    loss = (root - linear) / (4 * n)
    variance = n * (2 * loss + difference * (1 - difference))
    return _score(wins - losses - n * difference, variance)


def _tango_bounds(rows: Inference, alpha: Array) -> tuple[Array, Array]:
    """Return the differences that the score test does not reject."""
    mean = rows.estimate.mean
    q = quantile(rows.estimate.share_degrees, 1 - alpha / 2)
    low, high = (
        _ends(lambda d: q - np.abs(_tango_score(rows, d)), mean, np.full(mean.shape, end))
        for end in (-1.0, 1.0)
    )
    return np.where(np.isnan(q), np.nan, low), np.where(np.isnan(q), np.nan, high)


def _tango_p_values(rows: Inference, _: Array) -> Array:
    score = _tango_score(rows, np.zeros(()))
    return two_sided(rows.estimate.share_degrees, np.abs(score))


def _tango_distance(rows: Inference, ratio: Array, alpha: Array) -> Array:
    """Return the distance of the score test of paired proportions (Tang, Tang & Chan, 2003)."""
    (n, wins, losses) = _counts(rows)
    of_base = n * rows.estimate.base
    times = np.maximum(1 + ratio, 0.0)
    hits, of_run = of_base + wins, of_base + wins - losses  # of either, and of the run
    # The likeliest probability of a loss, given the ratio of the proportions.
    linear = of_base * times**2 - of_run - 2 * losses
    constant = losses * (1 - times) * hits / n
    root = np.sqrt(np.maximum(linear**2 - 4 * n * (1 + times) * constant, 0.0))
    loss = (root - linear) / (2 * n * (1 + times))
    variance = n * (1 + times) * loss + hits * (times - 1)
    score = _score(of_run - times * of_base, variance)
    return quantile(rows.estimate.share_degrees, 1 - alpha / 2) - np.abs(score)


def _each_sample(rows: Inference) -> Iterator[tuple[Array, Array | None, float, float]]:
    """Yield the values of each bounded row, their weights, and the ends of their range."""
    for (values, weights), low, high in zip(rows.estimate.sample, rows.low, rows.high, strict=True):
        yield values[0] if values.ndim > 1 else values, weights, float(low), float(high)


def _bounded_bounds(rows: Inference, alpha: Array) -> Array:
    samples = zip(_each_sample(rows), alpha, strict=True)
    return np.array([bounded.bounds(*sample, float(level)) for sample, level in samples]).T


def _bounded_p_values(rows: Inference, _: Array) -> Array:
    return np.array([bounded.two_sided(*sample) for sample in _each_sample(rows)])


def _bounded_ratios(rows: Inference, ratio: Array, alpha: Array) -> Array:
    """Return the bounds of ratios by tests of the values difference - ratio · baseline."""
    e, found = rows.estimate, []
    for (values, weights), start, high, *numbers in zip(
        e.sample, rows.start, rows.high, ratio, np.sign(e.base), alpha / 2, strict=True
    ):
        mean, sign, tail = numbers
        ends = start, start + float(high)
        found.append(
            [
                bounded.ratio_bound(values[0], values[1], weights, ends, mean, sign, side, tail)
                for side in (-1, 1)
            ]
        )
    return np.array(found).T


def rho_squared(alpha: Array) -> Array:
    """Return the parameter with which a sequence of level `alpha` is narrowest at 1,000 units.

    Waudby-Smith et al., Time-uniform central limit theory and asymptotic confidence sequences,
    2021, theorem 2.2 and the equation for ρ.
    """
    return (-2 * np.log(alpha) + np.log(1 - 2 * np.log(alpha))) / _NARROWEST_AT


def _sequence_width(rows: Inference, alpha: Array) -> Array:
    ahead = rows.estimate.share_units * rho_squared(alpha)
    return np.sqrt(2 * (ahead + 1) / ahead * np.log(np.sqrt(ahead + 1) / alpha))


def _sequence_bounds(rows: Inference, alpha: Array) -> tuple[Array, Array]:
    e, width = rows.estimate, _sequence_width(rows, alpha)
    return e.mean - width * e.error, e.mean + width * e.error


def _sequence_p_values(rows: Inference, base: Array) -> Array:
    """Return the smallest α at which the sequence whose ρ is best for `base` excludes 0."""
    e = rows.estimate
    ahead = e.share_units * rho_squared(base)
    exponent = (e.mean / e.error) ** 2 * ahead / (2 * (ahead + 1))
    return np.minimum(np.sqrt(ahead + 1) * np.exp(-exponent), 1.0)


def _sequence_distance(rows: Inference, ratio: Array, alpha: Array) -> Array:
    e = _contrast(rows, ratio).estimate
    return _sequence_width(rows, alpha) - np.abs(e.mean) / e.error


_BOUNDS: dict[str, Any] = {
    T: _t_bounds, EXACT: _exact_bounds, TANGO: _tango_bounds, BOUNDED: _bounded_bounds,
    SEQUENCE: _sequence_bounds,
}  # fmt: skip
_TESTS: dict[str, Any] = {
    T: _t_p_values, TANGO: _tango_p_values, BOUNDED: _bounded_p_values,
    SEQUENCE: _sequence_p_values,
}  # fmt: skip
_DISTANCES: dict[str, Any] = {T: _t_distance, TANGO: _tango_distance, SEQUENCE: _sequence_distance}
_RATIOS: dict[str, Any] = {**dict.fromkeys(_DISTANCES, _ratios), BOUNDED: _bounded_ratios}
