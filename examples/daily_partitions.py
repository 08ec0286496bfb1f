"""Thirty days of logs, each looked at once: a monthly table and yesterday against last week."""

from datetime import date, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

DAYS = [date(2024, 6, 1) + timedelta(days=number) for number in range(30)]

with TemporaryDirectory() as folder:
    # What a job does each night: the day's moments, a few rows, in a file of their own.
    for number, day in enumerate(DAYS):
        # On the last day, the engine answers with its old model.
        run = "bm25" if day == DAYS[-1] else "neural"
        log = search_log(queries=200, runs=["bm25", "neural"], seed=number).filter(
            pl.col("run") == run
        )
        lists = pr.per_query(log, ["ndcg@10", "rr"], by="country").with_columns(day=pl.lit(day))
        pr.write_moments(pr.moments(lists, by=["day", "country"]), Path(folder, f"{day}.parquet"))

    month = pr.scan_moments(Path(folder, "*.parquet")).collect()

# All of June, as if its 6,000 lists had been read at once.
print(pr.summarize(month).select("metric", "queries", "mean", "std_error", "low", "high"))
print(pr.summarize(month, "ndcg@10", by="country"))

# A number that is looked at every day: an interval that is right on all days at once.
so_far = [
    pr.summarize(month.filter(pl.col("day") <= day), "rr", interval="sequence")
    for day in DAYS[6::7]
]
print(pl.concat(so_far).select("queries", "mean", "low", "high"))

# Yesterday against the week before: other queries, so two intervals and no pairs.
yesterday = pl.col("day") == DAYS[-1]
last_week = pl.col("day").is_in(DAYS[-8:-1])
for name, days in {"last week": last_week, "yesterday": yesterday}.items():
    row = pr.summarize(month.filter(days), "ndcg@10").row(0, named=True)
    print(f"{name}: {row['mean']:.3f}, from {row['low']:.3f} to {row['high']:.3f}")
