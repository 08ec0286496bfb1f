"""`popularity`, computed by hand and in plain Python."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes
from polars.testing import assert_frame_equal

TRAIN = pl.DataFrame({"user": [1, 1, 2, 3, 3, 4], "item": ["a", "a", "b", "b", "c", "c"]})


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_against_plain_python(engine: str) -> None:
    draw = random.Random(1)
    rows = [(draw.randint(1, 30), int(draw.expovariate(0.2))) for _ in range(400)]
    train = pl.LazyFrame(rows, ["query", "doc"], orient="row")
    actual = pr.catalog.popularity(train, head=0.5).collect(engine=engine)
    times = Counter(doc for _, doc in rows)
    users = Counter(doc for _, doc in set(rows))
    everyone = len({user for user, _ in rows})
    levels = sorted({*times.values()}, reverse=True)
    order = sorted(times, key=lambda doc: (times[doc], doc), reverse=True)
    seen = 0
    for row, doc in zip(actual.to_dicts(), order, strict=True):
        assert row == {
            "doc": doc,
            "users": users[doc],
            "interactions": times[doc],
            "share": pytest.approx(users[doc] / everyone),
            "interaction_share": pytest.approx(times[doc] / 400),
            "popularity_rank": levels.index(times[doc]) + 1,
            "long_tail": seen >= 0.5 * 400,
        }
        seen += times[doc]


def test_sorted_logs_are_counted_in_batches(tmp_path: Path) -> None:
    log = pr.datasets.search_log(90, runs=["a", "b"], seed=2).collect()
    for by in ("query", pl.col("query").hash()):
        log.sort(by).write_parquet(tmp_path / "log")
        plan = pr.catalog.popularity(pr.scan_log(tmp_path / "log", run=None))
        # One row per document is sorted and joined with the number of users.
        assert "group-by" not in holding_nodes(plan)
        with pl.Config(streaming_chunk_size=50):
            actual = plan.collect(engine="streaming")
        assert_frame_equal(actual, pr.catalog.popularity(log))


def test_the_head_and_the_tail() -> None:
    for options, tail in (
        ({"head": 2 / 3}, ["a"]),  # c and b have exactly this share
        ({"head": 0.6}, ["a"]),
        ({"head": 0.3, "head_of": "documents"}, ["b", "a"]),
    ):
        actual = pr.catalog.popularity(TRAIN, query="user", doc="item", **options)
        assert actual.filter("long_tail")["item"].to_list() == tail, options


def test_invalid_input() -> None:
    names = {"query": "user", "doc": "item"}
    one_null = TRAIN.with_columns(item=pl.Series([None, *"abbcc"]))
    rows = pr.errors.DataError
    for train, options, error, message in (
        (one_null, names, rows, "1 of 6 rows: column 'item' .`doc`. has nulls"),
        (TRAIN.with_columns(user=None), names, rows, "column 'user' .`query`. has nulls"),
        (TRAIN, {**names, "head": 1}, pr.errors.ArgumentError, "`head`"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            pr.catalog.popularity(train, **options)
