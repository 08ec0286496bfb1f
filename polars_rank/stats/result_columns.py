"""Result tables: lists of columns, from which the table, its documentation and rules follow.

Also, results as a dictionary of numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import polars as pl

from polars_rank._params import F, public
from polars_rank.errors import DataError, in_this_context
from polars_rank.frames.tables import collected, lazy
from polars_rank.stats._arrays import np

#: The kinds of numbers that decide rules: a count or a bound decides by itself, an estimate by its
#: interval; other columns cannot be in rules.
COUNT, BOUND, ESTIMATE, OTHER = "count", "bound", "estimate", "other"


class ResultColumn(NamedTuple):
    """A column of a result: its name, what it says, and how it follows from the estimates."""

    name: str
    text: str
    #: The values of the estimates; None if the rows of the result have them by name.
    value: Callable[[Any], Any] | None = None
    dtype: pl.DataType = pl.Float64()
    #: How rules use the column.
    kind: str = OTHER
    #: The columns of the confidence interval of an estimate.
    bounds: tuple[str, str] | None = None
    #: The format of its numbers for readers.
    format: Literal["number", "signed", "percent", "p_value"] = "number"
    #: Whether only `details=True` shows the column.
    is_detail: bool = False
    #: Whether tables in a terminal leave the column out.
    is_minor: bool = False
    #: The feature of a call with which the column exists; None for always.
    only: str | None = None


def schema_of_result(columns: Iterable[ResultColumn]) -> dict[str, pl.DataType]:
    """Return the types of result columns."""
    return {each.name: each.dtype for each in columns}


def series_of(column: ResultColumn, result: Any) -> pl.Series:
    """Return a column of a result, with null for NaN."""
    name, dtype = column.name, column.dtype
    values = [row[name] for row in result] if column.value is None else column.value(result)
    if not dtype.is_numeric():
        return pl.Series(name, values, dtype)
    return pl.Series(name, np.asarray(values, dtype=float), nan_to_null=True).cast(dtype)


def returns(columns: Iterable[ResultColumn]) -> list[str]:
    """Return the list of columns for the section Returns of a docstring."""
    plain = [f"- `{each.name}`: {each.text};" for each in columns if not each.is_detail]
    more = [f"- `{each.name}`: {each.text};" for each in columns if each.is_detail]
    if more:
        plain[-1] = plain[-1][:-1] + "."
        plain += ["", "With ``details=True``, also", "", *more]
    plain[-1] = plain[-1][:-1] + "."
    return plain


_PLACE = re.compile(r"^( *)\{columns\}$", re.MULTILINE)


def returning(columns: Sequence[ResultColumn]) -> Callable[[F], F]:
    """Return a decorator that writes the list of columns where a docstring has {columns}."""

    def decorate(function: F) -> F:
        if function.__doc__:  # python -OO removes docstrings

            def lines(place: re.Match[str]) -> str:
                return "\n".join(place[1] + line if line else "" for line in returns(columns))

            function.__doc__ = _PLACE.sub(lines, function.__doc__)
        return function

    return decorate


def deferred(function: Callable[[], pl.DataFrame], schema: Mapping[str, Any]) -> pl.LazyFrame:
    """Return a table that a function computes when it is collected; NumPy's NaN is unknown."""

    def result() -> pl.DataFrame:
        with np.errstate(all="ignore"):
            return function()

    return pl.defer(in_this_context(result), schema=pl.Schema(schema))


@public
def flat(result: pl.DataFrame | pl.LazyFrame, *, safe: bool = False) -> dict[str, float]:
    """Return the numbers of a result as a dictionary, for tools that track experiments.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2, 2],
    ...     "score": [2.0, 1.0, 2.0, 1.0],
    ...     "label": [1, 0, 0, 1],
    ... })
    >>> pr.evaluate(log, ["precision@1", "mrr@10"]).pipe(pr.flat)
    {'queries': 2, 'precision@1': 0.5, 'mrr@10': 0.75}

    Parameters
    ----------
    result
        Result with a column per metric, such as that of `evaluate`, or with a column `metric`, such
        as that of `summarize` or `compare`.
    safe
        Replace the characters that MLflow and Weights & Biases do not accept in names: "ndcg@10"
        becomes "ndcg_at_10".

    Returns
    -------
    dict
        The number of each column and row. In a result with a column `metric`, the mean has the name
        of the metric, and other columns follow after a slash, as in "ndcg@10/low". The values of
        `by` and `run` come first, as in "neural/ndcg@10". Text and null values are left out.

    Raises
    ------
    DataError
        If two numbers have the same name.
    """
    frame = collected(lazy(result, "result"))
    keys = _keys(frame)
    found: dict[str, float] = {}
    for row in frame.iter_rows(named=True):
        parts = [str(row[key]) for key in keys if row[key] is not None]
        metric = [row["metric"]] if "metric" in row else []
        for column, value in row.items():
            if column in keys or isinstance(value, bool) or not isinstance(value, int | float):
                continue
            last = [] if metric and column == "mean" else [column]
            names = [*parts, *metric, *last]
            name = "/".join(map(_safe, names) if safe else names)
            if name in found:
                raise DataError(
                    f"two numbers of the result have the name {name!r}; select rows with "
                    "`filter`, or rename values"
                )
            found[name] = value
    return found


def _keys(frame: pl.DataFrame) -> list[str]:
    """Return the columns that tell rows apart, without `metric`."""
    names = frame.columns
    if "metric" in names:
        values = [dtype.is_numeric() or dtype == pl.Boolean for dtype in frame.dtypes]
        texts = [i for i, is_value in enumerate(values) if not is_value]
        front = [i for i in texts if all(not dtype.is_float() for dtype in frame.dtypes[:i])]
        return [name for name in names[: max(front) + 1] if name not in ("metric", "baseline")]
    floats = [i for i, dtype in enumerate(frame.dtypes) if dtype.is_float()]
    end = names.index("queries") if "queries" in names else min(floats, default=len(names))
    return names[:end]


def _safe(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9.-]+", "_", name.replace("@", "_at_")).strip("_")
