"""Coverage of subtopics and nuggets by the first k documents.

A document is relevant to some of the subtopics (intents, aspects) of its query, or supports some
of the nuggets of its answer: the column `subtopics` lists them. Each counts once, however many
documents cover it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from polars_rank._params import share
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.subtopics import NO_SUBTOPIC, Judgments, d_sharp, judged, recall, support

if TYPE_CHECKING:
    from polars_rank.metrics.terms import Value

__all__ = [
    "d_sharp_ndcg",
    "nugget_recall",
    "subtopic_recall",
]


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
    judgments = Judgments(subtopics, grades, weights, rel)
    return judged(recall, judgments, k, ranked=k is not None)


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
    judgments = Judgments(subtopics, grades, weights, 0)
    return judged(support, judgments, k, ranked=k is not None)


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
    judgments = Judgments(subtopics, grades, weights, rel)
    return judged(d_sharp, judgments, k, gamma)
