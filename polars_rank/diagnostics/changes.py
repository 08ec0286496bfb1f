"""What changed between two runs, by query and by document."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, free, whole_number
from polars_rank.columns import Columns, Score
from polars_rank.conventions import POLARS_RANK, read_metrics
from polars_rank.diagnostics.pipelines import Pipeline
from polars_rank.evaluation.evaluate import per_query
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.ranking import ranked_documents
from polars_rank.frames.tables import framed, schema_of
from polars_rank.stats.value_columns import check_run, is_run, variables, with_known_baseline

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Unpack

    from polars_rank.conventions import ConventionsLike, Definitions

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
    stage: str = "stage",
    order: Iterable[Any] | None = None,
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
    stage
        Column of the stage, if the table has the rankings of several stages of each run, of which
        the last ones are compared: a run without the last stage is left out. Default: "stage" if
        the table has it, and no other parameter names it.
    order
        Values of `stage`, first stage first. Not needed for one stage, or if the column is an Enum,
        whose categories are in order.
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
        the run at this rank. If there are stages, also `lost_at`: the first stage of the run after
        the last one that has `baseline_doc`; null if the last stage has it.

    Raises
    ------
    ArgumentError
        The order of the stages is unknown, or `order` does not list the values of `stage`.
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
    given = {**roles, "score": score, "position": position, "label": label}
    if (pipeline := Pipeline.find(frame, given, stage, order)) is not None:
        frame, score, position = pipeline.last(), pipeline.columns.score, None
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
        if pipeline is not None:
            result = pipeline.with_lost(result, [*found.keys, "baseline_doc"])
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
