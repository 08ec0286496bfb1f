"""Random logs for Polars and Spark, and the comparison of results."""

from __future__ import annotations

from typing import Any

import polars as pl
import polars_rank as pr
from polars.testing import assert_frame_equal
from strategies import every_metric, log_of, random_lists, shuffled

RUNS = ("bm25", "neural", "hybrid")


def log() -> pl.DataFrame:
    """Three runs over almost the same queries, unsorted, with nulls, ties and a null group."""
    parts = [
        log_of({q: docs for q, docs in random_lists(seed, 40).items() if q % 13 != seed})
        .with_columns(run=pl.lit(run))
        for seed, run in enumerate(RUNS)
    ]  # fmt: skip
    rows = pl.concat(parts).with_columns(
        country=pl.when(pl.col("query") % 7 != 0).then(pl.format("c{}", pl.col("query") % 3)),
        traffic=(pl.col("query") % 5).cast(pl.Float64),
    )
    return shuffled(rows)


def metrics() -> list[pr.Metric]:
    """Return every metric, with and without a cutoff."""
    return every_metric(3)


def on_spark(spark: Any, frame: pl.DataFrame, partitions: int = 2) -> Any:
    """Return the rows in order, in a number of Spark partitions."""
    numbered = frame.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    made = spark.createDataFrame(numbered.to_arrow(compat_level=pl.CompatLevel.oldest()))
    ordered = made.repartitionByRange(partitions, "row").sortWithinPartitions("row")
    return ordered.drop("row")


def fetched(frame: Any) -> pl.DataFrame:
    return pl.DataFrame(frame.toArrow())


def same(here: pl.DataFrame, there: Any, keys: list[str] | None = None) -> None:
    """Compare a result of one machine with that of Spark: names, and values to 1e-12."""
    found = fetched(there)
    if keys:
        here, found = here.sort(keys), found.sort(keys)
    assert_frame_equal(here, found, check_dtypes=False, rel_tol=1e-12, abs_tol=1e-12)
