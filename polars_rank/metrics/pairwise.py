"""Metrics of document pairs and of score thresholds: areas under curves, label ranking."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import number, share
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.vocabulary import LABEL, RETRIEVED, SCORE, Value, ratio, where

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "coverage_error", "label_ranking_average_precision", "label_ranking_loss", "pair_accuracy",
    "partial_auc", "pr_auc", "roc_auc", "top_k_accuracy",
]  # fmt: skip


@define_metric(
    undefined="all or none of the retrieved documents are relevant",
    skipped=True,
    order_matters="never",
)
def roc_auc(*, rel: float | None = None) -> Value:
    r"""ROC AUC: probability that a relevant document outscores a nonrelevant one.

    $$\mathrm{AUC} = \frac{\sum_{\mathrm{relevant}} \mathrm{rank}^{\mathrm{up}}
    - P (P + 1) / 2}{P \cdot N}$$

    over the retrieved documents, of which P are relevant and N are not.
    $\mathrm{rank}^{\mathrm{up}}$ is the rank from the lowest score. Tied scores get their mean
    rank, so a tied pair counts one half.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Unjudged documents count as not relevant.

    References
    ----------
    Hanley & McNeil, The meaning and use of the area under a ROC curve, 1982.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.roc_auc()  # 1 of 2 pairs in the right order
    0.5
    """
    positives, negatives = _numbers(rel)
    above = _fold(_ranks_of_hits, rel) - positives * (positives + 1) / 2
    return ratio(above, positives * negatives)


def _ranks_of_hits(score: pl.Expr, hit: pl.Expr) -> pl.Expr:
    return score.rank("average").filter(hit).sum()


@define_metric(skipped=True, undefined="no retrieved document is relevant", order_matters="never")
def pr_auc(*, rel: float | None = None) -> Value:
    r"""PR AUC: area under the precision-recall curve, by the trapezoidal rule.

    $$\sum_{b} (\rho_b - \rho_{b-1}) \cdot \frac{\pi_b + \pi_{b-1}}{2}$$

    where $\rho_b$ and $\pi_b$ are recall and precision of the retrieved documents down to the end
    of block b of tied scores; $\rho_0$ is 0 and $\pi_0$ is 1. For the step-wise area, see
    `average_precision`.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Unjudged documents count as not relevant.

    References
    ----------
    Davis & Goadrich, The relationship between precision-recall and ROC curves, 2006.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.pr_auc()  # (1 + 1) / 2 x 1/2 + (1/2 + 2/3) / 2 x 1/2
    0.7916666666666666
    """
    return _fold(_area, rel)


def _area(score: pl.Expr, hit: pl.Expr) -> pl.Expr:
    """Return the mean height of the trapezoids of the blocks of tied scores of the hits."""
    start, end, hits_start, hits_end = _blocks(score, hit)
    before = pl.when(start > 0).then(hits_start / start).otherwise(1.0)
    return ((hits_end / end + before) / 2).mean()


@define_metric(
    undefined="all or none of the retrieved documents are relevant",
    skipped=True,
    order_matters="never",
)
def partial_auc(*, max_fpr: float = 1, rel: float | None = None) -> Value:
    r"""Partial ROC AUC: area up to a false positive rate, scaled so chance is 0.5.

    $$\frac{1}{2} \left( 1 + \frac{A - f^2 / 2}{f - f^2 / 2} \right)$$

    where A is the area under the ROC curve from 0 to f, the false positive rate `max_fpr`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> # A is 1/4 of 1/2: (1 + (1/4 - 1/8) / (1/2 - 1/8)) / 2.
    >>> df.ranking.partial_auc(max_fpr=0.5)
    0.6666666666666666

    Parameters
    ----------
    max_fpr
        Highest false positive rate, in (0, 1]. With 1, the value is `roc_auc`.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    McClish, Analyzing a portion of the ROC curve, 1989.
    """
    number("max_fpr", max_fpr)
    if max_fpr == 1:
        return roc_auc.tree(rel=rel)
    share("max_fpr", max_fpr)
    positives, negatives = _numbers(rel)
    area = ratio(_fold(_area_below, rel, max_fpr=max_fpr), positives * negatives)
    chance = max_fpr**2 / 2
    return (1 + (area - chance) / (max_fpr - chance)) / 2


def _area_below(score: pl.Expr, hit: pl.Expr, *, max_fpr: float) -> pl.Expr:
    """Return the area below a false positive rate, as a number of pairs."""
    start, end, hits_start, hits_end = _blocks(score, hit)
    limit = max_fpr * (score.count().cast(pl.Float64) - hit.sum().cast(pl.Float64))
    # Each hit raises the curve by 1 / P, along the negatives tied with it.
    start, end = start - hits_start, end - hits_end
    ramp = (limit - start) ** 2 / (2 * (end - start))
    below = pl.when(limit > start).then(ramp).otherwise(0.0)
    return pl.when(limit >= end).then(limit - (start + end) / 2).otherwise(below).sum()


@define_metric(
    skipped=True, undefined="all or none of the first k documents are relevant", expected=False
)
def pair_accuracy(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Pair accuracy: fraction of relevant-nonrelevant pairs in the right order.

    $$1 - \frac{\sum_{\mathrm{hits}} (\mathrm{rank} - \mathrm{hits})}{h \cdot o}$$

    over the first k documents, of which h are relevant and o are not. The sum is over the relevant
    documents; hits is the number of relevant documents down to the given rank.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Unjudged documents count as not relevant.

    References
    ----------
    MacAvaney, Macdonald & Ounis, Streamlining evaluation with ir-measures, 2022.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.pair_accuracy()  # 1 of 2 pairs in the right order
    0.5
    """
    wrong = t.at_hits(lambda rank, hits: rank - hits, k, rel).sum()
    hits = t.top(t.relevant(rel), k).count()
    others = t.num_retrieved(k) - hits
    return ratio(hits * others - wrong, hits * others)


@define_metric(skipped=True, undefined="no retrieved document is relevant", order_matters="never")
def label_ranking_average_precision(*, rel: float | None = None) -> Value:
    r"""Label ranking average precision: mean precision at the score of each hit.

    $$\mathrm{LRAP} = \frac{1}{h} \sum_{\mathrm{hits}}
    \frac{|\lbrace \mathrm{relevant} : \mathrm{score} \ge s \rbrace|}
    {|\lbrace \mathrm{retrieved} : \mathrm{score} \ge s \rbrace|}$$

    where h is the number of relevant documents retrieved, and s the score of a hit.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Tied documents count together.

    References
    ----------
    Tsoumakas, Katakis & Vlahavas, Mining multi-label data, 2010.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.label_ranking_average_precision()  # (1 / 1 + 2 / 3) / 2
    0.8333333333333333
    """
    return _fold(_precision_at_hits, rel)


def _precision_at_hits(score: pl.Expr, hit: pl.Expr) -> pl.Expr:
    _, end, _, hits_end = _blocks(score, hit)
    return (hits_end / end).mean()


@define_metric(
    undefined="all or none of the retrieved documents are relevant",
    skipped=True,
    lower_is_better=True,
    order_matters="never",
)
def label_ranking_loss(*, rel: float | None = None) -> Value:
    r"""Label ranking loss: fraction of relevant-nonrelevant pairs in the wrong order.

    $$\frac{|\lbrace (\mathrm{hit}, \mathrm{other}) : \mathrm{score}_{\mathrm{hit}} \le
    \mathrm{score}_{\mathrm{other}} \rbrace|}{h \cdot o}$$

    over the retrieved documents, of which h are relevant and o are not.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Pairs with equal scores count as wrong.

    References
    ----------
    Tsoumakas, Katakis & Vlahavas, Mining multi-label data, 2010.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.label_ranking_loss()  # 1 of 2 pairs in the wrong order
    0.5
    """
    positives, negatives = _numbers(rel)
    return ratio(_fold(_wrong_pairs, rel), positives * negatives)


def _wrong_pairs(score: pl.Expr, hit: pl.Expr) -> pl.Expr:
    _, end, _, hits_end = _blocks(score, hit)
    return (end - hits_end).sum()


@define_metric(
    low=1,
    high=None,
    undefined="no retrieved document is relevant",
    skipped=True,
    lower_is_better=True,
    order_matters="never",
)
def coverage_error(*, rel: float | None = None) -> Value:
    r"""Coverage error: rank of the last relevant document that was retrieved.

    $$\max_{\mathrm{hits}} |\lbrace \mathrm{retrieved}
    : \mathrm{score} \ge \mathrm{score}_{\mathrm{hit}} \rbrace|$$

    Returns
    -------
    Metric
        One Float64 per ranking, 1 or more. Tied documents count together.

    References
    ----------
    Tsoumakas, Katakis & Vlahavas, Mining multi-label data, 2010.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.coverage_error()  # all relevant documents: to rank 3
    3.0
    """
    return _fold(_lowest_hit, rel)


def _lowest_hit(score: pl.Expr, hit: pl.Expr) -> pl.Expr:
    return _blocks(score, hit)[1].max()


@define_metric(binary=True, undefined="no document is relevant")
def top_k_accuracy(k: int, *, rel: float | None = None) -> Value:
    r"""Top-k accuracy: 1 if a document of the highest label is among the first k.

    $$\left[ \max_{r \le k} \mathrm{label}_r = \max_{\mathrm{judged}} \mathrm{label} \right]$$

    The brackets are 1 if the equation holds, otherwise 0.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 2, 0],
    ... })
    >>> df.ranking.top_k_accuracy(1), df.ranking.top_k_accuracy(2)
    (0.0, 1.0)

    Parameters
    ----------
    k
        Cutoff, a positive integer.

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking.

    References
    ----------
    Russakovsky et al., ImageNet large scale visual recognition challenge, 2015.
    """
    best = t.top(LABEL, k).max().equals(t.each(LABEL).max())
    return where(t.num_relevant(rel) > 0, where(best, 1.0, 0.0))


def _numbers(rel: float | None) -> tuple[Value, Value]:
    """Return the numbers of relevant and of nonrelevant retrieved documents."""
    positives = t.each(t.relevant(rel) & RETRIEVED).count()
    return positives, t.num_retrieved() - positives


def _fold(function: Callable[..., pl.Expr], rel: float | None, **parameters: float) -> Value:
    """Apply a function to the scores and to the flags of relevant retrieved documents."""
    hits = t.relevant(rel) & RETRIEVED
    return t.fold(function, t.in_any_order(SCORE), t.in_any_order(hits), **parameters)


def _blocks(score: pl.Expr, hit: pl.Expr) -> tuple[pl.Expr, pl.Expr, pl.Expr, pl.Expr]:
    """Return the block of tied scores of each relevant retrieved document.

    A block is given by the rank before its first rank and by its last rank, first among all
    retrieved documents, then among the relevant ones. All are null for other documents.
    """

    def last(score: pl.Expr) -> pl.Expr:
        return score.rank("max", descending=True).cast(pl.Float64)

    def before(score: pl.Expr) -> pl.Expr:
        return score.rank("min", descending=True).cast(pl.Float64) - 1

    # Masked instead of filtered: if Polars computes a shared subexpression once, it broadcasts a
    # scalar to the height of the frame, which does not match the height of a filtered column.
    start, end = (pl.when(hit).then(rank(score)) for rank in (before, last))
    hits = pl.when(hit).then(score)
    return start, end, before(hits), last(hits)
