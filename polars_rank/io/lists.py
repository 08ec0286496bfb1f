"""`from_lists`: the long table from a table with list columns and one row per query."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import polars as pl
from polars import col

from polars_rank._params import OWN, public
from polars_rank.checks import refuse
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.frames.ids import common_type
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.io.judgments import judged_once
from polars_rank.io.matching import Ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank._params import Names

AnyFrame = TypeVar("AnyFrame", pl.DataFrame, pl.LazyFrame)


_ROW, _POSITION, _ELEMENT = OWN + "row", OWN + "position", OWN + "element"
#: Columns that the long table adds.
_ADDED = ("doc", "score", "label")

#: Number of fields of structs (id, score) and (id, label).
_PAIR = 2

#: Elements of list columns in messages, by parameter.
_ELEMENT_TYPES = {
    "retrieved": "ids, or of structs (id, score)",
    "relevant": "ids, or of structs (id, label)",
    "labels": "numbers",
    "scores": "numbers",
}

#: Errors for invalid combinations of parameters: whether (retrieved, relevant, labels) are given.
_INVALID_COMBINATIONS = {
    (False, False, False): "`retrieved` and `relevant`, or `labels`, must be given; found neither",
    (True, False, False): "`retrieved` needs judgments; also pass `relevant` or `labels`",
    (False, True, False): "`relevant` needs rankings; also pass `retrieved`",
    (False, True, True): (
        "`labels` are labels of retrieved documents; for labels of relevant documents, pass "
        "`retrieved`, and a column of structs (id, label) as `relevant`"
    ),
    (True, True, True): (
        "`labels` and `relevant` cannot both be given; leave one out, or pass a column of structs "
        "(id, label) as `relevant`"
    ),
}


class _ListColumns(NamedTuple):
    """The list columns of `from_lists`, by parameter."""

    retrieved: str | None
    relevant: str | None
    labels: str | None
    scores: str | None

    @property
    def given(self) -> list[str]:
        return [column for column in self if column is not None]


@public
def from_lists(
    frame: AnyFrame,
    *,
    retrieved: str | None = None,
    relevant: str | None = None,
    labels: str | None = None,
    scores: str | None = None,
    query: Names | None = None,
) -> AnyFrame:
    """Convert a table with one row per query and list columns to the long table.

    =======================================  ==================================================
    columns                                  labels
    =======================================  ==================================================
    ``retrieved`` and ``relevant`` ids       1 for documents in ``relevant``, 0 for others
    ``retrieved`` and ``relevant`` structs   as in the structs; null for documents not in them
    ``retrieved`` and ``labels``             as in ``labels``, by position
    ``labels`` only                          as in ``labels``; ``doc`` is the position
    =======================================  ==================================================

    Documents in `relevant` that were not retrieved get rows with a null score.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> lists = pl.DataFrame({
    ...     "shown": [["a", "b"], ["c"]], "bought": [["b", "d"], []],
    ... })
    >>> pr.from_lists(lists, retrieved="shown", relevant="bought")
    shape: (4, 4)
    ┌───────┬─────┬───────┬───────┐
    │ query ┆ doc ┆ score ┆ label │
    │ ---   ┆ --- ┆ ---   ┆ ---   │
    │ i64   ┆ str ┆ f64   ┆ i64   │
    ╞═══════╪═════╪═══════╪═══════╡
    │ 0     ┆ a   ┆ -1.0  ┆ 0     │
    │ 0     ┆ b   ┆ -2.0  ┆ 1     │
    │ 0     ┆ d   ┆ null  ┆ 1     │
    │ 1     ┆ c   ┆ -1.0  ┆ 0     │
    └───────┴─────┴───────┴───────┘

    Parameters
    ----------
    frame
        Table with one row per query.
    retrieved
        Column with lists of the ids of retrieved documents, best first; or with lists of structs
        (id, score), in any order.
    relevant
        Column with lists of the ids of all relevant documents; or with lists of structs
        (id, label).
    labels
        Column with lists of the labels of the retrieved documents, in the order of `retrieved`.
    scores
        Column with lists of the scores of the retrieved documents, in the order of `retrieved`,
        which may be any. Default: the first document is the best.
    query
        Column or columns that identify the query. Default: the column ``query``, or the row number
        from 0 if there is no such column.

    Returns
    -------
    DataFrame or LazyFrame
        A LazyFrame if `frame` is a LazyFrame. Columns: `query`, ``doc``, ``score``, ``label``,
        and all other columns of `frame`. Without scores, the score is minus the position, so that
        no scores are tied.

    Raises
    ------
    ArgumentError
        If the parameters do not name both rankings and judgments.
    SchemaError
        If a column is missing or has the wrong type, if `frame` already has a column ``doc``,
        ``score``, or ``label``, or if ids are floats, which probably are scores.
    DataError
        If an id is null, if `labels` or `scores` are not as long as `retrieved`, or if a list of
        `relevant` has several labels for one document.

    Notes
    -----
    A null list in `retrieved` counts as empty. A null list in `relevant` or `labels` means that
    no document was judged: the labels are null. A null list in `scores`, or a null score, means
    that the documents were not retrieved. A query with neither retrieved nor relevant documents
    keeps one row, in which doc, score, and label are null. Duplicate documents are kept; an
    evaluation reports them. A `RankWarning` says if no retrieved document is in any list of
    `relevant`.
    """
    lists = _ListColumns(retrieved, relevant, labels, scores)
    given = (retrieved is not None, relevant is not None, labels is not None)
    problem = _INVALID_COMBINATIONS.get(given)
    if problem is not None:
        if scores is not None:
            problem += "; `scores` are scores of the documents in `retrieved` or `labels`"
        raise ArgumentError(problem)
    rows = lazy(frame)
    schema = schema_of(rows)
    roles = {"query": query, "retrieved": retrieved, "relevant": relevant}
    roles |= {"labels": labels, "scores": scores}
    keys = Columns.find(schema, roles, optional=("query",)).query or ("query",)
    if query is None and "query" not in schema:
        rows = rows.with_row_index("query").cast({"query": pl.Int64})
    for name in schema:
        if name in _ADDED and name not in lists.given:
            raise SchemaError(f"the table already has a column {name!r}; rename it or drop it")
    if scores is not None and retrieved is not None and _has_structs(schema[retrieved]):
        raise ArgumentError(
            f"column {retrieved!r} (`retrieved`) already has scores; leave out `scores`"
        )
    arrays = [column for column in lists.given if isinstance(schema[column], pl.Array)]
    rows = rows.with_columns(col(arrays).arr.to_list())

    schema = rows.collect_schema()
    long_table = partial(_long_table, lists=lists, keys=keys, id_type=_id_type(schema, lists))
    long_schema = long_table(pl.DataFrame(schema=schema)).schema
    # Rows are independent, so batches are converted one by one, in flat memory.
    table = rows.map_batches(long_table, schema=long_schema, streamable=True)
    ids = None if lists.relevant is None else _ids(schema, lists.relevant, keys)
    if isinstance(frame, pl.LazyFrame):
        return table if ids is None else ids.checked(table)
    return table.collect() if ids is None else ids.checked(table.collect())


def _ids(schema: pl.Schema, relevant: str, keys: Sequence[str]) -> Ids:
    """Return the ids of the long table; without labels, all retrieved documents are judged."""
    graded = _has_structs(schema[relevant])
    judged = col("label").is_not_null() if graded else col("label") > 0
    run = [name for name in schema if name == "run" and name not in keys]
    adjective = "judged" if graded else "relevant"
    return Ids(run, keys, "doc", col("score").is_not_null(), judged, adjective, separate=False)


def _long_table(
    rows: pl.DataFrame, lists: _ListColumns, keys: Sequence[str], id_type: pl.DataType | None
) -> pl.DataFrame:
    """Return the long table of a batch of rows."""
    rows = rows.with_row_index(_ROW)
    ranked = lists.given[0]  # `retrieved`, or `labels` alone
    for column in (lists.labels, lists.scores):
        if column is not None and column != ranked:
            refuse(
                rows.select(*keys, col(ranked, column).list.len()),
                col(ranked).fill_null(0) != col(column),
                f"lists in column {column!r} are not as long as in {ranked!r}",
                "each retrieved document needs one element, which may be null",
            )
    if lists.retrieved is None:
        docs = _elements(rows, ranked, "label").with_columns(doc=col(_POSITION).cast(pl.Int64))
    else:
        docs = _documents(rows, ranked, "score", keys, id_type)
        docs = _with_elements(docs, rows, lists.labels, "label")
    docs = _with_elements(docs, rows, lists.scores, "score")
    if "score" not in docs.columns:
        docs = docs.with_columns(score=-col(_POSITION).cast(pl.Float64))
    if lists.relevant is not None:
        judged = _documents(rows, lists.relevant, "label", keys, id_type).drop(_POSITION)
        if "label" in judged.columns:
            labels = rows.select(_ROW, *keys).join(judged, on=_ROW, maintain_order="left_right")
            where = f"lists in column {lists.relevant!r}"
            labels = judged_once(labels, keys=[_ROW, *keys, "doc"], label="label", table=where)
            judged = labels.drop(keys)
        known = rows.filter(col(lists.relevant).is_not_null())[_ROW]
        docs = _with_judged(docs, judged, known)
    table = rows.drop(lists.given).join(docs, on=_ROW, how="left", maintain_order="left_right")
    return table.select(*keys, *_ADDED, pl.exclude(*keys, *_ADDED, _ROW, _POSITION))


def _elements(rows: pl.DataFrame, column: str, *fields: str) -> pl.DataFrame:
    """Return the elements of lists with row and position; structs become columns `fields`."""
    elements = rows.filter(col(column).list.len() > 0).select(
        _ROW,
        pl.int_ranges(1, col(column).list.len() + 1).alias(_POSITION),
        col(column).alias(_ELEMENT),
    )
    elements = elements.explode(_POSITION, _ELEMENT)
    if isinstance(elements.schema[_ELEMENT], pl.Struct):
        return elements.with_columns(col(_ELEMENT).struct.rename_fields(fields)).unnest(_ELEMENT)
    return elements.rename({_ELEMENT: fields[0]})


def _with_elements(
    docs: pl.DataFrame, rows: pl.DataFrame, column: str | None, name: str
) -> pl.DataFrame:
    """Return the documents with the elements of a list column, joined by position."""
    if column is None:
        return docs
    elements = _elements(rows, column, name)
    return docs.join(elements, on=[_ROW, _POSITION], how="left", maintain_order="left")


def _documents(
    rows: pl.DataFrame, column: str, value: str, keys: Sequence[str], id_type: pl.DataType | None
) -> pl.DataFrame:
    """Return the documents in a list column; structs also have the column `value`."""
    docs = _elements(rows, column, "doc", value)
    if docs["doc"].has_nulls():
        blank = docs.filter(col("doc").is_null()).join(rows.select(_ROW, *keys), on=_ROW)
        refuse(
            blank.select(*keys, position=_POSITION),
            pl.lit(value=True),
            f"column {column!r} has lists with a null id",
            f"remove null ids with pl.col({column!r}).list.drop_nulls()",
        )
    return docs if id_type is None else docs.with_columns(col("doc").cast(id_type))


def _with_judged(docs: pl.DataFrame, judged: pl.DataFrame, known: pl.Series) -> pl.DataFrame:
    """Return the documents with labels; rows in `known` have a list of relevant documents."""
    graded = "label" in judged.columns
    if not graded:
        judged = judged.unique(maintain_order=True).with_columns(label=pl.lit(1, pl.Int64))
    key = [_ROW, "doc"]
    docs = docs.join(judged, on=key, how="full", coalesce=True, maintain_order="left_right")
    if graded:
        return docs
    label = pl.when(col(_ROW).is_in(known.implode())).then(col("label").fill_null(0))
    return docs.with_columns(label.alias("label"))


def _id_type(schema: pl.Schema, lists: _ListColumns) -> pl.DataType | None:
    """Return the type in which ids are compared; raise `SchemaError` for invalid columns."""
    named = lists._asdict().items()
    types = {name: _element(name, column, schema[column]) for name, column in named if column}
    if lists.relevant is None:
        return None
    ids = types["retrieved"], types["relevant"]
    common = common_type(*ids)
    if common is None:
        raise SchemaError(
            f"ids are {ids[0]} in column {lists.retrieved!r} and {ids[1]} in column "
            f"{lists.relevant!r}, so none would match; cast the elements of one of them"
        )
    return common


def _element(name: str, column: str, dtype: pl.DataType) -> pl.DataType:
    """Return the type of ids or numbers in a list column; raise `SchemaError` for other types."""
    inner = dtype.inner if isinstance(dtype, pl.List) else dtype
    fields = [field.dtype for field in inner.fields] if isinstance(inner, pl.Struct) else []
    ids = name not in ("labels", "scores")
    element, number = (inner, pl.Null()) if ids else (inner, inner)
    if len(fields) == _PAIR and ids:
        element, number = fields
    fits = isinstance(dtype, pl.List) and not element.is_nested()
    if not fits or not (number.is_numeric() or number in (pl.Boolean, pl.Null)):
        raise SchemaError(
            f"column {column!r} (`{name}`) must hold lists of {_ELEMENT_TYPES[name]}; found {dtype}"
        )
    if ids and element.is_float():
        values = "scores" if name == "retrieved" else "labels"
        raise SchemaError(
            f"column {column!r} (`{name}`) must hold lists of ids; found {dtype}; if it holds "
            f"{values}, pass it as `{values}`",
        )
    return cast("pl.DataType", element)


def _has_structs(dtype: pl.DataType) -> bool:
    return isinstance(dtype, (pl.List, pl.Array)) and isinstance(dtype.inner, pl.Struct)
