"""compare(covariate=): against least squares by hand."""

import math

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
import scipy


def table(seed=0, n=80, slope=0.5):
    """Return values whose differences depend on a covariate with the mean 0.5."""
    random = np.random.default_rng(seed)
    covariate, base = random.random(n), random.random(n)
    run = base + 0.1 + slope * (covariate - 0.5) + random.normal(0, 0.1, n)
    return pl.DataFrame({
        "run": ["a"] * n + ["b"] * n, "query": [*range(n)] * 2, "x": [*base, *run],
        "before": [*covariate] * 2, "w": [*(1.0 + np.arange(n) % 3)] * 2,
        "user": [*(np.arange(n) // 2)] * 2,
    })  # fmt: skip


VALUES = table()
KNOWN = {"baseline": "a", "covariate": "before", "covariate_mean": 0.5, "query": "query"}


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_the_difference_is_the_line_at_the_known_mean(engine):
    row = pr.compare(VALUES.lazy(), "x", **KNOWN).collect(engine=engine).row(0, named=True)
    base, run = (VALUES.filter(run=name)["x"].to_numpy() for name in "ab")
    covariate = VALUES.filter(run="a")["before"].to_numpy()
    n, d = len(base), run - base
    # The intercept of d = β₀ + β₁ (c - 0.5) by least squares.
    design = np.column_stack([np.ones(n), covariate - 0.5])
    (intercept, slope), (residual,), _, _ = np.linalg.lstsq(design, d, rcond=None)
    error = math.sqrt(residual / (n - 2) * np.linalg.inv(design.T @ design)[0, 0])
    half = scipy.stats.t.ppf(0.975, n - 2) * error
    assert row["difference"] == pytest.approx(intercept, rel=1e-9)
    assert (row["low"], row["high"]) == pytest.approx((intercept - half, intercept + half))
    p_value = 2 * scipy.stats.t.sf(abs(intercept) / error, n - 2)
    assert row["p_value"] == pytest.approx(p_value, rel=1e-6)
    reduction = 1 - error**2 / (d.var(ddof=1) / n)
    assert row["variance_reduction"] == pytest.approx(reduction, rel=1e-9)
    # The means are adjusted, too, and add up.
    assert row["mean"] - row["baseline_mean"] == pytest.approx(row["difference"])
    assert row["mean"] == pytest.approx(np.linalg.lstsq(design, run, rcond=None)[0][0])
    assert (row["relative_low"], row["effect_low"]) == (None, None)


def test_all_float_columns_but_the_covariate_are_metrics():
    result = pr.compare(VALUES.drop("w"), **KNOWN)
    assert result["metric"].to_list() == ["x"]


def test_equal_weights_and_clusters_change_nothing():
    plain = pr.compare(VALUES, "x", **KNOWN)
    columns = ["difference", "low", "high", "p_value", "variance_reduction"]
    for units in ({"weight": "one"}, {"cluster": "query"}):
        options = {**KNOWN, **units}
        result = pr.compare(VALUES.with_columns(one=pl.lit(2.0)), "x", **options)
        assert_frame_equal(result.select(columns), plain.select(columns), rel_tol=1e-9)


@pytest.mark.parametrize("units", [{}, {"weight": "w"}, {"cluster": "user"}])
def test_moments_can_be_merged(units):
    options = {"query": "query", "baseline": "a", **units}
    parts = [
        pr.stats.moments(part, "x", covariate="before", **options)
        for (_,), part in VALUES.group_by(pl.col("user") % 3)
    ]
    mean = {"baseline": "a", "covariate": "before", "covariate_mean": 0.5}
    merged = pr.compare(pr.stats.merge(parts), **mean)
    assert_frame_equal(merged, pr.compare(VALUES, "x", **KNOWN, **units), rel_tol=1e-9)
    # Without the covariate, they are moments like others.
    plain = pr.compare(pr.stats.merge(parts), baseline="a")
    assert_frame_equal(plain, pr.compare(VALUES, "x", **options), rel_tol=1e-9)
    with pytest.raises(pr.errors.DataError, match="computed with the covariate 'before'"):
        pr.compare(parts[0], **{**mean, "covariate": "after"})
    without = pr.stats.moments(VALUES, "x", **options)
    with pytest.raises(pr.errors.SchemaError, match="no sums of a covariate"):
        pr.compare(without, **mean)
    with pytest.raises(pr.errors.SchemaError, match="with a covariate and moments without"):
        pr.stats.merge([parts[0], without])


def test_a_constant_covariate_adjusts_nothing():
    constant = VALUES.with_columns(before=pl.lit(0.5))
    row = pr.compare(constant, "x", **KNOWN).row(0, named=True)
    plain = pr.compare(VALUES, "x", baseline="a", query="query").row(0, named=True)
    assert (row["low"], row["high"]) == pytest.approx((plain["low"], plain["high"]))
    assert row["variance_reduction"] == 0


def test_equivalence_of_adjusted_differences():
    options = {**KNOWN, "alternative": "equivalent", "margin": 0.15}
    row = pr.compare(VALUES, "x", **options).row(0, named=True)
    inner = pr.compare(VALUES, "x", **KNOWN, confidence=0.9).row(0, named=True)
    assert (row["low"], row["high"]) == pytest.approx((inner["low"], inner["high"]))
    assert (row["p_value"] < 0.05) == (row["high"] < 0.15)


def test_warnings_about_the_known_mean():
    of_table = VALUES["before"].mean()
    own = {**KNOWN, "covariate_mean": of_table}
    with pytest.warns(pr.errors.RankWarning, match="is that over the queries of the table"):
        of_given = pr.compare(VALUES, "x", **own)
    with pytest.warns(pr.errors.RankWarning, match="too narrow for all queries; pass"):
        of_default = pr.compare(VALUES, "x", **{**KNOWN, "covariate_mean": None})
    assert_frame_equal(of_default, of_given)
    plain = pr.compare(VALUES, "x", baseline="a", query="query")
    assert of_default["difference"].item() == pytest.approx(plain["difference"].item(), abs=1e-12)
    assert of_default["variance_reduction"].item() > 0
    with pytest.warns(pr.errors.RankWarning, match="not a random sample of all"):
        pr.compare(VALUES, "x", **{**KNOWN, "covariate_mean": 0.9})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"covariate": None}, pr.errors.ArgumentError, "`covariate_mean` needs `covariate`"),
        ({"by": "w"}, pr.errors.ArgumentError, "does not support `by`; compare each group"),
        ({"predictions": VALUES}, pr.errors.ArgumentError, "not support `predictions`"),
        ({"test": "wilcoxon"}, pr.errors.ArgumentError, "`covariate` needs `test` 'auto' or 't'"),
        (
            {"alternative": "less", "relative_margin": 0.1},
            pr.errors.ArgumentError,
            "`relative_margin` does not support `covariate`",
        ),
        ({"covariate": "after"}, pr.errors.SchemaError, "column 'after' .`covariate`. not found"),
        ({"covariate": "run"}, pr.errors.SchemaError, "'run'"),
    ],
)
def test_misuse(options, error, message):
    with pytest.raises(error, match=message):
        pr.compare(VALUES, "x", **{**KNOWN, **options})


def test_invalid_covariates():
    null = VALUES.with_columns(before=pl.when(pl.col("query") != 3).then("before"))
    with pytest.raises(pr.errors.DataError, match="2 rows: null, NaN or infinite values in the"):
        pr.compare(null, "x", **KNOWN)
    of_run = VALUES.with_columns(before=pl.col("before") + (pl.col("run") == "b"))
    with pytest.raises(pr.errors.DataError, match="80 queries with another value of 'before'"):
        pr.compare(of_run.lazy(), "x", **KNOWN).collect()
    with pytest.raises(pr.errors.ArgumentError, match="'num_rel' is a sum"):
        pr.compare(VALUES.rename({"x": "num_rel"}), "num_rel", **KNOWN)
    with pytest.raises(pr.errors.ArgumentError, match="`covariate` needs `baseline`"):
        pr.stats.moments(VALUES, "x", covariate="before")
