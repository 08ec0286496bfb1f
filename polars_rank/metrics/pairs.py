"""Metrics of pairs and thresholds within one list: areas under the ROC and the PR curve."""

from __future__ import annotations

import polars as pl

from polars_rank.metrics.metric import metric, ratio
from polars_rank.ranked import RELEVANT, RETRIEVED, SCORE

__all__ = ["pr_auc", "roc_auc"]

_FOUND = RELEVANT & RETRIEVED


@metric(perfect=1)
def roc_auc() -> pl.Expr:
    r"""Area under the ROC curve of one list: how often a relevant document scores higher.

    $$\mathrm{AUC} = \frac{\sum_{relevant} rank^{up} - P (P + 1) / 2}{P \cdot N}$$

    over the retrieved documents, P of them relevant and N not; rank^up counts from the lowest
    score, tied scores sharing their mean rank, so that a tied pair counts one half.

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
    positives = _FOUND.sum().cast(pl.Float64)
    negatives = RETRIEVED.sum() - positives
    above = SCORE.rank("average").filter(_FOUND).sum() - positives * (positives + 1) / 2
    return ratio(above, positives * negatives)


@metric(perfect=1)
def pr_auc() -> pl.Expr:
    r"""Area under the precision-recall curve of one list, by trapezoids.

    Over the retrieved documents; one point for each distinct score, from precision 1 at
    recall 0. For the step-wise area see `average_precision`.

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
    end = SCORE.rank("max", descending=True).filter(_FOUND)
    start = SCORE.rank("min", descending=True).filter(_FOUND) - 1
    found_end = SCORE.filter(_FOUND).rank("max", descending=True)
    found_start = SCORE.filter(_FOUND).rank("min", descending=True) - 1
    before = pl.when(start > 0).then(found_start / start).otherwise(1.0)
    return ((found_end / end + before) / 2).mean()
