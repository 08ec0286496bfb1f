"""summarize: the means of evaluate, and intervals that are right."""

import itertools
import math
import sys
import warnings

import numpy as np
import needs
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from polars_rank.stats.query_hash import query_key
import scipy

METRICS = ["ndcg@10", "ap", "rr@3", "num_rel", "gm_map", "p@5"]
#: Some of these tests are about a few rankings.
pytestmark = pytest.mark.filterwarnings("ignore:.* intervals exceed")

LOG = pr.datasets.search_log(300, runs=2, seed=5).collect()
LISTS = pr.per_query(LOG, METRICS, by=["run", "country"])


@pytest.mark.parametrize(
    "conventions", [pr.conventions.POLARS_RANK, pr.conventions.LIGHTGBM, pr.conventions.CATBOOST]
)
def test_means_are_those_of_evaluate(conventions):
    log = LOG.filter(pl.col("query") < 100)
    lists = pr.per_query(log, METRICS, by="run", conventions=conventions)
    for undefined in (None, "zero", "skip", "one", "null", {"ap": "one"}):
        options = {"undefined": undefined, "conventions": conventions}
        result = pr.summarize(lists, interval="none", **options)
        wide = pr.evaluate(log, METRICS, by="run", **options)
        expected = wide.unpivot(METRICS, index="run", variable_name="metric", value_name="mean")
        assert_frame_equal(
            result.select("run", "metric", "mean").sort("run", "metric"),
            expected.sort("run", "metric"),
            rel_tol=1e-12,
        )
        assert result["queries"].unique().to_list() == [100]


def test_expressions_of_ones_own_are_skipped():
    lists = pl.DataFrame({"query": [1, 2], "mine": [0.5, None]})
    assert pr.summarize(lists)["mean"].to_list() == [0.5]
    assert pr.summarize(lists, undefined="zero")["mean"].to_list() == [0.25]


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_t_interval_is_that_of_scipy(engine):
    result = pr.summarize(LISTS.lazy(), ["ap"], run=None, by="country", confidence=0.9).collect(
        engine=engine
    )
    for row in result.iter_rows(named=True):
        values = LISTS.filter(country=row["country"])["ap"].fill_null(0).to_numpy()
        assert row["std"] == pytest.approx(values.std(ddof=1), rel=1e-9)
        assert row["std_error"] == pytest.approx(scipy.stats.sem(values), rel=1e-9)
        expected = scipy.stats.ttest_1samp(values, 0).confidence_interval(0.9)
        assert (row["low"], row["high"]) == pytest.approx(tuple(expected), rel=1e-9)


def test_normal_interval():
    row = pr.summarize(LISTS, ["ap"], run=None, interval="normal").row(0, named=True)
    low, high = scipy.stats.norm.interval(0.95, row["mean"], row["std_error"])
    assert (row["low"], row["high"]) == pytest.approx((low, high), rel=1e-9)


def test_sequence_is_the_formula():
    row = pr.summarize(LISTS, ["ap"], run=None, interval="sequence").row(0, named=True)
    n, alpha = row["queries"], 0.05
    rho2 = (-2 * math.log(alpha) + math.log(-2 * math.log(alpha) + 1)) / 1000
    sigma = row["std_error"] * math.sqrt(n)
    width = sigma * math.sqrt(
        2 * (n * rho2 + 1) / (n**2 * rho2) * math.log(math.sqrt(n * rho2 + 1) / alpha)
    )
    assert row["high"] - row["mean"] == pytest.approx(width, rel=1e-9)
    assert row["mean"] - row["low"] == pytest.approx(width, rel=1e-9)


def test_weights_are_repeated_lists_but_for_the_number_of_units():
    weighed = LISTS.with_columns(w=(pl.col("p@5") * 5 + 1).cast(pl.Int64))
    mean = pr.summarize(weighed, ["ap"], run=None, weight="w").row(0, named=True)["mean"]
    repeated = weighed.select(pl.col("ap").repeat_by("w").explode())
    assert mean == pytest.approx(repeated["ap"].fill_null(0).mean(), rel=1e-12)


def test_cluster_robust_error_is_that_of_statsmodels():
    sm = needs.package("statsmodels.api", "test")
    lists = LISTS.with_columns(user=pl.col("query") % 37, w=1.0 + pl.col("query") % 4)
    y = lists["ap"].fill_null(0).to_numpy()
    users = lists["user"].to_numpy()
    for weight in (None, "w"):
        weights = np.ones(len(y)) if weight is None else lists["w"].to_numpy()
        model = sm.WLS(y, np.ones((len(y), 1)), weights=weights)
        fit = model.fit(
            cov_type="cluster", cov_kwds={"groups": users, "use_correction": False}, use_t=True
        )
        result = pr.summarize(lists, ["ap"], run=None, weight=weight, cluster="user")
        result = result.row(0, named=True)
        # statsmodels without its correction divides by the clusters, not by one less.
        sizes = np.bincount(users, weights=weights)
        effective = sizes.sum() ** 2 / (sizes**2).sum()
        assert result["effective"] == pytest.approx(effective, rel=1e-12)
        expected = fit.bse[0] * math.sqrt(effective / (effective - 1))
        assert result["std_error"] == pytest.approx(expected, rel=1e-9)
        assert result["mean"] == pytest.approx(fit.params[0], rel=1e-9)
        width = scipy.stats.t.ppf(0.975, effective - 1) * expected
        assert result["high"] - result["mean"] == pytest.approx(width, rel=1e-9)


def test_sums_and_geometric_means_have_intervals_of_their_own_scale():
    rows = {row["metric"]: row for row in pr.summarize(LISTS, run=None).iter_rows(named=True)}
    total = LISTS["num_rel"]
    low, high = scipy.stats.ttest_1samp(total, 0).confidence_interval()
    assert rows["num_rel"]["mean"] == total.sum()
    assert (rows["num_rel"]["low"], rows["num_rel"]["high"]) == pytest.approx(
        (low * 600, high * 600), rel=1e-9
    )
    logs = LISTS["gm_map"].fill_null(math.log(1e-5))
    low, high = scipy.stats.ttest_1samp(logs, 0).confidence_interval()
    assert (rows["gm_map"]["low"], rows["gm_map"]["high"]) == pytest.approx(
        (math.exp(low), math.exp(high)), rel=1e-9
    )


def test_keys_of_queries_depend_on_the_order_of_columns():
    rows = pl.DataFrame({"a": [1, 2], "b": [2, 1]})
    assert rows.select(query_key(rows.columns, rows.dtypes)).to_series().n_unique() == 2


@pytest.mark.parametrize("interval", ["bootstrap", "studentized"])
@pytest.mark.parametrize("options", [{}, {"cluster": "user"}, {"weight": "w"}])
def test_bootstrap_depends_on_queries_alone(interval, options):
    lists = LISTS.filter(pl.col("query") < 100).with_columns(
        user=pl.format("u{}", pl.col("query") % 50), w=1.0 + pl.col("query") % 3
    )
    options = {"metrics": ["ap", "rr@3"], "interval": interval, **options}
    options["n_resamples"] = 100
    whole = pr.summarize(lists, **options)
    turned = lists.sample(fraction=1, shuffle=True, seed=3)
    pieces = pl.concat([part.lazy() for part in turned.iter_slices(77)], rechunk=False)
    for engine in ("in-memory", "streaming"):
        again = pr.summarize(pieces, **options).collect(engine=engine)
        assert_frame_equal(again, whole, rel_tol=1e-11)
    other = pr.summarize(lists, **options, seed=1)
    assert other["low"].to_list() != whole["low"].to_list()
    narrow = pr.summarize(lists.with_columns(pl.col("query").cast(pl.Int32)), **options)
    assert_frame_equal(narrow, whole, rel_tol=1e-11)


def test_bootstrap_is_that_of_scipy_within_chance():
    values = LISTS.filter(run="run2" if "run2" in LISTS["run"] else LISTS["run"][0])
    x = values["ap"].fill_null(0).to_numpy()
    n = 4000
    result = pr.summarize(values, ["ap"], interval="bootstrap", n_resamples=n).row(0, named=True)
    theirs = scipy.stats.bootstrap(
        (x,), np.mean, n_resamples=n, method="percentile", rng=np.random.default_rng(0)
    ).confidence_interval
    # The standard error of a quantile of n draws from about a normal distribution, twice.
    chance = (
        scipy.stats.sem(x)
        * math.sqrt(0.025 * 0.975 / n)
        / scipy.stats.norm.pdf(1.96)
        * math.sqrt(2)
    )
    assert abs(result["low"] - theirs.low) < 3 * chance
    assert abs(result["high"] - theirs.high) < 3 * chance


def test_poisson_draws_have_the_right_distribution():
    from polars_rank.stats.resampling import _hashes, _poisson_counts

    bits = _hashes(np, np.arange(500, dtype=np.uint64), 500, 7)
    counts = _poisson_counts(np)[bits.view(np.uint16)]
    observed = np.bincount(counts.astype(int).ravel(), minlength=6)[:6]
    expected = scipy.stats.poisson.pmf(range(6), 1) * counts.size
    assert (abs(observed - expected) < 4 * np.sqrt(expected)).all()
    # Neither neighbouring queries nor neighbouring replicates go together.
    assert abs(np.corrcoef(counts[:-1].ravel(), counts[1:].ravel())[0, 1]) < 4 / 1000
    assert abs(np.corrcoef(counts[:, :-1].ravel(), counts[:, 1:].ravel())[0, 1]) < 4 / 1000


def test_keys_of_strings_do_not_change():
    from polars_rank.stats.query_hash import query_key

    frame = pl.DataFrame({"a": ["x", "y"], "b": [1, 2]})
    key = query_key(["a", "b"], [pl.String(), pl.Int64()])
    assert frame.select(key).to_series().n_unique() == 2
    categories = frame.with_columns(pl.col("a").cast(pl.Categorical))
    other = query_key(["a", "b"], [pl.Categorical(), pl.Int64()])
    assert categories.select(other).to_series().to_list() == frame.select(key).to_series().to_list()


def test_quantiles():
    result = pr.summarize(LISTS, ["ap"], quantiles=[0.1, 0.5])
    for row in result.iter_rows(named=True):
        values = LISTS.filter(run=row["run"])["ap"].fill_null(0)
        assert row["q0.5"] == pytest.approx(values.median())
        assert row["q0.1"] == pytest.approx(np.quantile(values, 0.1))


def test_moments_give_the_same():
    whole = pr.summarize(LISTS)
    merged = pr.stats.merge(
        [pr.stats.moments(part, by="country") for part in LISTS.iter_slices(50)]
    )
    result = pr.summarize(merged)
    assert_frame_equal(result, whole, rel_tol=1e-11)
    assert_frame_equal(pr.summarize(merged, "ap"), pr.summarize(LISTS, "ap"), rel_tol=1e-11)
    paired = pr.stats.moments(LISTS, run="run", baseline=LISTS["run"][0], by="country")
    assert_frame_equal(pr.summarize(paired), whole, rel_tol=1e-11)


def test_no_lists():
    empty = LISTS.clear()
    nothing = pr.summarize(empty, ["ap"], run=None).row(0, named=True)
    assert (nothing["queries"], nothing["undefined"], nothing["mean"]) == (0, 0, None)
    assert pr.summarize(empty, ["ap"]).is_empty()
    one = pr.summarize(LISTS.head(1), ["p@5"]).row(0, named=True)
    assert one["mean"] is not None
    assert [one[name] for name in ("std", "std_error", "low", "high")] == [None] * 4
    weightless = LISTS.with_columns(w=pl.lit(0.0))
    assert pr.summarize(weightless, ["ap"], run=None, weight="w")["mean"].to_list() == [None]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"confidence": 95},
            pr.errors.ArgumentError,
            "`confidence` must be a number between 0 and 1",
        ),
        ({"interval": "z"}, pr.errors.ArgumentError, "`interval` must be one of 'auto'"),
        ({"metrics": "map"}, pr.errors.SchemaError, "column 'map' .`metrics`. not found"),
        ({"metrics": []}, pr.errors.ArgumentError, "`metrics` is empty"),
        ({"metrics": ["ap", "ap"]}, pr.errors.ArgumentError, "`metrics` has the column 'ap' twice"),
        ({"metrics": ["country"]}, pr.errors.SchemaError, "must be numeric"),
        (
            {"by": "ap", "metrics": "ap"},
            pr.errors.ArgumentError,
            "'ap' is used for both `by` and `metrics`",
        ),
        ({"quantiles": [5]}, pr.errors.ArgumentError, "numbers from 0 to 1; found 5"),
        (
            {"quantiles": [0.5], "cluster": "country"},
            pr.errors.ArgumentError,
            "`quantiles` does not support `weight`",
        ),
        (
            {"interval": "bootstrap", "query": "user"},
            pr.errors.SchemaError,
            "column 'user' .`query`. not found",
        ),
        ({"interval": "bootstrap", "n_resamples": 0}, pr.errors.ArgumentError, "`n_resamples`"),
        (
            {"interval": "bootstrap", "query": []},
            pr.errors.ArgumentError,
            "`query` must name at least",
        ),
        ({"weight": "traffic"}, pr.errors.SchemaError, "column 'traffic' .`weight`. not found"),
    ],
)
def test_misuse(options, error, message):
    with pytest.raises(error, match=message):
        pr.summarize(LISTS, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": "queries"}, "`weight` needs per-query values"),
        ({"cluster": "run"}, "`cluster` needs per-query values"),
        ({"interval": "bootstrap"}, "needs per-query values; got moments"),
        ({"undefined": "skip"}, "cannot be changed for moments"),
        ({"by": "metric"}, "not split by 'metric'"),
    ],
)
def test_misuse_with_moments(options, message):
    with pytest.raises(pr.errors.ArgumentError, match=message):
        pr.summarize(pr.stats.moments(LISTS), **options)


def test_moments_of_other_metrics():
    with pytest.raises(
        pr.errors.DataError, match="metric 'rr' not found in the moments; available: 'ndcg@10'"
    ):
        pr.summarize(pr.stats.moments(LISTS), ["rr"])


@pytest.mark.parametrize("interval", ["normal", "bootstrap", "studentized", "sequence"])
def test_one_ranking_has_no_interval(interval):
    one = pl.DataFrame({"query": [1], "ap": [0.5]})
    with pytest.warns(pr.errors.RankWarning, match="is null in 1 row: it needs at least two"):
        result = pr.summarize(one, interval=interval)
    assert result.select("mean", "low", "high").row(0) == (0.5, None, None)


def test_few_lists_are_warned_of():
    with pytest.warns(pr.errors.RankWarning, match="'normal'. is too narrow in 1 row"):
        pr.summarize(LISTS.head(20), ["ap"], interval="normal")


@pytest.mark.parametrize("missing", ["scipy", "numpy"])
def test_without_the_extra(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    interval = {"scipy": "t", "numpy": "bootstrap"}[missing]
    with pytest.raises(pr.errors.MissingExtraError, match=r"polars_rank\[stats\]"):
        pr.summarize(LISTS, interval=interval)
    for plain in ("normal", "sequence", "none"):
        assert pr.summarize(LISTS, interval=plain).height == 2 * len(METRICS)


def test_streams_in_flat_memory():
    for interval in ("t", "normal"):
        plan = pr.summarize(LISTS.lazy(), interval=interval).show_graph(
            engine="streaming", plan_stage="physical", raw_output=True, show=False
        )
        assert "in-memory-map" not in plan


def per_query(x, **columns):
    return pl.DataFrame({"query": range(len(x)), "x": [float(each) for each in x], **columns})


@pytest.mark.parametrize("options", [{"weight": "w"}, {"cluster": "user"}, {"by": "g"}])
def test_nothing_cancels_for_large_values(options):
    small = np.random.default_rng(0).normal(size=400)
    columns = {
        "w": 1.0 + np.arange(400) % 3,
        "user": np.arange(400) // 4,
        "g": ["a", None] * 200,
    }
    options = {"metrics": ["x"], **options}
    for more in ({}, {"weight": "w", "cluster": "user"}):
        near = pr.summarize(per_query(small, **columns), **options | more)
        far = pr.summarize(per_query(small + 1e7, **columns), **options | more)
        spreads = ["std", "std_error"]
        assert_frame_equal(far.select(spreads), near.select(spreads), rel_tol=1e-6)
        assert_frame_equal(
            far.select(pl.col("mean", "low", "high") - 1e7),
            near.select("mean", "low", "high"),
            abs_tol=1e-7,
        )


@pytest.mark.filterwarnings("ignore:fewer than 30 effective")
def test_null_clusters_are_units_of_their_own():
    x = np.random.default_rng(0).random(60)
    some = per_query(x, user=[*[None] * 40, *np.repeat([1, 2, 3, 4], 5)])
    own = some.with_columns(pl.col("user").fill_null(100 + pl.col("query")))
    with_null = pr.summarize(some, ["x"], cluster="user")
    assert_frame_equal(with_null, pr.summarize(own, ["x"], cluster="user"), rel_tol=1e-12)
    none = some.with_columns(user=pl.lit(None, dtype=pl.Int64), day=1)
    for cluster in ("user", ["user", "day"]):
        for more in ({}, {"interval": "bootstrap"}, {"interval": "studentized"}):
            result = pr.summarize(none, ["x"], cluster=cluster, **more)
            plain = pr.summarize(none, ["x"], **more)
            assert_frame_equal(result.drop("effective"), plain, rel_tol=1e-12)


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_studentized_bounds_are_not_rounding_residue(order):
    with pytest.warns(pr.errors.RankWarning, match="'studentized'. is null in 1 row"):
        result = pr.summarize(per_query([1 / 3] * 38 + [1.0] * 2)[order], interval="studentized")
    assert result.select("low", "high").row(0) == (None, None)
    more = per_query([1 / 3] * 30 + [1.0] * 10)[order]
    row = pr.summarize(more, interval="studentized").row(0, named=True)
    # Without rounding: thirds of integers.
    exact = pr.summarize(more.with_columns(pl.col("x") * 3), interval="studentized")
    assert 3 * row["low"] == pytest.approx(exact["low"].item(), rel=1e-9)
    assert 3 * row["high"] == pytest.approx(exact["high"].item(), rel=1e-9)


def test_values_without_spread_have_no_studentized_interval():
    for x in ([0.1] * 50, [0.0] * 50):
        with pytest.warns(pr.errors.RankWarning, match="all values are equal in 1 row"):
            result = pr.summarize(per_query(x), interval="studentized")
        assert result.select("std_error", "low", "high").row(0) == (0.0, None, None)


def test_a_studentized_interval_is_not_wider_than_the_range():
    """It was -0.02 to 38.9: hardly any value varies in many resamples."""
    values = per_query([0.0] * 26 + [0.001] * 3 + [1.0])
    with pytest.warns(pr.errors.RankWarning, match="null in 1 row: too many resamples have little"):
        result = pr.summarize(values, interval="studentized", n_resamples=2000)
    assert result.select("low", "high").row(0) == (None, None)
    # A metric that is not in [0, 1] has no such range.
    wide = pr.summarize(values.with_columns(pl.col("x") * 10), interval="studentized")
    assert wide["high"].item() > 10


def test_intervals_that_leave_the_range_are_warned_of():
    message = r"1 of 1 intervals exceed \[0, 1\], .*, e.g. 'x': -5.726 to 6.726; there are"
    for lists in (per_query([0.01, 0.99]), pr.stats.moments(per_query([0.01, 0.99]))):
        with pytest.warns(pr.errors.RankWarning, match=message):
            pr.summarize(lists)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pr.summarize(per_query([0, 5]))  # no metric of [0, 1]
        pr.summarize(per_query([0.5, 0.52]))  # within the range
        pr.summarize(per_query([0] * 50 + [1]))  # enough lists


@pytest.mark.filterwarnings("ignore:fewer than 30 effective")
def test_rows_that_stand_twice_are_refused():
    lists = pr.per_query(LOG.lazy(), ["ap"], by="run")
    twice = pl.concat([lists, lists.head(3)])
    with pytest.raises(pr.errors.DataError, match="6 rows: duplicate rows.*drop duplicates"):
        pr.summarize(twice.collect())
    with pytest.raises(pr.errors.DataError, match="duplicate rows"):
        pr.summarize(twice).collect(engine="streaming")
    # Lists of the same query and the same value, told apart by the user, or as a cluster.
    sessions = pl.DataFrame({"query": [1, 1, 2], "user": [1, 2, 1], "x": [0.5, 0.5, 0.6]})
    assert pr.summarize(sessions)["queries"].item() == 3
    assert pr.summarize(sessions.drop("user"), cluster="query")["queries"].item() == 3
    assert pr.summarize(sessions.select("x"))["queries"].item() == 3


def test_runs_are_summarized_each():
    lists = pr.per_query(LOG.lazy(), ["ap"], by=["run", "country"])
    for table in (lists, pr.stats.moments(lists, by="country")):
        for by in ([], ["country"]):
            result = pr.summarize(table, by=by).collect()
            assert result.columns[: len(by) + 3] == [*by, "metric", "run", "mean"]
            each = [
                pr.summarize(table.filter(run=name), run=None, by=by).collect()
                for name in LOG["run"].unique().sort()
            ]
            alone = pl.concat(each)
            assert_frame_equal(result.drop("run"), alone, check_row_order=False, rel_tol=1e-12)
        assert pr.summarize(table, run=None).collect()["queries"].item() == 600
    with pytest.raises(pr.errors.SchemaError, match="column 'model' .`run`. not found"):
        pr.summarize(lists, run="model")
    with pytest.raises(
        pr.errors.ArgumentError, match="'run' .`by`. is the column of runs; .*`run`"
    ):
        pr.summarize(lists, by="run")
    renamed = lists.rename({"run": "model"})
    with pytest.warns(pr.errors.RankWarning, match="pass run='model'"):
        assert pr.summarize(renamed).collect().height == 1
    assert pr.summarize(renamed, run="model").collect()["model"].n_unique() == 2


def test_rows_are_in_the_order_of_groups_metrics_and_runs():
    values = pr.per_query(LOG, ["rr", "ap"], by=["run", "country"])
    tables = {
        "summarize": pr.summarize(values, ["rr", "ap"], by="country"),
        "moments": pr.stats.moments(values, ["rr", "ap"], by="country"),
        "merge": pr.stats.merge(
            [
                pr.stats.moments(part, ["rr", "ap"], by="country")
                for part in (
                    values.filter(pl.col("query") < 99),
                    values.filter(pl.col("query") >= 99),
                )
            ]
        ),
    }
    countries, runs = (values[name].unique().sort() for name in ("country", "run"))
    expected = [*itertools.product(countries, ["rr", "ap"], runs)]
    for name, table in tables.items():
        assert table.columns[:3] == ["country", "metric", "run"], name
        assert table.select("country", "metric", "run").rows() == expected, name


@pytest.mark.parametrize("name", ["*", "^.*$", "^x"])
def test_further_columns_may_have_names_that_polars_reads_as_patterns(name):
    table = pl.DataFrame({"query": [1, 2, 3], "x": [0.2, 0.3, 0.5], name: ["a", "b", "b"]})
    assert pr.summarize(table, "x")["mean"].item() == pytest.approx((0.2 + 0.3 + 0.5) / 3)
    with pytest.raises(pr.errors.DataError, match="duplicate rows"):
        pr.summarize(pl.concat([table, table]), "x")
