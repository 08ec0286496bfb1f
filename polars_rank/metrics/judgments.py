"""Metrics that mind what was judged: judged and unjudged at k, bpref, inferred AP."""

from __future__ import annotations

from typing import Literal

import polars as pl

from polars_rank.metrics.metric import metric, one_of, positive, ratio
from polars_rank.ranked import (
    JUDGED,
    LABEL,
    RANK,
    each,
    in_order,
    number_relevant,
    relevant,
    top,
)

__all__ = ["bpref", "inf_ap", "judged", "log_bpref", "unjudged"]

#: Smooths the share of relevant documents where nothing above is judged, as in trec_eval.
_EPSILON = 1e-5


@metric()
def judged(k: int | None = None, *, depth: Literal["k", "retrieved"] = "k") -> pl.Expr:
    r"""Judged: the share of the first k documents that has a label.

    $$\mathrm{Judged@k} = \frac{1}{k} \sum_{r=1}^{k} judged_r$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    depth
        What to divide by: "k", or with "retrieved" the smaller of k and the number of
        retrieved documents (ir_measures).

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where nothing was retrieved and the divisor is
        not k.

    Raises
    ------
    ArgumentError
        For a `k` below 1 or an unknown `depth`.

    References
    ----------
    MacAvaney, Macdonald & Ounis, Streamlining evaluation with ir-measures, 2022.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, None, 0]})
    >>> df.ranking.judged(2)
    0.5
    """
    one_of("depth", depth, ("k", "retrieved"))
    return _share(JUDGED, k, depth)


@metric()
def unjudged(k: int | None = None) -> pl.Expr:
    r"""Unjudged: the share of the first k ranks that holds a document without a label.

    $$\mathrm{Unjudged@k} = \frac{1}{k} \sum_{r=1}^{k} (1 - judged_r)$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; without k, null where nothing was retrieved. The ranks
        that a short list does not fill are neither judged nor unjudged.

    Raises
    ------
    ArgumentError
        For a `k` below 1.

    References
    ----------
    Soboroff, trec_eval, `unj`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, None, 0]})
    >>> df.ranking.unjudged(2)
    0.5
    """
    return _share(~JUDGED, k, "k")


@metric(perfect=1)
def bpref(*, form: Literal["min", "R"] = "min", rel: float | None = None) -> pl.Expr:
    r"""Bpref: how seldom documents judged not relevant stand above relevant ones.

    $$\mathrm{bpref} = \frac{1}{R} \sum_{hits} 1 - \frac{\min(m, R)}{\min(N, R)}$$

    with m of the N documents judged not relevant above the hit.

    Parameters
    ----------
    form
        What to divide m by: "min", the smaller of N and R (trec_eval, and TensorFlow-Ranking
        with `use_trec_version`); "R", as first published.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant. Unjudged documents
        play no part; nor does a negative label, which says "in the pool, but not judged".

    Raises
    ------
    ArgumentError
        For an unknown `form` or a `rel` that is not a number.

    References
    ----------
    Buckley & Voorhees, Retrieval evaluation with incomplete information, 2004.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 0, None, 1]
    ... })
    >>> df.ranking.bpref()  # (1 + (1 - 1 / min(1, 2))) / 2
    0.5
    """
    one_of("form", form, ("min", "R"))
    wanted = number_relevant(rel).cast(pl.Float64)
    wrong = _judged_not_relevant(rel)
    known = each(wrong).sum().cast(pl.Float64)
    divisor = pl.min_horizontal(known, wanted) if form == "min" else wanted
    above = in_order(wrong).cum_sum().filter(in_order(relevant(rel)))
    # Where the divisor is 0, so is every m.
    terms = 1 - above.clip(upper_bound=wanted) / divisor.clip(1)
    return ratio(terms.sum(), wanted)


@metric(low=None, high=0, perfect=0, aggregate="geometric")
def log_bpref(*, floor: float = 1e-5, rel: float | None = None) -> pl.Expr:
    r"""Logarithm of bpref for each list; over lists, its geometric mean.

    $$\ln \max(\mathrm{bpref}, floor)$$

    Parameters
    ----------
    floor
        The least value that counts, above 0: one list at 0 must not settle the mean.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64, 0 or less, per list; null where no document is relevant. `evaluate` gives
        the geometric mean of bpref; a list that counts as zero counts as the floor.

    Raises
    ------
    ArgumentError
        For a `floor` that is not above 0 or a `rel` that is not a number.

    References
    ----------
    Robertson, On GMAP: and other transformations, 2006; trec_eval, `gm_bpref`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, 0]})
    >>> df.ranking.per_query("log_bpref").item(0, 1)  # ln 1
    0.0
    >>> df.ranking.log_bpref()
    1.0
    """
    positive("floor", floor)
    return bpref(rel=rel).clip(floor).log()


@metric()
def inf_ap(*, rel: float | None = None) -> pl.Expr:
    r"""Inferred average precision: AP estimated where only a sample of the pool is judged.

    $$\mathrm{infAP} = \frac{1}{R} \sum_{hits} \frac{1}{i} +
    \frac{pool}{i} \cdot \frac{r + \epsilon}{r + m + 2 \epsilon}$$

    At the hit at rank i, of the documents above: r are relevant, m are judged not relevant,
    and `pool` have any label; epsilon is 0.00001.

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant. A negative label
        says "in the pool, but not judged"; a null label "not in the pool".

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    Yilmaz & Aslam, Estimating average precision with incomplete and imperfect judgments, 2006.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, 1]})
    >>> round(df.ranking.inf_ap(), 4)
    1.0
    """
    hit = in_order(relevant(rel))
    rank = in_order(RANK).cast(pl.Float64)
    found = hit.cum_sum().cast(pl.Float64) - 1
    wrong = in_order(_judged_not_relevant(rel)).cum_sum()
    pool = in_order(JUDGED).cum_sum().cast(pl.Float64) - 1
    likely = (found + _EPSILON) / (found + wrong + 2 * _EPSILON)
    return ratio((1 / rank + pool / rank * likely).filter(hit).sum(), number_relevant(rel))


def _judged_not_relevant(rel: float | None) -> pl.Expr:
    return JUDGED & (LABEL >= 0) & ~relevant(rel)


def _share(term: pl.Expr, k: int | None, depth: str) -> pl.Expr:
    found, listed = top(term, k).sum(), RANK.count()
    if k is None:
        return ratio(found, listed)
    return found / k if depth == "k" else ratio(found, listed.clip(upper_bound=k))
