"""Terms of documents, and their reductions to a value per ranking, from which metrics are built.

A metric is a function that selects documents, such as the first k with `top`; reduces a term of
them to a `Value`, such as a sum; and does arithmetic with values. The functions are called with the
name of this module, as in `t.top(t.gain(gain), k).sum()`. `define_metric` turns the function into a
metric.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, get_args

import polars as pl

from polars_rank._params import OWN, check_name, number, one_of, whole_number
from polars_rank.discounts import DISCOUNTS, Discount
from polars_rank.errors import ArgumentError, short
from polars_rank.frames.tables import own_name
from polars_rank.gains import Gain, function_of, gain_of
from polars_rank.metrics import nodes
from polars_rank.metrics.analyses import is_condition, is_neutral, leaves
from polars_rank.metrics.expressions import conditional
from polars_rank.metrics.nodes import Field, Function, Listed, Order, Scalar, Term, Value, term_of

__all__ = [
    "DOC", "IDEAL_RANK", "JUDGED", "LABEL", "RANK", "RETRIEVED", "SCORE", "Term", "Value",
    "at_hits", "batch", "column", "each", "fold", "gain", "ideal_top", "in_any_order",
    "in_ideal_order", "in_order", "least", "most", "num_documents", "num_relevant", "num_retrieved",
    "ratio", "relevant", "require", "top", "where",
]  # fmt: skip

L = TypeVar("L", Term, Value)

#: Kinds of columns of the log.
Kind: TypeAlias = Literal["number", "count", "as is"]

#: Score of the document.
SCORE = Field("score")
#: Label of the document as Float64; null if it is unjudged.
LABEL = Field("label")
#: Rank of the document as Float64, from 1; null if it is not retrieved.
RANK = Field("rank")
#: Rank of the document in the ideal ranking as Float64, from 1; null if it is unjudged.
IDEAL_RANK = Field("ideal_rank")
#: Id of the document.
DOC = Field("doc")
#: Whether the document is retrieved.
RETRIEVED = Field("retrieved")
#: Whether the document has a label.
JUDGED = Field("judged")


@dataclass(frozen=True, repr=False)
class Selection:
    """A term of some documents of a ranking, to be reduced to a value."""

    term: Term
    order: Order
    k: int | Value | None = None

    def sum(self) -> Value:
        """Return the sum, ignoring nulls; 0 without documents."""
        return self._reduced("sum", self.term)

    def count(self) -> Value:
        """Return the number of documents for which the term, a condition, is true."""
        known = is_condition(self.term)
        if known is False:
            raise ArgumentError(
                "is for conditions, but the term has numbers; count where it is in a "
                "range, as in t.top(t.LABEL > 0).count(), or where it is known, as in "
                "t.top(~t.LABEL.is_null()).count()",
                "count",
            )
        # Polars rejects a column that is not Boolean as a condition.
        return self._reduced("count", self.term if known else where(self.term, True))  # noqa: FBT003

    def min(self) -> Value:
        """Return the minimum; null without documents."""
        return self._reduced("min", self.term)

    def max(self) -> Value:
        """Return the maximum; null without documents."""
        return self._reduced("max", self.term)

    def _reduced(self, how: nodes.How, term: Term) -> Value:
        value = nodes.Reduction(how, term, self.order, self.k)
        if self.order == "any" and not is_neutral(value.elements):
            # A ranking may have rows that are not documents.
            return replace(value, term=where(Field("document"), term))
        return value

    def __repr__(self) -> str:
        return "a selection of documents"


def _unreduced(*_: object) -> NoReturn:
    raise ArgumentError(
        "a selection of documents is not a value; reduce it with `sum`, `count`, `min` or "
        "`max`, as in t.top(t.LABEL, 10).sum()"
    )


# Type checkers do not see these methods, so that they report the operators.
for _operator in (
    *("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "neg"),
    *("gt", "ge", "lt", "le", "and", "rand", "or", "ror", "invert", "bool"),
):
    setattr(Selection, f"__{_operator}__", _unreduced)


def top(
    term: Term | float, k: int | Value | None = None, weight: Discount | None = None
) -> Selection:
    """Return a term of the first k retrieved documents.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(high=None)
    ... def total_price(k: int | None = None) -> t.Value:
    ...     return t.top(t.column("price"), k).sum()
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": 0, "price": [9, 5, 7],
    ... })
    >>> pr.per_query(log, ["total_price@2", "total_price"]).row(0)
    (1, 14.0, 21.0)

    Parameters
    ----------
    term
        Term or number.
    k
        Number of ranks, or a value per ranking, such as R; a null or a value below 1 selects no
        documents. None: all retrieved documents.
    weight
        Weight of a rank, by which the term is multiplied: the name of a discount, or a function
        Expr -> Expr. None: no weight.

    Returns
    -------
    Selection
        Its methods `sum`, `count`, `min` and `max` return a `Value`. `count` is for conditions.
    """
    term, k = term_of(term), _cutoff(k)
    if weight is not None:
        term *= RANK.map(function_of("weight", weight, DISCOUNTS))
    return Selection(term, "rank", k)


def at_hits(
    term: Callable[[Term, Term], Term], k: int | None = None, rel: float | None = None
) -> Selection:
    """Return a term of the relevant documents among the first k.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(high=None)
    ... def precisions(k: int | None = None) -> t.Value:
    ...     return t.at_hits(lambda rank, hits: hits / rank, k).sum()
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> pr.per_query(log, ["precisions@2", "precisions"]).row(0)
    (1, 1.0, 1.6666666666666665)

    Parameters
    ----------
    term
        Function of the rank and of the number of relevant documents down to it.
    k
        Cutoff. None: all retrieved documents.
    rel
        Lowest relevant label. None: the `rel` of `evaluate`.

    Returns
    -------
    Selection
        Its methods `sum`, `min` and `max` return a `Value`.
    """
    return top(where(relevant(rel), term(RANK, nodes.Hits(rel))), k)


def ideal_top(gain: Gain, discount: Discount, k: int | Value | None = None) -> Selection:
    """Return gain times discount of the first k judged documents in ideal order.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(undefined="no document has a gain above 0")
    ... def gain_share(k: int | None = None) -> t.Value:
    ...     ideal = t.ideal_top("exp2", "reciprocal", k).sum()
    ...     return t.ratio(t.top(t.gain("exp2"), k, "reciprocal").sum(), ideal)
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 2, 0],
    ... })
    >>> pr.per_query(log, "gain_share@2").row(0)
    (1, 0.5)

    Parameters
    ----------
    gain
        Gain of a label: a name, a mapping, or a function Expr -> Expr.
    discount
        Discount of a rank: a name, or a function Expr -> Expr.
    k
        Number of ranks, or a value per ranking. None: all judged documents.

    Returns
    -------
    Selection
        Its methods `sum`, `min` and `max` return a `Value`.
    """
    weight = IDEAL_RANK.map(function_of("discount", discount, DISCOUNTS))
    return Selection(nodes.Gain(gain_of(gain)) * weight, "ideal", _cutoff(k))


def each(term: Term | float) -> Selection:
    """Return a term of every document of the ranking, retrieved or not.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(high=None, order_matters="never")
    ... def highest_label() -> t.Value:
    ...     return t.each(t.LABEL).max()
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, None], "label": [0, 1, 4],
    ... })
    >>> pr.per_query(log, "highest_label").row(0)
    (1, 4.0)

    Parameters
    ----------
    term
        Term or number.

    Returns
    -------
    Selection
        Its methods `sum`, `count`, `min` and `max` return a `Value`.
    """
    return Selection(term_of(term), "any")


def gain(gain: Gain) -> Term:
    """Return the gain of each document; null if the document has no label.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(high=None)
    ... def best_gain(k: int = 10) -> t.Value:
    ...     return t.top(t.gain({0: 0, 1: 1, 2: 5}), k).max()
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 2, 1],
    ... })
    >>> pr.per_query(log, "best_gain@2").row(0)
    (1, 5.0)

    Parameters
    ----------
    gain
        Gain of a label: "linear", "exp2", "binary", a mapping `{grade: gain}`, or a function
        Expr -> Expr.

    Returns
    -------
    Term
        One gain per document.
    """
    return nodes.Gain(gain_of(gain))


def relevant(rel: float | None = None) -> Term:
    """Return whether each document is relevant; False if it has no label.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(undefined="no document is retrieved")
    ... def mistakes(k: int = 10) -> t.Value:
    ...     return t.ratio(t.top(~t.relevant(), k).count(), t.num_retrieved(k))
    >>> log = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [2, 1]})
    >>> pr.per_query(log, "mistakes@2", rel=2).row(0)
    (1, 0.5)

    Parameters
    ----------
    rel
        Lowest relevant label. None: the `rel` of `evaluate`.

    Returns
    -------
    Term
        A condition per document.
    """
    return nodes.Relevant(rel)


def column(
    name: str, parameter: str | None = None, *, kind: Kind = "number", high: float | None = None
) -> Term:
    """Return a column of the log, such as prices or clicks.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(undefined="no document is retrieved")
    ... def on_sale(k: int = 10, *, sale: str = "sale") -> t.Value:
    ...     reduced = t.column(sale, "sale") > 0
    ...     return t.ratio(t.top(reduced, k).count(), t.num_retrieved(k))
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0], "label": 0, "promo": [False, True],
    ... })
    >>> pr.per_query(log, "on_sale(sale='promo')@2").item(0, 1)
    0.5

    Parameters
    ----------
    name
        Name of the column.
    parameter
        Parameter of the metric that names the column; errors mention it. None: the metric has no
        such parameter.
    kind
        "number" for finite numbers of 0 or more and "count" for whole ones, both as Float64, with
        NaN as null; "as is" for any other type. An evaluation raises an error for other values.
    high
        Highest valid number.

    Returns
    -------
    Term
        One value per document.
    """
    if not isinstance(name, str):
        raise ArgumentError(
            f"`{parameter or 'name'}` must be the name of a column; found {short(name)}"
        )
    check_name(name)
    if name.startswith(OWN):
        raise own_name(name)
    one_of("kind", kind, get_args(Kind))
    if high is not None:
        number("high", high)
    return nodes.Column(name, parameter or "metrics", kind, high)


def num_documents() -> Value:
    """Return the number of documents of the ranking, retrieved or not.

    Returns
    -------
    Value
        A count per ranking.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(order_matters="never")
    ... def share_relevant() -> t.Value:
    ...     return t.ratio(t.num_relevant(), t.num_documents())
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None, None], "label": [1, 0, 0, 0],
    ... })
    >>> pr.per_query(log, "share_relevant").row(0)
    (1, 0.25)
    """
    return each(Field("document")).count()


def num_relevant(rel: float | None = None) -> Value:
    """Return R, the number of relevant documents, retrieved or not.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(undefined="no document is relevant")
    ... def found_in_r() -> t.Value:
    ...     found = t.top(t.relevant(), t.num_relevant()).count()
    ...     return t.ratio(found, t.num_relevant())
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> pr.per_query(log, "found_in_r").row(0)
    (1, 0.5)

    Parameters
    ----------
    rel
        Lowest relevant label. None: the `rel` of `evaluate`.

    Returns
    -------
    Value
        A count per ranking.
    """
    return each(relevant(rel)).count()


def num_retrieved(k: int | None = None) -> Value:
    """Return the number of retrieved documents, at most k.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(order_matters="never")
    ... def filled(k: int = 10) -> t.Value:
    ...     return t.num_retrieved(k) / k
    >>> log = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": 0})
    >>> pr.per_query(log, ["filled@2", "filled@4"]).row(0)
    (1, 1.0, 0.75)

    Parameters
    ----------
    k
        Cutoff. None: all retrieved documents.

    Returns
    -------
    Value
        A count per ranking.
    """
    retrieved = each(RETRIEVED).count()
    return retrieved if k is None else retrieved.clip(high=whole_number("k", k))


def in_order(term: Term, k: int | None = None) -> Listed:
    """Return a term as a sequence in rank order, for `fold`.

    Examples
    --------
    >>> t = pr.terms
    >>> def falls(label: pl.Expr) -> pl.Expr:
    ...     return (label.diff() < 0).sum()
    >>> @pr.define_metric(high=None)
    ... def drops(k: int | None = None) -> t.Value:
    ...     return t.fold(falls, t.in_order(t.LABEL, k))
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 0, 2, 1],
    ... })
    >>> pr.per_query(log, ["drops@3", "drops"]).row(0)
    (1, 1.0, 2.0)

    Parameters
    ----------
    term
        Term or number.
    k
        Length of the sequence. None: all documents; those that are not retrieved are nulls at
        the end.

    Returns
    -------
    Listed
        A sequence.
    """
    return Listed(term_of(term), "rank", None if k is None else whole_number("k", k))


def in_ideal_order(term: Term) -> Listed:
    """Return a term as a sequence in ideal order, for `fold`.

    Examples
    --------
    >>> t = pr.terms
    >>> def agreeing(label: pl.Expr, ideal: pl.Expr) -> pl.Expr:
    ...     return (label == ideal).mean()
    >>> @pr.define_metric()
    ... def in_place() -> t.Value:
    ...     return t.fold(agreeing, t.in_order(t.LABEL), t.in_ideal_order(t.LABEL))
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [3, 1, 2, 0],
    ... })
    >>> pr.per_query(log, "in_place").row(0)
    (1, 0.5)

    Parameters
    ----------
    term
        Term of `LABEL`, `gain`, `JUDGED` and `IDEAL_RANK`. Other terms are unknown in ideal order.

    Returns
    -------
    Listed
        A sequence, with unjudged documents last.
    """
    for leaf in leaves(term_of(term)):
        if leaf not in {LABEL, JUDGED, IDEAL_RANK} and not isinstance(leaf, nodes.Gain):
            name = getattr(leaf, "name", type(leaf).__name__.lower())
            raise ArgumentError(
                "must read LABEL, gain, JUDGED and IDEAL_RANK only, because other terms are "
                f"unknown in ideal order; found {name!r}",
                "term",
            )
    return Listed(term_of(term), "ideal")


def in_any_order(term: Term) -> Listed:
    """Return a term as a sequence of all documents in an unspecified order, for `fold`.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(high=None, order_matters="never")
    ... def median_price() -> t.Value:
    ...     return t.fold(pl.Expr.median, t.in_any_order(t.column("price")))
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": 0, "price": [9, 5, 7],
    ... })
    >>> pr.per_query(log, "median_price").row(0)
    (1, 7.0)

    Parameters
    ----------
    term
        Term or number.

    Returns
    -------
    Listed
        A sequence, in the same order for all terms.
    """
    return Listed(term_of(term), "any")


def fold(function: Function, /, *sequences: Listed, **parameters: Hashable) -> Value:
    """Return a function of whole rankings, which reduces sequences of terms to one value.

    Examples
    --------
    >>> t = pr.terms
    >>> def spread(price: pl.Expr, *, share: float) -> pl.Expr:
    ...     return price.quantile(1 - share) - price.quantile(share)
    >>> @pr.define_metric(high=None, expected=False)
    ... def price_spread(k: int = 10, *, share: float = 0) -> t.Value:
    ...     return t.fold(spread, t.in_order(t.column("price"), k), share=share)
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": 0, "price": [9, 5, 1],
    ... })
    >>> pr.per_query(log, ["price_spread@2", "price_spread@3"]).row(0)
    (1, 4.0, 8.0)

    Parameters
    ----------
    function
        Function of one expression per sequence, and of the parameters by name. It returns an
        expression with one value, and reads nothing but its arguments.
    *sequences
        Results of `in_order`, `in_ideal_order` and `in_any_order`.
    **parameters
        Hashable parameters of the function.

    Returns
    -------
    Value
        One value per ranking. `ties="expected"` does not support folds in rank order.
    """
    for each in sequences:
        if not isinstance(each, Listed):
            raise ArgumentError(
                "a fold must read sequences, such as t.in_order(t.LABEL); found "
                f"{nodes.described(each)}"
            )
    return nodes.Fold(function, sequences, nodes.hashable(parameters))


def batch(
    compute: Callable[..., pl.Series],
    read: Callable[..., Any],
    /,
    *parameters: Hashable,
    **terms: Term,
) -> Value:
    """Return a value that Python functions compute for many rankings at once.

    Examples
    --------
    >>> t = pr.terms
    >>> def prices(lists: pl.Series) -> list[list[float]]:
    ...     return [[row["price"] for row in rows] for rows in lists.to_list()]
    >>> def ranges(lists: list[list[float]]) -> pl.Series:
    ...     return pl.Series([max(each) - min(each) for each in lists])
    >>> @pr.define_metric(high=None, order_matters="never")
    ... def price_range() -> t.Value:
    ...     return t.batch(ranges, prices, price=t.column("price"))
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0], "label": 0, "price": [9, 5],
    ... })
    >>> pr.per_query(log, "price_range").row(0)
    (1, 4.0)

    Parameters
    ----------
    compute
        Function of the result of `read`, which returns a Series of Float64 with one value per
        ranking.
    read
        Function of the parameters and of a Series of lists: the documents of each ranking, in an
        unspecified order, as structs with the terms as fields.
    *parameters
        Hashable parameters of `read`. Batches that differ only in `compute` share its result.
    **terms
        Terms, by the name of the field.

    Returns
    -------
    Value
        One value per ranking. `ties="expected"` does not support batches that read ranks.
    """
    nodes.hashable({"parameters": parameters})
    fields = ((name, term_of(term)) for name, term in terms.items())
    return nodes.Batch(compute, read, parameters, tuple(fields))


def require(value: Value, condition: Value, problem: str) -> Value:
    """Return a value; an evaluation raises an error unless a condition holds for all rankings.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(high=None)
    ... def complete_dcg(k: int = 10) -> t.Value:
    ...     judged = t.top(t.JUDGED, k).count() >= t.num_retrieved(k)
    ...     return t.require(pr.dcg.tree(k), judged, "unjudged documents")
    >>> log = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, None]})
    >>> pr.per_query(log, "complete_dcg@1").row(0)
    (1, 1.0)

    Parameters
    ----------
    value
        The value to return.
    condition
        Condition on each ranking.
    problem
        Message of the `DataError` if the condition does not hold.

    Returns
    -------
    Value
        The value. In `group_by`, an expression has no access to the keys of its ranking, and
        ignores the condition.
    """
    return nodes.Required(nodes.value_of(value), nodes.value_of(condition), problem)


def where(condition: L, value: L | Scalar, otherwise: L | Scalar = None) -> L:
    """Return a value if a condition holds, otherwise another value or null.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(undefined="no document is relevant")
    ... def first_relevant_score() -> t.Value:
    ...     return t.top(t.where(t.relevant(), t.SCORE)).max()
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [0.9, 0.4, 0.1], "label": [0, 1, 1],
    ... })
    >>> pr.per_query(log, "first_relevant_score").row(0)
    (1, 0.4)

    Parameters
    ----------
    condition
        Condition on documents (a `Term`) or on the ranking (a `Value`).
    value, otherwise
        Terms or numbers for a condition on documents; values or numbers for one on the ranking.

    Returns
    -------
    Term or Value
        As the condition.
    """
    if not isinstance(condition, (Term, Value)):
        raise ArgumentError(
            f"must be a term or a value; found {short(condition)}; write "
            "t.LABEL.equals(2) instead of t.LABEL == 2",
            "condition",
        )
    return condition.map(conditional, value, otherwise)


def ratio(part: Value | float, whole: Value) -> Value:
    """Return part / whole; null if the whole is not above 0.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(undefined="no document is relevant")
    ... def found(k: int = 10) -> t.Value:
    ...     return t.ratio(t.top(t.relevant(), k).count(), t.num_relevant())
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2], "score": [2.0, 1.0, 1.0], "label": [0, 1, 0],
    ... })
    >>> pr.per_query(log, "found@2", undefined="null")["found@2"].to_list()
    [1.0, None]

    Parameters
    ----------
    part
        Value or number.
    whole
        Value.

    Returns
    -------
    Value
        One value per ranking.
    """
    return Value.mapped(quotient, (part, whole))


def least(first: L, *others: L | Scalar) -> L:
    """Return the smallest of several terms, or of several values.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(undefined="no document is relevant")
    ... def found_of_possible(k: int = 10) -> t.Value:
    ...     found = t.top(t.relevant(), k).count()
    ...     return t.ratio(found, t.least(t.num_relevant(), t.num_retrieved(k)))
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None], "label": [1, 0, 1],
    ... })
    >>> pr.per_query(log, "found_of_possible@2").row(0)
    (1, 0.5)

    Parameters
    ----------
    first
        Term or value.
    *others
        Operands of the same kind, or numbers.

    Returns
    -------
    Term or Value
        As the first operand; nulls are ignored.
    """
    return _first(first).map(pl.min_horizontal, *others)


def most(first: L, *others: L | Scalar) -> L:
    """Return the largest of several terms, or of several values.

    Examples
    --------
    >>> t = pr.terms
    >>> @pr.define_metric(high=None)
    ... def best_of_two(k: int = 10) -> t.Value:
    ...     return t.top(t.most(t.LABEL, t.column("other_label")), k).max()
    >>> log = pl.DataFrame({
    ...     "query": 1, "score": [1.0], "label": [1], "other_label": [3],
    ... })
    >>> pr.per_query(log, "best_of_two@1").row(0)
    (1, 3.0)

    Parameters
    ----------
    first
        Term or value.
    *others
        Operands of the same kind, or numbers.

    Returns
    -------
    Term or Value
        As the first operand; nulls are ignored.
    """
    return _first(first).map(pl.max_horizontal, *others)


def _first(operand: L) -> L:
    if not isinstance(operand, (Term, Value)):
        raise ArgumentError(f"must be a term or a value; found {short(operand)}", "first")
    return operand


def _cutoff(k: int | Value | None) -> int | Value | None:
    """Return a cutoff; raise `ArgumentError` for anything else."""
    return k if k is None or isinstance(k, Value) else whole_number("k", k)


def quotient(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return part / whole; null if the whole is not above 0."""
    return pl.when(whole > 0).then(part / whole)
