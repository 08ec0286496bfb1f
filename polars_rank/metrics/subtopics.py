"""Metrics of subtopics: their discounted gain, intent-aware metrics, and coverage.

A document is relevant to some of the subtopics (intents, aspects, nuggets) of its query: the
column `subtopics` lists them. The list columns `grades` and `weights`, if given, have a value for
each element of `subtopics`. `pr.join_judgments` makes these columns from judgments of
(query, doc, subtopic), such as those of `pr.scan_judgments(diversity=True)`. Subtopics to which no
document of the ranking is relevant, retrieved or not, do not count.

The discounted gain of a document (α-DCG, NRBP) is reduced by the factor 1 - alpha by each document
above it that covers the same subtopic. The ideal ranking of `alpha_ndcg` and `nnrbp` is greedy: at
each rank, it has the judged document that adds the largest gain; of equal gains, the one with the
highest document id as text ("9" is above "10"), as in ndeval. A greedy ranking is not always the
best one, so these metrics can be slightly above 1.

Intent-aware metrics are the mean over subtopics of a metric. `ap_ia` and `precision_ia` judge each
subtopic as a query of its own. In `err_ia` and `nerr_ia`, a user who is satisfied by a document
stops, so documents below it add less. In metrics of coverage, each subtopic or nugget counts once,
however many documents cover it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from polars_rank._params import one_of, share
from polars_rank.discounts import Discount, log2, reciprocal
from polars_rank.metrics import subtopic_batches
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.subtopic_batches import NO_SUBTOPIC, Norm, Persistence, Subtopics, judged

if TYPE_CHECKING:
    from polars_rank.metrics.vocabulary import Value

__all__ = [
    "alpha_dcg", "alpha_ndcg", "ap_ia", "d_sharp_ndcg", "err_ia", "nerr_ia", "nnrbp", "nrbp",
    "nugget_recall", "precision_ia", "subtopic_recall",
]  # fmt: skip

#: The greedy ranking has at least 1 - 1/e of the largest gain down to each rank.
_HIGHEST = 1 / (1 - math.exp(-1))


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
    return _discounted(k, log2, Subtopics(subtopics, grades, weights, rel), alpha, norm)


@define_metric(high=_HIGHEST, undefined=NO_SUBTOPIC, expected=False)
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
    return _normalized(k, log2, Subtopics(subtopics, grades, weights, rel), alpha)


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
    judgments = Subtopics(subtopics, grades, weights, rel)
    share("beta", beta)
    return _discounted(None, Persistence(beta), judgments, alpha)


@define_metric(high=_HIGHEST, undefined=NO_SUBTOPIC, expected=False)
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
    judgments = Subtopics(subtopics, grades, weights, rel)
    share("beta", beta)
    return _normalized(None, Persistence(beta), judgments, alpha)


def _discounted(
    k: int | None, discount: Discount, columns: Subtopics, alpha: float, norm: Norm = "full"
) -> Value:
    """Return the discounted gain of a ranking."""
    share("alpha", alpha, ends=True)
    one_of("norm", norm, ("full", "none", "ndeval"))
    if norm == "ndeval":
        norm = "none" if k == 1 else "full"
    return judged(subtopic_batches.discounted_gain, columns, k, discount, alpha, norm)


def _normalized(k: int | None, discount: Discount, columns: Subtopics, alpha: float) -> Value:
    """Return the discounted gain of a ranking, divided by that of the greedy ranking."""
    share("alpha", alpha, ends=True)
    depth = discount.depth if isinstance(discount, Persistence) else k
    return judged(subtopic_batches.normalized_gain, columns, k, discount, alpha, depth, ids=True)


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
    return _discounted(k, reciprocal, Subtopics(subtopics, grades, weights, rel), alpha, norm)


@define_metric(high=_HIGHEST, undefined=NO_SUBTOPIC, expected=False)
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
    return _normalized(k, reciprocal, Subtopics(subtopics, grades, weights, rel), alpha)


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
    return judged(subtopic_batches.average_precision, Subtopics(subtopics, grades, weights, rel))


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
    judgments = Subtopics(subtopics, grades, weights, rel)
    return judged(subtopic_batches.precision, judgments, k, ranked=k is not None)


@define_metric(undefined=NO_SUBTOPIC, order_matters="cutoff", expected=False)
def subtopic_recall(
    k: int | None = None,
    *,
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
    rel: float = 1,
) -> Value:
    r"""Subtopic recall (I-rec): share of subtopics that the first k documents cover.

    $$\sum_i p_i \cdot \max_{r \le k} J_{r,i}$$

    where p_i is the weight of subtopic i, divided by the sum of the weights, and J_{r,i} is 1 if
    the document at rank r is relevant to subtopic i, otherwise 0.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "subtopics": [["a"], ["a", "b"]],
    ... })
    >>> df.ranking.subtopic_recall(1), df.ranking.subtopic_recall(2)
    (0.5, 1.0)

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
    Zhai, Cohen & Lafferty, Beyond independent relevance, 2003; I-rec: Sakai & Song, Evaluating
    diversified search results using per-intent graded relevance, 2011.
    """
    judgments = Subtopics(subtopics, grades, weights, rel)
    return judged(subtopic_batches.recall, judgments, k, ranked=k is not None)


@define_metric(
    undefined="no document lists a nugget with a weight above 0",
    order_matters="cutoff",
    expected=False,
)
def nugget_recall(
    k: int | None = None,
    *,
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
) -> Value:
    r"""Nugget recall: weighted share of nuggets that the first k documents support.

    $$\frac{\sum_i w_i \cdot \max_{r \le k} g_{r,i}}{\sum_i w_i}$$

    where w_i is the weight of nugget i, and g_{r,i} is the support of nugget i by the document at
    rank r, from 0 to 1; 0 for a nugget that the document does not list.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "nuggets": [["a"], ["a", "b"]], "importance": [[1.0], [1.0, 0.5]],
    ... })
    >>> df.ranking.nugget_recall(1, subtopics="nuggets", weights="importance")
    0.6666666666666666

    Parameters
    ----------
    subtopics
        Column of lists of the nuggets of a document. A nugget that no document supports counts if
        a document of the ranking, retrieved or not, lists it with grade 0.
    grades
        Column of lists of the support of each nugget, such as 1 for full and 0.5 for partial
        support, clipped to [0, 1]. None: 1 for every nugget listed.
    weights
        Column of lists of the weight of each nugget, such as 1 for vital and 0.5 for okay nuggets
        in the TREC RAG track; a nugget has one weight per query. None: equal weights.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Pradeep et al., The great nugget recall, 2025.
    """
    judgments = Subtopics(subtopics, grades, weights, 0)
    return judged(subtopic_batches.support, judgments, k, ranked=k is not None)


@define_metric(undefined=NO_SUBTOPIC, expected=False)
def d_sharp_ndcg(
    k: int | None = None,
    *,
    gamma: float = 0.5,
    subtopics: str = "subtopics",
    grades: str | None = None,
    weights: str | None = None,
    rel: float = 1,
) -> Value:
    r"""D♯-NDCG: mean of I-rec (diversity) and D-NDCG (relevance).

    $$\gamma \cdot \mathrm{Irec@k} + (1 - \gamma)
    \frac{\sum_{r=1}^{k} G_r / \log_2(r + 1)}{\sum_{i=1}^{k} G_{(i)} / \log_2(i + 1)}
    \qquad G_r = \sum_i p_i \cdot g_{r,i}$$

    where Irec is the number of subtopics covered, divided by the number of subtopics; G is the
    global gain of a document; p_i is the weight of subtopic i, divided by the sum of the weights;
    g_{r,i} is the grade of the document at rank r for subtopic i; and $(i)$ is the judged document
    with the i-th highest global gain.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2], "score": [2.0, 1.0], "label": 1,
    ...     "subtopics": [["a"], ["a", "b"]],
    ... })
    >>> round(df.ranking.d_sharp_ndcg(1), 4)  # 1/2 x 1/2 + 1/2 x (1/2) / 1
    0.5

    Parameters
    ----------
    gamma
        Weight of I-rec, in [0, 1].
    grades
        Column of lists of the grade for each subtopic, used as the gain; grades below `rel` count
        as 0. None: 1 for every subtopic listed.

    rel
        Lowest relevant label, here a grade.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Sakai & Song, Evaluating diversified search results using per-intent graded relevance, 2011.
    """
    share("gamma", gamma, ends=True)
    judgments = Subtopics(subtopics, grades, weights, rel)
    return judged(subtopic_batches.d_sharp, judgments, k, gamma)
