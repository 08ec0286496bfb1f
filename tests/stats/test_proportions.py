"""Intervals and tests of metrics whose values are 0 or 1."""

import math
import warnings

import numpy as np
import needs
import polars as pl
import polars_rank as pr
import pytest
import scipy
from polars_rank.stats.proportions import score, score_test, tango

Z = scipy.stats.norm.ppf(0.975)


def hits(*runs):
    """Return a table of runs "a", "b", ... with these hit rates per query."""
    return pl.concat(
        pl.DataFrame({"run": name, "query": range(len(values)), "hit_rate@10": values}).cast(
            {"hit_rate@10": pl.Float64}
        )
        for name, values in zip("abcdef", runs, strict=False)
    )


@pytest.mark.parametrize(("count", "n"), [(0, 5), (5, 5), (3, 10), (95, 100), (1, 2)])
def test_wilson_is_that_of_statsmodels(count, n):
    proportion = needs.package("statsmodels.stats.proportion", "test")
    table = hits([1] * count + [0] * (n - count))
    row = pr.summarize(table).row(0, named=True)
    expected = proportion.proportion_confint(count, n, method="wilson")
    assert (row["low"], row["high"]) == pytest.approx(expected, abs=1e-12)
    assert (row["interval"], row["used"]) == ("wilson", n)


def test_wilson_with_weights_is_of_the_effective_number():
    values, weights = np.array([1, 0, 1, 1, 0, 1] * 10), np.arange(60) + 1.0
    table = hits(values).with_columns(w=pl.Series(weights))
    row = pr.summarize(table, weight="w").row(0, named=True)
    n, p = weights.sum() ** 2 / (weights**2).sum(), (weights * values).sum() / weights.sum()
    assert row["effective"] == pytest.approx(n)
    center = (p + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    assert (row["low"], row["high"]) == pytest.approx((center - half, center + half))


def test_an_explicit_t_stays_t():
    table = hits([1, 0, 1, 1] * 10, [1, 1, 1, 0] * 10)
    row = pr.summarize(table, interval="t").row(0, named=True)
    interval = scipy.stats.t.interval(0.95, 39, row["mean"], row["std_error"])
    assert (row["low"], row["high"]) == pytest.approx(interval)
    assert row["interval"] == "t"
    compared = pr.compare(table, baseline="a", test="t").row(0, named=True)
    a, b = (table.filter(run=run)["hit_rate@10"].to_numpy() for run in "ab")
    assert compared["p_value"] == pytest.approx(scipy.stats.ttest_rel(b, a).pvalue)
    assert compared["interval"] == "t"


def wilson(count, n):
    center, half = count + Z**2 / 2, Z * math.sqrt(count * (n - count) / n + Z**2 / 4)
    return pytest.approx(((center - half) / (n + Z**2), (center + half) / (n + Z**2)))


@pytest.mark.parametrize("dtype", [pl.Float64, pl.Int64, pl.Boolean])
@pytest.mark.parametrize("count", [19, 20])
def test_values_of_0_and_1_are_recognized_whatever_the_name(count, dtype):
    correct = pl.Series([1] * count + [0] * (20 - count)).cast(dtype)
    table = pl.DataFrame({"query": range(20), "correct": correct})
    for values in (table, pr.stats.moments(table, "correct")):
        row = pr.summarize(values, "correct").row(0, named=True)
        assert (row["low"], row["high"]) == wilson(count, 20)
        assert row["interval"] == "wilson"


def test_a_perfect_score_passes_by_its_exact_bound():
    summary = pr.summarize(pl.DataFrame({"query": range(10), "correct": [1.0] * 10}))
    verdict = pr.check(summary, ["correct >= 0.69"]).row(0, named=True)
    # 0.025 is the probability of 10 of 10 if the true share is this bound.
    assert verdict["low"] == pytest.approx(0.025 ** (1 / 10))
    assert verdict["verdict"] == "pass"


def test_other_values_have_a_t_interval():
    table = pl.DataFrame({"query": range(4), "hit_rate@10": [0.5, 1.0, 0.0, 1.0]})
    with pytest.warns(pr.errors.RankWarning, match="exceed"):
        assert pr.summarize(table)["interval"].item() == "t"
    unknown = pl.DataFrame({"query": range(4), "x": pl.Series([None] * 4, dtype=pl.Float64)})
    assert pr.summarize(unknown)["interval"].item() == "t"


@pytest.mark.parametrize("other", [1.0, 0.5])
def test_groups_runs_and_slices_have_one_method(other):
    """A single value that is not 0 or 1 decides for the whole table."""
    table = pl.DataFrame(
        {
            "run": ["a"] * 20 + ["b"] * 20,
            "query": [*range(20)] * 2,
            "country": ["DE", "JP"] * 20,
            "x": [1.0, 0.0] * 19 + [0.0, other],
        }
    )
    mean, difference = ("wilson", "tango") if other == 1 else ("t", "t")
    parts = [table.filter(pl.col("query") < 10), table.filter(pl.col("query") >= 10)]
    of_parts = [pr.stats.moments(part, by="country", baseline="a") for part in parts]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for values in (table, pr.stats.merge(of_parts)):
            assert {*pr.summarize(values, by="country")["interval"]} == {mean}
            assert {*pr.summarize(values)["interval"]} == {mean}
            assert {*pr.compare(values, baseline="a", by="country")["interval"]} == {difference}
        of_slices = pr.slices(table, "x", slices="country", baseline="a", min_queries=1)
        assert {*of_slices["interval"]} == {difference}


def test_a_metric_of_your_own_and_moments_agree():
    table = pl.DataFrame({"query": range(8), "clicked": [True, False] * 4})
    moments = pr.stats.moments(table, "clicked")
    assert pr.summarize(moments).row(0) == pr.summarize(table, "clicked").row(0)


def brute_force_score(wins, losses, n, difference):
    """Return Tango's statistic with the likeliest probabilities from a search."""
    low, high = max(0.0, -difference), (1 - difference) / 2

    def minus_log_likelihood(loss):
        win, same = loss + difference, 1 - 2 * loss - difference
        counts = ((wins, win), (losses, loss), (n - wins - losses, same))
        return -sum(count * math.log(max(p, 1e-300)) for count, p in counts if count)

    found = scipy.optimize.minimize_scalar(
        minus_log_likelihood, bounds=(low, high), method="bounded", options={"xatol": 1e-12}
    )
    variance = n * (2 * found.x + difference - difference**2)
    return (wins - losses - n * difference) / math.sqrt(variance)


@pytest.mark.parametrize(("wins", "losses", "n"), [(9, 3, 32), (1, 0, 50), (4, 4, 9), (2, 7, 200)])
def test_score_and_interval_are_those_of_a_search(wins, losses, n):
    for difference in (-0.3, -0.05, 0.0, 0.02, 0.25):
        expected = brute_force_score(wins, losses, n, difference)
        assert score(wins, losses, n, difference) == pytest.approx(expected, rel=1e-4, abs=1e-6)
    for bound, sign in zip(tango(wins, losses, n, Z), (1, -1), strict=True):
        assert score(wins, losses, n, bound) == pytest.approx(sign * Z, rel=1e-9)
    assert score(wins, losses, n, 0) == pytest.approx((wins - losses) / math.sqrt(wins + losses))


def test_without_discordant_pairs():
    table = hits([1, 0] * 20, [1, 0] * 20)
    row = pr.compare(table, baseline="a").row(0, named=True)
    assert (row["p_value"], row["interval"]) == (1.0, "tango")
    bound = Z**2 / (40 + Z**2)
    assert (row["low"], row["high"]) == pytest.approx((-bound, bound), rel=1e-9)


def test_mcnemar():
    a, b = [1] * 3 + [0] * 9 + [1] * 20, [0] * 3 + [1] * 9 + [1] * 20
    row = pr.compare(hits(a, b), baseline="a").row(0, named=True)
    statistic = (9 - 3) / math.sqrt(9 + 3)
    assert row["p_value"] == pytest.approx(2 * scipy.stats.norm.sf(statistic))
    one_sided = pr.compare(hits(a, b), baseline="a", alternative="greater").row(0, named=True)
    assert one_sided["p_value"] == pytest.approx(scipy.stats.norm.sf(statistic))
    assert one_sided["high"] == math.inf
    within = pr.compare(hits(a, b), baseline="a", alternative="greater", margin=0.1)
    assert within["p_value"].item() == pytest.approx(score_test(9, 3, 32, -0.1, "greater"))


def test_weighted_and_clustered_pairs():
    random = np.random.default_rng(3)
    a, b, w = random.random(80) < 0.5, random.random(80) < 0.7, random.random(80) + 0.5
    table = hits(a, b).with_columns(w=pl.Series([*w, *w]), user=pl.col("query") % 40)
    metric = ["hit_rate@10"]
    row = pr.compare(table, metric, baseline="a", weight="w").row(0, named=True)
    n = w.sum() ** 2 / (w**2).sum()
    wins, losses = (n * (w * each).sum() / w.sum() for each in (b & ~a, a & ~b))
    assert (row["low"], row["high"]) == pytest.approx(tango(wins, losses, n, Z), rel=1e-9)
    clustered = pr.compare(table, metric, baseline="a", cluster="user").row(0, named=True)
    wins, losses = (40 * each.mean() for each in (b & ~a, a & ~b))
    assert (clustered["low"], clustered["high"]) == pytest.approx(tango(wins, losses, 40, Z))
    moments = pr.stats.moments(table, metric, baseline="a", weight="w")
    merged = pr.compare(moments, baseline="a").row(0, named=True)
    for name in ("low", "high", "p_value", "relative_low", "effect_high", "effective"):
        assert merged[name] == pytest.approx(row[name], rel=1e-9)


def test_values_that_depend_on_the_weights_are_warned_of():
    # The heavy tenth of the queries is random, the others are always 1.
    random = np.random.default_rng(1)
    heavy = np.arange(400) % 10 == 0
    values = np.where(heavy, random.random(400) < 0.5, 1.0)
    w = pl.Series(np.where(heavy, 3.0, 1.0))
    table = hits(values).with_columns(w=w)
    with pytest.warns(pr.errors.RankWarning, match="heavy queries vary more .* `interval` 't'"):
        wilson = pr.summarize(table, "hit_rate@10", weight="w").row(0, named=True)
    t = pr.summarize(table, "hit_rate@10", weight="w", interval="t").row(0, named=True)
    assert t["high"] - t["low"] > 1.2 * (wilson["high"] - wilson["low"])
    other = np.where(heavy, random.random(400) < 0.5, 1.0)
    both = hits(values, other).with_columns(w=pl.concat([w, w]))
    with pytest.warns(pr.errors.RankWarning, match="heavy queries vary more .* `test` 't'"):
        pr.compare(both, "hit_rate@10", baseline="a", weight="w")
