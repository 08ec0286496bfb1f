"""`popularity`: how often each document occurs in a training log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import polars as pl

from polars_rank._params import Names, find_columns, free, one_of, share, some_names
from polars_rank.catalog.summaries import LONG_TAIL
from polars_rank.columns import Columns
from polars_rank.evaluation.checks import FAILED, checks_of, failed, raise_failed
from polars_rank.evaluation.contiguity import Keys
from polars_rank.frames.batches import added_up, by_ranking
from polars_rank.frames.engines import Mergeable
from polars_rank.frames.tables import framed_table, schema_of

HeadOf: TypeAlias = Literal["interactions", "documents"]
Crossing: TypeAlias = Literal["head", "tail"]

_ADDED = (
    "users", "interactions", "share", "interaction_share", "popularity_rank", LONG_TAIL,
)  # fmt: skip


@framed_table
def popularity(
    frame: pl.LazyFrame,  # noqa: ARG001  (its parts are read)
    *,
    head: float = 0.8,
    head_of: HeadOf = "interactions",
    crossing: Crossing = "head",
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
        Share of the interactions, or of the documents, in the head, in (0, 1).
    head_of
        Unit of `head`. "interactions": the head is the most popular documents that together have
        this share of all interactions. "documents": the head is this share of all documents.
    crossing
        Whether the document at which the share is exceeded is in the "head" or in the "tail".
    query
        Column of the user or the query, or several columns that identify it.
    doc
        Column of the document id.

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
    parts = Popularity.of(head=head, head_of=head_of, crossing=crossing, query=query, doc=doc)
    return Mergeable(parts.query, parts.add_up, parts.merge, parts.finish)


@dataclass(frozen=True)
class Popularity:
    """The parameters of `popularity`, and its computation from sums over parts of a log.

    All interactions of a user must be in the same part. The sums have one row per document, and one
    row with a null document for the number of users.
    """

    head: float
    head_of: HeadOf
    crossing: Crossing
    query: tuple[str, ...]
    doc: str

    @classmethod
    def of(
        cls, *, head: float, head_of: HeadOf, crossing: Crossing, query: Names, doc: str
    ) -> Popularity:
        """Check the parameters."""
        share("head", head)
        one_of("head_of", head_of, ("interactions", "documents"))
        one_of("crossing", crossing, ("head", "tail"))
        free([doc], _ADDED, "doc")
        return cls(head, head_of, crossing, some_names("query", query), doc)

    def add_up(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return the numbers of users and of interactions of each document, and of all users."""
        roles = {"query": self.query, "doc": self.doc}
        schema = schema_of(frame)
        columns = find_columns(schema, roles, ids=("query", "doc"))
        checks = checks_of(
            "row",
            {
                f"column {name!r} (`{parameter}`) has nulls; drop these rows":
                pl.col(name).is_null()
                for parameter, names in columns.items()
                for name in names
            },
        )  # fmt: skip
        keys = Keys.of(Columns(self.query, (), self.doc, self.doc, self.doc, schema))
        if keys.are_adjacent(frame):
            # Distinct pairs of users and documents are counted in batches of complete users.
            rows = keys.rows(frame, [pl.col(self.doc), failed(checks, "row")])
            parts = by_ranking(rows, keys.group, partial(self._counts, user=keys.group))
            checked = raise_failed(parts, checks, log=frame)
            return added_up(checked, [self.doc], [pl.col("users", "interactions").sum()])
        rows = frame.select(*self.query, self.doc, failed(checks, "row"))
        return raise_failed(self._counts(rows, user=self.query), checks, log=frame)

    def _counts(self, rows: pl.LazyFrame, user: Sequence[str]) -> pl.LazyFrame:
        """Return the sums over users whose rows are all in this table."""
        users = (pl.col(user[0]) if len(user) == 1 else pl.struct(user)).n_unique().alias("users")
        interactions = pl.len().alias("interactions")
        counts = rows.group_by(self.doc).agg(users, interactions, pl.col(FAILED).max())
        all_users = rows.select(
            pl.lit(None, dtype=schema_of(rows)[self.doc]).alias(self.doc),
            users,
            pl.lit(0, pl.UInt32).alias("interactions"),
            pl.lit(0, pl.UInt16).alias(FAILED),
        )
        return pl.concat([counts, all_users])

    def merge(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums of several parts."""
        return parts.group_by(self.doc).agg(pl.col("users", "interactions").sum())

    def finish(self, sums: pl.LazyFrame) -> pl.LazyFrame:
        """Return the popularity of each document."""
        is_document = pl.col(self.doc).is_not_null()
        all_users = sums.filter(~is_document).select(share=pl.col("users").cast(pl.Float64))
        count = pl.col("interactions").cast(pl.Int64)
        if self.head_of == "interactions":
            through, total, size = count.cum_sum(), count.sum(), count
        else:
            through, total, size = pl.int_range(1, pl.len() + 1), pl.len(), pl.lit(1)
        # Rounded, because 0.07 * 100 is a little more than 7.
        limit = (self.head * total).round(6)
        tail = through - size >= limit if self.crossing == "head" else through > limit
        return (
            sums.filter(is_document)
            .join(all_users, how="cross")
            .sort("interactions", self.doc, descending=True)
            .select(
                self.doc,
                "users",
                "interactions",
                (pl.col("users") / pl.col("share")).alias("share"),
                (count / count.sum()).alias("interaction_share"),
                count.rank("dense", descending=True).cast(pl.UInt32).alias("popularity_rank"),
                tail.alias(LONG_TAIL),
            )
        )
