"""Discounted gain of subtopics, reduced for subtopics that documents above already cover.

A document is relevant to some of the subtopics (intents, aspects, nuggets) of its query: the
column `subtopics` lists them. Each document above it that covers the same subtopic reduces its
gain by the factor 1 - alpha. The list columns `grades` and `weights`, if given, have a value for
each element of `subtopics`. `pr.join_judgments` makes these columns from judgments of
(query, doc, subtopic), such as those of `pr.scan_judgments(diversity=True)`.

Subtopics to which no document of the ranking is relevant, retrieved or not, do not count. The
ideal ranking of `alpha_ndcg` and `nnrbp` is greedy: at each rank, it has the judged document that
adds the largest gain; of equal gains, the one with the highest document id as text ("9" is above
"10"), as in ndeval. A greedy ranking is not always the best one, so these metrics can be slightly
above 1.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from polars_rank._params import one_of, share
from polars_rank.discounts import log2
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.subtopics import (
    NO_SUBTOPIC,
    Judgments,
    Norm,
    Persistence,
    discounted_gain,
    judged,
    normalized_gain,
)

if TYPE_CHECKING:
    from polars_rank.discounts import Discount
    from polars_rank.metrics.terms import Value

__all__ = [
    "alpha_dcg",
    "alpha_ndcg",
    "nnrbp",
    "nrbp",
]

#: The greedy ranking has at least 1 - 1/e of the largest gain down to each rank.
HIGHEST = 1 / (1 - math.exp(-1))


@define_metric(undefined=NO_SUBTOPIC, expected=False)
def alpha_dcg(
    k: int | None = None,
    *,
    alpha: float = 0.5,
    norm: Norm = "full",
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
    rel: float = 1,
) -> Value:
    r"""α-DCG: discounted gain of subtopics, smaller if documents above cover them.

    $$\frac{\sum_{r=1}^{k} \frac{1}{\log_2(r + 1)} \sum_i p_i \cdot J_{r,i} (1 - \alpha)^{c_{r,i}}}
    {\sum_{r=1}^{k} \frac{1}{\log_2(r + 1)} (1 - \alpha)^{r-1}}$$

    where p_i is the weight of subtopic i, divided by the sum of the weights; J_{r,i} is 1 if the
    document at rank r is relevant to subtopic i, otherwise 0; and c_{r,i} is the number of
    documents above rank r that are relevant to subtopic i.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "subtopics": [["a"], ["a", "b"]],
    ... })
    >>> df.ranking.alpha_dcg(norm="none")  # 1 + (1/2 + 1) / log2(3)
    1.9463946303571862

    Parameters
    ----------
    norm
        Divisor: "full" for the value of k documents that are each relevant to every subtopic;
        "none" for no divisor, with the weights themselves as p_i; "ndeval" for "full", but "none"
        at the cutoff 1, as in ndeval.

    rel
        Lowest relevant label, here a grade.

    Returns
    -------
    Metric
        One Float64 per ranking, in [0, 1] unless `norm` says otherwise.

    References
    ----------
    Clarke et al., Novelty and diversity in information retrieval evaluation, 2008; divisor:
    Clarke et al., A comparative analysis of cascade measures for novelty and diversity, 2011.
    """
    return discounted(k, log2, Judgments(subtopics, grades, weights, rel), alpha=alpha, norm=norm)


@define_metric(high=HIGHEST, undefined=NO_SUBTOPIC, expected=False)
def alpha_ndcg(
    k: int | None = None,
    *,
    alpha: float = 0.5,
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
    rel: float = 1,
) -> Value:
    r"""α-NDCG: α-DCG divided by the α-DCG of the greedy ideal ranking.

    $$\alpha\mathrm{NDCG@k} = \frac{\alpha\mathrm{DCG@k}}{\alpha\mathrm{IDCG@k}}$$

    where αIDCG is the α-DCG of all judged documents in greedy order: at each rank, the document
    with the largest gain, given the documents above; of several, the one with the highest id as
    text.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "subtopics": [["a"], ["a", "b"]],
    ... })
    >>> # (1 + 1.5 / log2(3)) / (2 + 0.5 / log2(3)).
    >>> round(df.ranking.alpha_ndcg(), 4)
    0.8406

    Parameters
    ----------
    rel
        Lowest relevant label, here a grade.

    Returns
    -------
    Metric
        One Float64 per ranking: 1 for the greedy ranking, rarely above 1, never above 1.59.

    Notes
    -----
    The ideal ranking takes time in proportion to k times the number of documents.

    References
    ----------
    Clarke et al., Novelty and diversity in information retrieval evaluation, 2008.
    """
    return normalized(k, log2, Judgments(subtopics, grades, weights, rel), alpha=alpha)


@define_metric(undefined=NO_SUBTOPIC, expected=False)
def nrbp(
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
    rel: float = 1,
) -> Value:
    r"""NRBP: novelty- and rank-biased precision of the subtopics covered.

    $$(1 - (1 - \alpha) \beta) \sum_{r=1}^{n} \beta^{r-1}
    \sum_i p_i \cdot J_{r,i} (1 - \alpha)^{c_{r,i}}$$

    where p_i is the weight of subtopic i, divided by the sum of the weights; J_{r,i} is 1 if the
    document at rank r is relevant to subtopic i, otherwise 0; and c_{r,i} is the number of
    documents above rank r that are relevant to subtopic i.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "subtopics": [["a"], ["a", "b"]],
    ... })
    >>> df.ranking.nrbp()  # 3/4 x (1/2 + 1/2 x (1/2 + 1) / 2)
    0.65625

    Parameters
    ----------
    rel
        Lowest relevant label, here a grade.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Clarke, Kolla & Vechtomova, An effectiveness measure for ambiguous and underspecified queries,
    2009.
    """
    judgments = Judgments(subtopics, grades, weights, rel)
    share("beta", beta)
    return discounted(None, Persistence(beta), judgments, alpha=alpha, beta=beta)


@define_metric(high=HIGHEST, undefined=NO_SUBTOPIC, expected=False)
def nnrbp(
    *,
    alpha: float = 0.5,
    beta: float = 0.5,
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
    rel: float = 1,
) -> Value:
    r"""Normalized NRBP: NRBP divided by the NRBP of the greedy ideal ranking.

    $$\frac{\mathrm{NRBP}}{\mathrm{ideal\ NRBP}}$$

    where the ideal ranking has all judged documents in greedy order: at each rank, the document
    with the largest gain, given the documents above; of several, the one with the highest id as
    text.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "subtopics": [["a"], ["a", "b"]],
    ... })
    >>> round(df.ranking.nnrbp(), 4)  # (1 + 1.5 / 2) / (2 + 0.5 / 2)
    0.7778

    Parameters
    ----------
    rel
        Lowest relevant label, here a grade.

    Returns
    -------
    Metric
        One Float64 per ranking: 1 for the greedy ranking, rarely above 1, never above 1.59.

    References
    ----------
    Clarke, Kolla & Vechtomova, An effectiveness measure for ambiguous and underspecified queries,
    2009.
    """
    judgments = Judgments(subtopics, grades, weights, rel)
    share("beta", beta)
    return normalized(None, Persistence(beta), judgments, alpha=alpha, beta=beta)


def discounted(
    k: int | None,
    discount: Discount,
    judgments: Judgments,
    *,
    alpha: float,
    norm: Norm = "full",
    beta: float | None = None,
) -> Value:
    """Return the discounted gain of a ranking."""
    share("alpha", alpha, ends=True)
    one_of("norm", norm, ("full", "none", "ndeval"))
    if norm == "ndeval":
        norm = "none" if k == 1 else "full"
    return judged(discounted_gain, judgments, k, discount, alpha, norm, beta)


def normalized(
    k: int | None,
    discount: Discount,
    judgments: Judgments,
    *,
    alpha: float,
    beta: float | None = None,
) -> Value:
    """Return the discounted gain of a ranking, divided by that of the greedy ranking."""
    share("alpha", alpha, ends=True)
    depth = k if beta is None else math.ceil(math.log(2.0**-60 * (1 - beta), beta))
    return judged(normalized_gain, judgments, k, discount, alpha, depth, ids=True)
