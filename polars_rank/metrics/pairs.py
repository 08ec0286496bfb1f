"""Metrics of pairs and thresholds within one list: areas under curves, label ranking."""

from __future__ import annotations

import polars as pl

from polars_rank.metrics.metric import metric, ratio, share, whole_number
from polars_rank.ranked import (
    LABEL,
    RANK,
    RETRIEVED,
    SCORE,
    at_hits,
    number_relevant,
    relevant,
    top,
)

__all__ = [
    "coverage_error",
    "label_ranking_average_precision",
    "label_ranking_loss",
    "pair_accuracy",
    "partial_auc",
    "pr_auc",
    "roc_auc",
    "top_k_accuracy",
]


@metric(perfect=1)
def roc_auc(*, rel: float | None = None) -> pl.Expr:
    r"""Area under the ROC curve of one list: how often a relevant document scores higher.

    $$\mathrm{AUC} = \frac{\sum_{relevant} rank^{up} - P (P + 1) / 2}{P \cdot N}$$

    over the retrieved documents, P of them relevant and N not; rank^up counts from the lowest
    score, tied scores sharing their mean rank, so that a tied pair counts one half.

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where all or none of the retrieved documents are
        relevant. The `ties` rule of the call plays no part. Unjudged documents count as not
        relevant.

    References
    ----------
    Hanley & McNeil, The meaning and use of the area under a ROC curve, 1982.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.roc_auc()
    0.5
    """
    found = relevant(rel) & RETRIEVED
    positives = found.sum().cast(pl.Float64)
    negatives = RETRIEVED.sum() - positives
    above = SCORE.rank("average").filter(found).sum() - positives * (positives + 1) / 2
    return ratio(above, positives * negatives)


@metric(perfect=1)
def pr_auc(*, rel: float | None = None) -> pl.Expr:
    r"""Area under the precision-recall curve of one list, by trapezoids.

    Over the retrieved documents; one point for each distinct score, from precision 1 at
    recall 0. For the step-wise area see `average_precision`.

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no retrieved document is relevant. The
        `ties` rule of the call plays no part. Unjudged documents count as not relevant.

    References
    ----------
    Davis & Goadrich, The relationship between precision-recall and ROC curves, 2006.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.pr_auc()  # (1 + 1) / 2 x 1/2 + (1/2 + 2/3) / 2 x 1/2
    0.7916666666666666
    """
    # For each relevant document: the trapezoid of its block of tied scores, whose ends are the
    # last and the first rank of the block among all documents and among the relevant ones.
    hits = _Hits(rel)
    before = pl.when(hits.start > 0).then(hits.found_start / hits.start).otherwise(1.0)
    return ((hits.found_end / hits.end + before) / 2).mean()


@metric(perfect=None)
def partial_auc(*, max_fpr: float = 1, rel: float | None = None) -> pl.Expr:
    r"""Partial ROC AUC: the area up to a false positive rate, scaled so that chance is 0.5.

    $$\frac{1}{2} \left( 1 + \frac{A - f^2 / 2}{f - f^2 / 2} \right)$$

    with A the area under the ROC curve from 0 to f = `max_fpr`.

    Parameters
    ----------
    max_fpr
        How far to go, above 0 and at most 1; with 1 the value is `roc_auc`.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where all or none of the retrieved documents are
        relevant. The `ties` rule of the call plays no part.

    Raises
    ------
    ArgumentError
        For a `max_fpr` that is not above 0 and at most 1, or a `rel` that is not a number.

    References
    ----------
    McClish, Analyzing a portion of the ROC curve, 1989.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.partial_auc(max_fpr=0.5)  # A = 1/4 of 1/2: (1 + (1/4 - 1/8) / (1/2 - 1/8)) / 2
    0.6666666666666666
    """
    if max_fpr == 1:
        return roc_auc(rel=rel)
    share("max_fpr", max_fpr)
    hits = _Hits(rel)
    positives = hits.found.sum().cast(pl.Float64)
    negatives = RETRIEVED.sum() - positives
    limit = max_fpr * negatives
    # Each hit lifts the curve by 1 / P, along the negatives tied with it.
    start, end = hits.start - hits.found_start, hits.end - hits.found_end
    ramp = (limit - start) ** 2 / (2 * (end - start))
    lifted = (
        pl.when(limit >= end)
        .then(limit - (start + end) / 2)
        .otherwise(pl.when(limit > start).then(ramp).otherwise(0.0))
    )
    area = ratio(lifted.sum(), positives * negatives)
    chance = max_fpr**2 / 2
    return (1 + (area - chance) / (max_fpr - chance)) / 2


@metric(perfect=1)
def pair_accuracy(k: int | None = None, *, rel: float | None = None) -> pl.Expr:
    r"""Pair accuracy: pairs of a relevant and another document that stand in the right order.

    $$1 - \frac{\sum_{hits} (rank - hits)}{h \cdot o}$$

    over the first k documents, h of them relevant and o not.

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where all or none of the first k are relevant.
        Unjudged documents count as not relevant; tied scores follow the `ties` rule.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `rel` that is not a number.

    References
    ----------
    MacAvaney, Macdonald & Ounis, Streamlining evaluation with ir-measures, 2022.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.pair_accuracy()
    0.5
    """
    above = at_hits(lambda rank, hits: rank - hits, k, rel)
    hits = above.count().cast(pl.Float64)
    others = (RANK.count() if k is None else RANK.count().clip(upper_bound=k)) - hits
    return ratio(hits * others - above.sum(), hits * others)


@metric(perfect=1)
def label_ranking_average_precision(*, rel: float | None = None) -> pl.Expr:
    r"""Label ranking average precision: the mean precision at the score of each hit.

    $$\frac{1}{h} \sum_{hits} \frac{|\{relevant: score \ge s\}|}{|\{retrieved: score \ge s\}|}$$

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no retrieved document is relevant. Tied
        scores are counted together: the `ties` rule of the call plays no part.

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    Tsoumakas, Katakis & Vlahavas, Mining multi-label data, 2010.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.label_ranking_average_precision()  # (1 / 1 + 2 / 3) / 2
    0.8333333333333333
    """
    hits = _Hits(rel)
    return (hits.found_end / hits.end).mean()


@metric(perfect=0)
def label_ranking_loss(*, rel: float | None = None) -> pl.Expr:
    r"""Label ranking loss: the share of pairs where the relevant document is not above.

    $$\frac{|\{(hit, other): score_{hit} \le score_{other}\}|}{h \cdot o}$$

    over the retrieved documents, h of them relevant and o not.

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list, lower is better; null where all or none of the
        retrieved documents are relevant. Tied scores count as wrong.

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    Tsoumakas, Katakis & Vlahavas, Mining multi-label data, 2010.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.label_ranking_loss()
    0.5
    """
    hits = _Hits(rel)
    positives = hits.found.sum().cast(pl.Float64)
    return ratio((hits.end - hits.found_end).sum(), positives * (RETRIEVED.sum() - positives))


@metric(low=1, high=None)
def coverage_error(*, rel: float | None = None) -> pl.Expr:
    r"""Coverage error: how far down the list the last hit is.

    $$\max_{hits} |\{retrieved: score \ge score_{hit}\}|$$

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64, 1 or more, per list, lower is better; null where no retrieved document
        is relevant. Tied scores are counted together.

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    Tsoumakas, Katakis & Vlahavas, Mining multi-label data, 2010.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.coverage_error()
    3.0
    """
    return _Hits(rel).end.max().cast(pl.Float64)


@metric(perfect=1)
def top_k_accuracy(k: int, *, rel: float | None = None) -> pl.Expr:
    r"""Top-k accuracy: 1 where a document of the highest label is among the first k.

    Parameters
    ----------
    k
        Cutoff, at least 1.
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
    Russakovsky et al., ImageNet large scale visual recognition challenge, 2015.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 2, 0]})
    >>> df.ranking.top_k_accuracy(1), df.ranking.top_k_accuracy(2)
    (0.0, 1.0)
    """
    best = top(LABEL, whole_number("k", k)).max() == LABEL.max()
    found = best.fill_null(value=False).cast(pl.Float64)
    return pl.when(number_relevant(rel) > 0).then(found)


class _Hits:
    """The relevant retrieved documents, each with the block of scores tied with its own.

    A block is given by its last rank and the one before its first, among all retrieved
    documents and among the hits; no rule for ties plays a part.
    """

    def __init__(self, rel: float | None) -> None:
        self.found = relevant(rel) & RETRIEVED
        score = SCORE.filter(self.found)
        self.end = SCORE.rank("max", descending=True).filter(self.found).cast(pl.Float64)
        self.start = SCORE.rank("min", descending=True).filter(self.found).cast(pl.Float64) - 1
        self.found_end = score.rank("max", descending=True).cast(pl.Float64)
        self.found_start = score.rank("min", descending=True).cast(pl.Float64) - 1
