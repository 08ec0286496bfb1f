"""Measure coverage of intervals and error rates of tests and gates on simulated logs.

    python -m tests.benchmarks.coverage [--logs 1000] [--only SECTION] [--output FILE]

The tables are in coverage.md.
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
from scipy import stats

import polars_rank as pr
from polars_rank.stats.significance import corrected, corrected_confidence
from tests.benchmarks import simulated
from tests.benchmarks.pages import publish
from tests.benchmarks.simulated import (
    BETA,
    BINARY,
    DEPENDENT,
    DISCRETE,
    LOGNORMAL,
    OF_SIZES,
    OTHER,
    PAIRS,
    PRECISION,
    RARE,
    RATES,
    ROUNDING,
    SIZES,
    T3,
    TAILS,
    USER_VALUES,
    ZEROS,
    Coverage,
    Pairs,
    Random,
    Shape,
    Sizes,
    UserValues,
    Values,
    alike,
    all_shares,
    comparison,
    covered,
    logs_of,
    of_users,
    rates,
    runs_of,
    summary,
    table,
    verdicts,
)

UNITS = (5, 10, 30, 100, 1000)
#: For methods that resample.
FEWER_UNITS = (10, 30, 100)
#: The rates over which the coverage of values of 0 or 1 is averaged.
GRID = np.arange(1, 100) / 100
GEOMETRIC = SIZES[1]
#: Why intervals of the effect size miss it.
KURTOSIS = "kurtosis"
TESTS = ("t", "randomization", "bootstrap", "wilcoxon", "sign")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.coverage", description=__doc__
    )
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--replicates", type=int, default=500)
    parser.add_argument("--looks", type=int, default=20, help="at growing data, of the sequence")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=[each.__name__ for each in SECTIONS], help="printed")
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


class Study:
    """A seed, the number of logs, and the cells of all tables."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.random = np.random.default_rng(options.seed)
        self.logs, self.replicates, self.looks = options.logs, options.replicates, options.looks
        self.cells: list[Coverage] = []
        self.low: list[list[object]] = []

    def shape(self, units: int) -> tuple[int, int]:
        """Return the number of logs and units: fewer logs of many units."""
        return (self.logs if units < 1000 else self.logs // 2), units

    def coverages(
        self, method: str, head: list[str], rows: list[tuple[str, str, list[Coverage]]]
    ) -> list[str]:
        """Return a table of coverages; a row has a name, a reason and its cells."""
        for name, why, cells in rows:
            self.cells += cells
            for at, each in zip(head[1:], cells, strict=True):
                if each.is_unnoticed:
                    numbers = (each.covered, each.warned, each.unnoticed)
                    self.low.append([f"{method}: {name}", at, *numbers, why or "chance"])
        return table(head, [[name, *cells] for name, _, cells in rows])


Section = Callable[[Study], list[str]]


def units_head(units: tuple[int, ...] = UNITS) -> list[str]:
    return [f"{each:,}" for each in units]


# -- Means ----------------------------------------------------------------------------------------


def means(study: Study) -> list[str]:
    lines = ["## Means: `summarize`", ""]
    titles = {"auto": 'interval="auto"', "t": 'interval="t" for values of 0 or 1'}
    for interval, title in titles.items():
        found = {units: summary(all_shares(units), BINARY, interval) for units in UNITS}
        rows = [
            ("0 or 1, average of rates of 1% to 99%", DISCRETE, average_over_rates(found)),
            ("0 or 1, minimum", DISCRETE, minimum_over_rates(found)),
        ]
        for each in RATES:
            cells = [exactly(found[units], units, each.mean) for units in UNITS]
            rows.append((each.name, each.why, cells))
        if interval == "auto":
            rows += [
                (each.name, each.why, [means_of(study, each, units) for units in UNITS])
                for each in (PRECISION, BETA, ZEROS, LOGNORMAL, T3)
            ]
        cells = study.coverages(f"summarize, {interval}", ["values", *units_head()], rows)
        lines += [f"### {title}", "", *cells, ""]
    return lines


def exactly(found: pl.DataFrame, units: int, share: float) -> Coverage:
    """Return the coverage at a rate from the logs of all numbers of ones."""
    chances = stats.binom.pmf(np.arange(units + 1), units, share)
    return covered(found, share, chances=chances)


def over_rates(found: pl.DataFrame, units: int) -> list[Coverage]:
    return [exactly(found, units, share) for share in GRID]


def average_over_rates(found: dict[int, pl.DataFrame]) -> list[Coverage]:
    every = (over_rates(each, units) for units, each in found.items())
    return [Coverage(*np.mean(each, axis=0)) for each in every]


def minimum_over_rates(found: dict[int, pl.DataFrame]) -> list[Coverage]:
    every = (over_rates(each, units) for units, each in found.items())
    return [min(each, key=lambda coverage: coverage.covered) for each in every]


def means_of(study: Study, values: Values, units: int, interval: str = "auto") -> Coverage:
    lists = logs_of(values.metric, values.draw(study.random, study.shape(units)))
    found = summary(lists, values.metric, interval, n_resamples=study.replicates)
    return covered(found, values.mean)


def resampled_means(study: Study) -> list[str]:
    lines = [
        "## Means: resampling",
        "",
        f'With {study.replicates:,} resamples. For "studentized", the coverage is that of the '
        "intervals that are not null.",
        "",
    ]
    chosen = (RATES[0], RATES[1], PRECISION, ZEROS, LOGNORMAL, T3)
    nulls = []
    for interval in ("bootstrap", "studentized"):
        rows = [
            (each.name, each.why, [means_of(study, each, units, interval) for units in FEWER_UNITS])
            for each in chosen
        ]
        head = ["values", *units_head(FEWER_UNITS)]
        lines += [
            f'### interval="{interval}"',
            "",
            *study.coverages(f"summarize, {interval}", head, rows),
            "",
        ]
        nulls = rows
    return [
        *lines,
        "Share of logs whose studentized interval is null, because too many resamples have no "
        "variance:",
        "",
        *table(["values", *units_head(FEWER_UNITS)],
               [[name, *(each.null for each in cells)] for name, _, cells in nulls]),
        "",
    ]  # fmt: skip


# -- Weights and clusters -------------------------------------------------------------------------


def weighted_means(study: Study) -> list[str]:
    chosen = (RATES[1], RATES[2], BETA, LOGNORMAL)
    rows = [
        (f"{sizes.name}; {values.name}", values.why, weighted(study, sizes, values))
        for sizes in SIZES
        for values in chosen
    ]
    rows += [
        (f"{sizes.name}; 0 or 1, depends on weights", DEPENDENT, weighted(study, sizes, None))
        for sizes in SIZES
        if sizes.heavy[1]
    ]
    return [
        "## Means with weights: `summarize(weight=...)`",
        "",
        "By weights and values. Values that depend on weights are 1 in 50% of the heaviest tenth "
        "of the queries, and in 95% of the others.",
        "",
        *study.coverages("summarize, weights", ["", *units_head()], rows),
        "",
    ]


def weighted(study: Study, sizes: Sizes, values: Values | None) -> list[Coverage]:
    return [covered(*weighted_summary(study, sizes, values, units)) for units in UNITS]


def weighted_summary(
    study: Study, sizes: Sizes, values: Values | None, units: int
) -> tuple[pl.DataFrame, float]:
    """Return the result and the true mean; without `values`, those that depend on weights."""
    shape = study.shape(units)
    weights = sizes.draw(study.random, shape)
    if values is None:
        heavy, share = sizes.heavy
        truth, metric = 0.5 * share + 0.95 * (1 - share), BINARY
        drawn = study.random.random(shape) < np.where(weights >= heavy, 0.5, 0.95)
    else:
        truth, metric, drawn = values.mean, values.metric, values.draw(study.random, shape)
    lists = logs_of(metric, drawn, weight=weights)
    return summary(lists, metric, weight="weight"), truth


def width(found: pl.DataFrame) -> float:
    return (found["high"] - found["low"]).mean()


def clustered_means(study: Study) -> list[str]:
    cases = [(sizes, values) for sizes in SIZES for values in USER_VALUES]
    rows, widths = [], []
    for sizes, values in (*cases, (GEOMETRIC, OF_SIZES)):
        name, cells, ratios = f"{sizes.name}; {values.name}", [], []
        for users in UNITS:
            number = sizes.draw(study.random, study.shape(users))
            lists = of_users(study.random, number, values)
            found = summary(lists, values.metric, cluster="user")
            cells.append(covered(found, values.mean))
            if values.metric == BINARY and users >= 100:
                ratios.append(width(found) / width(summary(lists, BINARY, "t", cluster="user")))
        rows.append((name, values.why, cells))
        widths += [[name, *ratios]] if ratios else []
    return [
        "## Means with clusters: `summarize(cluster=...)`",
        "",
        "By the number of queries of users and values; columns are the number of users. Users "
        "have rates (or levels) of their own, except where they are alike. Values that depend on "
        "the size are 1 for 50% of the queries of the largest tenth of the users, and for 95% of "
        "the others.",
        "",
        *study.coverages("summarize, clusters", ["", *units_head()], rows),
        "",
        "Width of Wilson's intervals relative to t intervals, which show how much queries of a "
        "user are alike:",
        "",
        *table(["", "100", "1,000"], widths),
        "",
    ]


# -- Differences ----------------------------------------------------------------------------------


def differences(study: Study) -> list[str]:
    binary = (*PAIRS[:3], rates(0.02, 0.04), rates(0.1, 0.2), rates(0.8, 0.9))
    lines, apart = [], 0
    for test, title, chosen in (
        ("auto", 'test="auto"', (*binary, *PAIRS[3:])),
        ("t", 'test="t" for values of 0 or 1', binary),
    ):
        rows = []
        for pairs in chosen:
            found = [compared(study, pairs, units, test) for units in UNITS]
            rows.append(
                (pairs.name, pairs.why, [covered(each, pairs.difference) for each in found])
            )
            apart += 0 if pairs.difference else sum(map(disagreements, found))
        cells = study.coverages(f"compare, {test}", ["values", *units_head()], rows)
        lines += [f"### {title}", "", *cells, ""]
    where = f"all but {apart} logs" if apart else "all logs"
    return [
        "## Differences: `compare`",
        "",
        "Runs without a difference in the mean, except those with two rates, those that are "
        f"better, and lognormal differences. In {where} without a difference, the p-value is at "
        "most 0.05 if and only if 0 is outside of the interval: the share of false positives is 1 "
        "minus the coverage.",
        "",
        *lines,
    ]


def disagreements(found: pl.DataFrame) -> int:
    """Return the number of logs in which the p-value and the interval do not agree."""
    rejected = (found["p_value"] <= 0.05).fill_null(value=False)
    outside = ((found["low"] > 0) | (found["high"] < 0)).fill_null(value=False)
    return int((rejected != outside).sum())


def compared(study: Study, pairs: Pairs, units: int, test: str) -> pl.DataFrame:
    base, run = pairs.draw(study.random, study.shape(units))
    lists = runs_of(pairs.metric, base, run)
    return comparison(lists, pairs.metric, test, n_resamples=study.replicates)


def score_intervals(_: Study) -> list[str]:
    """Return the coverage of Tango's interval over all numbers of wins and losses."""
    equal = [(share, share) for share in np.arange(1, 25) / 50]
    steps = np.arange(1, 20) / 20
    every = [(win, loss) for win in steps for loss in steps if win + loss < 0.999]
    rows = []
    for units in (5, 10, 30, 100):
        of_equal, of_all = score_coverage(units, equal), score_coverage(units, every)
        win, loss = every[int(np.argmin(of_all))]
        numbers = (of_equal.mean(), of_equal.min(), of_all.mean(), of_all.min())
        rows.append([f"{units:,}", *map(float, numbers), f"{win:.0%} and {loss:.0%}"])
    head = ["queries", "average, no difference", "minimum", "average, all", "minimum", "for"]
    return [
        "## Differences of values of 0 or 1: all shares of wins and losses",
        "",
        "Tango's interval, exactly: over the probabilities of all numbers of wins and losses. "
        "Without a difference, wins and losses have a probability of 2% to 48% each; otherwise of "
        "5% to 95%. The last column has the probabilities of the minimum.",
        "",
        *table(head, rows),
        "",
    ]


def score_coverage(units: int, chances: list[tuple[float, float]]) -> np.ndarray:
    """Return the coverage for each pair of probabilities of a win and of a loss."""
    some = range(units + 1)
    counts = np.array([(wins, losses) for wins in some for losses in some[: units + 1 - wins]])
    wins, changes = counts[:, :1], counts.sum(axis=1, keepdims=True)
    place = np.arange(units)
    found = comparison(runs_of(BINARY, (place >= wins) & (place < changes), place < wins), BINARY)
    low, high = (found[name].to_numpy() for name in ("low", "high"))
    shares = []
    for win, loss in chances:
        likely = stats.multinomial.pmf(
            np.hstack([counts, units - changes]), units, [win, loss, 1 - win - loss]
        )
        inside = (low <= win - loss + ROUNDING) & (high >= win - loss - ROUNDING)
        shares.append(likely[inside].sum())
    return np.array(shares)


def resampled_differences(study: Study) -> list[str]:
    lines = [
        "## Differences: resampling",
        "",
        f'With {study.replicates:,} resamples. The interval of "bootstrap" is null in some logs, '
        "which do not count.",
        "",
    ]
    chosen = [each for each in PAIRS if each.metric == OTHER] + [PAIRS[1]]
    for test, units in (("randomization", (5, *FEWER_UNITS)), ("bootstrap", FEWER_UNITS)):
        rows = []
        for pairs in chosen:
            cells = [
                covered(compared(study, pairs, each, test), pairs.difference) for each in units
            ]
            rows.append((pairs.name, pairs.why, cells))
        lines += [
            f'### test="{test}"',
            "",
            *study.coverages(f"compare, {test}", ["values", *units_head(units)], rows),
            "",
        ]
    return lines


def unequal_differences(study: Study) -> list[str]:
    rows = []
    for sizes in SIZES:
        for pairs in (PAIRS[1], PAIRS[4], PAIRS[7]):
            cells = [weighted_runs(study, sizes, pairs, units) for units in UNITS]
            rows.append((f"{sizes.name} weights; {pairs.name}", pairs.why, cells))
    for sizes in SIZES:
        if sizes.heavy[1]:
            cells = [dependent_runs(study, sizes, units) for units in UNITS]
            name = f"{sizes.name} weights; 0 or 1, differences depend on weights"
            rows.append((name, DEPENDENT, cells))
    for sizes in SIZES:
        for values in (USER_VALUES[0], USER_VALUES[2]):
            cells = [clustered_runs(study, sizes, values, users) for users in UNITS]
            rows.append((f"{sizes.name} clusters; {values.name}", values.why, cells))
    return [
        "## Differences with weights and clusters: `compare(weight=..., cluster=...)`",
        "",
        "Runs without a difference, except lognormal differences; the share of false positives is "
        "1 minus the coverage.",
        "",
        *study.coverages("compare", ["", *units_head()], rows),
        "",
    ]


def weighted_runs(study: Study, sizes: Sizes, pairs: Pairs, units: int) -> Coverage:
    shape = study.shape(units)
    base, run = pairs.draw(study.random, shape)
    lists = runs_of(pairs.metric, base, run, weight=sizes.draw(study.random, shape))
    return covered(comparison(lists, pairs.metric, weight="weight"), pairs.difference)


def dependent_runs(study: Study, sizes: Sizes, units: int) -> Coverage:
    """Compare two runs of which one is better for heavy queries and worse for the others."""
    shape = study.shape(units)
    weights = sizes.draw(study.random, shape)
    begin, share = sizes.heavy
    heavy, drawn = weights >= begin, study.random.random(shape)
    wins = np.where(heavy, 0.4, 0.05)
    losses = np.where(heavy, 0.1, 0.05 + 0.3 * share / (1 - share))
    won, lost = drawn < wins, (drawn >= wins) & (drawn < wins + losses)
    lists = runs_of(BINARY, lost, won, weight=weights)
    return covered(comparison(lists, BINARY, weight="weight"), 0.0)


def clustered_runs(study: Study, sizes: Sizes, values: UserValues, users: int) -> Coverage:
    """Compare two runs with the same distribution, of which half of the users have both alike."""
    number, metric = sizes.draw(study.random, study.shape(users)), values.metric
    base, other = (of_users(study.random, number, values) for _ in "ab")
    same = (study.random.random(number.size) < 0.5)[base["user"].to_numpy()]
    run = pl.Series(metric, np.where(same, base[metric], other[metric]))
    runs = [base.with_columns(run=pl.lit("a")), base.with_columns(run, run=pl.lit("b"))]
    return covered(comparison(pl.concat(runs), metric, cluster="user"), 0.0)


# -- Relative differences and effect sizes --------------------------------------------------------


def loss(values: Values, share: float = 0.1) -> Pairs:
    """Return two runs, one of which loses this share of the other's values."""

    def draw(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        base = values.draw(random, shape)
        return base, np.where(random.random(shape) < share, 0.0, base)

    name, mean = f"{values.name}, {share:.0%} lost", values.mean * (1 - share)
    return Pairs(name, values.mean, mean, draw, values.metric, RARE)


def relative_differences(study: Study) -> list[str]:
    rows, nulls = [], []
    for pairs in (
        loss(RATES[1]),
        loss(RATES[2]),
        loss(PRECISION),
        loss(BETA),
        loss(ZEROS),
        loss(LOGNORMAL),
        alike(BETA),
    ):
        cells = []
        for units in UNITS:
            found = compared(study, pairs, units, "auto")
            truth = pairs.difference / pairs.base_mean
            cells.append(covered(found, truth, ("relative_low", "relative_high")))
        rows.append((pairs.name, RARE, cells))
        nulls.append([pairs.name, *(each.null for each in cells)])
    return [
        "## Relative differences: Fieller's intervals",
        "",
        "In the runs with losses, 10% of the values become 0.",
        "",
        *study.coverages("relative difference", ["values", *units_head()], rows),
        "",
        "Share of logs whose interval is null, because the baseline's mean may be 0 or all "
        "differences are equal:",
        "",
        *table(["values", *units_head()], nulls),
        "",
    ]


def effect_sizes(study: Study) -> list[str]:
    normal = Values("normal", 0.0, lambda random, shape: random.normal(0, 1, shape))
    of_zeros = math.sqrt(0.1 * (0.25 + 0.25 / 2.4) - 0.05**2)
    of_lognormal = math.sqrt((math.e - 1) * math.e)
    cases = [
        *(shifted(normal, 1.0, effect) for effect in (0.0, 0.5, 1.0)),
        *(shifted(LOGNORMAL, of_lognormal, effect) for effect in (0.0, 0.5)),
        *(shifted(ZEROS, of_zeros, effect) for effect in (0.0, 0.05 / of_zeros)),
        *(shifted(T3, math.sqrt(3), effect) for effect in (0.0, 0.5)),
        *(of_rates(base, run) for base, run in ((0.1, 0.2), (0.2, 0.6))),
    ]
    bounds = ("effect_low", "effect_high")
    rows = []
    for pairs, effect in cases:
        found = (compared(study, pairs, units, "auto") for units in UNITS)
        why = KURTOSIS if effect and pairs.why in (RARE, TAILS) else pairs.why
        rows.append((pairs.name, why, [covered(each, effect, bounds) for each in found]))
    return [
        "## Effect sizes: the delta method",
        "",
        *study.coverages("effect size", ["differences", *units_head()], rows),
        "",
    ]


def shifted(values: Values, std: float, effect: float) -> tuple[Pairs, float]:
    """Return two runs that differ by these values with another mean, and the effect size."""

    def draw(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(shape), (values.draw(random, shape) - values.mean) / std + effect

    return Pairs(f"{values.name}, effect {effect:.1f}", 0.0, effect, draw, why=values.why), effect


def of_rates(base: float, run: float) -> tuple[Pairs, float]:
    """Return two runs with values of 0 or 1, and the effect size."""
    # Half of the values have the same cause; the others are independent.
    win, loss = (run - base + run * (1 - base)) / 2, base * (1 - run) / 2
    return rates(base, run), (win - loss) / math.sqrt(win + loss - (win - loss) ** 2)


# -- Several metrics ------------------------------------------------------------------------------

METRICS = 5


def corrected_intervals(study: Study) -> list[str]:
    rows = []
    for name, draw in (("normal", correlated), ("0 or 1", correlated_rates)):
        for text, shifts in (("no", (0, 0, 0, 0, 0)), ("three", (0, 0, 1, 2, 4))):
            for units in (30, 100):
                lists, truth = draw(study.random, (study.logs, units), shifts)
                cells = [jointly(lists, truth, correction) for correction in ("none", "holm", "bh")]
                rows.append([f"{name}, {text} differences, {units} queries", *cells])
    return [
        "## Intervals of several metrics",
        "",
        f"{METRICS} metrics with correlations of 0.5. Without a correction, and with that of "
        '"holm" (and "bonferroni"): the share of logs in which all intervals contain the true '
        'differences. "bh": 1 minus the false coverage rate, the average share of intervals of '
        "rejected hypotheses that do not contain the true difference.",
        "",
        *table(["", "none", "holm", "bh"], rows),
        "",
    ]


def correlated(
    random: Random, shape: Shape, shifts: tuple[int, ...]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return logs with differences of several metrics, and their true differences."""
    std = math.sqrt(0.5)
    common = random.normal(0, std, shape)
    drawn = {
        f"x{place}": (np.zeros(shape), common + random.normal(0, std, shape) + 0.15 * shift)
        for place, shift in enumerate(shifts)
    }
    return of_metrics(drawn), truths([*drawn], [0.15 * shift for shift in shifts])


def correlated_rates(
    random: Random, shape: Shape, shifts: tuple[int, ...]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the same for values of 0 or 1."""
    common, drawn = random.random(shape), {}
    for place, shift in enumerate(shifts):
        base, run = (
            np.where(random.random(shape) < 0.5, common, random.random(shape)) for _ in "ab"
        )
        drawn[f"hit_rate@{place + 1}"] = (base < 0.3, run < 0.3 + 0.08 * shift)
    return of_metrics(drawn), truths([*drawn], [0.08 * shift for shift in shifts])


def of_metrics(drawn: dict[str, tuple[np.ndarray, np.ndarray]]) -> pl.DataFrame:
    """Return per-query values of two runs and several metrics."""
    tables = {name: runs_of(name, base, run) for name, (base, run) in drawn.items()}
    first, *others = tables
    return tables[first].with_columns(tables[name][name] for name in others)


def truths(metrics: list[str], differences: list[float]) -> pl.DataFrame:
    return pl.DataFrame({"metric": metrics, "truth": np.array(differences, float)})


def jointly(lists: pl.DataFrame, truth: pl.DataFrame, correction: str) -> float:
    """Return the share of logs whose intervals cover, or 1 minus the false coverage rate."""
    metrics = truth["metric"].to_list()
    tests = (
        of_all(lists, metrics, 0.95).group_by("log", maintain_order=True).agg("metric", "p_value")
    )
    # A call corrects for all of its rows: each log has a level of its own.
    level = [corrected_confidence(p.to_list(), correction, 0.95) for p in tests["p_value"]]
    rejected = [
        [p is not None and p <= 0.05 for p in corrected(p.to_list(), correction)]
        for p in tests["p_value"]
    ]
    tests = tests.with_columns(level=pl.Series(level), rejected=pl.Series(rejected))
    found = pl.concat(
        of_all(lists.join(logs.select("log"), on="log", how="semi"), metrics, confidence)
        for (confidence,), logs in tests.group_by("level")
    )
    check_level(lists, metrics, correction, found)
    rows = found.join(truth, on="metric").join(
        tests.explode("metric", "p_value", "rejected").drop("p_value"), on=["log", "metric"]
    )
    low, high = pl.col("low") - ROUNDING, pl.col("high") + ROUNDING
    inside, chosen = pl.col("truth").is_between(low, high), pl.col("rejected")
    if correction == "bh":
        wrong = (chosen & ~inside).sum() / chosen.sum().clip(1)
        return 1 - rows.group_by("log").agg(wrong.alias("wrong"))["wrong"].mean()
    return rows.group_by("log").agg(inside.all().alias("all"))["all"].mean()


def check_level(
    lists: pl.DataFrame, metrics: list[str], correction: str, found: pl.DataFrame
) -> None:
    """Raise unless the corrected intervals of the first log are the same in a call for itself."""
    alone = of_all(lists.filter(log=0), metrics, 0.95, correction)
    assert np.allclose(alone["low_corrected"], found.filter(log=0).sort("metric")["low"])


def of_all(
    lists: pl.DataFrame, metrics: list[str], confidence: float, correction: str = "none"
) -> pl.DataFrame:
    """Return `compare` of each log and metric."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        found = pr.compare(
            lists, metrics, baseline="a", by="log", confidence=confidence, correction=correction
        )
    return found.sort("log", "metric")


# -- Gates ----------------------------------------------------------------------------------------


def gates(study: Study) -> list[str]:
    return [
        "## Gates: wrong passes at the boundary",
        "",
        "The true value is at the bound of the rule, so that a share of 0.025 of the logs may "
        "pass.",
        "",
        "### Rules on means of values of 0 or 1",
        "",
        "Exactly, for rates of 2% to 98%; with weights, by simulation.",
        "",
        *exact_gates(),
        "",
        *weighted_gates(study),
        "",
        "### Rules on other means",
        "",
        "By t intervals.",
        "",
        *mean_gates(study),
        "",
        "### Rules on differences",
        "",
        *difference_gates(study),
        "",
    ]


def exact_gates() -> list[str]:
    rows = []
    rules = {"at least": ">=", "at most": "<="}
    for units in UNITS:
        found = summary(all_shares(units), BINARY)
        shares = {sign: [] for sign in rules}
        for rate in (np.arange(1, 50) / 50).tolist():
            chances = stats.binom.pmf(np.arange(units + 1), units, rate)
            for name, sign in rules.items():
                passes = verdicts(found, f"{BINARY} {sign} {rate!r}") == "pass"
                shares[name].append(float(chances[passes.to_numpy()].sum()))
        average = [float(np.mean(each)) for each in shares.values()]
        rows.append([f"{units:,}", *average, *(max(each) for each in shares.values())])
    head = ["queries", "`>=`, average", "`<=`, average", "`>=`, maximum", "`<=`, maximum"]
    return table(head, rows)


def weighted_gates(study: Study) -> list[str]:
    rows = []
    for sizes in SIZES[1:]:
        for values in (RATES[1], RATES[2], None):
            if values is None and not sizes.heavy[1]:
                continue
            cells = []
            for units in UNITS:
                found, truth = weighted_summary(study, sizes, values, units)
                cells.append(
                    max(
                        (verdicts(found, f"{BINARY} {sign} {truth!r}") == "pass").mean()
                        for sign in (">=", "<=")
                    )
                )
            name = "0 or 1, depends on weights" if values is None else values.name
            rows.append([f"{sizes.name} weights; {name}", *cells])
    return ["The larger share of `>=` and `<=`:", "", *table(["", *units_head()], rows)]


def mean_gates(study: Study) -> list[str]:
    chosen = (PRECISION, BETA, ZEROS, LOGNORMAL, T3)
    parts = {">=": [], "<=": [], "unnoticed": []}
    for values in chosen:
        cells = {name: [] for name in parts}
        for units in UNITS:
            drawn = logs_of(OTHER, values.draw(study.random, study.shape(units)))
            found = summary(drawn, OTHER)
            unnoticed = []
            for sign in (">=", "<="):
                passes = verdicts(found, f"{OTHER} {sign} {values.mean!r}") == "pass"
                cells[sign].append(passes.mean())
                unnoticed.append((passes & ~found["warned"]).mean())
            cells["unnoticed"].append(max(unnoticed))
        for name, row in cells.items():
            parts[name].append([values.name, *row])
    texts = {
        ">=": "The mean is at least its true value:",
        "<=": "The mean is at most its true value:",
        "unnoticed": "The larger of the two shares without a warning:",
    }
    lines = []
    for name, text in texts.items():
        lines += [text, "", *table(["values", *units_head()], parts[name]), ""]
    return lines[:-1]


def difference_gates(study: Study) -> list[str]:
    """Return the shares of wrong passes, and of those without a warning."""
    rows, unnoticed = [], []
    drawn = (PRECISION, BETA, ZEROS, LOGNORMAL)
    for pairs in (rates(0.1, 0.05), rates(0.9, 0.85), *map(loss, drawn)):
        found = {units: compared(study, pairs, units, "auto") for units in UNITS}
        truths = {
            "difference": pairs.difference,
            "relative_difference": pairs.difference / pairs.base_mean,
        }
        for column, truth in truths.items():
            rule = f"{column}({pairs.metric}) >= {truth!r}"
            passes = [verdicts(each, rule) == "pass" for each in found.values()]
            name = f"`{column}`; {pairs.name}"
            rows.append([name, *(each.mean() for each in passes)])
            both = zip(passes, found.values(), strict=True)
            unnoticed.append([name, *((each & ~table["warned"]).mean() for each, table in both)])
    head = ["", *units_head()]
    return [*table(head, rows), "", "Without a warning:", "", *table(head, unnoticed)]


# -- Other tests, and sequences -------------------------------------------------------------------


def other_tests(study: Study) -> list[str]:
    shape = (study.logs // 2, 200)
    cases = {
        "differences of beta(0.7, 0.7)": simulated.ndcg(study.random, shape)
        - simulated.ndcg(study.random, shape),
        "differences of p@3": PRECISION.draw(study.random, shape)
        - PRECISION.draw(study.random, shape),
        "exponential differences": study.random.exponential(0.2, shape) - 0.2,
        "90% equal, others normal": np.where(
            study.random.random(shape) < 0.1, study.random.normal(0, 0.3, shape), 0.0
        ),
    }
    rows = []
    for name, drawn in cases.items():
        lists = runs_of(OTHER, np.zeros(shape), drawn)
        cells = []
        for test in TESTS:
            found = comparison(lists, OTHER, test, n_resamples=study.replicates)
            cells.append((found["p_value"] <= 0.05).fill_null(value=False).mean())
        rows.append([name, *cells])
    return [
        "## Share of p-values of at most 0.05 without a difference, by test",
        "",
        f"With 200 queries. The sign test has few distinct p-values: its level is "
        f"{level_of_signs(200):.4f}. For skewed differences with mean 0, Wilcoxon's test and the "
        "sign test reject because the median is not 0.",
        "",
        *table(["", *TESTS], rows),
        "",
    ]


def level_of_signs(queries: int) -> float:
    """Return the rejection rate of the sign test if no difference is 0."""
    wins = np.arange(queries + 1)
    chances = stats.binom.pmf(wins, queries, 0.5)
    tails = np.minimum(np.cumsum(chances), np.cumsum(chances[::-1])[::-1])
    return float(chances[2 * tails <= 0.05].sum())


def few_changes(study: Study) -> list[str]:
    rows = []
    for changed, queries in ((2, 200), (10, 200), (2, 2), (3, 3), (6, 6), (10, 10)):
        difference = np.zeros((study.logs // 2, queries))
        difference[:, :changed] = study.random.normal(0, 0.3, (len(difference), changed))
        lists = runs_of(OTHER, np.zeros_like(difference), difference)
        cells = []
        for test in TESTS[:3]:
            found = comparison(lists, OTHER, test, n_resamples=study.replicates)
            cells.append((found["p_value"] <= 0.05).fill_null(value=False).mean())
        rows.append([f"{changed} of {queries:,}", *cells, found["p_value"].is_null().mean()])
    return [
        "## The same with few changed queries",
        "",
        "The changes are from a normal distribution with mean 0. A null does not count as a "
        "p-value below 0.05.",
        "",
        *table(["", *TESTS[:3], "bootstrap: null"], rows),
        "",
    ]


def sequences(study: Study) -> list[str]:
    """Compute confidence sequences of growing logs by merging the moments of days."""
    logs = study.logs // 2
    cases = (
        (BETA, study.looks, 200),
        (RATES[0], 40, 50),
        (RATES[0], 40, 10),
    )
    rows = []
    for values, looks, step in cases:
        drawn = values.draw(study.random, (logs, step * looks)).astype(float)
        # As values of another metric: the sequence is for means of any values.
        lists = logs_of(OTHER, drawn).with_columns(day=pl.col("query") % (step * looks) // step)
        days = pr.stats.moments(lists, [OTHER], by=["log", "day"])
        cells = []
        for interval in ("sequence", "t"):
            every = []
            for day in range(looks):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", pr.errors.RankWarning)
                    found = pr.summarize(
                        days.filter(pl.col("day") <= day), by="log", interval=interval
                    )
                every.append(
                    found.select("log", inside=pl.lit(values.mean).is_between("low", "high"))
                )
            always = pl.concat(every).group_by("log").agg(pl.col("inside").all())
            cells.append(always["inside"].mean())
        rows.append([f"{values.name}, {looks} looks, every {step}", *cells])
    return [
        "## Share of logs whose confidence sequence contains the true mean at every look",
        "",
        "Intervals that are null, because all values are equal so far, do not count.",
        "",
        *table(["values", "sequence", "t"], rows),
        "",
    ]


SECTIONS: tuple[Section, ...] = (
    *(means, resampled_means, weighted_means, clustered_means),
    *(differences, score_intervals, resampled_differences, unequal_differences),
    *(relative_differences, effect_sizes, corrected_intervals, gates),
    *(other_tests, few_changes, sequences),
)


def main() -> None:
    options = arguments()
    study, lines = Study(options), []
    for section in SECTIONS:
        if options.only in (None, section.__name__):
            started, used = time.perf_counter(), time.process_time()
            lines += section(study)
            wall, cpu = time.perf_counter() - started, time.process_time() - used
            print(f"{section.__name__}: {wall:.0f} s, {cpu:.0f} s of CPU", file=sys.stderr)
    publish("\n".join([*introduction(study, options), *lines]).rstrip() + "\n", options.output)


def introduction(study: Study, options: argparse.Namespace) -> list[str]:
    error = 2 * math.sqrt(0.05 * 0.95 / study.logs)
    return [
        "# Coverage and error rates, by simulation",
        "",
        f"Generated by `python -m tests.benchmarks.coverage`: {study.logs:,} logs "
        f"({study.logs // 2:,} with 1,000 units), seed {options.seed}. By chance, shares near 0.95 "
        f"move by {error:.3f} either way ({1.4 * error:.3f} with 1,000 units; two standard errors). "
        "Columns are the number of queries, or of units with weights or clusters.",
        "",
        "Tables of coverage show the share of 95% intervals that contain the true value. A cell "
        "below 0.93 has a star if at most 7% of the logs have a wrong interval without a warning of "
        "`summarize`, `compare` or `check`; otherwise it is bold. Intervals that are null have a "
        "warning, and do not count as wrong.",
        "",
        "## Cells below 0.93 without a warning",
        "",
        f"Of {len(study.cells)} cells, {sum(each.is_low for each in study.cells)} are below 0.93; in "
        f"{len(study.low)} of these, more than 7% of the logs have a wrong interval without a "
        "warning:",
        "",
        *table(["", "units", "coverage", "warned", "wrong without a warning", "why"], study.low),
        "",
        *(f"- {text}" for text in REASONS),
        "",
    ]


REASONS = (
    "Few distinct samples: coverage jumps where the true value passes the bound of a frequent "
    "sample. Intervals of values of 0 or 1 hold their level on average over rates, not for each.",
    "Rare values: samples without the rare, high values have means and standard errors that are "
    "too small. `check` warns of t intervals of skewed samples, but samples without the rare "
    "values are not skewed, and it does not warn of other methods.",
    "Heavy tails: the standard error is too large in samples with an extreme value, and too small "
    "in the others.",
    "Values depend on weights: an effective number of values does not show that the heavy ones "
    "vary more than the others.",
    "Chance: of cells with a coverage of 0.95 and 500 logs, 2% are below 0.93.",
    "Kurtosis: the interval of the effect size assumes that of a gamma distribution with the same "
    "skewness.",
)


if __name__ == "__main__":
    main()
