"""The lowest and highest mean of metrics over the labels of unjudged documents.

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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import polars as pl

from polars_rank._params import OWN
from polars_rank._polars import NUMBERED
from polars_rank.columns import Columns
from polars_rank.definitions import Definition, Ordering
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import plan
from polars_rank.evaluation.contiguity import Keys
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.means import COUNTED, grouped, ratio
from polars_rank.evaluation.ranking import ranked_documents
from polars_rank.frames.batches import by_ranking
from polars_rank.frames.tables import schema_of
from polars_rank.gains import Gain, Refusals, linear
from polars_rank.metrics.analyses import refusals
from polars_rank.metrics.metric import Metric, cutoff, parameters_of

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
#: Maximum number of rows that are evaluated at once, if one labeling does not need more.
_MOST_ROWS = 500_000

_DOC, _SCORE, _LABEL, _WEIGHT = (OWN + name for name in ("id", "value", "grade", "weight"))
#: Whether a document is unjudged, whether the metric can find it, and the number of such documents
#: down to its rank and in the whole ranking.
_UNJUDGED, _FOUND, _PLACE, _NUMBER = (OWN + name for name in ("open", "found", "place", "number"))
#: A labeling: the number m of relevant documents, and whether they are the first ones.
_RELEVANT, _FIRST = OWN + "relevant", OWN + "first"


@dataclass(frozen=True)
class Extremes:
    """The lowest and highest means of metrics that have the two properties."""

    #: The metrics count unjudged documents as not relevant.
    log: Log
    #: The label of a relevant unjudged document, by metric.
    labels: Sequence[float]

    def means(self) -> pl.LazyFrame:
        """Return one row per group, with the columns "low i" and "high i" of metric i."""
        metrics = range(len(self.labels))
        ends = [self._mean(index, end) for index in metrics for end in ("low", "high")]
        return grouped(self._rankings(), self.log.columns.by, ends)

    def _mean(self, index: int, end: str) -> pl.Expr:
        """Return the lowest or highest mean, or total.

        Rankings that are undefined or do not count with some labels may be left out of a mean. The
        highest mean is over those with the highest values; each one is added that increases it.
        """
        column, name = self.log.definitions[index], f"{end} {index}"
        aggregate = column.conventions.aggregate(column.metric)
        value, optional = pl.col(name), pl.col(f"optional {index}")
        if aggregate == "sum":
            return (value * pl.col(_WEIGHT)).sum()
        weight = pl.when(value.is_not_null()).then(_WEIGHT)
        if isinstance(column.counts_as, float) and self.log.conventions.query_set == "all":
            mean = ratio((value * weight).sum(), weight.sum())
        else:
            by = value.filter(optional)
            total, number = (each.filter(~optional).sum() for each in (value * weight, weight))
            totals, numbers = (
                start + each.filter(optional).sort_by(by, descending=end == "high").cum_sum()
                for start, each in ((total, value * weight), (number, weight))
            )
            means = ratio(totals, numbers)
            if end == "high":
                mean = pl.max_horizontal(ratio(total, number), means.max())
            else:
                mean = pl.min_horizontal(ratio(total, number), means.min())
        if column.counts_as == "null":
            mean = pl.when(~pl.col(f"undefined {index}").any()).then(mean)
        return (mean.exp() if aggregate == "geometric" else mean).alias(name)

    def _rankings(self) -> pl.LazyFrame:
        """Return one row per ranking with its extremes, from the rows of its query in all runs."""
        columns, given = self.log.columns, self.log.given
        frame = cast("pl.LazyFrame", self.log.source)
        schema, score = schema_of(frame), given["score"]
        scores = [score, score[1:]] if isinstance(score, str) else score.meta.root_names()
        read = {
            *columns.keys, columns.doc, given["label"], given["weight"], given["position"],
            *scores,
        }  # fmt: skip
        kept = [name for name, dtype in schema.items() if name in read and dtype != NUMBERED]
        of_rankings = {
            **{name: columns.schema[name] for name in columns.by}, _WEIGHT: pl.Float64(),
            **{name: dtype for index in range(len(self.labels))
               for name, dtype in _columns(index).items()},
        }  # fmt: skip

        def extremes(rows: pl.DataFrame) -> pl.DataFrame:
            return self._of_rows(rows.select(kept)).select([*of_rankings])

        keys = Keys.of(columns._replace(by=(), schema=schema))
        return by_ranking(
            keys.rows(frame, kept),
            keys.group,
            lambda rows: rows.map_batches(extremes, schema=pl.Schema(of_rankings)),
        )

    def _of_rows(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the extremes of the rankings of some queries, which have all their rows."""
        log = self.log.on(rows.lazy())
        columns = log.columns
        names = {name: f"{OWN}column {index}" for index, name in enumerate(columns.keys)}
        weight = self.log.weight
        canonical = log.table.select(
            *(pl.col(name).alias(own) for name, own in names.items()),
            # Documents without ids are different documents.
            (pl.int_range(pl.len()) if columns.doc is None else pl.col(columns.doc)).alias(_DOC),
            columns.number(columns.score).alias(_SCORE),
            columns.number(columns.label).cast(pl.Float64).alias(_LABEL),
            (pl.lit(1.0) if weight is None else pl.col(weight).cast(pl.Float64)).alias(_WEIGHT),
        )
        own = columns._replace(
            by=tuple(names[name] for name in columns.by),
            query=tuple(names[name] for name in columns.query),
            doc=None if columns.doc is None else _DOC, score=_SCORE, label=_LABEL,
            schema=schema_of(canonical), unnamed=(),
        )  # fmt: skip
        # The metrics by the order of documents, the label of relevant ones, and the cutoff.
        alike: dict[tuple[Ordering, float, int | None], list[int]] = {}
        for index, column in enumerate(self.log.definitions):
            key = column.ordering, self.labels[index], cutoff(column.metric)
            alike.setdefault(key, []).append(index)
        # All tables have the same rankings in the same order.
        tables = [
            self._of_metrics(indices, _documents(Log(canonical, own, ordering), depth), own, label)
            for (ordering, label, depth), indices in alike.items()
        ]
        others = [table.drop(*own.keys, _WEIGHT) for table in tables[1:]]
        whole = pl.concat([tables[0], *others], how="horizontal")
        return whole.rename({own: name for name, own in names.items()})

    def _of_metrics(
        self, indices: Sequence[int], documents: pl.DataFrame, columns: Columns, label: float
    ) -> pl.DataFrame:
        """Return the extremes of some metrics, given the documents of `_documents`."""
        definitions = [self.log.definitions[index] for index in indices]
        given = {"query": columns.query, "by": (*columns.by, _RELEVANT, _FIRST),
                 "doc": columns.doc, "score": _SCORE, "label": _LABEL}  # fmt: skip
        number = pl.col(_RELEVANT)
        first = pl.col(_FOUND) & (pl.col(_PLACE) <= number)
        last_and_others = ~pl.col(_FOUND) | (pl.col(_PLACE) > pl.col(_NUMBER) - number)
        relevant = pl.col(_UNJUDGED) & pl.when(_FIRST).then(first).otherwise(last_and_others)
        grade = pl.when(relevant).then(label).otherwise(_LABEL).alias(_LABEL)
        is_without_effect = pl.col(_UNJUDGED) & pl.col(_SCORE).is_null()  # if not relevant
        id_column = [] if columns.doc is None else [_DOC]
        most: Any = documents.get_column(_NUMBER).max() or 0
        step = max(1, _MOST_ROWS // (2 * documents.height + 1))
        parts = []
        for start in range(0, most + 1, step):
            numbers = pl.LazyFrame({_RELEVANT: range(start, min(start + step, most + 1))})
            labelings = numbers.join(pl.LazyFrame({_FIRST: [True, False]}), how="cross")
            copies = (
                documents.lazy()
                .join(labelings, how="cross", maintain_order="left_right")
                .filter(number <= pl.col(_NUMBER), ~(pl.col(_FIRST) & is_without_effect))
                .select(*columns.keys, _RELEVANT, _FIRST, *id_column, _SCORE, grade)
            )
            log = Log.find(
                copies, given, optional=("doc",), definitions=definitions,
                conventions=self.log.conventions,
            )  # fmt: skip
            values = plan.per_query(log)
            ends = [each for index in indices for each in self._ends(index)]
            parts.append(values.group_by(columns.keys).agg(ends).collect(engine="in-memory"))
        ends = [each for index in indices for each in _merged(index)]
        extremes = pl.concat(parts).group_by(columns.keys).agg(ends)
        rankings = documents.group_by(columns.keys, maintain_order=True).agg(
            pl.col(_WEIGHT).first()
        )
        return rankings.join(
            extremes, on=columns.keys, how="left", nulls_equal=True, maintain_order="left"
        )

    def _ends(self, index: int) -> list[pl.Expr]:
        """Return the extremes of a metric over labelings, and whether it is null in one of them."""
        column = self.log.definitions[index]
        query_set = self.log.conventions.query_set
        counts = pl.lit(value=True) if query_set == "all" else COUNTED[query_set]
        value = pl.col(column.name).cast(pl.Float64)
        if isinstance(column.counts_as, float):
            value = value.fill_null(column.counts_as)
        undefined = (counts & value.is_null()).any()
        value = pl.when(counts).then(value)
        if column.conventions.aggregate(column.metric) == "sum":
            value = value.fill_null(0.0)
        ends = value.min(), value.max(), value.is_null().any(), undefined
        return [each.alias(name) for each, name in zip(ends, _columns(index), strict=True)]


def _columns(index: int) -> dict[str, pl.DataType]:
    """Return the columns of the extremes of a metric."""
    names = (f"{name} {index}" for name in ("low", "high", "optional", "undefined"))
    types = (pl.Float64(), pl.Float64(), pl.Boolean(), pl.Boolean())
    return dict(zip(names, types, strict=True))


def _merged(index: int) -> list[pl.Expr]:
    """Return the extremes over several sets of labelings."""
    low, high, optional, undefined = map(pl.col, _columns(index))
    return [low.min(), high.max(), optional.any(), undefined.any()]


def _documents(log: Log, depth: int | None) -> pl.DataFrame:
    """Return the documents of each ranking in rank order, with their marks.

    Unjudged documents of the query that only other runs retrieved are added to each ranking.
    """
    columns, keys, query = log.columns, log.columns.keys, [*log.columns.query]
    block, tied_from = OWN + "block", OWN + "first rank"
    others = {name: pl.col(name) for name in (_DOC, _SCORE, _WEIGHT)}
    others[block] = log.ordering.score(columns)
    ranked = ranked_documents(replace(log, others=others), ["rank"]).select(
        *keys, _DOC, _SCORE, _WEIGHT, pl.col("label").alias(_LABEL), "rank",
        # With ties, the labels of unjudged documents decide which are below the cutoff.
        pl.col("rank").min().over(*keys, block).alias(tied_from),
    )  # fmt: skip
    documents = ranked.collect(engine="in-memory")
    is_unjudged = pl.col(_LABEL).is_null()
    unjudged = (
        documents.filter(is_unjudged & pl.col("rank").is_not_null())
        .select(*query, _DOC, pl.lit(value=True).alias(_UNJUDGED))
        .unique(maintain_order=True)
    )
    rankings = documents.group_by(keys, maintain_order=True).agg(pl.col(_WEIGHT).first())
    of_others = rankings.join(
        unjudged, on=query, nulls_equal=True, maintain_order="left_right"
    ).join(documents, on=[*keys, _DOC], how="anti", nulls_equal=True, maintain_order="left")
    documents = documents.join(
        unjudged, on=[*query, _DOC], how="left", nulls_equal=True, maintain_order="left"
    ).with_columns(pl.col(_UNJUDGED).fill_null(value=False) & is_unjudged)
    found = pl.col(_UNJUDGED) & pl.col("rank").is_not_null()
    if depth is not None:
        found &= pl.col(tied_from) <= depth
    is_found = pl.col(_FOUND)
    return (
        pl.concat([documents, of_others], how="diagonal")
        .with_columns(found.fill_null(value=False).alias(_FOUND))
        .with_columns(
            is_found.cum_sum().over(*keys, order_by="rank").alias(_PLACE),
            is_found.sum().over(*keys).alias(_NUMBER),
        )
    )


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
