"""Per-query values by labels of people and by predicted labels, from one pass over a log."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING, Any

import polars as pl
from polars import selectors

from polars_rank._params import OWN
from polars_rank.columns import Columns
from polars_rank.errors import ArgumentError, DataError, SchemaError, number_of, warn
from polars_rank.evaluation.evaluate import per_query
from polars_rank.evaluation.parameters import JUDGE
from polars_rank.frames.tables import collected
from polars_rank.metrics import incomplete_judgments
from polars_rank.metrics.analyses import reads_labels
from polars_rank.metrics.incomplete_judgments import judged
from polars_rank.metrics.metric import Metric, cutoff, tree_of
from polars_rank.metrics.names import output_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.conventions import Conventions

_SHARE = OWN + "judged"


@dataclass(frozen=True)
class BothLabels:
    """A column of labels of people for some queries, and one of predicted labels for all."""

    label: str
    predicted_label: str
    metrics: Sequence[pl.Expr]

    @classmethod
    def of(
        cls,
        schema: pl.Schema,
        metrics: Sequence[pl.Expr],
        conventions: Conventions,
        *,
        label: str,
        predicted_label: str,
    ) -> BothLabels:
        """Check the columns and the metrics; raise `SchemaError` or `ArgumentError`."""
        columns = {"label": label, "predicted_label": predicted_label}
        Columns.find(schema, columns)
        if JUDGE in schema:
            raise SchemaError(
                f"the log has a column {JUDGE!r}, which `predicted_label` adds to per-query "
                "values; rename it"
            )
        for metric in metrics:
            if (aggregate := conventions.aggregate(metric)) != "mean":
                raise ArgumentError(
                    "`predicted_label` needs metrics that are means over queries; "
                    f"{output_name(metric)!r} is a {aggregate}; name other metrics"
                )
        return cls(label, predicted_label, metrics)

    @property
    def _cutoffs(self) -> dict[int | None, list[str]]:
        """The cutoffs of metrics that need complete judgments, and the names of these metrics."""
        cutoffs: dict[int | None, list[str]] = {}
        for metric in self.metrics:
            if needs_judgments(metric):
                cutoffs.setdefault(cutoff(metric), []).append(output_name(metric))
        return cutoffs

    def applied(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options of `per_query` with both columns of labels."""
        return {**options, "label": [self.label, self.predicted_label]}

    def per_query(
        self, frame: pl.LazyFrame, more: Sequence[pl.Expr] = (), **options: Any
    ) -> pl.LazyFrame:
        """Return per-query values by both labels, with shares of judged documents for `check`.

        `more` are metrics in addition to those of the evaluation.
        """
        shares = [judged(k, depth="retrieved").alias(f"{_SHARE} {k}") for k in self._cutoffs]
        return per_query(frame, [*self.metrics, *more, *shares], **self.applied(options))

    def split(self, values: pl.LazyFrame) -> tuple[pl.LazyFrame, pl.LazyFrame]:
        """Return the values by labels of people of the queries they judged, and predicted ones."""
        human, predicted = (
            values.filter(pl.col(JUDGE) == name).drop(JUDGE, selectors.starts_with(_SHARE))
            for name in (self.label, self.predicted_label)
        )
        return human, predicted

    def check(self, values: pl.LazyFrame, query: Sequence[str]) -> None:
        """Raise `DataError` if a column has no labels; warn if people did not judge all documents.

        `values` is the result of `per_query`, and `query` has the columns that identify a query.
        """
        is_human = pl.col(JUDGE) == self.label
        has_labels = {"human": is_human.any(), "predicted": (~is_human).any()}
        shares = {k: pl.col(f"{_SHARE} {k}").filter(is_human) for k in self._cutoffs}
        by_query = values.group_by(query).agg(
            *(value.alias(name) for name, value in has_labels.items()),
            *(share.sum().alias(f"sum {k}") for k, share in shares.items()),
            *(share.count().alias(f"count {k}") for k, share in shares.items()),
            *((share < 1).any().alias(f"some {k}") for k, share in shares.items()),
        )
        is_lost = pl.col("human") & ~pl.col("predicted")
        totals = by_query.select(
            pl.exclude(query).sum(),
            is_lost.sum().alias("lost"),
            pl.struct(query).filter(is_lost).first().alias("example"),
        )
        row = collected(totals).row(0, named=True)
        self._check_queries(row)
        incomplete = [
            f"{_percent(row[f'sum {k}'] / row[f'count {k}'])} for {', '.join(metrics)} "
            f"(judged{'' if k is None else f'@{k}'}, with unjudged documents in "
            f"{row[f'some {k}']:,} of {number_of(row['human'], 'query', 'queries')})"
            for k, metrics in self._cutoffs.items()
            if row[f"some {k}"]
        ]
        if incomplete:
            warn(
                f"people judged only some of the documents that metrics read: "
                f"{'; '.join(incomplete)}. Unjudged documents count as not relevant, so the "
                "estimates may be biased; let people judge all documents of a query up to the "
                "cutoff"
            )

    def _check_queries(self, row: Mapping[str, Any]) -> None:
        """Raise `DataError` if a column has no labels, or some human queries no predicted ones."""
        human, predicted = row["human"], row["predicted"]
        sums = [row[f"sum {k}"] for k in self._cutoffs]
        if sums and not any(sums):  # a query set may have queries without labels
            human = 0
        columns = {
            "label": (self.label, human),
            "predicted_label": (self.predicted_label, predicted),
        }
        for parameter, (name, count) in columns.items():
            if not count:
                others = number_of(max(human, predicted), "query", "queries")
                raise DataError(
                    f"column {name!r} (`{parameter}`) has no labels, and the other column has "
                    f"labels of {others}; check the name of the column, or that its labels were "
                    "joined by the right keys"
                )
        if row["lost"]:
            raise DataError(
                f"column {self.predicted_label!r} (`predicted_label`) has no labels of "
                f"{row['lost']:,} of {number_of(human, 'query', 'queries')} with labels in the "
                f"column {self.label!r} (`label`), e.g. {row['example']}; predict labels of all "
                "queries"
            )


def needs_judgments(metric: pl.Expr) -> bool:
    """Return whether unjudged documents change a metric, other than one that is made for them."""
    leaves = metric.leaves if isinstance(metric, Metric) else []
    made_for_them = any(leaf.function.__name__ in incomplete_judgments.__all__ for leaf in leaves)
    return reads_labels(tree_of(metric)) and not made_for_them


def _percent(share: float) -> str:
    """Return a share below 1 in percent, rounded down."""
    return f"{floor(1000 * share) / 10:.1f}%"
