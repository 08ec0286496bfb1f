"""Measure how the memory of functions that read a log grows with its rows.

    python -m tests.bench.memory [--rows 3_000_000 10_000_000] [--tasks TEXT] [--output FILE]

The table has the public functions that read a log or per-query values. Each task runs in its own
process, with the streaming engine; peak is the resident memory of that process. Logs have 100,000
documents in rankings of 50, sorted by query (and run). The table is part of the guide's page on
performance.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

import polars_rank as pr
from tests.bench.pages import arguments, publish

#: Documents of a ranking, and of the catalog; a stride of documents that has no factor of it.
LENGTH, DOCUMENTS, STRIDE = 50, 100_000, 61_803
#: Rows that are generated at once.
BATCH = 1_000_000

METRICS = ["ndcg@10", "ap", "rr", "p@5", "recall@20"]


class Files(NamedTuple):
    """The generated files of a number of rows."""

    folder: Path
    rows: int

    def path(self, name: str) -> Path:
        return self.folder / f"{name}-{self.rows}.parquet"

    def scan(self, name: str = "log", **options: Any) -> pl.LazyFrame:
        return pr.scan_log(self.path(name), **options)

    def output(self) -> Path:
        return self.folder / "output"

    def write(self) -> None:
        """Write the files that do not exist."""
        if self.path("judgments").exists():
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        parts = self.folder / "parts"
        rows = pl.col("row")
        query = rows // LENGTH
        doc = (query.hash(1) % DOCUMENTS + rows % LENGTH * STRIDE) % DOCUMENTS
        columns = {
            "run": pl.when(rows < self.rows // 2).then(pl.lit("bm25")).otherwise(pl.lit("neural")),
            "query": (query % max(1, self.rows // LENGTH // 2)).cast(pl.Int32),
            "doc": doc.cast(pl.Int32),
            "score": (rows.hash(2) % 1000 / 1000).cast(pl.Float32),
            "position": (rows % LENGTH + 1).cast(pl.Int16),
            "click": (rows.hash(4) % 20 == 0),
        }
        # Runs have the same label for a document.
        pair = pl.col("query").cast(pl.UInt64) * DOCUMENTS + pl.col("doc").cast(pl.UInt64)
        label = (pair.hash(3) % 10 // 7).cast(pl.Int8)
        parts.mkdir()
        for start in range(0, self.rows, BATCH):
            numbers = pl.int_range(start, min(start + BATCH, self.rows), dtype=pl.UInt64)
            batch = pl.select(row=numbers).select(query.cast(pl.Int32).alias("of all"), **columns)
            batch = batch.with_columns(label=label)
            batch.write_parquet(parts / f"{start:012}.parquet", row_group_size=2**18)
        every = pl.scan_parquet(parts / "*.parquet")
        every.drop("of all").sink_parquet(self.path("runs"))
        log = every.drop("run", "query").rename({"of all": "query"})
        log.sink_parquet(self.path("log"))
        log.select("query", "doc", "label").sink_parquet(self.path("judgments"))
        log.sort(pl.col("doc").hash(5), pl.col("query")).sink_parquet(self.path("shuffled"))
        for file in parts.iterdir():
            file.unlink()
        parts.rmdir()
        values = pr.per_query(pr.scan_log(self.path("runs"), by="run"), METRICS, by="run")
        values.sink_parquet(self.path("values"))


class Task(NamedTuple):
    """A call of a function that reads a log or values."""

    #: What its memory grows with.
    grows: str
    #: The call. A plan that it returns is collected, or written to a file if the name says so.
    code: str
    #: Divides the number of rows, for slow functions.
    divisor: int = 1


def runs_of(files: Files) -> pl.LazyFrame:
    return files.scan("runs", by="run")


def reversed_scores(files: Files) -> pl.LazyFrame:
    return files.scan().with_columns(pl.col("score") * -1)


def values_of(files: Files) -> pl.LazyFrame:
    return pl.scan_parquet(files.path("values"))


def judged(files: Files, judgments: pl.LazyFrame, path: Path | None = None) -> pl.LazyFrame:
    """Return the metrics of rankings, of unknown order if they have a path, with judgments."""
    rankings = files.scan() if path is None else pl.scan_parquet(path)
    rankings = rankings.select("query", "doc", "score")
    return pr.evaluate(pr.join_judgments(rankings, judgments), METRICS)


def judged_runs(files: Files, *others: str) -> pl.LazyFrame:
    """Return the metrics of several runs that are joined with judgments, both sorted."""
    rankings = runs_of(files).select("run", "query", "doc", "score", *others)
    judgments = files.scan("judgments").filter(pl.col("query") < files.rows // LENGTH // 2)
    return pr.evaluate(pr.join_judgments(rankings, judgments), METRICS, by="run")


def by_two_judges(files: Files) -> pl.LazyFrame:
    """Return judgments with the labels of a second judge."""
    llm = (pl.col("doc").hash(6) % 10 // 7).cast(pl.Int8)
    rows = files.scan().select("query", "doc", human="label", llm=llm)
    return rows.unpivot(
        ["human", "llm"], index=["query", "doc"], variable_name="judge", value_name="label"
    )


def values_of_judges(files: Files) -> pl.LazyFrame:
    judges = (values_of(files).with_columns(judge=pl.lit(judge)) for judge in ("human", "llm"))
    return pl.concat(judges)


def one_relevant(files: Files) -> pl.LazyFrame:
    return files.scan().with_columns(label=(pl.col("position") == 7).cast(pl.Int8))


def lists_of(files: Files) -> pl.LazyFrame:
    lists = files.scan().group_by("query", maintain_order=True).agg("doc", "label")
    return pr.from_lists(lists, retrieved="doc", labels="label", query="query")


def passages(files: Files) -> pl.LazyFrame:
    return files.scan().with_columns(passage=pl.col("doc"), doc=pl.col("doc") // 3)


def three_runs(files: Files) -> pl.LazyFrame:
    return files.scan().with_columns(run=pl.col("doc") % 3, doc=pl.col("doc") // 3)


def seen(files: Files) -> pl.LazyFrame:
    return files.scan("judgments").filter(label=1)


def run_file(log: pl.LazyFrame, files: Files) -> None:
    pr.trec.write_run(log, files.output(), tag="bm25", overwrite=True)


def overlap_of_runs(files: Files) -> pl.LazyFrame:
    measures = ["overlap", "churn", "rbo"]
    return pr.diagnostics.overlap(runs_of(files), measure=measures, baseline="bm25")


def report(files: Files) -> None:
    log, path = runs_of(files), files.output()
    pr.report(log, METRICS, baseline="bm25", path=path, overwrite=True)


def some_unanswerable(files: Files) -> pl.LazyFrame:
    """Return the log, in which every other query has no relevant document."""
    return files.scan().with_columns(pl.col("label") * (pl.col("query") % 2).cast(pl.Int8))


#: By the name in the table, which starts with the function: code about the files `f`.
TASKS = {
    name: Task(*row)
    for name, row in json.loads(
        Path(__file__).with_name("memory.json").read_text(encoding="utf-8")
    ).items()
}


def peak(name: str, rows: int, data: Path) -> float:
    """Return the peak memory of a task in MB, in its own process."""
    command = [sys.executable, "-m", "tests.bench.memory", "--task", name]
    command += ["--rows", str(rows), "--data", str(data)]
    root = Path(__file__).parents[2]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)
    if ended.returncode:
        raise SystemExit(f"{name} of {rows:,} rows failed:\n{ended.stderr}")
    print(f"{name}, {rows:,} rows: {ended.stdout.strip()} MB", file=sys.stderr, flush=True)
    return float(ended.stdout)


def table(data: Path, rows: list[int], tasks: str = "") -> str:
    """Return the table of the peaks of tasks whose name contains a text."""
    chosen = {name: task for name, task in TASKS.items() if tasks in name}
    for number in sorted({each // task.divisor for each in rows for task in chosen.values()}):
        peak("write", number, data)
    sizes = [f"{number / 1e6:g} million rows, MB" for number in rows]
    lines = [
        f"| function | memory grows with | {' | '.join(sizes)} |",
        f"| --- | --- |{' ---: |' * len(sizes)}",
    ]
    for name, task in chosen.items():
        peaks = [f"{peak(name, number // task.divisor, data):,.0f}" for number in rows]
        fewer = f", 1/{task.divisor} of the rows" if task.divisor > 1 else ""
        lines.append(f"| {name}{fewer} | {task.grows} | {' | '.join(peaks)} |")
    return "\n".join(lines) + "\n"


def perform(name: str, files: Files) -> None:
    """Perform a task in this process."""
    result = eval(TASKS[name].code, {**globals(), "f": files})
    if isinstance(result, pl.LazyFrame) and name.endswith("to a file"):
        result.sink_parquet(files.output())
    elif isinstance(result, pl.LazyFrame):
        result.collect(engine="streaming")


def main() -> None:
    options = arguments(
        __doc__, rows=[3_000_000, 10_000_000], tasks="", task="",
        data=str(Path(tempfile.gettempdir(), "pr_memory")),
    )  # fmt: skip
    data = Path(options.data)
    if not options.task:
        return publish(table(data, options.rows, options.tasks), options.output)
    files = Files(data, *options.rows)
    files.write() if options.task == "write" else perform(options.task, files)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)


if __name__ == "__main__":
    main()
