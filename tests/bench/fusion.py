"""Compare tuned with held-out means of fusions.

    python -m tests.bench.fusion [--logs 4000] [--output FILE]

The table is a part of fusion.md.
"""

from __future__ import annotations

import argparse
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from scipy.stats import t

import polars_rank as pr

# Seeds that do not depend on the order of queries.
from polars_rank.stats.query_hash import mixed
from tests.bench.pages import arguments, publish
from tests.parts import filled

PAGE = Path(__file__).with_name("fusion.md")
RUNS, DOCS, FOLDS, METRIC = 3, 20, 5, "ndcg@10"
#: How much a score depends on the label: noise, and runs of different quality.
QUALITY = {"noise": (0.0, 0.0, 0.0), "similar runs": (0.5, 0.6, 0.7)}
METHOD = "sum(normalize='min_max')"
STEP = 0.2
#: Candidates whose values are independent of each other.
INDEPENDENT = 100
#: Queries from which the queries of simulated logs are drawn.
MANY = 20_000
#: Simulated logs whose intervals are compared with those of `tune_fusion`.
CHECKED = 5


def log_of(random: np.random.Generator, queries: int, quality: tuple[float, ...]) -> pl.DataFrame:
    """Return runs that rank the same documents by their labels and noise."""
    labels = (random.random((queries, DOCS)) < 0.2).astype(np.int64)
    documents = np.arange(queries * DOCS)
    return pl.concat(
        pl.DataFrame({
            "run": f"run{place}",
            "query": documents // DOCS,
            "doc": documents % DOCS,
            "score": (each * labels + random.normal(size=labels.shape)).ravel(),
            "label": labels.ravel(),
        })
        for place, each in enumerate(quality)
    )  # fmt: skip


def folds_of(queries: int, count: int) -> np.ndarray:
    """Return the folds of the queries 0, 1, 2, … in `tune_fusion`."""
    keys = pl.Series(np.arange(queries), dtype=pl.UInt64)
    return (pl.select(mixed(pl.lit(keys)).rank("ordinal")).to_series().to_numpy() - 1) % count


def correction(folds: int) -> float:
    """Return the factor of the width of intervals of "tuned"."""
    return float(np.sqrt(1 + (folds - 1) / folds))


class Pool(NamedTuple):
    """Values of queries, of which simulated logs are samples: the true means are theirs."""

    #: The values of candidates, of the fusion without weights, and of the best run.
    values: np.ndarray
    #: The documents of the queries, and the parameters of candidates.
    log: pl.DataFrame | None = None
    candidates: Sequence[str] = ()

    @classmethod
    def of(cls, random: np.random.Generator, quality: tuple[float, ...]) -> Pool:
        """Return the values of fusions of runs."""
        log = log_of(random, MANY, quality)
        few = log.filter(pl.col("query") < 2 * FOLDS)
        curve = pr.tune_fusion(few, METRIC, METHOD, step=STEP, curve=True)
        candidates = curve["method"].to_list()
        fusions = [pr.fuse(log, each) for each in [*candidates, METHOD]]
        best = log.filter(pl.col("run") == f"run{np.argmax(quality)}")
        values = [
            pr.per_query(each, METRIC, undefined="zero").sort("query")[METRIC]
            for each in [*fusions, best]
        ]
        return cls(np.column_stack(values), log, candidates)


def simulated(
    random: np.random.Generator, pool: Pool, queries: int, logs: int, count: int = FOLDS
) -> list[float]:
    """Return the biases, and the coverages of intervals."""
    truth, folds = pool.values.mean(axis=0), folds_of(queries, count)
    sizes, quantile = np.bincount(folds), t.ppf(0.975, queries - 1)
    rows = []
    for number in range(logs):
        drawn = random.integers(MANY, size=queries)
        log = pool.values[drawn]
        fixed, of_best = log[:, -2], log[:, -1]
        sums = np.stack([log[folds == fold, :-2].sum(axis=0) for fold in range(count)])
        chosen = ((sums.sum(axis=0) - sums) / (queries - sizes)[:, None]).argmax(axis=1)
        winner = sums.sum(axis=0).argmax()
        held_out = log[np.arange(queries), chosen[folds]]
        expected = truth[chosen] @ sizes / queries
        corrected = correction(count) * quantile
        if pool.log is not None and number < CHECKED:
            # Its skewness is that of the values, so `summarize` of wider values has its bounds.
            mean = held_out.mean()
            wider = pl.DataFrame({"x": mean + correction(count) * (held_out - mean)})
            low, high = pr.summarize(wider).select("low", "high").row(0)
            choices = [pool.candidates[each] for each in chosen]
            check(pool.log, drawn, (low, mean, high), choices)
        rows.append([
            log[:, winner].mean() - truth[winner],
            held_out.mean() - expected,
            covers(held_out, expected, corrected),
            covers(held_out, expected, quantile),
            covers(fixed, truth[-2], quantile),
            covers(held_out - of_best, expected - truth[-1], corrected),
            covers(held_out - of_best, expected - truth[-1], quantile),
            covers(fixed - of_best, truth[-2] - truth[-1], quantile),
        ])  # fmt: skip
    means: list[float] = np.array(rows, dtype=float).mean(axis=0).tolist()
    return means


def covers(sample: np.ndarray, mean: float, quantile: float) -> bool:
    """Return whether the interval of the mean of a sample contains a mean."""
    error = quantile * sample.std(ddof=1) / np.sqrt(len(sample))
    return bool(abs(sample.mean() - mean) <= error)


def check(
    documents: pl.DataFrame,
    drawn: np.ndarray,
    expectation: tuple[float, float, float],
    chosen: list[str],
) -> None:
    """Raise an error unless `tune_fusion` has the same mean, interval and choices."""
    queries = pl.DataFrame({"query": drawn, "number": range(len(drawn))})
    log = queries.join(documents, on="query").drop("query").rename({"number": "query"})
    table = pr.tune_fusion(log, METRIC, METHOD, step=STEP, folds=FOLDS)
    tuned = table.row(0, named=True)
    result = [tuned[name] for name in ("low", "mean", "high")]
    if not np.allclose(result, expectation) or tuned["by_fold"] != chosen:
        raise AssertionError(f"{tuned} is not {expectation} with the choices {chosen}")


def line(name: str, queries: int, folds: int, result: Sequence[float]) -> str:
    highest, held_out, *coverages = result
    shares = " | ".join(f"{each:.1%}" for each in coverages)
    return f"| {name} | {queries} | {folds} | {highest:+.4f} | {held_out:+.4f} | {shares} |"


def coverage(given: argparse.Namespace) -> list[str]:
    """Return the rows of biases and coverages."""
    lines = []
    random = np.random.default_rng(given.seed)
    for name, quality in QUALITY.items():
        pool = Pool.of(random, quality)
        for queries in given.queries:
            lines.append(line(name, queries, FOLDS, simulated(random, pool, queries, given.logs)))
    pool = Pool(random.normal(size=(MANY, INDEPENDENT + 2)))
    for folds in (FOLDS, 2 * FOLDS):
        queries = given.queries[-1]
        result = simulated(random, pool, queries, given.logs, folds)
        lines.append(line("independent values", queries, folds, result))
    return lines


def main() -> None:
    given = arguments(__doc__, logs=4000, queries=[40, 200], seed=1)
    warnings.simplefilter("ignore")
    page = PAGE.read_text(encoding="utf-8")
    *_, head, dashes = re.search(r"^(\| runs .*)\n(\| ---.*)$", page, re.MULTILINE).groups()
    logs = f"{given.logs:,} simulated logs per row; the standard error of a coverage of 95% is "
    error = f"{np.sqrt(0.95 * 0.05 / given.logs):.1%}.\n"
    rows = "\n".join([logs + error, head, dashes, *coverage(given)])
    publish(filled(page, {"coverage": rows}), given.output)


if __name__ == "__main__":
    main()
