"""The top k documents of each ranking, the input of all functions of the catalog."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, one_of, whole_number
from polars_rank.checks import checks_of
from polars_rank.columns import RUN
from polars_rank.evaluation.checks import duplicates_remedy, weight_check
from polars_rank.evaluation.log import Log, Rules
from polars_rank.evaluation.ranked import DOC, DOCUMENTS, SIZE, TIES, retrieved_documents
from polars_rank.frames.batches import added_up
from polars_rank.metrics.metric import checked_parameter
from polars_rank.metrics.user_columns import no_count

if TYPE_CHECKING:
    from polars_rank.conventions import Ties
    from polars_rank.discounts import Discount
    from polars_rank.evaluation.contiguity import Keys

#: The rank of a document in the top k; null in the row of a ranking without documents.
RANK = OWN + "rank"

_WEIGHT, _CLICK = OWN + "weight", OWN + "click"


@dataclass(frozen=True)
class Rankings:
    """A log of rankings with its checked columns, from which the top k documents are read."""

    log: Log
    k: int | None

    @classmethod
    def of(cls, frame: pl.LazyFrame, k: int | None, ties: Ties | None, **roles: Any) -> Rankings:
        """Check the parameters; raise `SchemaError` or `ArgumentError` for an invalid one."""
        one_of("ties", ties, (None, *TIES))
        if k is not None:
            whole_number("k", k)
        log = Log.find(
            frame, {"label": None, **roles}, optional=(RUN, "label", "click"), rules=Rules(ties),
            remedy=duplicates_remedy(),
        )  # fmt: skip
        extras, checks = {}, []
        if weight := log.columns.one("weight"):
            extras[_WEIGHT] = pl.col(weight).cast(pl.Float64)
            checks.append(weight_check(f"{weight!r} (`weight`)", extras[_WEIGHT]))
        if click := log.columns.one("click"):
            extras[_CLICK] = (pl.col(click).cast(pl.Float64) > 0).fill_null(value=False)
            checks += checks_of("row", no_count("click", click))
        return cls(replace(log, others=extras, checks_of_others=checks), k)

    @property
    def has_clicks(self) -> bool:
        """Whether the rankings have a column of clicks."""
        return _CLICK in self.log.others

    @property
    def clicks(self) -> pl.Expr:
        """The number of clicks, as an aggregation."""
        return pl.col(_CLICK).sum().cast(pl.UInt32)

    def exposure(self, discount: Discount | None) -> pl.Expr:
        """Return the exposure of a document: its weight times the discount of its rank."""
        value = discount_of(discount)(pl.col(RANK))
        if _WEIGHT in self.log.others:
            value = value * pl.col(_WEIGHT)
        return pl.when(pl.col(RANK).is_not_null()).then(value.cast(pl.Float64)).otherwise(0.0)

    def documents(self) -> tuple[pl.LazyFrame, Keys]:
        """Return one row per document in the top k, in rank order, and the keys of rankings.

        The columns are the keys under their internal names, `DOC`, `RANK`, `SIZE` and the extras. A
        ranking without retrieved documents has one row with a null document.
        """
        rankings = retrieved_documents(self.log, self.k)
        ranks = pl.int_ranges(1, pl.col(SIZE) + 1, dtype=pl.UInt32).alias(RANK)
        rows = rankings.with_columns(ranks).explode(DOCUMENTS, RANK, empty_as_null=True)
        return rows.unnest(DOCUMENTS), self.log.keys

    def sums(self, rows: pl.LazyFrame, keys: Keys, sums: Sequence[pl.Expr]) -> pl.LazyFrame:
        """Return sums over the rows of `documents`, grouped by the columns of `by` and `DOC`."""
        groups = [*self.log.columns.by, DOC]
        rows = rows.with_columns(
            pl.col(keys.names[name]).alias(name) for name in self.log.columns.by
        )
        if keys.are_adjacent(self.log.table):
            return added_up(rows, groups, sums)
        return rows.group_by(groups).agg(sums)


def discount_of(discount: Discount | None) -> Discount:
    """Return the function of a discount; raise `ArgumentError` for an unknown name."""
    return _constant if discount is None else checked_parameter("discount", discount)


def _constant(rank: pl.Expr) -> pl.Expr:
    """Return the discount 1 at each rank."""
    return rank.cast(pl.Float64).pow(0)
