"""Intent-aware metrics: the mean over the subtopics of a query of a metric for each subtopic.

A document is relevant to some of the subtopics (intents, aspects) of its query: the column
`subtopics` lists them. `ap_ia` and `precision_ia` judge each subtopic as a query of its own.
In `err_ia` and `nerr_ia`, a user who is satisfied by a document stops, so documents below it add
less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polars_rank.discounts import reciprocal
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.subtopic_gain import HIGHEST, discounted, normalized
from polars_rank.metrics.subtopics import (
    NO_SUBTOPIC,
    Judgments,
    Norm,
    average_precision,
    judged,
    precision,
)

if TYPE_CHECKING:
    from polars_rank.metrics.terms import Value

__all__ = [
    "ap_ia",
    "err_ia",
    "nerr_ia",
    "precision_ia",
]


@define_metric(undefined=NO_SUBTOPIC, expected=False)
def err_ia(
    k: int | None = None,
    *,
    alpha: float = 0.5,
    norm: Norm = "full",
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
    rel: float = 1,
) -> Value:
    r"""ERR-IA: mean over subtopics of the expected reciprocal rank.

    $$\frac{\sum_{r=1}^{k} \frac{1}{r} \sum_i p_i \cdot J_{r,i} (1 - \alpha)^{c_{r,i}}}
    {\sum_{r=1}^{k} \frac{1}{r} (1 - \alpha)^{r-1}}$$

    where p_i is the weight of subtopic i, divided by the sum of the weights; J_{r,i} is 1 if the
    document at rank r is relevant to subtopic i, otherwise 0; and c_{r,i} is the number of
    documents above rank r that are relevant to subtopic i.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "subtopics": [["a"], ["a", "b"]],
    ... })
    >>> df.ranking.err_ia()  # (1/2 + (1/2 + 1) / 2 / 2) / (1 + 1/2 / 2)
    0.7

    Parameters
    ----------
    alpha
        Probability that a relevant document satisfies the user, in [0, 1].
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
    Chapelle et al., Expected reciprocal rank for graded relevance, 2009; divisor: Clarke et al., A
    comparative analysis of cascade measures for novelty and diversity, 2011.
    """
    return discounted(
        k, reciprocal, Judgments(subtopics, grades, weights, rel), alpha=alpha, norm=norm
    )


@define_metric(high=HIGHEST, undefined=NO_SUBTOPIC, expected=False)
def nerr_ia(
    k: int | None = None,
    *,
    alpha: float = 0.5,
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
    rel: float = 1,
) -> Value:
    r"""Normalized ERR-IA: ERR-IA divided by the ERR-IA of the greedy ideal ranking.

    $$\frac{\mathrm{ERRIA@k}}{\mathrm{ideal\ ERRIA@k}}$$

    where the ideal ranking has all judged documents in greedy order: at each rank, the document
    with the largest gain, given the documents above; of several, the one with the highest id as
    text.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "subtopics": [["a"], ["a", "b"]],
    ... })
    >>> round(df.ranking.nerr_ia(), 4)  # (1 + 1.5 / 2) / (2 + 0.5 / 2)
    0.7778

    Parameters
    ----------
    alpha
        Probability that a relevant document satisfies the user, in [0, 1].

    rel
        Lowest relevant label, here a grade.

    Returns
    -------
    Metric
        One Float64 per ranking: 1 for the greedy ranking, rarely above 1, never above 1.59.

    References
    ----------
    Clarke et al., A comparative analysis of cascade measures for novelty and diversity, 2011.
    """
    return normalized(k, reciprocal, Judgments(subtopics, grades, weights, rel), alpha=alpha)


@define_metric(undefined=NO_SUBTOPIC, expected=False)
def ap_ia(
    *,
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
    rel: float = 1,
) -> Value:
    r"""AP-IA: mean over subtopics of the average precision for the subtopic.

    $$\sum_i \frac{p_i}{R_i} \sum_{r=1}^{n} J_{r,i} \frac{\sum_{j \le r} J_{j,i}}{r}$$

    where p_i is the weight of subtopic i, divided by the sum of the weights; J_{r,i} is 1 if the
    document at rank r is relevant to subtopic i, otherwise 0; and R_i is the number of documents
    relevant to subtopic i, retrieved or not.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "subtopics": [["a"], ["a", "b"]],
    ... })
    >>> df.ranking.ap_ia()  # (1 + 1/2) / 2
    0.75

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
    Agrawal et al., Diversifying search results, 2009.
    """
    return judged(average_precision, Judgments(subtopics, grades, weights, rel))


@define_metric(undefined=NO_SUBTOPIC, order_matters="cutoff", expected=False)
def precision_ia(
    k: int | None = None,
    *,
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
    rel: float = 1,
) -> Value:
    r"""Intent-aware precision: mean over subtopics of the precision for the subtopic.

    $$\frac{1}{k} \sum_{r=1}^{k} \sum_i p_i \cdot J_{r,i}$$

    where p_i is the weight of subtopic i, divided by the sum of the weights, and J_{r,i} is 1 if
    the document at rank r is relevant to subtopic i, otherwise 0.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "subtopics": [["a"], ["a", "b"]],
    ... })
    >>> df.ranking.precision_ia(), df.ranking.precision_ia(1)
    (0.75, 0.5)

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
    Agrawal et al., Diversifying search results, 2009.
    """
    judgments = Judgments(subtopics, grades, weights, rel)
    return judged(precision, judgments, k, ranked=k is not None)
