"""Measure how often the intervals of ranks of `leaderboard` contain all true ranks.

    python -m tests.benchmarks.leaderboard [--logs 300] [--output FILE]

The tables are in leaderboard.md.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import polars_rank as pr
from tests.benchmarks.pages import publish
from tests.benchmarks.simulated import table

RUNS = (2, 5, 20, 50)
#: True means of runs, in units of the smallest standard deviation.
MEANS: dict[str, Callable[[int], np.ndarray]] = {
    "equal means": np.zeros,
    "one better": lambda runs: np.r_[np.zeros(runs - 1), 0.5],
    "a ladder": lambda runs: np.arange(runs) * 0.1,
}
#: Standard deviations of runs.
SCALES: dict[str, Callable[[int], np.ndarray]] = {
    "equal": np.ones,
    "1 to 5": lambda runs: np.resize([1.0, 3.0, 5.0, 2.0, 4.0], runs),
}
NOISE: dict[str, Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]] = {
    "normal": lambda random, shape: random.normal(size=shape),
    "-1 or 1": lambda random, shape: 2.0 * (random.random(shape) < 0.5) - 1,
}
#: Numbers of queries of tasks, and their standard deviations.
TASKS = {
    "10, 20, 100; equal": ([10, 20, 100], [1, 1, 1]),
    "10, 20, 100; 3, 1, 1": ([10, 20, 100], [3, 1, 1]),
    "5 in 3 tasks": ([5] * 3, [1] * 3),
    "5 in 20 tasks; 1 to 5": ([5] * 20, [1, 2, 3, 4, 5] * 4),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.leaderboard", description=__doc__
    )
    parser.add_argument("--logs", type=int, default=300)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--resamples", type=int, default=399)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


def values_of(matrix: np.ndarray, **columns: np.ndarray) -> pl.DataFrame:
    """Return per-query values of queries x runs, with columns of the queries."""
    queries, runs = matrix.shape
    return pl.DataFrame({
        "query": np.repeat(np.arange(queries), runs),
        "run": np.tile(np.arange(runs), queries),
        **{name: np.repeat(each, runs) for name, each in columns.items()},
        "x": matrix.ravel(),
    })  # fmt: skip


def cell(
    means: np.ndarray, tables: Callable[[int], pl.DataFrame], options: argparse.Namespace,
    **parameters: str,
) -> str:  # fmt: skip
    """Return the share of logs with all true ranks, and the mean number of ranks in an interval.

    Runs with equal means have all ranks from the lowest to the highest that they can have.
    """
    best = 1 + (means[:, None] < means).sum(axis=1)
    last = (means[:, None] <= means).sum(axis=1)
    contained, sizes = [], []
    for number in range(options.logs):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pr.errors.RankWarning)
            board = pr.stats.leaderboard(
                tables(number), "x", n_resamples=options.resamples, seed=number, **parameters
            ).sort("run")
        low, high = (board.get_column(name).to_numpy() for name in ("rank_low", "rank_high"))
        contained.append(bool(((low <= best) & (last <= high)).all()))
        sizes.append(float((high - low).mean()) + 1)
    return f"{np.mean(contained):.3f} ({np.mean(sizes):.1f})"


def of_queries(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    rows = []
    for of_means, means in MEANS.items():
        for of_scales, scales in SCALES.items():
            for of_noise, noise in NOISE.items():
                cells: list[object] = []
                for runs in RUNS:

                    def drawn(_: int, runs: int = runs) -> pl.DataFrame:
                        shape = (options.queries, runs)
                        common = random.normal(size=(options.queries, 1))
                        return values_of(common + means(runs) + noise(random, shape) * scales(runs))

                    cells.append(cell(means(runs), drawn, options))
                rows.append([f"{of_means}; standard deviations {of_scales}; {of_noise}", *cells])
                print(rows[-1], file=sys.stderr)
    return table(["values", *(f"{runs} runs" for runs in RUNS)], rows)


def of_given_tasks(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    rows = []
    for name, (sizes, scales) in TASKS.items():
        cells: list[object] = []
        for runs in (2, 5, 20):
            task = np.repeat(np.arange(len(sizes)), sizes)

            def drawn(_: int, runs: int = runs, task: np.ndarray = task) -> pl.DataFrame:
                effects = random.normal(size=(len(sizes), runs))
                effects -= effects.mean(axis=0)  # so that the means over the tasks are equal
                noise = random.normal(size=(len(task), runs)) * np.array(scales)[task][:, None]
                return values_of(effects[task] + noise, task=task)

            cells.append(cell(np.zeros(runs), drawn, options, by="task"))
        rows.append([name, *cells])
        print(rows[-1], file=sys.stderr)
    return table(["queries; standard deviations", *(f"{n} runs" for n in (2, 5, 20))], rows)


def of_sampled_tasks(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    rows = []
    for tasks in (10, 30):
        cells: list[object] = []
        for runs in (2, 5, 20):

            def drawn(_: int, runs: int = runs, tasks: int = tasks) -> pl.DataFrame:
                return values_of(random.normal(size=(tasks, runs))).rename({"query": "task"})

            cells.append(cell(np.zeros(runs), drawn, options, by="task", population="tasks"))
        rows.append([f"{tasks} tasks", *cells])
        print(rows[-1], file=sys.stderr)
    return table(["", *(f"{n} runs" for n in (2, 5, 20))], rows)


def main() -> None:
    options = arguments()
    random = np.random.default_rng(options.seed)
    started = time.perf_counter()
    error = math.sqrt(0.05 * 0.95 / options.logs)
    lines = [
        "# Intervals of ranks of leaderboard, by simulation",
        "",
        f"Generated by `python -m tests.benchmarks.leaderboard`: {options.logs:,} logs of "
        f"{options.queries} queries, {options.resamples:,} resamples, seed {options.seed}. A cell is "
        "the share of logs in which the 95% intervals contain the true ranks of all runs, and in "
        "parentheses the mean number of ranks in an interval. Runs with equal means have several "
        "true ranks, all of which must be in the interval. By chance, shares near 0.95 move by "
        f"{2 * error:.3f} either way (two standard errors).",
        "",
        *of_queries(random, options),
        "",
        "One run is better by 0.5, and a ladder has steps of 0.1, in units of the smallest standard "
        "deviation. With different means, fewer pairs can be told apart by mistake, so that the "
        "share is higher.",
        "",
        "## Given tasks: equal means over the tasks",
        "",
        *of_given_tasks(random, options),
        "",
        "The runs have different means in each task, and equal means over the tasks. Tasks have the "
        "same weight, so that the queries of a small task count more.",
        "",
        "## Tasks as a sample of tasks: equal means",
        "",
        *of_sampled_tasks(random, options),
    ]  # fmt: skip
    publish("\n".join(lines) + "\n", options.output)
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
