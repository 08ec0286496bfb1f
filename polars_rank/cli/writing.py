"""Results of commands, as tables in a terminal or in a format for pipes and files."""

from __future__ import annotations

import json
import shutil
import sys
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl
import polars.selectors as cs

from polars_rank.cli.messages import printing, say, show
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import collected
from polars_rank.io.outputs import new_file, temporary_folder
from polars_rank.reporting.csv_links import header, text_columns, without_formulas

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

Format: TypeAlias = Literal["table", "csv", "json", "ndjson", "parquet", "markdown"]

_ENDINGS: dict[str, Format] = {
    "": "table", ".txt": "table", ".csv": "csv", ".json": "json", ".ndjson": "ndjson",
    ".jsonl": "ndjson", ".parquet": "parquet", ".md": "markdown",
}  # fmt: skip
#: JSON has no infinite numbers; JavaScript and Python convert these texts to them.
_INFINITE = {float("inf"): "Infinity", float("-inf"): "-Infinity"}


def choose(form: Format | None, output: Path | None) -> Format:
    """Return the requested format, or the format for the ending of the output file."""
    if form == "parquet" and output is None and sys.stdout.isatty():
        raise ArgumentError("a terminal cannot show Parquet; pipe it, or use --output")
    if form is not None or output is None:
        return form or "table"
    ending = output.suffix.lower()
    if ending not in _ENDINGS:
        known = ", ".join(filter(None, _ENDINGS))
        raise ArgumentError(f"--output must end in {known}, or add --format; found '{output}'")
    return _ENDINGS[ending]


def put(
    result: pl.LazyFrame, form: Format, given: Mapping[str, Any],
    texts: Mapping[Format, Callable[[pl.DataFrame], str]],
) -> None:  # fmt: skip
    """Write a result to a file, or show it; `texts` has the functions for formats of text.

    In CSV, text that spreadsheets run as a formula gets an apostrophe in front of it, unless the
    option `keep_formulas` is given.
    """
    output, keep_formulas = given.get("output"), given.get("keep_formulas", False)
    if output is not None and str(output) != "-":
        overwrite = given.get("overwrite", False)
        with new_file(output, overwrite=overwrite, inputs=[result]) as part:
            if form in texts:
                part.write_text(texts[form](collected(result)) + "\n", "utf-8", newline="\n")
            else:
                _write(result, form, part, keep_formulas=keep_formulas)
        say(f"Wrote {output}")
    elif form in texts:
        show(texts[form](collected(result)))
    else:
        # Written to a file first, so that a failed command prints nothing.
        with temporary_folder() as folder:
            _write(result, form, folder / "out", keep_formulas=keep_formulas)
            with (folder / "out").open("rb") as file, printing():
                sys.stdout.flush()  # so that earlier output comes first
                shutil.copyfileobj(file, sys.stdout.buffer)
                sys.stdout.flush()


def json_rows(table: pl.DataFrame) -> str:
    """Return rows as a JSON array."""
    return "[" + ",\n".join(_lines(table).get_column("line")) + "]"


def _write(result: pl.LazyFrame, form: Format, path: Path, *, keep_formulas: bool) -> None:
    with path.open("wb") as file:
        if form == "parquet":
            result.sink_parquet(file, engine="streaming")
        elif form == "csv":
            rows = result.with_columns(text_columns())
            if not keep_formulas:
                file.write(header(result.collect_schema().names()).encode())
                rows = rows.with_columns(without_formulas())
            rows.sink_csv(file, engine="streaming", include_header=keep_formulas)
        else:
            lines = result.map_batches(_lines, schema={"line": pl.String}, streamable=True)
            lines.sink_csv(file, engine="streaming", include_header=False, quote_style="never")


def _lines(table: pl.DataFrame) -> pl.DataFrame:
    """Return each row as a JSON object, with infinite numbers as text."""
    # Polars would write null for infinite numbers.
    lines = table.write_ndjson().split("\n")[:-1]
    infinite = table.select(cs.float().is_infinite())
    for name in infinite.columns:
        for index in infinite.get_column(name).arg_true():
            row = json.loads(lines[index])
            row[name] = _INFINITE[table.get_column(name)[index]]
            lines[index] = json.dumps(row, ensure_ascii=False)
    return pl.DataFrame({"line": lines}, {"line": pl.String})
