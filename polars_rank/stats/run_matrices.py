"""Values of all runs side by side: a matrix of queries x runs for each group and metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import DataError
from polars_rank.frames.tables import schema_of
from polars_rank.stats.moment_math import LARGE
from polars_rank.stats.per_query_tables import bad_weight, check_sums, data_error
from polars_rank.stats.query_hash import mixed, query_key
from polars_rank.stats.resampling import KEY, numpy
from polars_rank.stats.simultaneous import units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polars_rank.stats.per_query_tables import Variable
    from polars_rank.stats.simultaneous import Array, RunSums, Units

#: Column with the number of a run, in sorted order.
RUN_NUMBER = OWN + "run number"

_WEIGHT, _BAD_WEIGHT = OWN + "weight", OWN + "bad weight"
_RANKINGS = OWN + "rankings"
_WEIGHTS_DIFFER, _CLUSTERS_DIFFER = OWN + "weights differ", OWN + "clusters differ"


class Cells(NamedTuple):
    """The values of a metric in a group: queries x runs."""

    #: The numbers of the runs that have rankings in the group.
    runs: Array
    #: Number of queries of each run that no earlier run has.
    new_queries: Array
    #: NaN where a run has no value.
    values: Array
    #: Whether a run has a value.
    known: Array
    weights: Array
    #: A key for each query, which those of a cluster share.
    keys: Array


class Matrix(NamedTuple):
    """The values of a metric in a group, of the queries with a value in all of its runs."""

    #: The numbers of the runs that have rankings in the group.
    runs: Array
    #: Number of queries of each run that no earlier run has.
    new_queries: Array
    #: Queries x runs.
    values: Array
    weights: Array
    #: A key for each query, which those of a cluster share.
    keys: Array
    #: Number of queries without a value in one of the runs, and of those with a value in another.
    missing: int
    partial: int


class GroupSums(NamedTuple):
    """The sums of a metric in a group, over the queries with a value in all of its runs."""

    #: The values of the columns of groups, and the name of the metric.
    key: tuple[Any, ...]
    #: The numbers of the runs that have rankings in the group.
    runs: Array
    queries: int
    #: Number of queries without a value in one of the runs.
    missing: int
    sums: RunSums
    #: None from moments.
    units: Units | None = None
    #: Queries x runs; None from moments.
    values: Array | None = None
    #: Number of queries with a value in some of the runs only; 0 from moments.
    partial: int = 0


class RunMatrices(NamedTuple):
    """The columns and metrics of per-query values, from which matrices are computed."""

    rows: pl.LazyFrame
    selected: Sequence[Variable]
    groups: Sequence[str]
    run: str
    query: Sequence[str]
    weight: str | None
    cluster: Sequence[str]
    #: The message about a query that occurs twice in a run.
    duplicates: str

    @property
    def is_weighted(self) -> bool:
        """Whether there are weights or clusters."""
        return self.weight is not None or bool(self.cluster)

    def run_numbers(self) -> pl.LazyFrame:
        """Return the runs in sorted order, with their numbers."""
        return numbered_runs(self.rows, self.run)

    def lists(self, run_numbers: pl.LazyFrame) -> pl.LazyFrame:
        """Return one row per query with lists of its runs and of their values."""
        schema = schema_of(self.rows)
        numbered = self.rows.join(run_numbers, on=self.run, nulls_equal=True)
        values = {_column(index): each.value for index, each in enumerate(self.selected)}
        queries = numbered.group_by([*self.groups, *self.query]).agg(
            pl.col(RUN_NUMBER),
            pl.len().alias(_RANKINGS),
            *(value.alias(key) for key, value in values.items()),
            *self._weights(),
            *self._clusters(),
        )
        key = query_key(self.query, [schema[name] for name in self.query])
        if self.cluster:
            alone = pl.any_horizontal(pl.col(name).is_null() for name in self.cluster)
            of_cluster = query_key(self.cluster, [schema[name] for name in self.cluster])
            key = pl.when(alone).then(mixed(key)).otherwise(of_cluster)
        kept = (_RANKINGS, *values, *self._faults())
        weight = [] if self.weight is None else [_WEIGHT]
        return queries.select(*self.groups, RUN_NUMBER, key.alias(KEY), *weight, *kept)

    def _weights(self) -> list[pl.Expr]:
        if self.weight is None:
            return []
        weight = pl.col(self.weight)
        (is_bad,) = bad_weight(self.weight).values()
        return [
            weight.cast(pl.Float64).first().alias(_WEIGHT),
            is_bad.any().alias(_BAD_WEIGHT),
            (weight != weight.first()).any().alias(_WEIGHTS_DIFFER),
        ]

    def _clusters(self) -> list[pl.Expr]:
        others = [pl.col(name) for name in self.cluster if name not in self.query]
        differ = [name.ne_missing(name.first()).any() for name in others]
        either = [pl.any_horizontal(differ).alias(_CLUSTERS_DIFFER)] if differ else []
        return [*(name.first() for name in others), *either]

    def _faults(self) -> dict[str, DataError]:
        """Return the errors of queries by the column that marks them."""
        faults = {}
        if self.weight is not None:
            faults[_BAD_WEIGHT] = data_error(self.rows, bad_weight(self.weight))
            faults[_WEIGHTS_DIFFER] = DataError(
                f"a query has different weights in two runs (column {self.weight!r}); use one "
                "weight per query"
            )
        if not {*self.cluster} <= {*self.query}:
            faults[_CLUSTERS_DIFFER] = DataError(
                f"a query has different clusters in two runs (columns "
                f"{', '.join(map(repr, self.cluster))}); use one cluster per query"
            )
        return faults

    def sums(self, queries: pl.DataFrame) -> Iterator[GroupSums]:
        """Return the sums of each group and metric from the rows of `lists`."""
        for key, matrix in self.matrices(queries):
            weights = matrix.weights / matrix.weights.max(initial=0.0)
            sums, units = units_of(matrix.values, weights, matrix.keys)
            yield GroupSums(
                key, matrix.runs, len(matrix.values), matrix.missing, sums, units, matrix.values,
                matrix.partial,
            )  # fmt: skip

    def matrices(self, queries: pl.DataFrame) -> Iterator[tuple[tuple[Any, ...], Matrix]]:
        """Return the matrix of each group and metric, with their key, from the rows of `lists`."""
        for group, variable, cells in self.cells(queries):
            yield (*group, variable.name), self.complete(variable, cells)

    def complete(self, variable: Variable, cells: Cells, runs: Array | None = None) -> Matrix:
        """Return the queries with a value in all runs, or in all runs with the given places.

        Raise for values or weights that cannot be squared and added.
        """
        every = slice(None) if runs is None else runs
        of_runs = cells.known[:, every]
        known = of_runs.all(axis=1)
        values, weights = cells.values[known][:, every], cells.weights[known]
        self._check(variable, values, weights)
        return Matrix(
            cells.runs[every], cells.new_queries[every], values, weights, cells.keys[known],
            missing=len(known) - len(values), partial=int(of_runs.any(axis=1).sum()) - len(values),
        )  # fmt: skip

    def cells(self, queries: pl.DataFrame) -> Iterator[tuple[list[Any], Variable, Cells]]:
        """Return the values of each group and metric from the rows of `lists`."""
        groups = self.groups
        parts = queries.partition_by(groups, maintain_order=True) if groups else [queries]
        for part in parts:
            if part.height:
                group = [part.get_column(name)[0] for name in groups]
                for each, cells in zip(self.selected, self._of_group(part), strict=True):
                    yield group, each, cells

    def _of_group(self, queries: pl.DataFrame) -> Iterator[Cells]:
        np = numpy()
        for fault, error in self._faults().items():
            if queries.get_column(fault).any():
                raise error
        numbers = elements(queries.get_column(RUN_NUMBER))
        has_rankings = np.bincount(numbers) > 0
        runs, places = np.flatnonzero(has_rankings), np.cumsum(has_rankings) - 1
        rows = np.repeat(np.arange(queries.height), queries.get_column(_RANKINGS).to_numpy())
        cells = rows * len(runs) + places[numbers]
        filled = np.zeros(queries.height * len(runs), dtype=bool)
        filled[cells] = True
        if np.count_nonzero(filled) < len(cells):
            ranking = pl.struct(*self.groups, self.run, *self.query)
            raise data_error(self.rows, {self.duplicates: ranking.is_duplicated()})
        earliest = filled.reshape(-1, len(runs)).argmax(axis=1)
        new_queries = np.bincount(earliest, minlength=len(runs))
        keys = queries.get_column(KEY).to_numpy()
        weights = np.ones(queries.height)
        if self.weight is not None:
            weights = queries.get_column(_WEIGHT).to_numpy()
        for index in range(len(self.selected)):
            lists = queries.get_column(_column(index))
            matrix, known = np.full(len(filled), np.nan), np.zeros(len(filled), dtype=bool)
            matrix[cells], known[cells] = elements(lists), _are_known(lists)
            values, known = (each.reshape(-1, len(runs)) for each in (matrix, known))
            yield Cells(runs, new_queries, values, known, weights, keys)

    def _check(self, variable: Variable, values: Array, weights: Array) -> None:
        """Raise for values or weights that cannot be squared and added."""
        np = numpy()
        too_large = abs(values).max(initial=0.0) > LARGE
        sums: dict[str, Any] = {
            "mean": values.sum(),
            "squares": np.inf if too_large else 0.0,
            "weight": weights.sum(),
            "weight_squares": weights @ weights,
        }
        columns = {name: pl.Series(name, [float(value)]) for name, value in sums.items()}
        check_sums(columns, self.rows, [variable], self.weight)


def numbered_runs(rows: pl.LazyFrame, run: str) -> pl.LazyFrame:
    """Return the runs of a table in sorted order, with their numbers."""
    return rows.select(run).unique().sort(run).with_row_index(RUN_NUMBER)


def _column(index: int) -> str:
    """Return the name of the lists of a metric."""
    return f"{OWN}{index} "


def elements(lists: pl.Series) -> Array:
    """Return the elements of all lists of a column.

    `Series.explode` runs a query, which callbacks of a plan must not do.
    """
    return pl.Series(lists.to_arrow().flatten()).to_numpy()


def _are_known(lists: pl.Series) -> Array:
    """Return whether the elements of all lists of a column are not null."""
    return lists.to_arrow().flatten().is_valid().to_numpy(zero_copy_only=False)
