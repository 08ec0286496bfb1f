"""Which run is better, on how many queries, and where does it lose most?"""

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

log = search_log(queries=2_000, runs=["bm25", "neural"])

print(pr.evaluate(log, ["ndcg@10", "ap", "rr"], by="run").collect())

# A table per query is a frame like any other: comparing runs is a pivot.
lists = pr.per_query(log, "ndcg@10", by="run").collect()
gain = pl.col("neural") - pl.col("bm25")
runs = lists.pivot("run", index="query", values="ndcg@10").with_columns(gain.alias("gain"))
print(runs.select((gain > 0).sum().alias("won"), (gain < 0).sum().alias("lost"), gain.mean()))
print(runs.sort("gain", nulls_last=True).head(3))
