"""From the values of single lists to a result: what counts, as what, and how it adds up.

Every mean over lists is made here, whether the lists come from a log, a file of last month, or a
cluster.
"""

from __future__ import annotations

import math
import warnings
from functools import partial
from typing import TYPE_CHECKING

import polars as pl

from polars_rank.columns import OWN
from polars_rank.errors import RankWarning
from polars_rank.measures.metric import Metric
from polars_rank.measures.names import output_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polars_rank.columns import Columns
    from polars_rank.conventions import Conventions, Undefined

#: Columns that say whether a list has judged documents, and retrieved ones.
PRESENCE = (OWN + "judged", OWN + "found")

_HAVING, _RUNS, _QUERIES = OWN + "having", OWN + "runs", OWN + "queries"

_JUDGED, _FOUND = map(pl.col, PRESENCE)

#: Which lists count.
COUNTED = {"judged": _JUDGED, "retrieved": _FOUND, "both": _JUDGED & _FOUND}


def aggregated(
    lists: pl.LazyFrame,
    metrics: Sequence[pl.Expr],
    by: Sequence[str],
    conventions: Conventions,
    *,
    weight: str | None = None,
    runs: Sequence[str] = (),
    query: Sequence[str] = (),
) -> pl.LazyFrame:
    """Return one row per group: how many lists there are, and what they add up to.

    Where not all lists count, `lists` has the columns `PRESENCE`. With `runs`, of which `query` is
    the other keys, it is said where means stand side by side that are over different queries.
    """
    counts = [pl.len().alias("queries")]
    if conventions.queries != "all":
        kinds = {
            "queries": COUNTED[conventions.queries],
            "queries_judged": _JUDGED,
            "queries_retrieved": _FOUND,
        }
        counts = [kind.sum().alias(name) for name, kind in kinds.items()]
    totals = [total(metric, conventions, weight) for metric in metrics]
    found = grouped(lists, by, [*counts, *totals])
    if not runs:
        return found
    hashes = pl.struct(query).hash(0)
    if conventions.queries != "all":
        hashes = hashes.filter(COUNTED[conventions.queries])
    sketch = _sketch(hashes)
    several = [pl.col(f"{_QUERIES} {index}") for index in range(len(sketch))]
    others = [name for name in by if name not in runs]
    # Groups of the same other keys, of which the first part of the sketch tells queries apart.
    beside = [*others, pl.col("queries").is_null()]
    shared = pl.any_horizontal(
        part.n_unique().over(beside) < pl.len().over(beside) for part in several
    )
    differ = several[0].n_unique().over(beside) > 1
    seen = grouped(
        lists,
        by,
        [*counts, *totals, *(part.alias(f"{_QUERIES} {i}") for i, part in enumerate(sketch))],
    ).select(*found.collect_schema(), (shared & differ).alias(_QUERIES))
    return seen.map_batches(partial(_warn, by), schema=found.collect_schema(), streamable=True)


def grouped(lists: pl.LazyFrame, by: Sequence[str], values: Sequence[pl.Expr]) -> pl.LazyFrame:
    """Return one row per group in sorted order, or one row of all lists."""
    return lists.group_by(by).agg(values).sort(by) if by else lists.select(values)


def aligned(
    lists: pl.LazyFrame, columns: Columns, runs: Sequence[str], align: str | None
) -> pl.LazyFrame:
    """Return the lists of runs over the same queries; or warn, when they are collected.

    A query is told by all keys but the runs.
    """
    if align is None:
        return lists
    query = [name for name in columns.keys if name not in runs]
    if align == "common":
        having = lists.group_by(query).agg(pl.len().alias(_HAVING))
        every = lists.select(pl.struct(runs).n_unique().alias(_RUNS))
        common = having.join(every, how="cross").filter(pl.col(_HAVING) == pl.col(_RUNS))
        return lists.join(common.select(query), on=query, how="semi", nulls_equal=True)
    everything = lists.select(runs).unique().join(lists.select(query).unique(), how="cross")
    return everything.join(
        lists, on=[*runs, *query], how="left", nulls_equal=True, maintain_order="left"
    )


def _sketch(hashes: pl.Expr) -> list[pl.Expr]:
    """Return what tells of two sets of queries whether they are the same, and whether they meet.

    The same queries in any order have the same sum of hashes. Those of which a good part is
    the same likely have one of several least numbers in common (Broder, On the resemblance and
    containment of documents, 1997).
    """
    factors = [(0x9E3779B97F4A7C15 * (2 * index + 1)) % 2**64 for index in range(16)]
    return [hashes.sum(), *((hashes * pl.lit(each, dtype=pl.UInt64)).min() for each in factors)]


def _warn(by: Sequence[str], groups: pl.DataFrame) -> pl.DataFrame:
    """Warn if runs that have queries in common have means over different ones."""
    doubtful = groups.filter(pl.col(_QUERIES).fill_null(value=False))
    if not doubtful.is_empty():
        rows = doubtful.head(5).select(*by, "queries").to_dicts()
        message = (
            f"means of runs stand side by side that are over different queries, as in {rows}; "
            "align='common' takes the queries that all runs have, align='all' counts those that "
            "a run lacks as undefined"
        )
        warnings.warn(message, RankWarning, stacklevel=2)
    return groups.drop(_QUERIES)


def total(metric: pl.Expr, conventions: Conventions, weight: str | None = None) -> pl.Expr:
    """Return what the values of all lists add up to, as a column of the metric's name."""
    name = output_name(metric)
    value, weights = pl.col(name), None if weight is None else pl.col(weight).cast(pl.Float64)
    if conventions.queries != "all":
        counted = COUNTED[conventions.queries]
        value = value.filter(counted)
        weights = None if weights is None else weights.filter(counted)
    undefined = counted_as(metric, conventions)
    if isinstance(undefined, float):
        value = value.fill_null(undefined)
    kind = metric.aggregate if isinstance(metric, Metric) else "mean"
    found = AGGREGATES[kind](value) if weights is None else WEIGHTED[kind](value, weights)
    if undefined == "null":
        found = pl.when(value.null_count() == 0).then(found)
    return found.alias(name)


def ratio(part: pl.Expr, whole: pl.Expr) -> pl.Expr:
    """Return part / whole; null, not NaN, where the whole is not above 0."""
    return pl.when(whole > 0).then(part / whole)


AGGREGATES: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "mean": pl.Expr.mean,
    "sum": pl.Expr.sum,
    "geometric": lambda value: value.mean().exp(),
}


def _weighted_mean(value: pl.Expr, weight: pl.Expr) -> pl.Expr:
    return ratio((value * weight).sum(), weight.filter(value.is_not_null()).sum())


WEIGHTED: dict[str, Callable[[pl.Expr, pl.Expr], pl.Expr]] = {
    "mean": _weighted_mean,
    "sum": lambda value, weight: (value * weight).sum(),
    "geometric": lambda value, weight: _weighted_mean(value, weight).exp(),
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
