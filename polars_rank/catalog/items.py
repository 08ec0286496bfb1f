"""The table of the documents of a catalog, one row per document, with their attributes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from polars_rank._params import check_id, check_there
from polars_rank.errors import SchemaError
from polars_rank.evaluation.checks import FAILED, Check, raise_failed
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.io.ids import common_type


def items_of(
    items: Any, doc: str, dtype: pl.DataType, attributes: Mapping[str, pl.Expr]
) -> tuple[pl.LazyFrame, pl.DataType]:
    """Return the documents of `items` with attributes, and the type in which to join them.

    Collecting them raises `DataError` for null and for repeated documents.
    """
    table = lazy(items)
    schema = schema_of(table)
    check_there("doc", doc, schema, "`items`")
    check_id("doc", doc, schema[doc])
    joined = common_type(dtype, schema[doc])
    if joined is None:
        message = (
            f"column {doc!r} (`doc`) is {dtype} in the rankings and {schema[doc]} in `items`, so "
            "that no row would match; cast one of them"
        )
        raise SchemaError(message, "doc", "items")
    repeated = Check(
        "group",
        pl.len() > 1,
        f"column {doc!r} (`doc`) of `items` has duplicates; keep one row per document",
        parameters=("doc", "items"),
    )
    missing = Check(
        "group",
        pl.col(doc).first().is_null(),
        f"column {doc!r} (`doc`) of `items` has nulls; drop these rows",
        parameters=("doc", "items"),
    )
    number = (
        pl.when(pl.len() > 1).then(2).when(pl.col("key").first().is_null()).then(1).otherwise(0)
    )
    rows = table.select(pl.col(doc).cast(joined).alias("key"), **attributes)
    unique = rows.group_by(pl.col("key").alias(doc)).agg(
        pl.col(attributes.keys()).first(), number.cast(pl.UInt16).alias(FAILED)
    )
    return raise_failed(unique, [repeated, missing]), joined
