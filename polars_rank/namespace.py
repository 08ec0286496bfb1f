"""`.ranking` on DataFrame and LazyFrame: the functions of polars_rank as methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank.errors import hint
from polars_rank.evaluation import evaluate, per_query
from polars_rank.measures.metric import REGISTER
from polars_rank.ranking import rank

if TYPE_CHECKING:
    from collections.abc import Callable

    from polars_rank.evaluation import Metrics

#: Parameters of `evaluate`; a metric's method takes them beside the metric's own.
_OPTIONS = frozenset(evaluate.__kwdefaults__ or {})


class Ranking:
    """Ranking evaluation of one frame; see `pr.rank`, `pr.per_query` and `pr.evaluate`."""

    def __init__(self, frame: pl.DataFrame | pl.LazyFrame) -> None:
        self._frame = frame

    def rank(self, **options: Any) -> Any:
        """Return the ranked table; see `pr.rank`."""
        return rank(self._frame, **options)

    def per_query(self, metrics: Metrics, **options: Any) -> Any:
        """Evaluate every list; see `pr.per_query`."""
        return per_query(self._frame, metrics, **options)

    def evaluate(self, metrics: Metrics, **options: Any) -> Any:
        """Return the means over queries; see `pr.evaluate`."""
        return evaluate(self._frame, metrics, **options)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a metric as a method: `df.ranking.ndcg(10)`.

        The method takes the parameters of the metric and those of `evaluate`. On a DataFrame it
        returns the mean as a float (with `by`, a DataFrame), on a LazyFrame a LazyFrame.
        """
        if name not in REGISTER:
            message = f"there is no metric {name!r}.{hint(name, REGISTER)}"
            raise AttributeError(message)

        def mean(*args: Any, **parameters: Any) -> Any:
            options = {key: parameters.pop(key) for key in _OPTIONS & parameters.keys()}
            metric = REGISTER[name](*args, **parameters)
            result = evaluate(self._frame, metric, **options)
            single = isinstance(result, pl.DataFrame) and not options.get("by")
            return result.get_column(metric.output_name).item() if single else result

        mean.__name__ = name
        mean.__doc__ = REGISTER[name].__doc__
        return mean

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *REGISTER]


pl.api.register_dataframe_namespace("ranking")(Ranking)
pl.api.register_lazyframe_namespace("ranking")(Ranking)
