"""Measures of similarity of two rankings, as aggregations of their documents."""

from __future__ import annotations

import polars as pl

from polars_rank._params import OWN
from polars_rank.evaluation.means import ratio

#: The rank of a document in both runs; null if the run does not have it. If ties have no order, it
#: is the first rank of the tied documents.
LEFT, RIGHT = pl.col(OWN + "rank in left"), pl.col(OWN + "rank in right")
#: Treatments of ties without an order of the tied documents.
UNORDERED = ("w", "a", "b")


def last_rank(side: pl.Expr) -> pl.Expr:
    """Return the column with the last rank of the documents that are tied in a run."""
    return pl.col(side.meta.output_name() + " last")


def jaccard_value(k: int | None) -> pl.Expr:
    """Return the Jaccard index of the first k documents."""
    both = _both_within(k)
    return ratio(both, _within(LEFT, k).sum() + _within(RIGHT, k).sum() - both).alias("jaccard")


def overlap_value(k: int | None) -> pl.Expr:
    """Return the share of the first k documents that both rankings have."""
    both = _both_within(k)
    longer = pl.max_horizontal(LEFT.count(), RIGHT.count())
    return (ratio(both, longer) if k is None else both / k).alias("overlap")


def churn_value(k: int | None) -> pl.Expr:
    """Return 1 if the first k documents are not the same in the same order, otherwise 0."""
    top = _within(LEFT, k) | _within(RIGHT, k)
    changed = (top & LEFT.ne_missing(RIGHT)).any().cast(pl.Float64)
    return pl.when(LEFT.count() + RIGHT.count() > 0).then(changed).alias("churn")


def _within(rank: pl.Expr, k: int | None) -> pl.Expr:
    """Return whether a document is among the first k."""
    if k is None:
        return rank.is_not_null()
    return (rank <= k).fill_null(value=False)


def _both_within(k: int | None) -> pl.Expr:
    """Return the number of common documents among the first k."""
    return (_within(LEFT, k) & _within(RIGHT, k)).sum()


def rbo_value(p: float, ties: str | None = None) -> pl.Expr:
    """Return rank-biased overlap.

    A document contributes c(d), from 0 to 1, to the first d documents of a run. The agreement at
    depth d is the sum of the products of the contributions to both runs, divided by a size that
    depends on `ties`. Beyond the shorter ranking, unknown documents contribute the mean of the
    documents that only the longer one has, times the agreement at the end of the shorter one.
    """
    left, right = _Side(LEFT, ties), _Side(RIGHT, ties)
    shorter = pl.min_horizontal(left.length, right.length)
    longer = pl.max_horizontal(left.length, right.length)
    power = pl.lit(float(p)).pow
    size = _size(left, right, ties)
    # Depths beyond the longer ranking are added at the end.
    weights = pl.when(longer >= _DEPTH).then(power(_DEPTH - 1) / size).otherwise(0.0)

    is_left_longer = left.length > right.length
    at_shorter = (left.share(shorter) * right.share(shorter)).sum() / size.get(shorter - 1)
    unknown = weights * (_DEPTH - shorter)
    if ties in ("a", "b"):
        of_left, of_right = left.mean_share(right), right.mean_share(left)
        unknown = unknown * pl.when(is_left_longer).then(of_left).otherwise(of_right)
    unknown = pl.when(shorter < _DEPTH).then(unknown).otherwise(0.0).sum()
    known = _weighted(left, right, weights, ties) + at_shorter * unknown
    both = (LEFT.is_not_null() & RIGHT.is_not_null()).sum()
    last = (both + (longer - shorter) * at_shorter) / longer
    value = ((1 - p) * known + power(longer) * last).clip(0.0, 1.0)  # rounding errors
    value = pl.when(shorter > 0).then(value).otherwise(0.0)
    return pl.when(longer > 0).then(value).alias("rbo")


#: The depths from 1 to the number of documents of both runs.
_DEPTH = pl.int_range(1, pl.len() + 1, dtype=pl.Int64)


class _Side:
    """A run: the first and the last rank of each document's ties, and of the ties at each depth."""

    def __init__(self, side: pl.Expr, ties: str | None) -> None:
        self.first = side.cast(pl.Int64)
        self.last = last_rank(side).cast(pl.Int64) if ties in UNORDERED else self.first
        self.length = side.count().cast(pl.Int64)
        self.is_shared = ties in ("a", "b")

    def at_depth(self, rank: pl.Expr) -> pl.Expr:
        """Return a rank of the ties at each depth; beyond the run, it is the depth."""
        return rank.sort(nulls_last=True).fill_null(_DEPTH)

    @property
    def share_at_depth(self) -> pl.Expr:
        """Return the contribution of each of the documents that are tied at a depth."""
        first, last = self.at_depth(self.first), self.at_depth(self.last)
        return (_DEPTH - first + 1) / (last - first + 1)

    def share(self, depth: pl.Expr) -> pl.Expr:
        """Return the contribution of each document to the first documents up to a depth."""
        if not self.is_shared:
            return (self.first <= depth).cast(pl.Float64)
        return ((depth - self.first + 1) / (self.last - self.first + 1)).clip(0.0, 1.0)

    def mean_share(self, other: _Side) -> pl.Expr:
        """Return the mean contribution at each depth of the documents that only this run has.

        Documents that contribute nothing do not count.
        """
        only = (self.first.is_not_null() & other.first.is_null()).cast(pl.Int64)
        only = only.sort_by(self.first, nulls_last=True)
        up_to = only.cum_sum()
        before = (up_to - only).gather(self.at_depth(self.first) - 1)
        until = up_to.gather(self.at_depth(self.last) - 1)
        return (before + (until - before) * self.share_at_depth) / until


def _size(left: _Side, right: _Side, ties: str | None) -> pl.Expr:
    """Return by what the agreement at each depth is divided."""
    if ties == "w":
        return (left.at_depth(left.last) + right.at_depth(right.last)) / 2
    if ties == "b":
        squares = []
        for side in (left, right):
            first, last = side.at_depth(side.first), side.at_depth(side.last)
            squares.append(first - 1 + side.share_at_depth**2 * (last - first + 1))
        return (squares[0] * squares[1]).sqrt()
    return _DEPTH


def _weighted(left: _Side, right: _Side, weights: pl.Expr, ties: str | None) -> pl.Expr:
    """Return the sum over depths of the weight times the agreement of the known documents."""
    both = left.first.is_not_null() & right.first.is_not_null()

    def between(values: pl.Expr, start: pl.Expr, end: pl.Expr) -> pl.Expr:
        """Return the sum of values over the depths from a start to the one before an end."""
        sums = values.cum_sum(reverse=True)
        start = pl.min_horizontal(start, end)
        return (sums.gather(start.filter(both) - 1) - sums.gather(end.filter(both) - 1)).sum()

    def beyond(start: pl.Expr) -> pl.Expr:
        return weights.cum_sum(reverse=True).gather(start.filter(both) - 1).sum()

    first = pl.max_horizontal(left.first, right.first)
    if ties not in ("a", "b"):
        return beyond(first)
    a, b = left.share_at_depth, right.share_at_depth
    return (
        # From the last rank of its ties on, a document contributes 1.
        beyond(pl.max_horizontal(left.last, right.last))
        + between(weights * a, pl.max_horizontal(left.first, right.last), left.last)
        + between(weights * b, pl.max_horizontal(right.first, left.last), right.last)
        + between(weights * a * b, first, pl.min_horizontal(left.last, right.last))
    )
