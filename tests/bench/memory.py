"""Measure how the memory of functions that read a log grows with its rows.

    python -m tests.bench.memory [--rows 3_000_000 10_000_000] [--tasks TEXT] [--output FILE]

The table has every public function that reads a log or per-query values. Each task runs in its own
process, with the streaming engine; peak is the resident memory of that process. Logs have 100,000
documents in rankings of 50, sorted by query (and run). The table is part of the guide's page on
performance.
"""

from __future__ import annotations

import argparse
import inspect
import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import polars as pl

import polars_rank as pr
from tests.bench.pages import publish

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
    call: Callable[[Files], Any]
    #: Divides the number of rows, for slow functions.
    divisor: int = 1


def runs_of(files: Files) -> pl.LazyFrame:
    return files.scan("runs", by="run")


def reversed_scores(files: Files) -> pl.LazyFrame:
    return files.scan().with_columns(pl.col("score") * -1)


def values_of(files: Files) -> pl.LazyFrame:
    return pl.scan_parquet(files.path("values"))


def judged(files: Files, judgments: pl.LazyFrame, path: Path | None = None) -> pl.LazyFrame:
    """Return the metrics of rankings, whose order is unknown if they have a path, with judgments."""
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


#: By the name in the table, which starts with the function.
TASKS: dict[str, Task] = {
    "`evaluate`": Task("nothing", lambda f: pr.evaluate(f.scan(), METRICS)),
    '`evaluate(ties="expected")`': Task(
        "nothing", lambda f: pr.evaluate(f.scan(), METRICS, ties="expected")
    ),
    "`evaluate` of `pl.scan_parquet`, rows sorted": Task(
        "nothing", lambda f: pr.evaluate(pl.scan_parquet(f.path("log")), METRICS)
    ),
    "`evaluate` of a shuffled log": Task(
        "`memory`", lambda f: pr.evaluate(f.scan("shuffled"), METRICS)
    ),
    "`per_query`, to a file": Task("nothing", lambda f: pr.per_query(f.scan(), METRICS)),
    "`rank`, to a file": Task("nothing", lambda f: pr.rank(f.scan())),
    "`rank` of a shuffled log, to a file": Task("`memory`", lambda f: pr.rank(f.scan("shuffled"))),
    "`rank` of `pl.scan_parquet`, rows shuffled, to a file": Task(
        "rows", lambda f: pr.rank(pl.scan_parquet(f.path("shuffled")))
    ),
    "`from_lists`, to a file": Task("nothing", lists_of),
    "`join_judgments` of sorted scans, then `evaluate`": Task(
        "nothing", lambda f: judged(f, f.scan("judgments"))
    ),
    "`join_judgments` with judgments of `pl.scan_parquet`, then `evaluate`": Task(
        "nothing", lambda f: judged(f, pl.scan_parquet(f.path("judgments")))
    ),
    "`join_judgments` of other tables, then `evaluate`": Task(
        "rows", lambda f: judged(f, pl.scan_parquet(f.path("judgments")), f.path("log"))
    ),
    "`join_judgments` of several runs, then `evaluate`": Task("rows, slowly", judged_runs),
    "`join_judgments` of several runs with other columns, then `evaluate`": Task(
        "rows", lambda f: judged_runs(f, "position")
    ),
    "`rank_curve`": Task("nothing", lambda f: pr.rank_curve(f.scan(), "ndcg", range(1, 21))),
    "`pr_curve`": Task("distinct scores", lambda f: pr.pr_curve(f.scan())),
    "`pr_curve` of several runs": Task("distinct scores", lambda f: pr.pr_curve(runs_of(f))),
    "`grouped_auc`": Task("nothing", lambda f: pr.grouped_auc(f.scan())),
    "`explain_difference`": Task(
        "queries", lambda f: pr.explain_difference(f.scan(), "ndcg@10", "polars_rank", "lightgbm")
    ),
    "`identify`": Task("rows", lambda f: pr.identify(f.scan(), "ndcg@10", "0.5772")),
    "`report`": Task("queries", report, 10),
    "`trec.write_run`": Task("nothing", lambda f: run_file(f.scan(), f)),
    "`trec.write_run` of one run, filtered from a log of several": Task(
        "nothing", lambda f: run_file(runs_of(f).filter(run="bm25"), f)
    ),
    "`trec.write_qrels`": Task(
        "rows", lambda f: pr.trec.write_qrels(f.scan("judgments"), f.output(), overwrite=True)
    ),
    "`summarize` of `per_query`": Task("queries", lambda f: pr.summarize(values_of(f))),
    "`leaderboard` of `per_query`": Task("queries", lambda f: pr.leaderboard(values_of(f))),
    "`compare` of `per_query`": Task(
        "queries", lambda f: pr.compare(values_of(f), baseline="bm25")
    ),
    "`power` of `per_query`": Task(
        "queries", lambda f: pr.power(values_of(f), baseline="bm25", difference=0.01)
    ),
    "`judges.agreement`": Task("rows", lambda f: pr.judges.agreement(by_two_judges(f)), 10),
    "`judges.confusion`": Task("rows", lambda f: pr.judges.confusion(by_two_judges(f))),
    "`judges.system_agreement` of `per_query`": Task(
        "queries",
        lambda f: pr.judges.system_agreement(values_of_judges(f), reference="human"),
        10,
    ),
    "`diagnostics.answerability`": Task(
        "queries", lambda f: pr.diagnostics.answerability(some_unanswerable(f), "rr")
    ),
    "`gate`": Task("rows", lambda f: pr.gate(f.scan("judgments"), f.scan().drop("label")), 10),
    "`diagnostics.tie_bands`": Task(
        "nothing", lambda f: pr.diagnostics.tie_bands(f.scan(), METRICS), 10
    ),
    "`diagnostics.judgment_bounds`": Task(
        "nothing", lambda f: pr.diagnostics.judgment_bounds(f.scan(), METRICS)
    ),
    "`diagnostics.headroom`": Task("nothing", lambda f: pr.diagnostics.headroom(f.scan(), METRICS)),
    "`diagnostics.movers`": Task(
        "queries", lambda f: pr.diagnostics.movers(runs_of(f), "ndcg@10", baseline="bm25", k=5)
    ),
    "`diagnostics.robustness`": Task(
        "queries", lambda f: pr.diagnostics.robustness(runs_of(f), "ndcg@10", baseline="bm25")
    ),
    "`diagnostics.overlap` of runs": Task("queries", overlap_of_runs),
    "`diagnostics.overlap`, RBO": Task(
        "queries", lambda f: pr.diagnostics.overlap(f.scan(), reversed_scores(f), "rbo")
    ),
    "`diagnostics.overlap`": Task(
        "queries", lambda f: pr.diagnostics.overlap(f.scan(), reversed_scores(f), k=10)
    ),
    "`catalog.popularity`": Task("documents", lambda f: pr.catalog.popularity(f.scan())),
    "`catalog.exclude_seen` of sorted scans, to a file": Task(
        "nothing", lambda f: pr.catalog.exclude_seen(f.scan(), seen(f))
    ),
    "`catalog.exclude_seen` of several runs, to a file": Task(
        "rows", lambda f: pr.catalog.exclude_seen(runs_of(f), seen(f))
    ),
    "`catalog.summary`": Task("documents", lambda f: pr.catalog.summary(f.scan(), 10)),
    "`catalog.sampled`": Task(
        "nothing",
        lambda f: pr.catalog.sampled(
            one_relevant(f), "ndcg@10", n_items=DOCUMENTS, n_sampled=LENGTH - 1
        ),
    ),
    "`collapse`, to a file": Task("nothing", lambda f: pr.collapse(passages(f), doc="doc")),
    "`fuse` of three runs, sorted by query, to a file": Task(
        "rows, slowly", lambda f: pr.fuse(three_runs(f), "sum(normalize='min_max')")
    ),
    "`fuse` of two runs, sorted by run, to a file": Task(
        "rows, slowly", lambda f: pr.fuse(runs_of(f).drop("label"))
    ),
    "`tune_fusion`": Task("rows", lambda f: pr.tune_fusion(runs_of(f), "ndcg@10", "rrf"), 10),
    "`clicks.click_through_rates`, to a file": Task(
        "nothing", lambda f: pr.clicks.click_through_rates(f.scan())
    ),
    "`clicks.coec`, to a file": Task("nothing", lambda f: pr.clicks.coec(f.scan())),
    "`clicks.labels`, to a file": Task(
        "nothing", lambda f: pr.clicks.labels(f.scan().drop("label"))
    ),
    "`plot.at_k`": Task(
        "queries", lambda f: pr.plot.at_k(runs_of(f), "ndcg", ks=range(1, 11), baseline="bm25")
    ),
    "`plot.pr_curve`": Task("rows", lambda f: pr.plot.pr_curve(runs_of(f))),
    "`plot.differences` of `per_query`": Task(
        "queries", lambda f: pr.plot.differences(values_of(f), "ndcg@10", baseline="bm25")
    ),
    "`plot.distribution` of `per_query`": Task(
        "queries", lambda f: pr.plot.distribution(values_of(f), "ndcg@10")
    ),
}

#: First parameters of functions that read a log or values.
_READS = {"frame", "log", "values", "rankings", "judgments", "a"}
#: A function of dictionaries, and a metric.
_OTHERS = {"from_dicts", "metrics.utility"}


def public_functions() -> set[str]:
    """Return the names of the public functions that read a log or values."""
    modules = {"": pr} | {
        f"{n}.": m for n in dir(pr) if isinstance(m := getattr(pr, n), ModuleType)
    }
    names = {
        prefix + name
        for prefix, module in modules.items()
        for name in dir(module)
        if inspect.isroutine(function := getattr(module, name))
        if next(iter(inspect.signature(function).parameters), "") in _READS
    }
    return names - _OTHERS


def measured_functions() -> set[str]:
    """Return the names of the functions in the table."""
    return {re.findall(r"[\w.]+", name)[0] for name in TASKS}


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
    result = TASKS[name].call(files)
    if isinstance(result, pl.LazyFrame) and name.endswith("to a file"):
        result.sink_parquet(files.output())
    elif isinstance(result, pl.LazyFrame):
        result.collect(engine="streaming")


def main() -> None:
    def number(text: str) -> int:
        return int(text.replace("_", ""))

    parser = argparse.ArgumentParser(prog="python -m tests.bench.memory")
    option = parser.add_argument
    option("--rows", type=number, nargs="+", default=[3_000_000, 10_000_000])
    option("--tasks", default="", help="only tasks whose name contains this text")
    option("--data", type=Path, default=Path(tempfile.gettempdir(), "pr_memory"))
    option("--output", type=Path, help="Markdown; default: print")
    option("--task", help="one task, in this process; prints its peak memory in MB")
    options = parser.parse_args()
    if options.task is None:
        publish(table(options.data, options.rows, options.tasks), options.output)
        return
    files = Files(options.data, *options.rows)
    if options.task == "write":
        files.write()
    else:
        perform(options.task, files)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6)


if __name__ == "__main__":
    main()
