"""Measure the statistics: time and memory from a log, and from values per query, to a table.

    python -m tests.benchmarks.statistics [--queries 1000000] [--output FILE]

Each task runs in its own process. CPU seconds are shown next to wall-clock seconds, because they
depend less on other load. The table is in statistics.md.
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

import polars as pl

import polars_rank as pr
from tests.benchmarks.pages import publish

METRICS = ["ndcg@10", "ap", "rr", "p@5", "recall@10"]
MANY = [f"m{number}" for number in range(10)]
RUNS = 5


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.statistics")
    parser.add_argument("--queries", type=int, default=1_000_000)
    parser.add_argument("--few", type=int, default=20_000, help="queries of the slow ones")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "pr_statistics"))
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    parser.add_argument("--only", help="one task, in this process; prints JSON")
    return parser.parse_args()


def made(options: argparse.Namespace) -> tuple[Path, Path, Path]:
    """Return the files of a log, its values per query, and values of several runs."""
    options.data.mkdir(parents=True, exist_ok=True)
    log, lists, runs = (
        options.data / f"{name}_{options.queries}.parquet" for name in ("log", "lists", "runs")
    )
    if not log.exists():
        pr.datasets.search_log(options.queries, 10, runs=1).drop("run").sink_parquet(log)
    if not lists.exists():
        pr.per_query(pl.scan_parquet(log), METRICS).sink_parquet(lists)
    if not runs.exists():
        values = pl.int_range(options.queries, eager=True).alias("query").to_frame().lazy()
        noise = [((pl.col("query").hash(n) % 1000) / 1000).alias(m) for n, m in enumerate(MANY)]
        pl.concat(
            values.select(pl.lit(f"run{number}").alias("run"), "query", *noise).with_columns(
                pl.col(MANY) + number / 1000 * (pl.col("query").hash(99 + number) % 7)
            )
            for number in range(RUNS)
        ).sink_parquet(runs)
    return log, lists, runs


def tasks(options: argparse.Namespace) -> dict[str, Callable[[], object]]:
    log, lists, runs = made(options)
    few = pl.col("query") < options.few

    def peer_bootstrap() -> object:
        from scipy import stats

        table = pl.read_parquet(lists).filter(few).fill_null(0)
        return [
            stats.bootstrap((table[name].to_numpy(),), lambda x, axis: x.mean(axis=axis),
                            n_resamples=1000, method="percentile", batch=10)
            for name in METRICS
        ]  # fmt: skip

    def peer_compare() -> object:
        import ranx

        rows = pr.datasets.search_log(options.few, 10, runs=2).collect()
        judged = rows.filter(pl.col("label").is_not_null(), run="run1")
        qrels = ranx.Qrels(nested(judged, "label"))
        found = [
            ranx.Run(nested(rows.filter(pl.col("score").is_not_null(), run=run), "score"), name=run)
            for run in rows["run"].unique()
        ]
        return ranx.compare(
            qrels, found, ["ndcg@10", "map", "mrr"], stat_test="student", make_comparable=True
        )

    def ours_as_peer() -> object:
        rows = pr.datasets.search_log(options.few, 10, runs=2)
        lists = pr.per_query(rows, ["ndcg@10", "ap", "rr"], by="run")
        return pr.compare(lists, baseline="run1").collect()

    def scan(path: Path) -> pl.LazyFrame:
        return pl.scan_parquet(path)

    def resampled(interval: str) -> Callable[[], object]:
        return lambda: pr.summarize(scan(lists), interval=interval).collect(engine="streaming")

    n, fewer = f"{options.queries:,} queries", f"{options.few:,} queries"
    return {
        f"evaluate: {n} x 10 documents, 5 metrics": lambda: pr.evaluate(scan(log), METRICS).collect(
            engine="streaming"
        ),
        "summarize (t) of the same log": lambda: pr.summarize(
            pr.per_query(scan(log), METRICS)
        ).collect(engine="streaming"),
        "summarize (bootstrap, 1,000 replicates) of the same log": lambda: pr.summarize(
            pr.per_query(scan(log), METRICS), interval="bootstrap"
        ).collect(engine="streaming"),
        "summarize (bootstrap) of its values per query": resampled("bootstrap"),
        "summarize (studentized) of its values per query": resampled("studentized"),
        f"compare: {RUNS} runs x 10 metrics x {n}": lambda: pr.compare(
            scan(runs), baseline="run0"
        ).collect(engine="streaming"),
        "moments of the same": lambda: pr.stats.moments(
            scan(runs), run="run", baseline="run0"
        ).collect(engine="streaming"),
        f"per_query and compare: 2 runs, {fewer} x 10 documents, 3 metrics": ours_as_peer,
        "ranx.compare of the same, with its dictionaries": peer_compare,
        f"scipy.stats.bootstrap, 1,000 replicates: {fewer}, 5 metrics": peer_bootstrap,
    }


def nested(rows: pl.DataFrame, value: str) -> dict[str, dict[str, float]]:
    kind = int if value == "label" else float
    found: dict[str, dict[str, float]] = {}
    for query, doc, each in rows.select("query", "doc", value).iter_rows():
        found.setdefault(str(query), {})[str(doc)] = kind(each)
    return found


def main() -> None:
    options = arguments()
    if options.only:
        task = tasks(options)[options.only]
        started = time.perf_counter()
        task()
        seconds = time.perf_counter() - started
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps([seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
        return
    lines = ["| | seconds | CPU seconds | peak MB |", "| --- | ---: | ---: | ---: |"]
    for name in tasks(options):
        command = [sys.executable, "-m", "tests.benchmarks.statistics", "--only", name]
        command += ["--queries", str(options.queries), "--few", str(options.few)]
        ended = subprocess.run(
            [*command, "--data", str(options.data)], capture_output=True, text=True, check=False
        )
        if ended.returncode:
            lines.append(f"| {name} | failed: {ended.stderr.strip().splitlines()[-1][:80]} | | |")
        else:
            seconds, cpu, peak = json.loads(ended.stdout.splitlines()[-1])
            lines.append(f"| {name} | {seconds:.1f} | {cpu:.1f} | {peak:,.0f} |")
        print(lines[-1], file=sys.stderr)
    head = (
        "# Cost of the statistics\n\nGenerated by `python -m tests.benchmarks.statistics` with Polars "
        f"{pl.__version__} on {os.cpu_count()} cores. CPU seconds are of the whole process and "
        f"include imports.\n\n"
    )
    text = head + "\n".join(lines) + "\n"
    publish(text, options.output)


if __name__ == "__main__":
    main()
