"""The namespace `.ranking` of DataFrame and LazyFrame: functions of polars_rank as methods."""

from __future__ import annotations

from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, TypeVar, cast

import polars as pl

from polars_rank._params import unknown_parameter
from polars_rank.clicks import click_through_rates, coec, labels
from polars_rank.diagnostics.bounds import judgment_bounds, tie_bands
from polars_rank.diagnostics.changes import movers
from polars_rank.diagnostics.pipelines import headroom
from polars_rank.diagnostics.robust_verdicts import robustness
from polars_rank.diagnostics.similarity import overlap
from polars_rank.errors import hint
from polars_rank.evaluation.curves import grouped_auc, pr_curve, rank_curve
from polars_rank.evaluation.evaluate import evaluate, per_query
from polars_rank.evaluation.ranking import rank
from polars_rank.fusion.fuse import fuse
from polars_rank.fusion.tuning import tune_fusion
from polars_rank.gates.verdicts import check
from polars_rank.io.chunks import collapse
from polars_rank.metrics.metric import REGISTER, MetricFunction, parameters_of, with_help
from polars_rank.metrics.names import instead
from polars_rank.stats.comparison import compare
from polars_rank.stats.leaderboards import leaderboard
from polars_rank.stats.planning import power
from polars_rank.stats.summary import summarize

if TYPE_CHECKING:
    from collections.abc import Callable

    from polars_rank.frames.tables import Framed

P = ParamSpec("P")
Frame = TypeVar("Frame", pl.DataFrame, pl.LazyFrame)

#: Parameters of `evaluate`; methods of metrics accept these and the parameters of the metric.
_OPTIONS = dict.fromkeys([*signature(evaluate).parameters][2:])


def _method(function: Framed[P]) -> Callable[Concatenate[Ranking[Frame], P], Frame]:
    """Return a method that calls a function with the frame."""

    @wraps(function)
    def method(self: Ranking[Any], *args: P.args, **kwargs: P.kwargs) -> Any:
        return function(self._frame, *args, **kwargs)

    return cast("Callable[Concatenate[Ranking[Frame], P], Frame]", method)


class Ranking(Generic[Frame]):
    """The namespace `ranking` of data frames: functions and metrics as methods.

    Methods return a DataFrame for a DataFrame, and a LazyFrame for a LazyFrame. The method of a
    metric, such as `df.ranking.ndcg(10)`, returns a float for a DataFrame.
    """

    def __init__(self, frame: Frame) -> None:
        self._frame: Frame = frame

    rank: Final = _method(rank)
    collapse: Final = _method(collapse)
    fuse: Final = _method(fuse)
    tune_fusion: Final = _method(tune_fusion)
    check: Final = cast("Callable[..., pl.DataFrame]", _method(cast("Any", check)))
    click_through_rates: Final = _method(click_through_rates)
    coec: Final = _method(coec)
    labels: Final = _method(labels)
    per_query: Final = _method(per_query)
    evaluate: Final = _method(evaluate)
    tie_bands: Final = _method(tie_bands)
    judgment_bounds: Final = _method(judgment_bounds)
    grouped_auc: Final = _method(grouped_auc)
    pr_curve: Final = _method(pr_curve)
    rank_curve: Final = _method(rank_curve)
    compare: Final = _method(compare)
    headroom: Final = _method(headroom)
    leaderboard: Final = _method(leaderboard)
    movers: Final = _method(movers)
    overlap: Final = _method(overlap)
    power: Final = _method(power)
    robustness: Final = _method(robustness)
    summarize: Final = _method(summarize)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the method of a metric, such as `df.ranking.ndcg(10)`.

        The method takes the parameters of the metric and of `evaluate`. It returns the mean as a
        float for a DataFrame, a DataFrame if there are runs or groups, and a LazyFrame for
        a LazyFrame.
        """
        if name not in REGISTER:
            advice = instead(name)
            remedy = f"; {advice}" if advice else f".{hint(name, dir(self))}"
            raise AttributeError(f"'.ranking' has no method {name!r}{remedy}")
        definition: MetricFunction[...] = with_help(REGISTER[name])

        @wraps(cast("Callable[..., Any]", definition))
        def mean(*args: Any, **parameters: Any) -> Any:
            options = {key: parameters.pop(key) for key in _OPTIONS.keys() & parameters.keys()}
            accepted = [*parameters_of(definition), *_OPTIONS]
            unknown = [key for key in parameters if key not in accepted]
            if unknown:
                raise unknown_parameter(name, unknown[0], accepted)
            metric = definition(*args, **parameters)
            result = evaluate(self._frame, metric, **options)
            if isinstance(result, pl.DataFrame) and result.columns[0] == "queries":  # no groups
                return result.get_column(metric.output_name).item()
            return result

        return mean

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *REGISTER]
