"""Power of t tests, and the numbers of queries and the differences that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from polars_rank._params import share
from polars_rank.errors import ArgumentError
from polars_rank.stats._arrays import require_scipy, special, stats

if TYPE_CHECKING:
    from collections.abc import Callable

#: Rounding error of a whole number of queries.
_SLACK = 1e-9
#: More queries than this do not fit the column `needed`.
_MAX_QUERIES = 2.0**62
#: The largest number of additional queries.
MOST = 2**48
#: Above it, scipy's series may not converge, and the normal part of T is negligible.
_LARGE = 5_000


@dataclass(frozen=True)
class Design:
    """A two-sided t test: its power, and its confidence level."""

    power: float
    confidence: float

    def __post_init__(self) -> None:
        share("power", self.power)
        share("confidence", self.confidence)
        if self.power <= 1 - self.confidence:
            raise ArgumentError(
                f"must be above 1 - `confidence` = {1 - self.confidence:g}, the power for "
                f"no difference; found {self.power!r}",
                "power",
            )
        require_scipy()

    def of(self, comparisons: int) -> Design:
        """Return the test that is corrected for a number of comparisons."""
        return replace(self, confidence=1 - (1 - self.confidence) / comparisons)

    def power_of(self, units: float, effect: float) -> float:
        """Return the power for an effect: a difference in standard deviations of a unit."""
        degrees, noncentral = units - 1, effect * math.sqrt(units)
        critical = stats.t.isf((1 - self.confidence) / 2, degrees)
        if noncentral > _LARGE:
            return float(stats.chi2.cdf(degrees * (noncentral / critical) ** 2, degrees))
        other = float(stats.nct.cdf(-critical, degrees, noncentral))
        other = 0.0 if math.isnan(other) else other  # scipy returns NaN for tiny values
        return float(stats.nct.sf(critical, degrees, noncentral)) + other

    def needed(self, effect: float) -> float | None:
        """Return the number of units with this power, at least 2; None above 2^62."""
        least = most = 2.0
        while self.power_of(most, effect) < self.power and most < _MAX_QUERIES:
            least, most = most, most * 2
        if self.power_of(most, effect) < self.power:
            return None
        return _root(lambda n: self.power_of(n, effect) - self.power, least, most)

    def detectable(self, units: float) -> float:
        """Return the effect that units detect."""
        largest = 1.0
        while self.power_of(units, largest) < self.power:
            largest *= 2
        return _root(lambda effect: self.power_of(units, effect) - self.power, 0.0, largest)


def whole(units: float | None, queries_per_unit: float, least: float) -> int | None:
    """Return a number of units as a number of queries, rounded up, and at least some number."""
    return None if units is None else math.ceil(max(units * queries_per_unit, least) - _SLACK)


class Width(NamedTuple):
    """The interval of an estimate with more queries that vary as much."""

    error: float
    #: Effective number of units, and number of queries.
    units: float
    queries: int
    confidence: float

    def of(self, added: int) -> float:
        """Return the width with a number of additional queries; NaN if there is none."""
        share = (self.queries + added) / self.queries if self.queries else math.nan
        degrees = self.units * share - 1
        if not (self.error > 0 and degrees > 0):
            return math.nan
        q = float(special.stdtrit(degrees, (1 + self.confidence) / 2))
        return 2 * q * self.error / math.sqrt(share)

    def with_n(self, added: int) -> dict[str, Any]:
        """Return the expected width with a number of additional queries."""
        width = self.of(added)
        note = None
        if math.isnan(width):
            note = f"no interval: all values are equal, or too few ({self.queries})"
        return {"n": added, "width": width, "note": note}

    def with_width(self, width: float) -> dict[str, Any]:
        """Return the smallest number of additional queries with at most this width."""
        low, high, most = 0, 1, width * (1 + _SLACK)
        while high < MOST and self.of(high) > most:
            low, high = high, 2 * high
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.of(middle) <= most else (middle + 1, high)
        found = self.with_n(low)
        if found["width"] <= most:
            return found
        note = found["note"] or f"not reached with {MOST:,} queries"
        return {"n": None, "width": None, "note": note}


def _root(distance: Callable[[float], float], low: float, high: float) -> float:
    """Return where an increasing function is 0."""
    from scipy.optimize import brentq  # noqa: PLC0415  (an extra)

    return low if low == high else float(brentq(distance, low, high, xtol=1e-15, rtol=1e-14))


def spread_interval(
    units: float, std: float, kurtosis: float, confidence: float
) -> tuple[float, float]:
    """Return the confidence interval of a standard deviation.

    It is the chi-square interval with the degrees of freedom that give the sample's variance its
    variance for this kurtosis, (2 / (n - 1) + (kurtosis - 3) / n) σ⁴.
    """
    degrees, tail = _degrees(units, kurtosis), (1 - confidence) / 2
    quantile = special.gammaincinv
    high, low = (2 * float(quantile(degrees / 2, share)) for share in (tail, 1 - tail))
    return std * math.sqrt(degrees / low), std * math.sqrt(degrees / high) if high else math.inf


def effect_interval(
    units: float, effect: float, skewness: float, kurtosis: float, confidence: float
) -> tuple[float, float]:
    """Return the confidence interval of an effect, by the delta method."""
    of_spread = effect * effect * units / _degrees(units, kurtosis) / 2
    error = math.sqrt(max(1 - skewness * effect + of_spread, 0.0) / units)
    half = float(special.stdtrit(units - 1, (1 + confidence) / 2)) * error
    return effect - half, effect + half


def _degrees(units: float, kurtosis: float) -> float:
    return 2 / (2 / (units - 1) + (kurtosis - 3) / units)
