"""`scan_ubi`: the events of OpenSearch User Behavior Insights as a log of impressions."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, names, public, some_names
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.io.inputs import held
from polars_rank.io.lines import scan_ndjson, text_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TEXT = pl.String()
_POSITION = pl.Struct({"ordinal": pl.Int64()})
_OBJECT = pl.Struct({"object_id": _TEXT})
_COMMON_FIELDS = {"query_id": _TEXT, "session_id": _TEXT, "client_id": _TEXT, "timestamp": _TEXT}
_EVENTS = {
    "action_name": _TEXT,
    **_COMMON_FIELDS,
    "event_attributes": pl.Struct({"object": _OBJECT, "position": _POSITION}),
    "object_id": _TEXT,
    "position": _POSITION,
    "position.ordinal": pl.Int64(),
}
_QUERIES = {**_COMMON_FIELDS, "user_query": _TEXT, "query_response_hit_ids": pl.List(_TEXT)}

#: Paths of the fields with the document of an event and its position: first those of the OpenSearch
#: schema, then the same fields without nesting.
_DOC_FIELDS = [("event_attributes", "object", "object_id"), ("object_id",)]
_POSITION_FIELDS = [
    ("event_attributes", "position", "ordinal"),
    ("position", "ordinal"),
    ("position.ordinal",),
]
_ZONE = r"(?:[zZ]|[+-]\d\d:?\d\d)$"
_QUERY_COLUMNS = ("user_query", "session_id", "client_id")
_TIME, _FIRST, _ACTION, _PLACE = (OWN + name for name in ("time", "first", "action", "place"))
_DATETIME = pl.Datetime("us", "UTC")
#: Number of lines from which the kind of a file is inferred.
_INFERRED_LINES = 100
_PARQUET = (".parquet", ".pq")
_COLUMNS = ("query", "doc", "position", "click", "dwell", "time", "timestamp", *_QUERY_COLUMNS)


@public
def scan_ubi(
    events: Any,
    queries: Any = None,
    *,
    click: Names = ("click", "click_through"),
    actions: Names = (),
) -> pl.LazyFrame:
    """Scan the events and queries of User Behavior Insights (UBI) as a log of impressions.

    Examples
    --------
    >>> queries = pl.DataFrame({
    ...     "query_id": ["q1"], "timestamp": ["2025-01-01T10:00:00Z"],
    ...     "user_query": ["shoes"], "query_response_hit_ids": [["A", "B"]],
    ... })
    >>> events = pl.DataFrame({
    ...     "query_id": ["q1", "q1"], "action_name": ["click", "view"],
    ...     "object_id": ["B", "B"],
    ...     "timestamp": ["2025-01-01T10:00:05Z", "2025-01-01T10:00:45Z"],
    ...     "client_id": "c",
    ... })
    >>> log = pr.clicks.scan_ubi(events, queries).sort("position").collect()
    >>> log.select("query", "doc", "position", "click", "dwell", "time")
    shape: (2, 6)
    ┌───────┬─────┬──────────┬───────┬───────┬──────┐
    │ query ┆ doc ┆ position ┆ click ┆ dwell ┆ time │
    │ ---   ┆ --- ┆ ---      ┆ ---   ┆ ---   ┆ ---  │
    │ str   ┆ str ┆ i32      ┆ bool  ┆ f64   ┆ f64  │
    ╞═══════╪═════╪══════════╪═══════╪═══════╪══════╡
    │ q1    ┆ A   ┆ 1        ┆ false ┆ null  ┆ null │
    │ q1    ┆ B   ┆ 2        ┆ true  ┆ 40.0  ┆ 5.0  │
    └───────┴─────┴──────────┴───────┴───────┴──────┘

    Parameters
    ----------
    events
        The index `ubi_events`: a table, or the path of Parquet or NDJSON files with one event per
        line (several paths and patterns are allowed). The fields `action_name`, `query_id`,
        `timestamp`, `session_id` or `client_id`, `object_id` and `position.ordinal` are read, the
        last two also from `event_attributes`.
    queries
        The index `ubi_queries`, in the same forms. The fields `query_id`, `timestamp`,
        `user_query`, `session_id` or `client_id` and `query_response_hit_ids` (the documents in
        the order of the response) are read. Without `queries`, the log only has documents with an
        event. The two tables are distinguished by their columns, so their order does not matter.
    click
        Names of the actions that count as a click.
    actions
        Names of other actions, such as "add_to_cart" and "purchase". Each becomes a Boolean column
        of the result, for `pr.clicks.labels(log, "graded")`.

    Returns
    -------
    LazyFrame
        One row per document of a query that was shown, in no particular order, with

        - `query`: the `query_id` of one search by one client; `doc`: the `object_id`, a String;
        - `position`: the position in the response, from 1; for documents that are not in the
          response, the ordinal of their first event, or null;
        - `click`, and a column for each of `actions`: whether the action happened;
        - `dwell`: seconds from a click to the next event of the same session (or client, without
          a session), the maximum of several clicks; null without a click and after the last event;
        - `time`: seconds from the query, or from its first event, to the first click;
        - `timestamp`, `user_query`, `session_id`, `client_id`: of the query. To combine all
          searches for the same text, use `query="user_query"` in later calls.

    Raises
    ------
    ArgumentError
        If `actions` names a column of the result.
    DataError
        If a timestamp cannot be parsed; raised when the log is collected.
    SourceError
        If no file is found.

    Notes
    -----
    Timestamps are ISO 8601, in UTC unless they have a time zone, or milliseconds since 1970. All
    documents of the response count as shown, even if the user never scrolled to them.

    References
    ----------
    OpenSearch, User Behavior Insights, schema 1.3.
    """
    signals = {name: [name] for name in names("actions", actions)}
    for name in signals:
        if name in _COLUMNS:
            raise ArgumentError(
                f"`actions` contains {name!r}, which is a column of the result; omit it"
            )
    actions_by_column = {"click": [*some_names("click", click)], **signals}
    tables = [_table("events", events)]
    if queries is not None:
        tables.append(_table("queries", queries))
    tables.sort(key=lambda table: "action_name" not in schema_of(table))
    acted_docs = _acted_docs(tables[0], actions_by_column)
    shown, searches = acted_docs, _first_events(acted_docs)
    if len(tables) > 1:
        known = _searches(tables[1])
        shown, searches = _with_responses(acted_docs, known), _with_events(known, searches)
    since = pl.col(_TIME) - pl.col("timestamp")
    return shown.join(searches, on="query", how="left").select(
        "query",
        "doc",
        pl.col("position").cast(pl.Int32),
        pl.col("click").fill_null(value=False),
        "dwell",
        _seconds(since).alias("time"),
        "timestamp",
        *_QUERY_COLUMNS,
        *(pl.col(name).fill_null(value=False) for name in signals),
    )


def _acted_docs(events: pl.LazyFrame, actions_by_column: Mapping[str, list[str]]) -> pl.LazyFrame:
    """Return one row per (query, document) pair with an event."""
    schema = schema_of(events)
    Columns.find(schema, {"events": ["action_name", "query_id"]})
    known = events.select(
        pl.col("action_name").alias(_ACTION),
        _time(schema).alias(_TIME),
        query=_first_field(schema, [("query_id",)]),
        doc=_first_field(schema, _DOC_FIELDS),
        position=_first_field(schema, _POSITION_FIELDS).cast(pl.Int64),
        **_user_columns(schema),
    )
    when, following = pl.col(_TIME), pl.col(_TIME).shift(-1)
    # For events at the same time, the next event is the first one after all of them.
    later = pl.when(following > when).then(following).backward_fill()
    session = pl.coalesce("session_id", "client_id", "query")
    dwell = _seconds(later.over(session, order_by=_TIME) - when).alias("dwell")
    clicked = pl.col(_ACTION).is_in(actions_by_column["click"])
    return (
        known.with_columns(dwell)
        .drop_nulls(["query", "doc"])
        .group_by("query", "doc")
        .agg(
            pl.col("position", "session_id", "client_id").min(),
            pl.col("dwell").filter(clicked).max(),
            when.min().alias(_FIRST),
            when.filter(clicked).min(),
            *(
                pl.col(_ACTION).is_in(all_of).any().alias(name)
                for name, all_of in actions_by_column.items()
            ),
        )
    )


def _first_events(acted_docs: pl.LazyFrame) -> pl.LazyFrame:
    """Return the columns of each query, taken from its events."""
    return acted_docs.group_by("query").agg(
        pl.col(_FIRST).min().alias("timestamp"),
        pl.lit(None, dtype=pl.String).alias("user_query"),
        pl.col("session_id", "client_id").min(),
    )


def _searches(queries: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row per query: the first one if a query has several, such as pages of results."""
    schema = schema_of(queries)
    Columns.find(schema, {"queries": ["query_id", "query_response_hit_ids"]})
    return (
        queries.select(
            _time(schema).alias("timestamp"),
            pl.col("query_response_hit_ids").cast(pl.List(pl.String)).alias("doc"),
            query=pl.col("query_id").cast(pl.String),
            user_query=_first_field(schema, [("user_query",)]),
            **_user_columns(schema),
        )
        .drop_nulls("query")
        .group_by("query")
        .agg(pl.all().sort_by("timestamp").first())
    )


def _with_responses(acted_docs: pl.LazyFrame, searches: pl.LazyFrame) -> pl.LazyFrame:
    """Return the documents of the responses, and other documents with an event."""
    places = pl.int_ranges(1, pl.col("doc").list.len() + 1, dtype=pl.Int64).alias(_PLACE)
    responses = (
        searches.filter(pl.col("doc").list.len() > 0)
        .select("query", "doc", places)
        .explode("doc", _PLACE)
        .group_by("query", "doc")
        .agg(pl.col(_PLACE).min())
    )
    both = responses.join(acted_docs, on=["query", "doc"], how="full", coalesce=True)
    return both.with_columns(position=pl.coalesce(_PLACE, "position"))


def _with_events(searches: pl.LazyFrame, firsts: pl.LazyFrame) -> pl.LazyFrame:
    """Return the columns of each query, with missing values filled from its events."""
    both = searches.drop("doc").join(firsts, on="query", how="full", coalesce=True)
    about = ("timestamp", *_QUERY_COLUMNS)
    return both.select("query", *(pl.coalesce(name, f"{name}_right") for name in about))


def _table(parameter: str, source: Any) -> pl.LazyFrame:
    """Return the table of a parameter, or scan its files.

    In exports of OpenSearch, the fields are nested in `_source`; the result has them as columns.
    """
    several = isinstance(source, (list, tuple))
    if not all(isinstance(each, (str, PathLike)) for each in (source if several else [source])):
        table = lazy(source, parameter)
    else:
        files = text_files(source, parameter)
        parquet = all(Path(file).suffix in _PARQUET for file in files)
        table = held(pl.scan_parquet(files, glob=False), files) if parquet else _ndjson(files)
    source_type = schema_of(table).get("_source")
    return table if source_type is None else table.select(pl.col("_source").struct.unnest())


def _ndjson(files: list[str]) -> pl.LazyFrame:
    """Scan NDJSON files, with only the fields that this module reads."""
    first = schema_of(scan_ndjson(files, infer_schema_length=_INFERRED_LINES))
    wrapped = first.get("_source")
    field_names = (
        {field.name for field in wrapped.fields} if isinstance(wrapped, pl.Struct) else {*first}
    )
    fields = _EVENTS if "action_name" in field_names else _QUERIES
    schema = {"_source": pl.Struct(fields)} if isinstance(wrapped, pl.Struct) else fields
    return scan_ndjson(files, schema=schema)


def _first_field(schema: pl.Schema, paths: Sequence[tuple[str, ...]]) -> pl.Expr:
    """Return the first field that is not null as a String; null if no field exists."""
    fields = []
    for column, *field_names in paths:
        known: Mapping[str, Any] = schema
        field, dtype = pl.col(column), known.get(column)
        for name in field_names:
            known = dict(dtype) if isinstance(dtype, pl.Struct) else {}
            field, dtype = field.struct.field(name), known.get(name)
        if dtype is not None:
            fields.append(field.cast(pl.String))
    return pl.coalesce(fields) if fields else pl.lit(None, dtype=pl.String)


def _user_columns(schema: pl.Schema) -> dict[str, pl.Expr]:
    return {name: _first_field(schema, [(name,)]) for name in ("session_id", "client_id")}


def _time(schema: pl.Schema) -> pl.Expr:
    """Return the time in UTC, from ISO 8601 or milliseconds since 1970."""
    when, dtype = pl.col("timestamp"), schema.get("timestamp", pl.Null())
    if isinstance(dtype, pl.Datetime):
        zoned = when.dt.replace_time_zone("UTC") if dtype.time_zone is None else when
        return zoned.dt.convert_time_zone("UTC").dt.cast_time_unit("us")
    if dtype == pl.Null:
        return pl.lit(None, dtype=_DATETIME)
    text = when.cast(pl.String).str.strip_chars().str.replace(" ", "T", literal=True)
    zoned = pl.when(text.str.contains(_ZONE)).then(text).otherwise(text + "Z")
    number = text.cast(pl.Float64, strict=False)
    moment = pl.coalesce(
        zoned.str.to_datetime("%+", time_unit="us", time_zone="UTC", strict=False),
        (number * 1000).cast(pl.Int64, strict=False).cast(_DATETIME),
    )
    both = pl.struct(text.replace(["", "NaN"], None).alias("text"), moment.alias("moment"))
    return both.map_batches(_parsed, return_dtype=_DATETIME, is_elementwise=True)


def _parsed(times: pl.Series) -> pl.Series:
    """Return the parsed times; raise `DataError` if a text could not be parsed."""
    rows = times.struct.unnest()
    invalid = rows.filter(pl.col("text").is_not_null(), pl.col("moment").is_null())
    if not invalid.is_empty():
        raise DataError(
            f"invalid timestamps: neither ISO 8601 nor milliseconds since 1970 "
            f"({invalid.height:,} of {rows.height:,} rows read so far; e.g. "
            f"{invalid.row(0)[0]!r}); parse them first, e.g. with "
            "pl.col('timestamp').str.to_datetime(...)"
        )
    return rows.get_column("moment")


def _seconds(duration: pl.Expr) -> pl.Expr:
    return duration.dt.total_microseconds() / 1e6
