"""`summarize`: means of per-query values with confidence intervals."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, get_args

import polars as pl
from polars import selectors

from polars_rank._params import (
    OWN,
    Names,
    free,
    integer,
    names,
    one_of,
    share,
    whole_number,
)
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError, number_of, warn
from polars_rank.evaluation.checks import with_check, with_run_warning
from polars_rank.evaluation.means import ratio, to_rows
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats import moment_math
from polars_rank.stats.intervals import (
    FEW,
    Interval,
    is_uneven,
    warn_of_effective,
    warn_of_equal,
    warn_of_range,
    warn_of_uneven,
    with_width,
)
from polars_rank.stats.moment_tables import (
    SEPARATOR,
    UNITS,
    check_groups,
    is_moments,
    regrouped,
    scaled,
    sums_of,
)
from polars_rank.stats.per_query_tables import (
    EMPTY,
    data_error,
    in_order,
    key_columns,
    known_query,
    only_metrics,
    query_columns,
    refuse_definitions,
    refuse_with_moments,
    run_column,
    variables,
    warn_of_empty,
    with_definitions,
)
from polars_rank.stats.prediction_estimates import (
    ESTIMATE_COLUMNS,
    HUMAN_UNITS,
    PROPORTION_UNITS,
    differs,
    warn_of_sampling,
    with_estimate,
)
from polars_rank.stats.predictions import (
    PREDICTED,
    SAMPLED_BY,
    check_predictions,
    predicted_values,
    with_predictions,
)
from polars_rank.stats.proportions import wilson
from polars_rank.stats.query_hash import query_key
from polars_rank.stats.resampling import KEY, RESIDUE, bootstrap_sums
from polars_rank.stats.run_pairs import without_duplicates
from polars_rank.stats.sequences import (
    SEQUENCE_SUMS,
    ConfidenceSequence,
    check_bounded,
    sequence_of,
    sums_in_order,
    warn_of_early,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.per_query_tables import Variable

_LAST = ("effective", "queries", "undefined", "low", "high")
#: Polars prints the first four and the last four columns of a wide table: what users read first.
COLUMNS = (
    *("metric", "mean", "std_error", "std", "skewness", "interval", "confidence", "used"),
    *ESTIMATE_COLUMNS,
    *_LAST,
)
_WIDTH, _POINT, _ERROR = OWN + "width", OWN + "point", OWN + "error"
_UNITS, _SHARES, _EQUAL = OWN + "units", OWN + "shares", OWN + "equal"
_CHOSEN, _UNEVEN = OWN + "chosen", OWN + "uneven"
_ROWS = OWN + "rows"
_RESAMPLED = ("bootstrap", "studentized")


@framed_table
def summarize(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    run: str | None = "run",
    by: Names | None = None,
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
    confidence: float = 0.95,
    interval: Interval = "auto",
    bounds: Sequence[float] | None = None,
    order: str | None = None,
    quantiles: Sequence[float] = (),
    predictions: Any = None,
    probability: str | None = None,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> pl.LazyFrame:
    r"""Summarize metrics: means with standard errors and confidence intervals.

    $$m = \frac{\sum_q w_q x_q}{\sum_q w_q}, \qquad
    \mathrm{se}^2 = \frac{n}{n - 1} \cdot \frac{\sum_u w_u^2 (x_u - m)^2}{(\sum_u w_u)^2},
    \qquad n = \frac{(\sum_u w_u)^2}{\sum_u w_u^2}$$

    The units u are the rankings, or with `cluster` the clusters, with their weights and means.
    For rankings of weight 1, n is their number, and the second formula is s² / n. With unequal
    weights, n is Kish's effective number of units, and the t distribution has n - 1 degrees of
    freedom.

    Parameters
    ----------
    values
        Per-query values, as `per_query` returns them: one row per ranking, one column per metric,
        null where a metric is undefined. Or the result of `moments` or `merge`.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. None for all columns of floats.
    run
        Column of runs, each of which is summarized. A table without the column "run" has one run.
        None for the means over all rows.
    by
        Columns that split the table into groups.
    query
        Columns that identify the query. If the table has them, duplicate rows are an error. The
        bootstrap resamples by them. If there is no column "query", it uses the one column that
        identifies the rows of each run, besides runs, groups, metrics, counts and constant
        columns; if there is none or several, name the columns. To find it among several columns,
        the table is read once more.
    weight
        Column of query weights, such as traffic: 0 or more.
    cluster
        Columns that identify the sampling unit if it is not the query: users, sessions, days.
        A ranking with a null in one of them forms its own cluster, so that rankings of anonymous
        users count as independent.
    undefined, conventions
        How undefined values count, and metric definitions to use. `evaluate` returns the same
        means for the same settings. None: those that the column `conventions` of the table names,
        as `per_query` returns it; else the default.
    confidence
        Confidence level, between 0 and 1.
    interval
        Method for the confidence interval:

        - "auto": for metrics whose values are all 0 or 1 in the table, such as the hit rate,
          Wilson's interval of a proportion; otherwise "t". With weights or clusters, n is the
          effective number of units, as if all queries of a cluster had the same value: if they do
          not, "t" is narrower;
        - "t": t distribution (extra "stats");
        - "normal": normal distribution;
        - "bootstrap": percentiles of a Poisson bootstrap (extra "stats");
        - "studentized": bootstrap-t (extra "stats"). Null if too many resamples have no or little
          variance, as for rare events;
        - "sequence": confidence sequence, for numbers that are monitored while data arrives. It
          holds its level only if the mean is about normal at the first look; a `RankWarning` says
          if it is not, as for an event in 2% of rankings with fewer than 1,200 of them. With
          `bounds`, it holds for any number of rankings;
        - "none": no interval.
    bounds
        Lowest and highest possible value of all metrics, as (0, 1). With `interval` "sequence", the
        method is then the empirical Bernstein sequence. Needs per-query values of metrics that are
        means, without weights and clusters.
    order
        Column by which rankings arrived, such as their time or day. Needed with `bounds`, because
        the interval depends on the order. It must not depend on the values, and earlier rankings
        must keep their place when new ones arrive. Rankings with the same `order` are in the order
        of a hash of the query.
    quantiles
        Quantiles of the values to add, from 0 to 1, as columns such as "q0.5". Not with weights,
        clusters or moments.
    predictions
        Per-query values of the same metrics and rankings from predicted labels, for all queries,
        where `values` has those from human labels, for a random sample of the queries. The result
        then estimates the means over all queries, with the columns `predicted`,
        `judge_weight` and `effective_queries`. People must have judged all documents that the
        metric reads. Only for the intervals "auto", "t" and "normal". The t distribution has n - 2
        degrees of freedom for n human queries. Wilson's interval has its quantile, too; its number
        of units is `effective_queries`, computed with half a query more on which the judge is too
        low, and half a query on which it is too high: few queries without errors do not show that
        the judge makes none.
    probability
        Column of `values` with the probability with which a query was chosen for people to judge.
        With it, "auto" is "t" for all metrics. None: all queries were equally likely.
    n_resamples
        Number of resamples of the bootstrap.
    seed
        Random seed of the bootstrap.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group, metric and run, in this order. The columns are
        those of `by`, and

        - `metric`, and the column of the run;
        - `mean`: the mean, or the sum or geometric mean if `evaluate` gives that;
        - `std_error`: standard error of the mean; null for fewer than two units;
        - `std`: standard deviation of the values; null for fewer than two;
        - `skewness`: skewness of the values (or of what clusters contribute to the mean), which
          makes t unreliable for few queries; null if all values are equal;
        - `interval`, `confidence`: method of the interval, "wilson", "empirical_bernstein" or as in
          the parameter, and its confidence level; null without intervals;
        - `used`: number of values that count;
        - `effective`: with weights or clusters, the effective number of units n;
        - `predicted`, `judge_weight`, `effective_queries`: with `predictions`, the number of other
          queries, the weight λ of their values, and the number of human queries alone that would
          give the same standard error;
        - the quantiles;
        - `queries`, `undefined`: number of rankings, and of rankings with an undefined value;
        - `low`, `high`: confidence interval; null for one effective unit, with `predictions` also
          for two if `judge_weight` is above 0, or if all values are equal and the interval is
          neither Wilson's nor has `bounds`.

        For a geometric mean, `std` and `std_error` are about the logarithms.

    Raises
    ------
    DataError
        Values are NaN, infinite, above 1e150 or outside `bounds`, weights are null or negative, or
        a row is a duplicate. Raised when the result is collected.
    MissingExtraError
        scipy or numpy is not installed and the interval needs it.

    Warns
    -----
    RankWarning
        The result may mislead: an interval other than "t" and Wilson's has fewer than 30 units; a
        sequence without `bounds` has fewer than 25 · G² units for a skewness of G; weights or
        clusters leave fewer than 30 effective units; values of 0 or 1 depend on the weights, so
        that Wilson's interval is too narrow; all values are equal; an interval exceeds [0, 1]
        although all values can be in it; a studentized interval is null; moments of groups with
        the same queries are pooled; or most rankings of a group have no retrieved document.

    Notes
    -----
    The interval is about all queries like these, of which those in the table are a sample. If the
    same queries occur several times, for example on several days, they are not new queries: average
    each query's values first, or use ``query=["query", "day"]`` and ``cluster="query"``. The
    interval is then about all queries like these, on these days. In per-query values, repeated
    queries are not detected; in moments, they are if the moments are split by day.

    A 95% interval is for one look at the data. With a look every day, it will miss the true mean
    on some days. "sequence" contains the true mean at all times with that probability,
    asymptotically, and is wider; it is narrowest at 1,000 units.

    The weights of the bootstrap are a hash of query (or cluster), replicate and seed. They do not
    depend on the order of rows, their partition or the engine. The bootstrap reads the table once
    more, in batches, with memory for groups x metrics x resamples.

    References
    ----------
    Wilson, Probable inference, the law of succession, and statistical inference, 1927.
    Kish, Survey sampling, 1965.
    Angelopoulos, Duchi & Zrnic, PPI++: Efficient prediction-powered inference, 2023.
    Chamandy, Muralidharan, Najmi & Naidu, Estimating uncertainty for massive data streams, 2012.
    Waudby-Smith et al., Time-uniform central limit theory and asymptotic confidence sequences,
    2021.
    Waudby-Smith & Ramdas, Estimating means of bounded random variables by betting, 2024.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({"query": [1, 2, 3, 4], "rr": [1.0, 0.5, 0.5, None]})
    >>> summary = pr.summarize(values, confidence=0.9)
    >>> summary.drop("std", "skewness", "interval", "used")
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
    integer("seed", seed)
    points = {f"q{_quantile(each):g}": float(each) for each in quantiles}
    schema = schema_of(values)
    sequence = sequence_of(
        schema, interval, bounds, order, confidence, weight=weight, cluster=cluster
    )
    values, definitions = with_definitions(values, conventions, undefined)
    runs = run_column(schema, run)
    is_predicted = predictions is not None or PREDICTED in schema
    if is_predicted:
        _check_predicted(points, interval)
    if is_moments(schema):
        given = {
            "weight": weight, "cluster": cluster, "quantiles": quantiles,
            "predictions": predictions is not None, "probability": probability,
        }  # fmt: skip
        refuse_definitions(undefined, conventions)
        refuse_with_moments(given)
        if interval in _RESAMPLED:
            raise ArgumentError(
                f"`interval` {interval!r} needs per-query values; got moments. Choose 't', "
                "'normal' or 'sequence', or pass the result of `per_query`"
            )
        keys = key_columns(schema, by=by, run=runs)
        groups = [*keys["by"], *keys["run"]]
        check_groups(schema, groups)
        moments = regrouped(only_metrics(values, metrics), groups)
        weighted = not {*UNITS}.isdisjoint(schema)
        return _result(
            moments, keys["by"], keys["run"], confidence, interval, sequence=sequence,
            weighted=weighted,
        )  # fmt: skip
    keys = key_columns(schema, by=by, run=runs, weight=weight, cluster=cluster)
    if points and (weight is not None or keys["cluster"]):
        raise ArgumentError("`quantiles` does not support `weight` or `cluster`")
    check_predictions(predictions, probability)
    resampled = interval in _RESAMPLED
    if resampled and not names("query", query):
        raise ArgumentError(
            f"`query` must name at least one column; `interval` {interval!r} resamples queries"
        )
    known = known_query(schema, query)
    reads_queries = resampled or predictions is not None or order is not None
    queries = known or (query_columns(values, query, metrics, keys) if reads_queries else ())
    others = {
        **keys, "query": queries, "order": names("order", order),
        "probability": names("probability", probability),
    }  # fmt: skip
    selected = variables(schema, metrics, definitions, others, undefined=undefined)
    groups = [*keys["by"], *keys["run"]]
    free(groups, [*COLUMNS, *points])
    moments = sums_of(
        values, selected, groups, definitions, weight=weight, cluster=keys["cluster"],
        also={**_quantiles(selected, points), **_ordered(selected, sequence, queries, schema)},
    )  # fmt: skip
    moments = check_bounded(moments, values, selected, sequence)
    if resampled:
        units = _units(values, selected, groups, weight, keys["cluster"], queries)
        limits = _bootstrap_bounds(units, selected, groups, confidence, interval, n_resamples, seed)
        moments = _with_bounds(moments, limits(moments), groups)
    if predictions is not None:
        moments = with_predictions(
            moments, values, predicted_values(predictions, definitions, conventions, undefined),
            selected, {**keys, "query": queries}, weight=weight, probability=probability,
        )  # fmt: skip
    weighted = weight is not None or bool(keys["cluster"])
    result = _result(
        moments, keys["by"], keys["run"], confidence, interval, [*points], sequence,
        weighted=weighted,
    )  # fmt: skip
    result = with_run_warning(result, values, run, {**keys, "query": queries})
    if queries and not known:
        return without_duplicates(result, values, [*groups, *queries], queries)
    # If queries are clusters, equal rows are rankings of the same query.
    return result if {*queries} <= {*keys["cluster"]} else _without_equal_rows(result, values)


def _check_predicted(points: Mapping[str, float], interval: str) -> None:
    """Raise `ArgumentError` for quantiles and intervals that predictions do not support."""
    if points:
        raise ArgumentError("`predictions` does not support `quantiles`; omit one of them")
    if interval not in ("auto", "t", "normal", "none"):
        raise ArgumentError(
            "`predictions` does not support other intervals than 'auto', 't', 'normal' and 'none'; "
            f"found {interval!r}"
        )


def _quantile(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= 1:
        raise ArgumentError(f"`quantiles` must be numbers from 0 to 1; found {value!r}")
    return value


def _quantiles(selected: Sequence[Variable], points: Mapping[str, float]) -> dict[str, pl.Expr]:
    return {
        f"{OWN}{index}{SEPARATOR}{name}": each.value.quantile(point, "linear")
        for index, each in enumerate(selected)
        for name, point in points.items()
    }


def _ordered(
    selected: Sequence[Variable],
    sequence: ConfidenceSequence | None,
    query: Sequence[str],
    schema: pl.Schema,
) -> dict[str, pl.Expr]:
    """Return the sums of a sequence with bounds of each metric."""
    sums = sums_in_order(sequence, query, [schema[name] for name in query])
    if sums is None:
        return {}
    return {
        f"{OWN}{index}{SEPARATOR}{SEQUENCE_SUMS}": sums(each.value)
        for index, each in enumerate(selected)
    }


def _result(
    table: pl.LazyFrame,
    by: Sequence[str],
    run: Sequence[str],
    confidence: float,
    interval: str,
    points: Sequence[str] = (),
    sequence: ConfidenceSequence | None = None,
    *,
    weighted: bool,
) -> pl.LazyFrame:
    """Return the result from moments, which have the bounds already if they are bootstrapped."""
    tail = (1 + confidence) / 2
    schema = schema_of(table)
    is_predicted, by_probability = PREDICTED in schema, SAMPLED_BY in schema
    if is_predicted:
        table = with_estimate(table, PREDICTED, "", _ERROR, _UNITS, by_probability=by_probability)
    else:
        units = dict.fromkeys((_UNITS, HUMAN_UNITS, PROPORTION_UNITS), moment_math.effective(""))
        table = table.with_columns(moment_math.std_error("").alias(_ERROR), **units)
    mean, error = pl.col("mean"), pl.col(_ERROR)
    width_of = None if sequence is None else sequence.width
    table = with_width(table, _UNITS, _WIDTH, interval, tail, width_of)
    low, high = pl.col("low"), pl.col("high")
    if interval not in _RESAMPLED:
        low, high = mean - pl.col(_WIDTH) * error, mean + pl.col(_WIDTH) * error
    is_share = (pl.col("aggregate") == "mean") & moment_math.shares()
    varied = pl.when(error > 0)
    if interval == "studentized":
        varied = pl.when((error > 0) & ~(is_share & (high - low > 1)))
    bounds: dict[str, pl.Expr] = {"low": varied.then(low), "high": varied.then(high)}
    method = pl.lit(None if interval == "none" else interval, pl.String)
    if sequence is not None and sequence.bounds is not None:
        bounds, interval = sequence.limits_of(SEQUENCE_SUMS), sequence.method
        method = pl.lit(interval)
    if interval == "auto":
        width = pl.lit(NormalDist().inv_cdf(tail))
        if is_predicted:
            width = pl.when(pl.col("judge_weight") > 0).then(_WIDTH).otherwise(width)
        share_bounds = wilson(mean.clip(0.0, 1.0), pl.col(PROPORTION_UNITS), width)
        several = pl.col("binary") & error.is_not_null()
        bounds = {
            name: pl.when(pl.col("binary")).then(pl.when(several).then(share)).otherwise(other)
            for (name, other), share in zip(bounds.items(), share_bounds, strict=True)
        }
        method = pl.when(pl.col("binary")).then(pl.lit("wilson")).otherwise(pl.lit("t"))
    human_mean = pl.col(PREDICTED).struct.field("human_mean") if is_predicted else mean
    of_share = human_mean * (1 - human_mean)
    uneven = is_uneven(error, of_share, pl.col(PROPORTION_UNITS)) & pl.col("binary")
    known = (pl.col("counts_as") != "null") | (pl.col("undefined") == 0)
    unit = pl.when(pl.col("aggregate") == "sum").then(pl.col("weight")).otherwise(1.0)
    values = {
        "mean": scaled(mean),
        "std": moment_math.std(""),
        "std_error": error * unit,
        "skewness": moment_math.skewness(""),
        **{name: scaled(bound) for name, bound in bounds.items()},
    }
    empty = selectors.by_name(EMPTY, require_all=False)
    result = table.with_columns(
        method.alias("interval"),
        pl.lit(None if interval == "none" else confidence, pl.Float64).alias("confidence"),
        pl.col("counted").alias("used"),
        pl.col(HUMAN_UNITS).alias("effective"),
        pl.col(HUMAN_UNITS).alias(_UNITS),
        is_share.alias(_SHARES),
        (error == 0).alias(_EQUAL),
        (uneven & (method == "wilson")).alias(_UNEVEN),
        (
            differs(PREDICTED, by_probability=by_probability)
            if is_predicted
            else pl.lit(value=False)
        ).alias(_CHOSEN),
        *(pl.when(known).then(value).alias(name) for name, value in values.items()),
    )
    absent = {*(() if weighted else ["effective"]), *(() if is_predicted else ESTIMATE_COLUMNS)}
    last = [name for name in _LAST if name not in absent]
    first = [name for name in COLUMNS[1:] if name not in (*_LAST, *absent)]
    hidden = [_UNITS, _SHARES, _EQUAL, _UNEVEN, _CHOSEN]
    result = result.select(*by, "metric", *run, *first, *points, *last, *hidden, empty)
    checked = _with_warnings(in_order(result, by, run), [*by, *run], interval, weighted=weighted)
    return checked.drop(*hidden, EMPTY, strict=False)


def _with_warnings(
    result: pl.LazyFrame, by: Sequence[str], interval: str, *, weighted: bool
) -> pl.LazyFrame:
    def check(table: pl.DataFrame) -> pl.DataFrame:
        n, mean, low, high = (table.get_column(name) for name in (_UNITS, "mean", "low", "high"))
        method = table.get_column("interval")
        needs_variance = (method != "wilson") & (method != "empirical_bernstein")
        equal = table.get_column(_EQUAL) & needs_variance
        some = (n > 1) & mean.is_not_null() & ~equal
        exact = interval in ("auto", "t", "none", "empirical_bernstein")
        few = int((some & (n < FEW)).sum())
        warn_of_early(table, _UNITS)
        if few and not exact and interval != "sequence":
            warn(
                f"the interval ({interval!r}) is too narrow in {number_of(few, 'row')} with fewer "
                f"than {FEW} rankings or clusters; use `interval` 't'"
            )
        alone = int((n == 1).sum())
        if alone and not exact:
            warn(
                f"the interval ({interval!r}) is null in {number_of(alone, 'row')}: it needs at "
                "least two rankings or clusters"
            )
        if interval == "studentized" and (unknown := int((some & low.is_null()).sum())):
            warn(
                f"the interval ({interval!r}) is null in {number_of(unknown, 'row')}: too many "
                "resamples have little or no variance; use `interval` 't', or more queries"
            )
        if weighted:
            warn_of_effective(table, table.get_column("queries") > 0)
            warn_of_uneven(table, table.get_column(_UNEVEN), "`interval` 't'")
        if interval != "none":
            warn_of_equal(table, equal, "values")
        several = (n < FEW) | (interval == "studentized")
        warn_of_range(table, several & table.get_column(_SHARES) & ((low < 0) | (high > 1)), 0)
        warn_of_sampling(table, table.get_column(_CHOSEN))
        warn_of_empty(table, by)
        return table

    return result.map_batches(check, streamable=True)


def _without_equal_rows(result: pl.LazyFrame, rows: pl.LazyFrame) -> pl.LazyFrame:
    """Return the result; collecting it raises for rows with the same values in all columns."""
    twice = rows.group_by(pl.struct(pl.all()).hash().alias(KEY)).agg(pl.len().alias(_ROWS))

    def refuse(counts: pl.DataFrame) -> None:
        if (counts.get_column(_ROWS).max() or 0) > 1:  # type: ignore[operator]
            problem = (
                "duplicate rows, with the same values in all columns; drop duplicates, or add "
                "a column that identifies the rankings"
            )
            raise data_error(rows, {problem: pl.struct(pl.all()).is_duplicated()})

    return with_check(result, twice.select(pl.col(_ROWS).max()), refuse)


def _units(
    rows: pl.LazyFrame,
    selected: Sequence[Variable],
    groups: Sequence[str],
    weight: str | None,
    cluster: Sequence[str],
    query: Sequence[str],
) -> pl.LazyFrame:
    """Return the weight, the weighted deviation and the resampling key of each unit."""
    schema = schema_of(rows)
    weights = pl.lit(1.0) if weight is None else pl.col(weight).cast(pl.Float64)
    key = query_key(query, [schema[name] for name in query])
    if cluster:
        alone = moment_math.alone(cluster)
        of_cluster = query_key(cluster, [schema[name] for name in cluster])
        key = pl.when(alone.is_null()).then(of_cluster).otherwise(key)
    values = {_unit(index): each.value for index, each in enumerate(selected)}
    columns = [f"{name} {part}" for name in values for part in "wy"]
    units = moment_math.deviations(rows, groups, values, weights)
    if not cluster:
        return units.select(*groups, key.alias(KEY), *columns)
    units = units.select(*groups, key.alias(KEY), alone, *columns)
    alike = [*groups, KEY, alone.meta.output_name()]
    return units.group_by(alike).agg(pl.col(columns).sum())


def _unit(index: int) -> str:
    return f"{OWN}{index}"


def _bootstrap_bounds(
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
        n = moment_math.effective("")
        known = table.select(
            *by, "metric", pl.col("mean").alias(_POINT), moment_math.std_error("").alias(_ERROR),
            (n / (n - 1)).sqrt().alias(_WIDTH),
        )  # fmt: skip
        keys = [*by, "metric"]
        joined = long.join(known, on=keys, how="left", nulls_equal=True)
        return joined.group_by(keys).agg(low.alias("low"), high.alias("high"))

    return bounds


def _studentized(off: pl.Expr, tail: float) -> tuple[pl.Expr, pl.Expr]:
    """Return the bounds from the studentized means of the resamples.

    A resample without variance counts as infinite in both tails. If a tail consists of such
    resamples only, its bound would be infinite, and is null.
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
