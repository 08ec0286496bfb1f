"""`leaderboard`: runs in the order of their means, with the ranks that the queries leave open."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import Names, share
from polars_rank.errors import DataError, number_of, of_all_runs, warn
from polars_rank.frames.tables import framed
from polars_rank.stats._arrays import Array, np
from polars_rank.stats.comparison import MANY_MISSING
from polars_rank.stats.estimate import ROUNDING, Estimate, Facts
from polars_rank.stats.families import family_of
from polars_rank.stats.inference import NONE, Inference
from polars_rank.stats.result_columns import BOUND, COUNT, ESTIMATE, ResultColumn, returning
from polars_rank.stats.summary import METHOD
from polars_rank.stats.value_columns import warn_of_directions
from polars_rank.stats.values import LOW, PLACE, Group, Key, Values

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from polars_rank.metrics.names import Metrics

#: The largest number of differences that are held at once, and of units whose influence is.
_ELEMENTS, _MOST_UNITS = 2**22, 2**12


LEADERBOARD = (
    ResultColumn("rank", "1 + the number of runs with a better mean; equal means share a rank",
                 dtype=pl.Int64()),
    ResultColumn("rank_low", "1 + the number of runs that are significantly better",
                 dtype=pl.Int64(), kind=BOUND),
    ResultColumn("rank_high", "number of runs that are not significantly worse, itself included",
                 dtype=pl.Int64(), kind=BOUND),
    ResultColumn("best", "whether no run is significantly better", dtype=pl.Boolean()),
    ResultColumn("mean", "mean over the queries that all runs have, or mean of the task means",
                 kind=ESTIMATE, bounds=("low", "high")),
    ResultColumn("low", "lower bound of its confidence interval, as in `summarize`", kind=BOUND),
    ResultColumn("high", "upper bound", kind=BOUND),
    ResultColumn("queries", "number of queries with a value in all runs", dtype=pl.Int64(),
                 kind=COUNT),
    ResultColumn("better_than", "number of runs that are significantly worse", dtype=pl.Int64(),
                 kind=COUNT, is_detail=True),
    ResultColumn("worse_than", "number of runs that are significantly better", dtype=pl.Int64(),
                 kind=COUNT, is_detail=True),
    ResultColumn("missing", "number of queries that some run lacks, or that do not count",
                 dtype=pl.Int64(), kind=COUNT, is_detail=True),
    ResultColumn("tasks", "number of tasks, with `by`", dtype=pl.Int64(), kind=COUNT,
                 is_detail=True),
    ResultColumn("effective", "Kish's effective number of units", is_detail=True),
    ResultColumn("confidence", "confidence level", is_detail=True),
    METHOD._replace(value=None),
)  # fmt: skip


@framed
@returning(LEADERBOARD)
def leaderboard(
    values: pl.LazyFrame,
    metrics: Metrics | None = None,
    *,
    run: str = "run",
    query: Names = "query",
    by: Names | None = None,
    weight: str | None = None,
    cluster: Names | None = None,
    confidence: float = 0.95,
    details: bool = False,
) -> pl.LazyFrame:
    r"""Rank runs by their means, with intervals of ranks.

    $$\mathrm{rank\_low}_i = 1 + |\{j : j \succ i\}|, \qquad
    \mathrm{rank\_high}_i = N - |\{j : i \succ j\}|$$

    $j \succ i$ means that j is significantly better than i.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> values = pl.DataFrame({
    ...     "run": ["a"] * 30 + ["b"] * 30 + ["c"] * 30, "query": [*range(30)] * 3,
    ...     "rr": [0.2, 0.3, 0.4, 0.5, 0.2, 0.3, 0.1, 0.5, 0.2, 0.3] * 3
    ...     + [0.3, 0.2, 0.5, 0.5, 0.3, 0.3, 0.1, 0.5, 0.1, 0.3] * 3
    ...     + [0.9, 0.9, 1.0, 0.9, 1.0, 0.8, 0.9, 1.0, 0.8, 1.0] * 3,
    ... })
    >>> board = pr.leaderboard(values)
    >>> board.select("run", "rank", "rank_low", "rank_high", "best", "mean")
    shape: (3, 6)
    ┌─────┬──────┬──────────┬───────────┬───────┬──────┐
    │ run ┆ rank ┆ rank_low ┆ rank_high ┆ best  ┆ mean │
    │ --- ┆ ---  ┆ ---      ┆ ---       ┆ ---   ┆ ---  │
    │ str ┆ i64  ┆ i64      ┆ i64       ┆ bool  ┆ f64  │
    ╞═════╪══════╪══════════╪═══════════╪═══════╪══════╡
    │ c   ┆ 1    ┆ 1        ┆ 1         ┆ true  ┆ 0.92 │
    │ b   ┆ 2    ┆ 2        ┆ 3         ┆ false ┆ 0.31 │
    │ a   ┆ 3    ┆ 2        ┆ 3         ┆ false ┆ 0.3  │
    └─────┴──────┴──────────┴───────────┴───────┴──────┘

    Parameters
    ----------
    values
        Per-query values of several runs, as `per_query` returns them.
    metrics
        Metrics, by name or as expressions. Default: all columns of floats. If no metric has the
        name of a column, higher values are taken as better, with a warning; `pl.col(name)` states
        this without one.
    run
        Column of the run.
    query
        Column or columns that identify the query within its task.
    by
        Columns to group by: tasks, such as the data set or the language. Runs are then ranked by
        the mean of their task means.
    weight
        Column of weights, 0 or more: of the query, or with `by` of the task.
    cluster
        Columns that identify the sampling unit, such as the user. Use ``cluster="query"`` if tasks
        share their queries, as in several languages.
    confidence
        Confidence level. It holds for the interval of each mean, and for all intervals of ranks
        together.
    details
        Whether to add columns, such as the standard error and the method of the interval.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `values`. One row per metric and run, best first, with `metric`, the column of
        the run, and

        {columns}

    Raises
    ------
    DataError
        There is only one run, a task lacks a run, or a query is repeated. Raised when the result is
        collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        More than 5% of the queries have a value in some of the runs only, and are not compared;
        there are too few queries for a verdict of `compare`, which give no ranks; or no metric has
        the name of a column.

    Notes
    -----
    The ranks follow from the intervals of all pairs, as in `compare`: with probability
    `confidence`, the intervals of ranks contain the true ranks of all runs together. Two runs whose
    intervals `low` to `high` overlap can be significantly different, because the same queries are
    difficult for both. Use `compare` for differences of runs.

    With `by`, intervals are about other queries of the same tasks. For other tasks, average the
    values of each task and run, and name the task in `query`: then the tasks are the sample.

    References
    ----------
    Mogstad, Romano, Shaikh & Wilhelm, Inference for ranks with applications to mobility across
    neighbourhoods and academic achievement across countries, 2024.
    """
    share("confidence", confidence)
    source = Values.of(values, metrics, run=run, query=query, by=by, weight=weight, cluster=cluster)

    def boards() -> tuple[list[Key], list[dict[str, Any]]]:
        warn_of_directions(metrics, source.lower_is_better)
        rows = [row for board in _boards(source, confidence) for row in board]
        return [key for key, _ in rows], [row for _, row in rows]

    return replace(source, by=()).result(LEADERBOARD, boards, details=details)


def _number_of_runs(source: Values, frame: pl.DataFrame) -> int:
    """Return the number of runs; raise `DataError` for tables that do not compare them."""
    groups = source.groups(frame)
    for group in groups:
        group.check_unique()
    source.compared(groups, None)
    runs = len({run for group in groups for run in group.rows})
    if lacking := [group.key for group in groups if len(group.rows) < runs]:
        raise DataError(
            f"{number_of(len(lacking), 'task')} without rankings of some runs, e.g. "
            f"{dict(zip(source.by, lacking[0], strict=True))}; evaluate all runs on all tasks"
        )
    return runs


def _boards(source: Values, confidence: float) -> Iterator[list[tuple[Key, dict[str, Any]]]]:
    """Yield the leaderboard of each metric, over the queries that all runs have."""
    frame = source.collected(source.table)
    facts, runs = source.checked(frame), _number_of_runs(source, frame)
    run, tasks, query = str(source.run), list(source.by), [*source.by, *source.query]
    for variable in source.metrics:
        value = pl.col(variable.name)
        counts, counted = value.is_not_null(), f"values.drop_nulls({variable.name!r})"
        if source.weight is not None:
            counts &= pl.col(source.weight) > 0
            counted += f".filter(pl.col({source.weight!r}) > 0)"
        known = frame.filter(counts).with_columns(pl.len().over(query).alias(PLACE))
        common = known.filter(pl.col(PLACE) == runs).drop(PLACE)
        if not common.height:
            raise DataError(f"no query has a value of {variable.name!r} in all {runs} runs")
        total = frame.select(query).n_unique()
        queries = common.height // runs
        partial = known.select(query).n_unique() - queries
        if partial > MANY_MISSING * (partial + queries):
            warn(
                f"{partial:,} of {partial + queries:,} queries are not compared in "
                f"{variable.name!r}, because only some of the runs have a value: evaluate all "
                "runs on the same queries, or keep those that all runs have: "
                f"{of_all_runs('values', counted, [run], query)}"
            )
        of_metric, of_values = replace(source, metrics=[variable]), facts[variable.name]
        if tasks:
            common = _of_tasks(common, of_metric)
            of_metric = replace(of_metric, by=(), weight=LOW, query=tuple(query))
        count = common.select(tasks).n_unique() if tasks else None
        numbers = {"queries": queries, "missing": total - queries, "tasks": count}
        yield _board(Group(of_metric, (), common), of_values, numbers, confidence)


def _of_tasks(common: pl.DataFrame, source: Values) -> pl.DataFrame:
    """Return values whose mean is the mean of the task means, with weights in the column `LOW`.

    Queries vary around the mean of their task, and a query of a task with weight a and n queries
    has the weight a / n.
    """
    tasks, run = list(source.by), str(source.run)
    value = pl.col(source.metrics[0].name)
    own = pl.lit(1.0) if source.weight is None else pl.col(source.weight)
    if source.weight is not None and common.select((own != own.first().over(tasks)).any()).item():
        raise DataError(
            f"the rows of a task have different weights (column {source.weight!r}); with `by`, "
            "`weight` is the weight of the task"
        )
    number = pl.len().over([*tasks, run])
    of_task = value.mean().over([*tasks, run])
    # The sum of a / n over the queries of a task is a.
    mean = ((of_task * own / number).sum() / (own / number).sum()).over(run)
    if common.select((number < 2).any()).item():
        warn(
            "a task has only one query with values of all runs, which does not show how queries "
            "vary: intervals are too narrow"
        )
    spread = pl.when(number > 1).then((number / (number - 1)).sqrt()).otherwise(1.0)
    return common.with_columns(
        (mean + (value - of_task) * spread).alias(source.metrics[0].name), (own / number).alias(LOW)
    )


def _tested_pairs(
    values: Array, facts: Facts, alpha: float, *, is_weighted: bool, **units: Any
) -> Iterator[tuple[Array, ...]]:
    """Yield blocks of pairs of runs, given a row of values for each: the two runs, and the test.

    The test has the difference, the p-value by the method of the level 1 - `alpha`, and whether all
    differences are 0, there is no test, and too few queries differ.
    """
    number = len(values)
    step = max(_ELEMENTS // values.shape[1], 1)
    for other, start in ((i, j) for i in range(number) for j in range(i + 1, number, step)):
        block = values[start : start + step] - values[other]
        estimate, _, _ = Estimate.of(block, facts, is_difference=True, **units)
        inference = Inference.of(
            estimate, [facts] * len(block), is_difference=True, is_weighted=is_weighted
        )
        is_equal = (estimate.error == 0) & (estimate.mean == 0)
        yield (
            np.arange(start, start + len(block)), np.full(len(block), other), estimate.mean,
            inference.at(alpha).p_values(), is_equal, (inference.method == NONE) & ~is_equal,
            estimate.is_same & ~is_equal,
        )  # fmt: skip


def _corrected(p_values: Array, runs: Array, others: Array, influence: Array) -> Array:
    """Return corrected p-values of pairs, given the influence values of units on each run."""
    if influence.shape[1] > max(len(influence), _MOST_UNITS):
        roots, vectors = np.linalg.eigh(influence @ influence.T)
        influence = (vectors * np.sqrt(np.maximum(roots, 0.0))) @ vectors.T
    family = family_of(
        len(runs), influence.shape[1],
        lambda places: influence[runs[places]] - influence[others[places]],
    )  # fmt: skip
    return family.corrected(p_values)


def _board(
    group: Group, facts: Facts, counts: Mapping[str, Any], confidence: float
) -> list[tuple[Key, dict[str, Any]]]:
    """Return the runs of a metric, best first, given values of queries that all runs have."""
    source, runs = group.source, [*group.aligned]
    [(name, is_lower)] = source.lower_is_better.items()
    rows, number = [*group.aligned.values()], len(runs)
    for name_of_run, of_run in zip(runs, rows, strict=True):
        group.check_equal(rows[0], of_run, runs[0], name_of_run)
    values, is_weighted = group.column(name)[np.stack(rows)], source.weight is not None
    units: dict[str, Any] = {
        key: None if each is None else each[rows[0]]
        for key, each in (("weight", group.weights), ("unit", group.units))
    }
    known = facts.bounds or (-np.inf, np.inf)
    if counts["tasks"]:  # the values are not those of queries
        facts = facts._replace(is_binary=False, bounds=None)
    own, influence, _ = Estimate.of(values, facts, **units)
    summary = Inference.of(own, [facts] * number, is_difference=False, is_weighted=is_weighted)
    of_pair = (1 - confidence) / max(number * (number - 1) / 2, 1)
    blocks = _tested_pairs(values, facts, of_pair, is_weighted=is_weighted, **units)
    run, other, difference, p_values, is_equal, is_none, is_same = map(
        np.concatenate, zip(*blocks, strict=True)
    )
    tested = np.flatnonzero(~is_equal & ~is_none)
    if len(tested):
        p_values[tested] = _corrected(p_values[tested], run[tested], other[tested], influence)
    is_found = p_values < 1 - confidence
    is_better = difference < 0 if is_lower else difference > 0
    better = np.zeros((number, number), dtype=bool)
    better[run, other] = is_found & is_better
    better[other, run] = is_found & ~is_better
    size = np.where(np.isnan(own.mean), -np.inf, -own.mean if is_lower else own.mean)
    # Means that differ by a rounding error share a rank.
    tolerance = ROUNDING * np.abs(own.mean[~np.isnan(own.mean)]).max(initial=0.0)
    rank = 1.0 + (size[None, :] > size[:, None] + tolerance).sum(axis=1)
    order = np.argsort(rank, kind="stable")
    worse_than, better_than = better.sum(axis=0).astype(float), better.sum(axis=1).astype(float)
    too_few = is_none | (is_same & ~is_found)
    if too_few.any() and (too_few | is_equal).all():
        what = "clusters" if source.cluster else "queries"
        warn(
            f"too few {what} in {name!r} ({own.units[0]:.0f}), or too few that differ: they do not "
            "show which runs are better on others, so there are no ranks"
        )
        rank = worse_than = better_than = np.full(number, np.nan)
    elif is_none.any():
        warn(
            f"some pairs of runs have no interval in {name!r}, because there are too few queries, "
            "and count as not significantly different"
        )
    summary = summary.at(1 - confidence)
    low, high = (np.clip(each, *known) for each in summary.bounds(1 - confidence))
    return [
        (Key((), name, runs[i]), {
            "rank": rank[i], "rank_low": 1 + worse_than[i], "rank_high": number - better_than[i],
            "best": None if np.isnan(worse_than[i]) else bool(worse_than[i] == 0),
            "mean": own.mean[i], "low": low[i], "high": high[i], "better_than": better_than[i],
            "worse_than": worse_than[i], "effective": own.effective[i], "confidence": confidence,
            "method": summary.method[i], **counts,
        })
        for i in order
    ]  # fmt: skip
