"""`join_judgments` of Spark DataFrames, with joins of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from polars_rank._params import OWN, names
from polars_rank.columns import RUN, groups_of
from polars_rank.frames.engines import engine_of
from polars_rank.frames.tables import lazy
from polars_rank.io import judgments as polars_tables
from polars_rank.spark import dataframes
from polars_rank.spark.dataframes import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame


def join_judgments(run: DataFrame, judgments: Any, options: Mapping[str, Any]) -> DataFrame:
    """Return the long table as `polars_rank.join_judgments` does."""
    if engine_of(judgments) is None:
        judgments = run.sparkSession.createDataFrame(
            lazy(judgments, "judgments").collect().to_arrow()
        )
    left_schema, right_schema = dataframes.schema_of(run), dataframes.schema_of(judgments)
    result = polars_tables.join_judgments(
        left_schema.to_frame(eager=False), right_schema.to_frame(eager=False), **options
    ).collect_schema()
    label = options.get("label", "label")
    if label not in judgments.columns:  # all documents in the judgments are relevant
        judgments = judgments.selectExpr("*", f"cast(1 as bigint) as {quoted(label)}")

    keys = [*names("query", options.get("query", "query")), options.get("doc", "doc")]
    queries = keys[:-1]
    groups = [*groups_of(left_schema, options.get("by"), options.get("run", RUN), queries)]
    rest = {*groups, *keys, options.get("score", "score")}
    others = [name for name in run.columns if name not in rest]
    left = _as(run, dataframes.spark_schema(result, run, left_schema), keys)
    right = _as(judgments, dataframes.spark_schema(result, judgments, right_schema), keys)
    if groups:
        right = right.crossJoin(left.selectExpr(*map(quoted, groups)).distinct())
    right = _with_constants(right, left, others, [[*groups, *queries], queries, groups])

    shared = [*groups, *keys]
    right = right.withColumnsRenamed({name: OWN + name for name in shared})
    both = left.join(right, _same(shared, [OWN + name for name in shared]), "full")
    in_both = {*shared, *others}
    return both.selectExpr(
        *(
            f"coalesce({quoted(name)}, {quoted(OWN + name)}) as {quoted(name)}"
            if name in in_both
            else quoted(name)
            for name in result
        )
    )


def _as(frame: DataFrame, schema: Any, keys: Sequence[str]) -> DataFrame:
    """Return the frame with its keys cast to the types of the result."""
    types = {name: schema[name].dataType.simpleString() for name in keys}
    return frame.selectExpr(
        *(
            f"cast({quoted(name)} as {types[name]}) as {quoted(name)}"
            if name in types
            else quoted(name)
            for name in frame.columns
        )
    )


def _with_constants(
    judgments: DataFrame,
    run: DataFrame,
    others: Sequence[str],
    levels: Sequence[Sequence[str]],
) -> DataFrame:
    """Return judgments with the columns that are constant within a ranking, a query, or a run."""
    if not others:
        return judgments
    parts = [list(keys) for keys in dict.fromkeys(tuple(keys) for keys in levels if keys)]
    for index, keys in enumerate(parts):
        renamed_keys = [f"{OWN}{index} key {name}" for name in keys]
        constants = _constants(run, keys, others, f"{OWN}{index} ")
        renamed = constants.withColumnsRenamed(dict(zip(keys, renamed_keys, strict=True)))
        judgments = judgments.join(renamed, _same(keys, renamed_keys), "left").drop(*renamed_keys)
    candidates = (
        (name, ", ".join(quoted(f"{OWN}{index} {name}") for index in range(len(parts))))
        for name in others
    )
    joined_columns = [f"{OWN}{index} {name}" for index in range(len(parts)) for name in others]
    values = (f"coalesce({columns}) as {quoted(OWN + name)}" for name, columns in candidates)
    return judgments.selectExpr("*", *values).drop(*joined_columns)


def _constants(run: DataFrame, keys: Sequence[str], others: Sequence[str], own: str) -> DataFrame:
    """Return one row per key; columns that vary within any key are null in all rows."""
    from pyspark.sql.functions import expr  # noqa: PLC0415  (an extra)

    values, varies = [], []
    for name in others:
        column, varying = quoted(name), quoted(f"{own}varies {name}")
        values.append(f"min({column}) as {quoted(own + name)}")
        values.append(
            f"not (min({column}) <=> max({column})) "
            f"or count({column}) between 1 and count(*) - 1 as {varying}"
        )
        varies.append(f"bool_or({varying}) as {varying}")
    each = run.groupBy(*(expr(quoted(name)) for name in keys)).agg(*map(expr, values))
    changing = [f"{own}varies {name}" for name in others]
    somewhere = each.agg(*map(expr, varies))
    return (
        each.drop(*changing)
        .crossJoin(somewhere)
        .selectExpr(
            *map(quoted, keys),
            *(
                f"case when not {quoted(f'{own}varies {name}')} then {quoted(own + name)} end "
                f"as {quoted(own + name)}"
                for name in others
            ),
        )
    )


def _same(left: Sequence[str], right: Sequence[str]) -> Any:
    """Return the condition that columns are equal, where null equals null."""
    from pyspark.sql.functions import expr  # noqa: PLC0415  (an extra)

    pairs = zip(left, right, strict=True)
    return expr(" and ".join(f"{quoted(one)} <=> {quoted(other)}" for one, other in pairs))
