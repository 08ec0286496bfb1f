"""Metrics that compare the order of a list with the ideal one: correlations, pairs, Compat."""

from __future__ import annotations

from functools import cache

import polars as pl

from polars_rank.metrics.metric import metric, ratio, share
from polars_rank.ranked import IDEAL_RANK, JUDGED, LABEL, RANK, RETRIEVED, SCORE, relevant

__all__ = ["compat", "kendall_tau_b", "ordered_pair_accuracy", "spearman"]
#: Labels of more values than this are numbered list by list, to need fewer bits.
_MANY_GRADES = 64


@metric(perfect=None)
def compat(*, p: float = 0.95, normalize: bool = True, rel: float | None = None) -> pl.Expr:
    r"""Compatibility: rank-biased overlap of the list with the ideal list.

    $$\mathrm{RBO} \propto \sum_{d=1}^{D} p^{d-1} \frac{|list_{1..d} \cap ideal_{1..d}|}{d}$$

    The ideal list has the relevant documents by label descending, equal labels in the order
    retrieved, those not retrieved last; D is the length of the longer list.

    Parameters
    ----------
    p
        Persistence of the user, between 0 and 1.
    normalize
        Whether the ideal list gets 1: divide by its overlap with itself, at the same depth.
    rel
        The lowest relevant label; None for the threshold of the call.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where no document is relevant.

    Raises
    ------
    ArgumentError
        For a `p` not between 0 and 1 or a `rel` that is not a number.

    References
    ----------
    Clarke, Vtyurina & Smucker, Assessing top-k preferences, 2021; Webber, Moffat & Zobel, A
    similarity measure for indefinite rankings, 2010.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, 2]})
    >>> df.ranking.compat(p=0.5)  # (0 + 1/2 x 2/2) / (1 + 1/2)
    0.3333333333333333
    """
    share("p", p)
    good = relevant(rel)
    wanted = good.sum()
    depth = pl.max_horizontal(RANK.count(), wanted)
    places = pl.int_range(1, pl.len() + 1, dtype=pl.UInt32)
    # What a document in both lists adds: the weights of all depths from where both have it.
    weights = pl.lit(float(p)).pow(places.cast(pl.Float64) - 1) / places
    weights = weights.head(depth).cum_sum(reverse=True)
    both = pl.max_horizontal(RANK, IDEAL_RANK).filter(good & RETRIEVED)
    own = weights.gather(both - 1).sum()
    last = pl.lit(float(p)).pow
    if normalize:
        return pl.when(wanted > 0).then(own / weights.head(wanted).sum())
    return pl.when(wanted > 0).then(own * (1 - p) / (1 - last(depth)))


@metric(low=-1)
def kendall_tau_b() -> pl.Expr:
    r"""Kendall's tau-b: pairs in the order of their labels less those against it.

    $$\tau_b = \frac{C - D}{\sqrt{(n_0 - n_{score})(n_0 - n_{label})}}$$

    over the n documents that are retrieved and judged: C pairs agree, D disagree, n_0 =
    n (n - 1) / 2 in all, n_score and n_label tied in score and in label.

    Returns
    -------
    Metric
        One Float64 in [-1, 1] per list; null where all labels or all scores are the same. The
        `ties` rule of the call plays no part. Takes O(n log g) time for g different labels.

    References
    ----------
    Kendall, The treatment of ties in ranking problems, 1945.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1]})
    >>> df.ranking.kendall_tau_b()  # (2 - 1) / 3
    0.3333333333333333
    """
    return _tau_b()


@metric(perfect=None)
def ordered_pair_accuracy() -> pl.Expr:
    r"""Ordered pair accuracy: the share of pairs of different label in the right order.

    $$\frac{|\{label_a > label_b, score_a > score_b\}|}{|\{label_a > label_b\}|}$$

    over the documents that are retrieved and judged; tied scores are not in the right order.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per list; null where all labels are the same. The `ties` rule of
        the call plays no part. Takes O(n log g) time for g different labels.

    References
    ----------
    Pasumarthi et al., TF-Ranking: scalable TensorFlow library for learning-to-rank, 2019.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1]})
    >>> df.ranking.ordered_pair_accuracy()
    0.6666666666666666
    """
    return _ordered()


@metric(low=-1)
def spearman() -> pl.Expr:
    r"""Spearman's rho: the correlation of the ranks by score and by label.

    $$\rho = \mathrm{corr}(rank_{score}, rank_{label})$$

    over the documents that are retrieved and judged; equal values share their mean rank.

    Returns
    -------
    Metric
        One Float64 in [-1, 1] per list; null where all labels or all scores are the same. The
        `ties` rule of the call plays no part.

    References
    ----------
    Spearman, The proof and measurement of association between two things, 1904.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank
    >>> df = pl.DataFrame({"query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1]})
    >>> df.ranking.spearman()
    0.5
    """
    score, label = (values.filter(RETRIEVED & JUDGED) for values in (SCORE, LABEL))
    return pl.corr(score, label, method="spearman").fill_nan(None)


# Kept, since Polars tells two expressions apart that call the same function.
@cache
def _tau_b() -> pl.Expr:
    by_score, by_label = (pl.col("all") - pl.col(f"tied_{name}") for name in ("score", "label"))
    untied = by_score + by_label - pl.col("all") + pl.col("tied_both")
    return _of_pairs(ratio(2 * pl.col("concordant") - untied, (by_score * by_label).sqrt()))


@cache
def _ordered() -> pl.Expr:
    return _of_pairs(ratio(pl.col("concordant"), pl.col("all") - pl.col("tied_label")))


def _of_pairs(value: pl.Expr) -> pl.Expr:
    """Return a value over the numbers of pairs of the documents both retrieved and judged."""
    documents = pl.struct(SCORE.alias("score"), LABEL.alias("label")).filter(RETRIEVED & JUDGED)

    def of_lists(lists: pl.Series) -> pl.Series:
        return _pairs(lists).select(value.alias(lists.name)).to_series()

    # Documents of many lists at once, not list by list.
    return documents.implode().map_batches(
        of_lists, return_dtype=pl.Float64, is_elementwise=True, returns_scalar=True
    )


def _pairs(lists: pl.Series) -> pl.DataFrame:
    """Return how many pairs each list has: all, tied in score or label, and concordant.

    From the lowest score, and tied scores from the highest label, a label rises from one
    document to a later one only where the score rises, too. Two labels, as numbers, differ
    first in one bit: for each bit, of the documents with the same bits above it, count the
    zeros before each one. That is O(n log g) for g different labels.
    """
    label = pl.col("label").rank("dense").cast(pl.UInt64).alias("grade")
    rows = (
        lists.alias("document")
        .to_frame()
        .with_row_index("list")
        .explode("document", empty_as_null=True)
        .unnest("document")
        .sort("list", "score", "label", descending=[False, False, True])
        .with_columns(label)
    )
    if rows.get_column("grade").n_unique() > _MANY_GRADES:
        rows = rows.with_columns(label.over("list"))
    grade = pl.col("grade")
    concordant = pl.lit(0, dtype=pl.UInt64)
    for bit in range(rows.select(grade.max().fill_null(0)).item().bit_length()):
        one = grade // 2**bit % 2
        zeros = (1 - one).cum_sum().over("list", grade // 2 ** (bit + 1))
        concordant += zeros * one
    n = pl.col("grade").count().cast(pl.Float64)
    tied = {"score": ["score"], "label": ["grade"], "both": ["score", "grade"]}
    return (
        rows.with_columns(
            concordant.alias("concordant"),
            *((pl.len().over("list", *by) - 1).alias(f"tied_{name}") for name, by in tied.items()),
        )
        .group_by("list", maintain_order=True)
        .agg(
            (n * (n - 1) / 2).alias("all"),
            pl.col("concordant").sum().cast(pl.Float64),
            *(pl.col(f"tied_{name}").sum() / 2 for name in tied),
        )
    )
