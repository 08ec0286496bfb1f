"""Labels from many impressions of the same document for the same query, and how many there were."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, free, is_number, whole_number
from polars_rank._polars import is_sorted_by
from polars_rank.clicks.impressions import (
    CLICK,
    DOC,
    columns_of,
    is_click,
    per_list,
    renamed,
)
from polars_rank.columns import POSITION
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.checks import (
    checks_of,
    failed,
    failed_in_ranking,
    raise_failed,
    row_checks,
)
from polars_rank.evaluation.contiguity import Keys
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.signals import negative

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars_rank.columns import Columns

__all__ = ["click_through_rates", "coec"]

_RATE, _ROW = OWN + "rate", OWN + "row"
_COUNTS = ("impressions", "clicks")
#: By so many digits values differ: the last ones tell in which order the same rates were added.
_DIGITS = 9


@framed
def click_through_rates(
    frame: pl.LazyFrame,
    *,
    prior: float | tuple[float, float] = 10,
    grades: int | None = None,
    query: Names = "query",
    doc: str = "doc",
    click: str = "click",
    position: str = POSITION,
    by: Names | None = None,
) -> pl.LazyFrame:
    r"""Count the clicks on each document of a query, and smooth the click-through rate.

    $$\mathrm{CTR} = \frac{clicks + \alpha}{impressions + \alpha + \beta}$$

    Parameters
    ----------
    frame
        The log, one row per impression of a document.
    prior
        The Beta prior of the rate, as clicks and impressions that count as seen before any was:
        the pair (α, β), α clicks and β impressions without one, each 0 or more; or one number m
        of 0 or more, so many impressions at the mean rate of the log, or of its group:
        α = m · mean and β = m · (1 - mean). By default 10: of a document with 10 impressions, the
        rate lies halfway between its own and the mean. 0 or (0, 0): the rate is not smoothed.
    grades
        How many grades the label has, 2 or more: that of a document is the share of all
        documents, of all queries (of the group), that have a lower rate, in so many equal steps
        from 0. None: the label is the rate.
    query, doc, click
        Names of the columns; `query` may be several. A click is a condition, or a count above 0; a
        null is an impression of which it is not known, and is not counted.
    position
        The column of the position where the document was shown; a null in it is no impression.
        By default "position", if the table has it.
    by
        Columns that split the log, such as the country.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`, in the order of its keys: one row per document of a query that was shown,
        with the `by`, `query` and `doc` columns and

        - `impressions`, `clicks`: how many;
        - `ctr`: the smoothed rate;
        - `label`: the same, or a grade.

    Raises
    ------
    SchemaError
        For a missing column, or clicks or positions that are not numbers.
    DataError
        For a null query or document, a click below 0 or NaN; lazily, when the result is collected.
    ArgumentError
        For a parameter out of its range.

    Notes
    -----
    What stands on top is clicked more: `coec` takes the position out.

    References
    ----------
    Joachims et al., Accurately interpreting clickthrough data as implicit feedback, 2005.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": "a", "doc": ["x", "x", "x", "y"], "click": [1, 1, 0, 0]
    ... })
    >>> pr.clicks.click_through_rates(log, prior=(1, 1)).drop("label").rows()
    [('a', 'x', 3, 2, 0.6), ('a', 'y', 1, 0, 0.3333333333333333)]
    """
    weights, schema = _prior(prior), schema_of(frame)
    place = click if position is POSITION and position not in schema else position
    columns = columns_of(schema, query, doc, click, place, by)
    pairs, keys = _pairs(frame, columns, {})
    if isinstance(weights, float):
        pairs = _beside(pairs, frame, columns, columns.by)
        alpha, beta = weights * pl.col(_RATE), weights * (1 - pl.col(_RATE))
    else:
        alpha, beta = map(pl.lit, weights)
    ctr = (pl.col("clicks") + alpha) / (pl.col("impressions") + alpha + beta)
    labelled = _labelled(pairs.with_columns(ctr=ctr), "ctr", pl.col("ctr"), grades, columns.by)
    return labelled.select(*keys, *_COUNTS, "ctr", "label")


@framed
def coec(
    frame: pl.LazyFrame,
    *,
    grades: int | None = None,
    query: Names = "query",
    doc: str = "doc",
    click: str = "click",
    position: str = "position",
    by: Names | None = None,
) -> pl.LazyFrame:
    r"""Divide the clicks on each document of a query by those that its positions get: COEC.

    $$\mathrm{COEC} = \frac{\sum clicks}{\sum_{impressions} \mathrm{CTR}[position]}$$

    with CTR[j] the clicks per impression of position j in the log, of all queries and documents.

    Parameters
    ----------
    frame
        The log, one row per impression of a document.
    grades
        How many grades the label has, 2 or more: that of a document is the share of all
        documents, of all queries (of the group), that have a lower COEC, in so many equal steps
        from 0. None: the label is clicks / (clicks + expected clicks), between 0 and 1, and 1/2
        for as many clicks as its positions get.
    query, doc, click
        Names of the columns; `query` may be several. A click is a condition, or a count above 0; a
        null is an impression of which it is not known, and is not counted.
    position
        The column of the position where the document was shown; a null is no impression.
    by
        Columns that split the log, such as the country: each has its own CTR by position.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`, in the order of its keys: one row per document of a query that was shown,
        with the `by`, `query` and `doc` columns and

        - `impressions`, `clicks`: how many: thin evidence is seen there;
        - `expected`: the clicks that its positions get;
        - `coec`: clicks / expected, 1 for a document like any other; null where nothing is
          expected, since nobody ever clicked at its positions;
        - `label`: in [0, 1], or a grade; null where `coec` is.

    Raises
    ------
    SchemaError
        For a missing column, or clicks or positions that are not numbers.
    DataError
        For a null query or document, a click below 0 or NaN; lazily, when the result is collected.
    ArgumentError
        For a parameter out of its range.

    Notes
    -----
    It takes out what a position adds on average. Where better documents stand on top, part of
    their merit goes with it; `pr.clicks.position_bias` tells the two apart.

    References
    ----------
    Zhang & Jones, Comparing click logs and editorial labels for training query rewriting, 2007;
    Chapelle & Zhang, A dynamic Bayesian network click model for web search ranking, 2009.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": "a",
    ...     "doc": ["x", "y", "x", "y"],
    ...     "position": [1, 2, 2, 1],
    ...     "click": [1, 0, 1, 1],
    ... })  # CTR is 1 at the first position, 1/2 at the second
    >>> pr.clicks.coec(log).select("doc", "clicks", "expected", "coec").rows()
    [('x', 2, 1.5, 1.3333333333333333), ('y', 1, 1.5, 0.6666666666666666)]
    """
    columns = columns_of(schema_of(frame), query, doc, click, position, by)
    keyed = partial(
        _beside, log=frame, columns=columns, keys=[*dict.fromkeys((*columns.by, position))]
    )
    pairs, keys = _pairs(frame, columns, {"expected": pl.col(_RATE).sum()}, keyed)
    clicks, expected = pl.col("clicks"), pl.col("expected")
    known = pairs.with_columns(coec=pl.when(expected > 0).then(clicks / expected))
    share = pl.when(expected > 0).then(clicks / (clicks + expected))
    labelled = _labelled(known, "coec", share, grades, columns.by)
    return labelled.select(*keys, *_COUNTS, "expected", "coec", "label")


def _pairs(
    log: pl.LazyFrame,
    columns: Columns,
    sums: Mapping[str, pl.Expr],
    beside: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda log: log,
) -> tuple[pl.LazyFrame, list[str]]:
    """Return sums over the impressions of each pair of a query and a document, and its keys.

    `beside` may add the column of rates to the log.
    """
    keys = columns.pair
    doc = keys[-1]
    free(keys, ["impressions", "clicks", "ctr", "expected", "coec", "label"], "doc")
    checks = [
        *row_checks(columns),
        *checks_of("row", negative("click", columns.label)),
    ]
    read = {OWN + "doc": pl.col(doc), OWN + "click": _known_click(columns)}
    read |= {_RATE: pl.col(_RATE)} if sums else {}
    shown = CLICK.is_not_null()
    by_doc = pl.struct(*read).filter(shown).sort_by(DOC.filter(shown))
    totals = {"impressions": pl.len(), "clicks": CLICK.sum(), **sums}
    if Keys.of(columns).number is None and not is_sorted_by(log, columns.keys):
        # There are fewer pairs than impressions: these need no order.
        rows = (each.alias(name) for name, each in read.items())
        known = beside(log).select(*keys, *rows, failed(checks, "row")).filter(shown)
        pairs = known.group_by(keys).agg(failed_in_ranking(checks), **totals).sort(keys)
        named = {key: key for key in columns.keys}
        return raise_failed(pairs, checks, log=log, keys=named), keys
    made, lists = per_list(log, columns, read, [by_doc.alias(_ROW)], checks, beside)
    # The rows of a pair come together, so that they add up in flat memory.
    order = [*lists.group, OWN + "doc"]
    pairs = (
        made.filter(pl.col(_ROW).list.len() > 0)
        .explode(_ROW)
        .unnest(_ROW)
        .set_sorted(order)
        .group_by(order, maintain_order=True)
        .agg(*lists.carried, **totals)
    )
    return pairs.with_columns(*renamed(lists), DOC.alias(doc)), keys


def _known_click(columns: Columns) -> pl.Expr:
    """Return whether an impression was clicked, 1 or 0; null where it is none."""
    shown = pl.col(columns.score).is_not_null()
    return pl.when(shown).then(is_click(columns.label).cast(pl.UInt32))


def _beside(
    rows: pl.LazyFrame, log: pl.LazyFrame, columns: Columns, keys: Sequence[str]
) -> pl.LazyFrame:
    """Return rows, in their order, with the clicks per impression of all that share some keys."""
    rate = _known_click(columns).mean().alias(_RATE)
    if not keys:
        return rows.join(log.select(rate), how="cross", maintain_order="left")
    rates = log.group_by(keys).agg(rate)
    return rows.join(rates, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _labelled(
    pairs: pl.LazyFrame, value: str, share: pl.Expr, grades: int | None, by: Sequence[str]
) -> pl.LazyFrame:
    """Return the pairs with a label: a share, or of so many equal steps of the values below."""
    if grades is None:
        return pairs.with_columns(label=share)
    if whole_number("grades", grades) == 1:
        message = "`grades` must be 2 or more, or None; of one grade, all documents have the same"
        raise ArgumentError(message, "grades")
    known = pl.col(value).round_sig_figs(_DIGITS)
    below, count = (known.rank("min") - 1).cast(pl.Int64), known.count()
    grade = (below * grades // count).cast(pl.Int32)
    grade = grade.over(by) if by else grade
    return pairs.with_columns(label=grade)


def _prior(prior: float | tuple[float, float]) -> float | tuple[float, float]:
    """Return the prior; raise `ArgumentError` unless it is a weight or two, not negative."""
    if is_number(prior) and prior >= 0:  # type: ignore[operator]
        return float(prior)  # type: ignore[arg-type]
    pair = isinstance(prior, (tuple, list)) and len(prior) == len(("alpha", "beta"))
    if pair and all(is_number(each) and each >= 0 for each in prior):  # type: ignore[union-attr]
        alpha, beta = prior  # type: ignore[misc]
        return float(alpha), float(beta)
    message = (
        "`prior` must be how many impressions the mean rate weighs, or the pair (alpha, beta), "
        f"numbers of 0 or more; found {prior!r}"
    )
    raise ArgumentError(message, "prior")
