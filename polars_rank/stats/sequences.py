"""Confidence sequences: intervals that hold at every look at data that arrives over time.

The asymptotic sequence needs the mean, its standard error and the number of units only, so it can
be computed from moments. The empirical Bernstein sequence is exact for values with bounds; it
depends on the order of the values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import check_column, check_type, number
from polars_rank.errors import ArgumentError, number_of, short, warn
from polars_rank.evaluation.checks import with_check
from polars_rank.frames.tables import schema_of
from polars_rank.stats.intervals import FEW
from polars_rank.stats.per_query_tables import OF_MOMENTS, data_error, refuse_with_moments
from polars_rank.stats.query_hash import mixed, query_key
from polars_rank.stats.resampling import numpy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polars_rank.stats.per_query_tables import Variable

IntervalOfDifference: TypeAlias = Literal["auto", "sequence"]

#: Number of units at which the asymptotic sequence is narrowest.
_NARROWEST_AT = 1_000
#: Column with the sums of the empirical Bernstein sequence.
SEQUENCE_SUMS = "sequence_sums"
#: The largest bet, as in the paper.
_LARGEST_BET = 0.5


@dataclass(frozen=True)
class ConfidenceSequence:
    """A confidence sequence of a mean, and its always-valid p-value.

    The p-value is the smallest α at which the sequence excludes the null hypothesis. Sequences of
    all levels have the parameters that are best for the level `confidence`, so they are nested.
    """

    confidence: float
    alternative: str = "two-sided"
    #: Lowest and highest possible value, and the column of the order in which the values arrived,
    #: for the empirical Bernstein sequence.
    bounds: tuple[float, float] | None = None
    order: str = ""

    @property
    def method(self) -> str:
        """The name of the method in results."""
        return "sequence" if self.bounds is None else "empirical_bernstein"

    def _rho_squared(self) -> float:
        alpha = 1 - self.confidence
        return (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / _NARROWEST_AT

    def width(self, units: float, confidence: float | None = None) -> float:
        """Return the half-width of the asymptotic sequence in standard errors.

        Theorem 2.2 of Waudby-Smith et al., Time-uniform central limit theory and asymptotic
        confidence sequences, 2021 (arXiv 2103.06476), with ρ from their equation for the smallest
        width at a given number of units. The one-sided sequence is from a mixture over means above
        0; its closed form is slightly conservative.
        """
        alpha = 1 - (self.confidence if confidence is None else confidence)
        ahead = units * self._rho_squared()
        root = math.sqrt(ahead + 1)
        one_sided = self.alternative != "two-sided"
        bound = math.log1p(root / (2 * alpha)) if one_sided else math.log(root / alpha)
        return math.sqrt(2 * (ahead + 1) / ahead * bound)

    def p_value(self, units: float, statistic: float) -> float:
        """Return the α at which `width` is the distance from the null in standard errors."""
        ahead = units * self._rho_squared()
        root = math.sqrt(ahead + 1)
        exponent = statistic * statistic * ahead / (2 * (ahead + 1))
        if self.alternative == "two-sided":
            return min(root * math.exp(-exponent), 1.0)
        signed = -statistic if self.alternative == "less" else statistic
        if signed <= 0:
            return 1.0
        return min(root * math.exp(-exponent) / (-2 * math.expm1(-exponent)), 1.0)

    def _log_inverse(self, alpha: float) -> float:
        return math.log((2 if self.alternative == "two-sided" else 1) / alpha)

    def sums(self, values: pl.Series) -> dict[str, float]:
        """Return the sums of the empirical Bernstein sequence of values in the order of arrival.

        Theorem 2 of Waudby-Smith & Ramdas, Estimating means of bounded random variables by betting,
        2024: each value has a weight λ that depends on earlier values only.
        """
        np = numpy()
        low, high = self.bounds or (0.0, 1.0)
        x = (values.to_numpy() - low) / (high - low)
        t = np.arange(1.0, len(x) + 1)
        # Of earlier values only, after a first observation of 1/2 with a variance of 1/4.
        total = np.concatenate([[0.0], np.cumsum(x)])
        mean = (0.5 + total[:-1]) / t
        squares = np.cumsum((x - (0.5 + total[1:]) / (t + 1)) ** 2)
        variance = (0.25 + np.concatenate([[0.0], squares[:-1]])) / t
        level = 2 * self._log_inverse(1 - self.confidence)
        bets = np.minimum(np.sqrt(level / (variance * t * np.log1p(t))), _LARGEST_BET)
        weight = float(bets.sum())
        center = float(bets @ x) / weight if weight else math.nan
        # ψ(λ) · 4(x - m)², where the factors 4 cancel.
        cost = float((x - mean) ** 2 @ (-np.log1p(-bets) - bets))
        return {
            "weight": weight / (high - low),
            "center": low + (high - low) * center,
            "cost": cost,
        }

    def limits(self, sums: Mapping[str, float], confidence: float) -> tuple[float, float]:
        """Return the interval of the empirical Bernstein sequence, within the bounds."""
        low, high = self.bounds or (0.0, 1.0)
        below, above = self._limits(sums, confidence)
        return max(below, low), min(above, high)

    def limits_of(self, column: str) -> dict[str, pl.Expr]:
        """Return `limits` of a column of sums, null without values."""
        low, high = self.bounds or (0.0, 1.0)
        sums = {name: pl.col(column).struct.field(name) for name in ("weight", "center", "cost")}
        below, above = self._limits(sums, self.confidence)
        some = pl.when(sums["weight"] > 0)
        return {
            "low": some.then(below.clip(lower_bound=low)),
            "high": some.then(above.clip(upper_bound=high)),
        }

    def _limits(self, sums: Mapping[str, Any], confidence: float) -> tuple[Any, Any]:
        width = (self._log_inverse(1 - confidence) + sums["cost"]) / sums["weight"]
        return sums["center"] - width, sums["center"] + width

    def p_value_of(self, sums: Mapping[str, float], null: float) -> float:
        """Return the α at which the empirical Bernstein sequence ends at the null hypothesis."""
        low, high = self.bounds or (0.0, 1.0)
        distance = sums["center"] - null
        impossible = {
            "two-sided": not low <= null <= high,
            "greater": null < low,
            "less": null > high,
        }[self.alternative]
        if impossible:
            return 0.0
        sides = 1
        if self.alternative == "two-sided":
            sides, distance = 2, abs(distance)
        elif self.alternative == "less":
            distance = -distance
        exponent = sums["cost"] - sums["weight"] * distance
        return min(sides * math.exp(min(exponent, 0.0)), 1.0)


def sequence_of(
    schema: pl.Schema,
    interval: str,
    bounds: Any,
    order: str | None,
    confidence: float,
    alternative: str = "two-sided",
    **unsupported: Any,
) -> ConfidenceSequence | None:
    """Return the confidence sequence of the parameters; None if they name another interval.

    `unsupported` has the parameters that `bounds` excludes.
    """
    if interval != "sequence":
        for name, value in (("bounds", bounds), ("order", order)):
            if value is not None:
                raise ArgumentError(f"`{name}` needs `interval` 'sequence'; found {interval!r}")
        return None
    if bounds is None:
        if order is not None:
            raise ArgumentError(
                "`order` needs `bounds`; without them, the sequence does not depend on the order"
            )
        return ConfidenceSequence(confidence, alternative)
    if order is None:
        raise ArgumentError(
            "`bounds` needs `order`, the column by which queries arrived; the interval depends on "
            "it"
        )
    refuse_with_moments({"bounds": OF_MOMENTS in schema})
    check_column("order", order, schema)
    check_type("order", order, schema[order], "value")
    numpy()
    for name, value in unsupported.items():
        if value is not None:
            raise ArgumentError(f"`bounds` does not support `{name}`")
    return ConfidenceSequence(confidence, alternative, _range(bounds), order)


def _range(bounds: Any) -> tuple[float, float]:
    """Return two numbers; raise `ArgumentError` unless the first is the lower one."""
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise ArgumentError(
            "`bounds` must be two numbers, the lowest and the highest value of the metrics; "
            f"found {short(bounds)}"
        )
    low, high = (number("bounds", each) for each in bounds)
    if not low < high:
        raise ArgumentError(
            f"the first number of `bounds` must be the lower one; found {short(bounds)}"
        )
    return low, high


def of_differences(sequence: ConfidenceSequence | None) -> ConfidenceSequence | None:
    """Return the sequence of the differences between two values of a sequence."""
    if sequence is None or sequence.bounds is None:
        return sequence
    low, high = sequence.bounds
    return replace(sequence, bounds=(low - high, high - low))


def sums_in_order(
    sequence: ConfidenceSequence | None, query: Sequence[str], dtypes: Sequence[pl.DataType]
) -> Callable[[pl.Expr], pl.Expr] | None:
    """Return a function from values to the sums of a sequence with bounds; else None.

    Queries with the same `order` are in the order of hashes, which do not depend on the values.
    """
    if sequence is None or sequence.bounds is None:
        return None
    keys = [pl.col(sequence.order), mixed(query_key(query, dtypes))]
    dtype = pl.Struct(dict.fromkeys(("weight", "center", "cost"), pl.Float64))

    def sums(values: pl.Series) -> pl.Series:
        return pl.Series([sequence.sums(values)], dtype=dtype)

    return lambda values: (
        values.sort_by(keys).drop_nulls().map_batches(sums, dtype, returns_scalar=True)
    )


def check_bounded(
    results: pl.LazyFrame,
    values: pl.LazyFrame,
    selected: Sequence[Variable],
    sequence: ConfidenceSequence | None,
) -> pl.LazyFrame:
    """Return the results; collecting them raises for values outside bounds, or without an order.

    Raise `ArgumentError` for metrics that are not means.
    """
    if sequence is None or sequence.bounds is None:
        return results
    for each in selected:
        if each.aggregate != "mean":
            raise ArgumentError(
                f"`bounds` is for means; the metric {each.name!r} is not a mean over queries; name "
                "other metrics"
            )
    low, high = sequence.bounds
    order = sequence.order
    problems = {
        f"values outside `bounds`, {low:g} to {high:g}, in the column {each.name!r}": ~(
            each.value.is_between(low, high)
        )
        for each in selected
    }
    missing = pl.col(order).is_null()
    if schema_of(values)[order].is_float():
        missing |= pl.col(order).is_nan()
    problems[f"null or NaN in the column {order!r} (`order`)"] = missing
    invalid = values.select(
        pl.any_horizontal(each.fill_null(value=False) for each in problems.values()).any()
    )

    def refuse(facts: pl.DataFrame) -> None:
        if facts.height and facts.item():
            raise data_error(values, problems)

    return with_check(results, invalid, refuse)


def is_skewed(units: float, skewness: float) -> bool:
    """Return whether intervals are unreliable: fewer than 25 units times the squared skewness.

    The sample skewness g is too low for few units n, at most (n - 2) / √(n - 1), so it is
    multiplied by √(n(n - 1)) / (n - 2), Fisher and Pearson's correction.
    """
    return bool(max(units - 2, 0) ** 2 <= 25 * skewness**2 * (units - 1))


def is_early(units: float, skewness: float | None, changes: float | None = None) -> bool:
    """Return whether a mean may not be about normal yet, so that its sequence may be too narrow.

    `changes` is the number of queries whose values differ between two runs.
    """
    few = units < FEW or (changes is not None and changes < FEW)
    return few or (skewness is not None and is_skewed(units, skewness))


def warn_of_early(table: pl.DataFrame, units: str, changes: str | None = None) -> None:
    """Warn of asymptotic sequences that may be too narrow; see `is_early`."""
    names = ["metric", "interval", "low", units, "skewness", *([changes] if changes else [])]
    early = []
    # `DataFrame.select` runs a query, which callbacks of a plan must not do.
    for metric, interval, low, *numbers in zip(*map(table.get_column, names), strict=True):
        if interval == "sequence" and low is not None and is_early(*numbers):
            n, skewness, *differ = numbers
            text = number_of(round(n), "query", "queries")
            text += f", {differ[0]:,} of which differ" if differ else ""
            early.append(f"{metric!r} ({text}, skewness {skewness or 0.0:.1f})")
    if early:
        warn(
            f"the sequence may exclude the true value in {number_of(len(early), 'row')}, e.g. of "
            f"{early[0]}: there are too few queries, values that differ or rare events; let them "
            "accumulate before you look, or pass `bounds` and `order`"
        )
