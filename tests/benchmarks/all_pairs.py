"""Measure how often `compare_all` finds a difference between runs that have none.

    python -m tests.benchmarks.all_pairs [--logs 1000] [--output FILE]

Each simulated log is one group of a table, so that all of them are one call. The tables are in
all_pairs.md.
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

RUNS = (2, 5, 10)
QUERIES = (5, 10, 30, 100, 1000)
Values = Callable[[np.random.Generator, tuple[int, int, int]], np.ndarray]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.all_pairs", description=__doc__
    )
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--resamples", type=int, default=399)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


def scales(shape: tuple[int, int, int], most: float) -> np.ndarray:
    """Return the factors of the runs, from 1 to `most`."""
    return np.linspace(1, most, shape[-1])


def hits(random: np.random.Generator, shape: tuple[int, int, int]) -> np.ndarray:
    """Return 0 or 1, with a rate of each query that all runs share."""
    rates = random.beta(0.5, 0.5, (*shape[:-1], 1))
    return (random.random(shape) < rates).astype(float)


#: Values of logs x queries x runs, whose means are the same for all runs.
CASES: dict[str, Values] = {
    "normal": lambda random, shape: random.normal(size=shape),
    "normal, standard deviations 1 to 10": lambda random, shape: (
        random.normal(size=shape) * scales(shape, 10)
    ),
    "0/1, rate 10%": lambda random, shape: (random.random(shape) < 0.1).astype(float),
    "0/1, rates of queries": hits,
    "90% zeros": lambda random, shape: random.beta(0.7, 0.7, shape) * (random.random(shape) < 0.1),
    "t, 3 degrees of freedom": lambda random, shape: random.standard_t(3, shape),
    "exponential, scales 1 to 5": lambda random, shape: (
        (random.exponential(size=shape) - 1) * scales(shape, 5)
    ),
    "lognormal, scales 1 to 5": lambda random, shape: (
        (random.lognormal(size=shape) - math.exp(0.5)) * scales(shape, 5)
    ),
}


def log(values: np.ndarray) -> pl.DataFrame:
    """Return per-query values of logs x queries x runs, with weights and clusters."""
    logs, queries, runs = values.shape
    number = np.arange(logs * queries)  # other logs have other queries, else they share signs
    return pl.DataFrame({
        "log": np.repeat(number // queries, runs),
        "query": np.repeat(number, runs),
        "run": np.tile(np.arange(runs), logs * queries),
        "x": values.ravel(),
    })  # fmt: skip


def found(lists: pl.DataFrame, options: argparse.Namespace, **parameters: str) -> float:
    """Return the share of logs in which any pair of runs has a p-value of at most 0.05."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        pairs = pr.stats.compare_all(
            lists, "x", by="log", n_resamples=options.resamples, **parameters
        )
    return share_of_logs(pairs)


def share_of_logs(pairs: pl.DataFrame) -> float:
    """Return the share of logs in which any pair of runs has a p-value of at most 0.05."""
    any_pair = (pl.col("p_value") <= 0.05).any()
    return float(pairs.group_by("log").agg(any_pair).get_column("p_value").mean() or 0)


def of_queries(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    rows = []
    for name, values in CASES.items():
        for runs in RUNS:
            cells: list[object] = []
            for queries in QUERIES:
                logs = options.logs if queries < 1000 else options.logs // 4
                cells.append(found(log(values(random, (logs, queries, runs))), options))
            rows.append([f"{name}; {runs} runs", *cells])
            print(rows[-1], file=sys.stderr)
    return table(["values", *(f"{queries:,} queries" for queries in QUERIES)], rows)


def of_moments(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    """Return error rates from moments, whose draws all logs share."""
    rows = []
    for name in ("normal", "normal, standard deviations 1 to 10", "0/1, rate 10%", "90% zeros"):
        cells: list[object] = []
        for queries in (10, 30, 100):
            for runs in (5, 10):
                values = CASES[name](random, (options.logs, queries, runs))
                moments = pr.stats.moments(log(values), "x", by="log", all_pairs=True)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", pr.errors.RankWarning)
                    pairs = pr.stats.compare_all(moments, by="log", n_resamples=2_000)
                cells.append(share_of_logs(pairs))
        rows.append([name, *cells])
        print(rows[-1], file=sys.stderr)
    head = [f"{queries} queries, {runs} runs" for queries in (10, 30, 100) for runs in (5, 10)]
    return table(["values", *head], rows)


def unequal_units(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    """Return error rates with weights, and with clusters whose queries share an effect."""
    # All logs share the draws from the normal distribution, so few of them would bias all rates.
    options = argparse.Namespace(**{**vars(options), "resamples": 2_000})
    rows = []
    for name, sizes in {
        "equal": lambda units: np.full(units, 4),
        "geometric": lambda units: random.geometric(0.25, units),
        "Pareto": lambda units: np.minimum(np.ceil(random.pareto(1.2, units)), 50).astype(int),
    }.items():
        for units in (30, 100):
            cells: list[object] = []
            for runs in (2, 5):
                shape = (options.logs, units, runs)
                lists = log(random.normal(size=shape) * scales(shape, 5))
                size = pl.Series(np.repeat(sizes(options.logs * units), runs))
                cells.append(found(lists.with_columns(w=size), options, weight="w"))
                repeated = lists.select(pl.all().gather(np.repeat(np.arange(len(size)), size)))
                noise = pl.Series(random.normal(size=repeated.height))
                clustered = repeated.with_columns(
                    pl.col("x") + noise,
                    user="query",
                    query=pl.int_range(pl.len()).over("query", "run"),
                )
                cells.append(found(clustered, options, query=["user", "query"], cluster="user"))
            rows.append([f"{name}, {units} units", *cells])
            print(rows[-1], file=sys.stderr)
    head = [f"{kind}, {runs} runs" for runs in (2, 5) for kind in ("weights", "clusters")]
    return table(["sizes", *head], rows)


def tukey(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    """Return error rates of Tukey's test, whose p-values take long to compute."""
    rows = []
    for name in ("normal", "normal, standard deviations 1 to 10"):
        lists = log(CASES[name](random, (options.logs // 4, 50, 10)))
        rows.append([name, found(lists, options), found(lists, options, method="tukey")])
        print(rows[-1], file=sys.stderr)
    return table(["values", "max_t", "tukey"], rows)


def main() -> None:
    options = arguments()
    random = np.random.default_rng(options.seed)
    started = time.perf_counter()
    error = math.sqrt(0.05 * 0.95 / options.logs)
    lines = [
        "# Familywise error rates of compare_all, by simulation",
        "",
        f"Generated by `python -m tests.benchmarks.all_pairs`: {options.logs:,} logs (a quarter for "
        f"1,000 queries and for Tukey's test), {options.resamples:,} resamples, seed {options.seed}. "
        "A cell is the share of logs in which any pair of runs has a p-value of at most 0.05, "
        "although all runs have the same mean. By chance, shares near 0.05 move by "
        f"{2 * error:.3f} either way (two standard errors).",
        "",
        *of_queries(random, options),
        "",
        "Two runs are compared by the t test, three or more by the studentized maximum with random "
        "signs. Five queries have 16 choices of signs, so that no p-value is below 1/17. With "
        "skewed values, runs of different scales have skewed differences, whose mean and standard "
        "deviation are correlated: the error rate is too high for few queries, also that of the t "
        "test, and gets worse with more runs.",
        "",
        "## From moments",
        "",
        *of_moments(random, options),
        "",
        "Moments have no values of queries, so that the runs are drawn from a normal distribution "
        "with their covariance. From 10 queries, the covariance of as many runs is poorly known, and "
        "the error rate is too high for normal values.",
        "",
        "## Weights and clusters",
        "",
        *unequal_units(random, options),
        "",
        "Weights are the sizes of the clusters. Standard deviations of the runs are 1 to 5. With "
        "Pareto sizes, the effective number of units is about 10 of 30 and 22 of 100, and a warning "
        "says that it is below 30: the t distribution is too narrow for so unequal units.",
        "",
        "## Tukey's test: 10 runs, 50 queries",
        "",
        *tukey(random, options),
    ]  # fmt: skip
    publish("\n".join(lines) + "\n", options.output)
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
