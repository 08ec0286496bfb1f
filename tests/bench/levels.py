"""Measure the levels of all statistics on simulated logs: coverage, false alarms and power.

    python -m tests.bench.levels [--logs 500] [--only SECTION,…] [--output FILE]

The tables are parts of levels.md. A simulated log is one group of a table, so that all logs of a cell
are one call. Ranks of a leaderboard, for which groups are tasks, take a call for each log.
"""

from __future__ import annotations

import math
import platform
import re
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy
from scipy import special, stats

import polars_rank as pr
from tests.bench.pages import arguments, publish
from tests.parts import filled

Array = Any
Random = np.random.Generator
Draw = Callable[[Random, tuple[int, ...]], Array]
Row = Sequence[object]
Rows = Callable[[Random, int], Iterator[Row]]
PAGE = Path(__file__).with_name("levels.md")
#: Cells beyond these limits are bold, and are listed at the end: coverage, which should be 0.95,
#: shares of false alarms, which should be at most 0.05, of wrong passes, at most 0.025, and planned
#: power, 0.8. For 500 logs, shares are three standard errors away: there are 600 cells.
COVERED, ALARMS, PASSES, POWER = 0.92, 0.08, 0.046, 0.75
#: The names of metrics with values in [0, 1] and of 0 or 1, and of values without a known range.
NDCG, HITS, ANY = "ndcg@10", "hit_rate@5", "x"
#: Verdicts by which a run can be shipped.
SHIPPED = ("better", "equivalent", "not worse")
#: The messages of the warnings of each call of the library.
CALLS: list[list[str]] = []
#: The largest weight of a Pareto distribution, whose variance is infinite.
MOST = 1_000
#: Bounds at the true value contain it, up to rounding.
ROUNDING = 1e-12


# -- Tables ---------------------------------------------------------------------------------------


class Level(NamedTuple):
    """A share of logs, whether it is beyond its limit, and whether warnings excuse that."""

    value: float
    is_beyond: bool = False
    is_excused: bool = False

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "-"
        mark = "**" if self.is_beyond else ""
        return f"{mark}{self.value:.3f}{mark}" + "†" * self.is_excused


def at_most(limit: float, share: float, warned: float = 0.0) -> Level:
    """Return a share with its limit; `warned` is the share of logs with an excuse."""
    return Level(share, share - warned > limit, share > limit >= share - warned)


def at_least(limit: float, share: float, warned: float = 0.0) -> Level:
    return at_most(1 - limit, 1 - share, warned)._replace(value=share)


coverage, planned = partial(at_least, COVERED), partial(at_least, POWER)
alarms, wrong_passes = partial(at_most, ALARMS), partial(at_most, PASSES)


class Section(NamedTuple):
    """A table of the page, whose titles and texts are there."""

    head: Sequence[str]
    rows: Callable[[Random, int], Iterator[Row]]

    @property
    def title(self) -> str:
        """The title above the table."""
        before = PAGE.read_text(encoding="utf-8").partition(f"<!-- {self.rows.__name__}: ")[0]
        return before.rpartition("\n## ")[2].partition("\n")[0]

    def beyond(self, rows: Sequence[Row]) -> Iterator[str]:
        """Yield the cells beyond their limit."""
        for row in rows:
            keys = ", ".join(map(written, [each for each in row if isinstance(each, (str, int))]))
            for name, each in zip(self.head, row, strict=True):
                if isinstance(each, Level) and each.is_beyond:
                    yield f"- {self.title}: {keys}; {name} {each.value:.3f}"


SECTIONS: dict[str, Section] = {}


def section(head: str) -> Callable[[Rows], Rows]:
    """Return a decorator that adds the rows of a function to the page."""

    def added(rows: Rows) -> Rows:
        SECTIONS[rows.__name__] = Section(head.split(" | "), rows)
        return rows

    return added


def table(head: Sequence[str], rows: Sequence[Row]) -> str:
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return "\n".join([*lines, *("| " + " | ".join(map(written, row)) + " |" for row in rows)])


def written(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


# -- Logs -----------------------------------------------------------------------------------------


def of(name: str, *parameters: float) -> Draw:
    """Return a distribution of NumPy."""
    return lambda random, shape: getattr(random, name)(*parameters, shape)


def constant(value: float) -> Draw:
    return lambda _, shape: np.full(shape, float(value))


def mixed(share: float, usual: Draw, other: Draw) -> Draw:
    """Return a share of values from one distribution, and the others from another."""
    return lambda random, shape: np.where(
        random.random(shape) < share, usual(random, shape), other(random, shape)
    )


NORMAL, LOGNORMAL, EXPONENTIAL = of("normal", 0, 1), of("lognormal", 0, 1), of("exponential", 1)
BETA = of("beta", 0.7, 0.7)


def ids(shape: tuple[int, int]) -> dict[str, Array]:
    """Return the log and the query of each row."""
    log, query = np.indices(shape)
    return {"log": log.ravel(), "query": query.ravel()}


def table_of(columns: Mapping[str, Array], metric: str, **runs: Array) -> pl.DataFrame:
    """Return per-query values of several runs, given the other columns."""
    rows = pl.DataFrame(dict(columns))
    values = {name: pl.Series(metric, np.ravel(each), pl.Float64) for name, each in runs.items()}
    return pl.concat(
        rows.with_columns(each, pl.lit(name).alias("run")) for name, each in values.items()
    )


def result(function: Callable[..., Any], *given: Any, **options: Any) -> pl.DataFrame:
    """Return the result of a function of the library, and keep the messages of its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found: pl.DataFrame = function(*given, **options)
    messages = [str(e.message) for e in caught if issubclass(e.category, pr.errors.RankWarning)]
    # That a higher "x" is better is an assumption that holds here.
    CALLS.append([each for each in messages if not each.startswith("no metric is named")])
    return found


class Intervals(NamedTuple):
    """The intervals of all logs, NaN where there is none."""

    low: Array
    high: Array
    #: The share of logs with a warning that few units have most of the weight.
    warned: float = 0.0

    @property
    def none(self) -> float:
        """The share of logs without an interval."""
        return float(np.isnan(self.low).mean())

    def covered(self, truth: float) -> float:
        """Return the share of intervals that contain the true value; NaN if there are none."""
        known = 1 - self.none
        return 1 - (self.above(truth) + self.below(truth)) / known if known else math.nan

    def coverage(self, truth: float) -> Level:
        return coverage(self.covered(truth), self.warned)

    def above(self, truth: float) -> float:
        """Return the share of logs that show a value above the true one."""
        return float((self.low > truth + ROUNDING).mean())

    def below(self, truth: float) -> float:
        return float((self.high < truth - ROUNDING).mean())

    def sides(self, truth: float) -> tuple[Level, Level]:
        """Return the shares of logs that show a value above, and below, the true one."""
        return tuple(wrong_passes(each(truth), self.warned) for each in (self.above, self.below))

    def ratios(self, other: Intervals) -> Array:
        """Return the widths relative to others."""
        ratio = (self.high - self.low) / (other.high - other.low)
        return ratio[np.isfinite(ratio)] if np.isfinite(ratio).any() else np.array([math.nan])

    def width(self, other: Intervals) -> float:
        return float(np.median(self.ratios(other)))


class Found:
    """The rows of a result for all logs, and the messages of the call."""

    def __init__(self, table: pl.DataFrame, messages: Sequence[str]) -> None:
        self.table, self.messages = table.sort("log"), messages
        few = [each for each in messages if "most of the weight" in each]
        numbers = [re.search(r"([\d,]+) rows?\b", each) for each in few]
        rows = [int(n[1].replace(",", "")) if n else table.height for n in numbers]
        self.warned = min(sum(rows) / table.height, 1.0)

    def __getitem__(self, name: str) -> Array:
        return self.table[name].cast(pl.Float64).to_numpy()

    @property
    def own(self) -> Intervals:
        return Intervals(self["low"], self["high"], self.warned)

    @property
    def t(self) -> Intervals:
        """The t intervals of the same estimates, with Kish's number of units."""
        value = self["difference" if "difference" in self.table.columns else "mean"]
        half = special.stdtrit(np.maximum(self["effective"] - 1, 1e-9), 0.975) * self["std_error"]
        half = np.where(half > 0, half, np.nan)
        return Intervals(value - half, value + half)

    def run(self, name: str) -> Found:
        found = Found(self.table.filter(run=name), self.messages)
        found.warned = self.warned
        return found

    def verdict(self, *names: str) -> float:
        """Return the share of rows with one of some verdicts."""
        return float(self.table["verdict"].is_in(names).mean())


def compared(values: Any, **options: Any) -> Found:
    given = {"baseline": "a", "by": "log", "details": True, **options}
    return Found(result(pr.compare, values, **given), CALLS[-1])


def summarized(values: Any, **options: Any) -> Found:
    return Found(result(pr.summarize, values, by="log", details=True, **options), CALLS[-1])


# -- Units ----------------------------------------------------------------------------------------


class Units(NamedTuple):
    """Users with several queries, or queries with weights."""

    name: str
    draw: Draw
    are_users: bool

    @property
    def options(self) -> dict[str, str]:
        return {"cluster": "user"} if self.are_users else {"weight": "w"}

    def rows(self, random: Random, logs: int, number: int) -> dict[str, Array]:
        """Return the log, query, user and weight of each row."""
        sizes = np.asarray(self.draw(random, (logs, number)), dtype=float)
        if not self.are_users:
            return {**ids((logs, number)), "w": sizes.ravel()}
        counts = np.floor(sizes).astype(int)
        user = np.repeat(np.arange(logs * number), counts.ravel())
        log = user // number
        start = np.concatenate([[0], np.cumsum(counts.sum(axis=1))])
        return {"log": log, "query": np.arange(len(user)) - start[log], "user": user}


def pareto(random: Random, shape: tuple[int, ...]) -> Array:
    return np.minimum(1 + random.pareto(1.5, shape), MOST)


EQUAL = Units("equal queries", constant(1), are_users=False)
UNITS = (
    Units("4 queries per user", constant(4), are_users=True),
    Units("geometric users", of("geometric", 0.25), are_users=True),
    Units("Pareto users", pareto, are_users=True),
    Units("geometric weights", of("geometric", 0.25), are_users=False),
    Units("lognormal weights", LOGNORMAL, are_users=False),
    Units("Pareto weights", pareto, are_users=False),
)


def of_rows(rows: Mapping[str, Array], of_unit: Array) -> Array:
    """Return numbers of users for their rows; each query is its own user without the column."""
    return of_unit[rows["user"]] if "user" in rows else of_unit[: len(rows["log"])]


def hits(
    random: Random, units: Units, logs: int, number: int, rate: float, gain: float, runs: int = 2
) -> pl.DataFrame:
    """Return runs with values of 0 or 1; all but the first turn a share `gain` of 0 into 1.

    Users have rates of a beta distribution, so that their queries are correlated by 0.3; half of
    the values of two runs have the same cause.
    """
    rows = units.rows(random, logs, number)
    size = len(rows["log"])
    level = np.full(size, rate)
    if units.are_users:
        level = of_rows(rows, random.beta(rate * 7 / 3, (1 - rate) * 7 / 3, logs * number))
    same = random.random(size)
    values = {"a": same < level}
    for name in "bcd"[: runs - 1]:
        causes = np.where(random.random(size) < 0.5, same, random.random(size))
        values[name] = (causes < level) | (random.random(size) < gain)
    return table_of(rows, HITS, **values)


@section(
    "values | units | mean | mean, t | difference | difference, t | width / t | power | power of t"
)
def shares(random: Random, logs: int) -> Iterator[Row]:
    for rate, units, number in product((0.1, 0.5), (EQUAL, *UNITS), (50, 200)):
        null = hits(random, units, logs, number, rate, 0.0)
        mean = summarized(null.filter(run="a"), **units.options)
        pair = compared(null, **units.options)
        gain = min(2.8 * float(pair["difference"].std()) / (1 - rate), 0.9)
        better = compared(hits(random, units, logs, number, rate, gain), **units.options)
        yield [
            f"{rate:.0%}, {units.name}", number, mean.own.coverage(rate),
            Level(mean.t.covered(rate)), pair.own.coverage(0), Level(pair.t.covered(0)),
            pair.own.width(pair.t), Level(better.own.above(0)), Level(better.t.above(0)),
        ]  # fmt: skip


@section(
    "gains | queries | mean, baseline | mean, run | difference | difference, t | "
    "wrong above | wrong below"
)
def traffic(random: Random, logs: int) -> Iterator[Row]:
    gains: dict[str, Callable[[Array], Array]] = {
        "5% of the others gain": lambda weight: np.full(np.shape(weight), 0.05),
        "gains grow with traffic": lambda weight: weight / (weight + 20),
        "half of the largest 5% gain": lambda weight: 0.5 * (weight > math.exp(1.645)),
    }
    # The quantiles of the weights, for the true means.
    weights = np.exp(special.ndtri((np.arange(10**6) + 0.5) / 10**6))
    for (name, gain), queries in product(gains.items(), (50, 200, 1_000)):
        truth = 0.9 * np.average(gain(weights), weights=weights)
        weight = LOGNORMAL(random, (logs, queries))
        base = random.random(weight.shape) < 0.1
        run = base | (random.random(weight.shape) < gain(weight))
        table = table_of({**ids(weight.shape), "w": weight.ravel()}, HITS, a=base, b=run)
        means, pair = summarized(table, weight="w"), compared(table, weight="w")
        of_a, of_b = means.run("a").own.coverage(0.1), means.run("b").own.coverage(0.1 + truth)
        of_pair = pair.own.coverage(truth), Level(pair.t.covered(truth)), *pair.own.sides(truth)
        yield [name, queries, of_a, of_b, *of_pair]


def boards(
    random: Random, units: Units, logs: int, number: int, std: float, gain: float, runs: int = 2
) -> pl.DataFrame:
    """Return runs with values of queries and normal noise; all but the first are better."""
    shape = (logs, number)
    common = random.uniform(0.3, 0.65, shape)
    noise = std * random.normal(size=(runs, *shape)) / math.sqrt(2)
    noise[1:] += gain
    values = dict(zip("abcd", np.clip(common + noise, 0, 1), strict=False))
    return table_of(units.rows(random, *shape), NDCG, **values)


@section("values | runs | difference | queries | power")
def plans(random: Random, logs: int) -> Iterator[Row]:
    designs: list[tuple[str, Any, Units, float, float, float, int]] = [
        (f"0 or 1, {rate:.0%}, {units.name}", hits, units, rate, 0.1, 0.1 * (1 - rate), 2)
        for rate in (0.1, 0.5) for units in (EQUAL, *UNITS)
    ]  # fmt: skip
    designs += [("0 or 1, 10%, equal queries", hits, EQUAL, 0.1, 0.1, 0.09, 4)]
    designs += [("normal, std 0.14", boards, EQUAL, 0.14, 0.03, 0.03, runs) for runs in (2, 4)]
    for name, draw, units, level, gain, target, runs in designs:
        pilots = max(logs // 10, 2)
        pilot = draw(random, units, pilots, 150, level, gain, runs)
        plan = result(pr.power, pilot, baseline="a", by="log", difference=target, **units.options)
        needed = int(plan["needed"].median())
        number = max(round(needed * runs * pilots * 150 / pilot.height), 2)
        found = compared(draw(random, units, logs, number, level, gain, runs), **units.options)
        power = planned(found.own.above(0), found.warned)
        is_heavy = units.name in ("lognormal weights", "Pareto weights")
        yield [name, runs, target, needed, Level(power.value) if is_heavy else power]


class Skewed(NamedTuple):
    """A distribution of values with a known mean; of differences if `draw` returns two runs."""

    name: str
    truth: float
    draw: Callable[[Random, tuple[int, ...]], Any]
    metric: str = NDCG


def losses(share: float, others: Draw = BETA, noise: float = 0.0) -> Draw:
    """Return runs of which the second loses 1 in a share of the queries."""

    def draw(random: Random, shape: tuple[int, ...]) -> tuple[Array, Array]:
        values, lost = others(random, shape), random.random(shape) < share
        run = np.clip(values + noise * random.normal(size=shape), 0, 1)
        return np.where(lost, 1.0, values), np.where(lost, 0.0, run)

    return draw


def zeros(share: float) -> Skewed:
    name = f"{share:.0%} zeros, others beta"
    return Skewed(name, (1 - share) / 2, mixed(share, constant(0), BETA))


def rare(random: Random, shape: tuple[int, ...]) -> tuple[Array, Array]:
    base = BETA(random, shape)
    return base, np.where(random.random(shape) < 0.05, BETA(random, shape), base)


SKEWED = (
    *(Skewed(f"{share:.0%} lose 1", -share, losses(share)) for share in (0.01, 0.02, 0.05, 0.1)),
    *map(zeros, (0.8, 0.9, 0.93, 0.97)),
    Skewed("lognormal", math.exp(0.5), LOGNORMAL, ANY),
    Skewed("exponential", 1.0, EXPONENTIAL, ANY),
    Skewed("normal", 0.0, NORMAL, ANY),
    Skewed("5% differ, symmetric", 0.0, rare),
)


@section(
    "values | queries | covered | covered, t | none | wrong above | above, t | wrong below | "
    "below, t | width / t"
)
def skewed(random: Random, logs: int) -> Iterator[Row]:
    for (name, truth, draw, metric), queries in product(SKEWED, (20, 50, 200, 2_000)):
        shape = (logs, queries)
        drawn = draw(random, shape)
        if isinstance(drawn, tuple):
            found = compared(table_of(ids(shape), metric, a=drawn[0], b=drawn[1]))
        else:
            found = summarized(table_of(ids(shape), metric, a=drawn))
        own, of_t, (above, below) = found.own, found.t, found.own.sides(truth)
        covered = own.coverage(truth)
        if metric == ANY and queries < (100 if name == "lognormal" else 30):
            covered, above, below = (Level(each.value) for each in (covered, above, below))
        yield [
            name, queries, covered, Level(of_t.covered(truth)), Level(own.none), above,
            Level(of_t.above(truth)), below, Level(of_t.below(truth)), own.width(of_t),
        ]  # fmt: skip


@section("values | units | effective | covered | covered, t with Kish's number | width / t")
def heavy(random: Random, logs: int) -> Iterator[Row]:
    kinds = (("normal", 0.0, NORMAL), ("exponential", 1.0, EXPONENTIAL))
    days = [(*kinds[0], Units("equal days", constant(40), are_users=True), n) for n in (5, 10, 30)]
    cells = [(*kind, *others) for kind, *others in product(kinds, UNITS, (30, 100, 300))]
    for name, truth, draw, units, number in (*cells, *days):
        index = units.rows(random, logs, number)
        values = draw(random, (len(index["log"]),))
        if units.are_users:
            values = (values + of_rows(index, draw(random, (logs * number,)))) / 2
        found = summarized(table_of(index, ANY, a=values), **units.options)
        yield [
            f"{name}, {units.name}", number, float(np.median(found["effective"])),
            found.own.coverage(truth), Level(found.t.covered(truth)), found.own.width(found.t),
        ]  # fmt: skip


@section(
    "queries per user | users | effective | false alarms | of t | power | power of t | "
    "width / t, median | largest"
)
def users(random: Random, logs: int) -> Iterator[Row]:
    sizes: dict[str, Draw] = {
        "geometric": of("geometric", 0.1),
        "lognormal": lambda random, shape: np.ceil(random.lognormal(1.8, 1, shape)),
    }
    for (name, draw), number in product(sizes.items(), (40, 80)):
        index = Units(name, draw, are_users=True).rows(random, logs, number)
        base = random.uniform(0.45, 0.55, len(index["log"]))
        of_user = of_rows(index, random.normal(size=logs * number))
        run = base + 0.1 * (of_user + random.normal(size=len(base)))
        null = compared(table_of(index, NDCG, a=base, b=np.clip(run, 0, 1)), cluster="user")
        effective = float(np.median(null["effective"]))
        run += detected(effective, 0.63) * np.median(null["std_error"])
        better = compared(table_of(index, NDCG, a=base, b=np.clip(run, 0, 1)), cluster="user")
        found, ratios = better.own.above(0), null.own.ratios(null.t)
        yield [
            name, number, effective, alarms(1 - null.own.covered(0), null.warned),
            Level(1 - null.t.covered(0)), Level(found, found < 0.55 and (name, number) == ("geometric", 80)),
            Level(better.t.above(0)), float(np.median(ratios)), float(ratios.max()),
        ]  # fmt: skip


def detected(units: float, power: float) -> float:
    """Return the difference in standard errors that the t test detects with some power."""
    return float(special.nctdtrinc(units - 1, 1 - power, special.stdtrit(units - 1, 0.975)))


@section("columns | `compare`: p < .05 | `summarize`: covered | warning")
def repeated(random: Random, logs: int) -> Iterator[Row]:
    days, queries = 14, 100
    log, query, day = (each.ravel() for each in np.indices((logs, queries, days)))
    of_query = np.repeat(random.normal(size=logs * queries), days)
    noise = random.normal(size=len(of_query))
    index = {"log": log, "query": query, "day": day}
    table = table_of(index, ANY, a=np.zeros(len(log)), b=of_query + noise)
    means = table.group_by("run", "log", "query", maintain_order=True).agg(pl.col("x").mean())
    routes: dict[str, tuple[pl.DataFrame, dict[str, Any]]] = {
        'query=["query", "day"], cluster="query"':
            (table, {"query": ["query", "day"], "cluster": "query"}),
        'query=["query", "day"]': (table, {"query": ["query", "day"]}),
        "the mean of each query over the days": (means, {}),
        'query="query"': (table, {}),
    }  # fmt: skip
    for name, (values, options) in routes.items():
        try:
            pair = compared(values, **options)
            mean = summarized(values.filter(run="b"), **options)
        except pr.errors.DataError as error:
            yield [name, "-", "-", f"error: {str(error).split(':')[0].split(';')[0]}"]
            continue
        names_cluster = any('cluster="query"' in each for each in (*pair.messages, *mean.messages))
        said = 'yes, names cluster="query"' if names_cluster else "no"
        share, covered = float((pair["p_value"] < 0.05).mean()), mean.own.covered(0)
        levels = alarms(share), coverage(covered)
        yield [name, *(each if said == "no" else Level(each.value) for each in levels), said]


@section(
    "differences | between days | options | any look | from day 12 on | calls that warn | "
    "day of the first, median"
)
def days(random: Random, logs: int) -> Iterator[Row]:
    number, queries, first_day = 60, 40, date(2026, 1, 1)
    index = ids((max(min(logs, 200), 2), number * queries))
    index["day"] = np.datetime64(first_day) + index["query"] // queries
    differences = (
        *(("normal", 0.0, between, NORMAL) for between in (0.0, 0.16, 0.32)),
        ("exponential", 0.0, 0.0, lambda random, shape: random.exponential(size=shape) - 1),
        ("2% lose 1", -0.02, 0.0, mixed(0.02, constant(-1), constant(0))),
        ("normal, a loss of 0.1", 0.0, 0.0, of("normal", -0.1, 1)),
    )
    every = (2, 3, 4, 6, 9, 12, 18, 30, 60)
    designs = (("repeated", every), ("10 days", (10,)), ("60 days", (60,)))
    for name, truth, between, draw in differences:
        drawn = draw(random, (len(index["log"]),))
        drawn += np.repeat(random.normal(0, between, len(drawn) // queries), queries)
        base = np.where(drawn == -1, 1, 0.5 + 0.3 * random.random(len(drawn)))
        table = table_of(index, NDCG if truth else ANY, a=base, b=base + drawn)
        is_loss = name.endswith("0.1")
        for (design, looks), cluster in product(designs, ("day", None)):
            if name != "normal" and design != "repeated":
                continue
            until = [first_day + timedelta(days=look) for look in looks]
            options = {"repeated": design == "repeated", "cluster": cluster}
            found = [compared(table.filter(pl.col("day") < each), **options) for each in until]
            wrong = np.array([(each["low"] > truth) | (each["high"] < truth) for each in found])
            late = wrong[np.array(looks) >= 12].any(axis=0).mean()
            first = np.where(wrong.any(axis=0), np.array(looks)[wrong.argmax(axis=0)], number + 1)
            said = float(np.mean([any("day" in each for each in call.messages) for call in found]))
            level = Level if is_loss or (between and cluster is None) else alarms
            yield [
                name, f"{between:.2f}", f"{design}, cluster={cluster!r}",
                level(float(wrong.any(axis=0).mean())),
                level(float(late)) if len(looks) > 1 and not is_loss else "-",
                Level(said, cluster is None and design == "repeated" and said < 1),
                f"{np.median(first):.0f}" if is_loss and np.median(first) <= number else "-",
            ]  # fmt: skip


@section('values | rule | undecided="pass" | undecided="fail"')
def gates(random: Random, logs: int) -> Iterator[Row]:
    rule = "difference(ndcg@10) >= -0.03"
    shares = np.array([0.3, 0.2, 0.15, 0.15, 0.1, 0.1])
    names = np.array([f"c{place}" for place in range(6)])
    wheres = [{"rule": rule, "where": {"country": name}} for name in names]
    gates: dict[str, list[Any]] = {
        f'"{rule}": proof, and guard in slices': [rule],
        '"not difference(ndcg@10) < -0.03": guard': ["not difference(ndcg@10) < -0.03"],
        "proof in each slice, by `where`": [rule, *wheres],
    }
    for changed, loss in product((0.1, 0.5), (0.0, 0.06)):
        shape = (logs, 400)
        base, other = (0.06 + 0.94 * BETA(random, shape) for _ in range(2))
        run = np.where(random.random(shape) < changed, other, base) - loss
        index = {**ids(shape), "country": random.choice(names, p=shares, size=shape).ravel()}
        found = compared(table_of(index, NDCG, a=base, b=run), slices="country").table
        for name, rules in gates.items():
            fails, undecided = failed(found, rules, logs)
            guard = "guard" in name and not loss and "proof" not in name
            yield [
                f"{changed:.0%} of queries differ, loss {loss}", name,
                alarms(fails) if not loss else Level(fails),
                alarms(undecided) if guard else Level(undecided),
            ]  # fmt: skip
    shape = (logs, 1_000)
    base = BETA(random, shape)
    run = np.where(random.random(shape) < 0.5, BETA(random, shape), base)
    countries = random.integers(20, size=shape).ravel().astype(str)
    index = {**ids(shape), "country": countries}
    found = compared(table_of(index, NDCG, a=base, b=run), slices="country").table
    fails, undecided = failed(found, ["difference(ndcg@10) >= 0"], logs)
    yield [
        "20 slices, 1,000 queries, loss 0.0", '"difference(ndcg@10) >= 0": proof, and guard in slices',
        alarms(fails), Level(undecided),
    ]  # fmt: skip


def failed(found: pl.DataFrame, rules: list[Any], logs: int) -> tuple[float, float]:
    """Return the shares of logs that fail, if undecided rules pass and if they fail."""
    verdicts = result(pr.check, found, rules, on_fail="return")
    log = pl.col("where").str.extract(r"log=(\d+)")
    shares = [
        verdicts.filter(pl.col("verdict").is_in(words)).select(log.n_unique()).item() / logs
        for words in (["fail"], ["fail", "undecided"])
    ]
    return shares[0], shares[1]


@section("values | rows | logs | 30 queries | 50 | 200 | 1,000 | p and interval differ")
def families(random: Random, logs: int) -> Iterator[Row]:
    designs = ((2, 1, True, logs), (2, 3, True, logs // 2), (5, 1, True, logs // 2),
               (5, 3, False, logs // 4), (10, 1, False, logs // 4))  # fmt: skip
    kinds = (("normal", NORMAL), ("lognormal", LOGNORMAL))
    for (name, draw), (runs, metrics, of_baseline, number) in product(kinds, designs):
        cells: list[object] = []
        contradictions, number = 0, max(number, 2)
        for queries in (30, 50, 200, 1_000):
            shape = (number, queries)
            common = draw(random, shape)
            tables = []
            for run in range(runs):
                own = draw(random, shape)
                columns = {
                    f"m{metric}": (common + own + 0.5 * metric * draw(random, shape)).ravel()
                    for metric in range(metrics)
                }
                tables.append(pl.DataFrame({**ids(shape), **columns, "run": f"r{run}"}))
            baseline = "r0" if of_baseline else None
            found = compared(pl.concat(tables), baseline=baseline, details=False).table
            apart, small = (pl.col("low") > 0) | (pl.col("high") < 0), pl.col("p_value") < 0.05
            share = found.group_by("log").agg(small.any())["p_value"].mean()
            cells.append(Level(share, share > 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / number)))
            contradictions += found.filter(apart != small).height
        pairs = "baseline" if of_baseline else "all pairs"
        count = metrics * (runs - 1 if of_baseline else runs * (runs - 1) // 2)
        setting = f"{name}, {runs} runs, {metrics} metrics, {pairs}"
        yield [setting, count, number, *cells, contradictions]


@section("runs | queries | any false verdict")
def groups(random: Random, logs: int) -> Iterator[Row]:
    for runs, queries in product((2, 4), (50, 200)):
        table = boards(random, EQUAL, max(logs // 5, 2) * 10, queries, 0.14, 0.0, runs)
        table = table.with_columns(log=pl.col("log") // 10, group=pl.col("log") % 10)
        is_wrong = pl.col("verdict").is_in(["better", "worse"]).any()
        wrong = compared(table, by=["log", "group"]).table.group_by("log").agg(is_wrong)
        yield [f"{runs} runs", queries, Level(float(wrong["verdict"].mean()))]


@section(
    "values and judge | judged | mean | mean, people only | difference | "
    "difference, people only | difference, judge only | (width, people only / width)²"
)
def predictions(random: Random, logs: int) -> Iterator[Row]:
    kinds = (
        Skewed("beta(0.7, 0.7), as NDCG", 0.5, BETA),
        Skewed("0 or 1, 10%", 0.1, mixed(0.1, constant(1), constant(0)), HITS),
        zeros(0.9),
        Skewed("exponential", 1.0, EXPONENTIAL, ANY),
    )
    judges = ("good", "bad", "favors one run")
    for (name, truth, draw, metric), judge, number in product(kinds, judges, (20, 100)):
        shape = (max(logs * 3 // 5, 2), number + 500)
        common, same = draw(random, shape), random.random((2, *shape)) < 0.5
        runs = np.where(same, common, draw(random, (2, *shape)))
        seen = judged(random, runs, judge, metric)
        human, predicted = (
            table_of(ids(shape), metric, a=each[0], b=each[1]) for each in (runs, seen)
        )
        human = human.filter(pl.col("query") < number)
        mean, pair = (
            Found(result(pr.judges.estimate, human, predicted, by="log", **options), CALLS[-1])
            for options in ({}, {"baseline": "a"})
        )
        people = compared(human).own
        yield [
            f"{name}, {judge}", number, mean.run("a").own.coverage(truth),
            Level(summarized(human.filter(run="a")).own.covered(truth)), pair.own.coverage(0),
            Level(people.covered(0)), Level(compared(predicted).own.covered(0)),
            people.width(pair.own) ** 2,
        ]  # fmt: skip


def judged(random: Random, runs: Array, judge: str, metric: str) -> Array:
    """Return the values of two runs as a judge sees them."""
    favor = np.array([0.0, 1.0])[:, None, None] * (judge == "favors one run")
    if metric == HITS:
        wrong = 0.35 if judge == "bad" else 0.05
        share = np.where(runs == 0, wrong + 0.25 * favor, wrong)
        return np.where(random.random(runs.shape) < share, 1 - runs, runs)
    noise = {"good": 0.3, "bad": 2.0, "favors one run": 0.5}[judge]
    seen: Array = runs + (noise * random.normal(size=runs.shape) + favor) * runs.std()
    return seen if metric == ANY else np.clip(seen, 0, 1)


@section("runs | number | covered | ranks in an interval")
def leaderboards(random: Random, logs: int) -> Iterator[Row]:
    for runs in (3, 8):
        zero, task = np.zeros(runs), np.repeat(np.arange(3), [20, 60, 200])
        steps = {
            "equal means, normal": (zero, NORMAL),
            "equal means, lognormal": (zero, LOGNORMAL),
            "one better by 0.5, normal": (0.5 * (np.arange(runs) == 0), NORMAL),
            "steps of 0.1, normal": (0.1 * np.arange(runs), NORMAL),
        }
        for name, (means, draw) in steps.items():
            yield [f"100 queries, {name}", runs, *ranks(logs, means, lambda m=means, d=draw: board(
                NORMAL(random, (100, 1)) + m + d(random, (100, len(m)))
            ))]  # fmt: skip

        def given(runs: int = runs, task: Array = task) -> pl.DataFrame:
            effects = NORMAL(random, (3, runs))
            noise = NORMAL(random, (len(task), runs))
            return board((effects - effects.mean(axis=0))[task] + noise, task=task)

        cells = ranks(logs, zero, given, by="task")
        yield ["3 given tasks of 20 to 200 queries", runs, *cells]
        for number in (10, 30):
            cells = ranks(logs, zero, lambda shape=(number, runs): board(
                NORMAL(random, shape)
            ).rename({"query": "task"}), query="task")  # fmt: skip
            yield [f"{number} sampled tasks", runs, *cells]


def board(matrix: Array, **columns: Array) -> pl.DataFrame:
    """Return per-query values of queries x runs, with columns of the queries."""
    query, run = (each.ravel() for each in np.indices(matrix.shape))
    others = {name: each[query] for name, each in columns.items()}
    return pl.DataFrame({"query": query, "run": run, **others, "x": matrix.ravel()})


def ranks(
    logs: int, means: Array, tables: Callable[[], pl.DataFrame], **options: str
) -> tuple[Level, float]:
    """Return the share of logs with all true ranks, and the mean number of ranks in an interval."""
    best = 1 + (means[:, None] < means).sum(axis=1)
    last = (means[:, None] <= means).sum(axis=1)
    contained, sizes = [], []
    for _ in range(max(logs // 3, 2)):
        found = result(pr.leaderboard, tables(), "x", **options).sort("run")
        low, high = (found[name].cast(pl.Float64).to_numpy() for name in ("rank_low", "rank_high"))
        contained.append(bool(((low <= best) & (last <= high)).all()) or np.isnan(low).any())
        sizes.append(float((high - low).mean()) + 1)
    return coverage(float(np.mean(contained))), float(np.nanmean(sizes))


@section(
    "all differences | queries | low | high | p | verdict | reason | "
    '"not difference < -0.02" | "difference >= -0.02"'
)
def equal(random: Random, logs: int) -> Iterator[Row]:
    del logs
    for size, queries in product((0.0, -0.5), (3, 5, 8, 10, 30, 400)):
        base = 0.5 + 0.5 * random.random(queries)
        table = table_of({"query": range(queries)}, NDCG, a=base, b=base + size)
        found = result(pr.compare, table, baseline="a", details=True)
        row = found.row(0, named=True)
        guard, proof = (
            result(pr.check, found, [rule], on_fail="return")["verdict"].item()
            for rule in ("not difference(ndcg@10) < -0.02", "difference(ndcg@10) >= -0.02")
        )
        numbers = [row[name] for name in ("low", "high", "p_value")]
        shown = ["-" if each is None else f"{each:.3f}" for each in numbers]
        yield [f"{size}", queries, *shown, row["verdict"], row["reason"] or "-", guard, proof]


def lose_hits(gain: float) -> Draw:
    """Return a baseline with 90% hits and a run with 85.5%; it gains a share of the others."""

    def draw(random: Random, shape: tuple[int, ...]) -> tuple[Array, Array]:
        base, share = random.random(shape) < 0.9, random.random(shape)
        return base, np.where(base, share > (0.045 + 0.1 * gain) / 0.9, share < gain)

    return draw


@section('values | queries | margin="5%" | rule, relative | margin, absolute | rule, absolute')
def margins(random: Random, logs: int) -> Iterator[Row]:
    others = of("uniform", 0.2, 0.38 / 0.49 - 0.2)  # The baseline has a mean of 0.4.
    kinds = (
        ("2% lose all, others equal", NDCG, losses(0.02, others), 0.02),
        ("2% lose all, others vary by 0.05", NDCG, losses(0.02, others, 0.05), 0.02),
        ("90% hits, 5% of them lost", HITS, lose_hits(0), 0.045),
        ("90% hits, losses and gains", HITS, lose_hits(0.2), 0.045),
    )
    for (name, metric, draw, size), queries in product(kinds, (50, 200, 1_000)):
        base, run = draw(random, (logs, queries))
        table = table_of(ids(base.shape), metric, a=base, b=run)
        cells: list[object] = []
        for margin, rule in (("5%", f"relative_difference({metric}) >= -0.05"),
                             (size, f"difference({metric}) >= -{size}")):  # fmt: skip
            found = compared(table, margin=margin)
            passes = result(pr.check, found.table, [rule], on_fail="return")["verdict"] == "pass"
            is_seen = queries > 50 or "vary" not in name
            shares = found.verdict(*SHIPPED), float(passes.mean())
            cells += map(wrong_passes if is_seen else Level, shares)
        yield [name, queries, *cells]


GAINS = of("normal", 0.02, 0.01)
#: Distributions of differences with their mean, which is 0 or below.
DIFFERENCES: tuple[tuple[str, float, Draw], ...] = (
    ("normal, std 0.2", 0, lambda random, shape: np.clip(random.normal(0, 0.2, shape), -0.6, 0.6)),
    ("90% gain 0.02 ± 0.01, 10% lose 0.18", 0, mixed(0.9, GAINS, constant(-0.18))),
    ("90% gain 0.02 ± 0.01, 10% lose 0 to 0.9", -0.027, mixed(0.9, GAINS, of("uniform", -0.9, 0))),
    ("90% gain 0.09 or 0.0901, 10% lose 0.81", 0,
     mixed(0.9, mixed(0.5, constant(0.09), constant(0.0901)), constant(-0.81045))),
    ("93% equal, others ± 0.9", 0, mixed(0.93, constant(0), of("uniform", -0.9, 0.9))),
    ("93% equal, others lose 0 to 0.9", -0.0315, mixed(0.93, constant(0), of("uniform", -0.9, 0))),
    ("97% lose 0.015, 3% gain 0.485", 0, mixed(0.97, constant(-0.015), constant(0.485))),
)  # fmt: skip
#: Values in [0, 1] with their mean.
MEANS = (
    Skewed("RR, half of the ranks 1", math.log(2),
           lambda random, shape: 1 / random.geometric(1 / 2, shape), "rr"),
    Skewed("RR, a quarter of the ranks 1", math.log(4) / 3,
           lambda random, shape: 1 / random.geometric(1 / 4, shape), "rr"),
    Skewed("beta(0.7, 0.7)", 0.5, BETA),
    Skewed("beta(5, 1)", 5 / 6, of("beta", 5, 1)),
    Skewed("90% ones, others beta", 0.95, mixed(0.9, constant(1), BETA)),
    Skewed("97% ones, others 0.5", 0.985, mixed(0.97, constant(1), constant(0.5)), "recall@10"),
    Skewed("90% ones, others 0", 0.9, mixed(0.9, constant(1), constant(0)), HITS),
)  # fmt: skip
FEW = (3, 5, 8, 10, 20, 30, 50, 200)


@section("differences | queries | better | worse | either | not worse, wrong | too few")
def few(random: Random, logs: int) -> Iterator[Row]:
    for (name, truth, draw), queries in product(DIFFERENCES, FEW):
        size, margin = draw(random, (logs, queries)), -truth or 0.05
        base = random.uniform(np.maximum(0.05 - size, 0), np.minimum(1 - size, 1))
        index, at_margin = ids(size.shape), base + size - margin - truth
        table = table_of(index, NDCG, a=base, b=base + size, c=at_margin)
        found = compared(table, margin=margin, correction=False)
        null, loss = found.run("b"), found.run("c")
        # Without a margin, a difference that is worse is not "equivalent" or "not worse".
        is_worse = (null["high"] < 0) & (null.table["verdict"] != "too few").to_numpy()
        better, worse = null.verdict("better"), float(is_worse.mean())
        yield [
            name, queries, wrong_passes(better), Level(worse) if truth else wrong_passes(worse),
            Level(math.nan) if truth else alarms(better + worse),
            wrong_passes(loss.verdict(*SHIPPED)), Level(null.verdict("too few")),
        ]  # fmt: skip


@section("column | queries | power | power of t")
def power(random: Random, logs: int) -> Iterator[Row]:
    std, effect = 0.1, detected(50, 0.8) / math.sqrt(50)
    for metric, queries in product((NDCG, ANY), (20, 30, 50)):
        base = random.uniform(0.45, 0.55, (logs, queries))
        run = np.clip(base + random.normal(effect * std, std, base.shape), 0, 1)
        own = compared(table_of(ids(base.shape), metric, a=base, b=run)).verdict("better")
        test = stats.ttest_rel(run, base, axis=1)
        of_t = float(((test.pvalue < 0.05) & (test.statistic > 0)).mean())
        yield [metric, queries, Level(own, queries >= 50 and own < of_t - 0.03), Level(of_t)]


@section("values | queries | covered | wrong above | wrong below | outside | none")
def ranged(random: Random, logs: int) -> Iterator[Row]:
    for (name, truth, draw, metric), queries in product(MEANS, FEW):
        shape = (logs, queries)
        own = summarized(table_of(ids(shape), metric, a=draw(random, shape))).own
        outside = at_most(0, float(((own.low < 0) | (own.high > 1)).mean()))
        yield [name, queries, own.coverage(truth), *own.sides(truth), outside, Level(own.none)]


def main() -> None:
    options = arguments(__doc__, logs=500, seed=1, only="")
    sections = [each for each in SECTIONS if each in options.only.split(",") or not options.only]
    parts: dict[str, str] = {}
    beyond: list[str] = []
    warned: list[Row] = []
    started = time.process_time()
    for name in sections:
        part, before, number = SECTIONS[name], time.process_time(), len(CALLS)
        rows = [*part.rows(np.random.default_rng(options.seed), options.logs)]
        parts[name] = table(part.head, rows)
        beyond += part.beyond(rows)
        calls = CALLS[number:]
        kinds = {re.sub(r"[\d,.]*\d", "n", each)[:60] for call in calls for each in call}
        texts = "; ".join(f"{each} ..." for each in sorted(kinds)).replace("|", " ") or "-"
        excused = sum(isinstance(each, Level) and each.is_excused for row in rows for each in row)
        warned.append([part.title, len(calls), sum(map(bool, calls)), excused, texts])
        print(f"{name}: {time.process_time() - before:.0f} s of CPU time", file=sys.stderr)
    if not options.only:
        error = 2 * math.sqrt(0.05 * 0.95 / options.logs)
        parts["run"] = (
            f"Generated on {date.today()} by `python -m tests.bench.levels` in "
            f"{time.process_time() - started:,.0f} s of CPU time, with Polars {pl.__version__}, "
            f"NumPy {np.__version__}, scipy {scipy.__version__} and Python "
            f"{platform.python_version()}: {options.logs:,} simulated logs per cell unless it says "
            f'otherwise, seed {options.seed}. Intervals have a confidence of 0.95. "Covered" is '
            "the share of intervals that contain the true value. By chance, shares near 0.95 and "
            f"0.05 move by {error:.3f} either way (two standard errors)."
        )
        head = ["section", "calls", "with a warning", "cells with †", "warnings"]
        parts["warnings"] = table(head, warned)
        parts["beyond"] = "\n".join(beyond or ["Nothing."])
    publish(filled(PAGE.read_text(encoding="utf-8"), parts), options.output)


if __name__ == "__main__":
    main()
