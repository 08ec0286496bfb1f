"""`expected_exposure`: exposure by a stochastic ranker, against that of an ideal policy."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from polars_rank._params import OWN, Names, check_distinct, find_columns, free, names, some_names
from polars_rank.catalog.top_k import RANK, Rankings, discount_of
from polars_rank.columns import RUN, Score, is_relevant, run_column, without_run
from polars_rank.conventions import Ties, lowest_relevant
from polars_rank.discounts import Discount
from polars_rank.evaluation.per_ranking import DOC
from polars_rank.frames.tables import framed_by_query, schema_of

_EXPOSURE, _RELEVANT, _SAMPLES = (OWN + name for name in ("exposure", "relevant", "samples"))


@framed_by_query
def expected_exposure(
    frame: pl.LazyFrame,
    k: int | None = 10,
    *,
    sample: Names | None = None,
    discount: Discount | None = "log2",
    query: Names = "query",
    doc: str = "doc",
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    ties: Ties | None = None,
    rel: float | None = None,
) -> pl.LazyFrame:
    r"""Expected exposure of documents against that of an ideal policy: EE-L, EE-D and EE-R.

    $$\mathrm{EE{-}L} = \lVert \epsilon - \epsilon^* \rVert^2 \qquad
    \mathrm{EE{-}D} = \lVert \epsilon \rVert^2 \qquad
    \mathrm{EE{-}R} = \epsilon^\top \epsilon^*$$

    where $\epsilon_d$ is the mean discount of the rank of document d over the rankings of the query
    (0 if d is not in the top k), and $\epsilon^*_d$ is its mean under the ideal policy, which ranks
    all relevant documents of the query in random order above all other documents in random order.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": 1, "sample": [1, 1, 2, 2], "doc": ["a", "b"] * 2,
    ...     "score": [2.0, 1.0, 1.0, 2.0], "label": 1,
    ... })
    >>> # Both documents are relevant, and each is on top once.
    >>> pr.catalog.expected_exposure(
    ...     log, sample="sample", discount="reciprocal"
    ... )
    shape: (1, 4)
    ┌───────┬──────┬───────┬───────┐
    │ query ┆ ee_l ┆ ee_d  ┆ ee_r  │
    │ ---   ┆ ---  ┆ ---   ┆ ---   │
    │ i32   ┆ f64  ┆ f64   ┆ f64   │
    ╞═══════╪══════╪═══════╪═══════╡
    │ 1     ┆ 0.0  ┆ 1.125 ┆ 1.125 │
    └───────┴──────┴───────┴───────┘

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking. If a stochastic ranker has several
        rankings of a query, `sample` identifies them.
    k
        Cutoff, at least 1; None for whole rankings.
    sample
        Columns that identify the rankings of a query. None (default): each query has one ranking.
    discount
        Exposure of a document at a rank, by name ("log2", "reciprocal", ...) or as a function;
        see `pr.discounts`. The paper uses `lambda rank: 0.5 ** (rank - 1)`.
        None: 1 at each of the first k ranks.
    query
        Column of the query, or several columns that identify it.
    doc
        Column of the document id.
    score
        Column of the score, higher is better; "-distance" if lower is better; or an expression.
    label
        Column of the relevance label. A document is relevant to a query if its label is `rel` or
        more in at least one of its rows.
    position
        Column of the position at which a document was shown, 1 first; replaces `score`.
    run
        Column of the run. Default: "run" if the table has it. None: there is no such column.
    by
        Columns that split the table, such as the language.
    ties
        Order of documents with equal scores: "doc" (id descending; default), "doc_ascending" or
        "input".
    rel
        Lowest relevant label. Default: 1.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`, in the order of its keys: one row per query, with the `by`, `run` and `query`
        columns and

        - `ee_l`: expected exposure loss; 0 is ideal;
        - `ee_d`: expected exposure disparity: lower if exposure is spread over more documents;
        - `ee_r`: expected exposure relevance: higher if relevant documents have more exposure.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        For null queries, NaN or infinite scores or labels, and duplicate documents in a ranking. A
        lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    The documents of a query are all documents in its rows, retrieved or not. The ideal policy shows
    all of them.

    $\mathrm{EE{-}L} = \mathrm{EE{-}D} - 2\,\mathrm{EE{-}R} + \lVert\epsilon^*\rVert^2$.

    TREC Fair Ranking 2022 uses the same names for the exposure of groups of documents.

    References
    ----------
    Diaz et al., Evaluating stochastic rankings with expected exposure, 2020.
    """
    lowest = lowest_relevant(rel)
    samples, queries = names("sample", sample), some_names("query", query)
    runs = run_column(schema_of(frame), run, taken=(*queries, *samples))
    roles = {
        "query": queries,
        "run": names("run", runs),
        "by": without_run(names("by", by), runs),
        "doc": [doc],
        "sample": samples,
    }
    find_columns(schema_of(frame), roles, ids=[*roles])
    values = {"label": [label], "score": [score] if isinstance(score, str) else []}
    check_distinct({**values, "position": names("position", position), "sample": samples})
    rankings = Rankings.of(
        frame, k,
        query=[*queries, *samples], doc=doc, score=score, position=position, run=run, by=by,
        ties=ties, label=label,
    )  # fmt: skip
    columns, discount_at = rankings.columns, discount_of(discount)
    keys = [*columns.by, *queries]
    free(keys, ["ee_l", "ee_d", "ee_r"])
    rows, own = rankings.documents()
    shown = rows.select(
        *(pl.col(own.names[key]).alias(key) for key in keys),
        DOC,
        rankings.exposure(discount).alias(_EXPOSURE),
        (pl.col(RANK).is_null() | (pl.col(RANK) == 1)).alias(_SAMPLES),
    )
    judged = rankings.log.select(
        *keys,
        pl.col(str(columns.doc)).alias(DOC),
        is_relevant(columns.number(columns.label), lowest).alias(_RELEVANT),
    )
    documents = (
        pl.concat([shown, judged], how="diagonal_relaxed")
        .group_by(*keys, DOC)
        .agg(pl.col(_EXPOSURE, _SAMPLES).sum(), pl.col(_RELEVANT).any())
    )
    return documents.group_by(keys).agg(_measures(discount_at, k)).sort(keys)


def _measures(discount: Discount, k: int | None) -> Sequence[pl.Expr]:
    """Return EE-L, EE-D and EE-R as aggregations of the documents of a query."""
    document = pl.col(DOC).is_not_null()
    exposure = pl.col(_EXPOSURE).filter(document) / pl.col(_SAMPLES).sum()
    relevant = pl.col(_RELEVANT).filter(document)
    ranks = pl.int_range(1, document.sum() + 1)
    values = discount(ranks).cast(pl.Float64)
    values = values if k is None else pl.when(ranks <= k).then(values).otherwise(0.0)
    # The mean discount over the ideal ranks of relevant documents, and of other documents.
    above = values.filter(ranks <= relevant.sum()).mean()
    below = values.filter(ranks > relevant.sum()).mean()
    ideal = pl.when(relevant).then(above).otherwise(below)
    return [
        ((exposure - ideal) ** 2).sum().alias("ee_l"),
        (exposure**2).sum().alias("ee_d"),
        (exposure * ideal).sum().alias("ee_r"),
    ]
