"""`moments` and `merge`: any partition gives the statistics of the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import polars_rank as pr
from polars_rank.errors import ArgumentError, DataError, RankWarning, SchemaError


def table(queries: int = 60, runs: str = "abc", seed: int = 0) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "run": run,
            "query": query,
            "day": query % 4,
            "user": query // 3,
            "w": 1.0 + query % 5,
            "x": float(random.beta(2, 3)) if (query + place) % 11 else None,
            "hit": float(random.random() < 0.7),
        }
        for query in range(queries)
        for place, run in enumerate(runs)
    )


METRICS = ["x", "hit"]
SUMMARY = ["metric", "run", "mean", "low", "high", "queries", "std_error", "skewness", "effective"]
EQUAL = {"rel_tol": 1e-9, "abs_tol": 1e-12}


def parts_of(values: pl.DataFrame, seed: int) -> list[pl.DataFrame]:
    """Split values between users."""
    users = pl.Series(np.random.default_rng(seed).integers(0, 3, values["user"].max() + 1))
    return values.with_columns(part=users.gather(values["user"])).partition_by(
        "part", include_key=False
    )


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), cluster=st.booleans(), weight=st.booleans())
@pytest.mark.filterwarnings("ignore::polars_rank.errors.RankWarning")
def test_any_partition_merges_to_the_whole(seed: int, cluster: bool, weight: bool) -> None:
    values = table(seed=seed)
    options = {"cluster": "user" if cluster else None, "weight": "w" if weight else None}
    merged = pr.merge([pr.moments(part, METRICS, **options) for part in parts_of(values, seed)])
    summary = pr.summarize(merged, details=True)
    expected = pr.summarize(values, METRICS, details=True, **options)
    assert_frame_equal(summary.select(SUMMARY), expected.select(SUMMARY), **EQUAL)
    for baseline in ("b", None):
        of_moments = pr.compare(merged, baseline=baseline, correction=False)
        of_values = pr.compare(values, METRICS, baseline=baseline, correction=False, **options)
        assert_frame_equal(of_moments, of_values, **EQUAL)


def test_merging_is_associative() -> None:
    one, two, three = (pr.moments(part, METRICS) for part in parts_of(table(), 1))
    left = pr.merge([pr.merge([one, two]), three])
    right = pr.merge([one, pr.merge([three, two])])
    for each in (pr.summarize, pr.compare, pr.leaderboard):
        assert_frame_equal(each(left), each(right), **EQUAL)


@pytest.mark.filterwarnings("ignore:more than 5%")
def test_rows_of_parts_in_any_order() -> None:
    parts = [pr.moments(part.drop_nulls("x"), "x") for part in parts_of(table(), 1)]
    expected = pr.compare(pr.merge(parts))
    for seed in range(5):
        rows = pl.concat(parts).sample(fraction=1, shuffle=True, seed=seed)
        assert_frame_equal(pr.compare(pr.merge(rows)), expected, **EQUAL)
        assert_frame_equal(pr.compare(rows), expected, **EQUAL)


@pytest.mark.filterwarnings("ignore:more than 5%")
def test_the_correction_is_that_of_values() -> None:
    values = table().drop_nulls("x")
    values = values.filter(pl.len().over("query") == 3)
    of_moments = pr.compare(pr.moments(values, "x"))
    of_values = pr.compare(values, "x")
    assert of_moments["p_value"].to_list() == pytest.approx(
        of_values["p_value"].to_list(), rel=0.03
    )
    # Metrics of moments are corrected by Bonferroni.
    both = pr.compare(pr.moments(values, METRICS)).filter(metric="x")
    expected = [min(1.0, 2 * p) for p in of_moments["p_value"]]
    assert both["p_value"].to_list() == pytest.approx(expected)


@pytest.mark.filterwarnings("ignore:more than 5%")
def test_files(tmp_path: Path) -> None:
    values = table()
    for day, rows in values.group_by("day"):
        pr.moments(rows, METRICS).write_parquet(tmp_path / f"{day[0]}.parquet")
    month = pr.merge(pl.scan_parquet(tmp_path / "*.parquet"))
    assert isinstance(month, pl.LazyFrame)
    result = pr.compare(month, baseline="a", correction=False)
    expected = pr.compare(values, METRICS, baseline="a", correction=False)
    assert_frame_equal(result.collect(engine="streaming"), expected, **EQUAL)


def test_groups_are_pooled() -> None:
    values = table()
    by_day = pr.moments(values, METRICS, by="day")
    assert_frame_equal(pr.summarize(by_day), pr.summarize(values, METRICS), **EQUAL)
    days = pr.summarize(by_day, by="day")
    assert_frame_equal(days, pr.summarize(values, METRICS, by="day"), **EQUAL)


def test_a_day_can_be_the_unit() -> None:
    values = table(120)
    by_day = pr.moments(values, METRICS, by="day", cluster="day")
    expected = pr.summarize(values, METRICS, cluster="day", details=True)
    result = pr.summarize(by_day, details=True)
    assert_frame_equal(result.select(SUMMARY), expected.select(SUMMARY), **EQUAL)


def test_days_that_differ_lead_to_a_warning() -> None:
    random = np.random.default_rng(0)
    rows = {"query": range(1200), "day": [query // 100 for query in range(1200)]}
    for effect in (0.0, 0.5):
        of_day = random.normal(0, effect, 12)
        x = [float(of_day[query // 100] + random.normal()) for query in range(1200)]
        moments = pr.moments(pl.DataFrame({**rows, "x": x}), "x", by="day")
        if effect:
            with pytest.warns(RankWarning, match=r"vary more than .* cluster=\['day'\]"):
                pr.summarize(moments)
        else:
            pr.summarize(moments)


def test_the_same_part_twice() -> None:
    one, two, _ = (pr.moments(part, METRICS) for part in parts_of(table(), 1))
    with pytest.raises(DataError, match="the same part .* is merged twice"):
        pr.merge([one, two, one])
    with pytest.raises(DataError, match="the same part .* is merged twice"):
        pr.merge([pr.merge([one, two]), two])


def test_the_same_queries_on_several_days() -> None:
    rows = [{"query": q, "day": day, "x": 0.1 * q + 0.01 * day} for q in range(9) for day in (1, 2)]
    moments = pr.moments(pl.DataFrame(rows), "x", by="day")
    with pytest.warns(RankWarning, match="the same queries occur in several of the groups"):
        pr.summarize(moments)


def test_moments_with_a_baseline_have_its_pairs_only() -> None:
    moments = pr.moments(table(), METRICS, baseline="a")
    assert pr.compare(moments, baseline="a").height == 4
    with_a = pr.compare(moments, baseline="b")
    assert with_a.select("run", "baseline").unique().rows() == [("a", "b")]


def with_version(moments: pl.DataFrame, version: int) -> pl.DataFrame:
    """Return moments as a later version of the library might write them."""
    changed = pl.col("x").struct.with_fields(format_version=pl.lit(version, pl.Int64))
    return moments.with_columns(changed)


def without_version(moments: pl.DataFrame) -> pl.DataFrame:
    names = [each.name for each in moments.schema["x"].fields if each.name != "format_version"]
    fields = pl.struct(pl.col("x").struct.field(*names))
    return moments.with_columns(fields.alias("x"))


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda m: pr.summarize(m, weight="w"), ArgumentError, "`weight` needs per-query values"),
        (lambda m: pr.compare(m, slices="day"), ArgumentError, "`slices` needs per-query values"),
        (lambda m: pr.summarize(m, "z"), SchemaError, "metric 'z' .* not found in the moments"),
        (lambda m: pr.summarize(m, by="day"), SchemaError, "'day'"),
        (lambda m: pr.compare(m, baseline="z"), DataError, "run 'z'"),
        (pr.moments, SchemaError, "already has moments"),
        (lambda m: pr.merge([m, m.rename({"x": "y"})]), DataError, "have different columns"),
        (lambda m: pr.merge([]), ArgumentError, "`tables` is empty"),
        (lambda m: pr.merge("file"), ArgumentError, "`tables` must be a table"),
        (lambda m: pr.merge([table()]), SchemaError, "must be results of `moments` or `merge`"),
        (lambda m: pr.merge(with_version(m, 2)), DataError, "'x'.* has the format_version 2, .* 1"),
        (lambda m: pr.summarize(with_version(m, 2)), DataError, "pip install --upgrade polars_ra"),
        (lambda m: pr.merge(without_version(m)), SchemaError, "'format_version' is missing"),
    ],
)
def test_bad_input(use: object, error: type, message: str) -> None:
    moments = pr.moments(table(), METRICS)
    with pytest.raises(error, match=message):
        use(moments)  # type: ignore[operator]
