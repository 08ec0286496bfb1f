"""Differences between the estimates of rankers and a baseline, over the same rankings of a log."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.clicks.units import CONFIDENCE, first_group
from polars_rank.errors import DataError, warn
from polars_rank.evaluation.means import ratio
from polars_rank.frames.tables import schema_of
from polars_rank.stats.ratios import ratio_estimates
from polars_rank.stats.run_pairs import PAIRED, baseline_of, is_run, with_baseline
from polars_rank.stats.value_columns import check_run, unknown_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Columns of the result that describe the weights.
WEIGHT_COLUMNS = ("mean_weight", "effective_sample_size", "max_weight_share", "unshown")
#: The columns of a comparison besides groups and rankers.
COLUMNS = (
    *("metric", "mean", "difference", "baseline_mean", "variance", "low", "high", "p_value"),
    *("queries", "missing", "effective", *WEIGHT_COLUMNS),
)
#: Weights of a ranking that differ by less, relative to their size, are equal up to rounding.
_ROUNDING = 1e-9
#: A larger share of rankings that only one ranker has may bias the difference.
_MAX_MISSING = 0.05

#: The sum of the weights of a ranking; numbers of rankings of both rankers, and of those with
#: different weights; the effective number of units.
WEIGHT, PAIRS, DIFFER, EFFECTIVE = (
    OWN + name for name in ("weight", "pairs", "differ", "effective")
)
_OF_BASELINE, _PLACE = OWN + "of baseline", OWN + "place"


def difference(metric: str) -> str:
    """Return the column of the difference of a metric from the baseline."""
    return f"{OWN}difference {metric}"


@dataclass(frozen=True)
class Differences:
    """The columns and the baseline of a comparison of rankers."""

    baseline: Any
    run: str
    by: Sequence[str]
    query: Sequence[str]
    metrics: Sequence[str]
    #: The columns that must be equal for all rankers → what they are.
    equal: Mapping[str, str]
    #: The column of the divisor of the estimates.
    divisor: str

    def joined(self, rankings: pl.LazyFrame, weights: Sequence[str]) -> pl.LazyFrame:
        """Return the rankings with the differences from the baseline.

        Rankings that the baseline does not have have null values and null `weights`.
        """
        dtype = schema_of(rankings)[self.run]
        check_run("baseline", self.baseline, self.run, dtype)
        of_baseline = rankings.filter(is_run(self.run, dtype, self.baseline))
        pairs = with_baseline(
            rankings, of_baseline, [*self.by, *self.query], [*self.metrics, *self.equal]
        )
        return pairs.with_columns(
            *(pl.when(PAIRED).then(name).alias(name) for name in (*self.metrics, *weights)),
            *(_subtracted(name) for name in self.metrics),
            PAIRED.alias(PAIRS),
            pl.any_horizontal(pl.lit(value=False), *map(_differs, self.equal)).alias(DIFFER),
        )

    def schema(self, types: pl.Schema) -> pl.Schema:
        """Return the schema of the result."""
        kinds = {"metric": pl.String(), "queries": pl.Int64(), "missing": pl.Int64()}
        columns = [*self.by, "metric", self.run, *COLUMNS[1:]]
        known = {name: types[name] for name in (*self.by, self.run)}
        return pl.Schema({name: (known | kinds).get(name, pl.Float64()) for name in columns})

    def table(self, groups: pl.DataFrame) -> pl.DataFrame:
        """Return one row per group, metric and ranker other than the baseline."""
        rankers = groups.get_column(self.run).unique().sort()
        is_baseline = is_run(self.run, rankers.dtype, self.baseline)
        if rankers.len() and rankers.to_frame().filter(is_baseline).is_empty():
            raise unknown_run(self.run, rankers.to_list(), "baseline", self.baseline)
        different = groups.filter(pl.col(DIFFER) > 0)
        if not different.is_empty():
            raise DataError(
                f"the rankers have different {' or '.join(self.equal.values())} for the same "
                f"ranking{first_group(different, [self.run, *self.by])}; all rankers need the same "
                "rows of the log, e.g. as several columns of `score`"
            )
        others = self._others(groups, is_baseline)
        estimates = partial(ratio_estimates, rows=PAIRS, confidence=CONFIDENCE, differences=True)
        tables = [
            others.hstack(estimates(others, difference(name))).select(
                *self.by,
                *(self.run, "variance", "low", "high", "p_value", *WEIGHT_COLUMNS),
                metric=pl.lit(name),
                mean=ratio(pl.col(name), pl.col(self.divisor)),
                difference=pl.col("value"),
                queries=pl.col(PAIRS),
                missing=pl.col("queries") + pl.col(_OF_BASELINE) - 2 * pl.col(PAIRS),
                effective=pl.col(EFFECTIVE),
                **{_PLACE: pl.lit(place)},
            )
            for place, name in enumerate(self.metrics)
        ]
        table = pl.concat(tables).sort(*self.by, _PLACE, self.run)
        self._warn(table)
        return table.with_columns(baseline_mean=pl.col("mean") - pl.col("difference"))

    def _others(self, groups: pl.DataFrame, is_baseline: pl.Expr) -> pl.DataFrame:
        """Return the rankers other than the baseline, with its number of rankings.

        A ranker without rankings in a group of the baseline has a row of nulls.
        """
        of_baseline = groups.filter(is_baseline).select(
            *self.by, pl.col("queries").alias(_OF_BASELINE)
        )
        others = groups.filter(~is_baseline)
        every = others.select(self.run).unique().join(of_baseline, how="cross")
        joined = every.join(
            others, on=[*self.by, self.run], how="full", coalesce=True, nulls_equal=True
        )
        counts = pl.col("queries", PAIRS, _OF_BASELINE)
        return joined.with_columns(counts.fill_null(0).cast(pl.Int64))

    def _warn(self, table: pl.DataFrame) -> None:
        keys = [*self.by, "metric", self.run]
        equal = table.filter(pl.col("variance") == 0, pl.col("low").is_null())
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


def _of_both(column: str) -> list[pl.Expr]:
    """Return the values of a ranking of the ranker and of the baseline."""
    return [each.fill_null(0.0) for each in (pl.col(column), baseline_of(column))]


def _subtracted(metric: str) -> pl.Expr:
    """Return the difference of a metric in the rankings of both rankers."""
    own, base = _of_both(metric)
    return pl.when(PAIRED).then(own - base).alias(difference(metric))


def _differs(weight: str) -> pl.Expr:
    """Return whether the weights of two rankings differ by more than a rounding error."""
    own, base = _of_both(weight)
    return PAIRED & ((own - base).abs() > _ROUNDING * pl.max_horizontal(own.abs(), base.abs()))
