"""Measure how the memory of functions that read a log grows with its rows.

    python -m tests.benchmarks.memory [--rows 3_000_000 10_000_000] [--tasks TEXT] [--output FILE]

Each task runs in its own process, with the streaming engine; peak is the resident memory of that
process. Logs have 100,000 documents in rankings of 50, sorted by query (and run). The table is part
of the guide's page on performance.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl

import polars_rank as pr
from tests.benchmarks.pages import publish

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
            "label": (rows.hash(3) % 10 // 7).cast(pl.Int8),
            "position": (rows % LENGTH + 1).cast(pl.Int16),
            "click": (rows.hash(4) % 20 == 0),
        }
        parts.mkdir()
        for start in range(0, self.rows, BATCH):
            numbers = pl.int_range(start, min(start + BATCH, self.rows), dtype=pl.UInt64)
            batch = pl.select(row=numbers).select(query.cast(pl.Int32).alias("of all"), **columns)
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


#: A function of the files that reads a log.
Task = Callable[[Files], Any]


def collected(plan: Callable[[Files], pl.LazyFrame]) -> Task:
    """Return the task that collects a plan."""
    return lambda files: plan(files).collect(engine="streaming")


def sunk(plan: Callable[[Files], pl.LazyFrame]) -> Task:
    """Return the task that writes the result of a plan to a file."""
    return lambda files: plan(files).sink_parquet(files.output())


def reversed_scores(files: Files) -> pl.LazyFrame:
    return files.scan().with_columns(pl.col("score") * -1)


def judged(files: Files) -> pl.LazyFrame:
    """Return rankings joined with judgments, both sorted."""
    rankings = files.scan().select("query", "doc", "score")
    return pr.join_judgments(rankings, files.scan("judgments"))


def groups() -> pl.DataFrame:
    doc = pl.int_range(DOCUMENTS, dtype=pl.Int32, eager=True)
    return pl.DataFrame({"doc": doc, "group": doc % 5})


#: By the name in the table: what memory grows with, and the task.
TASKS: dict[str, tuple[str, Task]] = {}


def runs_of(files: Files) -> pl.LazyFrame:
    return files.scan("runs", by="run")


def judged_runs(files: Files, *others: str) -> pl.LazyFrame:
    """Return rankings of several runs joined with judgments of the same queries, both sorted."""
    rankings = runs_of(files).select("run", "query", "doc", "score", *others)
    judgments = files.scan("judgments").filter(pl.col("query") < files.rows // LENGTH // 2)
    return pr.join_judgments(rankings, judgments)


def add(name: str, grows: str, task: Task) -> None:
    TASKS[name] = (grows, task)


add("`evaluate`", "nothing", collected(lambda f: pr.evaluate(f.scan(), METRICS)))
add(
    '`evaluate(ties="expected")`',
    "nothing",
    collected(lambda f: pr.evaluate(f.scan(), METRICS, ties="expected")),
)
add(
    "`evaluate` of `pl.scan_parquet`, rows sorted",
    "nothing",
    collected(lambda f: pr.evaluate(pl.scan_parquet(f.path("log")), METRICS)),
)
add(
    "`evaluate` of a shuffled log",
    "`memory`",
    collected(lambda f: pr.evaluate(f.scan("shuffled"), METRICS)),
)
add("`per_query`, to a file", "nothing", sunk(lambda f: pr.per_query(f.scan(), METRICS)))
add("`rank`, to a file", "nothing", sunk(lambda f: pr.rank(f.scan())))
add(
    "`join_judgments` of sorted scans, then `evaluate`",
    "nothing",
    collected(lambda f: pr.evaluate(judged(f), METRICS)),
)
add(
    "`join_judgments` of other tables, then `evaluate`",
    "rows",
    collected(
        lambda f: pr.evaluate(
            pr.join_judgments(
                f.scan().select("query", "doc", "score"), pl.scan_parquet(f.path("judgments"))
            ),
            METRICS,
        )
    ),
)
add(
    "`join_judgments` of several runs, then `evaluate`",
    "rows, slowly",
    collected(lambda f: pr.evaluate(judged_runs(f), METRICS, by="run")),
)
add(
    "`join_judgments` of several runs with other columns, then `evaluate`",
    "rows",
    collected(lambda f: pr.evaluate(judged_runs(f, "position"), METRICS, by="run")),
)
add("`rank_curve`", "nothing", collected(lambda f: pr.rank_curve(f.scan(), "ndcg", range(1, 21))))
add("`pr_curve`", "distinct scores", collected(lambda f: pr.pr_curve(f.scan())))
add("`pr_curve` of several runs", "distinct scores", collected(lambda f: pr.pr_curve(runs_of(f))))
add("`grouped_auc`", "nothing", collected(lambda f: pr.grouped_auc(f.scan())))
add(
    "`report`",
    "queries",
    lambda f: pr.report(runs_of(f), METRICS, baseline="bm25", path=f.output(), overwrite=True),
)
add(
    "`trec.write_run`", "nothing", lambda f: pr.trec.write_run(f.scan(), f.output(), overwrite=True)
)
add(
    "`trec.write_run` of one run, filtered from a log of several",
    "nothing",
    lambda f: pr.trec.write_run(
        runs_of(f).filter(run="bm25"), f.output(), tag="bm25", overwrite=True
    ),
)
add(
    "`summarize` of `per_query`",
    "queries",
    collected(lambda f: pr.summarize(pl.scan_parquet(f.path("values")), metrics=METRICS)),
)
add(
    "`leaderboard` of `per_query`",
    "queries",
    collected(lambda f: pr.leaderboard(pl.scan_parquet(f.path("values")), metrics=METRICS)),
)
add(
    "`compare` of `per_query`",
    "queries",
    collected(
        lambda f: pr.compare(pl.scan_parquet(f.path("values")), baseline="bm25", metrics=METRICS)
    ),
)
add(
    "`moments` of `per_query`",
    "queries",
    collected(lambda f: pr.moments(pl.scan_parquet(f.path("values")), METRICS)),
)
add(
    "`diagnostics.tie_bands`",
    "nothing",
    collected(lambda f: pr.diagnostics.tie_bands(f.scan(), METRICS)),
)
add(
    "`diagnostics.judgment_bounds`",
    "nothing",
    collected(lambda f: pr.diagnostics.judgment_bounds(f.scan(), METRICS)),
)
add(
    "`diagnostics.headroom`",
    "nothing",
    collected(lambda f: pr.diagnostics.headroom(f.scan(), METRICS)),
)
add(
    "`diagnostics.movers`",
    "queries",
    collected(lambda f: pr.diagnostics.movers(runs_of(f), "ndcg@10", baseline="bm25", k=5)),
)
add(
    "`diagnostics.overlap` of runs",
    "queries",
    collected(
        lambda f: pr.diagnostics.overlap(
            runs_of(f), measure=["overlap", "churn", "rbo"], baseline="bm25"
        )
    ),
)
add(
    "`diagnostics.overlap`, RBO",
    "queries",
    collected(lambda f: pr.diagnostics.overlap(f.scan(), reversed_scores(f), "rbo")),
)
add(
    "`diagnostics.overlap`",
    "queries",
    collected(lambda f: pr.diagnostics.overlap(f.scan(), reversed_scores(f), k=10)),
)
add("`catalog.popularity`", "documents", collected(lambda f: pr.catalog.popularity(f.scan())))
add(
    "`catalog.exclude_seen` of sorted scans, to a file",
    "nothing",
    sunk(lambda f: pr.catalog.exclude_seen(f.scan(), f.scan("judgments").filter(label=1))),
)
add(
    "`catalog.exclude_seen` of several runs, to a file",
    "rows, slowly",
    sunk(lambda f: pr.catalog.exclude_seen(runs_of(f), f.scan("judgments").filter(label=1))),
)
add("`catalog.exposure`", "documents", collected(lambda f: pr.catalog.exposure(f.scan(), 10)))
add("`catalog.summary`", "documents", collected(lambda f: pr.catalog.summary(f.scan(), 10)))
add(
    "`catalog.group_exposure`",
    "groups",
    collected(lambda f: pr.catalog.group_exposure(f.scan(), 10, doc_groups=groups())),
)
add(
    "`catalog.awrf`",
    "queries",
    collected(lambda f: pr.catalog.awrf(f.scan(), 10, doc_groups=groups())),
)
add(
    "`collapse`, to a file",
    "nothing",
    sunk(
        lambda f: pr.collapse(
            f.scan().with_columns(passage=pl.col("doc"), doc=pl.col("doc") // 3), doc="doc"
        )
    ),
)
add(
    "`fuse` of three runs, sorted by query, to a file",
    "nothing",
    sunk(
        lambda f: pr.fuse(
            f.scan().with_columns(run=pl.col("doc") % 3, doc=pl.col("doc") // 3),
            "sum(normalize='min_max')",
        )
    ),
)
add(
    "`fuse` of two runs, sorted by run, to a file",
    "rows, slowly",
    sunk(lambda f: pr.fuse(runs_of(f).drop("label"))),
)
add(
    "`clicks.click_through_rates`, to a file",
    "nothing",
    sunk(lambda f: pr.clicks.click_through_rates(f.scan())),
)
add("`clicks.position_bias`", "positions", collected(lambda f: pr.clicks.position_bias(f.scan())))
add(
    "`clicks.preferences`, to a file",
    "nothing",
    sunk(lambda f: pr.clicks.preferences(f.scan())),
)


def main() -> None:
    def number(text: str) -> int:
        return int(text.replace("_", ""))

    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.memory")
    option = parser.add_argument
    option("--rows", type=number, nargs="+", default=[3_000_000, 10_000_000])
    option("--tasks", default="", help="only tasks whose name contains this text")
    option("--data", type=Path, default=Path(tempfile.gettempdir(), "pr_memory"))
    option("--output", type=Path, help="Markdown; default: print")
    option("--task", help="one task, in this process; prints its peak memory in MB")
    options = parser.parse_args()
    if options.task is not None:
        files = Files(options.data, *options.rows)
        if options.task == "write":
            files.write()
        else:
            TASKS[options.task][1](files)
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)
        return

    def run(task: str, rows: int) -> str:
        # In its own process, whose memory is not that of another task.
        command = [sys.executable, "-m", "tests.benchmarks.memory", "--task", task]
        command += ["--rows", str(rows), "--data", str(options.data)]
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2]
        )
        print(rows, task, ended.stdout, ended.stderr[-300:], file=sys.stderr, flush=True)
        return f"{float(ended.stdout):,.0f}" if ended.returncode == 0 else "failed"

    for rows in options.rows:
        run("write", rows)
    sizes = [f"{rows / 1e6:g} million rows" for rows in options.rows]
    lines = [
        f"| function | memory grows with | {' | '.join(f'{size}, MB' for size in sizes)} |",
        f"| --- | --- |{' ---: |' * len(sizes)}",
    ]
    for name, (grows, _) in TASKS.items():
        if options.tasks in name:
            peaks = [run(name, rows) for rows in options.rows]
            lines.append(f"| {name} | {grows} | {' | '.join(peaks)} |")
    publish("\n".join(lines) + "\n", options.output)


if __name__ == "__main__":
    main()
