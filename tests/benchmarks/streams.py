"""Measure how a log reaches an evaluation: from Parquet, by DuckDB, by pyarrow, from memory.

    python -m tests.benchmarks.streams [--rows 10_000_000 100_000_000] [--output FILE]

Each number is of a process of its own; peak is its resident memory, the engine's part within. The
table is in streams.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

import polars_rank as pr
from tests.benchmarks.logs import Log, write

CUTOFFS = (1, 5, 10, 20, 50, 100)
METRICS = [
    *(f"ndcg(gain='exp2')@{k}" for k in CUTOFFS),
    *(f"p@{k}" for k in CUTOFFS),
    *(f"recall@{k}" for k in CUTOFFS),
    "ap",
    "rr",
]


def arguments() -> argparse.Namespace:
    def number(text: str) -> int:
        return int(text.replace("_", ""))

    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.streams")
    parser.add_argument("--rows", type=number, nargs="+", default=[10_000_000, 100_000_000])
    parser.add_argument("--data", default=str(Path(tempfile.gettempdir(), "pr_streams")))
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    parser.add_argument("--only", help="one way, in this process; prints JSON")
    return parser.parse_args()


def relation(path: Path, order: str = "") -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.sql("set enable_progress_bar = false")
    return connection.sql(f"select query, doc, score, label from '{path}' {order}")


def dataset(path: Path) -> Any:
    import pyarrow.dataset

    return pyarrow.dataset.dataset(path)


def ways(path: Path) -> dict[str, Callable[[], Any]]:
    return {
        "`pr.scan_log`": lambda: pr.evaluate(pr.scan_log(path), METRICS).collect(),
        "DuckDB query": lambda: pr.evaluate(relation(path), METRICS),
        "DuckDB query, ORDER BY query": lambda: pr.evaluate(
            relation(path, "order by query"), METRICS
        ),
        "DuckDB query, first made a table of Arrow": lambda: pr.evaluate(
            relation(path).to_arrow_table(), METRICS
        ),
        "pyarrow Dataset": lambda: pr.evaluate(dataset(path), METRICS),
    }


def measured(path: Path, name: str) -> str:
    command = [sys.executable, "-m", "tests.benchmarks.streams", "--only", name]
    ended = subprocess.run(
        [*command, "--data", str(path)], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        return f"| failed: {ended.stderr.strip().splitlines()[-1][:60]} | |"
    seconds, peak = json.loads(ended.stdout.splitlines()[-1])
    return f"| {seconds:.1f} | {peak:,.0f} |"


def main() -> None:
    options = arguments()
    if options.only:
        way = ways(Path(options.data))[options.only]
        started = time.perf_counter()
        way()
        seconds = time.perf_counter() - started
        print(json.dumps([seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
        return
    text = (
        "# From other engines' tables\n\nMade by `python -m tests.benchmarks.streams` with Polars "
        f"{pl.__version__} on {os.cpu_count()} cores: lists of 100 documents, sorted by query, "
        f"{len(METRICS)} metrics.\n"
    )
    for rows in options.rows:
        log = Log(options.data, rows, 100, "sorted", "int", 0.0)
        write(log)
        text += f"\n| {rows:,} rows | seconds | peak MB |\n| --- | ---: | ---: |\n"
        for name in ways(log.path):
            line = f"| {name} {measured(log.path, name)}\n"
            print(line, end="", file=sys.stderr, flush=True)
            text += line
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
