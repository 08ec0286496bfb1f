"""Moments of all pairs of runs, over the queries with a value in all runs of a group.

A unit of weight w has the values y_i = Σw(x_i - m_i) of the runs, as in `simultaneous`. The moments
of a run are those of its values and of its differences from each of the other runs, which can be
merged like other moments. A part in which a run has no rankings has no query with a value in all
runs, so it adds only to the number of queries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, check_column
from polars_rank.errors import ArgumentError, DataError
from polars_rank.frames.tables import schema_of
from polars_rank.stats import moment_math
from polars_rank.stats.per_query_tables import in_order
from polars_rank.stats.resampling import numpy
from polars_rank.stats.run_matrices import RUN_NUMBER, GroupSums, numbered_runs
from polars_rank.stats.simultaneous import RunSums, units_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from polars_rank.stats.run_matrices import RunMatrices

#: Column of moments with the sums of a run and of its differences from the others.
ALL_PAIRS = "all_pairs"

#: Numbers of queries: with a value in all runs; and without a ranking in an earlier run, so that
#: the sum over all runs is the number of queries.
_COUNTS = ("queries", "new_queries")
#: Σw of the queries, m of the run, and Σw², Σwy and Σy² of the units.
_OF_UNITS = ("weight_squares", "deviations", "unit_squares")
_SUMS = ("weight", "mean", *_OF_UNITS)
#: The same of the differences from each other run, in the order of the runs `others`. These lists
#: are empty if no query has a value in all runs.
_DIFFERENCES = tuple("difference_" + part for part in moment_math.COMPANION_PARTS)
_FIELDS = (*_COUNTS, *_SUMS, "others", *_DIFFERENCES)

_OWN = {name: OWN + name for name in _FIELDS}
_RUNS, _IN_ALL = OWN + "runs", OWN + "in all runs"


def check_all_pairs(schema: pl.Schema, run: str | None, *, predictions: bool) -> None:
    """Raise `ArgumentError` if sums of all pairs cannot be computed."""
    if run is None:
        raise ArgumentError("`all_pairs` needs `run`, the column of the runs")
    check_column("run", run, schema)
    if predictions:
        raise ArgumentError("`all_pairs` does not support `predictions`; use `baseline`")


def with_all_pairs(moments: pl.LazyFrame, matrices: RunMatrices) -> pl.LazyFrame:
    """Return moments with the column `ALL_PAIRS`, given the values of all runs."""
    groups, run = matrices.groups, matrices.run
    runs = matrices.run_numbers().cache()
    given, number = schema_of(matrices.rows), schema_of(runs)[RUN_NUMBER]
    schema = pl.Schema(
        {
            **{name: given[name] for name in groups},
            "metric": pl.String(),
            RUN_NUMBER: number,
            **{_OWN[name]: pl.Int64() for name in _COUNTS},
            **{_OWN[name]: pl.Float64() for name in _SUMS},
            _OWN["others"]: pl.List(number),
            **{_OWN[name]: pl.List(pl.Float64) for name in _DIFFERENCES},
        }
    )

    def sums(lists: pl.DataFrame) -> pl.DataFrame:
        return pl.DataFrame([*_of_values(matrices, lists)], schema, orient="row")

    names = runs.select(pl.col(run).sort_by(RUN_NUMBER).implode().alias(_RUNS))
    of_runs = matrices.lists(runs).map_batches(sums, schema=schema).join(runs, on=RUN_NUMBER)
    named = of_runs.join(names, how="cross").with_columns(
        pl.col(_RUNS).list.gather(pl.col(_OWN["others"])).alias(_OWN["others"])
    )
    keys = [*groups, "metric", run]
    pairs = named.select(*keys, _struct())
    return moments.join(pairs, on=keys, how="left", nulls_equal=True, maintain_order="left")


def _struct() -> pl.Expr:
    return pl.struct(pl.col(column).alias(name) for name, column in _OWN.items()).alias(ALL_PAIRS)


def _of_values(matrices: RunMatrices, lists: pl.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Yield a row for each group, metric and run."""
    np = numpy()
    for key, matrix in matrices.matrices(lists):
        sums, units = units_of(matrix.values, matrix.weights, matrix.keys)
        deviations = units.weights @ units.influences
        means, runs, queries = sums.means, matrix.runs, len(matrix.values)
        for i, run in enumerate(runs):
            others = (np.arange(len(runs)) != i) & (queries > 0)
            yield (
                *key, int(run), queries, int(matrix.new_queries[i]), sums.weight,
                *_known([means[i]]), sums.weight_squares,
                *_known([deviations[i], sums.unit_squares[i]]), runs[others].tolist(),
                _known(means[i] - means[others]), _known(deviations[i] - deviations[others]),
                _known(sums.squares[i][others]),
            )  # fmt: skip


def _known(values: Any) -> list[float | None]:
    """Return floats, with None for NaN."""
    return [None if value != value else float(value) for value in values]  # noqa: PLR0124


def merged_pairs(table: pl.LazyFrame, keys: Sequence[str], run: str) -> pl.LazyFrame:
    """Return the keys, and `ALL_PAIRS` of the union of the rows with the same keys.

    Queries of a part that lacks a run of another part are not in all runs, so they are not added.
    """
    fields = (pl.col(ALL_PAIRS).struct.field(name).alias(_OWN[name]) for name in _FIELDS)
    runs = pl.col(run).n_unique().over([name for name in keys if name != run])
    in_all = pl.col(_OWN["others"]).list.len() + 1 == runs
    parts = table.select(*keys, *fields).with_columns(in_all.alias(_IN_ALL)).cache()
    added = ("queries", "weight", *_OF_UNITS)
    counts = (pl.col(_OWN[name]).sum() for name in (*_COUNTS, "weight", "weight_squares"))
    of_runs = (
        parts.with_columns(pl.when(_IN_ALL).then(_OWN[name]).alias(_OWN[name]) for name in added)
        .group_by(keys)
        .agg(*counts, *moment_math.merged_companion(OWN, OWN))
    )
    lists = [_OWN["others"], *(_OWN[name] for name in _DIFFERENCES)]
    of_others = (
        parts.filter(_IN_ALL, pl.col(_OWN["others"]).list.len() > 0)
        .explode(lists)
        .group_by([*keys, _OWN["others"]])
        .agg(moment_math.merged_companion(OWN + "difference_", OWN))
        .group_by(keys)
        .agg(pl.col(name).sort_by(_OWN["others"]) for name in lists)
    )
    joined = of_runs.join(of_others, on=keys, how="left", nulls_equal=True)
    return joined.with_columns(pl.col(lists).fill_null([])).select(*keys, _struct())


class RunMoments(NamedTuple):
    """Moments of groups and runs with the column `ALL_PAIRS`, and the names of their columns."""

    rows: pl.LazyFrame
    groups: Sequence[str]
    run: str
    is_weighted: bool

    def run_numbers(self) -> pl.LazyFrame:
        """Return the runs in sorted order, with their numbers."""
        return numbered_runs(self.rows, self.run)

    def lists(self, run_numbers: pl.LazyFrame) -> pl.LazyFrame:
        """Return one row per group and metric with lists of its runs and of their sums."""
        fields = (pl.col(ALL_PAIRS).struct.field(name).alias(_OWN[name]) for name in _FIELDS)
        rows = in_order(self.rows, self.groups, [self.run])
        numbered = rows.join(
            run_numbers, on=self.run, nulls_equal=True, maintain_order="left"
        ).select(*self.groups, "metric", "aggregate", RUN_NUMBER, *fields)
        return numbered.group_by([*self.groups, "metric", "aggregate"], maintain_order=True).agg(
            pl.all()
        )

    def sums(self, lists: pl.DataFrame) -> Iterator[GroupSums]:
        """Return the sums of each group and metric from the rows of `lists`."""
        for row in lists.iter_rows(named=True):
            if row["aggregate"] != "mean":
                raise DataError(
                    f"the metric {row['metric']!r} is not a mean over queries; name other metrics"
                )
            fields = {name: row[column] for name, column in _OWN.items()}
            yield _of_moments(
                (*(row[name] for name in self.groups), row["metric"]), row[RUN_NUMBER], fields
            )


def _of_moments(key: tuple[Any, ...], runs: list[int], fields: dict[str, Any]) -> GroupSums:
    """Return the sums of a group from lists with the fields of its runs."""
    np = numpy()
    count, rankings = len(runs), sum(fields["new_queries"])
    if any(len(others) < count - 1 for others in fields["others"]):  # no part has all runs
        unknown = np.full(count, np.nan)
        nothing = RunSums(unknown, np.full((count, count), np.nan), unknown, 0.0, 0.0)
        return GroupSums(key, np.array(runs), 0, rankings, nothing)
    squares = np.zeros((count, count))
    squares[~np.eye(count, dtype=bool)] = np.concatenate(fields["difference_unit_squares"])
    sums = RunSums(
        np.array(fields["mean"], dtype=float), squares, np.array(fields["unit_squares"]),
        fields["weight"][0], fields["weight_squares"][0],
    )  # fmt: skip
    queries = fields["queries"][0]
    return GroupSums(key, np.array(runs), queries, rankings - queries, sums)
