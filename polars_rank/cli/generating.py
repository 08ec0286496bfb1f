"""The commands `convert` and `generate`, which write Parquet files."""

import re
from pathlib import Path
from typing import Annotated

import typer

from polars_rank import _progress as bars
from polars_rank.cli import options as o
from polars_rank.cli.messages import misused
from polars_rank.cli.sources import readable, refuse_to_replace
from polars_rank.cli.writing import put, require_parquet
from polars_rank.datasets import search_log
from polars_rank.io.judgments import join_judgments
from polars_rank.io.trec import scan_judgments, scan_run


def convert(
    output: o.ParquetOutput,
    logs: Annotated[list[str], typer.Argument(metavar="RUN", help="TREC runs.")] = [],
    qrels: o.Qrels = [],
    fractional: o.Fractional = False,
    negative: o.Negative = "unjudged",
    overwrite: o.Overwrite = False,
) -> None:
    """Convert TREC runs and judgments to one Parquet file.

    Runs are joined with the judgments if both are given.

    For example:
      polars-rank convert run.txt --qrels qrels.txt -o both.parquet
    """
    if not (qrels or logs):
        misused("give a RUN, --qrels, or both")
    require_parquet(output)
    refuse_to_replace(output, [*qrels, *logs])
    runs, judgments = ([*map(readable, paths)] for paths in (logs, qrels))
    frames = [scan_run(runs)] if runs else []
    if judgments:
        frames.append(scan_judgments(judgments, fractional=fractional, negative=negative))
    table = frames[0] if len(frames) == 1 else join_judgments(*frames)
    keys = [name for name in ("run", "query") if name in table.collect_schema()]
    put(table.sort(keys, maintain_order=True), "parquet", output, overwrite=overwrite)


def generate(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="Parquet file to write.")],
    queries: o.Queries = 1_000,
    docs_per_query: Annotated[int, o.option("Mean number of documents per query.")] = 20,
    runs: Annotated[
        list[str],
        o.option("Names or number of runs; later runs rank better.", callback=o.split_names),
    ] = ["bm25", "neural"],
    seed: o.Seed = 0,
    string_ids: Annotated[
        bool, o.option("Write ids as text instead of integers.", None, "--string-ids")
    ] = False,
    progress: o.Progress = True,
    overwrite: o.Overwrite = False,
) -> None:
    """Generate a search log to try the other commands.

    For example:
      polars-rank generate log.parquet --queries 500
    """
    require_parquet(output)
    is_number = len(runs) == 1 and re.fullmatch(r"[+-]?\d+", runs[0])
    log = search_log(
        queries, docs_per_query, runs=int(runs[0]) if is_number else runs, seed=seed,
        string_ids=string_ids,
    )  # fmt: skip
    put(bars.watch(log) if progress else log, "parquet", output, overwrite=overwrite)
