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

if TYPE_CHECKING:
    import polars as pl
    from rich.console import Console

#: Minimum width of a folded column of text.
_MIN_WIDTH = 12
#: A width above that of any terminal.
_UNLIMITED_WIDTH = 10_000
#: Tables with more rows are not folded, which would take long.
_MAX_FOLDED_ROWS = 2_000
#: Number of columns at either end of a table that are never hidden; Polars prints them, too.
_SHOWN_AT_ENDS = 4
#: Floats below or above these magnitudes are written with an exponent.
_SMALL, _LARGE = 1e-3, 1e9
#: Decimals of numbers, and maximum number of decimals for the bounds of a narrow interval.
_DECIMALS, _MAX_DECIMALS = 4, 9
#: Columns whose numbers have another format than four decimals.
_PROBABILITIES = ("p_value", "p_corrected")
_CHANGES = ("difference", "contribution", "change", "lost_by_order", "lost_by_retrieval")
_SHARES = ("relative_difference",)
#: Short titles of columns whose names are longer than their cells.
_TITLES = {
    "difference": "diff", "relative_difference": "relative", "p_corrected": "p_corr",
    "baseline_mean": "baseline", "baseline_value": "baseline",
    "low_corrected": "[low, high] corr",
    "relative_low": "relative [low, high]", "effect_low": "effect [low, high]",
}  # fmt: skip
#: Columns of bounds that are shown as one column.
_INTERVALS = {
    "low": "high", "low_corrected": "high_corrected", "relative_low": "relative_high",
    "effect_low": "effect_high",
}  # fmt: skip
#: Smaller p-values are written as "< 0.001".
_MIN_PROBABILITY = 0.001


@dataclass(frozen=True)
class _Column:
    """A column with its cells as text."""

    name: str
    cells: list[str]
    is_number: bool
    #: Whether the column may be hidden if rows do not fit on a line.
    optional: bool = False

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

    If the terminal is too narrow, columns in the middle are hidden, unless `wide` is true. If the
    table still does not fit, text is folded, and as a last resort each row takes several lines.
    """
    # The import is slow, and only needed in a terminal.
    from rich.console import Console  # noqa: PLC0415

    console = Console(highlight=False)
    columns = _columns(table)
    shown = columns if wide else _fitting(columns, console.width)
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


def _fitting(columns: Sequence[_Column], width: int) -> list[_Column]:
    """Return the columns that fit; optional columns are removed from the last to the first."""
    shown = [*columns]
    optional = [column for column in reversed(columns) if column.optional]
    others = ["queries"]
    if any(column.name == _TITLES["difference"] for column in columns):
        others.append("mean")
    optional += [column for name in others for column in columns if column.name == name]
    for column in optional:
        if _width(shown) <= width:
            break
        shown = [each for each in shown if each is not column]
    return shown


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
    optional_names = _optional(table)
    for place, name in enumerate(names):
        optional = name in optional_names
        values = table.get_column(name).to_list()
        if _INTERVALS.get(name) in names[place + 1 : place + 2]:
            highs = table.get_column(_INTERVALS[name]).to_list()
            title = _TITLES.get(name, "[low, high]")
            texts = (_relative if name == "relative_low" else _intervals)(values, highs)
            columns.append(_Column(title, texts, True, optional))  # noqa: FBT003
        elif _INTERVALS.get(names[place - 1] if place else "") != name:
            if name == "value" and "verdict" in names:  # a count or a mean
                values = [value if value is None or value % 1 else int(value) for value in values]
            cells = [_cell(name, value) for value in values]
            is_number = table.dtypes[place].is_numeric()
            title = _TITLES.get(name, displayed(name))
            columns.append(_Column(title, cells, is_number, optional))
    return columns


def _optional(table: pl.DataFrame) -> set[str]:
    """Return the columns that may be hidden: those in the middle, except for the most important.

    If intervals are corrected for the number of rows, they replace the others: an uncorrected
    interval above 0 beside a corrected p-value above 0.05 would be misread.
    """
    names = table.columns
    optional = {*names[_SHOWN_AT_ENDS : table.width - _SHOWN_AT_ENDS]} - {"difference", "queries"}
    if "p_corrected" in names:
        optional |= {"p_value"}
    if "low_corrected" in names and "low" not in optional:
        lows, corrected = (table.get_column(name).to_list() for name in ("low", "low_corrected"))
        if lows != corrected:
            optional = optional - {"low_corrected"} | {"low"}
    return optional


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
    if name in _PROBABILITIES and value < _MIN_PROBABILITY:
        return f"< {_MIN_PROBABILITY}"
    sign = "+" if name in (*_CHANGES, *_SHARES) and value != 0 else ""
    if name in _SHARES:
        return f"{value:{sign}.1%}"
    if name == "confidence":
        return f"{value:g}"
    if value == 0 or _SMALL <= abs(value) < _LARGE:
        return f"{value:{sign}.{_DECIMALS}f}"
    return f"{value:{sign}.3g}"
