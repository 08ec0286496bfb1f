"""Measure `compare` of the per-query values of many days, and of means of groups of queries.

    python -m tests.bench.days [--values 10_000_000 30_000_000] [--output FILE]

Each comparison runs in its own process; peak is its resident memory. The tables are parts of days.md.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import polars_rank as pr
from tests.bench.pages import arguments, publish
from tests.parts import filled

DAYS, GROUPS = 30, 10_000


def values_of(day: int, queries: int) -> pl.DataFrame:
    """Return the values of two runs for the queries of a day."""
    random = np.random.default_rng(day)
    release, hit = random.beta(2, 1.5, queries), random.random(queries) < 0.3
    nightly = (release + random.normal(0.002, 0.1, queries)).clip(0, 1)
    others = np.where(random.random(queries) < 0.02, ~hit, hit)
    query = np.arange(day * queries, (day + 1) * queries)
    runs = {"release": (release, hit), "nightly": (nightly, others)}
    return pl.concat(
        pl.DataFrame({"query": query, "ndcg@10": values, "hit_rate@10": hits * 1.0}).select(
            pl.lit(run).alias("run"), pl.lit(day).alias("day"), pl.all()
        )
        for run, (values, hits) in runs.items()
    )


def peak(values: int, *, text: bool) -> str:
    """Return the peak memory of a process that compares values, clustered by day."""
    with tempfile.TemporaryDirectory() as folder:
        for day in range(DAYS):
            rows = values_of(day, values // 2 // DAYS).drop("hit_rate@10")
            if text:
                name = pl.format("2026-11-{} session {}", "day", pl.col("query").hash())
                rows = rows.with_columns(name.alias("query"))
            rows.write_parquet(Path(folder, f"{day:03}.parquet"))
        command = [sys.executable, "-m", "tests.bench.days", "--only", folder]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    options = arguments(__doc__, values=[10_000_000, 30_000_000], queries=1_000_000, only="")
    if options.only:
        values = pl.scan_parquet(Path(options.only, "*.parquet"))
        pr.compare(values, baseline="release", cluster="day").collect(engine="streaming")
        print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f}")
        return
    first, *_ = options.values
    sizes = [(each, "integers") for each in options.values] + [(first, "40 characters")]
    peaks = [(n, kind, peak(n, text=kind != "integers")) for n, kind in sizes]
    memory = "".join(f"| {n:,} | {kind} | {mb} |\n" for n, kind, mb in peaks)
    rows = values_of(0, options.queries)
    group = pl.col("query").hash(0) % GROUPS
    means = pl.mean("ndcg@10", "hit_rate@10")
    groups = rows.group_by("run", group=group).agg(means, n=pl.len())
    every = pr.compare(rows, baseline="release")
    grouped = pr.compare(groups, baseline="release", query="group", weight="n")
    widths = [each["high"] - each["low"] for each in (grouped, every)]
    ratios = zip(every["metric"], widths[0] / widths[1], strict=True)
    widths_table = "".join(f"| {metric} | {ratio:.3f} |\n" for metric, ratio in ratios)
    parts = {
        "run": f"With Polars {pl.__version__} on {os.cpu_count()} cores.",
        "memory": "| values | ids | peak MB |\n| ---: | --- | ---: |\n" + memory,
        "widths": f"Of {options.queries:,} queries in {GROUPS:,} groups:\n\n| metric | ratio of the "
        "widths of the intervals |\n| --- | ---: |\n" + widths_table,
    }
    publish(filled(Path(__file__).with_suffix(".md").read_text("utf-8"), parts), options.output)


if __name__ == "__main__":
    main()
