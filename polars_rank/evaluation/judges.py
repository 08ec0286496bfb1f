"""The per-query table by several columns of labels, one per judge."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from polars_rank._params import OWN
from polars_rank.evaluation.parameters import JUDGE, Evaluation
from polars_rank.evaluation.stages import JUDGED, facts_of

_COUNTS = OWN + "counts"


def of_judges(tables: Sequence[pl.LazyFrame], evaluation: Evaluation) -> pl.LazyFrame:
    """Return one row per ranking and judge, from the per-query table of each judge.

    The tables have the same rankings in the same order. Queries that do not count for a judge are
    left out.
    """
    judges = evaluation.labels or ()
    groups = [name for name in evaluation.by if name != JUDGE]
    leading = [*groups, *evaluation.query, *evaluation.kept.values()]
    names = [*facts_of(evaluation), *(column.name for column in evaluation.metrics)]
    of_judge = [{name: f"{OWN}{index} {name}" for name in names} for index in range(len(judges))]
    parts = [
        table.select(
            *([] if index else leading), *(pl.col(name).alias(own) for name, own in columns.items())
        )
        for index, (table, columns) in enumerate(zip(tables, of_judge, strict=True))
    ]
    wide = pl.concat(parts, how="horizontal")
    # A list of structs per ranking would take six times as long.
    each_judge = pl.lit(judges, pl.List(pl.Enum(judges)))  # sorted in the order of `labels`
    of_rankings = wide.with_columns(each_judge.alias(JUDGE)).explode(JUDGE)
    values = [
        pl.coalesce(
            pl.when(pl.col(JUDGE) == judge).then(columns[name])
            for judge, columns in zip(judges, of_judge, strict=True)
        ).alias(name)
        for name in names
    ]
    table = of_rankings.select(*leading, JUDGE, *values)
    return _labeled_in_any_run(table, evaluation) if evaluation.labeled_in_any_run else table


def _labeled_in_any_run(table: pl.LazyFrame, evaluation: Evaluation) -> pl.LazyFrame:
    """Return the rankings of the queries of which a judge labeled a document in any run."""
    runs = evaluation.runs
    if not runs:
        return table.filter(JUDGED)
    query = [name for name in (*evaluation.by, *evaluation.query) if name not in runs]
    labeled = pl.col(JUDGED).sum().over(query) > 0
    return table.with_columns(labeled.alias(_COUNTS)).filter(_COUNTS).drop(_COUNTS)
