"""Similarity of two runs: rank-biased overlap and overlap at k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, find_columns, names, share, whole_number
from polars_rank.evaluation.means import ratio
from polars_rank.evaluation.ranking import rank
from polars_rank.frames.tables import framed, lazy, schema_of

if TYPE_CHECKING:
    from polars_rank._params import Names
    from polars_rank.conventions import Ties

_LEFT, _RIGHT, _LABEL = OWN + "left", OWN + "right", OWN + "label"


@framed
def rbo(
    left: pl.LazyFrame,
    right: Any,
    *,
    p: float = 0.9,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    ties: Ties = "doc",
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
        Order of documents with tied scores: "doc", "doc_ascending" or "input"; see `rank`.

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
    >>> pr.diagnostics.rbo(left, right, p=0.5)["rbo"].item()  # 0 at depth 1, 1 from depth 2 on
    0.5
    """
    share("p", p)
    a, b = pl.col(_LEFT), pl.col(_RIGHT)
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
    known = pl.when(longer > 0).then(known).alias("rbo")
    return _compared(left, right, known, query, doc, score, ties)


@framed
def overlap(
    left: pl.LazyFrame,
    right: Any,
    k: int | None = None,
    *,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    ties: Ties = "doc",
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
        Order of documents with tied scores: "doc", "doc_ascending" or "input"; see `rank`.

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
    >>> pr.diagnostics.overlap(left, right, 2)["overlap"].item()
    0.5
    """
    a, b = pl.col(_LEFT), pl.col(_RIGHT)
    both = pl.max_horizontal(a, b).filter(a.is_not_null() & b.is_not_null())
    if k is None:
        value = ratio(both.count(), pl.max_horizontal(a.count(), b.count()))
    else:
        value = (both <= whole_number("k", k)).sum() / k
    return _compared(left, right, value.alias("overlap"), query, doc, score, ties)


def _compared(
    left: pl.LazyFrame, right: Any, value: pl.Expr, query: Names, doc: str, score: str, ties: Ties
) -> pl.LazyFrame:
    """Return a value per query, computed from the ranks of its documents in both runs."""
    keys = [*names("query", query)]

    def ranks(run: pl.LazyFrame, column: str) -> pl.LazyFrame:
        find_columns(schema_of(run), {"query": keys, "doc": doc, "score": score})
        unlabelled = run.select(
            *dict.fromkeys([*keys, doc, score]), pl.lit(None, dtype=pl.Float64).alias(_LABEL)
        )
        ranked = rank(unlabelled, query=query, doc=doc, score=score, label=_LABEL, ties=ties)
        return ranked.select(*keys, doc, pl.col("rank").alias(column))

    pair = ranks(left, _LEFT).join(
        ranks(lazy(right), _RIGHT), on=[*keys, doc], how="full", coalesce=True
    )
    return pair.group_by(keys).agg(value).sort(keys)
