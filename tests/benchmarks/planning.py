"""Measure tests of equivalence, plans of experiments and covariates, on simulated values.

    python -m tests.benchmarks.planning [--logs 1000] [--pilots 400] [--output FILE]

The tables are in planning.md.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

import polars_rank as pr
from tests.benchmarks.pages import publish
from tests.benchmarks.simulated import BINARY, OTHER, Random, Shape, logs_of, ndcg, runs_of, table

QUERIES, PILOTS = (20, 50, 200), (50, 200, 1000)
#: The margin of equivalence in standard errors.
ERRORS = 3.0
#: The difference to detect in standard deviations: 156 queries detect it, one-sided.
EFFECT = 0.2
#: Standard errors by which chance may move a share.
CHANCE = 2.0
#: Stands for a number of queries that is too large for a column.
MOST = 2**62


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.planning", description=__doc__
    )
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--pilots", type=int, default=400, help="logs of `stats.power`")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


class Kind(NamedTuple):
    """A distribution of the values of two runs with a given difference of their means."""

    name: str
    #: Standard deviation of the differences, for runs with the same mean.
    std: float
    #: Mean of the baseline, given the difference.
    base: Callable[[float], float]
    draw: Callable[[Random, Shape, float], tuple[np.ndarray, np.ndarray]]
    metric: str = OTHER
    #: The difference of pilots. With another one, no values are equal.
    usual: float = 0.0


def redrawn(
    name: str, variance: float, mean: float, draw: Callable[[Random, Shape], np.ndarray]
) -> Kind:
    """Return runs that agree on half of the queries."""

    def both(random: Random, shape: Shape, difference: float) -> tuple[np.ndarray, np.ndarray]:
        base, other = draw(random, shape), draw(random, shape)
        return base, np.where(random.random(shape) < 0.5, base, other) + difference

    return Kind(name, math.sqrt(variance), lambda _: mean, both)


def shifted(name: str, std: float, draw: Callable[[Random, Shape], np.ndarray]) -> Kind:
    """Return runs whose differences are independent of the baseline; `draw` has the mean 0."""

    def both(random: Random, shape: Shape, difference: float) -> tuple[np.ndarray, np.ndarray]:
        base = random.exponential(size=shape)
        return base, base + draw(random, shape) + difference

    return Kind(name, std, lambda _: 1.0, both)


def rates(rate: float, same: float) -> Kind:
    """Return runs with values of 0 or 1, which have the same cause for a share of the queries."""

    def of_baseline(difference: float) -> float:
        return rate + max(-difference, 0.0)

    def both(random: Random, shape: Shape, difference: float) -> tuple[np.ndarray, np.ndarray]:
        one, other = random.random(shape), random.random(shape)
        cause = np.where(random.random(shape) < same, one, other)
        base = of_baseline(difference)
        return one < base, cause < base + difference

    differ = 2 * rate * (1 - rate) * (1 - same)
    return Kind(
        f"0 or 1, {rate:.0%}, {differ:.0%} differ", math.sqrt(differ), of_baseline, both, BINARY
    )


def mostly_equal(random: Random, shape: Shape, difference: float) -> tuple[np.ndarray, np.ndarray]:
    base = random.random(shape) / 2
    gain = np.where(random.random(shape) < 0.1, ndcg(random, shape) / 2, 0.0)
    return base, base + gain + (difference - GAIN)


def reciprocal(random: Random, shape: Shape) -> np.ndarray:
    return 1 / random.integers(1, 11, shape)


GAIN = 0.025
NDCG = redrawn("NDCG: beta(0.7, 0.7)", 0.25 / 2.4, 0.5, ndcg)
RANKS = 1 / np.arange(1, 11)
RECIPROCAL = redrawn("reciprocal rank", float(RANKS.var()), float(RANKS.mean()), reciprocal)
HALF, TENTH, FEW = rates(0.5, 0.5), rates(0.1, 0.5), rates(0.5, 0.9)
NORMAL = shifted("normal", 0.3, lambda random, shape: random.normal(0, 0.3, shape))
EXPONENTIAL = shifted(
    "exponential", 0.3, lambda random, shape: 0.3 * (random.exponential(size=shape) - 1)
)
LOGNORMAL = shifted(
    "lognormal",
    0.1 * math.sqrt(math.e * (math.e - 1)),
    lambda random, shape: 0.1 * (random.lognormal(0, 1, shape) - math.exp(0.5)),
)
EQUAL = Kind(
    "90% equal, others better",
    math.sqrt(0.1 * (0.25 / 2.4 + 0.25) / 4 - GAIN**2),
    lambda _: 0.25,
    mostly_equal,
    usual=GAIN,
)
OF_EQUIVALENCE = (NDCG, HALF, TENTH, EXPONENTIAL, EQUAL, LOGNORMAL)
OF_POWER = (NDCG, RECIPROCAL, HALF, FEW, NORMAL, EXPONENTIAL, EQUAL, LOGNORMAL)


def exact(queries: int, std: float) -> pl.DataFrame:
    """Return values of one log whose differences have this standard deviation exactly."""
    size = std * math.sqrt((queries - 1) / queries)
    differences = np.where(np.arange(queries) % 2, size, -size)[None, :]
    return runs_of(OTHER, np.zeros_like(differences), differences)


def planned(values: pl.DataFrame, metric: str = OTHER, **given: object) -> pl.DataFrame:
    return pr.stats.power(values, [metric], baseline="a", by="log", **given).sort("log")


def compared(values: pl.DataFrame, metric: str, **given: object) -> pl.DataFrame:
    """Return the comparison of each log."""
    return pr.compare(
        values, metrics=[metric], baseline="a", by="log", correction="none", **given
    ).sort("log")


def share(of: pl.Series) -> float:
    """Return the share of true values; a null is not true."""
    return float(of.fill_null(value=False).mean() or 0.0)


# -- Equivalence ----------------------------------------------------------------------------------


def equivalence(random: Random, options: argparse.Namespace) -> list[str]:
    rows, high, differ = [], [], 0
    limit = 0.05 + CHANCE * math.sqrt(0.05 * 0.95 / options.logs)
    for kind in OF_EQUIVALENCE:
        for n in QUERIES:
            margin = ERRORS * kind.std / math.sqrt(n)
            plan = planned(exact(n, kind.std), alternative="equivalent", margin=margin)
            cells: list[float | None] = []
            for truth in (0.0, -margin, margin):
                drawn = kind.draw(random, (options.logs, n), truth)
                values = runs_of(kind.metric, *drawn)
                tests = compared(values, kind.metric, alternative="equivalent", margin=margin)
                is_claim = (tests["p_value"] < 0.05).fill_null(value=False)
                within = (tests["low"] > -margin) & (tests["high"] < margin)
                differ += int((is_claim != within.fill_null(value=False)).sum())
                relative = margin / kind.base(truth)
                of_relative = None
                if relative < 1:
                    tests = compared(
                        values, kind.metric, alternative="equivalent", relative_margin=relative
                    )
                    of_relative = share(tests["p_value"] < 0.05)
                cells += [share(is_claim), of_relative]
            rows.append([kind.name, n, f"{margin:.3f}", plan["power"].item(), *cells])
            sides = zip(OF_CLAIMS[2:], cells[2:], strict=True)
            high += [[kind.name, n, at, each] for at, each in sides if each and each > limit]
    return [
        "## Equivalence: `compare(alternative=\"equivalent\")`",
        "",
        f"The share of {options.logs:,} logs with p < 0.05, if the true difference is 0 (power), and "
        "if it is the margin, below or above 0, where at most 0.05 should claim equivalence. The "
        f"margin is {ERRORS:g} standard errors of the true standard deviation. `planned` is the "
        "power that `stats.power` computes from this standard deviation and the margin. The relative "
        "margin is the same margin divided by the true mean of the baseline; a dash if that is 1 or "
        "more. Tests are paired t tests; of values of 0 or 1 and a margin that is not relative, "
        "Tango's score tests. Without a p-value, as for a t test of equal differences, a log claims "
        "nothing. By chance, shares near 0.05 move by "
        f"{limit - 0.05:.3f} either way (two standard errors).",
        "",
        *table(["differences", "queries", "margin", "planned", *OF_CLAIMS], rows),
        "",
        f"Of all tests with a margin that is not relative, {differ} disagree with the 90% interval: "
        "p < 0.05 if and only if it is between the margins.",
        "",
        f"Cells above {limit:.3f} at the margin:",
        "",
        *(table(["differences", "queries", "true difference", "share"], high) if high else ["None."]),
        "",
        "Each of the two tests is one-sided. If the differences are skewed to the right, samples "
        "without the rare, high values have a mean and a standard error that are too small, so that "
        "a difference above the margin seems to be below it too often, and one below -margin too "
        "rarely. Two-sided tests balance both errors.",
        "",
        "Tango's test uses the standard error under the null hypothesis, where more queries differ "
        "than between equal runs, so that the power for rates near 0 is below `planned`. With few "
        "queries, the power with a relative margin is lower because the baseline's mean is "
        "estimated, too.",
        "",
    ]  # fmt: skip


OF_CLAIMS = (
    *("at 0", "at 0, relative", "at -margin", "at -margin, relative"),
    *("at +margin", "at +margin, relative"),
)


# -- Power ----------------------------------------------------------------------------------------


def power(random: Random, options: argparse.Namespace) -> list[str]:
    rows = []
    for kind in OF_POWER:
        target = {"difference": EFFECT * kind.std, "alternative": "greater"}
        for n in PILOTS:
            values = runs_of(kind.metric, *kind.draw(random, (options.pilots, n), kind.usual))
            truth = planned(exact(n, kind.std), **target).row(0, named=True)
            plans = planned(values, kind.metric, **target)
            low, needed = plans["needed_low"], truth["needed"]
            high = plans["needed_high"].fill_null(MOST)
            detectable = truth["detectable"]
            drawn = kind.draw(random, (options.logs, n), detectable)
            tests = compared(runs_of(kind.metric, *drawn), kind.metric, alternative="greater")
            ratio = plans["detectable"] / detectable
            rows.append([
                kind.name, f"{n:,}", share((low <= needed) & (high >= needed)),
                share(high < needed), share(low > needed), share(plans["needed"].is_null()),
                f"{(high / low).median():.2f}",
                f"{ratio.quantile(0.05):.2f} to {ratio.quantile(0.95):.2f}",
                share(tests["p_value"] < 0.05),
            ])  # fmt: skip
    error = CHANCE * math.sqrt(0.05 * 0.95 / options.pilots)
    return [
        "## Plans: `stats.power`",
        "",
        f"Plans of {options.pilots:,} logs, for a difference of {EFFECT:g} true standard deviations "
        "and the alternative \"greater\". `covered` is the share of intervals from `needed_low` to "
        "`needed_high` that contain the number that the true standard deviation needs; `too low` "
        "and `too high` are the shares of intervals below and above it, and `no plan` the share of logs "
        "without an interval, because all differences are equal. `width` is the median of "
        "`needed_high` / `needed_low`, and `detectable` the range of 90% of the logs, relative to "
        "the difference that the true standard deviation detects. The last column is the share of "
        f"{options.logs:,} logs with p < 0.05 in `compare` if the true difference is that one: it "
        f"should be 0.8. By chance, shares near 0.95 move by {error:.3f} either way (two standard "
        "errors).",
        "",
        *table(
            ["differences", "queries", "covered", "too low", "too high", "no plan", "width",
             "detectable", "significant"],
            rows,
        ),
        "",
        "Most intervals are conservative: the kurtosis is an upper estimate. That of lognormal "
        "values is higher than its estimate, which follows from the skewness.",
        "",
        "Values of 0 or 1 are significant less often than planned because a difference of rates "
        "increases the standard deviation: at least that share of the queries must differ. Values "
        "that are skewed to the right are significant more often, for the reason of the false "
        "claims of equivalence.",
        "",
    ]  # fmt: skip


# -- Covariates -----------------------------------------------------------------------------------


class Relation(NamedTuple):
    """Differences with the mean 0 and a covariate with a known mean."""

    name: str
    mean: float
    draw: Callable[[Random, Shape], tuple[np.ndarray, np.ndarray]]


def unrelated(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    return random.normal(size=shape), random.normal(size=shape)


def linear(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    covariate, noise = unrelated(random, shape)
    return covariate + noise, covariate


def last_month(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    last, base, run = (ndcg(random, shape) for _ in range(3))
    base = np.where(random.random(shape) < 0.7, last, base)
    return np.where(random.random(shape) < 0.5, 0.0, run - base), last


def root(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    covariate = random.exponential(size=shape)
    return np.sqrt(covariate) - math.gamma(1.5) + random.normal(0, 0.3, shape), covariate


def square(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    covariate, noise = unrelated(random, shape)
    return covariate**2 - 1 + noise, covariate


def growing(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    covariate = random.exponential(size=shape)
    return (covariate - 1) + covariate * random.normal(size=shape), covariate


RELATIONS = (
    Relation("linear: half of the variance", 0.0, linear),
    Relation("none", 0.0, unrelated),
    Relation("NDCG of last month", 0.5, last_month),
    Relation("nonlinear: root of an exponential covariate", 1.0, root),
    Relation("nonlinear: square", 0.0, square),
    Relation("linear, and noise that grows", 1.0, growing),
)


def covariates(random: Random, options: argparse.Namespace) -> list[str]:
    rows = []
    for relation in RELATIONS:
        for n in QUERIES:
            differences, covariate = relation.draw(random, (options.logs, n))
            values = runs_of_logs(differences, covariate)
            raw = adjusted(values)
            known = adjusted(values, covariate="covariate", covariate_mean=relation.mean)
            of_table = adjusted(values, covariate="covariate")
            true = 1 - known["difference"].var() / raw["difference"].var()
            rows.append([
                relation.name, n, *(covered(each) for each in (raw, known, of_table)),
                *(float(each["variance_reduction"].mean()) for each in (known, of_table)), true,
            ])  # fmt: skip
    error = CHANCE * math.sqrt(0.05 * 0.95 / options.logs)
    return [
        "## Covariates: `compare(covariate=..., covariate_mean=...)`",
        "",
        f"The share of 95% intervals of {options.logs:,} logs that contain the true difference: "
        "without a covariate, with its known mean, and with its mean over the table, of which "
        "`compare` warns. Then the mean of `variance_reduction` with the known mean and with that "
        "of the table, and the true reduction with the known mean: of the variance of the "
        "differences between logs. With the mean of the table it is 0, because the differences are "
        f"not changed. By chance, shares near 0.95 move by {error:.3f} either way (two standard "
        "errors).",
        "",
        *table(
            ["relation", "queries", "without", "known mean", "mean of the table",
             "reduction, known mean", "reduction, mean of the table", "true reduction"],
            rows,
        ),
        "",
        "With the mean of the table, intervals are too narrow by the part of the variance that the "
        "covariate explains. With the known mean and few queries, they are too narrow if large "
        "residuals occur at extreme values of the covariate, where they change the slope: if the "
        "relation is a parabola, or if the noise grows with the covariate. A covariate without a "
        "relation makes intervals slightly wider.",
        "",
    ]  # fmt: skip


def runs_of_logs(differences: np.ndarray, covariate: np.ndarray) -> pl.DataFrame:
    """Return values in which each log is a run: `by` is not supported with covariates.

    The queries of a run are its own. The baseline has those of all runs, with values of 0.
    """
    of_runs = logs_of(OTHER, differences, covariate=covariate)
    of_runs = of_runs.with_columns(run=pl.format("log {}", "log")).drop("log")
    return pl.concat([of_runs, of_runs.with_columns(pl.lit(0.0).alias(OTHER), run=pl.lit("a"))])


def adjusted(values: pl.DataFrame, **given: object) -> pl.DataFrame:
    """Return the comparison of each log."""
    return pr.compare(
        values, [OTHER], baseline="a", query="query", correction="none", **given
    ).sort("run")


def covered(result: pl.DataFrame) -> float:
    return share((result["low"] <= 0) & (result["high"] >= 0))


# -- The page -------------------------------------------------------------------------------------

SECTIONS = (equivalence, power, covariates)


def main() -> None:
    options = arguments()
    warnings.simplefilter("ignore", pr.errors.RankWarning)
    random = np.random.default_rng(options.seed)
    lines, seconds = [], []
    for section in SECTIONS:
        started = time.process_time()
        lines += section(random, options)
        seconds.append(f"{time.process_time() - started:.0f} s ({section.__name__})")
    head = [
        "# Equivalence, plans and covariates, by simulation",
        "",
        f"Generated by `python -m tests.benchmarks.planning`: {options.logs:,} logs "
        f"({options.pilots:,} for plans), seed {options.seed}. CPU time: "
        f"{', '.join(seconds)}.",
        "",
    ]
    publish("\n".join([*head, *lines]).rstrip() + "\n", options.output)


if __name__ == "__main__":
    main()
