"""Rankings joined with the baseline's rankings of the same queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names
from polars_rank.errors import ArgumentError, DataError
from polars_rank.stats.tables import data_error, key_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_BASELINE = OWN + "baseline "
_IN_BOTH = OWN + "in both"
_ROWS, _THERE = OWN + "rows", OWN + "there"
#: Whether the query has a ranking in the baseline, too.
PAIRED = pl.col(_IN_BOTH).fill_null(value=False)


@dataclass(frozen=True)
class Pairs:
    """The columns that identify rankings, and the baseline."""

    by: tuple[str, ...]
    run: str
    query: tuple[str, ...]
    weight: str | None
    cluster: tuple[str, ...]
    baseline: Any
    schema: pl.Schema

    @classmethod
    def of(
        cls,
        schema: pl.Schema,
        *,
        by: Names | None,
        run: str,
        query: Names,
        baseline: Any,
        weight: str | None = None,
        cluster: Names | None = None,
    ) -> Pairs:
        """Return the pairs of a table; raise if a column is missing."""
        found = key_columns(schema, by=by, run=run, query=query, weight=weight, cluster=cluster)
        if len(found["run"]) != 1 or not found["query"]:
            message = f"`run` must name one column, `query` at least one; found {run!r}, {query!r}"
            raise ArgumentError(message, "run", "query")
        dtype = schema[run]
        if isinstance(baseline, str) is not _is_text(dtype):
            message = (
                f"`baseline` must be a value of the column {run!r} of type {dtype}; "
                f"found {baseline!r}"
            )
            raise ArgumentError(message, "baseline")
        return cls(found["by"], run, found["query"], weight, found["cluster"], baseline, schema)

    @property
    def columns(self) -> list[str]:
        """The columns that are not metrics."""
        weight = [] if self.weight is None else [self.weight]
        return [*self.by, self.run, *self.query, *weight, *self.cluster]

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

    @staticmethod
    def baseline_of(column: str) -> pl.Expr:
        """Return the baseline's value of a column."""
        return pl.col(_BASELINE + column)

    @property
    def torn(self) -> pl.Expr:
        """Whether the two rankings of a pair have different weights."""
        if self.weight is None:
            return pl.lit(value=False)
        return PAIRED & (pl.col(self.weight) != self.baseline_of(self.weight))

    def joined(self, table: pl.LazyFrame, metrics: Sequence[str]) -> pl.LazyFrame:
        """Return the table with the baseline's values of the same query as further columns."""
        keys = [*self.by, *self.query]
        beside = [*metrics, *([] if self.weight is None else [self.weight])]
        base = (
            table.filter(self.is_baseline)
            .select(
                *keys,
                *(pl.col(name).alias(_BASELINE + name) for name in beside),
                pl.lit(value=True).alias(_IN_BOTH),
            )
            # `checked` finds duplicates; here they must not multiply rows.
            .unique(keys, keep="any")
        )
        return table.join(base, on=keys, how="left", nulls_equal=True)

    def checked(self, results: pl.LazyFrame, table: pl.LazyFrame) -> pl.LazyFrame:
        """Return the results; collecting them raises if a query occurs twice in a run."""
        keys = [*self.by, self.run, *self.query]
        most = table.group_by(keys).agg(pl.len().alias(_ROWS)).select(pl.col(_ROWS).max())

        def check(rows: pl.DataFrame) -> None:
            if (rows.get_column(_ROWS).max() or 0) > 1:  # type: ignore[operator]
                raise self._duplicates(table)

        return provided(results, most, check)

    def _duplicates(self, table: pl.LazyFrame) -> DataError:
        keys = [*self.by, self.run, *self.query]
        problem = (
            f"duplicate rankings: {', '.join(map(repr, keys))} do not identify a row; name further "
            "columns in `query` or `by`, or drop duplicates"
        )
        return data_error(table, {problem: pl.struct(keys).is_duplicated()}, "query", "by")


def is_run(run: str, dtype: pl.DataType, name: Any) -> pl.Expr:
    """Return whether a row belongs to a run."""
    column = (
        pl.col(run) if dtype == pl.String or not _is_text(dtype) else pl.col(run).cast(pl.String)
    )
    return column.eq_missing(pl.lit(name))


def with_known_baseline(
    results: pl.LazyFrame, log: pl.LazyFrame, run: str, dtype: pl.DataType, baseline: Any
) -> pl.LazyFrame:
    """Return the results; collecting them raises if the log has no row of the baseline."""
    runs = log.select(
        is_run(run, dtype, baseline).any().alias(_THERE),
        pl.col(run).unique().sort().head(10).implode().alias(_ROWS),
    )

    def check(rows: pl.DataFrame) -> None:
        names = ", ".join(repr(name) for row in rows.get_column(_ROWS) for name in row)
        if names and not rows.get_column(_THERE).all():
            message = f"run {baseline!r} not found in the column {run!r}; available: {names}"
            raise DataError(message)

    return provided(results, runs, check)


def provided(
    results: pl.LazyFrame, facts: pl.LazyFrame, check: Callable[[pl.DataFrame], None]
) -> pl.LazyFrame:
    """Return the results; collecting them raises if the check of `facts` does.

    The check is concatenated as a table without rows: a join might skip it if there are no
    results, and need not keep their order.
    """
    schema = results.collect_schema()

    def checked(batch: pl.DataFrame) -> pl.DataFrame:
        check(batch)
        return pl.DataFrame(schema=schema)

    nothing = facts.map_batches(checked, schema=schema, streamable=True)
    return pl.concat([results, nothing])


def _is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum)
