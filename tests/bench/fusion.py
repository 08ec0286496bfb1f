"""Compare tuned with held-out means of fusions, and the time and memory of fusions with ranx.

    python -m tests.bench.fusion [--logs 4000] [--output FILE]

It needs the packages of the group "bench", ranx included. The tables are in fusion.md.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import multiprocessing
import resource
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy.stats import t

import polars_rank as pr
from polars_rank.fusion.methods import read_fusion
from polars_rank.stats.query_hash import mixed
from tests.bench.pages import publish

RUNS, DOCS, FOLDS, METRIC = 3, 20, 5, "ndcg@10"
#: How much a score depends on the label: noise, and runs of different quality.
QUALITY = {"noise": (0.0, 0.0, 0.0), "similar runs": (0.5, 0.6, 0.7)}
METHOD = "sum(normalize='min_max')"
STEP = 0.2
#: Candidates whose values are independent of each other.
INDEPENDENT = 100
#: The fusion that ranx calls "wsum", with min-max normalization.
WEIGHTED_SUM = "weighted_sum(normalize='min_max')"
#: Queries from which the queries of simulated logs are drawn.
MANY = 20_000
#: Simulated logs whose intervals are compared with those of `tune_fusion`.
CHECKED = 5
#: Queries that are generated at a time.
PART = 50_000


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.fusion", description=__doc__)
    parser.add_argument("--logs", type=int, default=4000)
    parser.add_argument("--queries", type=int, nargs="+", default=[40, 200])
    parser.add_argument("--rows", type=int, default=200_000, help="rows per run, as for ranx")
    parser.add_argument("--fused-rows", type=int, default=10_000_000, help="rows per run")
    parser.add_argument("--tuned-rows", type=int, default=3_333_320, help="rows per run")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


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


def write_log(path: Path, rows: int) -> None:
    """Write runs with this number of rows each to a Parquet file, query by query."""
    random = np.random.default_rng(0)
    parts = []
    for start in range(0, rows // DOCS, PART):
        queries = min(PART, rows // DOCS - start)
        log = log_of(random, queries, QUALITY["similar runs"])
        parts.append(path.with_suffix(f".{start}"))
        log.with_columns(pl.col("query") + start).sort("query").write_parquet(parts[-1])
    pl.scan_parquet(parts).sink_parquet(path, maintain_order=True)
    for part in parts:
        part.unlink()


# The contenders: they return the seconds without preparation, and what they compute.


def our_fuse(path: Path) -> tuple[float, Any]:
    fused = pr.fuse(pr.scan_log(path))
    start = time.perf_counter()
    fused.sink_parquet(path.with_suffix(".fused"))
    return time.perf_counter() - start, None


def our_tuning(path: Path) -> tuple[float, Any]:
    log = pl.read_parquet(path)
    start = time.perf_counter()
    table = pr.tune_fusion(log, METRIC, WEIGHTED_SUM, folds=FOLDS)
    seconds = time.perf_counter() - start
    return seconds, read_fusion(table["method"][0]).weights


def our_curve(path: Path) -> tuple[float, Any]:
    log = pl.read_parquet(path)
    start = time.perf_counter()
    curve = pr.tune_fusion(log, METRIC, WEIGHTED_SUM, curve=True)
    seconds = time.perf_counter() - start
    best = curve.sort("mean", descending=True, maintain_order=True)["method"][0]
    return seconds, read_fusion(best).weights


def ranx_runs(path: Path) -> tuple[Any, list[Any]]:
    import ranx

    log = pl.read_parquet(path).with_columns(pl.col("query", "doc").cast(pl.String))
    lists = log.group_by("run", "query", maintain_order=True).agg("doc", "score", "label")
    judgments: dict[str, Any] = {}
    runs: dict[str, Any] = {}
    for run, query, docs, scores, labels in lists.iter_rows():
        judgments[query] = dict(zip(docs, labels, strict=True))
        runs.setdefault(run, {})[query] = dict(zip(docs, scores, strict=True))
    return ranx.Qrels(judgments), [ranx.Run(run, name=name) for name, run in runs.items()]


def ranx_fuse(path: Path) -> tuple[float, Any]:
    import ranx

    _, runs = ranx_runs(path)
    start = time.perf_counter()
    ranx.fuse(runs, norm=None, method="rrf", params={"k": 60})
    return time.perf_counter() - start, None


def ranx_tuning(path: Path) -> tuple[float, Any]:
    import ranx

    judgments, runs = ranx_runs(path)
    start = time.perf_counter()
    best = ranx.optimize_fusion(
        judgments, runs, norm="min-max", method="wsum", metric=METRIC, step=0.1, show_progress=False
    )
    seconds = time.perf_counter() - start
    return seconds, {
        run.name: float(weight) for run, weight in zip(runs, best["weights"], strict=True)
    }


Contender = Callable[[Path], tuple[float, Any]]


def measured(contender: Contender, path: Path, small: Path) -> dict[str, Any]:
    """Return seconds and memory of a contender, after a run on a small log: imports, compilers."""
    warnings.simplefilter("ignore")
    contender(small)
    start, cpu = time.perf_counter(), time.process_time()
    inside, result = contender(path)
    return {
        "seconds": time.perf_counter() - start,
        "inside": inside,
        "cpu": time.process_time() - cpu,
        "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "result": result,
    }


def in_process(contender: Contender, path: Path, small: Path) -> dict[str, Any]:
    """Return the measures of a contender in a process of its own."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(measured, contender, path, small).result()


def times(given: argparse.Namespace) -> list[str]:
    """Return the tables of time and memory."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        small, log, larger, largest = (
            Path(folder) / f"{name}.parquet" for name in ("small", "log", "larger", "largest")
        )
        write_log(small, 1000)
        write_log(log, given.rows)
        pairs = [
            ("`fuse`, RRF", our_fuse, "`ranx.fuse`, RRF", ranx_fuse),
            ("`fusion_curve`, 66 candidates", our_curve,
             "`ranx.optimize_fusion`, step 0.1", ranx_tuning),
            ("`tune_fusion`, 66 candidates, 5 folds", our_tuning,
             "`ranx.optimize_fusion`, step 0.1", None),
        ]  # fmt: skip
        peer: dict[str, Any] = {}
        weights = {}
        for name, ours, peer_name, theirs in pairs:
            own = in_process(ours, log, small)
            if theirs is not None:
                peer = in_process(theirs, log, small)
                rows.append(row(peer_name, given.rows, peer))
            rows.append(row(name, given.rows, own, peer))
            weights[name], weights[peer_name] = own["result"], peer["result"]
        write_log(largest, given.fused_rows)
        rows.append(row("`fuse`, RRF", given.fused_rows, in_process(our_fuse, largest, small)))
        largest.unlink()
        write_log(larger, given.tuned_rows)
        name = "`tune_fusion`, 66 candidates, 5 folds"
        rows.append(row(name, given.tuned_rows, in_process(our_tuning, larger, small)))
    best = "; ".join(f"{name} {each}" for name, each in weights.items() if each is not None)
    return [
        f"## Time and memory\n\nranx {importlib.metadata.version('ranx')}, after its compilation, "
        f"and polars_rank with Polars {pl.__version__} on {multiprocessing.cpu_count()} cores, "
        f"each in its own process. {RUNS} runs of {DOCS} documents per query are read from a "
        "Parquet file with adjacent rows of each query. Tuning is of weights with a step of 0.1, "
        f"for the sum of min-max normalized scores and {METRIC}. The first column of seconds "
        "counts the reading of the file and, for ranx, the building of its runs; the second one "
        "does not, except that `fuse` reads while it computes, and writes a Parquet file. "
        "Ratios are to polars_rank, by the wall time of the same columns. Memory is the peak of "
        "the process. `tune_fusion` holds the table in memory: its largest table has 10 million rows in all.\n",
        "`ranx.optimize_fusion` reports the highest mean on the queries on which it chose the "
        "weights, as `tune_fusion(curve=True)` shows it. `tune_fusion` adds held-out means, intervals, and "
        "bounds for unjudged documents. The chosen weights: " + best + ".\n",
        "| | rows per run | seconds, all | seconds, without preparation | CPU seconds | "
        "memory, MB | ranx / polars_rank, all | without preparation |\n"
        "| --- | --: | --: | --: | --: | --: | --: | --: |",
        *rows,
    ]


def row(name: str, rows: int, own: dict[str, Any], peer: dict[str, Any] | None = None) -> str:
    ratios = [
        "" if peer is None else f"{peer[key] / own[key]:.1f}" for key in ("seconds", "inside")
    ]
    cells = [name, f"{rows:,}", f"{own['seconds']:.2f}", f"{own['inside']:.2f}", f"{own['cpu']:.2f}",
             f"{own['memory']:,.0f}", *ratios]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def line(name: str, queries: int, folds: int, result: Sequence[float]) -> str:
    highest, held_out, *coverages = result
    shares = " | ".join(f"{each:.1%}" for each in coverages)
    return f"| {name} | {queries} | {folds} | {highest:+.4f} | {held_out:+.4f} | {shares} |"


def coverage(given: argparse.Namespace) -> list[str]:
    """Return the table of biases and coverages."""
    lines = [
        f"{given.logs:,} simulated logs per row, {RUNS} runs and {DOCS} documents per query. "
        f"Candidates are the 21 weights with a step of {STEP}, for the sum of min-max normalized "
        f"scores, tuned for {METRIC}. Queries are drawn from {MANY:,} queries, "
        "whose means are the true ones. The bias of the highest mean is its mean difference from "
        "the true mean of the weights that have it; that of the held-out mean is from the true "
        "means of the weights that the folds chose.\n",
        'Coverage is the share of 95% intervals of "tuned" that contain this mean, and its '
        "difference from the mean of the best run: with the correction for training queries that "
        'folds have in common, as in `tune_fusion`, and without it. "unweighted" is the reference: '
        "nothing is chosen. The simulated intervals are those of t, which the intervals of "
        "`tune_fusion`, `summarize` and `compare` contain. The standard error of a coverage of 95% is "
        f"{np.sqrt(0.95 * 0.05 / given.logs):.1%}. The first {CHECKED} logs of each row are also "
        "passed to `tune_fusion`, whose means and choices are equal, and whose intervals are those "
        "of `summarize` for values that are wider by the correction. The last rows are an "
        f"extreme case: {INDEPENDENT} candidates with independent normal values, all equally good."
        "\n",
        "| runs | queries | folds | bias of the highest mean | bias of the held-out mean | tuned | "
        "tuned, not corrected | unweighted | difference: tuned | not corrected | unweighted |\n"
        "| --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |",
    ]
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
    given = arguments()
    warnings.simplefilter("ignore")
    timing = times(given)  # first, because a process inherits the peak of its parent
    lines = [
        "# Fusions that are tuned: how much too high their means are\n",
        "Generated by `python -m tests.bench.fusion`.\n",
        *coverage(given),
        "",
        *timing,
    ]
    publish("\n".join(lines) + "\n", given.output)


if __name__ == "__main__":
    main()
