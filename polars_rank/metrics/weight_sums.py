"""Sums of the weights of all ranks down to a cutoff, which may be far below the last document."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

if TYPE_CHECKING:
    from polars_rank.metrics.nodes import Function

#: Ranks whose weights are added one by one.
_FIRST = 4096
#: Width of a panel of an integral, on a logarithmic scale, and the points and weights of Gauss and
#: Legendre's rule of three points on [-1/2, 1/2].
_WIDTH = 0.02
_POINTS = {-math.sqrt(0.15): 5 / 18, 0.0: 8 / 18, math.sqrt(0.15): 5 / 18}


def weight_sum(weight: Function, k: int) -> float:
    """Return the sum of the weights of the ranks 1 to k.

    The weight is a smooth function of the rank that falls, or is constant. Far below rank 1, its
    sum is an integral, from half a rank before the first rank to half a rank after the last one,
    with the first correction of Euler and Maclaurin. The error is that of rounding.
    """
    first = pl.int_range(1, min(k, _FIRST) + 1, eager=True)
    total = _sum(weight, first.cast(pl.Float64))
    if k <= _FIRST:
        return total
    start, end = _FIRST + 0.5, k + 0.5
    panels = math.ceil(math.log(end / start) / _WIDTH)
    width = math.log(end / start) / panels
    middles = width * (pl.int_range(panels, eager=True) + 0.5)
    for point, part in _POINTS.items():
        ranks = start * (middles + point * width).exp()
        total += part * width * _sum(lambda rank: weight(rank) * rank, ranks)
    around = pl.Series([start - 0.5, start + 0.5, end - 0.5, end + 0.5])
    before, after, last, beyond = _values(weight, around)
    return total - ((beyond - last) - (after - before)) / 24


def _sum(weight: Function, ranks: pl.Series) -> float:
    return math.fsum(_values(weight, ranks))


def _values(weight: Function, ranks: pl.Series) -> list[float]:
    return pl.select(weight(pl.lit(ranks)).cast(pl.Float64)).to_series().to_list()
