"""Metrics that add up gains: CG, DCG, ideal DCG, NDCG, G, R-based NDCG, NDCG at hits."""

from __future__ import annotations

import math
from typing import Literal, TypeAlias, get_args

import polars as pl

from polars_rank._params import one_of
from polars_rank.discounts import Discount, log2
from polars_rank.gains import Gain, linear
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.nodes import Function, Listed, value_of
from polars_rank.metrics.vocabulary import IDEAL_RANK, JUDGED, RANK, RETRIEVED, Value, ratio, where

__all__ = ["cg", "dcg", "g_measure", "ideal_dcg", "ndcg", "ndcg_rel", "rndcg"]

Ideal: TypeAlias = Literal["judged", "retrieved", "full", "all"]

#: Ranks whose weights are added one by one.
_ADDED = 4096
#: Width of a panel of an integral, on a logarithmic scale, and the points and weights of Gauss and
#: Legendre's rule of three points on [-1/2, 1/2].
_PANEL = 0.02
_GAUSS = {-math.sqrt(0.15): 5 / 18, 0.0: 8 / 18, math.sqrt(0.15): 5 / 18}


@define_metric(high=None, order_matters="cutoff")
def cg(k: int | None = None, *, gain: Gain = linear) -> Value:
    r"""Cumulative gain: sum of the gains of the first k documents.

    $$\mathrm{CG@k} = \sum_{r=1}^{k} \mathrm{gain}(\mathrm{label}_r)$$

    Returns
    -------
    Metric
        One Float64 per ranking; 0 for an empty ranking. Unjudged documents have gain 0; negative
        gains are subtracted.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1],
    ... })
    >>> df.ranking.cg(2)  # 2 + 0
    2.0
    """
    return t.top(t.gain(gain), k).sum()


@define_metric(high=None)
def dcg(
    k: int | None = None,
    *,
    gain: Gain = linear,
    discount: Discount = log2,
    irrelevant: Literal["null"] | None = None,
) -> Value:
    r"""Discounted cumulative gain: sum of the gains, each discounted by its rank.

    $$\mathrm{DCG@k} = \sum_{r=1}^{k} \mathrm{gain}(\mathrm{label}_r) \cdot \mathrm{discount}(r)$$

    Returns
    -------
    Metric
        One Float64 per ranking; 0 for an empty ranking. Unjudged documents have gain 0 and keep
        their rank.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002; with
    `exp2`, Burges et al., Learning to rank using gradient descent, 2005.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1],
    ... })
    >>> df.ranking.dcg()  # 2 / log2(2) + 0 / log2(3) + 1 / log2(4)
    2.5
    """
    one_of("irrelevant", irrelevant, (None, "null"))
    value = t.top(t.gain(gain), k, discount).sum()
    return value if irrelevant is None else where(t.each(t.gain(gain)).max() > 0, value)


@define_metric(high=None, order_matters="never")
def ideal_dcg(
    k: int | None = None,
    *,
    gain: Gain = linear,
    discount: Discount = log2,
    ideal: Ideal = "judged",
    depth: Literal["retrieved"] | None = None,
) -> Value:
    r"""Ideal DCG: DCG of the documents sorted by label, highest label first.

    $$\mathrm{IDCG@k} = \sum_{i=1}^{k} \mathrm{gain}(\mathrm{label}_{(i)})
    \cdot \mathrm{discount}(i)$$

    where $(i)$ is the judged document with the i-th highest label.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 1, 2],
    ... })
    >>> round(df.ranking.ideal_dcg(), 4)  # 2 / log2(2) + 1 / log2(3)
    2.6309

    Parameters
    ----------
    ideal
        Documents of the ideal ranking: "judged" for all judged documents, retrieved or not;
        "retrieved" for the judged documents that were retrieved; "full" for k documents with gain
        1, even if fewer are judged (without k: as many as were retrieved); "all" for all judged
        documents, at ranks beyond k too.
    depth
        Length of the ideal ranking: "retrieved" for the number of retrieved documents, at most k;
        None for k, or no limit if k is None.

    Returns
    -------
    Metric
        One Float64 per ranking.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.
    """
    one_of("ideal", ideal, get_args(Ideal))
    one_of("depth", depth, (None, "retrieved"))
    if ideal == "all":
        return ideal_dcg.tree(gain=gain, discount=discount, depth=depth)
    if ideal == "full":
        if k is None or depth == "retrieved":
            return t.top(1, k, discount).sum()
        return value_of(weight_sum(discount, k))
    if ideal == "judged" and not getattr(gain, "falls", False):
        cut = k if depth is None else t.num_retrieved(k)
        return t.ideal_top(gain, discount, cut).sum()
    listed = JUDGED if ideal == "judged" else JUDGED & RETRIEVED
    shown = [] if depth is None else [RETRIEVED]
    documents = map(t.in_any_order, (t.gain(gain), listed, *shown))
    return t.fold(_by_gain, *documents, discount=discount, k=k)


def _by_gain(
    gains: pl.Expr, listed: pl.Expr, *shown: pl.Expr, discount: Discount, k: int | None
) -> pl.Expr:
    """Return the sum of the discounted gains of the listed documents, highest gains first.

    If `shown` has a condition, as many documents count as meet it.
    """
    best = gains.filter(listed).sort(descending=True)
    terms = best * discount(best.cum_count().cast(pl.Float64))
    for each in shown:
        terms = terms.head(each.sum())
    return (terms if k is None else terms.head(k)).sum()


@define_metric(undefined="the ideal DCG is 0 or negative, as without a relevant document")
def ndcg(
    k: int | None = None,
    *,
    gain: Gain = linear,
    discount: Discount = log2,
    ideal: Ideal = "judged",
    depth: Literal["retrieved"] | None = None,
) -> Value:
    r"""Normalized discounted cumulative gain: DCG divided by the ideal DCG.

    $$\mathrm{NDCG@k} = \frac{\mathrm{DCG@k}}{\mathrm{IDCG@k}}
    = \frac{\sum_{r=1}^{k} \mathrm{gain}(\mathrm{label}_r) \cdot \mathrm{discount}(r)}
    {\sum_{i=1}^{k} \mathrm{gain}(\mathrm{label}_{(i)}) \cdot \mathrm{discount}(i)}$$

    where $(i)$ is the document with the i-th highest label.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> round(df.ranking.ndcg(), 4)  # (1 / log2(3)) / (1 / log2(2))
    0.6309

    Parameters
    ----------
    ideal
        Documents of the ideal ranking: "judged" for all judged documents, retrieved or not;
        "retrieved" for the judged documents that were retrieved; "full" for k documents with gain
        1, even if fewer are judged (without k: as many as were retrieved); "all" for all judged
        documents, at ranks beyond k too.
    depth
        Length of the ideal ranking: "retrieved" for the number of retrieved documents, at most k;
        None for k, or no limit if k is None.

    Returns
    -------
    Metric
        One Float64 per ranking, in [0, 1] unless a gain is negative. Unjudged documents have
        gain 0 and keep their rank.

    Raises
    ------
    DataError
        If a label has a gain above 1 and `ideal` is "full".

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002; with
    `exp2`, Burges et al., Learning to rank using gradient descent, 2005.
    """
    whole = ideal_dcg.tree(k, gain=gain, discount=discount, ideal=ideal, depth=depth)
    if ideal != "full":
        return ratio(dcg.tree(k, gain=gain, discount=discount), whole)
    # An ideal DCG of k documents is above 0, whatever the labels.
    value = ratio(dcg.tree(k, gain=gain, discount=discount, irrelevant="null"), whole)
    problem = (
        "the documents of an ideal ranking have gain 1 (`ideal='full'`), but labels have a higher "
        "gain; pass gain='binary', or another `ideal`"
    )
    return t.require(value, where(t.each(t.gain(gain)).max() > 1, 0, 1).equals(1), problem)


@define_metric(undefined="no document has a gain above 0", expected=False)
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


@define_metric(undefined="no document is relevant, or none has a gain above 0", expected=False)
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


@define_metric(undefined="no document has a gain above 0", expected=False)
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


def weight_sum(weight: Function, k: int) -> float:
    """Return the sum of the weights of the ranks 1 to k.

    The weight is a smooth function of the rank that falls, or is constant. Far below rank 1, its
    sum is an integral, from half a rank before the first rank to half a rank after the last one,
    with the first correction of Euler and Maclaurin. The error is that of rounding.
    """
    first = pl.int_range(1, min(k, _ADDED) + 1, eager=True)
    total = math.fsum(_weights(weight, first.cast(pl.Float64)))
    if k <= _ADDED:
        return total
    start, end = _ADDED + 0.5, k + 0.5
    panels = math.ceil(math.log(end / start) / _PANEL)
    width = math.log(end / start) / panels
    middles = width * (pl.int_range(panels, eager=True) + 0.5)
    for point, part in _GAUSS.items():
        ranks = start * (middles + point * width).exp()
        total += part * width * math.fsum(_weights(lambda rank: weight(rank) * rank, ranks))
    around = pl.Series([start - 0.5, start + 0.5, end - 0.5, end + 0.5])
    before, after, last, beyond = _weights(weight, around)
    return total - ((beyond - last) - (after - before)) / 24


def _weights(weight: Function, ranks: pl.Series) -> list[float]:
    return pl.select(weight(pl.lit(ranks)).cast(pl.Float64)).to_series().to_list()
