"""Bootstrap intervals of statistics of sums over queries, such as tables of counts.

Resamples have Poisson weights that are a hash of the query, the resample and the seed, so they do
not depend on the order of rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from polars_rank.errors import warn
from polars_rank.stats._arrays import Array, np
from polars_rank.stats.query_hash import mixed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

#: Below this number of queries or clusters, intervals are too narrow.
FEW = 30
#: Maximum number of sums in tables of resamples.
_CELLS = 2**20
#: Maximum number of clusters of queries, and the minimum if the tables of counts are large.
#: With 1,024 clusters, the length of an interval has a relative standard error of about 2%.
_MOST_CLUSTERS, _LEAST_CLUSTERS = 2**14, 2**10
#: Maximum number of counts of all clusters, if there are more of them than the minimum.
_ALL_CELLS = 2**24
#: Distance between the seeds of tables of resamples.
_SEEDS = 2**32
#: Values of resamples that differ by less are equal.
_TINY = 1e-12
#: Number of Poisson weights, of 16 bits each, in a hash.
_DRAWS = 4
#: Rows per block, so that weights fit into the cache: 512 rows take ten times as long.
_ROWS = 128
#: BLAS computes matrix products up to this size (rows x columns x inner) in one thread.
_ONE_THREAD = 2**18
#: Odd numbers between the hashes of resamples, and between those of seeds.
_GOLDEN, _ODD = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


@dataclass(frozen=True)
class Bootstrap:
    """The parameters of bootstrap intervals."""

    n_resamples: int
    seed: int
    confidence: float

    def estimates(
        self, keys: Array, sums: Array, statistics: Callable[[Array], Mapping[str, Array]]
    ) -> Array:
        """Return values, lower bounds, upper bounds, and shares of undefined resamples.

        `keys` are hashes of clusters, and `sums` has these clusters as its first axis. `statistics`
        maps sums over clusters to a value for each name. The result has an axis of the four numbers
        and an axis of names. What is undefined is NaN.
        """
        flat = sums.reshape(len(keys), -1).astype(float)
        size = max(1, _CELLS // flat.shape[1])
        parts = []
        for chunk, start in enumerate(range(0, self.n_resamples, size)):
            number = min(size, self.n_resamples - start)
            drawn = _poisson_sums(keys, flat, number, self.seed + chunk * _SEEDS)
            of_chunk = statistics(drawn.reshape(number, *sums.shape[1:]))
            parts.append(np.stack([*of_chunk.values()], axis=1))
        values = np.sort(np.concatenate(parts), axis=0)  # NaN comes last
        defined = np.isfinite(values).sum(axis=0)
        low, high = (
            _quantile(values, defined, (1 + sign * self.confidence) / 2) for sign in (-1, 1)
        )
        varies = _quantile(values, defined, 1) - values[0] > _TINY
        return np.stack([
            np.stack([*statistics(sums.sum(axis=0)).values()]),
            np.where(varies, low, np.nan),
            np.where(varies, high, np.nan),
            1 - defined / self.n_resamples,
        ])  # fmt: skip


def _quantile(values: Array, defined: Array, share: float) -> Array:
    """Return a quantile of the `defined` first values of each column, which are sorted."""
    last = np.maximum(defined - 1, 0)
    place = share * last
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, last)
    low, high = (np.take_along_axis(values, each[None], 0)[0] for each in (below, above))
    return low + (place - below) * (high - low)


def noted(numbers: Sequence[float], undefined: str) -> tuple[float | str | None, ...]:
    """Return a value, its bounds and a note, from numbers of `Bootstrap.estimates`.

    `undefined` is the note if there is no value.
    """
    value, low, high, share = (None if math.isnan(each) else each for each in numbers)
    note = None
    if value is None:
        note = undefined
    elif low is None:
        note = "no interval: all resamples have the same value"
    elif share:
        note = f"undefined in {100 * share:.2g}% of the resamples"
    return value, low, high, note


def clusters(key: Array, cells: int) -> tuple[Array, Array]:
    """Return the hashes of the clusters, and the number of the cluster of each row.

    A cluster is a key, such as a query. If there are too many, they are put into clusters at
    random; `cells` is the number of sums of a cluster.
    """
    keys, cluster = np.unique(key.astype(np.uint64), return_inverse=True)
    most = min(_MOST_CLUSTERS, max(_LEAST_CLUSTERS, _ALL_CELLS // cells))
    if len(keys) <= most:
        return keys, cluster
    return np.arange(most, dtype=np.uint64), (mixed(keys) % most).astype(np.int64)[cluster]


def warn_of_few(units: int, name: str = "queries") -> None:
    """Warn of intervals from few queries or clusters."""
    if units < FEW:
        warn(f"intervals of agreement are too narrow with fewer than {FEW} {name}; found {units}")


def _poisson_sums(keys: Array, values: Array, n_resamples: int, seed: int) -> Array:
    """Return the sums (n_resamples x columns) of rows under their Poisson(1) weights."""
    words = -(-n_resamples // _DRAWS)
    steps = np.arange(1, words + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    start = mixed(keys + np.uint64(seed * _ODD % 2**64))
    sums = np.zeros((values.shape[1], words * _DRAWS))
    # The threads of BLAS spin while they wait; together with the threads of Polars, products take
    # twenty times as long. So they are computed in pieces that need one thread.
    step = max(1, _ONE_THREAD // (_ROWS * values.shape[1]))
    for first in range(0, len(keys), _ROWS):
        rows = slice(first, first + _ROWS)
        bits = mixed(start[rows, None] + steps[None, :])
        weights = np.take(_poisson_counts(), bits.view(np.uint16))
        for place in range(0, weights.shape[1], step):
            columns = slice(place, place + step)
            sums[:, columns] += values[rows].T @ weights[:, columns]
    return sums.T[:n_resamples]


@cache
def _poisson_counts() -> Array:
    """Return the Poisson(1) variate of each number of 16 bits."""
    steps = [sum(math.exp(-1) / math.factorial(j) for j in range(k + 1)) for k in range(9)]
    numbers = np.arange(2**16)
    return sum((numbers >= round(2**16 * step)).astype(np.float64) for step in steps)
