"""`per_query` and `evaluate`: from the long table to numbers, as one lazy plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_rank.columns import Columns, Names, same_kind, schema_of
from polars_rank.conventions import POLARS_RANK, Conventions, Queries, Undefined, Unjudged
from polars_rank.errors import ArgumentError, SchemaError, hint
from polars_rank.expectation import expectation
from polars_rank.layout import number_column
from polars_rank.metrics.metric import Metric, one_of
from polars_rank.naming import output_name, resolve
from polars_rank.progress import known_rows, watch
from polars_rank.ranked import HITS, LABEL, POSITION, RELEVANT, SCORE, Lowering, is_aggregate
from polars_rank.ranking import (
    RANKED,
    Duplicates,
    Order,
    Ties,
    is_relevant,
    rank_order,
)
from polars_rank.validation import (
    FAULTS,
    fault,
    faults,
    raise_for_faults,
    rules,
    without_duplicates,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Metrics: TypeAlias = "str | pl.Expr | Iterable[str | pl.Expr]"


def per_query(
    frame: Any,
    metrics: Metrics,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: str = "score",
    label: str = "label",
    by: Names | None = None,
    ties: Ties | None = None,
    relevant: float | None = None,
    unjudged: Unjudged | None = None,
    queries: Queries | None = None,
    duplicates: Duplicates = "error",
    conventions: Conventions = POLARS_RANK,
    progress: bool = False,
) -> Any:
    """Evaluate every list: one row per query, one column per metric.

    Parameters
    ----------
    frame
        The long table: a LazyFrame, a DataFrame or a pyarrow table, one row per document of
        a list.
    metrics
        A name ("ndcg@10", "ap", "P_5", "ndcg(gain='exp2')@10"), a metric (`pr.ndcg(10)`), any
        expression over the ranked table, or several of them.
    query, doc, score, label
        Names of the columns; `query` may be several. Without a column "doc", or with
        `doc=None`, documents have no ids. A null score means judged but not retrieved, a null
        label retrieved but not judged.
    by
        Columns that split the table: a list is the rows that share (by..., query).
    ties
        How tied scores are ordered; see `rank`. Or "expected": the mean over all orders of tied
        documents (McSherry & Najork, 2008), exact and without drawing orders, for metrics of
        which a closed form is known; the others are an `ArgumentError`.
    relevant
        The lowest label that is relevant; 1 unless the conventions say otherwise.
    unjudged
        Whether retrieved documents without a label are "nonrelevant" (the default) or "removed"
        from the list before ranks are given.
    queries
        Which lists count: "all" (the default), those with a "judged" document (as
        `trec_eval -c`), with a "retrieved" one, or with "both".
    duplicates
        What to do with a document that stands twice in a list: "error", "max" or "first".
    conventions
        Whose definitions to follow where nothing else is said, such as `pr.TREC_EVAL`.
    progress
        Show a progress bar on a terminal when it takes longer than two seconds (extra "cli").

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: the `by` and `query` columns and a column per metric; null where a metric
        is undefined for the list. Rows are in the order of those keys, or in the log's own
        order where `scan_log` found that the rows of a list stand together.

    Raises
    ------
    SchemaError
        For a missing or not numeric column.
    DataError
        For a null query, NaN or infinite scores or labels, duplicate documents, labels too
        large for a gain; lazily, when the result is collected.
    ArgumentError
        For an unknown metric or a parameter out of its range.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "b"], "score": [0.9, 0.1, 0.5], "label": [0, 1, 0]
    ... })
    >>> pr.per_query(df, ["rr", "p@1"])
    shape: (2, 3)
    ┌───────┬──────┬─────┐
    │ query ┆ rr   ┆ p@1 │
    │ ---   ┆ ---  ┆ --- │
    │ str   ┆ f64  ┆ f64 │
    ╞═══════╪══════╪═════╡
    │ a     ┆ 0.5  ┆ 0.0 │
    │ b     ┆ null ┆ 0.0 │
    └───────┴──────┴─────┘
    """
    agreed = conventions.but(ties=ties, relevant=relevant, unjudged=unjudged, queries=queries)
    wanted = _wanted(metrics, agreed)
    one_of("duplicates", duplicates, ("error", "max", "first"))

    def plan(log: pl.LazyFrame) -> pl.LazyFrame:
        columns = Columns.find(
            schema_of(log), query=query, doc=doc, score=score, label=label, by=by
        )
        _check_names(wanted, columns.keys)
        lists = _per_list(
            log, wanted, columns, columns.keys, agreed, duplicates=duplicates, progress=progress
        )
        return lists if agreed.queries == "all" else _counted(lists, agreed.queries)

    return same_kind(frame, plan)


def evaluate(
    frame: Any,
    metrics: Metrics,
    *,
    query: Names = "query",
    doc: str | None = "doc",
    score: str = "score",
    label: str = "label",
    by: Names | None = None,
    ties: Ties | None = None,
    relevant: float | None = None,
    unjudged: Unjudged | None = None,
    queries: Queries | None = None,
    duplicates: Duplicates = "error",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions = POLARS_RANK,
    progress: bool = False,
) -> Any:
    """Evaluate a log: the mean of each metric over the queries, per group.

    Parameters
    ----------
    frame, metrics, query, doc, score, label, by, ties, relevant, unjudged, queries, duplicates
        As for `per_query`; the `by` columns are the groups.
    conventions, progress
        As for `per_query`.
    undefined
        What a metric counts as where it is undefined for a list: "zero" (as in trec_eval and
        scikit-learn), "one" (as in LightGBM), "skip" to leave the list out of that mean,
        "null" to make the mean null; or a mapping from metrics to these. "zero" unless the
        conventions say otherwise.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group in sorted order, with the `by` columns, `queries` (how
        many lists) and a column per metric. With `queries` other than "all" also
        `queries_judged` and `queries_retrieved`, how many there are of each. Without `by` one
        row, also for an empty log: `queries` = 0 and null means.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `per_query`.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> df = pl.DataFrame({
    ...     "query": ["a", "a", "b"], "score": [0.9, 0.1, 0.5], "label": [0, 1, 0]
    ... })
    >>> pr.evaluate(df, ["rr", "p@1"], undefined="skip")
    shape: (1, 3)
    ┌─────────┬─────┬─────┐
    │ queries ┆ rr  ┆ p@1 │
    │ ---     ┆ --- ┆ --- │
    │ u32     ┆ f64 ┆ f64 │
    ╞═════════╪═════╪═════╡
    │ 2       ┆ 0.5 ┆ 0.0 │
    └─────────┴─────┴─────┘
    """
    agreed = conventions.but(
        ties=ties, relevant=relevant, unjudged=unjudged, queries=queries, undefined=undefined
    )
    wanted = _wanted(metrics, agreed)
    one_of("duplicates", duplicates, ("error", "max", "first"))

    def plan(log: pl.LazyFrame) -> pl.LazyFrame:
        columns = Columns.find(
            schema_of(log), query=query, doc=doc, score=score, label=label, by=by
        )
        _check_names(wanted, [*columns.keys, "queries"])
        lists = _per_list(
            log, wanted, columns, [*columns.by], agreed, duplicates=duplicates, progress=progress
        )
        counts = [pl.len().alias("queries")]
        if agreed.queries != "all":
            # Every list is looked at, to say how many there are of each kind.
            kinds = {
                "queries": _COUNTED[agreed.queries],
                "queries_judged": _JUDGED,
                "queries_retrieved": _FOUND,
            }
            counts = [kind.sum().alias(name) for name, kind in kinds.items()]
        means = [*counts, *(_mean(metric, agreed) for metric in wanted)]
        if not columns.by:
            return lists.select(means)
        return lists.group_by(columns.by).agg(means).sort(columns.by)

    return same_kind(frame, plan)


#: Whether a list has judged documents, whether it has retrieved ones; which lists count.
_PRESENCE = ["__judged", "__found"]
_JUDGED, _FOUND = map(pl.col, _PRESENCE)
_COUNTED = {"judged": _JUDGED, "retrieved": _FOUND, "both": _JUDGED & _FOUND}


def _wanted(metrics: Metrics, conventions: Conventions) -> list[pl.Expr]:
    return [
        conventions.apply(metric) if isinstance(metric, Metric) else metric
        for metric in resolve(metrics)
    ]


def _counted(lists: pl.LazyFrame, queries: Queries) -> pl.LazyFrame:
    return lists.filter(_COUNTED[queries]).drop(_PRESENCE)


def _mean(metric: pl.Expr, conventions: Conventions) -> pl.Expr:
    name = output_name(metric)
    function = metric.function.__name__ if isinstance(metric, Metric) else name
    value = pl.col(name)
    if conventions.queries != "all":
        value = value.filter(_COUNTED[conventions.queries])
    undefined = conventions.counts_as(function)
    if undefined == "null":
        return pl.when(value.null_count() == 0).then(value.mean()).alias(name)
    if undefined == "skip":
        return value.mean()
    return value.fill_null({"zero": 0.0, "one": 1.0}[undefined]).mean()


def _per_list(
    log: pl.LazyFrame,
    metrics: list[pl.Expr],
    columns: Columns,
    keep: list[str],
    conventions: Conventions,
    *,
    duplicates: Duplicates,
    progress: bool,
) -> pl.LazyFrame:
    """Sort each list once, compute the terms that metrics share once, aggregate once."""
    expected = conventions.ties == "expected"
    if expected:
        metrics = [expectation(metric) for metric in metrics]
    shared = Lowering(whole_labels=columns.schema[columns.label].is_integer(), expected=expected)
    lowered = [
        shared.lower(metric.lowered) if isinstance(metric, Metric) else metric for metric in metrics
    ]
    # A metric that reads nothing but shared aggregates is finished after them, row by row.
    roots = [metric.meta.root_names() for metric in lowered]
    last = [bool(names) and all(map(is_aggregate, names)) for names in roots]
    aggregations = [
        *shared.lists(),
        *(metric for metric, late in zip(lowered, last, strict=True) if not late),
    ]
    read = {name for part in (*aggregations, *shared.terms) for name in part.meta.root_names()}
    extras = _extras(read, columns)
    found = rules(columns, shared.rules)
    log = without_duplicates(log, columns, duplicates)
    lists = _Lists.of(columns, keep)
    long = _canonical(log, columns, lists, [*extras, fault(found)], conventions)
    if progress:  # behind the sort, which a log that is known to be sorted does without
        long = watch(long, known_rows(log)).set_sorted(lists.group)
    inner = replace(columns, score="score", label="label", schema=long.collect_schema())
    if columns.doc is not None:
        inner = replace(inner, doc="doc")
    carried = ["label", *(name for name in ("score", "doc") if name in read), *extras]
    in_order = _in_rank_order(
        long,
        inner,
        lists,
        order=rank_order("worst" if expected else conventions.ties, inner),
        depth=shared.depth(lowered),
        carried=carried,
        read=read,
        conventions=conventions,
    )
    checked = raise_for_faults(in_order, log, columns, found)
    rows = _exploded(checked, lists, read, conventions)
    presence = [] if conventions.queries == "all" else _PRESENCE
    results = (
        shared.with_terms(rows)
        .group_by(lists.group, maintain_order=True)
        .agg(*lists.carried, *aggregations, *(pl.col(name).first() for name in presence))
        .with_columns(shared.aggregated())
    )
    return results.select(
        *presence,
        *(pl.col(inner_name).alias(name) for name, inner_name in lists.keys.items()),
        *(
            metric if late else pl.col(output_name(metric))
            for metric, late in zip(lowered, last, strict=True)
        ),
    )


@dataclass(frozen=True)
class _Lists:
    """How lists are told apart: by their keys, or by the number that `scan_log` gave them."""

    order: list[str]  # columns of the log that stand in order
    group: list[str]  # the same under our names
    keys: dict[str, str]  # columns of the result and our names for them

    @classmethod
    def of(cls, columns: Columns, keep: list[str]) -> _Lists:
        number = number_column(columns.keys)
        numbered = number in columns.schema
        keys = {key: f"__key_{index}" for index, key in enumerate(columns.keys)}
        kept = {key: keys[key] for key in keep}
        if numbered:
            return cls([number], ["__list"], kept)
        return cls(columns.keys, list(keys.values()), kept)

    @property
    def carried(self) -> list[pl.Expr]:
        return [pl.col(name).first() for name in self.keys.values() if name not in self.group]


def _extras(read: set[str], columns: Columns) -> list[str]:
    """Return the columns of the log that the user's own expressions read."""
    canonical = {"score", "label", *RANKED, *([] if columns.doc is None else ["doc"])}
    extras = sorted(name for name in read - canonical if not name.startswith("__"))
    for name in extras:
        if name not in columns.schema:
            there = ", ".join(map(repr, [*RANKED, *columns.schema]))
            message = f"a metric reads the column {name!r}, but the ranked table has {there}."
            raise SchemaError(message + hint(name, [*RANKED, *columns.schema]))
    return extras


def _canonical(
    log: pl.LazyFrame,
    columns: Columns,
    lists: _Lists,
    more: list[str | pl.Expr],
    conventions: Conventions,
) -> pl.LazyFrame:
    """Return the log sorted by list, under our own names, with the columns that are read."""
    named = {**lists.keys, **dict(zip(lists.order, lists.group, strict=True))}
    score, label = columns.number(columns.score), columns.number(columns.label)
    if conventions.float32_scores:
        score = score.cast(pl.Float32)
    if conventions.unjudged == "removed":
        # The row stays, so that a list which loses all its documents is still counted.
        score = pl.when(label.is_not_null()).then(score)
    return (
        log.sort(lists.order, maintain_order=True)
        .select(
            *(pl.col(column).alias(name) for column, name in named.items()),
            *([] if columns.doc is None else [pl.col(columns.doc).alias("doc")]),
            score.alias("score"),
            label.alias("label"),
            *more,
        )
        # Polars loses the hint on renamed keys and would gather all rows without it.
        .set_sorted(lists.group)
    )


def _in_rank_order(
    long: pl.LazyFrame,
    columns: Columns,
    lists: _Lists,
    *,
    order: Order,
    depth: int | None,
    carried: list[str],
    read: set[str],
    conventions: Conventions,
) -> pl.LazyFrame:
    """Return each list in rank order, down to a depth, with what only a whole list can tell."""

    def cut(rows: pl.Expr) -> pl.Expr:
        return rows if depth is None else rows.head(depth)

    rows = pl.struct(*carried, SCORE.is_not_null().alias("__retrieved"))
    parts = {
        "__row": cut(order.sort(rows)),
        "__ideal_label": cut(LABEL.sort(descending=True, nulls_last=True)),
        "__rows": pl.len() if depth is None else pl.len().clip(upper_bound=depth),
        # Where each list starts in the running count of relevant documents.
        "hits": is_relevant(LABEL, conventions.relevant).sum(),
        "__tie_first": cut(SCORE.rank("min", descending=True).cast(pl.Int64).sort(nulls_last=True)),
        "__tie_last": cut(SCORE.rank("max", descending=True).cast(pl.Int64).sort(nulls_last=True)),
        "__judged": LABEL.count() > 0,
        "__found": SCORE.count() > 0,
    }
    wanted = {"__row", "__rows", *read, *(_PRESENCE if conventions.queries != "all" else ())}
    in_order = long.group_by(lists.group, maintain_order=True).agg(
        *lists.carried,
        faults(columns.doc).alias(FAULTS),
        **{name: part for name, part in parts.items() if name in wanted},
    )
    if "ideal_rank" not in read:
        return in_order
    label = pl.element().struct.field("label")
    ideal_rank = label.rank("ordinal", descending=True)
    return in_order.with_columns(pl.col("__row").list.eval(ideal_rank).alias("ideal_rank"))


def _exploded(
    in_order: pl.LazyFrame, lists: _Lists, read: set[str], conventions: Conventions
) -> pl.LazyFrame:
    """Return the rows of lists in rank order as the ranked table.

    Ranks and hits are running counts over all rows less what they were at the start of the
    list: counting anew in every list takes three times as long where lists are short.
    """
    running = ["__rows", *({"hits"} & read)]
    nested = [name for name, dtype in in_order.collect_schema().items() if dtype == pl.List]
    rows = (
        in_order.with_columns(pl.col(name).cum_sum() - pl.col(name) for name in running)
        .explode(nested)
        .unnest("__row")
        .with_row_index("__index")
        .set_sorted(lists.group)
        .with_columns(
            (pl.col("__index") + 1 - pl.col("__rows")).alias("__position"),
            is_relevant(LABEL, conventions.relevant).alias("relevant"),
        )
    )
    if "hits" in read:
        rows = rows.with_columns((RELEVANT.cum_sum() - HITS).alias("hits"))
    return rows.with_columns(
        pl.when("__retrieved").then(POSITION).alias("rank"),
        *(pl.when("__retrieved").then(HITS) for _ in {"hits"} & read),
    )


def _check_names(metrics: list[pl.Expr], taken: list[str]) -> None:
    for metric in metrics:
        if output_name(metric) in taken:
            message = (
                f"a metric is called {output_name(metric)!r}, which is a column of the result "
                "already; use .alias()"
            )
            raise ArgumentError(message)
