"""`power`: queries that a difference or a width needs, and what `compare` then finds."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import t as student
from statsmodels.stats.power import TTestPower

import polars_rank as pr
from polars_rank.errors import ArgumentError


def table(queries: int, effect: float = 0.0, seed: int = 0) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    a = random.normal(0, 1, queries)
    b = a + effect + random.normal(0, 0.5, queries)
    query = [*range(queries)] * 2
    return pl.DataFrame({"run": ["a"] * queries + ["b"] * queries, "query": query, "x": [*a, *b]})


def test_planned_experiments_have_their_power() -> None:
    needed = pr.power(table(200, seed=9), baseline="a", difference=0.15)["needed"].item()
    tables = [table(needed, 0.15, seed).with_columns(part=seed) for seed in range(100)]
    found = pr.compare(pl.concat(tables), "x", baseline="a", by="part", correction=False)
    assert 0.7 < (found["p_value"] < 0.05).mean() < 0.9


def test_widths_are_those_of_later_intervals() -> None:
    plan = pr.power(table(50), "x", baseline="a", width=0.2).row(0, named=True)
    total = 50 + plan["n"]
    widths = [
        row["high"] - row["low"]
        for seed in range(20)
        for row in pr.compare(table(total, seed=seed), baseline="a").iter_rows(named=True)
    ]
    assert np.mean(widths) == pytest.approx(0.2, rel=0.15)
    now = pr.power(table(50), "x", baseline="a", n=0)["width"].item()
    row = pr.compare(table(50), baseline="a").row(0, named=True)
    assert now == pytest.approx(row["high"] - row["low"], rel=0.02)


def test_power_is_that_of_the_t_test_at_the_level_divided_by_the_number_of_comparisons() -> None:
    for comparisons, metrics in ((None, 1), (None, 2), (2, 1), (5, 2)):
        values = table(40).with_columns(y=-pl.col("x")).select("run", "query", *"xy"[:metrics])
        rows = pr.power(values, baseline="a", difference=0.2, comparisons=comparisons)
        number = comparisons or metrics
        effect, law = 0.2 / rows["std"][0], TTestPower()
        assert rows["comparisons"].to_list() == [number] * metrics
        assert rows["power"][0] == pytest.approx(law.power(effect, 40, 0.05 / number))
        needed = law.solve_power(effect, None, 0.05 / number, 0.8)
        assert rows["needed"][0] == int(np.ceil(needed))
        detectable = law.solve_power(None, 40, 0.05 / number, 0.8) * rows["std"][0]
        assert rows["detectable"][0] == pytest.approx(detectable, rel=1e-5)
        assert rows["needed_low"][0] < rows["needed"][0] < rows["needed_high"][0]


def test_each_group_is_corrected_for_its_own_comparisons() -> None:
    """Three runs of one part are three pairs, and two runs of the other are one."""
    third = table(40, seed=1).filter(run="b").with_columns(run=pl.lit("c"))
    values = pl.concat([
        table(40).with_columns(part=1), third.with_columns(part=1), table(40).with_columns(part=2),
    ])  # fmt: skip
    rows = pr.power(values, "x", by="part", difference=0.2)
    assert rows.select("part", "comparisons").rows() == [(1, 3)] * 3 + [(2, 1)]


def test_widths_are_of_corrected_intervals() -> None:
    """The width is 2 t se √(n / N), with n - 1 degrees of freedom for N queries."""
    values = table(50)
    std = (values.filter(run="b")["x"] - values.filter(run="a")["x"]).std()
    for comparisons, confidence in ((None, 0.95), (1, 0.95), (4, 1 - 0.05 / 4)):
        row = pr.power(values, "x", baseline="a", n=30, comparisons=comparisons)
        half = student.ppf((1 + confidence) / 2, 79) * std / np.sqrt(80)
        assert row["width"].item() == pytest.approx(2 * half)
    means = pr.power(values, "x", n=0)
    intervals = pr.summarize(values, "x")
    widths = (intervals["high"] - intervals["low"]).to_list()
    assert means["width"].to_list() == pytest.approx(widths, rel=0.1)


@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_the_observed_difference_and_equal_values_have_no_power() -> None:
    row = pr.power(table(40, 0.3), baseline="a").row(0, named=True)
    assert row["power"] is None
    assert row["target"] == pytest.approx(abs(row["difference"]))
    found = pr.power(table(40, 0.3), baseline="a", difference=row["target"])
    assert row["needed"] == found["needed"].item()
    equal = pr.power(table(10).with_columns(x=pl.lit(0.5)), baseline="a", difference=0.1)
    assert equal.select("power", "needed").row(0) == (None, None)


def test_plans_have_30_queries_and_10_that_differ() -> None:
    """A difference of 1,000 is detected by 2 queries; if 1 of 4 differs, 10 are of 40."""
    large = pr.power(table(40), baseline="a", difference=1_000).row(0, named=True)
    assert (large["needed_low"], large["needed"], large["needed_high"]) == (30, 30, 30)
    half = pl.when(pl.col("query") % 4 == 0).then("x").otherwise(0.5)
    rare = pr.power(table(40).with_columns(x=half), baseline="a", difference=1_000)
    assert rare["needed"].item() == 40
    hits = table(40).with_columns(x=(pl.col("x") > 0).cast(pl.Float64))
    assert pr.power(hits, baseline="a", difference=1_000)["needed"].item() == 30


def test_bad_input() -> None:
    for options, message in (
        ({"difference": 0}, "`difference`"),
        ({"power": 0.01}, "`power` must be above"),
        ({"width": 0.1, "n": 3}, "either `n` or `width`"),
        ({"width": -0.1}, "`width`"),
        ({"n": []}, "at least one"),
        ({"n": -1}, "`n`"),
        ({"n": 3, "cluster": "query"}, "`cluster` is not supported"),
        ({"comparisons": 0}, "`comparisons`"),
        ({"comparisons": 1.5}, "`comparisons`"),
    ):
        with pytest.raises(ArgumentError, match=message):
            pr.power(table(40), baseline="a", **options)
