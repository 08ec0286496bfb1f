"""Programs for Spark clusters and servers, which print their results as JSON."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

from spark import gains, own_metric  # noqa: E402
import polars as pl  # noqa: E402
import polars_rank as pr  # noqa: E402
from spark.logs import log, on_spark, same  # noqa: E402
from pyspark.sql import SparkSession  # noqa: E402

LOG = log()
#: A few metrics; `test_equal` compares all metrics with the results of one machine.
METRICS = ["ndcg@10", "ap", "rr", "gmap", "num_ret", "roc_auc", "err(max_grade=4)"]
OPTIONS = {"by": ["run", "country"]}


def equal(spark: Any) -> None:
    """Compare all functions with the results of one machine."""
    rows = on_spark(spark, LOG, 5)
    lists = pr.per_query(LOG, METRICS, by="run", keep="country")
    there = pr.per_query(rows, METRICS, by="run", keep="country")
    same(lists, there, ["run", "query"])
    same(pr.rank(LOG, by="run"), pr.rank(rows, by="run"), ["run", "query", "doc"])
    run, judged = LOG.drop("label"), LOG.group_by("query", "doc").agg(pl.col("label").max())
    same(pr.join_judgments(run, judged),
         pr.join_judgments(on_spark(spark, run), on_spark(spark, judged)),
         ["run", "query", "doc"])  # fmt: skip
    own = [pr.ndcg(3, gain=gains.squared), pr.dcg(3, gain=lambda x: x * 2)]
    asked = [*METRICS, *own, own_metric.retrieved_twice()]
    same(pr.evaluate(LOG, asked, **OPTIONS), pr.evaluate(rows, asked, **OPTIONS))


def error_of(spark: Any) -> str:
    """Return the message of the error for an invalid row."""
    bad = LOG.with_columns(
        score=pl.when(pl.col("query") == 7).then(float("inf")).otherwise("score")
    )
    try:
        pr.evaluate(on_spark(spark, bad, 5), "ap", **OPTIONS).collect()
    except Exception as error:
        return str(error)
    return "no error"


def killed(spark: Any, once: str) -> None:
    """Kill the first Python worker that evaluates a ranking."""
    asked = ["ap", gains.dying(once)]
    here = pr.per_query(LOG, "ap", by="run")
    there = pr.per_query(on_spark(spark, LOG, 5), asked, by="run").drop("n")
    same(here, there, ["run", "query"])
    assert Path(once).exists()


def executors(spark: Any) -> int:
    return spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1


def slow(spark: Any, at_work: str) -> None:
    """Run for some seconds, during which an executor can be lost."""
    asked = ["ap", gains.slow(0.02, at_work)]
    here = pr.evaluate(LOG, "ap", by="run")
    there = pr.evaluate(on_spark(spark, LOG, 5), asked, by="run").drop("n")
    same(here, there)


def main() -> None:
    where, url, *parts = sys.argv[1:]
    builder = SparkSession.builder.config("spark.ui.showConsoleProgress", "false")
    if where == "connect":
        spark = builder.remote(url).getOrCreate()
    else:
        for name, value in {
            "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "4",
            "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "700m", "spark.log.level": "OFF",
        }.items():  # fmt: skip
            builder = builder.config(name, value)
        spark = builder.master(url).getOrCreate()
    found: dict[str, Any] = {}
    for part in parts:
        name, _, argument = part.partition("=")
        found[name] = globals()[name](spark, *([argument] if argument else []))
        print(json.dumps({name: found[name]}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
