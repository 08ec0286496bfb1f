"""`summary`: coverage of the catalog, inequality of exposure, and personalization."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import polars as pl

from polars_rank._params import OWN, Names, free, names, share
from polars_rank.catalog.exposures import COUNTS
from polars_rank.catalog.fairness import Groups
from polars_rank.catalog.top_k import RANK, Rankings
from polars_rank.checks import Check, failed, raise_failed
from polars_rank.columns import RUN, Columns, Score
from polars_rank.conventions import Ties
from polars_rank.discounts import Discount
from polars_rank.errors import SchemaError
from polars_rank.evaluation.means import ratio
from polars_rank.evaluation.ranked import DOC, SIZE
from polars_rank.frames.engines import Mergeable
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import framed, lazy, schema_of

_KNOWN, _TAIL, _ROWS = OWN + "known", OWN + "long tail", OWN + "rows"
#: Sums of a document: the number of rankings in which it is first, the number of rankings in which
#: it is at rank k, and the sum of 1 / sqrt(size) over the rankings that have it; in the row with a
#: null document, the number of rankings without documents.
_FIRST, _LAST, _COSINE, _EMPTY = (OWN + name for name in ("first", "last", "cosine", "empty"))

_EXPOSURE = pl.col("exposure")

#: The column of `items` that marks the documents of the long tail.
LONG_TAIL = "long_tail"


@framed
def summary(
    frame: pl.LazyFrame,
    k: int | None = 10,
    *,
    items: Any = None,
    doc_groups: Any = None,
    group: Names = "group",
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
        Long table with one row per document of a ranking, or the result of `exposure`. A document
        without a score was not retrieved. Labels are not needed.
    k
        Cutoff, at least 1; None for whole rankings.
    items
        Table with one row per document: the catalog. For `long_tail_share`, it has a Boolean column
        `long_tail`, as `popularity` returns it. Default: the catalog is unknown, and measures over
        the catalog are null.
    doc_groups
        Table of groups of documents, such as their providers: the columns `doc` and `group`, and
        optionally `membership`, a number of 0 or more, by default 1. With `doc_groups`, the result
        has a column `groups`.
    group
        Column of the group in `doc_groups`, or several columns: each combination of their values
        is a group.
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
          `items` has no column `long_tail`;
        - `groups`: with `doc_groups`, a list with a struct for each group: the `group` columns and
          `exposure`, `share`, `target` and `ratio` as in `group_exposure`, where the target is the
          share of the group in `doc_groups`. `.explode("groups").unnest("groups")` returns one row
          per group.

        Measures of exposure are null if the total exposure is 0. If `frame` is the result of
        `exposure`, the result lacks the first three columns, which need rankings, and `k` and
        `discount` are not used.

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
    schema = schema_of(frame)
    # The result of `exposure` has one row per document, and no rankings.
    by_default = position is None and isinstance(score, str) and score == "score"
    of_exposures = by_default and "score" not in schema and {*COUNTS} <= {*schema}
    roles: dict[str, Any] = {"query": query, "run": run, "by": by, "doc": doc}
    own = {"query": None, "sums": COUNTS} if of_exposures else {}
    columns = Columns.find(
        schema, {**roles, **own}, optional=(RUN, "query"), parameters={"sums": "frame"}
    )
    groups = None
    if doc_groups is not None:
        columns.check_unused("group", names("group", group))
        groups = Groups.of(doc_groups, group, "items", schema, doc)
    catalog = None if items is None else lazy(items, "items")
    finish = partial(_summary, by=columns.by, doc=doc, top=top, items=catalog, groups=groups)
    merge = partial(_merge, by=columns.by)
    if of_exposures:
        add_up = partial(_sums_of_exposures, by=columns.by, doc=doc)
        return Mergeable((), add_up, merge, partial(finish, measures={}))
    roles |= {"by": columns.by, "score": score, "position": position, "weight": weight}
    add_up = partial(_sums, k=k, discount=discount, ties=ties, **roles)
    finish = partial(finish, measures=_of_rankings(k))
    return Mergeable(columns.query, add_up, merge, finish)


def _sums_of_exposures(exposures: pl.LazyFrame, by: Sequence[str], doc: str) -> pl.LazyFrame:
    """Return the sum that the summary needs, one row per document and group."""
    return exposures.group_by(*by, pl.col(doc).alias(DOC)).agg(pl.col("exposure").sum())


def _merge(parts: pl.LazyFrame, by: Sequence[str]) -> pl.LazyFrame:
    """Return the sums over several parts. No ranking may be in more than one part."""
    return parts.group_by(*by, DOC).agg(pl.all().sum())


def _summary(
    sums: pl.LazyFrame, by: Sequence[str], doc: str, top: float, items: pl.LazyFrame | None,
    groups: Groups | None, measures: Mapping[str, pl.Expr],
) -> pl.LazyFrame:  # fmt: skip
    """Return the summary from the sums; `measures` are those of rankings."""
    schema = schema_of(sums)
    sums = sums if groups is None else sums.cache()
    if items is None:
        known = pl.col(DOC).is_not_null().alias(_KNOWN)
        rows = sums.with_columns(known, pl.lit(None, dtype=pl.Boolean).alias(_TAIL))
        size = None
    else:
        catalog = _catalog(items, doc, schema[DOC])
        size = catalog.select(pl.len().alias("documents"))
        rows = sums.cast({DOC: schema_of(catalog)[DOC]}).join(catalog, on=DOC, how="left")
        rows = rows.join(size, how="cross")
    values = {**measures, **_of_documents(top, catalog=size is not None)}
    free(by, [*values, *_COVERAGE, *([] if groups is None else ["groups"])])
    named = [value.alias(name) for name, value in values.items()]
    result = rows.group_by(by).agg(named).sort(by) if by else rows.select(named)
    # A cross join, because an empty log also has a catalog.
    result = result.with_columns(documents=None) if size is None else result.join(size, how="cross")
    documents = pl.col("documents").cast(pl.UInt32)
    coverage = ratio(pl.col("recommended"), documents).alias("coverage")
    others = [name for name in values if name not in (*measures, "recommended")]
    result = result.select(*by, *measures, documents, "recommended", coverage, *others)
    return result if groups is None else _with_groups(result, sums, groups, by)


def _with_groups(
    result: pl.LazyFrame, sums: pl.LazyFrame, groups: Groups, by: Sequence[str]
) -> pl.LazyFrame:
    """Return the summary with the exposure of each group of documents."""
    rows = groups.shares(groups.exposures(sums, _EXPOSURE, by), by)
    rows = rows.select(*by, groups=pl.struct(pl.exclude(by)))
    if not by:
        return result.join(rows.select(pl.col("groups").implode()), how="cross")
    lists = rows.group_by(by, maintain_order=True).agg("groups")
    return result.join(lists, on=by, how="left", nulls_equal=True, maintain_order="left")


#: The columns of the result about the catalog.
_COVERAGE = ("documents", "coverage")


def _sums(log: pl.LazyFrame, discount: Discount | None, **options: Any) -> pl.LazyFrame:
    """Return the sums that the summary needs, one row per document and group."""
    rankings = Rankings.of(log, **options)
    rows, keys = rankings.documents()
    rank, size = pl.col(RANK), pl.col(SIZE)
    last = pl.lit(0) if rankings.k is None else (rank == rankings.k).sum()
    sums = [
        rankings.exposure(discount).sum().alias("exposure"),
        (rank == 1).sum().alias(_FIRST),
        last.alias(_LAST),
        (1 / size.cast(pl.Float64).sqrt()).filter(rank.is_not_null()).sum().alias(_COSINE),
        rank.is_null().sum().alias(_EMPTY),
    ]
    return rankings.sums(rows, keys, sums)


def _of_rankings(k: int | None) -> dict[str, pl.Expr]:
    """Return the measures that need rankings, as aggregations of the sums of documents."""
    filled = pl.col(_FIRST).sum()
    queries = filled + pl.col(_EMPTY).sum()
    # The sum of the cosines of all pairs is the squared length of the sum of the unit vectors minus
    # their number.
    n = filled.cast(pl.Float64)
    cosine = ratio((pl.col(_COSINE) ** 2).sum() - n, n * (n - 1))
    full = pl.lit(None, dtype=pl.Float64) if k is None else ratio(pl.col(_LAST).sum(), queries)
    return {
        "queries": queries.cast(pl.UInt32),
        "fill_rate": full,
        # Rounded, so that it is exactly 0 if all rankings have the same documents.
        "personalization": (1 - cosine).round(12).clip(0, 1),
    }


def _of_documents(top: float, *, catalog: bool) -> dict[str, pl.Expr]:
    """Return the measures of the exposure of documents, as aggregations of their sums."""
    known = pl.col(_KNOWN).fill_null(value=False)
    recommended = known.sum()
    # Without a catalog, the number of documents that were never recommended is unknown.
    size = pl.col("documents").first() if catalog else pl.lit(None, dtype=pl.UInt32)
    exposures = _EXPOSURE.filter(known)
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
    tail = _EXPOSURE.filter(known & pl.col(_TAIL)).sum()
    return {
        "recommended": recommended,
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
