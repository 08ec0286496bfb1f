"""power, against statsmodels and scipy."""

import math

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
import scipy
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
        smallest = theirs.solve_power(None, 300, 0.05, 0.8, alternative=side)
        assert row["smallest"] / row["std"] == pytest.approx(smallest, rel=1e-6)
        at_smallest = theirs.power(row["smallest"] / row["std"], 300, 0.05, alternative=side)
        assert at_smallest == pytest.approx(0.8, abs=1e-9)


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
    assert (row["power"], row["needed"], row["smallest"]) == (None, None, None)


def test_power_of_extremes():
    def pair(base, run):
        n = len(base)
        return pl.DataFrame(
            {"run": ["a"] * n + ["b"] * n, "query": [*range(n)] * 2, "x": [*base, *run]}
        )

    # Differences that cancel, and those that are all the same: but for rounding.
    for run in ([0.3, 0.1, 0.2], [0.2, 0.3, 0.4]):
        row = pr.stats.power(pair([0.1, 0.2, 0.3], run), baseline="a").row(0, named=True)
        assert (row["power"], row["needed"], row["smallest"]) == (None, None, None)
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
