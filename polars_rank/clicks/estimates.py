"""`estimate`: the means of a new ranker, from weighted clicks on the rankings of another one.

The labels are weights, click / propensity. A metric that is a sum over documents is estimated by
the same sum over weights: its mean over rankings is the estimate by inverse propensity scoring
(IPS). Divided by the mean weight of a ranking, it is the self-normalized estimate (SNIPS).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import (
    OWN,
    Names,
    free,
    one_of,
    share,
)
from polars_rank.clicks.ranker_differences import (
    COLUMNS,
    DIFFER,
    EFFECTIVE,
    PAIRS,
    WEIGHT,
    WEIGHT_COLUMNS,
    Differences,
    difference,
)
from polars_rank.clicks.units import CONFIDENCE, first_group, unit_keys, warn_of_few
from polars_rank.columns import RUN, Columns, without_run
from polars_rank.errors import ArgumentError, DataError, warn
from polars_rank.evaluation import plan
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.evaluation.parameters import (
    EvaluateOptions,
    Evaluation,
    MetricColumn,
)
from polars_rank.frames.engines import Mergeable
from polars_rank.frames.tables import framed, schema_of
from polars_rank.gains import linear
from polars_rank.metrics import terms as t
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import listed
from polars_rank.metrics.terms import JUDGED, LABEL, RANK, Value
from polars_rank.metrics.user_models import persistence
from polars_rank.stats._arrays import special
from polars_rank.stats.ratios import EFFECTIVE_UNITS, power_sums, ratio_estimates
from polars_rank.stats.run_pairs import PAIRED

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from polars_rank.metrics.names import Metrics


Normalize: TypeAlias = Literal["ips", "snips"]

#: Default of the largest share of the new ranker's documents that may lack a label.
MAX_UNSHOWN = 0.1
#: Parts of an estimate → suffixes of the columns of a metric.
PARTS = {"value": "", "variance": "_variance", "low": "_low", "high": "_high"}
#: Statistics of a ranking or a unit: the sum of the squares of its weights, the largest weight, the
#: number of documents in the new ranker's top k, of those that were never shown, the weight of the
#: ranking, and the product with the sum of its weights.
_SQUARES, _HIGHEST, _RANKED, _UNSHOWN, _OWN_WEIGHT, _WEIGHTED = (
    OWN + name for name in ("squares", "highest", "ranked", "unshown", "own weight", "weighted")
)
_DIVISORS = {"ips": _OWN_WEIGHT, "snips": _WEIGHTED}

Additive: TypeAlias = Callable[..., Value]


def _precision(k: int, **_: Any) -> Value:
    return t.top(LABEL, k).sum() / k


def _weighted_hits(k: int | None = None, **_: Any) -> Value:
    return t.top(LABEL, k).sum()


def _rbp(k: int | None = None, p: float = 0.8, **_: Any) -> Value:
    return (1 - p) * t.top(LABEL * RANK.map(persistence, p=p), k).sum()


def _positions() -> Value:
    return t.top(LABEL * RANK).sum()


#: Metrics that are sums over documents → the same sums of weights; None if the metric is this sum.
_SUMS: dict[str, Additive | None] = {
    "cg": None,
    "dcg": None,
    "precision": _precision,
    "num_relevant_retrieved": _weighted_hits,
    "rbp": _rbp,
    "average_relevance_position": _positions,
}
#: Metrics that are such sums, divided by the sum of the weights of all relevant documents.
_SHARES: dict[str, Additive] = {"recall": _weighted_hits}


@framed
def estimate(
    frame: pl.LazyFrame,
    /,
    metrics: Metrics,
    *,
    normalize: Normalize = "snips",
    cluster: Names | None = None,
    baseline: Any = None,
    max_unshown: float = MAX_UNSHOWN,
    **options: Unpack[EvaluateOptions],
) -> Mergeable:
    r"""Estimate the means of metrics of a new ranker from clicks on the rankings of another.

    Labels are weights of clicks, click / propensity, as `inverse_propensity` returns them. The
    estimate of inverse propensity scoring (IPS) is the mean over rankings of the weighted sum

    $$\hat V = \frac{1}{n} \sum_i \sum_{d} w_{id} \, \lambda(\mathrm{rank}_{id})$$

    and the self-normalized estimate (SNIPS) is that divided by the mean weight of a ranking.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2, 2], "score": [0.9, 0.1, 0.8, 0.2],
    ...     "label": [2.0, 0.0, 0.0, 4.0],
    ... })
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):  # two rankings are too few
    ...     means = pr.clicks.estimate(log, "cg@1", normalize="ips")
    >>> means.select("queries", "cg@1")  # (2 + 0) / 2
    shape: (1, 2)
    ┌─────────┬──────┐
    │ queries ┆ cg@1 │
    │ ---     ┆ ---  │
    │ u32     ┆ f64  │
    ╞═════════╪══════╡
    │ 2       ┆ 1.0  │
    └─────────┴──────┘
    >>> log = log.with_columns(old=pl.col("score").reverse())
    >>> with warnings.catch_warnings(action="ignore"):
    ...     comparison = pr.clicks.estimate(
    ...         log, "cg@1", normalize="ips", score=["old", "score"],
    ...         baseline="old",
    ...     )
    >>> # The estimate of "old" is (0 + 4) / 2.
    >>> comparison.select("run", "mean", "difference", "baseline_mean")
    shape: (1, 4)
    ┌───────┬──────┬────────────┬───────────────┐
    │ run   ┆ mean ┆ difference ┆ baseline_mean │
    │ ---   ┆ ---  ┆ ---        ┆ ---           │
    │ enum  ┆ f64  ┆ f64        ┆ f64           │
    ╞═══════╪══════╪════════════╪═══════════════╡
    │ score ┆ 1.0  ┆ -1.0       ┆ 2.0           │
    └───────┴──────┴────────────┴───────────────┘

    Parameters
    ----------
    frame
        The log, one row per document of a ranking, with the scores of the new ranker: a
        LazyFrame, a DataFrame, any other table with an Arrow C stream, or a Spark DataFrame.
    metrics
        Metrics, by name or as expressions. They must be sums over documents: CG, DCG, precision,
        RBP, ARP, and with "snips" also recall, or expressions that are such sums.
    normalize
        Divisor of the weighted sums: "snips" (default) divides them by the sum of the weights; the
        estimate is per relevant document and has a lower variance. "ips" divides them by the number
        of rankings.
    cluster
        Columns that identify the sampling unit, such as the user. They are constant within a
        ranking. If rankings are sessions, the interval without `cluster` is for other sessions of
        the same queries; with `cluster="query"`, it is for sessions of other queries from the same
        population, and wider. Memory then grows with the number of clusters.
    baseline
        Run that the others are compared with. It is a value of the column `run`, or the name of one
        of the columns of `score`. The runs are compared on the same rankings of the log, which must
        have the same labels for all of them. Memory then grows with the number of rankings.
    max_unshown
        Largest share, from 0 to 1, of documents down to the deepest cutoff that may have no label
        because they were never shown. A larger share raises `DataError`.
    **options
        Options of `evaluate`, such as `run`, `by`, `score` and `weight`. `run` is the column of the
        ranker; `label` is a single column.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one: one row per group, sorted, with the `by` columns and

        - `queries`: the number of rankings;
        - for each metric, the estimate, its variance (`<metric>_variance`) and the bounds of its
          95% interval (`<metric>_low`, `<metric>_high`). The interval does not include the error of
          estimated propensities. Bounds are null if the variance is 0;
        - `mean_weight`: the mean weight of a ranking, the ratio of "ips" to "snips";
        - `effective_sample_size` (Kish, 1965) and `max_weight_share`, the share of the largest
          weight, of the weights of documents, or of clusters with `cluster`;
        - `unshown`: the share of the new ranker's documents that were never shown.

        With `baseline`, one row per group, metric and ranker other than the baseline, in this
        order, with the `by` columns and

        - `metric`, and the column of the ranker;
        - `mean`, `difference`, `baseline_mean`: the estimates over the rankings of both rankers;
        - `variance`, `low`, `high`, `p_value`: the variance of the difference over rankings or
          clusters, its 95% interval and the two-sided p-value;
        - `queries`, `missing`: the number of rankings of both rankers, and of only one of them;
        - `effective`: the effective number of rankings or clusters;
        - `mean_weight`, `effective_sample_size`, `max_weight_share`, `unshown`: as above.

    Raises
    ------
    DataError
        If a label is negative, weights overflow, too many documents were never shown, the baseline
        does not exist, or the rankers have different labels for the same ranking; raised when the
        result is collected.
    MissingExtraError
        If scipy is not installed (extra "stats").

    Warns
    -----
    RankWarning
        If the effective sample size, or the effective number of rankings or clusters, is below 5:
        the intervals are then unreliable. If the variance is 0, or more than 5% of the rankings
        of either ranker are missing in the other. Issued when the result is collected.

    Notes
    -----
    The estimate is a weighted mean over rankings or clusters, and its variance and interval are
    those of `pr.summarize` with these weights. The interval of a difference is narrower than the
    intervals of the runs suggest if both have similar values in the same rankings. The page "How
    statistics are computed" of the guide has the formulas.

    With several metrics, runs or groups, some differences are significant by chance; correct the
    p-values for multiple comparisons.

    References
    ----------
    Swaminathan & Joachims, The self-normalized estimator for counterfactual learning, 2015.
    Kish, Survey sampling, 1965, and Cochran, Sampling techniques, 1977: variance and effective
    number of clusters.
    Hall, On the removal of skewness by transformation, 1992: interval.
    """
    schema = schema_of(frame)
    special()
    if baseline is not None:
        Columns.find(schema, {"run": options.get("run", RUN)}, optional=())
    evaluation = Evaluation.of(schema, listed(metrics), **options)
    roles = {"by": evaluation.by, "weight": evaluation.weight, "cluster": cluster}
    clusters = Columns.find(schema, roles).roles["cluster"]
    one_of("normalize", normalize, ("ips", "snips"))
    share("max_unshown", max_unshown, ends=True)
    query_set = evaluation.conventions.query_set
    if query_set != "all":
        raise ArgumentError(
            "an estimate needs all rankings, clicked or not: `query_set` must be 'all'; found "
            f"{query_set!r}"
        )
    columns = [
        column._replace(metric=_sum(column.metric, normalize))
        if isinstance(column.metric, Metric)
        else column
        for column in evaluation.metrics
    ]
    weight = [] if evaluation.weight is None else [evaluation.weight]
    extra = [name for name in clusters if name not in (*evaluation.by, *evaluation.query)]
    complete = evaluation._replace(metrics=columns, keep=(*evaluation.keep, *extra))
    parts = [name + part for name in _names(complete) for part in PARTS.values() if part]
    complete.check_names(["queries", *parts, *WEIGHT_COLUMNS])
    differences = None
    if baseline is not None:
        run = str(complete.run)
        groups = [*without_run(complete.by, run)]
        free([run, *groups], COLUMNS)
        equal = {WEIGHT: "labels"} if normalize == "snips" else {}
        differences = Differences(
            baseline, run, groups, complete.query, _names(complete),
            equal | dict.fromkeys(weight, "weights"), _DIVISORS[normalize],
        )  # fmt: skip
    estimates = Estimates(complete, normalize, clusters, max_unshown, differences)
    return Mergeable(complete.query, estimates.add_up, estimates.merge, estimates.finish)


@dataclass(frozen=True)
class Estimates:
    """The parameters of `estimate`, and its computation from sums over parts of a log."""

    evaluation: Evaluation
    normalize: Normalize
    cluster: Sequence[str]
    max_unshown: float
    #: The differences from the baseline, if there is one.
    differences: Differences | None = None

    def _rankings(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return the weighted sums of each ranking and statistics of its weights."""
        metrics, label = self.evaluation.metrics, self.evaluation.label
        depth = _depth(column.metric for column in metrics)

        def weight() -> Value:
            problem = f"negative label in the column {label!r}; labels must be weights of 0 or more"
            return t.require(t.each(LABEL).sum(), t.each(LABEL).min() >= 0, problem)

        weights: dict[str, Callable[[], Value]] = {
            WEIGHT: weight,
            _SQUARES: lambda: t.each(LABEL * LABEL).sum(),
            _HIGHEST: lambda: t.each(LABEL).max(),
            _RANKED: lambda: t.num_retrieved(depth),
            _UNSHOWN: lambda: t.top(~JUDGED, depth).count(),
        }
        more = [
            MetricColumn.of(Metric(function, {}, name), self.evaluation.conventions)
            for name, function in weights.items()
        ]
        rankings = plan.per_query(frame, self.evaluation._replace(metrics=[*metrics, *more]))
        own = pl.lit(1.0)
        if self.evaluation.weight is not None:
            own = pl.col(self.evaluation.weight).cast(pl.Float64)
        counts = []
        if self.differences is not None:
            rankings = self.differences.joined(rankings, [WEIGHT, _SQUARES, _HIGHEST])
            own, counts = pl.when(PAIRED).then(own).otherwise(0.0), [PAIRS, DIFFER]
        weighted = pl.col(WEIGHT).fill_null(0.0)
        values = [*_names(self.evaluation), *self._differences]
        return rankings.select(
            *self.evaluation.by,
            *(pl.col(name).cast(pl.Float64).fill_null(0.0) * own for name in values),
            *(_HIGHEST, _SQUARES, _RANKED, _UNSHOWN, *counts),
            queries=pl.lit(1, pl.UInt32),
            **{_OWN_WEIGHT: own, _WEIGHTED: weighted * own, WEIGHT: weighted},
            **self._unit_keys,
        )

    def add_up(self, log: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over rankings: one row per group, or per cluster of a group."""
        rankings = self._rankings(log)
        return self.merge(rankings) if self.cluster else self._sums(rankings)

    def merge(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over several parts of a log."""
        keys = [*self.evaluation.by, *self._unit_keys]
        sums = [pl.col(_HIGHEST).max(), pl.exclude(*keys, _HIGHEST).sum()]
        return grouped(parts, keys, sums).select(schema_of(parts).names())

    def finish(self, sums: pl.LazyFrame) -> pl.LazyFrame:
        """Return the result of `estimate` from the sums."""
        groups = self._sums(sums) if self.cluster else sums
        weight = pl.col(WEIGHT)
        parts = (
            (pl.col(_WEIGHTED), pl.col(_OWN_WEIGHT)), (weight**2, pl.col(_SQUARES)),
            (pl.col(_HIGHEST), weight), (pl.col(_UNSHOWN), pl.col(_RANKED)),
        )  # fmt: skip
        shares = dict(zip(WEIGHT_COLUMNS, (ratio(*each) for each in parts), strict=True))
        groups = groups.with_columns(**shares, **{EFFECTIVE: EFFECTIVE_UNITS})
        types = groups.collect_schema()
        if self.differences is not None:
            schema = self.differences.schema(types)
        else:
            known = {name: types[name] for name in (*self.evaluation.by, "queries")}
            numbers = [name + part for name in _names(self.evaluation) for part in PARTS.values()]
            schema = pl.Schema(known | dict.fromkeys([*numbers, *WEIGHT_COLUMNS], pl.Float64()))
        result = partial(self._result, [*schema])
        return groups.map_batches(result, schema=schema, streamable=self.differences is None)

    @property
    def _unit_keys(self) -> dict[str, pl.Expr]:
        return unit_keys(self.cluster, self.evaluation.query)

    @property
    def _differences(self) -> list[str]:
        """The columns of the differences from the baseline."""
        return [] if self.differences is None else [*map(difference, _names(self.evaluation))]

    def _sums(self, units: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over units: one row per group."""
        squares, highest = pl.col(_SQUARES), pl.col(_HIGHEST)
        if self.cluster:
            squares, highest = pl.col(WEIGHT) ** 2, pl.col(WEIGHT)
        names = _names(self.evaluation)
        counts = ["queries", WEIGHT, _OWN_WEIGHT, _WEIGHTED, _RANKED, _UNSHOWN]
        if self.differences is not None:
            counts += [*names, PAIRS, DIFFER]
        return grouped(
            units,
            self.evaluation.by,
            [
                pl.col(counts).sum(),
                squares.sum().alias(_SQUARES),
                highest.max().alias(_HIGHEST),
                *power_sums(self._differences or names, _DIVISORS[self.normalize]),
            ],
        )

    def _result(self, columns: Sequence[str], groups: pl.DataFrame) -> pl.DataFrame:
        """Return the estimates; raise `DataError` for invalid scores, labels or weights."""
        self._check(groups)
        if self.differences is not None:
            return self.differences.table(groups).select(columns)
        table = groups
        for name in _names(self.evaluation):
            found = ratio_estimates(groups, name, rows="queries", confidence=CONFIDENCE)
            named = (pl.col(part).alias(name + suffix) for part, suffix in PARTS.items())
            table = table.hstack(found.select(named))
        equal = table.filter(
            pl.any_horizontal(pl.col(f"{name}_variance") == 0 for name in _names(self.evaluation))
        )
        if not equal.is_empty():
            warn(
                "all rankings or clusters have the same value"
                f"{first_group(equal, self.evaluation.by)}: the variance is 0 and the interval is "
                "unknown; use a log with more clicks"
            )
        return table.select(columns)

    def _check(self, groups: pl.DataFrame) -> None:
        """Raise `DataError` for invalid scores, labels or weights; warn of small samples."""
        by = self.evaluation.by
        unscored = groups.filter(pl.col("unshown").is_null() & (pl.col("queries") > 0))
        if not unscored.is_empty():
            raise DataError(
                f"the new ranker has no scores (all null){first_group(unscored, by)}; join its "
                "scores to the log by query and document, and check that the ids of both match"
            )
        above_limit = groups.filter(pl.col("unshown") > self.max_unshown)
        if not above_limit.is_empty():
            share: Any = above_limit.get_column("unshown").max()
            raise DataError(
                f"{share:.1%} of the new ranker's documents were never shown (label null)"
                f"{first_group(above_limit, by)}; they would count as 0. Evaluate a ranker closer "
                "to the logged one, or a lower k, or accept this share with "
                f"`max_unshown={math.ceil(share * 100) / 100:g}` (now {self.max_unshown:g})"
            )
        overflow = groups.filter(~pl.col("effective_sample_size").is_finite())
        if not overflow.is_empty():
            raise DataError(
                f"weights are so large that their squares overflow{first_group(overflow, by)}; "
                "clip the weights, or check the propensities"
            )
        size = pl.min_horizontal(pl.col("effective_sample_size", EFFECTIVE).fill_null(0.0))
        warn_of_few(
            groups.filter(pl.col("queries") > 0), size, by,
            "use a log with more clicks, clip the weights, or evaluate a ranker closer to the "
            "logged one",
        )  # fmt: skip


def _names(evaluation: Evaluation) -> list[str]:
    return [column.name for column in evaluation.metrics]


def _sum(metric: Metric, normalize: Normalize) -> Metric:
    """Return a metric as a sum of weights, with the same name; raise if it is not such a sum."""
    name = "" if metric.parts else metric.function.__name__
    sums = {**_SUMS, **(_SHARES if normalize == "snips" else {})}
    unsupported = [
        key for key in ("depth", "short", "rel") if metric.arguments.get(key) not in _SUPPORTED
    ]
    unsupported += ["k"] if name == "precision" and metric.arguments.get("k") is None else []
    unsupported += ["gain"] if metric.arguments.get("gain", linear) is not linear else []
    if name not in sums or unsupported:
        arguments = [metric.arguments.get(key) for key in unsupported[:1] if name in sums]
        why = "".join(
            f"with {unsupported[0]}={getattr(each, '__name__', each)!r} " for each in arguments
        )
        raise ArgumentError(
            f"{metric} {why}is not a sum of labels (weights) over documents; with `normalize` "
            f"{normalize!r}, use {', '.join(sums)} (gain='linear') or an expression that is such a "
            "sum"
        )
    function = sums[name]
    return metric if function is None else Metric(function, metric.arguments, metric.output_name)


#: Values of `depth`, `short` and `rel` with which a metric is a sum of weights.
_SUPPORTED = (None, "k")


def _depth(metrics: Iterable[pl.Expr]) -> int | None:
    """Return the deepest cutoff of the metrics; None if any has no cutoff."""
    leaves = (leaf for each in metrics if isinstance(each, Metric) for leaf in each.leaves)
    depths: list[Any] = [leaf.arguments.get("k") for leaf in leaves]
    return max(depths) if depths and None not in depths else None
