"""The column of runs: its default, and judged documents that no run retrieved."""

from __future__ import annotations

import re
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal

#: "a" has x first, and y is relevant; "b" has y first.
LOG = pl.DataFrame({
    "run": ["a", "a", "b", "b"], "query": 1, "doc": [*"xyxy"], "score": [2.0, 1.0, 1.0, 2.0],
    "label": [0, 1, 0, 1],
})  # fmt: skip
#: z is relevant, and not retrieved.
MISSED = pl.DataFrame({"run": None, "query": 1, "doc": "z", "score": None, "label": 1}).cast(
    dict(LOG.schema)
)


def test_each_run_is_a_group_by_default() -> None:
    assert pr.evaluate(LOG, "rr").rows() == [("a", 1, 0.5), ("b", 1, 1.0)]
    by_day = pr.evaluate(LOG.with_columns(day=1), "rr", by="day")
    assert by_day.columns == ["day", "run", "queries", "rr"]
    assert_frame_equal(pr.evaluate(LOG, "rr", by="run"), pr.evaluate(LOG, "rr"))
    systems = LOG.rename({"run": "system"})
    assert pr.evaluate(systems, "rr", run="system").columns == ["system", "queries", "rr"]
    one = LOG.filter(run="b")
    assert pr.evaluate(one, "rr", run=None).rows() == [(1, 1.0)]
    assert pr.evaluate(one.drop("run"), "rr").rows() == [(1, 1.0)]
    with pytest.raises(pr.errors.SchemaError, match="column 'runn' .`run`. not found"):
        pr.evaluate(LOG, "rr", run="runn")


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_judged_documents_without_a_run_belong_to_the_only_run(engine: Any, tmp_path: Path) -> None:
    log = pl.concat([LOG.filter(run="a"), MISSED])
    log.write_parquet(tmp_path / "log.parquet")
    for frame in (log.lazy(), pl.scan_parquet(tmp_path / "log.parquet")):
        means = pr.evaluate(frame, ["recall", "rr"]).collect(engine=engine)
        assert means.rows() == [("a", 1, 0.5, 0.5)]
        ranked = pr.rank(frame).collect(engine=engine)
        assert ranked["run"].to_list() == ["a"] * 3
    assert pr.per_query(log, "recall").rows() == [("a", 1, 0.5)]
    assert pr.catalog.summary(log)["run"].to_list() == ["a"]


def test_judged_documents_without_a_run_are_an_error_if_there_are_several() -> None:
    log, message = pl.concat([LOG, MISSED]), "'run' .`run`. is null for judged.*join_jud"
    of_metric = (partial(each, metrics="rr") for each in (pr.evaluate, pr.per_query))
    for function in (*of_metric, pr.rank, pr.pr_curve, pr.catalog.summary):
        for frame in (log, log.lazy()):
            with pytest.raises(pr.errors.DataError, match=message):
                function(frame).lazy().collect()


#: Run a retrieved t and has w; run b did not retrieve t. v is not judged.
UNEQUAL = pl.DataFrame(
    [
        ("a", "s", 1.0, 1), ("a", "t", 1.0, 0), ("a", "u", 1.0, 1), ("a", "v", 1.0, None),
        ("a", "w", 1.0, 1), ("b", "s", 1.0, 0), ("b", "t", None, 0), ("b", "u", 1.0, 1),
        ("b", "v", 1.0, None),
    ],
    ["run", "query", "score", "label"], orient="row",
)  # fmt: skip


def common(log: pl.LazyFrame, message: str) -> pl.LazyFrame:
    """Return the result of the code of a warning."""
    code = re.search(r"log\.join\(.* how='semi', nulls_equal=True\)", message)
    assert code is not None, message
    kept: pl.LazyFrame = eval(code[0], {"pl": pl, "log": log})
    return kept


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
def test_the_warning_about_different_queries_has_code_for_the_common_ones(engine: Any) -> None:
    names = {"run": "the 'run'", "query": 'the "query"', "score": "a\\b"}
    log, metrics = UNEQUAL.rename(names).lazy(), ["p@1", "num_retrieved"]
    for query_set, own, shared in (
        ("all", [5, 4], "stuv"), ("judged", [4, 3], "stu"), ("retrieved", [5, 3], "suv"),
        ("both", [4, 2], "su"),
    ):  # fmt: skip
        options: dict[str, Any] = {**names, "query_set": query_set}
        with pytest.warns(pr.errors.RankWarning, match="different numbers of queries") as caught:
            found = pr.evaluate(log, metrics, **options).collect(engine=engine)
        assert found["queries"].to_list() == own
        kept = common(log, str(caught[0].message))
        found = pr.evaluate(kept, metrics, **options).collect(engine=engine)
        of_shared = UNEQUAL.filter(pl.col("query").is_in([*shared]))
        wanted = pr.evaluate(of_shared, metrics, query_set=query_set)
        assert found["queries"].to_list() == [len(shared)] * 2
        assert found.select(metrics).rows() == wanted.select(metrics).rows()


def test_the_code_for_common_queries_of_groups_and_of_several_columns_of_runs() -> None:
    log = UNEQUAL.with_columns(
        system=pl.lit("x"), model="run", day=pl.when(pl.col("query") != "s").then(1)
    ).drop("run")
    log = pl.concat([log, log.filter(query="s").with_columns(system=pl.lit("y"))])
    options: dict[str, Any] = {"by": ["day", "system", "model"], "score": -pl.col("score")}
    with pytest.warns(pr.errors.RankWarning, match="different numbers of queries") as caught:
        pr.evaluate(log, "p@1", query_set="retrieved", **options)
    kept = common(log.lazy(), str(caught[0].message)).collect()
    assert kept.select("query", "system", "model").sort(pl.all()).rows() == [
        ("s", "x", "a"), ("s", "x", "b"), ("s", "y", "a"), ("s", "y", "b")
    ]  # fmt: skip


#: Two columns of scores, one of which is better if lower, and two of labels.
WIDE = pl.DataFrame({
    "query": 1, "doc": [*"xy"], "bm25": [2.0, 1.0], "distance": pl.Series([2, 1], dtype=pl.UInt32),
    "human": [0, 1], "llm": [1, 0],
})  # fmt: skip


def unpivoted(message: str, log: Any) -> tuple[Any, dict[str, str]]:
    """Return the table and the options that the error for several columns gives."""
    line, _, options = message.partition("Unpivot the table: ")[2].partition(", and pass ")
    return eval(line, {"log": log, "pl": pl}), eval(f"dict({options})")  # noqa: S307


@pytest.mark.parametrize("make", [pl.DataFrame.lazy, lambda frame: frame])
def test_the_error_for_several_columns_gives_the_line_that_unpivots_them(make: Any) -> None:
    of_bm25, of_people, of_llm = ("bm25", 0.5), ("human", 0.5), ("llm", 1)
    for added, options, expected in (
        ([], {"label": "human", "score": ["bm25", "-distance"]}, [of_bm25, ("distance", 1)]),
        ([], {"score": "bm25", "label": ["human", "llm"]}, [of_people, of_llm]),
        # The new columns do not have the names of other columns.
        (["run", "score"], {"label": "human", "score": ["bm25"]}, [of_bm25]),
        (["judge", "label"], {"score": "bm25", "label": ("llm", "human")}, [of_people, of_llm]),
        (["score"], {"label": "human", "score": ["score", "bm25"]}, [of_bm25, ("score", 0.5)]),
    ):
        log = make(WIDE.with_columns(pl.col("bm25").alias(name) for name in added))
        for function in (pr.evaluate, pr.per_query):
            with pytest.raises(pr.errors.ArgumentError, match="must be a single column") as caught:
                function(log, "rr", **options)
            table, named = unpivoted(str(caught.value), log)
            several = next(name for name, value in options.items() if not isinstance(value, str))
            values = function(table, "rr", **{**options, several: several, **named})
            group = named.get("run", named.get("by", "run"))
            assert values.lazy().collect().sort(group).select(group, "rr").rows() == expected
    with pytest.raises(pr.errors.SchemaError, match="'bm52' .`score`. not found.*mean 'bm25'"):
        pr.evaluate(make(WIDE), "rr", label="llm", score=["bm52", "distance"])


@pytest.mark.parametrize("engine", ["in-memory", "streaming"])
@pytest.mark.parametrize("function", [pr.evaluate, pr.per_query])
def test_runs_whose_rankings_are_mostly_empty(function: Any, engine: Any) -> None:
    """Run a retrieved documents for two of three queries, run b for one of three."""
    found = pl.col("query") <= pl.col("run").replace_strict({"a": 2, "b": 1})
    rows = pl.DataFrame({"query": [1, 2, 3]}).join(pl.DataFrame({"run": ["a", "b"]}), how="cross")
    log = rows.with_columns(label=1, score=pl.when(found).then(1.0)).lazy()
    plan = function(log, "rr", doc=None)
    for _ in range(2):  # each time that the plan is executed
        with pytest.warns(pr.errors.RankWarning, match="most rankings have no") as caught:
            assert "num_retrieved" not in plan.collect(engine=engine).columns
        assert [str(each.message).partition("as in ")[2] for each in caught] == [
            "{'run': 'b', 'queries': 3}"
        ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        function(log.filter(pl.col("run") == "a"), "rr", doc=None).collect(engine=engine)
        function(log.drop_nulls("score"), "rr", doc=None, query_set="retrieved", run=None).collect(
            engine=engine
        )
