"""`from_lists`: one row per query, with list columns, as the long table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import polars as pl
from polars import col

from polars_rank._params import OWN, check_there, names
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.checks import refuse
from polars_rank.frames.tables import lazy, schema_of
from polars_rank.io.ids import common_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank._params import Names

AnyFrame = TypeVar("AnyFrame", pl.DataFrame, pl.LazyFrame)


_ROW, _PLACE, _CELL = OWN + "row", OWN + "place", OWN + "cell"
_NEW = ("doc", "score", "label")
_PAIR = 2
_ELEMENTS = {
    "retrieved": "ids, or of structs with an id and a score",
    "relevant": "ids, or of structs with an id and a grade",
    "labels": "numbers",
    "scores": "numbers",
}

# What is unclear when just these of (retrieved, relevant, labels) are given.
_UNCLEAR = {
    (False, False, False): "give `retrieved` and `relevant`, or `labels`; found none of them",
    (True, False, False): "`retrieved` has no judgments; also give `relevant` or `labels`",
    (False, True, False): "`relevant` has no ranking; also give `retrieved`",
    (False, True, True): (
        "`labels` go with ranked documents; for grades of relevant documents, make `relevant` a "
        "list of structs of an id and a grade, and also give `retrieved`"
    ),
    (True, True, True): (
        "`labels` and `relevant` are both judgments; leave one out, or make `relevant` a list "
        "of structs of an id and a grade"
    ),
}


class _Lists(NamedTuple):
    """Names of the list columns that `from_lists` was given."""

    retrieved: str | None
    relevant: str | None
    labels: str | None
    scores: str | None

    @property
    def given(self) -> list[str]:
        return [column for column in self if column is not None]


def from_lists(
    frame: AnyFrame,
    *,
    retrieved: str | None = None,
    relevant: str | None = None,
    labels: str | None = None,
    scores: str | None = None,
    query: Names | None = None,
) -> AnyFrame:
    """Turn one row per query, with list columns, into the long table.

    =======================================  =================================================
    given                                    labels
    =======================================  =================================================
    ``retrieved`` and ``relevant`` ids       1 = in ``relevant``, 0 = not
    ``retrieved`` and ``relevant`` structs   the grade in the struct; not in ``relevant``: null
    ``retrieved`` and ``labels``             from ``labels``, by their place in the list
    ``labels`` alone                         as they are; ``doc`` is the place in the list
    =======================================  =================================================

    Documents of ``relevant`` that were not retrieved get rows with a null score. With ``scores``,
    the retrieved documents may be in any order.

    Parameters
    ----------
    frame
        One row per query.
    retrieved
        Column with the ids of the retrieved documents, best first; or with structs of an id and
        a score, in any order.
    relevant
        Column with the ids of all the relevant documents; or with structs of an id and a grade.
    labels
        Column with the labels of the retrieved documents, by their place in the list.
    scores
        Column with the scores of the retrieved documents, by their place in the list. By default
        the first document is the best.
    query
        Column or columns that identify the query. By default the column ``query``, or if there
        is none, the number of the row, from 0.

    Returns
    -------
    DataFrame or LazyFrame
        As given: the query columns, ``doc``, ``score`` (the one in ``scores`` or the struct, or
        else minus the place in the list, so that a list has no ties), ``label``, and all other
        columns.

    Raises
    ------
    ArgumentError
        If the columns given do not say what is retrieved and what is relevant.
    SchemaError
        If a column is missing, is in the way of a new one, or does not hold such lists; if ids
        are floats, which are scores by mistake.
    DataError
        If a list holds a null id, or ``labels`` or ``scores`` are not as long as ``retrieved``.

    Notes
    -----
    A null list in ``retrieved`` counts as empty. A null list in ``relevant`` or ``labels`` means
    that nothing was judged: these labels are null. A null list in ``scores``, or a null score,
    means that these documents were not retrieved. A query with neither retrieved nor relevant
    documents keeps one row, in which doc, score and label are null, so that it does not vanish.
    A document that is twice in a list stays twice, for evaluation to find.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> lists = pl.DataFrame({"shown": [["a", "b"], ["c"]], "bought": [["b", "d"], []]})
    >>> pr.from_lists(lists, retrieved="shown", relevant="bought").rows()
    [(0, 'a', -1.0, 0), (0, 'b', -2.0, 1), (0, 'd', None, 1), (1, 'c', -1.0, 0)]
    """
    lists: _Lists = _Lists(retrieved, relevant, labels, scores)
    problem = _UNCLEAR.get((retrieved is not None, relevant is not None, labels is not None))
    if problem is not None:
        if scores is not None:
            problem += "; `scores` are those of the documents in `retrieved` or `labels`"
        raise ArgumentError(problem)
    rows = lazy(frame)
    schema = schema_of(rows)
    for parameter, column in lists._asdict().items():
        if column is not None:
            check_there(parameter, column, schema)
    for column in names("query", query):
        check_there("query", column, schema)
    keys = names("query", query) or ("query",)
    if query is None and "query" not in schema:
        rows = rows.with_row_index("query").cast({"query": pl.Int64})
    _check_columns(schema, lists, keys)
    if scores is not None and retrieved is not None and _has_structs(schema[retrieved]):
        msg = f"{retrieved!r} has structs with a score each; leave out `scores`"
        raise ArgumentError(msg, "scores")
    arrays = [column for column in lists.given if isinstance(schema[column], pl.Array)]
    rows = rows.with_columns(col(arrays).arr.to_list())

    schema = rows.collect_schema()
    spread = partial(_spread, lists=lists, keys=keys, id_type=_id_type(schema, lists))
    long_schema = spread(pl.DataFrame(schema=schema)).schema
    # Batch after batch, as no row needs another: that keeps memory flat.
    table = rows.map_batches(spread, schema=long_schema, streamable=True)
    return table if isinstance(frame, pl.LazyFrame) else table.collect()


def _spread(
    rows: pl.DataFrame, lists: _Lists, keys: Sequence[str], id_type: pl.DataType | None
) -> pl.DataFrame:
    """Return the long table of some rows with lists."""
    rows = rows.with_row_index(_ROW)
    ranked = lists.given[0]  # `retrieved`, or `labels` alone
    for column in (lists.labels, lists.scores):
        if column is not None and column != ranked:
            _refuse_lengths(rows, ranked, column, keys)
    if lists.retrieved is None:
        docs = _cells(rows, ranked, "label").with_columns(doc=col(_PLACE).cast(pl.Int64))
    else:
        docs = _documents(rows, ranked, "score", keys, id_type)
        docs = _with_cells(docs, rows, lists.labels, "label")
    docs = _with_cells(docs, rows, lists.scores, "score")
    if "score" not in docs.columns:
        docs = docs.with_columns(score=-col(_PLACE).cast(pl.Float64))
    if lists.relevant is not None:
        judged = _documents(rows, lists.relevant, "label", keys, id_type).drop(_PLACE)
        known = rows.filter(col(lists.relevant).is_not_null())[_ROW]
        docs = _with_judged(docs, judged, known)
    table = rows.drop(lists.given).join(docs, on=_ROW, how="left", maintain_order="left_right")
    return table.select(*keys, *_NEW, pl.exclude(*keys, *_NEW, _ROW, _PLACE))


def _cells(rows: pl.DataFrame, column: str, *fields: str) -> pl.DataFrame:
    """Return the elements of all lists, with their row and place; structs as columns `fields`."""
    cells = rows.filter(col(column).list.len() > 0).select(
        _ROW, pl.int_ranges(1, col(column).list.len() + 1).alias(_PLACE), col(column).alias(_CELL)
    )
    cells = cells.explode(_PLACE, _CELL)
    if isinstance(cells.schema[_CELL], pl.Struct):
        return cells.with_columns(col(_CELL).struct.rename_fields(fields)).unnest(_CELL)
    return cells.rename({_CELL: fields[0]})


def _with_cells(
    docs: pl.DataFrame, rows: pl.DataFrame, column: str | None, name: str
) -> pl.DataFrame:
    """Add the elements of a column of lists, if there is one, by the place of the documents."""
    if column is None:
        return docs
    cells = _cells(rows, column, name)
    return docs.join(cells, on=[_ROW, _PLACE], how="left", maintain_order="left")


def _documents(
    rows: pl.DataFrame, column: str, value: str, keys: Sequence[str], id_type: pl.DataType | None
) -> pl.DataFrame:
    """Return the documents in all lists of a column, with a column `value` if they have one."""
    docs = _cells(rows, column, "doc", value)
    if docs["doc"].has_nulls():
        blank = docs.filter(col("doc").is_null()).join(rows.select(_ROW, *keys), on=_ROW)
        refuse(
            blank.select(*keys, place=_PLACE),
            pl.lit(value=True),
            f"{column!r} has lists with a null id",
            f"remove them, as in pl.col({column!r}).list.drop_nulls()",
        )
    return docs if id_type is None else docs.with_columns(col("doc").cast(id_type))


def _refuse_lengths(rows: pl.DataFrame, ranked: str, other: str, keys: Sequence[str]) -> None:
    refuse(
        rows.select(*keys, col(ranked, other).list.len()),
        col(ranked).fill_null(0) != col(other),
        f"{other!r} is not as long as {ranked!r}",
        "give one element for each retrieved document, null where nothing is known",
    )


def _with_judged(docs: pl.DataFrame, judged: pl.DataFrame, known: pl.Series) -> pl.DataFrame:
    """Add the judged documents; plain ids are all that is relevant in the `known` rows."""
    graded = "label" in judged.columns
    if not graded:
        judged = judged.unique(maintain_order=True).with_columns(label=pl.lit(1, pl.Int64))
    key = [_ROW, "doc"]
    docs = docs.join(judged, on=key, how="full", coalesce=True, maintain_order="left_right")
    if graded:
        return docs
    label = pl.when(col(_ROW).is_in(known.implode())).then(col("label").fill_null(0))
    return docs.with_columns(label.alias("label"))


def _check_columns(schema: pl.Schema, lists: _Lists, keys: Sequence[str]) -> None:
    for name in schema:
        if name in _NEW and name not in lists.given:
            msg = f"the frame has a column {name!r} already; rename it or drop it"
            raise SchemaError(msg)
        if name in keys and name in lists.given:
            msg = f"column {name!r} cannot be both the query and a list of its documents"
            raise ArgumentError(msg)


def _id_type(schema: pl.Schema, lists: _Lists) -> pl.DataType | None:
    """Check the types of the lists; return the one in which two lists of ids are compared."""
    named = lists._asdict().items()
    types = {name: _element(name, column, schema[column]) for name, column in named if column}
    if lists.relevant is None:
        return None
    ids = types["retrieved"], types["relevant"]
    common = common_type(*ids)
    if common is None:
        msg = (
            f"{lists.retrieved!r} holds ids of type {ids[0]} and {lists.relevant!r} of type "
            f"{ids[1]}, so that none would match; cast the elements of one of them"
        )
        raise SchemaError(msg)
    return common


def _element(name: str, column: str, dtype: pl.DataType) -> pl.DataType:
    """Return the type of the ids or labels in a column of lists; raise if they do not fit."""
    inner = dtype.inner if isinstance(dtype, pl.List) else dtype
    fields = [field.dtype for field in inner.fields] if isinstance(inner, pl.Struct) else []
    ids = name not in ("labels", "scores")
    element, number = (inner, pl.Null()) if ids else (inner, inner)
    if len(fields) == _PAIR and ids:
        element, number = fields
    fits = isinstance(dtype, pl.List) and not element.is_nested()
    if not fits or not (number.is_numeric() or number in (pl.Boolean, pl.Null)):
        msg = f"column {column!r} (`{name}`) must have lists of {_ELEMENTS[name]}; found {dtype}"
        raise SchemaError(msg, name)
    if ids and element.is_float():
        msg = f"column {column!r} (`{name}`) must have lists of ids; found {dtype}: are these " + (
            "scores? Name the column with scores=, beside `retrieved` ids or `labels`"
            if name == "retrieved"
            else "labels? Name the column with labels="
        )
        raise SchemaError(msg, name)
    return cast("pl.DataType", element)


def _has_structs(dtype: pl.DataType) -> bool:
    return isinstance(dtype, (pl.List, pl.Array)) and isinstance(dtype.inner, pl.Struct)
