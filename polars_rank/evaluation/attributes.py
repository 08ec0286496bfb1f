"""Attributes of documents and documents already seen, joined to the log.

Only the columns that metrics read are joined. Metrics read them like other columns of the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import polars as pl

from polars_rank._params import OWN
from polars_rank.checks import Check, Scope, failed, raise_failed
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.log import Log
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import schema_of

#: Columns that say whether a document is in `items`, and how many retrieved documents are not.
IN_ITEMS, UNKNOWN = OWN + "in items", OWN + "unknown"
#: Name of this number in messages.
UNKNOWN_NAME = "unknown documents"

_ROWS = OWN + "rows"

#: Column that says whether the user has seen a document, and prefix of attributes of the history.
SEEN, HISTORY = "seen", "history_"


def with_attributes(
    log: Log,
    items: pl.LazyFrame | None,
    history: pl.LazyFrame | None,
    reads: Iterable[str] | None,
) -> Log:
    """Return the log with the columns of `items` and of `history` that metrics read.

    Parameters
    ----------
    log
        The log.
    items
        One row per document, with its attributes.
    history
        One row per query and document that the user has seen. It adds the column "seen" and, for
        each attribute x of `items` or column x of `history`, the lists "history_x".
    reads
        The columns that metrics read; None for all columns of `items` and `history`.

    Returns
    -------
    Log
        The log with these columns.
    """
    table, columns = log.table, log.columns
    doc = _ids(columns, "history" if items is None else "items")
    if reads is None:
        reads = _available(columns, items, history, doc)
    read = sorted(set(reads))
    if history is not None:
        keys = _history_keys(columns, history, doc)
        if SEEN in read:
            _check_new(SEEN, columns, "history")
            table = with_seen(table, columns, history, SEEN)
        lists = [name for name in read if name.startswith(HISTORY)]
        table = _with_lists(table, columns, items, history, keys, lists)
    if items is not None:
        schema = schema_of(items)
        attributes = {name: pl.col(name) for name in read if name in schema and name != doc}
        for name in attributes:
            _check_new(name, columns, "items")
        documents = documents_of(items, doc, columns.schema[doc], attributes)
        known = documents.with_columns(pl.lit(value=True).alias(IN_ITEMS))
        table = _joined(table, known, columns.schema, [doc])
    schema = schema_of(table)
    return replace(log, table=table, columns=columns._replace(schema=schema), items=items)


def unknown_check(scope: Scope) -> Check:
    """Return the warning about rankings or groups with documents that are not in `items`."""
    message = (
        "`items` has no row for some retrieved documents; the parameter `unknown` of a metric says "
        "what they count as"
    )
    return Check(scope, pl.col(UNKNOWN) > 0, message, warns=True)


def warned(rankings: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
    """Return a per-query table without `UNKNOWN`; collecting it warns about unknown documents."""
    checks = [unknown_check("ranking")]
    shown = {**{key: key for key in keys}, UNKNOWN_NAME: UNKNOWN}
    flagged = rankings.with_columns(failed(checks, "ranking"))
    return raise_failed(flagged, checks, keys=shown).drop(UNKNOWN)


def _available(
    columns: Columns, items: pl.LazyFrame | None, history: pl.LazyFrame | None, doc: str
) -> list[str]:
    """Return the columns that `items` and `history` can add to a log."""
    attributes = [] if items is None else [name for name in schema_of(items) if name != doc]
    if history is None:
        return attributes
    own = {*schema_of(history)} - {*columns.keys, doc}
    return [SEEN, *attributes, *(HISTORY + name for name in {*attributes, *own})]


def _ids(columns: Columns, parameter: str) -> str:
    """Return the column of document ids; raise `ArgumentError` if there is none."""
    if columns.doc is None:
        raise ArgumentError(f"`{parameter}` needs document ids; pass their column as `doc`")
    return columns.doc


def with_seen(
    log: pl.LazyFrame, columns: Columns, history: pl.LazyFrame, name: str
) -> pl.LazyFrame:
    """Return the log with a column that says whether the user has seen the document."""
    doc = _ids(columns, "history")
    on = [*_history_keys(columns, history, doc), doc]
    pairs = history.select(on).unique().with_columns(pl.lit(value=True).alias(name))
    joined = _joined(log, pairs, columns.schema, on)
    return joined.with_columns(pl.col(name).fill_null(value=False))


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
        added = documents_of(items, doc, own[doc], {name: pl.col(name) for name in from_items})
        documents = _joined(history, added, own, [doc])
    of_query = documents.group_by(keys).agg(
        pl.col(name).drop_nulls().alias(HISTORY + name) for name in known
    )
    return _joined(log, of_query, columns.schema, keys)


def _joined(
    log: pl.LazyFrame, other: pl.LazyFrame, schema: Mapping[str, pl.DataType], on: Sequence[str]
) -> pl.LazyFrame:
    """Return a left join that keeps the order of rows, which the plan requires."""
    # Ids that the types of the log cannot hold become null, and null matches nothing.
    ids = other.with_columns(pl.col(name).cast(schema[name], strict=False) for name in on)
    return log.join(ids, on=on, how="left", maintain_order="left")


def documents_of(
    items: pl.LazyFrame, doc: str, dtype: pl.DataType, attributes: Mapping[str, pl.Expr]
) -> pl.LazyFrame:
    """Return the documents of `items` with attributes.

    Ids are cast to the common type with ids of type `dtype`. Collecting the result raises
    `DataError` for null and duplicate ids.
    """
    schema = schema_of(items)
    Columns.find(schema, {"doc": doc}, table="`items`")
    types = key_types({doc: dtype}, schema, [doc], ("the rankings", "`items`"))
    problem = f"column {doc!r} (`doc`) of `items` has"
    checks = [
        Check(
            "group", pl.col(_ROWS) > 1, f"{problem} duplicates; keep one row per document",
        ),
        Check(
            "group", pl.col(doc).is_null(), f"{problem} nulls; drop these rows",
        ),
    ]  # fmt: skip
    documents = (
        items.select(pl.col(doc).cast(types[doc]), **attributes)
        # A group-by would take three times as long, because it copies embeddings.
        .with_columns(pl.len().over(doc).alias(_ROWS))
        .with_columns(failed(checks, "group"))
    )
    return raise_failed(documents, checks, keys={doc: doc}).drop(_ROWS)


def _history_keys(columns: Columns, history: pl.LazyFrame, doc: str) -> list[str]:
    """Return the key columns of the log that `history` has."""
    schema = schema_of(history)
    Columns.find(schema, {"doc": doc}, table="`history`")
    keys = [name for name in columns.query if name in schema]
    if not keys:
        Columns.find(schema, {"history": columns.query[0]}, table="`history`")
    tables = "the rankings", "`history`"
    key_types(columns.schema, schema, [*keys, doc], tables)
    return keys


def _check_new(name: str, columns: Columns, parameter: str) -> None:
    """Raise `SchemaError` if the log already has a column that a join adds."""
    if name in columns.schema:
        raise SchemaError(
            f"column {name!r} is in the table and comes from `{parameter}`; drop one of them"
        )
