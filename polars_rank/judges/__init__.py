"""Judges: agreement of people and language models on labels."""

from polars_rank.judges.agreements import agreement
from polars_rank.judges.confusions import confusion

__all__ = ["agreement", "confusion"]


def __dir__() -> list[str]:
    return __all__
