"""Moments of runs that are compared with a baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN, Names
from polars_rank.errors import DataError, SchemaError
from polars_rank.frames.tables import schema_of
from polars_rank.stats.moment_tables import (
    COMPANIONS,
    DIFFERENCE,
    KINDS,
    QUERY_KEYS,
    UNITS,
    VALUES,
    check_groups,
)
from polars_rank.stats.per_query_tables import (
    in_order,
    key_columns,
    warn_of_empty,
)
from polars_rank.stats.run_pairs import is_run, unknown_run

if TYPE_CHECKING:
    from collections.abc import Sequence


#: Column with the number of the baseline's rankings.
OF_BASELINE = OWN + "of baseline"
_IS_BASELINE = OWN + "is baseline"
#: Columns of lists, for tests that need the differences.
LIST_COLUMNS = (VALUES, QUERY_KEYS)


def groups_of_moments(schema: pl.Schema, by: Names | None, run: str, baseline: Any) -> list[str]:
    """Return the columns of `by`; raise unless the moments have differences in these groups."""
    if "baseline" not in schema:
        raise SchemaError(
            "the moments have no differences from a baseline; compute them with "
            f"run={run!r} and baseline={baseline!r}"
        )
    groups = [*key_columns(schema, by=by, run=run)["by"]]
    check_groups(schema, [*groups, run])
    return groups


def against_baseline(
    table: pl.LazyFrame,
    groups: Sequence[str],
    run: str,
    baseline: Any,
    *,
    empty_by: Sequence[str] | None = None,
    repeated: Sequence[str] = ("metric",),
) -> pl.LazyFrame:
    """Return the moments of the other runs, with the number of the baseline's rankings.

    A run without rankings in a group of the baseline has a row of zeros. Rows are in the order of
    groups, metrics and runs. For `empty_by` and `repeated` see `warn_of_empty`.
    """
    schema = schema_of(table)
    marked = table.with_columns(is_run(run, schema[run], baseline).alias(_IS_BASELINE))

    def others(rows: pl.DataFrame) -> pl.DataFrame:
        _check_runs(rows, run, baseline)
        warn_of_empty(rows, [*groups, run] if empty_by is None else empty_by, repeated)
        return rows

    checked = marked.map_batches(others).cache()
    with_mark = pl.Schema({**schema, _IS_BASELINE: pl.Boolean()})
    checked = pl.concat([checked, _rows_of_zeros(checked, with_mark, groups, run)])
    of_baseline = pl.col("queries").filter(pl.col(_IS_BASELINE)).first().over(*groups, "metric")
    rows = checked.with_columns(of_baseline.fill_null(0).alias(OF_BASELINE))
    rows = rows.filter(~pl.col(_IS_BASELINE))
    return in_order(rows, groups, [run]).drop(_IS_BASELINE)


def _rows_of_zeros(
    table: pl.LazyFrame, schema: pl.Schema, groups: Sequence[str], run: str
) -> pl.LazyFrame:
    """Return a row of zeros for each group and metric of the baseline that a run does not have."""
    others = table.filter(~pl.col(_IS_BASELINE))
    # `filter` with the name of a column would resolve the schema of the plan, which takes long.
    of_baseline = table.filter(pl.col(_IS_BASELINE)).drop(run)
    rows = of_baseline.join(others.select(run).unique(), how="cross").join(
        others.select(*groups, "metric", run),
        on=[*groups, "metric", run],
        how="anti",
        nulls_equal=True,
    )
    kept = {*groups, *KINDS, *UNITS, "binary", "baseline", run}
    means = {each + "mean" for each in ("", DIFFERENCE, *COMPANIONS)}
    empty = {
        name: pl.lit(None if name in means or not dtype.is_numeric() else 0, dtype=dtype)
        for name, dtype in schema.items()
        if name not in kept
    }
    empty[_IS_BASELINE] = pl.lit(value=False)
    empty |= {name: pl.lit([], dtype=schema[name]) for name in LIST_COLUMNS if name in schema}
    return rows.with_columns(value.alias(name) for name, value in empty.items()).select(*schema)


def _check_runs(rows: pl.DataFrame, run: str, baseline: Any) -> None:
    if not rows.height:
        return
    is_baseline = rows.get_column(_IS_BASELINE)
    values = rows.get_column(run).unique().sort()
    if not is_baseline.any():
        raise unknown_run(run, values.to_list(), "baseline", baseline)
    if is_baseline.all():
        raise DataError(
            f"the column {run!r} has only the run {values[0]!r}; put the per-query values of all "
            "runs in one table"
        )
    made_with = rows.get_column("baseline")[0]
    if made_with != str(baseline):
        raise DataError(
            f"the moments were computed with the baseline {made_with!r}; found `baseline` "
            f"{baseline!r}"
        )
