"""`join_judgments`: retrieved documents and judged ones as the long table."""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import polars as pl
from polars import col

from polars_rank._params import OWN, check_name, find_columns, names
from polars_rank.errors import ArgumentError, SchemaError
from polars_rank.frames.tables import is_spark, lazy, run_on_spark, schema_of
from polars_rank.io.ids import common_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from polars_rank._params import Names
    from polars_rank.frames.tables import Spark, SparkFrame, Table


@overload
def join_judgments(
    rankings: pl.LazyFrame,
    judgments: pl.LazyFrame | Table,
    *,
    by: Names | None = None,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
) -> pl.LazyFrame: ...
@overload
def join_judgments(
    rankings: Spark,
    judgments: Spark | pl.LazyFrame | Table,
    *,
    by: Names | None = None,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
) -> Spark: ...
@overload
def join_judgments(
    rankings: Table,
    judgments: pl.LazyFrame,
    *,
    by: Names | None = None,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
) -> pl.LazyFrame: ...
@overload
def join_judgments(
    rankings: Table,
    judgments: Table,
    *,
    by: Names | None = None,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
) -> pl.DataFrame: ...
def join_judgments(
    rankings: pl.LazyFrame | Table | SparkFrame,
    judgments: pl.LazyFrame | Table | SparkFrame,
    *,
    by: Names | None = None,
    query: Names = "query",
    doc: str = "doc",
    score: str = "score",
    label: str = "label",
) -> pl.LazyFrame | pl.DataFrame | SparkFrame:
    """Join retrieved documents and judged documents into the long table.

    No row is lost: a document that was retrieved but not judged gets a null label, one that was
    judged but not retrieved a null score.

    Parameters
    ----------
    rankings
        Retrieved documents: query, doc, score and any other columns.
    judgments
        Judged documents: query, doc, label and any other columns.
    by
        Columns of ``rankings`` that tell runs apart: each of them gets all the judgments.
        By default the column ``run``, if there is one; ``[]`` for none.
    query, doc
        Key columns, in both tables; ``query`` may be several.
    score, label
        Columns of ``rankings`` and of ``judgments``.

    Returns
    -------
    DataFrame or LazyFrame
        Lazy if one of the two is; of Spark if `rankings` is. The rows are in no particular order.

    Raises
    ------
    SchemaError
        If a column is missing, is in both tables, or key columns have types that do not match.

    Notes
    -----
    A column of ``rankings`` that has one value in each query, such as its country, has that value
    in the rows of judged documents that were not retrieved, too; so does one that has one value
    in each ranking or in each run. Where a query is in no run, it is null. All other columns are
    null in the rows that come only from the other table.

    Integer keys of different widths match, and so do strings and categoricals.

    Examples
    --------
    >>> import polars as pl
    >>> import polars_rank as pr
    >>> run = pl.DataFrame({"query": [1, 1], "doc": ["a", "b"], "score": [0.9, 0.8]})
    >>> judgments = pl.DataFrame({"query": [1, 1], "doc": ["b", "c"], "label": [2, 1]})
    >>> sorted(pr.join_judgments(run, judgments).rows())
    [(1, 'a', 0.9, None), (1, 'b', 0.8, 2), (1, 'c', None, 1)]
    """
    if is_spark(rankings):
        columns = {"by": by, "query": query, "doc": doc, "score": score, "label": label}
        result: SparkFrame = run_on_spark(join_judgments, rankings, judgments, **columns)
        return result
    if is_spark(judgments):
        message = (
            "`judgments` is a Spark DataFrame and `rankings` is none; make one of it with "
            "spark.createDataFrame(...), or give the .toArrow() of the judgments"
        )
        raise ArgumentError(message, "judgments", "rankings")
    left, right = _without_numbers(lazy(rankings)), _without_numbers(lazy(judgments))
    left_schema, right_schema = schema_of(left), schema_of(right)
    keys = [*names("query", query), *names("doc", doc)]
    groups = names("by", ["run"] if by is None and "run" in left_schema else by)
    both = {"query": query, "doc": doc}
    find_columns(left_schema, {"by": groups, **both, "score": score}, table="`rankings`")
    find_columns(right_schema, {**both, "label": label}, table="`judgments`")
    for name in right_schema:
        if name in left_schema and name not in keys:
            msg = (
                f"column {name!r} is in `rankings` and in `judgments`; rename it or drop it in one"
            )
            raise SchemaError(msg, "rankings", "judgments")
    types = {key: common_type(left_schema[key], right_schema[key]) for key in keys}
    for key, dtype in types.items():
        if dtype is None:
            found = f"{left_schema[key]} in `rankings` and {right_schema[key]} in `judgments`"
            msg = (
                f"column {key!r} is {found}, so that no row would match; cast one of them, as in "
                f"judgments.cast({{{key!r}: pl.{left_schema[key]}}})"
            )
            raise SchemaError(msg)

    left, right = left.cast(types), right.cast(types)  # type: ignore[arg-type]
    others = [name for name in left_schema if name not in (*groups, *keys, score)]
    for name in others:
        check_name(name)
    if groups or others:
        left = left.cache()  # it is read once, though several parts of the plan look at it
    if groups:
        right = left.select(groups).unique().join(right, how="cross")
    queries = names("query", query)
    right = _with_constants(right, left, others, [(*groups, *queries), queries, groups])
    joined = (
        left.join(right, on=[*groups, *keys], how="full", coalesce=True, nulls_equal=True)
        .with_columns(pl.coalesce(name, OWN + name) for name in others)
        .drop(OWN + name for name in others)
    )
    eager = not isinstance(rankings, pl.LazyFrame) and not isinstance(judgments, pl.LazyFrame)
    return joined.collect(engine="streaming") if eager else joined


def _without_numbers(table: pl.LazyFrame) -> pl.LazyFrame:
    """Drop the columns in which `scan_log` numbers lists: the joined rows are in other lists."""
    return table.drop(name for name in schema_of(table) if name.startswith(OWN))


def _with_constants(
    judgments: pl.LazyFrame,
    rankings: pl.LazyFrame,
    others: Sequence[str],
    levels: Sequence[Sequence[str]],
) -> pl.LazyFrame:
    """Add those columns of the rankings that never change within a ranking, a query or a run.

    A column that changes within any of them is one of documents, and null.
    """
    if not others:
        return judgments
    parts = list(dict.fromkeys(tuple(keys) for keys in levels if keys))
    for index, keys in enumerate(parts):
        values = rankings.group_by(keys).agg(
            *(col(name).first().alias(f"{OWN}{index} {name}") for name in others),
            *(col(name).n_unique().alias(f"{OWN}count {name}") for name in others),
        )
        constants = values.select(
            *keys,
            *(
                pl.when(col(f"{OWN}count {name}").max() <= 1).then(f"{OWN}{index} {name}")
                for name in others
            ),
        )
        judgments = judgments.join(constants, on=keys, how="left", nulls_equal=True)
    added = {name: [f"{OWN}{index} {name}" for index in range(len(parts))] for name in others}
    return judgments.with_columns(
        pl.coalesce(columns).alias(OWN + name) for name, columns in added.items()
    ).drop(column for columns in added.values() for column in columns)
