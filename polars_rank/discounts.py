"""Discounts: what a rank is worth, as functions from an expression to an expression."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import polars as pl

from polars_rank.gains import _check_base, _expression, _Logarithmic

__all__ = [
    "jarvelin",
    "log",
    "log2",
    "reciprocal",
]

Discount: TypeAlias = "Callable[[pl.Expr], pl.Expr] | Any"


def log2(rank: pl.Expr) -> pl.Expr:
    """Discount 1 / log2(rank + 1): 1 at rank 1, 0.63 at rank 2, 0.5 at rank 3.

    Parameters
    ----------
    rank
        1 for the best document.

    Returns
    -------
    pl.Expr
        Float64 in (0, 1]; null where the rank is null.

    References
    ----------
    Burges et al., Learning to rank using gradient descent, 2005.

    Examples
    --------
    >>> pl.select(pr.discounts.log2(pl.Series([1, 3]))).to_series().to_list()
    [1.0, 0.5]
    """
    return 1 / (_expression(rank).cast(pl.Float64) + 1).log(2)


def log(base: float = math.e) -> Discount:
    """Discount 1 / log_base(rank + 1); natural logarithm unless a base is given.

    Parameters
    ----------
    base
        Base of the logarithm, above 1. NDCG does not depend on it; DCG does.

    Returns
    -------
    Discount
        A function of the rank.

    Examples
    --------
    >>> pl.select(pr.discounts.log(2)(pl.Series([1, 3]))).to_series().to_list()
    [1.0, 0.5]
    """
    _check_base(base)
    return _Logarithmic("log", base)


def jarvelin(base: float = 2) -> Discount:
    """Discount of the original DCG: none for rank < base, then 1 / log_base(rank).

    Parameters
    ----------
    base
        Base of the logarithm, above 1; a user's patience.

    Returns
    -------
    Discount
        A function of the rank.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.

    Examples
    --------
    >>> pl.select(pr.discounts.jarvelin()(pl.Series([1, 2, 4]))).to_series().to_list()
    [1.0, 1.0, 0.5]
    """
    _check_base(base)
    return _Logarithmic("jarvelin", base)


def reciprocal(rank: pl.Expr) -> pl.Expr:
    """Discount 1 / rank.

    Parameters
    ----------
    rank
        1 for the best document.

    Returns
    -------
    pl.Expr
        Float64 in (0, 1]; null where the rank is null.

    Examples
    --------
    >>> pl.select(pr.discounts.reciprocal(pl.Series([1, 4]))).to_series().to_list()
    [1.0, 0.25]
    """
    return 1 / _expression(rank).cast(pl.Float64)


DISCOUNTS: dict[str, Discount] = {
    "log2": log2,
    "log": log(),
    "jarvelin": jarvelin(),
    "reciprocal": reciprocal,
}


def __dir__() -> list[str]:
    return __all__
