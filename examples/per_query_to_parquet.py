"""Write per-query values to Parquet in flat memory."""

from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl

import polars_rank as pr
from polars_rank.datasets import search_log

with TemporaryDirectory() as folder:
    path, output = Path(folder, "log.parquet"), Path(folder, "per_query.parquet")
    search_log(queries=20_000, docs_per_query=10).sink_parquet(path)

    log = pr.scan_log(path)
    # Undefined values count as 0, as in `evaluate`.
    values = pr.per_query(log, ["ndcg@10", "ap", "rr"], progress=True)
    values.sink_parquet(output)

    worst = pl.scan_parquet(output).sort("ndcg@10", nulls_last=True).head(5)
    print(worst.collect())
