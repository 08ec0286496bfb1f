"""Nodes: a metric is a tree of them, with the documents at its leaves.

A `Term` has one value per document, a `Value` one value per ranking. Both have the same operators,
and cannot be mixed: a `Reduction` or a `Fold` turns terms into a value. Nodes are frozen, so equal
nodes are computed once. Functions of trees find out what a metric reads (`analyses`), and turn it
into expressions and plans.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Generic, Literal, Self, TypeAlias, TypeVar, cast

import polars as pl

from polars_rank.errors import ArgumentError, short

How: TypeAlias = Literal["sum", "count", "min", "max"]

#: The documents that are reduced or listed: the retrieved ones by rank, the judged ones by ideal
#: rank, all documents of the ranking, or all documents of `items`.
Order: TypeAlias = Literal["rank", "ideal", "any"]

#: A function of expressions.
Function: TypeAlias = Callable[..., Any]
Parameters: TypeAlias = tuple[tuple[str, Hashable], ...]
Scalar: TypeAlias = float | bool | None
#: Nodes of one level, and scalars.
Operands: TypeAlias = tuple[object, ...]

L = TypeVar("L", bound="Node")


class Node:
    """A part of a metric. Nodes are values: equal nodes are computed once."""

    @cached_property
    def inputs(self) -> tuple[Any, ...]:
        """The nodes that this node reads, in the order of its fields."""
        return (*_nodes_in(vars(self).values()),)

    def with_inputs(self, change: Callable[[Any], Any]) -> Self:
        """Return the node with other inputs, if it has any."""
        if not self.inputs:
            return self
        held = {field.name: getattr(self, field.name) for field in fields(cast("Any", self))}
        changed = {name: _changed(value, change) for name, value in held.items()}
        node: Self = replace(cast("Any", self), **changed)
        return node


def _nodes_in(held: Iterable[Any]) -> Iterator[Node]:
    """Yield the nodes among values and in their tuples."""
    for value in held:
        if isinstance(value, Node):
            yield value
        elif isinstance(value, tuple):
            yield from _nodes_in(value)


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """Return a value with the nodes in it changed."""
    if isinstance(value, Node):
        return change(value)
    return tuple(_changed(each, change) for each in value) if type(value) is tuple else value


class _Level(Node, Generic[L]):
    """Operators of terms, which return terms, and of values, which return values."""

    @classmethod
    def mapped(cls, function: Function, operands: Operands, parameters: Parameters) -> L:
        """Return an elementwise function of operands of this level and numbers."""
        raise NotImplementedError

    def map(self, function: Function, /, *others: _Level[L] | Scalar, **parameters: Hashable) -> L:
        """Return an elementwise function of this node, other nodes and parameters.

        The function is called with expressions, and with the parameters by name.
        """
        return self.mapped(function, (self, *others), hashable(parameters))

    def __add__(self, other: _Level[L] | Scalar) -> L:
        return self.map(operator.add, other)

    def __radd__(self, other: Scalar) -> L:
        return self.mapped(operator.add, (other, self), ())

    def __sub__(self, other: _Level[L] | Scalar) -> L:
        return self.map(operator.sub, other)

    def __rsub__(self, other: Scalar) -> L:
        return self.mapped(operator.sub, (other, self), ())

    def __mul__(self, other: _Level[L] | Scalar) -> L:
        return self.map(operator.mul, other)

    def __rmul__(self, other: Scalar) -> L:
        return self.mapped(operator.mul, (other, self), ())

    def __truediv__(self, other: _Level[L] | Scalar) -> L:
        return self.map(operator.truediv, other)

    def __rtruediv__(self, other: Scalar) -> L:
        return self.mapped(operator.truediv, (other, self), ())

    def __pow__(self, other: _Level[L] | Scalar) -> L:
        return self.map(pl.Expr.pow, other)

    def __rpow__(self, other: Scalar) -> L:
        return self.mapped(pl.Expr.pow, (other, self), ())

    def __neg__(self) -> L:
        return self.map(operator.neg)

    def __gt__(self, other: _Level[L] | Scalar) -> L:
        return self.map(operator.gt, other)

    def __ge__(self, other: _Level[L] | Scalar) -> L:
        return self.map(operator.ge, other)

    def __lt__(self, other: _Level[L] | Scalar) -> L:
        return self.map(operator.lt, other)

    def __le__(self, other: _Level[L] | Scalar) -> L:
        return self.map(operator.le, other)

    def __and__(self, other: _Level[L] | Scalar) -> L:
        return self.map(operator.and_, other)

    def __or__(self, other: _Level[L] | Scalar) -> L:
        return self.map(operator.or_, other)

    def __invert__(self) -> L:
        return self.map(operator.invert)

    def __bool__(self) -> bool:
        raise ArgumentError(
            f"{described(self)} has no truth value; combine conditions with &, | and ~, and use "
            "t.where, t.least and t.most instead of if, min and max"
        )

    def equals(self, other: _Level[L] | Scalar) -> L:
        """Return whether two operands are equal; False if one is null."""
        return self.map(_equals, other)

    def clip(self, low: _Level[L] | Scalar = None, high: _Level[L] | Scalar = None) -> L:
        """Return the value limited to the given bounds."""
        if high is None:
            return self.map(pl.Expr.clip, low)
        return self.map(_at_most, high) if low is None else self.map(pl.Expr.clip, low, high)

    def fill_null(self, other: _Level[L] | Scalar) -> L:
        """Return the value with nulls replaced."""
        return self.map(pl.Expr.fill_null, other)

    def is_null(self) -> L:
        """Return whether the value is null."""
        return self.map(pl.Expr.is_null)

    def cast(self, dtype: pl.DataType | type[pl.DataType], *, strict: bool = True) -> L:
        """Return the value, cast to another data type."""
        return self.map(pl.Expr.cast, dtype=dtype, strict=strict)

    def floor(self) -> L:
        """Return the value, rounded down."""
        return self.map(pl.Expr.floor)

    def sqrt(self) -> L:
        """Return the square root."""
        return self.map(pl.Expr.sqrt)

    def log(self, base: float | None = None) -> L:
        """Return the logarithm, by default the natural one."""
        return self.map(pl.Expr.log) if base is None else self.map(pl.Expr.log, base=base)


def _equals(left: pl.Expr, right: pl.Expr) -> pl.Expr:
    return (left == right).fill_null(value=False)


def _at_most(value: pl.Expr, high: pl.Expr) -> pl.Expr:
    return value.clip(upper_bound=high)


class Term(_Level["Term"]):
    """One value per document."""

    @classmethod
    def mapped(cls, function: Function, operands: Operands, parameters: Parameters = ()) -> Term:
        """Return an elementwise function of terms and numbers."""
        return MappedTerm(function, tuple(map(term_of, operands)), parameters)


class Value(_Level["Value"]):
    """One value per ranking."""

    @classmethod
    def mapped(cls, function: Function, operands: Operands, parameters: Parameters = ()) -> Value:
        """Return an elementwise function of values and numbers."""
        return MappedValue(function, tuple(map(value_of, operands)), parameters)


@dataclass(frozen=True)
class LiteralTerm(Term):
    """The same number, truth value or null for each document."""

    value: Scalar
    #: True == 1.0, but they are different nodes.
    kind: type


@dataclass(frozen=True)
class LiteralValue(Value):
    """The same number, truth value or null for each ranking."""

    value: Scalar
    kind: type


@dataclass(frozen=True)
class MappedTerm(Term):
    """An elementwise function of terms: arithmetic, a discount, or a function of a user."""

    function: Function
    operands: tuple[Term, ...]
    parameters: Parameters = ()


@dataclass(frozen=True)
class MappedValue(Value):
    """An elementwise function of values."""

    function: Function
    operands: tuple[Value, ...]
    parameters: Parameters = ()


@dataclass(frozen=True)
class Field(Term):
    """A column of the ranked table, or the place of a document among those tied with it.

    "label" is a Float64; "exact_label" has the type of the column, in which large integers differ.
    Tied documents have the positions from `first` to `last`; `begin` and `end` are the rows of the
    first and the last of them, and `reverse` is the row of the document that has this position if
    their order is reversed.
    """

    name: Literal[
        "score", "label", "exact_label", "rank", "ideal_rank", "doc", "retrieved", "judged",
        "document", "position", "first", "last", "begin", "end", "reverse",
    ]  # fmt: skip


@dataclass(frozen=True)
class Relevant(Term):
    """Whether the label is at least `rel`, by default that of the call."""

    rel: float | None = None


@dataclass(frozen=True)
class Hits(Term):
    """The number of relevant documents down to this rank."""

    rel: float | None = None


@dataclass(frozen=True)
class Gain(Term):
    """The gain of the label."""

    gain: Function


@dataclass(frozen=True)
class Column(Term):
    """A column of the log, and the parameter that names it."""

    name: str
    parameter: str
    #: Numbers and counts are Float64 and at least 0; "as is" is for all other columns.
    kind: Literal["number", "count", "as is"] = "number"
    #: The highest valid number.
    high: float | None = None


@dataclass(frozen=True)
class OfTies(Term):
    """A value that tied documents share; the function may read other rows of tied documents."""

    function: Function
    operands: tuple[Term, ...]


@dataclass(frozen=True)
class Reduction(Value):
    """The sum, count, minimum or maximum of a term over the documents of an order.

    With k, only the first k documents are counted.
    """

    how: How
    term: Term
    order: Order
    k: int | Value | None = None

    @property
    def elements(self) -> Elements:
        """What it reads of each document."""
        how = self.how if self.how in ("sum", "count") else "extreme"
        return Elements(self.term, self.order, how)


@dataclass(frozen=True)
class Elements(Node):
    """What sums, counts or extremes over the documents of an order read of each document."""

    term: Term
    order: Order
    how: str


@dataclass(frozen=True)
class Listed(Node):
    """A term as a sequence over all documents of a ranking, or over the first k.

    In rank order, documents that are not retrieved come last, with nulls; in ideal order, so do
    unjudged documents. The order "any" is the same for all terms.
    """

    term: Term
    order: Order
    k: int | None = None


@dataclass(frozen=True)
class Fold(Value):
    """A function that reduces sequences to one value."""

    function: Function
    sequences: tuple[Listed, ...]
    parameters: Parameters = ()


@dataclass(frozen=True)
class Batch(Value):
    """A value that is computed for many rankings at once.

    `read` is called with parameters and a column of lists of documents, whose fields have the names
    of the terms; `compute` returns the values of the rankings that it has read. Batches that differ
    only in `compute` share what is read.
    """

    compute: Callable[..., pl.Series]
    read: Callable[..., Any]
    parameters: tuple[Hashable, ...]
    fields: tuple[tuple[str, Term], ...]


@dataclass(frozen=True, eq=False)
class UserExpression(Value):
    """An expression of a user over the ranked table; equal only to itself."""

    expression: pl.Expr


@dataclass(frozen=True)
class Required(Value):
    """A value; an evaluation raises `DataError` if the condition does not hold for a ranking."""

    value: Value
    condition: Value
    problem: str


@dataclass(frozen=True)
class Mean(Value):
    """A value that is a mean over all orders of tied documents."""

    value: Value


def hashable(parameters: Mapping[str, Hashable]) -> Parameters:
    """Return parameters by name; raise `ArgumentError` for one that is not hashable."""
    for name, value in parameters.items():
        try:
            hash(value)
        except TypeError:
            raise ArgumentError(
                f"must be hashable, such as a number, a string or a tuple; found {short(value)}",
                name,
            ) from None
    return tuple(parameters.items())


def term_of(operand: object) -> Term:
    """Return a term, given a term or a number."""
    return operand if isinstance(operand, Term) else LiteralTerm(*_literal(operand, "term"))


def value_of(operand: object) -> Value:
    """Return a value, given a value or a number."""
    return operand if isinstance(operand, Value) else LiteralValue(*_literal(operand, "value"))


def _literal(operand: object, kind: str) -> tuple[Scalar, type]:
    if operand is None or isinstance(operand, bool):
        return operand, type(operand)
    if isinstance(operand, (int, float)):
        return float(operand), float
    remedies = {
        "value": "reduce terms to values, as in t.top(t.LABEL, 10).sum()",
        "term": "use terms such as t.LABEL, t.relevant() and t.column('price')",
    }
    raise ArgumentError(
        f"a metric must combine {kind}s with {kind}s and numbers; found {described(operand)}; "
        f"{remedies[kind]}"
    )


def described(operand: object) -> str:
    """Return what an error says of an operand: the kind of a node, or the text of a value."""
    kinds = {Term: "a term", Value: "a value per ranking", Listed: "a sequence"}
    return next((text for kind, text in kinds.items() if isinstance(operand, kind)), short(operand))
