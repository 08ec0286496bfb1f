"""The commands that make files: Parquet of TREC files, and generated logs."""
# ruff: noqa: B006, FBT002  (as in `evaluating`)

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polars_rank import _progress as bars
from polars_rank.cli import options as o
from polars_rank.cli.formats import put, require_parquet
from polars_rank.cli.messages import misused
from polars_rank.cli.sources import refuse_to_replace
from polars_rank.datasets import search_log
from polars_rank.io.judgments import join_judgments
from polars_rank.trec import scan_qrels, scan_run

if TYPE_CHECKING:
    from polars_rank.cli.running import Commands

Out = Annotated[Path, typer.Argument(metavar="OUT", help="The Parquet file to write.")]


def convert(
    output: Out,
    qrels: o.Qrels = [],
    run: o.Run = [],
    fractional: o.Fractional = False,
    negative: o.NegativeOption = "unjudged",
    force: o.Force = False,
) -> None:
    """Turn TREC files into Parquet: a run, judgments, or both joined into one long table."""
    if not (qrels or run):
        misused("give --qrels, --run, or both")
    require_parquet(output)
    if force:
        refuse_to_replace(output, [*qrels, *run])
    frames = [
        *([scan_run(run)] if run else []),
        *([scan_qrels(qrels, fractional=fractional, negative=negative)] if qrels else []),
    ]
    table = frames[0] if len(frames) == 1 else join_judgments(*frames)
    keys = [name for name in ("run", "query") if name in table.collect_schema()]
    put(table.sort(keys), "parquet", output, force=force)


def generate(
    output: Out,
    queries: Annotated[int, typer.Option(help="Number of queries.")] = 1_000,
    docs_per_query: Annotated[int, typer.Option(help="Documents per list, in the mean.")] = 20,
    runs: Annotated[
        str, typer.Option(help="Number of runs, or their names, each better than the last.")
    ] = "2",
    seed: Annotated[int, typer.Option(help="Another seed gives another log.")] = 0,
    progress: o.Progress = True,
    force: o.Force = False,
) -> None:
    """Generate a realistic search log, to try the other commands on."""
    require_parquet(output)
    named = int(runs) if runs.isdecimal() else o.split_names([runs])
    log = search_log(queries, docs_per_query, runs=named, seed=seed)
    put(bars.watch(log) if progress else log, "parquet", output, force=force)


COMMANDS: Commands = {
    generate: ["polars-rank generate log.parquet --queries 500"],
    convert: ["polars-rank convert both.parquet --qrels qrels.txt --run bm25.txt"],
}
