"""What a log holds: rows, lists and their lengths, labels, ties, and what is wrong with rows.

Nothing here raises for bad rows: they are counted. One pass over the log, and lists that stand
together are aggregated one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank.columns import DOC, OWN, Names, framed
from polars_rank.evaluation import Request
from polars_rank.logs.parquet import number_column
from polars_rank.ranking import is_relevant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.columns import Columns, Score

_LIST = OWN + "list"


@framed
def findings(
    frame: pl.LazyFrame,
    *,
    query: Names = "query",
    doc: str | None = DOC,
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    scores: Sequence[str] | None = None,
    by: Names | None = None,
    relevant: float = 1,
) -> pl.LazyFrame:
    """Count what a log holds; rows that `evaluate` would refuse are counted, too.

    Parameters
    ----------
    frame, query, doc, score, label, position, scores, by
        As for `evaluate`.
    relevant
        The lowest label that is relevant.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: a row per group, in sorted order, with the `by` columns and

        - `rows`, `lists`; `shortest`, `median_length`, `mean_length`, `longest`: of lists, in
          rows;
        - `not_retrieved`: rows without a score; `unlabelled`: rows without a label; `unjudged`:
          rows with a score and no label, and their share of the rows with a score,
          `unjudged_share`;
        - `tied_lists`, `tied_documents`: lists in which scores are tied, and documents tied with
          another one of their list, each as a share;
        - `barren_lists`: lists without a relevant document; `unretrieved_lists`: without a score;
        - `repeated`: rows that repeat a document of their list;
        - `null_query`, `null_doc`, `bad_score`, `bad_label`: rows without an id, and with a NaN
          or infinite value.

    Raises
    ------
    SchemaError, ArgumentError
        As for `evaluate`, for columns that are missing or of the wrong type.

    Examples
    --------
    >>> from polars_rank.reporting.findings import findings
    >>> log = pl.DataFrame({
    ...     "query": ["a", "a", "b"], "score": [2.0, 2.0, None], "label": [0, None, 1]
    ... })
    >>> findings(log).select("rows", "lists", "longest", "unjudged_share", "tied_lists")
    shape: (1, 5)
    ┌──────┬───────┬─────────┬────────────────┬────────────┐
    │ rows ┆ lists ┆ longest ┆ unjudged_share ┆ tied_lists │
    │ ---  ┆ ---   ┆ ---     ┆ ---            ┆ ---        │
    │ i64  ┆ i64   ┆ i64     ┆ f64            ┆ f64        │
    ╞══════╪═══════╪═════════╪════════════════╪════════════╡
    │ 3    ┆ 2     ┆ 2       ┆ 0.5            ┆ 0.5        │
    └──────┴───────┴─────────┴────────────────┴────────────┘
    """
    request = Request(
        query=query, doc=doc, score=score, label=label, position=position, scores=scores, by=by
    )
    log, columns = request.columns(frame)
    return found_in(log, columns, relevant, columns.by)


def found_in(
    log: pl.LazyFrame, columns: Columns, relevant: float, groups: Sequence[str]
) -> pl.LazyFrame:
    """Return the findings on a log whose columns are known, by some of its key columns."""
    lists = _by_list(log, columns, relevant, groups)
    sums = [name for name in _SUMS if name in lists.collect_schema()]
    found = [
        *(pl.col(name).cast(pl.Int64).sum() for name in sums),
        pl.len().cast(pl.Int64).alias("lists"),
        pl.col("rows").min().cast(pl.Int64).alias("shortest"),
        pl.col("rows").median().alias("median_length"),
        pl.col("rows").mean().alias("mean_length"),
        pl.col("rows").max().cast(pl.Int64).alias("longest"),
        (pl.col("tied") > 0).mean().alias("tied_lists"),
        (pl.col("hits") == 0).sum().cast(pl.Int64).alias("barren_lists"),
        (pl.col("retrieved") == 0).sum().cast(pl.Int64).alias("unretrieved_lists"),
    ]
    table = lists.group_by(groups).agg(found).sort(groups) if groups else lists.select(found)
    retrieved = pl.when(pl.col("retrieved") > 0).then("retrieved")
    return table.with_columns(
        unjudged_share=pl.col("unjudged") / retrieved,
        tied_documents=pl.col("tied") / retrieved,
    ).select(*groups, *(name for name in _ORDER if name in {*sums, *_DERIVED}))


def label_counts(log: pl.LazyFrame, columns: Columns, groups: Sequence[str]) -> pl.LazyFrame:
    """Return how often each label stands in the log, by group: `label` and `rows`."""
    label = pl.col(columns.label).alias(OWN + "label")
    counted = log.select(*groups, label).group_by([*groups, OWN + "label"]).agg(pl.len())
    return counted.sort([*groups, OWN + "label"], nulls_last=True).select(
        *groups, label=pl.col(OWN + "label"), rows=pl.col("len").cast(pl.Int64)
    )


#: What lists add up to, in the order in which it is told.
_SUMS = (
    *("rows", "retrieved", "not_retrieved", "unlabelled", "unjudged", "tied", "repeated"),
    *("null_query", "null_doc", "bad_score", "bad_label"),
)
_DERIVED = (
    *("lists", "shortest", "median_length", "mean_length", "longest", "unjudged_share"),
    *("tied_lists", "tied_documents", "barren_lists", "unretrieved_lists"),
)
_ORDER = (
    *("rows", "lists", "shortest", "median_length", "mean_length", "longest"),
    *("not_retrieved", "unlabelled", "unjudged", "unjudged_share", "tied_lists", "tied_documents"),
    *("barren_lists", "unretrieved_lists", "repeated"),
    *("null_query", "null_doc", "bad_score", "bad_label"),
)


def _by_list(
    log: pl.LazyFrame, columns: Columns, relevant: float, groups: Sequence[str]
) -> pl.LazyFrame:
    """Return a row for each list with its counts."""
    score, label = columns.number(columns.score), columns.number(columns.label)
    number, keys = number_column(columns.keys), columns.keys
    if number in columns.schema:  # the lists come one by one, numbered
        log = log.with_columns(pl.col(number).struct.field("number").alias(_LIST))
        log, keys = log.set_sorted(_LIST), [_LIST]
    retrieved, labelled = score.is_not_null(), label.is_not_null()
    # A row of nothing but a query stands for a list without documents.
    known = [] if columns.doc is None else [pl.col(columns.doc)]
    row = pl.any_horizontal(
        retrieved, labelled, *(doc.is_not_null() for doc in known), *(() if known else (True,))
    )
    counts = {
        "rows": row,
        "retrieved": retrieved,
        "not_retrieved": row & ~retrieved,
        "unlabelled": row & ~labelled,
        "unjudged": retrieved & ~labelled,
        "tied": retrieved & score.is_duplicated(),
        "hits": is_relevant(label, relevant),
        "null_query": pl.any_horizontal(pl.col(name).is_null() for name in columns.query),
        "bad_score": ~score.cast(pl.Float64).is_finite(),
        "bad_label": ~label.cast(pl.Float64).is_finite(),
    }
    for doc in known:
        counts["null_doc"] = row & doc.is_null()
    return log.group_by(keys, maintain_order=True).agg(
        *(pl.col(name).first() for name in groups if name not in keys),
        *(count.sum().alias(name) for name, count in counts.items()),
        *((doc.count() - doc.drop_nulls().n_unique()).alias("repeated") for doc in known),
    )
