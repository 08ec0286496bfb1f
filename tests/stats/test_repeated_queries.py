"""The same queries in several groups or parts of moments are not new queries."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

DAYS, QUERIES = 14, 100


def values(days: int = DAYS) -> pl.DataFrame:
    """Two runs with the same 100 queries each day; values differ more by query than by day."""
    random = np.random.default_rng(5)
    of_query = random.random(QUERIES)
    rows = [
        pl.DataFrame({
            "run": run, "day": day, "query": range(QUERIES),
            "rr": 0.5 * of_query ** (1 + (run == "b")) + 0.1 * random.random(QUERIES),
        })
        for day in range(days)
        for run in "ab"
    ]  # fmt: skip
    return pl.concat(rows)


SAME = values()
NEW = SAME.with_columns(pl.col("query") + 1_000 * pl.col("day"))


def by_day(table: pl.DataFrame, **options: Any) -> list[pl.DataFrame]:
    return [
        pr.stats.moments(day, ["rr"], by="day", baseline="a", **options)
        for day in table.partition_by("day", maintain_order=True)
    ]


STATISTICS: dict[str, Any] = {
    "summarize": pr.summarize,
    "compare": lambda table, **options: pr.compare(table, baseline="a", **options),
    "power": lambda table, **options: pr.stats.power(table, baseline="a", **options),
}
REPEATED = "the same queries, e.g. .*, occur in several"


def test_merge_warns() -> None:
    message = REPEATED + r" groups \(by 'day'\). If .* average the values of each query"
    with pytest.warns(pr.errors.RankWarning, match=message):
        pr.stats.merge(by_day(SAME))
    with pytest.warns(pr.errors.RankWarning, match=REPEATED):
        pr.stats.merge([day.lazy() for day in by_day(SAME)]).collect(engine="streaming")


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_warn_if_they_pool_the_days(name: str) -> None:
    compute = STATISTICS[name]
    month = pl.concat(by_day(SAME))
    with pytest.warns(pr.errors.RankWarning, match=REPEATED + " of the groups that are pooled"):
        compute(month)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        lazy = compute(month.lazy())  # nothing is collected yet
    with pytest.warns(pr.errors.RankWarning, match=REPEATED):
        lazy.collect(engine="streaming")


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.filterwarnings("error")
def test_no_warning_without_repeated_queries(name: str) -> None:
    compute = STATISTICS[name]
    compute(pr.stats.merge(by_day(NEW)))
    compute(pl.concat(by_day(SAME)), by="day")


@pytest.mark.filterwarnings("error")
def test_queries_of_several_runs_are_not_repeated() -> None:
    pr.stats.merge([pr.stats.moments(SAME.filter(run=run, day=0), ["rr"]) for run in "ab"])
    pr.summarize(pr.stats.moments(SAME.filter(day=0), ["rr"]), run=None)


@pytest.mark.filterwarnings("error")
def test_two_ways_to_average_queries_agree() -> None:
    """Every query occurs as often: the mean over clusters is that of averages per query."""
    averages = SAME.group_by("run", "query").agg(pl.col("rr").mean())
    expected = pr.compare(averages, baseline="a")
    options: dict[str, Any] = {"query": ["day", "query"], "cluster": "query", "baseline": "a"}
    clustered = pr.compare(SAME, ["rr"], **options)
    moments = pr.stats.moments(SAME, ["rr"], **options)
    names = ["difference", "low", "high", "p_value", "relative_low", "relative_high"]
    for result in (clustered, pr.compare(moments, baseline="a")):
        assert_frame_equal(result.select(names), expected.select(names), rel_tol=1e-9)
    naive = pl.concat(by_day(NEW))  # as if the queries were new
    width = pr.compare(naive, baseline="a").select(pl.col("high") - pl.col("low")).item()
    assert expected.select(pl.col("high") - pl.col("low")).item() > 2 * width


def test_parts_with_the_same_clusters() -> None:
    users = NEW.with_columns(user=pl.col("query") % 40)
    days = users.partition_by("day", maintain_order=True)
    parts = [pr.stats.moments(day, ["rr"], cluster="user") for day in days]
    with pytest.warns(pr.errors.RankWarning, match="the cluster .* is in two parts, table 1 and"):
        pr.stats.merge(parts)
    grouped = pr.stats.moments(users, ["rr"], by="day", cluster="user")
    with pytest.warns(pr.errors.RankWarning, match="the same clusters, e.g. .* that are pooled"):
        pr.summarize(grouped)


@pytest.mark.filterwarnings("error:.*cluster.* in two parts")
def test_rows_without_a_cluster_are_clusters_of_their_own() -> None:
    alone = NEW.with_columns(user=pl.lit(None, pl.Int64))
    parts = [
        pr.stats.moments(day, ["rr"], cluster="user")
        for day in alone.partition_by("day", maintain_order=True)
    ]
    clustered, plain = pr.summarize(pr.stats.merge(parts)), pr.summarize(NEW, ["rr"])
    assert_frame_equal(clustered.drop("effective"), plain, rel_tol=1e-9)


@pytest.mark.parametrize("function", [pr.compare, pr.stats.power, pr.stats.moments, pr.slices])
def test_a_column_of_the_query_may_be_the_cluster(function: Any) -> None:
    table = SAME.with_columns(half=pl.col("query") % 2)
    options: dict[str, Any] = {"query": ["day", "query"], "cluster": "query", "baseline": "a"}
    options |= {"slices": "half", "metric": "rr"} if function is pr.slices else {"metrics": ["rr"]}
    renamed = table.with_columns(user="query")
    assert_frame_equal(
        function(table, **options).drop("clustered_by", strict=False),
        function(renamed, **{**options, "cluster": "user"}).drop("clustered_by", strict=False),
    )
