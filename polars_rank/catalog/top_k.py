"""The top k documents of each ranking, the input of all functions of the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, one_of, whole_number
from polars_rank.checks import Check, checks_of
from polars_rank.columns import Columns, Score, default_column, labeled, scored
from polars_rank.conventions import Ties
from polars_rank.evaluation.checks import (
    duplicate_check,
    duplicates_remedy,
    row_checks,
    unnamed_checks,
    weight_check,
)
from polars_rank.evaluation.per_ranking import DOC, DOCUMENTS, SIZE, TIES, retrieved_documents
from polars_rank.evaluation.runs import with_known_runs
from polars_rank.frames.batches import added_up
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.metric import checked_parameter
from polars_rank.metrics.user_columns import no_count

if TYPE_CHECKING:
    from polars_rank.discounts import Discount
    from polars_rank.evaluation.contiguity import Keys

#: The rank of a document in the top k; null in the row of a ranking without documents.
RANK = OWN + "rank"

_WEIGHT, _CLICK = OWN + "weight", OWN + "click"


@dataclass(frozen=True)
class Rankings:
    """A log of rankings with its checked columns, from which the top k documents are read."""

    log: pl.LazyFrame
    columns: Columns
    k: int | None
    ties: Ties | None
    #: Additional columns of a document.
    extras: Mapping[str, pl.Expr]
    checks: list[Check]

    @classmethod
    def of(
        cls,
        frame: pl.LazyFrame,
        k: int | None,
        *,
        query: Names,
        doc: str,
        score: Score,
        position: str | None,
        run: str | None,
        by: Names | None,
        ties: Ties | None,
        label: str | None = None,
    ) -> Rankings:
        """Check the parameters; raise `SchemaError` or `ArgumentError` for an invalid one."""
        one_of("ties", ties, (None, *TIES))
        if k is not None:
            whole_number("k", k)
        log, own_label = labeled(frame, label)
        log, own_score = scored(log, score, position)
        parameter = "score" if position is None else "position"
        columns = Columns.find(
            schema_of(log), query=query, doc=doc, score=own_score, label=own_label, run=run, by=by,
            score_parameter=parameter,
        )  # fmt: skip
        log = with_known_runs(log, columns)
        if position is not None:
            columns.check("position", [position])
        checks = [
            *row_checks(columns),
            duplicate_check(columns, DOC, remedy=duplicates_remedy()),
            *unnamed_checks(columns),
        ]
        return cls(log, columns, k, ties, {}, checks)

    def with_extra(self, name: str, value: pl.Expr, checks: Sequence[Check]) -> Rankings:
        """Return the rankings with an additional column of documents and its row checks."""
        return replace(self, extras={**self.extras, name: value}, checks=[*self.checks, *checks])

    def with_weight(self, weight: str | None) -> Rankings:
        """Return the rankings with the column of weights; unchanged if it is None."""
        if weight is None:
            return self
        self.columns.check("weight", [weight], "number")
        value = pl.col(weight).cast(pl.Float64)
        return self.with_extra(_WEIGHT, value, [weight_check(f"{weight!r} (`weight`)", value)])

    def with_click(self, click: str) -> Rankings:
        """Return the rankings with a column of clicks; by default "click", if it exists."""
        schema = self.columns.schema
        if default_column(click, "click", schema) is None:
            return self
        self.columns.check("click", [click], "number")
        value = (pl.col(click).cast(pl.Float64) > 0).fill_null(value=False)
        return self.with_extra(_CLICK, value, checks_of("row", no_count("click", click)))

    @property
    def has_clicks(self) -> bool:
        """Whether the rankings have a column of clicks."""
        return _CLICK in self.extras

    @property
    def clicks(self) -> pl.Expr:
        """The number of clicks, as an aggregation."""
        return pl.col(_CLICK).sum().cast(pl.UInt32)

    def exposure(self, discount: Discount | None) -> pl.Expr:
        """Return the exposure of a document: its weight times the discount of its rank."""
        value = discount_of(discount)(pl.col(RANK))
        if _WEIGHT in self.extras:
            value = value * pl.col(_WEIGHT)
        return pl.when(pl.col(RANK).is_not_null()).then(value.cast(pl.Float64)).otherwise(0.0)

    def documents(self) -> tuple[pl.LazyFrame, Keys]:
        """Return one row per document in the top k, in rank order, and the keys of rankings.

        The columns are the keys under their internal names, `DOC`, `RANK`, `SIZE` and the extras. A
        ranking without retrieved documents has one row with a null document.
        """
        rankings, keys = retrieved_documents(
            self.log, self.columns, ties=self.ties, checks=self.checks, k=self.k,
            extras=self.extras,
        )  # fmt: skip
        ranks = pl.int_ranges(1, pl.col(SIZE) + 1, dtype=pl.UInt32).alias(RANK)
        rows = rankings.with_columns(ranks).explode(DOCUMENTS, RANK, empty_as_null=True)
        return rows.unnest(DOCUMENTS), keys

    def sums(self, rows: pl.LazyFrame, keys: Keys, sums: Sequence[pl.Expr]) -> pl.LazyFrame:
        """Return sums over the rows of `documents`, grouped by the columns of `by` and `DOC`."""
        groups = [*self.columns.by, DOC]
        rows = rows.with_columns(pl.col(keys.names[name]).alias(name) for name in self.columns.by)
        if keys.are_adjacent(self.log):
            return added_up(rows, groups, sums)
        return rows.group_by(groups).agg(sums)


def discount_of(discount: Discount | None) -> Discount:
    """Return the function of a discount; raise `ArgumentError` for an unknown name."""
    return _constant if discount is None else checked_parameter("discount", discount)


def _constant(rank: pl.Expr) -> pl.Expr:
    """Return the discount 1 at each rank."""
    return rank.cast(pl.Float64).pow(0)
