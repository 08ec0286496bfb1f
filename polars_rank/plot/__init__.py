"""Altair charts of rankings (extra "plot").

Each function takes a log or a table that the library returns, aggregates it in Polars, and returns
an `altair.LayerChart` with at most a few thousand rows, whatever the size of the log.
`chart.save("x.png")` (or .svg, .html) works without a browser. With `inline=True`, HTML files
contain all scripts. Charts can be combined with `|`, `&` and `+`. They do not set the colors of
text and background, so the enabled Altair theme applies.

The color, dash pattern and shape of a run depend on its position among the sorted runs of the call;
the baseline is gray and comes first. Use `colors={"bm25": "#0072B2"}` to choose other colors.
"""

from polars_rank.plot.cutoff_curves import at_k
from polars_rank.plot.forest import bounds, intervals, leaderboard, slices
from polars_rank.plot.latency_curves import fidelity
from polars_rank.plot.precision import pr_curve
from polars_rank.plot.query_charts import differences, distribution
from polars_rank.plot.time_curves import over_time

__all__ = [
    "at_k", "bounds", "differences", "distribution", "fidelity", "intervals", "leaderboard",
    "over_time", "pr_curve", "slices",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
