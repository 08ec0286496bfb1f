"""The sampling units of a click log: rankings, or clusters of rankings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from polars_rank._params import OWN
from polars_rank.errors import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Confidence level of the intervals of estimates.
CONFIDENCE = 0.95
#: With a lower effective sample size, intervals are unreliable. In simulations, 95% intervals
#: contain the true value in at least 95% of logs if the size is 5 to 50, in 82% to 87% if it is 2
#: to 3, and in 18% to 41% of logs if it is below 2 (tests/benchmarks/clicks_coverage.md).
MIN_SAMPLE_SIZE = 5
_SIZE = OWN + "size"


def unit_keys(cluster: Sequence[str], query: Sequence[str]) -> dict[str, pl.Expr]:
    """Return columns that identify the unit of a ranking, by internal names.

    A ranking with a null in a column of its cluster is a unit of its own. Empty without clusters.
    """
    if not cluster:
        return {}
    known = pl.all_horizontal(pl.col(name).is_not_null() for name in cluster)
    return {
        **{f"{OWN}unit {index}": pl.when(known).then(name) for index, name in enumerate(cluster)},
        **{f"{OWN}alone {index}": pl.when(~known).then(name) for index, name in enumerate(query)},
    }


def first_group(rows: pl.DataFrame, by: Sequence[str]) -> str:
    """Return the group of the first row as the end of a message; empty without groups."""
    return f", e.g. in {rows.select(by).row(0, named=True)}" if by else ""


def warn_of_few(groups: pl.DataFrame, size: pl.Expr, by: Sequence[str], advice: str) -> None:
    """Warn of groups with a small effective sample size."""
    sizes = groups.with_columns(size.alias(_SIZE)).sort(_SIZE)
    small = sizes.filter(pl.col(_SIZE) < MIN_SAMPLE_SIZE)
    if not small.is_empty():
        warn(
            f"the effective sample size is {small[_SIZE][0]:.3g}, below {MIN_SAMPLE_SIZE}"
            f"{first_group(small, by)}, so the interval is unreliable; {advice}"
        )
