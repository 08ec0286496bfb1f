"""A table of per-query values names its conventions, and statistics use them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import needs
import polars as pl
import polars_rank as pr
import pytest
from plans import holding_nodes
from polars.testing import assert_frame_equal
from polars_rank.conventions import POLARS_RANK, PRESETS, named

METRICS = ["ndcg@10", "ap", "recall@5", "num_rel", "hit_rate@10"]
LOG = pr.datasets.search_log(100, runs=2, seed=5).collect()
VALUES = pr.per_query(LOG, METRICS, by="run", keep="country", conventions="lightgbm")
MIXED = pl.concat([VALUES.head(50), VALUES.tail(50).drop("conventions")], how="diagonal")

STATISTICS: dict[str, Callable[..., pl.DataFrame]] = {
    "summarize": lambda values, **more: pr.summarize(values, **more),
    "compare": lambda values, **more: pr.compare(values, baseline="run1", **more),
    "slices": lambda values, **more: pr.slices(
        values, "ndcg@10", slices="country", baseline="run1", **more
    ),
    "compare_all": lambda values, **more: pr.stats.compare_all(values, ["ndcg@10", "ap"], **more),
    "leaderboard": lambda values, **more: pr.stats.leaderboard(values, ["ndcg@10", "ap"], **more),
    "power": lambda values, **more: pr.stats.power(values, ["ndcg@10"], baseline="run1", **more),
    "moments": lambda values, **more: pr.stats.moments(values, **more),
}


@pytest.mark.filterwarnings("ignore:the runs were evaluated on different numbers")
@pytest.mark.parametrize("preset", [POLARS_RANK, *PRESETS], ids=lambda preset: preset.name)
@pytest.mark.parametrize("lazy", [False, True], ids=["eager", "lazy"])
def test_means_are_those_of_evaluate(preset: pr.Conventions, *, lazy: bool) -> None:
    log = LOG.lazy() if lazy else LOG
    values = pr.per_query(log, METRICS, by="run", conventions=preset)
    means = pr.evaluate(LOG, METRICS, by="run", conventions=preset).unpivot(
        METRICS, index="run", variable_name="metric", value_name="mean"
    )
    summary = pr.summarize(values, METRICS, interval="none").select("run", "metric", "mean")
    assert_frame_equal(summary.lazy().collect(), means, check_row_order=False)
    if preset.query_set == "all":  # otherwise, the runs may have different queries
        compared = pr.compare(values, METRICS, baseline="run1").select("run", "metric", "mean")
        second = means.filter(run="run2")
        assert_frame_equal(compared.lazy().collect(), second, check_row_order=False)


@pytest.mark.filterwarnings("ignore:.* intervals exceed")
@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_use_what_the_table_names(name: str) -> None:
    result = STATISTICS[name](VALUES)
    assert_frame_equal(result, STATISTICS[name](VALUES, conventions="lightgbm"))
    assert not result.equals(STATISTICS[name](VALUES, conventions="lenskit"))
    assert "conventions" not in result.columns or name == "moments"


def test_charts_use_what_the_table_names() -> None:
    needs.package("altair", "plot")
    chart = pr.plot.distribution(VALUES, "ndcg@10").to_dict()
    assert chart == pr.plot.distribution(VALUES, "ndcg@10", conventions="lightgbm").to_dict()
    assert chart != pr.plot.distribution(VALUES, "ndcg@10", conventions="ranx").to_dict()


def test_a_parquet_file_names_its_conventions(tmp_path: Path) -> None:
    VALUES.write_parquet(tmp_path / "values.parquet")
    values = pl.scan_parquet(tmp_path / "values.parquet")
    assert values.collect_schema()["conventions"] == pl.Enum(["LightGBM"])
    assert_frame_equal(pr.summarize(values).collect(), pr.summarize(VALUES))


def test_no_rows_are_read_before_the_result() -> None:
    def read(rows: pl.DataFrame) -> pl.DataFrame:
        raise AssertionError

    log = LOG.lazy().map_batches(read, schema=LOG.schema)
    values = pr.per_query(log, METRICS, by="run", keep="country", conventions="lightgbm")
    for function in STATISTICS.values():
        plan = function(values)
        given = function(values, conventions="lightgbm")
        assert holding_nodes(plan) == holding_nodes(given)


def test_text_is_read_if_the_table_is_in_memory() -> None:
    text = VALUES.with_columns(pl.col("conventions").cast(pl.String))
    assert_frame_equal(pr.summarize(text), pr.summarize(VALUES))
    assert_frame_equal(pr.summarize(text.to_arrow()), pr.summarize(VALUES))
    lazy = text.lazy().map_batches(lambda rows: rows, schema=text.schema)
    with pytest.raises(pr.errors.SchemaError, match=r"not known before it is read; pass"):
        pr.summarize(lazy)
    typed = lazy.with_columns(pl.col("conventions").cast(pl.Enum(["LightGBM"])))
    for known in (pr.summarize(typed), pr.summarize(lazy, conventions="lightgbm")):
        assert_frame_equal(known.collect(), pr.summarize(VALUES))


def test_different_conventions_are_an_error() -> None:
    xgboost = VALUES.with_columns(conventions=pl.lit("XGBoost"))
    both = pl.concat([VALUES.cast({"conventions": pl.String}), xgboost])
    with pytest.raises(pr.errors.DataError, match=r"'conventions': 'LightGBM', 'XGBoost'; compute"):
        pr.compare(both, baseline="run1", by="country")
    with pytest.raises(pr.errors.DataError, match=r"'conventions': 'LightGBM', none; compute"):
        pr.summarize(MIXED)
    lazy = MIXED.lazy().map_batches(lambda rows: rows, schema=MIXED.schema)
    for function in STATISTICS.values():
        with pytest.raises(pr.errors.DataError, match=r"'LightGBM', none; compute"):
            function(lazy).collect()
    assert pr.summarize(MIXED, conventions="lightgbm").height == 2 * len(METRICS)


def test_conventions_of_ones_own_are_asked_for() -> None:
    for own, name in (
        (pr.Conventions(name="ours", undefined="one"), "ours"),
        (pr.Conventions(counts="mean"), "polars_rank, changed"),
        (named("lightgbm").but(undefined="skip"), "LightGBM, changed"),
    ):
        values = pr.per_query(LOG, METRICS, by="run", conventions=own)
        with pytest.raises(pr.errors.ArgumentError, match=rf"conventions '{name}'") as caught:
            pr.summarize(values)
        assert caught.value.parameters == ("conventions",)
        means = pr.evaluate(LOG, METRICS, by="run", conventions=own)
        summary = pr.summarize(values, conventions=own, interval="none")
        assert summary.filter(metric="ndcg@10")["mean"].to_list() == pytest.approx(
            means["ndcg@10"].to_list()
        )


def test_there_is_no_name_if_values_count_as_by_default() -> None:
    for same in (POLARS_RANK, pr.Conventions(name="ours", parameters={"gain": "exp2"})):
        values = pr.per_query(LOG, "ap", query=["run", "query"], conventions=same)
        assert values.columns == ["run", "query", "ap"]


def test_the_name_does_not_identify_queries() -> None:
    values = VALUES.rename({"query": "topic"}).drop("country", "num_retrieved")
    assert_frame_equal(
        pr.compare(values, baseline="run1"), pr.compare(values, baseline="run1", query="topic")
    )
    with pytest.raises(pr.errors.SchemaError, match="no other columns"):
        pr.compare(values.drop("topic"), baseline="run1")


@pytest.mark.parametrize("parameter", ["by", "query", "keep"])
def test_a_column_of_the_same_name_must_be_renamed(parameter: str) -> None:
    log = LOG.filter(run="run1").with_columns(conventions=pl.col("query"))
    options: dict[str, Any] = {parameter: "conventions"}
    with pytest.raises(pr.errors.ArgumentError, match=rf"'conventions' \(`{parameter}`\)"):
        pr.per_query(log, "ap", conventions="lightgbm", **options)
    assert pr.summarize(pr.per_query(log, "ap", **options), run=None).height == 1


def test_moments_keep_the_conventions_of_the_table() -> None:
    moments = pr.stats.moments(VALUES)
    assert_frame_equal(pr.summarize(moments), pr.summarize(VALUES))
    others = pr.stats.moments(pr.per_query(LOG, METRICS, by="run"))
    with pytest.raises(pr.errors.DataError, match="different conventions"):
        pr.stats.merge([moments, others])
