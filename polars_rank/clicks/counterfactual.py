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
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import polars as pl

from polars_rank._params import OWN, is_number, one_of
from polars_rank.clicks.certainty import concentration, interval, warn_of_few
from polars_rank.errors import ArgumentError, DataError
from polars_rank.evaluation.aggregation import ratio
from polars_rank.gains import linear
from polars_rank.metrics.metric import Metric
from polars_rank.metrics.names import output_name
from polars_rank.metrics.terms import JUDGED, LABEL, Terms, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from polars_rank.conventions import Conventions
    from polars_rank.evaluation.aggregation import Total

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


class Estimates(NamedTuple):
    """The sums by list of which estimates are made, and how."""

    metrics: list[pl.Expr]
    normalize: Normalize
    weights: list[Metric]

    @classmethod
    def of(
        cls, metrics: Iterable[pl.Expr], normalize: Normalize, conventions: Conventions
    ) -> Estimates:
        """Return the sums; raise `ArgumentError` for a metric that is none."""
        one_of("normalize", normalize, (None, "ips", "snips"))
        if conventions.queries != "all":
            message = (
                f"`normalize` counts every list, clicked or not; found queries="
                f"{conventions.queries!r}: say queries='all'"
            )
            raise ArgumentError(message)
        asked = [
            conventions.apply(metric) if isinstance(metric, Metric) else metric
            for metric in metrics
        ]
        depth = _depth(asked)
        weights = {
            _WEIGHT: lambda t: t.each(LABEL).sum(),
            _SQUARES: lambda t: t.each(LABEL * LABEL).sum(),
            _HIGHEST: lambda t: t.each(LABEL).max(),
            _RANKED: lambda t: t.retrieved(depth),
            _UNSHOWN: lambda t: t.top(~JUDGED, depth).number(),
        }
        return cls(
            [_sum(metric, normalize) if isinstance(metric, Metric) else metric for metric in asked],
            normalize,
            [Metric(function, {}, name) for name, function in weights.items()],
        )

    @property
    def of_lists(self) -> list[pl.Expr]:
        """What is evaluated for each list."""
        return [*self.metrics, *self.weights]

    @property
    def added(self) -> list[str]:
        """The columns of the result beside the metrics."""
        return [*(name + part for name in self._names for part in _PARTS), *TOLD]

    @property
    def _names(self) -> list[str]:
        return [output_name(metric) for metric in self.metrics]

    def totals(self, weight: str | None, *, clustered: bool) -> list[Total]:
        """Return what lists add up to; `weight` is the column of their own."""
        estimates = [_Estimate(name, self.normalize, weight) for name in self._names]
        return [*estimates, _Weights(weight, clustered)]

    def check(self, by: Sequence[str], allowed: float) -> Callable[[pl.LazyFrame], pl.LazyFrame]:
        """Return what raises `DataError` where too much of the new lists was never shown.

        It also warns of a low effective sample size.
        """
        if not is_number(allowed) or not 0 <= allowed <= 1:
            message = f"`max_unshown` must be a share from 0 to 1; found {allowed!r}"
            raise ArgumentError(message)
        return partial(_with_check, list(by), allowed)


class _Sums:
    """Numbers of lists that are sums or maxima: those of several sets of lists merge as such."""

    def named(self) -> dict[str, tuple[pl.Expr, str]]:
        """Return the numbers of lists by name, and how they merge."""
        raise NotImplementedError

    def of_lacking(self) -> dict[str, int]:
        """Return the numbers of a list that a run lacks, where they are not 0."""
        return {}

    def parts(self) -> list[pl.Expr]:
        return [value.alias(name) for name, (value, _) in self.named().items()]

    def merged(self) -> list[pl.Expr]:
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

    def undefined(self, number: pl.Expr) -> list[pl.Expr]:
        lacking = self.of_lacking()
        return [
            (number * lacking.get(name, 0)).cast(pl.Float64).alias(name) for name in self.named()
        ]


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

    def of_lacking(self) -> dict[str, int]:
        """Return what a list without clicks adds: itself, and its own weight."""
        _, divisor, _, _, divisor_squared, units = self._parts
        counted = self.normalize == "ips" and self.weight is None
        return {units: 1, **({divisor: 1, divisor_squared: 1} if counted else {})}

    def finished(self) -> list[pl.Expr]:
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

    def of_lacking(self) -> dict[str, int]:
        """Return what a list without clicks adds: its own weight."""
        return {_OWN_WEIGHT: 1} if self.weight is None else {}

    def finished(self) -> list[pl.Expr]:
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


def _with_check(by: list[str], allowed: float, results: pl.LazyFrame) -> pl.LazyFrame:
    schema = results.collect_schema()
    return results.map_batches(partial(_checked, by, allowed), schema=schema, streamable=True)


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
    warn_of_few(groups, by, "queries")
    return groups
