"""Metrics that add up what the labels are worth: CG, DCG, ideal DCG, NDCG."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from polars_rank.gain import Discount, Gain, linear, log2
from polars_rank.metrics.metric import metric, one_of, ratio
from polars_rank.ranked import IDEAL_RANK, JUDGED, LABEL, RANK, RETRIEVED, Cutoff, ideal_top, top

if TYPE_CHECKING:
    import polars as pl

__all__ = ["cg", "dcg", "ideal_dcg", "ndcg"]


@metric(high=None)
def cg(k: int | None = None, *, gain: Gain = linear) -> pl.Expr:
    r"""Cumulative gain: what the first k documents are worth, wherever they stand.

    $$\mathrm{CG@k} = \sum_{r=1}^{k} gain(label_r)$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    gain
        `linear`, `exp2`, a mapping `{grade: gain}`, or a function Expr -> Expr.

    Returns
    -------
    Metric
        One Float64 per list, never null: 0 for an empty list. An unjudged document adds
        nothing; a negative gain is subtracted.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or an unknown `gain`.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1]})
    >>> df.ranking.cg(2)
    2.0
    """
    return top(gain(LABEL), k).sum()


@metric(high=None)
def dcg(k: int | None = None, *, gain: Gain = linear, discount: Discount = log2) -> pl.Expr:
    r"""Discounted cumulative gain: gains weighted by how far down they stand.

    $$\mathrm{DCG@k} = \sum_{r=1}^{k} gain(label_r) \cdot discount(r)$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    gain
        `linear`, `exp2`, a mapping `{grade: gain}`, or a function Expr -> Expr.
    discount
        `log2`, `log(base)`, `jarvelin(base)`, `reciprocal`, or a function Expr -> Expr.

    Returns
    -------
    Metric
        One Float64 per list, never null: 0 for an empty list. An unjudged document adds
        nothing and keeps its rank.

    Raises
    ------
    ArgumentError
        For a `k` below 1, an unknown `gain` or `discount`.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002; with
    `exp2`, Burges et al., Learning to rank using gradient descent, 2005.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1]})
    >>> df.ranking.dcg()  # 2 / log2(2) + 0 / log2(3) + 1 / log2(4)
    2.5
    """
    return top(gain(LABEL), k, discount).sum()


@metric(high=None)
def ideal_dcg(
    k: int | None = None,
    *,
    gain: Gain = linear,
    discount: Discount = log2,
    ideal: Literal["judged", "retrieved"] = "judged",
    depth: Literal["retrieved"] | None = None,
) -> pl.Expr:
    r"""DCG of the ideal list: the documents by label, best first.

    $$\mathrm{IDCG@k} = \sum_{i=1}^{k} gain(label_{(i)}) \cdot discount(i)$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    gain
        `linear`, `exp2`, a mapping `{grade: gain}`, or a function Expr -> Expr.
    discount
        `log2`, `log(base)`, `jarvelin(base)`, `reciprocal`, or a function Expr -> Expr.
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

    Raises
    ------
    ArgumentError
        For a `k` below 1, an unknown `gain`, `discount`, `ideal` or `depth`.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 0, 1]})
    >>> df.ranking.ideal_dcg()
    1.0
    """
    one_of("ideal", ideal, ("judged", "retrieved"))
    one_of("depth", depth, (None, "retrieved"))
    cutoff: Cutoff = RANK.count() if k is None and depth == "retrieved" else k
    if ideal == "judged":
        return ideal_top(gain, discount, cutoff).sum()
    listed = RETRIEVED & JUDGED
    place = IDEAL_RANK.filter(listed).rank("ordinal")
    terms = gain(LABEL).filter(listed) * discount(place)
    return (terms if cutoff is None else terms.filter(place <= cutoff)).sum()


@metric(perfect=1)
def ndcg(
    k: int | None = None,
    *,
    gain: Gain = linear,
    discount: Discount = log2,
    ideal: Literal["judged", "retrieved"] = "judged",
    depth: Literal["retrieved"] | None = None,
) -> pl.Expr:
    r"""Normalised discounted cumulative gain: DCG over the DCG of the ideal list.

    $$\mathrm{NDCG@k} = \mathrm{DCG@k} / \mathrm{IDCG@k}$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    gain
        `linear`, `exp2`, a mapping `{grade: gain}`, or a function Expr -> Expr.
    discount
        `log2`, `log(base)`, `jarvelin(base)`, `reciprocal`, or a function Expr -> Expr.
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

    Raises
    ------
    ArgumentError
        For a `k` below 1, an unknown `gain`, `discount`, `ideal` or `depth`.

    References
    ----------
    Jarvelin & Kekalainen, Cumulated gain-based evaluation of IR techniques, 2002; with
    `exp2`, Burges et al., Learning to rank using gradient descent, 2005.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> round(df.ranking.ndcg(), 4)  # (1 / log2(3)) / (1 / log2(2))
    0.6309
    """
    return ratio(
        dcg(k, gain=gain, discount=discount),
        ideal_dcg(k, gain=gain, discount=discount, ideal=ideal, depth=depth),
    )
