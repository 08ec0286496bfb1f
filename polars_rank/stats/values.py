"""Per-query values with the columns of each role, and the rows of their groups as arrays.

The table is collected once, when a result is collected. Then everything is arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, Names, free
from polars_rank._polars import FewRows
from polars_rank.columns import RUN, Columns
from polars_rank.errors import DataError, Finding, number_of, warn
from polars_rank.frames.tables import collected, own_name, schema_of
from polars_rank.stats._arrays import Array, np, require_scipy
from polars_rank.stats.estimate import LARGE, Estimate, Facts
from polars_rank.stats.result_columns import ResultColumn, deferred, series_of
from polars_rank.stats.value_columns import Variable, unknown_run, variables

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics


#: Prefix of columns that say whether a value is undefined.
UNDEFINED = OWN + "undefined "

PLACE, LOW, HIGH = OWN + "place", OWN + "low", OWN + "high"
#: Names of columns of days, and prefix of columns with their number.
_DAYS, _NUMBER = ("day", "date"), OWN + "number of "


class Key(NamedTuple):
    """What a row of a result is about."""

    group: tuple[Any, ...]
    metric: str
    run: Any
    baseline: Any = None
    slice: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class Values:
    """A table of per-query values, and the columns of each role."""

    table: pl.LazyFrame
    metrics: Sequence[Variable]
    by: tuple[str, ...]
    run: str | None
    query: tuple[str, ...]
    weight: str | None = None
    cluster: tuple[str, ...] = ()
    slices: tuple[str, ...] = ()
    #: Columns of days that are not clusters, of which repeated estimates warn.
    days: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        table: pl.LazyFrame,
        metrics: Metrics | None,
        *,
        run: str | None,
        query: Names,
        by: Names | None,
        weight: str | None = None,
        cluster: Names | None = None,
        slices: Names | None = None,
        needs_query: bool = True,
        needs_run: bool = True,
        is_repeated: bool = False,
    ) -> Values:
        """Return the values of a table; raise if a column is missing or used twice."""
        require_scipy()
        schema = schema_of(table)
        roles = {
            "run": run, "by": by, "query": query, "weight": weight, "cluster": cluster,
            "slices": slices,
        }  # fmt: skip
        optional = [*([] if needs_run else [RUN]), *([] if needs_query else ["query"])]
        columns = Columns.find(schema, roles, optional=optional)
        for column in schema:
            if column.startswith(OWN):
                raise own_name(column)
        if not columns.query:
            warn(
                "column 'query' (`query`) not found, so each row counts as a query; name the "
                "columns that identify a query with `query`"
            )
        selected = variables(schema, metrics, taken=columns.parameters)
        cluster, slices = columns.roles["cluster"], columns.roles["slices"]
        days = [
            name for name, dtype in schema.items()
            if (name in _DAYS or dtype in (pl.Date, pl.Datetime)) and name not in cluster
        ]  # fmt: skip
        return cls(
            table, selected, columns.groups, columns.run, columns.query, weight, cluster, slices,
            tuple(days) if is_repeated else (),
        )  # fmt: skip

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify a row: those of groups, runs and queries."""
        runs = () if self.run is None else (self.run,)
        return tuple(dict.fromkeys((*self.by, *runs, *self.query)))

    @property
    def lower_is_better(self) -> dict[str, bool]:
        """Whether a lower mean is better, by metric."""
        return {each.name: each.lower_is_better for each in self.metrics}

    @property
    def schema(self) -> pl.Schema:
        """The types of all columns of the table."""
        return schema_of(self.table)

    def facts_and_groups(self) -> tuple[dict[str, Facts], list[Group]]:
        """Collect and check the table; return the facts of each metric, and the groups in order."""
        frame = self.collected(self.table)
        facts, groups = self.checked(frame), self.groups(frame)
        if len(self.query) > 1 and not self.cluster:
            self._warn_of_recurring(groups)
        self._warn_of_days(frame)
        return facts, groups

    def collected(self, table: pl.LazyFrame) -> pl.DataFrame:
        """Return the columns of all roles, and of the metrics."""
        kept = dict.fromkeys((*self.keys, *self.cluster, *self.slices))
        columns = [*map(pl.col, kept), *(each.value for each in self.metrics)]
        columns += [
            pl.col(each.name).is_null().alias(UNDEFINED + each.name) for each in self.metrics
        ]
        if self.weight is not None and self.weight not in kept:
            columns.append(pl.col(self.weight).cast(pl.Float64))
        for name in self.days:
            day = pl.col(name).dt.date() if self.schema[name] == pl.Datetime else pl.col(name)
            columns.append(day.n_unique().alias(_NUMBER + name))
        return collected(table.select(columns), few=isinstance(table, FewRows))

    def _warn_of_recurring(self, groups: Sequence[Group]) -> None:
        """Warn if each part of a query of several columns occurs in several queries."""
        for group in groups:
            for rows in group.rows.values():
                queries = group.frame.select(self.query)[rows]
                numbers = {name: queries.get_column(name).n_unique() for name in self.query}
                if max(numbers.values()) < queries.height:
                    name = max(numbers, key=lambda each: numbers[each])
                    warn(
                        f"the same values of {name!r} recur in several queries "
                        f"({queries.height:,} queries, {numbers[name]:,} different values): if "
                        "they are the same query, such as on several days, intervals are too "
                        f'narrow; pass cluster="{name}", or cluster={[*self.query]} if they are '
                        "different"
                    )
                    return

    def _warn_of_days(self, frame: pl.DataFrame) -> None:
        """Warn of values of several days that are not clusters."""
        for name in self.days:
            number: Any = frame.get_column(_NUMBER + name).first() or 0
            if number > 1:
                warn(
                    f"the values are of {number:,} different days (column {name!r}), and days "
                    "differ: with `repeated=True`, intervals are too narrow for what the next days "
                    f'bring; pass cluster="{name}", or the name of a column of days'
                )

    def groups(self, frame: pl.DataFrame) -> list[Group]:
        """Return the groups of a table in order."""
        if not self.by:
            return [Group(self, (), frame)]
        parts = frame.partition_by(self.by, maintain_order=True, as_dict=True)
        types = {name: frame.schema[name] for name in self.by}
        keys = pl.DataFrame([*parts], schema=types, orient="row").with_row_index(PLACE)
        order = keys.sort(self.by).get_column(PLACE)
        keyed = [*parts.items()]
        return [Group(self, *keyed[place]) for place in order]

    def compared(self, groups: Sequence[Group], baseline: Any) -> list[tuple[Any, Any]]:
        """Return the pairs of runs to compare; raise if there are none."""
        names = list(dict.fromkeys(name for group in groups for name in group.rows))
        runs = pl.Series(names, dtype=self.schema[str(self.run)]).sort().to_list()
        if baseline is None:
            pairs = [(run, other) for place, other in enumerate(runs) for run in runs[place + 1 :]]
        elif runs and baseline not in runs:
            raise unknown_run(str(self.run), runs, "baseline", baseline)
        else:
            pairs = [(run, baseline) for run in runs if run != baseline]
        if runs and not pairs:
            raise DataError(
                f"the column {self.run!r} has only the run {runs[0]!r}; put the per-query values "
                "of all runs in one table"
            )
        return pairs

    def checked(self, frame: pl.DataFrame) -> dict[str, Facts]:
        """Return the facts of each metric; raise `DataError` for invalid values and weights."""
        names = [each.name for each in self.metrics]
        sums = frame.select(
            each
            for name in names
            for value in [pl.col(name)]
            for each in (
                value.min().alias(LOW + name), value.max().alias(HIGH + name),
                value.is_nan().any().alias(PLACE + name),
                ((value != 0) & (value != 1)).sum().alias(name),
            )
        ).row(0, named=True)  # fmt: skip
        problems: dict[str, pl.Expr] = {}
        for name in names:
            low, high, value = sums[LOW + name] or 0, sums[HIGH + name] or 0, pl.col(name)
            if sums[PLACE + name] or max(-low, high) > LARGE:
                is_finite = value.is_finite()
                problems |= {
                    f"NaN or infinite values in the column {name!r}; use null for undefined":
                        ~is_finite,
                    f"values above {LARGE:g} in the column {name!r}, whose squares overflow; "
                    "divide all values by a number": is_finite & (value.abs() > LARGE),
                }  # fmt: skip
        if self.weight is not None:
            value = pl.col(self.weight).cast(pl.Float64)
            valid = ((value >= 0) & value.is_finite()).fill_null(value=False)
            fits = (value == 0) | value.is_between(1 / LARGE, LARGE)
            column = f"in the column {self.weight!r}"
            problems |= {
                f"null, negative, NaN or infinite weights {column}": ~valid,
                f"weights {column} whose squares overflow or underflow; multiply all weights by a "
                "number": valid & ~fits,
            }
        findings = []
        for problem, condition in problems.items():
            if (rows := frame.filter(condition)).height:
                row = rows.row(0, named=True)
                example = {name: row[name] for name in row if not name.startswith(OWN)}
                findings.append(Finding(problem, rows.height, example))
        if findings:
            raise DataError.of(findings)
        return {
            n: Facts.of(sums[LOW + n], sums[HIGH + n], sums[n], each.bounds)
            for each in self.metrics
            for n in [each.name]
        }

    def result(
        self,
        columns: Iterable[ResultColumn],
        estimates: Callable[[], tuple[Sequence[Key], Any]],
        *,
        pairs: bool = False,
        details: bool = False,
        features: Collection[str] = (),
    ) -> pl.LazyFrame:
        """Return the table of estimates, with the columns of groups, the metric and runs.

        `estimates` returns the keys of the rows, and what the result columns are computed from;
        `features` are those of the call that have columns.
        """
        known = {None, *features, *(["slices"] if self.slices else [])}
        columns = [c for c in columns if c.only in known and (details or not c.is_detail)]
        types = {each.name: each.dtype for each in columns}
        schema, runs = self.schema, () if self.run is None else (self.run,)
        free([*self.by, *runs], ["metric", *(["baseline"] * pairs), *types])
        of_run = pl.String() if self.run is None else schema[self.run]
        keys = {name: schema[name] for name in self.by} | {"metric": pl.String()}
        keys |= dict.fromkeys((*runs, *(["baseline"] * pairs)), of_run)

        def result() -> pl.DataFrame:
            found, values = estimates()
            parts = [
                (*key.group, key.metric, *([key.run] if runs else ()), key.baseline)
                for key in found
            ]
            head = [
                pl.Series(name, [part[place] for part in parts], dtype)
                for place, (name, dtype) in enumerate(keys.items())
            ]
            series = [*head, *(series_of(each, values) for each in columns)]
            # Columns may have empty names.
            return pl.DataFrame({each.name: each for each in series})

        return deferred(result, {**keys, **types})


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
        codes, clusters = coded(self.frame, self.source.cluster)
        lone = clusters.select(pl.any_horizontal(pl.all().is_null())).to_series().to_numpy()[codes]
        query = self.source.query
        own = coded(self.frame, query)[0] if query else np.arange(len(codes))
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
        return int(np.logical_or.reduce([undefined[rows] for rows in runs]).sum())

    def check_equal(self, rows: Array, others: Array, run: Any, baseline: Any) -> None:
        """Raise `DataError` if a query has different weights, clusters or slices in two runs."""
        source = self.source
        roles = {} if source.weight is None else {source.weight: "weight"}
        roles |= dict.fromkeys(source.cluster, "cluster") | dict.fromkeys(source.slices, "slice")
        for name in [each for each in roles if each not in source.query]:
            column = self.frame.get_column(name)
            left, right = column[rows], column[others]
            differ = left.ne_missing(right)
            if differ.any():
                place = int(differ.arg_max() or 0)
                query = self.frame.select(source.query).row(int(rows[place]), named=True)
                raise DataError(
                    f"a query has different {roles[name]}s in two runs (column {name!r}) in "
                    f"{number_of(int(differ.sum()), 'query', 'queries')}, e.g. {query}: "
                    f"{left[place]!r} in {run!r} and {right[place]!r} in {baseline!r}; use one "
                    f"{roles[name]} per query"
                )

    @cached_property
    def aligned(self) -> dict[Any, Array]:
        """The numbers of the rows of each run, by query; -1 where a run does not have the query.

        Raise `DataError` for a query that a run has twice.
        """
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
        pairs = []
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

        The second element has the numbers of the units; None if each row is a unit.
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
        kept = runs if places is None else (*runs, places)
        unknown = []
        if self.frame.get_column(metric).null_count():
            unknown = [np.isnan(self.column(metric)[rows]) for rows in runs]
        if self.weights is not None:
            unknown.append(self.weights[runs[0]] == 0)
        counts = ~np.logical_or.reduce(unknown) if unknown else np.True_
        return list(kept) if counts.all() else [each[counts] for each in kept]

    def slices(
        self, rows: Array, others: Sequence[int] = ()
    ) -> Iterator[tuple[str, str | None, Array, int]]:
        """Yield each slice of rows: its column, its value as text, and the places of its rows.

        The last element is the number of `others` in the slice, which may be all of its rows.
        """
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
