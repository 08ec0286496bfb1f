"""Tests and intervals of the differences between all pairs of runs, with one error rate.

A unit is a query, or a cluster of queries. With weights w and values x of the queries, run i has
the mean m_i = Σwx_i / Σw, and a unit has the influence values y_i = Σw(x_i - m_i) over its queries.
For n units with weights W, the difference of two means has the standard error

    √(Σ(y_i - y_j)² / ((n - 1) ΣW²)),    n = (ΣW)² / ΣW² (Kish's effective number of units).
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from polars_rank.stats.intervals import ONE_UNIT, special, stats
from polars_rank.stats.moment_math import LARGE
from polars_rank.stats.resampling import all_sign_sums, numpy, sign_sums

if TYPE_CHECKING:
    from collections.abc import Callable

    #: An array of numpy, which is an extra.
    Array: TypeAlias = Any
    #: From t statistics and the runs of their pairs to the quantile and the p-values.
    _Test = Callable[[Array, Array, Array], tuple[float, Array]]

#: Above this number of units, sums with random signs are normally distributed.
MANY_UNITS = 10_000
_ROWS = 1024  # per block, so that differences of runs fit the cache
#: A difference or a standard deviation below this share of the size of the values may be a rounding
#: error.
_ROUNDING = 1e-14
#: Statistics that differ by less, relative to their size, are equal up to rounding.
_TIE = 1e-12


def rounding(size: Any) -> Any:
    """Return the size up to which a difference of values may be a rounding error."""
    return _ROUNDING * size


class Units(NamedTuple):
    """The units of a group: their keys and weights, and the influence values of each run."""

    keys: Array
    weights: Array
    #: Units x runs.
    influences: Array


class RunSums(NamedTuple):
    """The sums over units that tests of all pairs of runs need."""

    means: Array
    #: Σ(y_i - y_j)² of each pair of runs (runs x runs).
    squares: Array
    #: Σy_i² of each run.
    unit_squares: Array
    weight: float
    weight_squares: float

    @property
    def effective(self) -> float | None:
        """Kish's effective number of units; None without units."""
        return self.weight**2 / self.weight_squares if self.weight_squares else None

    @property
    def sizes(self) -> Array:
        """The size of the values of each run: the root mean square, for units."""
        np = numpy()
        return np.hypot(np.sqrt(self.unit_squares / (self.weight_squares or 1.0)), self.means)

    @property
    def std_errors(self) -> Array | None:
        """The standard error of each difference (runs x runs).

        It is 0 if it may be a rounding error, and NaN if the squares of the values underflow.
        """
        sizes = self.sizes
        return self._errors(self.squares, numpy().maximum(sizes[:, None], sizes[None, :]))

    @property
    def mean_errors(self) -> Array | None:
        """The standard error of the mean of each run, 0 or NaN as in `std_errors`."""
        return self._errors(self.unit_squares, self.sizes)

    def _errors(self, squares: Array, sizes: Array) -> Array | None:
        np = numpy()
        if self.effective is None or self.effective <= ONE_UNIT:
            return None
        spread = np.sqrt(squares / self.weight_squares)
        lost = (spread < 1 / LARGE) & (sizes > 0) & (sizes < 1 / LARGE)
        spread[spread <= rounding(sizes)] = 0.0
        spread[lost] = np.nan
        return spread / math.sqrt(self.effective - 1)


class PairTests(NamedTuple):
    """The results of all pairs i < j of runs, for the difference m_j - m_i. NaN is unknown."""

    first: Array
    second: Array
    differences: Array
    low: Array
    high: Array
    p_values: Array
    #: Whether the differences of a pair are equal in all units, although there are several.
    equal: Array


def units_of(values: Array, weights: Array, keys: Array) -> tuple[RunSums, Units]:
    """Return the sums and the units of queries (queries x runs); those with equal keys are a unit.

    The result does not depend on the order of the queries.
    """
    np = numpy()
    order = np.argsort(keys, kind="stable")
    order = order[weights[order] > 0]
    values, weights, keys = values[order], weights[order], keys[order]
    total = float(weights.sum())
    means = np.full(values.shape[1], np.nan)
    influences = values
    if len(keys):
        center = values.mean(axis=0)
        means = center + weights @ (values - center) / total
        influences = (values - means) * weights[:, None]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]]) if len(keys) else order
    if len(starts) < len(keys):
        influences = np.add.reduceat(influences, starts, axis=0)
        weights = np.add.reduceat(weights, starts)
    weight_squares = float(weights @ weights)
    unit_squares = np.einsum("ui,ui->i", influences, influences)
    sums = RunSums(means, squared_distances(influences), unit_squares, total, weight_squares)
    return sums, Units(keys[starts], weights, influences)


def squared_distances(influences: Array) -> Array:
    """Return Σ(y_i - y_j)² of each pair of runs.

    The sums of products of runs would lose the digits of small differences.
    """
    np = numpy()
    runs = influences.shape[1]
    squares = np.zeros((runs, runs))
    for start in range(0, len(influences), _ROWS):
        block = np.ascontiguousarray(influences[start : start + _ROWS].T)
        for i in range(1, runs):
            differences = block[:i] - block[i]
            squares[i, :i] += np.einsum("ju,ju->j", differences, differences)
    return squares + squares.T


def max_t_tests(
    sums: RunSums, units: Units | None, *, confidence: float, n_resamples: int, seed: int
) -> PairTests:
    """Test the differences of all pairs of runs by the studentized maximum.

    Intervals are from the quantile of the maximum, and p-values from step-down tests. Without
    `units`, the normal distribution with the covariance of the runs is used.
    """
    degrees = (sums.effective or 0) - 1

    def test(statistics: Array, first: Array, second: Array) -> tuple[float, Array]:
        if len(sums.means) == 2:
            width = float(-special().stdtrit(degrees, (1 - confidence) / 2))
            return width, 2 * special().stdtr(degrees, -statistics)
        law = _law(sums, units, n_resamples, seed)
        return _step_down(law, statistics, first, second, confidence)

    return _pair_tests(sums, sums.std_errors, test)


def tukey_tests(sums: RunSums, values: Array, confidence: float) -> PairTests:
    """Test the differences of all pairs of runs by Tukey's honestly significant difference.

    `values` are those of queries x runs. Their residuals in the analysis of variance by run and
    query are assumed to have the same variance.
    """
    np = numpy()
    queries, runs = values.shape
    degrees = (queries - 1) * (runs - 1)
    if degrees <= 0:
        return _pair_tests(sums, None, None)
    centered = values - sums.means
    residuals = centered - centered.mean(axis=1, keepdims=True)
    spread = math.sqrt(np.einsum("qr,qr->", residuals, residuals) / degrees)
    unit = spread / math.sqrt(queries) if spread > rounding(sums.sizes.max()) else 0.0

    def test(statistics: Array, *_: Array) -> tuple[float, Array]:
        p_values = stats().studentized_range.sf(statistics, runs, degrees)
        return _range_quantile(confidence, runs, degrees), p_values

    return _pair_tests(sums, np.full((runs, runs), unit), test)


@cache
def _range_quantile(confidence: float, runs: int, degrees: int) -> float:
    """Return the quantile of the studentized range, which takes long to compute."""
    return float(stats().studentized_range.ppf(confidence, runs, degrees))


def _pair_tests(sums: RunSums, errors: Array | None, test: _Test | None) -> PairTests:
    """Return the results of all pairs, given the standard error of each difference.

    A standard error of 0 means that the differences of all units are equal.
    """
    np = numpy()
    first, second = np.triu_indices(len(sums.means), 1)
    differences = sums.means[second] - sums.means[first]
    p_values, widths = np.full(len(first), np.nan), np.full(len(first), np.nan)
    equal = np.zeros(len(first), dtype=bool)
    if errors is not None and test is not None:
        of_pairs = errors[first, second]
        equal, varies = of_pairs == 0, of_pairs > 0
        sizes = sums.sizes
        sizes = np.maximum(sizes[first], sizes[second])
        p_values[equal & (abs(differences) <= rounding(sizes))] = 1.0
        if varies.any():
            statistics = abs(differences[varies] / of_pairs[varies])
            width, p_values[varies] = test(statistics, first[varies], second[varies])
            widths[varies] = width * of_pairs[varies] if math.isfinite(width) else np.nan
    low, high = differences - widths, differences + widths
    return PairTests(first, second, differences, low, high, p_values, equal)


class _Law(NamedTuple):
    """Draws of the means of runs under the hypothesis that all are equal.

    The score of a pair is (z_i - z_j)² / squares; it increases with the t statistic.
    """

    draws: Array  # runs x draws
    squares: Array
    effective: float
    is_normal: bool

    def scores(self, statistics: Array) -> Array:
        """Return the scores of absolute t statistics."""
        np, n = numpy(), self.effective
        if self.is_normal:
            return special().ndtri(special().stdtr(n - 1, -statistics)) ** 2
        # The square sum of a unit does not depend on its sign, so with the sum s and the squares Q,
        # t² = (n - 1) s² / (nQ - s²).
        squared = statistics * statistics
        return n * squared / (n - 1 + squared) if len(statistics) else np.empty(0)

    def statistic(self, score: float) -> float:
        """Return the absolute t statistic of a score."""
        n = self.effective
        if self.is_normal:
            return float(-special().stdtrit(n - 1, special().ndtr(-math.sqrt(score))))
        return math.sqrt((n - 1) * score / (n - score)) if score < n * (1 - _TIE) else math.inf


def _law(sums: RunSums, units: Units | None, n_resamples: int, seed: int) -> _Law:
    """Return draws with random signs, or from a normal distribution for many or unequal units.

    A unit with a large weight has a small deviation from the mean, which signs do not make up for.
    """
    np = numpy()
    effective = float(sums.effective or 0)
    scale = math.sqrt(float(sums.squares.max()))
    squares = sums.squares / scale / scale
    number = math.inf if units is None else len(units.keys)
    if units is None or number > MANY_UNITS or effective < number * (1 - _ROUNDING * number):
        random = np.random.default_rng(seed)
        draws = _root(squares) @ random.standard_normal((len(squares), n_resamples))
        return _Law(draws, squares, effective, is_normal=True)
    influences = units.influences / scale
    if 2 ** (len(units.keys) - 1) <= n_resamples:  # all signs, except that of the first unit
        draws = np.stack([each[0] + all_sign_sums(each[1:]) for each in influences.T])
    else:
        draws = np.ascontiguousarray(sign_sums(units.keys, influences, n_resamples, seed).T)
    return _Law(draws, squares, effective, is_normal=False)


def _root(squares: Array) -> Array:
    """Return the symmetric root of the covariance of runs with the given squared distances.

    The runs are centered at their mean. Unlike other roots, it depends continuously on the
    distances, so rounding errors do not change the draws.
    """
    np = numpy()
    centered = squares - squares.mean(axis=0)
    covariance = -(centered - centered.mean(axis=1, keepdims=True)) / 2
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def _step_down(
    law: _Law, statistics: Array, first: Array, second: Array, confidence: float
) -> tuple[float, Array]:
    """Return the quantile of the maximum of all pairs, and the p-value of each pair.

    The p-value is from the maximum over the pairs that are not more significant (Romano and Wolf,
    2005).
    """
    np = numpy()
    observed = law.scores(statistics) * (1 - _TIE)
    count = law.draws.shape[1]
    maxima = np.zeros(count)
    p_values = np.empty(len(statistics))
    order = np.argsort(observed, kind="stable")
    for pair in order:
        i, j = first[pair], second[pair]
        distance = law.draws[i] - law.draws[j]
        np.maximum(maxima, distance * distance / law.squares[i, j], out=maxima)
        p_values[pair] = (1 + np.count_nonzero(maxima >= observed[pair])) / (1 + count)
    p_values[order[::-1]] = np.maximum.accumulate(p_values[order[::-1]])
    rank = math.ceil(confidence * (1 + count) - _TIE * count)
    if rank > count:
        return math.inf, p_values
    return law.statistic(float(np.partition(maxima, rank - 1)[rank - 1])), p_values
