"""Judges: agreement of people and language models, and conclusions from labels of both.

Experimental: names and results may change in a minor version without a deprecation.
"""

from polars_rank.judges.agreements import agreement
from polars_rank.judges.confusions import confusion
from polars_rank.judges.estimates import estimate
from polars_rank.judges.systems import system_agreement

__all__ = ["agreement", "confusion", "estimate", "system_agreement"]


def __dir__() -> list[str]:
    return __all__
