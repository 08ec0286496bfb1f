"""Metrics that add up what the labels are worth: CG, DCG, ideal DCG, NDCG."""

from __future__ import annotations

from typing import Literal

import polars as pl

from polars_rank._params import one_of
from polars_rank.discounts import Discount, log2
from polars_rank.gains import Gain, linear
from polars_rank.metrics.metric import metric
from polars_rank.metrics.terms import JUDGED, RETRIEVED, Terms, Value, ratio

__all__ = ["cg", "dcg", "ideal_dcg", "ndcg"]


@metric(high=None)
def cg(t: Terms, k: int | None = None, *, gain: Gain = linear) -> Value:
    r"""Cumulative gain: what the first k documents are worth, wherever they stand.

    $$\mathrm{CG@k} = \sum_{r=1}^{k} \mathrm{gain}(\mathrm{label}_r)$$

    Returns
    -------
    Metric
        One Float64 per list, never null: 0 for an empty list. An unjudged document adds
        nothing; a negative gain is subtracted.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1]})
    >>> df.ranking.cg(2)
    2.0
    """
    return t.top(t.gain(gain), k).sum()


@metric(high=None)
def dcg(t: Terms, k: int | None = None, *, gain: Gain = linear, discount: Discount = log2) -> Value:
    r"""Discounted cumulative gain: gains weighted by how far down they stand.

    $$\mathrm{DCG@k} = \sum_{r=1}^{k} \mathrm{gain}(\mathrm{label}_r) \cdot \mathrm{discount}(r)$$

    Returns
    -------
    Metric
        One Float64 per list, never null: 0 for an empty list. An unjudged document adds
        nothing and keeps its rank.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002; with
    `exp2`, Burges et al., Learning to rank using gradient descent, 2005.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1]})
    >>> df.ranking.dcg()  # 2 / log2(2) + 0 / log2(3) + 1 / log2(4)
    2.5
    """
    return t.top(t.gain(gain), k, discount).sum()


@metric(high=None)
def ideal_dcg(
    t: Terms,
    k: int | None = None,
    *,
    gain: Gain = linear,
    discount: Discount = log2,
    ideal: Literal["judged", "retrieved"] = "judged",
    depth: Literal["retrieved"] | None = None,
) -> Value:
    r"""DCG of the ideal list: the documents by label, best first.

    $$\mathrm{IDCG@k} = \sum_{i=1}^{k} \mathrm{gain}(\mathrm{label}_{(i)})
    \cdot \mathrm{discount}(i)$$

    with $(i)$ the i-th judged document by label, best first.

    Parameters
    ----------
    ideal
        The documents of the ideal list: all that are judged, retrieved or not, or only
        those retrieved.
    depth
        With "retrieved" and no k, the ideal list is cut at the number of retrieved
        documents.

    Returns
    -------
    Metric
        One Float64 per list, never null. The order among equal labels changes nothing.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 0, 1]})
    >>> df.ranking.ideal_dcg()
    1.0
    """
    one_of("ideal", ideal, ("judged", "retrieved"))
    one_of("depth", depth, (None, "retrieved"))
    if ideal == "judged" and not getattr(gain, "falls", False):
        cut = t.retrieved() if k is None and depth == "retrieved" else k
        return t.ideal_top(gain, discount, cut).sum()

    def total(worth: pl.Expr, listed: pl.Expr, retrieved: pl.Expr) -> pl.Expr:
        best = worth.filter(listed).sort(descending=True)
        terms = best * discount(best.cum_count().cast(pl.Float64))
        if k is None and depth == "retrieved":
            terms = terms.head(retrieved.sum())
        return (terms if k is None else terms.head(k)).sum()

    listed = JUDGED if ideal == "judged" else JUDGED & RETRIEVED
    return t.fold(total, *map(t.in_any_order, (t.gain(gain), listed, RETRIEVED)))


@metric(perfect=1, undefined="no document has a gain: the ideal DCG is not above 0")
def ndcg(
    t: Terms,
    k: int | None = None,
    *,
    gain: Gain = linear,
    discount: Discount = log2,
    ideal: Literal["judged", "retrieved"] = "judged",
    depth: Literal["retrieved"] | None = None,
) -> Value:
    r"""Normalised discounted cumulative gain: DCG over the DCG of the ideal list.

    $$\mathrm{NDCG@k} = \frac{\mathrm{DCG@k}}{\mathrm{IDCG@k}}
    = \frac{\sum_{r=1}^{k} \mathrm{gain}(\mathrm{label}_r) \cdot \mathrm{discount}(r)}
    {\sum_{i=1}^{k} \mathrm{gain}(\mathrm{label}_{(i)}) \cdot \mathrm{discount}(i)}$$

    with $(i)$ the i-th document of the ideal list: by label, best first.

    Parameters
    ----------
    ideal
        The documents of the ideal list: all that are judged, retrieved or not, or only
        those retrieved.
    depth
        With "retrieved" and no k, the ideal list is cut at the number of retrieved
        documents.

    Returns
    -------
    Metric
        One Float64 per list, in [0, 1] unless a gain is negative; null where the ideal DCG is
        not above 0 (no document with a gain). An unjudged document adds nothing and keeps its
        rank; tied scores follow the `ties` rule of the call.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002; with
    `exp2`, Burges et al., Learning to rank using gradient descent, 2005.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> round(df.ranking.ndcg(), 4)  # (1 / log2(3)) / (1 / log2(2))
    0.6309
    """
    return ratio(
        dcg.on(t, k, gain=gain, discount=discount),
        ideal_dcg.on(t, k, gain=gain, discount=discount, ideal=ideal, depth=depth),
    )
