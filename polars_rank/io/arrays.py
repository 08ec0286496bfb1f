"""`from_arrays`: the long table from arrays of labels and scores."""

from __future__ import annotations

from typing import Any, NamedTuple

import polars as pl
from polars import col

from polars_rank._params import OWN, public
from polars_rank.errors import ArgumentError, number_of, short

_ROW, _POSITION = OWN + "row", OWN + "position"


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
    for name, array in (("scores", score), ("docs", doc)):
        if array is not None:
            _check_shape(label, name, array)
    for name, values in (("labels", label.values), ("scores", score.values)):
        if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.Null)):
            raise ArgumentError(f"`{name}` must be numbers; found {values.dtype}")
    flat = {"score": score.values, "label": label.values}
    flat |= {} if doc is None else {"doc": doc.values}
    if queries is not None and label.sizes is None:
        if groups is not None:
            raise ArgumentError("`groups` and `queries` cannot both be given; leave one out")
        table = pl.DataFrame({"query": _ids(queries, len(label.values)), **flat})
        position = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("query")
    else:
        sizes = _sizes(label, groups)
        ids = None if queries is None else _ids(queries, len(sizes))
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


def _check_shape(labels: _Array, name: str, other: _Array) -> None:
    shapes = _shape(labels), _shape(other)
    if shapes[0] == shapes[1]:
        if labels.sizes is None or other.sizes is None:
            return
        differ = labels.sizes != other.sizes
        if not differ.any():
            return
        row = differ.arg_max() or 0
        shapes = f"{labels.sizes[row]} in row {row}", f"{other.sizes[row]} in row {row}"
    raise ArgumentError(
        f"`labels` and `{name}` must have the same shape; found {shapes[0]} and {shapes[1]}"
    )


def _shape(array: _Array) -> str:
    if array.sizes is None:
        return f"one dimension of length {len(array.values)}"
    return f"two dimensions of {number_of(len(array.sizes), 'row')}"


def _ids(queries: Any, length: int) -> pl.Series:
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
    total = sizes.sum()
    if total != length:
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
