"""Simulated per-query values with known means, and what their intervals cover.

Each simulated log is one group of a table, so that all of them are one call.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl

import polars_rank as pr
from polars_rank.stats.decisions import decide

Random = np.random.Generator
Shape = tuple[int, ...]

#: The largest weights of a Pareto distribution with an infinite variance.
MOST = 1_000
#: A metric whose values are 0 or 1 by definition, and one of other values.
BINARY, OTHER = "hit_rate@10", "x"
#: Below this number of units, some intervals have warnings.
FEW = 30
#: True values at a bound are inside.
ROUNDING = 1e-12


class Values(NamedTuple):
    """A distribution of per-query values with a known mean."""

    name: str
    mean: float
    draw: Callable[[Random, Shape], np.ndarray]
    metric: str = OTHER
    #: Why t intervals miss the mean of few values.
    why: str = ""


#: Samples without rare, high values have means and standard errors that are too small.
RARE = "rare values"
#: Coverage jumps where the true value passes the bound of a frequent sample.
DISCRETE = "few distinct samples"
#: A few samples have an extreme value.
TAILS = "heavy tails"
#: Few units have most of the weight.
UNEQUAL = "unequal sizes"
#: Units with a high weight have other values.
DEPENDENT = "values depend on weights"


def rate(share: float) -> Values:
    """Return values of 1 with this probability, else 0."""
    return Values(
        f"0 or 1, {share:.0%}", share, lambda random, shape: random.random(shape) < share, BINARY,
        DISCRETE,
    )  # fmt: skip


def ndcg(random: Random, shape: Shape) -> np.ndarray:
    return random.beta(0.7, 0.7, shape)


def mostly_zeros(random: Random, shape: Shape) -> np.ndarray:
    return np.where(random.random(shape) < 0.1, ndcg(random, shape), 0.0)


def lognormal(random: Random, shape: Shape) -> np.ndarray:
    return random.lognormal(0, 1, shape)


def precision(random: Random, shape: Shape) -> np.ndarray:
    return random.choice(np.arange(4) / 3, p=[0.35, 0.25, 0.2, 0.2], size=shape)


RATES = (rate(0.02), rate(0.1), rate(0.9))
PRECISION = Values("p@3", 5 / 12, precision, why=DISCRETE)
BETA = Values("beta(0.7, 0.7), as NDCG", 0.5, ndcg)
ZEROS = Values("90% zeros, others beta", 0.05, mostly_zeros, why=RARE)
LOGNORMAL = Values("lognormal", math.exp(0.5), lognormal, why=RARE)
T3 = Values("t with 3 degrees", 0.0, lambda random, shape: random.standard_t(3, shape), why=TAILS)


class Pairs(NamedTuple):
    """A distribution of the values of two runs, with known means."""

    name: str
    base_mean: float
    run_mean: float
    draw: Callable[[Random, Shape], tuple[np.ndarray, np.ndarray]]
    metric: str = OTHER
    why: str = ""

    @property
    def difference(self) -> float:
        return self.run_mean - self.base_mean


def alike(values: Values) -> Pairs:
    """Return two runs with the same distribution; half of their values are equal."""

    def draw(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        base, other = values.draw(random, shape), values.draw(random, shape)
        return base, np.where(random.random(shape) < 0.5, base, other)

    return Pairs(values.name, values.mean, values.mean, draw, values.metric, values.why)


def rates(base: float, run: float) -> Pairs:
    """Return two runs with values of 0 or 1; a half of their values have the same cause."""

    def draw(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        same, other = random.random(shape), random.random(shape)
        cause = np.where(random.random(shape) < 0.5, same, other)
        return same < base, cause < run

    return Pairs(f"0 or 1, {base:.0%} and {run:.0%}", base, run, draw, BINARY, DISCRETE)


def gains(name: str, values: Values) -> Pairs:
    """Return two runs that differ by these values."""

    def draw(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(shape), values.draw(random, shape)

    return Pairs(name, 0.0, values.mean, draw, why=values.why)


def redrawn(random: Random, shape: Shape) -> tuple[np.ndarray, np.ndarray]:
    base = ndcg(random, shape)
    return base, np.where(random.random(shape) < 0.1, ndcg(random, shape), base)


PAIRS = (
    *map(alike, (*RATES, PRECISION, BETA)),
    Pairs("90% equal, others beta", 0.5, 0.5, redrawn, why="few differences are not 0"),
    gains("90% equal, others better", ZEROS),
    gains("lognormal", LOGNORMAL),
    gains("t with 3 degrees", T3),
)


class Sizes(NamedTuple):
    """A distribution of weights, or of the number of queries of a user."""

    name: str
    draw: Callable[[Random, Shape], np.ndarray]
    #: Where the heaviest tenth of units begins, and its share of all weight.
    heavy: tuple[float, float]


def one_with_half(random: Random, shape: Shape) -> np.ndarray:
    sizes = np.full(shape, 4)
    sizes[:, 0] = 4 * (shape[1] - 1)
    return sizes


def pareto(random: Random, shape: Shape) -> np.ndarray:
    return np.minimum(1 + random.pareto(1.5, shape), MOST)


def of_pareto(share: float) -> tuple[float, float]:
    """Return where the heaviest share of units begins, and its share of all weight."""
    begin, beyond = share ** (-1 / 1.5), 2 / math.sqrt(MOST)
    return begin, (3 / math.sqrt(begin) - beyond) / (3 - beyond)


SIZES = (
    Sizes("equal", lambda random, shape: np.full(shape, 4), (math.inf, 0.0)),
    Sizes("geometric", lambda random, shape: random.geometric(0.25, shape), (9, 0.3)),
    Sizes("Pareto", pareto, of_pareto(0.1)),
    Sizes("one has half", one_with_half, (math.inf, 0.0)),
)


class UserValues(NamedTuple):
    """A distribution of values of queries that are alike within users, with a known mean."""

    name: str
    mean: float
    metric: str
    why: str
    #: Levels of users, given their number of queries, and values of queries, given their level.
    level: Callable[[Random, np.ndarray], np.ndarray]
    draw: Callable[[Random, np.ndarray], np.ndarray]


def bernoulli(random: Random, level: np.ndarray) -> np.ndarray:
    return random.random(level.shape) < level


USER_VALUES = (
    UserValues("0 or 1, 10%", 0.1, BINARY, DISCRETE,
               lambda random, sizes: random.beta(0.3, 2.7, sizes.shape), bernoulli),
    UserValues("0 or 1, 10%, users alike", 0.1, BINARY, DISCRETE,
               lambda _, sizes: np.full(sizes.shape, 0.1), bernoulli),
    UserValues("normal", 0.5, OTHER, UNEQUAL,
               lambda random, sizes: random.normal(0.5, 0.15, sizes.shape),
               lambda random, level: random.normal(level, 0.2)),
    UserValues("lognormal", math.exp(0.5), OTHER, RARE,
               lambda random, sizes: random.normal(0, 0.6, sizes.shape),
               lambda random, level: random.lognormal(level, 0.8)),
)  # fmt: skip
#: For sizes of a geometric distribution with the mean 4: a tenth of the users have 9 queries or
#: more, and 30% of all queries.
OF_SIZES = UserValues(
    "0 or 1, depends on size", 0.3 * 0.5 + 0.7 * 0.95, BINARY, DEPENDENT,
    lambda _, sizes: np.where(sizes >= 9, 0.5, 0.95), bernoulli,
)  # fmt: skip


# -- Tables of logs -------------------------------------------------------------------------------


def logs_of(metric: str, drawn: np.ndarray, **more: np.ndarray) -> pl.DataFrame:
    """Return per-query values; a row of `drawn` is a log."""
    query = np.arange(drawn.size)  # else all logs would share their draws
    columns = {name: each.ravel() for name, each in more.items()}
    values = drawn.ravel().astype(float)
    return pl.DataFrame({"log": query // drawn.shape[1], "query": query, metric: values, **columns})


def runs_of(metric: str, base: np.ndarray, run: np.ndarray, **more: np.ndarray) -> pl.DataFrame:
    """Return per-query values of the runs "a" and "b"."""
    runs = {"a": base, "b": run}
    tables = (
        logs_of(metric, drawn, **more).with_columns(run=pl.lit(name))
        for name, drawn in runs.items()
    )
    return pl.concat(tables)


def of_clusters(table: pl.DataFrame, sizes: np.ndarray) -> pl.DataFrame:
    """Return a table with a row per query from one with a row per user."""
    number = np.round(sizes).astype(int).ravel()
    rows = table.with_columns(user=pl.col("query"))[np.repeat(np.arange(table.height), number)]
    return rows.with_columns(query=pl.int_range(pl.len()))


def of_users(random: Random, sizes: np.ndarray, values: UserValues) -> pl.DataFrame:
    """Return per-query values of users with these numbers of queries."""
    rows = of_clusters(logs_of("level", values.level(random, sizes)), sizes)
    drawn = values.draw(random, rows["level"].to_numpy())
    return rows.with_columns(pl.Series(values.metric, drawn.astype(float)))


# -- Coverage -------------------------------------------------------------------------------------


class Coverage(NamedTuple):
    """The share of intervals that contain the true value, and of logs with a warning."""

    covered: float | None
    #: Shares of all logs: without an interval, with a warning, and with a wrong interval without it.
    null: float
    warned: float
    unnoticed: float

    @property
    def is_low(self) -> bool:
        return self.covered is not None and bool(round(self.covered, 3) < 0.93)

    @property
    def is_unnoticed(self) -> bool:
        return self.is_low and bool(self.unnoticed > 0.07)

    def __str__(self) -> str:
        if self.covered is None:
            return "-"
        text = f"{self.covered:.3f}"
        return f"**{text}**" if self.is_unnoticed else text + "*" * self.is_low


def covered(
    found: pl.DataFrame,
    truth: float,
    bounds: tuple[str, str] = ("low", "high"),
    chances: np.ndarray | None = None,
) -> Coverage:
    """Return what the intervals of logs cover; `chances` are those of the logs, if they differ."""
    chances = np.full(found.height, 1 / found.height) if chances is None else chances
    low, high = (found[name].fill_nan(None) for name in bounds)
    known = (low.is_not_null() & high.is_not_null()).to_numpy()
    inside = (low <= truth + ROUNDING) & (high >= truth - ROUNDING)
    inside = inside.fill_null(value=False).to_numpy()
    warned = found["warned"].to_numpy()
    share = float(chances[known].sum())
    return Coverage(
        float(chances[inside].sum()) / share if share > ROUNDING else None,
        max(1 - share, 0.0),
        float(chances[warned].sum()),
        float(chances[known & ~inside & ~warned].sum()),
    )


def with_warnings(found: pl.DataFrame, values: pl.Series) -> pl.DataFrame:
    """Add whether `summarize`, `compare` or `check` warns of each log."""
    compares, weighted = "difference" in found.columns, "effective" in found.columns
    n = pl.col("effective" if weighted else "used")
    resampled = pl.col("interval").is_in(["bootstrap", "studentized"])
    few = (n < FEW) & (weighted | resampled)
    in_range = values.is_between(0, 1).all()
    least = -1 if compares else 0
    beyond = (n < FEW) & in_range & ((pl.col("low") < least) | (pl.col("high") > 1))
    column = "difference" if compares else "mean"
    skewed = [decide(row, column, lambda _: True).is_skewed for row in found.iter_rows(named=True)]
    warned = pl.any_horizontal(few, beyond, pl.col("low").is_null(), pl.Series(skewed))
    return found.with_columns(warned=warned.fill_null(value=False))


def summary(lists: pl.DataFrame, metric: str, interval: str = "auto", **more: Any) -> pl.DataFrame:
    """Return `summarize` of each log, and whether there is a warning of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        found = pr.summarize(lists, [metric], by="log", interval=interval, **more)
    return with_warnings(found.sort("log"), lists[metric])


def comparison(lists: pl.DataFrame, metric: str, test: str = "auto", **more: Any) -> pl.DataFrame:
    """Return `compare` of each log, and whether there is a warning of it."""
    given = {"correction": "none", "baseline": "a", **more}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        found = pr.compare(lists, metrics=[metric], by="log", test=test, **given)
    return with_warnings(found.sort("log"), lists[metric])


def all_shares(units: int) -> pl.DataFrame:
    """Return a log for each number of ones among `units` values of 0 or 1."""
    ones = np.arange(units + 1)[:, None]
    return logs_of(BINARY, np.arange(units)[None, :] < ones)


def verdicts(result: pl.DataFrame, rule: str) -> pl.Series:
    """Return the verdict of a rule on each log."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        return pr.check(result, [rule], on_fail="return")["verdict"]


def table(head: list[str], rows: list[list[object]]) -> list[str]:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return lines + ["| " + " | ".join(map(written, row)) + " |" for row in rows]


def written(cell: object) -> str:
    if cell is None:
        return "-"
    return f"{cell:.3f}" if isinstance(cell, float) else str(cell)
