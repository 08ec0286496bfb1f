"""What a log holds: rows, lists and their lengths, labels, ties, and what is wrong with rows.

Nothing here raises for bad rows: they are counted. One pass over the log, and lists that stand
together are aggregated one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN
from polars_rank.evaluation.means import ratio
from polars_rank.evaluation.ranking import is_relevant
from polars_rank.frames.tables import number_column_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.columns import Columns

_LIST, _LENGTH = OWN + "list", OWN + "length"


def found_in(
    log: pl.LazyFrame, columns: Columns, rel: float, groups: Sequence[str]
) -> pl.LazyFrame:
    """Count what a log holds, by some of its key columns; rows that are wrong are counted, too.

    Parameters
    ----------
    log, columns
        The log, and its columns.
    rel
        The lowest label that is relevant.
    groups
        Columns of the log that split it.

    Returns
    -------
    LazyFrame
        A row per group, in sorted order, with the columns of `groups` and

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
    """
    rows = by_length(log, columns, rel, groups)
    length, lists, retrieved = (pl.col(name) for name in (_LENGTH, "lists", "retrieved"))
    found = [
        pl.exclude(*groups, _LENGTH).sum(),
        length.min().alias("shortest"),
        length.max().alias("longest"),
        _median(length, lists).alias("median_length"),
    ]
    table = rows.group_by(groups).agg(found).sort(groups) if groups else rows.select(found)
    whole = table.with_columns(
        mean_length=ratio(pl.col("rows"), lists),
        tied_lists=ratio(pl.col("tied_lists"), lists),
        tied_documents=ratio(pl.col("tied"), retrieved),
        unjudged_share=ratio(pl.col("unjudged"), retrieved),
    )
    known = whole.collect_schema()
    return whole.select(*groups, *(name for name in _ORDER if name in known))


def by_length(
    log: pl.LazyFrame, columns: Columns, rel: float, groups: Sequence[str]
) -> pl.LazyFrame:
    """Return what lists of the same length add up to: few rows, whatever the log."""
    lists = _by_list(log, columns, rel, groups)
    sums = [name for name in lists.collect_schema() if name not in {*groups, _LIST, "hits"}]
    counts = {
        "lists": pl.len(),
        "tied_lists": (pl.col("tied") > 0).sum(),
        "barren_lists": (pl.col("hits") == 0).sum(),
        "unretrieved_lists": (pl.col("retrieved") == 0).sum(),
    }
    keys = [*groups, _LENGTH]
    return (
        lists.with_columns(pl.col("rows").cast(pl.Int64).alias(_LENGTH))
        .group_by(keys)
        .agg(
            *(pl.col(name).cast(pl.Int64).sum() for name in sums if name not in columns.keys),
            *(count.cast(pl.Int64).alias(name) for name, count in counts.items()),
        )
        .sort(keys)
    )


def _median(length: pl.Expr, lists: pl.Expr) -> pl.Expr:
    """Return the median of lengths in ascending order, of each of which there are some lists."""
    so_far, whole = lists.cum_sum(), lists.sum()
    middle = [length.filter(so_far >= place).min() for place in ((whole + 1) // 2, whole // 2 + 1)]
    return (middle[0] + middle[1]) / 2


def label_counts(log: pl.LazyFrame, columns: Columns, groups: Sequence[str]) -> pl.LazyFrame:
    """Return how often each label stands in the log, by group: `label` and `rows`."""
    label = pl.col(columns.label).alias(OWN + "label")
    counted = log.select(*groups, label).group_by([*groups, OWN + "label"]).agg(pl.len())
    return counted.sort([*groups, OWN + "label"], nulls_last=True).select(
        *groups, label=pl.col(OWN + "label"), rows=pl.col("len").cast(pl.Int64)
    )


#: The columns in the order in which they stand.
_ORDER = (
    *("rows", "lists", "shortest", "median_length", "mean_length", "longest"),
    *("not_retrieved", "unlabelled", "unjudged", "unjudged_share", "tied_lists", "tied_documents"),
    *("barren_lists", "unretrieved_lists", "repeated"),
    *("null_query", "null_doc", "bad_score", "bad_label"),
)


def _by_list(
    log: pl.LazyFrame, columns: Columns, rel: float, groups: Sequence[str]
) -> pl.LazyFrame:
    """Return a row for each list with its counts."""
    score, label = columns.number(columns.score), columns.number(columns.label)
    number, keys = number_column_in(columns.schema, columns.keys), columns.keys
    if number is not None:  # the lists come one by one, numbered
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
        "hits": is_relevant(label, rel),
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
