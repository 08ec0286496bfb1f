"""Rankings and judgments that are sorted by query are joined in batches of queries."""

import warnings
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes
from polars.testing import assert_frame_equal


def test_sorted_tables_are_joined_in_batches(tmp_path: Path) -> None:
    log = pr.datasets.search_log(80, runs=["a"], seed=2).collect()
    half = pl.col("doc").hash(1) % 2 == 0
    rankings = log.filter(half | (pl.col("query") % 5 > 0), pl.col("query") != 7)
    # Some documents and queries are in only one of the tables.
    judgments = log.filter(~half | (pl.col("query") % 3 > 0), pl.col("query") != 8)
    tables = {
        "rankings": rankings.select("query", "doc", "score"),
        "judgments": judgments.select("query", "doc", "label"),
    }
    for name, table in tables.items():
        table.sort("query").write_parquet(tmp_path / name)
    scans = [pr.scan_log(tmp_path / name) for name in tables]
    joined = pr.join_judgments(*scans)
    assert not holding_nodes(joined)
    assert "sort" not in holding_nodes(pr.evaluate(joined, "ap"))  # the result is also sorted
    with pl.Config(streaming_chunk_size=50):
        found = joined.collect(engine="streaming")
    expected = pr.join_judgments(*tables.values()).sort("query", "doc")
    assert_frame_equal(found.sort("query", "doc"), expected)
    assert found["query"].is_sorted()
    other_type = pr.join_judgments(scans[0], scans[1].cast({"query": pl.Int32}))
    assert_frame_equal(other_type.collect().sort("query", "doc"), expected)


def test_runs_in_a_column_with_another_name_are_reported() -> None:
    """Otherwise, runs would lack the judged documents that they did not retrieve."""
    rankings = pl.LazyFrame({
        "model": ["a", "a", "b"], "query": 1, "doc": ["x", "y", "x"], "score": [2.0, 1.0, 1.0],
    })  # fmt: skip
    judgments = pl.LazyFrame({"query": [1, 1], "doc": ["x", "z"], "label": [1, 1]})
    plan = pr.join_judgments(rankings, judgments)
    with pytest.warns(pr.errors.RankWarning, match="`rankings` has .*'model'.*pass run='model'"):
        single = plan.collect()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pr.join_judgments(rankings, judgments, run="model").collect().height == 5
        assert pr.join_judgments(rankings, judgments, by="model").collect().height == 5
        assert_frame_equal(
            pr.join_judgments(rankings, judgments, run=None).collect(),
            single,
            check_row_order=False,
        )
        one = rankings.filter(model="a")
        assert pr.join_judgments(one, judgments).collect()["model"].to_list() == ["a"] * 3
