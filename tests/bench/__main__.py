"""Measure polars_rank and its peers, and write the results to README.md and the guide.

Without options of a single log: all cases, the memory of every function, and small calls.
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from . import report
from .contenders import CONTENDERS, METRICS
from .logs import Log
from .pages import number
from .report import Case, Run

OWN = ["polars_rank", "scan_parquet", "dataframe"]
SQL = [*OWN, "clickhouse", "duckdb", "datafusion", "polars"]
PYTHON = ["polars_rank", "pandas", "pytrec_eval", "ir_measures", "ranx", "sklearn"]
#: The logs, and the contenders that read them.
CASES = {
    "Engines that read Parquet": [
        (Log(list_length=5), SQL),
        (Log(list_length=10), [*SQL, "numba"]),
        (Log(list_length=20), SQL),
        (Log(list_length=50), SQL),
        (Log(list_length=100), [*SQL, "numba"]),
        (Log(list_length=1000), SQL),
        (Log(list_length=10, layout="shuffled"), SQL),
        (Log(list_length=100, layout="shuffled"), SQL),
        (Log(list_length=10, ids="string"), SQL),
        (Log(list_length=10, rows=100_000), SQL),
        (Log(list_length=100, rows=100_000), SQL),
    ],
    "Python tools that convert the log": [
        (Log(list_length=10, rows=1_000_000), PYTHON),
        (Log(list_length=100, rows=1_000_000), PYTHON),
    ],
}
#: Rows of the logs of the table of memory.
MEMORY_ROWS = [3_000_000, 10_000_000]


#: The parts of the pages.
PARTS = ["speed", "calls", "memory"]


def arguments() -> argparse.Namespace:
    others = {"memory", "calls", *(path.stem for path in Path(__file__).parent.glob("*.md"))}
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=__doc__,
        epilog=f"Other programs: python -m tests.bench.NAME, of {', '.join(sorted(others))}.",
    )
    one = partial(
        parser.add_argument_group(
            "options of a single log", "measure only this log, and print the table"
        ).add_argument,
        default=argparse.SUPPRESS,
    )
    one("--rows", type=number, nargs="+", help="one or more sizes")
    one("--layout", choices=["sorted", "adjacent", "shuffled"])
    one("--ids", choices=["int", "string"])
    one("--list-length", type=int, help="documents per query")
    one("--ties", type=float, help="share of scores rounded to one decimal")
    one("--memory", help="limit of polars_rank (shuffled logs) and duckdb: 1GB")
    one("--contenders", type=known(CONTENDERS), help=f"any of {','.join(CONTENDERS)}")
    one("--metrics", type=known(METRICS), help=f"any of {','.join(METRICS)}")
    add, enough = parser.add_argument, "seconds of a contender after which it is not run again"
    add("--runs", type=int, default=3, help="highest number of runs of each contender")
    add("--enough", type=float, default=6, help=enough)
    add("--scale", type=float, default=1, help="multiply the rows of all logs")
    add("--data", type=Path, default=Path(Log().folder), help="folder of logs and results")
    add("--project", type=Path, default=Path(__file__).parents[2], help="folder of README.md")
    parts = "parts to measure; others are taken from the last results in --data; none: only write"
    add("--parts", nargs="*", choices=PARTS, default=PARTS, help=parts)
    options = parser.parse_args()
    if importlib.util.find_spec("numpy") is None:
        parser.error("numpy is not installed: pip install --group bench")
    return options


def known(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return a function that reads names between commas."""

    def read(text: str) -> list[str]:
        if unknown := {*text.split(",")} - {*names}:
            raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
        return text.split(",")

    return read


def main() -> None:
    options = arguments()
    shared = {"runs", "enough", "scale", "data", "project", "parts"}
    if form := {name: value for name, value in vars(options).items() if name not in shared}:
        return one_log(options, **form)
    saved = options.data / "pages.json"
    if options.parts:
        if os.getloadavg()[0] > 0.5:
            print("Other processes are running: times are not reliable.", file=sys.stderr)
        saved.parent.mkdir(parents=True, exist_ok=True)
        for results in whole(options):  # what is measured is kept if a later part fails
            saved.write_text(json.dumps(results, indent=1), "utf-8")
    report.write(json.loads(saved.read_text("utf-8")), options.project)


def one_log(
    options: argparse.Namespace,
    *,
    rows: list[int] = [Log().rows],
    contenders: list[str] = SQL,
    metrics: list[str] = METRICS,
    **form: Any,
) -> None:
    """Measure the contenders on a log of one form, and print the table."""
    logs = [scaled(Log(rows=size, **form), options) for size in sorted(rows)]
    cases = [Case(log, measured(log, contenders, metrics, options)) for log in logs]
    runs = [run._asdict() for case in cases for run in case.runs]
    (options.data / "benchmark.json").write_text(json.dumps(runs, indent=1), "utf-8")
    print(report.one_log(cases))


def whole(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measure everything that the pages show, and yield what is there after each part."""
    saved = options.data / "pages.json"
    results: dict[str, Any] = json.loads(saved.read_text("utf-8")) if options.parts != PARTS else {}
    results |= {
        "date": f"{datetime.date.today():%B %-d, %Y}",
        "machine": report.machine(),
        "polars": importlib.metadata.version("polars"),
        "metrics": METRICS,
    }
    if "speed" in options.parts:
        results["cases"] = []
        for group, cases in CASES.items():
            for log, contenders in cases:
                log = scaled(log, options)
                runs = [run._asdict() for run in measured(log, contenders, METRICS, options)]
                results["cases"].append((log._asdict(), runs, group))
                yield results
    if "calls" in options.parts:
        results["calls"] = output("calls", "--runs", str(5 * options.runs))
        yield results
    if "memory" not in options.parts:
        return
    # Imported after the other measurements, whose processes start with the memory of this one.
    from .memory import table

    rows = [int(rows * options.scale) for rows in MEMORY_ROWS]
    results["memory"] = table(options.data / "memory", rows)
    yield results


def scaled(log: Log, options: argparse.Namespace) -> Log:
    """Return a log of whole rankings."""
    rankings = max(1, int(log.rows * options.scale) // log.list_length)
    return log._replace(folder=str(options.data), rows=rankings * log.list_length)


def measured(
    log: Log, contenders: list[str], metrics: list[str], options: argparse.Namespace
) -> list[Run]:
    """Return the runs of contenders, which run in turn."""
    generate(log)
    length = min(log.list_length, 100)
    warm_log = log._replace(rows=length * 10, list_length=length)
    if any(CONTENDERS[name].compiles for name in contenders):
        generate(warm_log)
    runs: list[Run] = []
    for turn in range(options.runs):
        for name in contenders:
            before = [run for run in runs if run.contender == name]
            if any(run.problem for run in before):
                continue
            if sum(run.wall for run in before) > options.enough:
                continue
            runs.append(run := measure(name, log, warm_log, metrics))
            result = run.problem or f"{run.seconds:.3f} s, {run.peak:,.0f} MB"
            print(f"{log.title}, run {turn + 1}, {name}: {result}", file=sys.stderr)
    return runs


def python(module: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", f"tests.bench.{module}", *arguments]


def output(module: str, *arguments: str) -> str:
    """Return what a program prints, which runs in its own process."""
    command = python(module, *arguments)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def generate(log: Log) -> Log:
    # In its own process, because a child's peak memory includes that of its parent at the fork.
    subprocess.run(python("logs", json.dumps(log._asdict())), check=True)
    return log


def measure(name: str, log: Log, warm_log: Log, metrics: list[str]) -> Run:
    """Run a contender once in its own process, measured by the system."""
    logs = [json.dumps(each._asdict()) for each in (log, warm_log)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        command = python("contenders", name, *logs, *metrics)
        # With bytecode, as installed packages have it.
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=output, stderr=errors, env=environment)
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


if __name__ == "__main__":
    main()
