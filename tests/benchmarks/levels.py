"""Measure the levels of all statistics on simulated logs: coverage, false alarms and power.

    python -m tests.benchmarks.levels [--logs 500] [--only SECTION] [--output FILE]

The tables are in levels.md. A simulated log is one group of a table, so that all logs of a cell are
one call. Ranks of a leaderboard, for which groups are tasks, take a call for each log.
"""

from __future__ import annotations

import argparse
import math
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy
from scipy import special

import polars_rank as pr
from tests.benchmarks.pages import publish

Array = Any
Random = np.random.Generator
Draw = Callable[[Random, tuple[int, ...]], Array]
#: Cells beyond these limits are bold, and are listed at the end: coverage, which should be 0.95,
#: shares of false alarms, which should be at most 0.05, and of wrong passes, at most 0.025.
COVERED, ALARMS, PASSES = 0.93, 0.07, 0.04
#: The largest weight of a Pareto distribution, whose variance is infinite.
MOST = 1_000
#: Bounds at the true value contain it, up to rounding.
ROUNDING = 1e-12


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.levels")
    parser.add_argument("--logs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=[*SECTIONS])
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


# -- Tables ---------------------------------------------------------------------------------------


class Level(NamedTuple):
    """A share of logs, and whether it is beyond its limit."""

    value: float
    is_beyond: bool = False

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "-"
        return f"**{self.value:.3f}**" if self.is_beyond else f"{self.value:.3f}"


def coverage(share: float) -> Level:
    return Level(share, share < COVERED)


def alarms(share: float) -> Level:
    return Level(share, share > ALARMS)


def wrong_passes(share: float) -> Level:
    return Level(share, share > PASSES)


class Section(NamedTuple):
    title: str
    text: str
    #: The head of the table, and its rows.
    head: Sequence[str]
    rows: Sequence[Sequence[object]]

    def lines(self) -> list[str]:
        lines = [f"### {self.title}", "", self.text, "", "| " + " | ".join(self.head) + " |"]
        lines.append("| --- |" + " ---: |" * (len(self.head) - 1))
        lines += ["| " + " | ".join(map(written, row)) + " |" for row in self.rows]
        return [*lines, ""]

    def beyond(self) -> Iterator[str]:
        """Yield the cells beyond their limit."""
        for row in self.rows:
            keys = ", ".join(map(written, [each for each in row if isinstance(each, (str, int))]))
            for name, each in zip(self.head, row, strict=True):
                if isinstance(each, Level) and each.is_beyond:
                    yield f"- {self.title}: {keys}; {name} {each.value:.3f}"


def written(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.2f}"
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


# -- Logs -----------------------------------------------------------------------------------------


def ids(shape: tuple[int, int]) -> dict[str, Array]:
    """Return the log and the query of each row."""
    log, query = np.indices(shape)
    return {"log": log.ravel(), "query": query.ravel()}


def table_of(columns: Mapping[str, Array], **runs: Array) -> pl.DataFrame:
    """Return per-query values of several runs, given the other columns."""
    rows = pl.DataFrame(dict(columns))
    return pl.concat(
        rows.with_columns(x=np.asarray(values, dtype=float).ravel()).with_columns(run=pl.lit(name))
        for name, values in runs.items()
    )


def result(function: Callable[..., Any], *given: Any, **options: Any) -> pl.DataFrame:
    """Return the result of a function of the library without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        found: pl.DataFrame = function(*given, **options)
    return found


def compared(values: Any, **options: Any) -> pl.DataFrame:
    return result(
        pr.compare, values, **{"baseline": "a", "by": "log", "details": True, **options}
    ).sort("log")


def summarized(values: Any, **options: Any) -> pl.DataFrame:
    return result(pr.summarize, values, **{"by": "log", "details": True, **options}).sort("log")


class Intervals(NamedTuple):
    """The intervals of all logs, NaN where there is none."""

    low: Array
    high: Array

    @classmethod
    def of(cls, found: pl.DataFrame) -> Intervals:
        return cls(*(found[name].cast(pl.Float64).to_numpy() for name in ("low", "high")))

    @classmethod
    def of_t(cls, found: pl.DataFrame) -> Intervals:
        """Return t intervals of the same estimates, with Kish's number of units."""
        name = "difference" if "difference" in found.columns else "mean"
        value, error, units = (
            found[each].cast(pl.Float64).to_numpy() for each in (name, "std_error", "effective")
        )
        half = special.stdtrit(np.maximum(units - 1, 1e-9), 0.975) * error
        half = np.where(error > 0, half, np.nan)
        return cls(value - half, value + half)

    @property
    def none(self) -> float:
        """The share of logs without an interval."""
        return float(np.isnan(self.low).mean())

    def covered(self, truth: float) -> float:
        """Return the share of intervals that contain the true value."""
        return 1 - (self.above(truth) + self.below(truth)) / max(1 - self.none, ROUNDING)

    def above(self, truth: float) -> float:
        """Return the share of logs that show a value above the true one."""
        return float((self.low > truth + ROUNDING).mean())

    def below(self, truth: float) -> float:
        return float((self.high < truth - ROUNDING).mean())

    def width(self, other: Intervals) -> float:
        """Return the median width relative to others."""
        ratio = (self.high - self.low) / (other.high - other.low)
        return float(np.nanmedian(ratio)) if np.isfinite(ratio).any() else math.nan


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


EQUAL = Units("equal queries", lambda _, shape: np.ones(shape), are_users=False)
UNITS = (
    Units("4 queries per user", lambda _, shape: np.full(shape, 4), are_users=True),
    Units("geometric users", lambda random, shape: random.geometric(0.25, shape), are_users=True),
    Units("Pareto users", pareto, are_users=True),
    Units("geometric weights", lambda random, shape: random.geometric(0.25, shape), are_users=False),
    Units("lognormal weights", lambda random, shape: random.lognormal(0, 1, shape), are_users=False),
    Units("Pareto weights", pareto, are_users=False),
)  # fmt: skip


def of_rows(rows: Mapping[str, Array], of_unit: Array) -> Array:
    """Return numbers of users for their rows; each query is its own user without the column."""
    return of_unit[rows["user"]] if "user" in rows else of_unit[: len(rows["log"])]


# -- 1. Values of 0 or 1 --------------------------------------------------------------------------


def hits(
    random: Random, units: Units, logs: int, number: int, rate: float, gain: float
) -> pl.DataFrame:
    """Return two runs with values of 0 or 1; the second turns a share `gain` of 0 into 1.

    Users have rates of a beta distribution, so that their queries are correlated by 0.3; half of
    the values of the two runs have the same cause.
    """
    rows = units.rows(random, logs, number)
    size = len(rows["log"])
    level = np.full(size, rate)
    if units.are_users:
        level = of_rows(rows, random.beta(rate * 7 / 3, (1 - rate) * 7 / 3, logs * number))
    same, other = random.random(size), random.random(size)
    base, run = same < level, np.where(random.random(size) < 0.5, same, other) < level
    return table_of(rows, a=base, b=run | (random.random(size) < gain))


def of_shares(random: Random, logs: int) -> Iterator[Section]:
    rows: list[list[object]] = []
    for rate in (0.1, 0.5):
        for units in (EQUAL, *UNITS):
            for number in (50, 200):
                null = hits(random, units, logs, number, rate, 0.0)
                own = summarized(null.filter(run="a"), **units.options)
                pair = compared(null, **units.options)
                gain = min(2.8 * float(pair["difference"].std()) / (1 - rate), 0.9)
                better = compared(hits(random, units, logs, number, rate, gain), **units.options)
                mean, difference = Intervals.of(own), Intervals.of(pair)
                rows.append([
                    f"{rate:.0%}, {units.name}", number,
                    coverage(mean.covered(rate)), Level(Intervals.of_t(own).covered(rate)),
                    coverage(difference.covered(0)), Level(Intervals.of_t(pair).covered(0)),
                    difference.width(Intervals.of_t(pair)),
                    Level(Intervals.of(better).above(0)), Level(Intervals.of_t(better).above(0)),
                ])  # fmt: skip
    yield Section(
        "Coverage and power", "Wilson's interval of the mean, and Tango's of the difference, beside "
        "t intervals with Kish's number of units. Queries of a user are correlated by 0.3. The "
        "power is that of a difference of 2.8 standard errors between equal runs; a difference "
        "makes the error larger.",
        ["values", "units", "mean", "mean, t", "difference", "difference, t", "width / t",
         "power", "power of t"], rows,
    )  # fmt: skip
    yield Section(
        "Plans: `power`, then `compare`",
        "Each log is a pilot of 150 units with the true "
        "difference. The median number of queries that `power` asks for has the last column as "
        "share of significant results, which should be 0.8.",
        ["values", "difference", "queries", "power"],
        [*plans(random, logs)],
    )


def plans(random: Random, logs: int) -> Iterator[list[object]]:
    for rate in (0.1, 0.5):
        for units in (EQUAL, *UNITS):
            gain = 0.1
            pilot = hits(random, units, max(logs // 4, 2), 150, rate, gain)
            target = gain * (1 - rate)
            found = result(
                pr.power, pilot, baseline="a", by="log", difference=target, **units.options
            )
            needed = int(found["needed"].median())  # type: ignore[arg-type]
            per_unit = pilot.height / 2 / pilot["log"].n_unique() / 150
            number = max(round(needed / per_unit), 2)
            log = hits(random, units, logs, number, rate, gain)
            power = Intervals.of(compared(log, **units.options)).above(0)
            yield [
                f"{rate:.0%}, {units.name}",
                target,
                needed,
                Level(power, abs(power - 0.8) > 0.1),
            ]


# -- 2. Skewed values -----------------------------------------------------------------------------


def beta(random: Random, shape: tuple[int, ...]) -> Array:
    return random.beta(0.7, 0.7, shape)


class Skewed(NamedTuple):
    """A distribution of values with a known mean; of differences if `draw` returns two runs."""

    name: str
    truth: float
    draw: Callable[[Random, tuple[int, ...]], Any]


def losses(share: float) -> Skewed:
    """Return runs with equal values, of which one loses 1 in a share of the queries."""

    def draw(random: Random, shape: tuple[int, ...]) -> tuple[Array, Array]:
        values, lost = beta(random, shape), random.random(shape) < share
        return np.where(lost, 1.0, values), np.where(lost, 0.0, values)

    return Skewed(f"{share:.0%} lose 1", -share, draw)


def zeros(share: float) -> Skewed:
    def draw(random: Random, shape: tuple[int, ...]) -> Array:
        return np.where(random.random(shape) < share, 0.0, beta(random, shape))

    return Skewed(f"{share:.0%} zeros, others beta", (1 - share) / 2, draw)


def rare(random: Random, shape: tuple[int, ...]) -> tuple[Array, Array]:
    base = beta(random, shape)
    return base, np.where(random.random(shape) < 0.05, beta(random, shape), base)


SKEWED = (
    *map(losses, (0.01, 0.02, 0.05, 0.1)),
    *map(zeros, (0.8, 0.9, 0.93, 0.97)),
    Skewed("lognormal", math.exp(0.5), lambda random, shape: random.lognormal(0, 1, shape)),
    Skewed("exponential", 1.0, lambda random, shape: random.exponential(size=shape)),
    Skewed("normal", 0.0, lambda random, shape: random.normal(size=shape)),
    Skewed("5% differ, symmetric", 0.0, rare),
)


def of_skewed(random: Random, logs: int) -> Iterator[Section]:
    rows: list[list[object]] = []
    for values in SKEWED:
        for queries in (20, 50, 200, 2_000):
            shape = (logs, queries)
            drawn = values.draw(random, shape)
            if isinstance(drawn, tuple):
                found = compared(table_of(ids(shape), a=drawn[0], b=drawn[1]))
            else:
                found = summarized(table_of(ids(shape), a=drawn))
            own, of_t = Intervals.of(found), Intervals.of_t(found)
            rows.append([
                values.name, queries, coverage(own.covered(values.truth)),
                Level(of_t.covered(values.truth)), Level(own.none),
                wrong_passes(own.above(values.truth)), Level(of_t.above(values.truth)),
                wrong_passes(own.below(values.truth)), Level(of_t.below(values.truth)),
                own.width(of_t),
            ])  # fmt: skip
    yield Section(
        "Coverage and wrong proofs", "Means of `summarize`, and differences of `compare`, if two "
        "runs lose or differ. A wrong proof shows a value above (or below) the true one: with a "
        "margin as large as the true loss, `low` above the truth is a wrong pass of \"not worse\". "
        "Each should be at most 0.025. Where all differences are 0, the interval is that of equal "
        "differences, and there is no t interval; \"none\" is the share of logs without any.",
        ["values", "queries", "covered", "covered, t", "none", "wrong above", "above, t",
         "wrong below", "below, t", "width / t"], rows,
    )  # fmt: skip


# -- 3. Heavy units -------------------------------------------------------------------------------


def of_heavy(random: Random, logs: int) -> Iterator[Section]:
    rows: list[list[object]] = []
    kinds: dict[str, tuple[Draw, float]] = {
        "normal": (lambda random, shape: random.normal(size=shape), 0.0),
        "exponential": (lambda random, shape: random.exponential(size=shape), 1.0),
    }
    for name, (draw, truth) in kinds.items():
        for units in UNITS:
            for number in (30, 100, 300):
                index = units.rows(random, logs, number)
                size = (len(index["log"]),)
                values = draw(random, size)
                if units.are_users:
                    values = (values + of_rows(index, draw(random, (logs * number,)))) / 2
                found = summarized(table_of(index, a=values), **units.options)
                own, of_t = Intervals.of(found), Intervals.of_t(found)
                rows.append([
                    f"{name}, {units.name}", number, float(found["effective"].median()),  # type: ignore[arg-type]
                    coverage(own.covered(truth)), Level(of_t.covered(truth)), own.width(of_t),
                ])  # fmt: skip
    for days in (5, 10, 30):
        index = {**ids((logs, days * 40)), "user": np.repeat(np.arange(logs * days), 40)}
        of_day = np.repeat(random.normal(size=logs * days), 40)
        values = of_day + random.normal(size=len(of_day))
        found = summarized(table_of(index, a=values), cluster="user")
        own, of_t = Intervals.of(found), Intervals.of_t(found)
        rows.append([
            "normal, equal days", days, float(days), coverage(own.covered(0)),
            Level(of_t.covered(0)), own.width(of_t),
        ])  # fmt: skip
    yield Section(
        "Coverage of the mean",
        "Users of unequal size, whose queries are correlated by 0.5, and "
        "queries of unequal weight, beside t intervals with Kish's number - 1 degrees of freedom. "
        "Weights of a Pareto distribution have an infinite variance.",
        ["values", "units", "effective", "covered", "covered, t with Kish's number", "width / t"],
        rows,
    )


# -- 4. Repeated queries --------------------------------------------------------------------------


def of_repeated(random: Random, logs: int) -> Iterator[Section]:
    days, queries = 14, 100
    log, query, day = (each.ravel() for each in np.indices((logs, queries, days)))
    of_query = np.repeat(random.normal(size=logs * queries), days)
    noise = random.normal(size=len(of_query))
    index = {"log": log, "query": query, "day": day}
    table = table_of(index, a=np.zeros(len(log)), b=of_query + noise)
    means = table.group_by("run", "log", "query", maintain_order=True).agg(pl.col("x").mean())
    routes: dict[str, tuple[pl.DataFrame, dict[str, Any]]] = {
        'query=["query", "day"], cluster="query"':
            (table, {"query": ["query", "day"], "cluster": "query"}),
        'query=["query", "day"]': (table, {"query": ["query", "day"]}),
        "the mean of each query over the days": (means, {}),
        'query="query"': (table, {}),
    }  # fmt: skip
    rows: list[list[object]] = []
    for name, (values, options) in routes.items():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = pr.compare(values, baseline="a", by="log", **options)
                of_mean = pr.summarize(values.filter(run="b"), by="log", **options)
            except pr.errors.DataError as error:
                rows.append([name, "-", "-", f"error: {str(error).split(':')[0].split(';')[0]}"])
                continue
        names_cluster = any('cluster="query"' in str(each.message) for each in caught)
        said = 'yes, names cluster="query"' if names_cluster else "no"
        share = float((found["p_value"] < 0.05).mean())  # type: ignore[arg-type]
        covered = Intervals.of(of_mean).covered(0)
        rows.append([name, Level(share, share > ALARMS and said == "no"),
                     Level(covered, covered < COVERED and said == "no"), said])  # fmt: skip
    yield Section(
        "The same 100 queries on 14 days",
        "Two runs without a difference, whose differences vary "
        "as much between queries as between the days of a query. Cells with a warning are not bold.",
        ["columns", "`compare`: p < .05", "`summarize`: covered", "warning"],
        rows,
    )


# -- 5. Days --------------------------------------------------------------------------------------


def of_days(random: Random, logs: int) -> Iterator[Section]:
    logs = max(min(logs, 200), 2)
    days, queries = 60, 40
    looks = range(3, days + 1, 3)
    index = ids((logs, days * queries))
    index["day"] = index["query"] // queries
    at_once: list[list[object]] = []
    sequences: list[list[object]] = []
    differences: dict[str, tuple[Draw, float]] = {
        "normal": (lambda random, shape: random.normal(size=shape), 0.0),
        "exponential": (lambda random, shape: random.exponential(size=shape) - 1, 0.0),
        "2% lose 1": (lambda random, shape: -1.0 * (random.random(shape) < 0.02), -0.02),
        "normal, a loss of 0.1": (lambda random, shape: random.normal(-0.1, 1, shape), 0.0),
    }
    for name, (draw, truth) in differences.items():
        for between in (0.0, 0.16, 0.32) if name == "normal" else (0.0,):
            drawn = draw(random, (len(index["log"]),))
            drawn += np.repeat(random.normal(0, between, logs * days), queries)
            base = 0.5 + 0.3 * random.random(len(drawn))
            table = table_of(index, a=base, b=base + drawn)
            for cluster in ("day", None):
                found = [
                    Intervals.of(
                        compared(table.filter(pl.col("day") < look), repeated=True, cluster=cluster)
                    )
                    for look in looks
                ]
                wrong = np.array([(each.low > truth) | (each.high < truth) for each in found])
                shown = "no cluster" if cluster is None else f"cluster={cluster!r}"
                first = np.where(wrong.any(axis=0), np.array(looks)[wrong.argmax(axis=0)], days + 1)
                median = float(np.median(first))
                is_loss = name.endswith("0.1")
                share = float(wrong.any(axis=0).mean())
                sequences.append([
                    name, f"{between:.2f}", shown,
                    Level(share) if is_loss else alarms(share),
                    "-" if is_loss else alarms(float(wrong[3:].any(axis=0).mean())),
                    f"{median:.0f}" if is_loss and median <= days else "-",
                ])  # fmt: skip
            if name == "normal":
                at_once += [*days_at_once(table, between)]
    yield Section(
        "`repeated=True` over 60 days",
        f"{logs} logs with 40 new queries on each day, and a look on every third. "
        "\"Between days\" is the standard deviation of the day's effect, which is 0.16 for that of "
        "the mean of a day's queries. The share of years in which any look excludes the true "
        "difference should be at most 0.05; of the loss, it is the share in which it is shown.",
        ["differences", "between days", "options", "any look", "from day 12 on",
         "day of the first, median"], sequences,
    )  # fmt: skip
    yield Section(
        "All days at once", "The same logs without `repeated`.",
        ["days", "between days", "options", "covered"], at_once,
    )  # fmt: skip


def days_at_once(table: pl.DataFrame, between: float) -> Iterator[list[object]]:
    for days in (10, 60):
        until = table.filter(pl.col("day") < days)
        for cluster in ("day", None):
            own = Intervals.of(compared(until, cluster=cluster))
            expected = coverage(own.covered(0)) if cluster or not between else Level(own.covered(0))
            yield [
                str(days), f"{between:.2f}", "no cluster" if cluster is None else 'cluster="day"',
                expected,
            ]  # fmt: skip


# -- 6. Gates -------------------------------------------------------------------------------------


def of_gates(random: Random, logs: int) -> Iterator[Section]:
    rule = "difference(x) >= -0.03"
    shares = np.array([0.3, 0.2, 0.15, 0.15, 0.1, 0.1])
    names = np.array([f"c{place}" for place in range(6)])
    wheres = [{"rule": rule, "where": {"country": name}} for name in names]
    gates: dict[str, list[Any]] = {
        f'"{rule}": proof, and guard in slices': [rule],
        '"not difference(x) < -0.03": guard': ["not difference(x) < -0.03"],
        "proof in each slice, by `where`": [rule, *wheres],
    }
    rows: list[list[object]] = []
    for changed in (0.1, 0.5):
        for loss in (0.0, 0.06):
            shape = (logs, 400)
            base = beta(random, shape)
            run = np.where(random.random(shape) < changed, beta(random, shape), base) - loss
            countries = random.choice(names, p=shares, size=shape).ravel()
            found = compared(
                table_of({**ids(shape), "country": countries}, a=base, b=run), slices="country"
            )
            for name, rules in gates.items():
                fails, undecided = failed(found, rules, logs)
                guard = "guard" in name and not loss and "proof" not in name
                rows.append([
                    f"{changed:.0%} of queries differ, loss {loss}", name,
                    alarms(fails) if not loss else Level(fails),
                    alarms(undecided) if guard else Level(undecided),
                ])  # fmt: skip
    shape = (logs, 1_000)
    base = beta(random, shape)
    run = np.where(random.random(shape) < 0.5, beta(random, shape), base)
    countries = random.integers(20, size=shape).ravel().astype(str)
    found = compared(
        table_of({**ids(shape), "country": countries}, a=base, b=run), slices="country"
    )
    fails, undecided = failed(found, ["difference(x) >= 0"], logs)
    rows.append([
        "20 slices, 1,000 queries, loss 0.0", '"difference(x) >= 0": proof, and guard in slices',
        alarms(fails), Level(undecided),
    ])  # fmt: skip
    yield Section(
        "Share of nights that fail", "400 queries and 6 slices of 30% to 10% of them, unless it "
        "says otherwise. A proof is undecided if the queries do not show it, which is a matter of "
        "their number, and fails with `undecided=\"fail\"`, the default.",
        ["values", "rule", 'undecided="pass"', 'undecided="fail"'], rows,
    )  # fmt: skip


def failed(found: pl.DataFrame, rules: list[Any], logs: int) -> tuple[float, float]:
    """Return the shares of logs that fail, if undecided rules pass and if they fail."""
    verdicts = result(pr.check, found, rules, on_fail="return")
    log = pl.col("where").str.extract(r"log=(\d+)")
    shares = [
        verdicts.filter(pl.col("verdict").is_in(words)).select(log.n_unique()).item() / logs
        for words in (["fail"], ["fail", "undecided"])
    ]
    return shares[0], shares[1]


# -- 7. Families ----------------------------------------------------------------------------------


def of_families(random: Random, logs: int) -> Iterator[Section]:
    rows: list[list[object]] = []
    designs = ((2, 1, True, logs), (2, 3, True, logs // 2), (5, 1, True, logs // 2),
               (5, 3, False, logs // 4), (10, 1, False, logs // 4))  # fmt: skip
    kinds: dict[str, Draw] = {
        "normal": lambda random, shape: random.normal(size=shape),
        "lognormal": lambda random, shape: random.lognormal(0, 1, shape),
    }
    contradictions = total = 0
    for name, draw in kinds.items():
        for runs, metrics, of_baseline, number in designs:
            cells: list[object] = []
            for queries in (20, 50, 200, 1_000):
                number = max(number, 2)
                shape = (number, queries)
                common = draw(random, shape)
                tables = []
                for run in range(runs):
                    own = draw(random, shape)
                    columns = {
                        f"m{metric}": (common + own + 0.5 * metric * draw(random, shape)).ravel()
                        for metric in range(metrics)
                    }
                    tables.append(pl.DataFrame({**ids(shape), **columns}).with_columns(
                        run=pl.lit(f"r{run}")
                    ))  # fmt: skip
                found = result(
                    pr.compare, pl.concat(tables), by="log", baseline="r0" if of_baseline else None
                )
                apart = (pl.col("low") > 0) | (pl.col("high") < 0)
                by_log = found.group_by("log").agg((pl.col("p_value") < 0.05).any())
                share = float(by_log["p_value"].mean())  # type: ignore[arg-type]
                cells.append(Level(share, share > 0.05 + 2.5 * math.sqrt(0.05 * 0.95 / number)))
                contradictions += found.filter(apart != (pl.col("p_value") < 0.05)).height
                total += found.height
            pairs = "baseline" if of_baseline else "all pairs"
            count = metrics * (runs - 1 if of_baseline else runs * (runs - 1) // 2)
            rows.append([
                f"{name}, {runs} runs, {metrics} metrics, {pairs}", count, number, *cells
            ])  # fmt: skip
    yield Section(
        "Familywise error", "The share of logs without a difference in which any row of `compare` "
        "has a corrected p below 0.05. Values of a query are correlated by 0.5 between runs; "
        "metrics of a run are correlated, too. Skewness cancels in differences of equal runs. "
        "Cells are bold if they are above 0.05 by more than 2.5 standard errors. In "
        f"{contradictions} of {total:,} rows, p is below 0.05 and the interval contains 0, or the "
        "reverse.",
        ["values", "rows", "logs", "20 queries", "50", "200", "1,000"], rows,
    )  # fmt: skip


# -- 8. Predictions -------------------------------------------------------------------------------


def of_predictions(random: Random, logs: int) -> Iterator[Section]:
    logs, others = max(logs * 3 // 5, 2), 500
    kinds: dict[str, tuple[Draw, float]] = {
        "beta(0.7, 0.7), as NDCG": (beta, 0.5),
        "0 or 1, 10%": (lambda random, shape: (random.random(shape) < 0.1) * 1.0, 0.1),
        "90% zeros, others beta": (zeros(0.9).draw, 0.05),
        "exponential": (lambda random, shape: random.exponential(size=shape), 1.0),
    }
    rows: list[list[object]] = []
    for name, (draw, truth) in kinds.items():
        for judge in ("good", "bad", "favors one run"):
            for number in (20, 100):
                shape = (logs, number + others)
                common, same = draw(random, shape), random.random((2, *shape)) < 0.5
                runs = np.where(same, common, draw(random, (2, *shape)))
                seen = judged(random, runs, judge, is_share=name.startswith("0 or 1"))
                index = ids(shape)
                human = table_of(index, a=runs[0], b=runs[1]).filter(pl.col("query") < number)
                predicted = table_of(index, a=seen[0], b=seen[1])
                a = pl.col("run") == "a"
                own = summarized(human.filter(a), predictions=predicted.filter(a))
                pair = compared(human, predictions=predicted)
                rows.append([
                    f"{name}, {judge}", number,
                    coverage(Intervals.of(own).covered(truth)),
                    Level(Intervals.of(summarized(human.filter(a))).covered(truth)),
                    coverage(Intervals.of(pair).covered(0)),
                    Level(Intervals.of(compared(human)).covered(0)),
                    Level(Intervals.of(compared(predicted)).covered(0)),
                    float(pair["effective_queries"].median() or math.nan) / number,  # type: ignore[arg-type]
                ])  # fmt: skip
    yield Section(
        "Coverage with predicted values", f"{others} queries beside those that people judged. The "
        "values of people alone, and for differences those of the judge alone, are beside it.",
        ["values and judge", "judged", "mean", "mean, people only", "difference",
         "difference, people only", "difference, judge only", "effective / judged"], rows,
    )  # fmt: skip


def judged(random: Random, runs: Array, judge: str, *, is_share: bool) -> Array:
    """Return the values of two runs as a judge sees them."""
    favor = np.array([0.0, 1.0])[:, None, None] * (judge == "favors one run")
    if is_share:
        wrong = 0.35 if judge == "bad" else 0.05
        share = np.where(runs == 0, wrong + 0.25 * favor, wrong)
        return np.where(random.random(runs.shape) < share, 1 - runs, runs)
    noise = {"good": 0.3, "bad": 2.0, "favors one run": 0.5}[judge]
    seen: Array = runs + (noise * random.normal(size=runs.shape) + favor) * runs.std()
    return seen


# -- 9. Leaderboards ------------------------------------------------------------------------------


def of_leaderboards(random: Random, logs: int) -> Iterator[Section]:
    logs = max(logs // 3, 2)
    cell = partial(ranks, logs=logs)
    rows: list[list[object]] = []
    for runs in (3, 8):
        means = {
            "equal means": np.zeros(runs),
            "one better by 0.5": 0.5 * (np.arange(runs) == 0),
            "steps of 0.1": 0.1 * np.arange(runs),
        }
        for name, of_runs in means.items():
            for kind in ("normal", "lognormal") if name == "equal means" else ("normal",):

                def queries(of_runs: Array = of_runs, kind: str = kind) -> pl.DataFrame:
                    shape = (100, len(of_runs))
                    noise = getattr(random, kind)(size=shape)
                    return board(random.normal(size=(100, 1)) + of_runs + noise)

                rows.append([f"100 queries, {name}, {kind}", runs, *cell(of_runs, queries)])

        def given(runs: int = runs) -> pl.DataFrame:
            task = np.repeat(np.arange(3), [20, 60, 200])
            effects = random.normal(size=(3, runs))
            noise = random.normal(size=(len(task), runs))
            return board((effects - effects.mean(axis=0))[task] + noise, task=task)

        rows.append(["3 given tasks of 20 to 200 queries", runs,
                     *cell(np.zeros(runs), given, by="task")])  # fmt: skip
        for number in (10, 30):

            def sampled(runs: int = runs, number: int = number) -> pl.DataFrame:
                return board(random.normal(size=(number, runs))).rename({"query": "task"})

            rows.append([f"{number} sampled tasks", runs,
                         *cell(np.zeros(runs), sampled, query="task")])  # fmt: skip
    yield Section(
        "Intervals of ranks",
        f"The share of {logs:,} logs in which the intervals contain all true "
        "ranks of all runs, which should be at least 0.95; runs with equal means have several true "
        "ranks. With different means, fewer pairs can be told apart by mistake.",
        ["runs", "number", "covered", "ranks in an interval"],
        rows,
    )


def board(matrix: Array, **columns: Array) -> pl.DataFrame:
    """Return per-query values of queries x runs, with columns of the queries."""
    queries, runs = matrix.shape
    return pl.DataFrame({
        "query": np.repeat(np.arange(queries), runs), "run": np.tile(np.arange(runs), queries),
        **{name: np.repeat(each, runs) for name, each in columns.items()}, "x": matrix.ravel(),
    })  # fmt: skip


def ranks(
    means: Array, tables: Callable[[], pl.DataFrame], logs: int, **options: str
) -> tuple[Level, float]:
    """Return the share of logs with all true ranks, and the mean number of ranks in an interval."""
    best = 1 + (means[:, None] < means).sum(axis=1)
    last = (means[:, None] <= means).sum(axis=1)
    contained, sizes = [], []
    for _ in range(logs):
        found = result(pr.leaderboard, tables(), "x", **options).sort("run")
        low, high = (found.get_column(name).to_numpy() for name in ("rank_low", "rank_high"))
        contained.append(bool(((low <= best) & (last <= high)).all()))
        sizes.append(float((high - low).mean()) + 1)
    return coverage(float(np.mean(contained))), float(np.mean(sizes))


# -- 10. Equal differences ------------------------------------------------------------------------


def of_equal(random: Random, logs: int) -> Iterator[Section]:
    rows: list[list[object]] = []
    for size in (0.0, -0.5):
        for queries in (3, 5, 6, 8, 30, 400):
            base = 0.5 + 0.5 * random.random(queries)
            table = pl.DataFrame({"query": range(queries), "x": base})
            both = [table.with_columns(run=pl.lit("a")),
                    table.with_columns(pl.col("x") + size, run=pl.lit("b"))]  # fmt: skip
            found = result(pr.compare, pl.concat(both), baseline="a", details=True)
            row = found.row(0, named=True)
            guard, proof = (
                result(pr.check, found, [rule], on_fail="return")["verdict"].item()
                for rule in ("not difference(x) < -0.02", "difference(x) >= -0.02")
            )
            shown = ["-" if row[name] is None else f"{row[name]:.3f}"
                     for name in ("low", "high", "p_value")]  # fmt: skip
            rows.append([f"{size}", queries, *shown, row["verdict"], row["reason"] or "-", guard,
                         proof])  # fmt: skip
    yield Section(
        "Equal differences", "All differences are the same, of queries without weights: not "
        "simulated.",
        ["all differences", "queries", "low", "high", "p", "verdict", "reason",
         '"not difference < -0.02"', '"difference >= -0.02"'], rows,
    )  # fmt: skip


SECTIONS: dict[str, tuple[str, Callable[[Random, int], Iterator[Section]]]] = {
    "shares": ("1. Values of 0 or 1, with clusters and weights", of_shares),
    "skewed": ("2. Skewed values", of_skewed),
    "heavy": ("3. Heavy units", of_heavy),
    "repeated": ("4. Repeated queries", of_repeated),
    "days": ("5. Days that differ", of_days),
    "gates": ("6. Gates", of_gates),
    "families": ("7. Several questions at once", of_families),
    "predictions": ("8. Predictions", of_predictions),
    "leaderboards": ("9. Leaderboards", of_leaderboards),
    "equal": ("10. Equal differences", of_equal),
}


def main() -> None:
    options = arguments()
    parts: list[str] = []
    beyond: list[str] = []
    started = time.process_time()
    for name in options.only:
        title, function = SECTIONS[name]
        parts += [f"## {title}", ""]
        before = time.process_time()
        for section in function(np.random.default_rng(options.seed), options.logs):
            parts += section.lines()
            beyond += section.beyond()
        print(f"{name}: {time.process_time() - before:.0f} s of CPU time", file=sys.stderr)
    error = 2 * math.sqrt(0.05 * 0.95 / options.logs)
    head = [
        "# Levels of intervals, tests and gates",
        "",
        f"Generated on {date.today()} by `python -m tests.benchmarks.levels` in "
        f"{time.process_time() - started:,.0f} s of CPU time, with Polars {pl.__version__}, NumPy "
        f"{np.__version__}, scipy {scipy.__version__} and Python {platform.python_version()}: "
        f"{options.logs:,} simulated logs per cell unless it says otherwise, seed {options.seed}. "
        "Intervals have a confidence of 0.95. \"Covered\" is the share of intervals that contain "
        f"the true value. By chance, shares near 0.95 and 0.05 move by {error:.3f} either way (two "
        "standard errors).",
        "",
        f"Cells are bold where a level does not hold: a coverage below {COVERED}, false alarms above "
        f"{ALARMS}, wrong proofs above {PASSES}, and planned power away from 0.8 by more than 0.1. "
        "They are listed at the end.",
        "",
    ]  # fmt: skip
    tail = ["## What does not hold", "", *(beyond or ["Nothing."])]
    publish("\n".join([*head, *parts, *tail]) + "\n", options.output)


if __name__ == "__main__":
    main()
