"""compare_all, against scipy, plain numpy and the analysis of variance by hand."""

import itertools
import math

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
import scipy
from tables import by_query

from polars_rank.stats.resampling import sign_sums

LOG = pr.datasets.search_log(300, runs=["old", "new", "best"], seed=2)
LISTS = pr.per_query(LOG, ["ap", "num_rel", "rr"], by="run").collect()
RUNS = ["best", "new", "old"]
NUMBERS = ["difference", "low", "high", "p_value"]


def max_t(matrix, signs, confidence=0.95):
    """Return the pairs' differences, intervals and p-values of a matrix of queries x runs."""
    n, m = matrix.shape
    centered = matrix - matrix.mean(axis=0)

    def t(x, i, j):
        d = x[:, j] - x[:, i]
        return abs(d.mean()) / (d.std(ddof=1) / math.sqrt(n))

    pairs = [*itertools.combinations(range(m), 2)]
    observed = np.array([t(matrix, *pair) for pair in pairs])
    draws = np.array([[t(centered * row[:, None], *pair) for pair in pairs] for row in signs])
    quantile = np.sort(draws.max(axis=1))[math.ceil(confidence * (1 + len(signs))) - 1]
    order, p_values, so_far = np.argsort(-observed), {}, 0.0
    for rank, pair in enumerate(order):
        reached = draws[:, order[rank:]].max(axis=1) >= observed[pair] - 1e-9
        so_far = max(so_far, (1 + reached.sum()) / (1 + len(signs)))
        p_values[pair] = so_far
    for pair, (i, j) in enumerate(pairs):
        d = matrix[:, j] - matrix[:, i]
        width = quantile * d.std(ddof=1) / math.sqrt(n)
        yield d.mean(), d.mean() - width, d.mean() + width, p_values[pair]


@pytest.mark.parametrize(("queries", "n_resamples"), [(9, 10_000), (40, 500)])
def test_the_maximum_is_that_of_random_signs(queries, n_resamples):
    lists = LISTS.filter(pl.col("query") < queries)
    matrix = by_query(lists, "ap").select(RUNS).to_numpy()
    if 2 ** (queries - 1) <= n_resamples:
        signs = [(1.0, *rest) for rest in itertools.product((1.0, -1.0), repeat=queries - 1)]
    else:
        signs = sign_sums(np.arange(queries, dtype=np.uint64), np.eye(queries), n_resamples, 7)
    plan = pr.stats.compare_all(lists.lazy(), "ap", n_resamples=n_resamples, seed=7)
    result = plan.collect(engine="in-memory")
    assert_frame_equal(plan.collect(engine="streaming"), result)
    assert result.select("run", "other", "queries").rows() == [
        ("new", "best", queries), ("old", "best", queries), ("old", "new", queries)
    ]  # fmt: skip
    expected = np.array([*max_t(matrix, np.array(signs))])
    assert result.select(NUMBERS).to_numpy() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("method", ["max_t", "tukey"])
def test_two_runs_are_the_paired_t_test(method):
    two = LISTS.filter(pl.col("run") != "best")
    for lists in (two, two.filter(pl.col("query") < 5)):
        row = pr.stats.compare_all(lists, "ap", method=method).row(0, named=True)
        wide = by_query(lists, "ap")
        expected = scipy.stats.ttest_rel(wide["old"], wide["new"])
        assert row["p_value"] == pytest.approx(expected.pvalue, rel=1e-6)
        interval = expected.confidence_interval()
        assert (row["low"], row["high"]) == pytest.approx((interval.low, interval.high), rel=1e-6)


def test_many_queries_are_normally_distributed():
    queries = 10_001
    x = np.random.default_rng(0).normal(size=3 * queries)
    lists = pl.DataFrame({"run": [*"abc"] * queries, "query": np.arange(3 * queries) // 3, "x": x})
    result = pr.stats.compare_all(lists, n_resamples=50_000)
    # For independent runs with equal variances, the maximum is the studentized range.
    error = math.sqrt(2 / queries)
    width = scipy.stats.studentized_range.ppf(0.95, 3, np.inf) / math.sqrt(2) * error
    widths = result["high"] - result["difference"]
    assert widths.to_numpy() == pytest.approx(width, rel=0.03)
    largest = result.sort(pl.col("difference").abs()).tail(1)
    reached = scipy.stats.studentized_range.sf(
        abs(largest["difference"].item()) / error * math.sqrt(2), 3, np.inf
    )
    assert largest["p_value"].item() == pytest.approx(reached, abs=0.01)


def test_neither_the_order_of_rows_nor_other_groups_matter():
    lists = LISTS.with_columns(half=pl.when(pl.col("query") < 150).then(1))
    options = {"metrics": ["ap", "rr"], "by": "half", "n_resamples": 200}
    result = pr.stats.compare_all(lists, **options)
    shuffled = lists.sample(fraction=1, shuffle=True, seed=1)
    assert_frame_equal(pr.stats.compare_all(shuffled, **options), result, check_exact=True)
    assert result["half"].to_list() == [None] * 6 + [1] * 6
    for half in (None, 1):
        own = pl.col("half").eq_missing(half)
        alone = pr.stats.compare_all(lists.filter(own), ["ap", "rr"], n_resamples=200)
        assert_frame_equal(result.filter(own).drop("half"), alone, check_exact=True)


def test_weights_are_clusters_of_repeated_queries():
    weighted = LISTS.with_columns(w=1 + pl.col("query") % 4)
    repeated = weighted.with_columns(copy=pl.int_ranges("w")).explode("copy")
    result = pr.stats.compare_all(weighted, "ap", weight="w", n_resamples=100)
    expected = pr.stats.compare_all(
        repeated, "ap", query=["query", "copy"], cluster="query", n_resamples=100
    )
    assert_frame_equal(result.drop("queries"), expected.drop("queries"), rel_tol=1e-9)
    # 75 queries each of the weights 1 to 4.
    assert result["effective"].to_list() == pytest.approx([(75 * 10) ** 2 / (75 * 30)] * 3)


def test_clusters_are_the_units():
    # Of two runs: clusters of the queries {1, 2}, {3} and, without a name, {4} and {5}.
    lists = pl.DataFrame({
        "run": ["a"] * 5 + ["b"] * 5, "query": [1, 2, 3, 4, 5] * 2,
        "user": ["x", "x", "y", None, None] * 2, "w": [1.0, 2.0, 1.0, 3.0, 1.0] * 2,
        "m": [0.0] * 5 + [0.5, 0.25, 1.0, 0.0, 0.5],
    })  # fmt: skip
    with pytest.warns(pr.errors.RankWarning, match="fewer than 30 effective .* in 1 row, e.g. 3.2"):
        row = pr.stats.compare_all(lists, "m", weight="w", cluster="user").row(0, named=True)
    mean = (0.5 + 2 * 0.25 + 1.0 + 0.5) / 8
    effective = 8**2 / (3**2 + 1 + 3**2 + 1)
    deviations = [1.0 - 3 * mean, 1.0 - mean, -3 * mean, 0.5 - mean]
    squares = sum(each * each for each in deviations)
    error = math.sqrt(effective / (effective - 1) * squares) / 8
    assert (row["effective"], row["difference"]) == pytest.approx((effective, mean))
    t = scipy.stats.t(effective - 1)
    assert row["high"] - mean == pytest.approx(t.isf(0.025) * error)
    assert row["p_value"] == pytest.approx(2 * t.sf(mean / error))


def test_differences_that_do_not_vary_have_no_interval():
    lists = pl.concat(
        LISTS.select("run", "query", "ap").filter(run="old").with_columns(
            pl.col("ap").fill_null(0) + shift, run=pl.lit(name)
        )
        for name, shift in (("a", 0.0), ("same", 0.0), ("shifted", 0.1))
    )  # fmt: skip
    lists = pl.concat([lists, LISTS.select("run", "query", "ap").filter(run="new")])
    with pytest.warns(pr.errors.RankWarning, match="all differences are equal in 3 rows"):
        result = pr.stats.compare_all(lists, "ap", n_resamples=100)
    same = result.filter(pl.col("run") != "new", pl.col("other") != "new")
    assert same.select("other", "run", "low", "high", "p_value").rows() == [
        ("a", "same", None, None, 1.0),
        ("a", "shifted", None, None, None),
        ("same", "shifted", None, None, None),
    ]
    assert result.filter((pl.col("run") == "new") | (pl.col("other") == "new"))["low"].count() == 3


def test_few_queries_have_no_interval():
    five = LISTS.filter(pl.col("query") < 5)
    with pytest.warns(pr.errors.RankWarning, match="too few queries .* interval of 3 rows"):
        result = pr.stats.compare_all(five, "ap")
    assert result.select("low", "high").null_count().row(0) == (3, 3)
    assert result["p_value"].min() >= 1 / 17  # of 2^4 choices of signs
    one = pr.stats.compare_all(LISTS.filter(query=3), "rr")
    assert one["p_value"].to_list() == [None] * 3
    heavy = LISTS.with_columns(w=pl.when(query=3).then(1.0).otherwise(0.0))
    with pytest.warns(pr.errors.RankWarning, match="fewer than 30 effective .* e.g. 1.0"):
        row = pr.stats.compare_all(heavy, "ap", weight="w").row(0, named=True)
    assert (row["effective"], row["low"], row["p_value"]) == (1.0, None, None)


def by_hand(matrix, confidence=0.95):
    """Return Tukey's differences of a matrix of queries x runs, from the sums of squares."""
    n, m = matrix.shape
    grand = matrix.mean()
    total = ((matrix - grand) ** 2).sum()
    of_runs = n * ((matrix.mean(axis=0) - grand) ** 2).sum()
    of_queries = m * ((matrix.mean(axis=1) - grand) ** 2).sum()
    degrees = (n - 1) * (m - 1)
    unit = math.sqrt((total - of_runs - of_queries) / degrees / n)
    width = scipy.stats.studentized_range.ppf(confidence, m, degrees) * unit
    means = matrix.mean(axis=0)
    for i in range(m):
        for j in range(i):
            d = means[i] - means[j]
            yield (
                i,
                j,
                d,
                d - width,
                d + width,
                scipy.stats.studentized_range.sf(abs(d) / unit, m, degrees),
            )


def test_tukey_is_the_analysis_of_variance():
    plan = pr.stats.compare_all(LISTS.lazy(), "ap", method="tukey")
    result = plan.collect(engine="in-memory")
    assert_frame_equal(plan.collect(engine="streaming"), result, rel_tol=1e-9)
    runs = ["best", "new", "old"]
    matrix = by_query(LISTS, "ap").select(runs).to_numpy()
    expected = [(runs[i], runs[j], *rest) for i, j, *rest in by_hand(matrix)]
    assert result.height == len(expected) == 3
    for first, second, *numbers in expected:
        row = result.filter(run=first, other=second).row(0, named=True)
        assert [row[name] for name in ("difference", "low", "high", "p_value")] == pytest.approx(
            numbers, rel=1e-6, abs=1e-12
        )
        assert (row["queries"], row["missing"]) == (300, 0)


def test_only_queries_of_all_runs_count():
    without = LISTS.filter((pl.col("run") != "new") | (pl.col("query") >= 40))
    with pytest.warns(pr.errors.RankWarning, match="40 of 300 of 'ap'"):
        result = pr.stats.compare_all(without, "ap")
    complete = pr.stats.compare_all(LISTS.filter(pl.col("query") >= 40), "ap")
    assert_frame_equal(result.drop("missing"), complete.drop("missing"), rel_tol=1e-9)
    assert result["missing"].to_list() == [40] * 3
    skipped = pr.stats.compare_all(LISTS, "ap", undefined="skip")
    assert skipped["queries"][0] == LISTS.filter(run="old")["ap"].count()


@pytest.mark.parametrize(
    ("lists", "options", "error", "message"),
    [
        (LISTS.filter(run="old"), {}, pr.errors.DataError, "has only the run 'old'"),
        (
            pl.concat([LISTS, LISTS.head(2)]),
            {},
            pr.errors.DataError,
            "duplicate rankings: 'run', 'query' do not",
        ),
        (LISTS, {"metrics": None}, pr.errors.ArgumentError, "'num_rel' is not a mean over queries"),
        (
            LISTS.with_columns(ap=pl.lit(float("nan"))),
            {},
            pr.errors.DataError,
            "NaN or infinite values in the column 'ap'",
        ),
        (
            LISTS.with_columns(ap=pl.col("ap") + 1e200),
            {},
            pr.errors.DataError,
            r"values above 1e\+150 in the column 'ap'",
        ),
        (LISTS, {"confidence": 95}, pr.errors.ArgumentError, "`confidence`"),
        (LISTS, {"method": "hsd"}, pr.errors.ArgumentError, "`method` must be one of 'max_t', "),
        (
            LISTS,
            {"method": "tukey", "weight": "w"},
            pr.errors.ArgumentError,
            "`weight` and `cluster` need `method` 'max_t'",
        ),
        (
            LISTS.with_columns(w=pl.when(query=7).then(-1).otherwise(1)),
            {"weight": "w"},
            pr.errors.DataError,
            "null, negative, NaN or infinite weights in the column 'w'",
        ),
        (
            LISTS.with_columns(w=pl.when(run="old").then(2).otherwise(1)),
            {"weight": "w"},
            pr.errors.DataError,
            "different weights in two runs .column 'w'.",
        ),
        (
            LISTS.with_columns(user="run"),
            {"cluster": "user"},
            pr.errors.DataError,
            "different clusters in two runs .columns 'user'.",
        ),
    ],
)
def test_misuse_of_compare_all(lists, options, error, message):
    with pytest.raises(error, match=message):
        pr.stats.compare_all(lists, **{"metrics": "ap", **options})


def test_no_rows_have_no_pairs():
    assert pr.stats.compare_all(LISTS.clear(), "rr").is_empty()
