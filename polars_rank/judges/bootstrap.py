"""Bootstrap intervals of statistics of tables of counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from polars_rank.errors import warn
from polars_rank.stats.intervals import FEW
from polars_rank.stats.query_hash import mixed
from polars_rank.stats.resampling import numpy, poisson_sums

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: Maximum number of counts in tables of resamples.
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


@dataclass(frozen=True)
class Bootstrap:
    """The parameters of bootstrap intervals."""

    n_resamples: int
    seed: int
    confidence: float

    def estimates(
        self, keys: Any, counts: Any, statistics: Callable[[Any], Mapping[str, Any]]
    ) -> Any:
        """Return values, lower bounds, upper bounds, and shares of undefined resamples.

        `keys` are hashes of clusters, and `counts` has these clusters as its first axis.
        `statistics` maps sums over clusters to a value for each name. The result has an axis of
        the four numbers and an axis of names. What is undefined is NaN.
        """
        np = numpy()
        flat = counts.reshape(len(keys), -1).astype(float)
        size = max(1, _CELLS // flat.shape[1])
        parts = []
        for chunk, start in enumerate(range(0, self.n_resamples, size)):
            number = min(size, self.n_resamples - start)
            sums = poisson_sums(keys, flat, number, self.seed + chunk * _SEEDS)
            of_chunk = statistics(sums.reshape(number, *counts.shape[1:]))
            parts.append(np.stack([*of_chunk.values()], axis=1))
        values = np.sort(np.concatenate(parts), axis=0)  # NaN comes last
        defined = np.isfinite(values).sum(axis=0)
        low, high = (
            _quantile(values, defined, (1 + sign * self.confidence) / 2) for sign in (-1, 1)
        )
        varies = _quantile(values, defined, 1) - values[0] > _TINY
        return np.stack([
            np.stack([*statistics(counts.sum(axis=0)).values()]),
            np.where(varies, low, np.nan),
            np.where(varies, high, np.nan),
            1 - defined / self.n_resamples,
        ])  # fmt: skip


def _quantile(values: Any, defined: Any, share: float) -> Any:
    """Return a quantile of the `defined` first values of each column, which are sorted."""
    np = numpy()
    last = np.maximum(defined - 1, 0)
    place = share * last
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, last)
    low, high = (np.take_along_axis(values, each[None], 0)[0] for each in (below, above))
    return low + (place - below) * (high - low)


def clusters(key: Any, cells: int) -> tuple[Any, Any]:
    """Return the hashes of the clusters, and the number of the cluster of each row.

    A cluster is a key, such as a query. If there are too many, they are put into clusters at
    random; `cells` is the number of counts of a cluster.
    """
    np = numpy()
    keys, cluster = np.unique(key, return_inverse=True)
    most = min(_MOST_CLUSTERS, max(_LEAST_CLUSTERS, _ALL_CELLS // cells))
    if len(keys) <= most:
        return keys, cluster
    return np.arange(most, dtype=np.uint64), (mixed(keys) % most).astype(np.int64)[cluster]


def warn_of_few(units: int, name: str = "queries") -> None:
    """Warn of intervals from few queries or clusters."""
    if units < FEW:
        warn(f"intervals of agreement are too narrow with fewer than {FEW} {name}; found {units}")
