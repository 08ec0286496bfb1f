"""What a label is worth (gains) and what a rank is worth (discounts): `Expr -> Expr`.

A gain or a discount is any function that maps an expression to an expression; those here
are the ones of the literature. Null in, null out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TypeAlias

import polars as pl

from polars_rank.errors import ArgumentError
from polars_rank.ranked import forbid, is_whole

Gain: TypeAlias = Callable[[pl.Expr], pl.Expr]
Discount: TypeAlias = Callable[[pl.Expr], pl.Expr]

#: Above this grade, 2^label - 1 says nothing but "the highest label wins".
LARGEST_EXP2_LABEL = 50


def linear(label: pl.Expr) -> pl.Expr:
    """Gain equal to the label; negative grades stay negative, as a penalty.

    Parameters
    ----------
    label
        Graded relevance, any numeric type.

    Returns
    -------
    pl.Expr
        Float64; null where the label is null.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> pl.select(pr.linear(pl.Series([0, 2, -1]))).to_series().to_list()
    [0.0, 2.0, -1.0]
    """
    return _expression(label).cast(pl.Float64)


def exp2(label: pl.Expr) -> pl.Expr:
    """Gain 2^label - 1, which stresses high grades.

    Parameters
    ----------
    label
        Graded relevance, at most 50: an evaluation raises `DataError` above that.

    Returns
    -------
    pl.Expr
        Float64; null where the label is null.

    References
    ----------
    Burges et al., Learning to rank using gradient descent, 2005.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> pl.select(pr.exp2(pl.Series([0, 1, 4]))).to_series().to_list()
    [0.0, 1.0, 15.0]
    """
    forbid(
        f"above {LARGEST_EXP2_LABEL}, too large for the gain 'exp2' (2^label - 1); "
        "use gain='linear' or a mapping {grade: gain}",
        lambda values: values > LARGEST_EXP2_LABEL,
    )
    if is_whole(label):
        # A power of two is nothing but the exponent of a float: several times faster than pow.
        exponent = label.cast(pl.Int64).clip(-1022, 1023) + 1023
        return (exponent * 2**52).reinterpret(dtype=pl.Float64) - 1
    return pl.lit(2.0).pow(_expression(label).cast(pl.Float64)) - 1


def mapping(gains: Mapping[float, float]) -> Gain:
    """Gain read from a table `{grade: gain}`.

    Parameters
    ----------
    gains
        The gain of every grade that occurs. An evaluation raises `DataError` on a label
        that is not in it.

    Returns
    -------
    Gain
        A function of the label. The ideal order is by label: gains should not fall as the
        label rises.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> gain = pr.mapping({0: 0, 1: 3, 2: 10})
    >>> pl.select(gain(pl.Series([2, 0, 1]))).to_series().to_list()
    [10.0, 0.0, 3.0]
    """
    if not gains:
        message = "`gain` must map at least one grade to a gain; found an empty mapping"
        raise ArgumentError(message)
    grades = pl.Series([float(grade) for grade in gains], dtype=pl.Float64)
    values = pl.Series([float(gain) for gain in gains.values()], dtype=pl.Float64)
    if not (values.is_finite().all() and grades.is_finite().all()):
        message = f"`gain` must map finite grades to finite gains; found {dict(gains)!r}"
        raise ArgumentError(message)
    ordered = values.gather(grades.arg_sort())
    if not ordered.is_sorted():
        message = (
            "`gain` must not fall as the grade rises, for the ideal order is by grade; "
            f"found {dict(gains)!r}"
        )
        raise ArgumentError(message)

    def mapped(label: pl.Expr) -> pl.Expr:
        forbid(
            f"not in the gain mapping, which has the grades {sorted(gains)}; add the others",
            lambda values: ~values.cast(pl.Float64).is_in(grades.implode()),
        )
        return (
            _expression(label)
            .cast(pl.Float64)
            .replace_strict(grades, values, default=None, return_dtype=pl.Float64)
        )

    mapped.__name__ = repr(dict(gains))
    return mapped


def at_least(lowest: float, gain: Gain = linear) -> Gain:
    """Gain 0 for labels below the lowest that is worth anything, another gain for the others.

    Parameters
    ----------
    lowest
        The lowest label with a gain: 0 to make no penalty of negative labels, as trec_eval does.
    gain
        The gain of the other labels.

    Returns
    -------
    Gain
        A function of the label; null where the label is null.

    Raises
    ------
    ArgumentError
        For a `lowest` that is not a number.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> pl.select(pr.at_least(0)(pl.Series([-1, 0, 2]))).to_series().to_list()
    [0.0, 0.0, 2.0]
    """
    if isinstance(lowest, bool) or not isinstance(lowest, (int, float)):
        message = f"`lowest` must be a number, the lowest label with a gain; found {lowest!r}"
        raise ArgumentError(message)

    def gain_from(label: pl.Expr) -> pl.Expr:
        label = _expression(label)
        return pl.when(label < lowest).then(0.0).otherwise(gain(label))

    more = "" if gain is linear else f", {getattr(gain, '__name__', gain)}"
    gain_from.__name__ = f"at_least({lowest}{more})"
    return gain_from


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
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> pl.select(pr.log2(pl.Series([1, 3]))).to_series().to_list()
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
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> pl.select(pr.log(2)(pl.Series([1, 3]))).to_series().to_list()
    [1.0, 0.5]
    """
    _check_base(base)

    def log_discount(rank: pl.Expr) -> pl.Expr:
        return math.log(base) / (_expression(rank).cast(pl.Float64) + 1).log()

    log_discount.__name__ = f"log({str(float(base)).removesuffix('.0')})"
    return log_discount


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
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> pl.select(pr.jarvelin()(pl.Series([1, 2, 4]))).to_series().to_list()
    [1.0, 1.0, 0.5]
    """
    _check_base(base)

    def jarvelin_discount(rank: pl.Expr) -> pl.Expr:
        # rank < base is written as a clip: where the rank equals the base, 1/log is 1 too.
        return math.log(base) / _expression(rank).cast(pl.Float64).clip(base).log()

    jarvelin_discount.__name__ = f"jarvelin({str(float(base)).removesuffix('.0')})"
    return jarvelin_discount


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
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> pl.select(pr.reciprocal(pl.Series([1, 4]))).to_series().to_list()
    [1.0, 0.25]
    """
    return 1 / _expression(rank).cast(pl.Float64)


def _expression(values: pl.Expr | pl.Series) -> pl.Expr:
    return pl.lit(values) if isinstance(values, pl.Series) else values


def _check_base(base: float) -> None:
    if not (isinstance(base, (int, float)) and base > 1 and math.isfinite(base)):
        message = f"`base` must be a number above 1; found {base!r}"
        raise ArgumentError(message)


#: Gains and discounts that can be given by name.
GAINS: dict[str, Gain] = {"linear": linear, "exp2": exp2}
DISCOUNTS: dict[str, Discount] = {
    "log2": log2,
    "log": log(),
    "jarvelin": jarvelin(),
    "reciprocal": reciprocal,
}
