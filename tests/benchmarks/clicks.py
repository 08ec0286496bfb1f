"""Measure the accuracy of click functions on simulated logs, and their cost.

    python -m tests.benchmarks.clicks [--queries 500000] [--output FILE]

Each task runs in its own process, from a sorted Parquet log of impressions (20 sessions per query,
10 documents) read by `scan_log`, to the result. The tables are in clicks.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import polars as pl

import polars_rank as pr
from tests.benchmarks.pages import publish

SESSIONS, DOCS = 20, 10


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.clicks")
    parser.add_argument("--queries", type=int, default=500_000, help="of 200 impressions each")
    parser.add_argument("--data", type=Path, default=Path(tempfile.gettempdir(), "pr_clicks"))
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    parser.add_argument("--only", help="one task, in this process; prints JSON")
    return parser.parse_args()


# -- What is recovered ----------------------------------------------------------------------------


#: How much five rankers know of the relevance of a document; the rest is noise.
KNOWN = {"r1": 0.0, "r2": 0.2, "r3": 0.4, "r4": 0.7, "r5": 1.2}


def rankers_of(queries: int, seed: int) -> tuple[dict[str, pl.DataFrame], pl.DataFrame]:
    """Return the rankings of five rankers for 20 documents of each query, and the relevance."""
    truth = pr.datasets.click_log(queries, 20, sessions=1, seed=seed)
    documents = truth.select("query", "doc", label="relevance").collect()
    draw = random.Random(seed)

    def ranker(known: float) -> pl.DataFrame:
        noise = pl.Series([draw.random() for _ in range(documents.height)])
        return documents.with_columns(score=known * pl.col("label") + noise)

    return {name: ranker(known) for name, known in KNOWN.items()}, documents


def clicked(shown: pl.DataFrame, documents: pl.DataFrame, seed: int) -> pl.DataFrame:
    """Simulate users who examine position j with probability 1 / j and click on relevance."""
    seen = shown.join(documents, on=["query", "doc"], how="left", maintain_order="left")
    draw = random.Random(seed)
    chance = pl.Series([draw.random() for _ in range(seen.height)])
    return seen.with_columns(click=chance < pl.col("label") / pl.col("position"))


def five_rankers(queries: int, seed: int = 0) -> pl.DataFrame:
    """Return five rankers, worst first, by their NDCG, by interleaving, and by clicks alone.

    All five share each list by team draft; for the other columns, each has lists of its own, of
    as many queries.
    """
    rankers, documents = rankers_of(queries, seed)
    lists = clicked(pr.clicks.team_draft(rankers, k=10, seed=seed), documents, seed)
    pairs = pr.clicks.interleaving_result(lists)
    both = [("team", pl.col("delta")), ("other", -pl.col("delta"))]
    deltas = pl.concat(pairs.select(run=run, delta=delta) for run, delta in both)
    found = []
    for number, (name, ranker) in enumerate(rankers.items(), 1):
        top = pr.rank(ranker).filter(pl.col("rank") <= 10)
        alone = clicked(top.select("query", "doc", position="rank"), documents, seed + number)
        by_clicks = ["ctr@10", "abandonment", "max_click_rr", "pskip"]
        found.append(
            pl.concat(
                [
                    pl.DataFrame({"run": [name]}),
                    pr.evaluate(ranker, "ndcg@10").drop("queries"),
                    deltas.filter(run=name).select(pl.col("delta").mean()),
                    pr.evaluate(alone, by_clicks, position="position").drop("queries"),
                ],
                how="horizontal",
            )
        )
    return pl.concat(found)


def interleaved_pairs(queries: int, seed: int = 0) -> pl.DataFrame:
    """Return interleaving results for each ranker and the next better one."""
    rankers, documents = rankers_of(queries, seed)
    names = [*rankers]
    found = []
    for pair in zip(names, names[1:], strict=False):
        lists = pr.clicks.team_draft({name: rankers[name] for name in pair}, k=10, seed=seed)
        found.append(pr.clicks.interleaving_result(clicked(lists, documents, seed)))
    return pl.concat(found)


def propensities(log: pl.DataFrame) -> list[str]:
    """Return the table of estimated propensities, with their errors in standard errors."""
    methods = ("pivot", "adjacent", "em")
    tables = [pr.clicks.position_bias(log, method) for method in methods]
    shares = pr.clicks.position_bias(log, "randomized").get_column("propensity")
    lines = [
        f"| position | true | {' | '.join(methods)} | share of clicks alone |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for place, share in enumerate(shares):
        true = 1 / (place + 1)
        cells = []
        for table in tables:
            found, error = table.select("propensity", "std_error").row(place)
            off = f" ({(found - true) / error:+.1f})" if error else ""
            cells.append(f"{found:.4f}{off}")
        lines.append(f"| {place + 1} | {true:.4f} | {' | '.join(cells)} | {share:.4f} |")
    return lines


def estimates(log: pl.DataFrame) -> list[str]:
    """Return the table of means of a new ranker: true values and estimates from clicks."""
    metrics = ["dcg@5", "dcg@10", "p@3", "rbp@10", "arp"]
    adjacent = pr.clicks.position_bias(log, "adjacent")
    ways = {
        "clicks alone": pl.col("click").cast(pl.Float64),
        "propensities known": pr.clicks.inverse_propensity(),
        "propensities estimated": pr.clicks.inverse_propensity("click", adjacent),
    }
    lines = [
        f"| | estimate | true | {' | '.join(ways)} |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for normalize in ("ips", "snips"):
        options = {"query": "session", "score": "new", "normalize": normalize}
        truth = pr.clicks.estimate(log, metrics, label="relevance", **options)
        tables = [
            pr.clicks.estimate(log.with_columns(label=label), metrics, **options)
            for label in ways.values()
        ]
        for metric in metrics:
            true = truth.get_column(metric).item()
            cells = []
            for table in tables:
                found, variance = table.select(metric, f"{metric}_variance").row(0)
                cells.append(f"{found:.4f} ({(found - true) / math.sqrt(variance):+.1f})")
            lines.append(f"| {metric} | {normalize} | {true:.4f} | {' | '.join(cells)} |")
    return lines


# -- What it costs --------------------------------------------------------------------------------


def made(options: argparse.Namespace) -> Path:
    """Return the file of the log."""
    options.data.mkdir(parents=True, exist_ok=True)
    path: Path = options.data / f"clicks_{options.queries}.parquet"
    if not path.exists():
        pr.datasets.click_log(options.queries, DOCS, sessions=SESSIONS).sink_parquet(path)
    return path


def tasks(options: argparse.Namespace) -> dict[str, Callable[[], object]]:
    path, out = made(options), options.data / "out.parquet"
    sessions = ["query", "session"]

    def log(query: str | list[str] = "query") -> pl.LazyFrame:
        return pr.scan_log(path, query=query)

    def labels() -> object:
        label = pr.clicks.graded_dwell({1: 0, 2: 10, 3: 30, 4: 120})
        return log().with_columns(label=label).select("query", "doc", "label").sink_parquet(out)

    def interleaved() -> object:
        rankers = pr.datasets.search_log(100_000, 20, runs=["a", "b"])
        a, b = (rankers.filter(run=name) for name in "ab")
        return pr.clicks.team_draft(a, b).sink_parquet(out)

    def biased(method: str) -> Callable[[], object]:
        return lambda: pr.clicks.position_bias(log(), method).collect(engine="streaming")

    def of_new_ranker(function: Callable[..., pl.LazyFrame], metric: str) -> Callable[[], object]:
        label = pr.clicks.inverse_propensity("click", 1 / pl.col("position"))
        return lambda: function(
            log("session").with_columns(label=label), metric, query="session", score="new"
        ).collect(engine="streaming")

    return {
        "labels: `graded_dwell`, to Parquet": labels,
        "`click_through_rates`, to Parquet": lambda: pr.clicks.click_through_rates(
            log()
        ).sink_parquet(out),
        "`coec`, to Parquet": lambda: pr.clicks.coec(log()).sink_parquet(out),
        "`skip_above`, to Parquet": lambda: pr.clicks.skip_above(
            log(sessions), query=sessions
        ).sink_parquet(out),
        "`evaluate`: ctr@10, abandonment, pskip, max_click_rr": lambda: pr.evaluate(
            log(sessions),
            ["ctr@10", "abandonment", "pskip", "max_click_rr"],
            query=sessions,
            position="position",
        ).collect(engine="streaming"),
        "`team_draft`: 2 rankers x 20 documents x 100,000 queries": interleaved,
        "`position_bias`: pivot": biased("pivot"),
        "`position_bias`: adjacent": biased("adjacent"),
        "`evaluate`: NDCG@10 of a new ranker, labels by inverse propensity": of_new_ranker(
            pr.evaluate, "ndcg@10"
        ),
        "`estimate`: the same, DCG@10 by SNIPS with its interval": of_new_ranker(
            pr.clicks.estimate, "dcg@10"
        ),
    }


def measured(options: argparse.Namespace) -> list[str]:
    """Return the table of the cost of each task, measured in its own process."""
    lines = ["| | seconds | CPU seconds | peak MB |", "| --- | ---: | ---: | ---: |"]
    for name in tasks(options):
        command = [sys.executable, "-m", "tests.benchmarks.clicks", "--only", name]
        command += ["--queries", str(options.queries), "--data", str(options.data)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            lines.append(f"| {name} | failed: {ended.stderr.strip().splitlines()[-1][:80]} | | |")
        else:
            seconds, cpu, peak = json.loads(ended.stdout.splitlines()[-1])
            lines.append(f"| {name} | {seconds:.1f} | {cpu:.1f} | {peak:,.0f} |")
        print(lines[-1], file=sys.stderr)
    return lines


def table(frame: pl.DataFrame) -> list[str]:
    """Return a table as Markdown."""
    rows = [[*frame.columns], ["---"] * frame.width]
    rows += [
        [f"{cell:.4g}" if isinstance(cell, float) else f"{cell}" for cell in row]
        for row in frame.iter_rows()
    ]
    return [f"| {' | '.join(row)} |" for row in rows]


def page(options: argparse.Namespace) -> str:
    impressions = f"{options.queries * SESSIONS * DOCS:,}"
    cost = measured(options)  # first: a process begins with the peak of the one that started it
    log = pr.datasets.click_log(2_000, DOCS, sessions=100, seed=1).collect()
    parts = [
        "# Clicks: accuracy on simulated logs, and cost",
        f"Generated by `python -m tests.benchmarks.clicks` with Polars {pl.__version__} on "
        f"{os.cpu_count()} cores.",
        "## Five rankers",
        "Five rankers of increasing quality, and users who examine position j with probability 1 "
        "/ j and click on relevant documents. 5,000 rankings of all five are interleaved by "
        "`pr.clicks.team_draft`: `delta` is the mean of Δ against the other four. In the columns "
        "after it, each ranker showed its own ranking for each of the same queries.",
        "\n".join(table(five_rankers(5_000))),
        "Pairs of each ranker and the next better one, 5,000 rankings:",
        "\n".join(table(interleaved_pairs(5_000))),
        "## Position bias",
        f"Of {log.height:,} impressions from a position-based model and a ranker whose scores "
        "vary between sessions. In parentheses: the error in standard errors.",
        "\n".join(propensities(log)),
        "## A new ranker, from clicks on the old one",
        "Means of the new ranker, estimated from the same log. Standard errors do not include "
        "the error of estimated propensities.",
        "\n".join(estimates(log)),
        f"## {impressions} impressions",
        "From a sorted Parquet log. CPU seconds and memory are of the whole process. Peaks vary "
        "by about 50 MB between runs (150 MB for `position_bias`), whether or not another "
        "process uses a core.",
        "\n".join(cost),
    ]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    options = arguments()
    if options.only:
        task = tasks(options)[options.only]
        started = time.perf_counter()
        task()
        seconds = time.perf_counter() - started
        used = resource.getrusage(resource.RUSAGE_SELF)
        print(json.dumps([seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024]))
        return
    text = page(options)
    publish(text, options.output)


if __name__ == "__main__":
    main()
