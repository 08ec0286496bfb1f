"""Labels from clicks, dwell times and events, row by row."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

import polars as pl
import polars_rank as pr
import pytest

DWELL = [None, 0.0, 9.9, 10.0, 29.9, 30.0, 120.0, float("nan")]
GRADES = {1: 0, 2: 10, 3: 30, 4: 120}

LABELS: list[tuple[pl.Expr, dict[str, list[object]], list[float | None]]] = [
    (pr.clicks.clicked(), {"click": [True, False, None]}, [1, 0, None]),
    (pr.clicks.clicked(), {"click": [3, 0, None]}, [1, 0, None]),
    (pr.clicks.clicked("bought"), {"bought": [1.0, 0.0, float("nan")]}, [1, 0, None]),
    (pr.clicks.clicked(), {"click": [True, False, True], "position": [1, 2, None]}, [1, 0, None]),
    (pr.clicks.clicked(position="place"), {"click": [1, 1], "place": [None, 2]}, [None, 1]),
    (pr.clicks.satisfied(), {"dwell": DWELL}, [0, 0, 0, 0, 0, 1, 1, 0]),
    (pr.clicks.satisfied(seconds=10), {"dwell": DWELL}, [0, 0, 0, 1, 1, 1, 1, 0]),
    (pr.clicks.satisfied("stay"), {"stay": [31, 29]}, [1, 0]),
    (pr.clicks.satisfied(), {"dwell": [40.0, None, None], "position": [1, 2, None]}, [1, 0, None]),
    (pr.clicks.graded_dwell(GRADES), {"dwell": DWELL}, [0, 1, 1, 2, 2, 3, 4, 0]),
    (pr.clicks.graded_dwell({2: 30, 1: 10}), {"dwell": [9, 10, 30]}, [0, 1, 2]),
    (pr.clicks.graded_dwell({0.5: 5}), {"dwell": [4.9, 5.0]}, [0.0, 0.5]),
    (pr.clicks.graded_dwell(GRADES), {"dwell": [40.0, None], "position": [None, 1]}, [None, 0]),
    (
        pr.clicks.graded({"click": 1, "cart": 2, "purchase": 4}),
        {"click": [1, 1, 0, 0], "cart": [0, 3, 0, None], "purchase": [False, False, False, True]},
        [1, 2, 0, 4],
    ),
    (  # no view, nothing else: not shown
        pr.clicks.graded({"view": 0, "click": 1}),
        {"view": [True, True, False, False], "click": [False, True, False, True]},
        [0, 1, None, 1],
    ),
    (
        pr.clicks.graded({"hide": -1, "click": 1}),
        {"hide": [1, 1, 0], "click": [0, 1, 1]},
        [-1, 1, 1],
    ),
    (
        pr.clicks.graded({"view": 0, "buy": 4}, event="action"),
        {"action": ["view", "buy", "hover", None]},
        [0, 4, None, None],
    ),
    (pr.clicks.graded({"click": 0.5}), {"click": [True, False]}, [0.5, 0.0]),
]


@pytest.mark.parametrize(("label", "columns", "expected"), LABELS)
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_labels(
    label: pl.Expr, columns: dict[str, list[object]], expected: list[float | None], engine: str
) -> None:
    frame = pl.LazyFrame(columns).with_columns(label=label).collect(engine=engine)
    assert frame["label"].to_list() == expected
    fractional = any(isinstance(value, float) for value in expected)
    assert frame.schema["label"] == (pl.Float64 if fractional else pl.Int8)


def test_grades_are_labels_of_any_metric() -> None:
    log = pl.DataFrame(
        {"query": 1, "position": [1, 2, 3], "click": [0, 1, 1], "dwell": [None, 5.0, 60.0]}
    )
    means = {
        name: pr.evaluate(log.with_columns(label=label), "dcg", position="position").item(0, "dcg")
        for name, label in {
            "clicked": pr.clicks.clicked(),
            "satisfied": pr.clicks.satisfied(),
            "graded": pr.clicks.graded_dwell({1: 0, 3: 30}),
        }.items()
    }
    second, third = 1 / 1.584962500721156, 1 / 2  # 1 / log2(3), 1 / log2(4)
    assert means == pytest.approx(
        {"clicked": second + third, "satisfied": third, "graded": second + 3 * third}
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.clicks.clicked(3), "`click` must be the name of a column; found 3"),
        (lambda: pr.clicks.satisfied(seconds=-1), "`seconds` must be 0 or more seconds; found -1"),
        (lambda: pr.clicks.satisfied(seconds="30"), "`seconds` must be a number"),
        (lambda: pr.clicks.graded_dwell({}), "`grades` must have at least one grade, all numbers"),
        (
            lambda: pr.clicks.graded_dwell({1: 10, 2: 10}),
            "higher grade must need more seconds; found 10",
        ),
        (lambda: pr.clicks.graded_dwell({1: -3}), r"`grades\[1\]` must be 0 or more seconds"),
        (
            lambda: pr.clicks.graded({"click": "1"}),
            "`grades` must have at least one grade, all numbers",
        ),
        (lambda: pr.clicks.graded(["click"]), "`grades` must be a mapping"),
        (
            lambda: pr.clicks.graded_dwell(None),
            "`grades` must be a mapping; found None",
        ),
        (lambda: pr.clicks.graded({1: 1}), "`grades` must be the name of a column; found 1"),
    ],
)
def test_errors(make: Callable[[], pl.Expr], message: str) -> None:
    with pytest.raises(pr.errors.ArgumentError, match=message):
        make()


FIVE = timedelta(seconds=5)  # its ticks would be 5,000,000


@pytest.mark.parametrize(
    ("label", "parameter"),
    [
        (pr.clicks.clicked("it"), "click"),
        (pr.clicks.satisfied("it"), "dwell"),
        (pr.clicks.graded_dwell({1: 0}, "it"), "dwell"),
        (pr.clicks.graded({"it": 1}), "grades"),
    ],
)
@pytest.mark.parametrize("value", [FIVE, "5", date(2026, 1, 5), datetime(2026, 1, 5), [5]])  # noqa: DTZ001
def test_columns_that_are_not_numeric(label: pl.Expr, parameter: str, value: object) -> None:
    log = pl.DataFrame({"doc": 1, "it": [value, value]})
    message = rf"column 'it' \(`{parameter}`\) must be numeric; found {log['it'].dtype.base_type()}"
    for make in (
        lambda: log.with_columns(label=label),
        lambda: log.group_by("doc").agg(label.max()),
        lambda: log.lazy().with_columns(label=label).collect(),
        lambda: log.lazy().with_columns(label=label).collect(engine="streaming"),
        lambda: log.clear().with_columns(label=label),
    ):
        with pytest.raises(pr.errors.SchemaError, match=message):
            make()


@pytest.mark.parametrize("value", [1, True, FIVE, 1.5])
def test_events_that_are_not_text(value: object) -> None:
    log = pl.DataFrame({"event": [value]})
    message = (
        rf"'event' \(`event`\) must have the type .* String; found {log['event'].dtype.base_type()}"
    )
    for make in (log.select, lambda label: log.lazy().select(label).collect()):
        with pytest.raises(pr.errors.SchemaError, match=message):
            make(pr.clicks.graded({"click": 1}, event="event"))


@pytest.mark.parametrize("dtype", [pl.String, pl.Categorical, pl.Enum(["view", "click"])])
def test_events_of_any_kind_of_text(dtype: pl.DataType) -> None:
    log = pl.DataFrame({"event": ["view", "click", None]}, schema={"event": dtype})
    label = pr.clicks.graded({"view": 0, "click": 2}, event="event")
    assert log.select(label).to_series().to_list() == [0, 2, None]


def test_events_that_are_numbered() -> None:
    log = pl.DataFrame({"event": [7, 8, None]}, schema={"event": pl.UInt8})
    label = pr.clicks.graded({7: 0, 8: 2}, event="event")  # type: ignore[dict-item]
    assert log.select(label).to_series().to_list() == [0, 2, None]


@pytest.mark.parametrize(
    "label",
    [
        pr.clicks.clicked("it"),
        pr.clicks.satisfied("it"),
        pr.clicks.graded_dwell({1: 0}, "it"),
        pr.clicks.graded({"it": 1}),
    ],
)
def test_negative_values(label: pl.Expr) -> None:
    log = pl.DataFrame({"it": [1, -1, None]})
    for make in (log.select, lambda label: log.lazy().select(label).collect()):
        said = r"column 'it' .* has negative values; use null .*1 of (1 row|[2-9] rows) "
        with pytest.raises(pr.errors.DataError, match=said):
            make(label)


def test_errors_about_times_give_advice() -> None:
    log = pl.DataFrame({"dwell": [FIVE], "click": [date(2026, 1, 5)]})
    with pytest.raises(
        pr.errors.SchemaError,
        match="'dwell' .`dwell`. must be numeric; found Duration.*; convert it to seconds",
    ):
        log.select(pr.clicks.satisfied())
    seconds = log.with_columns(pl.col("dwell").dt.total_seconds(fractional=True))
    assert seconds.select(pr.clicks.satisfied(seconds=6)).item() == 0
    with pytest.raises(pr.errors.SchemaError, match="or replace it with a test such as"):
        log.select(pr.clicks.clicked())
    assert log.with_columns(pl.col("click").is_not_null()).select(pr.clicks.clicked()).item() == 1


def test_a_named_position_must_exist() -> None:
    log = pl.DataFrame({"click": [1, 0], "place": [1, None]})
    assert log.select(pr.clicks.clicked()).to_series().to_list() == [1, 0]
    assert log.select(pr.clicks.clicked(position="place")).to_series().to_list() == [1, None]
    with pytest.raises(pl.exceptions.ColumnNotFoundError, match="plaice"):
        log.select(pr.clicks.clicked(position="plaice"))
