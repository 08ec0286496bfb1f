"""Checks of parameters: what a value must be, and the error that says so."""

from __future__ import annotations

import math
from operator import index
from typing import Any

from polars_rank.errors import ArgumentError, hint

#: The most documents that Polars can number in one list.
_LARGEST = 2**32 - 1


def one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise `ArgumentError` unless `value` is among those allowed."""
    if not any(value is choice or (type(value) is str and value == choice) for choice in allowed):
        choices = ", ".join(map(repr, allowed))
        close = hint(str(value), [str(choice) for choice in allowed])
        message = f"`{name}` must be one of {choices}; found {value!r}.{close}"
        raise ArgumentError(message)


def is_number(value: object) -> bool:
    """Return whether a value is a finite number that Float64 can hold."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number above all floats
        return False


def number(name: str, value: Any, what: str = "") -> float:
    """Return a finite number; raise `ArgumentError` for anything else, saying what it is."""
    if not is_number(value):
        message = f"`{name}` must be a number{what and f', {what}'}; found {value!r}"
        raise ArgumentError(message)
    return float(value)


def share(name: str, value: float, low: float = 0, high: float = 1) -> None:
    """Raise `ArgumentError` unless `value` is a number strictly between `low` and `high`."""
    if not is_number(value) or not low < value < high:
        message = f"`{name}` must be a number between {low} and {high}; found {value!r}"
        raise ArgumentError(message)


def positive(name: str, value: float) -> None:
    """Raise `ArgumentError` unless `value` is a finite number above 0."""
    if not is_number(value) or not value > 0:
        message = f"`{name}` must be a number above 0; found {value!r}"
        raise ArgumentError(message)


def threshold(name: str, value: float) -> float:
    """Return the lowest relevant label; raise `ArgumentError` unless it is a finite number."""
    number(name, value, "the lowest relevant label")
    return value


def whole_number(name: str, value: Any) -> int:
    """Return a cutoff; raise `ArgumentError` unless it is a positive whole number."""
    whole = hasattr(value, "__index__") and not isinstance(value, bool)
    if not whole or not 1 <= index(value) <= _LARGEST:
        message = f"`{name}` must be a whole number from 1 to {_LARGEST}; found {value!r}"
        if not whole or index(value) < 1:
            message = f"`{name}` must be a positive whole number; found {value!r}"
        raise ArgumentError(message)
    return index(value)
