"""power, against statsmodels and scipy."""

import math

import needs
import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
import scipy
import scipy.integrate
from tables import by_query

LOG = pr.datasets.search_log(300, runs=["old", "new", "best"], seed=2)
LISTS = pr.per_query(LOG, ["ap", "num_rel", "rr"], by="run").collect()


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("difference", [None, 0.01, 0.3])
def test_power_is_that_of_statsmodels(alternative, difference):
    theirs = needs.package("statsmodels.stats.power", "test").TTestPower()
    result = pr.stats.power(
        LISTS, baseline="old", metrics=["ap"], difference=difference, alternative=alternative
    )
    side = "two-sided" if alternative == "two-sided" else "larger"
    for row in result.iter_rows(named=True):
        wide = by_query(LISTS, "ap")
        differences = (wide[row["run"]] - wide["old"]).to_numpy()
        assert row["std"] == pytest.approx(differences.std(ddof=1), rel=1e-9)
        target = abs(differences.mean()) if difference is None else difference
        effect = target / row["std"]
        expected = theirs.power(effect, 300, 0.05, alternative=side)
        if math.isnan(expected):  # what statsmodels gives for a power of almost 1
            assert row["power"] > 0.999
        else:
            assert row["power"] == pytest.approx(expected, rel=1e-9)
        needed = theirs.solve_power(effect, None, 0.05, 0.8, alternative=side)
        assert row["needed"] == math.ceil(needed)
        detectable = theirs.solve_power(None, 300, 0.05, 0.8, alternative=side)
        assert row["detectable"] / row["std"] == pytest.approx(detectable, rel=1e-6)
        at_detectable = theirs.power(row["detectable"] / row["std"], 300, 0.05, alternative=side)
        assert at_detectable == pytest.approx(0.8, abs=1e-9)


def test_power_of_moments_and_of_many_queries():
    moments = pr.stats.moments(LISTS, run="run", baseline="old")
    options = {"baseline": "old", "metrics": ["ap", "rr"], "difference": 0.001}
    assert_frame_equal(
        pr.stats.power(moments, **options), pr.stats.power(LISTS, **options), rel_tol=1e-9
    )
    lazily = pr.stats.power(LISTS.lazy(), **options).collect(engine="streaming")
    assert_frame_equal(lazily, pr.stats.power(LISTS, **options), rel_tol=1e-9)
    row = lazily.row(0, named=True)
    # From the normal distribution, which is right for so many.
    z = scipy.stats.norm.isf(0.025) + scipy.stats.norm.isf(0.2)
    assert row["needed"] == pytest.approx((z * row["std"] / 0.001) ** 2, rel=1e-4)


def test_nothing_to_show():
    twins = pl.concat(
        [LISTS.filter(run="old"), LISTS.filter(run="old").with_columns(run=pl.lit("x"))]
    )
    row = pr.stats.power(twins, baseline="old", metrics="ap").row(0, named=True)
    assert (row["power"], row["needed"], row["detectable"]) == (None, None, None)


def test_power_of_extremes():
    def pair(base, run):
        n = len(base)
        return pl.DataFrame(
            {"run": ["a"] * n + ["b"] * n, "query": [*range(n)] * 2, "x": [*base, *run]}
        )

    # Differences that cancel, and those that are all the same: but for rounding.
    for run in ([0.3, 0.1, 0.2], [0.2, 0.3, 0.4]):
        row = pr.stats.power(pair([0.1, 0.2, 0.3], run), baseline="a").row(0, named=True)
        assert (row["power"], row["needed"], row["detectable"]) == (None, None, None)
    lists = pair([0.0, 0.0], [1.0, 2.0])
    tiny = pr.stats.power(lists, baseline="a", difference=1e-300).row(0, named=True)
    assert tiny["power"] == pytest.approx(0.05)
    assert tiny["needed"] is None
    huge = pr.stats.power(lists, baseline="a", difference=1e12).row(0, named=True)
    assert (huge["power"], huge["needed"]) == (1.0, 2)
    strict = pr.stats.power(lists, baseline="a", difference=0.5, confidence=1 - 1e-12).row(
        0, named=True
    )
    assert 0 < strict["power"] < 1e-11
    assert strict["needed"] == 152


def simulated_equivalence(n, effect, margin, tail, samples=40_000):
    """Return the share of normal samples whose two one-sided tests reject."""
    random = np.random.default_rng(3)
    mean = random.normal(effect, 1 / math.sqrt(n), samples)
    error = np.sqrt(random.chisquare(n - 1, samples) / (n - 1) / n)
    critical = scipy.stats.t.isf(tail, n - 1)
    return (np.abs(mean) < margin - critical * error).mean()


@pytest.mark.parametrize("difference", [None, 0.01])
def test_power_of_equivalence(difference):
    row = pr.stats.power(
        LISTS, baseline="old", metrics="ap", alternative="equivalent", margin=0.03,
        difference=difference,
    ).row(0, named=True)  # fmt: skip
    assert row["target"] == (difference or 0.0)
    effect, margin = row["target"] / row["std"], 0.03 / row["std"]
    # Three standard errors of the simulation.
    near = {"abs": 3 * math.sqrt(0.25 / 40_000)}
    assert row["power"] == pytest.approx(simulated_equivalence(300, effect, margin, 0.05), **near)
    at_needed = simulated_equivalence(row["needed"], effect, margin, 0.05)
    assert at_needed == pytest.approx(0.8, **near)
    at_margin = simulated_equivalence(300, effect, row["detectable"] / row["std"], 0.05)
    assert at_margin == pytest.approx(0.8, **near)
    # With many queries, from the normal distribution.
    z = scipy.stats.norm.isf(0.05) + scipy.stats.norm.isf(0.1 if difference is None else 0.2)
    expected = (z / (margin - effect)) ** 2
    assert row["needed"] == pytest.approx(expected, rel=0.01, abs=3)


def test_power_of_equivalence_by_integration():
    # The density of the sample's standard deviation times the normal probability given it.
    values = pl.DataFrame({
        "run": ["a"] * 5 + ["b"] * 5, "query": [*range(5)] * 2,
        "x": [0.0] * 5 + [-0.2, -0.1, 0.0, 0.1, 0.2],
    })  # fmt: skip
    row = pr.stats.power(
        values, baseline="a", alternative="equivalent", margin=0.3, difference=0.1
    ).row(0, named=True)
    n, std, critical = 5, math.sqrt(0.025), scipy.stats.t.isf(0.05, 4)

    def probability(s):
        half = critical * s / math.sqrt(n)
        low, high = ((end - 0.1) * math.sqrt(n) / std for end in (-0.3 + half, 0.3 - half))
        within = max(scipy.stats.norm.cdf(high) - scipy.stats.norm.cdf(low), 0)
        return within * scipy.stats.chi2.pdf(4 * s * s / 0.025, 4) * 8 * s / 0.025

    widest = 0.3 * math.sqrt(n) / critical
    assert row["power"] == pytest.approx(scipy.integrate.quad(probability, 0, widest)[0], rel=1e-9)


def binary(n, wins, losses):
    return pl.DataFrame({
        "run": ["a"] * n + ["b"] * n, "query": [*range(n)] * 2,
        "hit": [0.0] * (n - losses) + [1.0] * losses + [1.0] * wins + [0.0] * (n - wins),
    })  # fmt: skip


def test_the_interval_of_needed_is_that_of_the_standard_deviation():
    n = 50
    row = pr.stats.power(binary(n, 10, 8), baseline="a", difference=0.05).row(0, named=True)
    mean, changed = 2 / n, 18 / n
    variance = (18 - n * mean**2) / (n - 1)
    # At least that of the normal distribution.
    kurtosis = max(min(6 / changed, (1 + mean) ** 2 / variance), 3)
    degrees = 2 / (2 / (n - 1) + (kurtosis - 3) / n)
    for name, share in (("needed_low", 0.975), ("needed_high", 0.025)):
        std = math.sqrt(degrees * variance / scipy.stats.chi2.ppf(share, degrees))
        at_bound, before = (
            scipy.stats.nct.sf(scipy.stats.t.isf(0.025, m - 1), m - 1, 0.05 / std * math.sqrt(m))
            for m in (row[name], row[name] - 1)
        )
        assert before < 0.8 <= at_bound
    assert row["needed_low"] < row["needed"] < row["needed_high"]


def test_without_a_difference_the_effect_is_uncertain():
    clear = pr.stats.power(binary(50, 25, 2), baseline="a").row(0, named=True)
    assert clear["needed_low"] < clear["needed"] < clear["needed_high"]
    # The observed difference may be 0, which no number of queries detects.
    unclear = pr.stats.power(binary(50, 10, 8), baseline="a").row(0, named=True)
    assert unclear["needed_low"] < unclear["needed"]
    assert unclear["needed_high"] is None


def test_needed_counts_queries_of_clusters():
    # Three equal queries of each user are as good as one.
    users = binary(40, 12, 4).rename({"query": "user"})
    queries = users.join(pl.DataFrame({"query": [0, 1, 2]}), how="cross").with_columns(
        query=pl.col("user") * 3 + pl.col("query")
    )
    options = {"baseline": "a", "difference": 0.1}
    of_users = pr.stats.power(users, query="user", **options).row(0, named=True)
    of_queries = pr.stats.power(queries, cluster="user", **options).row(0, named=True)
    assert of_queries["detectable"] == pytest.approx(of_users["detectable"])
    for name in ("needed_low", "needed", "needed_high"):
        assert of_queries[name] == pytest.approx(3 * of_users[name], rel=0.02, abs=3)


def test_the_interval_of_needed_contains_the_true_number():
    # Four in five differences are 0, so that the chi-square interval would be far too narrow.
    random, samples, n = np.random.default_rng(7), 100, 60
    difference = random.normal(0, 1, (samples, n)) * (random.random((samples, n)) < 0.2)
    values = pl.DataFrame({
        "sample": np.tile(np.repeat(np.arange(samples), n), 2),
        "query": np.tile(np.arange(n), 2 * samples),
        "run": ["a"] * samples * n + ["b"] * samples * n,
        "x": np.concatenate([np.zeros(samples * n), difference.ravel()]),
    })  # fmt: skip
    result = pr.stats.power(values, baseline="a", by="sample", query="query", difference=0.2)
    z = scipy.stats.norm.isf(0.025) + scipy.stats.norm.isf(0.2)
    true = float(0.2 * (z / 0.2) ** 2)
    inside = result.select((pl.col("needed_low") <= true) & (true <= pl.col("needed_high") + 1))
    assert inside.to_series().mean() > 0.93


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"power": 80}, pr.errors.ArgumentError, "`power` must be a number between 0 and 1"),
        ({"confidence": 1}, pr.errors.ArgumentError, "`confidence` must be"),
        ({"power": 0.05}, pr.errors.ArgumentError, "`power` must be above 1 - `confidence` = 0.05"),
        (
            {"power": 0.1, "confidence": 0.8},
            pr.errors.ArgumentError,
            "`power` must be above 1 - `confidence` = 0.2",
        ),
        ({"margin": 0.1}, pr.errors.ArgumentError, "`margin` needs `alternative` 'equivalent'"),
        (
            {"alternative": "equivalent"},
            pr.errors.ArgumentError,
            "`margin` must be a number above 0",
        ),
        (
            {"alternative": "equivalent", "margin": 0.1, "difference": 0.1},
            pr.errors.ArgumentError,
            "from 0 to below `margin` = 0.1",
        ),
        ({"difference": -0.1}, pr.errors.ArgumentError, "`difference` must be a number above 0"),
        (
            {"metrics": "num_rel"},
            pr.errors.DataError,
            "'num_rel' is a sum, not a mean over queries",
        ),
        ({"baseline": "older"}, pr.errors.DataError, "run 'older' .`baseline`. not found"),
    ],
)
def test_misuse_of_power(options, error, message):
    with pytest.raises(error, match=message):
        pr.stats.power(LISTS, **{"baseline": "old", "metrics": "ap", **options})
