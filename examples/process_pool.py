"""Files of a log in a pool of processes: each gives moments, which the first one merges.

Any scheduler will do in place of the pool: `moments` of a part and `merge` are all that it needs.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

METRICS = ["ndcg@10", "ap", "rr"]


def evaluated(file: str) -> pl.DataFrame:
    """Return the moments of one file, each run's beside those of the baseline."""
    lists = pr.per_query(pr.scan_log(file, by="run"), METRICS, by="run")
    return pr.stats.moments(lists, run="run", baseline="bm25").collect(engine="streaming")


def main() -> None:
    """Write a log in files of whole queries, and evaluate it."""
    with TemporaryDirectory() as folder:
        # A query is in one file, with all of its runs; otherwise the two are no pair, and a list
        # that were cut in two would be an error.
        log = search_log(queries=400, runs=["bm25", "neural"])
        for part in range(4):
            share = log.filter(pl.col("query") % 4 == part)
            share.sink_parquet(Path(folder, f"{part}.parquet"))
        files = sorted(map(str, Path(folder).glob("*.parquet")))

        # "spawn", because a process that is forked from one that runs Polars may hang.
        with ProcessPoolExecutor(max_workers=2, mp_context=get_context("spawn")) as pool:
            parts = list(pool.map(evaluated, files))

    whole = pr.stats.merge(parts)
    print(pr.summarize(whole, by="run").select("run", "metric", "queries", "mean", "low", "high"))
    print(pr.compare(whole, run="run", baseline="bm25").select("metric", "difference", "p_value"))


if __name__ == "__main__":
    main()
