"""Terms of metrics: sums, counts and extremes over the documents of one ranking.

A metric is a function of `Terms`. It selects a *term*, an expression with one value per document;
reduces the term to a `Value`, one number per ranking; and does arithmetic with values. Terms have
several implementations: `ExpressionTerms` returns a free-standing expression over the ranked
table; `PlanTerms` returns columns of a plan that many metrics share; `ExpectedTerms` returns means
over all orders of tied documents. A term has only the operations that mean the same in each of
them; anything else raises an error when the metric is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache, partial
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import polars as pl

from polars_rank._polars import inputs, reads_column
from polars_rank.columns import is_relevant
from polars_rank.errors import ArgumentError
from polars_rank.metrics.user_columns import named, numbers

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from polars_rank.discounts import Discount
    from polars_rank.gains import Gain

#: Columns of the ranked table, as metrics read them.
SCORE = pl.col("score")
LABEL = pl.col("label").cast(pl.Float64)
RANK = pl.col("rank").cast(pl.Float64)
IDEAL_RANK = pl.col("ideal_rank").cast(pl.Float64)
HITS = pl.col("hits").cast(pl.Float64)
RELEVANT = pl.col("relevant")
DOC = pl.col("doc")
RETRIEVED = pl.col("rank").is_not_null()
JUDGED = pl.col("label").is_not_null()

How: TypeAlias = Literal["sum", "count", "min", "max"]
#: A cutoff: a number of ranks, a value such as R, or None for the whole ranking.
Cutoff: TypeAlias = "int | Value | None"


_UNSETTLED = "a function of a value that the order of tied documents changes"


class OrderMattersError(ArgumentError):
    """A value has no closed form for its mean over the orders of tied documents."""


@dataclass(slots=True, eq=False)
class Value:
    """One number per ranking, or null; arithmetic and comparisons return new values.

    A value is `settled` if it does not depend on the order of tied documents. Of other values, only
    the mean over the orders is known, so they allow only sums and multiplication by settled values.
    """

    expr: pl.Expr
    settled: bool = True

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
        """Return whether two values are equal; False if one is null."""
        return each_of(lambda a, b: (a == b).fill_null(value=False), self, other)

    def clip(self, low: Operand | None = None, high: Operand | None = None) -> Value:
        """Return the value limited to the given bounds."""
        value = self if low is None else each_of(lambda a, b: a.clip(lower_bound=b), self, low)
        return value if high is None else each_of(lambda a, b: a.clip(upper_bound=b), value, high)

    def fill_null(self, other: Operand) -> Value:
        """Return the value with null replaced."""
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
    """Apply a function of expressions with one row per ranking to settled values."""
    known = [_value(value) for value in values]
    if not all(value.settled for value in known):
        raise OrderMattersError(_UNSETTLED)
    return _linear(function, *known)


def where(condition: Value, value: Operand, otherwise: Operand | None = None) -> Value:
    """Return a value if a condition holds, otherwise another value or null."""
    other = Value(pl.lit(None)) if otherwise is None else otherwise
    combine = _linear if condition.settled else each_of
    return combine(
        lambda holds, then, other: pl.when(holds).then(then).otherwise(other),
        condition, value, other,
    )  # fmt: skip


def ratio(part: Operand, whole: Value) -> Value:
    """Return part / whole; null if the whole is not above 0."""
    if not whole.settled:
        raise OrderMattersError(_UNSETTLED)
    return _linear(lambda part, whole: pl.when(whole > 0).then(part / whole), part, whole)


def least(*values: Operand) -> Value:
    """Return the smallest of several values."""
    return each_of(pl.min_horizontal, *values)


def most(*values: Operand) -> Value:
    """Return the largest of several values."""
    return each_of(pl.max_horizontal, *values)


def _linear(function: Callable[..., pl.Expr], *values: Operand) -> Value:
    """Apply a function that is linear in the values that depend on the order of ties."""
    known = [_value(value) for value in values]
    made = function(*(value.expr for value in known))
    return Value(made, settled=all(value.settled for value in known))


def _value(operand: Operand) -> Value:
    if isinstance(operand, Value):
        return operand
    if isinstance(operand, (bool, int, float)):
        return Value(pl.lit(operand if isinstance(operand, bool) else float(operand)))
    raise ArgumentError(
        f"a metric must combine values of its terms and numbers; found {operand}; use a method of "
        "the terms, as in t.retrieved() or t.each(...).sum()"
    )


class Term(NamedTuple):
    """An expression over some of the documents of a ranking, to be reduced to a value."""

    reduce: Callable[[How], Value]

    def sum(self) -> Value:
        """Return the sum, ignoring nulls; 0 without documents."""
        return self.reduce("sum")

    def number(self) -> Value:
        """Return the number of documents for which the term, a condition, is true."""
        return self.reduce("count")

    def min(self) -> Value:
        """Return the minimum; null without documents."""
        return self.reduce("min")

    def max(self) -> Value:
        """Return the maximum; null without documents."""
        return self.reduce("max")


class Listed(NamedTuple):
    """A term as a sequence over all documents of a ranking in a given order, for `Terms.fold`."""

    expr: pl.Expr
    by: Literal["rank", "ideal_rank", "any"]


class Source(NamedTuple):
    """Input of a value that `Terms.of_batch` computes for many rankings at once."""

    #: Called with the parameters and a column of the lists of documents of the rankings.
    read: Callable[..., Any]
    parameters: tuple[Hashable, ...]
    #: The fields of the documents, which are in any order.
    terms: Mapping[str, Listed]

    def lists(self, column: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
        """Return the documents of a ranking as one list, given the column of a term."""
        fields = (column(term.expr).alias(name) for name, term in self.terms.items())
        return pl.struct(*fields).implode()


class Terms(ABC):
    """Operations on the documents of one ranking that a metric can use."""

    @abstractmethod
    def top(
        self,
        term: pl.Expr,
        k: Cutoff = None,
        weight: Callable[[pl.Expr], pl.Expr] | None = None,
    ) -> Term:
        """Return `term` of the first k documents, multiplied by the weights of their ranks."""

    @abstractmethod
    def at_hits(
        self,
        term: Callable[[pl.Expr, pl.Expr], pl.Expr],
        k: int | None = None,
        rel: float | None = None,
    ) -> Term:
        """Return `term`, a function of rank and hits, of the hits among the first k documents."""

    @abstractmethod
    def ideal_top(self, gain: Gain, discount: Discount, k: Cutoff = None) -> Term:
        """Return gain times discount of the first k judged documents in ideal order."""

    @abstractmethod
    def each(self, term: pl.Expr) -> Term:
        """Return `term` of every document of the ranking, retrieved or not."""

    @abstractmethod
    def rows(self) -> Value:
        """Return the number of documents of the ranking, retrieved or not."""

    @abstractmethod
    def gain(self, gain: Gain) -> pl.Expr:
        """Return the gain of each document; null if the document has no label."""

    @abstractmethod
    def fold(self, function: Callable[..., pl.Expr], *terms: Listed, k: int | None = None) -> Value:
        """Return a function of whole rankings, which reduces sequences of terms to one value.

        With k, the function ignores documents below rank k, which the sequences may lack.
        """

    @abstractmethod
    def of_batch(self, compute: Callable[..., pl.Series], source: Source) -> Value:
        """Return a value that is computed for many rankings at once.

        Metrics with equal sources share the result of `Source.read`.
        """

    @abstractmethod
    def require(self, condition: Value, problem: str) -> None:
        """Make an evaluation raise `DataError` if a condition does not hold for a ranking."""

    @abstractmethod
    def require_one_list(self) -> None:
        """Make an evaluation raise `DataError` if a position occurs twice in a ranking."""

    def signal(
        self, parameter: str, column: str, *, high: float | None = None, whole: bool = False
    ) -> pl.Expr:
        """Return a column of the user, such as clicks, as numbers, or counts, from 0 to `high`."""
        del high, whole  # the plan of an evaluation checks values
        return numbers(parameter, column)

    def lists(self, parameter: str, column: str) -> pl.Expr:
        """Return a column of lists, one list per document."""
        return named(parameter, column)

    def doc(self) -> pl.Expr:
        """Return the id of each document, as ties are broken by it."""
        return DOC

    def relevant(self, rel: float | None = None) -> pl.Expr:
        """Return whether each document is relevant: label >= rel, by default the call's `rel`."""
        return RELEVANT if rel is None else is_relevant(pl.col("label"), rel)

    def of_items(self, term: pl.Expr) -> Term:
        """Return `term` of every document of `items`, or of the ranking if `items` lacks a column.

        Without `items`, the documents are those of the ranking.
        """
        return self.each(term)

    def number_relevant(self, rel: float | None = None) -> Value:
        """Return R, the number of relevant documents, retrieved or not."""
        return self.each(self.relevant(rel)).number()

    def retrieved(self, k: int | None = None) -> Value:
        """Return the number of retrieved documents, at most k."""
        found = self.each(RETRIEVED).number()
        return found if k is None else found.clip(high=k)

    def tied(self) -> Value:
        """Return the number of retrieved documents that are tied with another document."""
        return self.fold(
            lambda score: score.drop_nulls().is_duplicated().sum().cast(pl.Float64),
            self.in_any_order(SCORE),
        )

    def in_order(self, term: pl.Expr) -> Listed:
        """Return `term` in rank order, followed by nulls for documents that are not retrieved."""
        return Listed(term, "rank")

    def in_ideal_order(self, term: Callable[[pl.Expr, pl.Expr], pl.Expr]) -> Listed:
        """Return `term`, a function of label and ideal rank, in ideal order, unjudged ones last."""
        return Listed(term(LABEL, IDEAL_RANK), "ideal_rank")

    def in_any_order(self, term: pl.Expr) -> Listed:
        """Return `term` of every document in an unspecified order, the same for all such terms."""
        return Listed(term, "any")


class ExpressionTerms(Terms):
    """Terms as free-standing expressions over the ranked table, with rows in any order."""

    def top(
        self,
        term: pl.Expr,
        k: Cutoff = None,
        weight: Callable[[pl.Expr], pl.Expr] | None = None,
    ) -> Term:
        """Filter the rows by rank."""
        if weight is not None:
            term = term * weight(RANK)
        return _reducible(_checked(term).filter(RETRIEVED if k is None else _within(RANK, k)))

    def at_hits(
        self,
        term: Callable[[pl.Expr, pl.Expr], pl.Expr],
        k: int | None = None,
        rel: float | None = None,
    ) -> Term:
        """Use the column of hits, or count hits again for another threshold."""
        if rel is None:
            return self.top(pl.when(RELEVANT).then(term(RANK, HITS)), k)
        found = self.relevant(rel) & RETRIEVED
        ranks = RANK.filter(found if k is None else found & _within(RANK, k))
        return _reducible(term(ranks, ranks.rank("ordinal").cast(pl.Float64)))

    def ideal_top(self, gain: Gain, discount: Discount, k: Cutoff = None) -> Term:
        """Filter the rows by ideal rank."""
        term = _checked(gain(LABEL) * discount(IDEAL_RANK))
        return _reducible(term.filter(JUDGED if k is None else _within(IDEAL_RANK, k)))

    def each(self, term: pl.Expr) -> Term:
        """Take all rows."""
        return _reducible(_checked(term))

    def rows(self) -> Value:
        """Count all rows except that of an empty ranking, in which `relevant` is null."""
        return Value(RELEVANT.count().cast(pl.Float64))

    def require(self, condition: Value, problem: str) -> None:
        """Do nothing: an expression has no access to the keys of its ranking."""

    def require_one_list(self) -> None:
        """Do nothing: an expression has no access to the column that documents were ranked by."""

    def gain(self, gain: Gain) -> pl.Expr:
        """Apply the gain to the label; Polars raises an error for a label that it rejects."""
        refusals = getattr(gain, "refuses", {})
        return sum((_refusing(*refusal) for refusal in refusals.items()), gain(LABEL))

    def of_batch(self, compute: Callable[..., pl.Series], source: Source) -> Value:
        """Compute the value alone."""
        lists = source.lists(lambda term: term)
        return Value(of_lists(_of_batch, compute, source.read, *source.parameters, lists=lists))

    def fold(self, function: Callable[..., pl.Expr], *terms: Listed, k: int | None = None) -> Value:
        """Sort each term into its order."""
        del k  # documents below rank k do no harm
        folded_once(function, len(terms))
        for term in terms:
            _checked(term.expr)
        return Value(function(*map(_sorted, terms)))


def reduced(term: Any, how: How) -> pl.Expr:
    """Return the sum, count or extreme of an expression or of its lists as Float64."""
    # The count of a condition is the sum of its values.
    value: pl.Expr = getattr(term, "sum" if how == "count" else how)()
    return value.cast(pl.Float64)


def folded_once(function: Callable[..., pl.Expr], count: int) -> None:
    """Raise `ArgumentError` if a function reads other columns than its terms.

    The function is tried on placeholder columns.
    """
    terms = [f"term {index}" for index in range(count)]
    made = function(*map(pl.col, terms))
    others = set(made.meta.root_names()) - set(terms)
    if others:
        raise ArgumentError(
            f"a fold reads {sorted(others)}, which are not among its terms; pass them as terms"
        )


def of_lists(function: Callable[..., pl.Series], *arguments: Hashable, lists: pl.Expr) -> pl.Expr:
    """Return a function of the lists of many rankings at once, as one expression.

    The function is called with the arguments and a column of lists, and returns a number for each.
    Equal calls return the same object: Polars compares Python functions by identity, so it would
    not share the value otherwise.
    """
    return _of_lists(function, arguments, lists.meta.serialize())


@lru_cache(maxsize=256)
def _of_lists(
    function: Callable[..., pl.Series], arguments: tuple[Hashable, ...], lists: bytes
) -> pl.Expr:
    return pl.Expr.deserialize(BytesIO(lists)).map_batches(
        partial(function, *arguments),
        return_dtype=pl.Float64,
        is_elementwise=True,
        returns_scalar=True,
    )


def _of_batch(
    compute: Callable[..., pl.Series], read: Callable[..., Any], *parameters: Any
) -> pl.Series:
    """Return a value of each ranking; the last parameter is the column of lists."""
    return compute(read(*parameters))


def _refusing(problem: str, condition: Callable[[pl.Expr], pl.Expr]) -> pl.Expr:
    """Return 0 for each document; evaluating it fails, with a message, for a rejected label."""
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
        raise ArgumentError(
            f"a term must be an elementwise expression, with one value per document; found {term}"
        )
    return term


def is_elementwise(expression: pl.Expr) -> bool:
    """Return whether each row of an expression depends only on the same row of its inputs."""
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
        except pl.exceptions.PolarsError:  # raised for filters
            return False
        parts.extend(inputs(part))
    return True


def reads_order(term: pl.Expr) -> bool:
    """Return whether a term reads ranks other than to test whether they are null."""
    names = ("rank", "hits", "ideal_rank")
    return any(reads_column(term, name, besides=RETRIEVED) for name in names)
