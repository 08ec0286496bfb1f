"""Metrics of binary relevance: precision, recall, F-measure, hit rate, AP, and their variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

from polars_rank._params import is_number, one_of, positive, share
from polars_rank.errors import ArgumentError
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.nodes import Listed
from polars_rank.metrics.vocabulary import RANK, Term, Value, least, ratio, where

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "average_precision", "binary_g", "eleven_point", "f1", "fbeta", "full_recall", "hit_rate",
    "interpolated_precision", "log_average_precision", "precision", "r_precision", "recall",
    "recall_capped", "relative_precision", "yaap",
]  # fmt: skip

#: How the number of hits that reach a recall is rounded.
Rounding: TypeAlias = Literal["up", "nearest"]


@define_metric(
    undefined="no document was retrieved and the divisor is not k", order_matters="cutoff"
)
def precision(
    k: int | None = None,
    *,
    depth: Literal["k", "retrieved"] = "k",
    short: Literal["null"] | None = None,
    irrelevant: Literal["null"] | None = None,
    rel: float | None = None,
) -> Value:
    r"""Precision: fraction of the first k documents that are relevant.

    $$\mathrm{P@k} = \frac{1}{k} \sum_{r=1}^{k} \mathrm{relevant}_r$$

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.precision(2)  # one of two
    0.5

    Parameters
    ----------
    k
        Cutoff, a positive integer. None: the whole ranking, divided by the number of retrieved
        documents.
    depth
        Divisor: "k", or "retrieved" for the smaller of k and the number of retrieved documents.
    short
        Value for a ranking with fewer than k documents: "null" for null, None to count the missing
        documents as not relevant (if `depth="k"`).

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Unjudged documents count as not relevant.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.
    """
    one_of("depth", depth, ("k", "retrieved"))
    one_of("short", short, (None, "null"))
    one_of("irrelevant", irrelevant, (None, "null"))
    value = share_of_top(t.relevant(rel), k, depth)
    if short is not None and k is not None:
        value = where(t.num_retrieved() >= k, value)
    return value if irrelevant is None else where(t.num_relevant(rel) > 0, value)


@define_metric(undefined="no document is relevant", order_matters="cutoff")
def recall(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Recall: fraction of the relevant documents that are among the first k.

    $$\mathrm{R@k} = \frac{1}{R} \sum_{r=1}^{k} \mathrm{relevant}_r$$

    where R is the number of relevant documents, retrieved or not.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.recall(2)  # one of two
    0.5
    """
    return ratio(t.top(t.relevant(rel), k).count(), t.num_relevant(rel))


@define_metric(binary=True, undefined="no document is relevant", order_matters="cutoff")
def full_recall(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Full recall: 1 if all relevant documents are among the first k, else 0.

    $$\mathrm{Full@k} = \lfloor \mathrm{R@k} \rfloor$$

    where R@k is the recall of the first k documents.

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking.

    References
    ----------
    Wu et al., LongMemEval: benchmarking chat assistants on long-term interactive memory, 2024,
    `recall_all`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.full_recall(2), df.ranking.full_recall(3)
    (0.0, 1.0)
    """
    return recall.tree(k, rel=rel).floor()


@define_metric(undefined="no document is relevant", order_matters="cutoff")
def recall_capped(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Capped recall: number of relevant documents among the first k over min(k, R).

    $$\mathrm{Rcap@k} = \frac{1}{\min(k, R)} \sum_{r=1}^{k} \mathrm{relevant}_r$$

    where R is the number of relevant documents, retrieved or not.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Thakur et al., BEIR: a heterogeneous benchmark for zero-shot evaluation, 2021.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None], "label": [1, 0, 1],
    ... })
    >>> # The first document is one of min(k, 2) relevant documents.
    >>> df.ranking.recall_capped(1), df.ranking.recall_capped(2)
    (1.0, 0.5)
    """
    possible = t.num_relevant(rel).clip(high=k)
    return ratio(t.top(t.relevant(rel), k).count(), possible)


@define_metric(
    undefined="no document is relevant, or no cutoff is given and no document was retrieved",
    order_matters="cutoff",
)
def relative_precision(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Relative precision: precision at k divided by the highest possible precision.

    $$\frac{1}{\min(k, R)} \sum_{r=1}^{k} \mathrm{relevant}_r$$

    where R is the number of relevant documents, retrieved or not.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.relative_precision()
    0.5

    Parameters
    ----------
    k
        Cutoff, a positive integer. None: the number of retrieved documents.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Buckley, trec_eval, `relative_P`.
    """
    if k is not None:
        return recall_capped.tree(k, rel=rel)
    possible = least(t.num_retrieved(), t.num_relevant(rel))
    return ratio(t.top(t.relevant(rel)).count(), possible)


@define_metric(undefined="no document is relevant", order_matters="cutoff")
def fbeta(k: int | None = None, *, beta: float = 1, rel: float | None = None) -> Value:
    r"""F-measure: weighted harmonic mean of precision and recall at k.

    $$F_\beta = \frac{(1 + \beta^2) \cdot \mathrm{hits}}{\beta^2 R + k}$$

    where hits is the number of relevant documents among the first k, and R the number of all
    relevant documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.fbeta(beta=2)  # 5 x 1 / (4 x 2 + 2)
    0.5

    Parameters
    ----------
    beta
        Weight of recall relative to precision, above 0.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking, 0 if no relevant document is among the first k.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.
    """
    positive("beta", beta, 1e100)
    wanted = t.num_relevant(rel)
    weight = beta * beta
    considered = t.num_retrieved() if k is None else k
    value = (1 + weight) * t.top(t.relevant(rel), k).count() / (weight * wanted + considered)
    return where(wanted > 0, value)


@define_metric(undefined="no document is relevant", order_matters="cutoff")
def f1(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""F1: harmonic mean of precision and recall at k.

    $$F_1 = \frac{2 \cdot \mathrm{hits}}{R + k}$$

    where hits is the number of relevant documents among the first k, and R the number of all
    relevant documents.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None], "label": [1, 1, 1],
    ... })
    >>> df.ranking.f1()  # 2 x 2 / (3 + 2)
    0.8
    """
    return fbeta.tree(k, beta=1, rel=rel)


@define_metric(binary=True, undefined="no document is relevant", order_matters="cutoff")
def hit_rate(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Hit rate (success): 1 if any of the first k documents is relevant, else 0.

    $$\mathrm{Hit@k} = \max_{r \le k} \mathrm{relevant}_r$$

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking.

    References
    ----------
    Deshpande & Karypis, Item-based top-N recommendation algorithms, 2004.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> df.ranking.hit_rate(1), df.ranking.hit_rate(2)
    (0.0, 1.0)
    """
    found = t.top(t.relevant(rel), k).count()
    return where(t.num_relevant(rel) > 0, found.clip(high=1))


@define_metric(undefined="no document is relevant, or `multiple` makes the cutoff 0")
def r_precision(*, multiple: float = 1, rel: float | None = None) -> Value:
    r"""R-precision: precision at R, the number of relevant documents.

    $$\mathrm{Rprec} = \frac{1}{c} \sum_{r=1}^{c} \mathrm{relevant}_r
    \qquad c = \lfloor \mathrm{multiple} \cdot R + 0.9 \rfloor$$

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.r_precision()  # 1 of the first 2
    0.5

    Parameters
    ----------
    multiple
        Factor by which R is multiplied to get the cutoff, above 0.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Buckley & Voorhees, Evaluating evaluation measure stability, 2000.
    """
    positive("multiple", multiple, 1e9)
    cutoff = t.num_relevant(rel)
    if multiple != 1:
        cutoff = (cutoff * multiple + 0.9).floor()
    return ratio(t.top(t.relevant(rel), cutoff).count(), cutoff)


@define_metric(undefined="no document is relevant")
def average_precision(
    k: int | None = None,
    *,
    norm: Literal["R", "min", "retrieved", "hits"] = "R",
    rel: float | None = None,
) -> Value:
    r"""Average precision: mean of the precision at the rank of each relevant document.

    $$\mathrm{AP@k} = \frac{1}{R} \sum_{r=1}^{k} \mathrm{relevant}_r
    \cdot \frac{\mathrm{hits}_r}{r}$$

    where hits_r is the number of relevant documents among the first r, and R the number of all
    relevant documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.average_precision()  # (1 / 1 + 2 / 3) / 2
    0.8333333333333333

    Parameters
    ----------
    norm
        Divisor: "R" for the number of relevant documents (as in trec_eval); "min" for the smaller
        of k and R, so that a perfect ranking scores 1; "retrieved" for the smallest of k, R and the
        number of retrieved documents, null if that is 0; "hits" for the number of relevant
        documents among the first k.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking, 0 if no relevant document is among the first k.

    References
    ----------
    Buckley & Voorhees, Evaluating evaluation measure stability, 2000.
    """
    one_of("norm", norm, ("R", "min", "retrieved", "hits"))
    return normalized(t.at_hits(lambda rank, hits: hits / rank, k, rel).sum(), k, norm, rel)


def normalized(total: Value, k: int | None, norm: str, rel: float | None) -> Value:
    """Return a sum of precisions, divided as in average precision."""
    wanted = t.num_relevant(rel)
    if norm == "retrieved":
        wanted = least(t.num_retrieved(k), wanted)
    divisor = wanted
    if norm == "min" and k is not None:
        divisor = wanted.clip(high=k)
    if norm == "hits":
        divisor = t.top(t.relevant(rel), k).count().clip(1)
    return where(wanted > 0, total / divisor)


def share_of_top(condition: Term, k: int | None, depth: Literal["k", "retrieved"]) -> Value:
    """Return the share of the first k documents, or ranks, that meet a condition."""
    found = t.top(condition, k).count()
    whole = k is None or depth == "retrieved"
    return ratio(found, t.num_retrieved(k)) if whole else found / k


def judged_nonrelevant(rel: float | None) -> Term:
    """Return whether a document is judged not relevant, with a label of 0 or more."""
    return t.JUDGED & (t.LABEL >= 0) & ~t.relevant(rel)


@define_metric(undefined="no document is relevant", expected=False)
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


@define_metric(undefined="no document is relevant", expected=False)
def eleven_point(
    *, recalls: Sequence[float] | None = None, rounding: Rounding = "up", rel: float | None = None
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
        raise ArgumentError(f"must be numbers from 0 to 1; found {recalls!r}", "recalls")
    total = t.fold(_precisions_at, *_hits(rel), recalls=tuple(points), rounding=rounding)
    return where(t.num_relevant(rel) > 0, total / len(points))


def _precisions_at(
    hit: pl.Expr, rank: pl.Expr, relevant: pl.Expr, *, recalls: Sequence[float], rounding: Rounding
) -> pl.Expr:
    """Return the sum of the highest precisions at several recalls."""
    ranks = rank.filter(hit)
    interpolated = (ranks.cum_count() / ranks).cum_max(reverse=True).implode()
    # Index of the hit that reaches each recall, out of bounds if there are fewer hits.
    least = [_least(recall, relevant, rounding).clip(1) - 1 for recall in recalls]
    needed = pl.concat_list(hits.cast(pl.Int64) for hits in least)
    return interpolated.list.gather(needed, null_on_oob=True).list.sum()


@define_metric(
    low=None, high=0, aggregate="geometric", undefined="no document is relevant", expected=False
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


@define_metric(undefined="no document is relevant", expected=False)
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
