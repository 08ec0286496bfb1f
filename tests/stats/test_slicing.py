"""slices: contributions add up, and each slice is a comparison of its own."""

import needs
import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

LOG = pr.datasets.search_log(600, runs=["old", "new", "best"], seed=2)
LISTS = pr.per_query(LOG, ["ap", "num_rel"], by=["run", "country"]).collect()
LISTS = LISTS.with_columns(
    device=pl.when(pl.col("query") % 4 > 0).then(pl.format("d{}", pl.col("query") % 4))
)


@pytest.mark.parametrize("undefined", ["zero", "skip"])
@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_contributions_add_up(undefined, engine):
    result = pr.slices(
        LISTS.lazy(), "ap", slices=["country", "device"], baseline="old", pairs=True,
        undefined=undefined,
    ).collect(engine=engine)  # fmt: skip
    whole = pr.compare(LISTS, metrics="ap", baseline="old", undefined=undefined)
    for run, column in result.select("run", "column").unique().rows():
        total = result.filter(run=run, column=column)["contribution"].sum()
        assert total == pytest.approx(whole.filter(run=run)["difference"].item(), rel=1e-9)
    assert sorted(result["column"].unique()) == ["country", "country & device", "device"]
    for (_,), rows in result.group_by("run"):
        assert rows["contribution"].is_sorted()


def test_each_slice_is_a_comparison():
    result = pr.slices(LISTS, "ap", slices=["country", "device"], baseline="old", min_queries=2)
    for row in result.iter_rows(named=True):
        part = LISTS.filter(pl.col(row["column"]).eq_missing(row["value"]))
        alone = pr.compare(part, metrics="ap", baseline="old", correction="none")
        expected = alone.filter(run=row["run"]).row(0, named=True)
        for name in ("queries", "baseline_mean", "mean", "difference", "low", "high", "p_value"):
            assert row[name] == pytest.approx(expected[name], rel=1e-9)


def test_small_slices_are_no_tests():
    multitest = needs.package("statsmodels.stats.multitest", "test")
    result = pr.slices(
        LISTS, "ap", slices=["country", "device"], baseline="old", pairs=True, min_queries=30
    )
    assert set(result.filter("small")["queries"] < 30) == {True}
    assert result.filter("small")["p_value"].null_count() == result["small"].sum() > 0
    tests = result.filter(~pl.col("small"))
    expected = multitest.multipletests(tests["p_value"].to_numpy(), method="fdr_bh")[1]
    assert tests["p_corrected"].to_list() == pytest.approx(expected.tolist(), rel=1e-9)


def test_a_run_without_rankings_in_a_slice_has_a_row_there():
    gone = LISTS.filter(~((pl.col("run") == "new") & (pl.col("country") == "DE")))
    result = pr.slices(gone, "ap", slices="country", baseline="old").filter(run="new")
    whole = pr.slices(LISTS, "ap", slices="country", baseline="old").filter(run="new")
    assert set(result["value"]) == set(whole["value"])
    row = result.filter(value="DE").row(0, named=True)
    queries = whole.filter(value="DE")["queries"].item()
    assert row | {"queries": 0, "missing": queries, "small": True} == row
    assert row | dict.fromkeys(("difference", "low", "high", "p_value", "contribution")) == row
    rest = ["value", "queries", "missing", "difference", "p_value"]
    assert_frame_equal(
        result.filter(pl.col("value") != "DE").select(rest).sort("value"),
        whole.filter(pl.col("value") != "DE").select(rest).sort("value"),
    )


def test_nulls_are_no_text():
    country = pl.col("query").replace_strict({0: None, 1: "null", 2: "a & b", 3: "a"}, default="c")
    device = pl.col("query").replace_strict({2: "c", 3: "b & c", 4: '"'}, default=None)
    lists = LISTS.with_columns(country=country, device=device)
    result = pr.slices(lists, "ap", slices=["country", "device"], baseline="old", pairs=True)
    result = result.filter(run="new")
    values = {
        column: sorted(table["value"].to_list(), key=str)
        for (column,), table in result.group_by("column")
    }
    assert values["country"] == [None, "a", "a & b", "c", "null"]
    assert values["country & device"] == sorted(
        ["null & null", '"null" & null', '"a & b" & c', 'a & "b & c"', 'c & """"', "c & null"]
    )
    assert result.filter(value="null & null")["queries"].item() == 1


def test_duplicates_are_shown_without_internal_columns():
    with pytest.raises(pr.errors.DataError, match="duplicate rankings: .*e.g. ") as caught:
        pr.slices(LISTS, "ap", slices="device", baseline="old", query="country")
    assert "polars_rank:" not in str(caught.value)


def test_order_of_rows_does_not_matter():
    options = {"slices": "country", "baseline": "old"}
    turned = LISTS.sample(fraction=1, shuffle=True, seed=1)
    assert_frame_equal(
        pr.slices(turned, "ap", **options), pr.slices(LISTS, "ap", **options), rel_tol=1e-9
    )


@pytest.mark.parametrize(
    ("metric", "options", "error", "message"),
    [
        (
            "ap",
            {"slices": "browser"},
            pr.errors.SchemaError,
            "column 'browser' .`slices`. not found",
        ),
        ("ap", {"slices": []}, pr.errors.ArgumentError, "`slices` must name at least one"),
        ("num_rel", {}, pr.errors.ArgumentError, "not a mean over queries"),
        ("ap", {"min_queries": 0}, pr.errors.ArgumentError, "`min_queries` must be"),
        ("ap", {"correction": "BH"}, pr.errors.ArgumentError, "`correction` must be one of"),
        ("ap", {"baseline": "older"}, pr.errors.DataError, "run 'older' .`baseline`. not found"),
        ("country", {}, pr.errors.SchemaError, "must be numeric"),
    ],
)
def test_misuse(metric, options, error, message):
    with pytest.raises(error, match=message):
        pr.slices(LISTS, metric, **{"slices": "country", "baseline": "old", **options})


@pytest.mark.parametrize("name", ["value", "column"])
@pytest.mark.parametrize("role", ["device", "ap", "query", "other"])
def test_columns_with_the_names_of_the_result(name, role):
    options = {"baseline": "old", "undefined": "zero"}
    expected = pr.slices(LISTS, "ap", slices="device", **options)
    table = LISTS.with_columns(other=pl.lit("x")).rename({role: name})
    renamed = {role: name}
    result = pr.slices(
        table, renamed.get("ap", "ap"), slices=renamed.get("device", "device"),
        query=renamed.get("query", "query"), **options,
    )  # fmt: skip
    names = ["column", "metric"]
    assert_frame_equal(result.drop(names), expected.drop(names))


def test_the_column_of_runs_has_another_name_than_those_of_the_result():
    with pytest.raises(
        pr.errors.ArgumentError, match=r"'value' \(`run`\) has the name of a result"
    ):
        pr.slices(
            LISTS.rename({"run": "value"}), "ap", slices="country", baseline="old", run="value"
        )
