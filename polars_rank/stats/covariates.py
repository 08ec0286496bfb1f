"""Differences adjusted for a covariate of the query whose mean over all queries is known.

With the differences d and the covariate c of n queries, the estimate of the mean difference is

    mean(d) - θ (mean(c) - μ),    θ = cov(d, c) / var(c)

(CUPED; Deng, Xu, Kohavi & Walker, Improving the sensitivity of online controlled experiments by
utilizing pre-experiment data, 2013). Its variance is that of the residuals, d - θ c. Both runs of a
query have the same covariate, so that, unlike in an experiment with two groups of users, there is
no difference of covariates to remove: the variance is lower only because the mean μ over all
queries is known. With the mean over the sample instead of μ, the estimate is mean(d) itself, and
the residuals' variance is that for given covariates: it is too low for other samples of queries.

The line is fitted by least squares, so that the standard error at c = μ has n - 2 degrees of
freedom and the factor 1 + (mean(c) - μ)² / var(c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from polars_rank._params import OWN, check_column, check_distinct, number
from polars_rank.errors import ArgumentError, DataError, SchemaError, number_of, warn
from polars_rank.evaluation.checks import with_check
from polars_rank.evaluation.means import ratio, to_rows
from polars_rank.frames.tables import schema_of
from polars_rank.stats.intervals import ONE_UNIT, TWO_UNITS
from polars_rank.stats.per_query_tables import data_error
from polars_rank.stats.prediction_estimates import FIELDS, Source, is_far, sums
from polars_rank.stats.run_pairs import PAIRED, baseline_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.stats.per_query_tables import Variable
    from polars_rank.stats.run_pairs import Pairs

#: Columns of moments: the name of the covariate, and its sums with the differences and the values.
ADJUSTED_BY = "adjusted_by"
OF_DIFFERENCE, OF_RUN = "difference_covariate", "run_covariate"
#: The column of results.
REDUCTION = "variance_reduction"
#: The column of the known mean of the covariate.
MEAN = OWN + "mean of covariate"
_COUNT, _SAME, _FAR = OWN + "count", OWN + "same", OWN + "far"
#: A variance below this share of its terms may be a rounding error.
_ROUNDING = 1e-14
#: Means that differ by less, relative to their size, are equal up to rounding.
_SAME_MEAN = 1e-12


def check_covariate(covariate: str | None, mean: float | None, others: Mapping[str, bool]) -> None:
    """Raise `ArgumentError` for the mean of no covariate, or for one of the other parameters."""
    if covariate is None:
        if mean is not None:
            raise ArgumentError("`covariate_mean` needs `covariate`, the column of the covariate")
        return
    if mean is not None:
        number("covariate_mean", mean)
    for name, is_given in others.items():
        if is_given:
            raise ArgumentError(
                f"`covariate` does not support `{name}`"
                + ("; compare each group with its own `covariate_mean`" if name == "by" else "")
            )


def with_known_mean(moments: pl.LazyFrame, covariate: str, mean: float | None) -> pl.LazyFrame:
    """Return moments with the column `MEAN`; raise unless they have the sums of the covariate.

    Without a known mean, it is that over the queries.
    """
    schema = schema_of(moments)
    if ADJUSTED_BY not in schema:
        raise SchemaError(
            f"the moments have no sums of a covariate; compute them with covariate={covariate!r}"
        )

    def check(rows: pl.DataFrame) -> pl.DataFrame:
        names = rows.get_column(ADJUSTED_BY).unique().to_list()
        if rows.height and names != [covariate]:
            raise DataError(
                f"the moments were computed with the covariate {names[0]!r}; found `covariate` "
                f"{covariate!r}"
            )
        return rows

    checked = moments.map_batches(check, schema=schema)
    known = pl.lit(mean, dtype=pl.Float64)
    if mean is None:
        known = pl.col(OF_DIFFERENCE).struct.field("judge_mean")
    return checked.with_columns(known.alias(MEAN))


def with_covariate(
    moments: pl.LazyFrame,
    values: pl.LazyFrame,
    selected: Sequence[Variable],
    pairs: Pairs,
    covariate: str,
) -> pl.LazyFrame:
    """Return moments with the sums of a covariate; collecting them checks its values."""
    for each in selected:
        if each.aggregate != "mean":
            raise ArgumentError(
                f"`covariate` needs metrics that are means over queries; {each.name!r} is a "
                f"{each.aggregate}; name other metrics"
            )
    check_column("covariate", covariate, pairs.schema, "number")
    check_distinct({**pairs.columns, "covariate": [covariate]})
    value, groups = pl.col(covariate).cast(pl.Float64), [*pairs.by, pairs.run]
    rows = pairs.joined(values, [*(each.name for each in selected), covariate])
    sources = {}
    for index, each in enumerate(selected):
        own = each.of(pl.col(each.name))
        difference = pl.when(PAIRED).then(own - each.of(baseline_of(each.name)))
        of_run = pl.when(difference.is_not_null()).then(own)
        for kind, human in (("difference", difference), ("run", of_run)):
            sources[f"{index} {kind}"] = Source(human, value, pl.lit(value=False))
    wide = sums(rows, groups, sources, weight=pairs.weight, cluster=pairs.cluster, probability=None)
    long = to_rows(
        wide,
        groups,
        [
            {
                "metric": pl.lit(each.name),
                OF_RUN: pl.col(f"{index} run"),
                OF_DIFFERENCE: pl.col(f"{index} difference"),
            }
            for index, each in enumerate(selected)
        ],
    )
    result = moments.join(
        long, on=[*groups, "metric"], how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(pl.lit(covariate).alias(ADJUSTED_BY))
    return _checked(result, values, rows, covariate)


def _checked(
    result: pl.LazyFrame, values: pl.LazyFrame, rows: pl.LazyFrame, covariate: str
) -> pl.LazyFrame:
    """Return the result; collecting it raises for covariates that are not one number per query."""
    invalid = ~pl.col(covariate).cast(pl.Float64).is_finite().fill_null(value=False)
    problem = f"null, NaN or infinite values in the column {covariate!r} (`covariate`)"

    def check_values(table: pl.DataFrame) -> None:
        if table.get_column(_COUNT)[0]:
            raise data_error(values, {problem: invalid})

    differs = PAIRED & (pl.col(covariate) != baseline_of(covariate))

    def check_pairs(table: pl.DataFrame) -> None:
        if count := table.get_column(_COUNT)[0]:
            raise DataError(
                f"{number_of(count, 'query', 'queries')} with another value of {covariate!r} "
                "(`covariate`) in the baseline; a covariate is known before the experiment and is "
                "the same in all runs"
            )

    checked = with_check(result, values.select(invalid.sum().alias(_COUNT)), check_values)
    return with_check(checked, rows.select(differs.sum().alias(_COUNT)), check_pairs)


class Adjustment(NamedTuple):
    """An adjusted mean, as expressions over a struct of sums."""

    mean: pl.Expr
    std_error: pl.Expr
    #: One more than the degrees of freedom.
    effective: pl.Expr
    reduction: pl.Expr


def adjustment(column: str) -> Adjustment:
    """Return the adjusted mean from the sums in a column, given the column `MEAN`."""
    s = {field: pl.col(column).struct.field(field) for field in FIELDS}
    weight = s["human_weight"]
    n = ratio(weight * weight, s["aa"])
    spread, size = s["judge_squares"] / weight, s["judge_mean"] ** 2
    varies = (spread > _ROUNDING * size) & (n > TWO_UNITS)
    slope = pl.when(varies).then(s["covariance"] / s["judge_squares"]).otherwise(0.0)
    distance = s["judge_mean"] - pl.col(MEAN)
    residual = s["uu"] - 2 * slope * s["uv"] + slope * slope * s["vv"]
    residual = pl.when(residual > _ROUNDING * s["uu"]).then(residual).otherwise(0.0)
    raw = pl.when(n > ONE_UNIT).then(s["uu"] / weight**2 * n / (n - 1))
    of_line = residual / weight**2 * n / (n - 2) * (1 + distance * distance / spread)
    square = pl.when(varies).then(of_line).otherwise(raw)
    return Adjustment(
        mean=s["human_mean"] - slope * distance,
        std_error=square.sqrt(),
        effective=pl.when(varies).then(n - 1).otherwise(n),
        reduction=pl.when(raw > 0).then(1 - square / raw),
    )


def with_adjustment(table: pl.LazyFrame, name: str, error: str, units: str) -> pl.LazyFrame:
    """Return moments with adjusted means, and without 0-and-1 intervals.

    `name` is the prefix of the columns of differences; `error` and `units` are the columns of the
    standard error, and of the degrees of freedom + 1.
    """
    adjusted, of_run = adjustment(OF_DIFFERENCE), adjustment(OF_RUN).mean
    doubts = table.with_columns(_is_of_table().alias(_SAME), _is_far().alias(_FAR))
    checked = doubts.map_batches(_with_warnings, schema=schema_of(doubts)).drop(_SAME, _FAR)
    return checked.with_columns(
        adjusted.mean.alias(name + "mean"),
        of_run.alias("run_mean"),
        (of_run - adjusted.mean).alias("baseline_mean"),
        adjusted.std_error.alias(error),
        adjusted.effective.alias(units),
        adjusted.reduction.alias(REDUCTION),
        pl.lit(value=False).alias("binary"),
    )


def _is_of_table() -> pl.Expr:
    """Return whether the mean over all queries is that over the table."""
    mean = pl.col(OF_DIFFERENCE).struct.field("judge_mean")
    same = (mean - pl.col(MEAN)).abs() <= _SAME_MEAN * mean.abs()
    varies = pl.col(OF_DIFFERENCE).struct.field("judge_squares") > 0
    return (same & varies).fill_null(value=False)


def _is_far() -> pl.Expr:
    """Return whether the mean over the table differs from that over all queries, p < 0.001."""
    s = {field: pl.col(OF_DIFFERENCE).struct.field(field) for field in FIELDS}
    weight = s["human_weight"]
    return is_far(s["judge_mean"] - pl.col(MEAN), s["vv"] / weight**2, ratio(weight**2, s["aa"]))


_DOUBTS = {
    _SAME: (
        "the mean of the covariate is that over the queries of the table in {}, e.g. of {!r}: "
        "intervals are about queries with these covariates, and too narrow for all queries; pass "
        "`covariate_mean`, the mean over all queries"
    ),
    _FAR: (
        "the mean of the covariate over the queries of the table differs from `covariate_mean` in "
        "{}, e.g. of {!r} (p < 0.001): the queries are not a random sample of all, so the adjusted "
        "difference may be biased"
    ),
}


def _with_warnings(rows: pl.DataFrame) -> pl.DataFrame:
    """Warn of a mean of the covariate that may not be that over all queries."""
    for name, text in _DOUBTS.items():
        doubtful = rows.get_column(name)
        if count := int(doubtful.sum()):
            metric = rows.get_column("metric")[doubtful.arg_true()[0]]
            warn(text.format(number_of(count, "row"), metric))
    return rows
