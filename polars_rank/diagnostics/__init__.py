"""Diagnostics: ties, unjudged documents, changes between runs and stages, robust verdicts."""

from polars_rank.diagnostics.answers import answerability
from polars_rank.diagnostics.approximate_search import fidelity
from polars_rank.diagnostics.bounds import judgment_bounds, tie_bands
from polars_rank.diagnostics.changes import movers
from polars_rank.diagnostics.pipelines import headroom, stages
from polars_rank.diagnostics.robust_verdicts import robustness
from polars_rank.diagnostics.similarity import overlap

__all__ = [
    "answerability", "fidelity", "headroom", "judgment_bounds", "movers", "overlap", "robustness",
    "stages", "tie_bands",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__
