"""`grouped_auc`: mean AUC of rankings, weighted by their numbers of documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, free
from polars_rank.evaluation.evaluate import per_query
from polars_rank.evaluation.log import groups_of
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.pairwise import roc_auc
from polars_rank.metrics.sets import num_retrieved

if TYPE_CHECKING:
    from typing import Unpack

    from polars_rank.evaluation.log import RankingOptions

_AUC, _SHOWN = OWN + "auc", OWN + "shown"


@framed
def grouped_auc(frame: pl.LazyFrame, /, **options: Unpack[RankingOptions]) -> pl.LazyFrame:
    r"""Return the grouped AUC (GAUC): the mean AUC of rankings, weighted by impressions.

    $$\mathrm{GAUC} = \frac{\sum_q n_q \cdot \mathrm{AUC}_q}{\sum_q n_q}$$

    over the rankings that have an AUC, where n_q is the number of retrieved documents.

    Examples
    --------
    >>> df = pl.DataFrame(
    ...     {
    ...         "query": ["a", "a", "b", "b", "b"],
    ...         "score": [0.9, 0.1, 0.9, 0.5, 0.1],
    ...         "label": [1, 0, 0, 1, 0],
    ...     }
    ... )
    >>> pr.grouped_auc(df)["gauc"].item()  # (2 x 1 + 3 x 1/2) / 5
    0.7

    Parameters
    ----------
    frame
        Long table: a LazyFrame, a DataFrame, or any other table with Arrow's C stream.
    **options
        Options of `evaluate` without `weight`, such as `run`, `by`, `query` and `rel`.

    Returns
    -------
    LazyFrame or DataFrame
        One row per group, sorted: the `by` and `run` columns, `queries` (the number of rankings
        with an AUC), `impressions` (the number of their documents) and `gauc`, in [0, 1]; null if
        no ranking has both relevant and nonrelevant documents. Lazy if `frame` is lazy.

    See Also
    --------
    roc_auc : The AUC of each ranking. Ties count one half, whatever the value of `ties`.

    References
    ----------
    Zhu et al., Optimized cost per click in Taobao display advertising, 2017.
    """
    shown = num_retrieved().alias(_SHOWN)
    rankings = per_query(frame, [roc_auc().alias(_AUC), shown], **options)
    auc, size = pl.col(_AUC), pl.col(_SHOWN)
    counted = size.filter(auc.is_not_null())
    means = [
        counted.len().alias("queries"),
        counted.sum().cast(pl.Int64).alias("impressions"),
        ratio((auc * size).sum(), counted.sum()).alias("gauc"),
    ]
    added = ["queries", "impressions", "gauc"]
    groups = groups_of(schema_of(frame), options).by
    free(groups, added)
    return grouped(rankings, groups, means)
