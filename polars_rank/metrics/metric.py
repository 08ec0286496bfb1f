"""What a metric is: a function of the terms of a list, called with its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, TypeAlias, cast

import polars as pl

from polars_rank._params import is_number, threshold, whole_number
from polars_rank._polars import aliases, inner
from polars_rank.discounts import DISCOUNTS
from polars_rank.errors import ArgumentError, hint
from polars_rank.gains import GAINS, mapping
from polars_rank.metrics.documentation import completed, described, displayed
from polars_rank.metrics.terms import (
    ExpressionTerms,
    Terms,
    Value,
    as_value,
    each_of,
    is_elementwise,
    where,
)

P = ParamSpec("P")

#: What `evaluate` makes of the values of all lists; of logarithms, the geometric mean.
Aggregate: TypeAlias = Literal["mean", "sum", "geometric"]

#: What begins the name of an expression inside one that was made of a metric.
MADE_OF, SEPARATOR = "polars_rank:metric ", " & "

_CONVENTIONS = (
    "The conventions of the call decide about ties, unjudged documents and undefined lists: "
    "`pr.explain` puts them into words."
)


class Definition(Protocol[P]):
    """A function that makes a metric, and what is known of all metrics that it makes."""

    __name__: str
    function: Callable[..., Value]
    low: float | None
    high: float | None
    perfect: float | None
    aggregate: Aggregate
    undefined: str | None
    skipped: bool
    lower_is_better: bool

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Metric:
        """Return the metric with these parameters."""

    def on(self, t: Terms, *args: P.args, **kwargs: P.kwargs) -> Value:
        """Return its value, as a part of another metric."""


#: Every function made by `@metric`, by name.
REGISTER: dict[str, Definition[...]] = {}


class _OwnNames(type(pl.Expr)):  # type: ignore[misc]
    """Lists the names of a class itself, so that `help(pr.Metric)` leaves out those of Expr."""

    def __dir__(cls) -> list[str]:
        return [*vars(cls)]


class Metric(pl.Expr, metaclass=_OwnNames):
    """A metric: an expression over the ranked table that knows its own name and parameters.

    It can stand wherever an expression can. `str(metric)` is the name that `evaluate` reads
    back into the same metric, as long as its parameters can be written down. Metrics and numbers
    added, subtracted, multiplied and divided are metrics again. `evaluate` adds up counts, such as
    `pr.num_retrieved()`, also where they are added, subtracted or scaled by a number; of their
    products and quotients, as of other metrics, it takes the mean over lists. Alone in a cell of a
    notebook a metric shows its formula, parameters and source.
    """

    def __init__(
        self,
        function: Callable[..., Value],
        arguments: Mapping[str, Any],
        alias: str | None = None,
    ) -> None:
        self.function = function
        self.arguments = dict(arguments)
        #: The metrics that this one is made of; none for one of the catalog.
        self.parts = [each for each in self.arguments.values() if isinstance(each, Metric)]
        #: What is known of all metrics of its kind; None for one made of others.
        self.definition = None if self.parts else REGISTER.get(function.__name__)
        #: What `evaluate` makes of the values of all rankings.
        self.aggregate: Aggregate = self.definition.aggregate if self.definition else "mean"
        if self.parts and not self._is_ratio():
            self.aggregate = self.parts[0].aggregate
        self.output_name = alias or str(self)
        if not self.parts and self.definition is None:
            self.value(ExpressionTerms())  # raises for terms that evaluations cannot handle

    def _is_ratio(self) -> bool:
        """Return whether it is a product or a quotient of metrics, which does not add up.

        Sums that are added, subtracted or scaled by a number are sums. A quotient of sums, such as
        a share, is a number of each ranking: its mean is taken.
        """
        several = self.function in (_multiply, _divide) and len(self.parts) > 1
        return several or (self.function is _divide and isinstance(self.arguments["right"], Metric))

    @property
    def _pyexpr(self) -> Any:  # type: ignore[override]
        """The expression of Polars, built when the metric is used as one."""
        marked = MADE_OF + SEPARATOR.join(map(str, self.leaves))
        plain = self.value(ExpressionTerms()).expr.alias(marked)
        return inner(plain.alias(self.output_name))

    def value(self, t: Terms) -> Value:
        """Return the value of one list, of terms by which it is to be evaluated."""
        made = {
            key: argument.value(t) if isinstance(argument, Metric) else argument
            for key, argument in self.arguments.items()
        }
        return as_value(self.function(t, **made))

    def __reduce__(self) -> tuple[Any, ...]:
        # A user's own definition registers itself where its module is imported, or else here.
        definition = REGISTER.get(self.function.__name__)
        registered = definition is not None and definition.function is self.function
        made_by = definition if registered else self.function
        return _rebuilt, (made_by, self.arguments, self.output_name)

    @property
    def leaves(self) -> list[Metric]:
        """The metrics of the catalogue that this one is made of, or itself."""
        return [leaf for part in self.parts for leaf in part.leaves] or [self]

    def with_leaves(self, change: Callable[[Metric], Metric]) -> Metric:
        """Return the same metric, under the same name, with its leaves changed."""
        if not self.parts:
            return change(self)
        arguments = {
            key: each.with_leaves(change) if isinstance(each, Metric) else each
            for key, each in self.arguments.items()
        }
        return Metric(self.function, arguments, self.output_name)

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value is better; of a metric made of others it is not known, so False."""
        return self.definition is not None and self.definition.lower_is_better

    def alias(self, name: str) -> Metric:
        """Return the same metric under another column name."""
        return Metric(self.function, self.arguments, name)

    def but(self, **parameters: Any) -> Metric:
        """Return the same metric, under the same name, with other parameters."""
        checked = {key: _checked(key, value) for key, value in parameters.items()}
        return Metric(self.function, {**self.arguments, **checked}, self.output_name)

    def at(self, k: int) -> Metric:
        """Return the same metric with the cutoff k."""
        if self.parts or "k" not in _signature(self.function).parameters:
            message = f"{self} has no cutoff"
            raise ArgumentError(message)
        return Metric(self.function, {**self.arguments, "k": whole_number("k", k)})

    def __str__(self) -> str:
        if self.parts:
            return _FORMS[self.function].format(**self.arguments)
        arguments = _without_defaults(self.arguments, _signature(self.function))
        k = arguments.pop("k", None)
        given = ", ".join(f"{key}={written(value)}" for key, value in arguments.items())
        name = self.function.__name__
        return f"{name}{f'({given})' if given else ''}{f'@{k}' if k is not None else ''}"

    def __repr__(self) -> str:
        return f"<Metric {self}>"

    def _repr_html_(self) -> None:  # type: ignore[override]
        """Leave it to Markdown: the expression itself is a wall of text."""

    def _repr_markdown_(self) -> str:
        """Return name, definition, formula and parameters, for a notebook."""
        leaves = {str(leaf): leaf for leaf in self.leaves}.values()
        whole = [f"`{self}` is made of"] if self.parts else []
        return "\n\n".join([*whole, *map(_shown, leaves), _CONVENTIONS])

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)

    # Arithmetic with metrics and numbers; with anything else it is that of plain expressions.

    def __add__(self, other: Any) -> Any:
        return _combined(_add, self, other, super().__add__)

    def __radd__(self, other: Any) -> Any:
        return _combined(_add, other, self, super().__radd__)

    def __sub__(self, other: Any) -> Any:
        return _combined(_subtract, self, other, super().__sub__)

    def __rsub__(self, other: Any) -> Any:
        return _combined(_subtract, other, self, super().__rsub__)

    def __mul__(self, other: Any) -> Any:
        return _combined(_multiply, self, other, super().__mul__)

    def __rmul__(self, other: Any) -> Any:
        return _combined(_multiply, other, self, super().__rmul__)

    def __truediv__(self, other: Any) -> Any:
        return _combined(_divide, self, other, super().__truediv__)

    def __rtruediv__(self, other: Any) -> Any:
        return _combined(_divide, other, self, super().__rtruediv__)

    def __neg__(self) -> Any:
        return _combined(_subtract, 0, self, super().__add__)

    def fill_null(self, value: Any = None, strategy: Any = None, limit: int | None = None) -> Any:
        """Return the metric with a number where it is null."""
        if strategy is None and limit is None and is_number(value):
            return Metric(_fill_null, {"left": self, "right": value}, self.output_name)
        return super().fill_null(value, strategy, limit)

    def round(self, decimals: int = 0, mode: Any = "half_to_even") -> Metric:
        """Return the metric rounded."""
        made = {"metric": self, "decimals": decimals, "mode": mode}
        return Metric(_round, made, self.output_name)

    def cast(self, dtype: Any, *, strict: bool = True, wrap_numerical: bool = False) -> Metric:
        """Return the metric as another type."""
        made = {"metric": self, "dtype": dtype, "strict": strict, "wrap": wrap_numerical}
        return Metric(_cast, made, self.output_name)


def metric(
    *,
    low: float | None = 0,
    high: float | None = 1,
    perfect: float | None = None,
    aggregate: Aggregate = "mean",
    undefined: str | None = None,
    skipped: bool = False,
    lower_is_better: bool = False,
) -> Callable[[Callable[Concatenate[Terms, P], Value]], Definition[P]]:
    """Make a metric of a function of the terms of a list.

    Parameters
    ----------
    low, high
        The range of values on labels that are not negative; None where there is no bound.
    perfect
        The value for a list in ideal order with all that is relevant; None where it varies.
    aggregate
        What `evaluate` makes of the values of all lists.
    undefined
        For which lists it is null, in words that follow "where"; None if for none.
    skipped
        Whether those lists are left out of the mean unless the call says otherwise.
    lower_is_better
        Whether a run with a lower value is the better one.
    """

    def decorate(function: Callable[Concatenate[Terms, P], Value]) -> Definition[P]:
        signature = _signature(function)
        known: list[Any] = []

        def arguments(*args: Any, **kwargs: Any) -> dict[str, Any]:
            given = signature.bind(*args, **kwargs).arguments
            return {key: _checked(key, value) for key, value in given.items()}

        @wraps(function)
        def build(*args: P.args, **kwargs: P.kwargs) -> Metric:
            metric = Metric(function, arguments(*args, **kwargs))
            if not known or not metric.arguments.keys() <= _CHECKED.keys():
                # The definition itself checks its own parameters and the terms that it reads.
                metric.value(ExpressionTerms())
                known.append(function)
            return metric

        if function.__doc__:  # without docstrings (python -OO) there is nothing to complete
            build.__doc__ = completed(inspect.getdoc(function) or "", signature)
        build.__signature__ = signature.replace(return_annotation=Metric)  # type: ignore[attr-defined]
        vars(build).update(
            function=function,
            on=function,
            low=low,
            high=high,
            perfect=perfect,
            aggregate=aggregate,
            undefined=undefined,
            skipped=skipped,
            lower_is_better=lower_is_better,
        )
        if function.__name__ in REGISTER:
            message = f"there are two metrics {function.__name__!r}; give one of them another name"
            raise ArgumentError(message)
        REGISTER[function.__name__] = cast("Definition[...]", build)
        return cast("Definition[P]", build)

    return decorate


def written(value: Any) -> str:
    """Write a parameter as it stands in the name of a metric."""
    for name, function in (*GAINS.items(), *DISCOUNTS.items()):
        if value is function or value == function:
            return repr(name)
    return getattr(value, "__name__", None) or repr(value)


def parameters_of(metric: Metric | Definition[...]) -> dict[str, Any]:
    """Return the parameters that a metric of the catalogue takes, with their defaults."""
    return {key: each.default for key, each in _signature(metric.function).parameters.items()}


def made_of(expression: pl.Expr) -> list[str]:
    """Return the names of the metrics that a plain expression was made of."""
    return [name for names in aliases(expression, MADE_OF) for name in names.split(SEPARATOR)]


def _rebuilt(made_by: Any, arguments: Mapping[str, Any], name: str) -> Metric:
    """Return a metric as it was, from its definition or, if it is made of others, its function."""
    if not hasattr(made_by, "function"):
        return Metric(made_by, arguments, name)
    REGISTER[made_by.__name__] = made_by
    return Metric(made_by.function, arguments, name)


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a metric as it is called: without the terms."""
    signature = inspect.signature(function)
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def _shown(metric: Metric) -> str:
    """Write down in Markdown what a metric of the catalogue is."""
    alias = "" if metric.output_name == str(metric) else f" as `{metric.output_name}`"
    name = f"`{metric}`{alias}"
    if metric.definition is None or not metric.definition.__doc__:
        return name
    said = described(metric.definition)
    values = {**parameters_of(metric), **metric.arguments}
    parts = [
        f"{name}: {said.definition}",
        displayed(said.formula) if said.formula else "",
        said.letters,
        said.values,
        "\n".join(
            ": ".join(filter(None, [f"- `{key} = {written(value)}`", said.parameters.get(key)]))
            for key, value in values.items()
        ),
        f"Source: {said.source}" if said.source else "",
    ]
    return "\n\n".join(part for part in parts if part)


def _gain(value: Any) -> Any:
    return mapping(value) if isinstance(value, Mapping) else _function("gain", value, GAINS)


#: Parameters of many metrics, and what checks their values.
_CHECKED: dict[str, Callable[[Any], Any]] = {
    "k": lambda value: None if value is None else whole_number("k", value),
    "rel": lambda value: None if value is None else threshold("rel", value),
    "gain": _gain,
    "discount": lambda value: _function("discount", value, DISCOUNTS),
}


def _checked(key: str, value: Any) -> Any:
    return _CHECKED[key](value) if key in _CHECKED else value


def _function(key: str, value: Any, named: Mapping[str, Callable[..., pl.Expr]]) -> Any:
    if isinstance(value, str) and value in named:
        return named[value]
    if callable(value):
        known = any(value is each for each in named.values())
        if not known and not is_elementwise(value(pl.col("value"))):
            message = (
                f"`{key}` must give a value for each document that depends on that document only; "
                f"found {value!r}"
            )
            raise ArgumentError(message, key)
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


def _combined(
    function: Callable[..., Value], left: Any, right: Any, plain: Callable[[Any], pl.Expr]
) -> pl.Expr:
    """Return the metric made of two metrics or numbers; with anything else, what Polars makes."""
    both = {"left": left, "right": right}
    others = [each for each in both.values() if not isinstance(each, Metric)]
    if not all(map(is_number, others)):
        return plain(*others)
    if function is _divide and not isinstance(right, Metric) and right == 0:
        message = f"{left} is divided by 0; divide by another number"
        raise ArgumentError(message)
    kinds = {each.aggregate for each in both.values() if isinstance(each, Metric)}
    if len(kinds) > 1 or "geometric" in kinds:
        message = (
            f"{left} and {right} are put together differently over lists ({', '.join(kinds)}); "
            "evaluate them apart, and combine the results"
        )
        raise ArgumentError(message)
    return Metric(function, both)


def _add(_: Terms, left: Any, right: Any) -> Value:
    return left + right  # type: ignore[no-any-return]


def _subtract(_: Terms, left: Any, right: Any) -> Value:
    return left - right  # type: ignore[no-any-return]


def _multiply(_: Terms, left: Any, right: Any) -> Value:
    return left * right  # type: ignore[no-any-return]


def _divide(_: Terms, left: Any, right: Any) -> Value:
    quotient: Value = left / right
    if isinstance(right, Value):  # null, as every metric is where it is undefined; never NaN
        return where(each_of(lambda divisor: divisor != 0, right), quotient)
    return quotient


def _fill_null(_: Terms, left: Any, right: Any) -> Value:
    return left.fill_null(right)  # type: ignore[no-any-return]


def _round(_: Terms, metric: Any, decimals: int, mode: Any) -> Value:
    return each_of(lambda value: value.round(decimals, mode=mode), metric)


def _cast(_: Terms, metric: Any, dtype: Any, *, strict: bool, wrap: bool) -> Value:
    return each_of(lambda value: value.cast(dtype, strict=strict, wrap_numerical=wrap), metric)


#: How metrics that are made of others are written.
_FORMS: dict[Callable[..., Value], str] = {
    _add: "({left} + {right})",
    _subtract: "({left} - {right})",
    _multiply: "({left} * {right})",
    _divide: "({left} / {right})",
    _fill_null: "{left}.fill_null({right})",
    _round: "{metric}.round({decimals})",
    _cast: "{metric}.cast({dtype})",
}
