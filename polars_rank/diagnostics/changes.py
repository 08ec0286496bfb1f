"""What changed between two runs, by query and by document, and how much could be gained."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, free, whole_number
from polars_rank.columns import Columns, Score, scored
from polars_rank.conventions import POLARS_RANK, read_metrics
from polars_rank.evaluation.evaluate import evaluate, per_query
from polars_rank.evaluation.log import Log, groups_of
from polars_rank.evaluation.means import to_rows
from polars_rank.evaluation.ranking import ranked_documents
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.names import output_name
from polars_rank.stats.value_columns import check_run, is_run, variables, with_known_baseline

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from polars_rank.conventions import ConventionsLike, Definitions
    from polars_rank.evaluation.log import EvaluateOptions
    from polars_rank.metrics.names import Metrics

_DEPTH, _BASE = OWN + "depth", OWN + "baseline"
#: Whether a change is a gain, its place among the gains or losses of a group, and their number.
GOOD, PLACE, TOTAL = OWN + "good", OWN + "place", OWN + "total"


@framed
def movers(
    frame: pl.LazyFrame,
    /,
    metric: str | pl.Expr,
    *,
    baseline: Any,
    run: str = "run",
    n: int = 20,
    k: int | None = None,
    by: Names | None = None,
    query: Names = "query",
    doc: str | None = "doc",
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    keep: Names | None = None,
    conventions: ConventionsLike = POLARS_RANK,
    **definitions: Unpack[Definitions],
) -> pl.LazyFrame:
    """Return the queries that gained and lost most between the baseline and each run.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> log = pl.DataFrame({
    ...     "run": ["a", "a", "b", "b"], "query": 1, "text": "blue shoes",
    ...     "doc": ["x", "y"] * 2, "score": [2.0, 1.0, 1.0, 2.0],
    ...     "label": [0, 1, 0, 1],
    ... })
    >>> pr.diagnostics.movers(log, "rr", baseline="a", keep="text")
    shape: (1, 6)
    ┌─────┬───────┬────────────┬───────┬────────────────┬────────────┐
    │ run ┆ query ┆ difference ┆ value ┆ baseline_value ┆ text       │
    │ --- ┆ ---   ┆ ---        ┆ ---   ┆ ---            ┆ ---        │
    │ str ┆ i32   ┆ f64        ┆ f64   ┆ f64            ┆ str        │
    ╞═════╪═══════╪════════════╪═══════╪════════════════╪════════════╡
    │ b   ┆ 1     ┆ 0.5        ┆ 1.0   ┆ 0.5            ┆ blue shoes │
    └─────┴───────┴────────────┴───────┴────────────────┴────────────┘
    >>> documents = pr.diagnostics.movers(log, "rr", baseline="a", k=2)
    >>> documents.select("query", "rank", "baseline_doc", "doc", "label")
    shape: (2, 5)
    ┌───────┬──────┬──────────────┬─────┬───────┐
    │ query ┆ rank ┆ baseline_doc ┆ doc ┆ label │
    │ ---   ┆ ---  ┆ ---          ┆ --- ┆ ---   │
    │ i32   ┆ u32  ┆ str          ┆ str ┆ i64   │
    ╞═══════╪══════╪══════════════╪═════╪═══════╡
    │ 1     ┆ 1    ┆ x            ┆ y   ┆ 1     │
    │ 1     ┆ 2    ┆ y            ┆ x   ┆ 0     │
    └───────┴──────┴──────────────┴─────┴───────┘

    Parameters
    ----------
    frame
        The long table of several runs, one row per document.
    metric
        The metric whose change is measured. For metrics such as `fall_out`, lower values are
        gains.
    baseline
        Run that the others are compared with.
    run
        Column of the run.
    n
        Number of queries with the largest gains, and of queries with the largest losses, per run
        and group.
    k
        Number of documents to show for each query, in the order of both rankings. None for one
        row per query, without documents.
    by
        Columns to group by.
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
    keep
        Columns to keep in the result. They are constant within a query, such as its text.
    conventions
        Metric definitions to use. A preset, a `Conventions`, or a dictionary of its fields.
    **definitions
        Fields of `Conventions`, which take precedence over `conventions`.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`, with one row per query: the largest gains of each run first, then
        the largest losses. Queries without a change are omitted. The columns are those of `by`,
        and

        - the column of the run, and the columns of the query;
        - `difference`: `value` - `baseline_value`;
        - `value`, `baseline_value`: the metric in the run and in the baseline;
        - the columns of `keep`.

        With `k`, there is one row per query and rank, with `rank` after `difference`, and
        `baseline_doc`, `baseline_label`, `doc` and `label`: the documents of the baseline and of
        the run at this rank.

    Raises
    ------
    DataError
        No row belongs to the baseline. Raised when the result is collected.
    """
    options: Any = {"conventions": conventions, **definitions}
    whole_number("n", n)
    if k is not None:
        whole_number("k", k)
    (metric,) = read_metrics(metric, conventions, "metric")
    columns = (*_CHANGE_COLUMNS, *(_DOCUMENT_COLUMNS if k is not None else ()))
    schema = schema_of(frame)
    roles = {"run": run, "by": by, "query": query, "doc": doc, "keep": keep}
    needed = {"doc"} if k is not None and doc == "doc" else set()
    found = Columns.find(schema, roles, optional={"doc"} - needed)
    groups, queries, kept = found.groups, found.query, found.roles["keep"]
    free(found.by, columns)
    free(queries, columns, "query")
    free(kept, columns, "keep")
    check_run("baseline", baseline, run, schema[run])
    of_baseline = is_run(run, schema[run], baseline)
    values = per_query(
        frame, metric, run=run, by=[run, *groups], query=query, doc=doc, score=score, label=label,
        position=position, keep=keep, **options,
    ).cache()  # fmt: skip
    of_runs, of_base = (values.filter(part) for part in (~of_baseline, of_baseline))
    keys = [*groups, run, *queries]
    (variable,) = variables(schema_of(of_runs), [metric])
    base = of_base.select(*groups, *queries, variable.value.alias(_BASE))
    pairs = of_runs.join(base, on=[*groups, *queries], nulls_equal=True)
    value, baseline_value = variable.value, pl.col(_BASE)
    # Polars would evaluate the log again for each part of the plan that reads the values.
    pairs = pairs.select(
        *keys,
        (value - baseline_value).alias("difference"),
        value.alias("value"),
        baseline_value.alias("baseline_value"),
        *kept,
    ).cache()
    gain = -pl.col("difference") if variable.lower_is_better else pl.col("difference")
    changes = largest_changes(pairs, gain, [*groups, run], queries, n)
    changes = changes.sort(*groups, run, ~pl.col(GOOD), PLACE).cache()
    if k is None:
        result = changes.drop(GOOD, PLACE, TOTAL)
    else:
        # Only the rankings that are shown are ranked.
        shown = changes.select(*groups, *queries).unique()
        of_shown = frame.join(
            shown, on=shown.collect_schema().names(), how="semi", nulls_equal=True
        )
        ranked = Log.of(
            of_shown, metric, run=run, by=[*groups, run], query=query, doc=doc,
            score=score, label=label, position=position, **options,
        )  # fmt: skip
        ordering = ranked.definitions[0].ordering
        documents = ranked_documents(replace(ranked, ordering=ordering), ["rank"])
        result = _with_documents(changes, documents, of_baseline, groups, run, queries, k)
        first = [*keys, "difference", "rank", "value", "baseline_value"]
        result = result.select(*first, *kept, *_DOCUMENT_COLUMNS[1:])
    return with_known_baseline(result, frame, run, schema[run], baseline)


def largest_changes(
    changes: pl.LazyFrame, gain: pl.Expr, groups: Sequence[str], queries: Sequence[str], n: int
) -> pl.LazyFrame:
    """Return the n largest gains and the n largest losses of each group.

    They have the columns `GOOD`, `PLACE` and `TOTAL`. Equal changes are in the order of queries.
    """
    place = pl.int_range(pl.len(), dtype=pl.Int64).over(groups).alias(PLACE)
    total = pl.len().cast(pl.Int64).over(groups).alias(TOTAL)
    ends = [
        changes.filter(size > 0)
        .sort(size, *queries, descending=[True, *(False for _ in queries)])
        .with_columns(pl.lit(good).alias(GOOD), place, total)
        .filter(pl.col(PLACE) < n)
        for good, size in ((True, gain), (False, -gain))
    ]
    return pl.concat(ends)


_CHANGE_COLUMNS = ("difference", "value", "baseline_value")
_DOCUMENT_COLUMNS = ("rank", "baseline_doc", "baseline_label", "doc", "label")


def _with_documents(
    changes: pl.LazyFrame,
    documents: pl.LazyFrame,
    of_baseline: pl.Expr,
    groups: Sequence[str],
    run: str,
    queries: Sequence[str],
    k: int,
) -> pl.LazyFrame:
    """Return a row for each rank up to `k` at which either ranking has a document."""
    top = documents.filter(pl.col("rank") <= k).cache()
    keys = [*groups, *queries, "rank"]
    of_run = top.filter(~of_baseline).select(*keys, run, "doc", "label")
    base = top.filter(of_baseline).select(
        *keys, pl.col("doc").alias("baseline_doc"), pl.col("label").alias("baseline_label")
    )
    # No ranking is longer: k may be far larger.
    depth = top.select(pl.col("rank").max().fill_null(0).alias(_DEPTH))
    ranks = pl.int_ranges(1, pl.col(_DEPTH) + 1, dtype=pl.UInt32).alias("rank")
    return (
        changes.join(depth, how="cross", maintain_order="left")
        .with_columns(ranks)
        .drop(_DEPTH)
        .explode("rank")
        .join(base, on=keys, how="left", nulls_equal=True)
        .join(of_run, on=[*keys, run], how="left", nulls_equal=True)
        .filter(pl.any_horizontal(pl.col("doc", "baseline_doc").is_not_null()))
        .sort(*groups, run, ~pl.col(GOOD), PLACE, "rank")
    )


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
