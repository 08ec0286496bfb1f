"""Metrics that model a user who walks down the list: RR, RBP and its residual, ARP, PWA."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank.gain import reciprocal
from polars_rank.metrics.metric import metric, ratio, share, whole_number
from polars_rank.ranked import JUDGED, LABEL, RANK, number_relevant, relevant, top

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["average_relevance_position", "pwa", "rbp", "rbp_residual", "reciprocal_rank"]


@metric(perfect=1)
def reciprocal_rank(k: int | None = None, *, rel: float | None = None) -> pl.Expr:
    r"""Reciprocal rank: 1 / rank of the first relevant document. Its mean is MRR.

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; 0 where no relevant document is among the first k,
        null where no document is relevant at all.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `rel` that is not a number.

    References
    ----------
    Voorhees, The TREC-8 question answering track report, 1999.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 1, 1]})
    >>> df.ranking.reciprocal_rank()
    0.5
    """
    first = top(pl.when(relevant(rel)).then(RANK), k).min()
    return pl.when(number_relevant(rel) > 0).then((1 / first).fill_null(0.0))


@metric()
def rbp(
    k: int | None = None, *, p: float = 0.8, graded: bool = False, rel: float | None = None
) -> pl.Expr:
    r"""Rank-biased precision: a user goes on to the next document with probability p.

    $$\mathrm{RBP} = (1 - p) \sum_r relevant_r \cdot p^{r - 1}$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    p
        Persistence of the user, between 0 and 1.
    graded
        Whether a relevant document counts as its label, not as 1.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 per list, in [0, 1) unless it is graded, never null: 0 where nothing
        relevant is retrieved. An unjudged document counts as not relevant.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `p` that is not between 0 and 1.

    References
    ----------
    Moffat & Zobel, Rank-biased precision for measurement of retrieval effectiveness, 2008.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.rbp(p=0.5)  # 0.5 x (1 + 0.25)
    0.625
    """
    share("p", p)
    worth = pl.when(relevant(rel)).then(LABEL.cast(pl.Float64)) if graded else relevant(rel)
    return (1 - p) * top(worth, k, _persistence(p)).sum()


@metric()
def rbp_residual(k: int | None = None, *, p: float = 0.8) -> pl.Expr:
    r"""RBP residual: how much RBP could still grow if all that is unknown were relevant.

    $$p^{\min(k, n)} + (1 - p) \sum_{r=1}^{k} unjudged_r \cdot p^{r-1}$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    p
        Persistence of the user, between 0 and 1.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list, never null: 1 where nothing was retrieved. RBP lies
        between `rbp` and `rbp` + this.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `p` that is not between 0 and 1.

    References
    ----------
    Moffat & Zobel, Rank-biased precision for measurement of retrieval effectiveness, 2008.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, None]})
    >>> df.ranking.rbp_residual(p=0.5)  # 0.25 + 0.5 x 0.5
    0.5
    """
    share("p", p)
    unknown = (1 - p) * top(~JUDGED, k, _persistence(p)).sum()
    listed = RANK.count() if k is None else RANK.count().clip(upper_bound=k)
    return pl.lit(float(p)).pow(listed) + unknown


@metric(low=None, high=None)
def average_relevance_position() -> pl.Expr:
    r"""Average relevance position: the mean rank of the documents, weighted by label.

    $$\mathrm{ARP} = \frac{\sum_r label_r \cdot r}{\sum_r label_r}$$

    Returns
    -------
    Metric
        One Float64 per list, 1 or more on labels that are not negative, lower is better; null
        where the labels of the retrieved documents do not add up to more than 0.

    References
    ----------
    Zhu, Recall, precision and average precision, 2004; Pasumarthi et al., TF-Ranking, 2019.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1]})
    >>> df.ranking.average_relevance_position()  # (2 x 1 + 1 x 3) / 3
    1.6666666666666667
    """
    label = LABEL.cast(pl.Float64)
    return ratio(top(label, weight=lambda rank: rank).sum(), top(label).sum())


@metric(high=None)
def pwa(k: int) -> pl.Expr:
    r"""Position-weighted average of the labels: the first rank weighs 1, the second 1/2.

    $$\mathrm{PWA@k} = \frac{\sum_r label_r / r}{\sum_r 1 / r} \qquad r \le \min(k, n)$$

    Parameters
    ----------
    k
        Cutoff, at least 1; TensorFlow-Ranking takes 5.

    Returns
    -------
    Metric
        One Float64 per list, within the range of the labels; null where nothing was
        retrieved. An unjudged document counts as label 0.

    Raises
    ------
    ArgumentError
        For a `k` below 1.

    References
    ----------
    Pasumarthi et al., TF-Ranking: scalable TensorFlow library for learning-to-rank, 2019.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, 4]})
    >>> df.ranking.pwa(5)  # (1 + 4 / 2) / (1 + 1 / 2)
    2.0
    """
    whole_number("k", k)
    whole = top(pl.lit(1.0), k, reciprocal).sum()
    return ratio(top(LABEL.cast(pl.Float64), k, reciprocal).sum(), whole)


def _persistence(p: float) -> Callable[[pl.Expr], pl.Expr]:
    return lambda rank: pl.lit(float(p)).pow(rank.cast(pl.Float64) - 1)
