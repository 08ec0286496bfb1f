"""Values of a log under several definitions of the library, in one pass."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.conventions import Conventions
from polars_rank.errors import ArgumentError
from polars_rank.evaluation.evaluate import per_query
from polars_rank.metrics.expectations import has_expectation
from polars_rank.metrics.metric import Metric, parameters_of
from polars_rank.metrics.names import output_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The column of values.
VALUE = OWN + "value"


def values_under(
    log: pl.LazyFrame,
    definitions: Iterable[tuple[Metric, Conventions]],
    options: Mapping[str, Any],
) -> list[pl.DataFrame]:
    """Return the values of the queries that count, under each definition."""
    return pl.collect_all(
        [
            per_query(log, metric, conventions=conventions, **options).rename(
                {output_name(metric): VALUE}
            )
            for metric, conventions in definitions
        ]
    )


def mean_of(values: pl.DataFrame, metric: Metric, conventions: Conventions) -> float | None:
    """Return the mean that `evaluate` has of values: a sum of counts, or a geometric mean."""
    column = values.get_column(VALUE).cast(pl.Float64)
    if conventions.counts_as(metric) == "null" and column.null_count():
        return None
    how = conventions.aggregate(metric)
    mean: Any = column.sum() if how == "sum" else column.mean()
    return math.exp(mean) if how == "geometric" and mean is not None else mean


def definition_of(metric: Metric, choices: Mapping[str, Any]) -> tuple[Metric, Conventions]:
    """Return a metric and conventions with these choices.

    Raises
    ------
    ArgumentError
        If the library does not have a choice.
    """
    accepted = {*parameters_of(metric)} - {"rel"}
    known = {each.name for each in fields(Conventions)}
    parameters = {key: value for key, value in choices.items() if key in accepted}
    general = {key: value for key, value in choices.items() if key in known}
    arguments = {key: value for key, value in metric.arguments.items() if key != "rel"}
    defined, conventions = (
        Metric(metric.function, arguments).but(**parameters),
        Conventions(**general),
    )
    if conventions.ties == "expected" and not has_expectation(defined):
        raise ArgumentError(f"no closed form is known for {defined} with ties='expected'")
    _ = defined.tree  # checks the parameters
    return defined, conventions
