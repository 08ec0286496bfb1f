"""`ties="expected"`: the mean of a metric over all orders of tied documents, in closed form.

A block is the documents of one score. Every order of a block is as likely as any other, and
blocks are independent, so that no order needs to be drawn (McSherry & Najork, Computing
information retrieval performance measures efficiently in the presence of tied scores, 2008).

A metric that adds up documents, each weighted by its rank, keeps its own definition: `top`
gives each document the mean weight of its block's ranks, and a value says whether more than a sum
was made of it. The others are written again here, over the rows of a list in rank order; within
a block, that order says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from polars_rank.errors import ArgumentError
from polars_rank.metrics.cascade import _grade, _power, power_of_two, stop_probability
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.plan_terms import (
    POSITION,
    TIE_BEGINS,
    TIE_ENDS,
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
    reads_order,
    where,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from polars_rank.gains import Gain


#: How many documents are tied with each, itself included.
TIES = TIE_LAST - TIE_FIRST + 1


class ExpectedTerms(PlanTerms):
    """Terms whose values are means over all orders of tied documents.

    It shares the columns of an evaluation, whose rows stand in any of those orders.
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
        """Take at each rank the mean of the documents that may stand there."""
        _any_order(term)
        if (k is None and weight is None) or not term.meta.root_names():
            return super().top(term, k, weight)  # the same in every order
        if isinstance(k, Value):
            message = "a cutoff of its own for each list"
            raise OrderMattersError(message)

        def value(how: How) -> Value:
            if how in ("min", "max"):
                message = "an extreme over documents"
                raise OrderMattersError(message)
            self.cutoffs.append(None)  # a block may go on below the cutoff
            if how == "count" and term.meta.eq(RELEVANT):
                tied = self.tied_hits(None)[0]
            elif how == "count" or str(term) in self._whole:
                tied = tied_sum(term & RETRIEVED if how == "count" else term)
            else:
                return Value(self._weighed(term, k, weight).expr, settled=False)
            found = super(ExpectedTerms, self).top(tied / TIES, k, weight).sum()
            return Value(found.expr, settled=False)

        return Term(value)

    def gain(self, gain: Gain) -> pl.Expr:
        """Apply the gain to the label; remember whether that gives whole numbers."""
        worth = super().gain(gain)
        if self._whole_labels and getattr(gain, "whole", False):
            self._whole.add(str(worth))
        return worth

    def tied_hits(self, rel: float | None) -> tuple[pl.Expr, pl.Expr]:
        """Return how many of the documents tied with each are hits, and the hits above those."""
        hits = self.hits_column(rel).cast(pl.Int64)
        good = (self.relevant(rel) & RETRIEVED).cast(pl.Int64)
        before = pl.when(TIE_BEGINS).then(hits - good).forward_fill()
        end = pl.when(TIE_ENDS).then(hits).backward_fill()
        return (end - before).cast(pl.Float64), before.cast(pl.Float64)

    def _weighed(
        self, term: pl.Expr, k: int | None, weight: Callable[[pl.Expr], pl.Expr] | None
    ) -> Value:
        """Give each document the mean weight of the ranks that it may have.

        Sums of fractions must not run on from list to list: rounding errors would add up.
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
        """Refuse: which hit stands where depends on the order."""
        message = "what stands at each hit"
        raise OrderMattersError(message)

    def in_order(self, _: pl.Expr) -> Listed:
        """Refuse: the order is not known."""
        message = "documents one after the other"
        raise OrderMattersError(message)

    def each(self, term: pl.Expr) -> Term:
        """Take the whole list."""
        return super().each(_any_order(term))

    def in_any_order(self, term: pl.Expr) -> Listed:
        """Take every document."""
        return super().in_any_order(_any_order(term))

    def own(self, expression: pl.Expr) -> Value:
        """Aggregate an expression of the user's own, which can do without ranks."""
        if reads_order(expression):
            message = (
                "`ties='expected'` takes metrics, not an expression over ranks, which one order "
                f"of tied documents has; found {expression}"
            )
            raise ArgumentError(message)
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
            message = (
                f"{metric} has no closed form under ties='expected'; take ties='best' and "
                "'worst' as its bounds"
            )
            raise ArgumentError(message) from None
        return Value(EXPECTATIONS[name](t, **metric.arguments).expr, settled=False)


def has_expectation(metric: pl.Expr) -> bool:
    """Return whether the mean over all orders is known in closed form."""
    t = ExpectedTerms(PlanTerms(whole_labels=False))
    try:
        expectation(metric, t) if isinstance(metric, Metric) else t.own(metric)
    except ArgumentError:
        return False
    return True


#: The expectations of metrics that are more than sums, by the name of the metric.
EXPECTATIONS: dict[str, Callable[..., Value]] = {}


def _expected(function: Callable[..., Value]) -> Callable[..., Value]:
    EXPECTATIONS[function.__name__] = function
    return function


@_expected
def hit_rate(t: ExpectedTerms, k: int | None = None, *, rel: float | None = None) -> Value:
    """Return how likely a relevant document is among the first k."""

    def found(likely: pl.Expr) -> pl.Expr:
        return 1 - _first((1 - likely).cum_prod(), k).min().fill_null(1.0)

    return where(t.number_relevant(rel) > 0, t.fold(found, _likely(t, rel)))


@_expected
def top_k_accuracy(t: ExpectedTerms, k: int, *, rel: float | None = None) -> Value:
    """Return how likely a document of the highest label is among the first k."""

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
    """Return the sum over ranks of 1 / rank x how likely the first relevant document is there."""

    def first_found(likely: pl.Expr, place: pl.Expr) -> pl.Expr:
        missed = (1 - likely).cum_prod().shift(1, fill_value=1.0)
        return _first(likely * missed / place, k).sum()

    terms = _likely(t, rel), Listed(POSITION, "any")
    return where(t.number_relevant(rel) > 0, t.fold(first_found, *terms))


@_expected
def r_precision(t: ExpectedTerms, *, multiple: float = 1, rel: float | None = None) -> Value:
    """Return the hits to expect among the first R, or a multiple of it, over their number."""

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
    """Return the sum over ranks of h / c x the hits to expect there if it is a hit, over rank."""
    if norm == "hits" and k is not None:
        message = (
            "average_precision(norm='hits') at a cutoff has no closed form under "
            "ties='expected'; leave out the cutoff or take norm='min'"
        )
        raise ArgumentError(message)

    wanted = t.number_relevant(rel)
    hits, hits_above = t.tied_hits(rel)
    # Given a hit at this rank, the other h - 1 are anywhere among the c - 1 others of the block.
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
    """Return the sum over ranks of 1 / rank x how likely the user stops there."""
    if max_grade is not None:
        stops = Listed(stop_probability(max_grade), "rank")
        return _stopping(t, lambda stop: stop, [stops], k, lambda place: 1 / place)
    worth = t.gain(power_of_two).fill_null(1.0)
    terms = [Listed(worth, "rank"), t.in_any_order(worth)]
    return _stopping(
        t, lambda worth, of_all: (worth - 1) / of_all.max(), terms, k, lambda place: 1 / place
    )


@_expected
def pfound(
    t: ExpectedTerms, k: int | None = None, *, decay: float = 0.85, max_grade: float = 1
) -> Value:
    """Return the sum over ranks of decay^(rank - 1) x how likely the user stops there."""
    grade = Listed(_grade(max_grade, 0), "rank")
    return _stopping(t, lambda stop: stop, [grade], k, lambda place: _power(decay, place))


def tied_sum(values: pl.Expr) -> pl.Expr:
    """Return the sum of whole numbers, or count, over the documents tied with each.

    It is the difference of two running sums, which are exact, whatever came before the list.
    """
    number = values.cast(pl.Int64).fill_null(0)
    running = number.cum_sum()
    end = pl.when(TIE_ENDS).then(running).backward_fill()
    return (end - pl.when(TIE_BEGINS).then(running - number).forward_fill()).cast(pl.Float64)


def above(values: pl.Expr, rank: pl.Expr) -> pl.Expr:
    """Return the sum of values of one list, in rank order, above a rank."""
    running = values.cast(pl.Float64).cum_sum()
    place = (rank - 2).clip(0).cast(pl.UInt32)
    return pl.when(rank > 1).then(running.gather(place)).otherwise(0.0)


def _likely(t: ExpectedTerms, rel: float | None) -> Listed:
    """Return how likely each rank holds a good document if none is above.

    The h good ones of a block are then among those from this rank to the last one of the block.
    """
    left = TIE_LAST + 1 - POSITION
    return Listed((t.tied_hits(rel)[0] / left).clip(0, 1), "rank")


def _first(terms: pl.Expr, k: int | None) -> pl.Expr:
    return terms if k is None else terms.head(k)


def _any_order(term: pl.Expr) -> pl.Expr:
    if reads_order(term):
        message = "a term that reads ranks"
        raise OrderMattersError(message)
    return term


def _stopping(
    t: ExpectedTerms,
    stop_of: Callable[..., pl.Expr],
    terms: list[Listed],
    k: int | None,
    weight: Callable[[pl.Expr], pl.Expr],
) -> Value:
    """Return the sum over ranks of weight x how likely the user stops there, in random order."""

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
        # Documents of many lists at once, not list by list.
        return (
            documents.filter(stop.is_not_null())
            .implode()
            .map_batches(
                _stopped, return_dtype=pl.Float64, is_elementwise=True, returns_scalar=True
            )
        )

    places = (Listed(place, "any") for place in (POSITION, TIE_FIRST, TIE_LAST))
    return t.fold(stopped, *places, *terms)


def _stopped(lists: pl.Series) -> pl.Series:
    """Return the sum of weight x how likely the user stops there for many lists.

    The user gets past j documents drawn from the first i of a block with probability M(i, j),
    a mean over the draws: M(i, j) = (1 - j / i) M(i-1, j) + j / i (1 - stop_i) M(i-1, j-1),
    since document i is among the j with probability j / i. Where nobody stops M is 1, and those
    documents come first in a block, for lists are ranked by ties="worst": one step for each
    other document of the largest block.
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
