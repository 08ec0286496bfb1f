"""`summarize`: means of per-query values with confidence intervals."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, get_args

import polars as pl
from polars import selectors

from polars_rank._params import OWN, Names, free, names, one_of, share, whole_number
from polars_rank.conventions import POLARS_RANK, Conventions
from polars_rank.errors import ArgumentError, RankWarning, number_of
from polars_rank.evaluation.means import ratio, to_rows
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats import sums
from polars_rank.stats.intervals import FEW, Interval, warn_of_range, with_width
from polars_rank.stats.keys import query_key
from polars_rank.stats.moment_tables import SEPARATOR, groups_of, is_moments, regrouped, sums_of
from polars_rank.stats.pairs import provided
from polars_rank.stats.resampling import KEY, RESIDUE, bootstrap_sums, check_seed
from polars_rank.stats.tables import (
    EMPTY,
    agreed_on,
    data_error,
    key_columns,
    only_metrics,
    settled,
    variables,
    warn_of_empty,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.tables import Variable

_LAST = ("queries", "undefined", "low", "high")
#: Polars prints the first four and the last four columns of a wide table: what users read first.
COLUMNS = ("metric", "mean", "std_error", "std", "confidence", *_LAST)
_WIDTH, _POINT, _ERROR = OWN + "width", OWN + "point", OWN + "error"
_UNITS, _SHARES = OWN + "units", OWN + "shares"
_RUNS, _ROWS = OWN + "runs", OWN + "rows"
_RESAMPLED = ("bootstrap", "studentized")


@framed_table
def summarize(
    table: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    by: Names | None = None,
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
    confidence: float = 0.95,
    interval: Interval = "t",
    quantiles: Sequence[float] = (),
    n_resamples: int = 1000,
    seed: int = 0,
) -> pl.LazyFrame:
    r"""Summarize metrics: means with standard errors and confidence intervals.

    $$m = \frac{\sum_q w_q x_q}{\sum_q w_q}, \qquad
    \mathrm{se}^2 = \frac{n}{n - 1} \cdot \frac{\sum_u w_u^2 (x_u - m)^2}{(\sum_u w_u)^2}$$

    The units u are the rankings, or with `cluster` the clusters, with their weights and means.
    For rankings of weight 1, the second formula is s² / n.

    Parameters
    ----------
    table
        Per-query values, as `per_query` returns them: one row per ranking, one column per metric,
        null where a metric is undefined. Or the result of `moments` or `merge`.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. None for all columns of floats.
    by
        Columns that split the table.
    query
        Columns that identify the query. The bootstrap resamples by them. If the table has these
        columns, duplicate rows are an error.
    weight
        Column of query weights, such as traffic: 0 or more.
    cluster
        Columns that identify the sampling unit if it is not the query: users, sessions, days.
        A ranking with a null in one of them is a unit of its own, so that rankings of anonymous
        users count as independent.
    undefined, conventions
        How undefined values count, and metric definitions to use, as in `evaluate`, which has the
        same means.
    confidence
        Confidence level, between 0 and 1.
    interval
        Method for the confidence interval:

        - "t": t distribution (extra "stats");
        - "normal": normal distribution;
        - "bootstrap": percentiles of a Poisson bootstrap (extra "stats");
        - "studentized": bootstrap-t (extra "stats"). Null if too many resamples have no variance,
          as for rare events;
        - "sequence": confidence sequence, for numbers that are monitored while data arrives. It
          holds its level only if the mean is about normal at the first look. For an event in 2%
          of rankings, the true mean was outside at some look in 39% of simulations with a look
          every 50 rankings, in 81% with one every 10. Wait for some tens of events;
        - "none": no interval.
    quantiles
        Quantiles of the values to add, from 0 to 1, as columns such as "q0.5". Not with weights,
        clusters or moments.
    n_resamples
        Number of resamples of the bootstrap.
    seed
        Random seed of the bootstrap.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `table`. One row per group and metric, with the columns of `by`, and

        - `metric`;
        - `mean`: the mean, or the sum or geometric mean if `evaluate` gives that;
        - `std_error`: standard error of the mean; null for fewer than two units;
        - `std`: standard deviation of the values; null for fewer than two;
        - `confidence`: confidence level of the interval; null without intervals;
        - the quantiles;
        - `queries`, `undefined`: number of rankings, and of rankings with an undefined value;
        - `low`, `high`: confidence interval; null for fewer than two units.

        For a geometric mean, `std` and `std_error` are about the logarithms.

    Raises
    ------
    DataError
        Values are NaN or infinite, weights are null or negative, or a row is a duplicate. Raised
        when the result is collected.
    MissingExtraError
        scipy or numpy is not installed and the interval needs it.

    Warns
    -----
    RankWarning
        The result may mislead: an interval other than "t" has fewer than 30 units; an interval
        exceeds [0, 1] although all values can be in it; a studentized interval is null; means are
        over several runs; or most rankings of a group have no retrieved document.

    Notes
    -----
    A 95% interval is for one look at the data. With a look every day, it will miss the true mean
    on some days. "sequence" contains the true mean at all times with that probability,
    asymptotically, and is wider; it is narrowest at 1,000 units.

    The weights of the bootstrap are a hash of query (or cluster), replicate and seed. They do not
    depend on the order of rows, their partition or the engine. The bootstrap reads the table once
    more, in batches, with memory for groups x metrics x resamples.

    References
    ----------
    Chamandy, Muralidharan, Najmi & Naidu, Estimating uncertainty for massive data streams, 2012.
    Waudby-Smith et al., Time-uniform central limit theory and asymptotic confidence sequences,
    2021.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({"query": [1, 2, 3, 4], "rr": [1.0, 0.5, 0.5, None]})
    >>> pr.summarize(values, confidence=0.9).drop("std")
    shape: (1, 8)
    ┌────────┬──────┬───────────┬────────────┬─────────┬───────────┬──────────┬──────────┐
    │ metric ┆ mean ┆ std_error ┆ confidence ┆ queries ┆ undefined ┆ low      ┆ high     │
    │ ---    ┆ ---  ┆ ---       ┆ ---        ┆ ---     ┆ ---       ┆ ---      ┆ ---      │
    │ str    ┆ f64  ┆ f64       ┆ f64        ┆ i64     ┆ i64       ┆ f64      ┆ f64      │
    ╞════════╪══════╪═══════════╪════════════╪═════════╪═══════════╪══════════╪══════════╡
    │ rr     ┆ 0.5  ┆ 0.204124  ┆ 0.9        ┆ 4       ┆ 1         ┆ 0.019622 ┆ 0.980378 │
    └────────┴──────┴───────────┴────────────┴─────────┴───────────┴──────────┴──────────┘
    """
    one_of("interval", interval, get_args(Interval))
    share("confidence", confidence)
    whole_number("n_resamples", n_resamples)
    check_seed(seed)
    points = {f"q{_quantile(each):g}": float(each) for each in quantiles}
    agreed = agreed_on(conventions, undefined)

    schema = schema_of(table)
    if is_moments(schema):
        given = {"weight": weight, "cluster": cluster, "quantiles": quantiles}
        settled(undefined, conventions)
        _refuse(given, interval)
        groups = key_columns(schema, by=by)["by"]
        unknown = set(groups) - set(groups_of(schema))
        if unknown:
            message = f"the moments are not split by {unknown.pop()!r}; add it to `by` of `moments`"
            raise ArgumentError(message)
        moments = regrouped(only_metrics(table, metrics), groups)
        result = _finished(moments, groups, confidence, interval, [])
        return _checked(result, table, groups, [])
    keys = key_columns(schema, by=by, weight=weight, cluster=cluster)
    if points and (weight is not None or keys["cluster"]):
        message = "`quantiles` does not support `weight` or `cluster`"
        raise ArgumentError(message, "quantiles", "weight", "cluster")
    queries = names("query", query)
    if interval in _RESAMPLED and not queries:
        message = (
            f"`query` must name at least one column; `interval` {interval!r} resamples queries"
        )
        raise ArgumentError(message, "query", "interval")
    taken = [*queries, *(name for several in keys.values() for name in several)]
    selected = variables(schema, metrics, agreed, taken, undefined=undefined)
    moments = sums_of(
        table, selected, keys["by"], agreed, weight=weight, cluster=keys["cluster"],
        also=_quantiles(selected, points),
    )  # fmt: skip
    free(keys["by"], [*COLUMNS, *points])
    if interval in _RESAMPLED:
        units = _units(table, selected, keys, weight, key_columns(schema, query=query)["query"])
        bounds = _resampled(units, selected, keys["by"], confidence, interval, n_resamples, seed)
        moments = _with_bounds(moments, bounds(moments), keys["by"])
    result = _finished(moments, keys["by"], confidence, interval, [*points])
    # Rows of a cluster that is a query are its rankings, which may be equal.
    unique_by = [] if {*queries} <= {*keys["cluster"]} else queries
    return _checked(result, table, keys["by"], unique_by)


def _quantile(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        message = f"`quantiles` must be numbers from 0 to 1; found {value!r}"
        raise ArgumentError(message, "quantiles")
    return value


def _refuse(given: Mapping[str, Any], interval: str) -> None:
    for name, value in given.items():
        if value:
            message = (
                f"`{name}` needs per-query values; got moments. Pass the result of `per_query`"
            )
            raise ArgumentError(message, name)
    if interval in _RESAMPLED:
        message = (
            f"`interval` {interval!r} needs per-query values; got moments. Choose 't', 'normal' or "
            "'sequence', or pass the result of `per_query`"
        )
        raise ArgumentError(message, "interval")


def _quantiles(selected: Sequence[Variable], points: Mapping[str, float]) -> dict[str, pl.Expr]:
    return {
        f"{OWN}{index}{SEPARATOR}{name}": each.value.quantile(point, "linear")
        for index, each in enumerate(selected)
        for name, point in points.items()
    }


def _finished(
    table: pl.LazyFrame, by: Sequence[str], confidence: float, interval: str, more: Sequence[str]
) -> pl.LazyFrame:
    """Return the result from moments, which have the bounds if they are from the bootstrap."""
    if interval not in _RESAMPLED:
        table = with_width(table, "units", _WIDTH, interval, (1 + confidence) / 2)
        margin = pl.col(_WIDTH) * sums.std_error("")
        table = table.with_columns(low=pl.col("mean") - margin, high=pl.col("mean") + margin)
    known = (pl.col("counts_as") != "null") | (pl.col("undefined") == 0)
    unit = pl.when(pl.col("aggregate") == "sum").then(pl.col("weight")).otherwise(1.0)
    several = pl.when(pl.col("units") > 1)
    values = {
        "mean": scaled(pl.col("mean")),
        "std": sums.std(""),
        "std_error": sums.std_error("") * unit,
        "low": several.then(scaled(pl.col("low"))),
        "high": several.then(scaled(pl.col("high"))),
    }
    empty = selectors.by_name(EMPTY, require_all=False)
    result = table.with_columns(
        pl.col("units").alias(_UNITS),
        pl.lit(None if interval == "none" else confidence, pl.Float64).alias("confidence"),
        ((pl.col("aggregate") == "mean") & sums.shares()).alias(_SHARES),
        *(pl.when(known).then(value).alias(name) for name, value in values.items()),
    )
    first, last = COLUMNS[: -len(_LAST)], COLUMNS[-len(_LAST) :]
    result = result.select(*by, *first, *more, *last, _UNITS, _SHARES, empty)
    return _warned(result, by, interval)


def scaled(value: pl.Expr, weight: str = "weight") -> pl.Expr:
    """Return a mean, or a bound of it, on the scale of `evaluate`: as a sum or geometric mean."""
    aggregate = pl.col("aggregate")
    return (
        pl.when(aggregate == "sum")
        .then(value * pl.col(weight))
        .when(aggregate == "geometric")
        .then(value.exp())
        .otherwise(value)
    )


def _warned(result: pl.LazyFrame, by: Sequence[str], interval: str) -> pl.LazyFrame:
    def warn(table: pl.DataFrame) -> pl.DataFrame:
        units, mean, low, high = (table.get_column(n) for n in (_UNITS, "mean", "low", "high"))
        some = (units > 1) & mean.is_not_null()
        few = int((some & (units < FEW)).sum())
        if few and interval not in ("t", "none"):
            message = (
                f"the interval ({interval!r}) is too narrow in {number_of(few, 'row')} with fewer "
                f"than {FEW} rankings or clusters; use `interval` 't'"
            )
            warnings.warn(RankWarning(message, "interval"), stacklevel=2)
        alone = int((units == 1).sum())
        if alone and interval not in ("t", "none"):
            message = (
                f"the interval ({interval!r}) is null in {number_of(alone, 'row')}: it needs at "
                "least two rankings or clusters"
            )
            warnings.warn(message, RankWarning, stacklevel=2)
        if interval == "studentized" and (unknown := int((some & low.is_null()).sum())):
            message = (
                f"the interval ({interval!r}) is null in {number_of(unknown, 'row')}: too many "
                "resamples have no variance; use `interval` 't', or more queries"
            )
            warnings.warn(RankWarning(message, "interval"), stacklevel=2)
        several = (units < FEW) | (interval == "studentized")
        warn_of_range(table, several & table.get_column(_SHARES) & ((low < 0) | (high > 1)), 0)
        warn_of_empty(table, by)
        return table

    checked = result.map_batches(warn, streamable=True)
    return checked.drop(_UNITS, _SHARES, EMPTY, strict=False)


def _checked(
    result: pl.LazyFrame, rows: pl.LazyFrame, by: Sequence[str], query: Sequence[str]
) -> pl.LazyFrame:
    """Return the result; collecting it raises for duplicate rows and warns of pooled runs.

    Without the columns of `query`, equal rows may belong to different rankings.
    """
    schema = schema_of(rows)
    if query and all(name in schema for name in query):
        columns = [name for name, dtype in schema.items() if dtype != pl.Object]
        twice = rows.group_by(pl.struct(columns).hash().alias(KEY)).agg(pl.len().alias(_ROWS))

        def refuse(counts: pl.DataFrame) -> None:
            if (counts.get_column(_ROWS).max() or 0) > 1:  # type: ignore[operator]
                problem = (
                    "duplicate rows, with the same values in all columns; drop duplicates, or add "
                    "a column that identifies the rankings"
                )
                raise data_error(rows, {problem: pl.struct(columns).is_duplicated()})

        result = provided(result, twice.select(pl.col(_ROWS).max()), refuse)
    if _RUN not in schema or _RUN in by:
        return result
    count = pl.col(_RUN).n_unique().alias(_RUNS)
    runs = rows.group_by(by).agg(count) if by else rows.select(count)

    def warn(counts: pl.DataFrame) -> None:
        most: Any = counts.get_column(_RUNS).max() or 0
        if most > 1:
            message = f"means are over {most} runs; add {_RUN!r} to `by` for the mean of each run"
            warnings.warn(RankWarning(message, "by"), stacklevel=2)

    return provided(result, runs.select(pl.col(_RUNS).max()), warn)


#: The column of runs, if there is one.
_RUN = "run"


def _units(
    rows: pl.LazyFrame,
    selected: Sequence[Variable],
    keys: Mapping[str, Sequence[str]],
    weight: str | None,
    query: Sequence[str],
) -> pl.LazyFrame:
    """Return the weight, the weighted deviation and the resampling key of each unit."""
    schema = schema_of(rows)
    weights = pl.lit(1.0) if weight is None else pl.col(weight).cast(pl.Float64)
    cluster, key = keys["cluster"], query_key(query, [schema[name] for name in query])
    if cluster:
        alone = sums.alone(cluster)
        of_cluster = query_key(cluster, [schema[name] for name in cluster])
        key = pl.when(alone.is_null()).then(of_cluster).otherwise(key)
    values = {_unit(index): each.value for index, each in enumerate(selected)}
    columns = [f"{name} {part}" for name in values for part in "wy"]
    units = sums.deviations(rows, keys["by"], values, weights)
    if not cluster:
        return units.select(*keys["by"], key.alias(KEY), *columns)
    units = units.select(*keys["by"], key.alias(KEY), alone, *columns)
    alike = [*keys["by"], KEY, alone.meta.output_name()]
    return units.group_by(alike).agg(pl.col(columns).sum())


def _unit(index: int) -> str:
    return f"{OWN}{index}"


def _resampled(
    units: pl.LazyFrame,
    selected: Sequence[Variable],
    by: Sequence[str],
    confidence: float,
    interval: str,
    n_resamples: int,
    seed: int,
) -> Any:
    """Return a function that computes bounds by group and metric from the moments."""
    squares = interval == "studentized"
    columns = []
    for index in range(len(selected)):
        w, y = (pl.col(f"{_unit(index)} {part}") for part in "wy")
        columns += [f"{_unit(index)} {part}" for part in "wy"]
        if squares:
            products = {"ww": w * w, "wy": w * y, "yy": y * y}
            units = units.with_columns(
                value.alias(f"{_unit(index)} {name}") for name, value in products.items()
            )
            columns += [f"{_unit(index)} {name}" for name in products]
    drawn = bootstrap_sums(units.select(*by, KEY, *columns), by, columns, n_resamples, seed)
    parts = ("w", "y", *(("ww", "wy", "yy") if squares else ()))
    rows = [
        {"metric": pl.lit(each.name), **{part: pl.col(f"{_unit(i)} {part}") for part in parts}}
        for i, each in enumerate(selected)
    ]
    long = to_rows(drawn, by, rows)
    # Difference between the mean of a resample and the mean.
    off = ratio(pl.col("y"), pl.col("w"))
    point, tail = pl.col(_POINT).first(), (1 - confidence) / 2
    low, high = (point + off.quantile(share, "linear") for share in (tail, 1 - tail))
    if squares:
        low, high = _studentized(off, tail)

    def bounds(table: pl.LazyFrame) -> pl.LazyFrame:
        known = table.select(
            *by, "metric", pl.col("mean").alias(_POINT), sums.std_error("").alias(_ERROR),
            (pl.col("units") / (pl.col("units") - 1)).sqrt().alias(_WIDTH),
        )  # fmt: skip
        keys = [*by, "metric"]
        joined = long.join(known, on=keys, how="left", nulls_equal=True)
        return joined.group_by(keys).agg(low.alias("low"), high.alias("high"))

    return bounds


def _studentized(off: pl.Expr, tail: float) -> tuple[pl.Expr, pl.Expr]:
    """Return the bounds from the studentized means of the resamples.

    A resample without variance counts as infinite in both tails. If such resamples exceed a tail,
    the bound would be infinite, and there is none.
    """
    spread = pl.col("yy") - 2 * off * pl.col("wy") + off * off * pl.col("ww")
    spreads = (spread > RESIDUE * pl.col("yy")) & (pl.col(_ERROR) > 0)
    pivot = pl.when(spreads).then(off * pl.col("w") / (spread.sqrt() * pl.col(_WIDTH)))
    low, high = (
        pl.col(_POINT).first()
        - pivot.fill_null(extreme).quantile(share, "linear") * pl.col(_ERROR).first()
        for share, extreme in ((1 - tail, math.inf), (tail, -math.inf))
    )
    return pl.when(low.is_finite()).then(low), pl.when(high.is_finite()).then(high)


def _with_bounds(table: pl.LazyFrame, bounds: pl.LazyFrame, by: Sequence[str]) -> pl.LazyFrame:
    return table.join(
        bounds, on=[*by, "metric"], how="left", nulls_equal=True, maintain_order="left"
    )
