"""Metrics for incomplete judgments: judged, unjudged, bpref, inferred AP."""

from __future__ import annotations

from typing import Literal

import polars as pl

from polars_rank._params import one_of, share
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.relevance import judged_nonrelevant, share_of_top
from polars_rank.metrics.vocabulary import JUDGED, RANK, Value, least, ratio

__all__ = ["bpref", "inf_ap", "judged", "log_bpref", "unjudged"]

#: Smooths the fraction of relevant documents if no document above is judged, as in trec_eval.
_EPSILON = 1e-5


@define_metric(
    undefined="no document was retrieved and the divisor is not k", order_matters="cutoff"
)
def judged(k: int | None = None, *, depth: Literal["k", "retrieved"] = "k") -> Value:
    r"""Judged: fraction of the first k documents that have a label.

    $$\mathrm{Judged@k} = \frac{1}{k} \sum_{r=1}^{k} \mathrm{judged}_r$$

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, None, 0],
    ... })
    >>> df.ranking.judged(2)  # one of two
    0.5

    Parameters
    ----------
    depth
        Divisor: "k", or "retrieved" for the smaller of k and the number of retrieved documents (as
        in ir_measures).

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    MacAvaney, Macdonald & Ounis, Streamlining evaluation with ir-measures, 2022.
    """
    one_of("depth", depth, ("k", "retrieved"))
    return share_of_top(JUDGED, k, depth)


@define_metric(
    skipped=True,
    undefined="no cutoff is given and no document was retrieved",
    order_matters="cutoff",
)
def unjudged(k: int | None = None) -> Value:
    r"""Unjudged: fraction of the first k ranks that hold a document without a label.

    $$\mathrm{Unjudged@k} = \frac{1}{k} \sum_{r=1}^{k} (1 - \mathrm{judged}_r)$$

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. If the ranking has fewer than k documents, the empty
        ranks count as neither judged nor unjudged. A label below 0 is a label. In trec_eval, it is
        not: its values are those of judgments that are read with ``negative="unjudged"``.

    References
    ----------
    Soboroff, trec_eval, `unj`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, None, 0],
    ... })
    >>> df.ranking.unjudged(2)  # one of two
    0.5
    """
    return share_of_top(~JUDGED, k, "k")


@define_metric(undefined="no document is relevant", expected=False)
def bpref(*, form: Literal["min", "R"] = "min", rel: float | None = None) -> Value:
    r"""Bpref: binary preference of relevant over judged nonrelevant documents.

    $$\mathrm{bpref} = \frac{1}{R} \sum_{\mathrm{hits}}
    \left( 1 - \frac{\min(m, R)}{\min(N, R)} \right)$$

    where N is the number of documents judged not relevant, m is the number of these above the hit,
    and R is the number of relevant documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 0, None, 1]
    ... })
    >>> df.ranking.bpref()  # (1 + (1 - 1 / min(1, 2))) / 2
    0.5

    Parameters
    ----------
    form
        Divisor of m: "min" for the smaller of N and R (as in trec_eval, and in TensorFlow-Ranking
        with `use_trec_version`), "R" as originally published.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Unjudged documents are ignored. So are negative labels,
        which mean "in the pool but not judged".

    References
    ----------
    Buckley & Voorhees, Retrieval evaluation with incomplete information, 2004.
    """
    one_of("form", form, ("min", "R"))
    wanted = t.num_relevant(rel)
    relevant, wrong = t.relevant(rel), judged_nonrelevant(rel)
    divisor = least(t.each(wrong).count(), wanted) if form == "min" else wanted
    above = t.fold(_wrong_above, t.in_order(wrong), t.in_order(relevant), t.in_any_order(relevant))
    # If the divisor is 0, every m is 0 as well.
    return ratio(t.top(relevant).count() - above / divisor.clip(1), wanted)


def _wrong_above(wrong: pl.Expr, hits: pl.Expr, relevant: pl.Expr) -> pl.Expr:
    """Return the number of judged, not relevant documents above each hit, at most R, added up."""
    above = wrong.cast(pl.Float64).cum_sum().filter(hits)
    return above.clip(upper_bound=relevant.sum().cast(pl.Float64)).sum()


@define_metric(
    low=None, high=0, aggregate="geometric", undefined="no document is relevant", expected=False
)
def log_bpref(*, floor: float = 1e-5, rel: float | None = None) -> Value:
    r"""Logarithm of bpref; `evaluate` returns the geometric mean of bpref.

    $$\ln \max(\mathrm{bpref}, \mathrm{floor})$$

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.per_query("log_bpref").item(0, 1)  # bpref is 0.5: ln 0.5
    -0.6931471805599453
    >>> df.ranking.log_bpref()
    0.5

    Parameters
    ----------
    floor
        Lower bound of bpref, above 0, so that a single 0 does not make the geometric mean 0.

    Returns
    -------
    Metric
        One Float64 per ranking, 0 or less. `evaluate` returns the geometric mean of bpref, in
        which an undefined bpref counts as `floor` by default.

    References
    ----------
    Robertson, On GMAP: and other transformations, 2006; trec_eval, `gm_bpref`.
    """
    share("floor", floor)
    return bpref.tree(rel=rel).clip(floor).log()


@define_metric(undefined="no document is relevant", expected=False)
def inf_ap(*, rel: float | None = None) -> Value:
    r"""Inferred average precision: AP estimated from a judged sample of the pool.

    $$\mathrm{infAP} = \frac{1}{R} \sum_{\mathrm{hits}} \left( \frac{1}{i} +
    \frac{\mathrm{pool}}{i} \cdot \frac{r + \epsilon}{r + m + 2 \epsilon} \right)$$

    where i is the rank of the hit. Of the documents above it, r are relevant, m are judged not
    relevant, and pool have a label. R is the number of relevant documents, and epsilon is 0.00001.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. A negative label means "in the pool but not judged", a
        null label "not in the pool".

    References
    ----------
    Yilmaz & Aslam, Estimating average precision with incomplete and imperfect judgments, 2006.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> round(df.ranking.inf_ap(), 4)  # (1 + (1 / 3 + 2 / 3 x 1 / 2)) / 2
    0.8333
    """
    terms = (t.relevant(rel), judged_nonrelevant(rel), JUDGED, RANK)
    return ratio(t.fold(_inferred, *map(t.in_order, terms)), t.num_relevant(rel))


def _inferred(hit: pl.Expr, wrong: pl.Expr, judged: pl.Expr, rank: pl.Expr) -> pl.Expr:
    """Return the sum of the precisions at hits, estimated from the judged documents above."""
    hits, missed, pool = (part.cast(pl.Float64).cum_sum() for part in (hit, wrong, judged))
    # The running counts include the hit itself.
    likely = (hits - 1 + _EPSILON) / (hits - 1 + missed + 2 * _EPSILON)
    return (1 / rank + (pool - 1) / rank * likely).filter(hit).sum()
