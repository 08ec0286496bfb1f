"""Estimates: means of weighted samples of units, as arrays with an element per row of a result.

A unit is a query, or a cluster of queries. With the mean m = Σwx / Σw, a unit contributes the
deviation y = Σw(x - m) over its queries, and the influence y / Σw. The squared standard error is

    n / (n - 1) · Σy² / (Σw)²,    n = (Σw)² / Σw²

with Kish's effective number n of units (Survey Sampling, 1965). A difference of two runs is the
estimate of the queries' differences, and a slice is the estimate of some queries.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

from polars_rank.stats._arrays import Array, np, special

#: Numbers above it have squares that cannot be added without loss.
LARGE = 1e150
#: A spread below this share of the size of the values may be a rounding error.
ROUNDING = 1e-14
#: An effective number of units up to this one is one unit, up to rounding.
ONE_UNIT = 1 + 1e-9
#: Weights whose effective number is below this share of their number are unequal.
UNEQUAL = 0.9
#: Below these numbers of queries, of clusters, and of units whose values differ from the commonest
#: one by more than a share of the range, t and Hall do not hold their level. The page "How
#: statistics are computed" has the simulations.
FEW_QUERIES, FEW_CLUSTERS, FEW_DIFFERENT, SAME_SHARE = 30, 10, 10, 0.01
#: Standard errors within which an interval may leave the range of a metric.
_FAR = 9.0
#: Number of values that often show that more than `FEW_DIFFERENT` differ.
_EXAMPLES = 1_000
#: Number of units whose powers are added at once.
_BLOCK = 2**13


class Facts(NamedTuple):
    """What all values of a metric in a table have in common."""

    #: Whether all values are 0 or 1.
    is_binary: bool
    low: float
    high: float
    #: The range of the metric; None if it is unknown or unbounded, or if a value is outside it.
    bounds: tuple[float, float] | None

    @classmethod
    def of(
        cls,
        low: float | None,
        high: float | None,
        between: float | None,
        bounds: tuple[float, float] | None,
    ) -> Facts:
        """Return the facts of the lowest and highest value, and of the number of values `between`.

        `between` counts the values that are neither 0 nor 1.
        """
        is_binary = low is not None and between == 0
        low, high = low or 0.0, high or 0.0
        known = (0.0, 1.0) if is_binary and bounds is None else bounds
        if known is not None and not known[0] <= low <= high <= known[1]:
            known = None
        return cls(is_binary, low, high, known)

    @property
    def range(self) -> float:
        """The range of the values; 1 if all are in [0, 1]."""
        if self.bounds is not None:
            return self.bounds[1] - self.bounds[0]
        return 1.0 if self.low >= 0 and self.high <= 1 else self.high - self.low

    def ends(self, *, is_difference: bool) -> tuple[float, float]:
        """Return the range of means, or of differences; infinite if it is unknown."""
        if self.bounds is None:
            return -math.inf, math.inf
        return (-self.range, self.range) if is_difference else self.bounds

    @property
    def size(self) -> float:
        """The largest absolute value, to which rounding errors are proportional."""
        return max(-self.low, self.high)


class Units(NamedTuple):
    """The sampling units of queries, with their weights."""

    #: The weight of each query; None if all are 1.
    weight: Array | None
    #: The number of the unit of each query, and the numbers of all units; None if a query is one.
    place: Array | None
    numbers: Array | None
    #: The weight of each unit; None if all are 1.
    of_unit: Array | None
    number: int
    #: The sum of all weights, and Kish's effective number of units.
    total: float
    effective: float

    @classmethod
    def of(cls, size: int, weight: Array | None, unit: Array | None) -> Units:
        """Return the units of a number of queries, given the number of the unit of each."""
        of_unit, place, numbers = weight, None, None
        if unit is not None:
            numbers, place = np.unique(unit, return_inverse=True)
            of_unit = np.bincount(place, weight)
        total = float(size if weight is None else weight.sum()) or np.nan
        effective = float(size)
        if of_unit is not None:
            effective = float(of_unit.sum() ** 2 / (of_unit @ of_unit))
        number = size if of_unit is None else len(of_unit)
        return cls(weight, place, numbers, of_unit, number, total, effective)

    def total_of(self, values: Array) -> Array:
        """Return the weighted sum of each row of values."""
        sums: Array = values.sum(axis=1) if self.weight is None else values @ self.weight
        return sums

    def sums(self, values: Array) -> Array:
        """Return the weighted sums of rows of values over the queries of each unit."""
        weighted = values if self.weight is None else values * self.weight
        if self.place is None:
            return weighted
        sums = [np.bincount(self.place, each) for each in np.atleast_2d(weighted)]
        return np.array(sums, dtype=float).reshape(*values.shape[:-1], -1)

    def has_few_different(self, values: Array, tolerance: float) -> bool:
        """Return whether fewer than `FEW_DIFFERENT` units differ from the commonest value."""
        step = max(len(values) // _EXAMPLES, 1)
        for each in dict.fromkeys((step, 1)):  # often, some values show that more differ
            ordered = np.sort(values[::each])
            above, below = ordered + tolerance, ordered - tolerance
            inside = np.searchsorted(ordered, above, "right") - np.searchsorted(ordered, below)
            if self.place is None and len(ordered) - inside.max(initial=0) >= FEW_DIFFERENT:
                return False
        if self.place is None or not len(values):
            return True
        differs = np.abs(values - ordered[inside.argmax()]) > tolerance
        return len(np.unique(self.place[differs])) < FEW_DIFFERENT


@dataclass(frozen=True, eq=False)
class Estimate:
    """Weighted means as arrays with an element per row, and what their inference needs."""

    mean: Array
    #: The standard error; 0 if it may be a rounding error, NaN for one unit.
    error: Array
    #: Number of values that count, their total weight and standard deviation.
    n: Array
    weight: Array
    std: Array
    #: Number of units, and Kish's effective number of them.
    units: Array
    effective: Array
    degrees: Array
    #: (Σe²)² / Σe⁴ of the influence values e: the number of units if all are equally large.
    shape: Array
    #: Σe³ / (6 (Σe²)^1.5) of the influence values e, for the correction of skewness.
    acceleration: Array
    #: The mean square, and the number of queries and the degrees of freedom for proportions.
    square: Array
    share_units: Array
    share_degrees: Array
    #: Whether few units have another value than most, and whether that, or their number, is too
    #: small for t and Hall.
    is_same: Array
    is_few: Array
    #: The mean of the baseline, and the sums over units of the products of 2, 3 and 4 deviations of
    #: the difference and of the baseline; NaN if there is none, or none is requested.
    base: Array
    products: Array
    #: The values of a row that is few, or whose interval may leave the range; else None.
    sample: Array

    @classmethod
    def of(
        cls, values: Array, facts: Facts, *, base: Array | None = None,
        weight: Array | None = None, unit: Array | None = None, is_difference: bool = False,
        is_relative: bool = False,
    ) -> tuple[Estimate, Array, Array | None]:  # fmt: skip
        """Return the estimates of rows of values, and the influence values of the units.

        The last element has the numbers of the units; None if each query is one.

        All rows have the same queries, with their weights (by default 1) and the numbers of their
        units (by default, each query is one). `base` has the values of the baseline.
        """
        x = np.atleast_2d(values)
        rows, size = x.shape
        units = Units.of(size, weight, unit)
        total, effective = units.total, units.effective
        mean = units.total_of(x) / total
        deviations = x - mean[:, None]
        y = units.sums(deviations)
        squares, cubes, fourth = _power_sums(y)
        shape = np.where(fourth > 0, squares**2 / fourth, effective)
        spread = squares / total
        if units.of_unit is not None:
            spread = units.total_of(deviations**2) / total
        del deviations
        error = std = np.full(rows, np.nan)
        if effective > ONE_UNIT:
            of_unit = np.sqrt(squares * effective) / total
            lost = (of_unit < 1 / LARGE) & (0 < facts.size < 1 / LARGE)
            of_unit = np.where(of_unit <= ROUNDING * facts.size, 0.0, of_unit)
            error = np.where(lost, np.nan, of_unit / np.sqrt(effective - 1))
        if size > 1:
            std = np.sqrt(spread * size / (size - 1))
            std = np.where(std <= ROUNDING * facts.size, 0.0, std)
        queries = np.full(rows, float(size))
        if units.of_unit is not None:
            queries = np.clip(np.where(error > 0, spread / error**2, effective), effective, size)
        tolerance = (1 + 1e-9) * SAME_SHARE * facts.range
        is_same = np.zeros(rows, dtype=bool)
        if not (facts.is_binary and weight is None):
            is_same[:] = [units.has_few_different(each, tolerance) for each in x]
        is_few = is_same | (np.maximum(queries, units.number) < FEW_QUERIES)
        is_few |= unit is not None and units.number < FEW_CLUSTERS
        low, high = facts.ends(is_difference=is_difference or base is not None)
        leaves = (mean - _FAR * error < low) | (mean + _FAR * error > high)
        is_kept = is_few | (error == 0) | leaves
        sample = np.full(rows, None)
        for row in np.flatnonzero(is_kept):
            kept = np.stack([x[row], base]) if is_relative else x[row]
            kept = kept if unit is None else units.sums(kept) / units.of_unit
            sample[row] = kept, units.of_unit
        products, of_base = np.full((rows, 12), np.nan), np.full(rows, np.nan)
        if base is not None:
            of_base[:] = units.total_of(base[None]) / total
        if base is not None and is_relative:
            other = units.sums(base - of_base[0])
            products[0] = [
                np.sum(y[0] ** (degree - i) * other**i)
                for degree in (2, 3, 4) for i in range(degree + 1)
            ]  # fmt: skip

        def of_rows(value: float) -> Array:
            return np.full(rows, float(value))

        return cls(
            mean, error, of_rows(size), of_rows(total), std, of_rows(units.number),
            of_rows(effective), degrees_of_freedom(shape, effective, units.number), shape,
            cubes / squares**1.5 / 6, spread + mean**2, queries,
            of_rows(np.inf if unit is None else effective - 1), is_same, is_few, of_base, products,
            sample,
        ), np.divide(y, total, out=y), units.numbers  # fmt: skip

    @property
    def ratio(self) -> Array:
        """Differences as shares of the baselines' means; NaN for a mean of 0."""
        return np.where(self.base == 0, np.nan, self.mean / np.abs(self.base))

    def __getitem__(self, rows: Array) -> Estimate:
        return Estimate(**{name: each[rows] for name, each in vars(self).items()})

    @classmethod
    def stack(cls, estimates: Sequence[Estimate]) -> Estimate:
        """Return the rows of several estimates."""
        parts = estimates or [cls.of(np.zeros((0, 1)), Facts.of(None, None, None, None))[0]]
        return cls(*(
            np.concatenate([getattr(each, name.name) for each in parts]) for name in fields(cls)
        ))  # fmt: skip


def _power_sums(values: Array) -> tuple[Array, Array, Array]:
    """Return the sums of squares, cubes and fourth powers of rows, in blocks that fit the cache."""
    sums = np.zeros((3, len(values)))
    for start in range(0, values.shape[1], _BLOCK):
        block = values[:, start : start + _BLOCK]
        square = block * block
        sums[0] += square.sum(axis=1)
        sums[1] += np.einsum("kn,kn->k", square, block)
        sums[2] += np.einsum("kn,kn->k", square, square)
    return sums[0], sums[1], sums[2]


def degrees_of_freedom(shape: Array, effective: Array, units: Array) -> Array:
    """Return the number of units - 1, or fewer if their weights are unequal.

    If Kish's effective number n is below 90% of the number of units, it is (Σy²)² / Σy⁴ - 1 for
    their deviations y, from (n - 1) / 2 to n - 1.
    """
    fewer = np.maximum(np.minimum(shape, effective) - 1, (effective - 1) / 2)
    return np.where(effective < UNEQUAL * units, fewer, units - 1.0)


def quantile(degrees: Array, share: Array) -> Array:
    """Return the quantile of t distributions, or of the normal one for infinite degrees."""
    finite = np.where(np.isfinite(degrees) & (degrees > 0), degrees, 1.0)
    of_t = np.where(degrees > 0, special.stdtrit(finite, share), np.nan)
    return np.where(np.isposinf(degrees), special.ndtri(share), of_t)


def two_sided(degrees: Array, statistic: Array) -> Array:
    """Return the two-sided p-value of a statistic, as `quantile` distributes it."""
    finite = np.where(np.isfinite(degrees) & (degrees > 0), degrees, 1.0)
    of_t = np.where(degrees > 0, special.stdtr(finite, -statistic), np.nan)
    return np.minimum(2 * np.where(np.isposinf(degrees), special.ndtr(-statistic), of_t), 1.0)
