"""What metrics are made of: a few sums, counts and extremes over the documents of one list.

A metric is a function of `Terms`. It asks for a *term*, an expression for each document, over some
of the documents; reduces it to a `Value`, a number for the list; and does arithmetic on values.
Its terms are implemented three times: by `ExpressionTerms` as an expression over the ranked table
that stands alone; by `PlanTerms` as columns of a plan that many metrics share; and by
`ExpectedTerms` as means over all orders of tied documents. A term offers only what means
the same in all three, and what is not understood is an error when the metric is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import polars as pl

from polars_rank._polars import inputs, reads_column
from polars_rank.errors import ArgumentError
from polars_rank.gains import refusals
from polars_rank.metrics.signals import numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from polars_rank.discounts import Discount
    from polars_rank.gains import Gain

#: Columns of the ranked table, as metrics read them.
SCORE = pl.col("score")
LABEL = pl.col("label").cast(pl.Float64)
RANK = pl.col("rank").cast(pl.Float64)
IDEAL_RANK = pl.col("ideal_rank").cast(pl.Float64)
HITS = pl.col("hits").cast(pl.Float64)
RELEVANT = pl.col("relevant")
RETRIEVED = pl.col("rank").is_not_null()
JUDGED = pl.col("label").is_not_null()

How: TypeAlias = Literal["sum", "count", "min", "max"]
#: A cutoff: a number of ranks, a value such as R, or None for the whole list.
Cutoff: TypeAlias = "int | Value | None"


class OrderMattersError(ArgumentError):
    """A number depends on the order of tied documents in a way that has no closed form."""


class Value:
    """A number for each list, or null; arithmetic and comparisons make new ones.

    `settled` says that no order of tied documents changes it. Of one that is not, only the mean
    over those orders is known, so that nothing but sums and settled multiples can be made of it.
    """

    __slots__ = ("expr", "settled")

    def __init__(self, expr: pl.Expr, *, settled: bool = True) -> None:
        self.expr = expr
        self.settled = settled

    def __add__(self, other: Operand) -> Value:
        return _linear(lambda a, b: a + b, self, other)

    def __radd__(self, other: Operand) -> Value:
        return _linear(lambda a, b: b + a, self, other)

    def __sub__(self, other: Operand) -> Value:
        return _linear(lambda a, b: a - b, self, other)

    def __rsub__(self, other: Operand) -> Value:
        return _linear(lambda a, b: b - a, self, other)

    def __neg__(self) -> Value:
        return _linear(lambda a: -a, self)

    def __mul__(self, other: Operand) -> Value:
        other = _value(other)
        combine = _linear if self.settled or other.settled else each_of
        return combine(lambda a, b: a * b, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Operand) -> Value:
        other = _value(other)
        combine = _linear if other.settled else each_of
        return combine(lambda a, b: a / b, self, other)

    def __rtruediv__(self, other: Operand) -> Value:
        return _value(other) / self

    def __pow__(self, other: Operand) -> Value:
        return each_of(lambda a, b: a.pow(b), self, other)

    def __rpow__(self, other: Operand) -> Value:
        return each_of(lambda a, b: b.pow(a), self, other)

    def __gt__(self, other: Operand) -> Value:
        return each_of(lambda a, b: a > b, self, other)

    def __ge__(self, other: Operand) -> Value:
        return each_of(lambda a, b: a >= b, self, other)

    def __lt__(self, other: Operand) -> Value:
        return each_of(lambda a, b: a < b, self, other)

    def __le__(self, other: Operand) -> Value:
        return each_of(lambda a, b: a <= b, self, other)

    def __and__(self, other: Operand) -> Value:
        return each_of(lambda a, b: a & b, self, other)

    def equals(self, other: Operand) -> Value:
        """Return whether two values are the same; false where one is null."""
        return each_of(lambda a, b: (a == b).fill_null(value=False), self, other)

    def clip(self, low: Operand | None = None, high: Operand | None = None) -> Value:
        """Return the value, or the nearer of two bounds where it is beyond them."""
        value = self if low is None else each_of(lambda a, b: a.clip(lower_bound=b), self, low)
        return value if high is None else each_of(lambda a, b: a.clip(upper_bound=b), value, high)

    def fill_null(self, other: Operand) -> Value:
        """Return the value, or another one where it is null."""
        return each_of(lambda a, b: a.fill_null(b), self, other)

    def floor(self) -> Value:
        """Return the value, rounded down."""
        return each_of(lambda a: a.floor(), self)

    def sqrt(self) -> Value:
        """Return the square root."""
        return each_of(lambda a: a.sqrt(), self)

    def log(self) -> Value:
        """Return the natural logarithm."""
        return each_of(lambda a: a.log(), self)


Operand: TypeAlias = "Value | float | bool"


def each_of(function: Callable[..., pl.Expr], *values: Operand) -> Value:
    """Return any function of values, list by list: the values as expressions, a row for a list."""
    known = [_value(value) for value in values]
    if not all(value.settled for value in known):
        message = "a function of a value that the order of tied documents changes"
        raise OrderMattersError(message)
    return _linear(function, *known)


def where(condition: Value, value: Operand, otherwise: Operand | None = None) -> Value:
    """Return a value where a condition holds, elsewhere another one or null."""
    other = Value(pl.lit(None)) if otherwise is None else otherwise
    combine = _linear if condition.settled else each_of
    return combine(
        lambda holds, then, other: pl.when(holds).then(then).otherwise(other),
        condition, value, other,
    )  # fmt: skip


def ratio(part: Operand, whole: Value) -> Value:
    """Return part / whole; null, not NaN, where the whole is not above 0."""
    return where(whole > 0, _value(part) / whole)


def least(*values: Operand) -> Value:
    """Return the least of several values."""
    return each_of(pl.min_horizontal, *values)


def most(*values: Operand) -> Value:
    """Return the greatest of several values."""
    return each_of(pl.max_horizontal, *values)


def _linear(function: Callable[..., pl.Expr], *values: Operand) -> Value:
    """Return a sum or a settled multiple of values, which may depend on the order of ties."""
    known = [_value(value) for value in values]
    made = function(*(value.expr for value in known))
    return Value(made, settled=all(value.settled for value in known))


def _value(operand: Operand) -> Value:
    if isinstance(operand, Value):
        return operand
    if isinstance(operand, (bool, int, float)):
        return Value(pl.lit(operand if isinstance(operand, bool) else float(operand)))
    message = (
        f"a metric is made of the values of its terms and of numbers; found {operand}: ask the "
        "terms for it, as in t.retrieved() or t.each(...).sum()"
    )
    raise ArgumentError(message)


class Term(NamedTuple):
    """An expression for each of some documents of a list, waiting to be reduced to a value."""

    reduce: Callable[[How], Value]

    def sum(self) -> Value:
        """Return the sum; 0 of nothing. Nulls add nothing."""
        return self.reduce("sum")

    def number(self) -> Value:
        """Return for how many documents the term, a condition, holds."""
        return self.reduce("count")

    def min(self) -> Value:
        """Return the least; null of nothing."""
        return self.reduce("min")

    def max(self) -> Value:
        """Return the greatest; null of nothing."""
        return self.reduce("max")


class Listed(NamedTuple):
    """A term as a sequence over all documents of a list, in some order, for `Terms.fold`."""

    expr: pl.Expr
    by: Literal["rank", "ideal_rank", "any"]


class Terms(ABC):
    """What a metric may ask of the documents of one list."""

    @abstractmethod
    def top(
        self,
        term: pl.Expr,
        k: Cutoff = None,
        weight: Callable[[pl.Expr], pl.Expr] | None = None,
    ) -> Term:
        """Return `term` of the retrieved documents at rank k or above, times the rank's weight."""

    @abstractmethod
    def at_hits(
        self,
        term: Callable[[pl.Expr, pl.Expr], pl.Expr],
        k: int | None = None,
        rel: float | None = None,
    ) -> Term:
        """Return `term` of rank and hits at each relevant document at rank k or above."""

    @abstractmethod
    def ideal_top(self, gain: Gain, discount: Discount, k: Cutoff = None) -> Term:
        """Return gain x discount of the judged documents at ideal rank k or above."""

    @abstractmethod
    def each(self, term: pl.Expr) -> Term:
        """Return `term` of every document of the list, retrieved or not."""

    @abstractmethod
    def rows(self) -> Value:
        """Return how many documents the list has, retrieved or not."""

    @abstractmethod
    def gain(self, gain: Gain) -> pl.Expr:
        """Return what the label of a document is worth; null where it has none."""

    @abstractmethod
    def fold(self, function: Callable[..., pl.Expr], *terms: Listed) -> Value:
        """Return any function of whole lists: of the terms, as long as the list, to one value."""

    @abstractmethod
    def require(self, condition: Value, problem: str) -> None:
        """Let an evaluation raise `DataError` for a list for which a condition does not hold."""

    @abstractmethod
    def require_one_list(self) -> None:
        """Let an evaluation raise `DataError` where a position comes twice in a list."""

    def signal(self, parameter: str, column: str) -> pl.Expr:
        """Return a column of what users did, such as clicks, as numbers."""
        return numbers(parameter, column)

    def relevant(self, rel: float | None = None) -> pl.Expr:
        """Return whether a document is relevant: by the threshold of the call, or label >= rel."""
        return RELEVANT if rel is None else (rel <= LABEL).fill_null(value=False)

    def number_relevant(self, rel: float | None = None) -> Value:
        """Return R, how many documents are relevant, retrieved or not."""
        return self.each(self.relevant(rel)).number()

    def retrieved(self, k: int | None = None) -> Value:
        """Return how many documents are retrieved, of the first k."""
        found = self.each(RETRIEVED).number()
        return found if k is None else found.clip(high=k)

    def tied(self) -> Value:
        """Return how many of the retrieved documents share their score with another one."""
        return self.fold(
            lambda score: score.drop_nulls().is_duplicated().sum().cast(pl.Float64),
            self.in_any_order(SCORE),
        )

    def in_order(self, term: pl.Expr) -> Listed:
        """Return `term` in rank order; null for documents that are not retrieved, at the end."""
        return Listed(term, "rank")

    def in_ideal_order(self, term: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Listed:
        """Return `term` of label and ideal rank in ideal order, those not judged at the end."""
        return Listed(term(LABEL, IDEAL_RANK), "ideal_rank")

    def in_any_order(self, term: pl.Expr) -> Listed:
        """Return `term` of every document; several such terms stand in the same order."""
        return Listed(term, "any")


class ExpressionTerms(Terms):
    """A metric that stands alone: an expression over the ranked table, in any order of rows."""

    def top(
        self,
        term: pl.Expr,
        k: Cutoff = None,
        weight: Callable[[pl.Expr], pl.Expr] | None = None,
    ) -> Term:
        """Filter the ranks."""
        if weight is not None:
            term = term * weight(RANK)
        return _reducible(_checked(term).filter(RETRIEVED if k is None else _within(RANK, k)))

    def at_hits(
        self,
        term: Callable[[pl.Expr, pl.Expr], pl.Expr],
        k: int | None = None,
        rel: float | None = None,
    ) -> Term:
        """Count the hits anew where another threshold asks for it."""
        if rel is None:
            return self.top(pl.when(RELEVANT).then(term(RANK, HITS)), k)
        found = self.relevant(rel) & RETRIEVED
        ranks = RANK.filter(found if k is None else found & _within(RANK, k))
        return _reducible(term(ranks, ranks.rank("ordinal").cast(pl.Float64)))

    def ideal_top(self, gain: Gain, discount: Discount, k: Cutoff = None) -> Term:
        """Filter the ideal ranks."""
        term = _checked(gain(LABEL) * discount(IDEAL_RANK))
        return _reducible(term.filter(JUDGED if k is None else _within(IDEAL_RANK, k)))

    def each(self, term: pl.Expr) -> Term:
        """Take all rows."""
        return _reducible(_checked(term))

    def rows(self) -> Value:
        """Count all rows but that of an empty list, which is neither relevant nor not."""
        return Value(RELEVANT.count().cast(pl.Float64))

    def require(self, condition: Value, problem: str) -> None:
        """Do nothing: an expression cannot know in which list it is."""

    def require_one_list(self) -> None:
        """Do nothing: an expression cannot know by what documents were ranked."""

    def gain(self, gain: Gain) -> pl.Expr:
        """Apply the gain to the label; a label that it refuses is an error of Polars."""
        return sum((_refusing(*refusal) for refusal in refusals(gain).items()), gain(LABEL))

    def fold(self, function: Callable[..., pl.Expr], *terms: Listed) -> Value:
        """Sort each term as it asks for."""
        folded_once(function, len(terms))
        for term in terms:
            _checked(term.expr)
        return Value(function(*map(_sorted, terms)))


def reduced(term: Any, how: How) -> pl.Expr:
    """Return a sum, a count, or an extreme, of an expression or of its lists, as Float64."""
    # A condition is counted as the sum of its values.
    value: pl.Expr = getattr(term, "sum" if how == "count" else how)()
    return value.cast(pl.Float64)


def folded_once(function: Callable[..., pl.Expr], count: int) -> None:
    """Raise `ArgumentError` unless a function makes one value out of its terms, and of no others.

    It is tried on columns that stand for the terms.
    """
    terms = [f"term {index}" for index in range(count)]
    made = function(*map(pl.col, terms))
    others = set(made.meta.root_names()) - set(terms)
    if others:
        message = f"a fold reads {sorted(others)}, which are not among its terms; hand them over"
        raise ArgumentError(message)


def _refusing(problem: str, condition: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """Return 0 for each document; fail where a label is refused, with what is wrong with it."""
    said = pl.format("the label {} is " + problem.replace("{", "(").replace("}", ")"), LABEL)
    return pl.when(condition(LABEL)).then(said).cast(pl.Float64).fill_null(0.0)


def _sorted(term: Listed) -> pl.Expr:
    if term.by == "any":
        return term.expr
    if term.by == "ideal_rank":
        return term.expr.sort_by("ideal_rank", nulls_last=True)
    return pl.when(RETRIEVED).then(term.expr).sort_by("rank", nulls_last=True)


def _within(rank: pl.Expr, k: Cutoff) -> pl.Expr:
    return rank <= (k.expr if isinstance(k, Value) else k)


def _reducible(term: pl.Expr) -> Term:
    return Term(lambda how: Value(reduced(term, how)))


def _checked(term: pl.Expr) -> pl.Expr:
    if not is_elementwise(term):
        message = (
            f"a term must give a value for each document that depends on that document only; "
            f"found {term}"
        )
        raise ArgumentError(message)
    return term


def is_elementwise(expression: pl.Expr) -> bool:
    """Return whether each row of an expression depends on that row alone."""
    parts = [expression]
    while parts:
        part = parts.pop()
        meta = part.meta
        if meta.is_column() or meta.is_literal():
            continue
        try:
            whole = meta.is_length_preserving() or not meta.root_names()
            if not (whole and meta.is_row_separable()):
                return False
        except pl.exceptions.PolarsError:  # it depends on columns that are not there: a filter
            return False
        parts.extend(inputs(part))
    return True


def reads_order(term: pl.Expr) -> bool:
    """Return whether a term reads more of the ranks than whether a document has one."""
    names = ("rank", "hits", "ideal_rank")
    return any(reads_column(term, name, besides=RETRIEVED) for name in names)


def as_value(made: Any) -> Value:
    """Return what a metric's function gave; raise `ArgumentError` unless it is a value."""
    if isinstance(made, Value):
        return made
    message = f"a metric must return a value of its terms; found {made!r}"
    raise ArgumentError(message)
