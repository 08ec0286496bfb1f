"""Which of two documents a user preferred: pairs, as small lists of two for any metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, check_there, free
from polars_rank.clicks.impressions import (
    CLICK,
    DOC,
    PLACE,
    columns_of,
    is_click,
    per_list,
    renamed,
)
from polars_rank.errors import SchemaError
from polars_rank.evaluation.checks import checks_of, failed, raise_failed, row_checks
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.signals import negative

if TYPE_CHECKING:
    from polars_rank.columns import Columns

__all__ = ["last_click", "skip_above"]

_TIME, _OVER, _ABOVE = OWN + "time", OWN + "over", OWN + "above"
_SEVERAL = "; name the columns that tell the lists apart that users saw with query=[...]"
#: Of a list: what is there twice, and what is wrong where something is.
_TWICE = {
    OWN + "twice a place": "a position comes twice in a list" + _SEVERAL,
    OWN + "twice a doc": "a document comes twice in a list" + _SEVERAL + ", or drop one",
}


@framed
def skip_above(
    frame: pl.LazyFrame,
    *,
    query: Names = "query",
    doc: str = "doc",
    click: str = "click",
    position: str = "position",
    by: Names | None = None,
) -> pl.LazyFrame:
    """Return preferences: a document that was clicked over each one skipped above it.

    Parameters
    ----------
    frame
        The log, one row per impression of a document.
    query, doc, click, position
        Names of the columns; `query` may be several, and must tell the lists apart that users
        saw: with several sessions of a query, `query=["query", "session"]`. A click is a condition,
        or a count above 0; documents with a null position were not shown.
    by
        Columns that split the log.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: two rows for each pair, with the `by` and `query` columns, `pair` (its number
        from 0), `doc`, and `label`: 1 for the document preferred, 0 for the other. With the scores
        of a ranker joined on, and `query="pair"`, the mean of `pair_accuracy` is the share of the
        preferences that it agrees with.

    Raises
    ------
    SchemaError
        For a missing column, or clicks or positions that are not numbers.
    DataError
        For a null query or document, a click below 0 or NaN, a document or a position that comes
        twice in a list, as where several lists of one query are taken for one; lazily, when the
        result is collected.

    Notes
    -----
    What stands above a click was likely seen, so the position does not explain the preference: it
    always runs against the order that was shown. In the study of Joachims et al. about four of
    five such preferences agreed with judges.

    References
    ----------
    Joachims et al., Accurately interpreting clickthrough data as implicit feedback, 2005.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "doc": ["a", "b", "c"], "position": [1, 2, 3], "click": [0, 1, 1]
    ... })
    >>> pairs = pr.clicks.skip_above(log)
    >>> pairs.rows()
    [(1, 0, 'b', 1), (1, 0, 'a', 0), (1, 1, 'c', 1), (1, 1, 'a', 0)]
    >>> ranker = pl.DataFrame({"doc": ["a", "b", "c"], "score": [0.5, 0.9, 0.1]})
    >>> pairs.join(ranker, on="doc").ranking.pair_accuracy(query="pair")  # b over a, not c over a
    0.5
    """
    columns = columns_of(schema_of(frame), query, doc, click, position, by)
    return _preferences(frame, columns, CLICK, position)


@framed
def last_click(
    frame: pl.LazyFrame,
    *,
    time: str | None = None,
    query: Names = "query",
    doc: str = "doc",
    click: str = "click",
    position: str = "position",
    by: Names | None = None,
) -> pl.LazyFrame:
    """Return preferences: the last document clicked over each one skipped above it.

    Parameters
    ----------
    frame, query, doc, click, position, by
        As for `skip_above`.
    time
        The column of when a document was clicked, a number or a time, by which the last click is
        found; of several at one time it is the lowest. None: the lowest click, as if users went
        from the top down.

    Returns
    -------
    LazyFrame or DataFrame
        As of `skip_above`.

    Raises
    ------
    SchemaError, DataError
        As for `skip_above`.

    Notes
    -----
    Earlier clicks may have disappointed; the last one likely ended the search.

    References
    ----------
    Joachims et al., Accurately interpreting clickthrough data as implicit feedback, 2005.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "doc": ["a", "b", "c", "d"], "position": [1, 2, 3, 4],
    ...     "click": [0, 1, 0, 1], "time": [None, 40.0, None, 12.0],
    ... })
    >>> pr.clicks.last_click(log).select("doc", "label").rows()
    [('d', 1), ('a', 0), ('d', 1), ('c', 0)]
    >>> pr.clicks.last_click(log, time="time").select("doc", "label").rows()
    [('b', 1), ('a', 0)]
    """
    schema = schema_of(frame)
    columns = columns_of(schema, query, doc, click, position, by)
    moment = position if time is None else time
    check_there("time", moment, schema)
    dtype = schema[moment]
    if not (dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Null):
        message = (
            f"column {moment!r} (`time`) must be a number or a time; found {dtype}; read "
            f"it first, as with pl.col({moment!r}).str.to_datetime()"
        )
        raise SchemaError(message, "time")
    when = pl.col(_TIME)
    last = CLICK & (when.filter(CLICK).max() == when)
    return _preferences(frame, columns, last & (PLACE.filter(last).max() == PLACE), moment)


def _preferences(log: pl.LazyFrame, columns: Columns, wins: pl.Expr, time: str) -> pl.LazyFrame:
    """Return pairs of each document that wins in its list and each that was skipped above it."""
    doc = columns.pair[-1]
    free(columns.pair, ["pair", "label"], "doc")
    checks = [
        *row_checks(columns),
        *checks_of("row", negative("click", columns.label)),
    ]
    shown = pl.col(columns.score).is_not_null()
    rows = {
        OWN + "doc": pl.col(doc),
        OWN + "place": pl.col(columns.score),
        OWN + "click": is_click(columns.label).fill_null(value=False) & shown,
        _TIME: pl.col(time),
    }
    skipped = ~CLICK & PLACE.is_not_null()
    winners = [
        DOC.filter(wins).sort_by(PLACE.filter(wins)),
        # How many of those that were skipped stand above each winner.
        skipped.sort_by(PLACE).cum_sum().filter(wins.sort_by(PLACE)).alias(_ABOVE),
    ]
    losers = DOC.filter(skipped).sort_by(PLACE.filter(skipped)).alias(_OVER)
    known = [each.filter(PLACE.is_not_null()) for each in (PLACE, DOC)]
    several = [
        (each.n_unique() < each.len()).alias(name) for each, name in zip(known, _TWICE, strict=True)
    ]
    lists, told = per_list(log, columns, rows, [*winners, losers, *several], checks)
    unique = checks_of("ranking", {problem: pl.col(name) for name, problem in _TWICE.items()})
    flagged = lists.with_columns(failed(unique, "ranking")).drop(_TWICE)
    once = raise_failed(flagged, unique, keys=told.names)
    return (
        once.explode(OWN + "doc", _ABOVE)
        .with_columns(pl.col(_OVER).list.head(_ABOVE))
        .filter(pl.col(_OVER).list.len() > 0)
        .explode(_OVER)
        .with_row_index("pair")
        .select(
            *renamed(told),
            "pair",
            pl.concat_list(DOC, _OVER).alias(doc),
            pl.lit([1, 0], dtype=pl.List(pl.Int8)).alias("label"),
        )
        .explode(doc, "label")
    )
