"""Metrics as columns of one plan, with a row for each document.

The plan computes columns in stages: values that tied documents share; terms of documents; folds of
whole rankings, and lists of the terms of each ranking; sums over these lists, where a sum down to a
cutoff is added to that down to the next smaller cutoff; and sums whose cutoff is itself a value.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import polars as pl

from polars_rank._params import MAX_DOCUMENTS, OWN
from polars_rank.evaluation.ranking import DOCUMENT, IDEAL_LABEL, POSITION, TIE_COLUMNS, Reads
from polars_rank.evaluation.stages import (
    Needs,
    Stage,
    by_cutoffs,
    complete,
    gain_of,
    is_running,
    name_of_sum,
    running_sums,
)
from polars_rank.metrics import expressions, nodes
from polars_rank.metrics.analyses import first_that, is_neutral, nodes_in, reads_order
from polars_rank.metrics.expressions import IS_RETRIEVED, lowered, reduced
from polars_rank.metrics.nodes import Elements, Field, Fold, Listed, Node, Order, Reduction, Value
from polars_rank.terms import IDEAL_RANK

_POSITION = pl.col(POSITION).cast(pl.Float64)
_IDEAL_LABEL = pl.col(IDEAL_LABEL)

#: Fields that are the same in all orders, and that the ranked table of users lacks.
_FIELDS = {
    "document": pl.col(DOCUMENT), "position": _POSITION,
    "first": pl.col(TIE_COLUMNS["first"]).cast(pl.Float64),
    "last": pl.col(TIE_COLUMNS["last"]).cast(pl.Float64), "begin": pl.col(TIE_COLUMNS["begin"]),
    "end": pl.col(TIE_COLUMNS["end"]), "reverse": pl.col(TIE_COLUMNS["reverse"]),
}  # fmt: skip


class RowStages(NamedTuple):
    """The stages of a plan by rows; the values are expressions over the last one."""

    needs: Needs
    #: What is read of the ranked table.
    reads: Reads
    #: Aggregations of the rows of a ranking in any order.
    rankings: Stage
    #: Conditions of documents, for the ranks of the first documents that meet them.
    firsts: Stage
    #: Values that tied documents share.
    ties: Stage
    rows: Stage
    #: The columns that are gathered as lists.
    gathered: list[str]
    folds: Stage
    sums: list[Stage]
    #: The conditions that must hold for every ranking, by the message if one does not.
    required: Stage
    values: list[pl.Expr]


@lru_cache(256)
def by_rows(values: tuple[Value, ...], rel: float, *, whole_labels: bool) -> RowStages:
    """Return the stages of values that share the rows of a log."""
    # Building the stages of a small log takes as long as computing them.
    return _Names(values, rel, whole_labels=whole_labels).stages()


class _Names:
    """The nodes of a plan, and the name of the column that holds each of them."""

    def __init__(self, values: Sequence[Value], rel: float, *, whole_labels: bool) -> None:
        self.values, self.rel, self.whole_labels = values, rel, whole_labels
        self.needs = Needs.of(values)
        every = [*nodes_in(*values)]
        self.hits = [node for node in every if isinstance(node, nodes.Hits)]
        self.ties = [node for node in every if isinstance(node, nodes.OfTies)]
        self.required = [node for node in every if isinstance(node, nodes.Required)]
        self.folds: list[Fold | nodes.UserExpression] = [
            node for node in every if isinstance(node, (Fold, nodes.UserExpression))
        ]
        reductions = [node for node in every if isinstance(node, Reduction)]
        self.rankings = [node for node in reductions if not reads_order(node)]
        ordered = [node for node in reductions if reads_order(node)]
        # If whole rankings are read anyway, the first document is found among them.
        firsts = ordered if self.needs.depth is not None else []
        self.firsts = {node: first for node in firsts if (first := first_that(node)) is not None}
        self.reductions = [node for node in ordered if node not in self.firsts]
        self.batches: dict[Hashable, list[nodes.Batch]] = {}
        for node in every:
            if isinstance(node, nodes.Batch):
                self.batches.setdefault(_source(node), []).append(node)
        self.elements = [*dict.fromkeys(node.elements for node in self.reductions)]
        folded = [node for node in self.folds if isinstance(node, Fold)]
        listed = [replace_cutoff(each) for node in folded for each in node.sequences]
        listed += [Listed(term, "any") for same in self.batches.values() for term in same[0].inputs]
        stored: list[Elements | Listed] = [*dict.fromkeys(self.elements), *dict.fromkeys(listed)]
        self.names: dict[Node, str] = {
            node: f"{OWN}{index}" for index, node in enumerate(dict.fromkeys([*every, *stored]))
        }
        self.names |= {node: f"{OWN}fold {index}" for index, node in enumerate(self.folds)}
        self.rows = {node: self._stored(node) for node in stored}
        # A term that is a column is not copied.
        self.names |= {
            node: term.meta.output_name()
            for node, term in self.rows.items()
            if term.meta.is_column()
        }

    def stages(self) -> RowStages:
        """Return the columns of each stage."""
        plain = [node for node in self.reductions if not is_running(node)]
        groups = by_cutoffs(plain)
        required = {node.problem: self._value(node.condition) for node in self.required}
        rankings = {
            self.names[node]: reduced(term.implode().list, node.how)
            for node in self.rankings
            for term in [expressions.for_each_row(self._stored(node.elements))]
        }
        cutoffs = {(node.elements, node.k) for node in self.reductions if is_running(node)}
        ties = {self.names[node]: self._of_ties(node) for node in self.ties}
        rows = {
            self.names[node]: term for node, term in self.rows.items() if not term.meta.is_column()
        }
        gathered = [*dict.fromkeys(self.names[node] for node in self.elements)]
        folds = {self.names[node]: self._fold(node) for node in self.folds}
        folds |= {self.names[same[0]]: self._batch(same) for same in self.batches.values()}
        parts = [*ties.values(), *rows.values(), *folds.values()]
        read = {name for each in parts for name in each.meta.root_names()} | {*gathered}
        hits = {self.names[node]: node.rel for node in self.hits}
        return RowStages(
            needs=self.needs,
            reads=Reads.of(self.rel, read - ties.keys() - rows.keys(), hits, self.needs.depth),
            rankings=rankings,
            firsts={
                self.names[node]: self._stored(Elements(condition, "rank", "count"))
                for node, condition in self.firsts.items()
            },
            ties=ties,
            rows=rows,
            gathered=gathered,
            folds=folds,
            sums=[
                *running_sums(cutoffs, self.names, self._part),
                *({self.names[node]: self._sum(node) for node in group} for group in groups),
            ],
            required=required,
            values=[self._value(value) for value in self.values],
        )

    def _value(self, node: Value) -> pl.Expr:
        return lowered(node, self._reduction)

    def _reduction(self, node: Value) -> pl.Expr:
        if isinstance(node, nodes.Batch):
            same = self.batches[_source(node)]
            return pl.col(self.names[same[0]]).list.get(same.index(node))
        if is_running(node):
            return pl.col(name_of_sum(self.names, node.elements, node.k))
        return pl.col(self.names[node])

    def _stored(self, node: Elements | Listed) -> pl.Expr:
        """Return what is read of a document, null or neutral for documents not in the order."""
        leaf = partial(self._leaf, order=node.order)
        if isinstance(node, Listed) and node.order == "ideal":  # unjudged documents have no rank
            place = pl.when(_IDEAL_LABEL.is_not_null()).then(_POSITION)
            return lowered(node.term, lambda each: place if each == IDEAL_RANK else leaf(each))
        term = lowered(node.term, leaf)
        if isinstance(node, Elements):
            if node.order == "any" and isinstance(node.term, nodes.Relevant):
                return term  # never null
            return complete(term, node.how, self._among(node))
        return pl.when(IS_RETRIEVED).then(term) if node.order == "rank" else term

    def _among(self, node: Elements) -> pl.Expr | None:
        if node.order == "rank":
            return IS_RETRIEVED
        if node.order == "ideal" and not is_neutral(node):
            return _IDEAL_LABEL.is_not_null()
        return None

    def _leaf(self, leaf: nodes.Term, order: Order | None) -> pl.Expr:
        """Return the column of what a term reads, in rows in rank order."""
        label = _IDEAL_LABEL if order == "ideal" else pl.col("label")
        match leaf:
            case Field("label"):
                return label.cast(pl.Float64)
            case Field("rank") if order == "rank":
                return _POSITION  # of retrieved documents
            case Field("ideal_rank") if order == "ideal":
                return _POSITION
            case Field("judged"):
                return label.is_not_null()
            case Field(name) if name in _FIELDS:
                return _FIELDS[name]
            case nodes.Hits():
                return pl.col(self.names[leaf]).cast(pl.Float64)
            case nodes.OfTies():
                return pl.col(self.names[leaf])
            case nodes.Gain(gain):
                return gain_of(gain, label, whole_labels=self.whole_labels)
        return expressions.leaf_of_rows(leaf)

    def _of_ties(self, node: nodes.OfTies) -> pl.Expr:
        result: pl.Expr = node.function(
            *(lowered(each, partial(self._leaf, order=None)) for each in node.operands)
        )
        return result

    def _fold(self, node: Fold | nodes.UserExpression) -> pl.Expr:
        if isinstance(node, nodes.UserExpression):
            return node.expression
        columns = []
        for listed in node.sequences:
            column = pl.col(self.names[replace_cutoff(listed)])
            columns.append(column if listed.k is None else column.head(listed.k))
        return expressions.folded(node, *columns)

    def _batch(self, same: Sequence[nodes.Batch]) -> pl.Expr:
        """Return the values of batches that share what is read, as one list."""
        first = same[0]
        document = pl.struct(
            pl.col(self.names[Listed(term, "any")]).alias(name) for name, term in first.fields
        )
        functions = [node.compute for node in same]
        return document.implode().map_batches(
            partial(_of_batch, functions, first.read, *first.parameters),
            return_dtype=pl.List(pl.Float64),
            is_elementwise=True,
            returns_scalar=True,
        )

    def _sum(self, node: Reduction) -> pl.Expr:
        """Return a reduction of the whole list of a term, or down to a cutoff."""
        terms = pl.col(self.names[node.elements]).list
        if node.k is None:
            return reduced(terms, node.how)
        if not isinstance(node.k, Value):
            return reduced(terms.head(node.k).list, node.how)
        k = expressions.cutoff(self._value(node.k)).clip(0, MAX_DOCUMENTS).cast(pl.Int64)
        return reduced(terms.head(k).list, node.how)

    def _part(self, node: Elements, start: int, stop: int) -> pl.Expr:
        """Return the sum of a term between two ranks."""
        terms = pl.col(self.names[node]).list
        if stop - start == 1:
            return terms.get(start, null_on_oob=True).cast(pl.Float64).fill_null(0.0)
        whole = start == 0 and stop == self.needs.depth  # rankings end at the largest cutoff
        return reduced(terms if whole else terms.slice(start, stop - start).list, "sum")


def replace_cutoff(listed: Listed) -> Listed:
    """Return a sequence without its cutoff: sequences with different cutoffs share a column."""
    return listed if listed.k is None else Listed(listed.term, listed.order)


def _source(batch: nodes.Batch) -> Hashable:
    return batch.read, batch.parameters, batch.fields


def _of_batch(
    functions: Sequence[Callable[..., pl.Series]], read: Callable[..., Any], *parameters: Any
) -> pl.Series:
    """Return the values of each ranking as a list; the last parameter is the column of lists."""
    batch = read(*parameters)
    values = [function(batch).alias(str(index)) for index, function in enumerate(functions)]
    lists = pl.DataFrame(values).select(pl.concat_list(pl.all())).to_series()
    return lists.alias(parameters[-1].name)
