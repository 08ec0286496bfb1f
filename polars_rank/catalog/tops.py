"""The first k documents of each ranking, ranking by ranking, in the library's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, check_column, one_of, whole_number
from polars_rank.clicks.impressions import per_ranking
from polars_rank.columns import CLICK, Columns, Score, labeled, scored
from polars_rank.conventions import Ties
from polars_rank.discounts import DISCOUNTS
from polars_rank.evaluation.checks import (
    Check,
    checks_of,
    duplicate_check,
    row_checks,
    weight_check,
)
from polars_rank.evaluation.order import rank_order
from polars_rank.frames.tables import schema_of
from polars_rank.metrics.signals import negative

if TYPE_CHECKING:
    from polars_rank.discounts import Discount
    from polars_rank.evaluation.contiguity import Keys

#: A document of the first k under internal names; both are null for a ranking without documents.
DOC, RANK = OWN + "doc", OWN + "rank"
#: The number of documents of the ranking among the first k.
SIZE = OWN + "size"

_SCORE, _LABEL, _ROW = OWN + "score of row", OWN + "label", OWN + "row"
_WEIGHT, _CLICK = OWN + "weight", OWN + "click"

#: What to do about documents that occur more than once, in functions without `duplicates`.
REMEDY = (
    "turn rankings of chunks into rankings of documents with pr.collapse, add the columns that "
    "identify a ranking, such as the run, to `by`, or drop the duplicates"
)

#: The rules for ties that read no labels.
TIES = ("doc", "doc_ascending", "input")


@dataclass(frozen=True)
class Rankings:
    """Rankings whose first k documents are read, with their checked columns."""

    log: pl.LazyFrame
    columns: Columns
    k: int | None
    ties: Ties
    #: Further columns of a document, and the checks of them.
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
        by: Names | None,
        ties: Ties,
        label: str | None = None,
    ) -> Rankings:
        """Check the parameters; raise `SchemaError` or `ArgumentError` for an invalid one."""
        one_of("ties", ties, TIES)
        if k is not None:
            whole_number("k", k)
        log, own_label = labeled(frame, label)
        log, own_score = scored(log, score, position)
        columns = Columns.find(
            schema_of(log), query=query, doc=doc, score=own_score, label=own_label, by=by
        )
        columns.pair  # noqa: B018  (raises the error for a document that is a key)
        checks = [
            *row_checks(columns),
            duplicate_check(columns, DOC, remedy=REMEDY),
        ]
        return cls(log, columns, k, ties, {}, checks)

    def with_extra(self, name: str, value: pl.Expr, checks: Sequence[Check]) -> Rankings:
        """Return the rankings with another column of documents, and the checks of its rows."""
        return replace(self, extras={**self.extras, name: value}, checks=[*self.checks, *checks])

    def with_weight(self, weight: str | None) -> Rankings:
        """Return the rankings with a column of weights."""
        if weight is None:
            return self
        check_column("weight", weight, self.columns.schema, "number")
        value = pl.col(weight).cast(pl.Float64)
        return self.with_extra(_WEIGHT, value, [weight_check(f"{weight!r} (`weight`)", value)])

    def with_click(self, click: str) -> Rankings:
        """Return the rankings with a column of clicks; by default "click", if it exists."""
        schema = self.columns.schema
        if click is CLICK and click not in schema:
            return self
        check_column("click", click, schema, "number")
        value = (pl.col(click).cast(pl.Float64) > 0).fill_null(value=False)
        return self.with_extra(_CLICK, value, checks_of("row", negative("click", click)))

    @property
    def has_clicks(self) -> bool:
        """Whether documents have a column of clicks."""
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
        """Return a row for each document of the first k, in rank order, and the keys of rankings.

        The rows have the keys under their internal names, `DOC`, `RANK`, `SIZE` and the extras. A
        ranking without retrieved documents has one row, whose document is null.
        """
        columns = self.columns
        rows = {
            DOC: pl.col(str(columns.doc)),
            _SCORE: columns.number(columns.score),
            **self.extras,
        }
        schema = {
            DOC: columns.schema[str(columns.doc)],
            _SCORE: columns.number_type(columns.score),
            _LABEL: pl.Int8(),
        }
        own = columns._replace(doc=DOC, score=_SCORE, label=_LABEL, schema=pl.Schema(schema))
        size = pl.col(_SCORE).count()
        size = size if self.k is None else size.clip(upper_bound=self.k)
        document = pl.struct(DOC, *self.extras)
        top = document.sort_by(**rank_order(self.ties, own, only_label=True)).head(size)
        values = [top.alias(_ROW), size.alias(SIZE)]
        rankings, keys = per_ranking(self.log, columns, rows, values, self.checks)
        ranks = pl.int_ranges(1, pl.col(SIZE) + 1, dtype=pl.UInt32).alias(RANK)
        return rankings.with_columns(ranks).explode(_ROW, RANK, empty_as_null=True).unnest(
            _ROW
        ), keys


def discount_of(discount: Discount | None) -> Discount:
    """Return the function of a discount; raise `ArgumentError` for an unknown name."""
    if callable(discount):
        return discount
    one_of("discount", discount, (None, *DISCOUNTS))
    return _constant if discount is None else DISCOUNTS[discount]


def _constant(rank: pl.Expr) -> pl.Expr:
    """Return the discount 1 at each rank."""
    return rank.cast(pl.Float64).pow(0)
