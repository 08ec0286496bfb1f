"""What per-query values say about the power of a planned experiment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, Names, free
from polars_rank.errors import DataError
from polars_rank.frames.tables import schema_of
from polars_rank.stats import moment_math
from polars_rank.stats.baselines import against_baseline, groups_of_moments
from polars_rank.stats.designs import Design, effect_interval, spread_interval, whole
from polars_rank.stats.moment_tables import (
    DIFFERENCE,
    UNITS,
    is_moments,
    paired_sums,
    regrouped,
)
from polars_rank.stats.per_query_tables import (
    only_metrics,
    refuse_definitions,
    refuse_with_moments,
    variables,
    with_definitions,
    without,
)
from polars_rank.stats.run_pairs import Pairs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank.conventions import Conventions, Undefined
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.intervals import Alternative

COLUMNS = (
    *("metric", "queries", "effective", "difference", "std", "target", "power"),
    *("needed_low", "needed", "needed_high", "detectable"),
)
_AGGREGATE, _ERROR, _EFFECTIVE = OWN + "aggregate", OWN + "error", OWN + "effective"
_SKEWNESS, _KURTOSIS = OWN + "skewness", OWN + "kurtosis"
_OF_PILOTS = (_AGGREGATE, _ERROR, _EFFECTIVE, _SKEWNESS, _KURTOSIS)
_ADDED = {
    "power": pl.Float64(),
    "needed_low": pl.Int64(),
    "needed": pl.Int64(),
    "needed_high": pl.Int64(),
    "detectable": pl.Float64(),
}


class Pilot(NamedTuple):
    """What the values say about differences."""

    units: float
    #: The standard deviation of a unit: √n times the standard error.
    std: float
    #: The true difference that is assumed.
    target: float
    queries_per_unit: float
    skewness: float
    kurtosis: float


class Plan(NamedTuple):
    """A design, and observed differences by group, metric and run."""

    observed: pl.LazyFrame
    design: Design
    confidence: float
    #: Whether the true difference is given.
    known: bool

    @classmethod
    def of(
        cls,
        values: pl.LazyFrame,
        metrics: Metrics | None,
        parameter: str = "metrics",
        *,
        baseline: Any,
        difference: float | None,
        run: str,
        by: Names | None,
        query: Names,
        weight: str | None,
        cluster: Names | None,
        power: float,
        confidence: float,
        alternative: Alternative,
        margin: float,
        undefined: Undefined | Mapping[str, Undefined] | None,
        conventions: Conventions | str | None,
    ) -> Plan:
        """Return the plan of checked parameters; `parameter` is the name of that of metrics."""
        design = Design.of(alternative, difference, margin, power, confidence)
        values, definitions = with_definitions(values, conventions, undefined)

        schema = schema_of(values)
        if is_moments(schema):
            refuse_definitions(undefined, conventions)
            refuse_with_moments({"weight": weight, "cluster": cluster})
            groups = groups_of_moments(schema, by, run, baseline)
            moments = regrouped(only_metrics(values, metrics), [*groups, run])
            weighted = not {*UNITS}.isdisjoint(schema)
        else:
            pairs = Pairs.of(
                values, by=by, run=run, query=query, baseline=baseline, metrics=metrics,
                weight=weight, cluster=cluster,
            )  # fmt: skip
            weighted = pairs.is_weighted
            groups = [*pairs.by]
            selected = variables(schema, metrics, definitions, pairs.columns, parameter, undefined)
            moments = paired_sums(values, selected, pairs, definitions)
        free([*groups, run], COLUMNS)
        size = pl.col(DIFFERENCE + "mean").abs()
        target = pl.when(size <= moment_math.rounding(DIFFERENCE)).then(0.0).otherwise(size)
        known = difference is not None or alternative == "equivalent"
        if known:
            target = pl.lit(difference or 0.0, dtype=pl.Float64)
        observed = against_baseline(moments, groups, run, baseline).select(
            *groups, "metric", run, pl.col("aggregate").alias(_AGGREGATE),
            moment_math.std_error(DIFFERENCE).alias(_ERROR),
            moment_math.effective(DIFFERENCE).alias(_EFFECTIVE),
            pl.col(DIFFERENCE + "counted").alias("queries"),
            *([moment_math.effective(DIFFERENCE).alias("effective")] if weighted else []),
            pl.col(DIFFERENCE + "mean").alias("difference"),
            moment_math.std(DIFFERENCE).alias("std"),
            target.alias("target"),
            moment_math.skewness(DIFFERENCE).alias(_SKEWNESS),
            _kurtosis().alias(_KURTOSIS),
        )  # fmt: skip
        return cls(observed, design, confidence, known)

    def solved(self) -> pl.LazyFrame:
        """Return the table with the columns `_ADDED`."""
        schema = {
            name: dtype
            for name, dtype in schema_of(self.observed).items()
            if name not in _OF_PILOTS
        }

        def solve(rows: pl.DataFrame) -> pl.DataFrame:
            solved = [self.solution(pilot) for pilot in self.pilots(rows)]
            series = [
                pl.Series(name, [each[name] for each in solved], dtype)
                for name, dtype in _ADDED.items()
            ]
            return without(rows, *_OF_PILOTS).hstack(series)

        return self.observed.map_batches(solve, schema={**schema, **_ADDED})

    def pilots(self, rows: pl.DataFrame) -> list[Pilot | None]:
        """Return a pilot for each observed row, None without variance or a difference to detect.

        Raise `DataError` for metrics that are not means.
        """
        kinds = zip(rows.get_column("metric"), rows.get_column(_AGGREGATE), strict=True)
        for name, aggregate in kinds:
            if aggregate != "mean":
                raise DataError(f"the metric {name!r} is a {aggregate}, not a mean over queries")
        selected = rows.select(
            _EFFECTIVE, pl.col(_ERROR) * pl.col(_EFFECTIVE).sqrt(), "target",
            pl.col("queries") / pl.col(_EFFECTIVE), pl.col(_SKEWNESS).fill_null(0.0), _KURTOSIS,
        )  # fmt: skip
        pilots = [Pilot(*row) for row in selected.iter_rows()]
        return [
            each if each.std and (each.target or self.design.margin is not None) else None
            for each in pilots
        ]

    def cases(self, pilot: Pilot) -> tuple[tuple[float, float], ...]:
        """Return the standard deviation and difference: the best case, observed, the worst."""
        units, std, target = pilot[:3]
        if self.known:
            low, high = spread_interval(units, std, pilot.kurtosis, self.confidence)
            return (low, target), (std, target), (high, target)
        low, high = effect_interval(
            units, target / std, pilot.skewness, pilot.kurtosis, self.confidence
        )
        return (1.0, high), (std, target), (1.0, max(low, 0.0))

    def solution(self, pilot: Pilot | None) -> dict[str, float | int | None]:
        """Return the values of `_ADDED`."""
        if pilot is None:
            return dict.fromkeys(_ADDED)
        cases = self.cases(pilot)
        needed = [
            self.design.needed(std, target)
            if math.isfinite(std) and (target or self.design.margin is not None)
            else None
            for std, target in cases
        ]
        queries = [whole(each, pilot.queries_per_unit) for each in needed]
        std, target = cases[1]
        return {
            "power": self.design.power_of(pilot.units, std, target),
            **dict(zip(("needed_low", "needed", "needed_high"), queries, strict=True)),
            "detectable": self.design.detectable(pilot.units, std, target),
        }


def _kurtosis() -> pl.Expr:
    """Return an upper estimate of the kurtosis of the differences; moments have no fourth powers.

    Differences that are not 0 count as Laplace distributed, with a kurtosis of 6; skewed ones have
    at least that of a gamma distribution. For metrics in [0, 1], the kurtosis of differences
    is at most (1 + |mean|)² / variance. In simulations, intervals with this estimate hold their
    level, except those of lognormal differences (tests/benchmarks/planning.md).
    """
    mean, std = pl.col(DIFFERENCE + "mean"), moment_math.std(DIFFERENCE)
    changed = (pl.col("wins") + pl.col("losses")) / pl.col("pairs")
    of_ties = 6 / changed
    limit = (1 + mean.abs()) ** 2 / std**2
    bounded = moment_math.shares() & pl.col("baseline_mean").is_between(0, 1)
    skewness = moment_math.skewness(DIFFERENCE).fill_null(0.0)
    kurtosis = pl.when(bounded).then(pl.min_horizontal(of_ties, limit)).otherwise(of_ties)
    return pl.max_horizontal(kurtosis, 3 + 1.5 * skewness**2, pl.lit(3.0))
