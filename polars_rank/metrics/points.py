"""Metrics built on precision at the hits: interpolated precision, 11 points, log AP, yaap, G."""

from __future__ import annotations

from typing import Literal

import polars as pl

from polars_rank.errors import ArgumentError
from polars_rank.metrics.metric import metric, one_of, positive, ratio
from polars_rank.metrics.relevance import average_precision
from polars_rank.ranked import RANK, at_hits, number_relevant, relevant, top

__all__ = [
    "binary_g",
    "eleven_point",
    "interpolated_precision",
    "log_average_precision",
    "yaap",
]

Rounding = Literal["up", "nearest"]


@metric(perfect=1)
def interpolated_precision(
    *, recall: float = 0, rounding: Rounding = "up", rel: float | None = None
) -> pl.Expr:
    r"""Interpolated precision: the best precision at this recall or a higher one.

    $$\mathrm{IPrec}(\rho) = \max \{ hits_i / i : hits_i \ge \lfloor \rho R + 0.9 \rfloor \}$$

    Parameters
    ----------
    recall
        Recall to reach, 0 to 1.
    rounding
        How many hits make up the recall: "up" adds 0.9 and cuts (trec_eval up to version 9),
        "nearest" adds 0.5 and cuts (trec_eval 10).
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; 0 where the recall is not reached, null where no
        document is relevant.

    Raises
    ------
    ArgumentError
        For a `recall` outside 0 to 1, an unknown `rounding`, a `rel` that is not a number.

    References
    ----------
    Harman, Overview of the second Text REtrieval Conference, 1993; trec_eval,
    `iprec_at_recall`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> df.ranking.interpolated_precision(recall=0.9)  # both hits: 2 / 3
    0.6666666666666666
    """
    if isinstance(recall, bool) or not isinstance(recall, (int, float)) or not 0 <= recall <= 1:
        message = f"`recall` must be a number from 0 to 1; found {recall!r}"
        raise ArgumentError(message)
    ranks, hits, wanted = _hits(rel)
    best = (hits / ranks).filter(hits >= _least(recall, wanted, rounding)).max()
    return pl.when(wanted > 0).then(best.fill_null(0.0))


@metric(perfect=1)
def eleven_point(*, rounding: Rounding = "up", rel: float | None = None) -> pl.Expr:
    r"""Eleven-point average: mean interpolated precision at recall 0, 0.1, ..., 1.

    $$\frac{1}{11} \sum_{i=0}^{10} \mathrm{IPrec}(i / 10)$$

    Parameters
    ----------
    rounding
        How many hits make up a recall: "up" or "nearest"; see `interpolated_precision`.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant.

    Raises
    ------
    ArgumentError
        For an unknown `rounding` or a `rel` that is not a number.

    References
    ----------
    Salton & McGill, Introduction to Modern Information Retrieval, 1983; trec_eval,
    `11pt_avg`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [1, 0, 1]})
    >>> round(df.ranking.eleven_point(), 4)  # (6 x 1 + 5 x 2/3) / 11
    0.8485
    """
    ranks, hits, wanted = _hits(rel)
    interpolated = (hits / ranks).cum_max(reverse=True).implode()
    # The hits that make up each recall, from 0; a list with fewer hits has no such element.
    needed = [(_least(i / 10, wanted, rounding).clip(1) - 1).cast(pl.Int64) for i in range(11)]
    points = interpolated.list.gather(pl.concat_list(needed), null_on_oob=True)
    return pl.when(wanted > 0).then(points.list.sum() / 11)


@metric(low=None, high=0, perfect=0, aggregate="geometric")
def log_average_precision(
    k: int | None = None, *, floor: float = 1e-5, rel: float | None = None
) -> pl.Expr:
    r"""Logarithm of AP for each list; over lists, the geometric mean of AP, GMAP.

    $$\ln \max(\mathrm{AP}, floor)$$

    Parameters
    ----------
    k
        Cutoff, at least 1; None for the whole list.
    floor
        The least AP that counts, above 0: one list at 0 must not settle the mean.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64, 0 or less, per list; null where no document is relevant. `evaluate` gives
        the geometric mean of AP; a list that counts as zero counts as the floor.

    Raises
    ------
    ArgumentError
        For a `k` below 1, a `floor` that is not above 0, a `rel` that is not a number.

    References
    ----------
    Robertson, On GMAP: and other transformations, 2006; trec_eval, `gm_map`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> df.ranking.per_query("log_average_precision").item(0, 1)  # ln 0.5
    -0.6931471805599453
    >>> df.ranking.log_average_precision()
    0.5
    """
    positive("floor", floor)
    return average_precision(k, rel=rel).clip(floor).log()


@metric(low=None, high=None)
def yaap(*, rel: float | None = None) -> pl.Expr:
    r"""Yet another average precision: AP stretched to the whole line, as a logit does.

    $$\ln \frac{1 + R \cdot \mathrm{AP}}{1 + R - R \cdot \mathrm{AP}}$$

    Parameters
    ----------
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 per list, of either sign; null where no document is relevant.

    Raises
    ------
    ArgumentError
        For a `rel` that is not a number.

    References
    ----------
    Robertson, On smoothing average precision, 2012; trec_eval, `yaap`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [0, 1]})
    >>> df.ranking.yaap()  # ln(1.5 / 1.5)
    0.0
    """
    wanted = number_relevant(rel)
    found = at_hits(lambda rank, hits: hits / rank, rel=rel).sum()
    return pl.when(wanted > 0).then(((1 + found) / (1 + wanted - found)).log())


@metric(perfect=1)
def binary_g(*, rel: float | None = None) -> pl.Expr:
    r"""Binary G: hits discounted by the documents above them that are not relevant.

    $$\frac{1}{R} \sum_{hits} \frac{1}{\log_2 (2 + rank - hits)}$$

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
    Buckley, trec_eval, `binG`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [4.0, 3.0, 2.0, 1.0], "label": [1, 0, 0, 1]})
    >>> df.ranking.binary_g()  # (1 / log2(2) + 1 / log2(4)) / 2
    0.75
    """

    def term(rank: pl.Expr, hits: pl.Expr) -> pl.Expr:
        return 1 / (2 + rank - hits).cast(pl.Float64).log(2)

    return ratio(at_hits(term, rel=rel).sum(), number_relevant(rel))


def _hits(rel: float | None) -> tuple[pl.Expr, pl.Expr, pl.Expr]:
    """Return the ranks of the hits from the top, their numbers from 1, and R."""
    ranks = top(pl.when(relevant(rel)).then(RANK)).drop_nulls().sort()
    return ranks, ranks.cum_count(), number_relevant(rel)


def _least(recall: float, wanted: pl.Expr, rounding: Rounding) -> pl.Expr:
    one_of("rounding", rounding, ("up", "nearest"))
    return (recall * wanted + (0.9 if rounding == "up" else 0.5)).floor()
