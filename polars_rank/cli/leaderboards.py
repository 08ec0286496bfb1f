"""The command `leaderboard`, and leaderboards as tables for papers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from polars_rank import _texts
from polars_rank.cli import options as o
from polars_rank.cli.per_query import PerQuery, Source
from polars_rank.cli.printing import latex_table, markdown_table
from polars_rank.cli.writing import put
from polars_rank.stats import leaderboards
from polars_rank.stats.leaderboard_rows import Population, direction_in_title

if TYPE_CHECKING:
    from collections.abc import Callable

    import polars as pl

#: Decimals of means in a table for papers; smaller means have as many significant digits.
_DECIMALS, _SMALL = 3, 0.01


@o.takes(o.Files, o.Columns, o.Attributes, o.Definitions, o.TableOutput)
def leaderboard(
    ctx: typer.Context,
    logs: o.LogsOrValues = [],
    values: o.Values = [],
    metrics: o.Metrics = [],
    run: o.Run = None,
    by: Annotated[
        list[str], o.columns("Columns of tasks, e.g. the data set: rank by the mean of task means.")
    ] = [],
    population: Annotated[
        Population,
        o.option("With --by: what intervals are about, other queries or other tasks."),
    ] = "queries",
    confidence: o.Confidence = 0.95,
    n_resamples: o.Resamples = 10_000,
    seed: o.Seed = 0,
    weight: Annotated[
        str | None, o.column("Column of query weights, or with --by of task weights.", o.COLUMNS)
    ] = None,
    cluster: o.Cluster = [],
    **options: Any,
) -> None:
    """Rank runs, with intervals of ranks and groups of ties.

    Runs that share a letter cannot be told apart; "a" is a group with the best run. Markdown and
    LaTeX have one row per run and one column per metric.

    For example:
      polars-rank leaderboard log.parquet -m "ndcg@10 ap"
      polars-rank leaderboard log.parquet -m ndcg@10 --by country -o table.tex
    """
    source = Source.of({**locals(), **options})
    data = source.read(by=by, kept={"weight": weight, "cluster": cluster}, paired=True)
    result = board_of(
        data, population=population, confidence=confidence, n_resamples=n_resamples, seed=seed,
        weight=weight, cluster=cluster or None,
    )  # fmt: skip
    put(
        result, **o.output_options(options), texts={"markdown": _markdown, "latex": _latex}
    )  # fmt: skip


def board_of(data: PerQuery, **options: Any) -> pl.LazyFrame:
    """Return the leaderboard of each metric."""
    result: pl.LazyFrame = leaderboards.leaderboard(
        data.table, data.metrics, run=str(data.run), by=data.by or None, query=data.query,
        **options, **data.counted,
    )  # fmt: skip
    return result


def _markdown(board: pl.DataFrame) -> str:
    names, rows = _cells(
        board, _texts.markdown, lambda text: f"**{text}**", lambda text: f"<sup>{text}</sup>"
    )
    text = markdown_table(names, [False, *[True] * (len(names) - 1)], rows)
    return f"{text}\n{_note(board)}\n"


def _latex(board: pl.DataFrame) -> str:
    names, rows = _cells(
        board,
        _texts.latex,
        lambda text: f"\\textbf{{{text}}}",
        lambda text: f"\\textsuperscript{{{text}}}",
    )
    # Left-aligned, so that the decimal points are below each other whatever the letters are.
    text = latex_table(names, [False] * len(names), rows)
    return f"{text}% {_note(board)}\n"


def _cells(
    board: pl.DataFrame,
    text: Callable[[str], str],
    bold: Callable[[str], str],
    superscript: Callable[[str], str],
) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns, and a row per run in the order of the first metric."""
    run = board.columns[1]
    metrics = board.select("metric", "direction").unique(maintain_order=True)
    titles = [text(metric) + direction_in_title(metric, each) for metric, each in metrics.rows()]
    cells: dict[Any, list[str]] = {}
    for row in board.iter_rows(named=True):
        mean = _mean(row["mean"])
        mean = bold(mean) if row["rank"] == 1 else mean
        letters = superscript(row["letters"]) if row["letters"] else ""
        cells.setdefault(row[run], []).append(mean + letters)
    rows = [
        [text("null" if name is None else str(name)), *of_run] for name, of_run in cells.items()
    ]
    return [text(run), *titles], rows


def _mean(mean: float) -> str:
    is_small = 0 < abs(mean) < _SMALL
    return f"{mean:.{_DECIMALS}g}" if is_small else f"{mean:.{_DECIMALS}f}"


def _note(board: pl.DataFrame) -> str:
    """Return the caption of a table."""
    if not board.height:
        return "There are no runs."
    if board.get_column("letters").null_count():
        return "Best first. There are too few tasks to tell runs apart."
    level = board.get_column("confidence")[0]
    number = {*board.get_column("queries" if "queries" in board.columns else "tasks").to_list()}
    what = "queries" if "queries" in board.columns else "tasks"
    of = f" on {min(number):,} {what}" if len(number) == 1 else ""
    return (
        f"Means{of}; best in bold. Runs that share no letter differ significantly "
        f"(simultaneous {100 * level:g}% intervals of all pairs)."
    )
