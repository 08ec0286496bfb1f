"""`propensity_sweep`: counterfactual estimates for several clips of the weights."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, check_column, free, names, one_of
from polars_rank.clicks.estimates import estimate
from polars_rank.clicks.weights import inverse_propensity
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import framed, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.clicks.estimates import Normalize
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
    normalize: Normalize = "snips",
    **options: Any,
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
    normalize
        "snips" (default) divides the weighted sums by the sum of the weights, "ips" by the number
        of rankings.
    **options
        Other parameters of `estimate`, such as `query`, `score`, `by`, `cluster` and
        `max_unshown`.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one: the result of `estimate` for each clip in turn, with the
        column `clip` first: the upper bound of the weights, null for none.

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
    >>> pr.clicks.propensity_sweep(df, "p@1", clips=[1, 5, None]).select("clip", "p@1")
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
    bounds = [*clips] if isinstance(clips, Iterable) else []
    if not bounds:
        message = (
            f"`clips` must have at least one upper bound, or None for no bound; found {clips!r}"
        )
        raise ArgumentError(message, "clips")
    one_of("normalize", normalize, ("ips", "snips"))
    if "label" in options:
        message = "labels are computed from `click` and `propensity`; omit `label`"
        raise ArgumentError(message, "click", "propensity", "label")
    schema = schema_of(frame)
    for parameter, column in (("click", click), ("propensity", propensity)):
        if isinstance(column, str):
            check_column(parameter, column, schema, "number")
    free(names("by", options.get("by")), ["clip"])
    parts = []
    for clip in bounds:
        label = inverse_propensity(click, propensity, clip=clip).alias(_LABEL)
        estimates = estimate(
            frame.with_columns(label), metrics, label=_LABEL, normalize=normalize, **options
        )
        bound = None if clip is None else max(clip, 1 / clip)
        parts.append(estimates.select(pl.lit(bound, dtype=pl.Float64).alias("clip"), pl.all()))
    return pl.concat(parts)
