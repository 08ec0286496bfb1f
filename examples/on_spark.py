"""Evaluate a log on Spark, and compare runs locally from a small table of moments."""

import os
import sys
import tempfile

from pyspark.sql import SparkSession

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

    # Only a few rows of moments are collected; the comparison runs locally.
    moments = pr.moments(values, baseline="bm25").toArrow()
    print(pr.compare(moments, run="run", baseline="bm25"))

spark.stop()
