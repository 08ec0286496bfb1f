"""Sums over rankings from which estimates, their variances and statistics of weights follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN
from polars_rank.clicks.certainty import EFFECTIVE, concentration, interval, ratio_variance
from polars_rank.evaluation.means import ratio

Normalize: TypeAlias = Literal["ips", "snips"]

#: Columns of the result that describe the weights.
WEIGHT_COLUMNS = ("mean_weight", "effective_sample_size", "max_weight_share", "unshown")

#: Suffixes of the columns of a metric besides the estimate.
PARTS = ("_variance", "_low", "_high")
#: Statistics of a ranking: the sum of weights, the sum of their squares, the largest weight, the
#: number of documents in the new ranker's top k, and the number of those that were never shown.
WEIGHT, SQUARES, HIGHEST, RANKED, UNSHOWN = (
    OWN + name for name in ("weight", "squares", "highest", "ranked", "unshown")
)


_OWN_WEIGHT, _WEIGHTED = OWN + "own weight", OWN + "weighted"
_OF_RANKING = pl.col(WEIGHT).fill_null(0.0)


class Sums:
    """Statistics that are sums or maxima over rankings, so that parts can be merged."""

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the statistics by name, each with the aggregation that merges it."""
        raise NotImplementedError

    def add_up(self) -> list[pl.Expr]:
        """Return the statistics over rankings."""
        return [value.alias(name) for name, (value, _) in self.named().items()]

    def merge(self) -> list[pl.Expr]:
        """Return the statistics of several parts together."""
        return [getattr(pl.col(name), how)() for name, (_, how) in self.named().items()]

    def of_cluster(self, clustered: pl.Expr) -> list[pl.Expr]:
        """Return the statistics of clusters where `clustered` is true; others are unchanged."""
        return [
            pl.when(clustered).then(value.cast(pl.Float64)).otherwise(name).alias(name)
            for name, value in self.cluster_values().items()
        ]

    def cluster_values(self) -> dict[str, pl.Expr]:
        """Return the statistics of a cluster that are not sums or maxima over its rankings."""
        raise NotImplementedError

    def finish(self) -> list[pl.Expr]:
        """Return the columns of the result."""
        raise NotImplementedError


@dataclass(frozen=True)
class Estimate(Sums):
    """A ratio of sums over rankings, with its variance by the delta method and an interval.

    The sampling units of the variance are rankings or clusters of rankings.
    """

    name: str
    normalize: Normalize
    weight: str | None

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the sums of values and divisors, and of their squares and products."""
        own = _own(self.weight)
        value = pl.col(self.name).fill_null(0.0) * own
        divisor = own if self.normalize == "ips" else _OF_RANKING * own
        sums = (value, divisor, value**2, value * divisor, divisor**2)
        return {
            name: (each.cast(pl.Float64).sum(), "sum")
            for name, each in zip(self._parts, sums, strict=True)
        }

    def cluster_values(self) -> dict[str, pl.Expr]:
        """Return the squares and products of the sums of a cluster, which counts as one unit."""
        value, divisor, squares, products, divisors = self._parts
        v, d = pl.col(value), pl.col(divisor)
        return {squares: v**2, products: v * d, divisors: d**2}

    def finish(self) -> list[pl.Expr]:
        """Return the estimate, its variance and the interval."""
        estimates = (self.value, self.variance, *interval(self.value, self.variance))
        return [
            each.alias(self.name + part) for part, each in zip(("", *PARTS), estimates, strict=True)
        ]

    @property
    def value(self) -> pl.Expr:
        """The estimate."""
        value, divisor, *_ = map(pl.col, self._parts)
        return ratio(value, divisor)

    @property
    def variance(self) -> pl.Expr:
        """The variance of the estimate."""
        _, divisor, squares, products, divisors = map(pl.col, self._parts)
        terms = squares + self.value**2 * divisors
        return ratio_variance(terms - 2 * self.value * products, terms, divisor, divisors)

    @property
    def effective(self) -> pl.Expr:
        """The effective number of rankings or clusters; the same for all metrics."""
        _, divisor, *_, divisors = map(pl.col, self._parts)
        return ratio(divisor**2, divisors).alias(EFFECTIVE)

    @property
    def _parts(self) -> list[str]:
        return [f"{OWN}{part} {self.name}" for part in ("v", "d", "vv", "vd", "dd")]


@dataclass(frozen=True)
class Weights(Sums):
    """Statistics of the weights of documents, or of clusters."""

    weight: str | None
    clustered: bool

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the sums and maxima of the weights."""
        own = _own(self.weight)
        squares, highest = (
            (_OF_RANKING**2, _OF_RANKING) if self.clustered else (pl.col(SQUARES), pl.col(HIGHEST))
        )
        return {
            _OWN_WEIGHT: (own.sum(), "sum"),
            _WEIGHTED: ((_OF_RANKING * own).sum(), "sum"),
            WEIGHT: (_OF_RANKING.sum(), "sum"),
            SQUARES: (squares.sum(), "sum"),
            HIGHEST: (highest.max(), "max"),
            UNSHOWN: (pl.col(UNSHOWN).sum(), "sum"),
            RANKED: (pl.col(RANKED).sum(), "sum"),
        }

    def cluster_values(self) -> dict[str, pl.Expr]:
        """Return the weight of a cluster as the largest weight, and its square."""
        return {SQUARES: pl.col(WEIGHT) ** 2, HIGHEST: pl.col(WEIGHT)}

    def finish(self) -> list[pl.Expr]:
        """Return the statistics of the weights."""
        columns = (
            ratio(pl.col(_WEIGHTED), pl.col(_OWN_WEIGHT)),
            *concentration(pl.col(WEIGHT), pl.col(SQUARES), pl.col(HIGHEST)),
            ratio(pl.col(UNSHOWN), pl.col(RANKED)),
        )
        return [each.alias(name) for name, each in zip(WEIGHT_COLUMNS, columns, strict=True)]


def _own(weight: str | None) -> pl.Expr:
    """Return the weight of each ranking: 1, or the value of the column `weight`."""
    own = _OF_RANKING.is_not_null() if weight is None else pl.col(weight)
    return own.cast(pl.Float64)
