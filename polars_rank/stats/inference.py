"""Confidence intervals and p-values of estimates; each interval is the inversion of its test."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from polars_rank.stats._arrays import Array, numpy, special
from polars_rank.stats.kernel import quantile, two_sided

#: Bisections of an interval of width 2, to the last digits of a double.
_STEPS = 55
#: Number of units at which a confidence sequence is narrowest.
_NARROWEST_AT = 1_000

#: Methods of intervals: the t distribution with Hall's correction, Wilson's interval of a
#: proportion, Tango's of a difference of paired proportions, the interval of differences that are
#: all 0, the sign test of differences that are all equal, a confidence sequence, and none.
T, WILSON, TANGO, ZERO, SAME = "t", "wilson", "tango", "equal", "sign"
SEQUENCE, NONE = "sequence", "none"


@dataclass(frozen=True)
class Inference:
    """Estimates as arrays, and what their intervals and tests need."""

    value: Array
    error: Array
    degrees: Array
    #: Σe³ / (6 (Σe²)^1.5) of the units' influence values.
    acceleration: Array
    #: The method of each row.
    method: Array
    #: The number of units for proportions and for differences that are equal.
    units: Array
    #: The degrees of freedom for proportions; infinite for the normal distribution.
    share_degrees: Array
    #: The share of queries with a difference of 1 or -1, for Tango's interval.
    discordant: Array
    #: The range of the metric.
    range: Array

    def bounds(self, alpha: Array) -> tuple[Array, Array]:
        """Return the interval of each row at the level 1 - `alpha`; NaN if there is none."""
        np = numpy()
        alpha = np.broadcast_to(np.asarray(alpha, dtype=float), self.value.shape)
        low, high = np.full(alpha.shape, np.nan), np.full(alpha.shape, np.nan)
        methods = {
            T: _t_bounds, WILSON: _wilson_bounds, TANGO: _tango_bounds, ZERO: _zero_bounds,
            SAME: _same_bounds, SEQUENCE: _sequence_bounds,
        }  # fmt: skip
        for method, bounds in methods.items():
            rows = self.method == method
            if rows.any():
                low[rows], high[rows] = bounds(self[rows], alpha[rows])
        return low, high

    def p_values(self, base: float = math.nan) -> Array:
        """Return the two-sided p-values for the value 0; NaN if there is no interval.

        `base` is the α for which a confidence sequence is narrowest.
        """
        np = numpy()
        result = np.full(self.value.shape, np.nan)
        for method, test in _TESTS.items():
            rows = self.method == method
            if rows.any():
                result[rows] = test(self[rows])
        rows = self.method == SEQUENCE
        if rows.any():
            result[rows] = _sequence_p_values(self[rows], base)
        return result

    def __getitem__(self, rows: Array) -> Inference:
        return Inference(**{name: each[rows] for name, each in vars(self).items()})

    def as_sequences(self) -> Inference:
        """Return confidence sequences of the estimates that vary."""
        np = numpy()
        varies = np.isin(self.method, (T, WILSON, TANGO)) & (self.error > 0)
        return replace(self, method=np.where(varies, SEQUENCE, NONE))


def _hall(acceleration: Array, q: Array) -> Array:
    """Return Hall's transformation of a quantile (1992), which corrects for the skewness."""
    np = numpy()
    flat = np.abs(acceleration) < 1e-9
    a = np.where(flat, 1.0, acceleration)
    return np.where(flat, q, (np.cbrt(1 + 6 * a * (q - a)) - 1) / (2 * a))


def _t_bounds(rows: Inference, alpha: Array) -> tuple[Array, Array]:
    """Return on each side the wider of the bounds of t and of Hall."""
    np = numpy()
    q = quantile(rows.degrees, 1 - alpha / 2)
    below = np.fmax(q, _hall(rows.acceleration, q))
    above = np.fmin(-q, _hall(rows.acceleration, -q))
    return rows.value - below * rows.error, rows.value - above * rows.error


def _t_p_values(rows: Inference) -> Array:
    """Return the α at which the bound on the side of 0 is 0."""
    np = numpy()
    statistic, a = rows.value / rows.error, rows.acceleration
    sign = np.where(statistic < 0, -1.0, 1.0)
    size, turned = np.abs(statistic), a * sign
    flat = np.abs(turned) < 1e-9
    safe = np.where(flat, 1.0, turned)
    of_hall = np.where(flat, size, safe + ((1 + 2 * safe * size) ** 3 - 1) / (6 * safe))
    return two_sided(rows.degrees, np.maximum(np.fmin(size, of_hall), 0.0))


def _wilson_bounds(rows: Inference, alpha: Array) -> tuple[Array, Array]:
    """Return Wilson's interval of a proportion (1927)."""
    np, n = numpy(), rows.units
    q, share = quantile(rows.share_degrees, 1 - alpha / 2), np.clip(rows.value, 0.0, 1.0)
    center = (share + q**2 / (2 * n)) / (1 + q**2 / n)
    spread = np.sqrt(np.maximum(share * (1 - share) / n + q**2 / (4 * n * n), 0.0))
    half = q * spread / (1 + q**2 / n)
    return np.maximum(center - half, 0.0), np.minimum(center + half, 1.0)


def clopper_pearson(share: float, n: float, confidence: float) -> tuple[float, float]:
    """Return the exact interval of a proportion (Clopper and Pearson, 1934).

    `n` may be an effective number, which is not whole: bounds are quantiles of beta distributions.
    """
    of_beta = special().betaincinv
    successes, tail = share * n, (1 - confidence) / 2
    failures = n - successes
    low = float(of_beta(successes, failures + 1, tail)) if successes > 0 else 0.0
    high = float(of_beta(successes + 1, failures, 1 - tail)) if failures > 0 else 1.0
    return low, high


def _score(rows: Inference, difference: Array) -> Array:
    """Return Tango's score statistic (1998) for a difference of paired proportions."""
    np, n = numpy(), rows.units
    wins = n * np.maximum(rows.discordant + rows.value, 0.0) / 2
    losses = n * np.maximum(rows.discordant - rows.value, 0.0) / 2
    distance = wins - losses - n * difference
    # The likeliest probability of a loss, given the difference.
    linear = -wins - losses + (2 * n - wins + losses) * difference
    root = np.sqrt(np.maximum(linear**2 + 8 * n * losses * difference * (1 - difference), 0.0))
    loss = (root - linear) / (4 * n)
    variance = n * (2 * loss + difference * (1 - difference))
    certain = np.where(distance == 0, 0.0, np.copysign(np.inf, distance))
    return np.where(variance > 0, distance / np.sqrt(variance), certain)


def _tango_bounds(rows: Inference, alpha: Array) -> tuple[Array, Array]:
    """Return the differences that the score test does not reject."""
    np = numpy()
    q = quantile(rows.share_degrees, 1 - alpha / 2)
    bounds = []
    for end in (-1.0, 1.0):
        inside, outside = rows.value.copy(), np.full(rows.value.shape, end)
        for _ in range(_STEPS):
            middle = (inside + outside) / 2
            kept = np.abs(_score(rows, middle)) <= q
            inside, outside = np.where(kept, middle, inside), np.where(kept, outside, middle)
        bounds.append(np.where(np.isnan(q), np.nan, inside))
    return bounds[0], bounds[1]


def _tango_p_values(rows: Inference) -> Array:
    return two_sided(rows.share_degrees, numpy().abs(_score(rows, numpy().zeros(()))))


def _zero_bounds(rows: Inference, alpha: Array) -> tuple[Array, Array]:
    """Return Tango's interval of n pairs without a difference, times the range of the metric."""
    q = quantile(rows.share_degrees, 1 - alpha / 2)
    high = rows.range * q**2 / (rows.units + q**2)
    return -high, high


def _same_bounds(rows: Inference, alpha: Array) -> tuple[Array, Array]:
    """Return the difference that all units have, if the sign test is significant."""
    np = numpy()
    known = np.where(_same_p_values(rows) < alpha, rows.value, np.nan)
    return known, known


def _same_p_values(rows: Inference) -> Array:
    return 2.0 ** (1 - rows.units)


def rho_squared(alpha: Array) -> Array:
    """Return the parameter with which a sequence of level `alpha` is narrowest at 1,000 units.

    Waudby-Smith et al., Time-uniform central limit theory and asymptotic confidence sequences,
    2021, theorem 2.2 and the equation for ρ.
    """
    np = numpy()
    return (-2 * np.log(alpha) + np.log(1 - 2 * np.log(alpha))) / _NARROWEST_AT


def _sequence_bounds(rows: Inference, alpha: Array) -> tuple[Array, Array]:
    np = numpy()
    ahead = rows.units * rho_squared(alpha)
    width = np.sqrt(2 * (ahead + 1) / ahead * np.log(np.sqrt(ahead + 1) / alpha))
    return rows.value - width * rows.error, rows.value + width * rows.error


def _sequence_p_values(rows: Inference, base: float) -> Array:
    """Return the smallest α at which the sequence whose ρ is best for `base` excludes 0."""
    np = numpy()
    ahead = rows.units * rho_squared(base)
    exponent = (rows.value / rows.error) ** 2 * ahead / (2 * (ahead + 1))
    return np.minimum(np.sqrt(ahead + 1) * np.exp(-exponent), 1.0)


_TESTS: dict[str, Any] = {
    T: _t_p_values,
    TANGO: _tango_p_values,
    ZERO: lambda rows: numpy().ones(rows.value.shape),
    SAME: _same_p_values,
}
