"""`tune_fusion`: the choice of a fusion, and its mean on held-out queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Unpack

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank._params import OWN, Names, free, integer, used_twice
from polars_rank.conventions import (
    POLARS_RANK,
    Conventions,
    ConventionsLike,
    Definitions,
    named,
    read_metrics,
)
from polars_rank.diagnostics.bounds import known_bounds
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.evaluate import per_query
from polars_rank.frames.batches import requested
from polars_rank.frames.tables import framed, schema_of
from polars_rank.fusion.candidates import Candidates, Choices
from polars_rank.fusion.fuse import columns_of_runs
from polars_rank.fusion.procedures import CANDIDATE, PROCEDURE, TUNED, UNWEIGHTED, Folds, Log
from polars_rank.metrics.metric import cutoff
from polars_rank.stats._arrays import require_scipy
from polars_rank.stats.comparison import compare
from polars_rank.stats.summary import summarize
from polars_rank.stats.value_columns import variables

_UNJUDGED, _BEST, _EQUAL = "unjudged", OWN + "best", OWN + "equal"
_DIFFERENCES = ("difference", "difference_low", "difference_high", "p_value")
_PROCEDURES: dict[str, Any] = {
    "metric": pl.String(),
    PROCEDURE: pl.String(),
    **dict.fromkeys(("mean", "low", "high", *_DIFFERENCES), pl.Float64()),
    "queries": pl.Int64(),
    _UNJUDGED: pl.Int64(),
    "reversible": pl.Boolean(),
    "method": pl.String(),
    "by_fold": pl.List(pl.String),
}
_CURVE: dict[str, Any] = {
    "metric": pl.String(),
    CANDIDATE: pl.UInt32(),
    **dict.fromkeys(("mean", "low", "high"), pl.Float64()),
    "queries": pl.Int64(),
    "method": pl.String(),
}


@framed
def tune_fusion(
    log: pl.LazyFrame,
    /,
    metric: str | pl.Expr,
    candidates: Candidates = "rrf",
    *,
    step: float | None = None,
    curve: bool = False,
    run: str = "run",
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
    by: Names | None = None,
    cluster: Names | None = None,
    folds: int = 5,
    conventions: ConventionsLike = POLARS_RANK,
    **definitions: Unpack[Definitions],
) -> pl.LazyFrame:
    r"""Choose a method of fusion or its weights, and report its mean on held-out queries.

    The queries are divided into folds. For each fold, the candidate with the best mean over the
    queries of the other folds is chosen:

    $$c_f = \arg\max_c \frac{1}{|Q \setminus Q_f|} \sum_{q \in Q \setminus Q_f} x_{cq}, \qquad
    \mathrm{mean} = \frac{1}{|Q|} \sum_f \sum_{q \in Q_f} x_{c_f q}$$

    $x_{cq}$ is the metric of the query q for the fusion with the candidate c. The mean of "tuned"
    is therefore over queries on which its parameters were not chosen.

    Examples
    --------
    >>> names = ["tfidf", "lm", "bm25", "dense"]
    >>> log = pr.datasets.search_log(400, 30, runs=names, seed=3)
    >>> runs = log.filter(pl.col("run").is_in(["bm25", "dense"])).collect()
    >>> method = "sum(normalize='min_max')"
    >>> table = pr.tune_fusion(runs, "ndcg@10", method)
    >>> table.select("procedure", "mean", "difference", "p_value")
    shape: (4, 4)
    ┌────────────┬──────────┬────────────┬──────────┐
    │ procedure  ┆ mean     ┆ difference ┆ p_value  │
    │ ---        ┆ ---      ┆ ---        ┆ ---      │
    │ str        ┆ f64      ┆ f64        ┆ f64      │
    ╞════════════╪══════════╪════════════╪══════════╡
    │ tuned      ┆ 0.736025 ┆ 0.008745   ┆ 0.034887 │
    │ unweighted ┆ 0.730653 ┆ 0.003373   ┆ 0.509899 │
    │ bm25       ┆ 0.704835 ┆ -0.022446  ┆ 0.010236 │
    │ dense      ┆ 0.72728  ┆ null       ┆ null     │
    └────────────┴──────────┴────────────┴──────────┘
    >>> table["method"][0]
    "sum(normalize='min_max', weights={'bm25': 0.2, 'dense': 0.8})"

    Parameters
    ----------
    log
        Long table of at least two runs, with a row per run, query and document. A document without
        a score was judged, but not retrieved. A label counts for the document in all runs.
    metric
        Metric to optimize, by name or as an expression.
    candidates
        Method of `fuse` whose weights are tuned, such as "sum(normalize='min_max')", or several
        methods to choose from. A list of methods is, for example, `["rrf(k=10)", "rrf(k=60)"]`. At
        most 1,000 candidates.
    step
        Step of the weights. The candidates are all weights of the runs that are multiples of the
        step and have the sum 1: with 0.1, 11 candidates for two runs, 66 for three, and 286 for
        four. Default: 0.1 for one method; for a list of methods, weights are not tuned.
    curve
        Whether to return the mean of each candidate over all queries instead. Do not report the
        highest of them: the candidate that fits these queries best has a lower mean on others.
    run
        Column of the run.
    query
        Column or columns that identify the query.
    doc
        Column of the document.
    score
        Column of the score, higher is better.
    label
        Column of the relevance label.
    by
        Columns to group by. Each group is tuned by itself.
    cluster
        Columns that identify the sampling unit, such as the user. The queries of a cluster are in
        the same fold, and intervals are about clusters.
    folds
        Number of folds, 2 or more. A hash of the query decides which queries are in which fold, so
        the order of rows does not matter. Not used with `curve`.
    conventions
        Metric definitions to use. `undefined` must not be "null". They are about the evaluation;
        the documents of a run with equal scores are ordered by id, as in `fuse`.
    **definitions
        Fields of `Conventions`, which take precedence over `conventions`.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `log`. For each group, one row per procedure: "tuned", "unweighted" (the first
        method with equal weights), and each single run. The columns are those of `by`, and

        - `metric`, `procedure`;
        - `mean`, `low`, `high`: mean over the queries, which are held out for "tuned", and its 95%
          confidence interval, as in `summarize`;
        - `difference`, `difference_low`, `difference_high`, `p_value`: difference from the best
          single run, as in `compare`; null for that run. If all values are equal, the interval is
          null, and the p-value 1;
        - `queries`: number of queries with a value;
        - `unjudged`: number of documents without a label up to the metric's cutoff, in all rankings
          of the procedure; for "tuned", of the fusion by `method`;
        - `reversible`: whether labels of unjudged documents might reverse the order of the
          procedure and the best single run (for that run, of it and "tuned"), by the bounds of
          `judgment_bounds`. Null if the metric has no bounds, or if unjudged documents are removed;
        - `method`: for "tuned", the candidate chosen on all queries, and for "unweighted" its
          method: `pr.fuse(log, method)`. Null for single runs;
        - `by_fold`: for "tuned", the candidate chosen for each fold.

        With `curve`, one row per group and candidate, with the columns of `by`, and

        - `metric`;
        - `candidate`: number of the candidate, from 0. Those of a step begin with all weight on
          the first run, by name;
        - `mean`, `low`, `high`: mean over all queries and its 95% confidence interval, which does
          not account for the choice of a candidate by its mean;
        - `queries`: number of queries with a value;
        - `method`: the candidate.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        As for `fuse`, and if there are no labels, fewer queries or clusters than folds, or a query
        in several clusters. A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter, a metric that is no mean, and too many candidates. A lazy result
        raises the last one when it is collected.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        As for `summarize` and `compare`.

    Notes
    -----
    All procedures are evaluated on the same queries: a run without rows for a query has retrieved
    nothing for it. A run with weight 0 still contributes its documents, with score 0; to compare
    with a fusion that leaves the run out, drop its rows.

    The intervals and the p-value of "tuned" are corrected for the correlation of the folds, as
    proposed by Nadeau & Bengio; see the page "How statistics are computed" of the guide.

    References
    ----------
    Stone, Cross-validatory choice and assessment of statistical predictions, 1974.
    Nadeau & Bengio, Inference for the generalization error, 2003.
    Varma & Simon, Bias in error estimation when using cross-validation for model selection, 2006.
    """
    integer("folds", folds, 2)
    roles = {"run": run, "query": query, "doc": doc, "score": score, "label": label}
    choices = Choices.of(candidates, step)
    chosen = named(conventions).but(**definitions)
    tuning, groups = _tuning(log, metric, choices, roles, by, cluster, chosen)

    def procedures(group: Log) -> pl.DataFrame:
        return _procedures(Folds(group, folds))

    if curve:
        return _by_group(log, tuning, groups, _curve, _CURVE)
    return _by_group(log, tuning, groups, procedures, _PROCEDURES)


def _tuning(
    log: pl.LazyFrame,
    metric: str | pl.Expr,
    choices: Choices,
    roles: Mapping[str, Any],
    by: Names | None,
    cluster: Names | None,
    conventions: Conventions,
) -> tuple[Log, tuple[str, ...]]:
    """Return checked parameters, and the columns of groups; nothing is read."""
    metrics = read_metrics(metric, conventions, "metric")
    if len(metrics) != 1:
        raise ArgumentError(f"`metric` must be one metric; found {len(metrics)}")
    require_scipy()

    schema = schema_of(log)
    _, columns = columns_of_runs(log, {**roles, "by": by, "cluster": cluster}, optional=())
    groups, units = columns.by, columns.roles["cluster"]
    for column in {*groups} & {*units}:
        raise used_twice(column, "by", "cluster")
    free(groups, [*_PROCEDURES, *_CURVE])
    others = [*columns.keys, str(columns.doc), columns.score, columns.label]
    free(others, [CANDIDATE, PROCEDURE], "query")
    # Groups are tuned one by one, without the columns of their keys, which may be null.
    columns = columns._replace(by=())
    tuning = Log(columns, roles["run"], metrics[0], choices, units, conventions)
    # The plans check the parameters that are left.
    read = [*columns.pair, columns.score, columns.label]
    empty = pl.LazyFrame(schema={CANDIDATE: pl.UInt32, **{name: schema[name] for name in read}})
    values = per_query(empty, tuning.metric, by=CANDIDATE, **tuning.names, conventions=conventions)
    variables(schema_of(values), metrics, "metric")
    aggregate = conventions.aggregate(metrics[0])
    if aggregate != "mean":
        kind = {"geometric": "geometric mean"}.get(aggregate, aggregate)
        raise ArgumentError(
            f"`metric` must be a mean over queries; {tuning.variable.name!r} is a {kind}"
        )
    if conventions.counts_as(metrics[0]) == "null":
        raise ArgumentError(
            "`undefined` of `conventions` must be 'zero', 'one' or 'skip'; found 'null'"
        )
    return tuning, groups


def _by_group(
    log: pl.LazyFrame,
    tuning: Log,
    by: tuple[str, ...],
    table: Callable[[Log], pl.DataFrame],
    schema: Mapping[str, Any],
) -> pl.LazyFrame:
    """Return the tables of all groups. The log is read into memory when they are collected.

    They are a source and not a callback of a plan, because other plans are collected.
    """
    columns, types = tuning.columns, schema_of(log)
    read = [*by, *columns.pair, tuning.run, columns.score, columns.label, *tuning.cluster]
    rows = log.select([*dict.fromkeys(read)])
    schema = pl.Schema({**{name: types[name] for name in by}, **schema})

    def tables() -> Iterator[pl.DataFrame]:
        everything = rows.collect(engine="streaming")
        groups = everything.sort(by, maintain_order=True).partition_by(by) if by else [everything]
        for group in groups:
            key = group.select(by).head(1)
            try:
                of_group = table(replace(tuning, rows=group.drop(by)))
            except DataError as error:
                if not by:
                    raise
                raise DataError(f"{error}; in the group {key.row(0, named=True)}") from None
            yield key.join(of_group, how="cross") if by else of_group

    def source(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        _batch_size: int | None,
    ) -> Iterator[pl.DataFrame]:
        yield from requested(tables(), with_columns, predicate, n_rows)

    return register_io_source(source, schema=schema, explain_name="TUNING OF A FUSION")


def _procedures(folds: Folds) -> pl.DataFrame:
    """Return one row per procedure of a group."""
    log = folds.log
    runs = log.runs
    values = folds.held_out()
    means = _summary(folds.corrected(values), log, PROCEDURE)
    lower = log.variable.lower_is_better
    singles = means.filter(pl.col(PROCEDURE).is_in(runs)).drop_nulls("mean")
    if singles.is_empty():
        raise DataError("`metric` is undefined for all queries of all runs")
    best = singles.sort("mean", PROCEDURE, descending=[not lower, False])[PROCEDURE][0]
    differences = _differences(folds, values, best)
    unweighted = str(log.choices.unweighted(runs))
    texts = [str(log.candidates[number]) for number in (folds.winner, *folds.chosen)]
    order = pl.DataFrame(
        {
            PROCEDURE: [TUNED, UNWEIGHTED, *runs],
            "method": [texts[0], unweighted, *[None] * len(runs)],
            "by_fold": [texts[1:], *[None] * (1 + len(runs))],
        },
        {name: _PROCEDURES[name] for name in (PROCEDURE, "method", "by_fold")},
    )
    return (
        order.join(means, on=PROCEDURE, how="left", maintain_order="left")
        .join(differences, on=PROCEDURE, how="left", maintain_order="left")
        .join(_unjudged(folds, best), on=PROCEDURE, how="left", maintain_order="left")
        .select(pl.col(name).cast(dtype) for name, dtype in _PROCEDURES.items())
    )


def _differences(folds: Folds, values: pl.DataFrame, best: str) -> pl.DataFrame:
    """Return the differences of the procedures from the best single run.

    "tuned" often has all weight on one run. There is nothing to test then, or to warn about.
    """
    log = folds.log
    value = log.variable.value
    of_best = values.filter(pl.col(PROCEDURE) == best).select(*log.keys, value.alias(_BEST))
    is_equal = value.eq_missing(pl.col(_BEST)).all()
    equal = (
        values.join(of_best, on=log.keys, how="left", nulls_equal=True)
        .group_by(PROCEDURE)
        .agg(is_equal.alias(_EQUAL))
        .filter(_EQUAL, pl.col(PROCEDURE) != best)
        .get_column(PROCEDURE)
    )
    if TUNED not in equal:
        values = folds.corrected(values, best)
    tested = compare(
        _counted(values, log), log.metric.alias(log.variable.name), baseline=best, run=PROCEDURE,
        query=log.keys, cluster=log.cluster or None, correction=False,
    ).select(PROCEDURE, "difference", "low", "high", "p_value")  # fmt: skip
    tested = _within_range(tested, log, is_difference=True)
    return tested.rename({"low": "difference_low", "high": "difference_high"})


def _within_range(table: pl.DataFrame, log: Log, *, is_difference: bool = False) -> pl.DataFrame:
    """Return intervals that do not leave the range of the metric, as corrected values may."""
    if (known := log.variable.bounds) is None:
        return table
    low, high = known
    ends = (low - high, high - low) if is_difference else known
    return table.with_columns(pl.col("low", "high").clip(*ends))


def _unjudged(folds: Folds, best: str) -> pl.DataFrame:
    """Return the number of unjudged documents, and whether their labels may reverse an order."""
    log, documents = folds.log, folds.documents()
    at = cutoff(log.metric)
    is_top = pl.col("rank").is_not_null() if at is None else pl.col("rank") <= at
    conventions = named(log.conventions)
    every = conventions.but(unjudged="nonrelevant")
    count = (pl.col(log.columns.label).is_null() & is_top).sum().alias(_UNJUDGED)
    counts = (
        per_query(documents, count, by=PROCEDURE, **log.names, conventions=every)
        .group_by(PROCEDURE)
        .agg(pl.col(_UNJUDGED).sum())
    )
    bounds = None
    if conventions.unjudged != "removed":
        names = {"by": PROCEDURE, **log.names}
        bounds = known_bounds(documents.lazy(), log.metric, **names, conventions=conventions)
    if bounds is None:
        return counts.with_columns(reversible=pl.lit(None, dtype=pl.Boolean))
    limits = {name: (low, high) for name, low, high in
              bounds.select(PROCEDURE, "low", "high").iter_rows()}  # fmt: skip

    def reversible(name: str) -> bool | None:
        (low, high), (other_low, other_high) = limits[name], limits[TUNED if name == best else best]
        if None in (low, high, other_low, other_high):
            return None
        has_unjudged = low < high or other_low < other_high
        return bool(has_unjudged and low <= other_high and other_low <= high)

    flags = pl.DataFrame(
        {PROCEDURE: [*limits], "reversible": [reversible(name) for name in limits]},
        {PROCEDURE: pl.String, "reversible": pl.Boolean},
    )
    return counts.join(flags, on=PROCEDURE)


def _curve(log: Log) -> pl.DataFrame:
    """Return one row per candidate of a group."""
    numbers = range(len(log.candidates))
    means = pl.concat(_summary(values, log, CANDIDATE) for values in log.values(numbers))
    texts = pl.DataFrame(
        {CANDIDATE: numbers, "method": [*map(str, log.candidates)]},
        {CANDIDATE: pl.UInt32, "method": pl.String},
    )
    return (
        texts.join(means, on=CANDIDATE, how="left", maintain_order="left")
        .select(pl.col(name).cast(dtype) for name, dtype in _CURVE.items())
    )  # fmt: skip


def _summary(values: pl.DataFrame, log: Log, run: str) -> pl.DataFrame:
    """Return the mean of each run with its interval."""
    table = summarize(
        _counted(values, log), log.metric.alias(log.variable.name), run=run, query=log.keys,
        cluster=log.cluster or None,
    ).select(run, "metric", "mean", "low", "high", "queries")  # fmt: skip
    return _within_range(table, log)


def _counted(values: pl.DataFrame, log: Log) -> pl.DataFrame:
    """Return the values that count, with the columns of runs and queries."""
    kept = [run for run in (PROCEDURE, CANDIDATE) if run in values.columns]
    if log.cluster:
        values = values.join(log.clusters, on=log.keys, how="left", nulls_equal=True)
    return values.select(*dict.fromkeys((*kept, *log.keys, *log.cluster)), log.variable.value)
