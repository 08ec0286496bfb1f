"""`fidelity`: what approximate, quantized or filtered search loses against exact search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, free, number, share, whole_number
from polars_rank.checks import refuse
from polars_rank.columns import Columns
from polars_rank.conventions import read_metrics
from polars_rank.definitions import Ordering
from polars_rank.diagnostics.pipelines import COUNTS, LEFT, stages
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.means import ratio
from polars_rank.evaluation.ranking import DOC, DOCUMENTS, TIES, retrieved_documents
from polars_rank.frames.ids import key_types
from polars_rank.frames.tables import collected, framed, lazy, schema_of
from polars_rank.io.judgments import cast_keys
from polars_rank.stats.result_columns import ResultColumn, deferred, returning, schema_of_result
from polars_rank.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from polars_rank.evaluation.log import RankingOptions

#: The rank and the score of a document, also in exact search.
_RANK, _SCORE, _EXACT = OWN + "rank", OWN + "value", " in exact search"
_RANKS, _SCORES = pl.col(_RANK), pl.col(_SCORE)
_EXACT_RANKS, _EXACT_SCORES = pl.col(_RANK + _EXACT), pl.col(_SCORE + _EXACT)
#: The latency of a ranking, and facts of its scores.
_TIME, _NEW, _ABOVE, _SIGN = OWN + "latency", OWN + "new", OWN + "above", OWN + "sign"
#: Scores are reversed if the share of such queries is this much larger than that of others.
_MOST = 0.8
FIDELITY = (
    ResultColumn("k", "cutoff", dtype=COUNTS),
    ResultColumn("recall", "mean share of the first k documents of `exact` in those of the run"),
    ResultColumn("low", "lower bound of the confidence interval of `recall`", is_detail=True),
    ResultColumn("high", "upper bound", is_detail=True),
    ResultColumn("recall_by_score", "the same, if scores within `tolerance` of the k-th one count"),
    ResultColumn("short", "queries with fewer documents than k and than `exact`", dtype=COUNTS),
    ResultColumn("missed", "mean share of the first k documents of `exact` that the run lacks"),
    ResultColumn("demoted", "1 - `recall` - `missed`: mean share of those below k in the run"),
    ResultColumn("queries", "number of queries for which `exact` has documents", dtype=COUNTS),
    ResultColumn("latency_mean", "mean latency of queries, if the column exists", only="latency"),
    ResultColumn("latency_p95", "95th percentile of latencies", only="latency"),
    ResultColumn("difference", "mean of `metric` - its mean in `exact`", only="metric"),
    ResultColumn("difference_low", "lower bound of its confidence interval", only="metric"),
    ResultColumn("difference_high", "upper bound", only="metric"),
)  # fmt: skip


@framed
@returning(FIDELITY)
def fidelity(
    exact: pl.LazyFrame,
    approximate: Any,
    k: int | Iterable[int] = 10,
    *,
    tolerance: float | None = 0,
    metric: str | pl.Expr | None = None,
    latency: str = "latency",
    confidence: float = 0.95,
    details: bool = False,
    **options: Unpack[RankingOptions],
) -> pl.LazyFrame:
    """Return what approximate, quantized or filtered search loses against exact search.

    Examples
    --------
    >>> exact = pl.DataFrame({
    ...     "query": 1, "doc": ["a", "b", "c"], "score": [0.9, 0.8, 0.7],
    ... })
    >>> approximate = pl.DataFrame({
    ...     "run": "ef=10", "query": 1, "doc": ["a", "d", "b"],
    ...     "score": [0.9, 0.8, 0.8], "latency": 3.5,
    ... })
    >>> table = pr.diagnostics.fidelity(exact, approximate, k=[2, 3])
    >>> table.select("run", "k", "recall", "recall_by_score", "missed", "demoted")
    shape: (2, 6)
    ┌───────┬─────┬──────────┬─────────────────┬──────────┬─────────┐
    │ run   ┆ k   ┆ recall   ┆ recall_by_score ┆ missed   ┆ demoted │
    │ ---   ┆ --- ┆ ---      ┆ ---             ┆ ---      ┆ ---     │
    │ str   ┆ i64 ┆ f64      ┆ f64             ┆ f64      ┆ f64     │
    ╞═══════╪═════╪══════════╪═════════════════╪══════════╪═════════╡
    │ ef=10 ┆ 2   ┆ 0.5      ┆ 1.0             ┆ 0.0      ┆ 0.5     │
    │ ef=10 ┆ 3   ┆ 0.666667 ┆ 1.0             ┆ 0.333333 ┆ 0.0     │
    └───────┴─────┴──────────┴─────────────────┴──────────┴─────────┘

    Parameters
    ----------
    exact
        The long table of exact search, one ranking per query. Labels are needed for `metric` only.
    approximate
        The long table of the other search, with a run for each setting, such as ``"ef=100"``. A
        query without results is a row with a null document and a null score.
    k
        One or several cutoffs. `exact` must have k documents for some query.
    tolerance
        How far a score may be below the k-th score of `exact` and still count, in units of the
        score. None if scores are not comparable, such as those of binary codes: they are then not
        read, and `recall_by_score` is null.
    metric
        Metric whose change from `exact` is measured. A label counts in both tables, whichever has
        it.
    latency
        Column of the latency in `approximate`, with one value per ranking.
    confidence
        Confidence level of the intervals.
    details
        Whether to add the interval of `recall`.
    **options
        Options of `evaluate` without `weight`, for both tables, such as ``score="-distance"``, and
        `by`, which identifies queries together with `query`. `run` is the column of the setting.

    Returns
    -------
    LazyFrame or DataFrame
        Same type as `exact`. One row per group, run and cutoff, in this order, with the columns of
        `by` and `run`, and

        {columns}

    Raises
    ------
    DataError
        The tables have different queries; `exact` has several runs, or fewer than k documents for
        all queries; scores have different directions or scales; or a ranking has several latencies.
    MissingExtraError
        scipy is not installed (extra "stats"), with `details` or `metric`. Raised when the result
        is collected.

    See Also
    --------
    overlap : Similarity of two rankings, neither of which is exact.

    Notes
    -----
    If `exact` has fewer than k documents for a query, they all count, and shares are of their
    number. Without any, the query does not count, except in latencies. All documents with the k-th
    score of `exact` count for `recall_by_score`. The score of a document is that in `exact` if it
    has the document, otherwise that of the run. Equal scores are in the order of ids; `ties` may be
    "doc_ascending" or "input".

    If all documents of a run are in its first k, none is demoted: retrieve more than k to see which
    losses a reranker could repair.

    A direction is wrong if, in 9 of 10 queries with at least three documents in both tables, their
    scores are negatively correlated, or they are in the lower half of `exact` on average. Scales
    differ, or both tables have distances, if most documents that `exact` does not have exceed its
    highest score by more than `tolerance`. Both tables are held in memory.

    References
    ----------
    Aumüller, Bernhardsson & Faithfull, ANN-Benchmarks: a benchmarking tool for approximate nearest
    neighbor algorithms, 2017 (recall by distance).
    """
    if not (ks := [whole_number("k", n) for n in ([*k] if isinstance(k, Iterable) else [k])]):
        raise ArgumentError("is empty", "k")
    share("confidence", confidence)
    if tolerance is not None and number("tolerance", tolerance) < 0:
        raise ArgumentError(f"must be 0 or more, or None; found {tolerance!r}", "tolerance")
    given: dict[str, Any] = {"query": "query", "doc": "doc", "score": "score", "run": "run"}
    given = {n: options.get(n, given.get(n)) for n in (*given, "by", "position")}
    allowed = None if given["position"] is not None else tolerance
    own_run = given["run"] if given["run"] in schema_of(exact) else None
    exact, known = Columns.read(exact, {**given, "run": own_run})
    other, columns = Columns.read(
        lazy(approximate, "approximate"), {**given, "latency": latency}, optional=("run", "latency")
    )
    keys, runs = [*columns.groups, *columns.query], [] if columns.run is None else [columns.run]
    parts, doc, time = [*columns.groups, *runs], str(columns.doc), columns.one("latency")
    rankings, cutoffs = [*parts, *columns.query], [*parts, "k"]
    read = [*rankings, doc, columns.score, options.get("label", "label"), time]
    if metric is not None:
        read_metrics(metric, options.get("conventions"), "metric")
        Columns.find(pl.Schema(known.schema | columns.schema), {"label": read[-2]})
    side = "side".ljust(1 + max(map(len, rankings)), "_")  # the name of no column
    types = key_types(known.schema, columns.schema, [*keys, doc], ("`exact`", "`approximate`"))
    free(rankings, schema_of_result(FIDELITY))
    own: Any = {"score": columns.score, "position": None}
    given |= {"by": [*parts, side], "run": None, "label": None, **own}
    only = {None, "latency" if time else None, None if metric is None else "metric"}
    shown = [each for each in FIDELITY if each.only in only and (details or not each.is_detail)]
    schema = {name: columns.schema[name] for name in parts} | schema_of_result(shown)

    def result() -> pl.DataFrame:
        first, second = (collected(cast_keys(table, types)) for table in (exact, other))
        if own_run and len(several := first[own_run].unique().drop_nulls().sort()) > 1:
            raise DataError(f"`exact` has several runs, {several.to_list()}; keep one of them")
        if runs:
            first = first.drop(runs, strict=False).join(second.select(runs).unique(), how="cross")
        both = [each.select(name for name in read if name in each.columns).with_columns(
            pl.lit(place).alias(side)) for place, each in enumerate((first, second))]  # fmt: skip
        log = pl.concat(both, how="diagonal_relaxed")
        facts = _latencies(log, rankings, side, time)
        ordering = Ordering(ties if (ties := options.get("ties")) in TIES else None)
        pairs = _pairs(Log.find(log.lazy(), given, ordering=ordering), rankings, side)
        _check(pairs, rankings, runs, max(ks), allowed)
        values = pl.concat(pairs.group_by(rankings).agg(_values(each, allowed)) for each in ks)
        found = values.join(facts, rankings, **LEFT).group_by(cutoffs).agg(
            pl.col("recall", "recall_by_score", "missed", "demoted").mean(), pl.col("short").sum(),
            pl.col("recall").count().alias("queries"), pl.col(_TIME).mean().alias("latency_mean"),
            pl.col(_TIME).quantile(0.95, "linear").alias("latency_p95"),
        ).sort(cutoffs)  # fmt: skip
        if details:
            by: Any = {"by": cutoffs, "query": columns.query, "run": None}
            bounds = summarize(values, "recall", confidence=confidence, **by)
            found = found.join(bounds.select(*cutoffs, "low", "high"), cutoffs, **LEFT)
        if metric is not None:
            change = stages(
                log, metric, stage=side, order=[0, 1], confidence=confidence, **{**options, **own}
            )
            ends = pl.col("low", "high").name.prefix("difference_")
            change = change.filter(pl.col(side) == 1).select(*parts, "difference", ends)
            found = found.join(change, parts, **LEFT) if parts else found.join(change, how="cross")
        return found.select(pl.col(name).cast(dtype) for name, dtype in schema.items())

    return deferred(result, schema)


def _latencies(
    log: pl.DataFrame, rankings: Sequence[str], side: str, time: str | None
) -> pl.DataFrame:
    """Return the latency of each ranking; raise `DataError` if only one table has a query."""
    latency = pl.col(time or side).filter(pl.lit(time is not None)).drop_nulls().unique()
    tables = pl.lit(pl.Series(["exact", "approximate"])).gather(pl.col(side).unique())
    facts = (
        log.group_by(rankings).agg(tables.alias("tables"), latency.alias("latency")).sort(rankings)
    )
    refuse(
        facts.drop("latency"), pl.col("tables").list.len() < 2,
        "`exact` and `approximate` have different queries",
        "a query without results is a row with a null document and a null score",
    )  # fmt: skip
    refuse(
        facts.drop("tables"), pl.col("latency").list.len() > 1,
        f"column {time!r} (`latency`) has several values for one ranking",
        "repeat one value in all of its rows",
    )  # fmt: skip
    return facts.select(*rankings, pl.col("latency").list.first().cast(pl.Float64).alias(_TIME))


def _pairs(log: Log, rankings: Sequence[str], side: str) -> pl.DataFrame:
    """Return the documents of both searches; a ranking without documents has one that is null."""
    log = replace(log, others={_SCORE: pl.col(log.columns.score).cast(pl.Float64)})
    lists = collected(retrieved_documents(log).select(*log.keys.named, DOCUMENTS))
    ranks = pl.int_ranges(1, pl.col(DOCUMENTS).list.len() + 1).alias(_RANK)
    rows = lists.with_columns(ranks).explode(DOCUMENTS, _RANK, empty_as_null=True)
    of_side, both = pl.col(side), pl.col(_RANK, _SCORE)
    return rows.unnest(DOCUMENTS).group_by(*rankings, DOC).agg(
        both.filter(of_side == 1).first(), both.filter(of_side == 0).first().name.suffix(_EXACT)
    )  # fmt: skip


def _values(k: int, tolerance: float | None) -> list[pl.Expr]:
    """Return the values of a ranking at a cutoff, from the documents of both searches."""
    found, wanted = k >= _RANKS, k >= _EXACT_RANKS
    size, lowest = wanted.sum(), _EXACT_SCORES.filter(wanted).min()
    is_near = pl.coalesce(_EXACT_SCORES, _SCORES) >= lowest - (tolerance or 0)
    near = ratio((found & is_near).sum(), size).clip(upper_bound=1.0)
    return [
        pl.lit(k).alias("k"),
        ratio((found & wanted).sum(), size).alias("recall"),
        (pl.lit(None, pl.Float64) if tolerance is None else near).alias("recall_by_score"),
        (_RANKS.count() < size).alias("short"),
        ratio((wanted & _RANKS.is_null()).sum(), size).alias("missed"),
        ratio((wanted & (k < _RANKS)).sum(), size).alias("demoted"),
    ]


def _check(
    pairs: pl.DataFrame, rankings: Sequence[str], runs: Sequence[str], k: int,
    tolerance: float | None,
) -> None:  # fmt: skip
    """Raise `DataError` for short exact rankings, and scores of another direction or scale."""
    is_new, is_both = _EXACT_RANKS.is_null(), (_SCORES - _EXACT_SCORES).count() > 2
    # Documents of a run that are below the middle of exact rankings are the farthest ones.
    place = (_EXACT_RANKS.mean() - _EXACT_RANKS.filter(_RANKS.is_not_null()).mean()).sign()
    sign = pl.min_horizontal(pl.corr(_SCORES, _EXACT_SCORES).fill_nan(None).sign(), place)
    facts = pairs.group_by(rankings).agg(
        _EXACT_RANKS.count().alias("documents"),
        pl.when(is_both).then(sign).alias(_SIGN),
        _SCORES.filter(is_new).count().alias(_NEW),
        (is_new & (_EXACT_SCORES.max() + (tolerance or 0) < _SCORES)).sum().alias(_ABOVE),
    )
    refuse(
        facts.sort("documents", *rankings).tail(1), pl.col("documents") < k,
        f"`exact` has fewer than {k} (`k`) documents for all queries",
        "retrieve more documents, or pass a smaller `k`",
    )  # fmt: skip
    above, new = (pl.col(name).sum().over(*runs, 1) for name in (_ABOVE, _NEW))
    is_reversed = (pl.col(_SIGN) < 0) & (pl.col(_SIGN).mean().over(*runs, 1) < -_MOST)
    is_other = is_reversed | ((pl.col(_ABOVE) > 0) & (2 * above > new))
    refuse(
        facts.sort(rankings).drop("documents"), is_other & pl.lit(tolerance is not None),
        "scores of `exact` and `approximate` have different directions or scales, or both are "
        "distances", "pass score='-distance' if lower is better, convert the scores of one table, "
        "or pass tolerance=None to compare ids only",
    )  # fmt: skip
