"""Evaluate the files of a log in a process pool, and compare the values of all files.

Any scheduler works in the same way: write the per-query values of each part, then scan all files.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

METRICS = ["ndcg@10", "ap", "rr"]


def write_values(file: str) -> None:
    """Write the per-query values of one file next to it."""
    pr.per_query(pr.scan_log(file), METRICS).sink_parquet(f"{file}.values")


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
            list(pool.map(write_values, files))

        whole = pl.read_parquet(f"{folder}/*.values")
    print(pr.summarize(whole).select("run", "metric", "queries", "mean", "low", "high"))
    print(pr.compare(whole, run="run", baseline="bm25").select("metric", "difference", "p_value"))


if __name__ == "__main__":
    main()
