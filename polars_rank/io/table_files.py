"""Tables in text files and Arrow files; tables of judgments and results as the long table."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import col

from polars_rank.checks import refuse
from polars_rank.columns import IDS, RUNS
from polars_rank.errors import SourceError, number_of, short
from polars_rank.io.fields import VALUE, Field, Fields, Kind, is_list, place, plain
from polars_rank.io.inputs import held, origin
from polars_rank.io.lines import check_utf8, numbered_lines, plain_text, reading
from polars_rank.io.records import (
    ReadFile,
    Records,
    check_row_ids,
    failures,
    list_in,
    read_records,
    value_role,
)
from polars_rank.io.spans import separate_spans
from polars_rank.io.traces import is_spans, retrievals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from polars_rank.io.fields import FieldNames

#: First bytes of Arrow streams.
ARROW_STREAM = b"\xff\xff\xff\xff"
#: Polars replaces bytes in names of columns that are not UTF-8 with this character.
_NOT_UTF8 = "\ufffd"
#: Separators of ids in a column of text.
_SEPARATORS = re.compile(r"\s*[;|,]\s*")
#: Flags in a column of text that also has numbers.
_FLAGS = {"true": "1", "True": "1", "TRUE": "1", "false": "0", "False": "0", "FALSE": "0"}


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


def read_table(
    table: pl.LazyFrame, kind: Kind, file: str, given: FieldNames, *, is_text: bool
) -> ReadFile:
    """Return the long table of a table with a document, or a list of documents, in each row.

    `is_text` says whether the table is from a text file, where ids may be separated in a column.
    """
    table = separate_spans(table) if kind == "run" else table
    schema = table.collect_schema()
    lists = [name for name in schema if is_list(name, kind, given)]
    texts = [name for name in lists if schema[name] == pl.String]
    has_docs = "doc" in given or any(place(name, "doc", kind) in (0, 1) for name in schema)
    if (
        (kind == "run" and is_spans(schema))
        or any(schema[name].is_nested() for name in lists)
        or (texts and not has_docs)
    ):
        return read_records(_records(table, kind, texts, is_text=is_text), kind, file, given)
    fields = {name: _field(dtype) for name, dtype in schema.items()}
    found = Fields.resolved(kind, fields, given)
    roles, value = found.roles, VALUE[kind]
    warnings = _checked_rows(table, found)
    role = value_role(found)
    doc = col(roles["doc"]).cast(pl.String).replace("", None)
    number = pl.lit(1, pl.Int64)
    if role in roles:
        dtype = schema[roles[role]]
        is_whole = kind == "judgments" and (dtype.is_integer() or dtype == pl.Boolean)
        raw = col(roles[role])
        if dtype == pl.String:
            raw = raw.str.strip_chars().replace(_FLAGS)
            check = partial(_refuse_text, raw=roles[role], name=file)
            table = table.map_batches(check, streamable=True)
        number = raw.cast(pl.Int64 if is_whole else pl.Float64, strict=False)
        number = -number if role == "rank" else number
    columns = {
        "query": col(roles["query"]).cast(pl.String),
        "doc": doc,
        value: pl.when(doc.is_not_null()).then(number),
    }
    if kind == "judgments" and "text" in roles:
        columns["text"] = col(roles["text"]).cast(pl.String)
    for name, field in found.columns().items():
        columns[name] = col(field).cast(pl.String) if name == "run" else col(field)
    rows = table.select(each.alias(name) for name, each in columns.items())
    is_empty = table.head(1).collect(engine="streaming").is_empty()
    return ReadFile(file, kind, rows, roles, found.found, [*schema], warnings, is_empty)


def _field(dtype: pl.DataType) -> Field:
    """Return a column as a field with values of its type."""
    field = Field()
    types = {
        "whole": dtype.is_integer(),
        "number": dtype.is_float() or dtype.is_decimal(),
        "flag": dtype == pl.Boolean,
        "column": dtype in (pl.String, pl.Categorical, pl.Enum),
        "list": dtype.is_nested() and dtype != pl.Struct,
        "object": dtype == pl.Struct,
    }
    field.count = int(dtype != pl.Null)
    if field.count:
        type_ = next((each for each, fits in types.items() if fits), str(dtype))
        field.places = {type_: ("", dtype)}
    return field


def _checked_rows(table: pl.LazyFrame, found: Fields) -> list[str]:
    """Count what decides between fields, and return what looks wrong.

    These columns are read only if a table has scores and ranks, an "id" and a text, or errors.
    """
    roles = found.roles
    counts: dict[str, pl.Expr] = {}
    if {"score", "rank"} <= roles.keys():
        is_document = col(roles["doc"]).is_not_null()
        counts |= {
            role: (col(roles[role]).is_not_null() & is_document).sum()
            for role in ("score", "rank", "doc")
        }
    is_row_id = plain(roles["query"]) == "id" and "text" in roles
    if is_row_id:
        counts |= {"ids": col(roles["query"]).n_unique(), "texts": col(roles["text"]).n_unique()}
    if "error" in roles:
        error, dtype = col(roles["error"]), found.fields[roles["error"]].types
        is_failed = error.is_not_null() if "object" in dtype else (
            error.list.len() > 0 if "list" in dtype
            else ~error.cast(pl.String).str.to_lowercase().is_in(["", "false"])
        )  # fmt: skip
        failed = col(roles["query"]).filter(is_failed).cast(pl.String)
        counts |= {"failed": failed.n_unique(), "example": failed.first()}
    if not counts:
        return []
    row = table.select(pl.len(), **counts).collect(engine="streaming").row(0, named=True)
    for role in {"score", "rank", "doc"} & row.keys():
        found.fields[roles[role]].count = row[role]
    if is_row_id:
        check_row_ids(found, row["len"], row["ids"], row["texts"])
    return [failures(row["failed"], row["example"])] if row.get("failed") else []


def _refuse_text(rows: pl.DataFrame, raw: str, name: str) -> pl.DataFrame:
    text = col(raw).str.strip_chars().replace(_FLAGS)
    invalid = (text != "") & ~text.cast(pl.Float64, strict=False).is_finite().fill_null(value=False)
    refuse(rows, invalid, f"column {raw!r} of {name} must have numbers", "correct the file")
    return rows


def _records(table: pl.LazyFrame, kind: Kind, texts: Collection[str], *, is_text: bool) -> Records:
    """Return the rows of a table with lists or spans as records; `texts` are lists as text."""

    def read() -> Iterator[tuple[str, Mapping[str, Any]]]:
        number = 0
        for batch in table.collect_batches(maintain_order=True, engine="streaming"):
            for row in batch.iter_rows(named=True):
                number += 1
                where = f"row {number}"
                if kind == "run" and is_spans(row):
                    yield from ((where, each) for each in retrievals(row, where))
                    continue
                for name in texts:
                    row[name] = _cell(row[name], where, name, is_text=is_text)
                yield where, row

    return read


def _cell(text: str | None, where: str, name: str, *, is_text: bool) -> Any:
    """Return the list in a cell: in JSON or Python, or separated ids in a column of ids."""
    text = (text or "").strip()
    if text.startswith(("[", "{", "(")):
        return list_in(text, where, name)
    if not text:  # text files have no other empty list
        return [] if is_text else None
    if is_text and plain(name).endswith("ids"):
        return [each for each in _SEPARATORS.split(text) if each]
    return text
