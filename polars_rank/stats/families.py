"""Levels of the intervals of several estimates, so that all hold with one probability.

For k estimates with correlation R and Z normal with this correlation, an uncorrected p-value p,
whose normal quantile is z(p), becomes P(max |Z| >= z(p)). With M the maximum, and N the number of
estimates with |Z| >= z, that probability is k · p · E(1 / N | one of them, chosen at random, has
|Z| >= z), which is simulated: the factor is from 1 / k to 1, so that a simulated probability is
never below p, and never above Bonferroni's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from polars_rank.stats._arrays import Array, np, special

#: Draws per probability, and the largest number of elements of the draws.
_MOST_DRAWS, _LEAST_DRAWS, _ELEMENTS = 8_192, 256, 2**21
#: Quantiles at which probabilities are simulated.
_GRID = (*(each / 4 for each in range(21)), 6.0, 7.0, 8.5)
#: Bisections for a level.
_STEPS = 60
_SEED = 0
#: Rows whose products are added at once.
_BLOCK = 2**13


class Family:
    """Estimates that are correct together.

    `columns` returns the columns of a matrix for some estimates, which have their correlations. If
    they are unknown, the correction is Bonferroni's.
    """

    def __init__(self, size: int, columns: Callable[[Array], Array] | None = None) -> None:
        self.size = size
        self.grid: Array = np.array(_GRID)
        effective = np.full(len(_GRID), float(size))
        if columns is not None and size > 1:
            effective = self._effective(columns)
        self.logs: Array = np.log(effective)

    def _effective(self, columns: Callable[[Array], Array]) -> Array:
        """Return the effective number of estimates at each quantile of the grid."""
        size = self.size

        def normalized(places: Array) -> Array:
            factor = columns(places)
            lengths = np.sqrt(np.einsum("uk,uk->k", factor, factor))
            return factor / np.where(lengths > 0, lengths, 1.0)

        draws = int(np.clip(_ELEMENTS // size, _LEAST_DRAWS, _MOST_DRAWS))
        random = np.random.default_rng(_SEED)
        normal = random.standard_normal((draws, len(columns(np.arange(1)))))
        chosen = random.permutation(np.arange(draws) % size if draws >= size else size)[:draws]
        uniform = (random.permutation(draws) + 0.5) / draws
        of_chosen = normalized(chosen).T
        own = np.einsum("du,du->d", normal, of_chosen)
        # Given that the chosen estimate is above z; the others follow.
        distances = [-special.ndtri(special.ndtr(-z) * uniform) - own for z in self.grid]
        numbers = np.zeros((len(self.grid), draws), dtype=int)
        step = max(_ELEMENTS // draws, 1)
        for start in range(0, size, step):
            factor = normalized(np.arange(start, min(start + step, size)))
            others, values = of_chosen @ factor, normal @ factor
            conditional = np.empty_like(others)
            for place, (z, distance) in enumerate(zip(self.grid, distances, strict=True)):
                np.multiply(others, distance[:, None], out=conditional)
                np.abs(np.add(conditional, values, out=conditional), out=conditional)
                numbers[place] += np.count_nonzero(conditional >= z, axis=1)
        effective = [size * np.mean(1 / np.maximum(number, 1)) for number in numbers]
        return np.clip(effective, 1.0, size)

    def corrected(self, p_values: Array) -> Array:
        """Return P(max |Z| >= z(p)) for each p-value."""
        if self.size <= 1:
            return p_values
        tiny = np.maximum(p_values, 1e-300)
        z = -special.ndtri(tiny / 2)
        return np.minimum(np.exp(np.interp(z, self.grid, self.logs)) * p_values, 1.0)

    def level(self, alpha: float) -> float:
        """Return the p-value whose corrected value is `alpha`."""
        if self.size <= 1:
            return alpha
        low, high = alpha / self.size, alpha
        for _ in range(_STEPS):
            middle = (low + high) / 2
            if float(self.corrected(np.array([middle]))[0]) < alpha:
                low = middle
            else:
                high = middle
        return float(low)


class Influences:
    """The influence values of the units on estimates, from which their family follows.

    Of many units, every n-th is used.
    """

    #: The largest number of elements.
    _MOST = 2**24

    def __init__(self, units: int, estimates: int) -> None:
        self.step: int = max(-(-units * estimates // self._MOST), 1)
        self.units: int = -(-units // self.step)
        #: The row of each estimate, and the influence values of the units on it.
        self.rows: list[int] = []
        self.columns: list[Array] = []

    def add(self, row: int, units: Array, influence: Array) -> None:
        """Add the estimate of a row: the numbers of its units, and their influence values."""
        self.rows.append(row)
        if self.step > 1:
            kept = units % self.step == 0
            units, influence = units[kept] // self.step, influence[kept]
        column = np.zeros(self.units)
        column[units] = influence
        self.columns.append(column)

    def family(self, chosen: Array) -> Family:
        """Return the family of some estimates."""
        columns = [self.columns[place] for place in np.flatnonzero(chosen)]
        return family_of(len(columns), self.units, lambda places: [columns[i] for i in places])


def family_of(size: int, units: int, influences: Callable[[Array], Sequence[Array]]) -> Family:
    """Return the family of estimates, given the influence values of all units on some of them.

    An estimate that does not vary is independent of the others.
    """
    step = max(_ELEMENTS // max(units, 1), 1)
    parts = [np.arange(start, min(start + step, size)) for start in range(0, size, step)]
    scales = np.array(
        [np.abs(each).max(initial=0.0) for part in parts for each in influences(part)]
    )
    lone = np.flatnonzero(scales == 0)
    scales = np.where(scales > 0, scales, 1.0)

    def scaled(places: Array, rows: slice = slice(None)) -> Array:
        return np.stack([each[rows] for each in influences(places)], axis=1) / scales[places]

    if units <= 3 * size:

        def columns(places: Array) -> Array:
            return np.concatenate([scaled(places), lone[:, None] == places])

        return Family(size, columns)
    products = np.zeros((size, size))
    for start in range(0, units, _BLOCK):  # blocks fit into the cache
        part = scaled(np.arange(size), slice(start, start + _BLOCK))
        products += part.T @ part
    products[lone, lone] += 1.0
    # Unlike other roots of a matrix, this symmetric one depends continuously on it, so rounding
    # errors do not change it.
    values, vectors = np.linalg.eigh((products + products.T) / 2)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    return Family(size, lambda places: root[:, places])
