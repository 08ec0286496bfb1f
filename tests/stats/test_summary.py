"""`summarize`: means, their errors, and the methods of their intervals."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy.stats import t as student
from statsmodels.stats.proportion import proportion_confint

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
    x = np.array([0.0] * 16 + [0.1, 0.4, 0.9, 1.0])
    row = pr.summarize(table(list(x))).row(0, named=True)
    mean, error = x.mean(), x.std(ddof=1) / math.sqrt(20)
    e = x - mean
    a = (e**3).sum() / (6 * (e**2).sum() ** 1.5)
    q = student.ppf(0.975, 19)
    assert a > 0
    assert row["low"] == pytest.approx(min(mean - q * error, hall(mean, error, a, q)))
    assert row["high"] == pytest.approx(max(mean + q * error, hall(mean, error, a, -q)))
    # Values that are skewed to the right have a longer interval above.
    assert row["high"] > mean + q * error
    assert row["low"] == pytest.approx(mean - q * error)


def test_symmetric_values_have_the_t_interval() -> None:
    row = pr.summarize(table([0.1, 0.5, 0.9, 0.3, 0.7]), confidence=0.9).row(0, named=True)
    x = np.array([0.1, 0.5, 0.9, 0.3, 0.7])
    low, high = student.interval(0.9, 4, x.mean(), x.std(ddof=1) / math.sqrt(5))
    assert (row["low"], row["high"]) == pytest.approx((low, high))


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Int64, pl.Boolean])
def test_values_of_0_and_1_have_wilsons_interval(dtype: pl.DataType) -> None:
    values = table([1.0] * 19 + [0.0]).with_columns(pl.col("x").cast(dtype))
    row = pr.summarize(values, "x", details=True).row(0, named=True)
    assert row["method"] == "wilson"
    assert (row["low"], row["high"]) == pytest.approx(proportion_confint(19, 20, method="wilson"))


def test_one_method_for_all_groups_of_a_metric() -> None:
    values = table([1.0, 0.0, 1.0, 1.0, 0.5, 0.2, 1.0, 0.0], part=["a"] * 4 + ["b"] * 4)
    methods = pr.summarize(values, "x", by="part", details=True)["method"].to_list()
    assert methods == ["t", "t"]


def test_all_values_are_1() -> None:
    row = pr.summarize(table([1.0] * 10)).row(0, named=True)
    assert (row["low"], row["high"]) == pytest.approx(proportion_confint(10, 10, method="wilson"))


def test_wilson_with_clusters_has_the_variance_of_the_clusters() -> None:
    # Two users per value, each with queries that are alike: m = .5, and the users' sums vary.
    values = table([1.0] * 10 + [0.0] * 10, user=[query // 5 for query in range(20)])
    row = pr.summarize(values, "x", cluster="user", details=True).row(0, named=True)
    # se² = 4/3 · Σ(5(m_u - .5))² / 20² = 4/3 · 25 / 400 = 1/12, and n = .25 · 12 = 3, below Kish's 4.
    n, q = 4, student.ppf(0.975, 3)
    center = (0.5 + q**2 / (2 * n)) / (1 + q**2 / n)
    half = q * math.sqrt(0.25 / n + q**2 / (4 * n * n)) / (1 + q**2 / n)
    assert (row["low"], row["high"]) == pytest.approx((center - half, center + half))


def test_unequal_weights_have_fewer_degrees_of_freedom() -> None:
    values = table([0.2, 0.4, 0.9, 0.1, 0.3, 0.6], w=[10.0, 1, 1, 1, 1, 1])
    with pytest.warns(RankWarning, match="fewer than 5 degrees of freedom"):
        row = pr.summarize(values, "x", weight="w", details=True).row(0, named=True)
    x, w = values["x"].to_numpy(), values["w"].to_numpy()
    mean = (w * x).sum() / w.sum()
    kish = w.sum() ** 2 / (w**2).sum()
    e = w * (x - mean)
    degrees = min((e**2).sum() ** 2 / (e**4).sum(), kish) - 1
    error = math.sqrt(kish / (kish - 1) * (e**2).sum()) / w.sum()
    assert row["std_error"] == pytest.approx(error)
    half = student.ppf(0.975, degrees) * error
    assert row["low"] <= mean - half + 1e-12 or row["high"] >= mean + half - 1e-12
    assert row["high"] - row["low"] >= 2 * half - 1e-12


def test_equal_clusters_have_their_number_of_degrees_of_freedom() -> None:
    values = table([float(i % 7) for i in range(100)], day=[i // 10 for i in range(100)])
    row = pr.summarize(values, "x", cluster="day").row(0, named=True)
    days = values.group_by("day").agg(pl.col("x").mean())["x"].to_numpy()
    half = student.ppf(0.975, 9) * days.std(ddof=1) / math.sqrt(10)
    assert row["high"] - row["low"] >= 2 * half - 1e-9


def test_equal_values_have_no_interval() -> None:
    with pytest.warns(RankWarning, match="all values are equal in 1 row"):
        row = pr.summarize(table([0.5] * 9)).row(0, named=True)
    assert (row["mean"], row["low"], row["high"]) == (0.5, None, None)


def test_repeated_queries_are_an_error() -> None:
    values = pl.DataFrame({"query": [1, 2, 1], "day": [1, 1, 2], "x": [0.1, 0.2, 0.3]})
    with pytest.raises(DataError, match=r"duplicate rankings.*cluster"):
        pr.summarize(values, "x")


def test_queries_that_recur_need_a_cluster() -> None:
    values = pl.DataFrame({"query": [1, 2, 1, 2], "day": [1, 1, 2, 2], "x": [0.1, 0.2, 0.3, 0.4]})
    with pytest.warns(RankWarning, match='cluster="query"'):
        pr.summarize(values, "x", query=["query", "day"])
    pr.summarize(values, "x", query=["query", "day"], cluster="query")
    pr.summarize(values, "x", query=["query", "day"], cluster=["query", "day"])
    new = values.with_columns(query=pl.Series([1, 2, 3, 4]))
    pr.summarize(new, "x", query=["query", "day"])


def test_without_queries_each_row_is_one() -> None:
    with pytest.warns(RankWarning, match="each row counts as a query"):
        row = pr.summarize(pl.DataFrame({"x": [0.0, 0.2, 0.9]})).row(0, named=True)
    assert row["queries"] == 3


def test_slices_stand_beside_all_queries() -> None:
    values = table([0.1, 0.3, 0.8, 0.6], country=["DE", "DE", None, None])
    result = pr.summarize(values, "x", slices="country")
    assert result.select("slice", "value", "mean", "queries").rows() == [
        (None, None, pytest.approx(0.45), 4),
        ("country", None, pytest.approx(0.7), 2),
        ("country", "DE", pytest.approx(0.2), 2),
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
    assert many["high"] - many["low"] == pytest.approx(2 * width * error)
    assert many["high"] - many["low"] > one["high"] - one["low"]


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20), st.randoms(use_true_random=False))
def test_lazy_streaming_and_shuffled_tables_give_the_same(
    values: list[float], random: object
) -> None:
    rows = table(values)
    shuffled = rows.sample(fraction=1.0, shuffle=True, seed=1)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RankWarning)
        eager = pr.summarize(rows)
        for engine in ("in-memory", "streaming"):
            lazy = pr.summarize(rows.lazy()).collect(engine=engine)
            assert_frame_equal(lazy, eager)
        assert_frame_equal(pr.summarize(shuffled), eager, rel_tol=1e-6, abs_tol=1e-6)


@pytest.mark.parametrize(
    ("columns", "options", "error", "message"),
    [
        ({"x": [1.0, float("nan")]}, {}, DataError, "1 row: NaN or infinite values in the column 'x'"),
        ({"x": [1.0, 1e200]}, {}, DataError, "values above 1e\\+150"),
        ({"w": [1.0, -1.0]}, {"weight": "w"}, DataError, "null, negative"),
        ({"w": [1.0, None]}, {"weight": "w"}, DataError, "null, negative"),
        ({"w": [1.0, 1e-200]}, {"weight": "w"}, DataError, "overflow or underflow"),
        ({}, {"slices": "county"}, SchemaError, "column 'county' \\(`slices`\\) not found"),
        ({}, {"by": "query"}, ArgumentError, "'query'"),
        ({}, {"confidence": 1.0}, ArgumentError, "confidence"),
        ({"score": [1.0, 2.0], "label": [1, 0]}, {"metrics": None}, SchemaError, "it is a log"),
    ],
)  # fmt: skip
def test_bad_input(columns: dict, options: dict, error: type, message: str) -> None:
    rows = pl.DataFrame({"query": [1, 2], "x": [0.1, 0.2], **columns})
    options = {"metrics": "x", **options}
    with pytest.raises(error, match=message):
        pr.summarize(rows, **options)
    with pytest.raises(error, match=message):
        pr.summarize(rows.lazy(), **options).collect()
