"""Metrics that compare a ranking with the ideal order: Compat, correlations, ordered pairs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import share
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.expressions import of_lists
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.nodes import Field
from polars_rank.metrics.vocabulary import JUDGED, RANK, RETRIEVED, SCORE, Value, most, where

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["compat", "kendall_tau_b", "ordered_pair_accuracy", "spearman"]

#: The scores and labels of documents, and whether a document has both.
_BOTH = (SCORE, Field("exact_label"), RETRIEVED & JUDGED)

#: Above this number of distinct labels, pairs are counted by the bits of the labels.
_MANY_GRADES = 32
#: The largest number of rows that Polars can index.
_MOST_ROWS = 2**32


@define_metric(undefined="no document is relevant", expected=False)
def compat(*, p: float = 0.95, normalize: bool = True, rel: float | None = None) -> Value:
    r"""Compatibility: rank-biased overlap of the ranking with the ideal ranking.

    $$\mathrm{RBO} \propto \sum_{d=1}^{D} p^{d-1}
    \frac{|\mathrm{ranking}_{1..d} \cap \mathrm{ideal}_{1..d}|}{d}$$

    The ideal ranking holds the relevant documents by label, descending. Documents with equal labels
    keep their order in the ranking; documents that were not retrieved come last. D is the length of
    the longer of the two rankings.

    Examples
    --------
    >>> df = pl.DataFrame({"query": 1, "score": [2.0, 1.0], "label": [1, 2]})
    >>> df.ranking.compat(p=0.5)  # (0 + 1/2 x 2/2) / (1 + 1/2)
    0.3333333333333333

    Parameters
    ----------
    p
        Persistence of the user, in (0, 1). A lower value gives more weight to the top ranks.
    normalize
        Whether to divide by the overlap of the ideal ranking with itself at the same depth, so that
        the ideal ranking scores 1.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Clarke, Vtyurina & Smucker, Assessing top-k preferences, 2021; Webber, Moffat & Zobel, A
    similarity measure for indefinite rankings, 2010.
    """
    share("p", p)
    good = t.relevant(rel)
    listed = t.in_any_order(good), t.in_any_order(RETRIEVED)
    wanted = t.num_relevant(rel)
    own = t.fold(_shared_weight, *listed, t.in_any_order(most(RANK, t.IDEAL_RANK)), p=p)
    if normalize:
        return where(wanted > 0, own / t.fold(_perfect_weight, *listed, p=p))
    return where(wanted > 0, own * (1 - p) / (1 - p ** most(t.num_retrieved(), wanted)))


def _shared_weight(good: pl.Expr, retrieved: pl.Expr, last: pl.Expr, *, p: float) -> pl.Expr:
    """Return the weight of the documents in both rankings, given the lower of their ranks."""
    places = last.filter(good & retrieved).cast(pl.UInt32) - 1
    return _weights(good, retrieved, p).gather(places).sum()


def _perfect_weight(good: pl.Expr, retrieved: pl.Expr, *, p: float) -> pl.Expr:
    return _weights(good, retrieved, p).head(good.sum()).sum()


def _weights(good: pl.Expr, retrieved: pl.Expr, p: float) -> pl.Expr:
    """Return for each place the weights of all depths from there, at which both have a document."""
    places = retrieved.cum_count().cast(pl.Float64)
    depth = pl.max_horizontal(retrieved.sum(), good.sum())
    return (pl.lit(float(p)).pow(places - 1) / places).head(depth).cum_sum(reverse=True)


@define_metric(
    low=-1, skipped=True, undefined="all labels or all scores are equal", order_matters="never"
)
def kendall_tau_b() -> Value:
    r"""Kendall's tau-b: rank correlation between scores and labels.

    $$\tau_b = \frac{C - D}{\sqrt{(n_0 - n_{\mathrm{score}})(n_0 - n_{\mathrm{label}})}}$$

    over the n documents that are retrieved and judged: C is the number of concordant pairs, D the
    number of discordant pairs, $n_0 = n (n - 1) / 2$ the number of all pairs, and
    $n_{\mathrm{score}}$ and $n_{\mathrm{label}}$ are the numbers of pairs tied in score and in
    label.

    Returns
    -------
    Metric
        One Float64 in [-1, 1] per ranking. The computation takes O(n log g) time for g distinct
        labels.

    References
    ----------
    Kendall, The treatment of ties in ranking problems, 1945.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1],
    ... })
    >>> df.ranking.kendall_tau_b()  # (2 - 1) / 3
    0.3333333333333333
    """
    return t.fold(_of_documents, *map(t.in_any_order, _BOTH), value=_tau_b)


@define_metric(skipped=True, undefined="all labels are equal", order_matters="never")
def ordered_pair_accuracy() -> Value:
    r"""Ordered pair accuracy: fraction of document pairs in the order of their labels.

    $$\frac{|\lbrace (a, b) : \mathrm{label}_a \gt \mathrm{label}_b,
    \mathrm{score}_a \gt \mathrm{score}_b \rbrace|}
    {|\lbrace (a, b) : \mathrm{label}_a \gt \mathrm{label}_b \rbrace|}$$

    over the documents that are retrieved and judged. Pairs with equal labels are ignored; pairs
    with equal scores count as wrong.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. The computation takes O(n log g) time for g distinct
        labels.

    References
    ----------
    Pasumarthi et al., TF-Ranking: scalable TensorFlow library for learning-to-rank, 2019.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1],
    ... })
    >>> df.ranking.ordered_pair_accuracy()  # 2 of 3 pairs
    0.6666666666666666
    """
    return t.fold(_of_documents, *map(t.in_any_order, _BOTH), value=_ordered_share)


@define_metric(
    low=-1, skipped=True, undefined="all labels or all scores are equal", order_matters="never"
)
def spearman() -> Value:
    r"""Spearman's rho: correlation between the ranks by score and by label.

    $$\rho = \mathrm{corr}(\mathrm{rank}_{\mathrm{score}}, \mathrm{rank}_{\mathrm{label}})$$

    over the documents that are retrieved and judged. Equal values get their mean rank.

    Returns
    -------
    Metric
        One Float64 in [-1, 1] per ranking.

    References
    ----------
    Spearman, The proof and measurement of association between two things, 1904.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "label": [2, 0, 1],
    ... })
    >>> df.ranking.spearman()  # 1 - 6 x (0 + 1 + 1) / (3 x 8)
    0.5
    """
    return t.fold(_correlation, *map(t.in_any_order, _BOTH))


def _correlation(score: pl.Expr, label: pl.Expr, both: pl.Expr) -> pl.Expr:
    by_score, by_label = (values.filter(both).rank("average") for values in (score, label))
    # `fill_nan` would compute the correlation three times.
    return pl.corr(by_score, by_label).replace(math.nan, None)


def _tau_b(lists: pl.Series) -> pl.Series:
    # C - D, where D = by_score - C - level: pairs with different scores are concordant,
    # discordant, or equal in label.
    excess = 2 * pl.col("concordant") + pl.col("level") - pl.col("by_score")
    return _ratio(lists, excess, (pl.col("by_score") * pl.col("by_label")).sqrt())


def _ordered_share(lists: pl.Series) -> pl.Series:
    return _ratio(lists, pl.col("concordant"), pl.col("by_label"))


def _ratio(lists: pl.Series, part: pl.Expr, whole: pl.Expr) -> pl.Series:
    value = pl.when(whole > 0).then(part / whole)
    return _pairs(lists).select(value.alias(lists.name)).to_series()


def _of_documents(
    score: pl.Expr, label: pl.Expr, both: pl.Expr, *, value: Callable[[pl.Series], pl.Series]
) -> pl.Expr:
    documents = pl.struct(score.alias("score"), label.alias("label")).filter(both)
    return of_lists(value, lists=documents.sort_by(score.filter(both)).implode())


def _pairs(lists: pl.Series) -> pl.DataFrame:
    """Count the document pairs of each ranking; documents are sorted by ascending score.

    `by_score` and `by_label` count the pairs that differ in score and in label, `concordant` the
    pairs that differ in both and in the same direction, and `level` the pairs that differ only
    in score. All are null for a ranking without documents.
    """
    size = lists.list.len()
    end = size.cum_sum()
    rows = (
        pl.DataFrame({"document": lists, "start": end - size, "end": end})
        .explode("document", empty_as_null=False)
        .unnest("document")
        .with_columns(pl.col("start").set_sorted())
    )
    place = pl.int_range(pl.len(), dtype=pl.UInt32)
    new = (pl.col("score") != pl.col("score").shift(1)) | (place == pl.col("start"))
    # The row of the first document with the same score.
    rows = rows.with_columns(pl.when(new).then(place).forward_fill().alias("tie"))
    grades = rows.get_column("label").unique().sort()
    few = len(grades) <= _MANY_GRADES and (len(rows) + 1) * (len(grades) + 1) < _MOST_ROWS
    counted = _by_grade(rows, grades) if few else _by_bits(rows)
    sums = (
        counted.with_columns((pl.col("tie") - pl.col("start")).alias("by_score"))
        .group_by("start", maintain_order=True)
        .agg(
            pl.col(name).cast(pl.Int64).sum().cast(pl.Float64)
            for name in ("concordant", "level", "by_score", "by_label")
        )
    )
    filled = size > 0
    return sums.select(pl.all().gather(pl.when(filled).then(filled.cum_sum() - 1)))


def _by_grade(rows: pl.DataFrame, grades: pl.Series) -> pl.DataFrame:
    """Count the pairs of each document with documents of lower score in O(n g) time.

    g is the number of distinct labels.

    `below` concatenates running counts: for each grade, of the documents with a label below it,
    and finally of all documents. Each document reads the counts at the start of its ranking, at
    the start of its ties, and at the end of its ranking.
    """
    label, block = rows.get_column("label"), len(rows) + 1
    higher = grades[1:]
    zero = pl.zeros(1, dtype=pl.UInt32, eager=True)
    below = pl.concat(
        [
            pl.zeros(block, dtype=pl.UInt32, eager=True),
            *(part for grade in higher for part in (zero, (label < grade).cum_sum())),
            pl.int_range(block, dtype=pl.UInt32, eager=True),
        ],
        rechunk=True,
    )
    own = sum(((label >= grade).cast(pl.UInt32) * block for grade in higher), start=zero)
    first = own + rows.get_column("start")
    ties = own + rows.get_column("tie")
    worse = below.gather(first)
    concordant = below.gather(ties) - worse
    return rows.select(
        "start",
        "tie",
        concordant=concordant,
        level=below.gather(ties + block) - below.gather(first + block) - concordant,
        by_label=below.gather(own + rows.get_column("end")) - worse,
    )


def _by_bits(rows: pl.DataFrame) -> pl.DataFrame:
    """Count the pairs of each document with documents of lower score in O(n log g) time.

    g is the number of distinct labels.

    Documents are sorted by ascending score and, within ties, by descending label. A label is then
    higher than an earlier one only if its score is higher, too. Two different labels, as integers,
    agree in their leading bits up to the first bit that differs. For each bit and each document
    with a 1, the zeros before it are counted among the documents with the same leading bits.
    """
    rows = rows.sort("start", "score", "label", descending=[False, False, True]).with_columns(
        (pl.col("label").rank("dense").over("start") - 1).cast(pl.UInt64).alias("grade")
    )
    grade = pl.col("grade")
    concordant = pl.lit(0, dtype=pl.UInt64)
    for bit in range(rows.select(grade.max()).item().bit_length()):
        one = grade // 2**bit % 2
        concordant += (1 - one).cum_sum().over("start", grade // 2 ** (bit + 1)) * one
    same, tied = (grade.cum_count().over("start", *by, "grade") for by in ((), ("tie",)))
    place = pl.int_range(pl.len(), dtype=pl.UInt32)
    return rows.select(
        "start",
        "tie",
        concordant=concordant,
        level=same - tied,
        by_label=place - pl.col("start") + 1 - same,
    )
