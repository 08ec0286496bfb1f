"""Methods of fusion: the points that a run gives to a document, and how they are combined.

All methods are aggregations of the rows of a document: one row per run that retrieved it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import polars as pl

from polars_rank._params import OWN

if TYPE_CHECKING:
    from polars_rank.fusion.parameters import Fusion

Missing: TypeAlias = Literal["zero", "ignore", "lowest"]
Method: TypeAlias = Literal[
    "rrf", "sum", "mnz", "anz", "min", "max", "median", "weighted_sum", "gmnz", "wmnz", "mixed",
    "arithmetic_mean", "geometric_mean", "harmonic_mean", "isr", "log_isr", "logn_isr", "rbc",
    "borda", "weighted_borda",
]  # fmt: skip
METHODS: tuple[str, ...] = get_args(Method)

#: Of a document in a run: its rank, its score, its points, and the weight of the run. Rank, score
#: and points are null if the run did not retrieve it.
RANK, SCORE, POINTS, WEIGHT = (pl.col(OWN + name) for name in ("rank", "score", "points", "weight"))
#: The numbers of documents that the run, and that any run, retrieved for the query.
SIZE, CANDIDATES = (pl.col(OWN + name) for name in ("size", "candidates"))
#: The lowest points that the run gave to a document of the query.
LOWEST = pl.col(OWN + "lowest")

#: Added to the number of runs, so that documents of one run do not all have a score of 0.
_SIGMA = 0.01


class Rule(NamedTuple):
    """How a method computes a score."""

    #: From the points of the runs that retrieved a document to its score.
    combined: Callable[[pl.Expr, Fusion], pl.Expr]
    #: The points that a run gives to a document that it retrieved. Default: its score.
    points: Callable[[Fusion], pl.Expr] | None = None
    #: The points that a run gives to a document that it did not retrieve.
    of_missing: pl.Expr | None = None
    #: What a run that did not retrieve a document counts as.
    missing: Missing = "ignore"
    #: Whether runs have weights; whether there must be some.
    is_weighted: bool = False
    needs_weights: bool = False

    @property
    def reads_scores(self) -> bool:
        """Whether the method reads scores; otherwise, it reads ranks."""
        return self.points is None


def _weighted(points: pl.Expr, _: Fusion) -> pl.Expr:
    return (WEIGHT * points).sum()


def _inverse_square(_: Fusion) -> pl.Expr:
    return 1 / RANK**2


def _mean(mean: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Callable[[pl.Expr, Fusion], pl.Expr]:
    """Return a mean of the scores above 0; 0 if there are none."""

    def of(points: pl.Expr, _: Fusion) -> pl.Expr:
        counts = (points > 0) & (WEIGHT > 0)
        return pl.when(counts.any()).then(
            mean(points.filter(counts), WEIGHT.filter(counts))
        ).otherwise(0.0)

    return of


_WEIGHTED_SUM = Rule(_weighted, is_weighted=True)
_BORDA = Rule(
    _weighted,
    points=lambda _: CANDIDATES - RANK + 1.0,
    of_missing=(CANDIDATES - SIZE + 1.0) / 2,
    is_weighted=True,
)
RULES: dict[str, Rule] = {
    "rrf": Rule(_weighted, points=lambda fusion: 1 / (fusion.k + RANK), is_weighted=True),
    "sum": _WEIGHTED_SUM,
    "weighted_sum": _WEIGHTED_SUM._replace(needs_weights=True),
    "mnz": Rule(lambda points, _: points.sum() * points.count()),
    "gmnz": Rule(lambda points, fusion: points.sum() * points.count().pow(fusion.gamma)),
    "wmnz": Rule(
        lambda points, _: points.sum() * WEIGHT.sum(), is_weighted=True, needs_weights=True
    ),
    "mixed": Rule(
        lambda points, _: (WEIGHT * points).sum() * points.count().sqrt(),
        is_weighted=True,
        needs_weights=True,
    ),
    "anz": Rule(lambda points, _: points.mean()),
    "min": Rule(lambda points, _: points.min()),
    "max": Rule(lambda points, _: points.max()),
    "median": Rule(lambda points, _: points.median()),
    "arithmetic_mean": Rule(
        lambda points, _: pl.when(WEIGHT.sum() > 0).then(
            (WEIGHT * points).sum() / WEIGHT.sum()
        ).otherwise(0.0),
        missing="zero", is_weighted=True,
    ),
    "geometric_mean": Rule(
        _mean(lambda points, weight: ((weight * points.log()).sum() / weight.sum()).exp()),
        is_weighted=True,
    ),
    "harmonic_mean": Rule(
        _mean(lambda points, weight: weight.sum() / (weight / points).sum()), is_weighted=True
    ),
    "isr": Rule(
        lambda points, _: (WEIGHT * points).sum() * points.count(), _inverse_square,
        is_weighted=True,
    ),
    "log_isr": Rule(
        lambda points, _: (WEIGHT * points).sum() * points.count().log(), _inverse_square,
        is_weighted=True,
    ),
    "logn_isr": Rule(
        lambda points, _: (WEIGHT * points).sum() * (points.count() + _SIGMA).log(),
        _inverse_square,
        is_weighted=True,
    ),
    "rbc": Rule(
        _weighted, lambda fusion: (1 - fusion.phi) * pl.lit(fusion.phi).pow(RANK - 1),
        is_weighted=True,
    ),
    "borda": _BORDA,
    "weighted_borda": _BORDA._replace(needs_weights=True),
}  # fmt: skip
