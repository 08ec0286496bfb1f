"""Measure the statistics: time and memory, and their ratios to plain Polars and to a peer.

    python -m tests.benchmarks.statistics [--queries 1000000] [--output FILE]

Each task runs in its own process, except for the small comparison, which takes turns with its peer
in one. CPU seconds are shown next to wall-clock seconds, because they depend less on other load.
The tables are in statistics.md.
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
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl

import polars_rank as pr
from tests.benchmarks.pages import publish

METRICS = ["ndcg@10", "ap", "rr", "p@5", "recall@10"]
RUNS = 3
#: Calls of the small comparison and of its peer.
CALLS = 100


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.statistics")
    parser.add_argument("--queries", type=int, default=1_000_000, help="of the log")
    parser.add_argument("--compared", type=int, default=3_000_000, help="queries of each run")
    parser.add_argument("--few", type=int, default=20_000, help="queries of the peer")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "pr_statistics"))
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    parser.add_argument("--only", help="one task, in this process; prints JSON")
    return parser.parse_args()


def runs_of(queries: int, runs: int, metrics: list[str]) -> pl.LazyFrame:
    """Return per-query values of several runs."""
    values = pl.int_range(queries, eager=True).alias("query").to_frame().lazy()
    noise = [
        ((pl.col("query").hash(place) % 1000) / 1000).alias(m) for place, m in enumerate(metrics)
    ]
    return pl.concat(
        values.select(pl.lit(f"run{number}").alias("run"), "query", *noise).with_columns(
            pl.col(metrics) + number / 1000 * (pl.col("query").hash(99 + number) % 7)
        )
        for number in range(runs)
    )


def made(options: argparse.Namespace) -> tuple[Path, Path]:
    """Return the files of a log, and of values per query of several runs."""
    options.data.mkdir(parents=True, exist_ok=True)
    log = options.data / f"log_{options.queries}.parquet"
    runs = options.data / f"runs_{options.compared}.parquet"
    if not log.exists():
        pr.datasets.search_log(options.queries, 10, runs=1).drop("run").sink_parquet(log)
    if not runs.exists():
        runs_of(options.compared, RUNS, METRICS).sink_parquet(runs)
    return log, runs


def by_hand(values: pl.LazyFrame, metrics: list[str], *, check: bool) -> pl.LazyFrame:
    """Return means and standard deviations of differences, and wins: a join in plain Polars.

    With `check`, an error of the plan says that a query is repeated in a run.
    """
    base = pl.col("run") == "run0"
    both = values.filter(~base).join(
        values.filter(base).drop("run"), on="query", suffix=" of base",
        validate="m:1" if check else "m:m",
    )  # fmt: skip
    differences = {m: pl.col(m) - pl.col(f"{m} of base") for m in metrics}
    result = both.group_by("run").agg(
        each
        for m, d in differences.items()
        for each in (
            d.mean().alias(f"mean {m}"), d.std().alias(f"std {m}"),
            (d > 0).sum().alias(f"wins {m}"),
        )
    )  # fmt: skip
    if not check:
        return result
    most = values.group_by("run", "query").len().select(pl.col("len").max().alias("most"))
    return result.join(most, how="cross").filter(pl.col("most") == 1)


def tasks(options: argparse.Namespace) -> dict[str, Callable[[], object]]:
    log, runs = made(options)

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

    def collected(made: Callable[[pl.LazyFrame], pl.LazyFrame], path: Path) -> Callable[[], object]:
        return lambda: made(pl.scan_parquet(path)).collect(engine="streaming")

    n, fewer = f"{options.queries:,} queries", f"{options.few:,} queries"
    compared = f"{options.compared:,} queries x {RUNS} runs x {len(METRICS)} metrics"
    return {
        f"evaluate: {n} x 10 documents, 5 metrics": collected(
            lambda rows: pr.evaluate(rows, METRICS), log
        ),
        "summarize of the same log": collected(
            lambda rows: pr.summarize(pr.per_query(rows, METRICS)), log
        ),
        f"compare: {compared}": collected(lambda rows: pr.compare(rows, baseline="run0"), runs),
        "by hand: join, check of unique queries, mean, std, wins": collected(
            lambda rows: by_hand(rows, METRICS, check=True), runs
        ),
        "by hand, without the check": collected(
            lambda rows: by_hand(rows, METRICS, check=False), runs
        ),
        f"per_query and compare: 2 runs, {fewer} x 10 documents, 3 metrics": ours_as_peer,
        "ranx.compare of the same, with its dictionaries": peer_compare,
    }


def nested(rows: pl.DataFrame, value: str) -> dict[str, dict[str, float]]:
    kind = int if value == "label" else float
    found: dict[str, dict[str, float]] = {}
    for query, doc, each in rows.select("query", "doc", value).iter_rows():
        found.setdefault(str(query), {})[str(doc)] = kind(each)
    return found


def small() -> list[str]:
    """Return the CPU times of comparisons of few queries, which take turns with their peer."""
    lines = ["| | `compare`, ms | by hand, ms | ratio |", "| --- | ---: | ---: | ---: |"]
    for metrics in (METRICS[:1], METRICS):
        values = runs_of(100, 2, metrics).collect()
        calls: list[Callable[[], object]] = [
            lambda values=values: pr.compare(values, baseline="run0"),
            lambda values=values, metrics=metrics: by_hand(
                values.lazy(), metrics, check=False
            ).collect(),
        ]
        for call in calls:
            call()
        times = np.zeros((CALLS, 2))
        for turn in range(CALLS):
            for place, call in enumerate(calls):
                started = time.process_time()
                call()
                times[turn, place] = time.process_time() - started
        ours, peer = 1000 * np.median(times, axis=0)
        name = f"2 runs x 100 queries, {len(metrics)} metric" + "s" * (len(metrics) > 1)
        lines.append(f"| {name} | {ours:.1f} | {peer:.1f} | {ours / peer:.1f} |")
    return lines


def main() -> None:
    options = arguments()
    if options.only:
        task = tasks(options)[options.only]
        pr.compare(runs_of(2, 2, METRICS), baseline="run0").collect()  # imports NumPy and scipy
        before = resource.getrusage(resource.RUSAGE_SELF)
        started = time.perf_counter()
        task()
        seconds = time.perf_counter() - started
        used = resource.getrusage(resource.RUSAGE_SELF)
        cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
        print(json.dumps([seconds, cpu, used.ru_maxrss / 1024]))
        return
    lines = ["| | seconds | CPU seconds | peak MB |", "| --- | ---: | ---: | ---: |"]
    measured: dict[str, tuple[float, float]] = {}
    for name in tasks(options):
        command = [sys.executable, "-m", "tests.benchmarks.statistics", "--only", name]
        for option in ("queries", "compared", "few", "data"):
            command += [f"--{option}", str(getattr(options, option))]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            lines.append(f"| {name} | failed: {ended.stderr.strip().splitlines()[-1][:80]} | | |")
        else:
            seconds, cpu, peak = json.loads(ended.stdout.splitlines()[-1])
            measured[name] = cpu, peak
            lines.append(f"| {name} | {seconds:.1f} | {cpu:.1f} | {peak:,.0f} |")
        print(lines[-1], file=sys.stderr)
    ours = next(each for name, each in measured.items() if name.startswith("compare: "))
    ratios = [
        f"`compare` takes {ours[0] / cpu:.1f} times the CPU time and {ours[1] / peak:.1f} times the "
        f"memory of {name}."
        for name, (cpu, peak) in measured.items()
        if name.startswith("by hand")
    ]
    head = [
        "# Cost of the statistics",
        "",
        f"Generated on {date.today()} by `python -m tests.benchmarks.statistics` with Polars "
        f"{pl.__version__} on {os.cpu_count()} cores.",
        "",
        "## Many queries",
        "",
        "Each task has its own process. The peak of memory includes imports; the times do not.",
        "",
    ]
    tail = [
        "",
        *ratios,
        "",
        "## Few queries",
        "",
        f"Medians of the CPU time of {CALLS} calls, in turn with a join, the mean and standard "
        "deviation of differences, and wins in plain Polars, without a check of unique queries.",
        "",
        *small(),
    ]
    publish("\n".join([*head, *lines, *tail]) + "\n", options.output)


if __name__ == "__main__":
    main()
