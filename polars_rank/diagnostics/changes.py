"""What changed between two runs, list by list and document by document; and what could."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names, check_there, find_columns, free, names, whole_number
from polars_rank.columns import RUN, Score, scored
from polars_rank.conventions import POLARS_RANK, read_metrics
from polars_rank.diagnostics.similarity import overlap, rbo
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.evaluate import evaluate, per_query
from polars_rank.evaluation.means import grouped, ratio, to_rows
from polars_rank.evaluation.parameters import runs_of
from polars_rank.evaluation.ranking import rank
from polars_rank.frames.tables import framed, schema_of
from polars_rank.metrics.names import output_name
from polars_rank.stats.pairs import is_run, with_known_baseline
from polars_rank.stats.tables import agreed_on, variables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank.metrics.names import Metrics

_OTHER, _PLACE = OWN + "other", OWN + "place"


@framed
def movers(
    frame: pl.LazyFrame,
    /,
    metric: str | pl.Expr,
    *,
    baseline: Any,
    run: str = "run",
    n: int = 20,
    k: int = 10,
    query: Names = "query",
    doc: str = "doc",
    score: Score = "score",
    label: str = "label",
    position: str | None = None,
    scores: Sequence[str] | None = None,
    **options: Any,
) -> pl.LazyFrame:
    """Movers: the lists that gained and lost most, the two rankings side by side.

    Parameters
    ----------
    frame
        The long table of several runs, one row per document of a list.
    metric
        The metric that tells gain from loss.
    run, baseline
        The column that tells runs apart, and its value for the run that the others are compared
        with.
    n
        How many lists that gained, and how many that lost, of each run.
    k
        How many documents of each list to show.
    query, doc, score, label, position
        Names of the columns, as for `per_query`.
    scores
        Columns of scores, each of which is a run of its name, instead of a column `run`.
    **options
        Any other parameter of `per_query` but `by`.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: a row per list and rank, with

        - `run` (under its own name), `moved`: "gained" or "lost", then the query columns;
        - `baseline_value`, `value`, `difference`: of the metric;
        - `rank`, `baseline_doc`, `baseline_label`, `doc`, `label`: what the two runs have there.

        For each run the greatest gains first, then the greatest losses; queries of the same
        difference in their order. Lists with no change are neither.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `per_query`; also where no row is of the baseline.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> log = pl.DataFrame({
    ...     "run": ["a", "a", "b", "b"], "query": 1, "doc": ["x", "y"] * 2,
    ...     "score": [2.0, 1.0, 1.0, 2.0], "label": [0, 1, 0, 1],
    ... })
    >>> found = pr.diagnostics.movers(log, "rr", baseline="a")
    >>> found.select("moved", "baseline_value", "value", "rank", "baseline_doc", "doc", "label")
    shape: (2, 7)
    ┌────────┬────────────────┬───────┬──────┬──────────────┬─────┬───────┐
    │ moved  ┆ baseline_value ┆ value ┆ rank ┆ baseline_doc ┆ doc ┆ label │
    │ ---    ┆ ---            ┆ ---   ┆ ---  ┆ ---          ┆ --- ┆ ---   │
    │ str    ┆ f64            ┆ f64   ┆ u32  ┆ str          ┆ str ┆ i64   │
    ╞════════╪════════════════╪═══════╪══════╪══════════════╪═════╪═══════╡
    │ gained ┆ 0.5            ┆ 1.0   ┆ 1    ┆ x            ┆ y   ┆ 1     │
    │ gained ┆ 0.5            ┆ 1.0   ┆ 2    ┆ y            ┆ x   ┆ 0     │
    └────────┴────────────────┴───────┴──────┴──────────────┴─────┴───────┘
    """
    whole_number("n", n)
    whole_number("k", k)
    (asked,) = read_metrics(metric, options.get("conventions"))
    keys = names("query", query)
    columns: dict[str, Any] = {"by": run, "query": query, "doc": doc, "label": label}
    undefined = options.pop("undefined", None)
    agreed = agreed_on(options.get("conventions", POLARS_RANK), undefined)
    of_rank = {name: options[name] for name in ("ties", "rel", "duplicates") if name in options}

    frame, by_score = _with_runs(frame, run, score, scores)
    schema = schema_of(frame)
    check_there("run", run, schema)
    lists = per_query(frame, asked, score=by_score, position=position, **columns, **options)
    (variable,) = variables(schema_of(lists), [asked], agreed, [run, *keys], undefined=undefined)
    of_baseline = is_run(run, schema[run], baseline)
    base = lists.filter(of_baseline).select(*keys, variable.value.alias("baseline_value"))
    value = variable.value.alias("value")
    pairs = (
        lists.filter(~of_baseline)
        .select(run, *keys, value)
        .join(base, on=keys, how="inner")
        .with_columns(difference=pl.col("value") - pl.col("baseline_value"))
    )
    frame, by_score = scored(frame, by_score, position)
    rows = frame.select([*dict.fromkeys([run, *keys, doc, label, by_score])])
    ranked = rank(rows, score=by_score, **columns, **of_rank).filter(pl.col("rank") <= k)
    beside = ranked.filter(of_baseline).select(
        *keys, "rank", pl.col(doc).alias("baseline_doc"), pl.col(label).alias("baseline_label")
    )
    own = ranked.select(run, *keys, "rank", pl.col(doc).alias("doc"), pl.col(label).alias("label"))
    ranks = pl.int_ranges(1, pl.lit(k + 1), dtype=pl.UInt32).alias("rank")
    chosen = pl.concat([_most(pairs, run, keys, n, gained=up) for up in (True, False)])
    side_by_side = (
        chosen.with_columns(ranks)
        .explode("rank")
        .join(beside, on=[*keys, "rank"], how="left")
        .join(own, on=[run, *keys, "rank"], how="left")
        .filter(pl.any_horizontal(pl.col("doc", "baseline_doc").is_not_null()))
        .sort(run, "moved", _PLACE, "rank")
    )
    shown = ["baseline_doc", "baseline_label", "doc", "label"]
    found = side_by_side.select(run, "moved", *keys, *_MOVED, *shown)
    return with_known_baseline(found, frame, run, schema[run], baseline)


def _with_runs(
    log: pl.LazyFrame, run: str, score: Score, scores: Sequence[str] | None
) -> tuple[pl.LazyFrame, Score]:
    """Return the log with a column of runs, and its score; with `scores`, once for each."""
    if scores is None:
        return log, score
    if run != RUN:
        message = f"`scores` are the runs, in a column 'run'; leave out `run`; found {run!r}"
        raise ArgumentError(message, "scores", "run")
    return runs_of(log, scores)


#: What is said of a list that moved, before its documents.
_MOVED = ("baseline_value", "value", "difference", "rank")


def _most(
    pairs: pl.LazyFrame, run: str, keys: Sequence[str], n: int, *, gained: bool
) -> pl.LazyFrame:
    difference = pl.col("difference")
    return (
        pairs.filter(difference > 0 if gained else difference < 0)
        .sort(run, "difference", *keys, descending=[False, gained, *(False for _ in keys)])
        .with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).over(run).alias(_PLACE))
        .filter(pl.col(_PLACE) < n)
        .with_columns(moved=pl.lit("gained" if gained else "lost"))
    )


@framed
def churn(
    frame: pl.LazyFrame,
    *,
    baseline: Any,
    run: str = "run",
    k: int = 10,
    p: float = 0.9,
    by: Names | None = None,
    query: Names = "query",
    doc: str = "doc",
    score: Score = "score",
    scores: Sequence[str] | None = None,
) -> pl.LazyFrame:
    """Churn: how much the rankings of runs changed from the baseline; no labels needed.

    Parameters
    ----------
    frame
        The long table of several runs, one row per document of a list; without a score, a
        document was not retrieved.
    run, baseline
        The column that tells runs apart, and its value for the run that the others are compared
        with.
    k
        Cutoff of the overlap and of what counts as changed.
    p
        Persistence of `rbo`.
    by
        Columns that split the table.
    query, doc, score
        Names of the columns, as for `per_query`.
    scores
        Columns of scores, each of which is a run of its name, instead of a column `run`.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: a row per group and run other than the baseline, with the `by` columns and

        - `run` (under its own name), `queries`, `missing`: those in both runs, and on one side
          only, which count for nothing else;
        - `overlap@k`, `rbo`: their means over the queries;
        - `changed`: the share of queries of which any of the first k documents is another.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `rbo` and `overlap`; also where no row is of the baseline.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> log = pl.DataFrame({
    ...     "run": ["a"] * 4 + ["b"] * 4, "query": [1, 1, 2, 2] * 2, "doc": ["x", "y"] * 4,
    ...     "score": [2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 1.0, 2.0],
    ... })
    >>> pr.diagnostics.churn(log, baseline="a", k=1).drop("rbo")
    shape: (1, 5)
    ┌─────┬─────────┬─────────┬───────────┬─────────┐
    │ run ┆ queries ┆ missing ┆ overlap@1 ┆ changed │
    │ --- ┆ ---     ┆ ---     ┆ ---       ┆ ---     │
    │ str ┆ u32     ┆ u32     ┆ f64       ┆ f64     │
    ╞═════╪═════════╪═════════╪═══════════╪═════════╡
    │ b   ┆ 2       ┆ 0       ┆ 0.5       ┆ 0.5     │
    └─────┴─────────┴─────────┴───────────┴─────────┘
    """
    whole_number("k", k)
    frame, given = _with_runs(frame, run, score, scores)
    frame, by_score = scored(frame, given, None)
    schema = schema_of(frame)
    found = find_columns(
        schema, {"run": run, "by": by or (), "query": query, "doc": doc, "score": by_score}
    )
    groups, keys = found["by"], found["query"]
    of_baseline = is_run(run, schema[run], baseline)
    columns = [*groups, *keys, doc, by_score]
    others = frame.filter(~of_baseline).select(run, *columns)
    # The baseline once for each run, so that the queries of either side are met.
    runs = others.select(run).unique()
    base = frame.filter(of_baseline).select(columns).join(runs, how="cross")
    lists = [run, *groups, *keys]
    options: dict[str, Any] = {"query": lists, "doc": doc, "score": by_score}
    alike = overlap(others, base, k, **options).join(
        rbo(others, base, p=p, **options), on=lists, how="left", nulls_equal=True
    )
    same = _same_top(others, base, lists, doc, by_score, k)
    both = alike.join(same, on=lists, how="left", nulls_equal=True)
    counted = pl.col("paired")
    values = [
        counted.sum().alias("queries"),
        (~counted).sum().alias("missing"),
        pl.col("overlap").filter(counted).mean().alias(f"overlap@{k}"),
        pl.col("rbo").filter(counted).mean(),
        ratio(pl.col("changed").filter(counted).sum(), counted.sum()).alias("changed"),
    ]
    result = grouped(both, [*groups, run], values)
    return with_known_baseline(result, frame, run, schema[run], baseline)


def _same_top(
    left: pl.LazyFrame, right: pl.LazyFrame, lists: Sequence[str], doc: str, score: str, k: int
) -> pl.LazyFrame:
    """Return for each list whether both sides have it, and whether the first k changed."""

    def ranks(side: pl.LazyFrame, column: str) -> pl.LazyFrame:
        unlabelled = side.with_columns(pl.lit(None, dtype=pl.Float64).alias(_OTHER))
        ranked: pl.LazyFrame = rank(
            unlabelled, query=lists, doc=doc, score=score, label=_OTHER, ties="doc"
        )
        return ranked.select(*lists, doc, pl.col("rank").alias(column))

    first, second = pl.col(_PLACE), pl.col(_OTHER)
    top = (first <= k).fill_null(value=False) | (second <= k).fill_null(value=False)
    joined = ranks(left, _PLACE).join(
        ranks(right, _OTHER), on=[*lists, doc], how="full", coalesce=True, nulls_equal=True
    )
    return joined.group_by(lists).agg(
        ((first.count() > 0) & (second.count() > 0)).alias("paired"),
        (top & first.ne_missing(second)).any().alias("changed"),
    )


@framed
def headroom(
    frame: pl.LazyFrame,
    /,
    metrics: Metrics,
    *,
    by: Names | None = None,
    score: str = "score",
    label: str = "label",
    **options: Any,
) -> pl.LazyFrame:
    """Headroom: where the value is lost, by the order or by what was not retrieved.

    Parameters
    ----------
    frame, metrics, by, score, label
        As for `evaluate`; judged documents that were not retrieved, with a null score, say what
        could have been found.
    **options
        Any other parameter of `evaluate`.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: a row per group and metric, with the `by` columns and

        - `metric`, `queries`;
        - `value`: as it is;
        - `reordered`: with the retrieved documents in the best order, that of their labels;
        - `complete`: with all judged documents, in that order;
        - `lost_by_order`: reordered - value, what a better reranker could gain;
        - `lost_by_retrieval`: complete - reordered, what no reranker can.

    Raises
    ------
    SchemaError, DataError, ArgumentError
        As for `evaluate`.

    Notes
    -----
    Unjudged documents come last. Of a metric for which lower is better, the best order gives
    the lowest value, and losses are negative.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> log = pl.DataFrame({
    ...     "query": 1, "doc": [1, 2, 3, 4], "score": [0.9, 0.8, 0.7, None], "label": [0, 1, 0, 1]
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
    """
    asked, groups = read_metrics(metrics, options.get("conventions")), names("by", by)
    made = [output_name(each) for each in asked]
    free(groups, ["metric", "queries", *_STEPS, "lost_by_order", "lost_by_retrieval"])
    find_columns(schema_of(frame), {"score": score, "label": label})
    retrieved = pl.col(score).is_not_null()
    worth = pl.col(label).cast(pl.Float64)
    last = worth.fill_null(_BELOW)
    orders = {
        "value": pl.col(score),
        "reordered": pl.when(retrieved).then(last),
        "complete": pl.when(retrieved).then(last).otherwise(worth),
    }
    names_of: dict[str, Any] = {"score": score, "label": label, "by": by}
    wide = []
    for step, order in orders.items():
        means = evaluate(frame.with_columns(order.alias(score)), asked, **names_of, **options)
        head = [*groups, "queries"] if step == "value" else []
        wide.append(
            means.select(*head, *(pl.col(name).alias(f"{OWN}{step} {name}") for name in made))
        )
    # The groups are the same, and in the same order.
    both = pl.concat(wide, how="horizontal")
    rows = [
        {
            "metric": pl.lit(name),
            **{step: pl.col(f"{OWN}{step} {name}") for step in orders},
        }
        for name in made
    ]
    return to_rows(both, [*groups, "queries"], rows).with_columns(
        (pl.col("reordered") - pl.col("value")).alias("lost_by_order"),
        (pl.col("complete") - pl.col("reordered")).alias("lost_by_retrieval"),
    )


_STEPS = ("value", "reordered", "complete")
#: Below all labels.
_BELOW = -1e300
