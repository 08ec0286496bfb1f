"""Verdicts on numbers of a row: the interval that decides, and whether it is reliable."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from polars_rank.stats import sequences
from polars_rank.stats.per_query_tables import EMPTY
from polars_rank.stats.proportions import clopper_pearson

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

Row: TypeAlias = Mapping[str, Any]

#: Columns that are exact for any number of queries.
COUNTS = (
    *("queries", "used", "predicted", "missing", "undefined", "wins", "ties", "losses"),
    EMPTY,
)
#: Estimates, and the columns of their confidence intervals.
INTERVALS = {
    "mean": ("low", "high"),
    "difference": ("low", "high"),
    "relative_difference": ("relative_low", "relative_high"),
    "effect_size": ("effect_low", "effect_high"),
}
#: Bounds and p-values, which account for chance.
_BOUNDS = (
    *("low", "high", "relative_low", "relative_high", "effect_low", "effect_high"),
    *("low_corrected", "high_corrected", "p_value", "p_corrected"),
)
_OF_MEAN = "'{0}' is about the mean, and 'low({0})' and 'high({0})' are its bounds"
#: Estimates without an interval, and what rules can be about instead.
_WITHOUT_INTERVAL = {
    "std": _OF_MEAN,
    "std_error": _OF_MEAN,
    "skewness": _OF_MEAN,
    "effective": "'used({0})' is the number of values",
    "judge_weight": "'used({0})' and 'predicted({0})' are numbers of values",
    "effective_queries": "'used({0})' and 'predicted({0})' are numbers of values",
    "baseline_mean": "'{0}' is about the mean of each run in the result of `summarize`",
    "variance_reduction": "'difference({0})' is the adjusted difference",
    "contribution": "'difference({0})' is the difference in a slice",
}
#: Intervals that account for the skewness of the values. Those of relative differences and of
#: effect sizes do not.
_OF_SKEWED = ("wilson", "tango", "empirical_bernstein")
_BY_T = (
    *("relative_difference", "relative_low", "relative_high"),
    *("effect_size", "effect_low", "effect_high"),
)
#: Columns that rules can name.
NUMBERS = (*COUNTS, *INTERVALS, *_BOUNDS, *_WITHOUT_INTERVAL)
#: Names of columns of quantiles.
QUANTILE = re.compile(r"q[01][.\de-]*")


class Decision(NamedTuple):
    """A verdict, and the number and interval that it is about."""

    value: float | None
    low: float | None
    high: float | None
    verdict: str
    #: Whether the verdict rests on an interval of values that are too skewed for it.
    is_skewed: bool = False


def is_comparison(columns: Container[str]) -> bool:
    """Return whether a table compares runs: its `low` and `high` are about the difference."""
    return "difference" in columns


def alternative(column: str, metric: str) -> str | None:
    """Return what to write instead of a rule on a column without an interval; else None."""
    text = _OF_MEAN if QUANTILE.fullmatch(column) else _WITHOUT_INTERVAL.get(column)
    return None if text is None else text.format(metric)


def decide(row: Row, column: str, holds: Callable[[float], bool]) -> Decision:
    """Return the verdict on a column of a row: whether a condition holds for all of its interval.

    Columns without an interval are exact, or are bounds themselves.
    """
    row = _with_exact_bounds(row)
    value = None if row[column] is None else float(row[column])
    low, high = (row[name] for name in INTERVALS.get(column, (column, column)))
    verdict = _verdict(row, column, [low, high], holds)
    skewed = verdict != "undecided" and column not in COUNTS and is_skewed(row, column)
    if column not in INTERVALS:
        low = high = None
    return Decision(value, low, high, verdict, skewed)


def _verdict(
    row: Row, column: str, bounds: Sequence[float | None], holds: Callable[[float], bool]
) -> str:
    estimate = "difference" if is_comparison(row) else "mean"
    unknown = row[column] is None and (column in COUNTS or row.get(estimate) is None)
    if not row["queries"] or unknown:
        return "fail"
    known = [each for each in bounds if each is not None]
    if len(known) < len(bounds) or (row.get("small") and column not in COUNTS):
        return "undecided"
    kept = [holds(each) for each in known]
    return "pass" if all(kept) else "undecided" if any(kept) else "fail"


def _units(row: Row) -> float | None:
    """Return the number of units of a row, which is an effective number with weights."""
    n: float | None = row.get("effective")
    return row.get("used") if n is None else n


def _with_exact_bounds(row: Row) -> Row:
    """Return a row with exact bounds of the mean if all values are 0 or 1.

    Wilson's interval holds its level on average over all rates, but not for each of them. With
    predictions, the mean is not that of values of 0 or 1, so that there are no exact bounds.
    """
    n = _units(row)
    is_share = row.get("interval") == "wilson" and not row.get("judge_weight")
    if not is_share or n is None or row.get("low") is None:
        return row
    low, high = clopper_pearson(row["mean"], n, row["confidence"])
    return {**row, "low": low, "high": high}


def is_skewed(row: Row, column: str) -> bool:
    """Return whether an interval is unreliable, because values are too skewed for their number.

    In simulations with 5 to 30 lognormal or exponential values, at most 6% of the samples have an
    interval without the true mean and no warning, and up to 9% without the correction of the
    skewness. Of normal samples, 64% have a warning with 5 values, 34% with 10, and 1% with 30.
    Intervals of resampling and of randomization are no better (tests/benchmarks/coverage.md).
    """
    n, skewness = _units(row), row.get("skewness")
    holds = row.get("interval") in _OF_SKEWED and column not in _BY_T
    if holds or n is None or skewness is None:
        return False
    return sequences.is_skewed(n, skewness)
