"""Similarity of two runs: rank-biased overlap and overlap at k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import polars as pl

from polars_rank._params import OWN, find_columns, one_of, some_names
from polars_rank.columns import Columns, labeled
from polars_rank.diagnostics.overlaps import (
    LEFT,
    RIGHT,
    UNORDERED,
    last_rank,
    overlap_value,
    rbo_value,
)
from polars_rank.evaluation.checks import duplicate_check, duplicates_remedy, row_checks
from polars_rank.evaluation.per_ranking import (
    DOC,
    DOCUMENTS,
    TIES,
    retrieved_documents,
    user_keys,
)
from polars_rank.frames.batches import in_batches
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import framed, lazy, schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank._params import Names
    from polars_rank.conventions import Ties

#: The score of a document in a list.
_SCORE = OWN + "score of document"
#: Orders of documents with equal scores, and the treatments of ties without an order.
RboTies: TypeAlias = Literal["doc", "doc_ascending", "input", "w", "a", "b"]


@framed
def rbo(
    left: pl.LazyFrame,
    right: Any,
    *,
    p: float = 0.9,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    ties: RboTies | None = None,
) -> pl.LazyFrame:
    r"""Compute the rank-biased overlap (RBO) of two runs, query by query.

    $$\mathrm{RBO} = (1 - p) \sum_{d=1}^{\infty} p^{d-1} \frac{|left_{1..d} \cap right_{1..d}|}{d}$$

    It is extrapolated: beyond the shorter ranking, and beyond both, the share of common documents
    is assumed to remain the same (equation 32 of Webber et al.).

    Parameters
    ----------
    left, right
        The long tables, one row per document. A null score means not retrieved. Labels are not
        needed.
    p
        Persistence, between 0 and 1: the higher, the more lower ranks count.
    query, doc, score
        Names of the columns in both tables; `query` may be several.
    ties
        Order of documents with equal scores, or treatment of ties without an order:

        - "doc" (id descending; default), "doc_ascending" or "input": the tied documents have this
          order. By id, both runs break ties in the same way, which overestimates the similarity
          where both have ties;
        - "w": tied documents share a rank, and the first d documents of a run are those whose
          rank is d or less, which may be more than d. The agreement is
          $2 |left_{1..d} \cap right_{1..d}| / (|left_{1..d}| + |right_{1..d}|)$. For ties that
          mean equality, as in sports;
        - "a": the mean over all orders of the tied documents. For ties whose order is unknown;
        - "b": as "a", but the agreement is divided by its geometric mean for each of the two
          rankings with itself, so that rankings with the same ties have an RBO of 1. For the
          agreement of two runs of equal standing that both have ties.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `left`. One row per query of either table, with the columns of the query and
        `rbo` in [0, 1]: 0 if one of the rankings is empty, null if both are.

    Notes
    -----
    For "a" and "b", $c_x(d)$ is the share of orders in which the document x is one of the first d,
    and the agreement at depth d is $\sum_x c^{left}_x c^{right}_x / d$ for "a", and for "b"

    $$\frac{\sum_x c^{left}_x(d) \, c^{right}_x(d)}
    {\sqrt{\sum_x c^{left}_x(d)^2 \sum_x c^{right}_x(d)^2}}$$

    Beyond the shorter ranking, at depth d > s, each of the d - s documents that it lacks counts as
    the agreement at s times the mean of $c_x(d)$, if it is not 0, over the documents that only the
    longer ranking has (1 for "w"). If one ranking is longer and has ties there, "a" is therefore
    not exactly the mean of the extrapolated values of all orders. Without ties, "w", "a" and "b"
    are equal to the values of an order.

    References
    ----------
    Webber, Moffat & Zobel, A similarity measure for indefinite rankings, 2010; Corsi & Urbano, The
    treatment of ties in rank-biased overlap, 2024.

    Examples
    --------
    >>> left = pl.DataFrame({"query": 1, "doc": ["a", "b"], "score": [2.0, 1.0]})
    >>> right = pl.DataFrame({"query": 1, "doc": ["a", "b"], "score": [1.0, 2.0]})
    >>> # The overlap is 0 at depth 1, and 1 from depth 2 on.
    >>> pr.diagnostics.rbo(left, right, p=0.5)
    shape: (1, 2)
    ┌───────┬─────┐
    │ query ┆ rbo │
    │ ---   ┆ --- │
    │ i32   ┆ f64 │
    ╞═══════╪═════╡
    │ 1     ┆ 0.5 │
    └───────┴─────┘
    >>> # With a tie, the overlap at depth 1 is 1/2 on average.
    >>> tied = left.with_columns(score=1.0)
    >>> pr.diagnostics.rbo(tied, right, p=0.5, ties="a")["rbo"].item()
    0.75
    """
    one_of("ties", ties, (None, *TIES, *UNORDERED))
    value = rbo_value(p, ties)
    return _compared(left, right, value, query=query, doc=doc, score=score, ties=ties)


@framed
def overlap(
    left: pl.LazyFrame,
    right: Any,
    k: int | None = 10,
    *,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    ties: Ties | None = None,
) -> pl.LazyFrame:
    r"""Compute the share of the first k documents that two runs have in common.

    $$\frac{1}{k} |left_{1..k} \cap right_{1..k}|$$

    Parameters
    ----------
    left, right
        The long tables, one row per document. A null score means not retrieved. Labels are not
        needed.
    k
        Cutoff, at least 1. None for whole rankings; the number of common documents is then divided
        by the length of the longer ranking.
    query, doc, score
        Names of the columns in both tables; `query` may be several.
    ties
        Order of documents with equal scores: "doc" (id descending; default), "doc_ascending" or
        "input".

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `left`. One row per query of either table, with the columns of the query and
        `overlap` in [0, 1]; null without `k` if both rankings are empty.

    References
    ----------
    Fagin, Kumar & Sivakumar, Comparing top k lists, 2003.

    Examples
    --------
    >>> left = pl.DataFrame({"query": 1, "doc": ["a", "b"], "score": [2.0, 1.0]})
    >>> right = pl.DataFrame({"query": 1, "doc": ["a", "c"], "score": [2.0, 1.0]})
    >>> pr.diagnostics.overlap(left, right, 2)
    shape: (1, 2)
    ┌───────┬─────────┐
    │ query ┆ overlap │
    │ ---   ┆ ---     │
    │ i32   ┆ f64     │
    ╞═══════╪═════════╡
    │ 1     ┆ 0.5     │
    └───────┴─────────┘
    """
    one_of("ties", ties, (None, *TIES))
    value = overlap_value(k)
    return _compared(left, right, value, query=query, doc=doc, score=score, ties=ties)


def _compared(
    left: pl.LazyFrame,
    right: Any,
    value: pl.Expr,
    *,
    query: Names,
    doc: str,
    score: str,
    ties: str | None,
) -> pl.LazyFrame:
    """Return a value of each query of two runs, in sorted order."""
    keys, runs = [*some_names("query", query)], [left, lazy(right, "right")]
    schemas = [schema_of(run) for run in runs]
    for schema in schemas:
        find_columns(schema, {"query": keys, "doc": doc, "score": score})
    types = key_types(schemas[0], schemas[1], [*keys, doc], ("`left`", "`right`"))
    tables = []
    for ranks, run, schema in zip((LEFT, RIGHT), runs, schemas, strict=True):
        # A cast hides the order of a table from Polars, even a cast to the same type.
        casts = {name: dtype for name, dtype in types.items() if schema[name] != dtype}
        rows = run.cast(casts) if casts else run  # type: ignore[arg-type]
        tables.append(retrieved(rows, ranks, query=keys, doc=doc, score=score, ties=ties))
    is_tied = ties in UNORDERED
    return of_pairs(tables[0], tables[1], keys, [value], is_tied=is_tied).sort(keys)


def of_pairs(
    left: pl.LazyFrame,
    right: pl.LazyFrame,
    keys: Sequence[str],
    values: Sequence[pl.Expr],
    *,
    is_tied: bool = False,
) -> pl.LazyFrame:
    """Return values of each ranking in either table.

    The tables are results of `retrieved`; `is_tied` says whether ties have no order. The values are
    aggregations of `LEFT` and `RIGHT`.
    """

    def of_batch(batch: pl.LazyFrame) -> pl.LazyFrame:
        first, second = (_documents(batch, keys, side, is_tied=is_tied) for side in (LEFT, RIGHT))
        documents = first.join(second, on=[*keys, DOC], how="full", coalesce=True)
        return documents.group_by(keys).agg(values)

    return in_batches(left.join(right, on=keys, how="full", coalesce=True), of_batch)


def _documents(
    batch: pl.LazyFrame, keys: Sequence[str], side: pl.Expr, *, is_tied: bool
) -> pl.LazyFrame:
    """Return the documents of a run with their ranks.

    A ranking without documents has a row without a document.
    """
    documents = pl.col(side.meta.output_name())
    ranks = [pl.int_ranges(1, documents.list.len() + 1, dtype=pl.UInt32)]
    if is_tied:
        ranks = [_first_rank(side), last_rank(side)]
    named = [ranks[0].alias(side.meta.output_name()), *ranks[1:]]
    columns = [DOC, *(rank.meta.output_name() for rank in named)]
    lists = batch.select(*keys, documents.alias(DOC), *named)
    return lists.explode(columns, empty_as_null=True)


def _first_rank(side: pl.Expr) -> pl.Expr:
    return pl.col(side.meta.output_name() + " first")


def retrieved(
    run: pl.LazyFrame,
    ranks: pl.Expr,
    *,
    query: Sequence[str],
    doc: str,
    score: str,
    ties: str | None = None,
) -> pl.LazyFrame:
    """Return the retrieved documents of each query in rank order, as lists named like `ranks`.

    If ties have no order, there are also lists of the first and the last rank of the documents that
    are tied with each document.
    """
    log, label = labeled(run, None)
    columns = Columns.find(schema_of(log), query=query, doc=doc, score=score, label=label, by=None)
    columns = columns._replace(unnamed=())
    checks = [
        *row_checks(columns),
        duplicate_check(columns, DOC, remedy=duplicates_remedy("`query`")),
    ]
    is_tied = ties in UNORDERED
    rankings, keys = retrieved_documents(
        log, columns, ties=None if is_tied else cast("Ties | None", ties), checks=checks,
        extras={_SCORE: columns.number(columns.score)} if is_tied else None,
    )  # fmt: skip
    documents = pl.col(DOCUMENTS)
    lists = [documents.list.eval(_field(DOC)).alias(ranks.meta.output_name())]
    if is_tied:
        first = _field(_SCORE).rank("min", descending=True).cast(pl.UInt32)
        last = _field(_SCORE).rank("max", descending=True).cast(pl.UInt32)
        for rank, column in ((first, _first_rank(ranks)), (last, last_rank(ranks))):
            lists.append(documents.list.eval(rank).alias(column.meta.output_name()))
    table = rankings.select(*user_keys(keys), *lists)
    return table if keys.number is not None else table.set_sorted([*query])


def _field(name: str) -> pl.Expr:
    return pl.element().struct.field(name)
