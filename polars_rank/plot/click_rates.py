"""Click-through rates by position."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import public, share, whole_number
from polars_rank.errors import DataError, number_of
from polars_rank.frames.tables import collected, lazy, schema_of
from polars_rank.plot import drawing as draw
from polars_rank.plot.runs import groups, labeled, run_columns
from polars_rank.stats._arrays import numpy
from polars_rank.stats.inference import wilson

if TYPE_CHECKING:
    import altair as alt

    from polars_rank.plot.runs import Colors


@public
def click_through(
    frame: Any,
    *,
    position: str = "position",
    click: str = "click",
    k: int = 10,
    run: str | None = "run",
    baseline: Any = None,
    confidence: float = 0.95,
    colors: Colors | None = None,
) -> alt.LayerChart:
    r"""Draw the click-through rate by position, with confidence intervals.

    Examples
    --------
    >>> log = pr.datasets.search_log(200)
    >>> chart = pr.plot.click_through(log, k=10, baseline="bm25")
    >>> chart.save("clicks.png")  # doctest: +SKIP

    Parameters
    ----------
    frame
        A log with clicks, one row per document of a ranking.
    position
        Column of the position, 1 first. Null: the document was not shown.
    click
        Column of clicks. Rows with a null click are not counted.
    k
        Last position of the chart.
    run
        Column of the run. None for one series.
    baseline
        Run that the others are compared with, drawn first, in gray.
    confidence
        Confidence level. It is that of the Wilson intervals.
    colors
        Mapping from runs to colors, such as `{"bm25": "#0072B2"}`.

    Returns
    -------
    altair.LayerChart

    Raises
    ------
    DataError
        If a position is not an integer from 1, a click is neither Boolean nor a count, or there is
        nothing to draw.

    Notes
    -----
    The intervals treat documents as independent, although documents of the same ranking or user
    are correlated.

    References
    ----------
    Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    """
    draw.altair()
    whole_number("k", k)
    share("confidence", confidence)
    log = lazy(frame)
    schema = schema_of(log)
    columns = run_columns(schema, run, position=position, click=click)
    place, clicks = pl.col(position).cast(pl.Float64), pl.col(click).cast(pl.Float64)
    shown = log.filter(place.is_not_null() & clicks.is_not_null() & ~(place > k))
    counts = shown.group_by(*groups(columns), place.alias("x")).agg(
        pl.len().alias("shown"), (clicks > 0).sum().alias("clicks"),
        (~((clicks >= 0) & (clicks == clicks.floor()) & clicks.is_finite())).sum().alias("bad"),
    )  # fmt: skip
    table = draw.non_empty(collected(counts), "x", f"position in {position!r} of documents shown")
    _check(table, position, click)
    table = table.with_columns(y=pl.col("clicks") / pl.col("shown"))
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    shares, numbers = (numpy().asarray(table.get_column(name)) for name in ("y", "shown"))
    low, high = wilson(shares, numbers, z)
    table, runs = labeled(
        table.with_columns(low=pl.Series(low), high=pl.Series(high)),
        baseline=baseline, colors=colors, needed=True,
    )  # fmt: skip
    rows = table.select("run", pl.col("x").cast(pl.Int64), "y", "low", "high", "shown", "clicks")
    rows = rows.sort("run", "x")
    tips = draw.tooltip(
        ("x", "position", "d"),
        ("y", "click-through rate", ".2%"), ("low", "low", ".2%"), ("high", "high", ".2%"),
        ("clicks", "clicked", ",d"), ("shown", "shown", ",d"), of=runs,
    )  # fmt: skip
    x = draw.cutoffs("position", rows.get_column("x"))
    y = draw.axis("Y", "y", "click-through rate", format="%", scale={"zero": True})
    last = max(rows.get_column("x"))
    number = draw.counted([int(rows.get_column("shown").sum())], "documents shown")
    level = draw.confidence_text([confidence])
    return draw.layered(
        rows, draw.lines(rows, runs, x, y, tips), title="Click-through rate by position",
        subtitle=[f"{number} at positions 1 to {last} · {level} (Wilson)"],
    )  # fmt: skip


def _check(table: pl.DataFrame, position: str, click: str) -> None:
    invalid = table.filter(
        ~(pl.col("x") >= 1) | (pl.col("x") != pl.col("x").floor()) | pl.col("x").is_nan()
    )
    if invalid.height:
        number, value = int(invalid.get_column("shown").sum()), invalid.get_column("x")[0]
        raise DataError(
            f"{number_of(number, 'row')}: column {position!r} (`position`) must have integers from "
            f"1 (the top), or null for documents that were not shown; found {value!r}"
        )
    bad = int(table.get_column("bad").sum())
    if bad:
        raise DataError(
            f"{number_of(bad, 'row')}: column {click!r} (`click`) must be Boolean or a count"
        )
