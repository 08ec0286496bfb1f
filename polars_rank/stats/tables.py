"""The table of per-query values: which columns are metrics, and as what their values count."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, check_there, check_values, find_columns
from polars_rank.conventions import POLARS_RANK, Conventions, check_undefined, counted_as, named
from polars_rank.errors import ArgumentError, DataError, Finding, RankWarning, SchemaError
from polars_rank.evaluation.means import NUM_RETRIEVED
from polars_rank.metrics.metric import Metric, written
from polars_rank.metrics.names import output_name, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polars_rank.conventions import Undefined

#: A column of moments and results: how many rankings have no retrieved document.
EMPTY = "empty"
#: How many groups and runs a warning names.
_MOST_TOLD = 5


class Variable(NamedTuple):
    """A column of per-query values: its name, and what the values of all lists make."""

    name: str
    aggregate: str
    counts_as: str
    fill: float | None

    @property
    def value(self) -> pl.Expr:
        """The values, an undefined one as what it counts as; null where it does not count."""
        return self.of(pl.col(self.name))

    def of(self, column: pl.Expr) -> pl.Expr:
        """Return what values in another column count as."""
        known = column.cast(pl.Float64)
        return known if self.fill is None else known.fill_null(self.fill)


def agreed_on(
    conventions: Conventions | str, undefined: Undefined | Mapping[str, Undefined] | None
) -> Conventions:
    """Return the conventions with another word for undefined values, as `evaluate` takes it."""
    agreed = named(conventions).but(undefined=undefined)
    return agreed.but(own=undefined) if isinstance(undefined, str) else agreed


def settled(
    undefined: Undefined | Mapping[str, Undefined] | None, conventions: Conventions | str
) -> None:
    """Raise `ArgumentError` for what cannot be said of moments any more."""
    if undefined is not None or named(conventions) != POLARS_RANK:
        message = (
            "what undefined values count as is settled in moments; choose it when computing them"
        )
        raise ArgumentError(message)


def variables(
    schema: pl.Schema,
    metrics: str | pl.Expr | Iterable[str | pl.Expr] | None,
    conventions: Conventions,
    keys: Iterable[str],
    parameter: str = "metrics",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
) -> list[Variable]:
    """Return the metrics of a table of per-query values: those asked for, or all."""
    taken = set(keys)
    if metrics is None:
        _check_no_log(schema)
        found: list[Any] = [n for n, dtype in schema.items() if dtype.is_float() and n not in taken]
        if not found:
            message = (
                "the table has no column of per-query values (floats); give it the "
                "result of per_query, or name the columns with `metrics`"
            )
            raise SchemaError(message, "metrics")
    else:
        found = [metrics] if isinstance(metrics, (str, pl.Expr)) else list(metrics)
        if not found:
            message = "`metrics` is empty; name at least one column, or leave it out for all"
            raise ArgumentError(message, "metrics")
    if isinstance(undefined, Mapping):
        named_ones = [name for name, dtype in schema.items() if dtype.is_float()]
        named_ones += [each for each in found if isinstance(each, str)]
        given = [each for each in found if isinstance(each, pl.Expr)]
        check_undefined(
            undefined, [*(_metric(name, conventions.name) for name in named_ones), *given]
        )
    made = [_variable(each, schema, conventions, parameter) for each in found]
    for index, variable in enumerate(made):
        if variable.name in taken or variable.name in [each.name for each in made[:index]]:
            message = f"the column {variable.name!r} has two parts to play; name it once"
            raise ArgumentError(message)
    return made


def _variable(
    asked: str | pl.Expr, schema: pl.Schema, conventions: Conventions, parameter: str
) -> Variable:
    if not isinstance(asked, (str, pl.Expr)):
        message = f"`{parameter}` must name columns; found {asked!r}"
        raise ArgumentError(message, parameter)
    name = asked if isinstance(asked, str) else output_name(asked)
    if name not in schema:
        _check_no_log(schema)
    check_there(parameter, name, schema)
    if not (schema[name].is_numeric() or schema[name] in (pl.Boolean, pl.Null)):
        message = f"the column {name!r} (`{parameter}`) must be numeric; found {schema[name]}"
        raise SchemaError(message, parameter)
    metric = _metric(name, conventions.name) if isinstance(asked, str) else asked
    undefined = counted_as(metric, conventions)
    fill = undefined if isinstance(undefined, float) else None
    aggregate = metric.aggregate if isinstance(metric, Metric) else "mean"
    return Variable(name, aggregate, conventions.counts_as(metric), fill)


def _metric(name: str, tool: str) -> pl.Expr:
    """Return the metric that a column is named after, or a plain column."""
    try:
        return read(name, tool)
    except ArgumentError:
        return pl.col(name)


def _check_no_log(schema: pl.Schema) -> None:
    if "score" in schema and "label" in schema:
        message = (
            "the table has the columns 'score' and 'label', so it is a log, a row per document; "
            "compute per-query values first, with per_query"
        )
        raise SchemaError(message)


def key_columns(schema: pl.Schema, **parameters: Any) -> dict[str, tuple[str, ...]]:
    """Return the columns that each parameter names; raise where one is not there, or is twice."""
    given = {name: () if value is None else value for name, value in parameters.items()}
    found = find_columns(schema, given)
    seen: dict[str, str] = {}
    for parameter, columns in found.items():
        for column in columns:
            check_values(parameter, column, schema[column])
            if column in seen:
                message = (
                    f"the column {column!r} is named by `{seen[column]}` and by `{parameter}`; "
                    "leave it in one of them"
                )
                raise ArgumentError(message, seen[column], parameter)
            seen[column] = parameter
    for column in schema:
        if column.startswith(OWN):
            message = f"column {column!r} begins with {OWN!r}, as our own do; rename it"
            raise SchemaError(message)
    return found


def data_error(
    lists: pl.LazyFrame, problems: Mapping[str, pl.Expr], *parameters: str, where: str = ""
) -> DataError:
    """Return the error for rows at fault: by problem, which rows they are."""
    message = "; ".join(problems) + where
    details = partial(_explained, lists, dict(problems), parameters)
    return DataError(message, *parameters, details=details)


def _explained(
    lists: pl.LazyFrame, problems: Mapping[str, pl.Expr], parameters: tuple[str, ...]
) -> list[Finding]:
    found = []
    for problem, fault in problems.items():
        rows = lists.filter(fault)
        count = rows.select(pl.len()).collect(engine="streaming").item()
        if count:
            row = rows.head(1).collect(engine="streaming").row(0, named=True)
            found.append(Finding(problem, count, row, parameters=parameters))
    return found


def not_finite(variable: Variable) -> dict[str, pl.Expr]:
    """Return what is wrong with values that are no numbers."""
    problem = f"NaN or infinite values in the column {variable.name!r}; use null for 'undefined'"
    return {problem: ~pl.col(variable.name).cast(pl.Float64).is_finite()}


def bad_weight(weight: str) -> dict[str, pl.Expr]:
    """Return what is wrong with weights that are none."""
    value = pl.col(weight).cast(pl.Float64)
    problem = f"weights in the column {weight!r} are null, negative, NaN or infinite"
    return {problem: ~(value.is_finite() & (value >= 0)).fill_null(value=False)}


def no_document(schema: pl.Schema) -> dict[str, pl.Expr]:
    """Return whether a ranking has no retrieved document, by name, if the table says so."""
    known = NUM_RETRIEVED in schema and schema[NUM_RETRIEVED].is_numeric()
    return {EMPTY: pl.col(NUM_RETRIEVED) == 0} if known else {}


def warn_of_empty(
    table: pl.DataFrame, names: Sequence[str], again: Sequence[str] = ("metric",)
) -> None:
    """Warn of groups and runs most of whose rankings have no retrieved document.

    Rows of a group and run are added up, but for those `again` of the same rankings.
    """
    if EMPTY not in table.columns:
        return
    counts: dict[tuple[str, str], tuple[int, int]] = {}
    parts = zip(rows_told(table, names), rows_told(table, again), strict=True)
    numbers = zip(table.get_column(EMPTY), table.get_column("queries"), strict=True)
    for part, (empty, queries) in zip(parts, numbers, strict=True):
        so_far = counts.get(part, (0, 0))
        counts[part] = (so_far[0] + (empty or 0), so_far[1] + queries)
    most = {
        told: f"{told}{' ' if told else ''}({empty:,} of {queries:,})"
        for (told, _), (empty, queries) in counts.items()
        if 2 * empty > queries
    }
    if most:
        told = some_of([*most.values()])
        message = f"most rankings have no retrieved document; check that the log is whole: {told}"
        warnings.warn(message, RankWarning, stacklevel=2)


def rows_told(table: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """Write the values that each row has in some columns."""
    columns = [table.get_column(name).to_list() for name in names]
    if not columns:
        return [""] * table.height
    return [
        ", ".join(f"{name} = {value!r}" for name, value in zip(names, values, strict=True))
        for values in zip(*columns, strict=True)
    ]


def some_of(told: Sequence[str]) -> str:
    """Write each of several once, and no more than a few."""
    several = list(dict.fromkeys(told))
    more = len(several) - _MOST_TOLD
    return "; ".join(several[:_MOST_TOLD]) + (f"; and {more:,} more" if more > 0 else "")


def described(conventions: Conventions) -> str:
    """Write conventions so that those alike, and only those, are written alike."""
    plain = Conventions(name=conventions.name)
    told = []
    for field in fields(conventions):
        value = getattr(conventions, field.name)
        if value != getattr(plain, field.name):
            told.append(f"{field.name}={_written(value)}")
    return f"{conventions.name}({', '.join(told)})"


def _written(value: Any) -> str:
    if isinstance(value, dict):
        items = sorted(value.items())
        return "{" + ", ".join(f"{key!r}: {_written(each)}" for key, each in items) + "}"
    return written(value)


def without(table: pl.DataFrame, *names: str) -> pl.DataFrame:
    """Return a table without some columns; unlike `drop`, not by a query, for callbacks."""
    return pl.DataFrame([column for column in table.get_columns() if column.name not in names])


def only_metrics(
    table: pl.LazyFrame, metrics: str | pl.Expr | Iterable[str | pl.Expr] | None
) -> pl.LazyFrame:
    """Return the moments of some metrics; collecting them raises where one is not there."""
    if metrics is None:
        return table
    several = [metrics] if isinstance(metrics, (str, pl.Expr)) else [*metrics]
    wanted = [each if isinstance(each, str) else output_name(each) for each in several]

    def check(rows: pl.DataFrame) -> pl.DataFrame:
        there = rows.get_column("metric").unique(maintain_order=True).to_list()
        for name in wanted:
            if rows.height and name not in there:
                message = f"there are no moments of the metric {name!r}; there are {there}"
                raise DataError(message)
        return rows

    checked = table.map_batches(check, schema=table.collect_schema())
    return checked.filter(pl.col("metric").is_in(wanted))
