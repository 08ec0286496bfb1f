"""`popularity`: how often each document occurs in a training log."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias

import polars as pl

from polars_rank._params import Names, free, one_of, share
from polars_rank.catalog.summaries import LONG_TAIL
from polars_rank.checks import FAILED, checks_of, failed, raise_failed
from polars_rank.columns import Columns
from polars_rank.evaluation.contiguity import Keys
from polars_rank.frames.batches import added_up, by_ranking
from polars_rank.frames.engines import Mergeable
from polars_rank.frames.tables import framed, schema_of

HeadOf: TypeAlias = Literal["interactions", "documents"]

_ADDED = (
    "users", "interactions", "share", "interaction_share", "popularity_rank", LONG_TAIL,
)  # fmt: skip


@framed
def popularity(
    frame: pl.LazyFrame,
    *,
    head: float = 0.8,
    head_of: HeadOf = "interactions",
    query: Names = "query",
    doc: str = "doc",
) -> Mergeable:
    r"""Popularity of each document in a training log, and whether it is in the long tail.

    $$\mathrm{share}(d) = \frac{|\{u : u \text{ interacted with } d\}|}{|\mathrm{users}|}$$

    Examples
    --------
    >>> train = pl.DataFrame({
    ...     "user": [1, 1, 2, 3, 3], "item": ["a", "a", "a", "a", "b"],
    ... })
    >>> popularity = pr.catalog.popularity(train, query="user", doc="item")
    >>> popularity.drop("popularity_rank")
    shape: (2, 6)
    ┌──────┬───────┬──────────────┬──────────┬───────────────────┬───────────┐
    │ item ┆ users ┆ interactions ┆ share    ┆ interaction_share ┆ long_tail │
    │ ---  ┆ ---   ┆ ---          ┆ ---      ┆ ---               ┆ ---       │
    │ str  ┆ u32   ┆ u32          ┆ f64      ┆ f64               ┆ bool      │
    ╞══════╪═══════╪══════════════╪══════════╪═══════════════════╪═══════════╡
    │ a    ┆ 3     ┆ 4            ┆ 1.0      ┆ 0.8               ┆ false     │
    │ b    ┆ 1     ┆ 1            ┆ 0.333333 ┆ 0.2               ┆ true      │
    └──────┴───────┴──────────────┴──────────┴───────────────────┴───────────┘

    Parameters
    ----------
    frame
        The training log, one row per interaction of a user with a document.
    head
        Share of the interactions, or of the documents, in the head, in (0, 1). The document at
        which it is exceeded is in the head.
    head_of
        Unit of `head`. "interactions": the head is the most popular documents that together have
        this share of all interactions. "documents": the head is this share of all documents.
    query
        Column or columns that identify the query: here the user.
    doc
        Column of the document.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per document, sorted by interactions and then by document, both
        descending, with the `doc` column and

        - `users`: the number of users who interacted with it;
        - `interactions`: the number of rows;
        - `share`: share of users, users / number of all users;
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
    `summary` accepts the result as `items`. Documents without interactions are not in the result:
    to add them, join it to the catalog and fill nulls with 0.

    Other tools use other counts. The novelty MIUF is -log2 of `share` in RecTools.
    `AvgRecPopularity` of RecTools is a mean of `interactions`, and of `interaction_share` with
    `normalize=True`.

    References
    ----------
    Abdollahpouri, Burke & Mobasher, Managing popularity bias in recommender systems with
    personalized re-ranking, 2019 (long tail).
    """
    share("head", head)
    one_of("head_of", head_of, ("interactions", "documents"))
    free([doc], _ADDED, "doc")
    users = Columns.find(schema_of(frame), {"query": query, "doc": doc}).query
    finish = partial(_finish, doc=doc, head=head, head_of=head_of)
    return Mergeable(users, partial(_sums, query=users, doc=doc), partial(_merge, doc=doc), finish)


def _sums(log: pl.LazyFrame, query: Sequence[str], doc: str) -> pl.LazyFrame:
    """Return the numbers of users and of interactions of each document.

    The row with a null document has the number of all users. All interactions of a user are in one
    part of the log.
    """
    columns = Columns.find(schema_of(log), {"query": query, "doc": doc})
    checks = checks_of(
        "row",
        {
            f"column {name!r} (`{parameter}`) has nulls; drop these rows": pl.col(name).is_null()
            for name, parameter in columns.parameters.items()
        },
    )
    keys = Keys.of(columns)
    if keys.are_adjacent(log):
        # Distinct pairs of users and documents are counted in batches of complete users.
        rows = keys.rows(log, [pl.col(doc), failed(checks, "row")])
        parts = by_ranking(rows, keys.group, partial(_counts, user=keys.group, doc=doc))
        checked = raise_failed(parts, checks, log=log)
        return added_up(checked, [doc], [pl.col("users", "interactions").sum()])
    rows = log.select(*query, doc, failed(checks, "row"))
    return raise_failed(_counts(rows, user=query, doc=doc), checks, log=log)


def _counts(rows: pl.LazyFrame, user: Sequence[str], doc: str) -> pl.LazyFrame:
    """Return the sums over users whose rows are all in this table."""
    users = (pl.col(user[0]) if len(user) == 1 else pl.struct(user)).n_unique().alias("users")
    interactions = pl.len().alias("interactions")
    counts = rows.group_by(doc).agg(users, interactions, pl.col(FAILED).max())
    all_users = rows.select(
        pl.lit(None, dtype=schema_of(rows)[doc]).alias(doc),
        users,
        pl.lit(0, pl.UInt32).alias("interactions"),
        pl.lit(0, pl.UInt16).alias(FAILED),
    )
    return pl.concat([counts, all_users])


def _merge(parts: pl.LazyFrame, doc: str) -> pl.LazyFrame:
    """Return the sums over several parts."""
    return parts.group_by(doc).agg(pl.col("users", "interactions").sum())


def _finish(sums: pl.LazyFrame, doc: str, head: float, head_of: HeadOf) -> pl.LazyFrame:
    """Return the popularity of each document."""
    is_document = pl.col(doc).is_not_null()
    all_users = sums.filter(~is_document).select(share=pl.col("users").cast(pl.Float64))
    count = pl.col("interactions").cast(pl.Int64)
    if head_of == "interactions":
        through, total, size = count.cum_sum(), count.sum(), count
    else:
        through, total, size = pl.int_range(1, pl.len() + 1), pl.len(), pl.lit(1)
    # Rounded, because 0.07 * 100 is a little more than 7.
    limit = (head * total).round(6)
    return (
        sums.filter(is_document)
        .join(all_users, how="cross")
        .sort("interactions", doc, descending=True)
        .select(
            doc,
            "users",
            "interactions",
            (pl.col("users") / pl.col("share")).alias("share"),
            (count / count.sum()).alias("interaction_share"),
            count.rank("dense", descending=True).cast(pl.UInt32).alias("popularity_rank"),
            (through - size >= limit).alias(LONG_TAIL),
        )
    )
