"""`moments` and `merge`: sums of per-query values that can be added up over days and files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import polars as pl

from polars_rank._params import OWN, Names, check_distinct, check_name, free, names, public
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError, DataError, SchemaError
from polars_rank.evaluation.checks import with_run_warning
from polars_rank.evaluation.means import to_rows
from polars_rank.frames.results import COUNT, FLAG, NESTED, NUMBER, TEXT, typed
from polars_rank.frames.tables import (
    collected,
    framed_table,
    is_spark,
    is_table,
    lazy,
    run_on_spark,
    schema_of,
)
from polars_rank.stats import covariates, moment_math, overlap_check
from polars_rank.stats.pair_moments import ALL_PAIRS, check_all_pairs, merged_pairs, with_all_pairs
from polars_rank.stats.per_query_tables import (
    EMPTY,
    Variable,
    bad_weight,
    check_sums,
    conventions_text,
    data_error,
    in_order,
    key_columns,
    known_query,
    no_document,
    query_columns,
    run_column,
    variables,
    with_definitions,
    without,
)
from polars_rank.stats.prediction_estimates import merged_sums
from polars_rank.stats.predictions import (
    OF_DIFFERENCE,
    PREDICTED,
    SAMPLED_BY,
    check_predictions,
    predicted_values,
    with_predictions,
)
from polars_rank.stats.query_hash import query_key
from polars_rank.stats.run_matrices import RunMatrices
from polars_rank.stats.run_pairs import PAIRED, SLICE, Pairs, baseline_of, duplicates
from polars_rank.stats.sequences import SEQUENCE_SUMS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.frames.tables import Spark, Table
    from polars_rank.metrics.names import Metrics

#: Columns that identify a row of moments, beside the groups.
KINDS = ("metric", "aggregate", "counts_as", "conventions", "lower_is_better")
#: Columns that moments with weights or clusters have: the names of their columns.
UNITS = ("weighted_by", "clustered_by")
#: Columns that moments with predictions have.
SUMS_OF_PREDICTIONS = (PREDICTED, OF_DIFFERENCE)
#: Columns that moments with a covariate have.
SUMS_OF_COVARIATES = (covariates.OF_RUN, covariates.OF_DIFFERENCE)
_NAMES_OF_COLUMNS = (*UNITS, SAMPLED_BY, covariates.ADJUSTED_BY)
COUNTS = ("queries", "undefined")
RANKING_SUMS = (*COUNTS, "binary", *moment_math.PARTS)
#: Sums of the differences from the baseline.
PAIR_COUNTS = ("pairs", "pair_undefined", "wins", "ties", "losses")
DIFFERENCE = "difference_"
#: The values of both runs where the difference is counted.
COMPANIONS = ("baseline_", "run_")
PAIR_SUMS = (
    *PAIR_COUNTS,
    *(each + part for each in COMPANIONS for part in moment_math.COMPANION_PARTS),
    *(DIFFERENCE + part for part in moment_math.PARTS),
)

FIXED = {
    *KINDS,
    *SUMS_OF_PREDICTIONS,
    *SUMS_OF_COVARIATES,
    *_NAMES_OF_COLUMNS,
    *RANKING_SUMS,
    EMPTY,
    "baseline",
    *PAIR_SUMS,
    ALL_PAIRS,
    *overlap_check.COLUMNS,
}

#: Types of the columns of moments.
_TYPES = {
    **dict.fromkeys((*RANKING_SUMS, *PAIR_SUMS), NUMBER),
    **dict.fromkeys((*COUNTS, *PAIR_COUNTS, EMPTY), COUNT),
    **dict.fromkeys(("counted", "units", DIFFERENCE + "counted", DIFFERENCE + "units"), COUNT),
    **dict.fromkeys((*KINDS, *_NAMES_OF_COLUMNS, "baseline"), TEXT),
    **dict.fromkeys(("ranking_type", "first_ranking", "last_ranking"), TEXT),
    **dict.fromkeys(("binary", "lower_is_better"), FLAG),
    **dict.fromkeys((*SUMS_OF_PREDICTIONS, *SUMS_OF_COVARIATES, ALL_PAIRS), NESTED),
    "sampled_rankings": NESTED,
}

_BAD_WEIGHTS, _WEIGHTS_DIFFER = OWN + "bad weights", OWN + "weights differ"
SEPARATOR = " "
#: Lists of all differences of a group and of the keys of their queries, for tests that need them.
VALUES, QUERY_KEYS = "values", "query_keys"


@framed_table
def moments(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    run: str | None = "run",
    baseline: Any = None,
    by: Names | None = None,
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
    predictions: Any = None,
    probability: str | None = None,
    covariate: str | None = None,
    all_pairs: bool = False,
) -> pl.LazyFrame:
    """Compute moments of per-query values, which can be merged over days, files and machines.

    `summarize`, `compare`, `stats.compare_all` and `stats.leaderboard` accept moments instead of
    per-query values.
    `merge` adds up the moments of parts to the moments of the whole.

    Parameters
    ----------
    values
        Per-query values, as `per_query` returns them: one row per ranking, one column per metric,
        null where a metric is undefined. Also a Spark DataFrame.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. None for all columns of floats.
    run
        Column of runs. A table without the column "run" has one run. None for the moments over all
        rows.
    baseline
        The run that the others are compared with. The result then also has the moments of the
        differences between the runs, which `compare` needs.
    by
        Columns that split the table into groups.
    query
        Columns that identify the query. `merge` uses them to find rankings that are in two parts,
        and statistics use them to find queries that are in several groups. If they contain the
        day, queries that occur on several days are not found.
        With `baseline` or `all_pairs`, if there is no column "query": the one column that
        identifies the rows of each run, besides runs, groups, metrics, counts and constant columns;
        if there is none or several, name the columns. To find it among several columns, the table
        is read once more.
    weight
        Column of query weights, such as traffic: 0 or more.
    cluster
        Columns that identify the sampling unit if it is not the query, such as user. All rows of
        a cluster must be in the same part; `merge` warns if they are not. A ranking with a null
        in one of them forms its own cluster. On Spark, both runs of a query must have the same
        cluster.
    undefined, conventions
        How undefined values count, as in `evaluate`, and the conventions that the values were
        computed with. None: those that the column `conventions` of the table names, as `per_query`
        returns it; else the default. Only moments with the same conventions can be merged.

    predictions
        Per-query values of the same metrics and rankings from predicted labels, for all queries,
        as in `summarize` and `compare`. Merging is exact if no cluster spans parts.
    probability
        Column of `values` with the probability with which a query was chosen for people to judge.
        None: all queries were equally likely.
    covariate
        Column of a number that is known before the experiment and is the same in all runs, for
        `compare(moments, covariate=, covariate_mean=)`. Needs `baseline`. Merging is exact if no
        cluster spans parts.
    all_pairs
        Whether the result also has the moments of the differences between all runs, which
        `stats.compare_all` and `stats.leaderboard` need. Needs numpy (extra "stats"), and memory
        for all values.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per group, metric and run, in this order. The columns are
        those of `by`, and

        - `metric`, and the column of the run;
        - `aggregate`, `counts_as`, `conventions`, `lower_is_better`: aggregation of the metric,
          value of undefined values, metric definitions, and whether a lower mean is better;
        - `queries`, `undefined`: number of rankings, and of rankings with an undefined value;
        - `empty`: number of rankings without a retrieved document, if the table has the column
          `num_retrieved`, as `per_query(by=...)` returns it;
        - `binary`: whether all values of the metric in the table are 0 or 1;
        - `counted`, `weight`, `mean`, `squares`: number of rankings that count, Σw,
          m = Σwx / Σw and Σw(x - m)²;
        - `units`, `weight_squares`, `deviations`, `unit_squares`: number of rankings (or clusters)
          with a positive weight, Σw², Σw²(x - m) and Σw²(x - m)² over them, for standard errors;
        - `weight_cubes`, `cube_deviations`, `cube_squares`, `unit_cubes`: Σw³, Σw³(x - m),
          Σw³(x - m)² and Σw³(x - m)³, for the skewness;
        - with `baseline`, also its name, `pairs` (number of queries in both runs), and for these
          `pair_undefined` (undefined in either run), `wins`, `ties`, `losses` as in `compare`,
          means and unit squares of both runs, and the moments of the differences, as
          `difference_...`;
        - with `predictions`, the sums `predictions` and `difference_predictions`, and with
          `probability`, `sampled_by`: the name of its column;
        - with `covariate`, the sums `run_covariate` and `difference_covariate`, and `adjusted_by`:
          the name of its column;
        - with `all_pairs`, the sums `all_pairs`, over the queries with a value in all runs;
        - with `weight` or `cluster`, `weighted_by` and `clustered_by`: the names of their columns;
        - `ranking_type`, `first_ranking`, `last_ranking`, `sampled_rankings`: keys of a few
          rankings, or of a few clusters, and the type of their ids, which `merge` uses to find
          those that are in two parts; null without the columns of `query` or `cluster`.

    Raises
    ------
    DataError
        With `baseline` or `all_pairs`, a query occurs twice in a run. Raised when the result is
        collected.

    Notes
    -----
    All runs of a query must be in the same part: they are compared only within one table. With
    `baseline` or `all_pairs`, `merge` raises for queries that are in two tables.

    If groups such as days are pooled later, `summarize` and `compare` treat their rankings as
    rankings of different queries. What an interval is about depends on the queries of the days:

    - If each day has new queries, pool the days: the interval is about all queries like these.
    - If the same queries occur every day, average the values of each query over the days, and
      compute moments of the averages: the interval is about all queries like these, on these days.
    - The same holds for moments of all days together with ``query=["query", "day"]`` and
      ``cluster="query"``, in which a query counts as often as it occurs.

    References
    ----------
    Chan, Golub & LeVeque, Updating formulae and a pairwise algorithm for computing sample
    variances, 1979.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> days = [pl.DataFrame({"query": [1, 2], "rr": [1.0, 0.5]}),
    ...         pl.DataFrame({"query": [3, 4], "rr": [0.0, None]})]
    >>> month = pr.stats.merge([pr.stats.moments(day) for day in days])
    >>> month.select("metric", "queries", "undefined", "mean", "squares")
    shape: (1, 5)
    ┌────────┬─────────┬───────────┬───────┬─────────┐
    │ metric ┆ queries ┆ undefined ┆ mean  ┆ squares │
    │ ---    ┆ ---     ┆ ---       ┆ ---   ┆ ---     │
    │ str    ┆ i64     ┆ i64       ┆ f64   ┆ f64     │
    ╞════════╪═════════╪═══════════╪═══════╪═════════╡
    │ rr     ┆ 4       ┆ 1         ┆ 0.375 ┆ 0.6875  │
    └────────┴─────────┴───────────┴───────┴─────────┘
    """
    values, definitions = with_definitions(values, conventions, undefined)
    check_predictions(predictions, probability)
    if baseline is not None and run is None:
        raise ArgumentError("`baseline` needs `run`, the column of the runs")

    schema = schema_of(values)
    if all_pairs:
        check_all_pairs(schema, run, predictions=predictions is not None)
    if is_moments(schema):
        raise SchemaError("the table already has moments; merge moments with pr.stats.merge(...)")
    if baseline is None:
        keys = key_columns(
            schema, by=by, run=run_column(schema, run), weight=weight, cluster=cluster
        )
        kept = known_query(schema, query)
        if all_pairs:
            kept = query_columns(values, query, metrics, keys)
            check_distinct({**keys, "query": kept})
        keys = {**keys, "query": kept}
        others = {**keys, "probability": names("probability", probability)}
        selected = variables(schema, metrics, definitions, others, undefined=undefined)
        groups = [*keys["by"], *keys["run"]]
        clusters = keys["cluster"]
        result = sums_of(
            values, selected, groups, definitions, weight=weight, cluster=clusters,
            sampled=clusters or kept,
        )  # fmt: skip
        result = with_run_warning(result, values, run, keys)
        pairs = None
    else:
        pairs = Pairs.of(
            values, by=by, run=str(run), baseline=baseline, query=query, metrics=metrics,
            weight=weight, cluster=cluster,
        )  # fmt: skip
        clusters = pairs.cluster
        keys = {name: tuple(columns) for name, columns in pairs.columns.items()}
        others = {
            **keys, "covariate": names("covariate", covariate),
            "probability": names("probability", probability),
        }  # fmt: skip
        selected = variables(schema, metrics, definitions, others, undefined=undefined)
        groups = [*pairs.by, pairs.run]
        result = paired_sums(values, selected, pairs, definitions, sampled=clusters or pairs.query)
    if covariate is not None:
        if pairs is None or predictions is not None:
            raise ArgumentError("`covariate` needs `baseline`, and does not support `predictions`")
        result = covariates.with_covariate(result, values, selected, pairs, covariate)
    if predictions is not None:
        result = with_predictions(
            result, values, predicted_values(predictions, definitions, conventions, undefined),
            selected, keys, weight=weight, probability=probability, pairs=pairs,
        )  # fmt: skip
    by = [name for name in groups if name != run]
    if all_pairs:
        queries = keys["query"]
        twice = duplicates([*groups, *queries], () if known_query(schema, query) else queries)
        matrices = RunMatrices(values, selected, by, str(run), queries, weight, clusters, twice)
        result = with_all_pairs(result, matrices)
    texts = {"weighted_by": weight, "clustered_by": ", ".join(clusters) or None}
    units = [pl.lit(text).alias(name) for name, text in texts.items() if text is not None]
    first = [*by, "metric", *groups[len(by) :], *KINDS[1:]]
    last = [*overlap_check.COLUMNS]
    chosen = result.select(*first, *units, pl.exclude(*first, *last), *last)
    return in_order(chosen, by, groups[len(by) :])


@overload
def merge(tables: pl.LazyFrame | Iterable[pl.LazyFrame]) -> pl.LazyFrame: ...
@overload
def merge(tables: Spark | Iterable[Spark]) -> Spark: ...
@overload
def merge(tables: Table | Iterable[Table]) -> pl.DataFrame: ...
@overload
def merge(tables: Iterable[pl.LazyFrame | Table]) -> pl.LazyFrame | pl.DataFrame: ...
@public
def merge(tables: Any) -> Any:
    """Merge moments of parts into the moments of the whole.

    Parameters
    ----------
    tables
        Results of `moments`, one for each part. Or one table with the rows of several results,
        in which each row is a part of its group.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as the first table. One row per group, metric and run, equal to the `moments` of
        all rankings at once up to rounding, for any order of the tables.

    Raises
    ------
    SchemaError
        A table does not have moments, the tables have different groups, or only some of them have
        weights, clusters, a baseline or sums of all pairs.
    DataError
        The tables have different conventions, baselines, weights, clusters or types of query ids,
        or a ranking is in two parts. Raised when the result is collected.

    Warns
    -----
    RankWarning
        A cluster is in two parts; or several groups have the same queries, which count as new
        ones if the groups are pooled later.

    Notes
    -----
    A ranking is in two parts if the log was split within it, or if a part is given twice. `merge`
    finds such rankings

    - always, if a part is given twice, or if a log that is sorted by its queries was split within
      a ranking and queries are integers, text, dates or times;
    - otherwise with a probability of about 1 - (1 - j)^32, where j is the share of the two parts'
      rankings that are in both. If an unsorted log is split anywhere, most rankings are in all
      parts. A few rankings that are in two large parts may go unnoticed.

    Rankings of the same query in two parts are different rankings only if a column of `by`, such
    as the day, distinguishes them. `summarize` and `compare` can pool the days, with fewer columns
    in `by`. If each day has new queries, the intervals are about all queries like these. If the
    same queries occur every day, they count as new ones, intervals are too narrow, and there is a
    warning. Then average the values of each query over the days, and compute `moments` of the
    averages: intervals are about all queries like these, on these days.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({
    ...     "day": [1, 1, 2], "query": [1, 2, 3], "rr": [1.0, 0.5, 0.0],
    ... })
    >>> days = pr.stats.moments(values, by="day")
    >>> summary = pr.summarize(pr.stats.merge(days), interval="none")
    >>> summary.select("metric", "queries", "mean")
    shape: (1, 3)
    ┌────────┬─────────┬──────┐
    │ metric ┆ queries ┆ mean │
    │ ---    ┆ ---     ┆ ---  │
    │ str    ┆ i64     ┆ f64  │
    ╞════════╪═════════╪══════╡
    │ rr     ┆ 3       ┆ 0.5  │
    └────────┴─────────┴──────┘
    """
    several = not (is_spark(tables) or is_table(tables)) and hasattr(tables, "__iter__")
    parts = [*tables] if several else [tables]
    if not parts:
        raise ArgumentError("`tables` is empty; pass at least one table of moments")
    of_spark = [is_spark(part) for part in parts]
    if all(of_spark):
        return run_on_spark(merge, parts)
    if any(of_spark):
        raise ArgumentError(
            "cannot merge Spark DataFrames with other tables; pass their .toArrow()"
        )
    scans = [lazy(part, "tables") for part in parts]
    labels = [f"table {index}" for index in range(1, len(parts) + 1)] if several else None
    result = merged(scans, labels, later_pooled=True)
    return result if isinstance(parts[0], pl.LazyFrame) else collected(result, few=True)


def merged(
    parts: Sequence[pl.LazyFrame],
    labels: Sequence[str] | None,
    *,
    disjoint: bool = True,
    later_pooled: bool = False,
) -> pl.LazyFrame:
    """Return the merged moments of parts; without labels, each row is a part.

    Parts that are not `disjoint` may have rankings with the same keys, such as slices of a table.
    If groups are `later_pooled`, those with the same queries lead to a warning.
    """
    parts = [typed(part, "tables", _TYPES) for part in parts]
    schemas = [schema_of(part) for part in parts]
    _check_units(schemas)
    if any(EMPTY in schema for schema in schemas):
        unknown = pl.lit(None, dtype=pl.Int64).alias(EMPTY)
        parts = [
            part if EMPTY in schema else part.with_columns(unknown)
            for part, schema in zip(parts, schemas, strict=True)
        ]
        schemas = [schema_of(part) for part in parts]
    first = groups_of(schemas[0])
    for name in first:
        check_name(name)
    own = {name for name in schemas[0] if name not in overlap_check.COLUMNS}
    for schema in schemas:
        if groups_of(schema) != first or {*schema} - {*overlap_check.COLUMNS} != own:
            raise SchemaError(
                f"moments with different columns cannot be merged: the first table has the groups "
                f"{first}, another {groups_of(schema)}"
            )
    order = [*(name for name in schemas[0] if name in own), *overlap_check.COLUMNS]
    tables = []
    for index, (part, schema) in enumerate(zip(parts, schemas, strict=True)):
        label = pl.format("row {}", pl.int_range(1, pl.len() + 1))
        label = label if labels is None else pl.lit(labels[index])
        missing = [
            each
            for each in overlap_check.kept(pl.Schema())
            if each.meta.output_name() not in schema
        ]
        tables.append(part.with_columns(*missing).select(*order, label.alias(overlap_check.PART)))
    table = pl.concat(tables, how="vertical_relaxed")
    added = regrouped(
        table, first, disjoint=disjoint, rows_are_parts=labels is None, later_pooled=later_pooled,
        all_pairs=True,
    )  # fmt: skip
    # As in the result of `moments`, the column of runs comes after that of metrics.
    by = [name for name in first if order.index(name) < order.index("metric")]
    return in_order(added.select(order), by, [name for name in first if name not in by])


def _check_units(schemas: Sequence[pl.Schema]) -> None:
    """Raise `SchemaError` if only some moments have weights, clusters, a baseline or all pairs."""
    kinds = {
        "weighted_by": "weights", "clustered_by": "clusters", "baseline": "a baseline",
        ALL_PAIRS: "sums of all pairs", covariates.ADJUSTED_BY: "a covariate",
    }  # fmt: skip
    parameters = dict(
        zip(kinds, ("weight", "cluster", "baseline", ALL_PAIRS, "covariate"), strict=True)
    )
    for name, words in kinds.items():
        if len({name in schema for schema in schemas}) > 1:
            raise SchemaError(
                f"moments with {words} and moments without {words} cannot be merged; compute all "
                f"of them with the same `{parameters[name]}`"
            )


def is_moments(schema: pl.Schema) -> bool:
    """Return whether a table is a result of `moments`."""
    return {*KINDS, *RANKING_SUMS} <= schema.keys()


def groups_of(schema: pl.Schema) -> list[str]:
    """Return the columns of moments that identify groups and runs."""
    if not is_moments(schema):
        missing = next(name for name in (*KINDS, *RANKING_SUMS) if name not in schema)
        raise SchemaError(
            f"the table has no moments: column {missing!r} not found; see pr.stats.moments"
        )
    return [name for name in schema if name not in FIXED]


def runs_of(schema: pl.Schema) -> list[str]:
    """Return the column of runs of moments, if there is one: it comes after that of metrics."""
    after = [*schema][[*schema].index("metric") :]
    return [name for name in groups_of(schema) if name in after and name != overlap_check.PART]


def check_groups(schema: pl.Schema, groups: Sequence[str]) -> None:
    """Raise `ArgumentError` unless the moments are split by these columns."""
    available = groups_of(schema)
    for name in groups:
        if name not in available:
            raise ArgumentError(
                f"the moments are not split by {name!r}; add it to `by` of `moments`"
            )


def scaled(value: pl.Expr, weight: str = "weight") -> pl.Expr:
    """Return a mean or its bound on the scale of `evaluate`: a mean, sum or geometric mean."""
    aggregate = pl.col("aggregate")
    return (
        pl.when(aggregate == "sum")
        .then(value * pl.col(weight))
        .when(aggregate == "geometric")
        .then(value.exp())
        .otherwise(value)
    )


def regrouped(
    table: pl.LazyFrame,
    by: Sequence[str],
    *,
    disjoint: bool = True,
    rows_are_parts: bool = False,
    later_pooled: bool = False,
    all_pairs: bool = False,
) -> pl.LazyFrame:
    """Return moments added up within each group; raise if a ranking is in two parts.

    Groups that are pooled, here or later, lead to a warning if they have the same queries. Sums of
    `all_pairs` are kept if the result needs them.
    """
    table = typed(table if all_pairs else table.drop(ALL_PAIRS, strict=False), "values", _TYPES)
    schema = schema_of(table)
    paired = "baseline" in schema
    counts = [*COUNTS, *(PAIR_COUNTS if paired else ())]
    differences = [
        *(each for name in COMPANIONS for each in moment_math.merged_companion(name, DIFFERENCE)),
        *moment_math.merged(DIFFERENCE),
    ]
    constant = ("baseline", *_NAMES_OF_COLUMNS)
    kinds = [*KINDS, *(name for name in constant if name in schema)]
    of_parts = overlap_check.PART in schema
    runs = runs_of(schema)
    apart = [name for name in groups_of(schema) if name not in (*by, *runs)]
    pooled = not of_parts and bool(apart) and overlap_check.COLUMNS.keys() <= schema.keys()
    kept = overlap_check.of_parts() if of_parts else []
    if pooled:
        same_run = (pl.col(name).eq_missing(pl.col(name).first()) for name in runs)
        kept = overlap_check.of_pooled(pl.all_horizontal(True, *same_run))  # noqa: FBT003
    table = table.cache() if (of_parts and disjoint) or ALL_PAIRS in schema else table
    empty = [pl.when(pl.col(EMPTY).null_count() == 0).then(pl.col(EMPTY).sum())]
    added = table.group_by([*by, *kinds], maintain_order=True).agg(
        *(pl.when(pl.col(name).null_count() == 0).then(pl.col(name).sum()) for name in counts),
        (pl.col("binary") | (pl.col("counted") == 0)).all(),
        *(empty if EMPTY in schema else ()),
        *moment_math.merged(""),
        *(differences if paired else ()),
        *(
            merged_sums(name)
            for name in (*SUMS_OF_PREDICTIONS, *SUMS_OF_COVARIATES)
            if name in schema
        ),
        *kept,
    )
    # All groups of a metric have one method.
    added = added.with_columns(
        pl.col("binary").all().over(KINDS) & (pl.col("counted").sum() > 0).over(KINDS)
    )
    if ALL_PAIRS in schema:
        pairs = merged_pairs(table, [*by, *kinds], *runs)
        added = added.join(
            pairs, on=[*by, *kinds], how="left", nulls_equal=True, maintain_order="left"
        )
    ordered = added.sort(by, nulls_last=False, maintain_order=True) if by else added
    fixed = [name for name in schema if name in FIXED and name not in overlap_check.COLUMNS]
    clusters = "clustered_by" in schema
    if not of_parts:
        chosen = ordered.select(*by, *fixed)
        checked = ordered.select(*by, *fixed, *overlap_check.POOLED) if pooled else chosen

        def check_pooled(rows: pl.DataFrame) -> pl.DataFrame:
            known = overlap_check.check_pooled(rows, apart, clusters=clusters) if pooled else rows
            return _one_kind(known)

        return checked.map_batches(check_pooled, schema=schema_of(chosen))
    if not disjoint:
        checked = ordered.map_batches(_one_kind, schema=schema_of(ordered))
    else:
        # Runs are compared within a table, so a query must not be in two tables.
        compared = paired or ALL_PAIRS in schema
        within = by[:-1] if compared and not rows_are_parts else by
        groups = [name for name in within if name not in runs] if later_pooled else []

        def check_parts(rows: pl.DataFrame) -> pl.DataFrame:
            return _one_kind(overlap_check.check(rows, within, groups, clusters=clusters))

        checked = overlap_check.with_twice(ordered, table, [*within, *kinds], groups).map_batches(
            check_parts, schema=schema_of(ordered)
        )
    return overlap_check.sampled(checked).select(*by, *fixed, *overlap_check.COLUMNS)


def _one_kind(table: pl.DataFrame) -> pl.DataFrame:
    """Return moments; raise `DataError` if they cannot be merged."""
    for name in (*COUNTS, *PAIR_COUNTS):
        if name in table.columns and table.get_column(name).null_count():
            raise DataError(
                f"moments have null in the column {name!r}; pass whole results of pr.stats.moments"
            )
    for kind in ("conventions", "baseline", *_NAMES_OF_COLUMNS):
        if kind in table.columns and table.get_column(kind).n_unique() > 1:
            values = ", ".join(map(repr, sorted(map(str, table.get_column(kind).unique()))))
            known = {"weighted_by": "weights", "clustered_by": "clusters"}
            words = {**known, covariates.ADJUSTED_BY: "covariates"}.get(kind, kind)
            raise DataError(f"moments with different {words} cannot be merged: {values}")
    return table


def sums_of(
    rankings: pl.LazyFrame,
    selected: Sequence[Variable],
    by: Sequence[str],
    conventions: Conventions,
    *,
    weight: str | None = None,
    cluster: Sequence[str] = (),
    also: Mapping[str, pl.Expr] | None = None,
    sampled: Sequence[str] | None = None,
) -> pl.LazyFrame:
    """Return the moments of the values.

    `also` has further aggregations, by column and part. With `sampled`, the columns that identify
    queries or clusters, the result also has the sample of them that `merge` compares.
    """
    free(by, FIXED)
    rows = (
        rankings
        if sampled is None
        else overlap_check.with_names(
            rankings, sampled, schema_of(rankings), clusters=bool(cluster)
        )
    )
    seen = overlap_check.of_rankings(schema_of(rows), clusters=bool(cluster))
    wide = moment_math.reduced(
        rows,
        by,
        counts={**_counts(selected, weight), **_empty(schema_of(rankings))},
        spreads={
            metric_key(index): (variable.value, moment_math.PARTS)
            for index, variable in enumerate(selected)
        },
        weight=weight,
        cluster=cluster,
        carried=overlap_check.NAMES if seen else (),
        also=[*(value.alias(name) for name, value in (also or {}).items()), *seen],
    )
    added = tuple(dict.fromkeys(name.split(SEPARATOR, 1)[1] for name in also or ()))
    kept = [] if sampled is None else _keys_of_rankings(wide, sampled, schema_of(rankings))
    long = _long(wide, selected, by, conventions, (*moment_math.PARTS, *added), kept=kept)
    return _with_checks(long, rankings, selected, weight)


def paired_sums(
    rankings: pl.LazyFrame,
    selected: Sequence[Variable],
    pairs: Pairs,
    conventions: Conventions,
    *,
    values: bool = False,
    sequence: Callable[[pl.Expr], pl.Expr] | None = None,
    slices: str | None = None,
    sampled: Sequence[str] | None = None,
) -> pl.LazyFrame:
    """Return the moments of each run, and of its differences from the baseline.

    For `sampled` see `sums_of`. With `values`, the result has all differences and the keys of
    their queries. With `sequence`, a function of the differences, it has `SEQUENCE_SUMS`. `slices`
    names a column of lists of structs with the fields `SLICE`; the result then has a row for each
    struct instead of each group.
    """
    rows = pairs.joined(rankings, [each.name for each in selected])
    if sampled is not None:
        rows = overlap_check.with_names(
            rows, sampled, schema_of(rankings), clusters=bool(pairs.cluster)
        )
    by = [*pairs.by, pairs.run]
    if slices is not None:
        rows = rows.explode(slices).unnest(slices)
        by = [*SLICE, pairs.run]
    free(by, FIXED)
    counts = _counts(selected, pairs.weight)
    counts[_WEIGHTS_DIFFER] = pairs.weights_differ
    counts |= _empty(schema_of(rankings))
    # `compare` shows the skewness of differences only.
    of_run = moment_math.PARTS_OF_ERRORS if sampled is None else moment_math.PARTS
    spreads: dict[str, tuple[pl.Expr, Sequence[str]]] = {}
    also: list[pl.Expr] = []
    for index, each in enumerate(selected):
        key = metric_key(index)
        own, base = pl.col(each.name), baseline_of(each.name)
        value, opposed = each.of(own), pl.when(PAIRED).then(each.of(base))
        difference = value - opposed
        better = -difference if each.lower_is_better else difference
        both = difference.is_not_null()
        counts |= {
            key + "pairs": PAIRED,
            key + "pair_undefined": PAIRED & (own.is_null() | base.is_null()),
            key + "wins": better > 0,
            key + "ties": better == 0,
            key + "losses": better < 0,
        }
        spreads |= {key: (value, of_run), key + DIFFERENCE: (difference, moment_math.PARTS)}
        for name, companion in zip(COMPANIONS, (opposed, value), strict=True):
            counted = pl.when(both).then(companion)
            spreads[key + name] = (counted, moment_math.COMPANION_PARTS)
        if values:
            also += [
                difference.filter(both).alias(key + VALUES),
                query_key(pairs.query, pairs.query_types).filter(both).alias(key + QUERY_KEYS),
            ]
        if sequence is not None:
            also.append(sequence(difference).alias(key + SEQUENCE_SUMS))
    seen = overlap_check.of_rankings(schema_of(rows), clusters=bool(pairs.cluster))
    wide = moment_math.reduced(
        rows,
        by,
        counts=counts,
        spreads=spreads,
        weight=pairs.weight,
        cluster=pairs.cluster,
        carried=overlap_check.NAMES if seen else (),
        also=[*also, *seen],
    )
    parts = (
        *(*of_run, *PAIR_SUMS),
        *((VALUES, QUERY_KEYS) if values else ()),
        *((SEQUENCE_SUMS,) if sequence is not None else ()),
    )
    kept = [] if sampled is None else _keys_of_rankings(wide, sampled, schema_of(rankings))
    long = _long(wide, selected, by, conventions, parts, baseline=pairs.name, kept=kept)
    return pairs.checked(_with_checks(long, rankings, selected, pairs.weight), rankings)


def _keys_of_rankings(
    wide: pl.LazyFrame, sampled: Sequence[str], schema: pl.Schema
) -> list[pl.Expr]:
    return overlap_check.kept(schema_of(wide), overlap_check.type_of(sampled, schema))


def metric_key(index: int) -> str:
    """Return the prefix of the columns of a metric."""
    return f"{OWN}{index}{SEPARATOR}"


def _counts(selected: Sequence[Variable], weight: str | None) -> dict[str, pl.Expr]:
    counts = {}
    for index, each in enumerate(selected):
        counts[metric_key(index) + "undefined"] = pl.col(each.name).is_null()
        counts[metric_key(index) + "defined"] = pl.col(each.name).is_not_null()
        counts[metric_key(index) + "others"] = (each.value != 0) & (each.value != 1)
    if weight is not None:
        (counts[_BAD_WEIGHTS],) = bad_weight(weight).values()
    return counts


def _empty(schema: pl.Schema) -> dict[str, pl.Expr]:
    return {OWN + name: value for name, value in no_document(schema).items()}


def _long(
    wide: pl.LazyFrame,
    selected: Sequence[Variable],
    by: Sequence[str],
    conventions: Conventions,
    parts: Sequence[str],
    *,
    kept: Sequence[pl.Expr],
    baseline: str | None = None,
) -> pl.LazyFrame:
    """Return one row per group and metric, with the columns `kept`.

    `wide` has a column per metric and part.
    """
    description = conventions_text(conventions)
    available = schema_of(wide)
    faults = [name for name in (_BAD_WEIGHTS, _WEIGHTS_DIFFER) if name in available]
    rows = []
    for index, each in enumerate(selected):
        key = metric_key(index)
        undefined = pl.col(key + "undefined").cast(pl.Int64)
        kinds = (
            *(each.name, each.aggregate, each.counts_as, description),
            each.lower_is_better,
        )
        named = {
            **{kind: pl.lit(value) for kind, value in zip(KINDS, kinds, strict=True)},
            "queries": undefined + pl.col(key + "defined").cast(pl.Int64),
            "undefined": undefined,
            "binary": (
                (pl.col(key + "others").sum() == 0) & (pl.col(key + "counted").sum() > 0)
                if each.aggregate == "mean"
                else pl.lit(value=False)
            ),
            **({EMPTY: pl.col(OWN + EMPTY).cast(pl.Int64)} if OWN + EMPTY in available else {}),
            **({} if baseline is None else {"baseline": pl.lit(baseline)}),
            **{part: _as_integers(part, pl.col(key + part)) for part in parts},
        }
        rows.append(named)
    return to_rows(wide, [*by, *faults], rows, kept)


def _as_integers(part: str, value: pl.Expr) -> pl.Expr:
    """Return counts as 64-bit integers."""
    return value.cast(pl.Int64) if part.removeprefix(DIFFERENCE) in _WHOLE else value


_WHOLE = {*PAIR_COUNTS, "counted", "units"}


def _with_checks(
    moments: pl.LazyFrame, rankings: pl.LazyFrame, selected: Sequence[Variable], weight: str | None
) -> pl.LazyFrame:
    """Return the moments; collecting them raises for invalid values or weights."""
    schema = schema_of(moments)
    faults = [name for name in (_BAD_WEIGHTS, _WEIGHTS_DIFFER) if name in schema]
    named = {each.name: each for each in selected}

    def check(table: pl.DataFrame) -> pl.DataFrame:
        if _BAD_WEIGHTS in faults and table.get_column(_BAD_WEIGHTS).sum():
            raise data_error(rankings, bad_weight(str(weight)))
        if _WEIGHTS_DIFFER in faults and table.get_column(_WEIGHTS_DIFFER).sum():
            raise DataError(
                f"a query has different weights in two runs (column {weight!r}); use one weight "
                "per query"
            )
        of_rows = [named[name] for name in table.get_column("metric")]
        check_sums(table.to_dict(), rankings, of_rows, weight)
        return without(table, *faults)

    kept = {name: dtype for name, dtype in schema.items() if name not in faults}
    return moments.map_batches(check, schema=kept, streamable=True)
