"""Tables of rankings joined with the baseline's rankings of the same queries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from polars_rank._params import OWN
from polars_rank.checks import with_check
from polars_rank.frames.ids import is_text
from polars_rank.stats.value_columns import unknown_run

if TYPE_CHECKING:
    from collections.abc import Sequence

_BASELINE = OWN + "baseline "
_IN_BOTH = OWN + "in both"
_RUNS, _EXISTS = OWN + "runs", OWN + "there"
#: The number of runs that a message names.
_FIRST_RUNS = 10
#: Whether the baseline has a ranking of the same query.
PAIRED = pl.col(_IN_BOTH).fill_null(value=False)


def with_baseline(
    rankings: pl.LazyFrame, baseline: pl.LazyFrame, keys: Sequence[str], columns: Sequence[str]
) -> pl.LazyFrame:
    """Return rankings with columns of the baseline's rankings that have the same keys.

    `PAIRED` says whether there is such a ranking, and `baseline_of` returns its values.
    """
    values = (pl.col(name).alias(_BASELINE + name) for name in columns)
    base = baseline.select(*keys, *values, pl.lit(value=True).alias(_IN_BOTH))
    return rankings.join(base, on=keys, how="left", nulls_equal=True)


def baseline_of(column: str) -> pl.Expr:
    """Return the baseline's value of a column."""
    return pl.col(_BASELINE + column)


def is_run(run: str, dtype: pl.DataType, name: Any) -> pl.Expr:
    """Return whether a row belongs to a run."""
    column = (
        pl.col(run) if dtype == pl.String or not is_text(dtype) else pl.col(run).cast(pl.String)
    )
    return column.eq_missing(pl.lit(name))


def with_known_baseline(
    results: pl.LazyFrame, log: pl.LazyFrame, run: str, dtype: pl.DataType, baseline: Any
) -> pl.LazyFrame:
    """Return the results; collecting them raises if the log has no row of the baseline."""
    # Polars would hold the whole column for `pl.col(run).unique()`.
    runs = (
        log.select(run)
        .unique()
        .select(
            is_run(run, dtype, baseline).any().alias(_EXISTS),
            pl.col(run).sort().head(_FIRST_RUNS + 1).implode().alias(_RUNS),
        )
    )

    def check(rows: pl.DataFrame) -> None:
        names = [name for row in rows.get_column(_RUNS) for name in row]
        if names and not rows.get_column(_EXISTS).all():
            raise unknown_run(run, names, "baseline", baseline)

    return with_check(results, runs, check)
