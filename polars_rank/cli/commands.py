"""The commands of `polars-rank`; each is a few calls of the library."""
# ruff: noqa: A002, B006, FBT002, TC003
# typer reads the options off the signatures: names, defaults, lists and switches. What it reads
# as their types must exist when the program runs.

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import polars as pl
import typer

from polars_rank import progress as bars
from polars_rank.cli import statistics
from polars_rank.cli.engines import EngineOption, Master, Remote, Where
from polars_rank.cli.formats import choose, put, require_parquet
from polars_rank.cli.messages import misused, one_message
from polars_rank.cli.options import (
    AlignOption,
    DuplicatesOption,
    Force,
    FormatOption,
    Fractional,
    LayoutOption,
    NegativeOption,
    Output,
    Progress,
    Qrels,
    QueriesOption,
    Run,
    TiesOption,
    UndefinedOption,
    UnjudgedOption,
    grouped,
    split_names,
)
from polars_rank.cli.sources import refuse_to_replace, scan
from polars_rank.columns import DOC
from polars_rank.conventions import POLARS_RANK
from polars_rank.datasets import search_log
from polars_rank.evaluation import evaluate as means_of
from polars_rank.evaluation import per_query as lists_of
from polars_rank.logs.judgments import join_judgments
from polars_rank.logs.trec import scan_qrels, scan_trec_run
from polars_rank.measures.catalogue import metrics as catalogue
from polars_rank.measures.names import split

app = typer.Typer(
    help="Ranking metrics of search and recommendation logs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:  # noqa: FBT001  (typer calls it)
    if wanted:
        typer.echo(version("polars_rank"))
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    pass


@app.command(
    no_args_is_help=True,
    epilog='Example: polars-rank evaluate log.parquet --metrics "ndcg@10 ap rr" --by run',
)
def evaluate(  # noqa: C901  (options that do not go together, each with its message)
    logs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="LOG...",
            help="Parquet files, directories, patterns or URLs; or CSV, NDJSON, Arrow files.",
        ),
    ] = None,
    metrics: Annotated[
        list[str], typer.Option("--metrics", "-m", help='Names, as in "ndcg@10 ap rr".')
    ] = [],
    by: Annotated[list[str], typer.Option(help="Columns to group by.")] = [],
    query: Annotated[list[str], typer.Option(help="Columns of the query.")] = ["query"],
    doc: Annotated[
        str | None, typer.Option(help='Column of the document; "" for none; doc by default.')
    ] = None,
    score: Annotated[
        str, typer.Option(help='Column of the score; "-price" where lower is better.')
    ] = "score",
    scores: Annotated[
        list[str], typer.Option(help="Columns of scores, each of which is a run.")
    ] = [],
    position: Annotated[
        str | None, typer.Option(help="Column of the position, instead of a score; 1 is first.")
    ] = None,
    label: Annotated[str, typer.Option(help="Column of the label.")] = "label",
    qrels: Qrels = [],
    run: Run = [],
    fractional: Fractional = False,
    negative: NegativeOption = "unjudged",
    conventions: Annotated[
        str | None, typer.Option(help='Whose definitions to follow, as "trec_eval", "LightGBM".')
    ] = None,
    ties: TiesOption = None,
    relevant: Annotated[
        float | None, typer.Option(help="The lowest relevant label; 1 by default.")
    ] = None,
    unjudged: UnjudgedOption = None,
    queries: QueriesOption = None,
    undefined: UndefinedOption = None,
    duplicates: DuplicatesOption = "error",
    weight: Annotated[str | None, typer.Option(help="Column of each query's weight.")] = None,
    align: AlignOption = None,
    per_query: Annotated[bool, typer.Option("--per-query", help="One row per query.")] = False,
    keep: Annotated[
        list[str], typer.Option(help="With --per-query: columns of the query to keep.")
    ] = [],
    layout: LayoutOption = None,
    memory: Annotated[
        str | None, typer.Option(help='For shuffled logs: memory to sort in, as "2GB".')
    ] = None,
    progress: Progress = True,
    engine: EngineOption = "polars",
    master: Master = None,
    remote: Remote = None,
    format: FormatOption = None,
    output: Output = None,
    force: Force = False,
) -> None:
    """Evaluate a log: the mean of each metric, or a row for each query."""
    with one_message(*(logs or [])):
        names, groups, keys = split(" ".join(metrics)), split_names(by), split_names(query)
        for key in keys:
            if key in groups:
                misused(f"--by names {key!r}, which is the query; for a row of each, --per-query")
        shape = choose(format, output)
        if force:
            refuse_to_replace(output, [*(logs or []), *qrels, *run])
        options: dict[str, Any] = {
            "query": keys,
            "doc": DOC if doc is None else doc or None,
            "score": score,
            "scores": split_names(scores) or None,
            "position": position,
            "label": label,
            "conventions": conventions or POLARS_RANK,
            "ties": ties,
            "relevant": relevant,
            "unjudged": unjudged,
            "queries": queries,
            "undefined": undefined,
            "duplicates": duplicates,
        }
        if per_query:
            if weight or align:
                misused("--weight and --align are for means; leave them or --per-query out")
            options["keep"] = split_names(keep)
        else:
            if keep:
                misused("--keep is for rows of queries; add --per-query")
            options |= {"weight": weight, "align": align}
        evaluated = lists_of if per_query else means_of
        where = Where(engine=engine, master=master, remote=remote)
        if where.on_spark:
            found = where.evaluated(
                logs or [],
                lambda rows: evaluated(rows, names, by=groups, **options),
                beside=[*qrels, *run],
            )
            put(found, shape, output, force=force)
            return
        if qrels or run:
            if logs or not (qrels and run):
                misused("give either a LOG, or both --qrels and --run")
            groups = groups or ["run"]
            judgments = scan_qrels(qrels, fractional=fractional, negative=negative)
            log = join_judgments(scan_trec_run(run), judgments)
        elif not logs:
            misused("give a LOG, or --qrels and --run")
        else:
            log = scan(logs, query=keys, by=groups, layout=layout, memory=memory, progress=progress)
        put(evaluated(log, names, by=groups, **options), shape, output, force=force)


@app.command(epilog="Example: polars-rank metrics --format csv")
def metrics(format: FormatOption = None, output: Output = None, force: Force = False) -> None:
    """List every metric: parameters, range, definition and other names."""
    with one_message():
        shape = choose(format, output)
        table = catalogue().lazy()
        if shape in ("table", "csv"):
            low, high = (
                pl.col(bound).cast(pl.String).str.strip_suffix(".0") for bound in ("low", "high")
            )
            values = pl.format("[{}, {}]", low.fill_null("-inf"), high.fill_null("inf"))
            others = pl.col("aliases").list.join("; ")
            table = table.select(
                "metric", "parameters", values.alias("range"), "definition", others
            )
        put(table, shape, output, force=force)


@app.command(
    no_args_is_help=True,
    epilog="Example: polars-rank convert both.parquet --qrels qrels.txt --run bm25.txt",
)
def convert(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The Parquet file to write.")],
    qrels: Qrels = [],
    run: Run = [],
    fractional: Fractional = False,
    negative: NegativeOption = "unjudged",
    force: Force = False,
) -> None:
    """Turn TREC files into Parquet: a run, judgments, or both joined into one long table."""
    with one_message():
        if not (qrels or run):
            misused("give --qrels, --run, or both")
        require_parquet(output)
        if force:
            refuse_to_replace(output, [*qrels, *run])
        frames = [
            *([scan_trec_run(run)] if run else []),
            *([scan_qrels(qrels, fractional=fractional, negative=negative)] if qrels else []),
        ]
        table = frames[0] if len(frames) == 1 else join_judgments(*frames)
        keys = [name for name in ("run", "query") if name in table.collect_schema()]
        put(table.sort(keys), "parquet", output, force=force)


@app.command(no_args_is_help=True, epilog="Example: polars-rank generate log.parquet --queries 500")
def generate(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The Parquet file to write.")],
    queries: Annotated[int, typer.Option(help="Number of queries.")] = 1_000,
    docs_per_query: Annotated[int, typer.Option(help="Documents per list, in the mean.")] = 20,
    runs: Annotated[int, typer.Option(help="Number of runs, each better than the last.")] = 2,
    seed: Annotated[int, typer.Option(help="Another seed gives another log.")] = 0,
    progress: Progress = True,
    force: Force = False,
) -> None:
    """Generate a realistic search log, to try the other commands on."""
    with one_message():
        require_parquet(output)
        log = search_log(queries, docs_per_query, runs=runs, seed=seed)
        put(bars.watch(log) if progress else log, "parquet", output, force=force)


for command, example in statistics.COMMANDS.items():
    app.command(no_args_is_help=True, epilog=f"Example: {example}")(grouped(command))
