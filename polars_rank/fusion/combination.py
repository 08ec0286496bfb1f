"""The combination of the documents of all runs of a query into one ranking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN
from polars_rank.checks import FAILED, failed
from polars_rank.definitions import Ordering
from polars_rank.evaluation.order import Order, position, rank_order
from polars_rank.fusion.methods import CANDIDATES, POINTS, RANK, SCORE, SIZE, WEIGHT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.checks import Check
    from polars_rank.columns import Columns
    from polars_rank.conventions import Ties
    from polars_rank.fusion.methods import Fusion

#: The fused score, and the highest and the lowest label of a document; and the highest score of a
#: run for a query.
FUSED, LABEL, LOWEST_LABEL, HIGHEST = (
    pl.col(OWN + name) for name in ("fused score", "label", "lowest label", "highest")
)
_RANK, _SCORE, _POINTS, _WEIGHT, _SIZE, _CANDIDATES, _FUSED, _LABEL, _LOWEST_LABEL, _HIGHEST = (
    each.meta.output_name()
    for each in (RANK, SCORE, POINTS, WEIGHT, SIZE, CANDIDATES, FUSED, LABEL, LOWEST_LABEL, HIGHEST)
)
#: The score in the log, in its type, and the place of the row in the log.
_ORIGINAL, _ROW = OWN + "original score", OWN + "row"
#: The points of a document that a run did not retrieve.
_MISSING = OWN + "points of missing"


@dataclass(frozen=True)
class Combination:
    """The fusion of the rankings of complete queries."""

    fusion: Fusion
    columns: Columns
    run: str
    ties: Ties | None
    checks: Sequence[Check]
    #: Whether the result has the rankings of the runs, too.
    keeps_runs: bool

    @property
    def doc(self) -> str:
        """The column of documents."""
        return str(self.columns.doc)

    @property
    def inputs(self) -> list[pl.Expr]:
        """The columns that the plan reads. Runs are text, as the fused run has a name."""
        columns = self.columns
        return [
            *map(pl.col, columns.pair),
            pl.col(self.run).cast(pl.String),
            columns.number(columns.score).alias(_ORIGINAL),
            columns.number(columns.label).alias(_LABEL),
            failed(self.checks, "row"),
        ]

    def fused(self, rows: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        """Return the documents of the fused run, and of the runs to keep, query by query.

        The fused run is null in the column of runs. `keys` identify queries.
        """
        query = [*dict.fromkeys([*keys, *self.columns.keys])]
        distinct = self.distinct(rows, query)
        scored = self.scored(distinct, query)
        documents = self.combined(scored, query)
        if self.keeps_runs:
            documents = pl.concat([self._kept(distinct, documents, query), documents])
        return documents.sort(
            *keys, self.run, _FUSED, self.doc,
            descending=[*[False] * len(keys), False, True, True], nulls_last=True,
        )  # fmt: skip

    def distinct(self, rows: pl.LazyFrame, query: Sequence[str]) -> pl.LazyFrame:
        """Return each document of a run once, with its highest score."""
        values = [
            pl.col(_ORIGINAL).max(),
            LABEL.max(),
            LABEL.min().alias(_LOWEST_LABEL),
            pl.col(FAILED).max(),
        ]
        if self.ties == "input":
            rows = rows.with_columns(pl.int_range(pl.len()).alias(_ROW))
            best_first = pl.col(_ROW).sort_by(
                _ORIGINAL, descending=True, nulls_last=True, maintain_order=True
            )
            values.append(best_first.first())
        return rows.group_by(*query, self.run, self.doc).agg(values)

    def _order(self) -> Order:
        """Return the order of the documents of a run."""
        if self.ties == "input":
            by = [pl.col(_ORIGINAL), pl.col(_ROW)]
            return Order(by=by, descending=[True, False], nulls_last=[True, True])
        columns = self.columns
        schema = {
            self.doc: columns.schema[self.doc],
            _ORIGINAL: columns.number_type(columns.score),
            _LABEL: columns.number_type(columns.label),
        }
        own = columns._replace(score=_ORIGINAL, label=_LABEL, schema=pl.Schema(schema))
        return rank_order(Ordering(self.ties), own)

    def scored(self, documents: pl.LazyFrame, query: Sequence[str]) -> pl.LazyFrame:
        """Add ranks, points and weights, and rows of runs that give points to missing documents.

        Ranks and points do not depend on weights. Runs without a weight have the weight null.
        """
        of_run, weights = [*query, self.run], self.fusion.weights
        rank = position(self._order()).over(of_run).cast(pl.Float64)
        weight = pl.lit(1.0)
        if weights is not None:
            weight = pl.col(self.run).replace_strict(
                [*weights], [*weights.values()], default=None, return_dtype=pl.Float64
            )
        retrieved = pl.col(self.doc).filter(SCORE.is_not_null()).n_unique().over(query)
        points = pl.when(SCORE.is_not_null()).then(self.fusion.points(of_run))
        scored = (
            documents.with_columns(
                pl.when(pl.col(_ORIGINAL).is_not_null()).then(rank).alias(_RANK),
                pl.col(_ORIGINAL).cast(pl.Float64).alias(_SCORE),
                weight.alias(_WEIGHT),
            )
            .with_columns(
                SCORE.count().over(of_run).cast(pl.Float64).alias(_SIZE),
                SCORE.max().over(of_run).alias(_HIGHEST),
                retrieved.cast(pl.Float64).alias(_CANDIDATES),
            )
            .with_columns(points.alias(_POINTS))
        )
        points_of_missing = self.fusion.points_of_missing
        if points_of_missing is None:
            return scored
        runs = scored.group_by(of_run).agg(
            *(pl.col(name).first() for name in (_WEIGHT, _SIZE, _CANDIDATES)), POINTS.min()
        )
        missing = runs.select(*of_run, _WEIGHT, points_of_missing.alias(_MISSING))
        pairs = scored.select(*query, self.doc).unique().join(missing, on=query, nulls_equal=True)
        return pairs.join(
            scored.drop(_WEIGHT), on=[*of_run, self.doc], how="left", nulls_equal=True
        ).with_columns(POINTS.fill_null(pl.col(_MISSING)))

    def combined(self, scored: pl.LazyFrame, query: Sequence[str]) -> pl.LazyFrame:
        """Return the documents of the fused run, from the points and weights of runs."""
        documents = (
            scored.with_columns(self._counted_weight)
            .group_by(*query, self.doc)
            .agg(
                self._score,
                LABEL.max(),
                LOWEST_LABEL.min(),
                HIGHEST.min(),
                pl.col(FAILED).max().fill_null(0),
            )
            .with_columns(pl.max_horizontal(FAILED, failed(self.checks, "ranking")))
        )
        # Unjudged documents without a score are dropped. A query without documents keeps a row.
        counts = FUSED.is_not_null() | LABEL.is_not_null() | (pl.col(FAILED) > 0)
        return documents.filter(counts | ~counts.any().over(query)).select(
            *query, pl.lit(None, dtype=pl.String).alias(self.run), self.doc, _FUSED, _LABEL, FAILED
        )

    def scores(self, scored: pl.LazyFrame, document: str) -> pl.LazyFrame:
        """Return the fused scores of documents, from the points and weights of runs.

        The column `document` numbers the documents, by which rows are sorted.
        """
        rows = scored.with_columns(self._counted_weight).set_sorted(document)
        return rows.group_by(document, maintain_order=True).agg(self._score).select(FUSED)

    @property
    def _counted_weight(self) -> pl.Expr:
        """The weight of a run for a document; null if the run does not count for it."""
        return pl.when(POINTS.is_not_null()).then(WEIGHT).alias(_WEIGHT)

    @property
    def _score(self) -> pl.Expr:
        """The fused score of the rows of a document; null if no run retrieved it."""
        return pl.when(RANK.count() > 0).then(self.fusion.score).alias(_FUSED)

    def _kept(
        self, distinct: pl.LazyFrame, documents: pl.LazyFrame, query: Sequence[str]
    ) -> pl.LazyFrame:
        """Return the documents of the runs, with all judged documents of the query."""
        labels = documents.filter(LABEL.is_not_null()).select(*query, self.doc, _LABEL)
        runs = distinct.select(*query, self.run).unique()
        judged = runs.join(labels, on=query, nulls_equal=True)
        return (
            distinct.drop(_LABEL)
            .join(
                judged, on=[*query, self.run, self.doc], how="full", coalesce=True,
                nulls_equal=True,
            )
            .select(
                *query, self.run, self.doc, pl.col(_ORIGINAL).cast(pl.Float64).alias(_FUSED),
                _LABEL, pl.lit(0, dtype=pl.UInt16).alias(FAILED),
            )
        )  # fmt: skip
