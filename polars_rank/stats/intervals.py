"""Confidence intervals from a mean, its standard error and the number of units."""

from __future__ import annotations

import math
import warnings
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, TypeAlias

import polars as pl

from polars_rank.errors import RankWarning, missing_extra

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

Interval: TypeAlias = Literal["t", "normal", "bootstrap", "studentized", "sequence", "none"]
Alternative: TypeAlias = Literal["two-sided", "greater", "less"]

#: What brings scipy and numpy.
EXTRA = "stats"
#: Below this number of units, intervals other than that of t are too narrow, and that of t may be
#: wider than the range of the metric.
FEW = 30
#: How many queries the confidence sequence is narrowest at.
SEQUENCE_AT = 1_000


def stats() -> ModuleType:
    """Return scipy.stats; raise `MissingExtraError` where it is not installed."""
    try:
        from scipy import stats as found  # noqa: PLC0415  (an extra, and slow to import)
    except ImportError as error:
        raise missing_extra(EXTRA, error) from error
    return found  # type: ignore[no-any-return]


def t_quantile() -> Callable[[float, float], float]:
    """Return the quantile function of t, of degrees of freedom and share below.

    As scipy.stats has it, which takes three times as long to import.
    """
    try:
        from scipy import special  # noqa: PLC0415  (an extra, and slow to import)
    except ImportError as error:
        raise missing_extra(EXTRA, error) from error
    return lambda degrees, share: float(special.stdtrit(degrees, share))


def with_width(
    table: pl.LazyFrame, units: str, width: str, method: str, share: float
) -> pl.LazyFrame:
    """Return the table with how many standard errors a bound is off the mean.

    `share` is that of the distribution below the bound: 0.975 for an interval of 95 %.
    """
    if method == "normal":
        return table.with_columns(pl.lit(NormalDist().inv_cdf(share)).alias(width))
    if method == "sequence":
        return table.with_columns(sequence_width(pl.col(units), 2 * (1 - share)).alias(width))
    if method != "t":
        return table.with_columns(pl.lit(None, dtype=pl.Float64).alias(width))
    quantile = t_quantile()
    schema = {**table.collect_schema(), width: pl.Float64()}

    def quantiles(rows: pl.DataFrame) -> pl.DataFrame:
        degrees = (rows.get_column(units) - 1).to_list()
        bounds = [quantile(each, share) if each and each > 0 else None for each in degrees]
        return rows.hstack([pl.Series(width, bounds, dtype=pl.Float64)])

    return table.map_batches(quantiles, schema=schema, streamable=True)


def sequence_width(units: pl.Expr, alpha: float, at: float = SEQUENCE_AT) -> pl.Expr:
    """Return the half-width, in standard errors, of an asymptotic confidence sequence.

    Theorem 2.2 of Waudby-Smith et al., Time-uniform central limit theory and asymptotic
    confidence sequences, 2021 (arXiv 2103.06476), with ρ by their equation for the width to be
    least at a number of units that is fixed beforehand.
    """
    rho_squared = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / at
    ahead = units.cast(pl.Float64) * rho_squared + 1
    return (2 * ahead / (ahead - 1) * (ahead.sqrt() / alpha).log()).sqrt()


def warn_of_range(table: pl.DataFrame, leaves: pl.Series, least: int) -> None:
    """Warn of the intervals of a table that leave the range from `least` to 1."""
    count = int(leaves.sum())
    if count:
        row = leaves.arg_true()[0]
        metric, low, high = (table.get_column(name)[row] for name in ("metric", "low", "high"))
        message = (
            f"{count} of {table.height} intervals go beyond [{least}, 1], the range of the metric, "
            f"e.g. {metric!r}: {low:.4g} to {high:.4g}; there are too few queries or clusters"
        )
        warnings.warn(message, RankWarning, stacklevel=2)
