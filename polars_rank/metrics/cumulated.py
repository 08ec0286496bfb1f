"""Metrics of gain cumulated along the list: G, R-based NDCG, NDCG at the relevant documents."""

from __future__ import annotations

import polars as pl

from polars_rank.gain import Gain, linear, log2
from polars_rank.metrics.gains import ndcg
from polars_rank.metrics.metric import metric, ratio
from polars_rank.ranked import LABEL, RANK, each, in_ideal_order, in_order

__all__ = ["g_measure", "ndcg_rel", "rndcg"]


@metric(perfect=1)
def g_measure(*, gain: Gain = linear) -> pl.Expr:
    r"""G: gains discounted by how far the gain so far lags behind the ideal list.

    $$\frac{\sum_i g_i / \log_2 (2 + cost_i - \sum_{j \le i} g_j)}{\sum_{judged} g}
    \qquad cost_i = \sum_{j \le i} \max(g_{(j)}, 1)$$

    with $g_{(j)}$ the gains in ideal order, 0 past their end.

    Parameters
    ----------
    gain
        `linear`, `exp2`, a mapping `{grade: gain}`, or a function Expr -> Expr.

    Returns
    -------
    Metric
        One Float64 per list, in [0, 1] unless a gain is negative; null where no document has
        a gain above 0. An unjudged document has no gain and costs 1.

    Raises
    ------
    ArgumentError
        For an unknown `gain`.

    References
    ----------
    Buckley, trec_eval, `G`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 0]})
    >>> df.ranking.g_measure()
    1.0
    """

    def cost(label: pl.Expr, _: pl.Expr) -> pl.Expr:
        worth = gain(label)
        return pl.when(worth > 0).then(worth.clip(1)).otherwise(1.0)

    gains = in_order(_gains(gain))
    lag = in_ideal_order(cost).cum_sum() - gains.cum_sum()
    return ratio((gains / (2 + lag).log(2)).sum(), each(gain(LABEL).clip(0)).sum())


@metric(perfect=1)
def rndcg(*, gain: Gain = linear) -> pl.Expr:
    r"""R-based NDCG: mean NDCG at the cutoffs where the ideal list changes its grade.

    The cutoffs: for each gain above 0 that was judged, how many judged documents have it or a
    higher one; and n, the number of retrieved documents, where it is more than one above the
    last of them, as in trec_eval.

    Parameters
    ----------
    gain
        `linear`, `exp2`, a mapping `{grade: gain}`, or a function Expr -> Expr.

    Returns
    -------
    Metric
        One Float64 per list, in [0, 1] unless a gain is negative; null where no document has
        a gain above 0.

    Raises
    ------
    ArgumentError
        For an unknown `gain`.

    References
    ----------
    Buckley, trec_eval, `Rndcg`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 2, 0]})
    >>> df.ranking.rndcg() == (df.ranking.ndcg(1) + df.ranking.ndcg(2)) / 2
    True
    """
    best = in_ideal_order(lambda label, _: gain(label))
    changes = (best > 0) & best.ne_missing(best.shift(-1))
    deeper = RANK.count() > (best > 0).sum() + 1
    whole = pl.when(deeper).then(ndcg(gain=gain, depth="retrieved")).fill_null(0.0)
    mean = (_curve(gain).filter(changes).sum() + whole) / (changes.sum() + deeper)
    return pl.when(changes.any()).then(mean)


@metric(perfect=None)
def ndcg_rel(*, gain: Gain = linear) -> pl.Expr:
    r"""NDCG averaged over the ranks of the documents with a gain, as AP averages precision.

    $$\frac{1}{R} \left( \sum_{hits} \mathrm{NDCG@}rank + (R - hits) \cdot \mathrm{NDCG} \right)$$

    with a hit a retrieved document with a gain above 0, and R all that were judged.

    Parameters
    ----------
    gain
        `linear`, `exp2`, a mapping `{grade: gain}`, or a function Expr -> Expr.

    Returns
    -------
    Metric
        One Float64 per list, in [0, 1] unless a gain is negative; null where no document has
        a gain above 0.

    Raises
    ------
    ArgumentError
        For an unknown `gain`.

    References
    ----------
    Buckley, trec_eval, `ndcg_rel`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> df.ranking.ndcg_rel() == df.ranking.ndcg(2)
    True
    """
    hit = in_order(gain(LABEL)) > 0
    wanted = each(gain(LABEL) > 0).sum()
    missed = (wanted - hit.sum()) * ndcg(gain=gain).fill_null(0.0)
    return ratio(_curve(gain).filter(hit).sum() + missed, wanted)


def _gains(gain: Gain) -> pl.Expr:
    return gain(LABEL).fill_null(0.0)


def _curve(gain: Gain) -> pl.Expr:
    """Return NDCG at every rank, in rank order; null where the ideal DCG is not above 0."""
    found = in_order(_gains(gain) * log2(RANK)).fill_null(0.0).cum_sum()
    best = in_ideal_order(lambda label, place: (gain(label) * log2(place)).fill_null(0.0))
    return ratio(found, best.cum_sum())
