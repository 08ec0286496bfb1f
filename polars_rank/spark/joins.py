"""`join_judgments` of Spark DataFrames, with joins of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polars_rank._params import OWN
from polars_rank.columns import Columns
from polars_rank.frames.engines import engine_of
from polars_rank.frames.tables import lazy
from polars_rank.io import judgments as polars_tables
from polars_rank.spark import dataframes
from polars_rank.spark.dataframes import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame


def join_judgments(rankings: DataFrame, judgments: Any, options: Mapping[str, Any]) -> DataFrame:
    """Return the long table as `polars_rank.join_judgments` does."""
    if engine_of(judgments) is None:
        judgments = rankings.sparkSession.createDataFrame(
            lazy(judgments, "judgments").collect().to_arrow()
        )
    left_schema, right_schema = dataframes.schema_of(rankings), dataframes.schema_of(judgments)
    result = polars_tables.join_judgments(
        left_schema.to_frame(eager=False), right_schema.to_frame(eager=False), **options
    ).collect_schema()
    label = options["label"]
    if label not in judgments.columns:  # all documents in the judgments are relevant
        judgments = judgments.selectExpr("*", f"cast(1 as bigint) as {quoted(label)}")

    roles = {role: options[role] for role in ("run", "by", "query", "doc")}
    columns = Columns.find(left_schema, roles)
    queries, groups = columns.query, columns.by
    shared = [*groups, *queries, str(columns.doc)]
    others = [name for name in rankings.columns if name not in {*shared, options["score"]}]
    if groups:
        every = rankings.selectExpr(*map(quoted, groups)).distinct()
        judgments = judgments.crossJoin(every)
    levels = [(*groups, *queries), queries, groups]
    judgments = _with_constants(judgments, rankings, others, levels)
    return _joined(rankings, judgments, shared, "full").selectExpr(
        *(_either(name) if name in {*shared, *others} else quoted(name) for name in result)
    )


def _joined(left: DataFrame, right: DataFrame, keys: Sequence[str], how: str) -> DataFrame:
    """Return the join of tables that are named `l` and `r`, where null equals null."""
    from pyspark.sql.functions import expr  # noqa: PLC0415  (an extra)

    same = " and ".join(f"l.{quoted(name)} <=> r.{quoted(name)}" for name in keys)
    return left.alias("l").join(right.alias("r"), expr(same or "true"), how)


def _either(name: str) -> str:
    return f"coalesce(l.{quoted(name)}, r.{quoted(name)}) as {quoted(name)}"


def _with_constants(
    judgments: DataFrame, run: DataFrame, others: Sequence[str], levels: Sequence[Sequence[str]]
) -> DataFrame:
    """Return judgments with the columns that are constant within a ranking, a query, or a run."""
    own = [f"l.{quoted(name)}" for name in judgments.columns]
    values = [f"r.{quoted(name)}" for name in others]
    for keys in dict.fromkeys(levels) if others else ():
        if keys:
            both = _joined(judgments, _constants(run, keys, others), keys, "left")
            judgments, values = both.selectExpr(*own, *values), [*map(_either, others)]
    return judgments


def _constants(run: DataFrame, keys: Sequence[str], others: Sequence[str]) -> DataFrame:
    """Return one row per key; columns that vary within any key are null in all rows."""
    from pyspark.sql.functions import expr  # noqa: PLC0415  (an extra)

    columns = {quoted(name): quoted(f"{OWN}varies {name}") for name in others}
    values = [f"min({name}) as {name}" for name in columns]
    values += [
        f"not (min({name}) <=> max({name})) or count({name}) between 1 and count(*) - 1 as {varies}"
        for name, varies in columns.items()
    ]
    each = run.groupBy(*(expr(quoted(name)) for name in keys)).agg(*map(expr, values))
    somewhere = each.agg(*(expr(f"bool_or({name}) as {name}") for name in columns.values()))
    constants = (
        f"case when not r.{varies} then l.{name} end as {name}" for name, varies in columns.items()
    )
    return _joined(each, somewhere, (), "cross").selectExpr(*map(quoted, keys), *constants)
