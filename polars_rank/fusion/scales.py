"""Normalization of the scores of a run, query by query."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

import polars as pl

from polars_rank.fusion.methods import CANDIDATES, RANK, SCORE, SIZE, total

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.fusion.parameters import Fusion

Normalization: TypeAlias = Literal["min_max", "max", "sum", "zscore", "rank", "borda"]
NORMALIZATIONS: tuple[str, ...] = get_args(Normalization)


class Scale(NamedTuple):
    """A normalization."""

    #: The normalized score; or, from the parameters, origin and unit of (score - origin) / unit,
    #: which are aggregations of the scores of a run.
    value: pl.Expr | Callable[[Fusion], tuple[pl.Expr, pl.Expr]]
    #: The normalized score of documents that the run did not retrieve, if they have one.
    of_missing: pl.Expr | None = None
    #: The normalized score of all documents of a run whose scores are all equal.
    constant: float | None = None


SCALES: Mapping[str, Scale] = {
    "min_max": Scale(lambda _: (SCORE.min(), SCORE.max() - SCORE.min()), constant=1.0),
    "max": Scale(lambda _: (pl.lit(0.0), SCORE.max())),
    "sum": Scale(lambda _: (SCORE.min(), total(SCORE - SCORE.min())), constant=1.0),
    "zscore": Scale(lambda fusion: (total(SCORE) / SCORE.count(), SCORE.sort().std(ddof=fusion.ddof)), constant=0.0),
    "rank": Scale(1 - (RANK - 1) / SIZE),
    "borda": Scale(1 - (RANK - 1) / CANDIDATES, of_missing=0.5 - (SIZE - 1) / (2 * CANDIDATES)),
}


def normalized(fusion: Fusion, run: Sequence[str]) -> pl.Expr:
    """Return the normalized score of a document; `run` are the keys of its ranking in a run."""
    if fusion.normalize is None:
        return SCORE
    scale = SCALES[fusion.normalize]
    if isinstance(scale.value, pl.Expr):
        return scale.value
    origin, unit = (each.over(run) for each in scale.value(fusion))
    value = (SCORE - origin) / unit
    if scale.constant is not None:
        constant = scale.constant if fusion.constant is None else fusion.constant
        is_constant = SCORE.min().over(run) == SCORE.max().over(run)
        value = pl.when(is_constant).then(constant).otherwise(value)
    if fusion.floor is not None:
        value = pl.when(value == 0).then(fusion.floor).otherwise(value)
    return value
