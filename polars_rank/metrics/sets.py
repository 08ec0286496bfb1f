"""Metrics of the retrieved set as a whole, and of the table of right and wrong decisions."""

from __future__ import annotations

from polars_rank._params import whole_number
from polars_rank.metrics.metric import metric
from polars_rank.metrics.relevance import fbeta, precision, recall
from polars_rank.metrics.terms import JUDGED, LABEL, Terms, Value, least, ratio, where

__all__ = [
    "accuracy",
    "fall_out",
    "mcc",
    "num_nonrelevant_judged_retrieved",
    "num_queries",
    "num_relevant",
    "num_relevant_retrieved",
    "num_retrieved",
    "set_ap",
    "set_f",
    "set_precision",
    "set_recall",
    "set_relative_precision",
    "utility",
]


@metric(low=1, aggregate="sum")
def num_queries(t: Terms) -> Value:
    r"""How many lists there are: 1 for each.

    $$1$$

    Returns
    -------
    Metric
        One Float64 per list, never null: 1; `evaluate` gives their sum.

    References
    ----------
    Buckley, trec_eval, `num_q`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": [1, 1, 2], "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.num_queries()
    2.0
    """
    # Of the documents, for a number alone does not say for which list it is.
    return where(t.retrieved() >= 0, 1)


@metric(high=None, aggregate="sum")
def num_retrieved(t: Terms) -> Value:
    r"""How many documents were retrieved: those with a score.

    $$n = |\lbrace d : \mathrm{score}_d \ne \mathrm{null} \rbrace|$$

    Returns
    -------
    Metric
        One Float64 per list, never null: a whole number, 0 or more; `evaluate` gives their sum.

    References
    ----------
    Buckley, trec_eval, `num_ret`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.num_retrieved()
    2.0
    """
    return t.retrieved()


@metric(high=None, aggregate="sum")
def num_relevant(t: Terms, *, rel: float | None = None) -> Value:
    r"""How many documents are relevant, retrieved or not: R.

    $$R = |\lbrace d : \mathrm{label}_d \ge \mathrm{rel} \rbrace|$$

    Returns
    -------
    Metric
        One Float64 per list, never null: a whole number, 0 or more; `evaluate` gives their sum.

    References
    ----------
    Buckley, trec_eval, `num_rel`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.num_relevant()
    2.0
    """
    return t.number_relevant(rel)


@metric(high=None, aggregate="sum")
def num_relevant_retrieved(t: Terms, k: int | None = None, *, rel: float | None = None) -> Value:
    r"""How many of the first k documents are relevant.

    $$\mathrm{hits@k} = \sum_{r=1}^{k} \mathrm{relevant}_r$$

    Returns
    -------
    Metric
        One Float64 per list, never null: a whole number, 0 or more; `evaluate` gives their sum.

    References
    ----------
    Buckley, trec_eval, `num_rel_ret`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.num_relevant_retrieved()
    1.0
    """
    return t.top(t.relevant(rel), k).number()


@metric(high=None, aggregate="sum")
def num_nonrelevant_judged_retrieved(t: Terms, *, rel: float | None = None) -> Value:
    r"""How many of the retrieved documents are judged not relevant: 0 <= label < threshold.

    $$|\lbrace r : 0 \le \mathrm{label}_r \lt \mathrm{rel} \rbrace|$$

    Returns
    -------
    Metric
        One Float64 per list, never null: a whole number, 0 or more; `evaluate` gives their
        sum. A negative label says "in the pool, but not judged" and is not counted.

    References
    ----------
    Buckley, trec_eval, `num_nonrel_judged_ret`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, None]})
    >>> df.ranking.num_nonrelevant_judged_retrieved()
    1.0
    """
    wrong = JUDGED & (LABEL >= 0) & ~t.relevant(rel)
    return t.top(wrong).number()


@metric(undefined="nothing was retrieved")
def set_precision(t: Terms, *, rel: float | None = None) -> Value:
    r"""Set precision: the share of the retrieved documents that is relevant.

    $$\mathrm{hits} / n$$

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where nothing was retrieved.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979; trec_eval, `set_P`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.set_precision()
    0.6666666666666666
    """
    return precision.on(t, rel=rel)


@metric(perfect=1, undefined="no document is relevant")
def set_recall(t: Terms, *, rel: float | None = None) -> Value:
    r"""Set recall: the share of the relevant documents that was retrieved.

    $$\mathrm{hits} / R$$

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979; trec_eval, `set_recall`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.set_recall()
    0.5
    """
    return recall.on(t, rel=rel)


@metric(undefined="no document is relevant")
def set_f(t: Terms, *, beta: float = 1, rel: float | None = None) -> Value:
    r"""Set F-measure: the weighted harmonic mean of set precision and set recall.

    $$F_\beta = \frac{(1 + \beta^2) \cdot \mathrm{hits}}{\beta^2 R + n}$$

    Parameters
    ----------
    beta
        How many times recall weighs as much as precision; above 0. The parameter x of
        trec_eval is its square.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979; trec_eval, `set_F`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0, None], "label": [1, 1, 1]})
    >>> df.ranking.set_f()  # 2 x 2 / (3 + 2)
    0.8
    """
    return fbeta.on(t, beta=beta, rel=rel)


@metric(undefined="nothing was retrieved or no document is relevant")
def set_ap(t: Terms, *, rel: float | None = None) -> Value:
    r"""Set average precision: AP where every retrieved document stands at the last rank.

    $$\frac{\mathrm{hits}^2}{n \cdot R}$$

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list: set precision x set recall; null where nothing was
        retrieved or no document is relevant.

    References
    ----------
    Buckley, trec_eval, `set_map`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.set_ap()  # 1 x 1 / (2 x 2)
    0.25
    """
    hits = t.top(t.relevant(rel)).number()
    return ratio(hits * hits, t.retrieved() * t.number_relevant(rel))


@metric(perfect=1, undefined="nothing was retrieved or no document is relevant")
def set_relative_precision(t: Terms, *, rel: float | None = None) -> Value:
    r"""Set relative precision: relevant documents retrieved, of as many as there could be.

    $$\frac{\mathrm{hits}}{\min(n, R)}$$

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where nothing was retrieved or no document is
        relevant.

    References
    ----------
    Buckley, trec_eval, `set_relative_P`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, None, None], "label": [1, 1, 1]})
    >>> df.ranking.set_relative_precision()
    1.0
    """
    possible = least(t.retrieved(), t.number_relevant(rel))
    return ratio(t.top(t.relevant(rel)).number(), possible)


@metric(low=None, high=None)
def utility(
    t: Terms,
    *,
    a: float = 1,
    b: float = -1,
    c: float = 0,
    d: float = 0,
    size: int | None = None,
    rel: float | None = None,
) -> Value:
    r"""Utility: what the retrieved set is worth, a price on every right and wrong decision.

    $$a \cdot \mathrm{tp} + b \cdot \mathrm{fp} + c \cdot \mathrm{fn} + d \cdot \mathrm{tn}$$

    with tp relevant and fp other documents retrieved, fn relevant and tn other ones not.

    Parameters
    ----------
    a
        Worth of a relevant document retrieved.
    b
        Worth of another document retrieved.
    c
        Worth of a relevant document missed.
    d
        Worth of another document left out.

    Returns
    -------
    Metric
        One Float64 per list, never null. An unjudged document counts as not relevant.

    References
    ----------
    Buckley, trec_eval, `utility`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.utility(a=2)  # 2 x 2 - 1
    3.0
    """
    tp, listed, wanted, rows = _margins(t, None, size, rel)
    return a * tp + b * (listed - tp) + c * (wanted - tp) + d * (rows - listed - wanted + tp)


@metric(undefined="every document is relevant", lower_is_better=True)
def fall_out(
    t: Terms, k: int | None = None, *, size: int | None = None, rel: float | None = None
) -> Value:
    r"""Fall-out: the share of the documents that are not relevant that the first k hold.

    $$\frac{\mathrm{fp}}{\mathrm{fp} + \mathrm{tn}}$$

    with tp relevant and fp other documents among the first k, fn relevant and tn other ones not.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list, lower is better; null where every document is
        relevant. An unjudged document counts as not relevant.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 0]})
    >>> df.ranking.fall_out(2)
    0.5
    """
    tp, listed, wanted, rows = _margins(t, k, size, rel)
    return ratio(listed - tp, rows - wanted)


@metric()
def accuracy(
    t: Terms, k: int | None = None, *, size: int | None = None, rel: float | None = None
) -> Value:
    r"""Accuracy: the share of the documents that stand on the right side of the cutoff.

    $$\frac{\mathrm{tp} + \mathrm{tn}}{\mathrm{tp} + \mathrm{fp} + \mathrm{fn} + \mathrm{tn}}$$

    with tp relevant and fp other documents among the first k, fn relevant and tn other ones not.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list, never null. An unjudged document counts as not
        relevant.

    References
    ----------
    Manning, Raghavan & Schuetze, Introduction to Information Retrieval, 2008.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 0, 0, 0]})
    >>> df.ranking.accuracy(2)
    0.75
    """
    tp, listed, wanted, rows = _margins(t, k, size, rel)
    right = rows - listed - wanted + 2 * tp
    return right / rows if isinstance(rows, int) else ratio(right, rows)


@metric(
    low=-1,
    undefined="all or none of the documents are relevant, or all or none are among the first k",
)
def mcc(
    t: Terms, k: int | None = None, *, size: int | None = None, rel: float | None = None
) -> Value:
    r"""Matthews correlation of being relevant and being among the first k.

    $$\frac{\mathrm{tp} \cdot \mathrm{tn} - \mathrm{fp} \cdot \mathrm{fn}}
    {\sqrt{(\mathrm{tp} + \mathrm{fp})(\mathrm{tp} + \mathrm{fn})
    (\mathrm{tn} + \mathrm{fp})(\mathrm{tn} + \mathrm{fn})}}$$

    with tp relevant and fp other documents among the first k, fn relevant and tn other ones not.

    Returns
    -------
    Metric
        One Float64 in [-1, 1] per list; null where all or none of the documents are relevant,
        or all or none are among the first k.

    References
    ----------
    Matthews, Comparison of the predicted and observed secondary structure, 1975.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 1, 0, 0]})
    >>> df.ranking.mcc(2)
    1.0
    """
    tp, listed, wanted, rows = _margins(t, k, size, rel)
    product = listed * wanted * (rows - wanted) * (rows - listed)
    return ratio(rows * tp - listed * wanted, product.clip(low=0).sqrt())


def _margins(
    t: Terms, k: int | None, size: int | None, rel: float | None
) -> tuple[Value, Value, Value, Value | int]:
    """Return tp, tp + fp, tp + fn and all four: of the margins, no order changes any."""
    rows = t.rows() if size is None else whole_number("size", size)
    if size is not None:
        problem = f"`size` of the collection is {size}, but a list has more documents than that"
        t.require(t.rows() <= size, problem)
    tp = t.top(t.relevant(rel), k).number()
    return tp, t.retrieved(k), t.number_relevant(rel), rows
