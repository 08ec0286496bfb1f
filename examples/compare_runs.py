"""Compare two runs: means, differences with p-values, and the largest losses."""

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

log = search_log(queries=2_000, runs=["bm25", "neural"])

print(pr.evaluate(log, ["ndcg@10", "ap", "rr"]).collect())

# The values of which the means above were taken.
values = pr.per_query(log, "ndcg@10").collect()
comparison = pr.compare(values, baseline="bm25")
print(comparison.select("run", "mean", "difference", "low", "high", "p_value", "verdict"))

# The per-query table is an ordinary DataFrame: pivot it to find the largest losses.
gain = (pl.col("neural") - pl.col("bm25")).alias("gain")
runs = values.pivot("run", index="query", values="ndcg@10").with_columns(gain)
print(runs.sort("gain").head(3))
