"""Preferences from clicks: computed by hand and in plain Python."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

KEYS = ["query", "session"]


@pytest.fixture(scope="module")
def clicks() -> pl.DataFrame:
    log = pr.datasets.click_log(30, 7, sessions=4, shown=5, seed=5)
    return log.with_columns(time=pl.when("click").then((pl.col("doc") * 7) % 60)).collect()


def _pairs(rows: list[dict], winners: list[dict]) -> list[tuple[int, int]]:
    return [
        (winner["doc"], other["doc"])
        for winner in sorted(winners, key=lambda row: row["position"])
        for other in sorted(rows, key=lambda row: row["position"])
        if other["position"] < winner["position"] and not other["click"]
    ]


def _truth(log: pl.DataFrame, last: str | None = None) -> list[tuple[int, int]]:
    actual = []
    for _, rows in groupby(log.to_dicts(), key=lambda row: [row[key] for key in KEYS]):
        shown = [row for row in rows if row["position"] is not None]
        winners = [row for row in shown if row["click"]]
        if last and winners:
            winners = [max(winners, key=lambda row: (row[last], row["position"]))]
        actual += _pairs(shown, winners)
    return actual


def _as_pairs(actual: pl.DataFrame) -> list[tuple[int, int]]:
    assert actual["label"].to_list() == [1, 0] * (actual.height // 2)
    assert actual["pair"].to_list() == [number // 2 for number in range(actual.height)]
    docs = actual["doc"].to_list()
    return list(zip(docs[::2], docs[1::2], strict=True))


def test_against_plain_python(clicks: pl.DataFrame) -> None:
    assert _as_pairs(pr.clicks.preferences(clicks, query=KEYS)) == _truth(clicks) != []
    assert (
        _as_pairs(pr.clicks.preferences(clicks, "last", query=KEYS))
        == _truth(clicks, "position")
        != []
    )
    actual = pr.clicks.preferences(clicks, "last", query=KEYS, time="time")
    assert _as_pairs(actual) == _truth(clicks, "time") != _truth(clicks, "position")


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_lazy_and_rows_in_any_order(clicks: pl.DataFrame, engine: str) -> None:
    mixed = clicks.sample(fraction=1, shuffle=True, seed=1).lazy()
    plan = pr.clicks.preferences(mixed, query=KEYS)
    assert isinstance(plan, pl.LazyFrame)
    assert_frame_equal(plan.collect(engine=engine), pr.clicks.preferences(clicks, query=KEYS))


def test_share_of_preferences_that_a_ranker_agrees_with(clicks: pl.DataFrame) -> None:
    pairs = pr.clicks.preferences(clicks, query=KEYS)
    ranker = clicks.select(*KEYS, "doc", score="new")
    lists = pairs.join(ranker, on=[*KEYS, "doc"], maintain_order="left")
    scores = lists["score"].to_list()
    agreed = sum(a > b for a, b in zip(scores[::2], scores[1::2], strict=True))
    mean = pr.evaluate(lists, "pair_accuracy", query="pair")
    assert mean.row(0) == (len(scores) // 2, pytest.approx(2 * agreed / len(scores)))
    shown = clicks.select(*KEYS, "doc", score=-pl.col("position").cast(pl.Float64))
    against = pairs.join(shown, on=[*KEYS, "doc"])
    assert pr.evaluate(against, "pair_accuracy", query="pair").item(0, 1) == 0.0


def test_streams_without_falling_back_to_memory(clicks: pl.DataFrame, tmp_path: Path) -> None:
    clicks.write_parquet(tmp_path / "log.parquet")
    log = pr.scan_log(tmp_path / "log.parquet", query=KEYS)
    nodes = pr.clicks.preferences(log, query=KEYS).show_graph(
        engine="streaming", plan_stage="physical", raw_output=True, show=False
    )
    assert "sorted-group-by" in nodes
    assert "in-memory-map" not in nodes


def test_nothing_was_clicked(clicks: pl.DataFrame) -> None:
    actual = pr.clicks.preferences(clicks.with_columns(click=False), query=KEYS)
    assert actual.is_empty()
    assert actual.columns == [*KEYS, "pair", "doc", "label"]


def test_errors(clicks: pl.DataFrame) -> None:
    with pytest.raises(pr.errors.SchemaError, match="column 'when' .`time`. not found"):
        pr.clicks.preferences(clicks, "last", time="when")
    with pytest.raises(pr.errors.ArgumentError, match="'pair' .*has the name of a result column"):
        pr.clicks.preferences(clicks.rename({"session": "pair"}), query=["query", "pair"])
    with pytest.raises(pr.errors.ArgumentError, match="`doc` must be the name of a column"):
        pr.clicks.preferences(clicks, query=KEYS, doc=None)  # type: ignore[arg-type]
    with pytest.raises(pr.errors.ArgumentError, match="`time` is for preferences of kind 'last'"):
        pr.clicks.preferences(clicks, query=KEYS, time="time")
    for value in ("12", [1]):
        with pytest.raises(
            pr.errors.SchemaError, match=r"\(`time`\) must be numeric or temporal; found"
        ):
            pr.clicks.preferences(
                clicks.with_columns(time=pl.lit(value)), "last", query=KEYS, time="time"
            )
    with pytest.raises(pr.errors.DataError, match="column 'click' .* has negative values"):
        pr.clicks.preferences(clicks.with_columns(click=-1), query=KEYS)
    with pytest.raises(pr.errors.SchemaError, match="'click' .*must be numeric; found Duration"):
        pr.clicks.preferences(clicks.lazy().with_columns(click=pl.duration(seconds=1)), query=KEYS)


@pytest.mark.parametrize("kind", ["skip_above", "last"])
def test_duplicates_raise_errors(kind: Any, clicks: pl.DataFrame) -> None:
    function = partial(pr.clicks.preferences, kind=kind)
    log = pl.DataFrame({
        "query": 1, "session": [1, 1, 2, 2], "doc": [1, 2, 3, 4], "position": [1, 2, 1, 2],
        "click": [0, 1, 0, 1],
    })  # fmt: skip
    assert function(log, query=KEYS)["doc"].to_list() == [2, 1, 4, 3]
    message = (
        r"duplicate positions in a ranking; name .* query=\[...\]; in the ranking .*'query': 1"
    )
    with pytest.raises(pr.errors.DataError, match=message):
        function(log)
    with pytest.raises(pr.errors.DataError, match=message):
        function(log.lazy()).collect(engine="streaming")
    again = log.with_columns(doc=1)  # which would be preferred over itself
    with pytest.raises(pr.errors.DataError, match="duplicate documents in a ranking"):
        function(again, query=KEYS)
    unshown = again.with_columns(pl.when(pl.col("click") > 0).then("position"))
    assert function(unshown, query=KEYS).is_empty()
