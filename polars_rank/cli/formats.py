"""What the command writes: tables for eyes, CSV, JSON and Parquet, on the screen or to a file."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Table

from polars_rank import progress as bars
from polars_rank.errors import ArgumentError
from polars_rank.logs.files import new_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import polars as pl

Format = Literal["table", "csv", "json", "parquet"]

_FORMATS: dict[str, Format] = {
    "": "table",
    ".txt": "table",
    ".csv": "csv",
    ".json": "json",
    ".parquet": "parquet",
}


def choose(form: Format | None, output: Path | None) -> Format:
    """Return the format that was asked for, or that the name of the output says."""
    if form == "parquet" and output is None:
        message = "the format parquet needs a file; name it with --output"
        raise ArgumentError(message)
    if form is not None or output is None:
        return form or "table"
    ending = output.suffix.lower()
    if ending not in _FORMATS:
        known = ", ".join(filter(None, _FORMATS))
        message = f"the name of --output must end in {known}, or give --format; found '{output}'"
        raise ArgumentError(message)
    return _FORMATS[ending]


def require_parquet(output: Path) -> None:
    """Raise `ArgumentError` if the name of a Parquet file says that it is another."""
    if output.suffix.lower() not in ("", ".parquet", ".pq"):
        message = f"the name of OUT must end in .parquet, as that is written; found '{output}'"
        raise ArgumentError(message)


def put(result: pl.LazyFrame, shape: Format, output: Path | None, *, force: bool) -> None:
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
