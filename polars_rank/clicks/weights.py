"""Labels from clicks that position bias is taken out of: inverse propensity weights."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import polars as pl

from polars_rank._params import check_name, check_number, is_number, positive
from polars_rank.errors import ArgumentError, DataError, number_of
from polars_rank.metrics.signals import checked_numbers

Propensity: TypeAlias = "str | pl.Expr | pl.DataFrame"

#: What is wrong with a row → what to do about it.
_REMEDIES = {
    "a click has no propensity": (
        "its position is not in the table of propensities, or was compared with no other: estimate "
        "them from a log in which it was shown, or leave the rows of this position out"
    ),
    "a propensity is not above 0": (
        "what nobody looks at cannot be weighted by its inverse: leave the rows of this position "
        "out, or take another estimate"
    ),
    "a propensity is above 1 or NaN": (
        "it is a probability; of an estimate that noise brought there, take .clip(upper_bound=1)"
    ),
    "a click is below 0 or not finite": "it is true or false, or a reward of 0 or more",
}


def inverse_propensity(
    click: str | pl.Expr = "click",
    propensity: Propensity = "propensity",
    *,
    position: str = "position",
    clip: float | None = None,
) -> pl.Expr:
    r"""Label a document by its click, weighted by how unlikely it was to be seen.

    $$label = \frac{click}{propensity_{position}}$$

    where the position is the one at which the document was shown. With these labels, what a new
    ranker's list is worth - a sum over its documents, as DCG is - is estimated without bias from
    clicks on the lists of another one, as long as every document had a chance to be seen.

    Parameters
    ----------
    click
        The column of clicks, true or false, or of rewards of 0 or more; null = not shown.
    propensity
        The column of propensities, or an expression; or the DataFrame of `position_bias`, from
        which the propensity of each position is taken.
    position
        The column of the position where the document was shown, null where it was not; it is read
        for a table of propensities, which must have those of all positions that were clicked.
    clip
        The highest weight, 1 or more; or, below 1, the lowest propensity that is believed, which
        says the same: 20 is 0.05. Fewer rows decide, at the price of a bias towards 0. None: every
        weight counts in full.

    Returns
    -------
    Expr
        Float64 for `with_columns(label=...)`: the weight of a clicked document, 0 for one that
        was shown and not clicked, null for one that was not shown.

    Raises
    ------
    SchemaError
        When the column is made: for clicks, propensities or positions that are not numbers.
    DataError
        When the column is made: for a click without a propensity, for propensities of 0 or below
        and above 1.
    ArgumentError
        For a clip that is not above 0, or a table of several groups.

    Notes
    -----
    `estimate(..., normalize="ips")` counts such labels as weighted hits in every metric that is a
    sum over documents, normalize="snips" divides by the sum of the weights. In `evaluate`,
    metrics of labels (DCG, CG) are right as they are; those of relevant and not relevant
    (precision, AP, reciprocal rank) would count each weight as one.

    Propensities are taken as known. The error of estimated ones, `standard_error` of
    `position_bias`, is in no interval that is made of these labels.

    References
    ----------
    Joachims, Swaminathan & Schnabel, Unbiased learning-to-rank with biased feedback, 2017.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "position": [1, 2, 4], "click": [0, 1, 1], "propensity": [1.0, 0.5, 0.25]
    ... })
    >>> log.select(pr.clicks.inverse_propensity()).to_series().to_list()
    [0.0, 2.0, 4.0]
    >>> log.select(pr.clicks.inverse_propensity(clip=3)).to_series().to_list()
    [0.0, 2.0, 3.0]
    """
    if clip is not None:
        positive("clip", clip)
    for name in (click, propensity, position):
        if isinstance(name, str):
            check_name(name)
    limit = None if clip is None else max(clip, 1 / clip)
    clicked = pl.col(click) if isinstance(click, str) else click
    seen = _expression(propensity, position)
    if not isinstance(clicked, pl.Expr):
        message = f"`click` must be the name of a column or an expression; found {click!r}"
        raise ArgumentError(message, "click")
    placed = isinstance(propensity, pl.DataFrame)
    shown = pl.col(position).is_not_null() if placed else pl.lit(value=True)
    both = pl.struct(clicked.alias("click"), seen.alias("propensity"), shown.alias("shown"))
    labels = both.map_batches(partial(_labels, limit), return_dtype=pl.Float64, is_elementwise=True)
    return labels.alias(clicked.meta.output_name())


def _expression(propensity: Any, position: str) -> pl.Expr:
    """Return the propensity of a row: from a column, or from the table by its position."""
    if isinstance(propensity, str):
        return pl.col(propensity)
    if isinstance(propensity, pl.Expr):
        return propensity
    if is_number(propensity):
        return pl.lit(propensity)
    if not isinstance(propensity, pl.DataFrame) or not {"position", "propensity"} <= set(
        propensity.columns
    ):
        message = (
            "`propensity` must be the name of a column, an expression, or the DataFrame that "
            f"position_bias returns; found {type(propensity).__name__}"
        )
        raise ArgumentError(message, "propensity")
    places = propensity.get_column("position")
    if places.is_duplicated().any():
        message = (
            "the table of propensities has several for one position, as those of groups do: join "
            "it to the log by the groups and the position, and name the column"
        )
        raise ArgumentError(message)
    for name in ("position", "propensity"):
        check_number("propensity", name, propensity.schema[name])
    known = propensity.get_column("propensity").cast(pl.Float64)
    return checked_numbers("position", position).replace_strict(
        places.cast(pl.Float64), known, default=None, return_dtype=pl.Float64
    )


def _labels(limit: float | None, rows: pl.Series) -> pl.Series:
    """Return the labels; raise for rows that can have none."""
    *columns, placed = rows.struct.unnest().get_columns()
    for column in columns:
        check_number(column.name, column.name, column.dtype)
    table = pl.DataFrame([column.cast(pl.Float64) for column in columns])
    click, propensity = table.get_columns()
    click = click.set(~placed & ~(click > 0), None)
    shown = click.is_not_null()
    wrong = {
        "a click has no propensity": (click > 0) & propensity.is_null(),
        "a propensity is not above 0": shown & ~(propensity > 0),
        "a propensity is above 1 or NaN": shown & ((propensity > 1) | propensity.is_nan()),
        "a click is below 0 or not finite": ~((click >= 0) & click.is_finite()),
    }
    for problem, holds in wrong.items():
        if holds.any():
            found = table.filter(holds)
            message = (
                f"{problem} ({found.height:,} of {number_of(table.height, 'row')} looked at; e.g. "
                f"{found.row(0, named=True)}): {_REMEDIES[problem]}"
            )
            raise DataError(message)
    weight = 1 / propensity
    if limit is not None:
        weight = weight.clip(upper_bound=limit)
    labels = pl.select(pl.when(click > 0).then(click * weight).otherwise(click)).to_series()
    return labels.rename(rows.name)
