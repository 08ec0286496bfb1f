"""The columns of per-query values: runs, queries and metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN, used_twice
from polars_rank.checks import with_check
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, SchemaError, short, warn
from polars_rank.frames.ids import is_text
from polars_rank.metrics.metric import Metric, direction
from polars_rank.metrics.names import bounds_of, direction_of, listed, lower_is_better, output_name

if TYPE_CHECKING:
    from polars_rank.metrics.names import Metrics

_RUNS, _EXISTS = OWN + "runs", OWN + "there"
#: The number of runs that a message names.
_FIRST_RUNS = 10


class Variable(NamedTuple):
    """A column of per-query values; null does not count."""

    name: str
    lower_is_better: bool = False
    #: The range of the metric; None if it is unbounded, or no metric has the name.
    bounds: tuple[float, float] | None = None

    @property
    def value(self) -> pl.Expr:
        """The values as floats."""
        return pl.col(self.name).cast(pl.Float64)


def check_run(parameter: str, value: Any, run: str, dtype: pl.DataType) -> None:
    """Raise an error unless the value of a parameter can be in the column of runs."""
    try:
        if is_text(dtype):
            valid = isinstance(value, str)
        else:
            valid = pl.Series([value], dtype=dtype, strict=True).null_count() == 0
    except (TypeError, OverflowError, pl.exceptions.PolarsError):
        valid = False
    if not valid:
        raise ArgumentError(
            f"must be a value of the column {run!r} of type {dtype}; "
            f"found {short(value)}"
            + "; call the function for each of the runs"
            * isinstance(value, (list, tuple, set)),
            parameter,
        )


def unknown_run(run: str, runs: Sequence[Any], parameter: str, value: Any) -> DataError:
    """Return the error for a run that a parameter names and the column of runs does not have."""
    available = ", ".join(map(repr, runs[:_FIRST_RUNS]))
    available += ", ..." if len(runs) > _FIRST_RUNS else ""
    return DataError(
        f"run {value!r} (`{parameter}`) not found in the column {run!r}; available: {available}"
    )


def is_run(run: str, dtype: pl.DataType, name: Any) -> pl.Expr:
    """Return whether a row belongs to a run."""
    is_category = is_text(dtype) and dtype != pl.String
    column = pl.col(run).cast(pl.String) if is_category else pl.col(run)
    return column.eq_missing(pl.lit(name))


def with_known_baseline(
    results: pl.LazyFrame, log: pl.LazyFrame, run: str, dtype: pl.DataType, baseline: Any
) -> pl.LazyFrame:
    """Return the results; collecting them raises if the log has no row of the baseline."""
    # Polars would hold the whole column for `pl.col(run).unique()`.
    exists = is_run(run, dtype, baseline).any()
    first = pl.col(run).sort().head(_FIRST_RUNS + 1).implode()
    runs = log.select(run).unique().select(exists.alias(_EXISTS), first.alias(_RUNS))

    def check(rows: pl.DataFrame) -> None:
        names = [name for row in rows.get_column(_RUNS) for name in row]
        if names and not rows.get_column(_EXISTS).all():
            raise unknown_run(run, names, "baseline", baseline)

    return with_check(results, runs, check)


def variables(
    schema: pl.Schema,
    metrics: Metrics | None,
    parameter: str = "metrics",
    taken: Mapping[str, str] = {},
) -> list[Variable]:
    """Return the given metrics, or all columns of floats; raise if they are not numbers.

    Booleans are numbers, too. They are not chosen by default, because a column that `per_query`
    keeps may be one.

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
        Columns.find(schema, {"metrics": name}, parameters={"metrics": parameter})
        if name in taken:
            raise used_twice(name, taken[name], parameter)
        if name in [variable.name for variable in selected]:
            raise ArgumentError(f"has the column {name!r} twice", parameter)
        known = bounds_of(each if isinstance(each, Metric) else name)
        selected.append(Variable(name, lower_is_better(each), known))
    return selected


def warn_of_directions(metrics: Metrics | None, names: Iterable[str]) -> None:
    """Warn of columns that no metric has the name of: higher values are taken as better.

    `metrics` is the parameter of the user; an expression states the direction.
    """
    given = names if metrics is None else listed(metrics)
    if unknown := [name for name in given if isinstance(name, str) and not direction_of(name)]:
        warn(
            f"no metric is named {' or '.join(map(repr, unknown))}, so higher values are taken as "
            "better; negate the column if lower values are better"
        )
    for each in given:
        if isinstance(each, Metric) and not direction(each):
            warn(
                f"it is not known whether higher values of {each} are better, so they are taken as "
                "better; negate it if lower values are"
            )


def _check_no_log(schema: pl.Schema) -> None:
    if "score" in schema and "label" in schema:
        raise SchemaError(
            "the table has the columns 'score' and 'label', so it is a log with one row per "
            "document; pass the result of `per_query`"
        )
