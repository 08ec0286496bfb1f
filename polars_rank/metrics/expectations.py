"""Means over all orders of tied documents of metrics that are not sums over documents.

Each is a second definition of a metric of the same name, over the rows of a ranking in rank order,
in which the order of tied documents is arbitrary.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

import polars as pl

from polars_rank._polars import reads_column
from polars_rank.discounts import reciprocal
from polars_rank.errors import ArgumentError
from polars_rank.metrics import terms as t
from polars_rank.metrics.cascade_models import power_of_two, share_of_grades, stop_probability
from polars_rank.metrics.expressions import IS_RETRIEVED, of_lists
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.nodes import Listed, Mean, Term, UserExpression, Value, term_of
from polars_rank.metrics.terms import LABEL, least, where
from polars_rank.metrics.ties import (
    FIRST,
    LAST,
    POSITION,
    TIED,
    OrderMattersError,
    above,
    expected,
    hits_above_block,
    hits_in_block,
)
from polars_rank.metrics.user_models import persistence

if TYPE_CHECKING:
    from polars_rank.metrics.nodes import Function


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
        return UserExpression(metric)
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
        return Mean(second(**metric.arguments))
    return metric.tree


#: The means of metrics that are not sums over documents, by the name of the metric.
EXPECTATIONS: dict[str, Callable[..., Value]] = {}


def _expected(function: Callable[..., Value]) -> Callable[..., Value]:
    EXPECTATIONS[function.__name__] = function
    return function


@_expected
def hit_rate(k: int | None = None, *, rel: float | None = None) -> Value:
    """Return the probability that a relevant document is among the first k."""
    found = t.fold(_any_found, _first_hit_probability(rel), k=k)
    return where(t.num_relevant(rel) > 0, found)


def _any_found(likely: pl.Expr, *, k: int | None) -> pl.Expr:
    return 1 - _head((1 - likely).cum_prod(), k).min().fill_null(1.0)


@_expected
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


@_expected
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


@_expected
def reciprocal_rank(k: int | None = None, *, rel: float | None = None) -> Value:
    """Return the sum of 1 / rank times the probability that the first hit is at that rank."""
    likely = _first_hit_probability(rel)
    found = t.fold(_first_found, likely, t.in_any_order(POSITION), k=k)
    return where(t.num_relevant(rel) > 0, found)


def _first_found(likely: pl.Expr, place: pl.Expr, *, k: int | None) -> pl.Expr:
    missed = (1 - likely).cum_prod().shift(1, fill_value=1.0)
    return _head(likely * missed / place, k).sum()


@_expected
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


@_expected
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
    wanted = t.num_relevant(rel)
    if norm == "retrieved":
        wanted = least(t.num_retrieved(k), wanted)
    hits = hits_in_block(rel)
    # Given a hit at this rank, the other h - 1 hits of the block are equally likely to have any of
    # its other c - 1 ranks.
    others = (POSITION - FIRST) * (hits - 1) / (TIED - 1).clip(1)
    precision = hits / TIED * (hits_above_block(rel) + 1 + others) / POSITION
    divisor = wanted
    if norm == "min" and k is not None:
        divisor = wanted.clip(high=k)
    if norm == "hits":
        divisor = t.top(t.relevant(rel)).count().clip(low=1)
    return where(wanted > 0, t.top(precision, k).sum() / divisor)


@_expected
def err(k: int | None = None, *, max_grade: float | None = None) -> Value:
    """Return the sum of 1 / rank times the probability that the user stops at that rank."""
    if max_grade is not None:
        return _expected_stop(stop_probability(max_grade), k, reciprocal)
    return _expected_stop(t.gain(power_of_two).fill_null(1.0), k, reciprocal, of_highest=True)


@_expected
def pfound(k: int | None = None, *, decay: float = 0.85, max_grade: float = 1) -> Value:
    """Return the sum of decay^(rank - 1) times the probability of stopping at that rank."""
    return _expected_stop(share_of_grades(max_grade, 0), k, persistence, p=decay)


def _first_hit_probability(rel: float | None) -> Listed:
    """Return the probability that each rank holds a relevant document if no higher rank does.

    In this case, the relevant documents of a block are at this rank or below it in the block.
    """
    return t.in_order((hits_in_block(rel) / (LAST + 1 - POSITION)).clip(0, 1))


def _head(terms: pl.Expr, k: int | None) -> pl.Expr:
    return terms if k is None else terms.head(k)


def _expected_stop(
    worth: Term, k: int | None, weight: Function, *, of_highest: bool = False, **parameters: float
) -> Value:
    """Return the sum of weight times the probability of stopping at each rank, in random order."""
    places = map(t.in_any_order, (POSITION, FIRST, LAST))
    weights = t.in_any_order(POSITION.map(weight, **parameters))
    worths = t.in_order(worth), t.in_any_order(worth)
    return t.fold(_stopped, *places, weights, *worths, k=k, of_highest=of_highest)


def _stopped(
    place: pl.Expr,
    first: pl.Expr,
    last: pl.Expr,
    weight: pl.Expr,
    worth: pl.Expr,
    every: pl.Expr,
    *,
    k: int | None,
    of_highest: bool,
) -> pl.Expr:
    if k is not None:
        weight = pl.when(k >= place).then(weight).otherwise(0.0)
    stop = (worth - 1) / every.max() if of_highest else worth
    documents = pl.struct(
        stop.alias("stop"),
        weight.alias("weight"),
        (place - first + 1).cast(pl.Int64).alias("place"),
        (last - first + 1).cast(pl.Int64).alias("ties"),
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
