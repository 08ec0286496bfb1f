"""Levels of the intervals of several estimates, so that all hold with one probability.

For k estimates with correlation R and Z normal with this correlation, an uncorrected p-value p,
whose normal quantile is z(p), becomes P(max |Z| >= z(p)). With M the maximum, and N the number of
estimates with |Z| >= z, that probability is k · p · E(1 / N | one of them, chosen at random, has
|Z| >= z), which is simulated: the factor is from 1 / k to 1, so that a simulated probability is
never below p, and never above Bonferroni's.
"""

from __future__ import annotations

from polars_rank.stats._arrays import Array, numpy, special
from polars_rank.stats.kernel import blocks

#: Draws per probability, and the largest number of elements of the draws.
_MOST_DRAWS, _LEAST_DRAWS, _ELEMENTS = 8_192, 256, 2**21
#: Quantiles at which probabilities are simulated.
_GRID = (*(each / 4 for each in range(21)), 6.0, 7.0, 8.5)
#: Bisections for a level.
_STEPS = 60
_SEED = 0


class Family:
    """Estimates that are correct together; the columns of `factor` have their correlations."""

    def __init__(self, factor: Array) -> None:
        np = numpy()
        self.size: int = factor.shape[1]
        self.grid: Array = np.array(_GRID)
        effective = self._effective(factor) if self.size > 1 else np.ones(len(_GRID))
        self.logs: Array = np.log(effective)

    def _effective(self, factor: Array) -> Array:
        """Return the effective number of estimates at each quantile of the grid."""
        np, functions = numpy(), special()
        lengths = np.sqrt(np.einsum("uk,uk->k", factor, factor))
        factor = factor / np.where(lengths > 0, lengths, 1.0)
        size = factor.shape[1]
        draws = int(np.clip(_ELEMENTS // size, _LEAST_DRAWS, _MOST_DRAWS))
        random = np.random.default_rng(_SEED)
        normal = random.standard_normal((draws, factor.shape[0])) @ factor
        chosen = random.permutation(np.arange(draws) % size if draws >= size else size)[:draws]
        uniform = (random.permutation(draws) + 0.5) / draws
        others = factor.T[chosen] @ factor
        rows = np.arange(draws)
        own = normal[rows, chosen]
        conditional = np.empty_like(others)
        effective = np.empty(len(self.grid))
        for place, z in enumerate(self.grid):
            # Given that the chosen estimate is above z; the others follow.
            above = -functions.ndtri(functions.ndtr(-z) * uniform)
            np.multiply(others, (above - own)[:, None], out=conditional)
            np.abs(np.add(conditional, normal, out=conditional), out=conditional)
            number = np.count_nonzero(conditional >= z, axis=1)
            effective[place] = size * np.mean(1 / np.maximum(number, 1))
        return np.clip(effective, 1.0, size)

    def corrected(self, p_values: Array) -> Array:
        """Return P(max |Z| >= z(p)) for each p-value."""
        np = numpy()
        if self.size <= 1:
            return p_values
        tiny = np.maximum(p_values, 1e-300)
        z = -special().ndtri(tiny / 2)
        return np.minimum(np.exp(np.interp(z, self.grid, self.logs)) * p_values, 1.0)

    def level(self, alpha: float) -> float:
        """Return the p-value whose corrected value is `alpha`."""
        if self.size <= 1:
            return alpha
        low, high = alpha / self.size, alpha
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if float(self.corrected(numpy().array([middle]))[0]) < alpha:
                low = middle
            else:
                high = middle
        return float(low)


class Bonferroni(Family):
    """Estimates whose correlations are unknown."""

    def __init__(self, size: int) -> None:
        np = numpy()
        self.size = size
        self.grid: Array = np.array([0.0, 1.0])
        self.logs: Array = np.full(2, np.log(max(size, 1)))


class Influences:
    """The influence values of the units on estimates, from which their family follows.

    Of many units, every n-th is used.
    """

    #: The largest number of elements.
    _MOST = 2**24

    def __init__(self, units: int, estimates: int) -> None:
        self.step: int = max(-(-units * estimates // self._MOST), 1)
        self.units: int = -(-units // self.step)
        #: The influence values of the units on each estimate.
        self.columns: list[Array] = []

    def add(self, units: Array, influence: Array) -> None:
        """Add an estimate: the numbers of its units, and their influence values."""
        if self.step > 1:
            kept = units % self.step == 0
            units, influence = units[kept] // self.step, influence[kept]
        column = numpy().zeros(self.units)
        column[units] = influence
        self.columns.append(column)

    def family(self, chosen: Array) -> Family:
        """Return the family of some estimates; one that does not vary is independent."""
        np = numpy()
        columns = [self.columns[place] for place in np.flatnonzero(chosen)]
        size = len(columns)
        scales = np.array([np.abs(each).max(initial=0.0) for each in columns])
        independent = np.diag(np.where(scales == 0, 1.0, 0.0))

        def factor(units: slice) -> Array:
            scaled = np.stack([each[units] for each in columns], axis=1)
            return scaled / np.where(scales > 0, scales, 1.0)

        if self.units + size <= 4 * size:
            return Family(np.concatenate([factor(slice(None)), independent]))
        parts = map(factor, blocks(self.units))
        products = sum((part.T @ part for part in parts), independent)
        # Unlike other roots of a matrix, this symmetric one depends continuously on it, so rounding
        # errors do not change it.
        values, vectors = np.linalg.eigh((products + products.T) / 2)
        return Family((vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T)
