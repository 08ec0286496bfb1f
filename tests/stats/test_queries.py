"""The columns of the query, if they are not named and there is no column "query"."""

import warnings

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

NAMED = pr.per_query(pr.datasets.search_log(60), ["ap", "rr"], by="run", keep="country").collect()
#: A table of users with a key, and a text that is not unique.
USERS = NAMED.rename({"query": "user"})
FUNCTIONS = {
    "compare": lambda table, **query: pr.compare(table, baseline="bm25", **query),
    "compare_all": lambda table, **query: pr.stats.compare_all(table, **query),
    "leaderboard": lambda table, **query: pr.stats.leaderboard(table, **query),
    "power": lambda table, **query: pr.stats.power(table, "ap", baseline="bm25", **query),
    "slices": lambda table, **query: pr.slices(
        table, "ap", slices="country", baseline="bm25", **query
    ),
    "moments": lambda table, **query: pr.stats.moments(table, baseline="bm25", **query),
    "bootstrap": lambda table, **query: pr.summarize(
        table, interval="bootstrap", n_resamples=50, **query
    ),
    "differences": lambda table, **query: pr.plot.differences(
        table, "ap", baseline="bm25", **query
    ).to_dict(),
    "scatter": lambda table, **query: pr.plot.scatter(table, "ap", **query).to_dict(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_only_column_that_identifies_rows(name):
    function = FUNCTIONS[name]
    expected = function(NAMED)
    for table in (
        USERS,
        # Nothing else is a candidate: a constant, a count, and a metric that is an integer.
        USERS.with_columns(dataset=pl.lit("A"), num_relevant=pl.lit(1)),
        USERS.with_columns(pl.col("user").cast(pl.String).cast(pl.Categorical)),
    ):
        found = function(table)
        if isinstance(expected, pl.DataFrame):
            lazily = function(table.lazy()).collect()
            assert_frame_equal(lazily, found, rel_tol=1e-9)
            if name != "bootstrap" or table["user"].dtype == pl.Int64:
                same = [n for n in expected.columns if "ranking" not in n]
                assert_frame_equal(found.select(same), expected.select(same), rel_tol=1e-9)
        else:
            assert str(found["title"]) == str(expected["title"])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_several_columns_or_none_are_an_error(name):
    function = FUNCTIONS[name]
    text = USERS.with_columns(title=pl.format("query {}", "user"))
    several = "several columns identify the rows .* with `query`: 'user', 'title'"
    for table in (text, text.lazy()):
        with pytest.raises(pr.errors.SchemaError, match=several):
            function(table)
    assert function(text, query="user") is not None
    halves = USERS.with_columns(session=pl.col("user") // 2, user=pl.col("user") % 7)
    with pytest.raises(
        pr.errors.SchemaError, match="no other column identifies .*'user'.*'session'"
    ):
        function(halves)
    with pytest.raises(pr.errors.SchemaError, match="the table has no other columns"):
        function(USERS.drop("user") if name == "slices" else USERS.drop("user", "country"))
    # A single column is checked when the result is collected.
    if name != "slices":
        with pytest.raises(pr.errors.DataError, match="no other column identifies .*'country'"):
            function(USERS.drop("user"))


def test_a_plan_with_a_query_is_not_read():
    def fail(_):
        raise AssertionError

    table = NAMED.lazy().map_batches(fail, schema=NAMED.schema)
    for plan in (table, table.rename({"query": "user"}).drop("country")):
        pr.compare(plan, baseline="bm25")
        pr.stats.moments(plan, baseline="bm25")
    pr.compare(table.rename({"query": "user"}), baseline="bm25", query="user")


@pytest.mark.parametrize("function", [pr.summarize, pr.stats.moments])
def test_runs_in_a_column_with_another_name_are_reported(function):
    table = NAMED.drop("query").rename({"run": "model"})
    with pytest.warns(pr.errors.RankWarning, match="'model'.*pass run='model'; if not.* run=None"):
        pooled = function(table)
    for options in ({"run": None}, {"run": "model"}, {"by": "model"}):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = function(table, **options)
        assert ("model" in result.columns) == (options != {"run": None})
    assert_frame_equal(pooled, function(table, run=None))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(table.filter(model="bm25"))
