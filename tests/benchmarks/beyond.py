"""Measure metrics beyond accuracy against NDCG, and against peers.

    python -m tests.benchmarks.beyond [--rows 10_000_000] [--output FILE]

Each task runs in its own process; seconds are its CPU time, user and system. Peers get a part of
the rows. pyndeval and RecTools run in this environment. RePlay needs another version of Polars:
`--replay` is the Python of an environment with `replay-rec`. The table is in beyond.md.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.pages import publish

#: Documents of a ranking, subtopics of a query, and numbers of an embedding.
LENGTH, SUBTOPICS, DIMENSIONS = 100, 20, 64
#: Rankings that are generated at once.
BATCH = 2_500


def arguments() -> argparse.Namespace:
    def number(text: str) -> int:
        return int(text.replace("_", ""))

    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.beyond")
    add = parser.add_argument
    add("--rows", type=number, default=10_000_000)
    add("--peer-rows", type=number, default=1_000_000)
    add("--documents", type=number, default=1_000_000)
    add("--runs", type=int, default=3)
    add("--replay", default=sys.executable, help="Python that has RePlay")
    add("--data", type=Path, default=Path(tempfile.gettempdir(), "pr_beyond"))
    add("--output", type=Path, help="Markdown; default: print")
    add("--task", help="one task, in this process; prints JSON")
    return parser.parse_args()


class Files(NamedTuple):
    """The generated files, and their sizes."""

    folder: Path
    rows: int
    peer_rows: int
    documents: int

    @property
    def log(self) -> Path:
        return self.folder / f"log-{self.rows}-{self.documents}.parquet"

    @property
    def items(self) -> Path:
        return self.folder / f"items-{self.documents}.parquet"

    def part(self, rows: int = 1, documents: int = 1) -> Files:
        """Return the files of a part of the rows, and of the documents."""
        return self._replace(rows=self.rows // rows, documents=self.documents // documents)

    def write(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        of_peers = self._replace(rows=self.peer_rows)
        for files in (self, self.part(rows=4), self.part(documents=4), of_peers):
            write_items(files.items, files.documents)
            write_log(files.log, files.rows, files.documents)


def write_log(path: Path, rows: int, documents: int) -> None:
    """Write rankings of random documents; a relevant one has 1 to 3 of 20 subtopics."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    if path.exists():
        return
    random = np.random.default_rng(0)
    unfinished, writer = path.with_suffix(".unfinished"), None
    for start in range(0, rows // LENGTH, BATCH):
        queries = np.arange(start, min(start + BATCH, rows // LENGTH))
        n = queries.size * LENGTH
        label = random.choice(5, p=[0.6, 0.2, 0.12, 0.05, 0.03], size=n)
        number = np.where(label > 0, random.integers(1, 4, n), 0)
        subtopics = random.random((n, SUBTOPICS)).argsort(axis=1)[:, :3].astype(np.int8)
        ends = np.concatenate([[0], number.cumsum()]).astype(np.int32)
        # The documents of a ranking have equal distances, so that they differ.
        doc = random.integers(0, documents, queries.size).repeat(LENGTH)
        doc += np.tile(np.arange(LENGTH), queries.size) * (documents // LENGTH)
        table = pa.table(
            {
                "query": queries.repeat(LENGTH),
                "doc": (doc % documents).astype(np.int32),
                "score": (random.random(n) + label / 10).astype(np.float32),
                "label": label.astype(np.int8),
                "subtopics": pa.ListArray.from_arrays(
                    ends, subtopics[np.arange(3) < number[:, None]]
                ),
            }
        )
        writer = writer or pq.ParquetWriter(unfinished, table.schema, compression="zstd")
        writer.write_table(table)
    if writer is not None:
        writer.close()
    unfinished.replace(path)


def write_items(path: Path, documents: int) -> None:
    """Write documents with random embeddings."""
    import numpy as np
    import polars as pl

    if path.exists():
        return
    values = np.random.default_rng(1).standard_normal((documents, DIMENSIONS)).astype(np.float32)
    embedding = pl.Series(values, dtype=pl.Array(pl.Float32, DIMENSIONS))
    table = pl.DataFrame({"doc": np.arange(documents, dtype=np.int32), "embedding": embedding})
    table.write_parquet(path, compression="uncompressed")


Task = Callable[[Files], Callable[[], Any]]


def scanned(metric: str) -> Task:
    """Evaluate a metric of the log file."""

    def task(files: Files) -> Callable[[], Any]:
        import polars_rank as pr

        return lambda: pr.evaluate(pr.scan_log(files.log), [metric]).collect(engine="streaming")

    return task


def in_memory(metric: str) -> Task:
    """Evaluate a metric of the log in memory, with embeddings."""

    def task(files: Files) -> Callable[[], Any]:
        import polars as pl

        import polars_rank as pr

        log = pl.scan_parquet(files.log).drop("subtopics")
        items = pl.scan_parquet(files.items)
        joined = log.join(items, on="doc", how="left", maintain_order="left")
        table = joined.collect(engine="streaming").set_sorted("query").lazy()
        return lambda: pr.evaluate(table, [metric]).collect(engine="streaming")

    return task


def with_items(files: Files) -> Callable[[], Any]:
    """Evaluate the diversity of documents whose embeddings are in another table."""
    import polars as pl

    import polars_rank as pr

    log, items = pr.scan_log(files.log), pl.scan_parquet(files.items)
    joined = log.join(items, on="doc", how="left", maintain_order="left")
    return lambda: pr.evaluate(joined, ["ild@10"]).collect(engine="streaming")


def summary(rows: int = 1, documents: int = 1) -> Task:
    """Summarize a part of the log, or of the catalog."""

    def task(files: Files) -> Callable[[], Any]:
        import polars as pl

        import polars_rank as pr

        log = pr.scan_log(files.part(rows, documents).log)
        items = pl.scan_parquet(files.part(rows, documents).items).select("doc")
        return lambda: pr.catalog.summary(log, 10, items=items).collect(engine="streaming")

    return task


#: Tasks of polars_rank, each with the task that it is compared with.
TASKS: dict[str, tuple[Task, str | None]] = {
    "`ndcg@20`": (scanned("ndcg@20"), None),
    "`alpha_ndcg@20`, 20 subtopics": (scanned("alpha_ndcg@20"), "`ndcg@20`"),
    "`ndcg@10`, in memory": (in_memory("ndcg@10"), None),
    "`intra_list_diversity@10`, embeddings in memory": (
        in_memory("intra_list_diversity@10"),
        "`ndcg@10`, in memory",
    ),
    "`ndcg@10`": (scanned("ndcg@10"), None),
    "`intra_list_diversity@10`, joined embeddings": (with_items, "`ndcg@10`"),
    "`catalog.summary`": (summary(), "`ndcg@10`"),
    "`catalog.summary`, a quarter of the rows": (summary(rows=4), None),
    "`catalog.summary`, a quarter of the catalog": (summary(documents=4), None),
}


def ours(compute: Callable[[Any, Any], Any]) -> Task:
    """Measure polars_rank on the rows of peers, with popularity from the relevant rows."""

    def task(files: Files) -> Callable[[], Any]:
        import polars as pl

        import polars_rank as pr

        def run() -> Any:
            log = pl.scan_parquet(files.log)
            train = pr.catalog.popularity(log.filter(pl.col("label") > 0))
            return compute(log, train).collect(engine="streaming")

        return run

    return task


def _alpha(log: Any, _: Any) -> Any:
    import polars_rank as pr

    return pr.evaluate(log, ["alpha_ndcg@20"])


def _novelty(log: Any, train: Any) -> Any:
    import polars_rank as pr

    joined = log.join(train, on="doc", how="left", maintain_order="left")
    return pr.evaluate(joined, [pr.metrics.novelty(10, unknown="zero")])


def _coverage(log: Any, train: Any) -> Any:
    import polars_rank as pr

    return pr.catalog.summary(log, 10, items=train).select("coverage")


def pyndeval(files: Files) -> Callable[[], Any]:
    """Evaluate with pyndeval."""
    import polars as pl
    import pyndeval as peer

    def run() -> Any:
        text = pl.col("query", "doc").cast(pl.String)
        log = pl.read_parquet(files.log).with_columns(text).sort("query", maintain_order=True)
        judged = log.explode("subtopics").drop_nulls("subtopics")
        judged = judged.select("query", pl.col("subtopics").cast(pl.String), "doc", pl.lit(1))
        evaluator = peer.RelevanceEvaluator(judged.iter_rows(), ["alpha-nDCG@20"])
        return evaluator.evaluate(log.select("query", "doc", "score").iter_rows())

    return run


def _pandas(files: Files) -> tuple[Any, Any]:
    """Return the log and the relevant rows, with ranks."""
    import pandas as pd

    log = pd.read_parquet(files.log, columns=["query", "doc", "score", "label"])
    log = log.sort_values(["query", "score"], ascending=[True, False])
    log["rank"] = log.groupby("query").cumcount() + 1
    return log, log[log["label"] > 0]


def rectools(name: str) -> Task:
    """Evaluate with RecTools."""

    def task(files: Files) -> Callable[[], Any]:
        from rectools.metrics import CatalogCoverage, MeanInvUserFreq

        def run() -> Any:
            log, train = _pandas(files)
            names = {"query": "user_id", "doc": "item_id"}
            log, train = log.rename(columns=names), train.rename(columns=names)
            if name == "novelty":
                return MeanInvUserFreq(10).calc(log, train)
            return CatalogCoverage(10).calc(log, train["item_id"].unique())

        return run

    return task


def replay(name: str) -> Task:
    """Evaluate with RePlay."""

    def task(files: Files) -> Callable[[], Any]:
        from replay.metrics import Coverage, Surprisal

        def run() -> Any:
            log, train = _pandas(files)
            names = {"query": "query_id", "doc": "item_id", "score": "rating"}
            log, train = log.rename(columns=names), train.rename(columns=names)
            return {"novelty": Surprisal, "coverage": Coverage}[name](10)(log, train)

        return run

    return task


#: Tasks on the rows of peers: those of polars_rank, and those of peers.
PEERS: dict[str, dict[str, Task]] = {
    "α-NDCG@20": {"polars_rank": ours(_alpha), "pyndeval": pyndeval},
    "novelty@10": {
        "polars_rank": ours(_novelty),
        "rectools (MeanInvUserFreq)": rectools("novelty"),
        "replay-rec (Surprisal)": replay("novelty"),
    },
    "coverage@10": {
        "polars_rank (catalog.summary)": ours(_coverage),
        "rectools (CatalogCoverage)": rectools("coverage"),
        "replay-rec (Coverage)": replay("coverage"),
    },
}


class Run(NamedTuple):
    """CPU seconds, and peak memory in MB."""

    seconds: float
    peak: float


def run_task(name: str, files: Files) -> Run:
    """Run a task in this process; what it prepares is not measured."""
    if name in TASKS:
        task = TASKS[name][0]
    else:
        measure, _, contender = name.partition("|")
        task, files = PEERS[measure][contender], files._replace(rows=files.peer_rows)
    run = task(files)
    before = _cpu()
    run()
    return Run(_cpu() - before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def _cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def started(name: str, options: argparse.Namespace) -> subprocess.CompletedProcess[str]:
    """Run a task in its own process."""
    python = options.replay if "replay" in name else sys.executable
    sizes = [f"--rows={options.rows}", f"--peer-rows={options.peer_rows}"]
    sizes += [f"--documents={options.documents}", f"--data={options.data}"]
    return subprocess.run(
        [python, "-m", "tests.benchmarks.beyond", "--task", name, *sizes],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip


def measured(name: str, options: argparse.Namespace) -> Run | str:
    """Return what a task took in its own process, or the message of its failure."""
    ended = started(name, options)
    if ended.returncode:
        return (ended.stderr.strip().splitlines() or ["failed"])[-1][:60]
    return Run(*json.loads(ended.stdout.splitlines()[-1]))


def median(runs: list[Run | str]) -> Run | str:
    """Return the medians of runs, or the message of a failure."""
    done = [run for run in runs if isinstance(run, Run)]
    if len(done) < len(runs):
        return next(run for run in runs if isinstance(run, str))
    return Run(*(statistics.median(values) for values in zip(*done, strict=True)))


def report(results: dict[str, Run | str], options: argparse.Namespace) -> str:
    """Return the tables in Markdown."""
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}" for name in ("polars", "pyndeval", "rectools")
    )
    code = "from importlib.metadata import version as v; print(v('replay-rec'), v('polars'))"
    ended = subprocess.run(
        [options.replay, "-c", code], capture_output=True, text=True, check=False
    )
    if ended.returncode == 0:
        versions += ", replay-rec {} (with polars {})".format(*ended.stdout.split())
    lines = [
        "# Beyond accuracy",
        "",
        f"Generated by `python -m tests.benchmarks.beyond` with {versions} on {os.cpu_count()} "
        f"cores: {options.rows:,} rows, rankings of {LENGTH} documents of {options.documents:,}, "
        "of which 40% are relevant, with 1 to 3 of 20 subtopics each; embeddings of "
        f"{DIMENSIONS} numbers. CPU seconds, user and system, and the memory of the process: "
        f"medians of {options.runs} runs in turn.",
        "",
        "| task | CPU seconds | ratio | peak MB |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, (_, base) in TASKS.items():
        run, other = results[name], None if base is None else results[base]
        if isinstance(run, str):
            lines.append(f"| {name} | {run} | | |")
            continue
        ratio = f"{run.seconds / other.seconds:.1f} × {base}" if isinstance(other, Run) else ""
        lines.append(f"| {name} | {run.seconds:.2f} | {ratio} | {run.peak:,.0f} |")
    lines += [
        "",
        f"Peers, with {options.peer_rows:,} of these rows, including reading them:",
        "",
        "| measure | tool | CPU seconds | peak MB |",
        "| --- | --- | ---: | ---: |",
    ]
    for measure, contenders in PEERS.items():
        for contender in contenders:
            run = results[f"{measure}|{contender}"]
            cells = f"{run} | " if isinstance(run, str) else f"{run.seconds:.2f} | {run.peak:,.0f}"
            lines.append(f"| {measure} | {contender} | {cells} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    options = arguments()
    files = Files(options.data, options.rows, options.peer_rows, options.documents)
    if options.task == "write":
        files.write()
    elif options.task:
        print(json.dumps(run_task(options.task, files)))
    if options.task:
        return
    # In its own process, because a child's peak memory includes that of its parent at the fork.
    started("write", options).check_returncode()
    names = [*TASKS, *(f"{measure}|{name}" for measure, tools in PEERS.items() for name in tools)]
    runs: dict[str, list[Run | str]] = {name: [] for name in names}
    for turn in range(options.runs):
        for name in names:
            runs[name].append(run := measured(name, options))
            print(turn + 1, name, run, file=sys.stderr, flush=True)
    text = report({name: median(values) for name, values in runs.items()}, options)
    publish(text, options.output)


if __name__ == "__main__":
    main()
