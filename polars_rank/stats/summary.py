"""`summarize`: means of per-query values, and how far to trust them."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any, get_args

import polars as pl

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
    without,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.tables import Variable

COLUMNS = ("metric", "queries", "undefined", "mean", "std", "std_error", "low", "high")
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
    r"""Mean of each metric over the lists, with its standard error and confidence interval.

    $$m = \frac{\sum_q w_q x_q}{\sum_q w_q}, \qquad
    \mathrm{se}^2 = \frac{n}{n - 1} \cdot \frac{\sum_u w_u^2 (x_u - m)^2}{(\sum_u w_u)^2}$$

    where the units u are the lists, or with `cluster` the clusters, with their weight and mean;
    s² / n for lists of weight 1.

    Parameters
    ----------
    table
        What `per_query` returns: a row per list, a column per metric, null where undefined. Or
        the result of `moments` or `merge`.
    metrics
        The columns to take, or metrics (`pr.ndcg(10)`); None for all columns of floats.
    by
        Columns that split the table. Moments are added up over the other columns they have.
    query
        The columns of the query's id, which the bootstrap draws by. Where the table has them, a
        row that is there twice is an error.
    weight
        A column with the weight of each list, such as its traffic: 0 or more.
    cluster
        Columns that identify the sampling unit if it is not the list: users, sessions, days. A
        list with a null in one of them is a unit of its own, so that lists of anonymous users
        count as independent.
    undefined, conventions
        As in `evaluate`, with the same default: the means are those of `evaluate`.
    confidence
        How likely the interval has the true mean in it, between 0 and 1.
    interval
        "t" (extra "stats"); "normal"; "bootstrap" (percentiles of a Poisson bootstrap) and
        "studentized" (bootstrap-t) with numpy (extra "stats"); "sequence", for numbers that are
        looked at again and again; or "none". "studentized" is null where the values of too many
        resamples are all the same, as for rare events. "sequence" holds its level only where the
        mean is about normal at the first look. On rare events it is not: the mean of an event in
        2% was outside at some look in 0.39 of simulations with a look every 50 lists, in 0.81 with
        one every 10. Begin to look when there are some tens of events.
    quantiles
        Quantiles of the values to add, from 0 to 1, as columns "q0.5"; not with weights, clusters
        or moments.
    n_resamples, seed
        Of the bootstrap.

    Returns
    -------
    LazyFrame or DataFrame
        Like `table`: a row per group and metric, with the `by` columns and

        - `metric`, `queries`, `undefined`: how many lists, and of them undefined;
        - `mean`: the mean, or the sum or geometric mean where `evaluate` gives that;
        - `std`: standard deviation of the values; null for fewer than two;
        - `std_error`: of the mean; null for fewer than two units;
        - `low`, `high`: the interval; null for fewer than two units;
        - the quantiles.

        For a geometric mean, `std` and `std_error` are those of the logarithms.

    Raises
    ------
    SchemaError
        For a missing or not numeric column, or a log in place of per-query values.
    DataError
        For NaN or infinite values, weights that are null or negative, or a row that is there
        twice, with the same values in all columns; lazily, when the result is collected.
    ArgumentError
        For a parameter out of its range, or one that moments cannot give.
    MissingExtraError
        Without scipy (or numpy), where the interval needs it.

    Warns
    -----
    RankWarning
        For an interval other than "t" of fewer than 30 units, or of one, which is null; for an
        interval of so few, or "studentized", that leaves [0, 1] where all values can be in it
        (their mean square is at most their mean); for a "studentized" one that is null; for means
        over several runs, where `by` does not name the column "run"; and for groups most of whose
        lists have no retrieved document, as `num_retrieved` of `per_query` says. When the result
        is collected.

    Notes
    -----
    An interval of 95 % says nothing about the next look at growing data: checked daily, it will
    be wrong on some day. "sequence" has the true mean in it at all times at once with that
    probability, asymptotically, and is wider for it; narrowest at 1,000 units.

    The weights of the bootstrap are a hash of query (or cluster), replicate and seed: the order
    of rows, their partition and the engine change nothing. Lists are read once more for it, in
    batches, with memory of groups x metrics x resamples.

    References
    ----------
    Chamandy, Muralidharan, Najmi & Naidu, Estimating uncertainty for massive data streams, 2012.
    Waudby-Smith et al., Time-uniform central limit theory and asymptotic confidence sequences,
    2021.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> lists = pl.DataFrame({"query": [1, 2, 3, 4], "rr": [1.0, 0.5, 0.5, None]})
    >>> pr.summarize(lists, confidence=0.9).drop("metric")
    shape: (1, 7)
    ┌─────────┬───────────┬──────┬──────────┬───────────┬──────────┬──────────┐
    │ queries ┆ undefined ┆ mean ┆ std      ┆ std_error ┆ low      ┆ high     │
    │ ---     ┆ ---       ┆ ---  ┆ ---      ┆ ---       ┆ ---      ┆ ---      │
    │ i64     ┆ i64       ┆ f64  ┆ f64      ┆ f64       ┆ f64      ┆ f64      │
    ╞═════════╪═══════════╪══════╪══════════╪═══════════╪══════════╪══════════╡
    │ 4       ┆ 1         ┆ 0.5  ┆ 0.408248 ┆ 0.204124  ┆ 0.019622 ┆ 0.980378 │
    └─────────┴───────────┴──────┴──────────┴───────────┴──────────┴──────────┘
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
        found = key_columns(schema, by=by)["by"]
        unknown = set(found) - set(groups_of(schema))
        if unknown:
            message = (
                f"the moments are not split by {unknown.pop()!r}; split them when they are computed"
            )
            raise ArgumentError(message)
        moments = regrouped(only_metrics(table, metrics), found)
        result = _finished(moments, found, confidence, interval, [])
        return _checked(result, table, found, [])
    keys = key_columns(schema, by=by, weight=weight, cluster=cluster)
    if points and (weight is not None or keys["cluster"]):
        message = "`quantiles` are of lists that count alike; leave out `weight` and `cluster`"
        raise ArgumentError(message, "quantiles", "weight", "cluster")
    queries = names("query", query)
    taken = [*queries, *(name for several in keys.values() for name in several)]
    asked = variables(schema, metrics, agreed, taken, undefined=undefined)
    moments = sums_of(
        table, asked, keys["by"], agreed, weight=weight, cluster=keys["cluster"],
        also=_quantiles(asked, points),
    )  # fmt: skip
    free(keys["by"], [*COLUMNS, *points])
    if interval in _RESAMPLED:
        units = _units(table, asked, keys, weight, key_columns(schema, query=query)["query"])
        bounds = _resampled(units, asked, keys["by"], confidence, interval, n_resamples, seed)
        moments = _with_bounds(moments, bounds(moments), keys["by"])
    result = _finished(moments, keys["by"], confidence, interval, [*points])
    # Rows of a cluster that is a query are its lists, which may well be the same.
    told = [] if {*queries} <= {*keys["cluster"]} else queries
    return _checked(result, table, keys["by"], told)


def _quantile(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        message = f"`quantiles` must be numbers from 0 to 1; found {value!r}"
        raise ArgumentError(message, "quantiles")
    return value


def _refuse(given: Mapping[str, Any], interval: str) -> None:
    for name, value in given.items():
        if value:
            message = f"moments have no lists left for `{name}`; give summarize the lists"
            raise ArgumentError(message, name)
    if interval in _RESAMPLED:
        message = (
            f"`interval` {interval!r} draws lists, of which moments have none left; choose 't', "
            "'normal' or 'sequence', or give summarize the lists"
        )
        raise ArgumentError(message, "interval")


def _quantiles(asked: Sequence[Variable], points: Mapping[str, float]) -> dict[str, pl.Expr]:
    return {
        f"{OWN}{index}{SEPARATOR}{name}": each.value.quantile(point, "linear")
        for index, each in enumerate(asked)
        for name, point in points.items()
    }


def _finished(
    table: pl.LazyFrame, by: Sequence[str], confidence: float, interval: str, more: Sequence[str]
) -> pl.LazyFrame:
    """Return the result from moments, and bounds where the bootstrap has found them."""
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
    empty = [name for name in (EMPTY,) if name in schema_of(table)]
    result = table.select(
        *by, "metric", "queries", "undefined", pl.col("units").alias(_UNITS), *empty,
        ((pl.col("aggregate") == "mean") & sums.shares()).alias(_SHARES),
        *(pl.when(known).then(value).alias(name) for name, value in values.items()), *more,
    )  # fmt: skip
    return _warned(result, by, interval)


def scaled(value: pl.Expr, weight: str = "weight") -> pl.Expr:
    """Return a mean, or a bound of it, as what `evaluate` makes of the metric."""
    aggregate = pl.col("aggregate")
    return (
        pl.when(aggregate == "sum")
        .then(value * pl.col(weight))
        .when(aggregate == "geometric")
        .then(value.exp())
        .otherwise(value)
    )


def _warned(result: pl.LazyFrame, by: Sequence[str], interval: str) -> pl.LazyFrame:
    schema = result.collect_schema()
    own = (_UNITS, _SHARES, EMPTY)

    def warn(table: pl.DataFrame) -> pl.DataFrame:
        units, mean, low, high = (table.get_column(n) for n in (_UNITS, "mean", "low", "high"))
        some = (units > 1) & mean.is_not_null()
        few = int((some & (units < FEW)).sum())
        if few and interval not in ("t", "none"):
            message = (
                f"{few} intervals ({interval!r}) stand on fewer than {FEW} lists or clusters and "
                "are too narrow; use `interval` 't'"
            )
            warnings.warn(RankWarning(message, "interval"), stacklevel=2)
        alone = int((units == 1).sum())
        if alone and interval not in ("t", "none"):
            message = (
                f"the interval ({interval!r}) is null in {number_of(alone, 'row')}: it needs two "
                "rankings or clusters at least"
            )
            warnings.warn(message, RankWarning, stacklevel=2)
        if interval == "studentized" and (unknown := int((some & low.is_null()).sum())):
            message = (
                f"{unknown} intervals ({interval!r}) are null: all values are the same in too many "
                "of the resamples; use `interval` 't', or more queries"
            )
            warnings.warn(RankWarning(message, "interval"), stacklevel=2)
        several = (units < FEW) | (interval == "studentized")
        warn_of_range(table, several & table.get_column(_SHARES) & ((low < 0) | (high > 1)), 0)
        warn_of_empty(table, by)
        return without(table, *own)

    kept = {name: dtype for name, dtype in schema.items() if name not in own}
    return result.map_batches(warn, schema=kept, streamable=True)


def _checked(
    result: pl.LazyFrame, rows: pl.LazyFrame, by: Sequence[str], query: Sequence[str]
) -> pl.LazyFrame:
    """Return the result, with an error for rows that are there twice, a warning for pooled runs.

    Without the columns of `query`, rows that are the same may be of different lists.
    """
    schema = schema_of(rows)
    if query and all(name in schema for name in query):
        columns = [name for name, dtype in schema.items() if dtype != pl.Object]
        twice = rows.group_by(pl.struct(columns).hash().alias(KEY)).agg(pl.len().alias(_ROWS))

        def refuse(found: pl.DataFrame) -> None:
            if (found.get_column(_ROWS).max() or 0) > 1:  # type: ignore[operator]
                problem = (
                    "a row stands more than once, with the same values in all columns; drop "
                    "repeats, or add a column that tells its lists apart"
                )
                raise data_error(rows, {problem: pl.struct(columns).is_duplicated()})

        result = provided(result, twice.select(pl.col(_ROWS).max()), refuse)
    if _RUN not in schema or _RUN in by:
        return result
    count = pl.col(_RUN).n_unique().alias(_RUNS)
    runs = rows.group_by(by).agg(count) if by else rows.select(count)

    def warn(found: pl.DataFrame) -> None:
        most: Any = found.get_column(_RUNS).max() or 0
        if most > 1:
            message = f"each mean pools {most} runs; add {_RUN!r} to `by` for the mean of each run"
            warnings.warn(RankWarning(message, "by"), stacklevel=2)

    return provided(result, runs.select(pl.col(_RUNS).max()), warn)


#: The column that tells runs apart, where there is one.
_RUN = "run"


def _units(
    rows: pl.LazyFrame,
    asked: Sequence[Variable],
    keys: Mapping[str, Sequence[str]],
    weight: str | None,
    query: Sequence[str],
) -> pl.LazyFrame:
    """Return the weight of each unit, its weighed deviation, and the key that it is drawn by."""
    schema = schema_of(rows)
    weights = pl.lit(1.0) if weight is None else pl.col(weight).cast(pl.Float64)
    cluster, key = keys["cluster"], query_key(query, [schema[name] for name in query])
    if cluster:
        alone = sums.alone(cluster)
        of_cluster = query_key(cluster, [schema[name] for name in cluster])
        key = pl.when(alone.is_null()).then(of_cluster).otherwise(key)
    values = {_unit(index): each.value for index, each in enumerate(asked)}
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
    asked: Sequence[Variable],
    by: Sequence[str],
    confidence: float,
    interval: str,
    n_resamples: int,
    seed: int,
) -> Any:
    """Return what makes the bounds of each group and metric, given the moments."""
    squares = interval == "studentized"
    columns = []
    for index in range(len(asked)):
        w, y = (pl.col(f"{_unit(index)} {part}") for part in "wy")
        columns += [f"{_unit(index)} {part}" for part in "wy"]
        if squares:
            made = {"ww": w * w, "wy": w * y, "yy": y * y}
            units = units.with_columns(
                value.alias(f"{_unit(index)} {name}") for name, value in made.items()
            )
            columns += [f"{_unit(index)} {name}" for name in made]
    drawn = bootstrap_sums(units.select(*by, KEY, *columns), by, columns, n_resamples, seed)
    parts = ("w", "y", *(("ww", "wy", "yy") if squares else ()))
    rows = [
        {"metric": pl.lit(each.name), **{part: pl.col(f"{_unit(i)} {part}") for part in parts}}
        for i, each in enumerate(asked)
    ]
    long = to_rows(drawn, by, rows)
    # The resampled mean, less the mean.
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
    """Return the bounds from the means of resamples, less the mean, over their standard errors.

    A resample without spread, in which all values are the same, counts as infinite on both
    sides. Where their share exceeds a tail, a bound would be, and there is none.
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
