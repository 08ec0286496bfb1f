"""Large Parquet files that Polars scans are read in order if their rows are sorted."""

from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes

ROWS = 1_000_000


@pytest.fixture(scope="module")
def log() -> pl.DataFrame:
    row = pl.int_range(ROWS)
    return pl.select(
        query=(row // 100).cast(pl.Int32),
        doc=(row % 100).cast(pl.Int32),
        score=(row.hash(1) % 1000).cast(pl.Float32),
        label=(row.hash(2) % 4 == 0).cast(pl.Int8),
    )


@pytest.mark.parametrize("order", ["sorted", "reversed"])
def test_plain_scans(tmp_path: Path, log: pl.DataFrame, order: str) -> None:
    (log if order == "sorted" else log.reverse()).write_parquet(tmp_path / "log")
    scan = pl.scan_parquet(tmp_path / "log")
    plan = pr.evaluate(scan, ["ap", "num_rel"])
    assert "sort" not in holding_nodes(plan)
    known = log.lazy().set_sorted("query")
    expected = pr.evaluate(known, ["ap", "num_rel"]).collect(engine="streaming")
    found = plan.collect(engine="streaming")
    assert found.row(0) == pytest.approx(expected.row(0), rel=1e-12)
    part = pr.per_query(scan.filter(pl.col("query") == 3), "num_rel").collect(engine="streaming")
    assert part["num_rel"].to_list() == [log.filter(query=3)["label"].sum()]
