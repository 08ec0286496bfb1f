"""`leaderboard`: runs in the order of their means, with the ranks that the queries leave open."""

from __future__ import annotations

from typing import TYPE_CHECKING, get_args

import polars as pl

from polars_rank._params import (
    OWN,
    Names,
    integer,
    names,
    one_of,
    share,
    some_names,
    whole_number,
)
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.metrics.names import listed, lower_is_better, output_name
from polars_rank.stats.intervals import special
from polars_rank.stats.leaderboard_rows import COLUMNS, Leaderboard, Population
from polars_rank.stats.moment_tables import is_moments
from polars_rank.stats.per_query_tables import (
    known_query,
    refuse_definitions,
    refuse_with_moments,
    with_definitions,
)
from polars_rank.stats.run_sources import run_matrices, run_moments
from polars_rank.stats.task_means import with_tasks

if TYPE_CHECKING:
    from collections.abc import Mapping

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics
    from polars_rank.stats.pair_moments import RunMoments
    from polars_rank.stats.run_matrices import RunMatrices

_ROW = OWN + "row"


@framed_table
def leaderboard(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    run: str = "run",
    by: Names | None = None,
    query: Names = "query",
    weight: str | None = None,
    cluster: Names | None = None,
    population: Population = "queries",
    confidence: float = 0.95,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str | None = None,
    n_resamples: int = 10_000,
    seed: int = 0,
) -> pl.LazyFrame:
    r"""Rank runs by their means, with intervals of ranks and groups of runs that may be equal.

    $$\mathrm{rank\_low}_i = 1 + |\{j : j \succ i\}|, \qquad
    \mathrm{rank\_high}_i = N - |\{j : i \succ j\}|$$

    $j \succ i$ means that j is significantly better than i: the simultaneous interval of their
    difference excludes 0. These intervals are those of `compare_all`, for all pairs of the N runs
    together, so with the probability `confidence`, the intervals of ranks contain the true ranks
    of all runs together.

    Parameters
    ----------
    values
        Per-query values of several runs, as `per_query` returns them: one row per query and run,
        one column per metric, null where a metric is undefined. Also the result of `moments` with
        the same `run` and `all_pairs=True`, or of `merge`. With `population` "tasks", also one row
        per task and run.
    metrics
        Names of columns, or metrics such as `pr.ndcg(10)`. None for all columns of floats. The run
        with the highest mean is first, or the lowest for a metric of which lower is better, such as
        `pr.fall_out(10)`. An alias, a multiple or a sum is known by the metric, not by the name of
        its column: `pr.fall_out(10).alias("noise")`. For other columns, higher is better: negate a
        column such as the latency.
    run
        Column of runs.
    by
        Columns of tasks, such as the data set or the language. Runs are then ranked by the mean of
        their task means.
    query
        Columns that identify the query within a task. If there is no column "query": the one
        column that identifies the rows of each run, besides runs, tasks, metrics, counts and
        constant columns; if there is none or several, name the columns. With `population` "tasks",
        a table without the column "query" has one row per task and run, without nulls.
    weight
        Column of query weights, or with `by` of task weights, 0 or more. A query has one weight in
        all runs, and a task in all of its rows. By default, each task has the same weight, whatever
        its number of queries.
    cluster
        Columns that identify the sampling unit if it is not the query, e.g. user. A query with a
        null cluster forms its own cluster. If tasks share their queries, such as translations of
        the same queries, ``cluster="query"``. From moments, clusters must not span tasks.
    population
        With `by`, what the intervals are about:

        - "queries": which runs are best on these tasks? New queries of the same tasks would change
          the means this much. The tasks are given, and their queries are a sample;
        - "tasks": which runs are best on tasks like these? New tasks would change the means this
          much. The tasks are a sample, and there should be many: below 10, there are no ranks.
    confidence
        Confidence level of the interval of each mean, and of all intervals of ranks together,
        between 0 and 1.
    undefined, conventions
        How undefined values count, and metric definitions to use, as in `evaluate`. None: those
        that the column `conventions` of the table names, as `per_query` returns it; else the
        default.
    n_resamples
        Number of resamples for three or more runs.
    seed
        Random seed. The same seed gives the same result for any order of rows.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per metric and run, best first, with

        - `metric`, the column of the run;
        - `direction`: "higher is better" or "lower is better";
        - `rank`: 1 + the number of runs with a better mean, so that equal means share a rank;
        - `mean`, `low`, `high`, `confidence`: mean over the queries that all runs have, or mean of
          the task means; its interval from the t distribution as in `summarize`, for each run on
          its own; and the confidence level. The interval is null for fewer than two queries,
          clusters or effective units, or if all values are equal;
        - `missing`, `queries`: number of queries without and with a value in all runs. Only the
          latter are compared;
        - `tasks`: with `by`, number of tasks;
        - `effective`: with `weight` or `cluster`, Kish's effective number of queries, clusters or
          tasks, (Σw)² / Σw²;
        - `better_than`, `worse_than`: number of runs that the run is significantly better and
          worse than;
        - `best`: whether the run cannot be told apart from a run with the best mean;
        - `rank_low`, `rank_high`: interval of the rank;
        - `letters`: groups of the run. Two runs share a letter if and only if they cannot be told
          apart; "a" is a group with the best run. After "z" come "aa", "ab", ..., and the letters
          of a run are separated by commas.

    Raises
    ------
    ArgumentError
        A metric is a sum or a geometric mean (for moments, a DataError).
    SchemaError
        Moments have no sums of all pairs of runs.
    DataError
        There is only one run, no query has a value in all runs, a task has no rankings of a run,
        a query occurs twice in a run, its weights or clusters differ between runs, or weights
        differ within a task. Raised when the result is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        More than 5% of the queries have a value in some of the runs only, and are not compared (not
        from moments, which do not tell them from undefined values); there are too few tasks
        for ranks; the differences of a pair are equal in all queries, or there are too few queries
        or resamples, so that a pair has no interval and counts as not significantly different; all
        values of a run are equal; there are fewer than 30 effective units with `weight` or
        `cluster`; or moments of groups with the same queries are pooled.

    Notes
    -----
    Two runs whose own intervals overlap can be significantly different, because their values for
    the same query are alike. Use `letters` or `compare_all` for pairs, not `low` and `high`. Two
    runs can have a significant difference in `compare_all`, with a p-value below 1 - `confidence`,
    but the same letter here, because the step-down tests of `compare_all` find more differences.

    For given tasks, the variance of a difference is the sum of the variances within tasks, and the
    t distribution has the smallest of the Satterthwaite degrees of freedom of all pairs, and at
    most the effective number of queries minus 1.

    In simulations with 2 to 50 runs and 50 queries, the 95% intervals of ranks contained all true
    ranks in 93% to 100% of logs: 95% for equal means, more for different ones. With few queries in
    some tasks or skewed values, they do in fewer: 92% for five runs and tasks of 10, 20 and 100
    queries of which the smallest varies most.

    References
    ----------
    Mogstad, Romano, Shaikh & Wilhelm, Inference for ranks with applications to mobility across
    neighbourhoods and academic achievement across countries, 2024.
    Piepho, An algorithm for a letter-based representation of all-pairwise comparisons, 2004.
    Gramm et al., Algorithms for compact letter displays: comparison and evaluation, 2007.
    Satterthwaite, An approximate distribution of estimates of variance components, 1946.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({
    ...     "run": ["a"] * 8 + ["b"] * 8 + ["c"] * 8, "query": [*range(8)] * 3,
    ...     "rr": [0.2, 0.3, 0.4, 0.5, 0.2, 0.3, 0.1, 0.5]
    ...     + [0.3, 0.3, 0.5, 0.5, 0.5, 0.3, 0.3, 0.5]
    ...     + [0.9, 0.9, 1.0, 0.5, 1.0, 0.8, 0.5, 1.0],
    ... })
    >>> board = pr.stats.leaderboard(values)
    >>> board.select("run", "mean", "rank", "rank_low", "rank_high", "letters")
    shape: (3, 6)
    ┌─────┬────────┬──────┬──────────┬───────────┬─────────┐
    │ run ┆ mean   ┆ rank ┆ rank_low ┆ rank_high ┆ letters │
    │ --- ┆ ---    ┆ ---  ┆ ---      ┆ ---       ┆ ---     │
    │ str ┆ f64    ┆ i64  ┆ i64      ┆ i64       ┆ str     │
    ╞═════╪════════╪══════╪══════════╪═══════════╪═════════╡
    │ c   ┆ 0.825  ┆ 1    ┆ 1        ┆ 1         ┆ a       │
    │ b   ┆ 0.4    ┆ 2    ┆ 2        ┆ 3         ┆ b       │
    │ a   ┆ 0.3125 ┆ 3    ┆ 2        ┆ 3         ┆ b       │
    └─────┴────────┴──────┴──────────┴───────────┴─────────┘
    """
    one_of("population", population, get_args(Population))
    share("confidence", confidence)
    whole_number("n_resamples", n_resamples)
    integer("seed", seed)
    special()
    tasks = names("by", by)
    if population == "tasks" and not tasks:
        raise ArgumentError("`population` 'tasks' needs `by`, the columns of the tasks")
    if population == "tasks" and cluster is not None:
        raise ArgumentError("`cluster` needs `population` 'queries'; found 'tasks'")
    values, definitions = with_definitions(values, conventions, undefined)
    schema = schema_of(values)
    has_queries = True
    source: RunMatrices | RunMoments
    if is_moments(schema):
        refuse_definitions(undefined, conventions)
        refuse_with_moments({"weight": weight, "cluster": cluster})
        source = run_moments(values, metrics, tasks, run)
        lower = _lower(metrics)
    else:
        queries = some_names("query", query)
        has_queries = population == "queries" or bool(known_query(schema, queries))
        source = run_matrices(
            values, metrics, definitions, undefined, run=run, by=tasks if has_queries else None,
            query=queries if has_queries else tasks, weight=weight, cluster=cluster, added=COLUMNS,
        )  # fmt: skip
        lower = {each.name: each.lower_is_better for each in source.selected}
        if not has_queries:
            source = _one_row_per_task(source, fills=undefined is not None)
    board = Leaderboard(
        with_tasks(source) if tasks else source, population, has_queries, lower, confidence,
        n_resamples, seed,
    )  # fmt: skip
    return board.table()


def _lower(metrics: Metrics | None) -> dict[str, bool]:
    """Return whether lower is better, for metrics that are not given by name."""
    given = () if metrics is None else listed(metrics)
    return {output_name(each): lower_is_better(each) for each in given if not isinstance(each, str)}


def _one_row_per_task(source: RunMatrices, *, fills: bool) -> RunMatrices:
    """Return tasks with one query each, from rows that tasks and runs identify.

    A null is a missing mean rather than an undefined value, unless `fills` is true.
    """
    tasks, run = source.query, source.run
    keys = ", ".join(map(repr, (*tasks, run)))
    return source._replace(
        rows=source.rows.with_columns(pl.lit(0).alias(_ROW)),
        selected=[each if fills else each._replace(fill=None) for each in source.selected],
        groups=tasks,
        query=[_ROW],
        duplicates=(
            f"several rows with the same {keys}; for per-query values, name the columns of the "
            "query with `query`; otherwise, pass one row per task and run"
        ),
    )
