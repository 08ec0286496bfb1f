"""The long table from list columns, dictionaries, and arrays."""

from __future__ import annotations

from collections.abc import Mapping
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
    from collections.abc import Sequence

    from polars_rank._params import Names

AnyFrame = TypeVar("AnyFrame", pl.DataFrame, pl.LazyFrame)

_RUN, _ROW, _POSITION, _DOC = (OWN + name for name in ("run", "row", "position", "doc"))
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

#: Valid combinations of parameters, besides `scores`.
_COMBINATIONS = (["retrieved", "relevant"], ["retrieved", "labels"], ["labels"])


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
    lists = {parameter: column for parameter, column in named.items() if column is not None}
    if [parameter for parameter in lists if parameter != "scores"] not in _COMBINATIONS:
        raise ArgumentError(
            "pass `retrieved` and `relevant`, `retrieved` and `labels`, or `labels` alone, with or "
            f"without `scores`; found {', '.join(f'`{each}`' for each in lists) or 'none'}; for "
            "labels of relevant documents, pass a column of structs (id, label) as `relevant`"
        )
    rows = lazy(frame)
    schema = schema_of(rows)
    keys = Columns.find(schema, {"query": query, **lists}, optional=("query",)).query or ("query",)
    if query is None and "query" not in schema:
        rows = rows.with_row_index("query").cast({"query": pl.Int64})
    for name in schema:
        if name in _ADDED and name not in lists.values():
            raise SchemaError(f"the table already has a column {name!r}; rename it or drop it")
    arrays = [column for column in lists.values() if isinstance(schema[column], pl.Array)]
    rows = rows.with_columns(col(arrays).arr.to_list())
    schema = rows.collect_schema()
    id_type = _id_type(schema, lists)
    long_table = partial(_of_lists, lists=lists, keys=keys, id_type=id_type)
    long_schema = long_table(pl.DataFrame(schema=schema)).schema
    # Rows are independent, so batches are converted one by one, in flat memory.
    plan = rows.map_batches(long_table, schema=long_schema, streamable=True)
    table = plan if isinstance(frame, pl.LazyFrame) else plan.collect()
    if relevant is None:
        return table
    # Without labels, all retrieved documents are judged.
    judged, adjective = col("label") > 0, "relevant"
    if _has_structs(schema[relevant]):
        judged, adjective = col("label").is_not_null(), "judged"
    runs = [name for name in schema if name == "run" and name not in keys]
    is_retrieved = col("score").is_not_null()
    return Ids(runs, keys, "doc", is_retrieved, judged, adjective, separate=False).checked(table)


def _id_type(schema: pl.Schema, lists: Mapping[str, str]) -> pl.DataType:
    """Return the type in which ids are compared; raise an error for invalid columns."""
    types = {name: _element_type(name, column, schema[column]) for name, column in lists.items()}
    if "scores" in lists and "retrieved" in lists and _has_structs(schema[lists["retrieved"]]):
        raise ArgumentError(
            f"column {lists['retrieved']!r} (`retrieved`) already has scores; leave out `scores`"
        )
    retrieved = types.get("retrieved", pl.Int64())
    relevant = types.get("relevant", retrieved)
    common = common_type(retrieved, relevant)
    if common is None:
        raise SchemaError(
            f"ids are {retrieved} in column {lists['retrieved']!r} and {relevant} in column "
            f"{lists['relevant']!r}, so none would match; cast the elements of one of them"
        )
    return common


def _has_structs(dtype: pl.DataType) -> bool:
    return isinstance(dtype, pl.List) and isinstance(dtype.inner, pl.Struct)


def _element_type(parameter: str, column: str, dtype: pl.DataType) -> pl.DataType:
    """Return the type of ids or numbers in a list column; raise `SchemaError` for other types."""
    inner: Any = dtype.inner if isinstance(dtype, pl.List) else dtype
    has_ids = parameter in ("retrieved", "relevant")
    element, number = inner, pl.Null() if has_ids else inner
    if has_ids and isinstance(inner, pl.Struct) and len(inner.fields) == _PAIR:
        element, number = (field.dtype for field in inner.fields)
    if not isinstance(dtype, pl.List) or element.is_nested() or not _is_number(number):
        raise SchemaError(
            f"column {column!r} (`{parameter}`) must hold lists of {_ELEMENT_TYPES[parameter]}; "
            f"found {dtype}"
        )
    if has_ids and element.is_float():
        values = "scores" if parameter == "retrieved" else "labels"
        raise SchemaError(
            f"column {column!r} (`{parameter}`) must hold lists of ids; found {dtype}; if it holds "
            f"{values}, pass it as `{values}`"
        )
    return cast("pl.DataType", element)


def _is_number(dtype: pl.DataType) -> bool:
    """Return whether values of a type are scores or labels."""
    return dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)


def _of_lists(
    rows: pl.DataFrame, lists: Mapping[str, str], keys: Sequence[str], id_type: pl.DataType
) -> pl.DataFrame:
    """Return the long table of rows with lists."""
    ranked = lists.get("retrieved") or lists["labels"]
    size = col(ranked).list.len()
    rows = rows.with_row_index(_ROW).with_columns(pl.int_ranges(1, size + 1).alias(_DOC))
    parallel = {}
    for parameter in [each for each in ("labels", "scores") if each in lists]:
        column = lists[parameter]
        if column != ranked:
            refuse(
                rows.select(*keys, col(ranked, column).list.len()),
                col(ranked).fill_null(0) != col(column),
                f"lists in column {column!r} are not as long as in {ranked!r}",
                "each retrieved document needs one element, which may be null",
            )
        unknown = pl.lit(None, cast("pl.List", rows.schema[column]).inner).repeat_by(size)
        parallel[parameter.removesuffix("s")] = pl.coalesce(column, unknown)
    docs = _documents(rows, lists.get("retrieved", _DOC), keys, id_type, "score", **parallel)
    if "score" not in docs.columns:
        docs = docs.with_columns(score=-col(_POSITION).cast(pl.Float64))
    docs = docs.drop(*keys, _POSITION)
    if (relevant := lists.get("relevant")) is not None:
        judged = _documents(rows, relevant, keys, id_type, "label").drop(_POSITION)
        known = rows.filter(col(relevant).is_not_null())[_ROW]
        label: pl.Expr = pl.when(col(_ROW).is_in(known.implode())).then(col("label").fill_null(0))
        if "label" in judged.columns:
            label = col("label")
        else:
            judged = judged.with_columns(label=pl.lit(1, pl.Int64))
        where = f"lists in column {relevant!r}"
        judged = judged_once(judged, keys=[_ROW, *keys, "doc"], label="label", table=where)
        docs = docs.join(
            judged.drop(keys), on=[_ROW, "doc"], how="full", coalesce=True,
            maintain_order="left_right",
        ).with_columns(label.alias("label"))  # fmt: skip
    others = rows.drop(*lists.values(), _DOC)
    table = others.join(docs, on=_ROW, how="left", maintain_order="left_right")
    return table.select(*keys, *_ADDED, pl.exclude(*keys, *_ADDED, _ROW))


def _documents(
    rows: pl.DataFrame,
    column: str,
    keys: Sequence[str],
    id_type: pl.DataType,
    value: str,
    **parallel: pl.Expr,
) -> pl.DataFrame:
    """Return the documents in a list column, with their positions and elements of parallel lists.

    Structs also have the column `value`.
    """
    size = col(column).list.len()
    ids = [col(column).alias("doc"), pl.int_ranges(1, size + 1).alias(_POSITION)]
    docs = rows.filter(size > 0).select(_ROW, *keys, *ids, **parallel)
    docs = docs.explode("doc", _POSITION, *parallel)
    if isinstance(docs.schema["doc"], pl.Struct):
        docs = docs.with_columns(col("doc").struct.rename_fields(["doc", value])).unnest("doc")
    refuse(
        docs.filter(col("doc").is_null()).select(*keys, position=_POSITION),
        pl.lit(value=True),
        f"column {column!r} has lists with a null id",
        f"remove null ids with pl.col({column!r}).list.drop_nulls()",
    )
    return docs.with_columns(col("doc").cast(id_type))


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
        Labels of the judged documents, ``{query: {doc: label}}``; or a ``ranx.Qrels``.

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
    if type(rankings).__name__ == "Qrels" or type(judgments).__name__ == "Run":
        raise ArgumentError("is a Qrels, or `judgments` is a Run; pass the Run first", "rankings")
    if _holds_runs(judgments):
        raise ArgumentError(
            "holds several runs; pass the rankings first, and the judgments second", "judgments"
        )
    several = _holds_runs(rankings)
    runs = cast("Mapping[Any, Nested]", rankings) if several else {None: rankings}
    retrieved = _of_dicts("rankings", [*runs.values()], "score", pl.Float64())
    judged = _of_dicts("judgments", [judgments], "label", pl.Int64()).drop(_RUN)
    judged = judged_once(judged, keys=["query", "doc"], label="label", table="`judgments`")
    if _look_swapped(retrieved, judged):
        raise ArgumentError(
            "looks like judgments, and `judgments` like rankings; were they swapped? "
            "Pass the rankings first. If they were not, convert the scores to floats",
            "rankings",
        )
    types: Any = {}
    for key, plural in (("query", "queries"), ("doc", "documents")):
        types[key] = common_type(retrieved.schema[key], judged.schema[key])
        if types[key] is None:
            raise ArgumentError(
                f"has ids of {plural} of type {retrieved.schema[key]} and "
                f"`judgments` of type {judged.schema[key]}, so none would match; convert one of "
                "them, for example with str",
                "rankings",
            )
    in_each_run = pl.DataFrame({_RUN: range(len(runs))}).join(judged, how="cross")
    table = retrieved.cast(types).join(
        in_each_run.cast(types),
        on=[_RUN, *types],
        how="full",
        coalesce=True,
        nulls_equal=True,
        maintain_order="left_right",
    )
    empty = col("doc").is_null()
    table = table.filter(~empty | empty.all().over(_RUN, "query"))
    columns = table.select(*types, "score", "label")
    if several:
        columns.insert_column(0, pl.Series("run", [*runs], strict=False).gather(table[_RUN]))
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


def _is_ranx(value: Any) -> bool:
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
    scores_are_tied, labels_are_tied = (
        table.drop_nulls(value).drop("doc").is_duplicated().any()
        for table, value in ((retrieved, "score"), (judged, "label"))
    )
    return scores_are_tied and not labels_are_tied


def _of_dicts(
    parameter: str, runs: Sequence[Nested], value: str, empty: pl.DataType
) -> pl.DataFrame:
    """Return one row per document, with the index of its run.

    `empty` is the type of the column of values if there are none.
    """
    nested = [_nested(parameter, run, value) for run in runs]
    documents = [docs for queries in nested for docs in queries.values()]
    if any(None in docs for docs in documents):
        raise ArgumentError("has the document None; leave it out, or give it an id", parameter)
    values = pl.Series([*chain.from_iterable(docs.values() for docs in documents)], strict=False)
    _check_numbers(f"the {value}s in `{parameter}`", values)
    rankings = pl.DataFrame({
        _RUN: pl.Series([i for i, queries in enumerate(nested) for _ in queries], dtype=pl.Int64),
        "query": pl.Series([*chain.from_iterable(nested)], strict=False),
    })  # fmt: skip
    return _with_documents(
        rankings,
        pl.Series([len(docs) for docs in documents], dtype=pl.Int64),
        doc=pl.Series([*chain.from_iterable(documents)], strict=False),
        **{value: values.cast(empty) if values.dtype == pl.Null else values},
    ).drop(_POSITION)


def _nested(parameter: str, given: Any, value: str) -> Mapping[Any, Mapping[Any, Any]]:
    """Return the dictionaries `{query: {doc: value}}`; raise `ArgumentError` for anything else."""
    nested = given.to_dict() if _is_ranx(given) else given
    if not isinstance(nested, Mapping):
        table = "; for tables, use pr.join_judgments" if is_table(given) else ""
        raise ArgumentError(
            f"must be a dictionary {{query: {{doc: {value}}}}}; found "
            f"{type(given).__name__}{table}",
            parameter,
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
    labels: Any, scores: Any, *, groups: Any = None, queries: Any = None, docs: Any = None
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
    label = _array("labels", labels)
    arrays = {"score": _array("scores", scores), "label": label}
    if docs is not None:
        arrays["doc"] = _array("docs", docs)
    for name, array in arrays.items():
        _check_shape(label, f"{name}s", array)
        if name != "doc":
            _check_numbers(f"`{name}s`", array.values)
    columns = {name: array.values for name, array in arrays.items()}
    if queries is not None and label.sizes is None:
        if groups is not None:
            raise ArgumentError("and `queries` cannot both be given; leave one out", "groups")
        table = pl.DataFrame({"query": _query_ids(queries, len(label.values)), **columns})
        position = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query")
    else:
        sizes = _sizes(label, groups)
        numbers = pl.int_range(len(sizes), eager=True)
        ids = numbers if queries is None else _query_ids(queries, len(sizes))
        table = _with_documents(pl.DataFrame({"query": ids}), sizes, **columns)
        position = col(_POSITION)
    doc = position.alias("doc") if docs is None else "doc"
    return table.select("query", doc, "score", "label")


class _Array(NamedTuple):
    """The elements of an array, and the lengths of its rows if it is two-dimensional."""

    values: pl.Series
    sizes: pl.Series | None

    @property
    def shape(self) -> str:
        if self.sizes is None:
            return f"one dimension of length {len(self.values)}"
        return f"two dimensions of {number_of(len(self.sizes), 'row')}"


def _array(name: str, given: Any) -> _Array:
    series = series_of(name, given)
    if not isinstance(series.dtype, (pl.List, pl.Array)):
        return _Array(series, None)
    rows = series.arr.to_list() if isinstance(series.dtype, pl.Array) else series
    values = rows.explode(empty_as_null=False, keep_nulls=False)
    if values.dtype.is_nested():
        raise ArgumentError(f"must be one- or two-dimensional; found {series.dtype}", name)
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


def _check_numbers(what: str, values: pl.Series) -> None:
    if not _is_number(values.dtype):
        raise ArgumentError(f"{what} must be numbers; found {values.dtype}")


def _check_shape(labels: _Array, name: str, other: _Array) -> None:
    found = labels.shape, other.shape
    if found[0] == found[1] and labels.sizes is not None and other.sizes is not None:
        for row in (labels.sizes != other.sizes).arg_true()[:1]:
            found = f"{labels.sizes[row]} in row {row}", f"{other.sizes[row]} in row {row}"
    if found[0] != found[1]:
        raise ArgumentError(
            f"and `{name}` must have the same shape; found {found[0]} and {found[1]}", "labels"
        )


def _query_ids(queries: Any, length: int) -> pl.Series:
    """Return query ids; raise `ArgumentError` unless there is one per element or row."""
    ids = _array("queries", queries)
    if ids.sizes is not None or len(ids.values) != length:
        raise ArgumentError(
            f"must have one dimension of length {length}; found {ids.shape}", "queries"
        )
    return ids.values


def _sizes(labels: _Array, groups: Any) -> pl.Series:
    """Return the number of documents of each ranking."""
    length = len(labels.values)
    if groups is None:
        return pl.Series([length]) if labels.sizes is None else labels.sizes
    if labels.sizes is not None:
        raise ArgumentError(
            "needs one-dimensional arrays; found two-dimensional `labels`", "groups"
        )
    sizes = sizes_of(groups)
    total = sizes.sum()
    if total != length:
        raise ArgumentError(
            f"must add up to the number of labels, {length}; found {total}; for a query "
            "id of each element, pass queries=",
            "groups",
        )
    return sizes


def sizes_of(groups: Any) -> pl.Series:
    """Return the numbers of documents of rankings; raise `ArgumentError` for anything else."""
    sizes = series_of("groups", groups)
    whole = sizes.dtype.is_integer() and not sizes.has_nulls() and (sizes >= 0).all()
    if not (whole or sizes.is_empty()):
        kind = "" if sizes.dtype.is_integer() else f" of type {sizes.dtype}; cast them to integers"
        raise ArgumentError(
            "must be integers of 0 or more, the numbers of documents of the rankings; "
            f"found {short(groups)}{kind}",
            "groups",
        )
    return sizes.cast(pl.Int128)  # whose sum does not overflow


def _with_documents(
    rankings: pl.DataFrame, sizes: pl.Series, **documents: pl.Series
) -> pl.DataFrame:
    """Return rankings with columns of their documents, and the positions of documents.

    The first `sizes[0]` documents are of the first ranking, and so on. A ranking without documents
    has one row of nulls.
    """
    sizes = sizes.cast(pl.Int64)
    ends = sizes.cum_sum()
    rows = rankings.with_columns(
        pl.int_ranges(ends - sizes, ends, eager=True).alias(_ROW),
        pl.int_ranges(1, sizes + 1, eager=True).alias(_POSITION),
    ).explode(_ROW, _POSITION, empty_as_null=True)
    return rows.with_columns(
        values.gather(rows[_ROW]).alias(name) for name, values in documents.items()
    ).drop(_ROW)
