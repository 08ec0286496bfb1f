"""The ranked table: the documents of each ranking in rank order, with ranks and hits.

Each ranking is sorted once, as a list with only the columns that are read. The lists are exploded
into the ranked table. Both steps stream in flat memory if the rows of each ranking are adjacent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import polars as pl

from polars_rank._params import OWN
from polars_rank.columns import RANKED, is_relevant
from polars_rank.evaluation.log import Log

#: The position of a row in its ranking, from 1: the rank, if the document is retrieved.
POSITION = OWN + "position"
#: The label at this position of the ideal ranking.
IDEAL_LABEL = OWN + "ideal label"
#: Whether the row is a document: an empty ranking has one row that is not.
DOCUMENT = OWN + "document"
#: The columns of tied documents: their first and last positions, the numbers of the rows at these
#: positions, and the row that has the document's place in the reverse order.
TIE_COLUMNS = {name: OWN + "tie " + name for name in ("first", "last", "begin", "end", "reverse")}

#: Columns of a document and of its ranking, for readers of ranked documents.
DOC, DOCUMENTS, SIZE = OWN + "doc", OWN + "documents", OWN + "size"

#: Rules for ties that do not read labels.
TIES = ("doc", "doc_ascending", "input")

_LABEL, _SCORE = pl.col("label"), pl.col("score")
_ROW, _ROWS = OWN + "row", OWN + "rows"
_ROW_NUMBER, _RETRIEVED = OWN + "number of the row", OWN + "is retrieved"

# Columns that all plans share.
_IS_RETRIEVED = _SCORE.is_not_null().alias(_RETRIEVED)
_POSITIONS = pl.int_ranges(1, pl.col(_ROWS) + 1, dtype=pl.UInt32).alias(POSITION)
_RANK = pl.when(_RETRIEVED).then(POSITION).alias("rank")


class Reads(NamedTuple):
    """What is read of the ranked table."""

    #: Columns of the ranked table, and other columns of the log.
    columns: AbstractSet[str]
    #: Columns of running counts of hits, with the lowest relevant label.
    hits: Mapping[str, float]
    #: The last position that is read; None if whole rankings are.
    depth: int | None = None

    @classmethod
    def of(
        cls,
        rel: float,
        columns: AbstractSet[str],
        hits: Mapping[str, float | None] = MappingProxyType({}),
        depth: int | None = None,
    ) -> Reads:
        """Return what is read; the lowest relevant label None is `rel`."""
        given = {**hits, "hits": None} if "hits" in columns else hits
        lowest = {name: rel if own is None else own for name, own in given.items()}
        return cls(columns, lowest, depth)

    @classmethod
    def of_all(cls, log: Log, adds: Sequence[str] = RANKED) -> Reads:
        """Return that all columns of the log and some of the ranked table are read."""
        ids = [] if log.columns.doc is None else ["doc"]
        return cls.of(log.ordering.rel, {*adds, *ids, *log.others})

    @property
    def of_ties(self) -> bool:
        """Whether columns of tied documents are read."""
        return not self.columns.isdisjoint(TIE_COLUMNS.values())


def rows_of_rankings(log: Log) -> pl.LazyFrame:
    """Return the rows of a log with `relevant`, and with a rank that is 1 if it is retrieved."""
    relevant = is_relevant(_LABEL, log.ordering.rel).alias("relevant")
    return log.rows().with_columns(relevant, pl.when(_SCORE.is_not_null()).then(1).alias("rank"))


def in_rank_order(log: Log, reads: Reads, values: Sequence[pl.Expr] = ()) -> pl.LazyFrame:
    """Return one row per ranking: keys, values, and the number of a failed check.

    The documents are lists in rank order, from which `ranked_table` makes rows.
    """
    document = ["score"] if reads.of_ties or "score" in reads.columns else []
    document += ["doc"] if "doc" in reads.columns else []
    document += [name for name in log.others if name in reads.columns]
    order = log.order(only_label={*document} <= {"score"})
    parts = {_ROW: pl.struct("label", *document, _IS_RETRIEVED).sort_by(**order)}
    if IDEAL_LABEL in reads.columns:
        parts[IDEAL_LABEL] = _LABEL.sort(descending=True, nulls_last=True)
    number = pl.len()
    if reads.depth is not None:
        parts = {name: documents.head(reads.depth) for name, documents in parts.items()}
        number = number.clip(upper_bound=reads.depth)
    parts[_ROWS] = number
    lists = [part.alias(name) for name, part in parts.items()]
    rankings = log.rankings(rows_of_rankings(log), [*values, *lists])
    if "ideal_rank" not in reads.columns:
        return rankings
    ideal_rank = pl.element().struct.field("label").rank("ordinal", descending=True)
    return rankings.with_columns(pl.col(_ROW).list.eval(ideal_rank).alias("ideal_rank"))


def ranked_table(log: Log, rankings: pl.LazyFrame, reads: Reads) -> pl.LazyFrame:
    """Return the ranked table: one row per document, in rank order.

    Hits are running counts over all rows minus the counts at the start of the ranking. A count per
    ranking would take three times as long for short rankings.
    """
    nested = [_ROW, *(name for name in (IDEAL_LABEL, "ideal_rank") if name in reads.columns)]
    columns, before = [_RANK], []
    if "relevant" in reads.columns:
        columns.append(is_relevant(_LABEL, log.ordering.rel).alias("relevant"))
    for name, lowest in reads.hits.items():
        columns.append((is_relevant(_LABEL, lowest).cum_sum() - pl.col(name)).alias(name))
        label = pl.element().struct.field("label")
        number = pl.col(_ROW).list.eval(is_relevant(label, lowest)).list.sum()
        before.append((number.cum_sum() - number).alias(name))
    table = (
        rankings.with_columns(_POSITIONS, *before)
        .explode(*nested, POSITION)
        .unnest(_ROW)
        .set_sorted(log.keys.group)
        .with_columns(columns)
    )
    if "hits" in reads.hits:
        table = table.with_columns(pl.when(_RETRIEVED).then("hits").alias("hits"))
    return _with_ties(table) if reads.of_ties else table


def ranked_documents(log: Log, adds: Sequence[str] = RANKED) -> pl.LazyFrame:
    """Return the documents of a checked log in rank order.

    The columns are the keys, `doc` if there are ids, `label`, the other columns of the log, and
    those that the ranked table adds.
    """
    log, reads = replace(log, is_checked=True), Reads.of_all(log, adds)
    ids = [] if log.columns.doc is None else ["doc"]
    table = ranked_table(log, log.checked(in_rank_order(log, reads)), reads)
    return table.select(*log.keys.named, *ids, "label", *log.others, *adds)


def retrieved_documents(log: Log, k: int | None = None) -> pl.LazyFrame:
    """Return the first k retrieved documents of each ranking, in rank order.

    The columns are the internal keys, `DOCUMENTS` with lists of structs of `DOC` and the other
    columns of the log, and `SIZE` with their lengths. The rule for ties must not read labels.
    """
    size = _SCORE.count() if k is None else _SCORE.count().clip(upper_bound=k)
    documents = pl.struct(pl.col("doc").alias(DOC), *log.others)
    in_order = documents.sort_by(**log.order(only_label=True)).head(size)
    values = [in_order.alias(DOCUMENTS), size.alias(SIZE)]
    return log.checked(log.rankings(log.rows(), values)).set_sorted(log.keys.group)


def _with_ties(rows: pl.LazyFrame) -> pl.LazyFrame:
    """Add the positions of the first and last document tied with each document."""
    position, row = pl.col(POSITION), pl.col(_ROW_NUMBER)
    begin, end = pl.col(TIE_COLUMNS["begin"]), pl.col(TIE_COLUMNS["end"])
    begins = (position == 1) | _SCORE.ne_missing(_SCORE.shift(1))
    return (
        rows.with_columns(begins.alias(TIE_COLUMNS["begin"]))
        .with_columns(
            pl.int_range(pl.len(), dtype=pl.UInt32).alias(_ROW_NUMBER),
            begin.shift(-1, fill_value=True).alias(TIE_COLUMNS["end"]),
        )
        .with_columns(
            pl.when(begin).then(row).forward_fill().alias(TIE_COLUMNS["begin"]),
            pl.when(end).then(row).backward_fill().alias(TIE_COLUMNS["end"]),
        )
        .with_columns(
            (position + begin - row).alias(TIE_COLUMNS["first"]),
            (position + end - row).alias(TIE_COLUMNS["last"]),
            (begin + end - row).alias(TIE_COLUMNS["reverse"]),
        )
    )
