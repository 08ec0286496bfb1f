"""Click-through rates and COEC: computed by hand and in plain Python, for all layouts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import product
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes
from polars.testing import assert_frame_equal

LOG = pl.DataFrame({
    "query": ["a"] * 8, "session": [1, 1, 2, 2, 3, 3, 4, 4], "doc": [*"xyxyyxxy"],
    "position": [1, 2, 1, 2, 1, 2, None, None],
    "click": [True, False, True, False, False, True, None, False],
})  # fmt: skip
RATES, COEC = pr.clicks.click_through_rates, pr.clicks.coec


def test_by_hand() -> None:
    actual = RATES(LOG, prior=(1, 3))
    assert actual.rows() == [
        ("a", "x", 3, 3, (3 + 1) / (3 + 1 + 3), (3 + 1) / (3 + 1 + 3)),
        ("a", "y", 3, 0, (0 + 1) / (3 + 1 + 3), (0 + 1) / (3 + 1 + 3)),
    ]
    mean = 3 / 6  # of the log: 10 impressions at this rate
    assert RATES(LOG)["ctr"].to_list() == [(3 + 10 * mean) / (3 + 10), 10 * mean / (3 + 10)]
    assert RATES(LOG, prior=0)["label"].to_list() == [1.0, 0.0]
    actual = COEC(LOG)
    expected = [2 / 3 + 2 / 3 + 1 / 3, 1 / 3 + 1 / 3 + 2 / 3]
    assert actual["expected"].to_list() == pytest.approx(expected, rel=1e-15)
    assert actual["coec"].to_list() == pytest.approx([3 / expected[0], 0], rel=1e-15)
    assert actual["label"].to_list() == pytest.approx([3 / (3 + expected[0]), 0], rel=1e-15)
    assert actual.select("impressions", "clicks").rows() == [(3, 3), (3, 0)]
    nothing = LOG.with_columns(click=False)
    assert COEC(nothing).select("expected", "coec", "label").rows() == [(0.0, None, None)] * 2
    assert RATES(nothing)["ctr"].to_list() == [0, 0]
    of_positions = COEC(LOG, by="position")
    rates = LOG.group_by("position").agg(rate=pl.col("click").mean())
    both = of_positions.join(rates, on="position")
    assert both["expected"].to_list() == (both["rate"] * both["impressions"]).to_list()


def test_an_impression_with_two_clicks_counts_once() -> None:
    once = LOG.with_columns(pl.col("click").cast(pl.Int64))
    twice = once.with_columns(pl.col("click") * 2)
    for function in (COEC, RATES):
        assert_frame_equal(function(twice), function(once))
        logs = (each.sort("query").set_sorted("query") for each in (twice, once))
        assert_frame_equal(*map(function, logs))


def test_grades_are_shares_of_lower_values() -> None:
    log = pl.DataFrame({"query": 1, "doc": range(5), "position": 1, "click": [0, 0, 0, 1, 1]})
    more = pl.concat([log, log.with_columns(click=(pl.col("doc") == 4).cast(pl.Int64))])
    actual = RATES(more, prior=0, grades=5)
    assert actual["ctr"].to_list() == [0, 0, 0, 1 / 2, 1]
    assert actual["label"].to_list() == [0, 0, 0, 3, 4]  # 3 of 5, 4 of 5 are lower
    assert COEC(more, grades=5)["label"].to_list() == [0, 0, 0, 3, 4]


def test_values_that_differ_by_rounding_have_the_same_grade() -> None:
    rows = [(doc, click < doc) for doc in range(1, 5) for click in range(3 * doc)]
    log = pl.DataFrame(rows, ["doc", "click"], orient="row").with_columns(query=1)
    actual = RATES(log, prior=(0.1, 0.2), grades=4)
    assert actual["ctr"].to_list() == pytest.approx([1 / 3] * 4)  # (c + 0.1) / (3 c + 0.3)
    assert actual["ctr"].n_unique() > 1
    assert actual["label"].to_list() == [0] * 4


def test_each_group_has_its_own_rates() -> None:
    other = LOG.with_columns(click=~pl.col("click") & (pl.col("position") == 1))
    both = pl.concat(
        [LOG.with_columns(country=pl.lit("BR")), other.with_columns(country=pl.lit(None))]
    )
    for function in (COEC, RATES):
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
    columns = ["query", "session", "doc", "position", "click"]
    return log.select(columns).collect().sort("query", "session")


def test_against_plain_python(clicks: pl.DataFrame) -> None:
    actual, truth = COEC(clicks), _coec(clicks)
    assert actual.height == len(truth)
    for row in actual.to_dicts():
        impressions, number, expected = truth[row["query"], row["doc"]]
        assert (row["impressions"], row["clicks"]) == (impressions, number)
        assert row["expected"] == pytest.approx(expected, rel=1e-12)
    rates, counts = RATES(clicks, prior=(2, 5)), ["impressions", "clicks"]
    assert_frame_equal(rates.select(counts), actual.select(counts))
    smoothed = [(row["clicks"] + 2) / (row["impressions"] + 7) for row in actual.to_dicts()]
    assert rates["ctr"].to_list() == pytest.approx(smoothed, rel=1e-15)


FUNCTIONS: list[Callable[..., pl.LazyFrame]] = [
    COEC, RATES, partial(COEC, grades=4), partial(RATES, prior=(1, 1), by="half"),
]  # fmt: skip


@pytest.mark.parametrize("layout", ["sorted", "adjacent", "shuffled"])
def test_layouts_and_engines(layout: str, clicks: pl.DataFrame, tmp_path: Path) -> None:
    right = clicks.with_columns(half=pl.col("query") % 2)
    log = {
        "sorted": right,
        "adjacent": right.sort(-pl.col("query"), maintain_order=True),
        "shuffled": right.sample(fraction=1, shuffle=True, seed=1),
    }[layout]
    log.write_parquet(tmp_path / "log.parquet")
    for function in FUNCTIONS:
        eager = function(right)
        by = "half" if "half" in eager.columns else None
        plan = function(pr.scan_log(tmp_path / "log.parquet", by=by))
        keys = [name for name in ("half", "query", "doc") if name in eager.columns]
        for engine in ("in-memory", "streaming"):
            found = plan.collect(engine=engine).sort(keys)
            assert_frame_equal(found, eager, rel_tol=1e-12)
        assert_frame_equal(function(log), eager, rel_tol=1e-12)
        if layout == "sorted" and by is None:
            assert "in-memory-map" not in holding_nodes(plan)
    false = right.sample(fraction=1, shuffle=True, seed=1).lazy().set_sorted("query")
    with pytest.raises(pr.errors.DataError, match="rows of a ranking may not be adjacent"):
        COEC(false).collect()


def test_errors() -> None:
    rows, schema, arguments = (
        pr.errors.DataError, pr.errors.SchemaError, pr.errors.ArgumentError,
    )  # fmt: skip
    negative = LOG.lazy().with_columns(click=-1)
    no_query = LOG.with_columns(query=pl.lit(None, dtype=pl.String))
    for function, log, options, error, message in (
        (COEC, LOG.drop("position"), {}, schema, "'position' .`position`. not found"),
        (RATES, LOG, {"prior": (1,)}, arguments, "`prior` must be"),
        (COEC, LOG, {"grades": 0}, arguments, "`grades` must be a positive integer"),
        (COEC, LOG, {"grades": 1}, arguments, "`grades` must be 2 or more"),
        (RATES, LOG, {"grades": 1}, arguments, "must be 2 or more"),
        (RATES, negative.collect(), {}, rows, r"rows: .*'click' \(`click`\) has negative values"),
        (COEC, negative.set_sorted("query"), {}, rows, r"'click' \(`click`\) has negative values"),
        (COEC, LOG.rename({"doc": "coec"}), {"doc": "coec"}, arguments, "name of a result column"),
        (COEC, no_query, {}, rows, r"'query' \(`query`\) has nulls"),
    ):
        with pytest.raises(error, match=message):
            function(log, **options).lazy().collect()


def test_clicks_that_are_not_counts() -> None:
    log = pl.DataFrame({
        "query": 1, "doc": [1, 2], "position": [1, 2], "score": [2.0, 1.0], "click": [1.0, 0.3],
    })  # fmt: skip
    unseen = partial(pr.evaluate, metrics=pr.metrics.unseen_share(seen="click"))
    skipped = partial(pr.clicks.labels, kind="skip_above")
    for function in (RATES, COEC, pr.clicks.labels, skipped, unseen):
        for frame in (log, log.lazy()):
            with pytest.raises(pr.errors.DataError, match="'click' .* must be Boolean or a count"):
                function(frame).lazy().collect()
        function(log.with_columns(click=pl.Series([1.0, 2.0])))


def test_columns_that_are_not_numeric() -> None:
    values = ("1", timedelta(seconds=1), date(2026, 1, 5), [1])
    for function, column, value in product((RATES, COEC), ("click", "position"), values):
        log = LOG.with_columns(pl.Series(column, [value] * LOG.height))
        found = f"{log[column].dtype!s:.4}"
        message = rf"column '{column}' \(`{column}`\) must be numeric; found {found}"
        for frame in (log, log.lazy()):
            with pytest.raises(pr.errors.SchemaError, match=message):
                function(frame)
