"""Columns of the per-query table: metrics, runs and queries; and how undefined values count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import (
    OWN,
    Names,
    check_column,
    check_type,
    find_columns,
    names,
    some_names,
    used_twice,
)
from polars_rank._polars import is_in_memory
from polars_rank.columns import default_column
from polars_rank.conventions import (
    POLARS_RANK,
    Conventions,
    check_undefined,
    counted_as,
    named,
    preset_of,
)
from polars_rank.errors import ArgumentError, DataError, Finding, SchemaError, short, warn
from polars_rank.evaluation.checks import first_row
from polars_rank.evaluation.means import CONVENTIONS, NUM_RETRIEVED
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.metric import Metric, written
from polars_rank.metrics.names import listed, lower_is_better, output_name, read
from polars_rank.stats.moment_math import LARGE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from polars_rank.conventions import Undefined
    from polars_rank.metrics.names import Metrics

#: Column of moments and results: number of rankings without a retrieved document.
EMPTY = "empty"
#: A column of moments that tables of per-query values do not have.
OF_MOMENTS = "counts_as"
#: Number of groups and runs that a warning names.
_EXAMPLES = 5


class Variable(NamedTuple):
    """A column of per-query values: its name, aggregation and treatment of undefined values."""

    name: str
    aggregate: str
    counts_as: str
    fill: float | None
    #: Whether a lower mean is better.
    lower_is_better: bool = False

    @property
    def value(self) -> pl.Expr:
        """The values, with undefined ones filled; null where they do not count."""
        return self.of(pl.col(self.name))

    def of(self, column: pl.Expr) -> pl.Expr:
        """Return the values of another column, filled in the same way."""
        known = column.cast(pl.Float64)
        return known if self.fill is None else known.fill_null(self.fill)


def with_definitions(
    values: pl.LazyFrame,
    conventions: Conventions | str | None,
    undefined: Undefined | Mapping[str, Undefined] | None,
) -> tuple[pl.LazyFrame, Conventions]:
    """Return the values, and the conventions of a parameter, or else those that the table states.

    Collecting the values raises `DataError` if only some of the rows state conventions.
    """
    if conventions is not None:
        return values, with_undefined(conventions, undefined)
    stated = stated_conventions(values)
    if stated is None:
        return values, with_undefined(POLARS_RANK, undefined)

    def check(names: pl.Series) -> pl.Series:
        if names.null_count():
            raise _different([stated.name, None])
        return names.is_not_null()

    known = pl.col(CONVENTIONS).map_batches(check, return_dtype=pl.Boolean, is_elementwise=True)
    # In a filter, Polars would also call the function for the statistics of Parquet files.
    checked = values.with_columns(known.alias(_STATED)).filter(_STATED).drop(_STATED)
    return checked, with_undefined(stated, undefined)


def stated_conventions(values: pl.LazyFrame) -> Conventions | None:
    """Return the conventions that a table of per-query values states, if it does.

    The name is in the type of the column, as `per_query` returns it. As text, it is known if the
    table is in memory.
    """
    schema = schema_of(values)
    dtype = schema.get(CONVENTIONS)
    if not _is_statement(CONVENTIONS, dtype) or OF_MOMENTS in schema:
        return None
    if is_in_memory(values, CONVENTIONS):
        names = values.select(pl.col(CONVENTIONS).unique()).collect().to_series().to_list()
    elif isinstance(dtype, pl.Enum) and len(dtype.categories) == 1:
        names = dtype.categories.to_list()
    else:
        raise SchemaError(
            f"the conventions in the column {CONVENTIONS!r} are not known before it is read; pass "
            "`conventions`, or cast the column, as in "
            f"pl.col({CONVENTIONS!r}).cast(pl.Enum(['trec_eval']))"
        )
    if len(names) > 1:
        raise _different(names)
    name = names[0] if names else None
    if name is not None and preset_of(name) is None:
        raise ArgumentError(
            f"the table has values of the conventions {name!r} (column {CONVENTIONS!r}), whose "
            "settings are not known; pass them as `conventions`"
        )
    return None if name is None else preset_of(name)


def _different(names: Sequence[str | None]) -> DataError:
    found = ", ".join(sorted("none" if name is None else repr(str(name)) for name in names))
    return DataError(
        f"the table has values of different conventions in the column {CONVENTIONS!r}: {found}; "
        "compute all values with the same conventions, or pass `conventions`"
    )


def _is_statement(name: str, dtype: pl.DataType | None) -> bool:
    """Return whether a column has the name and the type of the column of conventions."""
    return name == CONVENTIONS and dtype is not None and is_text(dtype)


def with_undefined(
    conventions: Conventions | str, undefined: Undefined | Mapping[str, Undefined] | None
) -> Conventions:
    """Return the conventions with the overrides of `undefined`, as in `evaluate`."""
    if isinstance(undefined, Mapping) and not undefined:
        undefined = None
    definitions = named(conventions).but(undefined=undefined)
    return definitions.but(own=undefined) if isinstance(undefined, str) else definitions


def refuse_definitions(
    undefined: Undefined | Mapping[str, Undefined] | None, conventions: Conventions | str | None
) -> None:
    """Raise `ArgumentError` for parameters that apply only when moments are computed."""
    given = conventions is not None and named(conventions) != POLARS_RANK
    if undefined is not None or given:
        raise ArgumentError(
            "`undefined` and `conventions` cannot be changed for moments; pass them to `moments`",
        )


def refuse_with_moments(given: Mapping[str, Any]) -> None:
    """Raise `ArgumentError` if a parameter is given that moments do not support."""
    for name, value in given.items():
        if value:
            raise ArgumentError(
                f"`{name}` needs per-query values; got moments. Pass the result of `per_query`",
            )


def variables(
    schema: pl.Schema,
    metrics: str | pl.Expr | Iterable[str | pl.Expr] | None,
    conventions: Conventions,
    keys: Mapping[str, Sequence[str]],
    parameter: str = "metrics",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
) -> list[Variable]:
    """Return the variables of the given metrics, or of all columns of floats.

    `keys` maps parameters to the columns that are not metrics.
    """
    taken = {name: other for other, names in keys.items() for name in names}
    if metrics is None:
        _check_no_log(schema)
        given: list[Any] = [n for n, dtype in schema.items() if dtype.is_float() and n not in taken]
        if not given:
            raise SchemaError(
                "the table has no per-query values (columns of floats); pass the result of "
                "`per_query`, or name the columns with `metrics`",
            )
    else:
        given = listed(metrics, parameter)
    if isinstance(undefined, Mapping):
        named_ones = [name for name, dtype in schema.items() if dtype.is_float()]
        named_ones += [each for each in given if isinstance(each, str)]
        expressions = [each for each in given if isinstance(each, pl.Expr)]
        check_undefined(
            undefined, [*(_metric(name, conventions.name) for name in named_ones), *expressions]
        )
    selected = [_variable(each, schema, conventions, parameter) for each in given]
    for index, variable in enumerate(selected):
        if variable.name in taken:
            raise used_twice(variable.name, taken[variable.name], parameter)
        if variable.name in [each.name for each in selected[:index]]:
            raise ArgumentError(f"`{parameter}` has the column {variable.name!r} twice")
    return selected


def _variable(
    given: str | pl.Expr, schema: pl.Schema, conventions: Conventions, parameter: str
) -> Variable:
    name = given if isinstance(given, str) else output_name(given)
    if name not in schema:
        _check_no_log(schema)
    check_column(parameter, name, schema)
    if not (schema[name].is_numeric() or schema[name] in (pl.Boolean, pl.Null)):
        raise SchemaError(f"column {name!r} (`{parameter}`) must be numeric; found {schema[name]}")
    metric = _metric(name, conventions.name) if isinstance(given, str) else given
    undefined = counted_as(metric, conventions)
    fill = undefined if isinstance(undefined, float) else None
    aggregate = conventions.aggregate(metric)
    counts_as = conventions.counts_as(metric)
    return Variable(name, aggregate, counts_as, fill, lower_is_better(metric))


def _metric(name: str, tool: str) -> pl.Expr:
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


def run_column(schema: pl.Schema, run: str | None) -> str | None:
    """Return the column of runs; only the default, "run", may be missing."""
    column = default_column(run, "run", schema)
    if column is not None:
        check_column("run", column, schema)
    return column


def known_query(schema: pl.Schema, query: Names) -> tuple[str, ...]:
    """Return the columns of the query; only the default, "query", may be missing."""
    columns = names("query", query)
    if len(columns) == 1 and default_column(columns[0], "query", schema) is None:
        return ()
    return find_columns(schema, {"query": columns})["query"]


def query_columns(
    table: pl.LazyFrame,
    query: Names,
    metrics: Metrics | None,
    taken: Mapping[str, Sequence[str]],
) -> tuple[str, ...]:
    """Return the columns of the query, or else the only column that identifies the rows of a run.

    `taken` maps other parameters to their columns, which cannot identify queries. If there are
    several candidates, the table is read once to check them. A single candidate is not checked
    here: callers raise for duplicates when the result is collected.
    """
    schema = schema_of(table)
    columns = known_query(schema, some_names("query", query))
    if columns:
        return columns
    others = _other_columns(schema, metrics, taken)
    unique = others
    if len(others) > 1:
        keys = [name for parameter in ("by", "run") for name in taken.get(parameter, ())]
        unique = _unique_columns(table, others, keys)
    if len(unique) == 1:
        return (unique[0],)
    if not unique:
        raise SchemaError(no_query_column(others))
    raise SchemaError(
        "column 'query' (`query`) not found, and several columns identify the rows of each run; "
        f"name one of them with `query`: {', '.join(map(repr, unique))}"
    )


def no_query_column(candidates: Sequence[str]) -> str:
    """Return the message about a table without columns that identify the query."""
    return (
        "column 'query' (`query`) not found, and no other column identifies the rows of each run; "
        "name columns with `query`: "
        f"{', '.join(map(repr, candidates)) or 'the table has no other columns'}"
    )


def _other_columns(
    schema: pl.Schema, metrics: Metrics | None, taken: Mapping[str, Sequence[str]]
) -> list[str]:
    """Return the columns that are neither metrics nor counts, and that no parameter names."""
    requested = [] if metrics is None else listed(metrics, "metrics")
    excluded = {name for names in taken.values() for name in names}
    excluded |= {each if isinstance(each, str) else output_name(each) for each in requested}
    return [
        name
        for name, dtype in schema.items()
        if name not in excluded
        and not (dtype.is_float() or dtype.is_nested() or dtype == pl.Null)
        and not isinstance(_metric(name, POLARS_RANK.name), Metric)
        and not _is_statement(name, dtype)
    ]


def _unique_columns(table: pl.LazyFrame, columns: Sequence[str], keys: Sequence[str]) -> list[str]:
    """Return the columns that are not constant and have no duplicates among rows of equal keys."""
    rows = table.select(*keys, *columns)
    facts = [
        rows.group_by([*keys, name])
        .agg(pl.len().alias(_ROWS))
        .select(pl.col(_ROWS).max(), (pl.col(name).n_unique() > 1).alias(_DIFFERENT))
        for name in columns
    ]
    counts = pl.concat(facts).collect(engine="streaming")
    is_unique = (counts.get_column(_ROWS) == 1) & counts.get_column(_DIFFERENT)
    return [name for name, unique in zip(columns, is_unique, strict=True) if unique]


_STATED = OWN + "stated"
_ROWS, _DIFFERENT, _PLACE = OWN + "rows", OWN + "different", OWN + "place"


def key_columns(schema: pl.Schema, **parameters: Any) -> dict[str, tuple[str, ...]]:
    """Return the columns that each parameter names; raise if one is missing or used twice."""
    given = {name: () if value is None else value for name, value in parameters.items()}
    columns_of = find_columns(schema, given)
    for parameter, columns in columns_of.items():
        for column in columns:
            check_type(parameter, column, schema[column], "value")
    for column in schema:
        if column.startswith(OWN):
            raise SchemaError(
                f"column {column!r} begins with {OWN!r}, which is reserved; rename it"
            )
    return columns_of


def data_error(table: pl.LazyFrame, problems: Mapping[str, pl.Expr]) -> DataError:
    """Return the error for invalid rows, given the condition of each problem."""
    details = partial(_findings, table, dict(problems))
    return DataError("; ".join(problems), details=details)


def _findings(table: pl.LazyFrame, problems: Mapping[str, pl.Expr]) -> list[Finding]:
    findings = []
    for problem, condition in problems.items():
        rows = table.filter(condition)
        count = rows.select(pl.len()).collect(engine="streaming").item()
        if count:
            findings.append(Finding(problem, count, first_row(rows)))
    return findings


def check_sums(
    sums: Mapping[str, pl.Series],
    rows: pl.LazyFrame,
    variables: Sequence[Variable],
    weight: str | None = None,
) -> None:
    """Raise `DataError` for values or weights that cannot be squared and added.

    `sums` are columns of moments, and `variables` are the variables of their rows.
    """

    def raise_for(invalid: pl.Series, *problems: Callable[[str], dict[str, pl.Expr]]) -> None:
        for row in invalid.fill_null(value=False).arg_true().head(1):
            conditions: dict[str, pl.Expr] = {}
            for problem in problems:
                conditions |= problem(variables[row].name)
            raise data_error(rows, conditions)

    mean = sums["mean"]
    raise_for(mean.is_nan(), _not_finite)
    raise_for(mean.is_infinite(), _not_finite, _too_large)
    for name in ("squares", "difference_squares"):
        if name in sums:
            raise_for(~sums[name].is_finite(), _too_large)
    if weight is not None:
        squares = sums["weight_squares"]
        underflow = (sums["weight"] > 0) & (squares < 1 / LARGE**2)
        raise_for(~squares.is_finite() | underflow, lambda _: _not_squared(weight))


def _not_finite(column: str) -> dict[str, pl.Expr]:
    problem = f"NaN or infinite values in the column {column!r}; use null for 'undefined'"
    return {problem: ~pl.col(column).cast(pl.Float64).is_finite()}


def _too_large(column: str) -> dict[str, pl.Expr]:
    size = pl.col(column).cast(pl.Float64).abs()
    problem = (
        f"values above {LARGE:g} in the column {column!r}, whose squares overflow; divide all "
        "values by a number"
    )
    return {problem: size.is_finite() & (size > LARGE)}


def _not_squared(weight: str) -> dict[str, pl.Expr]:
    size = pl.col(weight).cast(pl.Float64)
    problem = (
        f"weights in the column {weight!r} whose squares overflow or underflow; multiply all "
        "weights by a number"
    )
    return {problem: (size > 0) & ~size.is_between(1 / LARGE, LARGE)}


def bad_weight(weight: str) -> dict[str, pl.Expr]:
    """Return the message and the condition of invalid weights."""
    value = pl.col(weight).cast(pl.Float64)
    problem = f"null, negative, NaN or infinite weights in the column {weight!r}"
    return {problem: ~(value.is_finite() & (value >= 0)).fill_null(value=False)}


def no_document(schema: pl.Schema) -> dict[str, pl.Expr]:
    """Return the condition of an empty ranking, by name; none if the table has no such count."""
    known = NUM_RETRIEVED in schema and schema[NUM_RETRIEVED].is_numeric()
    return {EMPTY: pl.col(NUM_RETRIEVED) == 0} if known else {}


def warn_of_empty(
    table: pl.DataFrame, names: Sequence[str], repeated: Sequence[str] = ("metric",)
) -> None:
    """Warn of groups and runs most of whose rankings have no retrieved document.

    Counts are added up within rows with the same values of `repeated`. Rows with different values,
    such as those of different metrics, count the same rankings.
    """
    if EMPTY not in table.columns:
        return
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    parts = zip(row_labels(table, names), row_labels(table, repeated), strict=True)
    numbers = zip(table.get_column(EMPTY), table.get_column("queries"), strict=True)
    for part, (empty, queries) in zip(parts, numbers, strict=True):
        so_far = counts.get(part, (0, 0))
        counts[part] = (so_far[0] + (empty or 0), so_far[1] + queries)
    mostly_empty = {
        label: f"{label}{' ' if label else ''}({empty:,} of {queries:,})"
        for (label, _), (empty, queries) in counts.items()
        if 2 * empty > queries
    }
    if mostly_empty:
        examples = first_few([*mostly_empty.values()])
        warn(
            f"most rankings have no retrieved document; check that the log is complete: {examples}"
        )


def row_labels(table: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """Return each row's values in some columns as text."""
    columns = [table.get_column(name).to_list() for name in names]
    if not columns:
        return [""] * table.height
    return [
        ", ".join(f"{name} = {short(value)}" for name, value in zip(names, values, strict=True))
        for values in zip(*columns, strict=True)
    ]


def first_few(labels: Sequence[str]) -> str:
    """Return the first few different labels as text, with the number of others."""
    different = list(dict.fromkeys(labels))
    more = len(different) - _EXAMPLES
    return "; ".join(different[:_EXAMPLES]) + (f"; and {more:,} more" if more > 0 else "")


def conventions_text(conventions: Conventions) -> str:
    """Return a text that is equal for equal conventions only."""
    plain = Conventions(name=conventions.name)
    settings = []
    for field in fields(conventions):
        value = getattr(conventions, field.name)
        if value != getattr(plain, field.name):
            settings.append(f"{field.name}={_written(value)}")
    return f"{conventions.name}({', '.join(settings)})"


def _written(value: Any) -> str:
    if isinstance(value, dict):
        items = sorted(value.items())
        return "{" + ", ".join(f"{key!r}: {_written(each)}" for key, each in items) + "}"
    return written(value)


def without(table: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Return a table without some columns.

    `DataFrame.drop` runs a query, which callbacks of a plan must not do. A list of columns would
    give a name to a column without one.
    """
    return pl.DataFrame({each.name: each for each in table.get_columns() if each.name not in names})


def in_order(table: pl.LazyFrame, groups: Sequence[str], run: Sequence[str]) -> pl.LazyFrame:
    """Return the rows in the order of groups, metrics and runs.

    Metrics stay in the order in which they first occur.
    """
    first_row = pl.col(_PLACE).min().over("metric")
    numbered = table.with_row_index(_PLACE).with_columns(first_row)
    return numbered.sort(*groups, _PLACE, *run).drop(_PLACE)


def only_metrics(
    table: pl.LazyFrame, metrics: str | pl.Expr | Iterable[str | pl.Expr] | None
) -> pl.LazyFrame:
    """Return the moments of the given metrics; collecting them raises if one is missing."""
    if metrics is None:
        return table
    names = [each if isinstance(each, str) else output_name(each) for each in listed(metrics)]

    def check(rows: pl.DataFrame) -> pl.DataFrame:
        available = rows.get_column("metric").unique(maintain_order=True).to_list()
        for name in names:
            if rows.height and name not in available:
                listed = ", ".join(map(repr, available))
                raise DataError(f"metric {name!r} not found in the moments; available: {listed}")
        return rows

    checked = table.map_batches(check)
    return checked.filter(pl.col("metric").is_in(names))
