"""Tables of results as input, whose types may have changed in a file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import described
from polars_rank.errors import SchemaError, short
from polars_rank.frames.tables import schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT, FLAG, COUNT, NUMBER = pl.String(), pl.Boolean(), pl.Int64(), pl.Float64()
#: Any list or structure.
NESTED = pl.Struct({})
#: Types whose values have no text.
_NO_TEXT = (pl.Object, pl.Binary)
#: What values of a type are called in messages.
_WORDS = {
    TEXT: "text", FLAG: "true or false", COUNT: "whole numbers", NUMBER: "numbers",
    NESTED: "lists or structures",
}  # fmt: skip
_FLAGS = {"true": True, "false": False, "1": True, "0": False}


def typed(rows: pl.LazyFrame, parameter: str, types: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return a table with the types of a result in the columns that it has.

    A CSV file has text instead of numbers if it is read without a schema, or if all values of a
    column are null; pandas has floats instead of integers, and NaN instead of null. Such values are
    cast. Others raise `SchemaError`, which may be when the result is collected.
    """
    schema = schema_of(rows)
    columns = []
    for name, wanted in types.items():
        dtype, column = schema.get(name), pl.col(name)
        if dtype is None or dtype == wanted or (wanted == COUNT and dtype.is_integer()):
            columns += [column.fill_nan(None)] if dtype == NUMBER else []
        elif wanted == NESTED and (dtype == pl.Null or dtype.is_nested()):
            continue
        elif dtype == pl.Null:
            columns.append(column.cast(wanted))
        elif wanted == NUMBER and dtype.is_numeric():
            columns.append(column.cast(wanted).fill_nan(None))
        elif wanted == NESTED or dtype.is_nested() or dtype.is_temporal() or dtype in _NO_TEXT:
            raise _wrong(described(parameter, name), wanted, dtype)
        elif wanted == TEXT:
            columns.append(column.cast(TEXT))
        else:
            convert = partial(_converted, wanted=wanted, column=described(parameter, name))
            columns.append(column.map_batches(convert, return_dtype=wanted, is_elementwise=True))
    return rows.with_columns(columns) if columns else rows


def _converted(values: pl.Series, wanted: pl.DataType, column: str) -> pl.Series:
    """Return a column of another type from the text of its values."""
    text = values.cast(TEXT).str.strip_chars().str.to_lowercase()
    text = text.replace(["", "nan"], None)
    if wanted == FLAG:
        converted = text.replace_strict(_FLAGS, default=None, return_dtype=FLAG)
    else:
        numbers = text.cast(NUMBER, strict=False)
        converted = numbers.cast(wanted, strict=False)
        converted = converted.set(converted != numbers, None)
    invalid = values.filter(text.is_not_null() & converted.is_null())
    if not invalid.is_empty():
        raise _wrong(column, wanted, values.dtype, f", e.g. {short(invalid[0])}")
    return converted


def _wrong(column: str, wanted: pl.DataType, dtype: pl.DataType, example: str = "") -> SchemaError:
    return SchemaError(
        f"{column} must have {_WORDS[wanted]}; found {dtype}{example}; cast the column, or write "
        "tables of results to Parquet files, which keep the types"
    )
