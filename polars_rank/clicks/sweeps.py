"""`propensity_sweep`: the counterfactual estimate by how far weights are clipped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, check_number, check_there, free, names, one_of
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
    """Estimate what a new ranker is worth from clicks, for weights clipped at several heights.

    The lower the clip, the fewer rows decide less, and the larger the bias: a number to be
    trusted stays about the same over a good part of the sweep.

    Parameters
    ----------
    frame
        The log, with the new ranker's scores: as for `estimate`.
    metrics
        Sums over documents, as for `estimate`.
    click, propensity
        As for `inverse_propensity`; a table of propensities is looked up by the column "position".
    clips
        The highest weights, each 1 or more (or lowest propensities, below 1); None for no clip. At
        1 every click counts alike: the naive estimate.
    normalize
        "ips" or "snips".
    **options
        Options of `estimate`, such as `query`, `score`, `by`, `max_unshown`, and `cluster`, which
        says whether intervals are for other sessions of these queries or for other queries.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: the rows of `estimate` for each clip in turn, behind the column `clip`, the
        highest weight, null for none.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `inverse_propensity` and `estimate`; for no clips.

    Warns
    -----
    RankWarning
        As `estimate`: if the effective sample size at a clip, or the number of lists, is below 30.

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
    heights = [*clips] if isinstance(clips, Iterable) else []
    if not heights:
        message = (
            f"`clips` must list at least one highest weight, or None for no clip; found {clips!r}"
        )
        raise ArgumentError(message, "clips")
    one_of("normalize", normalize, ("ips", "snips"))
    if "label" in options:
        message = "labels are made of `click` and `propensity` here; leave `label` out"
        raise ArgumentError(message, "click", "propensity", "label")
    schema = schema_of(frame)
    for parameter, column in (("click", click), ("propensity", propensity)):
        if isinstance(column, str):
            check_there(parameter, column, schema)
            check_number(parameter, column, schema[column])
    free(names("by", options.get("by")), ["clip"])
    parts = []
    for clip in heights:
        label = inverse_propensity(click, propensity, clip=clip).alias(_LABEL)
        found = estimate(
            frame.with_columns(label), metrics, label=_LABEL, normalize=normalize, **options
        )
        height = None if clip is None else max(clip, 1 / clip)
        parts.append(found.select(pl.lit(height, dtype=pl.Float64).alias("clip"), pl.all()))
    return pl.concat(parts)
