"""Generated logs: shares, determinism, order and size."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest
from plans import holding_nodes
from polars import col
from polars.testing import assert_frame_equal

from polars_rank import datasets
from polars_rank.datasets import search_log
from polars_rank.errors import ArgumentError

LIST = ["run", "query"]


@pytest.fixture(scope="module")
def log() -> pl.DataFrame:
    return search_log(2_000, 20, seed=3).collect()


def share(log: pl.DataFrame, condition: pl.Expr) -> float:
    return float(log.select(condition.mean()).item())


def test_the_same_seed_gives_the_same_log_always() -> None:
    log = search_log(2, (2, 3), runs=1, seed=11).collect()
    assert log.rows() == [
        ("run1", 0, 7738959, 11.5, 3, "DE", 2, True, 16.7),
        ("run1", 0, 1552315, 9.5, 0, "DE", 3, False, None),
        ("run1", 0, 5365662, 12.2353515625, 2, "DE", 1, False, None),
        ("run1", 1, 6398, 8.2333984375, 0, "US", 2, False, None),
        ("run1", 1, 2953703, None, 0, "US", None, None, None),
        ("run1", 1, 5901008, 12.3193359375, 2, "US", 1, False, None),
    ]
    assert not search_log(2, (2, 3), runs=1, seed=8).collect().equals(log)


def test_the_size_of_batches_changes_nothing() -> None:
    expected = search_log(3).collect()
    for rows in (1, 50):
        with pl.Config(streaming_chunk_size=rows):
            assert_frame_equal(search_log(3).collect(engine="in-memory"), expected)
            assert_frame_equal(search_log(3).collect(engine="streaming"), expected)


def test_what_is_read_changes_nothing() -> None:
    lazy, log = search_log(50), search_log(50).collect()
    some = ["dwell", "query", "score"]
    clicked = col("click") & (col("label") == 0)
    assert_frame_equal(lazy.select(some).collect(), log.select(some))
    assert_frame_equal(lazy.filter(clicked).select(some).collect(), log.filter(clicked)[some])
    assert_frame_equal(lazy.head(33).collect(), log.head(33))
    assert_frame_equal(lazy.head(33).filter(clicked).collect(), log.head(33).filter(clicked))
    assert_frame_equal(lazy.tail(5).collect(), log.tail(5))


def test_logs_of_other_arguments_are_the_same_log() -> None:
    log, strings = search_log(30).collect(), search_log(30, string_ids=True).collect()
    assert_frame_equal(search_log(80).filter(col("query") < 30).collect(), log)
    assert_frame_equal(search_log(0).collect(), log.clear())
    assert (strings["query"][0], strings["doc"][0][0]) == ("q0000000000", "d")
    ids = col("query", "doc").str.slice(1).cast(pl.Int64)
    assert_frame_equal(strings.with_columns(ids), log)


def test_rows_are_sorted_and_consistent(log: pl.DataFrame) -> None:
    both = search_log(40, runs=["new", "base"]).collect()
    assert_frame_equal(both.select(LIST), both.select(LIST).sort(LIST))
    assert not both.select(*LIST, "doc").is_duplicated().any()
    labels = log.group_by("query", "doc").agg(col("label").n_unique(), runs=pl.len())
    assert labels["label"].max() == 1 and labels["runs"].unique().to_list() == [2]
    shown, retrieved = col("position").is_not_null(), col("score").is_not_null()
    assert log.filter(~retrieved & col("label").is_null()).is_empty()
    assert log.filter(shown != retrieved).is_empty()
    assert log.filter(shown != col("click").is_not_null()).is_empty()
    falls = (
        log.filter(shown)
        .sort(*LIST, "position")
        .group_by(LIST)
        .agg((col("score").diff() <= 0).all(), (col("position").diff() == 1).all())
    )
    assert falls["score"].all() and falls["position"].all()


def test_shares_are_realistic(log: pl.DataFrame) -> None:
    judged = log.filter(col("label").is_not_null())
    shares = [share(judged, col("label") == grade) for grade in range(5)]
    assert shares == sorted(shares, reverse=True)
    best = log.group_by("query").agg(col("label").max().fill_null(0))
    retrieved = log.filter(col("score").is_not_null())
    for rows, condition, low, high in (
        (judged, col("label") == 0, 0.5, 1),
        (judged, col("label") == 4, 0.005, 0.5),
        (retrieved, col("score").is_duplicated().over(LIST), 0.05, 0.25),
        (log, col("label").is_null(), 0.05, 0.2),
        (log, col("score").is_null(), 0.05, 0.2),
        (best, col("label") == 0, 0.05, 0.2),
    ):
        assert low < share(rows, condition) < high, condition
    assert log["country"].n_unique() == 6
    assert log.group_by("query").agg(col("country").n_unique())["country"].max() == 1


def test_every_run_ranks_better_than_the_one_before() -> None:
    log = search_log(2_000, runs=["c", "a", "b"]).filter(col("label") > 0)
    precision = log.group_by("run").agg((1 / col("position")).fill_null(0).mean())
    quality = dict(precision.collect().rows())
    assert quality["c"] < quality["a"] < quality["b"]


def test_clicks_follow_position_and_label_and_dwell_is_the_time_after(log: pl.DataFrame) -> None:
    def rate(position: int, label: int) -> float:
        return share(log.filter(position=position, label=label), col("click"))

    assert rate(1, 0) < rate(1, 1) < rate(1, 2) < rate(1, 4)
    for label in (0, 1):
        assert rate(4, label) < rate(1, label)
    clicked, others = log.filter("click"), log.filter(~col("click"))
    assert clicked["dwell"].is_between(0.5, 1800).sum() == clicked.height
    assert others["dwell"].null_count() == others.height
    medians = dict(log.group_by("label").agg(col("dwell").median()).rows())
    assert medians[0] < medians[3]


def test_lengths_of_lists_and_names_of_runs() -> None:
    for docs_per_query, shortest, longest, mean in ((20, 1, 39, 20), ((3, 9), 3, 9, 6)):
        log = search_log(3_000, docs_per_query, runs=1).group_by("query").len().collect()["len"]
        assert (log.min(), log.max()) == (shortest, longest)
        assert log.mean() == pytest.approx(mean, rel=0.05)
    runs = {1: ("run1", "run1"), "solo": ("solo", "solo"), ("b", "a"): ("a", "b")}
    for given, expected in {**runs, 10: ("run01", "run10")}.items():
        found = search_log(2, 2, runs=given).collect()["run"]
        assert (found.min(), found.max()) == expected


def test_documents_of_a_ranking_differ_even_in_a_small_catalog(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(datasets, "_CATALOG_SIZES", (11, 41))
    for longest in (10, 40):
        log = search_log(50, (longest, longest)).collect()
        documents = log.group_by("query").agg(col("doc").n_unique(), highest=col("doc").max())
        assert documents["doc"].unique().to_list() == [longest]
        assert documents["highest"].max() == longest  # of 11 or 41 documents, counted from 0


def test_it_streams_to_parquet(tmp_path: Path) -> None:
    search_log(200).sink_parquet(tmp_path / "log.parquet")
    assert_frame_equal(pl.read_parquet(tmp_path / "log.parquet"), search_log(200).collect())
    assert not holding_nodes(search_log(200))


def test_bad_arguments() -> None:
    for arguments, said in (
        ({"queries": -1}, "`queries` must be an integer of at least 0; found -1"),
        ({"queries": 1.5}, "`queries` must be an integer of at least 0; found 1.5"),
        ({"docs_per_query": 0}, "`docs_per_query` must be a positive integer; found 0"),
        ({"docs_per_query": (3, 2)}, "must be an integer of at least 3; found 2"),
        ({"docs_per_query": (1, 2**31)}, "must be at most 1,000,000,000; found 2147483648"),
        ({"docs_per_query": 2.5}, "must be an integer or a pair of integers; found 2.5"),
        ({"runs": 0}, "`runs` must be a positive integer; found 0"),
        ({"runs": []}, "`runs` must be a number of runs or distinct names; found []"),
        ({"runs": ["a", "a"]}, "distinct names; found ['a', 'a']"),
        ({"seed": "x"}, "`seed` must be an integer; found 'x'"),
        ({"seed": True}, "`seed` must be an integer; found True"),
    ):
        with pytest.raises(ArgumentError, match=re.escape(said)):
            search_log(**arguments)
