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
from polars_rank.errors import DataError, RankWarning
from polars_rank.measures.metric import Metric
from polars_rank.measures.names import output_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from polars_rank.columns import Columns
    from polars_rank.conventions import Conventions, Undefined

#: Columns that say whether a list has judged documents, and retrieved ones.
PRESENCE = (OWN + "judged", OWN + "found")

#: Columns that say whether a list of no known group has but judged documents, or others as well.
STRAY, UNKNOWN = OWN + "stray", OWN + "unknown"

_HAVING, _RUNS, _QUERIES = OWN + "having", OWN + "runs", OWN + "queries"

_JUDGED, _FOUND = map(pl.col, PRESENCE)

#: Which lists count.
COUNTED = {"judged": _JUDGED, "retrieved": _FOUND, "both": _JUDGED & _FOUND}


def aggregated(
    lists: pl.LazyFrame,
    totals: Sequence[pl.Expr],
    by: Sequence[str],
    conventions: Conventions,
    *,
    runs: Sequence[str] = (),
    query: Sequence[str] = (),
    strays: bool = False,
) -> pl.LazyFrame:
    """Return one row per group: how many lists there are, and what they add up to: the totals.

    Where not all lists count, `lists` has the columns `PRESENCE`. With `runs`, of which `query` is
    the other keys, it is said where means stand side by side that are over different queries. With
    `strays`, `lists` has the columns `STRAY` and `UNKNOWN`, and judged documents that count for no
    group are an error.
    """
    counts = [pl.len().alias("queries")]
    if conventions.queries != "all":
        kinds = {
            "queries": COUNTED[conventions.queries],
            "queries_judged": _JUDGED,
            "queries_retrieved": _FOUND,
        }
        counts = [kind.sum().alias(name) for name, kind in kinds.items()]
    values = [*counts, *totals]
    if not (runs or strays):
        return grouped(lists, by, values)
    more: dict[str, pl.Expr] = {}
    doubts: dict[str, pl.Expr] = {}
    if strays:
        # A group that nobody knows is one of its own if somebody found a document in it.
        more[STRAY] = pl.col(STRAY).any() & ~pl.col(UNKNOWN).any()
        doubts[STRAY] = pl.col(STRAY)
    if runs:
        hashes = pl.struct(query).hash(0)
        if conventions.queries != "all":
            hashes = hashes.filter(COUNTED[conventions.queries])
        sketch = {f"{_QUERIES} {index}": part for index, part in enumerate(_sketch(hashes))}
        more |= sketch
        others = [name for name in by if name not in runs]
        doubts[_QUERIES] = _overlapping([*map(pl.col, sketch)], others)
    seen = grouped(lists, by, [*values, *(part.alias(name) for name, part in more.items())])
    schema = {name: dtype for name, dtype in seen.collect_schema().items() if name not in more}
    flagged = seen.select(*schema, *(flag.alias(name) for name, flag in doubts.items()))
    return flagged.map_batches(partial(_doubted, by), schema=schema, streamable=True)


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


def _overlapping(sketch: Sequence[pl.Expr], others: Sequence[str]) -> pl.Expr:
    """Return whether the runs of the same other keys share queries, but not all of them."""
    beside = [*others, pl.col("queries").is_null()]
    shared = (part.n_unique().over(beside) < pl.len().over(beside) for part in sketch)
    return pl.any_horizontal(shared) & (sketch[0].n_unique().over(beside) > 1)


def _doubted(by: Sequence[str], groups: pl.DataFrame) -> pl.DataFrame:
    """Raise for judged documents that count for no group; warn for runs over other queries."""

    def rows(flag: str) -> list[dict[str, object]]:
        if flag not in groups.columns:
            return []
        doubtful = groups.filter(pl.col(flag).fill_null(value=False))
        return doubtful.head(5).select(*by, "queries").to_dicts()

    if found := rows(STRAY):
        message = (
            f"null in {', '.join(map(repr, by))} (by) for judged documents that were not "
            f"retrieved, so that they count for no group: {found}; fill it in for all rows of a "
            "query, as pr.join_judgments does"
        )
        raise DataError(message)
    if found := rows(_QUERIES):
        message = (
            f"means of runs stand side by side that are over different queries, as in {found}; "
            "align='common' takes the queries that all runs have, align='all' counts those that "
            "a run lacks as undefined"
        )
        warnings.warn(message, RankWarning, stacklevel=2)
    return groups.drop([name for name in (STRAY, _QUERIES) if name in groups.columns])


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
