"""The vocabulary of metrics: terms of documents, and their reductions to a value per ranking.

A metric is a function that selects documents, such as the first k with `top`; reduces a term of
them to a `Value`, such as a sum; and does arithmetic with values. The functions are called with the
name of this module, as in `t.top(t.gain(gain), k).sum()`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import polars as pl

from polars_rank._params import check_name
from polars_rank.errors import ArgumentError, short
from polars_rank.metrics import nodes
from polars_rank.metrics.nodes import (
    Batch,
    Column,
    Field,
    Fold,
    Function,
    Hits,
    Listed,
    Order,
    Reduction,
    Relevant,
    Required,
    Scalar,
    Term,
    Value,
    term_of,
)

if TYPE_CHECKING:
    from polars_rank.discounts import Discount

__all__ = [
    "DOC",
    "IDEAL_RANK",
    "JUDGED",
    "LABEL",
    "RANK",
    "RETRIEVED",
    "SCORE",
    "Term",
    "Value",
    "at_hits",
    "batch",
    "column",
    "each",
    "fold",
    "gain",
    "ideal_top",
    "in_any_order",
    "in_ideal_order",
    "in_order",
    "least",
    "most",
    "num_documents",
    "num_relevant",
    "num_retrieved",
    "of_items",
    "ratio",
    "relevant",
    "require",
    "top",
    "where",
]

L = TypeVar("L", Term, Value)

#: Columns of the ranked table.
SCORE, LABEL, RANK, IDEAL_RANK, DOC = (
    Field("score"), Field("label"), Field("rank"), Field("ideal_rank"), Field("doc"),
)  # fmt: skip
#: Whether a document is retrieved, and whether it is judged.
RETRIEVED, JUDGED = Field("retrieved"), Field("judged")


@dataclass(frozen=True)
class Selection:
    """A term of some documents of a ranking, to be reduced to a value."""

    term: Term
    order: Order
    k: int | Value | None = None

    def sum(self) -> Value:
        """Return the sum, ignoring nulls; 0 without documents."""
        return Reduction("sum", self.term, self.order, self.k)

    def count(self) -> Value:
        """Return the number of documents for which the term, a condition, is true."""
        return Reduction("count", self.term, self.order, self.k)

    def min(self) -> Value:
        """Return the minimum; null without documents."""
        return Reduction("min", self.term, self.order, self.k)

    def max(self) -> Value:
        """Return the maximum; null without documents."""
        return Reduction("max", self.term, self.order, self.k)


def top(
    term: Term | float, k: int | Value | None = None, weight: Function | None = None
) -> Selection:
    """Return `term` of the first k retrieved documents, multiplied by the weights of their ranks.

    The cutoff is a number of ranks, a value such as R, or None for all retrieved documents.
    """
    term = term_of(term)
    return Selection(term if weight is None else term * RANK.map(weight), "rank", k)


def at_hits(
    term: Callable[[Term, Term], Term], k: int | None = None, rel: float | None = None
) -> Selection:
    """Return `term`, a function of rank and hits, of the hits among the first k documents."""
    return top(where(relevant(rel), term(RANK, Hits(rel))), k)


def ideal_top(gain: Function, discount: Discount, k: int | Value | None = None) -> Selection:
    """Return gain times discount of the first k judged documents in ideal order."""
    return Selection(nodes.Gain(gain) * IDEAL_RANK.map(discount), "ideal", k)


def each(term: Term | float) -> Selection:
    """Return `term` of every document of the ranking, retrieved or not."""
    return Selection(term_of(term), "any")


def of_items(term: Term) -> Selection:
    """Return `term` of every document of `items`, or of the ranking if `items` lacks a column."""
    return Selection(term, "items")


def gain(gain: Function) -> Term:
    """Return the gain of each document; null if the document has no label."""
    return nodes.Gain(gain)


def relevant(rel: float | None = None) -> Term:
    """Return whether each document is relevant: label >= rel, by default the call's `rel`."""
    return Relevant(rel)


def column(
    name: str,
    parameter: str | None = None,
    *,
    kind: Literal["number", "count", "as is"] = "number",
    high: float | None = None,
    different_positions: bool = False,
) -> Term:
    """Return a column of the log, such as prices or clicks.

    Parameters
    ----------
    name
        Name of the column.
    parameter
        Parameter of the metric that names the column; errors mention it.
    kind
        "number" for finite numbers of 0 or more and "count" for whole ones, both as Float64, with
        NaN as null; "as is" for any other type. An evaluation raises an error for other values.
    high
        Highest valid number.
    different_positions
        Whether an evaluation by positions raises an error if two documents of a ranking have the
        same position.
    """
    parameter = parameter or "metrics"
    if not isinstance(name, str):
        raise ArgumentError(f"`{parameter}` must be the name of a column; found {short(name)}")
    check_name(name)
    return Column(name, parameter, kind, high, different_positions)


def num_documents() -> Value:
    """Return the number of documents of the ranking, retrieved or not."""
    return each(Field("document")).count()


def num_relevant(rel: float | None = None) -> Value:
    """Return R, the number of relevant documents, retrieved or not."""
    return each(relevant(rel)).count()


def num_retrieved(k: int | None = None) -> Value:
    """Return the number of retrieved documents, at most k."""
    number = each(RETRIEVED).count()
    return number if k is None else number.clip(high=k)


def in_order(term: Term, k: int | None = None) -> Listed:
    """Return `term` in rank order, followed by nulls for documents that are not retrieved.

    With k, the sequence ends at rank k.
    """
    return Listed(term_of(term), "rank", k)


def in_ideal_order(term: Term) -> Listed:
    """Return `term`, of labels and ideal ranks, in ideal order, with unjudged documents last."""
    return Listed(term_of(term), "ideal")


def in_any_order(term: Term) -> Listed:
    """Return `term` of every document in an unspecified order, the same for all such terms."""
    return Listed(term_of(term), "any")


def fold(function: Function, /, *sequences: Listed, **parameters: Hashable) -> Value:
    """Return a function of whole rankings, which reduces sequences of terms to one value.

    The function is called with one expression per sequence, and with the parameters by name.
    """
    return Fold(function, sequences, tuple(parameters.items()))


def batch(
    compute: Callable[..., pl.Series],
    read: Callable[..., Any],
    /,
    *parameters: Hashable,
    **terms: Term,
) -> Value:
    """Return a value that is computed for many rankings at once.

    `read` is called with the parameters and a column of the lists of documents, which have `terms`
    as fields; `compute` returns the values of what `read` returned. Metrics with equal sources
    share the result of `read`.
    """
    return Batch(compute, read, parameters, tuple(terms.items()))


def require(value: Value, condition: Value, problem: str) -> Value:
    """Return a value; an evaluation raises `DataError` if a condition does not hold for a ranking.

    An expression has no access to the keys of its ranking, and ignores the condition.
    """
    return Required(value, condition, problem)


def where(condition: L, value: L | Scalar, otherwise: L | Scalar = None) -> L:
    """Return a value if a condition holds, otherwise another value or null."""
    return condition.map(conditional, value, otherwise)


def ratio(part: Value | float, whole: Value) -> Value:
    """Return part / whole; null if the whole is not above 0."""
    return Value.mapped(quotient, (part, whole))


def least(first: L, *others: L | Scalar) -> L:
    """Return the smallest of several values."""
    return first.map(pl.min_horizontal, *others)


def most(first: L, *others: L | Scalar) -> L:
    """Return the largest of several values."""
    return first.map(pl.max_horizontal, *others)


def conditional(condition: pl.Expr, value: pl.Expr, otherwise: pl.Expr) -> pl.Expr:
    """Return a value if a condition holds, otherwise another value."""
    return pl.when(condition).then(value).otherwise(otherwise)


def quotient(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return part / whole; null if the whole is not above 0."""
    return pl.when(whole > 0).then(part / whole)
