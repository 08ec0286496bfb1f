"""The sampling units of a report: queries, clusters, or queries that are in several groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import number_of, warn
from polars_rank.frames.tables import collected
from polars_rank.reporting.formats import count
from polars_rank.stats.run_pairs import is_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from polars_rank.reporting.question import Question

_RANKINGS, _CLUSTERS = OWN + "rankings", OWN + "clusters"
#: Queries in a message have this text.
_QUERY = ("query", "queries")


@dataclass(frozen=True)
class Units:
    """The sampling units of tables over all groups."""

    #: The columns that identify a unit if it is not a ranking.
    cluster: Sequence[str]
    #: Whether the units are queries that are in several groups.
    repeated: bool


def units_of(values: pl.LazyFrame, question: Question) -> Units:
    """Return the units of tables over all groups; warn if groups have queries in common."""
    if not question.by:
        return Units(question.cluster, repeated=False)
    query, cluster = [*question.columns.query], [*question.cluster]
    run = [] if question.run is None else [question.run]
    by_run = values.group_by([*run, *query]).agg(
        pl.len().alias(_RANKINGS), _number_of_clusters(cluster).alias(_CLUSTERS)
    )
    several = pl.col(_RANKINGS) > 1
    by_query = by_run.group_by(query).agg(
        several.any().alias(_RANKINGS), (several & (pl.col(_CLUSTERS) > 1)).any().alias(_CLUSTERS)
    )
    totals = by_query.select(pl.len().alias("all"), pl.col(_RANKINGS, _CLUSTERS).sum())
    queries, repeated, spread = collected(totals).row(0)
    groups = (
        f"{count(repeated)} of {number_of(queries, *_QUERY)} {'is' if repeated == 1 else 'are'} in "
        f"several groups of {', '.join(question.by)}"
    )
    if repeated and not cluster:
        warn(
            f"{groups}. Means over all groups are of all rankings, but their intervals and "
            f"p-values count each query once: they are about other queries like these "
            f"{count(queries)}, for the same groups"
        )
        return Units(question.columns.query, repeated=True)
    if spread:
        warn(
            f"{groups} and in several clusters: intervals and p-values over all groups count them "
            "as different queries and may be too narrow"
        )
    return Units(question.cluster, repeated=False)


def sample_text(
    values: pl.LazyFrame,
    question: Question,
    units: Units,
    runs: Sequence[Any],
    row: Mapping[str, Any],
) -> str:
    """Return the size of a sample, such as "840 queries in 60 clusters (user)".

    The sample is that of the queries that all of `runs` have, with its statistics in `row`.
    """
    rankings, effective = row["queries"], row["effective"]
    if not units.cluster:
        clusters = rankings
        text = number_of(rankings, *_QUERY)
    else:
        clusters = _clusters(values, question, units, runs)
        text = f"{number_of(rankings, *_QUERY)} in {number_of(clusters, 'cluster')}"
        text += f" ({', '.join(units.cluster)})"
    if units.repeated:
        text = f"{number_of(clusters, *_QUERY)}, {number_of(rankings, 'ranking')}"
    is_weighted = question.weight is not None or units.cluster
    if is_weighted and effective is not None and round(effective, 1) < clusters:
        text += f", effective number {effective:,.1f}"
    return text


def _clusters(values: pl.LazyFrame, question: Question, units: Units, runs: Sequence[Any]) -> int:
    """Return the number of clusters with queries that all of the runs have."""
    rows = values
    if question.run is not None:
        dtype = values.collect_schema()[question.run]
        rows = rows.filter(pl.any_horizontal(is_run(question.run, dtype, run) for run in runs))
    others = [name for name in units.cluster if name not in question.queries]
    in_runs = rows.group_by(question.queries).agg(pl.len().alias(_RANKINGS), pl.col(others).first())
    common = in_runs.filter(pl.col(_RANKINGS) == len(runs))
    return int(collected(common.select(_number_of_clusters(units.cluster))).item())


def _number_of_clusters(cluster: Sequence[str]) -> pl.Expr:
    """Return the number of clusters of rankings; a null is a cluster of its own."""
    if not cluster:
        return pl.len()
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in cluster)
    return pl.struct(cluster).filter(known).n_unique() + (~known).sum()
