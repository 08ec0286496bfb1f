"""Tables in text files and Arrow files."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.columns import IDS, RUNS
from polars_rank.errors import SourceError, number_of, short
from polars_rank.io.inputs import held, origin
from polars_rank.io.lines import check_utf8, numbered_lines, plain_text, reading

if TYPE_CHECKING:
    from collections.abc import Callable

#: First bytes of Arrow streams.
ARROW_STREAM = b"\xff\xff\xff\xff"
#: Polars replaces bytes in names of columns that are not UTF-8 with this character.
_NOT_UTF8 = "\ufffd"


def scan_csv(
    files: list[str], is_id: Callable[[str], bool], separator: str = ",", *, alone: bool = False
) -> pl.LazyFrame:
    """Scan CSV files; ids are text, and other types are inferred from all rows.

    `alone` says whether a row may have only its first field.
    """
    files = [plain_text(file) for file in files]
    scan = partial(pl.scan_csv, files, separator=separator, glob=False)
    try:
        names = scan(infer_schema=False).collect_schema().names()
        if any(_NOT_UTF8 in name for name in names):
            _check_fields(files, separator, alone=alone)
        texts = {name: pl.String for name in names if is_id(name) or name.lower() in RUNS | IDS}
        schema = scan(
            infer_schema_length=None, infer_schema_files=len(files), schema_overrides=texts
        ).collect_schema()
        # With a schema, Polars does not infer types again each time that it reads the files.
        log = scan(infer_schema=False, schema_overrides=schema)
        # Polars reads the missing fields of a short row as nulls, so the last column has nulls.
        # All columns are read, because rows with too many fields are errors only then.
        nulls = log.select(pl.all().null_count()).collect(engine="streaming")
    except pl.exceptions.PolarsError as error:
        _check_fields(files, separator, alone=alone)
        raise _unreadable(files, separator, error) from error
    if nulls.item(0, -1):
        _check_fields(files, separator, alone=alone)
    log = held(log, files)
    inferred_text = [
        name for name, dtype in schema.items() if dtype == pl.String and name not in texts
    ]
    if not inferred_text:
        return log
    found = log.select(map(_has_numbers, inferred_text)).collect(engine="streaming")
    return log.cast({name: pl.Float64 for name, is_number in found.row(0, named=True).items()
                     if is_number})  # fmt: skip


def _has_numbers(name: str) -> pl.Expr:
    """Return whether Polars inferred text for a column without values, or of numbers and "nan"."""
    text = pl.col(name)
    number = text.cast(pl.Float64, strict=False)
    has_others = (~number.is_finite()).any()
    return (text.count() == 0) | (has_others & (number.count() == text.count()))


def _check_fields(files: list[str], separator: str, *, alone: bool) -> None:
    """Raise `SourceError` for a line that is not UTF-8, or a row without the header's fields."""
    import pyarrow as pa  # noqa: PLC0415  (slow to import, rarely needed)
    from pyarrow import csv  # noqa: PLC0415  (as above)

    invalid_rows: list[Any] = []

    def collect(row: Any) -> str:
        if not (alone and row.actual_columns == 1):
            invalid_rows.append(row)
        return "skip"

    for file in (file for file in files if "://" not in file):
        check_utf8(file)
        # If the file is not CSV, the caller raises the error of Polars.
        with reading(file) as stream, suppress(pa.ArrowInvalid):
            for _ in csv.open_csv(
                stream,
                csv.ReadOptions(use_threads=False, autogenerate_column_names=True),
                csv.ParseOptions(
                    delimiter=separator, newlines_in_values=True, invalid_row_handler=collect
                ),
                csv.ConvertOptions(
                    check_utf8=False, include_columns=["f0"], column_types={"f0": pa.binary()}
                ),
            ):
                if invalid_rows:
                    break
        if invalid_rows:
            row = invalid_rows[0]
            raise SourceError(
                f"row {row.number} of {origin(file)} has {number_of(row.actual_columns, 'field')}, "
                f"but the header has {row.expected_columns}: {row.text!r}; check that the row is "
                "complete, and that fields with separators are in quotes"
            )


def _unreadable(files: list[str], separator: str, error: Exception) -> SourceError:
    """Return the error for text files that are not CSV, with a line that has a stray quote."""
    problem, _, _ = str(error).partition("\n")
    stray = re.compile(rf'[^{separator}"]"[^{separator}"]|"[^{separator}"]*$')
    for file in files:
        for number, line in numbered_lines(file) if "://" not in file else ():
            if line.count('"') % 2 or stray.search(line):
                return SourceError(
                    f"cannot read {origin(file)} as CSV: line {number} has a stray quote: "
                    f"{short(line)}; put fields with quotes in quotes, and double these"
                )
    return SourceError(f"cannot read {', '.join(map(origin, files))} as CSV: {problem}")


def scan_ipc(files: list[str]) -> pl.LazyFrame:
    """Scan Arrow files, or read Arrow streams."""
    if all("://" not in file and _begins_with(file, ARROW_STREAM) for file in files):
        return pl.concat(pl.read_ipc_stream(file).lazy() for file in files)
    return pl.scan_ipc(files, glob=False)


def _begins_with(file: str, magic: bytes) -> bool:
    with Path(file).open("rb") as stream:
        return stream.read(len(magic)) == magic
