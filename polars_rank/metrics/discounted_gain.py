"""Metrics that add up gains: CG, DCG, ideal DCG, NDCG."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

import polars as pl

from polars_rank._params import one_of
from polars_rank.discounts import Discount, log2
from polars_rank.gains import Gain, linear
from polars_rank.metrics import terms as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.nodes import value_of
from polars_rank.metrics.terms import JUDGED, RETRIEVED, Value, ratio, where
from polars_rank.metrics.weight_sums import weight_sum

__all__ = ["cg", "dcg", "ideal_dcg", "ndcg"]

Ideal: TypeAlias = Literal["judged", "retrieved", "full", "all"]


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
    documents = map(t.in_any_order, (t.gain(gain), listed, RETRIEVED))
    return t.fold(_by_gain, *documents, discount=discount, k=k, depth=depth)


def _by_gain(
    gains: pl.Expr,
    listed: pl.Expr,
    retrieved: pl.Expr,
    *,
    discount: Discount,
    k: int | None,
    depth: Literal["retrieved"] | None,
) -> pl.Expr:
    """Return the sum of the discounted gains of the listed documents, highest gains first."""
    best = gains.filter(listed).sort(descending=True)
    terms = best * discount(best.cum_count().cast(pl.Float64))
    if depth == "retrieved":
        terms = terms.head(retrieved.sum())
    return (terms if k is None else terms.head(k)).sum()


@define_metric(
    perfect=1, undefined="the ideal DCG is 0 or negative, as without a relevant document"
)
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
