"""`compare_all`: all pairwise comparisons of runs, with one error rate."""

from __future__ import annotations

import math
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, check_distinct, free, share
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.means import grouped
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.stats.intervals import stats
from polars_rank.stats.moment_math import LARGE
from polars_rank.stats.moment_tables import metric_key
from polars_rank.stats.per_query_tables import (
    check_sums,
    key_columns,
    known_query,
    query_columns,
    variables,
    with_definitions,
)
from polars_rank.stats.run_pairs import duplicates

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.per_query_tables import Variable

#: Polars prints the first four and the last four columns of a wide table: what users read first.
COLUMNS = (
    *("metric", "other", "difference", "mean", "other_mean", "missing", "queries"),
    *("confidence", "low", "high", "p_value"),
)
_COUNTS = ("missing", "queries")
_RUNS, _RANKINGS, _SHARE, _REPEATS = (
    OWN + name for name in ("runs", "rankings", "share", "repeats")
)


@framed_table
def compare_all(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    run: str = "run",
    by: Names | None = None,
    query: Names = "query",
    confidence: float = 0.95,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
) -> pl.LazyFrame:
    r"""Compare all pairs of runs with Tukey's honestly significant difference.

    $$q = \frac{|\bar x_i - \bar x_j|}{\sqrt{\mathrm{MSE} / n}}$$

    MSE is the mean squared error of the analysis of variance by run and query, with
    (n - 1)(m - 1) degrees of freedom for n queries and m runs. The p-values and intervals hold
    their level for all pairs together, so no correction is needed.

    Parameters
    ----------
    values
        Per-query values of several runs, as `per_query` returns them: one row per query and run,
        one column per metric, null where a metric is undefined.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. None for all columns of floats.
    run
        Column of runs.
    by
        Columns that split the table into groups.
    query
        Columns that identify the query. If there is no column "query": the one column that
        identifies the rows of each run, besides runs, groups, metrics, counts and constant
        columns; if there is none or several, name the columns. To find it among several columns,
        the table is read once more.
    confidence
        Confidence level of all intervals together, between 0 and 1.
    undefined, conventions
        How undefined values count, and metric definitions to use, as in `evaluate`. None: those
        that the column `conventions` of the table names, as `per_query` returns it; else the
        default.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group, metric and pair of runs, with the columns of `by`,
        and

        - `metric`, the column of the run, `other`;
        - `difference`, `mean`, `other_mean`: `difference` is `mean` - `other_mean`;
        - `missing`, `queries`: number of queries without and with a value in all runs of the
          group. Only the latter are compared. A pair with a run that has no rankings in the group
          has 0 `queries`;
        - `confidence`: confidence level of the intervals;
        - `low`, `high`, `p_value`: confidence interval of the difference, and p-value.

    Raises
    ------
    ArgumentError
        A metric is a sum or a geometric mean.
    DataError
        A query occurs twice in a run, or there are fewer than two runs. Raised when the result is
        collected.

    Notes
    -----
    For two runs, this is the paired t test. `scipy.stats.tukey_hsd` is the unpaired test, which
    ignores that all runs have the same queries.

    References
    ----------
    Carterette, Multiple testing in statistical analysis of systems-based information retrieval
    experiments, 2012.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({
    ...     "run": ["a"] * 3 + ["b"] * 3 + ["c"] * 3, "query": [1, 2, 3] * 3,
    ...     "rr": [0.2, 0.3, 0.4, 0.5, 0.5, 0.5, 0.9, 0.9, 1.0],
    ... })
    >>> comparisons = pr.stats.compare_all(values)
    >>> comparisons.select("run", "other", "difference", pl.col("p_value").round(4))
    shape: (3, 4)
    ┌─────┬───────┬────────────┬─────────┐
    │ run ┆ other ┆ difference ┆ p_value │
    │ --- ┆ ---   ┆ ---        ┆ ---     │
    │ str ┆ str   ┆ f64        ┆ f64     │
    ╞═════╪═══════╪════════════╪═════════╡
    │ b   ┆ a     ┆ 0.2        ┆ 0.021   │
    │ c   ┆ a     ┆ 0.633333   ┆ 0.0003  │
    │ c   ┆ b     ┆ 0.433333   ┆ 0.0012  │
    └─────┴───────┴────────────┴─────────┘
    """
    share("confidence", confidence)
    stats()
    values, definitions = with_definitions(values, conventions, undefined)

    schema = schema_of(values)
    keys = key_columns(schema, by=by, run=run)
    keys = {**keys, "query": query_columns(values, query, metrics, keys)}
    check_distinct(keys)
    groups = keys["by"]
    free([*groups, run], COLUMNS)
    selected = variables(schema, metrics, definitions, keys, undefined=undefined)
    for each in selected:
        if each.aggregate != "mean":
            raise ArgumentError(f"the metric {each.name!r} is not a mean over queries")
    sums = _sums(values, selected, groups, run, keys["query"])
    default_query = () if known_query(schema, query) else keys["query"]
    message = duplicates([*groups, run, *keys["query"]], default_query)
    return _all_pairs(sums, values, selected, groups, run, confidence, message)


def _sums(
    rows: pl.LazyFrame,
    selected: Sequence[Variable],
    groups: Sequence[str],
    run: str,
    query: Sequence[str],
) -> pl.LazyFrame:
    """Return the mean and the residual sum of squares of each metric by group and run."""
    values = {metric_key(index): each.value for index, each in enumerate(selected)}
    # The effect of a query is its mean over the runs.
    blocks = rows.group_by([*groups, *query]).agg(
        pl.col(run),
        pl.len().alias(_RANKINGS),
        (pl.len() - pl.col(run).n_unique()).alias(_REPEATS),
        *(value.alias(key) for key, value in values.items()),
        *((value - value.mean()).alias(key + "residual") for key, value in values.items()),
        *(value.count().alias(key + "count") for key, value in values.items()),
    )
    exploded = blocks.explode(run, *(key + end for key in values for end in ("", "residual")))
    runs = pl.col(run).n_unique().alias(_RUNS)
    if groups:
        runs_of = rows.group_by(groups).agg(runs)
        complete = exploded.join(runs_of, on=groups, how="left", nulls_equal=True)
    else:
        complete = exploded.join(rows.select(runs), how="cross")
    sums = []
    for key in values:
        whole = pl.col(key + "count") == pl.col(_RUNS)
        mean, residual = (pl.when(whole).then(pl.col(key + end)) for end in ("", "residual"))
        sums += [
            mean.mean().alias(key + "mean"),
            (residual.var(ddof=0) * residual.count()).alias(key + "squares"),
            whole.sum().cast(pl.Int64).alias(key + "queries"),
        ]
    # The rows of a query add up to one.
    spread = (1 / pl.col(_RANKINGS)).sum().alias(_SHARE)
    return grouped(complete, [*groups, run], [*sums, spread, pl.col(_REPEATS).max()])


def _all_pairs(
    sums: pl.LazyFrame,
    rows: pl.LazyFrame,
    selected: Sequence[Variable],
    groups: Sequence[str],
    run: str,
    confidence: float,
    duplicates: str,
) -> pl.LazyFrame:
    given = schema_of(sums)
    schema = pl.Schema(
        {
            **{name: given[name] for name in groups},
            "metric": pl.String(),
            run: given[run],
            "other": given[run],
            **{name: pl.Int64() if name in _COUNTS else pl.Float64() for name in COLUMNS[2:]},
        }
    )

    def pairs(table: pl.DataFrame) -> pl.DataFrame:
        records: list[dict[str, Any]] = []
        runs = table.get_column(run).unique().sort().to_list()
        if len(runs) == 1:
            raise DataError(f"the column {run!r} has only the run {runs[0]!r}; pass several runs")
        for part in table.partition_by(groups, maintain_order=True) if groups else [table]:
            _check(part, rows, selected, duplicates)
            group = {name: part.get_column(name)[0] for name in groups} if part.height else {}
            queries = round(part.get_column(_SHARE).sum())
            for index, each in enumerate(selected):
                results = _tukey(part, metric_key(index), run, confidence)
                # A run without rankings in the group has rows of 0 queries.
                absent = {"queries": 0, "missing": queries, "confidence": confidence}
                records += [
                    {**group, "metric": each.name, run: second, "other": first}
                    | results.get((second, first), absent)
                    for first, second in combinations(runs, 2)
                ]
        return pl.DataFrame(records, schema=schema, orient="row")

    return sums.map_batches(pairs, schema=schema)


def _check(
    part: pl.DataFrame, rows: pl.LazyFrame, selected: Sequence[Variable], duplicates: str
) -> None:
    if part.height and part.get_column(_REPEATS).max():
        raise DataError(duplicates)
    for index, each in enumerate(selected):
        named = {name: part.get_column(metric_key(index) + name) for name in ("mean", "squares")}
        check_sums(named, rows, [each] * part.height)


@cache
def _quantile(confidence: float, runs: int, degrees: int) -> float:
    """Return the quantile of the studentized range, which takes long to compute."""
    return float(stats().studentized_range.ppf(confidence, runs, degrees))


def _tukey(
    part: pl.DataFrame, key: str, run: str, confidence: float
) -> dict[tuple[Any, Any], dict[str, Any]]:
    """Return the result of each pair of the runs that have rankings in a group."""
    names, means = part.get_column(run).to_list(), part.get_column(key + "mean").to_list()
    runs = len(names)
    if not runs:
        return {}
    queries = min(part.get_column(key + "queries").to_list())
    missing = round(part.get_column(_SHARE).sum()) - queries
    degrees = (queries - 1) * (runs - 1)
    squares = float(part.get_column(key + "squares").sum())
    unit = math.sqrt(squares / degrees / queries) if degrees > 0 else 0.0
    distribution = stats().studentized_range
    width = _quantile(confidence, runs, degrees) * unit if unit else 0.0
    results = {}
    for first, second in combinations(range(runs), 2):
        mean, other = means[second], means[first]
        if degrees <= 0:
            bounds: tuple[float | None, ...] = (None,) * 3
            difference = None if mean is None else mean - other
        else:
            difference = mean - other
            p_value = 1.0 if difference == 0 else 0.0
            if unit:
                p_value = float(distribution.sf(abs(difference) / unit, runs, degrees))
            bounds = (difference - width, difference + width, p_value)
            if not unit and 0 < abs(difference) < 1 / LARGE:  # squares of residuals underflow
                bounds = (None,) * 3
        values = (difference, mean, other, missing, queries, confidence, *bounds)
        results[names[second], names[first]] = dict(zip(COLUMNS[2:], values, strict=True))
    return results
