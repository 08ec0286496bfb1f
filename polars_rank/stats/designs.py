"""Power of t tests, and the numbers of queries and the differences that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_args

from polars_rank._params import number, one_of, positive, share
from polars_rank.errors import ArgumentError
from polars_rank.stats.intervals import Alternative, special, stats
from polars_rank.stats.resampling import numpy

if TYPE_CHECKING:
    from collections.abc import Callable

#: Rounding error of a whole number of queries.
_SLACK = 1e-9
#: More queries than this do not fit the column `needed`.
_MAX_QUERIES = 2.0**62

#: Above it, scipy's series may not converge, and the normal part of T is negligible.
_LARGE = 5_000
#: Above these degrees of freedom, the standard deviation is known.
_KNOWN = 1e6
#: Points of the numerical integral over standard deviations.
_POINTS = 200
#: A probability that can be ignored.
_NEGLIGIBLE = 1e-18


@dataclass(frozen=True)
class Design:
    """A test of a difference: its level and its power."""

    #: Probability of a significant result.
    power: float
    #: Probability above the critical value under the null hypothesis.
    tail: float
    two_sided: bool
    #: The margin of equivalence; None for a test of a difference.
    margin: float | None = None

    @classmethod
    def of(
        cls,
        alternative: Alternative,
        difference: float | None,
        margin: float,
        power: float,
        confidence: float,
    ) -> Design:
        """Return the design of checked parameters."""
        share("power", power)
        share("confidence", confidence)
        alpha = 1 - confidence
        if power <= alpha:
            raise ArgumentError(
                f"`power` must be above 1 - `confidence` = {alpha:g}, the power for no difference; "
                f"found {power!r}"
            )
        one_of("alternative", alternative, get_args(Alternative))
        number("margin", margin, "0 or above")
        stats()
        if alternative != "equivalent":
            if difference is not None:
                positive("difference", difference)
            if margin:
                raise ArgumentError(
                    f"`margin` needs `alternative` 'equivalent'; found {alternative!r}; for "
                    "non-inferiority, pass the margin as `difference`"
                )
            two_sided = alternative == "two-sided"
            return cls(power, alpha / 2 if two_sided else alpha, two_sided)
        positive("margin", margin)
        share("confidence", confidence, 0.5)
        if difference is not None and not 0 <= number("difference", difference) < margin:
            raise ArgumentError(
                f"`difference` must be from 0 to below `margin` = {margin:g} for `alternative` "
                f"'equivalent'; found {difference!r}"
            )
        return cls(power, alpha, two_sided=False, margin=float(margin))

    def power_of(self, units: float, std: float, target: float) -> float:
        """Return the power with a number of units, if the true difference is the target."""
        if self.margin is None:
            return t_power(units, target / std, self.tail, two_sided=self.two_sided)
        return equivalence_power(units, target / std, self.margin / std, self.tail)

    def needed(self, std: float, target: float) -> float | None:
        """Return the number of units with this power, at least 2; None above 2^62."""
        least = most = 2.0
        while self.power_of(most, std, target) < self.power and most < _MAX_QUERIES:
            least, most = most, most * 2
        if self.power_of(most, std, target) < self.power:
            return None
        return _root(lambda n: self.power_of(n, std, target) - self.power, least, most)

    def detectable(self, units: float, std: float, target: float) -> float:
        """Return the difference, or the margin of equivalence, that units detect."""

        def power(size: float) -> float:
            if self.margin is None:
                return t_power(units, size, self.tail, two_sided=self.two_sided)
            return equivalence_power(units, target / std, size, self.tail)

        largest = 1.0
        while power(largest) < self.power:
            largest *= 2
        return _root(lambda size: power(size) - self.power, 0.0, largest) * std


def whole(units: float | None, queries_per_unit: float) -> int | None:
    """Return a number of units as a number of queries, rounded up."""
    return None if units is None else math.ceil(units * queries_per_unit - _SLACK)


def _root(distance: Callable[[float], float], low: float, high: float) -> float:
    """Return where an increasing function is 0."""
    from scipy.optimize import brentq  # noqa: PLC0415  (an extra)

    if low == high:
        return low
    return float(brentq(distance, low, high, xtol=1e-15, rtol=1e-14))


def t_power(queries: float, effect: float, tail: float, *, two_sided: bool) -> float:
    """Return the power of the t test for an effect (difference / standard deviation)."""
    distributions = stats()
    degrees, noncentral = queries - 1, effect * math.sqrt(queries)
    critical = distributions.t.isf(tail, degrees)
    if noncentral > _LARGE:
        return float(distributions.chi2.cdf(degrees * (noncentral / critical) ** 2, degrees))
    likely = float(distributions.nct.sf(critical, degrees, noncentral))
    if two_sided:
        other = float(distributions.nct.cdf(-critical, degrees, noncentral))
        likely += 0.0 if math.isnan(other) else other  # scipy returns NaN for tiny values
    return likely


def equivalence_power(queries: float, effect: float, margin: float, tail: float) -> float:
    """Return the power of two one-sided t tests; effect and margin in standard deviations.

    Both tests reject if the mean is within the margins less t standard errors. Given the sample's
    standard deviation, the probability is normal; the integral is over the standard deviations
    for which that interval is not empty (Phillips, Power of the two one-sided tests procedure in
    bioequivalence, 1990).
    """
    np, functions = numpy(), special()
    degrees, root = queries - 1, math.sqrt(queries)
    critical = float(-functions.stdtrit(degrees, tail))
    if degrees > _KNOWN:
        spread, weights = np.ones(1), np.ones(1)
    else:
        # The ratio of sample and true standard deviation, within its range.
        half = degrees / 2
        low = math.sqrt(float(functions.gammaincinv(half, _NEGLIGIBLE)) / half)
        high = math.sqrt(float(functions.gammainccinv(half, _NEGLIGIBLE)) / half)
        high = max(min(high, margin * root / critical), low)
        points, weights = _quadrature()
        spread = low + (high - low) * (points + 1) / 2
        logarithm = half * np.log(half * spread**2) - half * spread**2 - functions.gammaln(half)
        weights = weights * (high - low) * np.exp(logarithm) / spread
    inside = functions.ndtr((margin - effect) * root - critical * spread) - functions.ndtr(
        critical * spread - (margin + effect) * root
    )
    return float((weights * np.maximum(inside, 0.0)).sum())


@cache
def _quadrature() -> tuple[Any, Any]:
    """Return the points and weights of Gauss and Legendre's quadrature, which take long."""
    points, weights = numpy().polynomial.legendre.leggauss(_POINTS)
    return points, weights


def spread_interval(
    units: float, std: float, kurtosis: float, confidence: float
) -> tuple[float, float]:
    """Return the confidence interval of a standard deviation.

    It is the chi-square interval with the degrees of freedom that give the sample's variance its
    variance for this kurtosis, (2 / (n - 1) + (kurtosis - 3) / n) σ⁴.
    """
    degrees, tail = _degrees(units, kurtosis), (1 - confidence) / 2
    quantile = special().gammaincinv
    high, low = (2 * float(quantile(degrees / 2, share)) for share in (tail, 1 - tail))
    return std * math.sqrt(degrees / low), std * math.sqrt(degrees / high) if high else math.inf


def effect_interval(
    units: float, effect: float, skewness: float, kurtosis: float, confidence: float
) -> tuple[float, float]:
    """Return the confidence interval of an effect, by the delta method."""
    of_spread = effect * effect * units / _degrees(units, kurtosis) / 2
    error = math.sqrt(max(1 - skewness * effect + of_spread, 0.0) / units)
    half = float(special().stdtrit(units - 1, (1 + confidence) / 2)) * error
    return effect - half, effect + half


def _degrees(units: float, kurtosis: float) -> float:
    return 2 / (2 / (units - 1) + (kurtosis - 3) / units)
