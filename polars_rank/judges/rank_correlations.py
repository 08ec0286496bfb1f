"""Correlations of the orders of runs by two judges, for many pairs of orders at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polars_rank.stats._arrays import Array, numpy

if TYPE_CHECKING:
    from collections.abc import Mapping

#: The correlations, in the order of results.
CORRELATIONS = ("tau_b", "tau_ap")
#: Means that differ by less, relative to the largest mean, are tied: they differ by rounding.
_TIE = 1e-12
#: Number of pairs of runs that are compared at once.
_CELLS = 2**22


def correlations(sums: Array, *, lower_is_better: bool = False) -> Mapping[str, Array]:
    """Return the correlations of sums over queries; NaN if they are undefined.

    The last axis has the sums of the runs under the reference, those of the same runs under the
    judge, and the sum of weights.
    """
    np = numpy()
    rows = sums.reshape(-1, sums.shape[-1])
    runs = rows.shape[1] // 2
    result = np.full((len(CORRELATIONS), len(rows)), np.nan)
    known = np.flatnonzero(rows[:, -1] > 0)
    step = max(1, _CELLS // runs**2)
    for start in range(0, len(known), step):
        block = known[start : start + step]
        means = rows[block, :-1] / rows[block, -1:]
        better = -means if lower_is_better else means
        reference, judge = _signs(better[:, :runs]), _signs(better[:, runs:])
        with np.errstate(invalid="ignore"):  # 0 / 0 is undefined
            result[:, block] = _tau_b(reference, judge), _tau_ap(reference, judge)
    shaped = (values.reshape(sums.shape[:-1]) for values in result)
    return dict(zip(CORRELATIONS, shaped, strict=True))


def _signs(means: Array) -> Array:
    """Return for each pair of runs 1 if the second is better, -1 if it is worse, 0 for ties."""
    np = numpy()
    order = np.argsort(-means, axis=1, kind="stable")
    ordered = np.take_along_axis(means, order, axis=1)
    differ = -np.diff(ordered, axis=1) > _TIE * abs(means).max(axis=1, keepdims=True)
    levels = np.zeros(means.shape, dtype=np.int64)
    np.put_along_axis(levels, order[:, 1:], differ.cumsum(axis=1), axis=1)
    return np.sign(levels[:, :, None] - levels[:, None, :])


def _tau_b(reference: Array, judge: Array) -> Array:
    """Return Kendall's tau_b."""
    np = numpy()
    difference = (reference * judge).sum(axis=(1, 2))
    untied = [np.count_nonzero(each, axis=(1, 2)).astype(float) for each in (reference, judge)]
    return difference / np.sqrt(untied[0] * untied[1])


def _tau_ap(reference: Array, judge: Array) -> Array:
    """Return the mean of the AP correlation over all orders of tied runs.

    A run at rank i has the share of concordant runs among the i - 1 above it. Each rank of its ties
    is equally likely; runs that are tied with it are concordant in half of the orders.
    """
    np = numpy()
    runs = judge.shape[1]
    harmonic = np.concatenate([[0.0], (1 / np.arange(1.0, runs + 1)).cumsum()])
    is_above = judge > 0
    first = is_above.sum(axis=2) + 1  # the best rank of the runs that are tied with a run
    tied = runs + 1 - first - (judge < 0).sum(axis=2)
    last = harmonic[first + tied - 2]
    concordant = ((1 + reference) / 2 * is_above).sum(axis=2)
    of_above = concordant * (last - harmonic[np.maximum(first - 2, 0)]) / tied
    of_ties = (tied - 1 - (first - 1) * (last - harmonic[first - 1])) / (2 * tied)
    return 2 * (of_above + of_ties).sum(axis=1) / (runs - 1) - 1
