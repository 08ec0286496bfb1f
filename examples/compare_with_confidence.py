"""Ship the candidate? A better mean that is not certain, a segment that got worse, a gate."""

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

log = search_log(queries=1_000, runs=["bm25", "neural"], seed=4)
bm25, neural = (log.filter(pl.col("run") == name) for name in ("bm25", "neural"))

# The candidate uses the new model for every fourth query, and has a bug in one country, where
# it loses the scores of some others.
routed = pl.col("query") % 4 == 0
lost = (pl.col("country") == "GB") & (pl.col("query") % 2 == 1)
broken = pl.when(lost).then(pl.col("doc") % 97).otherwise(pl.col("score"))
candidate = pl.concat([neural.filter(routed), bm25.filter(~routed)]).with_columns(
    run=pl.lit("candidate"), score=broken.cast(pl.Float64)
)
both = pl.concat([bm25, candidate])

# One value per list; all that follows starts from this table, which may as well be a file.
lists = pr.per_query(both, ["ndcg@10", "rr"], by=["run", "country"]).collect()

print(pr.summarize(lists, by="run"))

# The mean is higher, but the interval has 0 in it: this many queries do not tell.
comparison = pr.compare(lists, baseline="bm25")
print(comparison.select("metric", "run", "difference", "low", "high", "p_corrected"))

# How many would, for a difference that matters? And which one can these show?
plan = pr.stats.power(lists, baseline="bm25", difference=0.01)
print(plan.select("metric", "queries", "target", "power", "needed", "smallest"))

# Where does the difference come from? The contributions add up to it.
segments = pr.slices(lists, "ndcg@10", columns="country", baseline="bm25")
print(segments.select("value", "queries", "difference", "low", "high", "contribution"))

# What happened there, document by document?
worst = pr.diagnostics.movers(
    both.filter(pl.col("country") == "GB"), "ndcg@10", baseline="bm25", n=1, k=3
)
print(worst.filter(pl.col("moved") == "lost").collect())

# The gate: no less than the baseline by 0.01, overall and in each country.
try:
    rules = ["queries >= 50", "difference(ndcg@10) >= -0.01"]
    pr.check([comparison, segments], rules, undecided="pass")
except pr.errors.GateFailed as stop:
    print(stop)
