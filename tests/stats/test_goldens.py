"""The numbers of statistics are those of before the kernel: fixtures/write_statistics.py."""

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
every_case = pytest.mark.parametrize("case", CASES)


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


@pytest.fixture(scope="module")
def human(values: pl.DataFrame) -> pl.DataFrame:
    return values.filter(pl.col("query") % 3 == 0)


def assert_golden(
    result: pl.DataFrame, name: str, case: str, keys: list[str], columns: list[str]
) -> pl.DataFrame:
    """Compare columns with those of before, and return both tables side by side."""
    golden = read(name).filter(pl.col("case") == case)
    both = [table.select(*keys, *columns).sort(keys) for table in (result, golden)]
    assert_frame_equal(*both, rel_tol=1e-11, abs_tol=1e-13)
    return result.join(golden, on=keys, suffix="_golden", nulls_equal=True)


@every_case
def test_means(values: pl.DataFrame, case: str) -> None:
    result = pr.summarize(values, METRICS, details=True, **CASES[case])
    both = assert_golden(result, "summarize_t", case, ROW, MEANS)
    # The bounds of before are those of t with Kish's number of units.
    for row in both.iter_rows(named=True):
        half = student.ppf(0.975, row["effective"] - 1) * row["std_error"]
        assert row["low_golden"] == pytest.approx(row["mean"] - half, rel=1e-10)


@every_case
def test_differences(values: pl.DataFrame, case: str) -> None:
    options = {"baseline": "a", "correction": False, "details": True, **CASES[case]}
    result = pr.compare(values, METRICS, **options)
    assert_golden(result, "compare_t", case, ROW, DIFFERENCES)
    groups = pr.compare(values, METRICS, by="country", **options)
    assert_golden(groups, "compare_by_t", case, ["country", *ROW], DIFFERENCES)


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


@every_case
def test_slices(values: pl.DataFrame, case: str) -> None:
    options = {"baseline": "a", "min_queries": 2, "details": True, **CASES[case]}
    result = pr.compare(values, METRICS, slices=["country", "day"], **options)
    sliced = result.filter(pl.col("slice").is_not_null()).rename({"slice": "column"})
    columns = ["mean", "baseline_mean", "difference", "queries", "contribution"]
    assert_golden(sliced, "slices", case, [*ROW, "column", "value"], columns)


@every_case
def test_predictions(human: pl.DataFrame, case: str) -> None:
    predicted, columns = read_values("predictions"), ["queries", "predicted", "judge_weight"]
    columns += ["effective_queries"]
    result = pr.judges.estimate(human, predicted, METRICS, **CASES[case])
    assert_golden(result, "summarize_predictions_t", case, ROW, ["mean", *columns])
    result = pr.judges.estimate(human, predicted, METRICS, baseline="a", **CASES[case])
    assert_golden(result, "compare_predictions_t", case, ROW, ["difference", *columns])


@every_case
def test_leaderboard(values: pl.DataFrame, case: str) -> None:
    board = pr.leaderboard(values, METRICS, details=True, **CASES[case])
    assert_golden(board, "leaderboard", case, ROW, ["rank", "mean", "queries", "missing"])


@every_case
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
