"""Diagnostics: ties, unjudged documents, and changes between runs."""

from polars_rank.diagnostics.bounds import judgment_bounds, tie_bands
from polars_rank.diagnostics.changes import churn, headroom, movers
from polars_rank.diagnostics.similarity import overlap, rbo

__all__ = ["churn", "headroom", "judgment_bounds", "movers", "overlap", "rbo", "tie_bands"]


def __dir__() -> list[str]:
    return __all__
