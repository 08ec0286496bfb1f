"""compare_all of moments, against compare_all of the values."""

import random
import warnings

import polars as pl
import polars_rank as pr
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import strategies  # noqa: F401  (sets the number of examples of hypothesis)

LOG = pr.datasets.search_log(300, runs=["old", "new", "best"], seed=2)
LISTS = pr.per_query(LOG, ["ap", "num_rel", "rr"], by="run").collect()
#: Columns that do not depend on resamples.
EXACT = ["metric", "run", "other", "difference", "mean", "other_mean", "missing", "queries"]
OPTIONS = [
    {},
    {"by": "group"},
    {"weight": "weight"},
    {"by": "group", "weight": "weight", "cluster": "user"},
    {"cluster": "user", "undefined": "skip"},
]


@st.composite
def tables(draw):
    """Per-query values of up to three runs in groups and parts, with missing runs and values."""
    rows = []
    for query in range(draw(st.integers(1, 25))):
        weight, user = draw(st.sampled_from([0.0, 0.5, 3.0])), draw(st.sampled_from([None, 1, 2]))
        for run in draw(st.sampled_from(["abc", "abc", "abc", "ab", "bc", "c"])):
            value = draw(st.one_of(st.none(), st.integers(0, 64).map(lambda n: n / 64)))
            # The clusters of a group and part are in no other one.
            rows.append((run, query, "xy"[query % 2], query % 3, weight, user, value))
    schema = {"run": pl.String, "query": pl.Int64, "group": pl.String, "part": pl.Int64,
              "weight": pl.Float64, "user": pl.Int64, "ap": pl.Float64}  # fmt: skip
    return pl.DataFrame(rows, schema, orient="row").with_columns(
        user=pl.col("user") + 10 * (pl.col("query") % 6)
    )


def ordered(table):
    return table.sort("group" if "group" in table.columns else "metric", "run")


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@given(lists=tables(), seed=st.integers(0, 10**6))
def test_moments_of_parts_compare_like_the_values(options, lists, seed):
    options = {**options, "metrics": "ap"}
    parts = [
        pr.stats.moments(part, **options, all_pairs=True) for part in lists.partition_by("part")
    ]
    random.Random(seed).shuffle(parts)
    whole = pr.stats.moments(lists, **options, all_pairs=True)
    merged = pr.stats.merge([pr.stats.merge(parts[:2]), *parts[2:]])
    columns = [name for name in ("group", "metric", "run", "all_pairs") if name in whole.columns]
    assert_frame_equal(
        ordered(merged).select(columns), ordered(whole).select(columns), rel_tol=1e-12,
        abs_tol=1e-12,
    )  # fmt: skip
    if lists["run"].n_unique() == 1:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        expected = pr.stats.compare_all(lists, **options, n_resamples=50)
        result = pr.stats.compare_all(merged, by=options.get("by"), n_resamples=50)
    assert result.columns == expected.columns
    two = lists["run"].n_unique() == 2
    exact = pl.all() if two else pl.exclude("low", "high", "p_value")
    assert_frame_equal(result.select(exact), expected.select(exact), rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("options", [{}, {"cluster": "user"}, {"weight": "w"}], ids=str)
@pytest.mark.parametrize("runs", [["old", "new"], ["old", "new", "best"]], ids=len)
def test_intervals_are_those_of_the_values(options, runs):
    lists = LISTS.filter(pl.col("run").is_in(runs)).with_columns(
        user=pl.col("query") // 2, w=1.0 + pl.col("query") % 3
    )
    options = {"metrics": ["ap", "rr"], **options}
    expected = pr.stats.compare_all(lists, **options, n_resamples=20_000)
    plan = pr.stats.moments(lists.lazy(), **options, all_pairs=True)
    plan = pr.stats.compare_all(plan, n_resamples=20_000)
    result = plan.collect(engine="streaming")
    assert_frame_equal(plan.collect(engine="in-memory"), result, rel_tol=1e-9)
    bounds, p_values = ["low", "high"], "p_value"
    numbers = pl.exclude(*bounds, p_values)
    assert_frame_equal(result.select(numbers), expected.select(numbers), rel_tol=1e-9)
    tolerance = 1e-9 if len(runs) == 2 else 0.02
    widths = [(each["high"] - each["low"]).to_numpy() for each in (result, expected)]
    assert widths[0] == pytest.approx(widths[1], rel=tolerance)
    centers = (result["high"] + result["low"]) / 2
    assert centers.to_numpy() == pytest.approx(expected["difference"].to_numpy(), abs=1e-12)
    assert result[p_values].to_numpy() == pytest.approx(expected[p_values], abs=tolerance)


def test_days_are_pooled():
    lists = LISTS.with_columns(day=pl.col("query") % 3)
    days = pr.stats.moments(lists, "ap", by="day", all_pairs=True)
    of_days = pr.stats.compare_all(days, by="day", n_resamples=100)
    assert of_days["day"].to_list() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    pooled = pr.stats.compare_all(days, n_resamples=1000)
    whole = pr.stats.moments(lists, "ap", all_pairs=True)
    assert_frame_equal(pooled, pr.stats.compare_all(whole, n_resamples=1000), rel_tol=1e-9)


def test_a_part_without_a_run_has_no_query_in_all_runs():
    parts = [
        LISTS.filter(pl.col("query") < 100, pl.col("run") != "new"),
        LISTS.filter(pl.col("query") >= 100),
    ]
    merged = pr.stats.merge([pr.stats.moments(part, "ap", all_pairs=True) for part in parts])
    result = pr.stats.compare_all(merged)
    assert result["queries"].to_list() == [200] * 3
    assert result["missing"].to_list() == [100] * 3
    with pytest.warns(pr.errors.RankWarning, match="100 of 300 of 'ap'"):
        expected = pr.stats.compare_all(pl.concat(parts), "ap")
    assert_frame_equal(result.select(EXACT), expected.select(EXACT), rel_tol=1e-9)


def test_other_statistics_ignore_the_sums(tmp_path):
    given = pr.stats.moments(LISTS, "ap", baseline="old", all_pairs=True)
    pr.stats.write_moments(given, tmp_path / "m.parquet")
    stored = pr.stats.scan_moments(tmp_path / "m.parquet").collect()
    assert_frame_equal(pr.stats.compare_all(stored), pr.stats.compare_all(given), rel_tol=1e-9)
    plain = pr.stats.moments(LISTS, "ap", baseline="old")
    assert_frame_equal(given.drop("all_pairs"), plain)
    for function in (pr.compare, pr.stats.power):
        assert_frame_equal(function(stored, baseline="old"), function(plain, baseline="old"))
    assert_frame_equal(pr.summarize(stored, run="run"), pr.summarize(plain, run="run"))
    assert_frame_equal(pr.summarize(stored, run=None), pr.summarize(plain, run=None))


MOMENTS = pr.stats.moments(LISTS, "ap", by="num_rel", all_pairs=True)
ERRORS = pr.errors


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: pr.stats.compare_all(pr.stats.moments(LISTS, "ap")),
            ERRORS.SchemaError,
            "no sums of all pairs of runs; compute them with run='run' and all_pairs=True",
        ),
        (
            lambda: pr.stats.compare_all(MOMENTS, method="tukey"),
            ERRORS.ArgumentError,
            "`method='tukey'` needs per-query values; got moments",
        ),
        (
            lambda: pr.stats.compare_all(MOMENTS, cluster="run"),
            ERRORS.ArgumentError,
            "`cluster` needs per-query values",
        ),
        (
            lambda: pr.stats.compare_all(MOMENTS, run="num_rel"),
            ERRORS.ArgumentError,
            "`run` must be 'run' as in `moments`; found 'num_rel'",
        ),
        (
            lambda: pr.stats.compare_all(
                pr.stats.moments(LISTS, ["ap", "num_rel"], all_pairs=True)
            ),
            ERRORS.DataError,
            "'num_rel' is not a mean over queries; name other metrics",
        ),
        (
            lambda: pr.stats.compare_all(
                pr.stats.moments(LISTS.filter(run="old"), "ap", all_pairs=True)
            ),
            ERRORS.DataError,
            "has only the run 'old'",
        ),
        (
            lambda: pr.stats.moments(LISTS, "ap", run=None, all_pairs=True),
            ERRORS.ArgumentError,
            "`all_pairs` needs `run`",
        ),
        (
            lambda: pr.stats.moments(LISTS, "ap", predictions=LISTS, all_pairs=True),
            ERRORS.ArgumentError,
            "`all_pairs` does not support `predictions`",
        ),
        (
            lambda: pr.stats.moments(pl.concat([LISTS, LISTS.head(1)]), "ap", all_pairs=True),
            ERRORS.DataError,
            "duplicate rankings: 'run', 'query' do not",
        ),
        (
            lambda: pr.stats.merge([MOMENTS, MOMENTS.drop("all_pairs")]),
            ERRORS.SchemaError,
            "sums of all pairs cannot be merged; compute all of them with the same `all_pairs`",
        ),
        (
            lambda: pr.stats.merge(
                [pr.stats.moments(part, "ap", all_pairs=True) for part in LISTS.partition_by("run")]
            ),
            ERRORS.DataError,
            "the ranking of query .* is in two parts",
        ),
    ],
)
def test_misuse_of_moments_of_all_pairs(call, error, message):
    with pytest.raises(error, match=message):
        call()
