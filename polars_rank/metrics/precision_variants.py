"""Variants of precision and AP: interpolated precision, log AP, yaap, binary G."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from polars_rank._params import is_number, one_of, share
from polars_rank.errors import ArgumentError
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.nodes import Listed
from polars_rank.metrics.relevance import average_precision
from polars_rank.metrics.vocabulary import RANK, Value, ratio, where

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["binary_g", "eleven_point", "interpolated_precision", "log_average_precision", "yaap"]

Rounding = Literal["up", "nearest"]


@define_metric(perfect=1, undefined="no document is relevant", expected=False)
def interpolated_precision(
    *, recall: float = 0, rounding: Rounding = "up", rel: float | None = None
) -> Value:
    r"""Interpolated precision: highest precision at the given recall or above.

    $$\mathrm{IPrec}(\rho) = \max \lbrace \mathrm{hits}_i / i :
    \mathrm{hits}_i \ge \lfloor \rho R + 0.9 \rfloor \rbrace$$

    where hits_i is the number of relevant documents among the first i, and R the number of all
    relevant documents. The formula shows `rounding="up"`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.interpolated_precision(recall=0.9)  # both hits: 2 / 3
    0.6666666666666666

    Parameters
    ----------
    recall
        Recall to reach, in [0, 1].
    rounding
        How the number of hits needed is rounded: "up" for floor(recall * R + 0.9), as in trec_eval
        up to version 9; "nearest" for floor(recall * R + 0.5), as in trec_eval 10.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking, 0 if the recall is not reached.

    References
    ----------
    Harman, Overview of the second Text REtrieval Conference, 1993; trec_eval,
    `iprec_at_recall`.
    """
    one_of("rounding", rounding, ("up", "nearest"))
    share("recall", recall, ends=True)
    best = t.fold(_best_precision, *_hits(rel), recall=recall, rounding=rounding)
    return where(t.num_relevant(rel) > 0, best.fill_null(0))


def _best_precision(
    hit: pl.Expr, rank: pl.Expr, relevant: pl.Expr, *, recall: float, rounding: Rounding
) -> pl.Expr:
    """Return the highest precision at a hit that reaches the recall."""
    ranks = rank.filter(hit)
    hits = ranks.cum_count()
    return (hits / ranks).filter(hits >= _least(recall, relevant, rounding)).max()


@define_metric(perfect=1, undefined="no document is relevant", expected=False)
def eleven_point(
    *,
    recalls: Sequence[float] | None = None,
    rounding: Rounding = "up",
    rel: float | None = None,
) -> Value:
    r"""Eleven-point average: mean interpolated precision at recall 0, 0.1, ..., 1.

    $$\frac{1}{11} \sum_{i=0}^{10} \mathrm{IPrec}(i / 10)$$

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> round(df.ranking.eleven_point(), 4)  # (6 x 1 + 5 x 2/3) / 11
    0.8485

    Parameters
    ----------
    recalls
        Recall levels, each in [0, 1]. None: the eleven levels 0, 0.1, ..., 1.
    rounding
        How the number of hits needed is rounded: "up" or "nearest", as in `interpolated_precision`.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Salton & McGill, Introduction to Modern Information Retrieval, 1983; trec_eval,
    `11pt_avg`.
    """
    one_of("rounding", rounding, ("up", "nearest"))
    points = [tenth / 10 for tenth in range(11)] if recalls is None else list(recalls)
    if not points or not all(is_number(point) and 0 <= point <= 1 for point in points):
        raise ArgumentError(f"`recalls` must be numbers from 0 to 1; found {recalls!r}")
    total = t.fold(_precisions_at, *_hits(rel), recalls=tuple(points), rounding=rounding)
    return where(t.num_relevant(rel) > 0, total / len(points))


def _precisions_at(
    hit: pl.Expr,
    rank: pl.Expr,
    relevant: pl.Expr,
    *,
    recalls: Sequence[float],
    rounding: Rounding,
) -> pl.Expr:
    """Return the sum of the highest precisions at several recalls."""
    ranks = rank.filter(hit)
    interpolated = (ranks.cum_count() / ranks).cum_max(reverse=True).implode()
    # Index of the hit that reaches each recall, out of bounds if there are fewer hits.
    least = [_least(recall, relevant, rounding).clip(1) - 1 for recall in recalls]
    needed = pl.concat_list(hits.cast(pl.Int64) for hits in least)
    return interpolated.list.gather(needed, null_on_oob=True).list.sum()


@define_metric(
    low=None,
    high=0,
    perfect=0,
    aggregate="geometric",
    undefined="no document is relevant",
    expected=False,
)
def log_average_precision(
    k: int | None = None, *, floor: float = 1e-5, rel: float | None = None
) -> Value:
    r"""Logarithm of AP; `evaluate` returns the geometric mean of AP (GMAP).

    $$\ln \max(\mathrm{AP}, \mathrm{floor})$$

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> df.ranking.per_query("log_average_precision").item(0, 1)  # ln 0.5
    -0.6931471805599453
    >>> df.ranking.log_average_precision()
    0.5

    Parameters
    ----------
    floor
        Lower bound of AP, above 0, so that a single 0 does not make the geometric mean 0.

    Returns
    -------
    Metric
        One Float64 per ranking, 0 or less. `evaluate` returns the geometric mean of AP, in which
        an undefined AP counts as `floor` by default.

    References
    ----------
    Robertson, On GMAP: and other transformations, 2006; trec_eval, `gm_map`.
    """
    share("floor", floor)
    return average_precision.tree(k, rel=rel).clip(floor).log()


@define_metric(
    low=None, high=None, skipped=True, undefined="no document is relevant", expected=False
)
def yaap(*, rel: float | None = None) -> Value:
    r"""Yet another average precision: a smoothed logit of AP.

    $$\mathrm{yaap} = \ln \frac{1 + R \cdot \mathrm{AP}}{1 + R - R \cdot \mathrm{AP}}$$

    where R is the number of relevant documents.

    Returns
    -------
    Metric
        One Float64 per ranking, positive or negative.

    References
    ----------
    Robertson, On smoothing average precision, 2012; trec_eval, `yaap`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> df.ranking.yaap()  # ln(1.5 / 1.5)
    0.0
    """
    wanted = t.num_relevant(rel)
    found = t.at_hits(lambda rank, hits: hits / rank, rel=rel).sum()
    return where(wanted > 0, ((1 + found) / (1 + wanted - found)).log())


@define_metric(perfect=1, undefined="no document is relevant", expected=False)
def binary_g(*, rel: float | None = None) -> Value:
    r"""Binary G: hits discounted by the number of nonrelevant documents above them.

    $$\mathrm{binG} = \frac{1}{R} \sum_{\mathrm{hits}}
    \frac{1}{\log_2 (2 + \mathrm{rank} - \mathrm{hits})}$$

    where the sum is over the relevant documents retrieved, rank is the rank of each, and hits is
    the number of relevant documents down to this rank. R is the number of all relevant documents.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Buckley, trec_eval, `binG`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 0, 0, 1],
    ... })
    >>> df.ranking.binary_g()  # (1 / log2(2) + 1 / log2(4)) / 2
    0.75
    """
    gains = t.at_hits(lambda rank, hits: 1 / (2 + rank - hits).log(2), rel=rel)
    return ratio(gains.sum(), t.num_relevant(rel))


def _hits(rel: float | None) -> tuple[Listed, Listed, Listed]:
    """Return the hits and the ranks, in rank order, and all relevant documents."""
    relevant = t.relevant(rel)
    return t.in_order(relevant), t.in_order(RANK), t.in_any_order(relevant)


def _least(recall: float, relevant: pl.Expr, rounding: Rounding) -> pl.Expr:
    """Return the number of hits that reach a recall."""
    wanted = relevant.sum().cast(pl.Float64)
    return (recall * wanted + (0.9 if rounding == "up" else 0.5)).floor()
