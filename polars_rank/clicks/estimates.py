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
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN, Names, check_distinct, find_columns, one_of, share
from polars_rank.clicks.certainty import (
    check_weights,
    cluster_columns,
    concentration,
    first_group,
    interval,
)
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation import plan
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.evaluation.parameters import EvaluateOptions, Evaluation, MetricColumn
from polars_rank.frames.tables import framed, schema_of
from polars_rank.gains import linear
from polars_rank.metrics import terms as t
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import listed
from polars_rank.metrics.terms import JUDGED, LABEL, RANK, Value
from polars_rank.metrics.user_models import persistence

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Unpack

    from polars_rank.metrics.names import Metrics


Normalize: TypeAlias = Literal["ips", "snips"]
#: Default of the largest share of the new ranker's documents that may lack a label.
MAX_UNSHOWN = 0.1

Additive: TypeAlias = Callable[..., Value]

#: Columns of the result that describe the weights.
WEIGHT_COLUMNS = ("mean_weight", "effective_sample_size", "max_weight_share", "unshown")

#: Suffixes of the columns of a metric besides the estimate.
_PARTS = ("_variance", "_low", "_high")
#: Statistics of a ranking: the sum of weights, the sum of their squares, the largest weight, the
#: number of documents in the new ranker's top k, and the number of those that were never shown.
_WEIGHT, _SQUARES, _HIGHEST, _RANKED, _UNSHOWN = (
    OWN + name for name in ("weight", "squares", "highest", "ranked", "unshown")
)


_OWN_WEIGHT, _WEIGHTED = OWN + "own weight", OWN + "weighted"
_OF_RANKING = pl.col(_WEIGHT).fill_null(0.0)


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
          error of estimated propensities;
        - `mean_weight`: the mean weight of a ranking, the ratio of "ips" to "snips";
        - `effective_sample_size` (Kish, 1965) and `max_weight_share`, the share of the largest
          weight, of the weights of documents, or of clusters with `cluster`;
        - `unshown`: the share of the new ranker's documents that were never shown.

    Warns
    -----
    RankWarning
        If the effective sample size or the number of rankings is below 30: the intervals are then
        too narrow. Issued when the result is collected.

    References
    ----------
    Swaminathan & Joachims, The self-normalized estimator for counterfactual learning, 2015.

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
    """
    estimates = Estimates.of(
        metrics, normalize=normalize, cluster=cluster, max_unshown=max_unshown, **options
    )
    return estimates.finish(estimates.add_up(estimates.rankings(frame)))


class EstimateOptions(EvaluateOptions, total=False):
    """The options of `estimate`, for functions that pass them on."""

    normalize: Normalize
    cluster: Names | None
    max_unshown: float


@dataclass(frozen=True)
class Estimates:
    """The parameters of `estimate`, and its computation from sums over parts of a log."""

    evaluation: Evaluation
    normalize: Normalize
    #: Internal names of the columns of clusters → the user's names.
    cluster: Mapping[str, str]
    max_unshown: float

    @classmethod
    def of(
        cls,
        metrics: Metrics,
        *,
        normalize: Normalize = "snips",
        cluster: Names | None = None,
        max_unshown: float = MAX_UNSHOWN,
        **options: Any,
    ) -> Estimates:
        """Check the parameters; raise `ArgumentError` for a metric that is not a sum."""
        if "align" in options:
            raise ArgumentError("`align` does not apply to estimates; omit it")
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
        estimates = cls(complete, normalize, clusters, max_unshown)
        estimates.evaluation.check_names(["queries", *estimates.added_columns])
        return estimates

    @property
    def added_columns(self) -> list[str]:
        """The columns of the result in addition to the metrics."""
        names = [column.name for column in self.evaluation.metrics]
        return [*(name + part for name in names for part in _PARTS), *WEIGHT_COLUMNS]

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
            _WEIGHT: weight,
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
        estimates = [each for part in self._sums for each in part.finish()]
        result = sums.select(*by, "queries", *estimates)
        check = partial(_checked, [*by], self.max_unshown)
        return result.map_batches(check, schema=result.collect_schema(), streamable=True)

    def _merged(self, parts: pl.LazyFrame, keys: Sequence[str]) -> pl.LazyFrame:
        sums = [each for part in self._sums for each in part.merge()]
        return grouped(parts, keys, [pl.col("queries").sum(), *sums])

    @property
    def _sums(self) -> list[_Sums]:
        weight = self.evaluation.weight
        estimates = [
            _Estimate(column.name, self.normalize, weight) for column in self.evaluation.metrics
        ]
        return [*estimates, _Weights(weight, bool(self.cluster))]


class _Sums:
    """Statistics that are sums or maxima over rankings, so that parts can be merged."""

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the statistics by name, each with the aggregation that merges it."""
        raise NotImplementedError

    def add_up(self) -> list[pl.Expr]:
        """Return the statistics over rankings."""
        return [value.alias(name) for name, (value, _) in self.named().items()]

    def merge(self) -> list[pl.Expr]:
        """Return the statistics of several parts together."""
        return [getattr(pl.col(name), how)() for name, (_, how) in self.named().items()]

    def of_cluster(self, clustered: pl.Expr) -> list[pl.Expr]:
        """Return the statistics of clusters where `clustered` is true; others are unchanged."""
        return [
            pl.when(clustered).then(value.cast(pl.Float64)).otherwise(name).alias(name)
            for name, value in self.cluster_values().items()
        ]

    def cluster_values(self) -> dict[str, pl.Expr]:
        """Return the statistics of a cluster that are not sums or maxima over its rankings."""
        raise NotImplementedError

    def finish(self) -> list[pl.Expr]:
        """Return the columns of the result."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Estimate(_Sums):
    """A ratio of sums over rankings, with its variance by the delta method and an interval.

    The sampling units of the variance are rankings or clusters of rankings.
    """

    name: str
    normalize: Normalize
    weight: str | None

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the sums of values and divisors, of their squares and products, and of units."""
        own = _own(self.weight)
        value = pl.col(self.name).fill_null(0.0) * own
        divisor = own if self.normalize == "ips" else _OF_RANKING * own
        sums = (value, divisor, value**2, value * divisor, divisor**2, _OF_RANKING.is_not_null())
        return {
            name: (each.cast(pl.Float64).sum(), "sum")
            for name, each in zip(self._parts, sums, strict=True)
        }

    def cluster_values(self) -> dict[str, pl.Expr]:
        """Return the squares and products of the sums of a cluster, which counts as one unit."""
        value, divisor, squares, products, divisors, units = self._parts
        v, d = pl.col(value), pl.col(divisor)
        return {squares: v**2, products: v * d, divisors: d**2, units: pl.col(units) > 0}

    def finish(self) -> list[pl.Expr]:
        """Return the estimate, its variance and the interval."""
        value, divisor, squares, products, divisors, units = map(pl.col, self._parts)
        estimate = ratio(value, divisor)
        spread = squares - 2 * estimate * products + estimate**2 * divisors
        variance = pl.when(units > 1).then(
            spread.clip(lower_bound=0.0) / divisor**2 * units / (units - 1)
        )
        estimates = (estimate, variance, *interval(estimate, variance))
        return [
            each.alias(self.name + part)
            for part, each in zip(("", *_PARTS), estimates, strict=True)
        ]

    @property
    def _parts(self) -> list[str]:
        return [f"{OWN}{part} {self.name}" for part in ("v", "d", "vv", "vd", "dd", "units")]


@dataclass(frozen=True)
class _Weights(_Sums):
    """Statistics of the weights of documents, or of clusters."""

    weight: str | None
    clustered: bool

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the sums and maxima of the weights."""
        own = _own(self.weight)
        squares, highest = (
            (_OF_RANKING**2, _OF_RANKING)
            if self.clustered
            else (pl.col(_SQUARES), pl.col(_HIGHEST))
        )
        return {
            _OWN_WEIGHT: (own.sum(), "sum"),
            _WEIGHTED: ((_OF_RANKING * own).sum(), "sum"),
            _WEIGHT: (_OF_RANKING.sum(), "sum"),
            _SQUARES: (squares.sum(), "sum"),
            _HIGHEST: (highest.max(), "max"),
            _UNSHOWN: (pl.col(_UNSHOWN).sum(), "sum"),
            _RANKED: (pl.col(_RANKED).sum(), "sum"),
        }

    def cluster_values(self) -> dict[str, pl.Expr]:
        """Return the weight of a cluster as the largest weight, and its square."""
        return {_SQUARES: pl.col(_WEIGHT) ** 2, _HIGHEST: pl.col(_WEIGHT)}

    def finish(self) -> list[pl.Expr]:
        columns = (
            ratio(pl.col(_WEIGHTED), pl.col(_OWN_WEIGHT)),
            *concentration(pl.col(_WEIGHT), pl.col(_SQUARES), pl.col(_HIGHEST)),
            ratio(pl.col(_UNSHOWN), pl.col(_RANKED)),
        )
        return [each.alias(name) for name, each in zip(WEIGHT_COLUMNS, columns, strict=True)]


def _own(weight: str | None) -> pl.Expr:
    """Return the weight of each ranking: 1, or the value of the column `weight`."""
    own = _OF_RANKING.is_not_null() if weight is None else pl.col(weight)
    return own.cast(pl.Float64)


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


def _checked(by: list[str], max_unshown: float, groups: pl.DataFrame) -> pl.DataFrame:
    """Return the estimates; raise `DataError` for missing scores or labels."""
    unscored = groups.filter(pl.col("unshown").is_null() & (pl.col("queries") > 0))
    if not unscored.is_empty():
        raise DataError(
            f"the new ranker has no scores (all null){first_group(unscored, by)}; join its scores "
            "to the log by query and document, and check that the ids of both match"
        )
    above_limit = groups.filter(pl.col("unshown") > max_unshown)
    if not above_limit.is_empty():
        share: Any = above_limit.get_column("unshown").max()
        raise DataError(
            f"{share:.1%} of the new ranker's documents were never shown (label null)"
            f"{first_group(above_limit, by)}; they would count as 0. Evaluate a ranker closer to "
            "the logged one, or a lower k, or accept this share with "
            f"`max_unshown={math.ceil(share * 100) / 100:g}` (now {max_unshown:g})"
        )
    return check_weights(groups, by, "queries")
