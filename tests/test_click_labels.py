"""Labels from clicks, dwell times and events, row by row."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes
from polars.testing import assert_frame_equal

DWELL = [None, 0.0, 9.9, 10.0, 29.9, 30.0, 120.0, float("nan")]


def labels(columns: dict[str, list[object]], *args: Any, **options: Any) -> pl.LazyFrame:
    return pr.clicks.labels(pl.LazyFrame(columns), *args, **options)


GRADED = {"click": 1, "cart": 2, "purchase": 4}
EVENTS = {"click": [1, 1, 0, 0], "cart": [0, 3, 0, None], "purchase": [False] * 3 + [True]}
VIEWS = {"view": [True, True, False, False], "click": [False, True] * 2}
LABELS: list[tuple[str, dict[str, Any], dict[str, list[object]], list[float | None]]] = [
    ("clicked", {}, {"click": [True, False, None]}, [1, 0, None]),
    ("clicked", {}, {"click": [3, 0, None]}, [1, 0, None]),
    ("clicked", {"click": "bought"}, {"bought": [1.0, 0.0, float("nan")]}, [1, 0, None]),
    ("clicked", {}, {"click": [True, False, True], "position": [1, 2, None]}, [1, 0, None]),
    ("clicked", {"position": "place"}, {"click": [1, 1], "place": [None, 2]}, [None, 1]),
    ("satisfied", {}, {"dwell": DWELL}, [0, 0, 0, 0, 0, 1, 1, 0]),
    ("satisfied", {"seconds": 10}, {"dwell": DWELL}, [0, 0, 0, 1, 1, 1, 1, 0]),
    ("satisfied", {"dwell": "stay"}, {"stay": [31, 29]}, [1, 0]),
    ("satisfied", {}, {"dwell": [40.0, None, None], "position": [1, 2, None]}, [1, 0, None]),
    ("graded", {"grades": GRADED}, EVENTS, [1, 2, 0, 4]),
    # No view, nothing else: not shown.
    ("graded", {"grades": {"view": 0, "click": 1}}, VIEWS, [0, 1, None, 1]),
    ("graded", {"grades": {"hide": -1, "click": 1}}, {"hide": [1, 1, 0], "click": [0, 1, 1]},
     [-1, 1, 1]),
    ("graded", {"grades": {"view": 0, "buy": 4}, "event": "action"},
     {"action": ["view", "buy", "hover", None]}, [0, 4, None, None]),
    ("graded", {"grades": {7: 0, 8: 2}, "event": "e"}, {"e": [7, 8, None]}, [0, 2, None]),
    ("graded", {"grades": {"click": 0.5}}, {"click": [True, False]}, [0.5, 0.0]),
]  # fmt: skip


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_labels(engine: Any) -> None:
    for kind, options, columns, expected in LABELS:
        frame = labels(columns, kind, **options).collect(engine=engine)
        assert frame.columns == [*columns, "label"]
        assert frame["label"].to_list() == expected, (kind, options, columns)
        fractional = any(isinstance(value, float) for value in expected)
        assert frame.schema["label"] == (pl.Float64 if fractional else pl.Int8)
    for dtype in (pl.Categorical, pl.Enum(["view", "click"])):
        log = pl.LazyFrame({"event": ["view", "click", None]}, {"event": dtype})
        plan = pr.clicks.labels(log, "graded", grades={"view": 0, "click": 2}, event="event")
        assert plan.collect(engine=engine)["label"].to_list() == [0, 2, None]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_labels_of_rankings_against_plain_python(engine: Any) -> None:
    log = pr.datasets.search_log(60, 9, runs=3, seed=4).rename({"run": "session"}).collect()
    log = log.drop("label").sample(fraction=1, shuffle=True, seed=3)
    lows: dict[Any, int] = {}
    for row in log.filter("click").iter_rows(named=True):
        ranking = row["query"], row["session"]
        lows[ranking] = max(row["position"], lows.get(ranking, 0))
    table = pr.clicks.labels(log.lazy(), "skip_above", by="session").collect(engine=engine)
    for row in table.iter_rows(named=True):
        place, lowest = row["position"], lows.get((row["query"], row["session"]), 0)
        is_seen = place is not None and place <= lowest
        assert row["label"] == (int(row["click"]) if is_seen else None)
    assert_frame_equal(table.drop("label"), log)  # in the same order


def test_labels_of_sorted_rankings_are_found_in_flat_memory(tmp_path: Path) -> None:
    keys = ["session", "query"]
    log = pr.datasets.search_log(60, 9, runs=3, seed=4).rename({"run": "session"}).drop("label")
    log.sink_parquet(tmp_path / "log.parquet")
    scan = pr.scan_log(tmp_path / "log.parquet", query=keys)
    plan = pr.clicks.labels(scan, "skip_above", query=keys)
    assert not {"group-by", "in-memory-map"} & holding_nodes(plan)


def test_duplicates_raise_errors() -> None:
    log = pl.DataFrame({
        "query": 1, "session": [1, 1, 2, 2], "doc": [1, 2, 3, 4], "position": [1, 2, 1, 2],
        "click": [0, 1, 0, 1],
    })  # fmt: skip
    keys, again = ["query", "session"], log.with_columns(doc=1)
    unshown = again.with_columns(pl.when(pl.col("click") > 0).then("position"))
    message = r"duplicate positions in a ranking; name .* query=\[...\]; in the ranking .*: 1"
    skipped = partial(pr.clicks.labels, kind="skip_above")
    assert skipped(log, query=keys)["label"].to_list() == [0, 1, 0, 1]
    for engine in ("in-memory", "streaming"):
        with pytest.raises(pr.errors.DataError, match=message):
            skipped(log.lazy()).collect(engine=engine)
    with pytest.raises(pr.errors.DataError, match="duplicate documents in a ranking"):
        skipped(again, query=keys)
    assert skipped(unshown, query=keys)["label"].to_list() == [None, 1, None, 1]


FIVE = timedelta(seconds=5)  # its ticks would be 5,000,000
ONE = {"click": [1], "dwell": [1], "query": [1], "doc": [1]}
SHOWN = {"query": [1, 1], "doc": [1, 2], "position": [1, 2], "click": [0, 1]}


def test_errors() -> None:
    argument, schema = pr.errors.ArgumentError, pr.errors.SchemaError
    for columns, kind, options, error, message in (
        (ONE, "graded", {"grades": {}}, argument, "must have at least one grade, all numbers"),
        (ONE, "satisfied", {"seconds": -3}, argument, "`seconds` must be 0 or more seconds"),
        (ONE, "graded", {"grades": {"click": "1"}}, argument, "must have .* grade, all numbers"),
        (ONE, "graded", {"grades": ["click"]}, argument, "`grades` must be a mapping"),
        (ONE, "graded", {}, argument, "`grades` must be a mapping, such as a dict; found None"),
        (ONE, "shown", {}, argument, "`kind` must be one of 'clicked', 'satisfied'"),
        (ONE, "clicked", {"seconds": 3}, argument, "'clicked' have no parameter `seconds`"),
        (ONE, "satisfied", {"click": "it"}, argument, "'satisfied' have no parameter `click`"),
        (ONE, "skip_above", {"event": "it"}, argument, "'skip_above' have no parameter `event`"),
        (ONE | {"label": [1]}, "clicked", {}, schema, "already has a column 'label'"),
        ({"dwell": [FIVE]}, "satisfied", {}, schema, "found Duration.*; convert it to seconds"),
        ({"click": [date(2026, 1, 5)]}, "clicked", {}, schema, "replace it with a test such as"),
    ):
        with pytest.raises(error, match=message):
            labels(columns, kind, **options)  # before anything is collected
    with pytest.raises(pr.errors.DataError, match="column 'click' .* has negative values"):
        pr.clicks.labels(pl.DataFrame(SHOWN).with_columns(click=-1), "skip_above")


COLUMN_IT: list[tuple[Any, dict[str, Any], str]] = [
    ("clicked", {"click": "it"}, "click"),
    ("satisfied", {"dwell": "it"}, "dwell"),
    ("graded", {"grades": {"it": 1}}, "grades"),
]


def test_columns_that_are_not_numeric_or_have_negative_values() -> None:
    values = [FIVE, "5", date(2026, 1, 5), datetime(2026, 1, 5), [5]]  # noqa: DTZ001
    for kind, options, parameter in COLUMN_IT:
        for value in values:
            log = pl.DataFrame({"doc": 1, "it": [value, value]})
            found = log["it"].dtype.base_type()
            message = rf"column 'it' \(`{parameter}`\) must be numeric; found {found}"
            for table in (log, log.lazy(), log.clear()):
                with pytest.raises(pr.errors.SchemaError, match=message):
                    pr.clicks.labels(table, kind, **options).lazy().collect()
        log = pl.DataFrame({"it": [1, -1, None]})
        said = rf"'it' .`{parameter}`. has negative values; use null .*1 of (1 row|[2-9] rows) "
        for table in (log, log.lazy()):
            with pytest.raises(pr.errors.DataError, match=said):
                pr.clicks.labels(table, kind, **options).lazy().collect()


def test_events_that_are_not_text() -> None:
    for value in (1, True, FIVE, 1.5):
        log = pl.DataFrame({"event": [value]})
        found = log["event"].dtype.base_type()
        message = rf"'event' \(`event`\) must have the type .* String; found {found}"
        for table in (log, log.lazy()):
            plan = partial(pr.clicks.labels, table, "graded", grades={"click": 1}, event="event")
            with pytest.raises(pr.errors.SchemaError, match=message):
                plan().lazy().collect()
