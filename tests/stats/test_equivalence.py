"""Equivalence and relative margins: against statsmodels, scipy and hand arithmetic."""

import math

import needs
import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
import scipy

RANDOM = np.random.default_rng(5)
N = 60
BASE = RANDOM.random(N)
RUN = BASE + RANDOM.normal(0.002, 0.05, N)
VALUES = pl.DataFrame({
    "run": ["a"] * N + ["b"] * N, "query": [*range(N)] * 2, "x": [*BASE, *RUN],
    "user": [*(np.arange(N) // 2)] * 2, "w": [*(1.0 + np.arange(N) % 3)] * 2,
    "half": [*np.where(np.arange(N) % 2, "odd", "even")] * 2,
})  # fmt: skip


def compared(values=VALUES, **options):
    options = {"alternative": "equivalent", "query": "query", **options}
    return pr.compare(values, "x", baseline="a", **options).row(0, named=True)


def one_sided(distance, alternative):
    return scipy.stats.ttest_1samp(distance, 0, alternative=alternative).pvalue


@pytest.mark.parametrize("margin", [0.005, 0.02, 0.1])
def test_equivalence_is_that_of_statsmodels(margin):
    package = needs.package("statsmodels.stats.weightstats", "test")
    expected, greater, less = package.ttost_paired(RUN, BASE, -margin, margin)
    row = compared(margin=margin)
    assert row["p_value"] == pytest.approx(expected, rel=1e-9)
    assert expected == max(greater[1], less[1])
    # 5% for each test is an interval of 90%.
    two_sided = compared(alternative="two-sided", confidence=0.9)
    for name in ("low", "high", "relative_low", "relative_high", "effect_low", "effect_high"):
        assert row[name] == pytest.approx(two_sided[name], rel=1e-12)
    assert row["confidence"] == 0.9
    assert (row["p_value"] < 0.05) == (-margin < row["low"] and row["high"] < margin)


@pytest.mark.parametrize("test", ["auto", "t", "randomization", "bootstrap", "wilcoxon", "sign"])
def test_equivalence_is_two_one_sided_tests(test):
    single = [
        compared(alternative=alternative, margin=0.02, test=test)
        for alternative in ("greater", "less")
    ]
    row = compared(margin=0.02, test=test)
    assert row["p_value"] == max(each["p_value"] for each in single)
    assert (row["low"], row["high"]) == (single[0]["low"], single[1]["high"])


def test_equivalence_of_binary_metrics_is_by_the_score_test():
    hits = VALUES.with_columns(hit=(pl.col("x") > 0.5).cast(pl.Float64))
    options = {"baseline": "a", "query": "query", "margin": 0.1, "conventions": "trec_eval"}
    table = hits.select("run", "query", pl.col("hit").alias("hit_rate@1"))
    both, greater, less = (
        pr.compare(table, alternative=each, **options).row(0, named=True)
        for each in ("equivalent", "greater", "less")
    )
    assert both["interval"] == "tango"
    assert both["p_value"] == max(greater["p_value"], less["p_value"])
    assert (both["low"], both["high"]) == (greater["low"], less["high"])


@pytest.mark.parametrize("share", [0.01, 0.05, 0.3])
@pytest.mark.parametrize("alternative", ["greater", "less", "equivalent"])
def test_a_relative_margin_accounts_for_the_estimated_mean(share, alternative):
    # d + rb and d - rb are paired differences themselves.
    p_values = {
        "greater": one_sided(RUN - (1 - share) * BASE, "greater"),
        "less": one_sided(RUN - (1 + share) * BASE, "less"),
    }
    p_values["equivalent"] = max(p_values.values())
    row = compared(alternative=alternative, relative_margin=share)
    assert row["p_value"] == pytest.approx(p_values[alternative], rel=1e-6)
    # Fieller's interval has the shares that the test does not reject.
    inside = -share < row["relative_low"] and row["relative_high"] < share
    low_enough = alternative == "less" or -share < row["relative_low"]
    high_enough = alternative == "greater" or row["relative_high"] < share
    assert (row["p_value"] < 0.05) == (low_enough and high_enough)
    assert alternative != "equivalent" or inside == (low_enough and high_enough)


def test_a_relative_margin_of_a_negative_mean_is_that_of_the_relative_interval():
    negative = VALUES.with_columns(-pl.col("x"))
    for share in (0.01, 0.05, 0.3):
        row = compared(negative, alternative="greater", relative_margin=share)
        assert row["p_value"] == pytest.approx(
            one_sided((1 + share) * BASE - RUN, "greater"), rel=1e-6
        )
        assert (row["p_value"] < 0.05) == (-share < row["relative_low"])


def test_the_relative_margin_of_a_geometric_mean_is_a_ratio():
    logs = pl.DataFrame({
        "run": ["a"] * N + ["b"] * N, "query": [*range(N)] * 2, 
        "gm_map": [*np.log(BASE), *np.log(RUN.clip(0.01))],
    })  # fmt: skip
    row = pr.compare(logs, baseline="a", alternative="greater", relative_margin=0.1).row(
        0, named=True
    )
    ratios = np.log(RUN.clip(0.01)) - np.log(BASE)
    assert row["p_value"] == pytest.approx(one_sided(ratios - math.log(0.9), "greater"), rel=1e-6)
    # Every run is better than a geometric mean less more than itself.
    below = pr.compare(logs, baseline="a", alternative="greater", margin=2.0)
    assert below["p_value"].item() < 1e-9


@pytest.mark.parametrize("margin", [{"margin": 0.02}, {"relative_margin": 0.05}])
@pytest.mark.parametrize("units", [{}, {"weight": "w"}, {"cluster": "user"}])
def test_moments_weights_and_clusters(margin, units):
    whole = compared(**margin, **units)
    parts = [
        pr.stats.moments(part, "x", baseline="a", query="query", **units)
        for (_,), part in VALUES.group_by(pl.col("user") % 3)
    ]
    merged = pr.stats.merge(parts)
    row = pr.compare(merged, baseline="a", alternative="equivalent", **margin).row(0, named=True)
    for name in ("p_value", "low", "high", "confidence"):
        assert row[name] == pytest.approx(whole[name], rel=1e-9)
    if not units:
        return
    # The same by hand: the means of units, weighted.
    keys, weights = units.get("cluster", "query"), units.get("weight")
    wide = VALUES.pivot("run", index=["query", "user", "w"], values="x").with_columns(
        w=pl.col("w") if weights else pl.lit(1.0)
    )
    share = margin.get("relative_margin", 0.0)
    p_values = []
    for sign in (1, -1):
        bound = sign * margin.get("margin", 0.0)
        distance = pl.col("b") - (1 - sign * share) * pl.col("a") + bound
        unit = wide.group_by(keys).agg(
            w=pl.col("w").sum(), d=(distance * pl.col("w")).sum() / pl.col("w").sum()
        )
        w, d = unit["w"].to_numpy(), unit["d"].to_numpy()
        mean, n = (w * d).sum() / w.sum(), w.sum() ** 2 / (w * w).sum()
        error = math.sqrt(n / (n - 1) * (w * w * (d - mean) ** 2).sum()) / w.sum()
        p_values.append(scipy.stats.t.sf(sign * mean / error, n - 1))
    assert whole["p_value"] == pytest.approx(max(p_values), rel=1e-6)


def test_equivalence_with_predictions():
    human = VALUES.filter(pl.col("query") < 40)
    predicted = VALUES.with_columns(pl.col("x") + 0.01 * (pl.col("query") % 3))
    options = {"predictions": predicted, "margin": 0.02}
    both = compared(human, **options)
    single = [compared(human, alternative=each, **options) for each in ("greater", "less")]
    assert both["p_value"] == max(each["p_value"] for each in single)
    with pytest.raises(pr.errors.ArgumentError, match="does not support `predictions`"):
        compared(human, predictions=predicted, relative_margin=0.1)
    moments = pr.stats.moments(human, "x", baseline="a", query="query", predictions=predicted)
    relative = {"alternative": "equivalent", "relative_margin": 0.1}
    with pytest.raises(pr.errors.ArgumentError, match="does not support `predictions`"):
        pr.compare(moments, baseline="a", **relative)


def test_equivalence_in_slices():
    result = pr.slices(
        VALUES, "x", slices="half", baseline="a", query="query", alternative="equivalent",
        margin=0.02, correction="none",
    )  # fmt: skip
    for row in result.iter_rows(named=True):
        alone = compared(VALUES.filter(pl.col("half") == row["value"]), margin=0.02)
        assert row["p_value"] == pytest.approx(alone["p_value"], rel=1e-9)
        assert (row["low"], row["confidence"]) == (pytest.approx(alone["low"]), 0.9)


def test_small_slices_have_no_p_value():
    sizes = VALUES.with_columns(part=(pl.col("query") < 10).cast(pl.String))
    for margin in ({"margin": 0.02}, {"relative_margin": 0.05}):
        result = pr.slices(
            sizes, "x", slices="part", baseline="a", query="query", alternative="equivalent",
            **margin,
        )  # fmt: skip
        assert dict(result.select("value", pl.col("p_value").is_null()).rows()) == {
            "true": True, "false": False,
        }  # fmt: skip


def test_corrected_intervals_of_equivalence():
    runs = pl.concat([VALUES, VALUES.filter(run="b").with_columns(pl.lit("c").alias("run"))])
    result = pr.compare(
        runs, "x", baseline="a", query="query", alternative="equivalent", margin=0.02,
        correction="bonferroni",
    )  # fmt: skip
    # Two tests of 2.5% each have an interval of 95%.
    wider = compared(alternative="two-sided")
    for row in result.iter_rows(named=True):
        assert row["p_corrected"] == pytest.approx(2 * row["p_value"])
        bounds = (row["low_corrected"], row["high_corrected"])
        assert bounds == pytest.approx((wider["low"], wider["high"]))


@pytest.mark.filterwarnings("ignore:equivalence may be claimed too often")
@pytest.mark.parametrize("relative", [False, True])
def test_runs_at_the_margin_are_equivalent_in_at_most_five_percent(relative):
    # The true difference is 5% of the true mean of the baseline, which varies between samples.
    random, false, samples, n = np.random.default_rng(1), 0, 400, 25
    base = 0.2 + random.exponential(0.3, (samples, n))
    run = base + random.normal(-0.025, 0.03, (samples, n))
    values = pl.DataFrame({
        "sample": np.tile(np.repeat(np.arange(samples), n), 2),
        "query": np.tile(np.arange(n), 2 * samples),
        "run": ["a"] * samples * n + ["b"] * samples * n,
        "x": np.concatenate([base.ravel(), run.ravel()]),
    })  # fmt: skip
    margin = {"relative_margin": 0.05} if relative else {"margin": 0.025}
    result = pr.compare(
        values, "x", baseline="a", by="sample", query="query", alternative="equivalent", **margin
    )
    false = (result["p_value"] < 0.05).mean()
    # Three standard errors of 400 samples.
    assert 0.02 < false < 0.05 + 3 * math.sqrt(0.05 * 0.95 / samples)


@pytest.mark.filterwarnings("ignore:all differences are equal")
def test_nothing_is_claimed_without_knowledge():
    same = pl.concat([VALUES.filter(run="a"), VALUES.filter(run="a").with_columns(run=pl.lit("b"))])
    for margin in ({"margin": 0.1}, {"relative_margin": 0.1}):
        row = compared(same, **margin)
        assert (row["p_value"], row["low"], row["relative_low"]) == (None, None, None)
    # The baseline's mean is 0 up to chance, so that shares of it have no direction.
    around = VALUES.with_columns(pl.col("x") - VALUES.filter(run="a")["x"].mean())
    row = compared(around, relative_margin=0.5)
    assert (row["p_value"], row["relative_low"]) == (None, None)
    # A share of a negative mean is as large as that of a positive one.
    negative = compared(VALUES.with_columns(-pl.col("x")), relative_margin=0.05)
    assert negative["p_value"] == pytest.approx(compared(relative_margin=0.05)["p_value"])


def test_rules_about_equivalence_and_relative_differences():
    rules = ["difference(x) >= -0.02", "difference(x) <= 0.02", "p_value(x) <= 0.05"]
    comparison = pr.compare(
        VALUES, "x", baseline="a", query="query", alternative="equivalent", margin=0.02
    )
    assert pr.check(comparison, rules)["verdict"].to_list() == ["pass"] * 3
    row = comparison.row(0, named=True)
    bounds = (row["relative_low"], row["relative_high"])
    between, outside = sum(bounds) / 2, bounds[1] + 0.01
    relative = [
        (f"relative_difference(x) >= {bounds[0] - 0.001}", "pass"),
        (f"relative_difference(x) >= {between}", "undecided"),
        (f"relative_difference(x) >= {outside}", "fail"),
    ]
    verdicts = pr.check(comparison, [rule for rule, _ in relative], on_fail="return")
    assert verdicts["verdict"].to_list() == [verdict for _, verdict in relative]
    assert verdicts["low"].to_list() == [bounds[0]] * 3
    # A one-sided interval decides non-inferiority as the test with this margin does.
    for share in (0.001, 0.02):
        one = pr.compare(
            VALUES, "x", baseline="a", query="query", alternative="greater", relative_margin=share
        )
        verdict = pr.check(one, [f"relative_difference(x) >= {-share}"], on_fail="return")
        passes = one["p_value"].item() < 0.05
        assert verdict["verdict"].item() == ("pass" if passes else "undecided")


def test_lazy_and_eager_give_the_same():
    options = {"baseline": "a", "query": "query", "alternative": "equivalent", "margin": 0.01}
    lazily = pr.compare(VALUES.lazy(), "x", **options).collect(engine="streaming")
    assert_frame_equal(lazily, pr.compare(VALUES, "x", **options), rel_tol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'equivalent' needs `margin` above 0, or `relative_margin`"),
        ({"margin": 0.1, "confidence": 0.5}, "needs `confidence` above 0.5"),
        ({"margin": 0.1, "relative_margin": 0.1}, "one of `margin` and `relative_margin`"),
        ({"relative_margin": 1}, "`relative_margin` must be a number between 0 and 1"),
        ({"relative_margin": 0.1, "alternative": "two-sided"}, "`relative_margin` needs"),
        ({"relative_margin": 0.1, "test": "wilcoxon"}, "`relative_margin` needs `test` 'auto'"),
        ({"alternative": "equal"}, "`alternative` must be one of"),
    ],
)
def test_misuse_of_margins(options, message):
    with pytest.raises(pr.errors.ArgumentError, match=message):
        compared(**options)


def test_equivalence_of_skewed_differences_leads_to_a_warning():
    difference = np.r_[np.full(27, -0.01), 0.05, 0.06, 0.1]
    assert 30 < 25 * scipy.stats.skew(difference) ** 2
    values = pl.DataFrame({
        "run": ["a"] * 30 + ["b"] * 30, "query": [*range(30)] * 2,
        "x": [*np.full(30, 0.5), *(0.5 + difference)],
    })  # fmt: skip
    with pytest.warns(pr.errors.RankWarning, match=r"too skewed for so few queries: .*run = 'b'"):
        assert compared(values, margin=0.1)["p_value"] < 0.05
    assert compared(values, margin=0.001)["p_value"] > 0.05
    options = {"slices": "country", "baseline": "a", "alternative": "equivalent", "margin": 0.1}
    with pytest.warns(pr.errors.RankWarning, match=r"too skewed for so few queries: .*value = 'x'"):
        pr.slices(values.with_columns(country=pl.lit("x")), "x", **options)
