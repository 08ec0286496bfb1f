"""Values per ranking of a log of impressions; memory stays flat if rankings are in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN, Names, find_columns
from polars_rank.columns import Columns
from polars_rank.evaluation.checks import (
    Check,
    failed,
    failed_in_ranking,
    raise_failed,
    row_checks,
)
from polars_rank.evaluation.contiguity import Keys

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


def columns_of(
    schema: pl.Schema, query: Names, doc: str, click: str, position: str, by: Names | None
) -> Columns:
    """Return the columns of a log of impressions, with positions as scores and clicks as labels.

    Raise `SchemaError` for a missing column or a wrong type.
    """
    roles = {
        "query": query,
        "doc": doc,
        "click": click,
        "position": position,
        "by": by or (),
    }
    find_columns(schema, roles, numbers=("click", "position"))
    return Columns.find(schema, query=query, doc=doc, score=position, label=click, by=by)


def is_click(click: str) -> pl.Expr:
    """Return whether a document was clicked; null if unknown."""
    return pl.col(click).cast(pl.Float64) > 0


def per_ranking(
    log: pl.LazyFrame,
    columns: Columns,
    inputs: Mapping[str, pl.Expr],
    values: Sequence[pl.Expr],
    checks: Sequence[Check] | None = None,
    add_columns: Callable[[pl.LazyFrame], pl.LazyFrame] | None = None,
) -> tuple[pl.LazyFrame, Keys]:
    """Return values of each ranking, computed from expressions over its rows, and the keys.

    The rankings are sorted by their keys, which have internal names. Rows must pass the checks
    (default: those of any log). `add_columns` may add columns to the log for the expressions to
    read, and must keep the order of the rows.
    """
    keys, checks = Keys.of(columns), row_checks(columns) if checks is None else checks
    columns_of_rows = [row.alias(name) for name, row in inputs.items()]
    rows = keys.rows(log, [*columns_of_rows, failed(checks, "row")], add_columns)
    rankings = rows.group_by(keys.group, maintain_order=True).agg(
        *keys.carried, *values, failed_in_ranking(checks)
    )
    checked = raise_failed(rankings, checks, log=log, keys=keys.names)
    return checked.set_sorted(keys.group), keys


def user_keys(keys: Keys) -> list[pl.Expr]:
    """Return the keys of rankings under the user's names."""
    return [pl.col(own).alias(name) for name, own in keys.names.items()]


#: A document, its position, and whether it was clicked, under internal names.
DOC, PLACE, CLICK = (pl.col(OWN + name) for name in ("doc", "place", "click"))
