"""The ranked table: the documents of each ranking in rank order, with ranks and hits.

Each ranking is sorted once, as a list with only the columns that are read. The lists are exploded
into the ranked table. Both steps stream in flat memory if the rows of each ranking are adjacent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple, Unpack

import polars as pl

from polars_rank._params import OWN, Names
from polars_rank._polars import NUMBERED, NumberedRows
from polars_rank.columns import RANKED, RUN, Label, Score, is_relevant
from polars_rank.conventions import POLARS_RANK, ConventionsLike, Definitions
from polars_rank.errors import SchemaError
from polars_rank.evaluation.log import Log
from polars_rank.frames.batches import in_batches
from polars_rank.frames.tables import framed_by_query

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


#: Column of the number of a row of the log.
_PLACE = OWN + "place in the log"


@framed_by_query
def rank(
    frame: pl.LazyFrame,
    /,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: Score = "score",
    label: Label = "label",
    position: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    conventions: ConventionsLike = POLARS_RANK,
    **definitions: Unpack[Definitions],
) -> pl.LazyFrame:
    """Return the ranked table: the log with `rank`, `ideal_rank`, `relevant` and `hits`.

    Examples
    --------
    >>> df = pl.DataFrame({
    ...     "query": 1, "score": [0.1, 0.9, None], "label": [1, 0, 2],
    ... })
    >>> pr.rank(df).select("score", "rank", "ideal_rank", "relevant", "hits")
    shape: (3, 5)
    ┌───────┬──────┬────────────┬──────────┬──────┐
    │ score ┆ rank ┆ ideal_rank ┆ relevant ┆ hits │
    │ ---   ┆ ---  ┆ ---        ┆ ---      ┆ ---  │
    │ f64   ┆ u32  ┆ u32        ┆ bool     ┆ u32  │
    ╞═══════╪══════╪════════════╪══════════╪══════╡
    │ 0.1   ┆ 2    ┆ 2          ┆ true     ┆ 1    │
    │ 0.9   ┆ 1    ┆ 3          ┆ false    ┆ 0    │
    │ null  ┆ null ┆ 1          ┆ true     ┆ null │
    └───────┴──────┴────────────┴──────────┴──────┘

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking: a LazyFrame, a DataFrame, any other table
        with Arrow's C stream, such as those of pyarrow, pandas and DuckDB, or a Spark DataFrame.
    query
        Column or columns that identify the query.
    doc
        Column of the document. If it is None, or "doc" is missing, documents have no ids.
    score
        Column of the score, higher is better. "-distance" if lower is better, or an expression.
    label
        Column of the relevance label.
    position
        Column of the position, 1 first; replaces `score`.
    run
        Column of the run. Default: "run" if the table has it.
    by
        Columns to group by. A ranking consists of the rows with the same `by`, `run` and `query`.
    conventions
        Metric definitions to use. The ranked table follows `ties`, `rel`, `unjudged`, `duplicates`,
        `float32_scores` and `text_ids`; parameters and exceptions of metrics do not affect it.
    **definitions
        Fields of `Conventions`, which take precedence over `conventions`. For example
        `ties="input"`.

    Returns
    -------
    LazyFrame or DataFrame
        The rows in the same order (Spark: in no particular order), with these columns added. Lazy
        if `frame` is lazy; a Spark DataFrame if `frame` is one.

        - `rank`: 1, 2, ... by score descending; null if the score is null.
        - `ideal_rank`: 1, 2, ... by label descending, equal labels by rank; null if the label is
          null.
        - `relevant`: whether the label is at least `rel`; false if the label is null; null for
          the row of a ranking without documents.
        - `hits`: the number of relevant documents at this rank or above; null if the rank is null.
        - `score` and `label`: copies of the columns if these have other names.

        Documents that are dropped or removed are not retrieved, but their rows remain, because a
        ranking that loses all its documents still counts. With `unjudged="removed"`, scores of
        unjudged documents are null. If the conventions compare 32-bit scores, scores are Float32.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type, or has the name of an added column.
    DataError
        For null queries, NaN or infinite scores or labels, and duplicate documents (see
        `duplicates`). A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter, and for conventions with `ties="expected"`, which is a mean over
        many orders.

    Notes
    -----
    Metrics as expressions over the ranked table equal those of `per_query` with the same options
    and ``undefined="null"``, unless the conventions change a parameter of the metric or have an
    exception for it: a metric is null where it is undefined, and the mean of such a column leaves
    the query out. `evaluate` counts it as `undefined` says, by default mostly as 0.

    Unless `ties` is "input", the order of rows does not affect any value. Integers and decimals
    are compared exactly.
    """
    log = Log.of(
        frame, query=query, doc=doc, score=score, label=label, position=position, run=run, by=by,
        conventions=conventions, **definitions,
    )  # fmt: skip
    columns = log.columns
    for role, name in (("score", columns.score), ("label", label)):
        if name != role and role in columns.schema:
            other = "another expression" if name.startswith(OWN) else repr(name)
            raise SchemaError(
                f"`{role}` is {other}, but the frame also has a column {role!r}, which metrics "
                "would read in the ranked table; drop it or rename it"
            )
    there = [name for name in RANKED if name in columns.schema]
    if there:
        raise SchemaError(
            f"the frame already has the columns {there}, which the ranked table adds; "
            "drop or rename them"
        )
    # Unlike an evaluation, a ranked table has one order: "expected" is an error.
    log = replace(log, ordering=log.ordering._replace(ties=log.conventions.ties))
    # Metrics as expressions read these names.
    named = {"score": columns.score, "label": label}
    copies = {role: pl.col(name) for role, name in named.items()
              if name != role and not name.startswith(OWN)}  # fmt: skip
    table = _ranked(log).with_columns(**copies)
    if not columns.score.startswith(OWN):
        return table
    negated = position or (score[1:] if isinstance(score, str) else None)
    if negated is not None and columns.schema[negated] == pl.Int64:
        # The negative of the lowest Int64 is beyond its range.
        exact = pl.col(columns.score).clip(upper_bound=2**63 - 1).cast(pl.Int64)
        table = table if log.ordering.float32_scores else table.with_columns(exact)
    return table.rename({columns.score: "score"})


def _ranked(log: Log) -> pl.LazyFrame:
    """Return the table in its order with the columns of the ranked table, checked."""
    columns, keys, ordering = log.columns, log.keys, log.ordering
    own = {name: f"{OWN}column {index}" for index, name in enumerate(columns.schema)}
    # Polars reads some names as patterns, which columns without a role may have.
    named = {*columns.pair, columns.score, columns.label, *columns.unnamed, keys.number}
    renamed = {name: each for name, each in own.items() if name not in named}
    read = {each: pl.col(renamed.get(name, name)) for name, each in own.items()}
    table = log.table.rename(renamed).with_row_index(_PLACE)
    adjacent = keys.are_adjacent(log.table)
    log = replace(log, table=table, others={**log.others, **read, _PLACE: pl.col(_PLACE)})
    reads, score = Reads.of_all(log), ordering.score(columns).alias(columns.score)

    def in_order(rankings: pl.LazyFrame) -> pl.LazyFrame:
        return ranked_table(log, rankings, reads).sort(_PLACE)

    rankings = log.checked(in_rank_order(log, reads))
    rows = in_batches(rankings, in_order) if adjacent else in_order(rankings)
    ranked = rows.select(
        *(pl.col(each).alias(name) for name, each in own.items()), *RANKED
    ).with_columns(
        pl.when(columns.is_document).then("relevant").alias("relevant"),
        *([score] if ordering.float32_scores or ordering.unjudged == "removed" else []),
    )
    if NUMBERED in columns.schema.values():  # by these or by other keys
        return NumberedRows.of(ranked)
    return ranked.set_sorted(columns.keys) if adjacent else ranked
