"""Judges: agreement of people and language models on labels and on runs."""

from polars_rank.judges.agreements import agreement
from polars_rank.judges.confusions import confusion
from polars_rank.judges.systems import system_agreement

__all__ = ["agreement", "confusion", "system_agreement"]


def __dir__() -> list[str]:
    return __all__
