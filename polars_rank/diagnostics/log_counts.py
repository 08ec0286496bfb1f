"""Counts of a log: rows, rankings and their lengths, labels, ties, and invalid rows.

Invalid rows are counted and do not raise. The log is read once. If the rows of each ranking are
adjacent, rankings are aggregated one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN
from polars_rank.columns import Columns, is_relevant
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.frames.tables import number_column

if TYPE_CHECKING:
    from collections.abc import Sequence

_RANKING, _LENGTH = OWN + "ranking", OWN + "length"


def log_counts(
    log: pl.LazyFrame, columns: Columns, rel: float, groups: Sequence[str]
) -> pl.LazyFrame:
    """Count rows, rankings, labels, ties and invalid rows of a log, by group.

    Parameters
    ----------
    log, columns
        The log, and its columns.
    rel
        The lowest relevant label.
    groups
        Columns that split the log.

    Returns
    -------
    LazyFrame
        One row per group, in sorted order, with the columns of `groups`, and

        - `rows`, `rankings`: number of rows and of rankings;
        - `shortest`, `median_length`, `mean_length`, `longest`: lengths of rankings in rows;
        - `not_retrieved`: rows without a score; `unlabelled`: rows without a label; `unjudged`:
          rows with a score and without a label, and `unjudged_share`, their share of the rows with
          a score;
        - `tied_rankings`, `tied_documents`: shares of rankings with ties, and of tied documents;
        - `barren_rankings`: rankings without a relevant document; `unretrieved_rankings`: rankings
          without a score;
        - `repeated`: duplicate documents in a ranking;
        - `null_query`, `null_doc`, `bad_score`, `bad_label`: rows without an id, and with a NaN
          or infinite value.
    """
    rows = by_length(log, columns, rel, groups)
    length, rankings, retrieved = (pl.col(name) for name in (_LENGTH, "rankings", "retrieved"))
    so_far, number = rankings.cum_sum(), rankings.sum()
    middle = [length.filter(so_far >= at).min() for at in ((number + 1) // 2, number // 2 + 1)]
    aggregates = [
        pl.exclude(*groups, _LENGTH).sum(),
        length.min().alias("shortest"),
        length.max().alias("longest"),
        ((middle[0] + middle[1]) / 2).alias("median_length"),
    ]
    whole = grouped(rows, groups, aggregates).with_columns(
        mean_length=ratio(pl.col("rows"), rankings),
        tied_rankings=ratio(pl.col("tied_rankings"), rankings),
        tied_documents=ratio(pl.col("tied"), retrieved),
        unjudged_share=ratio(pl.col("unjudged"), retrieved),
    )
    known = whole.collect_schema()
    return whole.select(*groups, *(name for name in _ORDER if name in known))


def by_length(
    log: pl.LazyFrame, columns: Columns, rel: float, groups: Sequence[str]
) -> pl.LazyFrame:
    """Return counts by the length of rankings."""
    rankings = _by_ranking(log, columns, rel, groups)
    sums = [name for name in rankings.collect_schema() if name not in {*groups, _RANKING, "hits"}]
    counts = {
        "rankings": pl.len(),
        "tied_rankings": (pl.col("tied") > 0).sum(),
        "barren_rankings": (pl.col("hits") == 0).sum(),
        "unretrieved_rankings": (pl.col("retrieved") == 0).sum(),
    }
    keys = [*groups, _LENGTH]
    return (
        rankings.with_columns(pl.col("rows").cast(pl.Int64).alias(_LENGTH))
        .group_by(keys)
        .agg(
            *(pl.col(name).cast(pl.Int64).sum() for name in sums if name not in columns.keys),
            *(count.cast(pl.Int64).alias(name) for name, count in counts.items()),
        )
        .sort(keys)
    )


def label_counts(log: pl.LazyFrame, columns: Columns, groups: Sequence[str]) -> pl.LazyFrame:
    """Return the number of rows with each label, by group: `label` and `rows`."""
    label = pl.col(columns.label).alias(OWN + "label")
    counted = log.select(*groups, label).group_by([*groups, OWN + "label"]).agg(pl.len())
    return counted.sort([*groups, OWN + "label"], nulls_last=True).select(
        *groups, label=pl.col(OWN + "label"), rows=pl.col("len").cast(pl.Int64)
    )


#: Order of the columns.
_ORDER = (
    *("rows", "rankings", "shortest", "median_length", "mean_length", "longest"),
    *("not_retrieved", "unlabelled", "unjudged", "unjudged_share"),
    *("tied_rankings", "tied_documents"),
    *("barren_rankings", "unretrieved_rankings", "repeated"),
    *("null_query", "null_doc", "bad_score", "bad_label"),
)


def _by_ranking(
    log: pl.LazyFrame, columns: Columns, rel: float, groups: Sequence[str]
) -> pl.LazyFrame:
    """Return the counts of each ranking."""
    score, label = columns.number(columns.score), columns.number(columns.label)
    number, keys = number_column(columns.keys), columns.keys
    if number in columns.schema:  # the rows of each ranking are adjacent and numbered
        log = log.with_columns(pl.col(number).struct.field("number").alias(_RANKING))
        log, keys = log.set_sorted(_RANKING), [_RANKING]
    retrieved, labelled = score.is_not_null(), label.is_not_null()
    # A row with only a query represents a ranking without documents.
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
