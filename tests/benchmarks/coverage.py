"""Simulate logs whose truth is known: how often intervals cover it, how often tests err.

    python -m tests.benchmarks.coverage [--logs 2000] [--queries 200] [--output FILE]

The log of a simulation is one group of the table, so that all of them are one call. The table
is in coverage.md, beside this file.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy import stats

import polars_rank as pr

if TYPE_CHECKING:
    from collections.abc import Sequence

TRUTH = 0.5
INTERVALS = ("t", "normal", "bootstrap", "studentized")
TESTS = ("t", "randomization", "bootstrap", "wilcoxon", "sign")
CLUSTER = 4  # queries of a user


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.coverage", description=__doc__
    )
    parser.add_argument("--logs", type=int, default=2000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--replicates", type=int, default=1000)
    parser.add_argument("--looks", type=int, default=20, help="at growing data, of the sequence")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    random = np.random.default_rng(options.seed)
    started = time.perf_counter()
    lines = [
        f"Made by `python -m tests.benchmarks.coverage`: {options.logs:,} logs of "
        f"{options.queries:,} queries, {options.replicates:,} replicates, seed {options.seed}. "
        f"By chance, shares near 0.95 and 0.05 move by {2 * deviation(options.logs):.3f} either "
        "way (two standard errors).",
        "",
        "## Share of 95 % intervals that have the true mean in them",
        "",
        *coverage(random, options),
        "",
        "## The same for rare events and values that are mostly the same",
        "",
        *rare_coverage(random, options),
        "",
        'Coverage of "studentized" is that of the intervals that are not null, and beside it that '
        "of t for the same logs. An interval is null where in more than 0.025 of the resamples "
        "all values are the same. Of an event in 2% of 100 those are left that happened to have "
        'four events or more, twice as many as expected: "wrong" is the share of all logs whose '
        "interval is not null and does not have the true mean in it.",
        "",
        "## Share of p-values below 0.05 where nothing is different",
        "",
        *false_positives(random, options),
        "",
        f"The sign test of {options.queries:,} differences has p-values of few sizes: its level is "
        f"{level_of_signs(options.queries):.4f}. Of skewed differences with mean 0, Wilcoxon's and "
        "the sign test find that the median is not 0, which nobody asked.",
        "",
        "## The same where few queries changed",
        "",
        *few_changes(random, options),
        "",
        "The changes are from a normal distribution with mean 0. A null is no p-value below 0.05.",
        "",
        "## The same of skewed differences with mean 0 and few queries",
        "",
        *skewed(random, options),
        "",
        "## Share of logs whose confidence sequence has the true mean in it at every look",
        "",
        *sequences(random, options),
    ]
    text = "# Coverage and error rates, by simulation\n\n" + "\n".join(lines) + "\n"
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text)
    print(f"{time.perf_counter() - started:.0f} s", file=sys.stderr)


def deviation(logs: int) -> float:
    return math.sqrt(0.05 * 0.95 / logs)


def level_of_signs(queries: int) -> float:
    """Return how often the sign test rejects where no difference is 0."""
    wins = np.arange(queries + 1)
    chances = stats.binom.pmf(wins, queries, 0.5)
    tails = np.minimum(np.cumsum(chances), np.cumsum(chances[::-1])[::-1])
    return float(chances[2 * tails <= 0.05].sum())


def tables(random: np.random.Generator, logs: int, queries: int) -> dict[str, pl.DataFrame]:
    """Return logs whose values have the mean `TRUTH`, like metrics of rankings."""
    shape = (logs, queries)
    users = queries // CLUSTER
    of_user = np.repeat(random.normal(0, 0.15, (logs, users)), CLUSTER, axis=1)
    weights = random.gamma(2, 1, shape)
    drawn = {
        "reciprocal ranks (skewed, few values)": reciprocal_ranks(random, shape),
        "beta(0.7, 0.7) (as NDCG)": random.beta(0.7, 0.7, shape),
        "with weights": random.beta(0.7, 0.7, shape),
        f"users of {CLUSTER} queries": TRUTH + of_user + random.normal(0, 0.2, shape),
    }
    common = {
        "log": np.repeat(np.arange(logs), queries),
        "query": np.arange(logs * queries),  # else all logs would share their draws
        "user": np.arange(logs * queries) // CLUSTER,
        "w": weights.ravel(),
    }
    return {name: pl.DataFrame({**common, "x": x.ravel()}) for name, x in drawn.items()}


def reciprocal_ranks(random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Return 1, 1/2, 1/3, 1/4 or 0 with chances such that their mean is `TRUTH`."""
    values = np.array([1, 1 / 2, 1 / 3, 1 / 4, 0])
    chances = np.array([0.3, 0.25, 0.15, 0.1, 0.2])
    short = TRUTH - values @ chances
    chances += short * np.array([1, 0, 0, 0, -1])
    return random.choice(values, p=chances, size=shape)


def coverage(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    made = tables(random, options.logs, options.queries)
    rows = []
    for name, lists in made.items():
        given = {"weight": "w"} if "weights" in name else {}
        if "users" in name:
            given["cluster"] = "user"
        cells = []
        for interval in INTERVALS:
            found = pr.summarize(
                lists, ["x"], by="log", interval=interval, n_resamples=options.replicates, **given
            )
            cells.append(found.select(pl.lit(TRUTH).is_between("low", "high").mean()).item())
        rows.append([name, *cells])
    return table(["values", *INTERVALS], rows)


def rare_coverage(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    def logs(rare: float, queries: int, common: float, other: np.ndarray | float) -> pl.DataFrame:
        shape = (options.logs, queries)
        x = np.where(random.random(shape) < rare, other, common).ravel()
        query = np.arange(x.size)
        return pl.DataFrame({"log": query // queries, "query": query, "x": x})

    def beta(queries: int) -> np.ndarray:
        return random.beta(0.7, 0.7, (options.logs, queries))

    cases = {
        "an event in 2% of 100": (0.02, logs(0.02, 100, 0.0, 1.0)),
        "an event in 5% of 100": (0.05, logs(0.05, 100, 0.0, 1.0)),
        "90% at 1/3, others at 1, of 30": (0.4, logs(0.1, 30, 1 / 3, 1.0)),
        "90% at 1/3, others at 1, of 50": (0.4, logs(0.1, 50, 1 / 3, 1.0)),
        "90% zeros, others beta(0.7, 0.7), of 50": (0.05, logs(0.1, 50, 0.0, beta(50))),
        "90% zeros, others beta(0.7, 0.7), of 100": (0.05, logs(0.1, 100, 0.0, beta(100))),
        "90% zeros, others beta(0.7, 0.7), of 200": (0.05, logs(0.1, 200, 0.0, beta(200))),
    }
    rows = []
    for name, (truth, lists) in cases.items():
        covered = {}
        for interval in INTERVALS:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", pr.errors.RankWarning)
                found = pr.summarize(
                    lists, ["x"], by="log", interval=interval, n_resamples=options.replicates
                )
            covered[interval] = found.select(pl.lit(truth).is_between("low", "high")).to_series()
        known = covered["studentized"].is_not_null()
        cells = [covered[interval].mean() for interval in INTERVALS]
        null = 1 - known.mean()
        wrong = (~covered["studentized"]).fill_null(value=False).mean()
        rows.append([name, *cells, covered["t"].filter(known).mean(), null, wrong])
    more = ["t, where not null", "studentized: null", "studentized: wrong"]
    return table(["values", *INTERVALS, *more], rows)


def few_changes(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    rows = []
    for changed, queries in ((2, 1000), (2, 200), (10, 200), (2, 2), (3, 3), (6, 6), (10, 10)):
        difference = np.zeros((options.logs if queries < 1000 else options.logs // 4, queries))
        difference[:, :changed] = random.normal(0, 0.3, (len(difference), changed))
        found = p_values(difference, ("t", "randomization", "bootstrap"), options)
        name = f"{changed} of {queries:,}"
        cells = [(p <= 0.05).fill_null(value=False).mean() for p in found]
        rows.append([name, *cells, found[-1].is_null().mean()])
    return table(["", "t", "randomization", "bootstrap", "bootstrap: null"], rows)


def skewed(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    tests = ("t", "randomization", "bootstrap")
    rows = []
    for queries in (10, 30, 100):
        difference = random.exponential(0.2, (options.logs, queries)) - 0.2
        found = p_values(difference, tests, options)
        cells = [(p <= 0.05).fill_null(value=False).mean() for p in found]
        rows.append([f"exponential, {queries} queries", *cells])
    return table(["", *tests], rows)


def p_values(
    difference: np.ndarray, tests: Sequence[str], options: argparse.Namespace
) -> list[pl.Series]:
    lists, found = runs(difference), []
    for test in tests:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pr.errors.RankWarning)
            compared = pr.compare(
                lists, metrics=["x"], baseline="a", by="log", test=test,
                correction="none", n_resamples=options.replicates,
            )  # fmt: skip
        found.append(compared["p_value"])
    return found


def false_positives(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    """Compare runs that differ in no mean; the differences are symmetric but in the last row."""
    shape = (options.logs, options.queries)
    symmetric = random.beta(0.7, 0.7, shape) - random.beta(0.7, 0.7, shape)
    few = reciprocal_ranks(random, shape) - reciprocal_ranks(random, shape)
    skewed = random.exponential(0.2, shape) - 0.2
    cases = {
        "differences of beta(0.7, 0.7)": symmetric,
        "differences of reciprocal ranks": few,
        "skewed differences (exponential)": skewed,
    }
    rows = []
    for name, difference in cases.items():
        cells = [(p <= 0.05).mean() for p in p_values(difference, TESTS, options)]
        rows.append([name, *cells])
    return table(["", *TESTS], rows)


def runs(difference: np.ndarray) -> pl.DataFrame:
    logs, queries = difference.shape
    log = np.repeat(np.arange(logs), queries)
    query = np.arange(logs * queries)
    base = np.zeros(logs * queries)
    return pl.concat(
        [
            pl.DataFrame({"run": "a", "log": log, "query": query, "x": base}),
            pl.DataFrame({"run": "b", "log": log, "query": query, "x": difference.ravel()}),
        ]
    )


def sequences(random: np.random.Generator, options: argparse.Namespace) -> list[str]:
    """Look at growing logs again and again, by merging the moments of the days."""
    queries, looks = options.queries, options.looks
    name, lists = next(iter(tables(random, options.logs, queries * looks).items()))
    cases = [(f"{name}, {looks} looks, every {queries}", TRUTH, queries, lists)]
    for step in (50, 10):
        shape = (options.logs, step * 40)
        query = np.arange(shape[0] * shape[1])
        rare = (random.random(shape) < 0.02).astype(float).ravel()
        lists = pl.DataFrame({"log": query // shape[1], "query": query, "x": rare})
        cases.append((f"an event in 2%, 40 looks, every {step}", 0.02, step, lists))
    rows = []
    for name, truth, step, lists in cases:
        place = pl.int_range(pl.len()).over("log") // step
        days = pr.stats.moments(lists.with_columns(day=place), ["x"], by=["log", "day"])
        cells = []
        for interval in ("sequence", "t"):
            covered = []
            for day in range(days["day"].max() + 1):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", pr.errors.RankWarning)
                    found = pr.summarize(
                        days.filter(pl.col("day") <= day), by="log", interval=interval
                    )
                covered.append(
                    found.select("log", pl.lit(truth).is_between("low", "high").alias("covered"))
                )
            always = pl.concat(covered).group_by("log").agg(pl.col("covered").all())
            cells.append(always["covered"].mean())
        rows.append([name, *cells])
    return table(["values", "sequence", "t"], rows)


def table(head: list[str], rows: list[list[object]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    for name, *cells in rows:
        lines.append(f"| {name} | " + " | ".join(map(written, cells)) + " |")
    return lines


def written(cell: float | None) -> str:
    return "-" if cell is None else f"{cell:.4f}"


if __name__ == "__main__":
    main()
