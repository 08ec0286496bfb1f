"""Gains: what a label is worth, as functions from an expression to an expression."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import polars as pl

from polars_rank._params import is_number, number
from polars_rank.errors import ArgumentError

__all__ = [
    "at_least",
    "exp2",
    "linear",
    "mapping",
]

#: A function, or what becomes one before a metric sees it: a name, or a mapping of grades.
Gain: TypeAlias = "Callable[[pl.Expr], pl.Expr] | Any"


#: What is wrong with a label → whether it is, for labels as Float64.
Refusals: TypeAlias = Mapping[str, Callable[[pl.Expr], pl.Expr]]


#: Above this grade, 2^label - 1 says nothing but "the highest label wins".
LARGEST_EXP2_LABEL = 50


def refusals(gain: Gain) -> Refusals:
    """Return which labels a gain refuses, and why: what it says itself in `refuses`."""
    found: Refusals = getattr(gain, "refuses", {})
    return found


def of_whole(gain: Gain) -> Gain | None:
    """Return the same gain of labels that are whole numbers, where there is a faster form."""
    found: Gain | None = getattr(gain, "of_whole", None)
    return found


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
    >>> pl.select(pr.gains.linear(pl.Series([0, 2, -1]))).to_series().to_list()
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
    >>> pl.select(pr.gains.exp2(pl.Series([0, 1, 4]))).to_series().to_list()
    [0.0, 1.0, 15.0]
    """
    return pl.lit(2.0).pow(_expression(label).cast(pl.Float64)) - 1


def _exp2_of_whole(label: pl.Expr) -> pl.Expr:
    # A power of two is nothing but the exponent of a float: several times faster than pow.
    exponent = label.cast(pl.Int64).clip(-1022, 1023) + 1023
    return (exponent * 2**52).reinterpret(dtype=pl.Float64) - 1


#: Whole numbers for whole labels, of few enough digits that sums of many are exact.
vars(linear)["whole"] = True


vars(exp2)["of_whole"] = _exp2_of_whole


vars(exp2)["refuses"] = {
    f"above {LARGEST_EXP2_LABEL}, too large for the gain 'exp2' (2^label - 1); "
    "use gain='linear' or a mapping {grade: gain}": lambda label: label > LARGEST_EXP2_LABEL
}


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
    >>> gain = pr.gains.mapping({0: 0, 1: 3, 2: 10})
    >>> pl.select(gain(pl.Series([2, 0, 1]))).to_series().to_list()
    [10.0, 0.0, 3.0]
    """
    if not gains:
        message = "`gain` must map at least one grade to a gain; found an empty mapping"
        raise ArgumentError(message, "gain")
    if not all(map(is_number, [*gains, *gains.values()])):
        message = f"`gain` must map finite grades to finite gains; found {dict(gains)!r}"
        raise ArgumentError(message, "gain")
    found = _Mapped({float(grade): float(gains[grade]) for grade in sorted(gains)}, dict(gains))
    if sorted(found.gains.values()) != list(found.gains.values()):
        message = (
            "`gain` must not fall as the grade rises, for the ideal order is by grade; "
            f"found {dict(gains)!r}"
        )
        raise ArgumentError(message, "gain")
    return found


@dataclass(frozen=True)
class _Mapped:
    gains: Mapping[float, float]
    given: Mapping[float, float] = field(compare=False)

    def __call__(self, label: pl.Expr) -> pl.Expr:
        grades, values = (
            pl.Series(each, dtype=pl.Float64) for each in zip(*self.gains.items(), strict=True)
        )
        return (
            _expression(label)
            .cast(pl.Float64)
            .replace_strict(grades, values, default=None, return_dtype=pl.Float64)
        )

    @property
    def __name__(self) -> str:
        return repr(dict(self.given))

    @property
    def refuses(self) -> Refusals:
        grades = pl.Series([*self.gains], dtype=pl.Float64).implode()
        problem = (
            f"not in the gain mapping, which has the grades {sorted(self.given)}; add the others"
        )
        return {problem: lambda label: ~label.is_in(grades)}


@dataclass(frozen=True)
class Levels:
    """Gain of some grades as trec_eval takes it: others are worth themselves, none below 0."""

    gains: tuple[tuple[float, float], ...]

    def __call__(self, label: pl.Expr) -> pl.Expr:
        """Return the gain of the label."""
        label = _expression(label).cast(pl.Float64)
        grades, values = (
            pl.Series(each, dtype=pl.Float64) for each in zip(*self.gains, strict=True)
        )
        return label.replace_strict(grades, values, default=label.clip(0), return_dtype=pl.Float64)

    @property
    def __name__(self) -> str:
        return f"Levels({self.gains})"

    @property
    def falls(self) -> bool:
        """Whether a higher grade may be worth less: the ideal order is then by gain."""
        return True


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
    >>> pl.select(pr.gains.at_least(0)(pl.Series([-1, 0, 2]))).to_series().to_list()
    [0.0, 0.0, 2.0]
    """
    number("lowest", lowest, "the lowest label with a gain")
    return _AtLeast(lowest, gain)


@dataclass(frozen=True)
class _AtLeast:
    lowest: float
    gain: Gain

    def __call__(self, label: pl.Expr) -> pl.Expr:
        return self._worth(label, self.gain)

    def _worth(self, label: pl.Expr, gain: Gain) -> pl.Expr:
        label = _expression(label)
        return pl.when(label < self.lowest).then(0.0).otherwise(gain(label))

    @property
    def __name__(self) -> str:
        more = "" if self.gain is linear else f", {getattr(self.gain, '__name__', self.gain)}"
        return f"at_least({self.lowest}{more})"

    @property
    def refuses(self) -> Refusals:
        # Labels below the lowest never reach the other gain.
        return {
            problem: partial(self._at_fault, condition)
            for problem, condition in refusals(self.gain).items()
        }

    def _at_fault(self, condition: Callable[[pl.Expr], pl.Expr], label: pl.Expr) -> pl.Expr:
        return condition(label) & (label >= self.lowest)

    @property
    def whole(self) -> bool:
        return getattr(self.gain, "whole", False)

    @property
    def of_whole(self) -> Gain | None:
        faster = of_whole(self.gain)
        return None if faster is None else lambda label: self._worth(label, faster)


@dataclass(frozen=True)
class _Logarithmic:
    kind: str
    base: float

    def __call__(self, rank: pl.Expr) -> pl.Expr:
        rank = _expression(rank).cast(pl.Float64)
        # rank < base is written as a clip: where the rank equals the base, 1/log is 1 too.
        counted = rank + 1 if self.kind == "log" else rank.clip(self.base)
        return math.log(self.base) / counted.log()

    @property
    def __name__(self) -> str:
        return f"{self.kind}({str(float(self.base)).removesuffix('.0')})"


def _expression(values: pl.Expr | pl.Series) -> pl.Expr:
    return pl.lit(values) if isinstance(values, pl.Series) else values


def _check_base(base: float) -> None:
    if not (is_number(base) and base > 1):
        message = f"`base` must be a number above 1; found {base!r}"
        raise ArgumentError(message, "base")


#: Gains and discounts that can be given by name.
GAINS: dict[str, Gain] = {"linear": linear, "exp2": exp2}


def __dir__() -> list[str]:
    return __all__
