"""Tables as text: for terminals of any width, pipes and Markdown."""

from __future__ import annotations

import math
import pydoc
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
from rich.cells import cell_len, set_cell_size

from polars_rank import _texts
from polars_rank._texts import displayed
from polars_rank.errors import number_of

if TYPE_CHECKING:
    from polars_rank.stats.results import ResultColumn

#: Minimum width of a shortened or folded column of text.
_MIN_WIDTH = 12
#: Columns that are never hidden, in addition to the first two.
_NEVER_HIDDEN = {"verdict", "reason", "method", "rank", "ideal_rank", "relevant", "hits"}
#: Floats below or above these magnitudes are written with an exponent.
_SMALL, _LARGE = 1e-3, 1e9
#: Decimals of numbers, and maximum number of decimals for the bounds of a narrow interval.
_DECIMALS, _MAX_DECIMALS = 4, 9
#: Smaller p-values are written as "< 0.001".
_MIN_PROBABILITY = 0.001


@cache
def _lists() -> list[dict[str, ResultColumn]]:
    """Return the columns of the results of statistics by name, which are slow to import."""
    from polars_rank.stats.comparison import COMPARISON  # noqa: PLC0415
    from polars_rank.stats.leaderboards import LEADERBOARD  # noqa: PLC0415
    from polars_rank.stats.planning import POWER  # noqa: PLC0415
    from polars_rank.stats.summary import SUMMARY  # noqa: PLC0415

    lists = (POWER, SUMMARY, LEADERBOARD, COMPARISON)
    return [{each.name: each for each in columns} for columns in lists]


@cache
def _results() -> dict[str, ResultColumn]:
    return {name: each for columns in _lists() for name, each in columns.items()}


@cache
def _bounds() -> dict[str, str]:
    """Return columns of lower bounds, and of the upper ones with which they are one column."""
    return dict(each.bounds for each in _results().values() if each.bounds is not None)


@dataclass(frozen=True)
class _Column:
    """A column with its cells as text."""

    name: str
    cells: list[str]
    is_number: bool

    @cached_property
    def width(self) -> int:
        return max(map(cell_len, [self.name, *self.cells]))

    def shortened(self, width: int) -> _Column:
        """Return the column with cells that are cut off at a width."""
        cells = [
            cell if cell_len(cell) <= width else set_cell_size(cell, width - 1) + "…"
            for cell in self.cells
        ]
        return _Column(self.name, cells, self.is_number)

    @property
    def min_width(self) -> int:
        """The width to which the column can be shortened; numbers never are."""
        return (
            self.width if self.is_number else min(self.width, max(_MIN_WIDTH, cell_len(self.name)))
        )

    def lines(self) -> list[str]:
        """Return the name and the cells, padded to the same width; numbers are right-aligned."""
        width = self.width

        def padded(cell: str) -> str:
            space = " " * (width - cell_len(cell))
            return space + cell if self.is_number else cell + space

        return [*map(padded, [self.name, *self.cells])]


def on_terminal(
    table: pl.DataFrame, *, wide: bool = False, folded: bool = False, paged: bool = False,
    minor: Collection[str] = (),
) -> None:  # fmt: skip
    """Show a table, one line per row.

    If the terminal is too narrow, columns are hidden and text is shortened, or folded, unless
    `wide` is true. `minor` are columns that only a wide table has.
    """
    size = shutil.get_terminal_size()
    columns, shown, last_line = _parts(table, minor, wide=wide)
    if folded and not wide and _width(shown) > size.columns:
        text = _folded(shown, size.columns)
    else:
        shown = shown if wide else _fitting(shown, size.columns)
        text = _aligned(shown)
    text += last_line
    if hidden := len(columns) - len(shown):
        text += f"\n{number_of(hidden, 'column')} hidden; use --wide to show all columns.\n"
    if paged and text.count("\n") >= size.lines:
        pydoc.pager(text)
    else:
        print(text, end="")  # noqa: T201


def plain(table: pl.DataFrame, *, wide: bool = False, minor: Collection[str] = ()) -> str:
    """Return a table as text with aligned columns, for pipes and files."""
    _, shown, last_line = _parts(table, minor, wide=wide)
    return _aligned(shown) + last_line


def _parts(
    table: pl.DataFrame, minor: Collection[str], *, wide: bool
) -> tuple[list[_Column], list[_Column], str]:
    """Return all columns, those that are shown, and a last line.

    Without --wide, rules that pass are only counted, and minor columns of results are left out.
    """
    if wide:
        return _columns(table), _columns(table), ""
    last_line = ""
    if {"rule", "verdict"} <= {*table.columns}:
        others = table.filter(pl.col("verdict") != "pass")
        last_line = f"{table.height - others.height} pass\n" if others.height < table.height else ""
        if last_line and others.is_empty():
            return [], [], last_line
        table = others
    columns, names, hidden = _columns(table), {*table.columns}, {*minor}
    closest = max(_lists(), key=lambda each: len(names & {*each}))
    if {"metric", "run"} < names and len(names & {*closest}) > 1:
        hidden |= {name for name in names & {*closest} if closest[name].is_minor}
    if {"difference", "queries", "comparisons"} < names and table.height:
        last_line = _of_comparison(table)
    if "difference" in names and "baseline" in names and table["baseline"].n_unique() < 2:
        hidden.add("baseline")
    titles = {_title(name) for name in hidden}
    return columns, [each for each in columns if each.name not in titles], last_line


def _of_comparison(table: pl.DataFrame) -> str:
    """Return the line below a comparison: its queries, and for what its numbers are corrected."""
    numbers = sorted({*table["queries"]})
    queries = " to ".join(f"{each:,}" for each in dict.fromkeys((numbers[0], numbers[-1])))
    comparisons = max(table["comparisons"])
    corrected = "not corrected"
    if comparisons > 1:
        corrected = f"corrected for {comparisons:,} comparisons"
        corrected += " in each group, and of slices" if comparisons < table.height else ""
    return f"{queries} queries; intervals and p-values are {corrected}\n"


def _fitting(columns: Sequence[_Column], width: int) -> list[_Column]:
    """Return the first columns that fit, with text that is shortened; details are hidden first."""
    results, shown = _results(), [*columns]
    hideable = [each for each in columns[2:] if each.name not in _NEVER_HIDDEN]
    details = [each for each in hideable if each.name in results and results[each.name].is_detail]
    details += [each for each in columns[-1:] if each.name == "method"]
    others = [each for each in hideable if each not in details]
    for each in details[::-1]:
        if _width(shown) > width:
            shown.remove(each)
    for each in others[::-1]:
        if sum(column.min_width + 2 for column in shown) - 2 > width:
            shown.remove(each)
    while _width(shown) > width:
        place = max(range(len(shown)), key=lambda i: shown[i].width - shown[i].min_width)
        if shown[place].width == shown[place].min_width:
            break
        excess = min(_width(shown) - width, shown[place].width - shown[place].min_width)
        shown[place] = shown[place].shortened(shown[place].width - excess)
    return shown


def markdown(table: pl.DataFrame) -> str:
    """Return a table in GitHub-flavored Markdown."""
    columns, text = _columns(table), _texts.markdown
    rows = [[*map(text, row)] for row in _rows(columns)]
    names = [text(each.name) for each in columns]
    return markdown_table(names, [each.is_number for each in columns], rows)


def markdown_table(
    names: Sequence[str], are_numbers: Sequence[bool], rows: Sequence[Sequence[str]]
) -> str:
    """Return a table of cells in Markdown; numbers are right-aligned."""
    rules = ["---:" if is_number else "---" for is_number in are_numbers]
    return "".join(f"| {' | '.join(line)} |\n" for line in (names, rules, *rows))


def _width(columns: Sequence[_Column]) -> int:
    return sum(column.width for column in columns) + 2 * (len(columns) - 1)


def _aligned(columns: Sequence[_Column]) -> str:
    lines = zip(*(column.lines() for column in columns), strict=True)
    return "".join("  ".join(line).rstrip() + "\n" for line in lines)


def _rows(columns: Sequence[_Column]) -> list[tuple[str, ...]]:
    return [*zip(*(column.cells for column in columns), strict=True)]


def _folded(columns: Sequence[_Column], width: int) -> str:
    """Return a table with folded text."""
    # The imports are slow, and only needed in a terminal.
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(width=width, highlight=False)
    drawn = Table(box=box.SIMPLE_HEAD)
    for column in columns:
        drawn.add_column(
            Text(column.name), justify="right" if column.is_number else "left", overflow="fold",
            min_width=column.min_width,
        )  # fmt: skip
    for row in _rows(columns):
        drawn.add_row(*map(Text, row))
    with console.capture() as capture:
        console.print(drawn)
    return capture.get()


def _columns(table: pl.DataFrame) -> list[_Column]:
    """Return the columns as text; `low` and `high` become one column."""
    columns = []
    names, results, bounds = table.columns, _results(), _bounds()
    for place, name in enumerate(names):
        values = table.get_column(name).to_list()
        if bounds.get(name) in names[place + 1 : place + 2]:
            highs = table.get_column(bounds[name]).to_list()
            is_share = name in results and results[name].format == "percent"
            texts = _intervals(values, highs, is_share=is_share)
            columns.append(_Column(_title(name), texts, is_number=True))
        elif bounds.get(names[place - 1] if place else "") != name:
            if name == "value" and "verdict" in names:  # a count or a mean
                values = [
                    int(value) if isinstance(value, float) and value % 1 == 0 else value
                    for value in values
                ]
            cells = [_cell(name, value) for value in values]
            columns.append(_Column(displayed(name), cells, table.dtypes[place].is_numeric()))
    return columns


def _title(name: str) -> str:
    """Return the title of a column: that of an interval is made of its lower bound's name."""
    if name not in _bounds():
        return displayed(name)
    return f"{name.removesuffix('low').replace('_', ' ')}[low, high]"


def _intervals(lows: Sequence[Any], highs: Sequence[Any], *, is_share: bool) -> list[str]:
    """Return intervals as text, with the decimals of means, or more if the narrowest needs them."""
    pairs = [
        None if low is None or high is None else (low, high)
        for low, high in zip(lows, highs, strict=True)
    ]
    known = (pair for pair in pairs if pair)
    widths = [high - low for low, high in known if low < high < math.inf and low > -math.inf]
    needed = 1 - math.floor(math.log10(min(widths))) if widths else 0
    decimals = min(max(_DECIMALS, needed), _MAX_DECIMALS)

    def bound(value: float) -> str:
        if is_share:
            return f"{value:+.1%}"
        # A bound that is not 0 must not look like 0, because its sign shows significance.
        vanishes = value != 0 and float(f"{value:.{decimals}f}") == 0
        return f"{value:.3g}" if vanishes or abs(value) >= _LARGE else f"{value:.{decimals}f}"

    return [f"[{bound(pair[0])}, {bound(pair[1])}]" if pair else "" for pair in pairs]


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
    results = _results()
    form = results[name].format if name in results else "number"
    if form == "p_value" and value < _MIN_PROBABILITY:
        return f"< {_MIN_PROBABILITY}"
    sign = "+" if form in ("signed", "percent") and value != 0 else ""
    if form == "percent":
        return f"{value:{sign}.1%}"
    if value == 0 or _SMALL <= abs(value) < _LARGE:
        return f"{value:{sign}.{_DECIMALS}f}"
    return f"{value:{sign}.3g}"
