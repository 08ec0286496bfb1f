"""The numbers of another tool: one number, or numbers of runs or queries."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import ArgumentError, DataError, number_of, short
from polars_rank.frames.tables import lazy

if TYPE_CHECKING:
    from polars_rank.evaluation.log import Log

#: Columns of a given number, and of its row in the table of numbers.
OTHER, GROUP = OWN + "other", OWN + "group"

#: The lowest tolerance, for values that were computed with 32 bits.
LOWEST_TOLERANCE = 5e-7


class Given(NamedTuple):
    """The numbers of another tool, by query, by run, or one number."""

    #: The keys of numbers, and the column `OTHER`.
    numbers: pl.DataFrame
    keys: list[str]
    log: Log
    tolerance: float

    @classmethod
    def of(cls, value: Any, log: Log, metric: str) -> Given:
        """Return the numbers of the parameter `value`, in the column of the metric or another."""
        if isinstance(value, Mapping):
            if not log.runs:
                raise ArgumentError(
                    "`value` has numbers of runs, but there is no column of runs; name it with "
                    "`run`, such as run='model'"
                )
            texts = [str(each) for each in value.values()]
            table = pl.DataFrame({log.runs[0]: [*value], OTHER: texts})
        elif isinstance(value, (str, Real)):
            table = pl.DataFrame({OTHER: [str(value)]})
        else:
            table = lazy(value, "value").collect()
        keys = [each for each in log.columns.keys if each in table.columns]
        names = [each for each in table.columns if each not in keys]
        names = [metric] if metric in names else names
        if len(names) != 1:
            raise ArgumentError(
                f"`value` must have a column {metric!r}, or one column besides runs and queries; "
                f"found {', '.join(map(repr, names)) or 'none'}"
            )
        column = table.get_column(names[0]).cast(pl.String).str.strip_chars()
        try:
            digits = [-int(Decimal(text).as_tuple().exponent) for text in {*column.drop_nulls()}]
            tolerance = max(10.0 ** -max(digits, default=0) / 2, LOWEST_TOLERANCE) * (1 + 1e-9)
            found = column.cast(pl.Float64)  # Decimal also reads "1_0" and digits of other scripts
        except (InvalidOperation, ValueError, OverflowError, pl.exceptions.PolarsError):
            raise ArgumentError(
                f"`value` must be a finite number, or have finite numbers; found {short(value)}"
            ) from None
        return cls(table.select(*keys, found.alias(OTHER)), keys, log, tolerance)

    @property
    def has_queries(self) -> bool:
        """Whether the numbers are values of queries."""
        return {*self.log.columns.query} <= {*self.keys}

    def joined(self, rankings: pl.DataFrame) -> pl.DataFrame:
        """Return rankings with their numbers, and with the row of the number."""
        needed = [name for name in self.log.columns.by if rankings.get_column(name).n_unique() > 1]
        needed += [*self.log.columns.query] if {*self.log.columns.query} & {*self.keys} else []
        for name in needed:
            if name not in self.keys:
                raise ArgumentError(
                    f"`value` has no column {name!r}, in which the rankings differ; pass a mapping "
                    "from runs to numbers, a table with this column, or the log of one run"
                )
        types = [pl.col(key).cast(rankings.schema[key], strict=False) for key in self.keys]
        numbers = self.numbers.with_columns(types).with_row_index(GROUP)
        if not self.keys and numbers.height != 1:
            names = " and ".join(map(repr, self.log.columns.keys))
            raise ArgumentError(
                f"`value` has {numbers.height:,} rows, but no column {names}; rename its columns"
            )
        if not self.keys:
            return rankings.join(numbers, how="cross")
        unknown = numbers.join(rankings, on=self.keys, how="anti", nulls_equal=True)
        if unknown.height:
            row = self.numbers.row(unknown.item(0, GROUP), named=True)
            raise DataError(
                f"{number_of(unknown.height, 'number')} of `value` not found in the log, such as "
                f"{short({key: row[key] for key in self.keys})}; add their judged documents to the "
                "log, or drop them"
            )
        if numbers.select(self.keys).is_duplicated().any():
            raise DataError("`value` has several numbers for a query or a run; keep one of them")
        return rankings.join(
            numbers, on=self.keys, how="left", nulls_equal=True, maintain_order="left"
        )
