"""Metrics of the retrieved set as a whole, and of the table of right and wrong decisions."""

from __future__ import annotations

import polars as pl

from polars_rank.metrics.metric import metric, ratio, whole_number
from polars_rank.metrics.relevance import fbeta, precision, recall
from polars_rank.ranked import JUDGED, LABEL, RANK, RETRIEVED, each, number_relevant, relevant, top

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
def num_queries() -> pl.Expr:
    r"""How many lists there are: 1 for each.

    Returns
    -------
    Metric
        One Float64 per list, never null: 1; `evaluate` gives their sum.

    References
    ----------
    Buckley, trec_eval, `num_q`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": [1, 1, 2], "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.num_queries()
    2.0
    """
    return (each(RETRIEVED).sum() >= 0).cast(pl.Float64)


@metric(high=None, aggregate="sum")
def num_retrieved() -> pl.Expr:
    r"""How many documents were retrieved: those with a score.

    Returns
    -------
    Metric
        One Float64 per list, never null: a whole number, 0 or more; `evaluate` gives their sum.

    References
    ----------
    Buckley, trec_eval, `num_ret`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.num_retrieved()
    2.0
    """
    return RANK.count().cast(pl.Float64)


@metric(high=None, aggregate="sum")
def num_relevant(*, rel: float | None = None) -> pl.Expr:
    r"""How many documents are relevant, retrieved or not: R.

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 per list, never null: a whole number, 0 or more; `evaluate` gives their sum.

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    Buckley, trec_eval, `num_rel`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.num_relevant()
    2.0
    """
    return number_relevant(rel).cast(pl.Float64)


@metric(high=None, aggregate="sum")
def num_relevant_retrieved(k: int | None = None, *, rel: float | None = None) -> pl.Expr:
    r"""How many of the first k documents are relevant.

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 per list, never null: a whole number, 0 or more; `evaluate` gives their sum.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `rel` that is not a number.

    References
    ----------
    Buckley, trec_eval, `num_rel_ret`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.num_relevant_retrieved()
    1.0
    """
    return top(relevant(rel), k).sum().cast(pl.Float64)


@metric(high=None, aggregate="sum")
def num_nonrelevant_judged_retrieved(*, rel: float | None = None) -> pl.Expr:
    r"""How many of the retrieved documents are judged not relevant: 0 <= label < threshold.

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 per list, never null: a whole number, 0 or more; `evaluate` gives their
        sum. A negative label says "in the pool, but not judged" and is not counted.

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    Buckley, trec_eval, `num_nonrel_judged_ret`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, None]})
    >>> df.ranking.num_nonrelevant_judged_retrieved()
    1.0
    """
    wrong = JUDGED & (LABEL >= 0) & ~relevant(rel)
    return top(wrong).sum().cast(pl.Float64)


@metric()
def set_precision(*, rel: float | None = None) -> pl.Expr:
    r"""Set precision: the share of the retrieved documents that is relevant.

    $$P = hits / n$$

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where nothing was retrieved.

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979; trec_eval, `set_P`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.set_precision()
    0.6666666666666666
    """
    return precision(rel=rel)


@metric(perfect=1)
def set_recall(*, rel: float | None = None) -> pl.Expr:
    r"""Set recall: the share of the relevant documents that was retrieved.

    $$R = hits / R$$

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant.

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979; trec_eval, `set_recall`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.set_recall()
    0.5
    """
    return recall(rel=rel)


@metric()
def set_f(*, beta: float = 1, rel: float | None = None) -> pl.Expr:
    r"""Set F-measure: the weighted harmonic mean of set precision and set recall.

    $$F_\beta = \frac{(1 + \beta^2) \cdot hits}{\beta^2 R + n}$$

    Parameters
    ----------
    beta
        How many times recall weighs as much as precision; above 0. The parameter x of
        trec_eval is its square.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant.

    Raises
    ------
    ArgumentError
        For a `beta` that is not above 0 or a `rel` that is not a number.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979; trec_eval, `set_F`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0, None], "label": [1, 1, 1]})
    >>> df.ranking.set_f()  # 2 x 2 / (3 + 2)
    0.8
    """
    return fbeta(beta=beta, rel=rel)


@metric()
def set_ap(*, rel: float | None = None) -> pl.Expr:
    r"""Set average precision: AP where every retrieved document stands at the last rank.

    $$\mathrm{set\,AP} = hits^2 / (n R)$$

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list: set precision x set recall; null where nothing was
        retrieved or no document is relevant.

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    Buckley, trec_eval, `set_map`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, None], "label": [1, 0, 1]})
    >>> df.ranking.set_ap()  # 1 x 1 / (2 x 2)
    0.25
    """
    hits, wanted = num_relevant_retrieved(rel=rel), num_relevant(rel=rel)
    return ratio(hits * hits, num_retrieved() * wanted)


@metric(perfect=1)
def set_relative_precision(*, rel: float | None = None) -> pl.Expr:
    r"""Set relative precision: relevant documents retrieved, of as many as there could be.

    $$hits / \min(n, R)$$

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where nothing was retrieved or no document is
        relevant.

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    Buckley, trec_eval, `set_relative_P`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, None, None], "label": [1, 1, 1]})
    >>> df.ranking.set_relative_precision()
    1.0
    """
    possible = pl.min_horizontal(num_retrieved(), num_relevant(rel=rel))
    return ratio(num_relevant_retrieved(rel=rel), possible)


@metric(low=None, high=None)
def utility(
    *,
    a: float = 1,
    b: float = -1,
    c: float = 0,
    d: float = 0,
    size: int | None = None,
    rel: float | None = None,
) -> pl.Expr:
    r"""Utility: what the retrieved set is worth, a price on every right and wrong decision.

    $$a \cdot tp + b \cdot fp + c \cdot fn + d \cdot tn$$

    Parameters
    ----------
    a, b, c, d
        Worth of a relevant document retrieved, another document retrieved, a relevant
        document missed, and another document left out.
    size
        How many documents the collection has; None for the rows of the list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 per list, never null. An unjudged document counts as not relevant.

    Raises
    ------
    ArgumentError
        For a `size` below 1 or a `rel` that is not a number.

    References
    ----------
    Buckley, trec_eval, `utility`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.utility(a=2)  # 2 x 2 - 1
    3.0
    """
    tp, listed, wanted, rows = _margins(None, size, rel)
    return a * tp + b * (listed - tp) + c * (wanted - tp) + d * (rows - listed - wanted + tp)


@metric()
def fall_out(k: int | None = None, *, size: int | None = None, rel: float | None = None) -> pl.Expr:
    r"""Fall-out: the share of the documents that are not relevant that the first k hold.

    $$fp / (fp + tn)$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    size
        How many documents the collection has; None for the rows of the list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list, lower is better; null where every document is
        relevant. An unjudged document counts as not relevant.

    Raises
    ------
    ArgumentError
        For a `k` or `size` below 1 or a `rel` that is not a number.

    References
    ----------
    van Rijsbergen, Information Retrieval, 1979.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 0]})
    >>> df.ranking.fall_out(2)
    0.5
    """
    tp, listed, wanted, rows = _margins(k, size, rel)
    return ratio(listed - tp, rows - wanted)


@metric()
def accuracy(k: int | None = None, *, size: int | None = None, rel: float | None = None) -> pl.Expr:
    r"""Accuracy: the share of the documents that stand on the right side of the cutoff.

    $$(tp + tn) / (tp + fp + fn + tn)$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    size
        How many documents the collection has; None for the rows of the list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list, never null. An unjudged document counts as not
        relevant.

    Raises
    ------
    ArgumentError
        For a `k` or `size` below 1 or a `rel` that is not a number.

    References
    ----------
    Manning, Raghavan & Schuetze, Introduction to Information Retrieval, 2008.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 0, 0, 0]})
    >>> df.ranking.accuracy(2)
    0.75
    """
    tp, listed, wanted, rows = _margins(k, size, rel)
    return ratio(rows - listed - wanted + 2 * tp, rows)


@metric(low=-1)
def mcc(k: int | None = None, *, size: int | None = None, rel: float | None = None) -> pl.Expr:
    r"""Matthews correlation of being relevant and being among the first k.

    $$\frac{tp \cdot tn - fp \cdot fn}{\sqrt{(tp + fp)(tp + fn)(tn + fp)(tn + fn)}}$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    size
        How many documents the collection has; None for the rows of the list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [-1, 1] per list; null where all or none of the documents are relevant,
        or all or none are among the first k.

    Raises
    ------
    ArgumentError
        For a `k` or `size` below 1 or a `rel` that is not a number.

    References
    ----------
    Matthews, Comparison of the predicted and observed secondary structure, 1975.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 1, 0, 0]})
    >>> df.ranking.mcc(2)
    1.0
    """
    tp, listed, wanted, rows = _margins(k, size, rel)
    product = listed * wanted * (rows - wanted) * (rows - listed)
    return ratio(rows * tp - listed * wanted, product.sqrt())


def _margins(
    k: int | None, size: int | None, rel: float | None
) -> tuple[pl.Expr, pl.Expr, pl.Expr, pl.Expr]:
    """Return tp, tp + fp, tp + fn and all four: of the margins, no order changes any."""
    rows = pl.len() if size is None else pl.lit(whole_number("size", size))
    listed = num_retrieved() if k is None else num_retrieved().clip(upper_bound=k)
    tp = top(relevant(rel), k).sum().cast(pl.Float64)
    return tp, listed, num_relevant(rel=rel), rows.cast(pl.Float64)
