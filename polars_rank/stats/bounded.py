"""Tests and intervals of the mean of values with a known range, for any distribution.

A bound of the mean is a quantile of the weighted mean of the n values and of one more value at the
end of the range, if the n + 1 weights are random, with a uniform Dirichlet distribution (Gaffke,
Three test statistics for a nonparametric one-sided hypothesis on the mean of a nonnegative
variable, 2005; Learned-Miller & Thomas, A new confidence interval for the mean of a bounded random
variable, 2019). For values of 0 and 1, it is the bound of Clopper and Pearson. That the bounds hold
is proven for distributions on two values, and conjectured for all; no exception is known.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from polars_rank.stats._arrays import Array, np, special

if TYPE_CHECKING:
    from collections.abc import Callable

#: Points on the path of integration.
_POINTS, _STEP = 125, 0.08
#: The largest number of different values; more are rounded to the end of the range. More values
#: than the second number are not sorted for each p-value.
_MOST, _MANY = 2**12, 2**16
#: Doublings of the distance at which a bound of a ratio is looked for.
_DOUBLINGS = 40
#: Steps and precision of a bound, and of the place where the path crosses the real axis.
_STEPS, _PRECISION, _CLOSE = 80, 1e-12, 1e-3


def _merged(values: Array, *, is_exact: bool) -> tuple[Array, Array]:
    """Return different values, and how often each occurs; many are rounded up."""
    number = None
    if is_exact or len(values) <= _MANY:
        values, number = np.unique(values, return_counts=True)
        if len(values) <= _MOST:
            return values, number
    low = values.min()
    step = (values.max() - low) / _MOST or 1.0
    number = np.bincount(np.ceil((values - low) / step).astype(int), number)
    places = np.flatnonzero(number)
    return low + step * places, number[places]


def _positive(terms: Array, number: Array) -> float:
    """Return P(Σ G a > 0) for terms a, each of which occurs some number of times.

    The variables G are independent, with the exponential distribution.
    """
    if terms.max() <= 0:
        return 0.0
    return _tail(terms, number) if terms @ number < 0 else 1 - _tail(-terms, number)


def _tail(terms: Array, number: Array) -> float:
    """Return a probability of `_positive` of at most about a half.

    It is the integral of M(s) / s with M(s) = Π 1 / (1 - s a), on a path that crosses the real axis
    where M(s) / s is smallest, and bends as the path of steepest descent there.
    """
    if terms.max() <= 0:
        return 0.0
    a = terms / terms.max()
    low, high, s = 0.0, 1.0, 1 / (2 + number.sum())
    for _ in range(_STEPS):
        q = a / (1 - s * a)
        slope, curve = q @ number - 1 / s, (q * q) @ number + 1 / s**2
        low, high = (low, s) if slope > 0 else (s, high)
        moved = s - slope / curve
        moved = moved if low < moved < high else (low + high) / 2
        is_close, s = abs(moved - s) < _CLOSE * s, moved
        if is_close:
            break
    q = a / (1 - s * a)
    width = 1 / math.sqrt((q * q) @ number + 1 / s**2)
    bend = min(max((2 * (q * q * q) @ number - 2 / s**3) * width**3 / 3, 0.0), 1.0)
    v = _STEP * np.arange(_POINTS)
    path = s + width * (bend * (np.cosh(v) - 1) + 1j * np.sinh(v))
    steps = width * (bend * np.sinh(v) + 1j * np.cosh(v))
    real, imaginary = 1 - np.multiply.outer(path.real, a), -np.multiply.outer(path.imag, a)
    lengths, angles = np.log(real**2 + imaginary**2) @ number / 2, np.arctan2(imaginary, real)
    values = (np.exp(-lengths - 1j * (angles @ number)) * steps / path).imag
    return float(_STEP / math.pi * (values.sum() - values[0] / 2))


def _p_value(values: Array, number: Array | None, weights: Array | None, end: float) -> float:
    """Return the p-value for a mean of at least 0, given the upper end of the range.

    A unit that the sample does not have has the largest weight.
    """
    if weights is not None:
        values, end = values * weights, end * weights.max()
    if number is None:
        values, number = _merged(values, is_exact=False)
    return _positive(np.append(values, end), np.append(number, 1.0))


def two_sided(values: Array, weights: Array | None, low: float, high: float) -> float:
    """Return the p-value of a mean of 0, given the ends of the range."""
    found = (
        2 * _p_value(*_turned(values, weights, side), weights, side * end)
        for side, end in ((-1, low), (1, high))
    )
    return min(1.0, *found)


def _turned(values: Array, weights: Array | None, side: int) -> tuple[Array, Array | None]:
    """Return values that are higher towards a side, and how often each occurs."""
    return (side * values, None) if weights is not None else _merged(side * values, is_exact=True)


def bounds(
    values: Array, weights: Array | None, low: float, high: float, alpha: float
) -> tuple[float, float]:
    """Return the interval of the mean at the level 1 - `alpha`, within the range."""
    mean = float(np.average(values, weights=weights))

    def bound(end: float, side: int) -> float:
        turned, number = _turned(values, weights, side)

        def p_value(m: float) -> float:
            return _p_value(turned - side * m, number, weights, side * (end - m))

        return root(p_value, alpha / 2, mean, end)

    return bound(low, -1), bound(high, 1)


def ratio_bound(
    differences: Array, base: Array, weights: Array | None, ends: tuple[float, float],
    ratio: float, sign: float, side: int, tail: float,
) -> float:  # fmt: skip
    """Return a bound of the ratio of the mean of differences and the size of the baseline's mean.

    `ends` is the range of the values, and `sign` that of the baseline's mean. NaN if no ratio on
    this side is outside: the baseline's mean may be 0.
    """

    def p_value(q: float) -> float:
        of_base = [(1 + sign * q) * each for each in ends]
        end = ends[0] - max(of_base) if side < 0 else ends[1] - min(of_base)
        return _p_value(side * (differences - sign * q * base), None, weights, side * end)

    for doubling in range(_DOUBLINGS):
        outside = ratio + side * 0.1 * 2**doubling
        if p_value(outside) < tail:
            return root(p_value, tail, ratio, outside)
    return math.nan


def root(p_values: Callable[[float], float], alpha: float, inside: float, outside: float) -> float:
    """Return where a p-value falls to `alpha` between a point inside an interval and one outside.

    The quantiles of p-values are nearly linear, so that secants are close (Illinois method).
    """
    ndtri, target = special.ndtri, float(special.ndtri(alpha))

    def distance(point: float) -> float:
        return float(ndtri(min(max(p_values(point), 1e-300), 1 - 1e-16))) - target

    ends, values, last = [inside, outside], [distance(inside), distance(outside)], None
    if values[0] <= 0:
        return inside
    if values[1] >= 0:
        return outside
    for _ in range(_STEPS):
        width = ends[1] - ends[0]
        if abs(width) <= _PRECISION:
            break
        middle = ends[0] + values[0] / (values[0] - values[1]) * width
        found = distance(middle)
        side = found <= 0
        ends[side], values[side] = middle, found
        if side == last:
            values[not side] /= 2
        if abs(found) <= _PRECISION:
            return middle
        last = side
    return ends[0]
