"""Tables as text: for terminals of any width, pipes, Markdown and LaTeX."""

from __future__ import annotations

import math
import pydoc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

from polars_rank import _texts
from polars_rank._texts import displayed
from polars_rank.errors import number_of
from polars_rank.stats.comparison import COMPARISON
from polars_rank.stats.leaderboards import LEADERBOARD
from polars_rank.stats.results import COUNT, OTHER
from polars_rank.stats.summary import SUMMARY

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

#: Minimum width of a folded column of text.
_MIN_WIDTH = 12
#: A width above that of any terminal.
_UNLIMITED_WIDTH = 10_000
#: Tables with more rows are not folded, which would take long.
_MAX_FOLDED_ROWS = 2_000
#: Number of columns at either end of a table that are not hidden, if it is not one of statistics.
_SHOWN_AT_ENDS = 2
#: Floats below or above these magnitudes are written with an exponent.
_SMALL, _LARGE = 1e-3, 1e9
#: Decimals of numbers, and maximum number of decimals for the bounds of a narrow interval.
_DECIMALS, _MAX_DECIMALS = 4, 9
#: The columns of statistics by name.
_RESULTS = {each.name: each for each in (*SUMMARY, *LEADERBOARD, *COMPARISON)}
#: Columns of lower bounds, and of the upper bounds with which they are shown as one column.
_INTERVALS = dict(each.bounds for each in _RESULTS.values() if each.bounds is not None)
#: Smaller p-values are written as "< 0.001".
_MIN_PROBABILITY = 0.001


@dataclass(frozen=True)
class _Column:
    """A column with its cells as text."""

    name: str
    cells: list[str]
    is_number: bool

    @cached_property
    def width(self) -> int:
        return max(map(cell_len, [self.name, *self.cells]))

    def lines(self) -> list[str]:
        """Return the name and the cells, padded to the same width; numbers are right-aligned."""
        width = self.width

        def padded(cell: str) -> str:
            space = " " * (width - cell_len(cell))
            return space + cell if self.is_number else cell + space

        return [*map(padded, [self.name, *self.cells])]


def on_terminal(
    table: pl.DataFrame, *, wide: bool = True, note: str | None = None, paged: bool = False
) -> None:
    """Show a table, one line per row if it fits.

    If the terminal is too narrow, columns are hidden, unless `wide` is true. If the table still
    does not fit, text is folded, and as a last resort each row takes several lines.
    """
    # The import is slow, and only needed in a terminal.
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False)
    columns = _columns(table)
    shown = [*columns]
    for name in () if wide else _less_important(table):
        if _width(shown) > console.width:
            title = _interval(name) if name in _INTERVALS else displayed(name)
            shown = [column for column in shown if column.name != title]
    if _width(shown) <= console.width or table.height > _MAX_FOLDED_ROWS:
        text = _aligned(shown)
    else:
        text = _folded(shown, console)
    if hidden := len(columns) - len(shown):
        text += f"\n{number_of(hidden, 'column')} hidden; use --wide to show all columns.\n"
    if note is not None:
        text += f"\n{note}\n"
    if paged and text.count("\n") >= console.height:
        pydoc.pager(text)
    else:
        print(text, end="")  # noqa: T201


def plain(table: pl.DataFrame) -> str:
    """Return a table as text with aligned columns."""
    return _aligned(_columns(table))


def markdown(table: pl.DataFrame) -> str:
    """Return a table in GitHub-flavored Markdown."""
    return markdown_table(*_cells(table, _texts.markdown))


def markdown_table(
    names: Sequence[str], are_numbers: Sequence[bool], rows: Sequence[Sequence[str]]
) -> str:
    """Return a table of cells in Markdown; numbers are right-aligned."""
    rules = ["---:" if is_number else "---" for is_number in are_numbers]
    return "".join(f"| {' | '.join(line)} |\n" for line in (names, rules, *rows))


def latex(table: pl.DataFrame) -> str:
    """Return a table in LaTeX, with rules of the package booktabs."""
    return latex_table(*_cells(table, _texts.latex))


def _cells(
    table: pl.DataFrame, text: Callable[[str], str]
) -> tuple[list[str], list[bool], list[list[str]]]:
    """Return the names of columns, whether they are numbers, and the cells of the rows."""
    columns = _columns(table)
    rows = [[*map(text, row)] for row in _rows(columns)]
    return [text(each.name) for each in columns], [each.is_number for each in columns], rows


def latex_table(
    names: Sequence[str], are_numbers: Sequence[bool], rows: Sequence[Sequence[str]]
) -> str:
    """Return a table of cells in LaTeX; numbers are right-aligned."""
    alignment = "".join("r" if is_number else "l" for is_number in are_numbers)
    head, *body = (" & ".join(line) + " \\\\" for line in (names, *rows))
    return "\n".join([
        "% \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{alignment}}}",
        *("\\toprule", head, "\\midrule", *body, "\\bottomrule"),
        "\\end{tabular}\n",
    ])  # fmt: skip


def _less_important(table: pl.DataFrame) -> list[str]:
    """Return the columns that may be hidden, the least important first."""
    names = table.columns
    if not {"metric", "low", "high"} <= {*names}:
        return names[_SHOWN_AT_ENDS : table.width - _SHOWN_AT_ENDS][::-1]
    listed = COMPARISON if "difference" in names else (*LEADERBOARD, *SUMMARY)
    results = {each.name: each for each in listed}
    first = min(place for place, name in enumerate(names) if name in results)
    details, counts, others = [], [], []
    for name in names[first:]:
        each = results.get(name)
        if each is None or each.is_detail or (each.only and each.dtype.is_numeric()):
            details.append(name)
        elif each.kind == COUNT:
            counts.append(name)
        elif each.kind == OTHER and each.dtype.is_numeric():
            others.append(name)
    same = ["baseline"] if "baseline" in names and table["baseline"].n_unique() < 2 else []
    return [*same, *details[::-1], *counts[::-1], *others]


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + 2 * (len(columns) - 1)


def _aligned(columns: Sequence[_Column]) -> str:
    lines = zip(*(column.lines() for column in columns), strict=True)
    return "".join("  ".join(line).rstrip() + "\n" for line in lines)


def _rows(columns: Sequence[_Column]) -> list[tuple[str, ...]]:
    return [*zip(*(column.cells for column in columns), strict=True)]


def _folded(columns: Sequence[_Column], console: Console) -> str:
    """Return a table with folded text; if it is still too wide, return several lines per row."""
    from rich import box  # noqa: PLC0415
    from rich.measure import Measurement  # noqa: PLC0415
    from rich.rule import Rule  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    drawn = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        # Numbers are never folded.
        min_width = column.width if column.is_number else min(column.width, _MIN_WIDTH)
        drawn.add_column(
            Text(column.name),
            justify="right" if column.is_number else "left",
            min_width=min_width,
            overflow="fold",
        )
    rows = _rows(columns)
    for row in rows:
        drawn.add_row(*map(Text, row))
    options = console.options.update(max_width=_UNLIMITED_WIDTH)
    with console.capture() as capture:
        if Measurement.get(console, options, drawn).minimum <= console.width:
            console.print(drawn)
        else:
            for number, row in enumerate(rows, start=1):
                grid = Table.grid(padding=(0, 2, 0, 0))
                grid.add_column(overflow="fold", ratio=1)
                grid.add_column(overflow="fold", ratio=2)
                for column, cell in zip(columns, row, strict=True):
                    grid.add_row(Text(column.name), Text(cell))
                console.print(Rule(f"{number} of {len(rows)}", align="left"), grid)
    return capture.get()


def _columns(table: pl.DataFrame) -> list[_Column]:
    """Return the columns as text; `low` and `high` become one column."""
    columns = []
    names = table.columns
    for place, name in enumerate(names):
        values = table.get_column(name).to_list()
        if _INTERVALS.get(name) in names[place + 1 : place + 2]:
            highs = table.get_column(_INTERVALS[name]).to_list()
            is_share = name in _RESULTS and _RESULTS[name].format == "percent"
            texts = (_relative if is_share else _intervals)(values, highs)
            columns.append(_Column(_interval(name), texts, is_number=True))
        elif _INTERVALS.get(names[place - 1] if place else "") != name:
            if name == "value" and "verdict" in names:  # a count or a mean
                values = [
                    int(value) if isinstance(value, float) and value % 1 == 0 else value
                    for value in values
                ]
            cells = [_cell(name, value) for value in values]
            columns.append(_Column(displayed(name), cells, table.dtypes[place].is_numeric()))
    return columns


def _interval(low: str) -> str:
    """Return the title of an interval, by the column of its lower bound."""
    return f"{low.removesuffix('low').replace('_', ' ')}[low, high]"


def _relative(lows: Sequence[Any], highs: Sequence[Any]) -> list[str]:
    """Return intervals of relative differences as text."""
    return [
        "" if low is None or high is None else f"[{low:+.1%}, {high:+.1%}]"
        for low, high in zip(lows, highs, strict=True)
    ]


def _intervals(lows: Sequence[Any], highs: Sequence[Any]) -> list[str]:
    """Return intervals as text, with the decimals of means, or more if the narrowest needs them."""
    pairs = [*zip(lows, highs, strict=True)]
    known = [(low, high) for low, high in pairs if low is not None and high is not None]
    widths = [high - low for low, high in known if low < high < math.inf and low > -math.inf]
    decimals = _DECIMALS
    if widths:
        needed = 1 - math.floor(math.log10(min(widths)))
        decimals = min(max(decimals, needed), _MAX_DECIMALS)

    def bound(value: float) -> str:
        # A bound that is not 0 must not look like 0, because its sign shows significance.
        vanishes = value != 0 and float(f"{value:.{decimals}f}") == 0
        return f"{value:.3g}" if vanishes or abs(value) >= _LARGE else f"{value:.{decimals}f}"

    return [
        "" if low is None or high is None else f"[{bound(low)}, {bound(high)}]"
        for low, high in pairs
    ]


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return _number(name, value)
    if isinstance(value, list):
        return "; ".join(_cell(name, each) for each in value)
    if isinstance(value, dict):
        return ", ".join(f"{key} = {_cell(name, each)}" for key, each in value.items())
    return displayed(str(value))


def _number(name: str, value: float) -> str:
    form = _RESULTS[name].format if name in _RESULTS else "number"
    if form == "p_value" and value < _MIN_PROBABILITY:
        return f"< {_MIN_PROBABILITY}"
    sign = "+" if form in ("signed", "percent") and value != 0 else ""
    if form == "percent":
        return f"{value:{sign}.1%}"
    if value == 0 or _SMALL <= abs(value) < _LARGE:
        return f"{value:{sign}.{_DECIMALS}f}"
    return f"{value:{sign}.3g}"
