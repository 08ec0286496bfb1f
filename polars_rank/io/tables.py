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
from polars_rank.errors import SchemaError, SourceError, number_of
from polars_rank.io.copies import held, origin
from polars_rank.io.fields import VALUE, Kind, Roles, listed
from polars_rank.io.lines import check_utf8, plain_text, reading
from polars_rank.io.records import Records, scan_records
from polars_rank.io.traces import is_spans, retrievals

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

#: First bytes of Arrow streams.
ARROW_STREAM = b"\xff\xff\xff\xff"
#: Polars replaces bytes in names of columns that are not UTF-8 with this character.
_NOT_UTF8 = "\ufffd"
#: Separators of ids in a column of text.
_SEPARATORS = re.compile(r"\s*[;|,]\s*|\s+")


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
        last = log.select(pl.last().null_count()).collect(engine="streaming").item()
    except pl.exceptions.PolarsError:
        _check_fields(files, separator, alone=alone)
        raise
    if last:
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


def scan_ipc(files: list[str]) -> pl.LazyFrame:
    """Scan Arrow files, or read Arrow streams."""
    if all("://" not in file and _begins_with(file, ARROW_STREAM) for file in files):
        return pl.concat(pl.read_ipc_stream(file).lazy() for file in files)
    return pl.scan_ipc(files, glob=False)


def _begins_with(file: str, magic: bytes) -> bool:
    with Path(file).open("rb") as stream:
        return stream.read(len(magic)) == magic


def scan_rows(table: pl.LazyFrame, kind: Kind, file: str, *, is_text: bool) -> pl.LazyFrame:
    """Return the long table of a table with one row per document, or with lists of documents.

    `is_text` says whether lists are text, as in CSV.
    """
    schema = table.collect_schema()
    roles = Roles(schema, kind)
    lists = [
        name for name in roles.lists
        if schema[name].is_nested() or (schema[name] == pl.String and name != roles.doc)
    ]  # fmt: skip
    if (kind == "run" and is_spans(schema)) or (roles.doc is None and lists):
        return scan_records(_records(table, kind, lists if is_text else []), kind, file)
    query, text = roles.query_id or roles.text or roles.id, roles.text
    doc = roles.doc or (roles.id if roles.id != query else None)
    if query is None or doc is None:
        raise SchemaError(
            f"{origin(file)}: a table needs a query (query_id, query or question), and a document "
            f"(doc_id) or a list of documents; found the columns {listed([*schema])}"
        )
    for name in (query, doc):
        if schema[name].is_float() or schema[name].is_nested():
            raise SchemaError(
                f"column {name!r} of {origin(file)} has the type {schema[name]}, but ids are text "
                "or whole numbers"
            )
    value = VALUE[kind]
    columns = {
        "query": col(query).cast(pl.String),
        "doc": col(doc).cast(pl.String).replace("", None),
        value: _number(roles, schema, kind, file),
    }
    if kind == "judgments" and text not in (None, query):
        columns["text"] = col(str(text)).cast(pl.String)
    if kind == "run" and roles.run is not None:
        columns["run"] = col(roles.run).cast(pl.String)
    others = [name for name in schema if name not in {*roles.known, query, doc, *columns}]
    raw = roles.value or roles.rank
    if raw is not None and schema[raw] == pl.String:
        check = partial(_refuse_text, raw=raw, name=origin(file))
        table = table.map_batches(check, streamable=True)
    rows = table.select(*(each.alias(name) for name, each in columns.items()), *others)
    return rows.with_columns(pl.when(col("doc").is_not_null()).then(value).alias(value))


def _number(roles: Roles, schema: pl.Schema, kind: Kind, file: str) -> pl.Expr:
    """Return the label or score of a row."""
    name = roles.value
    if name is not None:
        is_whole = schema[name].is_integer() or schema[name] == pl.Boolean
        whole = kind == "judgments" and is_whole
        return col(name).cast(pl.Int64 if whole else pl.Float64, strict=False)
    if kind == "judgments":
        return pl.lit(1, pl.Int64)
    if roles.rank is None:
        raise SchemaError(
            f"{origin(file)} has neither scores nor ranks; found the columns {listed([*schema])}"
        )
    return -col(roles.rank).cast(pl.Float64, strict=False)


def _refuse_text(rows: pl.DataFrame, raw: str, name: str) -> pl.DataFrame:
    text = col(raw).str.strip_chars()
    invalid = (text != "") & ~text.cast(pl.Float64, strict=False).is_finite().fill_null(value=False)
    refuse(rows, invalid, f"column {raw!r} of {name} must have numbers", "correct the file")
    return rows


def _records(table: pl.LazyFrame, kind: Kind, texts: Collection[str]) -> Records:
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
                    if row[name] is not None and not row[name].lstrip().startswith(("[", "{")):
                        row[name] = [each for each in _SEPARATORS.split(row[name]) if each]
                yield where, row

    return read
