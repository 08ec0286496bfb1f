"""`preferences`: pairs of documents of which users preferred one, derived from clicks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import polars as pl

from polars_rank._params import OWN, Names, free, one_of
from polars_rank.checks import checks_of, failed, raise_failed
from polars_rank.clicks.impressions import (
    CLICK,
    DOC,
    PLACE,
    columns_of,
    impression_checks,
    is_click,
)
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.log import per_ranking
from polars_rank.frames.tables import framed, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.evaluation.contiguity import Keys

__all__ = ["preferences"]

_TIME, _SKIPPED, _ABOVE = OWN + "time", OWN + "skipped", OWN + "above"
_LATEST = CLICK & (pl.col(_TIME).filter(CLICK).max() == pl.col(_TIME))
#: Whether a document has the last click of its ranking.
LAST = _LATEST & (PLACE.filter(_LATEST).max() == PLACE)
_REMEDY = "; name all columns that identify a ranking with query=[...]"
#: Flags of rankings with duplicates → error messages.
_DUPLICATES = {
    OWN + "duplicate position": "duplicate positions in a ranking" + _REMEDY,
    OWN + "duplicate doc": "duplicate documents in a ranking" + _REMEDY + ", or drop one",
}


@framed
def preferences(
    log: pl.LazyFrame,
    kind: Literal["skip_above", "last"] = "skip_above",
    *,
    time: str | None = None,
    query: Names = "query",
    doc: str = "doc",
    click: str = "click",
    position: str = "position",
    by: Names | None = None,
) -> pl.LazyFrame:
    """Return preferences of clicked documents over documents skipped above them.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "doc": ["a", "b", "c"], "position": [1, 2, 3],
    ...     "click": [0, 1, 1],
    ... })
    >>> pairs = pr.clicks.preferences(log)
    >>> pairs
    shape: (4, 4)
    ┌───────┬──────┬─────┬───────┐
    │ query ┆ pair ┆ doc ┆ label │
    │ ---   ┆ ---  ┆ --- ┆ ---   │
    │ i32   ┆ u32  ┆ str ┆ i8    │
    ╞═══════╪══════╪═════╪═══════╡
    │ 1     ┆ 0    ┆ b   ┆ 1     │
    │ 1     ┆ 0    ┆ a   ┆ 0     │
    │ 1     ┆ 1    ┆ c   ┆ 1     │
    │ 1     ┆ 1    ┆ a   ┆ 0     │
    └───────┴──────┴─────┴───────┘
    >>> pr.clicks.preferences(log, "last")["doc"].to_list()
    ['c', 'a']
    >>> ranker = pl.DataFrame({"doc": ["a", "b", "c"], "score": [0.5, 0.9, 0.1]})
    >>> # The ranker places b above a, but not c above a.
    >>> pairs.join(ranker, on="doc").ranking.pair_accuracy(query="pair")
    0.5

    Parameters
    ----------
    log
        The log, one row per impression of a document.
    kind
        Which documents are preferred over each document that was skipped above them:

        - "skip_above": each clicked document;
        - "last": the document of the last click, which likely ended the search. Those of earlier
          clicks may have disappointed the user.
    time
        For "last": column with the time of the click, a number or a temporal type. Of several
        clicks at the same time, the lowest in the ranking is the last. Default: the lowest click
        is the last one, as if users clicked from the top down.
    query
        Column or columns that identify the query. It must identify each ranking that a user saw:
        for a log with several sessions per query, `query=["query", "session"]`.
    doc
        Column of the document.
    click
        Column of clicks.
    position
        Column of the position, 1 first.
    by
        Columns to group by.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `log` is one: two rows per pair, with the `by` and `query` columns, `pair`
        (its number, from 0), `doc`, and `label`: 1 for the preferred document, 0 for the other.
        After a join with the scores of a ranker, the mean of `pair_accuracy` with `query="pair"`
        is the share of the preferences that the ranker agrees with.

    Raises
    ------
    DataError
        If a query or document is null, a click is neither Boolean nor a count, or a ranking has
        duplicate documents or positions, for example because `query` does not include the session;
        raised when the result is collected.

    Notes
    -----
    Users likely saw the documents above a click, so position bias cannot explain the preference,
    which always contradicts the displayed order. In the study by Joachims et al., about four of
    five preferences of "skip_above" agreed with human judges.

    References
    ----------
    Joachims et al., Accurately interpreting clickthrough data as implicit feedback, 2005.
    """
    one_of("kind", kind, ("skip_above", "last"))
    schema = schema_of(log)
    columns = columns_of(schema, query, doc, click, position, by)
    if kind == "last":
        return _pairs(log, columns, LAST, time_column(time, position, schema))
    if time is not None:
        raise ArgumentError("`time` is for preferences of kind 'last'; omit it")
    return _pairs(log, columns, CLICK, position)


def time_column(time: str | None, position: str, schema: pl.Schema) -> str:
    """Return the column that says which click is the last; by default the positions."""
    moment = position if time is None else time
    Columns.find(schema, {"time": moment})
    dtype = schema[moment]
    if not (dtype.is_numeric() or dtype.is_temporal() or dtype == pl.Null):
        raise SchemaError(
            f"column {moment!r} (`time`) must be numeric or temporal; found {dtype}; parse it "
            f"first, e.g. with pl.col({moment!r}).str.to_datetime()"
        )
    return moment


def rankings_of(
    log: pl.LazyFrame, columns: Columns, time: str, values: Sequence[pl.Expr]
) -> tuple[pl.LazyFrame, Keys]:
    """Return values of each ranking, and the keys; collecting them raises for duplicates.

    The values are aggregations of `DOC`, `PLACE`, `CLICK` and `LAST`.
    """
    shown = pl.col(columns.score).is_not_null()
    rows = {
        OWN + "doc": pl.col(columns.pair[-1]),
        OWN + "place": pl.col(columns.score),
        OWN + "click": is_click(columns.label).fill_null(value=False) & shown,
        _TIME: pl.col(time),
    }
    shown_values = [each.filter(PLACE.is_not_null()) for each in (PLACE, DOC)]
    duplicates = [
        (each.n_unique() < each.len()).alias(name)
        for each, name in zip(shown_values, _DUPLICATES, strict=True)
    ]
    checks = impression_checks(columns)
    rankings, keys = per_ranking(log, columns, rows, [*values, *duplicates], checks)
    no_duplicates = checks_of(
        "ranking", {problem: pl.col(name) for name, problem in _DUPLICATES.items()}
    )
    flagged = rankings.with_columns(failed(no_duplicates, "ranking")).drop(_DUPLICATES)
    return raise_failed(flagged, no_duplicates, keys=keys.names), keys


def _pairs(log: pl.LazyFrame, columns: Columns, wins: pl.Expr, time: str) -> pl.LazyFrame:
    """Return pairs of each winning document and each document skipped above it."""
    doc = columns.pair[-1]
    free(columns.pair, ["pair", "label"], "doc")
    skipped = ~CLICK & PLACE.is_not_null()
    winners = [
        DOC.filter(wins).sort_by(PLACE.filter(wins)),
        # The number of skipped documents above each winner.
        skipped.sort_by(PLACE).cum_sum().filter(wins.sort_by(PLACE)).alias(_ABOVE),
    ]
    losers = DOC.filter(skipped).sort_by(PLACE.filter(skipped)).alias(_SKIPPED)
    valid, keys = rankings_of(log, columns, time, [*winners, losers])
    return (
        valid.explode(OWN + "doc", _ABOVE)
        .with_columns(pl.col(_SKIPPED).list.head(_ABOVE))
        .filter(pl.col(_SKIPPED).list.len() > 0)
        .explode(_SKIPPED)
        .with_row_index("pair")
        .select(
            *keys.named,
            "pair",
            pl.concat_list(DOC, _SKIPPED).alias(doc),
            pl.lit([1, 0], dtype=pl.List(pl.Int8)).alias("label"),
        )
        .explode(doc, "label")
    )
