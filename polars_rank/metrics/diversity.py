"""Metrics of diversity: distances between documents, and their distribution over categories.

They read columns of the table instead of the label: embeddings, or categories such as the genre or
the source. A document may have several categories, in a column of lists: each has the same part of
the document.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from polars_rank._params import number, one_of, share
from polars_rank.errors import DataError, SchemaError
from polars_rank.frames.ids import common_value_type
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.beyond_accuracy import of_known
from polars_rank.metrics.expressions import of_lists
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.nodes import Listed
from polars_rank.metrics.vocabulary import RETRIEVED, Value, where

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

__all__ = [
    "calibration", "category_count", "category_entropy", "intra_list_diversity", "max_share",
]  # fmt: skip

_NO_CATEGORY = "no document among the first k has a category"

#: Statistics of the categories of a ranking, given the shares of its documents.
_STATISTICS = {
    "count": pl.len(),
    "entropy": -(pl.col("share") * pl.col("share").log(2)).sum() + 0.0,
    "largest": pl.col("share").max(),
}


@define_metric(
    high=None,
    undefined="fewer than two documents among the first k have features",
    skipped=True,
    order_matters="cutoff",
    expected=False,
)
def intra_list_diversity(
    k: int | None = None,
    *,
    features: str = "embedding",
    distance: Literal["cosine", "euclidean", "jaccard", "category"] = "cosine",
    single: float | None = None,
    unknown: Literal["skip", "null", "error"] = "skip",
) -> Value:
    r"""Intra-list diversity (ILD): mean distance between the first k documents.

    $$\frac{2}{m (m - 1)} \sum_{i=1}^{m} \sum_{j=i+1}^{m} \mathrm{distance}(d_i, d_j)$$

    where d_i are the documents among the first k that have features, and m is their number.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0],
    ...     "embedding": [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]],
    ... })
    >>> df.ranking.intra_list_diversity(2), df.ranking.intra_list_diversity(3)
    (1.0, 0.6666666666666666)

    Parameters
    ----------
    features
        Column of the features of the document: embeddings in arrays or in lists of one length for
        "cosine" and "euclidean", lists of values for "jaccard", one value for "category".
    distance
        Distance between two documents: "cosine" for 1 - cosine similarity (1 if an embedding is 0),
        "euclidean", "jaccard" for 1 - Jaccard similarity, or "category" for 0 if the values are
        equal, otherwise 1.
    single
        Value for a ranking with one document among the first k: null (None), or a number such as 0
        or 1.
    unknown
        Treatment of documents without features: "skip" leaves them out; "null" makes the ranking
        undefined; "error" raises `DataError` in an evaluation, and is null elsewhere.

    Returns
    -------
    Metric
        One Float64 of 0 or more per ranking, at most 2 for "cosine" and at most 1 for "jaccard" and
        "category".

    Notes
    -----
    Time grows with the square of the number of documents: use a cutoff for long rankings.

    References
    ----------
    Smyth & McClave, Similarity vs. diversity, 2001; Ziegler et al., Improving recommendation lists
    through topic diversification, 2005.
    """
    one_of("distance", distance, ("cosine", "euclidean", "jaccard", "category"))
    one_of("unknown", unknown, ("skip", "null", "error"))
    value = _of_values(_mean_distance, _values("features", features, k), features, distance)
    if single is not None:
        value = where(t.num_retrieved(k).equals(1), number("single", single), value)
    if unknown == "skip":
        return value
    column = t.column(features, "features", kind="as is")
    return of_known(value, column, k, required=unknown == "error")


@define_metric(high=None, order_matters="cutoff", expected=False)
def category_count(k: int | None = None, *, category: str = "category") -> Value:
    r"""Category count: number of different categories of the first k documents.

    $$|\lbrace c : q_c \gt 0 \rbrace|$$

    where q_c is the fraction of the first k documents with the category c.

    Returns
    -------
    Metric
        One Float64 per ranking: an integer, 0 or more. Documents without a category are ignored.

    References
    ----------
    Zhang & Hurley, Avoiding monotony, 2008; RePlay, `CategoricalDiversity`, which divides it by k.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "category": ["a", "b", "a"],
    ... })
    >>> df.ranking.category_count(3)
    2.0
    """
    return _of_values(_statistic, _values("category", category, k), "count").fill_null(0.0)


@define_metric(
    high=None, undefined=_NO_CATEGORY, skipped=True, order_matters="cutoff", expected=False
)
def category_entropy(k: int | None = None, *, category: str = "category") -> Value:
    r"""Category entropy: entropy of the categories of the first k, in bits.

    $$-\sum_c q_c \log_2 q_c$$

    where q_c is the fraction of the first k documents with the category c.

    Returns
    -------
    Metric
        One Float64 of 0 or more per ranking. Documents without a category are ignored.

    References
    ----------
    Shannon, A mathematical theory of communication, 1948; Qin & Zhu, Promoting diversity in
    recommendation by entropy regularizer, 2013.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "category": ["a", "a", "b"],
    ... })
    >>> # -2/3 log2(2/3) - 1/3 log2(1/3), and 0 for a single category.
    >>> round(df.ranking.category_entropy(3), 4), df.ranking.category_entropy(2)
    (0.9183, 0.0)
    """
    return _of_values(_statistic, _values("category", category, k), "entropy")


@define_metric(
    undefined=_NO_CATEGORY,
    skipped=True,
    lower_is_better=True,
    order_matters="cutoff",
    expected=False,
)
def max_share(k: int | None = None, *, category: str = "category") -> Value:
    r"""Maximum share: largest fraction of the first k documents from one category.

    $$\max_c q_c$$

    where q_c is the fraction of the first k documents with the category c. With the column of the
    source as the category, this is the crowding of the ranking by one source.

    Returns
    -------
    Metric
        One Float64 in (0, 1] per ranking. Documents without a category are ignored.

    References
    ----------
    Berger & Parker, Diversity of planktonic foraminifera in deep-sea sediments, 1970.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [4.0, 3.0, 2.0, 1.0], "source": [*"aaba"],
    ... })
    >>> df.ranking.max_share(4, category="source")  # 3 of 4 are "a"
    0.75
    """
    return _of_values(_statistic, _values("category", category, k), "largest")


@define_metric(
    high=None,
    undefined=f"{_NO_CATEGORY}, or the history has none",
    skipped=True,
    lower_is_better=True,
    order_matters="cutoff",
    expected=False,
)
def calibration(
    k: int | None = None,
    *,
    category: str = "category",
    history: str = "history_category",
    alpha: float = 0.01,
) -> Value:
    r"""Calibration: divergence of the categories of the first k from the history.

    $$\sum_c p_c \ln \frac{p_c}{(1 - \alpha) q_c + \alpha p_c}$$

    where p_c is the fraction of the documents in the history of the user with the category c, and
    q_c the fraction of the first k documents. This is the Kullback-Leibler divergence with the
    natural logarithm. The smoothing by α keeps it finite if a category is missing.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0], "category": ["a", "b"],
    ...     "history_category": [["a", "a", "a", "b"]] * 2,
    ... })
    >>> # The history is 3/4 "a" and 1/4 "b", and the ranking has one of each.
    >>> round(df.ranking.calibration(2), 4)
    0.1283

    Parameters
    ----------
    category
        Column of the category of the document, or of lists of its categories. Null: ignored.
    history
        Column of lists: the categories of the documents in the history of the user, the same in all
        rows of a ranking.
    alpha
        Weight of p in the smoothed distribution, between 0 and 1.

    Returns
    -------
    Metric
        One Float64 of 0 or more per ranking.

    References
    ----------
    Steck, Calibrated recommendations, 2018.
    """
    share("alpha", alpha)
    listed = _values("category", category, k), _values("history", history, k)
    return t.fold(_calibration, *listed, alpha=alpha)


def _calibration(categories: pl.Expr, histories: pl.Expr, *, alpha: float) -> pl.Expr:
    history = histories.drop_nulls().first()
    both = pl.struct(categories.implode().alias("values"), history.alias("history"))
    return of_lists(_divergence, alpha, lists=both)


def _of_values(function: Callable[..., pl.Series], values: Listed, *arguments: Hashable) -> Value:
    """Return a function of the lists of values of many rankings."""
    return t.fold(_of_implode, values, function=function, arguments=arguments)


def _values(parameter: str, column: str, k: int | None) -> Listed:
    """Return the values of a column for the first k retrieved documents."""
    values = t.column(column, parameter, kind="as is")
    return t.in_any_order(where(RETRIEVED, values)) if k is None else t.in_order(values, k)


def _of_implode(
    values: pl.Expr, *, function: Callable[..., pl.Series], arguments: tuple[Hashable, ...]
) -> pl.Expr:
    return of_lists(function, *arguments, lists=values.implode())


def _documents(lists: pl.Series) -> pl.DataFrame:
    """Return one row per value that is not null, in the order of the rankings."""
    table = pl.DataFrame({"ranking": pl.int_range(len(lists), eager=True), "value": lists})
    return table.explode("value", empty_as_null=True).drop_nulls("value")


def _of_rankings(lists: pl.Series, values: pl.DataFrame) -> pl.Series:
    """Return the column `value` of a table with one row per ranking, null for other rankings."""
    rankings = pl.DataFrame({"ranking": pl.int_range(len(lists), eager=True)})
    joined = rankings.join(values, on="ranking", how="left", maintain_order="left")
    return joined.get_column("value").cast(pl.Float64).alias(lists.name)


def _shares(lists: pl.Series, name: str = "share") -> pl.DataFrame:
    """Return the share of each category in each ranking."""
    documents = _documents(lists)
    weight = pl.lit(1.0)
    if isinstance(documents.schema["value"], (pl.List, pl.Array)):
        documents = (
            documents.with_row_index("document")
            .explode("value", empty_as_null=True)
            .drop_nulls("value")
        )
        weight = 1 / pl.len().over("document")
    return (
        documents.with_columns(weight.alias(name))
        .group_by("ranking", "value", maintain_order=True)
        .agg(pl.col(name).sum())
        .with_columns(pl.col(name) / pl.col(name).sum().over("ranking"))
    )


def _statistic(name: str, lists: pl.Series) -> pl.Series:
    """Return a statistic of the shares of the categories in each ranking."""
    value = _STATISTICS[name].alias("value")
    shares = _shares(lists).group_by("ranking", maintain_order=True).agg(value)
    return _of_rankings(lists, shares)


def _divergence(alpha: float, both: pl.Series) -> pl.Series:
    """Return the divergence of the distribution of categories from that of the history."""
    lists, history = both.struct.field("values"), both.struct.field("history")
    if not isinstance(history.dtype, pl.List):
        raise SchemaError(
            f"`history` must be a column of lists of categories; found {history.dtype}"
        )
    own, past = _shares(lists, "q"), _shares(history, "p")
    types = own.schema["value"], past.schema["value"]
    common = common_value_type(*types)
    if common is None:
        raise SchemaError(
            f"`category` has {types[0]} and `history` has lists of {types[1]}, so no categories "
            "would match; cast one of them"
        )
    own, past = own.cast({"value": common}), past.cast({"value": common})
    part, smooth = pl.col("p"), (1 - alpha) * pl.col("q").fill_null(0.0) + alpha * pl.col("p")
    values = (
        past.join(own.select("ranking").unique(), on="ranking", how="semi")
        .join(own, on=["ranking", "value"], how="left", maintain_order="left")
        .group_by("ranking", maintain_order=True)
        .agg((part * (part / smooth).log()).sum().clip(lower_bound=0.0).alias("value"))
    )
    return _of_rankings(both, values)


def _mean_distance(column: str, distance: str, lists: pl.Series) -> pl.Series:
    """Return the mean distance over the pairs of documents of each ranking.

    The documents of all rankings are compared with their first neighbors, then with their second
    neighbors, and so on, as whole columns. Memory is proportional to the number of documents.
    """
    documents = (
        _documents(lists)
        .with_columns(pl.len().over("ranking").alias("number"))
        .filter(pl.col("number") > 1)
    )
    if documents.is_empty():
        return pl.Series(lists.name, [None] * len(lists), pl.Float64)
    numbers = documents.group_by("ranking", maintain_order=True).agg(pl.col("number").first())
    if distance in ("cosine", "euclidean"):
        documents = _embedded(documents, column, of_ranking=distance == "euclidean")
    elif distance == "jaccard" and not isinstance(documents.schema["value"], pl.List):
        raise SchemaError(f"column {column!r} (`features`) must have lists for distance='jaccard'")
    elif distance == "category" and documents.schema["value"].is_nested():
        raise SchemaError(
            f"column {column!r} (`features`) must have one value for distance='category'"
        )
    sums = []
    for lag in range(1, int(numbers.get_column("number").max())):  # type: ignore[arg-type]
        if 2 * documents.select((pl.col("number") > lag).sum()).item() < documents.height:
            documents = documents.filter(pl.col("number") > lag)
        pairs = pl.concat(
            [documents.head(-lag), documents.slice(lag).select(pl.all().name.suffix(" of other"))],
            how="horizontal",
        )
        same = pl.col("ranking") == pl.col("ranking of other")
        sums.append(
            pairs.select("ranking", _distance(distance).alias("value"), same.alias("same"))
            .filter("same")
            .group_by("ranking")
            .agg(pl.col("value").sum())
        )
    number = pl.col("number").cast(pl.Float64)
    total = pl.concat(sums).group_by("ranking").agg(pl.col("value").sum())
    mean = pl.col("value") / (number * (number - 1) / 2)
    return _of_rankings(lists, numbers.join(total, on="ranking").select("ranking", mean))


def _embedded(documents: pl.DataFrame, column: str, *, of_ranking: bool) -> pl.DataFrame:
    """Return the documents with their embeddings as arrays of Float64, and the norms of these.

    Embeddings are multiples of the column `unit`, a power of 2 that is about the largest number of
    the document or of the ranking, so that squares neither overflow nor underflow.
    """
    dtype = documents.schema["value"]
    parameter = f"column {column!r} (`features`)"
    inner = dtype.inner if isinstance(dtype, (pl.List, pl.Array)) else None
    if inner is None or not inner.is_numeric():
        raise SchemaError(
            f"{parameter} must have arrays or lists of numbers; found {dtype}; set `distance` to "
            "'category' or 'jaccard' to compare other values"
        )
    values = documents.get_column("value")
    if isinstance(dtype, pl.List):
        lengths = values.list.len().unique().sort()
        if len(lengths) > 1:
            raise DataError(
                f"{parameter} has embeddings of different lengths, from {lengths[0]} to "
                f"{lengths[-1]}"
            )
        values = values.list.to_array(int(lengths.sum()))
    width = values.dtype.shape[0]  # type: ignore[attr-defined]
    values = values.cast(pl.Array(pl.Float64, width))
    numbers = values.explode()
    if numbers.null_count() or not numbers.is_finite().all():
        raise DataError(f"{parameter} has null, NaN or infinite numbers in an embedding")
    embedding = pl.col("value")
    largest = pl.max_horizontal(embedding.arr.max(), -embedding.arr.min())
    unit = pl.lit(2.0).pow(largest.log(2).floor())
    unit = pl.when(largest > 0).then(unit).otherwise(1.0).alias("unit")
    return (
        documents.with_columns(values)
        .with_columns(unit.max().over("ranking") if of_ranking else unit)
        .with_columns(embedding / pl.col("unit"))
        .with_columns(embedding.arr.dot(embedding).sqrt().alias("norm"))
    )


def _distance(distance: str) -> pl.Expr:
    """Return the distance between the document and the other document of a pair."""
    one, other = pl.col("value"), pl.col("value of other")
    if distance == "cosine":
        norms = pl.col("norm") * pl.col("norm of other")
        cosine = pl.when(norms > 0).then(one.arr.dot(other) / norms).otherwise(0.0)
        return 1 - cosine.clip(-1.0, 1.0)
    if distance == "euclidean":
        return (one - other).arr.dot(one - other).sqrt() * pl.col("unit")
    if distance == "jaccard":
        union = one.list.set_union(other).list.len()
        common = one.list.set_intersection(other).list.len()
        return pl.when(union > 0).then(1 - common / union).otherwise(0.0)
    return (one != other).cast(pl.Float64)
