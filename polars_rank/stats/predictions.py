"""Per-query values by people, joined with predicted values of all queries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN
from polars_rank.columns import Columns
from polars_rank.errors import DataError, SchemaError, number_of, warn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: Prefix of the columns of values by people; without a name, whether people judged the query.
HUMAN = OWN + "human "


def check_predictions(
    schema: pl.Schema, predictions: pl.Schema, columns: Sequence[str], metrics: Sequence[str]
) -> None:
    """Raise unless predictions have the metrics, and the other columns with the same types."""
    of_table = {"metrics": "predictions"}
    roles = {"metrics": metrics, "predictions": [*dict.fromkeys(columns)]}
    Columns.find(predictions, roles, parameters=of_table, table="`predictions`")
    for name in columns:
        if schema[name] != predictions[name]:
            raise SchemaError(
                f"column {name!r} must have the same type in `values` and `predictions`; found "
                f"{schema[name]} and {predictions[name]}; cast one of them"
            )


def with_predictions(
    human: pl.DataFrame,
    judged: pl.DataFrame,
    keys: Sequence[str],
    run: str | None,
    metrics: Sequence[str],
    roles: Mapping[str, str],
) -> pl.DataFrame:
    """Return the rows of predictions with the values by people beside them; check both tables.

    `roles` maps columns that a query must have in both tables to what they are.
    """
    if not human.height:
        raise DataError(
            "`values` has no rows: no query has labels of people; check the column of their labels"
        )
    lost = human.join(judged, on=keys, how="anti", nulls_equal=True).sort(keys)
    if lost.height:
        raise DataError(
            f"`predictions` has no row for {number_of(lost.height, 'row')} of `values`, e.g. "
            f"{lost.select(keys).row(0, named=True)}; compute predicted values, from predicted "
            "labels, for all queries that people judged, in all runs"
        )
    if run is not None:
        runs = judged.select(run).unique()
        unknown = runs.join(human, on=run, how="anti", nulls_equal=True).sort(run)
        if unknown.height:
            raise DataError(
                f"{number_of(unknown.height, 'run')} of `predictions` not found in `values`, e.g. "
                f"{unknown.row(0, named=True)}; evaluate the same runs in both tables"
            )
    roles = {name: role for name, role in roles.items() if name not in keys}
    beside = [pl.col(name).alias(HUMAN + name) for name in metrics]
    beside += [pl.col(name).alias(OWN + name) for name in roles]
    of_human = human.select(*keys, *beside, pl.lit(1.0).alias(HUMAN))
    joined = judged.join(of_human, on=keys, how="left", nulls_equal=True, maintain_order="left")
    for name, role in roles.items():
        differ = (pl.col(name).ne_missing(pl.col(OWN + name)) & pl.col(HUMAN).is_not_null()).sum()
        if count := joined.select(differ).item():
            raise DataError(
                f"{number_of(count, 'row')} of `values` have another {role} in `predictions` "
                f"(column {name!r}); use one {role} per query"
            )
    for name in metrics:
        undefined = pl.col(HUMAN + name).is_not_null() & pl.col(name).is_null()
        if count := joined.select(undefined.sum()).item():
            warn(
                f"{number_of(count, 'human value')} do not count, e.g. of {name!r}: the predicted "
                "value of the query is undefined (null)"
            )
    return joined.drop(OWN + name for name in roles)
