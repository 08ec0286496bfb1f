"""Functions of `catalog`, `collapse` and fusion give the same results on Spark and on one machine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import polars_rank as pr
import pytest
from polars.testing import assert_frame_equal
from spark.logs import fetched, log, on_spark, same

LOG = log().select("run", "query", "doc", "score", "label", "traffic")
#: A third of the documents are in the long tail; a few documents are not in the catalog.
ITEMS = LOG.select(pl.col("doc").unique().sort()).filter(pl.col("doc") % 11 != 0)
ITEMS = ITEMS.with_columns(long_tail=pl.col("doc") % 3 == 0)
SEEN = LOG.select("query", "doc").unique(maintain_order=True).gather_every(3)


#: Functions, and the columns by which their rows are sorted.
FUNCTIONS: list[tuple[Callable[[Any], Any], list[str]]] = [
    (lambda rows: pr.catalog.summary(rows, 3, query=["run", "query"]), []),
    (lambda rows: pr.catalog.summary(rows, 3, by="run", items=ITEMS), []),
    (pr.catalog.popularity, []),
    (lambda rows: pr.catalog.exclude_seen(rows, SEEN, by="run"), ["run", "query", "doc"]),
    (lambda rows: pr.collapse(rows, doc="item", how="first", by="run"), ["run", "query", "item"]),
    (
        lambda rows: pr.fuse(
            rows, "sum(normalize='min_max')", label="traffic", ties="input", keep_runs=True
        ),
        ["run", "query", "doc"],
    ),
]


def test_polars_has_the_cores_of_the_task(spark: Any) -> None:
    """Here because workers are reused, and a later test imports Polars in them by itself."""
    threads = pl.col("rank").map_batches(
        lambda _: float(pl.thread_pool_size()), returns_scalar=True, return_dtype=pl.Float64
    )
    found = fetched(pr.per_query(on_spark(spark, LOG), threads.alias("threads"), by="run"))
    assert found["threads"].unique().to_list() == [1.0]


def test_functions(spark: Any) -> None:
    rows = LOG.with_columns(item=pl.col("doc") % 5)
    for function, keys in FUNCTIONS:
        same(function(rows), function(on_spark(spark, rows, 7)), keys)


def test_the_runs_of_the_whole_table_are_checked(spark: Any) -> None:
    rows = pl.DataFrame({"run": ["a", "b"], "query": [1, 2], "doc": [1, 2], "score": [1.0, 2.0]})
    table = on_spark(spark, rows, 2)
    method = pr.Fusion(weights={"a": 2.0, "b": 1.0})
    same(pr.fuse(rows, method), pr.fuse(table, method), ["query"])
    with pytest.raises(Exception, match="run 'c' .`weights`. not found in column 'run'"):
        pr.fuse(table, "rrf(weights={'a': 2, 'b': 1, 'c': 1})").toArrow()


@pytest.mark.filterwarnings("ignore:.*intervals exceed", "ignore:.*skew")
def test_functions_of_all_rows_are_called_for_each_group(spark: Any) -> None:
    log = pr.datasets.search_log(90, 8, runs=["bm25", "dense"], seed=2).collect()
    rows = log.select("run", "query", "doc", "score", "label", third=pl.col("query") % 3)
    table = on_spark(spark, rows, 4)
    options: dict[str, Any] = {"candidates": "sum(normalize='min_max')", "step": 0.5, "folds": 3}
    expected = pr.tune_fusion(rows, "ndcg@5", by="third", **options)
    assert_frame_equal(pr.tune_fusion(table.toArrow(), "ndcg@5", by="third", **options), expected)

    def tuned(part: Any) -> Any:
        return pr.tune_fusion(part, "ndcg@5", by="third", **options).select(columns).to_arrow()

    columns = ["third", "procedure", "mean"]
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", True)
    schema = "third bigint, procedure string, mean double"
    same(expected.select(columns), table.groupBy("third").applyInArrow(tuned, schema), columns)
    spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
