"""Metrics that have bounds over the labels of unjudged documents.

Each unjudged document of a query is relevant or not, so n of them have 2^n labelings. Fewer are
enough for a metric with two properties:

1. It does not fall if the label of a relevant document is moved to an unjudged document above it.
2. It does not rise if a document is relevant that it cannot find: one that is not retrieved, or
   below the cutoff.

Take all labelings with m relevant documents among those that the metric can find. The value is
highest if they are the first m documents (1) and no other document is relevant (2). It is lowest if
they are the last m documents and all others are relevant. So the extremes are those of the
labelings of the first m, and of the last m, for all numbers m. If a lower value is better, the
lowest and the highest value exchange their roles.

- A sum of gains with discounts that do not increase has both properties. Its divisor, the ideal
  DCG, depends on the number of relevant documents only, and increases with it.
- Precision, recall, F, AP, RR and others rise with the number of hits down to any rank, and do not
  rise with the number of relevant documents.
- A document that satisfies the user with probability s at rank i adds s / i to ERR, and takes away
  s times what the user would have found below, which is less than 1 / i. pFound is similar.
- ROC AUC is the share of relevant documents that are above others, and a relevance-weighted mean
  rank is lower the higher the relevant documents are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from polars_rank.definitions import Definition
from polars_rank.errors import ArgumentError
from polars_rank.gains import Gain, Refusals, linear
from polars_rank.metrics.analyses import refusals
from polars_rank.metrics.metric import Metric, parameters_of

#: The metrics that have both properties, by name.
_BOUNDED = frozenset({
    *("cg", "dcg", "ndcg", "rbp", "average_relevance_position", "err", "pfound"),
    *("average_precision", "log_average_precision", "interpolated_precision", "eleven_point"),
    *("precision", "recall", "recall_capped", "relative_precision", "f1", "fbeta", "hit_rate"),
    *("set_precision", "set_recall", "set_relative_precision", "set_f", "set_ap"),
    *("reciprocal_rank", "top_k_accuracy", "num_relevant_retrieved", "binary_g", "roc_auc"),
})  # fmt: skip
#: Ranks at which discounts are checked.
_RANKS = pl.int_range(1, 10_001, eager=True)


def label_of_relevant(column: Definition, grade: float | None) -> float:
    """Return the label of relevant unjudged documents, by default the lowest relevant one.

    Raise `ArgumentError` if the metric has no bounds for this label.
    """
    metric, conventions = column.metric, column.conventions
    if conventions.unjudged == "removed":
        raise ArgumentError(
            f"{column.name} removes unjudged documents by the conventions {conventions.name!r}, so "
            "it has no bounds over their labels; use other conventions"
        )
    if not isinstance(metric, Metric) or metric.function.__name__ not in _BOUNDED:
        raise _no_bounds(column)
    arguments = {**parameters_of(metric), **metric.arguments}
    label = grade
    if label is None:
        own = arguments.get("rel")
        label = max(0, conventions.rel if own is None else own)
    for problem, is_refused in refusals(metric.tree).items():
        if pl.select(is_refused(pl.lit(label, dtype=pl.Float64))).item():
            raise ArgumentError(
                f"{column.name}: the label {label} of unjudged documents (`grade`) is {problem}"
            )
    reason = _reason(arguments, label)
    if reason is not None:
        raise _no_bounds(column, f" with {reason}")
    return label


def _reason(arguments: Mapping[str, Any], label: float) -> str | None:
    """Return why a metric with these parameters lacks one of the properties."""
    if arguments.get("norm") == "hits":
        return "`norm='hits'`"
    if "discount" in arguments:
        weights = pl.select(arguments["discount"](pl.lit(_RANKS))).to_series()
        if (weights < 0).any() or (weights.diff() > 0).any():
            return "a discount that is negative or increases with the rank"
    if "gain" in arguments:
        labels = pl.Series([label, None], dtype=pl.Float64)
        worth, nothing = pl.select(arguments["gain"](pl.lit(labels))).to_series().fill_null(0)
        if worth < 0 or nothing != 0:
            return "gains that are negative, or not 0 for documents without a label"
    return None


def _no_bounds(column: Definition, problem: str = "") -> ArgumentError:
    return ArgumentError(
        f"{column.name} (`metrics`) has no known bounds over labels of unjudged documents"
        f"{problem}; use a metric such as 'ndcg', 'recall', 'ap' or 'rr'"
    )


def without_negative_gains(metric: pl.Expr) -> pl.Expr:
    """Return a metric whose evaluation fails for negative gains, if it divides by the ideal DCG.

    A larger ideal DCG would then increase negative values.
    """
    if isinstance(metric, Metric) and metric.function.__name__ == "ndcg":
        return metric.but(gain=_NotNegative(metric.arguments.get("gain", linear)))
    return metric


@dataclass(frozen=True)
class _NotNegative:
    """A gain that refuses labels with a negative gain."""

    gain: Gain

    def __call__(self, label: pl.Expr) -> pl.Expr:
        gain: pl.Expr = self.gain(label)
        return gain

    @property
    def refuses(self) -> Refusals:
        problem = (
            "with a negative gain, for which NDCG has no bounds over labels of unjudged documents; "
            "use a gain of at least 0, such as pr.gains.at_least(0)"
        )
        return {**getattr(self.gain, "refuses", {}), problem: lambda label: self.gain(label) < 0}
