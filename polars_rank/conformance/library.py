"""Values of a log under several definitions of the library, in one pass."""

from __future__ import annotations

import math
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.conventions import Conventions
from polars_rank.definitions import Definition
from polars_rank.errors import ArgumentError
from polars_rank.evaluation import plan
from polars_rank.evaluation.log import Log
from polars_rank.evaluation.means import COUNTED
from polars_rank.metrics.expectations import has_expectation
from polars_rank.metrics.metric import Metric, parameters_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The column of values.
VALUE = OWN + "value"


def values_under(
    log: pl.LazyFrame,
    definitions: Iterable[tuple[Metric, Conventions]],
    options: Mapping[str, Any],
) -> list[pl.DataFrame]:
    """Return the keys and values of the queries that count, under each definition.

    The log is ranked once for all definitions with the same order of documents.
    """
    definitions = [*definitions]
    columns = [
        replace(Definition.of(*each), name=f"{OWN}value {index}")
        for index, each in enumerate(definitions)
    ]
    read = Log.of(log, **options)
    keys = read.columns.keys
    # By these choices, other documents are judged and retrieved, so that other queries count.
    choices = [(own.unjudged, own.duplicates) for _, own in definitions]
    tables = {}
    for same in dict.fromkeys(choices):
        alike = [column for column, own in zip(columns, choices, strict=True) if own == same]
        tables[same] = plan.per_query(replace(read, definitions=alike)).collect().lazy()
    return [
        tables[same]
        .filter(COUNTED.get(conventions.query_set, pl.lit(value=True)))
        .select(*keys, column.counted.cast(pl.Float64).alias(VALUE))
        .collect()
        for same, column, (_, conventions) in zip(choices, columns, definitions, strict=True)
    ]


def mean_of(values: pl.DataFrame, metric: Metric, conventions: Conventions) -> float | None:
    """Return the mean that `evaluate` has of values: a sum of counts, or a geometric mean."""
    column = values.get_column(VALUE)
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
    defined = Metric(metric.function, arguments).but(**parameters)
    conventions = Conventions(**general)
    if conventions.ties == "expected" and not has_expectation(defined):
        raise ArgumentError(f"no closed form is known for {defined} with ties='expected'")
    _ = defined.tree  # checks the parameters
    return defined, conventions
