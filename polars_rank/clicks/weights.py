"""`inverse_propensity`: labels from clicks, corrected for position bias."""

from __future__ import annotations

from functools import partial
from typing import Any, TypeAlias

import polars as pl

from polars_rank._params import check_name, check_type, is_number, positive, public
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, number_of
from polars_rank.metrics.user_columns import checked_numbers

Propensity: TypeAlias = "str | pl.Expr | pl.DataFrame"

#: Errors in rows → remedies.
_REMEDIES = {
    "missing propensity of a click": (
        "its position is missing or null in the table of propensities; estimate them from a log "
        "with this position, or drop its rows"
    ),
    "a propensity is 0 or negative": (
        "its inverse is not a valid weight; drop the rows of this position, or use another estimate"
    ),
    "a propensity is above 1 or NaN": (
        "a propensity is a probability; if noise moved an estimate above 1, use "
        ".clip(upper_bound=1)"
    ),
    "a click is negative or not finite": "a click is Boolean or a reward of 0 or more",
}


@public
def inverse_propensity(
    click: str | pl.Expr = "click",
    propensity: Propensity = "propensity",
    *,
    position: str = "position",
    clip: float | None = None,
) -> pl.Expr:
    r"""Label documents by their clicks divided by the propensity of their positions.

    $$label = \frac{click}{propensity_{position}}$$

    where the position is the one at which the document was shown. With these labels, clicks on the
    rankings of one ranker give an unbiased estimate of any metric of a new ranker that is a sum
    over documents, such as DCG, if every document had a positive probability of being examined.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "position": [1, 2, 4], "click": [0, 1, 1],
    ...     "propensity": [1.0, 0.5, 0.25],
    ... })
    >>> log.select(pr.clicks.inverse_propensity()).to_series().to_list()
    [0.0, 2.0, 4.0]
    >>> log.select(pr.clicks.inverse_propensity(clip=3)).to_series().to_list()
    [0.0, 2.0, 3.0]

    Parameters
    ----------
    click
        Column of clicks. Clicks are Boolean, or rewards of 0 or more; null if the document was not
        shown. Or an expression.
    propensity
        Column of propensities, an expression, or the DataFrame that `position_bias` returns.
    position
        Column of the position, 1 first. It is only read if `propensity` is a DataFrame, which must
        include all positions with a click.
    clip
        Upper bound of the weights, 1 or more; or, if below 1, the lower bound of the propensities:
        20 and 0.05 are equivalent. A bound reduces the variance and adds a bias towards 0. None
        (default): no bound.

    Returns
    -------
    Expr
        Float64 for `with_columns(label=...)`: the weight of a clicked document, 0 for a shown
        document without a click, null for a document that was not shown.

    Raises
    ------
    DataError
        If a click has no propensity, or a propensity is not in (0, 1]; raised when the expression
        is evaluated.
    ArgumentError
        If `clip` is not above 0, or the table of propensities has several groups.

    Notes
    -----
    `pr.clicks.estimate` computes any metric that is a sum over documents from these labels. In
    `evaluate`, metrics that sum labels (DCG, CG) are also correct, but metrics of binary relevance
    (precision, AP, reciprocal rank) count each weight as 1.

    Propensities are treated as known: intervals of metrics of these labels do not include the
    error of estimated propensities (`std_error` of `position_bias`).

    References
    ----------
    Joachims, Swaminathan & Schnabel, Unbiased learning-to-rank with biased feedback, 2017.
    """
    if clip is not None:
        positive("clip", clip)
    for name in (click, propensity, position):
        if isinstance(name, str):
            check_name(name)
    limit = None if clip is None else max(clip, 1 / clip)
    clicked = pl.col(click) if isinstance(click, str) else click
    propensities = _expression(propensity, position)
    if not isinstance(clicked, pl.Expr):
        raise ArgumentError(
            f"`click` must be the name of a column or an expression; found {click!r}"
        )
    has_position = isinstance(propensity, pl.DataFrame)
    shown = pl.col(position).is_not_null() if has_position else pl.lit(value=True)
    inputs = pl.struct(
        clicked.alias("click"), propensities.alias("propensity"), shown.alias("shown")
    )
    labels = inputs.map_batches(
        partial(_labels, limit), return_dtype=pl.Float64, is_elementwise=True
    )
    return labels.alias(clicked.meta.output_name())


def _expression(propensity: Any, position: str) -> pl.Expr:
    """Return the propensity of each row, from a column or from the table by position."""
    if isinstance(propensity, str):
        return pl.col(propensity)
    if isinstance(propensity, pl.Expr):
        return propensity
    if is_number(propensity):
        positive("propensity", propensity, 1)
        return pl.lit(propensity)
    if not isinstance(propensity, pl.DataFrame) or not {"position", "propensity"} <= set(
        propensity.columns
    ):
        raise ArgumentError(
            "`propensity` must be the name of a column, an expression, or the DataFrame that "
            f"position_bias returns; found {type(propensity).__name__}"
        )
    places = propensity.get_column("position")
    if places.is_duplicated().any():
        raise ArgumentError(
            "duplicate positions in the table of propensities, for example because it has groups; "
            "join it to the log by group and position, and pass the name of the column"
        )
    Columns.find(propensity.schema, {"propensity": ["position", "propensity"]})
    known = propensity.get_column("propensity").cast(pl.Float64)
    return checked_numbers("position", position).replace_strict(
        places.cast(pl.Float64), known, default=None, return_dtype=pl.Float64
    )


def _labels(limit: float | None, rows: pl.Series) -> pl.Series:
    """Return the labels; raise `DataError` for invalid rows."""
    *columns, has_position = rows.struct.unnest().get_columns()
    for column in columns:
        check_type(column.name, column.name, column.dtype, "number")
    table = pl.DataFrame([column.cast(pl.Float64) for column in columns])
    click, propensity = table.get_columns()
    click = click.set(~has_position & ~(click > 0), None)
    shown = click.is_not_null()
    problems = {
        "missing propensity of a click": (click > 0) & propensity.is_null(),
        "a propensity is 0 or negative": shown & ~(propensity > 0),
        "a propensity is above 1 or NaN": shown & ((propensity > 1) | propensity.is_nan()),
        "a click is negative or not finite": ~((click >= 0) & click.is_finite()),
    }
    for problem, holds in problems.items():
        if holds.any():
            invalid = table.filter(holds)
            raise DataError(
                f"{problem} ({invalid.height:,} of {number_of(table.height, 'row')} read so far; "
                f"e.g. {invalid.row(0, named=True)}): {_REMEDIES[problem]}"
            )
    weight = 1 / propensity
    if limit is not None:
        weight = weight.clip(upper_bound=limit)
    labels = pl.select(pl.when(click > 0).then(click * weight).otherwise(click)).to_series()
    return labels.rename(rows.name)
