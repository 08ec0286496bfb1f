"""`ties="expected"`: the mean of a metric over all orders of tied documents, in closed form.

A block is the documents of one score. Every order of a block is as likely as any other, and
blocks are independent, so that no order needs to be drawn (McSherry & Najork, Computing
information retrieval performance measures efficiently in the presence of tied scores, 2008).

A metric that adds up documents, each weighted by its rank, keeps its own definition: `top`
gives each document the mean weight of its block's ranks. The others are written again here,
over the rows of a list in rank order; within a block, that order says nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from polars_rank.errors import ArgumentError
from polars_rank.metrics.cascade import _first, _grade, _power, _stops
from polars_rank.metrics.metric import Metric
from polars_rank.ranked import (
    LABEL,
    POSITION,
    RETRIEVED,
    TIE_FIRST,
    TIE_LAST,
    above,
    in_order,
    number_relevant,
    relevant,
    tied_sum,
)

if TYPE_CHECKING:
    from collections.abc import Callable

#: Metrics that are sums over documents, by ranks, divided by what no order changes.
LINEAR = frozenset({
    "accuracy",
    "average_relevance_position",
    "cg",
    "dcg",
    "f1",
    "fall_out",
    "fbeta",
    "insq",
    "judged",
    "mcc",
    "ndcg",
    "num_relevant_retrieved",
    "precision",
    "pwa",
    "r_precision",
    "rbp",
    "rbp_residual",
    "recall",
    "recall_capped",
    "relative_precision",
    "sdcg",
    "unjudged",
})  # fmt: skip

#: Metrics that take tied scores as tied, or do not look at scores at all.
SAME_IN_ANY_ORDER = frozenset({
    "coverage_error",
    "ideal_dcg",
    "kendall_tau_b",
    "label_ranking_average_precision",
    "label_ranking_loss",
    "num_nonrelevant_judged_retrieved",
    "num_queries",
    "num_relevant",
    "num_retrieved",
    "ordered_pair_accuracy",
    "partial_auc",
    "pr_auc",
    "roc_auc",
    "set_ap",
    "set_f",
    "set_precision",
    "set_recall",
    "set_relative_precision",
    "spearman",
    "utility",
})  # fmt: skip

#: The expectations of other metrics, by the name of the metric, with its parameters.
EXPECTATIONS: dict[str, Callable[..., pl.Expr]] = {}


def expectation(metric: pl.Expr) -> pl.Expr:
    """Return the mean of a metric over all orders of tied documents, under the same name."""
    if not isinstance(metric, Metric):
        # An expression of the user's own can do without ranks, or it is not known what it means.
        if not {"rank", "hits", "ideal_rank"} & set(metric.meta.root_names()):
            return metric
        message = f"`ties='expected'` takes metrics, not an expression over ranks; found {metric}"
        raise ArgumentError(message)
    name = metric.function.__name__
    if name in LINEAR | SAME_IN_ANY_ORDER:
        return metric
    if name in EXPECTATIONS:
        return Metric(EXPECTATIONS[name], metric.arguments, metric.output_name)
    known = ", ".join(sorted(LINEAR | SAME_IN_ANY_ORDER | EXPECTATIONS.keys()))
    message = (
        f"{name} has no closed form under ties='expected'; take ties='best' and 'worst' as its "
        f"bounds. Those that have one: {known}"
    )
    raise ArgumentError(message)


def _expected(function: Callable[..., pl.Expr]) -> Callable[..., pl.Expr]:
    EXPECTATIONS[function.__name__] = function
    return function


@_expected
def hit_rate(k: int | None = None, *, rel: float | None = None) -> pl.Expr:
    """Return how likely a relevant document is among the first k."""
    _, missed = _search(in_order(relevant(rel)))
    return pl.when(number_relevant(rel) > 0).then(1 - _first(missed, k).min().fill_null(1.0))


@_expected
def top_k_accuracy(k: int, *, rel: float | None = None) -> pl.Expr:
    """Return how likely a document of the highest label is among the first k."""
    _, missed = _search((in_order(LABEL) == LABEL.max()).fill_null(value=False))
    return pl.when(number_relevant(rel) > 0).then(1 - missed.head(k).min().fill_null(1.0))


@_expected
def reciprocal_rank(k: int | None = None, *, rel: float | None = None) -> pl.Expr:
    """Return the sum over ranks of 1 / rank x how likely the first relevant document is there."""
    found, missed = _search(in_order(relevant(rel)))
    first = found * missed.shift(1, fill_value=1.0)
    return pl.when(number_relevant(rel) > 0).then(_first(first / POSITION, k).sum())


def _search(good: pl.Expr) -> tuple[pl.Expr, pl.Expr]:
    """Return how likely each rank holds a good one if none is above, and that none is so far.

    Without one above, the h good documents of a block are among those from this rank to the
    last one of the block.
    """
    found = (tied_sum(good) / (TIE_LAST + 1 - POSITION)).clip(0, 1)
    return found, (1 - found).cum_prod()


@_expected
def average_precision(
    k: int | None = None,
    *,
    norm: Literal["R", "min", "hits"] = "R",
    rel: float | None = None,
) -> pl.Expr:
    """Return the sum over ranks of h / c x the hits to expect there if it is a hit, over rank."""
    good = in_order(relevant(rel))
    hits, ties = tied_sum(good), TIE_LAST - TIE_FIRST + 1
    # Given a hit at this rank, the other h - 1 are anywhere among the c - 1 others of the block.
    others = (POSITION - TIE_FIRST) * (hits - 1) / (ties - 1).clip(1)
    precisions = hits / ties * (above(good, TIE_FIRST) + 1 + others) / POSITION
    wanted = number_relevant(rel)
    divisor = wanted
    if norm == "min" and k is not None:
        divisor = wanted.clip(upper_bound=k)
    if norm == "hits":
        if k is not None:
            message = (
                "average_precision(norm='hits') at a cutoff has no closed form under "
                "ties='expected'; leave out the cutoff or take norm='min'"
            )
            raise ArgumentError(message)
        divisor = good.sum().clip(1)
    return pl.when(wanted > 0).then(_first(precisions, k).sum() / divisor)


@_expected
def err(k: int | None = None, *, max_grade: float | None = None) -> pl.Expr:
    """Return the sum over ranks of 1 / rank x how likely the user stops there."""
    return _stopping(_stops(max_grade), 1 / POSITION, k)


@_expected
def pfound(k: int | None = None, *, decay: float = 0.85, max_grade: float = 1) -> pl.Expr:
    """Return the sum over ranks of decay^(rank - 1) x how likely the user stops there."""
    patience = _power(decay, POSITION.cast(pl.Float64))
    return _stopping(in_order(_grade(max_grade, 0)), patience, k)


def _stopping(stops: pl.Expr, weight: pl.Expr, k: int | None) -> pl.Expr:
    """Return the sum over ranks of weight x how likely the user stops there, in random order."""
    counted = weight if k is None else pl.when(k >= POSITION).then(weight).otherwise(0.0)
    documents = pl.struct(
        stops.alias("stop"),
        counted.alias("weight"),
        (POSITION - TIE_FIRST + 1).alias("place"),
        (TIE_LAST - TIE_FIRST + 1).alias("ties"),
    )
    # Documents of many lists at once, not list by list.
    return (
        documents.filter(RETRIEVED)
        .implode()
        .map_batches(_stopped, return_dtype=pl.Float64, is_elementwise=True, returns_scalar=True)
    )


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
