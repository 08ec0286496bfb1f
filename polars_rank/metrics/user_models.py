"""Metrics that weight documents by rank: RR, RBP and its residual, ARP, PWA."""

from __future__ import annotations

from typing import Literal

import polars as pl

from polars_rank._params import one_of, share, whole_number
from polars_rank.discounts import reciprocal
from polars_rank.metrics import terms as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.terms import JUDGED, LABEL, RANK, Value, ratio, where

__all__ = ["average_relevance_position", "pwa", "rbp", "rbp_residual", "reciprocal_rank"]


@define_metric(perfect=1, undefined="no document is relevant")
def reciprocal_rank(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Reciprocal rank: 1 / rank of the first relevant document.

    $$\mathrm{RR@k} = \max_{r \le k} \frac{\mathrm{relevant}_r}{r}$$

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking, 0 if no relevant document is among the first k. The mean
        over rankings is MRR.

    References
    ----------
    Voorhees, The TREC-8 question answering track report, 1999.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 1, 1],
    ... })
    >>> df.ranking.reciprocal_rank()  # the first relevant document is at rank 2
    0.5
    """
    first = t.top(where(t.relevant(rel), RANK), k).min()
    return where(t.num_relevant(rel) > 0, (1 / first).fill_null(0))


@define_metric()
def rbp(
    k: int | None = None,
    *,
    p: float = 0.8,
    graded: bool = False,
    irrelevant: Literal["null"] | None = None,
    rel: float | None = None,
) -> Value:
    r"""Rank-biased precision for a user who continues with probability p.

    $$\mathrm{RBP} = (1 - p) \sum_{r=1}^{k} \mathrm{relevant}_r \cdot p^{r - 1}$$

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.rbp(p=0.5)  # 0.5 x (1 + 0.25)
    0.625

    Parameters
    ----------
    p
        Persistence: probability that the user continues to the next document, in (0, 1).
    graded
        Whether a relevant document counts as its label instead of 1.

    Returns
    -------
    Metric
        One Float64 per ranking, in [0, 1) unless `graded` is true; 0 if no relevant document was
        retrieved. Unjudged documents count as not relevant.

    References
    ----------
    Moffat & Zobel, Rank-biased precision for measurement of retrieval effectiveness, 2008.
    """
    share("p", p)
    one_of("irrelevant", irrelevant, (None, "null"))
    worth = where(t.relevant(rel), LABEL if graded else 1.0)
    value = (1 - p) * t.top(worth * RANK.map(persistence, p=p), k).sum()
    return value if irrelevant is None else where(t.num_relevant(rel) > 0, value)


@define_metric()
def rbp_residual(k: int | None = None, *, p: float = 0.8) -> Value:
    r"""RBP residual: largest possible increase of RBP with complete judgments.

    $$p^{\min(k, n)} + (1 - p) \sum_{r=1}^{k} \mathrm{unjudged}_r \cdot p^{r-1}$$

    where n is the number of retrieved documents.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, None]})
    >>> df.ranking.rbp_residual(p=0.5)  # 0.25 + 0.5 x 0.5
    0.5

    Parameters
    ----------
    p
        Persistence: probability that the user continues to the next document, in (0, 1).

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking; 1 if no document was retrieved. With complete judgments,
        RBP is between `rbp` and `rbp` plus the residual.

    References
    ----------
    Moffat & Zobel, Rank-biased precision for measurement of retrieval effectiveness, 2008.
    """
    share("p", p)
    unknown = t.top(where(~JUDGED, 1.0) * RANK.map(persistence, p=p), k).sum()
    return p ** t.num_retrieved(k) + (1 - p) * unknown


@define_metric(
    low=None,
    high=None,
    undefined="the sum of the labels of the retrieved documents is not above 0",
    skipped=True,
    lower_is_better=True,
)
def average_relevance_position() -> Value:
    r"""Average relevance position: mean rank of the documents, weighted by label.

    $$\mathrm{ARP} = \frac{\sum_r \mathrm{label}_r \cdot r}{\sum_r \mathrm{label}_r}$$

    Returns
    -------
    Metric
        One Float64 per ranking, 1 or more unless a label is negative.

    References
    ----------
    Zhu, Recall, precision and average precision, 2004; Pasumarthi et al., TF-Ranking, 2019.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1],
    ... })
    >>> df.ranking.average_relevance_position()  # (2 x 1 + 1 x 3) / 3
    1.6666666666666667
    """
    return ratio(t.top(LABEL * RANK).sum(), t.top(LABEL).sum())


@define_metric(high=None, undefined="no document was retrieved")
def pwa(k: int) -> Value:
    r"""Position-weighted average of the labels, with weight 1 / rank.

    $$\mathrm{PWA@k} = \frac{\sum_r \mathrm{label}_r / r}{\sum_r 1 / r} \qquad r \le \min(k, n)$$

    where n is the number of retrieved documents.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, 4]})
    >>> df.ranking.pwa(5)  # (1 + 4 / 2) / (1 + 1 / 2)
    2.0

    Parameters
    ----------
    k
        Cutoff, a positive integer. TensorFlow-Ranking uses 5.

    Returns
    -------
    Metric
        One Float64 per ranking, within the range of the labels. Unjudged documents count as label
        0.

    References
    ----------
    Pasumarthi et al., TF-Ranking: scalable TensorFlow library for learning-to-rank, 2019.
    """
    whole_number("k", k)
    whole = t.top(1.0, k, reciprocal).sum()
    return ratio(t.top(LABEL, k, reciprocal).sum(), whole)


def persistence(rank: pl.Expr, *, p: float) -> pl.Expr:
    """Return the probability that a user who goes on with probability p reaches each rank."""
    return pl.lit(float(p)).pow(rank - 1)
