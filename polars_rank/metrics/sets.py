"""Metrics of sets: counts, set precision and recall, the confusion matrix, and abstention.

A query without relevant documents has no answer, and the best result is an empty ranking, which
`abstained` and `answered` evaluate.
"""

from __future__ import annotations

from polars_rank._params import number, share, whole_number
from polars_rank.metrics import relevance
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.vocabulary import RETRIEVED, SCORE, Value, ratio, where

__all__ = [
    "abstained", "answered", "classification_accuracy", "fall_out", "mcc",
    "num_nonrelevant_judged_retrieved", "num_queries", "num_relevant", "num_relevant_retrieved",
    "num_retrieved", "set_ap", "set_f", "set_precision", "set_recall", "set_relative_precision",
    "utility",
]  # fmt: skip


@define_metric(low=1, aggregate="sum", order_matters="never")
def num_queries() -> Value:
    r"""Number of rankings: 1 per ranking, summed by `evaluate`.

    $$1$$

    Returns
    -------
    Metric
        One Float64 per ranking, always 1.

    References
    ----------
    Buckley, trec_eval, `num_q`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": [1, 1, 2], "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.num_queries()
    2.0
    """
    # Depends on the documents: a constant would not be evaluated for each ranking.
    return where(t.num_retrieved() >= 0, 1)


@define_metric(high=None, aggregate="sum", order_matters="never")
def num_retrieved() -> Value:
    r"""Number of retrieved documents, which are the documents with a score.

    $$n = |\lbrace d : \mathrm{score}_d \ne \mathrm{null} \rbrace|$$

    Returns
    -------
    Metric
        One Float64 per ranking: an integer, 0 or more.

    References
    ----------
    Buckley, trec_eval, `num_ret`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.num_retrieved()
    2.0
    """
    return t.num_retrieved()


@define_metric(high=None, aggregate="sum", order_matters="never")
def num_relevant(*, rel: float | None = None) -> Value:
    r"""Number of relevant documents, retrieved or not.

    $$R = |\lbrace d : \mathrm{label}_d \ge \mathrm{rel} \rbrace|$$

    Returns
    -------
    Metric
        One Float64 per ranking: an integer, 0 or more.

    References
    ----------
    Buckley, trec_eval, `num_rel`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.num_relevant()
    2.0
    """
    return t.num_relevant(rel)


@define_metric(high=None, aggregate="sum", order_matters="cutoff")
def num_relevant_retrieved(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Number of relevant documents among the first k.

    $$\mathrm{hits@k} = \sum_{r=1}^{k} \mathrm{relevant}_r$$

    Returns
    -------
    Metric
        One Float64 per ranking: an integer, 0 or more.

    References
    ----------
    Buckley, trec_eval, `num_rel_ret`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.num_relevant_retrieved()
    1.0
    """
    return t.top(t.relevant(rel), k).count()


@define_metric(high=None, aggregate="sum", order_matters="never")
def num_nonrelevant_judged_retrieved(*, rel: float | None = None) -> Value:
    r"""Number of retrieved documents that are judged not relevant.

    $$|\lbrace r : 0 \le \mathrm{label}_r \lt \mathrm{rel} \rbrace|$$

    Returns
    -------
    Metric
        One Float64 per ranking: an integer, 0 or more. A negative label means "in the pool but not
        judged" and is not counted.

    References
    ----------
    Buckley, trec_eval, `num_nonrel_judged_ret`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, None],
    ... })
    >>> df.ranking.num_nonrelevant_judged_retrieved()
    1.0
    """
    return t.top(relevance.judged_nonrelevant(rel)).count()


@define_metric(undefined="no document was retrieved", order_matters="never")
def set_precision(*, rel: float | None = None) -> Value:
    r"""Set precision: fraction of the retrieved documents that are relevant.

    $$\mathrm{hits} / n$$

    where hits is the number of relevant documents retrieved, and n the number of retrieved
    documents.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979; trec_eval, `set_P`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.set_precision()  # 2 of 3
    0.6666666666666666
    """
    return relevance.precision.tree(rel=rel)


@define_metric(undefined="no document is relevant", order_matters="never")
def set_recall(*, rel: float | None = None) -> Value:
    r"""Set recall: fraction of the relevant documents that were retrieved.

    $$\mathrm{hits} / R$$

    where hits is the number of relevant documents retrieved, and R the number of all relevant
    documents.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979; trec_eval, `set_recall`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.set_recall()  # one of two
    0.5
    """
    return relevance.recall.tree(rel=rel)


@define_metric(undefined="no document is relevant", order_matters="never")
def set_f(*, beta: float = 1, rel: float | None = None) -> Value:
    r"""Set F-measure: weighted harmonic mean of set precision and set recall.

    $$F_\beta = \frac{(1 + \beta^2) \cdot \mathrm{hits}}{\beta^2 R + n}$$

    where hits is the number of relevant documents retrieved, R the number of all relevant
    documents, and n the number of retrieved documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0, None], "label": [1, 1, 1],
    ... })
    >>> df.ranking.set_f()  # 2 x 2 / (3 + 2)
    0.8

    Parameters
    ----------
    beta
        Weight of recall relative to precision, above 0. trec_eval's parameter x is its square.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979; trec_eval, `set_F`.
    """
    return relevance.fbeta.tree(beta=beta, rel=rel)


@define_metric(
    undefined="no document was retrieved or no document is relevant", order_matters="never"
)
def set_ap(*, rel: float | None = None) -> Value:
    r"""Set average precision: set precision multiplied by set recall.

    $$\frac{\mathrm{hits}^2}{n \cdot R}$$

    where hits is the number of relevant documents retrieved, R the number of all relevant
    documents, and n the number of retrieved documents.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Buckley, trec_eval, `set_map`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1],
    ... })
    >>> df.ranking.set_ap()  # 1 x 1 / (2 x 2)
    0.25
    """
    hits = t.top(t.relevant(rel)).count()
    return ratio(hits * hits, t.num_retrieved() * t.num_relevant(rel))


@define_metric(
    undefined="no document was retrieved or no document is relevant", order_matters="never"
)
def set_relative_precision(*, rel: float | None = None) -> Value:
    r"""Set relative precision: number of relevant documents retrieved over min(n, R).

    $$\frac{\mathrm{hits}}{\min(n, R)}$$

    where hits is the number of relevant documents retrieved, R the number of all relevant
    documents, and n the number of retrieved documents.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Buckley, trec_eval, `set_relative_P`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0, None], "label": [1, 0, 0, 1],
    ... })
    >>> df.ranking.set_relative_precision()  # 1 / min(3, 2)
    0.5
    """
    return relevance.relative_precision.tree(rel=rel)


@define_metric(low=None, high=None, order_matters="never")
def utility(
    *,
    a: float = 1,
    b: float = -1,
    c: float = 0,
    d: float = 0,
    size: int | None = None,
    rel: float | None = None,
) -> Value:
    r"""Utility: weighted sum of the four cells of the confusion matrix.

    $$a \cdot \mathrm{tp} + b \cdot \mathrm{fp} + c \cdot \mathrm{fn} + d \cdot \mathrm{tn}$$

    where tp and fp are the numbers of relevant and nonrelevant documents retrieved, and fn and tn
    the numbers of relevant and nonrelevant documents not retrieved.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.utility(a=2)  # 2 x 2 - 1
    3.0

    Parameters
    ----------
    a
        Weight of a relevant document retrieved.
    b
        Weight of a nonrelevant document retrieved.
    c
        Weight of a relevant document not retrieved.
    d
        Weight of a nonrelevant document not retrieved.

    Returns
    -------
    Metric
        One Float64 per ranking. Unjudged documents count as not relevant, also those that
        ``unjudged="removed"`` removes from the retrieved ones.

    References
    ----------
    Buckley, trec_eval, `utility`.
    """
    for name, worth in {"a": a, "b": b, "c": c, "d": d}.items():
        share(name, worth, -(10**9), 10**9, ends=True)
    tp, listed, wanted, rows = _margins(None, size, rel)
    value = a * tp + b * (listed - tp) + c * (wanted - tp) + d * (rows - listed - wanted + tp)
    return _within(value, size)


@define_metric(
    skipped=True,
    undefined="every document is relevant",
    lower_is_better=True,
    order_matters="cutoff",
)
def fall_out(k: int | None = None, *, size: int | None = None, rel: float | None = None) -> Value:
    r"""Fall-out: fraction of the nonrelevant documents that are among the first k.

    $$\frac{\mathrm{fp}}{\mathrm{fp} + \mathrm{tn}}$$

    where tp and fp are the numbers of relevant and nonrelevant documents among the first k, and fn
    and tn the numbers of relevant and nonrelevant documents that are not among them.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Unjudged documents count as not relevant, also those
        that ``unjudged="removed"`` removes from the retrieved ones.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 0],
    ... })
    >>> df.ranking.fall_out(2)
    0.5
    """
    tp, listed, wanted, rows = _margins(k, size, rel)
    return _within(ratio(listed - tp, rows - wanted), size)


@define_metric(undefined="the ranking has no documents, and no `size`", order_matters="cutoff")
def classification_accuracy(
    k: int | None = None, *, size: int | None = None, rel: float | None = None
) -> Value:
    r"""Classification accuracy: fraction of documents on the right side of the cutoff.

    $$\frac{\mathrm{tp} + \mathrm{tn}}{\mathrm{tp} + \mathrm{fp} + \mathrm{fn} + \mathrm{tn}}$$

    where tp and fp are the numbers of relevant and nonrelevant documents among the first k, and fn
    and tn the numbers of relevant and nonrelevant documents that are not among them.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. The first k documents are classified as relevant, all
        others as not relevant. Unjudged documents count as not relevant, also those that
        ``unjudged="removed"`` removes from the first k.

    References
    ----------
    Manning, Raghavan & Schuetze, Introduction to Information Retrieval, 2008.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 0, 0, 0],
    ... })
    >>> df.ranking.classification_accuracy(2)  # (1 + 2) / 4
    0.75
    """
    tp, listed, wanted, rows = _margins(k, size, rel)
    right = rows - listed - wanted + 2 * tp
    return _within(right / rows if isinstance(rows, int) else ratio(right, rows), size)


@define_metric(
    low=-1,
    skipped=True,
    undefined="all or none of the documents are relevant, or all or none are among the first k",
    order_matters="cutoff",
)
def mcc(k: int | None = None, *, size: int | None = None, rel: float | None = None) -> Value:
    r"""Matthews correlation between being relevant and being among the first k.

    $$\frac{\mathrm{tp} \cdot \mathrm{tn} - \mathrm{fp} \cdot \mathrm{fn}}
    {\sqrt{(\mathrm{tp} + \mathrm{fp})(\mathrm{tp} + \mathrm{fn})
    (\mathrm{tn} + \mathrm{fp})(\mathrm{tn} + \mathrm{fn})}}$$

    where tp and fp are the numbers of relevant and nonrelevant documents among the first k, and fn
    and tn the numbers of relevant and nonrelevant documents that are not among them.

    Returns
    -------
    Metric
        One Float64 in [-1, 1] per ranking. Unjudged documents count as not relevant, also those
        that ``unjudged="removed"`` removes from the retrieved ones.

    References
    ----------
    Matthews, Comparison of the predicted and observed secondary structure, 1975.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 1, 0, 1],
    ... })
    >>> round(df.ranking.mcc(2), 4)  # (2 x 1 - 0 x 1) / sqrt(2 x 3 x 1 x 2)
    0.5774
    """
    tp, listed, wanted, rows = _margins(k, size, rel)
    product = listed * wanted * (rows - wanted) * (rows - listed)
    return _within(ratio(rows * tp - listed * wanted, product.clip(low=0).sqrt()), size)


def _margins(
    k: int | None, size: int | None, rel: float | None
) -> tuple[Value, Value, Value, Value | int]:
    """Return tp, tp + fp, tp + fn, and the number of documents; only tp depends on ties."""
    rows = t.num_documents() if size is None else whole_number("size", size)
    tp = t.top(t.relevant(rel), k).count()
    return tp, t.num_retrieved(k), t.num_relevant(rel), rows


def _within(value: Value, size: int | None) -> Value:
    """Return a value; an evaluation fails if a ranking has more documents than the collection."""
    if size is None:
        return value
    problem = f"`size` of the collection is {size}, but a ranking has more documents"
    return t.require(value, t.num_documents() <= size, problem)


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
    binary=True, skipped=True, undefined="no document is relevant", order_matters="never"
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
