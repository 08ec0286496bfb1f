"""`click_through_rates` and `coec`: labels from the clicks on each document of a query."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, free, is_number, whole_number
from polars_rank.checks import failed, failed_in_ranking, raise_failed
from polars_rank.clicks.impressions import CLICK, DOC, columns_of, impression_checks, is_click
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.log import per_ranking
from polars_rank.frames.tables import framed, schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from polars_rank.columns import Columns

__all__ = ["click_through_rates", "coec"]

_RATE, _ROW = OWN + "rate", OWN + "row"
_COUNTS = ("impressions", "clicks")
#: Significant digits in which values are compared; others depend on the order of summation.
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
    position: str = "position",
    by: Names | None = None,
) -> pl.LazyFrame:
    r"""Return the smoothed click-through rate of each document of a query.

    $$\mathrm{CTR} = \frac{clicks + \alpha}{impressions + \alpha + \beta}$$

    where clicks is the number of impressions with a click, however many clicks they had.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": "a", "doc": ["x", "x", "x", "y"], "click": [1, 1, 0, 0]
    ... })
    >>> pr.clicks.click_through_rates(log, prior=(1, 1)).drop("label")
    shape: (2, 5)
    ┌───────┬─────┬─────────────┬────────┬──────────┐
    │ query ┆ doc ┆ impressions ┆ clicks ┆ ctr      │
    │ ---   ┆ --- ┆ ---         ┆ ---    ┆ ---      │
    │ str   ┆ str ┆ u32         ┆ u32    ┆ f64      │
    ╞═══════╪═════╪═════════════╪════════╪══════════╡
    │ a     ┆ x   ┆ 3           ┆ 2      ┆ 0.6      │
    │ a     ┆ y   ┆ 1           ┆ 0      ┆ 0.333333 │
    └───────┴─────┴─────────────┴────────┴──────────┘

    Parameters
    ----------
    frame
        The log, one row per impression of a document.
    prior
        Beta prior of the rate, in clicks and impressions that are added to those of the log:
        either a pair (α, β) of α clicks and β impressions without a click, each 0 or more; or a
        number m ≥ 0 of impressions at the mean rate of the log or of its group, that is
        α = m · mean and β = m · (1 - mean). With the default of 10, the rate of a document with 10
        impressions is halfway between its own and the mean. With 0 or (0, 0), it is not smoothed.
    grades
        Number of grades, 2 or more: the grade of a document is the share of all documents of all
        queries (of the group) that have a lower rate, in equal steps from 0. None (default): the
        label is the rate.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    click
        Column of clicks. Rows with a null click are not counted.
    position
        Column of the position, 1 first. Rows with a null position are not counted. Default:
        "position" if the table has it.
    by
        Columns to group by.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one, sorted by its keys: one row per document of a query that was
        shown, with the `by`, `query` and `doc` columns and

        - `impressions`, `clicks`: the numbers of impressions, and of those with a click;
        - `ctr`: the smoothed rate;
        - `label`: the rate or the grade.

    Raises
    ------
    DataError
        If a query or document is null, or a click is neither Boolean nor a count; raised when
        the result is collected.

    Notes
    -----
    Documents near the top are clicked more often, whatever their relevance. `coec` corrects for
    the position.

    References
    ----------
    Joachims et al., Accurately interpreting clickthrough data as implicit feedback, 2005.
    """
    weights = _prior(prior)
    optional = ("position",)
    columns = columns_of(schema_of(frame), query, doc, click, position, by, optional)
    pairs, keys = _pairs(frame, columns, {})
    if isinstance(weights, float):
        pairs = _with_rates(pairs, frame, columns, columns.by)
        alpha, beta = weights * pl.col(_RATE), weights * (1 - pl.col(_RATE))
    else:
        alpha, beta = map(pl.lit, weights)
    ctr = (pl.col("clicks") + alpha) / (pl.col("impressions") + alpha + beta)
    labeled = _labeled(pairs.with_columns(ctr=ctr), "ctr", pl.col("ctr"), grades, columns.by)
    return labeled.select(*keys, *_COUNTS, "ctr", "label")


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
    r"""Return clicks over expected clicks (COEC) of each document of a query.

    $$\mathrm{COEC} = \frac{clicks}{\sum_{impressions} \mathrm{CTR}[position]}$$

    where clicks is the number of impressions with a click, however many clicks they had, and CTR[j]
    is the share of impressions at position j with a click, over all queries and documents of the
    log.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": "a",
    ...     "doc": ["x", "y", "x", "y"],
    ...     "position": [1, 2, 2, 1],
    ...     "click": [1, 0, 1, 1],
    ... })  # CTR is 1 at the first position, 1/2 at the second
    >>> pr.clicks.coec(log).select("doc", "clicks", "expected", "coec")
    shape: (2, 4)
    ┌─────┬────────┬──────────┬──────────┐
    │ doc ┆ clicks ┆ expected ┆ coec     │
    │ --- ┆ ---    ┆ ---      ┆ ---      │
    │ str ┆ u32    ┆ f64      ┆ f64      │
    ╞═════╪════════╪══════════╪══════════╡
    │ x   ┆ 2      ┆ 1.5      ┆ 1.333333 │
    │ y   ┆ 1      ┆ 1.5      ┆ 0.666667 │
    └─────┴────────┴──────────┴──────────┘

    Parameters
    ----------
    frame
        The log, one row per impression of a document.
    grades
        Number of grades, 2 or more: the grade of a document is the share of all documents of all
        queries (of the group) that have a lower COEC, in equal steps from 0. None (default): the
        label is clicks / (clicks + expected clicks), between 0 and 1; it is 1/2 for a document
        with as many clicks as expected.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    click
        Column of clicks. Rows with a null click are not counted.
    position
        Column of the position, 1 first. Rows with a null position are not counted.
    by
        Columns to group by. Each group has its own CTR by position.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one, sorted by its keys: one row per document of a query that was
        shown, with the `by`, `query` and `doc` columns and

        - `impressions`, `clicks`: the numbers of impressions, and of those with a click;
        - `expected`: the expected number of impressions with a click, from their positions;
        - `coec`: clicks / expected, 1 for an average document; null if `expected` is 0, that is,
          if no document was ever clicked at its positions;
        - `label`: a number in [0, 1] or a grade; null if `coec` is null.

    Raises
    ------
    DataError
        If a query or document is null, or a click is neither Boolean nor a count; raised when
        the result is collected.

    Notes
    -----
    COEC removes the average effect of a position. If better documents are shown nearer to the top,
    this also removes part of their relevance; `pr.clicks.position_bias` separates the two.

    References
    ----------
    Zhang & Jones, Comparing click logs and editorial labels for training query rewriting, 2007;
    Chapelle & Zhang, A dynamic Bayesian network click model for web search ranking, 2009.
    """
    columns = columns_of(schema_of(frame), query, doc, click, position, by)
    with_rates = partial(
        _with_rates, log=frame, columns=columns, keys=[*dict.fromkeys((*columns.by, position))]
    )
    pairs, keys = _pairs(frame, columns, {"expected": pl.col(_RATE).sum()}, with_rates)
    clicks, expected = pl.col("clicks"), pl.col("expected")
    known = pairs.with_columns(coec=pl.when(expected > 0).then(clicks / expected))
    share = pl.when(expected > 0).then(clicks / (clicks + expected))
    labeled = _labeled(known, "coec", share, grades, columns.by)
    return labeled.select(*keys, *_COUNTS, "expected", "coec", "label")


def _pairs(
    log: pl.LazyFrame,
    columns: Columns,
    sums: Mapping[str, pl.Expr],
    add_columns: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda log: log,
) -> tuple[pl.LazyFrame, list[str]]:
    """Return sums over the impressions of each (query, document) pair, and the keys of a pair.

    `add_columns` adds the column of rates to the log, if the sums need it.
    """
    keys = columns.pair
    doc = keys[-1]
    free(keys, ["impressions", "clicks", "ctr", "expected", "coec", "label"], "doc")
    checks = impression_checks(columns)
    inputs = {OWN + "doc": pl.col(doc), OWN + "click": _known_click(columns)}
    inputs |= {_RATE: pl.col(_RATE)} if sums else {}
    shown = CLICK.is_not_null()
    by_doc = pl.struct(*inputs).filter(shown).sort_by(DOC.filter(shown))
    totals = {"impressions": pl.len(), "clicks": CLICK.sum(), **sums}
    if not Keys.of(columns).are_adjacent(log):
        # Group before sorting: there are fewer pairs than impressions.
        rows = (each.alias(name) for name, each in inputs.items())
        known = add_columns(log).select(*keys, *rows, failed(checks, "row")).filter(shown)
        pairs = known.group_by(keys).agg(failed_in_ranking(checks), **totals).sort(keys)
        named = {key: key for key in columns.keys}
        return raise_failed(pairs, checks, log=log, keys=named), keys
    rankings, ranking_keys = per_ranking(
        log, columns, inputs, [by_doc.alias(_ROW)], checks, add_columns
    )
    # Rows of a pair are adjacent, so their sums need only flat memory.
    order = [*ranking_keys.group, OWN + "doc"]
    pairs = (
        rankings.filter(pl.col(_ROW).list.len() > 0)
        .explode(_ROW)
        .unnest(_ROW)
        .set_sorted(order)
        .group_by(order, maintain_order=True)
        .agg(*ranking_keys.carried, **totals)
    )
    return pairs.with_columns(*ranking_keys.named, DOC.alias(doc)), keys


def _known_click(columns: Columns) -> pl.Expr:
    """Return 1 for a click and 0 for no click; null if the document was not shown."""
    shown = pl.col(columns.score).is_not_null()
    return pl.when(shown).then(is_click(columns.label).cast(pl.UInt32))


def _with_rates(
    rows: pl.LazyFrame, log: pl.LazyFrame, columns: Columns, keys: Sequence[str]
) -> pl.LazyFrame:
    """Return the rows, in their order, with the click-through rate over the log by the keys."""
    rate = _known_click(columns).mean().alias(_RATE)
    if not keys:
        return rows.join(log.select(rate), how="cross", maintain_order="left")
    rates = log.group_by(keys).agg(rate)
    return rows.join(rates, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _labeled(
    pairs: pl.LazyFrame, value: str, share: pl.Expr, grades: int | None, by: Sequence[str]
) -> pl.LazyFrame:
    """Return the pairs with a label: `share`, or a grade by the share of lower values."""
    if grades is None:
        return pairs.with_columns(label=share)
    if whole_number("grades", grades) == 1:
        raise ArgumentError("`grades` must be 2 or more, or None; found 1")
    known = pl.col(value).round_sig_figs(_DIGITS)
    below, count = (known.rank("min") - 1).cast(pl.Int64), known.count()
    grade = (below * grades // count).cast(pl.Int32)
    grade = grade.over(by) if by else grade
    return pairs.with_columns(label=grade)


def _prior(prior: float | tuple[float, float]) -> float | tuple[float, float]:
    """Return the prior; raise `ArgumentError` unless it is one or two numbers of 0 or more."""
    if is_number(prior) and prior >= 0:  # type: ignore[operator]
        return float(prior)  # type: ignore[arg-type]
    pair = isinstance(prior, (tuple, list)) and len(prior) == len(("alpha", "beta"))
    if pair and all(is_number(each) and each >= 0 for each in prior):  # type: ignore[union-attr]
        alpha, beta = prior  # type: ignore[misc]
        return float(alpha), float(beta)
    raise ArgumentError(
        "`prior` must be a number of impressions or a pair (alpha, beta), all 0 or more; "
        f"found {prior!r}"
    )
