"""Define custom metrics as expressions over the ranked table."""

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

log = search_log(queries=1_000, runs=1)

first_page = pl.col("rank").is_between(1, 10)
clicks = pl.col("click").filter(first_page).sum().alias("clicks on page 1")
bad = ((pl.col("label") == 0) & pl.col("rank").is_between(1, 3)).sum().alias("bad in the top 3")
seconds = pl.col("dwell").filter(first_page).sum().alias("seconds on page 1")

print(pr.evaluate(log, [pr.ndcg(10), clicks, bad, seconds]).collect())

# Custom gains and discounts.
patient = pr.ndcg(10, gain={0: 0, 1: 1, 2: 5, 3: 20, 4: 50}, discount=lambda rank: 0.9**rank)
print(pr.evaluate(log, patient.alias("patient ndcg")).collect())
