"""The rows of a group of per-query values, as arrays: those of each run and of each query."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import DataError, number_of
from polars_rank.stats._arrays import Array, numpy
from polars_rank.stats.estimate import Estimate, Facts

if TYPE_CHECKING:
    from polars_rank.stats.values import Values


#: Prefix of columns that say whether a value is undefined.
UNDEFINED = OWN + "undefined "

PLACE, LOW, HIGH = OWN + "place", OWN + "low", OWN + "high"


class Pair(NamedTuple):
    """The rows of the queries that two runs have in common, and the numbers of these queries."""

    run: Any
    baseline: Any
    rows: Array
    of_baseline: Array
    queries: Array
    #: The rows of queries that only one of the runs has.
    missing: Array


@dataclass(frozen=True, eq=False)
class Group:
    """The rows of one value of `by`."""

    source: Values
    key: tuple[Any, ...]
    frame: pl.DataFrame
    _arrays: dict[str, Array] = field(default_factory=dict)

    def column(self, name: str) -> Array:
        """Return a column of numbers, NaN where it is null."""
        if name not in self._arrays:
            self._arrays[name] = self.frame.get_column(name).cast(pl.Float64).to_numpy()
        return self._arrays[name]

    def release(self, metric: str) -> None:
        """Release the memory of the columns of a metric."""
        self._arrays.pop(metric, None)

    @cached_property
    def rows(self) -> dict[Any, Array]:
        """The numbers of the rows of each run, in the order of the runs."""
        np = numpy()
        if self.source.run is None:
            return {None: np.arange(self.frame.height)}
        names = self.frame.select(self.source.run)
        if names.schema[self.source.run] == pl.String:
            names = names.cast(pl.Categorical)  # runs are few
        codes, runs = coded(names, (self.source.run,))
        return {run: np.flatnonzero(codes == code) for code, run in enumerate(runs.to_series())}

    @cached_property
    def weights(self) -> Array | None:
        """The weight of each row; None if all are 1."""
        return None if self.source.weight is None else self.column(self.source.weight)

    @cached_property
    def units(self) -> Array | None:
        """The number of the cluster of each row; a row without a cluster has its query's own."""
        if not self.source.cluster:
            return None
        np = numpy()
        codes, clusters = coded(self.frame, self.source.cluster)
        lone = clusters.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy()[codes]
        own = (
            coded(self.frame, self.source.query)[0] if self.source.query else np.arange(len(codes))
        )
        return np.where(lone, clusters.height + own, codes)

    @property
    def n_units(self) -> int:
        """The number of queries, or an upper bound of the numbers of clusters."""
        if self.units is not None:
            return int(self.units.max(initial=-1)) + 1
        return len(next(iter(self.aligned.values()), ()))

    def undefined(self, metric: str, *runs: Array) -> int:
        """Return the number of rows of runs with an undefined value in one of them."""
        column = self.frame.get_column(UNDEFINED + metric)
        if not column.any():
            return 0
        undefined = column.to_numpy()
        return int(numpy().logical_or.reduce([undefined[rows] for rows in runs]).sum())

    def check_equal(self, rows: Array, others: Array, run: Any, baseline: Any) -> None:
        """Raise `DataError` if a query has different weights, clusters or slices in two runs."""
        weight = () if self.source.weight is None else (self.source.weight,)
        roles: dict[str, tuple[str, ...]] = {
            "weight": weight, "cluster": self.source.cluster, "slice": self.source.slices,
        }  # fmt: skip
        for role, columns in roles.items():
            for name in columns:
                if name in self.source.query:
                    continue
                column = self.frame.get_column(name)
                left, right = column[rows], column[others]
                differ = left.ne_missing(right)
                if differ.any():
                    place = int(differ.arg_max() or 0)
                    query = self.frame.select(self.source.query).row(int(rows[place]), named=True)
                    raise DataError(
                        f"a query has different {role}s in two runs (column {name!r}) in "
                        f"{number_of(int(differ.sum()), 'query', 'queries')}, e.g. {query}: "
                        f"{left[place]!r} in {run!r} and {right[place]!r} in {baseline!r}; use one "
                        f"{role} per query"
                    )

    @cached_property
    def aligned(self) -> dict[Any, Array]:
        """The numbers of the rows of each run, by query; -1 where a run does not have the query.

        Raise `DataError` for a query that a run has twice.
        """
        np = numpy()
        queries = self.frame.select(self.source.query)
        blocks = [queries[rows] for rows in self.rows.values()]
        self.check_unique()
        if all(block.equals(blocks[0]) for block in blocks[1:]):
            return self.rows
        codes, ids = coded(self.frame, self.source.query)
        result = {}
        for run, rows in self.rows.items():
            result[run] = np.full(ids.height, -1)
            result[run][codes[rows]] = rows
        return result

    def pairs(self, runs: Sequence[tuple[Any, Any]], baseline: Any) -> list[Pair]:
        """Return the pairs of runs that the group has, or all if there is one baseline.

        Raise if a query has different weights, clusters or slices in two runs.
        """
        np, pairs = numpy(), []
        for run, other in runs:
            if other not in self.rows or (run not in self.rows and baseline is None):
                continue
            base = self.aligned[other]
            rows = self.aligned.get(run, np.full(len(base), -1))
            of_run, of_base = rows >= 0, base >= 0
            missing = np.concatenate([rows[of_run & ~of_base], base[of_base & ~of_run]])
            queries = np.flatnonzero(of_run & of_base)
            if len(queries) < len(rows):
                rows, base = rows[queries], base[queries]
            self.check_equal(rows, base, run, other)
            pairs.append(Pair(run, other, rows, base, queries, missing))
        return pairs

    def estimate(
        self, values: Array, rows: Array, facts: Facts, **options: Any
    ) -> tuple[Estimate, Array | None, Array]:
        """Return the estimate from values of some rows, and the influence values of their units.

        The second element are the numbers of the units; None if each row is a unit.
        """
        weight, unit = (None if each is None else each[rows] for each in (self.weights, self.units))
        estimate, influence, units = Estimate.of(values, facts, weight=weight, unit=unit, **options)
        return estimate, units, influence[0]

    def check_unique(self) -> None:
        """Raise `DataError` for a query that a run has twice."""
        queries = self.frame.select(self.source.query)
        for rows in self.rows.values():
            block = queries[rows]
            if has_duplicates(block):
                twice = block.filter(block.is_duplicated()).sort(self.source.query)
                ranking = {**dict(zip(self.source.by, self.key, strict=True))}
                if self.source.run is not None:
                    ranking[self.source.run] = self.frame.get_column(self.source.run)[int(rows[0])]
                ranking |= twice.row(0, named=True)
                raise DataError(
                    f"duplicate rankings: "
                    f"{', '.join(map(repr, self.source.keys))} do not identify a row in "
                    f"{number_of(twice.height, 'row')}, e.g. {ranking}; average the rows of each "
                    "query, or name all columns that identify a ranking in `query` or `by`; if the "
                    "same queries recur, such as every day, also pass "
                    f'cluster="{self.source.query[0]}"'
                )

    def counted(self, metric: str, *runs: Array, places: Array | None = None) -> list[Array]:
        """Return the given rows of runs, without queries that do not count in one of them.

        `places` are numbers that are left out with them.
        """
        np = numpy()
        kept = runs if places is None else (*runs, places)
        unknown = []
        if self.frame.get_column(metric).null_count():
            unknown = [np.isnan(self.column(metric)[rows]) for rows in runs]
        if self.weights is not None:
            unknown.append(self.weights[runs[0]] == 0)
        if not unknown:
            return list(kept)
        counts = ~np.logical_or.reduce(unknown)
        return list(kept) if counts.all() else [each[counts] for each in kept]

    def slices(
        self, rows: Array, others: Sequence[int] = ()
    ) -> Iterator[tuple[str, str | None, Array, int]]:
        """Yield each slice of rows: its column, its value as text, and the places of its rows.

        The last element is the number of `others` in the slice, which may be all of its rows.
        """
        np = numpy()
        for name in self.source.slices:
            codes, values = coded(self.frame, (name,))
            of_rows = codes[rows]
            order = np.argsort(of_rows, kind="stable")
            ends = np.searchsorted(of_rows[order], np.arange(values.height + 1))
            numbers = np.bincount(codes[np.asarray(others, dtype=int)], minlength=values.height)
            for code, text in enumerate(values.to_series().cast(pl.String)):
                places = order[ends[code] : ends[code + 1]]
                if len(places) or numbers[code]:
                    yield name, text, places, int(numbers[code])


#: Types of columns that Arrow numbers faster than Polars, and the number of rows up to which
#: Python does, without the import of Arrow's functions.
_SIMPLE, _FEW = (pl.String, pl.Int64, pl.Int32, pl.UInt32), 10_000


def coded(frame: pl.DataFrame, columns: Sequence[str]) -> tuple[Array, pl.DataFrame]:
    """Return a number for each row, equal for equal values, and the values in sorted order."""
    np = numpy()
    if len(columns) == 1 and frame.schema[columns[0]] in _SIMPLE:
        column = frame.get_column(columns[0])
        if frame.height <= _FEW:
            each_row = column.to_list()
            known = sorted({*each_row}, key=lambda value: (value is not None, value))
            code_of = {value: code for code, value in enumerate(known)}
            codes = np.array([code_of[value] for value in each_row], dtype="int64")
            return codes, pl.Series(column.name, known, column.dtype).to_frame()
        encoded = column.to_arrow(compat_level=pl.CompatLevel.oldest()).dictionary_encode("encode")
        found = pl.Series(column.name, encoded.dictionary, column.dtype)
        order = found.arg_sort(nulls_last=False).to_numpy()
        place_of = np.empty(len(order), dtype="int64")
        place_of[order] = np.arange(len(order))
        return place_of[encoded.indices.to_numpy(zero_copy_only=False)], found[order].to_frame()
    number = OWN + "number"
    different = frame.select(columns).unique().sort(columns, nulls_last=False)
    numbered = different.with_row_index(number)
    joined = frame.select(columns).join(
        numbered, on=list(columns), how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.get_column(number).cast(pl.Int64).to_numpy(), different


def has_duplicates(frame: pl.DataFrame) -> bool:
    """Return whether two rows are equal."""
    if frame.width == 1:
        column = frame.to_series()
        if not column.dtype.is_nested() and not column.null_count() and column.is_sorted():
            return bool((column == column.shift(1)).any())
    return frame.n_unique() < frame.height
