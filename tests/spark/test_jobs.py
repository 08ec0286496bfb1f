"""When Spark runs jobs, which rows it moves, and how it reports errors."""

from __future__ import annotations

import runpy
import threading
from pathlib import Path
from typing import Any

import polars as pl
import polars_rank as pr
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

# How rows are packed for Spark's shuffle.
from polars_rank.spark import query_chunks
from spark.conftest import OPTIONS
from spark.logs import log, on_spark, same
from strategies import make_fewer_queries

pytestmark = pytest.mark.filterwarnings("ignore:the runs were evaluated on different numbers")

LOG = log().select("run", "query", "doc", "score", "label")
OF_RUN = {"by": "run"}


def plan_of(frame: Any) -> str:
    return frame._jdf.queryExecution().executedPlan().toString()


def jobs(spark: Any, work: Any) -> int:
    spark.sparkContext.setJobGroup("counted", "")
    work()
    found = spark.sparkContext.statusTracker().getJobIdsForGroup("counted")
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    return len(found)


def test_nothing_runs_before_an_action(spark: Any) -> None:
    rows = on_spark(spark, LOG)
    bad = rows.selectExpr("query", "doc", "run", "label", "cast('NaN' as double) as score")

    def plan() -> None:
        pr.per_query(bad, "ap", by="run")
        pr.evaluate(bad, "ap", **OF_RUN)
        pr.rank(bad, by="run")
        pr.join_judgments(rows.drop("label"), rows.select("query", "doc", "label").distinct())

    assert jobs(spark, plan) == 0


def test_a_table_bucketed_by_query_has_the_same_results(spark: Any) -> None:
    rows = on_spark(spark, LOG)
    rows.write.bucketBy(4, "query").sortBy("query").mode("overwrite").saveAsTable("bucketed")
    lists = pr.per_query(spark.table("bucketed"), "ap", by="run")
    assert plan_of(lists).count("hashpart") == 1
    same(pr.per_query(LOG, "ap", by="run"), lists, ["run", "query"])
    several = pr.evaluate(spark.table("bucketed"), "ap", query=["run", "query"])
    same(pr.evaluate(LOG, "ap", query=["run", "query"]), several)


def batches_of(rows: pl.DataFrame, size: int = 7) -> list[Any]:
    return rows.to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches(max_chunksize=size)


@pytest.mark.parametrize(
    ("packed_bytes", "cell_bytes"), [(1, 1), (2_000, 100), (2_000, 1 << 20), (1 << 20, 1)]
)
def test_packed_rows_come_back_by_bucket(packed_bytes: int, cell_bytes: int) -> None:
    rows = (
        log()
        .with_columns(
            *(pl.lit(value).alias(name) for name, value in {"empty": None, "text": "é \n"}.items()),
            price=pl.col("score").cast(pl.Decimal(20, 4)),
            at=pl.datetime(2026, 1, 1) + pl.duration(hours=pl.col("query")),
            several=pl.concat_list("label", "label"),
        )
        .sample(fraction=1, shuffle=True, seed=1)
    )
    bucket = (pl.col("query").hash(0) % 8).cast(pl.Int32).alias("bucket")
    given = rows.select(bucket, *rows.columns, pl.int_range(pl.len()).alias(query_chunks.PLACE))
    nothing = given.clear().to_arrow(compat_level=pl.CompatLevel.oldest()).to_batches()
    schema = pl.Schema({**rows.schema, query_chunks.PLACE: pl.Int64()})
    batches = [*batches_of(given), *nothing]
    cells = list(
        query_chunks.packed_cells(schema, batches, packed_bytes=packed_bytes, cell_bytes=cell_bytes)
    )
    assert all(batch.schema == query_chunks.CELLS for batch in cells)
    moved = pl.concat([pl.DataFrame(pa.Table.from_batches([batch])) for batch in cells])
    sorted_cells = batches_of(moved.sort("bucket"), 3)
    found = list(query_chunks.chunks_of(schema, sorted_cells, chunk_rows=20))
    assert len(found) > 2
    assert_frame_equal(pl.concat(found), rows, check_row_order=False)
    queries = [query for chunk in found for query in chunk["query"].unique()]
    assert len(queries) == rows["query"].n_unique()  # no query is in two chunks


def test_one_enormous_list(spark: Any) -> None:
    """A ranking longer than many chunks, in one task with short rankings."""
    spark.range(600_000).createOrReplaceTempView("numbers")
    rows = spark.sql(
        "select if(id % 10 = 0, id, -1) as query, id as doc, cast(id as double) as score, "
        "cast(id % 3 as int) as label from numbers"
    )
    here = pl.select(doc=pl.int_range(600_000)).with_columns(
        query=pl.when(pl.col("doc") % 10 == 0).then("doc").otherwise(-1),
        score=pl.col("doc").cast(pl.Float64),
        label=(pl.col("doc") % 3).cast(pl.Int32),
    )
    asked = ["ndcg@10", "ap", "rr"]
    same(pr.evaluate(here, asked), pr.evaluate(rows, asked))


BAD = LOG.with_columns(
    score=pl.when((pl.col("query") == 7) & (pl.col("run") == "bm25"))
    .then(float("nan"))
    .otherwise("score")
)


def test_a_bad_row_is_one_readable_error(spark: Any) -> None:
    from pyspark.errors import PythonException

    with pytest.raises(pr.errors.DataError) as here:
        pr.evaluate(BAD, "ap", **OF_RUN)
    with pytest.raises(PythonException) as there:
        pr.evaluate(on_spark(spark, BAD, 7), "ap", **OF_RUN).collect()
    counted = str(here.value).partition("e.g.")[0]
    assert "rows: column 'score' (`score`) has NaN or infinite values" in counted
    assert f"polars_rank.errors.DataError: {counted}" in str(there.value)
    assert "'query': 7" in str(there.value)
    assert len(str(there.value).splitlines()) < 12

    said = r"DataError: .* rows: column 'score' .*'query': 7.*one of Spark"
    with pytest.raises(PythonException, match=said):
        pr.per_query(on_spark(spark, BAD, 7), "ap", by="run").collect()
    twice = pl.concat([LOG, LOG.filter(pl.col("query") % 4 == 0)])
    with pytest.raises(pr.errors.DataError) as here:
        pr.evaluate(twice, "ap", **OF_RUN)
    with pytest.raises(PythonException) as there:
        pr.evaluate(on_spark(spark, twice, 7), "ap", **OF_RUN).collect()
    assert str(here.value).partition("e.g.")[0] in str(there.value)


def test_errors_that_can_be_known_are_raised_before_anything_runs(
    spark: Any, tmp_path: Any
) -> None:
    rows, columns = on_spark(spark, LOG), "1 as query, 1 as doc, 1.0 as score, 1 as label"
    lock = threading.Lock()
    guarded = pr.ndcg(3, gain=lambda label: label if lock else label).alias("guarded")
    stream = spark.readStream.schema("query long, score double, label int").parquet(str(tmp_path))

    def with_column(value: str) -> Any:
        return spark.sql(f"select {columns}, {value} as more")

    for match, call in [
        ("'query' .`query`. not found", lambda: pr.evaluate(rows.drop("query"), "ap")),
        ("unknown metric 'nope'", lambda: pr.evaluate(rows, "nope")),
        ("cannot be sent to Spark's workers.*lock", lambda: pr.evaluate(rows, ["ap", guarded])),
        ("does not support Spark DataFrames", lambda: pr.diagnostics.tie_bands(rows, "ap")),
        ("does not support Spark DataFrames", lambda: pr.compare(rows, baseline="bm25")),
        ("does not support Spark.*applyInArrow", lambda: pr.tune_fusion(rows, "ndcg@5")),
        ("duplicate column 'doc'", lambda: pr.rank(rows.select("*", "doc"))),
        ("`judgments` is a Spark .* but", lambda: pr.join_judgments(LOG.drop("label"), rows)),
        ("must be a table; found list", lambda: pr.evaluate([rows, rows], "ap")),
        ("type interval.*; drop it", lambda: pr.evaluate(with_column("interval 1 month"), "rr")),
        ("type interval.*; drop it", lambda: pr.evaluate(with_column("make_interval(1, 2)"), "rr")),
        ("one id.*a column of ids", lambda: pr.evaluate(with_column("map(1, 2)"), "rr", by="more")),
        ("foreachBatch", lambda: pr.evaluate(stream, "ap")),
    ]:
        with pytest.raises((pr.errors.ArgumentError, pr.errors.SchemaError), match=match):
            call()


@pytest.mark.filterwarnings("ignore")
def test_the_example(spark: Any, monkeypatch: Any, capsys: Any) -> None:
    """In the session of the tests: another one would take as long as all the rest."""
    make_fewer_queries(monkeypatch)
    monkeypatch.setattr(type(spark), "stop", lambda _: None)
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "on_spark.py"))
    spark.conf.set("spark.sql.shuffle.partitions", OPTIONS["spark.sql.shuffle.partitions"])
    assert capsys.readouterr().out.count("neural") >= 2


def test_warnings_of_workers_reach_the_driver(spark: Any) -> None:
    with pytest.warns(pr.errors.RankWarning, match="different numbers of queries.*how='semi'"):
        pr.evaluate(on_spark(spark, LOG), "ap", by="run").collect()
    renamed = on_spark(spark, LOG.drop("run").rename({"doc": "docid"}), 4)
    with pytest.warns(pr.errors.RankWarning, match="'docid'.* pass it as `doc`") as caught:
        pr.evaluate(renamed, "ap").collect()
    said = [str(each.message) for each in caught if each.category is pr.errors.RankWarning]
    assert len([text for text in said if "docid" in text]) == 1
