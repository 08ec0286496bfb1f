"""Click-through rates and COEC: computed by hand and in plain Python, for all layouts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

#: CTR is 2/3 at the first position, 1/3 at the second; y was in the list but not shown once.
LOG = pl.DataFrame(
    {
        "query": ["a"] * 8,
        "session": [1, 1, 2, 2, 3, 3, 4, 4],
        "doc": ["x", "y", "x", "y", "y", "x", "x", "y"],
        "position": [1, 2, 1, 2, 1, 2, None, None],
        "click": [True, False, True, False, False, True, None, False],
    }
)


def test_rates_by_hand() -> None:
    actual = pr.clicks.click_through_rates(LOG, prior=(1, 3))
    assert actual.rows() == [
        ("a", "x", 3, 3, (3 + 1) / (3 + 1 + 3), (3 + 1) / (3 + 1 + 3)),
        ("a", "y", 3, 0, (0 + 1) / (3 + 1 + 3), (0 + 1) / (3 + 1 + 3)),
    ]
    mean = 3 / 6  # of the log: 10 impressions at this rate
    actual = pr.clicks.click_through_rates(LOG)
    assert actual["ctr"].to_list() == [(3 + 10 * mean) / (3 + 10), (0 + 10 * mean) / (3 + 10)]
    assert pr.clicks.click_through_rates(LOG, prior=0)["label"].to_list() == [1.0, 0.0]


def test_coec_by_hand() -> None:
    actual = pr.clicks.coec(LOG)
    expected = [2 / 3 + 2 / 3 + 1 / 3, 1 / 3 + 1 / 3 + 2 / 3]
    assert actual["expected"].to_list() == pytest.approx(expected, rel=1e-15)
    assert actual["coec"].to_list() == pytest.approx([3 / expected[0], 0], rel=1e-15)
    assert actual["label"].to_list() == pytest.approx([3 / (3 + expected[0]), 0], rel=1e-15)
    assert actual.select("impressions", "clicks").rows() == [(3, 3), (3, 0)]


@pytest.mark.parametrize("layout", ["sorted", "shuffled"])
def test_an_impression_with_two_clicks_counts_once(layout: str) -> None:
    once = LOG.with_columns(pl.col("click").cast(pl.Int64))
    twice = once.with_columns(pl.col("click") * 2)
    if layout == "sorted":
        once, twice = (each.sort("query").set_sorted("query") for each in (once, twice))
    for function in (pr.clicks.coec, pr.clicks.click_through_rates):
        assert_frame_equal(function(twice), function(once))


def test_nothing_expected() -> None:
    actual = pr.clicks.coec(LOG.with_columns(click=False))
    assert actual.select("expected", "coec", "label").rows() == [(0.0, None, None)] * 2
    assert pr.clicks.click_through_rates(LOG.with_columns(click=False))["ctr"].to_list() == [
        0.0,
        0.0,
    ]


def test_grades_are_shares_of_lower_values() -> None:
    log = pl.DataFrame({"query": 1, "doc": range(5), "position": 1, "click": [0, 0, 0, 1, 1]})
    more = pl.concat([log, log.with_columns(click=(pl.col("doc") == 4).cast(pl.Int64))])
    actual = pr.clicks.click_through_rates(more, prior=0, grades=5)
    assert actual["ctr"].to_list() == [0, 0, 0, 1 / 2, 1]
    assert actual["label"].to_list() == [0, 0, 0, 3, 4]  # 3 of 5, 4 of 5 are lower
    assert pr.clicks.coec(more, grades=5)["label"].to_list() == [0, 0, 0, 3, 4]


def test_values_that_differ_by_rounding_have_the_same_grade() -> None:
    rows = [(doc, click < doc) for doc in range(1, 5) for click in range(3 * doc)]
    log = pl.DataFrame(rows, ["doc", "click"], orient="row").with_columns(query=1)
    actual = pr.clicks.click_through_rates(log, prior=(0.1, 0.2), grades=4)
    assert actual["ctr"].to_list() == pytest.approx([1 / 3] * 4)  # (c + 0.1) / (3 c + 0.3)
    assert actual["ctr"].n_unique() > 1
    assert actual["label"].to_list() == [0] * 4


def test_each_group_has_its_own_rates() -> None:
    other = LOG.with_columns(click=~pl.col("click") & (pl.col("position") == 1))
    both = pl.concat(
        [LOG.with_columns(country=pl.lit("BR")), other.with_columns(country=pl.lit(None))]
    )
    for function in (pr.clicks.coec, pr.clicks.click_through_rates):
        actual = function(both, by="country", grades=3)
        alone = [function(log, grades=3).drop("query") for log in (other, LOG)]
        assert_frame_equal(actual.drop("country", "query"), pl.concat(alone))
        assert actual["country"].to_list() == [None, None, "BR", "BR"]


def _coec(log: pl.DataFrame) -> dict[tuple[int, int], tuple[int, int, float]]:
    shown = [row for row in log.to_dicts() if row["position"] is not None]
    at: dict[int, list[bool]] = defaultdict(list)
    for row in shown:
        at[row["position"]].append(row["click"])
    actual: dict[tuple[int, int], tuple[int, int, float]] = defaultdict(lambda: (0, 0, 0.0))
    for row in shown:
        seen, clicks, expected = actual[row["query"], row["doc"]]
        rate = sum(at[row["position"]]) / len(at[row["position"]])
        actual[row["query"], row["doc"]] = (seen + 1, clicks + row["click"], expected + rate)
    return actual


@pytest.fixture(scope="module")
def clicks() -> pl.DataFrame:
    """Return five rankings of each query, in which some documents were not shown."""
    log = pr.datasets.search_log(40, 7, runs=5, seed=3).rename({"run": "session"})
    return (
        log.select("query", "session", "doc", "position", "click")
        .collect()
        .sort("query", "session")
    )


def test_against_plain_python(clicks: pl.DataFrame) -> None:
    actual = pr.clicks.coec(clicks)
    truth = _coec(clicks)
    assert actual.height == len(truth)
    for row in actual.to_dicts():
        impressions, number, expected = truth[row["query"], row["doc"]]
        assert (row["impressions"], row["clicks"]) == (impressions, number)
        assert row["expected"] == pytest.approx(expected, rel=1e-12)
    rates = pr.clicks.click_through_rates(clicks, prior=(2, 5))
    assert_frame_equal(
        rates.select("impressions", "clicks"), actual.select("impressions", "clicks")
    )
    smoothed = [(row["clicks"] + 2) / (row["impressions"] + 7) for row in actual.to_dicts()]
    assert rates["ctr"].to_list() == pytest.approx(smoothed, rel=1e-15)


FUNCTIONS: list[Callable[..., pl.LazyFrame]] = [
    pr.clicks.coec,
    pr.clicks.click_through_rates,
    lambda log: pr.clicks.coec(log, grades=4),
    lambda log: pr.clicks.click_through_rates(log, prior=(1, 1), by="half"),
]


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("layout", ["sorted", "adjacent", "shuffled"])
def test_layouts_and_engines(
    function: Callable[..., pl.LazyFrame], layout: str, clicks: pl.DataFrame, tmp_path: Path
) -> None:
    log = clicks.with_columns(half=pl.col("query") % 2)
    eager = function(log)
    log = {
        "sorted": log,
        "adjacent": log.sort(-pl.col("query"), maintain_order=True),
        "shuffled": log.sample(fraction=1, shuffle=True, seed=1),
    }[layout]
    log.write_parquet(tmp_path / "log.parquet")
    by = "half" if "half" in eager.columns else None
    plan = function(pr.scan_log(tmp_path / "log.parquet", by=by))
    assert isinstance(plan, pl.LazyFrame)
    keys = [name for name in ("half", "query", "doc") if name in eager.columns]
    for engine in ("in-memory", "streaming"):
        assert_frame_equal(plan.collect(engine=engine).sort(keys), eager, rel_tol=1e-12)
    assert_frame_equal(function(log), eager, rel_tol=1e-12)


def test_streams_without_falling_back_to_memory(clicks: pl.DataFrame, tmp_path: Path) -> None:
    clicks.write_parquet(tmp_path / "log.parquet")
    for function in FUNCTIONS[:2]:
        nodes = function(pr.scan_log(tmp_path / "log.parquet")).show_graph(
            engine="streaming", plan_stage="physical", raw_output=True, show=False
        )
        assert "sorted-group-by" in nodes
        assert "in-memory-map" not in nodes


def test_a_false_sorted_flag_raises_an_error(clicks: pl.DataFrame) -> None:
    log = clicks.sample(fraction=1, shuffle=True, seed=1).lazy().set_sorted("query")
    with pytest.raises(pr.errors.DataError, match="rows of a ranking may not be adjacent"):
        pr.clicks.coec(log).collect()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: pr.clicks.coec(LOG, click="klick"),
            pr.errors.SchemaError,
            "column 'klick' .`click`. not found",
        ),
        (
            lambda: pr.clicks.coec(LOG.drop("position")),
            pr.errors.SchemaError,
            "'position' .`position`. not found",
        ),
        (
            lambda: pr.clicks.click_through_rates(LOG, doc="id"),
            pr.errors.SchemaError,
            "'id' .`doc`. not found",
        ),
        (
            lambda: pr.clicks.click_through_rates(LOG, position="place"),
            pr.errors.SchemaError,
            "column 'place' .`position`. not found",
        ),
        (
            lambda: pr.clicks.click_through_rates(LOG, prior=-1),
            pr.errors.ArgumentError,
            "`prior` must be a number",
        ),
        (
            lambda: pr.clicks.click_through_rates(LOG, prior=(1,)),
            pr.errors.ArgumentError,
            "`prior` must be",
        ),
        (
            lambda: pr.clicks.coec(LOG, grades=0),
            pr.errors.ArgumentError,
            "`grades` must be a positive integer",
        ),
        (
            lambda: pr.clicks.coec(LOG, grades=1),
            pr.errors.ArgumentError,
            "`grades` must be 2 or more",
        ),
        (
            lambda: pr.clicks.click_through_rates(LOG, grades=1),
            pr.errors.ArgumentError,
            "must be 2 or more",
        ),
        (
            lambda: pr.clicks.coec(LOG, doc=None),
            pr.errors.ArgumentError,
            "must be the name of a column; found None",
        ),  # type: ignore[arg-type]
        (
            lambda: pr.clicks.coec(LOG, doc="query"),
            pr.errors.ArgumentError,
            "'query' is used for both `query` and `doc`",
        ),
        (
            lambda: pr.clicks.coec(LOG, query=None),
            pr.errors.ArgumentError,
            "must be the name of a column or several names; found None",
        ),  # type: ignore[arg-type]
        (
            lambda: pr.clicks.coec(LOG, position=None),
            pr.errors.ArgumentError,
            "name of a column; found None",
        ),  # type: ignore[arg-type]
        (
            lambda: pr.clicks.click_through_rates(LOG.with_columns(click=-1)),
            pr.errors.DataError,
            r"rows: column 'click' \(`click`\) has negative values; use null",
        ),
        (
            lambda: pr.clicks.coec(LOG.lazy().with_columns(click=-1).set_sorted("query")).collect(),
            pr.errors.DataError,
            r"column 'click' \(`click`\) has negative values",
        ),
        (
            lambda: pr.clicks.coec(LOG.rename({"doc": "coec"}), doc="coec"),
            pr.errors.ArgumentError,
            "'coec' .*has the name of a result column",
        ),
        (
            lambda: pr.clicks.coec(LOG.with_columns(query=pl.lit(None, dtype=pl.String))),
            pr.errors.DataError,
            r"'query' \(`query`\) has nulls",
        ),
    ],
)
def test_errors(call: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "function",
    [
        pr.clicks.click_through_rates,
        pr.clicks.coec,
        pr.clicks.labels,
        partial(pr.clicks.labels, kind="last"),
        lambda log: pr.evaluate(log, pr.metrics.unseen_share(seen="click")),
    ],
)
def test_clicks_that_are_not_counts(function: Callable[..., Any]) -> None:
    log = pl.DataFrame({
        "query": 1, "doc": [1, 2], "position": [1, 2], "score": [2.0, 1.0], "click": [1.0, 0.3],
    })  # fmt: skip
    for frame in (log, log.lazy()):
        with pytest.raises(pr.errors.DataError, match="'click' .* must be Boolean or a count"):
            function(frame).lazy().collect()
    function(log.with_columns(click=pl.Series([1.0, 2.0])))


@pytest.mark.parametrize("function", [pr.clicks.click_through_rates, pr.clicks.coec])
@pytest.mark.parametrize("column", ["click", "position"])
@pytest.mark.parametrize("value", ["1", timedelta(seconds=1), date(2026, 1, 5), [1]])
def test_columns_that_are_not_numeric(
    function: Callable[..., Any], column: str, value: object
) -> None:
    log = LOG.with_columns(pl.Series(column, [value] * LOG.height))
    message = rf"column '{column}' \(`{column}`\) must be numeric; found {log[column].dtype!s:.4}"
    for frame in (log, log.lazy()):
        with pytest.raises(pr.errors.SchemaError, match=message):
            function(frame)


def test_groups_by_position_have_its_rate() -> None:
    actual = pr.clicks.coec(LOG, by="position")
    rates = LOG.group_by("position").agg(rate=pl.col("click").mean())
    both = actual.join(rates, on="position")
    assert both["expected"].to_list() == (both["rate"] * both["impressions"]).to_list()
