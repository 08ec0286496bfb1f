"""Statistics of per-query values: pairwise comparisons, power, moments, and gate reports."""

from polars_rank.stats.all_pairs import compare_all
from polars_rank.stats.moment_tables import merge, moments
from polars_rank.stats.planning import power
from polars_rank.stats.stored import scan_moments, write_moments
from polars_rank.stats.verdicts import write_junit, write_markdown

__all__ = [
    "compare_all",
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
