"""What a metric is: a function of the ranked table's columns, called with its parameters."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import wraps
from operator import index
from typing import Any, Literal, ParamSpec, TypeAlias

import polars as pl

from polars_rank.errors import ArgumentError, hint
from polars_rank.gain import DISCOUNTS, GAINS, mapping

P = ParamSpec("P")

#: What `evaluate` makes of the values of all lists; of logarithms, the geometric mean.
Aggregate: TypeAlias = Literal["mean", "sum", "geometric"]

#: Every function made by `@metric`, by name.
REGISTER: dict[str, Callable[..., Metric]] = {}


class Metric(pl.Expr):
    """A metric: an expression over the ranked table that knows its own name and parameters.

    It can stand wherever an expression can. `str(metric)` is the name that `evaluate` reads
    back into the same metric, as long as its parameters can be written down.
    """

    def __init__(
        self, function: Callable[..., pl.Expr], arguments: Mapping[str, Any], alias: str | None
    ) -> None:
        self.function = function
        self.arguments = dict(arguments)
        self.output_name = alias or str(self)
        self._pyexpr = self.lowered()._pyexpr

    def lowered(self) -> pl.Expr:
        """Return the plain expression; inside an evaluation, the one that shares its terms."""
        return self.function(**self.arguments).alias(self.output_name)

    def alias(self, name: str) -> Metric:
        """Return the same metric under another column name."""
        return Metric(self.function, self.arguments, name)

    def with_defaults(self, parameters: Mapping[str, Any]) -> Metric:
        """Return the same metric, under the same name, with other defaults."""
        checked = {key: _checked(key, value) for key, value in parameters.items()}
        return Metric(self.function, {**checked, **self.arguments}, self.output_name)

    def but(self, **parameters: Any) -> Metric:
        """Return the same metric, under the same name, with other parameters."""
        return Metric(self.function, {**self.arguments, **parameters}, self.output_name)

    @property
    def aggregate(self) -> Aggregate:
        """What `evaluate` makes of the values of all lists."""
        found: Aggregate = getattr(REGISTER.get(self.function.__name__), "aggregate", "mean")
        return found

    def at(self, k: int) -> Metric:
        """Return the same metric with the cutoff k."""
        if "k" not in inspect.signature(self.function).parameters:
            message = f"{self.function.__name__} has no cutoff"
            raise ArgumentError(message)
        return Metric(self.function, {**self.arguments, "k": whole_number("k", k)}, None)

    def __str__(self) -> str:
        arguments = _without_defaults(self.arguments, inspect.signature(self.function))
        k = arguments.pop("k", None)
        written = ", ".join(f"{key}={_written(value)}" for key, value in arguments.items())
        name = self.function.__name__
        return f"{name}{f'({written})' if written else ''}{f'@{k}' if k is not None else ''}"

    def __repr__(self) -> str:
        return f"<Metric {self}>"


def metric(
    *,
    low: float | None = 0,
    high: float | None = 1,
    perfect: float | None = None,
    aggregate: Aggregate = "mean",
) -> Callable[[Callable[P, pl.Expr]], Callable[P, Metric]]:
    """Make a metric of a function that returns an expression over the ranked table.

    Parameters
    ----------
    low, high
        The range of values on labels that are not negative; None where there is no bound.
    perfect
        The value for a list in ideal order with all that is relevant; None where it varies.
    aggregate
        What `evaluate` makes of the values of all lists.
    """

    def decorate(function: Callable[P, pl.Expr]) -> Callable[P, Metric]:
        signature = inspect.signature(function)

        @wraps(function)
        def build(*args: P.args, **kwargs: P.kwargs) -> Metric:
            given = signature.bind(*args, **kwargs).arguments
            checked = {key: _checked(key, value) for key, value in given.items()}
            return Metric(function, checked, None)

        build.bounds = (low, high)  # type: ignore[attr-defined]
        build.perfect = perfect  # type: ignore[attr-defined]
        build.aggregate = aggregate  # type: ignore[attr-defined]
        REGISTER[function.__name__] = build
        return build

    return decorate


def one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    """Raise `ArgumentError` unless `value` is among those allowed."""
    if value not in allowed:
        choices = ", ".join(map(repr, allowed))
        close = hint(str(value), [str(choice) for choice in allowed])
        message = f"`{name}` must be one of {choices}; found {value!r}.{close}"
        raise ArgumentError(message)


def share(name: str, value: float, low: float = 0, high: float = 1) -> None:
    """Raise `ArgumentError` unless `value` is a number strictly between `low` and `high`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low < value < high:
        message = f"`{name}` must be a number between {low} and {high}; found {value!r}"
        raise ArgumentError(message)


def positive(name: str, value: float) -> None:
    """Raise `ArgumentError` unless `value` is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        message = f"`{name}` must be a number above 0; found {value!r}"
        raise ArgumentError(message)


def threshold(name: str, value: float) -> float:
    """Return the lowest relevant label; raise `ArgumentError` unless it is a finite number."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        message = f"`{name}` must be a number, the lowest relevant label; found {value!r}"
        raise ArgumentError(message)
    return value


def whole_number(name: str, value: Any) -> int:
    """Return a cutoff; raise `ArgumentError` unless it is a positive whole number."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or value < 1:
        message = f"`{name}` must be a positive whole number; found {value!r}"
        raise ArgumentError(message)
    return index(value)


def ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return part / whole; null, not NaN, where the whole is not above 0."""
    return pl.when(whole > 0).then(part / whole)


def _checked(key: str, value: Any) -> Any:
    if key == "k":
        return value if value is None else whole_number("k", value)
    if key == "rel":
        return value if value is None else threshold("rel", value)
    if key == "gain":
        return mapping(value) if isinstance(value, Mapping) else _function(key, value, GAINS)
    if key == "discount":
        return _function(key, value, DISCOUNTS)
    return value


def _function(key: str, value: Any, named: Mapping[str, Callable[..., pl.Expr]]) -> Any:
    if isinstance(value, str) and value in named:
        return named[value]
    if callable(value):
        return value
    choices = ", ".join(map(repr, named))
    message = f"`{key}` must be {choices} or a function Expr -> Expr; found {value!r}."
    raise ArgumentError(message + hint(str(value), named))


def _without_defaults(arguments: dict[str, Any], signature: inspect.Signature) -> dict[str, Any]:
    return {
        key: value
        for key, value in arguments.items()
        if value is not signature.parameters[key].default
        and value != signature.parameters[key].default
    }


def _written(value: Any) -> str:
    for name, function in (*GAINS.items(), *DISCOUNTS.items()):
        if value is function:
            return repr(name)
    return getattr(value, "__name__", None) or repr(value)
