"""Metrics of novelty, popularity and forbidden documents, from attributes of documents.

They read columns of the table instead of the label: attributes of documents, such as those that
`pr.catalog.popularity` returns, which are joined to the log before the evaluation. A null is a
document whose attribute is unknown, for example because the document is new.
"""

from __future__ import annotations

import math
from typing import Literal, TypeAlias

import polars as pl

from polars_rank._params import one_of, whole_number
from polars_rank.errors import ArgumentError
from polars_rank.metrics import vocabulary as t
from polars_rank.metrics.analyses import columns_read
from polars_rank.metrics.metric import define_metric
from polars_rank.metrics.nodes import term_of
from polars_rank.metrics.vocabulary import RANK, Term, Value, ratio, where

__all__ = [
    "forbidden", "long_tail_share", "novelty", "popularity", "serendipity", "surprisal",
    "unexpectedness", "unseen_share",
]  # fmt: skip

#: What a document without the attribute counts as.
Unknown: TypeAlias = Literal["skip", "zero", "max", "error"]
#: What a sum is divided by: k, or the smaller of k and the number of documents.
Depth: TypeAlias = Literal["k", "retrieved"]

_NONE_RETRIEVED = "no document was retrieved"
_NONE_KNOWN = f"{_NONE_RETRIEVED}, or none of the first k is known and `unknown` is 'skip'"


@define_metric(
    high=None, undefined=_NONE_KNOWN, skipped=True, order_matters="cutoff", expected=False
)
def novelty(
    k: int | None = None,
    *,
    share: str = "share",
    unknown: Unknown = "skip",
    depth: Depth = "retrieved",
    num_users: int | None = None,
) -> Value:
    r"""Novelty: mean self-information of the first k documents in bits.

    $$-\frac{1}{\min(k, n)} \sum_{r=1}^{k} \log_2 p_r$$

    where p_r is the share of the users of the training log who used the document at rank r. Also
    called mean inverse user frequency (MIUF).

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "share": [0.5, 0.125, None],
    ... })
    >>> # (1 bit + 3 bits) / 2, because the last document is unknown.
    >>> df.ranking.novelty(2), df.ranking.novelty(3)
    (2.0, 2.0)

    Parameters
    ----------
    share
        Column of the share of users who used the document, from 0 to 1. Null or 0: unknown.
    unknown
        Treatment of documents with an unknown share: "skip" excludes them from the sum and from the
        divisor; "zero" counts them as 0; "max" counts them as documents of a single user, with
        log2(`num_users`); "error" raises `DataError` in an evaluation, and is null elsewhere.
    num_users
        Number of users of the training log, which `unknown="max"` needs.

    Returns
    -------
    Metric
        One Float64 of 0 or more per ranking.

    References
    ----------
    Zhou et al., Solving the apparent diversity-accuracy dilemma of recommender systems, 2010;
    Castells, Vargas & Wang, Novelty and diversity metrics for recommender systems, 2011.
    """
    largest = 0.0
    if num_users is not None:
        largest = math.log2(whole_number("num_users", num_users))
    elif unknown == "max":
        raise ArgumentError(
            "`unknown='max'` counts unknown documents as documents of a single user; pass the "
            "number of users of the training log, such as novelty(num_users=1000)"
        )
    information = -_share(share).log(2)
    return _mean(information, k, unknown, depth, largest)


@define_metric(undefined=_NONE_KNOWN, skipped=True, order_matters="cutoff", expected=False)
def surprisal(
    k: int | None = None,
    *,
    share: str = "share",
    unknown: Unknown = "skip",
    depth: Depth = "retrieved",
    users: str = "users",
    num_users: int | None = None,
) -> Value:
    r"""Surprisal: mean self-information of the first k documents, from 0 to 1.

    $$-\frac{1}{\min(k, n)} \sum_{r=1}^{k} \frac{\log_2 p_r}{\log_2 U}$$

    where p_r is the share of the users of the training log who used the document at rank r, and U
    is the number of these users. A document of a single user has the surprisal 1.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0], "share": [0.5, 0.125],
    ... })
    >>> df.ranking.surprisal(num_users=8)  # (1 / 3 + 3 / 3) / 2
    0.6666666666666666

    Parameters
    ----------
    share
        Column of the share of users who used the document, from 0 to 1. Null or 0: unknown.
    unknown
        Treatment of documents with an unknown share: "skip" excludes them from the sum and from the
        divisor; "zero" counts them as 0; "max" counts them as 1; "error" raises `DataError` in an
        evaluation, and is null elsewhere.
    users
        Column of the number of users who used the document. It is not read if `num_users` is given.
    num_users
        Number of users of the training log. None: users / share.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Zhou et al., Solving the apparent diversity-accuracy dilemma of recommender systems, 2010;
    RePlay, `Surprisal`.
    """
    some = _share(share)
    if num_users is None:
        total = t.column(users, "users") / some
    else:
        total = term_of(whole_number("num_users", num_users))
    # The only user of a log knows all documents: the quotient would be 0 / 0.
    several = (some < 1) & (total > 1)
    term = where(several, -some.log(2) / total.log(2), where(some.equals(1), 0.0))
    return _mean(term, k, unknown, depth, largest=1.0)


@define_metric(undefined=_NONE_RETRIEVED, skipped=True, order_matters="cutoff")
def unseen_share(k: int | None = None, *, seen: str = "seen", depth: Depth = "retrieved") -> Value:
    r"""Unseen share: fraction of the first k documents that the user has not seen.

    $$\frac{1}{\min(k, n)} \sum_{r=1}^{k} (1 - s_r)$$

    where s_r is 1 if the user has seen the document at rank r, otherwise 0. RePlay calls it
    Novelty.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "seen": [True, False, False],
    ... })
    >>> df.ranking.unseen_share(2)  # one of two
    0.5

    Parameters
    ----------
    seen
        Column of what the user has seen: booleans, or counts of 0 or more. Null: not seen.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Castells, Vargas & Wang, Novelty and diversity metrics for recommender systems, 2011; RePlay,
    `Novelty`.
    """
    unseen = ~(t.column(seen, "seen", kind="count").fill_null(0) > 0)
    return _divided(t.top(unseen, k).count(), k, depth)


@define_metric(undefined=_NONE_RETRIEVED, skipped=True, order_matters="cutoff")
def unexpectedness(
    k: int | None = None, *, expected: str = "expected", depth: Depth = "retrieved"
) -> Value:
    r"""Unexpectedness: fraction of the first k that a baseline does not show.

    $$\frac{1}{\min(k, n)} \sum_{r=1}^{k} (1 - e_r)$$

    where e_r is 1 if the baseline recommends the document at rank r, otherwise 0, or its
    probability to do so.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "expected": [True, False, True],
    ... })
    >>> df.ranking.unexpectedness(2)  # one of two
    0.5

    Parameters
    ----------
    expected
        Column of what a baseline, such as the most popular documents, recommends: booleans, or
        probabilities from 0 to 1. Null: not recommended.
    depth
        Divisor: "retrieved" for the smaller of k and the number of documents, or "k", with which
        missing documents count as unexpected, as in RePlay.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Murakami, Mori & Orihara, Metrics for evaluating the serendipity of recommendation lists, 2007;
    Ge, Delgado-Battenfeld & Jannach, Beyond accuracy, 2010.
    """
    return 1 - _divided(t.top(_expected(expected), k).sum(), k, depth)


@define_metric(undefined=_NONE_RETRIEVED, skipped=True, order_matters="cutoff")
def serendipity(
    k: int | None = None,
    *,
    expected: str = "expected",
    num_items: int | None = None,
    depth: Depth = "retrieved",
    rel: float | None = None,
) -> Value:
    r"""Serendipity: fraction of the first k that is relevant and unexpected.

    $$\frac{1}{\min(k, n)} \sum_{r=1}^{k} \mathrm{relevant}_r \cdot \max(p_r - e_r, 0)$$

    where e_r is 1 if a baseline recommends the document at rank r, otherwise 0, or its probability
    to do so. p_r is 1, or the probability (N + 1 - r) / N if the number N of documents is given.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2.0, 1.0], "label": [1, 1],
    ...     "expected": [True, False],
    ... })
    >>> df.ranking.serendipity(2)  # the second of two
    0.5

    Parameters
    ----------
    expected
        Column of what a baseline, such as the most popular documents, recommends: booleans, or
        probabilities from 0 to 1. Null: not recommended.
    num_items
        Number N of documents in the catalog. With it, and with (N + 1 - i) / N as `expected` of the
        document with the i-th highest popularity, this is the Serendipity of RecTools.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking. Unjudged documents count as not relevant.

    References
    ----------
    Murakami, Mori & Orihara, Metrics for evaluating the serendipity of recommendation lists, 2007;
    Ge, Delgado-Battenfeld & Jannach, Beyond accuracy, 2010.
    """
    relevant = t.relevant(rel).cast(pl.Float64)
    own: Term | float = 1.0
    if num_items is not None:
        size = whole_number("num_items", num_items)
        own = (size + 1 - RANK) / size
    surprising = (own - _expected(expected)).clip(0.0)
    return _divided(t.top(relevant * surprising, k).sum(), k, depth)


@define_metric(
    high=None, undefined=_NONE_KNOWN, skipped=True, lower_is_better=True, order_matters="cutoff"
)
def popularity(
    k: int | None = None,
    *,
    interactions: str = "interactions",
    unknown: Literal["skip", "zero", "error"] = "zero",
    depth: Depth = "retrieved",
) -> Value:
    r"""Popularity (ARP): mean popularity of the first k documents.

    $$\frac{1}{\min(k, n)} \sum_{r=1}^{k} \phi_r$$

    where ϕ_r is the popularity of the document at rank r, such as its number of interactions. Also
    called average recommendation popularity.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "interactions": [40, 10, None],
    ... })
    >>> df.ranking.popularity(2), df.ranking.popularity(2, interactions="score")
    (25.0, 2.5)

    Parameters
    ----------
    interactions
        Column of the number of interactions with the document in the training log, or of another
        measure of popularity of 0 or more, such as its number or share of users. Null: unknown.
    unknown
        Treatment of documents with a null: "zero" counts them as 0, as documents without
        interactions; "skip" excludes them from the sum and from the divisor; "error" raises
        `DataError` in an evaluation, and is null elsewhere.

    Returns
    -------
    Metric
        One Float64 of 0 or more per ranking, in the unit of the column.

    References
    ----------
    Yin et al., Challenging the long tail recommendation, 2012; Abdollahpouri, Burke & Mobasher,
    Managing popularity bias in recommender systems with personalized re-ranking, 2019.
    """
    term = t.column(interactions, "interactions")
    one_of("unknown", unknown, ("skip", "zero", "error"))
    return _mean(term, k, unknown, depth)


@define_metric(undefined=_NONE_KNOWN, skipped=True, order_matters="cutoff", expected=False)
def long_tail_share(
    k: int | None = None,
    *,
    long_tail: str = "long_tail",
    unknown: Unknown = "skip",
    depth: Depth = "retrieved",
) -> Value:
    r"""Long-tail share: fraction of the first k documents in the long tail.

    $$\frac{1}{\min(k, n)} \sum_{r=1}^{k} l_r$$

    where l_r is 1 if the document at rank r belongs to the long tail, otherwise 0. The column says
    how the tail is defined: by a share of interactions or of documents.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [3.0, 2.0, 1.0], "long_tail": [True, False, None],
    ... })
    >>> df.ranking.long_tail_share(3), df.ranking.long_tail_share(2, unknown="max")
    (0.5, 0.5)

    Parameters
    ----------
    long_tail
        Column of booleans: whether the document belongs to the long tail. Null: unknown.
    unknown
        Treatment of documents with a null: "skip" excludes them from the sum and from the divisor;
        "zero" counts them as outside the tail; "max" counts them as in the tail; "error" raises
        `DataError` in an evaluation, and is null elsewhere.

    Returns
    -------
    Metric
        One Float64 in [0, 1] per ranking.

    References
    ----------
    Abdollahpouri, Burke & Mobasher, Managing popularity bias in recommender systems with
    personalized re-ranking, 2019 (average percentage of long-tail items).
    """
    term = t.column(long_tail, "long_tail", high=1)
    return _mean(term, k, unknown, depth, largest=1.0)


@define_metric(binary=True, lower_is_better=True, order_matters="cutoff", expected=False)
def forbidden(k: int | None = None, *, forbidden: str = "forbidden") -> Value:
    r"""Forbidden: 1 if any of the first k documents must not be retrieved, else 0.

    $$\max_{r \le k} f_r$$

    where f_r is 1 if the document at rank r is forbidden for the query, otherwise 0. The mean is
    the share of queries with a forbidden document among the first k.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": [1, 1, 2], "score": [2.0, 1.0, 1.0], "forbidden": [False, True, None],
    ... })
    >>> df.ranking.forbidden(1), df.ranking.forbidden(2)  # that of query 1 has rank 2
    (0.0, 0.5)

    Parameters
    ----------
    forbidden
        Column of booleans: whether the document must not be retrieved for the query, such as one
        that is outdated or of another customer. Null: not forbidden, as of documents that the
        judgments do not have.

    Returns
    -------
    Metric
        0.0 or 1.0 per ranking. A query for which nothing was retrieved counts as 0.

    References
    ----------
    polars_rank; it is the hit rate of forbidden documents.
    """
    marked = t.column(forbidden, "forbidden", high=1).fill_null(0.0) > 0
    return t.top(marked, k).count().clip(high=1)


def _share(column: str) -> Term:
    """Return the share of users of each document, null if it is unknown."""
    share = t.column(column, "share", high=1)
    return where(share > 0, share)


def _expected(column: str) -> Term:
    return t.column(column, "expected", high=1).fill_null(0.0)


def _mean(term: Term, k: int | None, unknown: Unknown, depth: Depth, largest: float = 0.0) -> Value:
    """Return the mean of a term over the first k documents; it is null for unknown documents."""
    one_of("unknown", unknown, ("skip", "zero", "max", "error"))
    total = t.top(term, k).sum()
    if unknown == "skip":
        return _divided(total, k, depth, t.top(~term.is_null(), k).count())
    if unknown == "zero":
        return _divided(total, k, depth)
    absent = t.top(term.is_null(), k).count()
    if unknown == "max":
        return _divided(total + absent * largest, k, depth)
    return of_known(_divided(total, k, depth), term, k, required=True)


def of_known(value: Value, term: Term, k: int | None, *, required: bool) -> Value:
    """Return a value if a term is known for the first k documents; else null, or an error."""
    known = t.top(term.is_null(), k).count().equals(0)
    value = where(known, value)
    if not required:
        return value
    column = columns_read(term)[0]
    problem = (
        f"column {column.name!r} (`{column.parameter}`) has nulls: attributes of documents are "
        "unknown; set `unknown` to another value than 'error', or complete the attributes"
    )
    return t.require(value, known, problem)


def _divided(total: Value, k: int | None, depth: Depth, number: Value | None = None) -> Value:
    """Return a sum divided by the number of documents that count; null if there are none.

    With `depth="k"`, missing documents count, too.
    """
    one_of("depth", depth, ("k", "retrieved"))
    retrieved = t.num_retrieved(k)
    counted = retrieved if number is None else number
    if depth == "k" and k is not None:
        return where(counted > 0, total / (counted + (k - retrieved)))
    return ratio(total, counted)
