"""`summarize`: means, their errors, and the methods of their intervals."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import polars as pl
import pytest
from pytest import approx
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy.stats import beta, norm
from scipy.stats import t as student

import polars_rank as pr
from polars_rank.errors import ArgumentError, DataError, RankWarning, SchemaError


def table(values: list[float | None], **columns: list[object]) -> pl.DataFrame:
    return pl.DataFrame({"query": range(len(values)), "x": values, **columns}, strict=False)


def hall(mean: float, error: float, a: float, q: float) -> float:
    """The bound of Hall (1992) for a quantile q, written independently."""
    inner = 1 + 6 * a * (q - a)
    root = math.copysign(abs(inner) ** (1 / 3), inner)
    return mean - error * (root - 1) / (2 * a)


def test_each_bound_is_the_wider_of_t_and_hall() -> None:
    x = np.array([0.0] * 30 + [0.1, 0.2, 0.2, 0.3, 0.4, 0.4, 0.5, 0.8, 0.9, 1.0])
    row = pr.summarize(table(list(x))).row(0, named=True)
    mean, error = x.mean(), x.std(ddof=1) / math.sqrt(40)
    e = x - mean
    a = (e**3).sum() / (6 * (e**2).sum() ** 1.5)
    q = student.ppf(0.975, 39)
    assert a > 0
    assert row["low"] == approx(min(mean - q * error, hall(mean, error, a, q)))
    assert row["high"] == approx(max(mean + q * error, hall(mean, error, a, -q)))
    # Values that are skewed to the right have a longer interval above.
    assert row["high"] > mean + q * error
    assert row["low"] == approx(mean - q * error)


def test_symmetric_values_have_the_t_interval() -> None:
    x = np.array([0.1, 0.5, 0.9, 0.3, 0.7] * 6)
    row = pr.summarize(table(list(x)), confidence=0.9).row(0, named=True)
    low, high = student.interval(0.9, 29, x.mean(), x.std(ddof=1) / math.sqrt(30))
    assert row["method"] == "t"
    assert (row["low"], row["high"]) == approx((low, high))


def test_methods() -> None:
    for metric, values, method in (
        ("rr", [0.1, 0.5, 0.9] * 10, "t"),
        ("rr", [0.1, 0.5, 0.9] * 9, "bounded"),  # 27 queries
        ("rr", [0.5] * 30 + [0.1, 0.9] * 4, "bounded"),  # 8 differ from most
        ("rr", [0.5] * 30 + [0.1, 0.9] * 5, "t"),
        ("rr", [0.5] * 30 + [0.505, 0.495] * 5, "bounded"),  # by less than 1% of the range
        ("rr", [1.0, 0.0] * 20, "clopper-pearson"),
        ("x", [1.0, 0.0], "clopper-pearson"),
        ("x", [0.1, 0.5, 0.9] * 10, "t"),
        ("rr", [0.5], "none"),
        ("rr", [], "none"),
    ):
        rows = table(values).cast({"x": pl.Float64}).rename({"x": metric})
        row = pr.summarize(rows, metric, run=None).row(0, named=True)
        assert (row["method"], row["queries"]) == (method, len(values)), values
        assert (row["low"] is None) == (method == "none")
    random = np.random.default_rng(0)
    # Below 10 clusters, or 30 independent queries, t does not hold.
    for users, queries, method in ((9, 10, "bounded"), (10, 10, "t"), (10, 2, "bounded")):
        values = table(list(random.random(users * queries))).rename({"x": "rr"})
        values = values.with_columns(user=pl.col("query") // queries)
        assert pr.summarize(values, "rr", cluster="user")["method"].item() == method
    # One method for all groups of a metric.
    values = table([1.0, 0.0] * 20 + [0.5, 0.2, 1.0, 0.0] * 10, part=["a"] * 40 + ["b"] * 40)
    assert pr.summarize(values, "x", by="part")["method"].to_list() == ["t", "t"]


def test_few_values_without_a_known_range_warn() -> None:
    message = "fewer than 30 queries, or 10 that differ from most, in 1 row, e.g. of 'x': without a"
    for values in ([0.1, 0.5, 0.9] * 9, [0.5] * 30 + [0.1, 0.9] * 4):
        for rows in (table(values), table(values).lazy()):
            with pytest.warns(RankWarning, match=message):
                found = pr.summarize(rows).lazy().collect(engine="streaming")
            row = found.row(0, named=True)
            n, mean, std = len(values), np.mean(values), np.std(values, ddof=1)
            low, high = student.interval(0.95, n - 1, mean, std / math.sqrt(n))
            assert (row["method"], row["low"], row["high"]) == ("t", *map(approx, (low, high)))


def test_values_of_0_and_1_have_the_interval_of_clopper_and_pearson() -> None:
    for hits, n in ((19, 20), (10, 10), (0, 3), (60, 100)):
        low = beta.ppf(0.025, hits, n - hits + 1) if hits else 0.0
        high = beta.ppf(0.975, hits + 1, n - hits) if hits < n else 1.0
        for dtype in (pl.Float64, pl.Int64, pl.Boolean):
            values = table([1.0] * hits + [0.0] * (n - hits)).cast({"x": dtype})
            row = pr.summarize(values, "x").row(0, named=True)
            assert row["method"] == "clopper-pearson"
            assert (row["low"], row["high"]) == approx((low, high))


def test_proportions_of_clusters_have_their_effective_number_of_queries() -> None:
    """Korn & Graubard: n = p (1 - p) / se² independent queries, times (z / t)²."""
    hits = pl.Series([1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 0, 0] * 8)
    values = table(hits, user=[query // 3 for query in range(96)])
    row = pr.summarize(values, "x", cluster="user", details=True).row(0, named=True)
    # Each user has 3 queries, and a mean of 1, 2/3, 0 or 1/3, so that p = 1/2 and the variance of
    # the means is (1/4 + 1/36 + 1/4 + 1/36) / 4 · 32/31 = 5/36 · 32/31.
    square = 5 / 36 * 32 / 31 / 32
    n = 1 / 4 / square * (norm.ppf(0.975) / student.ppf(0.975, 31)) ** 2
    low, high = beta.ppf([0.025, 0.975], [n / 2, n / 2 + 1], [n / 2 + 1, n / 2])
    assert row["method"] == "clopper-pearson"
    assert (row["std_error"], row["low"], row["high"]) == approx((math.sqrt(square), low, high))
    # 4 users with equal values have as much information as 4 queries, of which 2 have hits.
    values = table([1.0] * 10 + [0.0] * 10, user=[query // 5 for query in range(20)])
    row = pr.summarize(values, "x", cluster="user").row(0, named=True)
    low, high = beta.ppf([0.025, 0.975], [2, 3], [3, 2])
    assert row["method"] == "bounded"
    assert (row["low"], row["high"]) == approx((low, high))


def test_weighted_values_of_0_and_1_have_the_t_interval() -> None:
    values = table([1.0, 1.0, 0.0, 0.0] * 10, w=[1.0, 2.0, 2.0, 1.0] * 10)
    row = pr.summarize(values, "x", weight="w").row(0, named=True)
    # Σw = 60, Σw² = 100 and n = 36, 90% of 40. The mean is 30 / 60, and Σ(w / 2)² = 25.
    error = math.sqrt(36 / 35 * 25) / 60
    low, high = student.interval(0.95, 39, 0.5, error)
    assert row["method"] == "t"
    assert (row["low"], row["high"]) == approx((low, high))


def test_unequal_weights_have_fewer_degrees_of_freedom() -> None:
    for outlier, degrees in (
        # (Σe²)² / Σe⁴ - 1 is 1.2, and (n - 1) / 2 with n = 103² / (64² + 39) is more.
        (0.9, (103**2 / (64**2 + 39) - 1) / 2),
        (0.5, None),
    ):
        weights = np.array([64.0] + [1.0] * 39)
        x = np.array([outlier] + [0.5 + 0.3 * (-1) ** place for place in range(39)])
        values = table(list(x), w=list(weights))
        with pytest.warns(RankWarning, match="fewer than 5 degrees of freedom"):
            row = pr.summarize(values, "x", weight="w", details=True).row(0, named=True)
        mean, kish = weights @ x / weights.sum(), weights.sum() ** 2 / (weights @ weights)
        e = weights * (x - mean)
        error = math.sqrt(kish / (kish - 1) * (e @ e)) / weights.sum()
        assert row["std_error"] == approx(error)
        expected = max(min((e @ e) ** 2 / (e**4).sum(), kish) - 1, (kish - 1) / 2)
        assert degrees is None or expected == approx(degrees)
        q = student.ppf(0.975, expected)
        a = (e**3).sum() / (6 * (e @ e) ** 1.5)
        assert row["low"] == approx(min(mean - q * error, hall(mean, error, a, q)))
        assert row["high"] == approx(max(mean + q * error, hall(mean, error, a, -q)))


def test_units() -> None:
    values = pl.DataFrame({"query": [1, 2, 1, 2], "day": [1, 1, 2, 2], "x": [0.0, 1.0, 1.0, 0.0]})
    options: dict[str, Any] = {"query": ["query", "day"]}
    with pytest.warns(RankWarning, match='cluster="query"'):  # queries recur
        pr.summarize(values, "x", **options)
    for cluster in ("query", ["query", "day"]):
        pr.summarize(values, "x", cluster=cluster, **options)
    pr.summarize(values.with_columns(query=pl.Series([1, 2, 3, 4])), "x", **options)
    with pytest.warns(RankWarning, match="each row counts as a query"):
        row = pr.summarize(pl.DataFrame({"rr": [0.0, 0.2, 0.9]})).row(0, named=True)
    assert row["queries"] == 3
    with pytest.warns(RankWarning, match="all values are equal in 1 row"):
        row = pr.summarize(table([0.5] * 9)).row(0, named=True)
    assert (row["mean"], row["low"], row["high"], row["method"]) == (0.5, None, None, "none")


def test_slices_stand_beside_all_queries() -> None:
    for value, text in (("DE", "DE"), (False, "false"), (0.5, "0.5")):
        values = table([0.1, 0.3, 0.8, 0.6], country=[value, value, None, None])
        result = pr.summarize(values.rename({"x": "rr"}), "rr", slices="country")
        assert result.select("slice", "value", "mean", "queries").rows() == [
            (None, None, approx(0.45), 4),
            ("country", None, approx(0.7), 2),
            ("country", text, approx(0.2), 2),
        ]


def test_repeated_looks_have_wider_intervals() -> None:
    values = table(list(np.random.default_rng(0).normal(0, 1, 1000)))
    one = pr.summarize(values, "x").row(0, named=True)
    many = pr.summarize(values, "x", repeated=True).row(0, named=True)
    # The sequence of Waudby-Smith et al. (2021) at the number of units where it is narrowest.
    alpha = 0.05
    ahead = -2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))
    width = math.sqrt(2 * (ahead + 1) / ahead * math.log(math.sqrt(ahead + 1) / alpha))
    error = np.std(values["x"].to_numpy(), ddof=1) / math.sqrt(1000)
    assert many["high"] - many["low"] == approx(2 * width * error)
    assert many["high"] - many["low"] > one["high"] - one["low"]


@settings(max_examples=30)
@given(
    st.sampled_from(["rr", "x"]),
    st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0]), min_size=2, max_size=40),
    st.sampled_from([{}, {"weight": "w"}, {"cluster": "user"}, {"weight": "w", "cluster": "user"}]),
    st.sampled_from([0.5, 0.95, 0.9999]),
)
@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_intervals_are_within_the_range_and_do_not_depend_on_the_order_of_rows(
    metric: str, values: list[float], options: dict, confidence: float
) -> None:
    rows = table(values).rename({"x": metric}).with_columns(
        w=1 + pl.col("query") % 3, user=pl.col("query") // 2
    )  # fmt: skip
    options = {"confidence": confidence, "details": True, **options}
    eager = pr.summarize(rows, metric, **options)
    for engine in ("in-memory", "streaming"):
        assert_frame_equal(
            pr.summarize(rows.lazy(), metric, **options).collect(engine=engine), eager
        )
    shuffled = pr.summarize(rows.sample(fraction=1.0, shuffle=True, seed=1), metric, **options)
    assert_frame_equal(shuffled, eager, rel_tol=1e-6, abs_tol=1e-6)
    row = eager.row(0, named=True)
    if row["low"] is not None:
        assert row["low"] <= row["mean"] + 1e-9
        assert row["high"] >= row["mean"] - 1e-9
        assert metric == "x" or 0 <= row["low"] <= row["high"] <= 1


def test_bad_input() -> None:
    nulls = (DataError, "null, negative")
    for columns, options, error, message in (
        (
            {"x": [1.0, float("nan")]},
            {},
            DataError,
            "1 row: NaN or infinite values in the column 'x'",
        ),
        ({"x": [1.0, 1e200]}, {}, DataError, "values above 1e\\+150"),
        ({"w": [1.0, -1.0]}, {"weight": "w"}, *nulls),
        ({"w": [1.0, None]}, {"weight": "w"}, *nulls),
        ({"w": [1.0, float("nan")]}, {"weight": "w"}, *nulls),
        ({"w": [1.0, 1e-200]}, {"weight": "w"}, DataError, "overflow or underflow"),
        ({"query": [1, 1]}, {}, DataError, "duplicate rankings.*cluster"),
        ({}, {"slices": "county"}, SchemaError, "column 'county' \\(`slices`\\) not found"),
        ({}, {"by": "query"}, ArgumentError, "'query'"),
        ({}, {"confidence": 1.0}, ArgumentError, "confidence"),
        ({"score": [1.0, 2.0], "label": [1, 0]}, {"metrics": None}, SchemaError, "it is a log"),
    ):
        rows = pl.DataFrame({"query": [1, 2], "x": [0.1, 0.2], **columns})
        for each in (rows, rows.lazy()):
            with pytest.raises(error, match=message):
                pr.summarize(each, **{"metrics": "x", **options}).lazy().collect()
