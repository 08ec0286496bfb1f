"""Decide on a candidate: intervals, sample size, slices, and a gate."""

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

log = search_log(queries=1_000, runs=["bm25", "neural"], seed=4)
bm25, neural = (log.filter(pl.col("run") == name) for name in ("bm25", "neural"))

# The candidate uses the new model for every fourth query. In one country, a bug replaces the
# scores of some other queries.
routed = pl.col("query") % 4 == 0
lost = (pl.col("country") == "GB") & (pl.col("query") % 2 == 1)
broken = pl.when(lost).then(pl.col("doc") % 97).otherwise(pl.col("score"))
candidate = pl.concat([neural.filter(routed), bm25.filter(~routed)]).with_columns(
    run=pl.lit("candidate"), score=broken.cast(pl.Float64)
)
both = pl.concat([bm25, candidate])

# One row per ranking. All later steps start from this table, which may also be a file.
values = pr.per_query(both, ["ndcg@10", "rr"], by=["run", "country"]).collect()

print(pr.summarize(values))

# The means are higher, but the intervals, which are corrected for two metrics, contain 0: the
# verdict is "unclear".
comparison = pr.compare(values, baseline="bm25")
print(comparison.select("metric", "difference", "low", "high", "p_value", "verdict"))

# With a margin of 0.02, differences that do not matter: "equivalent" in one metric.
print(pr.compare(values, baseline="bm25", margin=0.02).select("metric", "low", "high", "verdict"))

# How many queries are needed to detect a difference of 0.01, and what can these queries detect?
plan = pr.power(values, baseline="bm25", difference=0.01)
print(plan.select("metric", "queries", "target", "power", "needed", "detectable"))

# Which countries does the difference come from? The contributions add up to the difference.
segments = pr.compare(values, "ndcg@10", baseline="bm25", slices="country")
print(segments.select("value", "difference", "low", "high", "contribution", "verdict"))

# Which documents changed in the query with the largest loss?
worst = pr.diagnostics.movers(
    both.filter(pl.col("country") == "GB"), "ndcg@10", baseline="bm25", n=1, k=3
)
print(worst.filter(pl.col("difference") < 0).collect())

# A gate: overall, the loss must be shown to be below 0.01. A country fails only if it is shown to
# lose more.
try:
    rules = ["queries >= 50", "difference(ndcg@10) >= -0.01"]
    pr.check(segments, rules)
except pr.errors.GateFailed as stop:
    print(stop)
