"""How often each document was shown and clicked at each position: what position bias is read from.

A log that is known to be in order, as `scan_log` makes any log, is counted list by list in flat
memory. Of any other, one row is kept for each (query, document, position).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from polars_rank.columns import OWN, Columns, Names, check_there, names, schema_of
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.plan import Lists
from polars_rank.validation import FAULT, disordered, fault, raise_for_faults

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROW, _SHOWN, _MIXED = OWN + "row", OWN + "shown", OWN + "mixed"


@dataclass(frozen=True)
class Exposure:
    """The columns of an impression log, checked against its schema."""

    log: pl.LazyFrame
    columns: Columns

    @classmethod
    def of(
        cls,
        log: pl.LazyFrame,
        *,
        query: Names,
        doc: str,
        position: str,
        click: str,
        by: Names | None,
    ) -> Exposure:
        """Check names and types; raise `SchemaError` where one is off."""
        schema = schema_of(log)
        queries, groups = names("query", query), names("by", by)
        wanted = [("query", queries), ("doc", [doc]), ("by", groups)]
        numbers = [("position", position), ("click", click)]
        for parameter, columns in [*wanted, *((each, [name]) for each, name in numbers)]:
            for column in columns:
                check_there(parameter, column, schema)
        if not queries or set(queries) & set(groups):
            message = f"`query` must name columns that are not in `by`; found {queries}"
            raise ArgumentError(message)
        for parameter, column in numbers:
            dtype = schema[column]
            if not (dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)):
                message = f"column {column!r} (`{parameter}`) must be numeric; found {dtype}"
                raise SchemaError(message)
        return cls(log, Columns(queries, groups, doc, position, click, schema))

    @property
    def groups(self) -> dict[str, str]:
        """The `by` columns, and our own names for them."""
        keys = Lists.of(self.columns).keys
        return {name: keys[name] for name in self.columns.by}

    @property
    def rules(self) -> dict[str, pl.Expr]:
        """What is wrong with a row → whether it is."""
        position, click = (_number(name) for name in (self.columns.score, self.columns.label))
        ids = (*self.columns.query, str(self.columns.doc))
        return {
            **{
                f"null in the column {name!r}, which tells documents apart; drop these rows": (
                    pl.col(name).is_null()
                )
                for name in ids
            },
            f"{self.columns.score!r} (position) must be a whole number, 1 for the top": (
                (position < 1) | (position != position.floor()) | ~position.is_finite()
            ),
            f"{self.columns.label!r} (click) must be true or false, 0 or 1": (click != 0)
            & (click != 1),
        }

    def rows(self, *more: pl.Expr) -> pl.LazyFrame:
        """Return a row for each document that was shown, as it comes, under our own names."""
        return self._shown(self.log, self.groups, *more)

    def counts(self) -> tuple[pl.LazyFrame, list[str]]:
        """Return clicks and impressions by (query, document, position), and the keys of a pair.

        The rows of each pair of query and document stand together, in the order of positions.
        """
        lists = Lists.of(self.columns)
        totals = [
            pl.col("click").sum().cast(pl.UInt32).alias("clicks"),
            pl.len().alias("impressions"),
            pl.col(FAULT).max(),
        ]
        if lists.number is None and not _in_order(self.log, lists.order):
            pair = [*lists.keys.values(), "doc"]
            keys = [*pair, "position"]
            rows = self._shown(self.log, lists.keys)
            return rows.group_by(keys).agg(totals).sort(keys).set_sorted(keys), pair
        pair = [*lists.group, "doc"]
        keys = [*pair, "position"]
        row = pl.struct("doc", "position", "click").sort_by("doc", "position")
        counted = (
            self._list_by_list(lists, row.alias(_ROW))
            .explode(_ROW)
            .unnest(_ROW)
            .set_sorted(keys)
            .group_by(keys, maintain_order=True)
            .agg(*lists.carried, *totals)
            .set_sorted(pair)
        )
        return counted, pair

    def _list_by_list(self, lists: Lists, *values: pl.Expr) -> pl.LazyFrame:
        """Return values of each list, and whether its rows do not stand where they were said to.

        That is looked at list by list: row by row, Polars would hold back rows without end.
        """
        named = {**lists.keys, **dict(zip(lists.order, lists.group, strict=True))}
        own = {OWN + f"own {index}": pl.col(name) for index, name in enumerate(lists.order)}
        told = [each.meta.output_name() for each in lists.hashed]
        rows = self._shown(
            lists.in_order(self.log),
            named,
            *(each.alias(name) for name, each in own.items()),
            *lists.hashed,
        )
        mixed = pl.any_horizontal(
            pl.col(name).ne_missing(pl.col(name).first()).any() for name in [*own, *told]
        )
        found = (
            rows.set_sorted(lists.group)
            .group_by(lists.group, maintain_order=True)
            .agg(
                *lists.carried,
                *values,
                pl.col(FAULT).max(),
                *(pl.col(name).first() for name in told),
                mixed.alias(_MIXED),
            )
        )
        broken = lists.disorder(self.columns.schema) | pl.col(_MIXED)
        return found.with_columns(disordered(broken)).drop(_MIXED, *told)

    def carried(self, pair: Sequence[str]) -> list[pl.Expr]:
        """Return the groups that are not among the keys of a pair."""
        return [pl.col(name).first() for name in self.groups.values() if name not in pair]

    def checked(self, results: pl.LazyFrame) -> pl.LazyFrame:
        """Return the results under the user's names; collecting them raises for rows at fault."""
        found = raise_for_faults(
            results, self.log, Columns((), (), None, "", "", self.columns.schema), self.rules
        )
        return found.rename({own: name for name, own in self.groups.items()})

    def _shown(
        self,
        log: pl.LazyFrame,
        named: Mapping[str, str],
        *more: pl.Expr,
    ) -> pl.LazyFrame:
        columns = self.columns
        rows = log.select(
            *(pl.col(name).alias(own) for name, own in named.items()),
            pl.col(str(columns.doc)).alias("doc"),
            pl.col(columns.score).cast(pl.Int64, strict=False).alias("position"),
            (_number(columns.label) == 1).alias("click"),
            fault(self.rules),
            *more,
            pl.col(columns.score).is_not_null().alias(_SHOWN),
        )
        return rows.filter(_SHOWN, pl.col("click").is_not_null()).drop(_SHOWN)


def _number(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Float64)


def _in_order(log: pl.LazyFrame, keys: Sequence[str]) -> bool:
    """Return whether Polars knows a log to be sorted by the keys."""
    return "SORT BY" not in log.select(keys).sort(keys).explain()
