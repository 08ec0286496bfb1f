"""The numbers of statistics are those of files in fixtures/statistics."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from scipy.stats import t as student

import polars_rank as pr

FOLDER = Path(__file__).parents[1] / "fixtures" / "statistics"
METRICS = ["ndcg@10", "rr", "hit_rate@5", "rare"]
ROW = ["run", "metric"]
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "weight": {"weight": "traffic"},
    "cluster": {"cluster": "user"},
    "both": {"weight": "traffic", "cluster": "user"},
}
MEANS = ["mean", "std", "std_error", "skewness", "queries"]
DIFFERENCES = [
    *("mean", "baseline_mean", "difference", "relative_difference", "skewness"),
    *("wins", "losses", "ties", "queries", "missing"),
]

pytestmark = pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")


def read(name: str) -> pl.DataFrame:
    """Read a table, in which `used` was the number of values that count, today's `queries`."""
    table = pl.read_parquet(FOLDER / f"{name}.parquet")
    if "used" in table.columns:
        table = table.drop("queries", strict=False).rename({"used": "queries"})
    return table


def read_values(name: str) -> pl.DataFrame:
    """Read per-query values in which undefined metrics count as 0; nulls of "rare" do not count."""
    return read(name).with_columns(pl.col("ndcg@10", "rr", "hit_rate@5").fill_null(0.0))


@pytest.fixture(scope="module")
def values() -> pl.DataFrame:
    return read_values("values")


def assert_golden(
    result: pl.DataFrame, name: str, case: str, keys: list[str], columns: list[str]
) -> pl.DataFrame:
    """Compare columns with those of before, and return both tables side by side."""
    golden = read(name).filter(pl.col("case") == case)
    both = [table.select(*keys, *columns).sort(keys) for table in (result, golden)]
    assert_frame_equal(*both, rel_tol=1e-11, abs_tol=1e-13)
    return result.join(golden, on=keys, suffix="_golden", nulls_equal=True)


@pytest.mark.parametrize("case", CASES)
def test_tables(values: pl.DataFrame, case: str) -> None:
    options: dict[str, Any] = {"metrics": METRICS, **CASES[case]}
    result = pr.summarize(values, details=True, **options)
    both = assert_golden(result, "summarize_t", case, ROW, MEANS)
    # The bounds of before are those of t with Kish's number of units.
    for row in both.iter_rows(named=True):
        half = student.ppf(0.975, row["effective"] - 1) * row["std_error"]
        assert row["low_golden"] == pytest.approx(row["mean"] - half, rel=1e-10)
    pair = {"baseline": "a", "correction": False, "details": True, **options}
    assert_golden(pr.compare(values, **pair), "compare_t", case, ROW, DIFFERENCES)
    groups = pr.compare(values, by="country", **pair)
    assert_golden(groups, "compare_by_t", case, ["country", *ROW], DIFFERENCES)
    slices = pr.compare(values, slices=["country", "day"], min_queries=2, **pair)
    sliced = slices.filter(pl.col("slice").is_not_null()).rename({"slice": "column"})
    columns = ["mean", "baseline_mean", "difference", "queries", "contribution"]
    assert_golden(sliced, "slices", case, [*ROW, "column", "value"], columns)
    board = pr.leaderboard(values, details=True, **options)
    assert_golden(board, "leaderboard", case, ROW, ["rank", "mean", "queries", "missing"])
    human, predicted = values.filter(pl.col("query") % 3 == 0), read_values("predictions")
    columns = ["queries", "predicted", "judge_weight", "effective_queries"]
    result = pr.judges.estimate(human, predicted, **options)
    assert_golden(result, "summarize_predictions_t", case, ROW, ["mean", *columns])
    result = pr.judges.estimate(human, predicted, baseline="a", **options)
    assert_golden(result, "compare_predictions_t", case, ROW, ["difference", *columns])


def test_p_values_without_weights(values: pl.DataFrame) -> None:
    result = pr.compare(values, METRICS, baseline="a", correction=False, details=True)
    golden = read("compare_auto").filter(case="plain")
    both = result.join(golden, on=ROW, suffix="_golden")
    # Hall's correction widens one side, and Tango's interval is as before.
    assert (both["p_value"] >= both["p_value_golden"] - 1e-12).all()
    assert (both["low"] <= both["low_golden"] + 1e-12).all()
    binary = both.filter(pl.col("method") == "tango")
    for name in ("low", "high", "p_value"):
        expected = binary[f"{name}_golden"].to_list()
        assert binary[name].to_list() == pytest.approx(expected, rel=1e-11), name


@pytest.mark.parametrize("case", CASES)
def test_power(values: pl.DataFrame, case: str) -> None:
    plan = pr.power(values, METRICS, baseline="a", difference=0.05, comparisons=1, **CASES[case])
    columns = ["queries", "difference", "std", "target", "power", "detectable"]
    both = assert_golden(plan, "power", case, ROW, columns)
    # At least 30 queries, and 10 that differ if as many differ as now.
    pairs = pr.compare(values, METRICS, baseline="a", details=True, **CASES[case])
    both = both.join(pairs.select(*ROW, "wins", "losses"), on=ROW)
    for row in both.iter_rows(named=True):
        least = 30.0
        if row["metric"] != "hit_rate@5":
            least = max(30, 10 * row["queries"] / (row["wins"] + row["losses"]))
        for name in ("needed_low", "needed", "needed_high"):
            assert row[name] == max(row[name + "_golden"], math.ceil(least - 1e-9)), row


def test_rules(values: pl.DataFrame) -> None:
    tables = [pr.summarize(values, METRICS), pr.compare(values, METRICS, baseline="a")]
    rules = ["rr >= 0.5", "hit_rate@5 >= 0.5", "difference(ndcg@10) >= -0.02", "queries >= 100"]
    result = pr.check(tables, rules, on_fail="return")
    golden = read("check")
    keys = ["rule", "where"]
    both = result.join(golden, on=keys, suffix="_golden")
    assert len(both) == len(golden) == len(result)
    assert both["value"].to_list() == pytest.approx(both["value_golden"].to_list(), rel=1e-11)
    # The bounds of Clopper and Pearson do not change.
    binary = both.filter(pl.col("rule").str.starts_with("hit_rate"))
    assert binary["low"].to_list() == pytest.approx(binary["low_golden"].to_list(), rel=1e-9)
