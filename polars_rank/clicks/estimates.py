"""`estimate`: the means of a new ranker, from weighted clicks on the rankings of another one.

The labels are weights, click / propensity. A metric that is a sum over documents is estimated by
the same sum over weights: its mean over rankings is the estimate by inverse propensity scoring
(IPS). Divided by the mean weight of a ranking, it is the self-normalized estimate (SNIPS).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import polars as pl

from polars_rank._params import (
    OPTIONS,
    Names,
    check_distinct,
    find_columns,
    free,
    names,
    one_of,
    share,
)
from polars_rank.clicks.certainty import EFFECTIVE, check_weights, cluster_columns, first_group
from polars_rank.clicks.estimate_sums import (
    HIGHEST,
    PARTS,
    RANKED,
    SQUARES,
    UNSHOWN,
    WEIGHT,
    WEIGHT_COLUMNS,
    Estimate,
    Normalize,
    Sums,
    Weights,
)
from polars_rank.clicks.ranker_differences import COLUMNS, Differences
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation import plan
from polars_rank.evaluation.means import grouped
from polars_rank.evaluation.parameters import EvaluateOptions, Evaluation, MetricColumn
from polars_rank.frames.tables import framed, schema_of
from polars_rank.gains import linear
from polars_rank.metrics import terms as t
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import listed
from polars_rank.metrics.terms import JUDGED, LABEL, RANK, Value
from polars_rank.metrics.user_models import persistence
from polars_rank.stats.intervals import special

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from polars_rank.metrics.names import Metrics


#: Default of the largest share of the new ranker's documents that may lack a label.
MAX_UNSHOWN = 0.1

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
    run: str = "run",
    max_unshown: float = MAX_UNSHOWN,
    **options: Unpack[EvaluateOptions],
) -> pl.LazyFrame:
    r"""Estimate the means of metrics of a new ranker from clicks on the rankings of another.

    Labels are weights of clicks, click / propensity, as `inverse_propensity` returns them. The
    estimate of inverse propensity scoring (IPS) is the mean over rankings of the weighted sum

    $$\hat V = \frac{1}{n} \sum_i \sum_{d} w_{id} \, \lambda(\mathrm{rank}_{id})$$

    and the self-normalized estimate (SNIPS) is that divided by the mean weight of a ranking.

    Parameters
    ----------
    frame
        The log, one row per document of a ranking, with the scores of the new ranker: a
        LazyFrame, a DataFrame, any other table with an Arrow C stream, or a Spark DataFrame.
    metrics
        Metrics that are sums over documents: CG, DCG, precision, RBP, ARP, and with "snips" also
        recall; by name, as metrics, or as expressions that are such sums.
    normalize
        "snips" (default) divides the weighted sums by the sum of the weights: the estimate is per
        relevant document and has a lower variance. "ips" divides them by the number of rankings.
    cluster
        Columns that identify the sampling unit if it is not the ranking; constant within a
        ranking. If rankings are sessions, the interval without `cluster` is for other sessions of
        the same queries; the interval with `cluster="query"` is for sessions of other queries
        from the same population, and is wider. A ranking with a null forms its own cluster. With
        `cluster`, memory grows with the number of clusters.
    baseline
        The ranker that the others are compared with: the name of a column of `scores`, or a value
        of the column `run`. The rankers are compared on the same rankings of the log, which must
        have the same labels for all of them. None (default): no comparison. Otherwise, memory grows
        with the number of rankings, and scipy must be installed (extra "stats").
    run
        Column that identifies the ranker, for `baseline`. With `scores`, it is "run".
    max_unshown
        Largest share, from 0 to 1, of documents down to the deepest cutoff that may have no label
        because they were never shown. A larger share raises `DataError`.
    **options
        Options of `evaluate`, such as `by` and `weight`, except `align`.

    Returns
    -------
    LazyFrame or DataFrame
        A LazyFrame if `frame` is one: one row per group, sorted, with the `by` columns and

        - `queries`: the number of rankings;
        - for each metric, the estimate, its variance (`<metric>_variance`) and the bounds of its
          normal 95% interval (`<metric>_low`, `<metric>_high`). The interval does not include the
          error of estimated propensities. Bounds are null if the variance is 0;
        - `mean_weight`: the mean weight of a ranking, the ratio of "ips" to "snips";
        - `effective_sample_size` (Kish, 1965) and `max_weight_share`, the share of the largest
          weight, of the weights of documents, or of clusters with `cluster`;
        - `unshown`: the share of the new ranker's documents that were never shown.

        With `baseline`, one row per group, metric and ranker other than the baseline, in this
        order, with the `by` columns and

        - `metric`, and the column of the ranker;
        - `mean`, `difference`, `baseline_mean`: the estimates over the rankings of both rankers;
        - `variance`, `low`, `high`, `p_value`: the variance of the difference over rankings or
          clusters, its 95% interval and the two-sided p-value, from the t distribution. They are
          null if the variance is 0, except that the p-value is 1 if all differences are 0;
        - `queries`, `missing`: the number of rankings of both rankers, and of only one of them;
        - `effective`: the effective number of rankings or clusters;
        - `mean_weight`, `effective_sample_size`, `max_weight_share`, `unshown`: as above.

    Raises
    ------
    DataError
        If a label is negative, weights overflow, too many documents were never shown, the baseline
        does not exist, or the rankers have different labels for the same ranking; raised when the
        result is collected.

    Warns
    -----
    RankWarning
        If the effective sample size, or the effective number of rankings or clusters, is below 30:
        the intervals are then too narrow. If the variance is 0, or more than 5% of the rankings
        of either ranker are missing in the other. Issued when the result is collected.

    Notes
    -----
    The estimate is a ratio of sums v / d over rankings or clusters of rankings, where d is the sum
    of the weights for "snips" and the number of rankings for "ips". Its variance is

    $$\frac{n}{n - 1} \cdot \frac{\sum_i (v_i - \hat V d_i)^2}{(\sum_i d_i)^2},
    \qquad n = \frac{(\sum_i d_i)^2}{\sum_i d_i^2}$$

    by the delta method, with the effective number n of rankings or clusters; null if n is 1 or
    less. Two rankers have the same d, so their difference is the same ratio with the differences of
    v, and the t distribution has n - 1 degrees of freedom. Its interval is narrower than the
    intervals of the rankers suggest if both have similar values in the same rankings.

    With several metrics, rankers or groups, some differences are significant by chance; correct the
    p-values for multiple comparisons.

    References
    ----------
    Swaminathan & Joachims, The self-normalized estimator for counterfactual learning, 2015.
    Kish, Survey sampling, 1965, and Cochran, Sampling techniques, 1977: variance and effective
    number of clusters.

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
    ...         log, "cg@1", normalize="ips", scores=["old", "score"],
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
    """
    estimates = Estimates.of(
        metrics, normalize=normalize, cluster=cluster, baseline=baseline, run=run,
        max_unshown=max_unshown, **options,
    )  # fmt: skip
    return estimates.finish(estimates.add_up(estimates.rankings(frame)))


class EstimateOptions(EvaluateOptions, total=False):
    """The options of `estimate`, for functions that pass them on."""

    normalize: Normalize
    cluster: Names | None
    baseline: Any
    run: str
    max_unshown: float


OPTIONS["EstimateOptions"] = [*EstimateOptions.__annotations__]


@dataclass(frozen=True)
class Estimates:
    """The parameters of `estimate`, and its computation from sums over parts of a log."""

    evaluation: Evaluation
    normalize: Normalize
    #: Internal names of the columns of clusters → the user's names.
    cluster: Mapping[str, str]
    max_unshown: float
    #: The differences from the baseline, if there is one.
    differences: Differences | None = None

    @classmethod
    def of(
        cls,
        metrics: Metrics,
        *,
        normalize: Normalize = "snips",
        cluster: Names | None = None,
        baseline: Any = None,
        run: str = "run",
        max_unshown: float = MAX_UNSHOWN,
        **options: Any,
    ) -> Estimates:
        """Check the parameters; raise `ArgumentError` for a metric that is not a sum."""
        if "align" in options:
            raise ArgumentError("`align` does not apply to estimates; omit it")
        if options.get("labels") is not None:
            raise ArgumentError(
                "`labels` does not apply to estimates; pass one column of clicks as `label`"
            )
        if baseline is not None:
            options["by"] = _with_run(run, options.get("by"), options.get("scores"))
        evaluation, clusters = Evaluation.of(listed(metrics), **options), cluster_columns(cluster)
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
        check_distinct({"by": evaluation.by, "weight": weight, "cluster": [*clusters.values()]})
        extra = [name for name in clusters.values() if name not in evaluation.query]
        complete = evaluation._replace(metrics=columns, keep=(*evaluation.keep, *extra))
        differences = None
        if baseline is not None:
            special()
            groups = [name for name in evaluation.by if name != run]
            free([run, *groups], COLUMNS)
            metric_names = [column.name for column in columns]
            differences = Differences(
                baseline, run, groups, evaluation.query, metric_names, normalize, evaluation.weight
            )
        estimates = cls(complete, normalize, clusters, max_unshown, differences)
        estimates.evaluation.check_names(["queries", *estimates.added_columns])
        return estimates

    @property
    def added_columns(self) -> list[str]:
        """The columns of the result in addition to the metrics."""
        names = [column.name for column in self.evaluation.metrics]
        return [*(name + part for name in names for part in PARTS), *WEIGHT_COLUMNS]

    def rankings(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return the metrics of each ranking and statistics of its weights."""
        find_columns(schema_of(frame), {"cluster": [*self.cluster.values()]})
        metrics = self.evaluation.metrics
        depth = _depth(column.metric for column in metrics)
        label = self.evaluation.label

        def weight() -> Value:
            problem = f"negative label in the column {label!r}; labels must be weights of 0 or more"
            return t.require(t.each(LABEL).sum(), t.each(LABEL).min() >= 0, problem)

        weights: dict[str, Callable[[], Value]] = {
            WEIGHT: weight,
            SQUARES: lambda: t.each(LABEL * LABEL).sum(),
            HIGHEST: lambda: t.each(LABEL).max(),
            RANKED: lambda: t.num_retrieved(depth),
            UNSHOWN: lambda: t.top(~JUDGED, depth).count(),
        }
        more = [
            MetricColumn.of(Metric(function, {}, name), self.evaluation.conventions)
            for name, function in weights.items()
        ]
        rankings = plan.per_query(frame, self.evaluation._replace(metrics=[*metrics, *more]))
        if self.differences is not None:
            rankings = self.differences.joined(rankings)
        if not self.cluster:
            return rankings
        # A ranking with a null in any of the columns forms its own cluster.
        known = pl.all_horizontal(pl.col(name).is_not_null() for name in self.cluster.values())
        return rankings.with_columns(
            pl.when(known).then(name).alias(own) for own, name in self.cluster.items()
        )

    def add_up(self, rankings: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over rankings: one row per group, or per cluster of a group."""
        sums = [each for part in self._sums for each in part.add_up()]
        keys = [*self.evaluation.by, *self.cluster]
        return grouped(rankings, keys, [pl.len().alias("queries"), *sums])

    def merge(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums over several parts of a log."""
        return self._merged(parts, [*self.evaluation.by, *self.cluster])

    def finish(self, sums: pl.LazyFrame) -> pl.LazyFrame:
        """Return the result of `estimate` from the sums."""
        by = self.evaluation.by
        if self.cluster:
            clustered = pl.all_horizontal(pl.col(name).is_not_null() for name in self.cluster)
            values = [each for part in self._sums for each in part.of_cluster(clustered)]
            sums = self._merged(sums.with_columns(values), by)
        columns = [each for part in self._sums for each in part.finish()]
        columns.append(self._estimates[0].effective)
        if self.differences is not None:
            check = partial(self._checked, variances=[])
            return self.differences.table(sums.select(*by, "queries", *columns), check)
        result = sums.select(*by, "queries", *columns)
        variances = [column.name + PARTS[0] for column in self.evaluation.metrics]
        return result.map_batches(
            partial(self._checked, variances=variances),
            schema=result.drop(EFFECTIVE).collect_schema(),
            streamable=True,
        )

    def _merged(self, parts: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        sums = [each for part in self._sums for each in part.merge()]
        return grouped(parts, keys, [pl.col("queries").sum(), *sums])

    @property
    def _estimates(self) -> list[Estimate]:
        names = [column.name for column in self.evaluation.metrics]
        return [Estimate(name, self.normalize, self.evaluation.weight) for name in names]

    @property
    def _sums(self) -> list[Sums]:
        differences = [] if self.differences is None else self.differences.sums
        weights = Weights(self.evaluation.weight, bool(self.cluster))
        return [*self._estimates, *differences, weights]

    def _checked(self, groups: pl.DataFrame, variances: Sequence[str]) -> pl.DataFrame:
        """Return the estimates; raise `DataError` for missing scores or labels."""
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
        return check_weights(groups, by, "queries", variances)


def _with_run(run: str, by: Names | None, scores: Sequence[str] | None) -> tuple[str, ...]:
    """Return the columns that split the log, with the column of rankers for `baseline`."""
    groups = names("by", by)
    check_distinct({"run": [run], "by": groups})
    if scores is None:
        return (run, *groups)
    if run != "run":
        raise ArgumentError(f"with `scores`, `run` must be 'run'; found {run!r}")
    return groups


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
