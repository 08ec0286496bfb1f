"""Evaluate a Parquet log lazily; it need not fit into memory."""

from pathlib import Path
from tempfile import TemporaryDirectory

import polars_rank as pr
from polars_rank.datasets import search_log

with TemporaryDirectory() as folder:
    path = Path(folder, "log.parquet")
    search_log(queries=5_000, docs_per_query=20).sink_parquet(path)

    log = pr.scan_log(path)  # detects the order of rows; reads nothing else yet
    metrics = ["ndcg@10", "ndcg(gain='exp2')@10", "ap", "rr", "p@5", "recall@20"]
    means = pr.evaluate(log, metrics, by=["run", "country"])
    print(means.collect(engine="streaming"))
