"""Each list beside the same query's list in the baseline run."""

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
#: Whether the query has a list in the baseline too.
PAIRED = pl.col(_IN_BOTH).fill_null(value=False)


@dataclass(frozen=True)
class Pairs:
    """Which columns tell lists apart, and which run the others are compared with."""

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
        """Return the pairs of a table, its columns checked."""
        found = key_columns(schema, by=by, run=run, query=query, weight=weight, cluster=cluster)
        if len(found["run"]) != 1 or not found["query"]:
            message = f"`run` and `query` must name columns; found {run!r} and {query!r}"
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
        """The columns that are no metrics."""
        weight = [] if self.weight is None else [self.weight]
        return [*self.by, self.run, *self.query, *weight, *self.cluster]

    @property
    def name(self) -> str:
        """The baseline in words."""
        return str(self.baseline)

    @property
    def is_baseline(self) -> pl.Expr:
        """Whether a row is of the baseline."""
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
        """Whether the two lists of a pair have different weights."""
        if self.weight is None:
            return pl.lit(value=False)
        return PAIRED & (pl.col(self.weight) != self.baseline_of(self.weight))

    def joined(self, lists: pl.LazyFrame, metrics: Sequence[str]) -> pl.LazyFrame:
        """Return the lists with the baseline's values of the same query beside them."""
        keys = [*self.by, *self.query]
        beside = [*metrics, *([] if self.weight is None else [self.weight])]
        base = (
            lists.filter(self.is_baseline)
            .select(
                *keys,
                *(pl.col(name).alias(_BASELINE + name) for name in beside),
                pl.lit(value=True).alias(_IN_BOTH),
            )
            # What stands twice is an error, found in `checked`; here it must not multiply.
            .unique(keys, keep="any")
        )
        return lists.join(base, on=keys, how="left", nulls_equal=True)

    def checked(self, results: pl.LazyFrame, lists: pl.LazyFrame) -> pl.LazyFrame:
        """Return the results, which raise when a query stands twice in a run."""
        keys = [*self.by, self.run, *self.query]
        most = lists.group_by(keys).agg(pl.len().alias(_ROWS)).select(pl.col(_ROWS).max())

        def check(found: pl.DataFrame) -> None:
            if (found.get_column(_ROWS).max() or 0) > 1:  # type: ignore[operator]
                raise self._repeated(lists)

        return provided(results, most, check)

    def _repeated(self, lists: pl.LazyFrame) -> DataError:
        keys = [*self.by, self.run, *self.query]
        problem = (
            f"a list stands more than once: the columns {', '.join(map(repr, keys))} do not tell "
            f"lists apart; name those that do with `query` or `by`, or drop repeats"
        )
        return data_error(lists, {problem: pl.struct(keys).is_duplicated()}, "query", "by")


def is_run(run: str, dtype: pl.DataType, name: Any) -> pl.Expr:
    """Return whether a row is of the run of a name."""
    column = (
        pl.col(run) if dtype == pl.String or not _is_text(dtype) else pl.col(run).cast(pl.String)
    )
    return column.eq_missing(pl.lit(name))


def with_known_baseline(
    results: pl.LazyFrame, log: pl.LazyFrame, run: str, dtype: pl.DataType, baseline: Any
) -> pl.LazyFrame:
    """Return the results, which raise when collected if no row of the log is of the baseline."""
    runs = log.select(
        is_run(run, dtype, baseline).any().alias(_THERE),
        pl.col(run).unique().sort().head(10).implode().alias(_ROWS),
    )

    def check(found: pl.DataFrame) -> None:
        told = ", ".join(repr(name) for row in found.get_column(_ROWS) for name in row)
        if told and not found.get_column(_THERE).all():
            message = f"there is no run {baseline!r} in the column {run!r}; there are {told}"
            raise DataError(message)

    return provided(results, runs, check)


def provided(
    results: pl.LazyFrame, facts: pl.LazyFrame, check: Callable[[pl.DataFrame], None]
) -> pl.LazyFrame:
    """Return the results, which raise when collected if the check of other rows does.

    The check is a table of no rows behind them: a join might not look at it where there are no
    results, nor keep their order.
    """
    schema = results.collect_schema()

    def checked(batch: pl.DataFrame) -> pl.DataFrame:
        check(batch)
        return pl.DataFrame(schema=schema)

    nothing = facts.map_batches(checked, schema=schema, streamable=True)
    return pl.concat([results, nothing])


def _is_text(dtype: pl.DataType) -> bool:
    return dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum)
