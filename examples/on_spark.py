"""Evaluate a log on Spark, and compare runs locally by means of groups of queries."""

import os
import sys
import tempfile

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import polars_rank as pr

# Local workers use the same Python.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
session = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", "8")
spark = session.config("spark.ui.enabled", "false").getOrCreate()

with tempfile.TemporaryDirectory() as folder:
    pr.datasets.search_log(1_000, runs=["bm25", "neural"]).sink_parquet(f"{folder}/log.parquet")
    log = spark.read.parquet(f"{folder}/log.parquet")  # on a cluster: spark.table("logs.search")

    # The results are lazy Spark DataFrames: nothing has run yet.
    means = pr.evaluate(log, ["ndcg@10", "ap", "rr"])
    values = pr.per_query(log, ["ndcg@10", "ap"])
    means.show()

    # Only the means of 10,000 random groups of queries are collected; the comparison runs locally.
    group = sf.pmod(sf.xxhash64("query"), sf.lit(10_000)).alias("group")
    group_means = [sf.avg(f"`{name}`").alias(name) for name in ("ndcg@10", "ap")]
    groups = values.groupBy("run", group).agg(*group_means, sf.count("*").alias("n")).toArrow()
    print(pr.compare(groups, query="group", weight="n", baseline="bm25"))

spark.stop()
