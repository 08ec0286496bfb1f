"""`per_query` and `evaluate`: from the long table to numbers, as one lazy plan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN, Names, check_apart, check_id, check_there, free, names, one_of
from polars_rank.clicks.counterfactual import MAX_UNSHOWN, Estimates, Normalize
from polars_rank.columns import DOC, RUNS, Columns, Score, scored
from polars_rank.conventions import (
    POLARS_RANK,
    Conventions,
    Queries,
    Undefined,
    Unjudged,
    check_undefined,
    named,
)
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.evaluation.aggregation import (
    COUNTED,
    FOUND_DOCUMENTS,
    NUM_RETRIEVED,
    PRESENCE,
    STRAY,
    UNKNOWN,
    Totals,
    counted_as,
    grouped,
    total,
    warn_of_no_labels,
)
from polars_rank.evaluation.plan import Wanted, per_list
from polars_rank.frames.tables import Whole, collected, framed, schema_of
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name, resolve

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from polars_rank.evaluation.ranking import Duplicates, Ties

Metrics: TypeAlias = "str | pl.Expr | Iterable[str | pl.Expr]"
Align: TypeAlias = Literal["common", "all"]

#: Columns of the ranked table that are made of labels.
_OF_LABELS = ("label", "ideal_rank", "relevant", "hits")


@framed
def per_query(
    frame: pl.LazyFrame,
    metrics: Metrics,
    *,
    query: Names = "query",
    doc: str | None = DOC,
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    scores: Sequence[str] | None = None,
    by: Names | None = None,
    ties: Ties | None = None,
    relevant: float | None = None,
    unjudged: Unjudged | None = None,
    queries: Queries | None = None,
    duplicates: Duplicates = "error",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    keep: Names | None = None,
    conventions: Conventions | str = POLARS_RANK,
    progress: bool = False,
) -> pl.LazyFrame | Whole:
    """Evaluate every list: one row per query, one column per metric.

    Parameters
    ----------
    frame
        The long table, one row per document of a list: a LazyFrame, or a DataFrame or any other
        table with Arrow's C stream, such as one of pyarrow, pandas or DuckDB; or a Spark
        DataFrame, classic or Connect. See the notes.
    metrics
        A name ("ndcg@10", "ap", "P_5", "ndcg(gain='exp2')@10"), a metric (`pr.ndcg(10)`), any
        expression over the ranked table, or several of them.
    query, doc, score, label
        Names of the columns; `query` may be several. Without a column "doc", or with
        `doc=None`, documents have no ids. A null score means judged but not retrieved, a null
        label retrieved but not judged. Where no metric reads labels, as those of clicks do not,
        there need be no column "label".
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
    undefined
        What stands where a metric is undefined for a list: "null" (the default), or what
        `evaluate` would count it as: "zero", "one", or a mapping to these from names of metrics
        ("ndcg", for all cutoffs) or of their columns ("ndcg@10"), with "*" for the rest. Polars'
        own mean skips the nulls, where `evaluate` by default counts them as 0.
    keep
        Columns of the log that are the same in all rows of a list, to be kept in its row.
    conventions
        Whose definitions to follow where nothing else is said, such as `pr.conventions.TREC_EVAL` or
        "trec_eval".
    progress
        Show a progress bar on a terminal when it takes longer than two seconds (extra "cli").

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: the `by`, `query` and `keep` columns and a column per metric; null where a
        metric is undefined for the list. With `by` or `scores` also `num_retrieved` before the
        metrics, unless another column has that name: how many documents of the list are
        retrieved, an integer. The statistics do not take it as a metric; they warn of runs that
        retrieved nothing. Rows are in the order of those keys, or in the log's own
        order where `scan_log` found that the rows of a list stand together; those of Spark are
        in no particular order.

    Raises
    ------
    SchemaError
        For a missing or not numeric column.
    DataError
        For a null query, NaN or infinite scores or labels, duplicate documents, labels too
        large for a gain, for metrics of clicks a `position` that comes twice in a list; lazily,
        when the result is collected.
    ArgumentError
        For an unknown metric or a parameter out of its range.

    Notes
    -----
    Of a Spark DataFrame the result is one, too, and nothing runs before an action does. Workers
    evaluate whole queries, some at a time: the lists of one query must fit into a task, and so must
    a 1,024th of all rows, or a quarter of one of `spark.sql.shuffle.partitions` if there are more
    than 256. Options are checked at once; what is wrong with rows is told by an error of the
    action, in whose text is that of `DataError`. `ties="input"` is the order in which Spark reads
    the rows.

    Polars counts the rows of a plan up to 2^32: evaluate larger logs in parts, with `moments` and
    `merge`.

    What another engine has still to compute or to read, such as a DuckDB query or a pyarrow
    RecordBatchReader, is read batch by batch, in flat memory, if the rows of each list come
    together: say so in the query, as in "ORDER BY query". (Of a Dataset, pyarrow itself reads
    ahead; for files of Parquet see `scan_log`.) If they do not, or the plan reads the
    log more than once, as for metrics with different orders of documents, all rows are held in
    memory. To know that no list came in two places, 8 bytes are kept of each; if one did, the
    engine is asked again. A stream that can be read only once is then a `DataError`.

    Examples
    --------
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
    request = Request.of(
        query=query,
        doc=doc,
        score=score,
        label=label,
        position=position,
        scores=scores,
        by=by,
        ties=ties,
        relevant=relevant,
        unjudged=unjudged,
        queries=queries,
        undefined=undefined,
        duplicates=duplicates,
        conventions=conventions,
        progress=progress,
    )
    asked = resolve(metrics)
    check_undefined(undefined, asked)
    log, columns = request.columns(frame, asked)
    kept = names("keep", keep)
    free(kept, columns.keys, "keep")
    check_names(asked, [*columns.keys, *kept])
    agreed = request.conventions
    fills = {} if undefined is None else {output_name(m): counted_as(m, agreed) for m in asked}
    filled = [
        pl.col(name).fill_null(value) for name, value in fills.items() if isinstance(value, float)
    ]
    metric_names = [output_name(metric) for metric in asked]
    # Rankings of groups, such as runs, are compared: it must show that one retrieved nothing.
    counted = bool(columns.by) and NUM_RETRIEVED not in {*columns.keys, *kept, *metric_names}
    added = [pl.col(FOUND_DOCUMENTS).alias(NUM_RETRIEVED)] if counted else []

    def lists(*, labels: bool) -> pl.LazyFrame:
        """Return the lists; with a column that says whether each has a label, if wanted."""
        rows = request.lists(
            log,
            columns,
            wanted(asked, agreed),
            keep=columns.keys,
            constant=kept,
            told=[FOUND_DOCUMENTS] if counted else [],
            labels=labels,
        )
        if agreed.queries != "all":
            rows = rows.filter(COUNTED[agreed.queries])
        flags = PRESENCE[: int(labels)]
        rows = rows.select(*flags, *columns.keys, *kept, *added, *metric_names)
        return rows.with_columns(filled) if filled else rows

    if not request.reads_labels(columns, asked):
        return lists(labels=False)
    return Whole(
        partial(lists, labels=False),
        partial(lists, labels=True),
        partial(_labelled, columns.label, columns.by),
    )


def _labelled(label: str, by: Sequence[str], lists: pl.DataFrame) -> pl.DataFrame:
    """Warn of groups in which no list has a label."""
    flag = pl.col(PRESENCE[0])
    if not lists.get_column(PRESENCE[0]).all():
        groups = grouped(lists.lazy(), by, [pl.len().alias("queries"), flag.any()])
        without = collected(groups.filter(~flag, pl.col("queries") > 0).drop(PRESENCE[0]), few=True)
        if not without.is_empty():
            warn_of_no_labels(label, without.head(5).to_dicts())
    return lists.drop(PRESENCE[0])


@framed
def evaluate(
    frame: pl.LazyFrame,
    metrics: Metrics,
    *,
    query: Names = "query",
    doc: str | None = DOC,
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    scores: Sequence[str] | None = None,
    by: Names | None = None,
    ties: Ties | None = None,
    relevant: float | None = None,
    unjudged: Unjudged | None = None,
    queries: Queries | None = None,
    duplicates: Duplicates = "error",
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    weight: str | None = None,
    align: Align | None = None,
    normalize: Normalize | None = None,
    max_unshown: float = MAX_UNSHOWN,
    cluster: Names | None = None,
    conventions: Conventions | str = POLARS_RANK,
    progress: bool = False,
) -> pl.LazyFrame:
    """Evaluate a log: the mean of each metric over the queries, per group.

    Parameters
    ----------
    frame, metrics, query, doc, score, label, position, scores, by
        As for `per_query`; the `by` columns are the groups.
    ties, relevant, unjudged, queries, duplicates
        As for `per_query`.
    conventions, progress
        As for `per_query`.
    undefined
        What a metric counts as where it is undefined for a list: "zero" (as in trec_eval and
        scikit-learn), "one" (as in LightGBM), "skip" to leave the list out of that mean,
        "null" to make the mean null; or a mapping to these from names of metrics or of their
        columns, as for `per_query`. "zero" unless the
        conventions say otherwise; but an expression of your own that is null for a list is
        skipped, and so is a metric of clicks where nothing was clicked, unless `undefined` is
        given.

    weight
        The column of each query's weight, such as its traffic, the same in all rows of a list:
        finite, not negative. Means are weighted by it; sums are sums of weighted values.
    align
        Of runs with different queries (`by` has a column "run", "model" or the like): average
        over the queries that all of them have ("common"), or over all that any of them has
        ("all"), those that a run lacks counting as undefined. Without it, a `RankWarning` says
        where means stand side by side that are over different queries.
    normalize
        For labels that are weights of clicks, as `inverse_propensity` makes them: estimate what
        the lists are worth by "ips", the weighted sums over the number of lists, or by "snips",
        over the sum of the weights (Swaminathan & Joachims, 2015): per relevant document, less
        varying. For metrics that are sums over documents: CG, DCG, precision, RBP, ARP, with
        "snips" also recall. The propensities are taken as known: the intervals do not hold the
        error with which they were estimated.
    max_unshown
        With `normalize`: the share of the documents down to the deepest k that may have no label,
        as the log never showed them; above it, a `DataError`.
    cluster
        With `normalize`: columns that identify what was sampled, if it is not the list; the same
        in all rows of a list. If lists are sessions, the interval without `cluster` is for other
        sessions of these queries; the interval with `cluster="query"` is for sessions of other
        queries from the same population, and is wider. A list with a null is a cluster of its
        own. With `cluster`, one row is kept for each cluster until the means are taken.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group in sorted order, with the `by` columns, `queries` (how
        many lists) and a column per metric. With `queries` other than "all" also
        `queries_judged` and `queries_retrieved`, how many there are of each. Without `by` one
        row, also for an empty log: `queries` = 0 and null means. With `normalize`, each metric has
        `_variance`, `_low` and `_high` columns beside it: the variance of the estimate over lists,
        or over clusters of them, and the normal interval of 95 %, given the propensities; and there
        are `mean_weight` (of a list; "snips" times it is "ips"), `effective_sample_size` (how many
        equal weights would say as much, Kish 1965), `max_weight_share` (of the greatest weight)
        and `unshown`. The weights of the two are those of documents; with `cluster`, of clusters.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `per_query`.

    Warns
    -----
    RankWarning
        When the result is collected: without `align`, for runs with different queries; with
        `normalize`, if the effective sample size or the number of lists is below 30, where
        intervals are too narrow.

    Examples
    --------
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
    lists, totals = planned(
        frame,
        metrics,
        query=query,
        doc=doc,
        score=score,
        label=label,
        position=position,
        scores=scores,
        by=by,
        ties=ties,
        relevant=relevant,
        unjudged=unjudged,
        queries=queries,
        duplicates=duplicates,
        undefined=undefined,
        weight=weight,
        align=align,
        normalize=normalize,
        max_unshown=max_unshown,
        cluster=cluster,
        conventions=conventions,
        progress=progress,
    )
    return totals.of(lists)


def planned(
    frame: pl.LazyFrame,
    metrics: Metrics,
    *,
    weight: str | None = None,
    align: Align | None = None,
    normalize: Normalize | None = None,
    max_unshown: float = MAX_UNSHOWN,
    cluster: Names | None = None,
    **options: Any,
) -> tuple[pl.LazyFrame, Totals]:
    """Return the lists of an evaluation, and what they are to add up to."""
    request = Request.of(**options)
    asked = resolve(metrics)
    check_undefined(options.get("undefined"), asked)
    agreed = request.conventions
    estimates = None if normalize is None else Estimates.of(asked, normalize, agreed)
    evaluated = asked if estimates is None else estimates.of_lists
    log, columns = request.columns(frame, evaluated)
    for metric in asked:
        if not _is_scalar(metric):
            message = (
                f"{output_name(metric)!r} must give one value for each list, such as a sum; "
                f"found {metric}"
            )
            raise ArgumentError(message)
    one_of("align", align, (None, "common", "all"))
    added = ["queries", *([] if estimates is None else estimates.added)]
    free(columns.by, added)
    check_names(asked, [*columns.keys, *added])
    runs = [name for name in columns.by if name.lower() in RUNS]
    if align is not None and not runs:
        message = f"`align` needs a column of runs in `by`, such as 'run'; found {columns.by}"
        raise ArgumentError(message)
    weights, forbidden = weights_of(columns, weight, map(output_name, asked))
    if estimates is not None:
        negative = f"below 0 in the column {columns.label!r} (label), whose labels are weights"
        forbidden[negative] = (columns.number(columns.label) < 0).fill_null(value=False)
    strays = bool(columns.by)
    labels = request.reads_labels(columns, evaluated)
    clusters = _clusters(cluster, columns, asked, estimated=estimates is not None)
    told = columns.keys if runs else [*columns.by, *(set(clusters) & set(columns.query))]
    lists = request.lists(
        log,
        columns,
        wanted(evaluated, agreed),
        keep=told,
        constant=[*dict.fromkeys(each for each in (*weights, *clusters) if each not in told)],
        forbidden=forbidden,
        strays=strays,
        labels=labels,
    )
    check_numbers(lists, {output_name(metric): metric for metric in evaluated}, weight)
    query = [name for name in columns.keys if name not in runs]
    label = columns.label if labels else None
    if estimates is None:
        totals = [total(metric, agreed, weight) for metric in asked]
        return lists, Totals(totals, columns.by, agreed, runs, query, align, strays, label)
    units = {f"{OWN}cluster {index}": name for index, name in enumerate(clusters)}
    if units:  # null in one column of several makes the list a unit of its own
        known = pl.all_horizontal(pl.col(name).is_not_null() for name in clusters)
        lists = lists.with_columns(
            pl.when(known).then(name).alias(own) for own, name in units.items()
        )
    return lists, Totals(
        estimates.totals(weight, clustered=bool(units)),
        columns.by,
        agreed,
        runs,
        query,
        align,
        strays,
        label,
        [*units],
        estimates.check(columns.by, max_unshown),
    )


def _clusters(
    cluster: Names | None, columns: Columns, metrics: Sequence[pl.Expr], *, estimated: bool
) -> tuple[str, ...]:
    """Return the columns of clusters; raise where there can be none."""
    clusters = names("cluster", cluster)
    if not clusters:
        return ()
    if not estimated:
        message = (
            "`cluster` is for the intervals of `normalize`; for those of other means, give the "
            "result of per_query(..., keep=[...]) to summarize(cluster=...)"
        )
        raise ArgumentError(message)
    for name in clusters:
        check_there("cluster", name, columns.schema)
        check_id("cluster", name, columns.schema[name])
    check_apart("cluster", clusters, columns.by)
    free(clusters, [*map(output_name, metrics)], "cluster")
    return clusters


@dataclass(frozen=True, kw_only=True)
class Request:
    """What an evaluation is asked beside its metrics."""

    query: Names = "query"
    doc: str | None = DOC
    score: Score = "score"
    label: str = "label"
    position: str | None = None
    scores: Sequence[str] | None = None
    by: Names | None = None
    conventions: Conventions = POLARS_RANK
    duplicates: Duplicates = "error"
    progress: bool = False

    @classmethod
    def of(cls, *, conventions: Conventions | str = POLARS_RANK, **options: Any) -> Request:
        """Return what the options of `evaluate` ask for."""
        choices = ("ties", "relevant", "unjudged", "queries", "undefined")
        made = {name: options.pop(name, None) for name in choices}
        if isinstance(made["undefined"], str):  # said aloud, it is for own expressions as well
            made["own"] = made["undefined"]
        return cls(conventions=named(conventions).but(**made), **options)

    def columns(
        self, log: pl.LazyFrame, metrics: Sequence[pl.Expr] | None = None
    ) -> tuple[pl.LazyFrame, Columns]:
        """Return the log, with a column of scores, and its columns, checked.

        Where no metric reads labels, such as those of clicks, there need be none.
        """
        by, label = self.by, self.label
        unlabelled = label == "label" and label not in schema_of(log)
        if metrics and unlabelled and self._can_do_without(metrics):
            label = OWN + "label"
            log = log.with_columns(pl.lit(None, dtype=pl.Int8).alias(label))
        if self.scores is None:
            log, score = scored(log, self.score, self.position)
        else:
            log, by = runs_of(log, self.scores, names("by", by))
            score = OWN + "score"
        columns = Columns.find(
            schema_of(log), query=self.query, doc=self.doc, score=score, label=label, by=by
        )
        return log, replace(columns, placed=self.position is not None)

    def reads_labels(self, columns: Columns, metrics: Sequence[pl.Expr]) -> bool:
        """Return whether there is a column of labels of which the result is made."""
        return not columns.label.startswith(OWN) and not self._can_do_without(metrics)

    def _can_do_without(self, metrics: Sequence[pl.Expr]) -> bool:
        """Return whether no metric and no convention asks for a label."""
        agreed = [self.conventions.of(metric) for metric in metrics]
        read = {name for metric in metrics for name in metric.meta.root_names()}
        return read.isdisjoint(_OF_LABELS) and all(
            each.unjudged == "nonrelevant" and each.queries in ("all", "retrieved")
            for each in agreed
        )

    def lists(
        self,
        log: pl.LazyFrame,
        columns: Columns,
        metrics: Sequence[Wanted],
        *,
        keep: Sequence[str] | None = None,
        constant: Sequence[str] = (),
        forbidden: Mapping[str, pl.Expr] | None = None,
        strays: bool = False,
        told: Sequence[str] = (),
        labels: bool = False,
    ) -> pl.LazyFrame:
        """Return a row for each list; with `PRESENCE` where not all of them count.

        With `strays`, also with what `Totals` needs to find groups that nobody knows; with
        `labels`, to find those without labels; and with the columns `told`.
        """
        presence = PRESENCE if self.conventions.queries != "all" else PRESENCE[: int(labels)]
        return per_list(
            log,
            metrics,
            columns,
            columns.by if keep is None else keep,
            constant=constant,
            forbidden=forbidden or {},
            duplicates=self.duplicates,
            told=[
                *presence,
                *((STRAY, UNKNOWN) if strays else ()),
                *told,
            ],
            progress=self.progress,
        )


def weights_of(
    columns: Columns, weight: str | None, taken: Iterable[str]
) -> tuple[tuple[str, ...], dict[str, pl.Expr]]:
    """Return the column of weights, if there is one, and by problem which rows are at fault."""
    weights = names("weight", weight)
    free(weights, [*columns.keys, *taken], "weight")
    forbidden = {}
    for name in weights:
        columns.check_numeric("weight", name)
        forbidden[f"the column {name!r} (weight) must hold finite numbers of 0 or more"] = ~(
            (pl.col(name).cast(pl.Float64) >= 0) & pl.col(name).cast(pl.Float64).is_finite()
        ).fill_null(value=False)
    return weights, forbidden


def check_numbers(
    lists: pl.LazyFrame, metrics: Mapping[str, pl.Expr], weight: str | None = None
) -> None:
    """Raise `SchemaError` for columns of own expressions whose values have no mean."""
    own = {name: each for name, each in metrics.items() if not isinstance(each, Metric)}
    schema = lists.collect_schema() if own else {}
    for name, metric in own.items():
        dtype = schema[name]
        summable = dtype.is_numeric() or dtype in (pl.Boolean, pl.Null)
        if not summable and (weight is not None or not dtype.is_temporal()):
            message = (
                f"the metric {output_name(metric)!r} must give numbers, which have a mean; found "
                f"{dtype}; cast it, as in .cast(pl.Float64), or use pr.per_query(...)"
            )
            raise SchemaError(message)


def _is_scalar(expression: pl.Expr) -> bool:
    try:
        return expression.meta.is_scalar()
    except pl.exceptions.PolarsError:  # it depends on types that are not known yet
        return True


def runs_of(
    log: pl.LazyFrame, scores: Sequence[str], by: tuple[str, ...]
) -> tuple[pl.LazyFrame, list[str]]:
    """Return the log once for each column of scores, which names the run."""
    columns = names("scores", scores)
    if not columns:
        message = "`scores` is empty; name at least one column of scores"
        raise ArgumentError(message)
    if "run" in schema_of(log):
        message = "the frame already has a column 'run', which `scores` would add; rename it"
        raise SchemaError(message)
    parts = []
    for name in columns:
        made, score = scored(log, name, None)
        check_there("scores", score, schema_of(made))
        parts.append(made.with_columns(pl.col(score).alias(OWN + "score"), run=pl.lit(name)))
    return pl.concat(parts, how="vertical_relaxed"), ["run", *by]


def wanted(metrics: Sequence[pl.Expr], conventions: Conventions) -> list[Wanted]:
    """Return each metric with the conventions' parameters, and what else they say of it."""
    return [
        Wanted(
            conventions.apply(metric) if isinstance(metric, Metric) else metric,
            conventions.of(metric),
        )
        for metric in metrics
    ]


def check_names(metrics: Iterable[pl.Expr], taken: Iterable[str]) -> None:
    """Raise `ArgumentError` if a metric has the name of another column of the result."""
    for metric in metrics:
        if output_name(metric) in taken:
            message = (
                f"a metric is called {output_name(metric)!r}, which is a column of the result "
                "already; use .alias()"
            )
            raise ArgumentError(message)
