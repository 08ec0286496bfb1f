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


def assert_ranks_follow_from_pairs(board: pl.DataFrame, pairs: pl.DataFrame, number: int) -> None:
    for row in board.iter_rows(named=True):
        is_run, is_base = (pl.col(name) == row["run"] for name in ("run", "baseline"))
        above, below = pl.col("low") > 0, pl.col("high") < 0
        better = pairs.filter((is_run & above) | (is_base & below)).height
        worse = pairs.filter((is_run & below) | (is_base & above)).height
        assert (row["better_than"], row["worse_than"]) == (better, worse)
        assert (row["rank_low"], row["rank_high"]) == (1 + worse, number - better)
        assert row["best"] == (worse == 0)


def test_ranks_follow_from_all_pairs() -> None:
    values = table()
    board = pr.leaderboard(values, "x", details=True)
    assert_ranks_follow_from_pairs(board, pr.compare(values, "x"), 4)
    assert board["rank"].to_list() == [1, 2, 3, 4]
    assert board["mean"].is_sorted(descending=True)
    means = board.sort("run").select("run", "mean", "low", "high", "queries")
    assert_frame_equal(means, pr.summarize(values, "x").select(means.columns), **EQUAL)
    turned = pr.leaderboard(values.rename({"x": "fall_out@2"}), "fall_out@2")
    assert turned["run"].to_list() == ["a", "b", "c", "d"]
    assert turned["best"].to_list()[0]


@pytest.mark.filterwarnings("ignore:fewer than 5 degrees of freedom")
@pytest.mark.parametrize("options", [{}, {"weight": "w"}, {"cluster": "user"}], ids=str)
@pytest.mark.parametrize(
    ("metric", "queries"), [("rr", 20), ("rr", 60), ("hit_rate@5", 20), ("hit_rate@5", 60)]
)
def test_ranks_of_few_queries_and_of_values_of_0_and_1(
    metric: str, queries: int, options: dict
) -> None:
    random = np.random.default_rng(1)
    of_hit = 1.0 if metric == "hit_rate@5" else 0.9
    values = pl.DataFrame(
        {"run": run, "query": q, "user": q // 2, "w": 1.0 + q % 3,
         metric: of_hit * (random.random() < size)}
        for run, size in (("a", 0.05), ("b", 0.5), ("c", 0.6), ("d", 0.97)) for q in range(queries)
    )  # fmt: skip
    board = pr.leaderboard(values, metric, details=True, **options)
    pairs = pr.compare(values, metric, **options)
    assert_ranks_follow_from_pairs(board, pairs, 4)
    assert board.filter(run="d")["rank_low"].item() < 4 < 1 + board.filter(run="a")["rank"].item()
    means = pr.summarize(values, metric, **options).sort("run")
    columns = ["mean", "low", "high", "method"]
    assert_frame_equal(board.sort("run").select(columns), means.select(columns), **EQUAL)


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
    found = {run: mean for run, mean, tasks in board.select("run", "mean", "tasks").rows()}
    assert found == pytest.approx(expected)
    assert board["tasks"].to_list() == [2] * 4
    # The variance is that within tasks: Σ a² s² / n, with a = 1/2.
    run = board["run"][0]
    parts = [rows["x"] for _, rows in values.filter(run=run).group_by("task")]
    error = sum(each.var() / len(each) for each in parts) ** 0.5 / 2
    half = (board["high"][0] - board["low"][0]) / 2
    assert half == pytest.approx(2.05 * error, rel=0.1)
    # Tasks that share their queries.
    twice = pl.concat([values.with_columns(task=pl.lit(name)) for name in ("en", "de")])
    board = pr.leaderboard(twice, "x", by="task", cluster="query")
    alone = pr.leaderboard(values, "x")
    assert board["high"].to_list() == pytest.approx(alone["high"].to_list(), rel=0.02)


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_few_units_have_no_ranks(engine: str) -> None:
    """Without a known range, fewer than 30 queries or 10 clusters show no order of the runs."""
    values = table().with_columns(task=pl.col("query") % 29)
    of_tasks = values.group_by("run", "task").agg(pl.col("x").mean())
    nine = values.with_columns(task=pl.col("query") % 9)
    hidden = ["rank", "rank_low", "rank_high", "best", "better_than", "worse_than"]
    cases: list[tuple[pl.DataFrame, dict[str, Any], str]] = [
        (of_tasks, {"query": "task"}, r"queries in 'x' \(29\)"),
        (nine, {"cluster": "task"}, r"clusters in 'x' \(9\)"),
        (of_tasks.with_columns(w=2.0), {"query": "task", "weight": "w"}, r"queries in 'x' \(29\)"),
    ]
    for rows, options, units in cases:
        with pytest.warns(RankWarning, match=f"too few {units}, or too few that differ"):
            board = pr.leaderboard(rows.lazy(), "x", details=True, **options).collect(engine=engine)
        assert board.select(hidden).null_count().row(0) == (4,) * 6
        with pytest.warns(RankWarning, match="without a known range"):
            means = pr.summarize(rows, "x", **options).sort("mean", descending=True)
        columns = ["run", "low", "high", "method"]
        assert_frame_equal(board.select(columns), means.select(columns))
    known = of_tasks.with_columns(rr=0.5 + pl.col("x") / 10)
    board = pr.leaderboard(known, "rr", query="task")
    assert board["rank_low"].null_count() == 0
    assert board["method"].to_list() == ["bounded"] * 4


def test_pairs_of_which_few_queries_differ() -> None:
    """Of 40 queries, c is worse in 9 and d in all; a and b are equal in all."""
    x = np.linspace(0.5, 0.9, 40)
    c = np.where(np.arange(40) % 9 == 0, x - [0.02, 0.06] * 20, x)
    runs = {"a": x, "b": x, "c": c, "d": x - 0.4 + np.tile([0.1, -0.1], 20)}
    values = pl.concat(
        pl.DataFrame({"run": run, "query": range(40), "x": each}) for run, each in runs.items()
    )
    with pytest.warns(RankWarning, match="some pairs of runs have no interval in 'x'"):
        board = pr.leaderboard(values)
    found = board.select("run", "rank", "rank_low", "rank_high").rows()
    assert found == [("a", 1, 1, 3), ("b", 1, 1, 3), ("c", 3, 1, 3), ("d", 4, 4, 4)]
    with pytest.warns(RankWarning, match="so there are no ranks"):
        board = pr.leaderboard(values.filter(pl.col("run") != "d"))
    assert board["rank"].null_count() == 3


def test_bad_input() -> None:
    values = table()
    others = pl.when(pl.col("run") != "a").then("x").alias("x")
    weight = pl.col("query").cast(pl.Float64).alias("w")
    for rows, options, message in (
        (values.with_columns(run=pl.lit("a")), {}, "only the run 'a'|duplicate"),
        (values.with_columns(others), {}, "no query has a value"),
        (values.with_columns(weight), {"weight": "w", "by": "task"}, "different weights"),
        (values.with_columns(pl.col("query") * 0), {}, "duplicate rankings"),
        (pl.concat([values, values.filter(task="t2", run="a").head(1)]), {"by": "task"},
         "duplicate rankings: .*'task': 't2'"),
    ):  # fmt: skip
        with pytest.raises(DataError, match=message):
            pr.leaderboard(rows, "x", **options)
