"""Metrics of user models: RR, RBP, ARP, PWA, ERR, pFound, and the C/W/L family.

The user reads the ranking from the top, and may stop at a satisfying document. A C/W/L metric is
the expected gain per document read, given the probability of continuing from each rank. Ranks below
the last retrieved document have gain 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from polars_rank._params import number, one_of, positive, share, whole_number
from polars_rank.discounts import log2, reciprocal
from polars_rank.errors import ArgumentError
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.discounted_gain import weight_sum
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.vocabulary import JUDGED, LABEL, RANK, Term, Value, ratio, where

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "average_relevance_position", "bpm", "err", "insq", "inst", "nerr8", "nerr9", "nerr10",
    "nerr11", "pfound", "pwa", "rbp", "rbp_residual", "reciprocal_rank", "sdcg",
]  # fmt: skip

#: The largest label for which 2^label is a finite Float64, rounded down.
_LARGEST_LABEL = 1000
#: The least difference of grades that labels can be divided by.
_LEAST_RANGE = 1e-100


@define_metric(undefined="no document is relevant")
def reciprocal_rank(k: int | None = None, *, rel: float | None = None) -> Value:
    r"""Reciprocal rank: 1 / rank of the first relevant document.

    $$\mathrm{RR@k} = \max_{r \le k} \frac{\mathrm{relevant}_r}{r}$$

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking, 0 if no relevant document is among the first k. The mean
        over rankings is MRR.

    References
    ----------
    Voorhees, The TREC-8 question answering track report, 1999.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 1, 1],
    ... })
    >>> df.ranking.reciprocal_rank()  # the first relevant document is at rank 2
    0.5
    """
    first = t.top(where(t.relevant(rel), RANK), k).min()
    return where(t.num_relevant(rel) > 0, (1 / first).fill_null(0))


@define_metric()
def rbp(
    k: int | None = None,
    *,
    p: float = 0.8,
    graded: bool = False,
    irrelevant: Literal["null"] | None = None,
    rel: float | None = None,
) -> Value:
    r"""Rank-biased precision for a user who continues with probability p.

    $$\mathrm{RBP} = (1 - p) \sum_{r=1}^{k} \mathrm{relevant}_r \cdot p^{r - 1}$$

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1],
    ... })
    >>> df.ranking.rbp(p=0.5)  # 0.5 x (1 + 0.25)
    0.625

    Parameters
    ----------
    p
        Persistence: probability that the user continues to the next document, in (0, 1).
    graded
        Whether a relevant document counts as its label instead of 1.

    Returns
    -------
    Metric
        One Float64 per ranking, in [0, 1) unless `graded` is true; 0 if no relevant document was
        retrieved. Unjudged documents count as not relevant.

    References
    ----------
    Moffat & Zobel, Rank-biased precision for measurement of retrieval effectiveness, 2008.
    """
    share("p", p)
    one_of("irrelevant", irrelevant, (None, "null"))
    worth = where(t.relevant(rel), LABEL if graded else 1.0)
    value = (1 - p) * t.top(worth * RANK.map(persistence, p=p), k).sum()
    return value if irrelevant is None else where(t.num_relevant(rel) > 0, value)


@define_metric()
def rbp_residual(k: int | None = None, *, p: float = 0.8) -> Value:
    r"""RBP residual: largest possible increase of RBP with complete judgments.

    $$p^{\min(k, n)} + (1 - p) \sum_{r=1}^{k} \mathrm{unjudged}_r \cdot p^{r-1}$$

    where n is the number of retrieved documents.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, None]})
    >>> df.ranking.rbp_residual(p=0.5)  # 0.25 + 0.5 x 0.5
    0.5

    Parameters
    ----------
    p
        Persistence: probability that the user continues to the next document, in (0, 1).

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking; 1 if no document was retrieved. With complete judgments,
        RBP is between `rbp` and `rbp` plus the residual.

    References
    ----------
    Moffat & Zobel, Rank-biased precision for measurement of retrieval effectiveness, 2008.
    """
    share("p", p)
    unknown = t.top(where(~JUDGED, 1.0) * RANK.map(persistence, p=p), k).sum()
    return p ** t.num_retrieved(k) + (1 - p) * unknown


@define_metric(
    low=None,
    high=None,
    undefined="the sum of the labels of the retrieved documents is not above 0",
    skipped=True,
    lower_is_better=True,
)
def average_relevance_position() -> Value:
    r"""Average relevance position: mean rank of the documents, weighted by label.

    $$\mathrm{ARP} = \frac{\sum_r \mathrm{label}_r \cdot r}{\sum_r \mathrm{label}_r}$$

    Returns
    -------
    Metric
        One Float64 per ranking, 1 or more unless a label is negative.

    References
    ----------
    Zhu, Recall, precision and average precision, 2004; Pasumarthi et al., TF-Ranking, 2019.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1],
    ... })
    >>> df.ranking.average_relevance_position()  # (2 x 1 + 1 x 3) / 3
    1.6666666666666667
    """
    return ratio(t.top(LABEL * RANK).sum(), t.top(LABEL).sum())


@define_metric(high=None, undefined="no document was retrieved")
def pwa(k: int) -> Value:
    r"""Position-weighted average of the labels, with weight 1 / rank.

    $$\mathrm{PWA@k} = \frac{\sum_r \mathrm{label}_r / r}{\sum_r 1 / r} \qquad r \le \min(k, n)$$

    where n is the number of retrieved documents.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, 4]})
    >>> df.ranking.pwa(5)  # (1 + 4 / 2) / (1 + 1 / 2)
    2.0

    Parameters
    ----------
    k
        Cutoff, a positive integer. TensorFlow-Ranking uses 5.

    Returns
    -------
    Metric
        One Float64 per ranking, within the range of the labels. Unjudged documents count as label
        0.

    References
    ----------
    Pasumarthi et al., TF-Ranking: scalable TensorFlow library for learning-to-rank, 2019.
    """
    whole = t.top(1.0, k, reciprocal).sum()
    return ratio(t.top(LABEL, k, reciprocal).sum(), whole)


def persistence(rank: pl.Expr, *, p: float) -> pl.Expr:
    """Return the probability that a user who goes on with probability p reaches each rank."""
    return pl.lit(float(p)).pow(rank - 1)


@define_metric()
def err(k: int | None = None, *, max_grade: float | None = None) -> Value:
    r"""Expected reciprocal rank of the document that satisfies the user.

    $$\mathrm{ERR@k} = \sum_{r=1}^{k} \frac{s_r}{r} \prod_{j \lt r} (1 - s_j)
    \qquad s_r = \frac{2^{\mathrm{label}_r} - 1}{2^{\mathrm{max}}}$$

    where s_r is the probability that the document at rank r satisfies the user, and max is
    `max_grade`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, 2]})
    >>> df.ranking.err(max_grade=2)  # 1/4 + 3/4 x 3/4 / 2
    0.53125

    Parameters
    ----------
    max_grade
        Highest grade of the scale, at most 1000; 4 in the TREC web tracks. Higher labels count as
        `max_grade`, negative labels as 0. None: the highest label of each ranking.

    Returns
    -------
    Metric
        One Float64 in [0, 1) per ranking. Unjudged documents count as label 0.

    References
    ----------
    Chapelle et al., Expected reciprocal rank for graded relevance, 2009.
    """
    if max_grade is None:
        worth = t.gain(power_of_two).fill_null(1.0)
        listed = t.in_order(worth, k), t.in_order(RANK, k)
        return t.fold(_stopped_by_highest, *listed, t.in_any_order(worth))
    stops = stop_probability(max_grade)
    return t.fold(_stopped, t.in_order(stops, k), t.in_order(RANK, k))


def _stopped(stops: pl.Expr, rank: pl.Expr) -> pl.Expr:
    """Return the sum of 1 / rank times the probability that the user stops at that rank."""
    return (stops * _reach_probability(1 - stops) / rank).sum()


def _stopped_by_highest(worth: pl.Expr, rank: pl.Expr, of_all: pl.Expr) -> pl.Expr:
    return _stopped((worth - 1) / of_all.max(), rank)


@define_metric()
def pfound(k: int | None = None, *, decay: float = 0.85, max_grade: float = 1) -> Value:
    r"""PFound: probability that the user finds a relevant document before giving up.

    $$\mathrm{pFound@k} = \sum_{r=1}^{k} t_r \cdot \mathrm{decay}^{r-1} \prod_{j \lt r} (1 - t_j)
    \qquad t_r = \frac{\mathrm{label}_r}{\mathrm{max}}$$

    where t_r is the probability that the document at rank r satisfies the user, and max is
    `max_grade`.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0.5, 0.4]})
    >>> df.ranking.pfound()  # 0.5 + 0.4 x 0.85 x 0.5
    0.67

    Parameters
    ----------
    decay
        Probability that the user continues to the next document, in (0, 1).
    max_grade
        Label that always satisfies the user, above 0. Labels are clipped to [0, `max_grade`].

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Unjudged documents count as label 0.

    References
    ----------
    Gulin, Karpov, Raskovalov & Segalovich, Yandex at ROMIP, 2009.
    """
    share("decay", decay)
    stops, patience = share_of_grades(max_grade, 0), RANK.map(persistence, p=decay)
    return t.fold(_satisfied, t.in_order(stops, k), t.in_order(patience, k))


def _satisfied(stops: pl.Expr, patience: pl.Expr) -> pl.Expr:
    return (stops * _reach_probability(1 - stops) * patience).sum()


@define_metric()
def sdcg(k: int, *, max_grade: float, min_grade: float = 0) -> Value:
    r"""Scaled DCG: DCG divided by the DCG of k documents of the highest grade.

    $$\mathrm{SDCG@k}
    = \frac{\sum_{r=1}^{k} g_r / \log_2(r + 1)}{\sum_{r=1}^{k} 1 / \log_2(r + 1)}$$

    where g_r is the label at rank r, scaled linearly so that `min_grade` becomes 0 and `max_grade`
    1; g_r is 0 beyond the end of the ranking.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [4, 2]})
    >>> df.ranking.sdcg(1, max_grade=4), df.ranking.sdcg(1, max_grade=8)  # 4/4, 4/8
    (1.0, 0.5)

    Parameters
    ----------
    k
        Cutoff, a positive integer.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Documents that are not among the first k have no effect.

    References
    ----------
    Azzopardi, Thomas & Moffat, cwl_eval: an evaluation tool, 2019.
    """
    whole = weight_sum(log2, k)
    return t.top(share_of_grades(max_grade, min_grade), k, log2).sum() / whole


@define_metric(expected=False)
def nerr8(k: int, *, max_grade: float, min_grade: float = 0) -> Value:
    r"""NERR8: expected gain per document read if the user stops with probability g.

    $$\frac{\sum_{i=1}^{k} V_i \cdot g_i}{\sum_{i=1}^{k} V_i}
    \qquad V_i = \prod_{j \lt i} C_j \qquad C_i = 1 - g_i$$

    where V_i is the probability that the user reads rank i, C_i is the probability that the user
    continues from rank i, and g_i is the label at rank i, scaled linearly so that `min_grade`
    becomes 0 and `max_grade` 1; g_i is 0 beyond the end of the ranking.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [2, 4]})
    >>> df.ranking.nerr8(2, max_grade=4)  # (1/2 + 1/2 x 1) / (1 + 1/2)
    0.6666666666666666

    Parameters
    ----------
    k
        Cutoff, a positive integer.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking; 0 for an empty ranking.

    References
    ----------
    Azzopardi, Mackenzie & Moffat, ERR is not C/W/L, 2021, equation 8.
    """
    return _nerr(max_grade, min_grade, lambda rank: rank**0, k)


@define_metric(expected=False)
def nerr9(k: int, *, max_grade: float, min_grade: float = 0) -> Value:
    r"""NERR9: NERR8 with a continuation probability that also depends on the rank.

    $$\frac{\sum_{i=1}^{k} V_i \cdot g_i}{\sum_{i=1}^{k} V_i}
    \qquad V_i = \prod_{j \lt i} C_j \qquad C_i = \frac{i}{i + 1} (1 - g_i)$$

    where V_i is the probability that the user reads rank i, C_i is the probability that the user
    continues from rank i, and g_i is the label at rank i, scaled linearly so that `min_grade`
    becomes 0 and `max_grade` 1; g_i is 0 beyond the end of the ranking.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [2, 4]})
    >>> df.ranking.nerr9(2, max_grade=4)  # (1/2 + 1/2 x 1/2 x 1) / (1 + 1/2 x 1/2)
    0.6

    Parameters
    ----------
    k
        Cutoff, a positive integer.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking; 0 for an empty ranking.

    References
    ----------
    Azzopardi, Mackenzie & Moffat, ERR is not C/W/L, 2021, equation 9.
    """
    return _nerr(max_grade, min_grade, lambda rank: 1 / rank, k)


@define_metric(expected=False)
def nerr10(*, max_grade: float, p: float = 0.9, min_grade: float = 0, depth: int = 1000) -> Value:
    r"""NERR10: NERR8 with the continuation probability p of RBP as an extra factor.

    $$\frac{\sum_{i=1}^{D} V_i \cdot g_i}{\sum_{i=1}^{D} V_i}
    \qquad V_i = \prod_{j \lt i} C_j \qquad C_i = p (1 - g_i)$$

    where V_i is the probability that the user reads rank i, C_i is the probability that the user
    continues from rank i, and g_i is the label at rank i, scaled linearly so that `min_grade`
    becomes 0 and `max_grade` 1. D is `depth`; g_i is 0 beyond the end of the ranking.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [2, 4]})
    >>> df.ranking.nerr10(max_grade=4, p=0.5)  # (1/2 + 1/4 x 1) / (1 + 1/4)
    0.6

    Parameters
    ----------
    p
        Persistence: probability that the user continues to the next document, in (0, 1).
    depth
        Maximum number of ranks that the user reads. Shorter rankings are extended with gain 0.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking; 0 for an empty ranking.

    References
    ----------
    Azzopardi, Mackenzie & Moffat, ERR is not C/W/L, 2021, equation 10.
    """
    share("p", p)
    return _nerr(max_grade, min_grade, lambda rank: p ** (rank - 1.0), depth)


@define_metric(expected=False)
def nerr11(
    *,
    max_grade: float,
    T: float = 1,  # noqa: N803  (as in the literature)
    min_grade: float = 0,
    depth: int = 1000,
) -> Value:
    r"""NERR11: NERR8 with the continuation probability of INSQ as an extra factor.

    $$\frac{\sum_{i=1}^{D} V_i \cdot g_i}{\sum_{i=1}^{D} V_i}
    \qquad V_i = \prod_{j \lt i} C_j
    \qquad C_i = \left( \frac{i + 2T - 1}{i + 2T} \right)^2 (1 - g_i)$$

    where V_i is the probability that the user reads rank i, C_i is the probability that the user
    continues from rank i, and g_i is the label at rank i, scaled linearly so that `min_grade`
    becomes 0 and `max_grade` 1. D is `depth`; g_i is 0 beyond the end of the ranking.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [2, 4]})
    >>> # V is 1 and (2/3)**2 x 1/2 = 2/9: (1/2 + 2/9 x 1) / (1 + 2/9).
    >>> round(df.ranking.nerr11(max_grade=4, T=1), 4)
    0.5909

    Parameters
    ----------
    T
        Total gain that the user is looking for, above 0.
    depth
        Maximum number of ranks that the user reads. Shorter rankings are extended with gain 0.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking; 0 for an empty ranking.

    References
    ----------
    Azzopardi, Mackenzie & Moffat, ERR is not C/W/L, 2021, equation 11.
    """
    share("T", T, 1e-6, 10**6, ends=True)
    return _nerr(max_grade, min_grade, lambda rank: _inverse_square(rank, T), depth)


@define_metric()
def insq(
    *,
    max_grade: float,
    T: float = 1,  # noqa: N803  (as in the literature)
    min_grade: float = 0,
    depth: int = 1000,
) -> Value:
    r"""INSQ: expected gain per document read if persistence grows with the rank.

    $$\frac{\sum_{i=1}^{D} V_i \cdot g_i}{\sum_{i=1}^{D} V_i}
    \qquad V_i = \prod_{j \lt i} C_j \qquad C_i = \left( \frac{i + 2T - 1}{i + 2T} \right)^2$$

    where V_i is the probability that the user reads rank i, C_i is the probability that the user
    continues from rank i, and g_i is the label at rank i, scaled linearly so that `min_grade`
    becomes 0 and `max_grade` 1. D is `depth`; g_i is 0 beyond the end of the ranking.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [4, 0]})
    >>> round(df.ranking.insq(max_grade=4, depth=2, T=1), 4)  # 1 / (1 + (2/3)**2)
    0.6923

    Parameters
    ----------
    T
        Total gain that the user is looking for, above 0.
    depth
        Maximum number of ranks that the user reads. Shorter rankings are extended with gain 0.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Moffat, Scholer & Thomas, Models and metrics: IR evaluation as a user process, 2012.
    """
    share("T", T, 1e-6, 10**6, ends=True)
    whole = weight_sum(lambda rank: _inverse_square(rank, T), whole_number("depth", depth))
    gains = t.top(share_of_grades(max_grade, min_grade) * _inverse_square(RANK, T), depth)
    return gains.sum() / whole


@define_metric(expected=False)
def inst(
    *,
    max_grade: float,
    T: float = 1,  # noqa: N803  (as in the literature)
    min_grade: float = 0,
    depth: int = 1000,
) -> Value:
    r"""INST: INSQ for a user whose persistence also depends on the gain so far.

    $$\frac{\sum_{i=1}^{D} V_i \cdot g_i}{\sum_{i=1}^{D} V_i}
    \qquad V_i = \prod_{j \lt i} C_j
    \qquad C_i = \left( \frac{i + T + t_i - 1}{i + T + t_i} \right)^2
    \qquad t_i = T - \sum_{j \le i} g_j$$

    where V_i is the probability that the user reads rank i, C_i is the probability that the user
    continues from rank i, and g_i is the label at rank i, scaled linearly so that `min_grade`
    becomes 0 and `max_grade` 1. D is `depth`; g_i is 0 beyond the end of the ranking.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [4, 0]})
    >>> df.ranking.inst(max_grade=4, depth=2, T=1)  # 1 / (1 + (1/2)**2)
    0.8

    Parameters
    ----------
    T
        Total gain that the user is looking for, above 0.
    depth
        Maximum number of ranks that the user reads. Shorter rankings are extended with gain 0.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking; 0 for an empty ranking.

    References
    ----------
    Bailey, Moffat, Scholer & Thomas, User variability and IR system evaluation, 2015.
    """
    share("T", T, 1e-6, 10**6, ends=True)
    depth = whole_number("depth", depth)
    grade = share_of_grades(max_grade, min_grade)
    listed = t.in_order(grade, depth), t.in_order(RANK, depth)
    return t.fold(_adaptive_gain, *listed, target=T, depth=depth)


def _adaptive_gain(gains: pl.Expr, ranks: pl.Expr, *, target: float, depth: int) -> pl.Expr:
    """Return the expected gain per document of INST."""
    gains, ranks = gains.drop_nulls(), ranks.drop_nulls()
    reached = ranks + 2 * target - gains.cum_sum()
    onward = ((reached - 1) / reached) ** 2
    seen = _reach_probability(onward)
    # Below the last document, the products telescope to a sum of inverse squares.
    listed, end = pl.field("listed"), pl.field("end")
    rest = pl.struct(
        (gains.len().cast(pl.Float64) + 2 * target - gains.sum()).alias("listed"),
        (depth + 2 * target - gains.sum()).alias("end"),
    ).struct.with_fields(rest=listed**2 * (_trigamma(listed) - _trigamma(end)))
    beyond = onward.product() * rest.struct.field("rest")
    return (seen * gains).sum() / (seen.sum() + beyond)


@define_metric(expected=False)
def bpm(
    k: int,
    *,
    max_grade: float,
    T: float = 1,  # noqa: N803  (as in the literature)
    min_grade: float = 0,
) -> Value:
    r"""Bejeweled player model: mean gain per document until the user stops.

    $$\mathrm{BPM@k} = \frac{1}{s} \sum_{i \le s} g_i
    \qquad s = \min \left( k, \min \lbrace i : \textstyle\sum_{j \le i} g_j \ge T \rbrace \right)$$

    where s is the rank at which the user stops, either because the total gain reaches T or at rank
    k, and g_i is the label at rank i, scaled linearly so that `min_grade` becomes 0 and `max_grade`
    1; g_i is 0 beyond the end of the ranking.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [0, 4, 4],
    ... })
    >>> df.ranking.bpm(3, max_grade=4)  # (0 + 1) / 2
    0.5

    Parameters
    ----------
    k
        Cutoff, a positive integer.
    T
        Total gain at which the user stops, above 0.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking; 0 for an empty ranking.

    References
    ----------
    Zhang et al., Evaluating web search with a bejeweled player model, 2017.
    """
    share("T", T, 1e-6, 10**6, ends=True)
    grades = t.in_order(share_of_grades(max_grade, min_grade), k)
    return t.fold(_gain_until_enough, grades, target=T, k=k)


def _gain_until_enough(gains: pl.Expr, *, target: float, k: int) -> pl.Expr:
    """Return the gain per document if the user stops at the target or at rank k."""
    gained = gains.cum_sum()
    # Rounding errors can leave the sum of fractional gains just below the target.
    enough = gained >= target - 1e-9
    stop = pl.when(enough.any()).then((~enough).sum() + 1).otherwise(k)
    return gained.head(stop).max().fill_null(0.0) / stop


def power_of_two(label: pl.Expr) -> pl.Expr:
    """Return 2^label, 1 for labels below 0."""
    return pl.lit(2.0).pow(label.clip(0))


vars(power_of_two)["refuses"] = {
    f"above {_LARGEST_LABEL}, too large for ERR, which uses 2^label; set `max_grade`": (
        lambda label: label > _LARGEST_LABEL
    )
}


def stop_probability(max_grade: float) -> Term:
    """Return (2^label - 1) / 2^max_grade; 0 for an unjudged document."""
    positive("max_grade", max_grade, _LARGEST_LABEL)
    label = LABEL.clip(0, max_grade).fill_null(0.0)
    stops: Term = (2.0**label - 1) / 2.0**max_grade
    return stops


def share_of_grades(max_grade: float, min_grade: float) -> Term:
    """Return the label scaled from [`min_grade`, `max_grade`] to [0, 1]; 0 if it is null."""
    number("max_grade", max_grade)
    number("min_grade", min_grade)
    if max_grade - min_grade < _LEAST_RANGE:
        raise ArgumentError(
            f"must be above `min_grade`; found {max_grade!r} and {min_grade!r}", "max_grade"
        )
    label = LABEL.fill_null(min_grade).clip(min_grade, max_grade)
    return (label - min_grade) / (max_grade - min_grade)


def _reach_probability(onward: pl.Expr) -> pl.Expr:
    """Return the probability of reaching each rank from the probabilities of continuing."""
    return onward.cum_prod().shift(1, fill_value=1.0)


def _nerr(max_grade: float, min_grade: float, weight: Callable[[Any], Any], depth: int) -> Value:
    """Return the expected gain per document if the user stops with probability g at each rank.

    The weight of a rank is the probability of reaching it if all documents have gain 0.
    """
    whole = weight_sum(weight, whole_number("depth", depth))
    grade = share_of_grades(max_grade, min_grade)
    listed = t.in_order(grade, depth), t.in_order(weight(RANK), depth)
    return t.fold(_gain_per_document, *listed, whole=whole)


def _gain_per_document(gains: pl.Expr, weights: pl.Expr, *, whole: float) -> pl.Expr:
    gains, weights = gains.drop_nulls(), weights.drop_nulls()
    seen = weights * _reach_probability(1 - gains)
    # Below the last document, g is 0: only the weights matter.
    beyond = (1 - gains).product() * (whole - weights.sum())
    return (seen * gains).sum() / (seen.sum() + beyond)


def _inverse_square(rank: Any, target: float) -> Any:
    return (2 * target / (rank + 2 * target - 1)) ** 2


def _trigamma(x: pl.Expr) -> pl.Expr:
    """Return the sum of 1 / (x + i)^2 over i >= 0: 12 terms and an asymptotic expansion."""
    terms = pl.sum_horizontal(1 / (x + i) ** 2 for i in range(12))
    y = x + 12
    coefficients = {2: 1 / 2, 3: 1 / 6, 5: -1 / 30, 7: 1 / 42, 9: -1 / 30}
    return terms + 1 / y + pl.sum_horizontal(c / y**n for n, c in coefficients.items())
