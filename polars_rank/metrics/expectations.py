"""Metrics of other orders of tied documents: the mean over all orders, and the reverse order.

Blocks of tied documents are independent, and all orders of a block are equally likely, so the mean
needs no sampling of orders (McSherry & Najork, Computing information retrieval performance measures
efficiently in the presence of tied scores, 2008). Means and reverses are other trees, which are
evaluated by rows. Metrics that are not sums over documents have a second definition of the same
name, over the rows of a ranking in rank order, in which the order of tied documents is arbitrary.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Literal, cast

import polars as pl

from polars_rank._polars import reads_column
from polars_rank.discounts import reciprocal
from polars_rank.errors import ArgumentError
from polars_rank.metrics import nodes, user_models
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.analyses import leaves, reads_order, weighted
from polars_rank.metrics.expressions import IS_RETRIEVED, conditional, of_lists
from polars_rank.metrics.metric import Metric, tree_of
from polars_rank.metrics.nodes import Field, Function, Gain, Hits, Relevant, Term, Value, term_of
from polars_rank.metrics.relevance import normalized
from polars_rank.metrics.vocabulary import LABEL, RETRIEVED, least, quotient, where

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
    if isinstance(value, (nodes.UserExpression, nodes.Mean)):
        return isinstance(value, nodes.UserExpression)  # taken as it is
    if isinstance(value, nodes.Reduction):
        if value.order == "ideal":
            return not isinstance(value.k, Value) or is_settled(value.k)
        term, _ = weighted(value.term, value.order)
        if not leaves(term) and not isinstance(value.k, Value):
            return True  # only the number of retrieved documents matters
        return not reads_order(value.term) and value.k is None
    if isinstance(value, nodes.Fold):
        return all(
            each.order != "rank" and (each.order == "ideal" or not reads_order(each.term))
            for each in value.sequences
        )
    if isinstance(value, nodes.Batch):
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
    if isinstance(value, nodes.Mean) or is_settled(value):
        return value
    mean = partial(expected, whole_labels=whole_labels)
    if isinstance(value, nodes.Required):
        return nodes.Required(mean(value.value), value.condition, value.problem)
    if isinstance(value, nodes.MappedValue) and _is_linear(value):
        return replace(value, operands=tuple(map(mean, value.operands)))
    if isinstance(value, nodes.Reduction):
        return _expected_sum(value, whole_labels=whole_labels)
    raise OrderMattersError("a function of a value that the order of tied documents changes")


def _is_linear(value: nodes.MappedValue) -> bool:
    """Return whether a function is linear in the operands that depend on the order of ties."""
    unsettled = {i for i, each in enumerate(value.operands) if not is_settled(each)}
    if value.function is operator.mul:
        return len(unsettled) == 1
    return value.function in _LINEAR and not unsettled & _LINEAR[value.function]


def _expected_sum(value: nodes.Reduction, *, whole_labels: bool) -> Value:
    """Return a sum in which each document has the mean of its block."""
    term, weight = weighted(value.term, value.order)
    if value.how in {"min", "max"} or isinstance(value.k, Value) or reads_order(term):
        raise OrderMattersError("an extreme, or terms or cutoffs that depend on the order")
    is_whole = isinstance(term, Gain) and whole_labels and getattr(term.gain, "whole", False)
    if value.how == "count" or is_whole:
        # The sum of labels of 64 bits may need more bits.
        is_count = value.how == "count"
        exact = (term & RETRIEVED).cast(pl.Int64) if is_count else term.cast(pl.Int128)
        mean = nodes.OfTies(_block_sum, (exact, _BEGIN, _END)) / TIED
        return nodes.Reduction("sum", mean if weight is None else mean * weight, "rank", value.k)
    # Fractions are summed within each ranking: in running sums over all rankings, rounding errors
    # would accumulate.
    weights = term_of(1.0) if weight is None else weight
    terms = t.in_order(term.cast(pl.Float64)), t.in_order(_down_to(value.k, weights))
    return t.fold(_weighed, *map(t.in_any_order, (FIRST, LAST)), *terms)


def _down_to(k: int | None, weights: Term) -> Term:
    """Return the weights of the first k positions, and 0 for the others."""
    return weights if k is None else where(k >= POSITION, weights, 0.0)


def hits_in_block(rel: float | None) -> Term:
    """Return the number of hits among the documents tied with each document."""
    hit = (Relevant(rel) & RETRIEVED).cast(pl.Int64)
    return nodes.OfTies(_block_sum, (hit, _BEGIN, _END))


def _hits_before(rel: float | None) -> Term:
    """Return the number of hits above each document."""
    return Hits(rel) - (Relevant(rel) & RETRIEVED).cast(pl.Float64)


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


def _weighed(first: pl.Expr, last: pl.Expr, term: pl.Expr, weights: pl.Expr) -> pl.Expr:
    """Return the sum of a term, weighted by the mean weight of each document's possible ranks."""
    weights = weights.fill_null(0.0)
    weighed = above(weights, last + 1) - above(weights, first)
    return (term * weighed / (last - first + 1)).sum()


@lru_cache(4096)
def reverse(node: Any) -> Any:
    """Return a value of the reverse order of tied documents.

    In the best order, tied documents with the highest label come first; the worst order is its
    reverse. Each row keeps its rank, and has the label of another document.

    Raises
    ------
    OrderMattersError
        If the value reads more than labels and ranks.
    """
    if isinstance(node, (nodes.UserExpression, nodes.Batch, nodes.Column)) or node in {
        Field("ideal_rank"),
        Field("doc"),
    }:
        raise OrderMattersError("a column that moves with the documents")
    if node in _OF_DOCUMENTS or isinstance(node, (Relevant, Gain)):
        return nodes.OfTies(pl.Expr.gather, (node, _REVERSE))
    if isinstance(node, Hits):
        before = _hits_before(node.rel)
        places = ((before, _BEGIN), (node, _END), (before, _REVERSE))
        above, in_block, below = (nodes.OfTies(pl.Expr.gather, each) for each in places)
        return above + in_block - below
    if isinstance(node, (nodes.Reduction, nodes.Listed)) and node.order == "ideal":
        return node
    return node.with_inputs(reverse)


def has_reverse(metric: pl.Expr) -> bool:
    """Return whether a metric has a value of the reverse order of ties."""
    try:
        reverse(tree_of(metric))
    except OrderMattersError:
        return False
    return True


#: Columns of the ranked table that depend on the order of tied documents.
_RANKS = ("rank", "hits", "ideal_rank")


def expectation(metric: pl.Expr, *, whole_labels: bool) -> Value:
    """Return the mean of a metric over all orders of tied documents, as a tree."""
    if not isinstance(metric, Metric):
        if any(reads_column(metric, name, besides=IS_RETRIEVED) for name in _RANKS):
            raise ArgumentError(
                "`ties='expected'` does not support expressions that read ranks; use a metric; "
                f"found {metric}"
            )
        return nodes.UserExpression(metric)
    try:
        return expected(_with_means(metric, whole_labels=whole_labels), whole_labels=whole_labels)
    except OrderMattersError:
        raise ArgumentError(
            f"{metric} has no closed form for ties='expected'; use ties='best' and "
            "ties='worst' for its bounds"
        ) from None


def has_expectation(metric: pl.Expr) -> bool:
    """Return whether the mean over all orders of ties has a closed form."""
    try:
        expectation(metric, whole_labels=False)
    except ArgumentError:
        return False
    return True


def _with_means(metric: Metric, *, whole_labels: bool) -> Value:
    """Return the tree of a metric with second definitions where the first has no closed form."""
    if metric.parts:
        parts = metric._with(partial(_with_means, whole_labels=whole_labels))
        return metric.function(**parts)
    second = EXPECTATIONS.get(metric.function.__name__)
    if second is None:
        return metric.tree
    try:
        expected(metric.tree, whole_labels=whole_labels)
    except OrderMattersError:
        return nodes.Mean(second(**metric.arguments))
    return metric.tree


def hit_rate(k: int | None = None, *, rel: float | None = None) -> Value:
    """Return the probability that a relevant document is among the first k."""
    found = t.fold(_any_found, t.in_order(_first_hit_probability(rel), k))
    return where(t.num_relevant(rel) > 0, found)


def _any_found(likely: pl.Expr) -> pl.Expr:
    return 1 - (1 - likely).cum_prod().min().fill_null(1.0)


def full_recall(k: int | None = None, *, rel: float | None = None) -> Value:
    """Return the probability that all relevant documents are among the first k."""
    found, wanted = t.top(t.relevant(rel)).count(), t.num_relevant(rel)
    # The i-th of the h hits of a block of n documents, of which m are among the first k, is one
    # of the m - i among the n - i that are left.
    left = LAST + 1 - POSITION
    room = left if k is None else least(LAST, term_of(k)) + 1 - POSITION
    likely = where(hits_in_block(rel) > POSITION - FIRST, room.clip(0) / left, 1.0)
    every = t.fold(pl.Expr.product, t.in_any_order(likely))
    return where(wanted > 0, where(found.equals(wanted), every, 0.0))


def top_k_accuracy(k: int, *, rel: float | None = None) -> Value:
    """Return the probability that a document of the highest label is among the first k."""
    places = map(t.in_any_order, (POSITION, FIRST, LAST))
    found = t.fold(_best_found, *places, t.in_order(LABEL), t.in_any_order(LABEL), k=k)
    return where(t.num_relevant(rel) > 0, found)


def _best_found(
    place: pl.Expr, first: pl.Expr, last: pl.Expr, label: pl.Expr, every: pl.Expr, *, k: int
) -> pl.Expr:
    best = (label == every.max()).fill_null(value=False)
    tied = above(best, last + 1) - above(best, first)
    likely = (tied / (last + 1 - place)).clip(0, 1)
    return 1 - (1 - likely).cum_prod().head(k).min().fill_null(1.0)


def reciprocal_rank(k: int | None = None, *, rel: float | None = None) -> Value:
    """Return the sum of 1 / rank times the probability that the first hit is at that rank."""
    likely = _first_hit_probability(rel)
    found = t.fold(_first_found, t.in_order(likely, k), t.in_order(POSITION, k))
    return where(t.num_relevant(rel) > 0, found)


def _first_found(likely: pl.Expr, place: pl.Expr) -> pl.Expr:
    missed = (1 - likely).cum_prod().shift(1, fill_value=1.0)
    return (likely * missed / place).sum()


def r_precision(*, multiple: float = 1, rel: float | None = None) -> Value:
    """Return the expected number of hits down to the cutoff, divided by the cutoff."""
    relevant = t.relevant(rel)
    blocks = t.in_any_order(FIRST), t.in_any_order(LAST)
    relevances = t.in_order(relevant), t.in_any_order(relevant)
    return t.fold(_share_of_cutoff, *blocks, *relevances, multiple=multiple)


def _share_of_cutoff(
    first: pl.Expr, last: pl.Expr, relevant: pl.Expr, every: pl.Expr, *, multiple: float
) -> pl.Expr:
    cutoff = every.sum().cast(pl.Float64)
    if multiple != 1:
        cutoff = (cutoff * float(multiple) + 0.9).floor()
    ties = last - first + 1
    share = (relevant * (cutoff - first + 1).clip(0, ties) / ties).sum() / cutoff
    return pl.when(cutoff > 0).then(share)


def average_precision(
    k: int | None = None,
    *,
    norm: Literal["R", "min", "retrieved", "hits"] = "R",
    rel: float | None = None,
) -> Value:
    """Return the sum over ranks of P(hit) times the expected precision at a hit, over the norm."""
    if norm == "hits" and k is not None:
        raise ArgumentError(
            "average_precision(norm='hits') at a cutoff has no closed form for "
            "ties='expected'; omit the cutoff or use norm='min'"
        )
    hits = hits_in_block(rel)
    hits_above = nodes.OfTies(pl.Expr.gather, (_hits_before(rel), _BEGIN))
    # Given a hit at this rank, the other h - 1 hits of the block are equally likely to have any of
    # its other c - 1 ranks.
    others = (POSITION - FIRST) * (hits - 1) / (TIED - 1).clip(1)
    precision = hits / TIED * (hits_above + 1 + others) / POSITION
    return normalized(t.top(precision, k).sum(), k, norm, rel)


def err(k: int | None = None, *, max_grade: float | None = None) -> Value:
    """Return the sum of 1 / rank times the probability that the user stops at that rank."""
    if max_grade is not None:
        return _expected_stop(user_models.stop_probability(max_grade), k, POSITION.map(reciprocal))
    worth = t.gain(user_models.power_of_two).fill_null(1.0)
    return _expected_stop(worth, k, POSITION.map(reciprocal), scaled=True)


def pfound(k: int | None = None, *, decay: float = 0.85, max_grade: float = 1) -> Value:
    """Return the sum of decay^(rank - 1) times the probability of stopping at that rank."""
    return _expected_stop(
        user_models.share_of_grades(max_grade, 0), k, POSITION.map(user_models.persistence, p=decay)
    )


def _first_hit_probability(rel: float | None) -> Term:
    """Return the probability that each rank holds a relevant document if no higher rank does.

    In this case, the relevant documents of a block are at this rank or below it in the block.
    """
    return (hits_in_block(rel) / (LAST + 1 - POSITION)).clip(0, 1)


def _expected_stop(worth: Term, k: int | None, weights: Term, *, scaled: bool = False) -> Value:
    """Return the sum of weight times the probability of stopping at each rank, in random order.

    If `scaled`, the probability is worth - 1 by the highest worth of the ranking.
    """
    blocks = map(t.in_any_order, (POSITION - FIRST + 1, TIED, _down_to(k, weights), worth))
    return t.fold(_stopped, t.in_order(worth), *blocks, scaled=scaled)


def _stopped(
    worth: pl.Expr, place: pl.Expr, ties: pl.Expr, weight: pl.Expr, every: pl.Expr, *, scaled: bool
) -> pl.Expr:
    stop = (worth - 1) / every.max() if scaled else worth
    documents = pl.struct(
        stop.alias("stop"),
        weight.alias("weight"),
        place.cast(pl.Int64).alias("place"),
        ties.cast(pl.Int64).alias("ties"),
    )
    return of_lists(_expected_stops, lists=documents.filter(stop.is_not_null()).implode())


def _expected_stops(lists: pl.Series) -> pl.Series:
    """Return the sum of weight times the probability of stopping at each rank, for many rankings.

    Let M(i, j) be the probability that the user continues past j documents drawn at random from
    the first i documents of a block. Document i is among the j with probability j / i, hence
    M(i, j) = (1 - j / i) M(i-1, j) + j / i (1 - stop_i) M(i-1, j-1). Documents at which the user
    never stops come first in a block, because rankings are ordered by ties="worst"; among them, M
    is 1. The loop has one step for each other document of the largest block.
    """
    block, i, j = ["list", "start"], pl.col("last"), pl.col("place")
    rows = (
        lists.alias("document")
        .to_frame()
        .with_row_index("list")
        .explode("document", empty_as_null=True)
        .unnest("document")
        .with_columns(pl.int_range(pl.len()).alias("start") - j + 1)
        .with_columns(
            (1 - pl.col("stop")).cum_prod().shift(1, fill_value=1.0).over("list").alias("reach"),
            (pl.col("stop") <= 0).sum().over(block).alias("never"),
        )
        .with_columns(
            pl.col("reach").gather(pl.col("start")).alias("arrived"),
            (j <= pl.col("never")).cast(pl.Float64).alias("past"),
        )
    )
    steps = rows.select((pl.col("ties") - pl.col("never")).max().fill_null(0)).item()
    onward = pl.lit(1 - rows.get_column("stop")).gather(pl.col("start") + i - 1, null_on_oob=True)
    before = pl.when(j == 1).then(1.0).otherwise(pl.col("past").shift(1))
    drawn = (j / i).clip(0, 1)
    past = (1 - drawn) * pl.col("past") + drawn * onward * before
    counted = rows.filter((pl.col("weight") > 0) | j.is_null())
    for step in range(1, steps + 1):
        counted = counted.with_columns((pl.col("never") + step).alias("last")).with_columns(
            pl.when(i <= pl.col("ties")).then(past).otherwise("past").alias("past")
        )
    here = pl.col("arrived") * (before - pl.col("past"))
    return (
        counted.select("list", (here * pl.col("weight")).alias(lists.name))
        .group_by("list", maintain_order=True)
        .agg(pl.col(lists.name).sum())
        .get_column(lists.name)
    )


#: The means of metrics that are not sums over documents, by the name of the metric.
EXPECTATIONS: dict[str, Callable[..., Value]] = {
    each.__name__: each
    for each in (
        average_precision, err, full_recall, hit_rate, pfound, r_precision, reciprocal_rank,
        top_k_accuracy,
    )
}  # fmt: skip
