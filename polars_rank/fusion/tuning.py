"""`tune_fusion` and `fusion_curve`: the choice of a fusion, and its mean on held-out queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from polars_rank._docstrings import described_by
from polars_rank._params import (
    OWN,
    Names,
    find_columns,
    free,
    integer,
    names,
    one_of,
    share,
    used_twice,
    whole_number,
)
from polars_rank.columns import Rel, without_run
from polars_rank.conventions import (
    POLARS_RANK,
    Conventions,
    QuerySet,
    Ties,
    Undefined,
    Unjudged,
    named,
    read_metrics,
)
from polars_rank.diagnostics.bounds import known_bounds
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.evaluate import per_query
from polars_rank.frames.batches import requested
from polars_rank.frames.tables import framed_table, schema_of
from polars_rank.fusion.candidates import Candidates, Choices
from polars_rank.fusion.fuse import columns_of_runs, fuse
from polars_rank.fusion.methods import Method, Missing
from polars_rank.fusion.parameters import RANK_CONSTANT, Engine
from polars_rank.fusion.procedures import (
    CANDIDATE,
    PROCEDURE,
    TUNED,
    UNWEIGHTED,
    Folds,
    Log,
    Tuning,
    clusters,
    variable,
)
from polars_rank.fusion.scales import Normalization
from polars_rank.io.parquet import memory_bytes
from polars_rank.metrics.metric import cutoff
from polars_rank.stats._arrays import special
from polars_rank.stats.comparison import compare
from polars_rank.stats.summary import summarize

#: Column of the values that count, whose name is that of no metric.
_VALUE = "value"
_UNJUDGED, _BEST, _EQUAL = "unjudged", OWN + "best", OWN + "equal"
_DIFFERENCES = ("difference", "difference_low", "difference_high", "p_value")
_PROCEDURES: dict[str, Any] = {
    "metric": pl.String(),
    PROCEDURE: pl.String(),
    **dict.fromkeys(("mean", "low", "high", *_DIFFERENCES), pl.Float64()),
    "queries": pl.Int64(),
    _UNJUDGED: pl.Int64(),
    "reversible": pl.Boolean(),
    "parameters": pl.String(),
    "by_fold": pl.List(pl.String),
}
_CURVE: dict[str, Any] = {
    "metric": pl.String(),
    CANDIDATE: pl.UInt32(),
    **dict.fromkeys(("mean", "low", "high"), pl.Float64()),
    "queries": pl.Int64(),
    "parameters": pl.String(),
}


@described_by(fuse)
@framed_table
def tune_fusion(
    frame: pl.LazyFrame,
    metric: str | pl.Expr,
    *,
    candidates: Candidates = 0.1,
    method: Method = "rrf",
    run: str = "run",
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
    by: Names | None = None,
    k: float = RANK_CONSTANT,
    normalize: Normalization | None = None,
    missing: Missing | None = None,
    constant: float | None = None,
    gamma: float | None = None,
    phi: float | None = None,
    ddof: int = 0,
    window: int | None = None,
    engine: Engine | None = None,
    ties: Ties | None = None,
    folds: int = 5,
    max_candidates: int = 1000,
    cluster: Names | None = None,
    confidence: float = 0.95,
    rel: Rel | None = None,
    unjudged: Unjudged | None = None,
    query_set: QuerySet | None = None,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
    seed: int = 0,
    memory: str | int | None = None,
) -> pl.LazyFrame:
    r"""Choose the parameters of a fusion, and report its mean on held-out queries.

    The queries are divided into folds. For each fold, the candidate with the best mean over the
    queries of the other folds is chosen:

    $$c_f = \arg\max_c \frac{1}{|Q \setminus Q_f|} \sum_{q \in Q \setminus Q_f} x_{cq}, \qquad
    \mathrm{mean} = \frac{1}{|Q|} \sum_f \sum_{q \in Q_f} x_{c_f q}$$

    $x_{cq}$ is the metric of the query q for the fusion with the candidate c. The mean of "tuned"
    is therefore over queries on which its parameters were not chosen.

    Parameters
    ----------
    frame
        Long table of at least two runs, with a row per run, query and document. A document without
        a score was judged, but not retrieved. A label counts for the document in all runs.
    metric
        Metric to optimize: a name, a metric such as `pr.ndcg(10)`, or an expression. Higher is
        better, except for metrics of which a lower mean is better.
    candidates
        What is tuned: a step of weights, such as 0.1, for all weights of the runs that are
        multiples of the step and have the sum 1; or a list of dictionaries of parameters of `fuse`,
        such as `[{"k": 10}, {"method": "sum", "normalize": "min_max"}]`, which override those of
        the call. A step needs a method with weights. 0.1 is 11 candidates for two runs, 66 for
        three, and 286 for four.
    method, run, query, doc, score, label
        As in `fuse`.
    by
        Columns that split the table, such as the language. Each group is tuned by itself.
    k, normalize, missing, constant, gamma, phi, ddof, window, engine
        As in `fuse`.
    ties
        Order of documents with equal scores, in the runs and in their fusion: "doc" (id descending)
        or "doc_ascending". Default: "doc" in the runs, and that of the conventions in rankings that
        are evaluated.
    folds
        Number of folds, 2 or more. A hash of the query and of `seed` decides which queries are in
        which fold.
    max_candidates
        Maximum number of candidates.
    cluster
        Columns that identify the sampling unit if it is not the query, e.g. user. The queries of a
        cluster are in the same fold, and intervals are about clusters. A query with a null cluster
        forms its own cluster.
    confidence
        Confidence level of the intervals, between 0 and 1.
    rel
        Lowest relevant label, or "opensearch" (see `Conventions`). Default: 1.
    unjudged
        Treatment of retrieved documents without a label: "nonrelevant" (default), or "removed"
        from the ranking before ranks are computed.
    query_set, undefined, conventions
        Queries that count, how undefined values count, and metric definitions to use, as in
        `evaluate`. `undefined` must not be "null".
    seed
        Random seed of the folds. The same seed gives the same folds for any order of rows.
    memory
        Memory for the rankings that are evaluated at the same time, in bytes or as text such as
        "2GB". Default: 500 MB, or a quarter of the machine's memory if that is less. The table is
        in memory, too.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. For each group, one row per procedure: "tuned", "unweighted" (the
        parameters of the call with equal weights), and each single run. The columns are those of
        `by`, and

        - `metric`, `procedure`;
        - `mean`, `low`, `high`: mean over the queries, which are held out for "tuned", and its
          confidence interval, as in `summarize`, corrected for "tuned" (see Notes);
        - `difference`, `difference_low`, `difference_high`, `p_value`: difference from the best
          single run, paired by query, with its confidence interval and p-value, as in `compare`;
          null for that run. If all values are equal to those of that run, as with all weight on it,
          the interval is null, and the p-value 1;
        - `queries`: number of queries with a value;
        - `unjudged`: number of documents without a label up to the metric's cutoff, in all rankings
          of the procedure; for "tuned", of the fusion with `parameters`;
        - `reversible`: false if no labels of unjudged documents can reverse the order of the
          procedure and the best single run; for that run, of it and "tuned". Otherwise, their
          bounds overlap, as in `judgment_bounds` over the documents of all procedures. Null if the
          metric has no bounds, or if unjudged documents are removed;
        - `parameters`: for "tuned", the parameters chosen on all queries, and for "unweighted" its
          parameters, as JSON: `pr.fuse(frame, **json.loads(parameters))`. Null for single runs;
        - `by_fold`: for "tuned", the parameters chosen for each fold, as JSON.

    Raises
    ------
    SchemaError
        If a column is missing or has a wrong type.
    DataError
        As for `fuse`, and if there are no labels, fewer queries or clusters than folds, or a query
        in several clusters. A lazy result raises it when it is collected.
    ArgumentError
        For an invalid parameter, a metric that is no mean, and more candidates than
        `max_candidates`. With a step of weights, a lazy result raises the latter when it is
        collected, as the runs are then known.
    MissingExtraError
        scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        As for `summarize` and `compare`.

    Notes
    -----
    All procedures are evaluated on the same queries, with the same judgments: a run without rows
    for a query has retrieved nothing for it. Of candidates with equal means, the first is chosen;
    those of a step begin with all weight on the first run, by name. A run with weight 0 takes part,
    as in `fuse`: its documents fill rankings in which the other runs have few. To compare with a
    fusion that leaves the run out, drop its rows. Points of documents do not depend on weights, so
    they are computed once.

    The best single run is the one with the highest mean over all queries, so its mean is slightly
    too high, and the difference slightly too low. The result for "tuned" is about the procedure:
    to tune on (folds - 1) / folds of as many queries.

    The means of two folds are correlated, because the queries of each fold take part in the choice
    for the other one. For the intervals and the p-value of "tuned", this correlation is taken to be
    1 / folds, the share of queries that are held out, as proposed by Nadeau & Bengio: the variance
    of the mean, and of the mean difference, is that of independent values times
    $1 + (\mathrm{folds} - 1) / \mathrm{folds}$. Intervals are those of means, also for metrics that
    are 0 or 1.

    In simulations with 40 and 200 queries, 5 folds and weights of three runs, 95% intervals
    contained the true mean in 97% of logs if all weights were equally good, and in 98% to 99% if
    the runs differed; without the correction, in 90% and 94%. The correction is too small for many
    candidates that are independent of each other and equally good: with 100 of them, 92% of the
    intervals contained the mean, and 87% with 10 folds.

    References
    ----------
    Stone, Cross-validatory choice and assessment of statistical predictions, 1974.
    Nadeau & Bengio, Inference for the generalization error, 2003.
    Varma & Simon, Bias in error estimation when using cross-validation for model selection, 2006.

    Examples
    --------
    >>> names = ["tfidf", "lm", "bm25", "dense"]
    >>> log = pr.datasets.search_log(400, 30, runs=names, seed=3)
    >>> runs = log.filter(pl.col("run").is_in(["bm25", "dense"])).collect()
    >>> options = {"method": "sum", "normalize": "min_max"}
    >>> table = pr.tune_fusion(runs, "ndcg@10", **options)
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
    >>> table["parameters"][0]
    '{"weights": {"bm25": 0.2, "dense": 0.8}, "method": "sum", "normalize": "min_max"}'
    """
    by = without_run(names("by", by), run)
    parameters = {name: value for name, value in locals().items() if name != "frame"}
    integer("folds", folds, 2)
    tuning, by_columns = _tuning(frame, parameters)

    def table(log: Log) -> pl.DataFrame:
        return _procedures(Folds(log, folds, seed), confidence)

    return _by_group(frame, tuning, by_columns, table, _PROCEDURES)


@described_by(tune_fusion)
@framed_table
def fusion_curve(
    frame: pl.LazyFrame,
    metric: str | pl.Expr,
    *,
    candidates: Candidates = 0.1,
    method: Method = "rrf",
    run: str = "run",
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
    by: Names | None = None,
    k: float = RANK_CONSTANT,
    normalize: Normalization | None = None,
    missing: Missing | None = None,
    constant: float | None = None,
    gamma: float | None = None,
    phi: float | None = None,
    ddof: int = 0,
    window: int | None = None,
    engine: Engine | None = None,
    ties: Ties | None = None,
    folds: int = 5,
    max_candidates: int = 1000,
    cluster: Names | None = None,
    confidence: float = 0.95,
    rel: Rel | None = None,
    unjudged: Unjudged | None = None,
    query_set: QuerySet | None = None,
    undefined: Undefined | Mapping[str, Undefined] | None = None,
    conventions: Conventions | str = POLARS_RANK,
    seed: int = 0,
    memory: str | int | None = None,
) -> pl.LazyFrame:
    """Return the mean of each candidate for a fusion over all queries.

    The highest of these means is too high: it is the mean of the candidate that fits these queries
    best, and other queries will have a lower one. Report the held-out mean of `tune_fusion`.

    Parameters
    ----------
    frame, metric, candidates, method, run, query, doc, score, label, by
        As in `tune_fusion`.
    k, normalize, missing, constant, gamma, phi, ddof, window, engine, ties
        As in `tune_fusion`.
    folds, seed
        Not used, because no query is held out. They are accepted, so that the same arguments are
        valid for `tune_fusion`.
    max_candidates
        As in `tune_fusion`.
    cluster
        Columns that identify the sampling unit if it is not the query, e.g. user. A query with a
        null cluster forms its own cluster.
    confidence, rel, unjudged, query_set, undefined, conventions, memory
        As in `tune_fusion`.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `frame`. One row per group and candidate, with the columns of `by`, and

        - `metric`;
        - `candidate`: number of the candidate, from 0. Those of a step begin with all weight on
          the first run, by name;
        - `mean`, `low`, `high`: mean over all queries and its confidence interval, as in
          `summarize`, which does not account for the choice of a candidate by its mean;
        - `queries`: number of queries with a value;
        - `parameters`: parameters of `fuse`, as JSON.

    Raises
    ------
    SchemaError, DataError, ArgumentError, MissingExtraError
        As for `tune_fusion`.

    Warns
    -----
    RankWarning
        As for `summarize`.

    Examples
    --------
    >>> names = ["tfidf", "lm", "bm25", "dense"]
    >>> log = pr.datasets.search_log(400, 30, runs=names, seed=3)
    >>> runs = log.filter(pl.col("run").is_in(["bm25", "dense"])).collect()
    >>> options = {"method": "sum", "normalize": "min_max"}
    >>> curve = pr.fusion_curve(runs, "ndcg@10", **options)
    >>> curve.select("candidate", "mean", "low", "high").tail(4)
    shape: (4, 4)
    ┌───────────┬──────────┬──────────┬──────────┐
    │ candidate ┆ mean     ┆ low      ┆ high     │
    │ ---       ┆ ---      ┆ ---      ┆ ---      │
    │ u32       ┆ f64      ┆ f64      ┆ f64      │
    ╞═══════════╪══════════╪══════════╪══════════╡
    │ 7         ┆ 0.737746 ┆ 0.70843  ┆ 0.765139 │
    │ 8         ┆ 0.737764 ┆ 0.708359 ┆ 0.765254 │
    │ 9         ┆ 0.737551 ┆ 0.708093 ┆ 0.765094 │
    │ 10        ┆ 0.730108 ┆ 0.700886 ┆ 0.757462 │
    └───────────┴──────────┴──────────┴──────────┘
    """
    by = without_run(names("by", by), run)
    parameters = {name: value for name, value in locals().items() if name != "frame"}
    integer("folds", folds, 2)
    tuning, by_columns = _tuning(frame, parameters)
    return _by_group(frame, tuning, by_columns, lambda log: _curve(log, confidence), _CURVE)


#: The parameters of `fuse` that a candidate may have, besides weights.
_OF_FUSION = (
    "method", "k", "normalize", "missing", "constant", "gamma", "phi", "ddof", "window", "engine"
)  # fmt: skip
_OF_METRIC = ("rel", "unjudged", "query_set", "undefined", "conventions")


def _tuning(frame: pl.LazyFrame, given: Mapping[str, Any]) -> tuple[Tuning, tuple[str, ...]]:
    """Return checked parameters, and the columns of groups; nothing is read."""
    whole_number("max_candidates", given["max_candidates"])
    integer("seed", given["seed"])
    share("confidence", given["confidence"])
    one_of("ties", given["ties"], (None, "doc", "doc_ascending"))
    choices = Choices.of(
        given["candidates"], given["max_candidates"], {name: given[name] for name in _OF_FUSION}
    )
    metrics = read_metrics(given["metric"], given["conventions"], "metric")
    if len(metrics) != 1:
        raise ArgumentError(f"`metric` must be one metric; found {len(metrics)}")
    special()

    schema = schema_of(frame)
    by, cluster = names("by", given["by"]), names("cluster", given["cluster"])
    roles = {name: given[name] for name in ("run", "query", "doc", "score", "label")}
    columns = columns_of_runs(schema, **roles, by=by)
    find_columns(schema, {"cluster": cluster}, ids=["cluster"])
    own = {"run": [given["run"]], "doc": [columns.doc], "score": [columns.score], "by": by}
    for parameter, taken in {**own, "label": [columns.label]}.items():
        for column in {*taken} & {*cluster}:
            raise used_twice(str(column), parameter, "cluster")
    free(by, [*_PROCEDURES, *_CURVE])
    others = [*columns.keys, str(columns.doc), columns.score, columns.label]
    free(others, [CANDIDATE, PROCEDURE], "query")
    # Groups are tuned one by one, without the columns of their keys, which may be null.
    columns = columns_of_runs(schema, **roles, by=None)
    tuning = Tuning(
        columns, given["run"], metrics[0], choices, cluster, given["ties"],
        {name: given[name] for name in _OF_METRIC}, memory_bytes(given["memory"]),
    )  # fmt: skip
    # The plans check the parameters that are left.
    read = [*columns.pair, columns.score, columns.label]
    empty = pl.LazyFrame(schema={CANDIDATE: pl.UInt32, **{name: schema[name] for name in read}})
    values = per_query(empty, tuning.metric, by=CANDIDATE, **tuning.names, **tuning.options)
    variable(schema_of(values), tuning.metric, tuning.definitions)
    return tuning, by


def _by_group(
    frame: pl.LazyFrame,
    tuning: Tuning,
    by: tuple[str, ...],
    table: Callable[[Log], pl.DataFrame],
    schema: Mapping[str, Any],
) -> pl.LazyFrame:
    """Return the tables of all groups. The log is read into memory when they are collected.

    They are a source and not a callback of a plan, because other plans are collected.
    """
    columns, types = tuning.columns, schema_of(frame)
    read = [*by, *columns.pair, tuning.run, columns.score, columns.label, *tuning.cluster]
    rows = frame.select([*dict.fromkeys(read)])
    schema = pl.Schema({**{name: types[name] for name in by}, **schema})

    def tables() -> Iterator[pl.DataFrame]:
        log = rows.collect(engine="streaming")
        for group in log.sort(by, maintain_order=True).partition_by(by) if by else [log]:
            key = group.select(by).head(1)
            try:
                of_group = table(Log(tuning, group.drop(by)))
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


def _procedures(folds: Folds, confidence: float) -> pl.DataFrame:
    """Return one row per procedure of a group."""
    log = folds.log
    tuning, runs = log.tuning, log.runs
    values = _clustered(folds.held_out(), log)
    means = _summary(folds.corrected(values), tuning, PROCEDURE, confidence)
    lower = tuning.variable(values).lower_is_better
    singles = means.filter(pl.col(PROCEDURE).is_in(runs)).drop_nulls("mean")
    if singles.is_empty():
        raise DataError("`metric` is undefined for all queries of all runs")
    best = singles.sort("mean", PROCEDURE, descending=[not lower, False])[PROCEDURE][0]
    differences = _differences(folds, values, best, confidence)
    unweighted = tuning.choices.unweighted(runs).text
    texts = [log.candidates[number].text for number in (folds.winner, *folds.chosen)]
    order = pl.DataFrame(
        {
            PROCEDURE: [TUNED, UNWEIGHTED, *runs],
            "parameters": [texts[0], unweighted, *[None] * len(runs)],
            "by_fold": [texts[1:], *[None] * (1 + len(runs))],
        },
        {name: _PROCEDURES[name] for name in (PROCEDURE, "parameters", "by_fold")},
    )
    return (
        order.join(means, on=PROCEDURE, how="left", maintain_order="left")
        .join(differences, on=PROCEDURE, how="left", maintain_order="left")
        .join(_unjudged(folds, best), on=PROCEDURE, how="left", maintain_order="left")
        .select(pl.col(name).cast(dtype) for name, dtype in _PROCEDURES.items())
    )


def _differences(folds: Folds, values: pl.DataFrame, best: str, confidence: float) -> pl.DataFrame:
    """Return the differences of the procedures from the best single run.

    "tuned" often has all weight on one run. There is nothing to test then, or to warn about.
    """
    tuning = folds.log.tuning
    value = tuning.variable(values).value
    of_best = values.filter(pl.col(PROCEDURE) == best).select(*tuning.keys, value.alias(_BEST))
    is_equal = value.eq_missing(pl.col(_BEST)).all()
    equal = (
        values.join(of_best, on=tuning.keys, how="left", nulls_equal=True)
        .group_by(PROCEDURE)
        .agg(is_equal.alias(_EQUAL))
        .filter(_EQUAL, pl.col(PROCEDURE) != best)
        .get_column(PROCEDURE)
    )
    if TUNED not in equal:
        values = folds.corrected(values, best)
    tested = compare(
        _counted(values, tuning), _VALUE, baseline=best, run=PROCEDURE, query=tuning.keys,
        cluster=tuning.cluster or None, confidence=confidence, correction=False,
    ).select(PROCEDURE, "difference", "low", "high", "p_value")  # fmt: skip
    return tested.rename({"low": "difference_low", "high": "difference_high"})


def _unjudged(folds: Folds, best: str) -> pl.DataFrame:
    """Return the number of unjudged documents, and whether their labels may reverse an order."""
    tuning, documents = folds.log.tuning, folds.documents()
    at = cutoff(tuning.metric)
    is_top = pl.col("rank").is_not_null() if at is None else pl.col("rank") <= at
    options = {name: each for name, each in tuning.options.items() if name != "unjudged"}
    of_count = {**options, "unjudged": "nonrelevant", "undefined": None}
    count = (pl.col(tuning.columns.label).is_null() & is_top).sum().alias(_UNJUDGED)
    counts = (
        per_query(documents, count, by=PROCEDURE, **tuning.names, **of_count)
        .group_by(PROCEDURE)
        .agg(pl.col(_UNJUDGED).sum())
    )
    conventions = named(options["conventions"]).but(unjudged=tuning.options["unjudged"])
    bounds = None
    if conventions.unjudged != "removed":
        names = {"by": PROCEDURE, **tuning.names}
        bounds = known_bounds(documents.lazy(), tuning.metric, **names, **options)
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


def _curve(log: Log, confidence: float) -> pl.DataFrame:
    """Return one row per candidate of a group."""
    numbers = range(len(log.candidates))
    means = pl.concat(
        _summary(_clustered(values, log), log.tuning, CANDIDATE, confidence)
        for values in log.values(numbers)
    )
    texts = pl.DataFrame(
        {CANDIDATE: numbers, "parameters": [each.text for each in log.candidates]},
        {CANDIDATE: pl.UInt32, "parameters": pl.String},
    )
    return (
        texts.join(means, on=CANDIDATE, how="left", maintain_order="left")
        .select(pl.col(name).cast(dtype) for name, dtype in _CURVE.items())
    )  # fmt: skip


def _summary(values: pl.DataFrame, tuning: Tuning, run: str, confidence: float) -> pl.DataFrame:
    """Return the mean of each run with its interval."""
    name = tuning.variable(values).name
    return summarize(
        _counted(values, tuning), _VALUE, run=run, query=tuning.keys,
        cluster=tuning.cluster or None, confidence=confidence, details=True,
    ).select(
        run, pl.lit(name).alias("metric"), "mean", "low", "high", pl.col("used").alias("queries")
    )  # fmt: skip


def _counted(values: pl.DataFrame, tuning: Tuning) -> pl.DataFrame:
    """Return the values that count as the column `_VALUE`, with the columns of runs and queries."""
    kept = [run for run in (PROCEDURE, CANDIDATE) if run in values.columns]
    value = tuning.variable(values).value.alias(_VALUE)
    return values.select(*dict.fromkeys((*kept, *tuning.keys, *tuning.cluster)), value)


def _clustered(values: pl.DataFrame, log: Log) -> pl.DataFrame:
    """Return per-query values with the clusters of queries."""
    if not log.tuning.cluster:
        return values
    return values.join(clusters(log), on=log.tuning.keys, how="left", nulls_equal=True)
