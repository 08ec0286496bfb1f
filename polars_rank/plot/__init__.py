"""Pictures of rankings, as Altair charts (extra "plot"): to show, compose, save.

Every function takes a table that the library returns, or a log, aggregates it in Polars, and
returns an `altair.LayerChart` of a few thousand rows at most, whatever the size of the log.
`chart.save("x.png")` (or .svg, .html) needs no browser; charts compose with `|`, `&` and `+`, and
obey the theme that is enabled in Altair: they choose no colour of text or background themselves.

A run has a colour, a dash and a shape by its place among the sorted runs of the call; the baseline
is grey and first. `colors={"bm25": "#0072B2"}` chooses others.
"""

from polars_rank.plot.clicks import click_through
from polars_rank.plot.curves import at_k, gain, interpolated
from polars_rank.plot.distributions import distribution
from polars_rank.plot.drawing import style
from polars_rank.plot.forest import bounds, intervals, slices
from polars_rank.plot.pairs import differences, scatter
from polars_rank.plot.precision import pr_curve
from polars_rank.plot.runs import run_colors
from polars_rank.plot.times import over_time

__all__ = [
    "at_k",
    "bounds",
    "click_through",
    "differences",
    "distribution",
    "gain",
    "interpolated",
    "intervals",
    "over_time",
    "pr_curve",
    "run_colors",
    "scatter",
    "slices",
    "style",
]


def __dir__() -> list[str]:
    return __all__
