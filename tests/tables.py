"""Tables in the shape that tests need."""

from __future__ import annotations

import polars as pl


def by_query(values: pl.DataFrame, metric: str, *others: str) -> pl.DataFrame:
    """Return a row per query, with a column of values per run; undefined values count as 0.

    `others` are columns that are constant within a query.
    """
    return values.pivot("run", index=["query", *others], values=metric).fill_null(0)
