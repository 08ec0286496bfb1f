"""Tables as text: on a terminal of any width, in a pipe, in Markdown and in LaTeX."""

from __future__ import annotations

from itertools import starmap
from typing import TYPE_CHECKING, Any

from rich.cells import cell_len

if TYPE_CHECKING:
    from collections.abc import Iterator

    import polars as pl

#: Names of columns and cells of text may be broken, but not into narrower pieces.
_LEAST_WIDTH = 12
#: Wider than any terminal.
_WIDE = 10_000
#: More rows than this are not looked at one by one; to draw them takes long.
_MANY_ROWS = 2_000
#: Floats outside of these have an exponent.
_SMALL, _LARGE = 1e-4, 1e9
#: A probability is above 0, also where a float is too small for it.
_PROBABILITIES, _TINY = ("p_value", "p_corrected"), "<0.000001"

#: What would move the cursor or end a line is shown, not done.
_SHOWN = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160), 0x2028, 0x2029)}
_SHOWN |= {ord("\n"): "\\n", ord("\t"): "\\t", ord("\r"): "\\r"}

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    }
)
_MARKDOWN = str.maketrans({"|": r"\|", "\\": r"\\", "<": "&lt;", "*": r"\*", "`": r"\`"})


def on_terminal(table: pl.DataFrame) -> None:
    """Show a table as wide as the terminal; one that does not fit, row below row."""
    if table.height > _MANY_ROWS:
        print(plain(table), end="")  # noqa: T201
        return
    # Without a terminal, the import would take a good part of the time of a command.
    from rich import box  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415
    from rich.measure import Measurement  # noqa: PLC0415
    from rich.rule import Rule  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    console = Console(highlight=False)
    drawn = Table(box=box.SIMPLE_HEAD)
    columns = zip(*_cells(table), strict=True) if table.height else [()] * table.width
    for name, right, cells in zip(table.columns, _numeric(table), columns, strict=True):
        widest = max((cell_len(cell) for cell in cells), default=0)
        drawn.add_column(
            Text(_shown(name)),
            justify="right" if right else "left",
            # A number is never broken.
            min_width=max(
                widest if right else min(widest, _LEAST_WIDTH), min(cell_len(name), _LEAST_WIDTH)
            ),
            overflow="fold",
        )
    for row in _cells(table):
        drawn.add_row(*map(Text, row))
    options = console.options.update(max_width=_WIDE)
    if Measurement.get(console, options, drawn).minimum <= console.width:
        console.print(drawn)
        return
    for index, row in enumerate(_cells(table), start=1):
        grid = Table.grid(padding=(0, 2, 0, 0))
        grid.add_column(overflow="fold", ratio=1)
        grid.add_column(overflow="fold", ratio=2)
        for name, cell in zip(table.columns, row, strict=True):
            grid.add_row(Text(_shown(name)), Text(cell))
        console.print(Rule(f"{index} of {table.height}", align="left"), grid)


def plain(table: pl.DataFrame) -> str:
    """Return a table of aligned columns, numbers to the right."""
    lines = [[*map(_shown, table.columns)], *_cells(table)]
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]

    def padded(cell: str, width: int, right: bool) -> str:  # noqa: FBT001
        space = " " * (width - cell_len(cell))
        return space + cell if right else cell + space

    return "".join(
        "  ".join(starmap(padded, zip(line, widths, _numeric(table), strict=True))).rstrip() + "\n"
        for line in lines
    )


def markdown(table: pl.DataFrame) -> str:
    """Return a table in the Markdown of GitHub."""
    rules = ["---:" if right else "---" for right in _numeric(table)]
    names = [_shown(name).translate(_MARKDOWN) for name in table.columns]
    rows = ([cell.translate(_MARKDOWN) for cell in row] for row in _cells(table))
    return "".join(f"| {' | '.join(line)} |\n" for line in (names, rules, *rows))


def latex(table: pl.DataFrame) -> str:
    """Return a table in LaTeX, with the rules of its package booktabs."""
    columns = "".join("r" if right else "l" for right in _numeric(table))
    names = [_shown(name).translate(_LATEX) for name in table.columns]
    rows = ([cell.translate(_LATEX) for cell in row] for row in _cells(table))
    head, *body = (" & ".join(line) + " \\\\" for line in (names, *rows))
    return "\n".join([
        "% \\usepackage{booktabs}",
        f"\\begin{{tabular}}{{{columns}}}",
        *("\\toprule", head, "\\midrule", *body, "\\bottomrule"),
        "\\end{tabular}\n",
    ])  # fmt: skip


def _numeric(table: pl.DataFrame) -> list[bool]:
    return [dtype.is_numeric() for dtype in table.dtypes]


def _cells(table: pl.DataFrame) -> Iterator[list[str]]:
    above_zero = [name in _PROBABILITIES for name in table.columns]
    for row in table.iter_rows():
        cells = zip(row, above_zero, strict=True)
        yield [_TINY if above and value == 0 else _cell(value) for value, above in cells]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        plainly = value == 0 or _SMALL <= abs(value) < _LARGE
        return f"{value:.6f}" if plainly else f"{value:.3g}"
    if isinstance(value, list):
        return "; ".join(map(_cell, value))
    if isinstance(value, dict):
        return ", ".join(f"{name} = {_cell(each)}" for name, each in value.items())
    return _shown(str(value))


def _shown(text: str) -> str:
    return text.translate(_SHOWN)
