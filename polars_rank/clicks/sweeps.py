"""`propensity_sweep`: counterfactual estimates with several upper bounds of the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, check_column, check_reads, free, names, positive
from polars_rank.clicks.estimates import estimate
from polars_rank.clicks.weights import inverse_propensity
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.frames.tables import framed, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from polars_rank.clicks.estimates import EstimateOptions
    from polars_rank.clicks.weights import Propensity
    from polars_rank.metrics.names import Metrics

_LABEL = OWN + "label"


@framed
def propensity_sweep(
    frame: pl.LazyFrame,
    /,
    metrics: Metrics,
    *,
    click: str = "click",
    propensity: Propensity = "propensity",
    clips: Sequence[float | None] = (1, 2, 5, 10, 20, 50, 100, None),
    **options: Unpack[EstimateOptions],
) -> pl.LazyFrame:
    """Estimate the means of a new ranker from clicks, for several clips of the weights.

    A lower clip gives a lower variance and a larger bias. An estimate is reliable if it changes
    little over a large part of the sweep.

    Parameters
    ----------
    frame
        The log, one row per document of a ranking, with the scores of the new ranker.
    metrics
        Metrics that are sums over documents: CG, DCG, precision, RBP, ARP, and with "snips" also
        recall; by name, as metrics, or as expressions that are such sums.
    click
        Column with clicks (Boolean) or rewards of 0 or more; null if the document was not shown.
    propensity
        Column of propensities, an expression, or the DataFrame that `position_bias` returns, which
        is joined by the column "position".
    clips
        Upper bounds of the weights, 1 or more (or, if below 1, lower bounds of the propensities);
        None for no bound. With 1, all clicks have the same weight: the naive estimate.
    **options
        Options of `estimate`, such as `query`, `score`, `by`, `normalize`, `cluster` and
        `max_unshown`.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one: the result of `estimate` for each clip in turn, with the
        column `clip` after the columns of `by`: the upper bound of the weights, null for none.

    Warns
    -----
    RankWarning
        If the effective sample size at a clip, or the number of rankings, is below 30: the
        intervals are then too narrow. Issued when the result is collected.

    References
    ----------
    Strehl et al., Learning from logged implicit exploration data, 2010: clipped weights.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [2, 1], "click": [1, 1], "propensity": [0.1, 0.5]
    ... })
    >>> sweep = pr.clicks.propensity_sweep(df, "p@1", clips=[1, 5, None])
    >>> sweep.select("clip", "p@1")
    shape: (3, 2)
    ┌──────┬──────────┐
    │ clip ┆ p@1      │
    │ ---  ┆ ---      │
    │ f64  ┆ f64      │
    ╞══════╪══════════╡
    │ 1.0  ┆ 0.5      │
    │ 5.0  ┆ 0.714286 │
    │ null ┆ 0.833333 │
    └──────┴──────────┘
    """
    bounds = [*clips]
    if not bounds:
        raise ArgumentError("`clips` is empty; pass at least one upper bound, or None for no bound")
    for clip in bounds:
        if clip is not None:
            positive("clips", clip)
    if "label" in options:
        raise ArgumentError("labels are computed from `click` and `propensity`; omit `label`")
    schema = schema_of(frame)
    for parameter, column in (("click", click), ("propensity", propensity)):
        if isinstance(column, str):
            check_column(parameter, column, schema, "number")
        elif isinstance(column, pl.Expr):
            check_reads(parameter, column, schema)
        elif isinstance(column, pl.DataFrame) and "position" not in schema:
            raise SchemaError(
                f"`{parameter}` is a table by position, but the log has no column 'position'; "
                f"available: {', '.join(map(repr, schema))}"
            )
    groups = names("by", options.get("by"))
    free(groups, ["clip"])
    labeled: dict[str, Any] = {**options, "label": _LABEL}
    parts = []
    for clip in bounds:
        label = inverse_propensity(click, propensity, clip=clip).alias(_LABEL)
        estimates = estimate(frame.with_columns(label), metrics, **labeled)
        bound = None if clip is None else max(clip, 1 / clip)
        clip_column = pl.lit(bound, dtype=pl.Float64).alias("clip")
        parts.append(estimates.select(*groups, clip_column, pl.all().exclude(groups)))
    return pl.concat(parts)
