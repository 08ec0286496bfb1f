"""Statistics of the agreement of two leaderboards, for many pairs of leaderboards at once.

A leaderboard is a row of the levels of its runs: 0 for the best run, and equal for tied runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from polars_rank.stats.resampling import numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank.stats.simultaneous import Array

#: The statistics, in the order of results.
OF_LEADERBOARDS = ("tau_b", "tau_ap_a", "tau_ap_b", "rbo", "largest_drop")
#: Means that differ by less, relative to the largest mean, are tied: they differ by rounding.
_TIE = 1e-12
#: Number of pairs of runs that are compared at once.
_CELLS = 2**22


def leaderboard_statistics(
    sums: Array, *, p: float, lower_is_better: bool = False
) -> Mapping[str, Array]:
    """Return the statistics of sums over queries.

    The last axis has the sums of the runs under the reference, those of the same runs under the
    judge, and the sum of weights. What is undefined is NaN.
    """
    np = numpy()
    rows = sums.reshape(-1, sums.shape[-1])
    runs = (rows.shape[1] - 1) // 2
    result = np.full((len(OF_LEADERBOARDS), len(rows)), np.nan)
    known = np.flatnonzero(rows[:, -1] > 0)
    step = max(1, _CELLS // runs**2)
    for start in range(0, len(known), step):
        block = known[start : start + step]
        means = rows[block, :-1] / rows[block, -1:]
        better = -means if lower_is_better else means
        with np.errstate(invalid="ignore"):  # 0 / 0 is undefined
            levels = _levels(better[:, :runs]), _levels(better[:, runs:])
            result[:, block] = _of_levels(*levels, p)
    shaped = (values.reshape(sums.shape[:-1]) for values in result)
    return dict(zip(OF_LEADERBOARDS, shaped, strict=True))


def _levels(means: Array) -> Array:
    """Return the levels of runs by their means."""
    np = numpy()
    order = np.argsort(-means, axis=1, kind="stable")
    ordered = np.take_along_axis(means, order, axis=1)
    differ = -np.diff(ordered, axis=1) > _TIE * abs(means).max(axis=1, keepdims=True)
    levels = np.zeros(means.shape, dtype=np.int64)
    np.put_along_axis(levels, order[:, 1:], differ.cumsum(axis=1), axis=1)
    return levels


class _Ranks(NamedTuple):
    """Leaderboards x runs."""

    #: Whether the second run of a pair is better (leaderboards x runs x runs).
    above: Array
    #: The best rank of the runs that are tied with a run, and their number.
    first: Array
    tied: Array

    @classmethod
    def of(cls, levels: Array) -> _Ranks:
        above = levels[:, None, :] < levels[:, :, None]
        better, worse = above.sum(axis=2), above.sum(axis=1)
        return cls(above, better + 1, levels.shape[1] - better - worse)


def _of_levels(reference: Array, judge: Array, p: float) -> Array:
    """Return the statistics (statistics x leaderboards)."""
    np = numpy()
    a, b = _Ranks.of(reference), _Ranks.of(judge)
    concordant = a.above & b.above
    agreeing = concordant.sum(axis=2)
    tau_ap_b = (_above_ties(agreeing, a) + _above_ties(agreeing, b)) / 2
    mean_rank, mean_rank_of_reference = (each.first + (each.tied - 1) / 2 for each in (b, a))
    drop = (mean_rank - mean_rank_of_reference).max(axis=1)
    return np.stack(
        [_tau_b(a, b, concordant), _tau_ap_a(a, b, agreeing), tau_ap_b, _rbo(a, b, p), drop]
    )


def _tau_b(a: _Ranks, b: _Ranks, concordant: Array) -> Array:
    """Return Kendall's tau_b."""
    np = numpy()
    discordant = a.above & b.above.swapaxes(1, 2)
    pairs = [each.above.sum(axis=(1, 2)).astype(float) for each in (a, b)]
    difference = concordant.sum(axis=(1, 2)) - discordant.sum(axis=(1, 2))
    return difference / np.sqrt(pairs[0] * pairs[1])


def _tau_ap_a(a: _Ranks, b: _Ranks, agreeing: Array) -> Array:
    """Return the mean of the AP correlation over all orders of tied runs.

    A run at rank i has the share of concordant runs among the i - 1 above it. Each rank of its ties
    is equally likely; runs that are tied with it are concordant in half of the orders.
    """
    np = numpy()
    runs = a.first.shape[1]
    harmonic = np.concatenate([[0.0], (1 / np.arange(1.0, runs + 1)).cumsum()])
    first, tied = b.first, b.tied
    last = harmonic[first + tied - 2]
    tied_in_reference = ~(a.above | a.above.swapaxes(1, 2)) & b.above
    above = agreeing + tied_in_reference.sum(axis=2) / 2
    of_above = above * (last - harmonic[np.maximum(first - 2, 0)]) / tied
    of_ties = (tied - 1 - (first - 1) * (last - harmonic[first - 1])) / (2 * tied)
    return 2 * (of_above + of_ties).sum(axis=1) / (runs - 1) - 1


def _above_ties(agreeing: Array, ranks: _Ranks) -> Array:
    """Return the mean share of concordant runs above the ties of each run, from -1 to 1."""
    np = numpy()
    better = ranks.first - 1
    shares = agreeing / np.maximum(better, 1)
    return 2 * shares.sum(axis=1) / (better > 0).sum(axis=1) - 1


def _rbo(a: _Ranks, b: _Ranks, p: float) -> Array:
    """Return rank-biased overlap as `rbo` with "b" for ties; both rankings have all runs."""
    np = numpy()
    runs = a.first.shape[1]
    depths = np.arange(1, runs + 1)
    of_a, of_b = (
        ((depths - each.first[..., None] + 1) / each.tied[..., None]).clip(0, 1) for each in (a, b)
    )
    squares = [np.einsum("nrd,nrd->nd", each, each) for each in (of_a, of_b)]
    agreements = np.einsum("nrd,nrd->nd", of_a, of_b) / np.sqrt(squares[0] * squares[1])
    return np.minimum((1 - p) * agreements @ p ** (depths - 1.0) + p**runs, 1.0)
