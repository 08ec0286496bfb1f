"""`leaderboard`: ranks, their intervals, and tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

import polars_rank as pr
from polars_rank.errors import DataError, RankWarning

EQUAL = {"rel_tol": 1e-9, "abs_tol": 1e-12}


def table(queries: int = 60, seed: int = 0, metric: str = "x") -> pl.DataFrame:
    random = np.random.default_rng(seed)
    quality = random.normal(0, 1, queries)
    return pl.DataFrame(
        {"run": run, "query": q, "task": ("t1", "t2", "t2")[q % 3], "w": 1.0,
         metric: quality[q] + 0.15 * place + random.normal(0, 0.3)}
        for q in range(queries)
        for place, run in enumerate("abcd")
    )  # fmt: skip


def test_ranks_follow_from_all_pairs() -> None:
    values = table()
    board = pr.leaderboard(values, "x", details=True)
    pairs = pr.compare(values, "x")
    for row in board.iter_rows(named=True):
        better = pairs.filter(
            ((pl.col("run") == row["run"]) & (pl.col("low") > 0))
            | ((pl.col("baseline") == row["run"]) & (pl.col("high") < 0))
        ).height
        worse = pairs.filter(
            ((pl.col("run") == row["run"]) & (pl.col("high") < 0))
            | ((pl.col("baseline") == row["run"]) & (pl.col("low") > 0))
        ).height
        assert (row["better_than"], row["worse_than"]) == (better, worse)
        assert (row["rank_low"], row["rank_high"]) == (1 + worse, 4 - better)
        assert row["best"] == (worse == 0)
    assert board["rank"].to_list() == [1, 2, 3, 4]
    assert board["mean"].is_sorted(descending=True)


def test_means_are_those_of_summarize() -> None:
    values = table()
    board = pr.leaderboard(values, "x").sort("run").select("run", "mean", "low", "high", "queries")
    assert_frame_equal(board, pr.summarize(values, "x").select(board.columns), **EQUAL)


def test_lower_is_better() -> None:
    values = table(metric="fall_out@2")
    board = pr.leaderboard(values, "fall_out@2")
    assert board["run"].to_list() == ["a", "b", "c", "d"]
    assert board["best"].to_list()[0]


def test_equal_means_share_a_rank() -> None:
    values = table().filter(pl.col("run") != "d")
    same = values.with_columns(x=pl.when(pl.col("run") == "b").then(None).otherwise("x"))
    same = same.with_columns(pl.col("x").forward_fill().over("query"))
    board = pr.leaderboard(same, "x")
    assert sorted(board["rank"].to_list()) == [1, 2, 2]


def test_queries_that_all_runs_have() -> None:
    values = table().filter((pl.col("run") != "a") | (pl.col("query") >= 10))
    with pytest.warns(RankWarning, match="10 of 60 queries are not compared"):
        board = pr.leaderboard(values, "x", details=True)
    assert board.select("queries", "missing").unique().rows() == [(50, 10)]
    common = pr.leaderboard(values.filter(pl.col("query") >= 10), "x")
    assert_frame_equal(board.select(common.columns), common)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("options", [{}, {"by": "task"}, {"weight": "w"}], ids=str)
@pytest.mark.parametrize("function", [pr.leaderboard, pr.compare])
def test_the_warning_has_code_for_the_queries_that_all_runs_have(
    function: Any, options: dict, engine: Any
) -> None:
    values = table(metric="rr").with_columns(task=pl.when(pl.col("task") != "t1").then("task"))
    missing = (pl.col("run") == "a") & (pl.col("query") < 10)
    absent = values.filter(~missing)
    if function is pr.leaderboard:  # neither a query without a value nor one of weight 0 counts
        nothing = "w" if options.get("weight") else "rr"
        value = 0.0 if options.get("weight") else None
        absent = values.with_columns(pl.when(missing).then(value).otherwise(nothing).alias(nothing))
    with pytest.warns(RankWarning, match="keep those that all runs have: values.join") as caught:
        function(absent, "rr", **options)
    code = str(caught[0].message).partition("keep those that all runs have: ")[2]
    kept = eval(code, {"pl": pl, "values": absent.lazy()})
    found = function(kept, "rr", **options).collect(engine=engine)  # without a warning
    assert_frame_equal(found, function(values.filter(pl.col("query") >= 10), "rr", **options))


def test_the_mean_of_task_means() -> None:
    values = table()
    board = pr.leaderboard(values, "x", by="task", details=True)
    of_tasks = values.group_by("run", "task").agg(pl.col("x").mean())
    expected = dict(of_tasks.group_by("run").agg(pl.col("x").mean()).rows())
    for run, mean, tasks in board.select("run", "mean", "tasks").rows():
        assert mean == pytest.approx(expected[run])
        assert tasks == 2
    # The variance is that within tasks: Σ a² s² / n, with a = 1/2.
    run = board["run"][0]
    parts = [rows["x"] for _, rows in values.filter(run=run).group_by("task")]
    error = sum(each.var() / len(each) for each in parts) ** 0.5 / 2
    half = (board["high"][0] - board["low"][0]) / 2
    assert half == pytest.approx(2.05 * error, rel=0.1)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_few_units_have_no_ranks(engine: str) -> None:
    values = table().with_columns(task=pl.col("query") % 9)
    of_tasks = values.group_by("run", "task").agg(pl.col("x").mean())
    hidden = ["rank", "rank_low", "rank_high", "best", "better_than", "worse_than"]
    for few, options, units in (
        (of_tasks, {"query": "task"}, r"queries \(9\)"),
        (values, {"cluster": "task"}, r"clusters \(9\)"),
        (of_tasks, {"query": "task", "weight": pl.lit(2.0)}, r"queries \(9\)"),
    ):
        rows = few.with_columns(options["weight"].alias("w")) if "weight" in options else few
        given = {**options, "weight": "w"} if "weight" in options else options
        with pytest.warns(RankWarning, match=f"fewer than 10 {units} in 'x': they do not show"):
            board = pr.leaderboard(rows.lazy(), "x", details=True, **given).collect(engine=engine)
        assert board.select(hidden).null_count().row(0) == (4,) * 6
        means = pr.summarize(rows, "x", **given).sort("mean", descending=True)
        assert_frame_equal(board.select("run", "low", "high"), means.select("run", "low", "high"))
    ten = table().with_columns(task=pl.col("query") % 10)
    board = pr.leaderboard(ten.group_by("run", "task").agg(pl.col("x").mean()), "x", query="task")
    assert board["rank_low"].null_count() == 0


def test_tasks_that_share_their_queries() -> None:
    values = table()
    twice = pl.concat([values.with_columns(task=pl.lit(name)) for name in ("en", "de")])
    board = pr.leaderboard(twice, "x", by="task", cluster="query")
    alone = pr.leaderboard(values, "x")
    assert board["high"].to_list() == pytest.approx(alone["high"].to_list(), rel=0.02)


@pytest.mark.parametrize(
    ("change", "options", "error", "message"),
    [
        (pl.lit("a").alias("run"), {}, DataError, "only the run 'a'|duplicate"),
        (pl.when(pl.col("run") != "a").then("x").alias("x"), {}, DataError, "no query has a value"),
        (pl.col("query").cast(pl.Float64).alias("w"), {"weight": "w", "by": "task"}, DataError,
         "different weights"),
        (pl.col("query") * 0, {}, DataError, "duplicate rankings"),
    ],
)  # fmt: skip
def test_bad_input(change: pl.Expr, options: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        pr.leaderboard(table().with_columns(change), "x", **options)


def test_a_query_that_is_repeated_in_any_task_is_an_error() -> None:
    values = table()
    repeated = pl.concat([values, values.filter(task="t2", run="a").head(1)])
    with pytest.raises(DataError, match="duplicate rankings: .*'task': 't2'"):
        pr.leaderboard(repeated, "x", by="task")
