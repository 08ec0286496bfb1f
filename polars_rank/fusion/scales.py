"""Normalization of the scores of a run, query by query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

import polars as pl

from polars_rank.fusion.methods import CANDIDATES, RANK, SCORE, SIZE, Numbers, total

Normalization: TypeAlias = Literal["min_max", "max", "sum", "zscore", "rank", "borda"]
NORMALIZATIONS: tuple[str, ...] = get_args(Normalization)


class Scale(NamedTuple):
    """A normalization."""

    #: The normalized score; or, from the parameters, origin and unit of (score - origin) / unit,
    #: which are aggregations of the scores of a run.
    value: pl.Expr | Callable[[Numbers], tuple[pl.Expr, pl.Expr]]
    #: The normalized score of documents that the run did not retrieve, if they have one.
    of_missing: pl.Expr | None = None
    #: The normalized score of all documents of a run whose scores are all equal.
    constant: float | None = None


_MEAN = total(SCORE) / SCORE.count()
_SQUARES = total((SCORE - _MEAN) ** 2)
SCALES: Mapping[str, Scale] = {
    "min_max": Scale(lambda _: (SCORE.min(), SCORE.max() - SCORE.min()), constant=1.0),
    "max": Scale(lambda _: (pl.lit(0.0), SCORE.max())),
    "sum": Scale(lambda _: (SCORE.min(), total(SCORE - SCORE.min())), constant=1.0),
    "zscore": Scale(
        lambda numbers: (_MEAN, (_SQUARES / (SCORE.count() - numbers.ddof)).sqrt()), constant=0.0
    ),
    "rank": Scale(1 - (RANK - 1) / SIZE),
    "borda": Scale(1 - (RANK - 1) / CANDIDATES, of_missing=0.5 - (SIZE - 1) / (2 * CANDIDATES)),
}
