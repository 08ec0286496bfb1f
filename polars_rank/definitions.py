"""One metric with all its choices, as a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import polars as pl

from polars_rank.conventions import counted_as
from polars_rank.metrics.analyses import reads_labels, reads_order
from polars_rank.metrics.metric import Metric, tree_of
from polars_rank.metrics.names import output_name

if TYPE_CHECKING:
    from polars_rank.columns import Columns
    from polars_rank.conventions import Conventions, Duplicates, Ties, Undefined, Unjudged

#: The largest 32-bit float.
LARGEST_32 = (2 - 2**-23) * 2.0**127


class Ordering(NamedTuple):
    """What orders the documents of a ranking, and which of them are relevant."""

    ties: Ties | None = None
    rel: float = 1
    unjudged: Unjudged = "nonrelevant"
    float32_scores: bool = False
    text_ids: bool = False
    duplicates: Duplicates = "error"

    @classmethod
    def of(cls, own: Conventions) -> Ordering:
        """Return the ordering by the conventions of a metric."""
        # The mean over all orders does not depend on the order; "worst" needs no document ids.
        ties: Ties | None = "worst" if own.ties == "expected" else own.ties
        return cls(ties, own.rel, own.unjudged, own.float32_scores, own.text_ids, own.duplicates)

    def score(self, columns: Columns) -> pl.Expr:
        """Return the score that ranks documents; null if a document is not retrieved."""
        score = columns.number(columns.score)
        if self.float32_scores:
            # A score must not become infinite: -inf is the score of documents not retrieved.
            score = score.cast(pl.Float64).clip(-LARGEST_32, LARGEST_32).cast(pl.Float32)
        if self.unjudged == "removed":
            # The row remains, so that a ranking that loses all its documents counts.
            score = pl.when(pl.col(columns.label).is_not_null()).then(score)
        return score


@dataclass(frozen=True, eq=False)
class Definition:
    """One metric with all its choices, and its column in the per-query table."""

    name: str
    #: The metric with the parameters that the conventions set.
    metric: pl.Expr
    #: The conventions of the metric, without exceptions.
    conventions: Conventions
    #: What null counts as in means: a number, "skip" or "null". The leaves of an expression are
    #: filled, so that its nulls are of rankings for which it does not count.
    counts_as: float | Undefined

    @classmethod
    def of(cls, metric: pl.Expr, conventions: Conventions) -> Definition:
        """Return the definition of a metric under conventions."""
        applied = conventions.apply(metric) if isinstance(metric, Metric) else metric
        value = counted_as(metric, conventions)
        return cls(output_name(metric), conventions.filled(applied), conventions.of(metric), value)

    @property
    def ordering(self) -> Ordering:
        """What orders the documents."""
        return Ordering.of(self.conventions)

    @property
    def reads_labels(self) -> bool:
        """Whether the metric or a convention reads labels."""
        own = self.conventions
        by_convention = own.unjudged != "nonrelevant" or own.query_set not in ("all", "retrieved")
        return by_convention or reads_labels(tree_of(self.metric))

    @property
    def breaks_ties_by_id(self) -> bool:
        """Whether the ids of tied documents, if there are ids, change the value."""
        return (
            self.conventions.ties in (None, "doc", "doc_ascending")
            and isinstance(self.metric, Metric)
            and reads_order(self.metric.tree)
        )

    @property
    def counted(self) -> pl.Expr:
        """The values of the per-query table as they enter means; null does not count."""
        value = pl.col(self.name)
        return value.fill_null(self.counts_as) if isinstance(self.counts_as, float) else value
