"""Discounts: functions from an expression of ranks to an expression of weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import polars as pl

from polars_rank._params import is_number, public
from polars_rank.errors import ArgumentError

__all__ = ["jarvelin", "log", "log2", "reciprocal"]

Discount: TypeAlias = "Callable[[pl.Expr], pl.Expr] | Any"


@public
def log2(rank: pl.Expr) -> pl.Expr:
    """Return the discount 1 / log2(rank + 1): 1 at rank 1, 0.63 at 2, 0.5 at 3.

    Examples
    --------
    >>> pl.select(pr.discounts.log2(pl.Series([1, 3]))).to_series().to_list()
    [1.0, 0.5]

    Parameters
    ----------
    rank
        Rank, 1 for the best document.

    Returns
    -------
    pl.Expr
        Float64 in (0, 1]; null if the rank is null.

    References
    ----------
    Burges et al., Learning to rank using gradient descent, 2005.
    """
    return 1 / (rank.cast(pl.Float64) + 1).log(2)


@public
def log(base: float = math.e) -> Discount:
    """Return the discount function 1 / log_base(rank + 1).

    Examples
    --------
    >>> pl.select(pr.discounts.log(2)(pl.Series([1, 3]))).to_series().to_list()
    [1.0, 0.5]

    Parameters
    ----------
    base
        Base of the logarithm, above 1; by default e. NDCG does not depend on the base, DCG does.

    Returns
    -------
    Discount
        A function of the rank, usable as `discount`.
    """
    return _Logarithmic("log", base)


@public
def jarvelin(base: float = 2) -> Discount:
    """Return the discount function of the original DCG: 1 / log_base(rank), at most 1.

    Examples
    --------
    >>> discount = pr.discounts.jarvelin()
    >>> pl.select(discount(pl.Series([1, 2, 4]))).to_series().to_list()
    [1.0, 1.0, 0.5]

    Parameters
    ----------
    base
        Base of the logarithm, above 1. Ranks up to the base are not discounted, so a higher base
        models a more patient user.

    Returns
    -------
    Discount
        A function of the rank, usable as `discount`.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.
    """
    return _Logarithmic("jarvelin", base)


@public
def reciprocal(rank: pl.Expr) -> pl.Expr:
    """Return the discount 1 / rank.

    Examples
    --------
    >>> pl.select(pr.discounts.reciprocal(pl.Series([1, 4]))).to_series().to_list()
    [1.0, 0.25]

    Parameters
    ----------
    rank
        Rank, 1 for the best document.

    Returns
    -------
    pl.Expr
        Float64 in (0, 1]; null if the rank is null.
    """
    return 1 / rank.cast(pl.Float64)


@dataclass(frozen=True)
class _Logarithmic:
    kind: str
    base: float

    def __post_init__(self) -> None:
        if not (is_number(self.base) and self.base > 1):
            raise ArgumentError(f"must be a number above 1; found {self.base!r}", "base")

    def __call__(self, rank: pl.Expr) -> pl.Expr:
        rank = rank.cast(pl.Float64)
        # Clipping gives discount 1 to ranks below the base, as at the base.
        counted = rank + 1 if self.kind == "log" else rank.clip(self.base)
        return math.log(self.base) / counted.log()

    @property
    def __name__(self) -> str:
        return f"{self.kind}({str(float(self.base)).removesuffix('.0')})"


#: Discounts that can be given by name.
DISCOUNTS: dict[str, Discount] = {
    "log2": log2,
    "log": log(),
    "jarvelin": jarvelin(),
    "reciprocal": reciprocal,
}


def __dir__() -> list[str]:
    return __all__
