"""Click metrics: worked examples, columns, and undefined values."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import Any

import polars as pl
import polars_rank as pr
import pytest

#: One ranking with clicks at 2 and 4, after 31 s and 8.5 s, for 4 s and 95 s; one without clicks.
LOG = pl.DataFrame(
    {
        "query": [1, 1, 1, 1, 2, 2],
        "position": [1, 2, 3, 4, 1, 2],
        "click": [False, True, False, True, False, False],
        "dwell": [None, 4.0, None, 95.0, None, None],
        "time": [None, 31.0, None, 8.5, None, None],
        "good": [False, False, False, False, True, True],
    }
)

VALUES = {
    "ctr@3": (1 / 3, 0 / 2),
    "ctr": (2 / 4, 0.0),
    "num_clicks@3": (1.0, 0.0),
    "num_clicks": (2.0, 0.0),
    "abandonment": (0.0, 1.0),
    "good_abandonment": (0.0, 1.0),
    "max_click_rr": (1 / 2, None),
    "mean_click_rr": ((1 / 2 + 1 / 4) / 2, None),
    "min_click_rr": (1 / 4, None),
    "pskip": (2 / 4, None),
    "time_to_first_click": (8.5, None),
    "time_to_last_click": (31.0, None),
    "satisfied_rate": (1 / 2, None),
    "satisfied_rate@3": (0 / 1, None),
    "satisfied_rate(seconds=100)": (0 / 2, None),
    "successful_sessions@3": (0.0, 0.0),
    "successful_sessions@4": (1.0, 0.0),
}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_worked_examples(engine: str) -> None:
    lists = pr.per_query(LOG.lazy(), list(VALUES), position="position").collect(engine=engine)
    for name, expected in VALUES.items():
        assert lists[name].to_list() == pytest.approx(list(expected), abs=1e-12), name


@pytest.mark.parametrize("name", [name for name, values in VALUES.items() if values[1] is None])
def test_the_mean_ignores_rankings_without_clicks(name: str) -> None:
    first = VALUES[name][0]
    assert pr.evaluate(LOG, name, position="position")[name].item() == pytest.approx(first)
    said = pr.evaluate(LOG, name, position="position", undefined="zero")[name].item()
    assert said == pytest.approx(first / 2)
    rule = {name.partition("@")[0].partition("(")[0]: "one"}
    named = pr.evaluate(LOG, name, position="position", undefined=rule)[name].item()
    assert named == pytest.approx((first + 1) / 2)


def test_stored_values_have_the_mean_of_evaluate() -> None:
    names = list(VALUES)
    means = pr.evaluate(LOG, names, position="position").select(names).row(0)
    lists = pr.per_query(LOG, names, position="position")
    stored = {row["metric"]: row["mean"] for row in pr.summarize(lists).to_dicts()}
    assert [stored[name] for name in names] == pytest.approx(means)
    filled = pr.per_query(LOG, "pskip", position="position", undefined="zero")
    assert filled["pskip"].to_list() == [0.5, 0.0]


def test_clicks_and_labels_in_one_call() -> None:
    log = LOG.with_columns(label=pl.lit(1))
    both = pr.evaluate(log, ["ctr", "precision"], position="position")
    assert both.row(0, named=True) == {"queries": 2, "ctr": 0.25, "precision": 1.0}


def test_other_columns() -> None:
    log = LOG.rename({"click": "bought", "dwell": "stay"})
    metric = pr.metrics.satisfied_rate(2, seconds=4, dwell="stay", click="bought")
    assert str(metric) == "satisfied_rate(seconds=4, dwell='stay', click='bought')@2"
    assert pr.evaluate(log, str(metric), position="position").item(0, 1) == 1.0
    labelled = LOG.select("query", "position", label=pl.col("click").cast(pl.Int8))
    assert pr.evaluate(labelled, "ctr(click='label')", position="position").item(0, 1) == 0.25
    with pytest.raises(pr.errors.SchemaError, match=r"column .click. \(`click` of ctr\) not found"):
        pr.evaluate(log, "ctr", position="position")


def test_counts_and_nulls_of_clicks() -> None:
    log = pl.DataFrame({"query": 1, "position": [1, 2, 3, None], "click": [3, None, 0, 1]})
    values = pr.per_query(log, ["num_clicks", "ctr", "pskip"], position="position").row(0)[1:]
    assert values == (1.0, 1 / 3, 0.0)  # null is no click; documents not shown are ignored


def test_labels_are_required_only_if_they_are_read() -> None:
    with pytest.raises(pr.errors.SchemaError, match="column 'label' .`label`. not found"):
        pr.evaluate(LOG, ["ctr", "ndcg"], position="position")
    with pytest.raises(pr.errors.SchemaError, match="column 'label' .`label`. not found"):
        pr.evaluate(LOG, "ctr", position="position", query_set="judged")
    with pytest.raises(pr.errors.SchemaError, match="column 'grade' .`label`. not found"):
        pr.evaluate(LOG, "ctr", position="position", label="grade")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: pr.metrics.ctr(click=3), "`click` must be the name of a column; found 3"),
        (lambda: pr.metrics.satisfied_rate(seconds=-1), "`seconds` must be 0 or more; found -1"),
        (lambda: pr.metrics.ctr(0), "`k` must be a positive integer; found 0"),
    ],
)
def test_errors(make: object, message: str) -> None:
    with pytest.raises(pr.errors.ArgumentError, match=message):
        make()


READ = {
    "click": [*VALUES],
    "dwell": ["satisfied_rate", "successful_sessions"],
    "time": ["time_to_first_click", "time_to_last_click"],
    "good": ["good_abandonment"],
}
FIVE = timedelta(seconds=5)  # a cast to numbers would give 5,000,000
OTHERS = ("5", date(2026, 1, 5), [5])


@pytest.mark.parametrize(
    ("column", "metric", "value"),
    [
        *((column, metric, FIVE) for column, names in READ.items() for metric in names),
        *((column, names[0], value) for column, names in READ.items() for value in OTHERS),
    ],
)
def test_columns_that_are_not_numeric(column: str, metric: str, value: object) -> None:
    log = pl.DataFrame({
        "query": 1, "position": [1], "click": [1], "dwell": [1], "time": [1], "good": [1]
    }).with_columns(pl.Series(column, [value]))  # fmt: skip
    message = rf"column '{column}' \(`{column}`\) must be numeric; found {log[column].dtype!s:.4}"
    for frame in (log, log.lazy()):  # a lazy frame is checked before it is collected
        for function in (pr.evaluate, pr.per_query):
            with pytest.raises(pr.errors.SchemaError, match=message):
                function(frame, metric, position="position")


@pytest.mark.parametrize(
    ("metric", "remedy"),
    [
        ("ctr", "ctr(click='clicked')"),
        ("num_clicks@3", "num_clicks(click='clicked')@3"),
        (pr.metrics.ctr(1) - pr.metrics.ctr(), "ctr(click='clicked')@1"),
    ],
)
def test_clicks_in_a_column_of_another_name(metric: Any, remedy: str) -> None:
    log = LOG.rename({"click": "clicked"})
    message = "column 'click' (`click` of "
    with pytest.raises(pr.errors.SchemaError, match=re.escape(message)) as error:
        pr.evaluate(log, metric, position="position")
    assert str(error.value).endswith(f'Name the column in the metric: "{remedy}"')


@pytest.mark.parametrize(("column", "metric"), [(c, m) for c, names in READ.items() for m in names])
def test_negative_values(column: str, metric: str) -> None:
    log = LOG.with_columns(pl.lit(-1).alias(column))
    message = rf"of 6 rows: column '{column}' \(`{column}`\) has negative values; use null"
    with pytest.raises(pr.errors.DataError, match=message):
        pr.evaluate(log, metric, position="position")
    with pytest.raises(pr.errors.DataError, match="negative values"):
        pr.evaluate(log.lazy(), metric, position="position").collect()


def test_a_position_that_occurs_twice_in_a_ranking() -> None:
    log = pl.DataFrame(
        {
            "query": "a",
            "session": [1, 1, 2, 2],
            "position": [1, 2, 1, 2],
            "click": [1, 0, 1, 1],
        }
    )
    lists = {"query": ["query", "session"], "position": "position"}
    assert pr.evaluate(log, "ctr@1", **lists)["ctr@1"].item() == 1
    message = r"a position occurs twice in a ranking.* `query`; in the ranking .*'a'"
    for metric in ("ctr@1", "num_clicks", "abandonment", "pskip", "mean_click_rr"):
        with pytest.raises(pr.errors.DataError, match=message):
            pr.evaluate(log, metric, position="position")
        with pytest.raises(pr.errors.DataError, match=message):
            pr.per_query(log.lazy(), metric, position="position").collect()
    # Repeated scores, null positions, and metrics that do not read clicks raise no error.
    assert pr.evaluate(log, "num_clicks", score="position")["num_clicks"].item() == 3
    shown = log.with_columns(pl.when(session=1).then("position"))
    assert pr.evaluate(shown, "num_clicks", position="position")["num_clicks"].item() == 1
    assert pr.evaluate(log, "num_ret", position="position")["num_ret"].item() == 4
