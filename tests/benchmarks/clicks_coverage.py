"""Measure the coverage of click intervals on simulated logs with known parameters.

    python -m tests.benchmarks.clicks_coverage [--logs 1000] [--output FILE]

Each simulated log is one group of a table, so that all of them are one call. The tables are in
clicks_coverage.md.
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

Random = np.random.Generator
#: The number of logs in one call, to bound memory.
AT_ONCE = 50
#: Of the documents of a query: few are relevant.
RELEVANCE = (0.5, 1.5)
POSITIONS = 10


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.clicks_coverage")
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="one section, from 0; printed")
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


# -- Interleaving ---------------------------------------------------------------------------------


def interleaving(random: Random, logs: int) -> list[str]:
    shares = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    rows = []
    for lists in (100, 1000):
        for decided in (0.1, 0.2, 0.4, 0.6):
            cells = []
            for share in shares:
                wins, losses = decided * share, decided * (1 - share)
                counts = random.multinomial(lists, [wins, losses, 1 - decided], size=logs)
                pairs, of_log = np.unique(counts, axis=0, return_inverse=True)
                found = pr.clicks.interleaving_result(decided_rankings(pairs), by="log")
                difference = pl.lit((wins - losses) / 2)
                slack = pl.lit(1e-12)
                inside = difference.is_between(pl.col("low") - slack, pl.col("high") + slack)
                covered = found.select(inside).to_series().to_numpy()[of_log]
                cells.append(f"{np.mean(covered):.3f}")
            rows.append([f"{lists:,}", f"{decided:.0%}", *cells])
    return table(["lists", "decided", *(f"winner {share:.0%}" for share in shares)], rows)


def decided_rankings(counts: np.ndarray) -> pl.DataFrame:
    """Return logs with numbers of wins, losses and ties of the ranker "a"."""
    log = np.repeat(np.arange(len(counts)), counts.sum(axis=1))
    winner = np.concatenate([np.repeat(["a", "b", ""], each) for each in counts])
    columns = {"log": log, "query": np.arange(len(log))}
    return pl.concat(
        pl.DataFrame({**columns, "team": team, "click": winner == team}) for team in "ab"
    )


def interleaved(
    random: Random, logs: int, queries: int, sessions: Sessions, spread: float
) -> pl.DataFrame:
    """Return interleaved rankings of two documents; queries differ in which ranker users prefer.

    In a log, users prefer both rankers equally. Half of the rankings have no click.
    """
    number = sessions(random, logs * queries)
    query = np.repeat(np.arange(logs * queries), number)
    preference = random.beta(spread, spread, logs * queries)[query]
    decided, won = random.random(len(query)) < 0.5, random.random(len(query)) < preference
    columns = {"log": query // queries, "query": query, "session": np.arange(len(query))}
    return pl.concat(
        pl.DataFrame({**columns, "team": team, "click": decided & clicked})
        for team, clicked in (("a", won), ("b", ~won))
    )


def clusters_of_interleaving(random: Random, logs: int) -> list[str]:
    kinds: dict[str, tuple[int, Sessions]] = {
        "10 queries with 40 sessions each": (10, fixed(40)),
        "50 queries with 40 sessions each": (50, fixed(40)),
        "50 queries with 20 sessions on average, geometric": (50, geometric(20)),
        "200 queries, Pareto(1.2), up to 1,000 sessions": (200, heavy),
        "50 queries, of which one has half of the sessions": (50, half),
    }
    rows = []
    for name, (queries, sessions) in kinds.items():
        for spread in (0.5, 5.0):
            cells, effective = [], []
            for cluster in (None, "query"):
                covered: list[bool] = []
                for start in range(0, logs, AT_ONCE):
                    at_once = min(AT_ONCE, logs - start)
                    log = interleaved(random, at_once, queries, sessions, spread)
                    found = pr.clicks.interleaving_result(
                        log, query=["query", "session"], by="log", cluster=cluster
                    )
                    inside = pl.lit(0.0).is_between("low", "high").fill_null(value=False)
                    covered += found.select(inside).to_series().to_list()
                    if cluster:
                        effective += found.get_column("effective").to_list()
                cells.append(f"{np.mean(covered):.3f}")
            rows.append(
                [name, f"beta({spread:g}, {spread:g})", *cells, f"{np.median(effective):.0f}"]
            )
    head = ["logs", "preferences of queries", "rankings", "`cluster`", "effective clusters"]
    return table(head, rows)


# -- What a new ranker is worth -------------------------------------------------------------------

#: How many sessions the queries of a log have.
Sessions = Callable[[Random, int], np.ndarray]


def fixed(number: int) -> Sessions:
    return lambda random, queries: np.full(queries, number)


def geometric(mean: float) -> Sessions:
    return lambda random, queries: random.geometric(1 / mean, queries)


def heavy(random: Random, queries: int) -> np.ndarray:
    """Return Pareto numbers of sessions, at most 1,000, of which a few queries have most."""
    return np.clip(5 * random.pareto(1.2, queries), 1, 1000).astype(int)


def half(random: Random, queries: int) -> np.ndarray:
    """Return 20 sessions per query; one of 50 queries has as many as the others together."""
    return np.where(np.arange(queries) % 50 == 0, 20 * 49, 20)


def weighted(
    random: Random,
    logs: int,
    queries: int,
    sessions: Sessions,
    relevance: float,
    share: float = 1.0,
) -> pl.DataFrame:
    """Return sessions of two documents, each shown at a random position, labelled by IPS.

    The new ranker puts the first of them on top, the old one the second, whose relevance is
    multiplied by `share`.
    """
    number = sessions(random, logs * queries)
    query = np.repeat(np.arange(logs * queries), number)
    parts = []
    for score, factor in ((2.0, 1.0), (1.0, share)):
        relevant = factor * relevance * random.beta(*RELEVANCE, logs * queries)
        position = random.integers(1, POSITIONS + 1, len(query))
        click = random.random(len(query)) < relevant[query] / position
        parts.append(
            pl.DataFrame(
                {
                    "log": query // queries,
                    "query": query,
                    "session": np.arange(len(query)),
                    "score": score,
                    "old": 3.0 - score,
                    "label": np.where(click, position, 0.0),
                }
            )
        )
    return pl.concat(parts)


def estimated(
    random: Random,
    logs: int,
    queries: int,
    sessions: Sessions,
    relevance: float,
    cluster: str | None = "query",
) -> pl.DataFrame:
    """Return whether the interval contains the true value, for each log and estimate."""
    truths = {"ips": relevance * RELEVANCE[0] / sum(RELEVANCE), "snips": 0.5}
    found = []
    for start in range(0, logs, AT_ONCE):
        rows = weighted(random, min(AT_ONCE, logs - start), queries, sessions, relevance)
        for normalize, truth in truths.items():
            result = pr.clicks.estimate(
                rows, "cg@1", query="session", by="log", normalize=normalize, cluster=cluster
            )
            covered = pl.lit(truth).is_between("cg@1_low", "cg@1_high").fill_null(value=False)
            size = pl.col("effective_sample_size").fill_null(0.0)
            found.append(result.select(covered.alias("covered"), size, normalize=pl.lit(normalize)))
    return pl.concat(found)


def populations(random: Random, logs: int) -> list[str]:
    kinds: dict[str, tuple[Sessions, float, int]] = {
        "20 sessions each": (fixed(20), 0.8, logs // 2),
        "20 sessions each, few clicks": (fixed(20), 0.2, logs // 2),
        "20 sessions on average, geometric": (geometric(20), 0.8, logs // 2),
        "100 sessions each": (fixed(100), 0.8, logs // 2),
        "Pareto(1.2), up to 1,000": (heavy, 0.8, logs // 2),
    }
    rows = []
    for name, (sessions, relevance, number) in kinds.items():
        cells: list[str] = []
        for cluster in (None, "query"):
            found = estimated(random, number, 300, sessions, relevance, cluster)
            for normalize in ("ips", "snips"):
                of = found.filter(normalize=normalize)
                cells.append(f"{of['covered'].mean():.3f}")
        rows.append([name, f"{number:,}", *cells, f"{found['effective_sample_size'].median():.0f}"])
    head = [
        "300 queries",
        "logs",
        "IPS, sessions",
        "SNIPS, sessions",
        "IPS, `cluster`",
        "SNIPS, `cluster`",
    ]
    return table([*head, "effective clusters"], rows)


def differences(random: Random, logs: int) -> list[str]:
    """Cover the difference of two rankers, one of which puts better documents on top."""
    logs //= 2
    kinds: dict[str, tuple[int, Sessions]] = {
        "10 queries with 20 sessions each": (10, fixed(20)),
        "30 queries with 20 sessions each": (30, fixed(20)),
        "100 queries with 20 sessions each": (100, fixed(20)),
        "300 queries with 20 sessions each": (300, fixed(20)),
        "300 queries with 20 sessions on average, geometric": (300, geometric(20)),
        "300 queries, Pareto(1.2), up to 1,000 sessions": (300, heavy),
    }
    rows = []
    for name, (queries, sessions) in kinds.items():
        for share in (1.0, 0.6):
            mean = 0.8 * RELEVANCE[0] / sum(RELEVANCE)
            truths = {"ips": mean * (1 - share), "snips": (1 - share) / (1 + share)}
            covered: dict[tuple[str | None, str], list[bool]] = {}
            sizes = []
            for start in range(0, logs, AT_ONCE):
                at_once = min(AT_ONCE, logs - start)
                log = weighted(random, at_once, queries, sessions, 0.8, share)
                for cluster in (None, "query"):
                    for normalize, truth in truths.items():
                        found = pr.clicks.estimate(
                            log, "cg@1", query="session", by="log", score=["old", "score"],
                            baseline="old", normalize=normalize, cluster=cluster,
                        )  # fmt: skip
                        inside = pl.lit(truth).is_between("low", "high").fill_null(value=False)
                        covered.setdefault((cluster, normalize), []).extend(
                            found.select(inside).to_series()
                        )
                sizes += found.get_column("effective_sample_size").fill_null(0.0).to_list()
            cells = [f"{np.mean(each):.3f}" for each in covered.values()]
            rows.append([name, f"{share:.0%}", f"{logs:,}", *cells, f"{np.median(sizes):.0f}"])
    head = ["IPS, sessions", "SNIPS, sessions", "IPS, `cluster`", "SNIPS, `cluster`"]
    return table(["log", "old ranker", "logs", *head, "effective clusters"], rows)


def sizes(random: Random, logs: int) -> list[str]:
    """Cover with clusters, by the effective sample size that the log has."""
    found = pl.concat(
        estimated(random, logs // 2, queries, fixed(5), relevance)
        for relevance in (0.8, 0.2, 0.05)
        for queries in (10, 20, 30, 50, 100, 300)
    )
    edges = [0, 2, 3, 5, 10, 20, 50, 100, 300]
    size = pl.col("effective_sample_size")
    rows = []
    for low, high in zip(edges, edges[1:], strict=False):
        of = found.filter(low <= size, size < high)
        if of.is_empty():
            continue
        shares = [of.filter(normalize=name).get_column("covered") for name in ("ips", "snips")]
        cells = [f"{np.mean(share.to_list()):.3f}" for share in shares]
        rows.append([f"{low} to {high}", f"{of.height // 2:,}", *cells])
    return table(["effective sample size", "logs", "IPS", "SNIPS"], rows)


# -- Position bias --------------------------------------------------------------------------------


def few_pairs(random: Random, logs: int) -> list[str]:
    """Cover the propensity of the second position, by pairs and their impressions."""
    numbers = (5, 10, 20, 30, 50, 100, 300)
    rows = []
    for propensity in (0.5, 0.2):
        for shown in (2, 5, 20):
            cells = []
            for pairs in numbers:
                number = min(logs, 2_000_000 // (pairs * shown))
                rate = np.repeat(random.beta(0.3, 1, number * pairs), shown)
                log = pl.concat(
                    pl.DataFrame(
                        {
                            "log": np.repeat(np.arange(number), pairs * shown),
                            "query": np.repeat(np.arange(number * pairs), shown),
                            "doc": 0,
                            "position": position,
                            "click": random.random(len(rate)) < rate * chance,
                        }
                    )
                    for position, chance in ((1, 1.0), (2, propensity))
                )
                low, high = (
                    pl.col("propensity") + sign * 1.96 * pl.col("std_error") for sign in (-1, 1)
                )
                found = pr.clicks.position_bias(log, by="log").filter(position=2)
                inside = found.select(pl.lit(propensity).is_between(low, high)).to_series()
                cells.append(f"{inside.mean():.3f}")
            rows.append([f"{propensity}", f"{shown}", *cells])
    return table(["propensity", "impressions", *(f"{each} pairs" for each in numbers)], rows)


def randomized(random: Random, logs: int) -> list[str]:
    """Cover the propensity of the second position in logs with a random order."""
    numbers = (5, 10, 20, 50, 200, 1000)
    rows = []
    for rate in (0.05, 0.2, 0.5, 0.95):
        for propensity in (1.0, 0.5, 0.2):
            cells = []
            for shown in numbers:
                number = min(logs, 1_000_000 // shown)
                log = pl.concat(
                    pl.DataFrame(
                        {
                            "log": np.repeat(np.arange(number), shown),
                            "query": 0,
                            "doc": 0,
                            "position": position,
                            "click": random.random(number * shown) < chance,
                        }
                    )
                    for position, chance in ((1, rate), (2, rate * propensity))
                )
                low, high = (
                    pl.col("propensity") + sign * 1.96 * pl.col("std_error") for sign in (-1, 1)
                )
                found = pr.clicks.position_bias(log, "randomized", by="log").filter(position=2)
                inside = found.select(pl.lit(propensity).is_between(low, high)).to_series()
                expected = shown * rate * propensity
                cells.append(f"{inside.mean():.3f}" + ("" if expected >= 10 else " *"))
            rows.append([f"{rate:.0%}", f"{propensity}", *cells])
    head = ["clicks at the top", "propensity", *(f"{each:,} impressions" for each in numbers)]
    return table(head, rows)


def thin_pairs(random: Random, logs: int) -> list[str]:
    """Return errors of EM propensities by the number of impressions per pair."""
    number, rows = max(1, logs // 50), []
    seed = int(random.integers(1000))
    for sessions in (2, 3, 5, 10, 20):
        log = pr.datasets.click_log(100 * number, 10, sessions=sessions, seed=seed)
        log = log.with_columns(log=pl.col("query") // 100).collect()
        found = pr.clicks.position_bias(log, "em", by="log")
        cells = found.group_by("log").agg(pl.col("impressions").sum() / pl.col("pairs").sum())
        below = found.filter(pl.col("position").is_in([2, 3, 4])).with_columns(
            off=pl.col("propensity") * pl.col("position") - 1
        )
        off = below.group_by("position").agg(pl.col("off").mean()).sort("position")["off"]
        bound = below.filter(position=2)["std_error"].is_null().mean()
        rows.append([
            f"{sessions}", f"{number}", f"{cells['impressions'].mean():.2f}",
            *(f"{each:+.0%}" for each in off), f"{bound:.0%}",
        ])  # fmt: skip
    head = ["sessions", "logs", "impressions per pair and position"]
    return table(
        [*head, *(f"position {each}" for each in (2, 3, 4)), "position 2 at a bound"], rows
    )


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(head) + " |", "| --- |" + " ---: |" * (len(head) - 1)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows)]


#: Title → description of the table, and a function of random numbers and a number of logs.
SECTIONS: dict[str, tuple[str, Callable[[Random, int], list[str]]]] = {
    "`interleaving_result`": (
        "Share of intervals that contain the true difference. Rankings are won, lost or tied "
        "independently.",
        interleaving,
    ),
    "`interleaving_result`: the population of queries": (
        "Share of intervals that contain the true difference, 0, over the population of queries. "
        "Of each query, users prefer one ranker with a probability from the given distribution; "
        "half of the rankings have no click. Without `cluster`, intervals are for other sessions "
        "of the same queries. Below 5 effective clusters, `interleaving_result` warns.",
        clusters_of_interleaving,
    ),
    "`clicks.estimate`: the population of queries": (
        "Share of intervals that contain the value over the population of queries. Each query has "
        "its own relevance, beta(0.5, 1.5); documents were shown at random positions with "
        "propensities 1 / position. Without `cluster`, intervals are for other sessions of the "
        "same queries. In the last row, few queries have most of the sessions.",
        populations,
    ),
    "`clicks.estimate` with `baseline`": (
        "Share of intervals that contain the true difference of two rankers over the population of "
        "queries, as in the previous table. The new ranker puts one document on top, the old one "
        "another, whose relevance has the same distribution, or 60% of it.",
        differences,
    ),
    "The effective sample size": (
        "Share of intervals that contain the value over the population of queries, with `cluster`, "
        "for 10 to 300 queries of 5 sessions and for many to few clicks. Below an effective sample "
        "size of 5, `estimate` warns.",
        sizes,
    ),
    '`position_bias`, "pivot": few pairs': (
        "Share of intervals, 1.96 standard errors to each side, that contain the true propensity "
        "of position 2, where the standard error is known. Pairs have relevance beta(0.3, 1) and "
        "the same number of impressions at both positions. `position_bias` warns below 50 pairs "
        "or 10 clicks. "
        'For position 2, "adjacent" is identical.',
        few_pairs,
    ),
    '`position_bias`, "randomized"': (
        "Share of intervals, 1.96 standard errors to each side, that contain the true propensity "
        "of position 2, where the top position has a click. A star marks fewer than 10 expected "
        "clicks at position 2: `position_bias` warns below 10 clicks.",
        randomized,
    ),
    '`position_bias`, "em": pairs with few impressions': (
        "Mean relative error of the propensities of logs of 100 queries with 10 documents. With "
        "few impressions per pair and position, propensities of lower positions are "
        "overestimated, and some are at the bound of 1, where the standard error is null. "
        "`position_bias` warns below 1.5.",
        thin_pairs,
    ),
}


def section(title: str, options: argparse.Namespace) -> str:
    text, made = SECTIONS[title]
    random = np.random.default_rng([options.seed, [*SECTIONS].index(title)])
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.RankWarning)
        lines = made(random, options.logs)
    print(f"{title}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return "\n\n".join([f"## {title}", text, "\n".join(lines)])


def main() -> None:
    options = arguments()
    if options.only is not None:
        print(section([*SECTIONS][options.only], options))
        return
    deviation = 2 * math.sqrt(0.05 * 0.95 / options.logs)
    parts = [
        "# Clicks: coverage of 95% intervals, by simulation",
        f"Generated by `python -m tests.benchmarks.clicks_coverage`: {options.logs:,} logs per "
        f"cell unless stated, seed {options.seed}. By chance, shares near 0.95 move by "
        f"{deviation:.3f} either way (two standard errors).",
        *(section(title, options) for title in SECTIONS),
    ]
    text = "\n\n".join(parts) + "\n"
    publish(text, options.output)


if __name__ == "__main__":
    main()
