"""Conversion of schemas and rows between Spark and Polars."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import SchemaError
from polars_rank.frames.ids import is_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

#: Spark has no unsigned integers.
_WIDER: dict[Any, Any] = {
    pl.UInt8: pl.Int16, pl.UInt16: pl.Int32, pl.UInt32: pl.Int64, pl.UInt64: pl.Int64
}  # fmt: skip

#: Rows of a batch that is returned to Spark.
_BATCH_ROWS = 10_000


def quoted(name: str) -> str:
    """Return the quoted name of a column for SQL."""
    return f"`{name.replace('`', '``')}`"


def schema_of(frame: DataFrame) -> pl.Schema:
    """Return the schema of a Spark DataFrame with the types of Polars."""
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415  (an extra)

    duplicates = sorted({name for name in frame.columns if frame.columns.count(name) > 1})
    if duplicates:
        raise SchemaError(f"duplicate column {duplicates[0]!r}; drop one of them, or rename it")
    for field in frame.schema:
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except TypeError as error:
            raise SchemaError(
                f"column {field.name!r} has the type {field.dataType.simpleString()}, which Spark "
                "cannot convert to Arrow; drop it, or cast it"
            ) from error
    return pl.DataFrame(arrow_schema(frame.schema).empty_table()).schema


def spark_schema(result: pl.Schema, frame: DataFrame, given: pl.Schema) -> StructType:
    """Return the Spark schema of a result; columns of the frame keep their Spark types."""
    from pyspark.sql.pandas.types import from_arrow_type  # noqa: PLC0415  (an extra)
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415

    fields = []
    for name, dtype in result.items():
        if given.get(name) == dtype:
            fields.append(StructField(name, frame.schema[name].dataType))
        else:
            plain = pl.Series([], dtype=_plain(dtype)).to_frame(name).to_arrow()
            fields.append(StructField(name, from_arrow_type(plain.schema.field(0).type)))
    return StructType(fields)


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema that Spark expects."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  (an extra)

    return to_arrow_schema(schema, timezone="UTC")


def to_batches(table: pl.DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows as batches with the schema that Spark expects."""
    plain = table.cast({name: _plain(dtype) for name, dtype in table.schema.items()})
    rows = plain.to_arrow(compat_level=pl.CompatLevel.oldest())
    yield from rows.cast(schema).to_batches(max_chunksize=_BATCH_ROWS)


def _plain(dtype: pl.DataType) -> Any:
    if is_text(dtype):
        return pl.String
    return _WIDER.get(dtype.base_type(), dtype)
