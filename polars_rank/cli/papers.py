"""The command `leaderboard`, and leaderboards as tables for papers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polars_rank import _texts
from polars_rank.cli.printing import latex_table, markdown_table
from polars_rank.metrics.names import direction_note
from polars_rank.stats import leaderboards
from polars_rank.stats._arrays import numpy
from polars_rank.stats.letters import letters

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import polars as pl

    from polars_rank.cli.calls import Call
    from polars_rank.stats.leaderboards import Board

#: Decimals of means in a table for papers; smaller means have as many significant digits.
_DECIMALS, _SMALL = 3, 0.01


def leaderboard(call: Call) -> None:
    """Rank runs; Markdown and LaTeX have one row per run and one column per metric."""
    table, arguments = call.values("leaderboard")

    def latex(board: pl.DataFrame) -> str:
        options = call.all_arguments("leaderboard", **arguments)
        del options["details"]
        boards = leaderboards.ranked(table, **options)[1]()
        letters_of = {each.metric: _letters(each) for each in boards}
        return _latex(board, letters_of, options["confidence"])

    call.put(call.call(table, **arguments), texts={"markdown": _markdown, "latex": latex})


def _letters(board: Board) -> dict[Any, str]:
    """Return the letters of each run; empty if it is unknown which runs differ."""
    unknown = numpy().isnan(board.rank_low).any()
    return {} if unknown else dict(zip(board.runs, letters(board.differ), strict=True))


def _markdown(board: pl.DataFrame) -> str:
    names, rows = _cells(board, _texts.markdown, lambda text: f"**{text}**")
    text = markdown_table(names, [False, *[True] * (len(names) - 1)], rows)
    return f"{text}\n{_caption(board)}\n"


def _latex(
    board: pl.DataFrame, letters_of: Mapping[str, Mapping[Any, str]], confidence: float
) -> str:
    names, rows = _cells(
        board, _texts.latex, lambda text: f"\\textbf{{{text}}}",
        lambda metric, run: f"\\textsuperscript{{{letters_of[metric][run]}}}"
        if letters_of[metric] else "",
    )  # fmt: skip
    note = (
        f"Runs that share no letter differ significantly (simultaneous {100 * confidence:g}% "
        "intervals of all pairs)."
        if all(letters_of.values())
        else "There are too few queries to tell runs apart."
    )
    # Left-aligned, so that the decimal points are below each other whatever the letters are.
    text = latex_table(names, [False] * len(names), rows)
    return f"{text}% {_caption(board)} {note}\n"


def _cells(
    board: pl.DataFrame,
    text: Callable[[str], str],
    bold: Callable[[str], str],
    mark: Callable[[str, Any], str] = lambda _metric, _run: "",
) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns, and a row per run in the order of the first metric.

    `mark` returns what follows the mean of a metric and run.
    """
    run = board.columns[1]
    metrics = board.get_column("metric").unique(maintain_order=True)
    cells: dict[Any, list[str]] = {}
    for row in board.iter_rows(named=True):
        mean = _mean(row["mean"])
        mean = bold(mean) if row["rank"] == 1 else mean
        cells.setdefault(row[run], []).append(mean + mark(row["metric"], row[run]))
    rows = [
        [text("null" if name is None else str(name)), *of_run] for name, of_run in cells.items()
    ]
    return [text(run), *(text(each) + direction_note(each) for each in metrics)], rows


def _mean(mean: float) -> str:
    is_small = 0 < abs(mean) < _SMALL
    return f"{mean:.{_DECIMALS}g}" if is_small else f"{mean:.{_DECIMALS}f}"


def _caption(board: pl.DataFrame) -> str:
    number = {*board.get_column("queries").to_list()}
    of = f" on {min(number):,} queries" if len(number) == 1 else ""
    return f"Means{of}; best in bold." if board.height else "There are no runs."
