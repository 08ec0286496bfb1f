"""Means of runs over queries, over given tasks, and over tasks as a sample of tasks.

For tasks t with weights a_t, Σa_t = 1, the mean of the task means of run i is M_i = Σ_t a_t m_ti.
Over queries within the given tasks, M_i - M_j has the variance v = Σ_t v_t, where v_t is a_t² times
the squared standard error of the difference within the task, and Satterthwaite's degrees of freedom

    v² / Σ_t (v_t² / (n_t - 1)).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from polars_rank._params import OWN
from polars_rank.errors import DataError
from polars_rank.frames.tables import schema_of
from polars_rank.stats.intervals import ONE_UNIT
from polars_rank.stats.query_hash import query_key
from polars_rank.stats.resampling import numpy
from polars_rank.stats.run_matrices import RunMatrices
from polars_rank.stats.simultaneous import RunSums, Units, squared_distances, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import polars as pl

    from polars_rank.stats.pair_moments import RunMoments
    from polars_rank.stats.run_matrices import GroupSums
    from polars_rank.stats.simultaneous import Array

#: Column with a key of the task.
TASK = OWN + "task"


class Means(NamedTuple):
    """The means of the runs that a metric compares, and what their intervals need."""

    sums: RunSums
    #: None if there are no values, or if the means are over given tasks.
    units: Units | None
    #: Standard error and degrees of freedom of each mean; None for fewer than two units.
    errors: Array | None
    degrees: Array
    queries: int
    missing: int
    #: Number of queries with a value in some of the runs only; 0 from moments.
    partial: int
    #: Kish's effective number of queries, clusters or tasks.
    effective: float
    tasks: int = 0


class Task(NamedTuple):
    """The sums of a metric in a task."""

    #: The key of the task, the values of its columns, and the name of the metric.
    key: tuple[Any, ...]
    weight: float
    #: The numbers of the runs that have rankings in the task.
    runs: Array
    queries: int
    missing: int
    partial: int
    sums: RunSums
    units: Units | None


def with_tasks(source: RunMatrices | RunMoments) -> RunMatrices | RunMoments:
    """Return a source whose groups are tasks, with their key as the first column."""
    schema = schema_of(source.rows)
    key = query_key(source.groups, [schema[name] for name in source.groups])
    return source._replace(
        rows=source.rows.with_columns(key.alias(TASK)), groups=[TASK, *source.groups]
    )


def tasks_of(source: RunMatrices | RunMoments, lists: pl.DataFrame) -> Iterator[Task]:
    """Return the sums of each task and metric from the rows of `source.lists`."""
    np = numpy()
    if not isinstance(source, RunMatrices):
        for each in source.sums(lists):
            yield Task(each.key, 1.0, each.runs, each.queries, each.missing, 0, each.sums, None)
        return
    for key, matrix in source.matrices(lists):
        values, weights = matrix.values, matrix.weights
        if len(weights) and weights.min() < weights.max():
            raise DataError(
                f"the rows of a task have different weights (column {source.weight!r}); with `by`, "
                "`weight` is the weight of the task"
            )
        sums, units = units_of(values, np.ones(len(values)), matrix.keys)
        weight = float(weights[0]) if len(weights) else math.nan
        clusters = units if source.cluster else None
        yield Task(
            key, weight, matrix.runs, len(values), matrix.missing, matrix.partial, sums, clusters
        )


def over_queries(group: GroupSums) -> Means:
    """Return the means over the queries of a group."""
    counts = (group.queries, group.missing, group.partial)
    return _of_units(group.sums, group.units, counts)


def over_sampled_tasks(tasks: Sequence[Task]) -> Means:
    """Return the means of the task means, with the tasks as a sample of tasks."""
    np = numpy()
    weights = np.array([task.weight for task in tasks])
    keys = np.array([task.key[0] for task in tasks], dtype=np.uint64)
    sums, units = units_of(np.array([task.sums.means for task in tasks]), weights, keys)
    return _of_units(sums, units, _counts(tasks))._replace(tasks=len(units.keys))


def over_given_tasks(tasks: Sequence[Task]) -> Means:
    """Return the means of the task means, with queries as a sample of those of each task."""
    np = numpy()
    tasks = [task for task in tasks if task.weight > 0]
    total = sum(task.weight for task in tasks)
    shares = [task.weight / total for task in tasks]
    runs = len(tasks[0].runs)
    means, unit_share = np.zeros(runs), 0.0
    of_pairs, of_runs = _Variances.zero((runs, runs)), _Variances.zero((runs,))
    for task, share in zip(tasks, shares, strict=True):
        effective = task.sums.effective or 0.0
        means += share * task.sums.means
        unit_share += share * share / effective
        of_pairs = of_pairs.plus(task.sums.std_errors, share, effective - 1)
        of_runs = of_runs.plus(task.sums.mean_errors, share, effective - 1)
    pair_variances, run_variances = of_pairs.total, of_runs.total
    if tasks[0].units is not None:  # a cluster may be in several tasks
        influences, unit_share = _of_clusters(tasks, shares)
        pair_variances = np.where(pair_variances > 0, squared_distances(influences), pair_variances)
        run_variances = np.where(
            run_variances > 0, np.einsum("ui,ui->i", influences, influences), run_variances
        )
    effective = 1 / unit_share
    limit = max(effective - 1, 0.0)
    varies = pair_variances > 0
    smallest = float(of_pairs.degrees[varies].min(initial=limit))
    is_known = bool(np.isfinite(pair_variances).all()) and smallest > 0
    sums = RunSums(
        means, pair_variances * smallest, run_variances * smallest,
        math.sqrt(smallest + 1) if is_known else 0.0, 1.0 if is_known else 0.0,
    )  # fmt: skip
    errors = np.sqrt(run_variances) if is_known else None
    degrees = np.minimum(of_runs.degrees, limit)
    return Means(sums, None, errors, degrees, *_counts(tasks), effective, len(tasks))


class _Variances(NamedTuple):
    """Variances of means of task means, and Σ_t (v_t² / (n_t - 1))."""

    total: Array
    squares: Array

    @classmethod
    def zero(cls, shape: tuple[int, ...]) -> _Variances:
        return cls(numpy().zeros(shape), numpy().zeros(shape))

    def plus(self, errors: Array | None, share: float, degrees: float) -> _Variances:
        """Return the variances with those of another task; NaN without standard errors."""
        if errors is None:
            return _Variances(self.total + math.nan, self.squares + math.nan)
        variances = (share * errors) ** 2
        return _Variances(self.total + variances, self.squares + variances * variances / degrees)

    @property
    def degrees(self) -> Array:
        return self.total * self.total / self.squares


def _of_clusters(tasks: Sequence[Task], shares: Sequence[float]) -> tuple[Array, float]:
    """Return the influence values of clusters on the means of tasks, and the sum of w² / (Σw)².

    The squares of the influence values add up to the variances.
    """
    np = numpy()
    keys, influences, weights = [], [], []
    for task, share in zip(tasks, shares, strict=True):
        if task.units is None or (task.sums.effective or 0) <= ONE_UNIT:
            continue
        n = float(task.sums.effective or 0)
        scale = share / task.sums.weight
        keys.append(task.units.keys)
        influences.append(task.units.influences * (scale * math.sqrt(n / (n - 1))))
        weights.append(task.units.weights * scale)
    if not keys:
        return np.full((1, len(tasks[0].runs)), np.nan), 1.0
    unique, places = np.unique(np.concatenate(keys), return_inverse=True)
    sums = np.zeros((len(unique), influences[0].shape[1]))
    np.add.at(sums, places, np.concatenate(influences))
    unit_weights = np.bincount(places, np.concatenate(weights))
    return sums, float(unit_weights @ unit_weights)


def _of_units(sums: RunSums, units: Units | None, counts: tuple[int, int, int]) -> Means:
    effective = sums.effective or 0.0
    degrees = numpy().full(len(sums.means), effective - 1)
    return Means(sums, units, sums.mean_errors, degrees, *counts, effective)


def _counts(tasks: Sequence[Task]) -> tuple[int, int, int]:
    """Return the numbers of queries, of missing and of partial ones."""
    queries, missing, partial = zip(
        *((task.queries, task.missing, task.partial) for task in tasks), strict=True
    )
    return sum(queries), sum(missing), sum(partial)
