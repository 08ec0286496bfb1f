"""Short rankings as one row per ranking and one column per position.

Each document becomes one integer that holds its sort key and its label. A sorting network of
`max_horizontal` and `min_horizontal` sorts the columns of a ranking, and a second network sorts its
labels into ideal order. No ranking is sorted, exploded or gathered by itself, so rankings of 5 to
20 documents take half the time. A term becomes one column per position, such as `label 0`,
`label 1`, .... A sum over documents is a sum over columns.

The following is evaluated by rows of documents instead:

- logs with unknown lengths of rankings: files that are not from `scan_log`, shuffled logs that do
  not fit in memory, and plans that join, concatenate or change keys;
- logs with few rows, with rankings of more than about 20 documents, or with a few long rankings
  among short ones;
- metrics that read more than labels and ranks at each position, such as correlations, and users'
  own expressions; and `ties="expected"`;
- scores that are not floats, ids that are neither integers nor text, and labels beyond 64 bits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial, reduce
from itertools import combinations
from typing import NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.checks import FAILED, Check, failed
from polars_rank.columns import Columns
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.order import LabelCodes, PackedKey
from polars_rank.evaluation.stages import (
    MATCHED,
    RETRIEVED,
    TIED,
    Needs,
    Stage,
    by_cutoffs,
    complete,
    gain_of,
    name_of_sum,
    running_sums,
)
from polars_rank.frames.layouts import Lengths
from polars_rank.metrics import nodes
from polars_rank.metrics.analyses import LONGEST, is_neutral, leaves, nodes_in, weighted
from polars_rank.metrics.expressions import conditional, cutoff, lowered
from polars_rank.metrics.nodes import Field, Gain, Node, Order, Reduction, Relevant, Term, Value

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


class Positions:
    """The nodes of a plan by columns, and the names of their columns, without the position.

    The values need labels and ranks only. The rankings have up to `length` documents.
    """

    def __init__(self, values: Sequence[Value], length: int, log: Log) -> None:
        self.values: Sequence[Value] = values
        self.length: int = length
        self.log: Log = log
        self.codes: LabelCodes = LabelCodes(log.canonical.schema["label"])
        self.reductions: list[Reduction] = [
            node for node in nodes_in(*values) if isinstance(node, Reduction)
        ]
        self.elements: list[nodes.Elements] = [
            *dict.fromkeys(node.elements for node in self.reductions)
        ]
        self.parts: dict[nodes.Elements, tuple[nodes.Elements, Sequence[float] | None]] = {
            node: _split(node, length) for node in self.elements
        }
        self.stored: list[nodes.Elements] = [
            *dict.fromkeys(part for part, _ in self.parts.values())
        ]
        read = {(leaf, node.order) for node in self.stored for leaf in leaves(node.term)}
        hits = {Relevant(leaf.rel) for leaf, _ in read if isinstance(leaf, nodes.Hits)}
        self.relevant: dict[tuple[Relevant, Order], None] = dict.fromkeys(
            (leaf, order) for leaf, order in read if isinstance(leaf, Relevant)
        ) | dict.fromkeys((leaf, _RANKED) for leaf in hits)
        #: The counts of relevant documents that are read at each rank, and all of them.
        self.hits: dict[nodes.Elements, None] = dict.fromkeys(
            nodes.Elements(leaf, _RANKED, "count") for leaf in hits
        )
        self.counts: dict[nodes.Elements, None] = (
            dict.fromkeys(filter(_is_relevance, self.elements)) | self.hits
        )
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

        def part(node: nodes.Elements, start: int, stop: int) -> pl.Expr:
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

    def _columns(self, node: nodes.Elements) -> list[pl.Expr]:
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

    def _element(self, node: nodes.Elements, i: int) -> pl.Expr:
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
            case nodes.Hits(rel):
                hits = nodes.Elements(Relevant(rel), _RANKED, "count")
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
    rel = None if leaf.rel is None else float(leaf.rel)  # nodes with 2 and 2.0 are equal
    return f"{OWN}relevant {rel} {order}"


def _none(node: Reduction) -> float | None:
    """Return a number in place of the extreme of no documents; None if terms can be that number."""
    return _NONE[node.how] if node.how in _NONE and _is_finite(node.term) else None


def _is_finite(term: Term) -> bool:
    """Return whether a term chooses among labels, ranks and numbers, which are finite."""
    if isinstance(term, nodes.LiteralTerm):
        return term.value is None or math.isfinite(term.value)
    if isinstance(term, nodes.MappedTerm):
        return term.function is conditional and all(map(_is_finite, term.operands))
    return not isinstance(term, Gain)


def _is_sum(node: Reduction) -> bool:
    return node.how in {"sum", "count"} and not isinstance(node.k, Value)


def _is_relevance(node: nodes.Elements) -> bool:
    """Return whether a count reads columns of relevance as they are."""
    return isinstance(node.term, Relevant) and node.how == "count"


def _split(node: nodes.Elements, length: int) -> tuple[nodes.Elements, Sequence[float] | None]:
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


#: Column that says whether a ranking has a document more than once.
REPEATED = pl.col(OWN + "repeated")

#: Column of the number of a row of the log.
ROW = OWN + "row"

_KEY, _SECOND = OWN + "order", OWN + "second"
_CODE, _RETRIEVED_CODE, _IDEAL = CODES["any"], CODES["rank"], CODES["ideal"]
_DOCUMENT, _ROWS, _LOWER = OWN + "doc", OWN + "rows", OWN + "lower"
#: Column of the number of documents with an id.
_IDS = OWN + "ids"


def table_of_positions(
    log: Log, carried: Sequence[pl.Expr], order: PackedKey, stages: ColumnStages
) -> pl.LazyFrame:
    """Return one row per ranking: keys, carried columns, columns of terms, and `FAILED`.

    `carried` are aggregations that give one value per ranking.
    """
    documents, rows, checks = Documents(log.canonical, order), log.rows(), log.checks
    unique = any(check.condition.meta.eq(REPEATED) for check in checks)
    counts = [pl.len().alias(_ROWS), *([pl.col("doc").count().alias(_IDS)] if unique else [])]
    cells = documents.cells(with_ids=unique)
    conditions, of_ranking = _of_ranking(checks)
    if ROW in order.number.meta.root_names():
        rows = rows.with_row_index(ROW)
    table = (
        rows.with_columns(**cells)
        .group_by(log.keys.group, maintain_order=True)
        .agg(*log.keys.carried, *carried, *conditions, *cells, *counts)
        .with_columns(documents.at(name, i) for name in cells for i in range(stages.length))
    )
    table = documents.sorted(table, stages.length)
    repeated = pl.lit(value=False)
    if unique:  # all pairs are compared: sorting the ids takes more time
        docs = [pl.col(at(_DOCUMENT, i)) for i in range(stages.length)]
        same = [doc == other for doc, other in combinations(docs, 2)]
        without_id = pl.col(_ROWS) - pl.col(_IDS) > 1
        repeated = reduce(pl.Expr.__or__, same, without_id).fill_null(value=False)
    table = table.with_columns(
        *documents.retrieved_codes(stages.length),
        documents.tied(stages.length).alias(TIED),
        repeated.alias(REPEATED.meta.output_name()),
    )
    failing = pl.max_horizontal(documents.failing, failed(of_ranking, "ranking"))
    table = table.with_columns(failing.alias(FAILED), matched(stages.length))
    for stage in stages.stages:
        table = table.with_columns(**stage) if stage else table
    return table


class Documents:
    """Documents as columns of positions: sort keys and labels.

    A label is encoded as an integer in the same order. If a key of 64 bits determines the order,
    one integer of 128 bits holds the key and the label. Otherwise, labels and second keys have
    separate columns, which are exchanged with the keys.
    """

    def __init__(self, columns: Columns, order: PackedKey) -> None:
        self.columns = columns
        self.order = order
        self.codes: LabelCodes = LabelCodes(columns.schema["label"])
        self._packed = order.dtype == pl.Int64 and order.second is None
        self._dtype = pl.Int64 if order.second is not None else pl.Int128
        # Keys above and below the keys of all documents. A row that fails a check has the highest
        # key, and the number of the check as its code.
        limit = 2**63 if order.dtype == pl.Int64 else 2**127
        self._failing, self._missing = limit - 1, -limit
        if self._packed:
            self._failing, self._missing = (
                self._failing * 2**64,
                -(2**127) + LabelCodes.missing % 2**64,
            )

    def cells(self, *, with_ids: bool) -> dict[str, pl.Expr]:
        """Return the values of a document."""
        passes, number = pl.col(FAILED) == 0, pl.col(FAILED)
        highest = 2**63 - 1 if self.order.dtype == pl.Int64 else 2**127 - 1
        key = pl.when(passes).then(self.order.number).otherwise(pl.lit(highest, self.order.dtype))
        code = self.codes.of(self.columns.number("label"))
        code = pl.when(passes).then(code).otherwise(number.cast(pl.Int64))
        if self._packed:
            key = key.cast(pl.Int128) * 2**64 + code.cast(pl.Int128)
        cells = {_KEY: key} if self._packed else {_KEY: key, _CODE: code}
        if self.order.second is not None:
            cells[_SECOND] = self.order.second
        if with_ids:
            doc = pl.col("doc")
            if not isinstance(self.columns.schema["doc"], pl.datatypes.IntegerType):
                doc = pl.when(doc.is_not_null()).then(doc.hash())
            cells[_DOCUMENT] = doc
        return cells

    def at(self, name: str, position: int) -> pl.Expr:
        """Return a value at a position; the lowest key and code beyond the end of a ranking."""
        value = pl.col(name).list.get(position, null_on_oob=True)
        if name == _KEY:
            value = value.fill_null(pl.lit(self._missing, dtype=self._dtype))
        elif name == _CODE:
            value = value.fill_null(pl.lit(LabelCodes.missing, dtype=pl.Int64))
        return value.alias(at(name, position))

    def sorted(self, table: pl.LazyFrame, length: int) -> pl.LazyFrame:
        """Return the columns in rank order, and the labels in ideal order."""
        codes = [self._packed_code(i).alias(at(_CODE, i)) for i in range(length)]
        table = table.with_columns(codes).with_columns(
            pl.col(at(_CODE, i)).alias(at(_IDEAL, i)) for i in range(length)
        )
        followers = [] if self._packed else [_CODE]
        followers += [] if self.order.second is None else [_SECOND]
        for layer in network(length):
            if followers:
                table = table.with_columns(
                    self._is_lower(a, b).alias(at(_LOWER, a)) for a, b in layer
                )
            table = table.with_columns(
                *(each for pair in layer for each in _exchanged(_KEY, *pair)),
                *(each for name in followers for pair in layer for each in _followed(name, *pair)),
            )
        table = table.with_columns(codes)
        for layer in network(length):
            table = table.with_columns(e for a, b in layer for e in _exchanged(_IDEAL, a, b))
        return table

    def retrieved_codes(self, length: int) -> Iterator[pl.Expr]:
        """Return the codes of the labels of retrieved documents."""
        for i in range(length):
            code = pl.when(pl.col(RETRIEVED) > i).then(pl.col(at(_CODE, i)))
            yield code.otherwise(LabelCodes.missing).alias(at(_RETRIEVED_CODE, i))

    def tied(self, length: int) -> pl.Expr:
        """Return whether ids order all retrieved documents; null for fewer than two, or no ids."""
        if self.columns.doc is None:
            return pl.lit(None, dtype=pl.Boolean)
        width, lowest = self.order.width, self.order.lowest
        if self._packed:
            width, lowest = width + 64, lowest * 2**64 + LabelCodes.missing
        # The lowest key of a document with the score of the first document.
        key = pl.col(at(_KEY, 0))
        key = (key - lowest) // 2**width * 2**width + lowest if width else key
        lower = (pl.col(at(_KEY, i)) < key for i in range(length))
        several = pl.any_horizontal((pl.col(RETRIEVED) > i) & each for i, each in enumerate(lower))
        return pl.when(pl.col(RETRIEVED) > 1).then(~several)

    @property
    def failing(self) -> pl.Expr:
        """The number of the check that a row failed; such a row has the highest key."""
        failing = pl.col(at(_KEY, 0)) >= pl.lit(self._failing, dtype=self._dtype)
        return pl.when(failing).then(pl.col(at(_CODE, 0))).otherwise(0).cast(pl.UInt16)

    def _packed_code(self, position: int) -> pl.Expr:
        if not self._packed:
            return pl.col(at(_CODE, position))
        return pl.col(at(_KEY, position)).cast(pl.Int64, wrap_numerical=True)

    def _is_lower(self, a: int, b: int) -> pl.Expr:
        """Return whether the document at position `a` ranks below the document at position `b`."""
        key, other = pl.col(at(_KEY, a)), pl.col(at(_KEY, b))
        if self.order.second is None:
            return key < other
        second, its = pl.col(at(_SECOND, a)), pl.col(at(_SECOND, b))
        behind = second > its if self.order.ascending else second < its
        return (key < other) | ((key == other) & behind)


def matched(length: int) -> pl.Expr:
    """Return whether a ranking has a judged document that is retrieved."""
    highest = pl.max_horizontal(at(_RETRIEVED_CODE, i) for i in range(length))
    return (highest != LabelCodes.missing).alias(MATCHED)


def columns_are_faster(lengths: Lengths) -> bool:
    """Return whether one column per position is faster than one row per document.

    The time for columns depends on the longest ranking, the time for rows on the mean length.
    """
    rankings, longest = lengths.rankings, lengths.longest
    # Microseconds of CPU time: a fixed part for building, optimizing and starting the plan, which
    # has columns for each position, and a part for the log. The numbers are rounded from those that
    # are fitted to the table in tests/bench/columns.md. For each log of the table, the chosen
    # form takes at most a quarter more time than the other.
    columns = 5_300 + 2_900 * longest + rankings * (0.086 * longest + 0.0025 * longest**2)
    rows = 14_000 + rankings * 1.2 + lengths.rows * 0.13
    return 0 < longest <= LONGEST and columns < rows


def _of_ranking(checks: Sequence[Check]) -> tuple[list[pl.Expr], list[Check]]:
    """Return the conditions of rankings as aggregations, and checks that read their results.

    Conditions that are columns already are not aggregated.
    """
    conditions, checks_of_columns = [], []
    for index, check in enumerate(checks):
        condition = check.condition
        if check.scope == "ranking" and not condition.meta.is_column():
            conditions.append(condition.alias(f"{OWN}condition {index}"))
            condition = pl.col(f"{OWN}condition {index}")
        checks_of_columns.append(check._replace(condition=condition))
    return conditions, checks_of_columns


def _exchanged(name: str, a: int, b: int) -> Iterator[pl.Expr]:
    """Return two columns, with the higher value in the first and the lower in the second."""
    pair = at(name, a), at(name, b)
    yield pl.max_horizontal(pair).alias(pair[0])
    yield pl.min_horizontal(pair).alias(pair[1])


def _followed(name: str, a: int, b: int) -> Iterator[pl.Expr]:
    """Return two columns, exchanged in rows where the first has the lower key."""
    lower, (first, second) = pl.col(at(_LOWER, a)), (at(name, a), at(name, b))
    yield pl.when(lower).then(pl.col(second)).otherwise(pl.col(first)).alias(first)
    yield pl.when(lower).then(pl.col(first)).otherwise(pl.col(second)).alias(second)


def network(length: int) -> list[list[tuple[int, int]]]:
    """Return the layers of a sorting network: pairs of positions to compare and exchange.

    This is the odd-even merge sort of Batcher (1968), for any length.
    """
    layers, width = [], 1
    while width < length:
        step = width
        while step >= 1:
            layers.append(
                [
                    (i + j, i + j + step)
                    for j in range(step % width, length - step, 2 * step)
                    for i in range(min(step, length - j - step))
                    if (i + j) // (2 * width) == (i + j + step) // (2 * width)
                ]
            )
            step //= 2
        width *= 2
    return layers
