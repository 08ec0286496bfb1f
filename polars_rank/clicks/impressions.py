"""A log of impressions, list by list: in flat memory where the lists come in order."""

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
    """Return the columns of a log of impressions: its order is the position, its label the click.

    Raise `SchemaError` where one is off.
    """
    given = {"query": query, "doc": doc, "click": click, "position": position, "by": by or ()}
    find_columns(schema, given, numbers=("click", "position"))
    return Columns.find(schema, query=query, doc=doc, score=position, label=click, by=by)


def is_click(click: str) -> pl.Expr:
    """Return whether a document was clicked; null where that is not known."""
    return pl.col(click).cast(pl.Float64) > 0


def per_list(
    log: pl.LazyFrame,
    columns: Columns,
    rows: Mapping[str, pl.Expr],
    values: Sequence[pl.Expr],
    checks: Sequence[Check] | None = None,
    beside: Callable[[pl.LazyFrame], pl.LazyFrame] = lambda log: log,
) -> tuple[pl.LazyFrame, Keys]:
    """Return values of each list, made of expressions over its rows, and how lists are told apart.

    The lists stand in order, under our own names for their keys. Rows must pass the checks, by
    default those of any log. `beside` may add columns to the
    log that the expressions read, and must keep the order of its rows.
    """
    lists, checks = Keys.of(columns), row_checks(columns) if checks is None else checks
    long = lists.checked(
        beside(lists.in_order(log)).select(
            *lists.named, *(row.alias(name) for name, row in rows.items()), failed(checks, "row")
        )
    )
    made = long.group_by(lists.group, maintain_order=True).agg(
        *lists.carried, *values, failed_in_ranking(checks)
    )
    checked = raise_failed(made, checks, log=log, keys=lists.names)
    return checked.set_sorted(lists.group), lists


def renamed(lists: Keys) -> list[pl.Expr]:
    """Return the keys of lists under the user's names."""
    return [pl.col(own).alias(name) for name, own in lists.names.items()]


#: A document, where it stood, and whether it was clicked, under our own names.
DOC, PLACE, CLICK = (pl.col(OWN + name) for name in ("doc", "place", "click"))
