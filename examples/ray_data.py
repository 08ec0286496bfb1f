"""Evaluate a log with Ray Data: repartition by query, then evaluate each block.

All rows of a query must be in the same block.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import polars as pl
import pyarrow as pa
import ray
from ray.data import DataContext
from ray.data.context import ShuffleStrategy

import polars_rank as pr
from polars_rank.datasets import search_log

METRICS = ["ndcg@10", "ap", "rr"]


def block_values(block: pa.Table) -> pa.Table:
    """Return the per-query values of a block."""
    return pr.per_query(block, METRICS).to_arrow(compat_level=pl.CompatLevel.oldest())


def main() -> None:
    """Write a shuffled log and evaluate it in two processes."""
    path = ":".join(entry or str(Path.cwd()) for entry in sys.path)
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        runtime_env={"env_vars": {"PYTHONPATH": path}},
    )
    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.shuffle_strategy = ShuffleStrategy.HASH_SHUFFLE
    with TemporaryDirectory() as folder:
        log = search_log(queries=500, runs=["bm25", "neural"])
        mixed = log.sort(pl.struct("query", "doc").hash(seed=1)).collect()
        for index, part in enumerate(mixed.iter_slices(-(-mixed.height // 4))):
            part.write_parquet(Path(folder, f"{index}.parquet"))

        # All rows of a query, of all runs, are in one block.
        blocks = ray.data.read_parquet(folder).repartition(4, keys=["query"])
        values = blocks.map_batches(block_values, batch_format="pyarrow", batch_size=None)
        parts = [pl.from_arrow(ray.get(block)) for block in values.to_arrow_refs()]
        whole = pl.concat([part for part in parts if not part.is_empty()])
    ray.shutdown()

    print(pr.summarize(whole).select("run", "metric", "queries", "mean", "low", "high"))
    print(pr.compare(whole, run="run", baseline="bm25").select("metric", "difference", "p_value"))


if __name__ == "__main__":
    main()
