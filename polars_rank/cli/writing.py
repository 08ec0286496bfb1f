"""Results of commands, as tables in a terminal or in a format for pipes and files."""

from __future__ import annotations

import json
import shutil
import sys
from functools import partial
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl
import polars.selectors as cs

from polars_rank.cli.messages import printing, say, show
from polars_rank.cli.printing import markdown, on_terminal, plain
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import collected
from polars_rank.io.outputs import new_file
from polars_rank.io.temporary import temporary_folder
from polars_rank.reporting.csv_links import header, text_columns, without_formulas

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
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
        raise ArgumentError(
            "Parquet cannot be shown in a terminal; pipe it, or write a file with --output"
        )
    if form is not None or output is None:
        return form or "table"
    ending = output.suffix.lower()
    if ending not in _ENDINGS:
        known = ", ".join(filter(None, _ENDINGS))
        raise ArgumentError(
            f"--output must end in {known} unless --format is given; found '{output}'"
        )
    return _ENDINGS[ending]


def require_parquet(output: Path) -> None:
    """Raise `ArgumentError` for a Parquet file with the ending of another format."""
    if output.suffix.lower() not in ("", ".parquet", ".pq"):
        raise ArgumentError(
            f"the output is a Parquet file and must end in .parquet; found '{output}'"
        )


def put(
    result: pl.LazyFrame,
    format: Format | None = None,
    output: Path | None = None,
    *,
    overwrite: bool = False,
    keep_formulas: bool = False,
    wide: bool = False,
    minor: Collection[str] = (),
    texts: Mapping[Format, Callable[[pl.DataFrame], str]] | None = None,
    **how: bool,
) -> None:
    """Write a result to a file, or show it; see `on_terminal` for `wide`, `minor` and `how`.

    `texts` has the text of the table in some formats, if it differs from the default. In CSV, text
    that spreadsheets run as a formula gets an apostrophe in front of it, unless `keep_formulas`.
    """
    form = choose(format, output)
    texts = {
        "table": partial(plain, wide=wide, minor=minor),
        "json": lambda table: "[" + ",\n".join(_lines(table).get_column("line")) + "]\n",
        "markdown": markdown, **(texts or {}),
    }  # fmt: skip
    if output is not None and str(output) != "-":
        with new_file(output, overwrite=overwrite, inputs=[result]) as part:
            _write(result, form, part, texts, keep_formulas=keep_formulas)
        say(f"Wrote {output}")
    elif output is None and form == "table" and sys.stdout.isatty():
        table = collected(result)
        with printing():
            on_terminal(table, wide=wide, minor=minor, **how)
    else:
        # Written to a file first, so that a failed command prints nothing.
        with temporary_folder() as folder:
            _write(result, form, folder / "out", texts, keep_formulas=keep_formulas)
            with (folder / "out").open("rb") as file, printing():
                sys.stdout.flush()  # so that earlier output comes first
                shutil.copyfileobj(file, sys.stdout.buffer)
                sys.stdout.flush()


def put_text(text: str, output: Path | None, *, overwrite: bool) -> None:
    """Write text to a file, or print it."""
    if output is None or str(output) == "-":
        show(text)
    else:
        with new_file(output, overwrite=overwrite) as part:
            part.write_text(text + "\n", "utf-8")
        say(f"Wrote {output}")


def _write(
    result: pl.LazyFrame, form: Format, path: Path,
    texts: Mapping[Format, Callable[[pl.DataFrame], str]], *, keep_formulas: bool,
) -> None:  # fmt: skip
    with path.open("wb") as file:
        if form == "parquet":
            result.sink_parquet(file, engine="streaming")
        elif form == "csv":
            rows = result.with_columns(text_columns())
            if not keep_formulas:
                file.write(header(result.collect_schema().names()).encode())
                rows = rows.with_columns(without_formulas())
            rows.sink_csv(file, engine="streaming", include_header=keep_formulas)
        elif form == "ndjson":
            lines = result.map_batches(_lines, schema={"line": pl.String}, streamable=True)
            lines.sink_csv(file, engine="streaming", include_header=False, quote_style="never")
        else:
            text = texts[form](collected(result))
            file.write(text.encode())


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
