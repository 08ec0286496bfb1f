"""`exposure` of each document in the top k of rankings, and its sum over the parts of a log."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl

from polars_rank._params import Names, free, names
from polars_rank.catalog.top_k import RANK, Rankings
from polars_rank.columns import RUN, Score
from polars_rank.conventions import Ties
from polars_rank.discounts import Discount
from polars_rank.evaluation.ranked import DOC
from polars_rank.frames.engines import Mergeable
from polars_rank.frames.tables import framed, schema_of

#: The columns of the result of `exposure`, besides keys and clicks.
COUNTS = ("impressions", "exposure")


@framed
def exposure(
    frame: pl.LazyFrame,  # noqa: ARG001  (its parts are read)
    k: int | None = 10,
    *,
    discount: Discount | None = None,
    query: Names = "query",
    doc: str = "doc",
    score: Score = "score",
    position: str | None = None,
    click: str = "click",
    weight: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    ties: Ties | None = None,
) -> Mergeable:
    r"""Exposure of each document: the sum of its discounts over rankings.

    $$\mathrm{exposure}(d) = \sum_{q \,:\, \mathrm{rank}_q(d) \le k}
    w_q \cdot \mathrm{discount}(\mathrm{rank}_q(d))$$

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2, 2], "doc": ["a", "b", "a", "c"],
    ...     "score": [2.0, 1.0, 2.0, 1.0],
    ... })
    >>> pr.catalog.exposure(log, 2)
    shape: (3, 4)
    ┌─────┬─────────────┬──────────┬───────┐
    │ doc ┆ impressions ┆ exposure ┆ share │
    │ --- ┆ ---         ┆ ---      ┆ ---   │
    │ str ┆ u32         ┆ f64      ┆ f64   │
    ╞═════╪═════════════╪══════════╪═══════╡
    │ a   ┆ 2           ┆ 2.0      ┆ 0.5   │
    │ b   ┆ 1           ┆ 1.0      ┆ 0.25  │
    │ c   ┆ 1           ┆ 1.0      ┆ 0.25  │
    └─────┴─────────────┴──────────┴───────┘
    >>> pr.catalog.exposure(log, 2, discount="reciprocal").select("doc", "exposure")
    shape: (3, 2)
    ┌─────┬──────────┐
    │ doc ┆ exposure │
    │ --- ┆ ---      │
    │ str ┆ f64      │
    ╞═════╪══════════╡
    │ a   ┆ 2.0      │
    │ b   ┆ 0.5      │
    │ c   ┆ 0.5      │
    └─────┴──────────┘

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking. A document without a score was not
        retrieved. Labels are not needed.
    k
        Cutoff, at least 1; None for whole rankings.
    discount
        Exposure of a document at a rank, by name ("log2", "reciprocal", ...) or as a function;
        see `pr.discounts`. By default 1 at each of the first k ranks.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    score
        Column of the score, higher is better. "-distance" if lower is better, or an expression.
    position
        Column of the position, 1 first; replaces `score`.
    click
        Column of clicks. Default: "click" if the table has it.
    weight
        Column of weights, 0 or more, such as the traffic of the ranking.
    run
        Column of the run. Default: "run" if the table has it.
    by
        Columns to group by.
    ties
        Order of documents with equal scores. "doc" (id descending; default), "doc_ascending" or
        "input".

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`, in the order of its keys: one row per document that is among the first k of
        a ranking, with the `by`, `run` and `doc` columns and

        - `impressions`: the number of rankings that have it among the first k;
        - `exposure`: the sum over these rankings;
        - `share`: its share of the exposure of all documents (in the group);
        - `clicks`: the number of these rankings in which it was clicked, if there are clicks.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        For null queries, NaN or infinite scores, duplicate documents, and invalid weights or
        clicks. A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    Memory is proportional to the number of documents.

    With a Spark DataFrame, the result is a Spark DataFrame, and a single task adds up the exposures
    of all documents.

    References
    ----------
    Singh & Joachims, Fairness of exposure in rankings, 2018.
    """
    add_up = partial(
        _sums, k=k, discount=discount, click=click, weight=weight, query=query, doc=doc,
        score=score, position=position, run=run, by=by, ties=ties,
    )  # fmt: skip
    return Mergeable(names("query", query), add_up, _merge, _finish)


def _sums(
    log: pl.LazyFrame, *, discount: Discount | None, doc: str, **options: Any,
) -> pl.LazyFrame:  # fmt: skip
    """Return the impressions, exposures and clicks of each document."""
    rankings = Rankings.of(log, doc=doc, **options)
    clicks = [rankings.clicks.alias("clicks")] * rankings.has_clicks
    free([*rankings.log.columns.by, doc], [*COUNTS, "share", "clicks"])
    rows, keys = rankings.documents()
    sums = [
        pl.len().alias("impressions"),
        rankings.exposure(discount).sum().alias("exposure"),
        *clicks,
    ]
    by_document = rankings.sums(rows.filter(pl.col(RANK).is_not_null()), keys, sums)
    return by_document.rename({DOC: doc})


def _keys(schema: pl.Schema) -> list[str]:
    """Return the columns of groups and of the document."""
    names = [*schema]
    return names[: names.index(COUNTS[0])]


def _merge(parts: pl.LazyFrame) -> pl.LazyFrame:
    schema = schema_of(parts)
    sums = [name for name in (*COUNTS, "clicks") if name in schema]
    return parts.group_by(_keys(schema)).agg(pl.col(sums).sum())


def _finish(sums: pl.LazyFrame) -> pl.LazyFrame:
    """Return the exposures sorted by their keys, with shares. Shares are null if the total is 0."""
    *groups, doc = _keys(schema_of(sums))
    total = pl.col("exposure").sum()
    total = total.over(groups) if groups else total
    share = pl.when(total > 0).then(pl.col("exposure") / total).alias("share")
    clicks = pl.selectors.by_name("clicks", require_all=False)
    return (
        sums.with_columns(share).sort(*groups, doc).select(*groups, doc, *COUNTS, "share", clicks)
    )
