"""What a new ranker's lists are worth, by clicks on those of another: IPS and SNIPS.

The labels are weights, click / propensity. A metric that is a sum over documents is estimated by
the same sum over weights, its mean over lists being that of inverse propensity scoring, IPS.
Divided by the mean weight of a list it is the self-normalised estimate, SNIPS.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN, Names, check_apart, find_columns, is_number, names, one_of
from polars_rank.clicks.certainty import concentration, interval, warn_of_few
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation import plan
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.evaluation.parameters import Evaluation, MetricColumn
from polars_rank.frames.tables import framed, schema_of
from polars_rank.gains import linear
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.terms import JUDGED, LABEL, Terms, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from polars_rank.metrics.names import Metrics


Normalize: TypeAlias = Literal["ips", "snips"]
#: The share of what the new ranker would show that, unless more is allowed, was never shown.
MAX_UNSHOWN = 0.1

Additive: TypeAlias = Callable[..., Value]

#: What is told of the weights beside the estimates.
TOLD = ("mean_weight", "effective_sample_size", "max_weight_share", "unshown")

#: What stands behind the name of a metric, beside its estimate.
_PARTS = ("_variance", "_low", "_high")
#: By list: the sum of weights, that of their squares, the highest; documents in the new ranker's
#: first k, and those among them that were never shown.
_WEIGHT, _SQUARES, _HIGHEST, _RANKED, _UNSHOWN = (
    OWN + name for name in ("weight", "squares", "highest", "ranked", "unshown")
)


_OWN_WEIGHT, _WEIGHTED = OWN + "own weight", OWN + "weighted"
_OF_LIST = pl.col(_WEIGHT).fill_null(0.0)


def _precision(t: Terms, k: int, **_: Any) -> Value:
    return t.top(LABEL, k).sum() / k


def _found(t: Terms, k: int | None = None, **_: Any) -> Value:
    return t.top(LABEL, k).sum()


def _rbp(t: Terms, k: int | None = None, p: float = 0.8, **_: Any) -> Value:
    return (1 - p) * t.top(LABEL, k, lambda rank: pl.lit(float(p)).pow(rank - 1)).sum()


def _positions(t: Terms) -> Value:
    return t.top(LABEL, weight=lambda rank: rank).sum()


#: Metrics that are sums over documents, as sums over their weights; None for those that are as
#: they stand.
_SUMS: dict[str, Additive | None] = {
    "cg": None,
    "dcg": None,
    "precision": _precision,
    "num_relevant_retrieved": _found,
    "rbp": _rbp,
    "average_relevance_position": _positions,
}
#: Metrics that are such sums once they are divided by the weight of what is relevant.
_SHARES: dict[str, Additive] = {"recall": _found}


@framed
def estimate(
    frame: pl.LazyFrame,
    /,
    metrics: Metrics,
    *,
    normalize: Normalize = "snips",
    cluster: Names | None = None,
    max_unshown: float = MAX_UNSHOWN,
    by: Names | None = None,
    weight: str | None = None,
    **options: Any,
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
        LazyFrame, a DataFrame, any other table with Arrow's C stream, or a Spark DataFrame.
    metrics
        Metrics that are sums over documents: CG, DCG, precision, RBP, ARP, with "snips" also
        recall; by name or as metrics; or expressions that are such sums.
    normalize
        "ips" divides the weighted sums by the number of rankings, "snips" (the default) by the
        sum of the weights: per relevant document, with less variance.
    cluster
        Columns that identify the sampling unit, if it is not the ranking; the same in all rows
        of a ranking. If rankings are sessions, the interval without `cluster` is for other
        sessions of these queries; the interval with `cluster="query"` is for sessions of other
        queries from the same population, and is wider. A null is a unit of its own. With
        `cluster`, memory grows with the number of units.
    max_unshown
        The share, from 0 to 1, of the documents down to the deepest k that may have no label
        because the log never showed them; a larger share is a `DataError`.
    by
        Columns of groups.
    weight
        The column of each ranking's weight: finite, not negative.
    **options
        Any other parameter of `evaluate` but `align`.

    Returns
    -------
    LazyFrame or DataFrame
        Like `frame`: one row per group in sorted order, with the `by` columns, `queries` (the
        number of rankings) and per metric the estimate, its `_variance`, and `_low` and `_high`,
        the normal interval of 95%, given the propensities: the error of estimated propensities
        is not in it. Also `mean_weight` (of a ranking; "snips" times it is "ips"),
        `effective_sample_size` (Kish, 1965), `max_weight_share` (of the largest weight) and
        `unshown`. Weights are those of documents; with `cluster`, of units.

    Warns
    -----
    RankWarning
        If the effective sample size or the number of rankings is below 30: intervals are then
        too narrow. When the result is collected.

    References
    ----------
    Swaminathan & Joachims, The self-normalized estimator for counterfactual learning, 2015.

    Examples
    --------
    >>> log = pl.DataFrame({
    ...     "query": [1, 1, 2, 2], "score": [0.9, 0.1, 0.8, 0.2], "label": [2.0, 0.0, 0.0, 4.0],
    ... })
    >>> import warnings
    >>> with warnings.catch_warnings(action="ignore"):  # two rankings are too few
    ...     pr.clicks.estimate(log, "cg@1", normalize="ips").select("queries", "cg@1").row(0)
    (2, 1.0)
    """
    estimates = Estimates.of(
        metrics,
        normalize=normalize,
        cluster=cluster,
        max_unshown=max_unshown,
        by=by,
        weight=weight,
        **options,
    )
    return estimates.finish(estimates.add_up(estimates.rankings(frame)))


@dataclass(frozen=True)
class Estimates:
    """The estimates of an evaluation: rankings are added up, sums merged, merged sums finished."""

    evaluation: Evaluation
    normalize: Normalize
    #: The columns of sampling units, and their names in the table of rankings.
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
        """Check the parameters; raise `ArgumentError` for a metric that is no sum."""
        if "align" in options:
            message = "`align` is for means of runs; leave it out"
            raise ArgumentError(message, "align")
        evaluation, clusters = Evaluation.of(metrics, **options), names("cluster", cluster)
        one_of("normalize", normalize, ("ips", "snips"))
        if not is_number(max_unshown) or not 0 <= max_unshown <= 1:
            message = f"`max_unshown` must be a share from 0 to 1; found {max_unshown!r}"
            raise ArgumentError(message, "max_unshown")
        query_set = evaluation.conventions.query_set
        if query_set != "all":
            message = (
                f"an estimate counts every ranking, clicked or not; found {query_set!r}: "
                "set `query_set` to 'all'"
            )
            raise ArgumentError(message, "query_set")
        columns = [
            column._replace(metric=_sum(column.metric, normalize))
            if isinstance(column.metric, Metric)
            else column
            for column in evaluation.metrics
        ]
        if clusters:
            check_apart("cluster", clusters, evaluation.by)
        kept = [name for name in clusters if name not in evaluation.query]
        units = {f"{OWN}cluster {index}": name for index, name in enumerate(clusters)}
        changed = replace(evaluation, metrics=tuple(columns), keep=(*evaluation.keep, *kept))
        estimates = cls(changed, normalize, units, max_unshown)
        estimates.evaluation.check_names(["queries", *estimates.added])
        return estimates

    @property
    def added(self) -> list[str]:
        """The columns of the result beside the metrics."""
        names = [column.name for column in self.evaluation.metrics]
        return [*(name + part for name in names for part in _PARTS), *TOLD]

    def rankings(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums of each ranking, and what there is to know of its weights."""
        find_columns(schema_of(frame), {"cluster": [*self.cluster.values()]})
        metrics = self.evaluation.metrics
        depth = _depth(column.metric for column in metrics)
        label = self.evaluation.label

        def weight(t: Terms) -> Value:
            problem = f"below 0 in the column {label!r} (label), whose labels are weights"
            t.require(t.each(LABEL).min() >= 0, problem)
            return t.each(LABEL).sum()

        weights: dict[str, Callable[[Terms], Value]] = {
            _WEIGHT: weight,
            _SQUARES: lambda t: t.each(LABEL * LABEL).sum(),
            _HIGHEST: lambda t: t.each(LABEL).max(),
            _RANKED: lambda t: t.retrieved(depth),
            _UNSHOWN: lambda t: t.top(~JUDGED, depth).number(),
        }
        more = [
            MetricColumn.of(Metric(function, {}, name), self.evaluation.conventions)
            for name, function in weights.items()
        ]
        rankings = plan.per_query(frame, self.evaluation.with_metrics([*metrics, *more]))
        if not self.cluster:
            return rankings
        # A null in one column of several makes the ranking a unit of its own.
        known = pl.all_horizontal(pl.col(name).is_not_null() for name in self.cluster.values())
        return rankings.with_columns(
            pl.when(known).then(name).alias(own) for own, name in self.cluster.items()
        )

    def add_up(self, rankings: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums of some rankings: a row per group, or per sampling unit of a group."""
        sums = [each for part in self._sums for each in part.add_up()]
        keys = [*self.evaluation.by, *self.cluster]
        return grouped(rankings, keys, [pl.len().alias("queries"), *sums])

    def merge(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums of several parts as those of one."""
        return self._merged(parts, [*self.evaluation.by, *self.cluster])

    def finish(self, sums: pl.LazyFrame) -> pl.LazyFrame:
        """Return the estimates, in sorted order of groups, from the sums of all rankings."""
        by = self.evaluation.by
        if self.cluster:
            clustered = pl.all_horizontal(pl.col(name).is_not_null() for name in self.cluster)
            units = [each for part in self._sums for each in part.of_unit(clustered)]
            sums = self._merged(sums.with_columns(units), by)
        found = [each for part in self._sums for each in part.finish()]
        result = sums.select(*by, "queries", *found)
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
    """Numbers of lists that are sums or maxima: those of several sets of lists merge as such."""

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the numbers of lists by name, and how they merge."""
        raise NotImplementedError

    def add_up(self) -> list[pl.Expr]:
        """Return the sums of some rankings."""
        return [value.alias(name) for name, (value, _) in self.named().items()]

    def merge(self) -> list[pl.Expr]:
        """Return the sums of several parts."""
        return [getattr(pl.col(name), how)() for name, (_, how) in self.named().items()]

    def of_unit(self, clustered: pl.Expr) -> list[pl.Expr]:
        """Return the numbers of lists that were sampled as one unit, where they were."""
        return [
            pl.when(clustered).then(value.cast(pl.Float64)).otherwise(name).alias(name)
            for name, value in self.units().items()
        ]

    def units(self) -> dict[str, pl.Expr]:
        """Return the numbers of a unit that are not the sums or maxima over its lists."""
        raise NotImplementedError

    def finish(self) -> list[pl.Expr]:
        """Return the columns of the result."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Estimate(_Sums):
    """A ratio of sums over lists, with its variance by Taylor's series, and an interval.

    The variance is that of lists or of clusters of them, whichever are the units.
    """

    name: str
    normalize: Normalize
    weight: str | None

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the sums of values v, of divisors d, of their squares and products; and units."""
        own = _own(self.weight)
        value = pl.col(self.name).fill_null(0.0) * own
        divisor = own if self.normalize == "ips" else _OF_LIST * own
        sums = (value, divisor, value**2, value * divisor, divisor**2, _OF_LIST.is_not_null())
        return {
            name: (each.cast(pl.Float64).sum(), "sum")
            for name, each in zip(self._parts, sums, strict=True)
        }

    def units(self) -> dict[str, pl.Expr]:
        """Return the squares and products of the sums over the lists of a unit; and 1 unit."""
        value, divisor, squares, products, divisors, units = self._parts
        v, d = pl.col(value), pl.col(divisor)
        return {squares: v**2, products: v * d, divisors: d**2, units: pl.col(units) > 0}

    def finish(self) -> list[pl.Expr]:
        """Return the estimate, its variance and the interval."""
        value, divisor, squares, products, divisors, units = map(pl.col, self._parts)
        found = ratio(value, divisor)
        spread = squares - 2 * found * products + found**2 * divisors
        variance = pl.when(units > 1).then(
            spread.clip(lower_bound=0.0) / divisor**2 * units / (units - 1)
        )
        estimates = (found, variance, *interval(found, variance))
        return [
            each.alias(self.name + part)
            for part, each in zip(("", *_PARTS), estimates, strict=True)
        ]

    @property
    def _parts(self) -> list[str]:
        return [f"{OWN}{part} {self.name}" for part in ("v", "d", "vv", "vd", "dd", "units")]


@dataclass(frozen=True)
class _Weights(_Sums):
    """What is to be known of the weights: of documents, or of the units that were sampled."""

    weight: str | None
    clustered: bool

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the numbers from which the finished ones are made."""
        own = _own(self.weight)
        squares, highest = (
            (_OF_LIST**2, _OF_LIST) if self.clustered else (pl.col(_SQUARES), pl.col(_HIGHEST))
        )
        return {
            _OWN_WEIGHT: (own.sum(), "sum"),
            _WEIGHTED: ((_OF_LIST * own).sum(), "sum"),
            _WEIGHT: (_OF_LIST.sum(), "sum"),
            _SQUARES: (squares.sum(), "sum"),
            _HIGHEST: (highest.max(), "max"),
            _UNSHOWN: (pl.col(_UNSHOWN).sum(), "sum"),
            _RANKED: (pl.col(_RANKED).sum(), "sum"),
        }

    def units(self) -> dict[str, pl.Expr]:
        """Return the weight of a unit as the highest of its weights, and its square."""
        return {_SQUARES: pl.col(_WEIGHT) ** 2, _HIGHEST: pl.col(_WEIGHT)}

    def finish(self) -> list[pl.Expr]:
        """Return the columns that are told."""
        told = (
            ratio(pl.col(_WEIGHTED), pl.col(_OWN_WEIGHT)),
            *concentration(pl.col(_WEIGHT), pl.col(_SQUARES), pl.col(_HIGHEST)),
            ratio(pl.col(_UNSHOWN), pl.col(_RANKED)),
        )
        return [each.alias(name) for name, each in zip(TOLD, told, strict=True)]


def _own(weight: str | None) -> pl.Expr:
    """Return what each list counts: 1, or the weight of its own."""
    own = _OF_LIST.is_not_null() if weight is None else pl.col(weight)
    return own.cast(pl.Float64)


def _sum(metric: Metric, normalize: Normalize) -> Metric:
    """Return a metric as a sum over weights, under its own name."""
    name = "" if metric.parts else metric.function.__name__
    sums = {**_SUMS, **(_SHARES if normalize == "snips" else {})}
    odd = [key for key in ("depth", "short", "rel") if metric.arguments.get(key) not in _PLAIN]
    odd += ["k"] if name == "precision" and metric.arguments.get("k") is None else []
    odd += ["gain"] if metric.arguments.get("gain", linear) is not linear else []
    if name not in sums or odd:
        given = [metric.arguments.get(key) for key in odd[:1] if name in sums]
        why = "".join(f"with {odd[0]}={getattr(each, '__name__', each)!r} it " for each in given)
        message = (
            f"{metric} {why}is no sum over documents of their labels, which are weights: with "
            f"`normalize` {normalize!r} take {', '.join(sums)} (gain='linear'), or an expression "
            "that is such a sum"
        )
        raise ArgumentError(message, "normalize")
    function = sums[name]
    return metric if function is None else Metric(function, metric.arguments, metric.output_name)


#: Values of parameters that change nothing.
_PLAIN = (None, "k")


def _depth(metrics: Iterable[pl.Expr]) -> int | None:
    """Return the deepest rank that any of the metrics reads; None for the whole list."""
    leaves = (leaf for each in metrics if isinstance(each, Metric) for leaf in each.leaves)
    depths: list[Any] = [leaf.arguments.get("k") for leaf in leaves]
    return max(depths) if depths and None not in depths else None


def _checked(by: list[str], allowed: float, groups: pl.DataFrame) -> pl.DataFrame:
    def where(rows: pl.DataFrame) -> str:
        return f", as in {rows.select(by).row(0, named=True)}" if by else ""

    nothing = groups.filter(pl.col("unshown").is_null() & (pl.col("queries") > 0))
    if not nothing.is_empty():
        message = (
            f"the new ranker ranks no document (score null){where(nothing)}: join its scores to "
            "the log by query and document, and see that the ids of both are the same"
        )
        raise DataError(message)
    lacking = groups.filter(pl.col("unshown") > allowed)
    if not lacking.is_empty():
        share: Any = lacking.get_column("unshown").max()
        message = (
            f"{share:.1%} of what the new ranker would show was never shown (label null)"
            f"{where(lacking)}: of such documents the log knows nothing, and they count as worth "
            "nothing. Evaluate a ranker nearer to the logged one, or at a lower k, or set "
            f"`max_unshown` to {math.ceil(share * 100) / 100:g} to accept it (now {allowed:g})"
        )
        raise DataError(message, "max_unshown")
    warn_of_few(groups, by, "queries")
    return groups
