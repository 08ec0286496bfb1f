"""Evaluate the files of a log in a process pool, and merge their moments.

Any scheduler works in the same way: compute `moments` for each part, then `merge` them.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

METRICS = ["ndcg@10", "ap", "rr"]


def file_moments(file: str) -> pl.DataFrame:
    """Return the moments of one file, paired with the baseline."""
    values = pr.per_query(pr.scan_log(file), METRICS, by="run")
    return pr.moments(values, baseline="bm25").collect(engine="streaming")


def main() -> None:
    """Write a log to files of complete queries and evaluate it."""
    with TemporaryDirectory() as folder:
        # All rows of a query, of all runs, are in the same file. Otherwise, the runs could not be
        # paired.
        log = search_log(queries=400, runs=["bm25", "neural"])
        for part in range(4):
            share = log.filter(pl.col("query") % 4 == part)
            share.sink_parquet(Path(folder, f"{part}.parquet"))
        files = sorted(map(str, Path(folder).glob("*.parquet")))

        # Use "spawn", because processes forked from one that runs Polars can hang.
        with ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn")) as pool:
            parts = list(pool.map(file_moments, files))

    whole = pr.merge(parts)
    print(pr.summarize(whole).select("run", "metric", "queries", "mean", "low", "high"))
    print(pr.compare(whole, run="run", baseline="bm25").select("metric", "difference", "p_value"))


if __name__ == "__main__":
    main()
