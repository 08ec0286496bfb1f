"""Metrics of binary relevance: precision, recall, F-measure, hit rate, R-precision, AP."""

from __future__ import annotations

from typing import Literal

from polars_rank._params import one_of, positive
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.vocabulary import Term, Value, least, ratio, where

__all__ = [
    "average_precision", "f1", "fbeta", "full_recall", "hit_rate", "precision", "r_precision",
    "recall", "recall_capped", "relative_precision",
]  # fmt: skip


@define_metric(
    undefined="no document was retrieved and the divisor is not k", order_matters="cutoff"
)
def precision(
    k: int | None = None,
    *,
    depth: Literal["k", "retrieved"] = "k",
    short: Literal["null"] | None = None,
    irrelevant: Literal["null"] | None = None,
    rel: float | None = None,
) -> Value:
    r"""Precision: fraction of the first k documents that are relevant.

    $$\mathrm{P@k} = \frac{1}{k} \sum_{r=1}^{k} \mathrm{relevant}_r$$

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.precision(2)  # one of two
    0.5

    Parameters
    ----------
    k
        Cutoff, a positive integer. None: the whole ranking, divided by the number of retrieved
        documents.
    depth
        Divisor: "k", or "retrieved" for the smaller of k and the number of retrieved documents.
    short
        Value for a ranking with fewer than k documents: "null" for null, None to count the missing
        documents as not relevant (if `depth="k"`).

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Unjudged documents count as not relevant.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.
    """
    one_of("depth", depth, ("k", "retrieved"))
    one_of("short", short, (None, "null"))
    one_of("irrelevant", irrelevant, (None, "null"))
    value = share_of_top(t.relevant(rel), k, depth)
    if short is not None and k is not None:
        value = where(t.num_retrieved() >= k, value)
    return value if irrelevant is None else where(t.num_relevant(rel) > 0, value)


@define_metric(perfect=1, undefined="no document is relevant", order_matters="cutoff")
def recall(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Recall: fraction of the relevant documents that are among the first k.

    $$\mathrm{R@k} = \frac{1}{R} \sum_{r=1}^{k} \mathrm{relevant}_r$$

    where R is the number of relevant documents, retrieved or not.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.recall(2)  # one of two
    0.5
    """
    return ratio(t.top(t.relevant(rel), k).count(), t.num_relevant(rel))


@define_metric(perfect=1, binary=True, undefined="no document is relevant", order_matters="cutoff")
def full_recall(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Full recall: 1 if all relevant documents are among the first k, else 0.

    $$\mathrm{Full@k} = \lfloor \mathrm{R@k} \rfloor$$

    where R@k is the recall of the first k documents.

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking.

    References
    ----------
    Wu et al., LongMemEval: benchmarking chat assistants on long-term interactive memory, 2024,
    `recall_all`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.full_recall(2), df.ranking.full_recall(3)
    (0.0, 1.0)
    """
    return recall.tree(k, rel=rel).floor()


@define_metric(perfect=1, undefined="no document is relevant", order_matters="cutoff")
def recall_capped(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Capped recall: number of relevant documents among the first k over min(k, R).

    $$\mathrm{Rcap@k} = \frac{1}{\min(k, R)} \sum_{r=1}^{k} \mathrm{relevant}_r$$

    where R is the number of relevant documents, retrieved or not.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Thakur et al., BEIR: a heterogeneous benchmark for zero-shot evaluation, 2021.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None], "label": [1, 0, 1],
    ... })
    >>> # The first document is one of min(k, 2) relevant documents.
    >>> df.ranking.recall_capped(1), df.ranking.recall_capped(2)
    (1.0, 0.5)
    """
    possible = t.num_relevant(rel).clip(high=k)
    return ratio(t.top(t.relevant(rel), k).count(), possible)


@define_metric(
    perfect=1,
    undefined="no document is relevant, or no cutoff is given and no document was retrieved",
    order_matters="cutoff",
)
def relative_precision(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Relative precision: precision at k divided by the highest possible precision.

    $$\frac{1}{\min(k, R)} \sum_{r=1}^{k} \mathrm{relevant}_r$$

    where R is the number of relevant documents, retrieved or not.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.relative_precision()
    0.5

    Parameters
    ----------
    k
        Cutoff, a positive integer. None: the number of retrieved documents.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Buckley, trec_eval, `relative_P`.
    """
    if k is not None:
        return recall_capped.tree(k, rel=rel)
    possible = least(t.num_retrieved(), t.num_relevant(rel))
    return ratio(t.top(t.relevant(rel)).count(), possible)


@define_metric(undefined="no document is relevant", order_matters="cutoff")
def fbeta(k: int | None = None, *, beta: float = 1, rel: float | None = None) -> Value:
    r"""F-measure: weighted harmonic mean of precision and recall at k.

    $$F_\beta = \frac{(1 + \beta^2) \cdot \mathrm{hits}}{\beta^2 R + k}$$

    where hits is the number of relevant documents among the first k, and R the number of all
    relevant documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.fbeta(beta=2)  # 5 x 1 / (4 x 2 + 2)
    0.5

    Parameters
    ----------
    beta
        Weight of recall relative to precision, above 0.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking, 0 if no relevant document is among the first k.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.
    """
    positive("beta", beta, 1e100)
    wanted = t.num_relevant(rel)
    weight = beta * beta
    considered = t.num_retrieved() if k is None else k
    value = (1 + weight) * t.top(t.relevant(rel), k).count() / (weight * wanted + considered)
    return where(wanted > 0, value)


@define_metric(undefined="no document is relevant", order_matters="cutoff")
def f1(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""F1: harmonic mean of precision and recall at k.

    $$F_1 = \frac{2 \cdot \mathrm{hits}}{R + k}$$

    where hits is the number of relevant documents among the first k, and R the number of all
    relevant documents.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None], "label": [1, 1, 1],
    ... })
    >>> df.ranking.f1()  # 2 x 2 / (3 + 2)
    0.8
    """
    return fbeta.tree(k, beta=1, rel=rel)


@define_metric(perfect=1, binary=True, undefined="no document is relevant", order_matters="cutoff")
def hit_rate(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Hit rate (success): 1 if any of the first k documents is relevant, else 0.

    $$\mathrm{Hit@k} = \max_{r \le k} \mathrm{relevant}_r$$

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking.

    References
    ----------
    Deshpande & Karypis, Item-based top-N recommendation algorithms, 2004.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> df.ranking.hit_rate(1), df.ranking.hit_rate(2)
    (0.0, 1.0)
    """
    found = t.top(t.relevant(rel), k).count()
    return where(t.num_relevant(rel) > 0, found.clip(high=1))


@define_metric(perfect=1, undefined="no document is relevant, or `multiple` makes the cutoff 0")
def r_precision(*, multiple: float = 1, rel: float | None = None) -> Value:
    r"""R-precision: precision at R, the number of relevant documents.

    $$\mathrm{Rprec} = \frac{1}{c} \sum_{r=1}^{c} \mathrm{relevant}_r
    \qquad c = \lfloor \mathrm{multiple} \cdot R + 0.9 \rfloor$$

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.r_precision()  # 1 of the first 2
    0.5

    Parameters
    ----------
    multiple
        Factor by which R is multiplied to get the cutoff, above 0.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Buckley & Voorhees, Evaluating evaluation measure stability, 2000.
    """
    positive("multiple", multiple, 1e9)
    cutoff = t.num_relevant(rel)
    if multiple != 1:
        cutoff = (cutoff * multiple + 0.9).floor()
    return ratio(t.top(t.relevant(rel), cutoff).count(), cutoff)


@define_metric(perfect=None, undefined="no document is relevant")
def average_precision(
    k: int | None = None,
    *,
    norm: Literal["R", "min", "retrieved", "hits"] = "R",
    rel: float | None = None,
) -> Value:
    r"""Average precision: mean of the precision at the rank of each relevant document.

    $$\mathrm{AP@k} = \frac{1}{R} \sum_{r=1}^{k} \mathrm{relevant}_r
    \cdot \frac{\mathrm{hits}_r}{r}$$

    where hits_r is the number of relevant documents among the first r, and R the number of all
    relevant documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.average_precision()  # (1 / 1 + 2 / 3) / 2
    0.8333333333333333

    Parameters
    ----------
    norm
        Divisor: "R" for the number of relevant documents (as in trec_eval); "min" for the smaller
        of k and R, so that a perfect ranking scores 1; "retrieved" for the smallest of k, R and the
        number of retrieved documents, null if that is 0; "hits" for the number of relevant
        documents among the first k.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking, 0 if no relevant document is among the first k.

    References
    ----------
    Buckley & Voorhees, Evaluating evaluation measure stability, 2000.
    """
    one_of("norm", norm, ("R", "min", "retrieved", "hits"))
    return normalized(t.at_hits(lambda rank, hits: hits / rank, k, rel).sum(), k, norm, rel)


def normalized(total: Value, k: int | None, norm: str, rel: float | None) -> Value:
    """Return a sum of precisions, divided as in average precision."""
    wanted = t.num_relevant(rel)
    if norm == "retrieved":
        wanted = least(t.num_retrieved(k), wanted)
    divisor = wanted
    if norm == "min" and k is not None:
        divisor = wanted.clip(high=k)
    if norm == "hits":
        divisor = t.top(t.relevant(rel), k).count().clip(1)
    return where(wanted > 0, total / divisor)


def share_of_top(condition: Term, k: int | None, depth: Literal["k", "retrieved"]) -> Value:
    """Return the share of the first k documents, or ranks, that meet a condition."""
    found = t.top(condition, k).count()
    whole = k is None or depth == "retrieved"
    return ratio(found, t.num_retrieved(k)) if whole else found / k


def judged_nonrelevant(rel: float | None) -> Term:
    """Return whether a document is judged not relevant, with a label of 0 or more."""
    return t.JUDGED & (t.LABEL >= 0) & ~t.relevant(rel)
