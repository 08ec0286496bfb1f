"""Variants of cumulated gain: G, R-based NDCG, mean NDCG at the ranks of hits."""

from __future__ import annotations

import polars as pl

from polars_rank.discounts import log2
from polars_rank.gains import Gain, linear
from polars_rank.metrics import terms as t
from polars_rank.metrics.discounted_gain import ndcg
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.nodes import Listed
from polars_rank.metrics.terms import IDEAL_RANK, RANK, Value, ratio, where

__all__ = ["g_measure", "ndcg_rel", "rndcg"]


@define_metric(perfect=1, undefined="no document has a gain above 0", expected=False)
def g_measure(*, gain: Gain = linear) -> Value:
    r"""G: gains discounted by how far the cumulated gain falls behind the ideal.

    $$\mathrm{G} = \frac{\sum_i g_i / \log_2 (2 + \mathrm{cost}_i - \sum_{j \le i} g_j)}
    {\sum_{\mathrm{judged}} \max(g, 0)}
    \qquad \mathrm{cost}_i = \sum_{j \le i} \max(g_{(j)}, 1)$$

    where $g_{(j)}$ is the j-th gain in ideal order, or 0 beyond the last judged document.

    Returns
    -------
    Metric
        One Float64 per ranking, in [0, 1] unless a gain is negative. An unjudged document has gain
        0 and cost 1.

    References
    ----------
    Buckley, trec_eval, `G`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 1, 0],
    ... })
    >>> round(df.ranking.g_measure(), 4)  # 1 / log2(2 + 2 - 1)
    0.6309
    """
    worth = t.gain(gain)
    costs = t.in_ideal_order(where(worth > 0, worth.clip(1), 1.0))
    own = t.fold(_discounted_by_lag, t.in_order(worth.fill_null(0.0)), costs)
    return ratio(own, t.each(worth.clip(0)).sum())


def _discounted_by_lag(gains: pl.Expr, costs: pl.Expr) -> pl.Expr:
    """Return the sum of the gains, discounted by the cumulative gain that is missing."""
    lag = costs.cum_sum() - gains.cum_sum()
    return (gains / (2 + lag).log(2)).sum()


@define_metric(
    perfect=1, undefined="no document is relevant, or none has a gain above 0", expected=False
)
def rndcg(*, gain: Gain = linear, rel: float | None = None) -> Value:
    r"""R-based NDCG: mean NDCG at the cutoffs where the gain in ideal order changes.

    $$\mathrm{Rndcg} = \frac{1}{|C|} \sum_{c \in C} \mathrm{NDCG@}c$$

    The cutoffs C are, for each distinct gain above 0, the number of judged documents with this gain
    or a higher one. As in trec_eval, the number of retrieved documents is added if it exceeds the
    last of these cutoffs by more than 1.

    Returns
    -------
    Metric
        One Float64 per ranking, in [0, 1] unless a gain is negative.

    References
    ----------
    Buckley, trec_eval, `Rndcg`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 2, 0],
    ... })
    >>> # (NDCG@1 + NDCG@2) / 2, with NDCG@1 = 1/2.
    >>> round(df.ranking.rndcg(), 4)
    0.6799
    """
    worth = t.in_ideal_order(t.gain(gain))
    number = t.fold(_number_of_changes, worth)
    deeper = t.num_retrieved() > t.each(t.gain(gain) > 0).count() + 1
    whole = where(deeper, ndcg.tree(gain=gain, depth="retrieved")).fill_null(0.0)
    total = t.fold(_ndcg_at_changes, worth, *_discounted(gain)) + whole
    is_known = (number > 0) & (t.num_relevant(rel) > 0)
    return ratio(total, where(is_known, number + where(deeper, 1.0, 0.0), 0.0))


def _ndcg_at_changes(worth: pl.Expr, own: pl.Expr, best: pl.Expr) -> pl.Expr:
    return _curve(own, best).filter(_changes(worth)).sum()


def _number_of_changes(worth: pl.Expr) -> pl.Expr:
    return _changes(worth).sum().cast(pl.Float64)


def _changes(worth: pl.Expr) -> pl.Expr:
    """Return whether each document of the ideal ranking is the last one of its gain."""
    return (worth > 0) & worth.ne_missing(worth.shift(-1))


@define_metric(perfect=None, undefined="no document has a gain above 0", expected=False)
def ndcg_rel(*, gain: Gain = linear) -> Value:
    r"""Mean NDCG at the ranks of the documents with a gain, by analogy with AP.

    $$\frac{1}{R} \left( \sum_{\mathrm{hits}} \mathrm{NDCG@rank}
    + (R - \mathrm{hits}) \cdot \mathrm{NDCG} \right)$$

    where hits are the retrieved documents with a gain above 0, and R is the number of judged
    documents with a gain above 0.

    Returns
    -------
    Metric
        One Float64 per ranking, in [0, 1] unless a gain is negative.

    References
    ----------
    Buckley, trec_eval, `ndcg_rel`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> # (NDCG@1 + NDCG@3) / 2, with NDCG@3 = (1 + 1/2) / (1 + 1 / log2(3)).
    >>> round(df.ranking.ndcg_rel(), 4)
    0.9599
    """
    worth = t.gain(gain)
    wanted = t.each(worth > 0).count()
    missed = (wanted - t.top(worth > 0).count()) * ndcg.tree(gain=gain).fill_null(0.0)
    own = t.fold(_ndcg_at_gains, t.in_order(worth), *_discounted(gain))
    return ratio(own + missed, wanted)


def _ndcg_at_gains(worth: pl.Expr, own: pl.Expr, best: pl.Expr) -> pl.Expr:
    return _curve(own, best).filter(worth > 0).sum()


def _discounted(gain: Gain) -> tuple[Listed, Listed]:
    """Return the discounted gains of the ranking and of the ideal ranking."""
    own = t.gain(gain).fill_null(0.0) * RANK.map(log2)
    ideal = (t.gain(gain) * IDEAL_RANK.map(log2)).fill_null(0.0)
    return t.in_order(own), t.in_ideal_order(ideal)


def _curve(own: pl.Expr, best: pl.Expr) -> pl.Expr:
    """Return NDCG at every rank, null if the ideal DCG is 0 or negative."""
    whole = best.cum_sum()
    return pl.when(whole > 0).then(own.fill_null(0.0).cum_sum() / whole)
