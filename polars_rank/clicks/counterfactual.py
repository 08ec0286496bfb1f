"""What a new ranker's lists are worth, by clicks on those of another: IPS and SNIPS.

The labels are weights, click / propensity. A metric that is a sum over documents is estimated by
the same sum over weights, its mean over lists being that of inverse propensity scoring, IPS.
Divided by the mean weight of a list it is the self-normalised estimate, SNIPS.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import polars as pl

from polars_rank._params import OWN, Names, is_number, one_of
from polars_rank.clicks.certainty import concentration, interval
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation import plan
from polars_rank.evaluation.means import grouped, ratio
from polars_rank.evaluation.parameters import Evaluation, MetricColumn
from polars_rank.frames.tables import framed
from polars_rank.gains import linear
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import Metrics
from polars_rank.metrics.terms import JUDGED, LABEL, Terms, Value

if TYPE_CHECKING:
    from collections.abc import Iterable


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
    metrics: Metrics,
    *,
    normalize: Normalize = "snips",
    max_unshown: float = MAX_UNSHOWN,
    by: Names | None = None,
    weight: str | None = None,
    **options: Any,
) -> pl.LazyFrame:
    """Estimate the means of metrics of a new ranker from weighted clicks on another ranker.

    TODO
    """
    evaluation = Evaluation.of(metrics, by=by, weight=weight, **options)
    estimates = Estimates.of(evaluation, normalize, max_unshown)
    return estimates.finish(estimates.add_up(estimates.rankings(frame)))


@dataclass(frozen=True)
class Estimates:
    """The estimates of an evaluation: rankings are added up, sums merged, merged sums finished."""

    evaluation: Evaluation
    normalize: Normalize
    max_unshown: float

    @classmethod
    def of(cls, evaluation: Evaluation, normalize: Normalize, max_unshown: float) -> Estimates:
        """Check the parameters; raise `ArgumentError` for a metric that is no sum."""
        one_of("normalize", normalize, ("ips", "snips"))
        if not is_number(max_unshown) or not 0 <= max_unshown <= 1:
            message = f"`max_unshown` must be a share from 0 to 1; found {max_unshown!r}"
            raise ArgumentError(message)
        query_set = evaluation.conventions.query_set
        if query_set != "all":
            message = (
                f"`normalize` counts every list, clicked or not; found query_set={query_set!r}: "
                "say query_set='all'"
            )
            raise ArgumentError(message)
        columns = [
            column._replace(metric=_sum(column.metric, normalize))
            if isinstance(column.metric, Metric)
            else column
            for column in evaluation.metrics
        ]
        estimates = cls(evaluation.with_metrics(columns), normalize, max_unshown)
        estimates.evaluation.check_names(["queries", *estimates.added])
        return estimates

    @property
    def added(self) -> list[str]:
        """The columns of the result beside the metrics."""
        names = [column.name for column in self.evaluation.metrics]
        return [*(name + part for name in names for part in _PARTS), *TOLD]

    def rankings(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums of each ranking, and what there is to know of its weights."""
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
            MetricColumn(name, Metric(function, {}, name), self.evaluation.conventions)
            for name, function in weights.items()
        ]
        return plan.per_query(frame, self.evaluation.with_metrics([*metrics, *more]))

    def add_up(self, rankings: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums of some rankings."""
        sums = [each for part in self._sums for each in part.add_up()]
        return grouped(rankings, self.evaluation.by, [pl.len().alias("queries"), *sums])

    def merge(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Return the sums of several parts as those of one."""
        sums = [each for part in self._sums for each in part.merge()]
        return grouped(parts, self.evaluation.by, [pl.col("queries").sum(), *sums])

    def finish(self, sums: pl.LazyFrame) -> pl.LazyFrame:
        """Return the estimates, in sorted order of groups, from the sums of all rankings."""
        by = self.evaluation.by
        found = [each for part in self._sums for each in part.finish()]
        result = sums.select(*by, "queries", *found)
        check = partial(_checked, by, self.max_unshown)
        return result.map_batches(check, schema=result.collect_schema(), streamable=True)

    @property
    def _sums(self) -> list[_Sums]:
        weight = self.evaluation.weight
        estimates = [
            _Estimate(column.name, self.normalize, weight) for column in self.evaluation.metrics
        ]
        return [*estimates, _Weights(weight)]


class _Sums:
    """Numbers of lists that are sums or maxima: those of several sets of lists merge as such."""

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the numbers of lists by name, and how they merge."""
        raise NotImplementedError

    def add_up(self) -> list[pl.Expr]:
        return [value.alias(name) for name, (value, _) in self.named().items()]

    def merge(self) -> list[pl.Expr]:
        return [getattr(pl.col(name), how)() for name, (_, how) in self.named().items()]

    def finish(self) -> list[pl.Expr]:
        """Return the columns of the result."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Estimate(_Sums):
    """A ratio of sums over lists, with its variance by Taylor's series, and an interval."""

    name: str
    normalize: Normalize
    weight: str | None

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the sums of values v, of divisors d, of their squares and products; and lists."""
        own = _own(self.weight)
        value = pl.col(self.name).fill_null(0.0) * own
        divisor = own if self.normalize == "ips" else _OF_LIST * own
        sums = (value, divisor, value**2, value * divisor, divisor**2, _OF_LIST.is_not_null())
        return {
            name: (each.cast(pl.Float64).sum(), "sum")
            for name, each in zip(self._parts, sums, strict=True)
        }

    def finish(self) -> list[pl.Expr]:
        """Return the estimate, its variance and the interval."""
        value, divisor, squares, products, divisors, lists = map(pl.col, self._parts)
        found = ratio(value, divisor)
        spread = squares - 2 * found * products + found**2 * divisors
        variance = pl.when(lists > 1).then(
            spread.clip(lower_bound=0.0) / divisor**2 * lists / (lists - 1)
        )
        estimates = (found, variance, *interval(found, variance))
        return [
            each.alias(self.name + part)
            for part, each in zip(("", *_PARTS), estimates, strict=True)
        ]

    @property
    def _parts(self) -> list[str]:
        return [f"{OWN}{part} {self.name}" for part in ("v", "d", "vv", "vd", "dd", "lists")]


@dataclass(frozen=True)
class _Weights(_Sums):
    """What is to be known of the weights."""

    weight: str | None

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the numbers from which the finished ones are made."""
        own = _own(self.weight)
        return {
            _OWN_WEIGHT: (own.sum(), "sum"),
            _WEIGHTED: ((_OF_LIST * own).sum(), "sum"),
            _WEIGHT: (_OF_LIST.sum(), "sum"),
            _SQUARES: (pl.col(_SQUARES).sum(), "sum"),
            _HIGHEST: (pl.col(_HIGHEST).max(), "max"),
            _UNSHOWN: (pl.col(_UNSHOWN).sum(), "sum"),
            _RANKED: (pl.col(_RANKED).sum(), "sum"),
        }

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
            f"`normalize` is {normalize!r}, but {metric} {why}is no sum over documents of their "
            f"labels, which are weights: take {', '.join(sums)} (gain='linear'), or an expression "
            "that is such a sum, or evaluate it without `normalize`"
        )
        raise ArgumentError(message)
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
            "nothing. Evaluate a ranker nearer to the logged one, or at a lower k, or say "
            f"max_unshown={math.ceil(share * 100) / 100:g} to accept it (now {allowed:g})"
        )
        raise DataError(message)
    return groups
