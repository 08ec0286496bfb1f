"""`exposure`, computed by hand and in plain Python, for all layouts."""

from __future__ import annotations

import math
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest
from catalog.plain import exposures, tops
from plans import holding_nodes
from polars.testing import assert_frame_equal
from strategies import assert_close, log_of, random_lists, shuffled

LOG = pl.DataFrame(
    {
        "query": [1, 1, 1, 2, 2, 3],
        "doc": ["a", "b", "c", "b", "a", None],
        "score": [3.0, 2.0, None, 2.0, 1.0, None],
        "click": [True, False, False, None, True, None],
        "traffic": [2.0, 2.0, 2.0, 0.5, 0.5, 9.0],
    }
)


def test_by_hand() -> None:
    actual = pr.catalog.exposure(LOG, 1, weight="traffic")
    assert actual.columns == ["doc", "impressions", "exposure", "share", "clicks"]
    assert actual.rows() == [("a", 1, 2.0, 0.8, 1), ("b", 1, 0.5, 0.2, 0)]
    actual = pr.catalog.exposure(LOG.drop("click"), discount="reciprocal")
    assert actual.rows() == [("a", 2, 1.5, 0.5), ("b", 2, 1.5, 0.5)]
    assert pr.catalog.exposure(LOG, discount=lambda rank: rank * 0)["share"].to_list() == [None] * 2
    named = LOG.rename({"doc": "item", "click": "opened"})
    assert pr.catalog.exposure(named, doc="item", click="opened")["clicks"].to_list() == [2, 0]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("ties", ["doc", "doc_ascending", "input"])
@pytest.mark.parametrize("ids", [pl.Int64, pl.String])
def test_against_plain_python(engine: str, ties: str, ids: pl.DataType) -> None:
    log = log_of(random_lists(seed=1)).cast({"doc": ids})
    actual = pr.catalog.exposure(log.lazy(), 3, discount="log2", ties=ties).collect(engine=engine)
    truth = exposures(tops(log, 3, ties).values(), lambda rank: 1 / math.log2(rank + 1))
    assert dict(actual.select("doc", "exposure").rows()) == pytest.approx(truth, rel=1e-12)
    assert actual["doc"].is_sorted()
    assert actual["share"].sum() == pytest.approx(1)


def test_layouts_give_one_result(tmp_path: Path) -> None:
    log = log_of(random_lists(seed=2)).with_columns(run=pl.col("query") % 3)
    whole = pr.catalog.exposure(log, 2, by="run")
    assert_close(pr.catalog.exposure(shuffled(log), 2, by="run"), whole)
    parts = [pr.catalog.exposure(log.filter(run=run).drop("run"), 2) for run in range(3)]
    for run, part in enumerate(parts):
        assert_close(part, whole.filter(run=run).drop("run"))
    log.write_parquet(tmp_path / "log.parquet")
    scan = pr.scan_log(tmp_path / "log.parquet")
    assert_close(pr.catalog.exposure(scan, 2).collect(), pr.catalog.exposure(log, 2))
    places = pr.rank(log).filter(pl.col("rank").is_not_null()).drop("score")
    assert_close(pr.catalog.exposure(places, 2, position="rank"), pr.catalog.exposure(log, 2))


def test_sums_of_sorted_logs_need_memory_for_documents_only(tmp_path: Path) -> None:
    log = pr.datasets.search_log(90, runs=["a", "b"], seed=2).collect().sort("run", "query")
    log.write_parquet(tmp_path / "log")
    scan = pr.scan_log(tmp_path / "log", by="run")
    exposure, summary = (
        function(scan, 5, by="run") for function in (pr.catalog.exposure, pr.catalog.summary)
    )
    # The rows of documents are sorted. Shares are of the rows of the result.
    of_run = pr.catalog.exposure(scan.filter(run="a"), 5, query=["run", "query"])
    assert holding_nodes(of_run) == {"sort", "multiplexer"}
    with pl.Config(streaming_chunk_size=50):
        actual = [plan.collect(engine="streaming") for plan in (exposure, summary)]
    assert_frame_equal(actual[0], pr.catalog.exposure(log, 5, by="run"))
    assert_frame_equal(actual[1], pr.catalog.summary(log, 5, by="run"))


def test_invalid_input() -> None:
    with pytest.raises(pr.errors.DataError, match="pr.collapse"):
        pr.catalog.exposure(pl.concat([LOG, LOG]))
    with pytest.raises(pr.errors.DataError, match=r"finite numbers of 0 or more"):
        pr.catalog.exposure(LOG.with_columns(weight=-1), weight="weight")
    with pytest.raises(pr.errors.DataError, match="`query`.* has nulls"):
        pr.catalog.exposure(LOG.with_columns(query=None))
    with pytest.raises(pr.errors.DataError, match="NaN"):
        pr.catalog.exposure(LOG.with_columns(score=float("nan"))[:2])
    with pytest.raises(pr.errors.SchemaError, match="'item' .`doc`. not found"):
        pr.catalog.exposure(LOG, doc="item")
    with pytest.raises(pr.errors.SchemaError, match="'clicked' .`click`. not found"):
        pr.catalog.exposure(LOG, click="clicked")
    for options in ({"k": 0}, {"discount": "log3"}, {"ties": "worst"}):
        with pytest.raises(pr.errors.ArgumentError, match=f"`{[*options][0]}`"):
            pr.catalog.exposure(LOG, **options)
    with pytest.raises(pr.errors.ArgumentError, match="name of a result column"):
        pr.catalog.exposure(LOG.with_columns(share=1), by="share")
