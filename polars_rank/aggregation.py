"""From the values of single lists to a result: what counts, as what, and how it adds up.

Every mean over lists is made here, whether the lists come from a log, a file of last month, or a
cluster.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import polars as pl

from polars_rank.columns import OWN
from polars_rank.measures.metric import Metric
from polars_rank.measures.names import output_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polars_rank.conventions import Conventions, Undefined

#: Columns that say whether a list has judged documents, and retrieved ones.
PRESENCE = (OWN + "judged", OWN + "found")

_JUDGED, _FOUND = map(pl.col, PRESENCE)

#: Which lists count.
COUNTED = {"judged": _JUDGED, "retrieved": _FOUND, "both": _JUDGED & _FOUND}


def aggregated(
    lists: pl.LazyFrame, metrics: Sequence[pl.Expr], by: Sequence[str], conventions: Conventions
) -> pl.LazyFrame:
    """Return one row per group: how many lists there are, and what they add up to.

    Where not all lists count, `lists` has the columns `PRESENCE`.
    """
    counts = [pl.len().alias("queries")]
    if conventions.queries != "all":
        kinds = {
            "queries": COUNTED[conventions.queries],
            "queries_judged": _JUDGED,
            "queries_retrieved": _FOUND,
        }
        counts = [kind.sum().alias(name) for name, kind in kinds.items()]
    return grouped(lists, by, [*counts, *(total(metric, conventions) for metric in metrics)])


def grouped(lists: pl.LazyFrame, by: Sequence[str], values: Sequence[pl.Expr]) -> pl.LazyFrame:
    """Return one row per group in sorted order, or one row of all lists."""
    return lists.group_by(by).agg(values).sort(by) if by else lists.select(values)


def total(metric: pl.Expr, conventions: Conventions) -> pl.Expr:
    """Return what the values of all lists add up to, as a column of the metric's name."""
    name = output_name(metric)
    value = pl.col(name)
    if conventions.queries != "all":
        value = value.filter(COUNTED[conventions.queries])
    undefined = counted_as(metric, conventions)
    if isinstance(undefined, float):
        value = value.fill_null(undefined)
    found = AGGREGATES[metric.aggregate if isinstance(metric, Metric) else "mean"](value)
    if undefined == "null":
        return pl.when(value.null_count() == 0).then(found).alias(name)
    return found


def ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return part / whole; null, not NaN, where the whole is not above 0."""
    return pl.when(whole > 0).then(part / whole)


AGGREGATES: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "mean": pl.Expr.mean,
    "sum": pl.Expr.sum,
    "geometric": lambda value: value.mean().exp(),
}


def counted_as(metric: pl.Expr, conventions: Conventions) -> float | Undefined:
    """Return the value that an undefined one is replaced by, or "skip" or "null"."""
    undefined = conventions.counts_as(metric)
    if undefined not in ("zero", "one"):
        return undefined
    value = 1.0 if undefined == "one" else 0.0
    if isinstance(metric, Metric) and metric.aggregate == "geometric":  # of logarithms
        return math.log(max(value, metric.arguments.get("floor", 1e-5)))
    return value
