"""`compare`: differences, tests, corrections, verdicts and slices."""

from __future__ import annotations

import math
import warnings
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy.optimize import brentq
from scipy.stats import beta, multivariate_normal, norm, ttest_rel
from scipy.stats import t as student
from statsmodels.stats.contingency_tables import mcnemar

import polars_rank as pr
from polars_rank.errors import ArgumentError, DataError, RankWarning, SchemaError

from .plain import ratio_score

pytestmark = pytest.mark.filterwarnings("ignore:more than 5%")


def runs(metric: str = "x", **values: list[float | None]) -> pl.DataFrame:
    """Return per-query values of several runs."""
    parts = [
        pl.DataFrame({"run": name, "query": range(len(x)), metric: x}, strict=False)
        for name, x in values.items()
    ]
    return pl.concat(parts, how="vertical_relaxed")


def normal_runs(*shifts: float, queries: int = 50, seed: int = 0) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    quality = random.normal(0, 1, queries)
    named = {
        name: list(quality + shift + random.normal(0, 0.5, queries))
        for name, shift in zip("abcdefgh", shifts, strict=False)
    }
    return runs(**named)


def test_symmetric_differences_have_the_paired_t_test() -> None:
    a = np.array([0.1, 0.5, 0.2, 0.8, 0.6] * 6)
    d = np.array([0.3, 0.1, 0.2, 0.0, 0.4] * 6)
    row = pr.compare(runs("rr", a=list(a), b=list(a + d)), baseline="a").row(0, named=True)
    test = ttest_rel(a + d, a)
    interval = test.confidence_interval(0.95)
    assert row["p_value"] == pytest.approx(test.pvalue)
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert (row["baseline_mean"], row["mean"]) == pytest.approx((a.mean(), (a + d).mean()))
    assert (row["wins"], row["losses"], row["queries"]) == (24, 0, 30)
    assert (row["method"], row["comparisons"]) == ("t", 1)


def test_values_of_0_and_1_have_mcnemars_test() -> None:
    a = [1.0] * 40 + [0.0] * 60
    b = [1.0] * 37 + [0.0] * 3 + [1.0] * 15 + [0.0] * 45
    row = pr.compare(runs(a=a, b=b), baseline="a").row(0, named=True)
    expected = mcnemar([[37, 3], [15, 45]], exact=False, correction=False).pvalue
    assert row["method"] == "tango"
    assert row["p_value"] == pytest.approx(expected)


def test_tango_with_clusters_has_the_power_of_t() -> None:
    # 60 users with 10 queries each, which differ independently.
    random = np.random.default_rng(0)
    b = (random.random(600) < 0.55).astype(float)
    a = np.where(random.random(600) < 0.3, (random.random(600) < 0.45).astype(float), b)
    values = runs(a=list(a), b=list(b)).with_columns(user=pl.col("query") // 10)
    width = {}
    for cluster in (None, "user"):
        row = pr.compare(values, "x", baseline="a", cluster=cluster).row(0, named=True)
        width[cluster] = row["high"] - row["low"]
    assert 0.8 < width["user"] / width[None] < 1.3


@settings(max_examples=20)
@given(
    st.lists(st.floats(0, 1) | st.sampled_from([0.0, 0.5, 1.0]), min_size=2, max_size=45),
    st.integers(1, 3),
    st.sampled_from(["rr", "x", "binary"]),
    st.sampled_from([{}, {"weight": "w"}, {"cluster": "user"}]),
    st.sampled_from([0.8, 0.95, 0.9999]),
    st.booleans(),
)
@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_interval_and_p_value_agree(
    x: list[float], others: int, kind: str, options: dict, confidence: float, correction: bool
) -> None:
    named = {"a": [float(v > 0.5) for v in x] if kind == "binary" else x}
    for number in range(1, others + 1):
        shifted = [
            float(v > 0.2 * number) if kind == "binary" else abs(v - 0.3 * number) for v in x
        ]
        named["abcd"[number]] = shifted
    metric = "x" if kind == "binary" else kind
    values = runs(metric, **named).with_columns(
        w=1 + pl.col("query") % 3, user=pl.col("query") // 2
    )
    given = {"correction": correction, "confidence": confidence, **options}
    eager = pr.compare(values, metric, **given)
    for row in eager.iter_rows(named=True):
        assert (row["low"] is None) == (row["p_value"] is None) == (row["method"] == "none")
        if row["low"] is None:
            continue
        alpha, low, high = 1 - confidence, row["low"], row["high"]
        assert kind == "x" or -1 <= low <= high <= 1
        assert low - 1e-9 <= row["difference"] <= high + 1e-9
        if abs(row["p_value"] - alpha) > 0.002 * alpha:
            assert (low > 0 or high < 0) == (row["p_value"] < alpha), row
    engine = "streaming" if correction else "in-memory"
    assert_frame_equal(pr.compare(values.lazy(), metric, **given).collect(engine=engine), eager)
    shuffled = values.sample(fraction=1.0, shuffle=True, seed=1)
    assert_frame_equal(pr.compare(shuffled, metric, **given), eager, rel_tol=1e-6, abs_tol=1e-6)


def test_rows_that_are_independent_equal_or_correlated() -> None:
    random, n = np.random.default_rng(3), 2000
    zero, b, c = [0.0] * n, list(random.normal(0.05, 1, n)), list(random.normal(0.04, 1, n))

    def p_values(values: pl.DataFrame) -> list[np.ndarray]:
        tables = [pr.compare(values, baseline="a", correction=each) for each in (False, True)]
        return [each["p_value"].to_numpy() for each in tables]

    plain, both = p_values(runs(a=zero, b=b, c=c))
    assert both == pytest.approx(1 - (1 - plain) ** 2, rel=0.03)  # Šidák's correction
    plain, both = p_values(runs(a=zero, b=b, c=b))
    assert both == pytest.approx(plain)
    values = normal_runs(0, 0.1, 0.12, queries=4000)
    x = values.pivot("run", index="query", values="x")
    correlation = np.corrcoef(x["b"] - x["a"], x["c"] - x["a"])
    for before, after in zip(*p_values(values), strict=True):
        z = norm.isf(before / 2)
        inside = multivariate_normal.cdf([z, z], cov=correlation, lower_limit=[-z, -z])
        assert after == pytest.approx(1 - inside, rel=0.02)


def test_all_pairs_are_the_baselines_together() -> None:
    values = normal_runs(0, 0.1, 0.3)
    pairs = pr.compare(values, correction=False)
    assert pairs.select("run", "baseline").rows() == [("b", "a"), ("c", "a"), ("c", "b")]
    one = pr.compare(values, baseline="a", correction=False)
    assert pairs.head(2).equals(one)


def test_verdicts() -> None:
    noise, base = np.tile([-0.1, 0.1], 50), np.full(100, 1.0)
    for shift, margin, verdict in (
        (0.2, 0, "better"), (-0.2, 0, "worse"), (0.0, 0, "unclear"), (0.0, 0.1, "equivalent"),
        (0.015, 0.03, "not worse"), (-0.2, 0.5, "equivalent"), (0.2, 0.5, "better"),
        (-0.2, 0.05, "worse"), (0.0, "5%", "equivalent"), (-0.2, "5%", "worse"),
        (0.015, "3%", "not worse"),
    ):  # fmt: skip
        values = runs(a=list(base), b=list(base + shift + noise))
        # Where lower is better, the differences and the words turn.
        turned = runs("fall_out@2", a=list(base), b=list(base - shift + noise))
        for table, metric in ((values, "x"), (turned, pr.fall_out(2))):
            row = pr.compare(table, metric, baseline="a", margin=margin).row(0, named=True)
            assert row["verdict"] == verdict, row


def test_margins_in_percent() -> None:
    random = np.random.default_rng(0)
    values = runs(a=list(random.normal(0, 1, 30)), b=list(random.normal(0, 1, 30)))
    row = pr.compare(values, baseline="a", margin="2%", details=True).row(0, named=True)
    assert (row["relative_low"], row["verdict"]) == (None, "unclear")
    assert row["reason"] == "the baseline's mean may be 0"
    # The verdict is that of the relative interval.
    base = random.uniform(0.2, 0.6, 60)
    values = runs("rr", a=list(base), b=list(base * 0.99 + random.normal(0, 0.02, 60)))
    low = pr.compare(values, baseline="a", details=True)["relative_low"].item()
    assert low < 0
    for size, verdict in ((-low * 1.001, "equivalent"), (-low * 0.999, "unclear")):
        found = pr.compare(values, baseline="a", margin=f"{100 * size}%")
        assert found["verdict"].item() == verdict


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("options", [{}, {"cluster": "user"}])
def test_relative_bounds_are_those_of_the_t_test(sign: int, options: dict) -> None:
    """The mean of run - (1 + r) · baseline, or for negative means its opposite, is not 0."""
    random = np.random.default_rng(2)
    base = random.gamma(2, 1, 40)
    run = base * 1.1 + random.normal(0, 0.5, 40)
    base, run = sign * base, sign * run
    values = runs(a=list(base), b=list(run)).with_columns(user=pl.col("query") // 2)
    row = pr.compare(values, "x", baseline="a", details=True, **options).row(0, named=True)

    def size_minus_quantile(ratio: float) -> float:
        """|t| or, if it is smaller, Hall's statistic, minus the quantile."""
        contrast = run - base - ratio * abs(base)
        units = contrast.reshape(-1, 2).mean(axis=1) if options else contrast
        n, mean = len(units), units.mean()
        statistic = abs(mean) / (units.std(ddof=1) / math.sqrt(n))
        e = (units - mean) * math.copysign(1, mean)
        a = (e**3).sum() / (6 * (e @ e) ** 1.5)
        skewed = a + ((1 + 2 * a * statistic) ** 3 - 1) / (6 * a)
        return min(statistic, skewed) - student.ppf(0.975, n - 1)

    middle = row["relative_difference"]
    for name, far in (("relative_low", middle - 1), ("relative_high", middle + 1)):
        assert row[name] == pytest.approx(brentq(size_minus_quantile, middle, far), abs=1e-8)


def test_relative_bounds_of_values_of_0_and_1_are_those_of_the_score_test() -> None:
    for both, wins, losses, neither in ((20, 9, 3, 18), (40, 12, 15, 5), (10, 25, 1, 30)):
        pairs = [(1, 1)] * both + [(1, 0)] * wins + [(0, 1)] * losses + [(0, 0)] * neither
        run, base = ([float(each) for each in one] for one in zip(*pairs, strict=True))
        row = pr.compare(runs(a=base, b=run), baseline="a", details=True).row(0, named=True)
        assert row["method"] == "tango"
        for name, sign in (("relative_low", 1), ("relative_high", -1)):
            score = ratio_score(pairs, 1 + row[name])
            assert score == pytest.approx(sign * norm.isf(0.025), abs=1e-4)


def test_equal_runs_have_the_bounds_of_their_number() -> None:
    """All 30 differences are 0: the weight of the end of the range is the first of 31.

    The range of `wide`, from 2 to 7, is that of its values, and values in [0, 1] have the range 1.
    """
    for metric, size in (("rr", 1.0), ("x", 1.0), ("wide", 5.0)):
        values = runs(metric, a=[0.2, 0.7, 0.4] * 10, b=[0.2, 0.7, 0.4] * 10)
        values = values.with_columns(pl.col(metric) * (10 if metric == "wide" else 1))
        high = size * beta.ppf(0.975, 1, 30)
        for margin, verdict in (
            (0, "unclear"),
            (1.01 * high, "equivalent"),
            (0.99 * high, "unclear"),
        ):
            found = pr.compare(values, baseline="a", margin=margin, details=True)
            row = found.row(0, named=True)
            assert (row["low"], row["high"]) == pytest.approx((-high, high), abs=1e-7)
            assert (row["p_value"], row["method"]) == (1.0, "bounded")
            assert (row["verdict"], row["reason"]) == (verdict, "equal in all 30 queries")


def test_equal_differences_are_bounded() -> None:
    """All differences are -0.5.

    The mean is 0 or more if the weight of the end 1 is at least 1/3: with n values, the first of
    n + 1 weights is, with probability (2/3)^n.
    """
    for queries, verdict in ((2, "too few"), (6, "too few"), (30, "worse")):
        x = [0.5 + 0.01 * place for place in range(queries)]
        values = runs("rr", a=x, b=[each - 0.5 for each in x])
        row = pr.compare(values, baseline="a").row(0, named=True)
        assert row["p_value"] == pytest.approx(2 * (2 / 3) ** queries, rel=1e-6)
        weight = beta.ppf(0.975, 1, queries)
        bounds = (-0.5 - 0.5 * weight, -0.5 + 1.5 * weight)
        assert (row["low"], row["high"]) == pytest.approx(bounds, abs=1e-7)
        assert (row["verdict"], row["method"]) == (verdict, "bounded")


def test_few_queries() -> None:
    few, none = "fewer than 10 of 40 queries differ from most", "no interval from {} queries"
    for metric, a, b, method, verdict, reason in (
        # 9 of 40 queries differ by 0.5, in both directions.
        ("rr", [0.5] * 40, [0.5] * 31 + [0.0] * 4 + [1.0] * 5, "bounded", "too few", few),
        ("rr", [0.5] * 40, [0.5] * 30 + [0.0] * 5 + [1.0] * 5, "t", "unclear", None),
        # 9 of 40 queries, which all improve from 0.2 to 1: the interval decides.
        ("rr", [0.2] * 40, [0.2] * 31 + [1.0] * 9, "bounded", "better", None),
        # 40 queries improve by 0.3, but for 2: they differ from most, the interval decides.
        ("rr", [0.3] * 40, [0.6] * 38 + [0.1] * 2, "bounded", "better", None),
        # The same without a known range.
        ("x", [0.5] * 40, [0.5] * 31 + [0.0] * 4 + [1.0] * 5, "none", "too few", none.format(40)),
        ("x", [0.3] * 40, [0.6] * 38 + [0.1] * 2, "none", "too few", none.format(40)),
        ("x", [0.1, 0.9, 0.4] * 9, [0.9, 0.9, 0.1] * 9, "none", "too few", none.format(27)),
        ("x", [0.1], [0.9], "none", "too few", "no interval from 1 query"),
        # Values of 0 and 1 have Tango's test from 30 queries on, however few differ.
        ("x", [1.0] * 20 + [0.0] * 20, [1.0] * 23 + [0.0] * 17, "tango", "unclear", None),
        ("x", [1.0] * 20 + [0.0] * 9, [1.0] * 23 + [0.0] * 6, "bounded", "unclear", None),
    ):  # fmt: skip
        row = pr.compare(runs(metric, a=a, b=b), baseline="a", details=True).row(0, named=True)
        found = (row["method"], row["verdict"], row["reason"])
        assert found == (method, verdict, reason), row
        assert (row["low"] is None) == (row["p_value"] is None) == (method == "none")


def test_few_clusters() -> None:
    random = np.random.default_rng(0)
    for users, method in ((9, "bounded"), (10, "t")):
        values = runs("rr", a=list(random.random(10 * users)), b=list(random.random(10 * users)))
        values = values.with_columns(user=pl.col("query") // 10, x=pl.col("rr"))
        found = pr.compare(values, ["rr", "x"], baseline="a", cluster="user")
        assert found["method"].to_list() == [method, "none" if method == "bounded" else "t"]


def test_weighted_values_of_0_and_1_have_the_t_test() -> None:
    values = runs(a=[1.0, 0.0] * 20, b=[1.0, 1.0, 0.0, 0.0] * 10).with_columns(w=pl.lit(2.0))
    row = pr.compare(values, "x", baseline="a", weight="w").row(0, named=True)
    # Of 40 differences, 10 are 1, 10 are -1, and 20 are 0.
    half = student.ppf(0.975, 39) * math.sqrt(20 / 39 / 40)
    assert row["method"] == "t"
    assert (row["low"], row["high"]) == pytest.approx((-half, half))


def test_differences_that_are_equal_but_for_rounding_have_no_skewness() -> None:
    values = runs(a=[0.1, 0.2, 0.3], b=[0.35, 0.45, 0.55])
    values = values.with_columns(w=pl.col("query") + 9, c=pl.col("query") // 2)
    for options in ({}, {"weight": "w"}, {"cluster": "c"}):
        row = pr.compare(values, ["x"], baseline="a", details=True, **options).row(0, named=True)
        assert (row["std"], row["std_error"], row["skewness"]) == (0, 0, None)


def test_rows_without_a_test_are_not_compared() -> None:
    """Of 3 runs, one is equal to the baseline: one comparison with the other is corrected."""
    values = normal_runs(0, 0.1).rename({"x": "rr"})
    copy = values.filter(run="a").with_columns(run=pl.lit("c"))
    both = pr.compare(pl.concat([values, copy]), baseline="a")
    alone, plain = (pr.compare(values, baseline="a", correction=each) for each in (True, False))
    assert alone.equals(plain)  # one row is not corrected
    assert both["comparisons"].to_list() == [1, 1]
    assert both["p_value"].to_list() == [pytest.approx(alone["p_value"].item()), 1.0]
    for correction, comparisons in ((True, 3), (False, 1)):
        found = pr.compare(normal_runs(0, 0.1, 0.2), correction=correction)
        assert found["comparisons"].to_list() == [comparisons] * 3


def test_slices_are_a_family_of_their_own() -> None:
    values = normal_runs(0, 0.3, queries=200).with_columns(
        country=pl.when(pl.col("query") % 4 == 0).then(pl.lit("DE")).otherwise(pl.lit("FR"))
    )
    result = pr.compare(values, "x", baseline="a", slices="country")
    alone = pr.compare(values, "x", baseline="a")
    assert result.head(1).drop("slice", "value", "contribution").equals(alone)
    german = values.filter(pl.col("country") == "DE")
    plain = pr.compare(german, "x", baseline="a").row(0, named=True)
    row = result.filter(value="DE").row(0, named=True)
    assert row["difference"] == pytest.approx(plain["difference"])
    assert row["p_value"] == pytest.approx(1 - (1 - plain["p_value"]) ** 2, rel=0.05)
    parts = result.filter(pl.col("slice").is_not_null())
    assert parts["contribution"].sum() == pytest.approx(alone["difference"].item())


def test_groups_and_slices_of_few_queries() -> None:
    values = normal_runs(0, 0.3).with_columns(part=pl.col("query") < 10)
    result = pr.compare(values, "x", baseline="a", slices="part", min_queries=20)
    words = dict(result.select("value", "verdict").rows())
    assert words["true"] == "too few" != words["false"]
    one = normal_runs(0, 0.1).with_columns(part=pl.lit("x"))
    other = normal_runs(0).with_columns(part=pl.lit("y"))  # of the baseline only
    result = pr.compare(pl.concat([one, other]), "x", baseline="a", by="part")
    assert result.select("part", "queries", "verdict").rows()[1] == ("y", 0, "too few")
    row = pr.compare(runs(a=[None, None], b=[None, None]), "x", baseline="a").row(0, named=True)
    found = (row["mean"], row["difference"], row["queries"], row["verdict"])
    assert found == (None, None, 0, "too few")


def test_slices_that_a_run_has_lost() -> None:
    values = normal_runs(0, 0.3, 0.1, queries=30).with_columns(
        country=pl.when(pl.col("query") < 20).then(pl.lit("X")).otherwise(pl.lit("US"))
    )
    # b lacks all 10 queries of US, and c 5 of them.
    lost = (pl.col("run") == "b") & (pl.col("query") >= 20)
    fewer = (pl.col("run") == "c") & (pl.col("query") >= 25)
    result = pr.compare(
        values.filter(~(lost | fewer)), "x", baseline="a", slices="country", details=True
    )
    parts = result.drop_nulls("slice").select("run", "value", "queries", "missing", "verdict")
    assert [row[:4] for row in parts.rows()] == [
        ("b", "US", 0, 10), ("b", "X", 20, 0), ("c", "US", 5, 5), ("c", "X", 20, 0)
    ]  # fmt: skip
    assert parts["verdict"][0] == "too few"
    with pytest.raises(pr.errors.GateFailed, match=r"queries >= 1 \(run=b, country=US\): fail, no"):
        pr.check(result, ["queries >= 1"])


def test_slices_of_other_runs_are_not_rows_of_a_pair() -> None:
    values = runs(a=[1.0, 2.0], b=[2.0, 4.0], c=[1.0, 3.0])
    values = pl.concat([values, pl.DataFrame({"run": "c", "query": [9], "x": [1.0]})])
    result = pr.compare(
        values.with_columns(part=pl.col("query") > 2), "x", baseline="a", slices="part"
    )
    parts = result.drop_nulls("slice").select("run", "value", "queries").rows()
    assert parts == [("b", "false", 2), ("c", "false", 2), ("c", "true", 0)]


def test_missing_queries_warn() -> None:
    values = normal_runs(0, 0.1).filter((pl.col("run") == "a") | (pl.col("query") > 4))
    with pytest.warns(RankWarning, match="5 of 50 of 'x', run = 'b'"):
        row = pr.compare(values, baseline="a", details=True).row(0, named=True)
    assert (row["queries"], row["missing"]) == (45, 5)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_means_of_random_groups_of_queries_have_the_intervals_of_all_queries(engine: str) -> None:
    random, queries = np.random.default_rng(0), 300_000
    base, hit = random.beta(2, 1.5, queries), random.random(queries) < 0.3
    named = {
        "a": (base, hit),
        "b": (base + random.normal(0.001, 0.1, queries), hit ^ (random.random(queries) < 0.02)),
    }
    values = pl.concat(
        pl.LazyFrame({"run": [run] * queries, "query": range(queries), "x": x, "hit": hits * 1.0})
        for run, (x, hits) in named.items()
    )
    group = (pl.col("query").hash(0) % 10_000).alias("group")
    groups = values.group_by("run", group).agg(pl.mean("x", "hit"), n=pl.len())
    every = pr.compare(values, baseline="a").collect(engine=engine)
    found = pr.compare(groups, query="group", weight="n", baseline="a").collect(engine=engine)
    assert found["difference"].to_list() == pytest.approx(every["difference"].to_list(), abs=1e-12)
    for bound in ("low", "high"):
        widths = [(each["difference"] - each[bound]).to_list() for each in (found, every)]
        assert widths[0] == pytest.approx(widths[1], rel=0.03)


def test_repeated_looks() -> None:
    values = normal_runs(0, 0.05, queries=1000)
    one, many = (
        pr.compare(values, baseline="a", repeated=r).row(0, named=True) for r in (False, True)
    )
    assert many["high"] - many["low"] > one["high"] - one["low"]
    assert many["p_value"] > one["p_value"]
    excludes = many["low"] > 0 or many["high"] < 0
    assert excludes == (many["p_value"] < 0.05)


def test_early_looks_have_no_interval() -> None:
    for queries, cluster, method in (
        (29, 1, "none"), (30, 1, "sequence"), (90, 10, "none"), (100, 10, "sequence"),
    ):  # fmt: skip
        values = normal_runs(0, 0.05, queries=queries)
        values = values.with_columns(part=pl.col("query") // cluster)
        options = {"repeated": True, **({"cluster": "part"} if cluster > 1 else {})}
        row = pr.compare(values, "x", baseline="a", **options).row(0, named=True)
        assert (row["verdict"] == "too few") == (row["low"] is None) == (method == "none")
        mean = pr.summarize(values.filter(run="a"), "x", **options).row(0, named=True)
        assert row["method"] == mean["method"] == method
        assert (mean["low"] is None) == (method == "none")


def test_columns_with_two_uses() -> None:
    values = normal_runs(0, 1).with_columns(num_retrieved=pl.lit(10))
    rows = pr.compare(values, ["x", "num_retrieved"], baseline="a")
    assert rows["mean"].to_list()[1] == 10
    weighted = pr.compare(values, "x", baseline="a", weight="num_retrieved")
    assert weighted["difference"].item() == pytest.approx(rows["difference"][0])
    assert pr.compare(values, "x", slices=[]).equals(pr.compare(values, "x"))


def assert_raises(values: pl.DataFrame, options: dict, error: type, message: str) -> None:
    for table in (values, values.lazy()):
        with pytest.raises(error, match=message):
            found = pr.compare(table, **{"baseline": "a", **options})
            found.lazy().collect(engine="streaming")


def test_bad_parameters() -> None:
    values = runs(a=[0.1, 0.2], b=[0.3, 0.4])
    for options, error, message in (
        ({"baseline": "z"}, DataError, "run 'z' \\(`baseline`\\) not found.*'a', 'b'"),
        ({"baseline": ["a"]}, ArgumentError, "`baseline` must be a value.*each of the runs"),
        ({"baseline": 1}, ArgumentError, "`baseline` must be a value of the column 'run'"),
        ({"margin": "2"}, ArgumentError, "`margin` must be a number.*'2%'"),
        ({"margin": -1}, ArgumentError, "`margin` must be a number, 0 or above"),
        ({"slices": "county"}, SchemaError, "'county'"),
        ({"query": "id"}, SchemaError, "column 'id' \\(`query`\\) not found"),
        ({"run": "system"}, SchemaError, "'system'"),
        ({"correction": "holm"}, ArgumentError, "correction"),
    ):
        assert_raises(values, options, error, message)


def test_bad_rows() -> None:
    values = runs(a=[0.1, 0.2, 0.9], b=[0.3, 0.4, 0.8])
    query, run, other = pl.col("query"), pl.col("run"), 100 * (pl.col("run") == "b")
    for change, options, message in (
        (query.replace(2, 1), {}, "duplicate rankings"),
        (pl.lit("a").alias("run"), {}, "only the run 'a'"),
        ((query + other).alias("w"), {"weight": "w"}, "different weights in two runs.*one weight"),
        (run.alias("part"), {"slices": "part"}, "different slices"),
        (run.alias("user"), {"cluster": "user"}, "different clusters"),
    ):
        assert_raises(values.with_columns(change), {"metrics": "x", **options}, DataError, message)


def test_hall_widens_the_side_of_rare_losses() -> None:
    # 10 of 100 queries lose everything, and few others change.
    random = np.random.default_rng(0)
    a = random.uniform(0.4, 0.6, 100)
    b = np.where(np.arange(100) % 10 == 3, 0.0, a + 0.05)
    row = pr.compare(runs("rr", a=list(a), b=list(b)), baseline="a", details=True).row(
        0, named=True
    )
    half = student.ppf(0.975, 99) * row["std_error"]
    assert row["method"] == "t"
    assert row["low"] < row["difference"] - 1.1 * half
    assert math.isclose(row["high"], row["difference"] + half, rel_tol=1e-9)


@pytest.mark.parametrize("function", [pr.compare, pr.leaderboard])
def test_a_column_without_a_direction_is_warned_of(function) -> None:
    """A slower run would be "better"; an expression or the name of a metric states a direction."""
    random = np.random.default_rng(1)
    values = runs("junk@3", a=list(random.random(30)), b=list(random.random(30)))
    values = values.with_columns(pl.col("junk@3").alias(name) for name in ("ndcg@3", "ms"))
    message = "no metric is named 'junk@3' or 'ms', so higher values are taken as better; negate"
    for table in (values, values.lazy()):
        with pytest.warns(RankWarning, match=message):
            function(table).lazy().collect(engine="streaming")
    with pytest.warns(RankWarning, match="no metric is named 'junk@3', so higher"):
        function(values, ["ndcg@3", "junk@3"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(values, "ndcg@3")
        stated = function(values, ["ndcg@3", pl.col("junk@3")])
        slow = function(values, ["ndcg@3", pr.metrics.fall_out(3).alias("ms")])
    column = "run" if function is pr.leaderboard else "wins"  # which one is first, or better
    one, other = stated.filter(metric="junk@3"), slow.filter(metric="ms")
    assert one[column][0] != other[column][0]


def test_repeated_looks_at_days_that_are_not_clusters_warn() -> None:
    random, day = np.random.default_rng(0), pl.col("query") % 5
    time = pl.lit(datetime(2026, 1, 1)) + pl.duration(hours=pl.col("query"))
    for column, options, warns in (
        (day.alias("day"), {}, True),
        (day.alias("day"), {"cluster": "user"}, True),
        (day.alias("day"), {"cluster": "day"}, False),
        (pl.lit(1).alias("day"), {}, False),
        (day.alias("shift"), {}, False),
        (time.dt.date().alias("at"), {}, True),
        (time.alias("at"), {}, True),  # 90 hours are four days
        (time.dt.truncate("1d").min().alias("at"), {}, False),
        (day.cast(pl.String).alias("date"), {"repeated": False}, False),
    ):
        values = pl.DataFrame({"query": range(90), "user": [*range(30)] * 3}).with_columns(column)
        table = pl.concat(
            values.with_columns(run=pl.lit(run), rr=random.uniform(size=90)) for run in "ab"
        )
        for frame in (table, table.lazy()):
            for call in (partial(pr.compare, baseline="a"), pr.summarize):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    call(frame, **{"repeated": True, **options}).lazy().collect(engine="streaming")
                found = [each for each in caught if "different days" in str(each.message)]
                assert bool(found) == warns, (call, options, column)
