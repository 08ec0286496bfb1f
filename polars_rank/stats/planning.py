"""`power`: how many queries show a difference, and which difference this many can show."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, get_args

import polars as pl

from polars_rank._params import OWN, Names, free, one_of, positive, share
from polars_rank.conventions import POLARS_RANK, Conventions
from polars_rank.errors import ArgumentError, DataError
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats import sums
from polars_rank.stats.comparison import against_baseline, groups_of_moments
from polars_rank.stats.intervals import Alternative, stats
from polars_rank.stats.moment_tables import DIFFERENCE, is_moments, paired_sums, regrouped
from polars_rank.stats.pairs import Pairs
from polars_rank.stats.tables import (
    agreed_on,
    only_metrics,
    settled,
    variables,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics

COLUMNS = ("metric", "queries", "difference", "std", "target", "power", "needed", "smallest")
_AGGREGATE = OWN + "aggregate"


@framed_table
def power(
    table: pl.LazyFrame,
    *,
    run: str = "run",
    baseline: Any,
    difference: float | None = None,
    metrics: Metrics | None = None,
    by: Names | None = None,
    query: Names = "query",
    power: float = 0.8,
    confidence: float = 0.95,
    alternative: Alternative = "two-sided",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
) -> pl.LazyFrame:
    r"""Power of the paired t test: which differences a number of queries can show.

    $$P(|T| > t_{1 - \alpha/2, n-1}), \qquad T \sim t_{n-1}(\sqrt n \, |d| / s_d)$$

    with the noncentral t distribution, and the standard deviation of the differences as found.

    Parameters
    ----------
    table, run, baseline, metrics, by, query, undefined, conventions
        As for `compare`; two runs that differ about as much as those to come.
    difference
        The difference of means that is to be shown, above 0; None for the one that was found.
    power
        How likely it is to be shown, between 1 - `confidence` and 1.
    confidence
        Of the test, between 0 and 1: its level α is 1 - `confidence`.
    alternative
        Of the test; "greater" and "less" are the same here.

    Returns
    -------
    LazyFrame or DataFrame
        Like `table`: a row per group, metric and run other than the baseline, with the `by`
        columns and

        - `metric`, `run` (under its own name), `queries`: those in both runs that count;
        - `difference`, `std`: of the means as found, and standard deviation of the differences;
        - `target`: the difference to be shown;
        - `power`: how likely these queries show it;
        - `needed`: how many queries show it with the power asked for;
        - `smallest`: the least difference that these queries show with that power.

        Null where the standard deviation or the target is 0, but for rounding, or there are fewer
        than two pairs; `needed` is null above 2^62.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `compare`; also for a metric that is a sum or a geometric mean.

    Notes
    -----
    The power to show the difference that was found says nothing new: it follows from the
    p-value. Ask for the smallest difference that would matter.

    References
    ----------
    Sakai, Laboratory Experiments in Information Retrieval, 2018, chapter 6.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> lists = pl.DataFrame({
    ...     "run": ["a"] * 4 + ["b"] * 4, "query": [1, 2, 3, 4] * 2,
    ...     "rr": [0.5, 0.5, 1.0, 0.0, 1.0, 0.5, 1.0, 0.5],
    ... })
    >>> pr.stats.power(lists, baseline="a", difference=0.1).select("std", "target", "needed")
    shape: (1, 3)
    ┌──────────┬────────┬────────┐
    │ std      ┆ target ┆ needed │
    │ ---      ┆ ---    ┆ ---    │
    │ f64      ┆ f64    ┆ i64    │
    ╞══════════╪════════╪════════╡
    │ 0.288675 ┆ 0.1    ┆ 68     │
    └──────────┴────────┴────────┘
    """
    share("power", power)
    share("confidence", confidence)
    alpha = 1 - confidence
    if power <= alpha:
        message = (
            f"`power` must be above 1 - `confidence` = {alpha:g}, the power to show no difference "
            f"at all; found {power!r}"
        )
        raise ArgumentError(message, "power", "confidence")
    one_of("alternative", alternative, get_args(Alternative))
    if difference is not None:
        positive("difference", difference)
    stats()
    tail = alpha / 2 if alternative == "two-sided" else alpha
    agreed = agreed_on(conventions, undefined)

    schema = schema_of(table)
    if is_moments(schema):
        settled(undefined, conventions)
        groups = groups_of_moments(schema, by, run, baseline)
        moments = regrouped(only_metrics(table, metrics), [*groups, run])
    else:
        pairs = Pairs.of(schema, by=by, run=run, query=query, baseline=baseline)
        groups = [*pairs.by]
        asked = variables(schema, metrics, agreed, pairs.columns, undefined=undefined)
        moments = paired_sums(table, asked, pairs, agreed)
    free([*groups, run], COLUMNS)
    size = pl.col(DIFFERENCE + "mean").abs()
    target = pl.when(size <= sums.rounding(DIFFERENCE)).then(0.0).otherwise(size)
    if difference is not None:
        target = pl.lit(difference, dtype=pl.Float64)
    found = against_baseline(moments, groups, run, baseline).select(
        *groups, "metric", run, pl.col("aggregate").alias(_AGGREGATE),
        pl.col(DIFFERENCE + "units").alias("queries"),
        pl.col(DIFFERENCE + "mean").alias("difference"),
        sums.std(DIFFERENCE).alias("std"),
        target.alias("target"),
    )  # fmt: skip
    return _with_power(found, power, tail, two_sided=alternative == "two-sided")


def _with_power(
    found: pl.LazyFrame, wanted: float, tail: float, *, two_sided: bool
) -> pl.LazyFrame:
    schema = found.collect_schema()
    schema.pop(_AGGREGATE)
    added = {"power": pl.Float64(), "needed": pl.Int64(), "smallest": pl.Float64()}

    def solve(rows: pl.DataFrame) -> pl.DataFrame:
        kinds = zip(rows.get_column("metric"), rows.get_column(_AGGREGATE), strict=True)
        for name, aggregate in kinds:
            if aggregate != "mean":
                message = f"{name!r} is no mean over queries, but a {aggregate}; power is of means"
                raise DataError(message)
        columns = (rows.get_column(name).to_list() for name in ("queries", "std", "target"))
        solved = [
            _solved(n, target / std, wanted, tail, two_sided=two_sided, std=std)
            if n > 1 and std and target
            else (None, None, None)
            for n, std, target in zip(*columns, strict=True)
        ]
        made = [
            pl.Series(name, [each[index] for each in solved], dtype)
            for index, (name, dtype) in enumerate(added.items())
        ]
        return without(rows, _AGGREGATE).hstack(made)

    return found.map_batches(solve, schema={**schema, **added})


def _solved(
    queries: int, effect: float, wanted: float, tail: float, *, two_sided: bool, std: float
) -> tuple[float, int | None, float]:
    """Return the power, the queries needed and the smallest difference."""
    from scipy.optimize import brentq  # noqa: PLC0415  (an extra)

    def of(n: float, size: float) -> float:
        return t_power(n, size, tail, two_sided=two_sided)

    least = 2.0
    most = least
    while of(most, effect) < wanted and most < _MOST:
        least, most = most, most * 2
    needed: int | None = None
    if of(most, effect) >= wanted:
        exact = most if most == least else brentq(lambda n: of(n, effect) - wanted, least, most)
        needed = math.ceil(exact - _SLACK)
    largest = 1.0
    while of(queries, largest) < wanted:
        largest *= 2
    smallest = brentq(lambda size: of(queries, size) - wanted, 0, largest, xtol=1e-15, rtol=1e-14)
    return of(queries, effect), needed, smallest * std


#: A number of queries that is whole but for rounding is that number.
_SLACK = 1e-9
#: More queries than this do not fit the column of their number.
_MOST = 2.0**62

#: Above it, scipy's series need not converge; the normal part of T is next to nothing then.
_LARGE = 5_000


def t_power(queries: float, effect: float, tail: float, *, two_sided: bool) -> float:
    """Return how likely the t test shows an effect (difference over standard deviation)."""
    found = stats()
    degrees, noncentral = queries - 1, effect * math.sqrt(queries)
    critical = found.t.isf(tail, degrees)
    if noncentral > _LARGE:
        return float(found.chi2.cdf(degrees * (noncentral / critical) ** 2, degrees))
    likely = float(found.nct.sf(critical, degrees, noncentral))
    if two_sided:
        other = float(found.nct.cdf(-critical, degrees, noncentral))
        likely += 0.0 if math.isnan(other) else other  # scipy's word for too little to tell
    return likely
