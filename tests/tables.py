"""Tables in the shape that tests need."""

from __future__ import annotations

import polars as pl


def by_query(values: pl.DataFrame, metric: str, *others: str) -> pl.DataFrame:
    """Return a row per query, with a column of values per run; undefined values count as 0.

    `others` are columns that are constant within a query.
    """
    return values.pivot("run", index=["query", *others], values=metric).fill_null(0)


def with_own_ids(log: pl.DataFrame) -> pl.DataFrame:
    """Return a log in which later copies of a document are unjudged documents of their own.

    The guide has the same code for other keys. The first copy is the one with the highest score, or of equal scores
    the first row.
    """
    copy = pl.col("score").rank("ordinal", descending=True).over("query", "doc").fill_null(1)
    return log.with_columns(
        doc=pl.when(copy > 1).then(pl.format("{} (copy {})", "doc", copy)).otherwise("doc"),
        label=pl.when(copy == 1).then("label"),
    )
