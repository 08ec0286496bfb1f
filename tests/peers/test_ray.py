"""Ray Data computes per-query values in parallel, with the same results as on one machine."""

import os
import subprocess
import sys
from pathlib import Path

import needs
import polars as pl
import polars_rank as pr

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray_data.py"


def test_ray_data(tmp_path: Path) -> None:
    needs.package("ray", "conformance")
    ended = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        check=False,
        timeout=600,
        env=os.environ,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    log = pr.datasets.search_log(queries=500, runs=["bm25", "neural"])
    lists = pr.per_query(log, ["ndcg@10", "ap", "rr"], by="run").collect()
    means = pr.summarize(lists)
    paired = pr.compare(lists, baseline="bm25")
    with pl.Config(tbl_cols=-1):
        assert str(means.select("run", "metric", "queries", "mean", "low", "high")) in ended.stdout
        assert str(paired.select("metric", "difference", "p_value")) in ended.stdout
