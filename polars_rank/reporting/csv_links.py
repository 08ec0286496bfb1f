"""Tables as CSV: links that contain them, and text that spreadsheets do not run as formulas."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING

import polars as pl
import polars.selectors as cs

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Beginnings of text that spreadsheets run as formulas; the last four are full-width signs.
_FORMULA = r"^[=+@\t\r\n\x00\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}-]"
#: Numbers as text, which may begin with a sign.
_NUMBER = r"^[+-](\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


def csv_link(table: pl.DataFrame) -> str:
    """Return the address of a table as CSV, with nested and binary values as text.

    Text that a spreadsheet would run as a formula gets an apostrophe in front of it, as OWASP
    recommends against CSV injection.

    Examples
    --------
    >>> from base64 import b64decode
    >>> from polars_rank.reporting.csv_links import csv_link
    >>> table = pl.DataFrame({"doc": ["=1+1", "-0.5"], "score": [-1, -2]})
    >>> csv_link(table)
    'data:text/csv;charset=utf-8;base64,ZG9jLHNjb3JlCic9MSsxLC0xCi0wLjUsLTIK'
    >>> print(b64decode("ZG9jLHNjb3JlCic9MSsxLC0xCi0wLjUsLTIK").decode(), end="")
    doc,score
    '=1+1,-1
    -0.5,-2
    """
    rows = table.with_columns(text_columns()).with_columns(without_formulas())
    content = header(table.columns) + rows.write_csv(include_header=False)
    return f"data:text/csv;charset=utf-8;base64,{b64encode(content.encode()).decode()}"


def text_columns() -> list[pl.Expr]:
    """Return the columns that CSV has as text: categories, joined strings, and JSON of others."""
    lists, names = cs.by_dtype(pl.List(pl.String)), cs.categorical() | cs.enum()
    others = (cs.nested() | cs.binary()) - lists
    as_json = others.map_batches(_json_values, pl.String, is_elementwise=True)
    return [lists.list.join("; "), names.cast(pl.String), as_json]


def _json_values(column: pl.Series) -> pl.Series:
    rows = [None if value is None else json.dumps(value, default=str) for value in column.to_list()]
    return pl.Series(column.name, rows, pl.String)


def header(names: Sequence[str]) -> str:
    """Return the header of a CSV file, without formulas."""
    row = pl.DataFrame([[name] for name in names], orient="col")
    return row.with_columns(without_formulas()).write_csv(include_header=False)


def without_formulas() -> pl.Expr:
    """Return the columns of strings with an apostrophe in front of formulas."""
    cell = pl.col(pl.String)
    is_formula = cell.str.contains(_FORMULA) & ~cell.str.contains(_NUMBER)
    return pl.when(is_formula).then(pl.lit("'") + cell).otherwise(cell).name.keep()
