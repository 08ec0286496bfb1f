"""The commands of `polars-rank`; each is a few calls of the library."""
# ruff: noqa: A002, B006, FBT002
# typer reads the options off the signatures: names, defaults, lists and switches.

from __future__ import annotations

import sys
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import polars as pl
import typer
from rich import box
from rich.console import Console
from rich.table import Table

from polars_rank import progress as bars
from polars_rank.cli import INTERRUPTED, MISUSED
from polars_rank.datasets import search_log
from polars_rank.errors import ArgumentError, RankError
from polars_rank.evaluation import evaluate as means_of
from polars_rank.evaluation import per_query as lists_of
from polars_rank.logs.files import new_file
from polars_rank.logs.judgments import join_judgments
from polars_rank.logs.parquet import scan_log
from polars_rank.logs.trec import scan_qrels, scan_trec_run
from polars_rank.measures.catalogue import metrics as catalogue

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

app = typer.Typer(
    help="Ranking metrics of search and recommendation logs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

# What typer reads as the type of an option must exist when the program runs.
Format = Literal["table", "csv", "json", "parquet"]
Ties = Literal["doc", "doc_ascending", "best", "worst", "input", "expected"]
Undefined = Literal["zero", "skip", "one", "null"]
Duplicates = Literal["error", "max", "first"]
Layout = Literal["auto", "sorted", "adjacent", "shuffled"]

_FORMATS: dict[str, Format] = {".csv": "csv", ".json": "json", ".parquet": "parquet"}

Qrels = Annotated[list[Path], typer.Option(help="TREC judgments, instead of a log.")]
Run = Annotated[list[Path], typer.Option(help="TREC run, instead of a log.")]
Fractional = Annotated[
    bool, typer.Option("--fractional", help="Labels of --qrels may be fractions.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace the output if it is there already.")]
Progress = Annotated[bool, typer.Option(help="Show a bar on a terminal when it takes long.")]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="By default, what --output ends in, or table.")
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write to a file.")]


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


@app.command(no_args_is_help=True)
def evaluate(
    logs: Annotated[
        list[str] | None,
        typer.Argument(metavar="LOG...", help="Parquet files, directories, patterns or URLs."),
    ] = None,
    metrics: Annotated[
        list[str], typer.Option("--metrics", "-m", help='Names, as in "ndcg@10 ap rr".')
    ] = [],
    by: Annotated[list[str], typer.Option(help="Columns to group by.")] = [],
    query: Annotated[list[str], typer.Option(help="Columns of the query.")] = ["query"],
    doc: Annotated[str, typer.Option(help='Column of the document; "" for none.')] = "doc",
    score: Annotated[str, typer.Option(help="Column of the score.")] = "score",
    label: Annotated[str, typer.Option(help="Column of the label.")] = "label",
    qrels: Qrels = [],
    run: Run = [],
    fractional: Fractional = False,
    ties: Annotated[Ties | None, typer.Option(help="The order of tied scores.")] = None,
    relevant: Annotated[float, typer.Option(help="The lowest relevant label.")] = 1,
    undefined: Annotated[
        Undefined, typer.Option(help="What undefined values count as in the means.")
    ] = "zero",
    duplicates: Annotated[
        Duplicates, typer.Option(help="What to do with documents that repeat in a list.")
    ] = "error",
    per_query: Annotated[bool, typer.Option("--per-query", help="One row per query.")] = False,
    layout: Annotated[Layout, typer.Option(help="How the rows of a log lie.")] = "auto",
    memory: Annotated[
        str | None, typer.Option(help='For shuffled logs: memory to sort in, as "2GB".')
    ] = None,
    progress: Progress = True,
    format: FormatOption = None,
    output: Output = None,
    force: Force = False,
) -> None:
    """Evaluate a log: the mean of each metric, or a row for each query."""
    with _one_message():
        names, groups, queries = split_names(metrics), split_names(by), split_names(query)
        shape = _format(format, output)
        if qrels or run:
            if logs or not (qrels and run):
                _misused("give either a LOG, or both --qrels and --run")
            groups = groups or ["run"]
            log = join_judgments(scan_trec_run(run), scan_qrels(qrels, fractional=fractional))
        elif not logs:
            _misused("give a LOG, or --qrels and --run")
        else:
            log = scan_log(
                logs, query=queries, by=groups, layout=layout, memory=memory, progress=progress
            )
        options: dict[str, Any] = {
            "query": queries,
            "doc": doc or None,
            "score": score,
            "label": label,
            "by": groups,
            "ties": ties,
            "relevant": relevant,
            "duplicates": duplicates,
        }
        result = (
            lists_of(log, names, **options)
            if per_query
            else means_of(log, names, undefined=undefined, **options)
        )
        _put(result, shape, output, force=force)


@app.command()
def metrics(format: FormatOption = None, output: Output = None, force: Force = False) -> None:
    """List every metric: parameters, range, definition and other names."""
    with _one_message():
        shape = _format(format, output)
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
        _put(table, shape, output, force=force)


@app.command(no_args_is_help=True)
def convert(
    output: Annotated[Path, typer.Argument(metavar="OUT", help="The Parquet file to write.")],
    qrels: Qrels = [],
    run: Run = [],
    fractional: Fractional = False,
    force: Force = False,
) -> None:
    """Turn TREC files into Parquet: a run, judgments, or both joined into one long table."""
    with _one_message():
        if not (qrels or run):
            _misused("give --qrels, --run, or both")
        frames = [
            *([scan_trec_run(run)] if run else []),
            *([scan_qrels(qrels, fractional=fractional)] if qrels else []),
        ]
        table = frames[0] if len(frames) == 1 else join_judgments(*frames)
        keys = [name for name in ("run", "query") if name in table.collect_schema()]
        _put(table.sort(keys), "parquet", output, force=force)


@app.command(no_args_is_help=True)
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
    with _one_message():
        log = search_log(queries, docs_per_query, runs=runs, seed=seed)
        _put(bars.watch(log) if progress else log, "parquet", output, force=force)


def split_names(texts: Iterable[str]) -> list[str]:
    """Split names at spaces and commas, but not inside brackets.

    Examples
    --------
    >>> split_names(["ndcg(gain='exp2', depth='retrieved')@10, ap", "rr"])
    ["ndcg(gain='exp2', depth='retrieved')@10", 'ap', 'rr']
    """
    names, depth = [""], 0
    for character in " ".join(texts):
        depth += (character == "(") - (character == ")")
        if depth <= 0 and (character.isspace() or character == ","):
            names.append("")
        else:
            names[-1] += character
    return [name for name in names if name]


@contextmanager
def _one_message() -> Iterator[None]:
    """End the program with one clear message where something goes wrong."""
    try:
        yield
    except BrokenPipeError:  # whoever reads our output has had enough
        raise
    except (RankError, pl.exceptions.PolarsError, OSError) as error:
        _end(str(error).partition("\n\nThis error occurred")[0])
    except pl.exceptions.PanicException as error:  # not an Exception
        _end(f"Polars failed ({error}); are the files whole?")
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None
    finally:
        bars.close()


def _end(message: str) -> NoReturn:
    bars.close()
    typer.echo(f"Error: {message}", err=True)
    raise typer.Exit(MISUSED)


def _misused(message: str) -> NoReturn:
    raise ArgumentError(message)


def _format(format: Format | None, output: Path | None) -> Format:
    if format == "parquet" and output is None:
        _misused("the format parquet needs a file; name it with --output")
    if format is not None or output is None:
        return format or "table"
    return _FORMATS.get(output.suffix, "table")


def _put(result: pl.LazyFrame, shape: Format, output: Path | None, *, force: bool) -> None:
    """Write a result to a file, or show it."""
    if output is None:
        _show(result.collect(engine="streaming"), shape)
        return
    with new_file(output, overwrite=force) as part:
        if shape == "parquet":
            result.sink_parquet(part, engine="streaming")
        elif shape == "csv":
            result.sink_csv(part, engine="streaming")
        else:
            rows = result.collect(engine="streaming")
            part.write_text(_json(rows) if shape == "json" else _plain(rows), "utf-8")
    bars.close()
    typer.echo(f"Wrote {output}", err=True)


def _show(rows: pl.DataFrame, shape: Format) -> None:
    bars.close()
    if shape == "table" and sys.stdout.isatty():
        table = Table(box=box.SIMPLE_HEAD)
        for name, dtype in rows.schema.items():
            table.add_column(name, justify="right" if dtype.is_numeric() else "left")
        for row in _cells(rows):
            table.add_row(*row)
        Console().print(table)
        return
    text = {"table": _plain, "csv": _csv, "json": _json}[shape](rows)
    typer.echo(text, nl=not text.endswith("\n"))


def _csv(rows: pl.DataFrame) -> str:
    return rows.write_csv()


def _json(rows: pl.DataFrame) -> str:
    return rows.write_json()


def _cells(rows: pl.DataFrame) -> Iterator[list[str]]:
    for row in rows.iter_rows():
        yield [
            "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)
            for value in row
        ]


def _plain(rows: pl.DataFrame) -> str:
    """Return a table of aligned columns, numbers to the right."""
    lines = [rows.columns, *_cells(rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    numeric = [dtype.is_numeric() for dtype in rows.dtypes]
    return "".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        + "\n"
        for line in lines
    )
