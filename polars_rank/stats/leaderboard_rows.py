"""Rows of a leaderboard: means, ranks, and groups of runs that cannot be told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import DataError, number_of, warn
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.names import direction_of, lower_is_better
from polars_rank.stats.intervals import (
    special,
    warn_of_effective,
    warn_of_equal,
    warn_of_partial,
)
from polars_rank.stats.letters import letters, ranks
from polars_rank.stats.resampling import numpy
from polars_rank.stats.run_matrices import RUN_NUMBER, elements
from polars_rank.stats.simultaneous import max_t_tests, rounding
from polars_rank.stats.task_means import (
    Means,
    over_given_tasks,
    over_queries,
    over_sampled_tasks,
    tasks_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from polars_rank.stats.pair_moments import RunMoments
    from polars_rank.stats.run_matrices import RunMatrices
    from polars_rank.stats.simultaneous import Array, PairTests

Population: TypeAlias = Literal["queries", "tasks"]

#: Polars prints the first four and the last four columns of a wide table: what users read first.
COLUMNS = (
    *("metric", "rank", "mean", "low", "high", "confidence", "direction", "missing", "queries"),
    *("tasks", "effective", "better_than", "worse_than", "best"),
    *("rank_low", "rank_high", "letters"),
)
_TYPES: dict[str, Any] = {
    "metric": pl.String(),
    **dict.fromkeys(("rank", "missing", "queries", "tasks"), pl.Int64()),
    **dict.fromkeys(("better_than", "worse_than", "rank_low", "rank_high"), pl.Int64()),
    "best": pl.Boolean(),
    **dict.fromkeys(("direction", "letters"), pl.String()),
}
_HIGHER, _LOWER = "higher is better", "lower is better"
#: Below this number of tasks, tasks as a sample of tasks have no ranks.
FEW_TASKS = 10

_PLACE, _ABSENT_FROM = OWN + "place", OWN + "absent from"
_EQUAL, _EQUAL_PAIRS = OWN + "equal", OWN + "equal pairs"
_UNBOUNDED, _FEW, _PARTIAL = OWN + "unbounded", OWN + "few", OWN + "partial"
_FACTS = {
    _PLACE: pl.Int64(),
    _ABSENT_FROM: pl.String(),
    **dict.fromkeys((_EQUAL, _UNBOUNDED, _FEW), pl.Boolean()),
    **dict.fromkeys((_EQUAL_PAIRS, _PARTIAL), pl.Int64()),
}


@dataclass(frozen=True)
class Leaderboard:
    """The rows of a leaderboard. The groups of the source are tasks."""

    source: RunMatrices | RunMoments
    population: Population
    has_queries: bool
    #: Whether lower is better; for metrics of moments that are given by name, the name says it.
    lower: Mapping[str, bool]
    confidence: float
    n_resamples: int
    seed: int

    def table(self) -> pl.LazyFrame:
        """Return one row per metric and run."""
        run = self.source.run
        numbers = self.source.run_numbers().cache()
        schema = pl.Schema(
            {
                RUN_NUMBER: schema_of(numbers)[RUN_NUMBER],
                **{name: _TYPES.get(name, pl.Float64()) for name in COLUMNS},
                **_FACTS,
            }
        )
        lists = self.source.lists(numbers)
        rows = lists.map_batches(lambda table: self._rows(table, schema), schema=schema)
        named = rows.join(numbers, on=RUN_NUMBER).sort(_PLACE)
        absent = {
            "tasks": not self.source.groups,
            "queries": not self.has_queries,
            "missing": not self.has_queries,
            "effective": not self.source.is_weighted,
        }
        columns = [name for name in COLUMNS[1:] if not absent.get(name)]
        return named.map_batches(self._checked).select("metric", run, *columns)

    def _rows(self, lists: pl.DataFrame, schema: pl.Schema) -> pl.DataFrame:
        """Return the rows of all metrics, with the numbers of the runs."""
        np = numpy()
        runs = int(elements(lists.get_column(RUN_NUMBER)).max(initial=0)) + 1
        rows: list[dict[str, Any]] = []
        with np.errstate(all="ignore"):  # values are checked, and unknown results are NaN
            for metric, means in self._means(lists, runs):
                if isinstance(means, Means):
                    rows += self._of_metric(metric, means)
                else:
                    rows = [{"metric": metric, **means}]
                    break
        rows = [{**row, _PLACE: place} for place, row in enumerate(rows)]
        columns = {
            name: pl.Series(name, [row.get(name) for row in rows], dtype)
            for name, dtype in schema.items()
        }
        return pl.DataFrame(columns)

    def _means(
        self, lists: pl.DataFrame, runs: int
    ) -> Iterator[tuple[str, Means | dict[str, Any]]]:
        """Yield the means of each metric, or the run that a task lacks."""
        if not self.source.groups:
            for group in self.source.sums(lists):
                metric = group.key[-1]
                self._check(metric, runs, group.queries, float(group.sums.weight))
                yield metric, over_queries(group)
            return
        tasks_by_metric: dict[str, list[Any]] = {}
        keys = set()
        for task in tasks_of(self.source, lists):
            *key, metric = task.key
            absent = {*range(runs)}.difference(task.runs.tolist())
            label = _label(self.source.groups[1:], key[1:])
            if absent:
                yield metric, {RUN_NUMBER: min(absent), _ABSENT_FROM: label}
                return
            self._check(metric, runs, task.queries, 1.0, label)
            tasks_by_metric.setdefault(metric, []).append(task)
            keys.add(key[0])
        for metric, tasks in tasks_by_metric.items():
            if len(tasks) < len(keys):
                raise DataError(f"some tasks have no moments of the metric {metric!r}")
            self._check(metric, runs, 1, sum(task.weight for task in tasks))
            tasks.sort(key=lambda task: task.key[0])  # so that the order of rows does not matter
            given = self.population == "queries"
            yield metric, over_given_tasks(tasks) if given else over_sampled_tasks(tasks)

    def _check(self, metric: str, runs: int, queries: int, weight: float, task: str = "") -> None:
        """Raise if no query has a value in all runs, or if all weights are 0."""
        where = f" in the task {task}" if task else ""
        if runs > 1 and not queries:
            if not self.has_queries:
                raise DataError(
                    f"a run has no value of the metric {metric!r}{where}; add the value, or leave "
                    "out the task or the run"
                )
            raise DataError(
                f"no query has a value of the metric {metric!r} in each of the {runs} runs{where}; "
                "compare runs that were evaluated on the same queries, or select other metrics"
            )
        if runs > 1 and not weight > 0:
            raise DataError(f"all weights of the metric {metric!r} are 0; use weights above 0")

    def _of_metric(self, metric: str, means: Means) -> list[dict[str, Any]]:
        """Return the rows of a metric, best first."""
        np = numpy()
        sums, number = means.sums, len(means.sums.means)
        tests = max_t_tests(
            sums, means.units, confidence=self.confidence, n_resamples=self.n_resamples,
            seed=self.seed,
        )  # fmt: skip
        is_lower = self.lower[metric] if metric in self.lower else lower_is_better(metric)
        scores = -sums.means if is_lower else sums.means
        rank = np.array(ranks(scores.tolist(), float(rounding(sums.sizes.max()))))
        order = np.lexsort((np.arange(number), rank))
        better = _better(tests, number, is_lower=is_lower)[order][:, order]
        differ = better | better.T
        lows, highs, equal = self._intervals(means)
        known = means.errors is not None
        unknown = known & ~tests.equal & np.isnan(tests.low)
        constant = tests.equal & (abs(tests.differences) > rounding(sums.sizes.max()))
        common = {
            "metric": metric, "confidence": self.confidence, "missing": means.missing,
            "direction": _LOWER if is_lower else _HIGHER,
            "queries": means.queries, "tasks": means.tasks, "effective": means.effective,
            _UNBOUNDED: bool(unknown.any()), _EQUAL_PAIRS: int(constant.sum()), _FEW: not known,
            _PARTIAL: means.partial,
        }  # fmt: skip
        rows = [
            {
                **common, RUN_NUMBER: int(place), "mean": float(sums.means[place]),
                "low": _known(lows[place]), "high": _known(highs[place]),
                _EQUAL: bool(equal[place]),
            }
            for place in order
        ]  # fmt: skip
        if self.population == "tasks" and means.effective < FEW_TASKS * (1 - 1e-9):
            return rows
        first = rank[order] == 1
        labels = letters(differ.tolist())
        for at, row in enumerate(rows):
            row |= {
                "rank": int(rank[order[at]]),
                "rank_low": 1 + int(better[:, at].sum()),
                "rank_high": number - int(better[at].sum()),
                "better_than": int(better[at].sum()),
                "worse_than": int(better[:, at].sum()),
                "best": bool((first & ~differ[at]).any()),
                "letters": labels[at],
            }
        return rows

    def _intervals(self, means: Means) -> tuple[Array, Array, Array]:
        """Return the interval of each mean, and whether all values of a run are equal."""
        np = numpy()
        if means.errors is None:
            unknown = np.full(len(means.sums.means), np.nan)
            return unknown, unknown, np.zeros(len(unknown), dtype=bool)
        equal = means.errors == 0
        widths = -special().stdtrit(means.degrees, (1 - self.confidence) / 2) * means.errors
        widths[equal] = np.nan
        return means.sums.means - widths, means.sums.means + widths, equal

    def _checked(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows; raise or warn of results that are unknown or unreliable."""
        run = rows.get_column(self.source.run)
        if len(labels := rows.get_column(_ABSENT_FROM).drop_nulls()):
            raise DataError(
                f"the run {run[0]!r} has no rankings in the task {labels[0]}; means over tasks "
                "need all tasks of each run: add its rankings, or leave out the task or the run"
            )
        if len(run) and rows.get_column(RUN_NUMBER).max() == 0:
            raise DataError(
                f"the column {self.source.run!r} has only the run {run[0]!r}; pass several runs"
            )
        warn_of_partial(rows, rows.get_column(_PARTIAL))
        metrics = rows.get_column("metric")
        few = rows.get_column("rank").is_null()
        if few.any():
            number = min(rows.get_column("effective").filter(few).to_list())
            warn(
                f"there are no ranks from {number:.3g} tasks: as a sample of tasks, fewer than "
                f"{FEW_TASKS} do not show how much tasks vary; for ranks on these tasks, use "
                "population='queries' with per-query values"
            )
        if self.source.is_weighted and self.population == "queries":
            warn_of_effective(rows, ~rows.get_column(_FEW))
        if count := _number(metrics, rows.get_column(_FEW) & ~few):
            where = ", in all or in one of the tasks," if self.source.groups else ""
            warn(
                f"there are fewer than two queries or clusters{where} for "
                f"{number_of(count, 'metric')}: runs cannot be told apart"
            )
        warn_of_equal(rows, rows.get_column(_EQUAL), "values")
        if count := _number(metrics, (rows.get_column(_EQUAL_PAIRS) > 0) & ~few):
            warn(
                "the difference of two runs is the same in all queries, for "
                f"{number_of(count, 'metric')}: it does not show how much queries vary, so these "
                "runs count as not significantly different"
            )
        if count := _number(metrics, rows.get_column(_UNBOUNDED) & ~few):
            warn(
                f"there are too few queries, tasks or resamples to tell runs apart at the "
                f"confidence level {self.confidence}, for {number_of(count, 'metric')}"
            )
        return rows


def direction_in_title(metric: str, direction: str) -> str:
    """Return what a title adds to the name of a metric: its direction, unless the name says it."""
    is_known = direction_of(metric) > 0 and direction == _HIGHER
    return "" if is_known else f" ({direction})"


def _better(tests: PairTests, number: int, *, is_lower: bool) -> Array:
    """Return whether the run of a row is significantly better than that of a column."""
    np = numpy()
    better = np.zeros((number, number), dtype=bool)
    higher, lower = tests.low > 0, tests.high < 0
    if is_lower:
        higher, lower = lower, higher
    better[tests.second[higher], tests.first[higher]] = True
    better[tests.first[lower], tests.second[lower]] = True
    return better


def _known(value: float) -> float | None:
    return None if value != value else float(value)  # noqa: PLR0124


def _label(columns: Sequence[str], values: Sequence[Any]) -> str:
    """Return the values of the columns of a task as text."""
    if len(values) == 1:
        return repr(values[0])
    return ", ".join(f"{name} = {value!r}" for name, value in zip(columns, values, strict=True))


def _number(metrics: pl.Series, rows: pl.Series) -> int:
    """Return the number of metrics of the given rows."""
    return len({*metrics.filter(rows).to_list()})
