"""Measure coverage of estimates from few human and many predicted labels, on simulated values.

    python -m tests.benchmarks.predictions [--logs 1000] [--others 500] [--output FILE]

Each simulated log is one group of a table, so that all of them are one call. The tables are in
predictions.md.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

import polars_rank as pr
from tests.benchmarks.pages import publish

if TYPE_CHECKING:
    from collections.abc import Callable

HUMAN = (10, 20, 50, 200)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.predictions", description=__doc__
    )
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--others", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


def uniform(random: Any, size: tuple[int, ...]) -> Any:
    return random.beta(0.7, 0.7, size)


def events(share: float) -> Callable[..., Any]:
    """Return draws of values of 0 or 1 with this mean."""
    return lambda random, size: (random.random(size) < share) * 1.0


#: Draws of true values of a query, and their mean.
VALUES: dict[str, tuple[Callable[..., Any], float]] = {
    "beta(0.7, 0.7) (as NDCG)": (uniform, 0.5),
    "0 or 1, at 30%": (events(0.3), 0.3),
    "0 or 1, at 10%": (events(0.1), 0.1),
    "90% zeros, others uniform": (
        lambda random, size: (random.random(size) < 0.1) * random.random(size), 0.05,
    ),
    "exponential": (lambda random, size: random.exponential(size=size), 1.0),
}  # fmt: skip


def judged(values: Any, judge: str, random: Any, *, binary: bool = False) -> Any:
    """Return the values (logs x queries x runs) as a judge sees them."""
    if binary:
        draws = random.random(values.shape)
        wrong: Any = {
            "good": lambda: draws < 0.05,
            "bad": lambda: draws < 0.35,
            "constant": lambda: values == 0,
            "opposite": lambda: draws > 0.05,
            "favors one run": lambda: draws < np.where(values == 0, [0.05, 0.3], 0.05),
        }[judge]()
        return np.where(wrong, 1 - values, values)
    noise = random.normal(size=values.shape) * values.std()
    favor = np.array([0.0, values.std()])
    seen: Any = {
        "good": lambda: values + 0.3 * noise,
        "bad": lambda: values + 2.0 * noise,
        "constant": lambda: np.full_like(values, 0.5),
        "opposite": lambda: -values + 0.3 * noise,
        "favors one run": lambda: values + 0.5 * noise + favor,
    }[judge]()
    return seen


JUDGES = ("good", "bad", "constant", "opposite", "favors one run")


def tables(
    values: Any, seen: Any, n: int, weights: Any = None, cluster: int = 1, metric: str = "x"
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return per-query values by human labels of n queries, and by predicted labels of all."""
    logs, queries, runs = values.shape
    ids = pl.DataFrame({
        "log": np.repeat(np.arange(logs), queries * runs),
        "query": np.tile(np.repeat(np.arange(queries), runs), logs),
        "run": ["a", "b"] * (logs * queries),
    })  # fmt: skip
    extra = {"user": ids["query"] // cluster}
    if weights is not None:
        extra["w"] = pl.Series(np.repeat(weights.ravel(), runs))
    human = ids.with_columns(**extra, **{metric: values.ravel()}).filter(pl.col("query") < n)
    return human, ids.with_columns(**extra, **{metric: seen.ravel()})


def rows(options: argparse.Namespace) -> tuple[list[str], list[str]]:
    """Return the lines of the table, and of the cells with a lower coverage than required."""
    low = []
    lines = [
        "| values | judge | n | mean: human only | mean | mean: judge only | difference: human only "
        "| difference | difference: judge only | effective queries per human query |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    random = np.random.default_rng(options.seed)
    for name, (draw, mean) in VALUES.items():
        binary = name.startswith("0 or 1")
        metric = "hit_rate@10" if binary else "x"
        for judge in JUDGES:
            for n in HUMAN if name.startswith("beta") or judge == "good" else (20, 200):
                shape = (options.logs, n + options.others, 1)
                # Half of a query's value is common to both runs.
                common = draw(random, shape)
                own = draw(random, (*shape[:2], 2))
                same = random.random((*shape[:2], 2)) < 0.5
                values = np.where(same, common, own)
                seen = judged(values, judge, random, binary=binary)
                both = tables(values, seen, n, metric=metric)
                cells = measured(*both, mean, metric)
                shown = " | ".join(f"{each:.3f}" for each in cells[:-1])
                lines.append(f"| {name} | {judge} | {n} | {shown} | {cells[-1]:.1f} |")
                low += [
                    f"- {name}, judge: {judge}, {n} queries, {kind}: {estimate:.3f}, with human "
                    f"labels only {human:.3f}"
                    for kind, human, estimate in (("mean", *cells[:2]), ("difference", *cells[3:5]))
                    if estimate < required(human, n)
                ]
    return lines, low


def required(human: float, n: int) -> float:
    """Return the lowest coverage that is required beside that of human labels only."""
    return 0.93 if human >= 0.93 else min(0.93, human - (0.02 if n == 10 else 0.03))


def units(options: argparse.Namespace) -> list[str]:
    lines = ["| units | n | human only | estimate |", "| --- | ---: | ---: | ---: |"]
    random = np.random.default_rng(options.seed)
    for name, cluster, weighted in (
        ("weights, exponential", 1, True),
        ("users of 4 queries", 4, False),
        ("users of 4 queries, and weights", 4, True),
    ):
        for n in (40, 200):
            shape = (options.logs, n + options.others, 2)
            values = uniform(random, shape)
            if cluster > 1:  # half of the variance is between users
                of_user = uniform(random, (shape[0], shape[1] // cluster, 2))
                values = (values + np.repeat(of_user, cluster, axis=1)) / 2
            weights = random.exponential(size=shape[:2]) if weighted else None
            human, predicted = tables(values, judged(values, "good", random), n, weights, cluster)
            given: dict[str, Any] = {"cluster": "user"} if cluster > 1 else {}
            given |= {"weight": "w"} if weighted else {}
            compare = {"metrics": "x", "baseline": "a", "by": "log", "correction": "none", **given}
            alone = pr.compare(human, **compare)
            both = pr.compare(human, predictions=predicted, **compare)
            cells = " | ".join(f"{share(each, 0.0):.3f}" for each in (alone, both))
            lines.append(f"| {name} | {n} | {cells} |")
    return lines


def share(table: pl.DataFrame, truth: float) -> float:
    """Return the share of intervals that contain the truth; a null contains nothing."""
    inside = (table["low"] <= truth) & (truth <= table["high"])
    return float(inside.fill_null(value=False).mean() or 0.0)


def measured(
    human: pl.DataFrame, predicted: pl.DataFrame, mean: float, metric: str
) -> tuple[float, ...]:
    """Return the coverage for means and differences, and the effective queries."""
    n = human["query"].n_unique()
    of_a = {"metrics": metric, "by": "log", "query": "query"}
    alone, estimate, judge = (
        pr.summarize(values.filter(run="a"), **of_a, **given)
        for values, given in (
            (human, {}), (human, {"predictions": predicted.filter(run="a")}), (predicted, {}),
        )
    )  # fmt: skip
    compare: dict[str, Any] = {
        "metrics": metric, "baseline": "a", "by": "log", "correction": "none",
    }  # fmt: skip
    differences = (
        pr.compare(human, **compare),
        pr.compare(human, predictions=predicted, **compare),
        pr.compare(predicted, **compare),
    )
    effective = differences[1]["effective_queries"].median()
    return (
        *(share(each, mean) for each in (alone, estimate, judge)),
        *(share(each, 0.0) for each in differences),
        math.nan if effective is None else float(effective) / n,  # type: ignore[arg-type]
    )


def main() -> None:
    options = arguments()
    started = time.perf_counter()
    warnings.simplefilter("ignore", pr.errors.RankWarning)
    table, low = rows(options)
    lines = [
        "# Coverage of estimates from few human and many predicted labels",
        "",
        f"Generated by `python -m tests.benchmarks.predictions`: {options.logs:,} logs with "
        f"{options.others:,} queries beside the n human ones, seed {options.seed}. The columns are "
        "the shares of 95% intervals that contain the true mean, or the true difference of 0, from "
        "human labels only, with `predictions`, and from predicted labels only. By chance, shares "
        f"near 0.95 move by {2 * math.sqrt(0.95 * 0.05 / options.logs):.3f} either way (two "
        "standard errors). An interval that is null contains nothing. Values of 0 or 1 are those of "
        "a hit rate, whose intervals are Wilson's and Tango's; a judge's values are 0 or 1, too.",
        "",
        *table,
        "",
        "## Where the coverage is too low",
        "",
        "The coverage with `predictions` should be at least 0.93 where that of human labels only "
        "is; elsewhere it should be lower by at most 0.02 for 10 queries, or 0.03 for more. Cells "
        "where it is not:",
        "",
        *(low or ["None."]),
        "",
        "λ is estimated from the human queries. If values are skewed, as with 90% zeros, a sample "
        "without large values has a low mean, a low λ and a small standard error at once, so that "
        "intervals miss the mean more often than those of normal values. Differences of two runs are "
        "nearly symmetric.",
        "",
        "## Weights and clusters",
        "",
        "The difference of two runs, with values as NDCG and a good judge.",
        "",
        *units(options),
        "",
        f"It took {time.perf_counter() - started:.0f} s.",
    ]
    publish("\n".join(lines) + "\n", options.output)


if __name__ == "__main__":
    main()
