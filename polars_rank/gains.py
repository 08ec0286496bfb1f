"""Gains: functions from an expression of labels to an expression of gains."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, TypeAlias

import polars as pl

from polars_rank._params import is_number, number, public, scalar
from polars_rank.errors import ArgumentError, hint, short

__all__ = [
    "at_least", "binary", "exp2", "linear", "mapping",
]  # fmt: skip

#: A function, or a name or a mapping of grades that is converted to a function. The function may
#: have the attributes `refuses`, the messages and conditions of labels that it rejects; `of_whole`,
#: a faster form for integer labels; and `whole`, whether gains of integer labels are integers,
#: small enough for exact sums.
Gain: TypeAlias = "Callable[[pl.Expr], pl.Expr] | Any"


#: Messages about invalid labels, and the conditions for labels as Float64.
Refusals: TypeAlias = Mapping[str, Callable[[pl.Expr], pl.Expr]]


#: Above this label, 2^label - 1 is so large that only the highest label matters.
LARGEST_EXP2_LABEL = 50


@public
def linear(label: pl.Expr) -> pl.Expr:
    """Return the label as gain; negative labels are penalties.

    Examples
    --------
    >>> pl.select(pr.gains.linear(pl.Series([0, 2, -1]))).to_series().to_list()
    [0.0, 2.0, -1.0]

    Parameters
    ----------
    label
        Label, of any numeric type.

    Returns
    -------
    pl.Expr
        Float64; null if the label is null.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.
    """
    return label.cast(pl.Float64)


@public
def exp2(label: pl.Expr) -> pl.Expr:
    """Return the gain 2^label - 1, which emphasizes high labels.

    Examples
    --------
    >>> pl.select(pr.gains.exp2(pl.Series([0, 1, 4]))).to_series().to_list()
    [0.0, 1.0, 15.0]

    Parameters
    ----------
    label
        Label, of any numeric type. An evaluation raises `DataError` for labels above 50.

    Returns
    -------
    pl.Expr
        Float64; null if the label is null.

    References
    ----------
    Burges et al., Learning to rank using gradient descent, 2005.
    """
    return pl.lit(2.0).pow(label.cast(pl.Float64)) - 1


@public
def binary(label: pl.Expr) -> pl.Expr:
    """Return the gain 1 for labels of 1 or more, and 0 for other labels.

    Examples
    --------
    >>> pl.select(pr.gains.binary(pl.Series([0, 1, 4]))).to_series().to_list()
    [0.0, 1.0, 1.0]

    Parameters
    ----------
    label
        Label, of any numeric type.

    Returns
    -------
    pl.Expr
        Float64; null if the label is null.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.
    """
    return (label >= 1).cast(pl.Float64)


def _exp2_of_whole(label: pl.Expr) -> pl.Expr:
    # Setting the exponent bits of a float is several times faster than pow.
    exponent = label.cast(pl.Int64).clip(-1022, 1023) + 1023
    return (exponent * 2**52).reinterpret(dtype=pl.Float64) - 1


vars(linear).update(whole=True, of_whole=linear)
vars(binary).update(whole=True, of_whole=binary)


vars(exp2)["of_whole"] = _exp2_of_whole


vars(exp2)["refuses"] = {
    f"above {LARGEST_EXP2_LABEL}, too large for the gain 'exp2' (2^label - 1); "
    "use gain='linear' or a mapping {grade: gain}": lambda label: label > LARGEST_EXP2_LABEL
}


@public
def mapping(gains: Mapping[float, float]) -> Gain:
    """Return a gain function from a mapping of grades to gains.

    Examples
    --------
    >>> gain = pr.gains.mapping({0: 0, 1: 3, 2: 10})
    >>> pl.select(gain(pl.Series([2, 0, 1]))).to_series().to_list()
    [10.0, 0.0, 3.0]

    Parameters
    ----------
    gains
        Gain of each grade; integers may be text, as the keys of a TOML file. Gains must not
        decrease as grades increase, because the ideal order is by label. An evaluation raises
        `DataError` for a label that is not in the mapping.

    Returns
    -------
    Gain
        A function of the label, usable as `gain`.

    Raises
    ------
    ArgumentError
        If the mapping is empty, has values that are not finite numbers, or has decreasing gains.
    """
    return _mapped("gains", gains)


def _mapped(parameter: str, given: Mapping[Any, float]) -> Gain:
    gains = {_grade(grade): scalar(gain) for grade, gain in given.items()}
    if not gains or not all(map(is_number, [*gains, *gains.values()])):
        raise ArgumentError(
            f"must map finite grades to finite gains; found {short(given)}", parameter
        )
    levels = tuple((float(grade), float(gains[grade])) for grade in sorted(gains))
    worths = [worth for _, worth in levels]
    if sorted(worths) != worths:
        raise ArgumentError(
            f"must not decrease as the grade increases, because the ideal order is "
            f"by grade; found {short(given)}",
            parameter,
        )
    return _Mapped(levels, repr(gains))


def _grade(grade: Any) -> Any:
    """Return a grade as a number if it is written in digits, as keys of TOML are."""
    if isinstance(grade, str) and re.fullmatch(r"-?[0-9]{1,15}", grade):
        return int(grade)
    return scalar(grade)


def _replaced(
    label: pl.Expr, levels: tuple[tuple[float, float], ...], default: pl.Expr | None
) -> pl.Expr:
    """Return the gains of labels, and the default for other labels."""
    grades, gains = (pl.Series(each, dtype=pl.Float64) for each in zip(*levels, strict=True))
    return label.replace_strict(grades, gains, default=default, return_dtype=pl.Float64)


@dataclass(frozen=True)
class _Mapped:
    gains: tuple[tuple[float, float], ...]
    written: str = field(compare=False)

    @property
    def __name__(self) -> str:
        return self.written

    def __call__(self, label: pl.Expr) -> pl.Expr:
        return _replaced(label.cast(pl.Float64), self.gains, None)

    @property
    def refuses(self) -> Refusals:
        shown = [int(grade) if grade.is_integer() else grade for grade, _ in self.gains]
        problem = f"not in the gain mapping of the grades {shown}; add these labels"
        return {problem: lambda label: label.is_not_null() & self(label).is_null()}


@dataclass(frozen=True)
class Levels:
    """Gain of some grades, as in trec_eval; the gain of other labels is the label, at least 0."""

    gains: tuple[tuple[float, float], ...]
    #: Gains can decrease as grades increase; then the ideal order is by gain.
    falls: ClassVar[bool] = True

    def __call__(self, label: pl.Expr) -> pl.Expr:
        label = label.cast(pl.Float64)
        return _replaced(label, self.gains, label.clip(0))

    @property
    def __name__(self) -> str:
        return f"Levels({self.gains})"


@public
def at_least(lowest: float, gain: Gain = linear) -> Gain:
    """Return a gain function that is 0 for labels below a threshold.

    Examples
    --------
    >>> pl.select(pr.gains.at_least(0)(pl.Series([-1, 0, 2]))).to_series().to_list()
    [0.0, 0.0, 2.0]

    Parameters
    ----------
    lowest
        Lowest label with a gain. With 0, negative labels are no penalties, as in trec_eval.
    gain
        Gain function, or its name, for labels of `lowest` or above.

    Returns
    -------
    Gain
        A function of the label, usable as `gain`; null if the label is null.

    Raises
    ------
    ArgumentError
        If `lowest` is not a number, or `gain` is not a gain function.
    """
    number("lowest", lowest, "the lowest label with a gain")
    return _AtLeast(lowest, gain_of(gain))


@dataclass(frozen=True)
class _AtLeast:
    lowest: float
    gain: Gain

    def __call__(self, label: pl.Expr) -> pl.Expr:
        return self._applied(label, self.gain)

    def _applied(self, label: pl.Expr, gain: Gain) -> pl.Expr:
        return pl.when(label < self.lowest).then(0.0).otherwise(gain(label))

    @property
    def __name__(self) -> str:
        name = "" if self.gain is linear else f", {getattr(self.gain, '__name__', self.gain)}"
        return f"at_least({self.lowest}{name})"

    @property
    def refuses(self) -> Refusals:
        # The gain function is not applied to labels below the lowest.
        return {
            problem: partial(self._is_refused, condition)
            for problem, condition in getattr(self.gain, "refuses", {}).items()
        }

    def _is_refused(self, condition: Callable[[pl.Expr], pl.Expr], label: pl.Expr) -> pl.Expr:
        return condition(label) & (label >= self.lowest)

    @property
    def whole(self) -> bool:
        return getattr(self.gain, "whole", False)

    @property
    def of_whole(self) -> Gain | None:
        faster = getattr(self.gain, "of_whole", None)
        return None if faster is None else lambda label: self._applied(label, faster)


#: Gains that can be given by name.
GAINS: dict[str, Gain] = {"linear": linear, "exp2": exp2, "binary": binary}


def gain_of(value: Any) -> Gain:
    """Return the gain function of a name, a mapping, or a function."""
    if isinstance(value, Mapping):
        return _mapped("gain", value)
    return function_of("gain", value, GAINS, "a mapping {grade: gain}, ")


def function_of(
    parameter: str, value: Any, named: Mapping[str, Callable[[pl.Expr], pl.Expr]], others: str = ""
) -> Callable[[pl.Expr], pl.Expr]:
    """Return the function of a name, or a function; raise `ArgumentError` for anything else.

    `others` is what the error names in addition.
    """
    if isinstance(value, str) and value in named:
        return named[value]
    if callable(value) and not isinstance(value, type):
        return value  # type: ignore[no-any-return]
    choices = ", ".join(map(repr, named))
    close = hint(value, named) if isinstance(value, str) else ""
    raise ArgumentError(
        f"must be {choices}, {others}or a function from an expression to an expression; "
        f"found {short(value)}.{close}",
        parameter,
    )


def __dir__() -> list[str]:
    return __all__
