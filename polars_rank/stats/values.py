"""Per-query values with their columns, and the samples that statistics compute with.

The table is collected once, when a result is collected. Then everything is arrays: a `Group` has
the rows of one value of `by`, and knows the rows of each run and of each query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import (
    OWN,
    Names,
    check_column,
    check_type,
    find_columns,
    names,
    used_twice,
)
from polars_rank._polars import is_in_memory
from polars_rank.columns import default_column
from polars_rank.conventions import POLARS_RANK, Conventions, counted_as, preset_of
from polars_rank.errors import (
    ArgumentError,
    DataError,
    Finding,
    SchemaError,
    number_of,
    short,
    warn,
)
from polars_rank.evaluation.means import CONVENTIONS, NUM_RETRIEVED
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import collected, lazy, own_name, schema_of
from polars_rank.metrics.names import listed, lower_is_better, output_name, read
from polars_rank.stats._arrays import Array, numpy, special
from polars_rank.stats.kernel import LARGE
from polars_rank.stats.predictions import HUMAN, check_predictions, with_predictions

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics

#: The column of judges that `per_query` adds.
JUDGE = "judge"
#: Number of groups and runs that a message names.
_EXAMPLES = 5
#: Prefix of columns: whether a value is undefined.
UNDEFINED = OWN + "undefined "
PLACE, LOW, HIGH = OWN + "place", OWN + "low", OWN + "high"


class Variable(NamedTuple):
    """A column of per-query values."""

    name: str
    #: The value that an undefined (null) value counts as; None if it does not count.
    fill: float | None = None
    lower_is_better: bool = False

    @property
    def value(self) -> pl.Expr:
        """The values as floats, null where they do not count."""
        return self.of(pl.col(self.name))

    def of(self, column: pl.Expr) -> pl.Expr:
        """Return the values of another column, filled in the same way."""
        value = column.cast(pl.Float64)
        return value if self.fill is None else value.fill_null(self.fill)


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
    #: Per-query values from predicted labels, for all queries.
    predictions: pl.LazyFrame | None = None

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
        predictions: Any = None,
        needs_query: bool = True,
        needs_run: bool = True,
    ) -> Values:
        """Return the values of a table; raise if a column is missing or used twice."""
        special()
        schema = schema_of(table)
        runs = run_column(schema, run, required=needs_run)
        queries = query_columns(schema, query, required=needs_query)
        given = {
            "by": by, "run": runs, "query": queries, "weight": weight, "cluster": cluster,
            "slices": slices,
        }  # fmt: skip
        columns = find_columns(schema, given, numbers=("weight",))
        for parameter, named in columns.items():
            for column in named:
                check_type(parameter, column, schema[column], "value")
        for column in schema:
            if column.startswith(OWN):
                raise own_name(column)
        # With predictions, the judges of the two tables differ.
        groups = columns["by"] if predictions is not None else with_judge(schema, columns, metrics)
        taken = {name: parameter for parameter, each in columns.items() for name in each}
        taken |= dict.fromkeys(groups, "by")
        table, conventions = with_conventions(table, schema)
        selected = variables(schema, metrics, conventions, taken)
        return cls(
            table, selected, groups, runs, columns["query"], weight, columns["cluster"],
            columns["slices"],
            None if predictions is None else lazy(predictions, "predictions"),
        )  # fmt: skip

    @property
    def is_weighted(self) -> bool:
        """Whether there are weights or clusters."""
        return self.weight is not None or bool(self.cluster)

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify a row: those of groups, runs and queries."""
        runs = () if self.run is None else (self.run,)
        return tuple(dict.fromkeys((*self.by, *runs, *self.query)))

    @property
    def schema(self) -> pl.Schema:
        """The types of all columns of the table."""
        return schema_of(self.table)

    @property
    def lower_is_better(self) -> dict[str, bool]:
        """Whether a lower mean is better, by metric."""
        return {each.name: each.lower_is_better for each in self.metrics}

    def facts_and_groups(self) -> tuple[dict[str, Facts], list[Group]]:
        """Collect and check the table; return the facts of each metric, and the groups in order."""
        frame = self.collected(self.table)
        if self.predictions is not None:
            frame = self._with_predictions(frame, self.predictions)
        people = HUMAN if self.predictions is not None else ""
        facts, groups = self._checked(frame, people), self._groups(frame)
        if len(self.query) > 1 and not self.cluster:
            self._warn_of_recurring(groups)
        return facts, groups

    def _with_predictions(self, human: pl.DataFrame, predictions: pl.LazyFrame) -> pl.DataFrame:
        """Return the rows of predictions with the values by people beside them."""
        metrics, keys = [each.name for each in self.metrics], list(self.keys)
        weight = () if self.weight is None else (self.weight,)
        columns = [*keys, *weight, *self.cluster, *self.slices]
        check_predictions(self.schema, schema_of(predictions), columns, metrics)
        judged = self.collected(predictions)
        roles = {**dict.fromkeys(weight, "weight"), **dict.fromkeys(self.cluster, "cluster")}
        return with_predictions(human, judged, keys, self.run, metrics, roles)

    def collected(self, table: pl.LazyFrame) -> pl.DataFrame:
        """Return the columns of all roles, and of the metrics with undefined values filled."""
        schema = schema_of(table)
        kept = dict.fromkeys((*self.keys, *self.cluster, *self.slices))
        columns = [*map(pl.col, kept), *(each.value for each in self.metrics)]
        columns += [
            pl.col(each.name).is_null().alias(UNDEFINED + each.name) for each in self.metrics
        ]
        if self.weight is not None and self.weight not in kept:
            columns.append(pl.col(self.weight).cast(pl.Float64))
        used = {*kept, self.weight, *(each.name for each in self.metrics)}
        if NUM_RETRIEVED in schema and NUM_RETRIEVED not in used:
            columns.append(pl.col(NUM_RETRIEVED))
        return collected(table.select(columns))

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

    def _groups(self, frame: pl.DataFrame) -> list[Group]:
        if not self.by:
            return [Group(self, (), frame)]
        parts = frame.partition_by(self.by, maintain_order=True, as_dict=True)
        types = {name: frame.schema[name] for name in self.by}
        keys = pl.DataFrame([*parts], schema=types, orient="row").with_row_index(PLACE)
        order = keys.sort(self.by).get_column(PLACE)
        keyed = [*parts.items()]
        return [Group(self, *keyed[place]) for place in order]

    def compared(
        self, groups: Sequence[Group], baseline: Any, *, every: bool
    ) -> list[tuple[Any, Any]]:
        """Return the pairs of runs to compare; raise if there are none."""
        runs = sorted_runs(groups, self.schema, str(self.run))
        if not every:
            if baseline not in runs and runs:
                raise unknown_run(str(self.run), runs, "baseline", baseline)
            pairs = [(run, baseline) for run in runs if run != baseline]
        else:
            pairs = [(run, other) for place, other in enumerate(runs) for run in runs[place + 1 :]]
        if runs and not pairs:
            raise DataError(
                f"the column {self.run!r} has only the run {runs[0]!r}; put the per-query values "
                "of all runs in one table"
            )
        return pairs

    def _checked(self, frame: pl.DataFrame, prefix: str) -> dict[str, Facts]:
        """Return the facts of each metric; raise `DataError` for invalid values and weights."""
        names = list(
            dict.fromkeys(n for each in self.metrics for n in (each.name, prefix + each.name))
        )
        sums = frame.select(
            each
            for name in names
            for value in [pl.col(name)]
            for each in (
                value.min().alias(LOW + name), value.max().alias(HIGH + name),
                value.is_nan().any().alias(PLACE + name),
                (value * (1 - value)).abs().sum().alias(name),
            )
        ).row(0, named=True)  # fmt: skip
        problems: dict[str, pl.Expr] = {}
        for name in names:
            low, high, value = sums[LOW + name], sums[HIGH + name], pl.col(name)
            shown = name.removeprefix(HUMAN)
            if sums[PLACE + name] or (low is not None and not (isfinite(low) and isfinite(high))):
                problem = f"NaN or infinite values in the column {shown!r}; use null for undefined"
                problems[problem] = ~value.is_finite()
            elif low is not None and max(-low, high) > LARGE:
                problem = (
                    f"values above {LARGE:g} in the column {shown!r}, whose squares overflow; "
                    "divide all values by a number"
                )
                problems[problem] = value.abs() > LARGE
        if self.weight is not None:
            value = pl.col(self.weight).cast(pl.Float64)
            valid = ((value >= 0) & value.is_finite()).fill_null(value=False)
            fits = (value == 0) | value.is_between(1 / LARGE, LARGE)
            column = f"in the column {self.weight!r}"
            of_weights = {
                f"null, negative, NaN or infinite weights {column}": ~valid,
                f"weights {column} whose squares overflow or underflow; multiply all weights by a "
                "number": valid & ~fits,
            }
            problems |= {
                problem: condition
                for problem, condition in of_weights.items()
                if frame.select(condition.any()).item()
            }
        findings = []
        for problem, condition in problems.items():
            rows = frame.filter(condition.fill_null(value=False))
            example = {
                name: value
                for name, value in rows.row(0, named=True).items()
                if not name.startswith(OWN)
            }
            findings.append(Finding(problem, rows.height, example))
        if findings:
            raise DataError.of(findings)
        return {
            each.name: Facts.of(*(sums[p + prefix + each.name] for p in (LOW, HIGH, "")))
            for each in self.metrics
        }


class Facts(NamedTuple):
    """What all values of a metric in a table have in common."""

    #: Whether all values are 0 or 1.
    is_binary: bool
    #: The range of the values; 1 if all are in [0, 1].
    range: float

    @classmethod
    def of(cls, low: float | None, high: float | None, between: float | None) -> Facts:
        """Return the facts of the lowest and highest value, and of the sum of |x (1 - x)|."""
        if low is None or high is None:
            return cls(is_binary=False, range=1.0)
        is_share = low >= 0 and high <= 1
        return cls(is_binary=between == 0, range=1.0 if is_share else high - low)


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

    @cached_property
    def rows(self) -> dict[Any, Array]:
        """The numbers of the rows of each run, in the order of the runs."""
        np = numpy()
        if self.source.run is None:
            return {None: np.arange(self.frame.height)}
        codes, runs = coded(self.frame, (self.source.run,))
        return {run[0]: np.flatnonzero(codes == code) for code, run in enumerate(runs)}

    @cached_property
    def weights(self) -> Array | None:
        """The weight of each row; None if all are 1."""
        return None if self.source.weight is None else self.column(self.source.weight)

    def has_nulls(self, metric: str) -> bool:
        """Return whether a value of a metric does not count."""
        return self.frame.get_column(metric).null_count() > 0

    @cached_property
    def units(self) -> Array | None:
        """The number of the cluster of each row; a row without a cluster has its query's own."""
        if not self.source.cluster:
            return None
        np = numpy()
        codes, clusters = coded(self.frame, self.source.cluster)
        lone = np.array([None in each for each in clusters], dtype=bool)[codes]
        own = (
            coded(self.frame, self.source.query)[0] if self.source.query else np.arange(len(codes))
        )
        return np.where(lone, len(clusters) + own, codes)

    @cached_property
    def queries(self) -> Array:
        """The number of the query of each row."""
        np = numpy()
        numbers = np.zeros(self.frame.height, dtype=int)
        for rows in self.aligned.values():
            present = np.flatnonzero(rows >= 0)
            numbers[rows[present]] = present
        return numbers

    @property
    def n_units(self) -> int:
        """The number of queries, or an upper bound of the numbers of clusters."""
        if self.units is not None:
            return int(self.units.max(initial=-1)) + 1
        return len(next(iter(self.aligned.values()), ()))

    @property
    def has_predictions(self) -> bool:
        """Whether the rows are those of predictions, beside values by people."""
        return HUMAN in self.frame.columns

    def undefined(self, metric: str) -> Array | None:
        """Return whether the value of each row is undefined; None if none is."""
        column = self.frame.get_column(UNDEFINED + metric)
        return column.to_numpy() if column.any() else None

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
        codes, ids = coded(self.frame, self.source.query, values=False)
        result = {}
        for run, rows in self.rows.items():
            result[run] = np.full(len(ids), -1)
            result[run][codes[rows]] = rows
        return result

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
                    f"duplicate rankings in `values`: "
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
        unknown = (
            [np.isnan(self.column(metric)[rows]) for rows in runs] if self.has_nulls(metric) else []
        )
        if self.weights is not None:
            unknown.append(self.weights[runs[0]] == 0)
        if not unknown:
            return list(kept)
        counts = ~np.logical_or.reduce(unknown)
        return list(kept) if counts.all() else [each[counts] for each in kept]

    def slices(self, rows: Array) -> Iterator[tuple[str, str | None, Array]]:
        """Yield the column, the value as text, and the places among `rows` of each slice."""
        np = numpy()
        for name in self.source.slices:
            codes, values = coded(self.frame, (name,))
            of_rows = codes[rows]
            order = np.argsort(of_rows, kind="stable")
            ends = np.searchsorted(of_rows[order], np.arange(len(values) + 1))
            texts = pl.Series([each[0] for each in values], dtype=self.frame.schema[name])
            for code, text in enumerate(texts.cast(pl.String)):
                places = order[ends[code] : ends[code + 1]]
                if len(places):
                    yield name, text, places

    def empty(self, rows: Array) -> int | None:
        """Return the number of rankings without a retrieved document, if the table tells."""
        if NUM_RETRIEVED not in self.frame.columns:
            return None
        return int((self.column(NUM_RETRIEVED)[rows] == 0).sum())


def coded(frame: pl.DataFrame, columns: Sequence[str], *, values: bool = True) -> tuple[Array, Any]:
    """Return a number for each row, equal for equal values, and the values in sorted order."""
    np = numpy()
    if len(columns) == 1 and frame.schema[columns[0]] in (pl.String, pl.Int64, pl.Int32, pl.UInt32):
        column = frame.get_column(columns[0])
        encoded = column.to_arrow(compat_level=pl.CompatLevel.oldest()).dictionary_encode("encode")
        found = pl.Series(encoded.dictionary, dtype=column.dtype)
        order = found.arg_sort(nulls_last=False).to_numpy()
        place_of = np.empty(len(order), dtype="int64")
        place_of[order] = np.arange(len(order))
        codes = place_of[encoded.indices.to_numpy(zero_copy_only=False)]
        return codes, [(each,) for each in found[order]] if values else range(len(order))
    number = OWN + "number"
    different = frame.select(columns).unique().sort(columns, nulls_last=False)
    numbered = different.with_row_index(number)
    joined = frame.select(columns).join(
        numbered, on=list(columns), how="left", nulls_equal=True, maintain_order="left"
    )
    codes = joined.get_column(number).to_numpy().astype("int64")
    return codes, different.rows() if values else range(different.height)


def has_duplicates(frame: pl.DataFrame) -> bool:
    """Return whether two rows are equal."""
    if frame.width == 1:
        column = frame.to_series()
        if not column.dtype.is_nested() and not column.null_count() and column.is_sorted():
            return bool((column == column.shift(1)).any())
    return frame.n_unique() < frame.height


def sorted_runs(groups: Sequence[Group], schema: pl.Schema, run: str) -> list[Any]:
    """Return the runs of all groups, in sorted order."""
    names = list(dict.fromkeys(name for group in groups for name in group.rows))
    return pl.Series(names, dtype=schema[run]).sort().to_list()


def run_column(schema: pl.Schema, run: str | None, *, required: bool = False) -> str | None:
    """Return the column of runs; the default, "run", may be missing if it is not required."""
    if run is None and required:
        raise ArgumentError("`run` must name the column of the runs; found None")
    column = run if required else default_column(run, "run", schema)
    if column is not None:
        check_column("run", column, schema)
    return column


def query_columns(schema: pl.Schema, query: Names, *, required: bool) -> tuple[str, ...]:
    """Return the columns of the query; the default, "query", may be missing if not required."""
    columns = names("query", query)
    if not columns:
        raise ArgumentError("`query` must name at least one column")
    if columns == ("query",) and "query" not in schema and not required:
        warn(
            "column 'query' (`query`) not found, so each row counts as a query; name the columns "
            "that identify a query with `query`"
        )
        return ()
    return find_columns(schema, {"query": columns})["query"]


def with_judge(
    schema: pl.Schema, columns: Mapping[str, Sequence[str]], metrics: Any
) -> tuple[str, ...]:
    """Return the columns of groups: those of `by`, after the column of judges if there is one."""
    taken = {name for named in columns.values() for name in named}
    given = [] if metrics is None else [each for each in listed(metrics) if isinstance(each, str)]
    free = JUDGE in schema and JUDGE not in taken and JUDGE not in given and is_text(schema[JUDGE])
    return ((JUDGE,) if free else ()) + tuple(columns["by"])


def check_run(parameter: str, value: Any, run: str, dtype: pl.DataType) -> None:
    """Raise an error unless the value of a parameter can be in the column of runs."""
    if isinstance(dtype, (pl.List, pl.Array)):
        raise SchemaError(
            f"column {run!r} (`run`) must have one run per row; found {dtype}; convert it to text"
        )
    try:
        if is_text(dtype):
            valid = isinstance(value, str)
        else:
            valid = pl.Series([value], dtype=dtype, strict=True).null_count() == 0
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        valid = False
    if not valid:
        raise ArgumentError(
            f"`{parameter}` must be a value of the column {run!r} of type {dtype}; "
            f"found {short(value)}"
            + "; call the function for each of the runs"
            * isinstance(value, (list, tuple, set))
        )


def unknown_run(run: str, runs: Sequence[Any], parameter: str, value: Any) -> DataError:
    """Return the error for a run that a parameter names and the column of runs does not have."""
    available = ", ".join(map(repr, runs[:10])) + (", ..." if len(runs) > 10 else "")
    return DataError(
        f"run {value!r} (`{parameter}`) not found in the column {run!r}; available: {available}"
    )


def with_conventions(table: pl.LazyFrame, schema: pl.Schema) -> tuple[pl.LazyFrame, Conventions]:
    """Return the table and the conventions that its column states, by which undefined values count.

    Collecting the table raises `DataError` if only some of the rows state conventions.
    """
    dtype = schema.get(CONVENTIONS)
    if dtype is None or not is_text(dtype):
        return table, POLARS_RANK
    if is_in_memory(table, CONVENTIONS):
        stated = table.select(pl.col(CONVENTIONS).unique()).collect().to_series().to_list()
    elif isinstance(dtype, pl.Enum) and len(dtype.categories) == 1:
        stated = dtype.categories.to_list()
    else:
        raise SchemaError(
            f"the conventions in the column {CONVENTIONS!r} are not known before it is read; cast "
            f"it, as in pl.col({CONVENTIONS!r}).cast(pl.Enum(['trec_eval'])), or drop it"
        )
    if len(stated) > 1:
        raise _different(stated)
    if not stated or stated[0] is None:
        return table, POLARS_RANK
    conventions = preset_of(stated[0])
    if conventions is None:
        raise ArgumentError(
            f"the table has values of the conventions {stated[0]!r} (column {CONVENTIONS!r}), "
            "whose settings are not known; fill the undefined (null) values that count, and drop "
            "the column"
        )

    def check(column: pl.Series) -> pl.Series:
        if column.null_count():
            raise _different([stated[0], None])
        return column

    checked = pl.col(CONVENTIONS).map_batches(check, return_dtype=dtype, is_elementwise=True)
    return table.with_columns(checked), conventions


def _different(stated: Sequence[str | None]) -> DataError:
    found = ", ".join(sorted("none" if name is None else repr(str(name)) for name in stated))
    return DataError(
        f"the table has values of different conventions in the column {CONVENTIONS!r}: {found}; "
        "compute all values with the same conventions"
    )


def variables(
    schema: pl.Schema,
    metrics: Metrics | None,
    conventions: Conventions,
    taken: Mapping[str, str],
    parameter: str = "metrics",
) -> list[Variable]:
    """Return the given metrics, or all columns of floats; raise if they are not numbers.

    `taken` maps the columns that are not metrics to their parameters.
    """
    given: Iterable[str | pl.Expr]
    if metrics is None:
        _check_no_log(schema)
        given = [n for n, dtype in schema.items() if dtype.is_float() and n not in taken]
        if not given:
            raise SchemaError(
                "the table has no per-query values (columns of floats); pass the result of "
                f"`per_query`, or name the columns with `{parameter}`"
            )
    else:
        given = listed(metrics, parameter)
    selected: list[Variable] = []
    for each in given:
        name = each if isinstance(each, str) else output_name(each)
        if name not in schema:
            _check_no_log(schema)
        check_column(parameter, name, schema, "number")
        if name in taken:
            raise used_twice(name, taken[name], parameter)
        if name in [variable.name for variable in selected]:
            raise ArgumentError(f"`{parameter}` has the column {name!r} twice")
        metric = metric_of(name, conventions.name) if isinstance(each, str) else each
        counted = counted_as(metric, conventions)
        fill = counted if isinstance(counted, float) else None
        selected.append(Variable(name, fill, lower_is_better(metric)))
    return selected


def metric_of(name: str, tool: str = POLARS_RANK.name) -> pl.Expr:
    """Return the metric with the name of a column, or the column."""
    try:
        return read(name, tool)
    except ArgumentError:
        return pl.col(name)


def _check_no_log(schema: pl.Schema) -> None:
    if "score" in schema and "label" in schema:
        raise SchemaError(
            "the table has the columns 'score' and 'label', so it is a log with one row per "
            "document; pass the result of `per_query`"
        )


def deferred(function: Callable[[], pl.DataFrame], schema: Mapping[str, Any]) -> pl.LazyFrame:
    """Return a table that a function computes when it is collected; NumPy's NaN is unknown."""

    def result() -> pl.DataFrame:
        with numpy().errstate(all="ignore"):
            return function()

    return pl.defer(result, schema=pl.Schema(schema))


def first_few(labels: Iterable[str]) -> str:
    """Return the first few different labels as text, with the number of others."""
    different = list(dict.fromkeys(labels))
    more = len(different) - _EXAMPLES
    return "; ".join(different[:_EXAMPLES]) + (f"; and {more:,} more" if more > 0 else "")
