"""Metrics that model a user who walks down the list: RR, RBP."""

from __future__ import annotations

import polars as pl

from polars_rank.metrics.metric import metric, share
from polars_rank.ranked import RANK, RELEVANT, top

__all__ = ["rbp", "reciprocal_rank"]


@metric(perfect=1)
def reciprocal_rank(k: int | None = None) -> pl.Expr:
    r"""Reciprocal rank: 1 / rank of the first relevant document. Its mean is MRR.

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; 0 where no relevant document is among the first k,
        null where no document is relevant at all.

    Raises
    ------
    ArgumentError
        For a `k` below 1.

    References
    ----------
    Voorhees, The TREC-8 question answering track report, 1999.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 1, 1]})
    >>> df.ranking.reciprocal_rank()
    0.5
    """
    first = top(pl.when(RELEVANT).then(RANK), k).min()
    return pl.when(RELEVANT.sum() > 0).then((1 / first).fill_null(0.0))


@metric()
def rbp(k: int | None = None, *, p: float = 0.8) -> pl.Expr:
    r"""Rank-biased precision: a user goes on to the next document with probability p.

    $$\mathrm{RBP} = (1 - p) \sum_r relevant_r \cdot p^{r - 1}$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    p
        Persistence of the user, between 0 and 1.

    Returns
    -------
    Metric
        One Float64 in [0, 1) per list, never null: 0 where nothing relevant is retrieved. An
        unjudged document counts as not relevant.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or a `p` that is not between 0 and 1.

    References
    ----------
    Moffat & Zobel, Rank-biased precision for measurement of retrieval effectiveness, 2008.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.rbp(p=0.5)  # 0.5 x (1 + 0.25)
    0.625
    """
    share("p", p)
    weight = (1 - p) * pl.lit(float(p)).pow(RANK.cast(pl.Float64) - 1)
    return top(pl.when(RELEVANT).then(weight), k).sum()
