"""The per-query values or the moments of all runs, from which all pairs of runs are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

from polars_rank._params import check_distinct, free
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.frames.tables import schema_of
from polars_rank.stats.moment_tables import UNITS, check_groups, regrouped, runs_of
from polars_rank.stats.pair_moments import ALL_PAIRS, RunMoments
from polars_rank.stats.per_query_tables import (
    key_columns,
    known_query,
    only_metrics,
    query_columns,
    variables,
)
from polars_rank.stats.run_matrices import RunMatrices
from polars_rank.stats.run_pairs import duplicates

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import polars as pl

    from polars_rank._params import Names
    from polars_rank.conventions import Conventions, Undefined
    from polars_rank.metrics.names import Metrics


def run_matrices(
    values: pl.LazyFrame,
    metrics: Metrics | None,
    definitions: Conventions,
    undefined: Undefined | Mapping[str, Undefined] | None,
    *,
    run: str,
    by: Names | None,
    query: Names,
    weight: str | None,
    cluster: Names | None,
    added: Iterable[str],
) -> RunMatrices:
    """Return the values of metrics that are means over queries.

    `added` are the columns of the result, whose names groups and runs must not have.
    """
    schema = schema_of(values)
    keys = key_columns(schema, by=by, run=run, weight=weight, cluster=cluster)
    keys = {**keys, "query": query_columns(values, query, metrics, keys)}
    check_distinct(keys)
    groups = keys["by"]
    free([*groups, run], added)
    selected = variables(schema, metrics, definitions, keys, undefined=undefined)
    for each in selected:
        if each.aggregate != "mean":
            raise ArgumentError(f"the metric {each.name!r} is not a mean over queries")
    default_query = () if known_query(schema, query) else keys["query"]
    return RunMatrices(
        values, selected, groups, run, keys["query"], weight, keys["cluster"],
        duplicates([*groups, run, *keys["query"]], default_query),
    )  # fmt: skip


def run_moments(
    table: pl.LazyFrame, metrics: Metrics | None, by: Names | None, run: str
) -> RunMoments:
    """Return the moments of all pairs; raise unless the table has them for these columns."""
    schema = schema_of(table)
    if ALL_PAIRS not in schema:
        raise SchemaError(
            "the moments have no sums of all pairs of runs; compute them with "
            f"run={run!r} and all_pairs=True"
        )
    groups = [*key_columns(schema, by=by, run=run)["by"]]
    check_groups(schema, [*groups, run])
    (of_moments,) = runs_of(schema)
    if run != of_moments:
        raise ArgumentError(f"`run` must be {of_moments!r} as in `moments`; found {run!r}")
    rows = regrouped(only_metrics(table, metrics), [*groups, run], all_pairs=True)
    return RunMoments(rows, groups, run, not {*UNITS}.isdisjoint(schema))
