"""Rankings joined with the baseline's rankings of the same queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, check_column, check_distinct
from polars_rank.errors import ArgumentError, DataError, SchemaError, short
from polars_rank.evaluation.checks import with_check
from polars_rank.frames.ids import is_text
from polars_rank.frames.tables import schema_of
from polars_rank.stats.per_query_tables import (
    data_error,
    key_columns,
    known_query,
    no_query_column,
    query_columns,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.metrics.names import Metrics

_BASELINE = OWN + "baseline "
_IN_BOTH = OWN + "in both"
_ROWS, _EXISTS = OWN + "rows", OWN + "there"
#: The number of runs that a message names.
_FIRST_RUNS = 10
#: The columns of a slice: the name of its column, and its value.
SLICE = (OWN + "column", OWN + "value")
#: Whether the baseline has a ranking of the same query.
PAIRED = pl.col(_IN_BOTH).fill_null(value=False)


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The columns that identify rankings, and the baseline."""

    run: str
    query: tuple[str, ...]
    baseline: Any
    schema: pl.Schema
    by: tuple[str, ...] = ()
    weight: str | None = None
    cluster: tuple[str, ...] = ()
    #: The column that replaces a missing column "query", if there is one.
    default_query: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        table: pl.LazyFrame,
        *,
        by: Names | None,
        run: str,
        query: Names,
        baseline: Any,
        metrics: Metrics | None = None,
        weight: str | None = None,
        cluster: Names | None = None,
        slices: Names | None = None,
    ) -> Pairs:
        """Return the pairs of a table; raise if a column is missing."""
        schema = schema_of(table)
        check_column("run", run, schema)
        keys = key_columns(schema, by=by, run=run, weight=weight, cluster=cluster, slices=slices)
        queries = query_columns(table, query, metrics, keys)
        check_distinct({**keys, "query": queries})
        check_run("baseline", baseline, run, schema[run])
        return cls(
            run=run, query=queries, baseline=baseline, schema=schema, by=keys["by"], weight=weight,
            cluster=keys["cluster"], default_query=() if known_query(schema, query) else queries,
        )  # fmt: skip

    @property
    def keys(self) -> list[str]:
        """The columns that identify a ranking."""
        return [*self.by, self.run, *self.query]

    @property
    def columns(self) -> dict[str, Sequence[str]]:
        """The columns that are not metrics, by parameter."""
        weight = [] if self.weight is None else [self.weight]
        keys = {"by": self.by, "run": [self.run], "query": self.query}
        return {**keys, "weight": weight, "cluster": self.cluster}

    @property
    def is_weighted(self) -> bool:
        """Whether there are weights or clusters."""
        return self.weight is not None or bool(self.cluster)

    @property
    def name(self) -> str:
        """The baseline as text."""
        return str(self.baseline)

    @property
    def is_baseline(self) -> pl.Expr:
        """Whether a row belongs to the baseline."""
        return is_run(self.run, self.schema[self.run], self.baseline)

    @property
    def query_types(self) -> list[pl.DataType]:
        """The types of the query columns."""
        return [self.schema[name] for name in self.query]

    @property
    def weights_differ(self) -> pl.Expr:
        """Whether the two rankings of a pair have different weights."""
        if self.weight is None:
            return pl.lit(value=False)
        return PAIRED & (pl.col(self.weight) != baseline_of(self.weight))

    def joined(self, table: pl.LazyFrame, metrics: Sequence[str]) -> pl.LazyFrame:
        """Return the table with the baseline's values of the same query as further columns."""
        columns = [*metrics, *([] if self.weight is None else [self.weight])]
        # `checked` finds duplicates; here they must not multiply rows. `unique` would hold the
        # values of the baseline a second time.
        base = table.filter(self.is_baseline).join(
            _most_rows(table, self.keys).filter(pl.col(_ROWS) == 1).drop(_ROWS), how="cross"
        )
        return with_baseline(table, base, [*self.by, *self.query], columns)

    def checked(self, results: pl.LazyFrame, table: pl.LazyFrame) -> pl.LazyFrame:
        """Return the results; collecting them raises if a query occurs twice in a run."""
        return without_duplicates(results, table, self.keys, self.default_query)


def with_baseline(
    rankings: pl.LazyFrame, baseline: pl.LazyFrame, keys: Sequence[str], columns: Sequence[str]
) -> pl.LazyFrame:
    """Return rankings with columns of the baseline's rankings that have the same keys.

    `PAIRED` says whether there is such a ranking, and `baseline_of` returns its values.
    """
    values = (pl.col(name).alias(_BASELINE + name) for name in columns)
    base = baseline.select(*keys, *values, pl.lit(value=True).alias(_IN_BOTH))
    return rankings.join(base, on=keys, how="left", nulls_equal=True)


def baseline_of(column: str) -> pl.Expr:
    """Return the baseline's value of a column."""
    return pl.col(_BASELINE + column)


def without_duplicates(
    results: pl.LazyFrame,
    table: pl.LazyFrame,
    keys: Sequence[str],
    default_query: Sequence[str] = (),
    parameter: str = "",
) -> pl.LazyFrame:
    """Return the results; collecting them raises if two rows of the table have the same keys.

    `default_query` is the column that replaces a missing column "query", if there is one.
    `parameter` names the table, if there are several.
    """
    keys = [*dict.fromkeys(keys)]  # a column of `by` may be one of the query

    def check(rows: pl.DataFrame) -> None:
        if (rows.get_column(_ROWS).max() or 0) > 1:  # type: ignore[operator]
            problem = duplicates(keys, default_query, parameter)
            raise data_error(table, {problem: pl.struct(keys).is_duplicated()})

    return with_check(results, _most_rows(table, keys), check)


def duplicates(keys: Sequence[str], default_query: Sequence[str], parameter: str = "") -> str:
    """Return the message about rows with the same keys."""
    if default_query:
        return no_query_column(default_query)
    table = f" in `{parameter}`" if parameter else ""
    return (
        f"duplicate rankings{table}: {', '.join(map(repr, keys))} do not identify a row; name "
        "further columns in `query` or `by`, or drop duplicates"
    )


def _most_rows(table: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
    """Return the largest number of rows with the same keys."""
    return table.group_by(keys).agg(pl.len().alias(_ROWS)).select(pl.col(_ROWS).max())


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
        several = isinstance(value, (list, tuple, set))
        raise ArgumentError(
            f"`{parameter}` must be a value of the column {run!r} of type {dtype}; "
            f"found {short(value)}" + "; call the function for each of the runs" * several
        )


def unknown_run(run: str, names: Sequence[Any], parameter: str, value: Any) -> DataError:
    """Return the error for a run that a parameter names and the column of runs does not have."""
    available = [repr(name) for name in names[:_FIRST_RUNS]]
    available += ["..."] * (len(names) > _FIRST_RUNS)
    return DataError(
        f"run {value!r} (`{parameter}`) not found in the column {run!r}; "
        f"available: {', '.join(available)}"
    )


def is_run(run: str, dtype: pl.DataType, name: Any) -> pl.Expr:
    """Return whether a row belongs to a run."""
    column = (
        pl.col(run) if dtype == pl.String or not is_text(dtype) else pl.col(run).cast(pl.String)
    )
    return column.eq_missing(pl.lit(name))


def with_known_baseline(
    results: pl.LazyFrame, log: pl.LazyFrame, run: str, dtype: pl.DataType, baseline: Any
) -> pl.LazyFrame:
    """Return the results; collecting them raises if the log has no row of the baseline."""
    # Polars would hold the whole column for `pl.col(run).unique()`.
    runs = (
        log.select(run)
        .unique()
        .select(
            is_run(run, dtype, baseline).any().alias(_EXISTS),
            pl.col(run).sort().head(_FIRST_RUNS + 1).implode().alias(_ROWS),
        )
    )

    def check(rows: pl.DataFrame) -> None:
        names = [name for row in rows.get_column(_ROWS) for name in row]
        if names and not rows.get_column(_EXISTS).all():
            raise unknown_run(run, names, "baseline", baseline)

    return with_check(results, runs, check)
