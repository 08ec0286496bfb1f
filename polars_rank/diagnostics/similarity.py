"""Similarity of two runs: rank-biased overlap and overlap at k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, find_columns, one_of, share, some_names, whole_number
from polars_rank.columns import Columns, labeled
from polars_rank.evaluation.checks import duplicate_check, duplicates_remedy, row_checks
from polars_rank.evaluation.means import ratio
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

#: The rank of a document in both runs; null if the run does not have it.
LEFT, RIGHT = pl.col(OWN + "rank in left"), pl.col(OWN + "rank in right")


@framed
def rbo(
    left: pl.LazyFrame,
    right: Any,
    *,
    p: float = 0.9,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    ties: Ties | None = None,
) -> pl.LazyFrame:
    r"""Compute the rank-biased overlap (RBO) of two runs, query by query.

    $$\mathrm{RBO} = (1 - p) \sum_{d=1}^{\infty} p^{d-1} \frac{|left_{1..d} \cap right_{1..d}|}{d}$$

    It is extrapolated: beyond the shorter ranking, and beyond both, the share of common documents
    is assumed to remain the same (equation 32 of the paper).

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
        Order of documents with equal scores: "doc" (id descending; default), "doc_ascending" or
        "input".

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `left`. One row per query of either table, with the columns of the query and
        `rbo` in [0, 1]: 0 if one of the rankings is empty, null if both are.

    References
    ----------
    Webber, Moffat & Zobel, A similarity measure for indefinite rankings, 2010.

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
    """
    return _compared(left, right, rbo_value(p), query=query, doc=doc, score=score, ties=ties)


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
    value = overlap_value(k)
    return _compared(left, right, value, query=query, doc=doc, score=score, ties=ties)


def rbo_value(p: float) -> pl.Expr:
    """Return rank-biased overlap as an aggregation of the documents of a ranking."""
    share("p", p)
    a, b = LEFT, RIGHT
    shorter = pl.min_horizontal(a.count(), b.count())
    longer = pl.max_horizontal(a.count(), b.count())
    places = pl.int_range(1, pl.len() + 1, dtype=pl.UInt32)
    power = pl.lit(float(p)).pow
    weights = power(places.cast(pl.Float64) - 1) / places
    # A common document counts at all depths at which both rankings have it.
    both = pl.max_horizontal(a, b).filter(a.is_not_null() & b.is_not_null())
    weighted = weights.head(longer).cum_sum(reverse=True).gather(both - 1).sum()
    in_shorter, in_longer = (both <= shorter).sum(), both.count()
    seen = in_shorter / shorter
    depths = weights.head(longer).sum() - weights.head(shorter).sum()
    beyond = seen * ((power(shorter) - power(longer)) / (1 - p) - shorter * depths)
    last = (in_longer - in_shorter) / longer + seen
    value = (1 - p) * (weighted + beyond) + power(longer) * last
    known = pl.when(shorter > 0).then(value).otherwise(0.0)
    return pl.when(longer > 0).then(known).alias("rbo")


def overlap_value(k: int | None) -> pl.Expr:
    """Return the overlap at k as an aggregation of the documents of a ranking."""
    both = pl.max_horizontal(LEFT, RIGHT).filter(LEFT.is_not_null() & RIGHT.is_not_null())
    if k is None:
        value = ratio(both.count(), pl.max_horizontal(LEFT.count(), RIGHT.count()))
    else:
        value = (both <= whole_number("k", k)).sum() / k
    return value.alias("overlap")


def _compared(
    left: pl.LazyFrame,
    right: Any,
    value: pl.Expr,
    *,
    query: Names,
    doc: str,
    score: str,
    ties: Ties | None,
) -> pl.LazyFrame:
    """Return a value of each query of two runs, in sorted order."""
    one_of("ties", ties, (None, *TIES))
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
    return of_pairs(tables[0], tables[1], keys, [value]).sort(keys)


def of_pairs(
    left: pl.LazyFrame, right: pl.LazyFrame, keys: Sequence[str], values: Sequence[pl.Expr]
) -> pl.LazyFrame:
    """Return values of each ranking in either table.

    The tables are results of `retrieved`. The values are aggregations of `LEFT` and `RIGHT`.
    """

    def of_batch(batch: pl.LazyFrame) -> pl.LazyFrame:
        # A ranking without documents has a row without a document.
        first, second = (
            batch.select(*keys, pl.col(side).alias(DOC), _ranks(side)).explode(
                DOC, side, empty_as_null=True
            )
            for side in (LEFT.meta.output_name(), RIGHT.meta.output_name())
        )
        documents = first.join(second, on=[*keys, DOC], how="full", coalesce=True)
        return documents.group_by(keys).agg(values)

    return in_batches(left.join(right, on=keys, how="full", coalesce=True), of_batch)


def _ranks(documents: str) -> pl.Expr:
    return pl.int_ranges(1, pl.col(documents).list.len() + 1, dtype=pl.UInt32).alias(documents)


def retrieved(
    run: pl.LazyFrame,
    ranks: pl.Expr,
    *,
    query: Sequence[str],
    doc: str,
    score: str,
    ties: Ties | None = None,
) -> pl.LazyFrame:
    """Return the retrieved documents of each query in rank order, as lists named like `ranks`."""
    log, label = labeled(run, None)
    columns = Columns.find(schema_of(log), query=query, doc=doc, score=score, label=label, by=None)
    columns = columns._replace(unnamed=())
    checks = [
        *row_checks(columns),
        duplicate_check(columns, DOC, remedy=duplicates_remedy("`query`")),
    ]
    rankings, keys = retrieved_documents(log, columns, ties=ties, checks=checks)
    documents = pl.col(DOCUMENTS).list.eval(pl.element().struct.field(DOC))
    table = rankings.select(*user_keys(keys), documents.alias(ranks.meta.output_name()))
    return table if keys.number is not None else table.set_sorted([*query])
