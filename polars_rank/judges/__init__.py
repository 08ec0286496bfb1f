"""Judges: agreement of people and language models on labels, and corrected values of metrics."""

from polars_rank.judges.agreements import agreement
from polars_rank.judges.confusions import confusion
from polars_rank.judges.corrected_values import corrected

__all__ = ["agreement", "confusion", "corrected"]


def __dir__() -> list[str]:
    return __all__
