"""Metrics of whether a query is answered: it should be only if it has an answer.

A query without relevant documents has no answer, and the best result is an empty ranking.
"""

from __future__ import annotations

from polars_rank._params import number
from polars_rank.metrics import terms as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.terms import RETRIEVED, SCORE, Value, where

__all__ = ["abstained", "answered"]


@define_metric(binary=True, skipped=True, undefined="a document is relevant", order_matters="never")
def abstained(*, min_score: float | None = None, rel: float | None = None) -> Value:
    r"""Abstention on a query without an answer: 1 if no document is retrieved.

    $$\left[ n = 0 \right]$$

    The brackets are 1 if the condition holds, otherwise 0; n is the number of retrieved documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": [1, 2, 3], "doc": ["a", "b", None], "score": [0.9, 0.3, None],
    ...     "label": [1, 0, None],
    ... })
    >>> df.ranking.abstained(), df.ranking.abstained(min_score=0.5)
    (0.5, 1.0)

    Parameters
    ----------
    min_score
        Lowest score of a retrieved document. Documents with lower scores do not count as
        retrieved. None: every document with a score is retrieved.

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking. Empty rankings count only if the `query_set` includes them.

    References
    ----------
    Rajpurkar, Jia & Liang, Know what you don't know: unanswerable questions for SQuAD, 2018.
    """
    return where(t.num_relevant(rel) > 0, None, 1.0 - _is_answered(min_score))


@define_metric(
    perfect=1, binary=True, skipped=True, undefined="no document is relevant", order_matters="never"
)
def answered(*, min_score: float | None = None, rel: float | None = None) -> Value:
    r"""Answer to a query that has one: 1 if a document is retrieved, relevant or not.

    $$\left[ n \ge 1 \right]$$

    The brackets are 1 if the condition holds, otherwise 0; n is the number of retrieved documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": [1, 2, 3], "doc": ["a", "b", "c"], "score": [0.9, 0.3, None],
    ...     "label": [1, 1, 1],
    ... })
    >>> df.ranking.answered(), df.ranking.answered(min_score=0.5)
    (0.6666666666666666, 0.3333333333333333)

    Parameters
    ----------
    min_score
        Lowest score of a retrieved document. Documents with lower scores do not count as
        retrieved. None: every document with a score is retrieved.

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking. Empty rankings count only if the `query_set` includes them.

    References
    ----------
    Rajpurkar, Jia & Liang, Know what you don't know: unanswerable questions for SQuAD, 2018.
    """
    return where(t.num_relevant(rel) > 0, _is_answered(min_score))


def _is_answered(min_score: float | None) -> Value:
    """Return 1 if a document is retrieved, otherwise 0."""
    if min_score is None:
        retrieved = t.num_retrieved()
    else:
        lowest = number("min_score", min_score)
        retrieved = t.each(RETRIEVED & (lowest <= SCORE)).count()
    return where(retrieved > 0, 1.0, 0.0)
