"""The columns of a log of impressions, and internal expressions over its documents."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from polars_rank._params import OWN, Names
from polars_rank.checks import Check, checks_of
from polars_rank.columns import Columns
from polars_rank.evaluation.checks import row_checks
from polars_rank.metrics.user_columns import no_count


def columns_of(
    schema: pl.Schema,
    query: Names,
    doc: str,
    click: str,
    position: str,
    by: Names | None,
    optional: Sequence[str] = (),
) -> Columns:
    """Return the columns, with positions as scores and clicks as labels.

    Without positions, clicks are the scores. A missing column or a wrong type raises `SchemaError`.
    """
    roles = {"by": by, "query": query, "doc": doc, "position": position, "click": click}
    columns = Columns.find(schema, roles, optional=optional)
    place = columns.one("position")
    return columns._replace(
        score=place or click, score_parameter="position" if place else "score", label=click,
        label_parameter="click",
    )  # fmt: skip


def impression_checks(columns: Columns) -> list[Check]:
    """Return the checks of ids, positions and clicks."""
    return [*row_checks(columns), *checks_of("row", no_count("click", columns.label))]


def is_click(click: str) -> pl.Expr:
    """Return whether a document was clicked; null if the click is null."""
    return pl.col(click).cast(pl.Float64) > 0


#: The document, its position, and whether it was clicked, as columns with internal names.
DOC, PLACE, CLICK = (pl.col(OWN + name) for name in ("doc", "place", "click"))
