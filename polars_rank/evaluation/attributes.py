"""Left joins before the plan: attributes of documents, and what users have seen.

Metrics read the joined columns like any other column of the log. Only columns that metrics read
are joined.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import replace

import polars as pl

from polars_rank._params import OWN, check_there
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, RankWarning, SchemaError, number_of
from polars_rank.frames.tables import schema_of

#: Whether a document of the log is in `items`, and the number of those that are not per ranking.
IN_ITEMS, UNKNOWN = OWN + "in items", OWN + "unknown"

#: What the user has seen, and the prefix of the attributes of these documents.
SEEN, HISTORY = "seen", "history_"


def with_attributes(
    log: pl.LazyFrame,
    columns: Columns,
    items: pl.LazyFrame | None,
    history: pl.LazyFrame | None,
    reads: Iterable[str],
) -> tuple[pl.LazyFrame, Columns]:
    """Return the log with the columns of `items` and of `history` that metrics read.

    Parameters
    ----------
    log, columns
        The log and its columns.
    items
        One row per document, with its attributes.
    history
        One row per query and document that the user has seen. It adds the column "seen" and, for
        each attribute x of `items` or column x of `history`, the lists "history_x".
    reads
        The columns that metrics read.

    Returns
    -------
    tuple
        The log and its columns with the new schema.
    """
    doc = columns.doc
    if doc is None:
        named = "items" if items is not None else "history"
        message = f"`{named}` needs document ids; pass their column as `doc`"
        raise ArgumentError(message, named, "doc")
    wanted = sorted(set(reads))
    if history is not None:
        keys = _history_keys(columns, history, doc)
        if SEEN in wanted:
            _check_new(SEEN, columns, "history")
            pairs = history.select(*keys, doc).unique().with_columns(pl.lit(value=True).alias(SEEN))
            log = _joined(log, pairs, [*keys, doc]).with_columns(
                pl.col(SEEN).fill_null(value=False)
            )
        lists = [name for name in wanted if name.startswith(HISTORY)]
        log = _with_lists(log, columns, items, history, keys, lists)
    if items is not None:
        schema = schema_of(items)
        _check_key("items", doc, columns, schema)
        attributes = [name for name in wanted if name in schema and name != doc]
        for name in attributes:
            _check_new(name, columns, "items")
        known = pl.lit(value=True).alias(IN_ITEMS)
        log = _joined(log, _unique(items.select(doc, *attributes), doc).with_columns(known), [doc])
    return log, replace(columns, schema=schema_of(log))


def warned(table: pl.LazyFrame) -> pl.LazyFrame:
    """Return a per-query table without `UNKNOWN`; collecting it warns about unknown documents."""

    def warn(rankings: pl.DataFrame) -> pl.DataFrame:
        numbers = rankings.get_column(UNKNOWN)
        number, several = int(numbers.sum()), int((numbers > 0).sum())
        if number:
            message = (
                f"`items` has no row for {number_of(number, 'retrieved document')} in "
                f"{number_of(several, 'ranking')}; the parameter `unknown` of a metric says what "
                "they count as"
            )
            warnings.warn(RankWarning(message, "items"), stacklevel=2)
        return rankings

    # All rankings at once: their number is reported.
    return table.map_batches(warn, validate_output_schema=False).drop(UNKNOWN)


def _with_lists(
    log: pl.LazyFrame,
    columns: Columns,
    items: pl.LazyFrame | None,
    history: pl.LazyFrame,
    keys: Sequence[str],
    lists: Sequence[str],
) -> pl.LazyFrame:
    """Return the log with lists of attributes of the documents in the history of the query."""
    doc = str(columns.doc)
    own = schema_of(history)
    attributes = {} if items is None else schema_of(items)
    names = [name.removeprefix(HISTORY) for name in lists]
    from_items = [name for name in names if name in attributes and name not in own]
    known = [name for name in names if name in own or name in from_items]
    if not known:
        return log
    for name in known:
        _check_new(HISTORY + name, columns, "history")
    documents = history
    if items is not None and from_items:
        documents = _joined(history, _unique(items.select(doc, *from_items), doc), [doc])
    of_query = documents.group_by(keys).agg(
        pl.col(name).drop_nulls().alias(HISTORY + name) for name in known
    )
    return _joined(log, of_query, keys)


def _joined(log: pl.LazyFrame, other: pl.LazyFrame, on: Sequence[str]) -> pl.LazyFrame:
    """Return a left join that keeps the order of rows, on which the plan relies."""
    return log.join(other, on=on, how="left", maintain_order="left")


def _unique(items: pl.LazyFrame, doc: str) -> pl.LazyFrame:
    """Return a table whose collection raises `DataError` if a document occurs twice."""

    def check(rows: pl.DataFrame) -> pl.DataFrame:
        repeated = rows.filter(pl.col(doc).is_duplicated())
        if repeated.height:
            message = (
                f"column {doc!r} of `items` has duplicates ({repeated.height:,} of "
                f"{rows.height:,} rows; e.g. {repeated.item(0, doc)!r}); keep one row per document"
            )
            raise DataError(message, "items")
        return rows

    return items.map_batches(check)


def _history_keys(columns: Columns, history: pl.LazyFrame, doc: str) -> list[str]:
    schema = schema_of(history)
    _check_key("history", doc, columns, schema)
    keys = [name for name in columns.query if name in schema]
    if not keys:
        check_there("history", columns.query[0], schema, "`history`")
    for name in keys:
        _check_key("history", name, columns, schema)
    return keys


def _check_key(parameter: str, name: str, columns: Columns, schema: pl.Schema) -> None:
    """Raise `SchemaError` unless a table has a column of the log, with the same type."""
    check_there(parameter, name, schema, f"`{parameter}`")
    if schema[name] != columns.schema[name]:
        message = (
            f"column {name!r} has the type {columns.schema[name]} in the table and {schema[name]} "
            f"in `{parameter}`; cast one of them"
        )
        raise SchemaError(message, parameter)


def _check_new(name: str, columns: Columns, parameter: str) -> None:
    """Raise `SchemaError` if the log already has a column that a join adds."""
    if name in columns.schema:
        message = (
            f"column {name!r}, which a metric reads, is in the table and comes from `{parameter}`; "
            "drop one of them"
        )
        raise SchemaError(message, parameter)
