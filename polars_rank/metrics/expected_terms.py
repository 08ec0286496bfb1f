"""`ties="expected"`: the mean of a metric over all orders of tied documents, in closed form.

A block is a set of documents with equal scores. All orders of a block are equally likely, and
blocks are independent, so the mean needs no sampling of orders (McSherry & Najork, Computing
information retrieval performance measures efficiently in the presence of tied scores, 2008).

A metric that is a sum over documents, each weighted by its rank, keeps its definition: `top` gives
each document the mean weight of the ranks of its block, and `Value.settled` tracks whether a value
was used other than in a sum. Other metrics have a second definition in this module, over the rows
of a ranking in rank order, in which the order within a block is arbitrary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from polars_rank.errors import ArgumentError
from polars_rank.metrics.cascade_models import _grade, _power, power_of_two, stop_probability
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.plan_terms import (
    POSITION,
    ROW_LABEL,
    TIE_BEGIN,
    TIE_END,
    TIE_FIRST,
    TIE_LAST,
    PlanTerms,
)
from polars_rank.metrics.terms import (
    LABEL,
    RELEVANT,
    RETRIEVED,
    Cutoff,
    How,
    Listed,
    OrderMattersError,
    Term,
    Value,
    of_lists,
    reads_order,
    where,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from polars_rank.gains import Gain


#: The number of documents tied with each document, including itself.
TIES = TIE_LAST - TIE_FIRST + 1


class ExpectedTerms(PlanTerms):
    """Terms whose values are means over all orders of tied documents.

    They share the columns of an evaluation, whose rows are in one of these orders.
    """

    def __init__(self, shared: PlanTerms) -> None:
        vars(self).update(vars(shared))
        self._whole: set[str] = set()

    def top(
        self,
        term: pl.Expr,
        k: Cutoff = None,
        weight: Callable[[pl.Expr], pl.Expr] | None = None,
    ) -> Term:
        """Return the mean of `term` over the documents that may have each rank."""
        _without_ranks(term)
        if (k is None and weight is None) or not term.meta.root_names():
            return super().top(term, k, weight)  # the same in every order
        if isinstance(k, Value):
            raise OrderMattersError("a cutoff that differs between rankings")

        def value(how: How) -> Value:
            if how in ("min", "max"):
                raise OrderMattersError("an extreme over documents")
            self.cutoffs.append(None)  # a block may extend below the cutoff
            if how == "count" and term.meta.eq(RELEVANT):
                tied = self.tied_hits(None)[0]
            elif how == "count" or str(term) in self._whole:
                tied = self.tied_sum(term & RETRIEVED if how == "count" else term)
            else:
                return Value(self._weighed(term, k, weight).expr, settled=False)
            found = super(ExpectedTerms, self).top(tied / TIES, k, weight).sum()
            return Value(found.expr, settled=False)

        return Term(value)

    def gain(self, gain: Gain, label: pl.Expr = ROW_LABEL) -> pl.Expr:
        """Apply the gain to a label, and record whether gains are whole numbers."""
        worth = super().gain(gain, label)
        if self._whole_labels and getattr(gain, "whole", False):
            self._whole.add(str(worth))
        return worth

    def tied_hits(self, rel: float | None) -> tuple[pl.Expr, pl.Expr]:
        """Return the number of hits in the block of each document, and above the block."""
        hits = self.hits_column(rel).cast(pl.Int64)
        good = (self.relevant(rel) & RETRIEVED).cast(pl.Int64)
        before, end = (hits - good).gather(TIE_BEGIN), hits.gather(TIE_END)
        return self._of_block(end - before), self._of_block(before)

    def tied_sum(self, values: pl.Expr) -> pl.Expr:
        """Return the sum of whole numbers over the documents tied with each document.

        It is the difference of two running sums, which are exact because they are integers.
        """
        number = values.cast(pl.Int64).fill_null(0)
        running = number.cum_sum()
        return self._of_block(running.gather(TIE_END) - (running - number).gather(TIE_BEGIN))

    def _of_block(self, value: pl.Expr) -> pl.Expr:
        """Return the column of a value that tied documents have in common."""
        return self.blocks.add(value.cast(pl.Float64))

    def _weighed(
        self, term: pl.Expr, k: int | None, weight: Callable[[pl.Expr], pl.Expr] | None
    ) -> Value:
        """Return the sum of a term, weighted by the mean weight of each document's possible ranks.

        Fractions are summed within each ranking: in running sums over all rankings, rounding
        errors would accumulate.
        """
        counted = pl.lit(1.0) if weight is None else weight(POSITION)
        if k is not None:
            counted = pl.when(k >= POSITION).then(counted).otherwise(0.0)

        def total(first: pl.Expr, last: pl.Expr, term: pl.Expr, weights: pl.Expr) -> pl.Expr:
            weighed = above(weights, last + 1) - above(weights, first)
            return (term * weighed / (last - first + 1)).sum()

        blocks = (Listed(place, "any") for place in (TIE_FIRST, TIE_LAST))
        terms = (Listed(each, "rank") for each in (term.cast(pl.Float64), counted))
        return self.fold(total, *blocks, *terms)

    def at_hits(self, *_: object, **__: object) -> Term:
        """Raise `OrderMattersError`: the ranks of hits depend on the order of ties."""
        raise OrderMattersError("a term at each hit")

    def in_order(self, _: pl.Expr) -> Listed:
        """Raise `OrderMattersError`: the order of ties is unknown."""
        raise OrderMattersError("documents in rank order")

    def each(self, term: pl.Expr) -> Term:
        """Return the term of all rows."""
        return super().each(_without_ranks(term))

    def in_any_order(self, term: pl.Expr) -> Listed:
        """Return the term of every document."""
        return super().in_any_order(_without_ranks(term))

    def own(self, expression: pl.Expr) -> Value:
        """Aggregate a user's expression that does not read ranks."""
        if reads_order(expression):
            raise ArgumentError(
                "`ties='expected'` does not support expressions that read ranks; use a metric; "
                f"found {expression}"
            )
        return super().own(expression)


def expectation(metric: Metric, t: ExpectedTerms) -> Value:
    """Return the mean of a metric over all orders of tied documents."""
    name = metric.function.__name__
    try:
        if metric.parts:
            made = {
                key: expectation(part, t) if isinstance(part, Metric) else part
                for key, part in metric.arguments.items()
            }
            return metric.function(t, **made)
        return metric.value(t)
    except OrderMattersError:
        if metric.parts or name not in EXPECTATIONS:
            raise ArgumentError(
                f"{metric} has no closed form for ties='expected'; use ties='best' and "
                "ties='worst' for its bounds"
            ) from None
        return Value(EXPECTATIONS[name](t, **metric.arguments).expr, settled=False)


def has_expectation(metric: pl.Expr) -> bool:
    """Return whether the mean over all orders of ties has a closed form."""
    t = ExpectedTerms(PlanTerms(whole_labels=False))
    try:
        expectation(metric, t) if isinstance(metric, Metric) else t.own(metric)
    except ArgumentError:
        return False
    return True


#: The means of metrics that are not sums over documents, by the name of the metric.
EXPECTATIONS: dict[str, Callable[..., Value]] = {}


def _expected(function: Callable[..., Value]) -> Callable[..., Value]:
    EXPECTATIONS[function.__name__] = function
    return function


@_expected
def hit_rate(t: ExpectedTerms, k: int | None = None, *, rel: float | None = None) -> Value:
    """Return the probability that a relevant document is among the first k."""

    def found(likely: pl.Expr) -> pl.Expr:
        return 1 - _head((1 - likely).cum_prod(), k).min().fill_null(1.0)

    return where(t.number_relevant(rel) > 0, t.fold(found, _first_hit_probability(t, rel)))


@_expected
def top_k_accuracy(t: ExpectedTerms, k: int, *, rel: float | None = None) -> Value:
    """Return the probability that a document of the highest label is among the first k."""

    def found(
        place: pl.Expr, first: pl.Expr, last: pl.Expr, label: pl.Expr, every: pl.Expr
    ) -> pl.Expr:
        best = (label == every.max()).fill_null(value=False)
        tied = above(best, last + 1) - above(best, first)
        likely = (tied / (last + 1 - place)).clip(0, 1)
        return 1 - (1 - likely).cum_prod().head(k).min().fill_null(1.0)

    places = (Listed(place, "any") for place in (POSITION, TIE_FIRST, TIE_LAST))
    labels = Listed(LABEL, "rank"), t.in_any_order(LABEL)
    return where(t.number_relevant(rel) > 0, t.fold(found, *places, *labels))


@_expected
def reciprocal_rank(t: ExpectedTerms, k: int | None = None, *, rel: float | None = None) -> Value:
    """Return the sum of 1 / rank times the probability that the first hit is at that rank."""

    def first_found(likely: pl.Expr, place: pl.Expr) -> pl.Expr:
        missed = (1 - likely).cum_prod().shift(1, fill_value=1.0)
        return _head(likely * missed / place, k).sum()

    terms = _first_hit_probability(t, rel), Listed(POSITION, "any")
    return where(t.number_relevant(rel) > 0, t.fold(first_found, *terms))


@_expected
def r_precision(t: ExpectedTerms, *, multiple: float = 1, rel: float | None = None) -> Value:
    """Return the expected number of hits down to the cutoff, divided by the cutoff."""

    def hits(first: pl.Expr, last: pl.Expr, good: pl.Expr, every: pl.Expr) -> pl.Expr:
        cutoff = every.sum().cast(pl.Float64)
        if multiple != 1:
            cutoff = (cutoff * float(multiple) + 0.9).floor()
        ties = last - first + 1
        share = (good * (cutoff - first + 1).clip(0, ties) / ties).sum() / cutoff
        return pl.when(cutoff > 0).then(share)

    blocks = (Listed(place, "any") for place in (TIE_FIRST, TIE_LAST))
    good = t.relevant(rel)
    return t.fold(hits, *blocks, Listed(good, "rank"), t.in_any_order(good))


@_expected
def average_precision(
    t: ExpectedTerms,
    k: int | None = None,
    *,
    norm: Literal["R", "min", "hits"] = "R",
    rel: float | None = None,
) -> Value:
    """Return the sum over ranks of P(hit) times the expected precision at a hit, over the norm."""
    if norm == "hits" and k is not None:
        raise ArgumentError(
            "average_precision(norm='hits') at a cutoff has no closed form for "
            "ties='expected'; omit the cutoff or use norm='min'"
        )

    wanted = t.number_relevant(rel)
    hits, hits_above = t.tied_hits(rel)
    # Given a hit at this rank, the other h - 1 hits of the block are equally likely to have any of
    # its other c - 1 ranks.
    others = (POSITION - TIE_FIRST) * (hits - 1) / (TIES - 1).clip(1)
    precision = hits / TIES * (hits_above + 1 + others) / POSITION
    divisor = wanted
    if norm == "min" and k is not None:
        divisor = wanted.clip(high=k)
    if norm == "hits":
        divisor = t.top(t.relevant(rel)).number().clip(low=1)
    found = PlanTerms.top(t, precision, k).sum()
    return where(wanted > 0, found / divisor)


@_expected
def err(t: ExpectedTerms, k: int | None = None, *, max_grade: float | None = None) -> Value:
    """Return the sum of 1 / rank times the probability that the user stops at that rank."""
    if max_grade is not None:
        stops = Listed(stop_probability(max_grade), "rank")
        return _expected_stop(t, lambda stop: stop, [stops], k, lambda place: 1 / place)
    worth = t.gain(power_of_two).fill_null(1.0)
    terms = [Listed(worth, "rank"), t.in_any_order(worth)]
    return _expected_stop(
        t, lambda worth, of_all: (worth - 1) / of_all.max(), terms, k, lambda place: 1 / place
    )


@_expected
def pfound(
    t: ExpectedTerms, k: int | None = None, *, decay: float = 0.85, max_grade: float = 1
) -> Value:
    """Return the sum of decay^(rank - 1) times the probability of stopping at that rank."""
    grade = Listed(_grade(max_grade, 0), "rank")
    return _expected_stop(t, lambda stop: stop, [grade], k, lambda place: _power(decay, place))


def above(values: pl.Expr, rank: pl.Expr) -> pl.Expr:
    """Return the sum of the values above a rank, given the values of one ranking in rank order."""
    running = values.cast(pl.Float64).cum_sum()
    place = (rank - 2).clip(0).cast(pl.UInt32)
    return pl.when(rank > 1).then(running.gather(place)).otherwise(0.0)


def _first_hit_probability(t: ExpectedTerms, rel: float | None) -> Listed:
    """Return the probability that each rank holds a relevant document if no higher rank does.

    In this case, the relevant documents of a block are at this rank or below it in the block.
    """
    left = TIE_LAST + 1 - POSITION
    return Listed((t.tied_hits(rel)[0] / left).clip(0, 1), "rank")


def _head(terms: pl.Expr, k: int | None) -> pl.Expr:
    return terms if k is None else terms.head(k)


def _without_ranks(term: pl.Expr) -> pl.Expr:
    if reads_order(term):
        raise OrderMattersError("a term that reads ranks")
    return term


def _expected_stop(
    t: ExpectedTerms,
    stop_of: Callable[..., pl.Expr],
    terms: list[Listed],
    k: int | None,
    weight: Callable[[pl.Expr], pl.Expr],
) -> Value:
    """Return the sum of weight times the probability of stopping at each rank, in random order."""

    def stopped(place: pl.Expr, first: pl.Expr, last: pl.Expr, *terms: pl.Expr) -> pl.Expr:
        counted = weight(place)
        if k is not None:
            counted = pl.when(k >= place).then(counted).otherwise(0.0)
        stop = stop_of(*terms)
        documents = pl.struct(
            stop.alias("stop"),
            counted.alias("weight"),
            (place - first + 1).cast(pl.Int64).alias("place"),
            (last - first + 1).cast(pl.Int64).alias("ties"),
        )
        return of_lists(_expected_stops, lists=documents.filter(stop.is_not_null()).implode())

    places = (Listed(place, "any") for place in (POSITION, TIE_FIRST, TIE_LAST))
    return t.fold(stopped, *places, *terms)


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
