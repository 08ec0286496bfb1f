"""compare: against scipy and statsmodels, on random and on real values."""

import math
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import needs
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from polars_rank.stats.significance import corrected
import scipy
from tables import by_query

#: Tests of a few lists by hand.
pytestmark = pytest.mark.filterwarnings("ignore:.* intervals exceed")

METRICS = ["ap", "rr@3", "num_rel", "gm_map"]
LOG = pr.datasets.search_log(400, runs=["old", "new", "best"], seed=2).collect()
LISTS = pr.per_query(LOG, METRICS, by=["run"])
#: A log of LightGBM models, if there is one beside the project.
REAL = Path(__file__).parents[3] / "shared" / "data" / "lambdarank_test.parquet"


def real():
    if not REAL.exists():
        pytest.skip("needs the real data of the developers")
    return pr.per_query(pl.read_parquet(REAL), ["ndcg@10", "ap", "rr"], by="run"), "lambdarank-10"


def tables():
    yield LISTS, "old"
    if REAL.exists():
        yield real()


def values(lists, metric, run, baseline):
    wide = by_query(lists, metric)
    return wide[run].to_numpy(), wide[baseline].to_numpy()


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize(("lists", "baseline"), [*tables()])
def test_t_wilcoxon_and_sign_are_those_of_scipy(lists, baseline, alternative):
    for test in ("t", "wilcoxon", "sign"):
        result = pr.compare(
            lists, metrics=["ap"], baseline=baseline, test=test, alternative=alternative
        )
        assert result.height == (lists["run"].n_unique() - 1)
        for row in result.iter_rows(named=True):
            new, old = values(lists, row["metric"], row["run"], baseline)
            theirs = scipy.stats.ttest_rel(new, old, alternative=alternative)
            if test == "t":
                expected = theirs.pvalue
            elif test == "wilcoxon":
                expected = scipy.stats.wilcoxon(new, old, alternative=alternative).pvalue
            else:
                wins, losses = int((new > old).sum()), int((new < old).sum())
                expected = scipy.stats.binomtest(
                    wins, wins + losses, alternative=alternative
                ).pvalue
            assert row["p_value"] == pytest.approx(expected, rel=1e-9)
            interval = theirs.confidence_interval()
            assert (row["low"], row["high"]) == pytest.approx(tuple(interval), rel=1e-9)
            assert row["difference"] == pytest.approx(new.mean() - old.mean(), abs=1e-12)
            assert row["effect_size"] == pytest.approx(
                (new - old).mean() / (new - old).std(ddof=1), rel=1e-9
            )
            assert row["relative_difference"] == pytest.approx(new.mean() / old.mean() - 1)


@pytest.mark.parametrize(
    ("ours", "theirs"), [("holm", "holm"), ("bh", "fdr_bh"), ("bonferroni", "bonferroni")]
)
def test_corrections_are_those_of_statsmodels(ours, theirs):
    multitest = needs.package("statsmodels.stats.multitest", "test")
    random = np.random.default_rng(1)
    for n in (1, 2, 7, 40):
        p = random.random(n) ** 3
        p[: n // 3] = p[0]
        expected = multitest.multipletests(p, method=theirs)[1]
        assert corrected(p.tolist(), ours) == pytest.approx(expected.tolist(), rel=1e-9)
    result = pr.compare(LISTS, baseline="old", correction=ours)
    expected = multitest.multipletests(result["p_value"].to_numpy(), method=theirs)[1]
    assert result["p_corrected"].to_list() == pytest.approx(expected.tolist(), rel=1e-9)
    assert corrected([None, 0.5, None], ours) == [None, 0.5, None]
    assert corrected([0.5, 0.2], "none") == [0.5, 0.2]


@pytest.mark.parametrize("undefined", ["zero", "skip", "one"])
def test_differences_are_those_of_evaluates_means(undefined):
    result = pr.compare(LISTS, baseline="old", undefined=undefined)
    means = pr.evaluate(LOG, METRICS, by="run", undefined=undefined)
    for row in result.iter_rows(named=True):
        of = dict(means.select("run", row["metric"]).iter_rows())
        assert row["mean"] == pytest.approx(of[row["run"]], rel=1e-12)
        assert row["baseline_mean"] == pytest.approx(of["old"], rel=1e-12)
        assert row["difference"] == pytest.approx(of[row["run"]] - of["old"], rel=1e-9, abs=1e-11)


def test_one_null_makes_a_null():
    row = pr.compare(LISTS, metrics=["ap"], baseline="old", undefined="null").row(0, named=True)
    assert row["undefined"] > 0
    assert [row[name] for name in ("mean", "difference", "low", "p_value")] == [None] * 4


def test_counts_by_hand():
    lists = pl.DataFrame(
        {
            "run": ["a"] * 4 + ["b"] * 4,
            "query": [1, 2, 3, 4, 1, 2, 3, 5],
            "rr": [1.0, 0.5, None, 1, 0.5, 0.5, 1, 1],
        }
    )
    with pytest.warns(pr.errors.RankWarning, match=r"more than 5% .*: run = 'b' \(2 missing\)"):
        row = pr.compare(lists, baseline="a").row(0, named=True)
    assert (row["wins"], row["ties"], row["losses"]) == (1, 1, 1)  # query 3, 2, 1
    assert row["used"] == 3
    assert (row["queries"], row["missing"], row["undefined"]) == (3, 2, 1)  # 4 and 5 are alone
    assert row["difference"] == pytest.approx((-0.5 + 0 + 1) / 3)
    with pytest.warns(pr.errors.RankWarning, match="more than 5%"):
        skipped = pr.compare(lists, baseline="a", undefined="skip").row(0, named=True)
    assert (skipped["queries"], skipped["used"]) == (3, 2)
    assert (skipped["wins"], skipped["ties"], skipped["losses"]) == (0, 1, 1)
    assert skipped["difference"] == pytest.approx(-0.25)
    assert list(row) == [
        *("metric", "run", "mean", "difference", "relative_difference", "relative_low"),
        *("relative_high", "baseline_mean", "effect_size", "effect_low", "effect_high"),
        *("skewness", "wins", "ties", "losses", "queries", "used", "missing", "undefined"),
        *("interval", "confidence", "low_corrected", "high_corrected", "low", "high"),
        *("p_value", "p_corrected"),
    ]


def test_groups_with_nulls():
    lists = LISTS.with_columns(
        group=pl.when(pl.col("query") % 3 > 0).then(pl.format("g{}", pl.col("query") % 3))
    )
    result = pr.compare(lists, metrics=["ap"], baseline="old", by="group")
    assert result["group"].to_list() == [None, None, "g1", "g1", "g2", "g2"]
    assert result["run"].to_list() == ["best", "new"] * 3
    for (group,), part in lists.group_by("group"):
        # Corrections are for the number of rows.
        corrections = ["p_corrected", "low_corrected", "high_corrected"]
        alone = pr.compare(part, metrics=["ap"], baseline="old").drop(corrections)
        of = result.filter(pl.col("group").eq_missing(group)).drop("group", *corrections)
        assert_frame_equal(of, alone)


def test_randomization_is_exact_for_few_queries():
    few = LISTS.filter(pl.col("query") < 10)
    row = pr.compare(few, metrics=["ap"], baseline="old", test="randomization").row(0, named=True)
    best, old = values(few, "ap", "best", "old")
    difference = best - old
    sums = [abs(np.dot(signs, difference)) for signs in product([1, -1], repeat=10)]
    expected = np.mean([each >= abs(difference.sum()) - 1e-12 for each in sums])
    assert row["p_value"] == pytest.approx(expected)
    theirs = scipy.stats.permutation_test(
        (best, old), lambda x, y, axis: (x - y).mean(axis=axis), permutation_type="samples",
        n_resamples=np.inf, vectorized=True,
    )  # fmt: skip
    assert row["p_value"] == pytest.approx(theirs.pvalue)


@pytest.mark.parametrize("test", ["randomization", "bootstrap"])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_draws_give_about_the_p_value_of_t(test, alternative):
    random = np.random.default_rng(4)
    n, draws = 300, 10_000
    base, better = random.random(n), random.random(n) + 0.03
    lists = pl.DataFrame(
        {"run": ["a"] * n + ["b"] * n, "query": [*range(n)] * 2, "x": [*base, *better]}
    )
    row = pr.compare(lists, baseline="a", test=test, alternative=alternative).row(0, named=True)
    expected = scipy.stats.ttest_rel(better, base, alternative=alternative).pvalue
    assert 0.01 < expected < 0.99
    chance = math.sqrt(expected * (1 - expected) / draws)
    # t itself is an approximation of these, to about a thousandth here.
    assert row["p_value"] == pytest.approx(expected, abs=3 * chance + 0.004)
    low, high = scipy.stats.ttest_rel(better, base, alternative=alternative).confidence_interval()
    assert (row["low"], row["high"]) == pytest.approx((low, high), abs=0.003)


@pytest.mark.parametrize("test", ["randomization", "bootstrap"])
def test_draws_never_give_zero_and_do_not_depend_on_order(test):
    result = pr.compare(LISTS, baseline="old", test=test, n_resamples=500)
    assert result["p_value"].min() == pytest.approx(1 / 501)
    turned = LISTS.sample(fraction=1, shuffle=True, seed=9).lazy()
    for engine in ("in-memory", "streaming"):
        again = pr.compare(turned, baseline="old", test=test, n_resamples=500).collect(
            engine=engine
        )
        assert_frame_equal(again, result, rel_tol=1e-11, abs_tol=1e-12)
    other = pr.compare(
        LISTS, metrics=["gm_map"], baseline="old", test=test, seed=1, n_resamples=500
    )
    assert other["p_value"].to_list() != result.filter(metric="gm_map")["p_value"].to_list()


@pytest.mark.parametrize("test", ["t", "randomization", "bootstrap", "wilcoxon", "sign"])
def test_a_run_against_itself(test):
    twins = pl.concat(
        [LISTS.filter(run="old"), LISTS.filter(run="old").with_columns(run=pl.lit("x"))]
    )
    # A sum is a count of the log, which may be equal in all runs.
    with pytest.warns(pr.errors.RankWarning, match="all differences are equal in 3 rows, .* 'ap'"):
        result = pr.compare(twins, baseline="old", test=test, n_resamples=100)
    assert result["p_value"].to_list() == [1.0] * len(METRICS)
    assert result["low"].null_count() == result["high"].null_count() == len(METRICS)
    assert result["effect_size"].to_list() == [None] * len(METRICS)
    assert result["difference"].abs().max() == 0


@pytest.mark.parametrize("test", ["t", "randomization", "bootstrap", "wilcoxon", "sign"])
def test_margin_is_non_inferiority(test):
    worse = pl.concat(
        [
            LISTS.filter(run="old"),
            LISTS.filter(run="old").with_columns(
                pl.col("ap").fill_null(0) - 0.01 * (1 + (pl.col("query") % 7) / 10),
                run=pl.lit("new"),
            ),
        ]
    )
    options = {"metrics": ["ap"], "baseline": "old", "test": test, "alternative": "greater"}
    plain = pr.compare(worse, **options, n_resamples=500).row(0, named=True)
    within = pr.compare(worse, **options, n_resamples=500, margin=0.02).row(0, named=True)
    assert plain["p_value"] > 0.9
    assert within["p_value"] < 0.01
    assert -0.02 < within["low"] < within["difference"]
    assert within["high"] == math.inf
    if test == "t":
        new, old = values(worse, "ap", "new", "old")
        expected = scipy.stats.ttest_rel(new + 0.02, old, alternative="greater").pvalue
        assert within["p_value"] == pytest.approx(expected, rel=1e-9)


def test_margin_of_sums_and_geometric_means_is_in_their_own_scale():
    for metric in ("num_rel", "gm_map"):
        lists = LISTS.with_columns(
            pl.col(metric) + (pl.col("query") % 5 - 2) * (pl.col("run") == "new")
        )
        options = {"metrics": [metric], "baseline": "old", "alternative": "greater"}
        row = pr.compare(lists, **options).filter(run="new").row(0, named=True)
        # At a margin that equals the lower bound, the test is just at its level.
        margin = -row["low"]
        assert margin > 0
        at = pr.compare(lists, **options, margin=margin).filter(run="new")["p_value"].item()
        assert at == pytest.approx(0.05, rel=1e-6)


def test_moments_give_the_same():
    lists = LISTS.with_columns(day=pl.col("query") % 4)
    parts = [
        pr.stats.moments(part, by="day", run="run", baseline="old")
        for (_,), part in lists.group_by("day")
    ]
    merged = pr.stats.merge(parts)
    whole = pr.compare(lists, baseline="old")
    assert_frame_equal(pr.compare(merged, baseline="old"), whole, rel_tol=1e-9)
    lazily = pr.compare(merged.lazy(), baseline="old", by="day", metrics="ap")
    expected = pr.compare(lists, baseline="old", by="day", metrics="ap")
    assert_frame_equal(lazily.collect(engine="streaming"), expected, rel_tol=1e-9)
    signs = pr.compare(merged, baseline="old", test="sign")
    assert_frame_equal(signs, pr.compare(lists, baseline="old", test="sign"), rel_tol=1e-9)


def test_missing_runs_of_a_part_are_missing():
    parts = [
        LISTS.filter(pl.col("query") < 100, pl.col("run") != "new"),
        LISTS.filter(pl.col("query") >= 100),
    ]
    merged = pr.stats.merge([pr.stats.moments(part, run="run", baseline="old") for part in parts])
    with pytest.warns(pr.errors.RankWarning, match=r"more than 5% .*: run = 'new' \(100 missing\)"):
        result = pr.compare(merged, baseline="old", metrics="ap")
    assert result.select("run", "queries", "missing").rows() == [
        ("best", 400, 0),
        ("new", 300, 100),
    ]
    with pytest.warns(pr.errors.RankWarning, match="more than 5%"):
        whole = pr.compare(pl.concat(parts), baseline="old", metrics="ap")
    assert_frame_equal(result, whole, rel_tol=1e-9)


def test_weights_and_clusters():
    lists = LISTS.with_columns(user=pl.col("query") % 40, w=1.0 + pl.col("query") % 3)
    difference = by_query(lists, "ap", "user", "w").select(
        "query", "user", "w", d=pl.col("new") - pl.col("old")
    )
    for options in ({"weight": "w"}, {"cluster": "user"}, {"weight": "w", "cluster": "user"}):
        expected = pr.summarize(difference, ["d"], **options).row(0, named=True)
        result = pr.compare(lists, metrics=["ap"], baseline="old", **options)
        row = result.filter(run="new").row(0, named=True)
        assert row["difference"] == pytest.approx(expected["mean"], rel=1e-12)
        assert (row["low"], row["high"]) == pytest.approx(
            (expected["low"], expected["high"]), rel=1e-9
        )


@pytest.mark.parametrize(
    "dtype",
    [pl.Categorical, pl.Categorical(pl.Categories("runs")), pl.Enum(["old", "new", "best"])],
)
def test_runs_of_other_text_types(dtype):
    result = pr.compare(LISTS.with_columns(pl.col("run").cast(dtype)), baseline="old")
    plain = pr.compare(LISTS, baseline="old")
    keys = ["metric", "run"]
    assert_frame_equal(
        result.with_columns(pl.col("run").cast(pl.String)).sort(keys), plain.sort(keys)
    )


def test_runs_of_numbers():
    lists = LISTS.with_columns(run=pl.col("run").replace_strict({"old": 1, "new": 2, "best": 3}))
    assert pr.compare(lists, baseline=1, metrics="ap")["run"].to_list() == [2, 3]
    with pytest.raises(
        pr.errors.ArgumentError, match="`baseline` must be a value of the column 'run' of"
    ):
        pr.compare(lists, baseline="1")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (
            {"baseline": "older"},
            pr.errors.DataError,
            "run 'older' .`baseline`. not found in the column 'run'; available: 'best', 'new', 'old'",
        ),
        ({"run": "system"}, pr.errors.SchemaError, "column 'system' .`run`. not found"),
        ({"query": "q"}, pr.errors.SchemaError, "column 'q' .`query`. not found"),
        ({"margin": 0.1}, pr.errors.ArgumentError, "`margin` needs `alternative`"),
        ({"margin": -0.1, "alternative": "greater"}, pr.errors.ArgumentError, "0 or above"),
        ({"test": "welch"}, pr.errors.ArgumentError, "`test` must be one of"),
        ({"correction": "fdr"}, pr.errors.ArgumentError, "`correction` must be one of"),
        ({"seed": "x"}, pr.errors.ArgumentError, "`seed` must be an integer"),
        ({"confidence": 1}, pr.errors.ArgumentError, "`confidence` must be"),
        (
            {"test": "sign", "cluster": "query"},
            pr.errors.ArgumentError,
            "`cluster` needs `test` 'auto' or 't'",
        ),
    ],
)
def test_misuse(options, error, message):
    with pytest.raises(error, match=message):
        pr.compare(LISTS, **{"baseline": "old", **options})


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_a_list_that_stands_twice(engine):
    twice = pl.concat([LISTS, LISTS.filter(run="new").head(3)])
    with pytest.raises(pr.errors.DataError, match="6 rows: duplicate rankings.*'run', 'query'"):
        pr.compare(twice, baseline="old")
    with pytest.raises(pr.errors.DataError, match="duplicate rankings"):
        pr.compare(twice.lazy(), baseline="old").collect(engine=engine)
    of_baseline = pl.concat([LISTS, LISTS.filter(run="old").head(3)])
    with pytest.raises(pr.errors.DataError, match="duplicate rankings"):
        pr.compare(of_baseline, baseline="old")


def test_only_the_baseline():
    with pytest.raises(pr.errors.DataError, match="has only the run 'old'"):
        pr.compare(LISTS.filter(run="old"), baseline="old")


WITH_COUNTRY = LISTS.with_columns(
    country=pl.when(pl.col("query") % 3 > 0).then(pl.format("c{}", pl.col("query") % 3))
)
#: Without the new run's rankings of one country, which is null.
GONE = WITH_COUNTRY.filter((pl.col("run") != "new") | pl.col("country").is_not_null())


@pytest.mark.parametrize(
    ("test", "engine"),
    [
        ("t", "in-memory"),
        *((test, "streaming") for test in ("t", "randomization", "bootstrap", "wilcoxon", "sign")),
    ],
)
def test_a_run_without_rankings_in_a_group_has_a_row_there(test, engine):
    metrics = ["ap", "num_rel", "gm_map"]  # a mean, a sum and a geometric mean
    options = {"baseline": "old", "by": "country", "test": test, "n_resamples": 50}
    options["metrics"] = metrics
    with pytest.warns(
        pr.errors.RankWarning, match="no query in common.*country = None, run = 'new'$"
    ):
        result = pr.compare(GONE.lazy(), **options).collect(engine=engine)
    assert result.height == 3 * len(metrics) * 2
    gone = result.filter(pl.col("country").is_null(), run="new")
    assert gone["metric"].to_list() == metrics
    expected = {"queries": 0, "missing": 134, "undefined": 0, "wins": 0, "ties": 0, "losses": 0}
    unknown = ("baseline_mean", "mean", "difference", "low", "high", "p_value", "p_corrected")
    for row in gone.iter_rows(named=True):
        assert row | expected | dict.fromkeys(unknown) == row
    # The other rows are those of a table in which the run is not expected there.
    kept = result.filter(pl.col("country").is_not_null() | (pl.col("run") != "new"))
    alone = pr.compare(GONE.filter(pl.col("country").is_not_null()), **options)
    same = ["country", "metric", "run", "difference", "p_value", "queries", "missing"]
    assert_frame_equal(kept.filter(pl.col("country").is_not_null()).select(same), alone[same])


def test_a_run_without_rankings_in_a_group_of_moments_has_a_row_there():
    options = {"metrics": ["ap"], "by": ["country", "day"], "run": "run", "baseline": "old"}
    days = GONE.with_columns(day=pl.col("query") % 2).partition_by("day")
    merged = pr.stats.merge([pr.stats.moments(day, **options) for day in days])
    with pytest.warns(pr.errors.RankWarning, match="no query in common"):
        result = pr.compare(merged, baseline="old", by="country")
    with pytest.warns(pr.errors.RankWarning, match="no query in common"):
        expected = pr.compare(GONE, metrics="ap", baseline="old", by="country")
    assert_frame_equal(result, expected, abs_tol=1e-12)


def test_all_pairs_have_a_row_in_each_group():
    result = pr.stats.compare_all(GONE, metrics="ap", by="country")
    gone = result.filter(pl.col("country").is_null())
    assert gone.select("run", "other", "queries", "missing").rows() == [
        ("new", "best", 0, 134), ("old", "best", 134, 0), ("old", "new", 0, 134)
    ]  # fmt: skip
    assert gone.filter(pl.col("queries") == 0).null_count()["difference"].item() == 2
    two = GONE.filter(pl.col("run") != "best")
    result = pr.stats.compare_all(two, metrics="ap", by="country")
    assert result["queries"].to_list() == [0, 133, 133]


NOTHING = r"most rankings have no retrieved document; .*: run = 'new' \(60 of 60\)$"


@pytest.fixture(scope="module")
def nothing():
    """Rankings of which the new run has no document, and the old one none for one query."""
    log = pr.datasets.search_log(60, runs=["old", "new"]).collect()
    score = pl.when(pl.col("run") == "old").then("score")
    return pr.per_query(log.with_columns(score), ["ap", "rr"], by="run", keep="country")


@pytest.mark.parametrize("made", ["lists", "stored", "moments", "days"])
def test_a_run_that_retrieved_nothing_is_warned_of(nothing, made, tmp_path):
    table = nothing
    if made == "stored":
        nothing.write_parquet(tmp_path / "lists.parquet")
        table = pl.scan_parquet(tmp_path / "lists.parquet")
    elif made == "moments":
        table = pr.stats.moments(nothing, by="country", run="run", baseline="old")
    elif made == "days":
        for day in range(2):
            part = nothing.filter(pl.col("query") % 2 == day)
            pr.stats.write_moments(
                pr.stats.moments(part, run="run", baseline="old"), tmp_path / f"{day}.parquet"
            )
        table = pr.stats.scan_moments(tmp_path)
    for baseline, empty in (("old", [60, 60]), ("new", [1, 1])):
        if baseline == "new" and made in ("moments", "days"):
            continue  # which are of differences from the old run
        with pytest.warns(pr.errors.RankWarning, match=NOTHING):
            result = pr.compare(table, baseline=baseline).lazy().collect()
        assert result["empty"].to_list() == empty
        assert result["metric"].to_list() == ["ap", "rr"]


@pytest.mark.filterwarnings("ignore:all values are equal", "ignore:all differences are equal")
def test_summaries_and_slices_warn_of_a_run_that_retrieved_nothing(nothing):
    with pytest.warns(pr.errors.RankWarning, match=NOTHING):
        result = pr.summarize(nothing)
    assert set(result["metric"]) == {"ap", "rr"}
    with pytest.warns(pr.errors.RankWarning, match=NOTHING):
        result = pr.slices(nothing, "ap", slices="country", baseline="old")
    assert result["empty"].to_list() == result["queries"].to_list()


def test_runs_that_retrieved_something_are_not_warned_of(nothing):
    half = nothing.with_columns(num_retrieved=pl.col("query") % 2)
    # Where the table does not say it, nobody knows; and a part of which it is unknown is one.
    unknown = nothing.drop("num_retrieved")
    parts = [nothing.filter(pl.col("query") < 9), unknown.filter(pl.col("query") >= 9)]
    merged = pr.stats.merge([pr.stats.moments(part, run="run", baseline="old") for part in parts])
    assert merged["empty"].null_count() == 4
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pr.compare(half, baseline="old")["empty"].to_list() == [30, 30]
        assert "empty" not in pr.compare(unknown, baseline="old").columns
        pr.compare(merged, baseline="old")


def test_no_query_in_common():
    apart = LISTS.filter((pl.col("run") == "old") == (pl.col("query") < 200))
    with pytest.warns(pr.errors.RankWarning, match="no query in common"):
        result = pr.compare(apart, baseline="old", metrics="ap")
    assert result.row(0, named=True) | {
        "missing": 400,
        "queries": 0,
        "p_value": None,
    } == result.row(0, named=True)


def test_ranks_and_signs_are_warned_of():
    n = 1200
    random = np.random.default_rng(0).random(2 * n)
    lists = pl.DataFrame({"run": ["a"] * n + ["b"] * n, "query": [*range(n)] * 2, "x": random})
    for test in ("wilcoxon", "sign"):
        with pytest.warns(pr.errors.RankWarning, match="far too often"):
            result = pr.compare(lists, baseline="a", test=test)
        assert "use test='t'" in result["warning"].item()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "warning" not in pr.compare(lists, baseline="a").columns


def test_misuse_with_moments():
    plain = pr.stats.moments(LISTS)
    with pytest.raises(pr.errors.SchemaError, match="the moments have no differences"):
        pr.compare(plain, baseline="old")
    paired = pr.stats.moments(LISTS, run="run", baseline="old")
    with pytest.raises(pr.errors.ArgumentError, match="`test='wilcoxon'` needs per-query values"):
        pr.compare(paired, baseline="old", test="wilcoxon")
    with pytest.raises(
        pr.errors.DataError, match="with the baseline 'old'; found `baseline` 'new'"
    ):
        pr.compare(paired, baseline="new")
    with pytest.raises(pr.errors.ArgumentError, match="not split by"):
        pr.compare(paired, baseline="old", by="metric")


def test_does_lambdarank_100_beat_lambdarank_10():
    lists, baseline = real()
    result = pr.compare(lists, baseline=baseline, metrics="ndcg@10").filter(run="lambdarank-100")
    new, old = values(lists, "ndcg@10", "lambdarank-100", baseline)
    assert result["p_value"].item() == pytest.approx(
        scipy.stats.ttest_rel(new, old).pvalue, rel=1e-9
    )


@pytest.mark.parametrize("test", ["t", "randomization", "bootstrap", "wilcoxon", "sign"])
def test_few_lists_and_none(test):
    assert pr.compare(LISTS.clear(), baseline="old", test=test).is_empty()
    one = pr.compare(LISTS.filter(query=3), metrics="rr@3", baseline="old", test=test)
    assert one["queries"].to_list() == [1, 1]
    assert one["p_value"].to_list() == one["low"].to_list() == [None, None]
    unknown = LISTS.with_columns(own=pl.lit(None, dtype=pl.Float64))
    none = pr.compare(unknown, metrics="own", baseline="old", test=test)
    assert none.select("queries", "undefined", "difference", "p_value").row(0) == (
        400,
        400,
        None,
        None,
    )


def test_arrow_tables():
    result = pr.compare(LISTS.to_arrow(), baseline="old")
    assert_frame_equal(result, pr.compare(LISTS, baseline="old"))


def pair(differences):
    """Return two runs, "a" of zeros and "b", that differ by so much."""
    n = len(differences)
    x = [0.0] * n + [float(each) for each in differences]
    return pl.DataFrame({"run": ["a"] * n + ["b"] * n, "query": [*range(n)] * 2, "x": x})


def test_resamples_without_spread_are_infinite():
    """They were left out: half of all such comparisons were significant."""
    random = np.random.default_rng(1)
    for queries, changed in ((1000, 2), (200, 2), (50, 2), (50, 1)):
        differences = np.zeros(queries)
        differences[:changed] = random.normal(0, 0.3, changed)
        for alternative in ("two-sided", "greater", "less"):
            options = {"baseline": "a", "test": "bootstrap", "alternative": alternative}
            with pytest.warns(pr.errors.RankWarning, match="'bootstrap' is null in 1 row"):
                result = pr.compare(pair(differences), **options, n_resamples=1000)
            assert result.select("p_value", "low", "high").row(0) == (None, None, None)


@pytest.mark.filterwarnings("ignore:'bootstrap' is null")
def test_bootstrap_of_few_queries_keeps_its_level():
    random = np.random.default_rng(1)
    for queries in (6, 10):
        log, query = np.repeat(np.arange(400), queries), np.arange(400 * queries)
        x = random.normal(0, 0.3, 400 * queries)
        base = pl.DataFrame({"run": "a", "log": log, "query": query, "x": 0.0})
        lists = pl.concat([base, base.with_columns(run=pl.lit("b"), x=x)])
        options = {"metrics": ["x"], "by": "log", "correction": "none", "n_resamples": 500}
        with pytest.warns(
            pr.errors.RankWarning, match="'bootstrap' has fewer than 30 queries in 400 rows"
        ):
            result = pr.compare(lists, baseline="a", test="bootstrap", **options)
        assert (result["p_value"] <= 0.05).sum() <= 0.07 * 400


def test_bootstrap_does_not_depend_on_rounding():
    differences = [0.3 - 0.1] * 30 + [0.5] * 10
    lists = pair(differences)
    options = {"baseline": "a", "test": "bootstrap", "n_resamples": 1000}
    row = pr.compare(lists, **options).row(0, named=True)
    exact = pr.compare(pair([2] * 30 + [5] * 10), **options).row(0, named=True)
    assert row["p_value"] == exact["p_value"]
    assert 10 * row["high"] == pytest.approx(exact["high"], rel=1e-9)
    # Differences that are all the same but for rounding.
    with pytest.warns(pr.errors.RankWarning, match="all differences are equal in 1 row"):
        same = pr.compare(pair([0.3 - 0.2, 0.2 - 0.1, 0.1] * 20), **options)
    assert same["p_value"].item() is None


@pytest.mark.parametrize("test", ["t", "randomization", "bootstrap", "wilcoxon", "sign"])
def test_differences_that_are_nothing_but_rounding(test):
    base = np.random.default_rng(0).random(40)
    lists = pl.DataFrame({"run": ["a"] * 40 + ["b"] * 40, "query": [*range(40)] * 2,
                          "x": [*base, *base * (1 + 2e-16)]})  # fmt: skip
    with pytest.warns(pr.errors.RankWarning, match="all differences are equal in 1 row"):
        result = pr.compare(lists, baseline="a", test=test, n_resamples=100)
    assert result["p_value"].item() == 1.0
    assert result.select("effect_size", "low", "high").row(0) == (None, None, None)


def test_null_clusters_are_units_of_their_own():
    users = pl.when(pl.col("query") % 5 == 0).then(pl.col("query") % 20)
    lists = LISTS.with_columns(user=users)
    own = lists.with_columns(pl.col("user").fill_null(1000 + pl.col("query")))
    options = {"metrics": ["ap"], "baseline": "old", "cluster": "user"}
    assert_frame_equal(pr.compare(lists, **options), pr.compare(own, **options), rel_tol=1e-9)
    none = LISTS.with_columns(user=pl.lit(None, dtype=pl.String))
    plain = pr.compare(LISTS, metrics=["ap"], baseline="old")
    clustered = pr.compare(none, **options)
    assert clustered["effective"].to_list() == clustered["queries"].to_list()
    assert_frame_equal(clustered.drop("effective"), plain, rel_tol=1e-9)


@pytest.mark.parametrize("options", [{"weight": "w"}, {"cluster": "user"}])
def test_nothing_cancels_for_large_values(options):
    random = np.random.default_rng(0)
    lists = pair(random.normal(size=200)).with_columns(
        w=1.0 + pl.col("query") % 3, user=pl.col("query") // 4
    )
    far = lists.with_columns(x=pl.when(run="b").then(pl.col("x") + 1e7).otherwise(pl.col("x")))
    near = pr.compare(lists, baseline="a", metrics=["x"], **options).row(0, named=True)
    row = pr.compare(far, baseline="a", metrics=["x"], **options).row(0, named=True)
    assert row["high"] - row["low"] == pytest.approx(near["high"] - near["low"], rel=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda table: pr.summarize(table),
        lambda table: pr.compare(table, baseline="a"),
        lambda table: pr.compare(table, baseline="a", test="randomization"),
        pr.stats.compare_all,
    ],
    ids=["summarize", "t", "randomization", "compare_all"],
)
def test_values_whose_squares_overflow_or_underflow(function):
    lists = pair([1, 2, 3, 5]).with_columns(pl.col("x") + pl.col("query"))
    for lazily in (False, True):
        table = lists.with_columns(pl.col("x") * 1e160)
        with pytest.raises(pr.errors.DataError, match="values above 1e.150 in the column 'x'"):
            function(table.lazy() if lazily else table).lazy().collect()
    # Squares of 1e-340 are 0, so that the standard error is unknown.
    tiny = function(lists.with_columns(pl.col("x") * 1e-170))
    for name in ("std_error", "low", "high", "p_value"):
        assert name not in tiny.columns or tiny[name].null_count() == tiny.height
    assert tiny["mean"].to_list() == pytest.approx((function(lists)["mean"] * 1e-170).to_list())


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_weights_whose_squares_overflow_or_underflow(size):
    lists = pair([1, 2, 3]).with_columns(w=size * (1 + pl.col("query")))
    with pytest.raises(
        pr.errors.DataError, match="6 rows: weights in the column 'w' whose squares"
    ):
        pr.summarize(lists, metrics="x", weight="w")


def test_few_queries_are_warned_of():
    few = LISTS.filter(pl.col("query") < 20)
    with pytest.warns(
        pr.errors.RankWarning, match="'bootstrap' has fewer than 30 queries in 2 rows"
    ):
        pr.compare(few, metrics="ap", baseline="old", test="bootstrap")
    with pytest.warns(pr.errors.RankWarning, match=r"1 of 1 intervals exceed \[-1, 1\], .* 'x'"):
        pr.compare(pair([0.01, 0.99]), baseline="a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pr.compare(few, metrics="ap", baseline="old")


def random_pair(n=60, seed=5):
    random = np.random.default_rng(seed)
    base = random.random(n)
    return base, base + random.exponential(0.1, n) - 0.08


def two_runs(base, new, **columns):
    parts = [pl.DataFrame({"run": name, "query": range(len(x)), "x": x, **columns})
             for name, x in (("a", base), ("b", new))]  # fmt: skip
    return pl.concat(parts)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_relative_differences_have_fiellers_interval(alternative, weighted):
    base, new = random_pair()
    w = np.random.default_rng(1).random(60) + 0.5 if weighted else np.ones(60)
    table = two_runs(base, new, w=w)
    options = {"weight": "w"} if weighted else {}
    row = pr.compare(table, "x", baseline="a", alternative=alternative, **options)
    row = row.row(0, named=True)
    n = w.sum() ** 2 / (w**2).sum()
    share = 0.975 if alternative == "two-sided" else 0.95
    q = scipy.stats.t.ppf(share, n - 1)
    d, mean = new - base, lambda x: (w * x).sum() / w.sum()

    def covariance(x, y):
        products = (w**2 * (x - mean(x)) * (y - mean(y))).sum()
        return products / w.sum() ** 2 * n / (n - 1)

    # The bounds r are where the mean of d - r * base is q standard errors from 0.
    def distance(r):
        shifted = d - r * base
        return mean(shifted) ** 2 - q**2 * covariance(shifted, shifted)

    ratio = mean(d) / mean(base)
    low, high = (scipy.optimize.brentq(distance, ratio, ratio + side) for side in (-1, 1))
    expected = {"two-sided": (low, high), "greater": (low, math.inf), "less": (-math.inf, high)}
    bounds = (row["relative_low"], row["relative_high"])
    assert bounds == pytest.approx(expected[alternative], rel=1e-9)
    assert row["relative_difference"] == pytest.approx(ratio)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_relative_differences_from_a_negative_mean_have_the_sign_of_the_difference(alternative):
    base, new = random_pair()
    row = pr.compare(two_runs(-base, -new), "x", baseline="a", alternative=alternative)
    opposite = {"greater": "less", "less": "greater"}.get(alternative, alternative)
    expected = pr.compare(two_runs(base, new), "x", baseline="a", alternative=opposite)
    names = ["relative_difference", "relative_high", "relative_low"]
    negative = [-value for value in expected.select(names).row(0)]
    names = ["relative_difference", "relative_low", "relative_high"]
    assert row.select(names).row(0) == pytest.approx(tuple(negative))


def test_relative_differences_from_a_mean_near_zero_have_no_interval():
    random = np.random.default_rng(1)
    row = pr.compare(two_runs(random.normal(size=50), random.normal(size=50)), baseline="a").row(
        0, named=True
    )
    assert (row["relative_low"], row["relative_high"]) == (None, None)
    assert row["relative_difference"] is not None


def test_effect_sizes_and_skewness():
    base, new = random_pair()
    row = pr.compare(two_runs(base, new), baseline="a").row(0, named=True)
    d = new - base
    effect, skewness = d.mean() / d.std(ddof=1), scipy.stats.skew(d)
    assert row["skewness"] == pytest.approx(skewness, rel=1e-9)
    kurtosis = 3 + 1.5 * skewness**2
    error = math.sqrt((1 - skewness * effect + effect**2 * (kurtosis - 1) / 4) / 60)
    half = scipy.stats.t.ppf(0.975, 59) * error
    bounds = (row["effect_low"], row["effect_high"])
    assert bounds == pytest.approx((effect - half, effect + half), rel=1e-9)


@pytest.mark.parametrize("options", [{"weight": "w"}, {"cluster": "user"}])
def test_unequal_units_count_as_fewer(options):
    base, new = random_pair(200)
    w = np.r_[np.full(100, 1.0), [1000.0], np.full(99, 1.0)]
    users = np.r_[np.zeros(100), np.arange(100) // 2 + 1]
    with pytest.warns(pr.errors.RankWarning, match="fewer than 30 effective"):
        table = pr.compare(two_runs(base, new, w=w, user=users), "x", baseline="a", **options)
    row = table.row(0, named=True)
    sizes = w if "weight" in options else np.bincount(users.astype(int))
    n = sizes.sum() ** 2 / (sizes**2).sum()
    assert row["effective"] == pytest.approx(n)
    width = scipy.stats.t.ppf(0.975, n - 1)
    d = new - base
    if "weight" in options:
        mean = (w * d).sum() / w.sum()
        squares = (w**2 * (d - mean) ** 2).sum()
    else:
        mean = d.mean()
        squares = (np.bincount(users.astype(int), weights=d - mean) ** 2).sum()
    error = math.sqrt(squares / sizes.sum() ** 2 * n / (n - 1))
    assert row["high"] - row["difference"] == pytest.approx(width * error, rel=1e-9)


def test_one_heavy_query_is_one_unit():
    table = two_runs([0.1, 0.2, 0.3], [0.2, 0.1, 0.5], w=[1.0, 0.0, 0.0])
    with pytest.warns(pr.errors.RankWarning, match="fewer than 30 effective .* 1.0"):
        row = pr.compare(table, "x", baseline="a", weight="w").row(0, named=True)
    assert (row["effective"], row["low"], row["p_value"]) == (1.0, None, None)


@pytest.mark.parametrize(("change", "p_value"), [(0.3, None), (0.0, 1.0)])
def test_equal_differences_have_no_interval(change, p_value):
    table = two_runs([0.5] * 4, [0.5 + change] * 4)
    for table in (table, pr.stats.moments(table, baseline="a")):
        with pytest.warns(pr.errors.RankWarning, match="all differences are equal in 1 row"):
            row = pr.compare(table, baseline="a").row(0, named=True)
        assert (row["p_value"], row["low"], row["high"]) == (p_value, None, None)
        assert (row["effect_low"], row["relative_low"], row["skewness"]) == (None, None, None)


@pytest.mark.parametrize("n", [10, 40])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_the_randomization_interval_is_what_the_test_does_not_reject(n, alternative):
    differences = np.random.default_rng(n).exponential(size=n) - 0.4
    options = {"baseline": "a", "test": "randomization", "alternative": alternative}
    row = pr.compare(pair(differences), **options).row(0, named=True)
    assert row["interval"] == "randomization"
    for bound, side in ((row["low"], -1), (row["high"], 1)):
        if math.isfinite(bound):
            for shift, inside in ((-1e-6, True), (1e-6, False)):
                moved = pair(differences - bound - side * shift)
                p_value = pr.compare(moved, **options)["p_value"].item()
                assert (p_value > 0.05) is inside
    assert math.isfinite(row["low"]) is (alternative != "less")


def test_two_queries_have_no_finite_randomization_interval():
    row = pr.compare(pair([0.2, 0.3]), baseline="a", test="randomization").row(0, named=True)
    assert (row["p_value"], row["low"], row["high"]) == (0.5, -math.inf, math.inf)


@pytest.mark.parametrize("test", ["t", "randomization", "bootstrap"])
def test_corrected_intervals(test):
    random = np.random.default_rng(0)
    runs = {
        name: random.random(50) + shift
        for name, shift in (("a", 0), ("b", 0.4), ("c", 0.1), ("d", 0.0), ("e", 0.5))
    }
    table = pl.concat(pl.DataFrame({"run": name, "query": range(50), "x": x})
                      for name, x in runs.items())  # fmt: skip
    options = {"baseline": "a", "test": test, "n_resamples": 2000}
    for correction, rows in (("bonferroni", 1), ("holm", 1), ("bh", 2), ("none", 4)):
        result = pr.compare(table, correction=correction, **options)
        if correction == "bh":  # two are rejected: the level is 1 - 2 * 0.05 / 4
            assert (result["p_corrected"] <= 0.05).sum() == 2
        level = 1 - rows * 0.05 / 4
        wider = pr.compare(table, confidence=level, **options)
        for side in ("low", "high"):
            assert result[side + "_corrected"].to_list() == pytest.approx(wider[side].to_list())


def test_many_missing_queries_are_warned_of():
    table = LISTS.filter((pl.col("run") != "new") | (pl.col("query") >= 21))
    with pytest.warns(pr.errors.RankWarning, match=r"more than 5% .*: run = 'new' \(21 missing\)"):
        pr.compare(table, "ap", baseline="old")
    few = LISTS.filter((pl.col("run") != "new") | (pl.col("query") >= 20))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # The numbers of missing queries are of "best" and "new".
        assert pr.compare(few, "ap", baseline="old")["missing"].to_list() == [0, 20]


@pytest.mark.parametrize(
    "metric", ["fall_out@2", "average_relevance_position", "label_ranking_loss"]
)
def test_wins_are_queries_in_which_the_run_is_better(metric):
    """Lower values are better: 3 queries of "b" are lower, 1 is equal, 2 are higher."""
    table = two_runs([0.5] * 6, [0.1, 0.2, 0.3, 0.5, 0.7, 0.9]).rename({"x": metric})
    for values in (table, pr.stats.moments(table, baseline="a")):
        rows = [
            pr.compare(values, baseline="a", test="sign", alternative=each).row(0, named=True)
            for each in ("greater", "less")
        ]
        assert [(row["wins"], row["ties"], row["losses"]) for row in rows] == [(3, 1, 2)] * 2
        # Alternatives are about the values: 2 of 5 are higher, 3 of 5 are lower.
        expected = [scipy.stats.binomtest(k, 5, alternative="greater").pvalue for k in (2, 3)]
        assert [row["p_value"] for row in rows] == pytest.approx(expected)
    renamed = table.rename({metric: "x"})
    moments = pr.stats.merge([pr.stats.moments(renamed, baseline="a")])
    for values in (renamed, moments):  # the name of no metric: higher is better
        assert pr.compare(values, baseline="a").select("wins", "losses").row(0) == (2, 3)
