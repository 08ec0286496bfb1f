"""`popularity`: how often each document occurs in a training log."""

from __future__ import annotations

from typing import Literal, TypeAlias

import polars as pl

from polars_rank._params import Names, check_apart, find_columns, free, one_of, share
from polars_rank.catalog.summaries import LONG_TAIL
from polars_rank.evaluation.checks import FAILED, checks_of, failed, raise_failed
from polars_rank.frames.tables import framed_table, schema_of

HeadOf: TypeAlias = Literal["interactions", "documents"]
Crossing: TypeAlias = Literal["head", "tail"]

_ADDED = (
    "users", "interactions", "popularity", "interaction_share", "popularity_rank", LONG_TAIL,
)  # fmt: skip


@framed_table
def popularity(
    frame: pl.LazyFrame,
    *,
    head: float = 0.8,
    head_of: HeadOf = "interactions",
    crossing: Crossing = "head",
    query: Names = "query",
    doc: str = "doc",
) -> pl.LazyFrame:
    r"""Popularity of each document in a training log, and whether it is in the long tail.

    $$\mathrm{popularity}(d) = \frac{|\{u : u \text{ interacted with } d\}|}{|\mathrm{users}|}$$

    Parameters
    ----------
    frame
        The training log, one row per interaction of a user with a document.
    head
        Share of the interactions, or of the documents, that the head has, in (0, 1).
    head_of
        What `head` is a share of: the head is the most popular documents that have this share of
        all "interactions", or that are this share of all "documents".
    crossing
        Part of the document with which the share is exceeded: "head" or "tail".
    query
        Column of the user or the query, or several columns that identify it.
    doc
        Column of the document id.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`, by interactions descending, equal ones by document descending: one row per
        document, with the `doc` column and

        - `users`: the number of users who interacted with it;
        - `interactions`: the number of rows;
        - `popularity`: users / number of all users;
        - `interaction_share`: interactions / number of all rows;
        - `popularity_rank`: 1 for the documents with the most interactions, 2 for those with the
          next lower number, and so on (dense rank);
        - `long_tail`: whether the document is not in the head.

    Raises
    ------
    SchemaError
        If a column is missing.
    DataError
        For null users or documents. A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    The result is the table `items` of `summary`. Documents without an interaction are not in it:
    join it to the catalog, and fill in 0.

    Other tools use other counts. The novelty MIUF is -log2 of `popularity` in RecTools.
    `AvgRecPopularity` of RecTools is a mean of `interactions`, and of `interaction_share` with
    `normalize=True`.

    References
    ----------
    Abdollahpouri, Burke & Mobasher, Managing popularity bias in recommender systems with
    personalized re-ranking, 2019 (long tail).

    Examples
    --------
    >>> train = pl.DataFrame({"user": [1, 1, 2, 3, 3], "item": ["a", "a", "a", "a", "b"]})
    >>> pr.catalog.popularity(train, query="user", doc="item").drop("popularity_rank").rows()
    [('a', 3, 4, 1.0, 0.8, False), ('b', 1, 1, 0.3333333333333333, 0.2, True)]
    """
    share("head", head)
    one_of("head_of", head_of, ("interactions", "documents"))
    one_of("crossing", crossing, ("head", "tail"))
    found = find_columns(schema_of(frame), {"query": query, "doc": doc}, ids=("query", "doc"))
    users = found["query"]
    check_apart("query", users, [doc])
    free([doc], _ADDED, "doc")
    checks = checks_of(
        "row",
        {
            f"column {name!r} (`{parameter}`) has nulls; drop these rows": pl.col(name).is_null()
            for parameter, names in found.items()
            for name in names
        },
    )
    user = pl.col(users[0]) if len(users) == 1 else pl.struct(users)
    counts = (
        frame.select(user.alias("users"), pl.col(doc), failed(checks, "row"))
        .group_by(doc)
        .agg(pl.col("users").n_unique(), pl.len().alias("interactions"), pl.col(FAILED).max())
    )
    everyone = frame.select(user.n_unique().cast(pl.Float64).alias("popularity"))
    count = pl.col("interactions").cast(pl.Int64)
    if head_of == "interactions":
        through, total, size = count.cum_sum(), count.sum(), count
    else:
        through, total, size = pl.int_range(1, pl.len() + 1), pl.len(), pl.lit(1)
    # Rounded, because 0.07 * 100 is a little more than 7.
    limit = (head * total).round(6)
    tail = through - size >= limit if crossing == "head" else through > limit
    return (
        raise_failed(counts, checks, log=frame)
        .join(everyone, how="cross")
        .sort("interactions", doc, descending=True)
        .select(
            doc,
            "users",
            "interactions",
            (pl.col("users") / pl.col("popularity")).alias("popularity"),
            (count / count.sum()).alias("interaction_share"),
            count.rank("dense", descending=True).cast(pl.UInt32).alias("popularity_rank"),
            tail.alias(LONG_TAIL),
        )
    )
