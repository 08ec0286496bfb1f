"""Statistics of per-query values: comparisons of runs, leaderboards, power, moments, gates."""

from polars_rank.stats.all_pairs import compare_all
from polars_rank.stats.leaderboards import leaderboard
from polars_rank.stats.moment_tables import merge, moments
from polars_rank.stats.planning import power
from polars_rank.stats.stored import scan_moments, write_moments
from polars_rank.stats.verdicts import write_junit, write_markdown

__all__ = [
    "compare_all",
    "leaderboard",
    "merge",
    "moments",
    "power",
    "scan_moments",
    "write_junit",
    "write_markdown",
    "write_moments",
]


def __dir__() -> list[str]:
    return __all__
