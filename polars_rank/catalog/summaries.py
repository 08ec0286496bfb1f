"""`summary`: coverage of the catalog, inequality of exposure, and personalization."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import polars as pl

from polars_rank._params import OWN, Names, free, one_of, share, whole_number
from polars_rank.checks import Check, failed, raise_failed
from polars_rank.columns import RUN, Columns, Score
from polars_rank.conventions import Ties
from polars_rank.definitions import Ordering
from polars_rank.discounts import Discount
from polars_rank.errors import SchemaError
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.log_checks import duplicates_remedy, weight_check
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.evaluation.ranking import DOC, DOCUMENTS, SIZE, TIES, retrieved_documents
from polars_rank.frames.batches import added_up
from polars_rank.frames.engines import Mergeable
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import framed, lazy, schema_of
from polars_rank.metrics.metric import checked_parameter

_KNOWN, _TAIL, _ROWS = OWN + "known", OWN + "long tail", OWN + "rows"
#: The rank of a document in the top k; null in the row of a ranking without documents.
_RANK, _WEIGHT = OWN + "rank", OWN + "weight"
#: Sums of a document: its exposure, the number of rankings in which it is first, the number of
#: rankings in which it is at rank k, and the sum of 1 / sqrt(size) over the rankings that have it;
#: in the row with a null document, the number of rankings without documents.
_EXPOSURE, _FIRST, _LAST, _COSINE, _EMPTY = (
    OWN + name for name in ("exposure", "first", "last", "cosine", "empty")
)

#: The column of `items` that marks the documents of the long tail.
LONG_TAIL = "long_tail"


@framed
def summary(
    frame: pl.LazyFrame,
    k: int | None = 10,
    *,
    items: Any = None,
    top: float = 0.1,
    discount: Discount | None = None,
    query: Names = "query",
    doc: str = "doc",
    score: Score = "score",
    position: str | None = None,
    weight: str | None = None,
    run: str | None = RUN,
    by: Names | None = None,
    ties: Ties | None = None,
) -> Mergeable:
    r"""Coverage of the catalog, inequality of exposure, and personalization.

    $$\mathrm{Gini} = \frac{\sum_{i=1}^{n} (2i - n - 1)\, x_i}{n \sum_i x_i} \qquad
    H = -\sum_i p_i \log_2 p_i, \quad p_i = \frac{x_i}{\sum_j x_j}$$

    where $x_1 \le \dots \le x_n$ are the exposures of the n documents of the catalog, 0 for one
    that is in no ranking.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2, 2], "doc": ["a", "b", "a", "c"],
    ...     "score": [2.0, 1.0, 2.0, 1.0],
    ... })
    >>> catalog = pl.DataFrame({"doc": ["a", "b", "c", "d"]})
    >>> summary = pr.catalog.summary(log, 2, items=catalog)
    >>> summary.select("recommended", "coverage", "gini", "entropy")
    shape: (1, 4)
    ┌─────────────┬──────────┬───────┬─────────┐
    │ recommended ┆ coverage ┆ gini  ┆ entropy │
    │ ---         ┆ ---      ┆ ---   ┆ ---     │
    │ u32         ┆ f64      ┆ f64   ┆ f64     │
    ╞═════════════╪══════════╪═══════╪═════════╡
    │ 3           ┆ 0.75     ┆ 0.375 ┆ 1.5     │
    └─────────────┴──────────┴───────┴─────────┘

    Parameters
    ----------
    frame
        Long table with one row per document of a ranking. A document without a score was not
        retrieved. Labels are not needed.
    k
        Cutoff, at least 1; None for whole rankings.
    items
        Table with one row per document: the catalog. For `long_tail_share`, it has a Boolean column
        `long_tail`, as `popularity` returns it. Default: the catalog is unknown, and measures over
        the catalog are null.
    top
        Share of the documents of the catalog that `top_share` counts, in (0, 1).
    discount
        Exposure of a document at a rank, by name ("log2", "reciprocal", ...) or as a function;
        see `pr.discounts`. By default 1 at each of the first k ranks, so that exposures are the
        numbers of rankings.
    query
        Column or columns that identify the query.
    doc
        Column of the document, in all tables.
    score
        Column of the score, higher is better. "-distance" if lower is better, or an expression.
    position
        Column of the position, 1 first; replaces `score`.
    weight
        Column of weights, 0 or more, such as the traffic of the ranking.
    run
        Column of the run. Default: "run" if the table has it.
    by
        Columns to group by.
    ties
        Order of documents with equal scores. "doc" (id descending; default), "doc_ascending" or
        "input".

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group, with the `by` columns and

        - `queries`: the number of rankings;
        - `fill_rate`: the share of rankings with at least k documents; null without `k`;
        - `personalization`: 1 minus the mean cosine similarity of two rankings as sets of
          documents, over all pairs of rankings with documents; null for fewer than two;
        - `documents`: the number of documents of `items`; null without `items`;
        - `recommended`: the number of documents of `items` in the top k of a ranking; without
          `items`, of all documents;
        - `coverage`: recommended / documents; null without `items`;
        - `unknown`: the number of recommended documents that are not in `items`; the following
          columns exclude them;
        - `gini`: the Gini index over the catalog, 0 for equal exposures, near 1 if one document
          has all exposure; null without `items`;
        - `gini_equality`: 1 - gini;
        - `gini_recommended`: the Gini index over the recommended documents;
        - `entropy`: the Shannon entropy of the shares of exposure, in bits;
        - `normalized_entropy`: entropy / log2(documents), in [0, 1]; null without `items`, or for
          one document;
        - `effective_documents`: 2 to the power of the entropy, the number of documents with equal
          exposure that would have this entropy;
        - `top_share`: the share of exposure of the most exposed `top` of the catalog, rounded up to
          a whole number of documents; null without `items`;
        - `long_tail_share`: the share of exposure of the documents in the long tail; null if
          `items` has no column `long_tail`.

        Measures of exposure are null if the total exposure is 0.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        For null queries, NaN or infinite scores, duplicate documents in a ranking or in `items`,
        and invalid weights. A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter.

    Notes
    -----
    Rankings of equal length have a cosine similarity of overlap / length. The mean over all pairs
    is computed from one sum per document, without enumerating pairs.

    Memory is proportional to the number of documents. With a Spark DataFrame, the result is a Spark
    DataFrame, and a single task adds up the sums of all documents.

    Other tools define these names differently. `CatalogCoverage` of RecTools is
    recommended + unknown by default, and is divided by `documents` with `normalize=True`. The Gini
    index of Elliot is 1 - G n / (n - 1) and that of Evidently is G n / (n - 1), where G is the Gini
    index of the n recommended documents. The effective catalog size of Gomez-Uribe & Hunt (2015) is
    n (1 - G).

    References
    ----------
    Ge, Delgado-Battenfeld & Jannach, Beyond accuracy: evaluating recommender systems by coverage
    and serendipity, 2010. Fleder & Hosanagar, Blockbuster culture's next rise or fall, 2009 (Gini
    index). Jost, Entropy and diversity, 2006 (effective number).
    """
    share("top", top)
    one_of("ties", ties, (None, *TIES))
    if k is not None:
        whole_number("k", k)
    roles: dict[str, Any] = {"query": query, "run": run, "by": by, "doc": doc}
    columns = Columns.find(schema_of(frame), roles)
    roles |= {"by": columns.by, "score": score, "position": position, "weight": weight}
    add_up = partial(_sums, k=k, discount=discount, ties=ties, roles=roles)
    catalog = None if items is None else lazy(items, "items")
    finish = partial(_summary, by=columns.by, doc=doc, k=k, top=top, items=catalog)
    return Mergeable(columns.query, add_up, partial(_merge, by=columns.by), finish)


def _sums(
    frame: pl.LazyFrame, k: int | None, discount: Discount | None, ties: Ties | None, roles: Any
) -> pl.LazyFrame:
    """Return the sums that the summary needs, one row per document and group."""
    log = Log.find(
        frame, {"label": None, **roles}, ordering=Ordering(ties), remedy=duplicates_remedy()
    )
    rank, size = pl.col(_RANK), pl.col(SIZE)
    exposure = pl.lit(1) if discount is None else checked_parameter("discount", discount)(rank)
    if weight := log.columns.one("weight"):
        value = pl.col(weight).cast(pl.Float64)
        check = weight_check(f"{weight!r} (`weight`)", value)
        log = replace(log, others={_WEIGHT: value}, checks_of_others=[check])
        exposure = exposure * pl.col(_WEIGHT)
    by, keys = log.columns.by, log.keys
    # A ranking without retrieved documents has one row with a null document.
    rows = (
        retrieved_documents(log, k)
        .with_columns(pl.int_ranges(1, size + 1, dtype=pl.UInt32).alias(_RANK))
        .explode(DOCUMENTS, _RANK, empty_as_null=True)
        .unnest(DOCUMENTS)
        .with_columns(pl.col(keys.names[name]).alias(name) for name in by)
    )
    is_ranked = rank.is_not_null()
    sums = [
        pl.when(is_ranked).then(exposure.cast(pl.Float64)).sum().alias(_EXPOSURE),
        (rank == 1).sum().alias(_FIRST),
        (pl.lit(0) if k is None else (rank == k).sum()).alias(_LAST),
        (1 / size.cast(pl.Float64).sqrt()).filter(is_ranked).sum().alias(_COSINE),
        rank.is_null().sum().alias(_EMPTY),
    ]
    if keys.are_adjacent(log.table):
        return added_up(rows, [*by, DOC], sums)
    return rows.group_by(*by, DOC).agg(sums)


def _merge(parts: pl.LazyFrame, by: Sequence[str]) -> pl.LazyFrame:
    """Return the sums over several parts. No ranking may be in more than one part."""
    return parts.group_by(*by, DOC).agg(pl.all().sum())


def _summary(
    sums: pl.LazyFrame, by: Sequence[str], doc: str, k: int | None, top: float,
    items: pl.LazyFrame | None,
) -> pl.LazyFrame:  # fmt: skip
    """Return the summary from the sums."""
    if items is None:
        # The number of documents that were never recommended is unknown.
        size = pl.LazyFrame({"documents": [None]}, {"documents": pl.UInt32})
        tail = pl.lit(None, dtype=pl.Boolean).alias(_TAIL)
        rows = sums.with_columns(pl.col(DOC).is_not_null().alias(_KNOWN), tail)
    else:
        catalog = _catalog(items, doc, schema_of(sums)[DOC])
        size = catalog.select(pl.len().alias("documents"))
        rows = sums.cast({DOC: schema_of(catalog)[DOC]}).join(catalog, on=DOC, how="left")
    values = _measures(k, top)
    free(by, values)
    named = [value.alias(name) for name, value in values.items()]
    result = grouped(rows.join(size, how="cross"), by, named).drop("documents")
    # Joined again, because an empty log also has a catalog.
    result = result.join(size, how="cross", maintain_order="left")
    coverage = ratio(pl.col("recommended"), pl.col("documents"))
    return result.with_columns(coverage=coverage).select(*by, *values)


def _measures(k: int | None, top: float) -> dict[str, pl.Expr]:
    """Return the measures of rankings and of the exposure of documents, as aggregations."""
    filled = pl.col(_FIRST).sum()
    queries = filled + pl.col(_EMPTY).sum()
    # The sum of the cosines of all pairs is the squared length of the sum of the unit vectors minus
    # their number.
    n = filled.cast(pl.Float64)
    cosine = ratio((pl.col(_COSINE) ** 2).sum() - n, n * (n - 1))
    full = pl.lit(None, dtype=pl.Float64) if k is None else ratio(pl.col(_LAST).sum(), queries)
    known, exposure = pl.col(_KNOWN).fill_null(value=False), pl.col(_EXPOSURE)
    size, recommended = pl.col("documents").first(), known.sum()
    exposures = exposure.filter(known)
    total = exposures.sum()
    # A rank instead of `sort()`: inside `sum`, Polars 2.1 may drop the sort.
    place = exposures.rank("ordinal")
    weighted = (place * exposures).sum()

    def gini(number: pl.Expr) -> pl.Expr:
        n, unseen = number.cast(pl.Float64), number.cast(pl.Float64) - recommended
        return ratio(2 * weighted + (2 * unseen - n - 1) * total, n * total).clip(0, 1)

    shares = exposures / total
    entropy = -(shares * shares.log(2)).filter(exposures > 0).sum()
    entropy = pl.when(total > 0).then(entropy.clip(0) + 0.0)
    # Rounded, because 0.07 * 100 is a little more than 7.
    head = (size * top).round(6).ceil()
    tail = exposure.filter(known & pl.col(_TAIL)).sum()
    return {
        "queries": queries.cast(pl.UInt32),
        "fill_rate": full,
        # Rounded, so that it is exactly 0 if all rankings have the same documents.
        "personalization": (1 - cosine).round(12).clip(0, 1),
        "documents": size,
        "recommended": recommended,
        "coverage": ratio(recommended, size),
        "unknown": (pl.col(DOC).is_not_null() & ~known).sum(),
        "gini": gini(size),
        "gini_equality": 1 - gini(size),
        "gini_recommended": gini(recommended),
        "entropy": entropy,
        "normalized_entropy": ratio(entropy, size.log(2)).clip(0, 1),
        "effective_documents": pl.lit(2.0).pow(entropy),
        "top_share": pl.when(head > 0).then(
            ratio((exposures * (place > exposures.len() - head)).sum(), total)
        ),
        "long_tail_share": pl.when(pl.col(_TAIL).is_not_null().any()).then(ratio(tail, total)),
    }


def _catalog(items: pl.LazyFrame, doc: str, dtype: pl.DataType) -> pl.LazyFrame:
    """Return the documents of the catalog, with a column for the long tail.

    Ids are cast to the common type with ids of type `dtype`. Collecting the result raises
    `DataError` for null and duplicate ids.
    """
    schema = schema_of(items)
    tail = pl.lit(None, dtype=pl.Boolean)
    if LONG_TAIL in schema:
        if schema[LONG_TAIL] != pl.Boolean:
            raise SchemaError(
                f"column {LONG_TAIL!r} of `items` must be Boolean; found {schema[LONG_TAIL]}"
            )
        tail = pl.col(LONG_TAIL).fill_null(value=False)
    Columns.find(schema, {"doc": doc}, table="`items`")
    types = key_types({doc: dtype}, schema, [doc], ("the rankings", "`items`"))
    problem = f"column {doc!r} (`doc`) of `items` has"
    checks = [
        Check("group", pl.col(_ROWS) > 1, f"{problem} duplicates; keep one row per document"),
        Check("group", pl.col(doc).is_null(), f"{problem} nulls; drop these rows"),
    ]
    documents = (
        items.group_by(pl.col(doc).cast(types[doc]))
        .agg(tail.first().alias(_TAIL), pl.len().alias(_ROWS))
        .with_columns(failed(checks, "group"))
    )
    checked = raise_failed(documents, checks, keys={doc: doc})
    return checked.select(pl.col(doc).alias(DOC), _TAIL, pl.lit(value=True).alias(_KNOWN))
