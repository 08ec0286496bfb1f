"""Spark and one machine give the same values to 1e-12: all metrics, conventions, groups, keys."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from spark import gains
import polars as pl
import polars_rank as pr
import pytest
from spark.logs import RUNS, fetched, log, metrics, on_spark, same
from polars.testing import assert_frame_equal

pytestmark = pytest.mark.filterwarnings("ignore:the runs were evaluated on different numbers")

LOG = log()
FEW = ["ndcg@10", "ap", "rr", "p@5", "gmap", "num_ret"]


#: Every metric of a few partitions, and a few metrics of one partition and of many.
PARTITIONS = [(metrics(), 3), (FEW, 1), (FEW, 12)]
#: Presets with other rules for ties, ids, scores, metrics and sets of queries.
PRESETS = ("trec_eval 9", "ir_measures", "lightgbm", "rectools")


@pytest.mark.filterwarnings("ignore:metric .* is undefined:polars_rank.errors.RankWarning")
@pytest.mark.parametrize(("asked", "partitions"), PARTITIONS, ids=["every metric", "one", "many"])
def test_metrics_of_queries_and_means(spark: Any, asked: Any, partitions: int) -> None:
    rows = on_spark(spark, LOG, partitions)
    assert rows.rdd.getNumPartitions() == partitions
    options = {"by": "run", "keep": ["country", "traffic"]}
    here = pr.per_query(LOG, asked, **options)
    same(here, pr.per_query(rows, asked, **options), ["run", "query"])
    groups = {"by": ["run", "country"]}  # which are sorted
    same(pr.evaluate(LOG, asked, **groups), pr.evaluate(rows, metrics=asked, **groups))


def test_options_of_evaluate(spark: Any) -> None:
    rows = on_spark(spark, LOG, 5)
    few = on_spark(spark, LOG.select("query").unique(), 3)
    joined = rows.join(few.where("query >= 0"), "query")  # a join that Spark changes as it runs
    for table, options in (
        (rows, {"by": ["run", "country"], "undefined": "one", "query_set": "both"}),
        (rows, {"by": "run", "undefined": "null", "duplicates": "max", "rel": 2}),
        (rows, {"by": ["country", "run"], "undefined": "skip", "weight": "traffic"}),
        (rows, {"by": "country", "query": ["run", "query"], "query_set": "judged"}),
        (rows, {"by": "run", "ties": "expected", "unjudged": "removed"}),
        (joined, {"query": ["query", "run"]}),
    ):
        asked = ["ndcg@10", "p@5"] if "ties" in options else FEW
        same(pr.evaluate(LOG, asked, **options), pr.evaluate(table, asked, **options))


def test_copies_of_documents(spark: Any) -> None:
    again = LOG.filter(pl.col("doc") % 3 == 0).with_columns(pl.col("score") / 2)
    rows, options = pl.concat([LOG, again]), {"by": "run", "duplicates": "max"}
    here = pr.per_query(rows, FEW, **options)
    same(here, pr.per_query(on_spark(spark, rows, 5), FEW, **options), ["run", "query"])
    ranked = pr.rank(on_spark(spark, rows, 5), **options)
    same(pr.rank(rows, **options), ranked, ["run", "query", "doc", "score"])


def test_presets(spark: Any) -> None:
    one = LOG.filter(run=RUNS[0]).with_columns(pl.col("label").clip(0))
    asked, rows = ["ndcg@10", "ap", "p@5", "recall@3"], on_spark(spark, one, 7)
    for preset in PRESETS:
        here = pr.evaluate(one, asked, conventions=preset)
        same(here, pr.evaluate(rows, asked, conventions=preset))


def text(query: pl.Expr) -> pl.Expr:
    return pl.format("q {}", query)


#: Text, decimals, times with and without a zone, dates, structs, booleans, bytes and fractions, of
#: which both zeros are one key, and so are all NaNs.
KEYS = [
    text(pl.col("query")),
    pl.col("query").cast(pl.Decimal(20, 3)) / 8,
    pl.lit(dt.datetime(2024, 3, 10, 6)).dt.replace_time_zone("UTC")
    + pl.duration(minutes=pl.col("query") * 7),
    pl.lit(dt.datetime(1969, 12, 31)) + pl.duration(hours="query"),
    pl.lit(dt.date(2024, 2, 20)) + pl.duration(days="query"),
    pl.struct("query", text=text(pl.col("query") % 5)),
    pl.col("query") % 2 == 0,
    pl.col("query").cast(pl.Int8),
    text(pl.col("query")).cast(pl.Binary),
    pl.when(pl.col("query") == 3)
    .then(pl.when(pl.int_range(pl.len()) % 2 == 0).then(0.0).otherwise(-0.0))
    .otherwise(pl.when(pl.col("query") < 5).then(float("nan")).otherwise(pl.col("query") / 8)),
]


def test_types_of_keys(spark: Any) -> None:
    doc = pl.format("{} {}", "query", "doc")  # some keys have the rows of several queries
    for keys in (KEYS[:5], KEYS[5:9], KEYS[9:]):
        # SQL does not interpret names.
        named = {f"a `query`. of {number}": key for number, key in enumerate(keys)}
        rows = LOG.with_columns(doc=doc, **named).drop("query")
        table, order = on_spark(spark, rows, 4), ["run", "traffic", *named]
        options = {"query": order[1:], "by": "run"}
        here, there = (pr.per_query(each, FEW, **options) for each in (rows, table))
        assert all(there.schema[name].dataType == table.schema[name].dataType for name in named)
        found = fetched(there).cast({name: here.schema[name] for name in named}).sort(order)
        assert_frame_equal(
            here.sort(order), found, check_dtypes=False, rel_tol=1e-12, abs_tol=1e-12
        )


def test_text_that_spark_sorts_without_case(spark: Any) -> None:
    """'q 1' and 'Q 1' are two queries even if a collation of Spark treats them as equal."""
    upper = pl.col("doc") % 2 == 0
    query = pl.when(upper).then(text(pl.col("query")).str.to_uppercase())
    rows = LOG.with_columns(query=query.otherwise(text(pl.col("query"))))
    others = [f"`{name}`" for name in rows.columns if name != "query"]
    there = on_spark(spark, rows, 4).selectExpr("query collate UTF8_LCASE as query", *others)
    nested = there.selectExpr("struct(query) as query", *others)
    of_text, of_structs = rows, rows.with_columns(pl.struct("query").alias("query"))
    for given, found in ((of_text, there), (of_structs, nested.repartition(2, "query"))):
        lists = pr.per_query(found, FEW, by="run")
        assert "bucket" in lists._jdf.queryExecution().toString()  # not cut where Spark sorts
        same(pr.per_query(given, FEW, by="run"), lists, ["run", "query"])


def test_columns_named_as_those_of_our_own(spark: Any) -> None:
    ours = {"query": "bucket", "label": "place", "doc": "column0", "score": "number"}
    rows, options = LOG.rename(ours), {**ours, "by": "run", "ties": "input"}
    here = pr.per_query(rows, FEW, **options)
    same(here, pr.per_query(on_spark(spark, rows, 4), FEW, **options), ["run", "bucket"])


def test_documents_and_labels_of_other_types(spark: Any) -> None:
    rows = LOG.with_columns(
        pl.col("score").cast(pl.Decimal(12, 4)), pl.col("label").cast(pl.Decimal(6, 2)),
        pl.col("doc").cast(pl.Decimal(20, 0)),
    )  # fmt: skip
    assert isinstance(rows["score"].drop_nulls()[0], Decimal)
    here = pr.evaluate(rows, FEW, by="country", query=["query", "run"])
    same(here, pr.evaluate(on_spark(spark, rows), FEW, by="country", query=["query", "run"]))
    tied = LOG.with_columns(pl.col("score").round(0))
    options = {"query": ["query", "run"], "conventions": "trec_eval"}  # which compares ids as text
    same(pr.evaluate(tied, FEW, **options), pr.evaluate(on_spark(spark, tied), FEW, **options))


def test_labels_of_some_lists_only(spark: Any) -> None:
    """Workers see a part of the rankings, so only the merged result can lack labels."""
    some = LOG.with_columns(pl.when(pl.col("query") == 5).then("label").alias("label"))
    keys = ["query", "run"]
    found = pr.per_query(on_spark(spark, some, 7), FEW, query=keys)
    same(pr.per_query(some, FEW, query=keys), found, keys)


@pytest.mark.filterwarnings("ignore:no document has a label")
def test_no_rows_and_one_query(spark: Any) -> None:
    for rows in (LOG.clear(), LOG.filter(pl.col("query") == 5)):
        table = on_spark(spark, rows, 3)
        same(pr.evaluate(rows, FEW, by="run"), pr.evaluate(table, FEW, by="run"))
        here = pr.per_query(rows, FEW, by="run")
        same(here, pr.per_query(table, FEW, by="run"), ["run", "query"])
    nothing = spark.createDataFrame([], on_spark(spark, LOG).schema)
    assert pr.evaluate(nothing, "ap", run=None).collect() == [(0, None)]
    assert pr.evaluate(nothing, "ap").collect() == []


def test_ranked_table(spark: Any) -> None:
    rows = LOG.with_columns(tags=pl.concat_list("query", "doc"), about=pl.struct("doc", "run"))
    here = pr.rank(rows, by="run", ties="input")
    same(here, pr.rank(on_spark(spark, rows, 7), by="run", ties="input"), ["run", "query", "doc"])


def test_scores_positions_and_expressions(spark: Any) -> None:
    rows = (
        LOG.filter(run="bm25")
        .drop("run")
        .with_columns(
            place=pl.int_range(1, pl.len() + 1).over("query"),
            other=pl.col("score").fill_null(0) * -1,
        )
    )
    table = on_spark(spark, rows, 4)
    for options in ({"position": "place"}, {"score": pl.col("score") - pl.col("place")}):
        same(pr.evaluate(rows, FEW, **options), pr.evaluate(table, FEW, **options))


def test_gains_metrics_and_expressions_of_users(spark: Any) -> None:
    asked = [
        pr.ndcg(10, gain="exp2"),
        pr.ndcg(10, gain={0: 0, 1: 1, 2: 5, 3: 8, 4: 9}).alias("mapped"),
        pr.ndcg(10, gain=gains.squared, discount=pr.discounts.reciprocal),
        pr.dcg(5, gain=lambda label: label * 3).alias("of a notebook"),
        (pr.ndcg(10) - pr.precision(1) / 2).alias("made of others"),
        pl.col("score").max().alias("top score"),
        (pl.col("traffic") * pl.col("rank")).sum().alias("reads another column"),
    ]
    options = {"by": "run"}
    there = pr.evaluate(on_spark(spark, LOG, 4), (each for each in asked), **options)
    same(pr.evaluate(LOG, asked, **options), there)


def test_joins_of_judgments(spark: Any) -> None:
    columns = ["run", "query", "doc", "score", "traffic"]
    run = LOG.select(columns).filter(pl.col("score").is_not_null())
    judgments = LOG.group_by("query", "doc").agg(pl.col("label").max()).drop_nulls()
    judgments = judgments.cast({"query": pl.Int32})
    there = pr.join_judgments(on_spark(spark, run, 3), on_spark(spark, judgments, 2))
    keys = ["run", "query", "doc"]
    same(pr.join_judgments(run, judgments), there, keys)
    bought = judgments.select("query", "doc").unique()
    relevant = pr.join_judgments(on_spark(spark, run, 3), on_spark(spark, bought, 2))
    same(pr.join_judgments(run, bought), relevant, keys)
    alone = run.drop("run")
    same(
        pr.join_judgments(alone, judgments, run=None).unique(),
        pr.join_judgments(on_spark(spark, alone), judgments, run=None).distinct(),
        alone.columns,  # scores of a document differ between runs
    )
