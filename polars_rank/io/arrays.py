"""`from_arrays`: arrays of labels and scores, as other tools take them, as the long table."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl
from polars import col

from polars_rank._params import OWN
from polars_rank.errors import ArgumentError

_ROW, _PLACE = OWN + "row", OWN + "place"


def from_arrays(
    labels: Any,
    scores: Any,
    *,
    groups: Any = None,
    queries: Any = None,
    docs: Any = None,
) -> pl.DataFrame:
    """Turn arrays of labels and scores into the long table.

    =============================  ==========================================================
    given                          a list is
    =============================  ==========================================================
    two dimensions                 a row, as of `y_true` and `y_score` in scikit-learn
    one dimension                  the whole array
    one dimension and ``groups``   the next so many elements, as in LightGBM and XGBoost
    one dimension and ``queries``  the elements of one id, as of `qid` in XGBoost
    =============================  ==========================================================

    Parameters
    ----------
    labels, scores
        Numbers of one shape, in numpy or pyarrow arrays, Series, or lists, which may be lists of
        lists of different lengths. A null score means judged but not retrieved, a null label
        retrieved but not judged.
    groups
        The sizes of the lists, one after the other.
    queries
        The id of the query: of each element, or of each row where there are two dimensions.
    docs
        Ids of the documents, in the shape of ``labels``. By default their place in the list,
        from 1.

    Returns
    -------
    DataFrame
        Columns ``query`` (the id, or else the number of the list, from 0), ``doc``, ``score`` and
        ``label``. A list without documents keeps one row, of nulls, so that it does not vanish.

    Raises
    ------
    ArgumentError
        If arrays do not have one shape, sizes do not add up to the length, labels or scores are
        no numbers, or there are both ``groups`` and ``queries``.

    Notes
    -----
    Rules for ties, gains and lists without relevant documents differ between tools: evaluate with
    ``conventions="sklearn"``, ``"lightgbm"``, ``"xgboost"`` or ``"catboost"`` for the numbers
    that they give.

    Examples
    --------
    As ``sklearn.metrics.ndcg_score([[1, 0, 2], [0, 1, 0]], [[0.2, 0.9, 0.5], [0.1, 0.3, 0.2]])``:

    >>> import polars_rank as pr
    >>> table = pr.from_arrays([[1, 0, 2], [0, 1, 0]], [[0.2, 0.9, 0.5], [0.1, 0.3, 0.2]])
    >>> round(pr.evaluate(table, "ndcg", conventions=pr.conventions.SKLEARN)["ndcg"].item(), 4)
    0.8348

    The metric ``ndcg@2`` of LightGBM, with its ``group=[2, 3]``:

    >>> labels, predictions = [1, 0, 2, 0, 1], [0.1, 0.4, 0.3, 0.2, 0.1]
    >>> table = pr.from_arrays(labels, predictions, groups=[2, 3])
    >>> table.rows()
    [(0, 1, 0.1, 1), (0, 2, 0.4, 0), (1, 1, 0.3, 2), (1, 2, 0.2, 0), (1, 3, 0.1, 1)]
    >>> round(pr.evaluate(table, "ndcg@2", conventions=pr.conventions.LIGHTGBM)["ndcg@2"].item(), 4)
    0.7286
    """
    label, score = _array("labels", labels), _array("scores", scores)
    doc = None if docs is None else _array("docs", docs)
    for name, array in (("scores", score), ("docs", doc)):
        if array is not None:
            _check_shape(label, name, array)
    for name, values in (("labels", label.values), ("scores", score.values)):
        if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null)):
            message = f"`{name}` must hold numbers; found {values.dtype}"
            raise ArgumentError(message, name)
    flat = {"score": score.values, "label": label.values}
    flat |= {} if doc is None else {"doc": doc.values}
    if queries is not None and label.sizes is None:
        if groups is not None:
            message = "`groups` and `queries` both say which elements are a list; leave one out"
            raise ArgumentError(message, "groups", "queries")
        table = pl.DataFrame({"query": _ids(queries, len(label.values)), **flat})
        place = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query")
    else:
        sizes = _sizes(label, groups)
        ids = None if queries is None else _ids(queries, len(sizes))
        table = _cut(flat, sizes, ids)
        place = col(_PLACE)
    return table.select("query", "doc" if "doc" in flat else place.alias("doc"), "score", "label")


class _Array(NamedTuple):
    """The elements of an array; if it has two dimensions, the lengths of its rows."""

    values: pl.Series
    sizes: pl.Series | None


def _array(name: str, given: Any) -> _Array:
    series = _series(name, given)
    if not isinstance(series.dtype, (pl.List, pl.Array)):
        return _Array(series, None)
    rows = series.arr.to_list() if isinstance(series.dtype, pl.Array) else series
    values = rows.explode(empty_as_null=False, keep_nulls=False)
    if values.dtype.is_nested():
        message = f"`{name}` must have one dimension or two; found {series.dtype}"
        raise ArgumentError(message, name)
    return _Array(values, rows.list.len().fill_null(0))


def _series(name: str, given: Any) -> pl.Series:
    message = f"`{name}` must be an array, a Series or a list; found {type(given).__name__}"
    if given is None or isinstance(given, (str, bytes, pl.DataFrame)):
        raise ArgumentError(message, name)
    try:
        series = pl.Series(given, strict=False)
        if series.dtype == pl.Object:  # numpy's arrays of anything
            series = pl.Series(list(given), strict=False)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError) as error:
        message = f"{message} ({error})"
        raise ArgumentError(message) from error
    return series


def _check_shape(labels: _Array, name: str, other: _Array) -> None:
    found = _shape(labels), _shape(other)
    if found[0] == found[1]:
        if labels.sizes is None or other.sizes is None:
            return
        differ = labels.sizes != other.sizes
        if not differ.any():
            return
        row = differ.arg_max() or 0
        found = f"{labels.sizes[row]} in row {row}", f"{other.sizes[row]} in row {row}"
    message = f"`labels` and `{name}` must have one shape; found {found[0]} and {found[1]}"
    raise ArgumentError(message, "labels", name)


def _shape(array: _Array) -> str:
    if array.sizes is None:
        return f"one dimension of length {len(array.values)}"
    return f"two dimensions with {len(array.sizes)} rows"


def _ids(queries: Any, length: int) -> pl.Series:
    """Return the ids of queries, checked to be as many as there are elements or rows."""
    ids = _array("queries", queries)
    if ids.sizes is not None or len(ids.values) != length:
        message = f"`queries` must have one dimension of length {length}; found {_shape(ids)}"
        raise ArgumentError(message, "queries")
    return ids.values


def _sizes(labels: _Array, groups: Any) -> pl.Series:
    """Return the lengths of the lists."""
    length = len(labels.values)
    if groups is None:
        return pl.Series([length]) if labels.sizes is None else labels.sizes
    if labels.sizes is not None:
        message = "`groups` go with arrays of one dimension; found `labels` with two"
        raise ArgumentError(message, "groups", "labels")
    sizes = _series("groups", groups)
    whole = sizes.dtype.is_integer() and not sizes.has_nulls() and (sizes >= 0).all()
    if not (whole or sizes.is_empty()):
        message = f"`groups` must be the sizes of the lists, whole numbers; found {groups!r}"
        raise ArgumentError(message, "groups")
    total = sizes.cast(pl.Int64).sum()
    if total != length:
        message = (
            f"`groups` must add up to the number of labels, {length}; found {total}"
            "; for an id of each element, pass queries="
        )
        raise ArgumentError(message, "groups")
    return sizes


def _cut(flat: dict[str, pl.Series], sizes: pl.Series, ids: pl.Series | None) -> pl.DataFrame:
    """Return the table of lists that follow each other; an empty one has a row of nulls."""
    lengths = sizes.cast(pl.Int64)
    ends = lengths.cum_sum()
    lists = pl.DataFrame(
        {
            "query": pl.int_range(len(sizes), eager=True) if ids is None else ids,
            _ROW: pl.int_ranges(ends - lengths, ends, eager=True),
            _PLACE: pl.int_ranges(1, lengths + 1, eager=True),
        }
    ).explode(_ROW, _PLACE, empty_as_null=True)
    return lists.with_columns(
        values.gather(lists[_ROW]).alias(name) for name, values in flat.items()
    )
