"""Metrics: functions that return trees of terms, called with their parameters."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping
from functools import cache, cached_property, wraps
from typing import Any, Literal, ParamSpec, Protocol, TypeAlias, cast, get_args

import polars as pl

from polars_rank._params import (
    arguments_of,
    is_number,
    number,
    one_of,
    public,
    threshold,
    whole_number,
)
from polars_rank._polars import inner
from polars_rank.discounts import DISCOUNTS
from polars_rank.errors import ArgumentError, short
from polars_rank.frames.plans import IMMUTABLE, PLANS
from polars_rank.gains import GAINS, function_of, gain_of
from polars_rank.metrics.analyses import check_elementwise, check_functions
from polars_rank.metrics.documentation import completed
from polars_rank.metrics.expressions import expression
from polars_rank.metrics.nodes import UserExpression, Value
from polars_rank.metrics.nodes import described as found
from polars_rank.metrics.vocabulary import where

P = ParamSpec("P")

#: How `evaluate` aggregates the values of all rankings; "geometric" is for logarithms.
Aggregate: TypeAlias = Literal["mean", "sum", "geometric"]

#: What follows the name of a metric whose undefined values are replaced, and the methods that keep
#: sums of counts sums.
FILLED, _ADDITIVE = ".fill_null(", (None, "cast", "round")

#: When the order of tied documents can change a value.
OrderMatters: TypeAlias = Literal["always", "cutoff", "never"]


class MetricFunction(Protocol[P]):
    """A function that returns a metric, with the properties of all metrics it returns."""

    __name__: str
    function: Callable[..., Value]
    low: float | None
    high: float | None
    binary: bool
    aggregate: Aggregate
    undefined: str | None
    skipped: bool
    lower_is_better: bool
    order_matters: OrderMatters
    expected: bool

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Metric:
        """Return a metric with these parameters."""

    def tree(self, *args: P.args, **kwargs: P.kwargs) -> Value:
        """Return the metric's tree, for use in another metric."""


#: All functions decorated with `@define_metric`, by name.
REGISTER: dict[str, MetricFunction[...]] = {}


#: Functions that empty caches that depend on names of metrics. They are called when a metric is
#: defined, which may have been defined before.
FORGET: list[Callable[[], None]] = [PLANS.clear]


class Metric(pl.Expr):
    """Expression over the ranked table, with a name and parameters.

    A metric can be used like any Polars expression. `str(metric)` is its name, from which
    `evaluate` creates the same metric if all parameters can be written as text.

    Sums, differences, products and quotients of metrics and numbers are metrics, and so are
    comparisons with numbers and elementwise methods, such as `m >= 0.5` and `m.clip(0, 1)`.
    `evaluate` adds up counts such as `pr.num_retrieved()`, and also their sums, differences and
    multiples. It averages all other metrics, including products and quotients of counts, over the
    rankings.
    """

    def __init__(
        self, function: Callable[..., Value], arguments: Mapping[str, Any], alias: str | None = None
    ) -> None:
        self.function = function
        self.arguments: dict[str, Any] = dict(arguments)
        #: The metrics that this metric combines; empty for a single metric.
        self.parts: list[Metric] = [
            each for each in self.arguments.values() if isinstance(each, Metric)
        ]
        #: The registered definition; None for a metric that combines others.
        self.definition: MetricFunction[...] | None = (
            None if self.parts else REGISTER.get(function.__name__)
        )
        #: How `evaluate` aggregates the values of all rankings.
        self.aggregate: Aggregate = self.definition.aggregate if self.definition else "mean"
        if self.parts and not self._is_ratio() and self.arguments.get("method") in _ADDITIVE:
            self.aggregate = self.parts[0].aggregate
        self.output_name: str = alias or str(self)
        if not self.parts and self.definition is None:
            check_functions(self.tree)

    def _is_ratio(self) -> bool:
        """Return whether the metric is a product or a quotient of metrics.

        Sums, differences and multiples of counts are counts, which `evaluate` adds up. A quotient
        of counts is a value per ranking, which `evaluate` averages.
        """
        several = self.function in (_multiply, _divide) and len(self.parts) > 1
        return several or (self.function is _divide and isinstance(self.arguments["right"], Metric))

    def _with(self, changed: Callable[[Metric], Any]) -> dict[str, Any]:
        """Return the arguments with the metrics among them changed."""
        return {
            key: changed(each) if isinstance(each, Metric) else each
            for key, each in self.arguments.items()
        }

    @property
    def expr(self) -> pl.Expr:
        """The metric as a plain expression over the ranked table, in which metrics are named."""
        if self.parts and self.function is not _fill_null:
            return expression(self.function(**self._with(lambda part: UserExpression(part.expr))))
        plain, suffix = expression(self.tree), str(self).partition(FILLED)
        for leaf in self.leaves:
            plain = plain.alias(f"{leaf}{suffix[1]}{suffix[2]}")
        return plain

    @property
    def _pyexpr(self) -> Any:  # type: ignore[override]
        """The expression in Polars' engine, built when the metric is used as an expression."""
        return inner(self.expr.alias(self.output_name))

    @cached_property
    def tree(self) -> Value:
        """The metric as a tree of nodes."""
        arguments = self._with(lambda part: part.tree)
        try:
            tree = self.function(**arguments)
        except AttributeError as error:  # Polars would replace it by one about metrics
            raise ArgumentError(
                f"the metric {self.function.__name__!r} cannot be built: {error}; use the "
                "functions and methods of pr.terms"
            ) from error
        if not isinstance(tree, Value):
            raise ArgumentError(
                f"a metric must return a value per ranking; found {found(tree)}; reduce terms to "
                "values, as in t.top(t.LABEL, 10).sum()"
            )
        return tree

    def __reduce__(self) -> tuple[Any, ...]:
        # A user's definition is registered when its module is imported, or else when unpickled.
        definition = REGISTER.get(self.function.__name__)
        registered = definition is not None and definition.function is self.function
        made_by = definition if registered else self.function
        return _rebuilt, (made_by, self.arguments, self.output_name)

    @property
    def leaves(self) -> list[Metric]:
        """The single metrics that this metric combines, or the metric itself."""
        return [leaf for part in self.parts for leaf in part.leaves] or [self]

    def with_leaves(self, change: Callable[[Metric], Metric]) -> Metric:
        """Return the metric with its leaves changed, under the same name."""
        if not self.parts:
            return change(self)
        arguments = self._with(lambda part: part.with_leaves(change))
        return Metric(self.function, arguments, self.output_name)

    def filled(self, counted: Callable[[Metric], float | None]) -> Metric:
        """Return the metric with the undefined values of its leaves replaced, under its name.

        `counted` returns the value of a leaf, or None if it stays null. `fill_null` says itself
        what the metric in it counts as.
        """
        if self.function is _fill_null:
            return self
        if self.parts:
            arguments = self._with(lambda part: part.filled(counted))
            return Metric(self.function, arguments, self.output_name)
        value = counted(self)
        return self if value is None else self.fill_null(value)

    @property
    def lower_is_better(self) -> bool:
        """Whether a lower value is better.

        Multiples, and sums of metrics that have one direction, have this direction or the opposite
        one: `1 - m` has the opposite one. False for other combinations.
        """
        return direction(self) < 0

    @property
    def binary(self) -> bool:
        """Whether all values are 0 or 1, except by `ties="expected"`; False for a combination."""
        return self.definition is not None and self.definition.binary

    def alias(self, name: str) -> Metric:
        """Return the metric with another column name."""
        return Metric(self.function, self.arguments, name)

    def but(self, **parameters: Any) -> Metric:
        """Return the metric with other parameters, under the same name."""
        checked = {key: checked_parameter(key, value) for key, value in parameters.items()}
        return Metric(self.function, {**self.arguments, **checked}, self.output_name)

    @property
    def has_cutoff(self) -> bool:
        """Whether the metric takes a cutoff k."""
        return not self.parts and "k" in parameters_of(self)

    def at(self, k: int) -> Metric:
        """Return the metric with the cutoff k."""
        if not self.has_cutoff:
            raise ArgumentError(f"{self} has no cutoff")
        return Metric(self.function, {**self.arguments, "k": whole_number("k", k)})

    def __str__(self) -> str:
        if self.function is _method_of:
            metric, method, *values = self.arguments.values()
            if method in _OPERATORS:
                return f"({metric} {_OPERATORS[method]} {values[0]})"
            return f"{metric}.{method}({', '.join(map(str, values))})"
        if self.parts:
            return _FORMS[self.function].format(**self.arguments)
        defaults = parameters_of(self)
        arguments = {
            key: value
            for key, value in self.arguments.items()
            if value is not defaults[key] and value != defaults[key]
        }
        k = arguments.pop("k", None)
        given = ", ".join(f"{key}={written(value)}" for key, value in arguments.items())
        name = self.function.__name__
        return f"{name}{f'({given})' if given else ''}{f'@{k}' if k is not None else ''}"

    def __repr__(self) -> str:
        return f"<Metric {self}>"

    def _repr_html_(self) -> None:  # type: ignore[override]
        """Return None, so that notebooks show the name instead of Polars' expression."""

    def __format__(self, specification: str) -> str:
        return format(str(self), specification)

    # Arithmetic with metrics and numbers returns metrics; with anything else, plain expressions.

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
        """Return the metric with nulls replaced; given a number, the result is a metric.

        The number is what the metric then counts as where it is undefined.
        """
        if strategy is None and limit is None and is_number(value):
            return Metric(_fill_null, {"left": self, "right": value}, self.output_name)
        return super().fill_null(value, strategy, limit)


def _elementwise_method(name: str) -> Callable[..., pl.Expr]:
    """Return a method of expressions that, given numbers, returns a metric."""
    plain = getattr(pl.Expr, name)
    parameters = inspect.signature(plain)

    @wraps(plain)
    def method(self: Metric, *args: Any, **kwargs: Any) -> pl.Expr:
        _, *given = parameters.bind(self, *args, **kwargs).arguments.items()
        if any(isinstance(value, (pl.Expr, str)) for key, value in given if key != "mode"):
            return cast("pl.Expr", plain(self, *args, **kwargs))
        made = {"metric": self, "method": name, **dict(given)}
        is_other = name in _OPERATORS or name in _OF_ANOTHER_RANGE
        return Metric(_method_of, made, None if is_other else self.output_name)

    return method


#: Methods whose values are higher if those of the metric are.
_INCREASING = ("cast", "ceil", "clip", "exp", "floor", "log10", "log1p", "round", "sign", "sqrt",
               "__gt__", "__ge__")  # fmt: skip
#: Methods whose values have another range than those of the metric, and so another name.
_OF_ANOTHER_RANGE = ("exp", "log", "log10", "log1p", "pow")
#: Operators by the names of their methods.
_OPERATORS = {"__eq__": "==", "__ne__": "!=", "__lt__": "<", "__le__": "<=", "__gt__": ">",
              "__ge__": ">=", "__pow__": "**"}  # fmt: skip
for _name in (
    *_OPERATORS, *("abs", "cast", "ceil", "clip", "exp", "floor", "log", "log10", "log1p"),
    *("pow", "round", "sign", "sqrt"),
):  # fmt: skip
    setattr(Metric, _name, _elementwise_method(_name))

IMMUTABLE.add(Metric)


@public
def define_metric(
    *,
    low: float | None = 0,
    high: float | None = 1,
    binary: bool = False,
    aggregate: Aggregate = "mean",
    undefined: str | None = None,
    skipped: bool = False,
    lower_is_better: bool = False,
    order_matters: OrderMatters = "always",
    expected: bool = True,
) -> Callable[[Callable[P, Value]], MetricFunction[P]]:
    """Return a decorator that turns a function that returns a `terms.Value` into a metric.

    The metric is known to `evaluate` by the name of the function. Its parameters `k`, `rel`, `gain`
    and `discount` are checked and described as in all metrics.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(undefined="no document is retrieved")
    ... def in_stock(k: int | None = None, *, stock: str = "stock") -> t.Value:
    ...     available = t.column(stock, "stock", kind="count") > 0
    ...     return t.ratio(t.top(available, k).count(), t.num_retrieved(k))
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": 0, "stock": [1, 0, 4],
    ... })
    >>> pr.evaluate(log, [in_stock(2), "in_stock"]).row(0)
    (1, 0.5, 0.6666666666666666)

    Parameters
    ----------
    low, high
        Range of the values if no label is negative; None for no bound.
    binary
        Whether all values are 0 or 1, except by `ties="expected"`.
    aggregate
        How `evaluate` aggregates the values of all rankings.
    undefined
        Condition under which the metric is undefined (null) for a ranking, in words that follow
        "if"; None if it never is.
    skipped
        Whether undefined rankings do not count, unless a call says otherwise. False: they count as
        0, which should be the worst value.
    lower_is_better
        Whether a lower value is better.
    order_matters
        When the order of tied documents can change the value: "always", only with a "cutoff" k,
        or "never".
    expected
        Whether `ties="expected"` is supported.

    Returns
    -------
    Callable
        A decorator, which returns a function with the same parameters that returns a `Metric`. The
        attribute `tree` of this function returns a `terms.Value`, for use in other definitions.

    Raises
    ------
    ArgumentError
        If a metric of this name exists in another module, or if the definition of a metric is
        invalid when it is called.
    """
    properties = dict(locals())
    for name, value in {"low": low, "high": high}.items():
        if value is not None:
            number(name, value)
    one_of("aggregate", aggregate, get_args(Aggregate))
    one_of("order_matters", order_matters, get_args(OrderMatters))

    def decorate(function: Callable[P, Value]) -> MetricFunction[P]:
        known: list[Any] = []

        def arguments(*args: Any, **kwargs: Any) -> dict[str, Any]:
            given = arguments_of(build, args, kwargs).arguments
            for key, value in given.items():
                needed = _NEEDED.get(_signature(function).parameters[key].annotation)
                if value is None and needed is not None:
                    raise ArgumentError(f"must be {needed}; found None", key)
            return {key: checked_parameter(key, value) for key, value in given.items()}

        @wraps(function)
        def build(*args: P.args, **kwargs: P.kwargs) -> Metric:
            metric = Metric(function, arguments(*args, **kwargs))
            if not known or not metric.arguments.keys() <= _CHECKED.keys():
                # The definition checks its own parameters.
                check_functions(metric.tree)
                known.append(function)
            return metric

        vars(build).update(properties, function=function, tree=function)
        definition = cast("MetricFunction[P]", build)
        _register(definition)
        if not function.__module__.startswith("polars_rank."):
            with_help(definition)
        return definition

    return decorate


def with_help(definition: MetricFunction[...]) -> MetricFunction[...]:
    """Return a metric's function after it got the signature and the docstring that help shows.

    Metrics of the package get them when users first ask for them, not in each import.
    """
    vars(definition)["__signature__"] = _signature(definition.function)
    if definition.function.__doc__:  # python -OO removes docstrings
        definition.__doc__ = completed(definition)
    return definition


def _register(definition: MetricFunction[...]) -> None:
    """Make a metric known by name; in a notebook, a cell may define its metric again."""
    name, module = definition.__name__, definition.function.__module__
    known = REGISTER.get(name)
    if known is not None and (
        known.function.__module__ != module or module.startswith("polars_rank.")
    ):
        raise ArgumentError(f"a metric {name!r} already exists; use another name")
    REGISTER[name] = definition
    for forget in FORGET:
        forget()


def tree_of(metric: pl.Expr) -> Value:
    """Return the tree of a metric, or of an expression of a user."""
    return metric.tree if isinstance(metric, Metric) else UserExpression(metric)


def direction(metric: pl.Expr) -> int:
    """Return 1 if a higher value of a metric is better, -1 if a lower one is, 0 if unknown."""
    if not isinstance(metric, Metric):
        return 0
    if not metric.parts:
        return 0 if metric.definition is None else -1 if metric.definition.lower_is_better else 1
    signs = dict.fromkeys(metric.arguments, 1)
    if metric.function is _method_of:
        method = metric.arguments["method"]
        signs["metric"] = (method in _INCREASING) - (method in ("__lt__", "__le__"))
    elif metric.function is _subtract:
        signs["right"] = -1
    elif metric.function in (_multiply, _divide):
        numbers = [each for each in metric.arguments.values() if not isinstance(each, Metric)]
        sign = 0 if metric._is_ratio() else (numbers[0] > 0) - (numbers[0] < 0)
        signs = dict.fromkeys(signs, sign)
    directions = {
        signs[key] * direction(each)
        for key, each in metric.arguments.items()
        if isinstance(each, Metric)
    }
    return directions.pop() if len(directions) == 1 else 0


def cutoff(metric: pl.Expr) -> int | None:
    """Return the largest cutoff of the single metrics; None if one of them has none."""
    if not isinstance(metric, Metric):
        return None
    cutoffs = [leaf.arguments.get("k") for leaf in metric.leaves]
    known = [k for k in cutoffs if k is not None]
    return max(known) if len(known) == len(cutoffs) else None


def written(value: Any) -> str:
    """Return a parameter's value as text, as in the name of a metric."""
    for name, function in (*GAINS.items(), *DISCOUNTS.items()):
        if value is function or value == function:
            return repr(name)
    return getattr(value, "__name__", None) or repr(value)


def parameters_of(metric: Metric | MetricFunction[...]) -> Mapping[str, Any]:
    """Return the parameters of a single metric, with their defaults."""
    return {key: each.default for key, each in _signature(metric.function).parameters.items()}


def _rebuilt(made_by: Any, arguments: Mapping[str, Any], name: str) -> Metric:
    """Return an unpickled metric, given its definition, or its function if it combines others."""
    if not hasattr(made_by, "function"):
        return Metric(made_by, arguments, name)
    REGISTER[made_by.__name__] = made_by
    return Metric(made_by.function, arguments, name)


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a metric: that of its function, which returns the tree."""
    return inspect.signature(function).replace(return_annotation=Metric)


#: Functions that check parameters of many metrics and return the checked value.
_CHECKED: dict[str, Callable[[Any], Any]] = {
    "k": lambda value: None if value is None else whole_number("k", value),
    "rel": lambda value: None if value is None else threshold("rel", value),
    "gain": lambda value: _elementwise("gain", gain_of(value)),
    "discount": lambda value: _elementwise("discount", function_of("discount", value, DISCOUNTS)),
}

#: Annotations of parameters that cannot be None.
_NEEDED = {"int": "a positive integer", "float": "a number"}

#: Types that cannot be compared with defaults, or be part of a name.
_TABLES = (pl.Expr, pl.Series, pl.DataFrame, pl.LazyFrame)


def checked_parameter(key: str, value: Any) -> Any:
    """Return the value of a parameter of many metrics; raise `ArgumentError` for an invalid one."""
    if key in _CHECKED:
        return _CHECKED[key](value)
    if isinstance(value, _TABLES):
        raise ArgumentError(
            f"must be a value, such as a number or a name; found {short(value)}", key
        )
    return value


def _elementwise(key: str, function: Callable[[pl.Expr], pl.Expr]) -> Any:
    """Return a function of expressions; raise `ArgumentError` unless it is elementwise."""
    check_elementwise(f"`{key}`", function)
    return function


def _combined(
    function: Callable[..., Value], left: Any, right: Any, plain: Callable[[Any], pl.Expr]
) -> pl.Expr:
    """Return the metric that combines two metrics or numbers; otherwise, a plain expression."""
    both = {"left": left, "right": right}
    others = [each for each in both.values() if not isinstance(each, Metric)]
    if not all(map(is_number, others)):
        return plain(*others)
    if function is _divide and not isinstance(right, Metric) and right == 0:
        raise ArgumentError(f"{left} is divided by 0; divide by another number")
    kinds = {each.aggregate for each in both.values() if isinstance(each, Metric)}
    if len(kinds) > 1 or "geometric" in kinds:
        raise ArgumentError(
            f"{left} and {right} have different aggregations over rankings ({', '.join(kinds)}); "
            "evaluate them separately and combine the results"
        )
    return Metric(function, both)


def _add(left: Value, right: Value) -> Value:
    return left + right


def _subtract(left: Value, right: Value) -> Value:
    return left - right


def _multiply(left: Value, right: Value) -> Value:
    return left * right


def _divide(left: Value, right: Value | float) -> Value:
    if isinstance(right, Value):  # a metric is null if undefined, never NaN
        return where(right.map(operator.ne, 0.0), left / right)
    return left / right


def _fill_null(left: Value, right: float) -> Value:
    return left.fill_null(right)


def _method_of(metric: Value, method: str, **parameters: Any) -> Value:
    return metric.map(getattr(pl.Expr, method), **parameters)


#: Formats of the names of metrics that combine others.
_FORMS: dict[Callable[..., Value], str] = {
    _add: "({left} + {right})", _subtract: "({left} - {right})", _multiply: "({left} * {right})",
    _divide: "({left} / {right})", _fill_null: "{left}" + FILLED + "{right})",
}  # fmt: skip
