"""Variants of cumulated gain: G, R-based NDCG, mean NDCG at the ranks of hits."""

from __future__ import annotations

import polars as pl

from polars_rank.discounts import log2
from polars_rank.gains import Gain, linear
from polars_rank.metrics.discounted_gain import ndcg
from polars_rank.metrics.metric import metric
from polars_rank.metrics.terms import RANK, Listed, Terms, Value, ratio, where

__all__ = ["g_measure", "ndcg_rel", "rndcg"]


@metric(perfect=1, undefined="no document has a gain above 0", expected=False)
def g_measure(t: Terms, *, gain: Gain = linear) -> Value:
    r"""G: gains discounted by how far the cumulated gain falls behind the ideal.

    $$\mathrm{G} = \frac{\sum_i g_i / \log_2 (2 + \mathrm{cost}_i - \sum_{j \le i} g_j)}
    {\sum_{\mathrm{judged}} g}
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

    def cost(label: pl.Expr, _: pl.Expr) -> pl.Expr:
        worth = gain(label)
        return pl.when(worth > 0).then(worth.clip(1)).otherwise(1.0)

    def discounted(gains: pl.Expr, costs: pl.Expr) -> pl.Expr:
        lag = costs.cum_sum() - gains.cum_sum()
        return (gains / (2 + lag).log(2)).sum()

    gains = t.in_order(t.gain(gain).fill_null(0.0))
    found = t.fold(discounted, gains, t.in_ideal_order(cost))
    return ratio(found, t.each(t.gain(gain).clip(0)).sum())


@metric(perfect=1, undefined="no document has a gain above 0", expected=False)
def rndcg(t: Terms, *, gain: Gain = linear) -> Value:
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

    def changes(worth: pl.Expr) -> pl.Expr:
        return (worth > 0) & worth.ne_missing(worth.shift(-1))

    def at_changes(worth: pl.Expr, found: pl.Expr, best: pl.Expr) -> pl.Expr:
        return _curve(found, best).filter(changes(worth)).sum()

    worth = t.in_ideal_order(lambda label, _: gain(label))
    number = t.fold(lambda worth: changes(worth).sum().cast(pl.Float64), worth)
    deeper = t.retrieved() > t.each(t.gain(gain) > 0).number() + 1
    whole = where(deeper, ndcg.on(t, gain=gain, depth="retrieved")).fill_null(0.0)
    total = t.fold(at_changes, worth, *_discounted(t, gain)) + whole
    return ratio(total, where(number > 0, number + where(deeper, 1.0, 0.0), 0.0))


@metric(perfect=None, undefined="no document has a gain above 0", expected=False)
def ndcg_rel(t: Terms, *, gain: Gain = linear) -> Value:
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

    def at_hits(worth: pl.Expr, found: pl.Expr, best: pl.Expr) -> pl.Expr:
        return _curve(found, best).filter(worth > 0).sum()

    worth = t.gain(gain)
    wanted = t.each(worth > 0).number()
    missed = (wanted - t.top(worth > 0).number()) * ndcg.on(t, gain=gain).fill_null(0.0)
    found = t.fold(at_hits, t.in_order(worth), *_discounted(t, gain))
    return ratio(found + missed, wanted)


def _discounted(t: Terms, gain: Gain) -> tuple[Listed, Listed]:
    """Return the discounted gains of the ranking and of the ideal ranking."""
    return (
        t.in_order(t.gain(gain).fill_null(0.0) * log2(RANK)),
        t.in_ideal_order(lambda label, place: (gain(label) * log2(place)).fill_null(0.0)),
    )


def _curve(found: pl.Expr, best: pl.Expr) -> pl.Expr:
    """Return NDCG at every rank, null if the ideal DCG is 0 or negative."""
    whole = best.cum_sum()
    return pl.when(whole > 0).then(found.fill_null(0.0).cum_sum() / whole)
