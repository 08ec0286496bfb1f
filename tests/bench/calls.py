"""Measure imports, and the evaluation of a small table.

    python -m tests.bench.calls [--runs 15] [--output FILE]

Times are the lowest of several runs. Imports are measured in new processes, with bytecode. The
time of collecting the plans of a call is measured inside the call.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import polars as pl

import polars_rank as pr
from tests.bench.logs import Log, row_groups
from tests.bench.pages import arguments, publish

IMPORT = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"
ROWS = 500


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def imports(runs: int) -> dict[str, float]:
    """Return the seconds of both imports, measured in turn."""
    times: dict[str, list[float]] = {"polars": [], "polars_rank": []}
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(runs + 1):
            for name, values in times.items():
                command = [sys.executable, "-c", IMPORT.format(name)]
                done = subprocess.run(command, env=environment, capture_output=True, check=True)
                values.append(float(done.stdout))
    return {name: min(values[1:]) for name, values in times.items()}  # the first compiles


def evaluation(runs: int) -> tuple[float, float]:
    """Return the seconds of a call, and of those the seconds of collecting its plans, in front."""
    log = pl.from_arrow(next(row_groups(Log(rows=ROWS, list_length=20))))

    def call() -> Any:
        return pr.evaluate(log, "ndcg@10")

    collect, level, collecting = pl.LazyFrame.collect, 0, 0.0

    def timed(plan: pl.LazyFrame, *arguments: Any, **options: Any) -> Any:
        nonlocal level, collecting
        level += 1  # a plan that is being collected may collect another one
        start = time.perf_counter()
        try:
            return collect(plan, *arguments, **options)
        finally:
            level -= 1
            collecting += time.perf_counter() - start if level == 0 else 0

    of_plans, of_call = [], []
    with patch.object(pl.LazyFrame, "collect", timed):
        call()
        for _ in range(20 * runs):
            collecting = 0.0
            of_call.append(seconds(call))
            of_plans.append(collecting)
    return min(of_plans), min(of_call)


def table(runs: int) -> str:
    """Return the table of imports and calls."""
    polars, ours = imports(runs).values()
    plans, call = evaluation(runs)
    return (
        "| | milliseconds | ratio |\n|---|--:|--:|\n"
        f"| `import polars` | {1e3 * polars:.0f} | 1 |\n"
        f"| `import polars_rank`, which imports Polars | {1e3 * ours:.0f} | {ours / polars:.2f} |\n"
        f"| collecting the plans, a part of the call below | {1e3 * plans:.1f} | 1 |\n"
        f'| `pr.evaluate(df, "ndcg@10")`, {ROWS} rows | {1e3 * call:.1f} | {call / plans:.2f} |\n'
    )


def main() -> None:
    options = arguments(__doc__, runs=15)  # of imports; calls run 20 times as often
    publish(table(options.runs), options.output)


if __name__ == "__main__":
    main()
