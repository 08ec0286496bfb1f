"""Sums that are added up batch by batch."""

import polars as pl
import pytest

from polars_rank.errors import DataError

# The number of rows from which totals are merged.
from polars_rank.frames.batches import BATCH_ROWS, added_up


def test_sums_of_many_keys() -> None:
    n = 2 * BATCH_ROWS
    rows = pl.select(key=pl.int_range(3 * n) % n, value=pl.int_range(3 * n) // n).lazy()
    sums = added_up(rows, ["key"], [pl.col("value").sum(), pl.len().alias("rows")])
    # Each key has the values 0, 1 and 2.
    assert (
        sums.sort("key")
        .collect(engine="streaming")
        .equals(pl.DataFrame({"key": range(n), "value": 3, "rows": 3}, {**sums.collect_schema()}))
    )
    assert sums.filter(key=5).select("rows").collect().item() == 3
    assert sums.head(7).collect().height == 7
    assert added_up(rows.head(0), ["key"], [pl.col("value").sum()]).collect().is_empty()


def test_errors_of_rows_are_raised() -> None:
    def fail(_: pl.DataFrame) -> pl.DataFrame:
        raise DataError("invalid")

    rows = pl.LazyFrame({"key": [1]}).map_batches(fail)
    with pytest.raises(DataError, match="invalid"):
        added_up(rows, ["key"], [pl.len().alias("rows")]).collect(engine="streaming")
