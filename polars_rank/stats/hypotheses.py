"""Null hypotheses of comparisons: no difference, a margin, or a share of the baseline's mean.

Equivalence is shown by two one-sided tests (Schuirmann, A comparison of the two one-sided tests
procedure and the power approach for assessing the equivalence of average bioavailability, 1987):
the run is better than the baseline less the margin, and worse than the baseline plus the margin.
The p-value is the larger one. With a level of 1 - α for each of them, the interval that is inside
the margins if and only if p < α has the level 1 - 2α.

A relative margin r is a share of the baseline's mean B, which is estimated, too. The distance of
the difference D from it, D + r|B| or D - r|B|, is the mean of a paired difference, so that its
standard error follows from the variances and the covariance of both means (Fieller, Some problems
in interval estimation, 1954).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, get_args

import polars as pl

from polars_rank._params import OWN, number, one_of, share
from polars_rank.errors import ArgumentError, warn
from polars_rank.stats import moment_math
from polars_rank.stats.intervals import Alternative
from polars_rank.stats.moment_tables import COMPANIONS, DIFFERENCE
from polars_rank.stats.per_query_tables import first_few, row_labels
from polars_rank.stats.sequences import is_skewed
from polars_rank.stats.significance import Bounds, Result, Sample, Testing

if TYPE_CHECKING:
    from collections.abc import Sequence

_NULL, _DISTANCE, _SPREAD = OWN + "null ", OWN + "distance ", OWN + "error of distance "
_BASE_RATIO = OWN + "baseline in errors"
#: A variance below this share of its terms may be a rounding error.
_ROUNDING = 1e-14
#: The lowest margin of a geometric mean relative to it, whose logarithm is finite.
_LOWEST = -1 + 1e-15


@dataclass(frozen=True)
class Hypothesis:
    """The alternative hypothesis, and its distance from no difference."""

    alternative: Alternative = "two-sided"
    margin: float = 0.0
    #: The margin as a share of the baseline's mean; None if it is not relative.
    relative: float | None = None

    @classmethod
    def of(
        cls, alternative: Alternative, margin: float, relative: float | None, confidence: float
    ) -> Hypothesis:
        """Return the hypothesis of checked parameters."""
        one_of("alternative", alternative, get_args(Alternative))
        if number("margin", margin, "0 or above") < 0:
            raise ArgumentError(f"`margin` must be 0 or above; found {margin!r}")
        if relative is not None:
            share("relative_margin", relative)
            if margin:
                raise ArgumentError("give one of `margin` and `relative_margin`")
        given = "margin" if relative is None else "relative_margin"
        if alternative == "two-sided" and (margin or relative is not None):
            raise ArgumentError(
                f"`{given}` needs `alternative` 'greater' (higher is better), 'less' or "
                "'equivalent'; found 'two-sided'"
            )
        if alternative == "equivalent":
            if not margin and relative is None:
                raise ArgumentError(
                    "`alternative` 'equivalent' needs `margin` above 0, or `relative_margin`: the "
                    "smallest difference that would matter"
                )
            if confidence <= 0.5:
                raise ArgumentError(
                    "`alternative` 'equivalent' needs `confidence` above 0.5: the interval has the "
                    f"level 2 * `confidence` - 1; found {confidence!r}"
                )
        return cls(alternative, float(margin), relative)

    def check_margin(self, **estimates: bool) -> None:
        """Raise `ArgumentError` if a relative margin has no test, because of some estimates."""
        for name, is_given in estimates.items():
            if is_given and self.relative is not None:
                raise ArgumentError(
                    f"`relative_margin` does not support `{name}`: the covariance of the "
                    "difference and the baseline's mean is unknown; use `margin`"
                )

    def level(self, confidence: float) -> float:
        """Return the confidence level of the interval, given that of each test."""
        return round(2 * confidence - 1, 12) if self.alternative == "equivalent" else confidence

    def alpha(self, confidence: float) -> float | None:
        """Return the level of tests of equivalence; None for other alternatives."""
        return 1 - confidence if self.alternative == "equivalent" else None

    @property
    def tests(self) -> tuple[Alternative, ...]:
        """The alternatives of single tests."""
        return ("greater", "less") if self.alternative == "equivalent" else (self.alternative,)

    def nulls(self) -> dict[str, pl.Expr]:
        """Return the mean difference under the null hypothesis of each test, as columns."""
        return {_NULL + each: self._null(each) for each in self.tests}

    def _null(self, test: Alternative) -> pl.Expr:
        """Return the mean difference under the null hypothesis, on the scale of the moments."""
        bound = {"greater": -self.margin, "less": self.margin}.get(test, 0.0)
        aggregate = pl.col("aggregate")
        # A geometric mean cannot be lower by more than itself.
        share_of_baseline = (bound / pl.col("baseline_mean").exp()).clip(_LOWEST)
        return (
            pl.when(aggregate == "sum")
            .then(bound / pl.col(DIFFERENCE + "weight"))
            .when(aggregate == "geometric")
            .then(share_of_baseline.log1p())
            .otherwise(bound)
        )

    def distances(self, error: str) -> dict[str, pl.Expr]:
        """Return the distance from a relative margin and its standard error, as columns.

        `error` is the column of the standard error of the difference.
        """
        if self.relative is None:
            return {}
        difference, base = pl.col(DIFFERENCE + "mean"), pl.col("baseline_mean")
        geometric, known = pl.col("aggregate") == "geometric", pl.col(error) > 0
        of_base = moment_math.variance("baseline_", DIFFERENCE)
        of_run = moment_math.variance("run_", DIFFERENCE)
        covariance = moment_math.covariance(DIFFERENCE, *COMPANIONS, DIFFERENCE)
        columns = {
            _BASE_RATIO: pl.when(geometric)
            .then(float("inf"))
            .otherwise(base.abs() / of_base.clip(0.0).sqrt())
        }
        for each in self.tests:
            factor = self.relative if each == "greater" else -self.relative
            signed = factor * base.sign()
            distance = difference + signed * base
            terms = pl.col(error) ** 2 + signed * signed * of_base
            variance = terms + 2 * signed * covariance
            rounding = _ROUNDING * (terms + signed.abs() * of_run)
            spread = pl.when(variance > rounding).then(variance.sqrt()).otherwise(0.0)
            exact = pl.when(distance.abs() > moment_math.rounding(DIFFERENCE)).then(distance)
            of_logarithms = difference - pl.lit(-factor, pl.Float64).log1p()
            columns |= {
                _DISTANCE + each: pl.when(geometric)
                .then(of_logarithms)
                .otherwise(exact.fill_null(0.0)),
                _SPREAD + each: pl.when(known & geometric)
                .then(pl.col(error))
                .when(known)
                .then(spread),
            }
        return columns

    def results(
        self, rows: pl.DataFrame, samples: Sequence[Sample], testing: Testing
    ) -> list[Result]:
        """Return the result of the test, or of both tests, for each sample.

        `rows` has the columns of `nulls` and `distances`.
        """
        single = [self._results(each, rows, samples, testing) for each in self.tests]
        if len(single) == 1:
            return single[0]
        return [_both(greater, less) for greater, less in zip(*single, strict=True)]

    def _results(
        self, test: Alternative, rows: pl.DataFrame, samples: Sequence[Sample], testing: Testing
    ) -> list[Result]:
        def column(name: str) -> list[Any]:
            return rows.get_column(name + test).to_list()

        single = testing.directed(test)
        nulls = zip(samples, column(_NULL), strict=True)
        results = single([sample._replace(null=null) for sample, null in nulls])
        if self.relative is None:
            return results
        shifted = [
            sample._replace(mean=mean, std_error=error, null=0.0, discordant=None)
            for sample, mean, error in zip(samples, column(_DISTANCE), column(_SPREAD), strict=True)
        ]
        relative = replace(single, test="t")(shifted)
        # The sign of a baseline's mean within its own interval is unknown.
        known = [
            (width := single.width(sample)) is not None and ratio > width
            for sample, ratio in zip(samples, rows.get_column(_BASE_RATIO), strict=True)
        ]
        return [
            result._replace(p_value=other.p_value if is_known else None)
            for result, other, is_known in zip(results, relative, known, strict=True)
        ]


def _both(greater: Result, less: Result) -> Result:
    """Return the result of two one-sided tests."""

    def bounds(confidence: float) -> Bounds:
        low, high = greater.bounds(confidence)[0], less.bounds(confidence)[1]
        return (None, None) if low is None or high is None else (low, high)

    unknown = greater.p_value is None or less.p_value is None
    p_value = None if unknown else max(greater.p_value, less.p_value)  # type: ignore[type-var]
    return Result(p_value, greater.interval, bounds)


def warn_of_skewed(
    table: pl.DataFrame, keys: Sequence[str], units: pl.Series, alpha: float
) -> None:
    """Warn of equivalence by t tests of differences that are too skewed for their number."""
    p_values, methods, skewness = (
        table.get_column(name) for name in ("p_value", "interval", "skewness")
    )
    skewed = [
        place
        for place, (p_value, method) in enumerate(zip(p_values, methods, strict=True))
        if p_value is not None and p_value < alpha and method == "t"
        if skewness[place] is not None and is_skewed(units[place], skewness[place])
    ]
    if skewed:
        labels = row_labels(table, keys)
        warn(
            "equivalence may be claimed too often, because the differences are too skewed for so "
            f"few queries: {first_few([labels[place] for place in skewed])}; evaluate more queries"
        )
