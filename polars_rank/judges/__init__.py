"""Judges: agreement of people and language models, and conclusions from labels of both.

Experimental: names and results may change in a minor version without a deprecation.
"""

from typing import TYPE_CHECKING

from polars_rank._moved import missing
from polars_rank.judges.agreements import agreement
from polars_rank.judges.confusions import confusion
from polars_rank.judges.corrected_values import corrected
from polars_rank.judges.systems import system_agreement

__all__ = ["agreement", "confusion", "corrected", "system_agreement"]


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:
    __getattr__ = missing("judges")
