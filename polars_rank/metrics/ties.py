"""Metrics of other orders of tied documents: the mean over all orders, and the reverse order.

Blocks of tied documents are independent, and all orders of a block are equally likely, so the mean
needs no sampling of orders (McSherry & Najork, Computing information retrieval performance measures
efficiently in the presence of tied scores, 2008). Both functions return another tree, which is
evaluated by rows.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import fields, replace
from functools import lru_cache, partial
from typing import cast

import polars as pl

from polars_rank.errors import ArgumentError
from polars_rank.metrics.analyses import leaves, reads_order, weighted
from polars_rank.metrics.expressions import conditional
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.nodes import (
    Batch,
    Column,
    Field,
    Fold,
    Function,
    Gain,
    Hits,
    Listed,
    MappedValue,
    Mean,
    Node,
    OfTies,
    Reduction,
    Relevant,
    Required,
    Term,
    UserExpression,
    Value,
    term_of,
)
from polars_rank.metrics.terms import quotient

POSITION, FIRST, LAST = Field("position"), Field("first"), Field("last")
_BEGIN, _END, _REVERSE = Field("begin"), Field("end"), Field("reverse")

#: The number of documents tied with each document, including itself.
TIED = LAST - FIRST + 1


class OrderMattersError(ArgumentError):
    """A value has no closed form for another order of tied documents."""


#: Fields that tied documents do not share.
_OF_DOCUMENTS = {Field(name) for name in ("label", "exact_label", "judged", "document")}

#: Functions that are linear in some operands, and the places of the others, which must not depend
#: on the order of tied documents.
_LINEAR: Mapping[Function, set[int]] = {
    operator.add: set(),
    operator.sub: set(),
    operator.neg: set(),
    operator.truediv: {1},
    quotient: {1},
    conditional: {0},
    pl.Expr.fill_null: {1},  # the order of tied documents does not make a metric undefined
}


@lru_cache(4096)
def is_settled(value: Value) -> bool:
    """Return whether a value is the same for all orders of tied documents."""
    if isinstance(value, (UserExpression, Mean)):
        return isinstance(value, UserExpression)  # taken as it is
    if isinstance(value, Reduction):
        if value.order == "ideal":
            return not isinstance(value.k, Value) or is_settled(value.k)
        term, _ = weighted(value.term, value.order)
        if not leaves(term) and not isinstance(value.k, Value):
            return True  # only the number of retrieved documents matters
        return not reads_order(value.term) and value.k is None
    if isinstance(value, Fold):
        return all(
            each.order != "rank" and (each.order == "ideal" or not reads_order(each.term))
            for each in value.sequences
        )
    if isinstance(value, Batch):
        return not any(map(reads_order, value.inputs))
    return all(map(is_settled, cast("tuple[Value, ...]", value.inputs)))


def expected(value: Value, *, whole_labels: bool) -> Value:
    """Return the mean of a value over all orders of tied documents.

    A sum over documents, each weighted by its rank, gives each document the mean weight of the
    ranks of its block. Other values allow only functions that are linear in them.

    Raises
    ------
    OrderMattersError
        If the mean has no closed form.
    """
    if isinstance(value, Mean) or is_settled(value):
        return value
    mean = partial(expected, whole_labels=whole_labels)
    if isinstance(value, Required):
        return Required(mean(value.value), value.condition, value.problem)
    if isinstance(value, MappedValue) and _is_linear(value):
        return replace(value, operands=tuple(map(mean, value.operands)))
    if isinstance(value, Reduction):
        return _expected_sum(value, whole_labels=whole_labels)
    raise OrderMattersError("a function of a value that the order of tied documents changes")


def _is_linear(value: MappedValue) -> bool:
    """Return whether a function is linear in the operands that depend on the order of ties."""
    unsettled = {i for i, each in enumerate(value.operands) if not is_settled(each)}
    if value.function is operator.mul:
        return len(unsettled) == 1
    return value.function in _LINEAR and not unsettled & _LINEAR[value.function]


def _expected_sum(value: Reduction, *, whole_labels: bool) -> Value:
    """Return a sum in which each document has the mean of its block."""
    term, weight = weighted(value.term, value.order)
    if value.how in {"min", "max"} or isinstance(value.k, Value) or reads_order(term):
        raise OrderMattersError("an extreme, or terms or cutoffs that depend on the order")
    is_whole = isinstance(term, Gain) and whole_labels and getattr(term.gain, "whole", False)
    if value.how == "count" or is_whole:
        if isinstance(term, Relevant):
            total: Term = hits_in_block(term.rel)
        else:
            # The sum of labels of 64 bits may need more bits.
            is_count = value.how == "count"
            exact = (term & Field("retrieved")).cast(pl.Int64) if is_count else term.cast(pl.Int128)
            total = OfTies(_block_sum, (exact, _BEGIN, _END))
        mean = total / TIED
        return Reduction("sum", mean if weight is None else mean * weight, "rank", value.k)
    # Fractions are summed within each ranking: in running sums over all rankings, rounding errors
    # would accumulate.
    places = (Listed(place, "any") for place in (FIRST, LAST, POSITION))
    weights = term_of(1.0) if weight is None else weight
    terms = Listed(term.cast(pl.Float64), "rank"), Listed(weights, "rank")
    return Fold(_weighed, (*places, *terms), (("k", value.k),))


def hits_in_block(rel: float | None) -> Term:
    """Return the number of hits among the documents tied with each document."""
    hit = Relevant(rel) & Field("retrieved")
    return OfTies(_block_hits, (Hits(rel), hit, _BEGIN, _END))


def hits_above_block(rel: float | None) -> Term:
    """Return the number of hits above the documents tied with each document."""
    return OfTies(_hits_above, (Hits(rel), Relevant(rel) & Field("retrieved"), _BEGIN))


def above(values: pl.Expr, rank: pl.Expr) -> pl.Expr:
    """Return the sum of the values above a rank, given the values of one ranking in rank order."""
    running = values.cast(pl.Float64).cum_sum()
    place = (rank - 2).clip(0).cast(pl.UInt32)
    return pl.when(rank > 1).then(running.gather(place)).otherwise(0.0)


# Differences of running sums over all rows are exact, because they are integers.


def _block_sum(values: pl.Expr, begin: pl.Expr, end: pl.Expr) -> pl.Expr:
    number = values.fill_null(0)
    running = number.cum_sum()
    return (running.gather(end) - (running - number).gather(begin)).cast(pl.Float64)


def _block_hits(hits: pl.Expr, hit: pl.Expr, begin: pl.Expr, end: pl.Expr) -> pl.Expr:
    hits, hit = hits.cast(pl.Int64), hit.cast(pl.Int64)
    return (hits.gather(end) - (hits - hit).gather(begin)).cast(pl.Float64)


def _hits_above(hits: pl.Expr, hit: pl.Expr, begin: pl.Expr) -> pl.Expr:
    return (hits.cast(pl.Int64) - hit.cast(pl.Int64)).gather(begin).cast(pl.Float64)


def _weighed(
    first: pl.Expr,
    last: pl.Expr,
    place: pl.Expr,
    term: pl.Expr,
    weights: pl.Expr,
    *,
    k: int | None,
) -> pl.Expr:
    """Return the sum of a term, weighted by the mean weight of each document's possible ranks."""
    weights = weights.fill_null(0.0)
    if k is not None:
        weights = pl.when(k >= place).then(weights).otherwise(0.0)
    weighed = above(weights, last + 1) - above(weights, first)
    return (term * weighed / (last - first + 1)).sum()


def reverse(value: Value) -> Value:
    """Return a value of the reverse order of tied documents.

    In the best order, tied documents with the highest label come first; the worst order is its
    reverse. Each row keeps its rank, and has the label of another document.

    Raises
    ------
    OrderMattersError
        If the value reads more than labels and ranks.
    """
    return cast("Value", _reverse(value))


def has_reverse(metric: pl.Expr) -> bool:
    """Return whether a metric has a value of the reverse order of ties."""
    try:
        reverse(metric.tree if isinstance(metric, Metric) else UserExpression(metric))
    except OrderMattersError:
        return False
    return True


@lru_cache(4096)
def _reverse(node: Node) -> Node:
    if isinstance(node, (UserExpression, Batch, Column)) or node in {
        Field("ideal_rank"),
        Field("doc"),
    }:
        raise OrderMattersError("a column that moves with the documents")
    if node in _OF_DOCUMENTS or isinstance(node, (Relevant, Gain)):
        return OfTies(pl.Expr.gather, (cast("Term", node), _REVERSE))
    if isinstance(node, Hits):
        hit = Relevant(node.rel) & Field("retrieved")
        return OfTies(_reversed_hits, (node, hit, _BEGIN, _END, _REVERSE))
    if isinstance(node, (Reduction, Listed)) and node.order == "ideal":
        return node
    changed: dict[str, object] = {}
    for field in fields(node):  # type: ignore[arg-type]  # nodes are dataclasses
        held = getattr(node, field.name)
        if isinstance(held, Node):
            changed[field.name] = _reverse(held)
        elif isinstance(held, tuple) and held and isinstance(held[0], Node):
            changed[field.name] = tuple(map(_reverse, held))
    return replace(node, **changed) if changed else node  # type: ignore[type-var]


def _reversed_hits(
    hits: pl.Expr, hit: pl.Expr, begin: pl.Expr, end: pl.Expr, back: pl.Expr
) -> pl.Expr:
    hits = hits.cast(pl.Int64)
    before = hits - hit.cast(pl.Int64)
    return before.gather(begin) + hits.gather(end) - before.gather(back)
