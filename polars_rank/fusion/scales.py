"""Normalization of the scores of a run, query by query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import polars as pl

from polars_rank._params import OWN
from polars_rank.fusion.methods import CANDIDATES, RANK, SCORE, SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars_rank.fusion.parameters import Fusion

Normalization: TypeAlias = Literal["min_max", "max", "sum", "zscore", "rank", "borda"]
NORMALIZATIONS: tuple[str, ...] = get_args(Normalization)


class Scale(NamedTuple):
    """A normalization: (score - origin) / unit, or a number that depends on the rank."""

    #: From the parameters and a function of aggregations over a run to origin and unit.
    linear: Callable[[Fusion], tuple[pl.Expr, pl.Expr]] | None = None
    of_rank: pl.Expr | None = None
    #: The score of a document that the run did not retrieve.
    of_missing: pl.Expr | None = None
    #: The score of all documents of a run with equal scores.
    constant: float | None = None


_NOTHING = pl.lit(0.0)
SCALES: Mapping[str, Scale] = {
    "min_max": Scale(lambda _: (SCORE.min(), SCORE.max() - SCORE.min()), constant=1.0),
    "max": Scale(lambda _: (_NOTHING, SCORE.max())),
    "sum": Scale(
        lambda _: (SCORE.min(), SCORE.sum() - SCORE.min() * SCORE.count()), constant=1.0
    ),
    "zscore": Scale(lambda fusion: (SCORE.mean(), SCORE.std(ddof=fusion.ddof)), constant=0.0),
    "rank": Scale(of_rank=1 - (RANK - 1) / SIZE),
    "borda": Scale(
        of_rank=1 - (RANK - 1) / CANDIDATES, of_missing=0.5 - (SIZE - 1.0) / (2 * CANDIDATES)
    ),
}


def normalized(fusion: Fusion, run: Sequence[str]) -> pl.Expr:
    """Return the score of a document on the scale of a fusion; `run` identifies its ranking."""
    if fusion.normalize is None:
        return SCORE
    scale = SCALES[fusion.normalize]
    if scale.linear is None:
        return pl.when(SCORE.is_not_null()).then(scale.of_rank)
    origin, unit = (each.over(run) for each in scale.linear(fusion))
    value = (SCORE - origin) / unit
    if scale.constant is not None:
        constant = scale.constant if fusion.constant is None else fusion.constant
        is_constant = SCORE.min().over(run) == SCORE.max().over(run)
        value = pl.when(~is_constant).then(value).otherwise(
            pl.when(SCORE.is_not_null()).then(constant)
        )
    if fusion.floor is not None:
        value = pl.when(value == 0).then(fusion.floor).otherwise(value)
    return value
