"""Intervals and tests of values with a known range, for any distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.stats import beta

import polars_rank as pr
from polars_rank.errors import RankWarning

from .plain import dirichlet_means

#: Five standard errors of a share of 2.5% of the draws.
CLOSE = 5 * math.sqrt(0.025 * 0.975 / 1_000_000)
VALUES = [0.1, 0.15, 0.2, 0.5, 1.0, 0.0, 0.3, 0.3, 0.9, 1 / 3, 0.25]
WEIGHTS = [1.0, 2.0, 1.0, 3.0, 0.5, 1.0, 1.0, 4.0, 1.0, 2.0, 1.0]


def table(values: Any, **columns: Any) -> pl.DataFrame:
    return pl.DataFrame({"query": range(len(values)), "rr": values, **columns}, strict=False)


def pair(base: Any, values: Any, metric: str = "rr", **columns: Any) -> pl.DataFrame:
    parts = [
        pl.DataFrame({"run": name, "query": range(len(x)), metric: x, **columns}, strict=False)
        for name, x in (("a", base), ("b", values))
    ]
    return pl.concat(parts)


def test_values_at_the_ends_of_the_range_have_the_interval_of_clopper_and_pearson() -> None:
    # In the last row few units differ, so that t does not hold.
    cases = [(hits, 13, level) for hits in (0, 1, 7, 12, 13) for level in (0.95, 0.8)]
    for hits, n, confidence in (*cases, (3, 5_000, 0.95)):
        tail = (1 - confidence) / 2
        # A value of run b shows that the metric has other values than 0 and 1.
        values = pair([1.0] * hits + [0.0] * (n - hits), [0.5] * n)
        row = pr.summarize(values, confidence=confidence).row(0, named=True)
        low = beta.ppf(tail, hits, n - hits + 1) if hits else 0.0
        high = beta.ppf(1 - tail, hits + 1, n - hits) if hits < n else 1.0
        assert row["method"] == "bounded"
        assert (row["low"], row["high"]) == pytest.approx((low, high), abs=1e-8)


@pytest.mark.filterwarnings("ignore:fewer than 5 degrees of freedom")
@pytest.mark.parametrize("options", [{}, {"weight": "w"}, {"cluster": "user"},
                                     {"weight": "w", "cluster": "user"}], ids=str)  # fmt: skip
def test_bounds_are_quantiles_of_means_with_random_weights(options: dict[str, str]) -> None:
    user = [0, 0, 1, 1, 1, 2, 3, 4, 5, 6, 6]
    values = table(VALUES, w=WEIGHTS, user=user)
    row = pr.summarize(values, "rr", **options).row(0, named=True)
    weights = WEIGHTS if "weight" in options else [1.0] * len(VALUES)
    units = user if "cluster" in options else [*range(len(VALUES))]
    rows = [*zip(VALUES, weights, units, strict=True)]
    of_unit = [sum(w for _, w, u in rows if u == n) for n in {*units}]
    sums = [sum(w * x for x, w, u in rows if u == n) for n in {*units}]
    means = [each / weight for each, weight in zip(sums, of_unit, strict=True)]
    assert row["method"] == "bounded"
    assert row["mean"] == pytest.approx(sum(sums) / sum(of_unit))
    below = (dirichlet_means(means, 0.0, of_unit) < row["low"]).mean()
    above = (dirichlet_means(means, 1.0, of_unit) > row["high"]).mean()
    assert (below, above) == pytest.approx((0.025, 0.025), abs=CLOSE)


@pytest.mark.filterwarnings("ignore:fewer than 5 degrees of freedom")
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("weight", [None, "w"])
def test_differences_are_between_minus_and_plus_the_range(engine: Any, weight: str | None) -> None:
    base = [0.5, 0.5, 0.25, 0.0, 1.0, 0.5, 0.2, 0.1, 0.5, 0.5, 0.0]
    values = pair(base, VALUES, w=WEIGHTS)
    found = pr.compare(values.lazy(), "rr", baseline="a", weight=weight).collect(engine=engine)
    row, differences = found.row(0, named=True), np.array(VALUES) - base
    weights = WEIGHTS if weight else None
    lowest, highest = (dirichlet_means(differences, end, weights) for end in (-1.0, 1.0))
    assert row["method"] == "bounded"
    assert (lowest < row["low"]).mean() == pytest.approx(0.025, abs=CLOSE)
    assert (highest > row["high"]).mean() == pytest.approx(0.025, abs=CLOSE)
    p_value = min(1.0, 2 * (lowest < 0).mean(), 2 * (highest > 0).mean())
    assert row["p_value"] == pytest.approx(p_value, abs=0.003)


def test_relative_bounds_invert_the_same_test() -> None:
    base = [0.5, 0.5, 0.25, 0.2, 1.0, 0.5, 0.2, 0.1, 0.5, 0.5, 0.4, 0.6]
    run = [0.6, 0.7, 0.25, 0.4, 1.0, 0.9, 0.2, 0.2, 1.0, 0.5, 0.8, 1.0]
    row = pr.compare(pair(base, run), baseline="a", details=True).row(0, named=True)
    assert row["method"] == "bounded"
    for name, side in (("relative_low", -1), ("relative_high", 1)):
        # The run is 1 + r times the baseline if run - (1 + r) baseline has the mean 0; it is
        # between -(1 + r) and 1.
        times = 1 + row[name]
        contrast = np.array(run) - times * np.array(base)
        drawn = dirichlet_means(contrast, -times if side < 0 else 1.0)
        assert (side * drawn > 0).mean() == pytest.approx(0.025, abs=CLOSE)


def test_intervals_of_t_that_would_leave_the_range_are_bounded() -> None:
    """The mean of 60 values is (15 · 0.8 + 45) / 60 = 0.95, and t with Hall would end above 1."""
    x = [0.1] * 2 + [0.9] * 13 + [0.98, 0.99, 1.0] * 15
    known = pr.summarize(table(x), confidence=0.999).row(0, named=True)
    unknown = pr.summarize(table(x).rename({"rr": "x"}), confidence=0.999).row(0, named=True)
    assert (known["method"], unknown["method"]) == ("bounded", "t")
    assert unknown["high"] > 1 >= known["high"]
    assert 0 <= known["low"] < known["mean"] < known["high"]
    # All 20 values are 0.5: the weight of the end is the first of 21, beta(1, 20).
    row = pr.summarize(table([0.5] * 20)).row(0, named=True)
    half = 0.5 * beta.ppf(0.975, 1, 20)
    assert row["method"] == "bounded"
    assert (row["low"], row["high"]) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-8)


def test_the_p_value_is_that_of_the_bounded_interval_if_t_would_leave_the_range() -> None:
    """34 differences are 0.98, and 10 are -0.98; t, with a p-value of 0.003, would end above 1."""
    run = np.array([0.99] * 34 + [0.01] * 10)
    options: dict[str, Any] = {"baseline": "a", "confidence": 0.9995, "details": True}
    for correction in (True, False):
        found = pr.compare(pair(1 - run, run), correction=correction, **options)
        row = found.row(0, named=True)
        assert (row["method"], row["verdict"]) == ("bounded", "better")
        assert min(row["low"], row["relative_low"]) > 0
        assert row["p_value"] < 0.0005


def test_many_different_values_are_rounded_away_from_the_mean() -> None:
    """Of 6,000 differences from 0 to 0.4, 4,096 are distinguished."""
    random = np.random.default_rng(0)
    base, change = random.uniform(0.1, 0.5, 6_000), random.uniform(0, 0.004, 6_000)
    change[:5] = 0.4
    row = pr.compare(pair(base, base + change), baseline="a").row(0, named=True)
    assert row["method"] == "bounded"
    drawn = [dirichlet_means(list(change), end, draws=10_000) for end in (-1.0, 1.0)]
    low, high = np.quantile(drawn[0], 0.025), np.quantile(drawn[1], 0.975)
    assert low - 0.4 / 4_096 < row["low"] < low
    assert high < row["high"] < high + 0.4 / 4_096


def test_the_range_is_that_of_the_metric() -> None:
    """`mcc` is between -1 and 1, and an expression with the name of a column has its range."""
    values = table(VALUES).with_columns(mcc=2 * pl.col("rr") - 1, x=pl.col("rr"))
    known, scaled, named = (
        pr.summarize(values, metric).row(0, named=True)
        for metric in ("rr", "mcc", pr.reciprocal_rank().alias("x"))
    )
    for name in ("mean", "low", "high"):
        assert scaled[name] == pytest.approx(2 * known[name] - 1, abs=1e-9)
        assert named[name] == known[name]


def test_a_value_outside_of_the_range_of_a_metric_has_no_known_range() -> None:
    for outside in (-0.01, 1.01):
        with pytest.warns(RankWarning, match="without a known range of the values"):
            row = pr.summarize(table([*VALUES, outside])).row(0, named=True)
        assert row["method"] == "t"
        compared = pair(VALUES, [*VALUES[1:], outside])
        assert pr.compare(compared, baseline="a")["method"].item() == "none"


def test_ratios_of_many_equal_values() -> None:
    """No loss in n queries is a share of at most 1 - 0.025^(1/n), of the baseline's 1, too."""
    queries = 70_000
    compared = pr.compare(pair([1.0] * queries, [1.0] * queries), baseline="a", details=True)
    row = compared.row(0, named=True)
    lost = 1 - 0.025 ** (1 / queries)
    assert row["low"] == pytest.approx(-lost, rel=1e-6)
    assert row["relative_low"] == pytest.approx(-lost, rel=1e-3)
    assert row["relative_high"] == pytest.approx(lost, rel=1e-3)
