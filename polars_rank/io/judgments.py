"""`join_judgments`: the long table from tables of retrieved and of judged documents."""

from __future__ import annotations

from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

import polars as pl
import polars.selectors as cs
from polars import col

from polars_rank._params import OWN, check_name, missing_column, names, public
from polars_rank.checks import Check, failed, raise_failed, refuse
from polars_rank.columns import RUN, RUNS, Columns
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.log_checks import with_run_warning
from polars_rank.frames.batches import by_group, by_query
from polars_rank.frames.engines import engine_of
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.io.matching import Ids

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars_rank._params import Names
    from polars_rank.frames.engines import EngineFrame
    from polars_rank.frames.tables import E, Table

    class _JoinColumns(TypedDict, total=False):
        """The columns that `join_judgments` reads."""

        run: str | None
        by: Names | None
        query: Names
        doc: str
        score: str
        label: str
        subtopic: str | None


_FULL_JOIN: Any = {"how": "full", "coalesce": True, "nulls_equal": True}

#: Columns with the places of the rows of both tables in the result, rankings first.
_PLACE, _PLACE_BELOW = OWN + "place", OWN + "place below"
#: The id of a query with the text in a row.
_ID = OWN + "id"
#: A number of rows that no table of rankings has.
_BELOW = 2**31


@overload
def join_judgments(
    rankings: pl.LazyFrame, judgments: pl.LazyFrame | Table, **columns: Unpack[_JoinColumns]
) -> pl.LazyFrame: ...
@overload
def join_judgments(
    rankings: E, judgments: E | pl.LazyFrame | Table, **columns: Unpack[_JoinColumns]
) -> E: ...
@overload
def join_judgments(
    rankings: Table, judgments: pl.LazyFrame, **columns: Unpack[_JoinColumns]
) -> pl.LazyFrame: ...
@overload
def join_judgments(
    rankings: Table, judgments: Table, **columns: Unpack[_JoinColumns]
) -> pl.DataFrame: ...
@public
def join_judgments(
    rankings: pl.LazyFrame | Table | EngineFrame,
    judgments: pl.LazyFrame | Table | EngineFrame,
    *,
    run: str | None = RUN,
    by: Names | None = None,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
    subtopic: str | None = None,
) -> pl.LazyFrame | pl.DataFrame | EngineFrame:
    """Join rankings and judgments to the long table.

    The join is a full join: a document that was retrieved but not judged has a null label, and a
    document that was judged but not retrieved has a null score.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> run = pl.DataFrame({
    ...     "query": [1, 1], "doc": ["a", "b"], "score": [0.9, 0.8],
    ... })
    >>> judgments = pl.DataFrame({
    ...     "query": [1, 1], "doc": ["b", "c"], "label": [2, 1],
    ... })
    >>> pr.join_judgments(run, judgments).sort("doc")
    shape: (3, 4)
    ┌───────┬─────┬───────┬───────┐
    │ query ┆ doc ┆ score ┆ label │
    │ ---   ┆ --- ┆ ---   ┆ ---   │
    │ i64   ┆ str ┆ f64   ┆ i64   │
    ╞═══════╪═════╪═══════╪═══════╡
    │ 1     ┆ a   ┆ 0.9   ┆ null  │
    │ 1     ┆ b   ┆ 0.8   ┆ 2     │
    │ 1     ┆ c   ┆ null  ┆ 1     │
    └───────┴─────┴───────┴───────┘
    >>> bought = judgments.drop("label")
    >>> pr.join_judgments(run, bought).sort("doc").select("doc", "label")
    shape: (3, 2)
    ┌─────┬───────┐
    │ doc ┆ label │
    │ --- ┆ ---   │
    │ str ┆ i64   │
    ╞═════╪═══════╡
    │ a   ┆ null  │
    │ b   ┆ 1     │
    │ c   ┆ 1     │
    └─────┴───────┘

    Judgments of subtopics:

    >>> diverse = pl.DataFrame({
    ...     "query": 1, "doc": ["b", "b", "c"], "subtopic": ["x", "y", "x"],
    ...     "label": [2, 1, 0],
    ... })
    >>> table = pr.join_judgments(run, diverse, subtopic="subtopic")
    >>> table.sort("doc").drop("query", "score")
    shape: (3, 4)
    ┌─────┬───────┬────────────┬───────────┐
    │ doc ┆ label ┆ subtopics  ┆ grades    │
    │ --- ┆ ---   ┆ ---        ┆ ---       │
    │ str ┆ i64   ┆ list[str]  ┆ list[i64] │
    ╞═════╪═══════╪════════════╪═══════════╡
    │ a   ┆ null  ┆ null       ┆ null      │
    │ b   ┆ 2     ┆ ["x", "y"] ┆ [2, 1]    │
    │ c   ┆ 0     ┆ []         ┆ []        │
    └─────┴───────┴────────────┴───────────┘

    Parameters
    ----------
    rankings
        Table of retrieved documents, with a query, a document, and a score in each row. Other
        columns are kept.
    judgments
        Table of judged documents, with a query, a document, and a label in each row. Other
        columns are kept. Without a label column, every row is relevant (label 1), as for purchases;
        all other columns must then be dates or times.
    run
        Column of the run in `rankings`. Each run is joined with all judgments.
    by
        Columns to group by in `rankings`. Each combination of groups and runs is joined with all
        judgments. Also columns of `judgments` that describe queries, such as a category: all rows
        of the query then have the value.
    query
        Column or columns that identify the query, in both tables.
    doc
        Column of the document, in both tables.
    score
        Column of the score, higher is better.
    label
        Column of the relevance label in `judgments`.
    subtopic
        Column of `judgments` with the subtopic, if there is a row for each subtopic of a
        document. The result then has one row per document, with the highest label and the columns
        of intent-aware metrics: ``subtopics``, the list of subtopics with a label above 0;
        ``grades``, the list of their labels; and a list of their values for each other column of
        `judgments`, such as a weight.

    Returns
    -------
    DataFrame or LazyFrame
        A LazyFrame if one of the tables is a LazyFrame; a Spark DataFrame if `rankings` is one.
        Rows are in the order of `rankings`, which decides between tied documents with
        ``ties="input"``; then come the documents that were not retrieved. If `rankings` is sorted
        by query, this order holds within each query. On Spark, the order is unspecified.

    Raises
    ------
    SchemaError
        If a column is missing or in both tables, or if the types of a key column never match.
    DataError
        If a document has several labels for one query (and subtopic, and value of the column
        "judge" if there is one), not on Spark. A lazy result raises it when it is collected.

    See Also
    --------
    from_dicts : The same for dictionaries.
    join_spans : The same for chunks and spans of text.

    Notes
    -----
    A column of `rankings` that is constant within each query, such as the country of its user,
    also has its value in the rows of documents that were not retrieved. The same holds for
    columns that are constant within each ranking or each run. The value is null for queries that
    no run contains. All other columns are null in rows that come from only one of the tables.

    Integer keys match across widths, and strings match categoricals. A `RankWarning` names the runs
    of which no query or no retrieved document is judged, and gives the numbers of queries that only
    one of the tables has (not on Spark). Judgments that occur more than once count once.
    """
    if (engine := engine_of(rankings)) is not None:
        if subtopic is not None:
            raise ArgumentError(
                "is not supported on Spark; make the list columns with collect_list", "subtopic"
            )
        columns = {"run": run, "by": by, "query": query, "doc": doc, "score": score, "label": label}
        result: EngineFrame = engine.join_judgments(rankings, judgments, columns)
        return result
    if engine_of(judgments) is not None:
        raise ArgumentError(
            "is a Spark DataFrame, but `rankings` is not; convert `rankings` with "
            "spark.createDataFrame(...), or pass the .toArrow() of `judgments`",
            "judgments",
        )
    left = without_own_columns(lazy(rankings, "rankings"))
    right = without_own_columns(lazy(judgments, "judgments"))
    left_schema, both = schema_of(left), {"query": query, "doc": doc}
    given, right_schema = names("by", by), schema_of(right)
    attributes = [name for name in given if name not in left_schema and name in right_schema]
    by = [name for name in given if name not in attributes]
    roles = {"run": run, "by": by, **both, "score": score}
    named = Columns.find(left_schema, roles, table="`rankings`")
    queries, groups, keys = named.query, named.by, [*named.query, doc]
    right = _with_label(right, keys, label)
    roles = {**both, "label": label, "subtopic": subtopic}
    Columns.find(schema_of(right), roles, table="`judgments`")
    left = with_ids(left, right, queries)
    facets = [n for n in dict.fromkeys((subtopic or "subtopic", "judge")) if n in right_schema]
    unique = partial(judged_once, keys=[*keys, *facets], label=label, table="`judgments`")
    right = _with_lists(right, keys, label, subtopic, unique)
    right_schema = schema_of(right)
    for name in right_schema:
        if name in left_schema and name not in keys:
            raise SchemaError(
                f"column {name!r} is in `rankings` and in `judgments`; drop it from one of them, "
                "or rename it"
            )
    tables = "`rankings`", "`judgments`"
    types = key_types(left_schema, right_schema, keys, tables)
    left, right = cast_keys(left, types), cast_keys(right, types)
    described, right = right, right.drop(attributes)
    others = [name for name in left_schema if name not in (*groups, *keys, score)]
    for name in others:
        check_name(name)
    runs = [name for name in groups if name.lower() in RUNS or name == named.run]
    ids = Ids(runs, queries, doc, col(score).is_not_null(), col(label).is_not_null())
    retrieved = left.filter(ids.retrieved)
    in_batches = None if others else _joined_in_batches(left, right, groups, queries, keys, unique)
    if in_batches is None:
        once = right if subtopic is not None else right.map_batches(unique)
        joined = _joined(left, once, groups, queries, keys, others)
        joined = with_run_warning(joined, left, run, named, table="`rankings`")
    else:
        joined = in_batches
    if attributes:
        values = _of_queries(described, queries, attributes)
        joined = joined.join(
            values, on=queries, how="left", nulls_equal=True, maintain_order="left"
        )
    if not isinstance(rankings, pl.LazyFrame) and not isinstance(judgments, pl.LazyFrame):
        return ids.checked(joined.collect(engine="streaming"), retrieved, right)
    checked = ids.checked(joined, retrieved, right)
    return checked if in_batches is None else checked.set_sorted([*groups, *queries])


def with_ids(rankings: pl.LazyFrame, judgments: pl.LazyFrame, query: Sequence[str]) -> pl.LazyFrame:
    """Return rankings with the id of a query where they have its text, which judgments may have."""
    schema, other = schema_of(rankings), schema_of(judgments)
    name, *more = query
    if more or other.get("text") != pl.String or {schema[name], other[name]} != {pl.String}:
        return rankings
    texts = judgments.group_by(name).agg(col("text").first(), n=col("text").n_unique())
    once = texts.filter(
        col("n") == 1, col("text").is_unique(), ~col("text").is_in(col(name).implode())
    )
    ids = once.select(col("text").alias(name), col(name).alias(_ID))
    found = rankings.join(ids, on=name, how="left", maintain_order="left")
    return found.with_columns(pl.coalesce(_ID, name).alias(name)).drop(_ID)


def _of_queries(
    judgments: pl.LazyFrame, queries: Sequence[str], attributes: Sequence[str]
) -> pl.LazyFrame:
    """Return one row per query with its attributes; raise `DataError` if they differ."""
    checks = [
        Check(
            "ranking",
            col(name).drop_nulls().n_unique() > 1,
            f"column {name!r} (`by`) of `judgments` differs within a query; group by a column with "
            "one value per query",
        )
        for name in attributes
    ]
    values = (col(name).drop_nulls().first() for name in attributes)
    rows = judgments.group_by(queries).agg(*values, failed(checks, "ranking"))
    return raise_failed(rows, checks, keys={name: name for name in queries})


def _joined(
    left: pl.LazyFrame,
    right: pl.LazyFrame,
    groups: Sequence[str],
    queries: Sequence[str],
    keys: Sequence[str],
    others: Sequence[str],
) -> pl.LazyFrame:
    """Return the join of rankings and judgments; `others` are further columns of rankings."""
    left = left.with_row_index(_PLACE)
    if groups or others:
        left = left.cache()  # several parts of the plan read it
    if groups:
        every = left.select(groups).unique(maintain_order=True)
        right = every.join(right, how="cross", maintain_order="left_right")
    right = with_constants(right, left, others, [(*groups, *queries), queries, groups])
    right = right.with_row_index(_PLACE_BELOW, _BELOW)
    # A join that maintains the order takes twice as long.
    return (
        left.join(right, on=[*groups, *keys], **_FULL_JOIN)
        .with_columns(
            pl.coalesce(_PLACE, _PLACE_BELOW).alias(_PLACE),
            *(pl.coalesce(name, OWN + name) for name in others),
        )
        .drop(_PLACE_BELOW, *(OWN + name for name in others))
        .sort(_PLACE)
        .drop(_PLACE)
    )


def cast_keys(table: pl.LazyFrame, types: Mapping[str, pl.DataType]) -> pl.LazyFrame:
    """Return a table with its keys cast to these types."""
    schema = schema_of(table)
    # After any cast, even to the same type, Polars no longer knows that a table is sorted.
    casts = {name: dtype for name, dtype in types.items() if schema[name] != dtype}
    return table.cast(casts) if casts else table  # type: ignore[arg-type]


def _joined_in_batches(
    left: pl.LazyFrame,
    right: pl.LazyFrame,
    groups: Sequence[str],
    queries: Sequence[str],
    keys: Sequence[str],
    unique: Callable[[pl.DataFrame], pl.DataFrame],
) -> pl.LazyFrame | None:
    """Return the join of rankings and judgments in batches of queries.

    Return None if a table may be unsorted. `unique` returns judgments with one row per document.
    """
    rows, judged = _lists(left, [*groups, *queries]), _lists(right, queries, sort=True)
    if rows is None or judged is None:
        return None

    def documents(left: pl.LazyFrame, right: pl.LazyFrame) -> pl.LazyFrame:
        once = right.map_batches(unique)
        joined = left.join(once, on=keys, **_FULL_JOIN, maintain_order="left_right")
        return joined.sort(queries, maintain_order=True)

    def of_run(rows: pl.LazyFrame) -> pl.LazyFrame:
        return by_query([rows.set_sorted([*queries]), judged], queries, documents, "full")

    joined = by_group(rows, groups, of_run) if groups else of_run(rows)
    return joined.select([*dict.fromkeys([*schema_of(left), *schema_of(right)])])


def _lists(table: pl.LazyFrame, keys: Sequence[str], *, sort: bool = False) -> pl.LazyFrame | None:
    schema = schema_of(table)
    columns = [name for name in schema if name not in keys]
    return Keys.of(Columns.find(schema, {"query": keys})).lists(table, columns, sort=sort)


def _with_label(judgments: pl.LazyFrame, keys: Sequence[str], label: str) -> pl.LazyFrame:
    """Return judgments with the label 1 if no column may hold labels."""
    schema = schema_of(judgments)
    if label != "label" or label in schema or not {*keys} <= {*schema}:
        return judgments
    if all(dtype.is_temporal() for name, dtype in schema.items() if name not in keys):
        return judgments.with_columns(pl.lit(1, pl.Int64).alias(label))
    selected = ", ".join(map(repr, keys))
    raise missing_column(
        "`label`", label, schema, "`judgments`",
        " Name the column of labels with label=; if every judged document is relevant, pass "
        f"judgments.select({selected})",
    )  # fmt: skip


def judged_once(
    judgments: pl.DataFrame,
    *,
    keys: Sequence[str],
    label: str,
    table: str,
    what: str = "document",
    remedy: str = "",
) -> pl.DataFrame:
    """Return the first of the rows of each document; raise `DataError` if their labels differ.

    `keys` identify documents, and also subtopics and judges if there are any. `what` is the word
    for them in the message, to which `remedy` is added.
    """
    repeated = judgments[[*keys]].is_duplicated()
    if not repeated.any():
        return judgments
    labels = judgments.filter(repeated)[[*keys, label]].unique().sort([*keys, label])
    refuse(
        labels.group_by(keys, maintain_order=True).agg(label),
        col(label).list.len() > 1,
        f"{table} have several labels for one {what} of a query",
        f"keep one of them{remedy}",
    )
    return judgments.unique([*keys], keep="first", maintain_order=True)


def without_own_columns(table: pl.LazyFrame) -> pl.LazyFrame:
    """Return a table without the numbers of rankings from `scan_log`: the join changes rankings."""
    return table.drop(name for name in schema_of(table) if name.startswith(OWN))


def _with_lists(
    judgments: pl.LazyFrame,
    keys: Sequence[str],
    label: str,
    subtopic: str | None,
    unique: Callable[[pl.DataFrame], pl.DataFrame],
) -> pl.LazyFrame:
    """Return one row per document, with lists of the subtopics to which it is relevant.

    `unique` returns judgments with one row per document and subtopic.
    """
    if subtopic is None:
        return judgments
    schema = schema_of(judgments)
    others = [name for name in schema if name not in (*keys, label, subtopic)]
    for name in ("subtopics", "grades"):
        if name in others or name in keys:
            raise SchemaError(
                f"the judgments already have a column {name!r}, which `subtopic` adds; rename it"
            )
    relevant = col(label) > 0

    def listed(name: str) -> pl.Expr:
        # Sorted, so that the order of rows does not matter.
        return col(name).filter(relevant).sort_by(col(subtopic).filter(relevant))

    once = judgments.map_batches(unique)
    return once.group_by(keys, maintain_order=True).agg(
        col(label).max(),
        listed(subtopic).alias("subtopics"),
        listed(label).alias("grades"),
        *(listed(name) for name in others),
    )


def with_constants(
    judgments: pl.LazyFrame,
    rankings: pl.LazyFrame,
    others: Sequence[str],
    levels: Sequence[Sequence[str]],
) -> pl.LazyFrame:
    """Return judgments with the columns that are constant within a ranking, a query, or a run.

    Other columns describe documents, and are null in the rows of judgments.
    """
    if not others:
        return judgments
    parts = list(dict.fromkeys(tuple(keys) for keys in levels if keys))
    for index, keys in enumerate(parts):
        constants = (
            rankings.group_by(keys)
            .agg(cs.by_name(others).first(), cs.by_name(others).n_unique().name.prefix(OWN))
            .select(
                *keys,
                *(
                    pl.when(col(OWN + name).max() <= 1).then(name).alias(f"{OWN}{index} {name}")
                    for name in others
                ),
            )
        )
        judgments = judgments.join(
            constants, on=keys, how="left", nulls_equal=True, maintain_order="left"
        )
    found = {name: [f"{OWN}{index} {name}" for index in range(len(parts))] for name in others}
    values = (pl.coalesce(columns).alias(OWN + name) for name, columns in found.items())
    return judgments.with_columns(values).drop(chain(*found.values()))
