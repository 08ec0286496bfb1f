"""Tables of results as input, whose types may have changed in a file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import described, number_in
from polars_rank.errors import SchemaError, short
from polars_rank.frames.tables import schema_of

if TYPE_CHECKING:
    from collections.abc import Mapping

TEXT, FLAG, COUNT, NUMBER = pl.String(), pl.Boolean(), pl.Int64(), pl.Float64()
#: Any list or structure.
NESTED = pl.Struct({})
#: What values of a type are called in messages.
_WORDS = {
    TEXT: "text",
    FLAG: "true or false",
    COUNT: "whole numbers",
    NUMBER: "numbers",
    NESTED: "lists or structures",
}
_FLAGS = {"true": True, "false": False, "1": True, "0": False}
_INFINITE = {
    f"{sign}{name}": float(f"{sign}inf") for sign in ("", "+", "-") for name in ("inf", "infinity")
}


def typed(rows: pl.LazyFrame, parameter: str, types: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return a table with the types of a result in the columns that it has.

    A CSV file has text instead of numbers if it is read without a schema, or if all values of a
    column are null; pandas has floats instead of integers, and NaN instead of null. Such values are
    cast. Others raise `SchemaError`, which may be when the result is collected.
    """
    schema = schema_of(rows)
    columns = []
    for name, wanted in types.items():
        dtype = schema.get(name)
        if dtype is None or dtype == wanted or (wanted == COUNT and dtype.is_integer()):
            columns += [pl.col(name).fill_nan(None)] if dtype == NUMBER else []
        elif wanted == NESTED and (dtype == pl.Null or dtype.is_nested()):
            continue
        elif dtype == pl.Null:
            columns.append(pl.col(name).cast(wanted))
        elif wanted == NUMBER and dtype.is_numeric():
            columns.append(pl.col(name).cast(wanted).fill_nan(None))
        elif (
            wanted == NESTED
            or dtype.is_nested()
            or dtype.is_temporal()
            or dtype in (pl.Object, pl.Binary)
        ):
            raise _wrong(described(parameter, name), wanted, dtype)
        elif wanted == TEXT:
            columns.append(pl.col(name).cast(TEXT))
        else:
            convert = partial(_converted, wanted=wanted, column=described(parameter, name))
            columns.append(
                pl.col(name).map_batches(convert, return_dtype=wanted, is_elementwise=True)
            )
    return rows.with_columns(columns) if columns else rows


def _converted(values: pl.Series, wanted: pl.DataType, column: str) -> pl.Series:
    """Return a column of another type, value by value: results are small."""
    converted = []
    for value in values:
        text = "" if value is None else str(value).strip().lower()
        known = text not in ("", "nan")
        result = _value(text, wanted) if known else None
        if known and result is None:
            raise _wrong(column, wanted, values.dtype, f", e.g. {short(value)}")
        converted.append(result)
    return pl.Series(values.name, converted, wanted)


def _value(text: str, wanted: pl.DataType) -> Any:
    """Return the value that a text in lower case stands for; None if there is none."""
    number = _INFINITE.get(text, number_in(text))
    if wanted == FLAG:
        return _FLAGS.get(text)
    if wanted == COUNT:
        return int(number) if number is not None and number.is_integer() else None
    return number


def _wrong(column: str, wanted: pl.DataType, dtype: pl.DataType, example: str = "") -> SchemaError:
    return SchemaError(
        f"{column} must have {_WORDS[wanted]}; found {dtype}{example}; cast the column, or write "
        "tables of results to Parquet files, which keep the types"
    )
