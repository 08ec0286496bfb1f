"""Curves with fewer points that look the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN

if TYPE_CHECKING:
    from collections.abc import Sequence

_CELL, _KEPT = OWN + "cell", OWN + "kept"


def thinned(
    points: pl.LazyFrame,
    groups: Sequence[str],
    x: pl.Expr,
    *,
    order: str,
    ys: Sequence[str],
    steps: int,
) -> pl.LazyFrame:
    """Return at most 2 + 2 x (number of `ys`) points of each curve per step of x, unsorted.

    `x` is from 0 to 1 and is split into equal steps. The first and last points of a step (by the
    column `order`) and the points with the minimum and maximum of each of `ys` are kept. If a step
    is a pixel, a line through these points covers the same pixels as the original (Jugel, Jerzak,
    Hackenbroich & Markl, M4: a visualization-oriented time series data aggregation, 2014).
    """
    columns = [name for name in points.collect_schema().names() if name not in groups]
    point = pl.struct(columns)
    cell = (x * steps).floor().clip(0, steps - 1).cast(pl.Int64).alias(_CELL)
    kept = [("first", point.min_by(order)), ("last", point.max_by(order))]
    for y in ys:
        kept += [(f"least {y}", point.min_by(y)), (f"greatest {y}", point.max_by(y))]
    steps_of_groups = points.group_by([*groups, cell]).agg(
        each.alias(OWN + name) for name, each in kept
    )
    several = pl.concat_list(OWN + name for name, _ in kept).alias(_KEPT)
    return steps_of_groups.select(*groups, several).explode(_KEPT).unnest(_KEPT).unique()
