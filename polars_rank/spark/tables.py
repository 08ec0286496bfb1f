"""What columns of Spark are to Polars, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

#: Spark has no integers without a sign, and no categories.
_WIDER: dict[Any, Any] = {
    pl.UInt8: pl.Int16,
    pl.UInt16: pl.Int32,
    pl.UInt32: pl.Int64,
    pl.UInt64: pl.Int64,
}

#: Rows of a batch that goes back to Spark.
_BATCH_ROWS = 10_000


def quoted(name: str) -> str:
    """Return the name of a column as SQL reads it, whatever is in it."""
    return f"`{name.replace('`', '``')}`"


def is_sorted_by_bytes(frame: DataFrame, names: Sequence[str]) -> bool:
    """Return whether Spark sorts columns as Polars does: none has text of another collation."""
    return not any(" collate " in frame.schema[name].dataType.simpleString() for name in names)


def schema_of(frame: DataFrame) -> pl.Schema:
    """Return the columns of a Spark DataFrame as Polars gets them from Arrow."""
    from pyspark.sql.pandas.types import to_arrow_type  # noqa: PLC0415  (an extra)

    twice = sorted({name for name in frame.columns if frame.columns.count(name) > 1})
    if twice:
        message = f"the frame has two columns {twice[0]!r}; rename one of them, or drop it"
        raise SchemaError(message)
    for field in frame.schema:
        try:
            to_arrow_type(field.dataType, timezone="UTC")
        except TypeError as error:
            message = (
                f"the column {field.name!r} ({field.dataType.simpleString()}) is of a type that "
                "Spark does not give to Polars; drop it, or cast it"
            )
            raise SchemaError(message) from error
    return arrived(arrow_schema(frame.schema).empty_table()).schema


def arrived(table: pa.Table) -> pl.DataFrame:
    """Return a table of Arrow as Polars has it."""
    return pl.DataFrame(table)


def spark_schema(result: pl.Schema, frame: DataFrame, given: pl.Schema) -> StructType:
    """Return the columns of a result: those of the frame's own with the types that they have."""
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
    """Return the types in which Spark takes the columns."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415  (an extra)

    return to_arrow_schema(schema, timezone="UTC")


def sent(table: pl.DataFrame, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows in the types that Spark takes them in."""
    plain = table.cast({name: _plain(dtype) for name, dtype in table.schema.items()})
    found = plain.to_arrow(compat_level=pl.CompatLevel.oldest())
    yield from found.cast(schema).to_batches(max_chunksize=_BATCH_ROWS)


def _plain(dtype: pl.DataType) -> Any:
    if dtype in (pl.Categorical, pl.Enum):
        return pl.String
    return _WIDER.get(dtype.base_type(), dtype)
