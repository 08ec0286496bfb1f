"""Metrics of relevant and not relevant: precision, recall, F, hits, R-precision, AP."""

from __future__ import annotations

from typing import Literal

import polars as pl

from polars_rank.metrics.metric import metric, one_of, positive, ratio
from polars_rank.ranked import RANK, at_hits, number_relevant, relevant, top

__all__ = [
    "average_precision",
    "f1",
    "fbeta",
    "hit_rate",
    "precision",
    "r_precision",
    "recall",
    "recall_capped",
    "relative_precision",
]


@metric()
def precision(
    k: int | None = None,
    *,
    depth: Literal["k", "retrieved"] = "k",
    short: Literal["null"] | None = None,
    rel: float | None = None,
) -> pl.Expr:
    r"""Precision: the share of the first k documents that is relevant.

    $$\mathrm{P@k} = \frac{1}{k} \sum_{r=1}^{k} relevant_r$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list, divided by its length.
    depth
        What to divide by: "k", or with "retrieved" the smaller of k and the number of
        retrieved documents.
    short
        With "null", a list shorter than k is undefined; otherwise its missing documents count
        as not relevant (`depth="k"`).
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where nothing was retrieved and the divisor is
        not k. An unjudged document counts as not relevant.

    Raises
    ------
    ArgumentError
        For a `k` below 1, an unknown `depth` or `short`.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.precision(2)
    0.5
    """
    one_of("depth", depth, ("k", "retrieved"))
    one_of("short", short, (None, "null"))
    found = top(relevant(rel), k).sum()
    retrieved = RANK.count()
    if k is None:
        return ratio(found, retrieved)
    value = found / k if depth == "k" else ratio(found, pl.min_horizontal(retrieved, pl.lit(k)))
    return value if short is None else pl.when(retrieved >= k).then(value)


@metric(perfect=1)
def recall(k: int | None = None, *, rel: float | None = None) -> pl.Expr:
    r"""Recall: the share of the relevant documents that the first k hold.

    $$\mathrm{R@k} = \frac{1}{R} \sum_{r=1}^{k} relevant_r$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant. R counts all
        relevant documents, retrieved or not.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `rel` that is not a number.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.recall(2)
    0.5
    """
    return ratio(top(relevant(rel), k).sum(), number_relevant(rel))


@metric(perfect=1)
def recall_capped(k: int | None = None, *, rel: float | None = None) -> pl.Expr:
    r"""Capped recall: relevant documents among the first k, of as many as k could hold.

    $$\frac{1}{\min(k, R)} \sum_{r=1}^{k} relevant_r$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `rel` that is not a number.

    References
    ----------
    Thakur et al., BEIR: a heterogeneous benchmark for zero-shot evaluation, 2021.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0, None], "label": [1, 0, 1]})
    >>> df.ranking.recall_capped(1)
    1.0
    """
    wanted = number_relevant(rel)
    possible = wanted if k is None else wanted.clip(upper_bound=k)
    return ratio(top(relevant(rel), k).sum(), possible)


@metric(perfect=1)
def relative_precision(k: int | None = None, *, rel: float | None = None) -> pl.Expr:
    r"""Relative precision: precision at k over the highest that R allows.

    $$\frac{1}{\min(k, R)} \sum_{r=1}^{k} relevant_r$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list, whose length then stands for k.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant, and without k
        where nothing was retrieved.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `rel` that is not a number.

    References
    ----------
    Buckley, trec_eval, `relative_P`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0, None], "label": [1, 0, 1]})
    >>> df.ranking.relative_precision()
    0.5
    """
    if k is not None:
        return recall_capped(k, rel=rel)
    return ratio(top(relevant(rel)).sum(), pl.min_horizontal(RANK.count(), number_relevant(rel)))


@metric()
def fbeta(k: int | None = None, *, beta: float = 1, rel: float | None = None) -> pl.Expr:
    r"""F-measure: the weighted harmonic mean of precision and recall at k.

    $$F_\beta = \frac{(1 + \beta^2) \cdot hits}{\beta^2 R + k}$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    beta
        How many times recall weighs as much as precision; above 0.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant, 0 where none of
        them is among the first k.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `beta` that is not above 0.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0, None], "label": [1, 0, 1]})
    >>> df.ranking.fbeta(beta=2)  # 5 x 1 / (4 x 2 + 2)
    0.5
    """
    positive("beta", beta)
    wanted = number_relevant(rel)
    weight = beta * beta
    considered = RANK.count() if k is None else pl.lit(k)
    value = (1 + weight) * top(relevant(rel), k).sum() / (weight * wanted + considered)
    return pl.when(wanted > 0).then(value)


@metric()
def f1(k: int | None = None, *, rel: float | None = None) -> pl.Expr:
    r"""F1: the harmonic mean of precision and recall at k.

    $$F_1 = \frac{2 \cdot hits}{R + k}$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `rel` that is not a number.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0, None], "label": [1, 1, 1]})
    >>> df.ranking.f1()  # 2 x 2 / (3 + 2)
    0.8
    """
    return fbeta(k, beta=1, rel=rel)


@metric(perfect=1)
def hit_rate(k: int | None = None, *, rel: float | None = None) -> pl.Expr:
    r"""Hit rate (success): 1 where at least one of the first k documents is relevant.

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        0.0 or 1.0 per list; null where no document is relevant.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `rel` that is not a number.

    References
    ----------
    Deshpande & Karypis, Item-based top-N recommendation algorithms, 2004.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> df.ranking.hit_rate(1), df.ranking.hit_rate(2)
    (0.0, 1.0)
    """
    found = top(relevant(rel), k).sum() > 0
    return pl.when(number_relevant(rel) > 0).then(found.cast(pl.Float64))


@metric(perfect=1)
def r_precision(*, multiple: float = 1, rel: float | None = None) -> pl.Expr:
    r"""R-precision: precision at R, the number of relevant documents, or at a multiple of it.

    $$\mathrm{Rprec} = \frac{1}{c} \sum_{r=1}^{c} relevant_r
    \qquad c = \lfloor multiple \cdot R + 0.9 \rfloor$$

    Parameters
    ----------
    multiple
        What R is multiplied by for the cutoff; above 0. With 1 the cutoff is R.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant, and where a small
        multiple makes the cutoff 0.

    Raises
    ------
    ArgumentError
        For a `multiple` that is not above 0, or a `rel` that is not a number.

    References
    ----------
    Buckley & Voorhees, Evaluating evaluation measure stability, 2000.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.r_precision()
    0.5
    """
    positive("multiple", multiple)
    cutoff = number_relevant(rel)
    if multiple != 1:
        cutoff = (cutoff * float(multiple) + 0.9).floor().cast(pl.UInt32)
    return ratio(top(relevant(rel), cutoff).sum(), cutoff)


@metric(perfect=None)
def average_precision(
    k: int | None = None,
    *,
    norm: Literal["R", "min", "hits"] = "R",
    rel: float | None = None,
) -> pl.Expr:
    r"""Average precision: the mean, over relevant documents, of precision at their rank.

    $$\mathrm{AP@k} = \frac{1}{R} \sum_{r=1}^{k} relevant_r \cdot \frac{hits_r}{r}$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    norm
        What to divide by: "R", all relevant documents (trec_eval); "min", the smaller of k
        and R, so that a perfect list gets 1; "hits", the relevant documents among the first k.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant, 0 where none of
        them is among the first k.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or an unknown `norm`.

    References
    ----------
    Buckley & Voorhees, Evaluating evaluation measure stability, 2000.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.average_precision()  # (1 / 1 + 2 / 3) / 2
    0.8333333333333333
    """
    one_of("norm", norm, ("R", "min", "hits"))
    wanted = number_relevant(rel)
    precisions = at_hits(lambda rank, hits: hits / rank, k, rel)
    divisor = wanted
    if norm == "min" and k is not None:
        divisor = pl.min_horizontal(wanted, pl.lit(k))
    if norm == "hits":
        divisor = pl.max_horizontal(precisions.count(), pl.lit(1))
    return pl.when(wanted > 0).then(precisions.sum() / divisor)
