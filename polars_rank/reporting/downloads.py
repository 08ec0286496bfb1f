"""Tables of the page as CSV files that links contain."""

from __future__ import annotations

from base64 import b64encode

import polars as pl

from polars_rank.reporting.formats import text


def csv_link(table: pl.DataFrame) -> str:
    """Return the address of a table as CSV, with nested and binary values as text.

    Examples
    --------
    >>> from polars_rank.reporting.downloads import csv_link
    >>> csv_link(pl.DataFrame({"a": [1]}))
    'data:text/csv;charset=utf-8;base64,YQoxCg=='
    """
    columns = [
        pl.Series(
            column.name, [None if value is None else text(value) for value in column], pl.String
        )
        if column.dtype.is_nested() or column.dtype in (pl.Binary, pl.Object)
        else column
        for column in table
    ]
    content = pl.DataFrame(columns).write_csv().encode()
    return f"data:text/csv;charset=utf-8;base64,{b64encode(content).decode()}"
