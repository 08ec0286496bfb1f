"""Measure time and memory of polars_rank and its peers, from a Parquet log to means."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from . import report
from .contenders import CONTENDERS, METRICS, own_names
from .logs import Log
from .report import Run


def arguments() -> argparse.Namespace:
    others = {"memory", *(path.stem for path in Path(__file__).parent.glob("*.md"))}
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        epilog=f"Other programs: python -m tests.benchmarks.NAME, of {', '.join(sorted(others))}.",
    )
    add = parser.add_argument
    add("--rows", type=int, nargs="+", default=[10_000_000], help="one or more sizes")
    add("--layout", choices=["sorted", "adjacent", "shuffled"], default="sorted")
    add("--ids", choices=["int", "string"], default="int")
    add("--list-length", type=int, default=100, help="documents per query")
    add("--ties", type=float, default=0.1, help="share of scores rounded to one decimal")
    add("--memory", help="memory limit of polars_rank (shuffled logs) and duckdb, such as 1GB")
    add("--contenders", default=",".join(CONTENDERS), help="default: %(default)s")
    add("--metrics", default="all", help=f"all, or any of {','.join(METRICS)}")
    add("--runs", type=int, default=3, help="number of runs of each contender")
    add("--limit-rows", type=int, default=1_000_000, help="largest size for slow contenders")
    add("--data", default=str(Path(tempfile.gettempdir(), "polars_rank_benchmarks")))
    add("--output", help="folder of the results; default: same as --data")
    add("--plan", action="store_true", help="print polars_rank's physical plan and stop")
    options = parser.parse_args()
    options.contenders = options.contenders.split(",")
    options.metrics = METRICS if options.metrics == "all" else options.metrics.split(",")
    for selected, available in (options.contenders, CONTENDERS), (options.metrics, METRICS):
        if unknown := set(selected) - set(available):
            parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(available)}")
    if importlib.util.find_spec("numpy") is None:
        parser.error("numpy is not installed: pip install 'polars_rank[bench]'")
    return options


def main() -> None:
    options = arguments()
    length = options.list_length
    whole_lists = [max(1, rows // length) * length for rows in [*options.rows, options.limit_rows]]
    sizes, limit = set(whole_lists[:-1]), whole_lists[-1]
    slow = {name for name in options.contenders if CONTENDERS[name].slow}
    if slow and max(sizes) > limit:
        sizes.add(limit)  # for the ratio of slow contenders
    log = Log(
        options.data, max(sizes), length, options.layout, options.ids, options.ties, options.memory
    )
    if options.plan:
        return print_plan(generate(log), options.metrics)
    warm_log = log._replace(rows=min(length, 100) * 10, list_length=min(length, 100))
    if any(CONTENDERS[name].compiles for name in options.contenders):
        generate(warm_log)
    runs: list[Run] = []
    for rows in sorted(sizes):
        log = generate(log._replace(rows=rows))
        for turn in range(options.runs):
            for name in options.contenders:
                failed = any(run.problem for run in runs if run.contender == name)
                if failed or (name in slow and rows > limit):
                    continue
                runs.append(run := measure(name, log, warm_log, options.metrics))
                result = run.problem or f"{run.seconds:.3f} s, {run.peak:,.0f} MB"
                print(f"{rows:,} rows, run {turn + 1}, {name}: {result}", file=sys.stderr)
    print(report.write(runs, log, options.metrics, Path(options.output or options.data)))


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"tests.benchmarks.{module}", *arguments]


def generate(log: Log) -> Log:
    # In its own process, because a child's peak memory includes that of its parent at the fork.
    subprocess.run(python("logs", json.dumps(log._asdict())), check=True)
    return log


def measure(name: str, log: Log, warm_log: Log, metrics: list[str]) -> Run:
    """Run a contender once in its own process, measured by the system."""
    logs = [json.dumps(each._asdict()) for each in (log, warm_log)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        child = subprocess.Popen(
            python("contenders", name, *logs, *metrics), stdout=output, stderr=errors
        )
        _, status, usage = os.wait4(child.pid, 0)
        wall = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        last = ([""] + (errors if child.returncode else output).read().splitlines())[-1]
    result: dict[str, Any] = {"problem": f"failed with code {child.returncode}: {last}"}
    if child.returncode == 0:
        result = json.loads(last)
    peak = usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024) / 1e6
    return Run(name, log.rows, wall, usage.ru_utime + usage.ru_stime, peak, **result)


def print_plan(log: Log, metrics: list[str]) -> None:
    import polars_rank as pr

    plan = pr.evaluate(pr.scan_log(log.path), own_names(metrics))
    print(plan.show_graph(engine="streaming", plan_stage="physical", raw_output=True, show=False))


if __name__ == "__main__":
    main()
