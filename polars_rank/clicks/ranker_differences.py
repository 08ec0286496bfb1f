"""Differences between the estimates of rankers and a baseline, over the same rankings of a log."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.clicks.certainty import EFFECTIVE, Result, first_group, t_test
from polars_rank.clicks.estimate_sums import WEIGHT, WEIGHT_COLUMNS, Estimate, Normalize, Sums
from polars_rank.errors import DataError, warn
from polars_rank.frames.tables import schema_of
from polars_rank.stats.run_pairs import (
    PAIRED,
    baseline_of,
    check_run,
    is_run,
    unknown_run,
    with_baseline,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: The columns of a comparison besides groups and rankers.
COLUMNS = (
    *("metric", "mean", "difference", "baseline_mean", "variance", "low", "high", "p_value"),
    *("queries", "missing", "effective", *WEIGHT_COLUMNS),
)
#: Confidence level of the intervals.
_CONFIDENCE = 0.95
#: Weights of a ranking that differ by less, relative to their size, are equal up to rounding.
_ROUNDING = 1e-9
#: A larger share of rankings that only one ranker has may bias the difference.
_MAX_MISSING = 0.05

_PAIRS, _DIFFER, _OF_BASELINE = (OWN + name for name in ("pairs", "differ", "of baseline"))
_PLACE = OWN + "place"


def _difference(metric: str) -> str:
    return f"{OWN}difference {metric}"


def _baseline(metric: str) -> str:
    return f"{OWN}of baseline {metric}"


@dataclass(frozen=True)
class Differences:
    """The columns and the baseline of a comparison of rankers."""

    baseline: Any
    run: str
    by: Sequence[str]
    query: Sequence[str]
    metrics: Sequence[str]
    normalize: Normalize
    weight: str | None

    def joined(self, rankings: pl.LazyFrame) -> pl.LazyFrame:
        """Return the rankings with the values of the baseline and the differences.

        Rankings that the baseline does not have count as if they had no weight.
        """
        dtype = schema_of(rankings)[self.run]
        check_run("baseline", self.baseline, self.run, dtype)
        weights = [WEIGHT] if self.weight is None else [WEIGHT, self.weight]
        of_baseline = rankings.filter(is_run(self.run, dtype, self.baseline))
        keys = [*self.by, *self.query]
        pairs = with_baseline(rankings, of_baseline, keys, [*self.metrics, *weights])
        compared = weights if self.normalize == "snips" else weights[1:]
        values = [each for name in self.metrics for each in _values(name)]
        return pairs.with_columns(
            *values,
            *(pl.when(PAIRED).then(name).otherwise(0.0).alias(name) for name in weights[1:]),
            pl.when(PAIRED).then(WEIGHT).alias(WEIGHT),
            PAIRED.alias(_PAIRS),
            pl.any_horizontal(pl.lit(value=False), *map(_differs, compared)).alias(_DIFFER),
        )

    @property
    def sums(self) -> list[Sums]:
        """The sums of the baseline's values, of the differences, and of pairs."""
        names = [each(name) for name in self.metrics for each in (_baseline, _difference)]
        return [*(Estimate(name, self.normalize, self.weight) for name in names), _Pairs()]

    def table(
        self, estimates: pl.LazyFrame, check: Callable[[pl.DataFrame], pl.DataFrame]
    ) -> pl.LazyFrame:
        """Return one row per group, metric and ranker other than the baseline."""
        types = estimates.collect_schema()
        columns: dict[str, pl.DataType] = {
            **{name: types[name] for name in self.by},
            "metric": pl.String(),
            self.run: types[self.run],
            **dict.fromkeys(COLUMNS[1:], pl.Float64()),
            "queries": pl.Int64(),
            "missing": pl.Int64(),
        }
        schema = pl.Schema(columns)
        return estimates.map_batches(partial(self._compared, check, schema), schema=schema)

    def _compared(
        self,
        check: Callable[[pl.DataFrame], pl.DataFrame],
        schema: pl.Schema,
        estimates: pl.DataFrame,
    ) -> pl.DataFrame:
        self._check_rankers(estimates)
        others = self._others(check(estimates).hstack([estimates.get_column(EFFECTIVE)]))
        tables = [
            others.select(
                *self.by,
                pl.lit(name).alias("metric"),
                self.run,
                pl.col(name).alias("mean"),
                pl.col(_difference(name)).alias("difference"),
                pl.col(_baseline(name)).alias("baseline_mean"),
                pl.col(_difference(name) + "_variance").alias("variance"),
                pl.col(_PAIRS).alias("queries"),
                (pl.col("queries") + pl.col(_OF_BASELINE) - 2 * pl.col(_PAIRS)).alias("missing"),
                pl.col(EFFECTIVE).alias("effective"),
                *WEIGHT_COLUMNS,
                pl.lit(place).alias(_PLACE),
            )
            for place, name in enumerate(self.metrics)
        ]
        table = pl.concat(tables).sort(*self.by, _PLACE, self.run)
        tested = _with_tests(table).select(
            pl.col(name).cast(dtype) for name, dtype in schema.items()
        )
        self._warn(tested)
        return tested

    def _check_rankers(self, estimates: pl.DataFrame) -> None:
        """Raise `DataError` if there is no baseline, or if labels differ between rankers."""
        rankers = estimates.get_column(self.run).unique().sort()
        dtype = rankers.dtype
        is_baseline = is_run(self.run, dtype, self.baseline)
        if rankers.len() and rankers.to_frame().filter(is_baseline).is_empty():
            raise unknown_run(self.run, rankers.to_list(), "baseline", self.baseline)
        different = estimates.filter(pl.col(_DIFFER) > 0)
        if not different.is_empty():
            what = "labels" if self.weight is None else "labels or weights"
            raise DataError(
                f"the rankers have different {what} for the same ranking"
                f"{first_group(different, [self.run, *self.by])}; all rankers need the same rows "
                "of the log, e.g. as columns of `scores`"
            )

    def _others(self, estimates: pl.DataFrame) -> pl.DataFrame:
        """Return the rankers other than the baseline, with its number of rankings.

        A ranker without rankings in a group of the baseline has a row of zeros.
        """
        dtype = estimates.schema[self.run]
        is_baseline = is_run(self.run, dtype, self.baseline)
        counts = estimates.with_columns(pl.col("queries", _PAIRS).cast(pl.Int64))
        others = counts.filter(~is_baseline)
        of_baseline = counts.filter(is_baseline).select(
            *self.by, pl.col("queries").alias(_OF_BASELINE)
        )
        every = others.select(self.run).unique().join(of_baseline, how="cross")
        joined = every.join(
            others, on=[*self.by, self.run], how="full", coalesce=True, nulls_equal=True
        )
        return joined.with_columns(pl.col("queries", _PAIRS, _OF_BASELINE).fill_null(0))

    def _warn(self, table: pl.DataFrame) -> None:
        keys = [*self.by, "metric", self.run]
        equal = table.filter(pl.col("variance") == 0)
        if not equal.is_empty():
            warn(
                f"all rankings or clusters have the same difference{first_group(equal, keys)}: the "
                "variance is 0 and the interval is unknown; use a log with more clicks"
            )
        missing = table.filter(
            pl.col("missing") > _MAX_MISSING * (pl.col("queries") + pl.col("missing"))
        )
        if not missing.is_empty():
            count = missing.get_column("missing")[0]
            warn(
                f"{count:,} rankings are of only one of the two rankers"
                f"{first_group(missing, keys)}: the difference is about the others; score the same "
                "rankings with both"
            )


def _values(metric: str) -> list[pl.Expr]:
    """Return the values of a metric of the ranker and of the baseline, and their difference."""
    own, base = (each.fill_null(0.0) for each in (pl.col(metric), baseline_of(metric)))
    values = {metric: own, _baseline(metric): base, _difference(metric): own - base}
    return [pl.when(PAIRED).then(value).alias(name) for name, value in values.items()]


def _differs(weight: str) -> pl.Expr:
    """Return whether the weights of two rankings differ by more than a rounding error."""
    own, base = (each.fill_null(0.0) for each in (pl.col(weight), baseline_of(weight)))
    return PAIRED & ((own - base).abs() > _ROUNDING * pl.max_horizontal(own.abs(), base.abs()))


def _with_tests(table: pl.DataFrame) -> pl.DataFrame:
    rows = table.select("difference", "variance", "effective").iter_rows()
    tests = [t_test(value, variance, units, _CONFIDENCE) for value, variance, units in rows]
    schema = dict.fromkeys(Result._fields, pl.Float64)
    return table.hstack(pl.DataFrame(tests, schema=schema, orient="row"))


class _Pairs(Sums):
    """The numbers of rankings of both rankers, and of those with different weights."""

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        return {name: (pl.col(name).sum(), "sum") for name in (_PAIRS, _DIFFER)}

    def cluster_values(self) -> dict[str, pl.Expr]:
        return {}

    def finish(self) -> list[pl.Expr]:
        return [pl.col(_PAIRS), pl.col(_DIFFER)]
