"""What rows must not hold: the rules, how they are counted, and the error that explains them.

A rule is a boolean expression that is true for a row at fault; its name says what is wrong.
All rules are counted in the same pass as the metrics. Only when something is at fault is the
log read again, to say how often each rule is broken and to show a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank.errors import DataError
from polars_rank.metrics.metric import one_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from polars_rank.columns import Columns

FAULTS = "__faults"
_FAULT = "__fault"


def rules(
    columns: Columns, of_labels: Mapping[str, Callable[[pl.Expr], pl.Expr]]
) -> dict[str, pl.Expr]:
    """Return the row rules of a frame: what is wrong → whether this row is at fault."""
    found = {
        f"null in the column {name!r} (query); drop these rows or give them an id": pl.col(
            name
        ).is_null()
        for name in columns.query
    }
    if columns.doc is not None:
        # A row of nothing but a query stands for a list without documents.
        names = f"null in the column {columns.doc!r} (doc); drop these rows or pass doc=None"
        found[names] = pl.col(columns.doc).is_null() & (
            pl.col(columns.score).is_not_null() | pl.col(columns.label).is_not_null()
        )
    for role, name in (("score", columns.score), ("label", columns.label)):
        if columns.schema[name].is_float():
            found[f"NaN or infinite {role} in the column {name!r}; use null for 'unknown'"] = ~(
                pl.col(name).is_finite()
            )
    for problem, condition in of_labels.items():
        name = f"{columns.label!r} {problem}"
        found[name] = condition(columns.number(columns.label))
    return found


def fault(found: Mapping[str, pl.Expr]) -> pl.Expr:
    """Return whether a row breaks any of the rules."""
    broken = pl.any_horizontal(*found.values()) if found else pl.lit(value=False)
    return broken.fill_null(value=False).alias(_FAULT)


def faults(doc: str | None) -> pl.Expr:
    """Return how many rows of one list are at fault, repeated documents among them."""
    count = pl.col(_FAULT).sum()
    return count if doc is None else count + pl.len() - pl.col(doc).n_unique()


def raise_for_faults(
    results: pl.LazyFrame, log: pl.LazyFrame, columns: Columns, found: Mapping[str, pl.Expr]
) -> pl.LazyFrame:
    """Drop the column of faults from the results; collecting them raises if one is not 0."""

    def check(batch: pl.DataFrame) -> pl.DataFrame:
        if batch.get_column(FAULTS).sum():
            raise explanation(log, columns, found)
        return batch.drop(FAULTS)

    schema = results.collect_schema()
    kept = {name: dtype for name, dtype in schema.items() if name != FAULTS}
    return results.map_batches(check, schema=kept, streamable=True)


def explanation(log: pl.LazyFrame, columns: Columns, found: Mapping[str, pl.Expr]) -> DataError:
    """Read the log again and return the error that says what is wrong, how often and where."""
    problems = []
    counts = log.select(
        pl.col(columns.score).len().alias("rows"),
        *(condition.sum().alias(problem) for problem, condition in found.items()),
    ).collect(engine="streaming")
    for problem, condition in found.items():
        count = counts.get_column(problem).item()
        if count:
            row = log.filter(condition).head(1).collect(engine="streaming").row(0, named=True)
            problems.append(f"{count:,} of {counts['rows'].item():,} rows: {problem}; e.g. {row}")
    if columns.doc is not None:
        pairs = [*columns.keys, columns.doc]
        twice = (
            log.filter(~pl.any_horizontal(pl.col(name).is_null() for name in pairs))
            .group_by(pairs)
            .agg(pl.len().alias("rows"))
            .filter(pl.col("rows") > 1)
        ).collect(engine="streaming")
        if not twice.is_empty():
            row = twice.sort("rows", descending=True).row(0, named=True)
            count = f"{twice.height:,} document{'s' if twice.height > 1 else ''}"
            problems.append(
                f"duplicates in the column {columns.doc!r} (doc): {count} more than once in a "
                f"list; e.g. {row}; pass duplicates='max' or 'first', "
                "name the columns that tell lists apart with by=, or drop them with .unique()"
            )
    return DataError("\n".join(problems))


def without_duplicates(log: pl.LazyFrame, columns: Columns, keep: str) -> pl.LazyFrame:
    """Keep one row of each document in each list: the first, or the one of highest score."""
    one_of("duplicates", keep, ("error", "max", "first"))
    if columns.doc is None or keep == "error":
        return log
    if keep == "max":
        log = log.sort(columns.score, descending=True, nulls_last=True, maintain_order=True)
    return log.unique([*columns.keys, columns.doc], keep="first", maintain_order=True)
