"""Confidence intervals from means, standard errors and numbers of units."""

from __future__ import annotations

from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

from polars_rank.errors import missing_extra, number_of, warn

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Interval: TypeAlias = Literal["auto", "t", "normal", "bootstrap", "studentized", "sequence", "none"]
Alternative: TypeAlias = Literal["two-sided", "greater", "less", "equivalent"]

#: The extra that installs scipy and numpy.
EXTRA = "stats"
#: Below this number of units, intervals other than "t" are too narrow, and "t" intervals may
#: exceed the range of the metric.
FEW = 30
#: Effective numbers of units up to these numbers are one and two units, up to rounding.
ONE_UNIT, TWO_UNITS = 1 + 1e-9, 2 + 1e-9
#: Above this share of queries that are not compared, because a run lacks them, there is a warning.
MANY_MISSING = 0.05


def special() -> ModuleType:
    """Return scipy.special, which takes a third of the time of scipy.stats to import.

    Raise `MissingExtraError` if it is not installed.
    """
    try:
        from scipy import special as module  # noqa: PLC0415  (an extra, and slow to import)
    except ImportError as error:
        raise missing_extra(EXTRA, error) from error
    return module  # type: ignore[no-any-return]


def stats() -> ModuleType:
    """Return scipy.stats; raise `MissingExtraError` if it is not installed."""
    special()
    from scipy import stats as module  # noqa: PLC0415

    return module  # type: ignore[no-any-return]


def with_width(
    table: pl.LazyFrame,
    units: str,
    width: str,
    method: str,
    share: float,
    width_of: Callable[[float], float] | None = None,
) -> pl.LazyFrame:
    """Add the half-width of the interval in standard errors.

    `share` is the probability below the upper bound: 0.975 for a 95% interval. `width_of` is the
    width by the number of units, for methods other than the distributions.
    """
    if method == "normal":
        return table.with_columns(pl.lit(NormalDist().inv_cdf(share)).alias(width))
    if width_of is None and method not in ("auto", "t"):
        return table.with_columns(pl.lit(None, dtype=pl.Float64).alias(width))
    if width_of is None:
        special()
        width_of = partial(t_width, share=share)
    schema = {**table.collect_schema(), width: pl.Float64()}

    def widths(rows: pl.DataFrame) -> pl.DataFrame:
        numbers = rows.get_column(units).to_list()
        values = [width_of(each) if each and each > 1 else None for each in numbers]
        return rows.hstack([pl.Series(width, values, dtype=pl.Float64)])

    return table.map_batches(widths, schema=schema, streamable=True)


def t_width(units: float, share: float) -> float:
    """Return the half-width of the interval of the t distribution in standard errors."""
    return float(special().stdtrit(units - 1, share))


def warn_of_range(table: pl.DataFrame, leaves: pl.Series, least: int) -> None:
    """Warn of intervals that exceed the range from `least` to 1."""
    count = int(leaves.sum())
    if count:
        row = leaves.arg_true()[0]
        metric, low, high = (table.get_column(name)[row] for name in ("metric", "low", "high"))
        warn(
            f"{count} of {table.height:,} intervals exceed [{least}, 1], the range of "
            f"the metric, e.g. {metric!r}: {low:.4g} to {high:.4g}; there are too few queries or "
            "clusters"
        )


def warn_of_partial(table: pl.DataFrame, partial: pl.Series) -> None:
    """Warn of rows that do not compare many of the queries, because some of the runs lack them.

    `partial` has the numbers of queries with values of some of the runs only.
    """
    many = partial > MANY_MISSING * (table.get_column("queries") + partial)
    if count := int(many.sum()):
        row = many.arg_true()[0]
        metric, queries = (table.get_column(name)[row] for name in ("metric", "queries"))
        warn(
            f"more than {MANY_MISSING:.0%} of the queries are not compared in "
            f"{number_of(count, 'row')}, because only some of the runs have a value, e.g. "
            f"{partial[row]:,} of {partial[row] + queries:,} of {metric!r}: evaluate all runs on "
            "the same queries"
        )


def warn_of_equal(table: pl.DataFrame, equal: pl.Series, values: str) -> None:
    """Warn of rows without an interval because all values are equal."""
    if count := int(equal.sum()):
        metric = table.get_column("metric")[equal.arg_true()[0]]
        warn(
            f"all {values} are equal in {number_of(count, 'row')}, e.g. of {metric!r}: they do not "
            "show how much queries vary, so there is no interval"
        )


def warn_of_effective(table: pl.DataFrame, some: pl.Series) -> None:
    """Warn of some rows if they have few effective units."""
    effective = table.get_column("effective")
    few = some & (effective < FEW) & effective.is_not_null()
    if count := int(few.sum()):
        warn(
            f"fewer than {FEW} effective queries or clusters in {number_of(count, 'row')}, e.g. "
            f"{effective[few.arg_true()[0]]:.1f}, because weights or cluster sizes are unequal or "
            "there are few of them; intervals and p-values may be unreliable"
        )


#: A variance that is larger than that of a proportion by this factor is not due to chance.
_UNEVEN = 1.5


def is_uneven(error: pl.Expr, variance: pl.Expr, effective: pl.Expr) -> pl.Expr:
    """Return whether heavy units vary more than the effective number of values allows."""
    return (error * error > _UNEVEN * variance / effective).fill_null(value=False)


def warn_of_uneven(table: pl.DataFrame, uneven: pl.Series, instead: str) -> None:
    """Warn of values of 0 or 1 that depend on the weights."""
    if count := int(uneven.sum()):
        metric = table.get_column("metric")[uneven.arg_true()[0]]
        warn(
            f"the values of heavy queries vary more than those of the others in "
            f"{number_of(count, 'row')}, e.g. of {metric!r}: intervals of values of 0 or 1 are too "
            f"narrow; use {instead}"
        )
