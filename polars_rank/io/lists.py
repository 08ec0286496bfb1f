"""`from_lists`, `from_dicts`, `from_arrays`: the long table from values of Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, TypeVar, cast

import polars as pl
from polars import col

from polars_rank._params import OWN, public
from polars_rank.checks import refuse
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, SchemaError, number_of, short
from polars_rank.frames.ids import common_type
from polars_rank.frames.tables import is_table, lazy, schema_of
from polars_rank.io.judgments import judged_once
from polars_rank.io.matching import Ids

if TYPE_CHECKING:
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
    named = {"retrieved": retrieved, "relevant": relevant, "labels": labels, "scores": scores}
    lists = {role: column for role, column in named.items() if column is not None}
    problem = _INVALID_COMBINATIONS.get(
        ("retrieved" in lists, "relevant" in lists, "labels" in lists)
    )
    if problem is not None:
        if scores is not None:
            problem += "; `scores` are scores of the documents in `retrieved` or `labels`"
        raise ArgumentError(problem)
    rows = lazy(frame)
    schema = schema_of(rows)
    keys = Columns.find(schema, {"query": query, **named}, optional=("query",)).query or ("query",)
    if query is None and "query" not in schema:
        rows = rows.with_row_index("query").cast({"query": pl.Int64})
    for name in schema:
        if name in _ADDED and name not in lists.values():
            raise SchemaError(f"the table already has a column {name!r}; rename it or drop it")
    if scores is not None and retrieved is not None and _has_structs(schema[retrieved]):
        raise ArgumentError(
            f"column {retrieved!r} (`retrieved`) already has scores; leave out `scores`"
        )
    arrays = [column for column in lists.values() if isinstance(schema[column], pl.Array)]
    rows = rows.with_columns(col(arrays).arr.to_list())

    schema = rows.collect_schema()
    long_table = partial(_long_table, lists=lists, keys=keys, id_type=_id_type(schema, lists))
    long_schema = long_table(pl.DataFrame(schema=schema)).schema
    # Rows are independent, so batches are converted one by one, in flat memory.
    table = rows.map_batches(long_table, schema=long_schema, streamable=True)
    found = table if isinstance(frame, pl.LazyFrame) else table.collect()
    if relevant is None:
        return found
    # Without labels, all retrieved documents are judged.
    is_graded = _has_structs(schema[relevant])
    judged = col("label").is_not_null() if is_graded else col("label") > 0
    run = [name for name in schema if name == "run" and name not in keys]
    adjective = "judged" if is_graded else "relevant"
    ids = Ids(run, keys, "doc", col("score").is_not_null(), judged, adjective, separate=False)
    return ids.checked(found)


def _long_table(
    rows: pl.DataFrame, lists: Mapping[str, str], keys: Sequence[str], id_type: pl.DataType | None
) -> pl.DataFrame:
    """Return the long table of a batch of rows."""
    rows = rows.with_row_index(_ROW)
    ranked = next(iter(lists.values()))  # `retrieved`, or `labels` alone
    relevant = lists.get("relevant")
    for column in (lists.get("labels"), lists.get("scores")):
        if column is not None and column != ranked:
            refuse(
                rows.select(*keys, col(ranked, column).list.len()),
                col(ranked).fill_null(0) != col(column),
                f"lists in column {column!r} are not as long as in {ranked!r}",
                "each retrieved document needs one element, which may be null",
            )
    if "retrieved" not in lists:
        docs = _elements(rows, ranked, "label").with_columns(doc=col(_POSITION).cast(pl.Int64))
    else:
        docs = _documents(rows, ranked, "score", keys, id_type)
        docs = _with_elements(docs, rows, lists.get("labels"), "label")
    docs = _with_elements(docs, rows, lists.get("scores"), "score")
    if "score" not in docs.columns:
        docs = docs.with_columns(score=-col(_POSITION).cast(pl.Float64))
    if relevant is not None:
        judged = _documents(rows, relevant, "label", keys, id_type).drop(_POSITION)
        if "label" in judged.columns:
            labels = rows.select(_ROW, *keys).join(judged, on=_ROW, maintain_order="left_right")
            where = f"lists in column {relevant!r}"
            labels = judged_once(labels, keys=[_ROW, *keys, "doc"], label="label", table=where)
            judged = labels.drop(keys)
        known = rows.filter(col(relevant).is_not_null())[_ROW]
        docs = _with_judged(docs, judged, known)
    table = rows.drop(lists.values()).join(docs, on=_ROW, how="left", maintain_order="left_right")
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


def _id_type(schema: pl.Schema, lists: Mapping[str, str]) -> pl.DataType | None:
    """Return the type in which ids are compared; raise `SchemaError` for invalid columns."""
    types = {name: _element(name, column, schema[column]) for name, column in lists.items()}
    if "relevant" not in lists:
        return None
    ids = types["retrieved"], types["relevant"]
    common = common_type(*ids)
    if common is None:
        raise SchemaError(
            f"ids are {ids[0]} in column {lists['retrieved']!r} and {ids[1]} in column "
            f"{lists['relevant']!r}, so none would match; cast the elements of one of them"
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


_RUN, _ROWS = OWN + "run", OWN + "rows"
_KEYS = {"query": "queries", "doc": "documents"}


class RanxObject(Protocol):
    """A `Run` or `Qrels` of ranx."""

    def to_dict(self) -> Mapping[Any, Mapping[Any, float]]:
        """Return the scores or labels by query and document."""


Nested: TypeAlias = "Mapping[Any, Mapping[Any, float]] | RanxObject"


@public
def from_dicts(rankings: Nested | Mapping[Any, Nested], judgments: Nested) -> pl.DataFrame:
    """Convert dictionaries of scores and labels to the long table.

    Examples
    --------
    >>> import polars_rank as pr
    >>> judgments = {"q1": {"a": 1, "b": 0, "c": 2}}
    >>> bm25 = {"q1": {"a": 0.9, "b": 0.8}}
    >>> pr.from_dicts(bm25, judgments)
    shape: (3, 4)
    ┌───────┬─────┬───────┬───────┐
    │ query ┆ doc ┆ score ┆ label │
    │ ---   ┆ --- ┆ ---   ┆ ---   │
    │ str   ┆ str ┆ f64   ┆ i64   │
    ╞═══════╪═════╪═══════╪═══════╡
    │ q1    ┆ a   ┆ 0.9   ┆ 1     │
    │ q1    ┆ b   ┆ 0.8   ┆ 0     │
    │ q1    ┆ c   ┆ null  ┆ 2     │
    └───────┴─────┴───────┴───────┘

    Several runs:

    >>> neural = {"q1": {"c": 0.7, "a": 0.3}}
    >>> table = pr.from_dicts({"bm25": bm25, "neural": neural}, judgments)
    >>> pr.evaluate(table, "ap", by="run")
    shape: (2, 3)
    ┌────────┬─────────┬─────┐
    │ run    ┆ queries ┆ ap  │
    │ ---    ┆ ---     ┆ --- │
    │ str    ┆ u32     ┆ f64 │
    ╞════════╪═════════╪═════╡
    │ bm25   ┆ 1       ┆ 0.5 │
    │ neural ┆ 1       ┆ 1.0 │
    └────────┴─────────┴─────┘

    Parameters
    ----------
    rankings
        Scores of the retrieved documents, ``{query: {doc: score}}``, as in pytrec_eval and ranx;
        or a ``ranx.Run``. For several runs, a mapping of their names to such dictionaries or
        objects.
    judgments
        Labels of the judged documents, ``{query: {doc: label}}``; or a ``ranx.Qrels``. A
        ``ranx.Run`` and a ``ranx.Qrels`` may come in either order.

    Returns
    -------
    DataFrame
        Columns ``run`` (if `rankings` holds several runs), ``query``, ``doc``, ``score`` and
        ``label``. The score is null where a document was judged but not retrieved, the label
        where it was retrieved but not judged. A query without any document keeps one row, in
        which ``doc`` is null.

    Raises
    ------
    ArgumentError
        If the dictionaries are not nested in this way, if a score or label is not a number, if
        the two look swapped (whole scores, and labels that are fractions or differ for all
        documents), or if the ids in `rankings` and `judgments` have types that never match, such
        as 1 and "1".

    See Also
    --------
    join_judgments : The same for tables.

    Notes
    -----
    In each run, every query of `judgments` counts, even if the run retrieved nothing for it. A
    `RankWarning` names the runs of which no query or no retrieved document is judged, and gives the
    numbers of queries that are in only one of the dictionaries.
    Evaluate with ``conventions="ranx"``, or with ``conventions="trec_eval_9"`` for pytrec_eval,
    to get the values of these tools.
    """
    if _is_ranx(rankings, "Qrels") or _is_ranx(judgments, "Run"):
        rankings, judgments = judgments, rankings
    if _is_ranx(rankings, "Qrels") or _is_ranx(judgments, "Run"):
        raise ArgumentError(
            f"`rankings` and `judgments` are both {type(rankings).__name__}; pass one of each"
        )
    if _holds_runs(judgments):
        raise ArgumentError(
            "`judgments` holds several runs; pass the rankings first, and the judgments second"
        )
    several = _holds_runs(rankings)
    runs = cast("Mapping[Any, Nested]", rankings) if several else {None: rankings}
    names = _series("run", runs)
    retrieved = _table("rankings", [*runs.values()], "score", pl.Float64())
    judged = _table("judgments", [judgments], "label", pl.Int64()).drop(_RUN)
    judged = judged_once(judged, keys=[*_KEYS], label="label", table="`judgments`")
    if _look_swapped(retrieved, judged):
        raise ArgumentError(
            "`rankings` looks like judgments, and `judgments` like rankings; were they swapped? "
            "Pass the rankings first. If they were not, convert the scores to floats"
        )
    types = {key: common_type(retrieved.schema[key], judged.schema[key]) for key in _KEYS}
    for key, dtype in types.items():
        if dtype is None:
            raise ArgumentError(
                f"`rankings` has ids of {_KEYS[key]} of type {retrieved.schema[key]} and "
                f"`judgments` of type {judged.schema[key]}, so none would match; convert one of "
                "them, for example with str"
            )
    in_each_run = pl.DataFrame({_RUN: range(len(runs))}).join(judged, how="cross")
    table = retrieved.cast(types).join(  # type: ignore[arg-type]
        in_each_run.cast(types),  # type: ignore[arg-type]
        on=[_RUN, *_KEYS],
        how="full",
        coalesce=True,
        nulls_equal=True,
        maintain_order="left_right",
    )
    empty = col("doc").is_null()
    table = table.filter(~empty | empty.all().over(_RUN, "query"))
    columns = table.select(*_KEYS, "score", "label")
    if several:
        columns.insert_column(0, names.gather(table[_RUN]))
    run = ["run"] if several else []
    ids = Ids(run, ["query"], "doc", col("score").is_not_null(), col("label").is_not_null())
    return ids.checked(columns)


def _holds_runs(rankings: Any) -> bool:
    """Return whether the values of a mapping are runs instead of documents."""
    if not isinstance(rankings, Mapping):
        return False
    for value in rankings.values():
        first = next(iter(value.values()), None) if isinstance(value, Mapping) else value
        if isinstance(first, Mapping) or _is_ranx(first):
            return True
    return False


def _is_ranx(value: Any, name: str | None = None) -> bool:
    """Return whether a value is an object of ranx, optionally of a class with this name."""
    if name is not None and type(value).__name__ != name:
        return False
    return hasattr(value, "to_dict") and not is_table(value)


def _look_swapped(retrieved: pl.DataFrame, judged: pl.DataFrame) -> bool:
    """Return whether scores look like labels, and labels like scores.

    Labels are whole numbers with many equal values. Scores are fractions, or all distinct.
    """
    if retrieved.schema["score"].is_float() or not judged.schema["label"].is_float():
        return False
    label = col("label").drop_nulls()
    if judged.select((label != label.floor()).any()).item():
        return True
    has_ties = [
        table.drop_nulls(value).select(*keys, value).is_duplicated().any()
        for table, keys, value in (
            (retrieved, [_RUN, "query"], "score"), (judged, ["query"], "label"),
        )
    ]  # fmt: skip
    return has_ties == [True, False]


def _table(parameter: str, runs: Sequence[Nested], value: str, empty: pl.DataType) -> pl.DataFrame:
    """Return one row per document, with the index of its run.

    `empty` is the type of the column of values if there are none.
    """
    nested = [_nested(parameter, run, value) for run in runs]
    documents = [docs for queries in nested for docs in queries.values()]
    if any(None in docs for docs in documents):
        raise ArgumentError(f"`{parameter}` has the document None; leave it out, or give it an id")
    # A query without documents has one row.
    values = _series(value, chain.from_iterable(docs.values() or (None,) for docs in documents))
    if values.dtype == pl.Null:
        values = values.cast(empty)
    if not (values.dtype.is_numeric() or values.dtype == pl.Boolean):
        raise ArgumentError(f"the {value}s in `{parameter}` must be numbers; found {values.dtype}")
    queries = pl.DataFrame(
        {
            _RUN: [index for index, queries in enumerate(nested) for _ in queries],
            "query": _series("query", chain.from_iterable(nested)),
            _ROWS: [len(docs) or 1 for docs in documents],
        },
        schema_overrides={_RUN: pl.Int64, _ROWS: pl.Int64},
    )
    return queries.select(
        pl.exclude(_ROWS).repeat_by(_ROWS).explode(empty_as_null=False)
    ).with_columns(
        _series("doc", chain.from_iterable(docs or (None,) for docs in documents)), values
    )


def _series(name: str, values: Iterable[Any]) -> pl.Series:
    return pl.Series(name, [*values], strict=False)


def _nested(parameter: str, given: Any, value: str) -> Mapping[Any, Mapping[Any, Any]]:
    """Return the dictionaries `{query: {doc: value}}`; raise `ArgumentError` for anything else."""
    nested = given.to_dict() if _is_ranx(given) else given
    if not isinstance(nested, Mapping):
        table = "; for tables, use pr.join_judgments" if is_table(given) else ""
        raise ArgumentError(
            f"`{parameter}` must be a dictionary {{query: {{doc: {value}}}}}; found "
            f"{type(given).__name__}{table}"
        )
    for query, docs in nested.items():
        if not isinstance(docs, Mapping):
            message = (
                f"`{parameter}` must map each query to a dictionary {{doc: {value}}}; found "
                f"{type(docs).__name__} for query {query!r}"
            )
            if isinstance(docs, (list, tuple, set, frozenset)) and value == "label":
                message += "; for documents that are all relevant, pass dict.fromkeys(docs, 1)"
            raise ArgumentError(message)
    return nested


@public
def from_arrays(
    labels: Any,
    scores: Any,
    *,
    groups: Any = None,
    queries: Any = None,
    docs: Any = None,
) -> pl.DataFrame:
    """Convert arrays of labels and scores to the long table.

    ==================================  ======================================================
    arrays                              a ranking is
    ==================================  ======================================================
    two-dimensional                     a row, as in scikit-learn's `y_true` and `y_score`
    one-dimensional                     the whole array
    one-dimensional, with ``groups``    the next ``groups[i]`` elements, as LightGBM's `group`
    one-dimensional, with ``queries``   the elements with one query id, as XGBoost's `qid`
    ==================================  ======================================================

    Examples
    --------
    The value of scikit-learn's
    ``ndcg_score([[1, 0, 2], [0, 1, 0]], [[0.2, 0.9, 0.5], [0.1, 0.3, 0.2]])``:

    >>> import polars_rank as pr
    >>> y_true, y_score = [[1, 0, 2], [0, 1, 0]], [[0.2, 0.9, 0.5], [0.1, 0.3, 0.2]]
    >>> table = pr.from_arrays(y_true, y_score)
    >>> pr.evaluate(table, "ndcg", conventions="sklearn")
    shape: (1, 2)
    ┌─────────┬──────────┐
    │ queries ┆ ndcg     │
    │ ---     ┆ ---      │
    │ u32     ┆ f64      │
    ╞═════════╪══════════╡
    │ 2       ┆ 0.834836 │
    └─────────┴──────────┘

    The value of LightGBM's metric ``ndcg@2`` with ``group=[2, 3]``:

    >>> labels, predictions = [1, 0, 2, 0, 1], [0.1, 0.4, 0.3, 0.2, 0.1]
    >>> table = pr.from_arrays(labels, predictions, groups=[2, 3])
    >>> table
    shape: (5, 4)
    ┌───────┬─────┬───────┬───────┐
    │ query ┆ doc ┆ score ┆ label │
    │ ---   ┆ --- ┆ ---   ┆ ---   │
    │ i64   ┆ i64 ┆ f64   ┆ i64   │
    ╞═══════╪═════╪═══════╪═══════╡
    │ 0     ┆ 1   ┆ 0.1   ┆ 1     │
    │ 0     ┆ 2   ┆ 0.4   ┆ 0     │
    │ 1     ┆ 1   ┆ 0.3   ┆ 2     │
    │ 1     ┆ 2   ┆ 0.2   ┆ 0     │
    │ 1     ┆ 3   ┆ 0.1   ┆ 1     │
    └───────┴─────┴───────┴───────┘
    >>> pr.evaluate(table, "ndcg@2", conventions="lightgbm")
    shape: (1, 2)
    ┌─────────┬──────────┐
    │ queries ┆ ndcg@2   │
    │ ---     ┆ ---      │
    │ u32     ┆ f64      │
    ╞═════════╪══════════╡
    │ 2       ┆ 0.728582 │
    └─────────┴──────────┘

    Parameters
    ----------
    labels, scores
        Numbers, in arrays of NumPy or pyarrow, Series, or lists of the same shape. The rows of
        nested lists may have different lengths. A null score means judged but not retrieved, a
        null label retrieved but not judged.
    groups
        Number of documents of each ranking, in order, as LightGBM's `group`.
    queries
        Query ids: one per element of one-dimensional arrays, or one per row of two-dimensional
        arrays.
    docs
        Document ids, in the shape of `labels`. Default: the position in the ranking, from 1.

    Returns
    -------
    DataFrame
        Columns ``query``, ``doc``, ``score``, and ``label``. Without `queries`, rankings are
        numbered from 0. A ranking without documents keeps one row, in which all other columns
        are null.

    Raises
    ------
    ArgumentError
        If shapes differ, if `groups` do not add up to the number of labels, if labels or scores
        are not numbers, or if both `groups` and `queries` are given.

    Notes
    -----
    Tools differ in ties, gains, and queries without relevant documents. For the values of a tool,
    evaluate with ``conventions="sklearn"``, ``"lightgbm"``, ``"xgboost"``, or ``"catboost"``.
    """
    label, score = _array("labels", labels), _array("scores", scores)
    doc = None if docs is None else _array("docs", docs)
    _check_shape(label, "scores", score)
    _check_shape(label, "docs", doc)
    for name, values in (("labels", label.values), ("scores", score.values)):
        if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null)):
            raise ArgumentError(f"`{name}` must be numbers; found {values.dtype}")
    flat = {"score": score.values, "label": label.values}
    flat |= {} if doc is None else {"doc": doc.values}
    if queries is not None and label.sizes is None:
        if groups is not None:
            raise ArgumentError("`groups` and `queries` cannot both be given; leave one out")
        table = pl.DataFrame({"query": _query_ids(queries, len(label.values)), **flat})
        position = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query")
    else:
        sizes = _sizes(label, groups)
        ids = None if queries is None else _query_ids(queries, len(sizes))
        table = _rankings(flat, sizes, ids)
        position = col(_POSITION)
    doc_column = "doc" if "doc" in flat else position.alias("doc")
    return table.select("query", doc_column, "score", "label")


class _Array(NamedTuple):
    """The elements of an array, and the lengths of its rows if it is two-dimensional."""

    values: pl.Series
    sizes: pl.Series | None


def _array(name: str, given: Any) -> _Array:
    series = series_of(name, given)
    if not isinstance(series.dtype, (pl.List, pl.Array)):
        return _Array(series, None)
    rows = series.arr.to_list() if isinstance(series.dtype, pl.Array) else series
    values = rows.explode(empty_as_null=False, keep_nulls=False)
    if values.dtype.is_nested():
        raise ArgumentError(f"`{name}` must be one- or two-dimensional; found {series.dtype}")
    return _Array(values, rows.list.len().fill_null(0))


def series_of(name: str, given: Any) -> pl.Series:
    """Return an array as a Series; raise `ArgumentError` for anything else."""
    message = f"`{name}` must be an array, a Series or a list; found {type(given).__name__}"
    if given is None or isinstance(given, (str, bytes, pl.DataFrame)):
        raise ArgumentError(message)
    try:
        series = pl.Series(given, strict=False)
        if series.dtype == pl.Object:  # an array of objects of NumPy
            series = pl.Series(list(given), strict=False)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        raise ArgumentError(f"{message} ({error})") from error
    return series


def _check_shape(labels: _Array, name: str, other: _Array | None) -> None:
    if other is None:
        return
    one, two = _shape(labels), _shape(other)
    if one == two and labels.sizes is not None and other.sizes is not None:
        for row in (labels.sizes != other.sizes).arg_true().head(1):
            one, two = f"{labels.sizes[row]} in row {row}", f"{other.sizes[row]} in row {row}"
    if one != two:
        message = f"`labels` and `{name}` must have the same shape; found {one} and {two}"
        raise ArgumentError(message)


def _shape(array: _Array) -> str:
    if array.sizes is None:
        return f"one dimension of length {len(array.values)}"
    return f"two dimensions of {number_of(len(array.sizes), 'row')}"


def _query_ids(queries: Any, length: int) -> pl.Series:
    """Return query ids; raise `ArgumentError` unless there is one per element or row."""
    ids = _array("queries", queries)
    if ids.sizes is not None or len(ids.values) != length:
        raise ArgumentError(
            f"`queries` must have one dimension of length {length}; found {_shape(ids)}"
        )
    return ids.values


def _sizes(labels: _Array, groups: Any) -> pl.Series:
    """Return the number of documents of each ranking."""
    length = len(labels.values)
    if groups is None:
        return pl.Series([length]) if labels.sizes is None else labels.sizes
    if labels.sizes is not None:
        raise ArgumentError("`groups` needs one-dimensional arrays; found two-dimensional `labels`")
    sizes = sizes_of(groups)
    if (total := sizes.sum()) != length:
        raise ArgumentError(
            f"`groups` must add up to the number of labels, {length}; found {total}; for a query "
            "id of each element, pass queries="
        )
    return sizes


def sizes_of(groups: Any) -> pl.Series:
    """Return the numbers of documents of rankings; raise `ArgumentError` for anything else."""
    sizes = series_of("groups", groups)
    whole = sizes.dtype.is_integer() and not sizes.has_nulls() and (sizes >= 0).all()
    if not (whole or sizes.is_empty()):
        kind = "" if sizes.dtype.is_integer() else f" of type {sizes.dtype}; cast them to integers"
        raise ArgumentError(
            "`groups` must be integers of 0 or more, the numbers of documents of the rankings; "
            f"found {short(groups)}{kind}"
        )
    return sizes.cast(pl.Int128)  # whose sum does not overflow


def _rankings(flat: dict[str, pl.Series], sizes: pl.Series, ids: pl.Series | None) -> pl.DataFrame:
    """Return the table of consecutive rankings; an empty ranking has one row of nulls."""
    lengths = sizes.cast(pl.Int64)
    ends = lengths.cum_sum()
    rows = pl.DataFrame(
        {
            "query": pl.int_range(len(sizes), eager=True) if ids is None else ids,
            _ROW: pl.int_ranges(ends - lengths, ends, eager=True),
            _POSITION: pl.int_ranges(1, lengths + 1, eager=True),
        }
    ).explode(_ROW, _POSITION, empty_as_null=True)
    return rows.with_columns(values.gather(rows[_ROW]).alias(name) for name, values in flat.items())
