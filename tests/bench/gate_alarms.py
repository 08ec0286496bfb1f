"""Measure how often the default rules of `gate` fail an equal retriever, and find a loss.

    python -m tests.bench.gate_alarms [--runs 200] [--seed 1] [--output FILE]

Two retrievers score the same candidates with independent noise. They are equal if the relevant
documents stand out as much in both. The default rules are guards, which fail where `compare` finds
the run worse. All pairs of a batch are groups of one call. The table is a part of gate_alarms.md.
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl

import polars_rank as pr

# The metrics of a gate.
from polars_rank.gates.gate import METRICS
from tests.bench.pages import arguments, publish
from tests.parts import filled

QUERIES = (50, 200, 1_000)
CATEGORIES, CANDIDATES, MOST_RELEVANT = 6, 20, 4
#: Standard deviations of the noise, by how many queries differ between runs.
NOISE = {"some queries differ": 0.3, "most queries differ": 1.5}
#: How far relevant documents stand out, and how far in a retriever that is worse.
SIGNAL, WORSE = 1.5, 1.2
#: One in so many pairs is of a retriever that is worse; pairs of a batch.
FEWER, BATCH = 8, 20


def values(
    random: np.random.Generator, pairs: int, queries: int, noise: float, signal: float
) -> pl.DataFrame:
    """Return the values of pairs of runs, the second of which has another signal."""
    shape = (pairs, queries, CANDIDATES)
    relevant = np.arange(CANDIDATES) < random.integers(1, MOST_RELEVANT + 1, (pairs, queries, 1))
    shared = random.normal(size=shape)
    pair, query, doc = (each.ravel() for each in np.indices(shape))
    parts = []
    for run, strength in (("baseline", SIGNAL), ("run", signal)):
        scores = shared + strength * relevant + noise * random.normal(size=shape)
        log = pl.DataFrame(
            {"pair": pair, "query": query, "doc": doc, "score": scores.ravel(),
             "label": relevant.ravel().astype("int8")}
        )  # fmt: skip
        parts.append(pr.per_query(log, METRICS, by="pair").with_columns(run=pl.lit(run)))
    return pl.concat(parts).with_columns(category=pl.col("query") % CATEGORIES)


def failures(random: np.random.Generator, pairs: int, *setting: float) -> pl.DataFrame:
    """Return for each pair whether a rule failed about all queries, and about a category."""
    queries, noise, signal = setting
    tables = []
    for first in range(0, pairs, BATCH):
        table = values(random, min(BATCH, pairs - first), int(queries), noise, signal)
        compared = pr.compare(table, METRICS, baseline="baseline", by="pair", slices="category")
        is_worse = pl.col("verdict") == "worse"
        tables.append(
            compared.group_by("pair").agg(
                whole=(is_worse & pl.col("slice").is_null()).any(),
                part=(is_worse & pl.col("slice").is_not_null()).any(),
            )
        )
    return pl.concat(tables)


def main() -> None:
    options = arguments(__doc__, runs=200, seed=1)
    random = np.random.default_rng(options.seed)
    rows, alarms = [], []
    for queries in QUERIES:
        for name, noise in NOISE.items():
            equal = failures(random, options.runs, queries, noise, SIGNAL)
            worse = failures(random, options.runs // FEWER, queries, noise, WORSE)
            alarms.append((equal["whole"] | equal["part"]).mean())
            shares = [equal["whole"].mean(), equal["part"].mean(), alarms[-1]]
            shares.append((worse["whole"] | worse["part"]).mean())
            rows.append(
                f"| {queries:,} | {name} | " + " | ".join(f"{x:.3f}" for x in shares) + " |"
            )
            print(rows[-1], file=sys.stderr, flush=True)
    error, every = (2 * np.sqrt(0.05 * 0.95 / n) for n in (options.runs, options.runs * len(rows)))
    head = "| queries | rankings | all queries | a category | any rule | loss found |"
    parts = {
        "run": f"In {time.process_time():.0f} s of CPU time, {options.runs:,} pairs of runs per row, "
        f"seed {options.seed}. Shares near 0.05 are within {error:.3f} of their true value (two "
        "standard errors). The share of any rule should be at most 0.05; over all rows, it is "
        f"{np.mean(alarms):.3f} ± {every:.3f}. A loss is looked for in {options.runs // FEWER} pairs.",
        "alarms": "\n".join([head, "| ---: | --- | ---: | ---: | ---: | ---: |", *rows]),
    }
    page = Path(__file__).with_suffix(".md").read_text(encoding="utf-8")
    publish(filled(page, parts), options.output)


if __name__ == "__main__":
    with warnings.catch_warnings(action="ignore"):
        main()
