"""Numbers of impressions and clicks by (query, document, position), from which bias is estimated.

A log in a known order, such as one from `scan_log`, is counted ranking by ranking in flat memory.
For any other log, memory holds one row per (query, document, position).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN
from polars_rank.checks import FAILED, Check, checks_of, failed, failed_in_ranking, raise_failed
from polars_rank.columns import Columns
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.log import per_ranking

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ROW = OWN + "row"


@dataclass(frozen=True)
class ImpressionLog:
    """A log of impressions without documents that were not shown, and its checked columns."""

    log: pl.LazyFrame
    columns: Columns

    @property
    def groups(self) -> dict[str, str]:
        """The `by` columns → their internal names."""
        keys = Keys.of(self.columns).names
        return {name: keys[name] for name in self.columns.by}

    @property
    def checks(self) -> list[Check]:
        """The checks of the rows."""
        position, click = (_number(name) for name in (self.columns.score, self.columns.label))
        ids = (*self.columns.query, str(self.columns.doc))
        problems = {
            **{
                f"null in the id column {name!r}; drop these rows": (pl.col(name).is_null())
                for name in ids
            },
            f"column {self.columns.score!r} (`position`) must have integers from 1 (the top)": (
                (position < 1) | (position != position.floor()) | ~position.is_finite()
            ),
            f"column {self.columns.label!r} (`click`) must be Boolean, 0 or 1": (click != 0)
            & (click != 1),
        }
        return checks_of("row", problems)

    def rows(self, named: Mapping[str, str], *more: pl.Expr) -> pl.LazyFrame:
        """Return one row per document, in the order of the log, with internal column names."""
        return self.log.select(
            *(pl.col(name).alias(own) for name, own in named.items()),
            *(each.alias(own) for own, each in self._row.items()),
            failed(self.checks, "row"),
            *more,
        )

    def counts(self) -> tuple[pl.LazyFrame, list[str]]:
        """Return clicks and impressions by (query, document, position), and the keys of a pair.

        Rows of a (query, document) pair are adjacent and sorted by position.
        """
        ranking_keys = Keys.of(self.columns)
        totals = [
            pl.col("click").sum().cast(pl.UInt32).alias("clicks"),
            pl.len().alias("impressions"),
            failed_in_ranking(self.checks),
        ]
        if not ranking_keys.are_adjacent(self.log):
            pair = [*ranking_keys.names.values(), "doc"]
            keys = [*pair, "position"]
            rows = self.rows(ranking_keys.names)
            return rows.group_by(keys).agg(totals).sort(keys).set_sorted(keys), pair
        pair = [*ranking_keys.group, "doc"]
        keys = [*pair, "position"]
        row = pl.struct("doc", "position", "click").sort_by("doc", "position").alias(_ROW)
        by_ranking, ranking_keys = per_ranking(
            self.log, self.columns, self._row, [row], self.checks
        )
        counts = (
            by_ranking.explode(_ROW)
            .unnest(_ROW)
            .with_columns(pl.lit(0, dtype=pl.UInt8).alias(FAILED))  # checked above
            .set_sorted(keys)
            .group_by(keys, maintain_order=True)
            .agg(*ranking_keys.carried, *totals)
            .set_sorted(pair)
        )
        return counts, pair

    def carried(self, pair: Sequence[str]) -> list[pl.Expr]:
        """Return the columns of groups that are not keys of a pair, as aggregations."""
        return [pl.col(name).first() for name in self.groups.values() if name not in pair]

    def checked(self, results: pl.LazyFrame) -> pl.LazyFrame:
        """Return the results with the user's names; collecting them raises for invalid rows."""
        table = raise_failed(results, self.checks, log=self.log)
        return table.rename({own: name for name, own in self.groups.items()})

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
