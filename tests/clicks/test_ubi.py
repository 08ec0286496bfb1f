"""User Behavior Insights: the two indexes in all formats."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

Rows = list[dict[str, Any]]

QUERIES: Rows = [
    {
        "query_id": "q1",
        "client_id": "c1",
        "user_query": "laptop",
        "timestamp": "2025-01-01T10:00:00Z",
        "query_response_hit_ids": ["A", "B", "C"],
        "query_attributes": {"experiment": "x"},
    },
    {  # nobody did anything
        "query_id": "q2",
        "client_id": "c2",
        "user_query": "desk",
        "timestamp": "2025-01-01T10:01:00+00:00",
        "query_response_hit_ids": ["D"],
    },
    {  # nothing was found
        "query_id": "q3",
        "client_id": "c2",
        "user_query": "dsek",
        "timestamp": "2025-01-01T10:02:00.000Z",
        "query_response_hit_ids": [],
    },
]


def event(action: str, at: str, doc: Any = None, place: int | None = None, **more: Any) -> dict:
    attributes: dict[str, Any] = {"position": {"ordinal": place, "x": 3}, "browser": "Firefox"}
    if doc is not None:
        attributes["object"] = {"object_id": doc, "object_id_field": "sku"}
    return {
        "action_name": action,
        "query_id": "q1",
        "client_id": "c1",
        "timestamp": at,
        "event_attributes": attributes,
        **more,
    }


EVENTS: Rows = [
    event("on_search", "2025-01-01T10:00:00.500Z"),
    event("click", "2025-01-01T10:00:05Z", "B", 2),
    event("click", "2025-01-01T10:00:15Z", "B", 2),
    event("add_to_cart", "2025-01-01T11:01:15+01:00", "B", 2),
    event("click", "2025-01-01T10:01:15Z", "X", 12),  # from another page of results
    event("click", "2025-01-01T10:02:00Z", "C", 3, query_id=None),
    event("hover", "2025-01-01T10:03:00", "D", 1, query_id="q2", client_id="c2"),
    event("click", "2025-01-01T10:04:00Z", "E", 1, query_id="q9", client_id="c9"),
]

ABOUT_Q1 = (datetime(2025, 1, 1, 10, tzinfo=UTC), "laptop")
#: query, doc, position, click, dwell, time, timestamp, user_query, bought
LOG = [
    ("q1", "A", 1, False, None, None, *ABOUT_Q1, False),
    ("q1", "B", 2, True, 60.0, 5.0, *ABOUT_Q1, True),  # 10 s and 60 s
    ("q1", "C", 3, False, None, None, *ABOUT_Q1, False),  # of a click nobody knows in which list
    ("q1", "X", 12, True, 45.0, 75.0, *ABOUT_Q1, False),
    ("q2", "D", 1, False, None, None, datetime(2025, 1, 1, 10, 1, tzinfo=UTC), "desk", False),
    ("q9", "E", 1, True, None, 0.0, datetime(2025, 1, 1, 10, 4, tzinfo=UTC), None, False),
]


def log_of(events: Any, queries: Any) -> pl.LazyFrame:
    return pr.clicks.scan_ubi(events, queries, actions="add_to_cart")


def rows_of(plan: pl.LazyFrame, engine: str = "streaming") -> list[tuple]:
    actual = plan.sort("query", "position", "doc").collect(engine=engine)
    assert actual.schema == plan.sort("query", "position").collect_schema()
    return actual.drop("session_id", "client_id").rows()


def as_ndjson(rows: Rows, path: Path, *, wrapped: bool = False) -> Path:
    lines = ({"_index": "ubi", "_source": row} if wrapped else row for row in rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in lines), "utf-8")
    return path


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("wrapped", [False, True])
def test_ndjson(tmp_path: Path, engine: str, *, wrapped: bool) -> None:
    events = as_ndjson(EVENTS, tmp_path / "events.ndjson", wrapped=wrapped)
    queries = as_ndjson(QUERIES, tmp_path / "queries.jsonl", wrapped=wrapped)
    assert rows_of(log_of(events, queries), engine) == LOG
    assert rows_of(log_of(queries, events), engine) == LOG
    half = [as_ndjson(EVENTS[:4], tmp_path / "1.json"), as_ndjson(EVENTS[4:], tmp_path / "2.json")]
    assert rows_of(log_of(half, str(tmp_path / "quer*")), engine) == LOG


def test_tables_and_parquet(tmp_path: Path) -> None:
    tables = [pl.DataFrame(rows, infer_schema_length=None) for rows in (EVENTS, QUERIES)]
    assert rows_of(log_of(*tables)) == LOG
    paths = [tmp_path / "events.parquet", tmp_path / "queries.parquet"]
    for table, path in zip(tables, paths, strict=True):
        table.write_parquet(path)
    assert rows_of(log_of(*paths)) == LOG
    assert rows_of(log_of(tables[0].to_arrow(), paths[1])) == LOG


def test_without_nesting() -> None:
    attributes = pl.col("event_attributes").struct
    flat = pl.DataFrame(EVENTS, infer_schema_length=None).select(
        pl.exclude("event_attributes"),
        attributes.field("object").struct.field("object_id"),
        attributes.field("position").struct.field("ordinal").alias("position.ordinal"),
    )
    assert rows_of(log_of(flat, pl.DataFrame(QUERIES))) == LOG


TIMES: list[Callable[[pl.Expr], pl.Expr]] = [
    lambda time: time,
    lambda time: time.dt.replace_time_zone(None),
    lambda time: time.dt.convert_time_zone("America/Sao_Paulo").dt.cast_time_unit("ms"),
    lambda time: time.dt.epoch("ms"),
    lambda time: time.dt.epoch("ms").cast(pl.String),
    lambda time: time.dt.strftime("%Y-%m-%d %H:%M:%S%.f"),
]


@pytest.mark.parametrize("form", TIMES)
def test_forms_of_time(form: Callable[[pl.Expr], pl.Expr]) -> None:
    texts = pl.col("timestamp").str.to_datetime("%+", time_zone="UTC", strict=False)
    local = pl.col("timestamp").str.to_datetime("%FT%T", strict=False)
    moment = pl.coalesce(texts, local.dt.replace_time_zone("UTC"))
    tables = [
        pl.DataFrame(rows, infer_schema_length=None).with_columns(timestamp=form(moment))
        for rows in (EVENTS, QUERIES)
    ]
    assert rows_of(log_of(*tables)) == LOG


def test_events_alone() -> None:
    actual = pr.clicks.scan_ubi(pl.DataFrame(EVENTS, infer_schema_length=None)).sort(
        "query", "position"
    )
    rows = actual.select("query", "doc", "position", "click", "dwell", "time").collect().rows()
    assert rows == [
        ("q1", "B", 2, True, 60.0, 0.0),
        ("q1", "X", 12, True, 45.0, 70.0),
        ("q2", "D", 1, False, None, None),
        ("q9", "E", 1, True, None, 0.0),
    ]


def test_sessions_and_events_at_one_time() -> None:
    rows = [
        event("click", "2025-01-01T10:00:00Z", "A", 1, session_id="s1"),
        event("hover", "2025-01-01T10:00:00Z", "B", 2, session_id="s1"),
        event("click", "2025-01-01T10:00:10Z", "A", 1, session_id="s2"),
        event("view", "2025-01-01T10:00:30Z", "A", 1, session_id="s1"),
    ]
    for order in (rows, rows[::-1]):
        log = pr.clicks.scan_ubi(pl.DataFrame(order)).sort("doc").collect()
        assert log["dwell"].to_list() == [30.0, None]


def test_pages_of_one_query() -> None:
    again = {**QUERIES[0], "timestamp": "2025-01-01T10:05:00Z", "query_response_hit_ids": ["Z"]}
    log = pr.clicks.scan_ubi(pl.DataFrame(EVENTS), pl.DataFrame([again, *QUERIES]))
    assert "Z" not in log.collect()["doc"]


def test_is_a_log_of_impressions() -> None:
    tables = (pl.DataFrame(rows, infer_schema_length=None) for rows in (EVENTS, QUERIES))
    log = log_of(*tables)
    means = pr.evaluate(log, ["ctr@2", "time_to_first_click", "abandonment"], position="position")
    actual = means.collect().row(0)
    assert actual == (3, pytest.approx((1 / 2 + 0 + 1) / 3), (5.0 + 0.0) / 2, pytest.approx(1 / 3))
    grades = pr.clicks.labels(log, "graded", grades={"click": 1, "add_to_cart": 2})
    assert grades.sort("query", "position").collect()["label"].to_list() == [0, 2, 0, 1, 0, 1]
    known = log.drop_nulls("user_query")
    rates = pr.clicks.click_through_rates(known, query="user_query", prior=0).collect()
    assert rates.filter(doc="B").select("user_query", "ctr").row(0) == ("laptop", 1.0)


def test_integer_ids() -> None:
    events = pl.DataFrame([event("click", "2025-01-01T10:00:00Z", 7, 1, query_id=1)])
    queries = pl.DataFrame({"query_id": [1], "query_response_hit_ids": [[7, 8]]})
    log = pr.clicks.scan_ubi(events, queries).sort("position")
    assert log.select("query", "doc", "click").collect().rows() == [
        ("1", "7", True),
        ("1", "8", False),
    ]


def test_lazy_and_in_memory_agree() -> None:
    tables = [pl.DataFrame(rows, infer_schema_length=None).lazy() for rows in (EVENTS, QUERIES)]
    plan = log_of(*tables).sort("query", "doc")
    assert_frame_equal(plan.collect(engine="in-memory"), plan.collect(engine="streaming"))


def test_errors(tmp_path: Path) -> None:
    events, queries = pl.DataFrame(EVENTS), pl.DataFrame(QUERIES)
    with pytest.raises(pr.errors.SchemaError, match=r"column 'action_name' \(`events`\) not found"):
        pr.clicks.scan_ubi(queries)
    with pytest.raises(
        pr.errors.SchemaError, match=r"column 'query_response_hit_ids' \(`queries`\) not found"
    ):
        pr.clicks.scan_ubi(events, events)
    with pytest.raises(pr.errors.SchemaError, match=r"column 'query_id' \(`events`\) not found"):
        pr.clicks.scan_ubi(events.drop("query_id"))
    for odd in (pl.lit("yesterday"), pl.lit(datetime(2025, 1, 1, tzinfo=UTC).date())):
        log = pr.clicks.scan_ubi(events.with_columns(timestamp=odd))
        with pytest.raises(
            pr.errors.DataError, match="neither ISO 8601 nor milliseconds .* rows read"
        ):
            log.collect()
    with pytest.raises(pr.errors.ArgumentError, match="`actions` contains 'dwell'"):
        pr.clicks.scan_ubi(events, actions="dwell")
    with pytest.raises(pr.errors.SourceError, match="^file .* not found"):
        pr.clicks.scan_ubi(tmp_path / "nothing.ndjson")
