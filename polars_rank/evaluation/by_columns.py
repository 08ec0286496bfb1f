"""Metrics of short rankings as columns of one plan, with a row for each ranking.

A term becomes one column per position in rank order, such as `label 0`, `label 1`, .... A sum over
documents is a sum over columns, and every metric is an elementwise expression.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial, reduce
from typing import NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.order import LabelCodes
from polars_rank.evaluation.stages import (
    RETRIEVED,
    Needs,
    Stage,
    by_cutoffs,
    complete,
    gain_of,
    name_of_sum,
    running_sums,
)
from polars_rank.metrics.analyses import is_neutral, leaves, nodes, weighted
from polars_rank.metrics.expressions import conditional, cutoff, lowered
from polars_rank.metrics.nodes import (
    Elements,
    Field,
    Gain,
    Hits,
    LiteralTerm,
    MappedTerm,
    Node,
    Order,
    Reduction,
    Relevant,
    Term,
    Value,
)

#: Columns of the codes of labels by the order of positions: those of all documents as they are
#: ranked, of the retrieved ones, and of the documents in ideal order.
CODES: dict[Order, str] = {
    "any": OWN + "code",
    "rank": OWN + "retrieved code",
    "ideal": OWN + "ideal code",
}

_RANKED: Order = "rank"

#: The extreme of no finite numbers: columns without nulls are compared several times faster.
_NONE = {"min": math.inf, "max": -math.inf}


class ColumnStages(NamedTuple):
    """The stages of a plan by columns; the values are expressions over the last one."""

    needs: Needs
    #: The number of positions.
    length: int
    stages: list[Stage]
    values: list[pl.Expr]


def by_columns(values: Sequence[Value], length: int, log: Log) -> ColumnStages:
    """Return the stages of values that need labels and ranks only.

    The rankings have up to `length` documents.
    """
    return _Positions(values, length, log).stages()


class _Positions:
    """The nodes of a plan, and the names of their columns, without the position."""

    def __init__(self, values: Sequence[Value], length: int, log: Log) -> None:
        self.values, self.length, self.log = values, length, log
        self.codes = LabelCodes(log.canonical.schema["label"])
        self.reductions = [node for node in nodes(*values) if isinstance(node, Reduction)]
        self.elements = [*dict.fromkeys(node.elements for node in self.reductions)]
        self.parts = {node: _split(node, length) for node in self.elements}
        self.stored = [*dict.fromkeys(part for part, _ in self.parts.values())]
        read = {(leaf, node.order) for node in self.stored for leaf in leaves(node.term)}
        hits = {Relevant(leaf.rel) for leaf, _ in read if isinstance(leaf, Hits)}
        self.relevant = dict.fromkeys(
            (leaf, order) for leaf, order in read if isinstance(leaf, Relevant)
        ) | dict.fromkeys((leaf, _RANKED) for leaf in hits)
        #: The counts of relevant documents that are read at each rank, and all of them.
        self.hits = dict.fromkeys(Elements(leaf, _RANKED, "count") for leaf in hits)
        self.counts = dict.fromkeys(filter(_is_relevance, self.elements)) | self.hits
        self.names: dict[Node, str] = {
            node: f"{OWN}{index}"
            for index, node in enumerate(
                dict.fromkeys([*self.reductions, *self.elements, *self.stored, *self.counts])
            )
        }

    def stages(self) -> ColumnStages:
        """Return the columns of each stage."""
        positions = range(self.length)
        columns = {node: self._columns(node) for node in {*self.elements, *self.counts}}
        sums = {(node.elements, self._cutoff(node)) for node in self.reductions if _is_sum(node)}
        counts = {(node, k) for node, k in sums if node in self.counts}
        counts |= {(node, i + 1) for node in self.hits for i in positions}
        late = by_cutoffs(node for node in self.reductions if not _is_sum(node))

        def part(node: Elements, start: int, stop: int) -> pl.Expr:
            return _total(columns[node][start:stop])

        return ColumnStages(
            Needs.of(self.values),
            self.length,
            [
                {
                    at(_relevant(leaf, order), i): self._is_relevant(leaf, order, i)
                    for leaf, order in self.relevant
                    for i in positions
                },
                *running_sums(counts, self.names, part),
                {
                    at(self.names[node], i): self._element(node, i)
                    for node in self.stored
                    if not _is_relevance(node)
                    for i in positions
                },
                *running_sums(sums - counts, self.names, part),
                *({self.names[node]: self._late(node) for node in group} for group in late),
            ],
            [lowered(value, self._reduction) for value in self.values],
        )

    def _is_relevant(self, leaf: Relevant, order: Order, i: int) -> pl.Expr:
        lowest = self.log.ordering.rel if leaf.rel is None else leaf.rel
        return self.codes.at_least(pl.col(at(CODES[order], i)), lowest)

    def _cutoff(self, node: Reduction) -> int:
        return min(node.k, self.length) if isinstance(node.k, int) else self.length

    def _columns(self, node: Elements) -> list[pl.Expr]:
        """Return what a reduction reads at each position."""
        part, weights = self.parts.get(node, (node, None))
        name = self.names[part]
        if _is_relevance(part) and isinstance(part.term, Relevant):
            name = _relevant(part.term, part.order)
        columns = [pl.col(at(name, i)) for i in range(self.length)]
        if node.how == "count":
            return [column.cast(pl.UInt8) for column in columns]
        if weights is None:
            return columns
        return [column * weight for column, weight in zip(columns, weights, strict=True)]

    def _element(self, node: Elements, i: int) -> pl.Expr:
        """Return a term at a position, masked where a position without a document has an effect."""
        # Columns without nulls take less time.
        filled = node.how != "extreme" and is_neutral(node) and is_neutral(node, label=0)
        leaf = partial(self._leaf, order=node.order, i=i, filled=filled)
        among = None
        if not is_neutral(node):
            among = leaf(Field("retrieved" if node.order == "rank" else "judged"))
        return complete(lowered(node.term, leaf), node.how, among)

    def _leaf(self, leaf: Term, order: Order, i: int, *, filled: bool) -> pl.Expr:
        """Return what a term reads at a position; with `filled`, a missing label is 0."""
        code = pl.col(at(CODES[order], i))
        retrieved = pl.col(RETRIEVED) > i
        match leaf:
            case Field("label"):
                return self.codes.label(code, filled=filled).cast(pl.Float64)
            case Field("rank") if order == "any":
                return pl.when(retrieved).then(i + 1.0)
            case Field("rank" | "ideal_rank"):
                return pl.lit(i + 1.0)
            case Field("judged"):
                return self.codes.is_known(code)
            case Field("retrieved"):
                return retrieved
            case Relevant():
                return pl.col(at(_relevant(leaf, order), i))
            case Hits(rel):
                hits = Elements(Relevant(rel), _RANKED, "count")
                return pl.col(name_of_sum(self.names, hits, i + 1)).cast(pl.Float64)
            case Gain(gain):
                label = self.codes.label(code, filled=filled)
                return gain_of(gain, label, whole_labels=self.log.whole_labels)
        raise TypeError(leaf)

    def _reduction(self, node: Reduction) -> pl.Expr:
        if _is_sum(node):
            name = name_of_sum(self.names, node.elements, self._cutoff(node))
            return pl.col(name).cast(pl.Float64)
        value = pl.col(self.names[node])
        none = _none(node)
        return value if none is None else pl.when(value != none).then(value)

    def _late(self, node: Reduction) -> pl.Expr:
        """Return an extreme, or a sum whose cutoff is a value."""
        columns = self._columns(node.elements)[: self._cutoff(node)]
        if isinstance(node.k, Value):
            k = cutoff(lowered(node.k, self._reduction))
            columns = [pl.when(k >= i + 1).then(column) for i, column in enumerate(columns)]
        columns = [column.cast(pl.Float64) for column in columns]
        if node.how not in _NONE:
            return _total(column.fill_null(0.0) for column in columns)
        none = _none(node)
        if none is not None:
            columns = [column.fill_null(none) for column in columns]
        return (pl.min_horizontal if node.how == "min" else pl.max_horizontal)(columns)


def at(name: str, position: int) -> str:
    """Return the name of a term's column at a position, counted from 0."""
    return f"{name} {position}"


def _relevant(leaf: Relevant, order: Order) -> str:
    return f"{OWN}relevant {leaf.rel} {order}"


def _none(node: Reduction) -> float | None:
    """Return a number in place of the extreme of no documents; None if terms can be that number."""
    return _NONE[node.how] if node.how in _NONE and _is_finite(node.term) else None


def _is_finite(term: Term) -> bool:
    """Return whether a term chooses among labels, ranks and numbers, which are finite."""
    if isinstance(term, LiteralTerm):
        return term.value is None or math.isfinite(term.value)
    if isinstance(term, MappedTerm):
        return term.function is conditional and all(map(_is_finite, term.operands))
    return not isinstance(term, Gain)


def _is_sum(node: Reduction) -> bool:
    return node.how in {"sum", "count"} and not isinstance(node.k, Value)


def _is_relevance(node: Elements) -> bool:
    """Return whether a count reads columns of relevance as they are."""
    return isinstance(node.term, Relevant) and node.how == "count"


def _split(node: Elements, length: int) -> tuple[Elements, Sequence[float] | None]:
    """Return the part of a term that is stored, and its constant factor at each position."""
    if node.order == "any" and not leaves(node.term) & {Field("rank"), Field("retrieved")}:
        return replace(node, order="ideal"), None  # the same documents
    if node.how == "sum" and node.order != "any":  # some documents of any order have no rank
        term, weight = weighted(node.term, node.order)
        weights = None if weight is None else _weights(weight, length)
        if weights is not None and all(map(math.isfinite, weights)):
            return replace(node, term=term), weights
    return node, None


@lru_cache(4096)
def _weights(weight: Term, length: int) -> Sequence[float]:
    """Return a term that reads only ranks, at each position; NaN if it is null."""
    ranks = pl.DataFrame({"rank": range(1, length + 1)}, schema={"rank": pl.Float64})
    weights = lowered(weight, lambda _: pl.col("rank")).cast(pl.Float64).fill_null(math.nan)
    return ranks.with_columns(weights.alias("weight"))["weight"].to_list()


def _total(columns: Iterable[pl.Expr]) -> pl.Expr:
    return reduce(operator.add, columns)
