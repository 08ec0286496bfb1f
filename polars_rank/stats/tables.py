"""The per-query table: which columns are metrics, and what their undefined values count as."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, check_column, check_type, find_columns
from polars_rank.conventions import POLARS_RANK, Conventions, check_undefined, counted_as, named
from polars_rank.errors import ArgumentError, DataError, Finding, RankWarning, SchemaError
from polars_rank.evaluation.means import NUM_RETRIEVED
from polars_rank.metrics.metric import Metric, written
from polars_rank.metrics.names import output_name, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polars_rank.conventions import Undefined

#: Column of moments and results: number of rankings without a retrieved document.
EMPTY = "empty"
#: Number of groups and runs that a warning names.
_EXAMPLES = 5


class Variable(NamedTuple):
    """A column of per-query values: its name, aggregation and treatment of undefined values."""

    name: str
    aggregate: str
    counts_as: str
    fill: float | None

    @property
    def value(self) -> pl.Expr:
        """The values, with undefined ones filled; null where they do not count."""
        return self.of(pl.col(self.name))

    def of(self, column: pl.Expr) -> pl.Expr:
        """Return the values of another column, filled in the same way."""
        known = column.cast(pl.Float64)
        return known if self.fill is None else known.fill_null(self.fill)


def agreed_on(
    conventions: Conventions | str, undefined: Undefined | Mapping[str, Undefined] | None
) -> Conventions:
    """Return the conventions with `undefined` in effect, as `evaluate` takes it."""
    agreed = named(conventions).but(undefined=undefined)
    return agreed.but(own=undefined) if isinstance(undefined, str) else agreed


def settled(
    undefined: Undefined | Mapping[str, Undefined] | None, conventions: Conventions | str
) -> None:
    """Raise `ArgumentError` for parameters that apply only when moments are computed."""
    if undefined is not None or named(conventions) != POLARS_RANK:
        message = (
            "`undefined` and `conventions` cannot be changed for moments; pass them to `moments`"
        )
        raise ArgumentError(message, "undefined", "conventions")


def variables(
    schema: pl.Schema,
    metrics: str | pl.Expr | Iterable[str | pl.Expr] | None,
    conventions: Conventions,
    keys: Iterable[str],
    parameter: str = "metrics",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
) -> list[Variable]:
    """Return the given metrics of a table of per-query values, or all."""
    taken = set(keys)
    if metrics is None:
        _check_no_log(schema)
        given: list[Any] = [n for n, dtype in schema.items() if dtype.is_float() and n not in taken]
        if not given:
            message = (
                "the table has no per-query values (columns of floats); pass the result of "
                "`per_query`, or name the columns with `metrics`"
            )
            raise SchemaError(message, "metrics")
    else:
        given = [metrics] if isinstance(metrics, (str, pl.Expr)) else list(metrics)
        if not given:
            message = "`metrics` is empty; name at least one column, or omit it for all"
            raise ArgumentError(message, "metrics")
    if isinstance(undefined, Mapping):
        named_ones = [name for name, dtype in schema.items() if dtype.is_float()]
        named_ones += [each for each in given if isinstance(each, str)]
        expressions = [each for each in given if isinstance(each, pl.Expr)]
        check_undefined(
            undefined, [*(_metric(name, conventions.name) for name in named_ones), *expressions]
        )
    selected = [_variable(each, schema, conventions, parameter) for each in given]
    for index, variable in enumerate(selected):
        if variable.name in taken or variable.name in [each.name for each in selected[:index]]:
            message = f"column {variable.name!r} is used for two parameters, or twice in `metrics`"
            raise ArgumentError(message, "metrics")
    return selected


def _variable(
    given: str | pl.Expr, schema: pl.Schema, conventions: Conventions, parameter: str
) -> Variable:
    if not isinstance(given, (str, pl.Expr)):
        message = f"`{parameter}` must name columns or be metrics; found {given!r}"
        raise ArgumentError(message, parameter)
    name = given if isinstance(given, str) else output_name(given)
    if name not in schema:
        _check_no_log(schema)
    check_column(parameter, name, schema)
    if not (schema[name].is_numeric() or schema[name] in (pl.Boolean, pl.Null)):
        message = f"column {name!r} (`{parameter}`) must be numeric; found {schema[name]}"
        raise SchemaError(message, parameter)
    metric = _metric(name, conventions.name) if isinstance(given, str) else given
    undefined = counted_as(metric, conventions)
    fill = undefined if isinstance(undefined, float) else None
    aggregate = metric.aggregate if isinstance(metric, Metric) else "mean"
    return Variable(name, aggregate, conventions.counts_as(metric), fill)


def _metric(name: str, tool: str) -> pl.Expr:
    """Return the metric with the name of a column, or the column."""
    try:
        return read(name, tool)
    except ArgumentError:
        return pl.col(name)


def _check_no_log(schema: pl.Schema) -> None:
    if "score" in schema and "label" in schema:
        message = (
            "the table has the columns 'score' and 'label', so it is a log with one row per "
            "document; pass the result of `per_query`"
        )
        raise SchemaError(message)


def key_columns(schema: pl.Schema, **parameters: Any) -> dict[str, tuple[str, ...]]:
    """Return the columns that each parameter names; raise if one is missing or used twice."""
    given = {name: () if value is None else value for name, value in parameters.items()}
    columns_of = find_columns(schema, given)
    seen: dict[str, str] = {}
    for parameter, columns in columns_of.items():
        for column in columns:
            check_type(parameter, column, schema[column], "value")
            if column in seen:
                message = (
                    f"column {column!r} is used for two parameters: `{seen[column]}` and "
                    f"`{parameter}`"
                )
                raise ArgumentError(message, seen[column], parameter)
            seen[column] = parameter
    for column in schema:
        if column.startswith(OWN):
            message = f"column {column!r} begins with {OWN!r}, which is reserved; rename it"
            raise SchemaError(message)
    return columns_of


def data_error(table: pl.LazyFrame, problems: Mapping[str, pl.Expr], *parameters: str) -> DataError:
    """Return the error for invalid rows, given the condition of each problem."""
    details = partial(_findings, table, dict(problems), parameters)
    message = "; ".join(problems)
    return DataError(message, *parameters, details=details)


def _findings(
    table: pl.LazyFrame, problems: Mapping[str, pl.Expr], parameters: tuple[str, ...]
) -> list[Finding]:
    findings = []
    for problem, condition in problems.items():
        rows = table.filter(condition)
        count = rows.select(pl.len()).collect(engine="streaming").item()
        if count:
            row = rows.head(1).collect(engine="streaming").row(0, named=True)
            findings.append(Finding(problem, count, row, parameters=parameters))
    return findings


def not_finite(variable: Variable) -> dict[str, pl.Expr]:
    """Return the message and the condition of NaN and infinite values."""
    problem = f"NaN or infinite values in the column {variable.name!r}; use null for 'undefined'"
    return {problem: ~pl.col(variable.name).cast(pl.Float64).is_finite()}


def bad_weight(weight: str) -> dict[str, pl.Expr]:
    """Return the message and the condition of invalid weights."""
    value = pl.col(weight).cast(pl.Float64)
    problem = f"null, negative, NaN or infinite weights in the column {weight!r}"
    return {problem: ~(value.is_finite() & (value >= 0)).fill_null(value=False)}


def no_document(schema: pl.Schema) -> dict[str, pl.Expr]:
    """Return whether a ranking has no retrieved document, by name, if the table tells."""
    known = NUM_RETRIEVED in schema and schema[NUM_RETRIEVED].is_numeric()
    return {EMPTY: pl.col(NUM_RETRIEVED) == 0} if known else {}


def warn_of_empty(
    table: pl.DataFrame, names: Sequence[str], repeated: Sequence[str] = ("metric",)
) -> None:
    """Warn of groups and runs most of whose rankings have no retrieved document.

    The counts of a group and run are added up over all rows with the same values of `repeated`:
    rows with other values, such as other metrics, are about the same rankings.
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
        message = (
            f"most rankings have no retrieved document; check that the log is complete: {examples}"
        )
        warnings.warn(message, RankWarning, stacklevel=2)


def row_labels(table: pl.DataFrame, names: Sequence[str]) -> list[str]:
    """Return each row's values in some columns as text."""
    columns = [table.get_column(name).to_list() for name in names]
    if not columns:
        return [""] * table.height
    return [
        ", ".join(f"{name} = {value!r}" for name, value in zip(names, values, strict=True))
        for values in zip(*columns, strict=True)
    ]


def first_few(labels: Sequence[str]) -> str:
    """Return the first few different labels as text, with the number of others."""
    different = list(dict.fromkeys(labels))
    more = len(different) - _EXAMPLES
    return "; ".join(different[:_EXAMPLES]) + (f"; and {more:,} more" if more > 0 else "")


def described(conventions: Conventions) -> str:
    """Return conventions as text, which is equal for equal conventions only."""
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
    """Return a table without some columns; callbacks must not run a query, as `drop` does."""
    return pl.DataFrame([column for column in table.get_columns() if column.name not in names])


def only_metrics(
    table: pl.LazyFrame, metrics: str | pl.Expr | Iterable[str | pl.Expr] | None
) -> pl.LazyFrame:
    """Return the moments of some metrics; collecting them raises if one is missing."""
    if metrics is None:
        return table
    given = [metrics] if isinstance(metrics, (str, pl.Expr)) else [*metrics]
    names = [each if isinstance(each, str) else output_name(each) for each in given]

    def check(rows: pl.DataFrame) -> pl.DataFrame:
        available = rows.get_column("metric").unique(maintain_order=True).to_list()
        for name in names:
            if rows.height and name not in available:
                listed = ", ".join(map(repr, available))
                message = f"metric {name!r} not found in the moments; available: {listed}"
                raise DataError(message)
        return rows

    checked = table.map_batches(check)
    return checked.filter(pl.col("metric").is_in(names))
