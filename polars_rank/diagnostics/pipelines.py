"""What each stage of a pipeline keeps, loses and could gain; `headroom` is about one stage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl
from polars import selectors

from polars_rank._params import OWN, free, share
from polars_rank.columns import Columns, Score, is_relevant, scored
from polars_rank.conventions import read_metrics
from polars_rank.diagnostics.robust_verdicts import lowest_of
from polars_rank.errors import ArgumentError, DataError, number_of
from polars_rank.evaluation.evaluate import evaluate, per_query
from polars_rank.evaluation.log import Log, groups_of
from polars_rank.evaluation.means import ratio, to_rows
from polars_rank.frames.tables import collected, framed, schema_of
from polars_rank.io.judgments import judged_once
from polars_rank.metrics.names import output_name
from polars_rank.stats._arrays import require_scipy
from polars_rank.stats.comparison import compare
from polars_rank.stats.result_columns import ResultColumn, deferred, returning, schema_of_result

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Unpack

    from polars_rank.evaluation.log import EvaluateOptions, RankingOptions
    from polars_rank.metrics.names import Metrics

#: The place of a stage in its pipeline, and whether the stage lost a document.
STAGE_PLACE, _LOST = OWN + "place of the stage", OWN + "lost"
#: A join that keeps the rows of the left table.
LEFT: Any = {"how": "left", "nulls_equal": True, "maintain_order": "left"}
#: The type of counts.
COUNTS = pl.Int64()
STAGES = (
    ResultColumn("depth", "largest number of documents of a query", dtype=COUNTS),
    ResultColumn("kept", "share of the relevant documents of all queries that the stage has"),
    ResultColumn("lost", "number of relevant documents that the stage before has and this one does "
                 "not; of the first stage, those that it did not retrieve", dtype=COUNTS),
    ResultColumn("mean", "mean of the metric"),
    ResultColumn("difference", "change of the mean from the stage before; null for the first one"),
    ResultColumn("low", "lower bound of the confidence interval of the difference"),
    ResultColumn("high", "upper bound"),
    ResultColumn("ceiling", "mean of the metric if the documents of the stage before were sorted "
                 "by their labels; of the first stage, if all judged documents were"),
    ResultColumn("lost_documents", "query and document of each lost one", is_detail=True),
)  # fmt: skip


@framed
@returning(STAGES)
def stages(
    frame: pl.LazyFrame,
    /,
    metric: str | pl.Expr,
    *,
    stage: str = "stage",
    order: Iterable[Any] | None = None,
    confidence: float = 0.95,
    details: bool = False,
    **options: Unpack[RankingOptions],
) -> pl.LazyFrame:
    """Return what each stage of a pipeline keeps and loses, and how it changes a metric.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> log = pl.DataFrame({
    ...     "stage": ["candidates"] * 3 + ["reranked"] * 2, "query": 1,
    ...     "doc": ["a", "b", "c", "c", "a"], "score": [3.0, 2.0, 1.0, 0.9, 0.1],
    ...     "label": [0, 1, 1, 1, 0],
    ... })
    >>> table = pr.diagnostics.stages(
    ...     log, "rr", order=["candidates", "reranked"], details=True
    ... )
    >>> table.select("stage", "depth", "kept", "lost", "mean", "ceiling")
    shape: (2, 6)
    ┌────────────┬───────┬──────┬──────┬──────┬─────────┐
    │ stage      ┆ depth ┆ kept ┆ lost ┆ mean ┆ ceiling │
    │ ---        ┆ ---   ┆ ---  ┆ ---  ┆ ---  ┆ ---     │
    │ str        ┆ i64   ┆ f64  ┆ i64  ┆ f64  ┆ f64     │
    ╞════════════╪═══════╪══════╪══════╪══════╪═════════╡
    │ candidates ┆ 3     ┆ 1.0  ┆ 0    ┆ 0.5  ┆ 1.0     │
    │ reranked   ┆ 2     ┆ 0.5  ┆ 1    ┆ 1.0  ┆ 1.0     │
    └────────────┴───────┴──────┴──────┴──────┴─────────┘
    >>> lost = table.select("stage", "lost_documents").filter(stage="reranked")
    >>> lost.explode("lost_documents").unnest("lost_documents").rows()
    [('reranked', 1, 'b')]

    Parameters
    ----------
    frame
        The long table, one row per document and stage. A document that a stage does not have has
        no row there, or a null score.
    metric
        The metric whose change is measured.
    stage
        Column of the stage. It may be null for judged documents that no stage retrieved.
    order
        Values of `stage`, first stage first. Not needed for one stage, or if the column is an Enum,
        whose categories are in order.
    confidence
        Confidence level of each interval.
    details
        Whether to add the documents that each stage lost.
    **options
        Options of `evaluate` without `weight`, such as `run`, `by` and `rel`. `doc` is needed.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per group, run and stage, in this order, with the columns of
        `by` and `run`, the column of the stage, and

        {columns}

    Raises
    ------
    ArgumentError
        The order of the stages is unknown, or `order` does not list the values of `stage`.
    DataError
        `stage` is null in a row with a score, or the labels of a document differ between stages.
    MissingExtraError
        scipy is not installed (extra "stats").

    See Also
    --------
    headroom : The same for one stage and several metrics: what its order and what retrieval lost.
    movers : The queries that changed most, with the stage that lost a document.

    Notes
    -----
    All stages of a group and run have the same judgments: a document has the label that it has in
    any stage, and a query that a stage lost has an empty ranking there. `kept` falls by `lost` /
    (number of relevant documents), and rises by documents that the stage before does not have.
    Without relevant documents, it is null.

    A mean above the ceiling shows that a stage added documents. Each interval is that of `compare`
    for one comparison. Unjudged documents are not relevant. The log is held in memory.
    """
    share("confidence", confidence)
    require_scipy()
    metrics = read_metrics(metric, options.get("conventions"), "metric")
    if len(metrics) != 1:
        raise ArgumentError(f"must be one metric; found {metric!r}", "metric")
    log = Log.of(frame, metrics, **options)
    columns, (name,) = log.columns, map(output_name, metrics)
    Columns.find(columns.schema, {"doc": options.get("doc", "doc"), "stage": stage})
    columns.check_unused("stage", [stage])
    by, query, ids = columns.by, columns.query, [*columns.query, str(columns.doc)]
    free([*by, stage], schema_of_result(STAGES))
    schema = {n: columns.schema[n] for n in (*by, stage)}
    schema |= schema_of_result(each for each in STAGES if details or not each.is_detail)
    if details:
        schema["lost_documents"] = pl.List(pl.Struct({n: columns.schema[n] for n in ids}))
    parts = [*by, stage]
    own: Any = {**options, "by": parts, "score": columns.score, "position": None}
    run = "run".ljust(1 + max(map(len, columns.keys)), "_")  # the name of no column
    there, place = pl.col(columns.score), pl.col(STAGE_PLACE)
    relevant = is_relevant(pl.col(columns.label), lowest_of(metrics[0], log.conventions))
    is_first = place == place.min().over(*by, 1)

    def result() -> pl.DataFrame:
        held = collected(log.table).lazy()
        pipeline = Pipeline.of(held, columns, stage, order)
        placed, places = collected(pipeline.completed()), pipeline.places
        rows = placed.drop_nulls(columns.doc).group_by(*parts, STAGE_PLACE, *ids)
        table = placed.drop(STAGE_PLACE)
        documents = rows.agg(there.is_not_null().any(), relevant.any()).sort(ids)
        wanted = pl.col(columns.label)
        received = there.shift(1, fill_value=True).over(*by, *ids, order_by=STAGE_PLACE)
        documents = documents.with_columns((wanted & received & ~there).alias(_LOST))
        facts = documents.group_by(parts).agg(
            pl.struct(query).filter(there).unique_counts().max().alias("depth"),
            ratio((wanted & there).sum(), wanted.sum()).alias("kept"),
            pl.col(_LOST).sum().alias("lost"),
            pl.struct(ids).filter(_LOST).alias("lost_documents"),
        )
        values = per_query(table, metrics, **own).join(places, on=stage)
        earlier = pl.col(name).shift(1).over(*by, *query, order_by=STAGE_PLACE)
        both = [values.with_columns(earlier), values]
        pairs = [each.with_columns(pl.lit(i).alias(run)) for i, each in enumerate(both)]
        changes = compare(
            pl.concat(pairs).filter(~is_first).drop(STAGE_PLACE), metrics, baseline=0, run=run,
            query=query, by=parts, confidence=confidence, correction=False,
        ).select(*parts, "difference", "low", "high")  # fmt: skip
        found = headroom(table, metrics, **own).join(places, on=stage).sort(*by, STAGE_PLACE)
        best = pl.when(is_first).then("complete").otherwise(pl.col("reordered").shift(1))
        found = found.with_columns(best.alias("ceiling")).join(facts, on=parts, **LEFT)
        found = found.join(changes, on=parts, **LEFT)
        return found.rename({"value": "mean"}).select(pl.col(n).cast(t) for n, t in schema.items())

    return deferred(result, schema)


class Pipeline(NamedTuple):
    """A log with a column of stages, and the places of the stages in their order."""

    log: pl.LazyFrame
    columns: Columns
    stage: str
    places: pl.DataFrame

    @classmethod
    def of(
        cls, log: pl.LazyFrame, columns: Columns, stage: str, order: Iterable[Any] | None
    ) -> Pipeline:
        """Return the stages of a log, which is read; raise if their order is unknown."""
        known, keys = pl.col(stage).is_not_null(), columns.keys
        rows = log.filter(known | pl.col(columns.score).is_not_null()).group_by(stage)
        found = collected(rows.agg(pl.col(keys).first(), pl.len().alias(_LOST))).sort(stage)
        for *_, number in (stray := found.filter(~known)).rows():
            raise DataError(
                f"column {stage!r} (`stage`) is null in {number_of(number, 'row')} with a score, "
                f"e.g. {stray.select(keys).row(0, named=True)}; fill in the stage"
            )
        values, dtype = found.get_column(stage).to_list(), found.schema[stage]
        given = values if order is None else [*order]
        is_known = order is not None or dtype == pl.Enum or len(values) < 2
        if not is_known or (values and sorted(map(repr, given)) != sorted(map(repr, values))):
            text = f"must list the values of the column {stage!r} (`stage`), first stage first"
            raise ArgumentError(f"{text}; they are {values}", "order")
        places = pl.Series(stage, given, dtype, strict=False).to_frame().with_row_index(STAGE_PLACE)
        return cls(log.join(places.lazy(), on=stage, **LEFT), columns, stage, places)

    @classmethod
    def find(
        cls, log: pl.LazyFrame, roles: Mapping[str, Any], stage: str, order: Iterable[Any] | None
    ) -> Pipeline | None:
        """Return the stages of a log; None without the default column, or if it has a role."""
        schema, named = schema_of(log), {**roles, "stage": stage, "score": None}
        used = Columns.find(schema, {**named, "stage": None}, optional=(*named,)).parameters
        if stage == "stage" and (stage in used or stage not in schema):
            if order is not None:
                raise ArgumentError("needs a column of stages (`stage`)", "order")
            return None
        Columns.find(schema, named, optional=("score", "position"))
        return cls.of(*Columns.read(log, {**roles, "keep": None}, optional=()), stage, order)

    def completed(self) -> pl.LazyFrame:
        """Return the log in which each stage has all documents of its queries, with their labels.

        A document that a stage does not have has no score there.
        """
        by, pair, label = [*self.columns.by], self.columns.pair, self.columns.label
        of_stage, rows = [STAGE_PLACE, self.stage], self.log.drop_nulls(self.stage)
        others = selectors.exclude(*pair, *of_stage, self.columns.score, label)
        documents = self.log.group_by(pair).agg(others.drop_nulls().first())
        on: Any = {"on": by, "nulls_equal": True} if by else {"how": "cross"}
        every = documents.join(rows.select(*by, *of_stage).unique(), **on)
        added = every.join(rows, on=[*pair, self.stage], how="anti", nulls_equal=True)
        once = partial(judged_once, keys=pair, label=label, table="the rankings")
        labels = self.log.drop_nulls(label).select(*pair, label).map_batches(once)
        return pl.concat([rows.drop(label), added], how="diagonal").join(labels, on=pair, **LEFT)

    def last(self) -> pl.LazyFrame:
        """Return the rankings of the last stage."""
        rows = self.completed().filter(pl.col(STAGE_PLACE) == len(self.places) - 1)
        return rows.drop(self.stage, STAGE_PLACE)

    def with_lost(self, table: pl.LazyFrame, pair: Sequence[str]) -> pl.LazyFrame:
        """Return the table with `lost_at`: the stage after the last one that has a document."""
        rows, place = self.log.drop_nulls(self.columns.score), pl.col(STAGE_PLACE)
        reached = rows.group_by(self.columns.pair).agg(place.max().cast(pl.Int64) + 1)
        reached = reached.rename(dict(zip(self.columns.pair, pair, strict=True)))
        after = pl.when(pl.col(pair[-1]).is_not_null()).then(place.fill_null(0))
        next_ones = self.places.select(place.cast(pl.Int64), pl.col(self.stage).alias("lost_at"))
        both = table.join(reached, on=pair, **LEFT).with_columns(after.alias(STAGE_PLACE))
        return both.join(next_ones.lazy(), on=STAGE_PLACE, **LEFT).drop(STAGE_PLACE)


@framed
def headroom(
    frame: pl.LazyFrame, /, metrics: Metrics, **options: Unpack[EvaluateOptions]
) -> pl.LazyFrame:
    """Compute how much of a metric is lost by the order of documents, and how much by retrieval.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> log = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2, 3, 4], "score": [0.9, 0.8, 0.7, None],
    ...     "label": [0, 1, 0, 1],
    ... })
    >>> pr.diagnostics.headroom(log, "p@2").drop("metric", "queries")
    shape: (1, 5)
    ┌───────┬───────────┬──────────┬───────────────┬───────────────────┐
    │ value ┆ reordered ┆ complete ┆ lost_by_order ┆ lost_by_retrieval │
    │ ---   ┆ ---       ┆ ---      ┆ ---           ┆ ---               │
    │ f64   ┆ f64       ┆ f64      ┆ f64           ┆ f64               │
    ╞═══════╪═══════════╪══════════╪═══════════════╪═══════════════════╡
    │ 0.5   ┆ 0.5       ┆ 1.0      ┆ 0.0           ┆ 0.5               │
    └───────┴───────────┴──────────┴───────────────┴───────────────────┘

    Parameters
    ----------
    frame
        The long table, one row per document. Judged documents with a null score were not
        retrieved.
    metrics
        Metrics, by name or as expressions.
    **options
        Options of `evaluate`, such as `run` and `by`. `score` and `label` are single columns.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per group and metric, with the columns of `by`, and

        - `metric`, `queries`;
        - `value`: mean of the metric;
        - `reordered`: mean if the retrieved documents were sorted by their labels;
        - `complete`: mean if all judged documents were retrieved and sorted by their labels;
        - `lost_by_order`: `reordered` - `value`, the most that a better reranker can gain;
        - `lost_by_retrieval`: `complete` - `reordered`, which no reranker can gain.

    See Also
    --------
    stages : What each of several stages keeps and loses.

    Notes
    -----
    Unjudged documents come last. If a lower value is better, the best order gives the lowest value
    and losses are negative.
    """
    given = read_metrics(metrics, options.get("conventions"))
    groups, label = groups_of(schema_of(frame), options).by, str(options.get("label", "label"))
    metric_names = [output_name(each) for each in given]
    free(groups, ["metric", "queries", *_STEPS, "lost_by_order", "lost_by_retrieval"])
    log, score = scored(frame, options.get("score", "score"), options.pop("position", None))
    Columns.find(schema_of(log), {"label": label})
    retrieved = pl.col(score).is_not_null()
    relevance = pl.col(label).cast(pl.Float64)
    last = relevance.fill_null(_BELOW)
    orders: dict[str, Score] = {
        "value": score,
        "reordered": pl.when(retrieved).then(last),
        "complete": pl.when(retrieved).then(last).otherwise(relevance),
    }
    wide = []
    for step, order in orders.items():
        options["score"] = order
        means = evaluate(log, given, **options)
        head = [*groups, "queries"] if step == "value" else []
        named = (pl.col(name).alias(f"{OWN}{step} {name}") for name in metric_names)
        wide.append(means.select(*head, *named))
    # The groups are the same, and in the same order.
    both = pl.concat(wide, how="horizontal")
    rows = [
        {
            "metric": pl.lit(name),
            "queries": pl.col("queries"),
            **{step: pl.col(f"{OWN}{step} {name}") for step in orders},
        }
        for name in metric_names
    ]
    return to_rows(both, groups, rows).with_columns(
        (pl.col("reordered") - pl.col("value")).alias("lost_by_order"),
        (pl.col("complete") - pl.col("reordered")).alias("lost_by_retrieval"),
    )


_STEPS = ("value", "reordered", "complete")
#: Below all labels.
_BELOW = -1e300
