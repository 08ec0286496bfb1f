"""Methods of fusion: normalized scores, points of a document in a run, and their combination.

A method is an aggregation of the rows of a document: one row per run that counts for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import polars as pl

from polars_rank._params import OWN

Missing: TypeAlias = Literal["zero", "ignore", "lowest"]
Method: TypeAlias = Literal[
    "rrf", "sum", "mnz", "anz", "min", "max", "median", "weighted_sum", "gmnz", "wmnz", "mixed",
    "arithmetic_mean", "geometric_mean", "harmonic_mean", "isr", "log_isr", "logn_isr", "rbc",
    "borda", "weighted_borda",
]  # fmt: skip
METHODS: tuple[str, ...] = get_args(Method)
Normalization: TypeAlias = Literal["min_max", "max", "sum", "zscore", "rank", "borda"]
NORMALIZATIONS: tuple[str, ...] = get_args(Normalization)

#: Rank, score and points of a document in a run, and the weight of the run. Rank and score are null
#: if the run did not retrieve the document; points are null if the run does not count for it.
RANK, SCORE, POINTS, WEIGHT = (pl.col(OWN + name) for name in ("rank", "score", "points", "weight"))
#: The numbers of documents that the run, and that any run, retrieved for the query.
SIZE, CANDIDATES = (pl.col(OWN + name) for name in ("size", "candidates"))


#: A number below the largest 32-bit float.
_LARGEST = 3e38


def total(values: pl.Expr) -> pl.Expr:
    """Return the sum of values, which does not depend on their order.

    In different orders, rounding would give documents with the same values different sums, and the
    optimizer of Polars removes a sort before a sum. Each value is the sum of two numbers of at most
    29 bits: the sums of both are exact unless values differ by a factor of a million or more.
    """
    high = values.clip(-_LARGEST, _LARGEST).cast(pl.Float32).cast(pl.Float64)
    return high.sum() + (values - high).sum()


_SUM, _COUNT = total(WEIGHT * POINTS), POINTS.count()
#: Added to the number of runs, so that documents of one run do not all have a score of 0.
_SIGMA = 0.01


class Formula(NamedTuple):
    """The definition of a method; its formulas read the parameters of a `Fusion`."""

    #: The score of a document, from the points of the runs that count.
    score: Callable[[Any], pl.Expr]
    #: The points that a run gives to a document that it retrieved. Default: the score in the run.
    points: Callable[[Any], pl.Expr] | None = None
    #: The points that a run gives to a document that it did not retrieve.
    points_of_missing: pl.Expr | None = None
    #: The default treatment of documents that a run did not retrieve.
    missing: Missing = "ignore"
    #: Whether runs may have weights, and whether they must have some.
    is_weighted: bool = False
    needs_weights: bool = False

    @property
    def reads_scores(self) -> bool:
        """Whether the method reads the scores of runs; otherwise, it reads ranks only."""
        return self.points is None


def _mean(mean: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Formula:
    """Return a weighted mean of the scores above 0, which is 0 if there are none."""
    counts = (POINTS > 0) & (WEIGHT > 0)
    score = mean(POINTS.filter(counts), WEIGHT.filter(counts))
    return Formula(lambda _: pl.when(counts.any()).then(score).otherwise(0.0), is_weighted=True)


def _isr(factor: pl.Expr) -> Formula:
    """Return a method of inverse square ranks; the factor grows with the number of runs."""
    return Formula(lambda _: _SUM * factor, lambda _: 1 / RANK**2, is_weighted=True)


_WEIGHTED_SUM = Formula(lambda _: _SUM, is_weighted=True)
_BORDA = Formula(
    lambda _: _SUM,
    points=lambda _: CANDIDATES - RANK + 1,
    points_of_missing=(CANDIDATES - SIZE + 1) / 2,
    is_weighted=True,
)
FORMULAS: dict[str, Formula] = {
    "rrf": Formula(lambda _: _SUM, lambda fusion: 1 / (fusion.k + RANK), is_weighted=True),
    "sum": _WEIGHTED_SUM,
    "weighted_sum": _WEIGHTED_SUM._replace(needs_weights=True),
    "mnz": Formula(lambda _: _SUM * _COUNT),
    "gmnz": Formula(lambda fusion: _SUM * _COUNT.cast(pl.Float64).pow(fusion.gamma)),
    "wmnz": Formula(lambda _: total(POINTS) * total(WEIGHT), is_weighted=True, needs_weights=True),
    "mixed": Formula(lambda _: _SUM * _COUNT.sqrt(), is_weighted=True, needs_weights=True),
    "anz": Formula(lambda _: _SUM / _COUNT),
    "min": Formula(lambda _: POINTS.min()),
    "max": Formula(lambda _: POINTS.max()),
    "median": Formula(lambda _: POINTS.median()),
    "arithmetic_mean": Formula(
        lambda _: pl.when(WEIGHT.max() > 0).then(_SUM / total(WEIGHT)).otherwise(0.0),
        missing="zero",
        is_weighted=True,
    ),
    "geometric_mean": _mean(
        lambda points, weight: (total(weight * points.log()) / total(weight)).exp()
    ),
    "harmonic_mean": _mean(lambda points, weight: total(weight) / total(weight / points)),
    "isr": _isr(_COUNT),
    "log_isr": _isr(_COUNT.log()),
    "logn_isr": _isr((_COUNT + _SIGMA).log()),
    "rbc": Formula(
        lambda _: _SUM,
        lambda fusion: (1 - fusion.phi) * pl.lit(fusion.phi).pow(RANK - 1),
        is_weighted=True,
    ),
    "borda": _BORDA,
    "weighted_borda": _BORDA._replace(needs_weights=True),
}


class Scale(NamedTuple):
    """A normalization of the scores of a run, query by query."""

    #: The normalized score; or origin and unit of (score - origin) / unit, which are aggregations
    #: of the scores of a run.
    value: pl.Expr | tuple[pl.Expr, pl.Expr]
    #: The normalized score of documents that the run did not retrieve, if they have one.
    of_missing: pl.Expr | None = None
    #: The normalized score of all documents of a run whose scores are all equal.
    constant: float | None = None


_MEAN = total(SCORE) / SCORE.count()
_VARIANCE = total((SCORE - _MEAN) ** 2) / SCORE.count()
SCALES: Mapping[str, Scale] = {
    "min_max": Scale((SCORE.min(), SCORE.max() - SCORE.min()), constant=1.0),
    "max": Scale((pl.lit(0.0), SCORE.max())),
    "sum": Scale((SCORE.min(), total(SCORE - SCORE.min())), constant=1.0),
    "zscore": Scale((_MEAN, _VARIANCE.sqrt()), constant=0.0),
    "rank": Scale(1 - (RANK - 1) / SIZE),
    "borda": Scale(1 - (RANK - 1) / CANDIDATES, of_missing=0.5 - (SIZE - 1) / (2 * CANDIDATES)),
}
