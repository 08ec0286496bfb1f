"""Measure Spark: this library, windows in Spark SQL and RankingMetrics on one log, to a table.

    python -m tests.benchmarks.spark [--rows 1_000_000,10_000_000,100_000_000] [--output FILE]

The log is shuffled, with 100 documents per ranking and 20 metrics. Each task runs in its own
process with `local[2]`, after a small log, so the start of Spark is not included. Most of the
difference from a second run is Java compilation. Memory is the peak of the largest Python worker,
or of the process if there is none. The second table has the time by step, where each step includes
the steps before it, in a warm session. Requires Java and `pip install -e '.[spark]' --group bench`. The tables
are in spark.md.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.contenders import CUTOFFS, METRICS, own_names
from tests.benchmarks.logs import Log, write
from tests.benchmarks.pages import publish

#: What RankingMetrics has of the metrics, each of them a job of its own.
PEER = [name for name in METRICS if name != "rr"]
PEER_ROWS = 1_000_000
#: Logs that are evaluated a second time, when Java has compiled what it runs.
AGAIN_ROWS = 10_000_000
#: Runs of each step of which the fastest counts, after one that does not.
STEP_RUNS = 3


STEPS = "steps"


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark")
    parser.add_argument("--rows", default="1_000_000,10_000_000,100_000_000")
    parser.add_argument("--data", default=str(Path(tempfile.gettempdir(), "pr_benchmarks")))
    parser.add_argument("--only", help="one contender, in this process; prints JSON")
    parser.add_argument("--contenders", default=",".join(CONTENDERS))
    parser.add_argument("--output", type=Path, help="Markdown; default: print")
    return parser.parse_args()


def log_of(rows: int, folder: str) -> Log:
    return Log(folder, rows, 100, "shuffled", "int", 0)


def session(partitions: int = 32) -> object:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    options = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": str(partitions),
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
    }
    builder = SparkSession.builder.master("local[2]")
    for name, value in options.items():
        builder = builder.config(name, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def one_machine(path: Path) -> dict[str, float]:
    import polars as pl

    import polars_rank as pr

    means = pr.evaluate(pl.scan_parquet(path), own_names(METRICS)).collect(engine="streaming")
    return dict(zip(METRICS, means.row(0)[1:], strict=True))


def on_spark(path: Path) -> dict[str, float]:
    import polars_rank as pr

    row = pr.evaluate(session().read.parquet(str(path)), own_names(METRICS)).collect()[0]
    return dict(zip(METRICS, row[1:], strict=True))


def sql_windows(path: Path) -> dict[str, float]:
    gain, hit = "power(2, label) - 1", "cast(label >= 1 as int)"
    cut = {k: f"case when rank <= {k} then" for k in CUTOFFS}
    per_query = [
        *(
            f"coalesce(try_divide(sum({cut[k]} ({gain}) / log2(rank + 1) end), "
            f"sum(case when ideal <= {k} then ({gain}) / log2(ideal + 1) end)), 0) as `ndcg@{k}`"
            for k in CUTOFFS
        ),
        *(f"sum({cut[k]} {hit} end) / {k} as `p@{k}`" for k in CUTOFFS),
        *(
            f"coalesce(try_divide(sum({cut[k]} {hit} end), sum({hit})), 0) as `recall@{k}`"
            for k in CUTOFFS
        ),
        f"coalesce(try_divide(sum({hit} * hits / rank), sum({hit})), 0) as `ap`",
        "coalesce(1 / min(case when label >= 1 then rank end), 0) as `rr`",
    ]
    means = ", ".join(f"avg(`{name}`) as `{name}`" for name in METRICS)
    query = f"""
        with ranked as (
            select query, label,
                row_number() over (partition by query order by score desc, doc desc) as rank,
                row_number() over (partition by query order by label desc) as ideal
            from log),
        counted as (
            select *, sum({hit}) over (partition by query order by rank) as hits from ranked),
        lists as (select query, {", ".join(per_query)} from counted group by query)
        select {means} from lists"""
    spark = session()
    spark.read.parquet(str(path)).createOrReplaceTempView("log")
    return spark.sql(query).collect()[0].asDict()


def ranking_metrics(path: Path) -> dict[str, float]:
    """Lists by Spark SQL, then RankingMetrics; its NDCG has gain 2^label - 1, too."""
    from pyspark.mllib.evaluation import RankingMetrics

    spark = session()
    spark.read.parquet(str(path)).createOrReplaceTempView("log")
    lists = spark.sql("""
        select
            transform(sort_array(collect_list(struct(score, doc)), false), x -> x.doc) as ranked,
            transform(filter(sort_array(collect_list(struct(label, doc)), false), x -> x.label > 0),
                x -> x.doc) as relevant
        from log group by query""")
    rows = lists.rdd.map(lambda row: (row[0], row[1]))
    found = RankingMetrics(rows)
    lists.cache()
    of = {"p": found.precisionAt, "recall": found.recallAt, "ndcg": found.ndcgAt}
    values = {}
    for name in PEER:
        family, _, k = name.partition("@")
        values[name] = of[family](int(k)) if k else found.meanAveragePrecision
    return values


def steps(path: Path) -> dict[str, dict[str, float]]:
    """Time of each step of the evaluation, including the steps before it."""
    from polars_rank.spark import engine as runner

    import polars_rank as pr

    log = session().read.parquet(str(path))
    rows = log.select("query", "doc", "score", "label")
    asked = {"metrics": own_names(METRICS)}
    whole = runner._Log.of(log, lambda frame: pr.evaluate(frame, **asked))
    together, chunks = whole._together(("query",), asked)

    def count(batches):  # noqa: ANN001, ANN202
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})

    def unpack(batches):  # noqa: ANN001, ANN202
        import pyarrow as pa

        yield pa.RecordBatch.from_pydict({"rows": [sum(chunk.height for chunk in chunks(batches))]})

    def nowhere(frame: object) -> None:
        frame.write.format("noop").mode("overwrite").save()

    works: dict[str, Callable[[], object]] = {
        "read": lambda: nowhere(rows),
        "and hand over to Python": lambda: rows.mapInArrow(count, "rows bigint").collect(),
        "or pack, move and sort as cells": lambda: nowhere(together),
        "and unpack": lambda: together.mapInArrow(unpack, "rows bigint").collect(),
        "and evaluate": lambda: on_spark(path),
    }
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in works}
    for _ in range(1 + STEP_RUNS):
        for name, work in works.items():
            runs[name].append(measured(work))
    return {name: min(found[1:], key=lambda run: run["cpu"]) for name, found in runs.items()}


def measured(work: Callable[[], object]) -> dict[str, float]:
    began, used, python = time.perf_counter(), cpu_seconds(), cpu_seconds(b"pyspark.daemon")
    work()
    return {
        "seconds": time.perf_counter() - began,
        "cpu": cpu_seconds() - used,
        "python": cpu_seconds(b"pyspark.daemon") - python,
    }


CONTENDERS: dict[str, Callable[[Path], dict[str, float]]] = {
    "one machine": one_machine,
    "polars_rank on Spark": on_spark,
    "window functions in Spark SQL": sql_windows,
    "RankingMetrics (19 of the metrics)": ranking_metrics,
}


class Peak(threading.Thread):
    """Return the peak memory of the largest Python worker of this process, in MB."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.found = 0.0

    def run(self) -> None:
        while True:
            for folder in Path("/proc").glob("[0-9]*"):
                try:
                    if b"pyspark.daemon" in (folder / "cmdline").read_bytes() and ours(folder):
                        status = (folder / "status").read_text("utf-8")
                        line = next(x for x in status.splitlines() if x.startswith("VmHWM"))
                        self.found = max(self.found, int(line.split()[1]) / 1024)
                except (OSError, StopIteration):
                    continue
            time.sleep(0.2)


def ours(folder: Path) -> bool:
    """Return whether a process descends from this one."""
    pid = int(folder.name)
    while pid > 1:
        if pid == os.getpid():
            return True
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
        pid = int(stat.rpartition(")")[2].split()[1])
    return False


def alone(name: str, rows: int, path: Path, small: Path) -> dict[str, object]:
    contender = CONTENDERS[name]
    contender(small)
    peak = Peak()
    peak.start()
    values: dict[str, float] = {}
    took = measured(lambda: values.update(contender(path)))
    if rows <= AGAIN_ROWS:
        took["again"] = measured(lambda: contender(path))["seconds"]
    time.sleep(0.3)
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**took, "megabytes": peak.found or own, "values": values}


def cpu_seconds(of: bytes = b"") -> float:
    """Return the CPU seconds of this process and its descendants, or some of them."""
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if ours(folder) and of in (folder / "cmdline").read_bytes():
                after_name = (folder / "stat").read_text("utf-8").rpartition(")")[2].split()
                ticks += sum(map(int, after_name[11:15]))
        except OSError:
            continue
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    options = arguments()
    sizes = [int(size) for size in options.rows.split(",")]
    small = log_of(100_000, options.data)
    write(small)
    if options.only:
        path = log_of(sizes[0], options.data).path
        found = (
            steps(path)
            if options.only == STEPS
            else alone(options.only, sizes[0], path, small.path)
        )
        print(json.dumps(found))
        return
    lines = [
        "| rows | | seconds | ratio | CPU seconds | of them in Python | again, seconds | ratio "
        "| worker, MB |",
        "| ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for rows in sizes:
        log = log_of(rows, options.data)
        write(log)
        results: dict[str, dict] = {}
        for name in options.contenders.split(","):
            if rows > PEER_ROWS and name.startswith("RankingMetrics"):
                continue
            results[name] = run(name, rows, options.data)
            print(rows, name, results[name], file=sys.stderr, flush=True)
        agree(results)
        base = results["polars_rank on Spark"]
        lines += [
            f"| {rows:,} | {name} | {compared(found, base, 'seconds')} | {found['cpu']:.1f} "
            f"| {found['python']:.1f} | {compared(found, base, 'again')} "
            f"| {found['megabytes']:,.0f} |"
            for name, found in results.items()
        ]
    middle = sizes[len(sizes) // 2]
    lines += [
        "",
        f"Time by step, for {middle:,} rows, in a warm session; each step includes the steps "
        f"before it:",
        "",
        "| | seconds | CPU seconds | of them in Python |",
        "| --- | ---: | ---: | ---: |",
        *(
            f"| {name} | {took['seconds']:.1f} | {took['cpu']:.1f} | {took['python']:.1f} |"
            for name, took in run(STEPS, middle, options.data).items()
        ),
    ]
    text = "\n".join(lines) + "\n"
    publish(introduction() + text, options.output)


def compared(found: dict, base: dict, what: str) -> str:
    """Return two cells: the value and its ratio to the base."""
    return f"{found[what]:.1f} | {found[what] / base[what]:.2f}" if what in found else " | "


def run(name: str, rows: int, folder: str) -> dict:
    command = [sys.executable, "-m", "tests.benchmarks.spark", "--rows", str(rows)]
    command += ["--data", folder, "--only", name]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def agree(results: dict[str, dict]) -> None:
    """Raise if two contenders give different values for a metric with the same definition."""
    expected = results["one machine"]["values"]
    for name, found in results.items():
        for metric, value in found["values"].items():
            alike = not name.startswith("RankingMetrics") or metric.startswith(("p@", "recall@"))
            if alike and abs(value - expected[metric]) > 1e-9:
                raise SystemExit(f"{name}: {metric} is {value}, not {expected[metric]}")


def introduction() -> str:
    import polars
    import pyspark

    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    version = java.split('"')[1]
    return (
        "# Cost on Spark\n\nGenerated by `python -m tests.benchmarks.spark` with "
        f"pyspark {pyspark.__version__}, Java {version} and Polars {polars.__version__}: "
        f"`local[2]` on {os.cpu_count()} cores, "
        "shuffled logs of 100 documents per ranking, 20 metrics, "
        "`spark.sql.execution.arrow.maxBytesPerBatch` at its largest. The first three contenders "
        "give the same numbers to 1e-9. CPU seconds are of all processes and include Java "
        'compilation; "in Python" is the time inside `mapInArrow`.\n\n'
    )


if __name__ == "__main__":
    main()
