"""`tune_fusion`: the choice of a fusion, and its mean on held-out queries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, Unpack

import polars as pl

from polars_rank._params import Names, free, integer, is_number, used_twice
from polars_rank.conventions import POLARS_RANK, ConventionsLike, Definitions, named, read_metrics
from polars_rank.errors import ArgumentError, DataError, short
from polars_rank.evaluation.evaluate import per_query
from polars_rank.frames.tables import framed, schema_of
from polars_rank.fusion.cross_validation import (
    CANDIDATE,
    PROCEDURE,
    TUNED,
    UNWEIGHTED,
    CrossValidation,
)
from polars_rank.fusion.fuse import columns_of_runs
from polars_rank.fusion.methods import Fusion, read_fusion
from polars_rank.metrics.names import lower_is_better, output_name
from polars_rank.stats._arrays import require_scipy
from polars_rank.stats.comparison import compare
from polars_rank.stats.result_columns import deferred
from polars_rank.stats.summary import summarize
from polars_rank.stats.value_columns import variables

#: One method, whose weights are tuned, or several methods.
Candidates: TypeAlias = "str | Fusion | Sequence[str | Fusion]"

#: The default step of the weights of a method.
_STEP = 0.1
_DIFFERENCES = ("difference", "difference_low", "difference_high", "p_value")
_PROCEDURES: dict[str, Any] = {
    "metric": pl.String(), PROCEDURE: pl.String(),
    **dict.fromkeys(("mean", "low", "high", *_DIFFERENCES), pl.Float64()),
    "queries": pl.Int64(), "method": pl.String(), "by_fold": pl.List(pl.String),
}  # fmt: skip
_CURVE: dict[str, Any] = {
    "metric": pl.String(), CANDIDATE: pl.UInt32(),
    **dict.fromkeys(("mean", "low", "high"), pl.Float64()),
    "queries": pl.Int64(), "method": pl.String(),
}  # fmt: skip


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
    methods, steps = _read_candidates(candidates, step)
    chosen = named(conventions).but(**definitions)
    metrics = read_metrics(metric, chosen, "metric")
    if len(metrics) != 1:
        raise ArgumentError(f"must be one metric; found {len(metrics)}", "metric")
    require_scipy()

    schema = schema_of(log)
    roles = {
        "run": run, "query": query, "doc": doc, "score": score, "label": label, "by": by,
        "cluster": cluster,
    }  # fmt: skip
    _, columns = columns_of_runs(log, roles, optional=())
    groups, units = columns.by, columns.roles["cluster"]
    for column in {*groups} & {*units}:
        raise used_twice(column, "by", "cluster")
    free(groups, [*_PROCEDURES, *_CURVE])
    of_rankings = [*columns.keys, str(columns.doc), columns.score, columns.label]
    free(of_rankings, [CANDIDATE, PROCEDURE], "query")
    # Groups are tuned one by one, without the columns of their keys, which may be null.
    columns = columns._replace(by=())
    tuning = CrossValidation(columns, run, metrics[0], methods, steps, units, folds, chosen)
    # The plans check the parameters that are left.
    read = [*columns.pair, columns.score, columns.label]
    empty = pl.LazyFrame(schema={CANDIDATE: pl.UInt32, **{name: schema[name] for name in read}})
    values = per_query(empty, metrics[0], by=CANDIDATE, **tuning.names, conventions=chosen)
    variables(schema_of(values), metrics, "metric")
    aggregate = chosen.aggregate(metrics[0])
    if aggregate != "mean":
        kind = {"geometric": "geometric mean"}.get(aggregate, aggregate)
        raise ArgumentError(
            f"must be a mean over queries; {output_name(metrics[0])!r} is a {kind}", "metric"
        )
    if chosen.counts_as(metrics[0]) == "null":
        raise ArgumentError(
            "of `conventions` must be 'zero', 'one' or 'skip'; found 'null'", "undefined"
        )
    table_of, types = (_curve, _CURVE) if curve else (_procedures, _PROCEDURES)
    types = {**{name: schema[name] for name in groups}, **types}
    rows = log.select([*dict.fromkeys([*groups, run, *read, *units])])
    return deferred(lambda: _by_group(rows, groups, tuning, table_of, types), types)


def _read_candidates(
    candidates: Candidates, step: float | None
) -> tuple[Sequence[Fusion], int | None]:
    """Return the methods, and the number of steps of weights from 0 to 1 if weights are tuned."""
    is_one = isinstance(candidates, (str, Fusion))
    if not isinstance(candidates, (Fusion, Sequence)) or not candidates:
        raise ArgumentError(
            "must be a method, such as \"sum(normalize='min_max')\", or a list "
            f"of methods that is not empty; found {short(candidates)}",
            "candidates",
        )
    given: dict[str, Any] = {"`candidates`": candidates}
    if not isinstance(candidates, (str, Fusion)):
        given = {f"`candidates`[{index}]": each for index, each in enumerate(candidates)}
    methods = [read_fusion(each, argument) for argument, each in given.items()]
    if is_one and not methods[0].has_free_weights:
        problem = "already has weights" if methods[0].weights else "has no weights"
        raise ArgumentError(
            "is one method, whose weights would be tuned, but "
            f"{str(methods[0])!r} {problem}; pass a list of methods",
            "candidates",
        )
    if step is None and not is_one:
        for argument, method in zip(given, methods, strict=True):
            method.check_weights(argument)
        return methods, None
    step = _STEP if step is None else step
    steps = round(1 / step) if is_number(step) and 0 < step <= 1 else 0
    if not steps or not math.isclose(steps * step, 1, rel_tol=1e-9):
        raise ArgumentError(
            f"must divide 1, such as 0.1, 0.05 or 0.25; found {short(step)}", "step"
        )
    return methods, steps


def _by_group(
    rows: pl.LazyFrame,
    by: Sequence[str],
    tuning: CrossValidation,
    table_of: Callable[[CrossValidation], pl.DataFrame],
    schema: Mapping[str, Any],
) -> pl.DataFrame:
    """Return the tables of all groups. The log is read into memory."""
    log = rows.collect(engine="streaming")
    tables = [pl.DataFrame(schema=schema)]
    for group in log.sort(by, maintain_order=True).partition_by(by) if by else [log]:
        key = group.select(by).head(1)
        try:
            table = table_of(replace(tuning, rows=group.drop(by)))
        except DataError as error:
            if not by:
                raise
            raise DataError(f"{error}; in the group {key.row(0, named=True)}") from None
        whole = key.join(table, how="cross") if by else table
        tables.append(whole.select(pl.col(name).cast(dtype) for name, dtype in schema.items()))
    return pl.concat(tables)


def _procedures(group: CrossValidation) -> pl.DataFrame:
    """Return one row per procedure of a group."""
    label, runs = group.columns.label, group.runs
    if not group.rows.get_column(label).count():
        raise DataError(f"column {label!r} (`label`) has no labels; join the judgments first")
    values = group.held_out()
    means = _means(group, group.corrected(values), PROCEDURE)
    singles = means.filter(pl.col(PROCEDURE).is_in(runs)).drop_nulls("mean")
    if singles.is_empty():
        raise DataError("`metric` is undefined for all queries of all runs")
    order = [not lower_is_better(group.metric), False]
    best = singles.sort("mean", PROCEDURE, descending=order).item(0, PROCEDURE)
    compared = compare(
        group.corrected(values, best), group.metric, baseline=best, run=PROCEDURE,
        query=group.keys, cluster=group.cluster or None, correction=False,
    )  # fmt: skip
    differences = compared.select(
        PROCEDURE, "difference", "p_value", difference_low="low", difference_high="high"
    )
    texts = [str(group.candidates[number]) for number in (group.best(), *group.chosen)]
    procedures = pl.DataFrame(
        {
            PROCEDURE: [TUNED, UNWEIGHTED, *runs],
            "method": [texts[0], str(group.unweighted), *[None] * len(runs)],
            "by_fold": [texts[1:], *[None] * (1 + len(runs))],
        },
        {name: _PROCEDURES[name] for name in (PROCEDURE, "method", "by_fold")},
    )
    for table in (means, differences):
        procedures = procedures.join(table, on=PROCEDURE, how="left", maintain_order="left")
    return procedures


def _curve(group: CrossValidation) -> pl.DataFrame:
    """Return one row per candidate of a group."""
    numbers = range(len(group.candidates))
    means = pl.concat(_means(group, values, CANDIDATE) for values in group.values(numbers))
    texts = pl.DataFrame(
        {CANDIDATE: numbers, "method": [*map(str, group.candidates)]},
        {CANDIDATE: pl.UInt32, "method": pl.String},
    )
    return texts.join(means, on=CANDIDATE, how="left", maintain_order="left")


def _means(group: CrossValidation, values: pl.DataFrame, run: str) -> pl.DataFrame:
    """Return the mean of each run with its interval."""
    means = summarize(
        values, group.metric, run=run, query=group.keys, cluster=group.cluster or None
    )
    return means.select(run, "metric", "mean", "low", "high", "queries")
