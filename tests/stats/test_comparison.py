"""`compare`: differences, tests, corrections, verdicts and slices."""

from __future__ import annotations

import math
import warnings

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm, ttest_rel
from statsmodels.stats.contingency_tables import mcnemar

import polars_rank as pr
from polars_rank.errors import ArgumentError, DataError, RankWarning, SchemaError

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
    a, d = np.array([0.1, 0.5, 0.2, 0.8, 0.6]), np.array([0.3, 0.1, 0.2, 0.0, 0.4])
    row = pr.compare(runs(a=list(a), b=list(a + d)), baseline="a").row(0, named=True)
    test = ttest_rel(a + d, a)
    interval = test.confidence_interval(0.95)
    assert row["p_value"] == pytest.approx(test.pvalue)
    assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high))
    assert (row["baseline_mean"], row["mean"]) == pytest.approx((a.mean(), (a + d).mean()))
    assert (row["wins"], row["losses"], row["queries"]) == (4, 0, 5)


def test_values_of_0_and_1_have_mcnemars_test() -> None:
    a = [1.0] * 40 + [0.0] * 60
    b = [1.0] * 37 + [0.0] * 3 + [1.0] * 15 + [0.0] * 45
    row = pr.compare(runs(a=a, b=b), baseline="a", details=True).row(0, named=True)
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


@settings(max_examples=30)
@given(
    st.lists(st.floats(0, 1), min_size=4, max_size=12),
    st.integers(1, 3),
    st.sampled_from(["continuous", "binary"]),
)
@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_interval_and_p_value_agree(x: list[float], others: int, kind: str) -> None:
    base = [float(v > 0.5) for v in x] if kind == "binary" else x
    named = {"a": base}
    for number in range(others):
        shifted = [float(v > 0.2 * number) if kind == "binary" else v**2 + 0.1 * number for v in x]
        named["bcd"[number]] = shifted
    for correction in (True, False):
        for row in pr.compare(runs(**named), correction=correction).iter_rows(named=True):
            excludes = row["low"] is not None and (row["low"] > 0 or row["high"] < 0)
            if row["p_value"] is not None and abs(row["p_value"] - 0.05) > 1e-4:
                assert excludes == (row["p_value"] < 0.05), row


def test_one_row_is_not_corrected() -> None:
    values = normal_runs(0, 0.2)
    corrected, plain = (pr.compare(values, correction=each) for each in (True, False))
    assert corrected.equals(plain)


def test_independent_rows_have_sidaks_correction() -> None:
    random = np.random.default_rng(3)
    n = 2000
    zero = np.zeros(n)
    values = runs(
        a=list(zero), b=list(random.normal(0.05, 1, n)), c=list(random.normal(0.04, 1, n))
    )
    plain, both = (
        pr.compare(values, baseline="a", correction=each)["p_value"].to_numpy()
        for each in (False, True)
    )
    assert both == pytest.approx(1 - (1 - plain) ** 2, rel=0.03)


def test_equal_rows_are_one_row() -> None:
    random = np.random.default_rng(3)
    b = list(random.normal(0.1, 1, 100))
    values = runs(a=[0.0] * 100, b=b, c=b)
    plain, both = (pr.compare(values, baseline="a", correction=each) for each in (False, True))
    assert both["p_value"].to_list() == pytest.approx(plain["p_value"].to_list())
    assert both["low"].to_list() == pytest.approx(plain["low"].to_list())


def test_correlated_rows_have_the_multivariate_normal_distribution() -> None:
    values = normal_runs(0, 0.1, 0.12, queries=4000)
    plain, both = (pr.compare(values, baseline="a", correction=each) for each in (False, True))
    x = values.pivot("run", index="query", values="x")
    correlation = np.corrcoef(x["b"] - x["a"], x["c"] - x["a"])
    for before, after in zip(plain["p_value"], both["p_value"], strict=True):
        z = norm.isf(before / 2)
        inside = multivariate_normal.cdf([z, z], cov=correlation, lower_limit=[-z, -z])
        assert after == pytest.approx(1 - inside, rel=0.02)


def test_all_pairs_are_the_baselines_together() -> None:
    values = normal_runs(0, 0.1, 0.3)
    pairs = pr.compare(values, correction=False)
    assert pairs.select("run", "baseline").rows() == [("b", "a"), ("c", "a"), ("c", "b")]
    one = pr.compare(values, baseline="a", correction=False)
    assert pairs.head(2).equals(one)


@pytest.mark.parametrize(
    ("shift", "margin", "verdict"),
    [
        (0.2, 0, "better"),
        (-0.2, 0, "worse"),
        (0.0, 0, "unclear"),
        (0.0, 0.1, "equivalent"),
        (0.015, 0.03, "not worse"),
        (-0.2, 0.5, "equivalent"),
        (0.2, 0.5, "better"),
        (-0.2, 0.05, "worse"),
        (0.0, "5%", "equivalent"),
        (-0.2, "5%", "worse"),
        (0.015, "3%", "not worse"),
    ],
)
def test_verdicts(shift: float, margin: float | str, verdict: str) -> None:
    noise = np.tile([-0.1, 0.1], 50)
    base = np.full(100, 1.0)
    values = runs(a=list(base), b=list(base + shift + noise))
    row = pr.compare(values, baseline="a", margin=margin).row(0, named=True)
    assert row["verdict"] == verdict, row
    # Where lower is better, the differences and the words turn.
    turned = runs("fall_out@2", a=list(base), b=list(base - shift + noise))
    row = pr.compare(turned, pr.fall_out(2), baseline="a", margin=margin).row(0, named=True)
    assert row["verdict"] == verdict, row


def test_relative_margin_needs_a_baseline_that_is_not_0() -> None:
    random = np.random.default_rng(0)
    values = runs(a=list(random.normal(0, 1, 30)), b=list(random.normal(0, 1, 30)))
    row = pr.compare(values, baseline="a", margin="2%", details=True).row(0, named=True)
    assert (row["relative_low"], row["verdict"]) == (None, "unclear")
    assert row["reason"] == "the baseline's mean may be 0"


def test_equal_differences_of_0_have_tangos_interval() -> None:
    values = runs(a=[0.2, 0.7, 0.4] * 10, b=[0.2, 0.7, 0.4] * 10)
    row = pr.compare(values, baseline="a", details=True).row(0, named=True)
    z2 = norm.isf(0.025) ** 2
    assert (row["low"], row["high"]) == pytest.approx((-z2 / (30 + z2), z2 / (30 + z2)))
    assert (row["p_value"], row["verdict"]) == (1.0, "unclear")
    assert row["reason"] == "equal in all 30 queries"
    assert pr.compare(values, baseline="a", margin=0.2)["verdict"].item() == "equivalent"
    wide = values.with_columns(pl.col("x") * 10)
    scaled = pr.compare(wide, baseline="a").row(0, named=True)
    assert scaled["high"] == pytest.approx(5 * z2 / (30 + z2))  # the range is 7 - 2


@pytest.mark.parametrize(("queries", "verdict"), [(8, "worse"), (5, "too few")])
def test_equal_differences_have_the_sign_test(queries: int, verdict: str) -> None:
    x = [0.5 + 0.01 * place for place in range(queries)]
    values = runs(a=x, b=[each - 0.5 for each in x])
    row = pr.compare(values, baseline="a").row(0, named=True)
    assert row["p_value"] == pytest.approx(2.0 ** (1 - queries))
    assert row["verdict"] == verdict
    if verdict == "worse":
        assert (row["low"], row["high"]) == pytest.approx((-0.5, -0.5))


@pytest.mark.parametrize("options", [{}, {"weight": "w"}, {"cluster": "c"}])
def test_differences_that_are_equal_but_for_rounding_have_no_skewness(options: dict) -> None:
    values = runs(a=[0.1, 0.2, 0.3], b=[0.35, 0.45, 0.55])
    values = values.with_columns(w=pl.col("query") + 9, c=pl.col("query") // 2)
    row = pr.compare(values, ["x"], baseline="a", details=True, **options).row(0, named=True)
    assert (row["std"], row["std_error"], row["skewness"]) == (0, 0, None)


def test_one_query_is_too_few() -> None:
    row = pr.compare(runs(a=[0.1], b=[0.9]), baseline="a").row(0, named=True)
    assert (row["low"], row["p_value"], row["verdict"]) == (None, None, "too few")


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


def test_small_slices_have_no_interval() -> None:
    values = normal_runs(0, 0.3).with_columns(part=pl.col("query") < 10)
    result = pr.compare(values, "x", baseline="a", slices="part", min_queries=20)
    words = dict(result.select("value", "verdict").rows())
    assert words["true"] == "too few"
    assert words["false"] != "too few"


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


def test_runs_without_rankings_in_a_group() -> None:
    values = pl.concat(
        [
            normal_runs(0, 0.1).with_columns(part=pl.lit("x")),
            normal_runs(0).with_columns(part=pl.lit("y")),
        ]
    )
    result = pr.compare(values, "x", baseline="a", by="part")
    assert result.select("part", "queries", "verdict").rows()[1] == ("y", 0, "too few")


def test_missing_queries_warn() -> None:
    values = normal_runs(0, 0.1).filter((pl.col("run") == "a") | (pl.col("query") > 4))
    with pytest.warns(RankWarning, match="5 of 50 of 'x', run = 'b'"):
        row = pr.compare(values, baseline="a", details=True).row(0, named=True)
    assert (row["queries"], row["missing"]) == (45, 5)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_means_of_random_groups_of_queries_have_the_intervals_of_all_queries(engine: str) -> None:
    random, queries = np.random.default_rng(0), 1_000_000
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
        assert widths[0] == pytest.approx(widths[1], rel=0.02)
    missing = values.filter((pl.col("run") == "a") | (pl.col("query") > 0))
    unequal = missing.group_by("run", group).agg(pl.mean("x", "hit"), n=pl.len())
    with pytest.raises(DataError, match=r"different weights in two runs \(column 'n'\)"):
        pr.compare(unequal, query="group", weight="n", baseline="a").collect(engine=engine)


def test_repeated_looks() -> None:
    values = normal_runs(0, 0.05, queries=1000)
    one, many = (
        pr.compare(values, baseline="a", repeated=r).row(0, named=True) for r in (False, True)
    )
    assert many["high"] - many["low"] > one["high"] - one["low"]
    assert many["p_value"] > one["p_value"]
    excludes = many["low"] > 0 or many["high"] < 0
    assert excludes == (many["p_value"] < 0.05)


@pytest.mark.parametrize(("queries", "cluster", "warns"), [
    (29, None, True), (30, None, False), (90, 10, True), (100, 10, False),
])  # fmt: skip
def test_early_looks_warn(queries: int, cluster: int | None, warns: bool) -> None:
    values = normal_runs(0, 0.05, queries=queries)
    options = {}
    if cluster:
        values = values.with_columns(day=pl.col("query") // cluster)
        options = {"cluster": "day"}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pr.compare(values, baseline="a", repeated=True, **options)
    assert any("fewer than 30 queries, or 10 clusters" in str(w.message) for w in caught) == warns


def test_columns_with_two_uses() -> None:
    values = normal_runs(0, 1).with_columns(num_retrieved=pl.lit(10))
    rows = pr.compare(values, ["x", "num_retrieved"], baseline="a")
    assert rows["mean"].to_list()[1] == 10
    weighted = pr.compare(values, "x", baseline="a", weight="num_retrieved")
    assert weighted["difference"].item() == pytest.approx(rows["difference"][0])
    assert pr.compare(values, "x", slices=[]).equals(pr.compare(values, "x"))


def test_familywise_error_is_not_above_its_level() -> None:
    # 4 equal runs, 200 logs: .05 ± 2.6 standard errors of .0154.
    wrong = 0
    for seed in range(200):
        result = pr.compare(normal_runs(0, 0, 0, 0, queries=30, seed=seed))
        wrong += (result["p_value"] < 0.05).any()
    assert wrong / 200 < 0.09


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"baseline": "z"}, DataError, "run 'z' \\(`baseline`\\) not found.*'a', 'b'"),
        ({"baseline": ["a"]}, ArgumentError, "`baseline` must be a value.*each of the runs"),
        ({"baseline": 1}, ArgumentError, "`baseline` must be a value of the column 'run'"),
        ({"margin": "2"}, ArgumentError, "`margin` must be a number.*'2%'"),
        ({"margin": -1}, ArgumentError, "`margin` must be a number, 0 or above"),
        ({"slices": "county"}, SchemaError, "'county'"),
        ({"query": "id"}, SchemaError, "'id'"),
        ({"run": "system"}, SchemaError, "'system'"),
        ({"correction": "holm"}, ArgumentError, "correction"),
    ],
)
def test_bad_parameters(options: dict, error: type, message: str) -> None:
    values = runs(a=[0.1, 0.2], b=[0.3, 0.4])
    with pytest.raises(error, match=message):
        pr.compare(values, **{"baseline": "a", **options})
    with pytest.raises(error, match=message):
        pr.compare(values.lazy(), **{"baseline": "a", **options}).collect()


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (pl.col("query").replace(2, 1), {}, DataError, "duplicate rankings"),
        (pl.lit("a").alias("run"), {}, DataError, "only the run 'a'"),
        ((pl.col("query") + 100 * (pl.col("run") == "b")).alias("w"), {"weight": "w"}, DataError,
         "different weights in two runs.*one weight per query"),
        (pl.col("run").alias("part"), {"slices": "part"}, DataError, "different slices"),
        (pl.col("run").alias("user"), {"cluster": "user"}, DataError, "different clusters"),
    ],
)  # fmt: skip
def test_bad_rows(change: pl.Expr, options: dict, error: type, message: str) -> None:
    values = runs(a=[0.1, 0.2, 0.9], b=[0.3, 0.4, 0.8]).with_columns(change)
    with pytest.raises(error, match=message):
        pr.compare(values, "x", baseline="a", **options)
    with pytest.raises(error, match=message):
        pr.compare(values.lazy(), "x", baseline="a", **options).collect(engine="streaming")


def test_without_a_query_column() -> None:
    with pytest.raises(SchemaError, match="column 'query' \\(`query`\\) not found"):
        pr.compare(runs(a=[0.1], b=[0.2]).rename({"query": "id"}), baseline="a")


def test_all_values_null() -> None:
    row = pr.compare(runs(a=[None, None], b=[None, None]), "x", baseline="a").row(0, named=True)
    assert (row["mean"], row["difference"], row["queries"], row["verdict"]) == (
        None, None, 2, "too few",
    )  # fmt: skip


def test_hall_widens_the_side_of_rare_losses() -> None:
    # 2 of 100 queries lose everything: t alone claims a margin of .06 too easily.
    b = [1.0] * 100
    b[3] = b[70] = 0.0
    values = runs(a=[0.999] * 100, b=[each * 0.999 for each in b])
    row = pr.compare(values, baseline="a", details=True).row(0, named=True)
    half = 1.984 * row["std_error"]
    assert row["low"] < row["difference"] - 1.2 * half
    assert math.isclose(row["high"], row["difference"] + half, rel_tol=0.01)


@pytest.mark.parametrize("function", [pr.compare, pr.leaderboard])
def test_a_column_without_a_direction_is_warned_of(function) -> None:
    """A slower run would be "better"; an expression, or the name of a metric, states a direction."""
    random = np.random.default_rng(1)
    values = runs("junk@3", a=list(random.random(10)), b=list(random.random(10)))
    values = values.with_columns(pl.col("junk@3").alias(name) for name in ("ndcg@3", "ms"))
    message = "no metric is named 'junk@3' or 'ms', so higher values are taken as better; negate"
    for table in (values, values.lazy()):
        with pytest.warns(RankWarning, match=message):
            found = function(table)
            found.lazy().collect(engine="streaming")
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
