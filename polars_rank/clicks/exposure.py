"""How often each document was shown and clicked at each position: what position bias is read from.

A log that is known to be in order, as `scan_log` makes any log, is counted list by list in flat
memory. Of any other, one row is kept for each (query, document, position).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, check_apart, find_columns
from polars_rank._polars import is_sorted_by
from polars_rank._progress import known_rows, watcher
from polars_rank.clicks.impressions import per_list
from polars_rank.columns import Columns
from polars_rank.evaluation.checks import (
    FAILED,
    Check,
    checks_of,
    failed,
    failed_in_ranking,
    raise_failed,
)
from polars_rank.evaluation.contiguity import Keys
from polars_rank.frames.tables import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_ROW = OWN + "row"


@dataclass(frozen=True)
class Exposure:
    """The documents shown, of a log of impressions, and its columns, checked against its schema."""

    log: pl.LazyFrame
    columns: Columns
    #: What is done with the rows as they go by, such as to count them on a bar.
    beside: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda log: log

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
        progress: bool = False,
    ) -> Exposure:
        """Check names and types; raise `SchemaError` where one is off."""
        schema = schema_of(log)
        found = find_columns(
            schema,
            {"query": query, "doc": doc, "by": by or (), "position": position, "click": click},
            numbers=("position", "click"),
        )
        queries, groups = found["query"], found["by"]
        check_apart("query", queries, groups)
        shown = log.filter(pl.col(position).is_not_null(), pl.col(click).is_not_null())
        columns = Columns(queries, groups, doc, position, click, schema)
        return cls(shown, columns, watcher(known_rows(log))) if progress else cls(shown, columns)

    @property
    def groups(self) -> dict[str, str]:
        """The `by` columns, and our own names for them."""
        keys = Keys.of(self.columns).names
        return {name: keys[name] for name in self.columns.by}

    @property
    def checks(self) -> list[Check]:
        """The checks of the rows."""
        position, click = (_number(name) for name in (self.columns.score, self.columns.label))
        ids = (*self.columns.query, str(self.columns.doc))
        problems = {
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
        return checks_of("row", problems)

    def rows(self, named: Mapping[str, str], *more: pl.Expr) -> pl.LazyFrame:
        """Return a row for each document, as it comes, with the columns named, under our names."""
        return self.beside(self.log).select(
            *(pl.col(name).alias(own) for name, own in named.items()),
            *(each.alias(own) for own, each in self._row.items()),
            failed(self.checks, "row"),
            *more,
        )

    def counts(self) -> tuple[pl.LazyFrame, list[str]]:
        """Return clicks and impressions by (query, document, position), and the keys of a pair.

        The rows of each pair of query and document stand together, in the order of positions.
        """
        lists = Keys.of(self.columns)
        totals = [
            pl.col("click").sum().cast(pl.UInt32).alias("clicks"),
            pl.len().alias("impressions"),
            failed_in_ranking(self.checks),
        ]
        if lists.number is None and not is_sorted_by(self.log, lists.order):
            pair = [*lists.names.values(), "doc"]
            keys = [*pair, "position"]
            rows = self.rows(lists.names)
            return rows.group_by(keys).agg(totals).sort(keys).set_sorted(keys), pair
        pair = [*lists.group, "doc"]
        keys = [*pair, "position"]
        row = pl.struct("doc", "position", "click").sort_by("doc", "position").alias(_ROW)
        by_list, lists = per_list(
            self.log, self.columns, self._row, [row], self.checks, self.beside
        )
        counted = (
            by_list.explode(_ROW)
            .unnest(_ROW)
            .with_columns(pl.lit(0, dtype=pl.UInt8).alias(FAILED))  # checked above
            .set_sorted(keys)
            .group_by(keys, maintain_order=True)
            .agg(*lists.carried, *totals)
            .set_sorted(pair)
        )
        return counted, pair

    def carried(self, pair: Sequence[str]) -> list[pl.Expr]:
        """Return the groups that are not among the keys of a pair."""
        return [pl.col(name).first() for name in self.groups.values() if name not in pair]

    def checked(self, results: pl.LazyFrame) -> pl.LazyFrame:
        """Return the results under the user's names; collecting them raises for rows at fault."""
        found = raise_failed(results, self.checks, log=self.log)
        return found.rename({own: name for name, own in self.groups.items()})

    @property
    def _row(self) -> dict[str, pl.Expr]:
        columns = self.columns
        return {
            "doc": pl.col(str(columns.doc)),
            "position": pl.col(columns.score).cast(pl.Int64, strict=False),
            "click": _number(columns.label) == 1,
        }


def _number(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Float64)
